//! A session of the gateway that lives in the node (`--attach`): what the two processes say to each other, and both their sides.
//!
//! Invariant: a session runs with exactly the plugins and the configuration that its client's command line means, or not at all.

use super::Node;
use crate::args::{Decide, GatewayArgs};
use crate::exit::{CliError, CliResult};
use crate::node::{self, Home};
use crate::people;
use crate::settings::Settings;
use crate::setup::{self, Tenant};
use hookwright_core::text;
use hookwright_gateway::{Attach, Deciders, Link, Options, serve};
use hookwright_node::client::{Attached, ClientError, Connection};
use hookwright_node::{EnsureError, IDLE, Offer, Place, Refused, Start, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;

/// The door's name at the node.
pub(crate) const DOOR: &str = "gateway";
/// How long a node may take to start and to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a session is to be, as the node is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    /// What is meant by the command line; none where it names neither plugins nor a configuration.
    means: Option<Means>,
    tenant: Option<String>,
    agent: Option<String>,
    wait_s: u64,
    bare_names: bool,
    /// Whether the client's user may decide.
    client_decides: bool,
    person: String,
    ids_from: u64,
}

/// Plugins and configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Means {
    /// Folders, each with the digest of its manifest.
    plugins: Vec<(String, String)>,
    config_digest: Option<String>,
}

impl Means {
    fn of(tenant: &Tenant, config_digest: Option<String>) -> Self {
        let digests = tenant.plugins.iter().map(|plugin| plugin.parsed.manifest.sha256.clone());
        Self { plugins: tenant.folders().into_iter().zip(digests).collect(), config_digest }
    }

    /// What differs, for people.
    fn differs(&self, meant: &Self) -> Option<String> {
        let folders = |means: &Self| means.plugins.iter().map(|(folder, _)| folder.clone()).collect::<Vec<_>>();
        if folders(self) != folders(meant) {
            let own = folders(self);
            let shown = if own.is_empty() { "none".to_owned() } else { text::shown(&own.join(", "), 500) };
            return Some(format!("the node of this store runs with other plugins ({shown})"));
        }
        let changed = self.plugins.iter().zip(&meant.plugins).find(|(own, other)| own.1 != other.1);
        if let Some(((folder, _), _)) = changed {
            let shown = text::shown(folder, 300);
            return Some(format!("the node of this store was started before the manifest in {shown} was changed"));
        }
        (self.config_digest != meant.config_digest).then(|| {
            "the node of this store runs with another configuration, or with an earlier state of it".to_owned()
        })
    }
}

/// The client's process.
pub(crate) struct Client {
    place: Place,
    /// None where nothing says with which plugins one would be started.
    start: Option<Start>,
    words: Words,
}

impl Client {
    /// What flags and configuration mean; nothing is started yet.
    pub(crate) fn of(settings: &mut Settings, args: &GatewayArgs) -> CliResult<Self> {
        let tenant = setup::tenant_or_empty(settings, &args.plugins)?;
        settings.terminal.diagnostics(&tenant.warnings);
        let named = !tenant.plugins.is_empty() || settings.config_file.is_some();
        let start = if named { Some(node::start(settings, &args.plugins, Some(IDLE.as_secs()))?) } else { None };
        let words = Words {
            means: named.then(|| Means::of(&tenant, settings.config_digest())),
            tenant: settings.global.tenant.clone(),
            agent: args.agent.clone(),
            wait_s: args.wait,
            bare_names: args.bare_names,
            client_decides: args.decide.is_none_or(|who| who == Decide::Client),
            person: people::person(args.name.as_deref()).name,
            ids_from: 1,
        };
        Ok(Self { place: node::place(settings)?, start, words })
    }

    /// Opens a session; the node is started where none runs.
    pub(crate) async fn open(&self, ids_from: u64) -> CliResult<Link> {
        let (place, start) = (self.place.clone(), self.start.clone());
        let words = serde_json::to_value(Words { ids_from, ..self.words.clone() });
        let words = words.map_err(|e| CliError::failed(e.to_string()))?;
        let opened = tokio::task::spawn_blocking(move || attached(&place, start.as_ref(), words));
        let opened = opened.await.map_err(|e| CliError::failed(format!("the node can't be asked: {e}")))?;
        let Attached { words, early, stream } = opened?;
        let broken = |e: std::io::Error| CliError::failed(format!("the node can't be spoken with: {e}"));
        stream.set_nonblocking(true).map_err(broken)?;
        let (reader, writer) = tokio::net::UnixStream::from_std(stream).map_err(broken)?.into_split();
        let limit = words["message_bytes"].as_u64().and_then(|bytes| usize::try_from(bytes).ok());
        Ok(Link {
            reader: Box::new(Cursor::new(early).chain(reader)),
            writer: Box::new(writer),
            message_bytes: limit.unwrap_or(Options::default().message_bytes),
        })
    }
}

#[async_trait::async_trait]
impl Attach for Client {
    async fn attach(&self, ids_from: u64) -> Result<Link, String> {
        let opened = self.open(ids_from).await;
        opened.map_err(|error| match error.hint {
            Some(hint) => format!("{}; {hint}", error.message),
            None => error.message,
        })
    }
}

/// Blocks.
fn attached(place: &Place, start: Option<&Start>, words: Value) -> CliResult<Attached> {
    let mut again = true;
    loop {
        if let Some(start) = start {
            ensure(place, start, PATIENCE).map_err(not_started)?;
        }
        let attached = Connection::open(place, PATIENCE).and_then(|open| open.attach(DOOR, words.clone()));
        match attached {
            // It ended just now.
            Err(error) if again && start.is_some() && error.is_unasked() => again = false,
            Err(ClientError::NoNode) => {
                return Err(CliError::failed("no node runs for this store")
                    .hint("start one with `hookwright serve`, or name the plugins (`--plugin DIR`)"));
            }
            Err(ClientError::Refused(Refused { message, hint, .. })) => {
                return Err(CliError { hint, ..CliError::failed(message) });
            }
            other => return other.map_err(|error| CliError::failed(text::escape(&error.to_string()))),
        }
    }
}

fn not_started(error: EnsureError) -> CliError {
    match error {
        EnsureError::Client(ClientError::Refused(Refused { message, hint, .. })) => {
            CliError { hint, ..CliError::failed(message) }
        }
        other => CliError::failed(other.to_string()),
    }
}

/// The node's side: one client's session, until it goes away or the node ends.
pub(crate) async fn attend(home: &Home, what: Value, offer: Offer) -> Result<(), Refused> {
    // What stood there is not repeated.
    let words: Words = serde_json::from_value(what).map_err(|_| {
        Refused::new("malformed", "the gateway's words can't be read: it is of another version than the node")
            .hint("end the node with `hookwright stop`; the next command starts the new one")
    })?;
    let present = home.now.get();
    let household = match &words.tenant {
        Some(tenant) => present.household(tenant),
        None => present.households.first(),
    };
    let household = household.ok_or_else(|| Refused::new("tenant", "the node does not serve this tenant"))?;
    let own = Means::of(&household.tenant, present.config_digest.clone());
    if let Some(why) = words.means.as_ref().and_then(|meant| own.differs(meant)) {
        return Err(Refused::new("plugins", why)
            .hint("end it with `hookwright stop`, or leave --attach out to have servers of your own"));
    }
    let gateway = Node::shared(home, present.settings.clone(), household, words.agent.as_deref(), words.person)
        .map_err(|error| Refused { hint: error.hint, ..Refused::new("agent", error.message) })?;
    let options = Options {
        wait: Duration::from_secs(words.wait_s),
        bare_names: words.bare_names,
        deciders: if words.client_decides { Deciders::Client } else { Deciders::Elsewhere },
        message_bytes: gateway.message_bytes(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ids_from: words.ids_from,
    };
    let stop = offer.stopping();
    let Ok(bytes) = offer.accept(json!({ "message_bytes": options.message_bytes })).await else { return Ok(()) };
    let (reader, writer) = bytes.split();
    serve(Arc::new(gateway), options, reader, writer, stop).await;
    Ok(())
}
