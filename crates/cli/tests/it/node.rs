//! The local node: real processes on one store.

mod client;
mod jobs;
mod many;
mod socket;

use crate::support::{Finished, Running, World, eventually};
use serde_json::Value;
use std::path::PathBuf;

/// A node of a world's store, with the flags that are given.
pub(crate) fn serve(world: &World, flags: &[&str]) -> Running {
    let node = Running::start(world.hookwright(&[&["serve", "--db", "jobs.db"], flags].concat()));
    let pid = node.pid();
    eventually("the node answers", || (status(world)["node"]["pid"] == pid).then_some(()));
    node
}

/// The flags that name all of a world's plugins.
fn plugins(world: &World) -> Vec<String> {
    world.plugins().into_iter().flat_map(|plugin| ["--plugin".to_owned(), plugin]).collect()
}

/// A node of a world's store, of all of its plugins.
pub(crate) fn serve_plugins(world: &World) -> Running {
    let flags = plugins(world);
    serve(world, &flags.iter().map(String::as_str).collect::<Vec<_>>())
}

/// What `status` says.
fn status(world: &World) -> Value {
    world.call(&["status", "--db", "jobs.db", "--output", "json"]).json()
}

fn stop(world: &World) -> Finished {
    world.call(&["stop", "--db", "jobs.db"]).code(0)
}

fn socket(world: &World) -> PathBuf {
    PathBuf::from(status(world)["node"]["socket"].as_str().unwrap())
}

fn jobs(world: &World) -> Vec<Value> {
    let listed = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0);
    listed.json()["jobs"].as_array().unwrap().clone()
}

/// Waits until all jobs of the store are over, and asserts that they completed.
fn until_completed(world: &World) {
    eventually("all jobs are over", || {
        let all = jobs(world);
        all.iter().all(|job| !["running", "waiting"].contains(&job["status"].as_str().unwrap())).then_some(())
    });
    let all = jobs(world);
    assert!(all.iter().all(|job| job["status"] == "completed"), "{all:?}");
}
