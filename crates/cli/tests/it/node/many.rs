//! Several nodes that want to be one, several clients, several tenants.

use super::{jobs, plugins, serve, socket, status, stop, until_completed};
use crate::support::{Plugin, Running, World, eventually, exactly, function, lives, says};
use serde_json::{Value, json};
use std::collections::HashSet;

#[test]
fn starting_it_twice_is_harmless_and_says_who_runs() {
    let world = World::new();
    let node = serve(&world, &[]);
    let pid = node.pid();
    let again = world.call(&["serve", "--db", "jobs.db"]).code(0);
    assert!(again.out.contains(&format!("a node runs already (process {pid})")), "{again}");
    let again = world.call(&["serve", "--db", "./jobs.db", "--output", "json"]).code(0).json();
    assert_eq!((&again["already_running"], &again["pid"]), (&json!(true), &json!(pid)));
    assert_eq!(status(&world)["node"]["pid"], pid);
    stop(&world).tells(&[&format!("the node has ended (process {pid})")]);
    let done = node.finish().code(0);
    assert!(done.out.starts_with("listening on "), "{done}");
    stop(&world).tells(&["no node runs"]);
}

#[test]
fn of_twenty_that_start_a_node_at_once_one_does_and_all_get_it() {
    let world = World::new();
    let args = ["serve", "--db", "jobs.db", "--background", "--idle", "2", "--output", "json"];
    let started: Vec<Running> = (0..20).map(|_| Running::start(world.hookwright(&args))).collect();
    let pids: HashSet<i64> =
        started.into_iter().map(|one| one.finish().code(0).json()["pid"].as_i64().unwrap()).collect();
    assert_eq!(pids.len(), 1, "{pids:?}");
    let pid = i32::try_from(*pids.iter().next().unwrap()).unwrap();
    let socket = socket(&world);
    assert!(lives(pid) && socket.exists());
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    assert_eq!((fields[2], fields[3]), (&*pid.to_string(), &*pid.to_string()), "its group and session are its own");
    // What started it has ended long since; it ends when it has nothing to do, though it is looked at.
    eventually("it ends when it is idle", || {
        world.call(&["status", "--db", "jobs.db"]);
        (!lives(pid)).then_some(())
    });
    assert!(!socket.exists());
    let log = std::fs::read_to_string(world.path("jobs.db-node.log")).unwrap();
    assert!(log.contains("had nothing to do"), "{log}");
    world.call(&["status", "--db", "jobs.db"]).code(1);
}

#[test]
fn a_node_with_work_is_not_idle() {
    let world = World::with(
        Plugin::new("p")
            .server("git", json!([function("push", json!([{"sleep_ms": 3_000}, {"text": "pushed"}]))]))
            .server("policy", json!([function("check", says("escalate", json!({"reason": "a push"})))]))
            .hook(json!({"on": "pre_tool_call", "call": "policy.check", "timeout": "30s"}))
            .turns(json!([{"call": {"tool": "git.push"}}, {"expect": exactly("pushed"), "say": "done"}])),
    );
    world.run(&["--detach"]).code(4);
    let approval = world.open_approval();
    world.call(&["approvals", "approve", &approval, "--db", "jobs.db"]).code(0);
    let node = Running::start(world.hookwright(&["serve", "--db", "jobs.db", "--idle", "1"]));
    node.finish().code(0).tells(&["completed", "had nothing to do"]);
    until_completed(&world);
}

#[test]
fn all_tenants_of_a_configuration_are_warm_and_jobs_have_their_own() {
    let world = World::new();
    for tenant in ["one", "two"] {
        Plugin::new(tenant)
            .server(&format!("{tenant}-policy"), json!([function("check", says("escalate", json!({"reason": "hm"})))]))
            .hook(json!({"on": "job_start", "call": format!("{tenant}-policy.check"), "timeout": "30s"}))
            .turns(json!([{"say": tenant}]))
            .save(&world);
    }
    let config =
        json!({"store": "jobs.db", "tenants": [{"id": "a", "plugins": ["one"]}, {"id": "b", "plugins": ["two"]}]});
    world.write("hookwright.yaml", config.to_string());
    world.call(&["trust"]).code(0);
    let job = ["run", "--tenant", "b", "--input", "x", "--detach", "--output", "json"];
    world.call(&job).code(4);
    let node = serve(&world, &[]);
    let hooks = eventually("all hooks are loaded", || {
        let status = status(&world);
        let hooks: Vec<Value> = status["tenants"]
            .as_array()?
            .iter()
            .flat_map(|tenant| tenant["plugins"][0]["hooks"].as_array().unwrap().clone())
            .collect();
        hooks.iter().all(|hook| hook["declared"] == true && hook["loaded"] == true).then_some(hooks)
    });
    assert_eq!(hooks.len(), 2);
    let status = status(&world);
    assert!(status["node"]["config"].as_str().unwrap().ends_with("hookwright.yaml"));
    assert!(status["node"]["config_digest"].is_string());
    let tool = &status["tenants"][1]["plugins"][0]["tools"][0];
    assert_eq!((&tool["id"], &tool["state"], &tool["starts"]), (&json!("two-policy"), &json!("ready"), &json!(1)));
    let approval = world.open_approval();
    world.call(&["approvals", "approve", &approval]).code(0);
    until_completed(&world);
    let shown = world.call(&["jobs", "show", jobs(&world)[0]["job"].as_str().unwrap(), "--output", "json"]).code(0);
    assert_eq!(shown.json()["output"], "two");
    stop(&world);
    node.finish().code(0);
}

#[test]
fn a_hook_that_is_not_there_and_a_server_that_dies_are_shown() {
    let world = World::new();
    let pid = world.path("pid");
    let check = json!([function("check", says("allow", json!({})))]);
    Plugin::new("p")
        .scripted("policy", json!({"start": [{"write_pid": pid}], "tools": check}), json!({}))
        .scripted("bad", json!({"initialize": "exit"}), json!({}))
        .hook(json!({"on": "job_start", "call": "policy.check"}))
        .hook(json!({"on": "job_end", "call": "policy.chekc"}))
        .save(&world);
    let flags = plugins(&world);
    let node = serve(&world, &flags.iter().map(String::as_str).collect::<Vec<_>>());
    let until = |parts: &[&str]| {
        eventually("status shows it", || {
            let text = world.call(&["status", "--db", "jobs.db"]).code(0).out;
            parts.iter().all(|part| text.contains(part)).then_some(())
        });
    };
    until(&["policy.check         loaded", "policy.chekc         NOT LOADED", "bad            stdio failed"]);
    let server = std::fs::read_to_string(&pid).unwrap().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(server).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
    until(&["stdio ready, 1 restart, 1 function", "policy.check         loaded"]);
    stop(&world);
    node.finish().code(0).tells(&["policy.chekc"]);
}

#[test]
fn without_a_node_status_shows_what_the_store_knows_and_how_to_start_one() {
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", says("escalate", json!({"reason": "\u{1b}[2Jhm"})))]))
            .hook(json!({"on": "job_start", "call": "policy.check"}))
            .turns(json!([{"say": "done"}])),
    );
    let none = world.call(&["status", "--db", "jobs.db"]).code(1);
    assert!(none.out.contains("serve --background"), "{none}");
    assert!(!world.path("jobs.db").exists() && !world.path("jobs.db-node").exists(), "looking makes nothing");
    world.run(&["--detach"]).code(4);
    let known = world.call(&["status", "--db", "jobs.db"]).code(1);
    assert!(known.out.contains("nobody runs it") && known.out.contains("1 approval"), "{known}");
    assert!(!known.out.contains('\u{1b}'), "{known}");
    assert_eq!(status(&world)["node"], Value::Null);
}

#[test]
fn what_is_wrong_is_said_before_anything_is_started() {
    let world = World::new();
    world.write("hookwright.yaml", "tenants: [{id: a, plugins: [nowhere]}]\nsokcet: x\n");
    for more in [&[][..], &["--background"]] {
        let bad = world.call(&[&["serve", "--config", "hookwright.yaml"][..], more].concat()).code(2);
        assert!(bad.err.contains("hookwright.yaml:2") && bad.err.contains("socket"), "{bad}");
    }
    assert!(!world.path(".hookwright").exists());
    // What only the node itself finds out is handed on.
    world.write("taken", "mine");
    world.write("hookwright.yaml", "socket: taken\n");
    for more in [&[][..], &["--background"]] {
        let bad = world.call(&[&["serve", "--config", "hookwright.yaml"][..], more].concat());
        assert!(matches!(bad.status.code(), Some(1 | 2)) && bad.err.contains("no socket"), "{bad}");
    }
    assert_eq!(std::fs::read_to_string(world.path("taken")).unwrap(), "mine");
}

#[test]
fn a_store_that_came_with_a_folder_is_not_taken_up_unnamed() {
    let world = World::with(Plugin::new("p").turns(json!([{"say": "done"}])));
    world.call(&["run", "--plugin", "p", "--input", "x", "--output", "json"]).code(0);
    std::fs::remove_file(world.path("config/hookwright/trust.json")).unwrap();
    world.call(&["serve"]).code(2).tells(&["was not made by you here", "--db"]);
    assert!(world.call(&["status"]).code(1).out.contains("none runs"));
}

/// A process that is killed while it makes the store leaves an empty file; and one may be about to set it up.
#[test]
fn a_store_that_was_only_begun_is_set_up_by_the_node() {
    let world = World::with(Plugin::new("p").turns(json!([{"say": "done"}])));
    world.write("jobs.db", "");
    let node = serve(&world, &[]);
    world.run(&[]).code(0);
    until_completed(&world);
    stop(&world);
    node.finish().code(0);
}
