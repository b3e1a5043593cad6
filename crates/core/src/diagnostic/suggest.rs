//! Pieces of messages: the nearest known name, and untrusted text made fit to stand in one.

use crate::text::escape;

/// Characters of a quoted piece of untrusted text.
const SHOWN_CHARS: usize = 60;

/// A piece of untrusted text as it may stand in a message: masked where it holds a secret, escaped, cut at 60 characters.
pub fn shown(text: &str) -> String {
    let piece: String = text.chars().take(SHOWN_CHARS * 4).collect();
    let escaped = escape(&super::mask(&piece, 0).0);
    if escaped.chars().count() <= SHOWN_CHARS && piece.len() == text.len() {
        return escaped;
    }
    let mut short: String = escaped.chars().take(SHOWN_CHARS).collect();
    short.push('…');
    short
}

/// The known name that a mistyped one most likely means, if any is near.
///
/// Near is: equal but for case, `-` and `_`; or a distance (with swaps) of at most a third of the length; or the beginning of one known name.
pub fn nearest<'k>(typed: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if typed.is_empty() || typed.len() > 200 {
        return None;
    }
    let fold = |s: &str| s.to_ascii_lowercase().replace('_', "-");
    let folded = fold(typed);
    let limit = (typed.chars().count() / 3).clamp(1, 4);
    let mut best: Option<(usize, &'k str)> = None;
    for name in known.into_iter().filter(|name| name.len() <= 400) {
        let distance = if fold(name) == folded {
            0
        } else {
            let distance = strsim::damerau_levenshtein(&folded, &fold(name));
            let begins = folded.len() >= 3 && fold(name).starts_with(&folded);
            if distance > limit && !begins {
                continue;
            }
            distance.min(limit)
        };
        if best.is_none_or(|(d, _)| distance < d) {
            best = Some((distance, name));
        }
    }
    best.map(|(_, name)| name)
}
