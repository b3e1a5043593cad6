//! Workflow histories as they were recorded, replayed with the code as it is now: a running job must survive an upgrade.
//!
//! A history of another code stays here for as long as jobs of it may run. How one is recorded: docs/temporal.md.

#![allow(clippy::unwrap_used, reason = "what can't be done fails its test")]

use hookwright_temporal::replay_workflow;
use std::path::PathBuf;

fn histories() -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (path.display().to_string(), std::fs::read(path).unwrap())).collect()
}

#[tokio::test]
async fn every_recorded_workflow_replays() {
    let histories = histories();
    assert!(histories.len() >= 3, "there is at least one of each kind");
    for (name, history) in histories {
        if let Err(why) = replay_workflow(&history).await {
            panic!("{name}: {why}");
        }
    }
}

#[tokio::test]
async fn a_workflow_of_other_code_is_noticed() {
    let (_, history) = histories().into_iter().find(|(name, _)| name.ends_with("calls.json")).unwrap();
    let text = String::from_utf8(history).unwrap();
    let other = text.replace("segment-2", "segment-9");
    assert_ne!(text, other);
    assert!(replay_workflow(other.as_bytes()).await.is_err());
}
