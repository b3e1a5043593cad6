//! The configuration is read again.

use super::*;
use crate::support::lives;
use rustix::process::Signal;

fn reload(world: &World) -> Vec<String> {
    let told = world.call(&["reload", "--output", "json"]).code(0).json();
    assert_eq!(told["ok"], true);
    told["changes"].as_array().unwrap().iter().map(|what| what.as_str().unwrap().to_owned()).collect()
}

/// The process of a tenant's server, as soon as it is there.
fn pid(world: &World, folder: &str) -> i32 {
    eventually("the server runs", || {
        std::fs::read_to_string(world.path(&format!("{folder}.pid"))).ok()?.trim().parse().ok()
    })
}

/// Has a plugin's policy server write its process's number, and answer this.
fn with_pid(world: &World, folder: &str, file: &str, check: Value) {
    let script = json!({
        "log": world.path(&format!("{file}-policy.log")),
        "start": [{"write_pid": world.path(&format!("{file}.pid"))}],
        "tools": [function("check", check)],
    });
    let path = world.write(&format!("{folder}/{file}.json"), script.to_string());
    let mut manifest: Value =
        serde_json::from_slice(&std::fs::read(world.path(&format!("{folder}/plugin.yaml"))).unwrap()).unwrap();
    manifest["tools"][0]["mcp"][1] = json!(path);
    world.write(&format!("{folder}/plugin.yaml"), manifest.to_string());
}

#[test]
fn what_has_changed_is_taken_over_and_told_and_the_rest_stays_warm() {
    let world = two(allow(), allow());
    with_pid(&world, "one", "kept", allow());
    with_pid(&world, "two", "before", allow());
    let tenants = |more: Value| {
        let mut all = vec![json!({"id": "a", "plugins": ["one"]}), json!({"id": "b", "plugins": ["two"]})];
        all.extend(more.as_array().unwrap().clone());
        configure(&world, json!(all));
    };
    tenants(json!([]));
    let node = serve(&world, &[]);
    let (kept, before) = (pid(&world, "kept"), pid(&world, "before"));
    assert_eq!(reload(&world), Vec::<String>::new());
    plugin(&world, "three", allow(), json!({}), pushes());
    with_pid(&world, "two", "after", says("deny", json!({"reason": "the new one"})));
    tenants(json!([{"id": "c", "plugins": ["three"]}]));
    let told = reload(&world);
    for what in [
        "tenant b: plugin two has changed",
        "tenant b: tool policy is started anew",
        "tenant c: is new",
        "tenant c: tool git is started",
    ] {
        assert!(told.iter().any(|line| line == what), "{what} of {told:?}");
    }
    assert!(!told.iter().any(|line| line.contains("tenant a")), "{told:?}");
    assert!(!told.iter().any(|line| line == "tenant b: tool git is started anew"), "{told:?}");
    let after = pid(&world, "after");
    assert!(!lets(&world, &["--tenant", "b"], "c") && lets(&world, &["--tenant", "c"], "c"));
    assert_eq!(pid(&world, "kept"), kept, "one that is as it was is not started again");
    eventually("one that nobody needs ends", || (!lives(before)).then_some(()));
    assert!(lives(kept) && lives(after));
    let text = world.call(&["status"]).code(0);
    assert!(text.out.contains("taken over") && text.out.contains("tenant c: is new"), "{text}");
    // A tenant that is gone: its bridge's calls are denied.
    tenants(json!([]));
    // By the signal, as by the command; and the node stays.
    node.signal(Signal::HUP);
    eventually("it is read again", || {
        status(&world)["reload"]["changes"].to_string().contains("tenant c: is gone").then_some(())
    });
    assert!(!lets(&world, &["--tenant", "c"], "d"));
    bridge(&world, &["--tenant", "b"], "c", "SessionEnd");
    stop(&world, node);
    assert!(!lives(kept) && !lives(after));
}

#[test]
fn a_job_under_way_keeps_its_hooks_and_servers_to_its_end() {
    let world = two(allow(), allow());
    with_pid(&world, "one", "old", allow());
    configure(&world, json!([{"id": "a", "plugins": ["one"]}]));
    let node = serve(&world, &[]);
    assert!(lets(&world, &[], "long"));
    let old = pid(&world, "old");
    with_pid(&world, "one", "new", says("deny", json!({"reason": "the new one"})));
    configure(&world, json!([{"id": "a", "plugins": ["one"]}]));
    assert!(reload(&world).iter().any(|line| line == "tenant a: tool policy is started anew"));
    pid(&world, "new");
    // The same conversation is the same job: its own hook, on its own server; a new one has the new hook.
    assert!(lets(&world, &[], "long"));
    assert!(!lets(&world, &[], "other"));
    assert!(lets(&world, &[], "long") && lives(old));
    assert_eq!((world.calls("old-policy").len(), world.calls("new-policy").len()), (3, 1));
    bridge(&world, &[], "long", "SessionEnd");
    eventually("its server ends with it", || (!lives(old)).then_some(()));
    bridge(&world, &[], "other", "SessionEnd");
    stop(&world, node);
}

#[test]
fn a_broken_configuration_is_refused_as_a_whole_with_all_its_faults() {
    let world = two(allow(), says("deny", json!({"reason": "the old one"})));
    let node = serve(&world, &NAMED);
    let warm = || status(&world)["tenants"].clone();
    let before = eventually("all are warm", || Some(warm()).filter(|all| !all.to_string().contains("starting")));
    let refused = |faults: &[&str]| {
        let told =
            world.call(&["reload", "--db", "jobs.db"]).code(2).tells(&["everything stays as it was"]).tells(faults);
        assert!(told.out.is_empty(), "{told}");
        let now = status(&world);
        assert_eq!((&now["reload"]["ok"], &now["tenants"]), (&json!(false), &before));
        assert!(!lets(&world, &["--tenant", "b"], "c"), "the old hook is asked");
    };
    // The file itself: all that is wrong with it.
    let text = "tenants:\n  - id: a\n    plugin: [one]\n    limits: {max_turns: 0}\n  - id: a\n    plugins: []\n";
    world.write("hookwright.yaml", text);
    refused(&["unknown key", "max_turns", "second tenant"]);
    // Manifests of several tenants, beside a tenant that would be good, and one whose plugin is not there.
    plugin(&world, "two", allow(), json!({"timeout": "31s"}), pushes());
    plugin(&world, "one", allow(), json!({"on_timeout": "maybe"}), pushes());
    write(
        &world,
        json!([
            {"id": "a", "plugins": ["one"]}, {"id": "b", "plugins": ["two"]}, {"id": "c", "plugins": []},
            {"id": "d", "plugins": ["nowhere"]},
        ]),
    );
    refused(&["maybe", "31s", "nowhere"]);
    let text = world.call(&["status", "--db", "jobs.db"]).code(0);
    assert!(text.out.contains("REFUSED, everything stayed as it was"), "{text}");
    bridge(&world, &["--tenant", "b"], "c", "SessionEnd");
    stop(&world, node);
}

#[test]
fn what_is_not_trusted_any_more_is_not_taken_over() {
    let world = two(allow(), says("deny", json!({"reason": "the old one"})));
    let node = serve(&world, &[]);
    let mut manifest = std::fs::read_to_string(world.path("two/plugin.yaml")).unwrap();
    manifest.push('\n');
    world.write("two/plugin.yaml", manifest);
    let again = ["reload", "--db", "jobs.db"];
    let why = ["everything stays as it was", "has changed since it was trusted", "two/plugin.yaml", "hookwright trust"];
    world.call(&again).code(2).tells(&why);
    assert!(!lets(&world, &["--tenant", "b"], "c"));
    std::fs::remove_file(world.path("hookwright.yaml")).unwrap();
    world.call(&again).code(2).tells(&["the configuration is gone"]);
    configure(&world, json!([{"id": "a", "plugins": ["one"]}, {"id": "b", "plugins": ["two"]}]));
    assert_eq!(reload(&world), ["tenant b: plugin two has changed"]);
    bridge(&world, &["--tenant", "b"], "c", "SessionEnd");
    stop(&world, node);
}

#[test]
fn without_a_node_there_is_nothing_to_read_again() {
    let world = two(allow(), allow());
    world.call(&["reload"]).code(1).tells(&["no node runs"]);
}
