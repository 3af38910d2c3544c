//! `flyball compare`: two runs, or the levels of a factor.

use crate::exit::{End, Usage};
use crate::shown;
use crate::shown::opened;
use analysis::compare_runs::{AcrossProvenances, CompareError, compare_runs};
use analysis::summarise::compare_levels;
use analysis::summary::Comparison;
use anyhow::{Result, anyhow};
use command_line::{Compare, Global};
use notebook::Notebook;
use report::ComparisonReport;

/// Holds two runs, or a factor's levels, against each other.
pub fn compare(global: &Global, arguments: &Compare) -> Result<End> {
    let notebook = opened(global, None)?;
    match &arguments.factor {
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
    let comparisons: Vec<(String, Comparison)> =
        found.cells.iter().map(|c| (c.cell.to_string(), c.comparison.clone())).collect();
    let title = format!("B, which is {}, against A, which is {}", found.b, found.a);
    let models = [&a, &b].into_iter().filter_map(|data| report::simulation_note(&data.run));
    let notes = models.chain(results::differences(&found)).collect();
    show(global, &ComparisonReport { title, sentence: found.verdict, comparisons, notes })
}

fn levels(global: &Global, arguments: &Compare, notebook: &Notebook, factor: &str) -> Result<End> {
    let id = notebook.find(&arguments.a)?;
    let results = shown::load(notebook, &id, arguments.metric.as_deref())?;
    let known: Vec<&str> = results.data.study.factors.iter().map(|f| f.name.as_str()).collect();
    if !known.contains(&factor) {
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(Usage(format!("the study of `{id}` has no factor `{factor}`; it has {known}")).into());
    }
    let effects = compare_levels(&results.data, factor, arguments.metric.as_deref());
    let title = format!("the levels of {factor} in {id}");
    let sentence = analysis::answer::of_factor(factor, &effects, results.data.study.measure.threshold);
    let mut comparison = ComparisonReport::of_effects(title, sentence, &effects);
    comparison.notes.extend(report::simulation_note(&results.data.run));
    show(global, &comparison)
}

fn show(global: &Global, comparison: &ComparisonReport) -> Result<End> {
    if global.json {
        terminal::json(&report::comparison_json(comparison))?;
    } else {
        terminal::document(&report::Wide(terminal::screen_width()).comparison_text(comparison))?;
    }
    Ok(End::Done)
}
