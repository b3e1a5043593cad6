//! Servers of a tenant as another OS user.

use super::*;
use std::os::unix::fs::PermissionsExt as _;

/// A user that every machine has, and that owns nothing.
const NOBODY: &str = "nobody";

/// A tenant whose server says who it is; it stands where that user may enter.
fn world_of(user: &str) -> (World, tempfile::TempDir) {
    let world = World::new();
    let open = tempfile::Builder::new().prefix("hookwright-run-as").tempdir().unwrap();
    std::fs::set_permissions(open.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let server = open.path().join("server");
    std::fs::copy(hookwright_testkit::bins::bin("scripted-mcp"), &server).unwrap();
    std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o755)).unwrap();
    // It tells its number, by which it is looked at from outside.
    let answer = json!({"text": r#"{"decision": "deny", "reason": "{pid}"}"#});
    let script = json!({"tools": [function("check", json!([answer]))]});
    std::fs::write(open.path().join("script.json"), script.to_string()).unwrap();
    let manifest = json!({
        "id": "open",
        "tools": [{"id": "policy", "mcp": ["./server", "script.json"]}],
        "hooks": [{"on": "pre_tool_call", "call": "policy.check", "timeout": "20s"}],
    });
    std::fs::write(open.path().join("plugin.yaml"), manifest.to_string()).unwrap();
    write(&world, json!([{"id": "a", "plugins": [open.path()], "run_as": user}]));
    (world, open)
}

#[test]
fn a_tenants_servers_run_as_the_user_that_is_named_or_not_at_all() {
    let (world, _open) = world_of(NOBODY);
    if !rustix::process::geteuid().is_root() {
        world.call(&[&["check"][..], &NAMED].concat()).code(2).tells(&["only root may start programs as another user"]);
        world.call(&[&["serve"][..], &NAMED].concat()).code(2).tells(&["only root may start programs as another user"]);
        return;
    }
    let node = serve(&world, &NAMED);
    let pid = eventually("its server is found", || {
        let answer = bridge(&world, &[], "c", "PreToolUse");
        let why = answer["hookSpecificOutput"]["permissionDecisionReason"].as_str()?.to_owned();
        why.rsplit(": ").next()?.trim_end_matches('.').parse::<u32>().ok()
    });
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap()
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let id = |flag: &str| {
        let said = std::process::Command::new("id").args([flag, NOBODY]).output().unwrap();
        String::from_utf8(said.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(field("Uid:"), vec![id("-u"); 4], "real, effective, saved and of the file system");
    assert_eq!(field("Gid:"), vec![id("-g"); 4]);
    assert_eq!(field("Groups:"), Vec::<String>::new(), "none of root's groups");
    let env = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let env = String::from_utf8_lossy(&env).into_owned();
    assert!(!env.contains(world.path("home").to_str().unwrap()), "not in our home: {env}");
    bridge(&world, &[], "c", "SessionEnd");
    stop(&world, node);
    eventually("it ends with the node", || (!std::path::Path::new(&format!("/proc/{pid}")).exists()).then_some(()));
}

#[test]
fn a_user_that_is_not_there_or_may_not_enter_is_told_of_and_its_hooks_deny() {
    let (world, open) = world_of("nobody-of-this-name");
    world.call(&[&["check"][..], &NAMED].concat()).code(2).tells(&["this machine has no such user"]);
    if !rustix::process::geteuid().is_root() {
        return;
    }
    std::fs::set_permissions(open.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    write(&world, json!([{"id": "a", "plugins": [open.path()], "run_as": NOBODY}]));
    let node = serve(&world, &NAMED);
    assert!(!lets(&world, &[], "c"));
    eventually("why is told", || {
        status(&world).to_string().contains("can't be started as the user nobody").then_some(())
    });
    bridge(&world, &[], "c", "SessionEnd");
    stop(&world, node);
}

#[test]
fn an_agent_in_a_harness_is_refused_where_it_would_be_the_nodes_user() {
    let (world, open) = world_of(NOBODY);
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(open.path().join("plugin.yaml")).unwrap()).unwrap();
    manifest["agents"] = json!([{"id": "worker", "harness": "claude-agent-sdk"}]);
    std::fs::write(open.path().join("plugin.yaml"), manifest.to_string()).unwrap();
    write(&world, json!([{"id": "a", "plugins": [open.path()], "run_as": "0:0"}]));
    let expected =
        if rustix::process::geteuid().is_root() { "its agent worker runs in a harness" } else { "only root may start" };
    world.call(&[&["check"][..], &NAMED].concat()).code(2).tells(&[expected]);
}
