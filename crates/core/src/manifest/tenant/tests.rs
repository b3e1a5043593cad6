use super::*;
use crate::diagnostic::{Palette, render_all};
use crate::manifest::{Source, parse};

fn plugin(file: &str, text: &str) -> Parsed {
    parse(text, Source { file, folder_name: file })
        .unwrap_or_else(|found| panic!("{}", render_all(&found, &Palette::PLAIN)))
}

fn said(found: &[Diagnostic]) -> Vec<String> {
    let one = |d: &Diagnostic| {
        let hint = d.hint.as_deref().unwrap_or("-");
        format!("{}:{}:{} {} {} | {hint}", d.file, d.line, d.column, d.severity.word(), d.code)
    };
    found.iter().map(one).collect()
}

const POLICY: &str = "
tools: [{ id: policy, mcp: [a] }]
hooks:
  - { on: pre_tool_call, call: policy.check, match: { tools: [github.merge] } }
";
const GITHUB: &str = "
tools: [{ id: github, mcp: [a], idempotent: [get] }]
agents:
  - { id: reviewer, model: p/m, tools: [github, policy.check], subagents: [writer] }
  - { id: writer, model: p/m }
";

#[test]
fn plugins_that_fit_together_give_nothing() {
    assert_eq!(said(&check(&[&plugin("a", POLICY), &plugin("b", GITHUB)])), Vec::<String>::new());
    assert!(check(&[]).is_empty());
}

#[test]
fn ids_are_unique_within_a_tenant() {
    let a = plugin("a", "id: x\ntools: [{ id: t, mcp: [a] }]\nagents: [{ id: g, model: p/m }]");
    let b = plugin("b", "id: x\ntools:\n  - id: t\n    mcp: [a]\nagents:\n  - id: g\n    model: p/m");
    let found = check(&[&a, &b]);
    let hint = |kind: &str| format!("{kind} ids are unique within a tenant: rename one, or leave its plugin out");
    assert_eq!(
        said(&found),
        [
            format!("b:1:5 error duplicate-id | {}", hint("plugin")),
            format!("b:3:9 error duplicate-id | {}", hint("tool")),
            format!("b:6:9 error duplicate-id | {}", hint("agent")),
        ]
    );
    assert!(found[1].message.ends_with("the first is in a:2"), "{}", found[1].message);
}

#[test]
fn a_hooks_tool_may_be_another_plugins_but_must_exist() {
    let hooks = "hooks:\n  - { on: job_end, call: polcy.check }\n  - { on: job_end, call: nothing.check }";
    let found = check(&[&plugin("a", POLICY), &plugin("b", hooks)]);
    assert_eq!(
        said(&found),
        [
            "b:2:26 error unknown-tool | did you mean `policy.check`?",
            "b:3:26 error unknown-tool | the tools are policy",
        ]
    );
    assert_eq!(check(&[&plugin("b", hooks)])[0].hint.as_deref(), Some("there are no tools"));
}

#[test]
fn an_agents_tools_and_subagents_exist() {
    let text = "
agents:
  - id: a
    model: p/m
    tools: [githb, githb.merge, \"githb.*\", \"*hub.x\", github.what, claude-code.Bash, agent.start]
    subagents: [reviewr, a]
  - { id: h, harness: claude-code, tools: [claude-code.Bash] }
";
    let found = check(&[&plugin("a", POLICY), &plugin("b", GITHUB), &plugin("c", text)]);
    assert_eq!(
        said(&found),
        [
            "c:5:13 error unknown-tool | did you mean `github`?",
            "c:5:20 error unknown-tool | did you mean `github.merge`?",
            "c:5:33 error unknown-tool | did you mean `github.*`?",
            "c:5:67 error unknown-tool | the tools are github, policy",
            "c:6:17 error unknown-agent | did you mean `reviewer`?",
        ]
    );
}

#[test]
fn a_pattern_that_fits_no_agent_is_a_warning() {
    let text = "
hooks:
  - { on: job_end, call: policy.check, match: { agents: [reviewer, revewer, \"rev*\", \"x*\", Reviewer] } }
";
    let found = check(&[&plugin("a", POLICY), &plugin("b", GITHUB), &plugin("c", text)]);
    assert_eq!(
        said(&found),
        [
            "c:3:68 warning pattern-fits-nothing | did you mean `reviewer`?",
            "c:3:85 warning pattern-fits-nothing | the agents are reviewer, writer",
            "c:3:91 warning pattern-fits-nothing | did you mean `reviewer`?",
        ]
    );
}

fn live(entries: &[(&str, Result<&[&str], &str>)]) -> Listed {
    let own = |listed: &Result<&[&str], &str>| match listed {
        Ok(names) => Ok(names.iter().map(|name| (*name).to_owned()).collect()),
        Err(why) => Err((*why).to_owned()),
    };
    entries.iter().map(|(id, listed)| ((*id).to_owned(), own(listed))).collect()
}

#[test]
fn call_names_a_function_that_the_tool_really_lists() {
    let (a, b) = (plugin("a", POLICY), plugin("b", GITHUB));
    let good = live(&[("policy", Ok(&["check"])), ("github", Ok(&["merge", "get"]))]);
    assert_eq!(said(&check_live(&[&a, &b], &good)), Vec::<String>::new());
    let bad = live(&[("policy", Ok(&["chekc", "other"])), ("github", Ok(&["merge", "get"]))]);
    assert_eq!(said(&check_live(&[&a, &b], &bad))[0], "a:4:32 error unknown-function | did you mean `policy.chekc`?");
    let none = live(&[("policy", Ok(&[])), ("github", Ok(&["merge", "get"]))]);
    assert_eq!(said(&check_live(&[&a, &b], &none))[0], "a:4:32 error unknown-function | there are no functions");
}

#[test]
fn a_tool_that_can_t_be_asked_is_an_error_and_makes_its_patterns_unknown() {
    let (a, b) = (plugin("a", POLICY), plugin("b", GITHUB));
    let listed = live(&[("policy", Ok(&["check"])), ("github", Err("did not start within 30s\u{1b}[31m"))]);
    let found = check_live(&[&a, &b], &listed);
    assert_eq!(
        said(&found),
        ["b:2:28 error tool-failed | until it can, its hooks fail for every event that they match"]
    );
    assert!(found[0].message.contains("did not start within 30s\\u{1b}[31m"), "{}", found[0].message);
    // One that was not looked at says nothing.
    assert!(check_live(&[&a, &b], &Listed::new()).is_empty());
}

#[test]
fn a_tool_pattern_that_fits_no_known_function_is_a_warning_by_name() {
    let text = "
hooks:
  - on: pre_tool_call
    call: policy.check
    match:
      tools:
        - github.merge
        - github.mergee
        - gitlab.*
        - github.*
        - \"*\"
        - \"*.merge\"
        - claude-agent-sdk.Bash
        - \"codex.*\"
        - agent.start
        - Github.merge
        - github._Stop
        - nothing
";
    let (a, b, c) = (plugin("a", "tools: [{ id: policy, mcp: [a] }]"), plugin("b", GITHUB), plugin("c", text));
    assert_eq!(c.warnings.len(), 1, "`nothing` is warned of when the file is read, and not again");
    let listed = live(&[("policy", Ok(&["check"])), ("github", Ok(&["merge", "get", "_Stop"]))]);
    assert_eq!(
        said(&check_live(&[&a, &b, &c], &listed)),
        [
            "c:8:11 warning pattern-fits-nothing | did you mean `github.merge`?",
            "c:9:11 warning pattern-fits-nothing | -",
            "c:16:11 warning pattern-fits-nothing | did you mean `github.merge`?",
            "c:17:11 warning pattern-fits-nothing | did you mean `github.get`?",
        ]
    );
}

#[test]
fn idempotent_names_and_lifecycle_names_are_compared() {
    let text = "tools:\n  - id: todo\n    mcp: [a]\n    idempotent: [list, lst, todo.list]";
    let listed = live(&[("todo", Ok(&["list", "_Stop", "_stop", "_Foo\u{202e}"]))]);
    let found = check_live(&[&plugin("a", text)], &listed);
    assert_eq!(
        said(&found),
        [
            "a:4:24 warning unknown-function | did you mean `list`?",
            "a:4:29 warning unknown-function | write the bare name, `list`",
            "a:2:9 info unknown-lifecycle | did you mean `_Stop`?",
            "a:2:9 info unknown-lifecycle | -",
        ]
    );
    assert!(found[3].message.contains("_Foo\\u{202e}"));
}

#[test]
fn an_agents_full_names_are_compared() {
    let text = "
tools: [{ id: github, mcp: [a] }]
agents: [{ id: a, model: p/m, tools: [github, github.merge, github.merg, \"github.pu*\"] }]
";
    let listed = live(&[("github", Ok(&["merge", "get"]))]);
    assert_eq!(
        said(&check_live(&[&plugin("a", text)], &listed)),
        [
            "a:3:61 warning pattern-fits-nothing | did you mean `github.merge`?",
            "a:3:74 warning pattern-fits-nothing | did you mean `github.get`?",
        ]
    );
}

#[test]
fn could_fit_is_true_exactly_where_some_longer_name_fits() {
    for (pattern, prefix, expected) in [
        ("*", "a.", true),
        ("a.*", "a.", true),
        ("a.b", "a.", true),
        ("a.", "a.", false),
        ("a", "a.", false),
        ("b.*", "a.", false),
        ("*b", "a.", true),
        ("a*", "a.", true),
        ("*.b", "a.", true),
        ("a*x.b", "a.", true),
        ("", "a.", false),
        ("ab.*", "a.", false),
    ] {
        assert_eq!(could_fit(pattern, prefix), expected, "{pattern} {prefix}");
    }
}

proptest::proptest! {
    #[test]
    fn what_fits_a_name_could_fit_its_tool(pattern in "[ab.*]{0,8}", tool in "[ab]{1,3}", function in "[ab.]{1,4}") {
        let fits = pattern_fits(&pattern, &format!("{tool}.{function}"));
        let could = could_fit(&pattern, &format!("{tool}."));
        proptest::prop_assert!(!fits || could);
    }
}

#[test]
fn problems_across_plugins_are_bounded_for_each_file() {
    let text = format!("hooks:\n{}", "  - { on: job_end, call: nothing.check }\n".repeat(10_000));
    let start = std::time::Instant::now();
    let found = check(&[&plugin("a", &text), &plugin("b", POLICY)]);
    assert_eq!(found.len(), 101);
    assert_eq!((found[100].code, found[100].severity), (Code::MoreProblems, Severity::Error));
    assert!(found[100].message.starts_with("9900 "), "{}", found[100].message);
    assert!(start.elapsed() < std::time::Duration::from_secs(30));
}
