//! Does one effect and says what came of it.
//!
//! Invariant: an effect has exactly one end; failures are ends, not errors, but for a store that can't give a value.

mod turn;

use super::catalogue::{Catalogue, Known, current, current_schema_sha256};
use super::children::Children;
use super::start::Start;
use super::talk::Talk;
use super::{Deps, When};
use crate::hook::{self, Schema, ms_since};
use crate::lifecycle::{Hooks, Round};
use crate::observe::Observer;
use crate::ports::store::StoreError;
use crate::ports::tools::{CallOutcome, LateAnswer, Progress, Tools};
use crate::values::Values;
use futures_util::future::{BoxFuture, FutureExt as _};
use hookwright_core::approval::{self, Grant};
use hookwright_core::call::read_result;
use hookwright_core::event::{self, EventBody, EventHead, Moment};
use hookwright_core::job::{Command, Fact, JobSpec, ToolOutcome};
use hookwright_core::lifecycle::{Context, LifecycleAnswer, Point};
use hookwright_core::stored::{Blob, Stored};
use hookwright_core::{FunctionName, subagent, text};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// What came of an effect.
pub(super) struct Done {
    pub(super) fact: Result<Fact, StoreError>,
    pub(super) blobs: Vec<Blob>,
    /// What may still come after a time limit.
    pub(super) late: Option<Late>,
}

/// Yields what to record of an answer that comes too late; none where it never comes. Bounded in time by the tools.
pub(super) type Late = BoxFuture<'static, Option<Fact>>;

fn late(answer: oneshot::Receiver<LateAnswer>, fact: impl FnOnce(u64) -> Fact + Send + 'static) -> Late {
    async move { answer.await.ok().map(|answer| fact(answer.after_ms)) }.boxed()
}

/// Who is told how far a call has come, by the call's id.
#[derive(Default)]
pub(super) struct Telling(Mutex<HashMap<String, Progress>>);

impl Telling {
    pub(super) fn set(&self, call: &str, progress: Option<Progress>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match progress {
            Some(progress) => drop(all.insert(call.to_owned(), progress)),
            None => drop(all.remove(call)),
        }
    }

    /// Of the call that is made by this effect.
    fn of(&self, effect: &str) -> Option<Progress> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(effect.strip_suffix(".call")?).cloned()
    }
}

/// Everything that the effects of a job share.
pub(super) struct Workshop {
    pub(super) deps: Deps,
    /// The tenant's tools, as they were given: those of `deps` are this job's.
    pub(super) tools_of_all: Arc<dyn Tools>,
    pub(super) children: Children,
    pub(super) telling: Telling,
    pub(super) spec: JobSpec,
    pub(super) values: Values,
    pub(super) catalogue: Catalogue,
    pub(super) listed: hook::Listed,
    pub(super) hooks: Hooks,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) holds_output: bool,
}

impl Workshop {
    /// Does the effect. `talk` is given for what a model is asked. `again` says that it was begun before, by a process that has ended.
    pub(super) async fn execute(&self, command: Command, talk: Talk, expires_ms: u64, again: bool) -> Done {
        if let Some(checkpoint) = &self.deps.checkpoint {
            checkpoint(When::Before, &command);
        }
        let (mut blobs, mut late) = (vec![], None);
        let mut fact = self.end_of(&command, talk, expires_ms, &mut late, &mut blobs).await;
        if let Ok(Fact::ToolReturned { outcome, .. }) = &mut fact
            && let ToolOutcome::NotMade { why } = outcome
            && again
            && !matches!(&command, Command::CallTool { tool, .. } if subagent::is_start(tool))
        {
            // This time it was not made. Whether it was before the process ended, nobody knows (SPEC §8).
            *outcome = ToolOutcome::Unknown { why: format!("it was begun before a restart, and then {why}") };
        }
        if let Some(checkpoint) = &self.deps.checkpoint {
            checkpoint(When::After, &command);
        }
        Done { fact, blobs, late }
    }

    async fn end_of(
        &self,
        command: &Command,
        talk: Talk,
        expires_ms: u64,
        afterwards: &mut Option<Late>,
        blobs: &mut Vec<Blob>,
    ) -> Result<Fact, StoreError> {
        match command {
            Command::Ask { effect, hook, head, value, arguments, structured, error, .. } => {
                let body = self.body(head, value, arguments.as_ref(), structured.as_ref(), *error).await?;
                let known = self.catalogue.snapshot();
                let schema = self.schema_for(head, &known).await?;
                let schema = match &schema {
                    Found::None => Schema::None,
                    Found::Unknown => Schema::Unknown,
                    Found::Is(schema) => Schema::Is(schema),
                };
                let hook = &self.spec.hooks.hooks[*hook];
                let event = event::build(head, body);
                let asked = hook::ask(&*self.deps.tools, &self.listed, hook, event, schema, &self.spec.limits).await;
                if let (hookwright_core::chain::HookOutcome::Modify { value, .. }, Some(new)) =
                    (&asked.outcome, asked.value)
                {
                    self.values.keep(value, new);
                }
                blobs.extend(asked.blobs);
                if let Some(answer) = asked.late {
                    let effect = effect.clone();
                    *afterwards = Some(late(answer, |after_ms| Fact::HookLate { effect, after_ms }));
                }
                Ok(Fact::HookAnswered {
                    effect: effect.clone(),
                    outcome: asked.outcome,
                    ms: asked.ms,
                    other: asked.other,
                })
            }
            Command::CallTool { effect, call, tool, arguments, grant, .. } => {
                let grant = grant.as_ref();
                let (start, outcome) = if subagent::is_start(tool) {
                    let start = Instant::now();
                    (start, self.start_child(Start { effect, call, tool, arguments, grant }, blobs).await?)
                } else {
                    // A server that still has to start takes its time here: it is not the call's.
                    let not_made = self.not_made(call, tool, arguments, grant).await;
                    let start = Instant::now();
                    let outcome = match not_made {
                        Some(why) => ToolOutcome::NotMade { why: text::reason(Some(&why), 2_000) },
                        None => self.call(effect, tool, arguments, afterwards, blobs).await?,
                    };
                    (start, outcome)
                };
                Ok(Fact::ToolReturned { effect: effect.clone(), outcome, ms: ms_since(start) })
            }
            Command::CallModel { effect, turn, .. } => self.turn(effect, *turn, talk, blobs).await,
            Command::Compact { effect, turn, plan, .. } => self.compact(effect, *turn, *plan, talk, blobs).await,
            Command::AskLifecycle { effect, point, servers, context, .. } => {
                let answers = self.advice(*point, servers, context, blobs).await;
                Ok(Fact::LifecycleAnswered { effect: effect.clone(), answers })
            }
            Command::OpenApproval { effect, approval } => {
                loop {
                    let left = expires_ms.saturating_sub(self.deps.clock.now_ms());
                    if left == 0 {
                        break;
                    }
                    // In short pieces: the wall clock may be set, or the machine sleep, meanwhile.
                    self.deps.clock.sleep(Duration::from_millis(left.min(30_000))).await;
                }
                Ok(Fact::ApprovalExpired { effect: effect.clone(), approval: approval.id.clone() })
            }
            Command::LetCall { .. }
            | Command::Admit { .. }
            | Command::Answer { .. }
            | Command::SendBack { .. }
            | Command::CloseApproval { .. }
            | Command::Finish { .. } => Err(StoreError::Failed("not an effect that is carried out".into())),
        }
    }

    /// What servers advise at a point; nothing where nobody is to be asked.
    async fn advice(
        &self,
        point: Point,
        servers: &[String],
        context: &Context,
        blobs: &mut Vec<Blob>,
    ) -> Vec<LifecycleAnswer> {
        let Some(lifecycle) = &self.spec.lifecycle else { return vec![] };
        let prompt = match &context.prompt {
            // A prompt that is gone is no reason not to ask.
            Some(prompt) if !servers.is_empty() => self.values.load(prompt).await.ok(),
            _ => None,
        };
        let round = Round {
            tools: &*self.deps.tools,
            standing: &self.deps.standing,
            hooks: &self.hooks,
            spec: &self.spec,
            lifecycle,
            point,
            context,
            prompt: prompt.as_deref(),
        };
        let (answers, large) = round.ask(servers).await;
        blobs.extend(large);
        answers
    }

    async fn body(
        &self,
        head: &EventHead,
        value: &Stored,
        arguments: Option<&Stored>,
        structured: Option<&Stored>,
        error: Option<bool>,
    ) -> Result<EventBody, StoreError> {
        let value = (*self.values.load(value).await?).clone();
        Ok(match head.event {
            Moment::JobStart => EventBody::JobStart(value),
            Moment::PreToolCall => EventBody::PreToolCall(value),
            Moment::JobEnd => EventBody::JobEnd(value),
            Moment::PostToolCall => EventBody::PostToolCall {
                arguments: match arguments {
                    Some(arguments) => (*self.values.load(arguments).await?).clone(),
                    None => Value::Null,
                },
                result: value,
                structured: match structured {
                    Some(structured) => Some((*self.values.load(structured).await?).clone()),
                    None => None,
                },
                error: error.unwrap_or(false),
            },
        })
    }

    /// What a new value must fit: the function's input schema, or the agent's declared one.
    async fn schema_for<'a>(
        &self,
        head: &EventHead,
        known: &'a HashMap<String, Known>,
    ) -> Result<Found<'a>, StoreError> {
        let declared = match head.event {
            // What an agent calls itself has a schema that is known to it alone.
            Moment::PreToolCall if self.spec.agent.external.is_some_and(|e| e.makes_calls) => return Ok(Found::None),
            Moment::PreToolCall => {
                let name = head.tool.as_deref().unwrap_or_default();
                if let Some(known) = known.get(name) {
                    return Ok(Found::Is(Cow::Borrowed(&known.spec.input_schema)));
                }
                // After a restart nothing is known yet.
                let listed = current(&*self.deps.tools, name).await;
                return Ok(listed.map_or(Found::Unknown, |function| Found::Is(Cow::Owned(function.input_schema))));
            }
            Moment::PostToolCall => None,
            Moment::JobStart => self.spec.agent.input_schema.as_ref(),
            Moment::JobEnd => self.spec.agent.output_schema.as_ref(),
        };
        match declared {
            Some(schema) => Ok(Found::Is(Cow::Owned((*self.values.load(schema).await?).clone()))),
            None => Ok(Found::None),
        }
    }

    /// Why a call is not made after all: its yes no longer holds, or its server is not there.
    pub(super) async fn not_made(
        &self,
        call: &str,
        tool: &FunctionName,
        arguments: &Stored,
        grant: Option<&Grant>,
    ) -> Option<String> {
        if let Err(down) = self.deps.tools.ready(tool.tool()).await {
            return Some(format!("the tool {} is not available: {}", tool.tool(), down.why));
        }
        let grant = grant?;
        let name = tool.to_string();
        let digest = approval::digest(
            &self.spec.tenant,
            &self.spec.job,
            Some(call),
            &self.spec.agent.id,
            Some(&name),
            arguments,
            None,
        );
        let schema = current_schema_sha256(&*self.deps.tools, tool).await;
        approval::check_dispatch(grant, &digest, self.deps.clock.now_ms(), schema.as_deref())
            .err()
            .map(|e| e.to_string())
    }

    async fn call(
        &self,
        effect: &str,
        tool: &FunctionName,
        arguments: &Stored,
        afterwards: &mut Option<Late>,
        blobs: &mut Vec<Blob>,
    ) -> Result<ToolOutcome, StoreError> {
        let Value::Object(map) = (*self.values.load(arguments).await?).clone() else {
            return Ok(ToolOutcome::NotMade { why: "its arguments are not a JSON object".into() });
        };
        let timeout_ms = self.spec.limits.tool_timeout_ms;
        let progress = self.telling.of(effect);
        Ok(match self.deps.tools.call_telling(tool, map, Duration::from_millis(timeout_ms), progress).await {
            CallOutcome::Answered { result, .. } => {
                let read = read_result(result, self.spec.agent.external.is_some());
                let mut keep = |value: Value| {
                    let value = Arc::new(value);
                    let (stored, blob) = Stored::shared(value.clone());
                    self.values.keep(&stored, value);
                    blobs.extend(blob);
                    stored
                };
                ToolOutcome::Returned {
                    result: keep(read.result),
                    structured: read.structured.map(&mut keep),
                    is_error: read.is_error,
                    rest: read.rest.map(&mut keep),
                }
            }
            CallOutcome::RpcError { code, message, .. } => {
                ToolOutcome::Failed { why: format!("error {code}: {}", text::reason(Some(&message), 2_000)) }
            }
            CallOutcome::TimedOut { late: answer } => {
                let effect = effect.to_owned();
                *afterwards = Some(late(answer, |after_ms| Fact::ToolLate { effect, after_ms }));
                ToolOutcome::TimedOut { after_ms: timeout_ms }
            }
            CallOutcome::NotSent { why } => ToolOutcome::NotMade { why: text::reason(Some(&why), 2_000) },
            CallOutcome::Lost { why } => ToolOutcome::Unknown { why: text::reason(Some(&why), 2_000) },
        })
    }
}

/// What a new value must fit, with what it was read from.
enum Found<'a> {
    None,
    Unknown,
    Is(Cow<'a, Value>),
}
