//! Tells the client how a job goes: its records become the session's updates.
//!
//! Invariant: a result is shown only once the hooks after the call have let it through; an output, once those at the job's end have.
//! Invariant: what a call came to is read from the core's own machine, which is fed the same records.

mod compaction;
mod outcomes;

pub(crate) use outcomes::answer_notice;

use crate::tell::{Tell, Weight};
use crate::wire;
use agent_client_protocol::v1::schema::{
    SessionUpdate, ToolCall, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, UsageUpdate,
};
use hookwright_core::history::Record;
use hookwright_core::job::{Command, Fact, Machine, Outcome, RequestedCall};
use hookwright_core::lifecycle::{Point, Skip};
use hookwright_core::message::StopReason;
use hookwright_core::stored::Stored;
use hookwright_core::subagent::child_job;
use hookwright_core::text::escape;
use hookwright_runtime::values::Values;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Where a subagent's job stands.
pub(crate) struct Within {
    /// Its agent, escaped.
    pub(crate) agent: String,
    /// The client's id of the call that started it.
    pub(crate) call: Option<String>,
}

/// Tells one job. Of a subagent's all is told but its text: what it says is the result of the call that started it.
pub(crate) struct Teller {
    pub(crate) tell: Tell,
    values: Values,
    cwd: String,
    within: Option<Within>,
    /// Tokens of the model's window, where that is known.
    window: Option<u64>,
    machine: Option<Machine>,
    job: String,
    turn: u32,
    /// Whether this turn's text was streamed.
    streamed: bool,
    /// This turn's text, where it may be the output and was held back.
    held: Option<Stored>,
    /// A text that was held back and objected to, with its message's id: it may be the output until another one stands.
    objected: Option<(String, Stored)>,
    /// Calls of this turn that are not over, with their arguments as the client knows them.
    open: HashMap<String, Stored>,
    /// Arguments as hooks left them, by digest: the beginning of a call names them only.
    changed: HashMap<String, Stored>,
    /// The hook of each ask under way.
    asked: HashMap<String, outcomes::Asked>,
    /// The compaction under way.
    compaction: Option<String>,
}

impl Teller {
    pub(crate) fn new(tell: Tell, values: Values, cwd: String, within: Option<Within>) -> Self {
        Self {
            tell,
            values,
            cwd,
            within,
            window: None,
            machine: None,
            job: String::new(),
            turn: 0,
            streamed: false,
            held: None,
            objected: None,
            open: HashMap::new(),
            changed: HashMap::new(),
            asked: HashMap::new(),
            compaction: None,
        }
    }

    /// Knows what was recorded before; nothing of it is told.
    pub(crate) fn catch_up(&mut self, records: &[Record]) {
        for record in records {
            self.know(record);
            if let Fact::Begun { command: Command::CallModel { turn, .. } } = &record.fact {
                self.turn = *turn;
            }
        }
    }

    fn know(&mut self, record: &Record) {
        if let Fact::Started { spec } = &record.fact {
            self.job.clone_from(&spec.job);
            self.window = spec.agent.context_window;
            self.machine = Machine::new((**spec).clone()).ok().map(|(machine, _)| machine);
        } else if let Some(machine) = &mut self.machine {
            // The runtime's own machine has taken it already.
            let _ = machine.handle(record.at_ms, &record.fact);
        }
    }

    /// The client's id of the call that started a job.
    pub(crate) fn call_that_started(&self, job: &str) -> Option<String> {
        self.open.keys().find(|call| child_job(&self.job, call) == job).map(|call| self.id(call))
    }

    /// A call started a job.
    pub(crate) fn started(&self, call: &str, agent: &str, job: &str) {
        let what = format!("{} works as {}", escape(agent), escape(job));
        let fields = ToolCallUpdateFields::new().content(vec![wire::text_content(&what)]);
        let meta = wire::meta(json!({"agent": agent, "job": job}));
        self.tell.call_update(ToolCallUpdate::new(call.to_owned(), fields).meta(meta));
    }

    /// Something that the user should know.
    fn note(&self, weight: Weight, title: &str, description: Option<&str>, mut details: Value) {
        match &self.within {
            None => self.tell.notice(weight, title, description, details),
            Some(within) => {
                details["agent"] = json!(within.agent);
                details["parentToolCallId"] = json!(within.call);
                self.tell.notice(weight, &format!("{}: {title}", within.agent), description, details);
            }
        }
    }

    /// The client's id of a call (or of another effect's place) of this job.
    pub(crate) fn id(&self, place: &str) -> String {
        format!("{}/{place}", self.job)
    }

    fn message_id(&self) -> String {
        format!("{}.t{}", self.job, self.turn)
    }

    /// A piece of the model's text.
    pub(crate) fn text(&mut self, piece: &str) {
        self.streamed = true;
        self.tell.message(&self.message_id(), piece);
    }

    /// Something that is no record.
    pub(crate) fn notice(&self, what: &str) {
        self.note(Weight::Info, "Hookwright", Some(what), json!({"job": self.job}));
    }

    /// A record that is durable.
    pub(crate) async fn record(&mut self, record: &Record) {
        self.know(record);
        match &record.fact {
            // Those of a subagent are its parent's too.
            Fact::Started { .. } if self.within.is_none() => self.unavailable(),
            Fact::Begun { command } => self.begun(command).await,
            Fact::ModelAnswered { .. } => self.answered(&record.fact).await,
            Fact::HookAnswered { effect, outcome, ms, .. } => self.hook_answered(effect, outcome, *ms),
            Fact::Compacted { effect, summary, fault, turns, .. } => {
                self.compacted(effect, summary.as_ref(), fault.as_deref(), *turns).await;
            }
            // All jobs of a session have the same servers: the first one tells.
            Fact::ToolState { tool, state, why } if self.within.is_none() => {
                self.tool_state(tool, state, why.as_deref());
            }
            Fact::LifecycleAnswered { effect, answers } => self.advised(effect, answers).await,
            Fact::Finished { outcome } => self.finished(outcome).await,
            _ => {}
        }
        self.close_calls().await;
    }

    async fn begun(&mut self, command: &Command) {
        match command {
            Command::CallModel { turn, .. } => {
                self.turn = *turn;
                self.streamed = false;
                self.held = None;
            }
            Command::Ask { effect, hook, head, .. } => {
                self.asked.insert(effect.clone(), outcomes::Asked { hook: *hook, head: head.clone() });
            }
            Command::CallTool { call, arguments, .. } => {
                let mut fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
                if self.open.get(call).is_some_and(|known| !known.same(arguments)) {
                    let arguments = self.changed.get(&arguments.sha256).unwrap_or(arguments).clone();
                    let arguments = self.value(&arguments).await;
                    fields = fields.locations(wire::locations(&arguments, &self.cwd));
                    fields.raw_input = wire::raw_input(&arguments);
                }
                self.tell.call_update(ToolCallUpdate::new(self.id(call), fields));
            }
            Command::Compact { effect, .. } => self.compacts(effect),
            Command::AskLifecycle { point, skip, failure, .. } => {
                if *point == Point::Stop && *skip != Some(Skip::Kept) {
                    self.superseded().await;
                }
                if let Some(skip) = skip {
                    self.not_asked(*point, *skip, failure.as_deref());
                }
            }
            _ => {}
        }
    }

    async fn answered(&mut self, fact: &Fact) {
        let Fact::ModelAnswered { text, calls, usage, stop, .. } = fact else { return };
        // Text beside calls is not the output: where it was held back, it is told now.
        let is_told = !self.streamed && !calls.is_empty() && self.within.is_none();
        if let Some(text) = text.as_ref().filter(|_| is_told) {
            let text = self.value(text).await;
            self.tell.message(&self.message_id(), &wire::output_text(&text));
        }
        self.held = text.clone().filter(|_| !self.streamed && calls.is_empty() && self.within.is_none());
        self.open.clear();
        self.changed.clear();
        // Calls of a turn that was cut off are never made, and would have no end here.
        let cut_off = matches!(stop, StopReason::MaxTokens | StopReason::Refusal);
        for (i, call) in calls.iter().enumerate().filter(|_| !cut_off) {
            self.requested(format!("t{}.c{i}", self.turn), call).await;
        }
        // A subagent's window is another one.
        if let (Some(usage), Some(window), None) = (usage, self.window, &self.within) {
            let used = usage.input_tokens.saturating_add(usage.output_tokens);
            self.tell.update(SessionUpdate::UsageUpdate(UsageUpdate::new(used, window)));
        }
    }

    async fn requested(&mut self, id: String, call: &RequestedCall) {
        let arguments = self.value(&call.arguments).await;
        let name = escape(&call.tool);
        let title = self.within.as_ref().map_or_else(|| name.clone(), |within| format!("{}: {name}", within.agent));
        let mut told = ToolCall::new(self.id(&id), title)
            .name(name)
            .status(ToolCallStatus::Pending)
            .raw_input(wire::raw_input(&arguments))
            .locations(wire::locations(&arguments, &self.cwd));
        if let Some(within) = &self.within {
            told.meta =
                Some(wire::meta(json!({"agent": within.agent, "job": self.job, "parentToolCallId": within.call})));
        }
        self.tell.call(told);
        self.open.insert(id, call.arguments.clone());
    }

    /// Tells of calls whose end stands.
    async fn close_calls(&mut self) {
        let Some(machine) = &self.machine else { return };
        let mut ended: Vec<(String, Stored, bool)> = self
            .open
            .keys()
            .filter_map(|id| machine.call_end(id).map(|(content, is_error)| (id.clone(), content.clone(), is_error)))
            .collect();
        ended.sort_by(|a, b| a.0.cmp(&b.0));
        for (id, content, is_error) in ended {
            self.open.remove(&id);
            let content = self.value(&content).await;
            let status = if is_error { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
            let fields = ToolCallUpdateFields::new().status(status).content(wire::result_content(&content));
            self.tell.call_update(ToolCallUpdate::new(self.id(&id), fields));
        }
    }

    async fn finished(&mut self, outcome: &Outcome) {
        self.compaction_ends(outcome);
        if self.within.is_some() {
            return;
        }
        match outcome {
            Outcome::Completed { output } if !self.streamed => {
                let output = self.value(output).await;
                self.tell.message(&self.message_id(), &wire::output_text(&output));
            }
            // Other failures are the prompt's error.
            Outcome::Failed { error } if matches!(error.kind.as_str(), "HookDenied" | "MaxTurns" | "MaxTokens") => {
                self.tell.message(&format!("{}.end", self.job), &error.message);
            }
            Outcome::Completed { .. } | Outcome::Failed { .. } | Outcome::Cancelled { .. } => {}
        }
    }

    pub(crate) async fn value(&self, stored: &Stored) -> Value {
        match self.values.load(stored).await {
            Ok(value) => (*value).clone(),
            Err(error) => {
                tracing::warn!(%error, "a value can't be shown");
                json!("[this can't be read from the store]")
            }
        }
    }
}
