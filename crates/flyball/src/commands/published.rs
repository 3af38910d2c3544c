//! `flyball report --published`: a published report compared with runs of the lab, the simulation and hosts;
//! and `--pages`, the pages of several reports with their index.
//!
//! What a page says and which cells answer is read from the study's file as it is now, so that words can be
//! mended without measuring again. Runs come from the notebook; those of a set of pages are kept in small
//! files beside its pages, so that the pages can be made again from the repository alone.

use super::report::{print, write};
use super::run::{ReadStudy, parsed, read_study};
use crate::args::{Global, Report, ReportFormat};
use crate::exit::{End, Usage};
use crate::results::Results;
use crate::{places, terminal};
use analysis::page::{Found, PartRuns, hold, metrics_of};
use analysis::summary::RunData;
use anyhow::{Context, Result, anyhow, bail};
use domain::ids::RunId;
use domain::page::{Look, Page};
use domain::study::Study;
use domain::trial::{Provenance, Run};
use notebook::kept::{Keep, Kept};
use notebook::{Notebook, RunEntry};
use report::{IndexEntry, PageOrigin, PageReport};
use session::studies::StudySource;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const PROVENANCES: [Provenance; 4] =
    [Provenance::Lab, Provenance::Simulation, Provenance::Host, Provenance::Imported];

/// Writes one page in any form, or a folder of pages.
pub fn report(global: &Global, arguments: &Report) -> Result<End> {
    let files: Vec<&Path> = arguments.runs.iter().map(Path::new).collect();
    let drafts: Vec<PageStudies> = files.iter().map(|file| PageStudies::read(file)).collect::<Result<_>>()?;
    if let Some(folder) = &arguments.pages {
        return write_pages(global, arguments, folder, drafts);
    }
    let [draft] = <[PageStudies; 1]>::try_from(drafts)
        .map_err(|_| Usage("one page is of one study file; give several with --pages DIR".into()))?;
    let folder = places::notebook(global)?;
    let notebook = Notebook::open(&folder)?;
    let made = PageOrigin {
        from: format!("the notebook `{}`", folder.display()),
        command: format!("flyball report --published {}", arguments.runs[0]),
    };
    let bound = Bound::of(draft, made, &FromNotebook::new(&notebook, &arguments.use_run)?)?;
    let page = bound.report();
    let format = if global.json { ReportFormat::Json } else { arguments.format };
    let text = match format {
        ReportFormat::Html => {
            let default = || PathBuf::from(format!("{}.html", bound.draft.study.name));
            return write(&arguments.out.clone().unwrap_or_else(default), &report::page_html(&page));
        }
        ReportFormat::Markdown => report::page_markdown(&page),
        ReportFormat::Text => report::page_text(&page),
        ReportFormat::Json => report::page_json(&page),
        ReportFormat::Csv => {
            return Err(
                Usage("a page has several tables, and no form in CSV; write --format json".into()).into()
            );
        }
    };
    match &arguments.out {
        Some(out) => write(out, &text),
        None => print(format, &text),
    }
}

/// Writes the pages and the index, or checks that they are there as they would be written.
fn write_pages(global: &Global, arguments: &Report, folder: &Path, drafts: Vec<PageStudies>) -> Result<End> {
    let kept = FromKept(folder.join("runs"));
    if arguments.update {
        let notebook = Notebook::open(&places::notebook(global)?)?;
        update_kept(&drafts, &FromNotebook::new(&notebook, &[])?, &kept)?;
    }
    let made = PageOrigin {
        from: format!("the runs kept in `{}`", kept.0.display()),
        command: format!(
            "flyball report --published {} --pages {}",
            arguments.runs.join(" "),
            folder.display()
        ),
    };
    let bound: Vec<Bound> =
        drafts.into_iter().map(|draft| Bound::of(draft, made.clone(), &kept)).collect::<Result<_>>()?;
    let names: Vec<String> = bound.iter().map(|page| format!("{}.md", page.draft.study.name)).collect();
    let entries: Vec<IndexEntry> =
        bound.iter().zip(&names).map(|(page, file)| IndexEntry { report: page.report(), file }).collect();
    let mut pages: Vec<(&str, String)> =
        entries.iter().map(|entry| (entry.file, report::page_markdown(&entry.report))).collect();
    pages.push(("README.md", report::index_markdown(&entries)));
    for (name, text) in &pages {
        let path = folder.join(name);
        if arguments.check {
            check(&path, text)?;
        } else {
            write(&path, text)?;
        }
    }
    Ok(End::Done)
}

fn check(path: &Path, text: &str) -> Result<()> {
    let there = files::regular::text(path, MAX_PAGE)
        .with_context(|| format!("cannot read the page `{}`", path.display()))?;
    if there != text {
        bail!(
            "`{}` is not what its study and its kept runs give; write the pages anew, without --check",
            path.display()
        );
    }
    Ok(())
}

/// Keeps the newest runs of the notebook that have trials, each in the place of the one before.
fn update_kept(drafts: &[PageStudies], from: &FromNotebook<'_>, to: &FromKept) -> Result<()> {
    // Two pages may look at different metrics of one study.
    let mut keeps: BTreeMap<&str, Keep> = BTreeMap::new();
    for draft in drafts {
        for study in &draft.studies {
            let keep = keeps.entry(&study.name).or_default();
            keep.metrics.extend(metrics_of(&draft.page, &draft.study.name, study));
            keep.roles |= draft.looks_at_cpu(&study.name);
        }
    }
    files::output::make_folder(&to.0)?;
    for (study, keep) in keeps {
        for provenance in PROVENANCES {
            let Some((data, machine)) = from.run(study, provenance)? else { continue };
            let path = to.path(study, provenance);
            Kept { run: data.run, machine, trials: data.trials }.write(&path, &keep)?;
            terminal::say(format_args!("kept {}", path.display()));
        }
    }
    Ok(())
}

/// A bound on the size of a page in a folder of pages.
const MAX_PAGE: u64 = 16 << 20;

/// A study's file with its page, and the studies of its parts.
struct PageStudies {
    study: Study,
    page: Page,
    /// One for each part, as commands name it.
    files: Vec<String>,
    studies: Vec<Study>,
}

impl PageStudies {
    fn read(file: &Path) -> Result<Self> {
        let ReadStudy { study, source } = read_study(file)?;
        let Some(page) = study.page.clone() else {
            let problem = format!(
                "`{}` has no [page], which says what its runs stand beside; docs/STUDY-FORMAT.md has its keys",
                source.shown
            );
            return Err(Usage(problem).into());
        };
        let part = |part: &domain::page::Part| match &part.study {
            Some(name) => Ok(source.named_here(name)?),
            None => Ok(source.clone()),
        };
        let sources: Vec<StudySource> = page.parts.iter().map(part).collect::<Result<_>>()?;
        let studies = sources.iter().map(parsed).collect::<Result<_>>()?;
        let files = sources.into_iter().map(|source| source.shown).collect();
        Ok(Self { study, page, files, studies })
    }

    /// Whether a question is about whose CPU time cells of this study took.
    fn looks_at_cpu(&self, study: &str) -> bool {
        let answers = self.page.questions.iter().flat_map(|question| &question.answers);
        let mut mine = answers.filter(|answer| answer.study.as_ref().unwrap_or(&self.study.name) == study);
        mine.any(|answer| answer.look == Look::Cpu)
    }
}

/// A page with its runs.
struct Bound {
    draft: PageStudies,
    parts: Vec<PartRuns>,
    found: Found,
    machines: BTreeMap<RunId, String>,
    made: PageOrigin,
}

impl Bound {
    fn of(draft: PageStudies, made: PageOrigin, source: &dyn Source) -> Result<Self> {
        let mut machines = BTreeMap::new();
        let mut parts = Vec::new();
        for study in &draft.studies {
            let mut runs = BTreeMap::new();
            for provenance in PROVENANCES {
                if let Some((data, machine)) = source.run(&study.name, provenance)? {
                    machines.insert(data.run.id.clone(), machine);
                    runs.insert(provenance, data);
                }
            }
            parts.push(PartRuns { study: study.clone(), runs });
        }
        let found = hold(&draft.page, &draft.study.name, &parts)
            .map_err(|error| Usage(format!("cannot make the page of `{}`: {error}", draft.study.name)))?;
        Ok(Self { draft, parts, found, machines, made })
    }

    fn report(&self) -> PageReport<'_> {
        PageReport {
            page: &self.draft.page,
            study: &self.draft.study,
            files: &self.draft.files,
            parts: &self.parts,
            found: &self.found,
            machines: &self.machines,
            made: &self.made,
        }
    }
}

/// Where runs come from.
trait Source {
    /// The run of a study on a kind of machine, and that machine in one line; `None` where there is none.
    fn run(&self, study: &str, provenance: Provenance) -> Result<Option<(RunData, String)>>;
}

/// The newest runs of a notebook that have trials; those that were named before the others.
struct FromNotebook<'a> {
    notebook: &'a Notebook,
    runs: Vec<Run>,
}

impl<'a> FromNotebook<'a> {
    fn new(notebook: &'a Notebook, named: &[String]) -> Result<Self> {
        let mut runs = Vec::new();
        for selector in named {
            runs.push(notebook.run(&notebook.find(selector)?)?);
        }
        let (entries, problems) = notebook.runs()?;
        terminal::damaged(&problems);
        runs.extend(entries.into_iter().filter(has_trials).map(|entry| entry.run));
        Ok(Self { notebook, runs })
    }
}

fn has_trials(entry: &RunEntry) -> bool {
    let notebook::TrialCounts { valid, disturbed, failed } = entry.trials;
    valid + disturbed + failed > 0
}

impl Source for FromNotebook<'_> {
    fn run(&self, study: &str, provenance: Provenance) -> Result<Option<(RunData, String)>> {
        let Some(run) = self.runs.iter().find(|run| run.study == study && run.provenance == provenance)
        else {
            return Ok(None);
        };
        let results = Results::load(self.notebook, &run.id, None)?;
        // Of a lab machine, what the lab says of it is enough.
        let report = results.report();
        let guest = report.machine.filter(|_| provenance != Provenance::Lab);
        let machine = report::machine_line(&report::Report { machine: guest, ..report });
        Ok(Some((results.data, machine)))
    }
}

/// Runs that are kept in small files of a folder.
struct FromKept(PathBuf);

impl FromKept {
    fn path(&self, study: &str, provenance: Provenance) -> PathBuf {
        self.0.join(format!("{study}.{}.json", provenance.name()))
    }
}

impl Source for FromKept {
    fn run(&self, study: &str, provenance: Provenance) -> Result<Option<(RunData, String)>> {
        let path = self.path(study, provenance);
        if !path.exists() {
            return Ok(None);
        }
        let Kept { run, machine, trials } = Kept::read(&path)?;
        let then = parse::study::parse(&run.study_text).map_err(|e| {
            anyhow!("cannot read the study that `{}` was measured with:\n{e}", path.display())
        })?;
        Ok(Some((RunData { run, study: then, trials, skipped: BTreeMap::new() }, machine)))
    }
}
