//! A world for one test: a folder, plugins with scripted servers, and `hookwright` processes with a clean environment.

pub(crate) use hookwright_testkit::plugin::{Plugin, exactly, function, says};

use hookwright_testkit::plugin::Place;
use serde_json::Value;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything may take before a test gives up: the machine may be busy.
const PATIENCE: Duration = Duration::from_mins(2);

/// A folder of its own, in which everything of a test happens.
pub(crate) struct World {
    folder: TempDir,
    plugins: RefCell<Vec<String>>,
}

impl Place for World {
    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn installed(&self, plugin: &str) {
        let mut plugins = self.plugins.borrow_mut();
        if !plugins.iter().any(|known| known == plugin) {
            plugins.push(plugin.to_owned());
        }
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("w").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for name in ["home", "config"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder, plugins: RefCell::default() }
    }

    /// A world with one plugin.
    pub(crate) fn with(plugin: Plugin) -> Self {
        let world = Self::new();
        plugin.save(&world);
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// `hookwright` in the world's folder, with an environment that holds nothing of the tester's but PATH.
    pub(crate) fn hookwright<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hookwright"));
        command.args(args);
        self.settle(&mut command);
        command
    }

    /// The world's folder and clean environment, for any program.
    #[allow(clippy::disallowed_methods, reason = "programs that tests start are found by PATH")]
    pub(crate) fn settle(&self, command: &mut Command) {
        command
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null());
    }

    /// Runs `hookwright` to its end.
    pub(crate) fn call(&self, args: &[&str]) -> Finished {
        Running::start(self.hookwright(args)).finish()
    }

    /// `hookwright run` of the world's plugins with a JSON result, to be started.
    pub(crate) fn job(&self, more: &[&str]) -> Command {
        let mut args = vec!["run", "--db", "jobs.db"];
        for default in [["--output", "json"], ["--input", "Do it."]] {
            if !more.contains(&default[0]) {
                args.extend(default);
            }
        }
        let plugins = self.plugins.borrow();
        args.extend(plugins.iter().flat_map(|p| ["--plugin", p.as_str()]));
        args.extend(more);
        self.hookwright(&args)
    }

    /// `hookwright run` of the world's plugins with a JSON result, to its end.
    pub(crate) fn run(&self, more: &[&str]) -> Finished {
        Running::start(self.job(more)).finish()
    }

    /// Folders of the world's plugins, in install order.
    pub(crate) fn plugins(&self) -> Vec<String> {
        self.plugins.borrow().clone()
    }

    /// The messages that a tool's server got, in order.
    pub(crate) fn messages(&self, tool: &str) -> Vec<Value> {
        let text = std::fs::read(self.path(&format!("{tool}.log"))).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The calls that a tool's server got: function and arguments.
    pub(crate) fn calls(&self, tool: &str) -> Vec<(String, Value)> {
        let calls = self.messages(tool).into_iter().filter(|m| m["method"] == "tools/call");
        calls.map(|m| (m["params"]["name"].as_str().unwrap().to_owned(), m["params"]["arguments"].clone())).collect()
    }

    /// Whether a tool's server was told that a request is cancelled.
    pub(crate) fn was_cancelled(&self, tool: &str) -> bool {
        self.messages(tool).iter().any(|m| m["method"] == "notifications/cancelled")
    }

    /// The approvals that wait, as soon as there are some.
    pub(crate) fn open_approvals(&self) -> Vec<Value> {
        eventually("an approval waits", || {
            if !self.path("jobs.db").exists() {
                return None;
            }
            let found = self.call(&["approvals", "list", "--db", "jobs.db", "--output", "json"]);
            if !found.status.success() {
                // The store is being made at this moment.
                return None;
            }
            let list = found.json()["approvals"].as_array()?.clone();
            (!list.is_empty()).then_some(list)
        })
    }

    /// The id of the one approval that waits, as soon as it does.
    pub(crate) fn open_approval(&self) -> String {
        self.open_approvals()[0]["id"].as_str().unwrap().to_owned()
    }
}

/// Waits until something is there.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "it never happened: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process lives (a zombie does not).
pub(crate) fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

/// A `hookwright` process under way. Dropped, it is killed.
pub(crate) struct Running {
    child: Child,
    what: String,
    out: Option<JoinHandle<Vec<u8>>>,
    err: Option<JoinHandle<Vec<u8>>>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self { child, what: format!("{command:?}"), out: Some(drain(out)), err: Some(drain(err)) }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Where its standard input is a pipe.
    pub(crate) fn stdin(&mut self) -> Option<std::process::ChildStdin> {
        self.child.stdin.take()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub(crate) fn finish(mut self) -> Finished {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > PATIENCE {
                let _ = self.child.kill();
                let err = String::from_utf8_lossy(&self.err.take().unwrap().join().unwrap()).into_owned();
                panic!("it did not end: {}\n{err}", self.what);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let read = |thread: Option<JoinHandle<Vec<u8>>>| thread.unwrap().join().unwrap();
        let (out, err) = (read(self.out.take()), read(self.err.take()));
        let finished = Finished {
            status,
            out: String::from_utf8_lossy(&out).into_owned(),
            err: String::from_utf8_lossy(&err).into_owned(),
        };
        for sign in ["panicked", "stack backtrace", "RUST_BACKTRACE"] {
            assert!(!finished.err.contains(sign), "{}\n{finished}", self.what);
        }
        finished
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn drain(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = vec![];
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

/// How a process ended and what it wrote.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out: String = self.out.chars().take(6_000).collect();
        if out.len() < self.out.len() {
            let tail: Vec<char> = self.out.chars().rev().take(2_000).collect();
            let _ = write!(out, "\n…\n{}", tail.into_iter().rev().collect::<String>());
        }
        write!(f, "{}\n--- stdout\n{out}\n--- stderr\n{}", self.status, self.err)
    }
}

impl Finished {
    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self}");
        self
    }

    /// Standard output as JSON: one value and nothing else.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}\n{self}"))
    }

    /// The records of a kind in a result's history.
    #[track_caller]
    pub(crate) fn records(&self, kind: &str) -> Vec<Value> {
        let result = self.json();
        result["history"].as_array().unwrap().iter().filter(|r| r["kind"] == kind).cloned().collect()
    }

    /// Asserts that standard error says all of this.
    #[track_caller]
    pub(crate) fn tells(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.err.contains(part), "{part:?} is missing\n{self}");
        }
        self
    }
}

/// The path of a file of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}
