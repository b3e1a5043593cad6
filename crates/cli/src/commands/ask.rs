//! `hookwright ask`: one event through its chain. Makes no call, opens no approval.

use crate::args::{AskArgs, Output};
use crate::exit::{self, CliError, CliResult};
use crate::settings::{Settings, read_bounded};
use crate::setup::{self, Tenant};
use crate::story::expect;
use crate::terminal::{data, json, note};
use hookwright_core::diagnostic::{nearest, shown};
use hookwright_core::event::{EventBody, EventHead, Moment, check_value};
use hookwright_core::hooks::HookSet;
use hookwright_core::json::parse_strict;
use hookwright_core::manifest::reserved::is_reserved;
use hookwright_core::text::{escape, escape_block};
use hookwright_runtime::ports::tools::Tools;
use hookwright_runtime::probe::{ProbeEvent, ProbeReport, probe};
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

/// Bytes of an event's file that are read at most: an event over 1 MiB is not sent anyway.
const EVENT_BYTES: u64 = 16 * 1024 * 1024;

/// What `ask --output json` prints.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    report: ProbeReport,
    /// Why the verdict may mean less than it seems: a function that is not there, an event that no hook matches. Escaped.
    warnings: Vec<String>,
}

pub(crate) async fn run(mut settings: Settings, args: AskArgs) -> CliResult {
    let expected = args.expect.as_deref().map(read_expected).transpose()?;
    let text = read_event(&args.event)?;
    let event = parse(&text)?;
    let tenant = setup::tenant(&mut settings, &args.plugins)?;
    settings.terminal.diagnostics(&tenant.warnings);
    let (mut head, body) = event;
    if head.agent.is_empty() {
        head.agent = tenant.agent(None).map_or_else(|_| "ask".to_owned(), |(_, a)| a.id.clone());
    }
    head.tenant = tenant.config.id.clone();
    let hooks = tenant.hooks(&head.agent);
    let needed = needed(&hooks, &head);
    let host = tenant.start_only(&settings.env, &|tool| needed.iter().any(|n| n == tool));
    let progress = crate::progress::waiting(settings.terminal, "asking".into());
    let work = async {
        let schema = schema(&tenant, &head, &*host).await;
        let odd = misspelled(&tenant, &head, &*host).await;
        let report = probe(&*host, &hooks, ProbeEvent { head, body, schema }, &tenant.config.limits).await;
        (report, odd)
    };
    let (report, odd) = tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => {
            crate::signals::end(host).await;
            return Ok(exit::CANCELLED);
        }
        () = crate::signals::stop() => {
            crate::signals::end(host).await;
            return Ok(exit::STOPPED);
        }
    };
    drop(progress);
    let mut warnings: Vec<String> = odd.into_iter().collect();
    if report.answers.is_empty() {
        warnings.push("no hook matches this event: see `on` and `match` in plugin.yaml".into());
    }
    let report = Report { report, warnings };
    match args.output {
        Output::Json => json(&report),
        Output::Text => {
            data(&text_of(&report));
            if report.report.answers.iter().any(|a| a.failed.is_some()) {
                note("next: --log hookwright::tool=info shows what servers write to their standard error");
            }
        }
    }
    crate::signals::end(host).await;
    let Some(expected) = expected else { return Ok(exit::OK) };
    let came = serde_json::to_value(&report).map_err(|e| CliError::failed(e.to_string()))?;
    let differences = expect::differences(&expected, &came);
    if differences.is_empty() {
        return Ok(exit::OK);
    }
    note("not what was expected:");
    for difference in differences {
        note(&format!("  {difference}"));
    }
    Ok(exit::FAILED)
}

/// Reads what must come.
fn read_expected(file: &Path) -> CliResult<Value> {
    let limit = usize::try_from(EVENT_BYTES).unwrap_or(usize::MAX);
    let bytes = read_bounded(file, limit)?;
    parse_strict(&String::from_utf8_lossy(&bytes)).map_err(|e| {
        CliError::usage(format!(
            "what is expected ({}) is no JSON: {}",
            crate::settings::shown(file),
            escape(&e.to_string())
        ))
    })
}

fn read_event(from: &str) -> CliResult<String> {
    let mut text = String::new();
    let what = if from == "-" { "standard input".to_owned() } else { escape(from) };
    let failed = |e: std::io::Error| CliError::usage(format!("the event in {what} can't be read: {e}"));
    if from == "-" {
        std::io::stdin().lock().take(EVENT_BYTES).read_to_string(&mut text).map_err(failed)?;
    } else {
        crate::files::open(from.as_ref())
            .and_then(|f| f.take(EVENT_BYTES).read_to_string(&mut text))
            .map_err(failed)?;
    }
    Ok(text)
}

/// Reads an event as hooks get it. `job`, `agent`, `tenant`, `node` and `call` may be left out; keys that begin with `_` are labels.
fn parse(text: &str) -> CliResult<(EventHead, EventBody)> {
    let wrong_for = |moment, why: String| {
        CliError::usage(format!("this is no event: {why}")).hint(format!("e.g. {}", sample(moment)))
    };
    let wrong = |why: String| wrong_for(Moment::PreToolCall, why);
    let value = parse_strict(text).map_err(|e| wrong(escape(&e.to_string())))?;
    let Value::Object(mut map) = value else { return Err(wrong("it is not a JSON object".into())) };
    // Hooks get the event under the key `event` of their arguments: that form is taken too.
    if let (1, Some(Value::Object(inner))) = (map.len(), map.get("event")) {
        map = inner.clone();
    }
    let name = text_of_key(&mut map, "event").map_err(wrong)?.ok_or_else(|| wrong("`event` is missing".into()))?;
    let moment = Moment::from_name(&name).ok_or_else(|| {
        let names: Vec<&str> = Moment::ALL.iter().map(|m| m.name()).collect();
        wrong(format!("`event` is {:?}; there are {}", escape(&name), names.join(", ")))
    })?;
    let wrong = |why: String| wrong_for(moment, why);
    let take_text = |map: &mut Map<String, Value>, key: &str| text_of_key(map, key).map_err(wrong);
    let head = EventHead {
        event: moment,
        job: take_text(&mut map, "job")?.unwrap_or_else(|| "ask".into()),
        agent: take_text(&mut map, "agent")?.unwrap_or_default(),
        tenant: take_text(&mut map, "tenant")?.unwrap_or_default(),
        node: take_text(&mut map, "node")?.unwrap_or_else(|| "ask".into()),
        parent_job: take_text(&mut map, "parent_job")?,
        call: take_text(&mut map, "call")?.or_else(|| moment.is_call().then(|| "ask".into())),
        tool: take_text(&mut map, "tool")?,
        alias: take_text(&mut map, "alias")?,
    };
    if moment.is_call() != head.tool.is_some() {
        return Err(wrong(if moment.is_call() {
            "`tool` is missing".into()
        } else {
            format!("`tool` does not belong to {name}")
        }));
    }
    let key = moment.key();
    let mut take = |key: &str| map.shift_remove(key).ok_or_else(|| wrong(format!("`{key}` is missing")));
    let value = take(key)?;
    let body = match moment {
        Moment::JobStart => EventBody::JobStart(value),
        Moment::PreToolCall => EventBody::PreToolCall(value),
        Moment::JobEnd => EventBody::JobEnd(value),
        Moment::PostToolCall => {
            let arguments = take("arguments")?;
            let error = match map.shift_remove("error") {
                None => false,
                Some(Value::Bool(b)) => b,
                Some(_) => return Err(wrong("`error` is not true or false".into())),
            };
            EventBody::PostToolCall { arguments, result: value, structured: map.shift_remove("structured"), error }
        }
    };
    match &body {
        EventBody::PreToolCall(v) => check_value(moment, v, None).map_err(|e| wrong(e.to_string()))?,
        EventBody::PostToolCall { arguments, result, .. } => {
            check_value(Moment::PreToolCall, arguments, None).map_err(|e| wrong(e.to_string()))?;
            check_value(moment, result, None).map_err(|e| wrong(e.to_string()))?;
        }
        EventBody::JobStart(_) | EventBody::JobEnd(_) => {}
    }
    if let Some(unknown) = map.keys().find(|k| !k.starts_with('_')) {
        return Err(wrong(format!("the key {:?} does not belong to {name}", escape(unknown))));
    }
    Ok((head, body))
}

fn text_of_key(map: &mut Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match map.shift_remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(s)) => Ok(Some(s)),
        Some(_) => Err(format!("`{key}` is not a string")),
    }
}

/// The smallest event of a moment.
fn sample(moment: Moment) -> &'static str {
    match moment {
        Moment::JobStart => r#"{"event":"job_start","input":"Review pull request 7."}"#,
        Moment::PreToolCall => r#"{"event":"pre_tool_call","tool":"github.push","arguments":{"branch":"main"}}"#,
        Moment::PostToolCall => {
            r#"{"event":"post_tool_call","tool":"github.push","arguments":{"branch":"main"},"result":"pushed","error":false}"#
        }
        Moment::JobEnd => r#"{"event":"job_end","output":"The pull request is fine."}"#,
    }
}

/// The tools whose servers the chain needs.
fn needed(hooks: &HookSet, head: &EventHead) -> Vec<String> {
    let names: Vec<&str> = head.tool.iter().chain(&head.alias).map(String::as_str).collect();
    let matching = hooks.matching(head.event, &head.agent, &names);
    let mut tools: Vec<String> = matching.into_iter().map(|i| hooks.hooks[i].call.tool().to_owned()).collect();
    // The called one's too: whether it lists the function, and what new arguments must fit.
    tools.extend(head.tool.as_deref().and_then(|t| t.split_once('.')).map(|(tool, _)| tool.to_owned()));
    tools
}

/// What a new value must fit.
async fn schema(tenant: &Tenant, head: &EventHead, tools: &dyn Tools) -> Option<Value> {
    let agent = || tenant.agent(Some(&head.agent)).ok().map(|(_, a)| a);
    match head.event {
        Moment::JobStart => agent().and_then(|a| a.input_schema.clone()),
        Moment::JobEnd => agent().and_then(|a| a.output_schema.clone()),
        Moment::PostToolCall => None,
        Moment::PreToolCall => {
            let (tool, function) = head.tool.as_deref()?.split_once('.')?;
            match tools.functions(tool).await {
                Ok(listed) => listed.into_iter().find(|f| f.name == function).map(|f| f.input_schema),
                Err(_) => None,
            }
        }
    }
}

/// What is wrong with the function that an event names, if it can't be one of these plugins' nor of a harness's.
async fn misspelled(tenant: &Tenant, head: &EventHead, tools: &dyn Tools) -> Option<String> {
    let name = head.tool.as_deref()?;
    let meant = |near: Option<&str>| near.map_or(String::new(), |near| format!("; did you mean {near}?"));
    let Some((tool, function)) = name.split_once('.') else {
        return Some(format!("{} is no full name of a function: expected tool.function", shown(name)));
    };
    if is_reserved(tool) || head.alias.is_some() {
        return None;
    }
    if !is_declared(tenant, tool) {
        // A policy is often tested without the plugins whose calls it watches: only what looks like a slip is one.
        let known = tenant.plugins.iter().flat_map(|p| p.parsed.manifest.tools.iter().map(|t| t.id.as_str()));
        let near = nearest(tool, known)?;
        return Some(format!("these plugins have no tool {}{}", shown(tool), meant(Some(near))));
    }
    match tools.functions(tool).await {
        Ok(listed) if listed.iter().any(|f| f.name == function) => None,
        Ok(listed) => {
            let near = nearest(function, listed.iter().map(|f| f.name.as_str())).map(shown);
            Some(format!("the tool {tool} lists no function {}{}", shown(function), meant(near.as_deref())))
        }
        Err(down) => Some(format!("whether {} is there can't be seen: {}", shown(name), escape(&down.why))),
    }
}

fn is_declared(tenant: &Tenant, tool: &str) -> bool {
    tenant.plugins.iter().any(|p| p.parsed.manifest.tools.iter().any(|t| t.id == tool))
}

fn text_of(Report { report, warnings }: &Report) -> String {
    let mut out = format!("verdict  {}\n", report.verdict);
    for warning in warnings {
        let _ = writeln!(out, "warning  {warning}");
    }
    if let Some(says) = &report.says {
        let _ = writeln!(out, "says     {}", escape_block(says));
    } else {
        let value = serde_json::to_string(&report.value).unwrap_or_default();
        let _ = writeln!(out, "value    {}", escape(&hookwright_core::text::elide_middle(&value, 4_000)));
    }
    for answer in &report.answers {
        let changed = if answer.changed { "  changed the value" } else { "" };
        let _ = writeln!(out, "  {:<24} {:<9} {:>8.1} ms{changed}", escape(&answer.hook), answer.decision, answer.ms);
        for line in answer.failed.iter().chain(&answer.reason) {
            let _ = writeln!(out, "    {}", escape(line));
        }
    }
    out.trim_end().to_owned()
}
