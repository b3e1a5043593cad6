//! A node that says what a case wants: the socket's lines, without hooks behind them.

use hookwright_bridge::{Moment, Reply, Request, What};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What it says to an event.
pub(crate) type Says = Arc<dyn Fn(&What, &Request) -> Say + Send + Sync>;

/// One answer.
pub(crate) enum Say {
    /// This.
    Reply(Reply),
    /// This, after a while.
    Later(Duration, Reply),
    /// Nothing, and the line stays open.
    Hang,
    /// Nothing, and the line is cut: a node that was killed.
    HangUp,
    /// Something that is no reply.
    Nonsense,
}

pub(crate) struct Fake {
    asked: Arc<Mutex<Vec<Request>>>,
    over: Arc<AtomicBool>,
    socket: PathBuf,
    listing: PathBuf,
    thread: std::thread::JoinHandle<()>,
}

impl Fake {
    pub(crate) fn start(store: &Path, socket: &Path, says: Says) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        // Where a node listens stands beside its store.
        let mut listing = store.as_os_str().to_owned();
        listing.push("-node");
        let listing = PathBuf::from(listing);
        std::fs::write(&listing, json!({"pid": std::process::id(), "socket": socket}).to_string()).unwrap();
        let asked: Arc<Mutex<Vec<Request>>> = Arc::default();
        let over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (asked, over) = (asked.clone(), over.clone());
            move || {
                let mut open = Vec::new();
                for stream in listener.incoming().map_while(Result::ok) {
                    if over.load(Ordering::SeqCst) {
                        break;
                    }
                    let (asked, says) = (asked.clone(), says.clone());
                    let kept = stream.try_clone();
                    std::thread::spawn(move || serve(stream, &asked, &says));
                    open.extend(kept);
                }
            }
        });
        Self { asked, over, socket: socket.to_owned(), listing, thread }
    }

    /// Ends it; what it was asked.
    pub(crate) fn end(self) -> Vec<Request> {
        self.over.store(true, Ordering::SeqCst);
        let _ = UnixStream::connect(&self.socket);
        let _ = self.thread.join();
        let _ = std::fs::remove_file(self.listing);
        self.asked.lock().unwrap().clone()
    }
}

fn serve(mut stream: UnixStream, asked: &Mutex<Vec<Request>>, says: &Says) {
    let mut line = String::new();
    if BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).is_err() || line.is_empty() {
        return;
    }
    let wire: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((wire["do"].as_str(), wire["door"].as_str()), (Some("ask"), Some("bridge")));
    let request: Request = serde_json::from_value(wire["with"].clone()).unwrap();
    let say = says(&request.ask.what, &request);
    asked.lock().unwrap().push(request);
    let reply = match say {
        Say::Reply(reply) => reply,
        Say::Later(time, reply) => {
            std::thread::sleep(time);
            reply
        }
        Say::Hang => {
            std::thread::sleep(Duration::from_mins(1));
            return;
        }
        Say::HangUp => {
            let _ = stream.shutdown(std::net::Shutdown::Both);
            return;
        }
        Say::Nonsense => {
            let _ = writeln!(stream, r#"{{"v":1,"id":{},"ok":{{"reply":"sure"}}}}"#, wire["id"]);
            return;
        }
    };
    let _ = writeln!(stream, "{}", json!({"v": 1, "id": wire["id"], "ok": reply}));
}

/// What an event is, for counting.
pub(crate) fn moment(what: &What) -> Moment {
    match what {
        What::Started { .. } => Moment::Start,
        What::Prompt { .. } => Moment::Prompt,
        What::Before { .. } => Moment::Before,
        What::After { .. } => Moment::After,
        What::Stop { .. } => Moment::Stop,
        What::SubagentStart => Moment::SubagentStart,
        What::Ended { .. } => Moment::End,
    }
}
