//! What an agent said last, from a transcript that its harness keeps: Copilot CLI tells a stop without the words.

use serde_json::Value;

/// Bytes at a transcript's end that are looked through.
pub const TAIL_BYTES: u64 = 4 * 1024 * 1024;

/// The last words of the main agent, or of a subagent, in the end of a Copilot transcript (one JSON object a line): those after the last
/// prompt, and not beside a call. `at_ms` is the stop's time: what stands before the record of that stop is all that was said. None where that
/// is not written yet.
pub fn last_words(tail: &str, of_subagent: bool, at_ms: u64) -> Option<String> {
    let mut stopped = false;
    for line in tail.lines().rev() {
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let data = &event["data"];
        if event["type"] == "hook.start" && data["hookType"] == "agentStop" && data["input"]["timestamp"] == at_ms {
            stopped = true;
        }
        if !stopped {
            continue;
        }
        if data.get("parentToolCallId").is_some_and(|id| !id.is_null()) != of_subagent {
            continue;
        }
        match event["type"].as_str() {
            Some("assistant.message") => {
                let calls = data["toolRequests"].as_array().is_some_and(|calls| !calls.is_empty());
                return if calls { None } else { data["content"].as_str().map(str::to_owned) };
            }
            Some("user.message") => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: &str = r#"{"type":"assistant.message","data":{"content":"main","toolRequests":[]}}"#;
    const SUB: &str = r#"{"type":"assistant.message","data":{"content":"sub","parentToolCallId":"c1"}}"#;
    const CALL: &str = r#"{"type":"assistant.message","data":{"content":"I run it","toolRequests":[{"name":"bash"}]}}"#;
    const STOP: &str = r#"{"type":"hook.start","data":{"hookType":"agentStop","input":{"timestamp":7}}}"#;
    const PROMPT: &str = r#"{"type":"user.message","data":{"content":"tidy up"}}"#;

    #[test]
    fn the_last_words_of_the_one_who_stops_count_and_a_cut_line_is_passed_over() {
        let tail = ["ent\":\"cut off\"}}", PROMPT, CALL, MAIN, SUB, r#"{"type":"assistant.turn_end","data":{}}"#, STOP]
            .join("\n");
        assert_eq!(last_words(&tail, false, 7).as_deref(), Some("main"));
        assert_eq!(last_words(&tail, true, 7).as_deref(), Some("sub"));
    }

    #[test]
    fn words_of_an_earlier_turn_or_beside_a_call_are_not_the_last() {
        for tail in
            [vec![MAIN, PROMPT, STOP], vec![MAIN, PROMPT, CALL, STOP], vec![CALL, STOP], vec![STOP], vec![MAIN], vec![]]
        {
            assert_eq!(last_words(&tail.join("\n"), false, 7), None, "{tail:?}");
        }
        assert_eq!(last_words(&[MAIN, STOP].join("\n"), false, 8), None, "the record of another stop");
    }
}
