//! `hookwright run`.

use crate::args::{Approve, HowArgs, RunArgs};
use crate::exit::{CliError, CliResult};
use crate::people;
use crate::settings::Settings;
use crate::setup;
use crate::work::{self, Style};
use hookwright_core::json::parse_strict;
use hookwright_core::text::escape;
use serde_json::Value;
use std::io::{IsTerminal as _, Read as _};

/// Bytes of an input that are read at most.
const INPUT_BYTES: u64 = 16 * 1024 * 1024;

pub(crate) async fn run(mut settings: Settings, args: RunArgs) -> CliResult {
    let tenant = setup::tenant(&mut settings, &args.plugins)?;
    let (_, agent) = tenant.agent(args.agent.as_deref())?;
    let has_schema = agent.input_schema.is_some();
    let text = input(args.input.as_deref())?;
    let input = if has_schema {
        parse_strict(&text).map_err(|e| {
            CliError::usage(format!("the agent takes JSON, and the input is none: {}", escape(&e.to_string())))
        })?
    } else {
        Value::String(text)
    };
    let style = style(&settings, &args.how);
    // Before anything is begun: a build without that engine says so.
    let cluster = settings.own_temporal()?;
    let job = work::new_job(&settings, tenant, args.agent.as_deref(), input)?;
    #[cfg(feature = "temporal")]
    if let Some((config, folder)) = cluster {
        return Box::pin(work::follow(&settings, job, style, (config, &folder))).await;
    }
    #[cfg(not(feature = "temporal"))]
    drop(cluster);
    work::run(&mut settings, job, style).await.map(|(code, _)| code)
}

pub(crate) fn style(settings: &Settings, how: &HowArgs) -> Style {
    let unasked = if settings.terminal.interactive && !how.detach { Approve::Ask } else { Approve::Wait };
    let person = people::person(how.name.as_deref());
    Style { approve: how.approve.unwrap_or(unasked), detach: how.detach, person, output: how.output }
}

fn input(flag: Option<&str>) -> CliResult<String> {
    let from_stdin = match flag {
        Some("-") => true,
        Some(text) => return Ok(text.to_owned()),
        None if std::io::stdin().is_terminal() => {
            return Err(
                CliError::usage("the job has no input").hint("give it with --input TEXT, or --input - for stdin")
            );
        }
        None => true,
    };
    let mut text = String::new();
    if from_stdin {
        std::io::stdin()
            .lock()
            .take(INPUT_BYTES + 1)
            .read_to_string(&mut text)
            .map_err(|e| CliError::usage(format!("the input on stdin can't be read: {e}")))?;
        if text.len() as u64 > INPUT_BYTES {
            return Err(CliError::usage("the input is larger than 16 MiB"));
        }
    }
    let text = text.strip_suffix('\n').map_or(text.clone(), str::to_owned);
    if text.trim().is_empty() {
        return Err(CliError::usage("the input is empty").hint("give it with --input TEXT, or --input - for stdin"));
    }
    Ok(text)
}
