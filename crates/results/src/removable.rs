//! Which runs could be removed: those that were begun anew, and what is older or more than somebody keeps.

use crate::{Error, Result};
use domain::Nanos;
use domain::ids::RunId;
use domain::inert::Lines;
use domain::time::Timestamp;
use domain::trial::Run;
use domain::units::Bytes;
use notebook::Notebook;
use report::Columns;
use serde_json::json;
use std::collections::BTreeMap;

/// What is kept of finished runs. With neither, all are; with both, what either keeps.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// So many of each study.
    pub newest: Option<usize>,
    /// What is not older than this.
    pub older_than: Option<Nanos>,
}

/// The version of the JSON form.
const SCHEMA: u32 = 1;

/// The runs that could go, newest first.
pub struct Removable(Vec<Candidate>);

/// A run that could go: why, and what it takes.
struct Candidate {
    run: RunId,
    why: &'static str,
    size: Bytes,
}

impl Removable {
    /// Those of a notebook. What is being measured is nobody's leftover, whatever else it is.
    ///
    /// # Errors
    /// Where the notebook cannot be read.
    pub fn of(notebook: &Notebook, runs: &[Run], kept: &Kept, now: Timestamp) -> Result<Self> {
        let mut candidates = Vec::new();
        for (run, why) in removable(notebook, runs, kept, now) {
            if !notebook.is_measured(&run.id)? {
                candidates.push(Candidate { run: run.id.clone(), why, size: notebook.run_size(&run.id)? });
            }
        }
        Ok(Self(candidates))
    }

    /// Whether nothing could go.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each run, and what it takes.
    pub fn into_sizes(self) -> Vec<(RunId, Bytes)> {
        self.0.into_iter().map(|one| (one.run, one.size)).collect()
    }

    fn total(&self) -> Bytes {
        Bytes::new(self.0.iter().map(|one| one.size.get()).sum())
    }

    /// `1.2 GB in 3 runs`.
    pub fn in_words(&self) -> String {
        let count = self.0.len();
        format!("{} in {count} {}", self.total(), if count == 1 { "run" } else { "runs" })
    }

    /// As JSON; `removed` says whether they are to be removed now.
    pub fn as_json(&self, removed: bool) -> String {
        let run = |one: &Candidate| json!({ "run": one.run.0, "why": one.why, "bytes": one.size.get() });
        let runs: Vec<_> = self.0.iter().map(run).collect();
        let value =
            json!({ "schema": SCHEMA, "removed": removed, "bytes": self.total().get(), "runs": runs });
        format!("{value:#}")
    }

    /// As a table of this width, or of any.
    pub fn as_text(&self, width: Option<usize>) -> Lines {
        let mut table = Columns::new(&["RUN", "TAKES", "WHY"]);
        for Candidate { run, why, size } in &self.0 {
            table.row([run.0.clone(), size.to_string(), (*why).to_owned()]);
        }
        table.lines(width)
    }
}

/// Runs that are to be removed, with what they take: `2 runs: …`.
pub fn in_words(runs: &[(RunId, Bytes)]) -> String {
    let names: Vec<String> = runs.iter().map(|(run, size)| format!("`{run}` ({size})")).collect();
    let count = if let [_] = runs { String::new() } else { format!("{} runs: ", runs.len()) };
    count + &names.join(", ")
}

fn removable<'r>(
    notebook: &Notebook,
    runs: &'r [Run],
    kept: &Kept,
    now: Timestamp,
) -> Vec<(&'r Run, &'static str)> {
    let abandoned = notebook.abandoned(runs);
    let mut rank: BTreeMap<&str, usize> = BTreeMap::new();
    let why = |run: &'r Run| {
        let at = rank.entry(run.study.as_str()).or_default();
        *at += 1;
        let is_beyond = kept.newest.map(|keep| *at > keep);
        let is_old = kept.older_than.map(|span| is_older(run, span, now));
        let why = if abandoned.contains(&run) {
            "unfinished, and a newer run of its study has begun"
        } else {
            why_finished(is_old, is_beyond)?
        };
        Some((run, why))
    };
    runs.iter().filter_map(why).collect()
}

fn why_finished(is_old: Option<bool>, is_beyond: Option<bool>) -> Option<&'static str> {
    match (is_old, is_beyond) {
        (Some(true), Some(true) | None) => Some("older than was asked"),
        (None, Some(true)) => Some("beyond the newest that are kept"),
        _ => None,
    }
}

fn is_older(run: &Run, span: Nanos, now: Timestamp) -> bool {
    let age = now.unix_nanos().saturating_sub(run.started.unix_nanos());
    u64::try_from(age).is_ok_and(|age| age > span.get())
}

/// The run of this name. Unlike elsewhere, a study's name alone is not enough where it has several runs: it
/// means the newest, and perhaps not to whoever wants to remove one.
///
/// # Errors
/// Where it is none, or one of several.
pub fn only_run(notebook: &Notebook, name: &str) -> Result<RunId> {
    let itself = RunId(name.to_owned());
    if notebook.has_run(&itself) {
        return Ok(itself);
    }
    let (runs, _) = notebook.runs()?;
    let of_study = runs.iter().filter(|entry| entry.run.study == name).count();
    if of_study > 1 {
        return Err(Error::Removal(format!(
            "cannot remove `{name}`: the study has {of_study} runs, and which is meant is not said; name a run, or \
             `{name}~0` for the newest; `flyball list {name}` shows them"
        )));
    }
    notebook.find(name).map_err(|error| Error::Removal(format!("cannot remove `{name}`: {error}")))
}

#[cfg(test)]
mod tests {
    use super::why_finished;

    #[test]
    fn what_is_to_be_kept_is_kept_whatever_its_age() {
        assert!(why_finished(Some(true), None).is_some());
        assert!(why_finished(Some(true), Some(true)).is_some());
        assert!(why_finished(None, Some(true)).is_some());
        for kept in [(Some(true), Some(false)), (Some(false), Some(true)), (None, Some(false)), (None, None)]
        {
            assert!(why_finished(kept.0, kept.1).is_none(), "{kept:?}");
        }
    }
}
