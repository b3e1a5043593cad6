//! Decisions, cancels and inboxes (between processes: `processes`).

use crate::support::*;
use hookwright_runtime::ports::store::*;
use std::time::Duration;

async fn opened(store: &dyn Store, job_id: &str, approval_id: &str) -> Lease {
    let first = Batch { opened: vec![approval(job_id, approval_id)], status: Some(JobStatus::Waiting), ..batch(0, 1) };
    store.create_job(job(job_id), first).await.unwrap()
}

#[tokio::test]
async fn the_first_decision_counts_and_the_second_is_told_how_it_stands() {
    let folder = Folder::new();
    let store = folder.open();
    for (id, approve, state) in [("y", true, ApprovalState::Approved), ("n", false, ApprovalState::Denied)] {
        opened(&*store, id, id).await;
        assert_eq!(store.decide(id, decision("ann", approve)).await.unwrap(), DecideOutcome::Counted);
        let row = ApprovalRow { state, decision: Some(decision("ann", approve)), ..approval(id, id) };
        assert_eq!(store.approval(id).await.unwrap(), row);
        assert_eq!(
            store.decide(id, decision("bob", !approve)).await.unwrap(),
            DecideOutcome::AlreadyDecided(Box::new(row.clone()))
        );
        assert_eq!(store.approval(id).await.unwrap(), row);
        let items = store.inbox(id).await.unwrap();
        let what = InboxKind::Decided { approval: id.into(), decision: decision("ann", approve) };
        assert_eq!((items.len(), &items[0].what), (1, &what));
    }
    assert!(store.approvals(true).await.unwrap().is_empty());
    assert_eq!(store.approvals(false).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_decision_on_something_else_or_too_late_does_not_count() {
    let folder = Folder::new();
    let store = folder.open();
    let first = Batch {
        opened: vec![
            approval("a", "ok"),
            ApprovalRow { approval: serde_json::json!({"id": "none"}), ..approval("a", "none") },
            ApprovalRow { approval: serde_json::json!({"digest": null}), ..approval("a", "null") },
        ],
        ..batch(0, 1)
    };
    store.create_job(job("a"), first).await.unwrap();
    let ann = decision("ann", true);
    for (id, given, outcome) in [
        ("ok", Decision { digest: "d2".into(), ..ann.clone() }, DecideOutcome::DigestMismatch),
        ("ok", Decision { digest: String::new(), ..ann.clone() }, DecideOutcome::DigestMismatch),
        ("none", ann.clone(), DecideOutcome::DigestMismatch),
        ("none", Decision { digest: String::new(), ..ann.clone() }, DecideOutcome::DigestMismatch),
        ("null", Decision { digest: "null".into(), ..ann.clone() }, DecideOutcome::DigestMismatch),
        ("ok", Decision { at_ms: NOW + 1_000, ..ann.clone() }, DecideOutcome::Expired),
        ("ok", Decision { at_ms: NOW + 999, ..ann.clone() }, DecideOutcome::Counted),
    ] {
        assert_eq!(store.decide(id, given.clone()).await.unwrap(), outcome, "{given:?}");
    }
    assert_eq!(store.inbox("a").await.unwrap().len(), 1);
    assert_eq!(store.decide("o", ann).await.unwrap_err(), StoreError::NotFound { kind: "approval", id: "o".into() });
}

#[tokio::test]
async fn an_approval_ends_with_its_time_or_its_job_and_nobody_decides_it_then() {
    let folder = Folder::new();
    let store = folder.open();
    let lease = opened(&*store, "a", "ap").await;
    let more = vec![approval("a", "closed"), approval("a", "left"), approval("a", "decided")];
    store.append(&lease, Batch { opened: more, ..batch(1, 1) }).await.unwrap();
    assert_eq!(store.decide("decided", decision("ann", true)).await.unwrap(), DecideOutcome::Counted);
    let closed = ["ap", "decided"].map(|id| (id.to_owned(), ApprovalState::Expired));
    let closed = [closed.as_slice(), &[("closed".to_owned(), ApprovalState::Closed)]].concat();
    store.append(&lease, Batch { closed, ..batch(2, 1) }).await.unwrap();

    assert_eq!(store.decide("ap", decision("ann", true)).await.unwrap(), DecideOutcome::Expired);
    // Whoever was first stays first.
    assert_eq!(store.approval("decided").await.unwrap().state, ApprovalState::Approved);
    let open: Vec<_> = store.approvals(true).await.unwrap().into_iter().map(|a| a.id).collect();
    assert_eq!(open, ["left"]);

    // The end of the job ends what was left open.
    store.append(&lease, ending(3, JobStatus::Cancelled)).await.unwrap();
    for id in ["closed", "left"] {
        let row = ApprovalRow { state: ApprovalState::Closed, ..approval("a", id) };
        assert_eq!(
            store.decide(id, decision("ann", true)).await.unwrap(),
            DecideOutcome::AlreadyDecided(Box::new(row))
        );
    }
    assert!(store.inbox("a").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_batch_opens_and_closes_only_approvals_of_its_own_job() {
    let folder = Folder::new();
    let store = folder.open();
    opened(&*store, "a", "of a").await;
    let lease = opened(&*store, "b", "of b").await;
    let decided = ApprovalRow { decision: Some(decision("ann", true)), ..approval("b", "x") };
    let refused = [
        Batch { opened: vec![approval("a", "x")], ..batch(1, 1) },
        Batch { opened: vec![approval("b", "of a")], ..batch(1, 1) },
        Batch { opened: vec![approval("b", "of b")], ..batch(1, 1) },
        Batch { opened: vec![decided], ..batch(1, 1) },
        Batch { opened: vec![ApprovalRow { state: ApprovalState::Approved, ..approval("b", "x") }], ..batch(1, 1) },
        Batch { closed: vec![("of a".into(), ApprovalState::Closed)], ..batch(1, 1) },
        Batch { closed: vec![("x".into(), ApprovalState::Closed)], ..batch(1, 1) },
        Batch { closed: vec![("of b".into(), ApprovalState::Approved)], ..batch(1, 1) },
        Batch { closed: vec![("of b".into(), ApprovalState::Open)], ..batch(1, 1) },
    ];
    for batch in refused {
        assert!(
            failed(store.append(&lease, batch.clone()).await).contains("nothing of the batch was stored"),
            "{batch:?}"
        );
    }
    assert_eq!(store.records("b", 0).await.unwrap().len(), 1);
    assert_eq!(store.approvals(true).await.unwrap().len(), 2);
}

#[tokio::test]
async fn inbox_items_stay_in_order_until_a_record_takes_them() {
    let folder = Folder::new();
    let store = folder.open();
    let lease = opened(&*store, "a", "ap").await;
    let other = opened(&*store, "b", "other").await;
    store.request_cancel("a", "bob", NOW + 7).await.unwrap();
    store.decide("ap", decision("ann", true)).await.unwrap();
    let items = store.inbox("a").await.unwrap();
    assert_eq!(items[0].what, InboxKind::Cancel { by: "bob".into(), at_ms: NOW + 7 });
    assert!(matches!(items[1].what, InboxKind::Decided { .. }));

    // Not by another job's batch, and not by one that is refused.
    store.append(&other, Batch { taken: vec![items[0].id], ..batch(1, 1) }).await.unwrap();
    assert!(store.append(&lease, Batch { taken: vec![items[0].id], ..batch(5, 1) }).await.is_err());
    assert_eq!(store.inbox("a").await.unwrap(), items);

    store.append(&lease, Batch { taken: vec![items[0].id], ..batch(1, 1) }).await.unwrap();
    assert_eq!(store.inbox("a").await.unwrap(), items[1..]);
    drop(store);
    let store = folder.open();
    assert_eq!(store.inbox("a").await.unwrap(), items[1..]);

    // Numbers never come back, so that nothing new hides behind an old one.
    let lease = store.take_lease("a").await.unwrap();
    store.append(&lease, Batch { taken: vec![items[1].id], ..batch(2, 1) }).await.unwrap();
    store.request_cancel("a", "bob", NOW).await.unwrap();
    assert!(store.inbox("a").await.unwrap()[0].id > items[1].id);
}

#[tokio::test]
async fn a_job_that_has_ended_is_not_cancelled_any_more() {
    let folder = Folder::new();
    let store = folder.open();
    store.create_job(job("a"), ending(0, JobStatus::Completed)).await.unwrap();
    store.request_cancel("a", "bob", NOW).await.unwrap();
    assert!(store.inbox("a").await.unwrap().is_empty());
    assert!(matches!(store.request_cancel("b", "bob", NOW).await, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn subscribers_hear_of_inbox_items_and_of_nothing_else() {
    let folder = Folder::new();
    let (store, beside) = (folder.open(), folder.open());
    let lease = opened(&*store, "a", "ap").await;
    let mut changes = store.inbox_changes();
    let second = Duration::from_mins(1);
    // The first look cannot know what was before it.
    tokio::time::timeout(second, changes.changed()).await.unwrap().unwrap();
    for seq in 1..10 {
        store.append(&lease, batch(seq, 1)).await.unwrap();
        beside.create_job(job(&format!("b{seq}")), batch(0, 1)).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!changes.has_changed().unwrap());

    store.decide("ap", decision("ann", true)).await.unwrap();
    assert!(changes.has_changed().unwrap(), "a change of this store is told before it returns");
    changes.mark_unchanged();
    beside.request_cancel("a", "bob", NOW).await.unwrap();
    tokio::time::timeout(second, changes.changed()).await.unwrap().unwrap();

    // Nobody subscribed for a while; a new subscriber hears what is written after it has read.
    drop(changes);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut changes = store.inbox_changes();
    let had = store.inbox("a").await.unwrap().len();
    beside.request_cancel("a", "bob", NOW).await.unwrap();
    while store.inbox("a").await.unwrap().len() == had {
        tokio::time::timeout(second, changes.changed()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_row_that_was_changed_or_deleted_by_hand_is_put_right() {
    let folder = Folder::new();
    let store = folder.open();
    let lease = opened(&*store, "a", "ap").await;
    store.create_job(job("b"), batch(0, 1)).await.unwrap();
    let hand = rusqlite::Connection::open(folder.db()).unwrap();
    let restored = |seq| Batch { restored: vec![approval("a", "ap")], ..batch(seq, 1) };
    for (seq, by_hand) in [
        (1, "UPDATE approvals SET expires_ms = expires_ms + 1000000, approval = '{}'"),
        (2, "UPDATE approvals SET state = 'approved', decision = NULL, job = 2, tenant = 'other'"),
        (3, "DELETE FROM approvals"),
    ] {
        assert_eq!(hand.execute(by_hand, []).unwrap(), 1, "{by_hand}");
        store.append(&lease, restored(seq)).await.unwrap();
        assert_eq!(store.approval("ap").await.unwrap(), approval("a", "ap"), "{by_hand}");
    }
    // A decision that nobody has read yet is not taken back.
    store.decide("ap", decision("ann", true)).await.unwrap();
    store.append(&lease, restored(4)).await.unwrap();
    assert_eq!(store.approval("ap").await.unwrap().state, ApprovalState::Approved);
    let taken = store.inbox("a").await.unwrap()[0].id;
    store.append(&lease, Batch { taken: vec![taken], ..restored(5) }).await.unwrap();
    assert_eq!(store.approval("ap").await.unwrap(), approval("a", "ap"));
}
