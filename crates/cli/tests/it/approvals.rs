//! Approvals: decided from another process, once, by those who may, and only for what was shown (SPEC §7).

use crate::support::{Finished, Plugin, Running, World, eventually, exactly, function, says};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A job that pushes, whose push a hook escalates, with further keys of the hook.
fn escalated(hook: Value, reads: &Value) -> World {
    let mut entry = json!({"on": "pre_tool_call", "call": "policy.check"});
    entry.as_object_mut().unwrap().extend(hook.as_object().unwrap().clone());
    World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", says("escalate", json!({"reason": "to main"})))]))
            .server("git", json!([function("push", json!({"text": "pushed"}))]))
            .hook(entry)
            .turns(json!([
                {"call": {"tool": "git.push", "with": {"branch": "main"}}}, {"expect": reads, "say": "done"}
            ])),
    )
}

fn approvals(world: &World, args: &[&str]) -> Finished {
    world.call(&[&["approvals"], args, &["--db", "jobs.db"]].concat())
}

#[test]
fn another_terminal_sees_and_approves_what_a_running_job_waits_for_at_once() {
    let world = escalated(json!({}), &exactly("pushed"));
    let running = Running::start(world.job(&["--approve", "wait"]));
    let id = world.open_approval();
    let shown = approvals(&world, &["show", &id, "--output", "json"]).code(0).json();
    assert_eq!(shown["value"]["value"], json!({"branch": "main"}));
    assert_eq!((&shown["tool"], &shown["state"], &shown["kind"]), (&json!("git.push"), &json!("open"), &json!("hook")));
    assert_eq!(shown["reasons"], json!([{"hook": "policy.check", "reason": "to main"}]));
    let text = approvals(&world, &["show", &id]).code(0);
    assert!(["git.push", "to main", "\"branch\": \"main\"", &id].iter().all(|part| text.out.contains(part)), "{text}");
    assert!(approvals(&world, &["list"]).code(0).out.contains(&id));

    let start = Instant::now();
    let decided = approvals(&world, &["approve", &id, "--as", "Ada", "--note", "go", "--output", "json"]).code(0);
    assert_eq!((&decided.json()["result"], &decided.json()["state"]), (&json!("counted"), &json!("approved")));
    let done = running.finish().code(0);
    assert!(start.elapsed() < Duration::from_secs(20), "the waiting process heard of it: {:?}", start.elapsed());
    let record = &done.records("approval_decided")[0];
    assert_eq!((&record["by"], &record["verified"], &record["note"]), (&json!("Ada"), &json!(false), &json!("go")));
    assert_eq!(world.calls("git"), [("push".to_owned(), json!({"branch": "main"}))]);
}

#[test]
fn without_as_the_name_is_the_os_users_and_counts_as_verified() {
    let world = escalated(json!({}), &exactly("pushed"));
    let running = Running::start(world.job(&["--approve", "wait"]));
    approvals(&world, &["approve", &world.open_approval()]).code(0);
    assert_eq!(running.finish().code(0).records("approval_decided")[0]["verified"], true);
}

#[test]
fn a_detached_job_goes_on_after_the_yes_and_makes_the_call_once_with_what_was_approved() {
    let world = World::with(
        Plugin::new("p")
            .server(
                "policy",
                json!([
                    function("rewrite", says("modify", json!({"arguments": {"branch": "release"}}))),
                    function("check", says("escalate", json!({"reason": "to release"}))),
                ]),
            )
            .server("git", json!([function("push", json!({"text": "pushed"}))]))
            .hook(json!({"on": "pre_tool_call", "call": "policy.rewrite"}))
            .hook(json!({"on": "pre_tool_call", "call": "policy.check"}))
            .turns(json!([
                {"call": {"tool": "git.push", "with": {"branch": "main"}}}, {"expect": exactly("pushed"), "say": "done"}
            ])),
    );
    let job = world.run(&["--detach"]).code(4).json()["job"].as_str().unwrap().to_owned();
    assert!(world.calls("git").is_empty());
    let id = world.open_approval();
    let shown = approvals(&world, &["show", &id, "--output", "json"]).json();
    assert_eq!(
        (&shown["original"]["value"], &shown["value"]["value"]),
        (&json!({"branch": "main"}), &json!({"branch": "release"}))
    );
    assert_eq!(shown["changes"][0]["hook"], "policy.rewrite");
    // Still nobody: the same again.
    world.call(&["jobs", "resume", &job, "--db", "jobs.db", "--detach"]).code(4);
    approvals(&world, &["approve", &id]).code(0).tells(&["jobs resume", &job]);
    let done = world.call(&["jobs", "resume", &job, "--db", "jobs.db", "--output", "json"]).code(0);
    assert_eq!(done.json()["status"], "completed");
    assert_eq!(world.calls("git"), [("push".to_owned(), json!({"branch": "release"}))]);
    assert_eq!(world.calls("policy").len(), 2, "a recorded answer is never asked again");
    // One that is over is what it came to: a script that resumes after a crash needs to know no more.
    let again = world.call(&["jobs", "resume", &job, "--db", "jobs.db"]).code(0);
    assert_eq!(again.out.trim(), "done", "{again}");
    again.tells(&["is over, it completed", "nothing was done now", "jobs show"]);
    let again = world.call(&["jobs", "resume", &job, "--db", "jobs.db", "--output", "json"]).code(0);
    assert_eq!((&again.json()["status"], &again.json()["output"]), (&json!("completed"), &done.json()["output"]));
    assert_eq!(world.calls("git").len(), 1);
}

#[test]
fn what_a_yes_is_bound_to_is_shown_in_full_and_how_to_decide_only_where_nobody_has() {
    let plugin = Plugin::new("p")
        .server("policy", json!([function("check", says("escalate", json!({"reason": "hm"})))]))
        .server("git", json!([function("push", json!({"text": "pushed"}))]))
        .hook(json!({"on": "pre_tool_call", "call": "policy.check"}));
    let turns = json!([{"call": {"tool": "git.push", "with": {"branch": "main"}}}, {"say": "done"}]);
    let world = World::with(plugin.turns(turns));
    world.run(&["--detach"]).code(4);
    let id = world.open_approval();
    let json = approvals(&world, &["show", &id, "--output", "json"]).json();
    let text = approvals(&world, &["show", &id]).out;
    for key in ["digest", "schema_sha256"] {
        assert!(text.contains(json[key].as_str().unwrap()), "{key}: {text}");
    }
    assert!(text.contains("approvals approve"), "{text}");
    let told = world.run(&["--approve", "yes", "--output", "text"]).code(0);
    assert!(!told.err.contains("approvals approve"), "{told}");
    told.tells(&["A person is asked before a call", "approved by"]);
}

#[test]
fn two_calls_of_a_turn_wait_for_two_decisions_in_any_order() {
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", says("escalate", json!({"reason": "hm"})))]))
            .server("git", json!([function("push", json!({"text": "pushed"}))]))
            .hook(json!({"on": "pre_tool_call", "call": "policy.check"}))
            .turns(json!([
                {"call": [{"tool": "git.push", "with": {"n": 1}}, {"tool": "git.push", "with": {"n": 2}}]},
                {"expect": ["was not made: hook policy.check denied it: hm (declined by Ada).", "pushed"], "say": "done"}
            ])),
    );
    let running = Running::start(world.job(&["--approve", "wait"]));
    let both = eventually("both wait", || Some(world.open_approvals()).filter(|both| both.len() == 2));
    let of = |n: i64| both.iter().find(|a| a["value"]["value"]["n"] == n).unwrap()["id"].as_str().unwrap();
    approvals(&world, &["approve", of(2)]).code(0);
    eventually("the approved call is made while the other waits", || (world.calls("git").len() == 1).then_some(()));
    approvals(&world, &["deny", of(1), "--as", "Ada"]).code(0);
    running.finish().code(0);
    assert_eq!(world.calls("git"), [("push".to_owned(), json!({"n": 2}))]);
    // A beginning that fits both is no answer to "which".
    approvals(&world, &["show", "ap_"]).code(1);
}

#[test]
fn a_question_that_was_settled_while_nobody_ran_the_job_is_not_put_again() {
    let world = escalated(json!({}), &exactly("pushed"));
    let job = world.run(&["--detach"]).code(4).json()["job"].as_str().unwrap().to_owned();
    approvals(&world, &["approve", &world.open_approval()]).code(0);
    let done = world.call(&["jobs", "resume", &job, "--db", "jobs.db", "--approve", "no"]).code(0);
    assert!(done.err.contains("approved by") && !done.err.contains("A person is asked"), "{done}");
    assert_eq!(world.calls("git"), [("push".to_owned(), json!({"branch": "main"}))]);
}

#[test]
fn a_no_with_a_note_denies_and_the_note_is_kept() {
    let reads = exactly("The call to git.push was not made: hook policy.check denied it: to main (declined by Bob).");
    let world = escalated(json!({}), &reads);
    let running = Running::start(world.job(&["--approve", "wait"]));
    approvals(&world, &["deny", &world.open_approval(), "--note", "not today", "--as", "Bob"]).code(0);
    let done = running.finish().code(0);
    let record = &done.records("approval_decided")[0];
    assert_eq!((&record["approve"], &record["note"]), (&json!(false), &json!("not today")));
    assert!(world.calls("git").is_empty());
}

#[test]
fn an_approval_expires_as_a_no_and_is_decided_no_more() {
    let reads = exactly("The call to git.push was not made: hook policy.check denied it: to main (expired).");
    let world = escalated(json!({"expires": "3s"}), &reads);
    let id = world.run(&["--detach"]).code(4).json()["approvals"][0].as_str().unwrap().to_owned();
    std::thread::sleep(Duration::from_millis(3_100));
    approvals(&world, &["approve", &id]).code(1).tells(&["expired"]);
    let job = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).json()["jobs"][0]["job"].clone();
    let done = world.call(&["jobs", "resume", job.as_str().unwrap(), "--db", "jobs.db", "--output", "json"]).code(0);
    assert_eq!(done.records("approval_expired").len(), 1);
    assert!(world.calls("git").is_empty());
    approvals(&world, &["approve", &id]).code(1).tells(&["expired"]);
}

#[test]
fn of_two_who_decide_the_first_counts_and_the_second_is_told() {
    let world = escalated(json!({}), &json!([]));
    let running = Running::start(world.job(&["--approve", "wait"]));
    let id = world.open_approval();
    let say = |word: &str, name: &str| {
        Running::start(world.hookwright(&["approvals", word, &id, "--db", "jobs.db", "--as", name]))
    };
    let both = [("approve", "Ada"), ("deny", "Bob")].map(|(word, name)| (name, say(word, name)));
    let (mut won, mut lost) = (vec![], vec![]);
    for (name, process) in both {
        let finished = process.finish();
        if finished.status.code() == Some(0) { won.push(name) } else { lost.push(finished) }
    }
    assert_eq!((won.len(), lost.len()), (1, 1));
    let done = running.finish().code(0);
    let decided = done.records("approval_decided");
    assert_eq!((decided.len(), &decided[0]["by"]), (1, &json!(won[0])));
    let lost = lost.remove(0).code(1);
    assert!(lost.err.contains("already") && lost.err.contains(won[0]), "{lost}");
    assert_eq!(world.calls("git").len(), usize::from(won[0] == "Ada"));
}

#[test]
fn only_those_whom_the_hook_names_may_decide() {
    let world = escalated(json!({"approvers": ["ada"]}), &exactly("pushed"));
    let running = Running::start(world.job(&["--approve", "wait"]));
    let id = world.open_approval();
    approvals(&world, &["approve", &id, "--as", "bob"]).code(1).tells(&["bob may not decide", "ada"]);
    approvals(&world, &["deny", &id, "--as", "bob"]).code(1);
    approvals(&world, &["approve", &id, "--as", "ada"]).code(0);
    running.finish().code(0);
}

#[test]
fn approve_yes_of_somebody_who_may_not_decide_decides_nothing() {
    let world = escalated(json!({"approvers": ["ada"], "expires": "2s"}), &json!("(expired)"));
    world.run(&["--approve", "yes", "--as", "bob"]).code(0);
    assert!(world.calls("git").is_empty());
}

#[test]
fn a_call_whose_schema_changed_after_the_approval_was_asked_for_is_not_made() {
    let with = |required: Value| json!({"name": "push", "inputSchema": {"type": "object", "required": required}, "behaviour": {"text": "pushed"}});
    let world = World::new();
    let plugin = |tool: Value| {
        Plugin::new("p")
            .server("policy", json!([function("check", says("escalate", json!({"reason": "to main"})))]))
            .server("git", json!([tool]))
            .hook(json!({"on": "pre_tool_call", "call": "policy.check"}))
            .turns(json!([
                {"call": {"tool": "git.push", "with": {"branch": "main"}}},
                {"expect": {"matches": "^The call to git.push was not made: the function has changed since the approval ap_[0-9a-f]{16} was asked for\\.$"}, "say": "done"}
            ]))
    };
    plugin(with(json!([]))).save(&world);
    let done = world.run(&["--detach"]).code(4).json();
    // The server of the resumed job lists another schema.
    plugin(with(json!(["branch"]))).save(&world);
    approvals(&world, &["approve", done["approvals"][0].as_str().unwrap()]).code(0);
    world.call(&["jobs", "resume", done["job"].as_str().unwrap(), "--db", "jobs.db", "--output", "json"]).code(0);
    assert!(world.calls("git").is_empty());
}

#[test]
fn cancelling_a_job_closes_its_approvals() {
    let world = escalated(json!({}), &json!([]));
    let running = Running::start(world.job(&["--approve", "wait"]));
    let (id, jobs) =
        (world.open_approval(), world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).json());
    world.call(&["jobs", "cancel", jobs["jobs"][0]["job"].as_str().unwrap(), "--db", "jobs.db", "--as", "Ada"]).code(0);
    let done = running.finish().code(130);
    assert_eq!((&done.json()["status"], &done.json()["cancelled_by"]), (&json!("cancelled"), &json!("Ada")));
    approvals(&world, &["approve", &id]).code(1).tells(&["closed"]);
    assert!(world.calls("git").is_empty());
    assert_eq!(approvals(&world, &["list", "--output", "json"]).json()["approvals"], json!([]));
}

#[test]
fn what_is_asked_after_a_call_and_at_the_end_waits_with_the_value_and_repeats_nothing() {
    let plugin = Plugin::new("p")
        .server("policy", json!([function("check", says("escalate", json!({"reason": "look"})))]))
        .server("git", json!([function("push", json!({"text": "pushed"}))]))
        .hook(json!({"on": "post_tool_call", "call": "policy.check"}))
        .hook(json!({"on": "job_end", "call": "policy.check"}))
        .turns(json!([{"call": {"tool": "git.push"}}, {"expect": exactly("pushed"), "say": "done"}]));
    let world = World::with(plugin);
    let job = world.run(&["--detach"]).code(4).json()["job"].as_str().unwrap().to_owned();
    let resume =
        |code| world.call(&["jobs", "resume", &job, "--db", "jobs.db", "--detach", "--output", "json"]).code(code);
    let first = world.open_approval();
    assert_eq!(approvals(&world, &["show", &first, "--output", "json"]).json()["event"], "post_tool_call");
    approvals(&world, &["approve", &first]).code(0);
    assert!(resume(4).json().get("output").is_none(), "the output is held");
    let second = world.open_approval();
    assert_ne!(first, second);
    assert_eq!(approvals(&world, &["show", &second, "--output", "json"]).json()["value"]["value"], "done");
    approvals(&world, &["approve", &second]).code(0);
    assert_eq!(resume(0).json()["output"], "done");
    assert_eq!(world.calls("git").len(), 1);
}

/// `hookwright run` on a terminal of its own; what it shows goes to a pipe.
fn on_a_terminal(world: &World, args: &[&str]) -> Running {
    let program = "import os, pty, sys\nsys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let python = ["/usr/bin/python3", "/usr/local/bin/python3"].into_iter().find(|p| std::path::Path::new(p).exists());
    let mut command = std::process::Command::new(python.unwrap_or("python3"));
    command.arg("-c").arg(program).arg(env!("CARGO_BIN_EXE_hookwright"));
    command.args(["run", "--plugin", "p", "--db", "jobs.db", "--input", "Do it."]).args(args);
    world.settle(&mut command);
    command.env("TERM", "xterm").env("NO_COLOR", "1").stdin(std::process::Stdio::piped());
    Running::start(command)
}

fn types(running: &mut Running, lines: &[&str]) {
    use std::io::Write as _;
    let mut stdin = running.stdin().unwrap();
    for line in lines {
        // What is typed before the question stands there is no answer to it.
        std::thread::sleep(Duration::from_millis(700));
        let end = if line.chars().all(char::is_control) { "" } else { "\n" };
        stdin.write_all(format!("{line}{end}").as_bytes()).unwrap();
    }
    std::mem::forget(stdin);
}

#[test]
fn at_the_prompt_y_and_n_decide_with_a_note_and_d_shows_everything() {
    let world = escalated(json!({}), &exactly("pushed"));
    let mut running = on_a_terminal(&world, &[]);
    world.open_approval();
    types(&mut running, &["what", "d", "y looks good"]);
    let done = running.finish();
    assert_eq!(done.status.code(), Some(0), "{done}");
    for part in [
        "A person is asked before a call",
        "to main",
        "\"branch\": \"main\"",
        "[y/n/d(etails)]",
        "Please answer y, n or d",
    ] {
        assert!(done.out.contains(part), "{part:?}\n{done}");
    }
    let job = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).json()["jobs"][0]["job"].clone();
    let history = world.call(&["jobs", "history", job.as_str().unwrap(), "--db", "jobs.db", "--output", "json"]);
    assert_eq!(history.records("approval_decided")[0]["note"], "looks good");
    assert_eq!(world.calls("git").len(), 1);

    let world = escalated(json!({}), &json!("(declined by "));
    let mut running = on_a_terminal(&world, &["--as", "Ada"]);
    world.open_approval();
    types(&mut running, &["n"]);
    let done = running.finish();
    assert_eq!(done.status.code(), Some(0), "{done}");
    assert!(world.calls("git").is_empty());
}

#[test]
fn a_prompt_ends_when_somebody_decides_elsewhere() {
    let world = escalated(json!({}), &exactly("pushed"));
    let mut running = on_a_terminal(&world, &[]);
    let stdin = running.stdin();
    let id = world.open_approval();
    approvals(&world, &["approve", &id, "--as", "Ada"]).code(0);
    eventually("the process ends", || running.is_over().then_some(()));
    let done = running.finish();
    drop(stdin);
    assert_eq!(done.status.code(), Some(0), "{done}");
    assert!(done.out.contains("Ada"), "{done}");
}

#[test]
fn ctrl_c_at_the_prompt_cancels_the_job() {
    let world = escalated(json!({}), &json!([]));
    let mut running = on_a_terminal(&world, &["--as", "Ada"]);
    let id = world.open_approval();
    types(&mut running, &["\u{3}"]);
    let done = running.finish();
    assert_eq!(done.status.code(), Some(130), "{done}");
    approvals(&world, &["approve", &id]).code(1).tells(&["closed"]);
    assert!(world.calls("git").is_empty());
}

#[test]
fn the_end_of_the_input_at_the_prompt_decides_nothing() {
    let world = escalated(json!({}), &exactly("pushed"));
    let mut running = on_a_terminal(&world, &[]);
    let id = world.open_approval();
    types(&mut running, &["\u{4}"]);
    std::thread::sleep(Duration::from_millis(500));
    assert!(!running.is_over(), "the approval waits on");
    approvals(&world, &["approve", &id]).code(0);
    let done = running.finish();
    assert_eq!(done.status.code(), Some(0), "{done}");
    assert!(done.out.contains("Nothing was decided"), "{done}");
}

#[test]
fn a_job_of_named_plugins_beside_a_trusted_configuration_can_be_resumed_and_is_none_of_its_tenants() {
    let world = escalated(json!({}), &exactly("pushed"));
    world.write("hookwright.yaml", "tenants: [{ id: team, plugins: [p] }]\nstore: jobs.db\n");
    world.call(&["trust"]).code(0);
    let run = ["run", "--plugin", "p", "--input", "x", "--detach", "--output", "json"];
    let begun = world.call(&run).code(4).tells(&["hookwright.yaml is not used"]);
    assert_eq!(begun.records("started")[0]["spec"]["tenant"], "default");
    let job = begun.json()["job"].as_str().unwrap().to_owned();
    // The store is the configuration's all the same: whoever decides here finds it.
    let id = begun.json()["approvals"][0].as_str().unwrap().to_owned();
    world.call(&["approvals", "approve", &id]).code(0);
    world.call(&["jobs", "resume", &job, "--output", "json"]).code(0);
    assert_eq!(world.calls("git").len(), 1);
}

fn edit(world: &World, sql: &str) {
    let db = rusqlite::Connection::open(world.path("jobs.db")).unwrap();
    assert!(db.execute(sql, []).unwrap() > 0, "{sql}");
}

#[test]
fn a_row_that_was_changed_by_hand_is_refused_shown_with_a_warning_found_by_audit_and_put_right() {
    let world = escalated(json!({"approvers": ["ada"]}), &exactly("pushed"));
    let job = world.run(&["--detach"]).code(4).json()["job"].as_str().unwrap().to_owned();
    let id = world.open_approval();
    world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
    for by_hand in [
        "UPDATE approvals SET approval = json_remove(approval, '$.approvers')",
        "UPDATE approvals SET expires_ms = expires_ms + 1000000",
        "UPDATE approvals SET approval = json_set(approval, '$.value.value', json('{\"branch\":\"dev\"}'))",
        "UPDATE approvals SET approval = json_set(approval, '$.reasons[0].reason', 'harmless')",
    ] {
        edit(&world, by_hand);
        let refused = approvals(&world, &["approve", &id, "--as", "ada"]).code(1);
        refused.tells(&["can't be decided", "is not what the history of job", "audit verify"]);
        approvals(&world, &["show", &id]).code(0).tells(&["warning: this can't be decided"]);
        let audit = world.call(&["audit", "verify", "--db", "jobs.db"]).code(1);
        assert!(audit.out.contains(&format!("the row of the approval {id} was changed")), "{audit}");
        world
            .call(&["jobs", "resume", &job, "--db", "jobs.db", "--detach"])
            .code(4)
            .tells(&["the row of the approval"]);
        world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
    }
    // A decision that was stored past this command is in the story and the history, and decides nothing.
    edit(&world, "UPDATE approvals SET state = 'approved'");
    edit(
        &world,
        "INSERT INTO inbox (job, what) SELECT job, json_object('kind', 'decided', 'approval', id, 'decision', json_object( \
         'approve', json('true'), 'by', 'eve', 'verified', json('true'), 'note', NULL, \
         'digest', json_extract(approval, '$.digest'), 'at_ms', opened_ms + 1)) FROM approvals",
    );
    let resumed = world.call(&["jobs", "resume", &job, "--db", "jobs.db", "--detach"]).code(4);
    resumed.tells(&["a yes was ignored", "eve"]);
    let history = world.call(&["jobs", "history", &job, "--db", "jobs.db"]).code(0);
    assert!(history.out.contains("ignored a yes by eve"), "{history}");
    assert!(world.calls("git").is_empty());
    approvals(&world, &["approve", &id, "--as", "ada"]).code(0);
    world.call(&["jobs", "resume", &job, "--db", "jobs.db"]).code(0);
    assert_eq!(world.calls("git").len(), 1);
}

#[test]
fn a_result_that_has_structured_content_only_is_shown_to_the_person_who_lets_it_through() {
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", says("escalate", json!({"reason": "it may hold a key"})))]))
            .server(
                "git",
                json!([function("log", json!({"result": {"content": [], "structuredContent": {"key": "k-1"}}}))]),
            )
            .hook(json!({"on": "post_tool_call", "call": "policy.check"}))
            .turns(json!([{"call": {"tool": "git.log", "with": {}}}, {"say": "done"}])),
    );
    let job = world.run(&["--detach"]).code(4).json()["job"].as_str().unwrap().to_owned();
    let id = world.open_approval();
    let text = approvals(&world, &["show", &id]).code(0);
    assert!(text.out.contains("\"key\": \"k-1\""), "{text}");
    let shown = approvals(&world, &["show", &id, "--output", "json"]).code(0).json();
    assert_eq!(shown["structured"]["value"], json!({"key": "k-1"}));
    approvals(&world, &["approve", &id]).code(0);
    world.call(&["jobs", "resume", &job, "--db", "jobs.db"]).code(0);
    world.call(&["replay", &job, "--db", "jobs.db"]).code(0);
}

#[test]
fn every_command_to_go_on_with_names_the_store() {
    let world = escalated(json!({}), &exactly("pushed"));
    let told = world.call(&["run", "--plugin", "p", "--input", "x", "--db", "a b.db", "--detach"]).code(4);
    let list = world.call(&["approvals", "list", "--db", "a b.db", "--output", "json"]).code(0).json();
    let approval = &list["approvals"][0];
    let (id, job) = (approval["id"].as_str().unwrap(), approval["job"].as_str().unwrap());
    let resume = format!("hookwright jobs resume {job} --db 'a b.db'");
    let told = told.tells(&[&format!("hookwright approvals approve {id} --db 'a b.db'"), &resume]);
    assert!(!told.err.contains("made with {"), "{told}");
    let shown = world.call(&["jobs", "show", job, "--db", "a b.db"]).code(0);
    for part in [&*resume, &format!("hookwright approvals show {id} --db 'a b.db'"), "input       3 bytes", "so far"] {
        assert!(shown.out.contains(part), "{part}\n{shown}");
    }
    world.call(&["approvals", "approve", id, "--db", "a b.db"]).code(0).tells(&[&resume]);
    world.call(&["jobs", "resume", job, "--db", "a b.db"]).code(0).tells(&["goes on with {"]);
    let shown = world.call(&["jobs", "show", job, "--db", "a b.db"]).code(0);
    assert!(shown.out.contains("output      6 bytes") && shown.out.contains("│ done"), "{shown}");
    assert!(shown.out.contains("in all") && !shown.out.contains("so far"), "{shown}");

    // The store that is found without being named is not named.
    let told = world.call(&["run", "--plugin", "p", "--input", "x", "--detach"]).code(4);
    assert!(told.err.contains("jobs resume job_") && !told.err.contains("--db"), "{told}");
}

#[test]
fn a_yes_is_not_spent_where_the_approved_call_can_not_be_made_when_its_job_is_taken_up() {
    let world = escalated(json!({}), &exactly("pushed"));
    let job = world.run(&["--detach"]).code(4).json()["job"].as_str().unwrap().to_owned();
    approvals(&world, &["approve", &world.open_approval()]).code(0);
    let script = world.path("p/git.json");
    std::fs::rename(&script, world.path("p/away.json")).unwrap();
    let records = || {
        let told = world.call(&["jobs", "history", &job, "--db", "jobs.db", "--output", "json"]).code(0);
        told.json()["history"].as_array().unwrap().len()
    };
    let before = records();
    let resume = format!("hookwright jobs resume {job} --db jobs.db");
    world.call(&["jobs", "resume", &job, "--db", "jobs.db"]).code(1).tells(&[
        "git.push",
        "the yes still stands",
        &resume,
    ]);
    // Nor where the function is not there any more.
    world.write("p/git.json", json!({"tools": [function("pull", json!({"text": "pulled"}))]}).to_string());
    world.call(&["jobs", "resume", &job, "--db", "jobs.db"]).code(1).tells(&["lists no function push", &resume]);
    assert_eq!(records(), before, "nothing was recorded");
    assert!(world.calls("git").is_empty());
    std::fs::rename(world.path("p/away.json"), &script).unwrap();
    let resumed = world.call(&["jobs", "resume", &job, "--db", "jobs.db", "--output", "json"]).code(0);
    assert_eq!(resumed.json()["output"], "done");
    assert_eq!(world.calls("git").len(), 1);
}
