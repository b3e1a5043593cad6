//! `hookwright demo`: a real job on a throw-away repository, with servers that are part of this program.

use crate::args::{Approve, DemoArgs, DemoServerArgs, Output};
use crate::environment::Environment;
use crate::exit::{self, CliError, CliResult};
use crate::next::quoted;
use crate::settings::{Settings, shown};
use crate::setup;
use crate::store;
use crate::terminal::note;
use crate::work::{self, Style};
use hookwright_core::config::TenantConfig;
use hookwright_core::text::escape;
use std::ffi::OsString;
use std::path::Path;

/// What the agent is asked to do.
const INPUT: &str =
    "Fix the spelling in greeting.txt, commit it and push it to main. Tidy up branches that are no longer needed.";

/// Where the demo lives, unless it is told otherwise.
const FOLDER: &str = ".hookwright/demo";

/// The file that says that a folder is ours to clear.
const MARK: &str = ".hookwright-demo";

pub(crate) async fn run(mut settings: Settings, args: DemoArgs) -> CliResult {
    let here = settings.cwd.join(".hookwright").join("hookwright.db");
    let folder = if let Some(dir) = &args.dir {
        settings.cwd.join(dir)
    } else {
        if settings.global.db.is_none() {
            store::must_be_known(&settings, &here)?;
        }
        store::prepare_folder(&settings.cwd.join(".hookwright"))?;
        settings.cwd.join(FOLDER)
    };
    clear(&folder)?;
    let path = settings.env.get("PATH").unwrap_or_default();
    let made = hookwright_demo::prepare(&folder, &OsString::from(path)).await.map_err(|e| {
        CliError::failed(format!("the demo's repository can't be made: {e}"))
            .hint("the demo needs git on the PATH and a folder to write to")
    })?;
    let plugin = folder.join("plugin");
    write_plugin(&plugin, &made.work, &made.secret_key)?;
    std::fs::write(folder.join(MARK), "Made by `hookwright demo`, which clears this folder when it runs again.\n")?;
    // The store that other commands use here, so that they find the job without being told where.
    let db = match (&settings.global.db, &args.dir) {
        (Some(db), _) => settings.cwd.join(db),
        (None, Some(_)) => folder.join("hookwright.db"),
        (None, None) => here,
    };
    settings.global.db = Some(db.clone());
    note(&format!("A scripted model works on a real git repository in {}.", shown(&made.work)));
    note("Hooks watch its calls: one rewrites, one denies, one asks a person, one signs.\n");
    let (tenant, found) = setup::read_all(TenantConfig::default(), vec![plugin.clone()])?;
    if !found.is_empty() {
        return Err(crate::settings::faults(&found, settings.terminal));
    }
    let approve = args.approve.unwrap_or(if settings.terminal.interactive { Approve::Ask } else { Approve::Yes });
    if args.approve.is_none() && !settings.terminal.interactive {
        note("(no terminal to ask on: the demo says yes for you; --approve no|wait to choose)\n");
    }
    let style =
        Style { approve, detach: false, person: crate::people::person(args.name.as_deref()), output: args.output };
    let job = work::new_job(&settings, tenant, Some("maintainer"), serde_json::Value::String(INPUT.into()))?;
    let (code, job) = work::run(&mut settings, job, style).await?;
    if args.output == Output::Text {
        epilogue(&settings, &folder, &db, &job, code).await;
    }
    Ok(code)
}

/// Clears what an earlier demo left; a folder that is not ours is not touched.
fn clear(folder: &Path) -> CliResult<()> {
    if !folder.exists() {
        return Ok(());
    }
    let empty = std::fs::read_dir(folder)?.next().is_none();
    if !empty && !folder.join(MARK).exists() {
        return Err(CliError::usage(format!("the folder {} is not empty, and not the demo's", shown(folder)))
            .hint("give another one with --dir"));
    }
    std::fs::remove_dir_all(folder).map_err(|e| CliError::failed(format!("{} can't be cleared: {e}", shown(folder))))
}

/// The demo's plugin with this program as its servers.
fn write_plugin(folder: &Path, work: &Path, key: &Path) -> CliResult<()> {
    let program =
        std::env::current_exe().map_err(|e| CliError::failed(format!("the path of this program is unknown: {e}")))?;
    let quoted = |path: &Path| serde_json::to_string(&path.to_string_lossy()).unwrap_or_default();
    let manifest = hookwright_demo::MANIFEST
        .replace(r#""hookwright-demo","#, &format!(r#"{}, "demo-server","#, quoted(&program)))
        .replace(r#"".demo/work""#, &quoted(work))
        .replace(r#"".demo/signer.key""#, &quoted(key));
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(setup::MANIFEST_NAME), manifest)?;
    std::fs::write(folder.join("demo.yaml"), hookwright_demo::SCRIPT)?;
    Ok(())
}

/// What happened, as the history has it, and what to try next.
async fn epilogue(settings: &Settings, folder: &Path, db: &Path, job: &str, code: u8) {
    let next = settings.next();
    if let Ok(text) = crate::commands::jobs::history_text(settings, db, job).await {
        note("\nThe history, as it stands in the store:\n");
        note(&text);
    }
    note(&format!(
        "\nLook further:\n  {}\n  {}\n  {}\n\n\
         With a real model: set ANTHROPIC_API_KEY, write `model: anthropic/claude-sonnet-4-5`\n\
         into {}, and run\n  {}\n\n\
         Your own hook: {}",
        next.command(&format!("jobs show {job}")),
        next.command(&format!("replay {job}")),
        next.command("audit verify"),
        shown(&folder.join("plugin").join(setup::MANIFEST_NAME)),
        next.command(&format!(
            "run --plugin {} --input \"Fix the greeting and push it\"",
            escape(&quoted(&shown(&folder.join("plugin"))))
        )),
        next.without_db().command("new plugin my-policy"),
    ));
    if code != exit::OK {
        note(&format!("\nThe job did not complete (exit code {code}); the history says why."));
    }
}

/// `hookwright demo-server`: what the demo's manifest starts.
pub(crate) async fn serve(args: DemoServerArgs, env: &Environment) -> CliResult {
    let usage =
        || CliError::usage("expected: demo-server git --repository DIR, or demo-server guard --secret-key FILE");
    let value = match args.rest.as_slice() {
        [_, value] => Path::new(value).to_owned(),
        _ => return Err(usage()),
    };
    let path = OsString::from(env.get("PATH").unwrap_or_default());
    let served = match args.server.as_str() {
        "git" => hookwright_demo::serve_git_stdio(hookwright_demo::git::Repository::new(value, path)).await,
        "guard" => {
            let key = hookwright_signer::key::read_secret(&value).map_err(|e| CliError::usage(e.to_string()))?;
            hookwright_demo::serve_guard_stdio(key).await
        }
        _ => return Err(usage()),
    };
    served.map(|()| exit::OK).map_err(|e| CliError::failed(e.to_string()))
}
