//! What servers said at the end of a session, told to the client.

use crate::tell::Tell;
use crate::teller::answer_notice;
use hookwright_core::history::Record;
use hookwright_core::job::{Fact, JobSpec};
use hookwright_core::lifecycle::{LifecycleOutcome, Point};
use hookwright_core::text::shown;
use hookwright_runtime::observe::{Event, Observer, Silent};
use serde_json::{Value, json};
use std::sync::Arc;

/// Watches the end of a session.
pub(crate) struct Farewell(pub(crate) Tell);

impl Observer for Farewell {
    fn event(&self, event: Event<'_>) {
        let Event::Recorded(Record { fact: Fact::SessionEnded { answers }, .. }) = event else { return };
        for answer in answers {
            // Nobody waits here for what is kept aside.
            let said = match &answer.outcome {
                LifecycleOutcome::Text { body } => Some(match body.value.as_deref() {
                    Some(body) => said(body),
                    None => format!("[{} bytes]", body.bytes),
                }),
                _ => None,
            };
            let Some((weight, title, text, mut details)) = answer_notice(Point::SessionEnd.function(), answer, said)
            else {
                continue;
            };
            details["session"] = json!(self.0.session);
            self.0.notice(weight, &title, text.as_deref(), details);
        }
    }

    fn child(&self, _: &JobSpec, _: &[Record]) -> Arc<dyn Observer> {
        Arc::new(Silent)
    }
}

/// The text within what a model would be told.
pub(crate) fn said(body: &Value) -> String {
    let text = body.as_str().and_then(|body| serde_json::from_str::<Value>(body).ok());
    match text.as_ref().and_then(|body| body["text"].as_str()) {
        Some(text) => text.to_owned(),
        None => shown(body.as_str().unwrap_or_default(), 2_000),
    }
}
