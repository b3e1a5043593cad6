//! What was expected, beside what came (`ask --expect`).
//!
//! Invariant: everything that is expected has to stand in what came; keys that are left out may be anything, lists have the same length.

use super::look::Look;
use super::values;
use hookwright_core::text::escape;
use serde_json::Value;

/// Columns of a value in a difference.
const ROOM: usize = 200;

/// Where what came differs from what was expected, one line each, escaped; none where it fits.
pub(crate) fn differences(expected: &Value, came: &Value) -> Vec<String> {
    let mut found = vec![];
    compare("", expected, Some(came), &mut found);
    found
}

fn compare(at: &str, expected: &Value, came: Option<&Value>, found: &mut Vec<String>) {
    match (expected, came) {
        (Value::Object(expected), Some(Value::Object(came))) => {
            for (key, value) in expected {
                let at = if at.is_empty() { escape(key) } else { format!("{at}.{}", escape(key)) };
                compare(&at, value, came.get(key), found);
            }
        }
        (Value::Array(expected), Some(Value::Array(came))) if expected.len() == came.len() => {
            for (i, (expected, came)) in expected.iter().zip(came).enumerate() {
                compare(&format!("{at}[{i}]"), expected, Some(came), found);
            }
        }
        (expected, Some(came)) if expected == came => {}
        (expected, came) => {
            let shown = |value: &Value| values::compact(value, ROOM, Look::PLAIN);
            let came = came.map_or_else(|| "nothing".to_owned(), shown);
            let at = if at.is_empty() { "the whole" } else { at };
            found.push(format!("{at}: expected {}, came {came}", shown(expected)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_expected_has_to_stand_in_what_came_and_the_rest_may_be_anything() {
        let came = json!({"verdict": "deny", "answers": [{"hook": "a.b", "ms": 1.5}], "says": "no"});
        for fits in [json!({}), json!({"verdict": "deny"}), json!({"answers": [{"hook": "a.b"}]}), came.clone()] {
            assert_eq!(differences(&fits, &came), [""; 0], "{fits}");
        }
        let wrong = json!({"verdict": "allow", "value": {"x": 1}, "answers": [{"hook": "a.c"}]});
        assert_eq!(
            differences(&wrong, &came),
            [
                r#"verdict: expected "allow", came "deny""#,
                r#"value: expected {"x":1}, came nothing"#,
                r#"answers[0].hook: expected "a.c", came "a.b""#,
            ]
        );
        assert_eq!(differences(&json!({"answers": []}), &came).len(), 1, "lists have the same length");
        assert_eq!(differences(&json!([1]), &came).len(), 1);
    }
}
