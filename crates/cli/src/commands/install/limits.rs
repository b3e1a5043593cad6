//! What a harness can't enforce, said plainly.

use crate::terminal::note;
use hookwright_bridge::install::Scope;
use hookwright_bridge::{Harness, Output};

/// Says it.
pub(super) fn tell(harness: Harness, scope: Scope) {
    note(&format!("what {} can't enforce:", harness.title()));
    for line in lines(harness, scope) {
        note(&format!("  - {line}"));
    }
    note("docs/harnesses.md says more");
}

fn lines(harness: Harness, scope: Scope) -> Vec<String> {
    let caps = harness.caps();
    let mut lines = Vec::new();
    let mut say = |line: &str| lines.push(line.to_owned());
    if !caps.tested {
        say("this bridge follows its documentation; it was not run against the real client");
    }
    if !caps.rewrites_input {
        say("changed arguments: a call whose arguments a hook changes is denied");
    }
    match caps.rewrites_output {
        Output::Replaced => {}
        Output::OrEnds => {
            say("changed or withheld results, for some tools: the run is ended before the model reads them");
        }
        Output::No => say("results: hooks see them, but the model reads them whatever the hooks say"),
    }
    if caps.failures == Output::No {
        say("results of calls that failed: the model reads them whatever the hooks say, or they are not told at all");
    }
    if !caps.prompts {
        say("prompts: they can't be held, so a whole session is one job");
    } else if harness != Harness::OpenCode {
        say("changed prompts: a prompt that a hook changes is denied");
    }
    if caps.holds_stop {
        say(
            "the end of a turn: it is held once; when it is denied again the job is recorded as denied, and the answer stands",
        );
    } else {
        say("the end of a turn: it can't be held; a denied output is only recorded as denied");
    }
    if why_no_prompt(harness).is_some() {
        say("its own prompt: --escalate ask is refused");
    }
    if !caps.subagents {
        say("subagents: their calls are asked about as the main agent's");
    }
    lines.extend(switches(harness, scope).iter().map(|line| (*line).to_owned()));
    lines
}

/// Why a hook can't have the person at a harness asked; none: it can.
pub(super) fn why_no_prompt(harness: Harness) -> Option<&'static str> {
    match harness {
        Harness::ClaudeCode | Harness::ClaudeAgentSdk | Harness::CopilotCli => None,
        Harness::Codex => Some("makes a call that a hook wants asked about, and asks nobody"),
        Harness::GeminiCli => Some("was not seen to ask where a hook says so"),
        Harness::Cursor => Some("is documented to take that answer before calls, but not to act on it"),
        Harness::OpenCode | Harness::Cline | Harness::Goose => Some("has no prompt that a hook can ask for"),
    }
}

/// What switches hooks off.
fn switches(harness: Harness, scope: Scope) -> &'static [&'static str] {
    match (harness, scope) {
        (Harness::ClaudeCode | Harness::ClaudeAgentSdk, Scope::Managed) => {
            &["--bare and --safe-mode leave out users' hooks; managed ones stay, also with `disableAllHooks`"]
        }
        (Harness::ClaudeCode, _) => &[
            "off switches: `disableAllHooks`, --bare and --safe-mode leave these hooks out; --scope managed stands firm",
        ],
        (Harness::ClaudeAgentSdk, _) => &[
            "off switches: an SDK program loads these settings only with `setting_sources` (user or project); --scope managed reaches every program",
        ],
        (Harness::Codex, Scope::Managed) => &[
            "a missing program: the line in its configuration denies then; a hook that is killed by its timeout lets the call through",
        ],
        (Harness::Codex, _) => &[
            "trust: hooks that are not trusted are skipped without a word (`codex exec` too); --scope managed needs no trust",
            "a hook that is killed by its timeout lets the call through; the bridge gives up earlier",
        ],
        (Harness::GeminiCli, _) => &[
            "off switches: `hooksConfig.enabled: false` and `hooksConfig.disabled`; an untrusted folder leaves project hooks out",
            "a hook that is killed by its timeout lets the call through; the bridge gives up earlier",
        ],
        (Harness::CopilotCli, Scope::Project) => &["an untrusted folder leaves repository hooks out without a word"],
        (Harness::CopilotCli, _) => &[
            "a hook on prompts, results or stops that is killed by its timeout lets them through; the bridge gives up earlier",
        ],
        (Harness::OpenCode, _) => {
            &["off switches: --pure leaves plugins out; a plugin that can't be loaded is left out without a word"]
        }
        (Harness::Cline, _) => &[
            "a denied call ends the whole run",
            "a hook that is killed by its timeout (120 s) may let the call through; the bridge gives up earlier",
        ],
        (Harness::Goose, _) => &["a project's plugin is loaded only where Goose is started in that project"],
        (Harness::Cursor, _) => {
            &["MCP calls are told without their server, so patterns like `server.function` don't match them"]
        }
    }
}
