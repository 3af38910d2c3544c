//! Files of `trace-cmd record`, converted.

#![allow(clippy::unwrap_used, reason = "it is a test")]

mod damage;

use damage::damage;
use domain::trace::Role;
use events::foreign::{Converted, Error};
use events::trace_dat::convert;
use events::{Event, Facts, Op, Tables, What, decode};
use proptest::prelude::*;
use std::io::Cursor;

/// What trace-cmd 3.1.6 wrote of dd, which read sixteen times 64 KiB of a loop device
/// (fixtures/tools/PROVENANCE.md): version 6 of the form with the clock `local`, version 7 with `mono`, and
/// version 7 as it is written by default, compressed.
const V6: &[u8] = include_bytes!("../../../fixtures/tools/trace-cmd/record-v6-3.1.6.dat");
const V7: &[u8] = include_bytes!("../../../fixtures/tools/trace-cmd/record-v7-mono-3.1.6.dat");
const ZSTD: &[u8] = include_bytes!("../../../fixtures/tools/trace-cmd/record-v7-zstd-3.1.6.dat");

/// The loop device of both.
const LOOP: &str = "7:0";

fn converted(bytes: &[u8]) -> Result<(Converted, Vec<u8>), Error> {
    let mut output = Vec::new();
    convert(bytes, &mut output).map(|converted| (converted, output))
}

fn facts_of(bytes: &[u8]) -> Facts {
    let (_, output) = converted(bytes).unwrap();
    Facts::read(|| Ok(Cursor::new(&output))).unwrap()
}

fn events_of(file: &[u8]) -> Vec<Event> {
    let tables = Tables::read(Cursor::new(file)).unwrap();
    let mut events = Vec::new();
    decode(Cursor::new(file), &tables, |event| events.push(*event)).unwrap();
    events
}

/// As `trace-cmd report` prints them, of which the others are sched_process_exec.
#[test]
fn all_that_trace_cmd_reports_is_there_in_both_versions() {
    let names = [
        "sched/sched_switch",
        "sched/sched_waking",
        "block/block_rq_issue",
        "block/block_rq_complete",
        "block/block_bio_queue",
        "workqueue/workqueue_execute_start",
    ];
    for (file, version, counts) in [(V6, 6, [82, 43, 32, 32, 32, 16]), (V7, 7, [70, 47, 36, 36, 36, 17])] {
        let (converted, bytes) = converted(file).unwrap();
        let facts = Facts::read(|| Ok(Cursor::new(&bytes))).unwrap();
        assert_eq!(names.map(|name| facts.kinds[name].recorded), counts, "{version}");
        assert_eq!((facts.all_recorded(), converted.others), (converted.events, 1), "{version}");
        assert_eq!((facts.all_lost(), facts.unread, facts.span), (0, 0, converted.span), "{version}");
        assert_eq!(converted.kernel.as_deref(), Some("6.18.44-fc-v657"));
        assert_eq!((converted.host.as_deref(), converted.version.as_deref()), (Some("vm"), Some("3.1.6")));
        let says_of_the_clock =
            converted.notes.iter().any(|note| note.contains("`trace-cmd record -C mono`"));
        assert_eq!(says_of_the_clock, version == 6, "{:?}", converted.notes);
    }
}

#[test]
fn requests_threads_and_functions_are_those_of_the_command() {
    for file in [V6, V7] {
        let facts = facts_of(file);
        let reads = &facts.devices[&(LOOP.to_owned(), Op::Read)];
        assert_eq!((reads.count, reads.sectors, reads.service.count), (16, 16 * 128, 16));
        let role =
            |name: &str| facts.threads.iter().find(|thread| thread.name.starts_with(name)).unwrap().role;
        assert_eq!(role("dd"), Role::Workload);
        assert_eq!((role("rcu_preempt"), role("rustc")), (Role::Kernel, Role::Other));
        // Sixteen reads are given to the file below the loop device, each by a work of its own.
        let (count, _) = facts.work["loop_rootcg_workfn"];
        assert_eq!(count, 16);
    }
}

/// The first and the last line of `trace-cmd report`, which prints microseconds.
#[test]
fn times_and_cpus_are_those_that_trace_cmd_reports() {
    let (_, bytes) = converted(V7).unwrap();
    let events = events_of(&bytes);
    let place = |event: &Event| (event.time.get() / 1000, event.cpu, event.tid);
    assert_eq!(place(&events[0]), FIRST);
    assert_eq!(place(events.last().unwrap()), LAST);
    assert!(events.is_sorted_by_key(|event| event.time));
    let mut of_dd =
        events.iter().filter(|event| matches!(event.what, What::Issue { .. }) && event.tid == 3878);
    assert_eq!(place(of_dd.next().unwrap()), (15_151_329_824, 1, 3878));
}

const FIRST: (u64, u16, u32) = (15_151_324_042, 0, 3850);
const LAST: (u64, u16, u32) = (15_151_340_895, 1, 3811);

/// As `trace-cmd report` counts them.
const COUNTED: [(&str, u64); 7] = [
    ("sched/sched_switch", 71),
    ("sched/sched_waking", 47),
    ("sched/sched_process_exit", 1),
    ("block/block_bio_queue", 32),
    ("block/block_rq_issue", 32),
    ("block/block_rq_complete", 32),
    ("workqueue/workqueue_execute_start", 84),
];

/// In nanoseconds, by `trace-cmd report -t`.
const FIRST_OF_ZSTD: (u64, u16, u32) = (13_656_224_139_861, 0, 30656);

/// `trace-cmd convert --compression none` of the same trace-cmd prints the same of both.
#[test]
fn a_compressed_file_is_read_as_what_it_is_without_compression() {
    let (converted, bytes) = converted(ZSTD).unwrap();
    let facts = Facts::read(|| Ok(Cursor::new(&bytes))).unwrap();
    let counted = |name: &str| facts.kinds[name].recorded;
    assert_eq!(COUNTED.map(|(name, _)| counted(name)), COUNTED.map(|(_, count)| count));
    assert_eq!((facts.all_lost(), facts.unread, converted.others), (0, 0, 1));
    assert_eq!(converted.version.as_deref(), Some("3.1.6"));
    let events = events_of(&bytes);
    assert_eq!((events[0].time.get(), events[0].cpu, events[0].tid), FIRST_OF_ZSTD);
    assert_eq!(facts.work["loop_rootcg_workfn"].0, 16);
}

fn why(bytes: &[u8]) -> String {
    converted(bytes).unwrap_err().to_string()
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    [&bytes[..at], to, &bytes[at + from.len()..]].concat()
}

#[test]
fn what_cannot_be_read_says_how_it_would_be() {
    let other = why(&replaced(ZSTD, b"zstd\x001.5.4\0", b"lzma\x001.5.4\0"));
    assert!(other.contains("with `lzma`") && other.contains("--compression none"), "{other}");
    for cut in [6000, 8200, 12_400] {
        assert!(why(&ZSTD[..cut]).ends_with("cannot be read"), "{}", why(&ZSTD[..cut]));
    }
    let counter = replaced(V6, b"[local] global counter", b"local global [counter]");
    assert!(
        why(&counter).contains("clock `counter`") && why(&counter).contains("-C mono"),
        "{}",
        why(&counter)
    );
    assert!(why(&replaced(V7, b"\0mono\0", b"\0tsc!\0")).contains("clock `tsc!`"));
    assert!(why(&replaced(V6, b"tracing6", b"tracing5")).contains("version `5`"));
    assert!(why(&replaced(V6, b"tracing6\0\0", b"tracing6\0\x01")).contains("another byte order"));
    assert!(why(&replaced(V6, b"flyrecord\0", b"latency  \0")).contains("text of a latency tracer"));
    assert_eq!(why(b"{\"fio version\": 3}"), "it does not begin as a file of trace-cmd's");
    for cut in [V6, V7].map(|file| why(&file[..file.len() / 2])) {
        assert!(cut.ends_with("cannot be read"), "{cut}");
    }
}

/// Where the second sub-buffer of CPU 1 of version 7 begins, behind the first of 4096 bytes.
const SECOND: usize = 0x9000 + 4096;

#[test]
fn what_the_ring_lost_is_counted_and_an_unknown_number_is_one() {
    let commit = u64::from_ne_bytes(*V7[SECOND + 8..].first_chunk().unwrap());
    let mut lossy = V7.to_vec();
    let mut lose = |flags: u64| {
        lossy[SECOND + 8..SECOND + 16].copy_from_slice(&(commit | flags).to_ne_bytes());
        let behind = SECOND + 16 + commit as usize;
        lossy[behind..behind + 8].copy_from_slice(&210_u64.to_ne_bytes());
        let (converted, bytes) = converted(&lossy).unwrap();
        (converted, Facts::read(|| Ok(Cursor::new(&bytes))).unwrap().lost[&1])
    };
    assert_eq!(lose(3 << 30).1, 210);
    let (converted, lost) = lose(1 << 31);
    assert_eq!(lost, 1);
    assert!(converted.notes.iter().any(|note| note.starts_with("at 1 places")), "{:?}", converted.notes);
}

#[test]
fn a_kernel_thread_is_known_by_its_work_and_nobody_is_there_before_it_is_seen_to_be() {
    let (_, bytes) = converted(V7).unwrap();
    let tables = Tables::read(Cursor::new(&bytes)).unwrap();
    assert!(tables.tasks.values().all(|known| !known.name.is_empty()));
    let events = events_of(&bytes);
    for tid in tables.tasks.keys() {
        let first = events.iter().find_map(|event| match event.what {
            What::Switch { prev, next, .. } if prev == *tid || next == *tid => Some(false),
            What::Waking { tid: woken, .. } if woken == *tid => Some(true),
            _ => None,
        });
        assert_eq!(first, Some(true), "{tid}");
    }
}

proptest! {
    #[test]
    fn no_damage_makes_it_panic(damage in damage(3)) {
        for bytes in damage.to(&[V6, V7, ZSTD]) {
            if let Ok((_, output)) = converted(&bytes) {
                // What comes out is read or refused.
                let _ = Facts::read(|| Ok(Cursor::new(&output)));
            }
        }
    }
}

/// Each byte of what stands around the data, and each of a sub-buffer, in turn.
#[test]
fn each_byte_in_turn_is_read_or_refused() {
    let (_, data) = V7.split_at(0x9000);
    let around = V7.len() - 600..V7.len();
    for at in (0..64).chain(around).chain((0..data.len().min(1024)).map(|at| 0x9000 + at)) {
        for flip in [0xff, 0x80] {
            let mut bytes = V7.to_vec();
            bytes[at] ^= flip;
            if let Ok((_, output)) = converted(&bytes) {
                let _ = Facts::read(|| Ok(Cursor::new(&output)));
            }
        }
    }
}
