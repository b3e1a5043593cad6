//! How a session's escalations are decided.

/// How what hooks escalate is decided (SPEC §7). A yes is never given by a mode: it is a person's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The client's user is asked; others may decide too, whoever is first counts.
    #[default]
    Ask,
    /// The client is not asked: the prompt waits for a decision from elsewhere.
    Wait,
    /// Nobody is asked: it is a no.
    Deny,
}

impl Mode {
    /// All, in the order in which they are offered.
    pub const ALL: [Self; 3] = [Self::Ask, Self::Wait, Self::Deny];

    /// Its id on the wire and on the command line.
    pub fn id(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Wait => "wait",
            Self::Deny => "deny",
        }
    }

    /// Of an id.
    pub fn of(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.id() == id)
    }

    /// Its name, for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ask => "Ask me",
            Self::Wait => "Wait for others",
            Self::Deny => "Deny",
        }
    }

    /// What it does, for people.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Ask => "When a hook escalates, ask here; `hookwright approvals` can decide too",
            Self::Wait => {
                "When a hook escalates, don't ask here: wait until somebody decides with `hookwright approvals`"
            }
            Self::Deny => "When a hook escalates, it is a no",
        }
    }
}
