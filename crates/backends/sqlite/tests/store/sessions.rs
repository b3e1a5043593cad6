//! Sessions: conversations that span jobs.

use crate::support::*;
use hookwright_core::stored::Stored;
use hookwright_runtime::ports::sessions::*;
use hookwright_runtime::ports::store::*;
use hookwright_sqlite::SqliteStore;
use serde_json::json;

fn session(id: &str, at: u64) -> NewSession {
    NewSession {
        id: id.into(),
        tenant: "default".into(),
        agent: "coder".into(),
        cwd: "/work".into(),
        created_ms: at,
        origin: json!({"plugins": ["/p"]}),
    }
}

fn page(limit: u32) -> SessionPage {
    SessionPage { tenant: "default".into(), cwd: None, after: None, limit }
}

fn ids(rows: &[SessionRow]) -> Vec<&str> {
    rows.iter().map(|row| row.session.id.as_str()).collect()
}

#[tokio::test]
async fn a_session_is_what_was_created_and_what_changed_since() {
    let folder = Folder::new();
    let store = folder.open();
    store.create_session(session("s1", 5)).await.unwrap();
    let row = store.session("s1").await.unwrap();
    assert_eq!((row.session, row.title, row.updated_ms, row.closed_ms), (session("s1", 5), None, 5, None));
    assert!(failed(store.create_session(session("s1", 6)).await).contains("used once"));
    assert!(failed(store.create_session(session("a\nb", 6)).await).contains("control characters"));

    let titled = SessionChange { title: Some("Tidy up".into()), at_ms: 9, ..SessionChange::default() };
    store.change_session("s1", titled).await.unwrap();
    store
        .change_session("s1", SessionChange { closed_ms: Some(Some(12)), at_ms: 7, ..Default::default() })
        .await
        .unwrap();
    let row = store.session("s1").await.unwrap();
    assert_eq!((row.title.as_deref(), row.updated_ms, row.closed_ms), (Some("Tidy up"), 9, Some(12)));
    let opened = SessionChange { closed_ms: Some(None), cwd: Some("/else".into()), at_ms: 13, ..Default::default() };
    store.change_session("s1", opened).await.unwrap();
    let row = store.session("s1").await.unwrap();
    assert_eq!((row.session.cwd.as_str(), row.closed_ms, row.title.as_deref()), ("/else", None, Some("Tidy up")));
    for id in ["s", "s2", ""] {
        let missing = store.change_session(id, SessionChange::default()).await;
        assert!(matches!(missing, Err(StoreError::NotFound { kind: "session", .. })), "{id}: an id is not a prefix");
        assert!(store.session(id).await.is_err() && store.delete_session(id).await.is_err());
    }
}

#[tokio::test]
async fn pages_go_through_all_sessions_of_a_tenant_and_folder_once() {
    let folder = Folder::new();
    let store = folder.open();
    for (id, at) in [("a", 1), ("b", 3), ("c", 3), ("d", 2)] {
        store.create_session(session(id, at)).await.unwrap();
    }
    store.create_session(NewSession { tenant: "other".into(), ..session("x", 9) }).await.unwrap();
    store.create_session(NewSession { cwd: "/elsewhere".into(), ..session("e", 8) }).await.unwrap();
    assert_eq!(ids(&store.sessions(page(10)).await.unwrap()), ["e", "c", "b", "d", "a"]);
    let mut of_folder = SessionPage { cwd: Some("/work".into()), ..page(2) };
    let mut seen = vec![];
    loop {
        let rows = store.sessions(of_folder.clone()).await.unwrap();
        let Some(last) = rows.last() else { break };
        of_folder.after = Some((last.updated_ms, last.session.id.clone()));
        seen.extend(rows.into_iter().map(|row| row.session.id));
    }
    assert_eq!(seen, ["c", "b", "d", "a"]);
}

#[tokio::test]
async fn the_jobs_of_a_session_come_in_order_without_their_childrens() {
    let folder = Folder::new();
    let store = folder.open();
    for (id, of, parent) in [("j1", "s1", None), ("j2", "s2", None), ("j3", "s1", None), ("j4", "s1", Some("j3"))] {
        let new = NewJob { session: of.into(), parent: parent.map(str::to_owned), ..job(id) };
        store.create_job(new, batch(0, 1)).await.unwrap();
    }
    let jobs = store.session_jobs("s1").await.unwrap();
    assert_eq!(jobs.iter().map(|row| row.job.id.as_str()).collect::<Vec<_>>(), ["j1", "j3"]);
    assert!(store.session_jobs("nobody").await.unwrap().is_empty());
}

const SECRET: &str = "what the user said in confidence";

#[tokio::test]
async fn deleting_a_session_forgets_the_values_of_its_jobs_and_leaves_digests() {
    let folder = Folder::new();
    let store = folder.open();
    store.create_session(session("s1", 5)).await.unwrap();
    store.change_session("s1", SessionChange { title: Some(SECRET.into()), ..Default::default() }).await.unwrap();
    let inline = Stored::inline(json!({ "text": SECRET }));
    let text = json!({"seq": 0, "hash": "h0", "value": inline}).to_string();
    let records = vec![RecordText { seq: 0, text }];
    let done = Batch { records, status: Some(JobStatus::Completed), ..Batch::default() };
    store.create_job(NewJob { session: "s1".into(), ..job("j1") }, done.clone()).await.unwrap();
    let child = NewJob { session: "s1".into(), parent: Some("j1".into()), ..job("j2") };
    let lease = store.create_job(child, Batch { status: Some(JobStatus::Running), ..done.clone() }).await.unwrap();

    assert!(failed(store.delete_session("s1").await).contains("j2 has not ended"));
    assert!(store.records("j1", 0).await.unwrap()[0].contains(SECRET), "all or nothing");

    store.append(&lease, ending(1, JobStatus::Cancelled)).await.unwrap();
    store.delete_session("s1").await.unwrap();
    assert!(store.session("s1").await.is_err());
    for id in ["j1", "j2"] {
        let record = &store.records(id, 0).await.unwrap()[0];
        assert!(!record.contains(SECRET) && record.contains(&inline.sha256), "{record}");
    }
    for file in std::fs::read_dir(folder.dir.path()).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(SECRET.len()).any(|w| w == SECRET.as_bytes()), "{}", path.display());
    }
}

#[tokio::test]
async fn a_file_of_version_1_is_converted_and_keeps_its_jobs() {
    let folder = Folder::new();
    folder.open().create_job(job("j1"), batch(0, 2)).await.unwrap();
    let conn = rusqlite::Connection::open(folder.db()).unwrap();
    conn.execute_batch("DROP TABLE sessions; DROP INDEX jobs_by_session; PRAGMA user_version = 1;").unwrap();
    drop(conn);
    // Reading alone converts nothing, and says so.
    let refused = SqliteStore::open(folder.db(), options().read_only()).map(drop);
    assert!(failed(refused).contains("older format 1"));
    let store = folder.open();
    store.create_session(session("s1", 5)).await.unwrap();
    assert_eq!(store.records("j1", 0).await.unwrap(), texts(0, 2));
    assert_eq!(
        store.session_jobs("s1").await.unwrap().len(),
        1,
        "the session of a job from before has no row of its own"
    );
}

/// A batch of the first records of a job that follows another one.
fn following(follows: Follows) -> Batch {
    Batch { follows: Some(follows), ..ending(0, JobStatus::Completed) }
}

fn after(job: &str) -> Batch {
    following(Follows::Job(job.into()))
}

#[tokio::test]
async fn a_job_follows_the_last_one_of_its_session_or_is_not_made() {
    let folder = Folder::new();
    let store = folder.open();
    let moved = |result: Result<Lease, StoreError>, last: &str| {
        let expected = StoreError::SessionMoved { session: "s1".into(), job: last.into() };
        assert_eq!(result.unwrap_err(), expected);
    };
    assert!(matches!(store.create_job(job("j0"), after("j9")).await, Err(StoreError::NotFound { .. })));
    store.create_job(job("j1"), following(Follows::Nothing)).await.unwrap();
    moved(store.create_job(job("j2"), following(Follows::Nothing)).await, "j1");
    let open = Batch { follows: Some(Follows::Job("j1".into())), ..batch(0, 1) };
    let lease = store.create_job(job("j2"), open).await.unwrap();
    moved(store.create_job(job("j3"), after("j1")).await, "j2");
    moved(store.create_job(job("j3"), after("j2")).await, "j2");
    // A subagent's job is none of the conversation, and other sessions are others.
    let child = NewJob { parent: Some("j2".into()), ..job("c1") };
    store.create_job(child, ending(0, JobStatus::Completed)).await.unwrap();
    store.create_job(NewJob { session: "s2".into(), ..job("o1") }, following(Follows::Nothing)).await.unwrap();
    store.append(&lease, ending(1, JobStatus::Cancelled)).await.unwrap();
    store.create_job(job("j3"), after("j2")).await.unwrap();
    let jobs: Vec<String> = store.session_jobs("s1").await.unwrap().into_iter().map(|row| row.job.id).collect();
    assert_eq!(jobs, ["j1", "j2", "j3"], "what was refused left nothing");
    assert!(store.records("j0", 0).await.is_err());
}

#[tokio::test]
async fn of_many_that_go_on_with_a_session_at_once_one_does() {
    let folder = Folder::new();
    let stores = [folder.open(), folder.open()];
    stores[0].create_job(job("j0"), following(Follows::Nothing)).await.unwrap();
    let mut last = "j0".to_owned();
    for round in 0..10 {
        let tries = (0..8).map(|n| {
            let (store, before) = (stores[n % 2].clone(), last.clone());
            tokio::spawn(async move {
                let id = format!("j{round}-{n}");
                store.create_job(job(&id), after(&before)).await.map(|_| id)
            })
        });
        let mut made = vec![];
        for tried in tries.collect::<Vec<_>>() {
            match tried.await.unwrap() {
                Ok(id) => made.push(id),
                Err(error) => assert!(matches!(error, StoreError::SessionMoved { .. }), "{error}"),
            }
        }
        assert_eq!(made.len(), 1, "round {round}");
        last = made.remove(0);
    }
    assert_eq!(stores[1].session_jobs("s1").await.unwrap().len(), 11);
}
