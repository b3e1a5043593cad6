//! Tells a job's story while it runs, through a thread that writes.
//!
//! Invariant: [`Observer::event`] never waits for the writer. What a slow reader lets pile up beyond [`QUEUE_BYTES`] is left
//! out of the story (not of the history), and the story says so.
//! Invariant: a writer that fails ends the story, not the job.

use super::look::Look;
use super::teller::{Approvals, Teller};
use super::units;
use hookwright_core::history::Record;
use hookwright_core::job::Fact;
use hookwright_runtime::observe::{Event, Observer};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Bytes of text that may wait for the writer.
pub(crate) const QUEUE_BYTES: usize = 4 * 1024 * 1024;

/// The story of one job, as an [`Observer`].
pub(crate) struct Printer {
    inner: Mutex<Inner>,
    queued: Arc<AtomicUsize>,
    writing: Mutex<Option<JoinHandle<()>>>,
}

struct Inner {
    teller: Teller,
    sender: Option<Sender<String>>,
    /// Set while a prompt stands on the screen.
    prompt: Option<OpenPrompt>,
    left_out: usize,
}

struct OpenPrompt {
    approval: String,
    over: Arc<AtomicBool>,
    held: String,
}

/// A prompt that stands on the screen: the story waits behind it. Dropping it lets the story go on.
pub(crate) struct PromptGuard<'a> {
    printer: &'a Printer,
    over: Arc<AtomicBool>,
}

impl PromptGuard<'_> {
    /// Whether the question was settled elsewhere meanwhile; the story has gone on then.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Shows something of the prompt.
    pub(crate) fn show(&self, text: &str) {
        if !self.is_over() {
            let inner = self.printer.lock();
            self.printer.send(inner, text.to_owned());
        }
    }
}

impl Drop for PromptGuard<'_> {
    fn drop(&mut self) {
        if !self.is_over() {
            let mut inner = self.printer.lock();
            let held = inner.prompt.take().map(|p| p.held).unwrap_or_default();
            self.printer.send(inner, held);
        }
    }
}

impl Printer {
    /// A printer to a writer, e.g. standard error. Fails where no thread can be started.
    pub(crate) fn new(look: Look, approvals: Approvals, writer: Box<dyn Write + Send>) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let count = queued.clone();
        let thread =
            std::thread::Builder::new().name("story".into()).spawn(move || write_all(&receiver, &count, writer))?;
        Ok(Self {
            inner: Mutex::new(Inner {
                teller: Teller::new(look, approvals),
                sender: Some(sender),
                prompt: None,
                left_out: 0,
            }),
            queued,
            writing: Mutex::new(Some(thread)),
        })
    }

    /// Takes the records from before this process took the job up, and shows the job's header. Call before the job runs.
    pub(crate) fn catch_up(&self, records: &[Record]) {
        let mut inner = self.lock();
        let header = inner.teller.catch_up(records);
        self.send(inner, header);
    }

    /// Begins a prompt: the story waits behind it, until the guard is dropped or the approval is settled elsewhere.
    /// One at a time.
    pub(crate) fn prompt(&self, approval: &str) -> PromptGuard<'_> {
        let over = Arc::new(AtomicBool::new(false));
        let mut inner = self.lock();
        let held = inner.prompt.take().map(|p| p.held).unwrap_or_default();
        inner.prompt = Some(OpenPrompt { approval: approval.to_owned(), over: over.clone(), held });
        PromptGuard { printer: self, over }
    }

    /// Whether the job's output stands in the story, whole and as it is.
    pub(crate) fn shown_output(&self) -> bool {
        self.lock().teller.shown_output()
    }

    /// Writes what waits, and ends the story. Waits for the writer.
    pub(crate) fn finish(&self) {
        let mut inner = self.lock();
        if let Some(prompt) = inner.prompt.take() {
            prompt.over.store(true, Ordering::Release);
            if let Some(sender) = &inner.sender {
                let _ = sender.send(prompt.held);
            }
        }
        let note = left_out(inner.left_out);
        if let Some(sender) = inner.sender.take() {
            let _ = sender.send(note);
        }
        drop(inner);
        let thread = self.writing.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, mut inner: MutexGuard<'_, Inner>, text: String) {
        if text.is_empty() {
            return;
        }
        if self.queued.load(Ordering::Relaxed) + text.len() > QUEUE_BYTES {
            inner.left_out += text.len();
            return;
        }
        let text = match std::mem::take(&mut inner.left_out) {
            0 => text,
            n => left_out(n) + &text,
        };
        self.queued.fetch_add(text.len(), Ordering::Relaxed);
        if let Some(sender) = &inner.sender {
            let _ = sender.send(text);
        }
    }
}

fn left_out(bytes: usize) -> String {
    if bytes == 0 {
        return String::new();
    }
    let size = units::bytes(bytes as u64);
    format!(
        "\n[{size} of the story are left out here: they were not read in time; `hookwright jobs history` has all]\n"
    )
}

/// Whether a fact settles an approval, or all of them.
fn settles(fact: &Fact, id: &str) -> bool {
    match fact {
        Fact::ApprovalDecided { approval, .. } | Fact::ApprovalExpired { approval, .. } => approval == id,
        Fact::Cancelled { .. } | Fact::Finished { .. } => true,
        _ => false,
    }
}

impl Observer for Printer {
    fn event(&self, event: Event<'_>) {
        let mut inner = self.lock();
        let mut text = inner.teller.event(&event);
        if let Some(prompt) = &mut inner.prompt {
            let over = matches!(&event, Event::Recorded(record) if settles(&record.fact, &prompt.approval));
            if !over {
                let room = QUEUE_BYTES.saturating_sub(prompt.held.len());
                if text.len() <= room {
                    prompt.held.push_str(&text);
                } else {
                    inner.left_out += text.len();
                }
                return;
            }
            prompt.over.store(true, Ordering::Release);
            // The cursor stands behind the question.
            text = format!("\n{}{text}", prompt.held);
            inner.prompt = None;
        }
        self.send(inner, text);
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        self.finish();
    }
}

fn write_all(receiver: &Receiver<String>, queued: &AtomicUsize, mut writer: Box<dyn Write + Send>) {
    let mut broken = false;
    while let Ok(text) = receiver.recv() {
        if !broken {
            broken = writer.write_all(text.as_bytes()).and_then(|()| writer.flush()).is_err();
        }
        // The note at the end is not counted.
        let _ = queued.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some(n.saturating_sub(text.len())));
    }
}

#[cfg(test)]
mod tests;
