//! Plain scalars by the core schema of YAML 1.2.2 (§10.3.2).

use super::node::Kind;
use serde_json::Number;

/// What a plain (unquoted, untagged) scalar means.
pub(super) fn plain(text: &str) -> Kind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Bool(true),
        "false" | "False" | "FALSE" => Kind::Bool(false),
        _ => number(text).unwrap_or_else(|| Kind::Text(text.to_owned())),
    }
}

/// The number that a text is, by the core schema; none if it is no number.
pub(super) fn number(text: &str) -> Option<Kind> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    if matches!(digits, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Some(Kind::NotFinite);
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(rest) = text.strip_prefix(prefix) {
            let whole = !rest.is_empty() && rest.chars().all(|c| c.is_digit(radix));
            return whole.then(|| u64::from_str_radix(rest, radix).map_or(Kind::NotFinite, |n| Kind::Number(n.into())));
        }
    }
    let shape = digits.as_bytes();
    if !shape.iter().any(u8::is_ascii_digit)
        || !shape.iter().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'))
    {
        return None;
    }
    if shape.iter().all(u8::is_ascii_digit) {
        let signed = format!("{sign}{digits}");
        if let Ok(n) = signed.parse::<u64>() {
            return Some(Kind::Number(n.into()));
        }
        if let Ok(n) = signed.parse::<i64>() {
            return Some(Kind::Number(n.into()));
        }
    }
    // [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
    let (mantissa, exponent) = match digits.find(['e', 'E']) {
        Some(at) => (&digits[..at], Some(digits[at + 1..].trim_start_matches(['-', '+']))),
        None => (digits, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let good = all_digits(whole)
        && all_digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|e| !e.is_empty() && all_digits(e));
    if !good {
        return None;
    }
    let value: f64 = format!("{sign}{digits}").parse().ok()?;
    Some(Number::from_f64(value).map_or(Kind::NotFinite, Kind::Number))
}
