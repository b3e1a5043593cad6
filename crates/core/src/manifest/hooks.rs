//! `hooks:` entries.

use super::lower::Context;
use super::{
    DEFAULT_EXPIRES_MS, DEFAULT_TIMEOUT_MS, HookDecl, MAX_EXPIRES_MS, MAX_TIMEOUT_MS, Match, OnTimeout, reserved,
};
use crate::FunctionName;
use crate::diagnostic::{Code, shown};
use crate::event::Moment;
use crate::yaml::{Kind, Node};

const KEYS: [&str; 7] = ["on", "call", "match", "timeout", "on_timeout", "expires", "approvers"];

pub(super) fn hook(cx: &mut Context<'_, '_>, node: &Node, path: &str) -> Option<HookDecl> {
    let fields = cx.read.fields(node, "a hook", &KEYS)?;
    let moments = Moment::ALL.map(|moment| (moment.name(), moment));
    let on = cx
        .read
        .required(&fields, "on", "a hook", "one of job_start, pre_tool_call, post_tool_call, job_end")
        .and_then(|node| {
            if matches!(node.kind, Kind::List(_)) {
                let said = cx.read.wrong_type(node, "`on`", "one of job_start, pre_tool_call, post_tool_call, job_end");
                said.hint("a hook is asked at one moment: make an entry for each");
                return None;
            }
            cx.read.choice(node, "`on`", &moments)
        });
    let call = cx.read.required(&fields, "call", "a hook", "the function to ask, e.g. `call: policy.check`").and_then(
        |node| {
            cx.note(format!("{path}/call"), node.place);
            call(cx, node)
        },
    );
    let matches = match fields.get("match") {
        Some(node) => matches(cx, node, on, path),
        None => Some(Match::default()),
    };
    let timeout_ms = match fields.get("timeout") {
        Some(node) => cx.read.duration(node, "`timeout`", 1..=MAX_TIMEOUT_MS),
        None => Some(DEFAULT_TIMEOUT_MS),
    };
    let outcomes = [("deny", OnTimeout::Deny), ("allow", OnTimeout::Allow), ("escalate", OnTimeout::Escalate)];
    let on_timeout = match fields.get("on_timeout") {
        Some(node) => cx.read.choice(node, "`on_timeout`", &outcomes),
        None => Some(OnTimeout::default()),
    };
    let expires_ms = match fields.get("expires") {
        Some(node) => cx.read.duration(node, "`expires`", 1_000..=MAX_EXPIRES_MS),
        None => Some(DEFAULT_EXPIRES_MS),
    };
    let approvers = match fields.get("approvers") {
        Some(node) => {
            let entries = cx.read.texts(node, "`approvers`", false);
            entries.map(|entries| cx.noted(&format!("{path}/approvers"), entries))
        }
        None => Some(Vec::new()),
    };
    Some(HookDecl {
        on: on?,
        call: call?,
        matches: matches?,
        timeout_ms: timeout_ms?,
        on_timeout: on_timeout?,
        expires_ms: expires_ms?,
        approvers: approvers?,
        line: fields.place().line,
    })
}

fn call(cx: &mut Context<'_, '_>, node: &Node) -> Option<FunctionName> {
    let text = cx.read.filled(node, "`call`", false)?;
    let Ok(name) = FunctionName::parse(text) else {
        cx.read
            .error(node.place, Code::InvalidCall, format!("`call` is `{}`: expected tool.function", shown(text)))
            .hint("e.g. policy.check: the tool's id, a dot, the function's name");
        return None;
    };
    if text.contains('*') {
        cx.read
            .error(
                node.place,
                Code::InvalidCall,
                format!("`call` is `{}`: a hook calls one function, not a pattern", shown(text)),
            )
            .hint("what a hook watches stands under `match`");
        return None;
    }
    if reserved::is_reserved(name.tool()) {
        cx.read
            .error(
                node.place,
                Code::ReservedId,
                format!("`call` is `{}`: `{}` is no tool of a plugin", shown(text), name.tool()),
            )
            .hint("a hook calls a function of a tool under `tools:`");
        return None;
    }
    if name.is_lifecycle() {
        cx.read
            .error(
                node.place,
                Code::LifecycleCall,
                format!(
                    "`call` is `{}`: functions that begin with `_` are lifecycle hooks, never policy hooks",
                    shown(text)
                ),
            )
            .hint("give the function a name without the `_`");
        return None;
    }
    Some(name)
}

fn matches(cx: &mut Context<'_, '_>, node: &Node, on: Option<Moment>, path: &str) -> Option<Match> {
    let fields = cx.read.fields(node, "`match`", &["tools", "agents"])?;
    let mut patterns = |key: &str| match fields.get(key) {
        Some(node) => {
            let entries = cx.read.texts(node, &format!("`match.{key}`"), false)?;
            Some(Some(cx.noted(&format!("{path}/match/{key}"), entries)))
        }
        None => Some(None),
    };
    let (tools, agents) = (patterns("tools"), patterns("agents"));
    if let (Some(entry), Some(on)) = (fields.entry("tools"), on)
        && !on.is_call()
    {
        cx.read
            .error(
                entry.key_place,
                Code::ToolsOnJobEvent,
                format!("`match.tools` on {}: no tool is involved there", on.name()),
            )
            .hint("use `match.agents`, or ask at pre_tool_call or post_tool_call");
        return None;
    }
    let found = Match { tools: tools?, agents: agents? };
    if found.tools.is_none() && found.agents.is_none() {
        // Where it has keys, they are unknown ones, and that was said.
        if matches!(&node.kind, Kind::Map(entries) if entries.is_empty()) {
            cx.read
                .error(node.place, Code::EmptyList, "`match` names neither `tools` nor `agents`")
                .hint("leave `match` out to watch everything");
        }
        return None;
    }
    for (i, pattern) in found.tools.iter().flatten().enumerate() {
        if !pattern.contains(['.', '*']) {
            let place = cx.places.get(&format!("{path}/match/tools/{i}")).copied().unwrap_or(node.place);
            cx.read
                .warn(
                    place,
                    Code::PatternFitsNothing,
                    format!("the pattern `{}` fits no function: names are tool.function", shown(pattern)),
                )
                .hint(format!("for all functions of a tool write {}.*", shown(pattern)));
        }
    }
    Some(found)
}
