//! Processes that are killed and started again: a node now, more of them and a server beside them later.
//!
//! Invariant: a member is down only between [`Fleet::kill`] and [`Fleet::start`]; whatever ended by itself is started again and counted.

use crate::process::{Process, Program, eventually};

/// One process that there always is, but while it is killed.
#[derive(Debug)]
pub struct Member {
    /// Its name, and that of the files with what it says.
    pub name: String,
    /// The program.
    pub program: Program,
    /// Its arguments.
    pub args: Vec<String>,
    process: Option<Process>,
}

impl Member {
    /// One that is started later.
    pub fn new(name: &str, program: Program, args: &[&str]) -> Self {
        Self { name: name.to_owned(), program, args: args.iter().map(|arg| (*arg).to_owned()).collect(), process: None }
    }
}

/// All that can be killed.
#[derive(Debug, Default)]
pub struct Fleet {
    members: Vec<Member>,
    /// How often one was killed.
    pub kills: u32,
    /// How often one ended by itself: each has to be explained.
    pub ended: Vec<String>,
}

impl Fleet {
    /// With these, not started yet.
    pub fn new(members: Vec<Member>) -> Self {
        Self { members, kills: 0, ended: vec![] }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Kills one, as a power cut does.
    pub fn kill(&mut self, at: usize) {
        if let Some(mut process) = self.members[at].process.take() {
            process.kill();
            self.kills += 1;
        }
    }

    /// Starts one that is down.
    pub fn start(&mut self, at: usize) {
        let member = &mut self.members[at];
        if member.process.is_none() {
            let args: Vec<&str> = member.args.iter().map(String::as_str).collect();
            member.process = Some(member.program.start(&member.name, &args, &[]));
        }
    }

    /// Starts whatever is down, or ended by itself.
    pub fn start_all(&mut self) {
        for at in 0..self.members.len() {
            self.look(at);
            self.start(at);
        }
    }

    /// Notices that one ended by itself.
    fn look(&mut self, at: usize) {
        let member = &mut self.members[at];
        if let Some(process) = &mut member.process
            && let Some(status) = process.ended()
        {
            let said = process.said();
            let lines: Vec<&str> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(10)..].join("\n");
            self.ended.push(format!("{} ended by itself with {status}:\n{last}", member.name));
            member.process = None;
        }
    }

    /// Kills all, and waits for them.
    pub fn stop(&mut self) {
        for member in &mut self.members {
            if let Some(mut process) = member.process.take() {
                process.kill();
                eventually("it is dead", || process.ended());
            }
        }
    }
}
