//! A trial's trace in its folder. The form of the file is the crate `trace-file`'s.

use crate::error::{Error, Result};
use crate::isolated::OwnThread;
use domain::bench::{Sink, SinkError};
use domain::time::Nanos;
use domain::trace::{Series, Trace, TraceHead};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use trace_file::{Reader, Writer};

pub use trace_file::TIME_COLUMN;

/// A trace in a file.
#[derive(Debug)]
pub struct TraceReader {
    path: PathBuf,
    trace: Reader<File>,
}

impl TraceReader {
    /// Opens the trace at `path`; `None` where there is no such file.
    ///
    /// # Errors
    /// Where it is torn, no trace, or of a newer version.
    pub fn open_if_there(path: &Path) -> Result<Option<Self>> {
        let file = match files::regular::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("open", path)(e)),
        };
        let trace = Reader::by(&OwnThread, file).map_err(|error| Error::of_trace(path, error))?;
        Ok(Some(Self { path: path.to_owned(), trace }))
    }

    /// What is known of the whole trace.
    pub fn head(&self) -> &TraceHead {
        self.trace.head()
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.trace.rows()
    }

    /// Reads the series that `wanted` accepts, thinned to `most_rows`: [`Reader::read`].
    ///
    /// # Errors
    /// Where the file is damaged.
    pub fn read(&mut self, most_rows: usize, wanted: impl Fn(&Series) -> bool) -> Result<Trace> {
        self.trace.read(most_rows, wanted).map_err(|error| Error::of_trace(&self.path, error))
    }

    /// Shows every row to `each`, in order: its time and a value for each series of the head.
    ///
    /// # Errors
    /// Where the file is damaged, or `each` fails.
    pub fn each_row<E: From<Error>>(
        &mut self,
        each: impl FnMut(Nanos, &[Option<u64>]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let path = &self.path;
        self.trace.each_row(|error| Error::of_trace(path, error).into(), each)
    }
}

/// Takes a trace and writes it beside its trial, as its rows come.
#[derive(Debug)]
pub struct TraceSink {
    path: PathBuf,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing came yet, and there is no file.
    Waiting,
    Open(Box<Writer<File>>),
    /// A row was lost, so the trace is none.
    Broken(String),
}

impl TraceSink {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, state: State::Waiting }
    }

    /// Writes what is waiting and the file's directory.
    ///
    /// # Errors
    /// Where that fails, or a row was lost before.
    pub(crate) fn close(self) -> Result<()> {
        let failed = |reason: String| Error::TraceNotWritten { path: self.path.clone(), reason };
        match self.state {
            State::Waiting => Ok(()),
            State::Broken(reason) => Err(failed(reason)),
            State::Open(writer) => writer.close().map(drop).map_err(|error| failed(error.to_string())),
        }
    }

    fn begun(&self, head: &TraceHead) -> std::result::Result<Writer<File>, String> {
        if !matches!(self.state, State::Waiting) {
            return Err("a trace was begun twice".to_owned());
        }
        let file = OpenOptions::new().write(true).create_new(true).open(&self.path);
        let file = file.map_err(|error| error.to_string())?;
        Writer::begin(file, head).map_err(|error| error.to_string())
    }

    /// Remembers what went wrong: a trace with a gap in it would be taken for a measurement.
    fn fail(&mut self, reason: String) -> SinkError {
        self.state = State::Broken(reason.clone());
        SinkError(format!("`{}`: {reason}", self.path.display()))
    }
}

impl Sink for TraceSink {
    fn begin(&mut self, head: &TraceHead) -> std::result::Result<(), SinkError> {
        match self.begun(head) {
            Ok(writer) => {
                self.state = State::Open(Box::new(writer));
                Ok(())
            }
            Err(reason) => Err(self.fail(reason)),
        }
    }

    fn row(&mut self, time: Nanos, values: &[Option<u64>]) -> std::result::Result<(), SinkError> {
        let outcome = match &mut self.state {
            State::Open(writer) => writer.row(time, values).map_err(|error| error.to_string()),
            State::Waiting => Err("a row came before the trace was begun".to_owned()),
            State::Broken(reason) => Err(reason.clone()),
        };
        outcome.map_err(|reason| self.fail(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::Timestamp;
    use domain::trace::{FrequencySource, SeriesKind, SeriesUnit};

    fn head(columns: usize) -> TraceHead {
        let series = |i: usize| Series {
            name: format!("cpu{i}.user"),
            unit: SeriesUnit::Ticks,
            kind: SeriesKind::Gauge,
        };
        TraceHead {
            series: (0..columns).map(series).collect(),
            interval: Nanos::from_millis(10),
            start: Timestamp::from_unix_nanos(-5),
            frequency: FrequencySource::TimeInState,
        }
    }

    #[test]
    fn a_stored_trace_is_read_back_and_a_torn_one_names_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.parquet");
        let mut sink = TraceSink::new(path.clone());
        sink.begin(&head(2)).unwrap();
        sink.row(Nanos::ZERO, &[Some(1), None]).unwrap();
        sink.close().unwrap();
        let trace = TraceReader::open_if_there(&path).unwrap().unwrap().read(10, |_| true).unwrap();
        assert_eq!((&trace.head, trace.columns), (&head(2), vec![vec![Some(1)], vec![None]]));
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        let error = TraceReader::open_if_there(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot read `{}`: ", path.display())), "{error}");
    }

    #[test]
    fn a_sink_that_was_never_begun_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.parquet");
        TraceSink::new(path.clone()).close().unwrap();
        assert!(TraceReader::open_if_there(&path).unwrap().is_none());
    }

    #[test]
    fn a_row_of_another_length_is_refused_and_the_trace_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut sink = TraceSink::new(folder.path().join("trace.parquet"));
        sink.begin(&head(2)).unwrap();
        assert!(sink.row(Nanos::ZERO, &[Some(1)]).is_err());
        assert!(sink.row(Nanos::ZERO, &[Some(1), None]).is_err(), "a trace with a gap goes on");
        assert!(sink.close().is_err(), "a trace with a gap was stored");
    }

    #[test]
    fn two_series_of_one_name_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut twice = head(2);
        twice.series[1].name = twice.series[0].name.clone();
        let mut sink = TraceSink::new(folder.path().join("trace.parquet"));
        assert!(sink.begin(&twice).unwrap_err().to_string().contains("cpu0.user"));
    }
}
