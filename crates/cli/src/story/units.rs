//! Numbers for people: sizes, durations, times, ages.

use jiff::Timestamp;

/// A count with its thousands apart: `12,345`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun: `1 call`, `2 calls`.
pub(crate) fn plural(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// A size: `340 bytes`, `1.2 KiB`, `10.0 MiB`.
pub(crate) fn bytes(n: u64) -> String {
    const KIB: u64 = 1024;
    let of = |unit: u64, name: &str| format!("{}.{} {name}", n / unit, n % unit * 10 / unit);
    match n {
        0..KIB => plural(n, "byte"),
        KIB..1_048_576 => of(KIB, "KiB"),
        1_048_576..1_073_741_824 => of(KIB * KIB, "MiB"),
        _ => of(KIB * KIB * KIB, "GiB"),
    }
}

/// How long something took, in milliseconds: `1.9 ms`, `340 ms`, `2.3 s`, `3 min 5 s`, `2 h 10 min`.
pub(crate) fn took(ms: f64) -> String {
    if !ms.is_finite() || ms < 0.0 {
        return "? ms".to_owned();
    }
    if ms < 99.95 {
        return format!("{ms:.1} ms");
    }
    if ms < 999.5 {
        return format!("{ms:.0} ms");
    }
    if ms < 59_950.0 {
        return format!("{:.1} s", ms / 1_000.0);
    }
    #[allow(clippy::cast_sign_loss, reason = "not negative: checked above")]
    let seconds = (ms / 1_000.0).round() as u64;
    match seconds {
        0..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// As [`took`], for whole milliseconds.
pub(crate) fn took_whole(ms: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "rounded for people")]
    took(ms as f64)
}

/// A coarse span: `12s`, `5m`, `3h`, `2d`.
fn span(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        // Two days are told in days; a default expiry of 24 hours reads as such.
        3_600..172_800 => format!("{}h", (seconds + 1_800) / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// How long ago: `12s ago`, `now`.
pub(crate) fn ago(at_ms: u64, now_ms: u64) -> String {
    match now_ms.saturating_sub(at_ms) {
        0..1_000 => "now".to_owned(),
        ms => format!("{} ago", span(ms)),
    }
}

/// How far ahead: `in 24h`, or `over` where it has passed.
pub(crate) fn ahead(at_ms: u64, now_ms: u64) -> String {
    match at_ms.saturating_sub(now_ms) {
        0 => "over".to_owned(),
        ms => format!("in {}", span(ms)),
    }
}

/// A time in UTC; `?` where it is beyond the calendar.
fn utc(at_ms: u64, format: &str) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    at.map_or_else(|| "?".into(), |at| at.strftime(format).to_string())
}

/// The day in UTC: `2026-10-01`.
pub(crate) fn day(at_ms: u64) -> String {
    utc(at_ms, "%Y-%m-%d")
}

/// The time of day in UTC, to the millisecond: `12:00:00.123`.
pub(crate) fn clock(at_ms: u64) -> String {
    utc(at_ms, "%H:%M:%S.%3f")
}

/// Day and time in UTC, to the second: `2026-10-01 12:00:00 UTC`.
pub(crate) fn moment(at_ms: u64) -> String {
    utc(at_ms, "%Y-%m-%d %H:%M:%S UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([count(0), count(999), count(1_000), count(1_234_567)], ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [bytes(1), bytes(340), bytes(1_229), bytes(10_485_760)],
            ["1 byte", "340 bytes", "1.2 KiB", "10.0 MiB"]
        );
        assert_eq!(
            [1.94, 99.96, 340.4, 2_300.0, 59_960.0, 185_000.0, 7_800_000.0, f64::NAN].map(took),
            ["1.9 ms", "100 ms", "340 ms", "2.3 s", "1 min 0 s", "3 min 5 s", "2 h 10 min", "? ms"]
        );
    }

    #[test]
    fn times_are_utc_and_ages_coarse() {
        let at = 1_790_856_000_123;
        assert_eq!((day(at).as_str(), clock(at).as_str()), ("2026-10-01", "12:00:00.123"));
        assert_eq!(moment(at), "2026-10-01 12:00:00 UTC");
        assert_eq!([ago(at, at + 500), ago(at, at + 61_000), ago(at + 1, at)], ["now", "1m ago", "now"]);
        assert_eq!(
            [ahead(at + 86_400_000, at), ahead(at + 86_399_000, at), ahead(at + 259_200_000, at), ahead(at, at)],
            ["in 24h", "in 24h", "in 3d", "over"]
        );
        assert_eq!(moment(u64::MAX), "?");
    }
}
