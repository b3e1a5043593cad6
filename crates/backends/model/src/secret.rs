//! A key that can't be shown by accident, and taking keys out of foreign text.
//!
//! Invariant: neither `Debug` nor an error holds the key; [`Secret::reveal`] is called where a request's header is made, nowhere else.

use hookwright_core::text::escape;

/// A key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Takes the key out of a text, also where a provider echoes it half masked (`sk-ab***yz`).
    pub(crate) fn redact(&self, text: &str) -> String {
        let text = text.replace(&self.0, "[key]");
        let Some(lead) = self.0.get(..4).filter(|_| self.0.len() >= 8) else { return text };
        if !text.contains(lead) {
            return text;
        }
        text.split_inclusive(|c: char| c.is_whitespace() || "\"'`,;()".contains(c))
            .map(|word| {
                let end = word.char_indices().next_back().filter(|(_, c)| c.is_whitespace() || "\"'`,;()".contains(*c));
                let (body, tail) = word.split_at(end.map_or(word.len(), |(i, _)| i));
                match body.find(lead) {
                    Some(at) if body.contains("**") || body.contains("...") || body.contains('…') => {
                        format!("{}[key]{tail}", &body[..at])
                    }
                    _ => word.to_owned(),
                }
            })
            .collect()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[key]")
    }
}

/// Foreign text as it may stand in an error: without the key, escaped, at most `max_chars` long.
pub(crate) fn quote(text: &str, secret: Option<&Secret>, max_chars: usize) -> String {
    let text = secret.map_or_else(|| text.to_owned(), |s| s.redact(text));
    let text = escape(text.trim());
    if text.chars().count() <= max_chars {
        return text;
    }
    let mut cut: String = text.chars().take(max_chars.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_taken_out_whole_and_half_masked() {
        let s = Secret::new("sk-abcdef0123456789".into());
        assert_eq!(s.redact("bad key sk-abcdef0123456789!"), "bad key [key]!");
        assert_eq!(
            s.redact("Incorrect API key provided: sk-abcde*****6789. See"),
            "Incorrect API key provided: [key] See"
        );
        assert_eq!(s.redact("key=\"sk-abc...789\", bye"), "key=\"[key]\", bye");
        assert_eq!(s.redact("the sk-abc model"), "the sk-abc model");
        assert_eq!(format!("{s:?}"), "[key]");
    }

    #[test]
    fn foreign_text_is_escaped_and_cut() {
        assert_eq!(quote(" a\n\u{1b}[31m ", None, 100), "a\\n\\u{1b}[31m");
        assert_eq!(quote(&"x".repeat(1_000_000), None, 10).chars().count(), 10);
    }
}
