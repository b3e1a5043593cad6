//! The configuration is read again: at SIGHUP, and where `hookwright reload` asks (docs/decisions/0182).
//!
//! Invariant: it is taken over whole or not at all; where anything of it is wrong, everything stays as it was, and all of that is told.
//! Invariant: what is under way keeps its hooks, its servers and its limits to its end.

use super::Home;
use super::present::Present;
use crate::exit::{CliError, CliResult};
use crate::settings::Settings;
use crate::setup::Tenant;
use crate::store;
use crate::terminal::note;
use crate::work::Household;
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use hookwright_runtime::ports::tools::Tools as _;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How often it is looked whether servers that were replaced are still needed.
const LOOK: Duration = Duration::from_millis(250);

/// What came of reading the configuration again.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Reloaded {
    pub(crate) at_ms: u64,
    /// Whether it was taken over.
    pub(crate) ok: bool,
    /// What is different now; empty where nothing is.
    pub(crate) changes: Vec<String>,
    /// The digest of what counts since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) config_digest: Option<String>,
    /// Why it was not taken over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

impl Home {
    /// Reads the configuration again and takes it over, if nothing is wrong with it.
    pub(crate) async fn reload(&self) -> Reloaded {
        let _alone = self.reloading.lock().await;
        let at_ms = SystemClock.now_ms();
        let reloaded = match self.take_over() {
            Ok(changes) => {
                let config_digest = self.now.get().config_digest.clone();
                Reloaded { at_ms, ok: true, changes, config_digest, ..Reloaded::default() }
            }
            Err(error) => {
                Reloaded { at_ms, ok: false, error: Some(error.message), hint: error.hint, ..Reloaded::default() }
            }
        };
        match &reloaded.error {
            None if reloaded.changes.is_empty() => note("reload: nothing has changed"),
            None => reloaded.changes.iter().for_each(|what| note(&format!("reload: {what}"))),
            Some(error) => note(&format!("reload: refused, everything stays as it was: {error}")),
        }
        *self.reloaded.lock().unwrap_or_else(PoisonError::into_inner) = Some(reloaded.clone());
        reloaded
    }

    fn take_over(&self) -> CliResult<Vec<String>> {
        let before = self.now.get();
        let (settings, tenants) = self.read_again(&before.settings)?;
        let mut changes = of_the_node(&before.settings, &settings);
        let mut households = vec![];
        for tenant in tenants {
            let old = before.household(&tenant.config.id);
            changes.extend(of_a_tenant(old.map(|old| &*old.tenant), &tenant));
            if let Some(old) = old.filter(|old| old.is_of(&tenant)) {
                households.push(old.clone());
                continue;
            }
            let (household, told) = self.begin(&settings, tenant, old);
            changes.extend(told);
            households.push(household);
        }
        for gone in &before.households {
            let id = &gone.tenant.config.id;
            if !households.iter().any(|household| household.tenant.config.id == *id) {
                changes.push(format!("tenant {id}: is gone; its jobs under way go on to their ends"));
            }
        }
        store::limit(&self.store, &settings);
        let kept = |old: &&Arc<Household>| !households.iter().any(|household| Arc::ptr_eq(household, old));
        let retired: Vec<Arc<Household>> = before.households.iter().filter(kept).cloned().collect();
        self.seat_tenants(&households);
        self.now.put(Present::new(settings, households));
        // What could not go on may now.
        self.tended.try_again();
        let mut all = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(retired.iter().map(|household| household.host.clone()));
        Ok(changes)
    }

    /// As at the start: a configuration that was named is trusted, one that was found must be, as it is now.
    fn read_again(&self, before: &Settings) -> CliResult<(Settings, Vec<Tenant>)> {
        let mut settings = Settings::read(&before.global, before.env.clone(), before.terminal)?;
        let tenants = Self::tenants(&mut settings, &self.plugins)?;
        if before.config_file.is_some() && settings.config_file.is_none() {
            return Err(CliError::usage("the configuration is gone").hint("put it back, or end the node"));
        }
        Ok((settings, tenants))
    }

    /// Starts what is new of a tenant; servers whose declaration is as it was go on.
    fn begin(
        &self,
        settings: &Settings,
        tenant: Tenant,
        old: Option<&Arc<Household>>,
    ) -> (Arc<Household>, Vec<String>) {
        settings.terminal.diagnostics(&tenant.warnings);
        let tenant = Arc::new(tenant);
        let (host, kept) = tenant.start_after(&settings.env, old.map(|old| &*old.host));
        let id = &tenant.config.id;
        let ids = |host: &hookwright_mcp::McpHost| host.status().into_iter().map(|s| s.tool).collect::<Vec<_>>();
        let before = old.map_or_else(Vec::new, |old| ids(&old.host));
        let mut told = vec![];
        for tool in ids(&host) {
            if kept.contains(&tool) {
                continue;
            }
            let how = if before.contains(&tool) { "started anew" } else { "started" };
            told.push(format!("tenant {id}: tool {tool} is {how}"));
        }
        let now = ids(&host);
        for tool in before.iter().filter(|tool| !now.contains(tool)) {
            told.push(format!("tenant {id}: tool {tool} ends when no job under way needs it"));
        }
        self.watch(&tenant, &host);
        (Arc::new(Household::new(tenant, host)), told)
    }

    /// Ends servers that were replaced as soon as no job under way needs them. Never returns.
    pub(crate) async fn retire(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            let idle = {
                let mut all = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
                if !all.is_empty() {
                    self.let_go();
                }
                let (idle, needed) = all.drain(..).partition::<Vec<_>, _>(|host| Arc::strong_count(host) == 1);
                *all = needed;
                idle
            };
            for host in idle {
                host.shutdown().await;
            }
        }
    }
}

/// What of the node itself can't change while it runs.
fn of_the_node(before: &Settings, now: &Settings) -> Vec<String> {
    let fixed = [
        ("store", before.config.store != now.config.store),
        ("socket", before.config.socket != now.config.socket),
        ("engine", before.config.engine != now.config.engine),
        ("log", before.config.log != now.config.log),
    ];
    let changed = fixed.into_iter().filter(|(_, changed)| *changed);
    changed.map(|(key, _)| format!("`{key}` has changed: that counts when the node is started again")).collect()
}

fn of_a_tenant(before: Option<&Tenant>, now: &Tenant) -> Vec<String> {
    let id = &now.config.id;
    let Some(before) = before else { return vec![format!("tenant {id}: is new")] };
    let plugins = |tenant: &Tenant| -> BTreeMap<String, String> {
        let all = tenant.plugins.iter().map(|plugin| &plugin.parsed.manifest);
        all.map(|manifest| (manifest.id.clone(), manifest.sha256.clone())).collect()
    };
    let (then, new) = (plugins(before), plugins(now));
    let mut told = vec![];
    for (plugin, sha) in &new {
        match then.get(plugin) {
            None => told.push(format!("tenant {id}: plugin {plugin} is new")),
            Some(before) if before != sha => told.push(format!("tenant {id}: plugin {plugin} has changed")),
            Some(_) => {}
        }
    }
    for plugin in then.keys().filter(|plugin| !new.contains_key(*plugin)) {
        told.push(format!("tenant {id}: plugin {plugin} is gone"));
    }
    if told.is_empty() && before.folders() != now.folders() {
        told.push(format!("tenant {id}: its plugins stand elsewhere, or in another order"));
    }
    let (a, b) = (&before.config, &now.config);
    let keys = [
        ("lifecycle", a.lifecycle != b.lifecycle),
        ("secrets", a.secrets != b.secrets),
        ("groups", a.groups != b.groups),
        ("limits", a.limits != b.limits || a.jobs_at_once != b.jobs_at_once),
        ("run_as", a.run_as != b.run_as),
    ];
    told.extend(keys.iter().filter(|(_, differ)| *differ).map(|(key, _)| format!("tenant {id}: `{key}` has changed")));
    told
}
