use super::*;
use crate::chain::HookOutcome;
use serde_json::json;

fn history() -> Vec<String> {
    let mut head = Head::default();
    let facts = [
        Fact::Resumed { process: "1".into() },
        Fact::HookAnswered {
            effect: "t1.c0.pre.h0".into(),
            outcome: HookOutcome::Modify { value: Stored::inline(json!({"secret": 1})), reason: Some("r".into()) },
            ms: 1.25,
            other: Some(Stored::inline(json!({"sha256": "x", "bytes": 1, "value": 2}))),
        },
        Fact::Cancelled { by: "ada".into() },
    ];
    facts
        .into_iter()
        .enumerate()
        .map(|(i, fact)| {
            let record = head.next(100 - i as u64, fact);
            head.advance(&record);
            serde_json::to_string(&record).unwrap()
        })
        .collect()
}

fn verify(records: &[String]) -> Result<Head, Broken> {
    let mut head = Head::default();
    records.iter().try_for_each(|r| head.read(r).map(drop))?;
    Ok(head)
}

#[test]
fn a_history_verifies_and_its_times_never_go_back() {
    let head = verify(&history()).unwrap();
    assert_eq!((head.records, head.at_ms), (3, 100));
}

#[test]
fn a_change_a_gap_and_a_swap_are_found() {
    let h = history();
    let changed = |from: &str, to: &str| {
        let mut h = h.clone();
        assert!(h[1].contains(from));
        h[1] = h[1].replace(from, to);
        verify(&h).unwrap_err()
    };
    assert_eq!(changed("\"reason\":\"r\"", "\"reason\":\"s\""), Broken::Changed { seq: 1 });
    assert_eq!(changed("{\"secret\":1}", "{\"secret\":2}"), Broken::Value { seq: 1 });
    assert_eq!(changed("1.25", "1.5"), Broken::Changed { seq: 1 });
    assert!(matches!(verify(&[h[0].clone(), h[2].clone()]), Err(Broken::Gap { expected: 1, found: 2 })));
    assert!(matches!(verify(&[h[1].clone()]), Err(Broken::Gap { .. })));
    let mut other = h.clone();
    other[2] = {
        let head = Head { records: 2, ..Head::default() };
        serde_json::to_string(&head.next(1, Fact::Cancelled { by: "eve".into() })).unwrap()
    };
    assert_eq!(verify(&other).unwrap_err(), Broken::Chain { seq: 2 });
    assert!(matches!(verify(&["{".into()]), Err(Broken::Unreadable { seq: 0, .. })));
}

#[test]
fn deleting_values_leaves_the_chain_verifiable() {
    let mut h = history();
    let mut value: Value = serde_json::from_str(&h[1]).unwrap();
    strip(&mut value);
    h[1] = value.to_string();
    assert!(!h[1].contains("secret"));
    assert!(verify(&h).is_ok());
}

#[test]
fn a_hostile_value_that_looks_like_a_stored_one_is_not_stripped_from_its_digest() {
    // The inner object has the three keys of a stored value; it is inside one, so only the outer is cut, by its digest.
    let h = history();
    let swapped = h[1].replace("\"bytes\":1,\"value\":2", "\"bytes\":1,\"value\":3");
    assert_ne!(h[1], swapped);
    assert!(verify(&[h[0].clone(), swapped]).is_err());
}
