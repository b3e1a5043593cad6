//! `hookwright install` and `uninstall`: a harness's configuration, with what changes, what can't be enforced there, and a probe.

use crate::args::{BridgeEscalate, InstallArgs, InstallScope, UninstallArgs};
use crate::exit::{self, CliError, CliResult};
use crate::installed::{self, Installed};
use crate::settings::{Settings, shown};
use crate::terminal::{data, note};
use hookwright_bridge::install::{self, InstallError, Launch, Places, Scope, Shape, Target};
use hookwright_bridge::{Escalate, Harness};
use similar::TextDiff;
use std::path::{Path, PathBuf};

mod codex;
mod limits;
mod probe;

/// A file, and how it is to change; none: it is to be gone.
struct Change {
    path: PathBuf,
    before: Option<String>,
    /// What stood there, or would, without anything of ours: what `uninstall` brings back.
    without: Option<String>,
    after: Option<String>,
    executable: bool,
}

impl Change {
    fn is_none(&self) -> bool {
        self.before == self.after
    }

    /// Prints the difference.
    fn show(&self) {
        let (old, new) = (self.before.as_deref().unwrap_or_default(), self.after.as_deref().unwrap_or_default());
        let path = shown(&self.path);
        let [from, to] =
            [&self.before, &self.after].map(|text| if text.is_some() { path.clone() } else { "/dev/null".to_owned() });
        let diff = TextDiff::from_lines(old, new);
        let text = diff.unified_diff().context_radius(2).header(&from, &to).to_string();
        data(&hookwright_core::text::escape_block(&text));
    }

    fn write(&self, installed: &mut Installed) -> CliResult<()> {
        installed::is_still(&self.path, self.before.as_deref())?;
        let Some(after) = &self.after else {
            installed::remove(&self.path)?;
            return installed.forget(&self.path);
        };
        installed.remember(&self.path, self.before.as_deref(), self.without.as_deref(), after)?;
        installed::write(&self.path, after, Some(if self.executable { 0o755 } else { 0o644 }))
    }
}

pub(crate) fn install(settings: &Settings, args: &InstallArgs) -> CliResult {
    let harness = harness(&args.harness)?;
    let scope = scope(args.scope);
    let places = places(settings)?;
    let launch = launch(settings, args, harness)?;
    let targets = install::targets(harness, scope, &places).map_err(|e| failed(&e, None))?;
    let mut installed = Installed::read(&settings.env, !args.dry_run)?;
    let mut changes = Vec::new();
    for target in &targets {
        let before = installed::text(&target.path)?;
        let after = install::with(harness, target, before.as_deref(), &launch).map_err(|e| failed(&e, Some(target)))?;
        // Entries of ours from an earlier time are nobody's to bring back, whatever was edited around them since.
        let without = match &before {
            Some(before) => install::without(harness, target, before).map_err(|e| failed(&e, Some(target)))?,
            None => None,
        };
        let path = target.path.clone();
        changes.push(Change { path, before, without, after: Some(after), executable: target.executable });
    }
    let changed = changes.iter().any(|change| !change.is_none());
    changes.iter().filter(|change| !change.is_none()).for_each(Change::show);
    if args.dry_run {
        note(if changed { "nothing was changed (--dry-run)" } else { "nothing would change: it is installed" });
        limits::tell(harness, scope);
        return Ok(exit::OK);
    }
    for change in changes.iter().filter(|change| !change.is_none()) {
        change.write(&mut installed)?;
    }
    note(&format!("{}: {}", harness.title(), if changed { "installed" } else { "it was installed already" }));
    let trusted = if harness == Harness::Codex && scope != Scope::Managed {
        codex::trust(settings, &places, &targets[0].path, &mut installed)?
    } else {
        true
    };
    limits::tell(harness, scope);
    for target in &targets {
        // What stands there now is read again: another program may keep the file in its memory, and write it back.
        let stands = installed::text(&target.path)?;
        let wanted = install::with(harness, target, stands.as_deref(), &launch).ok();
        if stands.is_none() || wanted != stands {
            return Err(CliError::failed(format!("{} does not hold what was written to it", shown(&target.path)))
                .hint("another program has changed it meanwhile: end that one, then install again"));
        }
    }
    let probed = probe::run(settings, harness, &launch);
    Ok(if probed && trusted { exit::OK } else { exit::FAILED })
}

pub(crate) fn uninstall(settings: &Settings, args: &UninstallArgs) -> CliResult {
    let harness = harness(&args.harness)?;
    let places = places(settings)?;
    let scope = scope(args.scope);
    let targets = install::targets(harness, scope, &places).map_err(|e| failed(&e, None))?;
    let mut installed = Installed::read(&settings.env, !args.dry_run)?;
    let mut changes = Vec::new();
    if harness == Harness::Codex && scope != Scope::Managed {
        changes.extend(codex::distrust(&places, &targets[0].path, &installed)?);
    }
    for target in &targets {
        let Some(before) = installed::text(&target.path)? else { continue };
        let after = match installed.untouched(&target.path, &before) {
            Some(kept) => kept.before.clone(),
            None => install::without(harness, target, &before).map_err(|e| failed(&e, Some(target)))?,
        };
        let (path, executable) = (target.path.clone(), target.executable);
        changes.push(Change { path, before: Some(before), without: None, after, executable });
    }
    let changes: Vec<Change> = changes.into_iter().filter(|change| !change.is_none()).collect();
    changes.iter().for_each(Change::show);
    if args.dry_run {
        note("nothing was changed (--dry-run)");
        return Ok(exit::OK);
    }
    for change in &changes {
        match &change.after {
            None => change.write(&mut installed)?,
            Some(text) => {
                installed::is_still(&change.path, change.before.as_deref())?;
                installed::write(&change.path, text, None)?;
                installed.forget(&change.path)?;
            }
        }
        remove_empty(&change.path, &places);
    }
    note(&format!(
        "{}: {}",
        harness.title(),
        if changes.is_empty() { "nothing of ours was there" } else { "uninstalled" }
    ));
    Ok(exit::OK)
}

/// Folders that hold nothing any more and have our name go too.
fn remove_empty(path: &Path, places: &Places) {
    for folder in path.ancestors().skip(1).take_while(|folder| **folder != places.home && **folder != places.project) {
        let is_ours = folder.ancestors().any(|above| above.file_name().is_some_and(|name| name == "hookwright"));
        if !is_ours || std::fs::remove_dir(folder).is_err() {
            break;
        }
    }
}

fn harness(id: &str) -> CliResult<Harness> {
    Harness::of(id).ok_or_else(|| {
        let known: Vec<&str> = Harness::ALL.iter().map(|harness| harness.id()).collect();
        let nearest = known.iter().copied().min_by_key(|other| distance(id, other));
        let error = CliError::usage(format!(
            "there is no bridge to {:?}; there is one to {}",
            hookwright_core::text::shown(id, 60),
            known.join(", ")
        ));
        match nearest.filter(|other| distance(id, other) <= 4) {
            Some(nearest) => error.hint(format!("did you mean `{nearest}`?")),
            None => error,
        }
    })
}

/// How many letters are not the same, roughly: a name inside another is near.
fn distance(a: &str, b: &str) -> usize {
    if !a.is_empty() && b.starts_with(a) {
        0
    } else {
        a.chars().zip(b.chars()).filter(|(a, b)| a != b).count() + a.len().abs_diff(b.len())
    }
}

fn scope(scope: InstallScope) -> Scope {
    match scope {
        InstallScope::User => Scope::User,
        InstallScope::Project => Scope::Project,
        InstallScope::Managed => Scope::Managed,
    }
}

fn places(settings: &Settings) -> CliResult<Places> {
    let path = |name: &str| settings.env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home =
        path("HOME").ok_or_else(|| CliError::usage("HOME is not set, so no harness's configuration can be found"))?;
    Ok(Places {
        home,
        project: settings.cwd.clone(),
        root: PathBuf::from("/"),
        config: path("XDG_CONFIG_HOME"),
        claude: path("CLAUDE_CONFIG_DIR"),
        codex: path("CODEX_HOME"),
        copilot: path("COPILOT_HOME"),
    })
}

fn launch(settings: &Settings, args: &InstallArgs, harness: Harness) -> CliResult<Launch> {
    let escalate = match args.escalate {
        BridgeEscalate::Wait => Escalate::Wait,
        BridgeEscalate::Ask => Escalate::Ask,
    };
    if let (Escalate::Ask, Some(why)) = (escalate, limits::why_no_prompt(harness)) {
        return Err(CliError::usage(format!("--escalate ask: {} {why}", harness.title()))
            .hint("without it they wait for an approval: `hookwright approvals list`"));
    }
    let program =
        std::env::current_exe().map_err(|e| CliError::failed(format!("this program's own path is not known: {e}")))?;
    if program.file_name().is_none_or(|name| name != "hookwright") {
        return Err(CliError::usage(format!("{} is not called `hookwright`", program.display()))
            .hint("`uninstall` and a second `install` find their entries by that name; rename the program"));
    }
    let store = hookwright_node::Place::of(&settings.db()?).store().to_owned();
    let tenant = settings.global.tenant.clone();
    if tenant.is_some() && settings.config_file.is_some() {
        // A name that the configuration does not know is a slip; which one a node will have is known only then.
        settings.tenant()?;
    }
    Ok(Launch { program, store, tenant, escalate, deadline_s: args.deadline })
}

fn failed(error: &InstallError, target: Option<&Target>) -> CliError {
    match (error, target) {
        (InstallError::Foreign(_), Some(target)) => {
            let hint = match target.shape {
                Shape::Ours { .. } => "move it away, then install again",
                Shape::Hooks | Shape::Requirements => "mend it, then install again; nothing was changed",
            };
            CliError::usage(format!("{}: {error}", shown(&target.path))).hint(hint)
        }
        _ => CliError::usage(error.to_string()),
    }
}
