//! Which calls wait for a person, as the session's job tells it.

use hookwright_core::approval::{self, Approval, Sheet};
use hookwright_core::history::Record;
use hookwright_core::job::{Fact, JobSpec};
use hookwright_core::text;
use hookwright_runtime::observe::{Event, Observer, Silent};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Characters of reasons in a line that tells why something waits.
const REASONS_CHARS: u32 = 1_000;

/// Watches a session's job.
pub(crate) struct Watch {
    /// By the call's id; what concerns no call is under the empty one.
    waiting: Mutex<HashMap<String, Arc<Waiting>>>,
    changes: watch::Sender<u64>,
}

/// A question that a person is asked.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) approval: Approval,
}

impl Watch {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { waiting: Mutex::default(), changes: watch::Sender::new(0) })
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Arc<Waiting>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a call waits for.
    pub(crate) fn of(&self, call: &str) -> Option<Arc<Waiting>> {
        self.waiting().get(call).cloned()
    }

    /// The question of an approval that waits.
    pub(crate) fn by_id(&self, approval: &str) -> Option<Arc<Waiting>> {
        self.waiting().values().find(|waiting| waiting.approval.id == approval).cloned()
    }

    /// A call no longer waits.
    pub(crate) fn forget(&self, call: &str) {
        self.waiting().remove(call);
    }

    /// Is told each time that something begins or ends to wait.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

impl Observer for Watch {
    fn event(&self, event: Event<'_>) {
        let changed = match event {
            Event::Waiting { approval, .. } if approval.parent_jobs.is_empty() => {
                let call = approval.call.clone().unwrap_or_default();
                self.waiting().insert(call, Arc::new(Waiting { approval: approval.clone() }));
                true
            }
            Event::Recorded(Record {
                fact: Fact::ApprovalDecided { approval, .. } | Fact::ApprovalExpired { approval, .. },
                ..
            }) => {
                let mut waiting = self.waiting();
                let before = waiting.len();
                waiting.retain(|_, waits| waits.approval.id != *approval);
                waiting.len() < before
            }
            Event::Recorded(Record { fact: Fact::CallCancelled { call }, .. }) => self.waiting().remove(call).is_some(),
            _ => false,
        };
        if changed {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    fn child(&self, _: &JobSpec, _: &[Record]) -> Arc<dyn Observer> {
        Arc::new(Silent)
    }
}

impl Waiting {
    /// Who asked for a person, and why.
    pub(crate) fn reasons(&self) -> String {
        let reasons = self.approval.reasons.iter().map(|e| format!("{}: {}", e.hook, e.reason));
        let reasons = reasons.collect::<Vec<_>>().join("; ");
        let mut shown = text::shown(&reasons, REASONS_CHARS);
        if reasons.chars().nth(REASONS_CHARS as usize).is_some() {
            shown.push_str(" […]");
        }
        shown
    }

    /// In one line, while it waits.
    pub(crate) fn line(&self) -> String {
        format!("waiting for a person to decide approval {} ({})", self.approval.id, self.reasons())
    }

    /// What a client reads that does not wait any longer.
    pub(crate) fn left(&self, tool: &str, waited: &str, show: &str) -> String {
        let (id, reasons) = (&self.approval.id, self.reasons());
        let what = if self.approval.event == hookwright_core::event::Moment::PostToolCall {
            format!("The call to {tool} was made, and its result waits for a person")
        } else {
            format!("The call to {tool} was not made yet: it waits for a person")
        };
        let (then, again) = if self.approval.event == hookwright_core::event::Moment::PostToolCall {
            ("call it again with exactly the same arguments to get the result; it will not be made a second time", "")
        } else {
            (
                "call it again with exactly the same arguments, in this session: the approved call then goes through",
                ", once",
            )
        };
        format!(
            "{what} (approval {id}, asked for by {reasons}). Nobody has decided within {waited}. Once {id} is approved, {then}{again}. \
             Whoever decides sees it with: {show}"
        )
    }

    /// The question in full, for a person at the client; what it may be answered with is another's to say.
    pub(crate) fn question(&self, tool: &str, show: &str) -> Sheet {
        let what = if self.approval.event == hookwright_core::event::Moment::PostToolCall {
            "about the result of"
        } else {
            "before"
        };
        let Sheet { text, whole } = approval::sheet(&self.approval, show);
        Sheet { text: format!("A hook asks for a person {what} a call of {tool}.\n\n{text}"), whole }
    }
}
