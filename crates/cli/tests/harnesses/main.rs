//! Real coding agents behind the bridge, cut off from the world, against a scripted model: whether the side effect really happened, and what
//! the model was told. `cargo xtask test --harnesses` installs the clients and runs this; by hand:
//! `HOOKWRIGHT_TEST_CLIENTS=$PWD/.tools/clients cargo test -p hookwright --test harnesses -- [--clients claude-code,codex] [part of a name]`.
//!
//! Invariant: a client runs only in the jail: no variable, file or credential of the machine reaches it.

#![allow(clippy::unwrap_used, clippy::unnecessary_wraps, reason = "a test: what fails is a case that fails")]
#![allow(clippy::print_stdout, reason = "the report")]

mod agents;
mod cases;
mod clients;
mod lab;
mod node;

use clients::Client;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

/// Clients that run at the same time.
const WORKERS: usize = 2;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (mut wanted, mut part) = (None, String::new());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--clients" => wanted = words.next(),
            // What test runners ask for on their own.
            "--list" | "--nocapture" | "--quiet" => {}
            word => word.clone_into(&mut part),
        }
    }
    let lab = match lab::Lab::open() {
        Ok(lab) => lab,
        Err(why) => {
            println!("the lab can't be opened: {why}");
            return ExitCode::FAILURE;
        }
    };
    let chosen: Vec<Client> = Client::ALL
        .into_iter()
        .filter(|client| wanted.as_ref().is_none_or(|wanted| wanted.split(',').any(|id| id == client.harness().id())))
        .collect();
    let mut queue = Vec::new();
    let mut missing = Vec::new();
    for client in chosen {
        if client.is_there(&lab) {
            let cases = cases::all().into_iter().filter(|case| (case.fits)(client));
            queue.extend(cases.map(|case| (client, case)).filter(|(client, case)| name(*client, case).contains(&part)));
        } else {
            missing.push(client.harness().id());
        }
    }
    queue.reverse();
    let total = queue.len();
    let (queue, failed) = (Mutex::new(queue), Mutex::new(Vec::new()));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let Some((client, case)) = queue.lock().unwrap().pop() else { break };
                    let started = Instant::now();
                    let name = name(client, &case);
                    let result = std::panic::catch_unwind(|| (case.run)(&lab, client, case.name));
                    let seconds = started.elapsed().as_secs_f32();
                    if result.is_ok() {
                        println!("ok      {seconds:5.1} s  {name}");
                    } else {
                        println!("FAILED  {seconds:5.1} s  {name}");
                        failed.lock().unwrap().push(name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    println!("{} of {total} passed in {:.0} s", total - failed.len(), begun.elapsed().as_secs_f32());
    if !missing.is_empty() {
        println!("not there, so not run: {} (`cargo xtask test --harnesses` installs them)", missing.join(", "));
    }
    if total == 0 {
        println!("nothing was run");
    }
    for name in &failed {
        println!("failed: {name}");
    }
    let explicit = wanted.is_some() && !missing.is_empty();
    if failed.is_empty() && total > 0 && !explicit { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn name(client: Client, case: &cases::Case) -> String {
    format!("{}: {}", client.harness().id(), case.name)
}
