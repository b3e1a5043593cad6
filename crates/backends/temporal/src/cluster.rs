//! The connection to a cluster: beginning jobs, and what is known of them there.

use crate::wire::{Answer, CancelInput, DecideInput, JobInput, NewJobWire, Place};
use crate::workflow::{HookwrightJob, RECORDS, STATUS, WAITING};
use hookwright_core::job::Outcome;
use hookwright_runtime::job::NewRun;
use hookwright_runtime::ports::store::{Decision, NewJob};
use std::time::{Duration, UNIX_EPOCH};
use temporalio_client::errors::{WorkflowInteractionError, WorkflowStartError, WorkflowUpdateError};
use temporalio_client::tonic::{Code, IntoRequest as _};
use temporalio_client::{
    Client, ClientOptions, ClientTlsOptions, Connection, ConnectionOptions, RpcOptions, TlsOptions, Url,
    WorkflowDescribeOptions, WorkflowExecuteUpdateOptions, WorkflowFetchHistoryOptions, WorkflowGetResultOptions,
    WorkflowIdConflictPolicy, WorkflowIdReusePolicy, WorkflowSignalOptions, WorkflowStartOptions,
};
use temporalio_common::MemoValues;
use temporalio_common::protos::temporal::api::enums::v1::{IndexedValueType, PendingActivityState};
use temporalio_common::protos::temporal::api::operatorservice::v1::AddSearchAttributesRequest;
use temporalio_common::search_attributes::{SearchAttributeKey, SearchAttributes};

/// The tenant of a job.
pub(crate) const TENANT: SearchAttributeKey<String> = SearchAttributeKey::keyword("HookwrightTenant");
/// Its agent.
pub(crate) const AGENT: SearchAttributeKey<String> = SearchAttributeKey::keyword("HookwrightAgent");
/// Its home node.
pub(crate) const NODE: SearchAttributeKey<String> = SearchAttributeKey::keyword("HookwrightNode");
/// The row of a job, in its workflow's memo.
pub(crate) const ROW: &str = "hookwright";

/// Bytes of a job's first facts; a payload may have 2 MB.
const INPUT_BYTES: usize = 1_500_000;
/// How long a server is waited for that does not answer.
const CONNECT: Duration = Duration::from_secs(10);
/// A cluster takes a moment to know new search attributes.
const SETTLE: Duration = Duration::from_millis(500);
const SETTLES: u32 = 40;

/// How a cluster is reached.
#[derive(Clone)]
pub struct Access {
    /// `host:port`.
    pub address: String,
    /// The namespace.
    pub namespace: String,
    /// TLS; none: plain, for a server on this machine. An API key implies it.
    pub tls: Option<Tls>,
    /// The API key.
    pub api_key: Option<String>,
    /// The task queue of the workflows.
    pub queue: String,
}

/// Certificates, as PEM.
#[derive(Clone, Default)]
pub struct Tls {
    /// Who signs the server's certificate, where the system doesn't know it.
    pub ca: Option<Vec<u8>>,
    /// The client's certificate and key.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
    /// The name in the server's certificate, where it is not the address's.
    pub domain: Option<String>,
}

/// What went wrong with a cluster.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClusterError {
    /// It can't be reached.
    #[error("the Temporal server at {address} can't be reached: {why}")]
    Unreachable {
        /// Where.
        address: String,
        /// Why.
        why: String,
    },
    /// There is no such job.
    #[error("no job {0:?}")]
    NotFound(String),
    /// It is too large.
    #[error("the job's first facts have {bytes} bytes: a Temporal cluster takes {INPUT_BYTES}")]
    TooLarge {
        /// How many.
        bytes: usize,
    },
    /// It refused, or failed.
    #[error("the Temporal cluster failed: {0}")]
    Failed(String),
}

/// A connection.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    queue: String,
}

/// What a job is waiting for, where its home node does not go on with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The home node.
    pub node: String,
    /// Since when a segment waits for it, Unix milliseconds; none: the node is at work, or people are awaited.
    pub waits_since_ms: Option<u64>,
    /// How often the segment was tried.
    pub attempt: u32,
    /// Why the last attempt failed.
    pub failure: Option<String>,
}

impl Cluster {
    /// Connects.
    pub async fn connect(access: &Access) -> Result<Self, ClusterError> {
        let address = access.address.clone();
        let unreachable = |why: String| ClusterError::Unreachable { address: address.clone(), why };
        let secure = access.tls.is_some() || access.api_key.is_some();
        let url = format!("{}://{}", if secure { "https" } else { "http" }, access.address);
        let target = Url::parse(&url).map_err(|e| unreachable(e.to_string()))?;
        let tls = access.tls.as_ref().map(|tls| {
            let client = tls
                .client
                .clone()
                .map(|(cert, key)| ClientTlsOptions::builder().client_cert(cert).client_private_key(key).build());
            let options = TlsOptions::builder().maybe_server_root_ca_cert(tls.ca.clone());
            options.maybe_domain(tls.domain.clone()).maybe_client_tls_options(client).build()
        });
        let options = ConnectionOptions::new(target)
            .identity(format!("hookwright {}", std::process::id()))
            .maybe_tls_options(tls)
            .maybe_api_key(access.api_key.clone())
            .connect_timeout(CONNECT)
            .build();
        let connection = match tokio::time::timeout(CONNECT * 2, Connection::connect(options)).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(unreachable(chain(&error))),
            Err(_) => return Err(unreachable(format!("it did not answer within {} s", (CONNECT * 2).as_secs()))),
        };
        let client = Client::new(connection, ClientOptions::new(&access.namespace).build())
            .map_err(|e| ClusterError::Failed(e.to_string()))?;
        Ok(Self { client, queue: access.queue.clone() })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn queue(&self) -> &str {
        &self.queue
    }

    /// Makes the search attributes that lists need, where the namespace lacks them.
    pub async fn prepare(&self) -> Result<(), ClusterError> {
        let keyword = [TENANT.name(), AGENT.name(), NODE.name(), STATUS.name()].map(|n| (n, IndexedValueType::Keyword));
        let others = [(WAITING.name(), IndexedValueType::KeywordList), (RECORDS.name(), IndexedValueType::Int)];
        for (name, kind) in keyword.into_iter().chain(others) {
            let request = AddSearchAttributesRequest {
                search_attributes: [(name.to_owned(), kind as i32)].into(),
                namespace: self.client.options().namespace.clone(),
            };
            match self.client.connection().operator_service().add_search_attributes(request.into_request()).await {
                Ok(_) => {}
                Err(status) if status.code() == Code::AlreadyExists => {}
                Err(status) if status.message().contains("already exist") => {}
                // Somebody who may has made them, or a start says what is missing.
                Err(status) if matches!(status.code(), Code::PermissionDenied | Code::Unimplemented) => {}
                Err(status) => return Err(ClusterError::Failed(status.message().to_owned())),
            }
        }
        Ok(())
    }

    /// Begins a job, whose home is that node.
    pub async fn start(&self, run: NewRun, home: Place, events_at_most: Option<u32>) -> Result<(), ClusterError> {
        let row = run.job.clone();
        let new = Some(Box::new(NewJobWire::of(run)));
        let node = home.node.clone();
        let input = JobInput { job: row.id.clone(), row: row.clone(), home, new, carried: None, events_at_most };
        let bytes = serde_json::to_vec(&input).map_or(0, |text| text.len());
        if bytes > INPUT_BYTES {
            return Err(ClusterError::TooLarge { bytes });
        }
        let mut tried = 0;
        loop {
            let attributes = SearchAttributes::new([
                TENANT.value_set(row.tenant.clone()),
                AGENT.value_set(row.agent.clone()),
                NODE.value_set(node.clone()),
                STATUS.value_set("running".to_owned()),
            ]);
            let mut memo = MemoValues::new();
            memo.insert(ROW, row.clone());
            let options = WorkflowStartOptions::new(&self.queue, &row.id)
                .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
                .id_conflict_policy(WorkflowIdConflictPolicy::Fail)
                .search_attributes(attributes)
                .memo(memo)
                .build();
            match self.client.start_workflow(HookwrightJob::run, input.clone(), options).await {
                // An earlier try came through.
                Ok(_) | Err(WorkflowStartError::AlreadyStarted { .. }) => return Ok(()),
                Err(WorkflowStartError::Rpc(status)) if status.code() == Code::InvalidArgument && tried < SETTLES => {
                    tried += 1;
                    tokio::time::sleep(SETTLE).await;
                }
                Err(WorkflowStartError::Rpc(status)) => return Err(ClusterError::Failed(status.message().to_owned())),
                Err(error) => return Err(ClusterError::Failed(chain(&error))),
            }
        }
    }

    /// Sends a decision.
    pub(crate) async fn decide(&self, job: &str, approval: &str, decision: Decision) -> Result<Answer, ClusterError> {
        let handle = self.client.get_workflow_handle::<HookwrightJob>(job);
        let said = DecideInput { approval: approval.to_owned(), decision };
        let options = WorkflowExecuteUpdateOptions::builder()
            .rpc_options(RpcOptions::builder().timeout(Duration::from_mins(1)).build())
            .build();
        match handle.execute_update(HookwrightJob::decide, said, options).await {
            Ok(answer) => Ok(answer),
            // Refused by the validator, or after the workflow's end.
            Err(WorkflowUpdateError::Failed(failure)) => {
                serde_json::from_str(&failure.message).map_err(|_| ClusterError::Failed(failure.message.clone()))
            }
            Err(WorkflowUpdateError::NotFound(_)) => Ok(Answer::Already { decision: None }),
            Err(error) => Err(ClusterError::Failed(chain(&error))),
        }
    }

    /// Cancels a job: its home node ends it in order.
    pub async fn cancel(&self, job: &str, by: &str) -> Result<(), ClusterError> {
        let handle = self.client.get_workflow_handle::<HookwrightJob>(job);
        let sent =
            handle.signal(HookwrightJob::cancel, CancelInput { by: by.to_owned() }, WorkflowSignalOptions::default());
        sent.await.map_err(|e| told(job, e))
    }

    /// Gives a job up whose home node does not come back.
    pub async fn abandon(&self, job: &str, by: &str) -> Result<(), ClusterError> {
        let handle = self.client.get_workflow_handle::<HookwrightJob>(job);
        let sent =
            handle.signal(HookwrightJob::abandon, CancelInput { by: by.to_owned() }, WorkflowSignalOptions::default());
        sent.await.map_err(|e| told(job, e))
    }

    /// How a job ended, once it has. What it gave is by digest: values stand in the records.
    pub async fn result(&self, job: &str) -> Result<Outcome, ClusterError> {
        let handle = self.client.get_workflow_handle::<HookwrightJob>(job);
        match handle.get_result(WorkflowGetResultOptions::default()).await {
            Ok(result) => Ok(result.outcome),
            Err(error) => Err(ClusterError::Failed(format!("{job} did not end in order: {}", chain(&error)))),
        }
    }

    /// The history of the latest run of a job's workflow, as [`crate::replay_workflow`] takes it.
    pub async fn workflow(&self, job: &str) -> Result<Vec<u8>, ClusterError> {
        let handle = self.client.get_workflow_handle::<HookwrightJob>(job);
        let history = handle.fetch_history(WorkflowFetchHistoryOptions::default());
        history.to_json().await.map_err(|e| ClusterError::Failed(chain(&e)))
    }

    /// What a job waits for.
    pub async fn standing(&self, job: &str) -> Result<Standing, ClusterError> {
        let handle = self.client.get_workflow_handle::<HookwrightJob>(job);
        let found = handle.describe(WorkflowDescribeOptions::default()).await.map_err(|e| told(job, e))?;
        let segment =
            found.raw().pending_activities.iter().find(|activity| activity.activity_id.starts_with("segment-"));
        let waits = segment.filter(|activity| activity.state() == PendingActivityState::Scheduled);
        let since = waits.and_then(|activity| activity.last_started_time.or(activity.scheduled_time));
        Ok(Standing {
            node: found.search_attributes().get(&NODE).unwrap_or_default(),
            waits_since_ms: since.map(|time| u64::try_from(time.seconds).unwrap_or(0) * 1_000),
            attempt: segment.map_or(0, |activity| u32::try_from(activity.attempt).unwrap_or(0)),
            failure: segment.and_then(|activity| activity.last_failure.as_ref()).map(|failure| failure.message.clone()),
        })
    }
}

/// The row of a job in its workflow's memo.
pub(crate) fn row_of(memo: &temporalio_client::Memo) -> Option<NewJob> {
    memo.get::<NewJob>(ROW).ok().flatten()
}

pub(crate) fn ms(time: Option<std::time::SystemTime>) -> u64 {
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn told(job: &str, error: WorkflowInteractionError) -> ClusterError {
    match error {
        WorkflowInteractionError::NotFound(_) => ClusterError::NotFound(job.to_owned()),
        error => ClusterError::Failed(chain(&error)),
    }
}

/// An error with what caused it, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = cause.source();
    }
    hookwright_core::text::shown(&text, 500)
}
