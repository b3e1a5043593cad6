//! The jobs of a seed.

use crate::engine::Stage;
use crate::plugin::{Plugin, function, says};
use serde_json::{Value, json};

/// Numbers that follow from a seed (SplitMix64).
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// One below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// One of these.
    ///
    /// # Panics
    /// Where there are none.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Whether something of so many in a hundred happens.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The agent of a job by its number.
pub fn agent(job: usize) -> String {
    format!("a{job}")
}

/// Where hooks' servers and others say what they were asked for.
pub const ASKS: &str = "asks.log";
/// Where calls leave their effects.
pub const EFFECTS: &str = "effects.log";

/// What the hooks do with a call, by its argument `kind`; beside what its function does.
const KINDS: [&str; 8] = ["plain", "plain", "plain", "modify", "modify", "deny", "ask", "slow"];
const FUNCTIONS: [&str; 5] = ["push", "push", "slow", "slowly", "again"];
const INPUTS: [&str; 12] =
    ["plain", "plain", "plain", "plain", "plain", "plain", "plain", "plain", "plain", "ask", "ask", "refuse"];
const OUTPUTS: [&str; 8] = ["plain", "plain", "plain", "plain", "modify", "modify", "ask", "slow"];

/// A job's input, by the seed.
pub fn input(rng: &mut Rng) -> &'static str {
    rng.pick(&INPUTS)
}

/// A plugin with an agent for each job, so that each call of all jobs has arguments of its own.
pub fn plugin(stage: &Stage, jobs: usize, rng: &mut Rng) -> Plugin {
    // The whole event becomes the arguments, which no other call has.
    let modified = "{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{\"content\":[],\"structuredContent\":\
        {\"decision\":\"modify\",\"arguments\":{\"was\":{arguments}}}}}";
    let mut plugin = Plugin::new("p")
        .scripted("policy", json!({"start": [{"write_pid": stage.path(SERVERS[0])}], "tools": [
            asked(stage, "start", "/event/input", &[
                ("ask", json!([says("escalate", json!({"reason": "a job"}))])),
                ("refuse", json!([says("deny", json!({"reason": "no such job"}))])),
            ]),
            asked(stage, "check", "/event/arguments/kind", &[
                ("modify", json!([{"line": modified}])),
                ("deny", json!([says("deny", json!({"reason": "no such call"}))])),
                ("ask", json!([says("escalate", json!({"reason": "a call"}))])),
                ("slow", json!([{"sleep_ms": 120}, says("allow", json!({}))])),
            ]),
            asked(stage, "second", "/event/arguments/second", &[("ask", json!([says("escalate", json!({"reason": "too"}))]))]),
            asked(stage, "after", "/event/tool", &[("fx.again", json!([says("modify", json!({"result": "again, seen"}))]))]),
            asked(stage, "end", "/event/output", &[
                ("modify", json!([says("modify", json!({"output": "signed"}))])),
                ("ask", json!([says("escalate", json!({"reason": "an output"}))])),
                ("slow", json!([{"sleep_ms": 120}, says("allow", json!({}))])),
            ]),
        ]}), json!({}))
        .scripted("fx", json!({"start": [{"write_pid": stage.path(SERVERS[1])}], "tools": [
            effect(stage, "push", 0, 0), effect(stage, "slow", 150, 0), effect(stage, "slowly", 0, 150), effect(stage, "again", 60, 60),
        ]}), json!({"idempotent": ["again"]}))
        .turns(json!([{"say": "unused"}]));
    for (on, call) in [
        ("job_start", "start"),
        ("pre_tool_call", "check"),
        ("pre_tool_call", "second"),
        ("post_tool_call", "after"),
        ("job_end", "end"),
    ] {
        plugin = plugin.hook(json!({"on": on, "call": format!("policy.{call}"), "timeout": "30s"}));
    }
    for job in 0..jobs {
        let starts = rng.percent(20).then(|| child(job));
        let mut keys = json!({"tools": ["fx"]});
        if let Some(child) = &starts {
            keys["subagents"] = json!([child]);
            plugin = plugin.other(child, json!({"tools": ["fx"]}), turns(child, None, rng));
        }
        let agent = agent(job);
        plugin = plugin.other(&agent, keys, turns(&agent, starts.as_deref(), rng));
    }
    plugin
}

/// The agent of the job that a job starts, where it starts one.
fn child(job: usize) -> String {
    format!("child-of-{}", agent(job))
}

fn turns(agent: &str, starts: Option<&str>, rng: &mut Rng) -> Value {
    let mut turns = vec![];
    if let Some(child) = starts {
        let input = input(rng);
        turns.push(json!({"call": {"tool": "agent.start", "with": {"agent": child, "input": input}}}));
    }
    for turn in 0..=rng.below(3) {
        let calls: Vec<Value> = (0..=rng.below(3))
            .map(|call| {
                let second = if rng.percent(8) { "ask" } else { "no" };
                let with =
                    json!({"agent": agent, "turn": turn, "call": call, "kind": rng.pick(&KINDS), "second": second});
                json!({"tool": format!("fx.{}", rng.pick(&FUNCTIONS)), "with": with})
            })
            .collect();
        turns.push(json!({"call": calls, "delay": format!("{}ms", 1 + rng.below(40))}));
    }
    turns.push(json!({"say": rng.pick(&OUTPUTS)}));
    json!(turns)
}

/// A hook's function: it says first that it was asked, and answers by what stands there in the event; else it allows.
fn asked(stage: &Stage, name: &str, pointer: &str, cases: &[(&str, Value)]) -> Value {
    let line = format!("{{\"at_ms\":{{now}},\"call\":\"policy.{name}\",\"arguments\":{{arguments}}}}");
    let told = json!({"append": {"file": stage.path(ASKS), "line": line}});
    let mut all: Vec<Value> = cases
        .iter()
        .map(|(value, then)| {
            let when = serde_json::Map::from_iter([(pointer.to_owned(), json!(value))]);
            json!({"when": when, "then": then})
        })
        .collect();
    all.push(json!({"then": [says("allow", json!({}))]}));
    function(name, json!([told, {"cases": all}]))
}

/// The files with the numbers of servers' processes.
pub const SERVERS: [&str; 2] = ["policy.pid", "fx.pid"];

/// A function that takes its time before or after its effect.
fn effect(stage: &Stage, name: &str, before_ms: u64, after_ms: u64) -> Value {
    let line = format!("{{\"at_ms\":{{now}},\"tool\":\"fx.{name}\",\"arguments\":{{arguments}}}}");
    let append = json!({"append": {"file": stage.path(EFFECTS), "line": line}});
    function(name, json!([{"sleep_ms": before_ms}, append, {"sleep_ms": after_ms}, {"text": format!("{name} did it")}]))
}
