//! `hookwright stop`.

use crate::args::Output;
use crate::exit::{self, CliError, CliResult};
use crate::node;
use crate::settings::Settings;
use crate::terminal::{json, note};
use hookwright_node::client::{self, ClientError};
use hookwright_node::{Place, Running};
use serde::Serialize;
use std::time::{Duration, Instant};

/// How long the node may take to say who it is.
const ANSWERS: Duration = Duration::from_secs(10);

/// How long it may take to end: its servers may take their time.
const ENDS: Duration = Duration::from_mins(1);

/// `stop --output json`.
#[derive(Debug, Serialize)]
struct Stopped {
    /// The node that ended; none where none ran.
    node: Option<Running>,
}

pub(crate) async fn run(settings: &Settings, output: Output) -> CliResult {
    let place = node::place(settings)?;
    let ended = tokio::task::spawn_blocking(move || stop(&place))
        .await
        .map_err(|e| CliError::failed(format!("the node can't be ended: {e}")))??;
    match (output, &ended) {
        (Output::Json, _) => json(&Stopped { node: ended }),
        (Output::Text, Some(node)) => note(&format!("the node has ended (process {})", node.pid)),
        (Output::Text, None) => note("no node runs for this store"),
    }
    Ok(exit::OK)
}

/// Ends the node and waits until it is gone.
fn stop(place: &Place) -> CliResult<Option<Running>> {
    let asked = client::hello(place, ANSWERS).and_then(|node| client::stop(place, ANSWERS).map(|()| node));
    let node = match asked {
        Ok(node) => node,
        // One that is ending already listens no more.
        Err(ClientError::NoNode) => {
            return if place.is_free() { Ok(None) } else { gone(place, None) };
        }
        Err(error) => return Err(super::status::unreachable(place, &error)),
    };
    gone(place, Some(node))
}

fn gone(place: &Place, node: Option<Running>) -> CliResult<Option<Running>> {
    let start = Instant::now();
    while !place.is_free() {
        if start.elapsed() > ENDS {
            let who = node.map_or_else(|| "the node".to_owned(), |node| format!("the node (process {})", node.pid));
            return Err(CliError::failed(format!("{who} was told to end and has not in {} s", ENDS.as_secs()))
                .hint("end its process with SIGTERM, a second time to be quick"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(node)
}
