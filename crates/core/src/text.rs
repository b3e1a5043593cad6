//! Untrusted text made safe to show, and long text made short.

use std::fmt::Write as _;

/// Escapes control and format characters (Unicode Cc and Cf: ANSI, bidi, zero-width) as `\u{…}`; a newline and a tab as `\n`, `\t`.
pub fn escape(text: &str) -> String {
    escape_with(text, false)
}

/// As [`escape`], but keeps newlines and tabs, for blocks of text.
pub fn escape_block(text: &str) -> String {
    escape_with(text, true)
}

fn escape_with(text: &str, keep_lines: bool) -> String {
    if text.chars().all(|c| !is_hidden(c) || (keep_lines && (c == '\n' || c == '\t'))) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' | '\t' if keep_lines => out.push(c),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_hidden(c) => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

/// Whether a character is of the Unicode categories Cc or Cf, or a line or paragraph separator.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c as u32,
            0xAD | 0x0600..=0x0605 | 0x061C | 0x06DD | 0x070F | 0x0890..=0x0891 | 0x08E2 | 0x180E
            | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0xFEFF | 0xFFF9..=0xFFFB
            | 0x110BD | 0x110CD | 0x13430..=0x1343F | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A | 0xE0001 | 0xE0020..=0xE007F)
}

/// A hook's reason as it may be shown: escaped, without one trailing full stop, cut at `max_chars`; `no reason given` where empty (SPEC §4).
pub fn reason(raw: Option<&str>, max_chars: u32) -> String {
    let trimmed = raw.unwrap_or("").trim();
    let mut text: String = trimmed.chars().take(max_chars as usize + 1).collect();
    let cut = text.chars().count() > max_chars as usize;
    // One character too many where it was cut, one trailing full stop where it was not.
    if cut || text.ends_with('.') {
        text.pop();
    }
    let text = escape(&text);
    if text.is_empty() {
        return "no reason given".to_owned();
    }
    // Escapes may have made it longer than the limit: the limit is on what is shown.
    text.chars().take(max_chars as usize).collect()
}

/// Untrusted text on one line as it may be shown: escaped, without blanks around it, cut at `max_chars`; empty where there is nothing.
pub fn shown(raw: &str, max_chars: u32) -> String {
    let max = max_chars as usize;
    let head: String = raw.trim().chars().take(max).collect();
    escape(&head).chars().take(max).collect()
}

/// Shortens a text to about `max_bytes` by taking out its middle, on character borders, and says how much is gone.
pub fn elide_middle(text: &str, max_bytes: u64) -> String {
    let max = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    if text.len() <= max {
        return text.to_owned();
    }
    let mark = |n: usize| format!("\n[… {n} bytes left out …]\n");
    let room = max.saturating_sub(mark(text.len()).len());
    let mut head = room.div_ceil(2);
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len() - (room / 2);
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}{}{}", &text[..head], mark(tail - head), &text[tail..])
}

/// The most that each may have so that all together keep to the limit: what short ones leave goes to the long ones.
pub fn fair_share(mut weights: Vec<u64>, limit: u64) -> u64 {
    weights.sort_unstable();
    let (mut left, mut others) = (limit, weights.len() as u64);
    for weight in weights {
        if weight > left / others.max(1) {
            break;
        }
        left -= weight;
        others -= 1;
    }
    left.checked_div(others).unwrap_or(limit)
}

/// A duration as people write it in a manifest: `2s`, `500ms`, `1m`, `24h`.
pub fn duration(ms: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    for (unit, name) in UNITS {
        if ms >= unit && ms.is_multiple_of(unit) {
            return format!("{}{name}", ms / unit);
        }
    }
    if ms > 1_000 {
        format!("{}s", format!("{}.{:03}", ms / 1_000, ms % 1_000).trim_end_matches('0'))
    } else {
        format!("{ms}ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_escaped_trimmed_and_cut() {
        assert_eq!(reason(None, 2_000), "no reason given");
        assert_eq!(reason(Some(" \n"), 2_000), "no reason given");
        assert_eq!(reason(Some("a push to main."), 2_000), "a push to main");
        assert_eq!(reason(Some("wait..."), 2_000), "wait..");
        assert_eq!(reason(Some("a\n\u{1b}[31mb\u{202e}\u{200b}"), 2_000), "a\\n\\u{1b}[31mb\\u{202e}\\u{200b}");
        assert_eq!(reason(Some(&"x".repeat(1_000_000)), 2_000).chars().count(), 2_000);
        assert_eq!(reason(Some(&"\u{1b}".repeat(3_000)), 2_000).chars().count(), 2_000);
    }

    #[test]
    fn what_is_shown_keeps_its_full_stop_and_is_never_made_up() {
        assert_eq!(shown(" Looks good. \u{1b}", 100), "Looks good. \\u{1b}");
        assert_eq!(shown("", 100), "");
        assert_eq!(shown(&"ä".repeat(5), 3), "äää");
    }

    #[test]
    fn the_middle_is_left_out_on_character_borders() {
        let text = "ä".repeat(1_000);
        let short = elide_middle(&text, 301);
        assert!(
            short.len() <= 301 && short.starts_with('ä') && short.ends_with('ä') && short.contains("bytes left out")
        );
        assert_eq!(elide_middle("short", 5), "short");
    }

    #[test]
    fn durations_read_as_in_a_manifest() {
        for (ms, text) in
            [(2_000, "2s"), (500, "500ms"), (1_500, "1.5s"), (60_000, "1m"), (86_400_000, "24h"), (90_000, "90s")]
        {
            assert_eq!(duration(ms), text);
        }
    }
}
