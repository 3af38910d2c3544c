//! What `flyball check` measured, on one screen: each access pattern with its rate and the distribution of
//! its latency, beside what is usual for such a device.

use crate::Report;
use crate::inventory::page::{Page, Spacing, list_of};
use crate::inventory::{one_line, storage};
use crate::next::{self, Step};
use crate::short::{MARGIN, SCREEN, findings, verdict};
use crate::wording::{counted, value};
use analysis::summarise::median_of;
use analysis::summary::CellSummary;
use analysis::usual::{ACCESSES, Access, DeviceClass, Usual, class_of, usual};
use domain::inventory::Inventory;
use domain::units::{Unit, significant};
use std::collections::BTreeSet;

/// A check.
#[derive(Clone, Copy, Debug)]
pub struct Checked<'a> {
    /// Its run.
    pub report: &'a Report<'a>,
    /// The machine.
    pub inventory: &'a Inventory,
    /// Where its page is.
    pub page: &'a str,
    /// How this program is typed where it finds the run.
    pub program: &'a str,
}

/// The factor that `flyball check` adds where the frequency policy can be written.
const POLICY: &str = "policy";

/// So many requests lie above the 99th, and above the 99.9th percentile, of as many requests as are wanted
/// for it: with fewer, the figure is one of the slowest requests and no percentile.
const FOR_P99: f64 = 100.0;
const FOR_P999: f64 = 1000.0;

/// The screen, at most so many columns wide.
pub fn checked_text(checked: &Checked<'_>, width: usize) -> String {
    // What is said least first goes where a screen is not enough.
    let attempts = [(2, true), (2, false), (1, false), (0, false)];
    let pages = attempts.map(|(findings, absent)| page(checked, width, findings, absent));
    let fitting = pages.iter().find(|page| page.lines().count() <= SCREEN);
    fitting.unwrap_or(&pages[pages.len() - 1]).clone()
}

fn page(checked: &Checked<'_>, width: usize, most: usize, absent: bool) -> String {
    let report = checked.report;
    let mut page = Page::new(width, Spacing::None);
    page.section("Machine");
    page.line(machine(checked.inventory, width));
    page.section("Disk");
    page.line(disk(checked));
    page.section("Measured");
    rows(checked, width, &mut page);
    page.section("Trials");
    page.line(trials(report));
    if absent && !report.not_measured.is_empty() {
        page.section("Not visible");
        page.line(list_of(report.not_measured.iter().map(|open| open.what.clone())));
    }
    findings(report, most, &mut page);
    verdict(report, &mut page);
    page.section("Page");
    page.line(checked.page);
    next::section(&steps(checked), &mut page);
    page.finish()
}

/// The machine in one line, and as much of it as that holds.
fn machine(inventory: &Inventory, width: usize) -> String {
    let all = one_line(inventory);
    let mut parts: Vec<&str> = all.split(", ").collect();
    while parts.len() > 1 && MARGIN + parts.join(", ").chars().count() > width {
        parts.pop();
    }
    parts.join(", ")
}

/// `35 trials of 10 cells, 34 of them beside other load`.
fn trials(report: &Report) -> String {
    let trials = &report.data.trials;
    let count =
        format!("{} of {}", counted(trials.len(), "trial"), counted(report.summary.cells.len(), "cell"));
    match trials.iter().filter(|trial| trial.is_under_load()).count() {
        0 => count,
        loaded => format!("{count}, {loaded} of them beside other load"),
    }
}

fn device<'a>(checked: &Checked<'a>) -> Option<&'a str> {
    let known = checked.report.data.trials.iter().find_map(|trial| trial.environment.get("device"));
    known.map(String::as_str)
}

fn class(checked: &Checked<'_>) -> Option<DeviceClass> {
    class_of(checked.inventory, device(checked)?)
}

/// The device below the file, what is mounted there, and of what the usual figures are.
fn disk(checked: &Checked<'_>) -> String {
    let Some(name) = device(checked) else { return "no block device is known below this folder".to_owned() };
    let device = checked.inventory.device(name);
    let mounted = checked.report.data.trials.iter().find_map(|trial| trial.environment.get("filesystem"));
    let usual = match class(checked) {
        Some(class) => format!("usual: that of {}", class.name()),
        None => "what is usual for it is not known".to_owned(),
    };
    let parts = [
        Some(match device.and_then(storage::kind) {
            Some(kind) => format!("{name} ({kind})"),
            None => name.to_owned(),
        }),
        mounted.cloned(),
        Some(usual),
    ];
    list_of(parts.into_iter().flatten())
}

fn rows(checked: &Checked<'_>, width: usize, page: &mut Page) {
    let class = class(checked);
    // The column of usual figures goes first where there is no room, then that of p99.9.
    let is_wide = class.is_some() && width >= WIDE;
    let columns = if is_wide {
        6
    } else if width >= WITH_P999 {
        5
    } else {
        4
    };
    let head = ["", "a second", "p50", "p99", "p99.9", "usual"].map(str::to_owned);
    page.line(line(&head[..columns]));
    for (access, cell) in
        checked.report.summary.cells.iter().filter_map(|cell| Some((access_of(cell)?, cell)))
    {
        let usual = class.filter(|_| is_wide).and_then(|class| usual(class, access));
        page.line(line(&row(checked, access, cell, usual)[..columns]));
    }
}

/// From this width on the table has its last column.
const WIDE: usize = 78;

/// From this width on the table has p99.9.
const WITH_P999: usize = 67;

/// The cells of a row under each other; the last column, of usual figures, is as wide as its text.
fn line(cells: &[String]) -> String {
    let widths = [10, 8, 8, 8].map(Some).into_iter().chain([None]);
    let mut line = format!("{:<20}", cells[0]);
    for (cell, width) in cells[1..].iter().zip(widths) {
        line += &width.map_or_else(|| format!("  {cell}"), |width| format!("{cell:>width$}"));
    }
    line
}

fn access_of(cell: &CellSummary) -> Option<&'static Access> {
    let depth = cell.levels.get("depth").map(String::as_str);
    ACCESSES.iter().find(|access| access.workload == cell.workload && access.depth == depth)
}

fn row(checked: &Checked<'_>, access: &Access, cell: &CellSummary, usual: Option<Usual>) -> [String; 6] {
    let data = checked.report.data;
    let unit = if access.rate == "throughput" { Unit::BytesPerSecond } else { Unit::PerSecond };
    let rate = median_of(data, &cell.cell, access.rate);
    let requests = median_of(data, &cell.cell, if access.rate == "syncs" { "syncs" } else { "iops" })
        .zip(median_of(data, &cell.cell, "elapsed"))
        .map_or(0.0, |(rate, elapsed)| rate * elapsed);
    let [p50, p99, p999] = access.latency.map(|metric| median_of(data, &cell.cell, metric));
    let name = match cell.levels.get(POLICY) {
        Some(policy) => format!("{}, {policy}", access.name.trim_start_matches("4k ")),
        None => access.name.to_owned(),
    };
    [
        name,
        rate.map_or_else(|| "–".to_owned(), |rate| per_second(&unit, rate)),
        value(&Unit::Seconds, p50),
        value(&Unit::Seconds, p99.filter(|_| requests >= FOR_P99)),
        value(&Unit::Seconds, p999.filter(|_| requests >= FOR_P999)),
        usual.map_or_else(String::new, |usual| range(&unit, &usual)),
    ]
}

/// `12.3 k`, `1.20 GB`: the head of the column says that it is a second's.
fn per_second(unit: &Unit, rate: f64) -> String {
    unit.show(rate).trim_end_matches("/s").trim_end().to_owned()
}

/// `3–100 k`, `0.13–3 GB`.
fn range(unit: &Unit, usual: &Usual) -> String {
    let (scale, name) = unit.axis(usual.high);
    let short = |value: f64| {
        let text = significant(value / scale);
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    };
    let name = name.trim_end_matches("/s").trim_end();
    format!("{}–{} {name}", short(usual.low), short(usual.high)).trim_end().to_owned()
}

/// What to type: what was found asks for a command; else what limits the user's own load.
fn steps(checked: &Checked<'_>) -> Vec<Step> {
    let Checked { report, program, .. } = checked;
    let mut steps = next::steps(report, program);
    steps.retain(|step| ![next::PAGE, next::WHY].contains(&step.what));
    if next::lead(report).is_none() {
        steps.insert(0, Step::new("what limits your own load", format!("{program} diagnose")));
    }
    steps
}

/// Where the usual figures of this check are from, for the full text; nothing where there are none.
pub fn usual_sources(checked: &Checked<'_>) -> Vec<String> {
    let Some(class) = class(checked) else { return Vec::new() };
    let all = ACCESSES.iter().filter_map(|access| {
        let usual = usual(class, access)?;
        let unit = if access.rate == "throughput" { Unit::BytesPerSecond } else { Unit::PerSecond };
        Some(format!("{}: {} a second ({})", access.name, range(&unit, &usual), usual.source))
    });
    let mut seen = BTreeSet::new();
    all.filter(|line| seen.insert(line.clone())).collect()
}
