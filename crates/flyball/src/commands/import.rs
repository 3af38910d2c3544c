//! `flyball import`: other tools' results become runs like others.

use crate::args::{Global, Import as Arguments};
use crate::exit::{End, Usage};
use crate::terminal::Watching;
use crate::{places, terminal, typed};
use anyhow::{Result, bail};
use domain::ids::RunId;
use domain::inert::Lines;
use importer::{Environment, Import, Item, Source, imported_before, looked_for, read};
use notebook::Notebook;
use parse::import::{Kind, Pace};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

/// The version of the JSON form.
const SCHEMA: u32 = 1;

/// Reads the files, each whole before anything is stored, and stores them.
pub fn import(global: &Global, arguments: &Arguments) -> Result<End> {
    allow_many_files();
    let kind = arguments.kind.as_deref().map(kind).transpose()?;
    let pace = Pace { interval: arguments.interval };
    let environment = Environment {
        program: places::program,
        time_zone: places::time_zone(),
        warn: |text| terminal::warning(text),
    };
    let mut files = Vec::new();
    for file in &arguments.files {
        files.push(read(Source::open(file, kind, pace, &environment)?)?);
    }
    let name = arguments.name.as_deref();
    let imports: Vec<Import> = if arguments.together {
        vec![Import::of(name, files)]
    } else {
        files.into_iter().map(|file| Import::of(name, vec![file])).collect()
    };
    if arguments.dry_run {
        let understood: Vec<(Option<RunId>, &Import)> = imports.iter().map(|import| (None, import)).collect();
        return show(global, &understood);
    }
    let notebook = Notebook::create(&places::absolute(&places::notebook(global)?)?)?;
    for source in imports.iter().flat_map(|import| &import.files).map(|file| &file.source) {
        if !arguments.again
            && let Some(run) = imported_before(&notebook, &source.sha256)?
        {
            bail!("`{}` was imported already, as `{run}`; --again imports it once more", source.name);
        }
    }
    let mut stored = Vec::new();
    for import in &imports {
        let run = import.store(&notebook, typed(), &mut Watching::default())?;
        stored.push((Some(run), import));
    }
    show(global, &stored)
}

/// Each file stays open from its first look to the end, so that no other is stored under its name.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where it is not allowed, many files at once are an error that says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn kind(name: &str) -> Result<Kind> {
    Kind::from_name(name)
        .ok_or_else(|| Usage(format!("there is no kind of file `{name}`; there are {}", looked_for())).into())
}

fn show(global: &Global, imports: &[(Option<RunId>, &Import)]) -> Result<End> {
    if global.json {
        let runs: Vec<_> = imports.iter().map(|(run, import)| as_json(run.as_ref(), import)).collect();
        terminal::json(&format!("{:#}", json!({ "schema": SCHEMA, "runs": runs })))?;
        return Ok(End::Done);
    }
    let mut text = Lines::default();
    for (index, (run, import)) in imports.iter().enumerate() {
        if index > 0 {
            text.blank();
        }
        describe(&mut text, run.as_ref(), import);
    }
    terminal::lines(&text)?;
    for (run, _) in imports {
        if let Some(run) = run {
            terminal::say(format_args!(
                "`flyball show {run}` shows it, `flyball report {run}` writes the page"
            ));
        }
    }
    Ok(End::Done)
}

fn describe(text: &mut Lines, run: Option<&RunId>, import: &Import) {
    match run {
        Some(run) => text.line(run),
        None => text.line(format_args!("{} (nothing was stored)", import.name)),
    }
    for file in &import.files {
        text.line(format_args!("  {}: {}", file.source.name, file.imported.kind.name()));
        for (name, value) in &file.imported.facts {
            text.line(format_args!("    {name}: {value}"));
        }
        for note in &file.imported.notes {
            text.line(format_args!("    note: {note}"));
        }
    }
    for item in &import.items {
        text.line(format_args!("  {}: {}", item.key.folder(), summary(item)));
    }
}

/// What a trial has, in one line: its deciding figures, or how many.
fn summary(item: &Item) -> String {
    const SHOWN: usize = 6;
    let metrics = &item.part.outcome.metrics;
    let mut parts = vec![item.part.outcome.tool.clone()];
    parts.extend(metrics.iter().take(SHOWN).map(|(name, m)| format!("{name} {}", m.unit.show(m.value))));
    if metrics.len() > SHOWN {
        parts.push(format!("{} more metrics", metrics.len() - SHOWN));
    }
    if let Some(series) = &item.part.samples {
        parts.push(format!("{} samples over {}", series.count, series.span));
    }
    parts.join(", ")
}

fn as_json(run: Option<&RunId>, import: &Import) -> serde_json::Value {
    let trial = |item: &Item| {
        let metrics = &item.part.outcome.metrics;
        let values: serde_json::Map<String, serde_json::Value> = metrics
            .iter()
            .map(|(name, m)| (name.clone(), json!({ "value": m.value, "unit": m.unit })))
            .collect();
        json!({
            "trial": item.key.folder(),
            "tool": item.part.outcome.tool,
            "command": item.part.command,
            "metrics": values,
            "facts": item.part.facts,
            "samples": item.part.samples.map(|samples| samples.count),
        })
    };
    let file = |read: &importer::Read| {
        json!({
            "file": read.source.name,
            "kind": read.imported.kind.name(),
            "sha256": read.source.sha256,
            "facts": read.imported.facts,
            "notes": read.imported.notes,
        })
    };
    json!({
        "run": run.map(|run| run.0.clone()),
        "study": import.name,
        "metric": import.metric,
        "files": import.files.iter().map(file).collect::<Vec<_>>(),
        "trials": import.items.iter().map(trial).collect::<Vec<_>>(),
    })
}
