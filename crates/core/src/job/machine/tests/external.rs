//! Agents that somebody else runs.

use super::*;
use crate::job::{CallReply, External};
use std::collections::{BTreeSet, HashMap};

/// A job of such an agent, and everything that was commanded.
pub(super) struct Desk {
    pub(super) machine: Machine,
    history: Vec<Record>,
    head: Head,
    under_way: Vec<Command>,
    told: Vec<Command>,
    begun: Vec<Command>,
}

fn external(hooks: Vec<Hook>, makes_calls: bool, holds: u32) -> JobSpec {
    let mut spec = spec(hooks);
    spec.agent.external = Some(External { makes_calls, holds });
    spec
}

fn request(tool: &str, arguments: Value) -> RequestedCall {
    RequestedCall {
        provider_id: "theirs".into(),
        tool: tool.into(),
        alias: None,
        further_aliases: vec![],
        arguments: Stored::inline(arguments),
        refused: None,
        idempotent: false,
        schema_sha256: None,
        asks_there: AsksThere::No,
    }
}

impl Desk {
    pub(super) fn new(spec: JobSpec) -> Self {
        let (machine, fresh) = Machine::new(spec.clone()).unwrap();
        let (history, head) = (vec![], Head::default());
        let mut desk = Self { machine, history, head, under_way: vec![], told: vec![], begun: vec![] };
        desk.write(Fact::Started { spec: Box::new(spec) });
        desk.take_in(fresh);
        desk
    }

    fn write(&mut self, fact: Fact) -> Record {
        let record = self.head.next(1_000 + self.history.len() as u64, fact);
        self.head.advance(&record);
        self.history.push(record.clone());
        record
    }

    fn take_in(&mut self, fresh: Vec<Command>) {
        for command in fresh {
            if let Command::Finish { outcome } = &command {
                self.under_way.clear();
                let record = self.write(Fact::Finished { outcome: outcome.clone() });
                self.machine.handle(record.at_ms, &record.fact).unwrap();
            } else if let Command::CloseApproval { approval } = &command {
                self.under_way.retain(|c| !matches!(c, Command::OpenApproval { approval: a, .. } if a.id == *approval));
            } else if command.effect().is_some() {
                let record = self.write(Fact::Begun { command: command.digest_only() });
                assert_eq!(self.machine.handle(record.at_ms, &record.fact), Ok(vec![]));
                self.under_way.push(command.clone());
                self.begun.push(command);
                continue;
            }
            self.told.push(command);
        }
    }

    fn fact(&mut self, fact: Fact) {
        let record = self.write(fact);
        let fresh = self.machine.handle(record.at_ms, &record.fact).unwrap();
        let standing: BTreeSet<String> =
            self.machine.pending().filter_map(|(c, _)| c.effect().map(str::to_owned)).collect();
        self.under_way.retain(|c| c.effect().is_some_and(|e| standing.contains(e)));
        self.take_in(fresh);
    }

    fn refuses(&mut self, fact: &Fact) {
        let before = self.machine.clone();
        assert!(self.machine.handle(9_999, fact).is_err(), "{fact:?}");
        assert_eq!(self.machine, before);
    }

    pub(super) fn call(&mut self, tool: &str, arguments: Value) -> String {
        let call = request(tool, arguments);
        let id = self.machine.id_of_call(&call);
        self.fact(Fact::CallRequested { id: id.clone(), call });
        id
    }

    /// Ends the effect under way with this id.
    pub(super) fn ends(&mut self, effect: &str, world: &Oracle<'_>) {
        let at = self.under_way.iter().position(|c| c.effect() == Some(effect)).unwrap_or_else(|| {
            panic!("{effect} is not under way: {:?}", self.under_way);
        });
        let command = self.under_way.remove(at);
        self.fact(world(&command));
    }

    pub(super) fn replies(&self) -> Vec<(&str, &CallReply)> {
        self.told
            .iter()
            .filter_map(|c| if let Command::Answer { call, reply } = c { Some((&**call, reply)) } else { None })
            .collect()
    }

    pub(super) fn check_replay(&self) {
        let texts: Vec<String> = texts(&self.history);
        let (machine, _) = replay(texts).unwrap();
        assert_eq!(machine, self.machine);
    }
}

fn says(outcome: HookOutcome) -> impl Fn(&Command) -> Fact {
    move |c| answered(c.effect().unwrap(), outcome.clone())
}

fn allow() -> HookOutcome {
    HookOutcome::Allow { reason: None }
}

fn escalate() -> HookOutcome {
    HookOutcome::Escalate { reason: "ask ada".into() }
}

fn text(reply: &CallReply) -> &str {
    match reply {
        CallReply::NotMade { text } | CallReply::Withheld { text } => text,
        CallReply::Result { content, .. } => content.value.as_ref().unwrap().as_str().unwrap(),
    }
}

fn pre() -> Vec<Hook> {
    vec![hook("p.check", Moment::PreToolCall, None, None)]
}

#[test]
fn no_model_is_asked_and_the_agent_is_admitted_after_the_hooks_at_the_start() {
    let mut desk = Desk::new(external(vec![hook("p.s", Moment::JobStart, None, None)], false, 0));
    desk.refuses(&Fact::CallRequested { id: "c0".into(), call: request("a.x", json!({})) });
    assert!(!desk.machine.is_admitted());
    let new = HookOutcome::Modify { value: Stored::inline(json!("changed")), reason: None };
    desk.ends("start.h0", &says(new));
    assert_eq!(desk.told, [Command::Admit { input: Stored::inline(json!("changed")) }]);
    assert!(desk.machine.is_admitted() && desk.under_way.is_empty());
    desk.check_replay();
}

#[test]
fn a_start_that_is_denied_ends_the_job_before_anything() {
    let mut desk = Desk::new(external(vec![hook("p.s", Moment::JobStart, None, None)], true, 1));
    desk.ends("start.h0", &says(HookOutcome::Deny { reason: "no".into() }));
    assert!(matches!(desk.machine.outcome(), Some(Outcome::Failed { error }) if error.kind == "HookDenied"));
    desk.refuses(&Fact::CallRequested { id: "c0".into(), call: request("a.x", json!({})) });
}

#[test]
fn calls_have_chains_of_their_own_and_none_waits_for_another() {
    let mut desk = Desk::new(external(pre(), false, 0));
    for i in 0..20 {
        assert_eq!(desk.call("a.x", json!({ "i": i })), format!("c{i}"));
    }
    assert_eq!(desk.under_way.len(), 20);
    desk.ends("c7.pre.h0", &says(allow()));
    desk.ends("c7.call", &|c| returned(c.effect().unwrap(), "seven"));
    desk.ends("c3.pre.h0", &says(HookOutcome::Deny { reason: "no".into() }));
    let replies = desk.replies();
    assert_eq!(replies.iter().map(|(call, _)| *call).collect::<Vec<_>>(), ["c7", "c3"]);
    assert_eq!(text(replies[0].1), "seven");
    assert_eq!(text(replies[1].1), "The call to a.x was not made: hook p.check denied it: no.");
    desk.check_replay();
}

#[test]
fn an_agent_that_makes_its_calls_is_let_and_says_how_they_ended() {
    let hooks =
        vec![hook("p.check", Moment::PreToolCall, None, None), hook("p.post", Moment::PostToolCall, None, None)];
    let mut desk = Desk::new(external(hooks, true, 0));
    desk.call("claude-code.Bash", json!({"command": "ls"}));
    let new = Stored::inline(json!({"command": "ls -l"}));
    desk.ends("c0.pre.h0", &says(HookOutcome::Modify { value: new.clone(), reason: None }));
    let Some(Command::LetCall { arguments, changed: true, .. }) = desk.begun.last() else { panic!("{:?}", desk.begun) };
    assert_eq!(*arguments, new);
    assert_eq!(desk.machine.let_calls().collect::<Vec<_>>(), ["c0"]);
    desk.ends("c0.call", &|c| returned(c.effect().unwrap(), "a b"));
    desk.ends("c0.post.h1", &says(HookOutcome::Deny { reason: "secret".into() }));
    let replies = desk.replies();
    assert!(matches!(replies[0].1, CallReply::Withheld { text } if text.contains("p.post denied it: secret")));
    desk.check_replay();
}

#[test]
fn a_result_keeps_all_that_the_server_said_unless_a_hook_changes_it() {
    for change in [false, true] {
        let mut desk = Desk::new(external(vec![hook("p.post", Moment::PostToolCall, None, None)], false, 0));
        desk.call("a.x", json!({}));
        desk.ends("c0.call", &|c| Fact::ToolReturned {
            effect: c.effect().unwrap().into(),
            outcome: ToolOutcome::Returned {
                result: Stored::inline(json!("text")),
                structured: Some(Stored::inline(json!({"a": 1}))),
                is_error: true,
                rest: Some(Stored::inline(json!({"_meta": {"k": 1}}))),
            },
            ms: 1.0,
        });
        let new = HookOutcome::Modify { value: Stored::inline(json!("new")), reason: None };
        desk.ends("c0.post.h0", &says(if change { new } else { allow() }));
        let (_, CallReply::Result { content, structured, rest, is_error, changed }) = desk.replies()[0] else {
            panic!()
        };
        assert!(*is_error);
        assert_eq!(*changed, change);
        assert_eq!(*content, Stored::inline(json!(if change { "new" } else { "text" })));
        assert_eq!((structured.is_none(), rest.is_none()), (change, change), "SPEC §3: a modified result drops these");
    }
}

#[test]
fn a_call_left_while_a_person_is_asked_is_made_once_when_it_is_asked_for_again() {
    let mut desk = Desk::new(external(pre(), false, 0));
    let id = desk.call("a.x", json!({"n": 1}));
    desk.refuses(&Fact::CallLeft { call: id.clone() });
    desk.ends("c0.pre.h0", &says(escalate()));
    let approval = desk.machine.call_waits_for(&id).unwrap().to_owned();
    desk.fact(Fact::CallLeft { call: id.clone() });
    assert!(approval.starts_with("apr") || !approval.is_empty());
    desk.ends("c0.pre.approval", &|c| decided(c, true));
    assert!(desk.under_way.is_empty() && desk.replies().is_empty(), "a yes alone makes no call");
    // Another call is another question.
    assert_eq!(desk.call("a.x", json!({"n": 2})), "c1");
    assert_eq!(desk.call("a.x", json!({"n": 1})), "c0");
    desk.ends("c0.call", &|c| returned(c.effect().unwrap(), "made"));
    assert_eq!(desk.replies().iter().map(|(c, r)| (*c, text(r))).collect::<Vec<_>>(), [("c0", "made")]);
    // The yes is used up: the same call is a new question.
    assert_eq!(desk.call("a.x", json!({"n": 1})), "c2");
    assert!(desk.under_way.iter().any(|c| c.effect() == Some("c2.pre.h0")));
    desk.check_replay();
}

#[test]
fn what_is_made_of_a_call_that_was_left_is_the_approved_final_call() {
    let hooks = vec![hook("p.m", Moment::PreToolCall, None, None), hook("p.e", Moment::PreToolCall, None, None)];
    let mut desk = Desk::new(external(hooks, false, 0));
    let id = desk.call("a.x", json!({"n": 1}));
    let new = Stored::inline(json!({"n": 10}));
    desk.ends("c0.pre.h0", &says(HookOutcome::Modify { value: new.clone(), reason: None }));
    desk.ends("c0.pre.h1", &says(escalate()));
    desk.fact(Fact::CallLeft { call: id });
    desk.ends("c0.pre.approval", &|c| decided(c, true));
    assert_eq!(desk.call("a.x", json!({"n": 10})), "c1", "the final arguments are not the ones that were asked for");
    assert_eq!(desk.call("a.x", json!({"n": 1})), "c0");
    let Some(Command::CallTool { arguments, grant: Some(_), .. }) = desk.begun.last() else { panic!() };
    assert_eq!(*arguments, new);
}

#[test]
fn a_no_to_a_call_that_was_left_is_told_once_when_it_is_asked_for_again() {
    let mut desk = Desk::new(external(pre(), true, 0));
    let id = desk.call("a.x", json!({}));
    desk.ends("c0.pre.h0", &says(escalate()));
    desk.fact(Fact::CallLeft { call: id });
    desk.ends("c0.pre.approval", &|c| decided(c, false));
    assert!(desk.replies().is_empty());
    assert_eq!(desk.call("a.x", json!({})), "c0");
    assert!(text(desk.replies()[0].1).ends_with("ask ada (declined by ada)."), "{:?}", desk.replies());
    assert_eq!(desk.call("a.x", json!({})), "c1");
    desk.check_replay();
}

#[test]
fn a_result_that_waits_for_a_person_is_kept_and_the_call_never_made_again() {
    let mut desk = Desk::new(external(vec![hook("p.post", Moment::PostToolCall, None, None)], false, 0));
    let id = desk.call("a.x", json!({}));
    desk.ends("c0.call", &|c| returned(c.effect().unwrap(), "kept"));
    desk.ends("c0.post.h0", &says(escalate()));
    desk.fact(Fact::CallLeft { call: id });
    desk.ends("c0.post.approval", &|c| decided(c, true));
    assert_eq!(desk.call("a.x", json!({})), "c0");
    assert_eq!(text(desk.replies()[0].1), "kept");
    assert_eq!(desk.begun.iter().filter(|c| matches!(c, Command::CallTool { .. })).count(), 1);
}

#[test]
fn a_cancelled_call_is_broken_off_and_closes_its_question() {
    let mut desk = Desk::new(external(pre(), false, 0));
    let id = desk.call("a.x", json!({}));
    desk.ends("c0.pre.h0", &says(escalate()));
    desk.fact(Fact::CallCancelled { call: id.clone() });
    assert!(matches!(&desk.told[..], [Command::Admit { .. }, Command::CloseApproval { .. }]), "{:?}", desk.told);
    assert!(desk.under_way.is_empty());
    desk.refuses(&Fact::CallCancelled { call: id });
    desk.check_replay();
}

#[test]
fn too_many_calls_at_once_are_refused_and_said_so() {
    let mut s = external(pre(), false, 0);
    s.limits.calls_per_turn = 2;
    let mut desk = Desk::new(s);
    for n in 0..3 {
        desk.call("a.x", json!({ "n": n }));
    }
    let replies = desk.replies();
    assert_eq!(replies.len(), 1);
    assert!(text(replies[0].1).contains("2 calls of this job are under way"), "{replies:?}");
    desk.ends("c0.pre.h0", &says(HookOutcome::Deny { reason: "n".into() }));
    desk.call("a.x", json!({"n": 4}));
    assert!(desk.under_way.iter().any(|c| c.effect() == Some("c3.pre.h0")), "there is room again");
}

#[test]
fn calls_that_the_agent_was_let_make_take_no_place_of_others() {
    for makes_calls in [true, false] {
        let mut s = external(vec![], makes_calls, 0);
        s.limits.calls_per_turn = 2;
        let mut desk = Desk::new(s);
        for n in 0..70 {
            desk.call("a.x", json!({ "n": n }));
        }
        assert_eq!(desk.begun.len(), if makes_calls { 70 } else { 2 });
        assert_eq!(desk.replies().len(), if makes_calls { 0 } else { 68 });
        desk.check_replay();
    }
}

#[test]
fn of_too_many_calls_without_an_end_the_oldest_is_given_up() {
    let mut desk = Desk::new(external(vec![], true, 0));
    for n in 0..1_024 {
        desk.call("a.x", json!({ "n": n }));
    }
    assert_eq!(desk.machine.overdue_call(), None);
    desk.call("a.x", json!({}));
    assert_eq!(desk.machine.overdue_call(), Some("c0"));
    desk.ends("c0.call", &|c| Fact::ToolReturned {
        effect: c.effect().unwrap().into(),
        outcome: ToolOutcome::Unknown { why: "never told".into() },
        ms: 0.0,
    });
    assert_eq!(desk.machine.overdue_call(), None);
    assert!(!desk.machine.knows_call("c0"));
}

#[test]
fn another_output_is_asked_about_anew_and_the_verdict_on_the_first_does_not_count_for_it() {
    for with_person in [false, true] {
        let mut desk = Desk::new(external(vec![hook("p.end", Moment::JobEnd, None, None)], true, 1));
        let (a, b) = (Stored::inline(json!("A")), Stored::inline(json!("B")));
        desk.fact(Fact::OutputOffered { output: a.clone() });
        if with_person {
            desk.ends("end.h0", &says(escalate()));
        }
        assert!(!desk.machine.is_other_output(&a) && desk.machine.is_other_output(&b));
        desk.refuses(&Fact::OutputOffered { output: a });
        desk.fact(Fact::OutputOffered { output: b.clone() });
        let closed = desk.told.iter().filter(|c| matches!(c, Command::CloseApproval { .. })).count();
        assert_eq!(closed, usize::from(with_person));
        assert_eq!(desk.under_way.iter().map(|c| c.effect().unwrap()).collect::<Vec<_>>(), ["end2.h0"]);
        desk.ends("end2.h0", &says(escalate()));
        desk.ends("end2.approval", &|c| decided(c, true));
        assert_eq!(desk.machine.outcome(), Some(&Outcome::Completed { output: b }));
        desk.check_replay();
    }
}

#[test]
fn a_denied_output_sends_the_agent_back_once_and_then_ends_the_job() {
    let mut desk = Desk::new(external(vec![hook("p.end", Moment::JobEnd, None, None)], true, 1));
    let deny = || says(HookOutcome::Deny { reason: "tests are red".into() });
    desk.fact(Fact::OutputOffered { output: Stored::inline(json!("done")) });
    desk.refuses(&Fact::OutputOffered { output: Stored::inline(json!("done")) });
    desk.ends("end.h0", &deny());
    assert_eq!(desk.told.last(), Some(&Command::SendBack { hook: "p.end".into(), reason: "tests are red".into() }));
    desk.call("a.x", json!({}));
    desk.fact(Fact::OutputOffered { output: Stored::inline(json!("done, really")) });
    desk.ends("end2.h0", &deny());
    assert!(matches!(desk.machine.outcome(), Some(Outcome::Failed { error }) if error.kind == "HookDenied"));
    desk.check_replay();
}

#[test]
fn an_output_that_stands_ends_the_job_and_cuts_off_what_is_under_way() {
    let mut desk = Desk::new(external(pre(), false, 0));
    desk.call("a.x", json!({"n": 1}));
    desk.call("a.x", json!({"n": 2}));
    desk.ends("c1.pre.h0", &says(allow()));
    desk.fact(Fact::OutputOffered { output: Stored::inline(json!("out")) });
    let replies: Vec<_> = desk.replies().iter().map(|(c, r)| ((*c).to_owned(), text(r).to_owned())).collect();
    assert_eq!(replies[0], ("c0".into(), "The call to a.x was not made: the job ended.".into()));
    assert!(replies[1].1.starts_with("It is not known whether the call to a.x was made: the job ended"), "{replies:?}");
    assert_eq!(desk.machine.outcome(), Some(&Outcome::Completed { output: Stored::inline(json!("out")) }));
    desk.check_replay();
}

#[test]
fn an_agent_that_leaves_ends_its_job_at_any_time() {
    for (done, before) in [(true, false), (false, false), (true, true)] {
        let hooks = if before { vec![hook("p.s", Moment::JobStart, None, None)] } else { pre() };
        let mut desk = Desk::new(external(hooks, false, 0));
        if !before {
            desk.call("a.x", json!({}));
            desk.ends("c0.pre.h0", &says(escalate()));
        }
        desk.fact(Fact::AgentLeft { by: "inspector".into(), done, failed: None });
        let completed = matches!(desk.machine.outcome(), Some(Outcome::Completed { .. }));
        assert_eq!(completed, done && !before, "an agent that was never admitted did nothing");
        assert!(desk.under_way.is_empty());
        desk.check_replay();
    }
}

#[test]
fn an_agent_that_went_wrong_fails_its_job() {
    let mut desk = Desk::new(external(vec![], true, 0));
    desk.fact(Fact::AgentLeft { by: "harness/x".into(), done: false, failed: Some("exit status 3".into()) });
    let Some(Outcome::Failed { error }) = desk.machine.outcome() else { panic!() };
    assert_eq!((&*error.kind, &*error.message), ("HarnessFailed", "harness/x: exit status 3"));
    desk.check_replay();
}

#[test]
fn facts_of_such_agents_fit_no_other_job() {
    let (mut machine, _) = Machine::new(spec(vec![])).unwrap();
    for fact in [
        Fact::CallRequested { id: "c0".into(), call: request("a.x", json!({})) },
        Fact::OutputOffered { output: Stored::inline(json!("x")) },
        Fact::AgentLeft { by: "x".into(), done: true, failed: None },
    ] {
        assert!(machine.handle(1, &fact).is_err(), "{fact:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever such an agent and the world do: no call without its chain's yes, no answer twice, and every prefix replays.
    #[test]
    fn nothing_is_let_without_a_verdict_and_nothing_answered_twice(
        makes_calls in any::<bool>(),
        steps in prop::collection::vec((0u8..8, any::<u8>(), any::<u8>()), 1..60),
    ) {
        let hooks = vec![hook("p.a", Moment::PreToolCall, None, None), hook("p.b", Moment::PostToolCall, None, None)];
        let mut desk = Desk::new(external(hooks, makes_calls, 1));
        let mut verdicts: HashMap<String, bool> = HashMap::new();
        for (step, pick, dice) in steps {
            if desk.machine.outcome().is_some() {
                break;
            }
            match step {
                0 | 1 => { desk.call("a.x", json!({ "n": pick % 4 })); }
                2 => {
                    let open: Vec<String> = (0..60).map(|i| format!("c{i}")).filter(|c| desk.machine.may_leave(c)).collect();
                    if !open.is_empty() {
                        desk.fact(Fact::CallLeft { call: open[pick as usize % open.len()].clone() });
                    }
                }
                3 if dice % 4 == 0 => {
                    let known: Vec<String> = (0..60).map(|i| format!("c{i}")).filter(|c| desk.machine.knows_call(c)).collect();
                    if !known.is_empty() {
                        desk.fact(Fact::CallCancelled { call: known[pick as usize % known.len()].clone() });
                    }
                }
                4 if dice % 16 == 0 => desk.fact(Fact::OutputOffered { output: Stored::inline(json!("o")) }),
                _ if !desk.under_way.is_empty() => {
                    let command = desk.under_way.remove(pick as usize % desk.under_way.len());
                    let fact = match &command {
                        Command::Ask { effect, .. } => {
                            let outcome = match dice % 4 {
                                0 => HookOutcome::Deny { reason: "d".into() },
                                1 => escalate(),
                                2 => HookOutcome::TimedOut,
                                _ => allow(),
                            };
                            if effect.contains(".pre.") {
                                verdicts.insert(effect.split('.').next().unwrap().to_owned(), dice % 4 == 3);
                            }
                            answered(effect, outcome)
                        }
                        Command::OpenApproval { effect, .. } => {
                            if effect.contains(".pre.") {
                                verdicts.insert(effect.split('.').next().unwrap().to_owned(), dice % 2 == 0);
                            }
                            decided(&command, dice % 2 == 0)
                        }
                        other => returned(other.effect().unwrap(), "r"),
                    };
                    desk.fact(fact);
                }
                _ => {}
            }
        }
        for command in &desk.begun {
            if let Command::LetCall { call, .. } | Command::CallTool { call, .. } = command {
                prop_assert_eq!(verdicts.get(call), Some(&true), "{} was not allowed", call);
            }
        }
        let calls: Vec<&str> = desk.replies().iter().map(|(c, _)| *c).collect();
        let once: BTreeSet<&&str> = calls.iter().collect();
        prop_assert_eq!(once.len(), calls.len(), "answered twice: {:?}", calls);
        let whole = texts(&desk.history);
        for end in 1..=whole.len() {
            prop_assert!(replay(whole[..end].to_vec()).is_ok(), "prefix {}", end);
        }
        desk.check_replay();
    }
}

#[test]
fn an_escalation_is_asked_about_there_only_where_all_of_it_can_be_shown_and_nobody_is_named() {
    let new = Stored::inline(json!({"command": "ls -l"}));
    for (asks_there, changed, named, makes_calls, there) in [
        (AsksThere::No, false, false, true, false),
        (AsksThere::Unchanged, false, false, true, true),
        (AsksThere::Unchanged, true, false, true, false),
        (AsksThere::Any, true, false, true, true),
        (AsksThere::Any, false, true, true, false),
        (AsksThere::Any, false, false, false, false),
    ] {
        let mut last = hook("p.last", Moment::PreToolCall, None, None);
        if named {
            last.approvers = vec!["ada".into()];
        }
        let mut desk =
            Desk::new(external(vec![hook("p.first", Moment::PreToolCall, None, None), last], makes_calls, 0));
        let call = RequestedCall { asks_there, ..request("claude-code.Bash", json!({"command": "ls"})) };
        desk.fact(Fact::CallRequested { id: "c0".into(), call });
        let first = if changed { HookOutcome::Modify { value: new.clone(), reason: None } } else { allow() };
        desk.ends("c0.pre.h0", &says(first));
        desk.ends("c0.pre.h1", &says(escalate()));
        let what = (asks_there, changed, named, makes_calls);
        match desk.begun.last() {
            Some(Command::LetCall { asked, grant: None, changed: told, .. }) if there => {
                assert_eq!((asked.len(), &*asked[0].hook, &*asked[0].reason), (1, "p.last", "ask ada"), "{what:?}");
                assert_eq!(*told, changed, "{what:?}");
                // What the person says is not heard; that the call was made is.
                desk.ends("c0.call", &|c| returned(c.effect().unwrap(), "a b"));
                assert!(matches!(desk.replies()[0].1, CallReply::Result { .. }), "{what:?}");
            }
            Some(Command::OpenApproval { .. }) if !there => {}
            other => panic!("{what:?}: {other:?}"),
        }
        desk.check_replay();
    }
}

#[test]
fn a_call_that_a_person_there_did_not_want_has_no_end_and_lets_the_job_end() {
    let mut desk = Desk::new(external(vec![hook("p.check", Moment::PreToolCall, None, None)], true, 0));
    let call = RequestedCall { asks_there: AsksThere::Any, ..request("claude-code.Bash", json!({})) };
    desk.fact(Fact::CallRequested { id: "c0".into(), call });
    desk.ends("c0.pre.h0", &says(escalate()));
    desk.fact(Fact::OutputOffered { output: Stored::inline(json!("done")) });
    assert!(matches!(desk.machine.outcome(), Some(Outcome::Completed { .. })), "{:?}", desk.machine.outcome());
    assert_eq!(
        text(desk.replies()[0].1),
        "It is not known whether the call to claude-code.Bash was made: the job ended meanwhile. Check before you call it again."
    );
    desk.check_replay();
}
