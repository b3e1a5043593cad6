//! Reading of numbers, durations and sizes, each within a range.

use super::node::{Kind, Node};
use super::reader::Reader;
use super::source::quoted;
use super::units::{self, Bad};
use crate::diagnostic::Code;
use std::ops::RangeInclusive;

impl Reader<'_, '_> {
    /// A whole number within a range.
    pub(crate) fn whole(&mut self, node: &Node, what: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let Kind::Number(number) = &node.kind else {
            self.wrong_type(node, what, &expected);
            return None;
        };
        match whole_of(number) {
            Some(value) if range.contains(&value) => Some(value),
            Some(value) => {
                self.error(node.place, Code::OutOfRange, format!("{what} is {value}: expected {expected}"));
                None
            }
            None => {
                self.error(node.place, Code::OutOfRange, format!("{what} is {number}: expected {expected}"));
                None
            }
        }
    }

    /// A duration, in milliseconds.
    pub(crate) fn duration(&mut self, node: &Node, what: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let text = match &node.kind {
            Kind::Text(text) => text,
            Kind::Number(number) => {
                self.error(node.place, Code::MissingUnit, format!("{what} is {number}, without a unit"))
                    .hint(format!("write {number}s for seconds or {number}ms for milliseconds"));
                return None;
            }
            _ => {
                self.wrong_type(node, what, "a duration such as 2s, 500ms or 1m");
                return None;
            }
        };
        let ms = match units::duration_ms(text) {
            Ok(ms) => ms,
            Err(Bad::NoUnit) => {
                self.error(node.place, Code::MissingUnit, format!("{what} is {}, without a unit", quoted(text)))
                    .hint(format!("write {text}s for seconds or {text}ms for milliseconds"));
                return None;
            }
            Err(Bad::Shape) => {
                let squeezed: String = text.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_lowercase();
                let hint = if units::duration_ms(&squeezed).is_ok() {
                    format!("write {squeezed}")
                } else {
                    "write a number and one of the units ms, s, m, h, d, e.g. 2s, 500ms or 1m".to_owned()
                };
                self.error(
                    node.place,
                    Code::InvalidDuration,
                    format!("{what} is {}: expected a duration", quoted(text)),
                )
                .hint(hint);
                return None;
            }
        };
        if range.contains(&ms) {
            return Some(ms);
        }
        let message = if ms < *range.start() {
            let at_least = if *range.start() == 1 {
                "more than zero".to_owned()
            } else {
                format!("at least {}", show(*range.start()))
            };
            format!("{what} is {}: expected {at_least}", quoted(text))
        } else {
            format!("{what} is {}: expected at most {}", quoted(text), show(*range.end()))
        };
        self.error(node.place, Code::DurationRange, message);
        None
    }

    /// A size in bytes: with a unit, or a whole number of bytes where the key's own name says so.
    pub(crate) fn size(&mut self, node: &Node, what: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let bytes = match &node.kind {
            Kind::Number(number) => whole_of(number),
            Kind::Text(text) => units::size_bytes(text).ok(),
            _ => {
                self.wrong_type(node, what, "a size such as 50KiB or 1MiB, or a number of bytes");
                return None;
            }
        };
        let Some(bytes) = bytes else {
            let message = match &node.kind {
                Kind::Text(text) => format!("{what} is {}: expected a size", quoted(text)),
                _ => format!("{what} is no whole number of bytes: expected a size"),
            };
            self.error(node.place, Code::InvalidSize, message)
                .hint("write a number and one of the units B, KiB, MiB, GiB, kB, MB, GB, e.g. 50KiB");
            return None;
        };
        if range.contains(&bytes) {
            return Some(bytes);
        }
        let message = format!("{what} is {bytes} bytes: expected {} to {}", range.start(), range.end());
        self.error(node.place, Code::SizeRange, message);
        None
    }
}

/// A duration with the unit that people would write.
fn show(ms: u64) -> String {
    const DAY: u64 = 86_400_000;
    if ms > DAY && ms.is_multiple_of(DAY) { format!("{}d", ms / DAY) } else { crate::text::duration(ms) }
}

/// A number that is whole, also if it is written `3.0`, as JSON Schema counts integers.
fn whole_of(number: &serde_json::Number) -> Option<u64> {
    number.as_u64().or_else(|| {
        let float = number.as_f64()?;
        #[allow(clippy::cast_sign_loss, reason = "checked to be whole and within 0 to 2^53")]
        (float.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&float)).then_some(float as u64)
    })
}
