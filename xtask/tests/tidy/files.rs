//! What tracked files may not hold, and how long they may be.

use crate::repository::{extension, files, root, text};

/// Marks of unfinished work, split so that this file does not hold them.
const MARKS: [&str; 7] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("<<<<", "<<< "),
    concat!("db", "g!("),
    concat!("#[ig", "nore"),
    concat!("lorem ", "ipsum"),
];
/// Folders of single machines.
const MACHINES: [&str; 5] = [
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/tmp", "/wt"),
    concat!("/Us", "ers/"),
    concat!("C:\\Us", "ers"),
];
/// Lines of a Rust file: a reading, and what is refused.
const LINES: (usize, usize) = (300, 700);
/// Bytes of any tracked file.
const BYTES: u64 = 1024 * 1024;

/// Whether a person or a generator of ours writes it.
fn is_ours(file: &str) -> bool {
    let foreign = [".jsonl", ".lock", "package-lock.json", "constraints.txt"];
    !foreign.iter().any(|end| file.ends_with(end))
}

fn held(text: &str) -> Vec<&'static str> {
    let marks = MARKS.iter().filter(|mark| text.contains(**mark));
    // `.demo/work/x` is no path of a machine: the folder does not stand at the root.
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

#[test]
fn files_are_small() {
    let mut wrong = Vec::new();
    for file in files() {
        if root().join(&file).metadata().unwrap().len() > BYTES {
            wrong.push(format!("{file}: over {BYTES} bytes"));
        }
        let lines = if extension(&file) == "rs" { text(&file).unwrap_or_default().lines().count() } else { 0 };
        if lines > LINES.1 {
            wrong.push(format!("{file}: {lines} lines, at most {}", LINES.1));
        } else if lines > LINES.0 {
            eprintln!("{file}: {lines} lines; aim at {}", LINES.0);
        }
    }
    assert_eq!(wrong, [""; 0]);
}
