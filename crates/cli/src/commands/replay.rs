//! `hookwright replay`: rebuilds a job from its history; calls nothing.

use crate::args::{Output, ReplayArgs};
use crate::exit::{self, CliResult};
use crate::settings::Settings;
use crate::store;
use crate::story::{json::Replay, replay as story};
use crate::terminal::{data, json};
use hookwright_core::history::replay;

pub(crate) async fn run(settings: Settings, args: ReplayArgs) -> CliResult {
    let store = store::seen(&settings, &store::existing(&settings, true)?);
    let job = store.job(&args.job).await?.job.id;
    let result = replay(&store.records(&job, 0).await?);
    match (args.output, &result) {
        (Output::Json, Ok((_, head))) => json(&Replay::new(&job, Ok(head))),
        (Output::Json, Err(error)) => json(&Replay::new(&job, Err(error))),
        (Output::Text, Ok((machine, head))) => {
            let over = if machine.outcome().is_some() { "over" } else { "not over" };
            data(&format!("{job}: {} records replayed, no mismatch; the job is {over}", head.records));
        }
        (Output::Text, Err(error)) => data(&story::text(&job, error, settings.look_of_stdout())),
    }
    Ok(if result.is_ok() { exit::OK } else { exit::FAILED })
}
