//! `hookwright`: hooks decide before an AI agent acts. The command line.

#[allow(dead_code, reason = "the commands use it")]
mod story;

fn main() {}
