//! The text made out of the stored one against the text made out of the value.

use super::ordered;
use crate::history::{GENESIS, Head, Record, hash_of, strip};
use crate::job::Fact;
use crate::json;
use crate::message::StopReason;
use crate::stored::Stored;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Any JSON, most of whose keys are those that matter here.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(json!("\\\",:{}[]\\")),
    ];
    let key = prop_oneof![
        5 => proptest::sample::select(vec!["sha256", "bytes", "value", "hash", "a", "é", "\u{10000}", "\u{ffff}", ""])
            .prop_map(str::to_owned),
        1 => "[a-z{}:,\\[\\] ]{0,3}",
    ];
    leaf.prop_recursive(6, 60, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((key.clone(), inner), 0..5)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn by_value(mut value: Value) -> String {
    strip(&mut value);
    json::canonical(&value)
}

/// A record as it was made before its text was: by its value.
fn made_by_value(head: &Head, at_ms: u64, fact: Fact) -> Record {
    let (prev, hash) = (head.hash.clone(), String::new());
    let mut record = Record { seq: head.records, at_ms: at_ms.max(head.at_ms), fact, prev, hash };
    record.hash = hash_of(serde_json::to_value(&record).unwrap());
    record
}

proptest! {
    #[test]
    fn of_any_value_the_text_is_the_canonical_one_without_inline_values(value in any_json()) {
        let text = ordered(&value.to_string()).expect("no key is escaped");
        prop_assert_eq!(String::from_utf8(text).unwrap(), by_value(value));
    }

    #[test]
    fn a_record_has_the_hash_that_its_value_gives_and_its_text_reads_as_itself(
        values in proptest::collection::vec(any_json(), 3), at_ms: u64, ms: f64, text: String
    ) {
        let mut values = values.into_iter().map(|value| Stored::new(value).0);
        let head = Head { records: 7, hash: GENESIS.into(), at_ms: 1 };
        for fact in [
            Fact::ModelAnswered {
                effect: text.clone(),
                text: values.next(),
                calls: vec![],
                stop: StopReason::EndTurn,
                usage: None,
                sent: None,
                provider_state: values.next(),
                output: values.next(),
                output_fault: None,
                ms,
            },
            Fact::ToolState { tool: text.clone(), state: "ready".into(), why: Some(text.clone()) },
            Fact::Cancelled { by: text.clone() },
        ] {
            let (record, written) = head.write(at_ms, fact.clone());
            prop_assert_eq!(&record, &made_by_value(&head, at_ms, fact));
            prop_assert_eq!(&written, &serde_json::to_string(&record).unwrap());
            prop_assert_eq!(head.clone().read(&written).unwrap(), record);
        }
    }
}

#[test]
fn the_three_keys_are_those_of_an_inline_value_in_any_order_and_alone() {
    for text in [
        r#"{"value":{"b":1,"a":2},"sha256":"x","bytes":1}"#,
        r#"[{"sha256":"x","value":[1],"bytes":{"b":1,"a":2}}]"#,
        r#"{"sha256":"x","bytes":1,"value":{"b":1,"a":2},"more":1}"#,
        r#"{"sha256":"x","bytes":1}"#,
        r#"{"k":{"sha256":"x","bytes":1,"value":"}\\\""},"a":[{},[],{"value":1}]}"#,
    ] {
        let value = serde_json::from_str(text).unwrap();
        assert_eq!(String::from_utf8(ordered(text).unwrap()).unwrap(), by_value(value), "{text}");
    }
}

#[test]
fn what_it_does_not_order_it_says() {
    for text in [
        "",
        "{",
        r#"{"a":1"#,
        r#"{"a":1,}"#,
        r#"{"a":1}x"#,
        r#"{"a""#,
        r#"{"a\n":1}"#,
        r#"{"a":1,"b":2,"a":3}"#,
        r#"["a"#,
        "[1,2",
        r#""\"#,
    ] {
        assert_eq!(ordered(text), None, "{text}");
    }
    assert_eq!(by_value(json!({"b\n": 1, "a": 2})), r#"{"a":2,"b\n":1}"#, "which the way by value does");
}
