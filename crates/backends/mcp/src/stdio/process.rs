//! Starts a child, watches it and ends it.

use super::pipe::Pipe;
use super::reader::Reader;
use super::stderr::{LastWords, drain};
use crate::config::HostConfig;
use crate::heard::Heard;
use crate::said::Secrets;
use crate::spec::RunAs;
use crate::unasked::Unasked;
use hookwright_core::text::escape;
use hookwright_process::Group;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::process::{Child as Process, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long the exit status is waited for where a child has closed its stdout.
const STATUS: Duration = Duration::from_millis(250);
/// How long what a dead child had written is still read, where someone outside of its group holds its streams.
const REST: Duration = Duration::from_secs(2);

/// What a child is started from.
#[derive(Clone, Copy)]
pub(crate) struct Child<'a> {
    pub(crate) tool: &'a str,
    pub(crate) command: &'a [String],
    pub(crate) cwd: &'a Path,
    pub(crate) env: &'a [(String, String)],
    pub(crate) run_as: Option<&'a RunAs>,
    pub(crate) secrets: &'a Secrets,
    pub(crate) heard: &'a Arc<Heard>,
}

/// A running child.
pub(crate) struct StdioLink {
    pipe: Arc<Pipe>,
    heard: Arc<Heard>,
    group: Arc<Group>,
    words: Arc<LastWords>,
    stop: CancellationToken,
    ended: CancellationToken,
}

impl StdioLink {
    /// Starts the child. The error says what to do.
    pub(crate) fn start(child: Child<'_>, config: &Arc<HostConfig>) -> Result<Self, String> {
        let Some((program, args)) = child.command.split_first() else { return Err("its command is empty".to_owned()) };
        // A relative path with a slash would be looked up from our own folder.
        let path = if program.contains('/') { child.cwd.join(program) } else { PathBuf::from(program) };
        // Before the first server: one that starts while the shell still does would be left behind by a kill.
        hookwright_process::ready();
        let mut command = Command::new(path);
        if let Some(user) = child.run_as {
            // With the user's number the standard library sheds our supplementary groups, where we are root; the group comes before.
            command.gid(user.gid).uid(user.uid);
        }
        let mut process = command
            .args(args)
            .current_dir(child.cwd)
            .env_clear()
            .envs(child.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| cannot_start(program, &child, &e))?;
        let group = Arc::new(Group::new(process.id()));
        let streams = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err("it has no standard streams".to_owned());
        };
        let pipes = || -> std::io::Result<(pipe::Sender, pipe::Receiver)> {
            Ok((
                pipe::Sender::from_owned_fd(stdin.into_owned_fd()?)?,
                pipe::Receiver::from_owned_fd(stdout.into_owned_fd()?)?,
            ))
        };
        let (stdin, stdout) = pipes().map_err(|e| format!("its standard streams can't be used: {e}"))?;

        let tool: Arc<str> = child.tool.into();
        let secrets = Arc::new(child.secrets.clone());
        let words = Arc::new(LastWords::new(Arc::clone(&secrets)));
        let link = Self {
            pipe: Pipe::new(stdin, Arc::clone(config)),
            heard: Arc::clone(child.heard),
            group: Arc::clone(&group),
            words: Arc::clone(&words),
            stop: CancellationToken::new(),
            ended: CancellationToken::new(),
        };
        let reader = Reader {
            tool: Arc::clone(&tool),
            pipe: Arc::clone(&link.pipe),
            heard: Arc::clone(&link.heard),
            secrets: Arc::clone(&secrets),
            config: Arc::clone(config),
            unasked: Unasked::default(),
        };
        tokio::spawn(Arc::clone(&link.pipe).write());
        let watch = Watch {
            process,
            group,
            pipe: Arc::clone(&link.pipe),
            reader: tokio::spawn(reader.read(stdout)),
            stderr: tokio::spawn(drain(stderr, tool, Arc::clone(&words))),
            words,
            stop: link.stop.clone(),
            grace: config.shutdown_grace,
        };
        let ended = link.ended.clone().drop_guard();
        tokio::spawn(async move {
            watch.run().await;
            drop(ended);
        });
        Ok(link)
    }

    pub(crate) fn pipe(&self) -> &Pipe {
        &self.pipe
    }

    pub(crate) fn heard(&self) -> &Arc<Heard> {
        &self.heard
    }

    /// Its process group, to be killed where nothing can be waited for.
    pub(crate) fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// Is cancelled when the child is gone.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Ends the child; returns when it is gone.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.ended.cancelled().await;
    }

    /// Ends the child at once; returns when it is gone.
    pub(crate) async fn kill(&self) {
        self.group.end();
        self.ended.cancelled().await;
    }

    /// What it wrote to its stderr last, for the end of an error message.
    pub(crate) fn last_words(&self) -> String {
        self.words.told()
    }
}

impl Drop for StdioLink {
    fn drop(&mut self) {
        self.group.end();
    }
}

fn cannot_start(program: &str, child: &Child<'_>, e: &std::io::Error) -> String {
    if !child.cwd.is_dir() {
        return format!("its folder {} is not there", child.cwd.display());
    }
    if let Some(user) = child.run_as
        && e.kind() == std::io::ErrorKind::PermissionDenied
    {
        let (name, folder) = (escape(&user.name), child.cwd.display());
        return format!(
            "{program:?} can't be started as the user {name} ({e}): we must be root, and that user must be able to run it and to enter {folder}"
        );
    }
    let hint = match e.kind() {
        // Of a script it may also be what its first line names.
        std::io::ErrorKind::NotFound if Path::new(program).is_absolute() => {
            ": there is no such file, or what its first line (#!) names is not there"
        }
        std::io::ErrorKind::NotFound if program.contains('/') => ": there is no such file in the plugin's folder",
        std::io::ErrorKind::NotFound => ": it is not on the PATH; install it, or give its path",
        std::io::ErrorKind::PermissionDenied => ": is it executable?",
        _ => "",
    };
    format!("{program:?} can't be started ({e}){hint}")
}

/// Watches a child to its end.
struct Watch {
    process: Process,
    group: Arc<Group>,
    pipe: Arc<Pipe>,
    reader: JoinHandle<String>,
    stderr: JoinHandle<()>,
    words: Arc<LastWords>,
    stop: CancellationToken,
    grace: Duration,
}

enum End {
    /// It exited by itself, or was killed by somebody.
    Exited(Option<ExitStatus>),
    /// It writes no more.
    Silent(String),
    /// It reads no more.
    Deaf,
    /// We end it.
    Stopped,
}

impl Watch {
    async fn run(mut self) {
        let broken = self.pipe.broken().clone();
        let end = tokio::select! {
            status = self.process.wait() => End::Exited(status.ok()),
            why = &mut self.reader => End::Silent(why.unwrap_or_else(|_| "the server's stdout can't be read".to_owned())),
            () = broken.cancelled() => End::Deaf,
            () = self.stop.cancelled() => End::Stopped,
        };
        let why = match end {
            End::Exited(status) => {
                // What its children hold of its streams is let go, so that all that it wrote can be read to the end.
                self.group.end();
                let _ = timeout(REST, &mut self.reader).await;
                told(status, "the server is gone")
            }
            End::Silent(why) => self.status_or(&why).await,
            End::Deaf => {
                let why = self.pipe.why();
                self.status_or(&why).await
            }
            End::Stopped => {
                self.leave().await;
                "the server was ended".to_owned()
            }
        };
        self.group.end();
        let _ = self.process.wait().await;
        let _ = timeout(STATUS, &mut self.stderr).await;
        self.reader.abort();
        self.stderr.abort();
        self.pipe.die(format!("{why}{}", self.words.told()));
    }

    /// A child that has closed a stream is mostly about to exit: its status says more.
    async fn status_or(&mut self, why: &str) -> String {
        match timeout(STATUS, self.process.wait()).await {
            Ok(status) => told(status.ok(), why),
            Err(_) => why.to_owned(),
        }
    }

    /// Lets it leave: its stdin ends, then it is asked to.
    async fn leave(&mut self) {
        self.pipe.close_stdin();
        if timeout(self.grace / 2, self.process.wait()).await.is_err() {
            self.group.terminate();
            let _ = timeout(self.grace / 2, self.process.wait()).await;
        }
    }
}

impl Drop for Watch {
    /// Where the runtime ends before the child does.
    fn drop(&mut self) {
        self.group.end();
    }
}

fn told(status: Option<ExitStatus>, otherwise: &str) -> String {
    match status.map(|s| (s.code(), s.signal())) {
        Some((Some(code), _)) => format!("the server exited with status {code}"),
        Some((_, Some(signal))) => format!("the server was killed by signal {signal}"),
        _ => otherwise.to_owned(),
    }
}
