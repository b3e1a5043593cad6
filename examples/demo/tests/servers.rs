//! The demo's servers as a host meets them: child processes that speak MCP.

#![expect(clippy::unwrap_used, reason = "what a helper cannot do fails its test")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    requests: u64,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hookwright-demo"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut server = Self { child, stdin, stdout, requests: 0 };
        let client =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        server.request("initialize", client);
        server.write(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    fn write(&mut self, message: Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.requests += 1;
        self.write(json!({"jsonrpc": "2.0", "id": self.requests, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the server ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == self.requests {
                return message["result"].clone();
            }
        }
    }

    /// The text of a result, and whether it is an error.
    fn call(&mut self, name: &str, arguments: Value) -> (String, bool) {
        let result = self.request("tools/call", json!({"name": name, "arguments": arguments}));
        (result["content"][0]["text"].as_str().unwrap_or_default().to_owned(), result["isError"] == true)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn prepared() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let demo = folder.path().join("demo");
    let made = Command::new(env!("CARGO_BIN_EXE_hookwright-demo")).arg("prepare").arg(&demo).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let server = Server::start(&["git", "--repository", demo.join("work").to_str().unwrap()]);
    (folder, server)
}

fn branches(remote: &Path) -> Vec<String> {
    let heads = std::fs::read_dir(remote.join("refs/heads")).unwrap();
    let mut names: Vec<_> = heads.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_change_is_committed_and_pushed() {
    let (folder, mut git) = prepared();
    let head = folder.path().join("demo/origin.git/refs/heads/main");
    let before = std::fs::read_to_string(&head).unwrap();
    assert_eq!(git.call("status", json!({})).0.trim_end(), "## main...origin/main");
    assert!(!git.call("write_file", json!({"path": "greeting.txt", "text": "Hello\n"})).1);
    assert_eq!(git.call("read_file", json!({"path": "greeting.txt"})), ("Hello\n".to_owned(), false));
    assert!(git.call("diff", json!({})).0.contains("+Hello"));
    let (committed, failed) = git.call("commit", json!({"message": "Say hello\n\nAgent: a"}));
    assert!(!failed && committed.contains("Say hello") && committed.contains("Agent: a"), "{committed}");
    assert_eq!(
        git.call("push", json!({"remote": "origin", "branch": "main"})),
        ("pushed main to origin".to_owned(), false)
    );
    assert_ne!(std::fs::read_to_string(&head).unwrap(), before);
    assert_eq!(git.call("log", json!({"count": 1})).0.lines().count(), 1);
}

#[test]
fn a_branch_is_deleted_only_by_its_plain_name() {
    let (folder, mut git) = prepared();
    let remote = folder.path().join("demo/origin.git");
    assert!(git.call("delete_branch", json!({"remote": "origin", "branch": "refs/heads/release"})).1);
    assert_eq!(branches(&remote), ["main", "release"]);
    assert!(!git.call("delete_branch", json!({"remote": "origin", "branch": "release"})).1);
    assert_eq!(branches(&remote), ["main"]);
}

#[test]
fn hostile_arguments_are_results_that_say_no_and_change_nothing() {
    let (folder, mut git) = prepared();
    let outside = folder.path().join("outside.git");
    for (name, arguments) in [
        ("push", json!({"remote": outside.to_str().unwrap(), "branch": "main"})),
        ("push", json!({"remote": "https://example.invalid/x.git", "branch": "main"})),
        ("push", json!({"remote": "--receive-pack=touch x", "branch": "main"})),
        ("push", json!({"remote": "origin", "branch": "--mirror"})),
        ("push", json!({"remote": "origin", "branch": "+main"})),
        ("push", json!({"remote": "origin", "branch": "none"})),
        ("push", json!({"remote": "upstream", "branch": "main"})),
        ("write_file", json!({"path": ".git/hooks/pre-commit", "text": "#!/bin/sh"})),
        ("write_file", json!({"path": "../outside", "text": "x"})),
        ("read_file", json!({"path": "/etc/hostname"})),
        ("commit", json!({"message": " \n"})),
        ("commit", json!({"message": "nothing to commit"})),
    ] {
        let (text, failed) = git.call(name, arguments.clone());
        assert!(failed && !text.is_empty(), "{name} {arguments}: {text}");
    }
    assert!(!outside.exists() && !folder.path().join("demo/outside").exists());
    assert_eq!(branches(&folder.path().join("demo/origin.git")), ["main", "release"]);
}

#[test]
fn without_a_repository_the_server_starts_and_says_how_to_make_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut git = Server::start(&["git", "--repository", folder.path().to_str().unwrap()]);
    let (text, failed) = git.call("status", json!({}));
    assert!(failed && text.contains("hookwright-demo prepare"), "{text}");
}

#[test]
fn hooks_answer_as_structured_content() {
    let mut guard = Server::start(&["guard"]);
    let event = json!({"event": "pre_tool_call", "job": "j", "agent": "a", "tool": "git.push", "arguments": {"remote": "origin", "branch": "main"}});
    let asked = guard.request("tools/call", json!({"name": "push_policy", "arguments": {"event": event}}));
    assert_eq!(asked["structuredContent"], json!({"decision": "escalate", "reason": "a push to main"}));
    let end = json!({"event": "job_end", "job": "j", "agent": "a", "output": "Done."});
    let signed = guard.request("tools/call", json!({"name": "sign", "arguments": {"event": end}}));
    assert!(signed["structuredContent"]["output"].as_str().unwrap().ends_with("-----END HOOKWRIGHT SIGNATURE-----"));
}
