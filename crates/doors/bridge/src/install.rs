//! Writing a harness's configuration, as texts: what stands there goes in, what is to stand there comes out.
//!
//! Invariant: what is not ours stays as it is, byte for byte where the format allows it; what can't be understood is an error, not overwritten.
//! Invariant: doing it twice changes nothing.

mod codex;
mod json;
mod line;
mod scripts;

pub use codex::{state_keys, with_trust, without_trust};
pub use line::Launch;
pub(crate) use line::guarded;

use crate::dialects;
use crate::harness::{Harness, Moment};
use std::path::{Path, PathBuf};

/// For whom it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// For all that this user does.
    User,
    /// For the project in the current folder.
    Project,
    /// For all users of the machine; they can't switch it off.
    Managed,
}

/// Where things stand on this machine.
#[derive(Debug, Clone)]
pub struct Places {
    /// The user's home.
    pub home: PathBuf,
    /// The project.
    pub project: PathBuf,
    /// The root of the file system.
    pub root: PathBuf,
    /// `XDG_CONFIG_HOME`.
    pub config: Option<PathBuf>,
    /// `CLAUDE_CONFIG_DIR`.
    pub claude: Option<PathBuf>,
    /// `CODEX_HOME`.
    pub codex: Option<PathBuf>,
    /// `COPILOT_HOME`.
    pub copilot: Option<PathBuf>,
}

/// One file that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its path.
    pub path: PathBuf,
    /// What it holds.
    pub shape: Shape,
    /// Whether it is a program.
    pub executable: bool,
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// JSON with a map `hooks`, beside other things.
    Hooks,
    /// Codex's requirements, TOML.
    Requirements,
    /// A file of ours alone.
    Ours {
        /// The event that it is for, where it is for one.
        event: Option<&'static str>,
    },
}

/// Why a file can't be edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// There is no such scope.
    #[error("{0}")]
    Scope(String),
    /// What stands there can't be understood.
    #[error("what stands there can't be edited: {0}")]
    Foreign(String),
}

/// The files of a harness, in the order in which they are written.
pub fn targets(harness: Harness, scope: Scope, places: &Places) -> Result<Vec<Target>, InstallError> {
    let hooks = |path: PathBuf| vec![Target { path, shape: Shape::Hooks, executable: false }];
    let none = |what: &str| Err(InstallError::Scope(format!("{}: {what}", harness.title())));
    let config = places.config.clone().unwrap_or_else(|| places.home.join(".config"));
    Ok(match (harness, scope) {
        (Harness::ClaudeCode | Harness::ClaudeAgentSdk, Scope::User) => {
            hooks(places.claude.clone().unwrap_or_else(|| places.home.join(".claude")).join("settings.json"))
        }
        (Harness::ClaudeCode | Harness::ClaudeAgentSdk, Scope::Project) => {
            hooks(places.project.join(".claude/settings.json"))
        }
        (Harness::ClaudeCode | Harness::ClaudeAgentSdk, Scope::Managed) => hooks(managed_claude(&places.root)),
        (Harness::Codex, Scope::User) => hooks(codex_home(places).join("hooks.json")),
        (Harness::Codex, Scope::Project) => hooks(places.project.join(".codex/hooks.json")),
        (Harness::Codex, Scope::Managed) => vec![Target {
            path: places.root.join("etc/codex/requirements.toml"),
            shape: Shape::Requirements,
            executable: false,
        }],
        (Harness::GeminiCli, Scope::User) => hooks(places.home.join(".gemini/settings.json")),
        (Harness::GeminiCli, Scope::Project) => hooks(places.project.join(".gemini/settings.json")),
        (Harness::GeminiCli, Scope::Managed) => hooks(managed_gemini(&places.root)),
        (Harness::CopilotCli, Scope::User) => {
            hooks(places.copilot.clone().unwrap_or_else(|| places.home.join(".copilot")).join("hooks/hookwright.json"))
        }
        (Harness::CopilotCli, Scope::Project) => hooks(places.project.join(".github/hooks/hookwright.json")),
        (Harness::OpenCode, Scope::User) => vec![ours(config.join("opencode/plugins/hookwright.js"), None)],
        (Harness::OpenCode, Scope::Project) => vec![ours(places.project.join(".opencode/plugins/hookwright.js"), None)],
        (Harness::Cline, Scope::User) => cline(&places.home.join(".cline/hooks")),
        (Harness::Cline, Scope::Project) => cline(&places.project.join(".clinerules/hooks")),
        (Harness::Goose, Scope::User) => goose(&places.home),
        (Harness::Goose, Scope::Project) => goose(&places.project),
        (Harness::Cursor, Scope::User) => hooks(places.home.join(".cursor/hooks.json")),
        (Harness::Cursor, Scope::Project) => hooks(places.project.join(".cursor/hooks.json")),
        (Harness::Cursor, Scope::Managed) => hooks(places.root.join("etc/cursor/hooks.json")),
        (Harness::CopilotCli | Harness::OpenCode | Harness::Cline | Harness::Goose, Scope::Managed) => {
            return none("it has no managed hooks that its users can't switch off; use --scope user or project");
        }
    })
}

/// Where Codex keeps what it has.
pub fn codex_home(places: &Places) -> PathBuf {
    places.codex.clone().unwrap_or_else(|| places.home.join(".codex"))
}

fn managed_claude(root: &Path) -> PathBuf {
    if cfg!(target_os = "macos") {
        root.join("Library/Application Support/ClaudeCode/managed-settings.json")
    } else {
        root.join("etc/claude-code/managed-settings.json")
    }
}

fn managed_gemini(root: &Path) -> PathBuf {
    if cfg!(target_os = "macos") {
        root.join("Library/Application Support/GeminiCli/settings.json")
    } else {
        root.join("etc/gemini-cli/settings.json")
    }
}

fn ours(path: PathBuf, event: Option<&'static str>) -> Target {
    Target { path, shape: Shape::Ours { event }, executable: event.is_some() }
}

fn cline(folder: &Path) -> Vec<Target> {
    events(Harness::Cline).map(|(event, _)| ours(folder.join(event), Some(event))).collect()
}

fn goose(above: &Path) -> Vec<Target> {
    let plugin = above.join(".agents/plugins/hookwright");
    vec![
        ours(plugin.join("plugin.json"), None),
        Target { path: plugin.join("hooks/hooks.json"), shape: Shape::Hooks, executable: false },
    ]
}

/// The events that are hooked: beginnings can't be held anywhere, and a call says all that is needed.
pub(crate) fn events(harness: Harness) -> impl Iterator<Item = (&'static str, Moment)> {
    let all = dialects::of(harness).events().iter().copied();
    all.filter(|(_, moment)| !matches!(moment, Moment::Start | Moment::SubagentStart))
}

/// What is to stand in a file.
pub fn with(harness: Harness, target: &Target, before: Option<&str>, launch: &Launch) -> Result<String, InstallError> {
    match &target.shape {
        Shape::Hooks => json::with(harness, before, launch),
        Shape::Requirements => codex::with(before, launch),
        Shape::Ours { event } => {
            let text = scripts::text(harness, *event, launch);
            match before {
                Some(before) if !scripts::is_ours(before) => Err(InstallError::Foreign(
                    "somebody else's file has the name that is needed; move it away, or call it from elsewhere"
                        .to_owned(),
                )),
                _ => Ok(text),
            }
        }
    }
}

/// What is left of a file without ours; none: nothing.
pub fn without(harness: Harness, target: &Target, before: &str) -> Result<Option<String>, InstallError> {
    match &target.shape {
        Shape::Hooks => json::without(harness, before),
        Shape::Requirements => codex::without(before),
        Shape::Ours { .. } => Ok(if scripts::is_ours(before) { None } else { Some(before.to_owned()) }),
    }
}

/// The command lines that stand in a file, by event: what a probe runs.
pub fn commands(harness: Harness, launch: &Launch) -> Vec<(&'static str, Moment, String)> {
    events(harness).map(|(event, moment)| (event, moment, launch.line(harness, event, moment))).collect()
}
