//! The run: jobs come, people decide, and whatever runs jobs is killed, all at random times of a seed.

use super::check::{self, Decision, Violation};
use super::fleet::{Fleet, Member};
use super::plan::{self, Rng};
use super::seen;
use crate::engine::processes::{CRASH_AT, Processes};
use crate::engine::{Mount as _, Stage, is_over};
use crate::plugin::Place as _;
use crate::process::{Process, Program, said};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long jobs may take that are left when nothing is killed any more.
const REST: Duration = Duration::from_mins(5);

/// What is done.
#[derive(Debug, Clone)]
pub struct Options {
    /// Jobs, times of kills, and what people decide follow from it.
    pub seed: u64,
    /// How many jobs.
    pub jobs: usize,
    /// How long processes are killed.
    pub time: Duration,
    /// How long a node lives, at most.
    pub longest: Duration,
}

/// What came of it.
#[derive(Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// One line, for people.
    pub line: String,
    /// What must not be.
    pub violations: Vec<Violation>,
    /// What `audit verify` and `replay` found, and processes that ended by themselves.
    pub faults: Vec<String>,
}

/// Runs it on a stage of the mount.
pub fn run(mount: &Processes, options: &Options) -> Report {
    let start = Instant::now();
    let mut rng = Rng::new(options.seed);
    let stage = mount.stage();
    plan::plugin(&stage, options.jobs, &mut rng).save(&stage);
    stage.configure(&mount.engine);
    let program = Program { path: mount.program.clone(), folder: stage.folder().to_owned() };
    let node = Member::new("node", program.clone(), &["serve", "--config", "hookwright.yaml"]);
    let chaos = Chaos {
        program,
        stage,
        decisions: Mutex::default(),
        all_over: AtomicBool::new(false),
        servers_killed: AtomicU32::new(0),
    };
    let mut fleet = Fleet::new(vec![node]);
    fleet.start_all();
    let mut jobs = Jobs::new(options, rng.clone());
    let mut faults: Vec<String> = std::thread::scope(|scope| {
        for person in 0..2 {
            let (chaos, rng) = (&chaos, Rng::new(options.seed ^ (person + 1)));
            scope.spawn(move || chaos.decides(rng));
        }
        let faults = chaos.kills(options, rng, &mut fleet, &mut jobs);
        chaos.all_over.store(true, Ordering::SeqCst);
        faults
    });
    fleet.stop();
    faults.append(&mut fleet.ended);
    faults.append(&mut jobs.faults);
    let decisions = chaos.decisions.into_inner().unwrap_or_else(PoisonError::into_inner);
    let seen = seen::collect(&chaos.program, &chaos.stage, decisions, &mut faults);
    let first = seen.jobs.iter().filter(|job| !job.is_child()).count();
    if first != options.jobs {
        faults.push(format!("{first} jobs, and {} were begun", options.jobs));
    }
    let violations = check::check(&seen);
    let line = format!(
        "seed {}: {}; {} kills of nodes, {} of other processes that run jobs, {} of servers; {:.0} s, {} violations, {} faults",
        options.seed,
        seen::tally(&seen),
        fleet.kills,
        jobs.killed,
        chaos.servers_killed.load(Ordering::SeqCst),
        start.elapsed().as_secs_f64(),
        violations.len(),
        faults.len(),
    );
    Report { seed: options.seed, line, violations, faults }
}

struct Chaos {
    program: Program,
    stage: Stage,
    decisions: Mutex<Vec<Decision>>,
    all_over: AtomicBool,
    servers_killed: AtomicU32,
}

impl Chaos {
    /// Lets jobs begin and kills things for the time that is given, then waits for all jobs.
    fn kills(&self, options: &Options, mut rng: Rng, fleet: &mut Fleet, jobs: &mut Jobs) -> Vec<String> {
        let start = Instant::now();
        let longest = u64::try_from(options.longest.as_millis()).unwrap_or(u64::MAX);
        let mut next = start + Duration::from_millis(rng.below(longest));
        let mut back = start;
        while start.elapsed() < options.time || !jobs.are_begun() {
            let now = Instant::now();
            if now >= back {
                fleet.start_all();
            }
            if now >= next && start.elapsed() < options.time {
                let dice = rng.below(100);
                if dice < 12 {
                    jobs.resume(self);
                } else if dice < 18 {
                    self.kills_server(&mut rng);
                } else if dice < 24 {
                    self.cancels(&mut rng);
                } else if dice < 78 {
                    let at = rng.below(fleet.len() as u64) as usize;
                    fleet.kill(at);
                    back = now + Duration::from_millis(rng.pick(&[0, 0, 100, 700]));
                } else {
                    jobs.kill(&mut rng);
                }
                next = now + Duration::from_millis(rng.below(longest));
            }
            jobs.go_on(self, start.elapsed());
            std::thread::sleep(Duration::from_millis(20));
        }
        let end = Instant::now() + REST;
        let mut faults = vec![];
        loop {
            fleet.start_all();
            let left: Vec<Value> = self.jobs().into_iter().filter(|job| !is_over(job)).collect();
            jobs.go_on(self, options.time);
            if left.is_empty() && jobs.running.is_empty() && jobs.resuming.is_empty() {
                return faults;
            }
            if Instant::now() > end {
                let status = self.call(&["status"]);
                faults.push(format!("{} jobs are not over: {left:?}\n{status}", left.len()));
                return faults;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    fn call(&self, args: &[&str]) -> crate::process::Ended {
        self.program.call(&[args, &["--config", "hookwright.yaml"]].concat())
    }

    fn list(&self, args: &[&str], key: &str) -> Vec<Value> {
        let listed = self.call(&[args, &["--output", "json"]].concat());
        let value: Option<Value> = serde_json::from_str(&listed.out).ok();
        value.and_then(|value| value[key].as_array().cloned()).unwrap_or_default()
    }

    fn jobs(&self) -> Vec<Value> {
        self.list(&["jobs", "list", "--limit", "100000"], "jobs")
    }

    /// Kills the server that was started last.
    fn kills_server(&self, rng: &mut Rng) {
        let number = said(&self.stage.path(rng.pick(&plan::SERVERS)));
        let Ok(number) = number.trim().parse::<i32>() else { return };
        // The number may be another program's by now.
        let command = said(std::path::Path::new(&format!("/proc/{number}/cmdline")));
        let folder = self.stage.folder().to_string_lossy();
        if command.contains("scripted-mcp")
            && command.contains(&*folder)
            && let Some(pid) = rustix::process::Pid::from_raw(number)
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            self.servers_killed.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Somebody cancels a job.
    fn cancels(&self, rng: &mut Rng) {
        let left: Vec<Value> = self.jobs().into_iter().filter(|job| !is_over(job)).collect();
        if !left.is_empty() {
            let job = &left[rng.below(left.len() as u64) as usize];
            // It may end by itself first.
            self.call(&["jobs", "cancel", job["job"].as_str().unwrap_or_default(), "--as", "Eve"]);
        }
    }

    /// A person who decides whatever waits: once, twice, or both ways at once.
    fn decides(&self, mut rng: Rng) {
        while !self.all_over.load(Ordering::SeqCst) {
            let open = self.list(&["approvals", "list"], "approvals");
            let ids: Vec<&str> = open.iter().filter_map(|approval| approval["id"].as_str()).collect();
            if ids.is_empty() {
                std::thread::sleep(Duration::from_millis(150));
                continue;
            }
            for _ in 0..4 {
                let id = rng.pick(&ids);
                let yes = rng.percent(70);
                let says: &[bool] = match rng.below(4) {
                    0 => &[yes, yes],
                    1 => &[yes, !yes],
                    _ => &[yes],
                };
                let by = rng.pick(&["Ada", "Bob", "Eve"]);
                std::thread::scope(|scope| {
                    for approve in says {
                        scope.spawn(move || self.decide(id, *approve, by));
                    }
                });
            }
        }
    }

    fn decide(&self, id: &str, approve: bool, by: &str) {
        let word = if approve { "approve" } else { "deny" };
        let told = self.call(&["approvals", word, id, "--as", by]);
        let counted = match told.status.code() {
            Some(0) => true,
            Some(1) => false,
            _ => panic!("{told}"),
        };
        let decision = Decision { approval: id.to_owned(), approve, by: by.to_owned(), counted };
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner).push(decision);
    }
}

/// The jobs that are begun one after the other, by processes of their own that may be killed.
struct Jobs {
    rng: Rng,
    count: usize,
    /// How long it takes until all have been begun.
    time: Duration,
    begun: usize,
    running: Vec<(usize, Process)>,
    /// Processes that go on with whatever nobody runs, beside the node.
    resuming: Vec<Process>,
    /// To be begun anew: the process died before the job was stored.
    again: Vec<usize>,
    killed: u32,
    faults: Vec<String>,
}

/// Jobs that are being begun at once.
const AT_ONCE: usize = 4;

impl Jobs {
    fn new(options: &Options, rng: Rng) -> Self {
        let time = options.time.mul_f64(0.8);
        Self {
            rng,
            count: options.jobs,
            time,
            begun: 0,
            running: vec![],
            resuming: vec![],
            again: vec![],
            killed: 0,
            faults: vec![],
        }
    }

    fn are_begun(&self) -> bool {
        self.begun == self.count && self.again.is_empty()
    }

    /// Kills one of those that run jobs beside the node.
    fn kill(&mut self, rng: &mut Rng) {
        let running = self.running.iter_mut().map(|(_, process)| process);
        let mut all: Vec<&mut Process> = running.chain(&mut self.resuming).collect();
        if !all.is_empty() {
            let at = rng.below(all.len() as u64) as usize;
            all[at].kill();
        }
    }

    /// Starts one that competes with the node.
    fn resume(&mut self, chaos: &Chaos) {
        let args = ["jobs", "resume", "--all", "--detach", "--config", "hookwright.yaml"];
        self.resuming.push(chaos.program.start("resume", &args, &[]));
    }

    fn go_on(&mut self, chaos: &Chaos, elapsed: Duration) {
        let mut at = 0;
        while at < self.running.len() {
            let Some(status) = self.running[at].1.ended() else {
                at += 1;
                continue;
            };
            let (job, process) = self.running.swap_remove(at);
            match status.code() {
                // Over, failed by a hook or a person, left to whoever decides, or cancelled.
                Some(0 | 3 | 4 | 130) => {}
                Some(code) => {
                    self.faults.push(format!("the process that began job {job} ended with {code}: {}", process.said()));
                }
                None => {
                    self.killed += 1;
                    let agent = plan::agent(job);
                    if !chaos.jobs().iter().any(|row| row["agent"] == agent) {
                        self.again.push(job);
                    }
                }
            }
        }
        self.resuming.retain_mut(|process| match process.ended() {
            None => true,
            Some(status) => {
                match status.code() {
                    // Somebody else may have been faster.
                    Some(0 | 1 | 3 | 4 | 130) => {}
                    Some(code) => self.faults.push(format!("jobs resume --all ended with {code}: {}", process.said())),
                    None => self.killed += 1,
                }
                false
            }
        });
        let (begun, count) =
            (u32::try_from(self.begun).unwrap_or(u32::MAX), u32::try_from(self.count).unwrap_or(u32::MAX));
        let due = self.time * begun / count.max(1);
        while self.running.len() < AT_ONCE {
            let job = match self.again.pop() {
                Some(job) => job,
                None if self.begun < self.count && due <= elapsed => {
                    self.begun += 1;
                    self.begun - 1
                }
                None => break,
            };
            let point = format!("after_commit:{}", self.rng.below(12));
            let variables = [(CRASH_AT, point.as_str())];
            // A third dies at a commit of its own, and leaves the job to the node.
            let dies = if self.rng.percent(33) { &variables[..] } else { &[] };
            let (agent, input) = (plan::agent(job), plan::input(&mut self.rng));
            let args = [
                "run",
                "--config",
                "hookwright.yaml",
                "--agent",
                &agent,
                "--input",
                input,
                "--detach",
                "--output",
                "json",
            ];
            self.running.push((job, chaos.program.start(&format!("run-{job}"), &args, dies)));
        }
    }
}

/// What the node said last, for whoever looks for a fault.
pub(super) fn last_words(stage: &Stage) -> String {
    let said = said(&stage.path("node.err"));
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
