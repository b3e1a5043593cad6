//! What lifecycle hooks said, in words for people.

use super::line::Line;
use super::look::{Look, Role};
use super::{units, values};
use hookwright_core::job::JobError;
use hookwright_core::lifecycle::{Delivered, LifecycleAnswer, LifecycleOutcome, Point, Skip};
use hookwright_core::stored::Stored;
use hookwright_core::text;

/// Why nobody is asked.
pub(crate) fn skipped(skip: Skip, failure: Option<&JobError>) -> String {
    let why = match skip {
        Skip::BudgetUsedUp => "the session's rejections are used up",
        Skip::Declined => "the objection was heard, and the model ended its turn again",
        Skip::NoTurnLeft => "the agent's max_turns leaves no turn for an objection",
        Skip::Kept => "the agent could not go on after an objection, and its output from before stands",
    };
    failure.map_or_else(|| why.to_owned(), |failure| format!("{why}: {}: {}", failure.kind, failure.message))
}

/// How an outcome is marked, coloured and called.
pub(crate) fn word(point: Point, outcome: &LifecycleOutcome) -> (char, Role, &'static str) {
    match outcome {
        LifecycleOutcome::Text { .. } if point == Point::Stop => ('~', Role::Warn, "objects"),
        LifecycleOutcome::Text { .. } => ('~', Role::Change, "says"),
        LifecycleOutcome::Nothing => (' ', Role::Dim, "nothing"),
        LifecycleOutcome::Failed { .. } => ('!', Role::Bad, "FAILED"),
        LifecycleOutcome::TimedOut { killed: false, .. } => ('!', Role::Bad, "TIMEOUT"),
        LifecycleOutcome::TimedOut { killed: true, .. } => ('!', Role::Bad, "KILLED"),
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

/// What one server said, added to the start of its line.
fn answered(line: Line, point: Point, answer: &LifecycleAnswer, look: Look) -> Line {
    let (_, role, word) = word(point, &answer.outcome);
    let line = line.plain(&format!("{}.{}: ", answer.server, point.function())).add(role, word);
    let line = line.add(Role::Dim, &format!(", {}", units::took(answer.ms)));
    let more = match &answer.outcome {
        LifecycleOutcome::Text { body } => {
            let room = line.room(look).max(8);
            Some(said(body).map_or_else(|| values::elsewhere(body), |text| text.chars().take(room).collect()))
        }
        other => why(other),
    };
    match more {
        Some(more) => line.plain(": ").plain(&more),
        None => line,
    }
}

/// The answers of one record: on its line where it is one, else on lines below, which begin at column `at`.
pub(crate) fn in_history(line: Line, point: Point, answers: &[LifecycleAnswer], at: usize, look: Look) -> String {
    match answers {
        [] => line.add(Role::Dim, &format!("nobody was asked {}", point.function())).end(look),
        [one] => answered(line, point, one, look).end(look),
        several => {
            let first =
                line.plain(&format!("{} of {}", point.function(), units::plural(several.len() as u64, "server")));
            let rest = several.iter().map(|one| answered(Line::default().pad(at), point, one, look).end(look));
            std::iter::once(first.end(look)).chain(rest).collect()
        }
    }
}
