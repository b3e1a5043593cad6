//! A call that nobody makes, to see whether a no is a no.

use crate::harness::Harness;
use serde_json::{Value, json};

/// The tool of a probe. A node denies every call of it, says the call's nonce in its reason, and records nothing.
pub const PROBE_TOOL: &str = "HookwrightProbe";

/// A payload of the event before calls, as the harness would write it.
pub fn probe_payload(harness: Harness, event: &str, nonce: &str, cwd: &str) -> String {
    let arguments = json!({"nonce": nonce});
    let session = format!("hookwright-probe-{nonce}");
    let value: Value = match harness {
        Harness::ClaudeCode | Harness::ClaudeAgentSdk | Harness::Codex | Harness::GeminiCli => json!({
            "session_id": session, "cwd": cwd, "hook_event_name": event, "tool_name": PROBE_TOOL, "tool_input": arguments,
            "tool_use_id": nonce,
        }),
        Harness::CopilotCli => json!({"sessionId": session, "cwd": cwd, "toolName": PROBE_TOOL, "toolArgs": arguments}),
        Harness::OpenCode => json!({
            "event": event, "session": session, "cwd": cwd, "call": nonce, "tool": PROBE_TOOL, "servers": [],
            "arguments": arguments,
        }),
        Harness::Cline => json!({
            "hookName": "tool_call", "taskId": session, "agent_id": session, "parent_agent_id": null,
            "workspaceRoots": [cwd], "tool_call": {"id": nonce, "name": PROBE_TOOL, "input": arguments},
        }),
        Harness::Goose => json!({
            "event": event, "session_id": session, "working_dir": cwd, "tool_name": PROBE_TOOL, "tool_input": arguments,
        }),
        Harness::Cursor => json!({
            "hook_event_name": event, "conversation_id": session, "cwd": cwd, "tool_name": PROBE_TOOL,
            "tool_input": arguments,
        }),
    };
    value.to_string()
}

/// Whether an answer before a call is the harness's no.
pub fn denies(harness: Harness, event: &str, stdout: &str, code: Option<i32>) -> bool {
    let Ok(said) = serde_json::from_str::<Value>(stdout) else { return false };
    let inside = &said["hookSpecificOutput"];
    match harness {
        Harness::ClaudeCode | Harness::ClaudeAgentSdk | Harness::Codex => {
            inside["hookEventName"] == event
                && inside["permissionDecision"] == "deny"
                && inside["permissionDecisionReason"].as_str().is_some_and(|reason| !reason.is_empty())
        }
        Harness::GeminiCli | Harness::OpenCode => said["decision"] == "deny",
        Harness::CopilotCli => said["permissionDecision"] == "deny",
        Harness::Cline => said["cancel"] == true,
        Harness::Goose => said["decision"] == "block" && code == Some(2),
        Harness::Cursor => said["permission"] == "deny",
    }
}
