//! What a server said, made fit to be shown: escaped, cut, without secrets.

use hookwright_core::text::escape;
use std::borrow::Cow;

/// Untrusted text for people: secrets taken out, escaped, at most `max_chars` characters and a mark.
pub(crate) fn shown(text: &str, max_chars: usize, secrets: &Secrets) -> String {
    // The cut comes after the hiding, lest a cut secret is no longer recognized; a bound before it keeps a 16 MiB text cheap.
    let mut end = text.len().min(max_chars.saturating_mul(8) + 65_536);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = escape(secrets.hide(text[..end].trim_end()).as_ref());
    match text.char_indices().nth(max_chars) {
        None => text,
        Some((at, _)) => format!("{} […]", &text[..at]),
    }
}

/// The values that must not be shown, with the variables that they came from.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<(String, String)>);

impl Secrets {
    /// Adds a variable's value; each of its longer lines too, since logs come in lines.
    pub(crate) fn add(&mut self, variable: &str, value: &str) {
        // Shorter ones would hide nothing and tear holes into ordinary text.
        const MIN_BYTES: usize = 4;
        let lines = value.lines().map(str::trim).filter(|line| *line != value);
        for part in std::iter::once(value).chain(lines).filter(|part| part.len() >= MIN_BYTES) {
            self.0.push((variable.to_owned(), part.to_owned()));
        }
        // A header's secret is often `Bearer <token>`: servers echo the token alone.
        if let Some((_, token)) = value.split_once(' ')
            && token.len() >= 8
        {
            self.0.push((variable.to_owned(), token.to_owned()));
        }
        self.0.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
    }

    /// A text without them.
    pub(crate) fn hide<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for (variable, value) in &self.0 {
            if text.contains(value.as_str()) {
                text = Cow::Owned(text.replace(value.as_str(), &format!("[{variable}]")));
            }
        }
        text
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(variable, _)| variable)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_cut() {
        let none = Secrets::default();
        assert_eq!(shown("a\u{1b}[31m\n", 100, &none), "a\\u{1b}[31m");
        assert_eq!(shown(&"ä".repeat(1_000_000), 3, &none), "äää […]");
    }

    #[test]
    fn secrets_are_hidden_whole_by_line_and_without_their_scheme() {
        let mut secrets = Secrets::default();
        secrets.add("KEY", "-----BEGIN-----\nabcdefgh\n-----END-----");
        secrets.add("AUTH", "Bearer 0123456789");
        secrets.add("SHORT", "ab");
        assert_eq!(shown("x abcdefgh y", 100, &secrets), "x [KEY] y");
        assert_eq!(shown("bad token 0123456789, ab", 100, &secrets), "bad token [AUTH], ab");
        assert!(!format!("{secrets:?}").contains("0123456789"));
    }
}
