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
    let (alike, _) = alike(notebook, id, metric, warn)?;
    let point = |Results { data, summary, .. }: Results| {
        let kernel = data.trials.iter().find_map(|trial| trial.environment.get("kernel").cloned());
        RunPoint { run: data.run, kernel, summary }
    };
    Ok(alike.into_iter().map(point).collect())
}

/// The same as they were judged, in the notebook's order; and how many finished runs of the study are of
/// another kind of machine, or of another machine.
///
/// # Errors
/// Those of [`points`].
pub(crate) fn alike(
    notebook: &Notebook,
    id: &RunId,
    metric: Option<&str>,
    warn: Warn,
) -> Result<(Vec<Results>, usize)> {
    let named = notebook.run(id)?;
    // The newest decides what the figures are of.
    let metric = Results::load(notebook, id, metric, warn)?.summary.metric;
    let (runs, problems) = notebook.runs()?;
    tell(&problems, warn);
    let of_study = |run: &Run| run.study == named.study && run.finished.is_some();
    let is_alike = |run: &Run| run.provenance == named.provenance && run.machine == named.machine;
    let (alike, others): (Vec<Run>, Vec<Run>) =
        runs.into_iter().map(|entry| entry.run).filter(of_study).partition(is_alike);
    if alike.is_empty() {
        return Err(Error::NoneFinished(named.study));
    }
    let mut results = Vec::new();
    for run in &alike {
        match Results::load(notebook, &run.id, Some(&metric), warn) {
            // Nothing of it counts, as where the disk was full.
            Err(error @ Error::Metric { .. }) => warn(&format_args!("left out: {error}")),
            loaded => results.push(loaded?),
        }
    }
    Ok((results, others.len()))
}
