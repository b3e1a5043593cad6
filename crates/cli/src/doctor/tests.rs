use super::*;
use serde_json::json;

const NOW: u64 = 1_800_000_000_000;

/// An installation on which nothing is wrong.
fn sound() -> Facts {
    Facts {
        now_ms: NOW,
        version: "1.2.3",
        store: StoreFacts {
            path: "/srv/app/jobs.db".into(),
            exists: true,
            mode: Some(0o100_600),
            folder_mode: Some(0o040_755),
            is_own: true,
            folder_writable: true,
            free_bytes: Some(50 << 30),
            faults: Some(vec![]),
            latest_ms: Some(NOW - 5),
            ..StoreFacts::default()
        },
        config: Some("/srv/app/hookwright.yaml".into()),
        config_digest: Some("aa".into()),
        has_plugins: true,
        tools: 2,
        hooks: 3,
        status: json!({"node": {"pid": 7, "version": "1.2.3", "config_digest": "aa", "uptime_ms": 60_000}}),
        ..Facts::default()
    }
}

/// Levels and texts of what is not in order.
fn wrong(change: impl FnOnce(&mut Facts)) -> Vec<String> {
    let mut facts = sound();
    change(&mut facts);
    let found = judge(&facts, &Next::default());
    for finding in &found {
        assert_eq!(finding.level == Level::Ok, finding.next.is_none(), "what is wrong says what to do: {finding:?}");
    }
    let wrong = found.iter().filter(|finding| finding.level != Level::Ok);
    wrong.map(|f| format!("{:?} {}: {} → {}", f.level, f.about, f.said, f.next.as_deref().unwrap_or(""))).collect()
}

/// One finding, which holds these texts.
fn one(change: impl FnOnce(&mut Facts), texts: &[&str]) {
    let found = wrong(change);
    assert_eq!(found.len(), 1, "{found:#?}");
    for text in texts {
        assert!(found[0].contains(text), "{text:?} is not in {:?}", found[0]);
    }
}

#[test]
fn a_sound_installation_has_no_finding_and_every_area_is_named() {
    assert_eq!(wrong(|_| {}), Vec::<String>::new());
    let areas: Vec<_> = judge(&sound(), &Next::default()).iter().map(|f| f.about).collect();
    assert_eq!(areas, ["store", "clock", "configuration", "plugins", "node", "jobs"]);
}

#[test]
fn what_others_could_do_to_a_store_is_a_problem() {
    one(|f| f.store.mode = Some(0o100_620), &["Problem store", "mode 620", "decide in your name", "chmod go-w"]);
    one(|f| f.store.folder_mode = Some(0o040_777), &["Problem store", "its folder", "mode 777"]);
    one(|f| f.store.mode = Some(0o100_644), &["Warning store", "read by other users", "chmod 600 /srv/app/jobs.db"]);
    one(|f| f.store.is_own = false, &["Warning store", "another user"]);
}

#[test]
fn a_store_that_cannot_work_is_a_problem() {
    one(|f| f.store.folder_writable = false, &["Problem store", "can't be written to"]);
    one(|f| f.store.free_bytes = Some(1 << 20), &["Problem store", "left on its disk"]);
    one(|f| f.store.network = Some("NFS"), &["Problem store", "NFS"]);
    one(
        |f| f.store.unreadable = Some("no\x1b[31m".into()),
        &["Problem store", "can't be read: no\\u{1b}[31m", "backup"],
    );
    one(|f| f.store.faults = Some(vec!["row 3 missing".into()]), &["Problem store", "damaged: row 3 missing"]);
    one(|f| f.store.wal_bytes = 1 << 30, &["Warning store", "write-ahead log"]);
}

#[test]
fn a_clock_that_was_set_back_is_a_problem_from_a_minute_on() {
    assert_eq!(wrong(|f| f.store.latest_ms = Some(NOW + 59_000)), Vec::<String>::new());
    one(|f| f.store.latest_ms = Some(NOW + 3_600_000), &["Problem clock", "behind what the store has seen", "NTP"]);
}

#[test]
fn configurations_and_plugins_that_cannot_be_used_are_problems() {
    one(
        |f| f.unusable = Some(("x.yaml was not trusted yet".into(), Some("run `hookwright trust`".into()))),
        &["Problem configuration", "not trusted yet", "hookwright trust"],
    );
    one(
        |f| f.errors = vec!["a/plugin.yaml:3:1: no".into()],
        &["Problem plugins", "plugin.yaml:3:1", "hookwright check"],
    );
    assert_eq!(wrong(|f| f.errors = vec!["x".into(); 25]).len(), 21, "bounded, and the rest is counted");
    one(|f| f.warnings = vec!["w".into(); 2], &["Warning plugins", "2 warnings"]);
    one(|f| f.has_plugins = false, &["Warning plugins", "no hook is asked"]);
}

#[test]
fn a_node_that_is_older_than_what_it_runs_is_a_warning() {
    one(
        |f| f.changed = vec![("policy".into(), NOW - 60_000)],
        &["Warning plugins", "policy changed 1 min", "hookwright stop"],
    );
    one(|f| f.status["node"]["version"] = json!("1.2.2"), &["Warning node", "1.2.2", "1.2.3"]);
    one(|f| f.config_digest = Some("bb".into()), &["Warning node", "changed since it read them", "hookwright reload"]);
    let reloaded = json!({"ok": true, "config_digest": "bb"});
    let taken_over = wrong(|f| (f.config_digest, f.status["reload"]) = (Some("bb".into()), reloaded));
    assert_eq!(taken_over, Vec::<String>::new(), "what counts since the reload is what there is");
    one(
        |f| f.status["reload"] = json!({"ok": false, "error": "line 3: no"}),
        &["Problem node", "refused: line 3: no", "hookwright reload"],
    );
}

#[test]
fn a_node_that_does_not_answer_is_a_problem_and_none_is_none() {
    one(
        |f| f.mute = Some(("the node (process 7) can't be asked".into(), None)),
        &["Problem node", "process 7", "SIGTERM"],
    );
    assert_eq!(wrong(|f| f.status = json!({"node": null})), Vec::<String>::new());
}

#[test]
fn jobs_that_nobody_runs_and_jobs_that_cannot_go_on_are_problems() {
    assert_eq!(wrong(|f| f.untended = vec![("job_1".into(), NOW - 5_000)]), Vec::<String>::new(), "a node is about to");
    one(
        |f| f.untended = vec![("job_1".into(), NOW - 120_000), ("job_2".into(), NOW - 600_000)],
        &["Problem jobs", "2 jobs", "job_2", "10 min", "jobs resume --all"],
    );
    one(
        |f| f.status["jobs"]["left_listed"] = json!([{"job": "job_3", "why": "its plugin is gone"}]),
        &["Problem jobs", "job_3 can't go on: its plugin is gone", "jobs show job_3"],
    );
}

#[test]
fn an_approval_that_is_about_to_become_a_no_is_a_warning() {
    assert_eq!(wrong(|f| f.open = vec![("apr_1".into(), NOW + 7_200_000)]), Vec::<String>::new());
    one(
        |f| f.open = vec![("apr_1".into(), NOW + 7_200_000), ("apr_2".into(), NOW + 600_000)],
        &["Warning approvals", "1 of 2", "apr_2 in 10 min", "approvals show apr_2"],
    );
}
