//! What happens on the home node.

use crate::cluster::Cluster;
use crate::home::{self, Home, JOURNAL_GONE, JOURNAL_LOST, SegmentError};
use crate::past;
use crate::wire::{Answer, DeliverInput, Mark, RestoreInput, SegmentInput, SegmentOutput};
use crate::workflow::HookwrightJob;
use futures_util::future::{BoxFuture, FutureExt as _, Shared};
use hookwright_core::history::Record;
use hookwright_core::job::JobSpec;
use hookwright_runtime::observe::{Event, Observer};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use temporalio_client::WorkflowSignalOptions;
use temporalio_macros::activities;
use temporalio_sdk::ApplicationFailure;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How often a segment says that it is under way.
const BEAT: Duration = Duration::from_millis(700);
/// An approval that is opened while other calls go on is told of after so long, if the segment has not ended by then.
const TELL: Duration = Duration::from_millis(300);

type Running = Shared<BoxFuture<'static, Result<SegmentOutput, SegmentError>>>;

/// The activities of one node.
pub(crate) struct Acts {
    home: Arc<dyn Home>,
    cluster: Cluster,
    /// Where segments run: their effects need all threads.
    on: Handle,
    /// Ends all segments.
    stop: CancellationToken,
    /// Segments under way, by job.
    running: Mutex<HashMap<String, Running>>,
}

impl Acts {
    pub(crate) fn new(home: Arc<dyn Home>, cluster: Cluster, on: Handle, stop: CancellationToken) -> Self {
        Self { home, cluster, on, stop, running: Mutex::default() }
    }

    /// The segment of a job that is under way here, or a new one: a second attempt joins the first, whose effects it would only break off.
    fn join(self: &Arc<Self>, input: SegmentInput, attempt: u32) -> Running {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.get(&input.job) {
            return running.clone();
        }
        let (job, me) = (input.job.clone(), self.clone());
        let key = job.clone();
        let task = self.on.spawn(async move {
            let told = Arc::new(Notify::new());
            let observer = Arc::new(Waits(told.clone()));
            let known = input.acknowledged.clone();
            let ran = tokio::select! {
                ran = home::segment(&*me.home, input, attempt, observer) => ran,
                () = me.tell(&job, &known, &told) => Err(SegmentError::Later("it was not told of".into())),
                () = me.stop.cancelled() => Err(SegmentError::Later("its home node stops".into())),
            };
            me.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&job);
            ran
        });
        let ended = async move {
            let broken = |e: tokio::task::JoinError| SegmentError::Later(format!("the segment was broken off: {e}"));
            task.await.unwrap_or_else(|e| Err(broken(e)))
        };
        let shared = ended.boxed().shared();
        running.insert(key, shared.clone());
        shared
    }

    /// Tells the workflow of approvals that are opened while the segment goes on. Never ends.
    async fn tell(&self, job: &str, known: &Mark, opened: &Notify) {
        let store = self.home.store();
        loop {
            opened.notified().await;
            tokio::time::sleep(TELL).await;
            let Ok(so_far) = home::so_far(&*store, job, known, false).await else { continue };
            let handle = self.cluster.client().get_workflow_handle::<HookwrightJob>(job);
            let sent = handle.signal(HookwrightJob::progress, so_far, WorkflowSignalOptions::default()).await;
            if let Err(error) = sent {
                tracing::warn!(job, %error, "the cluster could not be told of an approval that waits");
                opened.notify_one();
            }
        }
    }
}

#[activities]
impl Acts {
    #[activity(name = "segment")]
    pub(crate) async fn segment(
        self: Arc<Self>,
        ctx: ActivityContext,
        input: SegmentInput,
    ) -> Result<SegmentOutput, ActivityError> {
        let running = self.join(input, ctx.info().attempt);
        let mut beat = tokio::time::interval(BEAT);
        let mut running = std::pin::pin!(running);
        let ended = loop {
            tokio::select! {
                ended = &mut running => break ended,
                _ = beat.tick() => ctx.record_heartbeat(()).await?,
            }
        };
        ended.map_err(failure)
    }

    #[activity(name = "deliver")]
    pub(crate) async fn deliver(
        self: Arc<Self>,
        _ctx: ActivityContext,
        input: DeliverInput,
    ) -> Result<Answer, ActivityError> {
        home::put(&*self.home.store(), &input.job, input.what).await.map_err(failure)
    }

    #[activity(name = "restore")]
    pub(crate) async fn restore(
        self: Arc<Self>,
        _ctx: ActivityContext,
        input: RestoreInput,
    ) -> Result<(), ActivityError> {
        let records =
            past::of(self.cluster.client(), &input.job).await.map_err(SegmentError::Later).map_err(failure)?;
        let restored = home::restore(&*self.home.store(), &input, records.records).await;
        restored.map_err(|why| fatal(JOURNAL_LOST, why))
    }
}

fn failure(error: SegmentError) -> ActivityError {
    match error {
        SegmentError::Gone => fatal(JOURNAL_GONE, error.to_string()),
        SegmentError::Lost => fatal(JOURNAL_LOST, error.to_string()),
        SegmentError::Later(why) => ActivityError::application(ApplicationFailure::new(why)),
    }
}

fn fatal(kind: &str, why: String) -> ActivityError {
    ActivityError::application(ApplicationFailure::builder(why).type_name(kind.to_owned()).non_retryable(true).build())
}

/// Notices approvals that are opened.
struct Waits(Arc<Notify>);

impl Observer for Waits {
    fn event(&self, event: Event<'_>) {
        if let Event::Waiting { .. } = event {
            self.0.notify_one();
        }
    }

    fn child(&self, _: &JobSpec, _: &[Record]) -> Arc<dyn Observer> {
        Arc::new(Self(self.0.clone()))
    }
}
