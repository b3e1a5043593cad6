//! What the door needs of the world. The command line implements it.

use hookwright_core::manifest::Pass;
use hookwright_runtime::approvals::Say;
use hookwright_runtime::job::{Deps, NewRun};
use hookwright_runtime::ports::clock::Clock;
use hookwright_runtime::ports::store::Store;
use hookwright_runtime::ports::tools::{Peer, Tools};
use serde_json::{Map, Value};
use std::sync::Arc;

/// What a client says of itself. Nothing of it is verified.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Client {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// What the door needs of the world.
pub trait Wiring: Send + Sync + 'static {
    /// Where jobs stand.
    fn store(&self) -> Arc<dyn Store>;

    /// Time.
    fn clock(&self) -> Arc<dyn Clock>;

    /// What tools pass beside calls, by tool id, in the tenant's order. Tools that pass nothing are left out.
    fn passes(&self) -> &[(String, Vec<Pass>)];

    /// The tools of a client's session; those that belong to it alone are started, and end with [`Tools::shutdown`].
    ///
    /// `capabilities` are the client's: what servers may ask of it through `peer`.
    fn equip(&self, client: &Client, capabilities: &Map<String, Value>, peer: Arc<dyn Peer>) -> Arc<dyn Tools>;

    /// Makes the job of a client's session. An error is for people: the session can't be opened.
    fn job(&self, client: &Client) -> Result<NewRun, String>;

    /// What that job needs of the world.
    fn deps(&self, tools: Arc<dyn Tools>) -> Deps;

    /// A decision in the name of the person at the client.
    fn say(&self, approve: bool) -> Say;

    /// The command that shows an approval, for people.
    fn show_command(&self, approval: &str) -> String;
}
