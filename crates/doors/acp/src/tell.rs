//! Sends updates of one session to the client.

use crate::backlog::Backlog;
use crate::wire;
use agent_client_protocol::Client;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, MessageId, Notice, NoticeSeverity, SessionInfoUpdate, SessionNotification,
    SessionUpdate, TextContent, ToolCall, ToolCallUpdate,
};
use hookwright_core::text::{elide_middle, escape_block};
use serde_json::{Value, json};

/// Bytes of a notice's description.
const DESCRIPTION_BYTES: u64 = 8 * 1024;

/// How much a notice matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    Info,
    Warning,
    Error,
}

/// The client, as one session's updates reach it.
#[derive(Clone)]
pub(crate) struct Tell {
    pub(crate) client: ConnectionTo<Client>,
    pub(crate) session: String,
    /// Whether it shows notices.
    pub(crate) notices: bool,
    /// Whether it shows compactions.
    pub(crate) compactions: bool,
    pub(crate) backlog: Option<Backlog>,
}

impl Tell {
    /// Sends an update. A client that is gone is noticed elsewhere.
    pub(crate) fn update(&self, update: SessionUpdate) {
        if let Some(backlog) = &self.backlog {
            backlog.grew();
        }
        let _ = self.client.send_notification(SessionNotification::new(self.session.clone(), update));
    }

    /// Waits until the client has read enough of what it was told.
    pub(crate) async fn room(&self) {
        if let Some(backlog) = &self.backlog {
            backlog.room().await;
        }
    }

    /// A piece of a message of the agent.
    pub(crate) fn message(&self, id: &str, text: &str) {
        if !text.is_empty() {
            self.update(SessionUpdate::AgentMessageChunk(chunk(id, wire::said(text))));
        }
    }

    /// A message of the user.
    pub(crate) fn user(&self, id: &str, text: &str) {
        self.update(SessionUpdate::UserMessageChunk(chunk(id, text.to_owned())));
    }

    pub(crate) fn call(&self, call: ToolCall) {
        self.update(SessionUpdate::ToolCall(call));
    }

    pub(crate) fn call_update(&self, update: ToolCallUpdate) {
        self.update(SessionUpdate::ToolCallUpdate(update));
    }

    /// Something that the user should know: a notice where the client shows them, else in `_meta` of an update that changes nothing.
    /// `details` are for programs.
    pub(crate) fn notice(&self, weight: Weight, title: &str, description: Option<&str>, details: Value) {
        let description = description.map(|d| elide_middle(&escape_block(d), DESCRIPTION_BYTES));
        if self.notices {
            let severity = match weight {
                Weight::Info => NoticeSeverity::Info,
                Weight::Warning => NoticeSeverity::Warning,
                Weight::Error => NoticeSeverity::Error,
            };
            let notice = Notice::new(severity, title).description(description).meta(wire::meta(details));
            self.update(SessionUpdate::Notice(notice));
            return;
        }
        let severity = match weight {
            Weight::Info => "info",
            Weight::Warning => "warning",
            Weight::Error => "error",
        };
        let mut notice = json!({"severity": severity, "title": title, "details": details});
        if let Some(description) = description {
            notice["description"] = Value::String(description);
        }
        let meta = wire::meta(json!({ "notice": notice }));
        self.update(SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().meta(meta)));
    }
}

fn chunk(id: &str, text: String) -> ContentChunk {
    ContentChunk::new(ContentBlock::Text(TextContent::new(text))).message_id(MessageId::new(id))
}
