//! A run as a document: the answer first, then the figures, then what they rest on.

use super::calls::calls;
use super::costs::costs;
use super::factors::{effects, processors};
use super::findings::{findings, not_measured, one_by_one, titles};
use super::layers::layers;
use super::left_out::left_out;
use super::phases::{PHASES_TITLE, phases_of_cells};
use super::published::beside_published;
use super::recorded::recorded;
use super::results::results;
use super::server::server;
use super::spent::spent;
use super::virtual_machine::virtual_machine;
use super::waits::waits;
use super::windows::windows_of_cells;
use super::{command, heading, paragraph};
use crate::document::{Block, Rich};
use crate::wording::{headline, machine, question, run_again, tools, trial_count};
use crate::{Report, simulation};

/// A run, or a recording. Commands of findings begin with `program`.
pub(crate) fn run(report: &Report, program: &str) -> Vec<Block> {
    let is_recording = report.data.study.is_recording();
    let figures = match is_recording {
        true => recorded_figures(report, program),
        false => measured_figures(report, program),
    };
    [answer(report), which(report), figures, again(report)].concat()
}

/// The findings alone, what could not be measured, and how one cell is judged. Commands begin with `program`.
pub(crate) fn findings_alone(report: &Report, program: &str) -> Vec<Block> {
    let none = report
        .findings
        .is_empty()
        .then(|| Block::Remark(Rich::plain("No rule found anything that the evidence allows to say.")));
    let found =
        [findings("Findings", report, program), not_measured(report), one_by_one(report, program)].concat();
    answer(report).into_iter().chain(none).chain(found).collect()
}

/// The question, its answer, and that a model's figures are a model's.
fn answer(report: &Report) -> Vec<Block> {
    let note = simulation::note(report).map(|note| Block::Callout(Rich::plain(note)));
    [Block::Heading(1, Rich::plain(question(report))), Block::Verdict(Rich::plain(headline(report)))]
        .into_iter()
        .chain(note)
        .collect()
}

/// On which machine, and which run it is. Nothing of a recording was planned, so it has no seed.
fn which(report: &Report) -> Vec<Block> {
    let run = &report.data.run;
    let run_on = format!("{} on {}", run.id, run.provenance.name());
    let which = match report.data.study.is_recording() {
        true => run_on,
        false => format!("{run_on}: {}, seed {}", trial_count(report), run.seed),
    };
    vec![Block::Remark(Rich::plain(machine(report))), paragraph(which)]
}

fn measured_figures(report: &Report, program: &str) -> Vec<Block> {
    [
        results(report),
        beside_published(report),
        titles(report),
        costs(report),
        effects(report),
        processors(report),
        marked(report),
        spent(report),
        windows_of_cells(report),
        waits(report),
        layers(report),
        calls(report),
        server(report),
        virtual_machine(report),
        findings("Findings in full", report, program),
        not_measured(report),
        left_out(report),
    ]
    .concat()
}

/// What was marked in trials, of each cell in one.
fn marked(report: &Report) -> Vec<Block> {
    let titled = |(trial, table)| [heading(format!("{PHASES_TITLE}, {trial}")), Block::Table(table)];
    phases_of_cells(report).into_iter().flat_map(titled).collect()
}

/// Of one trial there is nothing to compare and nothing to average.
fn recorded_figures(report: &Report, program: &str) -> Vec<Block> {
    [recorded(report), findings("Findings", report, program), not_measured(report)].concat()
}

/// How to do it again.
fn again(report: &Report) -> Vec<Block> {
    let run = &report.data.run;
    let mut versions = vec![format!("Flyball {}", run.flyball)];
    versions.extend(tools(report));
    vec![
        heading("Again"),
        Block::Appendix(vec![paragraph(versions.join(", "))]),
        command(run_again(report)),
        Block::Appendix(vec![Block::Code("toml", run.study_text.clone())]),
    ]
}
