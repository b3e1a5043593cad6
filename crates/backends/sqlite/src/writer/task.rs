//! What waits for the writer.

use crate::error::OpError;
use crate::ops::{Effect, Tx, lease};
use hookwright_runtime::ports::store::{Lease, StoreError};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// A task whose type of answer the writer need not know.
pub(super) trait Job: Send {
    /// Does it, in an open transaction; may be called again after a rollback.
    fn run(&mut self, tx: &Tx<'_>) -> Result<Effect, OpError>;

    /// Answers who waits, after the commit. A lease that nobody waits for any more comes back.
    fn answer(self: Box<Self>, result: Result<(), StoreError>) -> Option<Lease>;
}

pub(super) struct Task<T, F> {
    pub(super) run: F,
    pub(super) value: Option<T>,
    pub(super) answer: oneshot::Sender<Result<T, StoreError>>,
    pub(super) orphan: fn(T) -> Option<Lease>,
    /// The place in the queue, free again when this is dropped.
    pub(super) _place: OwnedSemaphorePermit,
}

impl<T, F> Job for Task<T, F>
where
    T: Send,
    F: FnMut(&Tx<'_>) -> Result<(T, Effect), OpError> + Send,
{
    fn run(&mut self, tx: &Tx<'_>) -> Result<Effect, OpError> {
        self.value = None;
        let (value, effect) = (self.run)(tx)?;
        self.value = Some(value);
        Ok(effect)
    }

    fn answer(self: Box<Self>, result: Result<(), StoreError>) -> Option<Lease> {
        let result = match (result, self.value) {
            (Err(e), _) => Err(e),
            (Ok(()), Some(value)) => Ok(value),
            (Ok(()), None) => return None,
        };
        self.answer.send(result).err().and_then(Result::ok).and_then(self.orphan)
    }
}

/// A task of the writer itself: gives a lease back that nobody waits for.
pub(super) fn release(lease: Lease) -> Box<dyn Job> {
    Box::new(Release(lease))
}

struct Release(Lease);

impl Job for Release {
    fn run(&mut self, tx: &Tx<'_>) -> Result<Effect, OpError> {
        Ok(lease::release(tx, &self.0)?.1)
    }

    fn answer(self: Box<Self>, result: Result<(), StoreError>) -> Option<Lease> {
        if let Err(e) = result {
            tracing::warn!(error = %e, "a lease that nobody waits for could not be given back");
        }
        None
    }
}
