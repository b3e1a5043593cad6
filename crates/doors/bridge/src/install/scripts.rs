//! Files of ours alone: OpenCode's plugin, Cline's executables, Goose's plugin.

use super::line::Launch;
use crate::dialects;
use crate::harness::{Harness, Moment};
use serde_json::json;

/// What marks a file as ours.
const MARK: &str = "written by `hookwright install`";

pub(super) fn is_ours(text: &str) -> bool {
    text.lines().take(4).any(|line| line.contains(MARK))
}

pub(super) fn text(harness: Harness, event: Option<&'static str>, launch: &Launch) -> String {
    match (harness, event) {
        (Harness::OpenCode, _) => plugin(launch),
        (Harness::Goose, _) => {
            let about = format!("Asks Hookwright's hooks; {MARK}");
            let plugin = json!({"name": "hookwright", "description": about, "version": "1.0.0"});
            format!("{plugin:#}\n")
        }
        (_, event) => {
            let event = event.unwrap_or_default();
            let moment = dialects::of(harness).moment(event).unwrap_or(Moment::Before);
            format!(
                "#!/bin/sh\n# Asks Hookwright's hooks; {MARK}. `hookwright uninstall {}` removes it.\n{}\n",
                harness.id(),
                launch.line(harness, event, moment)
            )
        }
    }
}

/// The plugin's text around the command.
fn plugin(launch: &Launch) -> String {
    let words = |event: &str, moment| json!(launch.words(Harness::OpenCode, event, moment)).to_string();
    let timeout_ms = launch.timeout_s(Harness::OpenCode, Moment::Before) * 1000;
    include_str!("plugin.js")
        .replace("MARK", MARK)
        .replace("\"COMMAND\"", &words("EVENT", Moment::Before))
        .replace("\"TIMEOUT_MS\"", &timeout_ms.to_string())
}
