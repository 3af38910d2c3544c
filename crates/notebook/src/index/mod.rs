//! The SQLite index: what the folders hold, as tables. See `schema.sql` for them.
//!
//! It is brought up to date whenever it is opened: each run's and trial's file is looked at (size and time of
//! change), and only what differs is read. An index that is missing, foreign, damaged or of another schema is
//! made again; where it cannot be written, one is made in memory. Nobody has to trust it: the folders are the
//! truth.

mod fill;

pub use fill::{unit_name, validity_of};

use crate::error::{Error, Result};
use crate::notebook::Notebook;
use crate::reading::Problem;
use files::lock::Lock;
use files::own::{self, Access};
use rusqlite::{Connection, OpenFlags};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Marks the file as ours: `Flyb`.
const APPLICATION_ID: i32 = 0x466c_7962;

/// Goes up whenever `schema.sql` changes in any way.
const SCHEMA_VERSION: i32 = 2;

const SCHEMA: &str = include_str!("schema.sql");

/// How long to wait for another process that brings the index up to date: a rebuild of 10,000 trials fits in.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many trials a run has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrialCounts {
    /// Those that count.
    pub valid: u64,
    /// Those that recorded events and are counted for nothing else.
    pub traced: u64,
    /// Those that were disturbed.
    pub disturbed: u64,
    /// Those whose workload failed.
    pub failed: u64,
}

/// The index, up to date at the moment when it was opened.
#[derive(Debug)]
pub struct Index {
    path: PathBuf,
    connection: Connection,
    problems: Vec<Problem>,
}

impl Index {
    pub(crate) fn open(notebook: &Notebook) -> Result<Self> {
        let path = notebook.index_path();
        let on_disk = || -> Result<Self> {
            notebook.check_writable()?;
            // Held until the index is up to date, so that nobody deletes it under somebody who writes it.
            let _lock = Lock::take_within(&notebook.folder().join(".index.lock"), PATIENCE)?;
            match Self::up_to_date(notebook, &path) {
                Err(Error::Index { .. }) => {
                    remove_files(&path)?;
                    Self::up_to_date(notebook, &path)
                }
                other => other,
            }
        };
        match on_disk() {
            // The notebook is read-only, or somebody else's, or its disk is full: it can be read all the
            // same.
            Err(Error::Index { .. } | Error::Io { .. } | Error::Locked { .. } | Error::Foreign { .. }) => {
                Self::in_memory(notebook)
            }
            other => other,
        }
    }

    /// An index of the same form that leaves the disk alone.
    pub(crate) fn in_memory(notebook: &Notebook) -> Result<Self> {
        let path = notebook.index_path();
        let connection = Connection::open_in_memory().map_err(failed(&path))?;
        create(&connection).map_err(failed(&path))?;
        Self::fill(notebook, path, connection)
    }

    /// What could not be read when the index was brought up to date.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The number of trials of each run, by its id; a run without trials is not among them.
    ///
    /// # Errors
    /// Where the index is damaged.
    pub fn counts(&self) -> Result<BTreeMap<String, TrialCounts>> {
        self.count().map_err(failed(&self.path))
    }

    fn count(&self) -> rusqlite::Result<BTreeMap<String, TrialCounts>> {
        let sql = "SELECT run, sum(validity = 'valid'), sum(validity = 'traced'), sum(validity = 'disturbed'), \
                   sum(validity = 'failed') FROM trials GROUP BY run";
        let mut statement = self.connection.prepare(sql)?;
        let counts = statement.query_map([], |row| {
            let number = |i| row.get::<_, i64>(i).map(i64::cast_unsigned);
            let [valid, traced, disturbed, failed] = [number(1)?, number(2)?, number(3)?, number(4)?];
            Ok((row.get(0)?, TrialCounts { valid, traced, disturbed, failed }))
        })?;
        counts.collect()
    }

    fn up_to_date(notebook: &Notebook, path: &Path) -> Result<Self> {
        remove_what_is_no_file(path)?;
        let connection = open_file(path).map_err(failed(path))?;
        Self::fill(notebook, path.to_owned(), connection)
    }

    fn fill(notebook: &Notebook, path: PathBuf, mut connection: Connection) -> Result<Self> {
        let problems = fill::bring_up_to_date(notebook, &mut connection)?;
        Ok(Self { path, connection, problems })
    }
}

/// Opens the index file, making its tables where it is new. One that is not ours, or of another schema, is an
/// error like a damaged one.
fn open_file(path: &Path) -> rusqlite::Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (tables, pragma("application_id")?, pragma("user_version")?) {
        (0, 0, 0) => create(&connection)?,
        (_, APPLICATION_ID, SCHEMA_VERSION) => {}
        _ => {
            return Err(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_NOTADB),
                Some("it is another program's, or of another version of this one".to_owned()),
            ));
        }
    }
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "BEGIN; {SCHEMA} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    ))
}

/// A link, a pipe or somebody else's file in the index's place goes, and not what a link points to.
fn remove_what_is_no_file(path: &Path) -> Result<()> {
    match own::open(path, Access::Read) {
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => remove_files(path),
        _ => Ok(()),
    }
}

/// Removes the index and its journals: a journal of the old file would be played back into the new one.
fn remove_files(path: &Path) -> Result<()> {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        let file = PathBuf::from(file);
        match fs::remove_file(&file) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::io("remove", &file)(e)),
            _ => {}
        }
    }
    Ok(())
}

fn failed(path: &Path) -> impl FnOnce(rusqlite::Error) -> Error {
    move |source| Error::Index { path: path.to_owned(), source }
}
