//! A tool's result, towards a model: text, and images where the provider takes them.

use serde_json::Value;

/// A piece of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Text.
    Text(String),
    /// An image: MIME type and base64.
    Image { mime: String, data: String },
}

/// The kinds of image that all providers with images read.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The pieces of a result: a string as it is, a list of MCP content blocks one by one, any other JSON in its compact form.
/// What can't be shown becomes a text that says so. Neighbouring texts are joined by a newline.
pub(super) fn pieces(content: &Value, images: bool) -> Vec<Piece> {
    let blocks = match content {
        Value::String(text) => return vec![Piece::Text(text.clone())],
        Value::Array(blocks) => blocks,
        other => return vec![Piece::Text(other.to_string())],
    };
    let mut out: Vec<Piece> = Vec::new();
    for block in blocks {
        match piece(block, images) {
            Piece::Text(text) => match out.last_mut() {
                Some(Piece::Text(before)) => {
                    before.push('\n');
                    before.push_str(&text);
                }
                _ => out.push(Piece::Text(text)),
            },
            image @ Piece::Image { .. } => out.push(image),
        }
    }
    out
}

/// A result as text alone.
pub(crate) fn as_text(content: &Value) -> String {
    let texts = pieces(content, false).into_iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(text),
        Piece::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn piece(block: &Value, images: bool) -> Piece {
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    match text("type") {
        Some("text") => Piece::Text(text("text").unwrap_or_default().to_owned()),
        Some(kind @ ("image" | "audio")) => {
            let (mime, data) = (text("mimeType").unwrap_or("unknown type"), text("data").unwrap_or_default());
            if kind == "image" && images && IMAGES.contains(&mime) && !data.is_empty() {
                return Piece::Image { mime: mime.to_owned(), data: data.to_owned() };
            }
            Piece::Text(format!("[{kind}, {mime}, {} bytes of base64: this model is not shown it]", data.len()))
        }
        Some("resource") => {
            let resource = block.get("resource").unwrap_or(&Value::Null);
            match (resource.get("text").and_then(Value::as_str), resource.get("uri").and_then(Value::as_str)) {
                (Some(text), _) => Piece::Text(text.to_owned()),
                (None, uri) => {
                    Piece::Text(format!("[resource {}: this model is not shown it]", uri.unwrap_or("without a URI")))
                }
            }
        }
        Some("resource_link") => Piece::Text(format!(
            "[resource {}: {}]",
            text("uri").unwrap_or("without a URI"),
            text("description").or_else(|| text("name")).unwrap_or("no description")
        )),
        _ => Piece::Text(block.to_string()),
    }
}
