//! What a [`super::Pipe`] knows, behind its lock. Nothing here waits.

use crate::config::HostConfig;
use crate::link::{Ask, Reply};
use crate::wire;
use hookwright_core::text::duration;
use hookwright_runtime::ports::tools::LateAnswer;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Notifications and answers of ours that wait for a server to read them.
const MAX_CONTROLS: usize = 256;
/// Late answers that are waited for at a time.
const MAX_LATE: usize = 1_024;

pub(super) struct State {
    stdin: Option<Arc<pipe::Sender>>,
    queue: VecDeque<Outgoing>,
    queued_bytes: usize,
    controls: usize,
    /// When the child last read something, or was last idle.
    progress: Instant,
    waiting: HashMap<u64, Waiting>,
    /// When those who wait stop waiting.
    deadlines: BTreeSet<(Instant, u64)>,
    /// When the writing task looks at the times next, whatever happens. It may be earlier than anything that is due by now: an answer
    /// that comes in time leaves it as it is, so that the usual call starts and stops no timer.
    alarm: Option<Instant>,
    late: HashMap<u64, Overdue>,
    late_order: VecDeque<(Instant, u64)>,
    closing: bool,
    broken: Option<String>,
    dead: Option<String>,
    wrote: bool,
    all_read: bool,
    max_queued_bytes: usize,
    late_window: Duration,
    stall_limit: Duration,
}

struct Outgoing {
    /// The request's id; `None` for notifications and answers of ours.
    id: Option<u64>,
    bytes: Vec<u8>,
    written: usize,
}

struct Waiting {
    since: Instant,
    deadline: Instant,
    /// The reason that the server is told where the time is over; none for what must not be cancelled.
    too_slow: Option<Duration>,
    answer: oneshot::Sender<Reply>,
}

/// Whose time is over.
struct Overdue {
    since: Instant,
    answer: oneshot::Sender<LateAnswer>,
}

pub(super) enum Submitted {
    Written(oneshot::Receiver<Reply>),
    Queued(oneshot::Receiver<Reply>),
    /// The child does not take it: it is to be ended, and the caller then learns what became of the request.
    Broken(oneshot::Receiver<Reply>),
    Full(Vec<u8>),
    Dead(String),
}

pub(super) enum Control {
    Written,
    Queued,
    Broken,
    Dropped,
}

/// Who waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A call.
    Waiting,
    /// A call whose time is over.
    Late,
    /// Nobody: the id was never given, or was answered before.
    Nobody,
}

enum Wrote {
    All,
    Part,
    Failed,
}

impl State {
    pub(super) fn new(stdin: pipe::Sender, config: &HostConfig) -> Self {
        Self {
            stdin: Some(Arc::new(stdin)),
            queue: VecDeque::new(),
            queued_bytes: 0,
            controls: 0,
            progress: Instant::now(),
            waiting: HashMap::new(),
            deadlines: BTreeSet::new(),
            alarm: None,
            late: HashMap::new(),
            late_order: VecDeque::new(),
            closing: false,
            broken: None,
            dead: None,
            wrote: false,
            all_read: false,
            max_queued_bytes: config.queued_bytes,
            late_window: config.late_window,
            stall_limit: config.stall_limit,
        }
    }

    pub(super) fn why(&self) -> String {
        self.dead.clone().or_else(|| self.broken.clone()).unwrap_or_else(|| "the connection is closed".to_owned())
    }

    pub(super) fn was_all_read(&self) -> bool {
        self.all_read
    }

    pub(super) fn gauges(&self) -> (usize, usize, usize) {
        (self.waiting.len(), self.queued_bytes, self.late.len())
    }

    pub(super) fn submit(
        &mut self,
        id: u64,
        bytes: Vec<u8>,
        ask: Ask<'_>,
        (since, deadline): (Instant, Instant),
    ) -> Submitted {
        if self.dead.is_some() || self.broken.is_some() || self.stdin.is_none() || self.closing {
            return Submitted::Dead(self.why());
        }
        if !self.queue.is_empty() && self.queued_bytes + bytes.len() > self.max_queued_bytes {
            return Submitted::Full(bytes);
        }
        let (answer, answered) = oneshot::channel();
        let too_slow = ask.is_cancellable().then_some(ask.timeout);
        self.waiting.insert(id, Waiting { since, deadline, too_slow, answer });
        self.deadlines.insert((deadline, id));
        match self.push(Outgoing { id: Some(id), bytes, written: 0 }) {
            Wrote::All => Submitted::Written(answered),
            Wrote::Part => Submitted::Queued(answered),
            Wrote::Failed => Submitted::Broken(answered),
        }
    }

    pub(super) fn control(&mut self, bytes: Vec<u8>) -> Control {
        if self.dead.is_some()
            || self.broken.is_some()
            || self.stdin.is_none()
            || self.closing
            || self.controls >= MAX_CONTROLS
        {
            return Control::Dropped;
        }
        match self.push(Outgoing { id: None, bytes, written: 0 }) {
            Wrote::All => Control::Written,
            Wrote::Part => Control::Queued,
            Wrote::Failed => Control::Broken,
        }
    }

    fn push(&mut self, outgoing: Outgoing) -> Wrote {
        if self.queue.is_empty() {
            self.progress = Instant::now();
        }
        let only = self.queue.is_empty();
        self.queued_bytes += outgoing.bytes.len();
        self.controls += usize::from(outgoing.id.is_none());
        self.queue.push_back(outgoing);
        if !only {
            return Wrote::Part;
        }
        if !self.flush() {
            return Wrote::Failed;
        }
        if self.queue.is_empty() { Wrote::All } else { Wrote::Part }
    }

    /// Writes what the pipe takes now. False where the child does not read any more.
    pub(super) fn flush(&mut self) -> bool {
        if self.broken.is_some() {
            return false;
        }
        while let Some(front) = self.queue.front_mut() {
            if self.closing && front.written == 0 {
                break;
            }
            let Some(stdin) = &self.stdin else { return false };
            match stdin.try_write(&front.bytes[front.written..]) {
                Ok(bytes) => {
                    front.written += bytes;
                    self.wrote = true;
                    self.progress = Instant::now();
                    if front.written == front.bytes.len() {
                        self.pop();
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    self.broken = Some(if e.kind() == ErrorKind::BrokenPipe {
                        "the server closed its stdin".to_owned()
                    } else {
                        format!("the server's stdin can't be written to: {e}")
                    });
                    return false;
                }
            }
        }
        if self.closing {
            self.stdin = None;
        }
        true
    }

    fn pop(&mut self) {
        if let Some(gone) = self.queue.pop_front() {
            self.queued_bytes -= gone.bytes.len();
            self.controls -= usize::from(gone.id.is_none());
        }
    }

    /// Takes a request out of the queue of which nothing was written. False where it was begun.
    fn take_back(&mut self, id: u64) -> bool {
        let Some(at) = self.queue.iter().position(|o| o.id == Some(id) && o.written == 0) else { return false };
        if let Some(gone) = self.queue.remove(at) {
            self.queued_bytes -= gone.bytes.len();
        }
        true
    }

    /// Whether the writing task must be woken to be in time for what is due first.
    pub(super) fn needs_alarm(&self) -> bool {
        let first = self.deadlines.first().map(|(at, _)| *at);
        first.is_some_and(|first| self.alarm.is_none_or(|alarm| first < alarm))
    }

    fn no_more_waits(&mut self, id: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&id)?;
        self.deadlines.remove(&(waiting.deadline, id));
        Some(waiting)
    }

    /// Ends the waiting of those whose time is over: takes back what was not begun, and gives the notifications that tell the server
    /// of the rest.
    fn give_up(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut cancelled = vec![];
        while let Some((deadline, id)) = self.deadlines.first().copied()
            && deadline <= now
        {
            self.deadlines.pop_first();
            let Some(waiting) = self.waiting.remove(&id) else { continue };
            if self.take_back(id) {
                let _ = waiting.answer.send(Reply::NotSent { why: super::TAKES_NO_MORE.to_owned() });
                continue;
            }
            let (answer, late) = oneshot::channel();
            while self.late_order.len() >= MAX_LATE {
                self.forget_oldest();
            }
            self.late_order.push_back((now + self.late_window, id));
            self.late.insert(id, Overdue { since: waiting.since, answer });
            let _ = waiting.answer.send(Reply::TimedOut { late });
            if let Some(limit) = waiting.too_slow {
                cancelled.push(wire::cancelled(id, &crate::link::too_slow(limit)));
            }
        }
        cancelled
    }

    fn forget_oldest(&mut self) {
        if let Some((_, id)) = self.late_order.pop_front() {
            self.late.remove(&id);
        }
    }

    /// The caller went away. True where the request was begun, so that the server should be told.
    pub(super) fn abandon(&mut self, id: u64) -> bool {
        self.no_more_waits(id).is_some() && !self.take_back(id) && self.dead.is_none()
    }

    pub(super) fn expects(&self, id: u64) -> Expected {
        if self.waiting.contains_key(&id) {
            Expected::Waiting
        } else if self.late.contains_key(&id) {
            Expected::Late
        } else {
            Expected::Nobody
        }
    }

    pub(super) fn deliver(&mut self, id: u64, reply: Reply) -> Expected {
        if let Some(waiting) = self.no_more_waits(id) {
            // A caller that went away in this moment has no use for it.
            let _ = waiting.answer.send(reply);
            return Expected::Waiting;
        }
        if let Some(late) = self.late.remove(&id) {
            self.late_order.retain(|(_, other)| *other != id);
            let after_ms = u64::try_from(late.since.elapsed().as_millis()).unwrap_or(u64::MAX);
            let _ = late.answer.send(LateAnswer { after_ms });
            return Expected::Late;
        }
        Expected::Nobody
    }

    pub(super) fn lose_all(&mut self, why: &str) {
        let queued: Vec<u64> = self.queue.iter().filter(|o| o.written == 0).filter_map(|o| o.id).collect();
        let begun: Vec<u64> = self.waiting.keys().copied().filter(|id| !queued.contains(id)).collect();
        for id in begun {
            self.deliver(id, Reply::Lost { why: why.to_owned() });
        }
    }

    pub(super) fn close_stdin(&mut self) {
        self.closing = true;
        if self.queue.front().is_none_or(|front| front.written == 0) {
            self.stdin = None;
        }
    }

    pub(super) fn die(&mut self, why: String) {
        if self.dead.is_some() {
            return;
        }
        // What is left in the pipe was written and not read; our end still counts it.
        let unread = self.stdin.as_ref().and_then(|stdin| rustix::io::ioctl_fionread(stdin).ok());
        self.all_read = self.wrote && self.queue.is_empty() && unread == Some(0);
        let waiting = std::mem::take(&mut self.waiting);
        self.deadlines.clear();
        for (id, waiting) in waiting {
            let why = why.clone();
            let reply = if self.take_back(id) { Reply::NotSent { why } } else { Reply::Lost { why } };
            let _ = waiting.answer.send(reply);
        }
        self.late.clear();
        self.late_order.clear();
        self.queue.clear();
        self.queued_bytes = 0;
        self.controls = 0;
        self.stdin = None;
        self.dead = Some(why);
    }

    /// What the writing task waits for: room in the pipe, where something waits; and the next time that matters.
    pub(super) fn next_wait(&mut self) -> (Option<Arc<pipe::Sender>>, Option<Instant>) {
        let stdin = if self.queue.is_empty() { None } else { self.stdin.clone() };
        let stall = stdin.as_ref().map(|_| self.progress + self.stall_limit);
        let late = self.late_order.front().map(|(at, _)| *at);
        let first = self.deadlines.first().map(|(at, _)| *at);
        self.alarm = stall.into_iter().chain(late).chain(first).min();
        (stdin, self.alarm)
    }

    /// Gives up what is overdue and forgets late answers that did not come; false where the child has read nothing for too long.
    pub(super) fn watch_times(&mut self, now: Instant) -> bool {
        for mut line in self.give_up(now) {
            line.push(b'\n');
            self.control(line);
        }
        while self.late_order.front().is_some_and(|(at, _)| *at <= now) {
            self.forget_oldest();
        }
        if !self.queue.is_empty() && now >= self.progress + self.stall_limit && self.broken.is_none() {
            let limit = duration(u64::try_from(self.stall_limit.as_millis()).unwrap_or(u64::MAX));
            self.broken = Some(format!("the server read nothing of what it was sent for {limit}"));
        }
        self.broken.is_none()
    }
}
