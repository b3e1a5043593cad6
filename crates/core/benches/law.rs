//! Guards the pure part: what a hooked call costs before any process or disk is involved. `cargo bench -p hookwright-core`.

use divan::{Bencher, black_box};
use hookwright_core::chain::{Chain, HookOutcome, Step};
use hookwright_core::event::{EventBody, EventHead, Moment, build};
use hookwright_core::history::Head;
use hookwright_core::hooks::{Hook, HookSet};
use hookwright_core::job::{AgentSpec, AsksThere, Command, Fact, JobSpec, Machine, RequestedCall, ToolOutcome};
use hookwright_core::manifest::Match;
use hookwright_core::message::StopReason;
use hookwright_core::{FunctionName, Stored, answer};
use serde_json::json;

fn main() {
    divan::main();
}

fn hook(tools: &str) -> Hook {
    let matches = Match { tools: Some(vec![tools.into()]), agents: None };
    Hook { matches, ..Hook::new("p", Moment::PreToolCall, FunctionName::new("policy", "check")) }
}

/// `matching` hooks that match `git.push`, and so many that don't.
fn spec(matching: usize, others: usize) -> JobSpec {
    let mut hooks: Vec<Hook> = (0..others).map(|i| hook(&format!("other{i}.*"))).collect();
    hooks.extend((0..matching).map(|_| hook("git.*")));
    let agent = AgentSpec::new("dev", "p", "script/x.yaml", 1_000_000);
    let hooks = HookSet { manifests: vec![], hooks };
    JobSpec { hooks, ..JobSpec::new("job_0123456789abcdef", agent, Stored::inline(json!("go"))) }
}

/// Runs one model turn with one call through the machine, recording everything; returns how many records that made.
fn turn(machine: &mut Machine, head: &mut Head, commands: Vec<Command>) -> Vec<Command> {
    let mut queue = commands;
    loop {
        let Some(command) = queue.pop() else { return vec![] };
        let (begun, text) = head.write(1, Fact::Begun { command: command.digest_only() });
        head.advance(&begun);
        black_box(text.len());
        let _ = machine.handle(1, &begun.fact);
        let effect = command.effect().unwrap_or_default().to_owned();
        let is_call = matches!(command, Command::CallTool { .. });
        let fact = match command {
            Command::Ask { .. } => {
                Fact::HookAnswered { effect, outcome: HookOutcome::Allow { reason: None }, ms: 1.0, other: None }
            }
            Command::CallTool { .. } => {
                let result = Stored::inline(json!("pushed"));
                Fact::ToolReturned {
                    effect,
                    outcome: ToolOutcome::Returned { result, structured: None, is_error: false, rest: None },
                    ms: 1.0,
                }
            }
            _ => Fact::ModelAnswered {
                effect,
                text: None,
                calls: vec![RequestedCall {
                    provider_id: "c".into(),
                    tool: "git.push".into(),
                    alias: None,
                    further_aliases: vec![],
                    arguments: Stored::inline(json!({"branch": "main", "remote": "origin"})),
                    refused: None,
                    idempotent: false,
                    schema_sha256: None,
                    asks_there: AsksThere::No,
                }],
                stop: StopReason::ToolCalls,
                usage: None,
                sent: None,
                provider_state: None,
                output: None,
                output_fault: None,
                ms: 1.0,
            },
        };
        let (record, text) = head.write(2, fact);
        head.advance(&record);
        black_box(text.len());
        let next = machine.handle(2, &record.fact).unwrap_or_default();
        if is_call {
            return next;
        }
        queue = next;
    }
}

/// One turn with one call, with so many matching hooks: machine, records, hashes.
#[divan::bench(args = [0, 1, 3, 10])]
fn a_call_with_hooks(bencher: Bencher<'_, '_>, hooks: usize) {
    bench_turn(bencher, spec(hooks, 0));
}

/// One matching hook among so many that don't match.
#[divan::bench(args = [0, 100, 1_000])]
fn a_call_with_unmatched_hooks(bencher: Bencher<'_, '_>, others: usize) {
    bench_turn(bencher, spec(1, others));
}

fn bench_turn(bencher: Bencher<'_, '_>, spec: JobSpec) {
    bencher
        .with_inputs(|| {
            let Ok((mut machine, commands)) = Machine::new(spec.clone()) else { std::process::exit(1) };
            let mut head = Head::default();
            // The first turn fills the memory of matches; a job has many turns.
            let commands = turn(&mut machine, &mut head, commands);
            (machine, head, commands)
        })
        .bench_values(|(mut machine, mut head, commands)| {
            turn(&mut machine, &mut head, commands);
            (machine, head)
        });
}

#[divan::bench]
fn read_an_answer(bencher: Bencher<'_, '_>) {
    let raw = json!({"content": [{"type": "text", "text": "{\"decision\":\"deny\",\"reason\":\"not today\"}"}]});
    bencher.bench(|| answer::read(black_box(&raw), Moment::PreToolCall, None).is_ok());
}

#[divan::bench(args = [100, 10_000, 500_000])]
fn build_an_event(bencher: Bencher<'_, '_>, bytes: usize) {
    let head = EventHead {
        event: Moment::PreToolCall,
        job: "job_1".into(),
        agent: "dev".into(),
        tenant: "default".into(),
        node: "n".into(),
        parent_job: None,
        call: Some("t1.c0".into()),
        tool: Some("git.push".into()),
        alias: None,
    };
    let arguments = json!({"text": "x".repeat(bytes)});
    bencher.bench(|| build(&head, EventBody::PreToolCall(arguments.clone())).to_string().len());
}

#[divan::bench(args = [1, 10])]
fn a_chain(bencher: Bencher<'_, '_>, hooks: usize) {
    let all: Vec<Hook> = (0..hooks).map(|_| hook("*")).collect();
    let value = Stored::inline(json!({"branch": "main"}));
    bencher.bench(|| {
        let mut chain = Chain::new((0..hooks).collect(), value.clone());
        while let Step::Ask(i) = chain.step() {
            chain.answered(&all[i], &HookOutcome::Allow { reason: None });
        }
        chain
    });
}
