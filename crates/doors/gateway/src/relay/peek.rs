//! What a message is, as far as it has to be known to pass it on. Messages that can't be read are passed on as they are: the session says
//! what is wrong with them.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What was seen of a message.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Seen<'a> {
    /// The id's text.
    #[serde(borrow, default, deserialize_with = "id")]
    pub(super) id: Option<&'a str>,
    #[serde(borrow, default)]
    pub(super) method: Option<Cow<'a, str>>,
}

fn id<'de, D: Deserializer<'de>>(d: D) -> Result<Option<&'de str>, D::Error> {
    let raw = <&RawValue>::deserialize(d)?.get();
    Ok((raw != "null").then_some(raw))
}

impl<'a> Seen<'a> {
    pub(super) fn of(line: &'a [u8]) -> Self {
        // A list would be read as members in their order.
        let line = line.trim_ascii_start();
        if line.first() == Some(&b'{') { serde_json::from_slice(line).unwrap_or_default() } else { Self::default() }
    }

    pub(super) fn is(&self, method: &str) -> bool {
        self.method.as_deref() == Some(method)
    }
}

/// Params of a line, as text; empty where there are none.
pub(super) fn params(line: &[u8]) -> &str {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow, default)]
        params: Option<&'a RawValue>,
    }
    serde_json::from_slice::<Message<'_>>(line).ok().and_then(|message| message.params).map_or("{}", RawValue::get)
}

/// The text of one member of the params: a string's value, anything else as it stands.
pub(super) fn param(line: &[u8], key: &str) -> Option<String> {
    let params: std::collections::HashMap<Cow<'_, str>, &RawValue> = serde_json::from_str(params(line)).ok()?;
    let raw = params.get(key)?.get();
    Some(serde_json::from_str::<String>(raw).unwrap_or_else(|_| raw.to_owned()))
}

/// The same, as it stands.
pub(super) fn raw_param(line: &[u8], key: &str) -> Option<String> {
    let params: std::collections::HashMap<Cow<'_, str>, &RawValue> = serde_json::from_str(params(line)).ok()?;
    Some(params.get(key)?.get().to_owned())
}
