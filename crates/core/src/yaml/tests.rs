use super::scalar::{number, plain};
use super::units::{Bad, duration_ms, size_bytes};
use super::*;

fn tree(text: &str) -> serde_json::Value {
    let source = SourceText::new("x", text);
    let mut sink = Sink::new(&source);
    let node = read(&source, &mut sink);
    let found = sink.finish();
    assert!(found.is_empty(), "{text}: {found:?}");
    node.unwrap().to_json().unwrap()
}

#[test]
fn plain_scalars_follow_the_core_schema() {
    use serde_json::json;
    for (text, expected) in [
        ("7", json!(7)),
        ("-7", json!(-7)),
        ("+7", json!(7)),
        ("007", json!(7)),
        ("0x1F", json!(31)),
        ("0o17", json!(15)),
        ("1.5", json!(1.5)),
        (".5", json!(0.5)),
        ("5.", json!(5.0)),
        ("1e3", json!(1000.0)),
        ("-1.5E-2", json!(-0.015)),
        ("18446744073709551615", json!(u64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("true", json!(true)),
        ("FALSE", json!(false)),
        ("tRue", json!("tRue")),
        ("~", json!(null)),
        ("Null", json!(null)),
        ("yes", json!("yes")),
        ("on", json!("on")),
        ("1_000", json!("1_000")),
        ("1:30", json!("1:30")),
        ("0b11", json!("0b11")),
        ("1.2.3", json!("1.2.3")),
        (".", json!(".")),
        ("-", json!("-")),
        ("1e", json!("1e")),
        ("e5", json!("e5")),
        ("2s", json!("2s")),
        ("0x", json!("0x")),
        ("+", json!("+")),
        ("2026-01-01", json!("2026-01-01")),
        ("-.e", json!("-.e")),
    ] {
        let node = Node { place: crate::diagnostic::Place::START, kind: plain(text), values: 1, bytes: 0, depth: 0 };
        assert_eq!(node.to_json(), Ok(expected), "{text}");
    }
    for text in [".inf", "-.INF", "+.Inf", ".nan", "1e999", "0xFFFFFFFFFFFFFFFFFF"] {
        assert!(matches!(number(text), Some(Kind::NotFinite)), "{text}");
    }
    assert!(number("").is_none());
}

#[test]
fn quoted_and_block_scalars_are_text() {
    let value = tree("a: '7'\nb: \"true\"\nc: |\n  1\nd: >\n  2\n  3\n");
    assert_eq!(value, serde_json::json!({"a": "7", "b": "true", "c": "1\n", "d": "2 3\n"}));
}

#[test]
fn keys_are_text_whatever_they_look_like() {
    assert_eq!(tree("1: a\ntrue: b\n'x': c\n"), serde_json::json!({"1": "a", "true": "b", "x": "c"}));
}

#[test]
fn quoted_merge_keys_are_plain_keys() {
    assert_eq!(tree("a: { '<<': 1 }"), serde_json::json!({"a": {"<<": 1}}));
}

#[test]
fn what_is_written_wins_over_what_is_merged_and_the_first_merged_wins() {
    let value = tree("a: &a { k: 1, l: 1 }\nb: &b { l: 2, m: 2 }\nc: { m: 3, <<: [*a, *b] }\nd: { <<: *a, k: 4 }");
    assert_eq!(value["c"], serde_json::json!({"m": 3, "k": 1, "l": 1}));
    assert_eq!(value["d"], serde_json::json!({"k": 4, "l": 1}));
}

#[test]
fn durations_and_sizes_need_their_units() {
    for (text, expected) in [
        ("2s", Ok(2_000)),
        ("500ms", Ok(500)),
        ("1m", Ok(60_000)),
        ("24h", Ok(86_400_000)),
        ("30d", Ok(2_592_000_000)),
        ("1.5s", Ok(1_500)),
        ("0.0001s", Err(Bad::Shape)),
        ("0.001ms", Ok(1)),
        ("2", Err(Bad::NoUnit)),
        ("", Err(Bad::Shape)),
        ("2w", Err(Bad::Shape)),
        ("2 s", Err(Bad::Shape)),
        ("٢s", Err(Bad::Shape)),
        ("1234567890123s", Err(Bad::Shape)),
        ("999999999999d", Ok(u64::MAX)),
    ] {
        let expected =
            if text == "999999999999d" { Ok(999_999_999_999_u64.saturating_mul(86_400_000)) } else { expected };
        assert_eq!(duration_ms(text), expected, "{text}");
    }
    for (text, expected) in [
        ("1B", Ok(1)),
        ("50KiB", Ok(51_200)),
        ("1MiB", Ok(1_048_576)),
        ("1.5KiB", Ok(1_536)),
        ("10MB", Ok(10_000_000)),
        ("1kB", Ok(1_000)),
        ("1KB", Err(Bad::Shape)),
        ("7", Err(Bad::NoUnit)),
    ] {
        assert_eq!(size_bytes(text), expected, "{text}");
    }
}

#[test]
fn the_published_patterns_are_the_units_that_are_read() {
    let fits = |pattern: &str, text: &str| {
        let schema = serde_json::json!({"type": "string", "pattern": pattern});
        jsonschema::options().build(&schema).unwrap().is_valid(&text.into())
    };
    for text in [
        "2s",
        "2",
        "2.s",
        ".5s",
        "1.5s",
        "1.2345s",
        "2w",
        " 2s",
        "2s ",
        "2s\n",
        "1KiB",
        "1KB",
        "1kB",
        "1.5MiB",
        "B",
        "999999999999d",
        "1234567890123ms",
    ] {
        assert_eq!(fits(duration_pattern(), text), duration_ms(text).is_ok(), "{text:?}");
        assert_eq!(fits(size_pattern(), text), size_bytes(text).is_ok(), "{text:?}");
    }
}
