//! How many I/Os a second the disk models simulate on one core: `benches/disk-model/README.md`.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use disks::DiskSpec;
use disks::closed_loop::{AccessOrder, Pattern, predict};
use domain::rng::Seed;
use domain::time::Nanos;
use domain::units::{Bytes, Ratio};
use std::error::Error;
use std::time::{Duration, Instant};

const DISKS: [&str; 3] = ["plain-7200", "samsung-850-evo", "nvme"];

/// The best of this many runs: what others do on the machine only makes a run slower.
const RUNS: u32 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:<18} {:<22} {:>12} {:>14}", "disk", "load, depth 32", "I/Os", "I/Os a second");
    for name in DISKS {
        let disk = DiskSpec::shipped(name).ok_or("not shipped")?;
        for (load, order, reads, block_kib) in [
            ("random read 4 KiB", AccessOrder::Random, 1.0, 4),
            ("random write 4 KiB", AccessOrder::Random, 0.0, 4),
            ("sequential read 64 KiB", AccessOrder::Sequential, 1.0, 64),
        ] {
            let (requests, took) = measure(&disk, order, reads, block_kib)?;
            println!("{name:<18} {load:<22} {requests:>12} {:>14.0}", requests as f64 / took.as_secs_f64());
        }
    }
    Ok(())
}

fn measure(
    disk: &DiskSpec,
    order: AccessOrder,
    reads: f64,
    block_kib: u64,
) -> Result<(u64, Duration), Box<dyn Error>> {
    // A second of virtual time tells how many seconds make about a million requests.
    let second = pattern(disk, order, reads, block_kib, Nanos::from_secs(1));
    let rate = predict(disk, None, &second, Seed(1))?.requests.max(1);
    let duration = Nanos::from_secs(1_000_000 / rate + 1);
    let mut best = (0, Duration::MAX);
    for _ in 0..RUNS {
        let started = Instant::now();
        let seen = predict(disk, None, &pattern(disk, order, reads, block_kib, duration), Seed(1))?;
        best = if started.elapsed() < best.1 { (seen.requests, started.elapsed()) } else { best };
    }
    Ok(best)
}

fn pattern(disk: &DiskSpec, order: AccessOrder, reads: f64, block_kib: u64, duration: Nanos) -> Pattern {
    Pattern {
        order,
        reads: Ratio::new(reads).unwrap_or_else(|| unreachable!("the shares above are shares")),
        block: Bytes::from_kib(block_kib),
        depth: 32,
        offset: Bytes::new(0),
        range: disk.capacity,
        warm_up: Nanos::ZERO,
        duration,
    }
}
