//! A node in a folder of its own, with a service that does what the question says.

use hookwright_node::{About, Claim, Ended, Offer, Options, Peer, Place, Refused, Service, Sockets, claim};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long anything may take: the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Counts what is under way.
#[derive(Default)]
pub(crate) struct Echo {
    pub(crate) under_way: AtomicUsize,
    pub(crate) dropped: AtomicUsize,
    pub(crate) busy: std::sync::atomic::AtomicBool,
}

struct Under<'a>(&'a Echo, bool);

impl Drop for Under<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
        if !self.1 {
            self.0.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[async_trait::async_trait]
impl Service for Echo {
    async fn status(&self) -> Map<String, Value> {
        Map::from_iter([("more".to_owned(), json!(1))])
    }

    fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst)
    }

    async fn ask(&self, _: &Peer, door: &str, ask: Value) -> Result<Value, Refused> {
        if door != "echo" {
            return Err(Refused::no_door(door));
        }
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let mut under = Under(self, false);
        match &ask {
            Value::String(word) if word == "hang" => std::future::pending::<()>().await,
            Value::String(word) if word == "panic" => panic!("as asked"),
            Value::Number(ms) => tokio::time::sleep(Duration::from_millis(ms.as_u64().unwrap())).await,
            _ => {}
        }
        under.1 = true;
        Ok(json!({ "echo": ask }))
    }

    async fn attach(&self, _: &Peer, door: &str, what: Value, offer: Offer) -> Result<(), Refused> {
        if door != "echo" {
            return Err(Refused::no_door(door));
        }
        let Ok(mut bytes) = offer.accept(json!({ "welcome": what })).await else { return Ok(()) };
        let mut buffer = [0; 1024];
        while let Ok(n) = bytes.read(&mut buffer).await
            && n > 0
        {
            buffer[..n].make_ascii_uppercase();
            if bytes.write_all(&buffer[..n]).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

pub(crate) struct World {
    _folder: TempDir,
    pub(crate) place: Place,
    pub(crate) socket: PathBuf,
    pub(crate) service: Arc<Echo>,
    pub(crate) told: CancellationToken,
    pub(crate) serving: JoinHandle<Ended>,
}

impl World {
    pub(crate) fn start(options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of(&folder.path().join("a.db"));
        let Claim::Ours(claimed) = claim(&place, PATIENCE).unwrap() else { panic!("somebody else's") };
        let about = About { version: "1.2.3".into(), ..About::default() };
        let mut node = claimed.listen(Sockets::default(), about).unwrap();
        let socket = node.socket().to_owned();
        let (service, told) = (Arc::<Echo>::default(), CancellationToken::new());
        let (served, token) = (service.clone(), told.clone());
        let serving = tokio::spawn(async move { node.serve(served, options, token).await });
        Self { _folder: folder, place, socket, service, told, serving }
    }

    /// What a blocking client does, on a thread where it may.
    pub(crate) async fn client<T: Send + 'static>(&self, does: impl FnOnce(&Place) -> T + Send + 'static) -> T {
        let place = self.place.clone();
        tokio::task::spawn_blocking(move || does(&place)).await.unwrap()
    }

    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Echo) -> bool) {
        let start = Instant::now();
        while !holds(&self.service) {
            assert!(start.elapsed() < PATIENCE, "{what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

pub(crate) fn under_way(echo: &Echo) -> usize {
    echo.under_way.load(Ordering::SeqCst)
}
