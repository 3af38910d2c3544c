//! Writing a trace as its rows come, in bounded memory.

use super::packed::Packed;
use super::{TIME_COLUMN, metadata_of, schema_of};
use crate::error::{Error, Result};
use domain::bench::{Sink, SinkError};
use domain::time::Nanos;
use domain::trace::TraceHead;
use parquet::basic::{Compression, Encoding};
use parquet::data_type::Int64Type;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;

/// A row group is written when its values take this much memory: some 13 million samples of slow counters.
/// Smaller groups cost file and memory for their directory, larger ones memory while they wait.
const GROUP_BYTES: usize = 16 << 20;

/// Rows a page: a reader of all columns at once holds one page of each.
pub(super) const PAGE_ROWS: usize = 4096;

/// Values that are handed to the writer at once.
const BATCH: usize = 1024;

/// Takes a trace and writes it as Parquet; see the module's text for the form.
#[derive(Debug)]
pub struct TraceSink {
    path: PathBuf,
    state: State,
}

enum State {
    /// Nothing came yet, and there is no file.
    Waiting,
    Open(Box<Writer>),
    /// A row was lost, so the trace is none.
    Broken(String),
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            State::Waiting => f.write_str("Waiting"),
            State::Open(writer) => write!(f, "Open({} rows in the group)", writer.times.len()),
            State::Broken(reason) => write!(f, "Broken({reason})"),
        }
    }
}

struct Writer {
    file: SerializedFileWriter<File>,
    times: Vec<i64>,
    columns: Vec<Packed>,
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
            State::Open(writer) => writer.close().map_err(|e| failed(reason_of(e))),
        }
    }

    /// Remembers what went wrong: a trace with a gap in it would be taken for a measurement.
    fn fail(&mut self, reason: String) -> SinkError {
        self.state = State::Broken(reason.clone());
        SinkError(format!("`{}`: {reason}", self.path.display()))
    }
}

impl Sink for TraceSink {
    fn begin(&mut self, head: &TraceHead) -> std::result::Result<(), SinkError> {
        if !matches!(self.state, State::Waiting) {
            return Err(self.fail("a trace was begun twice".to_owned()));
        }
        if let Some(name) = repeated_name(head) {
            return Err(self.fail(format!("it has two columns named `{name}`")));
        }
        let file = OpenOptions::new().write(true).create_new(true).open(&self.path);
        match file.map_err(ParquetError::from).and_then(|file| Writer::begin(file, head)) {
            Ok(writer) => self.state = State::Open(Box::new(writer)),
            Err(e) => return Err(self.fail(reason_of(e))),
        }
        Ok(())
    }

    fn row(&mut self, time: Nanos, values: &[Option<u64>]) -> std::result::Result<(), SinkError> {
        let outcome = match &mut self.state {
            State::Open(writer) => writer.row(time, values),
            State::Waiting => Err("a row came before the trace was begun".to_owned()),
            State::Broken(reason) => Err(reason.clone()),
        };
        outcome.map_err(|reason| self.fail(reason))
    }
}

impl Writer {
    fn begin(file: File, head: &TraceHead) -> ParquetResult<Self> {
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::DELTA_BINARY_PACKED)
            .set_compression(Compression::SNAPPY)
            .set_data_page_row_count_limit(PAGE_ROWS)
            .set_write_batch_size(BATCH)
            // Both would only make the directory larger: nobody looks for rows by a counter's value.
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(true)
            .set_key_value_metadata(Some(metadata_of(head)))
            .build();
        let file = SerializedFileWriter::new(file, schema_of(head)?, Arc::new(properties))?;
        let columns = head.series.iter().map(|_| Packed::default()).collect();
        Ok(Self { file, times: Vec::new(), columns })
    }

    fn row(&mut self, time: Nanos, values: &[Option<u64>]) -> std::result::Result<(), String> {
        if values.len() != self.columns.len() {
            return Err(format!("a row of {} values came for {} columns", values.len(), self.columns.len()));
        }
        let time = i64::try_from(time.get()).map_err(|_| format!("a row's time is {} ns", time.get()))?;
        self.times.push(time);
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(*value);
        }
        if self.size() >= GROUP_BYTES {
            self.write_group().map_err(reason_of)?;
        }
        Ok(())
    }

    fn close(mut self: Box<Self>) -> ParquetResult<()> {
        self.write_group()?;
        self.file.close()?;
        Ok(())
    }

    fn size(&self) -> usize {
        self.times.len() * mem::size_of::<i64>() + self.columns.iter().map(Packed::size).sum::<usize>()
    }

    fn write_group(&mut self) -> ParquetResult<()> {
        if self.times.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        write_times(&mut group, &self.times)?;
        for column in &mut self.columns {
            write_column(&mut group, column)?;
            column.clear();
        }
        group.close()?;
        self.times.clear();
        Ok(())
    }
}

fn write_times<W: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    times: &[i64],
) -> ParquetResult<()> {
    let mut writer = group.next_column()?.expect("the first column is that of the times");
    writer.typed::<Int64Type>().write_batch(times, None, None)?;
    writer.close()
}

fn write_column<W: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    column: &Packed,
) -> ParquetResult<()> {
    let mut writer = group.next_column()?.expect("there is a column for each series");
    let mut values = Vec::with_capacity(BATCH);
    let mut present = Vec::with_capacity(BATCH);
    for value in column.values() {
        present.push(i16::from(value.is_some()));
        // Parquet keeps unsigned numbers in the signed type of the same bits.
        values.extend(value.map(u64::cast_signed));
        if present.len() == BATCH {
            writer.typed::<Int64Type>().write_batch(&values, Some(&present), None)?;
            values.clear();
            present.clear();
        }
    }
    writer.typed::<Int64Type>().write_batch(&values, Some(&present), None)?;
    writer.close()
}

fn repeated_name(head: &TraceHead) -> Option<&str> {
    let mut seen = BTreeSet::from([TIME_COLUMN]);
    head.series.iter().map(|s| s.name.as_str()).find(|name| !seen.insert(name))
}

/// Why, without the library's name before it.
fn reason_of(error: ParquetError) -> String {
    match error {
        ParquetError::External(source) => source.to_string(),
        other => other.to_string(),
    }
}
