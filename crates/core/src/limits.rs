//! The limits of SPEC §10, all settable in `hookwright.yaml`.

use serde::{Deserialize, Serialize};

/// Bounds of a job. Stored in its first record, so that a later change does not touch a running job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Calls of one model turn; further ones are refused to the model. Default 64.
    pub calls_per_turn: u32,
    /// Calls of one turn that run at the same time. Default 8.
    pub parallel_calls: u32,
    /// Bytes of a tool's text result that the model gets; the middle is elided, the whole is kept. Default 51,200 (50 KiB).
    pub result_bytes: u64,
    /// Milliseconds that a tool call may take. Default 660,000 (11 min).
    pub tool_timeout_ms: u64,
    /// Characters of a hook's reason. Default 2,000.
    pub reason_chars: u32,
    /// Bytes of an event; a larger one is not sent and its hook counts as failed. Default 1,048,576 (1 MiB).
    pub event_bytes: u64,
    /// Bytes of a lifecycle hook's text. Default 16,384 (16 KiB).
    pub lifecycle_bytes: u64,
    /// Bytes of one MCP message. Default 16,777,216 (16 MiB).
    pub message_bytes: u64,
    /// How deep subagents may nest. Default 3.
    pub subagent_depth: u32,
    /// Model turns of a job, where the agent sets none. Default 100.
    pub max_turns: u32,
    /// Calls that a job's agent may ask for in all; with a further one the job fails. Default: as many as it likes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_per_job: Option<u32>,
    /// Tokens of a job's model turns and summaries in all; what comes after them is not begun, and the job fails. Default: as many as it likes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_job: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            calls_per_turn: 64,
            parallel_calls: 8,
            result_bytes: 50 * 1024,
            tool_timeout_ms: 660_000,
            reason_chars: 2_000,
            event_bytes: 1024 * 1024,
            lifecycle_bytes: 16 * 1024,
            message_bytes: 16 * 1024 * 1024,
            subagent_depth: 3,
            max_turns: 100,
            calls_per_job: None,
            tokens_per_job: None,
        }
    }
}
