//! Sees to a job's approvals: asks at the prompt, or says what `--approve` says. Whoever decides first counts.

use super::Style;
use super::door::{Door, Waits};
use crate::args::Approve;
use crate::story::Prompt;
use crate::story::look::Look;
use crate::story::prompt::Step;
use crate::terminal::note;
use hookwright_runtime::approvals::{Decided, Say, decide};
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use hookwright_runtime::ports::store::{ApprovalState, Store};
use std::io::{BufRead as _, IsTerminal as _};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Characters of a typed line that are read at most.
const LINE_BYTES: u64 = 16 * 1024;

/// Takes approvals as they come, one after the other.
pub(super) async fn run(
    mut waits: mpsc::UnboundedReceiver<Waits>,
    store: Arc<dyn Store>,
    door: Arc<Door>,
    style: Style,
    look: Look,
) {
    let mut lines: Option<mpsc::Receiver<Typed>> = None;
    while let Some(wait) = waits.recv().await {
        let said = match style.approve {
            Approve::Wait => {
                door.awaits(&wait.approval.id);
                continue;
            }
            Approve::Yes => Some((true, None)),
            Approve::No => Some((false, None)),
            Approve::Ask => ask(&wait, lines.get_or_insert_with(stdin_lines), &*store, &door, look).await,
        };
        let Some((approve, added)) = said else { continue };
        let result = async {
            let row = store.approval(&wait.approval.id).await?;
            let say = Say { approve, by: style.person.name.clone(), verified: style.person.verified, note: added };
            decide(&*store, &SystemClock, &row, say).await
        }
        .await;
        match result {
            Ok(Decided::Counted) => {}
            Ok(Decided::AlreadyDecided(row)) => door.notice(&already(&row)),
            Ok(Decided::Expired) => door.notice(&format!("the approval {} had expired", wait.approval.id)),
            Ok(Decided::NotAllowed(people)) => {
                door.notice(&not_allowed(&style.person.name, &wait.approval.id, &people));
            }
            Ok(Decided::Mismatch(why)) => {
                door.notice(&format!("the approval {} can't be decided, nothing was: {why}", wait.approval.id));
            }
            Err(error) => door.notice(&format!("the decision could not be stored, nothing was decided: {error}")),
        }
    }
}

/// Says who was first.
pub(crate) fn already(row: &hookwright_runtime::ports::store::ApprovalRow) -> String {
    let by = row.decision.as_ref().map_or(String::new(), |d| format!(" by {}", hookwright_core::text::escape(&d.by)));
    let what = match row.state {
        ApprovalState::Approved => "approved",
        ApprovalState::Denied => "denied",
        ApprovalState::Expired => "expired",
        ApprovalState::Closed => "closed, its job is over",
        ApprovalState::Open => "still open",
    };
    format!("the approval {} was already {what}{by}", row.id)
}

/// Says who may decide instead.
pub(crate) fn not_allowed(name: &str, id: &str, people: &[String]) -> String {
    let who = if people.is_empty() {
        "no one person may: the hooks name different people".to_owned()
    } else {
        format!("these may: {}", people.join(", "))
    };
    format!("{name} may not decide {id}; {}", hookwright_core::text::escape(&who))
}

/// Asks at the prompt; none where the input ended, or the question was settled elsewhere.
async fn ask(
    wait: &Waits,
    lines: &mut mpsc::Receiver<Typed>,
    store: &dyn Store,
    door: &Door,
    look: Look,
) -> Option<(bool, Option<String>)> {
    let Some(printer) = door.printer.clone() else {
        door.awaits(&wait.approval.id);
        return None;
    };
    if store.approval(&wait.approval.id).await.is_ok_and(|row| row.state != ApprovalState::Open) {
        return None;
    }
    let guard = printer.prompt(&wait.approval.job, &wait.approval.id);
    let (mut prompt, first) = Prompt::new(&wait.approval, wait.expires_ms, SystemClock.now_ms(), look, &door.next);
    // What was typed before the question stood there is no answer to it: neither what was read of it, nor what still waits to be.
    // (A script's lines wait for their questions.)
    guard.show(&first);
    let shown = forget_typed();
    loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            () = settled(&guard) => return None,
        };
        let line = match line {
            Some(typed) if shown.is_some_and(|shown| typed.read < shown) => continue,
            line => line.map(|typed| typed.line),
        };
        let Some(line) = line else {
            guard.show(&format!("\nNothing was decided: {} waits on.\n", wait.approval.id));
            return None;
        };
        match prompt.line(&line) {
            Step::Show(text) => guard.show(&text),
            Step::Decided(said) => return Some((said.approve, said.note)),
        }
    }
}

/// Ends when the question was settled elsewhere.
async fn settled(guard: &crate::story::printer::PromptGuard<'_>) {
    while !guard.is_over() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A line that a person typed, and when it was read.
struct Typed {
    line: String,
    read: Instant,
}

/// Throws away what was typed at the terminal and not read yet. From the time that is returned on, what is read was typed later. None
/// where standard input is no terminal: what a script says waits for its question.
fn forget_typed() -> Option<Instant> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return None;
    }
    let _ = rustix::termios::tcflush(&stdin, rustix::termios::QueueSelector::IFlush);
    Some(Instant::now())
}

/// Standard input, line by line, from a thread of its own: a read can't be called off.
fn stdin_lines() -> mpsc::Receiver<Typed> {
    let (sender, receiver) = mpsc::channel(16);
    let spawned = std::thread::Builder::new().name("stdin".into()).spawn(move || {
        use std::io::Read as _;
        let mut stdin = std::io::stdin().lock();
        loop {
            let mut bytes = vec![];
            match (&mut stdin).take(LINE_BYTES).read_until(b'\n', &mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let typed = Typed { line: String::from_utf8_lossy(&bytes).into_owned(), read: Instant::now() };
            if sender.blocking_send(typed).is_err() {
                return;
            }
        }
    });
    if let Err(error) = spawned {
        note(&format!("standard input can't be read: {error}"));
    }
    receiver
}
