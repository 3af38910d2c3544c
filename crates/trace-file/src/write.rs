//! Writing a trace as its rows come, in bounded memory.

use crate::error::{Error, Result};
use crate::packed::Packed;
use crate::{TIME_COLUMN, metadata_of, schema_of};
use domain::time::Nanos;
use domain::trace::TraceHead;
use parquet::basic::{Compression, Encoding};
use parquet::data_type::Int64Type;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use std::collections::BTreeSet;
use std::io::Write;
use std::mem;
use std::sync::Arc;

/// A row group is written when its values take this much memory: some 13 million samples of slow counters.
/// Smaller groups cost file and memory for their directory, larger ones memory while they wait.
const GROUP_BYTES: usize = 16 << 20;

/// Rows a page: a reader of all columns at once holds one page of each.
pub(crate) const PAGE_ROWS: usize = 4096;

/// Values that are handed to the writer at once.
pub(crate) const BATCH: usize = 1024;

/// Takes a trace and writes it as Parquet; see the crate's text for the form.
pub struct Writer<W: Write + Send> {
    file: SerializedFileWriter<W>,
    times: Vec<i64>,
    columns: Vec<Packed>,
}

impl<W: Write + Send> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Writer({} rows in the group)", self.times.len())
    }
}

impl<W: Write + Send> Writer<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// Where `out` cannot be written, or two columns have one name.
    pub fn begin(out: W, head: &TraceHead) -> Result<Self> {
        if let Some(name) = repeated_name(head) {
            return Err(Error::Unwritten(format!("it has two columns named `{name}`")));
        }
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
        let schema = schema_of(head).map_err(unwritten)?;
        let file = SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(unwritten)?;
        let columns = head.series.iter().map(|_| Packed::default()).collect();
        Ok(Self { file, times: Vec::new(), columns })
    }

    /// Takes a row. After an error the trace is none: a gap in it would be taken for a measurement.
    ///
    /// # Errors
    /// Where it has another number of values than the head, its time is out of range, or it cannot be
    /// written.
    pub fn row(&mut self, time: Nanos, values: &[Option<u64>]) -> Result<()> {
        let count = self.columns.len();
        if values.len() != count {
            let why = format!("a row of {} values came for {count} columns", values.len());
            return Err(Error::Unwritten(why));
        }
        let time = i64::try_from(time.get())
            .map_err(|_| Error::Unwritten(format!("a row's time is {} ns", time.get())))?;
        self.times.push(time);
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(*value);
        }
        if self.size() >= GROUP_BYTES {
            self.write_group().map_err(unwritten)?;
        }
        Ok(())
    }

    /// Writes what is waiting and the file's directory.
    ///
    /// # Errors
    /// Where that fails.
    pub fn close(mut self) -> Result<W> {
        self.write_group().map_err(unwritten)?;
        self.file.into_inner().map_err(unwritten)
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

fn write_times<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    times: &[i64],
) -> ParquetResult<()> {
    let mut writer = group.next_column()?.expect("the first column is that of the times");
    writer.typed::<Int64Type>().write_batch(times, None, None)?;
    writer.close()
}

fn write_column<W: Write + Send>(
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

/// The name that two columns of a trace would have.
pub fn repeated_name(head: &TraceHead) -> Option<&str> {
    let mut seen = BTreeSet::from([TIME_COLUMN]);
    head.series.iter().map(|s| s.name.as_str()).find(|name| !seen.insert(name))
}

/// Without the library's name before it.
fn unwritten(error: ParquetError) -> Error {
    Error::Unwritten(match error {
        ParquetError::External(source) => source.to_string(),
        other => other.to_string(),
    })
}
