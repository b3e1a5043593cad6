//! When servers are asked for advice, and what follows from it (SPEC §9).
//!
//! Invariant: nothing here can end a job or keep it from ending but an objection within the session's budget, once, with a turn left.
//! Invariant: an objection never costs a job its output: where the agent can't go on after one, what it said before stands (logic 3).

use super::{Machine, Mismatch, Phase};
use crate::job::{Command, Fact, JobError};
use crate::lifecycle::{self, Context, LifecycleAnswer, LifecycleSpec, Point, Skip};
use crate::message::StopReason;
use crate::stored::Stored;
use serde::{Deserialize, Serialize};

/// The version of the logic that asks lifecycle hooks.
const SINCE: u32 = 2;

/// What a job remembers of advice.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Advice {
    /// Rejections of this job.
    rejections: u32,
    /// How often the model ended its turn.
    stops: u32,
    /// An objection was delivered, and the model called nothing since.
    heard: bool,
    /// The output that was objected to, until another one stands.
    #[serde(default)]
    kept: Option<Stored>,
    /// How many times something was delivered.
    deliveries: u32,
    /// How often the conversation was compacted and servers asked about it.
    compactions: u32,
    session_ended: bool,
    /// The ask at the session's end, which was begun.
    #[serde(default)]
    session_ends: Option<Vec<String>>,
}

impl Advice {
    /// The model called something: an objection may be put again.
    pub(super) fn worked(&mut self) {
        self.heard = false;
    }
}

/// The effect of the ask at a session's end.
const SESSION_END: &str = "session_end";

/// An ask that is under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Ask {
    point: Point,
    /// The output that stands unless somebody objects.
    #[serde(default)]
    output: Option<Stored>,
}

/// Whether answers can be the ones to an ask: of servers that were asked, each once, in their order.
pub(super) fn fits_servers(servers: &[String], answers: &[LifecycleAnswer]) -> bool {
    is_part(servers, answers.iter().map(|answer| &answer.server))
}

/// Whether some of these are named, each once, in their order.
fn is_part<'a>(servers: &[String], mut named: impl Iterator<Item = &'a String>) -> bool {
    let mut left = servers.iter();
    named.all(|name| left.any(|server| server == name))
}

impl Machine {
    /// Rejections that the session has used up by now, those of this job included.
    pub fn rejections_used(&self) -> u32 {
        let before = self.spec.lifecycle.as_ref().map_or(0, |l| l.rejections_used);
        before.saturating_add(self.advice.rejections)
    }

    /// Whether the end of the session is in the history.
    pub fn session_ended(&self) -> bool {
        self.advice.session_ended
    }

    /// Who is asked at the session's end, where that was begun.
    pub fn session_ends(&self) -> Option<&[String]> {
        self.advice.session_ends.as_deref()
    }

    /// The ask at the end of the session, of those servers of the job's that have something to be asked; none where that is not
    /// recorded before (logic 2), or stands already. Whoever closes the session records that it begins, and then asks.
    pub fn session_end(&self, servers: &[String]) -> Option<Command> {
        let begins = matches!(self.phase, Phase::Finished(_)) && self.spec.begins_session_end();
        let known = self.lifecycle().is_some_and(|l| is_part(&l.servers, servers.iter()));
        (begins && known && !self.session_ended() && self.session_ends().is_none()).then(|| Command::AskLifecycle {
            effect: SESSION_END.into(),
            point: Point::SessionEnd,
            servers: servers.to_vec(),
            context: Context { prompt: self.prompt.as_ref().map(Stored::digest_only), ..Context::default() },
            skip: None,
            failure: None,
        })
    }

    /// Takes the beginning of the ask at the session's end; false where it is no such beginning.
    pub(super) fn session_end_begun(&mut self, command: &Command) -> bool {
        let Command::AskLifecycle { point: Point::SessionEnd, servers, .. } = command else { return false };
        if self.session_end(servers).as_ref() != Some(command) {
            return false;
        }
        self.advice.session_ends = Some(servers.clone());
        true
    }

    /// Takes what was said at the session's end.
    pub(super) fn end_session(&mut self, fact: &Fact, answers: &[LifecycleAnswer]) -> Result<(), Mismatch> {
        let asked = match self.session_ends() {
            Some(servers) => fits_servers(servers, answers),
            None => !self.spec.begins_session_end(),
        };
        if !asked || self.session_ended() || !matches!(self.phase, Phase::Finished(_)) {
            return Err(Mismatch::unexpected(fact));
        }
        self.advice.session_ended = true;
        Ok(())
    }

    /// The output that was objected to, where no other has taken its place: it may still be the job's.
    pub fn kept_output(&self) -> Option<&Stored> {
        self.advice.kept.as_ref()
    }

    fn lifecycle(&self) -> Option<&LifecycleSpec> {
        self.spec.lifecycle.as_ref().filter(|l| self.spec.logic >= SINCE && !l.servers.is_empty())
    }

    /// Asks at the next point before the first turn that comes after `done`, or begins that turn.
    pub(super) fn open(&mut self, done: Option<Point>, out: &mut Vec<Command>) {
        let Some(lifecycle) = self.lifecycle() else { return self.next_turn(out) };
        let child = !self.spec.parent_jobs.is_empty();
        let points = [
            (Point::SessionStart, lifecycle.session_start && !child),
            // A subagent's input is no user's prompt.
            (Point::UserPromptSubmit, !child),
            (Point::SubagentStart, child),
        ];
        let next = points.into_iter().find(|(point, due)| *due && done.is_none_or(|done| *point > done));
        match next {
            Some((point, _)) => self.ask(point, None, Context::default(), None, None, out),
            None => self.next_turn(out),
        }
    }

    /// The model ended its turn with this output: servers may object.
    pub(super) fn stop(&mut self, output: Stored, out: &mut Vec<Command>) {
        let Some(lifecycle) = self.lifecycle().filter(|l| l.max_rejections > 0) else {
            return self.end(output, out);
        };
        let left = lifecycle.max_rejections.saturating_sub(self.rejections_used());
        let skip = if self.advice.heard {
            Some(Skip::Declined)
        } else if left == 0 {
            Some(Skip::BudgetUsedUp)
        } else if self.turn >= self.spec.agent.max_turns {
            Some(Skip::NoTurnLeft)
        } else {
            None
        };
        self.advice.stops += 1;
        self.advice.kept = None;
        let context = Context {
            prompt: None,
            attempt: Some(self.advice.stops),
            rejections_left: Some(left),
            stop_reason: Some(StopReason::EndTurn),
        };
        self.ask(Point::Stop, Some(output), context, skip, None, out);
    }

    /// The agent can't go on: the job fails, unless it only went on because of an objection. Then the output from before stands.
    pub(super) fn fail_turn(&mut self, error: JobError, out: &mut Vec<Command>) {
        let Some(output) = self.advice.kept.clone() else { return self.fail(error, out) };
        self.ask(Point::Stop, Some(output), Context::default(), Some(Skip::Kept), Some(error), out);
    }

    /// The conversation was compacted: servers may say what must not be forgotten, before the next turn.
    ///
    /// Where nobody is to be asked, the next turn begins at once.
    pub(super) fn compacted(&mut self, out: &mut Vec<Command>) {
        if self.lifecycle().is_none() {
            return self.next_turn(out);
        }
        self.advice.compactions += 1;
        let context = Context { attempt: Some(self.advice.compactions), ..Context::default() };
        self.ask(Point::PostCompact, None, context, None, None, out);
    }

    fn ask(
        &mut self,
        point: Point,
        output: Option<Stored>,
        context: Context,
        skip: Option<Skip>,
        failure: Option<JobError>,
        out: &mut Vec<Command>,
    ) {
        let turn = self.turn;
        let effect = match point {
            Point::SessionStart => "session_start".to_owned(),
            Point::UserPromptSubmit => "prompt_submit".to_owned(),
            Point::SubagentStart => "subagent_start".to_owned(),
            Point::Stop => format!("t{turn}.stop"),
            Point::PostCompact => match self.advice.compactions {
                0 | 1 => format!("t{turn}.post_compact"),
                n => format!("t{turn}.post_compact{n}"),
            },
            // Asked by whoever closes the session, when the job is over.
            Point::SessionEnd => return,
        };
        let servers = match skip {
            None => self.lifecycle().map(|l| l.servers.clone()).unwrap_or_default(),
            Some(_) => vec![],
        };
        let context = Context { prompt: self.prompt.clone(), ..context };
        out.push(Command::AskLifecycle { effect, point, servers, context, skip, failure: failure.map(Box::new) });
        self.phase = Phase::Lifecycle(Ask { point, output });
    }

    /// Servers answered: what they said is delivered, all of it as one rejection at most.
    pub(super) fn advised(&mut self, answers: &[LifecycleAnswer], out: &mut Vec<Command>) {
        let Phase::Lifecycle(Ask { point, output }) = &self.phase else { return };
        let (point, output) = (*point, output.clone());
        let messages = lifecycle::pair(point, &self.spec.job, self.advice.deliveries, answers);
        let said = !messages.is_empty();
        self.advice.deliveries += u32::from(said);
        for message in messages {
            self.say(message);
        }
        match (point, output) {
            (Point::Stop, Some(output)) if said => {
                self.advice.kept = Some(output).filter(|_| self.spec.keeps_objected());
                self.advice.rejections += 1;
                self.advice.heard = true;
                self.next_turn(out);
            }
            (Point::Stop, Some(output)) => self.end(output, out),
            (Point::SessionStart | Point::UserPromptSubmit | Point::SubagentStart, _) => self.open(Some(point), out),
            (Point::Stop | Point::PostCompact | Point::SessionEnd, _) => self.next_turn(out),
        }
    }
}
