//! All four wire formats end to end against the lab's scripted model server (`crates/testkit/lab/model.py`), which was written
//! to serve real coding agents.

use crate::support::*;
use hookwright_core::lifecycle::{self, Point};
use hookwright_core::message::StopReason;
use hookwright_model::open;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The server as a child that does not outlive the test.
struct Lab {
    child: Child,
    folder: tempfile::TempDir,
    address: String,
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Lab {
    fn start(scenario: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("scenario.json"), scenario.to_string()).unwrap();
        let script: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testkit/lab/model.py");
        // The port is free when it is chosen; should another take it first, the server ends and another port is tried.
        for _ in 0..20 {
            let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut child = Command::new("python3")
                .arg(&script)
                .args([&port.to_string(), "scenario.json", "llm.jsonl"])
                .current_dir(folder.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("python3 runs the lab's server");
            let address = format!("127.0.0.1:{port}");
            let start = Instant::now();
            while start.elapsed() < Duration::from_mins(1) && child.try_wait().unwrap().is_none() {
                if std::net::TcpStream::connect(&address).is_ok() {
                    return Self { child, folder, address };
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        panic!("the lab's server did not start");
    }

    fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("llm.jsonl")).unwrap();
        text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }
}

fn scenario() -> Value {
    json!({
        "routes": [{"match": "Push", "turns": [
            [{"text": "I look and push."}, {"tool": "git__push", "input": {"branch": "main"}}, {"tool": "db__query", "input": {"sql": "select 1"}}],
            [{"tool": "git__push", "input": {"branch": "fix"}}],
            [{"text": "Pushed to fix: 😀."}],
        ]}],
        "default": "nothing to do",
        "json_answer": {"risk": 3, "why": "small"},
    })
}

#[tokio::test]
async fn a_job_of_three_turns_runs_in_every_wire_format() {
    let lab = Lab::start(&scenario());
    for spec in ["anthropic/fake", "openai/fake", "openai-chat/fake", "gemini/fake", "compatible/fake", "ollama/fake"] {
        let address = lab.address.clone();
        let env = move |name: &str| match name {
            "ANTHROPIC_BASE_URL" | "GOOGLE_GEMINI_BASE_URL" => Some(format!("http://{address}")),
            "OPENAI_BASE_URL" | "HOOKWRIGHT_COMPATIBLE_BASE_URL" => Some(format!("http://{address}/v1")),
            "OLLAMA_HOST" => Some(address.clone()),
            "ANTHROPIC_API_KEY" | "OPENAI_API_KEY" | "GEMINI_API_KEY" => Some(KEY.to_owned()),
            _ => None,
        };
        let model = open(spec, &env, &quick()).unwrap();
        let mut asking = Asking { instructions: Some("Be quick."), ..Asking::user("Push the branch.") };
        let sink = Sink::default();
        let mut story = Vec::new();
        for _ in 0..3 {
            let turn = asking.ask(&*model, &sink).await.unwrap_or_else(|e| panic!("{spec}: {e}"));
            let calls: Vec<_> = turn.calls.iter().map(|c| format!("{} {}", c.tool, c.arguments)).collect();
            story.push((turn.text.clone(), calls, turn.stop));
            assert_eq!(turn.usage.map(|u| (u.input_tokens, u.output_tokens)), Some((10, 5)), "{spec}");
            asking.messages.push(message_of(&turn));
            asking.messages.extend(results_of(&turn, "denied: a push to main"));
        }
        let expected = vec![
            (
                Some("I look and push.".to_owned()),
                vec![r#"git.push {"branch":"main"}"#.to_owned(), r#"db.query {"sql":"select 1"}"#.to_owned()],
                StopReason::ToolCalls,
            ),
            (None, vec![r#"git.push {"branch":"fix"}"#.to_owned()], StopReason::ToolCalls),
            (Some("Pushed to fix: 😀.".to_owned()), vec![], StopReason::EndTurn),
        ];
        assert_eq!(story, expected, "{spec}");
        assert_eq!(sink.text(), "I look and push.Pushed to fix: 😀.", "{spec}");
        assert_eq!(sink.notices(), [""; 0], "{spec}");
    }
    let log = lab.log();
    let requests: Vec<&Value> = log.iter().filter(|l| l["m"] == "POST").collect();
    assert_eq!(requests.len(), 18);
    for last in requests.chunks(3).map(|c| c[2]) {
        assert_eq!(
            last["body"].to_string().matches("denied: a push to main").count(),
            3,
            "each call has its result: {last}"
        );
    }
}

#[tokio::test]
async fn an_output_with_a_schema_is_asked_for_where_it_is_understood() {
    let lab = Lab::start(&scenario());
    let address = lab.address.clone();
    let env = move |name: &str| match name {
        "GOOGLE_GEMINI_BASE_URL" => Some(format!("http://{address}")),
        _ => Some(KEY.to_owned()),
    };
    let model = open("gemini/gemini-3-flash", &env, &quick()).unwrap();
    let asking = Asking { output_schema: Some(output_schema()), ..Asking::user("Push?") };
    let turn = asking.ask(&*model, &Sink::default()).await.unwrap();
    assert_eq!(turn.text.as_deref(), Some(r#"{"risk": 3, "why": "small"}"#));
}

#[tokio::test]
async fn an_objection_of_a_lifecycle_hook_is_read_in_every_wire_format() {
    let lab = Lab::start(&scenario());
    let specs =
        ["anthropic/fake", "openai/fake", "openai-chat/fake", "gemini/gemini-3-fake", "compatible/fake", "ollama/fake"];
    for spec in specs {
        let address = lab.address.clone();
        let env = move |name: &str| match name {
            "ANTHROPIC_BASE_URL" | "GOOGLE_GEMINI_BASE_URL" => Some(format!("http://{address}")),
            "OPENAI_BASE_URL" | "HOOKWRIGHT_COMPATIBLE_BASE_URL" => Some(format!("http://{address}/v1")),
            "OLLAMA_HOST" => Some(address.clone()),
            "ANTHROPIC_API_KEY" | "OPENAI_API_KEY" | "GEMINI_API_KEY" => Some(KEY.to_owned()),
            _ => None,
        };
        let model = open(spec, &env, &quick()).unwrap();
        let mut asking = Asking::user("Push the branch.");
        let sink = Sink::default();
        for _ in 0..3 {
            let turn = asking.ask(&*model, &sink).await.unwrap_or_else(|e| panic!("{spec}: {e}"));
            asking.messages.push(message_of(&turn));
            asking.messages.extend(results_of(&turn, "pushed"));
        }
        let id = lifecycle::provider_id(Point::Stop, "job-1", 0, 0);
        let said = lifecycle::body(Point::Stop, "todo", "2 items are open", 16_384);
        asking.messages.push(assistant(None, vec![call(&id, "todo._Stop", json!({}))]));
        asking.messages.push(result(&id, "todo._Stop", json!(said), false));
        asking.ask(&*model, &sink).await.unwrap_or_else(|e| panic!("{spec}: {e}"));
    }
    let log = lab.log();
    let requests: Vec<&Value> = log.iter().filter(|l| l["m"] == "POST").collect();
    assert_eq!(requests.len(), 4 * specs.len());
    for last in requests.chunks(4).map(|c| c[3]) {
        assert_eq!(last["body"].to_string().matches("2 items are open").count(), 1, "{last}");
    }
}
