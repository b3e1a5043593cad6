//! What a tenant's jobs may use up.

use super::*;

fn limited(world: &World, limits: Value) {
    configure(world, json!([{"id": "a", "plugins": ["one"], "limits": limits}, {"id": "b", "plugins": ["two"]}]));
}

#[test]
fn a_job_that_asks_for_too_much_ends_with_an_error_of_its_own_type() {
    let world = two(allow(), allow());
    plugin(
        &world,
        "one",
        allow(),
        json!({}),
        json!([{"call": {"tool": "git.push"}}, {"call": {"tool": "git.push"}}, {"say": "done"}]),
    );
    limited(&world, json!({"calls_per_job": 1}));
    let failed = run(&world, "a", &[]).code(1);
    let result = failed.json();
    assert_eq!(result["error"]["type"], "CallLimit", "{failed}");
    assert_eq!(world.calls("one-git").len(), 1);
    let job = result["job"].as_str().unwrap();
    world.call(&["replay", job]).code(0);
    world.call(&["audit", "verify", job]).code(0);
    limited(&world, json!({"tokens_per_job": 1}));
    assert_eq!(run(&world, "a", &[]).code(1).json()["error"]["type"], "TokenLimit");
    assert_eq!(world.calls("one-git").len(), 1, "nothing was called once they were used up");
    limited(&world, json!({"calls_per_job": 2, "tokens_per_job": 1_000_000}));
    run(&world, "a", &[]).code(0);
    run(&world, "b", &[]).code(0);
}

#[test]
fn a_job_beyond_those_at_once_is_refused_in_every_process_until_there_is_a_place() {
    let world = two(escalate(), allow());
    limited(&world, json!({"jobs_at_once": 1}));
    let first = Running::start(world.hookwright(&["run", "--tenant", "a", "--input", "x", "--approve", "wait"]));
    let approval = world.open_approval();
    let refused = run(&world, "a", &[]).code(1);
    assert_eq!(refused.json()["error"]["type"], "JobLimit", "{refused}");
    assert!(refused.err.contains("the tenant a has 1 jobs under way, and may have 1 at once"), "{refused}");
    run(&world, "b", &[]).code(0);
    // What only ends a job needs no place.
    let left = world.call(&["jobs", "list", "--unfinished", "--output", "json"]).code(0).json();
    assert_eq!(left["jobs"].as_array().unwrap().len(), 1, "a job that was refused was not stored");
    world.call(&["approvals", "approve", &approval]).code(0);
    first.finish().code(0);
    let (job, _) = waiting(&world, "a");
    // One that waits for a person alone holds no place.
    let (other, _) = waiting(&world, "a");
    let running = Running::start(world.hookwright(&["run", "--tenant", "a", "--input", "x", "--approve", "wait"]));
    eventually("it runs", || status(&world)["jobs"]["running"].as_u64().filter(|n| *n == 1));
    world.call(&["jobs", "resume", &job, "--detach"]).code(1).tells(&["may have 1 at once"]);
    world.call(&["jobs", "cancel", &other]).code(0);
    assert_eq!(stands(&world, &other), "cancelled");
    drop(running);
    eventually("its place is free when its process is gone", || {
        world.call(&["jobs", "resume", &job, "--detach"]).status.code().filter(|code| *code == 4)
    });
}

#[test]
fn in_the_node_unfinished_jobs_wait_for_a_place_the_oldest_first() {
    let world = two(escalate(), allow());
    limited(&world, json!({"jobs_at_once": 1}));
    let all: Vec<(String, String)> = (0..3).map(|_| waiting(&world, "a")).collect();
    // A process that runs one holds the only place.
    let running = Running::start(world.hookwright(&["run", "--tenant", "a", "--input", "x", "--approve", "wait"]));
    eventually("it runs", || status(&world)["jobs"]["running"].as_u64().filter(|n| *n == 1));
    for (_, approval) in &all {
        world.call(&["approvals", "approve", approval]).code(0);
    }
    let node = serve(&world, &[]);
    let ids: Vec<&str> = all.iter().map(|(job, _)| job.as_str()).collect();
    eventually("they wait in their order", || (status(&world)["jobs"]["queued_listed"] == json!(ids)).then_some(()));
    let text = world.call(&["status"]).code(0);
    assert!(text.out.contains(&format!("{}  waits for a place", ids[0])), "{text}");
    drop(running);
    for job in ids {
        eventually("each has its turn", || (stands(&world, job) == "completed").then_some(()));
    }
    stop(&world, node);
}
