//! A script's file: a list of turns. Strict: what is not known is an error, with its line and column.

use hookwright_core::text::escape;
use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// A model's turns, one after the other. Turn N is played where the conversation holds N-1 turns of the model.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScriptWire {
    /// What the script shows, for its readers.
    #[serde(default)]
    #[allow(dead_code)]
    pub(crate) description: Option<String>,
    /// Tokens of a window, to see what happens when it is full: the script then behaves as a provider with such a window does, counts
    /// four bytes a token, reports tokens, and refuses a request that is longer.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub(crate) window: Option<u64>,
    /// What the model says where it is asked to summarise the work so far (compaction). Default: a text that says it is scripted.
    #[serde(default)]
    pub(crate) summary: Option<String>,
    /// How a request for a summary fails instead.
    #[serde(default)]
    pub(crate) summary_error: Option<ErrorWire>,
    /// The turns, in order; at least one.
    #[schemars(length(min = 1))]
    pub(crate) turns: Vec<TurnWire>,
}

/// One turn: at least one of `say`, `call` and `error`.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Turn")]
pub(crate) struct TurnWire {
    /// What must stand in what the model was told since its last turn (the results of its calls, or the user's message).
    /// A text, `{matches: regex}`, or a list of these, all of which must fit. Otherwise the turn fails and says what stood there.
    #[schemars(with = "Option<OneOrMany<ExpectWire>>")]
    pub(crate) expect: Vec<ExpectWire>,
    /// The text that the model says, streamed word by word.
    pub(crate) say: Option<String>,
    /// The call, or a list of calls that the model asks for at once.
    #[schemars(with = "Option<OneOrMany<CallWire>>")]
    pub(crate) call: Vec<CallWire>,
    /// Why the turn ends, where neither calls nor the end of the text say so.
    pub(crate) stop: Option<StopWire>,
    /// The tokens that the turn is reported to have cost.
    pub(crate) usage: Option<UsageWire>,
    /// A wait before the turn and before each word of it, e.g. `10ms`, `1.5s`; at most a minute.
    pub(crate) delay: Option<DelayWire>,
    /// The turn fails instead, after what it says.
    pub(crate) error: Option<ErrorWire>,
}

/// One call.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Call")]
pub(crate) struct CallWire {
    /// The function's full name, e.g. `git.push`. A name that does not exist is a way to see what happens then.
    pub(crate) tool: String,
    /// The arguments.
    #[serde(default)]
    pub(crate) with: Map<String, Value>,
    /// The arguments as the model wrote them, instead of `with`: to see what happens to text that is no JSON.
    #[serde(default)]
    pub(crate) raw: Option<String>,
}

/// What must be seen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ExpectWire {
    /// This text must stand there.
    Text(String),
    /// This regular expression must fit somewhere.
    Matches(Pattern),
}

/// A regular expression, as it was written.
#[derive(Debug, Clone)]
pub(crate) struct Pattern(pub(crate) regex::Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

/// Why a turn ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Stop")]
pub(crate) enum StopWire {
    /// The model ran into its output limit.
    MaxTokens,
    /// The model refused to go on.
    Refusal,
}

/// Tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Usage")]
pub(crate) struct UsageWire {
    /// Of the request.
    pub(crate) input: u64,
    /// Of the answer.
    pub(crate) output: u64,
}

/// How a turn fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Error")]
pub(crate) enum ErrorWire {
    /// The provider could not be reached, after all retries.
    Unavailable,
    /// The conversation is longer than the model's window.
    ContextFull,
    /// The provider refused.
    Refused,
    /// The provider answered something that can't be read.
    Malformed,
}

/// A duration as people write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DelayWire(pub(crate) Duration);

impl<'de> Deserialize<'de> for DelayWire {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let units = [("ms", 1.0), ("s", 1_000.0), ("m", 60_000.0)];
        let ms = units.iter().find_map(|(unit, factor)| {
            let number = text.strip_suffix(unit)?;
            let plain = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.');
            plain.then(|| number.parse::<f64>().ok()).flatten().map(|n| n * factor)
        });
        match ms {
            Some(ms) if ms <= 60_000.0 => Ok(Self(Duration::from_secs_f64(ms / 1_000.0))),
            _ => Err(de::Error::custom(format!("{text:?} is no delay: expected e.g. 10ms or 1.5s, at most 1m"))),
        }
    }
}

impl JsonSchema for DelayWire {
    fn schema_name() -> Cow<'static, str> {
        "Delay".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": "^[0-9.]+(ms|s|m)$", "examples": ["10ms", "1.5s"]})
    }
}

impl<'de> Deserialize<'de> for ExpectWire {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Expect;
        impl<'de> Visitor<'de> for Expect {
            type Value = ExpectWire;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or {matches: a regular expression}")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ExpectWire, E> {
                Ok(ExpectWire::Text(text.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ExpectWire, A::Error> {
                let Some(key) = map.next_key::<String>()? else { return Err(de::Error::missing_field("matches")) };
                if key != "matches" {
                    return Err(de::Error::unknown_field(&key, &["matches"]));
                }
                let text: String = map.next_value()?;
                let regex = regex::Regex::new(&text).map_err(|e| {
                    let why = e.to_string();
                    let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
                    de::Error::custom(format!("no regular expression: {why}"))
                })?;
                match map.next_key::<String>()? {
                    Some(key) => Err(de::Error::unknown_field(&key, &["matches"])),
                    None => Ok(ExpectWire::Matches(Pattern(regex))),
                }
            }
        }
        d.deserialize_any(Expect)
    }
}

impl JsonSchema for ExpectWire {
    fn schema_name() -> Cow<'static, str> {
        "Expect".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A text that must stand there, or a regular expression that must fit.",
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"matches": {"type": "string", "format": "regex"}},
                    "required": ["matches"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

/// One, or a list. Unlike an untagged enum it keeps the place of an error.
struct OneOrMany<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Many<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Many<T> {
            type Value = OneOrMany<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one, or a list")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(OneOrMany(vec![T::deserialize(StrDeserializer::new(text))?]))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Ok(OneOrMany(vec![T::deserialize(MapAccessDeserializer::new(map))?]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(OneOrMany(items))
            }
        }
        d.deserialize_any(Many(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let one = generator.subschema_for::<T>();
        schemars::json_schema!({"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]})
    }
}

impl<'de> Deserialize<'de> for TurnWire {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            #[serde(default)]
            expect: Option<OneOrMany<ExpectWire>>,
            #[serde(default)]
            say: Option<String>,
            #[serde(default)]
            call: Option<OneOrMany<CallWire>>,
            #[serde(default)]
            stop: Option<StopWire>,
            #[serde(default)]
            usage: Option<UsageWire>,
            #[serde(default)]
            delay: Option<DelayWire>,
            #[serde(default)]
            error: Option<ErrorWire>,
        }
        let f = Fields::deserialize(d)?;
        let (expect, call) = (f.expect.map_or_else(Vec::new, |e| e.0), f.call.map_or_else(Vec::new, |c| c.0));
        if f.say.is_none() && call.is_empty() && f.error.is_none() {
            return Err(de::Error::custom("a turn needs one of say, call and error"));
        }
        if f.error.is_some() && (!call.is_empty() || f.stop.is_some() || f.usage.is_some()) {
            return Err(de::Error::custom("a turn with an error has no call, stop or usage"));
        }
        if f.stop == Some(StopWire::Refusal) && !call.is_empty() {
            return Err(de::Error::custom("a turn that is refused calls nothing"));
        }
        if call.iter().any(|c| c.raw.is_some() && !c.with.is_empty()) {
            return Err(de::Error::custom("a call has with or raw, not both"));
        }
        Ok(Self { expect, say: f.say, call, stop: f.stop, usage: f.usage, delay: f.delay, error: f.error })
    }
}

/// Reads a script. The error starts with line and column, `3:5: …`.
pub(crate) fn parse(text: &str) -> Result<ScriptWire, String> {
    let script: ScriptWire = serde_saphyr::from_str(text).map_err(|e| {
        let place = e.location().map_or_else(String::new, |l| format!("{}:{}: ", l.line(), l.column()));
        format!("{place}{}", words(&e.without_snippet().to_string()))
    })?;
    if script.turns.is_empty() {
        return Err("1:1: a script needs at least one turn".to_owned());
    }
    if script.window == Some(0) {
        return Err("1:1: a window has at least 1 token".to_owned());
    }
    if script.summary.is_some() && script.summary_error.is_some() {
        return Err("1:1: a script has summary or summary_error, not both".to_owned());
    }
    Ok(script)
}

/// The reader's words on one line, without the place (it stands in front) and without advice to programmers.
fn words(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let line = line.rsplit_once(" at line ").map_or(line, |(words, _)| words);
    let line = line.split_once(", set DuplicateKeyPolicy").map_or(line, |(words, _)| words);
    let near = line.strip_prefix("unknown field `").and_then(|rest| rest.split_once("`, expected one of "));
    let near = near.and_then(|(wrong, known)| {
        let distance = |known: &&str| strsim::osa_distance(known, wrong);
        known.split(", ").min_by_key(distance).filter(|known| distance(known) <= 2)
    });
    let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
    escape(&line.chars().take(400).collect::<String>()) + &hint
}
