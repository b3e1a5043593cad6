//! Reading, beside the writer and beside each other.
//!
//! Invariant: reading never waits for writing, nor writing for reading; it sees everything that was committed before it began.

use crate::error::{OpError, Site};
use crate::file::{Access, BusyLimit, connect};
use hookwright_runtime::ports::store::StoreError;
use rusqlite::Connection;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// Connections at most; further readers wait for one.
const CONNECTIONS: usize = 4;

pub(crate) struct Readers {
    idle: Mutex<Vec<Connection>>,
    places: Semaphore,
    site: Arc<Site>,
    access: Access,
    busy: BusyLimit,
}

impl Readers {
    pub(crate) fn new(site: Arc<Site>, access: Access, busy: BusyLimit, first: Option<Connection>) -> Arc<Self> {
        let idle = Mutex::new(first.into_iter().collect());
        Arc::new(Self { idle, places: Semaphore::new(CONNECTIONS), site, access, busy })
    }

    /// Reads, on a thread where blocking is allowed, in one snapshot of the file.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        run: impl FnOnce(&Connection, &Site) -> Result<T, OpError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let stopped = || self.site.failed("read", "the process is stopping", "start it again");
        let place = self.places.acquire().await.map_err(|_| stopped())?;
        let me = self.clone();
        let result = tokio::task::spawn_blocking(move || me.read_now(run)).await.map_err(|_| stopped())?;
        drop(place);
        result
    }

    fn read_now<T>(&self, run: impl FnOnce(&Connection, &Site) -> Result<T, OpError>) -> Result<T, StoreError> {
        let explain = |e: OpError| self.site.explain_op("read", e);
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let conn = match idle {
            Some(conn) => conn,
            None => connect(&self.site, self.access, &self.busy).map_err(|e| explain(e.into()))?,
        };
        let snapshot = conn.unchecked_transaction().map_err(|e| explain(e.into()))?;
        let result = run(&snapshot, &self.site);
        let ended = snapshot.finish();
        // A connection that fails in itself is not used again.
        if ended.is_ok() && !matches!(result, Err(OpError::Sql(_))) {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
        }
        result.map_err(explain)
    }
}
