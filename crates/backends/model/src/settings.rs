//! What the environment says of a provider: where it is, and the key for it.
//!
//! Invariant: keys come from the environment only, by the names that the official SDKs use.

use crate::options::Env;
use crate::secret::{Secret, quote};
use crate::wire::Wire;
use hookwright_runtime::ports::model::ModelError;
use reqwest::Url;

/// A provider as a table row.
#[derive(Debug)]
pub(crate) struct Provider {
    /// The part of a model's name before the slash.
    pub(crate) id: &'static str,
    /// How it is spoken to.
    pub(crate) wire: Wire,
    /// The variables that may hold the key, the first one that is set counts.
    pub(crate) key_variables: &'static [&'static str],
    /// Whether it can't be asked without a key.
    pub(crate) needs_key: bool,
    /// The variable that holds the base URL.
    pub(crate) base_variable: &'static str,
    /// The base URL without that variable.
    pub(crate) base: Option<&'static str>,
}

/// Where and how to ask.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The base URL, without a slash at its end.
    pub(crate) base: Url,
    /// The key, with the header that it goes into.
    pub(crate) auth: Option<(Header, Secret)>,
    /// Proxies, where the base URL is not on this machine.
    pub(crate) proxies: Proxies,
    /// The variable for the key, for hints.
    pub(crate) key_variable: Option<&'static str>,
    /// The variable for the base URL, for hints.
    pub(crate) base_variable: &'static str,
}

/// The header that a key goes into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    XApiKey,
    XGoogApiKey,
    Bearer,
}

/// Proxies as the usual variables name them. They may hold credentials.
#[derive(Clone, Default)]
pub(crate) struct Proxies {
    pub(crate) http: Option<String>,
    pub(crate) https: Option<String>,
    pub(crate) except: Option<String>,
}

impl std::fmt::Debug for Proxies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxies")
            .field("http", &self.http.is_some())
            .field("https", &self.https.is_some())
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// The base URL's host and port, for messages; never its user or password.
    pub(crate) fn host(&self) -> String {
        let host = self.base.host_str().unwrap_or("?");
        self.base.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Whether the provider itself is asked, and no other server in its place.
    pub(crate) fn is_default_base(&self, provider: &Provider) -> bool {
        provider.base.and_then(|base| Url::parse(base).ok()).is_some_and(|base| base.host_str() == self.base.host_str())
    }

    /// The key alone, to keep it out of texts.
    pub(crate) fn secret(&self) -> Option<&Secret> {
        self.auth.as_ref().map(|(_, secret)| secret)
    }
}

/// Reads the environment for a provider. `label` is the model's name, for messages.
pub(crate) fn read(provider: &Provider, label: &str, env: &Env) -> Result<Settings, ModelError> {
    let get = |name: &str| env(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
    let base = base_url(provider, label, &get)?;
    let mut auth = None;
    let mut key_variable = provider.key_variables.first().copied();
    for name in provider.key_variables {
        if let Some(key) = get(name) {
            if !key.chars().all(|c| c.is_ascii_graphic()) {
                return Err(ModelError::Config(format!(
                    "{label}: {name} holds a space or another character that can't stand in a key: set it again"
                )));
            }
            let header = match provider.wire {
                Wire::Anthropic if *name == "ANTHROPIC_API_KEY" => Header::XApiKey,
                Wire::Gemini => Header::XGoogApiKey,
                Wire::Anthropic | Wire::Responses | Wire::Chat(_) => Header::Bearer,
            };
            (auth, key_variable) = (Some((header, Secret::new(key))), Some(*name));
            break;
        }
    }
    if auth.is_none() && provider.needs_key {
        return Err(ModelError::Config(format!(
            "{label} needs a key: set the environment variable {}",
            provider.key_variables.join(" or ")
        )));
    }
    let proxies = if is_loopback(&base) { Proxies::default() } else { proxies(label, &get)? };
    Ok(Settings { base, auth, proxies, key_variable, base_variable: provider.base_variable })
}

fn proxies(label: &str, get: &dyn Fn(&str) -> Option<String>) -> Result<Proxies, ModelError> {
    let first = |names: &[&'static str]| -> Result<Option<String>, ModelError> {
        let Some((name, text)) = names.iter().find_map(|name| Some((name, get(name)?))) else { return Ok(None) };
        let whole = if text.contains("://") { text } else { format!("http://{text}") };
        match Url::parse(&whole) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.host_str().is_some() => Ok(Some(whole)),
            // It may hold a password, so it is not shown.
            _ => Err(ModelError::Config(format!("{label}: {name} holds no HTTP proxy: expected http://host:port"))),
        }
    };
    Ok(Proxies {
        // Upper-case HTTP_PROXY is set by the header `Proxy:` where a program runs as CGI; as curl does, it is not believed.
        http: first(&["http_proxy", "all_proxy", "ALL_PROXY"])?,
        https: first(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])?,
        except: get("no_proxy").or_else(|| get("NO_PROXY")),
    })
}

fn base_url(provider: &Provider, label: &str, get: &dyn Fn(&str) -> Option<String>) -> Result<Url, ModelError> {
    let variable = provider.base_variable;
    let given = get(variable);
    let Some(text) = given.clone().or_else(|| provider.base.map(str::to_owned)) else {
        return Err(ModelError::Config(format!(
            "{label} needs to know where to ask: set {variable} to the base URL of the server, e.g. http://localhost:8000/v1"
        )));
    };
    let mut text = text.trim_end_matches('/').to_owned();
    if provider.id == "ollama" && given.is_some() {
        text = ollama_host(&text);
    }
    // What an SDK appends itself is often given too.
    let appended = match provider.wire {
        Wire::Anthropic => "/v1",
        Wire::Gemini => "/v1beta",
        Wire::Responses | Wire::Chat(_) => "",
    };
    if let Some(short) = text.strip_suffix(appended).filter(|_| !appended.is_empty()) {
        text = short.to_owned();
    }
    let wrong = |why: &str| {
        ModelError::Config(format!(
            "{label}: {variable} is not a base URL ({why}): expected e.g. {}",
            provider.base.unwrap_or("http://localhost:8000/v1")
        ))
    };
    let url = Url::parse(&text).map_err(|e| wrong(&quote(&e.to_string(), None, 100)))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("neither http nor https"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(wrong("no host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("it holds a user or a password; keys have variables of their own"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("it holds a query or a fragment"));
    }
    Ok(url)
}

/// `OLLAMA_HOST` as Ollama itself reads it: a host, `host:port` or a URL; `0.0.0.0` is where it listens, not where it is asked.
fn ollama_host(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if port.chars().all(|c| c.is_ascii_digit()) && !port.is_empty() => (host, Some(port)),
        _ => (authority.trim_end_matches(':'), None),
    };
    let host = if host.is_empty() || host == "0.0.0.0" || host == "[::]" { "127.0.0.1" } else { host };
    let port = port.unwrap_or(match (scheme, text.contains("://")) {
        ("https", true) => "443",
        ("http", true) => "80",
        _ => "11434",
    });
    let path = path.trim_matches('/');
    let path = if path.is_empty() || path == "v1" { "/v1".to_owned() } else { format!("/{path}") };
    format!("{scheme}://{host}:{port}{path}")
}

/// Whether a URL leads to this machine, where no proxy has a place.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified())
}

#[cfg(test)]
mod tests;
