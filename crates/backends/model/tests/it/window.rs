//! What providers say of a model's window, and what is made of it.

use crate::support::*;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn told(value: &Value) -> Reply {
    Reply::error(200, value.to_string())
}

async fn window(spec: &str, replies: Vec<Reply>) -> (Option<u64>, Vec<String>) {
    let server = Server::start(replies).await;
    let window = server.model(spec).window().await;
    let paths = server.requests.lock().unwrap().iter().map(|r| r.path.clone()).collect();
    (window, paths)
}

#[tokio::test]
async fn each_provider_is_asked_for_its_window_in_its_own_way() {
    let none = || told(&json!({}));
    for (spec, replies, expected, paths) in [
        (
            "anthropic/claude-sonnet-4-5",
            vec![told(&json!({"id": "claude-sonnet-4-5", "max_input_tokens": 1_000_000, "max_tokens": 64_000}))],
            Some(1_000_000),
            vec!["/v1/models/claude-sonnet-4-5"],
        ),
        (
            "anthropic/claude-sonnet-4-5",
            vec![told(&json!({"id": "x"}))],
            Some(200_000),
            vec!["/v1/models/claude-sonnet-4-5"],
        ),
        ("anthropic/local", vec![Reply::error(404, "{}")], None, vec!["/v1/models/local"]),
        (
            "gemini/gemini-3-pro",
            vec![told(
                &json!({"name": "models/gemini-3-pro", "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536}),
            )],
            Some(1_048_576),
            vec!["/v1beta/models/gemini-3-pro"],
        ),
        // vLLM
        (
            "compatible/org/m",
            vec![told(
                &json!({"data": [{"id": "other", "max_model_len": 1}, {"id": "org/m", "max_model_len": 32_768}]}),
            )],
            Some(32_768),
            vec!["/v1/models"],
        ),
        // OpenAI's own variable may lead to such a server too.
        (
            "openai/m",
            vec![told(&json!({"data": [{"id": "m", "max_model_len": 9_000}]}))],
            Some(9_000),
            vec!["/v1/models"],
        ),
        (
            "openai-chat/gpt-4o",
            vec![Reply::error(500, ""), Reply::error(404, "")],
            Some(128_000),
            vec!["/v1/models", "/props"],
        ),
        // llama.cpp
        (
            "compatible/m",
            vec![
                told(&json!({"data": [{"id": "m.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131_072}}]})),
                told(&json!({"default_generation_settings": {"n_ctx": 8_192}})),
            ],
            Some(8_192),
            vec!["/v1/models", "/props"],
        ),
        // OpenRouter, LM Studio
        (
            "compatible/a/b",
            vec![told(&json!({"data": [{"id": "a/b", "context_length": 163_840}]}))],
            Some(163_840),
            vec!["/v1/models"],
        ),
        (
            "compatible/m",
            vec![told(&json!({"data": [{"id": "m", "max_context_length": 131_072, "loaded_context_length": 4_096}]}))],
            Some(4_096),
            vec!["/v1/models"],
        ),
        ("compatible/m", vec![none(), none()], None, vec!["/v1/models", "/props"]),
        // Ollama
        (
            "ollama/qwen3",
            vec![told(
                &json!({"parameters": "stop \"x\"\nnum_ctx                        16384\n", "model_info": {"qwen3.context_length": 40_960}}),
            )],
            Some(16_384),
            vec!["/api/show"],
        ),
        (
            "ollama/qwen3",
            vec![told(&json!({})), told(&json!({"models": [{"name": "qwen3:latest", "context_length": 32_768}]}))],
            Some(32_768),
            vec!["/api/show", "/api/ps"],
        ),
        (
            "ollama/qwen3:8b",
            vec![
                none(),
                told(&json!({"models": []})),
                told(&json!({"done": true, "done_reason": "load"})),
                told(&json!({"models": [{"name": "qwen3:8b", "model": "qwen3:8b", "context_length": 8_000}]})),
            ],
            Some(8_000),
            vec!["/api/show", "/api/ps", "/api/generate", "/api/ps"],
        ),
        ("ollama/qwen3", vec![Reply::error(404, "{}")], Some(4_096), vec!["/api/show"]),
    ] {
        let (found, asked) = window(spec, replies).await;
        assert_eq!((found, asked), (expected, paths.into_iter().map(str::to_owned).collect()), "{spec}");
    }
}

#[tokio::test]
async fn a_window_that_can_not_be_true_is_not_believed() {
    for tokens in [json!(0), json!(-5), json!("8192"), json!(1e30), json!(u64::MAX), json!(null)] {
        let list = json!({"data": [{"id": "m", "max_model_len": tokens}]});
        assert_eq!(window("compatible/m", vec![told(&list), Reply::error(404, "")]).await.0, None, "{tokens}");
    }
}

#[tokio::test]
async fn a_provider_that_does_not_tell_holds_nothing_up() {
    for reply in [
        Reply::sse("").end(End::Hang),
        Reply::sse("").end(End::Reset),
        Reply::error(200, "{\"data\"").end(End::Cut),
        Reply::error(200, "no JSON"),
        Reply::error(302, "").header("location", "http://127.0.0.1:1/"),
        Reply::error(200, " ").chunks(vec![vec![b' '; 64 * 1024]]).end(End::Flood),
    ] {
        let start = Instant::now();
        assert_eq!(window("compatible/m", vec![reply]).await.0, None);
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}

#[tokio::test]
async fn the_key_goes_along_as_with_a_turn() {
    let server = Server::start(vec![told(&json!({"max_input_tokens": 5_000}))]).await;
    assert_eq!(server.model("anthropic/claude-x").window().await, Some(5_000));
    let requests = server.requests.lock().unwrap();
    assert_eq!(
        (requests[0].header("x-api-key"), requests[0].header("anthropic-version")),
        (Some(KEY), Some("2023-06-01"))
    );
}

#[tokio::test]
async fn anthropics_limit_of_an_answer_leaves_a_small_window_room() {
    for (window, max_tokens, sent) in [
        (None, None, 32_000),
        (Some(6_000), None, 1_000),
        (Some(6_000), Some(2_000), 2_000),
        (Some(1_000_000), None, 32_000),
    ] {
        let server = Server::start(vec![Reply::sse(crate::bodies::hello("anthropic"))]).await;
        let asking = Asking { max_tokens, window, ..Asking::user("Go.") };
        asking.ask(&*server.model("anthropic/claude-x"), &Sink::default()).await.unwrap();
        assert_eq!(server.body(0)["max_tokens"], sent);
    }
}
