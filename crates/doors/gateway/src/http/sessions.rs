//! The sessions of clients over HTTP.
//!
//! Invariant: there is an end to how many there are, and to how long one is kept that nobody uses.

use super::Server;
use crate::gateway::Gateway;
use crate::session::{Farewell, Session, lock};
use crate::wire::{self, Fault};
use crate::wiring::Client;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Sessions at a time.
const SESSIONS: usize = 128;
/// After so long without a request a session ends; one that has no place for another ends sooner.
const IDLE: Duration = Duration::from_hours(1);
const IDLE_WHERE_FULL: Duration = Duration::from_mins(1);
/// How often idle ones are looked for.
const LOOK: Duration = Duration::from_secs(30);

pub(super) struct Sessions {
    gateway: Arc<Gateway>,
    /// By the id that a client brings; of clients that bring none, by what they say of themselves.
    all: Mutex<HashMap<String, Arc<Session>>>,
}

fn full() -> Fault {
    Fault::new(wire::BUSY, format!("{SESSIONS} sessions are open already: end one (DELETE), or try again later"))
}

impl Sessions {
    pub(super) fn new(gateway: Arc<Gateway>) -> Self {
        Self { gateway, all: Mutex::default() }
    }

    /// Keeps a session; gives the id that its client is to bring.
    pub(super) async fn put(&self, session: Arc<Session>) -> Result<String, Fault> {
        let id = uuid::Uuid::new_v4().to_string();
        self.make_room().await;
        let mut all = lock(&self.all);
        if all.len() >= SESSIONS {
            return Err(full());
        }
        all.insert(id.clone(), session);
        Ok(id)
    }

    /// A session of the revision that has none on the wire: all requests of clients that say the same of themselves are one.
    pub(super) async fn of(&self, client: Client, capabilities: Map<String, Value>) -> Result<Arc<Session>, Fault> {
        // What a client can is part of it: servers are told of it, and another process of that name may have no user to ask.
        let can = hookwright_core::json::digest(&Value::Object(capabilities.clone()));
        let key = format!("client {:?} {:?} {can}", client.name, client.version);
        if let Some(session) = lock(&self.all).get(&key) {
            return Ok(session.clone());
        }
        self.make_room().await;
        let mut all = lock(&self.all);
        if let Some(session) = all.get(&key) {
            return Ok(session.clone());
        }
        if all.len() >= SESSIONS {
            return Err(full());
        }
        let opened = Session::open(&self.gateway, client, capabilities, true);
        let session = opened.map_err(|why| Fault::new(wire::INTERNAL, why))?;
        all.insert(key, session.clone());
        Ok(session)
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Session>> {
        lock(&self.all).get(id).filter(|session| !session.modern).cloned()
    }

    pub(super) fn take(&self, id: &str) -> Option<Arc<Session>> {
        lock(&self.all).remove(id)
    }

    async fn make_room(&self) {
        if lock(&self.all).len() >= SESSIONS {
            self.end_idle(IDLE_WHERE_FULL).await;
        }
    }

    async fn end_idle(&self, idle: Duration) {
        let gone: Vec<Arc<Session>> = {
            let mut all = lock(&self.all);
            let ids: Vec<String> = all
                .iter()
                .filter(|(_, session)| session.idle().is_some_and(|since| since >= idle))
                .map(|(id, _)| id.clone())
                .collect();
            ids.iter().filter_map(|id| all.remove(id)).collect()
        };
        futures_util::future::join_all(gone.iter().map(|session| session.end(Farewell::Done))).await;
    }

    pub(super) async fn end_all(&self) {
        let all: Vec<_> = lock(&self.all).drain().map(|(_, session)| session).collect();
        futures_util::future::join_all(all.iter().map(|session| session.end(Farewell::Stopped))).await;
    }
}

/// Ends sessions that nobody uses, for ever.
pub(super) async fn tidy(server: Arc<Server>) {
    loop {
        tokio::time::sleep(LOOK).await;
        server.sessions.end_idle(IDLE).await;
    }
}
