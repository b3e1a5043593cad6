//! The hooks of the plugin {{name}}. Change `check`; `mcp_stdio.rs` speaks the protocol.

mod mcp_stdio;

use serde_json::{json, Value};

/// Asks a person before anything is done to the branch `main`.
fn check(event: &Value) -> Result<Value, String> {
    if event["event"] == "pre_tool_call" && event["arguments"]["branch"] == "main" {
        let tool = event["tool"].as_str().ok_or("the event names no tool")?;
        return Ok(json!({"decision": "escalate", "reason": format!("{tool} on main")}));
    }
    Ok(json!({"decision": "allow"}))
}

fn main() -> std::io::Result<()> {
    mcp_stdio::serve("{{name}}", &[("check", "Decide on a call.", check)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_asked_about_main_only() {
        for (branch, decision) in [("main", "escalate"), ("feature/x", "allow")] {
            let event = json!({"event": "pre_tool_call", "tool": "github.push", "arguments": {"branch": branch}});
            assert_eq!(check(&event).unwrap()["decision"], decision, "{branch}");
        }
    }
}
