//! What `status` says beside the node itself.
//!
//! Invariant: bounded, whatever the store holds: lists are cut, and how much was left out is said.

use super::Home;
use crate::plugins::{PluginReport, plugins};
use crate::story::json::Job;
use crate::work::Household;
use hookwright_core::approval::Approval;
use hookwright_core::manifest::tenant::Listed;
use hookwright_core::text::shown;
use hookwright_runtime::ports::store::{ApprovalRow, Store, StoreError};
use hookwright_runtime::ports::tools::{ToolState, Tools as _};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Jobs, approvals and left jobs that are listed at most.
const LISTED: usize = 50;

/// How long a server that is connected may take to list its functions.
const PATIENCE: Duration = Duration::from_secs(2);

/// A tenant of the node.
#[derive(Debug, Serialize)]
struct TenantReport {
    id: String,
    plugins: Vec<PluginReport>,
}

/// A job that could not go on.
#[derive(Debug, Serialize)]
struct LeftReport {
    job: String,
    why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// An approval that waits, in short.
#[derive(Debug, Serialize)]
struct Awaited {
    approval: String,
    tenant: String,
    job: String,
    /// The function, or the moment of a job.
    about: String,
    reasons: Vec<String>,
    opened_ms: u64,
    expires_ms: u64,
}

impl Awaited {
    fn of(row: &ApprovalRow) -> Self {
        let approval: Option<Approval> = serde_json::from_value(row.approval.clone()).ok();
        let about = approval.as_ref().map(|a| a.tool.clone().unwrap_or_else(|| a.event.name().to_owned()));
        let reasons = approval.into_iter().flat_map(|a| a.reasons).take(16);
        Self {
            approval: row.id.clone(),
            tenant: row.tenant.clone(),
            job: row.job.clone(),
            about: about.unwrap_or_else(|| "?".to_owned()),
            reasons: reasons.map(|r| shown(&format!("{}: {}", r.hook, r.reason), 500)).collect(),
            opened_ms: row.opened_ms,
            expires_ms: row.expires_ms,
        }
    }
}

/// What a store knows: jobs that are not over, and approvals that wait.
pub(crate) async fn of_store(store: &dyn Store) -> Result<Map<String, Value>, StoreError> {
    let (jobs, approvals) = (store.jobs(true, u32::MAX).await?, store.approvals(true).await?);
    let mut all = Map::new();
    all.insert(
        "jobs".to_owned(),
        json!({
            "unfinished": jobs.len(),
            "running": jobs.iter().filter(|row| row.running).count(),
            "listed": jobs.iter().take(LISTED).map(Job::from).collect::<Vec<_>>(),
        }),
    );
    all.insert(
        "approvals".to_owned(),
        json!({
            "open": approvals.len(),
            "listed": approvals.iter().take(LISTED).map(Awaited::of).collect::<Vec<_>>(),
        }),
    );
    Ok(all)
}

/// The same with what the node knows.
pub(super) async fn of_home(home: &Home) -> Map<String, Value> {
    let present = home.now.get();
    let tenants = futures_util::future::join_all(present.households.iter().map(|household| tenant(household))).await;
    let mut all = match of_store(&*home.seen()).await {
        Ok(all) => all,
        Err(error) => Map::from_iter([("error".to_owned(), json!(error.to_string()))]),
    };
    let (here, left, queued) = home.tended.now();
    let mut here: Vec<String> = here.into_iter().collect();
    here.sort();
    let left_count = left.len();
    let left = left.into_iter().take(LISTED);
    let left: Vec<LeftReport> =
        left.map(|(job, left)| LeftReport { job, why: shown(&left.why, 2_000), hint: left.hint }).collect();
    if let Some(jobs) = all.get_mut("jobs") {
        (jobs["here"], jobs["left"], jobs["left_listed"]) = (json!(here), json!(left_count), json!(left));
        let listed: Vec<&String> = queued.iter().take(LISTED).collect();
        (jobs["queued"], jobs["queued_listed"]) = (json!(queued.len()), json!(listed));
    }
    if let Some(reloaded) = home.reloaded.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone() {
        all.insert("reload".to_owned(), json!(reloaded));
    }
    all.insert("tenants".to_owned(), json!(tenants));
    all
}

async fn tenant(household: &Household) -> TenantReport {
    let status = household.host.status();
    let list = status.iter().map(|status| async move {
        let names = if status.state == ToolState::Ready {
            match tokio::time::timeout(PATIENCE, household.host.functions(&status.tool)).await {
                Ok(functions) => {
                    functions.map(|all| all.into_iter().map(|f| f.name).collect()).map_err(|down| down.why)
                }
                Err(_) => Err(format!("it did not list its functions in {} s", PATIENCE.as_secs())),
            }
        } else {
            Err(status.last_error.clone().unwrap_or_else(|| "it is not connected yet".to_owned()))
        };
        (status.tool.clone(), names)
    });
    let listed: Listed = futures_util::future::join_all(list).await.into_iter().collect();
    let by_tool = status.into_iter().map(|s| (s.tool.clone(), s)).collect();
    TenantReport { id: household.tenant.config.id.clone(), plugins: plugins(&household.tenant, &listed, &by_tool) }
}
