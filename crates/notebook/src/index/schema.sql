-- The index of a Flyball notebook. It is made from the folders and can be deleted at any time.
-- Times that end in _ns are nanoseconds since 1970-01-01 UTC; CPU times and durations are in seconds.

CREATE TABLE runs (
    id          TEXT PRIMARY KEY,
    study       TEXT NOT NULL,
    revision    TEXT,
    started     TEXT NOT NULL,
    started_ns  INTEGER NOT NULL,
    finished    TEXT,
    finished_ns INTEGER,
    provenance  TEXT NOT NULL,
    machine     TEXT NOT NULL,
    flyball     TEXT NOT NULL,
    seed        TEXT NOT NULL,
    stamp       TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE trials (
    trial_id    INTEGER PRIMARY KEY,
    run         TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    key         TEXT NOT NULL,
    block       INTEGER NOT NULL,
    cell        TEXT NOT NULL,
    attempt     INTEGER NOT NULL,
    workload    TEXT NOT NULL,
    started     TEXT NOT NULL,
    started_ns  INTEGER NOT NULL,
    validity    TEXT NOT NULL CHECK (validity IN ('valid', 'traced', 'disturbed', 'failed')),
    reason      TEXT,
    tool        TEXT,
    duration_s  REAL,
    stamp       TEXT NOT NULL,
    UNIQUE (run, key)
) STRICT;

CREATE TABLE levels (
    trial_id    INTEGER NOT NULL REFERENCES trials (trial_id) ON DELETE CASCADE,
    factor      TEXT NOT NULL,
    level       TEXT NOT NULL,
    PRIMARY KEY (trial_id, factor)
) STRICT, WITHOUT ROWID;

CREATE TABLE metrics (
    trial_id    INTEGER NOT NULL REFERENCES trials (trial_id) ON DELETE CASCADE,
    name        TEXT NOT NULL,
    value       REAL NOT NULL,
    unit        TEXT NOT NULL,
    better      TEXT NOT NULL CHECK (better IN ('higher', 'lower')),
    PRIMARY KEY (trial_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE settings (
    trial_id    INTEGER NOT NULL REFERENCES trials (trial_id) ON DELETE CASCADE,
    position    INTEGER NOT NULL,
    setting     TEXT NOT NULL,
    path        TEXT NOT NULL,
    before      TEXT NOT NULL,
    asked       TEXT NOT NULL,
    got         TEXT NOT NULL,
    after       TEXT,
    PRIMARY KEY (trial_id, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE environment (
    trial_id    INTEGER NOT NULL REFERENCES trials (trial_id) ON DELETE CASCADE,
    name        TEXT NOT NULL,
    value       TEXT NOT NULL,
    PRIMARY KEY (trial_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE roles (
    trial_id    INTEGER NOT NULL REFERENCES trials (trial_id) ON DELETE CASCADE,
    role        TEXT NOT NULL,
    cpu_s       REAL NOT NULL,
    PRIMARY KEY (trial_id, role)
) STRICT, WITHOUT ROWID;

-- One row a metric of each trial that counts, with what a query mostly asks for beside it.
CREATE VIEW results AS
SELECT runs.study, runs.id AS run, runs.revision, runs.machine, trials.key, trials.block, trials.cell,
       trials.workload, metrics.name AS metric, metrics.value, metrics.unit, metrics.better
FROM metrics JOIN trials USING (trial_id) JOIN runs ON runs.id = trials.run
WHERE trials.validity = 'valid';
