//! Before a job is taken up: whether what a person said yes to can be called at all (docs/decisions/0110).
//!
//! Invariant: nothing is recorded, so the yes stays what it is.

use crate::exit::CliResult;
use crate::story::family;
use hookwright_core::FunctionName;
use hookwright_core::approval::Approval;
use hookwright_core::event::Moment;
use hookwright_core::history::Record;
use hookwright_core::job::{Command, Fact};
use hookwright_core::subagent;
use hookwright_core::text::escape;
use hookwright_runtime::ports::store::{ApprovalRow, ApprovalState, Store};
use hookwright_runtime::ports::tools::Tools;

/// Why a call that was approved, and not begun yet, could not be made now; for the job and those below it. Waits for servers to start.
pub(super) async fn cannot_be_made(
    store: &dyn Store,
    tools: &dyn Tools,
    job: &str,
    now_ms: u64,
) -> CliResult<Option<String>> {
    for row in store.approvals(false).await? {
        // A yes whose time is over leads to no call, whatever is there.
        if row.state != ApprovalState::Approved || !family::concerns(&row, job) || row.expires_ms <= now_ms {
            continue;
        }
        let Some(tool) = approved(&row) else { continue };
        if subagent::is_start(&tool) || is_used(store, &row).await? {
            continue;
        }
        let why = match tools.functions(tool.tool()).await {
            Err(down) => format!("the tool {} is not available: {}", escape(tool.tool()), escape(&down.why)),
            Ok(listed) if listed.iter().any(|f| f.name == tool.function()) => continue,
            Ok(_) => format!("the tool {} lists no function {}", escape(tool.tool()), escape(tool.function())),
        };
        return Ok(Some(format!(
            "the call of {} that {} allows could not be made: {why}",
            escape(&tool.to_string()),
            row.id
        )));
    }
    Ok(None)
}

/// The function whose call was approved.
fn approved(row: &ApprovalRow) -> Option<FunctionName> {
    let approval: Approval = serde_json::from_value(row.approval.clone()).ok()?;
    if approval.event != Moment::PreToolCall {
        return None;
    }
    FunctionName::parse(&approval.tool?).ok()
}

/// Whether the call that was approved was begun, its job is over, or its agent makes its calls itself: then no tool here is needed.
async fn is_used(store: &dyn Store, row: &ApprovalRow) -> CliResult<bool> {
    if store.job(&row.job).await?.status.is_final() {
        return Ok(true);
    }
    let texts = store.records(&row.job, 0).await?;
    let mut records = texts.iter().filter_map(|text| serde_json::from_str::<Record>(text).ok());
    Ok(records.any(|record| match record.fact {
        Fact::Started { spec } => spec.agent.external.is_some_and(|external| external.makes_calls),
        Fact::Begun {
            command: Command::CallTool { grant: Some(grant), .. } | Command::LetCall { grant: Some(grant), .. },
        } => grant.approval == row.id,
        _ => false,
    }))
}
