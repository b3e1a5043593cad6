//! `status`, for people: from the JSON that the node answers, whichever version it is of.

use super::units;
use crate::next::Next;
use hookwright_core::text::{escape, shown};
use serde_json::Value;
use std::fmt::Write as _;

/// Characters of what others wrote that stand on a line.
const CHARS: u32 = 200;

/// How the node stands.
pub(crate) fn text(status: &Value, now_ms: u64, next: &Next) -> String {
    let mut out = String::new();
    node(&mut out, status, next);
    for tenant in list(&status["tenants"]) {
        let _ = writeln!(out, "tenant {}", word(&tenant["id"]));
        for plugin in list(&tenant["plugins"]) {
            let _ = writeln!(out, "  plugin {}", word(&plugin["id"]));
            plugin_lines(&mut out, plugin);
        }
    }
    reload(&mut out, &status["reload"], now_ms);
    jobs(&mut out, &status["jobs"], now_ms);
    approvals(&mut out, &status["approvals"], now_ms, next);
    if let Some(error) = status["error"].as_str() {
        let _ = writeln!(out, "the store can't be read: {}", shown(error, CHARS));
    }
    out
}

fn node(out: &mut String, status: &Value, next: &Next) {
    let node = &status["node"];
    if node.is_null() {
        let _ = match status["starting_or_ending"].as_u64() {
            Some(pid) => writeln!(out, "node   process {pid} is starting or ending"),
            None => writeln!(out, "node   none runs; start one: {}", next.command("serve --background")),
        };
        let _ = writeln!(out, "store  {}", word(&status["store"]));
        return;
    }
    let up = units::took_whole(number(&node["uptime_ms"]));
    let _ = writeln!(out, "node   process {}, version {}, up {up}", number(&node["pid"]), word(&node["version"]));
    let ends = match (node["stopping"] == true, node["idle_ms"].as_u64(), node["idle_left_ms"].as_u64()) {
        (true, _, _) => Some("it is about to end".to_owned()),
        (_, Some(after), None) => Some(format!("after {} without work; it has work", units::took_whole(after))),
        (_, Some(after), Some(left)) => {
            Some(format!("after {} without work; {} left", units::took_whole(after), units::took_whole(left)))
        }
        (_, None, _) => None,
    };
    for (name, value) in [
        ("ends", ends),
        ("socket", Some(word(&node["socket"]))),
        ("store", Some(word(&node["store"]))),
        ("config", node["config"].as_str().map(escape)),
    ] {
        if let Some(value) = value {
            let _ = writeln!(out, "{name:<6} {value}");
        }
    }
}

fn plugin_lines(out: &mut String, plugin: &Value) {
    let names = list(&plugin["hooks"]).iter().map(|hook| word(&hook["call"]));
    let wide = names.map(|name| name.chars().count()).max().unwrap_or(0).clamp(20, 60);
    for tool in list(&plugin["tools"]) {
        let state = match tool["state"].as_str() {
            Some(state) => escape(state),
            None => "one for each session".to_owned(),
        };
        let mut line = format!("    tool   {:<14} {:<5} {state}", word(&tool["id"]), word(&tool["transport"]));
        match tool["starts"].as_u64() {
            Some(starts) if starts > 1 => drop(write!(line, ", {}", units::plural(starts - 1, "restart"))),
            _ => {}
        }
        if let Some(functions) = tool["functions"].as_array() {
            let _ = write!(line, ", {}", units::plural(functions.len() as u64, "function"));
        }
        for (before, value) in [("", &tool["server"]), ("MCP ", &tool["protocol"])] {
            if let Some(value) = value.as_str() {
                let _ = write!(line, ", {before}{}", shown(value, 80));
            }
        }
        let _ = writeln!(out, "{line}");
        // What a server says of itself stands behind a bar.
        let error = tool["last_error"].as_str().or(tool["error"].as_str().filter(|_| tool["state"].is_string()));
        if let Some(error) = error {
            let _ = writeln!(out, "           │ {}", shown(error, CHARS));
        }
    }
    for hook in list(&plugin["hooks"]) {
        let state = match hook["loaded"].as_bool() {
            Some(true) => "loaded",
            Some(false) => "NOT LOADED",
            None => "of each session's own server",
        };
        let _ = writeln!(out, "    hook   {:<14} {:<wide$} {state}", word(&hook["on"]), word(&hook["call"]));
    }
    for hook in list(&plugin["lifecycle"]) {
        let name = format!("{}.{}", word(&hook["tool"]), word(&hook["function"]));
        let state = if hook["on"] == true { "on".to_owned() } else { format!("off: {}", word(&hook["why"])) };
        let _ = writeln!(out, "    hook   {:<14} {name:<wide$} {state}", "lifecycle");
    }
    for agent in list(&plugin["agents"]) {
        let _ = writeln!(out, "    agent  {}", word(agent));
    }
}

/// What came of reading the configuration again, last.
fn reload(out: &mut String, reload: &Value, now_ms: u64) {
    if reload.is_null() {
        return;
    }
    let when = units::ago(number(&reload["at_ms"]), now_ms);
    let how = if reload["ok"] == true { "taken over" } else { "REFUSED, everything stayed as it was" };
    let _ = writeln!(out, "reload {when}, {how}");
    let error = reload["error"].as_str().unwrap_or_default().lines();
    for line in list(&reload["changes"]).iter().filter_map(Value::as_str).chain(error).take(20) {
        let _ = writeln!(out, "           │ {}", shown(line, CHARS));
    }
}

fn jobs(out: &mut String, jobs: &Value, now_ms: u64) {
    if jobs.is_null() {
        return;
    }
    let (all, running) = (number(&jobs["unfinished"]), number(&jobs["running"]));
    let _ = writeln!(out, "jobs   {all} not over, {running} running");
    let here = list(&jobs["here"]);
    for job in list(&jobs["listed"]) {
        let place = match job["running"] == true {
            true if here.contains(&job["job"]) => "in this node",
            true => "in another process",
            false => "nobody runs it",
        };
        let changed = units::ago(number(&job["updated_ms"]), now_ms);
        let (id, status, agent) = (word(&job["job"]), word(&job["status"]), word(&job["agent"]));
        let _ = writeln!(out, "    {id}  {status}, {place}, agent {agent}, tenant {}, {changed}", word(&job["tenant"]));
    }
    left_out(out, all, list(&jobs["listed"]));
    for job in list(&jobs["queued_listed"]) {
        let _ = writeln!(out, "    {}  waits for a place: its tenant has as many jobs under way as it may", word(job));
    }
    left_out(out, number(&jobs["queued"]), list(&jobs["queued_listed"]));
    for left in list(&jobs["left_listed"]) {
        let _ = writeln!(out, "    {}  can't go on:", word(&left["job"]));
        for text in [&left["why"], &left["hint"]].into_iter().filter_map(Value::as_str) {
            for line in text.lines().take(20) {
                let _ = writeln!(out, "           │ {}", shown(line, CHARS));
            }
        }
    }
}

fn approvals(out: &mut String, approvals: &Value, now_ms: u64, next: &Next) {
    if approvals.is_null() {
        return;
    }
    let open = number(&approvals["open"]);
    let how = if open == 0 { String::new() } else { format!("; look: {}", next.command("approvals list")) };
    let _ = writeln!(out, "asked  {} for a person{how}", units::plural(open, "approval"));
    for row in list(&approvals["listed"]) {
        let expires = match units::ahead(number(&row["expires_ms"]), now_ms).as_str() {
            "over" => "its time is over".to_owned(),
            ahead => format!("counts as no {ahead}"),
        };
        let _ =
            writeln!(out, "    {}  {}, {expires}, {}", word(&row["approval"]), word(&row["about"]), word(&row["job"]));
        for reason in list(&row["reasons"]) {
            let _ = writeln!(out, "           │ {}", word(reason));
        }
    }
    left_out(out, open, list(&approvals["listed"]));
}

fn left_out(out: &mut String, all: u64, listed: &[Value]) {
    let more = all.saturating_sub(listed.len() as u64);
    if more > 0 {
        let _ = writeln!(out, "    … and {more} more");
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// A text of others, on one line.
fn word(value: &Value) -> String {
    match value.as_str() {
        Some(text) => shown(text, CHARS),
        None => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_that_others_wrote_reaches_the_terminal_as_it_is() {
        let bad = "\u{1b}[2J\u{202e}x\ny";
        let status = json!({
            "node": {"pid": 1, "version": bad, "socket": bad, "store": bad, "config": bad, "uptime_ms": 5},
            "tenants": [{"id": bad, "plugins": [{
                "id": bad, "agents": [bad],
                "tools": [{"id": bad, "transport": bad, "state": bad, "starts": 3, "server": bad, "protocol": bad, "last_error": bad}],
                "hooks": [{"on": bad, "call": bad}],
                "lifecycle": [{"tool": bad, "function": bad, "on": false, "why": bad}],
            }]}],
            "jobs": {"unfinished": 2, "running": 1, "listed": [{"job": bad, "status": bad, "agent": bad, "tenant": bad}],
                "left_listed": [{"job": bad, "why": bad, "hint": bad}], "queued": 1, "queued_listed": [bad]},
            "reload": {"at_ms": 1, "ok": false, "changes": [bad], "error": bad},
            "approvals": {"open": 1, "listed": [{"approval": bad, "about": bad, "job": bad, "reasons": [bad]}]},
            "error": bad,
        });
        let text = text(&status, 0, &Next::default());
        assert!(!text.chars().any(|c| c != '\n' && hookwright_core::text::is_hidden(c)), "{text:?}");
        // A line break of theirs begins no line of ours, but behind a bar.
        assert!(text.lines().all(|line| !line.starts_with('y')), "{text}");
        assert!(text.contains("2 restarts") && text.contains("… and 1 more"), "{text}");
    }

    #[test]
    fn whatever_comes_is_told() {
        for odd in
            [json!(null), json!([]), json!("x"), json!({"node": 1, "jobs": [], "tenants": {"a": 1}, "approvals": 3})]
        {
            assert!(!text(&odd, 0, &Next::default()).is_empty());
        }
    }
}
