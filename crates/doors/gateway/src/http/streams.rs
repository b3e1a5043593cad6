//! Streams of requests that a client may take up again where their connection broke off (`Last-Event-ID`; revisions up to 2025-11-25).
//!
//! Invariant: what a connection lost is told again, or the stream is not taken up: nothing is left out silently.
//! Invariant: memory is bounded: so many streams of a session, and so many bytes of what each has sent.

use super::reply::{KEEP_ALIVE, as_events, empty, event, is_answer};
use crate::session::{Session, lock};
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::stream;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard, OwnedSemaphorePermit, mpsc, watch};
use tokio::time::timeout;

/// Streams of a session that may be taken up.
const STREAMS: usize = 16;
/// Bytes of a stream that are kept after they were sent.
const KEPT_BYTES: usize = 512 * 1024;
/// How long the connection that had a stream may take to let it go.
const LETTING_GO: Duration = Duration::from_secs(5);
/// When a client is to come back, in milliseconds.
const RETRY_MS: u32 = 1_000;

/// The streams of a session, oldest first.
#[derive(Default)]
pub(crate) struct Streams {
    next: AtomicU64,
    all: Mutex<VecDeque<Arc<Stream>>>,
}

struct Stream {
    id: u64,
    /// Changes when another connection takes it up.
    taken: watch::Sender<u64>,
    told: Arc<Turn<Told>>,
}

/// What a stream tells. Who has the lock tells it.
struct Told {
    out: mpsc::Receiver<Bytes>,
    /// Those that may have to be told again, and those that were not told yet.
    events: VecDeque<Bytes>,
    /// The number of the first of them; numbers begin at 1.
    first: u64,
    bytes: usize,
    over: bool,
}

impl Streams {
    fn open(&self, out: mpsc::Receiver<Bytes>) -> Arc<Stream> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let told = Told { out, events: VecDeque::new(), first: 1, bytes: 0, over: false };
        let stream = Arc::new(Stream { id, taken: watch::Sender::new(0), told: Arc::new(Turn::new(told)) });
        let mut all = lock(&self.all);
        all.push_back(stream.clone());
        if all.len() > STREAMS {
            all.pop_front();
        }
        stream
    }

    /// The stream and the number of the event that a client heard last.
    fn find(&self, last: &str) -> Option<(Arc<Stream>, u64)> {
        let (id, number) = last.split_once('-')?;
        let (id, number) = (id.parse::<u64>().ok()?, number.parse().ok()?);
        let stream = lock(&self.all).iter().find(|stream| stream.id == id).cloned()?;
        Some((stream, number))
    }
}

impl Told {
    fn put(&mut self, stream: u64, message: &[u8]) {
        let number = self.first + self.events.len() as u64;
        let mut chunk = format!("id: {stream}-{number}\n").into_bytes();
        chunk.extend_from_slice(&event(message));
        self.bytes += chunk.len();
        self.events.push_back(chunk.into());
    }

    /// The event of that number, and forgets of those before it what is too much.
    fn take(&mut self, number: u64) -> Option<Bytes> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let chunk = self.events.get(at).cloned()?;
        while self.bytes > KEPT_BYTES && self.first <= number {
            self.bytes -= self.events.pop_front().map_or(0, |event| event.len());
            self.first += 1;
        }
        Some(chunk)
    }
}

/// One connection's part of a stream.
struct Follow {
    id: u64,
    told: OwnedMutexGuard<Told>,
    taken: watch::Receiver<u64>,
    /// The number of the next event.
    at: u64,
    /// Whether an event without words comes first, so that there is something to come back to.
    primes: bool,
    _slot: OwnedSemaphorePermit,
}

impl Follow {
    async fn next(&mut self) -> Option<Bytes> {
        if std::mem::take(&mut self.primes) {
            return Some(format!("id: {}-{}\nretry: {RETRY_MS}\ndata: \n\n", self.id, self.at - 1).into());
        }
        loop {
            if let Some(chunk) = self.told.take(self.at) {
                self.at += 1;
                return Some(chunk);
            }
            if self.told.over {
                return None;
            }
            tokio::select! {
                biased;
                _ = self.taken.changed() => return None,
                said = timeout(KEEP_ALIVE, self.told.out.recv()) => match said {
                    Ok(Some(message)) => self.told.put(self.id, &message),
                    Ok(None) => self.told.over = true,
                    Err(_) => return Some(Bytes::from_static(b": still here\n\n")),
                },
            }
        }
    }
}

/// Tells the events after that number; none where they can't be told without a gap.
async fn follow(stream: Arc<Stream>, after: u64, primes: bool, slot: OwnedSemaphorePermit) -> Option<Response> {
    stream.taken.send_modify(|times| *times += 1);
    let taken = stream.taken.subscribe();
    let told = timeout(LETTING_GO, stream.told.clone().lock_owned()).await.ok()?;
    let at = after.checked_add(1)?;
    if at < told.first || at > told.first + told.events.len() as u64 {
        return None;
    }
    let follow = Follow { id: stream.id, told, taken, at, primes, _slot: slot };
    let events = stream::unfold(follow, |mut follow| async move {
        let chunk = follow.next().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), follow))
    });
    Some(as_events(Body::from_stream(events)))
}

/// The messages of one request, the last of which is its answer. One that comes soon, with nothing before it, needs no stream.
pub(super) async fn answer(
    session: &Session,
    mut out: mpsc::Receiver<Bytes>,
    primes: bool,
    slot: OwnedSemaphorePermit,
) -> Response {
    let first = match timeout(KEEP_ALIVE, out.recv()).await {
        // It was cancelled: there is no answer.
        Ok(None) => return empty(StatusCode::ACCEPTED),
        Ok(Some(first)) if is_answer(&first) => return as_events(Body::from(event(&first))),
        Ok(first) => first,
        Err(_) => None,
    };
    let stream = session.streams.open(out);
    if let Some(first) = first {
        stream.told.lock().await.put(stream.id, &first);
    }
    follow(stream, 0, primes, slot).await.unwrap_or_else(|| empty(StatusCode::INTERNAL_SERVER_ERROR))
}

/// Takes up the stream of which a client names the last event that it heard. What is not known (any more) can't be: the slot comes back.
pub(super) async fn again(
    session: &Session,
    last: &str,
    slot: OwnedSemaphorePermit,
) -> Result<Response, OwnedSemaphorePermit> {
    let Some((stream, number)) = session.streams.find(last) else { return Err(slot) };
    let response = follow(stream, number, false, slot).await;
    Ok(response.unwrap_or_else(|| empty(StatusCode::GONE)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::Semaphore;

    fn slot() -> OwnedSemaphorePermit {
        Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap()
    }

    /// So many events of a response.
    async fn hear(response: &mut Body, count: usize) -> Vec<String> {
        use futures_util::StreamExt as _;
        let mut heard = vec![];
        let mut body = std::mem::take(response).into_data_stream();
        while heard.len() < count {
            let chunk = timeout(Duration::from_mins(1), body.next()).await.unwrap();
            let Some(chunk) = chunk else { break };
            heard.push(String::from_utf8(chunk.unwrap().to_vec()).unwrap());
        }
        *response = Body::from_stream(body);
        heard
    }

    fn said(stream: u64, number: u64, message: &str) -> String {
        format!("id: {stream}-{number}\nevent: message\ndata: {message}\n\n")
    }

    #[tokio::test]
    async fn a_stream_goes_on_after_the_event_that_was_heard_last() {
        let streams = Streams::default();
        let (sender, out) = mpsc::channel(8);
        let stream = streams.open(out);
        let mut first = follow(stream.clone(), 0, true, slot()).await.unwrap().into_body();
        for message in ["1", "2", "3"] {
            sender.send(Bytes::from(message)).await.unwrap();
        }
        let heard = hear(&mut first, 3).await;
        assert_eq!(heard, ["id: 0-0\nretry: 1000\ndata: \n\n".to_owned(), said(0, 1, "1"), said(0, 2, "2")]);
        // The connection is not known to be broken; whoever comes back has it all the same.
        let (found, number) = streams.find("0-1").unwrap();
        let again = tokio::spawn(follow(found, number, false, slot()));
        assert!(hear(&mut first, 9).await.len() <= 1, "it ends");
        drop(first);
        let mut again = again.await.unwrap().unwrap().into_body();
        sender.send(Bytes::from("4")).await.unwrap();
        drop(sender);
        assert_eq!(hear(&mut again, 9).await, [said(0, 2, "2"), said(0, 3, "3"), said(0, 4, "4")]);
        drop(again);
        // Also when it is over.
        let (found, number) = streams.find("0-3").unwrap();
        let mut last = follow(found, number, false, slot()).await.unwrap().into_body();
        assert_eq!(hear(&mut last, 9).await, [said(0, 4, "4")]);
    }

    #[tokio::test]
    async fn what_is_not_kept_any_more_is_no_stream_with_a_gap() {
        let streams = Streams::default();
        let (sender, out) = mpsc::channel(8);
        let stream = streams.open(out);
        for number in 0..4 {
            let message = Bytes::from(format!("{number}{}", "x".repeat(KEPT_BYTES / 2)));
            sender.send(message).await.unwrap();
        }
        drop(sender);
        let mut all = follow(stream.clone(), 0, false, slot()).await.unwrap().into_body();
        assert_eq!(hear(&mut all, 9).await.len(), 4);
        drop(all);
        assert!(follow(stream.clone(), 1, false, slot()).await.is_none());
        assert!(follow(stream.clone(), 9, false, slot()).await.is_none(), "never sent");
        assert!(follow(stream, 3, false, slot()).await.is_some());
        for wrong in ["", "0", "1-1", "x-1", "0-x", "0-1-1", "-"] {
            assert!(streams.find(wrong).is_none(), "{wrong}");
        }
        for _ in 0..STREAMS {
            streams.open(mpsc::channel(1).1);
        }
        assert!(streams.find("0-3").is_none(), "the oldest is forgotten");
    }
}
