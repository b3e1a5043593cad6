//! `hookwright bridge`: one event of a harness, one answer. It is started for every call that an agent makes, so it is told apart before the
//! command line is parsed, needs no runtime, and reads no configuration.
//!
//! Invariant: it ends with an answer in the harness's dialect, whatever happens: a panic, a payload without end, a node that hangs.

use crate::environment::Environment;
use crate::exit;
use hookwright_bridge::{
    Ask, Door, Escalate, Harness, MAX_PAYLOAD_BYTES, Printed, Reply, Request, TAIL_BYTES, Trouble, What, last_words,
};
use hookwright_core::text;
use hookwright_node::Place;
use hookwright_node::client::{self, ClientError};
use std::ffi::OsString;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Seconds that are waited where the configuration says nothing: below the shortest default of a harness.
const DEADLINE_S: u64 = 25;
/// What the last resort gives the rest of the process, once its deadline is over.
const GRACE: Duration = Duration::from_millis(500);
/// How long a harness is given to write what was said last.
const TRANSCRIPT: Duration = Duration::from_secs(1);
/// The store that is asked where none is named.
const STORE: &str = ".hookwright/hookwright.db";

/// Answers, if the command line is a bridge's. Help is left to the parser of all commands.
pub(crate) fn run() -> Option<ExitCode> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let is_help = |word: &OsString| word == "--help" || word == "-h";
    if words.first().is_none_or(|word| word != "bridge") || words.iter().any(is_help) {
        return None;
    }
    // A panic is an answer; its text is nobody's.
    std::panic::set_hook(Box::new(|_| {}));
    let begun = Instant::now();
    let printed = match Wanted::read(&words[1..]) {
        Ok(wanted) => wanted.answer(begun),
        Err(why) => misread(&words[1..], Trouble::Own { why }),
    };
    Some(print(&printed))
}

/// The no where the command line is not understood: that of its harness and event, which stand first, with that event's code, so that the line
/// around it adds no second answer. Where the harness is not known, nothing is printed that could stand beside the no of the line around us.
fn misread(words: &[OsString], trouble: Trouble) -> Printed {
    let word = |at: usize| words.get(at).map(|word| word.to_string_lossy().into_owned());
    match word(0).and_then(|id| Harness::of(&id)) {
        Some(harness) => {
            let event = word(1).filter(|event| !event.starts_with('-'));
            Door::new(harness, event, Escalate::Wait, 0).refuse(trouble)
        }
        None => Printed { stderr: text::shown(&trouble.to_string(), 600), code: exit::USAGE, ..Printed::default() },
    }
}

fn print(printed: &Printed) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let end: &[u8] = if printed.stdout.is_empty() { b"" } else { b"\n" };
    let written = out.write_all(printed.stdout.as_bytes()).and_then(|()| out.write_all(end)).and_then(|()| out.flush());
    if !printed.stderr.is_empty() {
        let _ = writeln!(std::io::stderr().lock(), "{}", printed.stderr);
    }
    // An answer that was not heard is a failure of the hook.
    if written.is_err() { ExitCode::from(exit::USAGE) } else { ExitCode::from(printed.code) }
}

/// What the command line asks for.
struct Wanted {
    harness: Harness,
    event: Option<String>,
    store: PathBuf,
    /// A session that is run here and answers itself, in the place of a node.
    socket: Option<PathBuf>,
    /// The tenant that it was installed for.
    tenant: Option<String>,
    deadline: Duration,
    escalate: Escalate,
}

impl Wanted {
    fn read(words: &[OsString]) -> Result<Self, String> {
        let mut words = words.iter();
        let harness = words.next().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        let harness = Harness::of(&harness).ok_or_else(|| format!("there is no harness {harness:?}"))?;
        let mut wanted = Self {
            harness,
            event: None,
            store: PathBuf::from(STORE),
            socket: None,
            tenant: None,
            deadline: Duration::from_secs(DEADLINE_S),
            escalate: Escalate::Wait,
        };
        while let Some(word) = words.next() {
            let text = word.to_string_lossy();
            let (flag, inline) = match text.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag, Some(OsString::from(value))),
                _ => (&*text, None),
            };
            let mut value =
                || inline.clone().or_else(|| words.next().cloned()).ok_or_else(|| format!("{flag} needs a value"));
            match flag {
                "--db" => wanted.store = PathBuf::from(value()?),
                "--socket" => wanted.socket = Some(PathBuf::from(value()?)),
                "--tenant" => wanted.tenant = Some(value()?.to_string_lossy().into_owned()),
                "--deadline" => {
                    let seconds = value()?.to_string_lossy().parse::<u64>().ok().filter(|seconds| *seconds > 0);
                    wanted.deadline = Duration::from_secs(seconds.ok_or("--deadline needs a number of seconds")?);
                }
                "--escalate" => {
                    wanted.escalate = match value()?.to_str() {
                        Some("wait") => Escalate::Wait,
                        Some("ask") => Escalate::Ask,
                        _ => return Err("--escalate is wait or ask".to_owned()),
                    };
                }
                event if !event.starts_with('-') && wanted.event.is_none() => wanted.event = Some(event.to_owned()),
                other => return Err(format!("{other:?} is not understood")),
            }
        }
        if wanted.harness == Harness::ClaudeCode && is_of_agent_sdk(&Environment::of_process()) {
            wanted.harness = Harness::ClaudeAgentSdk;
        }
        Ok(wanted)
    }

    fn answer(self, begun: Instant) -> Printed {
        let wait_ms = u64::try_from(self.deadline.as_millis()).unwrap_or(u64::MAX);
        let door = Door::new(self.harness, self.event, self.escalate, wait_ms);
        let (sender, receiver) = mpsc::channel();
        let until = begun + self.deadline;
        let worker = door.clone();
        let to = To { store: self.store, socket: self.socket, tenant: self.tenant };
        let spawned = std::thread::Builder::new().spawn(move || {
            let printed = match payload() {
                Ok(payload) => worker.answer(&payload, |request| exchange(&to, request, until)),
                Err(why) => worker.refuse(Trouble::Payload { why }),
            };
            let _ = sender.send(printed);
        });
        if let Err(error) = spawned {
            return door.refuse(Trouble::Own { why: error.to_string() });
        }
        let patience = (until + GRACE).saturating_duration_since(Instant::now());
        receiver.recv_timeout(patience).unwrap_or_else(|error| {
            door.refuse(match error {
                mpsc::RecvTimeoutError::Timeout => Trouble::Silent { waited_ms: wait_ms },
                mpsc::RecvTimeoutError::Disconnected => Trouble::Own { why: "it fell over".to_owned() },
            })
        })
    }
}

/// The Agent SDK runs Claude Code's engine, and says so in the environment of its hooks.
fn is_of_agent_sdk(env: &Environment) -> bool {
    let entry = env.get("CLAUDE_CODE_ENTRYPOINT").unwrap_or_default();
    env.get("CLAUDE_AGENT_SDK_VERSION").is_some() || (entry.starts_with("sdk-") && entry != "sdk-cli")
}

/// The payload. All of it is taken, also what is too much: who writes it must not be left with a broken pipe.
fn payload() -> Result<Vec<u8>, String> {
    let mut stdin = std::io::stdin().lock();
    let mut bytes = Vec::new();
    let limit = MAX_PAYLOAD_BYTES as u64 + 1;
    (&mut stdin).take(limit).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() > MAX_PAYLOAD_BYTES {
        std::io::copy(&mut stdin, &mut std::io::sink()).map_err(|error| error.to_string())?;
    }
    Ok(bytes)
}

/// Who is asked.
struct To {
    store: PathBuf,
    socket: Option<PathBuf>,
    tenant: Option<String>,
}

fn exchange(to: &To, mut request: Request, until: Instant) -> Result<Reply, Trouble> {
    complete(&mut request.ask);
    request.tenant.clone_from(&to.tenant);
    if let Some(socket) = &to.socket {
        return hookwright_bridge::exchange(socket, &request, until);
    }
    let place = Place::of(&to.store);
    let store = || place.store().display().to_string();
    let left = until.saturating_duration_since(Instant::now());
    let waited_ms = request.wait_ms;
    request.wait_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    let asked = serde_json::to_value(&request).map_err(|error| Trouble::Own { why: error.to_string() })?;
    let reply = client::ask(&place, "bridge", asked, left).map_err(|error| match error {
        error @ (ClientError::NoNode | ClientError::Stranger(_)) => {
            Trouble::Unreachable { store: store(), why: error.to_string() }
        }
        ClientError::TimedOut => Trouble::Silent { waited_ms },
        error @ (ClientError::Refused(_) | ClientError::HungUp | ClientError::TooLarge | ClientError::Broken(_)) => {
            Trouble::Broken { why: error.to_string() }
        }
    })?;
    serde_json::from_value(reply).map_err(|error| Trouble::Broken { why: error.to_string() })
}

/// Fills in the last words where the harness names a file that holds them.
fn complete(ask: &mut Ask) {
    let of_subagent = ask.agent.is_some();
    if let What::Stop { output: output @ None, transcript: Some((file, at_ms)), .. } = &mut ask.what {
        // The harness may write them a moment after it asks.
        let until = Instant::now() + TRANSCRIPT;
        loop {
            *output = tail(file).and_then(|tail| last_words(&tail, of_subagent, *at_ms));
            if output.is_some() || Instant::now() > until {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn tail(file: &Path) -> Option<String> {
    let mut file = crate::files::open(file).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
