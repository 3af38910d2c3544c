//! The runs of a study over time.

use crate::{Error, Result, Results, Warn, tell};
use domain::ids::RunId;
use domain::trial::Run;
use exporters::RunPoint;
use notebook::Notebook;

/// The finished runs of the named run's study that are of its provenance and machine: others are no points of
/// one line.
///
/// # Errors
/// Where a run cannot be read; [`Error::NoneFinished`].
pub fn points(notebook: &Notebook, id: &RunId, metric: Option<&str>, warn: Warn) -> Result<Vec<RunPoint>> {
    let named = notebook.run(id)?;
    // The newest decides what the figures are of.
    let metric = Results::load(notebook, id, metric, warn)?.summary.metric;
    let (runs, problems) = notebook.runs()?;
    tell(&problems, warn);
    let mut points = Vec::new();
    let alike = |run: &Run| {
        run.study == named.study
            && run.provenance == named.provenance
            && run.machine == named.machine
            && run.finished.is_some()
    };
    for run in runs.into_iter().map(|entry| entry.run).filter(alike) {
        let results = Results::load(notebook, &run.id, Some(&metric), warn)?;
        let kernel = results.data.trials.iter().find_map(|trial| trial.environment.get("kernel").cloned());
        points.push(RunPoint { run, kernel, summary: results.summary });
    }
    if points.is_empty() {
        return Err(Error::NoneFinished(named.study));
    }
    Ok(points)
}
