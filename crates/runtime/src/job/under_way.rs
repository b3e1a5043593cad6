//! Effects under way, all within the job's own task: a task for each would cost a switch, and often the waking of another thread, at
//! each of its ends.
//!
//! Invariant: waiting for the next end wakes the task only where an effect did.

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

/// A set of effects, each with one end.
pub(super) struct UnderWay<T>(FuturesUnordered<BoxFuture<'static, Option<T>>>);

impl<T: Send + 'static> UnderWay<T> {
    /// None.
    pub(super) fn new() -> Self {
        let all = FuturesUnordered::new();
        // A set of which every future was polled yields to other tasks: it wakes its own task, which another thread then takes over. So
        // the usual one effect would cost two switches of threads. With one that is never polled again, that is never so.
        all.push(Box::pin(std::future::pending()) as BoxFuture<'static, Option<T>>);
        Self(all)
    }

    /// Adds an effect. It begins when [`UnderWay::next`] is awaited.
    pub(super) fn push(&self, effect: impl Future<Output = T> + Send + 'static) {
        self.0.push(Box::pin(async move { Some(effect.await) }));
    }

    /// The next end; waits for ever where nothing is under way. May be dropped at any time.
    pub(super) async fn next(&mut self) -> T {
        loop {
            match self.0.next().await {
                Some(Some(ended)) => return ended,
                Some(None) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Drops all effects.
    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::task::{ArcWake, waker};
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};
    use tokio::sync::oneshot;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl ArcWake for Wakes {
        fn wake_by_ref(this: &Arc<Self>) {
            this.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn an_effect_that_waits_wakes_the_job_once_when_it_ends_and_not_before() {
        let wakes = Arc::new(Wakes::default());
        let waker = waker(Arc::clone(&wakes));
        let mut context = Context::from_waker(&waker);
        let mut all = UnderWay::new();
        assert!(pin!(all.next()).poll(&mut context).is_pending());
        wakes.0.store(0, Ordering::Relaxed);
        for round in 1..=3 {
            let (end, ended) = oneshot::channel();
            all.push(ended);
            assert!(pin!(all.next()).poll(&mut context).is_pending());
            assert_eq!(wakes.0.load(Ordering::Relaxed), round - 1);
            end.send(round).unwrap();
            assert_eq!(wakes.0.load(Ordering::Relaxed), round);
            assert_eq!(pin!(all.next()).poll(&mut context), Poll::Ready(Ok(round)));
        }
    }

    #[test]
    fn cleared_effects_are_dropped_and_later_ones_end() {
        let mut all = UnderWay::new();
        let (mut end, ended) = oneshot::channel::<u8>();
        all.push(ended);
        all.clear();
        assert!(pin!(end.poll_closed(&mut Context::from_waker(std::task::Waker::noop()))).is_ready());
        all.push(async { Ok(7) });
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert_eq!(pin!(all.next()).poll(&mut context), Poll::Ready(Ok(7)));
    }
}
