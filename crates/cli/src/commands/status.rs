//! `hookwright status`.

use crate::args::Output;
use crate::exit::{self, CliError, CliResult};
use crate::node;
use crate::settings::Settings;
use crate::store;
use crate::story::standing;
use crate::terminal::{data, json};
use hookwright_core::text::escape;
use hookwright_node::Place;
use hookwright_node::client::{self, ClientError};
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use serde_json::{Value, json};
use std::time::Duration;

/// How long the node may take to answer.
const ANSWERS: Duration = Duration::from_secs(15);

pub(crate) async fn run(settings: &Settings, output: Output) -> CliResult {
    let place = node::place(settings)?;
    let asked = place.clone();
    let answer = tokio::task::spawn_blocking(move || client::status(&asked, ANSWERS))
        .await
        .map_err(|e| CliError::failed(format!("the node can't be asked: {e}")))?;
    let (status, code) = match answer {
        Ok(status) => (status, exit::OK),
        // One that is starting or ending is there, but can't be asked.
        Err(ClientError::NoNode) => (without_node(settings, &place).await?, exit::FAILED),
        Err(error) => return Err(unreachable(&place, &error)),
    };
    match output {
        Output::Json => json(&status),
        Output::Text => data(&standing::text(&status, SystemClock.now_ms(), &settings.next())),
    }
    Ok(code)
}

/// What the store knows, where there is one.
async fn without_node(settings: &Settings, place: &Place) -> CliResult<Value> {
    let mut all = json!({ "node": null, "store": place.store().to_string_lossy() });
    if !place.is_free() {
        all["starting_or_ending"] = json!(place.holder());
    }
    if place.store().exists() {
        let known = node::of_store(&*store::seen(settings, &store::existing(settings, true)?)).await?;
        for (key, value) in known {
            all[key] = value;
        }
    }
    Ok(all)
}

/// A node that can't be spoken with.
pub(crate) fn unreachable(place: &Place, error: &ClientError) -> CliError {
    let hint = match error {
        ClientError::Refused(refused) => refused.hint.clone(),
        ClientError::Stranger(_) => Some("be the user whose node it is".to_owned()),
        _ => None,
    };
    let pid = place.holder().map_or_else(String::new, |pid| format!(" (process {pid})"));
    let failed = CliError::failed(escape(&format!("the node{pid} can't be asked: {error}")));
    failed.hint(
        hint.unwrap_or_else(|| "look at its process; SIGTERM ends it, its jobs are left to be gone on with".to_owned()),
    )
}
