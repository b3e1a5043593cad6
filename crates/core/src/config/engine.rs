//! `engine`: what runs jobs durably.

use super::lower::{optional, path};
use super::{Engine, TemporalConfig, TlsConfig};
use crate::diagnostic::{Code, shown};
use crate::yaml::{Kind, Node, Reader};

/// What `engine` may say, for hints.
const EXAMPLE: &str = "e.g. engine: { temporal: { address: \"127.0.0.1:7233\" } }";

pub(super) fn engine(read: &mut Reader<'_, '_>, node: &Node) -> Option<Engine> {
    if matches!(&node.kind, Kind::Text(text) if text == "temporal") {
        let what = "`engine` is `temporal` without a cluster: expected a mapping with the key temporal";
        read.error(node.place, Code::WrongType, what).hint(EXAMPLE);
        return None;
    }
    if !matches!(node.kind, Kind::Map(_)) {
        return read.choice(node, "`engine`", &[("embedded", ())]).map(|()| Engine::Embedded);
    }
    let fields = read.fields(node, "`engine`", &["temporal"])?;
    let node = read.required(&fields, "temporal", "`engine`", EXAMPLE)?;
    temporal(read, node).map(|config| Engine::Temporal(Box::new(config)))
}

fn temporal(read: &mut Reader<'_, '_>, node: &Node) -> Option<TemporalConfig> {
    let keys = ["address", "namespace", "queue", "node", "api_key", "tls"];
    let fields = read.fields(node, "`engine.temporal`", &keys)?;
    let address = read.required(&fields, "address", "`engine.temporal`", EXAMPLE).and_then(|node| address(read, node));
    let namespace = name(read, fields.get("namespace"), "`namespace`", "default");
    let queue = name(read, fields.get("queue"), "`queue`", "hookwright");
    let id = optional(fields.get("node"), |node| word(read, node, "`node`"));
    let api_key = optional(fields.get("api_key"), |node| api_key(read, node));
    let tls = optional(fields.get("tls"), |node| tls(read, node));
    Some(TemporalConfig {
        address: address?,
        namespace: namespace?,
        queue: queue?,
        node: id?,
        api_key: api_key?,
        tls: tls?,
    })
}

fn address(read: &mut Reader<'_, '_>, node: &Node) -> Option<String> {
    let text = read.filled(node, "`address`", false)?;
    let good = text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains(['/', ' ', '@', '?', '#']) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if !good {
        read.error(node.place, Code::UnknownValue, format!("`address` is `{}`: expected host:port", shown(text)))
            .hint("without https:// before it: `tls` says how it is reached");
        return None;
    }
    Some(text.to_owned())
}

fn name(read: &mut Reader<'_, '_>, node: Option<&Node>, what: &str, default: &str) -> Option<String> {
    match node {
        Some(node) => word(read, node, what),
        None => Some(default.to_owned()),
    }
}

/// A name as clusters take it, and as it can stand in an id.
fn word(read: &mut Reader<'_, '_>, node: &Node, what: &str) -> Option<String> {
    let text = read.filled(node, what, false)?;
    if text.len() > 100 || !text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        read.error(node.place, Code::InvalidName, format!("{what} is `{}`", shown(text)))
            .hint("letters, digits, - _ and . are possible, 100 at most");
        return None;
    }
    Some(text.to_owned())
}

/// By reference only: a key never stands in the file.
fn api_key(read: &mut Reader<'_, '_>, node: &Node) -> Option<String> {
    if !matches!(node.kind, Kind::Map(_)) {
        read.error(node.place, Code::SecretInManifest, "`api_key` must be taken from a variable")
            .hint("write api_key: { from: TEMPORAL_API_KEY }; if a real key stood here, revoke it");
        return None;
    }
    let fields = read.fields(node, "`api_key`", &["from"])?;
    let from = read.required(&fields, "from", "`api_key`", "e.g. { from: TEMPORAL_API_KEY }")?;
    let text = read.filled(from, "`from`", false)?;
    if !crate::manifest::is_variable(text) {
        read.error(from.place, Code::InvalidName, format!("`{}` can't name a variable", shown(text)));
        return None;
    }
    Some(text.to_owned())
}

fn tls(read: &mut Reader<'_, '_>, node: &Node) -> Option<TlsConfig> {
    let fields = read.fields(node, "`tls`", &["ca", "cert", "key", "domain"])?;
    let mut file = |key: &str| optional(fields.get(key), |node| path(read, node, &format!("`tls.{key}`")));
    let (ca, cert, key) = (file("ca"), file("cert"), file("key"));
    let domain = optional(fields.get("domain"), |node| word(read, node, "`tls.domain`"));
    let tls = TlsConfig { ca: ca?, cert: cert?, key: key?, domain: domain? };
    if tls.cert.is_some() != tls.key.is_some() {
        read.error(node.place, Code::MissingKey, "`tls` has one of `cert` and `key` without the other")
            .hint("a client's certificate needs its key");
        return None;
    }
    Some(tls)
}
