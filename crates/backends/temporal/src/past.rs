//! A job's past, read from the histories of its workflow's runs. It needs no worker, and is there after the workflow has ended, for as long as
//! the namespace keeps it.

use crate::wire::{Answer, Below, DecideInput, JobInput, JobResult, SegmentOutput};
use hookwright_runtime::ports::store::Decision;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, HashMap};
use temporalio_client::{Client, UntypedWorkflow, WorkflowExecutionInfo, WorkflowFetchHistoryOptions, WorkflowHandle};
use temporalio_common::protos::temporal::api::common::v1::Payloads;
use temporalio_common::protos::temporal::api::history::v1::HistoryEvent;
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use temporalio_common::protos::temporal::api::update::v1::outcome;

/// What stands there.
#[derive(Debug, Default)]
pub(crate) struct Past {
    pub(crate) records: Vec<String>,
    /// The approvals of jobs below that wait, as the home node told last.
    pub(crate) below: Vec<Below>,
    /// Decisions that were taken, by approval: the home node may not have recorded them yet.
    pub(crate) decided: BTreeMap<String, Decision>,
    /// The input of the latest run.
    pub(crate) input: Option<JobInput>,
    pub(crate) result: Option<JobResult>,
}

#[derive(Deserialize)]
struct Place {
    seq: u64,
}

/// The past of a job. `Err` is for people.
pub(crate) async fn of(client: &Client, job: &str) -> Result<Past, String> {
    let mut runs = vec![];
    let mut run = None;
    loop {
        let events = events(client, job, run.take()).await?;
        let earlier = events.iter().find_map(|event| match &event.attributes {
            Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => {
                Some(started.continued_execution_run_id.clone()).filter(|id| !id.is_empty())
            }
            _ => None,
        });
        runs.push(events);
        let Some(earlier) = earlier else { break };
        run = Some(earlier);
    }
    let mut past = Past::default();
    for events in runs.into_iter().rev() {
        past.read(events);
    }
    Ok(past)
}

async fn events(client: &Client, job: &str, run: Option<String>) -> Result<Vec<HistoryEvent>, String> {
    let info = WorkflowExecutionInfo::builder()
        .namespace(client.options().namespace.clone())
        .workflow_id(job.to_owned())
        .maybe_run_id(run)
        .build();
    let handle = WorkflowHandle::<Client, UntypedWorkflow>::new(client.clone(), info);
    let events = handle.fetch_history(WorkflowFetchHistoryOptions::default()).into_events().await;
    events.map_err(|e| format!("the history of the workflow of {job} can't be read: {e}"))
}

fn read<T: DeserializeOwned>(payloads: Option<&Payloads>) -> Option<T> {
    payloads.and_then(|p| p.payloads.first()).and_then(|payload| serde_json::from_slice(&payload.data).ok())
}

impl Past {
    fn read(&mut self, events: Vec<HistoryEvent>) {
        let mut asked: HashMap<i64, (DecideInput, u64)> = HashMap::new();
        for event in events {
            let at_ms = event.event_time.map_or(0, |time| {
                u64::try_from(time.seconds).unwrap_or(0) * 1_000 + u64::try_from(time.nanos).unwrap_or(0) / 1_000_000
            });
            match event.attributes {
                Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => {
                    self.input = read(started.input.as_ref()).or(self.input.take());
                }
                Some(Attributes::ActivityTaskCompletedEventAttributes(done)) => {
                    self.told(read(done.result.as_ref()));
                }
                Some(Attributes::WorkflowExecutionSignaledEventAttributes(signal)) => {
                    self.told(read(signal.input.as_ref()));
                }
                Some(Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(accepted)) => {
                    let args = accepted.accepted_request.and_then(|request| request.input).and_then(|input| input.args);
                    asked.extend(read(args.as_ref()).map(|said| (event.event_id, (said, at_ms))));
                }
                Some(Attributes::WorkflowExecutionUpdateCompletedEventAttributes(done)) => {
                    let answer = match done.outcome.and_then(|outcome| outcome.value) {
                        Some(outcome::Value::Success(payloads)) => read(Some(&payloads)),
                        _ => None,
                    };
                    if let (Some((said, at_ms)), Some(Answer::Counted | Answer::Noted)) =
                        (asked.remove(&done.accepted_event_id), answer)
                    {
                        self.decided.insert(said.approval, Decision { at_ms, ..said.decision });
                    }
                }
                Some(Attributes::WorkflowExecutionCompletedEventAttributes(done)) => {
                    self.result = read(done.result.as_ref());
                }
                _ => {}
            }
        }
    }

    fn told(&mut self, output: Option<SegmentOutput>) {
        let Some(output) = output else { return };
        for text in output.records {
            let seq = serde_json::from_str::<Place>(&text).map_or(0, |place| place.seq);
            if seq == self.records.len() as u64 {
                self.records.push(text);
            }
        }
        self.below = output.below;
    }
}
