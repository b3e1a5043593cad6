//! Real harnesses as agents of ours: their sessions are run by `hookwright run`, in the jail.

use crate::clients::{Client, Setup};
use crate::lab::{Ended, Lab, Run};
use serde_json::{Value, json};

/// Which clients can be agents, and as which harness.
pub(crate) fn harness(client: Client) -> Option<&'static str> {
    match client {
        Client::ClaudeCode => Some("claude-agent-sdk"),
        Client::Codex => Some("codex"),
        Client::AgentSdk | Client::GeminiCli | Client::CopilotCli | Client::OpenCode | Client::Cline => None,
    }
}

/// Runs a job of an agent that is the client, with the lab's hooks.
fn go<'a>(lab: &'a Lab, client: Client, name: &str, turns: Vec<Vec<Value>>, approve: &str) -> Ended<'a> {
    let run = Run::new(lab, client, name);
    let environment = client.environment(&run);
    let env: serde_json::Map<String, Value> = environment
        .iter()
        .filter_map(|word| word.split_once('='))
        .map(|(name, _)| (name.to_owned(), json!({"from": name})))
        .collect();
    let manifest = json!({
        "id": "team",
        "agents": [{"id": "fixer", "harness": harness(client), "command": [client.path(&run)], "env": env}],
    });
    run.agent(&manifest, &Setup::turns(turns), approve)
}

/// All of it in one job: what hooks deny, rewrite and withhold, a denied output, and what the job gives.
pub(crate) fn watched(lab: &Lab, client: Client, name: &str) {
    let turns = vec![
        vec![client.shell("echo x > never.txt; : deny-call")],
        vec![client.shell("echo rewrite-this > out.txt")],
        vec![client.shell("echo y > later.txt; echo deny-res''ult")],
        vec![json!({"text": "deny-output"})],
        vec![json!({"text": "FINISHED"})],
    ];
    let ended = go(lab, client, name, turns, "no");
    assert_eq!(ended.code, Some(0), "{}", ended.story());
    assert_eq!(ended.file("never.txt"), None, "{}", ended.story());
    assert_eq!(ended.file("out.txt").as_deref(), Some("rewritten\n"), "{}", ended.story());
    assert_eq!(ended.file("later.txt").as_deref(), Some("y\n"), "{}", ended.story());
    let tool = format!("{}.Bash", harness(client).unwrap());
    let said = format!("The call to {tool} was not made: hook policy.check denied it: Zoë says “no” to deny-call 🚫.");
    assert!(ended.told(&said), "{}", ended.story());
    let withheld = format!("The result of {tool} was withheld: hook policy.check denied it");
    assert!(ended.told(&withheld) && !ended.told("deny-result\n"), "{}", ended.story());
    assert!(ended.told("Hook policy.check denied the output"), "{}", ended.story());
    assert_eq!(ended.printed().trim(), "FINISHED", "{}", ended.story());
    let jobs = ended.run.ask_cli(&["jobs", "list", "--output", "json"]);
    assert_eq!(jobs["jobs"][0]["status"], "completed", "{jobs}");
    assert_eq!(jobs["jobs"][0]["agent"], "fixer", "{jobs}");
}

/// A person's no, and a person's yes.
pub(crate) fn decided(lab: &Lab, client: Client, name: &str) {
    for (approve, made) in [("no", None), ("yes", Some("ask-this\n"))] {
        let turns = vec![vec![client.shell("echo ask-this > out.txt")], vec![json!({"text": "FINISHED"})]];
        let ended = go(lab, client, &format!("{approve} {name}"), turns, approve);
        assert_eq!(ended.file("out.txt").as_deref(), made, "{approve}: {}", ended.story());
        assert_eq!(ended.code, Some(0), "{}", ended.story());
    }
}
