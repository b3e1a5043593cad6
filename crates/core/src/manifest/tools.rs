//! `tools:` entries.

use super::credentials::{self, Carrier};
use super::lower::Context;
use super::{DEFAULT_START_TIMEOUT_MS, MAX_START_TIMEOUT_MS, McpDecl, Pass, Scope, ToolDecl, reserved};
use crate::diagnostic::{Code, shown, sounds_secret};
use crate::yaml::{Fields, Kind, Node};
use std::collections::BTreeMap;

const KEYS: [&str; 9] =
    ["id", "mcp", "env", "headers", "scope", "idempotent", "trust_annotations", "start_timeout", "passes"];

pub(super) fn tool(cx: &mut Context<'_, '_>, node: &Node, path: &str) -> Option<ToolDecl> {
    let fields = cx.read.fields(node, "a tool", &KEYS)?;
    let id = cx.read.required(&fields, "id", "a tool", "e.g. `id: github`").and_then(|node| {
        cx.note(format!("{path}/id"), node.place);
        id(cx, node)
    });
    let mcp = cx
        .read
        .required(&fields, "mcp", "a tool", "a command as a list, or the address of an MCP server")
        .and_then(|node| {
            cx.note(format!("{path}/mcp"), node.place);
            mcp(cx, node, &fields, path)
        });
    // Each of these: an absent key gives its default, a faulty one makes the whole tool faulty.
    let scope = match fields.get("scope") {
        Some(node) => cx.read.choice(node, "`scope`", &[("node", Scope::Node), ("session", Scope::Session)]).map(Some),
        None => Some(None),
    };
    let idempotent = match fields.get("idempotent") {
        Some(node) => {
            let entries = cx.read.texts(node, "`idempotent`", true);
            entries.map(|entries| cx.noted(&format!("{path}/idempotent"), entries))
        }
        None => Some(Vec::new()),
    };
    let trust_annotations = match fields.get("trust_annotations") {
        Some(node) => cx.read.boolean(node, "`trust_annotations`"),
        None => Some(false),
    };
    let start_timeout_ms = match fields.get("start_timeout") {
        Some(node) => cx.read.duration(node, "`start_timeout`", 1..=MAX_START_TIMEOUT_MS),
        None => Some(DEFAULT_START_TIMEOUT_MS),
    };
    let passes = match fields.get("passes") {
        Some(node) => passes(cx, node),
        None => Some(Vec::new()),
    };
    if let (Some(Some(Scope::Node)), Some(passes), Some(entry)) = (scope, &passes, fields.entry("passes"))
        && let Some((name, _)) = Pass::NAMED.iter().find(|(_, pass)| pass.is_of_server() && passes.contains(pass))
    {
        let message =
            format!("`{name}` can't be passed by a server that sessions share: whose client is asked or told?");
        cx.read.error(entry.key_place, Code::KeyConflict, message).hint("leave out `scope: node`, or that entry");
        return None;
    }
    Some(ToolDecl {
        id: id?,
        mcp: mcp?,
        scope: scope?,
        idempotent: idempotent?,
        trust_annotations: trust_annotations?,
        start_timeout_ms: start_timeout_ms?,
        passes: passes?,
    })
}

fn passes(cx: &mut Context<'_, '_>, node: &Node) -> Option<Vec<Pass>> {
    let items = cx.read.list(node, "`passes`")?;
    if items.is_empty() {
        cx.read
            .error(node.place, Code::EmptyList, "`passes` is an empty list")
            .hint("leave the key out, or name at least one");
        return None;
    }
    let mut passes = Vec::with_capacity(items.len());
    let mut good = true;
    for item in items {
        match cx.read.choice(item, "an entry of `passes`", &Pass::NAMED) {
            Some(pass) if passes.contains(&pass) => {
                cx.read.warn(item.place, Code::DuplicateEntry, "an entry stands twice in `passes`");
            }
            Some(pass) => passes.push(pass),
            None => good = false,
        }
    }
    good.then_some(passes)
}

fn id(cx: &mut Context<'_, '_>, node: &Node) -> Option<String> {
    let id = cx.read.id(node, "a tool's `id`")?;
    if reserved::is_reserved(id) {
        let whose = if reserved::HARNESSES.contains(&id) { "a harness's own tools" } else { "built-in functions" };
        cx.read
            .error(node.place, Code::ReservedId, format!("the tool id `{id}` is reserved for {whose}"))
            .hint("take another id");
        return None;
    }
    Some(id.to_owned())
}

fn mcp(cx: &mut Context<'_, '_>, node: &Node, fields: &Fields<'_>, path: &str) -> Option<McpDecl> {
    // Both are read, so that their faults are said even where they can't stand.
    let mut values = |key: &str, carrier| match fields.get(key) {
        Some(node) => credentials::read(cx, node, carrier, &format!("{path}/{key}")),
        None => Some(BTreeMap::new()),
    };
    let env = values("env", Carrier::Environment);
    let headers = values("headers", Carrier::Headers);
    match &node.kind {
        Kind::List(_) => {
            let why = "`headers` are for HTTP servers; this one is started as a command";
            let alone = refuse_key(cx, fields, "headers", why, "env");
            let command = command(cx, node, "`mcp`");
            alone.then_some(McpDecl::Stdio { command: command?, env: env? })
        }
        Kind::Text(text) => {
            let why = "`env` is for servers that are started as a command; this one is reached over HTTP";
            // A command that was written as text is another fault.
            let alone = !text.contains("://") || refuse_key(cx, fields, "env", why, "headers");
            let url = url(cx, node, text);
            let (url, headers) = (url?, headers?);
            if !headers.is_empty() && is_plain_remote(&url) {
                let message = "the headers of this server go unencrypted over the network";
                cx.read.warn(node.place, Code::PlainHttp, message).hint("use https://");
            }
            alone.then_some(McpDecl::Http { url, headers })
        }
        _ => {
            cx.read
                .wrong_type(node, "`mcp`", "a command as a list, or the address of an MCP server")
                .hint("e.g. [\"python\", \"-m\", \"policy.server\"], or https://mcp.example.com/mcp");
            None
        }
    }
}

/// Says so where a key stands that does not go with this kind of server. True: it does not stand.
fn refuse_key(cx: &mut Context<'_, '_>, fields: &Fields<'_>, key: &str, why: &str, right: &str) -> bool {
    let Some(entry) = fields.entry(key) else { return true };
    cx.read.error(entry.key_place, Code::KeyConflict, why).hint(format!("leave it out, or use `{right}`"));
    false
}

/// A program and its arguments under a key.
pub(super) fn command(cx: &mut Context<'_, '_>, node: &Node, key: &str) -> Option<Vec<String>> {
    let Kind::List(items) = &node.kind else {
        cx.read.wrong_type(node, key, "a command as a list").hint("e.g. [\"python\", \"-m\", \"policy.server\"]");
        return None;
    };
    if items.is_empty() {
        cx.read
            .error(node.place, Code::EmptyList, format!("{key} is an empty list: expected a program and its arguments"))
            .hint("e.g. [\"python\", \"-m\", \"policy.server\"]");
        return None;
    }
    let mut words = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let word = if i == 0 {
            cx.read.filled(item, &format!("the program in {key}"), false)
        } else {
            cx.read.text(item, &format!("an argument in {key}"))
        };
        words.push(word.and_then(|word| {
            if word.contains('\0') {
                cx.read.error(
                    item.place,
                    Code::InvalidText,
                    format!("an argument in {key} holds the character U+0000"),
                );
                return None;
            }
            let what = format!("an argument in {key}");
            let clean = credentials::refuse_secret(cx, item.place, word, &what, "`env` and `from`");
            clean.then(|| word.to_owned())
        }));
    }
    words.into_iter().collect()
}

/// An absolute `http` or `https` address without user, password and fragment.
fn url(cx: &mut Context<'_, '_>, node: &Node, text: &str) -> Option<String> {
    if !credentials::refuse_secret(cx, node.place, text, "`mcp`", "`headers` and `from`") {
        return None;
    }
    let bad = |cx: &mut Context<'_, '_>, why: &str, hint: Option<String>| {
        let message = format!("`mcp` is `{}`: {why}", shown(text));
        cx.read.error(node.place, Code::InvalidUrl, message).maybe_hint(hint);
        None
    };
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest else {
        let hint = if text.contains("://") || text.is_empty() {
            "an address begins with https:// or http://; a command is a list".to_owned()
        } else if let Some(rest) = strip_scheme_case(text) {
            format!("write https://{}", shown(rest))
        } else {
            let words: Vec<String> = text.split_whitespace().take(8).map(|w| format!("\"{}\"", shown(w))).collect();
            format!("write a command as a list: [{}]", words.join(", "))
        };
        return bad(cx, "expected an address that begins with https:// or http://", Some(hint));
    };
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return bad(cx, "white space in an address", None);
    }
    if text.contains('#') {
        return bad(cx, "an address has no fragment (`#…`)", None);
    }
    let authority = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    if authority.contains('@') {
        return bad(
            cx,
            "a user's name in an address",
            Some("use `headers: { Authorization: { from: VARIABLE } }`".into()),
        );
    }
    if !is_authority(authority) {
        return bad(
            cx,
            "expected a host and perhaps a port after the scheme",
            Some("e.g. https://mcp.example.com/mcp".into()),
        );
    }
    let query = text.split_once('?').map_or("", |(_, query)| query);
    let named = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(name, _)| sounds_secret(name));
    if let Some((name, _)) = named {
        let message = format!("the parameter `{}` in the address may be a secret, by its name", shown(name));
        cx.read
            .warn(node.place, Code::MaybeSecret, message)
            .hint("if it is one, send it as a header: headers: { Authorization: { from: VARIABLE } }");
    }
    Some(text.to_owned())
}

fn strip_scheme_case(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once(":/")?;
    scheme.to_ascii_lowercase().starts_with("http").then(|| rest.trim_start_matches('/'))
}

/// `host`, `host:port`, `[::1]:port`.
fn is_authority(authority: &str) -> bool {
    let (host, port) = if let Some(v6) = authority.strip_prefix('[') {
        let Some((address, tail)) = v6.split_once(']') else { return false };
        if address.parse::<std::net::Ipv6Addr>().is_err() {
            return false;
        }
        (address, tail.strip_prefix(':').or(tail.is_empty().then_some("1")))
    } else {
        match authority.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, Some("1")),
        }
    };
    let host_good = authority.starts_with('[')
        || (!host.is_empty() && host.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_')));
    let port_good = port.is_some_and(|p| {
        !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()) && p.parse::<u16>().is_ok_and(|p| p > 0)
    });
    host_good && port_good
}

/// `http` to a host that is not this machine.
fn is_plain_remote(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else { return false };
    let authority = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    let host =
        authority.rsplit_once(':').map_or(authority, |(host, port)| if port.contains(']') { authority } else { host });
    !(host == "localhost" || host.ends_with(".localhost") || host.starts_with("127.") || host == "[::1]")
}
