//! The matrix: what a node says, or doesn't, and what then happens to a call.

use crate::agents;
use crate::clients::{Client, Setup};
use crate::lab::{Ended, Lab, Run};
use crate::node::{Say, Says};
use hookwright_bridge::{Moment, Output, Reply, What};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// One case.
pub(crate) struct Case {
    /// What must hold.
    pub(crate) name: &'static str,
    /// For which clients it makes sense.
    pub(crate) fits: fn(Client) -> bool,
    /// Runs it; panics where it does not hold.
    pub(crate) run: fn(&Lab, Client, &str),
}

/// What models are told where a hook says no.
const NO: &str = "The call was not made: hook policy.check denied it: Zoë says “no” 🚫.";
/// The call's side effect, and a word that only its result holds.
const COMMAND: &str = "echo made > out.txt; echo mar''zipan";

fn any(_: Client) -> bool {
    true
}

pub(crate) fn all() -> Vec<Case> {
    let case = |name, fits, run| Case { name, fits, run };
    vec![
        case("an allowed call is made, and hooks see prompt, call, result and end", any, allowed),
        case("a denied call is not made, and the model reads why", any, denied),
        case("a rewritten call is made as it was rewritten", any, rewritten),
        case("a person's late yes lets the call through", any, late_yes),
        case("a person's late no denies it", any, late_no),
        case("a node that hangs is a no within the deadline", any, hanging),
        case("a node that is killed over a question is a no", any, killed),
        case("a node that says nonsense is a no", any, nonsense),
        case("without a node nothing is done", any, no_node),
        case("without our program nothing is done", any, no_program),
        case("huge arguments reach the hook whole, and are denied or let as others are", any, huge),
        case(
            "an MCP call has its alias, and a denied one does not reach the server",
            |client| client != Client::Cline,
            mcp_denied,
        ),
        case(
            "an MCP call that is allowed reaches it, with every letter",
            |client| client != Client::Cline,
            mcp_allowed,
        ),
        case("a subagent's call is told as its own, and can be denied", |client| client.delegate().is_some(), subagent),
        case(
            "a withheld result is not read by the model",
            |client| client.harness().caps().rewrites_output != Output::No,
            withheld,
        ),
        case(
            "a replaced result is what the model reads",
            |client| client.harness().caps().rewrites_output == Output::Replaced,
            replaced,
        ),
        case("a refused prompt never reaches the model", |client| client.harness().caps().prompts, prompt),
        case("a stop is held once and not twice in a row", |client| client.harness().caps().holds_stop, held_once),
        case("taken out again, the configuration is what it was, and nothing is asked", any, uninstalled),
        case("a result of an unknown shape ends the turn, and the model does not read it later either", claude, ended),
        case("with a real node and real hooks, all of it stands in the history", any, real_node),
        case("a person's yes in the real node lets the very call through", any, real_yes),
        case("managed hooks stand where a user switches hooks off", managed, managed_stand),
        case("as an agent of ours, its calls, results and output are hooked", is_agent, agents::watched),
        case("as an agent of ours, it waits for a person", is_agent, agents::decided),
    ]
}

fn is_agent(client: Client) -> bool {
    agents::harness(client).is_some()
}

fn claude(client: Client) -> bool {
    matches!(client, Client::ClaudeCode | Client::AgentSdk)
}

fn managed(client: Client) -> bool {
    matches!(client, Client::ClaudeCode | Client::AgentSdk | Client::Codex)
}

/// One call of the shell, then words.
fn one_call(client: Client, command: &str) -> Setup {
    Setup::turns(vec![vec![client.shell(command)], vec![json!({"text": "FINISHED"})]])
}

/// A node that says this before calls, and yes to all else.
fn before(say: impl Fn() -> Say + Send + Sync + 'static) -> Option<Says> {
    Some(Arc::new(move |what, _| if matches!(what, What::Before { .. }) { say() } else { Say::Reply(Reply::Allow) }))
}

fn at(moment: Moment, reply: Reply) -> Option<Says> {
    Some(Arc::new(move |what, _| {
        Say::Reply(if crate::node::moment(what) == moment { reply.clone() } else { Reply::Allow })
    }))
}

fn installed<'a>(lab: &'a Lab, client: Client, name: &str) -> Run<'a> {
    let run = Run::new(lab, client, name);
    run.install(&[]);
    run
}

/// With a deadline that a test can wait for.
fn impatient<'a>(lab: &'a Lab, client: Client, name: &str) -> Run<'a> {
    let run = Run::new(lab, client, name);
    run.install(&["--deadline", "3"]);
    run
}

/// Nothing happened, and the model was told so; Cline ends the run instead.
fn assert_denied(ended: &Ended, why: &str) {
    assert_eq!(ended.file("out.txt"), None, "the call was made: {}", ended.story());
    assert!(!ended.told("marzipan"), "{}", ended.story());
    if ended.run.client == Client::Cline {
        assert_eq!(ended.turns(), 1, "a denied call ends the run: {}", ended.story());
    } else {
        assert!(ended.told(why), "the model was not told {why:?}: {}", ended.story());
    }
}

fn assert_made(ended: &Ended) {
    assert_eq!(ended.file("out.txt").as_deref(), Some("made\n"), "{}", ended.story());
    assert!(ended.told("marzipan"), "{}", ended.story());
}

fn allowed(lab: &Lab, client: Client, name: &str) {
    let ended = installed(lab, client, name).go(&one_call(client, COMMAND), before(|| Say::Reply(Reply::Allow)));
    assert_made(&ended);
    let (tool, _) = client.hooked("");
    let calls = ended.calls();
    assert_eq!((calls.len(), calls[0].tool.as_str()), (1, tool), "{}", ended.story());
    assert!(calls[0].arguments.to_string().contains("echo made > out.txt"), "{}", ended.story());
    assert!(ended.asked.iter().all(|request| request.ask.harness == client.harness()), "{}", ended.story());
    let results: Vec<&Value> = ended
        .asked
        .iter()
        .filter_map(|request| if let What::After { result, .. } = &request.ask.what { Some(result) } else { None })
        .collect();
    assert!(results.len() == 1 && results[0].to_string().contains("marzipan"), "{}", ended.story());
    if client.harness().caps().prompts {
        assert_eq!(ended.count(Moment::Prompt), 1, "{}", ended.story());
        let prompt = ended
            .asked
            .iter()
            .find_map(|request| if let What::Prompt { text } = &request.ask.what { Some(text.as_str()) } else { None });
        assert!(prompt.is_some_and(|prompt| prompt.contains("please GO now")), "{}", ended.story());
    }
    let output = ended
        .asked
        .iter()
        .find_map(|request| if let What::Stop { output, .. } = &request.ask.what { output.as_deref() } else { None });
    assert!(output.is_some_and(|output| output.contains("FINISHED")), "{}", ended.story());
}

fn denied(lab: &Lab, client: Client, name: &str) {
    let says = before(|| Say::Reply(Reply::Deny { text: NO.to_owned() }));
    let ended = installed(lab, client, name).go(&one_call(client, COMMAND), says);
    assert_denied(&ended, NO);
    assert_eq!(ended.count(Moment::After), 0, "{}", ended.story());
}

fn rewritten(lab: &Lab, client: Client, name: &str) {
    let (_, arguments) = client.hooked("echo changed > out.txt");
    let says = before(move || Say::Reply(Reply::Rewrite { arguments: arguments.clone() }));
    let ended = installed(lab, client, name).go(&one_call(client, COMMAND), says);
    assert_eq!(ended.file("out.txt").as_deref(), Some("changed\n"), "{}", ended.story());
    assert!(!ended.told("marzipan"), "{}", ended.story());
}

fn late_yes(lab: &Lab, client: Client, name: &str) {
    let says = before(|| Say::Later(Duration::from_secs(3), Reply::Allow));
    let ended = installed(lab, client, name).go(&one_call(client, COMMAND), says);
    assert_made(&ended);
    assert!(ended.took > Duration::from_secs(3));
}

fn late_no(lab: &Lab, client: Client, name: &str) {
    let says = before(|| Say::Later(Duration::from_secs(3), Reply::Deny { text: NO.to_owned() }));
    let ended = installed(lab, client, name).go(&one_call(client, COMMAND), says);
    assert_denied(&ended, NO);
}

fn hanging(lab: &Lab, client: Client, name: &str) {
    let ended = impatient(lab, client, name).go(&one_call(client, COMMAND), before(|| Say::Hang));
    assert_denied(&ended, "Hookwright let nothing through, because its node did not answer within 3s.");
}

fn killed(lab: &Lab, client: Client, name: &str) {
    let ended = installed(lab, client, name).go(&one_call(client, COMMAND), before(|| Say::HangUp));
    assert_denied(&ended, "Hookwright let nothing through, because its node gave no answer that can be used");
}

fn nonsense(lab: &Lab, client: Client, name: &str) {
    let ended = installed(lab, client, name).go(&one_call(client, COMMAND), before(|| Say::Nonsense));
    assert_denied(&ended, "Hookwright let nothing through, because its node gave no answer that can be used");
}

fn no_node(lab: &Lab, client: Client, name: &str) {
    let run = Run::new(lab, client, name);
    let said = run.install(&[]);
    assert!(said.contains("probe: until a node runs for this store, every call is denied"), "{said}");
    let ended = run.go(&one_call(client, COMMAND), None);
    assert_eq!(ended.file("out.txt"), None, "{}", ended.story());
    assert!(!ended.told("marzipan"), "{}", ended.story());
    if client.harness().caps().prompts {
        assert!(!ended.told("please GO now"), "the prompt was to be refused: {}", ended.story());
    }
}

fn no_program(lab: &Lab, client: Client, name: &str) {
    let run = installed(lab, client, name);
    std::fs::remove_file(&run.program).unwrap();
    let ended = run.go(&one_call(client, COMMAND), before(|| Say::Reply(Reply::Allow)));
    assert_eq!(ended.file("out.txt"), None, "{}", ended.story());
    assert!(!ended.told("marzipan"), "{}", ended.story());
}

fn huge(lab: &Lab, client: Client, name: &str) {
    // More than a pipe holds, and less than Linux lets a shell take as one word, also where it is quoted again.
    let filler = "ü".repeat(33_000);
    let command = format!(": '{filler}'; {COMMAND}");
    let ended = installed(lab, client, name).go(&one_call(client, &command), before(|| Say::Reply(Reply::Allow)));
    assert_made(&ended);
    assert!(ended.calls()[0].arguments.to_string().contains(&filler), "the hook did not see all of it");
    let says = before(|| Say::Reply(Reply::Deny { text: NO.to_owned() }));
    assert_denied(&installed(lab, client, name).go(&one_call(client, &command), says), NO);
}

fn greeting(client: Client) -> Setup {
    Setup::turns(vec![vec![client.greet("Zoë 🚀")], vec![json!({"text": "FINISHED"})]])
}

fn mcp_denied(lab: &Lab, client: Client, name: &str) {
    let says = before(|| Say::Reply(Reply::Deny { text: NO.to_owned() }));
    let ended = installed(lab, client, name).go(&greeting(client), says);
    assert_eq!(ended.file("greeted.txt"), None, "{}", ended.story());
    assert!(ended.told(NO), "{}", ended.story());
    let calls = ended.calls();
    assert_eq!(calls.len(), 1, "{}", ended.story());
    assert!(calls[0].aliases.contains(&"brg.greet".to_owned()), "{}", ended.story());
    assert_eq!(calls[0].arguments, json!({"name": "Zoë 🚀"}));
}

fn mcp_allowed(lab: &Lab, client: Client, name: &str) {
    let ended = installed(lab, client, name).go(&greeting(client), before(|| Say::Reply(Reply::Allow)));
    assert_eq!(ended.file("greeted.txt").as_deref(), Some("Zoë 🚀\n"), "{}", ended.story());
    assert!(ended.told("hello Zoë 🚀, the word is marzipan"), "{}", ended.story());
}

fn subagent(lab: &Lab, client: Client, name: &str) {
    let setup = Setup::turns(vec![vec![client.delegate().unwrap()], vec![json!({"text": "FINISHED"})]])
        .with_subagent(vec![vec![client.shell(COMMAND)], vec![json!({"text": "SUBDONE"})]]);
    let says: Says = Arc::new(|what, request| {
        let in_subagent = request.ask.agent.is_some() && matches!(what, What::Before { .. });
        Say::Reply(if in_subagent { Reply::Deny { text: NO.to_owned() } } else { Reply::Allow })
    });
    let ended = installed(lab, client, name).go(&setup, Some(says));
    assert_eq!(ended.file("out.txt"), None, "{}", ended.story());
    assert!(ended.told(NO), "{}", ended.story());
    let of_subagent: Vec<_> = ended.asked.iter().filter(|request| request.ask.agent.is_some()).collect();
    assert!(of_subagent.iter().any(|request| matches!(request.ask.what, What::Before { .. })), "{}", ended.story());
}

fn withheld(lab: &Lab, client: Client, name: &str) {
    let text = "The result was withheld: hook policy.check denied it: no 🚫.";
    let ended = installed(lab, client, name)
        .go(&one_call(client, COMMAND), at(Moment::After, Reply::Withhold { text: text.to_owned() }));
    assert_eq!(ended.file("out.txt").as_deref(), Some("made\n"), "{}", ended.story());
    assert!(!ended.told("marzipan"), "{}", ended.story());
    if client.harness().caps().rewrites_output == Output::Replaced || claude(client) {
        assert!(ended.told(text), "{}", ended.story());
    }
    if client.harness().caps().rewrites_output == Output::Replaced || claude(client) {
        let mcp = installed(lab, client, name)
            .go(&greeting(client), at(Moment::After, Reply::Withhold { text: text.to_owned() }));
        assert_eq!(mcp.file("greeted.txt").as_deref(), Some("Zoë 🚀\n"), "{}", mcp.story());
        assert!(!mcp.told("marzipan") && mcp.told(text), "{}", mcp.story());
    }
}

fn replaced(lab: &Lab, client: Client, name: &str) {
    let reply = Reply::Replace { result: json!("nougat 🚀") };
    let ended = installed(lab, client, name).go(&one_call(client, COMMAND), at(Moment::After, reply));
    assert!(ended.told("nougat 🚀") && !ended.told("marzipan"), "{}", ended.story());
}

fn prompt(lab: &Lab, client: Client, name: &str) {
    let ended = installed(lab, client, name)
        .go(&one_call(client, COMMAND), at(Moment::Prompt, Reply::Deny { text: NO.to_owned() }));
    assert!(!ended.told("please GO now"), "{}", ended.story());
    assert_eq!(ended.file("out.txt"), None, "{}", ended.story());
}

fn held_once(lab: &Lab, client: Client, name: &str) {
    let go_on = "hook policy.check says: go on with the “rest”";
    let ended = installed(lab, client, name)
        .go(&one_call(client, COMMAND), at(Moment::Stop, Reply::Hold { text: go_on.to_owned() }));
    assert!(ended.told(go_on), "{}", ended.story());
    assert_eq!(ended.count(Moment::Stop), 2, "{}", ended.story());
    assert_eq!(ended.turns(), 3, "{}", ended.story());
}

fn uninstalled(lab: &Lab, client: Client, name: &str) {
    let run = Run::new(lab, client, name);
    let before = files(&run);
    run.install(&[]);
    assert_ne!(files(&run), before);
    run.uninstall();
    assert_eq!(files(&run), before);
    let ended =
        run.go(&one_call(client, COMMAND), Some(Arc::new(|_, _| Say::Reply(Reply::Deny { text: NO.to_owned() }))));
    assert_made(&ended);
    assert!(ended.asked.is_empty(), "{}", ended.story());
}

/// The files of the home that a configuration may stand in.
fn files(run: &Run) -> Vec<(String, String)> {
    let home = run.folder.join("home");
    let folders = [
        ".claude",
        ".codex",
        ".gemini",
        ".copilot",
        ".config/opencode/plugins",
        ".config/opencode/opencode.json",
        ".cline/hooks",
    ];
    let mut found = vec![];
    for folder in folders {
        let output = std::process::Command::new("find")
            .arg(home.join(folder))
            .args(["-maxdepth", "2", "-type", "f", "-name", "*[jsontUPe]"])
            .output()
            .unwrap();
        for path in String::from_utf8_lossy(&output.stdout).lines().filter(|path| is_configuration(path)) {
            found.push((path.to_owned(), std::fs::read_to_string(path).unwrap_or_default()));
        }
    }
    found.sort();
    found
}

/// Not what a client itself writes while it is asked for hashes.
fn is_configuration(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    [
        "settings.json",
        "hooks.json",
        "config.toml",
        "hookwright.json",
        "hookwright.js",
        "opencode.json",
        "mcp-config.json",
    ]
    .contains(&name)
        || path.contains("/.cline/hooks/")
}

fn ended(lab: &Lab, client: Client, name: &str) {
    let mut call = client.delegate().unwrap();
    call["input"]["run_in_background"] = false.into();
    let setup = Setup::turns(vec![vec![call], vec![json!({"text": "FINISHED"})]])
        .with_subagent(vec![vec![json!({"text": "the word is marzipan"})]]);
    let says: Says = Arc::new(|what, _| {
        Say::Reply(match what {
            What::After { .. } => Reply::Withhold { text: NO.to_owned() },
            _ => Reply::Allow,
        })
    });
    let ended = installed(lab, client, name).go(&setup, Some(says));
    assert_eq!(ended.count(Moment::After), 1, "{}", ended.story());
    // Once as the subagent's own turn at most, never as what the main agent reads.
    assert!(!ended.told("the word is marzipan"), "{}", ended.story());
}

fn managed_stand(lab: &Lab, client: Client, name: &str) {
    let run = Run::new(lab, client, name);
    run.install_managed();
    run.switch_hooks_off();
    let says = before(|| Say::Reply(Reply::Deny { text: NO.to_owned() }));
    let ended = run.go(&one_call(client, COMMAND), says);
    assert_denied(&ended, NO);
}

/// What the history's job of the prompt says.
fn jobs(run: &Run) -> Vec<Value> {
    let said = run.ask_cli(&["jobs", "list", "--output", "json"]);
    said["jobs"].as_array().cloned().unwrap_or_default()
}

fn real_node(lab: &Lab, client: Client, name: &str) {
    let run = installed(lab, client, name);
    let node = run.real_node();
    let last = if client.harness().caps().holds_stop { "deny-output" } else { "FINISHED" };
    // A denied call ends Cline's run, so there it is tried last.
    let denied_first = client != Client::Cline;
    let mut turns = vec![vec![client.shell("echo rewrite-this > out.txt; echo marzipan")]];
    if denied_first {
        turns.insert(0, vec![client.shell("echo x > never.txt; : deny-call")]);
        turns.push(vec![client.shell("echo y > later.txt; echo deny-res''ult")]);
    }
    turns.push(vec![json!({"text": last})]);
    turns.push(vec![json!({"text": "FINISHED"})]);
    let ended = run.go_on(&Setup::turns(turns));
    let events = ended.run.events();
    let asked = |on: &str| events.iter().filter(|event| event["event"] == on).count();
    assert_eq!(ended.file("never.txt"), None, "{}", ended.story());
    assert_eq!(ended.file("out.txt").as_deref(), Some("rewritten\n"), "{}", ended.story());
    let tool = format!("{}.{}", client.harness(), client.hooked("").0);
    assert!(events.iter().filter(|event| event["tool"].is_string()).all(|event| event["tool"] == tool), "{events:#?}");
    assert_eq!(asked("pre_tool_call"), if denied_first { 3 } else { 1 }, "{events:#?}");
    if denied_first {
        let said =
            format!("The call to {tool} was not made: hook policy.check denied it: Zoë says “no” to deny-call 🚫.");
        assert!(ended.told(&said), "{}", ended.story());
        assert_eq!(ended.file("later.txt").as_deref(), Some("y\n"));
        let withheld = format!("The result of {tool} was withheld: hook policy.check denied it");
        assert!(ended.told(&withheld) && !ended.told("deny-result\n"), "{}", ended.story());
    }
    let ends = asked("job_end");
    if client.harness().caps().holds_stop {
        assert!(ended.told("Hook policy.check denied the output"), "{}", ended.story());
        assert_eq!(ends, 2, "{events:#?}");
    } else {
        assert_eq!(ends, 1, "{events:#?}");
    }
    // Gemini CLI's output holds all that was said in the turn, so the second one is denied as well.
    let status = if client == Client::GeminiCli { "failed" } else { "completed" };
    let jobs = jobs(&ended.run);
    assert_eq!(jobs.len(), 1, "{jobs:#?}");
    assert_eq!(
        (jobs[0]["status"].as_str(), jobs[0]["agent"].as_str()),
        (Some(status), Some(client.harness().id())),
        "{jobs:#?}"
    );
    let id = jobs[0]["id"].as_str().or(jobs[0]["job"].as_str()).unwrap();
    ended.run.ask_cli(&["replay", id, "--output", "json"]);
    drop(node);
}

fn real_yes(lab: &Lab, client: Client, name: &str) {
    let run = installed(lab, client, name);
    let node = run.real_node();
    let store = run.store.clone();
    let program = run.program.clone();
    let decided = std::thread::spawn(move || {
        for _ in 0..400 {
            std::thread::sleep(Duration::from_millis(100));
            let list = crate::lab::cli(&program, &store, &["approvals", "list", "--output", "json"]);
            let Some(id) = list["approvals"][0]["id"].as_str().or(list["approvals"][0]["approval"].as_str()) else {
                continue;
            };
            return crate::lab::cli(&program, &store, &["approvals", "approve", id, "--output", "json"]);
        }
        Value::Null
    });
    let ended = run.go_on(&one_call(client, "echo ask-this > out.txt; echo mar''zipan"));
    let decided = decided.join().unwrap();
    assert!(!decided.is_null(), "nobody was asked: {}", ended.story());
    assert_eq!(ended.file("out.txt").as_deref(), Some("ask-this\n"), "{}", ended.story());
    assert!(ended.told("marzipan"), "{}", ended.story());
    drop(node);
}
