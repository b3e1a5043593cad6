//! What the demo's hooks decide, as plain functions from an event to an answer.
//!
//! Invariant: an event that does not have what a hook looks at is denied.

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// Branches that releases are cut from.
pub const PROTECTED: [&str; 2] = ["main", "release"];

/// A hook's answer (SPEC §4).
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Answer {
    /// Go ahead.
    Allow,
    /// Go ahead with these arguments.
    Modify {
        /// The call's new arguments.
        arguments: Map<String, Value>,
        /// Why.
        reason: String,
    },
    /// Don't.
    Deny {
        /// Why, for the model.
        reason: String,
    },
    /// A person decides.
    Escalate {
        /// Why, for the person.
        reason: String,
    },
}

fn deny(reason: impl Into<String>) -> Answer {
    Answer::Deny { reason: reason.into() }
}

fn argument<'a>(event: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    event.get("arguments")?.get(name)?.as_str()
}

/// Whether it is a protected branch. Some file systems don't tell `Main` from `main`, and a remote's branches are files.
fn is_protected(branch: &str) -> bool {
    PROTECTED.iter().any(|name| name.eq_ignore_ascii_case(branch))
}

/// Before `git.push`: a person decides on a push to a protected branch.
pub fn push_policy(event: &Map<String, Value>) -> Answer {
    match argument(event, "branch") {
        None => deny("the push names no branch"),
        Some(branch) if is_protected(branch) => Answer::Escalate { reason: format!("a push to {branch}") },
        Some(_) => Answer::Allow,
    }
}

/// Before `git.delete_branch`: protected branches stay.
pub fn no_delete(event: &Map<String, Value>) -> Answer {
    match argument(event, "branch") {
        None => deny("the call names no branch"),
        Some(branch) if is_protected(branch) => deny(format!(
            "{branch} is protected: releases are cut from it. Leave it, and name it in your summary so that a person can decide"
        )),
        Some(_) => Answer::Allow,
    }
}

/// Before `git.commit`: the subject line gets the house's form, and the message says which agent and job made the commit.
pub fn message_style(event: &Map<String, Value>) -> Answer {
    let Some(message) = argument(event, "message").map(str::trim).filter(|m| !m.is_empty()) else {
        return deny("the commit needs a message that says what was changed and why");
    };
    let (Some(agent), Some(job)) =
        (event.get("agent").and_then(Value::as_str), event.get("job").and_then(Value::as_str))
    else {
        return deny("the event names no agent and job");
    };
    let styled = styled(message, agent, job);
    if argument(event, "message") == Some(styled.as_str()) {
        return Answer::Allow;
    }
    let mut arguments = event.get("arguments").and_then(Value::as_object).cloned().unwrap_or_default();
    arguments.insert("message".to_owned(), styled.into());
    Answer::Modify { arguments, reason: "the house's style, and who made the commit".to_owned() }
}

fn styled(message: &str, agent: &str, job: &str) -> String {
    // Trailers that the model wrote itself might name somebody else.
    let is_trailer = |line: &&str| {
        let line = line.trim_start().to_ascii_lowercase();
        line.starts_with("agent:") || line.starts_with("job:")
    };
    let mut lines = message.lines().filter(|line| !is_trailer(line));
    let subject = lines.next().unwrap_or_default().trim().trim_end_matches('.');
    let mut first = subject.chars();
    let subject: String = first.next().into_iter().flat_map(char::to_uppercase).chain(first).collect();
    let body = lines.collect::<Vec<_>>().join("\n");
    let body = body.trim();
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (agent, job) = (one_line(agent), one_line(job));
    let body = if body.is_empty() { String::new() } else { format!("{body}\n\n") };
    format!("{subject}\n\n{body}Agent: {agent}\nJob: {job}")
}
