//! Histories that were recorded once are read, replayed and validated for ever (SPEC §8).
//!
//! `histories/vN-NAME.json` is what `hookwright jobs history JOB --output json` printed, made by version N of the job logic. A
//! file is never changed, but for new logic a new one is added.

#![expect(clippy::unwrap_used, reason = "what can't be read fails its test")]

use hookwright_core::history::{ReplayError, replay};
use hookwright_core::job::{Fact, LOGIC_VERSION, Mismatch};
use serde_json::Value;
use std::path::PathBuf;

/// Names and records of all recorded histories.
fn recorded() -> Vec<(String, Vec<Value>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let mut all: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let file: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, file["history"].as_array().unwrap().clone())
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn texts(records: &[Value]) -> Vec<String> {
    records.iter().map(Value::to_string).collect()
}

#[test]
fn every_recorded_history_verifies_and_replays_to_its_end() {
    let all = recorded();
    for version in 1..=LOGIC_VERSION {
        assert!(all.iter().any(|(name, _)| name.starts_with(&format!("v{version}-"))), "no history of logic {version}");
    }
    for (name, records) in all {
        let (machine, head) = replay(texts(&records)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(machine.outcome().is_some(), "{name} is over");
        assert_eq!(head.records, records.len() as u64, "{name}");
        for end in 1..records.len() {
            assert!(replay(texts(&records[..end])).is_ok(), "{name} up to record {end}");
        }
    }
}

#[test]
fn every_record_fits_the_published_schema() {
    let schema = hookwright_core::schemas::all().into_iter().find(|(name, _)| *name == "record.schema.json").unwrap().1;
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    for (name, records) in recorded() {
        for record in &records {
            if let Err(error) = validator.validate(record) {
                panic!("{name}, record {}: {error}", record["seq"]);
            }
            kinds.insert(record["kind"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(kinds.len(), 23, "a kind of record that no history holds, or a new one: {kinds:?}");
    let mut record = recorded()[0].1[0].clone();
    record["kind"] = "ended".into();
    assert!(!validator.is_valid(&record), "an unknown kind");
    record["kind"] = "started".into();
    record["hash"] = 1.into();
    assert!(!validator.is_valid(&record), "a hash that is no text");
}

#[test]
fn a_history_of_newer_logic_is_refused_and_not_guessed() {
    let mut head = hookwright_core::history::Head::default();
    let first: hookwright_core::history::Record = serde_json::from_value(recorded()[0].1[0].clone()).unwrap();
    let Fact::Started { mut spec } = first.fact else { panic!("the first record is the start") };
    spec.logic = LOGIC_VERSION + 1;
    let record = head.next(1, Fact::Started { spec });
    head.advance(&record);
    let error = replay([serde_json::to_string(&record).unwrap()]).unwrap_err();
    assert_eq!(error, ReplayError::Mismatch { seq: 0, mismatch: Mismatch::Logic(LOGIC_VERSION + 1) });
}
