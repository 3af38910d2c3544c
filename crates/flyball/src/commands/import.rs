//! `flyball import`: other tools' results become runs like others.

use crate::exit::{End, Usage};
use crate::{places, typed};
use anyhow::{Result, bail};
use command_line::{Global, Import as Arguments};
use domain::ids::RunId;
use domain::inert::Lines;
use importer::{Environment, Import, Source, as_json, imported_before, looked_for, read};
use notebook::Notebook;
use parse::import::{Kind, Pace};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use terminal::Watching;

/// Reads the files, each whole before anything is stored, and stores them.
pub fn import(global: &Global, arguments: &Arguments) -> Result<End> {
    allow_many_files();
    let kind = arguments.kind.as_deref().map(kind).transpose()?;
    let pace = Pace { interval: arguments.interval };
    let environment = Environment {
        program: places::program,
        time_zone: places::time_zone(),
        kallsyms: arguments.kallsyms.clone(),
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
        terminal::json(&as_json(imports))?;
        return Ok(End::Done);
    }
    let mut text = Lines::default();
    for (index, (run, import)) in imports.iter().enumerate() {
        if index > 0 {
            text.blank();
        }
        import.describe(run.as_ref(), &mut text);
    }
    terminal::lines(&report::within(&text, terminal::width()))?;
    for (run, _) in imports {
        if let Some(run) = run {
            terminal::say(format_args!("show it: `flyball show {run}`; its page: `flyball report {run}`"));
        }
    }
    Ok(End::Done)
}
