//! What an agent said last, from a transcript that its harness keeps: Copilot CLI tells a stop without the words.

use serde_json::Value;

/// Bytes at a transcript's end that are looked through.
pub const TAIL_BYTES: u64 = 4 * 1024 * 1024;

/// The last words of the main agent, or of a subagent, in the end of a Copilot transcript (one JSON object a line).
pub fn last_words(tail: &str, of_subagent: bool) -> Option<String> {
    let said = |line: &str| -> Option<String> {
        let event: Value = serde_json::from_str(line).ok()?;
        let data = &event["data"];
        let is_subagents = data.get("parentToolCallId").is_some_and(|id| !id.is_null());
        (event["type"] == "assistant.message" && is_subagents == of_subagent)
            .then(|| data["content"].as_str().map(str::to_owned))?
    };
    tail.lines().rev().find_map(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_the_one_who_stops_count_and_a_cut_line_is_passed_over() {
        let tail = concat!(
            "ent\":\"cut off\"}}\n",
            r#"{"type":"assistant.message","data":{"content":"first"}}"#,
            "\n",
            r#"{"type":"assistant.message","data":{"content":"main"}}"#,
            "\n",
            r#"{"type":"assistant.message","data":{"content":"sub","parentToolCallId":"c1"}}"#,
            "\n",
            r#"{"type":"assistant.turn_end","data":{}}"#,
            "\n",
        );
        assert_eq!(last_words(tail, false).as_deref(), Some("main"));
        assert_eq!(last_words(tail, true).as_deref(), Some("sub"));
        assert_eq!(last_words("", false), None);
    }
}
