//! Which runs could be removed: those that were begun anew, and what is older or more than somebody keeps.

use crate::{Error, Result};
use domain::Nanos;
use domain::ids::RunId;
use domain::time::Timestamp;
use domain::trial::Run;
use notebook::Notebook;
use std::collections::BTreeMap;

/// What is kept of finished runs. With neither, all are; with both, what either keeps.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// So many of each study.
    pub newest: Option<usize>,
    /// What is not older than this.
    pub older_than: Option<Nanos>,
}

/// The runs that could go and why, newest first.
pub fn removable<'r>(
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
