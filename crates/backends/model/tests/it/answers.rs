//! Goldens of what each provider's stream becomes, and of what goes back of it.

use crate::support::*;
use hookwright_core::message::StopReason;
use hookwright_runtime::ports::model::{ModelError, Turn};
use serde_json::{Value, json};

fn shown(turn: &Turn) -> Value {
    json!({
        "text": turn.text,
        "calls": turn.calls.iter().map(|c| json!([c.provider_id, c.tool, c.arguments])).collect::<Vec<_>>(),
        "stop": turn.stop,
        "usage": turn.usage,
        "provider_state": turn.provider_state,
    })
}

fn named(events: &[Value]) -> String {
    events
        .iter()
        .map(|e| ["event: ", e["type"].as_str().unwrap(), "\ndata: ", &e.to_string(), "\n\n"].concat())
        .collect()
}

fn plain(events: &[Value]) -> String {
    events.iter().map(|e| ["data: ", &e.to_string(), "\n\n"].concat()).collect()
}

/// Plays an answer, then asks again with it in the conversation.
async fn round_trip(name: &str, spec: &str, stream: String) -> Turn {
    let server = Server::start(vec![Reply::sse(stream), Reply::sse(crate::bodies::hello(name))]).await;
    let model = server.model(spec);
    let sink = Sink::default();
    let mut asking = Asking::user("Push it.");
    let turn = asking.ask(&*model, &sink).await.unwrap();
    assert_eq!(sink.text(), turn.text.clone().unwrap_or_default(), "what is streamed is what the turn holds");
    insta::assert_json_snapshot!(format!("answer__{name}__thoughts_and_calls"), shown(&turn));
    asking.messages.push(message_of(&turn));
    asking.messages.extend(results_of(&turn, "ok"));
    asking.ask(&*model, &sink).await.unwrap();
    insta::assert_json_snapshot!(format!("body__{name}__after_thoughts"), server.body(1));
    turn
}

fn anthropic_thoughts() -> String {
    let delta = |i: u8, d: Value| json!({"type": "content_block_delta", "index": i, "delta": d});
    named(&[
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        delta(0, json!({"type": "thinking_delta", "thinking": "I should "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "push."})),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "ping"}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "ZGF0YQ=="}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}}),
        delta(2, json!({"type": "text_delta", "text": "I "})),
        delta(2, json!({"type": "text_delta", "text": "push."})),
        json!({"type": "content_block_stop", "index": 2}),
        json!({"type": "content_block_start", "index": 3, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "git__push", "input": {}}}),
        delta(3, json!({"type": "input_json_delta", "partial_json": "{\"branch\":"})),
        delta(3, json!({"type": "input_json_delta", "partial_json": "\"main\"}"})),
        json!({"type": "content_block_stop", "index": 3}),
        json!({"type": "content_block_start", "index": 4, "content_block": {"type": "tool_use", "id": "toolu_2", "name": "nobody__knows", "input": {}}}),
        json!({"type": "content_block_stop", "index": 4}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 50}}),
        json!({"type": "message_stop"}),
    ])
}

#[tokio::test]
async fn anthropic_thoughts_and_calls_survive_the_round_trip() {
    let turn = round_trip("anthropic", "anthropic/claude-sonnet-4-5", anthropic_thoughts()).await;
    assert_eq!(turn.usage.map(|u| (u.input_tokens, u.output_tokens)), Some((60, 50)), "cached tokens are input too");
}

#[tokio::test]
async fn openai_reasoning_and_calls_survive_the_round_trip() {
    let call = |id: &str, call_id: &str, name: &str| json!({"type": "function_call", "id": id, "call_id": call_id, "name": name, "arguments": "{\"branch\":\"main\"}", "status": "completed"});
    let items = [
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ZW5j", "status": "completed"}),
        json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "I push.", "annotations": []}]}),
        call("fc_1", "call_1", "git__push"),
        call("fc_2", "call_2", "git__push"),
    ];
    let done = |i: usize| json!({"type": "response.output_item.done", "output_index": i, "item": items[i]});
    let stream = named(&[
        json!({"type": "response.created", "response": {"status": "in_progress"}}),
        done(0),
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "I "}),
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "push."}),
        done(1),
        json!({"type": "response.output_item.added", "output_index": 2, "item": {"type": "function_call", "call_id": "call_1", "name": "git__push", "arguments": ""}}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{\"bra"}),
        done(2),
        done(3),
        json!({"type": "response.completed", "response": {"status": "completed", "output": items, "usage": {
            "input_tokens": 60, "input_tokens_details": {"cached_tokens": 30}, "output_tokens": 50, "output_tokens_details": {"reasoning_tokens": 40}}}}),
    ]);
    round_trip("openai", "openai/gpt-5.1", stream).await;
}

#[tokio::test]
async fn chat_reasoning_and_calls_survive_the_round_trip() {
    let chunk = |delta: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let stream = plain(&[
        chunk(json!({"role": "assistant", "content": null, "reasoning_content": "I should "})),
        chunk(json!({"reasoning_content": "push."})),
        chunk(json!({"content": "I push."})),
        chunk(
            json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "git__push", "arguments": ""}, "extra_content": {"google": {"thought_signature": "c2ln"}}}]}),
        ),
        chunk(
            json!({"tool_calls": [{"index": 1, "id": "call_2", "type": "function", "function": {"name": "git__push", "arguments": "{\"branch\""}}]}),
        ),
        chunk(
            json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"branch\":\"a\"}"}}, {"index": 1, "function": {"arguments": ":\"b\"}"}}]}),
        ),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 60, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 30}}}),
    ]) + "data: [DONE]\n\n";
    round_trip("compatible", "compatible/deepseek", stream).await;
}

#[tokio::test]
async fn gemini_signatures_survive_the_round_trip_and_ids_are_made_up() {
    let parts = |parts: Value| json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}], "usageMetadata": {"promptTokenCount": 60, "cachedContentTokenCount": 30}});
    let mut last = parts(json!([{"functionCall": {"name": "git__push", "args": {"branch": "b"}}}]));
    last["candidates"][0]["finishReason"] = json!("STOP");
    last["usageMetadata"] = json!({"promptTokenCount": 60, "candidatesTokenCount": 10, "thoughtsTokenCount": 40});
    let stream = plain(&[
        parts(json!([{"text": "thinking…", "thought": true}])),
        parts(json!([{"text": "I "}])),
        parts(json!([{"text": "push."}])),
        parts(json!([{"functionCall": {"name": "git__push", "args": {"branch": "a"}}, "thoughtSignature": "c2ln"}])),
        last,
    ]);
    let turn = round_trip("gemini3", "gemini/gemini-3-pro", stream).await;
    assert_eq!(turn.usage.map(|u| (u.input_tokens, u.output_tokens)), Some((60, 50)), "thoughts are output too");
    assert_ne!(turn.calls[0].provider_id, turn.calls[1].provider_id);
}

#[tokio::test]
async fn ids_are_unique_in_the_conversation_even_where_a_server_repeats_them() {
    let chunk = |id: &str| {
        plain(&[json!({"choices": [{"delta": {"tool_calls": [
        {"index": 0, "id": id, "function": {"name": "git__push", "arguments": "{}"}},
        {"index": 1, "id": id, "function": {"name": "git__push", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}]})])
    };
    for id in ["call_0", ""] {
        let server = Server::start(vec![Reply::sse(chunk(id))]).await;
        let model = server.model("compatible/x");
        let mut asking = Asking::user("Go.");
        let mut ids = Vec::new();
        for _ in 0..3 {
            let turn = asking.ask(&*model, &Sink::default()).await.unwrap();
            ids.extend(turn.calls.iter().map(|c| c.provider_id.clone()));
            asking.messages.push(message_of(&turn));
            asking.messages.extend(results_of(&turn, "ok"));
        }
        let mut unique = ids.clone();
        unique.sort();
        unique.dedup();
        assert_eq!((ids.len(), unique.len()), (6, 6), "{ids:?}");
        let sent = server.body(2).to_string();
        for id in &ids[..4] {
            assert_eq!(sent.matches(&format!("{id:?}")).count(), 2, "the call and its result: {id}");
        }
    }
}

/// A stream, and what its turn must be.
async fn turn_of(spec: &str, stream: String) -> Result<Turn, ModelError> {
    let server = Server::start(vec![Reply::sse(stream)]).await;
    Asking::user("Go.").ask(&*server.model(spec), &Sink::default()).await
}

fn anthropic_stop(reason: &str) -> String {
    named(&[
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "half"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": reason}}),
        json!({"type": "message_stop"}),
    ])
}

fn responses_end(kind: &str, response: Value) -> String {
    plain(&[json!({"type": kind, "response": response})])
}

fn chat_stop(reason: &str) -> String {
    plain(&[json!({"choices": [{"delta": {"content": "half"}, "finish_reason": reason}]})])
}

fn gemini_stop(reason: &str) -> String {
    plain(&[json!({"candidates": [{"content": {"parts": [{"text": "half"}]}, "finishReason": reason}]})])
}

#[tokio::test]
async fn stop_reasons_mean_the_same_at_every_provider() {
    let (a, o, c, g) = ("anthropic/claude-x", "openai/gpt-x", "openai-chat/gpt-x", "gemini/gemini-x");
    let message = |part: Value| json!([{"type": "message", "role": "assistant", "content": [part]}]);
    let text = || message(json!({"type": "output_text", "text": "half"}));
    for (spec, stream, stop) in [
        (a, anthropic_stop("end_turn"), StopReason::EndTurn),
        (a, anthropic_stop("max_tokens"), StopReason::MaxTokens),
        (a, anthropic_stop("refusal"), StopReason::Refusal),
        (a, anthropic_stop("something_new"), StopReason::EndTurn),
        (a, anthropic_stop("tool_use"), StopReason::EndTurn),
        (o, responses_end("response.completed", json!({"status": "completed", "output": text()})), StopReason::EndTurn),
        (
            o,
            responses_end(
                "response.incomplete",
                json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": text()}),
            ),
            StopReason::MaxTokens,
        ),
        (
            o,
            responses_end(
                "response.incomplete",
                json!({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": text()}),
            ),
            StopReason::Refusal,
        ),
        (
            o,
            responses_end(
                "response.completed",
                json!({"status": "completed", "output": message(json!({"type": "refusal", "refusal": "half"}))}),
            ),
            StopReason::Refusal,
        ),
        (c, chat_stop("stop"), StopReason::EndTurn),
        (c, chat_stop("length"), StopReason::MaxTokens),
        (c, chat_stop("content_filter"), StopReason::Refusal),
        (c, chat_stop("something_new"), StopReason::EndTurn),
        (
            c,
            plain(&[json!({"choices": [{"delta": {"refusal": "half"}, "finish_reason": "stop"}]})]),
            StopReason::Refusal,
        ),
        (g, gemini_stop("STOP"), StopReason::EndTurn),
        (g, gemini_stop("MAX_TOKENS"), StopReason::MaxTokens),
        (g, gemini_stop("SAFETY"), StopReason::Refusal),
        (g, gemini_stop("OTHER"), StopReason::EndTurn),
    ] {
        let turn = turn_of(spec, stream.clone()).await.unwrap_or_else(|e| panic!("{stream}: {e}"));
        assert_eq!((turn.stop, turn.text.as_deref()), (stop, Some("half")), "{stream}");
    }
    let blocked =
        plain(&[json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 1}})]);
    let turn = turn_of(g, blocked).await.unwrap();
    assert_eq!((turn.stop, turn.text), (StopReason::Refusal, None));
}

#[tokio::test]
async fn calls_make_a_turn_ask_for_calls_but_where_it_was_cut_off_or_refused() {
    let call = json!([{"index": 0, "id": "a", "function": {"name": "git__push", "arguments": "{\"branch\": \"m"}}]);
    for (reason, stop, calls) in [
        ("stop", StopReason::ToolCalls, 1),
        ("something_new", StopReason::ToolCalls, 1),
        ("length", StopReason::MaxTokens, 1),
        ("content_filter", StopReason::Refusal, 0),
    ] {
        let stream = plain(&[json!({"choices": [{"delta": {"tool_calls": call}, "finish_reason": reason}]})]);
        let turn = turn_of("compatible/x", stream).await.unwrap();
        assert_eq!((turn.stop, turn.calls.len()), (stop, calls), "{reason}");
        if let Some(call) = turn.calls.first() {
            assert_eq!(call.arguments, json!("{\"branch\": \"m"), "arguments that were cut off stay text");
        }
    }
}

/// A call that was cut off before the first byte of its arguments looks like a call without any.
#[tokio::test]
async fn a_turn_that_was_cut_off_in_a_call_is_cut_off_at_every_provider() {
    let item =
        json!({"type": "function_call", "call_id": "a", "name": "git__push", "arguments": "", "status": "incomplete"});
    let responses = |reason: &str| {
        let details = json!({"reason": reason});
        let response = json!({"status": "incomplete", "incomplete_details": details, "output": [item]});
        responses_end("response.incomplete", response)
    };
    let anthropic = named(&[
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "a", "name": "git__push", "input": {}}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}),
        json!({"type": "message_stop"}),
    ]);
    let call = json!([{"index": 0, "id": "a", "function": {"name": "git__push", "arguments": ""}}]);
    let part = json!({"functionCall": {"name": "git__push"}});
    for (spec, stream) in [
        ("anthropic/claude-x", anthropic),
        ("openai/gpt-x", responses("max_output_tokens")),
        ("openai/gpt-x", responses("something_new")),
        (
            "openai-chat/gpt-x",
            plain(&[json!({"choices": [{"delta": {"tool_calls": call}, "finish_reason": "length"}]})]),
        ),
        (
            "gemini/gemini-x",
            plain(&[json!({"candidates": [{"content": {"parts": [part]}, "finishReason": "MAX_TOKENS"}]})]),
        ),
    ] {
        let turn = turn_of(spec, stream.clone()).await.unwrap_or_else(|e| panic!("{stream}: {e}"));
        assert_eq!((turn.stop, turn.calls.len()), (StopReason::MaxTokens, 1), "{stream}");
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_object_stay_text() {
    for (raw, expected) in [
        ("", json!({})),
        ("null", json!({})),
        (" {\"a\": 1} ", json!({"a": 1})),
        ("[1]", json!("[1]")),
        ("\"text\"", json!("\"text\"")),
        ("{\"a\": 1, \"a\": 2}", json!("{\"a\": 1, \"a\": 2}")),
        ("{\"a\": NaN}", json!("{\"a\": NaN}")),
    ] {
        let call = json!([{"index": 0, "id": "a", "function": {"name": "git__push", "arguments": raw}}]);
        let stream = plain(&[json!({"choices": [{"delta": {"tool_calls": call}, "finish_reason": "tool_calls"}]})]);
        assert_eq!(turn_of("compatible/x", stream).await.unwrap().calls[0].arguments, expected, "{raw}");
    }
}

#[tokio::test]
async fn odd_servers_are_understood() {
    // No index, the whole call at once, an object for arguments, `message` for `delta`, no [DONE], no usage.
    let calls = json!([{"id": "a", "function": {"name": "git__push", "arguments": {"branch": "x"}}}, {"id": "b", "function": {"name": "db__query", "arguments": "{}"}}]);
    let stream = plain(&[
        json!({"choices": [{"message": {"content": [{"type": "text", "text": "hi"}], "tool_calls": calls}, "finish_reason": "tool_calls"}]}),
    ]);
    let turn = turn_of("compatible/x", stream).await.unwrap();
    let calls: Vec<_> = turn.calls.iter().map(|c| (c.tool.as_str(), c.arguments.clone())).collect();
    assert_eq!(calls, [("git.push", json!({"branch": "x"})), ("db.query", json!({}))]);
    assert_eq!((turn.text.as_deref(), turn.usage), (Some("hi"), None));
    // A message whose text comes only with its item, twice in one answer, and an event that nobody knows.
    let item = |text: &str| json!({"type": "message", "content": [{"type": "output_text", "text": text}]});
    let stream = plain(&[
        json!({"type": "response.new_thing", "x": 1}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item("one")}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": item("two")}),
        json!({"type": "response.completed", "response": {"status": "completed"}}),
    ]);
    assert_eq!(turn_of("openai/x", stream).await.unwrap().text.as_deref(), Some("one\n\ntwo"));
}

#[tokio::test]
async fn hostile_text_passes_unharmed() {
    let text = "\u{1b}[2J\u{202e}\u{0}\r\n</tool>\"\\ 😀 \u{feff}";
    for (spec, stream) in [
        ("compatible/x", plain(&[json!({"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]})])),
        (
            "gemini/x",
            plain(&[json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]})]),
        ),
        (
            "openai/x",
            plain(&[
                json!({"type": "response.output_text.delta", "output_index": 0, "delta": text}),
                json!({"type": "response.completed", "response": {}}),
            ]),
        ),
        ("anthropic/x", anthropic_stop("end_turn").replace("\"half\"", &json!(text).to_string())),
    ] {
        assert_eq!(turn_of(spec, stream).await.unwrap().text.as_deref(), Some(text), "{spec}");
    }
}

#[tokio::test]
async fn three_megabytes_in_small_pieces_are_one_turn() {
    let text = "0123456789äöü😀".repeat(5);
    let piece = plain(&[json!({"choices": [{"delta": {"content": text}}]})]);
    let count = 3 * 1024 * 1024 / text.len();
    let stream = piece.repeat(count) + &chat_stop("stop");
    let chunks = stream.into_bytes().chunks(1_000).map(<[u8]>::to_vec).collect();
    let server = Server::start(vec![Reply::sse("").chunks(chunks)]).await;
    let sink = Sink::default();
    let turn = Asking::user("Go.").ask(&*server.model("compatible/x"), &sink).await.unwrap();
    assert_eq!(turn.text.as_ref().unwrap().len(), count * text.len() + 4);
    assert_eq!(sink.text(), turn.text.unwrap());
}

#[tokio::test]
async fn a_call_with_an_absurd_index_costs_nothing() {
    let call = json!([{"index": 4_294_967_295_u64, "id": "a", "function": {"name": "git__push", "arguments": "{}"}}]);
    let stream = plain(&[json!({"choices": [{"delta": {"tool_calls": call}, "finish_reason": "tool_calls"}]})]);
    assert_eq!(turn_of("compatible/x", stream).await.unwrap().calls.len(), 1);
    let many: Vec<Value> = (0..2_000)
        .map(|i| json!({"index": i, "id": format!("c{i}"), "function": {"name": "f", "arguments": "{}"}}))
        .collect();
    let stream = plain(&[json!({"choices": [{"delta": {"tool_calls": many}, "finish_reason": "tool_calls"}]})]);
    assert!(matches!(turn_of("compatible/x", stream).await, Err(ModelError::Malformed(_))));
}

#[tokio::test]
async fn kept_state_is_used_only_while_it_fits_the_message() {
    let server =
        Server::start(vec![Reply::sse(anthropic_thoughts()), Reply::sse(crate::bodies::hello("anthropic"))]).await;
    let model = server.model("anthropic/claude-sonnet-4-5");
    let mut asking = Asking::user("Push it.");
    let mut turn = asking.ask(&*model, &Sink::default()).await.unwrap();
    turn.text = Some("Something else.".into());
    asking.messages.push(message_of(&turn));
    asking.messages.extend(results_of(&turn, "ok"));
    asking.ask(&*model, &Sink::default()).await.unwrap();
    let sent = server.body(1)["messages"][1]["content"].clone();
    assert_eq!(sent[0], json!({"type": "text", "text": "Something else."}));
    assert!(!sent.to_string().contains("thinking"));
    // And never by a provider that did not make it.
    let other = Server::start(vec![Reply::sse(crate::bodies::hello("openai"))]).await;
    asking.ask(&*other.model("openai/gpt-5.1"), &Sink::default()).await.unwrap();
    assert!(!other.body(0).to_string().contains("c2ln"));
}
