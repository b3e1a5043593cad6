//! Checks values against schemas, which are servers' own: a hostile one can make a check take for ever.
//!
//! Invariant: a check holds up neither a job nor the threads that others need: it has a thread of its own, and a limit.
//! Invariant: a schema that takes too long costs one thread of the process, not one for each value; and all of them a few.

use hookwright_core::json;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

/// How long a value is checked.
const LIMIT: Duration = Duration::from_millis(if cfg!(test) { 1_000 } else { 5_000 });
/// Checks at the same time.
const THREADS: usize = 8;
/// Schemas that are remembered as slow: those that are still being checked, so never more than threads.
static CHECKS: LazyLock<Checks> = LazyLock::new(Checks::default);

struct Checks {
    limit: Duration,
    threads: Arc<Semaphore>,
    slow: Arc<Mutex<HashSet<String>>>,
}

impl Default for Checks {
    fn default() -> Self {
        Self { limit: LIMIT, threads: Arc::new(Semaphore::new(THREADS)), slow: Arc::default() }
    }
}

/// Runs a check of a value against this schema. `Err`: it could not be checked, so it is not valid.
pub(crate) async fn check<T: Send + 'static>(
    schema: &Value,
    check: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    CHECKS.run(json::digest(schema), check).await
}

impl Checks {
    fn slow(&self) -> MutexGuard<'_, HashSet<String>> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run<T: Send + 'static>(
        &self,
        schema: String,
        check: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let until = Instant::now() + self.limit;
        if self.slow().contains(&schema) {
            return Err("its value could not be checked: a check against the same schema takes too long".into());
        }
        let Ok(Ok(permit)) = timeout_at(until, self.threads.clone().acquire_owned()).await else {
            return Err("its value could not be checked: too many checks take too long".into());
        };
        let (end, ended) = oneshot::channel();
        let under_way = UnderWay { slow: self.slow.clone(), schema: schema.clone(), _thread: permit };
        let work = move || {
            // Dropped after the end was sent, also by a panic.
            let _under_way = under_way;
            let _ = end.send(check());
        };
        if std::thread::Builder::new().name("schema".into()).spawn(work).is_err() {
            return Err("its value could not be checked: the system gives no thread".into());
        }
        let mut ended = ended;
        match timeout_at(until, &mut ended).await {
            Ok(Ok(read)) => read,
            Ok(Err(_)) => Err("its value could not be checked".into()),
            Err(_) => {
                let mut slow = self.slow();
                // One that ends at this very moment, be it by a panic, may have taken its name out before: it must not stay.
                match ended.try_recv() {
                    Ok(read) => return read,
                    Err(TryRecvError::Closed) => return Err("its value could not be checked".into()),
                    Err(TryRecvError::Empty) => {}
                }
                slow.insert(schema);
                Err(format!("its value could not be checked against the schema within {:?}", self.limit))
            }
        }
    }
}

/// A check that has a thread.
struct UnderWay {
    slow: Arc<Mutex<HashSet<String>>>,
    schema: String,
    _thread: OwnedSemaphorePermit,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.schema);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    /// A check that runs until the sender is dropped, and counts.
    fn endless(begun: &Arc<AtomicUsize>) -> (mpsc::Sender<()>, impl FnOnce() -> Result<(), String> + Send + 'static) {
        let (held, holds) = mpsc::channel::<()>();
        let begun = begun.clone();
        let check = move || {
            begun.fetch_add(1, Ordering::SeqCst);
            let _ = holds.recv();
            Ok(())
        };
        (held, check)
    }

    /// With a limit that an endless check soon reaches.
    fn hasty() -> Checks {
        Checks { limit: Duration::from_millis(200), ..Checks::default() }
    }

    /// With a limit that nothing reaches, however busy the machine is.
    fn patient() -> Checks {
        Checks { limit: Duration::from_mins(5), ..Checks::default() }
    }

    #[tokio::test]
    async fn a_schema_that_takes_too_long_is_invalid_at_once_as_long_as_its_check_goes_on() {
        let (mut checks, begun) = (hasty(), Arc::new(AtomicUsize::new(0)));
        let (held, check) = endless(&begun);
        assert!(checks.run("bomb".into(), check).await.unwrap_err().contains("within"));
        for _ in 0..20 {
            let (_held, check) = endless(&begun);
            assert!(checks.run("bomb".into(), check).await.unwrap_err().contains("the same schema"));
        }
        assert_eq!(begun.load(Ordering::SeqCst), 1, "one thread in all");
        checks.limit = patient().limit;
        assert_eq!(checks.run("fine".into(), || Ok(7)).await, Ok(7));
        // It was only slow: the next value is checked again.
        drop(held);
        while checks.slow().contains("bomb") {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(checks.run("bomb".into(), || Ok(8)).await, Ok(8));
    }

    #[tokio::test]
    async fn checks_that_never_end_have_a_few_threads_in_all() {
        let (checks, begun) = (hasty(), Arc::new(AtomicUsize::new(0)));
        let mut held = vec![];
        for n in 0..THREADS + 3 {
            let (hold, check) = endless(&begun);
            held.push(hold);
            assert!(checks.run(format!("bomb {n}"), check).await.is_err());
        }
        assert_eq!(begun.load(Ordering::SeqCst), THREADS);
        assert!(checks.slow().len() <= THREADS);
    }

    #[tokio::test]
    async fn a_check_that_panics_is_not_valid_and_gives_its_thread_back() {
        let checks = patient();
        for _ in 0..=THREADS {
            let panics = || -> Result<(), String> { panic!("as a library might") };
            assert_eq!(checks.run("x".into(), panics).await, Err("its value could not be checked".into()));
        }
    }
}
