//! `hookwright reload`: the local node reads its configuration again.

use crate::args::Output;
use crate::exit::{self, CliError, CliResult};
use crate::node;
use crate::settings::Settings;
use crate::terminal::{data, json};
use hookwright_core::text::{escape, escape_block};
use hookwright_node::client::{self, ClientError};
use serde_json::Value;
use std::time::Duration;

/// How long the node may take.
const ANSWERS: Duration = Duration::from_mins(1);

pub(crate) async fn run(settings: &Settings, output: Output) -> CliResult {
    let place = node::place(settings).map_err(|error| CliError {
        message: format!("which node is meant is not known, and nothing was read again: {}", error.message),
        ..error
    })?;
    let asked = place.clone();
    let answer = tokio::task::spawn_blocking(move || client::ask(&asked, "reload", Value::Null, ANSWERS))
        .await
        .map_err(|e| CliError::failed(format!("the node can't be asked: {e}")))?;
    let reloaded = answer.map_err(|error| match error {
        ClientError::NoNode => CliError::failed("no node runs for this store, so nothing is to be read again"),
        error => super::status::unreachable(&place, &error),
    })?;
    if reloaded["ok"] != true {
        let why = escape_block(reloaded["error"].as_str().unwrap_or("it does not say why"));
        let refused = CliError::usage(format!("refused, and everything stays as it was: {why}")).kind("Manifest");
        let hint = reloaded["hint"].as_str().map(escape);
        return Err(match hint {
            Some(hint) => refused.hint(hint),
            None => refused,
        });
    }
    if output == Output::Json {
        json(&reloaded);
        return Ok(exit::OK);
    }
    let changes = reloaded["changes"].as_array().map_or(&[][..], Vec::as_slice);
    for what in changes.iter().filter_map(Value::as_str) {
        data(&escape(what));
    }
    if changes.is_empty() {
        data("nothing has changed");
    }
    Ok(exit::OK)
}
