//! Finding jobs and approvals.

use crate::support::*;
use hookwright_runtime::ports::store::JobStatus::{Cancelled, Completed, Failed, Running, Waiting};
use hookwright_runtime::ports::store::*;

async fn ids(store: &dyn Store, unfinished: bool, limit: u32) -> Vec<String> {
    store.jobs(unfinished, limit).await.unwrap().into_iter().map(|row| row.job.id).collect()
}

#[tokio::test]
async fn jobs_are_listed_newest_first_and_unfinished_ones_on_request() {
    let folder = Folder::new();
    let store = folder.open();
    for (i, status) in [Completed, Waiting, Failed, Running, Cancelled].into_iter().enumerate() {
        let new = NewJob { created_ms: NOW + i as u64, ..job(&format!("j{i}")) };
        store.create_job(new, ending(0, status)).await.unwrap();
    }
    // Same time: the later one is the newer one.
    store.create_job(NewJob { created_ms: NOW + 3, ..job("j5") }, batch(0, 1)).await.unwrap();
    assert_eq!(ids(&*store, false, 100).await, ["j4", "j5", "j3", "j2", "j1", "j0"]);
    assert_eq!(ids(&*store, false, 2).await, ["j4", "j5"]);
    assert_eq!(ids(&*store, true, 100).await, ["j5", "j3", "j1"]);
    assert_eq!(ids(&*store, true, 1).await, ["j5"]);
    assert!(ids(&*store, false, 0).await.is_empty());
}

#[tokio::test]
async fn the_last_change_and_status_are_the_batch_s() {
    let folder = Folder::new();
    let store = hookwright_sqlite::SqliteStore::open(folder.db(), options_at(NOW + 5)).unwrap();
    let lease = store.create_job(job("a"), batch(0, 1)).await.unwrap();
    store.append(&lease, Batch { status: Some(JobStatus::Waiting), ..batch(1, 1) }).await.unwrap();
    store.append(&lease, batch(2, 1)).await.unwrap();
    let row = store.job("a").await.unwrap();
    assert_eq!((row.status, row.updated_ms, row.records, row.running), (JobStatus::Waiting, NOW + 5, 3, true));
}

#[tokio::test]
async fn a_prefix_finds_what_it_fits_alone() {
    let folder = Folder::new();
    let store = folder.open();
    for id in ["abc", "abcd", "abd", "b%", "b_", "ü1"] {
        let opened = vec![approval(id, &format!("ap_{id}"))];
        store.create_job(job(id), Batch { opened, ..batch(0, 1) }).await.unwrap();
    }
    for (prefix, found) in [("abc", "abc"), ("abcd", "abcd"), ("abd", "abd"), ("b%", "b%"), ("b_", "b_"), ("ü", "ü1")]
    {
        assert_eq!(store.job(prefix).await.unwrap().job.id, found);
        assert_eq!(store.approval(&format!("ap_{prefix}")).await.unwrap().job, found);
    }
    for prefix in ["a", "ab", "b"] {
        assert_eq!(store.job(prefix).await.unwrap_err(), StoreError::Ambiguous { kind: "job", id: prefix.into() });
        let id = format!("ap_{prefix}");
        assert_eq!(store.approval(&id).await.unwrap_err(), StoreError::Ambiguous { kind: "approval", id });
    }
    for prefix in ["", "abcde", "c", "%", "_", "A", "ü2", "\u{10FFFF}"] {
        assert_eq!(store.job(prefix).await.unwrap_err(), StoreError::NotFound { kind: "job", id: prefix.into() });
    }
    let StoreError::NotFound { id, .. } = store.job(&"ä".repeat(1_000_000)).await.unwrap_err() else { panic!() };
    assert!(id.len() < 300);
}
