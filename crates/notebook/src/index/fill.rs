//! Bringing the index up to date with the folders.

use super::failed;
use crate::error::Result;
use crate::notebook::Notebook;
use crate::reading::Problem;
use domain::ids::RunId;
use domain::outcome::Better;
use domain::time::Timestamp;
use domain::trial::{Run, Trial, Validity};
use domain::units::Unit;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Reads what is new or has changed, forgets what is gone, and gives what could not be read.
pub(super) fn bring_up_to_date(notebook: &Notebook, connection: &mut Connection) -> Result<Vec<Problem>> {
    let path = notebook.index_path();
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed(&path))?;
    let mut problems = Vec::new();
    let mut present = BTreeSet::new();
    let mut folders = Vec::new();
    for (name, folder) in crate::reading::folders(&notebook.runs_folder(), &mut folders)? {
        let Some(stamp) = stamp_of(&folder.join("run.json")) else { continue };
        let id = RunId(name);
        let fill = Fill { notebook, transaction: &transaction, id: &id };
        // The problem of a run that cannot be read is told by whoever lists the runs.
        if fill.run(&stamp)? {
            fill.trials(&mut problems)?;
            present.insert(id.0);
        }
    }
    forget(&transaction, &present).map_err(failed(&path))?;
    transaction.commit().map_err(failed(&path))?;
    Ok(problems)
}

/// Tells whether a file is the one that was read: its size and time of change.
fn stamp_of(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    Some(format!("{} {}.{:09}", metadata.size(), metadata.mtime(), metadata.mtime_nsec()))
}

fn forget(transaction: &Transaction<'_>, present: &BTreeSet<String>) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare("SELECT id FROM runs")?;
    let known: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    for id in known.iter().filter(|id| !present.contains(*id)) {
        transaction.execute("DELETE FROM runs WHERE id = ?1", [id])?;
    }
    Ok(())
}

/// One run's part of the work.
struct Fill<'a> {
    notebook: &'a Notebook,
    transaction: &'a Transaction<'a>,
    id: &'a RunId,
}

impl Fill<'_> {
    /// Puts the run itself in; `false` where it cannot be read.
    fn run(&self, stamp: &str) -> Result<bool> {
        let sql = "SELECT stamp FROM runs WHERE id = ?1";
        let known: Option<String> =
            self.sql(|t| t.query_row(sql, [&self.id.0], |row| row.get(0)).optional())?;
        if known.as_deref() == Some(stamp) {
            return Ok(true);
        }
        let Ok(run) = self.notebook.run(self.id) else { return Ok(false) };
        self.sql(|t| put_run(t, &run, stamp))?;
        Ok(true)
    }

    fn trials(&self, problems: &mut Vec<Problem>) -> Result<()> {
        let mut known = self.sql(|t| known_trials(t, &self.id.0))?;
        let (keys, foreign) = self.notebook.trial_keys(self.id)?;
        problems.extend(foreign);
        for key in keys {
            let name = key.folder();
            let folder = self.notebook.trial_folder(self.id, &key);
            let stamp = stamp_of(&folder.join("trial.json")).unwrap_or_default();
            if known.get(&name) == Some(&stamp) {
                known.remove(&name);
                continue;
            }
            match self.notebook.trial(self.id, &key) {
                Ok(trial) => {
                    self.sql(|t| put_trial(t, &trial, &stamp))?;
                    known.remove(&name);
                }
                Err(e) => problems.push(Problem::new(&folder, &e)),
            }
        }
        // What is left is gone, or can no longer be read.
        for name in known.keys() {
            self.sql(|t| t.execute("DELETE FROM trials WHERE run = ?1 AND key = ?2", [&self.id.0, name]))?;
        }
        Ok(())
    }

    fn sql<T>(&self, ask: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        ask(self.transaction).map_err(failed(&self.notebook.index_path()))
    }
}

fn known_trials(connection: &Connection, run: &str) -> rusqlite::Result<BTreeMap<String, String>> {
    let mut statement = connection.prepare_cached("SELECT key, stamp FROM trials WHERE run = ?1")?;
    statement.query_map([run], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn put_run(connection: &Connection, run: &Run, stamp: &str) -> rusqlite::Result<()> {
    // An update in place: replacing the row would take its trials along.
    let sql = "INSERT INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) \
               ON CONFLICT (id) DO UPDATE SET study = ?2, revision = ?3, started = ?4, started_ns = ?5, finished = ?6, \
               finished_ns = ?7, provenance = ?8, machine = ?9, flyball = ?10, seed = ?11, stamp = ?12";
    connection.execute(
        sql,
        params![
            run.id.0,
            run.study,
            run.revision,
            run.started.iso(),
            run.started.unix_nanos(),
            run.finished.map(Timestamp::iso),
            run.finished.map(Timestamp::unix_nanos),
            run.provenance.name(),
            run.machine,
            run.flyball,
            run.seed.to_string(),
            stamp,
        ],
    )?;
    Ok(())
}

fn put_trial(connection: &Connection, trial: &Trial, stamp: &str) -> rusqlite::Result<()> {
    let key = trial.key.folder();
    connection
        .prepare_cached("DELETE FROM trials WHERE run = ?1 AND key = ?2")?
        .execute([&trial.run.0, &key])?;
    let (validity, reason) = validity_of(trial);
    let measured = trial.measurement.as_ref();
    let sql = "INSERT INTO trials (run, key, block, cell, attempt, workload, started, started_ns, validity, reason, tool, \
               duration_s, stamp) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
    connection.prepare_cached(sql)?.execute(params![
        trial.run.0,
        key,
        trial.key.block,
        trial.key.cell.as_str(),
        trial.key.attempt,
        trial.workload,
        trial.started.iso(),
        trial.started.unix_nanos(),
        validity,
        reason,
        measured.map(|m| m.outcome.tool.as_str()),
        measured.map(|m| m.duration.secs()),
        stamp,
    ])?;
    put_details(connection, trial, connection.last_insert_rowid())
}

fn put_details(connection: &Connection, trial: &Trial, id: i64) -> rusqlite::Result<()> {
    let mut level = connection.prepare_cached("INSERT INTO levels VALUES (?1, ?2, ?3)")?;
    for (factor, name) in &trial.levels {
        level.execute(params![id, factor, name])?;
    }
    let mut setting =
        connection.prepare_cached("INSERT INTO settings VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    for (position, s) in trial.settings.iter().enumerate() {
        let name = s.setting.to_string();
        setting.execute(params![id, position as i64, name, s.path, s.before, s.asked, s.got, s.after])?;
    }
    let mut environment = connection.prepare_cached("INSERT INTO environment VALUES (?1, ?2, ?3)")?;
    for (name, value) in &trial.environment {
        environment.execute(params![id, name, value])?;
    }
    let Some(measured) = &trial.measurement else { return Ok(()) };
    let mut metric = connection.prepare_cached("INSERT INTO metrics VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (name, m) in &measured.outcome.metrics {
        let better = if m.better == Better::Higher { "higher" } else { "lower" };
        metric.execute(params![id, name, m.value, unit_name(&m.unit), better])?;
    }
    let mut role = connection.prepare_cached("INSERT INTO roles VALUES (?1, ?2, ?3)")?;
    for (name, cpu) in &measured.roles {
        role.execute(params![id, name.name(), cpu.secs()])?;
    }
    Ok(())
}

/// How far a trial can be believed, in a word, and why no further.
pub fn validity_of(trial: &Trial) -> (&'static str, Option<String>) {
    match &trial.validity {
        Validity::Valid => ("valid", None),
        Validity::Traced => ("traced", None),
        Validity::Disturbed(list) => {
            let details: Vec<&str> = list.iter().map(|d| d.detail.as_str()).collect();
            ("disturbed", Some(details.join("; ")))
        }
        Validity::Failed(reason) => ("failed", Some(reason.clone())),
    }
}

/// A unit's name in tables: `bytes_per_second`; one that a study named stands as it is.
pub fn unit_name(unit: &Unit) -> &str {
    match unit {
        Unit::BytesPerSecond => "bytes_per_second",
        Unit::PerSecond => "per_second",
        Unit::Seconds => "seconds",
        Unit::Joules => "joules",
        Unit::Watts => "watts",
        Unit::Hertz => "hertz",
        Unit::Share => "share",
        Unit::Count => "count",
        Unit::Other(name) => name,
    }
}
