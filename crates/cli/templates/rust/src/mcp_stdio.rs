//! The Model Context Protocol on the standard streams, as far as a hook server needs it. Log to standard error: standard output
//! belongs to the protocol.

use serde_json::{json, Value};
use std::io::{self, BufRead, Write};
use std::panic::catch_unwind;

/// A hook function: its name, what it does, and the function from an event to an answer.
pub type Hook = (&'static str, &'static str, fn(&Value) -> Result<Value, String>);

const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// A JSON-RPC error: its code and its message.
type Refused = (i64, String);

/// The result of `tools/call`. A hook that fails or panics is a failed call, so the manifest's `on_timeout` applies.
fn call(hooks: &[Hook], params: &Value) -> Result<Value, Refused> {
    let name = params["name"].as_str().unwrap_or_default();
    let (_, _, hook) = hooks.iter().find(|hook| hook.0 == name).ok_or((-32602, format!("unknown function: {name}")))?;
    let event = &params["arguments"]["event"];
    let answered = catch_unwind(|| hook(event)).unwrap_or_else(|_| Err("the hook panicked".to_owned()));
    Ok(match answered {
        Ok(answer) => json!({"content": [{"type": "text", "text": answer.to_string()}], "structuredContent": answer}),
        Err(why) => json!({"content": [{"type": "text", "text": why}], "isError": true}),
    })
}

/// The result of a request.
fn answer(name: &str, hooks: &[Hook], method: &str, params: &Value) -> Result<Value, Refused> {
    match method {
        "initialize" => {
            let asked = params["protocolVersion"].as_str();
            let version = VERSIONS.into_iter().find(|version| asked == Some(version)).unwrap_or(VERSIONS[0]);
            let server = json!({"name": name, "version": env!("CARGO_PKG_VERSION")});
            Ok(json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}))
        }
        "ping" => Ok(json!({})),
        "tools/list" => {
            let input = json!({"type": "object", "properties": {"event": {"type": "object"}}, "required": ["event"]});
            let listed = hooks.iter().map(|hook| json!({"name": hook.0, "description": hook.1, "inputSchema": input}));
            Ok(json!({"tools": listed.collect::<Vec<_>>()}))
        }
        "tools/call" => call(hooks, params),
        _ => Err((-32601, format!("unknown method: {method}"))),
    }
}

/// What is sent back for a line; nothing for a notification.
fn reply(name: &str, hooks: &[Hook], line: &[u8]) -> Option<Value> {
    let message: Value = serde_json::from_slice(line).unwrap_or_default();
    let Some(method) = message["method"].as_str() else {
        return Some(json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "not a JSON-RPC request"}}));
    };
    let id = message.get("id").filter(|id| !id.is_null())?;
    Some(match answer(name, hooks, method, &message["params"]) {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err((code, text)) => json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}),
    })
}

/// Answers requests until standard input ends.
pub fn serve(name: &str, hooks: &[Hook]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().split(b'\n') {
        let line = line?;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        if let Some(sent) = reply(name, hooks, &line) {
            writeln!(out, "{sent}")?;
            out.flush()?;
        }
    }
    Ok(())
}
