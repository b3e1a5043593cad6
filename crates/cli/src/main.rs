//! The `hookwright` command: parse → settings → wiring → printer.
//!
//! Invariant: stdout is data only. Exit codes stand in [`exit`]. Nothing here knows a rule: rules are in `hookwright-core`.

mod acp;
mod args;
mod bridge;
#[cfg(feature = "temporal")]
mod cluster;
mod commands;
mod doctor;
mod environment;
mod exit;
mod files;
mod gateway;
mod installed;
mod next;
mod node;
mod people;
mod plugins;
mod progress;
mod settings;
mod setup;
mod signals;
mod store;
mod story;
mod terminal;
mod trust;
mod work;

use args::{Cli, Command};
use clap::CommandFactory as _;
use environment::Environment;
use exit::{CliError, CliResult};
use settings::Settings;
use std::process::ExitCode;
use terminal::{Terminal, note};

fn main() -> ExitCode {
    if let Some(code) = bridge::run() {
        return code;
    }
    let cli = match args::parse(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are what was asked for; all else is wrong usage.
            let code = if error.use_stderr() { exit::USAGE } else { exit::OK };
            let _ = error.print();
            if error.use_stderr() && args::asks_for_json(std::env::args_os().skip(1)) {
                let message = error.to_string();
                let message = message.trim().strip_prefix("error: ").unwrap_or(message.trim()).to_owned();
                terminal::json(&story::json::Failure {
                    error: story::json::FailureError { kind: "Usage".to_owned(), message },
                });
            }
            return ExitCode::from(code);
        }
    };
    let in_json = cli.command.in_json();
    let env = Environment::of_process();
    let terminal = Terminal::new(cli.global.color, &env);
    let code = run(cli, env, terminal).unwrap_or_else(|error| {
        let palette = terminal.palette();
        note(&format!("{}error:{} {}", palette.error, palette.reset, error.message));
        if let Some(hint) = &error.hint {
            note(&format!("{}next:{} {hint}", palette.info, palette.reset));
        }
        if in_json {
            terminal::json(&story::json::Failure {
                error: story::json::FailureError { kind: error.kind.to_owned(), message: error.message },
            });
        }
        error.code
    });
    let code = if code == exit::OK && terminal::lost_data() { exit::FAILED } else { code };
    ExitCode::from(code)
}

fn run(cli: Cli, env: Environment, terminal: Terminal) -> CliResult {
    if let Command::Completions { shell } = cli.command {
        let mut out = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "hookwright", &mut out);
        terminal::data(&String::from_utf8_lossy(&out));
        return Ok(exit::OK);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| CliError::failed(format!("the async runtime can't be started: {e}")))?;
    let result = runtime.block_on(dispatch(cli, env, terminal));
    // A thread that still reads stdin must not hold the process up.
    runtime.shutdown_background();
    result
}

async fn dispatch(cli: Cli, env: Environment, terminal: Terminal) -> CliResult {
    if let Command::DemoServer(args) = cli.command {
        return commands::demo::serve(args, &env).await;
    }
    let settings = Settings::read(&cli.global, env, terminal)?;
    settings.start_log()?;
    let next = settings.next();
    let result = match cli.command {
        Command::Run(args) => commands::run::run(settings, args).await,
        Command::Acp(args) => commands::acp::run(settings, args).await,
        Command::Gateway(args) => commands::gateway::run(settings, args).await,
        Command::Check(args) => commands::check::run(settings, args).await,
        Command::Doctor(args) => commands::doctor::run(settings, args).await,
        Command::Ask(args) => commands::ask::run(settings, args).await,
        Command::Jobs(command) => commands::jobs::run(settings, command).await,
        Command::Replay(args) => commands::replay::run(settings, args).await,
        Command::Approvals(command) => commands::approvals::run(settings, command).await,
        Command::Audit(command) => commands::audit::run(settings, command).await,
        Command::Serve(args) => commands::serve::run(settings, args).await,
        Command::Status { output } => commands::status::run(&settings, output).await,
        Command::Stop { output } => commands::stop::run(&settings, output).await,
        Command::Reload { output } => commands::reload::run(&settings, output).await,
        Command::Trust(args) => commands::trust::run(&settings, &args),
        Command::Install(args) => commands::install::install(&settings, &args),
        Command::Uninstall(args) => commands::install::uninstall(&settings, &args),
        Command::New(command) => commands::new::run(&settings, command),
        Command::Demo(args) => commands::demo::run(settings, args).await,
        // A bridge was answered before anything was parsed.
        Command::Completions { .. } | Command::DemoServer(_) | Command::Bridge(_) => Ok(exit::OK),
    };
    result.map_err(|error| error.with_next(&next))
}
