use super::*;

fn answer(line: &str) -> (Option<u64>, String) {
    match read(line.as_bytes()) {
        Ok(Incoming::Answer { id, said: Said::Result(raw) }) => (id, raw.get().to_owned()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_result_is_handed_on_as_it_came() {
    let raw = r#"{ "content":[],"decision":"allow","x":{"a":1.50} }"#;
    assert_eq!(answer(&format!(r#"{{"jsonrpc":"2.0","id":7,"result":{raw}}}"#)), (Some(7), raw.to_owned()));
    assert_eq!(answer(r#"{"id":7,"result":null}"#), (Some(7), "null".to_owned()));
    assert_eq!(answer(r#"{"id":7,"result":{},"error":null}"#), (Some(7), "{}".to_owned()));
}

#[test]
fn ids_that_we_never_give_are_nobodys() {
    for id in ["\"7\"", "7.0", "-7", "null", "[7]", "18446744073709551616"] {
        assert_eq!(answer(&format!(r#"{{"id":{id},"result":1}}"#)).0, None, "{id}");
    }
}

#[test]
fn what_is_no_message_says_why() {
    for line in [
        "",
        "{",
        "7",
        "[]",
        "{}",
        r#"{"id":1}"#,
        r#"{"id":1,"id":2,"result":{}}"#,
        r#"{"id":1,"result":1,"result":2}"#,
        r#"{"method":7}"#,
    ] {
        assert!(read(line.as_bytes()).is_err(), "{line}");
    }
    assert!(read(b"{\"id\":1,\"result\":\"\xff\xfe\"}").is_err(), "not UTF-8");
}

#[test]
fn a_doubled_key_is_told_and_harms_no_ordinary_result() {
    let (value, doubled) = super::value(r#"{"a":{"k":1,"k":2}}"#, 10).unwrap();
    assert_eq!((value, doubled), (serde_json::json!({"a": {"k": 2}}), true));
    assert!(!super::value(r#"{"a":{"k":1}}"#, 10).unwrap().1);
}

#[test]
fn too_many_values_are_refused_only_in_large_answers() {
    let many = format!("[{}0]", "0,".repeat(600_000));
    assert!(super::value(&many, 500_000).unwrap_err().contains("500000"));
    assert!(super::value(&many, 700_000).is_ok());
    let text = serde_json::to_string(&",[{".repeat(600_000)).unwrap();
    assert!(super::value(&text, 10).is_ok(), "what stands in a string does not count");
    assert!(super::value(&"[".repeat(2_000), 10).is_err(), "nor does deep nesting harm");
}

#[test]
fn the_id_of_a_broken_line_is_found_at_either_end() {
    let head = |text: &str| likely_id(text.as_bytes(), b"");
    assert_eq!(head(r#"{"jsonrpc":"2.0","id":5,"result":{"content":[{"#), Some(5));
    assert_eq!(head(r#"{ "id" : 12 , "result":"x"#), Some(12));
    assert_eq!(head(r#"{"result":{"id":5},"#), None, "an id inside the result is another's");
    assert_eq!(head(r#"{"a\"id":5,"id""#), None);
    assert_eq!(head(r#"{"method":"x","id":5,"#), None, "a request of the server's");
    let tail = |text: &str| likely_id(b"", text.as_bytes());
    assert_eq!(tail(r#"xxx"}]},"jsonrpc":"2.0","id":9}"#), Some(9));
    assert_eq!(tail(r#"xxx"}]},"id": 9, "jsonrpc": "2.0"}"#), Some(9));
    assert_eq!(tail(r#"{"id":9}}"#), None);
}

#[test]
fn requests_are_one_line_and_pings_are_answered() {
    let line = request(3, "tools/call", &serde_json::json!({"name": "a", "arguments": {"t": "x\ny"}})).unwrap();
    assert!(!line.contains(&b'\n'));
    let id = RawValue::from_string("\"a\"".into()).unwrap();
    assert_eq!(reply(&id, "ping"), br#"{"jsonrpc":"2.0","id":"a","result":{}}"#);
    assert!(String::from_utf8(reply(&id, "sampling/createMessage")).unwrap().contains("-32601"));
}
