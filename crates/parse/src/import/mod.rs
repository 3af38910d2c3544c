//! What other tools wrote: files to values, recognised by their content and never by their names.
//!
//! A file becomes *parts*: each a result with metrics, samples over time, or both. What it says of its
//! machine becomes facts; what it does not say stays unknown. Text is searched for reports and tables with
//! whatever prose around them; everything else is one format from its first byte to its last. docs/IMPORT.md
//! lists the formats.
//!
//! Bounds, so that memory does not depend on a file: [`lines::MAX_LINE`], [`json::MAX_DEPTH`],
//! [`json::MAX_TOKEN`], [`series::MAX_COLUMNS`], [`series::MAX_VALUES`], [`series::MAX_SAMPLES`],
//! [`MAX_PARTS`], [`MAX_WHOLE`], [`MAX_TRACE`].

pub mod clock;
pub mod error;
mod figures;
mod fio;
mod hyperfine;
mod iometer;
pub mod json;
pub mod lines;
mod mdstat;
mod meaning;
pub mod perf_script;
mod phoronix;
mod powertop;
mod recognise;
mod scan;
pub mod series;
mod stats_collect;
mod sysstat;
mod tables;
mod trace;

pub use error::{Error, Place};
pub use recognise::{HEAD, Kind, recognise};
pub use series::{Pace, Series};
pub use trace::MAX_BYTES as MAX_TRACE;

use domain::bench::Sink;
use domain::outcome::Outcome;
use domain::time::Timestamp;
use std::collections::BTreeMap;
use std::io::{BufRead, Read};

/// A bound on the results of one file.
pub const MAX_PARTS: usize = 10_000;

/// A bound on files that are read whole, in bytes: those of hyperfine, Phoronix, powertop and IOMeter have
/// some hundred kilobytes.
pub const MAX_WHOLE: u64 = 64 << 20;

/// One result.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its name, which becomes a cell's: `dd`, `sysbench-oltp`, fio's job.
    pub name: String,
    /// What was reported.
    pub outcome: Outcome,
    /// The command that made it, where the file states it.
    pub command: Option<Vec<String>>,
    /// When it began, where the file states it.
    pub started: Option<Timestamp>,
    /// What the file says of this result alone.
    pub facts: BTreeMap<String, String>,
    /// What was sampled.
    pub series: Option<Series>,
    /// Its name before it was told from others of the same.
    kind: String,
    /// Whether no later form of the same result says more.
    pub(crate) exact: bool,
}

impl Part {
    fn new(name: &str, outcome: Outcome) -> Self {
        Self {
            name: name.to_owned(),
            outcome,
            command: None,
            started: None,
            facts: BTreeMap::new(),
            series: None,
            kind: String::new(),
            exact: false,
        }
    }
}

/// All that a file holds.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Its results, in the file's order.
    pub parts: Vec<Part>,
    /// What it says of the machine and of itself, by short names.
    pub facts: BTreeMap<String, String>,
    /// What was left out, and what a reader should know.
    pub notes: Vec<String>,
}

/// Results as they are found.
#[derive(Default)]
struct Parts {
    found: Vec<Part>,
    asides: Vec<Part>,
    notes: Vec<String>,
    left_out: usize,
}

impl Parts {
    /// Takes a result. Several of one tool in one text are no repeats of each other: nobody knows what was
    /// changed between.
    fn push(&mut self, mut part: Part) {
        let same = self.found.iter().filter(|p| !p.exact && p.kind == part.name).count();
        part.kind.clone_from(&part.name);
        if same > 0 && !part.exact {
            part.name = format!("{}-{}", part.name, same + 1);
        }
        if self.found.len() < MAX_PARTS { self.found.push(part) } else { self.left_out += 1 }
    }

    /// bonnie++ prints its table rounded, and then the same exactly: the table goes.
    fn push_exact(&mut self, part: Part) {
        match self.found.last_mut() {
            Some(last) if !last.exact && last.kind == part.name && last.outcome.tool == part.outcome.tool => {
                *last = part
            }
            _ => self.push(part),
        }
    }

    /// A result that counts only where there is no other.
    fn aside(&mut self, name: &str, outcome: Outcome) {
        self.asides.push(Part::new(name, outcome));
    }

    fn note(&mut self, note: String) {
        const MAX_NOTES: usize = 50;
        if self.notes.len() < MAX_NOTES {
            self.notes.push(note);
        }
    }

    fn finish(mut self) -> (Vec<Part>, Vec<String>) {
        if self.left_out > 0 {
            self.notes.push(format!("left out {} results: a run has {MAX_PARTS} at most", self.left_out));
        }
        let parts = if self.found.is_empty() { self.asides } else { self.found };
        (parts, self.notes)
    }
}

/// Reads a file. The samples of a kind that [`Kind::is_streamed`] are summed up alone; [`stream`] hands them
/// on.
///
/// # Errors
/// Where the file is not of its kind, is cut short, exceeds a bound or holds no figure; where reading fails.
pub fn read(kind: Kind, input: &mut dyn BufRead, pace: Pace) -> Result<Imported, Error> {
    let mut imported = match kind {
        Kind::Text(only) => text(input, pace, only),
        Kind::FioJson => fio::json(input),
        Kind::FioTerse => fio::terse(input),
        Kind::FioLog(what) => fio::log(input, what, pace),
        Kind::Sysstat => sysstat::read(input, pace),
        Kind::Hyperfine => hyperfine::read(&whole(input)?),
        Kind::Iometer => iometer::read(&whole(input)?),
        Kind::Phoronix => phoronix::read(&whole(input)?),
        Kind::Powertop => powertop::read(&whole(input)?),
        Kind::StatsCollect => stats_collect::read(&whole(input)?),
        Kind::Trace => trace::read(input),
        Kind::PerfData | Kind::TraceDat | Kind::PerfScript => {
            let reason = "its events are read elsewhere".to_owned();
            Err(Error::Nothing { what: kind.name(), reason })
        }
        Kind::Sa => {
            let reason = "it is sysstat's binary form, which `sadf -j` of sysstat turns into text".to_owned();
            Err(Error::Nothing { what: kind.name(), reason })
        }
    }?;
    for part in &mut imported.parts {
        // A file may say 10^400 bytes in a second.
        part.outcome.metrics.retain(|_, metric| metric.value.is_finite());
    }
    if imported.parts.is_empty() {
        let notes = imported.notes.join("; ");
        let reason = if notes.is_empty() { "no line of it is a result".to_owned() } else { notes };
        return Err(Error::Nothing { what: kind.name(), reason });
    }
    Ok(imported)
}

/// Reads the file again, and hands the samples on that [`read`] has summed up.
///
/// # Errors
/// As [`read`]; where a row cannot be stored.
pub fn stream(
    kind: Kind,
    input: &mut dyn BufRead,
    pace: Pace,
    known: &Series,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    match kind {
        Kind::Sysstat => sysstat::stream(input, pace, known, sink),
        Kind::FioLog(what) => fio::stream_log(input, what, pace, known, sink),
        Kind::Trace => trace::stream(input, sink),
        _ => known.pour(sink),
    }
}

/// Reports and tables in text.
fn text(input: &mut dyn BufRead, pace: Pace, only: Option<&'static str>) -> Result<Imported, Error> {
    let mut lines = lines::Lines::new(input, Kind::Text(only).name());
    let mut tables = tables::Tables::new(pace, only);
    let mut figures = figures::Figures::new(only);
    loop {
        let so_far = |figures: &figures::Figures, tables: &tables::Tables| {
            format!("{} reports and {} samples", figures.parts.found.len(), tables.count())
        };
        let line = lines.line().map_err(|error| error.after(&so_far(&figures, &tables)))?;
        let Some(line) = line else { break };
        if !figures.line(&line) {
            tables.line(&line).map_err(|error| error.after(&so_far(&figures, &tables)))?;
        }
    }
    figures.finish();
    let mut facts = std::mem::take(&mut figures.facts);
    let (mut parts, mut notes) = std::mem::take(&mut figures.parts).finish();
    facts.extend(std::mem::take(&mut tables.facts));
    for (tool, series) in tables.finish()? {
        parts.push(part_of_series(tool, tool, series, &mut notes));
    }
    if parts.is_empty() && facts.contains_key("cpupower") {
        parts.push(Part::new("cpupower", Outcome { tool: "cpupower".to_owned(), ..Outcome::default() }));
    }
    Ok(Imported { parts, facts, notes })
}

/// Samples as a result: the means are its metrics.
fn part_of_series(name: &str, tool: &str, series: Series, notes: &mut Vec<String>) -> Part {
    let (metrics, left_out) = series.metrics();
    if left_out > 0 {
        notes.push(format!(
            "{tool}: {left_out} means are no metrics, since {} are enough; the trace has them all",
            metrics.len()
        ));
    }
    notes.extend(series.notes.iter().map(|note| format!("{tool}: {note}")));
    let outcome = Outcome { metrics, tool: tool.to_owned(), warnings: Vec::new() };
    Part { started: series.started(), series: Some(series), ..Part::new(name, outcome) }
}

/// A file's whole text.
fn whole(input: &mut dyn BufRead) -> Result<String, Error> {
    let mut bytes = Vec::new();
    input.take(MAX_WHOLE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_WHOLE {
        let place = Place { offset: MAX_WHOLE, line: 0 };
        return Err(Error::at(
            "a file that is read whole",
            place,
            format!("it is larger than {} MiB", MAX_WHOLE >> 20),
        ));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads JSON that is small; an error names its place.
fn small_json<'a, T: serde::Deserialize<'a>>(what: &'static str, text: &'a str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| {
        let before: usize =
            text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let place = Place { offset: (before + error.column()) as u64, line: error.line() as u64 };
        let words = error.to_string();
        let reason = words.rsplit_once(" at line ").map_or(words.as_str(), |(reason, _)| reason);
        Error::at(what, place, reason)
    })
}

#[cfg(test)]
mod tests;
