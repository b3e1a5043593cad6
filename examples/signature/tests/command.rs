//! The command as people use it: make a key, sign through MCP, verify, find a change.

#![expect(clippy::unwrap_used, reason = "what a helper cannot do fails its test")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn signer(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hookwright-signer"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("SIGNER_KEY_FILE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that ends before it reads its input is fine.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const CONVERSATION: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n",
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"sign","arguments":{"event":{"event":"job_end","job":"job-1","agent":"reviewer","output":"Fine.","tenant":"default"}}}}"#,
    "\n",
);

#[test]
fn an_output_signed_through_mcp_verifies_and_a_changed_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let made = signer(folder.path(), &["keygen", "--secret", "secret.key", "--public", "public.key"], "");
    assert!(made.status.success(), "{}", text(&made.stderr));

    let served = signer(folder.path(), &["serve", "--secret-key", "secret.key"], CONVERSATION);
    let answers: Vec<serde_json::Value> =
        text(&served.stdout).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let answer = &answers.iter().find(|a| a["id"] == 2).unwrap()["result"]["structuredContent"];
    assert_eq!(answer["decision"], "modify");
    let output = answer["output"].as_str().unwrap();

    let good = signer(folder.path(), &["verify", "--public-key", "public.key"], &format!("{output}\n"));
    assert!(good.status.success(), "{}", text(&good.stderr));
    assert!(text(&good.stdout).starts_with(r#"good signature: job "job-1", agent "reviewer", key "#));
    let plain = signer(folder.path(), &["verify", "--public-key", "public.key", "--text"], output);
    assert_eq!(text(&plain.stdout), "Fine.");

    let changed = signer(folder.path(), &["verify", "--public-key", "public.key"], &output.replace("Fine", "Bad"));
    assert_eq!(changed.status.code(), Some(1));
    assert!(text(&changed.stdout).is_empty() && text(&changed.stderr).contains("was changed"));
}

#[test]
fn a_server_without_its_key_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let missing = signer(folder.path(), &["serve", "--secret-key", "none.key"], "");
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("none.key"));
}
