//! What people decided, and what became of it.

use super::{Decision, Found, Kind, Read};
use hookwright_core::job::{Command, Fact};
use std::collections::BTreeMap;

/// What counts is recorded and nothing else is; each approval is settled once, and each yes used once.
pub(super) fn decisions(read: &[Read<'_>], decisions: &[Decision], found: &mut Found) {
    let mut counted: BTreeMap<&str, Vec<&Decision>> = BTreeMap::new();
    for decision in decisions.iter().filter(|decision| decision.counted) {
        counted.entry(&decision.approval).or_default().push(decision);
    }
    for (approval, all) in counted.iter().filter(|(_, all)| all.len() > 1) {
        found.add(Kind::Twice, format!("{approval}: {} decisions were said to count", all.len()));
    }
    let mut asked = BTreeMap::new();
    let mut used: BTreeMap<&str, u32> = BTreeMap::new();
    for read in read {
        for (effect, (_, command)) in &read.begun {
            match command {
                Command::OpenApproval { approval, .. } => {
                    if asked.insert(approval.id.as_str(), read.job.id.as_str()).is_some() {
                        found.add(Kind::Twice, format!("{}: asked twice", approval.id));
                    }
                    settled(read, effect, &approval.id, &approval.digest, &counted, found);
                }
                Command::CallTool { grant: Some(grant), .. } => *used.entry(grant.approval.as_str()).or_default() += 1,
                _ => {}
            }
        }
        for record in &read.job.records {
            if let Fact::DecisionIgnored { approval, by, why, .. } = &record.fact {
                found.add(Kind::Lost, format!("{}: what {by} said of {approval} was ignored: {why}", read.job.id));
            }
        }
    }
    for (approval, times) in used.into_iter().filter(|(_, times)| *times > 1) {
        found.add(Kind::Twice, format!("{approval}: its yes let {times} calls through"));
    }
    for approval in counted.keys().filter(|approval| !asked.contains_key(*approval)) {
        found.add(Kind::Lost, format!("{approval}: a decision counted, and no record asks for it"));
    }
}

/// How one approval was settled.
fn settled(
    read: &Read<'_>,
    effect: &str,
    id: &str,
    asked: &str,
    counted: &BTreeMap<&str, Vec<&Decision>>,
    found: &mut Found,
) {
    let said = counted.get(id).map(|all| all[0]);
    match (read.ended.get(effect).map(|end| &end.fact), said) {
        (Some(Fact::ApprovalDecided { approve, by, digest, .. }), said) => {
            if digest != asked {
                found.add(Kind::Forged, format!("{id}: the decision was made about something else"));
            }
            match said {
                Some(said) if said.approve != *approve || said.by != *by => found.add(
                    Kind::Forged,
                    format!(
                        "{id}: {by} {} is recorded, and {} {} was said to count",
                        word(*approve),
                        said.by,
                        word(said.approve)
                    ),
                ),
                Some(_) => {}
                None => found.add(
                    Kind::Forged,
                    format!("{id}: {by} {} is recorded, and nobody was told that it counts", word(*approve)),
                ),
            }
        }
        (_, Some(said)) if !read.cancelled => {
            found.add(
                Kind::Lost,
                format!("{id}: {} {} was said to count, and is not recorded", said.by, word(said.approve)),
            );
        }
        (None, None) if !read.cancelled => found.add(Kind::Lost, format!("{id}: asked, and never settled")),
        _ => {}
    }
}

fn word(approve: bool) -> &'static str {
    if approve { "yes" } else { "no" }
}
