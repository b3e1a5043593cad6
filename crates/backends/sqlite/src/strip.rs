//! A record's text without the values in it.
//!
//! Invariant: only inline copies go: the member `value` of an object whose keys are exactly `sha256`, `bytes` and `value`
//! (`hookwright_core::stored::Stored`). Everything else stays as it was written, so that the history's hashes still fit (SPEC §8).

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The text without inline values; none where there is none in it.
pub(crate) fn strip(text: &str) -> Result<Option<String>, serde_json::Error> {
    let mut out = Stripped { text: String::with_capacity(text.len()), changed: false, depth: 0 };
    out.push(text)?;
    Ok(out.changed.then_some(out.text))
}

struct Stripped {
    text: String,
    changed: bool,
    depth: u32,
}

/// Records of our own are far flatter (values do not count); what is deeper is no record and stays as it is.
const DEPTH: u32 = 128;

impl Stripped {
    fn push(&mut self, text: &str) -> Result<(), serde_json::Error> {
        self.depth += 1;
        let done = self.push_at_depth(text);
        self.depth -= 1;
        done
    }

    fn push_at_depth(&mut self, text: &str) -> Result<(), serde_json::Error> {
        match text.trim_start().as_bytes().first() {
            Some(b'{') if self.depth <= DEPTH => self.object(&parts(text, Members)?),
            Some(b'[') if self.depth <= DEPTH => self.array(&parts(text, Items)?),
            _ => {
                // Not ours to change, but it must be JSON.
                serde_json::from_str::<de::IgnoredAny>(text)?;
                self.text.push_str(text.trim());
                Ok(())
            }
        }
    }

    fn object(&mut self, members: &[(String, &RawValue)]) -> Result<(), serde_json::Error> {
        let is_value =
            members.len() == 3 && ["sha256", "bytes", "value"].iter().all(|k| members.iter().any(|(key, _)| key == k));
        self.changed |= is_value;
        self.text.push('{');
        let kept = members.iter().filter(|(key, _)| !(is_value && key == "value"));
        for (i, (key, value)) in kept.enumerate() {
            if i > 0 {
                self.text.push(',');
            }
            self.text.push_str(&serde_json::to_string(key)?);
            self.text.push(':');
            self.push(value.get())?;
        }
        self.text.push('}');
        Ok(())
    }

    fn array(&mut self, items: &[&RawValue]) -> Result<(), serde_json::Error> {
        self.text.push('[');
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.text.push(',');
            }
            self.push(item.get())?;
        }
        self.text.push(']');
        Ok(())
    }
}

fn parts<'t, S: DeserializeSeed<'t>>(text: &'t str, seed: S) -> Result<S::Value, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(text);
    let parts = seed.deserialize(&mut json)?;
    json.end()?;
    Ok(parts)
}

struct Members;

impl<'t> DeserializeSeed<'t> for Members {
    type Value = Vec<(String, &'t RawValue)>;
    fn deserialize<D: de::Deserializer<'t>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_map(self)
    }
}

impl<'t> Visitor<'t> for Members {
    type Value = Vec<(String, &'t RawValue)>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

struct Items;

impl<'t> DeserializeSeed<'t> for Items {
    type Value = Vec<&'t RawValue>;
    fn deserialize<D: de::Deserializer<'t>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_seq(self)
    }
}

impl<'t> Visitor<'t> for Items {
    type Value = Vec<&'t RawValue>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }
    fn visit_seq<A: SeqAccess<'t>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests;
