//! What a change changed: by keys for JSON, by lines for text.
//!
//! Invariant: a value that changed is never shown as unchanged: equal starts and ends of long texts are left out, not differences.

use super::line::{Line, columns, escaped_head, fit};
use super::look::{Look, Role};
use super::{units, values};
use hookwright_core::stored::Stored;
use serde_json::Value;
use similar::{Algorithm, ChangeTag, TextDiff};
use std::time::Duration;

/// One place in a value that differs.
struct Changed<'a> {
    path: String,
    from: Option<&'a Value>,
    to: Option<&'a Value>,
}

/// Texts longer than this are not aligned line by line: their differing middles are shown as removed and added.
const ALIGN_BYTES: usize = 256 * 1024;

/// A change as lines, at most `rows` of them, then one that says how many more there are. `name` is the key of the event.
pub(crate) fn lines(name: &str, from: &Stored, to: &Stored, rows: usize, look: Look) -> Vec<String> {
    let (Some(from_value), Some(to_value)) = (from.value.as_deref(), to.value.as_deref()) else {
        let text = format!("{name}: {} {} {}", values::elsewhere(from), look.arrow(), values::elsewhere(to));
        return vec![Line::more().add(Role::Change, &text).end(look)];
    };
    let mut changes = vec![];
    compare(String::new(), Some(from_value), Some(to_value), &mut changes);
    let mut out: Vec<String> = vec![];
    let mut more = 0;
    for change in &changes {
        let (lines, unshown) = one(name, change, rows, look);
        more += unshown;
        for line in lines {
            if out.len() < rows { out.push(line) } else { more += 1 }
        }
    }
    if more > 0 {
        let text = format!("{} {} more", look.ellipsis(), units::plural(more as u64, "changed line"));
        out.push(Line::more().add(Role::Warn, &text).end(look));
    }
    out
}

fn compare<'a>(path: String, from: Option<&'a Value>, to: Option<&'a Value>, out: &mut Vec<Changed<'a>>) {
    match (from, to) {
        (Some(Value::Object(from)), Some(Value::Object(to))) => {
            for (key, old) in from {
                compare(joined(&path, key), Some(old), to.get(key), out);
            }
            for (key, new) in to.iter().filter(|(key, _)| !from.contains_key(*key)) {
                out.push(Changed { path: joined(&path, key), from: None, to: Some(new) });
            }
        }
        (Some(Value::Array(from)), Some(Value::Array(to))) if from.len() == to.len() => {
            for (i, (old, new)) in from.iter().zip(to).enumerate() {
                compare(format!("{path}[{i}]"), Some(old), Some(new), out);
            }
        }
        (from, to) if from != to => out.push(Changed { path, from, to }),
        _ => {}
    }
}

/// `a.b`, or `a["odd key"]` where a key could be mistaken for a path.
fn joined(path: &str, key: &str) -> String {
    let plain =
        !key.is_empty() && key.len() <= 64 && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    match (plain, path.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{path}.{key}"),
        (false, _) => {
            let short: String = key.chars().take(64).collect();
            format!("{path}[{}]", Value::String(short))
        }
    }
}

/// The lines of one place, at most `rows` and the label; the second part is how many more there are.
fn one(name: &str, change: &Changed<'_>, rows: usize, look: Look) -> (Vec<String>, usize) {
    let label = match change.path.as_str() {
        "" => name.to_owned(),
        path if path.starts_with('[') => format!("{name}{path}"),
        path => path.to_owned(),
    };
    if let (Some(Value::String(from)), Some(Value::String(to))) = (change.from, change.to)
        && (from.contains('\n') || to.contains('\n'))
    {
        return text(&label, from, to, rows, look);
    }
    let label = fit(&escaped_head(&label, 400), look.width / 3, look);
    let line = Line::more().add(Role::Change, &label).plain(": ");
    let room = line.room(look).saturating_sub(columns(look.arrow()) + 2);
    let (old, new) = match (change.from, change.to) {
        (Some(Value::String(from)), Some(Value::String(to))) if columns(from) + columns(to) + 4 > room => {
            // Where the start of both is the same, it is the rest that counts.
            let skipped = common_start(from, to);
            let tail = |text: &str| {
                let cut = back(text, skipped, 12);
                let value = Value::String(text[cut..].to_owned());
                let lead = if cut > 0 { look.ellipsis() } else { "" };
                format!("{lead}{}", values::compact(&value, (room / 2).saturating_sub(columns(lead)), look))
            };
            (tail(from), tail(to))
        }
        (from, to) => {
            let whole = |v: Option<&Value>| v.map_or(0, |v| columns(&values::compact(v, room, look)));
            let (a, b) = (whole(from), whole(to));
            // A short side gives its room to the other.
            let half = room / 2;
            let old_room = if a + b <= room { a } else { half.max(room.saturating_sub(b)) };
            let shown = |v: Option<&Value>, room: usize, none: &str| {
                v.map_or_else(|| none.to_owned(), |v| values::compact(v, room, look))
            };
            (
                shown(from, old_room.max(8), "(none)"),
                shown(to, room.saturating_sub(old_room.min(a)).max(8), "(removed)"),
            )
        }
    };
    (vec![line.add(Role::Dim, &old).plain(&format!(" {} ", look.arrow())).plain(&new).end(look)], 0)
}

/// How many bytes two texts have in common at their start, on a character border.
fn common_start(a: &str, b: &str) -> usize {
    a.char_indices().zip(b.chars()).find(|((_, x), y)| x != y).map_or(a.len().min(b.len()), |((i, _), _)| i)
}

/// Some characters back from a position.
fn back(text: &str, from: usize, chars: usize) -> usize {
    text[..from].char_indices().rev().nth(chars.saturating_sub(1)).map_or(0, |(i, _)| i)
}

/// The differing lines of a text.
fn text(label: &str, from: &str, to: &str, rows: usize, look: Look) -> (Vec<String>, usize) {
    let mut out = vec![Line::more().add(Role::Change, label).plain(":").end(look)];
    let mut more = 0;
    let mut push = |role, sign: &str, line: &str| {
        if out.len() > rows {
            more += 1;
            return;
        }
        let sign = Line::more().add(role, sign);
        out.push(sign.add(role, line.strip_suffix('\n').unwrap_or(line)).end(look));
    };
    if from.trim_end_matches('\n') == to.trim_end_matches('\n') {
        push(Role::Change, "", "(only newlines at its end)");
        return (out, more);
    }
    if from.len() + to.len() <= ALIGN_BYTES {
        // A last line without a newline is the same line.
        let (from, to) = (format!("{from}\n"), format!("{to}\n"));
        // Bounded in time: a hostile text must not hold the story up.
        let diff =
            TextDiff::configure().algorithm(Algorithm::Myers).timeout(Duration::from_millis(50)).diff_lines(&from, &to);
        for change in diff.iter_all_changes() {
            match change.tag() {
                ChangeTag::Delete => push(Role::Bad, "- ", change.value()),
                ChangeTag::Insert => push(Role::Good, "+ ", change.value()),
                ChangeTag::Equal => {}
            }
        }
        return (out, more);
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (from.lines().collect(), to.lines().collect());
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let room = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev()).take(room).take_while(|(a, b)| a == b).count();
    old[start..old.len() - end].iter().for_each(|line| push(Role::Bad, "- ", line));
    new[start..new.len() - end].iter().for_each(|line| push(Role::Good, "+ ", line));
    (out, more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(from: Value, to: Value, rows: usize) -> String {
        lines("arguments", &Stored::inline(from), &Stored::inline(to), rows, Look::PLAIN).concat()
    }

    #[test]
    fn changed_added_and_removed_keys_are_shown_old_to_new() {
        let from =
            json!({"force": true, "branch": "main", "same": 1, "deep": {"list": [1, 2, {"x": "a"}]}, "gone": null});
        let to =
            json!({"force": false, "branch": "topic", "same": 1, "deep": {"list": [1, 2, {"x": "b"}]}, "new": [1]});
        insta::assert_snapshot!(shown(from, to, 10), @r#"
        force: true → false
        branch: "main" → "topic"
        deep.list[2].x: "a" → "b"
        gone: null → (removed)
        new: (none) → [1]
        "#);
    }

    #[test]
    fn a_change_at_the_end_of_a_long_text_is_seen() {
        let from = "word ".repeat(100);
        let out = shown(json!({"text": from.clone()}), json!({"text": format!("{from}; rm -rf /")}), 10);
        assert!(out.contains("; rm -rf /"), "{out}");
        let out = shown(json!({"text": "k".repeat(500)}), json!({"text": format!("{}X", "k".repeat(500))}), 10);
        assert!(out.contains("X\""), "{out}");
    }

    #[test]
    fn text_of_several_lines_is_compared_by_lines() {
        insta::assert_snapshot!(shown(json!("Done.\nAll well."), json!("Done.\nAll well.\n\nChecked by policy."), 10), @r"
        arguments:
        +
        + Checked by policy.
        ");
    }

    #[test]
    fn a_large_change_is_bounded_and_says_how_much_there_is() {
        let out = shown(json!((0..500).collect::<Vec<_>>()), json!((1..501).collect::<Vec<_>>()), 3);
        assert!(out.ends_with("… 497 changed lines more\n"), "{out}");
        let big = |c: &str| json!(format!("same\n{}same\n", format!("{c}\n").repeat(200_000)));
        let out = shown(big("a"), big("b"), 2);
        assert_eq!(out.lines().count(), 3, "{out}");
    }

    #[test]
    fn hostile_keys_can_not_pose_as_paths_or_lines() {
        let out = shown(json!({"a\n\u{1b}[1m": 1, "x.y": 1}), json!({"a\n\u{1b}[1m": 2, "x.y": 2}), 9);
        assert_eq!(out.lines().count(), 2);
        assert!(!out.contains('\u{1b}') && out.contains(r#"["x.y"]"#), "{out}");
    }
}
