//! Paths that documents name exist.

use crate::repository::{extension, files, root, text};

/// Paths of the repository that a text names between backticks, e.g. `crates/core/src/chain.rs`.
fn named(text: &str) -> Vec<&str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    // Every second piece stands between backticks; fenced blocks are three of them and hold spaces or line breaks.
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|q| q.contains('/') && !q.starts_with(['/', '.', '-']) && q.chars().all(plain)).collect()
}

/// Targets of a Markdown text's links within the repository, without anchors.
fn linked(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    targets.map(|t| t.split('#').next().unwrap_or(t)).filter(|t| !t.is_empty() && !t.contains(':')).collect()
}

#[test]
fn every_path_that_architecture_names_exists() {
    let file = "ARCHITECTURE.md";
    let text = if root().join(file).is_file() { text(file).unwrap() } else { String::new() };
    let missing: Vec<_> = named(&text).into_iter().filter(|path| !root().join(path).exists()).collect();
    assert_eq!(missing, [""; 0], "named in {file}");
}

#[test]
fn every_link_of_a_document_leads_somewhere() {
    let mut dead = Vec::new();
    for file in files().into_iter().filter(|file| extension(file) == "md" && !file.contains("/templates/")) {
        let text = text(&file).unwrap();
        let folder = root().join(&file).parent().unwrap().to_owned();
        dead.extend(linked(&text).into_iter().filter(|to| !folder.join(to).exists()).map(|to| format!("{file}: {to}")));
    }
    assert_eq!(dead, [""; 0]);
}

#[test]
fn named_and_linked_paths_are_noticed() {
    let text = "In `crates/core/src/x.rs`, `not a path/`, `a.b`, [here](docs/x.md#top), [out](https://x.example/y), `--flag/x`.";
    assert_eq!(named(text), ["crates/core/src/x.rs"]);
    assert_eq!(linked(text), ["docs/x.md"]);
}
