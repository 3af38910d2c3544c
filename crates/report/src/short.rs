//! A run on one screen: its figures, what was found, the verdict, and the next command. All of it is in
//! [`crate::text()`].

use crate::inventory::page::{Page, Spacing};
use crate::wording::{
    aa_floor, capitalised, cell_interval, cell_median, counted, direction, headline, is_under_load, machine,
    names, question, trial_count,
};
use crate::{Report, front, next, published, simulation};
use analysis::answer::in_order;
use analysis::stats::quantile::median;
use analysis::summary::CellSummary;
use analysis::words::percent;
use domain::units::significant;

/// How many lines a screen has.
pub(crate) const SCREEN: usize = 24;

/// How much of a verdict stands on the screen; whole parts of it.
const MAX_VERDICT: usize = 280;

const MAX_FINDINGS: usize = 3;
/// However long the rest is, so many cells are shown.
const MIN_CELLS: usize = 2;

/// Between two columns.
const GAP: usize = 2;

/// What a line of the page leaves for its text.
pub(crate) const MARGIN: usize = 13;

/// The width that a screen is laid out for; a narrower one shows as many cells.
const USUAL: usize = 80;

/// How much stands beside the figures.
#[derive(Clone, Copy)]
struct Beside {
    verdict: usize,
    findings: usize,
    notes: Notes,
    notebook: Notebook,
}

/// Where the commands to type next name the notebook.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notebook {
    /// Each by itself, as `--notebook DIR`.
    Each,
    /// One before them, in a variable. A long path takes a line or two then, and not of each command.
    Once,
}

/// Whether all of the machine, the seed and what the figures are stand there too; the whole report has them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notes {
    Shown,
    Short,
}

/// From all of it to the least.
const BESIDE: [Beside; 6] = [
    ALL,
    ONCE,
    Beside { findings: 1, ..ONCE },
    Beside { verdict: MAX_VERDICT / 2, findings: 1, ..ONCE },
    Beside { verdict: MAX_VERDICT / 2, findings: 1, notes: Notes::Short, ..ONCE },
    Beside { verdict: MAX_VERDICT / 2, findings: 0, notes: Notes::Short, ..ONCE },
];

const ALL: Beside =
    Beside { verdict: MAX_VERDICT, findings: MAX_FINDINGS, notes: Notes::Shown, notebook: Notebook::Each };
const ONCE: Beside = Beside { notebook: Notebook::Once, ..ALL };

/// A run on one screen of so many columns. `program` is how Flyball is typed where it finds the run. Where a
/// narrow screen breaks its lines, or commands are long, it says less beside the figures, and shows as many
/// cells. What is no screen whatever is left out is as short as that makes it.
pub fn short_text(report: &Report, program: &str, width: usize) -> String {
    let usual = Fitting::of(report, program, width.max(USUAL), ONCE).cells;
    let mut best = Fitting::of(report, program, width, BESIDE[0]);
    for beside in &BESIDE[1..] {
        if best.too_long == 0 && best.cells >= usual {
            break;
        }
        let other = Fitting::of(report, program, width, *beside);
        if other.is_better_than(&best) {
            best = other;
        }
    }
    best.text
}

/// The page with the most cells that still is one screen.
struct Fitting {
    /// How many cells it shows.
    cells: usize,
    /// Its lines beyond a screen, where even that with the fewest cells is none.
    too_long: usize,
    text: String,
}

impl Fitting {
    fn of(report: &Report, program: &str, width: usize, beside: Beside) -> Self {
        let page_of = |rows: usize| page(report, program, width, rows, beside);
        let most = (MIN_CELLS + 1..=SCREEN).rev().find(|rows| page_of(*rows).lines().count() <= SCREEN);
        let rows = most.unwrap_or(MIN_CELLS);
        let text = page_of(rows);
        let too_long = text.lines().count().saturating_sub(SCREEN);
        Self { cells: shown_cells(report.summary.cells.len(), rows), too_long, text }
    }

    fn is_better_than(&self, other: &Self) -> bool {
        (self.too_long, other.cells) < (other.too_long, self.cells)
    }
}

/// How many cells stand in so many rows; where not all do, a row says how many more there are.
fn shown_cells(all: usize, rows: usize) -> usize {
    if all <= rows { all } else { rows.saturating_sub(1) }
}

fn page(report: &Report, program: &str, width: usize, rows: usize, beside: Beside) -> String {
    let run = &report.data.run;
    let mut page = Page::new(width, Spacing::None);
    page.section("Question");
    page.line(question(report));
    page.section("Machine");
    let machine = machine(report);
    let run_on = format!("{} on {}", run.id, run.provenance.name());
    match beside.notes {
        Notes::Shown => page.line(machine),
        Notes::Short => page.line(first_parts(&machine, width.saturating_sub(MARGIN))),
    }
    page.section("Run");
    match beside.notes {
        Notes::Shown => page.line(format!("{run_on}, seed {}", run.seed)),
        Notes::Short => page.line(run_on),
    }
    page.line(trial_count(report));
    if let Some(note) = simulation::note(report) {
        page.line(note);
    }
    figures(report, rows, beside.notes, width, &mut page);
    if !report.summary.published.is_empty() {
        page.section("Published");
        page.line(published::sentence(report));
    }
    findings(report, beside.findings, &mut page);
    cut_verdict(report, beside.verdict, &mut page);
    front::section(report, program, &mut page);
    let steps = match beside.notebook {
        Notebook::Each => next::steps(report, program),
        Notebook::Once => next::steps_of_one_notebook(report, program),
    };
    next::section(&steps, &mut page);
    page.finish()
}

/// As many of the parts between commas as have room in one line; the first in any case.
fn first_parts(text: &str, room: usize) -> String {
    let mut shown = String::new();
    for part in text.split(", ") {
        if !shown.is_empty() && shown.chars().count() + 2 + part.chars().count() > room {
            break;
        }
        shown += if shown.is_empty() { "" } else { ", " };
        shown += part;
    }
    shown
}

fn figures(report: &Report, rows: usize, notes: Notes, width: usize, page: &mut Page) {
    let summary = report.summary;
    page.section("Figures");
    let what = format!("{}, {}", summary.metric, direction(summary.better));
    page.line(match notes {
        Notes::Shown => format!("{what}; n trials, median, interval of the median"),
        Notes::Short => what,
    });
    let cells = in_order(report.data, summary);
    let all: Vec<[String; 4]> = cells.into_iter().map(|cell| row(report, cell)).collect();
    let shown = shown_cells(all.len(), rows);
    let fits = shown == all.len();
    let widths: Vec<usize> =
        (0..4).map(|at| all.iter().map(|row| row[at].chars().count()).max().unwrap_or_default()).collect();
    let whole = MARGIN + widths.iter().sum::<usize>() + 3 * GAP;
    for [name, count, median, interval] in all.iter().take(shown) {
        let line = format!("{name:<0$}  {count:>1$}  {median:>2$}", widths[0], widths[1], widths[2]);
        // Why there is no interval is said in any case; that it is a model's, above. A search has none.
        let says_why = interval.starts_with(|c: char| c.is_ascii_alphabetic())
            && !interval.starts_with("model")
            && !report.data.study.measure.until.is_search();
        let has_room = whole <= width || says_why;
        page.line(if has_room { format!("{line}  {interval}") } else { line });
    }
    if rows > 0 && !fits {
        page.line(format!("and {} more", counted(all.len() - shown, "cell")));
    } else if rows > 0 && report.summary.aa_floor.is_some() && all.len() + 2 <= rows {
        page.line(aa_floor(report));
    }
    if summary.cells.iter().any(|cell| is_under_load(report, cell)) {
        page.line("* other work ran beside these trials");
    }
}

/// Name, trials that count, median, interval or why there is none.
fn row(report: &Report, cell: &CellSummary) -> [String; 4] {
    let unit = &report.summary.unit;
    let not_counted: Vec<f64> = cell.excluded.iter().filter_map(|excluded| excluded.value).collect();
    let what = match median(&not_counted).filter(|_| cell.points.is_empty() && cell.lack.is_none()) {
        Some(seen) => format!("none counts; {} disturbed: {}", not_counted.len(), unit.show(seen)),
        None => cell_interval(report, cell),
    };
    [cell.cell.to_string(), cell.points.len().to_string(), cell_median(report, cell), what]
}

pub(crate) fn findings(report: &Report, most: usize, page: &mut Page) {
    page.section("Found");
    let names = names(report);
    for finding in report.findings.iter().take(most) {
        page.line(format!("{} ({})", capitalised(&finding.title, &names), finding.confidence.name()));
    }
    if most == 0 && !report.findings.is_empty() {
        page.line(format!("{}, see --full", counted(report.findings.len(), "finding")));
    } else if report.findings.len() > most {
        page.line(format!("and {} more", counted(report.findings.len() - most, "finding")));
    }
}

pub(crate) fn verdict(report: &Report, page: &mut Page) {
    cut_verdict(report, MAX_VERDICT, page);
}

fn cut_verdict(report: &Report, most: usize, page: &mut Page) {
    page.section("Verdict");
    page.line(cut(&headline(report), most));
    if let Some(floor) = report.summary.aa_floor.filter(|floor| *floor > report.data.study.measure.threshold)
    {
        page.line(format!("identical trials differ by up to {}; less is noise", by(floor)));
    }
}

/// How far two figures are apart: `6.4%`, and `a factor of 8.4` from twice on, where a percentage misleads.
fn by(difference: f64) -> String {
    if difference < 1.0 {
        percent(difference)
    } else {
        format!("a factor of {}", significant(1.0 + difference))
    }
}

/// The parts of a verdict that a screen has room for.
fn cut(verdict: &str, most: usize) -> String {
    let mut shown = String::new();
    for part in verdict.split("; ") {
        if !shown.is_empty() && shown.chars().count() + part.chars().count() > most {
            return shown + "; and more, see --full";
        }
        if !shown.is_empty() {
            shown += "; ";
        }
        shown += part;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::by;

    #[test]
    fn a_difference_of_twice_or_more_is_a_factor() {
        assert_eq!([by(0.064), by(7.447)], ["6.4%", "a factor of 8.45"]);
    }
}
