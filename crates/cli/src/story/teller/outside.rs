//! What an agent does that somebody else runs.

use super::super::line::Line;
use super::super::look::Role;
use super::super::units;
use super::{Teller, place};
use hookwright_core::job::Fact;
use hookwright_core::verdict::Escalation;

/// Calls that are remembered: more are not under way at once.
const CALLS: usize = 1_024;

impl Teller {
    /// The agent is told to ask the person at it; nobody here hears what they say.
    pub(super) fn asked_there(&mut self, effect: &str, tool: &str, asked: &[Escalation]) {
        self.there.insert(effect.to_owned(), tool.to_owned());
        for Escalation { hook, reason } in asked {
            let line = Line::at(place(effect), '?').add(Role::Warn, "the person there is asked");
            self.put(line.plain(&format!(" ({hook}: {reason}); a yes shows by the call's result")));
        }
    }

    pub(super) fn outside(&mut self, fact: &Fact) {
        match fact {
            Fact::CallRequested { id, call } => {
                if self.tools.len() >= CALLS {
                    self.forget();
                }
                self.requested(id, call, false);
            }
            Fact::CallLeft { call } => {
                self.put(Line::at(call, ' ').plain("the agent waits no longer; it may ask for the same call again"));
            }
            Fact::CallCancelled { call } => {
                self.put(Line::at(call, '!').add(Role::Warn, "cancelled").plain(" by the agent"));
            }
            Fact::OutputOffered { output } => {
                self.values.insert("end".into(), output.clone());
                let size = units::bytes(output.bytes);
                self.put(Line::at("end", ' ').plain("the agent ends with an output of ").plain(&size));
            }
            Fact::AgentLeft { by, done, .. } => {
                let how = if *done { " left" } else { " left before it was done" };
                self.put(Line::at("job", ' ').plain(by).plain(how));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::look::Look;
    use super::super::Approvals;
    use super::*;
    use hookwright_core::history::Record;
    use hookwright_core::job::{Command, Outcome, ToolOutcome};
    use hookwright_core::name::FunctionName;
    use hookwright_core::stored::Stored;

    #[test]
    fn who_is_asked_where_the_agent_runs_is_told_and_so_is_a_call_that_was_not_seen_after_it() {
        let record = |fact| Record { seq: 0, at_ms: 0, fact, prev: String::new(), hash: String::new() };
        let asked = vec![Escalation { hook: "p.check".into(), reason: "a push".into() }];
        let command = Command::LetCall {
            effect: "c0.call".into(),
            call: "c0".into(),
            tool: FunctionName::parse("codex.Bash").unwrap(),
            arguments: Stored::inline(serde_json::json!({})),
            changed: false,
            grant: None,
            asked,
        };
        let outcome = ToolOutcome::Unknown { why: "x".into() };
        let returned = Fact::ToolReturned { effect: "c0.call".into(), outcome, ms: 0.0 };
        let finished = Fact::Finished { outcome: Outcome::Cancelled { by: "x".into() } };
        for (returned, is_missed) in [(Some(returned), false), (None, true)] {
            let mut teller = Teller::new(Look::PLAIN, Approvals::Told);
            let facts = [Some(Fact::Begun { command: command.clone() }), returned, Some(finished.clone())];
            for fact in facts.into_iter().flatten() {
                teller.record(&record(fact));
            }
            assert!(teller.out.contains("the person there is asked (p.check: a push)"), "{}", teller.out);
            assert_eq!(teller.out.contains("not seen to be made: codex.Bash"), is_missed, "{}", teller.out);
        }
    }
}
