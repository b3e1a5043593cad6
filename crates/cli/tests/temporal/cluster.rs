//! A development server on loopback, and nodes of it.

use crate::support::{Finished, Plugin, Running, World, eventually};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

/// A server of its own for one test. Dropped, it is killed.
pub(crate) struct Cluster {
    server: Child,
    address: String,
    folder: tempfile::TempDir,
}

#[allow(clippy::disallowed_methods, reason = "the runner of the tests says where the program is")]
fn program() -> String {
    std::env::var("HOOKWRIGHT_TEST_TEMPORAL").expect("`cargo xtask test --temporal` sets HOOKWRIGHT_TEST_TEMPORAL")
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("t").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Command::new(program());
        server.args(["server", "start-dev", "--ip", "127.0.0.1", "--headless", "--log-level", "error"]);
        server.args(["--port", &port.to_string(), "--db-filename"]).arg(folder.path().join("temporal.db"));
        // Without these an activity on a node's queue takes 100 ms instead of 10.
        server.args(["--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000"]);
        server.args(["--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL"]);
        server.env("HOME", folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let cluster = Self { server: server.spawn().unwrap(), address: format!("127.0.0.1:{port}"), folder };
        eventually("the server answers", || cluster.temporal(&["operator", "cluster", "health"]));
        cluster
    }

    /// What the server's own command line says.
    pub(crate) fn temporal(&self, args: &[&str]) -> Option<String> {
        let mut command = Command::new(program());
        command.args(args).args(["--address", &self.address]).env("HOME", self.folder.path());
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    /// A folder with a plugin, its configuration and its store: a node's.
    pub(crate) fn node(&self, id: &str, plugin: Plugin) -> Node {
        let world = World::with(plugin);
        let config = json!({
            "tenants": [{"id": "default", "plugins": world.plugins()}],
            "store": "jobs.db",
            "engine": {"temporal": {"address": self.address, "node": id}},
        });
        world.write("hookwright.yaml", config.to_string());
        Node { world }
    }

    /// The events of a job's workflow.
    pub(crate) fn events(&self, job: &str) -> Vec<Value> {
        let shown = self.temporal(&["workflow", "show", "--workflow-id", job, "--output", "json"]).unwrap();
        serde_json::from_str::<Value>(&shown).unwrap()["events"].as_array().unwrap().clone()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

pub(crate) struct Node {
    pub(crate) world: World,
}

impl Node {
    /// A command of this node.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut all = args.to_vec();
        all.extend(["--config", "hookwright.yaml"]);
        self.world.hookwright(&all)
    }

    pub(crate) fn call(&self, args: &[&str]) -> Finished {
        Running::start(self.command(args)).finish()
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let mut all = args.to_vec();
        all.extend(["--output", "json"]);
        self.call(&all).code(0).json()
    }

    /// `hookwright run`, to be started.
    pub(crate) fn job(&self, more: &[&str]) -> Command {
        let mut args = vec!["run", "--input", "Do it.", "--output", "json"];
        args.extend(more);
        self.command(&args)
    }

    pub(crate) fn run(&self, more: &[&str]) -> Finished {
        Running::start(self.job(more)).finish()
    }

    /// The node, once it listens.
    pub(crate) fn serve(&self) -> Serving {
        let mut command = self.command(&["serve"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut serving = Serving(child);
        if !line.starts_with("listening") {
            let _ = serving.0.kill();
            let mut said = String::new();
            let _ = std::io::Read::read_to_string(&mut serving.0.stderr.take().unwrap(), &mut said);
            panic!("it does not serve: {line:?} {said}");
        }
        serving
    }

    /// The only job of the cluster.
    pub(crate) fn only_job(&self) -> String {
        eventually("a job is listed", || {
            let jobs = self.json(&["jobs", "list"]);
            Some(jobs["jobs"].as_array()?.first()?["job"].as_str()?.to_owned())
        })
    }

    /// A job, once it stands so.
    pub(crate) fn until(&self, job: &str, status: &str) -> Value {
        eventually(&format!("{job} is {status}"), || {
            let job = self.json(&["jobs", "show", job]);
            (job["status"] == status).then_some(job)
        })
    }

    /// The approval that waits, once one does.
    pub(crate) fn open_approval(&self) -> String {
        eventually("an approval waits", || {
            let list = self.json(&["approvals", "list"]);
            Some(list["approvals"].as_array()?.first()?["id"].as_str()?.to_owned())
        })
    }
}

/// A node at work. Dropped, it is killed, as by a power cut.
pub(crate) struct Serving(pub(crate) Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
