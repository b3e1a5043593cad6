//! Documents: an index that names them all, decisions with numbers of their own, a verifier that works.

use crate::repository::{files, root, text};
use std::path::Path;
use std::process::Command;

/// Names of files directly in a folder.
fn names_in(folder: &str) -> Vec<String> {
    let inside = files().into_iter().filter_map(|file| file.strip_prefix(folder).map(str::to_owned));
    inside.filter(|name| !name.contains('/')).collect()
}

/// What is wrong with decisions, given as (file name, first line), and their index.
fn faults(decisions: &[(String, String)], index: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, (name, title)) in decisions.iter().enumerate() {
        let number = name.get(..4).unwrap_or_default();
        if number.len() != 4 || !number.bytes().all(|b| b.is_ascii_digit()) || name.get(4..5) != Some("-") {
            wrong.push(format!("{name}: a decision's name is NNNN-title.md"));
        }
        if decisions[..at].iter().any(|(other, _)| other.get(..4) == Some(number)) {
            wrong.push(format!("{name}: its number is another one's"));
        }
        if !title.starts_with(&format!("# {number}")) {
            wrong.push(format!("{name}: its first line does not begin with # {number}"));
        }
        if !index.contains(&format!("]({name})")) {
            wrong.push(format!("{name}: not in docs/decisions/README.md"));
        }
    }
    wrong
}

#[test]
fn every_decision_has_a_number_of_its_own_and_stands_in_the_index() {
    let folder = "docs/decisions/";
    let decisions: Vec<_> = names_in(folder)
        .into_iter()
        .filter(|name| name != "README.md")
        .map(|name| {
            let first = text(&format!("{folder}{name}")).unwrap().lines().next().unwrap_or_default().to_owned();
            (name, first)
        })
        .collect();
    assert!(decisions.len() > 20, "{decisions:?}");
    assert_eq!(faults(&decisions, &text("docs/decisions/README.md").unwrap()), [""; 0]);
}

#[test]
fn a_decision_without_number_title_or_entry_is_noticed() {
    let decision = |name: &str, title: &str| (name.to_owned(), title.to_owned());
    let decisions = [
        decision("0001-a.md", "# 0001 A"),
        decision("0001-b.md", "# 0001 B"),
        decision("0002-c.md", "# 0003 C"),
        decision("d.md", "# d.md D"),
        decision("0004-e.md", "# 0004 E"),
    ];
    let found = faults(&decisions, "[1](0001-a.md) [1](0001-b.md) [2](0002-c.md) [d](d.md)");
    assert_eq!(found.len(), 4, "{found:#?}");
}

#[test]
fn every_guide_stands_in_the_index_of_the_documentation() {
    let index = text("docs/README.md").unwrap();
    let missing: Vec<_> = names_in("docs/")
        .into_iter()
        .filter(|name| name != "README.md" && !index.contains(&format!("]({name})")))
        .collect();
    assert_eq!(missing, [""; 0], "not linked from docs/README.md");
}

/// Runs docs/verify_history.py; whether it found the history intact, and what it said.
fn verify(file: &Path, kept: &str) -> (bool, String) {
    let output =
        Command::new("python3").arg(root().join("docs/verify_history.py")).arg(file).arg(kept).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn the_verifier_in_the_documentation_agrees_with_recorded_histories_and_finds_changes() {
    let folder = tempfile::tempdir().unwrap();
    let histories = names_in("crates/core/tests/histories/");
    assert!(!histories.is_empty());
    let (good, said) = verify(&folder.path().join("none"), "");
    assert!(!good && said.contains("no history can be read") && !said.contains("Traceback"), "{said}");
    let used = Command::new("python3").arg(root().join("docs/verify_history.py")).output().unwrap();
    assert!(String::from_utf8_lossy(&used.stderr).starts_with("usage:"), "{used:?}");
    for name in histories {
        let text = text(&format!("crates/core/tests/histories/{name}")).unwrap();
        let history: serde_json::Value = serde_json::from_str(&text).unwrap();
        let last = history["history"].as_array().unwrap().last().unwrap()["hash"].as_str().unwrap();
        let file = folder.path().join(&name);
        let with = |text: &str, kept: &str| {
            std::fs::write(&file, text).unwrap();
            verify(&file, kept)
        };
        let (intact, said) = with(&text, last);
        assert!(intact, "{name}: {said}");
        assert!(!with(&text, &"0".repeat(64)).0, "{name}: another head");
        for (from, to) in [
            ("\"at_ms\": 1", "\"at_ms\": 2"),
            ("\"kind\": \"finished\"", "\"kind\": \"cancelled\""),
            ("\"value\": \"", "\"value\": \"x"),
        ] {
            assert!(text.contains(from), "{name}: {from}");
            let (intact, said) = with(&text.replacen(from, to, 1), "");
            assert!(!intact && said.contains("changed"), "{name}: {from}: {said}");
        }
    }
}
