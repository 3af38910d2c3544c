//! What is written is read back, and damage is an error.

use super::*;
use bytes::Bytes;
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

fn bytes_of(head: &TraceHead, rows: &[Vec<Option<u64>>]) -> Vec<u8> {
    let mut writer = Writer::begin(Vec::new(), head).unwrap();
    for (i, row) in rows.iter().enumerate() {
        writer.row(Nanos::from_millis(10 * i as u64), row).unwrap();
    }
    writer.close().unwrap()
}

fn write(head: &TraceHead, rows: &[Vec<Option<u64>>]) -> Reader<Bytes> {
    Reader::of_foreign(bytes_of(head, rows)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_trace_is_read_back_as_it_was(
        rows in (0_usize..5).prop_flat_map(|n| vec(vec(option::of(any::<u64>()), n), 0..40)),
    ) {
            let head = head(rows.first().map_or(2, Vec::len));
        let mut reader = write(&head, &rows);
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
    let mut reader = write(&head(3), &[]);
    assert_eq!(reader.rows(), 0);
    assert_eq!(reader.read(10, |_| true).unwrap().columns, vec![Vec::new(); 3]);
}

#[test]
fn thinning_keeps_the_first_and_the_last_row_and_the_bound() {
    let rows: Vec<_> = (0..1000).map(|i| vec![Some(i), (i % 7 != 0).then_some(i)]).collect();
    let mut reader = write(&head(2), &rows);
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
    let mut reader = write(&head(3), &[vec![Some(1), Some(2), None]]);
    let trace = reader.read(10, |series| series.name != "cpu1.user").unwrap();
    assert_eq!(trace.head.series.len(), 2);
    assert_eq!(trace.columns, [vec![Some(1)], vec![None]]);
}

#[test]
fn rows_are_read_back_over_several_row_groups() {
    // Values that do not pack, so that a row group fills up soon.
    let value = |i: u64, c: u64| (i * 64 + c).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let rows: Vec<_> = (0..30_000).map(|i| (0..64).map(|c| Some(value(i, c))).collect()).collect();
    let mut reader = write(&head(64), &rows);
    assert!(reader.row_groups() > 1, "this tests nothing with one row group");
    let mut at = 0;
    reader
        .each_row(
            |error| panic!("{error}"),
            |time, values| {
                assert_eq!((time, values), (Nanos::from_millis(10 * at as u64), rows[at].as_slice()));
                at += 1;
                Ok::<_, ()>(())
            },
        )
        .unwrap();
    assert_eq!(at, rows.len());
    let thin = reader.read(100, |_| true).unwrap();
    assert_eq!(thin.columns[5][7], rows[(thin.times[7].get() / 10_000_000) as usize][5]);
}

/// All of a file, by the reader that trusts its pages or the one that does not.
fn whole(bytes: Vec<u8>, is_foreign: bool) -> Result<()> {
    let mut reader = if is_foreign { Reader::of_foreign(bytes)? } else { Reader::of(Bytes::from(bytes))? };
    reader.read(usize::MAX, |_| true)?;
    reader.each_row(|error| error, |_, _| Ok(()))
}

#[test]
fn a_damaged_trace_is_an_error_and_never_a_panic() {
    let rows: Vec<_> = (0..300).map(|i| vec![Some(i * i), None, Some(7)]).collect();
    let bytes = bytes_of(&head(3), &rows);
    for is_foreign in [false, true] {
        whole(bytes.clone(), is_foreign).unwrap();
        for length in 0..bytes.len() {
            let cut = bytes[..length].to_vec();
            assert!(whole(cut, is_foreign).is_err(), "cut to {length} bytes it was read");
        }
        let mut refused = 0;
        for i in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[i] ^= 0x55;
            refused += usize::from(whole(flipped, is_foreign).is_err());
        }
        assert!(refused > bytes.len() / 4, "only {refused} of {} flips were noticed", bytes.len());
    }
}

#[test]
fn a_row_of_another_length_and_two_columns_of_one_name_are_not_written() {
    let mut writer = Writer::begin(Vec::new(), &head(2)).unwrap();
    let error = writer.row(Nanos::ZERO, &[Some(1)]).unwrap_err();
    assert_eq!(error.to_string(), "a row of 1 values came for 2 columns");
    let mut twice = head(2);
    twice.series[1] = twice.series[0].clone();
    let error = Writer::begin(Vec::new(), &twice).unwrap_err();
    assert_eq!(error.to_string(), "it has two columns named `cpu0.user`");
}

/// A Parquet file with the metadata of a trace of one column and 4096 rows of zeros a page, whose directory
/// says what it likes.
fn forged(columns: &[&str], physical: PhysicalType, entries: &[(&str, &str)]) -> Vec<u8> {
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    let field = |name: &&str| {
        let builder = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
        Arc::new(builder.build().unwrap())
    };
    let fields = columns.iter().map(field).collect();
    let schema = Arc::new(Type::group_type_builder("t").with_fields(fields).build().unwrap());
    let entries = entries.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), (*value).to_owned()));
    let properties = WriterProperties::builder().set_key_value_metadata(Some(entries.collect())).build();
    SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap().into_inner().unwrap()
}

const ENTRIES: [(&str, &str); 5] = [
    (SCHEMA_KEY, "1"),
    (INTERVAL_KEY, "10"),
    (START_KEY, "0"),
    (FREQUENCY_KEY, "none"),
    (SERIES_KEY, r#"[{"name":"a","unit":"count","kind":"gauge"}]"#),
];

#[test]
fn a_parquet_file_of_others_is_no_trace_and_says_what_it_has() {
    let error = Reader::of_foreign(forged(&["x", "y"], PhysicalType::DOUBLE, &[])).unwrap_err();
    let Error::NoTrace { missing, columns, written_by } = error else { panic!("{error}") };
    assert_eq!((missing, columns), (SCHEMA_KEY, vec!["x".to_owned(), "y".to_owned()]));
    assert!(written_by.is_some_and(|program| program.contains("parquet")));
    let table = Reader::of_foreign(forged(&["run"], PhysicalType::DOUBLE, &ENTRIES[..1])).unwrap_err();
    assert!(matches!(table, Error::NoTrace { missing: SERIES_KEY, .. }), "{table}");
}

#[test]
fn columns_that_are_missing_or_of_another_type_are_refused() {
    for (columns, physical) in [
        (&["t_ns", "b"][..], PhysicalType::INT64),
        (&["t_ns"], PhysicalType::INT64),
        (&["t_ns", "a", "b"], PhysicalType::INT64),
        (&["a", "t_ns"], PhysicalType::INT64),
        (&["t_ns", "a"], PhysicalType::DOUBLE),
        // The time of a row may not be absent.
        (&["t_ns", "a"], PhysicalType::INT64),
    ] {
        let error = Reader::of_foreign(forged(columns, physical, &ENTRIES)).unwrap_err();
        let wanted = "its columns are not those that its metadata tells of";
        assert_eq!(error, Error::Damaged(wanted.to_owned()), "{columns:?} {physical:?}");
    }
}

#[test]
fn a_newer_trace_names_the_version_that_reads_it() {
    let entries = [(SCHEMA_KEY, "7"), (PROGRAM_KEY, "3.1.4")];
    let error = Reader::of_foreign(forged(&["t_ns"], PhysicalType::INT64, &entries)).unwrap_err();
    assert!(error.to_string().ends_with("use flyball 3.1.4 or newer"), "{error}");
}

#[test]
fn more_rows_than_there_are_pages_and_columns_on_each_other_are_refused() {
    use parquet::file::metadata::{ParquetMetaDataReader, ParquetMetaDataWriter};
    let rows: Vec<_> = (0..5000).map(|_| vec![Some(0), Some(0)]).collect();
    let bytes = bytes_of(&head(2), &rows);
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&Bytes::from(bytes.clone())).unwrap();
    let length = u32::from_le_bytes(bytes[bytes.len() - 8..][..4].try_into().unwrap()) as usize;
    let pages = &bytes[..bytes.len() - 8 - length];
    let with = |rows_said: i64, is_on_each_other: bool| {
        let mut builder = metadata.clone().into_builder();
        let group = builder.take_row_groups().remove(0);
        let mut columns = group.columns().to_vec();
        if is_on_each_other {
            columns[2] = columns[2]
                .clone()
                .into_builder()
                .set_data_page_offset(columns[1].data_page_offset())
                .set_total_compressed_size(columns[1].compressed_size())
                .build()
                .unwrap();
        }
        let group =
            group.into_builder().set_num_rows(rows_said).set_column_metadata(columns).build().unwrap();
        let forged = builder.add_row_group(group).build();
        let mut out = pages.to_vec();
        let mut tail = Vec::new();
        ParquetMetaDataWriter::new(&mut tail, &forged).finish().unwrap();
        out.extend_from_slice(&tail);
        out
    };
    whole(with(5000, false), true).unwrap();
    let why = |bytes| whole(bytes, true).unwrap_err().to_string();
    assert_eq!(why(with(1 << 40, false)), "column 0 of row group 0 has 5000 values, not 1099511627776");
    assert_eq!(why(with(-1, false)), "it claims -1 rows");
    assert_eq!(why(with(5000, true)), "column 2 of row group 0 is not where it is said to be");
}
