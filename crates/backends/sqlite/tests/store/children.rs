//! Tests that need other processes run themselves again as a child: the same test function, told by the environment to play a role.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

const ROLE: &str = "HOOKWRIGHT_TEST_ROLE";
/// Lines that a child says begin with this; the test harness of the child writes lines of its own.
const MARK: &str = "@@";

/// A child's part: which one, and where the store is.
pub(crate) struct Role {
    pub(crate) name: String,
    pub(crate) db: PathBuf,
}

/// The role that this process plays, if it is a child.
#[allow(clippy::disallowed_methods, reason = "a test binary hands arguments to itself only this way")]
pub(crate) fn role() -> Option<Role> {
    let role = std::env::var(ROLE).ok()?;
    let (name, db) = role.split_once('\n')?;
    Some(Role { name: name.to_owned(), db: db.into() })
}

/// Says a line to the parent.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{MARK}{line}").unwrap();
    out.flush().unwrap();
}

/// Waits for a line of the parent; ends the process when the parent is gone.
pub(crate) fn hear() -> String {
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line).unwrap() == 0 {
        std::process::exit(0);
    }
    line.trim().to_owned()
}

pub(crate) struct Child {
    pub(crate) process: std::process::Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Child {
    /// Runs the test `test` (with its module) again in a new process, in a role.
    pub(crate) fn start(test: &str, role: &str, db: &Path) -> Self {
        Self::start_with(test, role, db, |_| {})
    }

    pub(crate) fn start_with(test: &str, role: &str, db: &Path, more: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(ROLE, format!("{role}\n{}", db.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        more(&mut command);
        let mut process = command.spawn().unwrap();
        let (stdin, stdout) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
        Self { process, stdin, stdout }
    }

    /// Waits for the next line that the child says.
    pub(crate) fn hear(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the child ended without a word");
            if let Some(said) = line.trim().strip_prefix(MARK) {
                return said.to_owned();
            }
        }
    }

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// SIGKILL; returns when the process is gone.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits for its end, which must be a good one.
    pub(crate) fn end(mut self) {
        self.stdin = None;
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
