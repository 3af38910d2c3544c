//! What block devices that stand on others made of what they were given, and where the time of it went.

use super::{heading, paragraph, table};
use crate::Report;
use crate::document::{Block, Table};
use crate::wording::{cell_label, percent};
use analysis::facts::cell_events::{self, OfLayer};
use domain::order;
use domain::passage::Given;
use domain::request::Op;
use domain::time::Nanos;
use domain::trial::Measurement;
use domain::units::Unit;

/// The title of [`BECAME`].
pub(crate) const BECAME_TITLE: &str = "What layers made of requests";

/// What is counted.
pub(crate) const BECAME_NOTE: &str = "By events of all valid trials: what devices that stand on others (md, dm) were given a second, and what became of it below: requests of disks, after merging. Times: how many requests below one became, and bytes. Linked: the share of what was passed on that is known to be of one request that was followed; parity is not, nor what is read to compute it.";

/// The title of [`TIMES`].
pub(crate) const TIMES_TITLE: &str = "Where requests spent their time in layers";

/// What the times are.
pub(crate) const TIMES_NOTE: &str = "Means of the requests that were followed through their layer, which sum up to whole. Before: until the first request below was queued (encryption, waiting for a stripe). Below: while any of those below was on its way. Between: from one of them to the next (computing parity). After: from the end of the last to their own (decryption; in an array with parity also writing that, for it is not linked).";

/// Layers of one cell: those that were given most.
const MAX_LAYERS: usize = 6;

/// Devices below that are named.
const MAX_BELOW: usize = 3;

/// One of the two tables: its columns behind that of the cell, those of them that are text, and the rows of
/// a layer.
pub(crate) struct Columns {
    head: &'static [&'static str],
    texts: usize,
    rows: fn(&OfLayer) -> Vec<Vec<String>>,
}

/// How much each layer was given, and passed on.
pub(crate) const BECAME: Columns = Columns {
    head: &["layer", "onto", "reads", "below", "writes", "below", "times", "bytes", "linked"],
    texts: 2,
    rows: |layer| vec![became(layer)],
};

/// Where the time of what each layer was given went.
pub(crate) const TIMES: Columns = Columns {
    head: &["layer", "what", "whole", "before", "below", "between", "after", "followed"],
    texts: 2,
    rows: times,
};

/// One of the two tables of each cell; `None` where no layers were seen.
pub(crate) fn layers_table(report: &Report, columns: &Columns) -> Option<Table> {
    let of_cell = |cell: &analysis::summary::CellSummary| {
        let rows = rows(cell_events::layers(report.data, &cell.cell), columns);
        let label = cell_label(report, cell);
        let labelled = move |row: Vec<String>| [label.clone()].into_iter().chain(row).collect();
        rows.into_iter().map(labelled).collect::<Vec<Vec<String>>>()
    };
    let rows: Vec<Vec<String>> = report.summary.cells.iter().flat_map(of_cell).collect();
    let head: Vec<&str> = ["cell"].into_iter().chain(columns.head.iter().copied()).collect();
    let numbers: Vec<usize> = (1 + columns.texts..head.len()).collect();
    (!rows.is_empty()).then(|| table(&head, &numbers, rows))
}

/// One of the two tables of one trial, without its cell.
pub(super) fn layers_of(measurement: &Measurement, columns: &Columns) -> Option<Table> {
    let rows = rows(cell_events::layers_of(measurement).collect(), columns);
    let numbers: Vec<usize> = (columns.texts..columns.head.len()).collect();
    (!rows.is_empty()).then(|| table(columns.head, &numbers, rows))
}

fn rows(mut layers: Vec<OfLayer>, columns: &Columns) -> Vec<Vec<String>> {
    let given = |layer: &OfLayer| layer.passage.given.values().map(|given| given.bios.count).sum::<u64>();
    order::by_key(&mut layers, |layer| std::cmp::Reverse(given(layer)));
    layers.truncate(MAX_LAYERS);
    let mut from_the_top: Vec<&OfLayer> = layers.iter().collect();
    order::by_key(&mut from_the_top, |layer| std::cmp::Reverse(height(layer, &layers, MAX_LAYERS)));
    from_the_top.into_iter().flat_map(columns.rows).collect()
}

/// How many layers stand below one another, with this one on the top; at most `most`.
fn height(layer: &OfLayer, all: &[OfLayer], most: usize) -> usize {
    let onto = layer.passage.onto();
    let below = all.iter().filter(|other| most > 1 && onto.contains(other.device.as_str()));
    1 + below.map(|other| height(other, all, most - 1)).max().unwrap_or(0)
}

fn became(layer: &OfLayer) -> Vec<String> {
    let OfLayer { device, passage, time } = layer;
    let rate = |count: u64| Unit::PerSecond.show(count as f64 / time.secs());
    let [reads, writes] = [Op::Read, Op::Write].map(|op| [passage.given(op).bios.count, passage.became(op)]);
    let ratio = |ratio: Option<f64>| ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
    let rates = [reads, writes].into_iter().flatten().map(rate);
    let ratios = [passage.amplification(), passage.amplification_of_bytes()].map(ratio);
    let names = [device.clone(), below(layer)];
    names.into_iter().chain(rates).chain(ratios).chain([percent(passage.share_linked())]).collect()
}

/// `sda, sdb, sdc, +1`.
fn below(layer: &OfLayer) -> String {
    let onto = layer.passage.onto();
    let more = onto.len().saturating_sub(MAX_BELOW);
    let mut names: Vec<String> = onto.into_iter().take(MAX_BELOW).map(str::to_owned).collect();
    if more > 0 {
        names.push(format!("+{more}"));
    }
    names.join(", ")
}

fn times(layer: &OfLayer) -> Vec<Vec<String>> {
    let ops = [Op::Read, Op::Write].map(|op| (op, layer.passage.given(op)));
    let given = ops.into_iter().filter(|(_, given)| given.bios.count > 0);
    given
        .map(|(op, given)| [vec![layer.device.clone(), op.name().to_owned()], times_of(&given)].concat())
        .collect()
}

fn times_of(given: &Given) -> Vec<String> {
    let means = given.means();
    let whole = means.map(|means| means.into_iter().fold(Nanos::ZERO, Nanos::saturating_add));
    let parts = means.map_or([None; 4], |means| means.map(Some));
    let shown =
        |time: Option<Nanos>| time.map_or_else(|| "–".to_owned(), |time| Unit::Seconds.show(time.secs()));
    [whole].into_iter().chain(parts).map(shown).chain([percent(given.share_followed())]).collect()
}

/// The tables with their titles.
pub(super) fn layers(report: &Report) -> Vec<Block> {
    let tables = [(BECAME_TITLE, BECAME, BECAME_NOTE), (TIMES_TITLE, TIMES, TIMES_NOTE)];
    let titled = |(title, columns, note): (&'static str, Columns, &'static str)| {
        Some([heading(title), Block::Table(layers_table(report, &columns)?), paragraph(note)])
    };
    tables.into_iter().filter_map(titled).flatten().collect()
}
