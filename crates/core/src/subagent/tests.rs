use super::*;
use crate::job::tests_spec;

fn spec(agents: &[(&str, Option<&str>, Option<Value>)]) -> JobSpec {
    let mut spec = tests_spec(vec![]);
    spec.agent.subagents = agents
        .iter()
        .map(|(id, description, schema)| SubagentSpec {
            id: (*id).to_owned(),
            description: description.map(str::to_owned),
            input_schema: schema.clone().map(Stored::inline),
        })
        .collect();
    spec
}

fn schemas(spec: &JobSpec) -> Vec<Option<Value>> {
    let full = |s: &Stored| (**s.value.as_ref().unwrap()).clone();
    spec.agent.subagents.iter().map(|a| a.input_schema.as_ref().map(full)).collect()
}

fn counts() -> Value {
    json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}})
}

#[test]
fn the_child_of_a_call_is_the_same_job_at_each_attempt_and_another_for_each_call_and_parent() {
    let first = child_job("job_a", "t1.c0");
    assert_eq!(first, "job_5c0effaec3aec9c7");
    assert_eq!(first, child_job("job_a", "t1.c0"));
    for other in [child_job("job_a", "t1.c1"), child_job("job_b", "t1.c0"), child_job("job_a\nt1.c0", "")] {
        assert_ne!(first, other);
        assert!(other.len() == 20 && other.starts_with("job_"));
    }
}

#[test]
fn the_function_names_the_agents_and_what_they_take() {
    let text = spec(&[("writer", Some("Writes things."), None), ("reader", None, None)]);
    let told = function(&text, &schemas(&text)).unwrap();
    assert_eq!(told.name, "agent.start");
    let schema = &told.input_schema;
    assert_eq!(schema["properties"]["agent"]["enum"], json!(["writer", "reader"]));
    assert_eq!(schema["properties"]["agent"]["description"], "Which agent:\n- writer: Writes things.\n- reader");
    assert_eq!(schema["properties"]["input"]["type"], "string");
    for (value, fits) in [
        (json!({"agent": "writer", "input": "x"}), true),
        (json!({"agent": "other", "input": "x"}), false),
        (json!({"agent": "writer", "input": 1}), false),
        (json!({"agent": "writer"}), false),
        (json!({"agent": "writer", "input": "x", "more": 1}), false),
    ] {
        assert_eq!(crate::event::against(schema, &value).is_ok(), fits, "{value}");
    }

    let mixed = spec(&[("writer", None, None), ("counter", None, Some(counts()))]);
    let schema = function(&mixed, &schemas(&mixed)).unwrap().input_schema;
    assert_eq!(schema["properties"]["input"]["type"], json!(["object", "string"]));
    let told = schema["properties"]["input"]["description"].as_str().unwrap();
    assert!(told.contains("- writer takes text\n- counter takes JSON that fits {\"properties\":{\"n\""), "{told}");
    let schema = function(&mixed, &[None, None]).unwrap().input_schema;
    assert!(schema["properties"]["input"].get("type").is_none(), "what is not known is left open");
}

#[test]
fn an_agents_own_words_are_bounded() {
    let long = "x".repeat(100_000);
    let schema = json!({"type": "object", "title": long});
    let spec = spec(&[("writer", Some(&long), Some(schema))]);
    let told = function(&spec, &schemas(&spec)).unwrap();
    assert!(told.input_schema.to_string().len() < 8_000);
}

#[test]
fn subagents_nest_as_deep_as_the_limit_says() {
    let mut spec = spec(&[("writer", None, None)]);
    for (limit, parents, may) in
        [(3, 0, true), (3, 2, true), (3, 3, false), (3, 4, false), (0, 0, false), (1, 1, false)]
    {
        spec.limits.subagent_depth = limit;
        spec.parent_jobs = (0..parents).map(|i| format!("job_{i}")).collect();
        assert_eq!(may_start(&spec), may, "{limit} {parents}");
        assert_eq!(function(&spec, &[None]).is_some(), may);
        assert_eq!(too_deep(&spec).is_some(), !may);
    }
    spec.limits.subagent_depth = 3;
    spec.parent_jobs = vec!["a".into(), "b".into(), "c".into()];
    assert_eq!(too_deep(&spec).as_deref(), Some("subagents nest at most 3 deep"));
    spec.agent.subagents.clear();
    assert_eq!(too_deep(&spec), None, "an agent without subagents is told nothing of them");
    assert_eq!(function(&spec, &[]), None);
}

#[test]
fn wrong_arguments_are_refused_in_words() {
    let spec = spec(&[("writer", None, None), ("counter", None, Some(counts()))]);
    for (arguments, expected) in [
        (json!({"agent": "writer", "input": "Do it."}), Ok(("writer", json!("Do it.")))),
        (json!({"agent": "counter", "input": {"n": 1}}), Ok(("counter", json!({"n": 1})))),
        (json!("writer"), Err("its arguments are not a JSON object")),
        (json!({"input": "x"}), Err("`agent` is missing; it is one of: writer, counter")),
        (json!({"agent": 1, "input": "x"}), Err("`agent` is not a text; it is one of: writer, counter")),
        (
            json!({"agent": "wri\u{202e}ter", "input": "x"}),
            Err("it can't start an agent `wri\\u{202e}ter`; it can start: writer, counter"),
        ),
        (json!({"agent": "writer"}), Err("`input` is missing: what the agent is to do")),
        (json!({"agent": "writer", "input": " \n"}), Err("`input` is empty: say what the agent is to do")),
        (
            json!({"agent": "writer", "input": {"n": 1}}),
            Err("`input` is not a text, and the agent `writer` takes text"),
        ),
        (
            json!({"agent": "writer", "input": "x", "to\u{7}o": 1}),
            Err("it takes `agent` and `input`, and no `to\\u{7}o`"),
        ),
    ] {
        let read = read(&spec, &arguments).map(|(agent, input)| (agent, input.clone()));
        assert_eq!(read, expected.map_err(str::to_owned), "{arguments}");
    }
}

#[test]
fn a_childs_end_is_its_output_or_words_about_its_failure() {
    let completed = Outcome::Completed { output: Stored::inline(json!("x")) };
    let failed = Outcome::Failed { error: JobError::plain("MaxTurns", "the job ended after 3 model turns") };
    let cancelled = Outcome::Cancelled { by: "Ada".into() };
    for (outcome, output, text, is_error, status) in [
        (&completed, Some(json!("x")), "x", false, "completed"),
        (&completed, Some(json!({"n": 1})), "{\"n\":1}", false, "completed"),
        (&completed, None, "The agent w is done; its output was deleted (job j).", true, "completed"),
        (&failed, None, "The agent w failed: MaxTurns: the job ended after 3 model turns (job j).", true, "failed"),
        (&cancelled, None, "The agent w was cancelled by Ada (job j).", true, "cancelled"),
    ] {
        assert_eq!(said("w", "j", outcome, output.as_ref()), (text.to_owned(), is_error));
        assert_eq!(structured("w", "j", outcome), json!({"agent": "w", "job": "j", "status": status}));
    }
}
