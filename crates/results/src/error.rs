//! Why a run cannot be shown or judged.

use domain::ids::RunId;
use parse::study::StudyErrors;
use std::path::PathBuf;
use thiserror::Error as ThisError;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a run cannot be shown or judged.
#[derive(Debug, ThisError)]
pub enum Error {
    /// The notebook, or something in it.
    #[error(transparent)]
    Notebook(#[from] notebook::Error),
    /// The events of a trial.
    #[error("cannot read the events of `{run}`: {error}")]
    Events {
        /// Whose.
        run: RunId,
        /// What is wrong with them.
        error: events::Error,
    },
    /// A page or a folder that cannot be written.
    #[error(transparent)]
    Write(#[from] files::Error),
    /// The study of a run is in a form that this version does not read, and its trials do not tell what its
    /// cells were.
    #[error("cannot read the study of `{run}` as this version of Flyball reads it:\n{errors}")]
    Study {
        /// Whose.
        run: RunId,
        /// What is not understood.
        errors: StudyErrors,
    },
    /// The same of a run that is kept in a file.
    #[error("cannot read the study that `{path}` was measured with:\n{errors}")]
    KeptStudy {
        /// Which file.
        path: PathBuf,
        /// What is not understood.
        errors: StudyErrors,
    },
    /// No trial reports a metric.
    #[error("no trial of `{run}` reports the metric `{metric}`{others}")]
    Metric {
        /// Whose trials.
        run: RunId,
        /// What was asked for.
        metric: String,
        /// Which metrics there are, as the end of the sentence.
        others: String,
    },
    /// A cell that was not measured.
    #[error("`{run}` has no valid trial of a cell `{cell}`; {}", those(run, known))]
    Cell {
        /// Whose cells.
        run: RunId,
        /// What was asked for.
        cell: String,
        /// The cells that have valid trials.
        known: Vec<String>,
    },
    /// A table of the runs of a study over time, of which none is finished.
    #[error("cannot make a table of the runs of `{0}`: none is finished")]
    NoneFinished(String),
    /// A run that cannot be removed by the name that was typed; the text says why.
    #[error("{0}")]
    Removal(String),
    /// A run before which there is none that it could be compared with.
    #[error("cannot compare `{run}` with the run before it: {why}")]
    NoneBefore {
        /// Which run.
        run: RunId,
        /// What there is instead, and what to do.
        why: String,
    },
    /// The last two runs of a history that has no others.
    #[error(transparent)]
    Compare(#[from] analysis::compare_runs::CompareError),
    /// A finding that is not there, or whose remedy cannot be tried; the text says which, and why.
    #[error("{0}")]
    Finding(String),
    /// A condition by which a run cannot be judged; the text says which, and why.
    #[error("{0}")]
    Condition(String),
    /// A trial that cannot be played.
    #[error("cannot play `{trial}`: {why}")]
    Play {
        /// Which, or of which run.
        trial: String,
        /// Why, and what to do.
        why: String,
    },
    /// A trial that cannot be replayed.
    #[error("cannot replay `{trial}`: {why}")]
    Replay {
        /// Which, or of which run.
        trial: String,
        /// Why.
        why: String,
    },
    /// A page whose cells or figures do not go together.
    #[error("cannot make the page of `{study}`: {why}")]
    Page {
        /// Of which study.
        study: String,
        /// Why.
        why: analysis::page::PageError,
    },
    /// A page that cannot be read, to be checked.
    #[error("cannot read the page `{path}`: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A page that is not as it would be written.
    #[error("`{0}` is not what its study and its kept runs give; write the pages anew, without --check")]
    Stale(PathBuf),
}

/// How many cells an error names.
const MOST_NAMED: usize = 12;

/// The cells that there are, as the end of a sentence.
fn those(run: &RunId, known: &[String]) -> String {
    let named = known[..known.len().min(MOST_NAMED)].join(", ");
    match known.len().saturating_sub(MOST_NAMED) {
        _ if known.is_empty() => "it has none of any cell".to_owned(),
        0 => format!("there are {named}"),
        more => format!("there are {named}, and {more} more (`flyball show {run}` lists them)"),
    }
}
