//! Asking servers for advice: who lists the function, the calls side by side, and what came of each (SPEC §9).
//!
//! Invariant: a server that fails, hangs or says nonsense costs one timeout at most, and nobody but itself.
//! Invariant: a server is killed only at its second timeout in a row; any call that it completes in between starts the count anew.

mod session;
mod standing;

pub use session::{session_end, session_end_again, session_end_is_left};
pub use standing::Standing;
pub(crate) use standing::Watched;

use crate::hook::ms_since;
use crate::ports::tools::{CallOutcome, ToolState, Tools};
use futures_util::future::join_all;
use hookwright_core::compaction;
use hookwright_core::job::JobSpec;
use hookwright_core::lifecycle::{self, Context, LifecycleAnswer, LifecycleOutcome, LifecycleSpec, Point, Strike};
use hookwright_core::stored::{Blob, Stored};
use hookwright_core::{FunctionName, text};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Characters of the text that says why a hook failed.
const WHY_CHARS: u32 = 500;

/// The lifecycle hooks that servers were seen to list, for one job.
#[derive(Debug, Default)]
pub(crate) struct Hooks(Mutex<HashMap<String, Seen>>);

/// What one start of a server lists.
#[derive(Debug, Clone, Default)]
struct Seen {
    run: u32,
    /// Input schemas by point; none where the server was never heard.
    listed: Option<HashMap<Point, Value>>,
}

/// The schema of a hook that a server lists, or why it can't be asked.
type Listing = Result<Value, String>;

/// One point to ask at.
pub(crate) struct Round<'a> {
    pub(crate) tools: &'a dyn Tools,
    pub(crate) standing: &'a Standing,
    pub(crate) hooks: &'a Hooks,
    pub(crate) spec: &'a JobSpec,
    pub(crate) lifecycle: &'a LifecycleSpec,
    pub(crate) point: Point,
    pub(crate) context: &'a Context,
    /// The value of `context.prompt`.
    pub(crate) prompt: Option<&'a Value>,
}

impl Round<'_> {
    /// Asks servers at the same time; answers in their order, without those that don't list the function.
    pub(crate) async fn ask(&self, servers: &[String]) -> (Vec<LifecycleAnswer>, Vec<Blob>) {
        let mut blobs = vec![];
        let asked = join_all(servers.iter().map(|server| self.ask_one(server))).await;
        let answers = asked
            .into_iter()
            .flatten()
            .map(|(answer, blob)| {
                blobs.extend(blob);
                answer
            })
            .collect();
        (answers, blobs)
    }

    /// Which servers there are to be asked, each with what its listing came to.
    pub(crate) async fn find<'s>(&self, servers: &'s [String]) -> Vec<(&'s String, Listing)> {
        let found = join_all(servers.iter().map(async |server| (server, self.listed(server).await))).await;
        found.into_iter().filter_map(|(server, listed)| Some((server, listed.transpose()?))).collect()
    }

    /// Asks servers that were found, at the same time; answers in their order.
    pub(crate) async fn ask_found(&self, found: Vec<(&String, Listing)>) -> (Vec<LifecycleAnswer>, Vec<Blob>) {
        let asked = join_all(found.into_iter().map(|(server, listed)| self.ask_listed(server, listed))).await;
        let (answers, blobs): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
        (answers, blobs.into_iter().flatten().collect())
    }

    async fn ask_one(&self, server: &str) -> Option<(LifecycleAnswer, Option<Blob>)> {
        let listed = self.listed(server).await.transpose()?;
        Some(self.ask_listed(server, listed).await)
    }

    async fn ask_listed(&self, server: &str, listed: Listing) -> (LifecycleAnswer, Option<Blob>) {
        let answer = |outcome, ms| LifecycleAnswer { server: server.to_owned(), outcome, ms };
        let failed = |why: &str| LifecycleOutcome::Failed { why: text::reason(Some(why), WHY_CHARS) };
        let schema = match listed {
            Ok(schema) => schema,
            Err(why) => return (answer(failed(&why), 0.0), None),
        };
        let run = self.run_of(server).1;
        let arguments = lifecycle::input(&schema, self.context, self.prompt, self.spec);
        let limit = Duration::from_millis(self.lifecycle.timeout_ms);
        let start = Instant::now();
        let name = FunctionName::new(server, self.point.function());
        let outcome = self.tools.call(&name, arguments, limit).await;
        let ms = ms_since(start);
        let mut blob = None;
        let outcome = match outcome {
            CallOutcome::Answered { result, .. } => {
                let (limit, window) = (self.spec.limits.lifecycle_bytes, self.spec.agent.context_window);
                let bytes = compaction::advice_limit(limit, window, self.lifecycle.servers.len());
                match lifecycle::text_of(&result, bytes) {
                    Ok(Some(said)) => {
                        let body = lifecycle::body(self.point, server, &said, bytes);
                        let (body, large) = Stored::new(Value::String(body));
                        blob = large;
                        LifecycleOutcome::Text { body }
                    }
                    Ok(None) => LifecycleOutcome::Nothing,
                    Err(why) => failed(&why),
                }
            }
            CallOutcome::RpcError { code, message, .. } => failed(&format!("error {code}: {message}")),
            CallOutcome::NotSent { why } | CallOutcome::Lost { why } => failed(&why),
            CallOutcome::TimedOut { .. } => {
                let killed = self.standing.timed_out(server, run) == Strike::Kill
                    && self.tools.kill(server, &self.why_killed()).await;
                LifecycleOutcome::TimedOut { after_ms: self.lifecycle.timeout_ms, killed }
            }
        };
        (answer(outcome, ms), blob)
    }

    fn why_killed(&self) -> String {
        format!(
            "it was killed: it did not answer {} within {}, the second time in a row",
            self.point.function(),
            text::duration(self.lifecycle.timeout_ms)
        )
    }

    /// Whether the server is connected, and which start of it runs.
    fn run_of(&self, server: &str) -> (bool, u32) {
        let status = self.tools.status();
        status.iter().find(|s| s.tool == server).map_or((false, 0), |s| (s.state == ToolState::Ready, s.starts))
    }

    /// The function's input schema, where the server lists the function. `Err`: it can't be asked, and may well list it.
    ///
    /// A server of which this process knows nothing yet is waited for, as a model's turn does; any other no longer than a hook may take.
    async fn listed(&self, server: &str) -> Result<Option<Value>, String> {
        let (ready, run) = self.run_of(server);
        let seen = self.hooks.of(server);
        if let Some(Seen { run: then, listed: Some(listed) }) = &seen
            && ready
            && *then == run
        {
            return Ok(listed.get(&self.point).cloned());
        }
        let before = seen.or_else(|| self.standing.seen(server));
        let listing = self.tools.functions(server);
        let functions = if before.is_none() && self.point != Point::SessionEnd {
            listing.await.map_err(|down| down.why)
        } else {
            let limit = self.lifecycle.timeout_ms;
            let late = |_| Err(format!("it did not list its functions within {}", text::duration(limit)));
            let listed = timeout(Duration::from_millis(limit), listing).await;
            listed.map_or_else(late, |listed| listed.map_err(|down| down.why))
        };
        let mut known = before.unwrap_or_default();
        let found = match functions {
            Ok(functions) => {
                let hooks: HashMap<Point, Value> = functions
                    .into_iter()
                    .filter_map(|f| Point::of_function(&f.name).map(|point| (point, f.input_schema)))
                    .collect();
                let schema = hooks.get(&self.point).cloned();
                known = Seen { run: self.run_of(server).1, listed: Some(hooks) };
                Ok(schema)
            }
            Err(why) => match &known.listed {
                // It lives, but is busy: what it listed before is as good.
                Some(listed) if ready && known.run == run => Ok(listed.get(&self.point).cloned()),
                // What an earlier start listed says whether it is worth a word.
                Some(listed) if !listed.contains_key(&self.point) => Ok(None),
                Some(_) | None => Err(why),
            },
        };
        self.standing.saw(server, known.clone());
        self.hooks.0.lock().unwrap_or_else(PoisonError::into_inner).insert(server.to_owned(), known);
        found
    }
}

impl Hooks {
    /// Those that this process saw last.
    pub(crate) fn of_process(standing: &Standing) -> Self {
        Self(Mutex::new(standing.all_seen()))
    }

    fn of(&self, server: &str) -> Option<Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(server).cloned()
    }
}

#[cfg(test)]
mod tests;
