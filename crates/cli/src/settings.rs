//! From flags, configuration and environment to what a command works with. Flags win.

use crate::args::Global;
use crate::environment::Environment;
use crate::exit::{CliError, CliResult};
use crate::next::Next;
use crate::story::{Color, Look, Surroundings};
use crate::terminal::Terminal;
use crate::trust::{self, Trusted};
use hookwright_core::config::{self, Config, Engine, LogFormat, ParsedConfig, TemporalConfig, TenantConfig};
use hookwright_core::diagnostic::{Diagnostic, summary};
use hookwright_core::json::sha256_hex;
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

/// The name of a configuration in the current folder.
pub(crate) const CONFIG_NAME: &str = "hookwright.yaml";

/// What is logged where nobody says.
const DEFAULT_FILTER: &str = "error,hookwright::tool=off";

/// What a command works with.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) env: Environment,
    pub(crate) terminal: Terminal,
    pub(crate) cwd: PathBuf,
    pub(crate) config: Config,
    /// The configuration's file, if there is one.
    pub(crate) config_file: Option<PathBuf>,
    /// What it and the manifests that it names were when it was judged.
    judged: Option<Judged>,
    pub(crate) global: Global,
}

/// Digests of a configuration and of the manifests that it names: what is used is what was trusted, or named.
#[derive(Clone)]
struct Judged {
    config: String,
    manifests: BTreeMap<PathBuf, String>,
}

impl Judged {
    fn of(parsed: &ParsedConfig, file: &Path) -> Self {
        Self { config: parsed.sha256.clone(), manifests: manifest_digests(&parsed.config, file) }
    }

    fn digest(&self) -> String {
        trust::digest(&self.config, &self.manifests)
    }
}

impl Settings {
    /// Reads the configuration, if it is named or trusted.
    pub(crate) fn read(global: &Global, env: Environment, terminal: Terminal) -> CliResult<Self> {
        let cwd =
            std::env::current_dir().map_err(|e| CliError::usage(format!("the current folder can't be used: {e}")))?;
        let (config, config_file, judged) = match &global.config {
            Some(file) => {
                let file = cwd.join(file);
                let parsed = read_config(&file, terminal)?;
                let judged = Judged::of(&parsed, &file);
                (parsed.config, Some(file), Some(judged))
            }
            None => (Config::default(), None, None),
        };
        Ok(Self { env, terminal, cwd, config, config_file, judged, global: global.clone() })
    }

    /// Loads ./hookwright.yaml where no configuration was named and nothing else says what to start. It must be trusted.
    pub(crate) fn adopt_local_config(&mut self) -> CliResult<()> {
        if let Some((config, file, judged)) = self.local_config()? {
            self.config = config;
            self.config_file = Some(file);
            self.judged = Some(judged);
        }
        Ok(())
    }

    /// ./hookwright.yaml, where there is one and none was adopted. It must be trusted.
    fn local_config(&self) -> CliResult<Option<(Config, PathBuf, Judged)>> {
        let file = self.cwd.join(CONFIG_NAME);
        if self.config_file.is_some() || !file.exists() {
            return Ok(None);
        }
        let parsed = read_config(&file, self.terminal)?;
        let judged = Judged::of(&parsed, &file);
        self.require_trust(&judged, &file)?;
        Ok(Some((parsed.config, file, judged)))
    }

    /// Whether the current folder has a configuration that is not used.
    pub(crate) fn leaves_local_config_out(&self) -> bool {
        self.config_file.is_none() && self.cwd.join(CONFIG_NAME).exists()
    }

    /// Loads the configuration that a job was begun with, as it was then, or as the user trusts it now.
    pub(crate) fn adopt_config_of_job(&mut self, file: PathBuf, then: Option<&str>) -> CliResult<()> {
        let parsed = read_config(&file, self.terminal)?;
        let judged = Judged::of(&parsed, &file);
        if then != Some(judged.digest().as_str()) {
            self.require_trust(&judged, &file)?;
        }
        self.config = parsed.config;
        self.config_file = Some(file);
        self.judged = Some(judged);
        Ok(())
    }

    /// The digest of the configuration and its manifests as they were judged, for the origin of a job: what changed since is not theirs.
    pub(crate) fn config_digest(&self) -> Option<String> {
        self.judged.as_ref().map(Judged::digest)
    }

    /// Plugins are read after it was judged what may be started: one whose manifest changed in between is not used.
    pub(crate) fn are_as_judged(&self, plugins: &[crate::setup::Plugin]) -> CliResult<()> {
        let Some(judged) = &self.judged else { return Ok(()) };
        for plugin in plugins {
            let then = judged.manifests.get(Path::new(&real(&plugin.folder)));
            if then.is_some_and(|then| *then != plugin.sha256) {
                let file = plugin.folder.join(crate::setup::MANIFEST_NAME);
                return Err(CliError::usage(format!("{} was changed while it was read", shown(&file)))
                    .hint("look at it, then try again"));
            }
        }
        Ok(())
    }

    fn require_trust(&self, judged: &Judged, file: &Path) -> CliResult<()> {
        let now = Trusted::config(file, &judged.config, &judged.manifests);
        let known = trust::read(&self.env)?;
        match known.get(&real(file)) {
            Some(trusted) if trusted.digest() == now.digest() => Ok(()),
            other => {
                let what = match other.map(|then| then.changes(&now)) {
                    None => "was not trusted yet, and it says which programs are started".to_owned(),
                    Some(changes) if changes.is_empty() => {
                        "has changed since it was trusted (it, or a manifest that it names)".to_owned()
                    }
                    Some(changes) => format!("has changed since it was trusted: {}", changes.join(", ")),
                };
                Err(CliError::usage(format!("{} {what}", shown(file)))
                    .hint("look at it, then run `hookwright trust`; or name it with --config for one command"))
            }
        }
    }

    /// How text on stderr looks.
    pub(crate) fn look(&self) -> Look {
        let vars = ["NO_COLOR", "TERM", "LC_ALL", "LC_CTYPE", "LANG"].map(|name| self.env.get(name));
        let [no_color, term, lc_all, lc_ctype, lang] = &vars;
        let around = Surroundings {
            terminal: std::io::stderr().is_terminal(),
            columns: crate::terminal::columns().or_else(|| self.columns()),
            no_color: no_color.as_deref(),
            term: term.as_deref(),
            locale: lc_all.as_deref().or(lc_ctype.as_deref()).or(lang.as_deref()),
        };
        Look::of(self.global.color, around)
    }

    /// Columns that `COLUMNS` asks for.
    fn columns(&self) -> Option<usize> {
        self.env.get("COLUMNS").and_then(|columns| columns.parse().ok())
    }

    /// How text on stdout looks.
    pub(crate) fn look_of_stdout(&self) -> Look {
        if std::io::stdout().is_terminal() {
            self.look()
        } else {
            let width =
                Look::of(Color::Never, Surroundings { columns: self.columns(), ..Surroundings::default() }).width;
            Look { color: self.global.color == Color::Always, width, ..Look::PLAIN }
        }
    }

    /// The tenant that was chosen, with what the environment says of its lifecycle hooks.
    pub(crate) fn tenant(&self) -> CliResult<TenantConfig> {
        let mut tenant = self.chosen_tenant()?;
        tenant
            .lifecycle
            .overrule(&|name| self.env.set(name))
            .map_err(|why| CliError::usage(why).hint("docs/lifecycle.md has the variables of lifecycle hooks"))?;
        Ok(tenant)
    }

    fn chosen_tenant(&self) -> CliResult<TenantConfig> {
        match &self.global.tenant {
            None => Ok(self.config.tenants.first().cloned().unwrap_or_default()),
            Some(id) => self.config.tenants.iter().find(|t| t.id == *id).cloned().ok_or_else(|| {
                let known: Vec<&str> = self.config.tenants.iter().map(|t| t.id.as_str()).collect();
                if let Some(file) = &self.config_file {
                    CliError::usage(format!("no tenant {id:?} in {}; it has {}", shown(file), known.join(", ")))
                } else {
                    CliError::usage(format!(
                        "no tenant {id:?}: no configuration is used here, so there is only `default`"
                    ))
                    .hint("name it with --config; a hookwright.yaml is not looked for where plugins are named")
                }
            }),
        }
    }

    /// The folder that relative paths of the configuration are meant from.
    pub(crate) fn config_folder(&self) -> &Path {
        self.config_file.as_deref().and_then(Path::parent).unwrap_or(&self.cwd)
    }

    /// The store's file. A trusted local configuration may name it; an untrusted one is not read for it.
    ///
    /// Nothing else of a local configuration is taken for it: a job of plugins that flags name is none of its tenants'.
    pub(crate) fn db(&self) -> CliResult<PathBuf> {
        if let Some(db) = &self.global.db {
            return Ok(self.cwd.join(db));
        }
        let named = match self.local_config()? {
            Some((config, ..)) => config.store.map(|store| self.cwd.join(store)),
            None => self.config.store.as_ref().map(|store| self.config_folder().join(store)),
        };
        Ok(named.unwrap_or_else(|| self.default_db()))
    }

    /// The Temporal cluster that jobs run on, where the configuration says so, and the folder that its paths are meant from. As with
    /// [`Settings::db`], a trusted local configuration says it too, unless the store is named.
    pub(crate) fn temporal(&self) -> CliResult<Option<(TemporalConfig, PathBuf)>> {
        let local = if self.global.db.is_some() { None } else { self.local_config()? };
        match local {
            Some((config, _, _)) => {
                built(config.engine).map(|temporal| temporal.map(|config| (config, self.cwd.clone())))
            }
            None => self.own_temporal(),
        }
    }

    /// The same, of the configuration that is used: that of a job's or a node's tenants.
    pub(crate) fn own_temporal(&self) -> CliResult<Option<(TemporalConfig, PathBuf)>> {
        let temporal = built(self.config.engine.clone())?;
        Ok(temporal.map(|config| (config, self.config_folder().to_owned())))
    }

    fn default_db(&self) -> PathBuf {
        self.cwd.join(".hookwright").join("hookwright.db")
    }

    /// The store that a command finds in the current folder where no flag names one; none where it would find an error.
    fn found_db(&self) -> Option<PathBuf> {
        let default = || Some(self.default_db()).filter(|db| !db.exists() || trust::knows_store(&self.env, db));
        let file = self.cwd.join(CONFIG_NAME);
        if !file.exists() {
            return default();
        }
        let bytes = read_bounded(&file, config::MAX_CONFIG_BYTES).ok()?;
        let parsed = config::parse_bytes(&bytes, CONFIG_NAME).ok()?;
        self.require_trust(&Judged::of(&parsed, &file), &file).ok()?;
        parsed.config.store.map_or_else(default, |store| Some(self.cwd.join(store)))
    }

    /// What makes the follow-up commands that are printed.
    pub(crate) fn next(&self) -> Next {
        // Where nothing names one, it is the store that is found.
        let named = match (&self.global.db, &self.config_file) {
            (Some(db), _) => Some(self.cwd.join(db)),
            (None, Some(_)) => {
                let store = self.config.store.as_ref().map(|store| self.config_folder().join(store));
                Some(store.unwrap_or_else(|| self.default_db()))
            }
            (None, None) => None,
        };
        let db = named.filter(|db| self.found_db().as_ref() != Some(db));
        let program = std::env::current_exe().unwrap_or_default();
        // By its path where it lies below the current folder (a build in a clone).
        let program = program.strip_prefix(&self.cwd).ok();
        Next::new(program, db.as_deref().map(|db| db.strip_prefix(&self.cwd).unwrap_or(db)))
    }

    /// Stays with the store as it is named now, whatever configuration is adopted later.
    pub(crate) fn keep_db(&mut self) -> CliResult<()> {
        self.global.db = Some(self.db()?);
        Ok(())
    }

    /// Whether it is the store that is found without being named.
    pub(crate) fn is_default_db(&self, path: &Path) -> bool {
        path == self.default_db()
    }

    /// Whether a flag or a trusted configuration names the store.
    pub(crate) fn names_db(&self) -> CliResult<bool> {
        if self.global.db.is_some() || self.config.store.is_some() {
            return Ok(true);
        }
        Ok(self.local_config()?.is_some_and(|(config, ..)| config.store.is_some()))
    }

    /// Begins to log, to stderr or the configuration's file. What becomes of tools' servers is told by the commands themselves: by default it
    /// is not logged too.
    pub(crate) fn start_log(&self) -> CliResult<()> {
        use tracing_subscriber::EnvFilter;
        let filter =
            self.global.log.clone().or_else(|| self.config.log.filter.clone()).unwrap_or_else(|| DEFAULT_FILTER.into());
        let filter = EnvFilter::try_new(&filter).map_err(|e| {
            CliError::usage(format!("the log filter {filter:?} can't be read: {e}"))
                .hint("e.g. --log info, or --log hookwright::tool=info")
        })?;
        let json = self.config.log.format == LogFormat::Json;
        let builder = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
        if let Some(file) = &self.config.log.file {
            let path = self.config_folder().join(file);
            let file = crate::files::append(&path)
                .map_err(|e| CliError::usage(format!("the log {} can't be written: {e}", shown(&path))))?;
            let builder = builder.with_writer(std::sync::Mutex::new(file));
            if json { builder.json().try_init() } else { builder.try_init() }
        } else {
            let builder = builder.with_writer(std::io::stderr);
            if json { builder.json().try_init() } else { builder.try_init() }
        }
        .map_err(|e| CliError::failed(format!("the log can't be started: {e}")))
    }
}

/// The cluster of an engine, if this build knows it.
fn built(engine: Engine) -> CliResult<Option<TemporalConfig>> {
    match engine {
        Engine::Embedded => Ok(None),
        Engine::Temporal(config) if cfg!(feature = "temporal") => Ok(Some(*config)),
        Engine::Temporal(_) => {
            let what = "the configuration says `engine: temporal`, and this hookwright was built without it";
            Err(CliError::usage(what).hint(
                "build it with `cargo install --path crates/cli --features temporal`, or leave `engine` out of the configuration",
            ))
        }
    }
}

/// Reads a configuration file, or says all that is wrong with it.
pub(crate) fn read_config(file: &Path, terminal: Terminal) -> CliResult<ParsedConfig> {
    let bytes = read_bounded(file, config::MAX_CONFIG_BYTES)?;
    let parsed = config::parse_bytes(&bytes, &shown(file)).map_err(|found| faults(&found, terminal))?;
    terminal.diagnostics(&parsed.warnings);
    Ok(parsed)
}

/// The error that ends a command over faults of files.
pub(crate) fn faults(found: &[Diagnostic], terminal: Terminal) -> CliError {
    let palette = terminal.palette();
    let sum = summary(found).unwrap_or_default();
    let shown: Vec<String> = found.iter().map(|d| d.render(&palette)).collect();
    CliError::usage(format!("{sum}\n{}", shown.join("\n").trim_end())).kind("Manifest")
}

/// A file's bytes, at most a little over `limit`: the parser says what is too large.
pub(crate) fn read_bounded(file: &Path, limit: usize) -> CliResult<Vec<u8>> {
    use std::io::Read as _;
    let failed = |e: std::io::Error| {
        let error = CliError::usage(format!("{} can't be read: {e}", shown(file)));
        if e.kind() == std::io::ErrorKind::NotFound {
            error.hint("check the path, relative to the current folder")
        } else {
            error
        }
    };
    let mut bytes = Vec::new();
    crate::files::open(file).and_then(|f| f.take(limit as u64 + 1).read_to_end(&mut bytes)).map_err(failed)?;
    Ok(bytes)
}

/// Digests of the manifests that a configuration names, by folder; a missing one has none.
fn manifest_digests(config: &Config, file: &Path) -> BTreeMap<PathBuf, String> {
    let base = file.parent().unwrap_or(Path::new("."));
    // Real paths: the same folder must give the same digest, however it was reached.
    let folders = config.tenants.iter().flat_map(|t| &t.plugins).map(|p| PathBuf::from(real(&base.join(p))));
    folders
        .map(|folder| {
            let file = folder.join(crate::setup::MANIFEST_NAME);
            let bytes = read_bounded(&file, hookwright_core::manifest::MAX_MANIFEST_BYTES).unwrap_or_default();
            (folder, sha256_hex(&bytes))
        })
        .collect()
}

/// A path without links, as trust remembers it.
pub(crate) fn real(file: &Path) -> String {
    std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()).to_string_lossy().into_owned()
}

/// A path as people are shown it: from the current folder where it lies below.
pub(crate) fn shown(path: &Path) -> String {
    let cwd = std::env::current_dir().unwrap_or_default();
    let short = path.strip_prefix(&cwd).unwrap_or(path);
    let text = short.to_string_lossy();
    hookwright_core::text::escape(if text.is_empty() { "." } else { &text })
}

#[cfg(test)]
mod tests;
