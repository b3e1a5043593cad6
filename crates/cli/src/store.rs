//! Opens the store that a command works on.

use crate::exit::{CliError, CliResult};
use crate::settings::{Settings, shown};
use crate::trust;
use hookwright_runtime::of_tenant::OfTenant;
use hookwright_runtime::ports::clock::SystemClock;
use hookwright_runtime::ports::sessions::Sessions;
use hookwright_runtime::ports::store::Store;
use hookwright_sqlite::{OpenOptions, SqliteStore};
use std::path::Path;
use std::sync::Arc;

/// For commands that write: makes the file where there is none.
pub(crate) fn open(settings: &Settings) -> CliResult<Arc<SqliteStore>> {
    must_be_own(settings)?;
    let path = settings.db()?;
    if let Some(folder) = path.parent()
        && folder.file_name().is_some_and(|n| n == ".hookwright")
        && !folder.exists()
    {
        prepare_folder(folder)?;
    }
    let mut options = OpenOptions::new(node_name(), Arc::new(SystemClock));
    options.probe = crate::work::crash_probe(&settings.env);
    if settings.is_default_db(&path) && begin_file(&path) {
        // Before its set-up, lest a store whose set-up was cut short counts as somebody else's.
        trust::remember_store(&settings.env, &path);
    }
    let store = SqliteStore::open(&path, options)?;
    limit(&store, settings);
    Ok(store)
}

/// Lets as many jobs of each tenant be under way at once as the configuration says.
pub(crate) fn limit(store: &SqliteStore, settings: &Settings) {
    let limits = settings.config.tenants.iter();
    store.limit_jobs_at_once(limits.filter_map(|tenant| Some((tenant.id.clone(), tenant.jobs_at_once?))));
}

/// A store as a tenant's jobs and doors see it: nothing of another tenant can be reached through it, by whatever id.
pub(crate) fn of_tenant(store: Arc<SqliteStore>, tenant: &str) -> Arc<dyn Sessions> {
    OfTenant::new(store, tenant)
}

/// A store as an operator's command sees it: all of it, or the tenant's part that `--tenant` names.
pub(crate) fn seen(settings: &Settings, store: &Arc<SqliteStore>) -> Arc<dyn Sessions> {
    match &settings.global.tenant {
        Some(tenant) => of_tenant(store.clone(), tenant),
        None => store.clone(),
    }
}

/// Makes an empty file where there is none. True: the file is empty, so whatever it will hold comes from this user's commands. What goes
/// wrong here goes wrong again, in words, where the store is opened.
fn begin_file(path: &Path) -> bool {
    use std::os::unix::fs::OpenOptionsExt as _;
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).is_ok();
    made || std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0)
}

/// Refuses a store that is only found in the current folder and was not made there by this user's own commands, as one that came with a clone:
/// its jobs say which programs are started, its rows what a person has decided, its sessions what a model has heard (SPEC §2). One without
/// anything in it is nobody's.
fn must_be_own(settings: &Settings) -> CliResult<()> {
    if settings.names_db()? { Ok(()) } else { must_be_known(settings, &settings.db()?) }
}

/// As [`must_be_own`], of a store that nobody named.
pub(crate) fn must_be_known(settings: &Settings, path: &Path) -> CliResult<()> {
    let holds = std::fs::metadata(path).is_ok_and(|found| !found.is_file() || found.len() > 0);
    if !holds || trust::knows_store(&settings.env, path) {
        return Ok(());
    }
    let message = format!(
        "{} was not made by you here: its jobs say which programs are started, and what was decided in your name",
        shown(path)
    );
    let name = crate::next::quoted(&shown(path));
    let hint = match trust::file(&settings.env) {
        Ok(_) => format!(
            "if it came with the folder, remove it or use another (--db FILE); if it is yours, name it: --db {name}"
        ),
        Err(_) => format!(
            "with neither XDG_CONFIG_HOME nor HOME set nobody knows what you made; if it is yours, name it: --db {name}"
        ),
    };
    Err(CliError::usage(message).hint(hint))
}

/// For commands that look at or decide on what is there: a store that does not exist is an error, not an empty one. One that is written to must
/// be this user's own, or named; looking needs no trust.
pub(crate) fn existing(settings: &Settings, read_only: bool) -> CliResult<Arc<SqliteStore>> {
    let path = settings.db()?;
    if !path.exists() {
        return Err(CliError::failed(format!("there is no store at {}", shown(&path)))
            .hint("name it with --db, or go to the folder where the job was run"));
    }
    if !read_only {
        must_be_own(settings)?;
    }
    let options = OpenOptions::new(node_name(), Arc::new(SystemClock));
    let options = if read_only { options.read_only() } else { options };
    Ok(SqliteStore::open(&path, options)?)
}

/// What commands look at and decide on: the store, or the cluster that the configuration names.
pub(crate) async fn view(settings: &Settings, read_only: bool) -> CliResult<View> {
    #[cfg(feature = "temporal")]
    if let Some((config, folder)) = settings.temporal()? {
        if settings.global.tenant.is_some() {
            return Err(CliError::usage("what stands on a Temporal cluster can't be narrowed to a tenant yet")
                .hint("leave --tenant out, or keep a cluster's namespace to each tenant"));
        }
        let access = crate::cluster::access(settings, &config, &folder)?;
        let cluster = crate::cluster::connect(&access).await?;
        // Large values of jobs that are at home here. Without them their digests are shown: a store that is only being made is no matter.
        let local = existing(settings, true).ok().map(|local| local as Arc<dyn Store>);
        let store = Arc::new(hookwright_temporal::ClusterStore::new(cluster.clone(), local));
        return Ok(View { store, cluster: Some(cluster) });
    }
    #[cfg(not(feature = "temporal"))]
    settings.temporal()?;
    // Nothing is awaited here in a build without clusters.
    std::future::ready(()).await;
    Ok(View {
        store: seen(settings, &existing(settings, read_only)?),
        #[cfg(feature = "temporal")]
        cluster: None,
    })
}

/// A store to look at.
pub(crate) struct View {
    pub(crate) store: Arc<dyn Store>,
    /// The cluster, where that is it.
    #[cfg(feature = "temporal")]
    pub(crate) cluster: Option<hookwright_temporal::Cluster>,
}

/// Our own folder in a project: kept out of its git.
pub(crate) fn prepare_folder(folder: &Path) -> CliResult<()> {
    let failed = |e: std::io::Error| CliError::failed(format!("the folder {} can't be made: {e}", shown(folder)));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let ignore = folder.join(".gitignore");
    if !ignore.exists() {
        std::fs::write(ignore, "*\n").map_err(failed)?;
    }
    Ok(())
}

/// The node's name: the machine's.
pub(crate) fn node_name() -> String {
    let name = whoami::hostname().unwrap_or_else(|_| "localhost".into());
    let name: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')).take(64).collect();
    if name.is_empty() { "localhost".into() } else { name }
}

/// As [`existing`], for running jobs: with the crash points of tests.
pub(crate) fn open_existing(settings: &Settings) -> CliResult<Arc<SqliteStore>> {
    drop(existing(settings, true)?);
    open(settings)
}
