//! Gathers the facts: files, the store, the node, the plugins' servers.

use super::{Facts, StoreFacts};
use crate::settings::Settings;
use crate::setup::{self, Tenant};
use crate::store;
use hookwright_core::diagnostic::Diagnostic;
use hookwright_core::manifest::Parsed;
use hookwright_core::manifest::tenant::{Listed, check_live};
use hookwright_node::Place;
use hookwright_node::client::{self, ClientError};
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use hookwright_runtime::ports::store::{JobStatus, Store as _};
use hookwright_runtime::ports::tools::Tools as _;
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// How long the node may take to answer.
const ANSWERS: Duration = Duration::from_secs(5);
/// Jobs and approvals that are looked at.
const AT_MOST: u32 = 10_000;

/// Looks at everything that a command of these settings works with.
pub(crate) async fn look(settings: &mut Settings, plugins: &[PathBuf]) -> Facts {
    let mut facts = Facts { now_ms: SystemClock.now_ms(), version: env!("CARGO_PKG_VERSION"), ..Facts::default() };
    let tenant = configured(settings, plugins, &mut facts);
    match settings.db() {
        Ok(path) => {
            facts.store = of_file(&path);
            of_store(settings, &mut facts).await;
            of_node(&path, &mut facts).await;
        }
        // A configuration that can't be used names no store.
        Err(error) => {
            facts.unusable.get_or_insert((error.message, error.hint));
        }
    }
    if let Some((tenant, found)) = tenant {
        of_plugins(settings, &tenant, found, &mut facts).await;
    }
    facts
}

/// The configuration and the manifests.
fn configured(settings: &mut Settings, plugins: &[PathBuf], facts: &mut Facts) -> Option<(Tenant, Vec<Diagnostic>)> {
    let named = !plugins.is_empty() || settings.config_file.is_some() || settings.leaves_local_config_out();
    let loaded = if named { Some(setup::load(settings, plugins)) } else { None };
    facts.config = settings.config_file.as_ref().map(|file| crate::settings::shown(file));
    facts.config_digest = settings.config_digest();
    facts.has_plugins = named;
    match loaded? {
        Ok(loaded) => Some(loaded),
        Err(error) => {
            facts.unusable = Some((error.message, error.hint));
            None
        }
    }
}

fn of_file(path: &Path) -> StoreFacts {
    let mut found = StoreFacts { path: crate::settings::shown(path), folder_writable: true, ..StoreFacts::default() };
    let me = rustix::process::geteuid().as_raw();
    let file = std::fs::metadata(path).ok();
    // Where there is none yet, the folder that the first job would make it in.
    let folder = path.ancestors().skip(1).find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let of_folder = std::fs::metadata(folder).ok();
    found.exists = file.is_some();
    found.mode = file.as_ref().map(MetadataExt::mode);
    found.is_own = file.iter().all(|file| file.uid() == me)
        && (file.is_none() || of_folder.iter().all(|folder| folder.uid() == me));
    found.folder_mode = of_folder.as_ref().filter(|_| file.is_some()).map(MetadataExt::mode);
    found.folder_writable = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok();
    let space = rustix::fs::statvfs(folder).ok();
    found.free_bytes = space.map(|space| space.f_bavail.saturating_mul(space.f_frsize));
    found.network = network(folder);
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    found.wal_bytes = std::fs::metadata(wal).map_or(0, |wal| wal.len());
    found
}

/// The kind of file system, where its locks are another machine's.
#[cfg(target_os = "linux")]
fn network(folder: &Path) -> Option<&'static str> {
    // From linux/magic.h, and CIFS's and SMB's own headers.
    match rustix::fs::statfs(folder).ok()?.f_type & 0xffff_ffff {
        0x6969 => Some("NFS"),
        0x517b | 0xfe53_4d42 | 0xff53_4d42 => Some("SMB"),
        0x0102_1997 => Some("9p"),
        0x00c3_6400 => Some("Ceph"),
        _ => None,
    }
}

#[cfg(not(target_os = "linux"))]
fn network(_: &Path) -> Option<&'static str> {
    None
}

async fn of_store(settings: &Settings, facts: &mut Facts) {
    if !facts.store.exists {
        return;
    }
    let read = async {
        let store = store::existing(settings, true)?;
        let jobs = store.jobs(true, AT_MOST).await?;
        let latest = store.jobs(false, 1).await?;
        let approvals = store.approvals(true).await?;
        let faults = store.faults().await?;
        crate::exit::CliResult::Ok((jobs, latest, approvals, faults))
    };
    match read.await {
        Err(error) => facts.store.unreadable = Some(error.message),
        Ok((jobs, latest, approvals, faults)) => {
            facts.store.faults = Some(faults);
            let times = jobs.iter().chain(&latest).map(|job| job.updated_ms.max(job.job.created_ms));
            facts.store.latest_ms = times.chain(approvals.iter().map(|approval| approval.opened_ms)).max();
            let untended = jobs.iter().filter(|job| !job.running && job.status == JobStatus::Running);
            facts.untended = untended.map(|job| (job.job.id.clone(), job.updated_ms)).collect();
            facts.open = approvals.into_iter().map(|approval| (approval.id, approval.expires_ms)).collect();
        }
    }
}

async fn of_node(store: &Path, facts: &mut Facts) {
    let place = Place::of(store);
    let asked = place.clone();
    let answer = tokio::task::spawn_blocking(move || client::status(&asked, ANSWERS)).await;
    match answer {
        Ok(Ok(status)) => facts.status = status,
        Ok(Err(ClientError::NoNode)) => {
            facts.status = json!({ "node": null });
            if !place.is_free() {
                facts.status["starting_or_ending"] = json!(place.holder());
            }
        }
        Ok(Err(error)) => {
            let error = crate::commands::status::unreachable(&place, &error);
            facts.mute = Some((error.message, error.hint));
        }
        Err(error) => facts.mute = Some((format!("the node can't be asked: {error}"), None)),
    }
}

/// Starts the plugins' servers, as a job would, and sees what they list.
async fn of_plugins(settings: &Settings, tenant: &Tenant, mut found: Vec<Diagnostic>, facts: &mut Facts) {
    facts.changed = changed(tenant, &facts.status);
    if !found.iter().any(Diagnostic::is_error) {
        let host = tenant.start(&settings.env);
        let tools: Vec<&str> = tenant.tool_ids().collect();
        let progress = crate::progress::waiting(settings.terminal, format!("starting {} servers", tools.len()));
        let all = futures_util::future::join_all(tools.iter().map(|tool| host.functions(tool)));
        let stopped = async {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                () = crate::signals::stop() => {}
            }
        };
        let answers = tokio::select! {
            answers = all => answers,
            () = stopped => vec![],
        };
        drop(progress);
        facts.tools = answers.iter().filter(|answer| answer.is_ok()).count();
        let name = |answer: Result<Vec<hookwright_runtime::ports::tools::ListedFunction>, _>| match answer {
            Ok(functions) => Ok(functions.into_iter().map(|f| f.name).collect()),
            Err(hookwright_runtime::ports::tools::ToolDown { why }) => Err(why),
        };
        let listed: Listed = tools.iter().map(|tool| (*tool).to_owned()).zip(answers.into_iter().map(name)).collect();
        crate::signals::end(host).await;
        let all: Vec<&Parsed> = tenant.plugins.iter().map(|plugin| &plugin.parsed).collect();
        found.extend(check_live(&all, &listed));
    }
    facts.hooks = tenant.plugins.iter().map(|plugin| plugin.parsed.manifest.hooks.len()).sum();
    for fault in found {
        let is_error = fault.is_error();
        let said = fault.to_string();
        if is_error { facts.errors.push(said) } else { facts.warnings.push(said) }
    }
}

/// Whether a file is what a server is started from, and none that a server writes.
fn is_source(path: &Path, mode: u32) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let sources = ["yaml", "yml", "toml", "cel", "py", "js", "mjs", "cjs", "ts", "mts", "rb", "sh", "go", "rs"];
    sources.contains(&extension) || mode & 0o111 != 0
}

/// Plugins of which a source is newer than the node that runs them. Folders that packages bring, and hidden ones, are not looked into.
fn changed(tenant: &Tenant, status: &Value) -> Vec<(String, u64)> {
    let Some(started_ms) = status["node"]["started_ms"].as_u64() else { return vec![] };
    let newest = |folder: &Path| {
        let mut newest = 0;
        let mut left = 5_000_u32;
        let mut folders = vec![(folder.to_owned(), 0_u32)];
        while let Some((folder, depth)) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                left = left.saturating_sub(1);
                let name = entry.file_name().to_string_lossy().into_owned();
                let skipped = ["node_modules", "target", "__pycache__", "venv"].contains(&name.as_str());
                let Ok(found) = entry.metadata() else { continue };
                if left == 0 || skipped || name.starts_with('.') || found.is_symlink() {
                    continue;
                }
                if found.is_dir() && depth < 8 {
                    folders.push((entry.path(), depth + 1));
                } else if found.is_file()
                    && is_source(&entry.path(), found.mode())
                    && let Some(at) = found.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok())
                {
                    newest = newest.max(u64::try_from(at.as_millis()).unwrap_or(u64::MAX));
                }
            }
        }
        newest
    };
    let ages = tenant.plugins.iter().map(|plugin| (plugin.parsed.manifest.id.clone(), newest(&plugin.folder)));
    ages.filter(|(_, at)| *at > started_ms).collect()
}
