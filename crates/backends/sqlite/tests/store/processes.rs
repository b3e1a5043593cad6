//! Several processes on one file, and the death of one at any instant.

use crate::children::{Child, hear, role, say};
use crate::support::*;
use hookwright_runtime::ports::store::*;
use hookwright_sqlite::{ProbePoint, SqliteStore};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn parse(text: &str) -> u64 {
    text.parse().unwrap()
}

/// A batch that touches everything that stands together.
fn rich(seq: u64) -> Batch {
    Batch {
        blobs: vec![blob(&format!("blob {seq} {}", "x".repeat(70_000)))],
        opened: vec![approval("a", &format!("ap{seq}"))],
        closed: seq.checked_sub(1).map(|before| (format!("ap{before}"), ApprovalState::Closed)).into_iter().collect(),
        status: Some(if seq.is_multiple_of(2) { JobStatus::Running } else { JobStatus::Waiting }),
        ..batch(seq * 3, 3)
    }
}

/// Everything that the first `batches` rich batches leave, and nothing of the next one.
async fn check_rich(store: &SqliteStore, batches: u64) {
    assert_eq!(store.records("a", 0).await.unwrap(), texts(0, batches * 3));
    let row = store.job("a").await.unwrap();
    assert_eq!((row.records, row.running), (batches * 3, false));
    assert_eq!(row.status, rich(batches - 1).status.unwrap());
    let mut approvals = store.approvals(false).await.unwrap();
    approvals.sort_by(|a, b| a.id.cmp(&b.id));
    let expected: Vec<_> = (0..batches)
        .map(|seq| {
            let state = if seq + 1 == batches { ApprovalState::Open } else { ApprovalState::Closed };
            ApprovalRow { state, ..approval("a", &format!("ap{seq}")) }
        })
        .collect();
    assert_eq!(approvals, expected);
    for seq in 0..=batches {
        let blob = &rich(seq).blobs[0];
        assert_eq!(store.blob(&blob.sha256).await.unwrap().is_some(), seq < batches);
    }
}

#[test]
fn what_was_acknowledged_survives_the_death_of_its_process() {
    const ME: &str = "processes::what_was_acknowledged_survives_the_death_of_its_process";
    if let Some(role) = role() {
        return block_on(async {
            let store = SqliteStore::open(role.db, options()).unwrap();
            let lease = store.create_job(job("a"), rich(0)).await.unwrap();
            say("1");
            for seq in 1.. {
                store.append(&lease, rich(seq)).await.unwrap();
                say(&(seq + 1).to_string());
            }
        });
    }
    for at_least in [1, 2, 7] {
        let folder = Folder::new();
        let mut child = Child::start(ME, "", &folder.db());
        let acknowledged = (0..at_least).map(|_| parse(&child.hear())).last().unwrap();
        child.kill();
        block_on(async {
            let store = folder.open();
            let batches = store.job("a").await.unwrap().records / 3;
            assert!(batches >= acknowledged, "{batches} of {acknowledged}");
            check_rich(&store, batches).await;
            // And it can go on at once.
            let lease = store.take_lease("a").await.unwrap();
            store.append(&lease, rich(batches)).await.unwrap();
        });
    }
}

#[test]
fn a_process_killed_at_a_commit_leaves_a_batch_whole_or_not_at_all() {
    const ME: &str = "processes::a_process_killed_at_a_commit_leaves_a_batch_whole_or_not_at_all";
    if let Some(role) = role() {
        let (place, at) = role.name.split_once(' ').unwrap();
        let at = parse(at);
        let point =
            if place == "before" { ProbePoint::BeforeCommit { n: at } } else { ProbePoint::AfterCommit { n: at } };
        let mut options = options();
        options.probe = Some(Arc::new(move |here| {
            if here == point {
                say("here");
                hear();
            }
        }));
        return block_on(async {
            let store = SqliteStore::open(role.db, options).unwrap();
            let lease = store.create_job(job("a"), rich(0)).await.unwrap();
            for seq in 1..5 {
                store.append(&lease, rich(seq)).await.unwrap();
            }
        });
    }
    for (place, more) in [("before", 0), ("after", 1)] {
        for n in 0..4 {
            let folder = Folder::new();
            let mut child = Child::start(ME, &format!("{place} {n}"), &folder.db());
            assert_eq!(child.hear(), "here");
            child.kill();
            block_on(async {
                let store = folder.open();
                if n + more == 0 {
                    assert!(store.jobs(false, 9).await.unwrap().is_empty());
                } else {
                    check_rich(&store, n + more).await;
                }
            });
        }
    }
}

#[test]
fn a_killed_holder_is_replaced_at_once_and_a_living_one_is_not() {
    const ME: &str = "processes::a_killed_holder_is_replaced_at_once_and_a_living_one_is_not";
    if let Some(role) = role() {
        return block_on(async {
            let store = SqliteStore::open(role.db, options()).unwrap();
            let lease = match role.name.as_str() {
                "create" => store.create_job(job("a"), batch(0, 1)).await.unwrap(),
                _ => store.take_lease("a").await.unwrap(),
            };
            say(&lease.epoch.to_string());
            hear();
        });
    }
    let folder = Folder::new();
    let store = folder.open();
    for (nth, name) in ["create", "take"].into_iter().enumerate() {
        let mut child = Child::start(ME, name, &folder.db());
        let epoch = parse(&child.hear());
        block_on(async {
            assert!(store.job("a").await.unwrap().running);
            let StoreError::Leased { holder, .. } = store.take_lease("a").await.unwrap_err() else { panic!() };
            assert!(holder.starts_with(&format!("process {} (running since 20", child.process.id())), "{holder}");
            child.kill();
            assert!(!store.job("a").await.unwrap().running);
            let lease = store.take_lease("a").await.unwrap();
            assert!(lease.epoch.cast_unsigned() > epoch);
            store.append(&lease, batch(nth as u64 + 1, 1)).await.unwrap();
            store.release(&lease).await.unwrap();
        });
    }
}

#[test]
fn a_stopped_process_that_was_replaced_writes_nothing_more_when_it_goes_on() {
    const ME: &str = "processes::a_stopped_process_that_was_replaced_writes_nothing_more_when_it_goes_on";
    if let Some(role) = role() {
        return block_on(async {
            // Its heartbeats are as old as its clock says.
            let store = SqliteStore::open(role.db, options_at(NOW)).unwrap();
            let lease = store.create_job(job("a"), batch(0, 1)).await.unwrap();
            say("held");
            hear();
            say(&format!("{:?}", store.append(&lease, batch(1, 1)).await));
        });
    }
    let folder = Folder::new();
    let mut child = Child::start(ME, "", &folder.db());
    assert_eq!(child.hear(), "held");
    block_on(async {
        let store = SqliteStore::open(folder.db(), options_at(NOW + hookwright_sqlite::STUCK_MS)).unwrap();
        let lease = store.take_lease("a").await.unwrap();
        child.say("go on");
        assert_eq!(child.hear(), r#"Err(LeaseLost { job: "a" })"#);
        store.append(&lease, batch(1, 1)).await.unwrap();
    });
    child.end();
}

#[test]
fn processes_append_to_different_jobs_of_one_file_at_once() {
    const ME: &str = "processes::processes_append_to_different_jobs_of_one_file_at_once";
    const JOBS: u64 = 8;
    const BATCHES: u64 = 25;
    if let Some(role) = role() {
        hear();
        return block_on(async {
            // All of them set the new file up at once, too.
            let store = SqliteStore::open(role.db, options()).unwrap();
            let mut jobs = tokio::task::JoinSet::new();
            for i in 0..JOBS {
                let (store, id) = (store.clone(), format!("{}-{i}", role.name));
                jobs.spawn(async move {
                    let lease = store.create_job(job(&id), batch(0, 1)).await.unwrap();
                    for seq in 1..BATCHES {
                        let shared = vec![blob(&format!("shared {seq}"))];
                        store.append(&lease, Batch { blobs: shared, ..batch(seq, 1) }).await.unwrap();
                    }
                });
            }
            jobs.join_all().await;
        });
    }
    let folder = Folder::new();
    let mut children: Vec<_> = (0..4).map(|i| Child::start(ME, &format!("p{i}"), &folder.db())).collect();
    for child in &mut children {
        child.say("go");
    }
    for child in children {
        child.end();
    }
    block_on(async {
        let store = folder.open();
        for row in store.jobs(false, 1_000).await.unwrap() {
            assert_eq!(store.records(&row.job.id, 0).await.unwrap(), texts(0, BATCHES));
            assert!(!row.running);
        }
    });
    assert_eq!(ask::<i64>(&folder.db(), "SELECT count(*) FROM jobs"), 32);
    assert_eq!(ask::<i64>(&folder.db(), "SELECT count(*) FROM blobs"), 24);
    assert_eq!(ask::<String>(&folder.db(), "PRAGMA integrity_check"), "ok");
}

#[test]
fn of_two_processes_that_decide_at_once_exactly_one_counts() {
    const ME: &str = "processes::of_two_processes_that_decide_at_once_exactly_one_counts";
    const ROUNDS: u64 = 20;
    if let Some(role) = role() {
        return block_on(async {
            let store = SqliteStore::open(role.db, options()).unwrap();
            for round in 0..ROUNDS {
                hear();
                // Two threads of each process, with different opinions.
                let (id, one, two) = (format!("ap{round}"), format!("{} 1", role.name), format!("{} 2", role.name));
                let (a, b) =
                    tokio::join!(store.decide(&id, decision(&one, true)), store.decide(&id, decision(&two, false)));
                let say_of = |who: &str, outcome| match outcome {
                    DecideOutcome::Counted => format!("counted {who}"),
                    DecideOutcome::AlreadyDecided(row) => format!("was {}", row.decision.unwrap().by),
                    other => panic!("{other:?}"),
                };
                say(&format!("{};{}", say_of(&one, a.unwrap()), say_of(&two, b.unwrap())));
            }
        });
    }
    let folder = Folder::new();
    block_on(async {
        let store = folder.open();
        let opened = (0..ROUNDS).map(|round| approval("a", &format!("ap{round}"))).collect();
        store.create_job(job("a"), Batch { opened, ..batch(0, 1) }).await.unwrap();
        let mut children: Vec<_> = ["p", "q"].iter().map(|name| Child::start(ME, name, &folder.db())).collect();
        for round in 0..ROUNDS {
            for child in &mut children {
                child.say("go");
            }
            let outcomes: Vec<String> = children.iter_mut().map(Child::hear).collect();
            let outcomes: Vec<_> = outcomes.iter().flat_map(|line| line.split(';')).collect();
            let counted: Vec<_> = outcomes.iter().filter_map(|o| o.strip_prefix("counted ")).collect();
            assert_eq!(counted.len(), 1, "{outcomes:?}");
            assert_eq!(outcomes.iter().filter(|o| **o == format!("was {}", counted[0])).count(), 3, "{outcomes:?}");
            let decided = store.approval(&format!("ap{round}")).await.unwrap().decision.unwrap();
            assert_eq!(decided.by, counted[0]);
            assert_eq!(store.inbox("a").await.unwrap().len() as u64, round + 1);
        }
        for child in children {
            child.end();
        }
    });
}

#[test]
fn a_decision_in_another_process_reaches_the_waiting_one_soon() {
    const ME: &str = "processes::a_decision_in_another_process_reaches_the_waiting_one_soon";
    if let Some(role) = role() {
        return block_on(async {
            let store = SqliteStore::open(role.db, options()).unwrap();
            say("ready");
            for round in 0..10 {
                hear();
                store.decide(&format!("ap{round}"), decision("ann", true)).await.unwrap();
                say("decided");
            }
        });
    }
    let folder = Folder::new();
    block_on(async {
        let store = folder.open();
        let opened = (0..10).map(|round| approval("a", &format!("ap{round}"))).collect();
        store.create_job(job("a"), Batch { opened, ..batch(0, 1) }).await.unwrap();
        let mut child = Child::start(ME, "", &folder.db());
        assert_eq!(child.hear(), "ready");
        let mut changes = store.inbox_changes();
        let mut late = Vec::new();
        for round in 0..10 {
            child.say("go");
            assert_eq!(child.hear(), "decided");
            let since = Instant::now();
            while store.inbox("a").await.unwrap().len() <= round {
                tokio::time::timeout(Duration::from_mins(1), changes.changed()).await.unwrap().unwrap();
            }
            while !changes.has_changed().unwrap() && late.len() < round {
                changes.changed().await.unwrap();
            }
            changes.mark_unchanged();
            late.push(since.elapsed());
        }
        late.sort();
        assert!(late[5] < Duration::from_secs(1), "{late:?}");
        child.end();
    });
}

#[test]
fn a_writer_waits_for_another_process_and_gives_up_in_words() {
    const ME: &str = "processes::a_writer_waits_for_another_process_and_gives_up_in_words";
    if let Some(role) = role() {
        let conn = rusqlite::Connection::open(role.db).unwrap();
        for _ in 0..2 {
            conn.execute_batch("BEGIN IMMEDIATE").unwrap();
            say("locked");
            hear();
            conn.execute_batch("COMMIT").unwrap();
            say("unlocked");
            hear();
        }
        return;
    }
    let folder = Folder::new();
    block_on(async {
        let mut options = options();
        options.busy_wait = Duration::from_millis(500);
        let store = SqliteStore::open(folder.db(), options).unwrap();
        let patient = folder.open();
        let lease = store.create_job(job("a"), batch(0, 1)).await.unwrap();
        let other = patient.create_job(job("b"), batch(0, 1)).await.unwrap();
        let mut child = Child::start(ME, "", &folder.db());

        assert_eq!(child.hear(), "locked");
        let text = failed(store.append(&lease, batch(1, 1)).await);
        assert!(text.contains(&folder.db().display().to_string()), "{text}");
        assert!(text.contains("another process has kept it locked") && text.contains("try again"), "{text}");
        // Reading waits for nobody.
        assert_eq!(store.records("a", 0).await.unwrap().len(), 1);
        child.say("unlock");
        assert_eq!(child.hear(), "unlocked");
        store.append(&lease, batch(1, 1)).await.unwrap();

        child.say("again");
        assert_eq!(child.hear(), "locked");
        let waiting = tokio::spawn(async move { patient.append(&other, batch(1, 1)).await });
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert!(!waiting.is_finished());
        child.say("unlock");
        waiting.await.unwrap().unwrap();
    });
}
