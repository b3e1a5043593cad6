//! The file: who may read it, and what is said when it cannot be used.

use crate::children::{Child, role, say};
use crate::support::*;
use hookwright_runtime::ports::store::*;
use hookwright_sqlite::{APPLICATION_ID, OpenOptions, SqliteStore, VERSION};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// What opening says; it names the file.
fn refused(db: &Path, options: OpenOptions) -> String {
    let text = failed(SqliteStore::open(db, options));
    assert!(text.contains(&db.display().to_string()), "{text}");
    text
}

#[tokio::test]
async fn the_file_and_what_stands_beside_it_are_its_owner_s_alone() {
    let folder = Folder::new();
    let db = folder.dir.path().join("new/deeper/hookwright.db");
    let store = SqliteStore::open(&db, options()).unwrap();
    store.create_job(job("a"), batch(0, 1)).await.unwrap();
    for parent in db.ancestors().skip(1).take(2) {
        assert_eq!(mode(parent), 0o700, "{}", parent.display());
    }
    let files: Vec<_> = std::fs::read_dir(db.parent().unwrap()).unwrap().map(|f| f.unwrap().path()).collect();
    assert_eq!(files.len(), 3, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    drop(store);
    // A closed store is one file.
    assert_eq!(std::fs::read_dir(db.parent().unwrap()).unwrap().count(), 1);
}

#[tokio::test]
async fn the_file_is_fully_durable_checked_and_marked_as_ours() {
    let folder = Folder::new();
    let store = folder.open();
    assert_eq!(ask::<String>(&folder.db(), "PRAGMA journal_mode"), "wal");
    assert_eq!(ask::<i32>(&folder.db(), "PRAGMA application_id"), APPLICATION_ID);
    assert_eq!(ask::<i32>(&folder.db(), "PRAGMA user_version"), VERSION);
    let loose = "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND NOT strict \
                 AND name NOT LIKE 'sqlite_%'";
    assert_eq!(ask::<i64>(&folder.db(), loose), 0);
    drop(store);
    drop(folder.open());
}

#[test]
fn any_number_of_stores_may_set_a_new_file_up_at_once() {
    let folder = Folder::new();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| folder.open());
        }
    });
    assert_eq!(ask::<i32>(&folder.db(), "PRAGMA user_version"), VERSION);
}

#[test]
fn a_file_that_is_not_ours_is_refused_and_not_changed() {
    let folder = Folder::new();
    let newer = format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {};", VERSION + 1);
    let newer_words = format!("newer version of Hookwright (format {}, this one reads up to {VERSION})", VERSION + 1);
    for (sql, expect) in [
        ("CREATE TABLE t (x);", "another application"),
        ("PRAGMA application_id = 7;", "another application"),
        ("PRAGMA user_version = 1;", "another application"),
        (newer.as_str(), newer_words.as_str()),
    ] {
        let db = folder.db();
        rusqlite::Connection::open(&db).unwrap().execute_batch(sql).unwrap();
        let before = std::fs::read(&db).unwrap();
        for options in [options(), options().read_only()] {
            let text = refused(&db, options);
            assert!(text.contains(expect), "{text}");
        }
        assert_eq!(std::fs::read(&db).unwrap(), before);
        std::fs::remove_file(&db).unwrap();
    }
    for (content, expect) in [
        ("this is no database, it is a letter to a friend ".repeat(100), "not an SQLite database"),
        ("short".to_owned(), "not an SQLite database"),
    ] {
        std::fs::write(folder.db(), &content).unwrap();
        for options in [options(), options().read_only()] {
            assert!(refused(&folder.db(), options).contains(expect));
        }
        assert_eq!(std::fs::read_to_string(folder.db()).unwrap(), content);
    }
}

#[test]
fn a_path_that_leads_nowhere_says_so() {
    let folder = Folder::new();
    assert!(refused(folder.dir.path(), options()).contains("it is a folder"));
    assert!(refused(folder.dir.path(), options().read_only()).contains("it is a folder"));
    assert!(refused(&folder.db(), options().read_only()).contains("no such file"));
    assert!(!folder.db().exists());

    std::fs::write(folder.db(), "").unwrap();
    assert!(refused(&folder.db(), options().read_only()).contains("nothing is stored in it yet"));
    // A crash may have left an empty file: it is a new one.
    drop(folder.open());

    assert!(refused(&folder.db().join("below.db"), options()).contains("check that"));
    let pipe = folder.dir.path().join("pipe.db");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(refused(&pipe, options()).contains("it is a pipe"));
    assert!(refused(&pipe, options().read_only()).contains("it is a pipe"));

    let dangling = folder.dir.path().join("link.db");
    std::os::unix::fs::symlink("/nowhere/at/all.db", &dangling).unwrap();
    assert!(refused(&dangling, options()).contains("exist"));
    // Names that mean something to SQLite are names here.
    for name in [":memory:", "file:x?mode=memory", "100% #?", "\u{202e}gnp"] {
        let db = folder.dir.path().join(name);
        drop(SqliteStore::open(&db, options()).unwrap());
        assert!(db.exists());
        drop(SqliteStore::open(&db, options().read_only()).unwrap());
    }
}

#[tokio::test]
async fn whoever_reads_a_closed_store_leaves_one_file_and_its_bytes_as_they_were() {
    let folder = Folder::new();
    let store = folder.open();
    store.create_job(job("a"), batch(0, 1)).await.unwrap();
    drop(store);
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(folder.dir.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let (before, bytes) = (names(), std::fs::read(folder.db()).unwrap());
    let reader = SqliteStore::open(folder.db(), options().read_only()).unwrap();
    let other = SqliteStore::open(folder.db(), options().read_only()).unwrap();
    let both = tokio::join!(reader.records("a", 0), other.jobs(false, 9));
    assert_eq!((both.0.unwrap(), both.1.unwrap().len()), (texts(0, 1), 1));
    drop((reader, other));
    assert_eq!(names(), before);
    assert_eq!(std::fs::read(folder.db()).unwrap(), bytes);
}

#[tokio::test]
async fn a_store_opened_for_reading_reads_everything_and_writes_nothing() {
    let folder = Folder::new();
    let store = folder.open();
    let lease = store
        .create_job(job("a"), Batch { opened: vec![approval("a", "ap")], blobs: vec![blob("b")], ..batch(0, 2) })
        .await
        .unwrap();
    let reader = SqliteStore::open(folder.db(), options().read_only()).unwrap();
    assert_eq!(reader.records("a", 0).await.unwrap(), texts(0, 2));
    assert!(reader.job("a").await.unwrap().running);
    assert!(reader.blob(&blob("b").sha256).await.unwrap().is_some());
    let mut changes = reader.inbox_changes();
    store.request_cancel("a", "bob", NOW).await.unwrap();
    while reader.inbox("a").await.unwrap().is_empty() {
        changes.changed().await.unwrap();
    }
    let expect = "opened for reading only";
    assert!(failed(reader.append(&lease, batch(2, 1)).await).contains(expect));
    assert!(failed(reader.create_job(job("b"), batch(0, 1)).await).contains(expect));
    assert!(failed(reader.take_lease("a").await).contains(expect));
    assert!(failed(reader.release(&lease).await).contains(expect));
    assert!(failed(reader.decide("ap", decision("ann", true)).await).contains(expect));
    assert!(failed(reader.request_cancel("a", "bob", NOW).await).contains(expect));
    assert!(failed(reader.forget_values("a").await).contains(expect));
    assert_eq!(reader.counters(), StoreCounters::default());
    store.append(&lease, batch(2, 1)).await.unwrap();
}

/// Somebody without rights: root, who has all, becomes nobody.
fn without_rights(command: &mut std::process::Command) {
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
}

#[test]
fn a_file_that_may_not_be_written_says_so_and_can_be_read() {
    const ME: &str = "files::a_file_that_may_not_be_written_says_so_and_can_be_read";
    if let Some(role) = role() {
        return block_on(async {
            say(&failed(SqliteStore::open(&role.db, options())));
            let line = match SqliteStore::open(&role.db, options().read_only()) {
                Err(e) => e.to_string(),
                Ok(reader) => {
                    drop(reader.inbox_changes());
                    reader.records("a", 0).await.unwrap().len().to_string()
                }
            };
            say(&line);
        });
    }
    let folder = Folder::new();
    let db = folder.db();
    let copy = |suffix: &str| folder.dir.path().join(format!("kept/hookwright.db{suffix}"));
    block_on(async {
        let store = folder.open();
        store.create_job(job("a"), batch(0, 3)).await.unwrap();
        std::fs::create_dir(folder.dir.path().join("kept")).unwrap();
        for suffix in ["", "-wal"] {
            std::fs::copy(folder.dir.path().join(format!("hookwright.db{suffix}")), copy(suffix)).unwrap();
        }
    });
    let meet = |db: &Path| {
        let mut child = Child::start_with(ME, "", db, without_rights);
        (child.hear(), child.hear())
    };

    // The whole folder is read-only, the store was closed in order.
    set_mode(&db, 0o444);
    set_mode(folder.dir.path(), 0o555);
    let (writing, reading) = meet(&db);
    assert!(writing.contains("read-only") && writing.contains("right to write"), "{writing}");
    assert_eq!(reading, "3");

    // Only the file is.
    set_mode(folder.dir.path(), 0o777);
    let (writing, reading) = meet(&db);
    assert!(writing.contains("read-only"), "{writing}");
    assert_eq!(reading, "3");

    // A write-ahead log waits that cannot be merged: no reading past it.
    for suffix in ["", "-wal"] {
        set_mode(&copy(suffix), 0o444);
    }
    set_mode(copy("").parent().unwrap(), 0o555);
    let (writing, reading) = meet(&copy(""));
    assert!(writing.contains("cannot be opened"), "{writing}");
    assert!(
        reading.contains("hookwright.db-wal still has to be merged") && reading.contains("copy the file"),
        "{reading}"
    );
    set_mode(copy("").parent().unwrap(), 0o755);

    // Nothing may be read at all.
    set_mode(&db, 0o000);
    let (writing, reading) = meet(&db);
    assert!(writing.contains("cannot be opened") && reading.contains("cannot be opened"), "{writing} {reading}");
}

#[tokio::test]
async fn a_full_store_fails_the_large_batch_and_lives_on() {
    let folder = Folder::new();
    let mut options = options();
    options.max_bytes = Some(1_000_000);
    let store = SqliteStore::open(folder.db(), options).unwrap();
    let lease = store.create_job(job("a"), batch(0, 1)).await.unwrap();
    let other = store.create_job(job("b"), batch(0, 1)).await.unwrap();
    for round in 0..3 {
        let large = Batch { blobs: vec![blob(&"x".repeat(2_000_000))], ..batch(1, 1) };
        let (large, small) = tokio::join!(store.append(&lease, large), store.append(&other, batch(round + 1, 1)));
        let text = failed(large);
        assert!(text.contains("disk is full or the store has reached its limit of 1000000 bytes"), "{text}");
        assert!(text.contains("make room") && text.contains("nothing of this step was stored"), "{text}");
        small.unwrap();
        assert_eq!(store.records("a", 0).await.unwrap().len(), 1);
    }
    // The same batch, made smaller, is taken: a failure leaves nothing behind.
    store.append(&lease, batch(1, 1)).await.unwrap();
    assert_eq!(store.records("b", 0).await.unwrap().len(), 4);

    // Small ones fill it up too, and what was acknowledged is there.
    let mut seq = 2;
    let text = loop {
        let filling = Batch { records: vec![RecordText { seq, text: "y".repeat(20_000) }], ..Batch::default() };
        match store.append(&lease, filling).await {
            Ok(()) => seq += 1,
            Err(e) => break e.to_string(),
        }
    };
    assert!(text.contains("full"), "{text}");
    assert_eq!(store.records("a", 0).await.unwrap().len() as u64, seq);
    drop(store);
    assert_eq!(folder.open().records("a", 0).await.unwrap().len() as u64, seq);
    assert!(std::fs::metadata(folder.db()).unwrap().len() <= 1_000_000);
}

#[tokio::test]
async fn a_damaged_file_is_named_and_harms_nothing_else() {
    let folder = Folder::new();
    let store = folder.open();
    let lease = store.create_job(job("a"), Batch::default()).await.unwrap();
    for first in (0..5_000).step_by(500) {
        store.append(&lease, batch(first, 500)).await.unwrap();
    }
    drop(store);
    let mut bytes = std::fs::read(folder.db()).unwrap();
    let middle = bytes.len() / 2;
    for byte in &mut bytes[middle / 4096 * 4096..][..4096 * 4] {
        *byte = 0xA5;
    }
    std::fs::write(folder.db(), bytes).unwrap();
    let store = folder.open();
    let text = failed(store.records("a", 0).await);
    assert!(text.contains("damaged") && text.contains("backup"), "{text}");
    store.create_job(job("b"), batch(0, 1)).await.unwrap();

    // Damage that only we can see.
    drop(store);
    let conn = rusqlite::Connection::open(folder.db()).unwrap();
    conn.execute("UPDATE jobs SET origin = '{' WHERE id = 'b'", []).unwrap();
    let text = failed(folder.open().job("b").await);
    assert!(text.contains("damaged (a job's origin"), "{text}");
}

#[tokio::test]
async fn nothing_counts_as_stored_in_a_file_that_was_moved_away_or_replaced() {
    let folder = Folder::new();
    let store = folder.open();
    let lease = store.create_job(job("a"), batch(0, 1)).await.unwrap();
    let aside = folder.dir.path().join("aside.db");
    std::fs::rename(folder.db(), &aside).unwrap();
    assert!(failed(store.append(&lease, batch(1, 1)).await).contains("moved or replaced"));
    std::fs::write(folder.db(), "").unwrap();
    assert!(failed(store.append(&lease, batch(1, 1)).await).contains("moved or replaced"));
    std::fs::rename(&aside, folder.db()).unwrap();
    store.append(&lease, batch(1, 1)).await.unwrap();
    assert_eq!(store.records("a", 0).await.unwrap(), texts(0, 2));
}

/// A store made in order, then changed by somebody.
async fn changed(sql: &str) -> Folder {
    let folder = Folder::new();
    let store = folder.open();
    store.create_job(job("a"), batch(0, 1)).await.unwrap();
    drop(store);
    let conn = rusqlite::Connection::open(folder.db()).unwrap();
    conn.execute_batch(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    folder
}

#[tokio::test]
async fn a_file_with_tables_triggers_views_or_columns_of_somebody_else_is_refused() {
    let own = "UPDATE sqlite_schema SET sql = replace(sql, ";
    let altered = |what: &str| format!("PRAGMA writable_schema = ON; {own}{what});");
    for (sql, expect) in [
        (
            "CREATE TRIGGER e AFTER INSERT ON approvals BEGIN DELETE FROM inbox; END".to_owned(),
            "the trigger e on approvals",
        ),
        (
            "CREATE TRIGGER e BEFORE INSERT ON records BEGIN SELECT raise(ignore); END".to_owned(),
            "the trigger e on records",
        ),
        ("CREATE TABLE mine (x)".to_owned(), "the table mine is not"),
        ("CREATE VIEW mine AS SELECT 1".to_owned(), "the view mine is not"),
        ("CREATE INDEX mine ON jobs (agent)".to_owned(), "the index mine on jobs is not"),
        ("ALTER TABLE inbox ADD COLUMN x TEXT GENERATED ALWAYS AS (what)".to_owned(), "the table inbox was changed"),
        ("ALTER TABLE jobs ADD COLUMN x TEXT DEFAULT 'y'".to_owned(), "the table jobs was changed"),
        (
            altered("'lease_epoch    INTEGER NOT NULL', 'lease_epoch INTEGER NOT NULL CHECK (n < 9)'"),
            "the table jobs was changed",
        ),
        ("DROP INDEX jobs_held".to_owned(), "the index jobs_held on jobs is missing"),
        ("DROP VIEW history; CREATE TABLE history (job, seq, text)".to_owned(), "the table history is not"),
    ] {
        let folder = changed(&sql).await;
        for options in [options(), options().read_only()] {
            let text = refused(&folder.db(), options);
            assert!(text.contains(expect), "{sql}: {text}");
        }
    }
    // What SQLite's own optimizer leaves there is nobody's word.
    drop(changed("ANALYZE").await.open());
    drop(changed("VACUUM").await.open());
}

#[tokio::test]
async fn a_trigger_that_is_made_while_the_store_is_open_does_nothing() {
    let folder = Folder::new();
    let store = folder.open();
    let lease = store.create_job(job("a"), batch(0, 1)).await.unwrap();
    let conn = rusqlite::Connection::open(folder.db()).unwrap();
    for table in ["records", "inbox", "approvals"] {
        let sql = format!("CREATE TRIGGER t_{table} BEFORE INSERT ON {table} BEGIN SELECT raise(ignore); END");
        conn.execute_batch(&sql).unwrap();
    }
    let opened = Batch { opened: vec![approval("a", "ap")], ..batch(1, 1) };
    store.append(&lease, opened).await.unwrap();
    store.request_cancel("a", "bob", NOW).await.unwrap();
    assert_eq!(store.records("a", 0).await.unwrap(), texts(0, 2));
    assert_eq!((store.inbox("a").await.unwrap().len(), store.approvals(true).await.unwrap().len()), (1, 1));
}
