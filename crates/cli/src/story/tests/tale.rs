//! Makes histories for tests by driving the real machine: a history that could not happen can't be written.

use hookwright_core::chain::HookOutcome;
use hookwright_core::event::Moment;
use hookwright_core::history::{Head, Record, replay};
use hookwright_core::hooks::{Hook, HookSet};
use hookwright_core::job::{AgentSpec, AsksThere, Command, Fact, JobSpec, Machine, RequestedCall, ToolOutcome};
use hookwright_core::message::{StopReason, Usage};
use hookwright_core::name::FunctionName;
use hookwright_core::stored::Stored;
use hookwright_runtime::observe::Event;
use serde_json::{Value, json};

use crate::story::look::Look;
use crate::story::teller::{Approvals, Teller};

/// 2026-10-01 12:00:00 UTC.
pub(crate) const START_MS: u64 = 1_790_856_000_000;

pub(crate) fn hook(call: &str, on: Moment) -> Hook {
    Hook::new("release", on, FunctionName::parse(call).unwrap())
}

pub(crate) fn spec(hooks: Vec<Hook>) -> JobSpec {
    let agent = AgentSpec::new("releaser", "release", "script/demo.yaml", 10);
    let spec = JobSpec::new("job_7f3a9c21", agent, Stored::inline(json!("Release version 1.2.")));
    JobSpec { node: "n1".into(), session: "s1".into(), hooks: HookSet { manifests: vec![], hooks }, ..spec }
}

/// A job under way, and its history.
pub(crate) struct Tale {
    machine: Machine,
    head: Head,
    now_ms: u64,
    pub(crate) records: Vec<Record>,
}

impl Tale {
    pub(crate) fn new(spec: JobSpec) -> Self {
        let (machine, commands) = Machine::new(spec.clone()).unwrap();
        let mut tale = Self { machine, head: Head::default(), now_ms: START_MS, records: vec![] };
        tale.write(Fact::Started { spec: Box::new(spec) });
        tale.emit(commands);
        tale
    }

    fn write(&mut self, fact: Fact) {
        let record = self.head.next(self.now_ms, fact);
        self.head.advance(&record);
        self.records.push(record);
    }

    fn emit(&mut self, commands: Vec<Command>) {
        for command in commands {
            if let Command::Finish { outcome } = command {
                self.fact(Fact::Finished { outcome });
            } else if command.effect().is_some() {
                self.fact(Fact::Begun { command: command.digest_only() });
            }
        }
    }

    /// A fact; what the machine wants next is begun at once.
    pub(crate) fn fact(&mut self, fact: Fact) -> &mut Self {
        self.write(fact.clone());
        let commands = self.machine.handle(self.now_ms, &fact).unwrap();
        self.emit(commands);
        self
    }

    pub(crate) fn later(&mut self, ms: u64) -> &mut Self {
        self.now_ms += ms;
        self
    }

    pub(crate) fn hook(&mut self, effect: &str, outcome: HookOutcome) -> &mut Self {
        self.later(2).fact(Fact::HookAnswered { effect: effect.into(), outcome, ms: 1.94, other: None })
    }

    pub(crate) fn allow(&mut self, effect: &str) -> &mut Self {
        self.hook(effect, HookOutcome::Allow { reason: None })
    }

    pub(crate) fn deny(&mut self, effect: &str, reason: &str) -> &mut Self {
        self.hook(effect, HookOutcome::Deny { reason: reason.into() })
    }

    pub(crate) fn escalate(&mut self, effect: &str, reason: &str) -> &mut Self {
        self.hook(effect, HookOutcome::Escalate { reason: reason.into() })
    }

    pub(crate) fn modify(&mut self, effect: &str, value: Value) -> &mut Self {
        self.hook(effect, HookOutcome::Modify { value: Stored::inline(value), reason: None })
    }

    pub(crate) fn turn(&mut self, text: &str, calls: &[(&str, Value)]) -> &mut Self {
        let effect = format!("t{}.model", self.machine.turn());
        let calls = calls.iter().enumerate().map(|(i, (tool, arguments))| RequestedCall {
            provider_id: format!("c{i}"),
            tool: (*tool).into(),
            alias: None,
            further_aliases: vec![],
            arguments: Stored::new(arguments.clone()).0,
            refused: tool.starts_with("no.").then(|| format!("unknown tool: {tool}")),
            idempotent: false,
            schema_sha256: None,
            asks_there: AsksThere::No,
        });
        let calls: Vec<_> = calls.collect();
        let stop = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolCalls };
        self.later(900).fact(Fact::ModelAnswered {
            effect,
            text: Some(text).filter(|t| !t.is_empty()).map(|t| Stored::new(json!(t)).0),
            calls,
            stop,
            usage: Some(Usage { input_tokens: 1_200, output_tokens: 40 }),
            sent: None,
            provider_state: None,
            output: None,
            output_fault: None,
            ms: 901.2,
        })
    }

    pub(crate) fn returned(&mut self, call: &str, result: Value) -> &mut Self {
        let outcome =
            ToolOutcome::Returned { result: Stored::new(result).0, structured: None, is_error: false, rest: None };
        self.ended(call, outcome)
    }

    pub(crate) fn ended(&mut self, call: &str, outcome: ToolOutcome) -> &mut Self {
        self.later(12).fact(Fact::ToolReturned { effect: format!("{call}.call"), outcome, ms: 12.3 })
    }

    pub(crate) fn decide(&mut self, effect: &str, approve: bool, by: &str, note: Option<&str>) -> &mut Self {
        let approval = self.machine.waiting().next().unwrap().clone();
        let decided_ms = self.now_ms;
        self.later(60_000).fact(Fact::ApprovalDecided {
            effect: effect.into(),
            approval: approval.id,
            approve,
            by: by.into(),
            verified: false,
            note: note.map(str::to_owned),
            digest: approval.digest,
            decided_ms,
        })
    }

    pub(crate) fn approval(&self) -> hookwright_core::approval::Approval {
        self.machine.waiting().next().unwrap().clone()
    }

    /// The story as it is told live: streamed text comes before the record that holds it.
    pub(crate) fn told(&self, look: Look, streams: bool) -> String {
        self.replays();
        let mut teller = Teller::new(look, Approvals::Prompted);
        let mut out = String::new();
        for record in &self.records {
            if let Fact::ModelAnswered { text: Some(text), .. } = &record.fact
                && streams
                && let Some(text) = text.value.as_deref().and_then(Value::as_str)
            {
                let chars: Vec<char> = text.chars().collect();
                for piece in chars.chunks(5) {
                    out += &teller.event(&Event::Text(&piece.iter().collect::<String>()));
                }
            }
            out += &teller.event(&Event::Recorded(record));
        }
        out
    }

    /// The history is one that the machine's logic makes.
    pub(crate) fn replays(&self) {
        let texts: Vec<String> = self.records.iter().map(|r| serde_json::to_string(r).unwrap()).collect();
        replay(&texts).unwrap();
    }
}
