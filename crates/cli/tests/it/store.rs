//! What was written: `jobs`, `replay` and `audit` over a store that somebody changed behind our back.

use crate::support::{Finished, Plugin, World, exactly, function, says};
use rusqlite::Connection;
use serde_json::{Value, json};

/// A world with one finished job.
fn finished() -> (World, String) {
    let plugin = Plugin::new("p")
        .server("policy", json!([function("check", says("modify", json!({"arguments": {"branch": "fix"}})))]))
        .server("git", json!([function("push", json!({"text": "pushed"}))]))
        .hook(json!({"on": "pre_tool_call", "call": "policy.check"}));
    let world = World::with(plugin.turns(json!([
        {"call": {"tool": "git.push", "with": {"branch": "main"}}}, {"expect": exactly("pushed"), "say": "done"}
    ])));
    let job = world.run(&[]).code(0).json()["job"].as_str().unwrap().to_owned();
    (world, job)
}

fn edit(world: &World, sql: &str) {
    let db = Connection::open(world.path("jobs.db")).unwrap();
    assert!(db.execute(sql, []).unwrap() > 0, "{sql}");
}

fn verify(world: &World, more: &[&str]) -> Finished {
    world.call(&[&["audit", "verify", "--db", "jobs.db", "--output", "json"], more].concat())
}

/// The hash of a record as the store's documentation defines it, made anew after a change.
fn rehash(record: &mut Value, prev: &str) -> String {
    record["prev"] = json!(prev);
    let mut hashed = record.clone();
    hashed.as_object_mut().unwrap().remove("hash");
    without_values(&mut hashed);
    let hash = hookwright_core::json::digest(&hashed);
    record["hash"] = json!(hash);
    hash
}

/// Leaves inline values out: an object with `sha256`, `bytes` and `value` is a stored value.
fn without_values(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.contains_key("sha256") && map.contains_key("bytes") {
                map.remove("value");
            }
            map.values_mut().for_each(without_values);
        }
        Value::Array(list) => list.iter_mut().for_each(without_values),
        _ => {}
    }
}

/// Writes the whole history anew, changed and with hashes that fit.
fn rewrite(world: &World, change: impl Fn(&mut Vec<Value>)) {
    let db = Connection::open(world.path("jobs.db")).unwrap();
    let mut texts = db.prepare("SELECT text FROM records ORDER BY seq").unwrap();
    let texts: Vec<String> = texts.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut records: Vec<Value> = texts.iter().map(|t| serde_json::from_str(t).unwrap()).collect();
    change(&mut records);
    let mut prev = "0".repeat(64);
    for (seq, record) in records.iter_mut().enumerate() {
        prev = rehash(record, &prev);
        let seq = i64::try_from(seq).unwrap();
        db.execute("UPDATE records SET text = ?1 WHERE seq = ?2", (record.to_string(), seq)).unwrap();
    }
}

#[test]
fn a_history_that_nobody_touched_verifies_and_replays_and_calls_nothing() {
    let (world, job) = finished();
    assert!(!world.path("jobs.db-wal").exists(), "the last process that ends in order leaves one file");
    let before = (world.messages("git").len(), world.messages("policy").len());
    let report = verify(&world, &[]).code(0).json();
    assert_eq!((&report["ok"], &report["jobs"][0]["job"]), (&json!(true), &json!(job)));
    let replay = world.call(&["replay", &job, "--db", "jobs.db", "--output", "json"]).code(0).json();
    assert_eq!((&replay["ok"], &replay["records"]), (&json!(true), &report["jobs"][0]["records"]));
    assert_eq!(before, (world.messages("git").len(), world.messages("policy").len()));
    // An id may be shortened as long as it is clear.
    world.call(&["replay", &job[..9], "--db", "jobs.db"]).code(0);
    world.call(&["replay", "job_nothing", "--db", "jobs.db"]).code(1).tells(&["jobs list"]);
}

#[test]
fn a_rewrite_with_hashes_that_fit_is_not_what_the_logic_does_and_replay_shows_the_difference() {
    let (world, job) = finished();
    rewrite(&world, |_| {});
    world.call(&["replay", &job, "--db", "jobs.db"]).code(0);
    rewrite(&world, |records| {
        let call = records.iter_mut().find(|r| r["command"]["do"] == "call_tool").unwrap();
        call["command"]["tool"] = json!("git.delete");
    });
    verify(&world, &[]).code(0);
    let shown = world.call(&["replay", &job, "--db", "jobs.db"]).code(1);
    for part in ["does not replay", "git.delete", "git.push", "- ", "+ "] {
        assert!(shown.out.contains(part), "{part:?}\n{shown}");
    }
    let report = world.call(&["replay", &job, "--db", "jobs.db", "--output", "json"]).code(1).json();
    assert!(report["ok"] == false && report["seq"].is_u64(), "{report}");
    assert!(report["history"].as_str().unwrap().contains("git.delete"));
    assert!(report["logic"].as_str().unwrap().contains("git.push"));
}

#[test]
fn a_change_and_a_gap_are_found() {
    let (world, job) = finished();
    edit(&world, "UPDATE records SET text = replace(text, '\"ms\":', '\"ms\":1') WHERE text LIKE '%tool_returned%'");
    let report = verify(&world, &[]).code(1).json();
    assert!(report["jobs"][0]["problem"].as_str().unwrap().contains("was changed"), "{report}");
    let shown = world.call(&["replay", &job, "--db", "jobs.db"]).code(1);
    assert!(shown.out.contains("does not replay"), "{shown}");

    let (world, _) = finished();
    edit(&world, "DELETE FROM records WHERE seq = 3");
    let report = verify(&world, &[]).code(1).json();
    assert!(report["jobs"][0]["problem"].as_str().unwrap().contains("record 3 is missing"), "{report}");

    let (world, job) = finished();
    edit(&world, "UPDATE records SET text = 'nothing' WHERE seq = 2");
    verify(&world, &[]).code(1);
    world.call(&["jobs", "show", &job, "--db", "jobs.db"]).code(1).tells(&["record 2", "audit verify"]);
    world.call(&["jobs", "history", &job, "--db", "jobs.db"]).code(1);
}

#[test]
fn a_cut_tail_and_a_rewritten_whole_are_found_against_a_head_kept_elsewhere() {
    let (world, _) = finished();
    let head = world.call(&["audit", "head", "--db", "jobs.db"]).code(0);
    world.write("head.json", &head.out);
    verify(&world, &["--head", "head.json"]).code(0);

    rewrite(&world, |records| records[0]["at_ms"] = json!(1));
    verify(&world, &[]).code(0);
    let report = verify(&world, &["--head", "head.json"]).code(1).json();
    assert!(report["jobs"][0]["problem"].as_str().unwrap().contains("rewritten"), "{report}");

    let (world, _) = finished();
    world.write("head.json", world.call(&["audit", "head", "--db", "jobs.db"]).code(0).out);
    edit(&world, "DELETE FROM records WHERE seq = (SELECT max(seq) FROM records)");
    let report = verify(&world, &[]).code(1).json();
    assert!(report["jobs"][0]["problem"].as_str().unwrap().contains("the job's row was changed"), "{report}");
    edit(&world, "UPDATE jobs SET records = records - 1, status = 'running'");
    verify(&world, &[]).code(0);
    let report = verify(&world, &["--head", "head.json"]).code(1).json();
    assert!(report["jobs"][0]["problem"].as_str().unwrap().contains("1 records at the end are missing"), "{report}");

    let (other, _) = finished();
    std::fs::rename(other.path("jobs.db"), world.path("jobs.db")).unwrap();
    let report = verify(&world, &["--head", "head.json"]).code(1).json();
    assert!(report["jobs"].as_array().unwrap().iter().any(|j| j["problem"].to_string().contains("gone")), "{report}");
    world.write("head.json", "[]");
    verify(&world, &["--head", "head.json"]).code(2).tells(&["audit head"]);
}

#[test]
fn a_signed_head_counts_only_as_it_was_signed() {
    let (world, _) = finished();
    for (secret, public) in [("key", "key.pub"), ("other", "other.pub")] {
        let key = hookwright_signer::key::generate().unwrap();
        hookwright_signer::key::write(&key, &world.path(secret), &world.path(public)).unwrap();
    }
    let head = world.call(&["audit", "head", "--db", "jobs.db", "--key", "key"]).code(0).out;
    world.write("head.json", &head);
    let verify = |public: &str| verify(&world, &["--head", "head.json", "--public-key", public]);
    verify("key.pub").code(0);
    verify("other.pub").code(1).tells(&["not signed with that key"]);
    let mut changed: Value = serde_json::from_str(&head).unwrap();
    changed["heads"][0]["records"] = json!(1);
    world.write("head.json", changed.to_string());
    verify("key.pub").code(1);
    world.write("head.json", world.call(&["audit", "head", "--db", "jobs.db"]).code(0).out);
    verify("key.pub").code(1).tells(&["no signature"]);
}

#[test]
fn values_can_be_deleted_and_the_history_still_verifies() {
    let (world, job) = finished();
    world.call(&["jobs", "forget", &job, "--db", "jobs.db"]).code(0);
    verify(&world, &[]).code(0);
    let history = world.call(&["jobs", "history", &job, "--db", "jobs.db", "--output", "json"]).code(0);
    assert!(!history.out.contains("\"pushed\"") && !history.out.contains("Do it."), "{history}");
    let shown = world.call(&["jobs", "show", &job, "--db", "jobs.db"]).code(0).out;
    assert!(shown.matches(", deleted; its digest ").count() == 2 && !shown.contains("stored as"), "{shown}");
    world.call(&["jobs", "history", &job, "--db", "jobs.db"]).code(0);
}

#[test]
fn jobs_are_listed_and_shown_to_people_and_scripts() {
    let (world, job) = finished();
    let text = world.call(&["jobs", "list", "--db", "jobs.db"]).code(0);
    assert!(text.out.contains(&job) && text.out.contains("completed"), "{text}");
    let shown = world.call(&["jobs", "show", &job, "--db", "jobs.db", "--output", "json"]).code(0).json();
    assert_eq!(
        (&shown["status"], &shown["output"], &shown["agent"]),
        (&json!("completed"), &json!("done"), &json!("worker"))
    );
    assert!(world.call(&["jobs", "show", &job, "--db", "jobs.db"]).code(0).out.contains("script/script.yaml"));
    let history = world.call(&["jobs", "history", &job, "--db", "jobs.db"]).code(0);
    assert!(history.out.contains("git.push") && history.out.contains("policy.check"), "{history}");
    world.call(&["jobs", "list", "--db", "elsewhere.db"]).code(1).tells(&["there is no store", "--db"]);
    assert!(!world.path("elsewhere.db").exists());
}

#[test]
fn without_db_the_store_is_in_a_folder_that_git_ignores() {
    let (world, _) = finished();
    world.call(&["run", "--plugin", "p", "--input", "x"]).code(0);
    assert!(world.path(".hookwright/hookwright.db").exists());
    assert_eq!(std::fs::read_to_string(world.path(".hookwright/.gitignore")).unwrap(), "*\n");
    assert!(world.call(&["jobs", "list"]).code(0).out.contains("completed"));
}

#[test]
fn a_set_up_that_was_cut_short_is_made_good_by_the_next_run_and_its_jobs_are_ones_own() {
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", says("escalate", json!({"reason": "hm"})))]))
            .hook(json!({"on": "job_start", "call": "policy.check"}))
            .turns(json!([{"say": "done"}])),
    );
    world.write(".hookwright/hookwright.db", "");
    world.call(&["jobs", "list"]).code(1).tells(&["nothing is stored in it yet"]);
    world.call(&["run", "--plugin", "p", "--input", "x", "--detach"]).code(4);
    world.call(&["jobs", "resume", "--all", "--approve", "yes"]).code(0);
}

#[test]
fn commands_that_only_look_leave_one_file_and_make_none() {
    let world = World::with(Plugin::new("p").turns(json!([{"say": "done"}])));
    let looks = |code: i32| {
        for args in [&["jobs", "list"][..], &["approvals", "list"], &["audit", "verify"], &["audit", "head"]] {
            world.call(&[args, &["--db", "jobs.db"]].concat()).code(code);
        }
    };
    looks(1);
    assert!(!world.path("jobs.db").exists());
    world.run(&[]).code(0);
    looks(0);
    for beside in ["jobs.db-wal", "jobs.db-shm"] {
        assert!(!world.path(beside).exists(), "{beside}");
    }
}

/// A world with a job that waits in the folder's own store.
fn waiting() -> World {
    let plugin = Plugin::new("p")
        .server("policy", json!([function("check", says("escalate", json!({"reason": "hm"})))]))
        .server("git", json!([function("push", json!({"text": "pushed"}))]))
        .hook(json!({"on": "pre_tool_call", "call": "policy.check"}));
    let turns = json!([{"call": {"tool": "git.push", "with": {}}}, {"say": "done"}]);
    let world = World::with(plugin.turns(turns));
    world.call(&["run", "--plugin", "p", "--input", "x", "--detach"]).code(4);
    world
}

/// Puts another file in the store's place, as a clone brings one: with the same bytes.
fn came_with_the_folder(world: &World) {
    let db = world.path(".hookwright/hookwright.db");
    std::fs::copy(&db, world.path("copy")).unwrap();
    std::fs::rename(world.path("copy"), &db).unwrap();
}

#[test]
fn a_store_that_came_with_the_folder_is_written_to_only_where_it_is_named() {
    let world = waiting();
    let list = world.call(&["approvals", "list", "--output", "json"]).code(0).json();
    let (ap, job) = (list["approvals"][0]["id"].as_str().unwrap(), list["approvals"][0]["job"].as_str().unwrap());
    came_with_the_folder(&world);
    let run = ["run", "--plugin", "p", "--input", "x", "--detach"];
    let acp = ["acp", "--plugin", "p"];
    let demo = ["demo", "--approve", "no"];
    for args in [
        &run[..],
        &acp,
        &demo,
        &["jobs", "resume", "--all"],
        &["jobs", "cancel", job],
        &["jobs", "forget", job],
        &["approvals", "approve", ap],
        &["approvals", "deny", ap],
    ] {
        let said = world.call(args).code(2);
        assert!(said.out.is_empty(), "{said}");
        said.tells(&["was not made by you here", "--db .hookwright/hookwright.db", "remove it"]);
    }
    assert_eq!(world.calls("git").len(), 0);
    // Looking needs no trust; a store that is named is used, and so are the commands that are printed then.
    for args in [&["jobs", "list"][..], &["jobs", "show", job], &["approvals", "show", ap], &["audit", "verify"]] {
        world.call(args).code(0);
    }
    let db = ["--db", ".hookwright/hookwright.db"];
    world.call(&[&run[..], &db].concat()).code(4).tells(&["jobs resume --all --db .hookwright/hookwright.db"]);
    world.call(&[&["approvals", "approve", ap][..], &db].concat()).code(0);
    world.call(&[&["jobs", "resume", job][..], &db].concat()).code(0);
    assert_eq!(world.calls("git").len(), 1);
    // With the store gone, the folder gets one of its own, which is known.
    std::fs::remove_file(world.path(".hookwright/hookwright.db")).unwrap();
    world.call(&run).code(4);
    world.call(&["jobs", "resume", "--all", "--approve", "yes"]).code(0);
}

#[test]
fn a_store_that_answers_its_own_approvals_is_refused_even_where_it_is_named() {
    let world = waiting();
    let db = Connection::open(world.path(".hookwright/hookwright.db")).unwrap();
    db.execute_batch(
        "CREATE TRIGGER e AFTER INSERT ON approvals BEGIN INSERT INTO inbox (job, what) VALUES (new.job, json_object('kind', 'decided', \
         'approval', new.id, 'decision', json_object('approve', json('true'), 'by', 'alice', 'verified', json('true'), 'note', null, \
         'digest', json_extract(new.approval, '$.digest'), 'at_ms', new.opened_ms))); END",
    )
    .unwrap();
    drop(db);
    let run = ["run", "--plugin", "p", "--input", "x", "--approve", "wait", "--db", ".hookwright/hookwright.db"];
    let said = world.call(&run).code(1);
    assert!(!said.err.contains("approved by alice"), "{said}");
    said.tells(&["the trigger e on approvals is not Hookwright's", "--db"]);
    assert_eq!(world.calls("git").len(), 0);
}

#[test]
fn a_row_that_is_not_what_the_history_says_is_found_and_resume_goes_by_the_history() {
    let world = waiting();
    let problem = || {
        let report = world.call(&["audit", "verify", "--output", "json"]);
        report.json()["jobs"][0]["problem"].as_str().unwrap_or_default().to_owned()
    };
    let db = Connection::open(world.path(".hookwright/hookwright.db")).unwrap();
    assert_eq!(problem(), "");
    for (column, value) in [
        ("tenant", "'other'"),
        ("agent", "'other'"),
        ("session", "'other'"),
        ("parent", "'job_other'"),
        ("records", "1"),
        ("status", "'completed'"),
    ] {
        let (from, to) = (format!("UPDATE jobs SET {column} = {value}"), format!("SELECT {column} FROM jobs"));
        let was: rusqlite::types::Value = db.query_row(&to, [], |row| row.get(0)).unwrap();
        db.execute(&from, []).unwrap();
        assert!(problem().contains("the job's row was changed"), "{column}: {}", problem());
        db.execute(&format!("UPDATE jobs SET {column} = ?1"), [was]).unwrap();
    }
    db.execute_batch("CREATE TEMP TABLE kept AS SELECT * FROM approvals; DELETE FROM approvals").unwrap();
    assert!(problem().contains("is missing"), "{}", problem());
    db.execute_batch("INSERT INTO approvals SELECT * FROM temp.kept").unwrap();
    assert_eq!(problem(), "");
    db.execute_batch("UPDATE jobs SET status = 'completed'").unwrap();
    drop(db);
    let id = world.call(&["jobs", "list", "--output", "json"]).json()["jobs"][0]["job"].as_str().unwrap().to_owned();
    world.call(&["jobs", "resume", &id, "--approve", "yes"]).code(0);
    assert_eq!((world.calls("git").len(), problem().as_str()), (1, ""));
}

#[test]
fn a_bad_row_of_an_approval_stops_nothing_but_itself() {
    let world = waiting();
    world.call(&["run", "--plugin", "p", "--input", "x", "--detach"]).code(4);
    for change in ["state = 'approved', decision = '{}'", "state = 'denied', decision = 'x'", "approval = 'x'"] {
        let db = Connection::open(world.path(".hookwright/hookwright.db")).unwrap();
        db.execute(&format!("UPDATE approvals SET {change} WHERE n = 1"), []).unwrap();
        drop(db);
        let report = world.call(&["audit", "verify", "--output", "json"]).code(1).json();
        let problems: Vec<&Value> = report["jobs"].as_array().unwrap().iter().map(|j| &j["problem"]).collect();
        assert!(problems.iter().any(|p| p.is_null()) && problems.iter().any(|p| p.is_string()), "{report}");
        world.call(&["approvals", "list", "--all"]).code(0);
    }
    let jobs = world.call(&["jobs", "list", "--output", "json"]).json();
    let (newest, oldest) = (jobs["jobs"][0]["job"].as_str().unwrap(), jobs["jobs"][1]["job"].as_str().unwrap());
    world.call(&["jobs", "resume", newest, "--approve", "yes"]).code(0);
    // Its row is put right by its history, and asked again.
    world.call(&["jobs", "resume", oldest, "--approve", "yes"]).code(0);
    assert_eq!(world.calls("git").len(), 2);
}
