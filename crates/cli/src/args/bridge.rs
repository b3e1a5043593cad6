//! Flags of the commands around bridges to harnesses.

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// The harness: claude-code, claude-agent-sdk, codex, gemini-cli, copilot-cli, opencode, cline, goose, cursor
    pub(crate) harness: String,
    /// For whom
    #[arg(long, value_name = "SCOPE", default_value = "user")]
    pub(crate) scope: InstallScope,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Seconds that a call waits for its hooks, and for people. Default: 30 less than the harness's own limit
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) deadline: Option<u64>,
    /// Who decides what hooks escalate: wait for an approval, or ask in the harness's own prompt
    #[arg(long, value_name = "HOW", default_value = "wait")]
    pub(crate) escalate: BridgeEscalate,
}

#[derive(Debug, Args)]
pub(crate) struct UninstallArgs {
    /// The harness, as for `install`
    pub(crate) harness: String,
    /// For whom it was installed
    #[arg(long, value_name = "SCOPE", default_value = "user")]
    pub(crate) scope: InstallScope,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InstallScope {
    /// All that this user does
    User,
    /// The project in the current folder
    Project,
    /// All users of this machine; they can't switch it off
    Managed,
}

/// Read by hand (`crates/cli/src/bridge.rs`), so that a bridge starts at once; this is its help.
#[derive(Debug, Args)]
pub(crate) struct BridgeArgs {
    /// The harness
    pub(crate) harness: String,
    /// Its event, as it names it. Default: the payload says it
    pub(crate) event: Option<String>,
    /// Seconds that the answer is waited for
    #[arg(long, value_name = "SECONDS", default_value_t = 25)]
    pub(crate) deadline: u64,
    /// Who decides what hooks escalate
    #[arg(long, value_name = "HOW", default_value = "wait")]
    pub(crate) escalate: BridgeEscalate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BridgeEscalate {
    /// Whoever may decide approvals; the harness waits
    Wait,
    /// The person at the harness, by its own prompt
    Ask,
}
