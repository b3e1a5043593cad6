use super::format::{ExpectWire, parse};

fn error(text: &str) -> String {
    parse(text).unwrap_err()
}

#[test]
fn a_script_may_be_written_short_or_long() {
    let script = parse(
        "description: shows it\nturns:\n  - say: Hi.\n  - expect: done\n    call: {tool: git.push, with: {branch: main, n: 1, f: 1.5, ok: true, list: [a, null]}}\n  - expect:\n      - one\n      - matches: ^t.o$\n    call:\n      - tool: a.b\n      - {tool: c.d, raw: '{\"x\":'}\n    usage: {input: 3, output: 4}\n    delay: 1.5s\n",
    )
    .unwrap();
    assert_eq!(script.turns.len(), 3);
    let with = serde_json::to_string(&script.turns[1].call[0].with).unwrap();
    assert_eq!(with, r#"{"branch":"main","n":1,"f":1.5,"ok":true,"list":["a",null]}"#);
    assert!(
        matches!(&script.turns[2].expect[..], [ExpectWire::Text(t), ExpectWire::Matches(p)] if t == "one" && p.0.as_str() == "^t.o$")
    );
    assert_eq!(script.turns[2].call[1].raw.as_deref(), Some("{\"x\":"));
    assert_eq!(script.turns[2].delay.unwrap().0.as_millis(), 1_500);
}

#[test]
fn an_error_names_its_line_and_column_and_what_was_expected() {
    for (text, at, words) in [
        ("", "1:1", "unexpected end"),
        ("turns: []\n", "1:1", "at least one turn"),
        ("turn:\n  - say: x\n", "1:1", "unknown field"),
        ("turns:\n  - say: x\n    sya: y\n", "3:5", "did you mean say?"),
        ("turns:\n  - say: x\n    say: y\n", "3:5", "say"),
        ("turns:\n  - say: x\n    delay: soon\n", "3:12", "expected e.g. 10ms"),
        ("turns:\n  - say: x\n    delay: 2m\n", "3:12", "at most 1m"),
        ("turns:\n  - say: x\n    stop: later\n", "3:11", "max_tokens"),
        ("turns:\n  - expect: {matches: \"(\"}\n    say: x\n", "2:", "no regular expression: unclosed group"),
        ("turns:\n  - expect: {contains: x}\n    say: x\n", "2:", "matches"),
        ("turns:\n  - call:\n      - tool: a.b\n      - with: {}\n", "4:", "tool"),
        ("turns:\n  - call: {tool: a.b, whit: {}}\n", "2:", "unknown field"),
        ("turns:\n  - usage: {input: 1, output: 1}\n", "2:", "needs one of say, call and error"),
        ("turns:\n  - error: refused\n    call: {tool: a.b}\n", "2:", "no call, stop or usage"),
        ("turns:\n  - call: {tool: a.b, with: {a: 1}, raw: x}\n", "2:", "with or raw"),
        ("turns:\n\t- say: x\n", "2:", ""),
        ("turns: 7\n", "1:", "sequence"),
    ] {
        let said = error(text);
        assert!(said.starts_with(at) && said.contains(words), "{text:?}: {said}");
        assert!(!said.contains('\n') && !said.contains(" at line") && said.len() < 600, "{said}");
    }
}

#[test]
fn hostile_files_are_refused_quickly() {
    // Nine lists of nine, each of the one before: a billion values, were they all made.
    let list = |c: char, item: &str| [&format!("{c}: &{c} ["), [item; 9].join(",").as_str(), "]\n"].concat();
    let letters: Vec<char> = ('a'..='j').collect();
    let mut bomb = list('a', "x");
    for pair in letters.windows(2) {
        bomb += &list(pair[1], &format!("*{}", pair[0]));
    }
    bomb += "turns: *j\n";
    error(&bomb);
    error(&"[".repeat(100_000));
    error("turns:\n  - say: \"\u{0}\"\n    x: \u{1b}[31m\n");
}
