//! The workflow of a job.
//!
//! Invariant: every command follows from the input, the results of activities, signals, updates and the workflow's time; futures are polled
//! in the order in which they stand.

use crate::activities::Acts;
use crate::book::{Book, Next};
use crate::home::{JOURNAL_GONE, JOURNAL_LOST};
use crate::wire::{
    Answer, CancelInput, DecideInput, DeliverInput, JobInput, JobResult, RestoreInput, SegmentInput, SegmentOutput,
};
use hookwright_core::history::ReplayError;
use hookwright_runtime::ports::store::InboxKind;
use std::time::{Duration, UNIX_EPOCH};
use temporalio_client::WorkflowHistory;
use temporalio_common::RetryPolicy;
use temporalio_common::error::IncomingError;
use temporalio_common::search_attributes::{SearchAttributeKey, SearchAttributeUpdate};
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};
use temporalio_sdk::workflows::select;
use temporalio_sdk::{
    ActivityExecutionError, ActivityOptions, ContinueAsNewOptions, SyncWorkflowContext, TimerOptions,
    WaitConditionOptions, WorkflowCancellationToken, WorkflowContext, WorkflowContextView, WorkflowResult,
    WorkflowTermination,
};

/// How jobs stand, for lists.
pub(crate) const STATUS: SearchAttributeKey<String> = SearchAttributeKey::keyword("HookwrightStatus");
/// Records that were acknowledged when that was told last.
pub(crate) const RECORDS: SearchAttributeKey<i64> = SearchAttributeKey::int("HookwrightRecords");
/// The approvals that wait.
pub(crate) const WAITING: SearchAttributeKey<Vec<String>> = SearchAttributeKey::keyword_list("HookwrightWaiting");

/// A node is noticed to be gone after so long. An attempt too many is harmless: it joins the one that goes on.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// A segment may take so long: an agent at work for days is no fault.
const LONGEST: Duration = Duration::from_hours(720);
/// How long a client waits for the home node's word on a decision.
const WORD: Duration = Duration::from_secs(10);
/// Who cancels a job whose workflow is cancelled by other means than ours.
const CANCELLED_BY: &str = "a cancel of its workflow";

/// A job.
#[workflow]
pub(crate) struct HookwrightJob {
    input: JobInput,
    book: Book,
    /// What lists were told last.
    told: (&'static str, Vec<String>),
    /// Handlers that wait for the home node's word.
    asking: u32,
}

fn now_ms(time: Option<std::time::SystemTime>) -> u64 {
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[workflow_methods]
impl HookwrightJob {
    #[init]
    fn new(_ctx: &WorkflowContextView, mut input: JobInput) -> Self {
        let Some(book) = input.carried.take() else {
            return Self { input, book: Book::default(), told: ("running", vec![]), asking: 0 };
        };
        // What an earlier run told is told anew.
        Self { input, book: *book, told: ("", vec![String::new()]), asking: 0 }
    }

    #[run]
    pub(crate) async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<JobResult> {
        // Whatever waits here is not ended by a cancel of the workflow: that cancels the job, which ends in order.
        let lasting = WorkflowCancellationToken::new();
        let mut cancelled = std::pin::pin!(ctx.cancelled());
        loop {
            tell(ctx);
            let now = now_ms(ctx.workflow_time());
            match ctx.state(|s| s.book.next(now)) {
                Next::Over(outcome) => {
                    // Whoever waits for the node's word on a decision gets it.
                    let _ = until(ctx, &lasting, |s| s.asking == 0).await;
                    let acknowledged = ctx.state(|s| s.book.acknowledged());
                    return Ok(JobResult { outcome, acknowledged });
                }
                Next::Wait { ms } => {
                    let own = lasting.child_token();
                    let timer =
                        TimerOptions::builder(Duration::from_millis(ms)).cancellation_token(own.clone()).build();
                    let mut timer = std::pin::pin!(ctx.timer(timer));
                    let mut said =
                        std::pin::pin!(until(ctx, &lasting, |s| { !s.book.waits_for_people() || s.book.has_failed() }));
                    select! {
                        _ = said => {}
                        _ = timer => ctx.state_mut(|s| s.book.wake()),
                        _ = cancelled => drop(cancel(ctx, CANCELLED_BY)),
                    }
                    own.cancel();
                }
                Next::Segment => {
                    turn_over(ctx)?;
                    let input = ctx.state_mut(Self::begin_segment);
                    let given = input.items.clone();
                    let options = options(&input.home.queue, &lasting, format!("segment-{}", input.number));
                    let ended = ctx.execute_activity(Acts::segment, input, options);
                    let mut ended = std::pin::pin!(ended);
                    let mut failed = std::pin::pin!(until(ctx, &lasting, |s| s.book.has_failed()));
                    let ended = loop {
                        select! {
                            ended = ended => break Some(ended),
                            _ = failed => break None,
                            _ = cancelled => {
                                let item = cancel(ctx, CANCELLED_BY);
                                let _ = deliver(ctx, item).await;
                            }
                        }
                    };
                    ctx.state_mut(|s| s.book.in_flight = false);
                    match ended {
                        None => {}
                        Some(Ok(output)) => took(ctx, |s| s.book.segment_ended(output, &given)),
                        Some(Err(error)) => broken(ctx, &lasting, &error).await,
                    }
                }
            }
        }
    }

    /// A person decides.
    #[update]
    pub(crate) async fn decide(ctx: &mut WorkflowContext<Self>, said: DecideInput) -> Answer {
        let now = now_ms(ctx.workflow_time());
        let (noted, in_flight) =
            ctx.state_mut(|s| (s.book.decide(&said.approval, said.decision, now), s.book.in_flight));
        match noted {
            Err(answer) => answer,
            Ok(_) if !in_flight => Answer::Counted,
            Ok(item) => deliver(ctx, item.what).await,
        }
    }

    #[update_validator(decide)]
    fn validate_decide(
        &self,
        _ctx: &WorkflowContextView,
        said: &DecideInput,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        match self.book.refuses(&said.approval, &said.decision) {
            None => Ok(()),
            Some(answer) => Err(serde_json::to_string(&answer)?.into()),
        }
    }

    /// Somebody cancels the job.
    #[signal]
    pub(crate) async fn cancel(ctx: &mut WorkflowContext<Self>, said: CancelInput) {
        let what = cancel(ctx, &said.by);
        if ctx.state(|s| s.book.in_flight) {
            let _ = deliver(ctx, what).await;
        }
    }

    /// Somebody gives the job up, whose home node does not come back.
    #[signal]
    pub(crate) fn abandon(&mut self, _ctx: &mut SyncWorkflowContext<Self>, said: CancelInput) {
        let (by, node) = (hookwright_core::approval::name_of(&said.by), &self.input.home.node);
        self.book.fail("Abandoned", &format!("{by} gave it up: its home node {node} did not go on with it"));
    }

    /// What a segment under way has recorded by now.
    #[signal]
    pub(crate) fn progress(&mut self, ctx: &mut SyncWorkflowContext<Self>, so_far: SegmentOutput) {
        if let Err(why) = self.book.progress(so_far) {
            ctx.force_task_fail(why.to_string());
        }
        if let Some(updates) = self.news() {
            ctx.upsert_search_attributes(updates);
        }
    }
}

impl HookwrightJob {
    fn begin_segment(&mut self) -> SegmentInput {
        self.book.segments += 1;
        self.book.in_flight = true;
        let acknowledged = self.book.acknowledged();
        SegmentInput {
            job: self.job(),
            number: self.book.segments,
            home: self.input.home.clone(),
            row: self.input.row.clone(),
            new: self.input.new.clone().filter(|_| acknowledged.records == 0),
            acknowledged,
            items: self.book.items(),
        }
    }

    /// What lists are to be told; none where that is known.
    fn news(&mut self) -> Option<Vec<SearchAttributeUpdate>> {
        let stands = (self.book.status(), self.book.undecided());
        if self.told == stands {
            return None;
        }
        let records = i64::try_from(self.book.acknowledged().records).unwrap_or(i64::MAX);
        let mut updates = vec![STATUS.value_set(stands.0.to_owned()), RECORDS.value_set(records)];
        if self.told.1 != stands.1 {
            // None is an empty list: servers refuse what the SDK sends for an attribute that is taken away.
            updates.push(WAITING.value_set(stands.1.clone()));
        }
        self.told = stands;
        Some(updates)
    }

    fn job(&self) -> String {
        self.input.job.clone()
    }
}

/// Until something holds; a cancel of the workflow does not end it.
fn until<'a>(
    ctx: &'a WorkflowContext<HookwrightJob>,
    lasting: &WorkflowCancellationToken,
    condition: impl FnMut(&HookwrightJob) -> bool + 'a,
) -> impl futures_util::future::FusedFuture + 'a {
    let options = WaitConditionOptions::builder().cancellation_token(lasting.clone()).build();
    ctx.wait_condition_with_options(condition, options)
}

/// How an activity on the home node is run: for as long as it takes, and again for as long as the node is gone.
fn options(queue: &str, lasting: &WorkflowCancellationToken, id: String) -> ActivityOptions {
    let again = RetryPolicy::builder()
        .initial_interval(Duration::from_millis(200))
        .backoff_coefficient(2.0)
        .maximum_interval(Duration::from_secs(5))
        .build();
    ActivityOptions::with_start_to_close_timeout(LONGEST)
        .task_queue(queue)
        .activity_id(id)
        .heartbeat_timeout(HEARTBEAT)
        .cancellation_token(lasting.clone())
        .retry_policy(again)
        .build()
}

/// Notes a cancel; what is to be told to the home node.
fn cancel(ctx: &WorkflowContext<HookwrightJob>, by: &str) -> InboxKind {
    let at_ms = now_ms(ctx.workflow_time());
    ctx.state_mut(|s| s.book.say(InboxKind::Cancel { by: by.to_owned(), at_ms })).what
}

/// Tells the home node at once, where a segment is under way: what was said is given to the next segment anyway.
async fn deliver(ctx: &WorkflowContext<HookwrightJob>, what: InboxKind) -> Answer {
    let (job, queue) = ctx.state(|s| (s.job(), s.input.home.queue.clone()));
    let token = WorkflowCancellationToken::new();
    let options = ActivityOptions::with_schedule_to_close_timeout(WORD)
        .task_queue(queue)
        .cancellation_token(token.clone())
        .build();
    ctx.state_mut(|s| s.asking += 1);
    let told = ctx.execute_activity(Acts::deliver, DeliverInput { job, what }, options).await;
    ctx.state_mut(|s| s.asking -= 1);
    told.unwrap_or(Answer::Noted)
}

/// Tells lists how the job stands, where that changed.
fn tell(ctx: &WorkflowContext<HookwrightJob>) {
    if let Some(updates) = ctx.state_mut(HookwrightJob::news) {
        ctx.upsert_search_attributes(updates);
    }
}

/// Goes on as a new run, where the history has become long and nobody waits for an answer. What the machine is goes with it.
fn turn_over(ctx: &WorkflowContext<HookwrightJob>) -> Result<(), WorkflowTermination> {
    let many = ctx.state(|s| s.input.events_at_most).is_some_and(|most| ctx.history_length() > most);
    if !(many || ctx.continue_as_new_suggested()) || !ctx.all_handlers_finished() {
        return Ok(());
    }
    let input = ctx.state(|s| JobInput { new: None, carried: Some(Box::new(s.book.clone())), ..s.input.clone() });
    ctx.continue_as_new(input, ContinueAsNewOptions::default()).map(|never| match never {})
}

/// Takes in what the home node says. What does not replay is a fault of ours, or the work of a newer version: the task fails visibly, the
/// job stays as it is, and a worker that knows better can go on.
fn took(ctx: &WorkflowContext<HookwrightJob>, take: impl FnOnce(&mut HookwrightJob) -> Result<(), ReplayError>) {
    if let Err(why) = ctx.state_mut(take) {
        ctx.force_task_fail(why.to_string());
    }
}

/// What to do where a segment can't be had: make the journal again if nothing can have been lost with it, else end.
async fn broken(
    ctx: &WorkflowContext<HookwrightJob>,
    lasting: &WorkflowCancellationToken,
    error: &ActivityExecutionError,
) {
    let (kind, why) = match error.cause() {
        Some(IncomingError::Application(failure)) => {
            (failure.type_name().unwrap_or_default().to_owned(), failure.source_error().to_string())
        }
        _ => (String::new(), error.to_string()),
    };
    if kind != JOURNAL_GONE {
        let kind = if kind.is_empty() { "SegmentFailed" } else { &kind };
        return ctx.state_mut(|s| s.book.fail(kind, &why));
    }
    let input =
        ctx.state(|s| RestoreInput { job: s.job(), row: s.input.row.clone(), acknowledged: s.book.acknowledged() });
    let options = ctx.state(|s| options(&s.input.home.queue, lasting, format!("restore-{}", s.book.segments)));
    if let Err(error) = ctx.execute_activity(Acts::restore, input, options).await {
        let why = error.cause().map_or_else(|| error.to_string(), ToString::to_string);
        ctx.state_mut(|s| s.book.fail(JOURNAL_LOST, &format!("its journal is gone and can't be made again: {why}")));
    }
}

/// Replays a recorded workflow history, as the server's JSON has it, against this code. `Err` says what differs.
pub async fn replay_workflow(history: &[u8]) -> Result<(), String> {
    let history = WorkflowHistory::from_json(history).map_err(|e| e.to_string())?;
    let options = WorkflowReplayerOptions::new().register_workflow::<HookwrightJob>().map_err(|e| e.to_string())?;
    let replayer = WorkflowReplayer::new(options.build()).map_err(|e| e.to_string())?;
    replayer.replay_workflow(history).await.map(drop).map_err(|e| e.to_string())
}
