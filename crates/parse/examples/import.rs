//! Reads a file as `flyball import` does, and prints how fast: `import [--rows] FILE`. With `--rows` it is
//! read twice, and the samples go row by row to a sink that counts them. For `benches/import`.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs, reason = "a tool for measuring")]

use domain::bench::{Sink, SinkError};
use domain::time::Nanos;
use domain::trace::TraceHead;
use parse::import::{Pace, read, recognise, stream};
use std::fs::File;
use std::io::{BufReader, Read};
use std::time::Instant;

struct Counted(u64);

impl Sink for Counted {
    fn begin(&mut self, _: &TraceHead) -> Result<(), SinkError> {
        Ok(())
    }
    fn row(&mut self, _: Nanos, _: &[Option<u64>]) -> Result<(), SinkError> {
        self.0 += 1;
        Ok(())
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rows = arguments.iter().any(|a| a == "--rows");
    let file = arguments.iter().find(|a| !a.starts_with("--")).expect("name a file");
    let mut head = Vec::new();
    File::open(file).unwrap().take(64 << 10).read_to_end(&mut head).unwrap();
    let kind = recognise(&head).unwrap();
    let open = || BufReader::with_capacity(64 << 10, File::open(file).unwrap());
    let size = std::fs::metadata(file).unwrap().len() as f64 / 1e6;
    let begun = Instant::now();
    let imported = read(kind, &mut open(), Pace::default()).unwrap();
    let first = begun.elapsed().as_secs_f64();
    let metrics: usize = imported.parts.iter().map(|part| part.outcome.metrics.len()).sum();
    println!(
        "read {size:.1} MB in {first:.3} s: {:.0} MB/s; {} parts, {metrics} metrics",
        size / first,
        imported.parts.len()
    );
    for series in imported.parts.iter().filter_map(|part| part.series.as_ref()).filter(|_| rows) {
        let begun = Instant::now();
        let mut counted = Counted(0);
        stream(kind, &mut open(), Pace::default(), series, &mut counted).unwrap();
        let second = begun.elapsed().as_secs_f64();
        println!("rows {} in {second:.3} s: {:.0} MB/s", counted.0, size / second);
    }
}
