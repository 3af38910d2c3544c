//! What is exported: stored runs and traces, with what was computed from them.

use crate::error::Result;
use crate::sink::Sink;
use analysis::gate::Judged;
use analysis::summary::{RunData, RunSummary};
use domain::ids::{RunId, TrialKey};
use domain::trial::{Run, Trial};
use notebook::{Notebook, TraceReader};
use std::fs::File;
use std::io::BufReader;

/// The size of reads of events.
const READ_BYTES: usize = 1 << 20;

/// A run and the conditions that it was judged by.
#[derive(Clone, Copy, Debug)]
pub struct JudgedRun<'a> {
    /// The run, its study and its trials.
    pub data: &'a RunData,
    /// Its figures.
    pub summary: &'a RunSummary,
    /// What each condition says of each cell that it is about.
    pub judged: &'a [Judged],
}

/// One of the runs of a study.
#[derive(Clone, Debug)]
pub struct RunPoint {
    /// The run.
    pub run: Run,
    /// The kernel of its trials, where they had one.
    pub kernel: Option<String>,
    /// Its figures.
    pub summary: RunSummary,
}

/// A run with the notebook that has its traces and its tools' own files.
#[derive(Clone, Copy, Debug)]
pub struct StoredRun<'a> {
    /// Where it is stored.
    pub notebook: &'a Notebook,
    /// The run, its study and its trials.
    pub data: &'a RunData,
}

/// The trace of a trial. Of its run and trial only what a format asks for is read.
#[derive(Debug)]
pub struct StoredTrace<'a> {
    /// Where it is stored.
    pub notebook: &'a Notebook,
    /// The run.
    pub run: &'a RunId,
    /// The trial.
    pub key: &'a TrialKey,
    /// Its rows.
    pub rows: TraceReader,
}

impl StoredTrace<'_> {
    /// The run that it is of.
    ///
    /// # Errors
    /// Where that cannot be read.
    pub fn run(&self) -> Result<Run> {
        Ok(self.notebook.run(self.run)?)
    }

    /// The trial that it is of.
    ///
    /// # Errors
    /// Where that cannot be read.
    pub fn trial(&self) -> Result<Trial> {
        Ok(self.notebook.trial(self.run, self.key)?)
    }

    /// The bytes as they are stored, which are Parquet.
    ///
    /// # Errors
    /// Where they cannot be opened.
    pub fn stored(&self) -> Result<File> {
        Ok(self.notebook.trace_file(self.run, self.key)?)
    }

    /// The recorded events from their begin on, for the crate `events`; `None` where none were recorded.
    ///
    /// # Errors
    /// Where there are some that cannot be opened.
    pub fn events(&self) -> Result<Option<BufReader<File>>> {
        let file = self.notebook.events_file(self.run, self.key)?;
        Ok(file.map(|file| BufReader::with_capacity(READ_BYTES, file)))
    }

    /// Warns of a lab's trace, which is in its guest's time: other programs know nothing of that.
    ///
    /// # Errors
    /// Where the trial cannot be read.
    pub fn warn_of_dilation(&self, sink: &mut dyn Sink) -> Result<()> {
        let dilation = self.trial()?.lab.map_or(1.0, |account| account.dilation);
        if dilation > 1.0 {
            sink.warn(&format!(
                "this trace is in its guest's time, which runs {dilation} times slower than the machine's that it stands for"
            ));
        }
        Ok(())
    }
}
