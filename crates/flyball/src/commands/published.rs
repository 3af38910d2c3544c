//! `flyball report --published`: a published report compared with runs of the lab, the simulation and hosts;
//! and `--pages`, the pages of several reports with their index.

use super::report::{print, write};
use crate::exit::{End, Usage};
use crate::places;
use crate::study::{ReadStudy, parsed, read_study};
use anyhow::Result;
use command_line::{Global, Report, ReportFormat};
use notebook::Notebook;
use results::pages::{self, BoundPage, FromKept, FromNotebook, PageStudies};
use session::studies::StudySource;
use std::path::{Path, PathBuf};

/// Writes one page in any form, or a folder of pages.
pub fn report(global: &Global, arguments: &Report) -> Result<End> {
    let files: Vec<&Path> = arguments.runs.iter().map(Path::new).collect();
    let drafts: Vec<PageStudies> = files.iter().map(|file| page_studies(file)).collect::<Result<_>>()?;
    if let Some(folder) = &arguments.pages {
        return write_pages(global, arguments, folder, drafts);
    }
    let [draft] = <[PageStudies; 1]>::try_from(drafts)
        .map_err(|_| Usage("one page is of one study file; give several with --pages DIR".into()))?;
    let folder = places::notebook(global)?;
    let notebook = Notebook::open(&folder)?;
    let made = pages::made_of_notebook(&folder, &arguments.runs[0]);
    let runs = FromNotebook::new(&notebook, &arguments.use_run, terminal::warn)?;
    let bound = BoundPage::of(draft, made, &runs)?;
    let page = bound.report();
    let format = if global.json { ReportFormat::Json } else { arguments.format };
    let text = match format {
        ReportFormat::Html => {
            let default = || PathBuf::from(format!("{}.html", bound.name()));
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
        let runs = FromNotebook::new(&notebook, &[], terminal::warn)?;
        for path in pages::update_kept(&drafts, &runs, &kept)? {
            terminal::say(format_args!("kept {}", path.display()));
        }
    }
    let made = pages::made_of_kept(folder, &kept, &arguments.runs);
    let bound = drafts.into_iter().map(|draft| Ok(BoundPage::of(draft, made.clone(), &kept)?));
    let bound: Vec<BoundPage> = bound.collect::<Result<_>>()?;
    for (name, text) in pages::texts(&bound) {
        let path = folder.join(name);
        if arguments.check {
            pages::check(&path, &text)?;
        } else {
            write(&path, &text)?;
        }
    }
    Ok(End::Done)
}

/// A study's file with its page, and the studies of its parts.
fn page_studies(file: &Path) -> Result<PageStudies> {
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
    Ok(PageStudies { study, page, files, studies })
}
