//! A prompt: one job of its session (SPEC §1).
//!
//! Invariant: the prompt is answered after all of its job's updates.
//! Invariant: a session runs one prompt at a time.

use crate::door::Door;
use crate::handlers::answer;
use crate::session::{Busy, Session};
use crate::tell::{Tell, Weight};
use crate::{errors, telling, wire};
use agent_client_protocol::v1::schema::{PromptRequest, PromptResponse, SessionInfoUpdate, SessionUpdate, StopReason};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client, Error};
use hookwright_core::job::Outcome;
use hookwright_core::text::shown;
use hookwright_runtime::job::{End, Options, Which, run};
use hookwright_runtime::ports::sessions::SessionChange;
use hookwright_runtime::ports::tools::ToolState;
use hookwright_runtime::session;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// `session/prompt`: takes it, or says why not, at once.
pub(crate) fn take(
    door: &Arc<Door>,
    client: ConnectionTo<Client>,
    request: PromptRequest,
    responder: Responder<PromptResponse>,
) {
    let begun = door.session(&request.session_id.0).and_then(|session| {
        let text = wire::prompt_text(&request.prompt).map_err(errors::invalid_params)?;
        match session.begin() {
            Ok(cancel) => Ok((session, text, cancel)),
            Err(Busy::Prompt) => Err(errors::not_now(
                "a prompt of this session is under way: wait for its end, or cancel it with session/cancel",
            )),
            Err(Busy::Closing) => Err(errors::not_now("the session is being closed")),
        }
    });
    let (session, text, cancel) = match begun {
        Ok(begun) => begun,
        Err(error) => return answer(responder, Err(error)),
    };
    let prompt = Prompt { tell: door.tell(&client, &session.id), door: door.clone(), session, cancel };
    door.work.spawn(async move {
        // However it ends, the next prompt can be taken.
        let idle = Idle(prompt.session.clone(), prompt.cancel.clone());
        let cancellation = responder.cancellation();
        let result = {
            let mut work = std::pin::pin!(prompt.run(&text));
            tokio::select! {
                result = &mut work => result,
                () = cancellation.cancelled() => {
                    prompt.cancel.cancel();
                    work.await
                }
            }
        };
        // Before the answer: the client may send the next prompt as soon as it has read it.
        drop(idle);
        answer(responder, result);
    });
}

/// How long a prompt waits for the client's servers before it says so.
const SLOW: Duration = Duration::from_secs(1);

/// A prompt of a session, by its token.
struct Idle(Arc<Session>, CancellationToken);

impl Drop for Idle {
    fn drop(&mut self) {
        self.0.end(&self.1);
    }
}

struct Prompt {
    door: Arc<Door>,
    session: Arc<Session>,
    tell: Tell,
    cancel: CancellationToken,
}

impl Prompt {
    async fn run(&self, text: &str) -> Result<PromptResponse, Error> {
        let state = self.state().await?;
        self.title(text).await?;
        let order = crate::wiring::Order {
            session: &self.session.id,
            cwd: &self.session.cwd,
            equipment: &self.session.equipment,
            model: &self.session.model(),
            text,
            state: &state,
        };
        let ready = self.door.wiring.job(order).map_err(errors::invalid_params)?;
        drop(state);
        let job = ready.run.job.id.clone();
        let (observer, telling) =
            telling::of(self.door.clone(), self.session.clone(), self.tell.clone(), self.cancel.clone());
        let client = self.door.client_name();
        let cancelled_by = if client.is_empty() { self.door.wiring.say(false, None).by } else { client };
        let options = Options { detach: false, cancel: self.cancel.clone(), cancelled_by };
        // The observer goes with the run: then the telling ends.
        let runs = run(ready.deps, Which::New(Box::new(ready.run)), options, observer);
        let told = async { tokio::join!(runs, telling.run()).0 };
        let end = tokio::select! {
            end = told => end,
            never = self.slow_servers() => match never {},
        };
        self.touch().await;
        match end {
            Ok(End::Finished(outcome)) => Self::response(&job, &outcome),
            Ok(End::Detached) => Err(errors::failed(format!("job {job} was left waiting"))),
            Err(error) => {
                let mut error = errors::of_run(&error);
                error.message = format!("{} (job {job}; `hookwright jobs show {job}` tells more)", error.message);
                Err(error)
            }
        }
    }

    /// Where the session stands. A job that an earlier process left unfinished is ended first.
    async fn state(&self) -> Result<session::SessionState, Error> {
        let store = self.door.wiring.store();
        let state = session::state(&*store, &self.session.id).await.map_err(|e| errors::of_run(&e))?;
        let Some(left) = state.unfinished else { return Ok(state) };
        if left.running {
            return Err(errors::not_now(format!(
                "another process runs job {} of this session: wait for its end, or `hookwright jobs cancel {}`",
                left.job.id, left.job.id
            )));
        }
        self.door.wiring.end_left(&left.job.id).await.map_err(errors::not_now)?;
        let title = format!("Job {} was left unfinished, and is cancelled now", left.job.id);
        self.tell.notice(Weight::Info, &title, None, json!({"job": left.job.id, "state": "cancelled"}));
        session::state(&*store, &self.session.id).await.map_err(|e| errors::of_run(&e))
    }

    /// The first prompt gives the session its title.
    async fn title(&self, text: &str) -> Result<(), Error> {
        let first = self.session.take_untitled();
        let title = first.then(|| wire::title_of(text));
        let at_ms = self.door.wiring.clock().now_ms();
        let change = SessionChange { title: title.clone(), closed_ms: Some(None), at_ms, ..SessionChange::default() };
        let stored = self.door.wiring.store().change_session(&self.session.id, change).await;
        stored.map_err(|e| errors::of_store(&e))?;
        if let Some(title) = title {
            let info = SessionInfoUpdate::new().title(title).updated_at(wire::time(at_ms));
            self.tell.update(SessionUpdate::SessionInfoUpdate(info));
        }
        Ok(())
    }

    /// Says which of the client's servers are still starting, where the prompt waits for them.
    async fn slow_servers(&self) -> Infallible {
        tokio::time::sleep(SLOW).await;
        let status = self.session.equipment.tools.status();
        let starting = |tool: &str| status.iter().any(|s| s.tool == tool && s.state == ToolState::Starting);
        for server in self.session.equipment.own.iter().filter(|s| s.from_client && starting(&s.tool)) {
            let name = shown(&server.name, 200);
            let title = format!("The MCP server {name} is still starting: the model's turn waits for it");
            let details = json!({"server": name, "tool": server.tool, "state": "starting"});
            self.tell.notice(Weight::Info, &title, None, details);
        }
        std::future::pending().await
    }

    async fn touch(&self) {
        let at_ms = self.door.wiring.clock().now_ms();
        let change = SessionChange { at_ms, ..SessionChange::default() };
        // The list's order is no reason to fail a prompt.
        let _ = self.door.wiring.store().change_session(&self.session.id, change).await;
    }

    fn response(job: &str, outcome: &Outcome) -> Result<PromptResponse, Error> {
        let (reason, word) = match outcome {
            Outcome::Completed { .. } => (StopReason::EndTurn, "completed"),
            Outcome::Cancelled { .. } => (StopReason::Cancelled, "cancelled"),
            Outcome::Failed { error } => match error.kind.as_str() {
                // Not `refusal`: clients take back the prompt then, and say that the model refused.
                "HookDenied" => (StopReason::EndTurn, "HookDenied"),
                "MaxTokens" => (StopReason::MaxTokens, "MaxTokens"),
                "MaxTurns" => (StopReason::MaxTurnRequests, "MaxTurns"),
                "Refused" => (StopReason::Refusal, "Refused"),
                _ => {
                    let data = json!({"job": job, "type": error.kind});
                    return Err(errors::failed(error.message.clone()).data(data));
                }
            },
        };
        Ok(PromptResponse::new(reason).meta(wire::meta(json!({"job": job, "outcome": word}))))
    }
}
