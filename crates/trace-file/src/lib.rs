//! A trace as a Parquet file, open to DuckDB, pandas, Polars and Spark.
//!
//! One column `t_ns` (INT64: nanoseconds on a monotonic clock from the trace's start), then one nullable
//! column a series, named as in [`domain::trace`], of Parquet's UINT_64: a counter is stored as the kernel
//! gave it. What the columns mean stands in the file's key-value metadata:
//!
//! | key | value |
//! |---|---|
//! | `flyball.schema` | `1` |
//! | `flyball.written_by` | the program's version |
//! | `flyball.interval_ns` | the interval that was asked for |
//! | `flyball.start_unix_ns` | when time zero was |
//! | `flyball.frequency` | where frequencies came from |
//! | `flyball.series` | JSON: `[{"name", "unit", "kind": "counter" or "gauge", "wraps_at"}]`, in the order of the columns |
//!
//! Values are delta-packed, which alone brings a counter to a fifth of a byte a sample; Snappy takes a tenth
//! off that. zstd was no smaller after the packing, and needs a C compiler. The low-level interface of the
//! `parquet` crate is used, without arrow, which would make the build longer.
//!
//! A file that a stranger hands over is looked at page by page before the library decodes any
//! ([`Reader::of_foreign`]).
//!
//! Not here: files and folders. Whoever stores a trace (`notebook`) or is handed one (`parse`) opens it.

mod error;
mod packed;
mod pages;
mod read;
mod write;

pub use error::{Error, Result, needed};
pub use parquet::file::reader::ChunkReader;
pub use read::{Caller, InPlace, Reader};
pub use write::{Writer, repeated_name};

use domain::time::{Nanos, Timestamp};
use domain::trace::{FrequencySource, Series, SeriesKind, SeriesUnit, TraceHead};
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{FileMetaData, KeyValue};
use parquet::schema::types::{Type, TypePtr};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The column of the rows' times.
pub const TIME_COLUMN: &str = "t_ns";

/// The version of this form, as [`SCHEMA_KEY`] states it.
pub const SCHEMA: u64 = 1;

/// The version of this program.
pub const PROGRAM: &str = env!("CARGO_PKG_VERSION");

const SCHEMA_KEY: &str = "flyball.schema";
const PROGRAM_KEY: &str = "flyball.written_by";
const INTERVAL_KEY: &str = "flyball.interval_ns";
const START_KEY: &str = "flyball.start_unix_ns";
const FREQUENCY_KEY: &str = "flyball.frequency";

/// The key of the metadata that tells what the columns mean. Flyball's other Parquet files lack it.
pub const SERIES_KEY: &str = "flyball.series";

/// One series in the metadata.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeriesRecord {
    name: String,
    unit: String,
    kind: KindRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wraps_at: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KindRecord {
    Counter,
    Gauge,
}

/// The file's columns.
fn schema_of(head: &TraceHead) -> ParquetResult<TypePtr> {
    let time = Type::primitive_type_builder(TIME_COLUMN, PhysicalType::INT64)
        .with_repetition(Repetition::REQUIRED)
        .build()?;
    let mut fields = vec![Arc::new(time)];
    for series in &head.series {
        let column = Type::primitive_type_builder(&series.name, PhysicalType::INT64)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(Some(LogicalType::integer(64, false)))
            .build()?;
        fields.push(Arc::new(column));
    }
    Ok(Arc::new(Type::group_type_builder("trace").with_fields(fields).build()?))
}

/// The file's metadata.
fn metadata_of(head: &TraceHead) -> Vec<KeyValue> {
    let series: Vec<SeriesRecord> = head.series.iter().map(SeriesRecord::from).collect();
    let series = serde_json::to_string(&series).expect("names, units and numbers are JSON");
    let entry = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
    vec![
        entry(SCHEMA_KEY, SCHEMA.to_string()),
        entry(PROGRAM_KEY, PROGRAM.to_owned()),
        entry(INTERVAL_KEY, head.interval.get().to_string()),
        entry(START_KEY, head.start.unix_nanos().to_string()),
        entry(FREQUENCY_KEY, head.frequency.name().to_owned()),
        entry(SERIES_KEY, series),
    ]
}

/// The head that a file's metadata tells of.
fn head_of(metadata: &FileMetaData) -> Result<TraceHead> {
    let need = |key: &'static str| value_of(metadata, key).ok_or_else(|| no_trace(metadata, key));
    let wrong = |key: &str, text: &str| Error::Damaged(format!("the `{key}` of its metadata is `{text}`"));

    let schema = need(SCHEMA_KEY)?;
    match schema.parse().map_err(|_| wrong(SCHEMA_KEY, &schema))? {
        SCHEMA => {}
        0 => return Err(Error::damaged("its schema is 0, which was never written")),
        found => return Err(Error::Newer { found, written_by: value_of(metadata, PROGRAM_KEY) }),
    }
    let series = need(SERIES_KEY)?;
    let interval = need(INTERVAL_KEY)?;
    let start = need(START_KEY)?;
    let frequency = need(FREQUENCY_KEY)?;
    let series: Vec<SeriesRecord> =
        serde_json::from_str(&series).map_err(|e| Error::Damaged(format!("its `{SERIES_KEY}`: {e}")))?;
    let series = series.into_iter().map(Series::try_from).collect::<Result<_, String>>();
    Ok(TraceHead {
        series: series.map_err(Error::Damaged)?,
        interval: interval.parse().map(Nanos::new).map_err(|_| wrong(INTERVAL_KEY, &interval))?,
        start: start.parse().map(Timestamp::from_unix_nanos).map_err(|_| wrong(START_KEY, &start))?,
        frequency: FrequencySource::from_name(&frequency).ok_or_else(|| wrong(FREQUENCY_KEY, &frequency))?,
    })
}

fn value_of(metadata: &FileMetaData, key: &str) -> Option<String> {
    metadata.key_value_metadata()?.iter().find(|entry| entry.key == key)?.value.clone()
}

/// A file that does not say that it is a trace: what it is instead.
fn no_trace(metadata: &FileMetaData, missing: &'static str) -> Error {
    let columns = metadata.schema().get_fields().iter().map(|field| field.name().to_owned());
    Error::NoTrace {
        missing,
        columns: columns.take(Error::MAX_SHOWN).collect(),
        written_by: metadata.created_by().map(str::to_owned),
    }
}

impl From<&Series> for SeriesRecord {
    fn from(series: &Series) -> Self {
        let (kind, wraps_at) = match series.kind {
            SeriesKind::Counter { wraps_at } => (KindRecord::Counter, wraps_at),
            SeriesKind::Gauge => (KindRecord::Gauge, None),
        };
        Self { name: series.name.clone(), unit: series.unit.name().to_owned(), kind, wraps_at }
    }
}

impl TryFrom<SeriesRecord> for Series {
    type Error = String;
    fn try_from(record: SeriesRecord) -> Result<Self, String> {
        let unit =
            SeriesUnit::from_name(&record.unit).ok_or_else(|| format!("`{}` is no unit", record.unit))?;
        let kind = match record.kind {
            KindRecord::Counter => SeriesKind::Counter { wraps_at: record.wraps_at },
            KindRecord::Gauge => SeriesKind::Gauge,
        };
        Ok(Self { name: record.name, unit, kind })
    }
}

#[cfg(test)]
mod tests;
