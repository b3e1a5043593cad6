use super::*;
use proptest::prelude::*;

#[test]
fn a_full_name_splits_at_the_first_dot() {
    let name = FunctionName::parse("git.repo.push").unwrap();
    assert_eq!((name.tool(), name.function()), ("git", "repo.push"));
    for bad in ["", "git", ".push", "git.", "gi t.push", "_git.push"] {
        assert!(FunctionName::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn patterns_are_case_sensitive_and_a_star_crosses_dots() {
    for (pattern, name, fits) in [
        ("github.merge", "github.merge", true),
        ("github.merge", "github.Merge", false),
        ("github.*", "github.a.b", true),
        ("*.merge", "github.merge", true),
        ("*", "anything.at_all", true),
        ("g*b.m*e", "github.merge", true),
        ("github.*x", "github.merge", false),
        ("github.merge*", "github.merge", true),
        ("[g]ithub.merge", "github.merge", false),
        ("github?merge", "github.merge", false),
    ] {
        assert_eq!(pattern_fits(pattern, name), fits, "{pattern} ~ {name}");
    }
}

#[test]
fn a_pattern_of_stars_takes_no_exponential_time() {
    assert!(!pattern_fits(&"*a".repeat(2_000), &"a".repeat(1_999)));
}

#[test]
fn the_model_name_is_readable_and_what_providers_accept() {
    assert_eq!(model_name(&FunctionName::new("github", "merge")), "github__merge");
    for (tool, function) in [
        ("a", "b__c"),
        ("a__b", "c"),
        ("a_", "b"),
        ("a", "_b"),
        ("1a", "b"),
        ("a", "ü.b c/d"),
        ("a", "\u{202e}"),
        ("a", "."),
        ("x-9", &"y".repeat(200)),
    ] {
        let name = model_name(&FunctionName::new(tool, function));
        assert!(name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_alphabetic()), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{name}");
    }
}

proptest! {
    #[test]
    fn the_model_name_is_injective(a in "[ab_][ab_-]{0,4}", b in "[ab_.-]{1,6}", c in "[ab_][ab_-]{0,4}", d in "[ab_.-]{1,6}") {
        let (x, y) = (FunctionName::new(a, b), FunctionName::new(c, d));
        prop_assert_eq!(x == y, model_name(&x) == model_name(&y));
    }
}
