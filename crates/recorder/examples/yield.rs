//! Load for `benches/events`: `yield SECONDS [CPU…]` has two threads on each of the CPUs yield to each other,
//! and prints how often: each yield is a switch.

#![allow(clippy::print_stdout, reason = "it is a program")]

use std::time::{Duration, Instant};

/// Yields between two looks at the clock.
const BATCH: u64 = 256;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let span = Duration::from_secs(words.next().ok_or("usage: yield SECONDS [CPU…]")?.parse()?);
    let mut cpus = words.map(|word| word.parse::<usize>()).collect::<Result<Vec<_>, _>>()?;
    if cpus.is_empty() {
        cpus.push(0);
    }
    let end = Instant::now() + span;
    let threads: Vec<_> = cpus
        .iter()
        .flat_map(|cpu| [*cpu; 2])
        .map(|cpu| std::thread::spawn(move || yields(cpu, end)))
        .collect();
    let all: u64 = threads.into_iter().filter_map(|thread| thread.join().ok()).sum();
    println!("yields {all}");
    Ok(())
}

fn yields(cpu: usize, end: Instant) -> u64 {
    // SAFETY: a set of CPUs is plain numbers, for which zeros are valid; the calls take it and its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
    let mut count = 0;
    while Instant::now() < end {
        (0..BATCH).for_each(|_| std::thread::yield_now());
        count += BATCH;
    }
    count
}
