//! People: yes, no, expiry, restarts in between, two at once, and a cancel while they think.

use super::{completed, effects, records};
use crate::engine::{Begin, Decided, Found, Mount, Stage, approvals, end, normal};
use crate::plugin::{Plugin, exactly, function, says};
use serde_json::{Value, json};

/// A job whose one call is asked about, and reads this afterwards.
fn asks(stage: Stage, keys: &Value, reads: &str) -> Stage {
    let mut hook = json!({"on": "pre_tool_call", "call": "policy.check", "timeout": "30s"});
    hook.as_object_mut().into_iter().for_each(|hook| hook.extend(keys.as_object().cloned().unwrap_or_default()));
    let push = stage.appends("push", "pushed {arguments}", "pushed");
    stage.with(
        Plugin::new("p")
            .server("policy", json!([function("check", says("escalate", json!({"reason": "a push"})))]))
            .server("fx", json!([push]))
            .hook(hook)
            .turns(json!([{"call": {"tool": "fx.push", "with": {"to": "main"}}}, {"expect": exactly(reads), "say": "done"}])),
    )
}

const PUSHED: &str = "pushed {\"to\":\"main\"}";

fn denied(how: &str) -> String {
    format!("The call to fx.push was not made: hook policy.check denied it: a push ({how}).")
}

/// Each leads where it should.
pub fn yes_no_and_expiry(mount: &dyn Mount) -> Found {
    let no = denied("declined by Ada");
    let expired = denied("expired");
    let rows = [
        ("yes", Some(true), "pushed", "24h"),
        ("no", Some(false), no.as_str(), "24h"),
        ("expiry", None, expired.as_str(), "1s"),
    ];
    rows.map(|(name, says, reads, expires)| {
        let mut engine = mount.open(asks(mount.stage(), &json!({"expires": expires}), reads));
        let job = engine.begin(Begin::agent("worker"));
        if let Some(yes) = says {
            let open = approvals(&*engine, 1);
            assert_eq!(engine.decide(&open[0].1, yes, "Ada", Some("as asked")), Decided::Counted);
        }
        completed(&*engine, &job, "done");
        effects(&*engine, if says == Some(true) { &[PUSHED] } else { &[] });
        assert!(engine.open_approvals().is_empty());
        engine.audit();
        (name.to_owned(), normal(&*engine, &[&job]))
    })
    .into()
}

/// At each moment: the question survives a kill, the answer counts after it, and nothing is asked or called again.
pub fn restarts_in_between(mount: &dyn Mount) -> Found {
    let stage = mount.stage();
    let push = stage.appends("push", "pushed {arguments}", "pushed");
    let mut plugin = Plugin::new("p")
        .server("policy", json!([function("check", says("escalate", json!({"reason": "hm"})))]))
        .server("fx", json!([push]))
        .turns(json!([{"call": {"tool": "fx.push", "with": {"to": "main"}}}, {"expect": "pushed", "say": "done"}]));
    let moments = ["job_start", "pre_tool_call", "post_tool_call", "job_end"];
    for on in moments {
        plugin = plugin.hook(json!({"on": on, "call": "policy.check", "timeout": "30s"}));
    }
    let mut engine = mount.open(stage.with(plugin));
    let job = engine.begin(Begin::agent("worker"));
    for (i, on) in moments.into_iter().enumerate() {
        let open = approvals(&*engine, 1);
        assert_eq!(engine.open_approvals()[0]["event"], on);
        assert_eq!(engine.stage().calls("policy").len(), i + 1);
        effects(&*engine, if i < 2 { &[] } else { &[PUSHED] });
        engine.kill();
        engine.restart(None);
        assert_eq!(engine.decide(&open[0].1, true, "Ada", None), Decided::Counted);
    }
    completed(&*engine, &job, "done");
    effects(&*engine, &[PUSHED]);
    assert_eq!(engine.stage().calls("policy").len(), 4, "nothing is asked again");
    engine.audit();
    vec![("history".into(), normal(&*engine, &[&job]))]
}

/// What is decided while nothing runs is there when something does.
pub fn decided_while_nothing_runs(mount: &dyn Mount) -> Found {
    [true, false]
        .map(|yes| {
            let reads = if yes { "pushed".to_owned() } else { denied("declined by Ada") };
            let mut engine = mount.open(asks(mount.stage(), &json!({}), &reads));
            let job = engine.begin(Begin::agent("worker"));
            let open = approvals(&*engine, 1);
            engine.kill();
            assert_eq!(engine.decide(&open[0].1, yes, "Ada", None), Decided::Counted);
            engine.restart(None);
            completed(&*engine, &job, "done");
            effects(&*engine, if yes { &[PUSHED] } else { &[] });
            engine.audit();
            ((if yes { "yes" } else { "no" }).to_owned(), normal(&*engine, &[&job]))
        })
        .into()
}

/// One of two counts, the other is told so, one after the other and both ways at once.
pub fn decided_twice(mount: &dyn Mount) -> Found {
    let mut engine = mount.open(asks(mount.stage(), &json!({}), "pushed"));
    let job = engine.begin(Begin::agent("worker"));
    let open = approvals(&*engine, 1);
    assert_eq!(engine.decide(&open[0].1, true, "Ada", None), Decided::Counted);
    match engine.decide(&open[0].1, false, "Bob", None) {
        Decided::Told(why) => assert!(why.contains("Ada"), "{why}"),
        Decided::Counted => panic!("two decisions counted"),
    }
    completed(&*engine, &job, "done");
    effects(&*engine, &[PUSHED]);
    let found = normal(&*engine, &[&job]);

    for _ in 0..3 {
        // What the model reads depends on who is first: an empty text fits all.
        let mut engine = mount.open(asks(mount.stage(), &json!({}), ""));
        let job = engine.begin(Begin::agent("worker"));
        let open = approvals(&*engine, 1);
        let (id, engine_ref) = (&open[0].1, &*engine);
        let counted: Vec<(bool, Decided)> = std::thread::scope(|scope| {
            let says = [true, false, true, false];
            let deciding = says.map(|yes| (yes, scope.spawn(move || engine_ref.decide(id, yes, "Ada", None))));
            deciding.into_iter().filter_map(|(yes, thread)| Some((yes, thread.join().ok()?))).collect()
        });
        let counted: Vec<bool> = counted.iter().filter(|(_, d)| *d == Decided::Counted).map(|(yes, _)| *yes).collect();
        assert_eq!(counted.len(), 1, "{counted:?}");
        end(&*engine, &job);
        let history = engine.history(&job);
        let decided = records(&history, "approval_decided");
        assert_eq!((decided.len(), &decided[0]["approve"]), (1, &json!(counted[0])));
        effects(&*engine, if counted[0] { &[PUSHED] } else { &[] });
        engine.audit();
    }
    vec![("history".into(), found)]
}

/// The question is closed with the job, and a yes that comes after it leads to nothing; running or not.
pub fn cancelled_while_it_waits(mount: &dyn Mount) -> Found {
    [false, true]
        .map(|restarted| {
            let mut engine = mount.open(asks(mount.stage(), &json!({}), "pushed"));
            let job = engine.begin(Begin::agent("worker"));
            let open = approvals(&*engine, 1);
            if restarted {
                engine.kill();
                engine.restart(None);
            }
            engine.cancel(&job, "Ada");
            let shown = end(&*engine, &job);
            assert_eq!((&shown["status"], &shown["cancelled_by"]), (&json!("cancelled"), &json!("Ada")), "{shown:#}");
            assert!(engine.open_approvals().is_empty());
            assert!(matches!(engine.decide(&open[0].1, true, "Bob", None), Decided::Told(_)));
            effects(&*engine, &[]);
            engine.audit();
            ((if restarted { "restarted" } else { "running" }).to_owned(), normal(&*engine, &[&job]))
        })
        .into()
}
