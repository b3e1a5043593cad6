//! Durations and sizes as people write them: a number and its unit.

/// Why a text is no quantity.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// A number without a unit.
    NoUnit,
    /// Something else.
    Shape,
}

const DURATIONS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const SIZES: [(&str, u64); 7] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1024),
    ("MiB", 1024 * 1024),
    ("GiB", 1024 * 1024 * 1024),
];

/// The regular expression of a duration, for schemas.
pub(crate) fn duration_pattern() -> &'static str {
    "^[0-9]{1,12}(\\.[0-9]{1,3})?(ms|s|m|h|d)$"
}

/// The regular expression of a size, for schemas.
pub(crate) fn size_pattern() -> &'static str {
    "^[0-9]{1,12}(\\.[0-9]{1,3})?(B|kB|MB|GB|KiB|MiB|GiB)$"
}

/// Milliseconds, of `500ms`, `2s`, `1.5s`, `1m`, `24h`, `30d`. Less than a millisecond is rounded up.
pub(super) fn duration_ms(text: &str) -> Result<u64, Bad> {
    quantity(text, &DURATIONS)
}

/// Bytes, of `512B`, `50KiB`, `1.5MiB`, `10MB`.
pub(super) fn size_bytes(text: &str) -> Result<u64, Bad> {
    quantity(text, &SIZES)
}

fn quantity(text: &str, units: &[(&str, u64)]) -> Result<u64, Bad> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (amount, unit) = text.split_at(at);
    let (whole, fraction) = match amount.split_once('.') {
        Some((_, "")) => return Err(Bad::Shape),
        Some(parts) => parts,
        None => (amount, ""),
    };
    let digits = |s: &str, most: usize| s.len() <= most && s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole, 12) || !digits(fraction, 3) {
        return Err(Bad::Shape);
    }
    if unit.is_empty() {
        return Err(Bad::NoUnit);
    }
    let (_, factor) = units.iter().find(|(name, _)| *name == unit).ok_or(Bad::Shape)?;
    // Both fit: at most 12 and 3 digits.
    let whole: u64 = whole.parse().map_err(|_| Bad::Shape)?;
    let thousandths: u64 = format!("{fraction:0<3}").parse().map_err(|_| Bad::Shape)?;
    Ok(whole.saturating_mul(*factor).saturating_add((thousandths * factor).div_ceil(1_000)))
}
