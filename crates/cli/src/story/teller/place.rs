//! Where in a job something belongs, by the ids of its effects.

/// Whether a model plays a script: said wherever its name stands.
pub(crate) fn scripted(model: &str) -> bool {
    model.starts_with("script/")
}

/// Where in the job an effect belongs: `t1.c0` of `t1.c0.pre.h0`, `t1` of `t1.model`, `start` of `start.h0`.
pub(crate) fn place(effect: &str) -> &str {
    if matches!(effect, "session_start" | "prompt_submit" | "subagent_start") {
        return "start";
    }
    let mut end = 0;
    for part in effect.split('.') {
        let numbered =
            |c: char| part.strip_prefix(c).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        if end == 0 || (numbered('c') && !effect[..end].contains('.')) {
            end += part.len() + usize::from(end > 0);
        } else {
            break;
        }
    }
    &effect[..end]
}

/// The chain that an effect belongs to: `t1.c0.pre` of `t1.c0.pre.h0` and of `t1.c0.pre.approval`.
pub(crate) fn chain(effect: &str) -> &str {
    effect.rsplit_once('.').map_or(effect, |(chain, _)| chain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_belongs_to_a_place_and_a_chain() {
        for (effect, at, of) in [
            ("t1.c0.pre.h12", "t1.c0", "t1.c0.pre"),
            ("t12.c3.call", "t12.c3", "t12.c3"),
            ("t1.model", "t1", "t1"),
            ("start.h0", "start", "start"),
            ("end.approval", "end", "end"),
            ("odd", "odd", "odd"),
        ] {
            assert_eq!((place(effect), chain(effect)), (at, of), "{effect}");
        }
    }
}
