//! What to type next: every follow-up command that is printed is made here.
//!
//! Invariant: a printed command works as it stands in the current folder: it names the store where that is not the one found there
//! without being named, quoted for a POSIX shell.

use hookwright_core::text::escape;
use std::path::Path;

/// Makes follow-up commands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Next {
    /// How the program is started, where not by its name.
    program: Option<String>,
    /// The store, where it has to be named.
    db: Option<String>,
}

impl Next {
    /// Of a program that is started by `program` (none: by its name) and a store that has to be named (none: it is found).
    pub(crate) fn new(program: Option<&Path>, db: Option<&Path>) -> Self {
        let quoted = |path: &Path| escape(&quoted(&path.to_string_lossy()));
        Self { program: program.map(quoted), db: db.map(quoted) }
    }

    /// For commands that need no store.
    pub(crate) fn without_db(&self) -> Self {
        Self { db: None, ..self.clone() }
    }

    /// The command of these words, e.g. `jobs resume job_1`. Ids in them need no quotes.
    pub(crate) fn command(&self, words: &str) -> String {
        let program = self.program.as_deref().unwrap_or("hookwright");
        match &self.db {
            Some(db) => format!("{program} {words} --db {db}"),
            None => format!("{program} {words}"),
        }
    }
}

/// A word as a POSIX shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_not_found_by_itself_is_named_and_quoted() {
        assert_eq!(Next::default().command("jobs list"), "hookwright jobs list");
        let next = Next::new(None, Some(Path::new("a b/it's.db")));
        assert_eq!(next.command("jobs list"), r"hookwright jobs list --db 'a b/it'\''s.db'");
        let next = Next::new(Some(Path::new("target/debug/hookwright")), Some(Path::new("x/jobs.db")));
        assert_eq!(next.command("jobs list"), "target/debug/hookwright jobs list --db x/jobs.db");
        assert!(!Next::new(None, Some(Path::new("\u{1b}[2J"))).command("x").contains('\u{1b}'));
    }
}
