//! What a chain as a whole concludes. One enum, so that "blocked and rewritten" can't be written down (SPEC §5).

use crate::Stored;
use serde::{Deserialize, Serialize};

/// The outcome of a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// Go ahead with the value as it came.
    Allow,
    /// Go ahead with another value.
    Modify {
        /// The final value.
        value: Stored,
    },
    /// Do not.
    Deny(Denial),
    /// A person decides over the final value.
    Escalate {
        /// The final value (the original one where no hook changed it).
        value: Stored,
        /// Who asked for a person, in chain order; never empty.
        reasons: Vec<Escalation>,
    },
}

impl Verdict {
    /// Its word in the output of `ask` and in records.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Modify { .. } => "modify",
            Self::Deny(_) => "deny",
            Self::Escalate { .. } => "escalate",
        }
    }
}

/// Who denied, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Denial {
    /// The hook's function, e.g. `policy.check`.
    pub hook: String,
    /// Why; already escaped and cut.
    pub reason: String,
}

/// A hook that asked for a person, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Escalation {
    /// The hook's function.
    pub hook: String,
    /// Why; already escaped and cut.
    pub reason: String,
}

impl Denial {
    /// What the model reads instead of making the call (SPEC §4).
    pub fn before_call(&self, tool: &str) -> String {
        format!(
            "The call to {} was not made: hook {} denied it: {}.",
            crate::text::escape(tool),
            self.hook,
            self.reason
        )
    }

    /// What the model reads instead of the result (SPEC §4).
    pub fn after_call(&self, tool: &str) -> String {
        format!(
            "The result of {} was withheld: hook {} denied it: {}.",
            crate::text::escape(tool),
            self.hook,
            self.reason
        )
    }
}
