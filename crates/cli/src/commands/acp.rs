//! `hookwright acp`.

use crate::acp::Node;
use crate::args::AcpArgs;
use crate::exit::{self, CliError, CliResult};
use crate::settings::Settings;
use crate::terminal::note;
use hookwright_acp::{Ended, Frames, serve};
use tokio_util::sync::CancellationToken;

/// Any signal that tells the process to stop.
async fn signal() {
    tokio::select! {
        () = crate::signals::stop() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

/// Nothing is waited for any more: what is left of the servers is killed where their hosts are dropped, and by the watchdog.
fn hurried() -> u8 {
    note("note: told to stop twice: servers are not waited for");
    exit::STOPPED
}

pub(crate) async fn run(settings: Settings, args: AcpArgs) -> CliResult {
    let node = Node::start(settings, &args)?;
    let stop = CancellationToken::new();
    let talk = serve(node.clone(), Frames::new(tokio::io::stdin(), tokio::io::stdout()), stop.clone());
    let mut talk = std::pin::pin!(talk);
    let mut told = false;
    let ended = loop {
        tokio::select! {
            ended = &mut talk => break ended,
            () = signal() => {
                if told {
                    return Ok(hurried());
                }
                told = true;
                stop.cancel();
            }
        }
    };
    tokio::select! {
        () = node.shutdown() => {}
        () = signal() => return Ok(hurried()),
    }
    match ended {
        Ended::Closed if told => Ok(exit::STOPPED),
        Ended::Closed => Ok(exit::OK),
        Ended::Broken(why) => {
            note("note: every prompt that was under way is cancelled");
            Err(CliError::failed(format!("the client can't be spoken with any more: {why}")))
        }
    }
}
