//! Configurations: what stands there stays, twice is once, and taking out restores.

use hookwright_bridge::install::{self, InstallError, Launch, Places, Scope, Shape, Target};
use hookwright_bridge::{Escalate, Harness, Moment};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn launch() -> Launch {
    Launch {
        program: PathBuf::from("/opt/it's here/hookwright"),
        store: PathBuf::from("/var/lib/hookwright/hookwright.db"),
        tenant: None,
        escalate: Escalate::Wait,
        deadline_s: None,
    }
}

fn places() -> Places {
    Places {
        home: PathBuf::from("/home/ada"),
        project: PathBuf::from("/home/ada/project"),
        root: PathBuf::from("/"),
        config: None,
        claude: None,
        codex: None,
        copilot: None,
    }
}

fn scopes(harness: Harness) -> Vec<(Scope, Vec<Target>)> {
    let all = [Scope::User, Scope::Project, Scope::Managed];
    all.into_iter().filter_map(|scope| Some((scope, install::targets(harness, scope, &places()).ok()?))).collect()
}

#[test]
fn every_harness_and_scope_is_written_as_these_goldens_say() {
    for harness in Harness::ALL.into_iter().filter(|harness| *harness != Harness::ClaudeAgentSdk) {
        let mut text = String::new();
        for (scope, targets) in scopes(harness) {
            for target in targets {
                let _ = writeln!(
                    text,
                    "## {scope:?}: {}{}",
                    target.path.display(),
                    if target.executable { " (executable)" } else { "" }
                );
                let is_written = scope == Scope::User || target.shape == Shape::Requirements;
                if is_written {
                    text += &install::with(harness, &target, None, &launch()).unwrap();
                }
            }
        }
        insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false}, {
            insta::assert_snapshot!(format!("install.{harness}"), text);
        });
    }
}

#[test]
fn twice_is_once_and_taking_out_leaves_nothing_where_nothing_was() {
    for harness in Harness::ALL {
        for (_, targets) in scopes(harness) {
            for target in targets {
                let once = install::with(harness, &target, None, &launch()).unwrap();
                let twice = install::with(harness, &target, Some(&once), &launch()).unwrap();
                assert_eq!(once, twice, "{harness} {}", target.path.display());
                assert_eq!(
                    install::without(harness, &target, &once).unwrap(),
                    None,
                    "{harness} {}",
                    target.path.display()
                );
            }
        }
    }
}

/// A file of somebody's with comments, odd blanks and hooks of their own.
const THEIRS: &str = r#"{
  // mine
  "model":   "opus",
  "hooks": {
    "PreToolUse": [
      { "matcher": "Bash", "hooks": [ {"type": "command", "command": "check.sh"} ] }
    ],
    "Notification": [ { "hooks": [ {"type": "command", "command": "bell.sh"} ] } ]
  },
  "permissions": { "allow": ["Read"] }
}
"#;

#[test]
fn what_stands_there_stays_byte_for_byte() {
    let target = &install::targets(Harness::ClaudeCode, Scope::User, &places()).unwrap()[0];
    let with = install::with(Harness::ClaudeCode, target, Some(THEIRS), &launch()).unwrap();
    for line in THEIRS.lines().filter(|line| line.trim().len() > 3) {
        assert!(with.contains(line.trim_end_matches(',')), "{line} is gone from\n{with}");
    }
    let theirs = with.find("check.sh").unwrap();
    assert!(theirs < with.find("bridge claude-code PreToolUse").unwrap(), "ours comes after theirs");
    assert_eq!(install::with(Harness::ClaudeCode, target, Some(&with), &launch()).unwrap(), with);
    let without = install::without(Harness::ClaudeCode, target, &with).unwrap().unwrap();
    for line in THEIRS.lines().filter(|line| line.trim().len() > 3) {
        assert!(without.contains(line.trim_end_matches(',')), "{line} is gone from\n{without}");
    }
    assert!(!without.contains("hookwright") && !without.contains("UserPromptSubmit"), "{without}");
}

#[test]
fn another_program_or_store_takes_the_place_of_the_older_entry() {
    for harness in Harness::ALL {
        for (_, targets) in scopes(harness) {
            for target in targets {
                let old = install::with(harness, &target, None, &launch()).unwrap();
                let moved = Launch { store: PathBuf::from("/other/store.db"), ..launch() };
                let new = install::with(harness, &target, Some(&old), &moved).unwrap();
                assert!(!new.contains("/var/lib/hookwright"), "{harness} {}\n{new}", target.path.display());
                assert_eq!(
                    new,
                    install::with(harness, &target, None, &moved).unwrap(),
                    "{harness} {}",
                    target.path.display()
                );
            }
        }
    }
}

#[test]
fn ours_between_others_hooks_of_one_entry_is_taken_out_alone() {
    let target = &install::targets(Harness::ClaudeCode, Scope::User, &places()).unwrap()[0];
    let line =
        install::commands(Harness::ClaudeCode, &launch()).into_iter().find(|(event, ..)| *event == "Stop").unwrap().2;
    let theirs = json!({"type": "command", "command": "bell.sh"});
    let mixed = json!({"hooks": {"Stop": [{"hooks": [theirs, {"type": "command", "command": line}]}]}}).to_string();
    let without = install::without(Harness::ClaudeCode, target, &mixed).unwrap().unwrap();
    let without: Value = serde_json::from_str(&without).unwrap();
    assert_eq!(without, json!({"hooks": {"Stop": [{"hooks": [theirs]}]}}));
}

#[test]
fn what_cant_be_understood_is_an_error_and_stays() {
    let target = &install::targets(Harness::ClaudeCode, Scope::User, &places()).unwrap()[0];
    for text in ["{", "[]", "3", r#"{"hooks": []}"#, r#"{"hooks": {"Stop": {}}}"#, "{'hooks': {}}"] {
        let result = install::with(Harness::ClaudeCode, target, Some(text), &launch());
        assert!(matches!(result, Err(InstallError::Foreign(_))), "{text}: {result:?}");
    }
    let cline = &install::targets(Harness::Cline, Scope::User, &places()).unwrap()[0];
    let result = install::with(Harness::Cline, cline, Some("#!/bin/sh\necho mine\n"), &launch());
    assert!(matches!(result, Err(InstallError::Foreign(_))), "{result:?}");
    let kept = install::without(Harness::Cline, cline, "#!/bin/sh\necho mine\n").unwrap();
    assert_eq!(kept.as_deref(), Some("#!/bin/sh\necho mine\n"));
}

#[test]
fn requirements_of_an_administrator_stay() {
    let theirs = "# ours\nallowed_sandbox_modes = [\"read-only\"]\n\n[hooks]\nmanaged_dir = \"/etc/codex/hooks\"\n\n[[hooks.PreToolUse]]\nmatcher = \"Bash\"\n\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = \"/etc/codex/hooks/a.sh\"\n";
    let target = &install::targets(Harness::Codex, Scope::Managed, &places()).unwrap()[0];
    let with = install::with(Harness::Codex, target, Some(theirs), &launch()).unwrap();
    assert!(with.starts_with(theirs.split("[[hooks").next().unwrap()) && with.contains("a.sh"), "{with}");
    assert_eq!(install::with(Harness::Codex, target, Some(&with), &launch()).unwrap(), with);
    assert_eq!(install::without(Harness::Codex, target, &with).unwrap().as_deref(), Some(theirs));
}

#[test]
fn codex_trust_is_written_beside_what_stands_there_and_taken_back() {
    let theirs = "model = \"x\" # mine\n\n[hooks.state.\"/other:stop:0:0\"]\ntrusted_hash = \"sha256:1\"\n";
    let key = "/home/ada/.codex/hooks.json:pre_tool_use:0:0".to_owned();
    let trusted = [(key.clone(), "sha256:2".to_owned())];
    let with = install::with_trust(Some(theirs), &trusted).unwrap();
    assert!(with.starts_with(theirs) && with.contains("sha256:2"), "{with}");
    assert_eq!(install::with_trust(Some(&with), &trusted).unwrap(), with);
    assert_eq!(install::without_trust(&with, std::slice::from_ref(&key)).unwrap().as_deref(), Some(theirs));
    let alone = install::with_trust(None, &trusted).unwrap();
    assert_eq!(install::without_trust(&alone, &[key]).unwrap(), None);
}

#[test]
fn the_state_of_codex_hooks_is_found_by_file_event_and_place() {
    let target = &install::targets(Harness::Codex, Scope::User, &places()).unwrap()[0];
    let theirs = r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]}}"#;
    let text = install::with(Harness::Codex, target, Some(theirs), &launch()).unwrap();
    let keys = install::state_keys("/f", &text);
    assert!(
        keys.contains(&"/f:pre_tool_use:1:0".to_owned()) && keys.contains(&"/f:post_tool_use:0:0".to_owned()),
        "{keys:?}"
    );
}

#[test]
fn the_bridge_gives_up_before_the_harness_does() {
    for harness in Harness::ALL {
        for deadline_s in [None, Some(1), Some(30), Some(3600)] {
            let launch = Launch { deadline_s, ..launch() };
            for (_, moment, _) in install::commands(harness, &launch) {
                let (timeout, wait) = (launch.timeout_s(harness, moment), launch.wait_s(harness, moment));
                assert!(0 < wait && wait < timeout, "{harness} {moment:?} {deadline_s:?}: {wait} of {timeout}");
            }
        }
    }
}

/// What a shell makes of a line, with a program in the place of ours.
fn shell(line: &str, program: &str) -> (String, String, Option<i32>) {
    let line = line.replacen("'/opt/it'\\''s here/hookwright'", program, 1);
    let output = std::process::Command::new("/bin/sh").args(["-c", &line]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
fn a_program_that_is_missing_or_killed_is_a_no_of_the_line_itself_and_its_own_words_pass() {
    for harness in Harness::ALL {
        let (event, _, line) =
            install::commands(harness, &launch()).into_iter().find(|(_, moment, _)| *moment == Moment::Before).unwrap();
        for broken in ["/nowhere/hookwright", "sh -c 'kill -9 $$' hookwright", "sh -c 'exit 1' hookwright"] {
            let (out, _, code) = shell(&line, broken);
            assert!(hookwright_bridge::denies(harness, event, &out, code), "{harness}: {broken}: {out} {code:?}");
        }
        let (out, err, code) = shell(&line, "sh -c 'echo mine; exit 0' hookwright");
        assert_eq!((out.as_str(), err.as_str(), code), ("mine\n", "", Some(0)), "{harness}");
    }
    let (_, _, line) = install::commands(Harness::Codex, &launch())
        .into_iter()
        .find(|(_, moment, _)| *moment == Moment::Before)
        .unwrap();
    let (out, err, code) = shell(&line, "sh -c 'echo no; echo why >&2; exit 2' hookwright");
    assert_eq!((out.as_str(), err.as_str(), code), ("no\n", "why\n", Some(2)));
}

#[test]
fn a_path_with_a_quote_reaches_the_program_as_one_word() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("it's $HOME `x`").join("hookwright");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::write(&program, "#!/bin/sh\necho \"$#\"\n").unwrap();
    let mut rights = std::fs::metadata(&program).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0o755);
    std::fs::set_permissions(&program, rights).unwrap();
    let launch = Launch { program: program.clone(), ..launch() };
    let (_, _, line) =
        install::commands(Harness::Codex, &launch).into_iter().find(|(event, ..)| *event == "Stop").unwrap();
    let output = std::process::Command::new("/bin/sh").args(["-c", &line]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "7\n", "{line}");
    assert!(Path::new("/bin/sh").exists());
}
