//! `flyball export`: trials and traces for other programs.

mod fio_plot;
mod otava;
mod out;

use crate::args::{Export, ExportFormat, Global};
use crate::commands::gate;
use crate::exit::{End, Usage};
use crate::results::Results;
use crate::results::{opened, trial_key};
use crate::terminal;
use anyhow::{Context, Result, anyhow};
use domain::trial::{RunId, TrialKey};
use notebook::Notebook;
use notebook::export::{trace_as_csv, trials_as_csv, trials_as_json, trials_as_parquet};
use out::Out;
use report::export::{OPENMETRICS_END, junit, openmetrics, sadf};
use std::io::{self, Write};

/// Writes the table of trials, one trace, or what another program makes its charts of.
pub fn export(global: &Global, arguments: &Export) -> Result<End> {
    let notebook = opened(global, arguments.out.as_deref())?;
    let id = notebook.find(&arguments.run)?;
    let format = if global.json { ExportFormat::Json } else { arguments.format };
    check(arguments, format)?;
    if format == ExportFormat::FioPlot {
        return fio_plot::write(&notebook, &id, arguments.out.as_deref());
    }
    let mut out = Out::open(arguments.out.as_deref(), format)?;
    let written = match &arguments.trace {
        None => table(&notebook, &id, arguments, format, &mut out),
        Some(name) => trace(&notebook, &id, name, format, &mut out).map(|()| End::Done),
    };
    let flushed = out.flush();
    if out.reader_left {
        return Ok(End::Done);
    }
    let end = written?;
    flushed.context("cannot write the export")?;
    out.finish()?;
    Ok(end)
}

/// Whether the form is one of what is asked for.
fn check(arguments: &Export, format: ExportFormat) -> Result<()> {
    use ExportFormat::{Csv, FioPlot, Json, Junit, Openmetrics, Otava, OtavaConfig, Parquet, Sadf};
    let refuse = |why: &str| Err(Usage(why.to_owned()).into());
    match (format, &arguments.trace) {
        (Sadf | Openmetrics, None) => refuse("this form is of one trace; name the trial with --trace TRIAL"),
        (Json | Junit | FioPlot | Otava | OtavaConfig, Some(_)) => {
            refuse("a trace is written as csv, parquet, sadf or openmetrics, not as this form")
        }
        (Csv | Parquet, _)
        | (Sadf | Openmetrics, Some(_))
        | (Json | Junit | FioPlot | Otava | OtavaConfig, None) => {
            if format != Junit && !arguments.fail_if.is_empty() {
                return refuse("--fail-if is for --format junit");
            }
            if !matches!(format, Otava | OtavaConfig) && arguments.metric.is_some() {
                return refuse(
                    "--metric is for --format otava and otava-config; other forms have all metrics",
                );
            }
            Ok(())
        }
    }
}

fn table(
    notebook: &Notebook,
    id: &RunId,
    arguments: &Export,
    format: ExportFormat,
    out: &mut Out,
) -> Result<End> {
    match format {
        ExportFormat::Junit => {
            let results = Results::load(notebook, id, None)?;
            let conditions = gate::prepare(&arguments.fail_if, notebook.folder())?;
            let judged = gate::judged(&conditions, notebook, &results)?;
            out.write_all(junit(&results.data, &results.summary, &judged).as_bytes())?;
            return Ok(if judged.iter().any(|one| one.ruling.fails()) { End::Failed } else { End::Done });
        }
        ExportFormat::Otava => otava::table(notebook, id, arguments.metric.as_deref(), out)?,
        ExportFormat::OtavaConfig => otava::config(notebook, id, arguments, out)?,
        _ => {
            let (trials, problems) = notebook.trials(id)?;
            terminal::damaged(&problems);
            match format {
                ExportFormat::Json => trials_as_json(&trials, out)?,
                ExportFormat::Parquet => trials_as_parquet(&trials, out)?,
                _ => trials_as_csv(&trials, out)?,
            }
        }
    }
    Ok(End::Done)
}

fn trace(notebook: &Notebook, id: &RunId, name: &str, format: ExportFormat, out: &mut Out) -> Result<()> {
    let key = trial_key(name)?;
    let nothing =
        || anyhow!("trial `{name}` of `{id}` has no trace: nothing was recorded, or there is no such trial");
    let mut reader = notebook.trace(id, &key)?.with_context(nothing)?;
    match format {
        ExportFormat::Parquet => {
            let file = notebook.trial_folder(id, &key).join("trace.parquet");
            let mut file =
                files::regular::open(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
            io::copy(&mut file, out).context("cannot write the trace")?;
        }
        ExportFormat::Sadf => {
            tell_of_time(notebook, id, &key)?;
            let trace = reader.read(usize::MAX, |_| true)?;
            let text = sadf(&trace, &notebook.run(id)?.machine)
                .with_context(|| format!("cannot write the trace of `{name}` as sadf does"))?;
            out.write_all(text.as_bytes())?;
        }
        ExportFormat::Openmetrics => {
            tell_of_time(notebook, id, &key)?;
            let run = notebook.run(id)?;
            let trial = key.folder();
            let labels =
                [("run", run.id.0.as_str()), ("trial", &trial), ("provenance", run.provenance.name())];
            for family in openmetrics(reader.head()) {
                let trace = reader.read(usize::MAX, |series| family.is_of(&series.name))?;
                out.write_all(family.text(&trace, &labels).as_bytes())?;
            }
            out.write_all(OPENMETRICS_END.as_bytes())?;
        }
        _ => trace_as_csv(&mut reader, out)?,
    }
    Ok(())
}

/// A lab's trace is in its guest's time, which other programs know nothing of.
fn tell_of_time(notebook: &Notebook, id: &RunId, key: &TrialKey) -> Result<()> {
    let dilation = notebook.trial(id, key)?.lab.map_or(1.0, |account| account.dilation);
    if dilation > 1.0 {
        terminal::warning(format_args!(
            "this trace is in its guest's time, which runs {dilation} times slower than the machine's that it stands for"
        ));
    }
    Ok(())
}
