//! The command line, as clap reads it.

mod bridge;
mod demo;
mod doors;

pub(crate) use bridge::{BridgeArgs, BridgeEscalate, InstallArgs, InstallScope, UninstallArgs};
pub(crate) use demo::{DemoArgs, DemoServerArgs};
pub(crate) use doors::{AcpArgs, Decide, GatewayArgs, ServeArgs};

use crate::story::Color;
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use hookwright_core::text::{escape, is_hidden};
use std::ffi::OsString;
use std::path::PathBuf;

/// Reads the command line. An error repeats words of it: what a terminal could act on is escaped in them.
pub(crate) fn parse(words: Vec<OsString>) -> Result<Cli, clap::Error> {
    let error = match Cli::try_parse_from(&words) {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    let texts: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    if !texts.iter().any(|text| text.contains(is_hidden)) {
        return Err(error);
    }
    // The same words without their hidden characters are as wrong.
    match Cli::try_parse_from(texts.iter().map(|text| escape(text))) {
        Err(harmless) => Err(harmless),
        Ok(_) => Err(Cli::command().error(error.kind(), "a word of the command line holds control characters")),
    }
}

/// Whether words that can't be read as a command ask for JSON all the same.
pub(crate) fn asks_for_json(words: impl Iterator<Item = OsString>) -> bool {
    let words: Vec<OsString> = words.take_while(|word| word != "--").collect();
    words.iter().any(|word| word == "--output=json")
        || words.windows(2).any(|two| two[0] == "--output" && two[1] == "json")
}

/// Asks hooks, ordinary MCP functions, before an AI agent acts.
#[derive(Debug, Parser)]
#[command(name = "hookwright", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 completed, 1 failed, 2 usage, manifest or configuration, 3 denied by a hook,\n\
4 waiting for a person, 130 cancelled, 143 stopped by SIGTERM. Start with `hookwright demo`.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of all commands.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Node configuration; naming it trusts it. Default: ./hookwright.yaml, if it was trusted
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Tenant of the configuration. Default: its first; for commands on a store, a node or a reload: all
    #[arg(long, global = true, value_name = "ID")]
    pub(crate) tenant: Option<String>,
    /// SQLite file of jobs and approvals. Default: the configuration's, else .hookwright/hookwright.db
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) db: Option<PathBuf>,
    /// Colors: auto obeys NO_COLOR and whether a terminal reads
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
    /// What is logged to stderr, e.g. info, debug, or hookwright::tool=info (what servers write to their stderr)
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) log: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// One JSON object on stdout; no story, no prompt
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Approve {
    /// Ask at the prompt
    Ask,
    /// Wait until somebody decides elsewhere
    Wait,
    /// Say yes to everything
    Yes,
    /// Say no to everything
    No,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one job to its end
    Run(RunArgs),
    /// Answer an editor, or any other client of the Agent Client Protocol, on stdin and stdout
    Acp(AcpArgs),
    /// Run the local node: keeps plugins warm, goes on with unfinished jobs, answers on a socket
    Serve(ServeArgs),
    /// Show the local node: plugins, hooks, jobs, open approvals. Exit 1 where no node runs
    Status {
        #[arg(long, value_name = "FORM", default_value = "text")]
        output: Output,
    },
    /// End the local node; its jobs are left to be gone on with
    Stop {
        #[arg(long, value_name = "FORM", default_value = "text")]
        output: Output,
    },
    /// Have the local node read its configuration again; what is under way keeps what it began with. Exit 2 where it is refused
    Reload {
        #[arg(long, value_name = "FORM", default_value = "text")]
        output: Output,
    },
    /// Be an MCP server in front of the plugins' functions, so that any MCP client's calls are hooked
    Gateway(GatewayArgs),
    /// Check plugins: manifests, what they mean together, and their running servers
    Check(CheckArgs),
    /// Find what is wrong here, and what to do about it: store, clock, plugins, node, jobs, approvals. Exit 1 on a problem
    Doctor(CheckArgs),
    /// Put one event through its chain of hooks and print the verdict; makes no call
    Ask(AskArgs),
    /// List jobs, look into them, cancel them, go on with them
    #[command(subcommand)]
    Jobs(JobsCommand),
    /// Rebuild a job from its history without calling anything; exit 1 where code and history differ
    Replay(ReplayArgs),
    /// What waits for a person, and deciding it
    #[command(subcommand)]
    Approvals(ApprovalsCommand),
    /// Check that histories are what was written
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Trust a hookwright.yaml, as it is now with the manifests it names
    Trust(TrustArgs),
    /// Let a harness (Claude Code, Codex, …) ask the hooks: writes its configuration, shows the difference, probes it
    Install(InstallArgs),
    /// Take that out of a harness's configuration again
    Uninstall(UninstallArgs),
    /// Answer one hook event of a harness, on stdin and stdout; `install` has it called
    Bridge(BridgeArgs),
    /// Make something new
    #[command(subcommand)]
    New(NewCommand),
    /// A real job on a throw-away git repository, without keys or network
    Demo(DemoArgs),
    /// Print a completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// The MCP servers of the demo, on stdin and stdout
    #[command(hide = true)]
    DemoServer(DemoServerArgs),
}

impl Command {
    /// Whether the command's output is JSON: then an error is said in JSON too.
    pub(crate) fn in_json(&self) -> bool {
        let output = match self {
            Self::Run(args) => args.how.output,
            Self::Check(args) | Self::Doctor(args) => args.output,
            Self::Ask(args) => args.output,
            Self::Replay(args) => args.output,
            Self::Demo(args) => args.output,
            Self::Serve(args) => args.output,
            Self::Jobs(
                JobsCommand::List { output, .. }
                | JobsCommand::Show { output, .. }
                | JobsCommand::History { output, .. }
                | JobsCommand::Cancel { output, .. }
                | JobsCommand::Abandon { output, .. }
                | JobsCommand::Forget { output, .. },
            )
            | Self::Approvals(ApprovalsCommand::List { output, .. } | ApprovalsCommand::Show { output, .. })
            | Self::Audit(AuditCommand::Verify { output, .. })
            | Self::Status { output }
            | Self::Stop { output }
            | Self::Reload { output } => *output,
            Self::Jobs(JobsCommand::Resume(args)) => args.how.output,
            Self::Approvals(ApprovalsCommand::Approve(args) | ApprovalsCommand::Deny(args)) => args.output,
            Self::Audit(AuditCommand::Head { .. }) => Output::Json,
            Self::Acp(_)
            | Self::Gateway(_)
            | Self::Trust(_)
            | Self::Install(_)
            | Self::Uninstall(_)
            | Self::Bridge(_)
            | Self::New(_)
            | Self::Completions { .. }
            | Self::DemoServer(_) => Output::Text,
        };
        output == Output::Json
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Folder of a plugin; may be repeated, in install order. Naming it trusts it, and leaves the configuration's plugins
    /// out. Default: those of the configuration
    #[arg(long = "plugin", value_name = "DIR")]
    pub(crate) plugins: Vec<PathBuf>,
    /// The agent. Default: the only one
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// The input; `-` reads stdin. JSON where the agent declares a schema
    #[arg(long, value_name = "TEXT|-")]
    pub(crate) input: Option<String>,
    #[command(flatten)]
    pub(crate) how: HowArgs,
}

/// How a job is run: flags of `run` and of `jobs resume`.
#[derive(Debug, Args)]
pub(crate) struct HowArgs {
    /// Who decides what hooks escalate. Default: ask on a terminal, else wait. With --output json there is no prompt
    #[arg(long, value_name = "HOW")]
    pub(crate) approve: Option<Approve>,
    /// End with exit code 4 where only a person is awaited; `jobs resume` goes on
    #[arg(long)]
    pub(crate) detach: bool,
    /// Your name in the history, as a claim. Default: the OS user's, which counts as verified
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Folders of plugins, in install order. Default: those of the configuration
    #[arg(value_name = "DIR")]
    pub(crate) plugins: Vec<PathBuf>,
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// Folder of a plugin; may be repeated, in install order. Default: those of the configuration
    #[arg(long = "plugin", value_name = "DIR")]
    pub(crate) plugins: Vec<PathBuf>,
    /// File with one event as JSON; `-` reads stdin
    #[arg(long, value_name = "FILE|-")]
    pub(crate) event: String,
    /// File with what must come, as JSON of --output json; keys left out may be anything. Exit 1 where it differs
    #[arg(long, value_name = "FILE")]
    pub(crate) expect: Option<PathBuf>,
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) output: Output,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// Jobs, newest first
    List {
        /// Only those that are not over
        #[arg(long)]
        unfinished: bool,
        /// At most so many
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: u32,
        #[arg(long, value_name = "FORM", default_value = "text")]
        output: Output,
    },
    /// One job: how it stands and how it went
    Show {
        /// Its id, or the beginning of it
        job: String,
        #[arg(long, value_name = "FORM", default_value = "text")]
        output: Output,
    },
    /// All records of a job
    History {
        /// Its id, or the beginning of it
        job: String,
        #[arg(long, value_name = "FORM", default_value = "text")]
        output: Output,
    },
    /// Cancel a job, wherever it runs
    Cancel {
        /// Its id, or the beginning of it
        job: String,
        /// Your name in the history
        #[arg(long = "as", value_name = "NAME")]
        name: Option<String>,
        #[arg(long, value_name = "FORM", default_value = "text")]
        output: Output,
    },
    /// Give up a job of a Temporal cluster whose home node does not come back: it fails, without its node
    Abandon {
        /// Its id, or the beginning of it
        job: String,
        /// Your name in what is said of it
        #[arg(long = "as", value_name = "NAME")]
        name: Option<String>,
        #[arg(long, value_name = "FORM", default_value = "text")]
        output: Output,
    },
    /// Go on with a job that no process runs
    Resume(ResumeArgs),
    /// Delete a finished job's values; its history keeps their digests and still verifies
    Forget {
        /// Its id, or the beginning of it
        job: String,
        #[arg(long, value_name = "FORM", default_value = "text")]
        output: Output,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Its id, or the beginning of it
    #[arg(required_unless_present = "all")]
    pub(crate) job: Option<String>,
    /// All unfinished jobs, one after the other
    #[arg(long, conflicts_with = "job")]
    pub(crate) all: bool,
    /// Also what was begun on a machine of another name, as if it were this one
    #[arg(long)]
    pub(crate) here: bool,
    #[command(flatten)]
    pub(crate) how: HowArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The job's id, or the beginning of it
    pub(crate) job: String,
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) output: Output,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// What waits for a person, newest first
    List {
        /// Decided ones too
        #[arg(long)]
        all: bool,
        #[arg(long, value_name = "FORM", default_value = "text")]
        output: Output,
    },
    /// One approval, with all that the yes is bound to
    Show {
        /// Its id, or the beginning of it
        id: String,
        #[arg(long, value_name = "FORM", default_value = "text")]
        output: Output,
    },
    /// Say yes
    Approve(DecideArgs),
    /// Say no
    Deny(DecideArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DecideArgs {
    /// The approval's id, or the beginning of it
    pub(crate) id: String,
    /// What you want to add
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// Your name in the history, as a claim. Default: the OS user's, which counts as verified
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) output: Output,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Find a change or a gap in the history of one job or all
    Verify {
        /// The job's id, or the beginning of it. Default: all jobs
        job: Option<String>,
        /// A head kept elsewhere (`audit head`): finds a cut-off tail or a rewritten whole
        #[arg(long, value_name = "FILE")]
        head: Option<PathBuf>,
        /// The public key that the kept head must be signed with
        #[arg(long, value_name = "FILE", requires = "head")]
        public_key: Option<PathBuf>,
        #[arg(long, value_name = "FORM", default_value = "text")]
        output: Output,
    },
    /// Print the heads of histories as JSON, to be kept elsewhere
    Head {
        /// The job's id, or the beginning of it. Default: all jobs
        job: Option<String>,
        /// Sign them with this ed25519 secret key (made by `hookwright-signer keygen`)
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// The configuration. Default: ./hookwright.yaml
    pub(crate) file: Option<PathBuf>,
    /// Trust it no longer
    #[arg(long)]
    pub(crate) remove: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NewCommand {
    /// A plugin with one hook that passes `check` at once
    Plugin {
        /// Its id, and the name of its folder
        name: String,
        /// What it is written in
        #[arg(long, value_name = "LANGUAGE", default_value = "python")]
        lang: Language,
        /// Where its folder is made. Default: here
        #[arg(long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    #[value(alias = "py", alias = "python3")]
    Python,
    #[value(alias = "ts", alias = "javascript", alias = "js", alias = "node")]
    Typescript,
    #[value(alias = "rs")]
    Rust,
}
