//! Who may ask at all.

use super::reply;
use crate::wire::{self, Fault};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use hookwright_core::json::sha256_hex;

/// What clients have to know, by its digest: comparing digests tells nobody how much of a guess was right.
pub(super) struct Token(String);

impl Token {
    pub(super) fn new(token: &str) -> Self {
        Self(sha256_hex(token.as_bytes()))
    }

    fn fits(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).map(axum::http::HeaderValue::as_bytes);
        let scheme = |given: &[u8]| given.get(..7).is_some_and(|s| s.eq_ignore_ascii_case(b"bearer "));
        given.is_some_and(|given| scheme(given) && sha256_hex(given[7..].trim_ascii()) == self.0)
    }
}

fn refuse(status: StatusCode, why: &str) -> Response {
    reply::refuse(status, None, &Fault::new(wire::INVALID_REQUEST, why))
}

/// Why the request is refused, where it does not come from where it may.
pub(super) fn check(headers: &HeaderMap, token: Option<&Token>) -> Option<Response> {
    let text = |name| headers.get(name).map(|value: &axum::http::HeaderValue| value.to_str().unwrap_or_default());
    if !text(header::HOST).is_some_and(is_loopback) {
        return Some(refuse(StatusCode::FORBIDDEN, "this Host is not served: only loopback names are"));
    }
    if headers.get_all(header::ORIGIN).iter().count() > 1 || text(header::ORIGIN).is_some_and(|o| !is_own_origin(o)) {
        return Some(refuse(StatusCode::FORBIDDEN, "this Origin is not served: only pages of loopback are"));
    }
    if token.is_some_and(|token| !token.fits(headers)) {
        let mut refusal = refuse(StatusCode::UNAUTHORIZED, "the token is missing or wrong");
        refusal.headers_mut().insert(header::WWW_AUTHENTICATE, axum::http::HeaderValue::from_static("Bearer"));
        return Some(refusal);
    }
    None
}

/// `localhost`, `127.0.0.1` or `[::1]`, with any port.
fn is_loopback(authority: &str) -> bool {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':').or(rest.is_empty().then_some("0"))),
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, Some("0")),
        },
    };
    let known =
        host.eq_ignore_ascii_case("localhost") || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    known && port.is_some_and(|port| port.parse::<u16>().is_ok())
}

fn is_own_origin(origin: &str) -> bool {
    origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")).is_some_and(is_loopback)
}

pub(super) fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let all = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let of_kind = kind.split_once('/').map_or("", |(of, _)| of);
    all.flat_map(|value| value.split(',')).any(|part| {
        let essence = part.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case(kind) || essence == "*/*" || essence.strip_suffix("/*") == Some(of_kind)
    })
}

/// Why a message is refused that is not of the kind that is taken, or whose answer is not.
pub(super) fn content(headers: &HeaderMap) -> Option<Response> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        return Some(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "a message is sent as application/json"));
    }
    if !accepts(headers, "application/json") || !accepts(headers, "text/event-stream") {
        let why = "an answer is application/json or text/event-stream: both must be accepted";
        return Some(refuse(StatusCode::NOT_ACCEPTABLE, why));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_loopback_are_served() {
        for good in ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:8080", "[::1]", "127.0.0.9"] {
            assert!(is_loopback(good), "{good}");
        }
        for bad in [
            "",
            "example.com",
            "localhost.example.com",
            "127.0.0.1.example.com:80",
            "10.0.0.1",
            "localhost:x",
            "[::1]x",
            "0.0.0.0",
            "user@localhost",
        ] {
            assert!(!is_loopback(bad), "{bad}");
        }
        for bad in ["null", "http://example.com", "file://localhost", "https://localhost.evil"] {
            assert!(!is_own_origin(bad), "{bad}");
        }
        assert!(is_own_origin("http://localhost:6274"));
    }

    #[test]
    fn a_token_fits_whole_or_not_at_all() {
        let token = Token::new("s3cret");
        let headers = |value: &str| HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
        assert!(token.fits(&headers("Bearer s3cret")) && token.fits(&headers("bearer  s3cret")));
        for wrong in ["s3cret", "Bearer s3cre", "Bearer s3cret2", "Basic s3cret", "Bearer "] {
            assert!(!token.fits(&headers(wrong)), "{wrong}");
        }
        assert!(!token.fits(&HeaderMap::new()));
    }
}
