//! Tells the client how a job goes: its records become the session's updates.
//!
//! Invariant: a result is shown only once the hooks after the call have let it through; an output, once those at the job's end have.
//! Invariant: what a call came to is read from the core's own machine, which is fed the same records.

mod outcomes;

use crate::tell::{Tell, Weight};
use crate::wire;
use agent_client_protocol::v1::schema::{
    SessionUpdate, ToolCall, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, UsageUpdate,
};
use hookwright_core::history::Record;
use hookwright_core::job::{Command, Fact, Machine, Outcome, RequestedCall};
use hookwright_core::stored::Stored;
use hookwright_core::text::escape;
use hookwright_runtime::values::Values;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Tells one job.
pub(crate) struct Teller {
    pub(crate) tell: Tell,
    values: Values,
    cwd: String,
    /// Tokens of the model's window, where that is known.
    window: Option<u64>,
    machine: Option<Machine>,
    job: String,
    turn: u32,
    /// Whether this turn's text was streamed.
    streamed: bool,
    /// Calls of this turn that are not over, with their arguments as the client knows them.
    open: HashMap<String, Stored>,
    /// Arguments as hooks left them, by digest: the beginning of a call names them only.
    changed: HashMap<String, Stored>,
    /// The hook of each ask under way.
    asked: HashMap<String, outcomes::Asked>,
}

impl Teller {
    pub(crate) fn new(tell: Tell, values: Values, cwd: String) -> Self {
        Self {
            tell,
            values,
            cwd,
            window: None,
            machine: None,
            job: String::new(),
            turn: 0,
            streamed: false,
            open: HashMap::new(),
            changed: HashMap::new(),
            asked: HashMap::new(),
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
        self.tell.notice(Weight::Info, "Hookwright", Some(what), json!({"job": self.job}));
    }

    /// A record that is durable.
    pub(crate) async fn record(&mut self, record: &Record) {
        if let Fact::Started { spec } = &record.fact {
            self.job.clone_from(&spec.job);
            self.window = spec.agent.context_window;
            self.machine = Machine::new((**spec).clone()).ok().map(|(machine, _)| machine);
            self.unavailable();
            return;
        }
        if let Some(machine) = &mut self.machine {
            // The runtime's own machine has taken it already.
            let _ = machine.handle(record.at_ms, &record.fact);
        }
        match &record.fact {
            Fact::Begun { command } => self.begun(command).await,
            Fact::ModelAnswered { .. } => self.answered(&record.fact).await,
            Fact::HookAnswered { effect, outcome, ms, .. } => self.hook_answered(effect, outcome, *ms),
            Fact::ToolState { tool, state, why } => self.tool_state(tool, state, why.as_deref()),
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
            Command::AskLifecycle { point, skip: Some(skip), .. } => self.not_asked(*point, *skip),
            _ => {}
        }
    }

    async fn answered(&mut self, fact: &Fact) {
        let Fact::ModelAnswered { text, calls, usage, .. } = fact else { return };
        // Text beside calls is not the output: where it was held back, it is told now.
        if let Some(text) = text.as_ref().filter(|_| !self.streamed && !calls.is_empty()) {
            let text = self.value(text).await;
            self.tell.message(&self.message_id(), &wire::output_text(&text));
        }
        self.open.clear();
        self.changed.clear();
        for (i, call) in calls.iter().enumerate() {
            self.requested(format!("t{}.c{i}", self.turn), call).await;
        }
        if let (Some(usage), Some(window)) = (usage, self.window) {
            let used = usage.input_tokens.saturating_add(usage.output_tokens);
            self.tell.update(SessionUpdate::UsageUpdate(UsageUpdate::new(used, window)));
        }
    }

    async fn requested(&mut self, id: String, call: &RequestedCall) {
        let arguments = self.value(&call.arguments).await;
        let name = escape(&call.tool);
        self.tell.call(
            ToolCall::new(self.id(&id), name.clone())
                .name(name)
                .status(ToolCallStatus::Pending)
                .raw_input(wire::raw_input(&arguments))
                .locations(wire::locations(&arguments, &self.cwd)),
        );
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
