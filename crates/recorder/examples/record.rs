//! Records this machine, or a command, and prints what it cost: the driver of `benches/recorder` and
//! `benches/events`.
//!
//! `record [--system] [--trace] [--events=SETS] INTERVAL DURATION SPOOL [COMMAND…]`; `--system` leaves
//! processes out, `--trace` prints the trace as CSV, `--events` records events into `SPOOL.events`,
//! `in-passing` as every recording does.

#![allow(clippy::print_stdout, reason = "it is a program")]

use domain::bench::SinkError;
use domain::trace::TraceHead;
use domain::{Nanos, Sink};
use recorder::{Events, Recorder, RecorderConfig, ThreadScope};
use std::error::Error;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    let (options, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let [interval, duration, spool, command @ ..] = &words[..] else {
        return Err(
            "usage: record [--system] [--trace] [--events=SETS] INTERVAL DURATION SPOOL [COMMAND…]".into()
        );
    };
    let span = |text: &str| Nanos::parse(text).ok_or(format!("`{text}` is no span of time, such as 10ms"));
    let mut config = RecorderConfig::new(span(interval)?, spool.into());
    if options.iter().any(|option| option == "--system") {
        config.threads = ThreadScope::None;
    }
    if let Some(sets) = options.iter().find_map(|option| option.strip_prefix("--events=")) {
        let file = format!("{spool}.events").into();
        config.events = Some(match sets {
            "in-passing" => Events::in_passing(file),
            _ => Events::of(sets.parse()?, file),
        });
    }
    let recorder = Recorder::start(config)?;
    match command.split_first() {
        Some((program, arguments)) => {
            let mut child = Command::new(program).args(arguments).spawn()?;
            recorder.follow(child.id());
            child.wait()?;
        }
        None => std::thread::sleep(span(duration)?.into()),
    }
    let recording = recorder.stop()?;
    if options.iter().any(|option| option == "--trace") {
        recording.decode(&mut Csv)?;
        return Ok(());
    }
    let report = recording.report();
    println!("samples {} missed {} cpu_ns {}", report.samples, report.missed, report.cpu.get());
    println!("spool_bytes {}", std::fs::metadata(spool)?.len());
    println!("{report:#?}");
    println!("roles {:#?}", recording.roles());
    for thread in recording.threads() {
        println!("{:>10} {:<8} {} {}", thread.cpu.to_string(), thread.role, thread.tid, thread.name);
    }
    for disk in recording.disks() {
        println!("{disk:?}");
    }
    Ok(())
}

struct Csv;

impl Sink for Csv {
    fn begin(&mut self, head: &TraceHead) -> Result<(), SinkError> {
        let names: Vec<_> = head.series.iter().map(|series| series.name.as_str()).collect();
        println!("time_ns,{}", names.join(","));
        Ok(())
    }

    fn row(&mut self, time: Nanos, values: &[Option<u64>]) -> Result<(), SinkError> {
        let values: Vec<_> = values.iter().map(|v| v.map_or(String::new(), |v| v.to_string())).collect();
        println!("{},{}", time.get(), values.join(","));
        Ok(())
    }
}
