//! Programs that tests start: in one folder, with a clean environment, and ended with whoever started them.
//!
//! Invariant: a process that is dropped is killed and waited for.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up: the machine may be busy.
pub const PATIENCE: Duration = Duration::from_mins(3);

/// Waits until something is there.
///
/// # Panics
/// Where it never is.
#[track_caller]
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "it never happened: {what}");
        std::thread::sleep(Duration::from_millis(40));
    }
}

/// A program, the folder in which it runs, and where what it says goes.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// Its current folder; below it stand its home, and the files with what processes said.
    pub folder: PathBuf,
}

/// How a process ended, and what it said.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cut = |text: &str| text.chars().take(8_000).collect::<String>();
        write!(f, "{}\n--- stdout\n{}\n--- stderr\n{}", self.status, cut(&self.out), cut(&self.err))
    }
}

impl Ended {
    /// Standard output as JSON.
    ///
    /// # Panics
    /// Where it is none.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        match serde_json::from_str(&self.out) {
            Ok(value) => value,
            Err(e) => panic!("{e}\n{self}"),
        }
    }

    /// Asserts the exit code.
    ///
    /// # Panics
    /// Where it is another.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self}");
        self
    }
}

impl Program {
    /// The command, to be started.
    #[allow(clippy::disallowed_methods, reason = "programs that tests start are found by PATH")]
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        let home = self.folder.join("home");
        command
            .args(args)
            .current_dir(&self.folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// Where it can't be started, or panics itself.
    #[track_caller]
    pub fn call(&self, args: &[&str]) -> Ended {
        let output = match self.command(args).output() {
            Ok(output) => output,
            Err(e) => panic!("{} can't be started: {e}", self.path.display()),
        };
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let ended = Ended { status: output.status, out: text(output.stdout), err: text(output.stderr) };
        assert!(!ended.err.contains("panicked"), "{args:?}\n{ended}");
        ended
    }

    /// Starts it. What it says goes to `NAME.out` and `NAME.err` in the folder, behind what stands there.
    ///
    /// # Panics
    /// Where it can't be started.
    #[track_caller]
    pub fn start(&self, name: &str, args: &[&str], variables: &[(&str, &str)]) -> Process {
        let file = |end: &str| {
            let path = self.folder.join(format!("{name}.{end}"));
            File::options().create(true).append(true).open(path)
        };
        let mut command = self.command(args);
        command.envs(variables.iter().copied());
        let started = file("out")
            .and_then(|out| Ok((out, file("err")?)))
            .and_then(|(out, err)| command.stdout(out).stderr(err).spawn());
        match started {
            Ok(child) => Process { child, err: self.folder.join(format!("{name}.err")) },
            Err(e) => panic!("{} can't be started: {e}", self.path.display()),
        }
    }
}

/// A process under way. Dropped, it is killed.
#[derive(Debug)]
pub struct Process {
    child: Child,
    err: PathBuf,
}

impl Process {
    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, where it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        eventually("the process ends", || self.ended())
    }

    /// SIGKILL, as a power cut.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// What it, and others of its name, wrote to standard error.
    pub fn said(&self) -> String {
        said(&self.err)
    }
}

/// The text of a file that processes write to; nothing where there is none.
pub fn said(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
