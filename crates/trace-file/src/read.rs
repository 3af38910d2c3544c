//! Reading a trace, in bounded memory whatever its length.

use crate::error::{Error, Result};
use crate::{PROGRAM_KEY, TIME_COLUMN, head_of, pages, value_of};
use bytes::Bytes;
use domain::time::Nanos;
use domain::trace::{Series, Trace, TraceHead};
use parquet::basic::Type as PhysicalType;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::Int64Type;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::file::reader::{ChunkReader, SerializedPageReader};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};

/// Rows that are decoded at once.
const BATCH: usize = 1024;

/// Who calls the library, which panics on some damaged files where it should give an error.
pub trait Caller: std::fmt::Debug + Sync {
    /// Does the work, and says whether it came to its end.
    fn call(&self, work: Box<dyn FnOnce() + Send>) -> bool;
}

/// Calls it where it is. A panic is caught where panics unwind, and else ends the process, which has to be
/// one that reads a file and nothing else.
#[derive(Debug)]
pub struct InPlace;

impl Caller for InPlace {
    fn call(&self, work: Box<dyn FnOnce() + Send>) -> bool {
        // Nothing that a panic may leave half done is looked at again: the caller gives up on this file.
        panic::catch_unwind(AssertUnwindSafe(work)).is_ok()
    }
}

/// A trace in a file. All columns are integers of 64 bits; the library's `SerializedFileReader` would bring
/// its decoders of all types into the program.
pub struct Reader<R: ChunkReader + 'static> {
    file: Arc<R>,
    caller: &'static dyn Caller,
    metadata: ParquetMetaData,
    head: TraceHead,
    written_by: Option<String>,
    rows: usize,
}

impl<R: ChunkReader + 'static> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reader({} rows)", self.rows)
    }
}

impl Reader<Bytes> {
    /// Reads the directory of a file that a stranger handed over, and looks at each of its pages, so that
    /// none takes more memory than the pages of a trace.
    ///
    /// # Errors
    /// As [`Reader::of`]; where a page is larger, or is not where it is said to be.
    pub fn of_foreign(file: Vec<u8>) -> Result<Self> {
        let file = Bytes::from(file);
        let reader = Self::of(file.clone())?;
        pages::check(&file, &reader.metadata)?;
        Ok(reader)
    }
}

impl<R: ChunkReader + 'static> Reader<R> {
    /// Reads the directory of a file.
    ///
    /// # Errors
    /// Where it is torn, no trace, or of a newer version.
    pub fn of(file: R) -> Result<Self> {
        Self::by(&InPlace, file)
    }

    /// The same; the library is called by `caller`.
    ///
    /// # Errors
    /// As [`Reader::of`].
    pub fn by(caller: &'static dyn Caller, file: R) -> Result<Self> {
        let file = Arc::new(file);
        let shared = Arc::clone(&file);
        let whole = decode(caller, move || ParquetMetaDataReader::new().parse_and_finish(&*shared))?;
        let metadata = whole.file_metadata();
        let head = head_of(metadata)?;
        let columns = metadata.schema_descr();
        let as_told = columns.num_columns() == head.series.len() + 1
            && (0..columns.num_columns()).all(|i| columns.column(i).physical_type() == PhysicalType::INT64)
            && columns.column(0).name() == TIME_COLUMN
            && columns.column(0).max_def_level() == 0
            && head.series.iter().enumerate().all(|(i, series)| {
                let column = columns.column(i + 1);
                column.name() == series.name && column.max_def_level() == 1 && column.max_rep_level() == 0
            });
        if !as_told {
            return Err(Error::damaged("its columns are not those that its metadata tells of"));
        }
        let rows = metadata.num_rows();
        let rows = usize::try_from(rows).map_err(|_| Error::Damaged(format!("it claims {rows} rows")))?;
        let written_by = value_of(metadata, PROGRAM_KEY);
        Ok(Self { file, caller, metadata: whole, head, written_by, rows })
    }

    /// What is known of the whole trace.
    pub fn head(&self) -> &TraceHead {
        &self.head
    }

    /// The version of the program that wrote it, where it says so.
    pub fn written_by(&self) -> Option<&str> {
        self.written_by.as_deref()
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many row groups the file has; each is decoded apart from the others.
    pub fn row_groups(&self) -> usize {
        self.metadata.num_row_groups()
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
        for group in self.metadata.row_groups() {
            let rows = rows_of(group)?;
            let thin = Thinning {
                first_row,
                rows,
                step: self.step(most_rows),
                last_row: self.rows.saturating_sub(1),
            };
            self.take(group, 0, &thin, |time| {
                trace.times.push(Nanos::new(time.unwrap_or_default()));
            })?;
            for (column, index) in trace.columns.iter_mut().zip(&indices) {
                self.take(group, index + 1, &thin, |value| column.push(value))?;
            }
            first_row += rows;
        }
        Ok(trace)
    }

    /// Shows every row to `each`, in order: its time and a value for each series of the head. What is wrong
    /// with the file becomes the caller's error by `damaged`.
    ///
    /// # Errors
    /// Where the file is damaged, or `each` fails.
    pub fn each_row<E>(
        &mut self,
        damaged: impl Fn(Error) -> E,
        mut each: impl FnMut(Nanos, &[Option<u64>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let width = self.head.series.len();
        let mut row = vec![None; width];
        for group in self.metadata.row_groups() {
            let columns = (0..=width).map(|i| self.closed(group, i));
            let columns = columns.collect::<Result<Vec<Closed<R>>>>().map_err(&damaged)?;
            let open = move || columns.into_iter().map(Closed::open).collect();
            let mut columns: Vec<Column> = decode(self.caller, open).map_err(&damaged)?;
            let mut left = rows_of(group).map_err(&damaged)?;
            while left > 0 {
                let count = left.min(BATCH);
                let fill = move || {
                    columns.iter_mut().try_for_each(|column| column.fill(count))?;
                    Ok(columns)
                };
                columns = decode(self.caller, fill).map_err(&damaged)?;
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
        group: &RowGroupMetaData,
        index: usize,
        thin: &Thinning,
        mut give: impl FnMut(Option<u64>),
    ) -> Result<()> {
        let (column, thin) = (self.closed(group, index)?, *thin);
        let kept = decode(self.caller, move || {
            let mut column = column.open()?;
            let (mut kept, mut at) = (Vec::new(), 0);
            while at < thin.rows {
                let count = (thin.rows - at).min(BATCH);
                column.fill(count)?;
                kept.extend((0..count).filter(|i| thin.keeps(at + i)).map(|i| column.batch[i]));
                at += count;
            }
            Ok(kept)
        })?;
        kept.into_iter().for_each(&mut give);
        Ok(())
    }

    fn closed(&self, group: &RowGroupMetaData, index: usize) -> Result<Closed<R>> {
        let metadata = group.columns().get(index);
        let metadata =
            metadata.ok_or_else(|| Error::damaged("a row group has fewer columns than the others"))?;
        Ok(Closed {
            file: Arc::clone(&self.file),
            metadata: metadata.clone(),
            rows: rows_of(group)?,
            optional: index > 0,
        })
    }

    fn step(&self, most_rows: usize) -> usize {
        let gaps = most_rows.max(2) - 1;
        self.rows.saturating_sub(1).div_ceil(gaps).max(1)
    }
}

fn rows_of(group: &RowGroupMetaData) -> Result<usize> {
    usize::try_from(group.num_rows()).map_err(Error::damaged)
}

/// Calls the library, which panics on some damaged files where it should give an error.
fn decode<T: Send + 'static>(
    caller: &'static dyn Caller,
    call: impl FnOnce() -> Result<T, ParquetError> + Send + 'static,
) -> Result<T> {
    let answer = Arc::new(Mutex::new(None));
    let to = Arc::clone(&answer);
    let ended = caller.call(Box::new(move || {
        let outcome = call();
        *to.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }));
    let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
    match answer.filter(|_| ended) {
        Some(outcome) => outcome.map_err(Error::damaged),
        None => Err(Error::damaged("its pages are damaged")),
    }
}

/// Which rows of a group are taken.
#[derive(Clone, Copy)]
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

/// A column of a group, before anything is decoded.
struct Closed<R> {
    file: Arc<R>,
    metadata: ColumnChunkMetaData,
    rows: usize,
    optional: bool,
}

impl<R: ChunkReader + 'static> Closed<R> {
    fn open(self) -> Result<Column, ParquetError> {
        let pages = SerializedPageReader::new(self.file, &self.metadata, self.rows, None)?;
        let reader = ColumnReaderImpl::new(self.metadata.column_descr_ptr(), Box::new(pages));
        let (values, present, batch) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Column { reader, optional: self.optional, values, present, batch })
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
    fn fill(&mut self, count: usize) -> Result<(), ParquetError> {
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
