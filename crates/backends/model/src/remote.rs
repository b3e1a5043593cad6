//! A model that is asked over HTTP: one request per attempt, a stream for an answer, and patience where it helps.
//!
//! Invariant: attempts are bounded in number, each in time without a sign of life, in time at all, and in bytes.
//! Invariant: the turn that is returned is one attempt's alone; text that an attempt before it streamed is not in it.

mod failure;
mod http;
mod retry;
mod sse;
mod window;

use crate::options::Options;
use crate::settings::{Provider, Settings};
use crate::wire::{Ask, Draft, Flow, Ids, Names, StreamError, Wire, parse_arguments};
use failure::{Asked, Failure};
use hookwright_core::message::StopReason;
use hookwright_core::text::duration;
use hookwright_runtime::ports::model::{Model, ModelError, Turn, TurnCall, TurnRequest, TurnSink};
use reqwest::header::HeaderMap;
use reqwest::{Client, Response, Url};
use sse::Sse;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// How much of an error's body is read.
const ERROR_BYTES: usize = 64 * 1024;

/// How long a turn that is whole waits for the end of its stream.
const AFTERWARDS: Duration = Duration::from_secs(5);

/// A model at a provider.
pub(crate) struct Remote {
    label: String,
    model: String,
    provider: &'static Provider,
    settings: Settings,
    options: Options,
    client: Client,
    url: Url,
    headers: HeaderMap,
    /// Whether encrypted reasoning is asked for; given up for good once the model refuses.
    reasoning: AtomicBool,
}

impl Remote {
    pub(crate) fn new(
        provider: &'static Provider,
        model: &str,
        settings: Settings,
        options: Options,
    ) -> Result<Self, ModelError> {
        let label = format!("{}/{model}", provider.id);
        let wire = provider.wire;
        Ok(Self {
            client: http::client(&settings, &options, &label)?,
            url: http::url(&settings, wire, model)?,
            headers: http::headers(&settings, wire, &label)?,
            reasoning: AtomicBool::new(wire == Wire::Responses && reasons(model)),
            model: model.to_owned(),
            label,
            provider,
            settings,
            options,
        })
    }

    fn asked(&self) -> Asked<'_> {
        Asked { label: &self.label, provider: self.provider.id, settings: &self.settings }
    }

    fn body(&self, request: TurnRequest<'_>, names: &Names) -> Result<Vec<u8>, ModelError> {
        let ask = Ask { model: &self.model, request, names, reasoning: self.reasoning.load(Ordering::Relaxed) };
        let body = self.provider.wire.body(&ask)?;
        serde_json::to_vec(&body)
            .map_err(|e| ModelError::Config(format!("{}: the request is no JSON: {e}", self.label)))
    }

    /// One request. `streamed` counts the bytes of text that reached the sink.
    async fn attempt(&self, body: Vec<u8>, sink: &dyn TurnSink, streamed: &mut u64) -> Result<Draft, Failure> {
        let deadline = after(self.options.attempt);
        let send = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body).send();
        let response = match timeout(self.options.idle.min(self.options.attempt), send).await {
            Ok(sent) => sent.map_err(|e| self.asked().connection(&e.without_url()))?,
            Err(_) => return Err(self.silent("did not answer", self.options.idle)),
        };
        let status = response.status().as_u16();
        if !(200..300).contains(&status) {
            let headers = response.headers().clone();
            let body = self.error_body(response, deadline).await;
            return Err(self.asked().status(status, &headers, &body));
        }
        let kind = response.headers().get("content-type").and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        if kind.starts_with("application/json") || kind.starts_with("text/html") {
            let body = self.error_body(response, deadline).await;
            return Err(self.no_stream(&kind, &body));
        }
        self.read(response, deadline, sink, streamed).await
    }

    async fn read(
        &self,
        mut response: Response,
        deadline: Instant,
        sink: &dyn TurnSink,
        streamed: &mut u64,
    ) -> Result<Draft, Failure> {
        let mut decoder = self.provider.wire.decoder();
        let mut sse = Sse::default();
        let mut bytes: u64 = 0;
        let mut text = |piece: &str| {
            if !piece.is_empty() {
                *streamed += piece.len() as u64;
                sink.text(piece);
            }
        };
        loop {
            // A turn that is whole waits only for what may still follow it, such as the tokens.
            let idle = if decoder.is_complete() { self.options.idle.min(AFTERWARDS) } else { self.options.idle };
            let quiet = after(idle);
            let chunk = match timeout_at(quiet.min(deadline), response.chunk()).await {
                Ok(Ok(chunk)) => chunk,
                // The turn is whole; how the connection then ends is of no interest.
                Ok(Err(_)) | Err(_) if decoder.is_complete() => return Ok(decoder.finish()),
                Ok(Err(e)) => return Err(self.asked().connection(&e.without_url())),
                Err(_) if quiet <= deadline => return Err(self.silent("stopped sending", self.options.idle)),
                Err(_) => return Err(self.silent("was not done", self.options.attempt)),
            };
            let mut take = |event: crate::wire::Event<'_>| decoder.event(event, &mut text);
            let flow = match &chunk {
                Some(chunk) => {
                    bytes = bytes.saturating_add(chunk.len() as u64);
                    if bytes > self.options.max_response_bytes {
                        return Err(Failure::Final(ModelError::Malformed(format!(
                            "{}: the answer is longer than {} bytes",
                            self.label, self.options.max_response_bytes
                        ))));
                    }
                    sse.push(chunk, &mut take)
                }
                None => sse.end(&mut take),
            };
            match (flow, chunk.is_some()) {
                (Ok(Flow::Done), _) => return Ok(decoder.finish()),
                (Ok(Flow::More), true) => {}
                (_, false) if decoder.is_complete() => return Ok(decoder.finish()),
                // What stands last in a stream that broke off is as likely cut as wrong.
                (Ok(Flow::More) | Err(StreamError::Malformed(_)), false) => {
                    return Err(self.asked().stream(StreamError::Again("the answer broke off before its end".into())));
                }
                (Err(error), _) => return Err(self.asked().stream(error)),
            }
        }
    }

    async fn error_body(&self, mut response: Response, deadline: Instant) -> Vec<u8> {
        let mut body = Vec::new();
        let limit = deadline.min(after(self.options.idle.min(Duration::from_secs(10))));
        while let Ok(Ok(Some(chunk))) = timeout_at(limit, response.chunk()).await {
            body.extend_from_slice(&chunk);
            if body.len() >= ERROR_BYTES {
                body.truncate(ERROR_BYTES);
                break;
            }
        }
        body
    }

    /// An answer that is a success and no stream: an error in disguise, or no such API at all.
    fn no_stream(&self, kind: &str, body: &[u8]) -> Failure {
        if kind.starts_with("application/json")
            && let Ok(value) = serde_json::from_slice::<serde_json::Value>(body)
            && value.get("error").is_some_and(|e| !e.is_null())
        {
            return self.asked().stream(crate::wire::reported(&value));
        }
        let kind = crate::secret::quote(kind, self.settings.secret(), 80);
        Failure::Final(ModelError::Malformed(format!(
            "{}: {} answered {kind} and no event stream; does {} lead to an API of this kind?",
            self.label,
            self.settings.host(),
            self.settings.base_variable
        )))
    }

    fn silent(&self, what: &str, limit: Duration) -> Failure {
        let limit = duration(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        Failure::Passing {
            what: format!("{}: {} {what} within {limit}", self.label, self.settings.host()),
            after: None,
        }
    }

    fn turn(draft: Draft, request: TurnRequest<'_>, names: &Names) -> Turn {
        let mut ids = Ids::of(request.messages);
        let mut calls: Vec<TurnCall> = draft
            .calls
            .into_iter()
            .map(|call| TurnCall {
                provider_id: ids.take(&call.id),
                tool: names.full(&call.name),
                arguments: parse_arguments(&call.arguments),
            })
            .collect();
        let stop = match draft.stop {
            // Nothing of a refused answer is acted on.
            StopReason::Refusal => {
                calls.clear();
                StopReason::Refusal
            }
            // What was cut off may be cut off in a call: whoever gets this turn makes none of them.
            StopReason::MaxTokens => StopReason::MaxTokens,
            StopReason::EndTurn | StopReason::ToolCalls if calls.is_empty() => StopReason::EndTurn,
            StopReason::EndTurn | StopReason::ToolCalls => StopReason::ToolCalls,
        };
        let text = Some(draft.text).filter(|t| !t.is_empty());
        Turn { text, calls, stop, usage: draft.usage, provider_state: draft.state }
    }
}

/// Whether a model of OpenAI's (or of another server of this API) is asked for its encrypted reasoning.
/// Models that don't reason refuse the wish; one that is guessed wrongly is asked again without it.
fn reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    !(name.starts_with("gpt-4") || name.starts_with("gpt-3") || name.starts_with("chatgpt") || name.contains("-chat"))
}

#[async_trait::async_trait]
impl Model for Remote {
    async fn turn(&self, request: TurnRequest<'_>, sink: &dyn TurnSink) -> Result<Turn, ModelError> {
        let names = Names::new(request.functions);
        let seed = format!("{}/{}", request.job, request.turn);
        let policy = &self.options.retry;
        let most = policy.attempts.max(1);
        let mut body = self.body(request, &names)?;
        let mut attempt = 1;
        loop {
            let mut streamed = 0;
            let failure = match self.attempt(body.clone(), sink, &mut streamed).await {
                Ok(draft) => return Ok(Self::turn(draft, request, &names)),
                Err(failure) => failure,
            };
            let (what, after) = match failure {
                Failure::Final(error) => return Err(error),
                Failure::NoReasoning if self.reasoning.swap(false, Ordering::Relaxed) => {
                    body = self.body(request, &names)?;
                    continue;
                }
                Failure::NoReasoning => {
                    return Err(ModelError::Refused(format!("{}: encrypted content is not supported", self.label)));
                }
                Failure::Passing { what, after } => (what, after),
            };
            if attempt >= most {
                let times = if attempt == 1 { "1 attempt".to_owned() } else { format!("{attempt} attempts") };
                return Err(ModelError::Unavailable(format!("{what}; given up after {times}")));
            }
            if let Some(asked) = after.filter(|a| *a > policy.longest_asked) {
                return Err(ModelError::Unavailable(format!(
                    "{what}; it asks to wait {}, which is longer than the {} that are waited at most",
                    whole_seconds(asked),
                    whole_seconds(policy.longest_asked)
                )));
            }
            let wait = after.map_or_else(|| policy.wait(attempt, &seed), |asked| asked.max(policy.first));
            attempt += 1;
            let again = if streamed == 0 {
                ""
            } else {
                "; what it said of this turn so far does not count, the turn starts anew"
            };
            sink.notice(&format!(
                "{what}; asking again in {} (attempt {attempt} of {most}){again}",
                whole_seconds(wait)
            ));
            tokio::time::sleep(wait).await;
        }
    }

    async fn window(&self) -> Option<u64> {
        self.ask_window().await
    }

    fn label(&self) -> String {
        self.label.clone()
    }

    fn is_scripted(&self) -> bool {
        false
    }
}

/// The moment a while from now; a year stands for more, since no moment is that far away.
fn after(wait: Duration) -> Instant {
    Instant::now() + wait.min(Duration::from_hours(365 * 24))
}

/// A wait as people read it: tenths of a second below ten, else whole seconds.
fn whole_seconds(wait: Duration) -> String {
    let seconds = wait.as_secs_f64();
    if seconds < 10.0 { format!("{seconds:.1}s") } else { format!("{seconds:.0}s") }
}
