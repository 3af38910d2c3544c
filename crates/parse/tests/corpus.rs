//! What the fuzzer kept (`cargo xtask fuzz`) is read without a panic, and what is read once is read again.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use domain::bench::{Sink, SinkError};
use domain::time::Nanos;
use domain::trace::TraceHead;
use parse::import::{Kind, Pace, read, recognise, stream};
use std::collections::BTreeSet;
use std::io::Cursor;

struct Checked;

impl Sink for Checked {
    fn begin(&mut self, head: &TraceHead) -> Result<(), SinkError> {
        let names: BTreeSet<&str> = head.series.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names.len(), head.series.len(), "two columns have one name");
        Ok(())
    }
    fn row(&mut self, _: Nanos, _: &[Option<u64>]) -> Result<(), SinkError> {
        Ok(())
    }
}

#[test]
fn what_the_fuzzer_kept_makes_no_reader_panic() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");
    let mut count = 0;
    for parser in std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap()) {
        let kind = Kind::from_name(&parser.file_name().into_string().unwrap());
        for file in std::fs::read_dir(parser.path()).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            for kind in [kind, recognise(&bytes)].into_iter().flatten() {
                let Ok(imported) = read(kind, &mut Cursor::new(&bytes), Pace::default()) else { continue };
                for series in imported.parts.iter().filter_map(|part| part.series.as_ref()) {
                    stream(kind, &mut Cursor::new(&bytes), Pace::default(), series, &mut Checked).unwrap();
                }
            }
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
    testing::promise(
        "kept-inputs",
        count,
        "damaged files, each to the reader of its kind and to the one that takes it for its own",
    );
}
