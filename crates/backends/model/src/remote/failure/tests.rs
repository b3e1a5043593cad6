use super::*;
use crate::open::provider;
use crate::settings;

fn outcome(id: &'static str, status: u16, headers: &[(&'static str, &str)], body: &str) -> Failure {
    let env = |name: &str| match name {
        "HOOKWRIGHT_COMPATIBLE_BASE_URL" => Some("http://127.0.0.1:8000/v1".to_owned()),
        "OLLAMA_HOST" | "ANTHROPIC_BASE_URL" | "OPENAI_BASE_URL" | "GOOGLE_GEMINI_BASE_URL" => None,
        _ => Some("sk-0123456789abcdef".to_owned()),
    };
    let settings = settings::read(provider(id).unwrap(), id, &env).unwrap();
    let headers = headers.iter().map(|(k, v)| (k.parse().unwrap(), v.parse().unwrap())).collect();
    Asked { label: "x/model", provider: id, settings: &settings }.status(status, &headers, body.as_bytes())
}

/// Each provider's own words for a full window, as seen in the wild.
#[test]
fn a_full_window_is_known_in_every_providers_words() {
    for (id, status, body) in [
        (
            "anthropic",
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
        ),
        (
            "anthropic",
            400,
            r#"{"error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again"}}"#,
        ),
        ("anthropic", 413, r#"{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#),
        (
            "openai",
            400,
            r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}"#,
        ),
        (
            "openai-chat",
            400,
            r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        ),
        (
            "gemini",
            400,
            r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
        ),
        ("ollama", 400, r#"{"error":"prompt too long; exceeded max context length by 4 tokens"}"#),
        (
            "compatible",
            400,
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}"#,
        ),
        (
            "compatible",
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error"}}"#,
        ),
        ("ollama", 400, r#"{"error":{"message":"the input length exceeds the context length","type":"api_error"}}"#),
        ("ollama", 500, r#"{"error":{"message":"Context size has been exceeded.","type":"server_error"}}"#),
        (
            "compatible",
            400,
            r#"{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (1000 in the messages, 4000 in the completion). Please reduce the length of the messages or completion.","type":"BadRequestError","param":null,"code":400}}"#,
        ),
        (
            "compatible",
            400,
            r#"{"error":{"message":"You passed 5001 input tokens and requested 0 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 4096 tokens.","type":"BadRequestError","code":400}}"#,
        ),
        (
            "compatible",
            400,
            r#"{"object":"error","message":"The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens.","code":400}"#,
        ),
        (
            "compatible",
            400,
            r#"{"error":{"code":400,"message":"request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}"#,
        ),
        (
            "compatible",
            400,
            r#"{"object":"error","message":"The input (5000 tokens) is longer than the model's context length (4096 tokens).","type":"BadRequestError","code":400}"#,
        ),
        (
            "compatible",
            400,
            r#"{"error":"The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length."}"#,
        ),
        (
            "openai",
            400,
            r#"{"error":{"message":"Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 280000 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        ),
    ] {
        match outcome(id, status, &[], body) {
            Failure::Final(ModelError::ContextFull(text)) => assert!(text.contains("larger window"), "{text}"),
            other => panic!("{body}: {other:?}"),
        }
    }
}

#[test]
fn a_refusal_says_what_to_change() {
    for (id, status, body, hint) in [
        (
            "anthropic",
            401,
            r#"{"error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
            "ANTHROPIC_API_KEY",
        ),
        ("openai", 403, r#"{"error":{"message":"no access"}}"#, "OPENAI_API_KEY"),
        (
            "gemini",
            404,
            r#"{"error":{"code":404,"message":"models/x is not found","status":"NOT_FOUND"}}"#,
            "GOOGLE_GEMINI_BASE_URL",
        ),
        ("ollama", 404, r#"{"error":{"message":"model 'x' not found"}}"#, "ollama pull model"),
        (
            "openai",
            429,
            r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            "quota",
        ),
        ("openai", 400, r#"{"error":{"message":"Unsupported value","code":"unsupported_value"}}"#, "unsupported_value"),
        ("compatible", 418, "<html>I'm a\nteapot\u{1b}[31m", "I'm a\\nteapot\\u{1b}[31m"),
    ] {
        match outcome(id, status, &[], body) {
            Failure::Final(ModelError::Refused(text)) => {
                assert!(text.contains(hint) && text.contains(&status.to_string()), "{text}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
}

#[test]
fn passing_failures_are_told_from_lasting_ones() {
    for status in [408, 409, 429, 500, 502, 503, 504, 529] {
        assert!(matches!(outcome("anthropic", status, &[], "{}"), Failure::Passing { after: None, .. }), "{status}");
    }
    let gemini = r#"{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"23.5s"}]}}"#;
    assert!(
        matches!(outcome("gemini", 429, &[], gemini), Failure::Passing { after: Some(d), .. } if d == Duration::from_millis(23_500))
    );
    let said = outcome(
        "openai",
        429,
        &[("retry-after", "3"), ("x-request-id", "req_7")],
        r#"{"error":{"message":"slow down"}}"#,
    );
    assert!(
        matches!(&said, Failure::Passing { after: Some(d), what } if d.as_secs() == 3 && what.contains("req_7")),
        "{said:?}"
    );
    let lasting = outcome("openai", 500, &[("x-should-retry", "false")], "{}");
    assert!(matches!(lasting, Failure::Final(ModelError::Unavailable(_))));
}

#[test]
fn a_key_that_the_provider_echoes_is_not_shown() {
    for body in [
        r#"{"error":{"message":"Incorrect API key provided: sk-0123456789abcdef.","code":"invalid_api_key"}}"#,
        r#"{"error":{"message":"Incorrect API key provided: sk-01234****cdef. You can find","code":"invalid_api_key"}}"#,
        "sk-0123456789abcdef",
    ] {
        let text = format!("{:?}", outcome("openai", 401, &[("x-request-id", "sk-0123456789abcdef")], body));
        assert!(!text.contains("sk-01") && text.contains("[key]"), "{text}");
    }
    let moved = format!("{:?}", outcome("openai", 302, &[("location", "https://x/?k=sk-0123456789abcdef")], ""));
    assert!(!moved.contains("sk-01") && moved.contains("OPENAI_BASE_URL"), "{moved}");
}
