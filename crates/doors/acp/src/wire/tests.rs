//! What goes out is escaped and bounded; what comes in is read.

use super::*;
use agent_client_protocol::v1::schema::ToolCallContent;

fn texts(value: &Value) -> Vec<String> {
    result_content(value)
        .into_iter()
        .map(|content| match content {
            ToolCallContent::Content(content) => match content.content {
                ContentBlock::Text(text) => text.text,
                other => serde_json::to_string(&other).unwrap(),
            },
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn results_of_all_shapes_are_shown_escaped_and_bounded() {
    assert_eq!(texts(&json!("a\u{1b}[31mb\nc")), ["a\\u{1b}[31mb\nc"]);
    assert_eq!(texts(&json!({"n": 1})), ["{\"n\":1}"]);
    let blocks = json!([
        {"type": "text", "text": "t\u{202e}"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "x"}},
        {"type": "odd", "x": 1},
        {"type": "image", "data": "A".repeat(2_000_000), "mimeType": "image/png"},
    ]);
    let shown = texts(&blocks);
    assert_eq!(
        (&shown[0][..], &shown[2][..], &shown[3][..]),
        ("t\\u{202e}", "file:///a:\nx", r#"{"type":"odd","x":1}"#)
    );
    assert!(shown[1].contains("AAAA") && shown[4].contains("too large"));
    let many: Vec<Value> = (0..1_000).map(|_| json!({"type": "text", "text": "x"})).collect();
    assert_eq!(texts(&Value::Array(many)).len(), BLOCKS + 1);
    assert!(texts(&json!("x".repeat(10_000_000)))[0].len() < 70_000);
    assert_eq!(raw_input(&json!({"x": "y".repeat(100_000)})), None);
}

#[test]
fn links_and_media_of_servers_pass_with_their_texts_escaped_and_nothing_else() {
    let hostile = "a\u{1b}[2J\u{202e}\u{200b}\n";
    let escaped = r"a\\u{1b}[2J\\u{202e}\\u{200b}\\n";
    let shown = texts(&json!([
        {"type": "resource_link", "name": hostile, "title": hostile, "uri": hostile, "mimeType": hostile,
         "description": "two\nlines\u{202e}", "size": 7, "_meta": {"x": hostile}, "annotations": {"lastModified": hostile}},
        {"type": "image", "data": "AAAA", "mimeType": hostile, "uri": hostile},
        {"type": "audio", "data": "AAAA", "mimeType": hostile, "_meta": {"x": hostile}},
    ]));
    for (text, times) in shown.iter().zip([4, 2, 1]) {
        assert_eq!(text.matches(escaped).count(), times, "{text}");
        assert!(!text.chars().any(is_hidden) && !text.contains("meta") && !text.contains("annotations"), "{text}");
    }
    assert!(shown[0].contains(r#""size":7"#) && shown[0].contains(r"two\nlines\\u{202e}"), "{}", shown[0]);
}

#[test]
fn a_models_text_keeps_what_writing_needs_and_nothing_that_reorders_or_hides() {
    for kept in ["two\n\tlines\r\n", "👩\u{200d}💻", "می\u{200c}خواهم", "\u{200f}שלום", "\u{61c}سلام"]
    {
        assert_eq!(said(kept), kept);
    }
    for hidden in ['\u{1b}', '\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}', '\u{2028}', '\u{e0041}'] {
        assert_eq!(said(&format!("a{hidden}b")), format!("a{}b", hidden.escape_unicode()));
    }
}

#[test]
fn files_are_found_under_the_usual_keys_as_absolute_paths() {
    let found = |arguments: Value| -> Vec<String> {
        locations(&arguments, "/w").into_iter().map(|l| format!("{}:{:?}", l.path.display(), l.line)).collect()
    };
    assert_eq!(found(json!({"path": "a.rs", "line": 7})), ["/w/a.rs:Some(7)"]);
    assert_eq!(found(json!({"file_path": "/x/b", "path": "/x/b"})), ["/x/b:None"]);
    assert_eq!(found(json!({"uri": "file:///x/c", "paths": ["d", 1]})), ["/x/c:None", "/w/d:None"]);
    for none in [
        json!({"uri": "https://x"}),
        json!({"path": 1}),
        json!({"path": "a\nb"}),
        json!({"path": "a\u{202e}sr.x"}),
        json!([]),
        json!({"query": "a.rs"}),
    ] {
        assert_eq!(found(none.clone()), [""; 0], "{none}");
    }
}

#[test]
fn titles_are_one_short_line() {
    assert_eq!(title_of("\n  Fix it \n now"), "Fix it");
    assert_eq!(title_of("a\u{7}b"), "a\\u{7}b");
    assert_eq!(title_of(&"x".repeat(200)).chars().count(), 81);
}

#[test]
fn a_models_text_keeps_its_lines_and_loses_what_a_terminal_acts_on() {
    assert_eq!(said("a\n\tb 👩‍👩‍👧"), "a\n\tb 👩‍👩‍👧");
    assert_eq!(said("\u{1b}]0;x\u{7}\u{9b}"), "\\u{1b}]0;x\\u{7}\\u{9b}");
}

#[test]
fn an_update_fits_a_frame_whatever_a_result_holds() {
    let image = json!({"type": "image", "mimeType": "image/png", "data": "A".repeat(DATA_BYTES)});
    let text = json!({"type": "text", "text": "\u{1}\"\\".repeat(100_000)});
    for block in [image, text] {
        let content = result_content(&Value::Array(vec![block; 200]));
        assert!(content.len() > 1);
        assert!(serde_json::to_string(&content).unwrap().len() < crate::FRAME_BYTES / 2 + 1_000);
        let last = serde_json::to_string(content.last().unwrap()).unwrap();
        assert!(last.contains("further blocks]"), "{last}");
    }
}

#[test]
fn a_long_message_goes_in_pieces_and_nothing_of_it_is_lost() {
    let long = "aä\u{1}👩".repeat(200_000);
    let all: Vec<&str> = pieces(&long).collect();
    assert!(all.len() > 1 && all.iter().all(|piece| piece.len() <= PIECE_BYTES && !piece.is_empty()));
    assert_eq!(all.concat(), long);
    assert_eq!(pieces("").collect::<Vec<_>>(), [""]);
}
