//! JSON as the law needs it: canonical text for digests, and strict reading that refuses duplicated keys.
//!
//! Invariant: `canonical` sorts keys by their code points and never changes a number's or a string's value.

use serde::Serialize;
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};

/// The canonical text of a value: keys sorted, no spaces, numbers as `serde_json` writes them.
///
/// Digests of approvals, values and records are made over this text (SPEC §7).
pub fn canonical(value: &Value) -> String {
    // Every part is written from a `str`: it is UTF-8.
    String::from_utf8(canonical_bytes(value)).unwrap_or_default()
}

fn canonical_bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(n) => write_scalar(n, out),
        Value::String(s) => write_scalar(s, out),
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_canonical(item, out);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            out.push(b'{');
            for (i, (key, item)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_scalar(key, out);
                out.push(b':');
                write_canonical(item, out);
            }
            out.push(b'}');
        }
    }
}

fn write_scalar<T: Serialize>(scalar: &T, out: &mut Vec<u8>) {
    // Writing a text or a number as JSON into memory cannot fail.
    let _ = serde_json::to_writer(out, scalar);
}

/// SHA-256 of some bytes, as 64 lower-case hex digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        hex.push(char::from(DIGITS[usize::from(byte >> 4)]));
        hex.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    hex
}

/// SHA-256 over the canonical text of a value, as 64 lower-case hex digits.
pub fn digest(value: &Value) -> String {
    sha256_hex(&canonical_bytes(value))
}

/// Whether a value has more than so many levels of lists and objects.
pub fn is_deep(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|v| is_deep(v, levels - 1)),
        Value::Object(map) => levels == 0 || map.values().any(|v| is_deep(v, levels - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Whether every number of a JSON text keeps its value when it is read: whole numbers of 64 bits do, and others that a double holds
/// to the last digit written. `12345678901234567890123` and `0.12345678901234567890` do not.
pub fn keeps_numbers(text: &str) -> bool {
    let (bytes, mut at) = (text.as_bytes(), 0);
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'"' => {
                while bytes.get(at).is_some_and(|b| *b != b'"') {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                while bytes.get(at).is_some_and(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')) {
                    at += 1;
                }
                if !text.get(start..at).is_some_and(keeps_number) {
                    return false;
                }
            }
            _ => {}
        }
    }
    true
}

fn keeps_number(written: &str) -> bool {
    let Ok(read) = serde_json::from_str::<Number>(written) else { return false };
    decimal(written) == decimal(&read.to_string())
}

/// A number as its significant digits and the power of ten of the last one.
fn decimal(number: &str) -> Option<(bool, String, i64)> {
    let (negative, number) = number.strip_prefix('-').map_or((false, number), |rest| (true, rest));
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return Some((false, String::new(), 0));
    }
    let zeros = digits.len() - digits.trim_end_matches('0').len();
    let exponent: i64 = exponent.parse().ok()?;
    let last = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(i64::try_from(zeros).ok()?)?;
    Some((negative, significant.to_owned(), last))
}

/// Why a text is not strict JSON.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StrictError(#[from] serde_json::Error);

impl StrictError {
    /// True where the text is JSON but for an object that has a key twice.
    pub fn is_duplicate_key(&self) -> bool {
        self.0.to_string().contains(DUPLICATE)
    }
}

const DUPLICATE: &str = "duplicated key";

/// Reads JSON and refuses an object in which a key stands twice, at any depth.
///
/// `serde_json` alone keeps the last one, so that two readers could take different decisions from one text.
pub fn parse_strict(text: &str) -> Result<Value, StrictError> {
    let mut de = serde_json::Deserializer::from_str(text);
    let value = Strict.deserialize(&mut de)?;
    de.end()?;
    Ok(value)
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: de::Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }
    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }
    fn visit_f64<E: de::Error>(self, v: f64) -> Result<Value, E> {
        Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }
    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }
    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Strict)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let value = access.next_value_seed(Strict)?;
            match map.entry(key) {
                Entry::Vacant(place) => {
                    place.insert(value);
                }
                Entry::Occupied(there) => return Err(de::Error::custom(format!("{DUPLICATE} {:?}", there.key()))),
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn canonical_sorts_keys_at_every_depth() {
        let v = json!({"b": [{"z": 1, "a": 2.5}], "a": "é\n"});
        assert_eq!(canonical(&v), r#"{"a":"é\n","b":[{"a":2.5,"z":1}]}"#);
    }

    proptest::proptest! {
        #[test]
        fn a_number_is_written_as_it_is_shown(whole: i64, positive: u64, bits: u64) {
            for number in [json!(whole), json!(positive), json!(f64::from_bits(bits))] {
                proptest::prop_assert_eq!(canonical(&number), number.to_string());
            }
        }
    }

    #[test]
    fn a_digest_is_the_known_one() {
        assert_eq!(sha256_hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn numbers_that_reading_would_change_are_found() {
        for text in [
            r#"{"a":[1,-2,0,-0,1.0,1.10,1e2,1.5E-3,0.1,18446744073709551615,-9223372036854775808,0e5]}"#,
            r#"{"a":"12345678901234567890123","b\"1234567890123456789012":1}"#,
            "1e22",
            "100000000000000000000",
        ] {
            assert!(keeps_numbers(text), "{text}");
        }
        for number in
            ["12345678901234567890123", "18446744073709551617", "0.12345678901234567890", "-1.00000000000000000001"]
        {
            assert!(!keeps_numbers(&format!(r#"{{"a":[true,{number}]}}"#)), "{number}");
        }
    }

    #[test]
    fn a_duplicated_key_is_refused_at_any_depth() {
        let err = parse_strict(r#"{"a":[{"decision":"deny","decision":"allow"}]}"#).unwrap_err();
        assert!(err.is_duplicate_key());
        assert!(!parse_strict("{\"a\":").unwrap_err().is_duplicate_key());
        assert!(parse_strict("{} x").is_err());
    }

    #[test]
    fn strict_reading_agrees_with_serde_json_where_there_are_no_duplicates() {
        let text = r#"{"a":[1,-2,3.5,1e3,null,true,"x"],"b":{"c":{}}}"#;
        assert_eq!(parse_strict(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
    }
}
