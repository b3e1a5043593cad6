//! One segment on the home node: from where its journal stands to the next boundary.
//!
//! Invariant: what the journal holds beyond the acknowledged records is never made a second time: it is taken up under the journal's lease,
//! and settled as after any crash (SPEC §8).
//! Invariant: a journal that is gone is made again only where nothing can have been done that only it knew.

use crate::wire::{Below, Mark, Place, RestoreInput, SegmentInput, SegmentOutput};
use hookwright_core::approval::Approval;
use hookwright_core::history::Record;
use hookwright_runtime::approvals::row_of;
use hookwright_runtime::job::{End, NewRun, Options, SegmentEnd};
use hookwright_runtime::observe::Observer;
use hookwright_runtime::ports::store::{Batch, InboxKind, RecordText, Store, StoreError};
use hookwright_runtime::replayed::replayed;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The journal lacks what was acknowledged, and nothing can have been under way.
pub(crate) const JOURNAL_GONE: &str = "JournalGone";
/// The journal is lost, and with it what may have been made.
pub(crate) const JOURNAL_LOST: &str = "JournalLost";

/// Bytes of records that a segment returns with their values; beyond, the largest values go by digest. A payload may have 2 MB.
const RETURNED_BYTES: usize = 1_000_000;
/// Values smaller than this stay where they are.
const SMALL_BYTES: u64 = 256;

/// Which job to run on.
pub enum Take {
    /// A new one.
    New(Box<NewRun>),
    /// One whose journal stands here.
    GoOn {
        /// Its id.
        job: String,
    },
}

/// Why a job could not be run on now. It is tried again.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct NotRun(pub String);

/// A node, as the engine needs it: where jobs' journals stand, and what can run them.
#[async_trait::async_trait]
pub trait Home: Send + Sync + 'static {
    /// Where it is.
    fn place(&self) -> Place;

    /// Its journal.
    fn store(&self) -> Arc<dyn Store>;

    /// Runs a job up to its next boundary (see `hookwright_runtime::job::run_segment`), with the plugins that it was begun with.
    async fn run(&self, take: Take, options: Options, observer: Arc<dyn Observer>) -> Result<SegmentEnd, NotRun>;
}

/// Why there is no result.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum SegmentError {
    #[error("its home node has no journal of it any more")]
    Gone,
    #[error("its home node lost its journal while a part of it was under way")]
    Lost,
    #[error("{0}")]
    Later(String),
}

impl From<StoreError> for SegmentError {
    fn from(error: StoreError) -> Self {
        Self::Later(error.to_string())
    }
}

/// Runs a segment; `attempt` counts from 1.
pub(crate) async fn segment(
    home: &dyn Home,
    input: SegmentInput,
    attempt: u32,
    observer: Arc<dyn Observer>,
) -> Result<SegmentOutput, SegmentError> {
    let (store, job) = (home.store(), input.job);
    let same_store = input.home.store.is_some() && input.home.store == home.place().store;
    let known = input.acknowledged;
    let take = match standing(&*store, &job, &known).await? {
        Standing::Holds => Take::GoOn { job: job.clone() },
        // It is the first thing that a segment writes: where the file is the same, nothing was begun.
        Standing::Lacks if known.records == 0 && (attempt == 1 || same_store) => {
            let Some(new) = input.new else { return Err(SegmentError::Lost) };
            Take::New(Box::new(new.run(input.row)))
        }
        Standing::Lacks if attempt == 1 => return Err(SegmentError::Gone),
        Standing::Lacks | Standing::Differs => return Err(SegmentError::Lost),
    };
    let mut options = Options { detach: true, cancel: CancellationToken::new(), cancelled_by: String::new() };
    for item in input.items {
        match (item.what, &take) {
            // There is no inbox yet.
            (InboxKind::Cancel { by, .. }, Take::New(_)) => {
                options.cancel.cancel();
                options.cancelled_by = by;
            }
            (InboxKind::Decided { .. }, Take::New(_)) => {}
            (what, Take::GoOn { .. }) => drop(put(&*store, &job, what).await?),
        }
    }
    let end = home.run(take, options, observer).await.map_err(|why| SegmentError::Later(why.0))?;
    let people = matches!(end, SegmentEnd::End(End::Detached));
    so_far(&*store, &job, &known, people).await
}

enum Standing {
    Holds,
    Lacks,
    Differs,
}

/// Whether the journal holds what was acknowledged.
async fn standing(store: &dyn Store, job: &str, known: &Mark) -> Result<Standing, SegmentError> {
    let Some(last) = known.records.checked_sub(1) else {
        return Ok(match store.job(job).await {
            Ok(row) if row.job.id == job => Standing::Holds,
            Ok(_) | Err(StoreError::NotFound { .. } | StoreError::Ambiguous { .. }) => Standing::Lacks,
            Err(error) => return Err(error.into()),
        });
    };
    let texts = match store.records(job, last).await {
        Ok(texts) => texts,
        Err(StoreError::NotFound { .. }) => return Ok(Standing::Lacks),
        Err(error) => return Err(error.into()),
    };
    Ok(match texts.first().map(|text| serde_json::from_str::<Record>(text)) {
        None => Standing::Lacks,
        Some(Ok(record)) if record.seq == last && record.hash == known.hash => Standing::Holds,
        Some(_) => Standing::Differs,
    })
}

/// What a job's journal holds beyond the acknowledged records.
pub(crate) async fn so_far(
    store: &dyn Store,
    job: &str,
    known: &Mark,
    people: bool,
) -> Result<SegmentOutput, SegmentError> {
    let records = fit(store.records(job, known.records).await?);
    let mut below = vec![];
    for row in store.approvals(true).await? {
        if let Ok(approval) = serde_json::from_value::<Approval>(row.approval)
            && approval.parent_jobs.iter().any(|parent| parent == job)
        {
            below.push(Below { approval: by_digest(approval), opened_ms: row.opened_ms });
        }
    }
    Ok(SegmentOutput { records, people, below })
}

fn by_digest(mut approval: Approval) -> Approval {
    for value in approval.values_mut() {
        if value.bytes > SMALL_BYTES {
            *value = value.digest_only();
        }
    }
    approval
}

/// Records of which so much is left that they can be sent: the values of the largest go by digest. Their hashes stay.
fn fit(mut records: Vec<String>) -> Vec<String> {
    let mut bytes: usize = records.iter().map(String::len).sum();
    let mut by_size: Vec<usize> = (0..records.len()).collect();
    by_size.sort_by_key(|&at| std::cmp::Reverse(records[at].len()));
    for at in by_size {
        if bytes <= RETURNED_BYTES {
            break;
        }
        if let Some(slim) = hookwright_core::history::without_values(&records[at]) {
            bytes -= records[at].len().saturating_sub(slim.len());
            records[at] = slim;
        }
    }
    records
}

/// Puts something into a job's inbox, as a person at this node would.
pub(crate) async fn put(store: &dyn Store, job: &str, what: InboxKind) -> Result<crate::wire::Answer, SegmentError> {
    use crate::wire::Answer;
    use hookwright_runtime::ports::store::DecideOutcome;
    match what {
        InboxKind::Cancel { by, at_ms } => {
            // Once is enough, however often it is delivered.
            if !store.inbox(job).await?.iter().any(|item| matches!(item.what, InboxKind::Cancel { .. })) {
                store.request_cancel(job, &by, at_ms).await?;
            }
            Ok(Answer::Counted)
        }
        InboxKind::Decided { approval, decision } => match store.decide(&approval, decision.clone()).await {
            Ok(DecideOutcome::Counted) => Ok(Answer::Counted),
            // Put in before, by an attempt that was broken off.
            Ok(DecideOutcome::AlreadyDecided(row)) if row.decision.as_ref() == Some(&decision) => Ok(Answer::Counted),
            Ok(DecideOutcome::AlreadyDecided(row)) => Ok(Answer::Already { decision: row.decision }),
            Ok(DecideOutcome::DigestMismatch) => Ok(Answer::Digest),
            Ok(DecideOutcome::Expired) => Ok(Answer::Expired),
            Err(StoreError::NotFound { .. }) => Ok(Answer::Unknown),
            Err(error) => Err(error.into()),
        },
    }
}

/// Makes a job's journal again from the records that the cluster has.
pub(crate) async fn restore(store: &dyn Store, input: &RestoreInput, records: Vec<String>) -> Result<(), String> {
    let records: Vec<String> =
        records.into_iter().take(usize::try_from(input.acknowledged.records).unwrap_or(usize::MAX)).collect();
    let texts = Arc::new(records);
    let (machine, head) = replayed(&texts).await.map_err(|why| why.to_string())?;
    if head.records != input.acknowledged.records || head.hash != input.acknowledged.hash {
        return Err(format!("the cluster has {} of its {} records", head.records, input.acknowledged.records));
    }
    let have = match store.records(&input.job, 0).await {
        Ok(have) => have.len(),
        Err(StoreError::NotFound { .. }) => 0,
        Err(error) => return Err(error.to_string()),
    };
    let of = |from: usize| {
        let texts = texts.iter().enumerate().skip(from);
        texts.map(|(seq, text)| RecordText { seq: seq as u64, text: text.clone() }).collect()
    };
    let lease = if have == 0 {
        store.create_job(input.row.clone(), Batch { records: of(0), ..Batch::default() }).await
    } else {
        match store.take_lease(&input.job).await {
            Ok(lease) => {
                let batch = Batch { records: of(have), ..Batch::default() };
                store.append(&lease, batch).await.map(|()| lease)
            }
            Err(error) => Err(error),
        }
    };
    let lease = lease.map_err(|e| e.to_string())?;
    // A decision is put beside its approval's row: those that wait need theirs before the job is taken up.
    let waiting = machine.waiting().filter_map(|approval| machine.opened(&approval.id));
    let restored = waiting.map(|(_, approval, opened_ms)| row_of(approval, opened_ms)).collect();
    let rows = store.append(&lease, Batch { restored, ..Batch::default() }).await;
    let released = store.release(&lease).await;
    rows.and(released).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests;
