//! Flags of the demo, and of the servers that it starts.

use super::{Approve, Output};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Who decides about the push. Default: you, at the prompt; yes where there is no terminal
    #[arg(long, value_name = "HOW")]
    pub(crate) approve: Option<Approve>,
    /// Where the throw-away repository and the history are made. Default: .hookwright/demo
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Your name in the history
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct DemoServerArgs {
    /// git or guard
    pub(crate) server: String,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<String>,
}
