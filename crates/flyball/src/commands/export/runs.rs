//! The runs of a study over time.

use crate::shown;
use crate::terminal;
use anyhow::{Result, bail};
use domain::ids::RunId;
use domain::trial::Run;
use exporters::RunPoint;
use notebook::Notebook;

/// The finished runs of the named run's study that are of its provenance and machine: others are no points of
/// one line.
pub fn points(notebook: &Notebook, id: &RunId, metric: Option<&str>) -> Result<Vec<RunPoint>> {
    let named = notebook.run(id)?;
    // The newest decides what the figures are of.
    let metric = shown::load(notebook, id, metric)?.summary.metric;
    let (runs, problems) = notebook.runs()?;
    terminal::damaged(&problems);
    let mut points = Vec::new();
    let alike = |run: &Run| {
        run.study == named.study
            && run.provenance == named.provenance
            && run.machine == named.machine
            && run.finished.is_some()
    };
    for run in runs.into_iter().map(|entry| entry.run).filter(alike) {
        let results = shown::load(notebook, &run.id, Some(&metric))?;
        let kernel = results.data.trials.iter().find_map(|trial| trial.environment.get("kernel").cloned());
        points.push(RunPoint { run, kernel, summary: results.summary });
    }
    if points.is_empty() {
        bail!("cannot make a table of the runs of `{}`: none is finished", named.study);
    }
    Ok(points)
}
