//! The goldens of the request bodies, against the official SDKs' own request types.
//!
//! `cargo xtask test` makes a Python environment from `tests/sdk_check/requirements.txt` and names its folder in
//! `HOOKWRIGHT_TEST_TOOLS`; without the variable there are no SDKs to check against.

use std::path::Path;
use std::process::Command;

#[test]
fn every_golden_body_is_what_the_official_sdks_would_send() {
    #[allow(clippy::disallowed_methods)] // set by xtask
    let Some(tools) = std::env::var_os("HOOKWRIGHT_TEST_TOOLS") else { return };
    let python = Path::new(&tools).join("venv/bin/python");
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let output = Command::new(&python)
        .arg(here.join("sdk_check/check_bodies.py"))
        .arg(here.join("it/snapshots"))
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}", python.display()));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    for (provider, least) in
        [("anthropic", 4), ("openai", 4), ("openai_chat", 3), ("gemini", 3), ("gemini3", 5), ("compatible", 4)]
    {
        let count = out.lines().filter(|l| l.starts_with(&format!("ok {provider} "))).count();
        assert!(count >= least, "{count} bodies of {provider} were checked:\n{out}");
    }
}
