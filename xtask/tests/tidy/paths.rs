//! Paths that documents name exist.

use crate::repository::{extension, files, root, text};

/// Paths of the repository that a text names between backticks, e.g. `crates/core/src/chain.rs`.
fn named(text: &str) -> Vec<&str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    // Every second piece stands between backticks; fenced blocks are three of them and hold spaces or line breaks.
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|q| q.contains('/') && !q.starts_with(['/', '.', '-']) && q.chars().all(plain)).collect()
}

/// Folders at the top: a path between backticks that begins with one is meant from there, in any document.
const TOPS: [&str; 5] = ["crates/", "docs/", "examples/", "schemas/", "xtask/"];

/// Targets of a Markdown text's links within the repository, as (path, anchor); both may be empty.
fn linked(text: &str) -> Vec<(&str, &str)> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    targets.filter(|t| !t.is_empty() && !t.contains(':')).map(|t| t.split_once('#').unwrap_or((t, ""))).collect()
}

/// The anchors of a Markdown text's headings, as they are made on the web.
fn anchors(text: &str) -> Vec<String> {
    let mut fenced = false;
    let headings = text.lines().filter(|line| {
        fenced ^= line.starts_with("```");
        !fenced && line.starts_with('#')
    });
    let slug = |heading: &str| -> String {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        kept.chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    };
    headings.map(slug).collect()
}

#[test]
fn every_path_that_a_document_names_exists() {
    let mut missing = Vec::new();
    for file in documents() {
        let text = text(&file).unwrap();
        let meant = |path: &&str| file == "ARCHITECTURE.md" || TOPS.iter().any(|top| path.starts_with(top));
        let gone = named(&text).into_iter().filter(meant).filter(|path| !root().join(path).exists());
        missing.extend(gone.map(|path| format!("{file}: {path}")));
    }
    assert_eq!(missing, [""; 0]);
}

#[test]
fn every_link_of_a_document_leads_somewhere() {
    let mut dead = Vec::new();
    for file in documents() {
        let whole = text(&file).unwrap();
        let path = root().join(&file);
        for (to, anchor) in linked(&whole) {
            let target = if to.is_empty() { path.clone() } else { path.parent().unwrap().join(to) };
            let there = target.exists()
                && (anchor.is_empty()
                    || anchors(&std::fs::read_to_string(&target).unwrap()).iter().any(|a| a == anchor));
            if !there {
                dead.push(format!("{file}: {to}#{anchor}"));
            }
        }
    }
    assert_eq!(dead, [""; 0]);
}

/// Markdown files, but for those of templates, whose links are meant where they are put.
fn documents() -> Vec<String> {
    files().into_iter().filter(|file| extension(file) == "md" && !file.contains("/templates/")).collect()
}

#[test]
fn named_and_linked_paths_are_noticed() {
    let text = "In `crates/core/src/x.rs`, `not a path/`, `a.b`, [here](docs/x.md#top), [out](https://x.example/y), `--flag/x`.";
    assert_eq!(named(text), ["crates/core/src/x.rs"]);
    assert_eq!(linked(text), [("docs/x.md", "top")]);
    assert_eq!(anchors("# What `check` says\n```sh\n# no heading\n```\n## a-b c\n"), ["what-check-says", "a-b-c"]);
}
