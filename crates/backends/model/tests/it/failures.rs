//! What a provider may do wrong, and what comes of it.

use crate::bodies::hello;
use crate::support::*;
use hookwright_model::{Options, RetryPolicy};
use hookwright_runtime::ports::model::{ModelError, Turn};
use std::time::{Duration, Instant};

async fn play(spec: &str, replies: Vec<Reply>, options: Options) -> (Result<Turn, ModelError>, Sink, usize) {
    let server = Server::start(replies).await;
    let sink = Sink::default();
    let turn = Asking::user("Go.").ask(&*server.model_with(spec, options), &sink).await;
    (turn, sink, server.count())
}

fn overloaded() -> Reply {
    Reply::error(529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#)
}

#[tokio::test]
async fn what_passes_is_asked_again_and_each_time_is_told() {
    for first in [
        Reply::error(429, r#"{"error":{"message":"slow down"}}"#).header("retry-after", "0.01"),
        Reply::error(500, "oops"),
        Reply::error(503, ""),
        overloaded(),
        Reply::sse("").end(End::Reset),
        Reply::sse("data: {\"choi").end(End::Cut),
        Reply::sse("data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n").end(End::Cut),
        Reply::sse("data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n"),
        Reply::sse("data: {\"error\":{\"message\":\"The server had an error\",\"type\":\"server_error\"}}\n\n"),
        Reply::sse(""),
    ] {
        let (turn, sink, count) =
            play("compatible/x", vec![first.clone(), Reply::sse(hello("compatible"))], quick()).await;
        assert_eq!(turn.unwrap().text.as_deref(), Some("hello"), "{}", first.status);
        let notices = sink.notices();
        assert_eq!((count, notices.len()), (2, 1), "{notices:?}");
        assert!(notices[0].contains("compatible/x") && notices[0].contains("attempt 2 of 3"), "{notices:?}");
        // What an attempt streamed before it broke is taken back in words.
        assert_eq!(notices[0].contains("starts anew"), sink.text() == "halfhello", "{notices:?} {}", sink.text());
    }
}

#[tokio::test]
async fn attempts_are_bounded() {
    for reply in [overloaded(), Reply::sse("").end(End::Reset)] {
        let (turn, sink, count) = play("anthropic/claude-x", vec![reply], quick()).await;
        let Err(ModelError::Unavailable(text)) = turn else { panic!("{turn:?}") };
        assert!(text.contains("given up after 3 attempts"), "{text}");
        assert_eq!((count, sink.notices().len()), (3, 2));
    }
    let nobody = Options { retry: RetryPolicy { attempts: 1, ..quick().retry }, ..quick() };
    let env = |name: &str| (name == "OLLAMA_HOST").then(|| "127.0.0.1:1".to_owned());
    let model = hookwright_model::open("ollama/x", &env, &nobody).unwrap();
    let Err(ModelError::Unavailable(text)) = Asking::user("Go.").ask(&*model, &Sink::default()).await else { panic!() };
    assert!(text.contains("is Ollama running") && text.contains("127.0.0.1:1"), "{text}");
}

#[tokio::test]
async fn a_wait_that_the_provider_asks_for_is_kept_and_one_that_is_too_long_ends_the_turn() {
    let again = Reply::error(429, "{}").header("retry-after", "1");
    let start = Instant::now();
    let (turn, sink, _) = play("openai/x", vec![again, Reply::sse(hello("openai"))], quick()).await;
    turn.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert!(sink.notices()[0].contains("asking again in 1.0s"), "{:?}", sink.notices());
    let (turn, _, count) = play("openai/x", vec![Reply::error(429, "{}").header("retry-after", "3600")], quick()).await;
    let Err(ModelError::Unavailable(text)) = turn else { panic!("{turn:?}") };
    assert!(text.contains("3600s") && count == 1, "{text}");
}

#[tokio::test]
async fn what_lasts_is_asked_once() {
    for (reply, check) in [
        (Reply::error(401, r#"{"error":{"message":"bad key"}}"#), "OPENAI_API_KEY"),
        (Reply::error(404, r#"{"error":{"message":"no such model"}}"#), "OPENAI_BASE_URL"),
        (Reply::error(400, r#"{"error":{"message":"bad request"}}"#), "bad request"),
        (Reply::sse("data: {\"error\":{\"message\":\"bad thing\",\"code\":\"invalid_prompt\"}}\n\n"), "bad thing"),
        (Reply::error(200, r#"{"error":{"message":"in disguise"}}"#), "in disguise"),
    ] {
        let (turn, _, count) = play("openai-chat/x", vec![reply], quick()).await;
        let Err(ModelError::Refused(text)) = turn else { panic!("{turn:?}") };
        assert!(text.contains(check) && text.contains("openai-chat/x") && count == 1, "{text}");
    }
}

#[tokio::test]
async fn what_cant_be_read_is_said_to_be_so() {
    for reply in [
        Reply::sse("data: {nonsense}\n\ndata: [DONE]\n\n"),
        Reply::sse("").chunks(vec![
            b"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\xfe\"}}]}\n\n".to_vec(),
            b"data: [DONE]\n\n".to_vec(),
        ]),
        Reply::sse("<html>").header("content-type", "text/html; charset=utf-8"),
        Reply::error(200, "{}"),
    ] {
        let (turn, _, count) = play("compatible/x", vec![reply], quick()).await;
        assert!(matches!(turn, Err(ModelError::Malformed(_))), "{turn:?}");
        assert_eq!(count, 1);
    }
}

#[tokio::test]
async fn characters_cut_between_two_chunks_are_whole() {
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"ä😀\"},\"finish_reason\":\"stop\"}]}\r\n\r\n";
    let chunks = stream.as_bytes().iter().map(|b| vec![*b]).collect();
    let (turn, _, _) = play("compatible/x", vec![Reply::sse("").chunks(chunks)], quick()).await;
    assert_eq!(turn.unwrap().text.as_deref(), Some("ä😀"));
}

#[tokio::test]
async fn silence_ends_an_attempt() {
    let options = Options {
        idle: Duration::from_millis(200),
        retry: RetryPolicy { attempts: 2, first: Duration::from_millis(1), ..RetryPolicy::default() },
        ..Options::default()
    };
    for reply in [
        Reply::sse("data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n").end(End::Hang),
        Reply::error(500, "half of an err").end(End::Hang),
    ] {
        let start = Instant::now();
        let (turn, _, count) = play("compatible/x", vec![reply], options.clone()).await;
        assert!(matches!(turn, Err(ModelError::Unavailable(_))), "{turn:?}");
        assert_eq!(count, 2);
        assert!(start.elapsed() < Duration::from_secs(20));
    }
    // A turn that is whole is not lost because the server does not hang up.
    let whole = Reply::sse("data: {\"choices\":[{\"delta\":{\"content\":\"all\"},\"finish_reason\":\"stop\"}]}\n\n")
        .end(End::Hang);
    let (turn, _, count) = play("compatible/x", vec![whole], options).await;
    assert_eq!((turn.unwrap().text.as_deref(), count), (Some("all"), 1));
}

#[tokio::test]
async fn a_stream_of_signs_of_life_alone_ends_too() {
    let options = Options {
        attempt: Duration::from_millis(300),
        retry: RetryPolicy { attempts: 1, ..RetryPolicy::default() },
        max_response_bytes: u64::MAX,
        ..Options::default()
    };
    let (turn, _, _) =
        play("anthropic/x", vec![Reply::sse("event: ping\ndata: {\"type\":\"ping\"}\n\n").end(End::Flood)], options)
            .await;
    let Err(ModelError::Unavailable(text)) = turn else { panic!("{turn:?}") };
    assert!(text.contains("was not done within 300ms"), "{text}");
}

#[tokio::test]
async fn a_flood_is_cut_off() {
    let options = Options { max_response_bytes: 1024 * 1024, ..quick() };
    for piece in ["data: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "data: a\n", ": comment\n\n", "\n"] {
        let flood = Reply::sse("").chunks(vec![piece.repeat(1_000).into_bytes()]).end(End::Flood);
        let (turn, _, count) = play("compatible/x", vec![flood], options.clone()).await;
        let Err(ModelError::Malformed(text)) = turn else { panic!("{turn:?}") };
        assert!(text.contains("longer than 1048576 bytes") && count == 1, "{text}");
    }
    let flood = Reply::error(400, "x".repeat(10_000)).end(End::Flood);
    let (turn, _, _) = play("compatible/x", vec![flood], options).await;
    let Err(ModelError::Refused(text)) = turn else { panic!("{turn:?}") };
    assert!(text.len() < 2_000);
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_no_key_goes_with_it() {
    let thief = Server::start(vec![Reply::sse(hello("anthropic"))]).await;
    for status in [301, 302, 307, 308] {
        let to = format!("http://{}/v1/messages", thief.address);
        let (turn, _, count) =
            play("anthropic/x", vec![Reply::error(status, "").header("location", &to)], quick()).await;
        let Err(ModelError::Refused(text)) = turn else { panic!("{turn:?}") };
        assert!(text.contains(&to) && text.contains("ANTHROPIC_BASE_URL") && count == 1, "{text}");
    }
    assert_eq!(thief.count(), 0);
}

#[tokio::test]
async fn a_proxy_is_asked_for_other_hosts_unless_it_is_told_not_to() {
    let proxy = Server::start(vec![Reply::sse(hello("compatible"))]).await;
    for (except, asked) in [("", true), ("example.test", false)] {
        let address = proxy.address.clone();
        let env = move |name: &str| match name {
            "HOOKWRIGHT_COMPATIBLE_BASE_URL" => Some("http://gpu.example.test/v1".to_owned()),
            "http_proxy" => Some(format!("http://{address}")),
            "no_proxy" => Some(except.to_owned()),
            _ => None,
        };
        let options = Options { retry: RetryPolicy { attempts: 1, ..RetryPolicy::default() }, ..quick() };
        let model = hookwright_model::open("compatible/x", &env, &options).unwrap();
        let turn = Asking::user("Go.").ask(&*model, &Sink::default()).await;
        assert_eq!(turn.is_ok(), asked, "{turn:?}");
    }
    let requests = proxy.requests.lock().unwrap();
    assert_eq!((requests.len(), requests[0].path.as_str()), (1, "http://gpu.example.test/v1/chat/completions"));
}

#[tokio::test]
async fn a_key_that_comes_back_is_shown_nowhere() {
    let body = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}","type":"{KEY}"}}}}"#);
    for (spec, status) in [("anthropic/x", 401), ("openai/x", 400), ("gemini/x", 500)] {
        let reply = Reply::error(status, body.clone()).header("x-request-id", KEY);
        let (turn, sink, _) = play(spec, vec![reply], quick()).await;
        let text = format!("{:?} {:?}", turn.unwrap_err(), sink.notices());
        assert!(!text.contains(KEY) && text.contains("[key]"), "{text}");
    }
    let stream = Reply::sse(format!(
        "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"x\",\"message\":\"{KEY}\"}}}}\n\n"
    ));
    let (turn, _, _) = play("anthropic/x", vec![stream], quick()).await;
    let text = format!("{:?}", turn.unwrap_err());
    assert!(!text.contains(KEY) && text.contains("[key]"), "{text}");
}

#[tokio::test]
async fn a_full_window_is_its_own_error_in_a_status_and_in_a_stream() {
    let message = r#"{"error":{"message":"Your input exceeds the context window of this model.","code":"context_length_exceeded"}}"#;
    let failed = format!("data: {{\"type\":\"response.failed\",\"response\":{message}}}\n\n");
    let ran_full =
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"model_context_window_exceeded\"}}\n\n";
    for (spec, reply) in [
        ("openai/x", Reply::error(400, message)),
        ("openai/x", Reply::sse(failed)),
        ("anthropic/x", Reply::sse(ran_full)),
    ] {
        let (turn, _, count) = play(spec, vec![reply], quick()).await;
        let Err(error @ ModelError::ContextFull(_)) = turn else { panic!("{turn:?}") };
        assert!(error.to_string().contains("Start a new session") && count == 1, "{error}");
    }
}

#[tokio::test]
async fn a_model_that_does_not_reason_is_asked_again_without_the_wish_and_never_again_with_it() {
    let refused = Reply::error(
        400,
        r#"{"error":{"message":"Encrypted content is not supported with this model.","param":"include"}}"#,
    );
    let server = Server::start(vec![refused, Reply::sse(hello("openai"))]).await;
    let model = server.model("openai/new-model");
    for _ in 0..2 {
        Asking::user("Go.").ask(&*model, &Sink::default()).await.unwrap();
    }
    let wishes: Vec<bool> = (0..3).map(|i| server.body(i).get("include").is_some()).collect();
    assert_eq!(wishes, [true, false, false]);
    let server = Server::start(vec![Reply::sse(hello("openai"))]).await;
    Asking::user("Go.").ask(&*server.model("openai/gpt-4.1-mini"), &Sink::default()).await.unwrap();
    assert_eq!(server.body(0).get("include"), None);
}

#[tokio::test]
async fn a_call_of_geminis_that_it_cant_read_itself_is_asked_again() {
    let bad = Reply::sse(
        "data: {\"candidates\":[{\"finishReason\":\"MALFORMED_FUNCTION_CALL\",\"finishMessage\":\"print(\"}]}\n\n",
    );
    let (turn, sink, count) = play("gemini/x", vec![bad, Reply::sse(hello("gemini"))], quick()).await;
    assert_eq!((turn.unwrap().text.as_deref(), count), (Some("hello"), 2));
    assert!(sink.notices()[0].contains("MALFORMED_FUNCTION_CALL"));
}

#[tokio::test]
async fn dropping_the_turn_ends_the_request() {
    let server =
        Server::start(vec![Reply::sse("data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n").end(End::Hang)])
            .await;
    let model = server.model("compatible/x");
    let (asking, sink) = (Asking::user("Go."), Sink::default());
    let turn = asking.ask(&*model, &sink);
    assert!(tokio::time::timeout(Duration::from_millis(300), turn).await.is_err());
    assert!(sink.text() == "half" || sink.text().is_empty());
}
