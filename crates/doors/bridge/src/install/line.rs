//! The command that a harness runs, as a shell's line.
//!
//! Invariant: where the program is missing, is killed or fails, the line itself says the harness's no.

use crate::ask::Escalate;
use crate::door::{Door, Trouble};
use crate::harness::{Harness, Moment};
use std::path::PathBuf;

/// Seconds by which the bridge gives up before the harness does.
const MARGIN_S: u64 = 30;
/// Seconds for events that nobody waits for.
const BRIEF_S: u64 = 10;

/// How the bridge is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program, by its absolute path.
    pub program: PathBuf,
    /// The store whose node is asked, by its absolute path.
    pub store: PathBuf,
    /// The tenant whose hooks are asked; none: the node's first.
    pub tenant: Option<String>,
    /// Who decides what hooks escalate.
    pub escalate: Escalate,
    /// Seconds that the bridge waits for an answer; none: as long as the harness's own limit safely allows.
    pub deadline_s: Option<u64>,
}

impl Launch {
    /// Seconds that the harness waits for the hook.
    pub fn timeout_s(&self, harness: Harness, moment: Moment) -> u64 {
        match (harness, moment) {
            // A limit that can't be set.
            (Harness::Cline, _) => 120,
            (Harness::Codex, Moment::End) => 3,
            (_, Moment::End | Moment::Start | Moment::SubagentStart) => BRIEF_S,
            _ => self.deadline_s.map_or(600, |deadline| deadline.saturating_add(MARGIN_S)),
        }
    }

    /// Seconds that the bridge waits for the node.
    pub fn wait_s(&self, harness: Harness, moment: Moment) -> u64 {
        let timeout = self.timeout_s(harness, moment);
        let safe = timeout.saturating_sub(MARGIN_S.min(timeout / 3)).max(1);
        self.deadline_s.map_or(safe, |deadline| deadline.min(safe))
    }

    /// The words of the command.
    pub fn words(&self, harness: Harness, event: &str, moment: Moment) -> Vec<String> {
        let mut words = vec![
            self.program.to_string_lossy().into_owned(),
            "bridge".to_owned(),
            harness.id().to_owned(),
            event.to_owned(),
            "--db".to_owned(),
            self.store.to_string_lossy().into_owned(),
            "--deadline".to_owned(),
            self.wait_s(harness, moment).to_string(),
        ];
        if let Some(tenant) = &self.tenant {
            words.extend(["--tenant".to_owned(), tenant.clone()]);
        }
        if self.escalate == Escalate::Ask {
            words.extend(["--escalate".to_owned(), "ask".to_owned()]);
        }
        words
    }

    /// The line for a shell.
    pub fn line(&self, harness: Harness, event: &str, moment: Moment) -> String {
        guarded(&self.words(harness, event, moment), harness, event, moment)
    }
}

/// These words as a shell's line that says the harness's no where they can't be run.
pub(crate) fn guarded(words: &[String], harness: Harness, event: &str, moment: Moment) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let run = words.join(" ");
    // A stop that is held each time because a program is missing would never end.
    if !matches!(moment, Moment::Prompt | Moment::Before | Moment::After | Moment::Failed) {
        return run;
    }
    let door = Door::new(harness, Some(event.to_owned()), Escalate::Wait, 0);
    let no = door.refuse(Trouble::Own { why: "it could not be run".to_owned() });
    let say = format!("printf %s {}", quoted(&no.stdout));
    if no.code == 0 {
        return format!("{run} || {say}");
    }
    format!(
        "{run} || {{ c=$?; [ $c = {code} ] || {{ {say}; printf %s {text} >&2; }}; exit {code}; }}",
        code = no.code,
        text = quoted(&no.stderr)
    )
}

/// A word for a POSIX shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:=@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Whether a command line is one of ours for that harness.
pub(crate) fn is_ours(harness: Harness, line: &str) -> bool {
    let ids: &[&str] = match harness {
        Harness::ClaudeCode | Harness::ClaudeAgentSdk => &["claude-code", "claude-agent-sdk"],
        Harness::Codex => &["codex"],
        Harness::GeminiCli => &["gemini-cli"],
        Harness::CopilotCli => &["copilot-cli"],
        Harness::OpenCode => &["opencode"],
        Harness::Cline => &["cline"],
        Harness::Goose => &["goose"],
        Harness::Cursor => &["cursor"],
    };
    ids.iter().any(|id| {
        line.split_once(&format!(" bridge {id} ")).is_some_and(|(program, rest)| {
            program.trim_end_matches('\'').ends_with("hookwright") && rest.contains(" --db ")
        })
    })
}
