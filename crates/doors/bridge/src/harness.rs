//! The harnesses, and what each of them lets a hook do.

use hookwright_core::job::AsksThere;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Somebody else's agent runtime that Hookwright has a bridge to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Harness {
    /// Anthropic's Claude Code.
    ClaudeCode,
    /// Anthropic's Agent SDK, which runs Claude Code's engine.
    ClaudeAgentSdk,
    /// OpenAI's Codex.
    Codex,
    /// Google's Gemini CLI.
    GeminiCli,
    /// GitHub's Copilot CLI.
    CopilotCli,
    /// OpenCode.
    #[serde(rename = "opencode")]
    OpenCode,
    /// Cline's CLI.
    Cline,
    /// Block's Goose.
    Goose,
    /// Cursor.
    Cursor,
}

/// What a hook event of a harness means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// A conversation begins.
    Start,
    /// A prompt was given.
    Prompt,
    /// A call is about to be made.
    Before,
    /// A call was made, and went well as far as the harness knows.
    After,
    /// A call was made and failed, where that is an event of its own.
    Failed,
    /// The agent ends its turn.
    Stop,
    /// A subagent begins.
    SubagentStart,
    /// A subagent ends its turn.
    SubagentStop,
    /// The conversation ends.
    End,
}

/// What a harness lets a hook do. What is false here can't be enforced there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// A call's arguments can be rewritten.
    pub rewrites_input: bool,
    /// A call's result can be replaced or withheld.
    pub rewrites_output: Output,
    /// A call's failure is told to hooks, and can be replaced or withheld.
    pub failures: Output,
    /// The harness asks the person at it where a hook says so.
    pub asks: AsksThere,
    /// A prompt can be refused; no: the session is one job.
    pub prompts: bool,
    /// A stop can be held.
    pub holds_stop: bool,
    /// The harness has a switch that makes a failing hook a deny.
    pub fails_closed: bool,
    /// Subagents' calls are told as such.
    pub subagents: bool,
    /// The bridge is tested against the real client.
    pub tested: bool,
}

/// What can be done about a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Nothing: hooks are asked and recorded, the model reads it all the same.
    No,
    /// Where it can't be replaced, the run is ended before the model reads it.
    OrEnds,
    /// It is replaced.
    Replaced,
}

impl Harness {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::ClaudeCode,
        Self::ClaudeAgentSdk,
        Self::Codex,
        Self::GeminiCli,
        Self::CopilotCli,
        Self::OpenCode,
        Self::Cline,
        Self::Goose,
        Self::Cursor,
    ];

    /// The first part of its tools' names, and its name on the command line.
    pub fn id(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeAgentSdk => "claude-agent-sdk",
            Self::Codex => "codex",
            Self::GeminiCli => "gemini-cli",
            Self::CopilotCli => "copilot-cli",
            Self::OpenCode => "opencode",
            Self::Cline => "cline",
            Self::Goose => "goose",
            Self::Cursor => "cursor",
        }
    }

    /// As its makers write it.
    pub fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeAgentSdk => "Claude Agent SDK",
            Self::Codex => "Codex",
            Self::GeminiCli => "Gemini CLI",
            Self::CopilotCli => "Copilot CLI",
            Self::OpenCode => "OpenCode",
            Self::Cline => "Cline CLI",
            Self::Goose => "Goose",
            Self::Cursor => "Cursor",
        }
    }

    /// The harness of that id.
    pub fn of(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|harness| harness.id() == id)
    }

    /// What it lets a hook do.
    pub fn caps(self) -> Caps {
        let all = Caps {
            rewrites_input: true,
            rewrites_output: Output::Replaced,
            failures: Output::Replaced,
            asks: AsksThere::No,
            prompts: true,
            holds_stop: true,
            fails_closed: true,
            subagents: true,
            tested: true,
        };
        match self {
            Self::ClaudeCode | Self::ClaudeAgentSdk => {
                Caps { rewrites_output: Output::OrEnds, failures: Output::No, asks: AsksThere::Any, ..all }
            }
            Self::Codex => Caps { fails_closed: false, ..all },
            Self::GeminiCli => Caps { fails_closed: false, subagents: false, ..all },
            Self::CopilotCli => Caps { failures: Output::No, fails_closed: false, asks: AsksThere::Unchanged, ..all },
            Self::OpenCode => Caps { holds_stop: false, failures: Output::No, ..all },
            Self::Cline => Caps {
                rewrites_output: Output::OrEnds,
                failures: Output::OrEnds,
                prompts: false,
                holds_stop: false,
                fails_closed: false,
                ..all
            },
            Self::Goose => Caps {
                rewrites_input: false,
                rewrites_output: Output::No,
                failures: Output::No,
                prompts: false,
                subagents: false,
                tested: false,
                ..all
            },
            Self::Cursor => Caps { rewrites_output: Output::No, failures: Output::No, tested: false, ..all },
        }
    }
}

impl fmt::Display for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
