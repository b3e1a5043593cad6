//! `hookwright doctor` on real stores, nodes and plugins.

use crate::node::serve_plugins;
use crate::support::{Finished, Plugin, Running, World, eventually, exactly, function, says};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

fn checked() -> World {
    World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", says("allow", json!({})))]))
            .server("git", json!([function("push", json!({"text": "pushed"}))]))
            .hook(json!({"on": "pre_tool_call", "call": "policy.check"}))
            .turns(json!([{"call": {"tool": "git.push"}}, {"expect": exactly("pushed"), "say": "done"}])),
    )
}

fn doctor(world: &World) -> Finished {
    let mut args = vec!["doctor".to_owned(), "--db".into(), "jobs.db".into(), "--output".into(), "json".into()];
    args.extend(world.plugins());
    world.call(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// What is said about an area, of findings that are not in order.
fn wrong(report: &Value, about: &str) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    let of_it = findings.filter(|finding| finding["about"] == about && finding["level"] != "ok");
    of_it
        .map(|finding| format!("{}: {}", finding["level"].as_str().unwrap(), finding["said"].as_str().unwrap()))
        .collect()
}

#[test]
fn a_sound_store_with_its_plugins_is_in_order_before_and_after_a_job() {
    let world = checked();
    let before = doctor(&world).code(0).json();
    assert_eq!(
        (&before["ok"], &before["problems"], &before["warnings"]),
        (&json!(true), &json!(0), &json!(0)),
        "{before:#}"
    );
    assert!(!world.path("jobs.db").exists(), "it makes nothing");
    world.run(&[]).code(0);
    let after = doctor(&world).code(0).json();
    assert_eq!((&after["problems"], &after["warnings"]), (&json!(0), &json!(0)), "{after:#}");
    let text = world.call(&["doctor", "--db", "jobs.db", &world.plugins()[0]]).code(0).out;
    for part in ["intact", "2 servers answered, 1 hook loaded", "nothing is wrong"] {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
}

#[test]
fn a_store_that_others_can_write_to_and_one_that_is_damaged_are_problems() {
    let world = checked();
    world.run(&[]).code(0);
    let file = world.path("jobs.db");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    let found = doctor(&world).code(1).json();
    assert!(wrong(&found, "store").iter().any(|said| said.contains("decide in your name")), "{found:#}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    // Whole pages in the middle of the file.
    let mut bytes = std::fs::read(&file).unwrap();
    let (from, to) = (4_096 * 2, bytes.len().min(4_096 * 12));
    bytes[from..to].fill(0xa5);
    std::fs::write(&file, bytes).unwrap();
    let found = doctor(&world).code(1).json();
    let said = wrong(&found, "store");
    assert!(said.iter().any(|said| said.starts_with("problem: it ")), "{found:#}");
}

#[test]
fn a_server_that_does_not_start_and_a_hook_that_is_not_listed_are_problems() {
    let world = checked();
    let manifest = world.path("p/plugin.yaml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("policy.check", "policy.chek")).unwrap();
    let found = doctor(&world).code(1).json();
    assert!(wrong(&found, "plugins").iter().any(|said| said.contains("chek")), "{found:#}");
}

#[test]
fn a_job_whose_process_was_killed_is_without_one_after_a_minute_and_not_before() {
    let world = World::with(
        Plugin::new("p")
            .server("git", json!([function("push", json!([{"await_cancel": true}]))]))
            .turns(json!([{"call": {"tool": "git.push"}}, {"say": "done"}])),
    );
    let running = Running::start(world.job(&[]));
    eventually("the call is made", || (!world.calls("git").is_empty()).then_some(()));
    running.signal(Signal::KILL);
    running.finish();
    assert_eq!(wrong(&doctor(&world).json(), "jobs"), Vec::<String>::new());
    // The rows' times are what is looked at: as if it had happened two minutes ago.
    let store = rusqlite::Connection::open(world.path("jobs.db")).unwrap();
    store.execute("UPDATE jobs SET updated_ms = updated_ms - 120000", []).unwrap();
    drop(store);
    let found = doctor(&world).code(1).json();
    assert!(wrong(&found, "jobs")[0].contains("no process runs"), "{found:#}");
}

#[test]
fn plugins_that_changed_under_a_node_are_a_warning_and_a_node_that_hangs_is_a_problem() {
    let world = checked();
    let node = serve_plugins(&world);
    assert_eq!(wrong(&doctor(&world).json(), "plugins"), Vec::<String>::new());
    let manifest = world.path("p/plugin.yaml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, format!("{text}\n# changed\n")).unwrap();
    let said = wrong(&doctor(&world).json(), "plugins");
    assert!(said[0].starts_with("warning: p changed"), "{said:?}");
    node.signal(Signal::STOP);
    let found = doctor(&world).code(1).json();
    assert!(wrong(&found, "node")[0].starts_with("problem: "), "{found:#}");
    node.signal(Signal::CONT);
    world.call(&["stop", "--db", "jobs.db"]).code(0);
    node.finish();
}
