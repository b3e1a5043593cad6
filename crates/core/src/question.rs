//! The questions that chains put: to a hook, and to a person. Shared by calls and by the job's own moments.

use crate::approval::{self, Approval};
use crate::chain::Chain;
use crate::event::{EventHead, Moment};
use crate::job::{Command, Fact, JobSpec, Mismatch};
use crate::stored::Stored;
use crate::verdict::Denial;

/// What a question about a call says beside the value.
#[derive(Debug, Clone)]
pub(crate) struct AboutCall {
    pub(crate) call: String,
    pub(crate) tool: String,
    pub(crate) alias: Option<String>,
    pub(crate) schema_sha256: Option<String>,
    pub(crate) arguments: Option<Stored>,
    pub(crate) structured: Option<Stored>,
    pub(crate) is_error: Option<bool>,
}

/// The start of the ids of a moment's effects.
fn place(moment: Moment, about: Option<&AboutCall>, round: u32) -> String {
    let call = about.map_or("", |a| a.call.as_str());
    match moment {
        Moment::JobStart => "start".into(),
        Moment::PreToolCall => format!("{call}.pre"),
        Moment::PostToolCall => format!("{call}.post"),
        // An agent that was sent back offers an output again.
        Moment::JobEnd if round > 0 => format!("end{}", round + 1),
        Moment::JobEnd => "end".into(),
    }
}

/// Whether an effect belongs to the question whether an output may be given.
pub(crate) fn is_of_output(effect: &str) -> bool {
    effect.split_once('.').is_some_and(|(place, _)| {
        place.strip_prefix("end").is_some_and(|round| round.bytes().all(|digit| digit.is_ascii_digit()))
    })
}

/// The command that asks one hook of a chain.
pub(crate) fn ask(
    spec: &JobSpec,
    moment: Moment,
    hook: usize,
    chain: &Chain,
    about: Option<AboutCall>,
    round: u32,
) -> Command {
    let changed = !chain.value().same(chain.original());
    Command::Ask {
        effect: format!("{}.h{hook}", place(moment, about.as_ref(), round)),
        hook,
        call: spec.hooks.hooks[hook].call.clone(),
        head: EventHead {
            event: moment,
            job: spec.job.clone(),
            agent: spec.agent.id.clone(),
            tenant: spec.tenant.clone(),
            node: spec.node.clone(),
            parent_job: spec.parent_jobs.last().cloned(),
            call: about.as_ref().map(|a| a.call.clone()),
            tool: about.as_ref().map(|a| a.tool.clone()),
            alias: about.as_ref().and_then(|a| a.alias.clone()),
        },
        value: chain.value().clone(),
        arguments: about.as_ref().and_then(|a| a.arguments.clone()),
        // A modified result drops its structured part (SPEC §3).
        structured: about.as_ref().and_then(|a| a.structured.clone()).filter(|_| !changed),
        error: about.as_ref().and_then(|a| a.is_error),
    }
}

/// The command that asks a person about a chain's final value.
pub(crate) fn open(
    spec: &JobSpec,
    moment: Moment,
    chain: &Chain,
    about: Option<AboutCall>,
    round: u32,
) -> (Command, Box<Approval>) {
    let effect = format!("{}.approval", place(moment, about.as_ref(), round));
    let hooks: Vec<_> = chain.escalated_by().map(|i| &spec.hooks.hooks[i]).collect();
    let (call, tool) = (about.as_ref().map(|a| a.call.clone()), about.as_ref().map(|a| a.tool.clone()));
    let reasons = match chain.step() {
        crate::chain::Step::Done(crate::verdict::Verdict::Escalate { reasons, .. }) => reasons,
        _ => vec![],
    };
    // As much of a result as the model would read: a changed one has no structured part any more (SPEC §3).
    let changed = !chain.value().same(chain.original());
    // Logic 1 bound no structured part to an approval.
    let bound = !changed && spec.logic >= 2;
    let structured = about.as_ref().and_then(|a| a.structured.clone()).filter(|_| bound);
    let approval = Box::new(Approval {
        id: approval::id(&spec.job, &effect),
        kind: "hook".into(),
        tenant: spec.tenant.clone(),
        job: spec.job.clone(),
        parent_jobs: spec.parent_jobs.clone(),
        agent: spec.agent.id.clone(),
        event: moment,
        digest: approval::digest(
            &spec.tenant,
            &spec.job,
            call.as_deref(),
            &spec.agent.id,
            tool.as_deref(),
            chain.value(),
            structured.as_ref(),
        ),
        call,
        tool,
        arguments: about.as_ref().and_then(|a| a.arguments.clone()),
        reasons,
        original: chain.original().clone(),
        value: chain.value().clone(),
        structured,
        changes: chain.changes().to_vec(),
        schema_sha256: about.and_then(|a| a.schema_sha256),
        approvers: hooks.iter().map(|h| h.approvers.clone()).filter(|a| !a.is_empty()).collect(),
        expires_after_ms: hooks.iter().map(|h| h.expires_ms).min().unwrap_or(0),
    });
    (Command::OpenApproval { effect, approval: approval.clone() }, approval)
}

/// Reads a person's decision: none is a yes. A yes for another digest, or of somebody who may not decide, is a mismatch.
pub(crate) fn decided(approval: &Approval, fact: &Fact) -> Result<Option<Denial>, Mismatch> {
    let Fact::ApprovalDecided { approval: id, approve, by, digest, .. } = fact else {
        return Err(Mismatch::unexpected(fact));
    };
    if *id != approval.id || *digest != approval.digest || !approval.may_decide(by) {
        return Err(Mismatch::Decision { approval: id.clone() });
    }
    Ok(if *approve { None } else { Some(approval.denial(Some(by))) })
}
