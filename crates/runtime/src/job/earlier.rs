//! The conversation before a job: that of the session's earlier jobs, rebuilt from their histories (SPEC §8).
//!
//! Invariant: it is the conversation that the job's first record names by its digest, or the job does not go on.

use super::RunError;
use crate::ports::store::{Store, StoreError};
use crate::replayed::replayed;
use hookwright_core::history::ReplayError;
use hookwright_core::job::{Continues, Machine, Mismatch};
use hookwright_core::message::{AssistantCall, Message};
use hookwright_core::stored::Stored;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;

/// What stands where a value was deleted: the model must not take the gap for what was said.
const DELETED: &str = "[deleted]";

/// One earlier job of a session.
#[derive(Debug)]
pub struct Earlier {
    /// Its id.
    pub job: String,
    /// The machine at its end.
    pub machine: Machine,
}

/// The earlier jobs that a job goes on with, newest first, back to the last compaction; with `all`, back to the session's first.
pub async fn walk(store: &dyn Store, continues: &Continues, all: bool) -> Result<Vec<Earlier>, RunError> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let mut next = Some(continues.clone());
    while let Some(at) = next {
        let fault = |why: &str| RunError::Replay {
            job: at.job.clone(),
            why: ReplayError::Mismatch { seq: 0, mismatch: Mismatch::Unexpected(why.to_owned()) },
        };
        if !seen.insert(at.job.clone()) {
            return Err(fault("its session's jobs go in a circle"));
        }
        let texts = Arc::new(store.records(&at.job, 0).await?);
        let (machine, _) = replayed(&texts).await.map_err(|why| RunError::Replay { job: at.job.clone(), why })?;
        if machine.spec().job != at.job || machine.session_state().conversation != at.conversation {
            return Err(fault("its conversation is not the one that a later job of its session went on with"));
        }
        next = machine.spec().continues.clone().filter(|_| all || machine.carries_earlier());
        found.push(Earlier { job: at.job, machine });
    }
    Ok(found)
}

/// The conversation before a job, oldest message first.
pub(super) async fn of(store: &dyn Store, machine: &Machine) -> Result<Vec<Message>, RunError> {
    let mut messages = Vec::new();
    if let Some(continues) = machine.spec().continues.as_ref().filter(|_| machine.carries_earlier()) {
        for earlier in walk(store, continues, false).await?.iter().rev() {
            for message in earlier.machine.conversation() {
                messages.push(without_gaps(store, message).await?);
            }
        }
    }
    Ok(messages)
}

/// The prompt of a job, as its model read it; none where it was deleted.
pub(super) async fn prompt(store: &dyn Store, job: &str) -> Result<Option<Stored>, StoreError> {
    let texts = store.records(job, 0).await?;
    // A history that can't be read is a gap like any other here: what is lost is said in the summary's words alone.
    let Ok((machine, _)) = replayed(&Arc::new(texts)).await else { return Ok(None) };
    let Some(Message::User { content }) = machine.conversation().first() else { return Ok(None) };
    if content.value.is_some() {
        return Ok(Some(content.clone()));
    }
    let text = store.blob(&content.sha256).await?;
    let value = text.and_then(|text| serde_json::from_str(&text).ok()).map(Arc::new);
    Ok(value.map(|value| Stored { value: Some(value), ..content.digest_only() }))
}

/// A message in which what was deleted says so.
async fn without_gaps(store: &dyn Store, message: &Message) -> Result<Message, StoreError> {
    Ok(match message {
        Message::User { content } => Message::User { content: filled(store, content, json!(DELETED)).await? },
        Message::Assistant { text, calls, provider_state } => {
            let mut kept = Vec::with_capacity(calls.len());
            for call in calls {
                let arguments = filled(store, &call.arguments, json!({})).await?;
                kept.push(AssistantCall { arguments, ..call.clone() });
            }
            let text = match text {
                Some(text) => Some(filled(store, text, json!(DELETED)).await?),
                None => None,
            };
            // It is bound to what was said: where one is gone, the other is of no use.
            let provider_state = match provider_state {
                Some(state) if is_gone(store, state).await? => None,
                other => other.clone(),
            };
            Message::Assistant { text, calls: kept, provider_state }
        }
        Message::Tool { provider_id, tool, content, is_error } => Message::Tool {
            provider_id: provider_id.clone(),
            tool: tool.clone(),
            content: filled(store, content, json!(DELETED)).await?,
            is_error: *is_error,
        },
    })
}

async fn filled(store: &dyn Store, stored: &Stored, instead: Value) -> Result<Stored, StoreError> {
    Ok(if is_gone(store, stored).await? { Stored::inline(instead) } else { stored.clone() })
}

async fn is_gone(store: &dyn Store, stored: &Stored) -> Result<bool, StoreError> {
    Ok(stored.value.is_none() && store.blob(&stored.sha256).await?.is_none())
}
