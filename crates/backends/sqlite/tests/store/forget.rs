//! Deleting values (SPEC §8).

use crate::support::*;
use hookwright_core::stored::Stored;
use hookwright_runtime::ports::store::*;
use hookwright_sqlite::Forgotten;
use serde_json::json;

const SECRET: &str = "the secret that must go";

fn with_values(job_id: &str, blobs: &[&str]) -> Batch {
    let inline = serde_json::to_value(Stored::inline(json!({ "text": SECRET }))).unwrap();
    let text = json!({"seq": 0, "hash": "h0", "kind": {"arguments": inline}, "z": 1.5}).to_string();
    Batch {
        records: vec![RecordText { seq: 0, text }, record(1)],
        blobs: blobs.iter().map(|text| blob(text)).collect(),
        opened: vec![ApprovalRow {
            approval: json!({"digest": "d1", "value": inline}),
            ..approval(job_id, &format!("ap {job_id}"))
        }],
        status: Some(JobStatus::Completed),
        ..Batch::default()
    }
}

#[tokio::test]
async fn values_go_and_digests_stay() {
    let folder = Folder::new();
    let store = folder.open();
    let large = SECRET.repeat(10_000);
    store.create_job(job("a"), with_values("a", &[&large, "shared"])).await.unwrap();
    store.create_job(job("b"), with_values("b", &["shared"])).await.unwrap();

    let forgotten = store.forget_values("a").await.unwrap();
    assert_eq!(forgotten, Forgotten { records: 1, approvals: 1, blobs: 1 });
    let stored = serde_json::to_string(&Stored::inline(json!({ "text": SECRET })).digest_only()).unwrap();
    assert_eq!(
        store.records("a", 0).await.unwrap(),
        [format!(r#"{{"seq":0,"hash":"h0","kind":{{"arguments":{stored}}},"z":1.5}}"#), record(1).text]
    );
    assert_eq!(store.approval("ap a").await.unwrap().approval["value"].to_string(), stored);
    assert_eq!(store.blob(&blob(&large).sha256).await.unwrap(), None);
    assert_eq!(store.blob(&blob("shared").sha256).await.unwrap().as_deref(), Some("shared"));
    assert_eq!(store.job("a").await.unwrap().records, 2);

    // The other job has kept everything; when it forgets too, nothing is left in the file, nor beside it.
    assert!(store.records("b", 0).await.unwrap()[0].contains(SECRET));
    assert_eq!(store.forget_values("b").await.unwrap(), Forgotten { records: 1, approvals: 1, blobs: 1 });
    assert_eq!(store.forget_values("b").await.unwrap(), Forgotten::default());
    for file in std::fs::read_dir(folder.dir.path()).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(SECRET.len()).any(|w| w == SECRET.as_bytes()), "{}", path.display());
    }
    // Stored anew, it is there again.
    store.create_job(job("c"), Batch { blobs: vec![blob("shared")], ..batch(0, 1) }).await.unwrap();
    assert_eq!(store.blob(&blob("shared").sha256).await.unwrap().as_deref(), Some("shared"));
}

#[tokio::test]
async fn a_job_that_has_not_ended_keeps_its_values() {
    let folder = Folder::new();
    let store = folder.open();
    for status in [JobStatus::Running, JobStatus::Waiting] {
        let id = format!("{status:?}");
        store.create_job(job(&id), Batch { status: Some(status), ..with_values(&id, &[]) }).await.unwrap();
        assert!(failed(store.forget_values(&id).await).contains("cancel it first"));
        assert!(store.records(&id, 0).await.unwrap()[0].contains(SECRET));
    }
    assert!(matches!(store.forget_values("x").await, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn a_long_history_forgets_in_one_go() {
    let folder = Folder::new();
    let store = folder.open();
    let value = serde_json::to_string(&Stored::inline(json!("v"))).unwrap();
    let records = (0..1_000).map(|seq| RecordText { seq, text: format!(r#"{{"v":[{value}],"seq":{seq}}}"#) }).collect();
    store.create_job(job("a"), Batch { records, status: Some(JobStatus::Failed), ..Batch::default() }).await.unwrap();
    assert_eq!(store.forget_values("a").await.unwrap().records, 1_000);
    let records = store.records("a", 0).await.unwrap();
    assert!(
        records.iter().enumerate().all(|(i, r)| r.ends_with(&format!(r#"}}],"seq":{i}}}"#)) && !r.contains("value"))
    );
}
