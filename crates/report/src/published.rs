//! What all forms say of a run beside what others published of its study's cells.

use crate::Report;
use crate::wording::{counted, range};
use analysis::published::{Agreement, Beside, Estimate};
use analysis::stats::interval::Interval;
use analysis::words::{listed, ratio_words};
use domain::published::Figure;
use domain::trial::Provenance;

/// The title of the section.
pub(crate) const TITLE: &str = "Beside what was published";

/// Which columns are figures.
pub(crate) const NUMBERS: [usize; 5] = [1, 2, 3, 4, 5];

/// The head of the table.
pub(crate) fn head(report: &Report) -> Vec<String> {
    let ours = format!("ours ({})", report.data.run.provenance.name());
    ["what", "published", &ours, "interval", "n", "ours / published", "agrees"].map(str::to_owned).to_vec()
}

/// A row as words, in the order of [`head`]; its source is told by the number that it has in [`sources`].
pub(crate) fn row(report: &Report, beside: &Beside) -> Vec<String> {
    let number = sources(report).iter().position(|source| *source == beside.source).map_or(0, |at| at + 1);
    let metric = match beside.metric == report.summary.metric {
        true => String::new(),
        false => format!("{} of ", beside.metric),
    };
    let figure = beside.ours.map(|ours| ours.figure);
    vec![
        format!("{metric}{} [{number}]", beside.what),
        published(beside),
        figure.map_or_else(none, |figure| show(beside, figure.value)),
        figure.map_or_else(none, |figure| interval(beside, figure.interval)),
        trials(beside),
        beside.ratio.map_or_else(none, ratio),
        agrees(beside.agrees).to_owned(),
    ]
}

/// The head of a table that is narrow enough for a terminal: without the intervals of ours, which tell
/// nothing that those of the ratio do not.
pub(crate) fn narrow_head(report: &Report) -> Vec<String> {
    without_interval(head(report))
}

/// A row of that table.
pub(crate) fn narrow_row(report: &Report, beside: &Beside) -> Vec<String> {
    let mut row = row(report, beside);
    if let (None, Some(ours)) = (beside.ratio, beside.ours) {
        row[2] += &format!(" ({})", interval(beside, ours.figure.interval));
    }
    without_interval(row)
}

/// Which of its columns are figures.
pub(crate) const NARROW_NUMBERS: [usize; 4] = [1, 2, 3, 4];

fn without_interval(mut fields: Vec<String>) -> Vec<String> {
    fields.remove(3);
    fields
}

fn none() -> String {
    "–".to_owned()
}

/// Where rows were published, each once, in the order of the rows.
pub(crate) fn sources<'a>(report: &Report<'a>) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for beside in &report.summary.published {
        if !found.contains(&beside.source.as_str()) {
            found.push(&beside.source);
        }
    }
    found
}

/// Of more rows than this with one note the first is named, and the others are counted.
const MAX_NAMED: usize = 3;

/// What rows say besides: what they are about, and the note. Each note once, after the rows that have it.
pub(crate) fn notes(report: &Report) -> Vec<String> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for beside in &report.summary.published {
        let Some((note, what)) = beside.note.as_deref().map(|note| (note, beside.what.as_str())) else {
            continue;
        };
        match found.iter_mut().find(|(known, _)| *known == note) {
            Some((_, rows)) if rows.contains(&what) => {}
            Some((_, rows)) => rows.push(what),
            None => found.push((note, vec![what])),
        }
    }
    let named = |rows: &[&str]| match rows {
        [first, rest @ ..] if rows.len() > MAX_NAMED => {
            format!("{first}; {}", counted(rest.len(), "more row"))
        }
        rows => rows.join("; "),
    };
    found.into_iter().map(|(note, rows)| format!("{}: {note}", named(&rows))).collect()
}

/// What ours is, by where it was measured.
pub(crate) const fn provenance(report: &Report) -> &'static str {
    match report.data.run.provenance {
        Provenance::Host => "Ours is what this run measured on its host.",
        Provenance::Lab => {
            "Ours is what this run measured in the lab: a real kernel on virtual CPUs and modelled disks."
        }
        Provenance::Simulation => "Ours is what a model gives: computed, and not measured.",
        Provenance::Imported => "Ours is what another tool reported.",
    }
}

/// How the table is to be read.
pub(crate) const LEGEND: &str = "In brackets beside a published value: from where to where ours agrees with it. \
     Ours agrees where its whole interval lies there; a simulation with too few trials for one, where all of them do.";

/// How many agree, in one sentence.
pub(crate) fn sentence(report: &Report) -> String {
    let rows = &report.summary.published;
    let count = |agrees: Agreement| rows.iter().filter(|row| row.agrees == agrees).count();
    let part = |agrees, one: &str, more: &str| match count(agrees) {
        0 => None,
        1 => Some(format!("1 {one}")),
        n => Some(format!("{n} {more}")),
    };
    let parts: Vec<String> = [
        part(Agreement::Yes, "agrees with ours", "agree with ours"),
        part(Agreement::No, "does not", "do not"),
        part(Agreement::Undecided, "is undecided", "are undecided"),
        part(Agreement::NotMeasured, "was not measured", "were not measured"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let parts = match count(Agreement::Yes) {
        0 if count(Agreement::No) > 0 => parts
            .join(", ")
            .replacen("does not", "does not agree with ours", 1)
            .replacen("do not", "do not agree with ours", 1),
        _ => listed(&parts),
    };
    format!("Of {}, {parts}.", counted(rows.len(), "published figure"))
}

/// What does not agree, a sentence each.
pub(crate) fn disagreements(report: &Report) -> Vec<String> {
    report.summary.published.iter().filter_map(disagreement).collect()
}

/// How ours and what was published are apart; `None` where they are not.
pub(crate) fn disagreement(row: &Beside) -> Option<String> {
    let ours = row.ours.filter(|_| row.agrees == Agreement::No)?.figure;
    let far = row.ratio.map(|ratio| format!(", {} times as much", ratio_words(ratio.value)));
    Some(format!(
        "{} of {}: published {}, ours {} ({}){}.",
        row.metric,
        row.what,
        bare(row),
        show(row, ours.value),
        interval(row, ours.interval),
        far.unwrap_or_default()
    ))
}

/// One of ours with its interval, the bracket left open: `642 MB/s (640 to 650`.
pub(crate) fn figures(beside: &Beside, ours: Estimate) -> String {
    let (value, interval) = (show(beside, ours.value), interval(beside, ours.interval));
    format!("{value} ({}", without_unit(&value, &interval))
}

/// A span without the unit that the value before it has: it stands there once.
pub(crate) fn without_unit<'a>(value: &str, span: &'a str) -> &'a str {
    let unit = match value.strip_suffix('%') {
        Some(_) => "%",
        None => value.split_once(' ').map_or("", |(_, unit)| unit),
    };
    span.strip_suffix(unit).unwrap_or(span).trim_end()
}

/// A figure of a row: with its unit, or as a plain ratio.
fn show(beside: &Beside, value: f64) -> String {
    match beside.over {
        Some(_) => ratio_words(value),
        None => beside.unit.show(value),
    }
}

fn span(beside: &Beside, low: f64, high: f64) -> String {
    match beside.over {
        Some(_) => format!("{} to {}", ratio_words(low), ratio_words(high)),
        None => range(&beside.unit, low, high),
    }
}

fn interval(beside: &Beside, interval: Option<Interval>) -> String {
    match interval {
        Some(interval) if !interval.has_width() => "all trials alike".to_owned(),
        Some(interval) => span(beside, interval.low, interval.high),
        // Without an interval a model is judged by the range of its seeds.
        None if beside.ours.is_some_and(|ours| ours.extent.is_some()) => "model".to_owned(),
        None => "n too small".to_owned(),
    }
}

/// What was printed.
fn bare(beside: &Beside) -> String {
    match beside.published {
        Figure::Value { value, .. } => show(beside, value),
        Figure::AtLeast(low) => format!("at least {}", show(beside, low)),
        Figure::AtMost(high) => format!("at most {}", show(beside, high)),
        Figure::Between { low, high } => span(beside, low, high),
    }
}

/// What was printed, and what agrees with it: `57.1 MB/s (51.4 to 62.8)`.
pub(crate) fn published(beside: &Beside) -> String {
    let Figure::Value { low, high, .. } = beside.published else { return bare(beside) };
    let (value, span) = (bare(beside), span(beside, low, high));
    format!("{value} ({})", without_unit(&value, &span))
}

/// How many trials ours rests on.
pub(crate) fn trials(beside: &Beside) -> String {
    match beside.ours.map(|ours| ours.trials) {
        None => none(),
        Some((n, None)) => n.to_string(),
        Some((n, Some(over))) => format!("{n}, {over}"),
    }
}

fn ratio(ratio: Estimate) -> String {
    let value = ratio_words(ratio.value);
    let interval = ratio.interval.filter(Interval::has_width);
    let interval = interval.map(|i| format!(" ({} to {})", ratio_words(i.low), ratio_words(i.high)));
    value + &interval.unwrap_or_default()
}

/// Whether a row agrees, with a sign that needs no colour.
pub(crate) const fn agrees(agreement: Agreement) -> &'static str {
    match agreement {
        Agreement::Yes => "✓ yes",
        Agreement::No => "✗ no",
        Agreement::Undecided => "? undecided",
        Agreement::NotMeasured => "– not measured",
    }
}

/// The same as a word for other programs.
pub(crate) const fn agrees_word(agreement: Agreement) -> &'static str {
    match agreement {
        Agreement::Yes => "yes",
        Agreement::No => "no",
        Agreement::Undecided => "undecided",
        Agreement::NotMeasured => "not measured",
    }
}
