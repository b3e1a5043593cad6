//! A process that is killed (SIGKILL) before and after every commit and every effect of a rich job, and goes on (SPEC §8).
//!
//! What must hold wherever it dies: no call that is not idempotent is made twice, no recorded answer is asked again, what was
//! interrupted is settled as the law says, and the history verifies and replays.

use crate::support::{Plugin, Running, World, function, says};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;

/// Builds with debug assertions die where this says.
const CRASH_AT: &str = "HOOKWRIGHT_TEST_CRASH_AT";
const KINDS: [&str; 4] = ["before_commit", "after_commit", "before_effect", "after_effect"];
/// More points than the job has.
const MANY: u32 = 200;

/// Hooks at all four moments, modify, an escalation, parallel calls, one denied, one idempotent, one large.
fn rich() -> World {
    let on = |when: Value, then: Value| json!({"when": when, "then": [then]});
    let cases = json!({"cases": [
        on(json!({"/event/event": "job_start"}), says("modify", json!({"input": "Do it well."}))),
        on(json!({"/event/event": "job_end"}), says("modify", json!({"output": "done, signed"}))),
        on(json!({"/event/event": "post_tool_call", "/event/tool": "git.read"}), says("modify", json!({"result": "read, seen"}))),
        on(json!({"/event/event": "pre_tool_call", "/event/arguments/n": 2}), says("deny", json!({"reason": "two"}))),
        on(json!({"/event/event": "pre_tool_call", "/event/arguments/n": 5}), says("escalate", json!({"reason": "five"}))),
        {"then": [says("allow", json!({}))]},
    ]});
    let mut plugin = Plugin::new("p")
        .server("policy", json!([function("check", cases)]))
        .scripted(
            "git",
            json!({"tools": [
                function("push", json!({"text": "pushed {arguments}"})),
                function("read", json!({"text": "read"})),
                function("big", json!({"big_text": 100_000})),
            ]}),
            json!({"idempotent": ["read"]}),
        )
        .turns(json!([
            {"call": [
                {"tool": "git.push", "with": {"n": 1}}, {"tool": "git.push", "with": {"n": 2}},
                {"tool": "git.read", "with": {"n": 3}}, {"tool": "git.big", "with": {"n": 4}},
            ]},
            {"call": {"tool": "git.push", "with": {"n": 5}}},
            {"say": "done"}
        ]));
    for on in ["job_start", "pre_tool_call", "post_tool_call", "job_end"] {
        plugin = plugin.hook(json!({"on": on, "call": "policy.check", "timeout": "30s"}));
    }
    World::with(plugin)
}

/// The one job of the store and its records, where it was begun.
fn stored(world: &World) -> Option<(String, String, Vec<Value>)> {
    let db = Connection::open_with_flags(world.path("jobs.db"), OpenFlags::SQLITE_OPEN_READ_WRITE).ok()?;
    let (id, status) = db.query_row("SELECT id, status FROM jobs", [], |row| Ok((row.get(0)?, row.get(1)?))).ok()?;
    let mut texts = db.prepare("SELECT text FROM history ORDER BY seq").unwrap();
    let records = texts.query_map([], |row| row.get::<_, String>(0)).unwrap();
    Some((id, status, records.map(|text| serde_json::from_str(&text.unwrap()).unwrap()).collect()))
}

/// How often each ask reached the hook's server: the moment and the call.
fn asks(world: &World) -> BTreeMap<(String, String), usize> {
    let mut asks = BTreeMap::new();
    for (_, arguments) in world.calls("policy") {
        let text = |key: &str| arguments["event"][key].as_str().unwrap_or_default().to_owned();
        *asks.entry((text("event"), text("call"))).or_default() += 1;
    }
    asks
}

/// Asks whose answers are recorded.
fn answered(records: &[Value]) -> Vec<(String, String)> {
    let effects: Vec<&str> =
        records.iter().filter(|r| r["kind"] == "hook_answered").map(|r| r["effect"].as_str().unwrap()).collect();
    let begun = records.iter().filter(|r| r["kind"] == "begun").map(|r| &r["command"]);
    let text = |head: &Value, key: &str| head[key].as_str().unwrap_or_default().to_owned();
    begun
        .filter(|c| c["do"] == "ask" && effects.contains(&c["effect"].as_str().unwrap()))
        .map(|c| (text(&c["head"], "event"), text(&c["head"], "call")))
        .collect()
}

/// Runs or resumes with a crash point; whether it died there.
fn dies(world: &World, args: &[&str], point: &str) -> bool {
    let mut command = if args.is_empty() { world.job(&["--approve", "yes"]) } else { world.hookwright(args) };
    command.env(CRASH_AT, point);
    let finished = Running::start(command).finish();
    match finished.status.signal() {
        Some(9) => true,
        None => {
            assert_eq!(finished.status.code(), Some(0), "{point}\n{finished}");
            false
        }
        Some(_) => panic!("{point}\n{finished}"),
    }
}

/// What a dead process left: what was asked so far, and which answers were recorded.
struct Left {
    asks: BTreeMap<(String, String), usize>,
    answered: Vec<(String, String)>,
}

fn left(world: &World) -> Left {
    let answered = stored(world).map(|(_, _, records)| answered(&records)).unwrap_or_default();
    Left { asks: asks(world), answered }
}

/// Goes on to the end, and checks everything that must hold. `lefts` is what each of the dead processes left.
fn goes_on(world: &World, point: &str, mut lefts: Vec<Left>) {
    let Some((job, status, _)) = stored(world) else {
        assert!(
            asks(world).is_empty() && world.calls("git").is_empty(),
            "{point}: an effect of a job that was not begun"
        );
        return;
    };
    if status != "completed" {
        let resumed = world.call(&["jobs", "resume", &job, "--db", "jobs.db", "--approve", "yes", "--output", "json"]);
        assert_eq!(resumed.status.code(), Some(0), "{point}\n{resumed}");
        assert_eq!(resumed.json()["output"], "done, signed", "{point}");
    }
    let (_, status, records) = stored(world).unwrap();
    assert_eq!(status, "completed", "{point}");

    let mut made = BTreeMap::<i64, usize>::new();
    for (_, arguments) in world.calls("git") {
        *made.entry(arguments["n"].as_i64().unwrap()).or_default() += 1;
    }
    let made = |n: i64| made.get(&n).copied().unwrap_or_default();
    let ended = |n: &str| {
        let ends: Vec<&Value> = records.iter().filter(|r| r["kind"] == "tool_returned" && r["effect"] == n).collect();
        assert_eq!(ends.len(), 1, "{point}: {n} has one end");
        ends[0]["outcome"]["end"].as_str().unwrap()
    };
    for (n, effect) in [(1, "t1.c0.call"), (4, "t1.c3.call"), (5, "t2.c0.call")] {
        match ended(effect) {
            "returned" => assert_eq!(made(n), 1, "{point}: {effect}"),
            "unknown" => assert!(made(n) <= 1, "{point}: {effect} was made {} times", made(n)),
            other => panic!("{point}: {effect} ended as {other}"),
        }
    }
    assert_eq!(made(2), 0, "{point}: a denied call was made");
    assert_eq!(ended("t1.c2.call"), "returned", "{point}: an idempotent call is made again");
    assert!((1..=1 + lefts.len()).contains(&made(3)), "{point}: {} times", made(3));

    let asks = asks(world);
    for left in &mut lefts {
        for ask in left.answered.drain(..) {
            assert_eq!(left.asks.get(&ask), asks.get(&ask), "{point}: {ask:?} was recorded and asked again");
        }
    }
    assert!(asks.values().all(|times| *times <= lefts.len() + 1), "{point}: {asks:?}");
    let decided = records.iter().filter(|r| r["kind"] == "approval_decided").count();
    assert_eq!(decided, 1, "{point}: one decision");

    world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
    world.call(&["replay", &job, "--db", "jobs.db"]).code(0);
}

#[test]
fn a_job_goes_on_wherever_its_process_is_killed() {
    let handles = KINDS.map(|kind| {
        std::thread::spawn(move || {
            let mut points = 0;
            for n in 0..MANY {
                let world = rich();
                let point = format!("{kind}:{n}");
                let died = dies(&world, &[], &point);
                goes_on(&world, &point, if died { vec![left(&world)] } else { vec![] });
                if !died {
                    break;
                }
                points += 1;
            }
            (kind, points)
        })
    });
    for handle in handles {
        let (kind, points) = handle.join().unwrap();
        assert!((8..MANY).contains(&points), "{kind}: {points} points, which is not the job that was meant");
    }
}

#[test]
fn a_job_goes_on_where_the_process_that_goes_on_with_it_is_killed_too() {
    let again =
        ["before_commit:0", "after_commit:0", "after_commit:2", "before_effect:0", "after_effect:0", "after_effect:3"];
    let handles = KINDS.map(|kind| {
        std::thread::spawn(move || {
            let mut twice = 0;
            for (i, second) in again.iter().enumerate() {
                let world = rich();
                let first = format!("{kind}:{}", 1 + 2 * i);
                let point = format!("{first}, then {second}");
                // Answers that come together share a commit: the last of these points may lie beyond the end.
                if !dies(&world, &[], &first) {
                    continue;
                }
                let mut lefts = vec![left(&world)];
                let (job, _, _) = stored(&world).unwrap();
                if dies(&world, &["jobs", "resume", &job, "--db", "jobs.db", "--approve", "yes"], second) {
                    lefts.push(left(&world));
                    twice += 1;
                }
                goes_on(&world, &point, lefts);
            }
            twice
        })
    });
    for handle in handles {
        assert!(handle.join().unwrap() >= 3, "most of these processes die twice");
    }
}
