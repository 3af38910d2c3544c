//! A study's runs over time as Apache Otava reads them: a table with a row a run, and the test that says what
//! its columns are.

use crate::{Exporter, Result, RunPoint, Sink, Writer};
use domain::inert::{self, csv_cell};
use domain::order;
use domain::outcome::Better;
use std::collections::BTreeSet;
use std::fmt::Write;

/// A row a run.
pub(crate) struct Otava;

/// The test that says what the columns of that table are.
pub(crate) struct OtavaConfig;

impl Exporter for Otava {
    fn name(&self) -> &'static str {
        "otava"
    }

    fn about(&self) -> &'static str {
        "A table of the study's runs, for Apache Otava"
    }

    fn writers(&self) -> &'static [Writer] {
        &[Writer::Runs(write_table)]
    }
}

impl Exporter for OtavaConfig {
    fn name(&self) -> &'static str {
        "otava-config"
    }

    fn about(&self) -> &'static str {
        "The test for that table, for otava.yaml"
    }

    fn writers(&self) -> &'static [Writer] {
        &[Writer::Runs(write_config)]
    }
}

fn write_table(points: &[RunPoint], out: &mut dyn Sink) -> Result<()> {
    for cell in left_out(points) {
        out.warn(&format!(
            "the cell `{cell}` is left out: not every run has measured it, and Otava takes no gaps"
        ));
    }
    Ok(out.write_all(table(points).as_bytes())?)
}

fn write_config(points: &[RunPoint], out: &mut dyn Sink) -> Result<()> {
    Ok(out.write_all(config(points).as_bytes())?)
}

const ATTRIBUTES: [&str; 4] = ["run", "revision", "kernel", "machine"];

/// The cells that every one of these runs has measured, by name: Otava takes no row with a value missing.
fn cells(points: &[RunPoint]) -> Vec<&str> {
    let measured = |point: &RunPoint| -> BTreeSet<String> {
        let cells = point.summary.cells.iter().filter(|cell| cell.median.is_some());
        cells.map(|cell| cell.cell.to_string()).collect()
    };
    let sets: Vec<BTreeSet<String>> = points.iter().map(measured).collect();
    let first = points.first().map_or(&[][..], |point| &point.summary.cells);
    let names = first.iter().map(|cell| cell.cell.as_str());
    names.filter(|name| sets.iter().all(|set| set.contains(*name))).collect()
}

/// Cells that some of the runs have measured and others have not: they are in no column.
fn left_out(points: &[RunPoint]) -> BTreeSet<String> {
    let there: BTreeSet<&str> = cells(points).into_iter().collect();
    let all = points.iter().flat_map(|point| &point.summary.cells);
    let measured = all.filter(|cell| cell.median.is_some()).map(|cell| cell.cell.to_string());
    measured.filter(|cell| !there.contains(cell.as_str())).collect()
}

/// One row a run, oldest first: when it began, what it was, and each cell's median in the metric's base unit.
fn table(points: &[RunPoint]) -> String {
    const NEVER: &str = "a Vec takes all that is written to it, and every record has one length";
    let cells = cells(points);
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let head = ["time"].into_iter().chain(ATTRIBUTES).chain(cells.iter().copied());
    writer.write_record(head.map(|name| csv_cell(name).into_owned())).expect(NEVER);
    let mut sorted: Vec<&RunPoint> = points.iter().collect();
    order::by_key(&mut sorted, |point| point.run.started);
    for point in sorted {
        let run = &point.run;
        let kernel = point.kernel.clone().unwrap_or_default();
        let fixed = [run.started.iso(), run.id.to_string(), run.revision.clone().unwrap_or_default(), kernel];
        let median = |cell: &&str| {
            let cell = point.summary.cells.iter().find(|c| c.cell.as_str() == *cell);
            cell.and_then(|cell| cell.median).map(|median| median.to_string()).unwrap_or_default()
        };
        let row = fixed.into_iter().chain([run.machine.clone()]).chain(cells.iter().map(median));
        writer.write_record(row.map(|field| csv_cell(&field).into_owned())).expect(NEVER);
    }
    let bytes = writer.into_inner().expect(NEVER);
    String::from_utf8(bytes).expect("only text was written")
}

/// The test for `otava.yaml`. The table will be in a file of the study's name.
fn config(points: &[RunPoint]) -> String {
    let Some(first) = points.first() else { return String::new() };
    let direction = match first.summary.better {
        Better::Higher => 1,
        Better::Lower => -1,
    };
    let mut text = format!(
        "tests:\n  {}:\n    type: csv\n    file: {}\n    time_column: time\n    attributes: [{}]\n    metrics:\n",
        quoted(&first.run.study),
        quoted(&format!("{}.csv", first.run.study)),
        ATTRIBUTES.join(", ")
    );
    for cell in cells(points) {
        let _ = writeln!(
            text,
            "      {0}:\n        column: {0}\n        direction: {direction}\n        scale: 1",
            quoted(&csv_cell(cell))
        );
    }
    text
}

/// A string as YAML takes it whatever is in it: JSON's strings are YAML's.
fn quoted(text: &str) -> String {
    inert::json(&serde_json::Value::from(text).to_string()).into_owned()
}
