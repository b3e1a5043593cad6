//! Where a session stands: what its next job goes on with.

use crate::job::RunError;
use crate::ports::sessions::Sessions;
use crate::ports::store::JobRow;
use crate::replayed::replayed;
use hookwright_core::history::ReplayError;
use hookwright_core::job::{Continues, Machine, Mismatch};
use std::sync::Arc;

/// Where a session stands.
#[derive(Debug, Default)]
pub struct SessionState {
    /// What its next job goes on with; none before the first.
    pub continues: Option<Continues>,
    /// The machine of its last job, at its end.
    pub last: Option<Machine>,
    /// A job that is not over: nobody can go on with the session before it is.
    pub unfinished: Option<JobRow>,
}

/// Reads where a session stands from the history of its last job.
pub async fn state(store: &dyn Sessions, session: &str) -> Result<SessionState, RunError> {
    let jobs = store.session_jobs(session).await?;
    if let Some(row) = jobs.iter().find(|row| !row.status.is_final()) {
        return Ok(SessionState { unfinished: Some(row.clone()), ..SessionState::default() });
    }
    let Some(row) = jobs.last() else { return Ok(SessionState::default()) };
    let texts = Arc::new(store.records(&row.job.id, 0).await?);
    let (machine, _) = replayed(&texts).await.map_err(|why| RunError::Replay { job: row.job.id.clone(), why })?;
    if machine.spec().session != session || machine.spec().tenant != row.job.tenant {
        let mismatch = Mismatch::Unexpected("this is the history of another session's job".to_owned());
        return Err(RunError::Replay { job: row.job.id.clone(), why: ReplayError::Mismatch { seq: 0, mismatch } });
    }
    if machine.outcome().is_none() {
        // Its row says that it is over; the history, which counts, does not.
        return Ok(SessionState { unfinished: Some(row.clone()), ..SessionState::default() });
    }
    Ok(SessionState { continues: Some(machine.session_state()), last: Some(machine), unfinished: None })
}
