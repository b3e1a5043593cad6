use super::*;

fn at(line: &str, column: u32, length: u32) -> Diagnostic {
    let place = Place { line: 7, column, length };
    let mut d = Diagnostic::new(Severity::Error, Code::UnknownKey, "a/plugin.yaml", place, "unknown key `x`");
    d.excerpt = Excerpt::of_line(line, place);
    d
}

#[test]
fn a_diagnostic_is_place_message_line_and_hint() {
    let d = at("    timout: 2s", 5, 6).with_hint("did you mean `timeout`?");
    let expected = "a/plugin.yaml:7:5: error: unknown key `x` [unknown-key]\n7 |     timout: 2s\n  |     ^^^^^^\n  help: did you mean `timeout`?\n";
    assert_eq!(d.render(&Palette::PLAIN), expected);
    assert_eq!(d.to_string(), expected.trim_end());
    let ansi = d.render(&Palette::ANSI);
    assert!(ansi.contains("\u{1b}[1;31merror\u{1b}[0m"));
}

#[test]
fn carets_stand_under_wide_hidden_and_tabbed_characters() {
    let carets = |line: &str, column, length| {
        let text = at(line, column, length).render(&Palette::PLAIN);
        text.lines().nth(2).unwrap().to_owned()
    };
    assert_eq!(carets("日本: x", 5, 1), "  |       ^");
    assert_eq!(carets("\ta: x", 2, 1), "  |  ^");
    assert_eq!(carets("\u{202e}a", 2, 1), format!("  | {}^", " ".repeat(8)));
    assert_eq!(carets("e\u{301}: x", 4, 1), "  |   ^");
    assert_eq!(carets("a:", 3, 1), "  |   ^", "behind the end of the line");
    assert_eq!(carets("", 1, 1), "  | ^");
}

#[test]
fn a_rendered_excerpt_fits_80_columns() {
    for column in [1, 40, 60, 61, 100, 400, 990, 1_000, 1_001, 2_000] {
        let text = at(&"abcdefghij".repeat(100), column, 30).render(&Palette::PLAIN);
        for line in text.lines().skip(1) {
            assert!(line.chars().count() <= 80, "{column}: {line}");
        }
        if column <= 1_000 {
            let caret = text.lines().nth(2).unwrap().find('^').unwrap();
            let under = text.lines().nth(1).unwrap().chars().nth(caret).unwrap();
            assert_eq!(under, "abcdefghij".chars().nth((column as usize - 1) % 10).unwrap(), "{column}");
        }
    }
    assert!(Excerpt::of_line(&"x".repeat(20_000), Place::START).is_none());
}

#[test]
fn secrets_are_found_at_the_start_of_words_only() {
    for (text, kind) in [
        ("sk-abcdef", Some("an API key")),
        ("x=sk-abcdef", Some("an API key")),
        ("task-abcdef", None),
        ("sk-SK", None),
        ("ghp_abcdef", Some("a GitHub token")),
        ("AKIAIOSFODNN7EXAMPLE", Some("an AWS access key")),
        ("AKIA", None),
        ("Bearer x", Some("an authorization")),
        ("a bearer of news, as people say", None),
        ("Basic training", None),
        ("Basic dXNlcjpwYXNzd29yZA==", Some("an authorization")),
        ("https://u:p@h", Some("a password")),
        ("https://u@h:80/a:b@c", None),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", Some("a private key")),
        ("-----BEGIN CERTIFICATE-----", None),
        ("", None),
    ] {
        assert_eq!(secret_kind(text), kind, "{text}");
    }
}

#[test]
fn a_mask_hides_secrets_and_keeps_count_of_places() {
    assert_eq!(mask("a: sk-abcdef, b: c", 14), ("a: ***, b: c".to_owned(), Some(8)));
    assert_eq!(mask("a: sk-abcdef, b", 0).1, Some(0));
    assert_eq!(mask("a: sk-abcdef, b", 3).1, Some(3));
    assert_eq!(mask("a: sk-abcdef, b", 7).1, Some(3));
    assert_eq!(mask("ä: ghp_abcdef \"Bearer abc\"", 0).0, "ä: *** \"***\"");
    assert_eq!(mask("plain", 5), ("plain".to_owned(), None));
}

#[test]
fn a_mask_hides_what_is_a_secret_by_its_name_or_its_place_in_a_url() {
    for (text, masked) in [
        ("mcp: https://tok@h/mcp", "mcp: https://***@h/mcp"),
        ("mcp: https://h/mcp?a=1&api_key=abc&b=2#f", "mcp: https://h/mcp?a=1&api_key=***&b=2#f"),
        ("https://h/?tavilyApiKey=abc", "https://h/?tavilyApiKey=***"),
        ("https://h/?key=abc", "https://h/?key=***"),
        ("git+ssh://git@h/x", "git+ssh://git@h/x"),
        ("env: { TOKEN: hunter two, LEVEL: 3 }", "env: { TOKEN: ***, LEVEL: 3 }"),
        ("env: { \"TOKEN\" : \"hunter, two\", LEVEL: 3 }", "env: { \"TOKEN\" : \"***\", LEVEL: 3 }"),
        ("TOKEN: { from: GITHUB_TOKEN }", "TOKEN: { from: GITHUB_TOKEN }"),
        ("\"--token=abc\", \"x\"", "\"--token=***\", \"x\""),
        ("max_tokens: 4096", "max_tokens: 4096"),
        ("password: ", "password: "),
        ("Cookie: 'a=b'", "Cookie: '***'"),
        ("password: \"unclosed", "password: \"***"),
        ("token: token: ä", "token: ***"),
    ] {
        assert_eq!(mask(text, 0).0, masked, "{text}");
        assert_eq!(mask(masked, 0).0, masked, "a masked text is left alone");
    }
    assert_eq!(secret_kind("TOKEN: hunter"), None, "hidden, not refused");
}

#[test]
fn the_nearest_name_is_near() {
    let known = ["timeout", "on_timeout", "expires", "match"];
    for (typed, expected) in [
        ("timout", Some("timeout")),
        ("TIMEOUT", Some("timeout")),
        ("on-timeout", Some("on_timeout")),
        ("onTimeout", Some("on_timeout")),
        ("mtach", Some("match")),
        ("exp", Some("expires")),
        ("colour", None),
        ("", None),
    ] {
        assert_eq!(nearest(typed, known), expected, "{typed}");
    }
}

#[test]
fn what_is_shown_is_escaped_and_short() {
    assert_eq!(shown("a\u{1b}\n"), "a\\u{1b}\\n");
    assert!(shown(&"x".repeat(1_000_000)).chars().count() <= 61);
    assert!(shown(&"\u{1b}".repeat(1_000)).chars().count() <= 61);
    assert_eq!(shown("key ghp_abcdef123456"), "key ***");
}

#[test]
fn a_summary_counts_errors_and_warnings() {
    let d = |severity| Diagnostic::new(severity, Code::Empty, "x", Place::START, "m");
    assert_eq!(summary(&[]), None);
    assert_eq!(summary(&[d(Severity::Info)]), None);
    assert_eq!(
        summary(&[d(Severity::Error), d(Severity::Warning), d(Severity::Warning)]).as_deref(),
        Some("1 error, 2 warnings")
    );
}

#[test]
fn codes_are_kebab_case_and_different() {
    let mut texts: Vec<_> = Code::ALL.iter().map(|code| code.text()).collect();
    assert!(texts.iter().all(|t| t.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')));
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), Code::ALL.len());
}

proptest::proptest! {
    #[test]
    fn rendering_never_panics_and_shows_no_control_character(line in "(?s).{0,200}", column in 1u32..300, length in 0u32..300) {
        let text = at(&line, column, length).render(&Palette::PLAIN);
        proptest::prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
    }
}
