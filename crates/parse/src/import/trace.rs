//! A trace of Flyball's own, as `flyball export RUN --trace TRIAL --format parquet` writes it, and as it lies
//! beside each trial.
//!
//! The form is the crate `trace-file`'s. A trace holds what was sampled, and nothing of its workload, its
//! settings or its machine. Its figures are computed from its rows by whoever imports it.

use super::error::Error;
use super::series::{MAX_COLUMNS, MAX_SAMPLES, Series};
use super::{Imported, Part};
use domain::bench::Sink;
use domain::inert;
use domain::outcome::Outcome;
use domain::time::Nanos;
use std::io::{BufRead, Read};
use trace_file::{Error as FileError, Reader, SERIES_KEY};

/// A bound on such a file, in bytes: Parquet's directory is at its end, so it is read whole. A thousand
/// counters every 10 ms have a tenth of it in an hour.
pub const MAX_BYTES: u64 = 512 << 20;

/// What a trace becomes: all but its rows.
pub(super) fn read(input: &mut dyn BufRead) -> Result<Imported, Error> {
    let mut trace = opened(input)?;
    let (mut first, mut last, mut samples) = (None, Nanos::ZERO, 0);
    each_row(&mut trace, |time, _| {
        first.get_or_insert(time);
        (last, samples) = (time, samples + 1);
        Ok(())
    })?;
    let Some(first) = first else {
        return Err(refused("it has no row", "import another, or record again"));
    };
    let tool =
        trace.written_by().map_or_else(|| "flyball".to_owned(), |version| format!("flyball-{version}"));
    let series = Series::of_trace(trace.head(), samples, last.saturating_sub(first));
    let outcome = Outcome { tool: inert::one_line(&tool).into_owned(), ..Outcome::default() };
    let mut imported = Imported::default();
    imported.notes.push(
        "a trace has samples alone: what its workload reported, its settings and its machine are not in it"
            .to_owned(),
    );
    let started = series.started();
    imported.parts.push(Part { started, series: Some(series), ..Part::new("trace", outcome) });
    Ok(imported)
}

/// Hands on the rows.
pub(super) fn stream(input: &mut dyn BufRead, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut trace = opened(input)?;
    sink.begin(trace.head())?;
    each_row(&mut trace, |time, values| Ok(sink.row(time, values)?))
}

type Trace = Reader<bytes::Bytes>;

fn opened(input: &mut dyn BufRead) -> Result<Trace, Error> {
    let mut bytes = Vec::new();
    input.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        let reason = format!("it is larger than {} MiB", MAX_BYTES >> 20);
        return Err(refused(&reason, "record with a longer --interval"));
    }
    let trace = Reader::of_foreign(bytes).map_err(of_file)?;
    let head = trace.head();
    if head.series.len() > MAX_COLUMNS {
        let reason = format!("it has {} columns, and {MAX_COLUMNS} are read", head.series.len());
        return Err(refused(&reason, "record less"));
    }
    if let Some(name) = trace_file::repeated_name(head) {
        return Err(of_file(FileError::Damaged(format!("it has two columns named `{name}`"))));
    }
    Ok(trace)
}

/// Shows each row, whose time is not before that of the one before.
fn each_row(
    trace: &mut Trace,
    mut each: impl FnMut(Nanos, &[Option<u64>]) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut last, mut count) = (Nanos::ZERO, 0_u64);
    trace.each_row(of_file, |time, values| {
        count += 1;
        if count > MAX_SAMPLES {
            let reason = format!("it has more than {MAX_SAMPLES} rows");
            return Err(refused(&reason, "record with a longer --interval"));
        }
        if time < last || i64::try_from(time.get()).is_err() {
            let reason = format!("row {count} goes back in time");
            return Err(of_file(FileError::Damaged(reason)));
        }
        last = time;
        each(time, values)
    })
}

fn refused(reason: &str, next: &str) -> Error {
    Error::Trace { reason: reason.to_owned(), next: next.to_owned() }
}

const EXPORT: &str = "`flyball export RUN --trace TRIAL --format parquet` writes a trace";

fn of_file(error: FileError) -> Error {
    match error {
        FileError::NoTrace { missing: SERIES_KEY, .. } => {
            refused("it is a table of trials that Flyball exported, which holds no samples", EXPORT)
        }
        FileError::NoTrace { missing, columns, written_by } => {
            let named: Vec<String> =
                columns.iter().map(|name| format!("`{}`", inert::one_line(name))).collect();
            let more = if columns.len() == FileError::MAX_SHOWN { " and perhaps more" } else { "" };
            let by = written_by.map_or(String::new(), |by| format!(" by `{}`", inert::one_line(&by)));
            let reason = format!(
                "it is a Parquet file of another program{by}, with the columns {}{more}; a trace has the \
                 column `{}`, a column of whole numbers a series, and metadata under `{missing}` and `{SERIES_KEY}`",
                named.join(", "),
                trace_file::TIME_COLUMN
            );
            refused(&reason, EXPORT)
        }
        // Its text says which version reads it.
        newer @ FileError::Newer { .. } => refused(&newer.to_string(), "or export it as csv"),
        damaged => refused(
            &inert::one_line(&damaged.to_string()),
            "it was damaged or cut short: copy it again, or export it again with `flyball export RUN --trace \
             TRIAL --format parquet`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{Kind, Pace, read as read_any, recognise, stream as stream_any};
    use domain::Timestamp;
    use domain::bench::SinkError;
    use domain::trace::{FrequencySource, Series as Column, SeriesKind, SeriesUnit, TraceHead};
    use std::io::Cursor;
    use trace_file::Writer;

    #[derive(Default)]
    struct Rows(Option<TraceHead>, Vec<(Nanos, Vec<Option<u64>>)>);

    impl Sink for Rows {
        fn begin(&mut self, head: &TraceHead) -> Result<(), SinkError> {
            self.0 = Some(head.clone());
            Ok(())
        }
        fn row(&mut self, time: Nanos, values: &[Option<u64>]) -> Result<(), SinkError> {
            self.1.push((time, values.to_vec()));
            Ok(())
        }
    }

    fn head() -> TraceHead {
        let column = |name: &str, unit, kind| Column { name: name.to_owned(), unit, kind };
        TraceHead {
            series: vec![
                column(
                    "rapl.package-0.uj",
                    SeriesUnit::Microjoules,
                    SeriesKind::Counter { wraps_at: Some(9) },
                ),
                column("freq.cpu0.khz", SeriesUnit::Kilohertz, SeriesKind::Gauge),
            ],
            interval: Nanos::from_millis(10),
            start: Timestamp::from_unix_nanos(1_800_000_000_000_000_000),
            frequency: FrequencySource::ScalingCurFreq,
        }
    }

    fn file(rows: &[(u64, [Option<u64>; 2])]) -> Vec<u8> {
        let mut writer = Writer::begin(Vec::new(), &head()).unwrap();
        for (ms, values) in rows {
            writer.row(Nanos::from_millis(*ms), values).unwrap();
        }
        writer.close().unwrap()
    }

    fn why(bytes: &[u8]) -> String {
        read_any(Kind::Trace, &mut Cursor::new(bytes), Pace::default()).unwrap_err().to_string()
    }

    #[test]
    fn what_was_written_comes_back_sample_for_sample() {
        let rows = [(3, [Some(1), None]), (13, [Some(u64::MAX), Some(800_000)]), (13, [None, Some(0)])];
        let bytes = file(&rows);
        assert_eq!(recognise(&bytes), Some(Kind::Trace));
        let imported = read_any(Kind::Trace, &mut Cursor::new(&bytes), Pace::default()).unwrap();
        let [part] = imported.parts.as_slice() else { panic!("{imported:?}") };
        let series = part.series.as_ref().unwrap();
        assert_eq!((series.samples, series.span), (3, Nanos::from_millis(10)));
        assert_eq!(part.started, Some(head().start));
        assert_eq!(part.outcome.tool, format!("flyball-{}", env!("CARGO_PKG_VERSION")));
        let mut sink = Rows::default();
        stream_any(Kind::Trace, &mut Cursor::new(&bytes), Pace::default(), series, &mut sink).unwrap();
        assert_eq!(sink.0, Some(head()));
        let wanted: Vec<_> = rows.map(|(ms, values)| (Nanos::from_millis(ms), values.to_vec())).into();
        assert_eq!(sink.1, wanted);
    }

    #[test]
    fn rows_that_go_back_in_time_and_none_at_all_are_refused() {
        let back = why(&file(&[(20, [None, None]), (10, [None, None])]));
        assert!(back.contains("row 2 goes back in time") && back.contains("copy it again"), "{back}");
        assert!(why(&file(&[])).contains("it has no row"));
    }

    #[test]
    fn what_only_begins_as_parquet_is_damaged_and_says_what_to_do() {
        for bytes in [&b"PAR1"[..], b"PAR1PAR1", b"PAR1\xff\xff\xff\xffPAR1", b"PAR1\0\0\0\0\x08\0\0\0PAR1"] {
            let why = why(bytes);
            assert!(
                why.starts_with("cannot read it as a trace of Flyball's") && why.contains("export it again"),
                "{why}"
            );
        }
    }

    #[test]
    fn each_cut_and_each_flipped_byte_gives_rows_or_an_error() {
        let rows: Vec<_> = (0..40).map(|i| (i, [Some(i * i), (i % 3 > 0).then_some(i)])).collect();
        let whole = file(&rows);
        let try_it = |bytes: &[u8]| {
            let pace = Pace::default();
            let imported = read_any(Kind::Trace, &mut Cursor::new(bytes), pace)?;
            let series = imported.parts[0].series.as_ref().unwrap();
            stream_any(Kind::Trace, &mut Cursor::new(bytes), pace, series, &mut Rows::default())
        };
        (0..whole.len()).for_each(|length| assert!(try_it(&whole[..length]).is_err(), "{length}"));
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << bit;
                // Neither panics nor takes memory; what comes of it is of no interest.
                let _ = try_it(&flipped);
            }
        }
    }
}
