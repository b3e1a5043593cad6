//! Histories without what is another one each time a job is run: times, ids, hashes, and the order of calls that don't wait for each other.
//!
//! "Both engines write the same records" means: what [`normal`] leaves of them is equal.
//!
//! Invariant: pure, and what is normal stays as it is.

mod order;

use hookwright_core::json;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// Kinds of records that tell of an engine's processes and not of the job.
const OF_PROCESSES: [&str; 2] = ["resumed", "tool_state"];
/// Keys of a record that hold times or the chain.
const VOLATILE: [&str; 7] = ["seq", "at_ms", "prev", "hash", "ms", "decided_ms", "after_ms"];

/// Makes histories comparable. Those of one tree of jobs belong together, parents first: each job is named by its place.
pub fn normal(histories: &[Vec<Value>]) -> Vec<Vec<Value>> {
    let names = names(histories);
    histories.iter().map(|records| one(records, &names)).collect()
}

/// One line for each record: its kind, whose it is, what it says in a word, and a digest of the whole normal record.
pub fn lines(records: &[Value]) -> String {
    let mut text = String::new();
    for record in records {
        let command = &record["command"];
        let words = [
            &record["kind"],
            &command["do"],
            &record["effect"],
            &command["effect"],
            &command["tool"],
            &command["call"],
            &record["outcome"]["decision"],
            &record["outcome"]["end"],
            &record["outcome"]["status"],
            &record["approve"],
            &record["stop"],
            &command["outcome"]["status"],
            &command["point"],
            &command["skip"],
        ];
        let mut words: Vec<String> = words
            .into_iter()
            .filter_map(|word| match word {
                Value::String(word) => Some(word.clone()),
                Value::Bool(flag) => Some(flag.to_string()),
                _ => None,
            })
            .collect();
        // What else the first record holds, limits and versions, is the build's and not the engine's.
        let told = match &record["spec"] {
            Value::Object(spec) => {
                ["agent", "input", "hooks", "parent_jobs"].iter().map(|key| spec.get(*key)).collect()
            }
            _ => vec![Some(record)],
        };
        words.push(json::digest(&Value::Array(told.into_iter().flatten().cloned().collect()))[..8].to_owned());
        let _ = writeln!(text, "{}", words.join(" "));
    }
    text
}

/// What stands for each id: jobs by their place, approvals by their job's and what they hold up. Which of two is asked first is chance.
fn names(histories: &[Vec<Value>]) -> Vec<(String, String)> {
    let mut names = vec![];
    for (place, records) in histories.iter().enumerate() {
        for record in records {
            let command = &record["command"];
            let effect = command["effect"].as_str().unwrap_or_default();
            let named = [
                (&record["spec"]["job"], format!("#job{}", place + 1)),
                (&command["approval"]["id"], format!("#approval{}:{effect}", place + 1)),
            ];
            for (id, name) in named {
                if let Some(id) = id.as_str().filter(|id| !id.is_empty() && !id.starts_with('#')) {
                    names.push((id.to_owned(), name));
                }
            }
        }
    }
    names
}

fn one(records: &[Value], names: &[(String, String)]) -> Vec<Value> {
    let mut digests = HashMap::new();
    let mut normal: Vec<Value> = records
        .iter()
        .filter(|record| !OF_PROCESSES.iter().any(|kind| record["kind"] == *kind))
        .map(|record| {
            let mut record = record.clone();
            strip(&mut record);
            rename(&mut record, names, &mut digests);
            record
        })
        .collect();
    // A value is named after the record that holds it; what names it by digest may stand before or after.
    // What lifecycle hooks said is delivered under ids that follow from the job's.
    let said = |record: &Value| record["kind"] == "lifecycle_answered" && record.get("answers").is_some();
    let tainted = !digests.is_empty() || normal.iter().any(said);
    for record in &mut normal {
        digest(record, &digests, tainted);
    }
    order::ordered(normal)
}

fn strip(record: &mut Value) {
    if let Value::Object(record) = record {
        for key in VOLATILE {
            record.shift_remove(key);
        }
        if let Some(Value::Array(answers)) = record.get_mut("answers") {
            for answer in answers.iter_mut().filter_map(Value::as_object_mut) {
                answer.shift_remove("ms");
            }
        }
    }
    if let Some(grant) =
        record.get_mut("command").and_then(|command| command.get_mut("grant")).and_then(Value::as_object_mut)
    {
        grant.shift_remove("expires_ms");
    }
    if let Some(head) =
        record.get_mut("command").and_then(|command| command.get_mut("head")).and_then(Value::as_object_mut)
    {
        head.insert("node".to_owned(), "#node".into());
    }
    if let Some(spec) = record.get_mut("spec").and_then(Value::as_object_mut) {
        for key in ["node", "session"] {
            if spec.contains_key(key) {
                spec.insert(key.to_owned(), format!("#{key}").into());
            }
        }
        let manifests = spec.get_mut("hooks").and_then(|hooks| hooks.get_mut("manifests"));
        for manifest in manifests.and_then(Value::as_array_mut).into_iter().flatten() {
            // They name programs and folders.
            manifest["sha256"] = "#manifest".into();
        }
    }
}

/// Whether an object is a stored value that is there.
fn is_inline(map: &Map<String, Value>) -> bool {
    map.len() == 3 && map.contains_key("sha256") && map.contains_key("bytes") && map.contains_key("value")
}

/// Puts names in the place of ids, and notes the digests of values that held some.
fn rename(value: &mut Value, names: &[(String, String)], digests: &mut HashMap<String, String>) {
    match value {
        Value::String(text) => {
            for (id, name) in names {
                if text.contains(id.as_str()) {
                    *text = text.replace(id.as_str(), name);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, names, digests)),
        Value::Object(map) => {
            let inline = is_inline(map).then(|| map["value"].clone());
            map.values_mut().for_each(|item| rename(item, names, digests));
            if let (Some(before), Some(sha256)) = (inline, map.get("sha256").and_then(Value::as_str))
                && before != map["value"]
            {
                let name = format!("#{}", &json::digest(&map["value"])[..16]);
                digests.insert(sha256.to_owned(), name);
                map.insert("bytes".to_owned(), 0.into());
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Puts names in the place of digests over ids, and of those over what held some.
fn digest(value: &mut Value, digests: &HashMap<String, String>, tainted: bool) {
    match value {
        Value::String(text) => {
            if let Some(name) = digests.get(text.as_str()) {
                text.clone_from(name);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| digest(item, digests, tainted)),
        Value::Object(map) => {
            for (key, item) in map.iter_mut() {
                match (key.as_str(), &*item) {
                    // What a yes is bound to holds the job's id.
                    ("digest", Value::String(_)) => *item = "#digest".into(),
                    ("conversation", Value::String(_)) if tainted => *item = "#conversation".into(),
                    _ => digest(item, digests, tainted),
                }
            }
            let by_name = map.get("sha256").and_then(Value::as_str).is_some_and(|sha256| sha256.starts_with('#'));
            if by_name && map.contains_key("bytes") {
                map.insert("bytes".to_owned(), 0.into());
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// How often each kind of record stands there; for messages of tests.
pub fn kinds(records: &[Value]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for record in records {
        *kinds.entry(record["kind"].as_str().unwrap_or("?").to_owned()).or_default() += 1;
    }
    kinds
}

#[cfg(test)]
mod tests;
