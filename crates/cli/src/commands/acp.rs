//! `hookwright acp`.

use crate::acp::Node;
use crate::args::AcpArgs;
use crate::exit::{self, CliError, CliResult};
use crate::settings::Settings;
use crate::signals;
use crate::terminal::note;
use hookwright_acp::{Ended, Frames, serve};
use tokio_util::sync::CancellationToken;

pub(crate) async fn run(settings: Settings, args: AcpArgs) -> CliResult {
    let node = Node::start(settings, &args)?;
    let stop = CancellationToken::new();
    let talk = serve(node.clone(), Frames::new(tokio::io::stdin(), tokio::io::stdout()), stop.clone());
    let Some((ended, told)) = signals::attend(talk, &stop, node.shutdown()).await else {
        return Ok(signals::hurried());
    };
    match ended {
        Ended::Closed if told => Ok(exit::STOPPED),
        Ended::Closed => Ok(exit::OK),
        Ended::Broken(why) => {
            note("note: every prompt that was under way is cancelled");
            Err(CliError::failed(format!("the client can't be spoken with any more: {why}")))
        }
    }
}
