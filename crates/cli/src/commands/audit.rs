//! `hookwright audit`: histories against their hash chains, and heads to keep elsewhere.

use crate::args::{AuditCommand, Output};
use crate::exit::{self, CliError, CliResult};
use crate::settings::Settings;
use crate::store;
use crate::story::json::{AuditHead, AuditHeads, AuditJob, AuditVerify};
use crate::terminal::{data, json, note};
use ed25519_dalek::Signer as _;
use hookwright_core::history::{Head, Record};
use hookwright_core::job::Fact;
use hookwright_core::text::escape;
use hookwright_runtime::audit::{Asked, LargeValues, job_fault};
use hookwright_runtime::ports::store::{ApprovalRow, Store};
use std::path::Path;

/// How often a job that goes on is looked at.
const LOOKS: usize = 20;

/// What is signed: a line that says what it is, then the canonical JSON of the heads.
fn signed_text(heads: &[AuditHead]) -> String {
    let value = serde_json::to_value(heads).unwrap_or_default();
    format!("hookwright-audit-heads-v1\n{}", hookwright_core::json::canonical(&value))
}

impl AuditHeads {
    fn signed(heads: Vec<AuditHead>, key: Option<&Path>) -> CliResult<Self> {
        let Some(file) = key else { return Ok(Self { heads, key: None, signature: None }) };
        must_be_file(file)?;
        let secret = hookwright_signer::key::read_secret(file).map_err(|e| CliError::usage(e.to_string()))?;
        let signature = secret.sign(signed_text(&heads).as_bytes());
        let id = hookwright_signer::key::id(&secret.verifying_key());
        Ok(Self { heads, key: Some(id), signature: Some(hex::encode(signature.to_bytes())) })
    }

    /// Checks the signature against a public key that the operator keeps.
    fn check(&self, file: &Path) -> CliResult<()> {
        must_be_file(file)?;
        let public = hookwright_signer::key::read_public(file).map_err(|e| CliError::usage(e.to_string()))?;
        let signature = self.signature.as_deref().and_then(|s| hex::decode(s).ok());
        let signature = signature.and_then(|bytes| ed25519_dalek::Signature::from_slice(&bytes).ok());
        match signature {
            None => Err(CliError::failed("the kept head bears no signature")),
            Some(signature) => public
                .verify_strict(signed_text(&self.heads).as_bytes(), &signature)
                .map_err(|_| CliError::failed("the kept head was not signed with that key, or was changed since")),
        }
    }
}

fn must_be_file(key: &Path) -> CliResult<()> {
    let shown = crate::settings::shown(key);
    crate::files::check(key).map_err(|e| CliError::usage(format!("the key {shown} can't be read: {e}")))
}

pub(crate) async fn run(settings: Settings, command: AuditCommand) -> CliResult {
    let store = store::seen(&settings, &store::existing(&settings, true)?);
    match command {
        AuditCommand::Head { job, key } => {
            let mut heads = vec![];
            for job in jobs(&*store, job.as_deref()).await? {
                let (head, fault) = verify(&*store, &job, None).await?;
                if let Some(fault) = fault {
                    return Err(CliError::failed(format!("job {job}: {fault}"))
                        .hint("a head of a broken history is worth nothing; `hookwright audit verify` shows all"));
                }
                heads.push(AuditHead::new(&job, &head));
            }
            json(&AuditHeads::signed(heads, key.as_deref())?);
            Ok(exit::OK)
        }
        AuditCommand::Verify { job, head, public_key, output } => {
            let kept = head.as_deref().map(read_heads).transpose()?;
            if let (Some(kept), Some(public_key)) = (&kept, &public_key) {
                kept.check(public_key)?;
            }
            let kept = kept.map(|k| k.heads).unwrap_or_default();
            let mut reports = vec![];
            let approvals = store.approvals(false).await?;
            let present = jobs(&*store, job.as_deref()).await?;
            for id in &present {
                let expected = kept.iter().find(|h| h.job == *id);
                let (head, mut fault) = verify(&*store, id, expected).await?;
                if fault.is_none() {
                    fault = rows(&*store, id, &approvals).await?;
                }
                reports.push(AuditJob { job: id.clone(), records: head.records, head: head.hash, problem: fault });
            }
            for gone in kept.iter().filter(|h| job.is_none() && !present.contains(&h.job)) {
                let fault = Some("the job is gone: its head was kept, its history is not there".to_owned());
                reports.push(AuditJob {
                    job: escape(&gone.job),
                    records: 0,
                    head: Head::default().hash,
                    problem: fault,
                });
            }
            let report = AuditVerify::new(reports);
            print(&report, output);
            Ok(if report.ok { exit::OK } else { exit::FAILED })
        }
    }
}

fn print(report: &AuditVerify, output: Output) {
    if output == Output::Json {
        return json(report);
    }
    for job in &report.jobs {
        let state = job.problem.as_deref().map_or_else(|| "intact".to_owned(), |f| format!("BROKEN: {f}"));
        data(&format!("{}  {:>6} records  {state}", job.job, job.records));
    }
    note(if report.ok { "every history is what was written" } else { "at least one history is not what was written" });
}

async fn jobs(store: &dyn Store, job: Option<&str>) -> CliResult<Vec<String>> {
    Ok(match job {
        Some(job) => vec![store.job(job).await?.job.id],
        None => store.jobs(false, u32::MAX).await?.into_iter().map(|row| row.job.id).collect(),
    })
}

/// Compares the rows of a job and of its approvals with what its history says. `all`: the approvals of all jobs, as they were a while ago.
async fn rows(store: &dyn Store, job: &str, all: &[ApprovalRow]) -> CliResult<Option<String>> {
    let mut fault = None;
    for look in 0..LOOKS {
        let before = store.job(job).await?;
        let texts = store.records(job, 0).await?;
        // Each was verified, or written since.
        let records: Vec<Record> = texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
        let fresh = if look == 0 { vec![] } else { store.approvals(false).await? };
        let approvals = if look == 0 { all } else { &fresh };
        let approvals: Vec<&ApprovalRow> = approvals.iter().filter(|approval| approval.job == job).collect();
        fault = job_fault(&before, &records).or_else(|| Asked::of(&records).faults(&approvals));
        // A job that goes on meanwhile is looked at again, until nothing was written between the looks.
        let after = store.job(job).await?;
        if fault.is_none() || look > 0 && (before.records, before.status) == (after.records, after.status) {
            break;
        }
    }
    Ok(fault)
}

/// Reads a whole history against its chain, and against a head that was kept.
async fn verify(store: &dyn Store, job: &str, kept: Option<&AuditHead>) -> CliResult<(Head, Option<String>)> {
    let mut head = Head::default();
    let mut values = LargeValues::default();
    for text in store.records(job, 0).await? {
        match head.read(&text) {
            Err(fault) => return Ok((head, Some(fault.to_string()))),
            Ok(Record { fact: Fact::Started { spec }, .. }) if spec.job != job => {
                return Ok((head, Some(format!("this is the history of another job, {}", escape(&spec.job)))));
            }
            Ok(_) => {}
        }
        if let Some(fault) = values.check(store, &text).await? {
            return Ok((head, Some(fault)));
        }
        if let Some(kept) = kept
            && kept.records == head.records
            && kept.hash != head.hash
        {
            return Ok((head, Some("the history was rewritten: it differs from the head that was kept".into())));
        }
    }
    if head.records == 0 {
        return Ok((head, Some("the history is empty".into())));
    }
    if let Some(kept) = kept
        && kept.records > head.records
    {
        let missing = kept.records - head.records;
        return Ok((head, Some(format!("{missing} records at the end are missing: the head that was kept has more"))));
    }
    Ok((head, None))
}

fn read_heads(file: &Path) -> CliResult<AuditHeads> {
    let bytes = crate::settings::read_bounded(file, 64 * 1024 * 1024)?;
    serde_json::from_slice(&bytes).map_err(|e| {
        CliError::usage(format!("{} holds no heads: {e}", crate::settings::shown(file)))
            .hint("make it with `hookwright audit head > FILE`")
    })
}
