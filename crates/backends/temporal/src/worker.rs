//! A node's part of the cluster: it takes its share of all workflows' decisions, and runs the segments of the jobs that are at home here.

use crate::activities::Acts;
use crate::cluster::{Access, Cluster, ClusterError};
use crate::home::Home;
use crate::workflow::HookwrightJob;
use std::sync::Arc;
use std::time::Duration;
use temporalio_sdk::runtime::RuntimeOptions;
use temporalio_sdk::{Runtime, WorkerOptions};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// After so long a workflow's next task goes to any node, where the one that knew it does not take it.
const STICKY: Duration = Duration::from_secs(1);

/// A worker on a thread of its own: the SDK's is bound to one.
pub struct Worker {
    /// No new tasks; those under way end.
    drain: CancellationToken,
    /// Segments under way are broken off; their journals say how far they came.
    stop: CancellationToken,
    done: oneshot::Receiver<Result<(), String>>,
}

impl Worker {
    /// Starts; returns when it polls.
    pub async fn start(access: Access, home: Arc<dyn Home>) -> Result<Self, ClusterError> {
        let (drain, stop) = (CancellationToken::new(), CancellationToken::new());
        let (ready, is_ready) = oneshot::channel();
        let (ended, done) = oneshot::channel();
        let (on, tokens) = (Handle::current(), (drain.clone(), stop.clone()));
        let thread = std::thread::Builder::new().name("hookwright-temporal".to_owned());
        let failed = |e: &dyn std::error::Error| ClusterError::Failed(format!("its worker can't be started: {e}"));
        thread
            .spawn(move || {
                let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                    Ok(runtime) => runtime,
                    Err(error) => {
                        let _ = ready.send(Err(ClusterError::Failed(error.to_string())));
                        return;
                    }
                };
                let local = tokio::task::LocalSet::new();
                let ran = local.block_on(&runtime, serve(access, home, on, tokens, ready));
                // What is left of the connection ends with its threads; nobody waits for it.
                runtime.shutdown_background();
                let _ = ended.send(ran);
            })
            .map_err(|e| failed(&e))?;
        match is_ready.await {
            Ok(Ok(())) => Ok(Self { drain, stop, done }),
            Ok(Err(error)) => Err(error),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Ends when the worker does; that it does by itself is a failure, and this says which.
    pub async fn ended(&mut self) -> Result<(), String> {
        match (&mut self.done).await {
            Ok(ended) => ended,
            Err(_) => Err("its thread ended".into()),
        }
    }

    /// Takes no new tasks and waits until those under way have ended: each segment at its next boundary.
    pub async fn drain(mut self) {
        self.drain.cancel();
        let _ = self.ended().await;
    }

    /// Breaks off what is under way; journals say how far it came, and it goes on from there when the node is back.
    pub async fn stop(mut self, patience: Duration) {
        self.stop.cancel();
        self.drain.cancel();
        // On some servers the SDK does not end in time: nothing is lost by leaving it.
        let _ = tokio::time::timeout(patience, self.ended()).await;
    }
}

async fn serve(
    access: Access,
    home: Arc<dyn Home>,
    on: Handle,
    (drain, stop): (CancellationToken, CancellationToken),
    ready: oneshot::Sender<Result<(), ClusterError>>,
) -> Result<(), String> {
    let built = async {
        let cluster = Cluster::connect(&access).await?;
        cluster.prepare().await?;
        let failed = |e: String| ClusterError::Failed(format!("its worker can't be started: {e}"));
        let runtime = Runtime::from_current_tokio(RuntimeOptions::default()).map_err(|e| failed(e.to_string()))?;
        let acts = Acts::new(home.clone(), cluster.clone(), on, stop);
        let flows = WorkerOptions::new(cluster.queue())
            .sticky_queue_schedule_to_start_timeout(STICKY)
            .register_workflow::<HookwrightJob>()
            .map_err(|e| failed(e.to_string()))?
            .build();
        let acts = WorkerOptions::new(home.place().queue).register_activities(acts).build();
        let worker = |options| {
            temporalio_sdk::Worker::new(&runtime, cluster.client().clone(), options).map_err(|e| failed(e.to_string()))
        };
        Ok::<_, ClusterError>((worker(flows)?, worker(acts)?))
    };
    let (mut flows, mut acts) = match built.await {
        Ok(both) => both,
        Err(error) => {
            let _ = ready.send(Err(error));
            return Ok(());
        }
    };
    let _ = ready.send(Ok(()));
    let (end_flows, end_acts) = (flows.shutdown_handle(), acts.shutdown_handle());
    let ending = async {
        drain.cancelled().await;
        end_acts();
        end_flows();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        (flows, acts) = async { tokio::join!(flows.run(), acts.run()) } => {
            flows.map_err(|e| e.to_string()).and(acts.map_err(|e| e.to_string()))
        }
        () = ending => Ok(()),
    }
}
