//! Approvals: a question to a person, what binds the yes, and who may give it (SPEC §7).
//!
//! Invariant: a yes never leads to a different call than the one that was shown; [`check_dispatch`] is asked again when the call is made.

mod sheet;

pub use sheet::{Sheet, sheet};

use crate::chain::Change;
use crate::event::Moment;
use crate::json;
use crate::stored::Stored;
use crate::text;
use crate::verdict::{Denial, Escalation};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Characters of a person's name and of a note; longer ones are cut.
pub const NAME_CHARS: u32 = 200;

/// What a person is asked. Everything in it is derived from the job's history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Approval {
    /// Its id: `ap_` and 16 hex digits, derived from the job and the effect.
    pub id: String,
    /// Always `hook`: a hook asked for it.
    pub kind: String,
    /// The tenant.
    pub tenant: String,
    /// The job.
    pub job: String,
    /// The jobs above it, outermost first, for a subagent's job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parent_jobs: Vec<String>,
    /// The agent.
    pub agent: String,
    /// The moment.
    pub event: Moment,
    /// The call's id within the job, for events of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The function's full name, for events of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The arguments of the call whose result is in question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Stored>,
    /// Who asked for a person and why, in chain order.
    pub reasons: Vec<Escalation>,
    /// The value before the first hook.
    pub original: Stored,
    /// The value that the yes lets through.
    pub value: Stored,
    /// After a call: the result's `structuredContent`, where it has one and no hook changed the result. The yes lets it through too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Stored>,
    /// Each change on the way.
    pub changes: Vec<Change>,
    /// What the yes is bound to; see [`digest`].
    pub digest: String,
    /// SHA-256 of the function's input schema when the approval was asked; the call is not made if it has changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_sha256: Option<String>,
    /// Who may decide: one list for each hook that names people; a person must stand in all of them. Empty: anybody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<Vec<String>>,
    /// Milliseconds after its record's time when it counts as a no.
    pub expires_after_ms: u64,
}

impl Approval {
    /// Whether a person may decide it.
    pub fn may_decide(&self, name: &str) -> bool {
        self.approvers.iter().all(|people| people.iter().any(|p| p == name))
    }

    /// Whether it shows what its digest binds to: a store's row that was changed by hand must not get a yes (SPEC §7).
    pub fn is_sound(&self) -> bool {
        let (call, tool) = (self.call.as_deref(), self.tool.as_deref());
        let made = digest(&self.tenant, &self.job, call, &self.agent, tool, &self.value, self.structured.as_ref());
        let values = [&self.value, &self.original].into_iter().chain(&self.arguments).chain(&self.structured);
        made == self.digest && values.chain(self.changes.iter().flat_map(|c| [&c.from, &c.to])).all(Stored::is_intact)
    }

    /// All its values, to load them or to leave them out.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Stored> {
        let values = [&mut self.original, &mut self.value].into_iter().chain(&mut self.arguments);
        values.chain(&mut self.structured).chain(self.changes.iter_mut().flat_map(|c| [&mut c.from, &mut c.to]))
    }

    /// When it counts as a no, where it was opened at a time (both Unix milliseconds).
    pub fn expires_ms(&self, opened_ms: u64) -> u64 {
        opened_ms.saturating_add(self.expires_after_ms)
    }

    /// The denial that a no or an expiry stands for: the first hook that escalated, its reason, and who declined (SPEC §4).
    pub fn denial(&self, declined_by: Option<&str>) -> Denial {
        let first = self.reasons.first();
        let suffix = match declined_by {
            Some(name) => format!(" (declined by {})", name_of(name)),
            None => " (expired)".to_owned(),
        };
        Denial {
            hook: first.map_or_else(String::new, |e| e.hook.clone()),
            reason: format!("{}{suffix}", first.map_or("no reason given", |e| e.reason.as_str())),
        }
    }
}

/// A person's name, fit to show: escaped and cut.
pub fn name_of(raw: &str) -> String {
    match text::shown(raw, NAME_CHARS) {
        name if name.is_empty() => "somebody".to_owned(),
        name => name,
    }
}

/// The digest that a yes is bound to: SHA-256 over the canonical JSON of
/// `{"agent","call","job","tenant","tool","value"}`, where `value` is the SHA-256 of the final value's canonical text. A result's
/// `structuredContent` that goes on with it is bound too, as `structured`, in the same way; without one there is no such key.
pub fn digest(
    tenant: &str,
    job: &str,
    call: Option<&str>,
    agent: &str,
    tool: Option<&str>,
    value: &Stored,
    structured: Option<&Stored>,
) -> String {
    let mut bound = json!({
        "tenant": tenant, "job": job, "call": call, "agent": agent, "tool": tool, "value": value.sha256,
    });
    if let Some(structured) = structured {
        bound["structured"] = structured.sha256.clone().into();
    }
    json::digest(&bound)
}

/// The id of the approval that an effect of a job opens.
pub fn id(job: &str, effect: &str) -> String {
    format!("ap_{}", &json::sha256_hex(format!("{job}\n{effect}").as_bytes())[..16])
}

/// A yes, as it goes with the call that it allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Grant {
    /// The approval.
    pub approval: String,
    /// What the yes is bound to.
    pub digest: String,
    /// When the approval would have expired, Unix milliseconds.
    pub expires_ms: u64,
    /// SHA-256 of the function's input schema when the approval was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_sha256: Option<String>,
}

/// Why an approved call is not made after all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotMade {
    /// The yes was for something else.
    #[error("the approval {0} was given for something else")]
    Digest(String),
    /// The approval's time ran out between the yes and the call.
    #[error("the approval {0} has expired")]
    Expired(String),
    /// The function's input schema is not the one that the person was shown.
    #[error("the function has changed since the approval {0} was asked for")]
    Schema(String),
}

/// Checks a yes again when its call is dispatched. `digest` is made anew from the call; `schema_sha256` is of the schema as listed now.
pub fn check_dispatch(grant: &Grant, digest: &str, now_ms: u64, schema_sha256: Option<&str>) -> Result<(), NotMade> {
    if grant.digest != digest {
        return Err(NotMade::Digest(grant.approval.clone()));
    }
    if now_ms >= grant.expires_ms {
        return Err(NotMade::Expired(grant.approval.clone()));
    }
    if grant.schema_sha256.as_deref() != schema_sha256 {
        return Err(NotMade::Schema(grant.approval.clone()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(v: serde_json::Value) -> Stored {
        Stored::inline(v)
    }

    #[test]
    fn the_digest_covers_tenant_job_call_agent_tool_and_value() {
        let v = value(json!({"b": 1, "a": 2}));
        let (one, two) = (value(json!({"n": 1})), value(json!({"n": 2})));
        let base = digest("t", "j", Some("c"), "a", Some("x.y"), &v, None);
        let turned = value(json!({"a": 2, "b": 1}));
        assert_eq!(base, digest("t", "j", Some("c"), "a", Some("x.y"), &turned, None), "key order");
        let structured = digest("t", "j", Some("c"), "a", Some("x.y"), &v, Some(&one));
        assert_ne!(structured, digest("t", "j", Some("c"), "a", Some("x.y"), &v, Some(&two)));
        for other in [
            structured,
            digest("T", "j", Some("c"), "a", Some("x.y"), &v, None),
            digest("t", "J", Some("c"), "a", Some("x.y"), &v, None),
            digest("t", "j", None, "a", Some("x.y"), &v, None),
            digest("t", "j", Some("c"), "A", Some("x.y"), &v, None),
            digest("t", "j", Some("c"), "a", Some("x.z"), &v, None),
            digest("t", "j", Some("c"), "a", Some("x.y"), &value(json!({"b": 1, "a": 2.0})), None),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn a_yes_is_checked_again_when_the_call_is_dispatched() {
        let grant =
            Grant { approval: "ap_1".into(), digest: "d".into(), expires_ms: 10, schema_sha256: Some("s".into()) };
        assert_eq!(check_dispatch(&grant, "d", 9, Some("s")), Ok(()));
        assert_eq!(check_dispatch(&grant, "e", 9, Some("s")), Err(NotMade::Digest("ap_1".into())));
        assert_eq!(check_dispatch(&grant, "d", 10, Some("s")), Err(NotMade::Expired("ap_1".into())));
        assert_eq!(check_dispatch(&grant, "d", 9, Some("t")), Err(NotMade::Schema("ap_1".into())));
        assert_eq!(check_dispatch(&grant, "d", 9, None), Err(NotMade::Schema("ap_1".into())));
    }

    #[test]
    fn an_approval_that_shows_something_else_than_its_digest_binds_to_is_not_sound() {
        let shown = value(json!({"branch": "main"}));
        let sound = Approval {
            id: "ap_1".into(),
            kind: "hook".into(),
            tenant: "t".into(),
            job: "j".into(),
            parent_jobs: vec![],
            agent: "a".into(),
            event: Moment::PreToolCall,
            call: Some("t1.c0".into()),
            tool: Some("git.push".into()),
            arguments: None,
            reasons: vec![],
            original: shown.clone(),
            value: shown.clone(),
            structured: None,
            changes: vec![],
            digest: digest("t", "j", Some("t1.c0"), "a", Some("git.push"), &shown, None),
            schema_sha256: None,
            approvers: vec![],
            expires_after_ms: 1,
        };
        assert!(sound.is_sound());
        assert!(Approval { value: shown.digest_only(), ..sound.clone() }.is_sound(), "a large value is by digest");
        let harmless = Stored { value: value(json!({"branch": "dev"})).value, ..shown.clone() };
        for other in [
            Approval { value: value(json!({"branch": "dev"})), ..sound.clone() },
            Approval { value: harmless.clone(), ..sound.clone() },
            Approval { original: harmless, ..sound.clone() },
            Approval { tool: Some("git.log".into()), ..sound.clone() },
            Approval { structured: Some(value(json!({"more": true}))), ..sound.clone() },
        ] {
            assert!(!other.is_sound(), "{other:?}");
        }
    }

    #[test]
    fn names_are_escaped_and_never_empty() {
        assert_eq!(name_of("Ada\u{1b}[1m"), "Ada\\u{1b}[1m");
        assert_eq!(name_of("  "), "somebody");
        assert_eq!(name_of("Sam Jr."), "Sam Jr.", "a name is not a sentence: two people must not become one");
    }
}
