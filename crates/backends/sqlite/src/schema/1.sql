-- Version 1. docs/store.md explains the tables to operators: change both together.

CREATE TABLE jobs (
    n              INTEGER PRIMARY KEY,        -- what the other tables call the job
    id             TEXT NOT NULL UNIQUE,
    tenant         TEXT NOT NULL,
    agent          TEXT NOT NULL,
    session        TEXT NOT NULL,
    parent         TEXT,                       -- id of the job that started it
    created_ms     INTEGER NOT NULL,
    updated_ms     INTEGER NOT NULL,
    status         TEXT NOT NULL CHECK (status IN ('running', 'waiting', 'completed', 'failed', 'cancelled')),
    records        INTEGER NOT NULL CHECK (records >= 0),  -- how many; also the next record's seq
    origin         TEXT NOT NULL,              -- JSON
    lease_epoch    INTEGER NOT NULL,           -- grows with each take
    lease_holder   TEXT,                       -- key of the store that holds it; null: nobody
    lease_node     TEXT,
    lease_pid      INTEGER,
    lease_start    INTEGER,                    -- the process's start in clock ticks since boot
    lease_boot     TEXT,
    lease_pidns    TEXT,
    lease_since_ms INTEGER,
    lease_beat_ms  INTEGER
) STRICT;
CREATE INDEX jobs_by_age ON jobs (created_ms, n);
CREATE INDEX jobs_unfinished ON jobs (created_ms, n) WHERE status IN ('running', 'waiting');
CREATE INDEX jobs_held ON jobs (lease_holder) WHERE lease_holder IS NOT NULL;

-- Rows of all jobs stand in the order of their writing, so that jobs which commit together write to the same pages.
CREATE TABLE records (
    n    INTEGER PRIMARY KEY,
    job  INTEGER NOT NULL REFERENCES jobs (n),
    seq  INTEGER NOT NULL CHECK (seq >= 0),
    text TEXT NOT NULL,
    UNIQUE (job, seq)
) STRICT;

CREATE TABLE blobs (
    n      INTEGER PRIMARY KEY,
    sha256 TEXT NOT NULL UNIQUE,
    text   TEXT NOT NULL
) STRICT;

CREATE TABLE blob_refs (
    job  INTEGER NOT NULL REFERENCES jobs (n),
    blob INTEGER NOT NULL REFERENCES blobs (n),
    PRIMARY KEY (job, blob)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_refs_by_blob ON blob_refs (blob);

CREATE TABLE approvals (
    n          INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    job        INTEGER NOT NULL REFERENCES jobs (n),
    tenant     TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('open', 'approved', 'denied', 'expired', 'closed')),
    opened_ms  INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    approval   TEXT NOT NULL,                  -- JSON
    decision   TEXT                            -- JSON
) STRICT;
CREATE INDEX approvals_by_age ON approvals (opened_ms, n);
CREATE INDEX approvals_open ON approvals (opened_ms, n) WHERE state = 'open';
CREATE INDEX approvals_by_job ON approvals (job);

-- AUTOINCREMENT: ids never come back, so that the largest one ever given tells whether anything was added.
CREATE TABLE inbox (
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    job  INTEGER NOT NULL REFERENCES jobs (n),
    what TEXT NOT NULL                         -- JSON
) STRICT;
CREATE INDEX inbox_by_job ON inbox (job, id);

-- For people.
CREATE VIEW history AS
    SELECT jobs.id AS job, records.seq AS seq, records.text AS text FROM records JOIN jobs ON jobs.n = records.job;
