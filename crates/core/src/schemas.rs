//! All published JSON Schemas, as they stand in `schemas/`.

use serde_json::Value;

/// File names in `schemas/` with their contents.
pub fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("plugin.schema.json", crate::manifest::schema::schema()),
        ("config.schema.json", crate::config::schema::schema()),
    ]
}

/// A schema as the text of its file: indented, with a last newline.
pub fn text(schema: &Value) -> String {
    // `Value`'s alternate form is pretty-printed JSON.
    format!("{schema:#}\n")
}

#[cfg(test)]
mod tests;
