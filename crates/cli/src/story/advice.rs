//! What lifecycle hooks said, in words for people.

use super::line::Line;
use super::look::{Look, Role};
use super::{units, values};
use hookwright_core::lifecycle::{Delivered, LifecycleAnswer, LifecycleOutcome, Point, Skip};
use hookwright_core::stored::Stored;
use hookwright_core::text;

/// Why nobody is asked.
pub(crate) fn skipped(skip: Skip) -> &'static str {
    match skip {
        Skip::BudgetUsedUp => "the session's rejections are used up",
        Skip::Declined => "the objection was heard, and the model ended its turn again",
        Skip::NoTurnLeft => "the agent's max_turns leaves no turn for an objection",
    }
}

/// How an outcome is marked, coloured and called.
pub(crate) fn word(point: Point, outcome: &LifecycleOutcome) -> (char, Role, &'static str) {
    match outcome {
        LifecycleOutcome::Text { .. } if point == Point::Stop => ('~', Role::Warn, "objects"),
        LifecycleOutcome::Text { .. } => ('~', Role::Change, "says"),
        LifecycleOutcome::Nothing => (' ', Role::Dim, "nothing"),
        LifecycleOutcome::Failed { .. } => ('!', Role::Bad, "FAILED"),
        LifecycleOutcome::TimedOut { .. } => ('!', Role::Bad, "TIMEOUT"),
    }
}

/// What more there is to say of an outcome that gave nothing.
pub(crate) fn why(outcome: &LifecycleOutcome) -> Option<String> {
    match outcome {
        LifecycleOutcome::Text { .. } | LifecycleOutcome::Nothing => None,
        LifecycleOutcome::Failed { why } => Some(format!("{why}; counts as nothing to say")),
        LifecycleOutcome::TimedOut { after_ms, killed: false } => {
            Some(format!("did not answer within {}; counts as nothing to say", text::duration(*after_ms)))
        }
        LifecycleOutcome::TimedOut { after_ms, killed: true } => Some(format!(
            "did not answer within {}, the second time in a row: its server was killed and starts anew",
            text::duration(*after_ms)
        )),
    }
}

/// What a server said, where the record holds it.
pub(crate) fn said(body: &Stored) -> Option<String> {
    Delivered::read(body.value.as_deref()?.as_str()?).map(|delivered| delivered.text)
}

/// All answers of one record, on one line.
pub(crate) fn in_history(mut line: Line, point: Option<Point>, answers: &[LifecycleAnswer], look: Look) -> Line {
    let point = point.unwrap_or(Point::Stop);
    if answers.is_empty() {
        return line.plain(&format!("no server was asked {}", point.function()));
    }
    for (i, answer) in answers.iter().enumerate() {
        let (_, role, word) = word(point, &answer.outcome);
        line = line.plain(if i == 0 { "" } else { "; " });
        line = line.plain(&format!("{}.{}: ", answer.server, point.function())).add(role, word);
        line = line.add(Role::Dim, &format!(", {}", units::took(answer.ms)));
        let more = match &answer.outcome {
            LifecycleOutcome::Text { body } => {
                let room = line.room(look).max(40);
                Some(said(body).map_or_else(|| values::elsewhere(body), |text| text.chars().take(room).collect()))
            }
            other => why(other),
        };
        if let Some(more) = more {
            line = line.plain(": ").plain(&more);
        }
    }
    line
}
