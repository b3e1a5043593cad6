//! Bad input, all of it: an exit code, a word of what is wrong, and never a panic or a hang.

use crate::support::{Finished, Plugin, Running, World, exactly, function, says};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;

fn check(world: &World, manifest: impl AsRef<[u8]>) -> Finished {
    world.write("bad/plugin.yaml", manifest);
    let done = world.call(&["check", "bad"]);
    // `run` takes no other road.
    world.call(&["run", "--plugin", "bad", "--input", "x"]).code(2);
    done
}

#[test]
fn manifests_that_are_none_are_refused_with_a_place_and_a_word() {
    let world = World::new();
    let mut huge = String::from("tools:\n");
    while huge.len() < 10_000_000 {
        writeln!(huge, "  - {{ id: t{}, mcp: [\"x\"] }}", huge.len()).unwrap();
    }
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        writeln!(laughs, "a{i}: &a{i} [{}]", vec![format!("*a{}", i - 1); 10].join(", ")).unwrap();
    }
    let tool = "tools: [{ id: policy, mcp: [\"cat\"] }]\n";
    for (manifest, code) in [
        (String::new(), "empty"),
        ("# nothing\n".to_owned(), "empty"),
        ("\u{0}\u{1}\u{2}".to_owned(), "binary"),
        (huge, "too-large"),
        (format!("{tool}tools: []\n"), "duplicate-key"),
        ("tools: [{ id: a, mcp: [\"cat\"] }, { id: a, mcp: [\"cat\"] }]\n".to_owned(), "duplicate-id"),
        ("tools:\n\t- id: a\n".to_owned(), "yaml-syntax"),
        (laughs, "too-many-values"),
        ("a: *nothing\n".to_owned(), "yaml-alias"),
        (format!("{}{}", "[".repeat(5_000), "]".repeat(5_000)), "too-nested"),
        (format!("{tool}hooks: [{{ on: job_start, call: policy.check, timeout: 31s }}]\n"), "duration-range"),
        (format!("{tool}hooks: [{{ on: job_start, call: policy.check, timeout: 0s }}]\n"), "duration-range"),
        (format!("{tool}hooks: [{{ on: job_start, call: polcy.check }}]\n"), "unknown-tool"),
        (format!("{tool}hooks: [{{ on: job_start, call: policy }}]\n"), "invalid-call"),
        (format!("{tool}hooks: [{{ on: job_start, call: policy.check, tiemout: 2s }}]\n"), "unknown-key"),
        ("just text\n".to_owned(), "wrong-type"),
        ("[]\n".to_owned(), "wrong-type"),
    ] {
        let done = check(&world, &manifest).code(2);
        let start: String = manifest.chars().take(60).collect();
        assert!(done.err.contains(&format!("[{code}]")), "{start:?}: not [{code}]\n{done}");
        assert!(done.err.len() < 200_000, "{start:?}: an error of {} bytes", done.err.len());
    }
    check(&world, [b'i', b'd', b':', 0xff, 0xfe, b'\n']).code(2).tells(&["[not-utf8]"]);
    // Anchors within bounds are no fault.
    world.write("good/plugin.yaml", "tools:\n  - &one { id: a, mcp: [cat] }\n  - { <<: *one, id: b }\n");
    let good = world.call(&["run", "--plugin", "good", "--input", "x"]).code(2);
    assert!(good.err.contains("no agent"), "{good}");
}

#[test]
fn odd_folders_and_files_are_refused() {
    let world = World::new();
    world.write("file", "x");
    std::fs::create_dir_all(world.path("none")).unwrap();
    std::fs::create_dir_all(world.path("folder/plugin.yaml")).unwrap();
    std::fs::create_dir_all(world.path("loop")).unwrap();
    std::os::unix::fs::symlink("plugin.yaml", world.path("loop/plugin.yaml")).unwrap();
    for plugin in ["file", "none", "folder", "loop", "/dev/null", "\u{1b}[31mred", ""] {
        let done = world.call(&["check", plugin]).code(2);
        assert!(done.err.contains("error:") && !done.err.contains('\u{1b}'), "{plugin:?}\n{done}");
    }
    world.write("hookwright.yaml", "tenants: 5\n");
    world.call(&["check"]).code(2).tells(&["hookwright.yaml:1:"]);
    world.call(&["--config", "nowhere.yaml", "check"]).code(2).tells(&["nowhere.yaml"]);
    world.call(&["--config", "/dev/null", "check"]).code(2);
}

/// What comes of a hook before a call that answers so.
fn answered(behaviour: Value, keys: Value) -> (Finished, usize) {
    let mut hook = json!({"on": "pre_tool_call", "call": "policy.check"});
    hook.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", behaviour)]))
            .server("git", json!([function("push", json!({"text": "pushed"}))]))
            .hook(hook)
            .turns(json!([{"call": {"tool": "git.push"}}, {"expect": "The call to git.push was not made: hook policy.check denied it: ", "say": "done"}])),
    );
    (world.run(&[]), world.calls("git").len())
}

#[test]
fn no_answer_that_is_no_valid_decision_lets_a_call_through() {
    let text = |text: &str| json!({ "text": text });
    let blocks = |blocks: Value| json!({"result": {"content": blocks}});
    let allow = r#"{"decision":"allow"}"#;
    for behaviour in [
        text("ALLOW"),
        text("\"allow\""),
        text("allow"),
        text(r#"["allow"]"#),
        text("null"),
        text(""),
        text(r#"{"decision":"Allow"}"#),
        text(r#"{"decision":"allow","decision":"deny"}"#),
        text(r#"{"decision":["allow"]}"#),
        text(r#"{"decision":"modify"}"#),
        text(r#"{"decision":"modify","arguments":null}"#),
        text(&format!("{allow}{allow}")),
        text(&format!("```json\n{allow}\n```")),
        blocks(json!([{"type": "text", "text": allow}, {"type": "text", "text": allow}])),
        blocks(json!([])),
        blocks(json!("allow")),
        blocks(json!([{"type": "image", "data": "", "mimeType": "image/png"}])),
        json!({"result": Value::Null}),
        json!({"result": {"structuredContent": "allow"}}),
        json!({"result": {"isError": true, "structuredContent": {"decision": "allow"}}}),
        json!({"result": {"isError": "no", "decision": "allow"}}),
        json!({"line": "{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{\"decision\":\"allow\",\"decision\":\"allow\"}}"}),
        json!({"line": "{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":"}),
        json!([{"partial": "{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{\"decision\":\"al"}, {"exit": 1}]),
        json!([{"hex": "ff fe 00"}, {"hex": "7b226a736f6e727063223a22322e30222c226964223a7b69647d2c22726573756c74223a7b226465636973696f6e223a22fffe227d7d"}]),
        json!({"exit": 0}),
        json!({"abort": true}),
        json!({"close_stdout": true}),
    ] {
        let (done, calls) = answered(behaviour.clone(), json!({"timeout": "2s"}));
        assert_eq!(done.status.code(), Some(0), "{behaviour}\n{done}");
        assert_eq!(calls, 0, "{behaviour}: the call was made\n{done}");
    }
}

#[test]
fn an_answer_of_50_megabytes_fails_the_hook_and_harms_nobody() {
    let (done, calls) = answered(json!({"big_text": 50_000_000}), json!({"timeout": "30s"}));
    assert_eq!((done.status.code(), calls), (Some(0), 0), "{done}");
    let (done, calls) = answered(json!([{"unending": 50_000_000}, {"hang": true}]), json!({"timeout": "5s"}));
    assert_eq!((done.status.code(), calls), (Some(0), 0), "{done}");
}

#[test]
fn an_answer_after_the_timeout_counts_for_nothing() {
    let (done, calls) = answered(json!([{"sleep_ms": 700}, says("allow", json!({}))]), json!({"timeout": "100ms"}));
    assert_eq!((done.status.code(), calls), (Some(0), 0), "{done}");
}

#[test]
fn a_reason_of_a_megabyte_with_newlines_and_escapes_is_cut_and_escaped_everywhere() {
    let reason = format!("line\nnext\u{1b}[2J\u{202e}{}", "y".repeat(1_000_000));
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", says("deny", json!({"reason": reason})))]))
            .server("git", json!([function("push", json!({"text": "pushed"}))]))
            .hook(json!({"on": "pre_tool_call", "call": "policy.check"}))
            .turns(json!([
                {"call": {"tool": "git.push"}},
                {"expect": {"matches": "^The call to git.push was not made: hook policy.check denied it: line\\\\nnext\\\\u\\{1b\\}\\[2J\\\\u\\{202e\\}y+\\.$"}, "say": "done"}
            ])),
    );
    let done = world.run(&["--output", "text"]).code(0);
    assert!(!done.err.contains('\u{1b}') && !done.err.contains('\u{202e}'), "{}", done.err.len());
    assert!(done.err.len() < 20_000, "{}", done.err.len());
}

#[test]
fn servers_that_write_no_utf8_or_no_json_or_never_start_harm_only_themselves() {
    for start in [
        json!([{"hex": "fffefdfc"}, {"noise": 1_000}, {"stderr": "\u{1b}[2Jhello\n"}]),
        json!([{"stderr_flood": 5_000_000}, {"flood": 5_000}]),
    ] {
        let world = World::with(
            Plugin::new("p")
                .scripted(
                    "git",
                    json!({"start": start, "tools": [function("push", json!({"text": "pushed"}))]}),
                    json!({}),
                )
                .turns(json!([{"call": {"tool": "git.push"}}, {"expect": exactly("pushed"), "say": "done"}])),
        );
        let done = world.run(&["--output", "text"]).code(0);
        assert!(!done.err.contains('\u{1b}'), "{done}");
    }
    let world = World::with(
        Plugin::new("p")
            .scripted("bad", json!({"initialize": "never"}), json!({"start_timeout": "500ms"}))
            .server("git", json!([function("push", json!({"text": "pushed"}))]))
            .turns(json!([
                {"call": [{"tool": "git.push"}, {"tool": "bad.thing"}]},
                {"expect": ["pushed", "The call to bad.thing was not made: the tool bad is not available"], "say": "done"}
            ])),
    );
    world.run(&[]).code(0);
}

#[test]
fn stores_that_are_none_or_cannot_be_written_say_so() {
    let world = World::with(Plugin::new("p").turns(json!([{"say": "done"}])));
    world.write("text.db", "this is no database, though it is long enough to look like one\n".repeat(40));
    world.write("empty.db", "");
    std::fs::create_dir_all(world.path("folder.db")).unwrap();
    let run = |db: &str| world.call(&["run", "--plugin", "p", "--input", "x", "--db", db]);
    run("text.db").code(1).tells(&["text.db", "not an SQLite database"]);
    run("folder.db").code(1).tells(&["folder.db"]);
    run("/proc/nothing/jobs.db").code(1).tells(&["/proc/nothing/jobs.db"]);
    run("empty.db").code(0);
    for db in ["text.db", "folder.db", "/dev/null"] {
        world.call(&["jobs", "list", "--db", db]).code(1);
        world.call(&["audit", "verify", "--db", db]).code(1);
    }
}

#[test]
fn a_read_only_store_is_read_and_not_written() {
    let world = World::with(Plugin::new("p").turns(json!([{"say": "done"}])));
    let job = world.run(&[]).code(0).json()["job"].as_str().unwrap().to_owned();
    let set = |mode| std::fs::set_permissions(world.path("jobs.db"), std::fs::Permissions::from_mode(mode)).unwrap();
    set(0o400);
    if std::fs::OpenOptions::new().write(true).open(world.path("jobs.db")).is_err() {
        world.run(&[]).code(1).tells(&["read-only"]);
    }
    for args in [&["jobs", "list"][..], &["replay", &job], &["audit", "verify"]] {
        world.call(&[args, &["--db", "jobs.db"]].concat()).code(0);
    }
    set(0o600);
}

#[test]
fn a_disk_that_fills_up_fails_the_job_in_words_and_it_goes_on_when_there_is_room() {
    let world = World::with(
        Plugin::new("p")
            .server(
                "git",
                json!([function("push", json!({"text": "pushed"})), function("read", json!({"big_text": 3_000_000}))]),
            )
            .turns(json!([
                {"call": {"tool": "git.push"}}, {"call": {"tool": "git.read"}}, {"say": "done"}
            ])),
    );
    // No file may grow over a megabyte; SIGXFSZ is ignored, so that writing fails as on a full disk.
    let job = world.job(&[]);
    let mut limited = std::process::Command::new("sh");
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 2048; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_hookwright")])
        .args(job.get_args());
    world.settle(&mut limited);
    let done = Running::start(limited).finish().code(1);
    let said = ["disk is full", "could not be read or written"].iter().any(|part| done.err.contains(part));
    assert!(said && done.err.contains("jobs resume"), "{done}");
    let listed = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
    let id = listed["jobs"][0]["job"].as_str().unwrap();
    world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
    world.call(&["jobs", "resume", id, "--db", "jobs.db", "--output", "json"]).code(0);
    assert_eq!(world.calls("git").iter().filter(|(name, _)| name == "push").count(), 1);
    assert_eq!(
        world.calls("git").iter().filter(|(name, _)| name == "read").count(),
        1,
        "it may have been made: not again"
    );
}

#[test]
fn scripts_and_inputs_that_are_wrong_are_refused_before_anything_starts() {
    let world = World::with(Plugin::new("p").server("git", json!([])).turns(json!([{"say": "done"}])));
    for (script, part) in [
        ("", "script.yaml"),
        ("turns: [{ sya: x }]\n", "sya"),
        ("turns: [{ say: x, delay: 2h }]\n", "delay"),
        ("\u{0}", "script.yaml"),
    ] {
        world.write("p/script.yaml", script);
        world.run(&[]).code(2).tells(&[part]);
    }
    std::fs::remove_file(world.path("p/script.yaml")).unwrap();
    world.run(&[]).code(2).tells(&["script.yaml"]);
    assert!(world.messages("git").is_empty());
    Plugin::new("p").turns(json!([{"say": "done"}])).save(&world);
    world.run(&["--input", ""]).code(0);
    for input in [&b""[..], b"\n", b"\xff\xfe"] {
        use std::io::Write as _;
        let mut command = world.hookwright(&["run", "--plugin", "p", "--input", "-"]);
        command.stdin(std::process::Stdio::piped());
        let mut running = Running::start(command);
        running.stdin().unwrap().write_all(input).unwrap();
        running.finish().code(2);
    }
}

fn pipe(world: &World, name: &str) {
    let path = world.path(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = std::fs::remove_file(&path);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
}

#[test]
fn a_pipe_under_the_name_of_a_file_is_refused_and_never_waited_for() {
    let world = World::with(Plugin::new("p").turns(json!([{"say": "done"}])));
    for name in ["bad/plugin.yaml", "pipe"] {
        pipe(&world, name);
    }
    for args in [
        &["check", "bad"][..],
        &["run", "--plugin", "bad", "--input", "x"],
        &["ask", "--plugin", "p", "--event", "pipe"],
        &["--config", "pipe", "check"],
        &["trust", "pipe"],
    ] {
        world.call(args).code(2).tells(&["named pipe"]);
    }
    world.call(&["ask", "--plugin", "p", "--event", "/dev/zero"]).code(2).tells(&["a device"]);
    world.call(&["run", "--plugin", "p", "--input", "x", "--db", "pipe"]).code(1).tells(&["pipe"]);
    world.call(&["jobs", "list", "--db", "pipe"]).code(1).tells(&["pipe"]);
    world.run(&[]).code(0);
    for flag in ["--head", "--public-key"] {
        world.write("head.json", r#"{"heads": []}"#);
        let mut args = vec!["audit", "verify", "--db", "jobs.db", flag, "pipe"];
        if flag == "--public-key" {
            args.extend(["--head", "head.json"]);
        }
        world.call(&args).code(2).tells(&["named pipe"]);
    }
    pipe(&world, "p/script.yaml");
    world.run(&[]).code(2).tells(&["is no file"]);
    // What the command was handed is read.
    let mut command = world.hookwright(&["ask", "--plugin", "p", "--event", "/dev/stdin"]);
    command.stdin(std::process::Stdio::piped());
    let mut running = Running::start(command);
    let event = br#"{"event": "job_start", "input": "x"}"#;
    std::io::Write::write_all(&mut running.stdin().unwrap(), event).unwrap();
    running.finish().code(0);
}

#[test]
fn what_a_terminal_could_act_on_is_escaped_in_errors_over_the_command_line() {
    let world = World::new();
    for word in ["ru\u{1b}[31mn", "--in\u{202e}put", "--db=\r", "jo\u{9b}bs", "a\nb"] {
        let done = world.call(&[word]).code(2);
        assert!(!done.err.chars().any(|c| c != '\n' && hookwright_core::text::is_hidden(c)), "{:?}", done.err);
    }
    world.call(&["run", "--approve", "y\u{1b}"]).code(2).tells(&["y\\u{1b}", "ask, wait, yes, no"]);
}

#[test]
fn secrets_in_addresses_and_under_telling_names_are_never_repeated() {
    let world = World::new();
    for manifest in [
        "tools: [{ id: t, mcp: \"https://h.example/mcp?api_key=hunter2&x=1\", wrong: 1 }]\n",
        "tools: [{ id: t, mcp: \"https://hunter2@h.example/mcp\" }]\n",
        "tools: [{ id: t, mcp: \"https://me:hunter2@h.example/mcp\" }]\n",
        "tools: [{ id: t, mcp: [\"x\"], env: { DB_PASSWORD: hunter2, LEVEL: 3 } }]\n",
        "tools: [{ id: t, mcp: \"http://127.0.0.1:9/mcp?token=hunter2\" }]\n",
        "tools: [{ id: t, mcp: [\"sh\", \"-c\", \"echo $DB_PASSWORD >&2; exit 1\"], env: { DB_PASSWORD: hunter2 } }]\n",
    ] {
        world.write("bad/plugin.yaml", manifest);
        for args in [&["check", "bad", "--log", "debug"][..], &["check", "bad", "--output", "json"]] {
            let done = world.call(args).code(2);
            assert!(!done.err.contains("hunter2") && !done.out.contains("hunter2"), "{manifest}{done}");
        }
    }
}
