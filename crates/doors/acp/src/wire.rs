//! The protocol's shapes, made of ours and the other way round. The only place that knows both.
//!
//! Invariant: what servers, hooks and people said is escaped and bounded before it goes out.

use crate::mode::Mode;
use crate::wiring::{Reach, ServerDecl};
use agent_client_protocol::v1::schema::{
    AudioContent, ContentBlock, EmbeddedResourceResource, ImageContent, McpServer, Meta, ResourceLink,
    SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption, SessionInfo, SessionMode,
    SessionModeState, TextContent, ToolCallContent, ToolCallLocation,
};
use hookwright_core::text::{elide_middle, escape, escape_block, is_hidden};
use hookwright_runtime::ports::sessions::SessionRow;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Bytes of text of a result that the client is shown; the whole stands in the history.
const TEXT_BYTES: u64 = 64 * 1024;
/// Bytes of an image or the like that is passed on.
const DATA_BYTES: usize = 1024 * 1024;
/// Blocks of a result.
const BLOCKS: usize = 50;
/// Bytes of all blocks of an update, as JSON: frames hold 4 MiB at most.
const CONTENT_BYTES: usize = 2 * 1024 * 1024;
/// Bytes of a piece of a message, as it is: as JSON it has six times as many at most.
const PIECE_BYTES: usize = 256 * 1024;
/// Bytes of a summary that the client is shown; the whole stands in the history.
const SUMMARY_BYTES: u64 = 16 * 1024;
/// Bytes of arguments that are shown as they are.
const INPUT_BYTES: usize = 64 * 1024;

/// Ids of the configuration options.
pub(crate) const MODE_OPTION: &str = "mode";
pub(crate) const MODEL_OPTION: &str = "model";

/// A model's text, without what a terminal would act on or an eye be fooled by; what writing needs stays (docs/decisions/0152).
pub(crate) fn said(text: &str) -> String {
    if text.chars().all(is_plain) {
        return text.to_owned();
    }
    text.chars().map(|c| if is_plain(c) { c.to_string() } else { c.escape_unicode().to_string() }).collect()
}

fn is_plain(c: char) -> bool {
    // Joiners and marks of direction, which scripts and emoji are written with; they reorder nothing but themselves.
    const WRITTEN: [char; 5] = ['\u{200c}', '\u{200d}', '\u{200e}', '\u{200f}', '\u{61c}'];
    !is_hidden(c) || matches!(c, '\n' | '\r' | '\t') || WRITTEN.contains(&c)
}

/// What an output is as a message: text as it stands, anything else as JSON.
pub(crate) fn output_text(value: &Value) -> String {
    match value {
        Value::String(text) => said(text),
        other => said(&serde_json::to_string_pretty(other).unwrap_or_default()),
    }
}

/// A compaction's summary, as it is shown.
pub(crate) fn summary_text(value: &Value) -> String {
    elide_middle(&escape_block(&output_text(value)), SUMMARY_BYTES)
}

/// Text of ours around untrusted parts, as a block of a tool call.
pub(crate) fn text_content(text: &str) -> ToolCallContent {
    ContentBlock::Text(TextContent::new(elide_middle(text, TEXT_BYTES))).into()
}

/// What a person should see before they decide. Its maker bounds it: a cut through its middle would take a quotation's border away.
pub(crate) fn sheet(text: String) -> ToolCallContent {
    ContentBlock::Text(TextContent::new(text)).into()
}

/// A text in pieces that each fit a frame. Not empty, but for one that is.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        if text.len() <= PIECE_BYTES {
            return Some(text);
        }
        let (piece, more) = text.split_at(text.floor_char_boundary(PIECE_BYTES));
        rest = Some(more);
        Some(piece)
    })
}

/// A call's result: a string, or MCP content blocks, which are the protocol's own.
pub(crate) fn result_content(value: &Value) -> Vec<ToolCallContent> {
    match value {
        Value::String(text) => vec![text_content(&escape_block(text))],
        Value::Array(blocks) => {
            let mut content = vec![];
            let mut left = CONTENT_BYTES;
            for block in blocks.iter().take(BLOCKS).map(block) {
                let bytes = serde_json::to_string(&block).map_or(usize::MAX, |json| json.len());
                let Some(less) = left.checked_sub(bytes) else { break };
                left = less;
                content.push(block);
            }
            let more = blocks.len() - content.len();
            if more > 0 {
                content.push(text_content(&format!("[… {more} further blocks]")));
            }
            content
        }
        other => vec![text_content(&escape_block(&other.to_string()))],
    }
}

fn block(block: &Value) -> ToolCallContent {
    match serde_json::from_value::<ContentBlock>(block.clone()) {
        Ok(ContentBlock::Text(text)) => text_content(&escape_block(&text.text)),
        Ok(ContentBlock::Image(image)) if image.data.len() <= DATA_BYTES => {
            let uri = image.uri.as_deref().map(escape);
            let mut told = ImageContent::new(image.data, escape(&image.mime_type));
            told.uri = uri;
            ContentBlock::Image(told).into()
        }
        Ok(ContentBlock::Audio(audio)) if audio.data.len() <= DATA_BYTES => {
            ContentBlock::Audio(AudioContent::new(audio.data, escape(&audio.mime_type))).into()
        }
        Ok(ContentBlock::ResourceLink(link)) if block.to_string().len() <= INPUT_BYTES => resource_link(&link).into(),
        Ok(ContentBlock::Resource(resource)) => match resource.resource {
            EmbeddedResourceResource::TextResourceContents(text) => {
                text_content(&format!("{}:\n{}", escape(&text.uri), escape_block(&text.text)))
            }
            _ => text_content("[a resource that is no text]"),
        },
        Ok(_) => text_content("[content that is too large to be shown]"),
        Err(_) => text_content(&escape_block(&block.to_string())),
    }
}

/// A link of a server's, of its texts alone, each on one line.
fn resource_link(link: &ResourceLink) -> ContentBlock {
    let shown = |text: &Option<String>| text.as_deref().map(escape);
    let mut told = ResourceLink::new(escape(&link.name), escape(&link.uri));
    told.title = shown(&link.title);
    told.description = link.description.as_deref().map(escape_block);
    told.mime_type = shown(&link.mime_type);
    told.size = link.size;
    ContentBlock::ResourceLink(told)
}

/// Arguments as the client may show them: none where they are too large.
pub(crate) fn raw_input(arguments: &Value) -> Option<Value> {
    (arguments.to_string().len() <= INPUT_BYTES).then(|| arguments.clone())
}

/// Files that arguments name, under the keys that servers commonly give them.
pub(crate) fn locations(arguments: &Value, cwd: &str) -> Vec<ToolCallLocation> {
    const KEYS: [&str; 9] =
        ["path", "file", "file_path", "filePath", "filename", "source", "destination", "abs_path", "uri"];
    let line = ["line", "start_line", "startLine"].iter().find_map(|key| arguments[*key].as_u64());
    let mut found: Vec<ToolCallLocation> = vec![];
    let listed = ["paths", "files"].iter().filter_map(|key| arguments[*key].as_array()).flatten();
    for value in KEYS.iter().map(|key| &arguments[*key]).chain(listed).filter_map(Value::as_str) {
        let text = match value.split_once("://") {
            Some(("file", path)) => path,
            Some(_) => continue,
            None => value,
        };
        if text.is_empty() || text.len() > 4_096 || text.chars().any(is_hidden) {
            continue;
        }
        let path: PathBuf = Path::new(cwd).join(text);
        if found.len() < 20 && !found.iter().any(|l| l.path == path) {
            found.push(ToolCallLocation::new(path).line(line.and_then(|l| u32::try_from(l).ok())));
        }
    }
    found
}

/// A prompt's text: what the user wrote, with what they attached. An error is for the client.
pub(crate) fn prompt_text(blocks: &[ContentBlock]) -> Result<String, String> {
    let mut parts = vec![];
    for block in blocks {
        parts.push(match block {
            ContentBlock::Text(text) => text.text.clone(),
            ContentBlock::ResourceLink(link) => {
                let name = link.title.as_ref().unwrap_or(&link.name);
                format!("[{name}]({})", link.uri)
            }
            ContentBlock::Resource(resource) => match &resource.resource {
                EmbeddedResourceResource::TextResourceContents(text) => {
                    // As JSON, so that no text can end its own quotation.
                    let quoted = json!({"uri": text.uri, "mimeType": text.mime_type, "text": text.text});
                    format!("Attached resource: {quoted}")
                }
                _ => return Err("attached resources must be text".to_owned()),
            },
            ContentBlock::Image(_) => return Err("images are not supported (promptCapabilities.image)".to_owned()),
            ContentBlock::Audio(_) => return Err("audio is not supported (promptCapabilities.audio)".to_owned()),
            _ => return Err("this kind of content is not supported".to_owned()),
        });
    }
    let text = parts.join("\n\n");
    if text.trim().is_empty() { Err("the prompt is empty".to_owned()) } else { Ok(text) }
}

/// A title for a session, of its first prompt.
pub(crate) fn title_of(prompt: &str) -> String {
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line = escape(line);
    match line.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// The client's servers.
pub(crate) fn servers(servers: Vec<McpServer>) -> Vec<ServerDecl> {
    servers
        .into_iter()
        .map(|server| match server {
            McpServer::Stdio(stdio) => {
                let reach = match stdio.command.into_os_string().into_string() {
                    Ok(command) => Reach::Stdio {
                        command: std::iter::once(command).chain(stdio.args).collect(),
                        env: stdio.env.into_iter().map(|v| (v.name, v.value)).collect(),
                    },
                    Err(_) => Reach::Not("its command is not UTF-8".to_owned()),
                };
                ServerDecl { name: stdio.name, reach }
            }
            McpServer::Http(http) => ServerDecl {
                name: http.name,
                reach: Reach::Http {
                    url: http.url,
                    headers: http.headers.into_iter().map(|h| (h.name, h.value)).collect(),
                },
            },
            McpServer::Sse(sse) => ServerDecl {
                name: sse.name,
                reach: Reach::Not("the SSE transport is not supported; use Streamable HTTP".to_owned()),
            },
            _ => ServerDecl {
                name: "server".to_owned(),
                reach: Reach::Not("this transport is not supported".to_owned()),
            },
        })
        .collect()
}

/// The modes, and which is chosen.
pub(crate) fn modes(current: Mode) -> SessionModeState {
    let all = Mode::ALL.map(|mode| SessionMode::new(mode.id(), mode.name()).description(mode.description().to_owned()));
    SessionModeState::new(current.id(), all.to_vec())
}

/// The configuration options, and what is chosen.
pub(crate) fn options(mode: Mode, model: &str, models: &[String]) -> Vec<SessionConfigOption> {
    let modes = Mode::ALL
        .map(|mode| SessionConfigSelectOption::new(mode.id(), mode.name()).description(mode.description().to_owned()));
    let models: Vec<_> = models.iter().map(|id| SessionConfigSelectOption::new(id.clone(), escape(id))).collect();
    vec![
        SessionConfigOption::select(MODE_OPTION, "Escalations", mode.id(), modes.to_vec())
            .description("Who decides what a hook escalates".to_owned())
            .category(SessionConfigOptionCategory::Mode),
        SessionConfigOption::select(MODEL_OPTION, "Model", model.to_owned(), models)
            .category(SessionConfigOptionCategory::Model),
    ]
}

/// A session as it is listed.
pub(crate) fn info(row: &SessionRow) -> SessionInfo {
    SessionInfo::new(row.session.id.clone(), row.session.cwd.clone())
        .title(row.title.clone())
        .updated_at(time(row.updated_ms))
}

/// A time as ISO 8601.
pub(crate) fn time(ms: u64) -> Option<String> {
    let ms = i64::try_from(ms).ok()?;
    Some(jiff::Timestamp::from_millisecond(ms).ok()?.to_string())
}

/// What is ours in a message's `_meta`, under the key `hookwright`.
pub(crate) fn meta(value: Value) -> Meta {
    Meta::from_iter([("hookwright".to_owned(), value)])
}

/// The cursor behind a session of a list, and back.
pub(crate) fn cursor(row: &SessionRow) -> String {
    format!("{}.{}", row.updated_ms, row.session.id)
}

pub(crate) fn read_cursor(text: &str) -> Option<(u64, String)> {
    let (at, id) = text.split_once('.')?;
    Some((at.parse().ok()?, id.to_owned()))
}

#[cfg(test)]
mod tests;
