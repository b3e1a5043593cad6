//! Runs one job from the command line: makes it (or finds it), starts its servers, tells its story, sees to its approvals.

mod approved;
pub(crate) mod approver;
mod cancel;
mod crash;
mod door;
mod harness;
mod household;
mod late;
#[cfg(feature = "temporal")]
mod on_cluster;
mod subagents;
mod unattended;

pub(crate) use cancel::{NoModel, cancel_below, cancel_idle, cancelled};
pub(crate) use crash::{checkpoint, crash_probe};
pub(crate) use household::Household;
pub(crate) use late::late_faults;
#[cfg(feature = "temporal")]
pub(crate) use on_cluster::{follow, segment};
pub(crate) use subagents::TenantAgents;
pub(crate) use unattended::{Rest, unattended};

use crate::args::{Approve, Output};
use crate::exit::{self, CliError, CliResult};
use crate::people::Person;
use crate::settings::Settings;
use crate::setup::{self, Tenant};
use crate::store;
use crate::story::family;
use crate::story::json::RunResult;
use crate::terminal::note;
use door::Door;
use hookwright_core::event;
use hookwright_core::history::Record;
use hookwright_core::job::{Fact, JobSpec, LOGIC_VERSION, Outcome};
use hookwright_core::stored::Stored;
use hookwright_runtime::job::{Deps, End, NewRun, Options, RunError, Which};
use hookwright_runtime::lifecycle;
use hookwright_runtime::observe::{Event, Observer};
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use hookwright_runtime::ports::model::Model;
use hookwright_runtime::ports::sessions::Sessions;
use hookwright_runtime::ports::store::{NewJob, Store, StoreError};
use hookwright_runtime::values::Values;
use hookwright_sqlite::SqliteStore;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// How a job is run.
#[derive(Debug, Clone)]
pub(crate) struct Style {
    pub(crate) approve: Approve,
    pub(crate) detach: bool,
    pub(crate) person: Person,
    pub(crate) output: Output,
}

/// A job that is ready to run.
pub(crate) struct Prepared {
    tenant: Tenant,
    store: Arc<dyn Sessions>,
    model: Arc<dyn Model>,
    spec: JobSpec,
    which: Which,
    /// What the history holds already.
    earlier: Vec<Record>,
}

/// Makes a job of a tenant's agent.
pub(crate) fn new_job(settings: &Settings, tenant: Tenant, agent: Option<&str>, input: Value) -> CliResult<Prepared> {
    let (plugin, decl) = tenant.agent(agent)?;
    event::check_value(hookwright_core::event::Moment::JobStart, &input, decl.input_schema.as_ref())
        .map_err(|e| CliError::usage(format!("the input does not fit the agent {}: {e}", decl.id)))?;
    let mut blobs = vec![];
    let agent_spec = tenant.agent_spec(plugin, decl, &mut blobs);
    let model = subagents::open_agent(&settings.env, &tenant, &agent_spec)?;
    let store = store::of_tenant(store::open(settings)?, &tenant.config.id);
    let id = |prefix: &str| format!("{prefix}_{}", &uuid::Uuid::new_v4().simple().to_string()[..16]);
    let (job, session) = (id("job"), id("ses"));
    let (input, blob) = Stored::new(input);
    blobs.extend(blob);
    let spec = JobSpec {
        logic: LOGIC_VERSION,
        job: job.clone(),
        tenant: tenant.config.id.clone(),
        node: store::node_name(),
        session: session.clone(),
        parent_jobs: vec![],
        continues: None,
        hooks: tenant.hooks(&agent_spec.id),
        agent: agent_spec,
        input,
        hook_functions: tenant.hook_functions(),
        limits: tenant.config.limits.clone(),
        lifecycle: tenant.lifecycle(),
    };
    let row = NewJob {
        id: job,
        tenant: tenant.config.id.clone(),
        agent: spec.agent.id.clone(),
        session,
        parent: None,
        created_ms: SystemClock.now_ms(),
        origin: origin(settings, &tenant),
    };
    let which = Which::New(Box::new(NewRun { job: row, spec: spec.clone(), blobs }));
    Ok(Prepared { tenant, store, model, spec, which, earlier: vec![] })
}

/// What a later process needs to go on with a job.
pub(crate) fn origin(settings: &Settings, tenant: &Tenant) -> Value {
    json!({
        "plugins": tenant.folders(),
        "config_digest": settings.config_digest(),
        "config": settings.config_file.as_ref().map(|f| crate::settings::real(f)),
        "tenant": tenant.config.id,
    })
}

/// Finds a job that was begun; its plugins are those that it was begun with.
///
/// A job's hooks and calls run on its home node (SPEC §8): another one takes it up only where that was said (`here`).
pub(crate) async fn begun_job(
    settings: &mut Settings,
    store: Arc<SqliteStore>,
    job: &str,
    here: bool,
) -> CliResult<Prepared> {
    let row = store.job(job).await?;
    if let Some(bound) = settings.global.tenant.as_ref().filter(|bound| **bound != row.job.tenant) {
        return Err(CliError::failed(format!(
            "no job {job:?} of the tenant {}",
            hookwright_core::text::shown(bound, 100)
        ))
        .kind("NotFound"));
    }
    let texts = store.records(&row.job.id, 0).await?;
    let earlier: Vec<Record> = texts.iter().map_while(|t| serde_json::from_str(t).ok()).collect();
    let Some(Record { fact: Fact::Started { spec }, .. }) = earlier.first().cloned() else {
        return Err(CliError::failed(format!("the history of job {} can't be read", row.job.id))
            .look("audit verify", "says what is wrong"));
    };
    if spec.tenant != row.job.tenant {
        // The row says whose configuration and secrets it gets; the history can't be changed unseen.
        let [by, row_says] = [&spec.tenant, &row.job.tenant].map(|id| hookwright_core::text::shown(id, 100));
        return Err(CliError::failed(format!(
            "job {} is one of the tenant {by} by its history, and of {row_says} by its row in the store",
            row.job.id
        ))
        .look("audit verify", "says what else was changed"));
    }
    let store = store::of_tenant(store, &spec.tenant);
    let node = store::node_name();
    if spec.node != node && !here {
        let home = hookwright_core::text::shown(&spec.node, 100);
        return Err(CliError::failed(format!("job {} was begun on {home}, and this is {node}", row.job.id)).hint(format!(
            "resume it on {home}, where its hooks and calls run; if this is that machine under another name, or to take its place: `{}`",
            settings.next().command(&format!("jobs resume {} --here", row.job.id))
        )));
    }
    let missing = crate::acp::job::client_servers(&row);
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|name| hookwright_core::text::escape(name)).collect();
        return Err(CliError::failed(format!(
            "job {} needs servers of its ACP client ({}), which only the client can start",
            row.job.id,
            names.join(", ")
        ))
        .hint(format!(
            "open its session in the client again (session/load): the next prompt goes on from there; or `{}`",
            settings.next().command(&format!("jobs cancel {}", row.job.id))
        )));
    }
    let (tenant, model) = of_origin(settings, &row.job, &spec)?;
    let process = match std::process::id() {
        id if spec.node == node => format!("process {id}"),
        id => format!("process {id} on {node}"),
    };
    let which = Which::Resume { job: row.job.id.clone(), process };
    Ok(Prepared { tenant, store, model, spec: *spec, which, earlier })
}

/// The plugins that a job was begun with, and what runs its agent.
fn of_origin(settings: &mut Settings, row: &NewJob, spec: &JobSpec) -> CliResult<(Tenant, Arc<dyn Model>)> {
    settings.keep_db()?;
    let origin = &row.origin;
    if settings.config_file.is_none()
        && let Some(config) = origin["config"].as_str()
    {
        settings.adopt_config_of_job(PathBuf::from(config), origin["config_digest"].as_str())?;
    }
    settings.global.tenant = settings.config_file.as_ref().map(|_| row.tenant.clone());
    let folders: Vec<PathBuf> =
        origin["plugins"].as_array().into_iter().flatten().filter_map(|p| p.as_str().map(PathBuf::from)).collect();
    let (tenant, found) = setup::read_all(settings.tenant()?, folders)?;
    settings.are_as_judged(&tenant.plugins)?;
    if found.iter().any(hookwright_core::diagnostic::Diagnostic::is_error) {
        return Err(crate::settings::faults(&found, settings.terminal));
    }
    for plugin in &tenant.plugins {
        let manifest = &plugin.parsed.manifest;
        if spec.hooks.manifests.iter().any(|m| m.plugin == manifest.id && m.sha256 != manifest.sha256) {
            note(&format!(
                "note: the manifest of {} has changed since the job started; its hooks are those of then",
                manifest.id
            ));
        }
    }
    let model = match row.origin["door"].as_str() {
        // Their agents were run by others, and are gone: taken up, the job ends.
        Some("bridge" | "gateway") => Arc::new(NoModel("the job's agent was run by somebody else")),
        _ => subagents::open_agent(&settings.env, &tenant, &spec.agent)?,
    };
    Ok((tenant, model))
}

/// Opens a model of an agent of that plugin.
pub(crate) fn open_model(settings: &Settings, tenant: &Tenant, model: &str, plugin: &str) -> CliResult<Arc<dyn Model>> {
    subagents::open_model(&settings.env, tenant, model, plugin)
}

/// Runs the job; returns the exit code and the job's id.
pub(crate) async fn run(settings: &mut Settings, prepared: Prepared, style: Style) -> CliResult<(u8, String)> {
    let Prepared { tenant, store, model, spec, which, earlier } = prepared;
    let tenant = Arc::new(tenant);
    let job = spec.job.clone();
    // Its session is its parent's, and ends with that.
    let is_child = !spec.parent_jobs.is_empty();
    let first = family::first(&job, Some(&spec)).to_owned();
    settings.terminal.diagnostics(&tenant.warnings);
    if earlier.is_empty() {
        let rows = store.jobs(true, 100).await?;
        let left = rows.iter().filter(|row| !row.running && !family::is_with_parent(row, &rows)).count();
        if left > 0 {
            let all = settings.next().command("jobs resume --all");
            note(&format!("note: {left} earlier job(s) are not over: {all}"));
        }
    }
    for what in tenant.unknown_lifecycle_servers() {
        note(&format!("warning: {what}"));
    }
    let earlier_is_over = earlier.iter().any(|r| matches!(r.fact, Fact::Finished { .. }));
    let host = tenant.start(&settings.env);
    if !earlier.is_empty() && !earlier_is_over {
        let missing = tokio::select! {
            missing = approved::cannot_be_made(&*store, &*host, &job, SystemClock.now_ms()) => missing,
            _ = tokio::signal::ctrl_c() => Err(CliError { code: exit::CANCELLED, ..CliError::failed("not taken up") }),
            () = crate::signals::stop() => Err(CliError { code: exit::STOPPED, ..CliError::failed("not taken up") }),
        };
        if !matches!(missing, Ok(None)) {
            crate::signals::end(host).await;
            let resume = settings.next().command(&format!("jobs resume {first}"));
            let why = missing?.unwrap_or_default();
            return Err(CliError::failed(format!("{job} is not taken up: {why}"))
                .hint(format!("the yes still stands; when the cause is mended: {resume}")));
        }
    }
    let (door, asks) = Door::new(settings, earlier, style.output, style.approve)?;
    let door = Arc::new(door);
    let cancel = CancellationToken::new();
    let deps = Household::new(tenant.clone(), host.clone()).deps(&settings.env, store.clone(), model.clone());
    let options = Options { detach: style.detach, cancel: cancel.clone(), cancelled_by: style.person.name.clone() };
    let approver = tokio::spawn(approver::run(asks, store.clone(), door.clone(), style.clone(), settings.look()));
    let (watched, plugins, told) = (host.clone(), tenant.clone(), door.clone());
    let watcher = tokio::spawn(async move {
        late_faults(&watched, &plugins, &|_| true, &|what| told.notice(what)).await;
    });
    let job_of_session = deps.clone();
    let end = attend(Box::pin(hookwright_runtime::job::run(deps, which, options, door.clone())), &cancel).await;
    if let Attended::Ended(Ok(End::Finished(_))) = &end
        && !is_child
    {
        close_session(&job_of_session, &job, &*door, earlier_is_over).await;
    }
    approver.abort();
    watcher.abort();
    // They hold the store: it is closed in order only when they are gone.
    let _ = tokio::join!(approver, watcher);
    door.finish();
    if matches!(end, Attended::Hurried) {
        drop(host);
    } else {
        crate::signals::end(host).await;
    }
    let end = match end {
        Attended::Ended(end) => end,
        Attended::Stopped => {
            // What waited to be written is written, or given up, when the store is closed.
            drop(store);
            note(&left_behind(settings, &job, &first).await);
            return Ok((exit::STOPPED, job));
        }
        Attended::Hurried => {
            drop(store);
            note(&left_behind(settings, &job, &first).await);
            return Ok((exit::CANCELLED, job));
        }
    };
    if let Ok(End::Finished(Outcome::Cancelled { by })) = &end {
        // Children that an earlier process ran, and that this one had not taken up yet.
        cancel_below(&store, &job, by, &door.next).await?;
    }
    report(store, (&job, &first), end, &style, &door).await.map(|code| (code, job))
}

/// What became of a job that was left: looked up, since it may have been left before it was stored.
async fn left_behind(settings: &Settings, job: &str, first: &str) -> String {
    let next = settings.next();
    let row = match store::existing(settings, true) {
        Ok(store) => store.job(job).await.map_err(CliError::from),
        Err(error) => Err(error),
    };
    match row {
        Ok(row) if row.status.is_final() => {
            format!("stopped; the job is over: {}", next.command(&format!("jobs show {job}")))
        }
        Ok(_) => format!("stopped; the job is not over: {}", next.command(&format!("jobs resume {first}"))),
        Err(error) if error.kind == "NotFound" => {
            "stopped before the job was stored: nothing was asked or called".into()
        }
        Err(error) => format!("stopped; whether job {job} was stored is not known: {}", error.message),
    }
}

/// A job of the command line is a session of its own: it is closed with the job. Ctrl-C and signals leave at once. Where the job was over
/// before, only an ask that a process left behind is done again.
async fn close_session(deps: &Deps, job: &str, door: &dyn Observer, was_over: bool) {
    let ended = async {
        if was_over {
            lifecycle::session_end_again(deps, job, door).await
        } else {
            lifecycle::session_end(deps, job, door).await
        }
    };
    tokio::select! {
        ended = ended => {
            if let Err(error) = ended {
                door.event(Event::Notice(&format!("_SessionEnd could not be asked: {error}")));
            }
        }
        _ = tokio::signal::ctrl_c() => door.event(Event::Notice("_SessionEnd is not waited for")),
        () = crate::signals::stop() => {}
    }
}

enum Attended {
    Ended(Result<End, RunError>),
    Stopped,
    Hurried,
}

/// Runs while listening to signals: Ctrl-C cancels the job, a second one leaves at once; SIGTERM and SIGHUP stop it
/// and leave the job to be resumed.
async fn attend(run: impl Future<Output = Result<End, RunError>>, cancel: &CancellationToken) -> Attended {
    let mut run = std::pin::pin!(run);
    let mut terminate = std::pin::pin!(crate::signals::stop());
    loop {
        tokio::select! {
            end = &mut run => return Attended::Ended(end),
            _ = tokio::signal::ctrl_c() => {
                if cancel.is_cancelled() {
                    return Attended::Hurried;
                }
                note("\ncancelling the job (Ctrl-C again to leave at once)");
                cancel.cancel();
            }
            () = &mut terminate => return Attended::Stopped,
        }
    }
}

/// Says what came of a job that is over already, as at its end: the code is that of its outcome. Nothing is started.
pub(crate) async fn over(
    settings: &Settings,
    store: &Arc<dyn Sessions>,
    job: &str,
    records: Vec<Record>,
    outcome: Outcome,
    style: Style,
) -> CliResult {
    let show = settings.next().command(&format!("jobs show {job}"));
    let how = match &outcome {
        Outcome::Completed { .. } => "completed".to_owned(),
        Outcome::Failed { error } => format!("failed ({})", hookwright_core::text::shown(&error.message, 300)),
        Outcome::Cancelled { by } => format!("was cancelled by {}", hookwright_core::text::escape(by)),
    };
    note(&format!("{job} is over, it {how}; nothing was done now: {show}"));
    let (door, _asks) = Door::new(settings, records, style.output, style.approve)?;
    report(store.clone(), (job, job), Ok(End::Finished(outcome)), &style, &door).await
}

/// Says how it ended, and with which exit code.
async fn report(
    store: Arc<dyn Store>,
    (job, first): (&str, &str),
    end: Result<End, RunError>,
    style: &Style,
    door: &Door,
) -> CliResult {
    let resume = door.next.command(&format!("jobs resume {first}"));
    let (outcome, code) = match end {
        Ok(End::Finished(outcome)) => {
            let code = match &outcome {
                Outcome::Completed { .. } => exit::OK,
                Outcome::Failed { error } if error.kind == "HookDenied" => exit::DENIED,
                Outcome::Failed { .. } => exit::FAILED,
                Outcome::Cancelled { .. } => exit::CANCELLED,
            };
            (Some(outcome), code)
        }
        Ok(End::Detached) => (None, exit::WAITING),
        Err(RunError::Store(error @ (StoreError::Leased { .. } | StoreError::Full { .. }))) => return Err(error.into()),
        Err(error) => {
            let kind = if matches!(error, RunError::Store(_)) { "Store" } else { "Failed" };
            let hint = format!("the history up to there is kept; when the cause is mended: {resume}");
            return Err(CliError::failed(error.to_string()).kind(kind).hint(hint));
        }
    };
    let output = match &outcome {
        Some(Outcome::Completed { output }) => Some((*Values::new(store.clone()).load(output).await?).clone()),
        _ => None,
    };
    if first != job && code == exit::OK && store.job(first).await.is_ok_and(|row| !row.status.is_final()) {
        note(&format!("note: the job that it was started for is not over: {resume}"));
    }
    match (style.output, output) {
        (Output::Json, output) => {
            let open = store.approvals(true).await?;
            let waiting = open.into_iter().filter(|row| family::concerns(row, job)).map(|row| row.id).collect();
            crate::terminal::json(&RunResult::new(job, door.records(), output, waiting));
        }
        (Output::Text, Some(output)) => crate::terminal::output(&output, door.shown_output()),
        (Output::Text, None) if code == exit::WAITING => {
            note(&format!("the job waits for a person; then go on with: {resume}"));
        }
        (Output::Text, None) => {}
    }
    Ok(code)
}
