//! Examples and templates are whole: a manifest that the core takes, a README, events with what must come of them.

use crate::repository::{files, root, text};
use hookwright_core::manifest::{self, Source};
use serde_json::Value;

/// What the core has to say about a manifest.
fn problems(folder_name: &str, text: &str) -> Vec<String> {
    let source = Source { file: "plugin.yaml", folder_name };
    let found = match manifest::parse_bytes(text.as_bytes(), source) {
        Ok(parsed) => parsed.warnings,
        Err(found) => found,
    };
    found.iter().map(|diagnostic| format!("{folder_name}: {diagnostic:?}")).collect()
}

/// Folders of the tracked files with this name.
fn folders_of(name: &str) -> Vec<String> {
    let ends = format!("/{name}");
    files().iter().filter_map(|file| file.strip_suffix(&ends)).map(str::to_owned).collect()
}

#[test]
fn the_core_has_nothing_to_say_about_manifests_of_examples_and_templates() {
    let folders = folders_of("plugin.yaml");
    let ours = |place: &str| folders.iter().filter(|folder| folder.starts_with(place)).count();
    assert_eq!((ours("examples/"), ours("crates/cli/templates/")), (9, 3), "{folders:?}");
    let mut wrong = Vec::new();
    for folder in folders.iter().filter(|folder| folder.starts_with("examples/") || folder.contains("/templates/")) {
        let text = text(&format!("{folder}/plugin.yaml")).unwrap().replace("{{name}}", "guard");
        wrong.extend(problems(folder.rsplit('/').next().unwrap(), &text));
    }
    assert_eq!(wrong, [""; 0]);
    assert!(!problems("x", "hooks: [{ on: job_end, call: a.b, timeout: 31s }]").is_empty());
}

#[test]
fn every_plugin_has_a_readme_and_events_with_what_must_come_of_them_or_a_test_that_runs_it() {
    let tests = text("crates/cli/tests/it/examples.rs").unwrap();
    for folder in folders_of("plugin.yaml").iter().filter(|folder| folder.starts_with("examples/")) {
        assert!(root().join(folder).join("README.md").is_file(), "{folder}");
        if !text(&format!("{folder}/plugin.yaml")).unwrap().contains("\nhooks:") {
            // No policy hook, nothing to ask: its lifecycle hooks are seen in a job.
            let name = folder.rsplit('/').next().unwrap();
            assert!(tests.contains(&format!("bins::example(\"{name}\")")), "no test runs {folder}");
            continue;
        }
        let names: Vec<_> = files().into_iter().filter(|file| file.starts_with(&format!("{folder}/events/"))).collect();
        let expected: Vec<_> = names.iter().filter(|name| name.ends_with(".expected.json")).collect();
        assert!(!expected.is_empty() && names.len() == 2 * expected.len(), "{folder}: {names:?}");
        for name in expected {
            let event = name.replace(".expected.json", ".json");
            let [event, expected] =
                [&event, name].map(|file| serde_json::from_str::<Value>(&text(file).unwrap()).unwrap());
            let moment = event["event"].as_str().and_then(hookwright_core::event::Moment::from_name).unwrap();
            assert!(!event[moment.key()].is_null() && event["job"].is_string() && event["agent"].is_string(), "{name}");
            assert!(
                ["allow", "modify", "deny", "escalate"].map(Some).contains(&expected["verdict"].as_str()),
                "{name}"
            );
            assert!(expected["answers"].is_array(), "{name}");
        }
    }
}

/// Fenced blocks of a language in a Markdown text.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let start = format!("```{language}\n");
    text.split(&start).skip(1).filter_map(|rest| rest.split("\n```").next()).map(|block| format!("{block}\n")).collect()
}

#[test]
fn manifests_that_guides_show_are_good_ones() {
    let mut shown = 0;
    let mut wrong = Vec::new();
    for file in files().iter().filter(|file| {
        *file == "README.md"
            || (file.starts_with("docs/") && std::path::Path::new(file).extension().is_some_and(|e| e == "md"))
    }) {
        for block in blocks(&text(file).unwrap(), "yaml")
            .iter()
            .filter(|block| block.contains("id: ") && !block.contains("tenants:"))
        {
            let only_hooks = Source { file, folder_name: "guide" };
            // A manifest, or a piece of one: what it names need not be there.
            if let Err(found) = manifest::parse_bytes(block.as_bytes(), only_hooks) {
                wrong.extend(found.iter().map(|d| format!("{file}: {d:?}")));
            }
            shown += 1;
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert!(shown >= 6, "{shown}");
}

#[test]
fn the_hook_of_the_readme_is_the_one_of_the_guide_and_of_the_example() {
    let code = |text: &str| -> Vec<String> {
        let lines = text.lines().skip_while(|line| !line.starts_with("@server.tool()"));
        let body = lines.take_while(|line| !line.starts_with("if __name__"));
        body.map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
    };
    let of = |file: &str| code(&blocks(&text(file).unwrap(), "python")[0]);
    let readme = of("README.md");
    assert_eq!(readme.len(), 8);
    assert_eq!(readme, of("docs/hooks.md"));
    assert_eq!(readme, code(&text("examples/policy/policy/server.py").unwrap()));
}
