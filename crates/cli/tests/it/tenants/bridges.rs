//! Harnesses of each tenant, behind bridges.

use super::*;

#[test]
fn a_bridge_is_installed_for_a_tenant_and_its_calls_are_that_tenants() {
    let world = two(allow(), says("deny", json!({"reason": "not in b"})));
    let node = serve(&world, &[]);
    world.call(&["install", "claude-code", "--tenant", "b"]).code(0).tells(&["a call was put to the node"]);
    let written = std::fs::read_to_string(world.path("home/.claude/settings.json")).unwrap();
    assert!(written.contains("--tenant b"), "{written}");
    assert!(lets(&world, &["--tenant", "a"], "c") && !lets(&world, &["--tenant", "b"], "c"));
    // Without a tenant it is the node's first, as with every command.
    assert!(lets(&world, &[], "d"));
    assert_eq!((world.calls("one-policy").len(), world.calls("two-policy").len()), (2, 1));
    for (tenant, conversation) in [(&["--tenant", "a"][..], "c"), (&["--tenant", "b"], "c"), (&[], "d")] {
        bridge(&world, tenant, conversation, "SessionEnd");
    }
    world.call(&["uninstall", "claude-code", "--tenant", "b"]).code(0);
    assert!(
        !world.path("home/.claude/settings.json").exists()
            || !std::fs::read_to_string(world.path("home/.claude/settings.json")).unwrap().contains("hookwright")
    );
    stop(&world, node);
}

#[test]
fn calls_that_are_used_up_are_used_up_until_the_next_prompt() {
    let world = two(allow(), allow());
    configure(&world, json!([{"id": "a", "plugins": ["one"], "limits": {"calls_per_job": 1}}]));
    let node = serve(&world, &[]);
    assert!(lets(&world, &[], "c"));
    for _ in 0..2 {
        let no = bridge(&world, &[], "c", "PreToolUse");
        let why = no["hookSpecificOutput"]["permissionDecisionReason"].as_str().unwrap_or_default();
        assert!(why.contains("calls_per_job"), "{no}");
    }
    let job = world.calls("one-policy")[0].1["event"]["job"].as_str().unwrap().to_owned();
    eventually("it is over", || (stands(&world, &job) == "failed").then_some(()));
    bridge(&world, &[], "c", "SessionEnd");
    stop(&world, node);
}

#[test]
fn a_conversation_without_a_place_is_told_why_and_has_one_when_there_is_one() {
    let world = two(allow(), allow());
    configure(&world, json!([{"id": "a", "plugins": ["one"], "limits": {"jobs_at_once": 1}}]));
    let node = serve(&world, &[]);
    assert!(lets(&world, &[], "first"));
    for _ in 0..2 {
        let no = bridge(&world, &[], "second", "PreToolUse");
        let why = no["hookSpecificOutput"]["permissionDecisionReason"].as_str().unwrap_or_default();
        assert!(why.contains("has 1 jobs under way, and may have 1 at once (jobs_at_once)"), "{no}");
    }
    bridge(&world, &[], "first", "SessionEnd");
    eventually("the place is free", || lets(&world, &[], "second").then_some(()));
    bridge(&world, &[], "second", "SessionEnd");
    stop(&world, node);
}
