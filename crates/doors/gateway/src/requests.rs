//! A client's messages, whatever carries them.
//!
//! Invariant: every request gets exactly one answer, unless its client cancelled it.

use crate::call;
use crate::session::Session;
use crate::way::Way;
use crate::wire::{self, Fault, Incoming, Request};
use hookwright_core::manifest::Pass;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Answers a request; none where it was cancelled.
pub(crate) async fn answer(session: &Arc<Session>, request: Request, way: &Way) -> Option<Vec<u8>> {
    let key = request.id.text().to_owned();
    answer_as(session, request, &key, way).await
}

/// As [`answer`], where a client's ids need not differ: what is under way goes by a key of ours.
pub(crate) async fn answer_as(session: &Arc<Session>, request: Request, key: &str, way: &Way) -> Option<Vec<u8>> {
    let id = &request.id;
    let Some(under_way) = session.begin(key) else {
        let fault = Fault::new(wire::INVALID_REQUEST, "a request of this id is under way already");
        return Some(wire::error(Some(id), &fault));
    };
    let outcome = if request.method == "tools/call" {
        call::call(session, &request, &under_way, way).await
    } else {
        tokio::select! {
            biased;
            outcome = other(session, &request, way) => outcome,
            () = under_way.token.cancelled() => Ok(None),
        }
    };
    match outcome {
        Ok(Some(result)) => {
            let result = if session.modern { wire::complete(result) } else { wire::plain(result) };
            Some(wire::result(id, &Value::Object(result)))
        }
        Ok(None) => None,
        Err(fault) => Some(wire::error(Some(id), &fault)),
    }
}

async fn other(session: &Arc<Session>, request: &Request, way: &Way) -> call::Outcome {
    let unknown = || {
        let method = hookwright_core::text::shown(&request.method, 100);
        Fault::new(wire::METHOD_NOT_FOUND, format!("the method {method} is not offered"))
    };
    let version = &session.gateway.options.version;
    let own = |result| if session.modern { wire::signed(wire::uncached(result), version) } else { result };
    let result = match request.method.as_str() {
        "ping" if !session.modern => Map::new(),
        "server/discover" if session.modern => session.discovered().await,
        "subscriptions/listen" if session.modern => return session.subscribed(request, way).await.map(Some),
        "tools/list" => own(session.list_functions(&request.values()?).await?),
        "logging/setLevel" if !session.modern => session.set_level(request.values()?).await?,
        method => match session.passed(method, request).await? {
            Some(result) if session.modern && is_kept(method) => wire::uncached(result),
            Some(result) => result,
            None => return Err(unknown()),
        },
    };
    Ok(Some(result))
}

/// Results that the newest revision has kept.
fn is_kept(method: &str) -> bool {
    matches!(method, "resources/list" | "resources/templates/list" | "resources/read" | "prompts/list")
}

/// Takes in what needs no answer.
pub(crate) async fn notified(session: &Arc<Session>, method: &str, params: Option<&RawValue>) {
    match method {
        "notifications/cancelled" => {
            #[derive(serde::Deserialize)]
            struct Cancelled<'a> {
                #[serde(rename = "requestId", borrow)]
                id: &'a RawValue,
            }
            if let Some(cancelled) = params.and_then(|raw| serde_json::from_str::<Cancelled<'_>>(raw.get()).ok()) {
                session.cancel(cancelled.id.get());
            }
        }
        "notifications/roots/list_changed" => {
            for tool in session.passing(Pass::Roots) {
                session.tools.notify(&tool, "notifications/roots/list_changed", Value::Object(Map::new())).await;
            }
        }
        _ => {}
    }
}

pub(crate) fn busy() -> Fault {
    Fault::new(wire::BUSY, format!("{} requests are under way already", crate::session::REQUESTS))
}

/// Takes in any message of a session that is open. A request is answered on a task of its own, over its way.
pub(crate) async fn take(session: &Arc<Session>, incoming: Incoming, way: &Way) {
    match incoming {
        Incoming::Request(request) => {
            // Said here, so that a client which reads nothing is not read on either.
            let Ok(slot) = session.slots.clone().try_acquire_owned() else {
                way.send(wire::error(Some(&request.id), &busy())).await;
                return;
            };
            let (session, way) = (session.clone(), way.clone());
            tokio::spawn(async move {
                let _slot = slot;
                if let Some(answer) = answer(&session, request, &way).await {
                    way.send(answer).await;
                }
            });
        }
        Incoming::Notification { method, params } => notified(session, &method, params.as_deref()).await,
        Incoming::Answer { id, said } => session.desk.answered(id, said),
    }
}
