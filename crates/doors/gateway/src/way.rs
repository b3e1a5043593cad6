//! The way to a client: messages that wait to be written, each on one line or as one event.

use bytes::Bytes;
use tokio::sync::mpsc;

/// Messages that wait for a client to read them; who has more waits, or drops what may be dropped.
const WAITING: usize = 256;

/// Where messages to a client go.
#[derive(Debug, Clone)]
pub(crate) struct Way(mpsc::Sender<Bytes>);

impl Way {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Bytes>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), receiver)
    }

    /// Waits for room. False where nobody reads any more.
    pub(crate) async fn send(&self, message: Vec<u8>) -> bool {
        self.0.send(message.into()).await.is_ok()
    }

    /// Drops the message where there is no room. False where nobody reads any more.
    pub(crate) fn offer(&self, message: Vec<u8>) -> bool {
        !matches!(self.0.try_send(message.into()), Err(mpsc::error::TrySendError::Closed(_)))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Waits until nobody reads any more.
    pub(crate) async fn closed(&self) {
        self.0.closed().await;
    }
}
