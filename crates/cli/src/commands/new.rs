//! `hookwright new`.

use crate::args::NewCommand;
use crate::exit::{CliError, CliResult};
use crate::settings::Settings;

pub(crate) fn run(_: &Settings, _: NewCommand) -> CliResult {
    Err(CliError::failed("templates follow"))
}
