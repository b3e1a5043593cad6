//! What lifecycle hooks said, as it happens.

use super::super::line::{Line, columns};
use super::super::look::Role;
use super::super::{advice, units, values};
use super::{TEXT_ROWS, Teller, place};
use hookwright_core::job::JobError;
use hookwright_core::lifecycle::{LifecycleAnswer, LifecycleOutcome, Point, Skip};

/// Columns at which an outcome and its time stand: as with policy hooks, and room for names such as `files._UserPromptSubmit`.
const OUTCOME: usize = 36;
const TIME: usize = 45;
const WHY: usize = 55;

impl Teller {
    /// Somebody is asked, or it is said why nobody is.
    pub(super) fn lifecycle_begun(
        &mut self,
        effect: &str,
        point: Point,
        skip: Option<Skip>,
        failure: Option<&JobError>,
    ) {
        if point == Point::Stop && skip != Some(Skip::Kept) {
            self.superseded();
        }
        if let Some(skip) = skip {
            let line = Line::at(place(effect), ' ').plain(point.function());
            let (what, why) = (" is not asked: ", advice::skipped(skip, failure));
            if columns(what) + columns(&why) <= line.room(self.look) {
                self.put(line.add(Role::Dim, what).add(Role::Dim, &why));
            } else {
                self.put(line.add(Role::Dim, " is not asked:"));
                self.block(&why, TEXT_ROWS, Role::Dim);
            }
        }
    }

    /// Another output stands: what was objected to before is none.
    fn superseded(&mut self) {
        if let Some((at, text)) = self.objected.take() {
            self.put(Line::at(&at, ' ').add(Role::Strong, "model"));
            self.block_of(&text, TEXT_ROWS, Role::Dim);
        }
    }

    /// What came of a point.
    pub(super) fn advised(&mut self, at: &str, point: Point, answers: &[LifecycleAnswer]) {
        let objects = point == Point::Stop && answers.iter().any(|a| a.body().is_some());
        if objects && let Some(text) = self.untold.take() {
            // What was objected to should be seen; but where a hook at the job's end may have a say, it may still be the output.
            self.objected = Some((at.to_owned(), text));
            if !(self.holds_output && self.spec.as_ref().is_some_and(|spec| spec.keeps_objected())) {
                self.superseded();
            }
        }
        for answer in answers {
            let (mark, role, word) = advice::word(point, &answer.outcome);
            let name = format!("{}.{}", answer.server, point.function());
            let line = Line::at(at, mark).plain(&name).pad(OUTCOME).add(role, word);
            let line = line.pad(TIME).add(Role::Dim, &units::took(answer.ms));
            match advice::why(&answer.outcome) {
                Some(why) if columns(&why) + WHY <= self.look.width => self.put(line.pad(WHY).plain(&why)),
                Some(why) => {
                    self.put(line);
                    self.block(&why, TEXT_ROWS, Role::Dim);
                }
                None => self.put(line),
            }
            if let LifecycleOutcome::Text { body } = &answer.outcome {
                match advice::said(body) {
                    Some(text) => self.block(&text, TEXT_ROWS, Role::Warn),
                    None => self.put(Line::more().add(Role::Dim, &values::elsewhere(body))),
                }
            }
        }
        if objects {
            let line = Line::more().add(Role::Dim, "the model is told, and goes on");
            self.put(line);
        }
    }
}
