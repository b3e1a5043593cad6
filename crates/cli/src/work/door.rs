//! The command line as a door: tells the story, keeps the records, and hands approvals to whoever decides.

use crate::args::{Approve, Output};
use crate::exit::{CliError, CliResult};
use crate::next::Next;
use crate::settings::Settings;
use crate::story::Printer;
use crate::story::teller::Approvals;
use crate::terminal::note;
use hookwright_core::approval::Approval;
use hookwright_core::history::Record;
use hookwright_core::job::JobSpec;
use hookwright_core::text::escape;
use hookwright_runtime::observe::{Event, Observer};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// An approval that waits.
#[derive(Debug)]
pub(super) struct Waits {
    pub(super) approval: Approval,
    pub(super) expires_ms: u64,
}

pub(crate) struct Door {
    /// None where the output is JSON: then nothing is told.
    pub(super) printer: Option<Arc<Printer>>,
    /// What makes the commands that it names.
    pub(super) next: Next,
    records: Mutex<Vec<Record>>,
    asks: mpsc::UnboundedSender<Waits>,
}

impl Door {
    pub(super) fn new(
        settings: &Settings,
        earlier: Vec<Record>,
        output: Output,
        approve: Approve,
    ) -> CliResult<(Self, mpsc::UnboundedReceiver<Waits>)> {
        let next = settings.next();
        let printer = match output {
            Output::Json => None,
            Output::Text => {
                let approvals = match approve {
                    Approve::Ask => Approvals::Prompted,
                    Approve::Wait => Approvals::Told,
                    Approve::Yes | Approve::No => Approvals::Answered,
                };
                let printer = Printer::new(settings.look(), approvals, next.clone(), Box::new(std::io::stderr()))
                    .map_err(|e| CliError::failed(format!("the story can't be told: {e}")))?;
                if !earlier.is_empty() {
                    printer.catch_up(&earlier);
                }
                Some(Arc::new(printer))
            }
        };
        let (asks, waits) = mpsc::unbounded_channel();
        Ok((Self { printer, next, records: Mutex::new(earlier), asks }, waits))
    }

    /// Something people should know, also where no story is told.
    pub(super) fn notice(&self, what: &str) {
        if self.printer.is_none() {
            note(&format!("note: {}", escape(what)));
        }
        self.event(Event::Notice(what));
    }

    /// Says that somebody else has to decide, where no story says it.
    pub(super) fn awaits(&self, approval: &str) {
        if self.printer.is_none() {
            let look = self.next.command(&format!("approvals show {approval}"));
            self.notice(&format!("a person is awaited: {look}"));
        }
    }

    /// Writes what waits.
    pub(super) fn finish(&self) {
        if let Some(printer) = &self.printer {
            printer.finish();
        }
    }

    /// Whether the story showed the output whole.
    pub(super) fn shown_output(&self) -> bool {
        self.printer.as_ref().is_some_and(|p| p.shown_output())
    }

    /// The records of the job, those from before this process took it up included.
    pub(super) fn records(&self) -> Vec<Record> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Observer for Door {
    fn event(&self, event: Event<'_>) {
        if let Event::Recorded(record) = &event {
            self.records.lock().unwrap_or_else(PoisonError::into_inner).push((*record).clone());
        }
        ask(&self.asks, &event);
        if let Some(printer) = &self.printer {
            printer.event(event);
        }
    }

    fn child(&self, spec: &JobSpec, earlier: &[Record]) -> Arc<dyn Observer> {
        ChildDoor::open(self.printer.clone(), self.asks.clone(), spec, earlier)
    }
}

/// The same for a job that the door's job, or one below it, started: its story stands within that of the job, its approvals are asked as those.
struct ChildDoor {
    printer: Option<Arc<Printer>>,
    asks: mpsc::UnboundedSender<Waits>,
    job: String,
}

impl ChildDoor {
    fn open(
        printer: Option<Arc<Printer>>,
        asks: mpsc::UnboundedSender<Waits>,
        spec: &JobSpec,
        earlier: &[Record],
    ) -> Arc<dyn Observer> {
        if let Some(printer) = &printer {
            printer.child(spec, earlier);
        }
        Arc::new(Self { printer, asks, job: spec.job.clone() })
    }
}

impl Observer for ChildDoor {
    fn event(&self, event: Event<'_>) {
        ask(&self.asks, &event);
        if let Some(printer) = &self.printer {
            printer.event_of(&self.job, event);
        }
    }

    fn child(&self, spec: &JobSpec, earlier: &[Record]) -> Arc<dyn Observer> {
        Self::open(self.printer.clone(), self.asks.clone(), spec, earlier)
    }
}

/// Hands an approval that waits to whoever decides.
fn ask(asks: &mpsc::UnboundedSender<Waits>, event: &Event<'_>) {
    if let Event::Waiting { approval, expires_ms } = event {
        let _ = asks.send(Waits { approval: (*approval).clone(), expires_ms: *expires_ms });
    }
}
