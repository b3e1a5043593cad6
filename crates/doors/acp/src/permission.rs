//! Asks the client's user what a hook escalated, beside all other ways to decide (SPEC §7).
//!
//! Invariant: what is shown is what the yes is bound to; where something is left out, that is said and no yes is offered.
//! Invariant: an answer of the client decides only what is still open; a client that fails decides nothing.

use crate::door::Door;
use crate::mode::Mode;
use crate::session::Session;
use crate::tell::{Tell, Weight};
use crate::wire;
use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields,
};
use hookwright_core::approval::{self, Approval, Sheet};
use hookwright_core::event::Moment;
use hookwright_core::text::escape;
use hookwright_runtime::approvals::{Decided, decide};
use hookwright_runtime::ports::store::{ApprovalRow, ApprovalState};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_util::sync::CancellationToken;

/// Ids of the two answers.
const ALLOW: &str = "allow_once";
const REJECT: &str = "reject_once";

/// One question to the client.
pub(crate) struct Question {
    pub(crate) door: Arc<Door>,
    pub(crate) session: Arc<Session>,
    pub(crate) tell: Tell,
    /// The client's id of what is asked about.
    pub(crate) id: String,
    pub(crate) approval: Approval,
    /// Ends the question: somebody else decided, it expired, or the job is over.
    pub(crate) withdrawn: CancellationToken,
    /// Set as soon as the client is asked.
    pub(crate) shown: Arc<AtomicBool>,
    /// Cancels the prompt.
    pub(crate) cancel: CancellationToken,
}

impl Question {
    /// Sees to it, by the session's mode.
    pub(crate) async fn see_to(self) {
        let mode = self.session.mode();
        let say = self.door.wiring.say(true, None);
        if mode == Mode::Wait || !self.approval.may_decide(&say.by) {
            let mut who: Vec<String> = self.approval.approvers.concat();
            who.sort();
            who.dedup();
            return self.elsewhere(&who);
        }
        if mode == Mode::Deny {
            return self.decide(false, Some("the session's mode is deny".to_owned())).await;
        }
        if self.withdrawn.is_cancelled() {
            return;
        }
        self.shown.store(true, Ordering::Relaxed);
        let id = &self.approval.id;
        let sheet = approval::sheet(&self.approval, &format!("hookwright approvals show {id}"));
        let whole = sheet.whole;
        let asked = self.tell.client.send_request(self.request(sheet));
        let handle = asked.cancellation_handle();
        let answer = tokio::select! {
            biased;
            () = self.withdrawn.cancelled() => {
                // The client closes its question; whatever it answers then counts nothing.
                let _ = handle.cancel();
                return;
            }
            answer = asked.block_task() => answer,
        };
        match answer {
            Ok(answer) => match answer.outcome {
                RequestPermissionOutcome::Selected(selected) => match &*selected.option_id.0 {
                    ALLOW if whole => self.decide(true, self.note()).await,
                    REJECT => self.decide(false, self.note()).await,
                    _ => self.elsewhere(&[]),
                },
                // Clients answer so where the prompt was cancelled.
                _ => self.cancel.cancel(),
            },
            Err(error) => {
                tracing::info!(%error, "the client can't ask its user");
                self.elsewhere(&[]);
            }
        }
    }

    fn note(&self) -> Option<String> {
        let name = self.door.client_name();
        (!name.is_empty()).then(|| format!("answered in {name}"))
    }

    /// Says that others have to decide.
    fn elsewhere(&self, who: &[String]) {
        let id = &self.approval.id;
        let title = format!("Waiting for a person: approval {id}");
        let who = if who.is_empty() { String::new() } else { format!(" It may be decided by {}.", who.join(", ")) };
        let next = format!("`hookwright approvals show {id}` tells more; `approve` and `deny` decide.{who}");
        self.tell.notice(
            Weight::Warning,
            &title,
            Some(&next),
            json!({"job": self.approval.job, "approval": id, "state": "waiting"}),
        );
    }

    async fn decide(&self, approve: bool, note: Option<String>) {
        let store = self.door.wiring.store();
        let clock = self.door.wiring.clock();
        let decided = match store.approval(&self.approval.id).await {
            // The row may be another than the one that was shown.
            Ok(row) if digest_of(&row) == Some(&self.approval.digest) => {
                decide(&*store, &*clock, &row, self.door.wiring.say(approve, note)).await
            }
            Ok(_) => Ok(Decided::Mismatch("its row was changed".to_owned())),
            Err(error) => Err(error),
        };
        let told = match decided {
            Ok(Decided::Counted) => return,
            Ok(Decided::AlreadyDecided(row)) => already(&row),
            Ok(Decided::Expired) => "it had expired".to_owned(),
            Ok(Decided::NotAllowed(people)) => format!("only these may decide it: {}", people.join(", ")),
            Ok(Decided::Mismatch(why)) => format!("it is not what was shown, nothing was decided: {why}"),
            Err(error) => format!("it could not be stored, nothing was decided: {error}"),
        };
        let id = &self.approval.id;
        let title = format!("The answer on approval {id} does not count");
        let details = json!({"job": self.approval.job, "approval": id, "state": "not_counted"});
        self.tell.notice(Weight::Warning, &title, Some(&told), details);
    }

    fn request(&self, sheet: Sheet) -> RequestPermissionRequest {
        let approval = &self.approval;
        let title = match (&approval.tool, approval.event) {
            (Some(tool), Moment::PostToolCall) => format!("Give the model the result of {}?", escape(tool)),
            (Some(tool), _) => escape(tool),
            (None, Moment::JobStart) => "Start with this prompt?".to_owned(),
            (None, _) => "Give this answer?".to_owned(),
        };
        let mut fields = ToolCallUpdateFields::new()
            .title(title)
            .status(ToolCallStatus::Pending)
            .content(vec![wire::sheet(sheet.text)]);
        if let (Moment::PreToolCall, Some(value)) = (approval.event, approval.value.value.as_deref()) {
            fields.raw_input = wire::raw_input(value);
            fields = fields.locations(wire::locations(value, &self.session.cwd));
        }
        let mut options = vec![PermissionOption::new(REJECT, "Reject", PermissionOptionKind::RejectOnce)];
        if sheet.whole {
            options.insert(0, PermissionOption::new(ALLOW, "Allow once", PermissionOptionKind::AllowOnce));
        }
        let reasons: Vec<Value> =
            approval.reasons.iter().map(|r| json!({"hook": r.hook, "reason": r.reason})).collect();
        let mut meta = json!({
            "approval": approval.id, "job": approval.job, "event": approval.event.name(), "digest": approval.digest,
            "reasons": reasons, "expiresAfterMs": approval.expires_after_ms,
        });
        if !approval.parent_jobs.is_empty() {
            meta["parentJobs"] = json!(approval.parent_jobs);
        }
        let call = ToolCallUpdate::new(self.id.clone(), fields);
        RequestPermissionRequest::new(self.tell.session.clone(), call, options).meta(wire::meta(meta))
    }
}

fn digest_of(row: &ApprovalRow) -> Option<&str> {
    row.approval.get("digest").and_then(Value::as_str)
}

fn already(row: &ApprovalRow) -> String {
    let by = row.decision.as_ref().map_or(String::new(), |d| format!(" by {}", escape(&d.by)));
    match row.state {
        ApprovalState::Approved => format!("it was approved{by} before"),
        ApprovalState::Denied => format!("it was declined{by} before"),
        ApprovalState::Expired => "it had expired".to_owned(),
        ApprovalState::Open | ApprovalState::Closed => "nobody needs to decide it any more".to_owned(),
    }
}
