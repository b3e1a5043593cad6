//! Effects under way, all within the job's own task: a task for each would cost a switch, and often the waking of another thread, at
//! each of its ends.
//!
//! Invariant: waiting for the next end wakes the task only where an effect did.
//! Invariant: looking for ends at a cancel begins no effect.

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A set of effects, each with one end.
pub(super) struct UnderWay<T> {
    all: FuturesUnordered<BoxFuture<'static, Option<T>>>,
    /// No effect begins any more.
    closed: Arc<AtomicBool>,
}

impl<T: Send + 'static> UnderWay<T> {
    /// None.
    pub(super) fn new() -> Self {
        let all = FuturesUnordered::new();
        // A set of which every future was polled yields to other tasks: it wakes its own task, which another thread then takes over. So
        // the usual one effect would cost two switches of threads. With one that is never polled again, that is never so.
        all.push(Box::pin(std::future::pending()) as BoxFuture<'static, Option<T>>);
        Self { all, closed: Arc::default() }
    }

    /// Adds an effect. It begins when [`UnderWay::next`] is awaited.
    pub(super) fn push(&self, effect: impl Future<Output = T> + Send + 'static) {
        let closed = self.closed.clone();
        self.all.push(Box::pin(async move { if closed.load(Ordering::Relaxed) { None } else { Some(effect.await) } }));
    }

    /// The next end; waits for ever where nothing is under way. May be dropped at any time.
    pub(super) async fn next(&mut self) -> T {
        loop {
            match self.all.next().await {
                Some(Some(ended)) => return ended,
                Some(None) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// The ends that have come by now. What has not begun never begins: the rest is to be dropped.
    pub(super) fn close(&mut self) -> Vec<T> {
        self.closed.store(true, Ordering::Relaxed);
        let mut ended = vec![];
        while let Some(Some(end)) = self.all.next().now_or_never() {
            ended.extend(end);
        }
        ended
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
    fn what_has_ended_at_a_close_is_had_and_what_has_not_begun_never_begins() {
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut all = UnderWay::new();
        let (end, ended) = oneshot::channel();
        all.push(async { ended.await.ok() });
        all.push(std::future::pending());
        assert!(pin!(all.next()).poll(&mut context).is_pending());
        end.send(1).unwrap();
        let begun = Arc::new(AtomicBool::new(false));
        let begins = begun.clone();
        all.push(async move {
            begins.store(true, Ordering::Relaxed);
            Some(2)
        });
        assert_eq!(all.close(), [Some(1)]);
        assert!(!begun.load(Ordering::Relaxed));
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
