//! Progress of a call, as its client is told it.
//!
//! Invariant: what a client gets grows; where hooks watch the call's result, it gets that something goes on and nothing of what.

use crate::way::Way;
use crate::wire;
use hookwright_runtime::ports::tools::Progress;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, PoisonError};

/// What is added while only a person is awaited.
const TICK: f64 = 1e-6;

/// Who wants to know how a call goes on.
#[derive(Clone)]
pub(crate) struct Telling(Option<Arc<Inner>>);

struct Inner {
    token: Value,
    state: Mutex<State>,
}

struct State {
    way: Option<Way>,
    last: Option<f64>,
    watched: bool,
}

impl Telling {
    /// For a request with this token, if it has one.
    pub(crate) fn new(token: Option<Value>, way: &Way) -> Self {
        let token = token.filter(|token| token.is_string() || token.is_number());
        let state = || Mutex::new(State { way: Some(way.clone()), last: None, watched: true });
        Self(token.map(|token| Arc::new(Inner { token, state: state() })))
    }

    /// Hooks do not watch the result: the server's own words may go out.
    pub(crate) fn unwatched(&self) {
        if let Some(inner) = &self.0 {
            inner.state.lock().unwrap_or_else(PoisonError::into_inner).watched = false;
        }
    }

    /// Something goes on; `message` says what.
    pub(crate) fn tick(&self, message: Option<&str>) {
        let Some(inner) = &self.0 else { return };
        inner.tick(message);
    }

    /// Nothing more is told.
    pub(crate) fn end(&self) {
        if let Some(inner) = &self.0 {
            inner.state.lock().unwrap_or_else(PoisonError::into_inner).way = None;
        }
    }

    /// What the host tells of the call.
    pub(crate) fn sink(&self) -> Option<Progress> {
        let inner = self.0.clone()?;
        Some(Progress(Arc::new(move |params| inner.progressed(params))))
    }
}

impl Inner {
    fn tick(&self, message: Option<&str>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let next = state.last.map_or(0.0, |last| last + TICK);
        state.last = Some(next);
        let mut params = Map::from_iter([("progress".to_owned(), json!(next))]);
        if let Some(message) = message {
            params.insert("message".to_owned(), message.into());
        }
        self.send(&state, params);
    }

    fn progressed(&self, params: Map<String, Value>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.watched {
            drop(state);
            return self.tick(None);
        }
        let Some(progress) = params.get("progress").and_then(Value::as_f64) else { return };
        if state.last.is_some_and(|last| progress <= last) {
            return;
        }
        state.last = Some(progress);
        self.send(&state, params);
    }

    fn send(&self, state: &State, mut params: Map<String, Value>) {
        params.insert("progressToken".to_owned(), self.token.clone());
        if let Some(way) = &state.way {
            way.offer(wire::notification("notifications/progress", &Value::Object(params)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(watched: bool) -> Vec<Value> {
        let (way, mut out) = Way::new();
        let telling = Telling::new(Some(json!("t")), &way);
        if !watched {
            telling.unwatched();
        }
        let sink = telling.sink().unwrap();
        for (progress, message) in [(0.0, "begins"), (5.0, "secret"), (4.0, "back"), (7.5, "more")] {
            let params = json!({"progress": progress, "total": 10, "message": message, "_meta": {"a": 1}});
            (sink.0)(params.as_object().unwrap().clone());
        }
        telling.tick(Some("waits"));
        telling.end();
        telling.tick(Some("too late"));
        let mut got = vec![];
        while let Ok(line) = out.try_recv() {
            got.push(serde_json::from_slice::<Value>(&line).unwrap()["params"].clone());
        }
        got
    }

    #[test]
    fn a_servers_progress_goes_out_whole_and_only_grows() {
        let got = told(false);
        let numbers: Vec<f64> = got.iter().map(|p| p["progress"].as_f64().unwrap()).collect();
        assert_eq!(numbers, [0.0, 5.0, 7.5, 7.5 + TICK]);
        assert_eq!(
            got[1],
            json!({"progress": 5.0, "total": 10, "message": "secret", "_meta": {"a": 1}, "progressToken": "t"})
        );
        assert_eq!(got[3]["message"], "waits");
    }

    #[test]
    fn where_hooks_watch_the_result_nothing_of_the_servers_words_goes_out() {
        let got = told(true);
        assert_eq!(got.len(), 5);
        assert!(
            got[..4].iter().all(|p| p.get("message").is_none() && p.get("total").is_none() && p.get("_meta").is_none())
        );
        assert!(got.iter().all(|p| p["progress"].as_f64().unwrap() < 0.001));
    }
}
