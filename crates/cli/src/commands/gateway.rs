//! `hookwright gateway`.

use crate::args::{Decide, GatewayArgs};
use crate::exit::{self, CliError, CliResult};
use crate::gateway::streams::Streams;
use crate::gateway::{Node, attached};
use crate::settings::Settings;
use crate::signals;
use crate::terminal::note;
use hookwright_gateway::{Deciders, Ended, HttpOptions, Options, listen, relay, serve};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The address to listen on. Others than loopback are refused: what is sent there is neither encrypted nor anybody's but the sender's.
fn address(text: &str) -> CliResult<SocketAddr> {
    let with_port = if text.parse::<u16>().is_ok() {
        format!("127.0.0.1:{text}")
    } else {
        text.replace("localhost:", "127.0.0.1:")
    };
    let hint = "e.g. --http 127.0.0.1:8808, or --http 0 for a free port";
    let address: SocketAddr = with_port.parse().map_err(|_| {
        CliError::usage(format!("--http {:?} is no address", hookwright_core::text::shown(text, 100))).hint(hint)
    })?;
    if !address.ip().is_loopback() {
        return Err(CliError::usage(format!("--http {address}: the gateway listens on loopback only")).hint(hint));
    }
    Ok(address)
}

fn token(settings: &Settings, args: &GatewayArgs) -> CliResult<Option<String>> {
    let Some(variable) = &args.token_from else { return Ok(None) };
    let token = settings.env.get(variable).map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
    token.map(Some).ok_or_else(|| {
        let shown = hookwright_core::text::shown(variable, 100);
        CliError::usage(format!("--token-from names the variable {shown}, which is not set"))
            .hint("set it, or leave the flag out")
    })
}

async fn talk(
    node: Arc<Node>,
    options: Options,
    http: Option<(TcpListener, HttpOptions)>,
    stop: CancellationToken,
) -> Ended {
    if let Some((listener, http)) = http {
        return listen(node, options, http, listener, stop).await;
    }
    let (reader, writer, _restore) = Streams::open().split();
    serve(node, options, reader, writer, stop).await
}

/// The session is the node's; this process passes messages on.
async fn attached(mut settings: Settings, args: &GatewayArgs) -> CliResult {
    let node = Arc::new(attached::Client::of(&mut settings, args)?);
    let first = node.open(1).await?;
    let stop = CancellationToken::new();
    let (reader, writer, _restore) = Streams::open().split();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let talk = tokio::spawn(relay(node, first, version, reader, writer, stop.clone()));
    attend(talk, &stop, async {}).await
}

/// Waits for the end of the talk, and says how it ended.
async fn attend(talk: JoinHandle<Ended>, stop: &CancellationToken, leave: impl Future<Output = ()>) -> CliResult {
    let broken = |_| Ended::Broken("a fault of ours ended the talk".to_owned());
    let talk = async { talk.await.unwrap_or_else(broken) };
    let Some((ended, told)) = signals::attend(talk, stop, leave).await else {
        return Ok(signals::hurried());
    };
    match ended {
        Ended::Closed if told => Ok(exit::STOPPED),
        Ended::Closed => Ok(exit::OK),
        Ended::Broken(why) => Err(CliError::failed(format!("the client can't be spoken with any more: {why}"))),
    }
}

pub(crate) async fn run(settings: Settings, args: GatewayArgs) -> CliResult {
    if args.attach {
        return attached(settings, &args).await;
    }
    let address = args.http.as_deref().map(address).transpose()?;
    let token = token(&settings, &args)?;
    if token.is_some() && address.is_none() {
        return Err(CliError::usage("--token-from is for --http: over stdin and stdout there is one client"));
    }
    let deciders = match args.decide.unwrap_or(if address.is_some() { Decide::Elsewhere } else { Decide::Client }) {
        Decide::Client => Deciders::Client,
        Decide::Elsewhere => Deciders::Elsewhere,
    };
    let http = match address {
        Some(address) => {
            let listener = TcpListener::bind(address)
                .await
                .map_err(|e| CliError::failed(format!("{address} can't be listened on: {e}")))?;
            Some((listener, HttpOptions { token }))
        }
        None => None,
    };
    let node = Node::start(settings, &args)?;
    let options = Options {
        wait: Duration::from_secs(args.wait),
        bare_names: args.bare_names,
        deciders,
        message_bytes: node.message_bytes(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ids_from: 1,
    };
    if let Some((listener, _)) = &http {
        note(&format!("listening on http://{}/mcp", listener.local_addr()?));
    }
    let stop = CancellationToken::new();
    // On a task of its own: the thread that waits for everything would add its waking to each message.
    let talk = tokio::spawn(talk(node.clone(), options, http, stop.clone()));
    attend(talk, &stop, node.shutdown()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_listened_on() {
        for (text, address_of) in [
            ("8808", "127.0.0.1:8808"),
            ("0", "127.0.0.1:0"),
            ("localhost:1", "127.0.0.1:1"),
            ("[::1]:2", "[::1]:2"),
            ("127.0.0.1:3", "127.0.0.1:3"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), address_of);
        }
        for text in ["", "0.0.0.0:1", "10.0.0.1:1", "[::]:1", "example.com:80", "127.0.0.1", "70000"] {
            assert_eq!(address(text).unwrap_err().code, exit::USAGE, "{text}");
        }
    }
}
