//! Runs of clients in the jail, and what came of them.

use crate::clients::{Client, PROMPT, Setup};
use crate::node::{Fake, Says};
use hookwright_bridge::{Call, Moment, Request, What};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// A client that has not ended by then is killed; its case fails.
const PATIENCE: Duration = Duration::from_mins(2);

/// Where things are.
pub(crate) struct Lab {
    pub(crate) clients: PathBuf,
    program: PathBuf,
    scripts: PathBuf,
    runs: tempfile::TempDir,
    port: AtomicU16,
    /// What Copilot unpacks when it is first started: unpacked once.
    unpacked: OnceLock<()>,
}

impl Lab {
    #[expect(clippy::disallowed_methods, reason = "the lab's own place is told by its caller")]
    pub(crate) fn open() -> Result<Self, String> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let clients = std::env::var_os("HOOKWRIGHT_TEST_CLIENTS")
            .map_or_else(|| here.join("../../.tools/clients"), PathBuf::from);
        let clients = std::fs::canonicalize(&clients).map_err(|e| format!("{}: {e}", clients.display()))?;
        let jail = Command::new("unshare").args(["--net", "--mount", "--pid", "--fork", "true"]).output();
        if !jail.is_ok_and(|output| output.status.success()) {
            return Err("clients run cut off from the world, and that needs root and `unshare`".to_owned());
        }
        // By its real path: clients tell files by theirs.
        let all = std::fs::canonicalize(std::env::temp_dir()).map_err(|e| e.to_string())?;
        let runs = tempfile::Builder::new().prefix("hw").tempdir_in(all).map_err(|e| e.to_string())?;
        Ok(Self {
            clients,
            program: PathBuf::from(env!("CARGO_BIN_EXE_hookwright")),
            scripts: std::fs::canonicalize(here.join("../testkit/lab")).map_err(|e| e.to_string())?,
            runs,
            port: AtomicU16::new(20_100),
            unpacked: OnceLock::new(),
        })
    }
}

/// One run of a client.
pub(crate) struct Run<'a> {
    lab: &'a Lab,
    pub(crate) client: Client,
    pub(crate) folder: PathBuf,
    /// The store that the installed configuration names.
    pub(crate) store: PathBuf,
    /// The program in the configuration.
    pub(crate) program: PathBuf,
    port: u16,
}

impl<'a> Run<'a> {
    pub(crate) fn new(lab: &'a Lab, client: Client, name: &str) -> Self {
        let short: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(24).collect();
        let port = lab.port.fetch_add(1, Ordering::Relaxed);
        let folder = lab.runs.path().join(format!("{port}-{}-{short}", client.harness().id()));
        for inner in ["home", "work", "tmp", "bin"] {
            std::fs::create_dir_all(folder.join(inner)).unwrap();
        }
        std::fs::copy(lab.scripts.join("model.py"), folder.join("model.py")).unwrap();
        std::fs::copy(lab.scripts.join("greeter.py"), folder.join("greeter.py")).unwrap();
        let program = folder.join("bin/hookwright");
        if std::fs::hard_link(&lab.program, &program).is_err() {
            std::fs::copy(&lab.program, &program).unwrap();
        }
        let run = Self { lab, client, store: folder.join("s.db"), program, port, folder };
        client.prepare(&run);
        if client == Client::CopilotCli {
            run.unpack();
        }
        run
    }

    pub(crate) fn clients(&self) -> &Path {
        &self.lab.clients
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A command in the jail.
    fn jailed(&self, words: &[String]) -> Output {
        let mut child = Command::new("bash")
            .arg(self.lab.scripts.join("jail.sh"))
            .arg(&self.folder)
            .args([&self.port.to_string(), "--"])
            .args(words)
            .env("JAIL_SHOW", &self.lab.clients)
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(self.folder.join("stdout")).unwrap())
            .stderr(std::fs::File::create(self.folder.join("stderr")).unwrap())
            .spawn()
            .unwrap();
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > until {
                let _ = child.kill();
                let _ = child.wait();
                panic!("the client has not ended: {}", self.told_by_client());
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let read = |name: &str| std::fs::read(self.folder.join(name)).unwrap();
        Output { status, stdout: read("stdout"), stderr: read("stderr") }
    }

    /// What the client printed, for messages of failed cases.
    pub(crate) fn told_by_client(&self) -> String {
        let tail = |name: &str| {
            let text = std::fs::read(self.folder.join(name)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            text.chars().skip(text.chars().count().saturating_sub(1500)).collect::<String>()
        };
        format!("{}\nstdout: {}\nstderr: {}", self.folder.display(), tail("stdout"), tail("stderr"))
    }

    /// Lays what Copilot unpacks into the home.
    fn unpack(&self) {
        let kept = self.lab.runs.path().join("unpacked");
        self.lab.unpacked.get_or_init(|| {
            self.scenario(&json!({"routes": []}));
            let mut words = self.client.environment(self);
            words.extend([self.client.path(self), "--version".to_owned()]);
            let _ = self.jailed(&words);
            std::fs::rename(self.folder.join("home/.cache"), &kept).unwrap();
        });
        let copied = Command::new("cp").arg("-al").arg(&kept).arg(self.folder.join("home/.cache")).status();
        assert!(copied.is_ok_and(|status| status.success()));
    }

    /// `hookwright install`, as a user runs it, with these further words.
    pub(crate) fn install(&self, more: &[&str]) -> String {
        self.scenario(&json!({"routes": []}));
        let mut words = self.client.environment(self);
        let path = self.client.search_path(self).map(|folder| format!("{}:", folder.display())).unwrap_or_default();
        words.push(format!("PATH={path}/usr/local/bin:/usr/bin:/bin"));
        words.push(self.program.display().to_string());
        words.extend(["install", self.client.harness().id(), "--db"].map(str::to_owned));
        words.push(self.store.display().to_string());
        words.extend(more.iter().map(|word| (*word).to_owned()));
        let output = self.jailed(&words);
        assert!(output.status.success(), "install failed: {}", self.told_by_client());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn scenario(&self, scenario: &Value) {
        std::fs::write(self.folder.join("scenario.json"), scenario.to_string()).unwrap();
        let _ = std::fs::remove_file(self.folder.join("model.jsonl"));
    }

    /// Lays the lab's hooks beside the run.
    fn policy(&self) -> PathBuf {
        let policy = self.folder.join("policy");
        std::fs::create_dir_all(&policy).unwrap();
        for name in ["plugin.yaml", "policy.py"] {
            std::fs::copy(self.lab.scripts.join("policy").join(name), policy.join(name)).unwrap();
        }
        policy
    }

    /// Runs a job of the agent `fixer` that this manifest declares, with the lab's hooks.
    pub(crate) fn agent(self, manifest: &Value, setup: &Setup, approve: &str) -> Ended<'a> {
        self.scenario(&setup.scenario());
        let (policy, team) = (self.policy(), self.folder.join("team"));
        std::fs::create_dir_all(&team).unwrap();
        std::fs::write(team.join("plugin.yaml"), manifest.to_string()).unwrap();
        let path = |path: &Path| path.display().to_string();
        let words =
            [path(&self.program), "run".into(), "--plugin".into(), path(&policy), "--plugin".into(), path(&team)];
        let more = ["--agent", "fixer", "--input", PROMPT, "--approve", approve, "--db"].map(str::to_owned);
        let environment = self.client.environment(&self);
        let words = environment.into_iter().chain(words).chain(more).chain([path(&self.store)]);
        let words: Vec<String> = words.collect();
        let begun = Instant::now();
        let output = self.jailed(&words);
        self.ended(&output, begun.elapsed(), vec![])
    }

    /// Starts the real node of the store, with the lab's hooks.
    pub(crate) fn real_node(&self) -> RealNode {
        let policy = self.policy();
        let mut child = Command::new(&self.program)
            .args(["serve", "--output", "json", "--plugin"])
            .arg(&policy)
            .arg("--db")
            .arg(&self.store)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(self.folder.join("node.log")).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("socket"), "the node did not start: {line}");
        RealNode(child)
    }

    /// What a command says in JSON; it must end well.
    pub(crate) fn ask_cli(&self, words: &[&str]) -> Value {
        let said = cli(&self.program, &self.store, words);
        assert!(!said.is_null() && said.get("error").is_none(), "{words:?}: {said}");
        said
    }

    /// The events that the lab's hook was asked about.
    pub(crate) fn events(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(self.folder.join("policy/events.jsonl")).unwrap_or_default();
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Runs the client beside whatever node there is.
    pub(crate) fn go_on(self, setup: &Setup) -> Ended<'a> {
        self.go(setup, None)
    }

    /// Runs the client against a model that does these turns, and a node that says this; none: there is none.
    pub(crate) fn go(self, setup: &Setup, says: Option<Says>) -> Ended<'a> {
        self.scenario(&setup.scenario());
        let fake = says.map(|says| Fake::start(&self.store, &self.folder.join("n.sock"), says));
        let begun = Instant::now();
        let words = self.client.command(&self, setup);
        let output = self.jailed(&words);
        let took = begun.elapsed();
        let asked = fake.map(Fake::end).unwrap_or_default();
        self.ended(&output, took, asked)
    }

    fn ended(self, output: &Output, took: Duration, asked: Vec<Request>) -> Ended<'a> {
        let log = std::fs::read_to_string(self.folder.join("model.jsonl")).unwrap_or_default();
        let bodies = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter_map(|line| line.get("body").cloned());
        let mut told = Vec::new();
        bodies.for_each(|body| told.push(strings(&body)));
        Ended { run: self, asked, told, took, code: output.status.code() }
    }
}

/// What a command says in JSON.
pub(crate) fn cli(program: &Path, store: &Path, words: &[&str]) -> Value {
    let output = Command::new(program).args(words).arg("--db").arg(store).stdin(Stdio::null()).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// The real node; it ends with the case.
pub(crate) struct RealNode(std::process::Child);

impl Drop for RealNode {
    fn drop(&mut self) {
        if let Some(id) = rustix::process::Pid::from_raw(self.0.id().cast_signed()) {
            let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

/// All texts in a value.
fn strings(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        Value::Array(items) => items.iter().map(strings).collect(),
        Value::Object(map) => map.values().map(strings).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// What came of a run.
pub(crate) struct Ended<'a> {
    pub(crate) run: Run<'a>,
    /// What the node was asked.
    pub(crate) asked: Vec<Request>,
    /// All texts of each request to the model.
    told: Vec<String>,
    pub(crate) took: Duration,
    pub(crate) code: Option<i32>,
}

impl Ended<'_> {
    /// A file in the client's folder.
    pub(crate) fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.run.folder.join("work").join(name)).ok()
    }

    /// What the program printed.
    pub(crate) fn printed(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.run.folder.join("stdout")).unwrap_or_default()).into_owned()
    }

    /// Whether the model was told that text.
    pub(crate) fn told(&self, text: &str) -> bool {
        self.told.iter().any(|told| told.contains(text))
    }

    /// How often the model was asked.
    pub(crate) fn turns(&self) -> usize {
        self.told.len()
    }

    /// Calls that the node was asked about before they were made.
    pub(crate) fn calls(&self) -> Vec<&Call> {
        let before = |request: &'_ Request| matches!(request.ask.what, What::Before { .. });
        self.asked.iter().filter(|request| before(request)).map(|request| call(&request.ask.what).unwrap()).collect()
    }

    /// How often that was asked about.
    pub(crate) fn count(&self, moment: Moment) -> usize {
        self.asked.iter().filter(|request| crate::node::moment(&request.ask.what) == moment).count()
    }

    /// For messages.
    pub(crate) fn story(&self) -> String {
        let asked: Vec<String> =
            self.asked.iter().map(|request| serde_json::to_string(&request.ask).unwrap()).collect();
        let asked: Vec<String> = asked.iter().map(|line| line.chars().take(400).collect()).collect();
        let last: String = self
            .told
            .last()
            .map(|told| told.chars().skip(told.chars().count().saturating_sub(600)).collect())
            .unwrap_or_default();
        format!(
            "code {:?}, took {:?}\nasked:\n{}\ntold last: {last}\n{}",
            self.code,
            self.took,
            asked.join("\n"),
            self.run.told_by_client()
        )
    }
}

fn call(what: &What) -> Option<&Call> {
    match what {
        What::Before { call } | What::After { call, .. } => Some(call),
        _ => None,
    }
}

impl Run<'_> {
    /// `hookwright uninstall`, as a user runs it.
    pub(crate) fn uninstall(&self) {
        let words = [&self.program.display().to_string(), "uninstall", self.client.harness().id()].map(str::to_owned);
        let output = self.jailed(&words);
        assert!(output.status.success(), "uninstall failed: {}", self.told_by_client());
    }

    /// What `install --scope managed` writes, laid over /etc in the jail: the machine's own /etc is left alone.
    pub(crate) fn install_managed(&self) {
        use hookwright_bridge::install::{Launch, Places, Scope, targets, with};
        let launch = Launch {
            program: self.program.clone(),
            store: self.store.clone(),
            tenant: None,
            escalate: hookwright_bridge::Escalate::Wait,
            deadline_s: None,
        };
        let places = Places {
            home: self.folder.join("home"),
            project: self.folder.join("work"),
            root: self.folder.clone(),
            config: None,
            claude: None,
            codex: None,
            copilot: None,
        };
        for target in targets(self.client.harness(), Scope::Managed, &places).unwrap() {
            std::fs::create_dir_all(target.path.parent().unwrap()).unwrap();
            std::fs::write(&target.path, with(self.client.harness(), &target, None, &launch).unwrap()).unwrap();
        }
    }

    /// What a user does who wants no hooks.
    pub(crate) fn switch_hooks_off(&self) {
        if matches!(self.client, Client::ClaudeCode | Client::AgentSdk) {
            let file = self.folder.join("home/.claude/settings.json");
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, r#"{"disableAllHooks": true}"#).unwrap();
        }
    }
}
