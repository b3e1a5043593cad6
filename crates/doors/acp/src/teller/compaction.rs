//! Compactions: as updates of their own for clients that show them, else as notices.

use super::Teller;
use crate::tell::Weight;
use crate::wire;
use agent_client_protocol::v1::schema::{
    CompactionStatus, CompactionUpdate, ContentBlock, Meta, SessionUpdate, TextContent,
};
use hookwright_core::Stored;
use hookwright_core::compaction::left_out;
use hookwright_core::job::Outcome;
use serde_json::json;

impl Teller {
    fn tells_compactions(&self) -> bool {
        // Those of a subagent are of another conversation than the client's.
        self.tell.compactions && self.within.is_none()
    }

    fn compaction_update(&self, id: &str, status: CompactionStatus) -> CompactionUpdate {
        let meta: Meta = wire::meta(json!({"job": self.job}));
        CompactionUpdate::new(self.id(id), status).meta(meta)
    }

    pub(super) fn compacts(&mut self, effect: &str) {
        self.compaction = Some(effect.to_owned());
        if self.tells_compactions() {
            let update = self.compaction_update(effect, CompactionStatus::InProgress);
            self.tell.update(SessionUpdate::CompactionUpdate(update));
        }
    }

    pub(super) async fn compacted(&mut self, effect: &str, summary: Option<&Stored>, fault: Option<&str>, turns: u32) {
        self.compaction = None;
        let text = match (summary, fault) {
            (Some(summary), _) => Some(wire::summary_text(&self.value(summary).await)),
            (None, Some(_)) => Some(left_out(turns)),
            // Long results were shortened, and nothing else.
            (None, None) => None,
        };
        let details = json!({"job": self.job, "compaction": self.id(effect), "turns": turns, "fault": fault.is_some()});
        if let Some(fault) = fault {
            let title = "No summary could be made: the oldest turns of the conversation are left out";
            self.note(Weight::Warning, title, Some(fault), details.clone());
        }
        if self.tells_compactions() {
            let mut update = self.compaction_update(effect, CompactionStatus::Completed);
            if let Some(text) = text {
                update = update.summary(vec![ContentBlock::Text(TextContent::new(text))]);
            }
            self.tell.update(SessionUpdate::CompactionUpdate(update));
        } else if fault.is_none() {
            let title = match text {
                Some(_) => format!("The conversation was compacted: a summary stands for {turns} turns"),
                None => "The conversation was compacted: long results were shortened".to_owned(),
            };
            self.note(Weight::Info, &title, text.as_deref(), details);
        }
    }

    /// The job is over: a compaction that was under way does not go on.
    pub(super) fn compaction_ends(&mut self, outcome: &Outcome) {
        let Some(effect) = self.compaction.take().filter(|_| self.tells_compactions()) else { return };
        let status = match outcome {
            Outcome::Cancelled { .. } => CompactionStatus::Cancelled,
            Outcome::Completed { .. } | Outcome::Failed { .. } => CompactionStatus::Failed,
        };
        let update = self.compaction_update(&effect, status);
        self.tell.update(SessionUpdate::CompactionUpdate(update));
    }
}
