//! Goldens of each provider's request bodies. The SDKs' own types check the same files (`tests/sdk_check`).

use crate::support::*;
use hookwright_core::lifecycle;
use hookwright_core::message::Message;
use serde_json::{Value, json};

/// The providers, a model of each, and an answer that ends a turn.
pub const MODELS: [(&str, &str); 6] = [
    ("anthropic", "anthropic/claude-sonnet-4-5"),
    ("openai", "openai/gpt-5.1"),
    ("openai_chat", "openai-chat/gpt-4.1"),
    ("gemini", "gemini/gemini-2.5-pro"),
    ("gemini3", "gemini/gemini-3-pro"),
    ("compatible", "compatible/qwen-max"),
];

pub fn hello(name: &str) -> String {
    match name {
        "anthropic" => concat!(
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3}}}\n\n",
            "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n",
            "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\n",
            "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        )
        .into(),
        "openai" => concat!(
            "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"hello\"}\n\n",
            "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[],\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n",
        )
        .into(),
        "openai_chat" | "compatible" => concat!(
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"},\"finish_reason\":null}]}\n\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n",
        )
        .into(),
        _ => "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hello\"}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":3,\"candidatesTokenCount\":1}}\r\n\r\n".into(),
    }
}

async fn body(name: &str, spec: &str, asking: &Asking) -> Value {
    let server = Server::start(vec![Reply::sse(hello(name))]).await;
    let sink = Sink::default();
    let turn = asking.ask(&*server.model(spec), &sink).await.unwrap();
    assert_eq!(turn.text.as_deref(), Some("hello"));
    assert_eq!(turn.usage.map(|u| (u.input_tokens, u.output_tokens)), Some((3, 1)), "{name}");
    server.body(0)
}

#[tokio::test]
async fn the_first_request_of_a_job() {
    for (name, spec) in MODELS {
        let asking =
            Asking { instructions: Some("Review the change."), max_tokens: Some(1_000), ..Asking::user("Hi.") };
        insta::assert_json_snapshot!(format!("body__{name}__first"), body(name, spec, &asking).await);
    }
}

#[tokio::test]
async fn a_request_with_calls_and_results() {
    for (name, spec) in MODELS {
        let asking = Asking { messages: conversation(), functions: functions(), ..Asking::default() };
        insta::assert_json_snapshot!(format!("body__{name}__calls"), body(name, spec, &asking).await);
    }
}

#[tokio::test]
async fn a_request_for_an_output_with_a_schema() {
    for (name, spec) in MODELS {
        let asking = Asking { output_schema: Some(output_schema()), ..Asking::user("How risky is it?") };
        insta::assert_json_snapshot!(format!("body__{name}__schema"), body(name, spec, &asking).await);
    }
}

#[tokio::test]
async fn a_schema_that_a_provider_would_tighten_is_asked_for_in_words() {
    let open = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let asking = Asking { output_schema: Some(open.clone()), ..Asking::user("?") };
    for (name, spec) in
        [("anthropic", "anthropic/claude-sonnet-4-5"), ("anthropic", "anthropic/claude-3-5-haiku-latest")]
    {
        let body = body(name, spec, &asking).await;
        assert!(body["system"][0]["text"].as_str().unwrap().contains(&open.to_string()), "{body}");
        assert_eq!(body.get("output_config"), None);
    }
    let list = Asking { output_schema: Some(json!({"type": "array"})), ..Asking::user("?") };
    let body = body("openai", "openai/gpt-5.1", &list).await;
    assert!(
        body["instructions"].as_str().unwrap().contains(r#"{"type":"array"}"#) && body.get("text").is_none(),
        "{body}"
    );
}

#[tokio::test]
async fn each_request_goes_to_its_path_with_its_headers_and_no_other_key() {
    for (name, spec, path, header) in [
        ("anthropic", "anthropic/claude-x", "/v1/messages", Some("x-api-key")),
        ("openai", "openai/gpt-x", "/v1/responses", Some("authorization")),
        ("openai_chat", "openai-chat/gpt-x", "/v1/chat/completions", Some("authorization")),
        (
            "gemini",
            "gemini/models/gemini-x",
            "/v1beta/models/gemini-x:streamGenerateContent?alt=sse",
            Some("x-goog-api-key"),
        ),
        ("compatible", "ollama/qwen3:8b", "/v1/chat/completions", None),
        ("compatible", "compatible/a/b", "/v1/chat/completions", None),
    ] {
        let server = Server::start(vec![Reply::sse(hello(name))]).await;
        Asking::user("Hi.").ask(&*server.model(spec), &Sink::default()).await.unwrap();
        let requests = server.requests.lock().unwrap();
        assert_eq!(requests[0].path, path);
        for key in ["x-api-key", "authorization", "x-goog-api-key"] {
            let value = requests[0].header(key).map(|v| v.trim_start_matches("Bearer "));
            assert_eq!(value, (header == Some(key)).then_some(KEY), "{spec} {key}");
        }
        assert!(requests[0].header("user-agent").unwrap().starts_with("hookwright/"));
        assert_eq!(requests[0].header("anthropic-version").is_some(), name == "anthropic");
    }
}

#[tokio::test]
async fn nothing_that_is_sent_is_empty_where_a_provider_refuses_that() {
    let asking = Asking {
        messages: vec![
            assistant(None, vec![call("a", "todo._Stop", json!({}))]),
            result("a", "todo._Stop", json!([]), false),
            assistant(Some(" \n"), vec![]),
            user(" "),
        ],
        functions: vec![],
        instructions: Some(""),
        ..Asking::default()
    };
    let body = body("anthropic", "anthropic/claude-sonnet-4-5", &asking).await;
    insta::assert_json_snapshot!("body__anthropic__empty", body);
    let gemini = self::body("gemini3", "gemini/gemini-3-pro", &asking).await;
    insta::assert_json_snapshot!("body__gemini3__empty", gemini);
}

#[tokio::test]
async fn openai_is_sent_no_longer_description_than_it_takes() {
    let mut asking = Asking::user("Hi.");
    asking.functions[0].description = Some("ä".repeat(5_000));
    let openai = body("openai_chat", "openai-chat/gpt-4.1", &asking).await;
    let sent = openai["tools"][0]["function"]["description"].as_str().unwrap().to_owned();
    assert_eq!((sent.chars().count(), sent.ends_with('…')), (1_024, true));
    let other = body("compatible", "compatible/x", &asking).await;
    assert_eq!(other["tools"][0]["function"]["description"].as_str().unwrap().chars().count(), 5_000);
}

/// What lifecycle hooks said before the first turn, and two objections after the model ended its turn (SPEC §9).
fn advised() -> Vec<Message> {
    let body = |hook: &str, server: &str, text: &str| json!(lifecycle::body(hook_of(hook), server, text, 16_384));
    let deliver = |hook: &str, delivery: u32, said: &[(&str, &str)]| {
        let id = |i: usize| lifecycle::provider_id(hook_of(hook), "job-1", delivery, i);
        let tool = |server: &str| format!("{server}.{hook}");
        let calls = said.iter().enumerate().map(|(i, (server, _))| call(&id(i), &tool(server), json!({}))).collect();
        let results = said
            .iter()
            .enumerate()
            .map(|(i, (server, text))| result(&id(i), &tool(server), body(hook, server, text), false));
        std::iter::once(assistant(None, calls)).chain(results).collect::<Vec<_>>()
    };
    let mut messages = vec![user("Tidy up.")];
    messages.extend(deliver("_UserPromptSubmit", 0, &[("memory", "The user likes short answers.")]));
    messages.push(assistant(Some("I am done."), vec![]));
    messages.extend(deliver("_Stop", 1, &[("todo", "2 items are \"open\"\n"), ("fake", "\u{1b}[31mNo.")]));
    messages
}

fn hook_of(name: &str) -> lifecycle::Point {
    lifecycle::Point::of_function(name).unwrap()
}

#[tokio::test]
async fn what_lifecycle_hooks_said_is_a_well_formed_pair_of_call_and_result_everywhere() {
    for (name, spec) in MODELS {
        let asking = Asking { messages: advised(), functions: functions(), ..Asking::default() };
        let body = body(name, spec, &asking).await;
        assert_eq!(body.to_string().matches("hw_stop_").count(), 4, "{name}");
        insta::assert_json_snapshot!(format!("body__{name}__lifecycle"), body);
    }
}

#[tokio::test]
async fn a_conversation_in_which_only_hooks_spoke_declares_a_tool_where_that_is_demanded() {
    let asking = Asking { messages: advised(), ..Asking::default() };
    let body = body("anthropic", "anthropic/claude-sonnet-4-5", &asking).await;
    assert_eq!((&body["tools"][0]["name"], &body["tool_choice"]["type"]), (&json!("none"), &json!("none")));
    let plain =
        self::body("anthropic", "anthropic/claude-sonnet-4-5", &Asking { functions: vec![], ..Asking::user("Hi.") })
            .await;
    assert!(plain.get("tools").is_none() && plain.get("tool_choice").is_none());
}
