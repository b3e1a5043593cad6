//! The model's turns: asking for one, what it said, its calls, and the conversation that grows of it.
//!
//! Invariant: calls of a turn that was cut off or refused are never made.

use super::{Machine, OUTPUT_CORRECTIONS, Phase};
use crate::call::Call;
use crate::chain::Chain;
use crate::event::Moment;
use crate::job::spec::JobError;
use crate::job::{Command, Fact, RequestedCall};
use crate::json;
use crate::message::{AssistantCall, Message, StopReason};
use crate::stored::Stored;
use crate::text;
use serde_json::Value;
use std::borrow::Cow;

impl Machine {
    pub(super) fn next_turn(&mut self, out: &mut Vec<Command>) {
        if self.turn >= self.spec.agent.max_turns && !self.owes_turn() {
            let message = format!("the job ended after {} model turns, the agent's max_turns", self.turn);
            self.fail_turn(JobError::plain("MaxTurns", message), out);
            return;
        }
        if let Some(error) = self.tokens_used_up() {
            return self.fail_turn(error, out);
        }
        if self.compacts_first(out) {
            return;
        }
        self.turn += u32::from(!self.owes_turn());
        let effect = self.model_effect();
        out.push(Command::CallModel { effect, turn: self.turn, conversation: self.conversation.clone() });
        self.phase = Phase::Model;
    }

    pub(super) fn answered(&mut self, fact: &Fact, out: &mut Vec<Command>) {
        let Fact::ModelAnswered { text, calls, stop, usage, sent, provider_state, output, output_fault, .. } = fact
        else {
            return;
        };
        self.note_tokens(fact);
        self.spend(fact);
        if *stop == StopReason::Refusal {
            let message = "the model, or its provider, refused to go on".to_owned();
            return self.fail_turn(JobError::plain("Refused", message), out);
        }
        if *stop == StopReason::MaxTokens {
            // Calls of a turn that was cut off may be cut off too: none of them is made.
            let message = format!("turn {} ran into the limit of output tokens (max_tokens)", self.turn);
            return self.fail_turn(JobError::plain("MaxTokens", message), out);
        }
        if !calls.is_empty()
            && let Some(error) = self.tokens_used_up().or_else(|| self.calls_used_up(calls.len()))
        {
            return self.fail_turn(error, out);
        }
        self.say(Message::Assistant {
            text: text.clone(),
            calls: calls
                .iter()
                .map(|c| AssistantCall {
                    provider_id: c.provider_id.clone(),
                    tool: c.tool.clone(),
                    arguments: c.arguments.clone(),
                })
                .collect(),
            provider_state: provider_state.clone(),
        });
        self.measured(*usage, *sent);
        if !calls.is_empty() {
            self.advice.worked();
            self.spent.calls(calls.len());
            let turn = self.turn;
            let id = |i: usize| format!("t{turn}.c{i}");
            self.phase =
                Phase::Calls(calls.iter().enumerate().map(|(i, c)| self.requested(id(i), i, c.clone())).collect());
            return self.schedule(out);
        }
        if let Some(fault) = output_fault {
            return self.correct(fault, out);
        }
        let output =
            output.clone().or_else(|| text.clone()).unwrap_or_else(|| Stored::inline(Value::String(String::new())));
        self.stop(output, out);
    }

    /// The output stands, and nobody objects (any more): the hooks at the job's end are asked.
    pub(super) fn end(&mut self, output: Stored, out: &mut Vec<Command>) {
        let hooks = self.spec.hooks.matching(Moment::JobEnd, &self.spec.agent.id, &[]);
        self.phase = Phase::End(Chain::new(hooks, output));
        self.go_on(out);
    }

    /// A call beyond the limit of a turn is refused to the model (SPEC §10).
    fn requested(&self, id: String, index: usize, mut request: RequestedCall) -> Call {
        let limit = self.spec.limits.calls_per_turn as usize;
        if index >= limit && request.refused.is_none() {
            request.refused = Some(format!(
                "The call to {} was not made: a turn may make {limit} calls. Call it again in the next turn.",
                text::escape(&request.tool)
            ));
        }
        Call::new(id, request)
    }

    /// Tells the model that its output breaks the agent's schema, a few times.
    fn correct(&mut self, fault: &str, out: &mut Vec<Command>) {
        if self.corrections >= OUTPUT_CORRECTIONS {
            let message = format!("the output breaks the schema that the agent declares: {fault}");
            return self.fail_turn(JobError::plain("BadOutput", message), out);
        }
        self.corrections += 1;
        let content = format!(
            "Your answer is not an output that this task accepts: {fault}. Answer again with JSON alone that fits the schema."
        );
        self.say(Message::User { content: Stored::inline(Value::String(content)) });
        self.next_turn(out);
    }

    /// Begins queued calls while there is room, and goes to the next turn when all are over.
    pub(super) fn schedule(&mut self, out: &mut Vec<Command>) {
        let Phase::Calls(calls) = &mut self.phase else { return };
        let room = (self.spec.limits.parallel_calls as usize).max(1);
        let mut active = calls.iter().filter(|c| c.is_active()).count();
        for call in calls.iter_mut() {
            if active >= room {
                break;
            }
            if call.is_queued() {
                call.begin(&self.spec, &mut self.matching, out);
                active += usize::from(call.is_active());
            }
        }
        if calls.iter().all(|c| c.end().is_some()) {
            let results: Vec<Message> = calls
                .iter()
                .filter_map(|c| {
                    c.end().map(|end| Message::Tool {
                        provider_id: c.provider_id().to_owned(),
                        tool: c.tool().to_owned(),
                        content: end.content.clone(),
                        is_error: end.is_error,
                    })
                })
                .collect();
            for message in results {
                self.say(message);
            }
            self.next_turn(out);
        }
    }

    pub(super) fn say(&mut self, message: Message) {
        let digest = match &message {
            Message::User { content } => format!("user {}", content.sha256),
            Message::Assistant { text, calls, provider_state } => {
                let sha = |s: &Option<Stored>| s.as_ref().map(|s| s.sha256.clone());
                let calls: Vec<_> =
                    calls.iter().map(|c| (lasting(&c.provider_id), lasting(&c.tool), &c.arguments.sha256)).collect();
                format!("assistant {:?} {calls:?} {:?}", sha(text), sha(provider_state))
            }
            Message::Tool { provider_id, tool, content, is_error } => {
                format!("tool {:?} {:?} {} {is_error}", lasting(provider_id), lasting(tool), content.sha256)
            }
        };
        self.conversation = json::sha256_hex(format!("{}\n{digest}", self.conversation).as_bytes());
        self.messages.push(message);
        self.grew(self.messages.len() - 1);
    }
}

/// A text whose `Debug` form is the same with every compiler, since histories outlive compilers: plain ASCII, or a digest.
fn lasting(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(json::sha256_hex(text.as_bytes()))
    }
}
