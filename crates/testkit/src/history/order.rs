//! The order of records of calls that don't wait for each other.

use serde_json::Value;

/// Turn and call.
type Lane = (u32, u32);

/// Records of one turn's calls stand call by call; each call's own, and all others, in the order in which they were. What came late
/// stands behind what it was too late for.
pub(super) fn ordered(records: Vec<Value>) -> Vec<Value> {
    let late = |record: &Value| matches!(record["kind"].as_str(), Some("hook_late" | "tool_late" | "decision_ignored"));
    let approvals: Vec<(Value, Value)> = records
        .iter()
        .filter(|record| record["command"]["do"] == "open_approval")
        .map(|record| (record["command"]["approval"]["id"].clone(), record["command"]["effect"].clone()))
        .collect();
    let (late, rest): (Vec<Value>, Vec<Value>) = records.into_iter().partition(late);
    let mut ordered: Vec<Value> = Vec::with_capacity(rest.len() + late.len());
    let mut group: Vec<(Lane, Value)> = vec![];
    for record in rest {
        if let Some(lane) = effect(&record).and_then(lane) {
            group.push((lane, record));
        } else {
            flush(&mut group, &mut ordered);
            ordered.push(record);
        }
    }
    flush(&mut group, &mut ordered);
    for record in late {
        let of = match effect(&record) {
            Some(effect) => Some(effect.to_owned()),
            None => approvals
                .iter()
                .find(|(id, _)| *id == record["approval"])
                .and_then(|(_, e)| e.as_str())
                .map(str::to_owned),
        };
        let last = ordered.iter().rposition(|other| effect(other) == of.as_deref());
        match last.filter(|_| of.is_some()) {
            Some(at) => ordered.insert(at + 1, record),
            None => ordered.push(record),
        }
    }
    ordered
}

fn flush(group: &mut Vec<(Lane, Value)>, ordered: &mut Vec<Value>) {
    group.sort_by_key(|(lane, _)| *lane);
    ordered.extend(group.drain(..).map(|(_, record)| record));
}

fn effect(record: &Value) -> Option<&str> {
    record["effect"].as_str().or_else(|| record["command"]["effect"].as_str())
}

/// The call that an effect belongs to: `t3.c0.pre.h1` is of turn 3, call 0.
fn lane(effect: &str) -> Option<Lane> {
    let mut parts = effect.split('.');
    let turn = parts.next()?.strip_prefix('t')?.parse().ok()?;
    let call = parts.next()?.strip_prefix('c')?.parse().ok()?;
    Some((turn, call))
}
