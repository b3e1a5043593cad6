use super::*;
use serde_json::Value;
use std::collections::VecDeque;
use tokio::io::{AsyncBufReadExt as _, BufReader, DuplexStream, duplex, split};

/// A node whose sessions the test holds the other ends of.
#[derive(Default)]
struct Nodes {
    /// Links for those who attach, in order; none left: no node.
    links: Mutex<VecDeque<Link>>,
    ids_from: Mutex<Vec<u64>>,
}

#[async_trait::async_trait]
impl Attach for Nodes {
    async fn attach(&self, ids_from: u64) -> Result<Link, String> {
        self.ids_from.lock().unwrap().push(ids_from);
        self.links.lock().unwrap().pop_front().ok_or_else(|| "no node runs; start one".to_owned())
    }
}

/// One end of a talk: lines in both directions.
struct End(BufReader<DuplexStream>);

impl End {
    async fn say(&mut self, line: &str) {
        self.0.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> String {
        let mut line = String::new();
        timeout(Duration::from_mins(1), self.0.read_line(&mut line)).await.expect("a line in time").unwrap();
        line.trim_end().to_owned()
    }

    async fn value(&mut self) -> Value {
        let line = self.hear().await;
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }
}

fn link() -> (Link, End) {
    let (ours, theirs) = duplex(1 << 16);
    let (reader, writer) = split(ours);
    (Link { reader: Box::new(reader), writer: Box::new(writer), message_bytes: 1_000 }, End(BufReader::new(theirs)))
}

struct World {
    client: End,
    sessions: VecDeque<End>,
    nodes: Arc<Nodes>,
    stop: CancellationToken,
    relay: JoinHandle<Ended>,
}

/// A relay whose node is started anew so many times.
fn world(again: usize) -> World {
    let nodes = Arc::new(Nodes::default());
    let (first, session) = link();
    let mut sessions = VecDeque::from([session]);
    for _ in 0..again {
        let (link, session) = link();
        nodes.links.lock().unwrap().push_back(link);
        sessions.push_back(session);
    }
    let (ours, theirs) = duplex(1 << 16);
    let (reader, writer) = split(ours);
    let stop = CancellationToken::new();
    let relay = tokio::spawn(relay(nodes.clone(), first, "1.2.3".into(), reader, writer, stop.clone()));
    World { client: End(BufReader::new(theirs)), sessions, nodes, stop, relay }
}

const HELLO_LINE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;

impl World {
    fn session(&mut self) -> End {
        self.sessions.pop_front().unwrap()
    }

    /// Passes on a line of the client, and shows that it came as it was.
    async fn up(&mut self, session: &mut End, line: &str) {
        self.client.say(line).await;
        assert_eq!(session.hear().await, line);
    }

    async fn down(&mut self, session: &mut End, line: &str) {
        session.say(line).await;
        assert_eq!(self.client.hear().await, line);
    }

    async fn greeted(&mut self) -> End {
        let mut session = self.session();
        self.up(&mut session, HELLO_LINE).await;
        self.down(&mut session, r#"{"jsonrpc":"2.0","id":0,"result":{}}"#).await;
        self.up(&mut session, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        session
    }
}

#[tokio::test]
async fn messages_pass_as_they_are_in_both_directions() {
    let mut world = world(0);
    let mut session = world.greeted().await;
    for line in [
        r#"{"jsonrpc":"2.0","id":"a\u0041","method":"tools/call","params":{"name":"t.f","arguments":{"n":1.50}}}"#,
        "no message at all",
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
    ] {
        world.up(&mut session, line).await;
    }
    world.down(&mut session, r#"{"id":"a\u0041","jsonrpc":"2.0","result":{"content":[]}}"#).await;
    world.down(&mut session, r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#).await;
    world.client.say(&format!("\"{}\"", "x".repeat(2_000))).await;
    let too_long = world.client.value().await;
    assert_eq!((&too_long["id"], &too_long["error"]["code"]), (&Value::Null, &json!(wire::INVALID_REQUEST)));
    drop(world.client);
    assert_eq!(session.hear().await, "", "its end is passed on");
    drop(session);
    assert_eq!(world.relay.await.unwrap(), Ended::Closed);
}

#[tokio::test]
async fn what_is_under_way_when_the_node_dies_is_answered_and_nothing_is_sent_twice() {
    let mut world = world(1);
    let mut session = world.greeted().await;
    world.up(&mut session, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"git.push"}}"#).await;
    world.up(&mut session, r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#).await;
    world.up(&mut session, r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"git.log"}}"#).await;
    world.up(&mut session, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#).await;
    world.down(&mut session, r#"{"jsonrpc":"2.0","id":7,"method":"roots/list"}"#).await;
    drop(session);
    let mut told = vec![];
    for _ in 0..3 {
        told.push(world.client.value().await);
    }
    told.sort_by_key(|message| message["id"].as_i64().unwrap_or(99));
    assert_eq!(told[0]["result"]["isError"], true);
    assert_eq!(
        told[0]["result"]["content"][0]["text"],
        "It is not known whether the call to git.push was made: the node ended meanwhile. Check before you call it again."
    );
    assert_eq!((&told[1]["id"], &told[1]["error"]["code"]), (&json!(2), &json!(wire::INTERNAL)));
    assert_eq!((&told[2]["method"], &told[2]["params"]["requestId"]), (&json!("notifications/cancelled"), &json!(7)));
    // What belonged to that session starts no other one.
    world.client.say(r#"{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}"#).await;
    world.client.say(r#"{"jsonrpc":"2.0","id":4,"method":"ping"}"#).await;
    let mut again = world.session();
    assert_eq!(again.hear().await, HELLO_LINE);
    again.say(r#"{"jsonrpc":"2.0","id":0,"result":{"new":true}}"#).await;
    assert_eq!(again.value().await["method"], "notifications/initialized");
    assert_eq!(again.hear().await, r#"{"jsonrpc":"2.0","id":4,"method":"ping"}"#, "neither the old answer nor a call");
    assert_eq!(world.client.value().await["method"], "notifications/tools/list_changed");
    assert!(world.nodes.ids_from.lock().unwrap()[0] > 7, "its ids are none of the earlier session's");
}

#[tokio::test]
async fn what_the_client_has_set_is_set_in_a_new_session_and_its_answers_are_nobodys() {
    let mut world = world(1);
    let mut session = world.greeted().await;
    let set = |id: i32, method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    for (id, method, params) in [
        (1, "logging/setLevel", json!({"level": "error"})),
        (2, "logging/setLevel", json!({"level": "info"})),
        (3, "resources/subscribe", json!({"uri": "a:1"})),
        (4, "resources/subscribe", json!({"uri": "a:2"})),
        (5, "resources/unsubscribe", json!({"uri": "a:1"})),
    ] {
        world.up(&mut session, &set(id, method, params)).await;
        world.down(&mut session, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)).await;
    }
    drop(session);
    // Its end is noticed by itself; nothing was under way.
    tokio::time::timeout(Duration::from_mins(1), async {
        while world.nodes.ids_from.lock().unwrap().is_empty() {
            world.client.say(r#"{"jsonrpc":"2.0","id":6,"method":"ping"}"#).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    let mut again = world.session();
    assert_eq!(again.hear().await, HELLO_LINE);
    again.say(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#).await;
    assert_eq!(again.value().await["method"], "notifications/initialized");
    let (level, resource) = (again.value().await, again.value().await);
    assert_eq!((&level["method"], &level["params"]["level"]), (&json!("logging/setLevel"), &json!("info")));
    assert_eq!((&resource["method"], &resource["params"]["uri"]), (&json!("resources/subscribe"), &json!("a:2")));
    for ours in [&level, &resource] {
        again.say(&json!({"jsonrpc": "2.0", "id": ours["id"], "result": {}}).to_string()).await;
    }
    again.say(r#"{"jsonrpc":"2.0","id":6,"result":{}}"#).await;
    loop {
        let told = world.client.value().await;
        assert!(!told["id"].is_string(), "{told}");
        if told["id"] == 6 && told["result"].is_object() {
            break;
        }
    }
}

#[tokio::test]
async fn where_there_is_no_node_calls_are_not_made_and_the_next_ones_try_again() {
    let mut world = world(0);
    let session = world.session();
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    drop(session);
    for id in 0..2 {
        let call =
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t.f", "_meta": meta}});
        // Where it has not been noticed yet that the node is gone, it is noticed by this call.
        let told = loop {
            world.client.say(&call.to_string()).await;
            let told = world.client.value().await;
            if told["result"]["content"][0]["text"].as_str().unwrap().contains("was not made") {
                break told;
            }
        };
        assert_eq!(told["result"]["content"][0]["text"], "The call to t.f was not made: no node runs; start one.");
        assert_eq!((&told["result"]["isError"], &told["result"]["resultType"]), (&json!(true), &json!("complete")));
    }
    world.client.say(r#"{"jsonrpc":"2.0","id":9,"method":"tools/list"}"#).await;
    assert_eq!(world.client.value().await["error"]["message"], "no node runs; start one");
    let (link, mut again) = link();
    world.nodes.links.lock().unwrap().push_back(link);
    let ping = r#"{"jsonrpc":"2.0","id":10,"method":"server/discover"}"#;
    world.client.say(ping).await;
    assert_eq!(again.hear().await, ping, "without a hello nothing is said before it");
}

#[tokio::test]
async fn a_relay_that_is_stopped_says_so_to_the_session() {
    let mut world = world(0);
    let mut session = world.greeted().await;
    world.stop.cancel();
    assert_eq!(session.value().await["method"], STOPPED);
    assert_eq!(session.hear().await, "");
    drop(session);
    assert_eq!(world.relay.await.unwrap(), Ended::Closed);
}
