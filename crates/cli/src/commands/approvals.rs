//! `hookwright approvals`: works on the store, so also while another process waits.

use crate::args::{ApprovalsCommand, DecideArgs, Output};
use crate::exit::{self, CliError, CliResult};
use crate::next::Next;
use crate::people;
use crate::settings::Settings;
use crate::store;
use crate::story::json::{ApprovalJson, ApprovalList, Decided as DecidedJson};
use crate::story::{family, lists};
use crate::terminal::{data, json, note};
use crate::work::approver::{already, not_allowed};
use hookwright_core::approval::Approval;
use hookwright_core::text::escape;
use hookwright_runtime::approvals::{Decided, Say, asked, decide, load};
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};

use hookwright_runtime::ports::store::{ApprovalRow, ApprovalState, DecideOutcome, Store};
use hookwright_runtime::values::Values;
use std::sync::Arc;

pub(crate) async fn run(settings: Settings, command: ApprovalsCommand) -> CliResult {
    let damaged = |e: serde_json::Error| CliError::failed(format!("an approval in the store can't be read: {e}"));
    match command {
        ApprovalsCommand::List { all, output } => {
            let store = store::view(&settings, true).await?.store;
            let rows = store.approvals(!all).await?;
            match output {
                Output::Json => json(&ApprovalList::new(&rows).map_err(damaged)?),
                Output::Text if rows.is_empty() => note("nothing waits for a person"),
                Output::Text => data(&lists::approvals(&rows, SystemClock.now_ms(), settings.look_of_stdout())),
            }
            Ok(exit::OK)
        }
        ApprovalsCommand::Show { id, output } => {
            let store = store::view(&settings, true).await?.store;
            let row = store.approval(&id).await?;
            let (row, approval) = shown(&store, row).await?;
            match output {
                Output::Json => json(&ApprovalJson::new(&row, Some(approval)).map_err(damaged)?),
                Output::Text => {
                    data(&lists::approval(
                        &row,
                        &approval,
                        SystemClock.now_ms(),
                        settings.look_of_stdout(),
                        &settings.next(),
                    ));
                }
            }
            Ok(exit::OK)
        }
        ApprovalsCommand::Approve(args) => say(settings, args, true).await,
        ApprovalsCommand::Deny(args) => say(settings, args, false).await,
    }
}

async fn say(settings: Settings, args: DecideArgs, approve: bool) -> CliResult {
    let store = store::view(&settings, false).await?.store;
    let row = store.approval(&args.id).await?;
    let person = people::person(args.name.as_deref());
    let say = Say { approve, by: person.name.clone(), verified: person.verified, note: args.note.clone() };
    let decided = decide(&*store, &SystemClock, &row, say).await?;
    let outcome = match &decided {
        Decided::Counted => DecideOutcome::Counted,
        Decided::AlreadyDecided(row) => DecideOutcome::AlreadyDecided(row.clone()),
        Decided::Expired => DecideOutcome::Expired,
        Decided::Mismatch(_) => DecideOutcome::DigestMismatch,
        Decided::NotAllowed(people) => return Err(CliError::failed(not_allowed(&person.name, &row.id, people))),
    };
    if args.output == Output::Json {
        json(&DecidedJson::new(&row.id, approve, &outcome));
    }
    match decided {
        Decided::Counted => {
            let word = if approve { "approved" } else { "denied" };
            if args.output == Output::Text {
                note(&format!("{} is {word} by {}", row.id, person.name));
                let first = family::first_of(&row);
                if !store.job(first).await?.running {
                    let resume = settings.next().command(&format!("jobs resume {}", escape(first)));
                    note(&format!("no process runs its job now; go on with: {resume}"));
                }
            }
            Ok(exit::OK)
        }
        Decided::AlreadyDecided(row) => Err(CliError::failed(already(&row))),
        Decided::Expired => Err(CliError::failed(format!("the approval {} has expired, which counts as a no", row.id))),
        Decided::Mismatch(why) => Err(cannot(&row, &why, &settings.next())),
        Decided::NotAllowed(people) => Err(CliError::failed(not_allowed(&person.name, &row.id, &people))),
    }
}

/// Says that nothing was decided, and what to do.
fn cannot(row: &ApprovalRow, why: &str, next: &Next) -> CliError {
    let (job, first) = (escape(&row.job), escape(family::first_of(row)));
    let (verify, resume) = (next.command("audit verify"), next.command(&format!("jobs resume {first}")));
    let cancel = next.command(&format!("jobs cancel {job}"));
    CliError::failed(format!("the approval {} can't be decided, nothing was: {why}", row.id)).hint(format!(
        "`{verify}` says what else was changed; a job that is taken up anew ({resume}) puts \
         its rows right, `{cancel}` ends it"
    ))
}

/// What a row's approval shows, with all its values. Of one that waits, the history tells; where the row says something else, that is
/// said too.
async fn shown(store: &Arc<dyn Store>, row: ApprovalRow) -> CliResult<(ApprovalRow, Approval)> {
    let asked = match row.state {
        ApprovalState::Open => Some(asked(&**store, &row).await?),
        _ => None,
    };
    let (row, mut approval) = match asked {
        Some(Ok(asked)) => (row, asked.approval),
        Some(Err(why)) if store.approval(&row.id).await?.state == ApprovalState::Open => {
            note(&format!("warning: this can't be decided: {why}"));
            let approval = read(&row)?;
            (row, approval)
        }
        // It was settled since.
        Some(Err(_)) => {
            let row = store.approval(&row.id).await?;
            let approval = read(&row)?;
            (row, approval)
        }
        None => {
            let approval = read(&row)?;
            (row, approval)
        }
    };
    // A deleted value stays a digest: it is shown as such.
    let _ = load(&Values::new(store.clone()), &mut approval).await;
    Ok((row, approval))
}

fn read(row: &ApprovalRow) -> CliResult<Approval> {
    serde_json::from_value(row.approval.clone())
        .map_err(|e| CliError::failed(format!("the approval {} can't be read: {e}", row.id)))
}
