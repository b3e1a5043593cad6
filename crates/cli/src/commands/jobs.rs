//! `hookwright jobs`.

use crate::args::{JobsCommand, Output, ResumeArgs};
use crate::commands::run::style;
use crate::exit::{self, CliError, CliResult};
use crate::people;
use crate::settings::Settings;
use crate::store;
use crate::story::json::{Cancelled, ForgottenJson, JobDetails, JobHistory, JobList};
use crate::story::units::plural;
use crate::story::{family, history, lists};
use crate::terminal::{data, json, note};
use crate::work;
use hookwright_core::history::Record;
use hookwright_core::job::{Fact, Outcome};
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use hookwright_runtime::ports::store::{JobRow, Store};
use hookwright_runtime::values::Values;
use hookwright_sqlite::{Forgotten, OpenOptions, SqliteStore};
use std::path::Path;
use std::sync::Arc;

pub(crate) async fn run(settings: Settings, command: JobsCommand) -> CliResult {
    match command {
        JobsCommand::List { unfinished, limit, output } => {
            let store = store::view(&settings, true).await?.store;
            let rows = store.jobs(unfinished, limit).await?;
            match output {
                Output::Json => json(&JobList::new(&rows)),
                Output::Text if rows.is_empty() => note("no jobs"),
                Output::Text => data(&lists::jobs(&rows, SystemClock.now_ms(), settings.look_of_stdout())),
            }
        }
        JobsCommand::Show { job, output } => {
            let view = store::view(&settings, true).await?;
            let store = view.store.clone();
            let mut row = store.job(&job).await?;
            let mut records = records(&*store, &row.job.id).await?;
            row.records = records.len() as u64;
            let approvals = store.approvals(false).await?;
            #[cfg(feature = "temporal")]
            if let Some(cluster) = &view.cluster {
                let ends = history::outcome(&records).is_some();
                crate::cluster::say_standing(cluster, &row, ends, &settings.next()).await;
            }
            let mut children = vec![];
            for child in family::started(&records) {
                // One whose call was only about to be made is no job yet.
                children.extend(store.job(&child).await.ok());
            }
            match output {
                Output::Json => {
                    let value = match history::outcome(&records) {
                        Some(Outcome::Completed { output }) => {
                            Values::new(store.clone()).load(output).await.ok().map(|v| (*v).clone())
                        }
                        _ => None,
                    };
                    json(&JobDetails::new(&row, &records, value, &approvals).with_children(&children));
                }
                Output::Text => {
                    let look = settings.look_of_stdout();
                    load_ends(&Values::new(store.clone()), &mut records).await;
                    let shown = history::show(&row, &records, &approvals, SystemClock.now_ms(), look, &settings.next());
                    data(&(shown + &lists::children(&children, look)));
                }
            }
        }
        JobsCommand::History { job, output } => {
            let store = store::view(&settings, true).await?.store;
            let id = store.job(&job).await?.job.id;
            let records = records(&*store, &id).await?;
            match output {
                Output::Json => json(&JobHistory { job: id, history: records }),
                Output::Text => data(&history::lines(&records, settings.look_of_stdout())),
            }
        }
        JobsCommand::Abandon { job, name, output } => {
            #[cfg(feature = "temporal")]
            if settings.temporal()?.is_some() {
                return crate::cluster::end(&settings, &job, name.as_deref(), output, true).await;
            }
            let _ = (name, output, settings.temporal()?);
            let cancel = settings.next().command(&format!("jobs cancel {}", hookwright_core::text::escape(&job)));
            return Err(CliError::usage("only jobs of a Temporal cluster can be abandoned")
                .hint(format!("a job of this store is cancelled: {cancel}")));
        }
        #[cfg(feature = "temporal")]
        JobsCommand::Cancel { job, name, output } if settings.temporal()?.is_some() => {
            return crate::cluster::end(&settings, &job, name.as_deref(), output, false).await;
        }
        JobsCommand::Cancel { job, name, output } => {
            #[cfg(not(feature = "temporal"))]
            settings.temporal()?;
            let store = store::seen(&settings, &store::existing(&settings, false)?);
            let row = store.job(&job).await?;
            if row.status.is_final() {
                return Err(CliError::failed(format!("{} is over: there is nothing to cancel", row.job.id)));
            }
            let person = people::person(name.as_deref());
            store.request_cancel(&row.job.id, &person.name, SystemClock.now_ms()).await?;
            let next = settings.next();
            let said = work::cancelled(&store, &row, &person.name, &next).await?;
            if !row.running {
                work::cancel_below(&store, &row.job.id, &person.name, &next).await?;
            }
            match output {
                Output::Text => note(&said),
                Output::Json => json(&Cancelled {
                    cancelled: store.job(&row.job.id).await?.status.is_final(),
                    job: row.job.id,
                    by: person.name,
                }),
            }
        }
        JobsCommand::Resume(args) => return resume(settings, args).await,
        JobsCommand::Forget { job, output } => {
            let file = store::existing(&settings, false)?;
            let store = store::seen(&settings, &file);
            let id = store.job(&job).await?.job.id;
            let mut gone = Forgotten::default();
            // What it told the jobs that it started, and they it, stands in their histories too.
            let rows = store.jobs(false, u32::MAX).await?;
            for job in family::below(&id, &rows).into_iter().rev().map(|row| &row.job.id).chain([&id]) {
                let more = file.forget_values(job).await?;
                gone.records += more.records;
                gone.approvals += more.approvals;
                gone.blobs += more.blobs;
            }
            if output == Output::Json {
                let Forgotten { records, approvals, blobs, .. } = gone;
                json(&ForgottenJson { job: id, records, approvals, large_values: blobs });
                return Ok(exit::OK);
            }
            note(&format!(
                "{id}: values were taken out of {} and {}, {} deleted; the history still verifies",
                plural(gone.records, "record"),
                plural(gone.approvals, "approval"),
                plural(gone.blobs, "large value")
            ));
        }
    }
    Ok(exit::OK)
}

async fn resume(mut settings: Settings, args: ResumeArgs) -> CliResult {
    if args.all && args.how.output == Output::Json {
        return Err(CliError::usage("--all can't print one JSON object").hint(format!(
            "resume the jobs one by one: `{}` names them",
            settings.next().command("jobs list --unfinished --output json")
        )));
    }
    let file = store::open_existing(&settings)?;
    let store = store::seen(&settings, &file);
    let jobs = if let Some(job) = &args.job {
        let row = store.job(job).await?;
        if of_cluster(&row) {
            let hint = format!("it goes on as soon as its node runs: {}", settings.next().command("serve"));
            return Err(CliError::failed(format!("{} is a job of a Temporal cluster", row.job.id)).hint(hint));
        }
        let id = row.job.id;
        // The row says so too, but only the history can't be changed unseen.
        let records = records(&*store, &id).await?;
        // Only what was begun at its session's end, and has no end, is left to do.
        let is_left = async || hookwright_runtime::lifecycle::session_end_is_left(&*store, &id).await;
        if let Some(outcome) = history::outcome(&records).cloned()
            && !is_left().await.unwrap_or(false)
        {
            return work::over(&settings, &store, &id, records, outcome, style(&settings, &args.how)).await;
        }
        vec![id]
    } else {
        let rows = store.jobs(true, u32::MAX).await?;
        let idle =
            rows.iter().rev().filter(|row| !row.running && !of_cluster(row) && !family::is_with_parent(row, &rows));
        idle.map(|row| row.job.id.clone()).collect()
    };
    if jobs.is_empty() {
        note("no unfinished jobs");
    }
    let mut worst = exit::OK;
    let own = (settings.global.clone(), settings.config.clone(), settings.config_file.clone());
    for job in jobs {
        // Each job has the configuration that it was begun with, not that of the one before it.
        (settings.global, settings.config, settings.config_file) = own.clone();
        let style = style(&settings, &args.how);
        let ran = match work::begun_job(&mut settings, file.clone(), &job, args.here).await {
            Ok(prepared) => {
                store::limit(&file, &settings);
                work::run(&mut settings, prepared, style).await
            }
            Err(error) => Err(error),
        };
        let code = match ran {
            Ok((code, _)) => code,
            // One that can't go on must not hold the others up.
            Err(error) if args.all => {
                let error = error.with_next(&settings.next());
                note(&format!("{job} can't go on: {}", error.message));
                if let Some(hint) = &error.hint {
                    note(&format!("next: {hint}"));
                }
                error.code
            }
            Err(error) => return Err(error),
        };
        if matches!(code, exit::CANCELLED | exit::STOPPED) && args.all {
            return Ok(code);
        }
        worst = worst.max(code);
    }
    Ok(worst)
}

/// Whether its workflow on a cluster says when it goes on.
pub(crate) fn of_cluster(row: &JobRow) -> bool {
    row.job.origin["engine"] == "temporal"
}

/// Loads the input and the output, where they are large: what can't be loaded is told by its digest.
async fn load_ends(values: &Values, records: &mut [Record]) {
    for record in records {
        let stored = match &mut record.fact {
            Fact::Started { spec } => &mut spec.input,
            Fact::Finished { outcome: Outcome::Completed { output } } => output,
            _ => continue,
        };
        if stored.value.is_none() {
            stored.value = values.load(stored).await.ok();
        }
    }
}

/// The records of a job; a history that can't be read is an error, not a shorter history.
pub(crate) async fn records(store: &dyn Store, job: &str) -> CliResult<Vec<Record>> {
    let texts = store.records(job, 0).await?;
    texts
        .iter()
        .enumerate()
        .map(|(seq, text)| {
            serde_json::from_str(text).map_err(|e| {
                CliError::failed(format!("record {seq} of job {job} can't be read: {e}"))
                    .look("audit verify", "says what is wrong")
            })
        })
        .collect()
}

/// The history of a job as text, for the end of the demo.
pub(crate) async fn history_text(settings: &Settings, db: &Path, job: &str) -> CliResult<String> {
    let store: Arc<SqliteStore> =
        SqliteStore::open(db, OpenOptions::new(store::node_name(), Arc::new(SystemClock)).read_only())?;
    let records = records(&*store, job).await?;
    Ok(history::lines(&records, settings.look()))
}
