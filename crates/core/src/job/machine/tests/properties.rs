//! What holds for all jobs, whatever happens in whatever order.

use super::*;
use proptest::prelude::*;

/// A rich world: what an effect's end is depends only on its id and the seed.
fn rich(seed: u64) -> (JobSpec, impl Fn(&Command) -> Fact) {
    let mut hooks = vec![
        hook("p.start", Moment::JobStart, None, None),
        hook("p.a", Moment::PreToolCall, Some(&["a.*"]), None),
        hook("p.b", Moment::PreToolCall, None, None),
        hook("p.c", Moment::PreToolCall, Some(&["*.x"]), None),
        hook("p.post", Moment::PostToolCall, None, None),
        hook("p.end", Moment::JobEnd, None, None),
    ];
    hooks[2].on_timeout = crate::manifest::OnTimeout::Escalate;
    hooks[3].on_timeout = crate::manifest::OnTimeout::Allow;
    let mut s = spec(hooks);
    s.limits.parallel_calls = 3;
    // So small that a few turns fill it.
    s.agent.context_window = (seed % 3 == 1).then_some(260);
    s.lifecycle = Some(LifecycleSpec {
        servers: vec!["todo".into(), "memory".into()],
        timeout_ms: 1,
        max_rejections: 2,
        rejections_used: 0,
        session_start: true,
    })
    .filter(|_| seed % 2 == 1);
    let dice = move |effect: &str, sides: u64| {
        let h = json::sha256_hex(format!("{seed} {effect}").as_bytes());
        u64::from_str_radix(&h[..12], 16).unwrap() % sides
    };
    let oracle = move |c: &Command| match c {
        Command::Ask { effect, head, .. } => {
            let deny_at_job = !head.event.is_call();
            let value = match head.event {
                Moment::PreToolCall => json!({"changed": effect}),
                _ => json!(format!("changed {effect}")),
            };
            answered(
                effect,
                match dice(effect, if deny_at_job { 14 } else { 8 }) {
                    0 => HookOutcome::Deny { reason: "d".into() },
                    1 => HookOutcome::Escalate { reason: "e".into() },
                    2 => HookOutcome::TimedOut,
                    3 | 4 => HookOutcome::Modify { value: Stored::inline(value), reason: None },
                    _ => HookOutcome::Allow { reason: None },
                },
            )
        }
        Command::CallModel { effect, turn: n, .. } => {
            let calls: Vec<(&str, Value)> = (0..dice(effect, 6))
                .map(|i| (["a.x", "a.y", "b.x", "b.y"][dice(&format!("{effect}{i}"), 4) as usize], json!({ "i": i })))
                .collect();
            turn(effect, "text", if *n > 4 { &[] } else { &calls })
        }
        Command::CallTool { effect, .. } => match dice(effect, 6) {
            0 => Fact::ToolReturned {
                effect: effect.clone(),
                outcome: ToolOutcome::Unknown { why: "died".into() },
                ms: 1.0,
            },
            1 => Fact::ToolReturned {
                effect: effect.clone(),
                outcome: ToolOutcome::NotMade { why: "down".into() },
                ms: 1.0,
            },
            _ => returned(effect, effect),
        },
        Command::OpenApproval { effect, approval } => match dice(effect, 4) {
            0 => Fact::ApprovalExpired { effect: effect.clone(), approval: approval.id.clone() },
            n => decided(c, n > 1),
        },
        Command::AskLifecycle { effect, servers, .. } => {
            let answer = |server: &String| {
                let said = dice(&format!("{effect} {server}"), 4);
                let body = Stored::inline(json!(server));
                let outcome = match said {
                    0 => LifecycleOutcome::Text { body },
                    1 => LifecycleOutcome::TimedOut { after_ms: 1, killed: false },
                    _ => LifecycleOutcome::Nothing,
                };
                (said < 3).then(|| LifecycleAnswer { server: server.clone(), outcome, ms: 1.0 })
            };
            Fact::LifecycleAnswered { effect: effect.clone(), answers: servers.iter().filter_map(answer).collect() }
        }
        Command::Compact { effect, plan, .. } => {
            let (asked, lucky) = (plan.summary_tokens > 0, dice(effect, 3) > 0);
            let summary = (asked && lucky).then(|| Stored::inline(json!(format!("summary {effect}"))));
            let fault = (asked && !lucky).then(|| "down".to_owned());
            Fact::Compacted { effect: effect.clone(), summary, fault, turns: 1, go_on: None, usage: None, ms: 1.0 }
        }
        Command::LetCall { .. }
        | Command::Admit { .. }
        | Command::Answer { .. }
        | Command::SendBack { .. }
        | Command::CloseApproval { .. }
        | Command::Finish { .. } => panic!("{c:?}"),
    };
    (s, oracle)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_order_of_arrival_gives_the_same_end(seed in any::<u64>(), picks in prop::collection::vec(any::<usize>(), 1..64)) {
        let (s, oracle) = rich(seed);
        let a = run(s.clone(), &oracle, first);
        let mut i = 0;
        let b = run(s, &oracle, |n| { i += 1; picks[i % picks.len()] % n });
        prop_assert_eq!(a.machine.outcome(), b.machine.outcome());
        prop_assert_eq!(a.machine.conversation(), b.machine.conversation());
        let sorted = |r: &Run| {
            let mut all: Vec<String> = r.commands.iter().map(|c| {
                let mut c = c.clone();
                // The time of opening is the one thing of a grant that depends on the order of arrival.
                if let Command::CallTool { grant: Some(grant), .. } = &mut c { grant.expires_ms = 0; }
                serde_json::to_string(&c).unwrap()
            }).collect();
            all.sort();
            all
        };
        prop_assert_eq!(sorted(&a), sorted(&b));
    }

    #[test]
    fn a_call_is_never_commanded_before_its_chain_has_allowed_it(seed in any::<u64>(), picks in prop::collection::vec(any::<usize>(), 1..64)) {
        let (s, oracle) = rich(seed);
        let mut i = 0;
        let r = run(s, &oracle, |n| { i += 1; picks[i % picks.len()] % n });
        // Read from the history alone: at each begun call, its own chain must have ended well.
        let mut said: BTreeMap<String, HookOutcome> = BTreeMap::new();
        let mut approved: BTreeMap<String, bool> = BTreeMap::new();
        for record in &r.history {
            match &record.fact {
                Fact::HookAnswered { effect, outcome, .. } => {
                    let call = effect.rsplit_once(".h").unwrap().0;
                    prop_assert!(
                        !said.iter().any(|(e, o)| e.starts_with(&format!("{call}.h")) && matches!(o, HookOutcome::Deny { .. })),
                        "asked after a deny"
                    );
                    said.insert(effect.clone(), outcome.clone());
                }
                Fact::ApprovalDecided { effect, approve, .. } => { approved.insert(effect.clone(), *approve); }
                Fact::Begun { command: Command::CallTool { call, tool, .. } } => {
                    let spec = r.machine.spec();
                    let mut escalated = false;
                    for h in spec.hooks.matching(Moment::PreToolCall, "dev", &[&tool.to_string()]) {
                        match said.get(&format!("{call}.pre.h{h}")) {
                            Some(HookOutcome::Allow { .. } | HookOutcome::Modify { .. }) => {}
                            Some(HookOutcome::Escalate { .. }) => escalated = true,
                            Some(o @ (HookOutcome::TimedOut | HookOutcome::Failed { .. })) => match spec.hooks.hooks[h].on_timeout {
                                crate::manifest::OnTimeout::Escalate => escalated = true,
                                crate::manifest::OnTimeout::Allow => {}
                                crate::manifest::OnTimeout::Deny => prop_assert!(false, "called after {:?}", o),
                            },
                            other => prop_assert!(false, "called after {:?}", other),
                        }
                    }
                    prop_assert_eq!(escalated, approved.get(&format!("{call}.pre.approval")) == Some(&true));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn replay_of_any_prefix_yields_the_same_commands(seed in any::<u64>(), picks in prop::collection::vec(any::<usize>(), 1..32), cut in any::<prop::sample::Index>()) {
        let (s, oracle) = rich(seed);
        let mut i = 0;
        let r = run(s, &oracle, |n| { i += 1; picks[i % picks.len()] % n });
        let all = texts(&r.history);
        let (whole, _) = replay(&all).unwrap();
        prop_assert_eq!(&whole, &r.machine);
        let cut = cut.index(all.len()) + 1;
        let (prefix, head) = replay(&all[..cut]).unwrap();
        prop_assert_eq!(head.records as usize, cut);
        // What is left to do is what the run did begin next: feed the rest, nothing may be a surprise.
        let mut going_on: Machine = serde_json::from_str(&serde_json::to_string(&prefix).unwrap()).unwrap();
        for record in &r.history[cut..] {
            prop_assert!(going_on.handle(record.at_ms, &record.fact).is_ok());
        }
        prop_assert_eq!(going_on.outcome(), r.machine.outcome());
    }
}
