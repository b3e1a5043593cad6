//! Tells a job's story while it runs, through a thread that writes.
//!
//! Invariant: [`Printer::event`] never waits for the writer. What a slow reader lets pile up beyond [`QUEUE_BYTES`] is left
//! out of the story (not of the history), and the story says so.
//! Invariant: a writer that fails ends the story, not the job.

mod children;

use super::look::Look;
use super::teller::{Approvals, Teller};
use super::units;
use crate::next::Next;
use children::Children;
use hookwright_core::history::Record;
use hookwright_core::job::{Fact, JobSpec};
use hookwright_runtime::observe::Event;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Bytes of text that may wait for the writer.
pub(crate) const QUEUE_BYTES: usize = 4 * 1024 * 1024;

/// The story of one job, with those of the jobs that it starts within it.
pub(crate) struct Printer {
    inner: Mutex<Inner>,
    queued: Arc<AtomicUsize>,
    writing: Mutex<Option<JoinHandle<()>>>,
}

struct Inner {
    look: Look,
    approvals: Approvals,
    next: Next,
    teller: Teller,
    children: Children,
    sender: Option<Sender<String>>,
    /// Set while a prompt stands on the screen.
    prompt: Option<OpenPrompt>,
    left_out: usize,
}

struct OpenPrompt {
    job: String,
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
    pub(crate) fn new(
        look: Look,
        approvals: Approvals,
        next: Next,
        writer: Box<dyn Write + Send>,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let count = queued.clone();
        let thread =
            std::thread::Builder::new().name("story".into()).spawn(move || write_all(&receiver, &count, writer))?;
        Ok(Self {
            inner: Mutex::new(Inner {
                look,
                approvals,
                teller: Teller::new(look, approvals).with_next(next.clone()),
                next,
                children: Children::default(),
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
    pub(crate) fn prompt(&self, job: &str, approval: &str) -> PromptGuard<'_> {
        let over = Arc::new(AtomicBool::new(false));
        let mut inner = self.lock();
        let held = inner.prompt.take().map(|p| p.held).unwrap_or_default();
        inner.prompt =
            Some(OpenPrompt { job: job.to_owned(), approval: approval.to_owned(), over: over.clone(), held });
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
        let rest = inner.children.end();
        if let Some(sender) = inner.sender.take() {
            let _ = sender.send(rest);
            let _ = sender.send(note);
        }
        drop(inner);
        let thread = self.writing.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    /// Tells an event of the job.
    pub(crate) fn event(&self, event: Event<'_>) {
        let mut inner = self.lock();
        let text = inner.teller.event(&event);
        self.tell(inner, None, &event, text);
    }

    /// Begins the story of a job that the job, or one below it, started; or goes on with it after these records.
    pub(crate) fn child(&self, spec: &JobSpec, earlier: &[Record]) {
        let mut inner = self.lock();
        let (look, approvals, next) = (inner.look, inner.approvals, inner.next.clone());
        let text = inner.children.begin(spec, earlier, look, (approvals, next));
        self.say(inner, text);
    }

    /// Tells an event of such a job.
    pub(crate) fn event_of(&self, job: &str, event: Event<'_>) {
        let mut inner = self.lock();
        let text = inner.children.event(job, &event);
        self.tell(inner, Some(job), &event, text);
    }

    /// `child` is the job of the event, where it is not the job itself.
    fn tell(&self, mut inner: MutexGuard<'_, Inner>, child: Option<&str>, event: &Event<'_>, mut text: String) {
        if let Event::Recorded(record) = event
            && let Some(prompt) = inner.prompt.take_if(|prompt| settles(&record.fact, prompt, child))
        {
            prompt.over.store(true, Ordering::Release);
            // The cursor stands behind the question.
            text = format!("\n{}{text}", prompt.held);
        }
        self.say(inner, text);
    }

    /// Shows a text, or holds it while a question stands on the screen.
    fn say(&self, mut inner: MutexGuard<'_, Inner>, text: String) {
        if let Some(prompt) = &mut inner.prompt {
            let room = QUEUE_BYTES.saturating_sub(prompt.held.len());
            if text.len() <= room {
                prompt.held.push_str(&text);
            } else {
                inner.left_out += text.len();
            }
            return;
        }
        self.send(inner, text);
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

/// Whether a fact settles the question that stands on the screen; `child` is the fact's job, where it is not the story's own.
fn settles(fact: &Fact, prompt: &OpenPrompt, child: Option<&str>) -> bool {
    match fact {
        Fact::ApprovalDecided { approval, .. } | Fact::ApprovalExpired { approval, .. } => *approval == prompt.approval,
        // The end of the story's own job is the end of all.
        Fact::Cancelled { .. } | Fact::Finished { .. } => child.is_none_or(|job| job == prompt.job),
        _ => false,
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
