//! A connection's settings, checked.

use super::{HttpLink, Inner, MAX_BACKGROUND, headers};
use crate::config::HostConfig;
use crate::heard::Heard;
use crate::said::Secrets;
use reqwest::redirect::{Attempt, Policy};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

const CONNECT: Duration = Duration::from_secs(10);
/// Below the 5 s after which common servers close an idle connection: a request that meets the close may have arrived or not.
const IDLE: Duration = Duration::from_secs(4);
const MAX_REDIRECTS: usize = 5;

impl HttpLink {
    /// Checks the settings; nothing is sent yet.
    pub(crate) fn new(
        tool: &str,
        url: &str,
        headers: &[(String, String)],
        secrets: &Secrets,
        config: &Arc<HostConfig>,
        heard: &Arc<Heard>,
    ) -> Result<Self, String> {
        let url = reqwest::Url::parse(url).map_err(|e| format!("its url is wrong: {e}"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err("its url is wrong: expected http://… or https://…".to_owned());
        }
        let mut client = reqwest::Client::builder()
            .user_agent(concat!("hookwright/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            .redirect(Policy::custom(follow));
        if url.host_str().is_some_and(is_loopback) {
            client = client.no_proxy();
        }
        let client =
            client.build().map_err(|e| format!("no HTTP client can be made: {}", super::exchange::cause(&e)))?;
        Ok(Self(Arc::new(Inner {
            tool: tool.to_owned(),
            client,
            url,
            headers: headers::of_manifest(headers)?,
            secrets: secrets.clone(),
            config: Arc::clone(config),
            session: Mutex::default(),
            revision: Mutex::default(),
            params: Mutex::default(),
            slots: Semaphore::new(config.max_in_flight.min(Semaphore::MAX_PERMITS)),
            background: Arc::new(Semaphore::new(MAX_BACKGROUND)),
            next_id: AtomicU64::default(),
            heard: Arc::clone(heard),
            hears: AtomicBool::default(),
            session_gone: AtomicBool::default(),
            closed: CancellationToken::new(),
            why: Mutex::default(),
        })))
    }
}

/// Only redirects that keep method and body, and only within the origin: the headers may hold secrets.
fn follow(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let same = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
    if same && matches!(attempt.status().as_u16(), 307 | 308) && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
