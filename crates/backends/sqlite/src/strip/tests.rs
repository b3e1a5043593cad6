use super::strip;
use hookwright_core::stored::Stored;
use serde_json::json;

fn check(text: &str, expect: Option<&str>) {
    assert_eq!(strip(text).unwrap().as_deref(), expect);
}

#[test]
fn exactly_the_inline_copies_of_values_go() {
    check(r#"{"v":{"sha256":"ab","bytes":2,"value":{"secret":1}}}"#, Some(r#"{"v":{"sha256":"ab","bytes":2}}"#));
    check(r#"[1,[{"value":null,"bytes":4,"sha256":"ab"}]]"#, Some(r#"[1,[{"bytes":4,"sha256":"ab"}]]"#));
    // Already by digest, one key more, one key less: not inline values.
    check(r#"{"v":{"sha256":"ab","bytes":2}}"#, None);
    check(r#"{"v":{"sha256":"ab","bytes":2,"value":1,"more":1}}"#, None);
    check(r#"{"value":1}"#, None);
    check(r#"{"sha256":1,"bytes":2,"bytes":3}"#, None);
}

#[test]
fn everything_else_stays_as_it_was_written() {
    let kept = r#""z":1e2,"a":-0.0,"n":123456789012345678901234567890,"s":"é\u0000\"\\","o":{},"l":[],"b":[true,null]"#;
    let text = format!(r#"{{{kept},"v":{{"sha256":"ab","bytes":2,"value":0}}}}"#);
    check(&text, Some(&format!(r#"{{{kept},"v":{{"sha256":"ab","bytes":2}}}}"#)));
}

#[test]
fn a_value_may_hold_anything_however_deep() {
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    check(
        &format!(r#"{{"v":{{"sha256":"ab","bytes":40000,"value":{deep}}}}}"#),
        Some(r#"{"v":{"sha256":"ab","bytes":40000}}"#),
    );
    check(&deep, None);
    // A value that looks like a value in a value.
    let inner = serde_json::to_value(Stored::inline(json!("x"))).unwrap();
    let outer = Stored::inline(inner);
    let stripped = strip(&serde_json::to_string(&outer).unwrap()).unwrap().unwrap();
    assert_eq!(serde_json::from_str::<Stored>(&stripped).unwrap(), outer.digest_only());
}

#[test]
fn what_is_no_json_is_an_error() {
    for text in ["", "{", "[1", "{\"a\":}", "nope", "{} {}"] {
        assert!(strip(text).is_err(), "{text}");
    }
}
