//! How what was said stands in the conversation: calls that no model made, with their results.

use super::{LifecycleAnswer, Point};
use crate::json::sha256_hex;
use crate::message::{AssistantCall, Message};
use crate::name::FunctionName;
use crate::stored::Stored;
use serde_json::{Map, Value};

/// The id under which providers know the `index`th call of a job's `delivery`th delivery: unique in a session, at most 40 of `[a-z0-9_]`.
pub fn provider_id(point: Point, job: &str, delivery: u32, index: usize) -> String {
    let job = &sha256_hex(job.as_bytes())[..6];
    format!("hw_{}_{job}_{delivery}_{index}", point.short())
}

/// Whether a message's result was delivered for a lifecycle hook: it is short already, and JSON, and is never elided.
pub fn is_delivery(provider_id: &str, tool: &str) -> bool {
    provider_id.starts_with("hw_") && FunctionName::parse(tool).is_ok_and(|name| name.is_lifecycle())
}

/// One assistant message with a call for each server that has something to say, and the results; empty where none has.
pub(crate) fn pair(point: Point, job: &str, delivery: u32, answers: &[LifecycleAnswer]) -> Vec<Message> {
    let said: Vec<(String, String, Stored)> = answers
        .iter()
        .filter_map(|answer| answer.body().map(|body| (answer, body)))
        .enumerate()
        .map(|(i, (answer, body))| {
            let tool = FunctionName::new(&answer.server, point.function()).to_string();
            (provider_id(point, job, delivery, i), tool, body.clone())
        })
        .collect();
    if said.is_empty() {
        return vec![];
    }
    let calls = said
        .iter()
        .map(|(provider_id, tool, _)| AssistantCall {
            provider_id: provider_id.clone(),
            tool: tool.clone(),
            arguments: Stored::inline(Value::Object(Map::new())),
        })
        .collect();
    let results = said.into_iter().map(|(provider_id, tool, content)| Message::Tool {
        provider_id,
        tool,
        content,
        is_error: false,
    });
    std::iter::once(Message::Assistant { text: None, calls, provider_state: None }).chain(results).collect()
}
