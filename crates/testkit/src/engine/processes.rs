//! A mount of the `hookwright` program: jobs are run by processes of it, as its configuration says, and looked at through its commands.
//!
//! Another engine is another value under the configuration's `engine`, and whatever has to run beside it.

use super::{Begin, Decided, Engine, Mount, Stage, Stands, is_over};
use crate::plugin::Place as _;
use crate::process::{Ended, Process, Program, eventually};
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Builds with debug assertions die where this says.
pub const CRASH_AT: &str = "HOOKWRIGHT_TEST_CRASH_AT";

/// Engines of the `hookwright` program.
#[derive(Debug, Clone)]
pub struct Processes {
    /// The program.
    pub program: PathBuf,
    /// Where stages are.
    pub base: PathBuf,
    /// What stands under `engine` in the configuration; nothing: the default engine.
    pub engine: Value,
}

impl Mount for Processes {
    fn unfit(&self) -> Option<String> {
        if self.engine.is_null() {
            return None;
        }
        // Whether this build has the engine: it reads the configuration, and finds nothing else there.
        let stage = self.stage();
        let program = Program { path: self.program.clone(), folder: stage.folder().to_owned() };
        stage.configure(&self.engine);
        let checked = program.call(&["check", "--config", "hookwright.yaml", "--output", "json"]);
        (!checked.status.success()).then(|| format!("this build has not the engine {}:\n{checked}", self.engine))
    }

    fn stage(&self) -> Stage {
        Stage::below(&self.base)
    }

    fn open(&self, stage: Stage) -> Box<dyn Engine> {
        stage.configure(&self.engine);
        let program = Program { path: self.program.clone(), folder: stage.folder().to_owned() };
        Box::new(Running { mount: self.clone(), program, runs: vec![], node: None, stage })
    }
}

/// The processes of one stage: a `run` for each job that was begun, and a node from the first restart on.
struct Running {
    mount: Processes,
    program: Program,
    runs: Vec<Process>,
    node: Option<Process>,
    stage: Stage,
}

impl Running {
    fn call(&self, args: &[&str]) -> Ended {
        self.program.call(&[args, &["--config", "hookwright.yaml"]].concat())
    }

    fn json(&self, args: &[&str]) -> Value {
        self.call(&[args, &["--output", "json"]].concat()).code(0).json()
    }

    /// The list under a key; none where there is no store yet.
    fn list(&self, args: &[&str], key: &str) -> Vec<Value> {
        let ended = self.call(&[args, &["--output", "json"]].concat());
        if !ended.status.success() {
            return vec![];
        }
        ended.json()[key].as_array().cloned().unwrap_or_default()
    }
}

impl Engine for Running {
    fn stage(&self) -> &Stage {
        &self.stage
    }

    fn begin(&mut self, begin: Begin<'_>) -> String {
        // Manifests and scripts may have changed since.
        self.stage.configure(&self.mount.engine);
        let known = self.jobs().len();
        let args = [
            "run",
            "--config",
            "hookwright.yaml",
            "--agent",
            begin.agent,
            "--input",
            begin.input,
            "--approve",
            "wait",
            "--output",
            "json",
        ];
        let variables: Vec<(&str, &str)> = begin.dies_at.iter().map(|point| (CRASH_AT, *point)).collect();
        let mut process = self.program.start("run", &args, &variables);
        let job = eventually("the job is stored", || {
            let over = process.ended().is_some();
            let jobs = self.jobs();
            let new = jobs[known..].iter().find(|job| job["agent"] == begin.agent && job.get("parent_job").is_none());
            assert!(new.is_some() || !over, "it ended without a job: {}", process.said());
            new.map(|job| job["job"].as_str().unwrap_or_default().to_owned())
        });
        self.runs.push(process);
        job
    }

    fn jobs(&self) -> Vec<Value> {
        let mut jobs = self.list(&["jobs", "list", "--limit", "10000"], "jobs");
        jobs.reverse();
        jobs
    }

    fn job(&self, job: &str) -> Value {
        self.json(&["jobs", "show", job])
    }

    fn history(&self, job: &str) -> Vec<Value> {
        self.json(&["jobs", "history", job])["history"].as_array().cloned().unwrap_or_default()
    }

    fn open_approvals(&self) -> Vec<Value> {
        self.list(&["approvals", "list"], "approvals")
    }

    fn decide(&self, approval: &str, approve: bool, by: &str, note: Option<&str>) -> Decided {
        let word = if approve { "approve" } else { "deny" };
        let mut args = vec!["approvals", word, approval, "--as", by];
        args.extend(note.into_iter().flat_map(|note| ["--note", note]));
        let ended = self.call(&args);
        match ended.status.code() {
            Some(0) => Decided::Counted,
            Some(1) => Decided::Told(ended.err),
            _ => panic!("{ended}"),
        }
    }

    fn cancel(&self, job: &str, by: &str) {
        self.call(&["jobs", "cancel", job, "--as", by]).code(0);
    }

    fn kill(&mut self) {
        for process in self.runs.iter_mut().chain(&mut self.node) {
            process.kill();
        }
        self.runs.clear();
        self.node = None;
    }

    fn restart(&mut self, dies_at: Option<&str>) {
        self.kill();
        let variables: Vec<(&str, &str)> = dies_at.iter().map(|point| (CRASH_AT, *point)).collect();
        let mut node = self.program.start("node", &["serve", "--config", "hookwright.yaml"], &variables);
        eventually("the node answers", || {
            let over = node.ended().is_some();
            assert!(!over || dies_at.is_some(), "{}", node.said());
            let status = self.call(&["status", "--output", "json"]);
            (over || serde_json::from_str::<Value>(&status.out).ok()?["node"]["pid"] == json!(node.pid())).then_some(())
        });
        self.node = Some(node);
    }

    fn stands(&mut self, job: &str) -> Stands {
        let run = self.node.is_none();
        let process = if run { self.runs.last_mut() } else { self.node.as_mut() };
        let killed = |status: ExitStatus| status.signal() == Some(9);
        match process.and_then(Process::ended) {
            Some(status) if killed(status) => Stands::Died,
            // A job's own process has things to write after its end.
            None if run => Stands::Runs,
            Some(_) | None if self.jobs().iter().any(|row| row["job"] == *job && is_over(row)) => Stands::Over,
            Some(status) => panic!("what runs {job} ended with {status}, and it is not over"),
            None => Stands::Runs,
        }
    }

    fn audit(&self) {
        self.call(&["audit", "verify"]).code(0);
        for job in self.jobs() {
            self.call(&["replay", job["job"].as_str().unwrap_or_default()]).code(0);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}
