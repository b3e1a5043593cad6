//! Names: `tool.function`, patterns over them, and how a model is told of them.
//!
//! Invariant: a tool id holds no dot, so a full name splits in one way. A function's name may hold anything.
//! Invariant: [`model_name`] is injective.

use crate::json::sha256_hex;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A function's full name, `tool.function`, e.g. `github.merge`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionName {
    tool: String,
    function: String,
}

/// Why a text is no function's full name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a function's full name: expected tool.function, e.g. github.merge")]
pub struct NameError {
    text: String,
}

impl FunctionName {
    /// Of a tool's id and the name that its server lists.
    pub fn new(tool: impl Into<String>, function: impl Into<String>) -> Self {
        Self { tool: tool.into(), function: function.into() }
    }

    /// Splits at the first dot.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        match text.split_once('.') {
            Some((tool, function)) if is_tool_id(tool) && !function.is_empty() => Ok(Self::new(tool, function)),
            _ => Err(NameError { text: text.to_owned() }),
        }
    }

    /// The tool's id.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// The name that the tool's server lists (its bare name).
    pub fn function(&self) -> &str {
        &self.function
    }

    /// Whether the bare name starts with `_`: hidden from every model (SPEC §2, §9).
    pub fn is_lifecycle(&self) -> bool {
        self.function.starts_with('_')
    }
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.tool, self.function)
    }
}

impl Serialize for FunctionName {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FunctionName {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for FunctionName {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "FunctionName".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}\\.[\\s\\S]+$", "description": "A function's full name, tool.function, e.g. github.merge."})
    }
}

/// Whether a text may be a tool's (or a plugin's, agent's, tenant's) id: 1–64 of `[A-Za-z0-9_-]`, starting with a letter or digit.
pub fn is_tool_id(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Whether `pattern` fits `name`. `*` stands for any run of characters, dots included; all else is literal and case-sensitive (SPEC §2).
pub fn pattern_fits(pattern: &str, name: &str) -> bool {
    // Two pointers with one point of return: linear in practice, never exponential.
    let (p, n) = (pattern.as_bytes(), name.as_bytes());
    let (mut i, mut j) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while j < n.len() {
        if i < p.len() && p[i] == b'*' {
            star = Some((i, j));
            i += 1;
        } else if i < p.len() && p[i] == n[j] {
            i += 1;
            j += 1;
        } else if let Some((si, sj)) = star {
            i = si + 1;
            j = sj + 1;
            star = Some((si, j));
        } else {
            return false;
        }
    }
    p[i..].iter().all(|&c| c == b'*')
}

/// The name under which a model calls a function: what every provider accepts, 1–64 of `[A-Za-z0-9_-]`, starting with a letter.
///
/// `github.merge` becomes `github__merge`. A name that this would make ambiguous, too long or illegal becomes
/// `<readable part>__x__<20 hex digits of SHA-256>`; as the first form holds `__` once and the second twice, no two names meet.
pub fn model_name(name: &FunctionName) -> String {
    let plain = |s: &str| {
        !s.is_empty()
            && s.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
            && !s.contains("__")
            && !s.starts_with('_')
            && !s.ends_with('_')
    };
    let (tool, function) = (name.tool(), name.function());
    if plain(tool)
        && plain(function)
        && tool.starts_with(|c: char| c.is_ascii_alphabetic())
        && tool.len() + function.len() + 2 <= 64
    {
        return format!("{tool}__{function}");
    }
    let mut readable = String::new();
    for c in format!("{tool}_{function}").chars() {
        let c = if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        if !(c == '_' && (readable.is_empty() || readable.ends_with('_'))) {
            readable.push(c);
        }
        if readable.len() == 36 {
            break;
        }
    }
    let readable = readable.trim_end_matches('_');
    let lead = if readable.starts_with(|c: char| c.is_ascii_alphabetic()) { "" } else { "f" };
    // `_` between parts keeps `tool` and `function` apart in the digest: a dot can't stand in a tool's id.
    format!("{lead}{readable}__x__{}", &sha256_hex(name.to_string().as_bytes())[..20])
}

#[cfg(test)]
mod tests;
