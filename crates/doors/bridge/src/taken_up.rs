//! A job of a harness whose node ended in the middle of it: what of its calls is still open, by its history.
//!
//! Invariant: a call that the harness was allowed stays allowed, once; what it asked for without an answer was denied to it by the bridge,
//! so it is withdrawn, unless a person is asked: then it is left, for the same call asked for again.

use crate::desk::nameless;
use crate::harness::Harness;
use hookwright_core::history::Record;
use hookwright_core::job::{Command, Fact, RequestedCall};
use hookwright_core::stored::Stored;

/// Calls of a job without an end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Open {
    /// Those that the harness may make, or has made: by what they are known by there, with the job's ids.
    pub(crate) let_calls: Vec<(String, String)>,
    /// Those whose answers nobody got.
    pub(crate) unanswered: Vec<String>,
}

struct Asked<'a> {
    id: &'a str,
    request: &'a RequestedCall,
    /// The arguments that it may be made with.
    arguments: Option<&'a Stored>,
    /// Whether it waits for a person, and for being asked for again.
    is_left: bool,
}

/// The open calls of a history.
pub(crate) fn open_calls(harness: Harness, records: &[Record]) -> Open {
    let mut asked: Vec<Asked<'_>> = vec![];
    for record in records {
        match &record.fact {
            Fact::CallRequested { id, call } => {
                // The same call asked for again has its old id.
                asked.retain(|other| other.id != id);
                asked.push(Asked { id, request: call, arguments: None, is_left: false });
            }
            Fact::Begun { command: Command::LetCall { call, arguments, .. } } => {
                for one in asked.iter_mut().filter(|one| one.id == call) {
                    one.arguments = Some(arguments);
                }
            }
            Fact::CallLeft { call } => {
                for one in asked.iter_mut().filter(|one| one.id == call) {
                    one.is_left = true;
                }
            }
            Fact::CallCancelled { call } => asked.retain(|one| one.id != call),
            Fact::ToolReturned { effect, .. } => asked.retain(|one| effect.strip_suffix(".call") != Some(one.id)),
            _ => {}
        }
    }
    let mut open = Open::default();
    for Asked { id, request, arguments, is_left } in asked {
        match arguments {
            Some(arguments) => open.let_calls.push((key_of(harness, request, arguments), id.to_owned())),
            None if request.refused.is_none() && !is_left => open.unanswered.push(id.to_owned()),
            None => {}
        }
    }
    open
}

fn key_of(harness: Harness, request: &RequestedCall, arguments: &Stored) -> String {
    if !request.provider_id.is_empty() {
        return request.provider_id.clone();
    }
    let own = request.tool.strip_prefix(harness.id()).and_then(|rest| rest.strip_prefix('.'));
    nameless(own.unwrap_or(&request.tool), &arguments.sha256)
}

#[cfg(test)]
mod tests;
