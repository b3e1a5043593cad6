//! What is wrong with an installation, and what to do about it: from facts that were gathered, without looking at anything itself.
//!
//! Invariant: nothing is changed, and nothing that was not asked for is started but the plugins' own servers.
//! Invariant: a fact that could not be had is a finding, never silence.

pub(crate) mod look;
#[cfg(test)]
mod tests;

use crate::next::Next;
use crate::story::units;
use hookwright_core::text::shown;
use serde::Serialize;
use serde_json::Value;

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// Works, and deserves a look.
    Warning,
    /// Something does not work.
    Problem,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// `store`, `clock`, `configuration`, `plugins`, `node`, `jobs` or `approvals`.
    pub(crate) about: &'static str,
    pub(crate) level: Level,
    /// What was found.
    pub(crate) said: String,
    /// What to do, where something is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

fn ok(about: &'static str, said: impl Into<String>) -> Finding {
    Finding { about, level: Level::Ok, said: said.into(), next: None }
}

fn warning(about: &'static str, said: impl Into<String>, next: impl Into<String>) -> Finding {
    Finding { about, level: Level::Warning, said: said.into(), next: Some(next.into()) }
}

fn problem(about: &'static str, said: impl Into<String>, next: impl Into<String>) -> Finding {
    Finding { about, level: Level::Problem, said: said.into(), next: Some(next.into()) }
}

/// Free space below which a store is about to be full, in bytes: 100 MiB.
const LITTLE_SPACE: u64 = 100 * 1024 * 1024;
/// A write-ahead log that is larger than this is not checkpointed: 256 MiB. The store itself aims at a few MiB.
const LARGE_WAL: u64 = 256 * 1024 * 1024;
/// How far a clock may be behind what a store has seen, in ms: a minute.
const CLOCK_SLACK_MS: u64 = 60_000;
/// An approval whose time is over within this is about to be a no: an hour.
const SOON_MS: u64 = 3_600_000;
/// A job that waits for nobody and that nobody runs is stuck after this, in ms: a node looks every few seconds.
const UNTENDED_MS: u64 = 60_000;
/// Characters of what others wrote.
const CHARS: u32 = 300;

/// The store's file, as the system shows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoreFacts {
    pub(crate) path: String,
    pub(crate) exists: bool,
    /// Permission bits of the file, and of its folder.
    pub(crate) mode: Option<u32>,
    pub(crate) folder_mode: Option<u32>,
    /// Whether file and folder are this user's.
    pub(crate) is_own: bool,
    pub(crate) folder_writable: bool,
    pub(crate) free_bytes: Option<u64>,
    /// The kind of a network file system on which it lies.
    pub(crate) network: Option<&'static str>,
    pub(crate) wal_bytes: u64,
    /// Why it can't be read.
    pub(crate) unreadable: Option<String>,
    /// What its own check found; `None` where it was not made.
    pub(crate) faults: Option<Vec<String>>,
    /// The latest time that it holds.
    pub(crate) latest_ms: Option<u64>,
}

/// What a doctor knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) now_ms: u64,
    pub(crate) version: &'static str,
    pub(crate) store: StoreFacts,
    /// Why the configuration or a plugin can't be used: error and hint.
    pub(crate) unusable: Option<(String, Option<String>)>,
    /// The configuration's file.
    pub(crate) config: Option<String>,
    /// Its digest, as it is now.
    pub(crate) config_digest: Option<String>,
    /// Whether plugins were named or configured at all.
    pub(crate) has_plugins: bool,
    /// Errors of manifests and servers, and warnings.
    pub(crate) errors: Vec<String>,
    pub(crate) warnings: Vec<String>,
    pub(crate) tools: usize,
    pub(crate) hooks: usize,
    /// Files of plugins that changed after the node read them: plugin and when, in ms.
    pub(crate) changed: Vec<(String, u64)>,
    /// What the node answered, or what a store knows without one.
    pub(crate) status: Value,
    /// Why a node that is there can't be asked.
    pub(crate) mute: Option<(String, Option<String>)>,
    /// Jobs that are neither over, nor run by anybody, nor waiting for a person: id and since when nothing happened.
    pub(crate) untended: Vec<(String, u64)>,
    /// Open approvals: id and when its time is over.
    pub(crate) open: Vec<(String, u64)>,
}

/// What is to be said, in the order in which it is to be mended.
pub(crate) fn judge(facts: &Facts, next: &Next) -> Vec<Finding> {
    let mut found = vec![];
    store(&facts.store, &mut found);
    clock(facts, &mut found);
    configuration(facts, next, &mut found);
    plugins(facts, next, &mut found);
    node(facts, next, &mut found);
    jobs(facts, next, &mut found);
    approvals(facts, next, &mut found);
    found
}

fn store(store: &StoreFacts, found: &mut Vec<Finding>) {
    let before = found.len();
    let about = "store";
    if !store.folder_writable {
        found.push(problem(
            about,
            format!("the folder of {} can't be written to: a store needs it for its log and locks", store.path),
            "give its folder to the user that runs Hookwright, or name another store (--db FILE)",
        ));
    }
    if let Some(kind) = store.network {
        found.push(problem(
            about,
            format!("{} lies on a network file system ({kind}), whose locks and log SQLite can't rely on", store.path),
            "put it on a disk of this machine (`store:` in hookwright.yaml, or --db FILE)",
        ));
    }
    if store.free_bytes.is_some_and(|free| free < LITTLE_SPACE) {
        let free = store.free_bytes.unwrap_or_default();
        found.push(problem(
            about,
            format!("{} are left on its disk; a full disk stops every job before its next effect", units::bytes(free)),
            "make room; `hookwright jobs forget` drops values of old jobs and leaves their digests",
        ));
    }
    if store.exists && !store.is_own {
        found.push(warning(
            about,
            format!("{} or its folder belongs to another user", store.path),
            "run Hookwright as one user, the store's owner (docs/security.md)",
        ));
    }
    for (what, mode) in [("the store", store.mode), ("its folder", store.folder_mode)] {
        if let Some(mode) = mode.filter(|mode| mode & 0o022 != 0) {
            found.push(problem(
                about,
                format!(
                    "{what} can be written to by other users (mode {:o}): they could decide in your name",
                    mode & 0o777
                ),
                "chmod go-w it; docs/security.md says who may reach what",
            ));
        }
    }
    if let Some(mode) = store.mode.filter(|mode| mode & 0o044 != 0) {
        found.push(warning(
            about,
            format!("the store can be read by other users (mode {:o}); it holds arguments and results", mode & 0o777),
            format!("chmod 600 {}", store.path),
        ));
    }
    if let Some(why) = &store.unreadable {
        found.push(problem(
            about,
            format!("it can't be read: {}", shown(why, CHARS)),
            "restore a backup (docs/store.md), or name another with --db",
        ));
    }
    for fault in store.faults.iter().flatten().take(5) {
        found.push(problem(
            about,
            format!("it is damaged: {}", shown(fault, CHARS)),
            "stop the node, keep a copy of the file, restore a backup (docs/store.md)",
        ));
    }
    if store.wal_bytes > LARGE_WAL {
        found.push(warning(
            about,
            format!("its write-ahead log has {}: something reads it without end", units::bytes(store.wal_bytes)),
            "end processes that hold the file open for long (backups with other tools, a forgotten `sqlite3`)",
        ));
    }
    if found.len() == before {
        found.push(match (store.exists, store.free_bytes) {
            (false, _) => ok(about, format!("{} is not there yet; the first job makes it", store.path)),
            (true, Some(free)) => ok(about, format!("{}, intact, {} free", store.path, units::bytes(free))),
            (true, None) => ok(about, format!("{}, intact", store.path)),
        });
    }
}

fn clock(facts: &Facts, found: &mut Vec<Finding>) {
    let about = "clock";
    match facts.store.latest_ms {
        Some(latest) if latest > facts.now_ms + CLOCK_SLACK_MS => found.push(problem(
            about,
            format!(
                "it is {} behind what the store has seen: approvals and leases last longer than they say",
                units::took_whole(latest - facts.now_ms)
            ),
            "set the machine's clock (NTP); times of the history are not changed",
        )),
        Some(_) => found.push(ok(about, "not behind what the store has seen")),
        None => {}
    }
}

fn configuration(facts: &Facts, next: &Next, found: &mut Vec<Finding>) {
    let about = "configuration";
    if let Some((why, hint)) = &facts.unusable {
        let hint = hint.clone().unwrap_or_else(|| format!("`{}` names all faults", next.without_db().command("check")));
        found.push(problem(about, why.clone(), hint));
    } else if let Some(file) = &facts.config {
        found.push(ok(about, file.clone()));
    }
}

fn plugins(facts: &Facts, next: &Next, found: &mut Vec<Finding>) {
    let about = "plugins";
    let before = found.len();
    let check = next.without_db().command("check");
    if facts.unusable.is_none() && !facts.has_plugins {
        found.push(warning(
            about,
            "none is configured here: no hook is asked",
            "go to the folder of your hookwright.yaml, or name plugins (--plugin DIR)",
        ));
        return;
    }
    for error in facts.errors.iter().take(20) {
        found.push(problem(about, shown(error, CHARS), format!("`{check}` shows it with its place")));
    }
    if facts.errors.len() > 20 {
        found.push(problem(about, format!("… and {} more", facts.errors.len() - 20), format!("`{check}` shows all")));
    }
    if !facts.warnings.is_empty() {
        let count = units::plural(facts.warnings.len() as u64, "warning");
        found.push(warning(about, count, format!("`{check}` shows them")));
    }
    for (plugin, at_ms) in &facts.changed {
        found.push(warning(
            about,
            format!(
                "{} changed {} ago, after the node read it: the node works with what it was",
                shown(plugin, CHARS),
                units::took_whole(facts.now_ms.saturating_sub(*at_ms))
            ),
            format!(
                "`{}`, then start it again; running jobs keep the hooks that they began with",
                next.command("stop")
            ),
        ));
    }
    if facts.unusable.is_none() && found.len() == before {
        let tools = units::plural(facts.tools as u64, "server");
        found.push(ok(about, format!("{tools} answered, {} loaded", units::plural(facts.hooks as u64, "hook"))));
    }
}

fn node(facts: &Facts, next: &Next, found: &mut Vec<Finding>) {
    let about = "node";
    if let Some((why, hint)) = &facts.mute {
        let hint = hint.clone().unwrap_or_else(|| "look at its process; SIGTERM ends it".to_owned());
        found.push(problem(about, why.clone(), hint));
        return;
    }
    let node = &facts.status["node"];
    if node.is_null() {
        return found.push(match facts.status["starting_or_ending"].as_u64() {
            Some(pid) => ok(about, format!("process {pid} is starting or ending")),
            None => ok(about, "none runs; nothing here needs one but bridges and `gateway --attach`"),
        });
    }
    let before = found.len();
    let restart = format!("`{}`, then start it again", next.command("stop"));
    let version = node["version"].as_str().unwrap_or("?");
    if version != facts.version {
        let said = format!("it is of version {}, this command of {}", shown(version, 40), facts.version);
        found.push(warning(about, said, restart.clone()));
    }
    let reload = &facts.status["reload"];
    let counts = if reload["ok"] == true { &reload["config_digest"] } else { &node["config_digest"] };
    if let (Some(then), Some(now)) = (counts.as_str(), &facts.config_digest)
        && then != now
    {
        let said = "its configuration, or a manifest that it names, has changed since it read them";
        found.push(warning(about, said, format!("`{}`", next.command("reload"))));
    }
    if let Some(why) = reload["error"].as_str() {
        let said = format!("the configuration was read again and refused: {}", shown(why, CHARS));
        found.push(problem(about, said, format!("mend it, then `{}`", next.command("reload"))));
    }
    for left in facts.status["jobs"]["left_listed"].as_array().into_iter().flatten().take(5) {
        let job = shown(left["job"].as_str().unwrap_or("?"), 80);
        let why = shown(left["why"].as_str().unwrap_or("?"), CHARS);
        let hint = left["hint"]
            .as_str()
            .map_or_else(|| format!("`{}`", next.command(&format!("jobs show {job}"))), |hint| shown(hint, CHARS));
        found.push(problem("jobs", format!("{job} can't go on: {why}"), hint));
    }
    if found.len() == before {
        let up = units::took_whole(node["uptime_ms"].as_u64().unwrap_or_default());
        found.push(ok(about, format!("process {}, up {up}", node["pid"].as_u64().unwrap_or_default())));
    }
}

fn jobs(facts: &Facts, next: &Next, found: &mut Vec<Finding>) {
    let about = "jobs";
    let stuck: Vec<_> =
        facts.untended.iter().filter(|(_, since)| facts.now_ms.saturating_sub(*since) > UNTENDED_MS).collect();
    if let Some((job, since)) = stuck.iter().min_by_key(|(_, since)| since) {
        let count = units::plural(stuck.len() as u64, "job");
        let since = units::took_whole(facts.now_ms.saturating_sub(*since));
        let said = format!("{count} not over, and no process runs them; the oldest is {job}, for {since}");
        let resume = next.command("jobs resume --all");
        found.push(problem(about, said, format!("`{}` or `{resume}`", next.command("serve --background"))));
    } else if facts.store.exists && facts.store.unreadable.is_none() {
        found.push(ok(about, "none that is not over is without a process"));
    }
}

fn approvals(facts: &Facts, next: &Next, found: &mut Vec<Finding>) {
    let about = "approvals";
    let soon: Vec<_> = facts.open.iter().filter(|(_, ends)| *ends < facts.now_ms + SOON_MS).collect();
    if let Some((id, ends)) = soon.iter().min_by_key(|(_, ends)| ends) {
        let left = units::took_whole(ends.saturating_sub(facts.now_ms));
        let said = format!("{} of {} become a no within the hour; {id} in {left}", soon.len(), facts.open.len());
        found.push(warning(about, said, format!("`{}`", next.command(&format!("approvals show {id}")))));
    } else if !facts.open.is_empty() {
        let count = units::plural(facts.open.len() as u64, "approval");
        found.push(ok(about, format!("{count} wait for a person")));
    }
}
