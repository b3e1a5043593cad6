//! The bridge's end of a session's own socket: one line out, one line back. (A node is asked through `hookwright-node`.)
//!
//! Invariant: a reply is bounded, and waited for no longer than the deadline.

use crate::ask::{Reply, Request};
use crate::door::Trouble;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// The largest reply that is read: a rewritten call may be as large as a payload.
const MAX_REPLY_BYTES: usize = 2 * crate::door::MAX_PAYLOAD_BYTES;
/// Asks the session behind `socket`.
pub fn exchange(socket: &Path, request: &Request, until: Instant) -> Result<Reply, Trouble> {
    let unreachable = |why: String| Trouble::Unreachable { store: socket.display().to_string(), why };
    let mut line = serde_json::to_vec(request).map_err(|error| Trouble::Own { why: error.to_string() })?;
    line.push(b'\n');
    let mut stream = UnixStream::connect(socket).map_err(|error| unreachable(error.to_string()))?;
    let waited_ms = request.wait_ms;
    let patience = |stream: &UnixStream| -> Result<(), Trouble> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Trouble::Silent { waited_ms });
        }
        let left = Some(left.max(Duration::from_millis(1)));
        stream
            .set_read_timeout(left)
            .and_then(|()| stream.set_write_timeout(left))
            .map_err(|error| unreachable(error.to_string()))
    };
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Trouble::Silent { waited_ms },
        _ => Trouble::Broken { why: error.to_string() },
    };
    patience(&stream)?;
    stream.write_all(&line).map_err(failed)?;
    let mut reply = Vec::new();
    let mut chunk = [0_u8; 16 * 1024];
    let end = loop {
        patience(&stream)?;
        let read = stream.read(&mut chunk).map_err(failed)?;
        if read == 0 {
            return Err(Trouble::Broken { why: "it hung up without an answer".to_owned() });
        }
        let end = chunk[..read].iter().position(|byte| *byte == b'\n');
        reply.extend_from_slice(&chunk[..end.unwrap_or(read)]);
        if reply.len() > MAX_REPLY_BYTES {
            return Err(Trouble::Broken { why: "it is too large".to_owned() });
        }
        if end.is_some() {
            break reply;
        }
    };
    let text = std::str::from_utf8(&end).map_err(|_| Trouble::Broken { why: "it is no UTF-8".to_owned() })?;
    let value =
        hookwright_core::json::parse_strict(text).map_err(|error| Trouble::Broken { why: error.to_string() })?;
    serde_json::from_value(value).map_err(|error| Trouble::Broken { why: error.to_string() })
}
