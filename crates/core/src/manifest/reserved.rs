//! Names that no plugin may take (SPEC §2).

/// Harnesses that an agent can name, and whose tools have full names `<harness>.<tool>`.
pub const HARNESSES: [&str; 11] = [
    "claude-agent-sdk",
    "claude-code",
    "codex",
    "gemini-cli",
    "copilot-cli",
    "opencode",
    "cline",
    "goose",
    "cursor",
    "windsurf",
    "kiro",
];

/// Owners of built-in functions, e.g. the one that starts a subagent.
pub const BUILT_IN: [&str; 2] = ["hookwright", "agent"];

/// Lifecycle points that Hookwright knows (SPEC §9).
pub const LIFECYCLE: [&str; 6] =
    ["_Stop", "_PostCompact", "_SessionStart", "_UserPromptSubmit", "_SubagentStart", "_SessionEnd"];

/// Whether a tool id is a harness's name or belongs to built-in functions.
pub fn is_reserved(id: &str) -> bool {
    HARNESSES.contains(&id) || BUILT_IN.contains(&id)
}
