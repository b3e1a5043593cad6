//! `env` and `headers`: text, or `{ from: VARIABLE }`; and the rule that a secret never stands in a manifest (SPEC §2).

use super::Secret;
use super::lower::Context;
use crate::diagnostic::{Code, Place, secret_kind, shown, sounds_secret};
use crate::yaml::{Entry, Kind, Node};
use std::collections::{BTreeMap, HashMap};

/// Where values go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    /// The environment of a child process.
    Environment,
    /// The headers of HTTP requests.
    Headers,
}

/// Headers that the transport sets itself.
const TRANSPORT_HEADERS: [&str; 14] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

/// Headers whose value is a secret whatever it looks like.
const SECRET_HEADERS: [&str; 6] =
    ["authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token"];

/// Values by name.
pub(super) fn read(
    cx: &mut Context<'_, '_>,
    node: &Node,
    carrier: Carrier,
    path: &str,
) -> Option<BTreeMap<String, Secret>> {
    let (what, expected) = match carrier {
        Carrier::Environment => ("`env`", "a mapping of variables to text or { from: VARIABLE }"),
        Carrier::Headers => ("`headers`", "a mapping of headers to text or { from: VARIABLE }"),
    };
    let entries = cx.read.entries(node, what, expected)?;
    let mut found = BTreeMap::new();
    let mut folded: HashMap<String, &str> = HashMap::new();
    let mut good = true;
    for entry in entries {
        let named = name(cx, entry, carrier, &mut folded);
        match value(cx, entry, carrier) {
            Some(value) if named => {
                cx.note(format!("{path}/{}", entry.key), entry.value.place);
                found.insert(entry.key.clone(), value);
            }
            _ => good = false,
        }
    }
    good.then_some(found)
}

fn name<'e>(
    cx: &mut Context<'_, '_>,
    entry: &'e Entry,
    carrier: Carrier,
    folded: &mut HashMap<String, &'e str>,
) -> bool {
    let key = entry.key.as_str();
    if carrier == Carrier::Environment {
        if is_variable(key) {
            return true;
        }
        cx.read
            .error(entry.key_place, Code::InvalidName, format!("`{}` can't name a variable", shown(key)))
            .hint(VARIABLE_RULE);
        return false;
    }
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if key.is_empty() || !key.chars().all(token) {
        cx.read
            .error(entry.key_place, Code::InvalidName, format!("`{}` can't name a header", shown(key)))
            .hint("a header's name has letters, digits and `-`");
        return false;
    }
    let lower = key.to_ascii_lowercase();
    if TRANSPORT_HEADERS.contains(&lower.as_str()) || lower.starts_with("mcp-") {
        cx.read
            .error(
                entry.key_place,
                Code::ReservedHeader,
                format!("the header `{}` is set by the transport", shown(key)),
            )
            .hint("leave it out");
        return false;
    }
    if let Some(other) = folded.insert(lower, key) {
        let message = format!("the header `{}` stands twice, also as `{}`", shown(key), shown(other));
        cx.read.error(entry.key_place, Code::DuplicateKey, message).hint("headers don't differ by case");
        return false;
    }
    true
}

fn value(cx: &mut Context<'_, '_>, entry: &Entry, carrier: Carrier) -> Option<Secret> {
    let node = entry.value.as_ref();
    let what = format!("`{}`", shown(&entry.key));
    match &node.kind {
        Kind::Map(_) => {
            let fields = cx.read.fields(node, &what, &["from"])?;
            let from = cx.read.required(&fields, "from", &what, "e.g. { from: GITHUB_TOKEN }")?;
            let variable = cx.read.text(from, "`from`")?;
            if !is_variable(variable) {
                if !refuse_secret(cx, from.place, variable, "`from`", "the name of a variable that holds it") {
                    return None;
                }
                cx.read
                    .error(
                        from.place,
                        Code::InvalidName,
                        format!("`from` is `{}`: expected the name of a variable", shown(variable)),
                    )
                    .hint(VARIABLE_RULE);
                return None;
            }
            Some(Secret::From { from: variable.to_owned() })
        }
        Kind::Text(text) => {
            let text = text.as_str();
            if !plain(cx, entry, carrier, text) {
                return None;
            }
            Some(Secret::Plain(text.to_owned()))
        }
        _ => {
            let said = cx.read.wrong_type(node, &what, "text or { from: VARIABLE }");
            if matches!(node.kind, Kind::Number(_) | Kind::Bool(_)) {
                said.hint("put it in quotes: all values are text");
            }
            None
        }
    }
}

/// Checks text that a manifest gives as it is.
fn plain(cx: &mut Context<'_, '_>, entry: &Entry, carrier: Carrier, text: &str) -> bool {
    let place = entry.value.place;
    let what = format!("the value of `{}`", shown(&entry.key));
    let forbidden: fn(char) -> bool = match carrier {
        Carrier::Environment => |c| c == '\0',
        // Line ends would begin another header.
        Carrier::Headers => |c| c.is_control() && c != '\t',
    };
    if let Some(c) = text.chars().find(|c| forbidden(*c)) {
        cx.read.error(place, Code::InvalidText, format!("{what} holds the character U+{:04X}", c as u32));
        return false;
    }
    if !refuse_secret(cx, place, text, &what, "{ from: VARIABLE }") {
        return false;
    }
    let name = entry.key.to_ascii_lowercase();
    if carrier == Carrier::Headers && SECRET_HEADERS.contains(&name.as_str()) && !text.is_empty() {
        cx.read
            .error(place, Code::SecretInManifest, format!("{what} is a secret: it never stands in a manifest"))
            .redact()
            .hint(format!("name the variable that holds it: {}: {{ from: VARIABLE }}", shown(&entry.key)));
        return false;
    }
    if let Some(variable) = text.split_once("${").and_then(|(_, rest)| rest.split_once('}')).map(|(name, _)| name) {
        cx.read
            .warn(place, Code::NoInterpolation, format!("{what} is passed on as it is: `${{…}}` is not replaced"))
            .hint(format!("a variable is named by {{ from: {} }}", shown(variable)));
    } else if !text.is_empty() && sounds_secret(&name) {
        cx.read
            .warn(place, Code::MaybeSecret, format!("{what} may be a secret, by its name"))
            .redact()
            .hint("if it is one, write { from: VARIABLE }");
    }
    true
}

/// Says so where a text looks like a secret. True: it does not.
pub(super) fn refuse_secret(cx: &mut Context<'_, '_>, place: Place, text: &str, what: &str, instead: &str) -> bool {
    let Some(kind) = secret_kind(text) else { return true };
    cx.read
        .error(place, Code::SecretInManifest, format!("{what} looks like {kind}: a secret never stands in a manifest"))
        .hint(format!("put it into a variable of the node and use {instead}; if this one is real, revoke it"));
    false
}

const VARIABLE_RULE: &str = "a variable's name has letters, digits and `_`, and begins with no digit";

/// Whether a text may name a variable of the environment.
pub(crate) fn is_variable(text: &str) -> bool {
    text.len() <= 256
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
