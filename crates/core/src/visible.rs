//! Which functions an agent's model may see and call (SPEC §2).
//!
//! Invariant: a function whose bare name starts with `_` is hidden from every model.

use crate::job::{AgentSpec, JobSpec};
use crate::name::{FunctionName, pattern_fits};
use crate::subagent;

/// The tools of which a model may see functions, among these.
pub fn tools<'a>(agent: &AgentSpec, all: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    all.into_iter()
        .filter(|tool| match &agent.tools {
            _ if *tool == subagent::TOOL => !agent.subagents.is_empty(),
            None => agent.own_tools.iter().any(|t| t == tool),
            Some(entries) => entries.iter().any(|e| match e.split_once('.') {
                Some((pattern, _)) => pattern_fits(pattern, tool) || pattern.contains('*'),
                None => pattern_fits(e, tool),
            }),
        })
        .collect()
}

/// Whether the job's model may see and call a function.
///
/// The built-in function that starts a subagent is seen where the agent names some and the job is not nested too deep. Hidden are lifecycle functions, and functions that any hook names under `call` unless the agent lists them by full name.
pub fn sees(spec: &JobSpec, name: &FunctionName) -> bool {
    if name.is_lifecycle() {
        return false;
    }
    if name.tool() == subagent::TOOL {
        // To name the agents is to let it start them: `tools` need not list the function too.
        return subagent::is_start(name) && subagent::may_start(spec);
    }
    let full = name.to_string();
    let listed = |entry: &String| {
        if entry.contains('.') { pattern_fits(entry, &full) } else { pattern_fits(entry, name.tool()) }
    };
    match &spec.agent.tools {
        Some(entries) if entries.contains(&full) => true,
        _ if spec.hook_functions.contains(&full) => false,
        Some(entries) => entries.iter().any(listed),
        None => spec.agent.own_tools.iter().any(|t| t == name.tool()),
    }
}

/// Whether an agent that makes its calls itself may make one of this name: what its `tools` says, else everything that its harness has.
///
/// `readings`: all ways in which the name can be read as one of an MCP server. An allowlist fits where *every* reading is on it: which one is
/// meant is not known, and a server's name that begins as another's must not do. (A hook watches where *any* reading fits.)
pub fn may_make<'a>(agent: &AgentSpec, name: &str, readings: impl IntoIterator<Item = &'a str>) -> bool {
    let Some(entries) = &agent.tools else { return true };
    let fits = |entry: &String, name: &str| {
        let tool = name.split_once('.').map_or(name, |(tool, _)| tool);
        if entry.contains('.') { pattern_fits(entry, name) } else { pattern_fits(entry, tool) }
    };
    let listed = |name: &str| entries.iter().any(|entry| fits(entry, name));
    let mut readings = readings.into_iter().peekable();
    listed(name) || (readings.peek().is_some() && readings.all(listed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests_spec;

    fn spec(tools: Option<&[&str]>) -> JobSpec {
        let mut spec = tests_spec(vec![]);
        spec.agent.tools = tools.map(|t| t.iter().map(|s| (*s).to_owned()).collect());
        spec.agent.own_tools = vec!["git".into(), "policy".into()];
        spec.hook_functions = vec!["policy.check".into()];
        spec
    }

    #[test]
    fn a_harness_may_make_the_calls_that_its_tools_name_or_all() {
        let agent = |tools: Option<&[&str]>| spec(tools).agent;
        let own = "claude-agent-sdk.mcp__git__push";
        for (tools, may) in [
            (None, true),
            (Some(&["git"][..]), true),
            (Some(&["git.push"][..]), true),
            (Some(&["claude-agent-sdk"][..]), true),
            (Some(&["claude-agent-sdk.mcp__git__*"][..]), true),
            (Some(&["claude-agent-sdk.Read", "web"][..]), false),
            (Some(&[][..]), false),
        ] {
            assert_eq!(may_make(&agent(tools), own, ["git.push"]), may, "{tools:?}");
        }
        assert!(!may_make(&agent(Some(&["git"])), "codex.Bash", []), "a call without a reading");
    }

    #[test]
    fn a_name_that_can_be_read_in_several_ways_is_allowed_where_all_are() {
        let agent = |tools: &[&str]| spec(Some(tools)).agent;
        let (own, readings) = ("codex.mcp__git__x__push", ["git.x__push", "git__x.push"]);
        for (tools, may) in [
            (&["git"][..], false),
            (&["git__x"][..], false),
            (&["git.x__*"][..], false),
            (&["git", "git__x"][..], true),
            (&["git*"][..], true),
            (&["codex.mcp__git__x__push"][..], true),
            (&["*"][..], true),
        ] {
            assert_eq!(may_make(&agent(tools), own, readings), may, "{tools:?}");
        }
    }

    #[test]
    fn an_agent_sees_what_it_lists_or_its_own_plugins_functions() {
        for (tools, name, sees_it) in [
            (None, "git.push", true),
            (None, "web.get", false),
            (None, "policy.check", false),
            (None, "git._Stop", false),
            (Some(&["git"][..]), "git.push", true),
            (Some(&["git"][..]), "git2.push", false),
            (Some(&["git.p*"][..]), "git.push", true),
            (Some(&["git.p*"][..]), "git.log", false),
            (Some(&["*"][..]), "web.get", true),
            (Some(&["*"][..]), "policy.check", false),
            (Some(&["policy.*"][..]), "policy.check", false),
            (Some(&["policy.check"][..]), "policy.check", true),
            (Some(&["git._Stop", "*"][..]), "git._Stop", false),
            (Some(&[][..]), "git.push", false),
        ] {
            let name = FunctionName::parse(name).unwrap();
            assert_eq!(sees(&spec(tools), &name), sees_it, "{tools:?} {name}");
        }
    }

    #[test]
    fn who_names_subagents_sees_the_function_that_starts_them_down_to_the_depth_limit() {
        let start = FunctionName::parse("agent.start").unwrap();
        for tools in [None, Some(&["*"][..]), Some(&["agent.start"]), Some(&[])] {
            let mut spec = spec(tools);
            assert!(!sees(&spec, &start), "{tools:?}");
            assert!(!super::tools(&spec.agent, ["agent"]).contains(&"agent"), "{tools:?}");
            spec.agent.subagents =
                vec![subagent::SubagentSpec { id: "writer".into(), description: None, input_schema: None }];
            for depth in 0..5 {
                spec.parent_jobs = (0..depth).map(|i| format!("job_{i}")).collect();
                assert_eq!(sees(&spec, &start), depth < 3, "{tools:?} {depth}");
            }
            assert!(!sees(&spec, &FunctionName::parse("agent.stop").unwrap()));
            assert_eq!(super::tools(&spec.agent, ["agent"]), ["agent"]);
        }
    }

    #[test]
    fn tools_that_may_hold_visible_functions_are_found() {
        let all = ["git", "web", "policy"];
        assert_eq!(super::tools(&spec(None).agent, all), ["git", "policy"]);
        assert_eq!(super::tools(&spec(Some(&["w*"])).agent, all), ["web"]);
        assert_eq!(super::tools(&spec(Some(&["web.get"])).agent, all), ["web"]);
        assert_eq!(super::tools(&spec(Some(&["*b.get"])).agent, all).len(), 3);
    }
}
