//! Published reports beside the runs of the lab, the simulation and hosts that answer them: one page, or a
//! folder of pages with their index.
//!
//! What a page says and which cells answer is read from the study's file as it is now, so that words can be
//! mended without measuring again. Runs come from the notebook; those of a set of pages are kept in small
//! files beside its pages, so that the pages can be made again from the repository alone.

use crate::{Error, Result, Results, Warn};
use analysis::page::{Found, PartRuns, hold, metrics_of};
use analysis::summary::RunData;
use domain::ids::RunId;
use domain::page::{Column, Look, Page};
use domain::study::Study;
use domain::trial::Run;
use notebook::kept::{Keep, Kept};
use notebook::{Notebook, RunEntry};
use report::{IndexEntry, PageOrigin, PageReport};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A study's file with its page, and the studies of its parts.
#[derive(Debug)]
pub struct PageStudies {
    /// The study whose page it is.
    pub study: Study,
    /// The page of its file.
    pub page: Page,
    /// One for each part, as commands name it.
    pub files: Vec<String>,
    /// One for each part.
    pub studies: Vec<Study>,
}

impl PageStudies {
    /// Whether a question looks at this of cells of this study.
    fn looks_at(&self, study: &str, look: &Look) -> bool {
        let answers = self.page.questions.iter().flat_map(|question| &question.answers);
        let mut mine = answers.filter(|answer| answer.study.as_ref().unwrap_or(&self.study.name) == study);
        mine.any(|answer| answer.look == *look)
    }
}

/// A page with its runs.
pub struct BoundPage {
    draft: PageStudies,
    parts: Vec<PartRuns>,
    found: Found,
    machines: BTreeMap<RunId, String>,
    made: PageOrigin,
}

impl BoundPage {
    /// Finds the runs of a page, and what of them answers its questions.
    ///
    /// # Errors
    /// Where a run cannot be read; [`Error::Page`] where an answer is about what no run has.
    pub fn of(draft: PageStudies, made: PageOrigin, source: &dyn Source) -> Result<Self> {
        let mut machines = BTreeMap::new();
        let mut parts = Vec::new();
        for study in &draft.studies {
            let mut runs = BTreeMap::new();
            for column in Column::ALL {
                if let Some((data, machine)) = source.run(study, column)? {
                    machines.insert(data.run.id.clone(), machine);
                    runs.insert(column, data);
                }
            }
            parts.push(PartRuns { study: study.clone(), runs });
        }
        let found = hold(&draft.page, &draft.study.name, &parts)
            .map_err(|why| Error::Page { study: draft.study.name.clone(), why })?;
        Ok(Self { draft, parts, found, machines, made })
    }

    /// The study's name.
    pub fn name(&self) -> &str {
        &self.draft.study.name
    }

    /// As the report crate takes it.
    pub fn report(&self) -> PageReport<'_> {
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

/// The files of a folder of pages, each with its text: a page for each study, and the index.
pub fn texts(bound: &[BoundPage]) -> Vec<(String, String)> {
    let names: Vec<String> = bound.iter().map(|page| format!("{}.md", page.name())).collect();
    let entries: Vec<IndexEntry> =
        bound.iter().zip(&names).map(|(page, file)| IndexEntry { report: page.report(), file }).collect();
    let mut pages: Vec<(String, String)> =
        entries.iter().map(|entry| (entry.file.to_owned(), report::page_markdown(&entry.report))).collect();
    pages.push(("README.md".to_owned(), report::index_markdown(&entries)));
    pages
}

/// Whether a page is there as it would be written.
///
/// # Errors
/// [`Error::Stale`] where it is not; [`Error::Read`].
pub fn check(path: &Path, text: &str) -> Result<()> {
    let there = files::regular::text(path, MAX_PAGE)
        .map_err(|source| Error::Read { path: path.to_owned(), source })?;
    if there == text { Ok(()) } else { Err(Error::Stale(path.to_owned())) }
}

/// Keeps the newest runs of the notebook that have trials, each in the place of the one before; the files
/// that were written come back.
///
/// # Errors
/// Where a run cannot be read, or a file not be written.
pub fn update_kept(drafts: &[PageStudies], from: &FromNotebook<'_>, to: &FromKept) -> Result<Vec<PathBuf>> {
    // Two pages may look at different metrics of one study.
    let mut keeps: BTreeMap<&str, (&Study, Keep)> = BTreeMap::new();
    for draft in drafts {
        for study in &draft.studies {
            let (_, keep) = keeps.entry(&study.name).or_insert_with(|| (study, Keep::default()));
            keep.metrics.extend(metrics_of(&draft.page, &draft.study.name, study));
            keep.roles |= draft.looks_at(&study.name, &Look::Cpu);
            keep.profile |= draft.looks_at(&study.name, &Look::Spent);
            keep.windows |= draft.looks_at(&study.name, &Look::Windows);
        }
    }
    files::output::make_folder(&to.0)?;
    let mut written = Vec::new();
    for (study, keep) in keeps.into_values() {
        for column in Column::ALL {
            let Some((data, machine)) = from.run(study, column)? else { continue };
            let path = to.path(&study.name, column);
            Kept { run: data.run, machine, trials: data.trials }.write(&path, &keep)?;
            written.push(path);
        }
    }
    Ok(written)
}

/// A bound on the size of a page in a folder of pages.
const MAX_PAGE: u64 = 16 << 20;

/// Where runs come from.
pub trait Source {
    /// The run of a study that stands in a column, and that machine in one line; `None` where there is none.
    ///
    /// # Errors
    /// Where it is there and cannot be read.
    fn run(&self, study: &Study, column: Column) -> Result<Option<(RunData, String)>>;
}

/// The newest runs of a notebook that have trials; those that were named before the others.
pub struct FromNotebook<'a> {
    notebook: &'a Notebook,
    runs: Vec<Run>,
    warn: Warn,
}

impl<'a> FromNotebook<'a> {
    /// Those of a notebook.
    ///
    /// # Errors
    /// Where a run that was named is not there, or the notebook cannot be listed.
    pub fn new(notebook: &'a Notebook, named: &[String], warn: Warn) -> Result<Self> {
        let mut runs = Vec::new();
        for selector in named {
            runs.push(notebook.run(&notebook.find(selector)?)?);
        }
        let (entries, problems) = notebook.runs()?;
        crate::tell(&problems, warn);
        runs.extend(entries.into_iter().filter(has_trials).map(|entry| entry.run));
        Ok(Self { notebook, runs, warn })
    }
}

fn has_trials(entry: &RunEntry) -> bool {
    let notebook::TrialCounts { valid, traced, disturbed, failed } = entry.trials;
    valid + traced + disturbed + failed > 0
}

impl Source for FromNotebook<'_> {
    fn run(&self, study: &Study, column: Column) -> Result<Option<(RunData, String)>> {
        let machine = study.sim.machine.as_deref();
        let is_it = |run: &&Run| run.study == study.name && Column::of(run, machine) == column;
        let Some(run) = self.runs.iter().find(is_it) else {
            return Ok(None);
        };
        let results = Results::load(self.notebook, &run.id, None, self.warn)?;
        // Of a lab machine, what the lab says of it is enough.
        let report = results.report();
        let guest = report.machine.filter(|_| column != Column::Lab);
        let machine = report::machine_line(&report::Report { machine: guest, ..report });
        Ok(Some((results.data, machine)))
    }
}

/// Runs that are kept in small files of a folder.
pub struct FromKept(pub PathBuf);

/// How a page of this study file is made of a notebook's runs.
pub fn made_of_notebook(notebook: &Path, study: &str) -> PageOrigin {
    PageOrigin {
        from: format!("the notebook `{}`", notebook.display()),
        command: format!("flyball report --published {study}"),
    }
}

/// How the pages of these study files are made of the runs that are kept beside them.
pub fn made_of_kept(folder: &Path, kept: &FromKept, studies: &[String]) -> PageOrigin {
    PageOrigin {
        from: format!("the runs kept in `{}`", kept.0.display()),
        command: format!("flyball report --published {} --pages {}", studies.join(" "), folder.display()),
    }
}

impl FromKept {
    fn path(&self, study: &str, column: Column) -> PathBuf {
        self.0.join(format!("{study}.{}.json", column.name()))
    }
}

impl Source for FromKept {
    fn run(&self, study: &Study, column: Column) -> Result<Option<(RunData, String)>> {
        let path = self.path(&study.name, column);
        if !path.exists() {
            return Ok(None);
        }
        let Kept { run, machine, trials } = Kept::read(&path)?;
        let wrong = |errors| Error::KeptStudy { path: path.clone(), errors };
        let mut then = parse::study::parse(&run.study_text).map_err(wrong)?;
        // The lab may have measured otherwise: other repeats, another confidence.
        then.measure = crate::study_of(&run, &trials).map_err(wrong)?.measure;
        Ok(Some((RunData { run, study: then, trials, skipped: BTreeMap::new() }, machine)))
    }
}
