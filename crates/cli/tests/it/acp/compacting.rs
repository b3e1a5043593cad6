//! A session whose conversation outgrows the model's window, in each wire format.

use super::client::Client;
use crate::provider::{Play, Provider, Step, Wire};
use crate::support::{Plugin, World, function};
use serde_json::{Value, json};

fn a_session_of_two_prompts(wire: Wire) {
    let calls = |n: usize| vec![Step::Call("git__log", json!({})); n];
    let steps = [calls(4), vec![Step::Say("First.")], calls(9), vec![Step::Say("Second.")]].concat();
    let play = Play { wire, turns: 0, window: 8_000, bytes_per_token: 4, tells: true, summarises: true };
    let provider = Provider::following(play, steps);
    let world = World::with(
        Plugin::new("p")
            .agent(json!({"model": wire.model(), "max_turns": 20}))
            .server("git", json!([function("log", json!({"text": "x".repeat(4_000)}))])),
    );
    let variables = provider.variables();
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut client = Client::start_in(&world, &[], &variables);
    client.hello();
    let session = client.session(json!([]));
    let (first, last) = ("Find the commit, FIRST-PROMPT.", "Then \"mend\" it,\n  word for word, LAST-PROMPT.");
    assert_eq!(client.prompt(&session, first), "end_turn", "{wire:?}");
    assert_eq!(client.prompt(&session, last), "end_turn", "{wire:?}");
    assert!(client.said().ends_with("Second."), "{wire:?}");
    client.close().code(0);
    provider.seen(|seen| {
        assert!(!seen.summaries.is_empty() && seen.refused == 0, "{wire:?}");
        let summarised: String = seen.summaries.iter().map(Value::to_string).collect();
        assert!(summarised.contains("FIRST-PROMPT"), "{wire:?}: what came before is in a summary");
        for (raw, body) in seen.raw.iter().zip(&seen.turns).skip(5) {
            let prompt = Value::from(last).to_string();
            assert_eq!(raw.matches(&prompt).count(), 1, "{wire:?}: it stands in each request as it was given: {raw}");
            let (calls, results) = provider.pairs(body);
            assert_eq!(calls, results, "{wire:?}");
        }
        assert!(seen.raw.last().unwrap().contains("SUMMARY"), "{wire:?}");
    });
}

#[test]
fn the_last_prompt_of_a_session_survives_its_compaction_word_for_word() {
    let handles = Wire::ALL.map(|wire| std::thread::spawn(move || a_session_of_two_prompts(wire)));
    for handle in handles {
        handle.join().unwrap();
    }
}
