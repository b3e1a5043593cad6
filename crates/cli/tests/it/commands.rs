//! `check`, `trust`, `demo`, completions, and manners of the command line.

use crate::support::{Finished, Plugin, Running, World, function, says};
use serde_json::{Value, json};
use std::process::Stdio;

fn policy() -> Plugin {
    Plugin::new("p")
        .server("policy", json!([function("check", says("allow", json!({})))]))
        .hook(json!({"on": "job_start", "call": "policy.check"}))
        .turns(json!([{"say": "done"}]))
}

#[test]
fn check_is_exit_0_where_all_is_well_and_shows_what_is_declared_and_loaded() {
    let world = World::with(policy());
    let report = world.call(&["check", "p", "--output", "json"]).code(0).json();
    assert_eq!((&report["ok"], &report["errors"]), (&json!(true), &json!(0)));
    let hook = &report["plugins"][0]["hooks"][0];
    assert_eq!(
        (&hook["call"], &hook["declared"], &hook["loaded"]),
        (&json!("policy.check"), &json!(true), &json!(true))
    );
    assert_eq!(report["plugins"][0]["tools"][0]["functions"], json!(["check"]));
    let text = world.call(&["check", "p"]).code(0);
    assert!(text.out.contains("loaded") && text.out.contains("policy.check"), "{text}");
}

#[test]
fn check_finds_what_only_running_servers_tell_and_warnings_change_no_exit_code() {
    let world = World::new();
    policy().hook(json!({"on": "job_start", "call": "policy.chekc"})).save(&world);
    let report = world.call(&["check", "p", "--output", "json"]).code(2).json();
    let found = report["diagnostics"].as_array().unwrap();
    assert!(
        found.iter().any(|d| d["code"] == "unknown-function" && d["hint"].to_string().contains("check")),
        "{found:?}"
    );

    policy()
        .hook(json!({"on": "pre_tool_call", "call": "policy.check", "match": {"tools": ["gti.push"]}}))
        .save(&world);
    let report = world.call(&["check", "p", "--output", "json"]).code(0).json();
    assert_eq!(report["diagnostics"][0]["code"], "pattern-fits-nothing");

    world.write("dead/plugin.yaml", "tools: [{ id: gone, mcp: [no-such-program-anywhere] }]\n");
    let done = world.call(&["check", "dead", "--output", "json"]).code(2);
    assert_eq!(done.json()["diagnostics"][0]["code"], "tool-failed", "{done}");
    let done = world.call(&["check", "dead"]).code(2);
    assert_eq!(done.err.matches("1 error").count(), 1, "{done}");
    world.call(&["check", "nowhere"]).code(2).tells(&["nowhere"]);
}

fn ask(world: &World, event: &Value, more: &[&str]) -> Finished {
    world.write("event.json", event.to_string());
    let mut args = vec!["ask", "--event", "event.json", "--output", "json"];
    args.extend(more);
    world.call(&args)
}

#[test]
fn ask_prints_verdict_value_and_answers_and_makes_no_call() {
    let world = World::new();
    Plugin::new("p")
        .server(
            "policy",
            json!([
                function("rewrite", says("modify", json!({"arguments": {"branch": "fix"}, "reason": "not main"}))),
                function("denies", says("deny", json!({"reason": "closed"}))),
                function("hangs", json!({"await_cancel": true})),
            ]),
        )
        .server("git", json!([function("push", json!({"text": "pushed"}))]))
        .hook(json!({"on": "pre_tool_call", "call": "policy.rewrite"}))
        .hook(json!({"on": "pre_tool_call", "call": "policy.denies", "match": {"tools": ["git.push"]}}))
        .hook(json!({"on": "job_start", "call": "policy.hangs", "timeout": "200ms", "on_timeout": "escalate"}))
        .save(&world);
    let event = json!({"event": "pre_tool_call", "tool": "git.push", "arguments": {"branch": "main"}});
    let report = ask(&world, &event, &["--plugin", "p"]).code(0).json();
    assert_eq!((&report["verdict"], &report["tool"]), (&json!("deny"), &json!("git.push")));
    assert_eq!(report["value"], json!({"branch": "fix"}));
    assert_eq!(report["says"], "The call to git.push was not made: hook policy.denies denied it: closed.");
    let answers = report["answers"].as_array().unwrap();
    let brief: Vec<_> = answers
        .iter()
        .map(|a| (a["hook"].as_str().unwrap(), a["decision"].as_str().unwrap(), a["changed"].as_bool().unwrap()))
        .collect();
    assert_eq!(brief, [("policy.rewrite", "modify", true), ("policy.denies", "deny", false)]);
    assert!(answers.iter().all(|a| a["ms"].is_number() && a["failed"].is_null()));
    let start = ask(&world, &json!({"event": "job_start", "input": "hi"}), &["--plugin", "p"]).code(0).json();
    assert_eq!(
        (&start["verdict"], &start["answers"][0]["failed"]),
        (&json!("escalate"), &json!("did not answer within 200ms"))
    );
    let unmatched = ask(&world, &json!({"event": "job_end", "output": "x"}), &["--plugin", "p"]).code(0).json();
    assert_eq!(
        (&unmatched["verdict"], &unmatched["value"], &unmatched["answers"]),
        (&json!("allow"), &json!("x"), &json!([]))
    );
    assert!(world.calls("git").is_empty());
    assert!(!world.path(".hookwright").exists() && !world.path("jobs.db").exists(), "nothing is stored");
}

#[test]
fn an_event_that_is_none_is_exit_2_and_says_why() {
    let world = World::with(policy());
    for (event, why) in [
        ("", "no event"),
        ("nonsense", "no event"),
        ("[]", "not a JSON object"),
        ("{}", "`event` is missing"),
        (r#"{"event": "pre_tool_cal"}"#, "pre_tool_call"),
        (r#"{"event": "pre_tool_call", "arguments": {}}"#, "`tool` is missing"),
        (r#"{"event": "pre_tool_call", "tool": "a.b", "arguments": []}"#, "`arguments` is not an object"),
        (r#"{"event": "job_start"}"#, "`input` is missing"),
        (r#"{"event": "job_start", "input": "x", "inptu": 1}"#, "inptu"),
        (r#"{"event": "job_start", "event": "job_end", "input": "x"}"#, "event"),
        (r#"{"event": 5}"#, "not a string"),
    ] {
        world.write("event.json", event);
        world.call(&["ask", "--plugin", "p", "--event", "event.json"]).code(2).tells(&[why]);
    }
    world.write("event.json", [0xff, 0xfe, b'{']);
    world.call(&["ask", "--plugin", "p", "--event", "event.json"]).code(2);
    world.call(&["ask", "--plugin", "p", "--event", "no.json"]).code(2).tells(&["no.json"]);
    world.call(&["ask", "--plugin", "p", "--event", "-"]).code(2);
    assert!(world.calls("policy").is_empty());
}

#[test]
fn a_configuration_of_the_folder_is_loaded_only_once_it_is_trusted_as_it_is() {
    let world = World::with(policy());
    world.write("hookwright.yaml", "tenants: [{ id: team, plugins: [p] }]\n");
    let run = || world.call(&["run", "--input", "x", "--output", "json"]);
    run().code(2).tells(&["was not trusted yet", "hookwright trust"]);
    assert!(world.messages("policy").is_empty(), "no server was started");
    world.call(&["check"]).code(2).tells(&["hookwright trust"]);
    world.call(&["jobs", "list"]).code(2).tells(&["hookwright trust"]);
    world.call(&["trust"]).code(0).tells(&["trusted"]);
    assert_eq!(run().code(0).records("started")[0]["spec"]["tenant"], "team");

    world.write("hookwright.yaml", "tenants: [{ id: team, plugins: [p] }] # changed\n");
    run().code(2).tells(&["has changed since it was trusted"]);
    world.call(&["--config", "hookwright.yaml", "run", "--input", "x"]).code(0);
    world.call(&["trust"]).code(0);
    run().code(0);
    // The manifest says what is started: it is covered too.
    let manifest = std::fs::read_to_string(world.path("p/plugin.yaml")).unwrap();
    world.write("p/plugin.yaml", manifest + "\n");
    run().code(2).tells(&["has changed since it was trusted"]);
    world.call(&["trust"]).code(0);
    run().code(0);
    world.call(&["trust", "--remove"]).code(0);
    run().code(2).tells(&["was not trusted yet"]);
    // What flags name is trusted by naming it.
    world.run(&[]).code(0);
}

#[test]
fn secrets_are_only_those_that_the_tenant_allows() {
    let world = World::new();
    Plugin::new("p")
        .scripted("git", json!({"tools": []}), json!({"env": {"TOKEN": {"from": "MY_TOKEN"}}}))
        .turns(json!([{"say": "done"}]))
        .save(&world);
    let config = |secrets: &str| world.write("c.yaml", format!("tenants: [{{ id: t, plugins: [p]{secrets} }}]\n"));
    config("");
    let run = || {
        let mut command = world.hookwright(&["--config", "c.yaml", "run", "--input", "x"]);
        command.env("MY_TOKEN", "t");
        Running::start(command).finish()
    };
    run().code(2).tells(&["MY_TOKEN", "secrets"]);
    config(", secrets: [MY_TOKEN]");
    run().code(0);
}

#[test]
fn a_secret_that_servers_put_into_errors_is_in_no_story_record_or_answer() {
    let world = World::new();
    let failing =
        |name: &str| json!({"tools": [function(name, json!({"error": {"code": -1, "message": "bad s3cr3t-value"}}))]});
    let env = json!({"env": {"TOKEN": {"from": "MY_TOKEN"}}});
    Plugin::new("p")
        .scripted("git", failing("push"), env.clone())
        .scripted("policy", failing("check"), env)
        .hook(json!({"on": "post_tool_call", "call": "policy.check"}))
        .turns(json!([{"call": {"tool": "git.push", "with": {}}}, {"expect": "policy.check", "say": "done"}]))
        .save(&world);
    world.write("c.yaml", "tenants: [{ id: t, plugins: [p], secrets: [MY_TOKEN] }]\n");
    let args = ["--config", "c.yaml", "run", "--db", "jobs.db", "--input", "x", "--output", "json"];
    let mut command = world.hookwright(&args);
    command.env("MY_TOKEN", "s3cr3t-value");
    let done = Running::start(command).finish().code(0);
    assert!(done.out.contains("bad [MY_TOKEN]"), "{done}");
    let mut text = world.hookwright(&args[..7]);
    text.env("MY_TOKEN", "s3cr3t-value");
    let told = Running::start(text).finish().code(0);
    for said in [&done.out, &done.err, &told.out, &told.err] {
        assert!(!said.contains("s3cr3t"), "{said}");
    }
    let db = std::fs::read(world.path("jobs.db")).unwrap();
    assert!(!db.windows(6).any(|bytes| bytes == b"s3cr3t"), "it stands in the store");
}

#[test]
fn a_run_says_once_why_a_server_is_down() {
    let words = "some words that a server says before it goes, long enough for more than one line; ".repeat(2);
    let start = json!([{"stderr": format!("{words}the last word\n")}, {"exit": 1}]);
    let dead = Plugin::new("p").scripted("dead", json!({"start": start, "tools": []}), json!({}));
    let world = World::with(dead.turns(json!([{"say": "done", "delay": "300ms"}])));
    let told = world.run(&["--output", "text"]).code(0);
    let flat: String = told.err.split_whitespace().filter(|w| *w != "│").collect::<Vec<_>>().join(" ");
    assert_eq!(flat.matches("the last word").count(), 1, "{told}");
}

#[test]
fn trust_lists_what_will_run_and_what_has_changed() {
    let world = World::with(policy());
    world.write(
        "q/plugin.yaml",
        "tools: [{ id: far, mcp: \"https://h.example/mcp\", headers: { X-Key: { from: KEY } } }]\n",
    );
    world.write("hookwright.yaml", "tenants: [{ id: team, plugins: [p, q, gone], secrets: [KEY] }]\n");
    world.call(&["trust"]).code(2).tells(&["gone", "nothing was trusted"]);
    world.call(&["jobs", "list"]).code(2).tells(&["was not trusted yet"]);
    world.write("hookwright.yaml", "tenants: [{ id: team, plugins: [p, q], secrets: [KEY] }]\n");
    world.call(&["trust"]).code(0).tells(&[
        "p/plugin.yaml",
        "runs",
        "scripted-mcp",
        "reaches https://h.example/mcp, gets KEY",
        "tenant team: its plugins may take KEY from your environment",
    ]);
    let manifest = std::fs::read_to_string(world.path("q/plugin.yaml")).unwrap();
    world.write("q/plugin.yaml", manifest + "# changed\n");
    let told =
        world.call(&["jobs", "list"]).code(2).tells(&["has changed since it was trusted: q/plugin.yaml changed"]);
    assert!(!told.err.contains("p/plugin.yaml"), "{told}");
    world.call(&["trust"]).code(0).tells(&["since it was trusted last: q/plugin.yaml changed"]);
}

#[test]
fn an_event_that_is_none_gets_an_example_of_its_own_kind() {
    let world = World::with(policy());
    for (event, example) in [
        (json!({"event": "job_end"}), r#""output":"#),
        (json!({"event": "job_start", "x": 1}), r#""input":"#),
        (json!({"event": "post_tool_call", "tool": "a.b"}), r#""result":"#),
        (json!({"event": "nothing"}), r#""arguments":"#),
    ] {
        ask(&world, &event, &["--plugin", "p"]).code(2).tells(&[example]);
    }
}

#[test]
fn ask_warns_of_a_function_that_is_not_there() {
    let world = World::with(policy());
    let warnings = |tool: &str| {
        let event = json!({"event": "pre_tool_call", "tool": tool, "arguments": {}});
        ask(&world, &event, &["--plugin", "p"]).code(0).json()["warnings"].to_string()
    };
    assert!(warnings("policy.chekc").contains("lists no function chekc; did you mean check?"));
    assert!(warnings("polici.check").contains("no tool polici; did you mean policy?"));
    assert!(warnings("push").contains("no full name"));
    let event = world.write("event.json", r#"{"event":"pre_tool_call","tool":"policy.chekc","arguments":{}}"#);
    let told = world.call(&["ask", "--plugin", "p", "--event", event.to_str().unwrap()]).code(0);
    assert!(told.out.contains("\nwarning  the tool policy lists no function chekc"), "{told}");
}

#[test]
fn jobs_history_shows_calls_that_were_refused() {
    let turns = json!([{"call": [{"tool": "no.such"}, {"tool": "policy._secret"}, {"tool": "policy.check", "raw": "{broken"}]}, {"say": "done"}]);
    let world = World::with(policy().turns(turns));
    let job = world.run(&[]).json()["job"].as_str().unwrap().to_owned();
    let told = world.call(&["jobs", "history", &job, "--db", "jobs.db"]).code(0);
    for call in ["no.such", "policy._secret", "policy.check"] {
        assert!(told.out.contains(&format!("refused: {call}: ")), "{call}\n{told}");
    }
}

#[test]
fn the_start_of_a_server_is_not_counted_as_time_of_a_call() {
    let world = World::with(
        Plugin::new("p")
            .scripted(
                "git",
                json!({"start": [{"sleep_ms": 4_000}], "tools": [function("push", json!({"text": "ok"}))]}),
                json!({}),
            )
            .turns(json!([{"call": {"tool": "git.push"}}, {"say": "done"}])),
    );
    let done = world.run(&[]).code(0);
    let ms = done.records("tool_returned")[0]["ms"].as_f64().unwrap();
    assert!(ms < 3_000.0, "{ms}");
}

#[test]
fn the_demo_runs_without_keys_and_twice() {
    let world = World::new();
    for _ in 0..2 {
        let done = world.call(&["demo", "--approve", "yes", "--output", "json"]).code(0);
        assert_eq!(done.json()["status"], "completed");
        let summary = &done.json()["summary"];
        for kind in ["modified", "denied", "escalated", "approvals"] {
            assert!(summary[kind].as_u64().unwrap() >= 1, "{kind}: {summary}");
        }
    }
    let text = world.call(&["demo", "--approve", "no"]).code(0);
    assert!(text.err.contains("hookwright"), "{text}");
    world.write("mine/file", "x");
    world.call(&["demo", "--dir", "mine"]).code(2).tells(&["mine"]);
    assert!(world.path("mine/file").exists());
}

fn widths(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or_default()
}

#[test]
fn help_is_at_most_100_columns_wide_and_names_the_exit_codes() {
    let world = World::new();
    let help = world.call(&["--help"]).code(0);
    assert!(help.out.contains("130 cancelled") && help.err.is_empty(), "{help}");
    for command in [
        &["run"][..],
        &["check"],
        &["ask"],
        &["jobs"],
        &["jobs", "resume"],
        &["approvals"],
        &["approvals", "approve"],
        &["audit"],
        &["audit", "verify"],
        &["replay"],
        &["trust"],
        &["new", "plugin"],
        &["demo"],
        &["completions"],
    ] {
        let help = world.call(&[command, &["--help"]].concat()).code(0);
        assert!(widths(&help.out) <= 100 && help.err.is_empty(), "{command:?}\n{help}");
    }
    assert!(world.call(&["--version"]).code(0).out.starts_with("hookwright "));
    world.call(&[]).code(2);
    world.call(&["apprvals"]).code(2).tells(&["'approvals'"]);
    world.call(&["help", "run"]).code(0);
}

#[test]
fn completions_are_printed_for_each_shell() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(world.call(&["completions", shell]).code(0).out.contains("approvals"), "{shell}");
    }
    world.call(&["completions", "tcsh"]).code(2);
}

#[test]
fn colors_are_only_where_they_are_wanted() {
    let world = World::with(policy());
    let plain = world.run(&["--output", "text"]).code(0);
    assert!(!plain.err.contains('\u{1b}'), "{plain}");
    let colored = world.run(&["--output", "text", "--color", "always"]).code(0);
    assert!(colored.err.contains('\u{1b}') && !colored.out.contains('\u{1b}'));
    let mut command = world.job(&["--output", "text"]);
    command.env("NO_COLOR", "1").env("TERM", "xterm");
    assert!(!Running::start(command).finish().code(0).err.contains('\u{1b}'));
}

#[test]
fn a_reader_that_goes_away_is_no_reason_to_panic() {
    let world = World::with(policy());
    for args in [&["--help"][..], &["completions", "zsh"], &["run", "--plugin", "p", "--input", "x"], &["jobs", "list"]]
    {
        let mut command = world.hookwright(args);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        command.stdout(writer).stderr(Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!err.contains("panicked"), "{args:?}\n{err}");
    }
    // Nor where nobody reads what people are told: the job goes on.
    let mut command = world.hookwright(&["run", "--plugin", "p", "--input", "x"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command.stderr(writer).output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"done\n"[..]));
}

#[test]
fn an_output_that_cannot_be_written_is_exit_1() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else { return };
    let world = World::with(policy());
    for args in [&["run", "--plugin", "p", "--input", "x"][..], &["jobs", "list"], &["completions", "bash"]] {
        let mut command = world.hookwright(args);
        let output = command.stdout(full.try_clone().unwrap()).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}\n{err}");
        assert!(err.contains("standard output can't be written") && !err.contains("panicked"), "{args:?}\n{err}");
    }
}

#[test]
fn arguments_and_variables_that_are_no_utf8_are_refused_or_ignored() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let world = World::with(policy());
    let odd = OsStr::from_bytes(b"\xff\xfe");
    let all: [Vec<&OsStr>; 3] = [
        vec![odd],
        vec!["run".as_ref(), "--plugin".as_ref(), "p".as_ref(), "--input".as_ref(), odd],
        vec!["check".as_ref(), odd],
    ];
    for args in all {
        Running::start(world.hookwright(&args)).finish().code(2);
    }
    let mut command = world.job(&[]);
    command.env("ODD", odd).env(odd, "x");
    Running::start(command).finish().code(0);
}

#[test]
fn errors_are_json_too_where_json_was_asked_for() {
    let world = World::with(policy());
    let error = world.run(&["--agent", "nobody"]).code(2);
    assert!(error.json()["error"]["message"].as_str().unwrap().contains("nobody"), "{error}");
    assert!(error.err.contains("error:"));
    let error = world.call(&["jobs", "show", "job_x", "--db", "no.db", "--output", "json"]).code(1);
    assert!(error.json()["error"]["type"].is_string());
    world.call(&["--log", "][", "jobs", "list"]).code(2).tells(&["--log"]);
}

#[test]
fn a_command_line_that_can_not_be_read_is_said_in_json_where_it_asks_for_json() {
    let world = World::new();
    for args in [["jobs", "show", "--output", "json"], ["run", "--no-such-flag", "x", "--output=json"]] {
        let told = world.call(&args).code(2);
        assert_eq!(told.json()["error"]["type"], "Usage", "{told}");
        assert!(!told.err.is_empty());
    }
    assert_eq!(world.call(&["jobs", "show"]).code(2).out, "");
}

#[test]
fn cancel_and_forget_say_in_json_what_came_of_them_and_show_says_by_whom() {
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", says("escalate", json!({"reason": "hm"})))]))
            .hook(json!({"on": "job_start", "call": "policy.check"}))
            .turns(json!([{"say": "done"}])),
    );
    let job = world.run(&["--detach"]).code(4).json()["job"].as_str().unwrap().to_owned();
    let on = |args: &[&str]| world.call(&[args, &[&job, "--db", "jobs.db"]].concat());
    let cancelled = on(&["jobs", "cancel", "--as", "Ada", "--output", "json"]).code(0).json();
    assert_eq!(cancelled, json!({"job": job, "cancelled": true, "by": "Ada"}));
    assert_eq!(on(&["jobs", "show", "--output", "json"]).code(0).json()["cancelled_by"], "Ada");
    assert!(on(&["jobs", "show"]).code(0).out.contains("by Ada"));
    let forgotten = on(&["jobs", "forget", "--output", "json"]).code(0).json();
    assert!(forgotten["job"] == json!(job) && forgotten["records"].as_u64().unwrap() > 0, "{forgotten}");
}

#[test]
fn ask_with_expect_is_exit_1_and_says_where_what_came_differs() {
    let world = World::with(policy());
    world.write("e.json", r#"{"event":"job_start","input":"x"}"#);
    world.write("good.json", r#"{"verdict":"allow","answers":[{"hook":"policy.check"}]}"#);
    world.write("bad.json", r#"{"verdict":"deny","answers":[]}"#);
    let ask =
        |file: &str| world.call(&["ask", "--plugin", "p", "--event", "e.json", "--expect", file, "--output", "json"]);
    assert_eq!(ask("good.json").code(0).json()["verdict"], "allow");
    let told = ask("bad.json").code(1).tells(&[r#"verdict: expected "deny", came "allow""#, "answers: expected []"]);
    assert_eq!(told.json()["verdict"], "allow", "the report is printed all the same");
    ask("none.json").code(2);
}

#[test]
fn columns_counts_where_no_terminal_says_how_wide_lines_are() {
    let world = World::with(policy());
    let long = "x".repeat(300);
    world.run(&["--input", &long]).code(0);
    let wide = |columns: &str| {
        let mut command = world.hookwright(&["jobs", "history", "job_", "--db", "jobs.db"]);
        command.env("COLUMNS", columns);
        Running::start(command).finish().code(0).out.lines().map(|line| line.chars().count()).max().unwrap()
    };
    let show = |columns: &str| {
        let mut command = world.hookwright(&["jobs", "show", "job_", "--db", "jobs.db"]);
        command.env("COLUMNS", columns);
        Running::start(command).finish().code(0).out.lines().map(|line| line.chars().count()).max().unwrap()
    };
    assert_eq!((show("60"), show("100"), show("odd")), (60, 100, 80));
    assert!(wide("50") <= 50);
}

#[test]
fn check_that_warns_does_not_say_that_there_are_no_warnings() {
    let world = World::with(Plugin::new("p").server("l0", json!([])).turns(json!([{"say": "done"}])));
    let mut command = world.hookwright(&["check", "p"]);
    command.env("MCP_HOOK_SERVERS", "l0,zz");
    let done = Running::start(command).finish().code(0);
    assert!(!done.err.contains("no warnings"), "{done}");
    done.tells(&["warning: lifecycle hooks are allowed for zz"]);
    world.call(&["check", "p"]).code(0).tells(&["no errors, no warnings"]);
}

#[test]
fn a_manifest_that_is_too_large_is_not_measured_by_what_was_read_of_it() {
    let world = World::with(Plugin::new("p").turns(json!([{"say": "done"}])));
    world.write("p/plugin.yaml", "#".repeat(2_000_000));
    let said = world.call(&["check", "p"]).code(2);
    assert!(!said.err.contains("1048577"), "{said}");
    said.tells(&["more than 1048576 bytes"]);
}
