-- Version 2: sessions, conversations that span jobs. docs/store.md explains the tables to operators: change both together.

CREATE TABLE sessions (
    n          INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,           -- what jobs.session says; not every job's session has a row
    tenant     TEXT NOT NULL,
    agent      TEXT NOT NULL,
    cwd        TEXT NOT NULL,
    title      TEXT,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    closed_ms  INTEGER,
    origin     TEXT NOT NULL                   -- JSON
) STRICT;
CREATE INDEX sessions_by_change ON sessions (tenant, updated_ms, id);

CREATE INDEX jobs_by_session ON jobs (session, n);
