//! `flyball export`: trials and traces for other programs.

use crate::exit::{End, Usage};
use crate::shown::{self, opened, trial_key};
use anyhow::{Context, Result, anyhow};
use command_line::{Export, Global};
use domain::ids::RunId;
use exporters::{
    Exporter, JudgedRun, StoredRun, StoredTrace, Wanted, WriteFolder, WriteJudged, WriteTrace, Writer,
};
use files::output::NewFolder;
use notebook::Notebook;
use terminal::{Folder, Out};

/// Writes the table of trials, one trace, or what another program makes its charts of.
pub fn export(global: &Global, arguments: &Export) -> Result<End> {
    let notebook = opened(global, arguments.out.as_deref())?;
    let id = notebook.find(&arguments.run)?;
    let format = if global.json { exporters::JSON } else { arguments.format };
    let wanted = Wanted {
        is_of_a_trace: arguments.trace.is_some(),
        has_conditions: !arguments.fail_if.is_empty(),
        has_metric: arguments.metric.is_some(),
    };
    let writer = exporters::writer_for(format, wanted).map_err(Usage)?;
    match writer {
        Writer::Trials(write) => streamed(arguments, format, |out| {
            let (trials, problems) = notebook.trials(&id)?;
            terminal::damaged(&problems);
            Ok(write(&trials, out).map(|()| End::Done)?)
        }),
        Writer::Judged(write) => {
            streamed(arguments, format, |out| judged(&notebook, &id, arguments, write, out))
        }
        Writer::Trace(write) => streamed(arguments, format, |out| {
            let name = arguments.trace.as_deref().unwrap_or_default();
            trace(&notebook, &id, name, write, out)
        }),
        Writer::Runs(write) => streamed(arguments, format, |out| {
            let points = results::points(&notebook, &id, arguments.metric.as_deref(), terminal::warn)?;
            Ok(write(&points, out).map(|()| End::Done)?)
        }),
        Writer::Folder(write) => folder(&notebook, &id, arguments, format, write),
    }
}

/// Opens what is written to, and puts it into its place when it is whole.
fn streamed(
    arguments: &Export,
    format: &dyn Exporter,
    write: impl FnOnce(&mut Out) -> Result<End>,
) -> Result<End> {
    let mut out = Out::open(arguments.out.as_deref(), format)?.map_err(Usage)?;
    let written = write(&mut out);
    let flushed = std::io::Write::flush(&mut out);
    if out.reader_left {
        return Ok(End::Done);
    }
    let end = written?;
    flushed.context("cannot write the export")?;
    out.finish()?;
    Ok(end)
}

fn judged(
    notebook: &Notebook,
    id: &RunId,
    arguments: &Export,
    write: WriteJudged,
    out: &mut Out,
) -> Result<End> {
    let results = shown::load(notebook, id, None)?;
    let conditions = results::gate::prepare(&arguments.fail_if, notebook.folder())?;
    let judged = results::gate::judged(&conditions, notebook, &results, terminal::warn)?;
    write(&JudgedRun { data: &results.data, summary: &results.summary, judged: &judged }, out)?;
    Ok(if judged.iter().any(|one| one.ruling.fails()) { End::Failed } else { End::Done })
}

fn trace(notebook: &Notebook, id: &RunId, name: &str, write: WriteTrace, out: &mut Out) -> Result<End> {
    let key = trial_key(name)?;
    let nothing =
        || anyhow!("trial `{name}` of `{id}` has no trace: nothing was recorded, or there is no such trial");
    let rows = notebook.trace(id, &key)?.with_context(nothing)?;
    write(&mut StoredTrace { notebook, run: id, key: &key, rows }, out)?;
    Ok(End::Done)
}

fn folder(
    notebook: &Notebook,
    id: &RunId,
    arguments: &Export,
    format: &dyn Exporter,
    write: WriteFolder,
) -> Result<End> {
    let Some(place) = &arguments.out else {
        let name = format.name();
        return Err(Usage(format!("{name} reads folders; name the one to make with --out DIR")).into());
    };
    let mut folder = Folder(NewFolder::make(place)?);
    let written = shown::data(notebook, id)
        .and_then(|data| Ok(write(&StoredRun { notebook, data: &data }, &mut folder)?));
    if written.is_err() {
        folder.0.remove_if_empty();
    }
    written.map(|()| End::Done)
}
