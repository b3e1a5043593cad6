//! One client's connection.

use crate::idle::Visit;
use crate::lines::{Line, Lines, NoLine};
use crate::node::House;
use crate::service::{Halves, Offer, Peer, Refused};
use crate::wire::{self, ReplyWire, Request};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;

/// How long a client may say nothing at first.
const FIRST_LINE: Duration = Duration::from_secs(30);

/// How long a client that has said nothing may still do so when the node ends.
const JUST_COME: Duration = Duration::from_millis(300);

/// How long a client may say nothing while nothing is done for it.
const QUIET: Duration = Duration::from_mins(5);

/// How long a client may take to read an answer.
const READS: Duration = Duration::from_secs(30);

/// What a client may have asked for at once.
const AT_ONCE: usize = 64;

type Answers<'a> = FuturesUnordered<BoxFuture<'a, (u64, Result<Value, Refused>)>>;

/// Talks until the client goes away. Dropping the future drops what is done for it.
pub(crate) async fn converse(house: Arc<House>, stream: UnixStream, peer: Peer) {
    let mut visit = house.activity.enter();
    let (reader, mut writer) = stream.into_split();
    let mut lines = Lines::new(reader, house.long_lines.clone());
    let mut answers: Answers<'_> = FuturesUnordered::new();
    let mut patience = FIRST_LINE;
    loop {
        let quiet = answers.is_empty();
        let line = tokio::select! {
            Some((id, answer)) = answers.next(), if !quiet => {
                if !reply(&mut writer, id, answer).await {
                    return;
                }
                continue;
            }
            line = lines.next() => line,
            () = tokio::time::sleep(patience), if quiet => return,
            // With nothing in work there is nothing to wait for, but for who came just now.
            () = ending(&house, patience == FIRST_LINE), if quiet => return,
        };
        patience = QUIET;
        let line = match line {
            Ok(line) => line,
            Err(NoLine::End | NoLine::Broken(_)) => return,
            Err(why @ (NoLine::TooLong | NoLine::TooSlow)) => {
                reply(&mut writer, 0, Err(Refused::new("malformed", why.to_string()))).await;
                return;
            }
        };
        let (id, request) = wire::read(&line.bytes, &house.store);
        let answer = match request {
            Ok(Request::Attach { door, what }) => {
                if quiet && !house.stopping.is_cancelled() {
                    visit.engage();
                    return attach(&house, peer, (id, &door, what), (lines, writer)).await;
                }
                Err(if quiet {
                    Refused::stopping()
                } else {
                    Refused::new("malformed", "something else is under way here")
                })
            }
            Ok(request) => {
                if let Some(answer) = begin(&house, peer, &mut visit, (id, request, line), answers.len()) {
                    answers.push(answer);
                    continue;
                }
                Err(Refused::new("busy", format!("{AT_ONCE} requests of this connection are in work already")))
            }
            Err(refused) => Err(refused),
        };
        if !reply(&mut writer, id, answer).await {
            return;
        }
    }
}

/// Ends when the node does; for a client that has not said anything yet, a little later.
async fn ending(house: &House, is_new: bool) {
    house.stopping.cancelled().await;
    if is_new {
        tokio::time::sleep(JUST_COME).await;
    }
}

/// Begins what was asked for; none where too much is in work.
fn begin<'a>(
    house: &Arc<House>,
    peer: Peer,
    visit: &mut Visit,
    (id, request, line): (u64, Request, Line),
    under_way: usize,
) -> Option<BoxFuture<'a, (u64, Result<Value, Refused>)>> {
    if under_way >= AT_ONCE {
        return None;
    }
    let house = house.clone();
    if matches!(request, Request::Ask { .. }) && !house.stopping.is_cancelled() {
        visit.engage();
    }
    // The line's own bytes are not needed any more, its place among the long ones is: what was read of it is as long.
    let place = line.place;
    drop(line.bytes);
    Some(Box::pin(async move {
        let answer = match request {
            Request::Hello => serde_json::to_value(house.running()).map_err(|e| Refused::new("failed", e.to_string())),
            Request::Status => {
                let mut all = serde_json::Map::new();
                all.insert("node".to_owned(), json!(house.running()));
                all.extend(house.service.status().await);
                Ok(Value::Object(all))
            }
            Request::Stop => {
                house.asked.cancel();
                Ok(json!({ "pid": std::process::id() }))
            }
            Request::Ask { .. } | Request::Attach { .. } if house.stopping.is_cancelled() => Err(Refused::stopping()),
            Request::Ask { door, ask } => house.service.ask(&peer, &door, ask).await,
            Request::Attach { door, .. } => Err(Refused::no_door(&door)),
        };
        drop(place);
        (id, answer)
    }))
}

async fn attach(house: &House, peer: Peer, (id, door, what): (u64, &str, Value), halves: (Lines, OwnedWriteHalf)) {
    let halves: Halves = Arc::new(Mutex::new(Some(halves)));
    let offer = Offer::new(id, halves.clone(), house.stopping.clone());
    // Whoever has taken the connection ends by itself, or is dropped with this future; who has not is told no at once.
    let refused = async {
        house.stopping.cancelled().await;
        if halves.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            std::future::pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        ended = house.service.attach(&peer, door, what, offer) => ended,
        () = refused => Err(Refused::stopping()),
    };
    let left = halves.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((_lines, mut writer)) = left {
        let answer = ended.and_then(|()| Err(Refused::new("failed", "the door did not take the connection")));
        reply(&mut writer, id, answer).await;
    }
}

/// Whether the client took it.
async fn reply(writer: &mut OwnedWriteHalf, id: u64, answer: Result<Value, Refused>) -> bool {
    let line = ReplyWire::new(id, answer).line();
    tokio::time::timeout(READS, writer.write_all(&line)).await.is_ok_and(|written| written.is_ok())
}
