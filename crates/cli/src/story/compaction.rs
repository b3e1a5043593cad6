//! Compactions in words.

use super::look::Role;
use super::units;
use hookwright_core::job::Fact;
use hookwright_core::stored::Stored;

/// What came of a compaction: its mark, colour and words.
pub(super) fn word(fact: &Fact) -> (char, Role, String) {
    let Fact::Compacted { summary, fault, turns, .. } = fact else { return (' ', Role::Plain, String::new()) };
    let turns = units::plural(u64::from(*turns), "turn");
    match (summary, fault) {
        (Some(summary), _) => {
            (' ', Role::Change, format!("compacted: {turns} became a summary of {}", units::bytes(summary.bytes)))
        }
        (None, Some(_)) => ('!', Role::Warn, format!("compacted without a summary: {turns} were left out")),
        (None, None) => (' ', Role::Change, "compacted: the last results were shortened".to_owned()),
    }
}

/// The same for the one line of a history.
pub(super) fn short(fact: &Fact) -> String {
    let Fact::Compacted { summary, fault, turns, .. } = fact else { return String::new() };
    let turns = units::plural(u64::from(*turns), "turn");
    match (summary, fault) {
        (Some(_), _) => format!("compacted {turns}"),
        (None, Some(_)) => format!("left out {turns}, no summary"),
        (None, None) => "shortened the last results".to_owned(),
    }
}

/// The model's own words in a summary, without ours before them.
pub(super) fn words(summary: &Stored) -> Option<&str> {
    let text = summary.value.as_deref()?.as_str()?;
    Some(text.split_once('\n').map_or(text, |(_, words)| words))
}
