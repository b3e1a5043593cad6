//! Approvals as lists show them, from a job's past.

use crate::past::Past;
use hookwright_core::history::Record;
use hookwright_core::job::{Command, Fact};
use hookwright_runtime::approvals::row_of;
use hookwright_runtime::ports::store::{ApprovalRow, ApprovalState, Decision};

/// The approvals that a job ever asked for, newest first; of jobs below, those that wait.
pub(crate) fn approvals(past: &Past) -> Vec<ApprovalRow> {
    let mut rows: Vec<ApprovalRow> = vec![];
    let set = |rows: &mut Vec<ApprovalRow>, id: &str, state: ApprovalState, decision: Option<Decision>| {
        for row in rows.iter_mut().filter(|row| row.id == id) {
            (row.state, row.decision) = (state, decision.clone());
        }
    };
    for record in past.records.iter().filter_map(|text| serde_json::from_str::<Record>(text).ok()) {
        match record.fact {
            Fact::Begun { command: Command::OpenApproval { approval, .. } } => {
                rows.push(row_of(&approval, record.at_ms));
            }
            Fact::ApprovalDecided { approval, approve, by, verified, note, digest, decided_ms, .. } => {
                let decision = Decision { approve, by, verified, note, digest, at_ms: decided_ms };
                let state = if approve { ApprovalState::Approved } else { ApprovalState::Denied };
                set(&mut rows, &approval, state, Some(decision));
            }
            Fact::ApprovalExpired { approval, .. } => set(&mut rows, &approval, ApprovalState::Expired, None),
            Fact::Cancelled { .. } | Fact::Finished { .. } => close(&mut rows),
            _ => {}
        }
    }
    rows.extend(past.below.iter().map(|below| row_of(&below.approval, below.opened_ms)));
    for row in rows.iter_mut().filter(|row| row.state == ApprovalState::Open) {
        if let Some(decision) = past.decided.get(&row.id) {
            row.state = if decision.approve { ApprovalState::Approved } else { ApprovalState::Denied };
            row.decision = Some(decision.clone());
        }
    }
    if past.result.is_some() {
        close(&mut rows);
    }
    rows.reverse();
    rows
}

fn close(rows: &mut [ApprovalRow]) {
    for row in rows.iter_mut().filter(|row| row.state == ApprovalState::Open) {
        row.state = ApprovalState::Closed;
    }
}
