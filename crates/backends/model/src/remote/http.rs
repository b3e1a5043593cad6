//! The HTTP client of one model: one TLS stack (rustls), no redirects, no decompression, no proxy before this machine.

use crate::options::Options;
use crate::secret::quote;
use crate::settings::{Header, Settings};
use crate::wire::Wire;
use hookwright_runtime::ports::model::ModelError;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, NoProxy, Proxy, Url, redirect};

/// Builds the client. Nothing is asked.
pub(super) fn client(settings: &Settings, options: &Options, label: &str) -> Result<Client, ModelError> {
    let mut builder = Client::builder()
        .user_agent(concat!("hookwright/", env!("CARGO_PKG_VERSION")))
        // A key must not follow a redirect to somebody else's host.
        .redirect(redirect::Policy::none())
        .referer(false)
        // A small answer that unpacks to gigabytes would get round the limit on bytes.
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .connect_timeout(options.connect)
        .tcp_nodelay(true)
        // The environment is an argument: the client must not read the process's own.
        .no_proxy();
    if settings.base.scheme() == "http" {
        // Plain HTTP needs no certificates; a machine without any can still ask its own Ollama.
        builder = builder.tls_certs_only([]);
    }
    let except = || settings.proxies.except.as_deref().and_then(NoProxy::from_string);
    let bad = |which: &str| {
        ModelError::Config(format!("{label}: the variable {which} holds no proxy's URL: expected http://host:port"))
    };
    if let Some(url) = &settings.proxies.http {
        builder = builder.proxy(Proxy::http(url).map_err(|_| bad("http_proxy"))?.no_proxy(except()));
    }
    if let Some(url) = &settings.proxies.https {
        builder = builder.proxy(Proxy::https(url).map_err(|_| bad("HTTPS_PROXY"))?.no_proxy(except()));
    }
    builder
        .build()
        .map_err(|e| ModelError::Config(format!("{label}: the HTTP client could not be made: {}", chain(&e, settings))))
}

/// The URL that a turn is posted to.
pub(super) fn url(settings: &Settings, wire: Wire, model: &str) -> Result<Url, ModelError> {
    let (segments, query) = wire.path(model);
    let mut url = settings.base.clone();
    url.path_segments_mut()
        .map_err(|()| ModelError::Config(format!("{} is not a base URL", settings.base_variable)))?
        .pop_if_empty()
        .extend(segments);
    url.set_query(query);
    Ok(url)
}

/// The headers of every request.
pub(super) fn headers(settings: &Settings, wire: Wire, label: &str) -> Result<HeaderMap, ModelError> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept", HeaderValue::from_static("text/event-stream"));
    if wire == Wire::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    if let Some((header, secret)) = &settings.auth {
        let (name, text) = match header {
            Header::XApiKey => (HeaderName::from_static("x-api-key"), secret.reveal().to_owned()),
            Header::XGoogApiKey => (HeaderName::from_static("x-goog-api-key"), secret.reveal().to_owned()),
            Header::Bearer => (HeaderName::from_static("authorization"), format!("Bearer {}", secret.reveal())),
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            ModelError::Config(format!(
                "{label}: {} can't stand in a header",
                settings.key_variable.unwrap_or("the key")
            ))
        })?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// An error with its causes, without its URL, fit to be shown.
pub(super) fn chain(error: &dyn std::error::Error, settings: &Settings) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(e) = next {
        let text = e.to_string();
        // Many errors repeat their cause.
        if !parts.iter().any(|p| p.contains(&text)) {
            parts.push(text);
        }
        next = e.source();
    }
    quote(&parts.join(": "), settings.secret(), 400)
}
