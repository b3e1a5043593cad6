//! Which effect a fact is the end of.

use hookwright_core::job::Fact;

/// The effect's id; none of facts that end no effect.
pub(super) fn effect_of(fact: &Fact) -> Option<&str> {
    match fact {
        Fact::HookAnswered { effect, .. }
        | Fact::ModelAnswered { effect, .. }
        | Fact::ModelFailed { effect, .. }
        | Fact::ToolReturned { effect, .. }
        | Fact::Compacted { effect, .. }
        | Fact::LifecycleAnswered { effect, .. }
        | Fact::ApprovalDecided { effect, .. }
        | Fact::ApprovalExpired { effect, .. } => Some(effect),
        _ => None,
    }
}
