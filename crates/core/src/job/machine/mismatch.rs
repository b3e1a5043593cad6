//! What a history and the machine's logic do not agree about.

use crate::job::{Fact, LOGIC_VERSION};
use crate::text;
use serde::Serialize;

/// A history that says something else than the machine's logic does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The history was made by logic that this build does not have.
    #[error("the history was made by version {0} of the job logic; this build knows versions 1 to {LOGIC_VERSION}")]
    Logic(u32),
    /// A fact that can't follow here.
    #[error("unexpected record: {0}")]
    Unexpected(String),
    /// An effect was begun that the logic does not want.
    #[error("effect {effect}: the history did {history}, the logic wants {logic}")]
    Command {
        /// The effect.
        effect: String,
        /// What the history did, as JSON.
        history: String,
        /// What the logic wants, as JSON, or `nothing`.
        logic: String,
    },
    /// The job ended in another way.
    #[error("the job ended with {history}, the logic wants {logic}")]
    Outcome {
        /// What the history says, as JSON.
        history: String,
        /// What the logic wants, as JSON, or `to go on`.
        logic: String,
    },
    /// A decision that does not fit its approval: another digest, or somebody who may not decide.
    #[error("the recorded decision on {approval} does not fit what was asked")]
    Decision {
        /// The approval.
        approval: String,
    },
}

impl Mismatch {
    pub(crate) fn unexpected(fact: &Fact) -> Self {
        Self::Unexpected(brief(fact))
    }
}

/// Bytes of each side of a mismatch: a command without its values is shorter, so that a diff shows what differs.
const BRIEF_BYTES: u64 = 4_096;

/// A value as a mismatch shows it.
pub(super) fn brief(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string(value).unwrap_or_default();
    if text.len() as u64 > BRIEF_BYTES {
        text = text::elide_middle(&text, BRIEF_BYTES).replace('\n', " ");
    }
    text
}
