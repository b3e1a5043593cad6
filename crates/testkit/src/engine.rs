//! The engine conformance suite: one set of cases, mounted on each engine.
//!
//! A case knows an engine through [`Engine`] alone. It sets a [`Stage`] (plugins with scripted servers and models), has the engine run
//! jobs there, kills it where a crash is part of the case, and looks at three things: what servers were really called with, what the model was
//! told (its script's `expect`), and the records. What a case returns are normal histories ([`crate::history`]), which the mount compares
//! with those that stand in files: these are the same for all engines.
//!
//! A mount is a [`Mount`], and `hookwright_testkit::engine_suite!(mount)` in a file of tests. [`processes::Processes`] mounts the
//! `hookwright` program by its configuration alone, and so any engine that a configuration can name.

pub mod cases;
pub mod processes;
mod stage;

pub use stage::Stage;

use serde_json::Value;

/// What a case found, to be compared with what stands in files: names, and normal histories as lines.
pub type Found = Vec<(String, String)>;

/// A job to be begun.
#[derive(Debug, Clone, Copy)]
pub struct Begin<'a> {
    /// The agent.
    pub agent: &'a str,
    /// The input.
    pub input: &'a str,
    /// Where the process that runs it dies, as `crates/cli/src/work/crash.rs` has it: `after_commit:7`.
    pub dies_at: Option<&'a str>,
}

impl<'a> Begin<'a> {
    /// A job of this agent that is let run.
    pub fn agent(agent: &'a str) -> Self {
        Self { agent, input: "Do it.", dies_at: None }
    }

    /// With this input.
    pub fn input(self, input: &'a str) -> Self {
        Self { input, ..self }
    }

    /// Its process dies there.
    pub fn dies_at(self, point: &'a str) -> Self {
        Self { dies_at: Some(point), ..self }
    }
}

/// What a person is told of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    /// It counts.
    Counted,
    /// It does not, and why.
    Told(String),
}

/// How a job, and what runs it, stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stands {
    /// It runs, or waits.
    Runs,
    /// It is over.
    Over,
    /// What ran it is dead.
    Died,
}

/// An engine that runs jobs of one stage, outside of the test's process.
pub trait Engine: Sync {
    /// The stage.
    fn stage(&self) -> &Stage;

    /// Begins a job, and returns its id as soon as it is stored.
    fn begin(&mut self, begin: Begin<'_>) -> String;

    /// The jobs, oldest first, as `jobs list` gives them.
    fn jobs(&self) -> Vec<Value>;

    /// A job, as `jobs show` gives it.
    fn job(&self, job: &str) -> Value;

    /// A job's records.
    fn history(&self, job: &str) -> Vec<Value>;

    /// The approvals that wait, as `approvals list` gives them.
    fn open_approvals(&self) -> Vec<Value>;

    /// Decides one.
    fn decide(&self, approval: &str, approve: bool, by: &str, note: Option<&str>) -> Decided;

    /// Cancels a job.
    fn cancel(&self, job: &str, by: &str);

    /// Kills (SIGKILL) whatever runs jobs.
    fn kill(&mut self);

    /// Starts what runs jobs, after [`Engine::kill`] or where it died; it goes on with what is there. It may die at a point again.
    fn restart(&mut self, dies_at: Option<&str>);

    /// How a job stands now, and what runs it.
    fn stands(&mut self, job: &str) -> Stands;

    /// Asserts that all histories verify and replay.
    fn audit(&self);
}

/// Something that engines can be had of.
pub trait Mount: Sync {
    /// Why this engine can't be tested here; its cases are left out then, visibly.
    fn unfit(&self) -> Option<String>;

    /// A new stage.
    fn stage(&self) -> Stage;

    /// An engine on a stage that is set.
    fn open(&self, stage: Stage) -> Box<dyn Engine>;
}

/// Runs a case on a mount. `None` where the mount is unfit, which is said.
#[allow(clippy::print_stderr, reason = "what is left out is seen in the test's output")]
pub fn run(mount: &dyn Mount, name: &str, case: impl Fn(&dyn Mount) -> Found) -> Option<Found> {
    if let Some(why) = mount.unfit() {
        eprintln!("LEFT OUT {name}: {why}");
        return None;
    }
    Some(case(mount))
}

/// Waits until a job is over; its `jobs show`.
#[track_caller]
pub fn end(engine: &dyn Engine, job: &str) -> Value {
    // A row is had for less than what `jobs show` says of a long history.
    crate::process::eventually("the job is over", || {
        let over = engine.jobs().iter().any(|row| row["job"] == *job && is_over(row));
        over.then(|| engine.job(job))
    })
}

/// Waits until so many approvals wait; their ids by function (or moment, where there is none), in order.
#[track_caller]
pub fn approvals(engine: &dyn Engine, count: usize) -> Vec<(String, String)> {
    crate::process::eventually("approvals wait", || {
        let open = engine.open_approvals();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let about = |a: &Value| text(if a["tool"].is_string() { &a["tool"] } else { &a["event"] });
        let mut all: Vec<(String, String)> = open.iter().map(|a| (about(a), text(&a["id"]))).collect();
        all.sort();
        (all.len() >= count).then_some(all)
    })
}

/// Whether a `jobs show` or a row of `jobs list` is of a job that is over.
pub fn is_over(job: &Value) -> bool {
    ["completed", "failed", "cancelled"].iter().any(|status| job["status"] == *status)
}

/// Says yes to whatever waits until a job is over, or what runs it is dead. Whether it is over.
#[track_caller]
pub fn approve_all(engine: &mut dyn Engine, job: &str) -> bool {
    crate::process::eventually("the job is over, or what runs it is dead", || match engine.stands(job) {
        Stands::Over => Some(true),
        Stands::Died => Some(false),
        Stands::Runs => {
            for approval in engine.open_approvals() {
                engine.decide(approval["id"].as_str().unwrap_or_default(), true, "Ada", None);
            }
            None
        }
    })
}

/// The normal histories of these jobs, as one text.
pub fn normal(engine: &dyn Engine, jobs: &[&str]) -> String {
    let histories: Vec<Vec<Value>> = jobs.iter().map(|job| engine.history(job)).collect();
    let normal = crate::history::normal(&histories);
    normal.iter().map(|records| crate::history::lines(records)).collect::<Vec<_>>().join("\n")
}

/// One test for each case. `$mount` is an expression of a [`Mount`]; histories are compared with `snapshots` by insta.
#[macro_export]
macro_rules! engine_suite {
    ($mount:expr) => {
        $crate::engine_suite!(@each $mount;
            answers::{calls, starts_and_ends}
            parallel::{one_denied_one_modified_one_waits_one_runs}
            approvals::{yes_no_and_expiry, restarts_in_between, decided_while_nothing_runs, decided_twice, cancelled_while_it_waits}
            crashes::{after_each_record, calls_under_way}
            manifests::{changed_while_a_job_runs}
            values::{large_ones, beyond_a_message}
            long::{a_thousand_turns}
            children::{a_tree, cancelled_as_a_tree}
            unicode::{everywhere}
            lifecycle::{points_of_a_job}
        );
    };
    (@each $mount:expr; $($module:ident::{$($case:ident),*})*) => {
        $(mod $module {
            $(#[test]
            fn $case() {
                let mount = $mount;
                let name = concat!(stringify!($module), "::", stringify!($case));
                let found = $crate::engine::run(&mount, name, $crate::engine::cases::$module::$case);
                for (name, history) in found.into_iter().flatten() {
                    insta::assert_snapshot!(format!("{}__{}__{name}", stringify!($module), stringify!($case)), history);
                }
            })*
        })*
    };
}
