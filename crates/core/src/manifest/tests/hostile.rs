//! Texts that nobody writes by accident, and the ones that everybody does.

use super::*;
use std::time::{Duration, Instant};

/// No text of at most 1 MiB may take longer. Far above what it takes, far below what a person would notice as hanging.
const BOUND: Duration = Duration::from_secs(20);

fn quick(text: &str) -> Vec<&'static str> {
    let start = Instant::now();
    let found = codes(text);
    assert!(start.elapsed() < BOUND, "took {:?}", start.elapsed());
    found
}

#[test]
fn an_empty_file_is_an_error() {
    for text in ["", "\n", "# only a comment\n", "---\n", "null", "~", "\u{feff}"] {
        assert_eq!(codes(text), ["empty"], "{text:?}");
    }
}

#[test]
fn a_file_over_1_mib_is_refused_quickly() {
    assert_eq!(quick(&format!("id: {}", "x".repeat(10 << 20))), ["too-large"]);
    assert_eq!(parse_bytes(&vec![0xff; 10 << 20], source()).unwrap_err()[0].code, Code::TooLarge);
}

#[test]
fn bytes_that_are_no_text_are_named_with_their_place() {
    let found = parse_bytes(b"id: x\ntools: \xe9\n", source()).unwrap_err();
    assert_eq!((found[0].code, found[0].line, found[0].column), (Code::NotUtf8, 2, 8));
    let found = parse_bytes(b"id: x\n# \x00\n", source()).unwrap_err();
    assert_eq!((found[0].code, found[0].line, found[0].column), (Code::Binary, 2, 3));
    let found = parse_bytes(b"\xff\xfei\x00d\x00", source()).unwrap_err();
    assert!(found[0].message.contains("UTF-16"));
    assert!(parse_bytes("\u{feff}id: x".as_bytes(), source()).is_ok());
}

#[test]
fn tabs_in_the_indentation_are_named() {
    for text in ["tools:\n\t- id: x\n", "tools:\n  - id: x\n\tmcp: [a]\n"] {
        let found = read(text).unwrap_err();
        assert_eq!(found[0].code, Code::YamlSyntax, "{text:?}");
        assert!(found[0].message.contains("tab"), "{}", found[0].message);
    }
}

#[test]
fn one_document_is_expected() {
    assert_eq!(codes("id: x\n---\nid: y\n"), ["yaml-documents"]);
    assert_eq!(codes("---\nid: x\n...\n"), ["nothing-declared"]);
    assert_eq!(codes("%YAML 1.2\n---\nid: x\n"), ["nothing-declared"]);
}

#[test]
fn aliases_and_merge_keys_are_followed() {
    let text = "
hooks:
  - &first { on: pre_tool_call, call: a.b, timeout: 3s }
  - { <<: *first, call: a.c }
  - <<: [{ timeout: 9s, on: job_end }, *first]
";
    let hooks = read(text).unwrap().manifest.hooks;
    assert_eq!(hooks.len(), 3);
    assert_eq!((hooks[1].call.to_string().as_str(), hooks[1].timeout_ms), ("a.c", 3_000));
    assert_eq!((hooks[2].on, hooks[2].timeout_ms), (crate::event::Moment::JobEnd, 9_000));
    assert_eq!(codes("hooks: [{ <<: 7 }]"), ["missing-key", "missing-key", "wrong-type"]);
    // A fault in what is repeated is said once, where it is written.
    let found = read("hooks:\n  - &a { on: job_end, call: a.b, timeout: 31s }\n  - *a\n  - *a\n").unwrap_err();
    assert_eq!(found.len(), 1);
}

#[test]
fn an_alias_to_nothing_or_to_itself_is_an_error() {
    assert_eq!(codes("hooks: *nowhere"), ["yaml-alias"]);
    assert_eq!(codes("hooks: &a [*a]"), ["yaml-alias"]);
    let found = read("hooks: [{ on: pre_tool_call, call: a.b, match: { tools: [*.push] } }]").unwrap_err();
    assert!(found[0].hint.as_deref().is_some_and(|hint| hint.contains("needs quotes")), "{found:?}");
}

#[test]
fn a_bomb_of_aliases_is_refused() {
    let mut text = "a: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..30 {
        let _ = writeln!(text, "b{i}: &a{i} [{}]", vec![format!("*a{}", i - 1); 10].join(", "));
    }
    assert_eq!(quick(&text), ["too-many-values"]);
    // One long text, repeated.
    let text = format!("a: &a {}\nb: [{}]", "x".repeat(400_000), vec!["*a"; 50].join(", "));
    assert_eq!(quick(&text), ["too-many-values"]);
    // Merged again and again.
    let mut text = "a0: &a0 { k: 1, l: 2, m: 3 }\n".to_owned();
    for i in 1..40 {
        let _ = writeln!(text, "a{i}: &a{i} {{ <<: [*a{0}, *a{0}], x{i}: *a{0} }}", i - 1);
    }
    assert_eq!(quick(&text), ["too-many-values"]);
}

#[test]
fn nesting_has_a_limit() {
    assert_eq!(quick(&"[".repeat(500_000)), ["too-nested"]);
    assert_eq!(quick(&format!("a: {}", "{b: ".repeat(100_000))), ["too-nested"]);
    let block = (0..700).map(|i| format!("{}a:", " ".repeat(i))).collect::<Vec<_>>().join("\n");
    assert_eq!(quick(&block), ["too-nested"]);
    let mut text = "a0: &a0 [x]\n".to_owned();
    for i in 1..100 {
        let _ = writeln!(text, "a{i}: &a{i} [*a{}]", i - 1);
    }
    assert_eq!(quick(&text), ["too-nested"]);
}

#[test]
fn many_problems_are_bounded_and_counted() {
    let text = (0..5_000).map(|i| format!("k{i}: 1")).collect::<Vec<_>>().join("\n");
    let found = read(&text).unwrap_err();
    assert_eq!(found.len(), 101);
    assert_eq!(found[100].code, Code::MoreProblems);
    assert!(found[100].message.contains("4900"));
    assert_eq!(quick(&"k: 1\n".repeat(40_000)).len(), 101);
}

#[test]
fn large_but_honest_manifests_are_read() {
    let hooks = (0..2_000)
        .map(|i| {
            format!("  - on: pre_tool_call\n    call: policy.check{i}\n    match: {{ tools: [\"a.x{i}\", \"b.*\"] }}\n")
        })
        .collect::<Vec<_>>()
        .concat();
    let text = format!("hooks:\n{hooks}");
    assert!(quick(&text).is_empty());
    assert_eq!(read(&text).unwrap().manifest.hooks.len(), 2_000);
}

#[test]
fn duplicate_keys_are_errors_with_both_places() {
    let found = read("id: a\nid: b\n").unwrap_err();
    assert_eq!((found[0].code, found[0].line), (Code::DuplicateKey, 2));
    assert!(found[0].message.contains("first on line 1"));
}

#[test]
fn tags_and_odd_keys_are_errors() {
    assert_eq!(codes("id: !!str 7"), ["nothing-declared"]);
    assert_eq!(codes("id: ! 7"), ["nothing-declared"]);
    assert_eq!(codes("id: !!int x"), ["yaml-tag"]);
    assert_eq!(codes("id: !include x"), ["yaml-tag"]);
    assert_eq!(codes("tools: !!set []"), ["yaml-tag"]);
    assert_eq!(codes("? [a]\n: b"), ["yaml-key"]);
    assert_eq!(codes("~: b"), ["yaml-key"]);
}

#[test]
fn words_of_yaml_1_1_are_text() {
    // `on` is a key here, never a boolean.
    assert!(read("hooks: [{ on: job_end, call: a.b }]").is_ok());
    assert_eq!(read("id: no").unwrap().manifest.id, "no");
    assert_eq!(read("id: '7'").unwrap().manifest.id, "7");
    assert_eq!(codes("id: true"), ["wrong-type"]);
}

#[test]
fn hostile_text_is_escaped_in_what_is_said() {
    let text = "\"a\\u001b[31m\\u202e\": 1\nid: \"\\u200b\\n\\u0007x\"\n";
    let shown = rendered(text);
    assert!(
        shown.chars().all(|c| c == '\n' || !c.is_control()) && !shown.contains(['\u{202e}', '\u{200b}']),
        "{shown:?}"
    );
    let found = parse("tools: 1", Source { file: "a\u{1b}[31m\nb", folder_name: "x" }).unwrap_err();
    assert!(!found[0].render(&Palette::PLAIN).contains('\u{1b}'));
}

#[test]
fn text_that_is_shown_in_another_order_is_a_warning() {
    assert_eq!(codes("id: x # \u{202e}\u{2066} a\ntools: []\n"), ["nothing-declared", "hidden-characters"]);
}

#[test]
fn line_ends_of_all_kinds_count_alike() {
    for end in ["\n", "\r\n", "\r"] {
        let text = ["id: x", "", "tools:", "  - id: a", "    mpc: [a]"].join(end);
        let found = read(&text).unwrap_err();
        let odd = found.iter().find(|d| d.code == Code::UnknownKey).unwrap();
        assert_eq!((odd.line, odd.column), (5, 5), "{end:?}");
        assert_eq!(odd.excerpt.as_ref().unwrap().text, "    mpc: [a]");
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_without_panic_in_bounded_time(text in "(?s).{0,400}") {
        quick(&text);
    }

    #[test]
    fn any_text_of_yamls_own_characters_too(text in "[-?:,\\[\\]{}#&*!|>'\"%@` \\n\\ta-c<0.~]{0,200}") {
        let shown = rendered(&text);
        proptest::prop_assert!(shown.chars().all(|c| c == '\n' || !c.is_control()));
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        let _ = parse_bytes(&bytes, source());
    }

    #[test]
    fn a_damaged_manifest_is_read_without_panic(at in 0..SPEC.len(), len in 0usize..40, with in "[-:{}\\[\\]&*'\" \\na]{0,6}") {
        let from = (0..=at).rev().find(|i| SPEC.is_char_boundary(*i)).unwrap_or(0);
        let to = (from + len..=SPEC.len()).find(|i| SPEC.is_char_boundary(*i)).unwrap_or(SPEC.len());
        quick(&format!("{}{with}{}", &SPEC[..from], &SPEC[to..]));
    }
}
