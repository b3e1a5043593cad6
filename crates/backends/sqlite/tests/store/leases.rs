//! Leases, between stores of one process (between processes: `processes`).

use crate::support::*;
use hookwright_runtime::ports::store::*;
use hookwright_sqlite::{EXPIRY_MS, OpenOptions, ProbePoint, STUCK_MS, SqliteStore};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn lost<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert_eq!(result.unwrap_err(), StoreError::LeaseLost { job: "a".into() });
}

#[tokio::test]
async fn a_held_lease_is_not_taken_twice_not_even_by_its_holder() {
    let folder = Folder::new();
    let (one, two) = (
        SqliteStore::open(folder.db(), options_at(NOW)).unwrap(),
        SqliteStore::open(folder.db(), options_at(NOW)).unwrap(),
    );
    one.create_job(job("a"), batch(0, 1)).await.unwrap();
    for store in [&one, &two] {
        let StoreError::Leased { job, holder } = store.take_lease("a").await.unwrap_err() else { panic!() };
        assert_eq!(job, "a");
        assert_eq!(holder, format!("this process, {} (running since 2027-01-15T08:00:00Z)", std::process::id()));
        assert!(store.job("a").await.unwrap().running);
    }
    assert_eq!(one.take_lease("b").await.unwrap_err(), StoreError::NotFound { kind: "job", id: "b".into() });
}

#[tokio::test]
async fn a_released_lease_is_free_at_once_and_its_old_holder_writes_nothing_more() {
    let folder = Folder::new();
    let (one, two) = (folder.open(), folder.open());
    let old = one.create_job(job("a"), batch(0, 1)).await.unwrap();
    one.release(&old).await.unwrap();
    assert!(!two.job("a").await.unwrap().running);
    lost(one.append(&old, batch(1, 1)).await);
    lost(one.release(&old).await);

    let new = two.take_lease("a").await.unwrap();
    assert!(new.epoch > old.epoch);
    lost(one.append(&old, batch(1, 1)).await);
    // The right epoch in the wrong hands is no lease either.
    lost(one.append(&new, batch(1, 1)).await);
    lost(one.release(&new).await);
    two.append(&new, batch(1, 1)).await.unwrap();
    assert_eq!(one.records("a", 0).await.unwrap(), texts(0, 2));
}

#[tokio::test]
async fn a_stuck_holder_is_replaced_and_refused_when_it_wakes() {
    let folder = Folder::new();
    let one = SqliteStore::open(folder.db(), options_at(NOW)).unwrap();
    let old = one.create_job(job("a"), batch(0, 1)).await.unwrap();

    let almost = SqliteStore::open(folder.db(), options_at(NOW + STUCK_MS - 1)).unwrap();
    assert!(matches!(almost.take_lease("a").await, Err(StoreError::Leased { .. })));
    let two = SqliteStore::open(folder.db(), options_at(NOW + STUCK_MS)).unwrap();
    assert!(!two.job("a").await.unwrap().running);
    let new = two.take_lease("a").await.unwrap();

    lost(
        one.append(&old, Batch { blobs: vec![blob("late")], opened: vec![approval("a", "late")], ..batch(1, 1) }).await,
    );
    assert_eq!(one.blob(&blob("late").sha256).await.unwrap(), None);
    assert!(one.approvals(false).await.unwrap().is_empty());
    lost(one.release(&old).await);
    two.append(&new, batch(1, 1)).await.unwrap();
}

#[tokio::test]
async fn closing_a_store_gives_its_leases_back() {
    let folder = Folder::new();
    let one = folder.open();
    let old = one.create_job(job("a"), batch(0, 1)).await.unwrap();
    one.create_job(job("b"), batch(0, 1)).await.unwrap();
    drop(one);
    let two = folder.open();
    assert!(two.take_lease("a").await.unwrap().epoch > old.epoch);
    two.take_lease("b").await.unwrap();
}

/// Waits until the lease's last heartbeat is of a time.
async fn until_beat(folder: &Folder, at_ms: u64) {
    let beat = || ask::<i64>(&folder.db(), "SELECT lease_beat_ms FROM jobs").cast_unsigned();
    for _ in 0..300 {
        if beat() == at_ms {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(beat(), at_ms);
}

#[test]
fn a_held_lease_is_refreshed_while_the_writer_is_busy() {
    let folder = Folder::new();
    let clock = SetClock::new(NOW);
    let (go_on, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let mut options = OpenOptions::new("test", clock.clone());
    // Busy for as long as the test likes: its commit is done, nobody is answered, nothing is taken from its queue.
    options.probe = Some(std::sync::Arc::new(move |point| {
        if point == (ProbePoint::AfterCommit { n: 1 }) {
            let _ = held.lock().unwrap().recv();
        }
    }));
    block_on(async {
        let store = SqliteStore::open(folder.db(), options).unwrap();
        let lease = store.create_job(job("a"), batch(0, 1)).await.unwrap();
        let (busy, under) = (store.clone(), lease.clone());
        let busy = tokio::spawn(async move { busy.append(&under, batch(1, 1)).await });
        clock.0.store(NOW + 100_000, Ordering::SeqCst);
        until_beat(&folder, NOW + 100_000).await;
        assert!(!busy.is_finished());
        drop(go_on);
        busy.await.unwrap().unwrap();
    });
}

#[test]
fn a_lock_on_the_file_is_no_silence_of_a_holder_who_could_not_write_either() {
    let folder = Folder::new();
    block_on(async {
        let one = SqliteStore::open(folder.db(), options_at(NOW)).unwrap();
        one.create_job(job("a"), batch(0, 1)).await.unwrap();
        let shell = rusqlite::Connection::open(folder.db()).unwrap();
        shell.execute("UPDATE jobs SET lease_boot = 'another boot'", []).unwrap();
        let clock = SetClock::new(NOW);
        let two = SqliteStore::open(folder.db(), OpenOptions::new("test", clock.clone())).unwrap();
        shell.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (taker, waiting) = (two.clone(), std::time::Instant::now());
        let taken = tokio::spawn(async move { taker.take_lease("a").await });
        tokio::time::sleep(Duration::from_secs(3)).await;
        clock.0.store(NOW + EXPIRY_MS + 1_000, Ordering::SeqCst);
        shell.execute_batch("ROLLBACK").unwrap();
        let taken = taken.await.unwrap();
        assert!(matches!(taken, Err(StoreError::Leased { .. })), "{taken:?} after {:?}", waiting.elapsed());
        // The same silence while the file was free is one.
        two.take_lease("a").await.unwrap();
    });
}

#[tokio::test]
async fn a_held_lease_is_refreshed_without_batches_or_fsyncs() {
    let folder = Folder::new();
    let clock = SetClock::new(NOW);
    let store = SqliteStore::open(folder.db(), OpenOptions::new("test", clock.clone())).unwrap();
    let lease = store.create_job(job("a"), batch(0, 1)).await.unwrap();
    let before = store.counters();
    clock.0.store(NOW + 100_000, Ordering::SeqCst);
    until_beat(&folder, NOW + 100_000).await;
    assert_eq!(store.counters(), before);
    store.append(&lease, batch(1, 1)).await.unwrap();
}
