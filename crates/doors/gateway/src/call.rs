//! `tools/call`: one call through the session's job.
//!
//! Invariant: what the client reads of a call that was not made, or whose result is withheld, is the exact sentence of the job.

use crate::flight::{AtDesk, Flight};
use crate::gateway::Deciders;
use crate::job::Job;
use crate::session::{Session, UnderWay, lock};
use crate::telling::Telling;
use crate::way::Way;
use crate::wire::{self, Fault, Request};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use hookwright_core::approval::{self, Sheet};
use hookwright_core::call::raw_result;
use hookwright_core::job::AsksThere;
use hookwright_core::{FunctionName, json, text};
use hookwright_runtime::approvals::{self, Decided};
use hookwright_runtime::outside::{CallNews, CallRequest, Left, Stand};
use hookwright_runtime::ports::tools::PeerError;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a client is told that a person is awaited.
const TICK: Duration = Duration::from_secs(5);
/// Calls that wait for what a client was asked, and how long they do.
const PARKED: usize = 64;
const PARKED_FOR: Duration = Duration::from_mins(10);
/// The key of the question whether an approval is given, and how the state begins that comes back with the answer.
const APPROVAL: &str = "approval";
const APPROVAL_STATE: &str = "approval:";

/// What a request gets: a result, or nothing because it was cancelled.
pub(crate) type Outcome = Result<Option<Map<String, Value>>, Fault>;

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(rename = "_meta", default)]
    meta: Option<Map<String, Value>>,
    #[serde(rename = "inputResponses", default)]
    responses: Option<Map<String, Value>>,
    #[serde(rename = "requestState", default)]
    state: Option<String>,
}

/// One request that waits for a call.
struct Visit<'a> {
    session: &'a Arc<Session>,
    job: Arc<Job>,
    under_way: &'a UnderWay,
    way: &'a Way,
    telling: Telling,
    /// Until when a person is awaited.
    end: Instant,
    /// The approval that the client was shown already.
    shown: Option<String>,
    /// What this request's client can; another request of the session may come from another.
    capabilities: Map<String, Value>,
}

pub(crate) async fn call(session: &Arc<Session>, request: &Request, under_way: &UnderWay, way: &Way) -> Outcome {
    let Some(raw) = &request.params else { return Err(Fault::new(wire::INVALID_PARAMS, "a call needs a name")) };
    let params: Params<'_> = serde_json::from_str(raw.get())
        .map_err(|e| Fault::new(wire::INVALID_PARAMS, format!("params can't be read: {e}")))?;
    let tool = session.full_name(&params.name).await;
    let (arguments, fault) = arguments(params.arguments);
    let meta = params.meta.unwrap_or_default();
    let telling = Telling::new(meta.get("progressToken").cloned(), way);
    let mut visit = Visit {
        session,
        job: session.job(),
        under_way,
        way,
        telling,
        end: Instant::now() + session.gateway.options.wait,
        shown: None,
        capabilities: if session.modern {
            wire::meta(Some(raw)).capabilities.unwrap_or_default()
        } else {
            session.capabilities.clone()
        },
    };
    let digest = json::digest(&arguments);
    let done = match params.state {
        Some(state) if !state.starts_with(APPROVAL_STATE) => {
            let flight = visit.resumed(&state, params.responses.unwrap_or_default(), (&tool, &digest))?;
            visit.attend(flight).await
        }
        state => {
            if let Some(approval) = state.as_deref().and_then(|state| state.strip_prefix(APPROVAL_STATE)) {
                visit.shown = Some(approval.to_owned());
                visit.decide(approval, params.responses.as_ref()).await;
            }
            if let Some(over) = visit.admitted(&tool).await {
                return over;
            }
            let name = FunctionName::parse(&tool).ok();
            let watched = name.as_ref().is_none_or(|name| session.is_watched(name));
            if !watched {
                visit.telling.unwatched();
            } else if let Some(name) = &name {
                session.desk.watch(name.tool());
            }
            let logs = !session.modern || wire::meta(Some(raw)).log_level.is_some();
            let opened = session.desk.open(name.as_ref().map_or("", |name| name.tool()), way.clone(), logs && !watched);
            let at_desk = AtDesk::new(session.desk.clone(), opened);
            let asked = visit
                .job
                .outside
                .call(CallRequest {
                    provider_id: request.id.text().trim_matches('"').to_owned(),
                    tool: tool.clone(),
                    aliases: vec![],
                    arguments,
                    fault,
                    progress: visit.telling.sink(),
                    asks_there: AsksThere::No,
                })
                .await;
            let Ok(asked) = asked else {
                return Ok(Some(not_made(&tool, &visit.job.why())));
            };
            let job = visit.job.clone();
            visit.attend(Flight::new((tool, digest), asked, at_desk, job)).await
        }
    };
    visit.telling.end();
    done
}

/// A call's arguments, and what is wrong with them.
fn arguments(raw: Option<&RawValue>) -> (Value, Option<String>) {
    let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return (json!({}), None) };
    match json::parse_strict(raw.get()) {
        Ok(value @ Value::Object(_)) => (value, None),
        Ok(other) => (other, Some("its arguments are not a JSON object".to_owned())),
        Err(e) => {
            (Value::String(raw.get().chars().take(10_000).collect()), Some(format!("its arguments can't be read: {e}")))
        }
    }
}

pub(crate) fn error_result(text: &str) -> Map<String, Value> {
    Map::from_iter([
        ("content".to_owned(), json!([{"type": "text", "text": text}])),
        ("isError".to_owned(), Value::Bool(true)),
    ])
}

fn not_made(tool: &str, why: &str) -> Map<String, Value> {
    error_result(&format!("The call to {} was not made: {why}.", text::shown(tool, 200)))
}

fn result(news: CallNews) -> Map<String, Value> {
    match news {
        CallNews::NotMade(text) | CallNews::Withheld(text) => error_result(&text),
        CallNews::Result { content, structured, rest, is_error, .. } => {
            match raw_result(&content, structured.as_deref(), rest.as_deref(), is_error) {
                Value::Object(result) => result,
                other => error_result(&other.to_string()),
            }
        }
        // Only agents that make their calls themselves are told so.
        CallNews::Make { .. } => error_result("the call was not made"),
    }
}

impl Visit<'_> {
    fn shown(tool: &str) -> String {
        text::shown(tool, 200)
    }

    fn waited(&self) -> String {
        let ms = u64::try_from(self.session.gateway.options.wait.as_millis()).unwrap_or(u64::MAX);
        text::duration(ms)
    }

    /// Waits until the session's job takes calls; what to answer where it does not.
    async fn admitted(&self, tool: &str) -> Option<Outcome> {
        let mut changes = self.job.watch.changes();
        let mut tick = tokio::time::interval_at(Instant::now() + TICK, TICK);
        loop {
            if matches!(self.job.outside.stand(), Stand::Admitted(_)) {
                return None;
            }
            let waiting = self.job.watch.of("");
            tokio::select! {
                biased;
                stand = self.job.outside.admitted() => return match stand {
                    Ok(Stand::Admitted(_)) => None,
                    Ok(_) | Err(_) => Some(Ok(Some(not_made(tool, &self.job.why())))),
                },
                _ = changes.changed() => {}
                _ = tick.tick() => self.telling.tick(waiting.map(|w| w.line()).as_deref()),
                () = tokio::time::sleep_until(self.end), if waiting.is_some() => {
                    if let Some(waiting) = waiting {
                        let show = self.session.gateway.wiring.show_command(&waiting.approval.id);
                        return Some(Ok(Some(error_result(&waiting.left(&Self::shown(tool), &self.waited(), &show)))));
                    }
                }
                () = self.under_way.token.cancelled() => return Some(Ok(None)),
            }
        }
    }

    /// Waits with a call until there is something to answer.
    async fn attend(&self, mut flight: Flight) -> Outcome {
        let mut changes = self.job.watch.changes();
        let mut tick = tokio::time::interval_at(Instant::now() + TICK, TICK);
        let mut answering = FuturesUnordered::new();
        let mut told: Option<String> = None;
        loop {
            let waiting = self.job.watch.of(&flight.call);
            if let Some(waiting) = &waiting {
                let id = &waiting.approval.id;
                if told.as_ref() != Some(id) {
                    told = Some(id.clone());
                    self.telling.tick(Some(&waiting.line()));
                }
                let show = self.can_show() && self.shown.as_ref() != Some(id);
                if show || Instant::now() >= self.end {
                    match self.job.outside.leave_call(&flight.call).await {
                        Ok(Left::Waits { .. }) => {
                            flight.disarm();
                            return Ok(Some(if show {
                                self.question(&flight, waiting)
                            } else {
                                self.left(&flight, waiting)
                            }));
                        }
                        Ok(Left::Not) => self.job.watch.forget(&flight.call),
                        Err(_) => {
                            flight.disarm();
                            return Ok(Some(self.broken_off(&flight)));
                        }
                    }
                    if let Ok(news) = flight.news.try_recv() {
                        flight.disarm();
                        return Ok(Some(result(news)));
                    }
                    continue;
                }
            }
            tokio::select! {
                biased;
                () = self.under_way.token.cancelled() => {
                    flight.cancel().await;
                    return Ok(None);
                }
                news = &mut flight.news => {
                    flight.disarm();
                    return Ok(Some(match news {
                        Ok(news) => result(news),
                        Err(_) => self.broken_off(&flight),
                    }));
                }
                Some(ask) = flight.at_desk.asks.recv() => {
                    if self.session.modern {
                        // Its session's servers were told what the first request's client can.
                        let capability = ask.method.split('/').next().unwrap_or_default();
                        if !self.can(capability) {
                            let message = format!("the client that made this call has no {capability}");
                            let _ = ask.answer.send(Err(PeerError { code: wire::METHOD_NOT_FOUND, message, data: None }));
                            continue;
                        }
                        return self.required(flight, ask);
                    }
                    answering.push(async move {
                        let said = self.session.desk.ask_over(self.way, &ask.method, &ask.params).await;
                        let _ = ask.answer.send(said);
                    });
                }
                Some(()) = answering.next(), if !answering.is_empty() => {}
                _ = changes.changed() => {}
                _ = tick.tick(), if waiting.is_some() => self.telling.tick(waiting.map(|w| w.line()).as_deref()),
                () = tokio::time::sleep_until(self.end), if waiting.is_some() => {}
            }
        }
    }

    fn broken_off(&self, flight: &Flight) -> Map<String, Value> {
        let tool = Self::shown(&flight.tool);
        error_result(&format!("It is not known whether the call to {tool} was made: {}.", self.job.why()))
    }

    fn left(&self, flight: &Flight, waiting: &crate::approvals::Waiting) -> Map<String, Value> {
        let show = self.session.gateway.wiring.show_command(&waiting.approval.id);
        error_result(&waiting.left(&Self::shown(&flight.tool), &self.waited(), &show))
    }

    fn can(&self, capability: &str) -> bool {
        self.capabilities.get(capability).is_some_and(Value::is_object)
    }

    /// Whether the client can show a question to its user.
    fn can_show(&self) -> bool {
        self.session.modern && self.can("elicitation")
    }

    /// Asks the client's user about an approval (revision 2026-07-28).
    fn question(&self, flight: &Flight, waiting: &crate::approvals::Waiting) -> Map<String, Value> {
        let id = &waiting.approval.id;
        let show = self.session.gateway.wiring.show_command(id);
        let sheet = waiting.question(&Self::shown(&flight.tool), &show);
        let decisions = self.decisions(waiting, &sheet);
        let then = match decisions {
            ["approve", ..] => String::new(),
            [] => format!("\n\nIt is decided elsewhere ({show}); go on here when it was."),
            _ => format!(
                "\n\nIt is too long to be shown here whole, so it can be declined here, but not approved. See it whole with `{show}`, \
                 approve it there, and go on here when it was."
            ),
        };
        let message = sheet.text + &then;
        let decision = json!({"type": "string", "title": "Decision", "enum": decisions});
        let schema = match decisions {
            [] => json!({"type": "object", "properties": {}}),
            ["approve", ..] => {
                json!({"type": "object", "required": ["decision"], "properties": {"decision": decision}})
            }
            _ => json!({"type": "object", "properties": {"decision": decision}}),
        };
        let ask = json!({"method": "elicitation/create", "params": {
            "mode": "form", "message": message, "requestedSchema": schema,
        }});
        Map::from_iter([
            ("resultType".to_owned(), "input_required".into()),
            ("inputRequests".to_owned(), json!({APPROVAL: ask})),
            ("requestState".to_owned(), format!("{APPROVAL_STATE}{id}").into()),
        ])
    }

    /// What the client's user may say to a question that was shown so.
    fn decisions(&self, waiting: &crate::approvals::Waiting, sheet: &Sheet) -> &'static [&'static str] {
        let gateway = &self.session.gateway;
        if gateway.options.deciders != Deciders::Client || !waiting.approval.may_decide(&gateway.wiring.say(true).by) {
            return &[];
        }
        if sheet.whole { &["approve", "decline"] } else { &["decline"] }
    }

    /// The client's user has answered.
    async fn decide(&self, approval: &str, responses: Option<&Map<String, Value>>) {
        let Some(answer) = responses.and_then(|responses| responses.get(APPROVAL)) else { return };
        if self.session.gateway.options.deciders != Deciders::Client || answer["action"] != "accept" {
            return;
        }
        let wiring = &self.session.gateway.wiring;
        let said = &answer["content"]["decision"];
        // What was not offered decides nothing, whatever the client says.
        let offered = self.job.watch.by_id(approval).map_or(&[][..], |waiting| {
            self.decisions(&waiting, &approval::sheet(&waiting.approval, &wiring.show_command(approval)))
        });
        let Some(said) = offered.iter().find(|offered| said == **offered) else { return };
        let approve = *said == "approve";
        let store = wiring.store();
        let decided = async {
            let row = store.approval(approval).await?;
            // An approval of another job is none of this client's business.
            if row.job != self.session.spec.job {
                return Ok(Decided::Mismatch("it is of another job".to_owned()));
            }
            approvals::decide(&*store, &*wiring.clock(), &row, wiring.say(approve)).await
        };
        match decided.await {
            Ok(Decided::Counted) => {}
            Ok(other) => tracing::warn!(approval, "the client's answer does not count: {other:?}"),
            Err(error) => tracing::warn!(approval, "the client's answer could not be stored: {error}"),
        }
    }

    /// The client is to bring what the call's server asks for (revision 2026-07-28); the call waits for it.
    fn required(&self, mut flight: Flight, ask: crate::desk::Ask) -> Outcome {
        let mut asks = vec![ask];
        while let Ok(more) = flight.at_desk.asks.try_recv() {
            asks.push(more);
        }
        let mut requests = Map::new();
        for ask in asks {
            let key = format!("input-{}", flight.open.len() + 1);
            requests.insert(key.clone(), json!({"method": ask.method, "params": ask.params}));
            flight.open.push((key, ask));
        }
        let state = uuid::Uuid::new_v4().simple().to_string();
        self.session.desk.turn(flight.desk_id(), None);
        flight.since = Instant::now();
        let mut parked = lock(&self.session.parked);
        parked.retain(|_, flight| flight.since.elapsed() < PARKED_FOR);
        if parked.len() >= PARKED {
            return Err(Fault::new(wire::BUSY, format!("{PARKED} calls wait for input that was not brought")));
        }
        parked.insert(state.clone(), flight);
        Ok(Some(Map::from_iter([
            ("resultType".to_owned(), "input_required".into()),
            ("inputRequests".to_owned(), Value::Object(requests)),
            ("requestState".to_owned(), state.into()),
        ])))
    }

    /// A call that waited for input goes on with it.
    fn resumed(
        &self,
        state: &str,
        mut responses: Map<String, Value>,
        (tool, arguments): (&str, &str),
    ) -> Result<Flight, Fault> {
        let mut parked = lock(&self.session.parked);
        let unknown = || Fault::new(wire::INVALID_PARAMS, "no call waits with this requestState (any more)");
        let flight = parked.get(state).ok_or_else(unknown)?;
        if flight.tool != tool || flight.arguments != arguments {
            return Err(Fault::new(wire::INVALID_PARAMS, "this requestState belongs to another call"));
        }
        let mut flight = parked.remove(state).ok_or_else(unknown)?;
        self.session.desk.turn(flight.desk_id(), Some(self.way.clone()));
        for (key, ask) in flight.open.drain(..) {
            let said = responses.shift_remove(&key).ok_or(PeerError {
                code: wire::INVALID_PARAMS,
                message: "the client did not bring this".to_owned(),
                data: None,
            });
            let _ = ask.answer.send(said);
        }
        Ok(flight)
    }
}
