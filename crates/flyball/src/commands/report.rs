//! `flyball report`: a run as a page, or in another form.

use super::published;
use crate::exit::{End, Usage};
use crate::shown::{self, opened, trial_key};
use anyhow::Result;
use command_line::{Global, Report, ReportFormat};
use domain::ids::TrialKey;
use results::Results;
use std::path::{Path, PathBuf};

/// Writes a run as a page, or in another form.
pub fn report(global: &Global, arguments: &Report) -> Result<End> {
    if arguments.published {
        return published::report(global, arguments);
    }
    let [run] = arguments.runs.as_slice() else {
        let problem = "a report is of one run; name one, or study files with --published and --pages";
        return Err(Usage(problem.into()).into());
    };
    if run.ends_with(".toml") {
        let problem = format!(
            "`{run}` is a study's file, and not a run; add --published to compare its runs with what was published"
        );
        return Err(Usage(problem).into());
    }
    let format = if global.json { ReportFormat::Json } else { arguments.format };
    // A page without a name gets its run's, in the folder where we are.
    let unnamed = (format == ReportFormat::Html).then_some(Path::new("page.html"));
    let notebook = opened(global, arguments.out.as_deref().or(unnamed))?;
    let id = notebook.find(run)?;
    let results = shown::load(&notebook, &id, arguments.metric.as_deref())?;
    let keys = arguments.trial.iter().map(|name| known_key(&results, name)).collect::<Result<_>>()?;
    let text = match format {
        ReportFormat::Html => {
            let results = results.with_traces_of(&notebook, keys);
            let out = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("{id}.html")));
            return write(&out, &report::html(&results.report()));
        }
        ReportFormat::Markdown => report::markdown(&results.report()),
        ReportFormat::Text => report::text(&results.report()),
        ReportFormat::Csv => report::csv(&results.report()),
        ReportFormat::Json => report::json(&results.with_traces_of(&notebook, keys).report()),
    };
    match &arguments.out {
        Some(out) => write(out, &text),
        None => print(format, &text),
    }
}

/// Writes a file, or standard output where it is `-`, and names the file.
pub fn write(out: &Path, text: &str) -> Result<End> {
    if out == Path::new("-") {
        return print(ReportFormat::Text, text);
    }
    files::output::write(out, text.as_bytes())?;
    terminal::line(out.display())?;
    Ok(End::Done)
}

/// Prints a document in one of its forms.
pub fn print(format: ReportFormat, text: &str) -> Result<End> {
    match format {
        ReportFormat::Json => terminal::json(text)?,
        ReportFormat::Html | ReportFormat::Markdown | ReportFormat::Text | ReportFormat::Csv => {
            terminal::document(text)?;
        }
    }
    Ok(End::Done)
}

/// A trial of this run by its name.
fn known_key(results: &Results, name: &str) -> Result<TrialKey> {
    let key = trial_key(name)?;
    let run = &results.data.run.id;
    let known = results.data.trials.iter().any(|trial| trial.key == key);
    let unknown = || Usage(format!("`{run}` has no trial `{name}`; `flyball export {run}` lists them"));
    if known { Ok(key) } else { Err(unknown().into()) }
}
