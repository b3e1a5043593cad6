//! The store as the runtime sees it.

use crate::error::{OpError, Site};
use crate::file::{self, Access, BusyLimit};
use crate::identity::Holder;
use crate::inbox::{InboxWatch, Poller};
use crate::ops::forget::{self, Forgotten};
use crate::ops::places::AtOnce;
use crate::ops::{append, approval, lease, session};
use crate::options::OpenOptions;
use crate::reader::Readers;
use crate::rows::{self, APPROVALS, JOB_COLUMNS, to_sql};
use crate::writer::{Parts, Writer};
use hookwright_core::json::sha256_hex;
use hookwright_core::stored::Blob;
use hookwright_runtime::ports::clock::Clock;
use hookwright_runtime::ports::sessions::{NewSession, SessionChange, SessionPage, SessionRow, Sessions};
use hookwright_runtime::ports::store::{
    ApprovalRow, Batch, DecideOutcome, Decision, InboxItem, JobRow, Lease, NewJob, Store, StoreCounters, StoreError,
};
use rusqlite::params;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// Values longer than this in bytes are hashed on a thread where blocking is allowed.
const HASH_ASIDE_BYTES: usize = 256 * 1024;

/// The store in one SQLite file. Cheap to share; dropping the last reference writes what waits and gives all leases back.
pub struct SqliteStore {
    // The order of the fields is the order of their ends: readers first. Whoever closes the file last merges the write-ahead log
    // into it, and a connection that only reads can't.
    poller: Poller,
    inbox: Arc<InboxWatch>,
    readers: Arc<Readers>,
    writer: Option<Writer>,
    access: Access,
    site: Arc<Site>,
    me: Arc<Holder>,
    clock: Arc<dyn Clock>,
    busy: BusyLimit,
    at_once: Mutex<Arc<AtOnce>>,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.site.path)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the store; a missing file and its folder are created (0600, 0700). Blocks for some milliseconds, or for up to
    /// [`OpenOptions::busy_wait`] while another process sets the file up.
    ///
    /// Fails where the file is of another application, of a newer version, damaged, or cannot be written (unless
    /// [`OpenOptions::read_only`]); the error says what to do.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Arc<Self>, StoreError> {
        let path = std::path::absolute(path.as_ref()).map_err(|e| {
            StoreError::Failed(format!("failed to open the store: {e}; give the path of a file with --db"))
        })?;
        let site = Arc::new(Site { path, max_bytes: options.max_bytes });
        let busy: BusyLimit =
            Arc::new(AtomicU64::new(u64::try_from(options.busy_wait.as_millis()).unwrap_or(u64::MAX)));
        let me = Arc::new(Holder::this(&options.node, options.clock.now_ms()));
        let inbox = InboxWatch::new();
        let (writer, access, first) = if options.read_only {
            let (conn, access) = file::open_reader(&site, &busy)?;
            (None, access, Some(conn))
        } else {
            let conn = file::open_writer(&site, &busy)?;
            let writer = Writer::start(Parts {
                conn,
                site: site.clone(),
                me: me.clone(),
                clock: options.clock.clone(),
                busy: busy.clone(),
                inbox: inbox.clone(),
                probe: options.probe,
            })?;
            (Some(writer), Access::Read, None)
        };
        let readers = Readers::new(site.clone(), access, busy.clone(), first);
        Ok(Arc::new(Self {
            writer,
            poller: Poller::default(),
            inbox,
            readers,
            access,
            site,
            me,
            clock: options.clock,
            busy,
            at_once: Mutex::default(),
        }))
    }

    /// From now on no job of these tenants is begun or taken up through this store while so many of the tenant's are under way, in
    /// whatever process. Jobs that others started don't count, nor is a job kept from being cancelled.
    pub fn limit_jobs_at_once(&self, limits: impl IntoIterator<Item = (String, u32)>) {
        *self.at_once.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(limits.into_iter().collect());
    }

    fn at_once(&self) -> Arc<AtOnce> {
        self.at_once.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The file, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.site.path
    }

    /// Deletes the values of a job that has ended, and leaves their digests, so that its history can still be verified (SPEC §8).
    /// Large values that another job names too stay for that job. Deleted values are overwritten in the file and taken out of the
    /// write-ahead log; backups and the disk's own copies are beyond its reach. Durable on return.
    ///
    /// Fails where the job has not ended.
    pub async fn forget_values(&self, job: &str) -> Result<Forgotten, StoreError> {
        let job = job.to_owned();
        self.writer()?.write(move |tx| forget::forget(tx, &job)).await
    }

    /// What SQLite's own check finds wrong with the file; at most 20 faults. Reads all of it.
    ///
    /// # Errors
    /// As for any reading.
    pub async fn faults(&self) -> Result<Vec<String>, StoreError> {
        let read = |conn: &rusqlite::Connection, _: &Site| {
            let mut statement = conn.prepare("PRAGMA quick_check(20)")?;
            let said = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
            Ok(said.into_iter().filter(|said| said != "ok").collect())
        };
        self.readers.read(read).await
    }

    fn writer(&self) -> Result<&Writer, StoreError> {
        self.writer.as_ref().ok_or_else(|| {
            self.site.failed(
                "write to",
                "it was opened for reading only",
                "open it as a user who may write to the file and its folder",
            )
        })
    }
}

/// A blob is found by its digest, by this and all other jobs: one under a wrong digest would be another value than the history names.
async fn check_blobs(batch: Batch) -> Result<Batch, StoreError> {
    fn check(blobs: &[Blob]) -> Result<(), StoreError> {
        for blob in blobs {
            if sha256_hex(blob.text.as_bytes()) != blob.sha256 {
                return Err(StoreError::Failed(format!(
                    "a value of {} bytes does not have the digest {:?} under which it should be stored: this is a bug, nothing of \
                     the batch was stored",
                    blob.text.len(),
                    rows::shown_id(&blob.sha256)
                )));
            }
        }
        Ok(())
    }
    if batch.blobs.iter().map(|b| b.text.len()).sum::<usize>() <= HASH_ASIDE_BYTES {
        check(&batch.blobs)?;
        return Ok(batch);
    }
    tokio::task::spawn_blocking(move || check(&batch.blobs).map(|()| batch)).await.map_err(|_| {
        StoreError::Failed("failed to write to the store: the process is stopping; start it again".to_owned())
    })?
}

#[async_trait::async_trait]
impl Store for SqliteStore {
    async fn create_job(&self, job: NewJob, batch: Batch) -> Result<Lease, StoreError> {
        let writer = self.writer()?;
        let batch = check_blobs(batch).await?;
        let at_once = self.at_once();
        writer.write_lease(move |tx| append::create(tx, &job, &batch, &at_once)).await
    }

    async fn take_lease(&self, job: &str) -> Result<Lease, StoreError> {
        let (job, at_once) = (job.to_owned(), self.at_once());
        self.writer()?.write_lease(move |tx| lease::take(tx, &job, &at_once)).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        let lease = lease.clone();
        self.writer()?.write(move |tx| lease::release(tx, &lease)).await
    }

    async fn append(&self, lease: &Lease, batch: Batch) -> Result<(), StoreError> {
        let (writer, lease) = (self.writer()?, lease.clone());
        let batch = check_blobs(batch).await?;
        writer.write(move |tx| append::append(tx, &lease, &batch)).await
    }

    async fn records(&self, job: &str, from_seq: u64) -> Result<Vec<String>, StoreError> {
        let job = job.to_owned();
        let read = move |conn: &rusqlite::Connection, site: &Site| {
            let (n, _) = rows::job_number(conn, &job, site)?;
            let mut statement =
                conn.prepare_cached("SELECT text FROM records WHERE job = ?1 AND seq >= ?2 ORDER BY seq")?;
            let records = statement.query_map([n, to_sql(from_seq)], |row| row.get(0))?;
            Ok(records.collect::<Result<Vec<String>, _>>()?)
        };
        self.readers.read(read).await
    }

    async fn blob(&self, sha256: &str) -> Result<Option<String>, StoreError> {
        use rusqlite::OptionalExtension as _;
        let sha256 = sha256.to_owned();
        let read = move |conn: &rusqlite::Connection, _: &Site| {
            let mut statement = conn.prepare_cached("SELECT text FROM blobs WHERE sha256 = ?1")?;
            Ok(statement.query_row([sha256], |row| row.get(0)).optional()?)
        };
        self.readers.read(read).await
    }

    async fn blob_of(&self, tenant: &str, sha256: &str) -> Result<Option<String>, StoreError> {
        use rusqlite::OptionalExtension as _;
        let (tenant, sha256) = (tenant.to_owned(), sha256.to_owned());
        let read = move |conn: &rusqlite::Connection, _: &Site| {
            let mut statement = conn.prepare_cached(
                "SELECT text FROM blobs b WHERE sha256 = ?1 AND EXISTS \
                 (SELECT 1 FROM blob_refs r JOIN jobs j ON j.n = r.job WHERE r.blob = b.n AND j.tenant = ?2)",
            )?;
            Ok(statement.query_row([sha256, tenant], |row| row.get(0)).optional()?)
        };
        self.readers.read(read).await
    }

    async fn jobs(&self, unfinished_only: bool, limit: u32) -> Result<Vec<JobRow>, StoreError> {
        let (me, now_ms) = (self.me.clone(), self.clock.now_ms());
        let only = if unfinished_only { "WHERE status IN ('running', 'waiting')" } else { "" };
        let sql = format!("SELECT {JOB_COLUMNS} FROM jobs {only} ORDER BY created_ms DESC, n DESC LIMIT ?1");
        let read = move |conn: &rusqlite::Connection, site: &Site| {
            let mut statement = conn.prepare_cached(&sql)?;
            let jobs = statement.query_map([limit], |row| Ok(rows::job(row, site, &me, now_ms)))?;
            jobs.collect::<Result<Result<Vec<_>, OpError>, _>>()?
        };
        self.readers.read(read).await
    }

    async fn job(&self, id_or_prefix: &str) -> Result<JobRow, StoreError> {
        let (me, now_ms, prefix) = (self.me.clone(), self.clock.now_ms(), id_or_prefix.to_owned());
        let read = move |conn: &rusqlite::Connection, site: &Site| {
            let id = rows::resolve(conn, "jobs", "job", &prefix)?;
            let mut statement = conn.prepare_cached(&format!("SELECT {JOB_COLUMNS} FROM jobs WHERE id = ?1"))?;
            statement.query_row([id], |row| Ok(rows::job(row, site, &me, now_ms)))?
        };
        self.readers.read(read).await
    }

    async fn approvals(&self, open_only: bool) -> Result<Vec<ApprovalRow>, StoreError> {
        let only = if open_only { "WHERE a.state = 'open'" } else { "" };
        let sql = format!("{APPROVALS} {only} ORDER BY a.opened_ms DESC, a.n DESC");
        let read = move |conn: &rusqlite::Connection, site: &Site| {
            let mut statement = conn.prepare_cached(&sql)?;
            let approvals = statement.query_map([], |row| Ok(rows::approval(row, site)))?;
            approvals.collect::<Result<Result<Vec<_>, OpError>, _>>()?
        };
        self.readers.read(read).await
    }

    async fn approval(&self, id_or_prefix: &str) -> Result<ApprovalRow, StoreError> {
        let prefix = id_or_prefix.to_owned();
        let read = move |conn: &rusqlite::Connection, site: &Site| {
            let id = rows::resolve(conn, "approvals", "approval", &prefix)?;
            let mut statement = conn.prepare_cached(&format!("{APPROVALS} WHERE a.id = ?1"))?;
            statement.query_row(params![id], |row| Ok(rows::approval(row, site)))?
        };
        self.readers.read(read).await
    }

    async fn decide(&self, id: &str, decision: Decision) -> Result<DecideOutcome, StoreError> {
        let id = id.to_owned();
        self.writer()?.write(move |tx| approval::decide(tx, &id, &decision)).await
    }

    async fn request_cancel(&self, job: &str, by: &str, at_ms: u64) -> Result<(), StoreError> {
        let (job, by) = (job.to_owned(), by.to_owned());
        self.writer()?.write(move |tx| approval::cancel(tx, &job, &by, at_ms)).await
    }

    async fn inbox(&self, job: &str) -> Result<Vec<InboxItem>, StoreError> {
        let job = job.to_owned();
        let read = move |conn: &rusqlite::Connection, site: &Site| {
            let (n, _) = rows::job_number(conn, &job, site)?;
            let mut statement = conn.prepare_cached("SELECT id, what FROM inbox WHERE job = ?1 ORDER BY id")?;
            let items = statement.query_map([n], |row| Ok(rows::inbox_item(row, site)))?;
            items.collect::<Result<Result<Vec<_>, OpError>, _>>()?
        };
        self.readers.read(read).await
    }

    fn inbox_changes(&self) -> watch::Receiver<u64> {
        self.poller.subscribe(&self.inbox, &self.site, &self.busy)
    }

    fn counters(&self) -> StoreCounters {
        self.writer.as_ref().map(Writer::counters).unwrap_or_default()
    }
}

#[async_trait::async_trait]
impl Sessions for SqliteStore {
    async fn create_session(&self, session: NewSession) -> Result<(), StoreError> {
        self.writer()?.write(move |tx| session::create(tx, &session)).await
    }

    async fn session(&self, id: &str) -> Result<SessionRow, StoreError> {
        let id = id.to_owned();
        self.readers.read(move |conn, site| session::one(conn, &id, site)).await
    }

    async fn sessions(&self, page: SessionPage) -> Result<Vec<SessionRow>, StoreError> {
        self.readers.read(move |conn, site| session::page(conn, &page, site)).await
    }

    async fn change_session(&self, id: &str, change: SessionChange) -> Result<(), StoreError> {
        let id = id.to_owned();
        self.writer()?.write(move |tx| session::change(tx, &id, &change)).await
    }

    async fn session_jobs(&self, id: &str) -> Result<Vec<JobRow>, StoreError> {
        let (me, now_ms, id) = (self.me.clone(), self.clock.now_ms(), id.to_owned());
        self.readers.read(move |conn, site| session::jobs(conn, &id, site, &me, now_ms)).await
    }

    async fn delete_session(&self, id: &str) -> Result<(), StoreError> {
        let id = id.to_owned();
        self.writer()?.write(move |tx| session::delete(tx, &id)).await
    }
}
