//! Runs and traces as other programs read them. docs/EXPORT.md says what of each is there, and with which
//! program it was read.
//!
//! Each format is a file of this crate, which implements [`Exporter`], and a line of [`ALL`]. `flyball
//! export` takes its formats, their help and their errors from that list.
//!
//! An exporter reads stored runs and writes into a [`Sink`] or a [`FolderSink`]. It opens no file by itself,
//! prints nothing, and measures nothing: what it writes follows from what is stored. Foreign text passes
//! [`domain::inert`], except in binary formats. A value that was not measured is empty or left out, never
//! zero.
//!
//! Non-goals: reports for people, which are the crate `report`'s.

mod counters;
mod csv;
mod error;
mod fio_plot;
mod json;
mod jsonl;
mod junit;
mod openmetrics;
mod otava;
mod parquet;
mod perfetto;
mod sadf;
mod sink;
mod source;
mod table;
mod timeline;

pub use error::{Error, Result};
pub use junit::junit;
pub use sink::{FolderSink, Sink};
pub use source::{JudgedRun, RunPoint, StoredRun, StoredTrace};

use domain::trial::Trial;

/// A format that another program reads.
pub trait Exporter: Sync {
    /// As `--format` names it.
    fn name(&self) -> &'static str;

    /// A line for the help.
    fn about(&self) -> &'static str;

    /// How it writes each of the things that it can be written of.
    fn writers(&self) -> &'static [Writer];

    /// What its bytes are.
    fn content(&self) -> Content {
        Content::Text
    }
}

/// Writes a run and the conditions that it was judged by.
pub type WriteJudged = fn(&JudgedRun<'_>, &mut dyn Sink) -> Result<()>;
/// Writes the trace of one trial.
pub type WriteTrace = fn(&mut StoredTrace<'_>, &mut dyn Sink) -> Result<()>;
/// Writes the trials of a run as a folder of files.
pub type WriteFolder = fn(&StoredRun<'_>, &mut dyn FolderSink) -> Result<()>;

/// How a format is written, by what it is written of.
#[derive(Clone, Copy, Debug)]
pub enum Writer {
    /// Of the trials of a run, in the order in which they were begun.
    Trials(fn(&[Trial], &mut dyn Sink) -> Result<()>),
    /// Of a run and the conditions that it was judged by.
    Judged(WriteJudged),
    /// Of the trace of one trial.
    Trace(WriteTrace),
    /// Of all finished runs of a study on one machine, of which there is at least one.
    Runs(fn(&[RunPoint], &mut dyn Sink) -> Result<()>),
    /// Of the trials of a run, as a folder of files.
    Folder(WriteFolder),
}

impl Writer {
    /// What it is written of, for the help: `of a trace csv, parquet`.
    pub fn of(self) -> &'static str {
        match self {
            Self::Trials(_) | Self::Judged(_) => "of trials",
            Self::Trace(_) => "of a trace",
            Self::Runs(_) => "of all runs of the study",
            Self::Folder(_) => "as a folder",
        }
    }
}

/// What the bytes of a format are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Text, of which each character is inert.
    Text,
    /// Bytes that are not for a terminal.
    Binary,
}

/// All formats, in the order in which the help lists them.
pub const ALL: &[&dyn Exporter] = &[
    &csv::Csv,
    &json::Json,
    &jsonl::JsonLines,
    &parquet::Parquet,
    &junit::Junit,
    &sadf::Sadf,
    &openmetrics::Openmetrics,
    &perfetto::Perfetto,
    &timeline::Timeline,
    &fio_plot::FioPlot,
    &otava::Otava,
    &otava::OtavaConfig,
];

/// The format of whole trials as JSON, which `--json` means.
pub const JSON: &dyn Exporter = &json::Json;

/// The format of this name.
pub fn named(name: &str) -> Option<&'static dyn Exporter> {
    ALL.iter().copied().find(|exporter| exporter.name() == name)
}

/// The names of the formats that have such a writer.
pub fn with(is_meant: fn(&Writer) -> bool) -> Vec<&'static str> {
    let has = |exporter: &&&dyn Exporter| exporter.writers().iter().any(is_meant);
    ALL.iter().filter(has).map(|exporter| exporter.name()).collect()
}

/// What somebody wants of a format.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// One trace, and not a run.
    pub is_of_a_trace: bool,
    /// Conditions that a run is judged by.
    pub has_conditions: bool,
    /// One metric, and not all.
    pub has_metric: bool,
}

/// How the format writes what is asked for: a trace where one is named.
///
/// # Errors
/// What the format cannot be written of, and which formats can.
pub fn writer_for(format: &dyn Exporter, wanted: Wanted) -> std::result::Result<Writer, String> {
    let of_a_trace = |writer: &Writer| matches!(writer, Writer::Trace(_));
    let found = format.writers().iter().copied().find(|writer| of_a_trace(writer) == wanted.is_of_a_trace);
    let Some(writer) = found else {
        return Err(match wanted.is_of_a_trace {
            false => "this form is of one trace; name the trial with --trace TRIAL".into(),
            true => {
                let formats = listed(&with(of_a_trace), "or");
                format!("a trace is written as {formats}, not as this form")
            }
        });
    };
    if !matches!(writer, Writer::Judged(_)) && wanted.has_conditions {
        let formats = listed(&with(|writer| matches!(writer, Writer::Judged(_))), "and");
        return Err(format!("--fail-if is for --format {formats}"));
    }
    if !matches!(writer, Writer::Runs(_)) && wanted.has_metric {
        let formats = listed(&with(|writer| matches!(writer, Writer::Runs(_))), "and");
        return Err(format!("--metric is for --format {formats}; other forms have all metrics"));
    }
    Ok(writer)
}

/// `csv, parquet, sadf or openmetrics`.
fn listed(names: &[&str], word: &str) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} {word} {last}", first.join(", ")),
        _ => names.concat(),
    }
}

impl std::fmt::Debug for dyn Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_format_has_a_name_of_its_own_a_line_of_help_and_a_writer() {
        let names: BTreeSet<&str> = ALL.iter().map(|exporter| exporter.name()).collect();
        assert_eq!(names.len(), ALL.len());
        for exporter in ALL {
            assert!(!exporter.writers().is_empty(), "{exporter:?}");
            assert!(!exporter.about().is_empty() && !exporter.about().ends_with('.'), "{exporter:?}");
            assert_eq!(named(exporter.name()).map(Exporter::name), Some(exporter.name()));
        }
    }

    #[test]
    fn a_format_has_one_writer_of_each_thing() {
        for exporter in ALL {
            let things: BTreeSet<&str> = exporter.writers().iter().map(|writer| writer.of()).collect();
            assert_eq!(things.len(), exporter.writers().len(), "{exporter:?}");
        }
    }

    #[test]
    fn the_reference_names_each_format() {
        let page = include_str!("../../../docs/EXPORT.md");
        for exporter in ALL {
            assert!(page.contains(&format!("`{}`", exporter.name())), "docs/EXPORT.md lacks {exporter:?}");
        }
    }
}
