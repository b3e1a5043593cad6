//! Flags of the commands by which others come in.

use super::Output;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct AcpArgs {
    /// Folder of a plugin; may be repeated, in install order. Naming it trusts it, and leaves the configuration's plugins
    /// out. Default: those of the configuration; none are needed
    #[arg(long = "plugin", value_name = "DIR")]
    pub(crate) plugins: Vec<PathBuf>,
    /// The agent. Default: the only one; where the plugins declare none, a plain assistant with all tools
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// A model to choose from, e.g. anthropic/claude-sonnet-4-5; may be repeated, the first is the default. The agent's own
    /// comes last
    #[arg(long = "model", value_name = "MODEL")]
    pub(crate) models: Vec<String>,
    /// Who decides what hooks escalate, in new sessions; the client may change it. Default: ask
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<AcpMode>,
    /// The name in the history of whoever answers in the client. Default: the OS user's, which counts as verified
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcpMode {
    /// Ask in the client
    #[default]
    Ask,
    /// Wait until somebody decides elsewhere
    Wait,
    /// It is a no
    Deny,
}

impl From<AcpMode> for hookwright_acp::Mode {
    fn from(mode: AcpMode) -> Self {
        match mode {
            AcpMode::Ask => Self::Ask,
            AcpMode::Wait => Self::Wait,
            AcpMode::Deny => Self::Deny,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Folder of a plugin; may be repeated, in install order. Naming it trusts it, and leaves the plugins of the
    /// configuration's tenant out. Default: those of the configuration; none are needed
    #[arg(long = "plugin", value_name = "DIR")]
    pub(crate) plugins: Vec<PathBuf>,
    /// End after so many seconds without work. Default: never
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) idle: Option<u64>,
    /// Start it as a process of its own, and return when it answers
    #[arg(long)]
    pub(crate) background: bool,
    /// It was started by another command: makes a session of its own
    #[arg(long, hide = true, conflicts_with = "background")]
    pub(crate) detached: bool,
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct GatewayArgs {
    /// Folder of a plugin; may be repeated, in install order. Naming it trusts it, and leaves the configuration's plugins
    /// out. Default: those of the configuration
    #[arg(long = "plugin", value_name = "DIR")]
    pub(crate) plugins: Vec<PathBuf>,
    /// The agent that every client is. Default: one named after the client, with all tools
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// Listen for Streamable HTTP on this loopback address or port, at /mcp. Default: one client on stdin and stdout
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,
    /// Variable with a token that HTTP clients must send as `Authorization: Bearer …`
    #[arg(long, value_name = "VAR")]
    pub(crate) token_from: Option<String>,
    /// Have the session in the local node, whose servers are warm; it is started if none runs. One client on stdin and stdout
    #[arg(long, conflicts_with_all = ["http", "token_from"])]
    pub(crate) attach: bool,
    /// Seconds that a call waits for a person before its client is told which approval is open
    #[arg(long, value_name = "SECONDS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub(crate) wait: u64,
    /// List functions by their bare names where those are unique: `merge` instead of `github.merge`
    #[arg(long)]
    pub(crate) bare_names: bool,
    /// Who may decide what hooks escalate. Default: client on stdin and stdout, elsewhere with --http
    #[arg(long, value_name = "WHO")]
    pub(crate) decide: Option<Decide>,
    /// The name in the history of whoever answers in the client, a claim. Default: the OS user's
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Decide {
    /// The client's user too, where the client can ask them (revision 2026-07-28)
    Client,
    /// Only people elsewhere, e.g. with `hookwright approvals`
    Elsewhere,
}
