//! The runs of a study over time, for Apache Otava.

use super::out::Out;
use crate::args::Export;
use crate::results::Results;
use crate::terminal;
use anyhow::{Result, bail};
use domain::trial::RunId;
use notebook::Notebook;
use report::export::{RunPoint, left_out, otava_config, otava_csv};
use std::io::Write;

pub fn table(notebook: &Notebook, id: &RunId, metric: Option<&str>, out: &mut Out) -> Result<()> {
    let points = points(notebook, id, metric)?;
    for cell in left_out(&points) {
        terminal::warning(format_args!(
            "the cell `{cell}` is left out: not every run has measured it, and Otava takes no gaps"
        ));
    }
    out.write_all(otava_csv(&points).as_bytes())?;
    Ok(())
}

pub fn config(notebook: &Notebook, id: &RunId, arguments: &Export, out: &mut Out) -> Result<()> {
    let points = points(notebook, id, arguments.metric.as_deref())?;
    let file = format!("{}.csv", notebook.run(id)?.study);
    out.write_all(otava_config(&points, &file).as_bytes())?;
    Ok(())
}

/// The finished runs of the named run's study that are of its provenance and machine: others are no points of one line.
fn points(notebook: &Notebook, id: &RunId, metric: Option<&str>) -> Result<Vec<RunPoint>> {
    let named = notebook.run(id)?;
    // The newest decides what the figures are of.
    let metric = Results::load(notebook, id, metric)?.summary.metric;
    let (runs, problems) = notebook.runs()?;
    crate::terminal::damaged(&problems);
    let mut points = Vec::new();
    let alike = |run: &domain::trial::Run| {
        run.study == named.study
            && run.provenance == named.provenance
            && run.machine == named.machine
            && run.finished.is_some()
    };
    for run in runs.into_iter().map(|entry| entry.run).filter(alike) {
        let results = Results::load(notebook, &run.id, Some(&metric))?;
        let kernel = results.data.trials.iter().find_map(|trial| trial.environment.get("kernel").cloned());
        points.push(RunPoint { run, kernel, summary: results.summary });
    }
    if points.is_empty() {
        bail!("cannot make a table of the runs of `{}`: none is finished", named.study);
    }
    Ok(points)
}
