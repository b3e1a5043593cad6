//! What tracked files may not hold, and how long they may be.

use crate::repository::{extension, files, root, text};

/// Marks of unfinished work and of tools that wrote it, split so that this file does not hold them.
const MARKS: [&str; 10] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("<<<<", "<<< "),
    concat!("db", "g!("),
    concat!("#[ig", "nore"),
    concat!("lorem ", "ipsum"),
    concat!("Co-author", "ed-by"),
    concat!("Generated wi", "th ["),
    concat!("as an AI ", "language"),
];
/// Folders of single machines.
const MACHINES: [&str; 5] = [
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/tmp", "/wt"),
    concat!("/Us", "ers/"),
    concat!("C:\\Us", "ers"),
];
/// Lines of a Rust file: a reading, what is refused, and what is refused of tests.
const LINES: (usize, usize, usize) = (300, 450, 700);
/// Rooms that may be larger, how large, and why they are no two rooms.
const LARGE: [(&str, usize); 2] = [
    // One state machine: its states and steps are read together.
    ("crates/core/src/job/machine.rs", 550),
    // One contract: all shapes that scripts read.
    ("crates/cli/src/story/json.rs", 500),
];
/// Bytes of any tracked file.
const BYTES: u64 = 1024 * 1024;

/// Whether a person or a generator of ours writes it.
fn is_ours(file: &str) -> bool {
    let foreign = [".jsonl", ".lock", "package-lock.json", "constraints.txt"];
    !foreign.iter().any(|end| file.ends_with(end))
}

fn held(text: &str) -> Vec<&'static str> {
    let marks = MARKS.iter().filter(|mark| text.contains(**mark));
    // A folder of that name below another one is no path of a machine: it does not stand at the root.
    let at_root = |path: &str, at: usize| {
        !text[..at].ends_with(|c: char| c.is_alphanumeric() || "._-})*~".contains(c)) || !path.starts_with('/')
    };
    let machines = MACHINES.iter().filter(|path| text.match_indices(**path).any(|(at, _)| at_root(path, at)));
    marks.chain(machines).copied().collect()
}

#[test]
fn no_file_holds_a_mark_of_unfinished_work_or_a_path_of_one_machine() {
    let mut wrong = Vec::new();
    for file in files().into_iter().filter(|file| is_ours(file)) {
        let Some(text) = text(&file) else { continue };
        wrong.extend(held(&text).into_iter().map(|word| format!("{file}: {word}")));
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn what_is_forbidden_is_noticed() {
    for word in MARKS.iter().chain(&MACHINES) {
        assert_eq!(held(&format!("x = \"{word}y\"")), [*word]);
    }
    assert_eq!(held(concat!("a.demo/wo", "rk/x and todo")), [""; 0]);
}

/// Lines that a Rust file may have.
fn limit(file: &str) -> usize {
    let large = LARGE.iter().find(|(name, _)| *name == file).map(|(_, lines)| *lines);
    let is_test = file.contains("/tests/") || file.ends_with("tests.rs") || file.contains("/benches/");
    large.unwrap_or(if is_test { LINES.2 } else { LINES.1 })
}

#[test]
fn rooms_are_smaller_than_tests_and_exceptions_have_names() {
    assert_eq!(["a/src/x.rs", "a/src/x/tests.rs", "a/tests/it/x.rs"].map(limit), [LINES.1, LINES.2, LINES.2]);
    for (file, lines) in LARGE {
        assert!(root().join(file).is_file() && limit(file) == lines, "{file}");
    }
}

#[test]
fn files_are_small() {
    let mut wrong = Vec::new();
    for file in files() {
        if root().join(&file).metadata().unwrap().len() > BYTES {
            wrong.push(format!("{file}: over {BYTES} bytes"));
        }
        let lines = if extension(&file) == "rs" { text(&file).unwrap_or_default().lines().count() } else { 0 };
        if lines > limit(&file) {
            wrong.push(format!("{file}: {lines} lines, at most {}", limit(&file)));
        } else if lines > LINES.0 {
            eprintln!("{file}: {lines} lines; aim at {}", LINES.0);
        }
    }
    assert_eq!(wrong, [""; 0]);
}
