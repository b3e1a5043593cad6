//! The stream on which a server tells of changes (GET, revisions up to 2025-11-25).

use super::sse::Events;
use super::{Inner, wire};
use crate::unasked::Unasked;
use crate::wire::Incoming;
use reqwest::header::{ACCEPT, HeaderValue};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Keeps the stream open until the connection closes, or the server offers none.
pub(super) async fn listen(inner: Arc<Inner>) {
    let mut failures = 0_u32;
    loop {
        let goes_on = tokio::select! {
            goes_on = stream(&inner, &mut failures) => goes_on,
            () = inner.closed.cancelled() => false,
        };
        inner.hears.store(false, Ordering::Release);
        if !goes_on {
            return;
        }
        failures = failures.saturating_add(1);
        tokio::select! {
            () = tokio::time::sleep(inner.config.backoff(failures).max(Duration::from_millis(100))) => {}
            () = inner.closed.cancelled() => return,
        }
    }
}

/// One stream to its end; false where another makes no sense.
async fn stream(inner: &Arc<Inner>, failures: &mut u32) -> bool {
    let mut headers = inner.request_headers("", None, None);
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let mut response = match inner.client.get(inner.url.clone()).headers(headers).send().await {
        Ok(response) if response.status().is_success() => response,
        Ok(response) => return response.status().is_server_error(),
        Err(_) => return true,
    };
    // What changed while nobody heard is not known.
    inner.heard.list_changed();
    inner.hears.store(true, Ordering::Release);
    let mut events = Events::new(inner.config.message_bytes);
    let mut unasked = Unasked::default();
    while let Ok(Some(chunk)) = response.chunk().await {
        *failures = 0;
        events.feed(&chunk);
        loop {
            match events.next() {
                Ok(Some(event)) => inner.told(&event.data, &mut unasked).await,
                Ok(None) => break,
                Err(_) => return true,
            }
        }
    }
    true
}

impl Inner {
    /// A message that is no answer.
    pub(super) async fn told(self: &Arc<Self>, data: &[u8], unasked: &mut Unasked) {
        if data.trim_ascii().is_empty() {
            return;
        }
        match wire::read(data) {
            Ok(Incoming::Notification { method, params }) => self.heard.notification(&method, params),
            Ok(Incoming::Request { id, method, params }) => {
                let inner = Arc::clone(self);
                let answer = move |answer| inner.control_in_background(answer, "a reply");
                if !self.heard.request(id, &method, params, self.closed.clone(), answer) {
                    self.control_in_background(wire::reply(id, &method), "a reply");
                }
            }
            _ => {}
        }
        unasked.count(data.len());
        unasked.calm_down(&self.tool).await;
    }
}
