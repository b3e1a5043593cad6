//! The live story of a job: an event in, text out.
//!
//! Invariant: a deny is told in exactly the words that the model reads, made by the core.
//! Invariant: memory is bounded by one turn, or by so many calls where there are no turns: what earlier calls said is forgotten.

mod advice;
mod calls;
mod compacting;
mod header;
mod hooks;
mod outside;
mod place;

pub(crate) use place::{chain, place, scripted};

use super::flow::{self, Flow};
use super::line::{INDENT, Line, columns};
use super::look::{Look, Role};
use super::tally::Tally;
use super::{units, values};
use crate::next::Next;
use hookwright_core::approval::Approval;
use hookwright_core::event::{EventHead, Moment};
use hookwright_core::history::Record;
use hookwright_core::job::{Command, Fact, JobSpec, Outcome};
use hookwright_core::lifecycle::Point;
use hookwright_core::message::StopReason;
use hookwright_core::name::FunctionName;
use hookwright_core::stored::Stored;
use hookwright_core::text;
use hookwright_runtime::observe::Event;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Rows of an input or a model's text that was not streamed.
const TEXT_ROWS: usize = 12;

/// Rows of a call's result.
const RESULT_ROWS: usize = 4;

/// Rows of a note that is longer than its line.
const NOTE_ROWS: usize = 40;

/// Who tells about approvals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approvals {
    /// A prompt shows them; the story says only that one waits.
    Prompted,
    /// The story shows them in full, and how to decide elsewhere.
    Told,
    /// The same without how to decide: a flag does.
    Answered,
}

/// A hook that was asked and has not answered.
struct Asked {
    hook: usize,
    call: FunctionName,
    head: EventHead,
}

/// Tells one job.
pub(crate) struct Teller {
    look: Look,
    approvals: Approvals,
    /// What makes the commands that it names.
    next: Next,
    spec: Option<Box<JobSpec>>,
    holds_output: bool,
    asked: HashMap<String, Asked>,
    /// The value of each chain as it stands, by the chain's place (`t1.c0.pre`).
    values: HashMap<String, Stored>,
    /// Calls whose arguments a hook changed.
    changed_calls: HashSet<String>,
    /// The functions of this turn's calls, by call.
    tools: HashMap<String, String>,
    /// Functions about which the person at the agent is asked, and that were not seen to be called, by effect.
    there: BTreeMap<String, String>,
    /// What people are asked, by effect.
    waiting: HashMap<String, Box<Approval>>,
    /// Text that streams.
    flow: Option<Flow>,
    /// Digest of the last text that was streamed whole.
    streamed: Option<String>,
    so_far: String,
    /// The last turn's text, where it was not told yet: it may be the output.
    untold: Option<Stored>,
    /// An untold text that was objected to, and its turn's place: it may be the output until another one stands.
    objected: Option<(String, Stored)>,
    turn: u32,
    tally: Tally,
    shown_output: bool,
    last_note: String,
    /// Why a tool is as it is, where that was told in full.
    last_news: String,
    out: String,
}

impl Teller {
    /// A teller that has been told nothing.
    pub(crate) fn new(look: Look, approvals: Approvals) -> Self {
        Self {
            look,
            approvals,
            next: Next::default(),
            spec: None,
            holds_output: false,
            asked: HashMap::new(),
            values: HashMap::new(),
            changed_calls: HashSet::new(),
            tools: HashMap::new(),
            there: BTreeMap::new(),
            waiting: HashMap::new(),
            flow: None,
            streamed: None,
            so_far: String::new(),
            untold: None,
            objected: None,
            turn: 0,
            tally: Tally::default(),
            shown_output: false,
            last_note: String::new(),
            last_news: String::new(),
            out: String::new(),
        }
    }

    /// The same, with what makes the commands that it names.
    pub(crate) fn with_next(self, next: Next) -> Self {
        Self { next, ..self }
    }

    /// Takes the records from before this process took the job up; returns a header.
    pub(crate) fn catch_up(&mut self, records: &[Record]) -> String {
        for record in records {
            self.record(record);
        }
        self.out.clear();
        self.header();
        std::mem::take(&mut self.out)
    }

    /// Takes an event; returns what to show.
    pub(crate) fn event(&mut self, event: &Event<'_>) -> String {
        match event {
            Event::Text(piece) => self.streams(piece),
            Event::Recorded(record) => {
                self.end_flow();
                self.record(record);
            }
            Event::Waiting { approval, expires_ms } => {
                self.end_flow();
                self.waits(approval, *expires_ms);
            }
            Event::Notice(what) => {
                self.end_flow();
                (*what).clone_into(&mut self.last_note);
                // Why a server is down may stand just above, as news of its tool.
                let news = std::mem::take(&mut self.last_news);
                let what = if news.is_empty() { (*what).to_owned() } else { what.replace(&news, "see above") };
                let what = what.as_str();
                let note = Line::at("", ' ').add(Role::Warn, "note: ");
                if columns(what) <= note.room(self.look) {
                    self.put(note.plain(what));
                } else {
                    // The end of a longer one is often what matters: which function is missing, what to do next.
                    self.put(note);
                    self.block(what, NOTE_ROWS, Role::Warn);
                }
            }
        }
        std::mem::take(&mut self.out)
    }

    /// Whether the job's output stands in what was shown, whole and as it is.
    pub(crate) fn shown_output(&self) -> bool {
        self.shown_output
    }

    /// How many things are remembered.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        self.asked.len() + self.values.len() + self.tools.len() + self.changed_calls.len() + self.waiting.len()
    }

    fn put(&mut self, line: Line) {
        self.out.push_str(&line.end(self.look));
    }

    /// Untrusted text behind a bar; what is left out is said.
    fn block(&mut self, text: &str, rows: usize, role: Role) {
        let indent = " ".repeat(INDENT);
        let prefix = format!("{indent}{}", self.look.paint(role, self.look.bar()));
        let (block, left_out) = flow::block_in(text, &prefix, self.look.width - INDENT - 2, rows);
        self.out.push_str(&block);
        if left_out > 0 {
            let more = format!("{} {} more", self.look.ellipsis(), units::bytes(left_out as u64));
            self.put(Line::more().add(Role::Dim, &more));
        }
    }

    /// A value as a block, or what stands for it.
    fn block_of(&mut self, stored: &Stored, rows: usize, role: Role) {
        match stored.value.clone() {
            Some(value) => self.block(&values::text(&value), rows, role),
            None => self.put(Line::more().add(Role::Dim, &values::elsewhere(stored))),
        }
    }

    fn streams(&mut self, piece: &str) {
        if piece.is_empty() {
            return;
        }
        let look = self.look;
        if self.flow.is_none() {
            let place = format!("t{}", self.turn);
            self.put(Line::at(&place, ' ').add(Role::Strong, "model"));
            let prefix = format!("{}{}", " ".repeat(INDENT), look.paint(Role::Dim, look.bar()));
            self.flow = Some(Flow::new(prefix, look.width - INDENT - 2));
            self.so_far.clear();
        }
        self.so_far.push_str(piece);
        if let Some(flow) = &mut self.flow {
            flow.push(piece, &mut self.out);
        }
    }

    fn end_flow(&mut self) {
        if let Some(flow) = self.flow.take() {
            flow.end(&mut self.out);
            let said = std::mem::take(&mut self.so_far);
            self.streamed = Some(Stored::inline(serde_json::Value::String(said)).sha256);
        }
    }

    fn record(&mut self, record: &Record) {
        self.tally.count(record);
        match &record.fact {
            Fact::Started { spec } => {
                self.holds_output = !spec.hooks.matching(Moment::JobEnd, &spec.agent.id, &[]).is_empty();
                self.values.insert("start".into(), spec.input.clone());
                self.spec = Some(spec.clone());
                self.header();
                self.put(Line::at("input", ' ').add(Role::Dim, &units::bytes(spec.input.bytes)));
                self.block_of(&spec.input, TEXT_ROWS, Role::Dim);
            }
            Fact::Begun { command } => self.begun(command),
            Fact::HookAnswered { effect, outcome, ms, .. } => self.hook_answered(effect, outcome, *ms),
            Fact::HookLate { effect, after_ms } => {
                let took = units::took_whole(*after_ms);
                let line = Line::at(place(effect), '!').plain(&self.hook_name(effect));
                self.put(line.plain(&format!(" answered after {took}: too late, not counted")));
            }
            Fact::ToolLate { effect, after_ms } => {
                let took = units::took_whole(*after_ms);
                let line = Line::at(place(effect), '!').plain("the call's answer came after ");
                self.put(line.plain(&format!("{took}: too late, not read")));
            }
            Fact::DecisionIgnored { approval, approve, by, why, .. } => {
                let word = if *approve { "a yes" } else { "a no" };
                let line = Line::at("approval", '!').add(Role::Bad, &format!("{word} was ignored"));
                self.put(line.plain(&format!(": by {by} on {approval}: {why}")));
            }
            Fact::ModelAnswered { .. } => self.model_answered(&record.fact),
            Fact::ModelFailed { effect, message, .. } => {
                self.put(Line::at(place(effect), '!').add(Role::Bad, "the model gave no turn"));
                self.block(message, TEXT_ROWS, Role::Bad);
            }
            Fact::Compacted { effect, .. } => self.compacted(place(effect), &record.fact),
            Fact::LifecycleAnswered { effect, answers } => {
                if let Some(point) = Point::of_effect(effect) {
                    self.advised(place(effect), point, answers);
                }
            }
            Fact::SessionEnded { answers } => self.advised("end", Point::SessionEnd, answers),
            Fact::ToolReturned { effect, outcome, ms } => {
                self.there.remove(effect);
                self.tool_returned(effect, outcome, *ms);
            }
            Fact::ApprovalDecided { effect, approve, by, verified, note, .. } => {
                self.decided(effect, *approve, by, *verified, note.as_deref());
            }
            Fact::ApprovalExpired { effect, .. } => self.expired(effect),
            Fact::Resumed { process } => {
                let line = Line::at("job", ' ').add(Role::Strong, "taken up again");
                self.put(line.add(Role::Dim, &format!(" at record {} by {process}", record.seq)));
            }
            Fact::ToolState { tool, state, why } => {
                let (mark, role) = match state.as_str() {
                    "failed" => ('!', Role::Bad),
                    "restarting" => ('!', Role::Warn),
                    _ => (' ', Role::Good),
                };
                let verb = if state == "failed" { " has " } else { " is " };
                let line = Line::at("tool", mark).plain(tool).plain(verb).add(role, state);
                match why {
                    // What a note has said already in full.
                    Some(why) if self.last_note.contains(why.as_str()) => self.put(line),
                    Some(why) if columns(why) + 2 > line.room(self.look) => {
                        why.clone_into(&mut self.last_news);
                        self.put(line.plain(":"));
                        self.block(why, NOTE_ROWS, role);
                    }
                    Some(why) => self.put(line.plain(": ").plain(why)),
                    None => self.put(line),
                }
            }
            Fact::CallRequested { .. }
            | Fact::CallLeft { .. }
            | Fact::CallCancelled { .. }
            | Fact::OutputOffered { .. }
            | Fact::AgentLeft { .. } => self.outside(&record.fact),
            Fact::Cancelled { by } => {
                self.put(Line::at("job", '!').add(Role::Warn, "cancelled").plain(" by ").plain(by));
            }
            Fact::Finished { outcome } => self.finished(outcome),
        }
    }

    fn begun(&mut self, command: &Command) {
        match command {
            Command::CallModel { turn, .. } => {
                self.turn = *turn;
                self.forget();
            }
            Command::Ask { effect, hook, call, head, .. } => {
                let asked = Asked { hook: *hook, call: call.clone(), head: head.clone() };
                self.asked.insert(effect.clone(), asked);
            }
            Command::CallTool { call, tool, arguments, grant, .. } => {
                self.call_begun(call, &tool.to_string(), arguments, grant.is_some());
            }
            Command::LetCall { effect, call, tool, arguments, grant, asked, .. } => {
                self.call_begun(call, &tool.to_string(), arguments, grant.is_some());
                if !asked.is_empty() {
                    self.asked_there(effect, &tool.to_string(), asked);
                }
            }
            Command::OpenApproval { effect, approval } => {
                self.waiting.insert(effect.clone(), approval.clone());
                let line = Line::at(place(effect), '?').add(Role::Warn, "waits for a person");
                let expiry = format!(" (expires after {})", text::duration(approval.expires_after_ms));
                self.put(line.plain(": approval ").add(Role::Strong, &approval.id).add(Role::Dim, &expiry));
            }
            Command::AskLifecycle { effect, point, skip, failure, .. } => {
                self.lifecycle_begun(effect, *point, *skip, failure.as_deref());
            }
            Command::Compact { effect, plan, .. } if plan.summary_tokens > 0 => {
                let line =
                    Line::at(place(effect), ' ').plain("the window is nearly full: the model is asked for a summary");
                self.put(line);
            }
            Command::Compact { .. }
            | Command::Admit { .. }
            | Command::Answer { .. }
            | Command::SendBack { .. }
            | Command::CloseApproval { .. }
            | Command::Finish { .. } => {}
        }
    }

    fn model_answered(&mut self, fact: &Fact) {
        let Fact::ModelAnswered { effect, text, calls, stop, output, output_fault, .. } = fact else { return };
        let was_streamed = text.as_ref().is_some_and(|t| self.streamed.as_deref() == Some(&*t.sha256));
        let cut_off = matches!(stop, StopReason::MaxTokens | StopReason::Refusal);
        // The last turn's text is the output: it is told at the end, unless it was streamed.
        let is_output = calls.is_empty() && output_fault.is_none() && !cut_off;
        if let Some(text) = text
            && !was_streamed
            && !is_output
        {
            self.put(Line::at(place(effect), ' ').add(Role::Strong, "model"));
            self.block_of(text, TEXT_ROWS, Role::Dim);
        }
        if cut_off {
            return;
        }
        if let Some(fault) = output_fault
            && calls.is_empty()
        {
            let line = Line::at(place(effect), '!').add(Role::Warn, "not an output that the agent's schema accepts");
            self.put(line.plain(": ").plain(fault));
        }
        let per_turn = self.spec.as_ref().map_or(usize::MAX, |s| s.limits.calls_per_turn as usize);
        for (i, call) in calls.iter().enumerate() {
            self.requested(&format!("{}.c{i}", place(effect)), call, i >= per_turn);
        }
        if is_output {
            let value = output.clone().or_else(|| text.clone());
            let value = value.unwrap_or_else(|| Stored::inline(serde_json::Value::String(String::new())));
            self.values.insert("end".into(), value);
            self.untold = text.clone().filter(|_| !was_streamed);
            if self.holds_output {
                let what = "output held until the hooks at job_end have answered";
                self.put(Line::at(place(effect), ' ').add(Role::Dim, what));
            }
        }
    }

    fn finished(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Completed { output } => {
                self.shown_output = self.streamed.as_deref() == Some(&*output.sha256);
                self.put(Line::at("end", ' ').add(Role::Good, "completed"));
            }
            Outcome::Failed { error } => {
                let line = Line::at("end", '!').add(Role::Bad, "failed").plain(": ").add(Role::Strong, &error.kind);
                self.put(line);
                self.block(&error.message, TEXT_ROWS * 4, Role::Bad);
            }
            Outcome::Cancelled { by } => {
                self.put(Line::at("end", '!').add(Role::Warn, "cancelled").plain(" by ").plain(by));
            }
        }
        for tool in std::mem::take(&mut self.there).into_values() {
            self.put(Line::more().plain("asked about where the agent runs, and not seen to be made: ").plain(&tool));
        }
        for row in self.tally.rows(self.look.width - INDENT) {
            self.put(Line::more().add(Role::Dim, &row));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_wrapped_and_loses_no_word() {
        let words: Vec<String> = (0..250).map(|n| format!("word{n}")).collect();
        let mut teller = Teller::new(Look::PLAIN, Approvals::Told);
        let told = teller.event(&Event::Notice(&words.join(" ")));
        for word in words {
            assert!(told.contains(&word), "{word}\n{told}");
        }
    }
}
