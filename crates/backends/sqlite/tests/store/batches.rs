//! Batches: whole or not at all, in order, together.

use crate::support::*;
use hookwright_runtime::ports::store::*;
use hookwright_sqlite::{ProbePoint, SqliteStore};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

/// Texts that have broken other stores.
const HOSTILE: [&str; 8] = [
    "",
    "'; DROP TABLE jobs; --",
    "nul \0 in the middle",
    "\u{10FFFF}\u{0}\u{202e}\u{feff}",
    "😀 ä \r\n\t \u{1b}[31m",
    "%_*?[]\"`\\",
    "NULL",
    "1e999",
];

/// Holds the writer in its first commit after `hold` was called, until `go`.
#[derive(Default)]
struct Gate {
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Gate {
    fn open_store(folder: &Folder) -> (Arc<Self>, Arc<SqliteStore>) {
        let gate = Arc::new(Self::default());
        let at = gate.clone();
        let mut options = options();
        options.probe = Some(Arc::new(move |point| {
            if matches!(point, ProbePoint::BeforeCommit { .. }) {
                let mut state = at.state.lock().unwrap();
                state.1 = state.0;
                at.changed.notify_all();
                drop(at.changed.wait_while(state, |state| state.0).unwrap());
            }
        }));
        (gate, SqliteStore::open(folder.db(), options).unwrap())
    }
    fn hold(&self) {
        *self.state.lock().unwrap() = (true, false);
    }
    /// Waits until the writer stands at the gate.
    async fn held(self: &Arc<Self>) {
        let me = self.clone();
        tokio::task::spawn_blocking(move || drop(me.changed.wait_while(me.state.lock().unwrap(), |s| !s.1).unwrap()))
            .await
            .unwrap();
    }
    fn go(&self) {
        *self.state.lock().unwrap() = (false, false);
        self.changed.notify_all();
    }
}

#[tokio::test]
async fn what_was_written_is_read_back_whatever_it_is() {
    let folder = Folder::new();
    let store = folder.open();
    for (i, text) in HOSTILE.into_iter().enumerate() {
        let text = text.to_owned();
        let new = NewJob {
            id: format!("job-{i}"),
            tenant: text.clone(),
            agent: text.clone(),
            session: text.clone(),
            parent: Some(text.clone()),
            created_ms: NOW,
            origin: serde_json::json!({ text.clone(): [text.clone()] }),
        };
        let first = Batch {
            records: vec![RecordText { seq: 0, text: text.clone() }],
            blobs: vec![blob(&text)],
            opened: vec![ApprovalRow {
                tenant: text.clone(),
                approval: serde_json::json!({ "digest": text.clone(), "x": text.clone() }),
                ..approval(&new.id, &format!("ap-{i}{text}"))
            }],
            ..Batch::default()
        };
        let lease = store.create_job(new.clone(), first.clone()).await.unwrap();
        assert_eq!(store.job(&new.id).await.unwrap().job, new);
        assert_eq!(store.records(&new.id, 0).await.unwrap(), std::slice::from_ref(&text));
        assert_eq!(store.blob(&blob(&text).sha256).await.unwrap(), Some(text.clone()));
        assert_eq!(store.approval(&first.opened[0].id).await.unwrap(), first.opened[0]);
        store.request_cancel(&new.id, &text, NOW).await.unwrap();
        let items = store.inbox(&new.id).await.unwrap();
        assert_eq!(items[0].what, InboxKind::Cancel { by: text.clone(), at_ms: NOW });
        assert!(store.job(&text).await.is_err() && store.approval(&text).await.is_err());
        assert_eq!(store.blob(&text).await.unwrap(), None);
        store.append(&lease, batch(1, 1)).await.unwrap();
    }
    assert_eq!(store.jobs(false, 100).await.unwrap().len(), HOSTILE.len());
}

#[tokio::test]
async fn a_job_id_must_be_fit_to_show() {
    let folder = Folder::new();
    let store = folder.open();
    for id in ["", "a\nb", "a\0", "\u{202e}a", &"x".repeat(257)] {
        assert!(failed(store.create_job(job(id), batch(0, 1)).await).contains("cannot be used"), "{id:?}");
    }
    store.create_job(job("ä 1/2:3"), batch(0, 1)).await.unwrap();
    assert!(failed(store.create_job(job("ä 1/2:3"), batch(0, 1)).await).contains("already"));
}

#[tokio::test]
async fn records_are_read_from_any_point_on() {
    let folder = Folder::new();
    let store = folder.open();
    let lease = store.create_job(job("a"), batch(0, 2)).await.unwrap();
    store.append(&lease, batch(2, 3)).await.unwrap();
    store.append(&lease, Batch::default()).await.unwrap();
    assert_eq!(store.records("a", 0).await.unwrap(), texts(0, 5));
    assert_eq!(store.records("a", 3).await.unwrap(), texts(3, 2));
    assert!(store.records("a", 5).await.unwrap().is_empty());
    assert!(store.records("a", u64::MAX).await.unwrap().is_empty());
    assert_eq!(store.job("a").await.unwrap().records, 5);
    assert_eq!(store.records("b", 0).await.unwrap_err(), StoreError::NotFound { kind: "job", id: "b".into() });
}

#[tokio::test]
async fn a_gap_or_a_repetition_is_refused_and_nothing_of_its_batch_is_stored() {
    let folder = Folder::new();
    let store = folder.open();
    let lease = store.create_job(job("a"), batch(0, 2)).await.unwrap();
    for (first, text) in [(0, "a"), (1, "b"), (3, "c"), (u64::MAX, "d")] {
        let refused = Batch {
            records: vec![RecordText { seq: first, text: String::new() }],
            blobs: vec![blob(text)],
            opened: vec![approval("a", text)],
            status: Some(JobStatus::Failed),
            ..Batch::default()
        };
        assert!(failed(store.append(&lease, refused).await).contains("2 is next"));
        assert_eq!(store.blob(&blob(text).sha256).await.unwrap(), None);
    }
    let inner_gap = Batch { records: vec![record(2), record(4)], ..Batch::default() };
    assert!(failed(store.append(&lease, inner_gap).await).contains("3 is next"));
    assert!(failed(store.create_job(job("b"), batch(1, 1)).await).contains("0 is next"));
    assert!(store.job("b").await.is_err());
    let row = store.job("a").await.unwrap();
    assert_eq!((row.records, row.status), (2, JobStatus::Running));
    assert!(store.approvals(false).await.unwrap().is_empty());
    store.append(&lease, batch(2, 1)).await.unwrap();
}

#[tokio::test]
async fn a_value_is_stored_once_and_only_under_its_own_digest() {
    let folder = Folder::new();
    let store = folder.open();
    let large = "x".repeat(1_000_000);
    let with = |seq| Batch { blobs: vec![blob(&large), blob(&large), blob("small")], ..batch(seq, 1) };
    let lease = store.create_job(job("a"), with(0)).await.unwrap();
    store.append(&lease, with(1)).await.unwrap();
    store.create_job(job("b"), with(0)).await.unwrap();
    assert_eq!(store.blob(&blob(&large).sha256).await.unwrap(), Some(large.clone()));
    assert_eq!(ask::<i64>(&folder.db(), "SELECT count(*) FROM blobs"), 2);

    for size in [10, 300_000] {
        let mut wrong = blob(&"y".repeat(size));
        wrong.text.push('z');
        let refused = Batch { blobs: vec![wrong.clone()], ..batch(2, 1) };
        assert!(failed(store.append(&lease, refused).await).contains("digest"));
        assert_eq!(store.blob(&wrong.sha256).await.unwrap(), None);
    }
    assert_eq!(store.records("a", 0).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_committed_together_and_a_bad_batch_takes_no_other_with_it() {
    let folder = Folder::new();
    let (gate, store) = Gate::open_store(&folder);
    let mut leases = Vec::new();
    for i in 0..64 {
        leases.push(store.create_job(job(&format!("job-{i:02}")), batch(0, 1)).await.unwrap());
    }
    let before = store.counters();
    assert_eq!((before.batches, before.commits), (64, 64));

    // While the writer commits for the first, the 63 others come to wait.
    gate.hold();
    let mut waiting = tokio::task::JoinSet::new();
    let append = |i: usize| {
        let (store, lease) = (store.clone(), leases[i].clone());
        // Every eighth has a gap; one comes with a lease that is not held.
        let lease = if i == 9 { Lease { epoch: 99, ..lease } } else { lease };
        async move { (i, store.append(&lease, batch(if i % 8 == 7 { 2 } else { 1 }, 1)).await) }
    };
    waiting.spawn(append(0));
    gate.held().await;
    for i in 1..64 {
        waiting.spawn(append(i));
    }
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    gate.go();
    while let Some(done) = waiting.join_next().await {
        let (i, result) = done.unwrap();
        let expected = match i {
            9 => matches!(result, Err(StoreError::LeaseLost { .. })),
            i if i % 8 == 7 => matches!(result, Err(StoreError::Failed(_))),
            _ => result.is_ok(),
        };
        assert!(expected, "{i}: {result:?}");
        let records = store.records(&leases[i].job, 0).await.unwrap().len();
        assert_eq!(records, if result.is_ok() { 2 } else { 1 });
    }
    let after = store.counters();
    assert_eq!((after.batches - before.batches, after.commits - before.commits), (55, 2));
}

#[test]
fn jobs_at_work_at_once_share_fsyncs() {
    block_on(async {
        let folder = Folder::new();
        let store = folder.open();
        let mut jobs = tokio::task::JoinSet::new();
        for i in 0..64 {
            let store = store.clone();
            jobs.spawn(async move {
                let lease = store.create_job(job(&format!("job-{i}")), batch(0, 1)).await.unwrap();
                for seq in 1..20 {
                    store.append(&lease, batch(seq, 1)).await.unwrap();
                }
            });
        }
        jobs.join_all().await;
        let counters = store.counters();
        assert_eq!(counters.batches, 64 * 20);
        assert!(counters.commits * 2 < counters.batches, "{counters:?}");
    });
}

#[tokio::test]
async fn what_changes_nothing_costs_no_commit() {
    let folder = Folder::new();
    let store = folder.open();
    let lease = store.create_job(job("a"), ending(0, JobStatus::Completed)).await.unwrap();
    let before = store.counters();
    assert!(store.append(&Lease { epoch: 7, ..lease }, batch(1, 1)).await.is_err());
    assert!(store.take_lease("a").await.is_err());
    assert!(store.take_lease("b").await.is_err());
    store.request_cancel("a", "somebody", NOW).await.unwrap();
    assert_eq!(store.counters(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_nobody_waits_for_any_more_is_given_back() {
    let folder = Folder::new();
    let (gate, store) = Gate::open_store(&folder);
    let lease = store.create_job(job("a"), batch(0, 1)).await.unwrap();
    store.release(&lease).await.unwrap();
    gate.hold();
    let taking = {
        let store = store.clone();
        tokio::spawn(async move { store.take_lease("a").await })
    };
    gate.held().await;
    taking.abort();
    assert!(taking.await.unwrap_err().is_cancelled());
    gate.go();
    assert_eq!(store.take_lease("a").await.unwrap().epoch, 3);
}

#[tokio::test]
async fn a_long_history_is_written_and_read_in_seconds() {
    let folder = Folder::new();
    let store = folder.open();
    let lease = store.create_job(job("a"), Batch::default()).await.unwrap();
    for first in (0..100_000).step_by(1_000) {
        store.append(&lease, batch(first, 1_000)).await.unwrap();
    }
    let since = Instant::now();
    let records = store.records("a", 0).await.unwrap();
    assert_eq!((records.len(), records.last().map(String::as_str)), (100_000, Some(r#"{"seq":99999}"#)));
    assert!(since.elapsed().as_secs() < 20, "{:?}", since.elapsed());
}
