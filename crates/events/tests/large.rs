//! A large machine: what is known of it takes memory that its number of CPUs and threads bounds, and not the
//! length of its recording.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod made;

use domain::Nanos;
use domain::trace::Role;
use events::Owner;
use made::File;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what is held, and the most that ever was.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is done by the system's allocator; what it is asked for is counted besides.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller keeps what this function demands.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps what this function demands.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CPUS: u16 = 64;
const THREADS: u64 = 10_000;
/// Processes that begin and end while it is recorded: a minute of 30,000.
const SHORT: u64 = 30_000;
const US: u64 = 1_000;

/// Each CPU runs its threads in turn, a microsecond each, `rounds` times; then come short processes.
fn recorded(rounds: u64) -> File {
    let mut file = File::of_cpus(CPUS.into());
    for thread in 1..=THREADS {
        file.task(thread as u32, Owner::Other, "worker");
    }
    let each = THREADS / u64::from(CPUS);
    let mut time = 0;
    for _ in 0..rounds {
        for turn in 0..each {
            for cpu in 0..CPUS {
                let first = u64::from(cpu) * each + 1;
                let (from, to) = (first + turn, first + (turn + 1) % each);
                file.switch(cpu, time + u64::from(cpu), from, 0, to);
            }
            time += US;
            file.round(time);
        }
    }
    for short in 0..SHORT {
        let pid = THREADS + 1 + short;
        let cpu = (short % u64::from(CPUS)) as u16;
        let first = u64::from(cpu) * each + 1;
        file.switch(cpu, time + u64::from(cpu), first, 0, pid);
        // `EXIT_DEAD`: it never runs again.
        file.switch(cpu, time + u64::from(cpu) + US / 2, pid, 0x10, first);
        time += US;
        if short.is_multiple_of(64) {
            file.round(time);
        }
    }
    file.end(time + US);
    file
}

/// The facts of a recording, and the most that was held for them.
fn facts_and_memory(file: &File) -> (events::Facts, usize) {
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let facts = file.facts();
    (facts, MOST.load(Ordering::Relaxed) - before)
}

#[test]
fn a_large_machine_takes_memory_by_its_threads_and_not_by_its_time() {
    let (short, long) = (recorded(1), recorded(20));
    let (_, little) = facts_and_memory(&short);
    let (facts, much) = facts_and_memory(&long);
    assert_eq!(facts.cpus.len(), usize::from(CPUS));
    let span = facts.span.get();
    for (number, cpu) in &facts.cpus {
        let known = cpu.busy_ns + cpu.idle_ns + cpu.unknown_ns;
        assert_eq!(known, span, "the time of CPU {number} is all accounted");
    }
    // All that live are named, and of those that ended the busiest.
    let living = facts.threads.iter().filter(|thread| u64::from(thread.tid) <= THREADS).count();
    assert!(living as u64 >= THREADS - u64::from(CPUS), "{living} of {THREADS} threads");
    assert!(facts.threads.len() < living + 1_100, "{} threads", facts.threads.len());
    let busy: u64 = facts.cpus.values().map(|cpu| cpu.busy_ns).sum();
    assert!(facts.roles[&Role::Other].cpu_ns.abs_diff(busy) <= busy / 100, "{:?}", Nanos::new(busy));
    // A few hundred bytes a thread, those included that have ended.
    assert!(much < 24 << 20, "{much} bytes for {THREADS} threads");
    assert!(much < little + (1 << 20), "twenty times as long: {much} bytes, not {little}");
}
