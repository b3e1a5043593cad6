//! `hookwright gateway`: what an MCP client sees of it, message by message.

mod approvals;
mod attach;
mod calls;
pub(crate) mod client;
mod eras;
mod hostile;
mod http;
mod passes;
mod real;
mod withheld;

use crate::support::{Plugin, World, function, says};
use serde_json::{Value, json};

/// A `work` server with these functions, and a policy whose `check` decides calls before they are made.
fn watched(functions: Value, check: Value) -> World {
    World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", check)]))
            .server("work", functions)
            .hook(json!({"on": "pre_tool_call", "call": "policy.check"})),
    )
}

fn allowed(functions: Value) -> World {
    watched(functions, says("allow", json!({})))
}

fn echo() -> Value {
    json!([function("echo", json!({"echo": true}))])
}

/// The one text of a result.
#[track_caller]
fn text(result: &Value) -> &str {
    assert_eq!(result["content"].as_array().map(Vec::len), Some(1), "{result}");
    result["content"][0]["text"].as_str().unwrap()
}
