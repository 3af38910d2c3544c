//! `flyball compare`: two runs, the levels of a factor, or a study's runs over time.

use crate::exit::{End, Usage};
use crate::{places, shown};
use analysis::compare_runs::{AcrossProvenances, CompareError, compare_runs};
use anyhow::{Result, anyhow};
use command_line::{Compare, Global};
use notebook::Notebook;
use report::ComparisonReport;
use report::history::{json, text};
use results::{Past, of_levels, of_runs};
use session::experiment::{Newest, experiments};

/// Holds two runs, or a factor's levels, against each other.
pub fn compare(global: &Global, arguments: &Compare) -> Result<End> {
    let notebook = shown::opened(global, None)?;
    match &arguments.factor {
        _ if arguments.history => history(global, arguments, &notebook),
        Some(factor) => levels(global, arguments, &notebook, factor),
        None => runs(global, arguments, &notebook),
    }
}

fn runs(global: &Global, arguments: &Compare, notebook: &Notebook) -> Result<End> {
    let across = if arguments.across { AcrossProvenances::Allow } else { AcrossProvenances::Refuse };
    let (a, b) = match &arguments.b {
        Some(b) => (notebook.find(&arguments.a)?, notebook.find(b)?),
        None => {
            let run = notebook.find(&arguments.a)?;
            (results::before(notebook, &run, across)?, run)
        }
    };
    if a == b {
        return Err(Usage(format!(
            "cannot compare `{a}` with itself; name another run, or levels with --factor"
        ))
        .into());
    }
    let (a, b) = (shown::data(notebook, &a)?, shown::data(notebook, &b)?);
    let metric = arguments.metric.as_deref().or_else(|| results::common_metric(&a, &b));
    let found = compare_runs(&a, &b, metric, across).map_err(|error| match error {
        CompareError::Provenance { .. } => anyhow!("{error}; add --across"),
        other => other.into(),
    })?;
    show(global, &of_runs(&a, &b, found))
}

fn levels(global: &Global, arguments: &Compare, notebook: &Notebook, factor: &str) -> Result<End> {
    let id = notebook.find(&arguments.a)?;
    let metric = arguments.metric.as_deref();
    let data = shown::load(notebook, &id, metric)?.data;
    show(global, &of_levels(&data, factor, metric).map_err(Usage)?)
}

/// Shows where a metric changed over a study's runs, and what tells why.
fn history(global: &Global, arguments: &Compare, notebook: &Notebook) -> Result<End> {
    let id = notebook.find(&arguments.a)?;
    let past = Past::load(notebook, &id, arguments.metric.as_deref(), terminal::warn)?;
    let program = places::this_program(global);
    let newest = Newest { data: &past.last().data, machine: past.last().machine() };
    let report = past.report(notebook, terminal::warn, |causes| experiments(&newest, causes, &program));
    if global.json {
        terminal::json(&json(&report))?;
    } else {
        terminal::document(&text(&report, &program, terminal::screen_width()))?;
    }
    Ok(End::Done)
}

fn show(global: &Global, comparison: &ComparisonReport) -> Result<End> {
    if global.json {
        terminal::json(&report::comparison_json(comparison))?;
    } else {
        terminal::document(&report::Wide(terminal::screen_width()).comparison_text(comparison))?;
    }
    Ok(End::Done)
}
