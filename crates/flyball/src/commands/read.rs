//! `flyball show`, `explain`, `report`: a run of the notebook, read again.

use super::beside;
use crate::args::{Explain, Global, Report, ReportFormat, Show};
use crate::exit::{End, Usage};
use crate::foreign::look_only;
use crate::results::Results;
use crate::{places, terminal};
use anyhow::{Context, Result, bail};
use domain::trial::TrialKey;
use notebook::Notebook;
use std::path::{Path, PathBuf};

/// Opens the notebook, and reads and writes nothing but it and `out` from now on.
pub fn opened(global: &Global, out: Option<&Path>) -> Result<Notebook> {
    let folder = places::notebook(global)?;
    look_only(&folder, out);
    Ok(Notebook::open(&folder)?)
}

/// Shows a run, or one of its trials.
pub fn show(global: &Global, arguments: &Show) -> Result<End> {
    let notebook = opened(global, None)?;
    let id = notebook.find(&arguments.run)?;
    if let Some(name) = &arguments.trial {
        let key = key(name)?;
        let folder = notebook.trial_folder(&id, &key);
        if !folder.exists() {
            bail!("the run `{id}` has no trial `{name}`; `flyball export {id}` lists its trials");
        }
        let trial = notebook.trial(&id, &key)?;
        if global.json {
            let stored = folder.join("trial.json");
            let text = files::regular::text(&stored, MAX_TRIAL)
                .with_context(|| format!("cannot read `{}`", stored.display()))?;
            terminal::json(&text)?;
        } else {
            terminal::document(&report::trial_text(&trial))?;
            terminal::say(format_args!("all of it: {}", folder.display()));
        }
        return Ok(End::Done);
    }
    let results = Results::load(&notebook, &id, None)?;
    results.print(global)?;
    Ok(End::Done)
}

/// Shows the findings of a run alone.
pub fn explain(global: &Global, arguments: &Explain) -> Result<End> {
    let notebook = opened(global, None)?;
    let results = Results::load(&notebook, &notebook.find(&arguments.run)?, None)?;
    if global.json {
        terminal::json(&report::json(&results.report()))?;
    } else {
        terminal::document(&report::findings_text(&results.report()))?;
    }
    Ok(End::Done)
}

/// Writes a run as a page, or in another form.
pub fn report(global: &Global, arguments: &Report) -> Result<End> {
    if arguments.beside {
        return beside::report(global, arguments);
    }
    let [run] = arguments.runs.as_slice() else {
        let problem = "a report is of one run; name one, or study files with --beside and --book";
        return Err(Usage(problem.into()).into());
    };
    if run.ends_with(".toml") {
        let problem = format!(
            "`{run}` is a study's file, and not a run; add --beside to put its runs beside what was published"
        );
        return Err(Usage(problem).into());
    }
    let format = if global.json { ReportFormat::Json } else { arguments.format };
    // A page without a name gets its run's, in the folder where we are.
    let unnamed = (format == ReportFormat::Html).then_some(Path::new("page.html"));
    let notebook = opened(global, arguments.out.as_deref().or(unnamed))?;
    let id = notebook.find(run)?;
    let results = Results::load(&notebook, &id, arguments.metric.as_deref())?;
    let text = match format {
        ReportFormat::Html => {
            let results = match arguments.trial.as_slice() {
                [] => results.with_traces(&notebook),
                names => {
                    let keys = names.iter().map(|name| known_key(&results, name)).collect::<Result<_>>()?;
                    results.with_traces_of(&notebook, keys)
                }
            };
            let out = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("{id}.html")));
            return write(&out, &report::html(&results.report()));
        }
        ReportFormat::Markdown => report::markdown(&results.report()),
        ReportFormat::Text => report::text(&results.report()),
        ReportFormat::Csv => report::csv(&results.report()),
        ReportFormat::Json => report::json(&results.report()),
    };
    match &arguments.out {
        Some(out) => write(out, &text),
        None => print(format, &text),
    }
}

/// A bound on a stored trial, as the notebook has it.
const MAX_TRIAL: u64 = 64 << 20;

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
    let key = key(name)?;
    let run = &results.data.run.id;
    let known = results.data.trials.iter().any(|trial| trial.key == key);
    let unknown = || Usage(format!("`{run}` has no trial `{name}`; `flyball export {run}` lists them"));
    if known { Ok(key) } else { Err(unknown().into()) }
}

/// A trial by its name.
pub fn key(name: &str) -> Result<TrialKey> {
    let wrong = || {
        Usage(format!(
            "`{name}` is no trial's name; they look like `b00.randread_4k.a0`, and `flyball export RUN` lists them"
        ))
    };
    Ok(TrialKey::from_folder(name).ok_or_else(wrong)?)
}
