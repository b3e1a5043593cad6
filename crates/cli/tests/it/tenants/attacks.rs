//! Attacks of one tenant on another, each a test (docs/security.md has the list).

use super::*;
use crate::acp::client::Client as Acp;
use crate::gateway::client::Client as Gateway;

/// What an attacker's command is told, word for word, of what it may not see: the same as of what is not there.
fn finds_nothing(world: &World, args: &[&str], id: &str) {
    let tried = world.call(args).code(1);
    let mut made_up = args.to_vec();
    let other = format!("{}0000", &id[..id.len() - 4]);
    for word in &mut made_up {
        if *word == id {
            *word = &other;
        }
    }
    let unknown = world.call(&made_up).code(1);
    assert_eq!(tried.err.replace(id, "ID"), unknown.err.replace(&other, "ID"), "{args:?}");
    assert_eq!(tried.out.replace(id, "ID"), unknown.out.replace(&other, "ID"), "{args:?}");
}

#[test]
fn ids_of_another_tenant_name_nothing_in_any_command() {
    let world = two(allow(), escalate());
    let (job, approval) = waiting(&world, "b");
    for words in [
        &["jobs", "show", &job][..],
        &["jobs", "history", &job],
        &["jobs", "cancel", &job],
        &["jobs", "resume", &job],
        &["jobs", "forget", &job],
        &["replay", &job],
        &["audit", "verify", &job],
        &["audit", "head", &job],
        &["approvals", "show", &approval],
        &["approvals", "approve", &approval],
        &["approvals", "deny", &approval],
    ] {
        let id = words.last().unwrap();
        finds_nothing(&world, &[words, &["--tenant", "a"]].concat(), id);
        // Nor by a beginning of it.
        let short = &id[..id.len() - 2];
        let short_words = [&words[..words.len() - 1], &[short, "--tenant", "a"]].concat();
        finds_nothing(&world, &short_words, short);
    }
    for (list, key) in [("jobs", "jobs"), ("approvals", "approvals")] {
        for (tenant, count) in [("a", 0), ("b", 1)] {
            let listed = world.call(&[list, "list", "--tenant", tenant, "--output", "json"]).code(0).json();
            assert_eq!(listed[key].as_array().unwrap().len(), count, "{list} {tenant}");
        }
    }
    assert_eq!(world.call(&["audit", "head", "--tenant", "a"]).code(0).json()["heads"], json!([]));
    world.call(&["jobs", "resume", "--all", "--tenant", "a"]).code(0).tells(&["no unfinished jobs"]);
    assert_eq!(stands(&world, &job), "waiting");
    // Whoever has the tenant, or the whole store, reaches it.
    world.call(&["approvals", "approve", &approval, "--tenant", "b"]).code(0);
    world.call(&["jobs", "resume", &job]).code(0);
    assert_eq!(stands(&world, &job), "completed");
}

#[test]
fn a_beginning_of_an_id_is_read_among_the_tenants_own() {
    let world = two(allow(), allow());
    let own = run(&world, "a", &[]).code(0).json()["job"].as_str().unwrap().to_owned();
    run(&world, "b", &[]).code(0);
    world.call(&["jobs", "show", "job_"]).code(1).tells(&["fits several"]);
    let shown = world.call(&["jobs", "show", "job_", "--tenant", "a", "--output", "json"]).code(0).json();
    assert_eq!(shown["job"], own);
}

#[test]
fn the_same_tool_hook_and_agent_ids_in_two_tenants_are_two() {
    let world = World::new();
    // Hooks that match everything there is: in their own tenant.
    let all = json!({"match": {"tools": ["*"], "agents": ["*"]}});
    plugin(&world, "one", says("deny", json!({"reason": "no"})), all.clone(), pushes());
    plugin(&world, "two", allow(), all, pushes());
    configure(&world, json!([{"id": "a", "plugins": ["one"]}, {"id": "b", "plugins": ["two"]}]));
    run(&world, "b", &[]).code(0);
    assert_eq!((world.calls("two-policy").len(), world.calls("two-git").len()), (1, 1));
    assert!(
        world.messages("one-policy").is_empty() && world.messages("one-git").is_empty(),
        "no server of `a` was started"
    );
    assert_eq!(world.calls("two-policy")[0].1["event"]["tenant"], "b");
    run(&world, "a", &[]).code(0);
    assert_eq!((world.calls("one-policy").len(), world.calls("one-git").len()), (1, 0));
    assert_eq!((world.calls("two-policy").len(), world.calls("two-git").len()), (1, 1));
}

#[test]
fn an_acp_client_reaches_no_session_of_another_tenant() {
    let world = two(allow(), allow());
    let turns = json!([{"say": "one"}, {"say": "two"}, {"say": "three"}]);
    plugin(&world, "two", allow(), json!({}), turns);
    world.call(&["trust"]).code(0);
    let mut theirs = Acp::new(&world, &["--tenant", "b"]);
    let session = theirs.session(json!([]));
    theirs.prompt(&session, "A secret of b.");
    let mut client = Acp::new(&world, &["--tenant", "a"]);
    let listed = client.call("session/list", json!({}));
    assert_eq!(listed["sessions"], json!([]));
    let unknown = "ses_0000000000000000";
    for method in
        ["session/load", "session/resume", "session/prompt", "session/close", "session/delete", "session/set_mode"]
    {
        let mut told = |id: &str| {
            let params = json!({
                "sessionId": id, "cwd": world.path("home"), "mcpServers": [], "modeId": "deny",
                "prompt": [{"type": "text", "text": "What was said?"}],
            });
            let sent = client.send(method, params);
            let frame = client.until(method, |frame| frame["id"] == sent);
            let answer = json!({"result": frame["result"], "error": frame["error"]});
            serde_json::from_str::<Value>(&answer.to_string().replace(id, "ID")).unwrap()
        };
        assert_eq!(told(&session), told(unknown), "{method}");
    }
    assert!(!client.seen.iter().any(|frame| frame.to_string().contains("A secret of b")));
    client.close().code(0);
    // It is all there, and its own tenant goes on with it.
    theirs.prompt(&session, "And on.");
    theirs.close().code(0);
    let mut again = Acp::new(&world, &["--tenant", "b"]);
    again.call("session/load", json!({"sessionId": session, "cwd": world.path("home"), "mcpServers": []}));
    assert!(again.seen.iter().any(|frame| frame.to_string().contains("A secret of b")));
    again.close().code(0);
}

#[test]
fn a_client_of_the_gateway_reaches_only_its_tenant() {
    let world = two(allow(), escalate());
    let (_, approval) = waiting(&world, "b");
    let mut client = Gateway::modern(&world, &["--tenant", "a"], json!({}));
    assert_eq!(client.names(), ["git.push"]);
    assert!(client.call("git.push", json!({})).to_string().contains("pushed by one"));
    // An approval of another tenant as what a call goes on with, in this door's own words and in others, with a yes.
    let yes = json!({"approval": {"action": "accept", "content": {"decision": "approve"}}});
    let with = |state: &str| json!({"name": "git.push", "arguments": {}, "requestState": state, "inputResponses": yes});
    client.request("tools/call", with(&format!("approval:{approval}")));
    let (_, said) = client.error("tools/call", with(&approval));
    assert!(said.contains("requestState"), "{said}");
    client.close().code(0);
    let jobs = world.call(&["jobs", "list", "--output", "json"]).code(0).json();
    let of_client: Vec<&Value> = jobs["jobs"].as_array().unwrap().iter().filter(|job| job["tenant"] == "a").collect();
    assert_eq!(of_client.len(), 1);
    let open = world.call(&["approvals", "list", "--output", "json"]).code(0).json();
    assert_eq!(open["approvals"][0]["id"], *approval);
}

#[test]
fn forged_events_of_a_bridge_reach_no_other_tenant() {
    let world = two(says("deny", json!({"reason": "not in a"})), allow());
    let node = serve(&world, &[]);
    // The same conversation, by its name, in both.
    assert!(lets(&world, &["--tenant", "b"], "same"));
    assert!(!lets(&world, &["--tenant", "a"], "same"));
    assert_eq!((world.calls("one-policy").len(), world.calls("two-policy").len()), (1, 1));
    let events: Vec<Value> = ["one", "two"].map(|p| world.calls(&format!("{p}-policy"))[0].1["event"].clone()).to_vec();
    assert_ne!(events[0]["job"], events[1]["job"]);
    assert_eq!((&events[0]["tenant"], &events[1]["tenant"]), (&json!("a"), &json!("b")));
    // Its end in one tenant is none in the other.
    bridge(&world, &["--tenant", "a"], "same", "SessionEnd");
    assert_eq!(stands(&world, events[1]["job"].as_str().unwrap()), "running");
    // A tenant that is not there: every call is denied.
    for nobody in ["c", "", "a,b", "*", "A"] {
        assert!(!lets(&world, &[&format!("--tenant={nobody}")], "same"), "{nobody:?}");
    }
    // What is no question of a bridge, or names ids where none belong, is answered with a refusal, or changes nothing.
    let ask = json!({"harness": "claude-code", "session": "same", "what": {"kind": "before", "tool": "Bash", "arguments": {}}});
    let whole = |with: Value| json!({"v": 1, "id": 1, "do": "ask", "door": "bridge", "with": with});
    for (with, kind) in [
        (json!({"ask": ask, "wait_ms": 20_000, "tenant": "c"}), "tenant"),
        (json!({"ask": ask, "wait_ms": 20_000, "tenant": ["a", "b"]}), "malformed"),
        (json!({"ask": ask, "wait_ms": 20_000, "tenant": {"id": "b"}}), "malformed"),
    ] {
        assert_eq!(says_to_node(&world, &whole(with.clone()))["error"]["type"], kind, "{with}");
    }
    let job = events[1]["job"].clone();
    let mut forged = ask;
    forged["job"] = job.clone();
    forged["agent"] = json!({"id": "x", "parent": job});
    let with = json!({"ask": forged, "wait_ms": 20_000, "tenant": "a", "job": job, "parent_job": job});
    let answer = says_to_node(&world, &whole(with));
    assert_eq!(answer["ok"]["reply"], "deny", "{answer}");
    assert_eq!(world.calls("two-policy").len(), 1, "no hook of b was asked");
    bridge(&world, &["--tenant", "b"], "same", "SessionEnd");
    stop(&world, node);
}

#[test]
fn the_nodes_socket_has_no_door_to_jobs_and_approvals() {
    let world = two(allow(), escalate());
    let (job, approval) = waiting(&world, "b");
    let node = serve(&world, &[]);
    for door in ["jobs", "approvals", "store", "run", "acp", "gateway", "a", "b", "../b", ""] {
        for what in ["ask", "attach"] {
            let with = json!({"tenant": "b", "job": job, "approval": approval, "approve": true});
            let request = json!({"v": 1, "id": 1, "do": what, "door": door, "with": with});
            // A session of the gateway can be had there, by those who say what it is to be.
            let refused = if (door, what) == ("gateway", "attach") { "malformed" } else { "unknown" };
            assert_eq!(says_to_node(&world, &request)["error"]["type"], refused, "{door} {what}");
        }
    }
    for what in ["approve", "cancel", "jobs", "resume"] {
        let request = json!({"v": 1, "id": 1, "do": what, "with": {"job": job, "approval": approval}});
        assert_eq!(says_to_node(&world, &request)["error"]["type"], "unknown", "{what}");
    }
    assert_eq!(stands(&world, &job), "waiting");
    stop(&world, node);
}

#[test]
fn a_node_of_one_tenant_neither_runs_nor_tells_of_anothers_jobs() {
    let world = two(allow(), escalate());
    let (job, approval) = waiting(&world, "b");
    let (other, of_a) = {
        plugin(&world, "one", escalate(), json!({}), pushes());
        world.call(&["trust"]).code(0);
        waiting(&world, "a")
    };
    for id in [&approval, &of_a] {
        world.call(&["approvals", "approve", id]).code(0);
    }
    let node = serve(&world, &["--tenant", "a"]);
    eventually("the job of its own tenant goes on", || (stands(&world, &other) == "completed").then_some(()));
    let told = status(&world);
    assert_eq!(told["tenants"].as_array().unwrap().len(), 1);
    assert!(!told.to_string().contains(&job), "{told}");
    assert!(!lets(&world, &["--tenant", "b"], "c1"), "a tenant that it does not serve");
    assert!(world.messages("two-git").is_empty() || world.calls("two-git").is_empty());
    assert_eq!(stands(&world, &job), "waiting");
    stop(&world, node);
    let node = serve(&world, &[]);
    eventually("with all tenants it goes on", || (stands(&world, &job) == "completed").then_some(()));
    stop(&world, node);
}

#[test]
fn a_plugin_that_links_to_another_tenants_is_refused() {
    let world = two(allow(), allow());
    std::os::unix::fs::symlink(world.path("two"), world.path("mine")).unwrap();
    configure(&world, json!([{"id": "a", "plugins": ["mine"]}, {"id": "b", "plugins": ["two"]}]));
    for args in [
        &["check", "--tenant", "a"][..],
        &["run", "--tenant", "a", "--input", "x"],
        &["serve"],
        &["acp", "--tenant", "a"],
    ] {
        world.call(args).code(2).tells(&["mine of the tenant a leads by a link into one of the tenant b"]);
    }
    run(&world, "b", &[]).code(0);
    // What the configuration names for both is shared.
    configure(&world, json!([{"id": "a", "plugins": ["two"]}, {"id": "b", "plugins": ["two"]}]));
    run(&world, "a", &[]).code(0);
}

#[test]
fn a_variable_that_the_tenant_does_not_list_is_neither_taken_nor_passed_on() {
    let world = two(allow(), allow());
    let dump = world.path("env");
    let script = json!({"start": [{"dump_env": dump}], "tools": [function("check", allow())]});
    world.write("one/policy.json", script.to_string());
    let secrets = |a: Value| {
        write(
            &world,
            json!([
                {"id": "a", "plugins": ["one"], "secrets": a}, {"id": "b", "plugins": ["two"], "secrets": ["B_TOKEN"]},
            ]),
        );
    };
    secrets(json!([]));
    let with_token = |args: &[&str]| {
        let mut command = world.hookwright(&[args, &NAMED].concat());
        command.env("B_TOKEN", "swordfish-7");
        Running::start(command).finish()
    };
    with_token(&["run", "--tenant", "a", "--input", "x"]).code(0);
    let env = std::fs::read_to_string(&dump).unwrap();
    assert!(env.contains("PATH=") && !env.contains("B_TOKEN") && !env.contains("swordfish"), "{env}");
    // Asked for in the manifest, it is refused by every way in, before anything is started.
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(world.path("one/plugin.yaml")).unwrap()).unwrap();
    manifest["tools"][0]["env"] = json!({"TOKEN": {"from": "B_TOKEN"}});
    world.write("one/plugin.yaml", manifest.to_string());
    secrets(json!([]));
    std::fs::remove_file(&dump).unwrap();
    for args in [
        &["run", "--tenant", "a", "--input", "x"][..],
        &["acp", "--tenant", "a"],
        &["gateway", "--tenant", "a"],
        &["serve"],
        &["check", "--tenant", "a"],
    ] {
        let refused = with_token(args).code(2).tells(&["`from` names `B_TOKEN`, which the tenant `a` does not allow"]);
        assert!(!refused.err.contains("swordfish"), "{refused}");
    }
    assert!(!dump.exists());
    secrets(json!(["B_TOKEN"]));
    with_token(&["run", "--tenant", "a", "--input", "x"]).code(0);
    assert!(std::fs::read_to_string(&dump).unwrap().contains("TOKEN=swordfish-7"));
}

#[test]
fn a_job_whose_row_was_moved_to_another_tenant_is_not_run() {
    let world = two(allow(), escalate());
    let (job, approval) = waiting(&world, "b");
    world.call(&["approvals", "approve", &approval]).code(0);
    let db = rusqlite::Connection::open(world.path("jobs.db")).unwrap();
    assert_eq!(db.execute("UPDATE jobs SET tenant = 'a' WHERE id = ?1", [&job]).unwrap(), 1);
    drop(db);
    world
        .call(&["jobs", "resume", &job])
        .code(1)
        .tells(&["is one of the tenant b by its history, and of a by its row"]);
    let node = serve(&world, &[]);
    eventually("the node says why it can't go on", || {
        status(&world)["jobs"]["left_listed"].to_string().contains("by its history").then_some(())
    });
    stop(&world, node);
    assert!(world.calls("one-git").is_empty() && world.calls("two-git").is_empty());
    let found = world.call(&["audit", "verify", "--output", "json"]).code(1).json();
    assert!(found["jobs"][0]["problem"].as_str().unwrap().contains("tenant"), "{found}");
}

#[test]
fn an_answer_that_comes_late_decides_nothing_for_another_tenant() {
    let world = World::new();
    let late = json!([{"sleep_ms": 1_500}, {"structured": {"decision": "deny", "reason": "late"}}]);
    plugin(&world, "one", late, json!({"timeout": "200ms"}), pushes());
    plugin(&world, "two", allow(), json!({}), pushes());
    configure(&world, json!([{"id": "a", "plugins": ["one"]}, {"id": "b", "plugins": ["two"]}]));
    let node = serve(&world, &[]);
    // The first ask's answer is under way while the second is asked.
    assert!(!lets(&world, &["--tenant", "a"], "c"));
    assert!(lets(&world, &["--tenant", "b"], "c"));
    let jobs: Vec<String> = ["one", "two"]
        .map(|p| world.calls(&format!("{p}-policy"))[0].1["event"]["job"].as_str().unwrap().to_owned())
        .to_vec();
    let history = |job: &str| world.call(&["jobs", "history", job, "--output", "json"]).code(0).json().to_string();
    eventually("it is recorded where it belongs", || history(&jobs[0]).contains("hook_late").then_some(()));
    assert!(!history(&jobs[1]).contains("hook_late"));
    for conversation in ["--tenant=a", "--tenant=b"] {
        bridge(&world, &[conversation], "c", "SessionEnd");
    }
    stop(&world, node);
}

#[test]
fn a_group_of_another_tenant_is_no_group_here() {
    let world = World::new();
    plugin(&world, "one", escalate(), json!({"approvers": ["leads"]}), pushes());
    plugin(&world, "two", escalate(), json!({"approvers": ["leads"]}), pushes());
    configure(
        &world,
        json!([
            {"id": "a", "plugins": ["one"], "groups": {"leads": ["alice"]}},
            {"id": "b", "plugins": ["two"], "groups": {"leads": ["bob"], "bosses": ["alice", "bob"]}},
        ]),
    );
    let (_, of_a) = waiting(&world, "a");
    let (_, of_b) = waiting(&world, "b");
    for (approval, wrong, right) in [(&of_a, "bob", "alice"), (&of_b, "alice", "bob")] {
        world.call(&["approvals", "approve", approval, "--as", wrong]).code(1).tells(&["may not decide"]);
        world.call(&["approvals", "approve", approval, "--as", right]).code(0);
    }
}
