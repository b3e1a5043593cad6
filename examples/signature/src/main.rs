//! `hookwright-signer`: make a key, serve the hook, verify an output.

use clap::{Parser, Subcommand};
use hookwright_signer::{block, key, server};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Signs the answers of agents, and verifies them.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a key pair, in two new files.
    Keygen {
        /// Where the secret key goes; only its owner may read the file.
        #[arg(long, value_name = "FILE")]
        secret: PathBuf,
        /// Where the public key goes; give it to those who verify.
        #[arg(long, value_name = "FILE")]
        public: PathBuf,
    },
    /// Serve the hook `sign` as an MCP server on the standard streams.
    Serve {
        /// The secret key's file.
        #[arg(long, value_name = "FILE", env = "SIGNER_KEY_FILE")]
        secret_key: PathBuf,
    },
    /// Verify a signed output that comes on standard input; exit 1 if it was changed or not signed.
    Verify {
        /// The public key's file.
        #[arg(long, value_name = "FILE")]
        public_key: PathBuf,
        /// Print the verified text (without its block) instead of what the signature says.
        #[arg(long)]
        text: bool,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Cli::parse().command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody to tell if standard error is closed; the exit code still says it.
            let _ = writeln!(io::stderr(), "hookwright-signer: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<(), Box<dyn std::error::Error>> {
    match command {
        Command::Keygen { secret, public } => {
            let made = key::generate()?;
            key::write(&made, &secret, &public)?;
            writeln!(io::stdout(), "key {}", key::id(&made.verifying_key()))?;
        }
        Command::Serve { secret_key } => server::serve(key::read_secret(&secret_key)?).await?,
        Command::Verify { public_key, text } => {
            let public = key::read_public(&public_key)?;
            let mut signed = Vec::new();
            io::stdin().read_to_end(&mut signed)?;
            let signed = String::from_utf8(signed).map_err(|_| "the input is not UTF-8 text")?;
            let good = block::verify(&public, &signed)?;
            if text {
                write!(io::stdout(), "{}", good.text)?;
            } else {
                // `{:?}` escapes what would not show in a terminal.
                writeln!(
                    io::stdout(),
                    "good signature: job {:?}, agent {:?}, key {}",
                    good.job,
                    good.agent,
                    key::id(&public)
                )?;
            }
        }
    }
    Ok(())
}
