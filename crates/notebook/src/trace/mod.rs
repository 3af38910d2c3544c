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

mod packed;
mod read;
mod write;

pub use read::TraceReader;
pub use write::TraceSink;

use crate::record;
use domain::time::{Nanos, Timestamp};
use domain::trace::{FrequencySource, Series, SeriesKind, SeriesUnit, TraceHead};
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::KeyValue;
use parquet::schema::types::{Type, TypePtr};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The column of the rows' times.
pub const TIME_COLUMN: &str = "t_ns";

const SCHEMA_KEY: &str = "flyball.schema";
const PROGRAM_KEY: &str = "flyball.written_by";
const INTERVAL_KEY: &str = "flyball.interval_ns";
const START_KEY: &str = "flyball.start_unix_ns";
const FREQUENCY_KEY: &str = "flyball.frequency";
const SERIES_KEY: &str = "flyball.series";

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
        entry(SCHEMA_KEY, record::SCHEMA.to_string()),
        entry(PROGRAM_KEY, record::PROGRAM.to_owned()),
        entry(INTERVAL_KEY, head.interval.get().to_string()),
        entry(START_KEY, head.start.unix_nanos().to_string()),
        entry(FREQUENCY_KEY, head.frequency.name().to_owned()),
        entry(SERIES_KEY, series),
    ]
}

/// The head that a file's metadata tells of.
fn head_of(path: &std::path::Path, metadata: Option<&Vec<KeyValue>>) -> crate::Result<TraceHead> {
    let find =
        |key: &str| metadata.into_iter().flatten().find(|e| e.key == key).and_then(|e| e.value.clone());
    let damaged = |reason: String| crate::Error::damaged(path, reason);
    let need = |key: &str| {
        find(key).ok_or_else(|| damaged(format!("its metadata has no `{key}`, so it is no trace")))
    };
    let wrong = |key: &str, text: &str| damaged(format!("the `{key}` of its metadata is `{text}`"));

    let schema = need(SCHEMA_KEY)?;
    let schema = schema.parse().map_err(|_| wrong(SCHEMA_KEY, &schema))?;
    record::check_schema(path, schema, find(PROGRAM_KEY))?;
    let interval = need(INTERVAL_KEY)?;
    let start = need(START_KEY)?;
    let frequency = need(FREQUENCY_KEY)?;
    let series: Vec<SeriesRecord> =
        serde_json::from_str(&need(SERIES_KEY)?).map_err(|e| damaged(format!("its `{SERIES_KEY}`: {e}")))?;
    let series = series.into_iter().map(Series::try_from).collect::<Result<_, String>>().map_err(damaged)?;
    Ok(TraceHead {
        series,
        interval: interval.parse().map(Nanos::new).map_err(|_| wrong(INTERVAL_KEY, &interval))?,
        start: start.parse().map(Timestamp::from_unix_nanos).map_err(|_| wrong(START_KEY, &start))?,
        frequency: FrequencySource::from_name(&frequency).ok_or_else(|| wrong(FREQUENCY_KEY, &frequency))?,
    })
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
mod tests {
    use super::*;
    use domain::Sink;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    fn head(columns: usize) -> TraceHead {
        let series = |i: usize| Series {
            name: format!("cpu{i}.user"),
            unit: SeriesUnit::Ticks,
            kind: if i.is_multiple_of(2) {
                SeriesKind::Counter { wraps_at: Some(u64::MAX) }
            } else {
                SeriesKind::Gauge
            },
        };
        TraceHead {
            series: (0..columns).map(series).collect(),
            interval: Nanos::from_millis(10),
            start: Timestamp::from_unix_nanos(-5),
            frequency: FrequencySource::TimeInState,
        }
    }

    fn write(folder: &std::path::Path, head: &TraceHead, rows: &[Vec<Option<u64>>]) -> TraceReader {
        let path = folder.join("trace.parquet");
        let mut sink = TraceSink::new(path.clone());
        sink.begin(head).unwrap();
        for (i, row) in rows.iter().enumerate() {
            sink.row(Nanos::from_millis(10 * i as u64), row).unwrap();
        }
        sink.close().unwrap();
        TraceReader::open_if_there(&path).unwrap().unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_trace_is_read_back_as_it_was(
            rows in (0_usize..5).prop_flat_map(|n| vec(vec(option::of(any::<u64>()), n), 0..40)),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let head = head(rows.first().map_or(2, Vec::len));
            let mut reader = write(folder.path(), &head, &rows);
            let trace = reader.read(usize::MAX, |_| true).unwrap();
            prop_assert_eq!(&trace.head, &head);
            prop_assert_eq!(trace.times.len(), rows.len());
            for (c, column) in trace.columns.iter().enumerate() {
                prop_assert_eq!(column, &rows.iter().map(|row| row[c]).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_trace_without_rows_is_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        let mut reader = write(folder.path(), &head(3), &[]);
        assert_eq!(reader.rows(), 0);
        assert_eq!(reader.read(10, |_| true).unwrap().columns, vec![Vec::new(); 3]);
    }

    #[test]
    fn a_sink_that_was_never_begun_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.parquet");
        TraceSink::new(path.clone()).close().unwrap();
        assert!(TraceReader::open_if_there(&path).unwrap().is_none());
    }

    #[test]
    fn thinning_keeps_the_first_and_the_last_row_and_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let rows: Vec<_> = (0..1000).map(|i| vec![Some(i), (i % 7 != 0).then_some(i)]).collect();
        let mut reader = write(folder.path(), &head(2), &rows);
        for most in [2, 3, 10, 99, 100, 500, 501, 999, 1000, 5000] {
            let trace = reader.read(most, |_| true).unwrap();
            assert!(trace.times.len() <= most && trace.times.len() * 2 >= most.min(1000), "{most}");
            assert_eq!(trace.times.first(), Some(&Nanos::ZERO));
            assert_eq!(trace.times.last(), Some(&Nanos::from_millis(9990)));
            for (time, (a, b)) in trace.times.iter().zip(trace.columns[0].iter().zip(&trace.columns[1])) {
                let i = time.get() / 10_000_000;
                assert_eq!((*a, *b), (Some(i), (i % 7 != 0).then_some(i)));
            }
        }
    }

    #[test]
    fn only_the_wanted_columns_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut reader = write(folder.path(), &head(3), &[vec![Some(1), Some(2), None]]);
        let trace = reader.read(10, |series| series.name != "cpu1.user").unwrap();
        assert_eq!(trace.head.series.len(), 2);
        assert_eq!(trace.columns, [vec![Some(1)], vec![None]]);
    }

    #[test]
    fn rows_are_read_back_over_several_row_groups() {
        let folder = tempfile::tempdir().unwrap();
        // Values that do not pack, so that a row group fills up soon.
        let value = |i: u64, c: u64| (i * 64 + c).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let rows: Vec<_> = (0..30_000).map(|i| (0..64).map(|c| Some(value(i, c))).collect()).collect();
        let mut reader = write(folder.path(), &head(64), &rows);
        assert!(reader.row_groups() > 1, "this tests nothing with one row group");
        let mut at = 0;
        reader
            .each_row(|time, values| {
                assert_eq!((time, values), (Nanos::from_millis(10 * at as u64), rows[at].as_slice()));
                at += 1;
                crate::Result::Ok(())
            })
            .unwrap();
        assert_eq!(at, rows.len());
        let thin = reader.read(100, |_| true).unwrap();
        assert_eq!(thin.columns[5][7], rows[(thin.times[7].get() / 10_000_000) as usize][5]);
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

    #[test]
    fn a_damaged_trace_is_an_error_and_never_a_panic() {
        let folder = tempfile::tempdir().unwrap();
        let rows: Vec<_> = (0..300).map(|i| vec![Some(i * i), None, Some(7)]).collect();
        write(folder.path(), &head(3), &rows);
        let path = folder.path().join("trace.parquet");
        let whole = std::fs::read(&path).unwrap();
        let read = |bytes: &[u8]| -> crate::Result<()> {
            std::fs::write(&path, bytes).unwrap();
            if let Some(mut reader) = TraceReader::open_if_there(&path)? {
                reader.read(usize::MAX, |_| true)?;
                reader.each_row(|_, _| crate::Result::Ok(()))?;
            }
            Ok(())
        };
        read(&whole).unwrap();
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "cut to {length} bytes it was read");
        }
        let mut refused = 0;
        for i in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[i] ^= 0x55;
            refused += usize::from(read(&flipped).is_err());
        }
        assert!(refused > whole.len() / 4, "only {refused} of {} flips were noticed", whole.len());
    }
}
