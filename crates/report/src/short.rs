//! A run on one screen: its figures, what was found, the verdict, and the next command. All of it is in
//! [`crate::text()`].

use crate::inventory::page::{Page, Spacing};
use crate::wording::{
    aa_floor, capitalised, cell_interval, cell_median, counted, direction, headline, is_under_load, machine,
    names, question, trial_count,
};
use crate::{Report, next, published, simulation};
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

/// A run on one screen of so many columns. `program` is how Flyball is typed where it finds the run.
pub fn short_text(report: &Report, program: &str, width: usize) -> String {
    let without = page(report, program, width, 0);
    let room = SCREEN.saturating_sub(without.lines().count()).max(MIN_CELLS);
    page(report, program, width, room)
}

fn page(report: &Report, program: &str, width: usize, rows: usize) -> String {
    let run = &report.data.run;
    let mut page = Page::new(width, Spacing::None);
    page.section("Question");
    page.line(question(report));
    page.section("Machine");
    page.line(machine(report));
    page.section("Run");
    page.line(format!("{} on {}, seed {}", run.id, run.provenance.name(), run.seed));
    page.line(trial_count(report));
    if let Some(note) = simulation::note(report) {
        page.line(note);
    }
    figures(report, rows, width, &mut page);
    if !report.summary.published.is_empty() {
        page.section("Published");
        page.line(published::sentence(report));
    }
    findings(report, MAX_FINDINGS, &mut page);
    verdict(report, &mut page);
    next::section(&next::steps(report, program), &mut page);
    page.finish()
}

fn figures(report: &Report, rows: usize, width: usize, page: &mut Page) {
    let summary = report.summary;
    page.section("Figures");
    page.line(format!(
        "{}, {}; n trials, median, interval of the median",
        summary.metric,
        direction(summary.better)
    ));
    let all: Vec<[String; 4]> = summary.cells.iter().map(|cell| row(report, cell)).collect();
    let fits = all.len() <= rows;
    let shown = if fits { all.len() } else { rows.saturating_sub(1) };
    let widths: Vec<usize> =
        (0..4).map(|at| all.iter().map(|row| row[at].chars().count()).max().unwrap_or_default()).collect();
    let whole = MARGIN + widths.iter().sum::<usize>() + 3 * GAP;
    for [name, count, median, interval] in all.iter().take(shown) {
        let line = format!("{name:<0$}  {count:>1$}  {median:>2$}", widths[0], widths[1], widths[2]);
        let has_room = whole <= width || interval.starts_with(|c: char| c.is_ascii_alphabetic());
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
    if report.findings.len() > most && most > 0 {
        page.line(format!("and {} more", counted(report.findings.len() - most, "finding")));
    }
}

pub(crate) fn verdict(report: &Report, page: &mut Page) {
    page.section("Verdict");
    page.line(cut(&headline(report)));
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
fn cut(verdict: &str) -> String {
    let mut shown = String::new();
    for part in verdict.split("; ") {
        if !shown.is_empty() && shown.chars().count() + part.chars().count() > MAX_VERDICT {
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
