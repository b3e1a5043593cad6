//! Tests that the conformance list of the lifecycle hooks names exist.

use crate::repository::{extension, files, text};
use std::collections::HashSet;

/// Names between backticks in the last cell of a table's rows below `## Conformance`.
fn named(document: &str) -> Vec<&str> {
    let Some((_, list)) = document.split_once("\n## Conformance\n") else { return vec![] };
    let rows = list.lines().filter(|line| line.starts_with('|'));
    let last = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    last.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

/// Names of the functions in a text that stand below an attribute of tests, or in a `proptest!` block.
fn tests(source: &str) -> impl Iterator<Item = &str> {
    let mut is_test = false;
    source.lines().filter_map(move |line| {
        let line = line.trim();
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            return None;
        }
        let name = line.trim_start_matches("async ").strip_prefix("fn ").and_then(|rest| rest.split('(').next());
        std::mem::take(&mut is_test).then_some(name).flatten()
    })
}

#[test]
fn every_test_that_the_conformance_list_names_exists() {
    let document = text("docs/lifecycle.md").unwrap();
    let sources: Vec<String> = files().into_iter().filter(|f| extension(f) == "rs").filter_map(|f| text(&f)).collect();
    let there: HashSet<&str> = sources.iter().flat_map(|source| tests(source)).collect();
    let named = named(&document);
    assert!(named.len() > 30, "the list was not found");
    let missing: Vec<&&str> = named.iter().filter(|name| !there.contains(**name)).collect();
    assert!(missing.is_empty(), "docs/lifecycle.md names tests that do not exist: {missing:?}");
}

#[test]
fn a_test_that_does_not_exist_would_be_noticed() {
    let document = "`x`\n\n## Conformance\n\n| a `b` | test |\n|---|---|\n| no `one` | `first`, `second` |\n";
    assert_eq!(named(document), ["first", "second"]);
    let source = "#[test]\n#[cfg(x)]\nfn first() {\n#[tokio::test(flavor = \"x\")]\n    async fn third() {\nfn second() {\n#[derive(X)]\nfn fourth() {}";
    assert_eq!(tests(source).collect::<Vec<_>>(), ["first", "third"]);
}
