//! Reading a trace, in bounded memory whatever its length.

use super::head_of;
use crate::error::{Error, Result};
use domain::time::Nanos;
use domain::trace::{Series, Trace, TraceHead};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::Int64Type;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Rows that are decoded at once.
const BATCH: usize = 1024;

/// A trace in a file.
pub struct TraceReader {
    path: PathBuf,
    file: SerializedFileReader<File>,
    head: TraceHead,
    rows: usize,
}

impl std::fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TraceReader({}, {} rows)", self.path.display(), self.rows)
    }
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
        let file = decode(path, || SerializedFileReader::new(file))?;
        let metadata = file.metadata().file_metadata();
        let head = head_of(path, metadata.key_value_metadata())?;
        let columns = metadata.schema_descr();
        let as_told = columns.num_columns() == head.series.len() + 1
            && (0..columns.num_columns())
                .all(|i| columns.column(i).physical_type() == parquet::basic::Type::INT64)
            && head.series.iter().enumerate().all(|(i, series)| columns.column(i + 1).name() == series.name);
        if !as_told {
            return Err(Error::damaged(path, "its columns are not those that its metadata tells of"));
        }
        let rows = usize::try_from(metadata.num_rows()).map_err(|e| Error::damaged(path, e))?;
        Ok(Some(Self { path: path.to_owned(), file, head, rows }))
    }

    /// What is known of the whole trace.
    pub fn head(&self) -> &TraceHead {
        &self.head
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many row groups the file has; each is decoded apart from the others.
    pub fn row_groups(&self) -> usize {
        self.file.num_row_groups()
    }

    /// Reads the series that `wanted` accepts. Of more than `most_rows` rows (at least two) every n-th is
    /// taken, and the last: rates between the rows that are left are those of the whole span between them.
    /// Only what is taken is ever in memory.
    ///
    /// # Errors
    /// Where the file is damaged.
    pub fn read(&mut self, most_rows: usize, wanted: impl Fn(&Series) -> bool) -> Result<Trace> {
        let indices: Vec<usize> =
            (0..self.head.series.len()).filter(|i| wanted(&self.head.series[*i])).collect();
        let series = indices.iter().map(|i| self.head.series[*i].clone()).collect();
        let mut trace = Trace::new(TraceHead { series, ..self.head.clone() });
        let mut first_row = 0;
        for group in 0..self.file.num_row_groups() {
            let group = decode(&self.path, || self.file.get_row_group(group))?;
            let rows = self.rows_of(&*group)?;
            let thin = Thinning {
                first_row,
                rows,
                step: self.step(most_rows),
                last_row: self.rows.saturating_sub(1),
            };
            self.take(&*group, 0, &thin, |time| {
                trace.times.push(Nanos::new(time.unwrap_or_default()));
            })?;
            for (column, index) in trace.columns.iter_mut().zip(&indices) {
                self.take(&*group, index + 1, &thin, |value| column.push(value))?;
            }
            first_row += rows;
        }
        Ok(trace)
    }

    /// Shows every row to `each`, in order: its time and a value for each series of the head.
    ///
    /// # Errors
    /// Where the file is damaged, or `each` fails.
    pub fn each_row<E: From<Error>>(
        &mut self,
        mut each: impl FnMut(Nanos, &[Option<u64>]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let width = self.head.series.len();
        let mut row = vec![None; width];
        for group in 0..self.file.num_row_groups() {
            let group = decode(&self.path, || self.file.get_row_group(group))?;
            let mut columns =
                (0..=width).map(|i| self.column(&*group, i)).collect::<Result<Vec<Column>>>()?;
            let mut left = self.rows_of(&*group)?;
            while left > 0 {
                let count = left.min(BATCH);
                for column in &mut columns {
                    decode(&self.path, || column.fill(count))?;
                }
                for i in 0..count {
                    let time = Nanos::new(columns[0].batch[i].unwrap_or_default());
                    for (value, column) in row.iter_mut().zip(&columns[1..]) {
                        *value = column.batch[i];
                    }
                    each(time, &row)?;
                }
                left -= count;
            }
        }
        Ok(())
    }

    /// Decodes one column of a group, and gives what is left of it after thinning.
    fn take(
        &self,
        group: &dyn RowGroupReader,
        index: usize,
        thin: &Thinning,
        mut give: impl FnMut(Option<u64>),
    ) -> Result<()> {
        let mut column = self.column(group, index)?;
        let mut at = 0;
        while at < thin.rows {
            let count = (thin.rows - at).min(BATCH);
            decode(&self.path, || column.fill(count))?;
            (0..count).filter(|i| thin.keeps(at + i)).for_each(|i| give(column.batch[i]));
            at += count;
        }
        Ok(())
    }

    fn column(&self, group: &dyn RowGroupReader, index: usize) -> Result<Column> {
        match decode(&self.path, || group.get_column_reader(index))? {
            ColumnReader::Int64ColumnReader(reader) => {
                let optional = index > 0;
                Ok(Column { reader, optional, values: Vec::new(), present: Vec::new(), batch: Vec::new() })
            }
            _ => Err(self.damaged("a column does not hold integers of 64 bits")),
        }
    }

    fn rows_of(&self, group: &dyn RowGroupReader) -> Result<usize> {
        usize::try_from(group.metadata().num_rows()).map_err(|e| self.damaged(e))
    }

    fn step(&self, most_rows: usize) -> usize {
        let gaps = most_rows.max(2) - 1;
        self.rows.saturating_sub(1).div_ceil(gaps).max(1)
    }

    fn damaged(&self, reason: impl ToString) -> Error {
        Error::damaged(&self.path, reason)
    }
}

/// Calls the library, which panics on some damaged files where it should give an error.
fn decode<T>(path: &Path, call: impl FnOnce() -> std::result::Result<T, ParquetError>) -> Result<T> {
    // Nothing that a panic may leave half done is looked at again: the caller gives up on this file.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(outcome) => outcome.map_err(|e| Error::damaged(path, e)),
        Err(_) => Err(Error::damaged(path, "its pages are damaged")),
    }
}

/// Which rows of a group are taken.
struct Thinning {
    /// The number of the group's first row in the whole trace.
    first_row: usize,
    /// The group's rows.
    rows: usize,
    /// Every so many-th row of the whole trace is taken.
    step: usize,
    /// The number of the trace's last row.
    last_row: usize,
}

impl Thinning {
    fn keeps(&self, row_of_group: usize) -> bool {
        let row = self.first_row + row_of_group;
        row.is_multiple_of(self.step) || row == self.last_row
    }
}

/// A column of a group, decoded batch by batch.
struct Column {
    reader: ColumnReaderImpl<Int64Type>,
    optional: bool,
    values: Vec<i64>,
    present: Vec<i16>,
    batch: Vec<Option<u64>>,
}

impl Column {
    /// Decodes the next `count` rows into `batch`.
    fn fill(&mut self, count: usize) -> std::result::Result<(), ParquetError> {
        self.values.clear();
        self.present.clear();
        self.batch.clear();
        let mut rows = 0;
        while rows < count {
            let present = self.optional.then_some(&mut self.present);
            let (read, _, _) = self.reader.read_records(count - rows, present, None, &mut self.values)?;
            if read == 0 {
                return Err(ParquetError::EOF("a column ends before the others".to_owned()));
            }
            rows += read;
        }
        let mut values = self.values.iter().map(|v| v.cast_unsigned());
        if self.optional {
            self.batch
                .extend(self.present.iter().map(|level| if *level == 1 { values.next() } else { None }));
        } else {
            self.batch.extend(values.map(Some));
        }
        if self.batch.len() == count {
            Ok(())
        } else {
            Err(ParquetError::EOF("a page is shorter than it says".to_owned()))
        }
    }
}
