//! A tenant's part of a store: nothing in it leads to another tenant's.

use hookwright_core::stored::Stored;
use hookwright_runtime::of_tenant::OfTenant;
use hookwright_runtime::ports::clock::SystemClock;
use hookwright_runtime::ports::sessions::{NewSession, SessionChange, SessionPage, Sessions};
use hookwright_runtime::ports::store::*;
use hookwright_sqlite::{OpenOptions, SqliteStore};
use serde_json::{Value, json};
use std::sync::Arc;
use tempfile::TempDir;

struct Town {
    _folder: TempDir,
    all: Arc<SqliteStore>,
    a: Arc<OfTenant>,
    b: Arc<OfTenant>,
}

fn town() -> Town {
    let folder = tempfile::tempdir().unwrap();
    let all = SqliteStore::open(folder.path().join("s.db"), OpenOptions::new("n", Arc::new(SystemClock))).unwrap();
    let (a, b) = (OfTenant::new(all.clone(), "a"), OfTenant::new(all.clone(), "b"));
    Town { _folder: folder, all, a, b }
}

fn job(id: &str, tenant: &str, session: &str) -> NewJob {
    NewJob {
        id: id.into(),
        tenant: tenant.into(),
        agent: "worker".into(),
        session: session.into(),
        parent: None,
        created_ms: 1,
        origin: Value::Null,
    }
}

fn approval(id: &str, job: &str, tenant: &str) -> ApprovalRow {
    ApprovalRow {
        id: id.into(),
        job: job.into(),
        tenant: tenant.into(),
        state: ApprovalState::Open,
        opened_ms: 1,
        expires_ms: u64::MAX / 4,
        approval: json!({"digest": "d"}),
        decision: None,
    }
}

fn batch(approvals: Vec<ApprovalRow>) -> Batch {
    let records = vec![RecordText { seq: 0, text: "{}".into() }];
    Batch { records, opened: approvals, ..Batch::default() }
}

fn decision() -> Decision {
    Decision { approve: true, by: "eve".into(), verified: false, note: None, digest: "d".into(), at_ms: 2 }
}

fn is_none<T>(found: Result<T, StoreError>, what: &str) {
    assert!(matches!(found, Err(StoreError::NotFound { .. })), "{what}: {:?}", found.err());
}

#[tokio::test]
async fn every_call_with_an_id_of_another_tenant_finds_nothing() {
    let town = town();
    let Town { a, b, all, .. } = &town;
    let lease = b.create_job(job("job_b1", "b", "ses_b"), batch(vec![approval("ap_b1", "job_b1", "b")])).await.unwrap();
    a.create_job(job("job_a1", "a", "ses_a"), batch(vec![approval("ap_a1", "job_a1", "a")])).await.unwrap();
    for id in ["job_b1", "job_b"] {
        is_none(a.job(id).await, "job");
        is_none(a.records(id, 0).await, "records");
        is_none(a.take_lease(id).await, "take_lease");
        is_none(a.inbox(id).await, "inbox");
        is_none(a.request_cancel(id, "eve", 2).await, "request_cancel");
    }
    for id in ["ap_b1", "ap_b"] {
        is_none(a.approval(id).await, "approval");
        is_none(a.decide(id, decision()).await, "decide");
    }
    // A lease that is another's, and one that is made up of another's job.
    is_none(a.append(&lease, batch(vec![])).await, "append");
    is_none(a.release(&lease).await, "release");
    is_none(a.append(&Lease { job: "job_b1".into(), epoch: 7 }, batch(vec![])).await, "append");
    // What is common to both is read among one's own.
    assert_eq!(a.job("job_").await.unwrap().job.id, "job_a1");
    assert_eq!(a.approval("ap_").await.unwrap().id, "ap_a1");
    let ids = |rows: Vec<JobRow>| rows.into_iter().map(|row| row.job.id).collect::<Vec<_>>();
    assert_eq!(ids(a.jobs(false, 10).await.unwrap()), ["job_a1"]);
    assert_eq!(ids(b.jobs(true, 1).await.unwrap()), ["job_b1"]);
    assert_eq!(a.approvals(true).await.unwrap().len(), 1);
    // Nothing was done.
    assert!(all.inbox("job_b1").await.unwrap().is_empty());
    assert_eq!(all.approval("ap_b1").await.unwrap().state, ApprovalState::Open);
    b.append(&lease, Batch { records: vec![RecordText { seq: 1, text: "{}".into() }], ..Batch::default() })
        .await
        .unwrap();
}

#[tokio::test]
async fn an_approval_whose_row_names_this_tenant_and_another_ones_job_is_not_here() {
    let town = town();
    let Town { a, b, all, .. } = &town;
    // As somebody who writes to the file could make it.
    let lease = b.create_job(job("job_b1", "b", "ses_b"), batch(vec![])).await.unwrap();
    all.append(&lease, Batch { opened: vec![approval("ap_x", "job_b1", "a")], ..Batch::default() }).await.unwrap();
    is_none(a.approval("ap_x").await, "approval");
    is_none(a.decide("ap_x", decision()).await, "decide");
    is_none(b.approval("ap_x").await, "approval");
    assert!(a.approvals(false).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_value_of_another_tenants_job_is_not_given_by_its_digest() {
    let town = town();
    let Town { a, b, all, .. } = &town;
    let (stored, blob) = Stored::new(json!("secret ".repeat(20_000)));
    let blob = blob.unwrap();
    let with = |blobs| Batch { blobs, ..batch(vec![]) };
    b.create_job(job("job_b1", "b", "ses_b"), with(vec![blob.clone()])).await.unwrap();
    a.create_job(job("job_a1", "a", "ses_a"), batch(vec![])).await.unwrap();
    assert_eq!(a.blob(&stored.sha256).await.unwrap(), None);
    assert_eq!(a.blob_of("b", &stored.sha256).await.unwrap(), None);
    assert_eq!(b.blob(&stored.sha256).await.unwrap().as_deref(), Some(&*blob.text));
    assert!(all.blob(&stored.sha256).await.unwrap().is_some());
    // One that has the value itself has it, and it is stored once.
    a.create_job(job("job_a2", "a", "ses_a2"), with(vec![blob.clone()])).await.unwrap();
    assert_eq!(a.blob(&stored.sha256).await.unwrap().as_deref(), Some(&*blob.text));
}

#[tokio::test]
async fn a_job_neither_follows_nor_has_a_parent_nor_joins_a_session_of_another_tenant() {
    let town = town();
    let Town { a, b, .. } = &town;
    let ends = Batch { status: Some(JobStatus::Completed), ..batch(vec![]) };
    b.create_job(job("job_b1", "b", "ses_b"), ends).await.unwrap();
    let follows = |before: &str| Batch { follows: Some(Follows::Job(before.into())), ..batch(vec![]) };
    let child = NewJob { parent: Some("job_b1".into()), ..job("job_a1", "a", "ses_a") };
    is_none(a.create_job(child, batch(vec![])).await, "parent");
    is_none(a.create_job(job("job_a1", "a", "ses_b"), follows("job_b1")).await, "follows");
    is_none(a.create_job(job("job_a1", "a", "ses_b"), batch(vec![])).await, "session");
    let foreign = a.create_job(job("job_a1", "b", "ses_b"), batch(vec![])).await;
    assert!(matches!(foreign, Err(StoreError::Failed(_))), "{foreign:?}");
    // The session's own tenant goes on with it.
    b.create_job(job("job_b2", "b", "ses_b"), follows("job_b1")).await.unwrap();
}

#[tokio::test]
async fn sessions_of_another_tenant_are_not_there() {
    let town = town();
    let Town { a, b, all, .. } = &town;
    let new = |id: &str, tenant: &str| NewSession {
        id: id.into(),
        tenant: tenant.into(),
        agent: "worker".into(),
        cwd: "/w".into(),
        created_ms: 1,
        origin: Value::Null,
    };
    b.create_session(new("ses_b", "b")).await.unwrap();
    b.create_job(job("job_b1", "b", "ses_b"), batch(vec![])).await.unwrap();
    is_none(a.create_session(new("ses_x", "b")).await, "create_session");
    is_none(a.session("ses_b").await, "session");
    is_none(
        a.change_session("ses_b", SessionChange { title: Some("mine".into()), ..SessionChange::default() }).await,
        "change",
    );
    is_none(a.delete_session("ses_b").await, "delete");
    assert!(a.session_jobs("ses_b").await.unwrap().is_empty());
    for tenant in ["a", "b"] {
        let page = SessionPage { tenant: tenant.into(), cwd: None, after: None, limit: 10 };
        assert!(a.sessions(page).await.unwrap().is_empty());
    }
    assert_eq!(all.session("ses_b").await.unwrap().title, None);
}

#[tokio::test]
async fn what_a_store_says_of_another_tenants_id_is_what_it_says_of_none() {
    let town = town();
    let Town { a, b, .. } = &town;
    b.create_job(job("job_b1", "b", "ses_b"), batch(vec![approval("ap_b1", "job_b1", "b")])).await.unwrap();
    let words = |error: StoreError, id: &str| error.to_string().replace(id, "ID");
    let (theirs, none) = (a.job("job_b1").await.unwrap_err(), a.job("job_b2").await.unwrap_err());
    assert_eq!(words(theirs, "job_b1"), words(none, "job_b2"));
    let (theirs, none) = (a.approval("ap_b1").await.unwrap_err(), a.approval("ap_b2").await.unwrap_err());
    assert_eq!(words(theirs, "ap_b1"), words(none, "ap_b2"));
    let (theirs, none) = (a.session("ses_b").await.unwrap_err(), a.session("ses_c").await.unwrap_err());
    assert_eq!(words(theirs, "ses_b"), words(none, "ses_c"));
}
