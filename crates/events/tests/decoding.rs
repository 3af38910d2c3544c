//! Events in the order of time, whatever the order in the file; and files that are damaged.

#![allow(clippy::unwrap_used, reason = "it is a test")]

mod made;

use events::{Error, Event, Facts, Kind, Tables, What, decode};
use made::File;
use proptest::prelude::*;
use std::io::Cursor;

fn decoded(file: &File) -> Vec<Event> {
    let mut all = Vec::new();
    decode(Cursor::new(&file.bytes), &file.tables(), |event| all.push(*event)).unwrap();
    all
}

#[test]
fn cpus_are_merged_by_time_and_what_an_interrupt_wrote_first_is_put_right() {
    let mut file = File::new();
    // The event of 40 was interrupted by those of 50 and 60 before it was written.
    for time in [10, 50, 60, 40, 90] {
        file.event(1, time, "power/cpu_idle", &[("state", 1)]);
    }
    for time in [20, 30, 70] {
        file.event(0, time, "power/cpu_idle", &[("state", 1)]);
    }
    file.round(100);
    file.event(0, 95, "power/cpu_idle", &[("state", 1)]);
    file.round(200);
    file.end(210);
    let times: Vec<u64> = decoded(&file).iter().map(|event| event.time.get()).collect();
    assert_eq!(times, [10, 20, 30, 40, 50, 60, 70, 90, 95]);
}

#[test]
fn a_record_that_is_cut_by_a_frames_end_goes_on_in_the_next_of_its_cpu() {
    let mut file = File::new();
    let record = file.record(10, "sched/sched_waking", &[("pid", 4711)]);
    for cut in 1..record.len() {
        let mut file = File::new();
        file.frame(Kind::Data, 1, &record[..cut]);
        file.event(0, 20, "power/cpu_idle", &[]);
        file.frame(Kind::Data, 1, &record[cut..]);
        let all = decoded(&file);
        assert_eq!(all.len(), 2, "cut at {cut}");
        assert!(matches!(all[0].what, What::Waking { tid: 4711, .. }), "{:?}", all[0]);
    }
    file.frame(Kind::Data, 1, &record[..9]);
    assert!(decoded(&file).is_empty(), "what has no end is no event");
}

#[test]
fn a_file_that_ends_early_is_used_as_far_as_it_goes_and_says_so() {
    let mut file = File::new();
    file.switch(0, 10, 0, 0, 7);
    let whole = file.bytes.len();
    file.switch(0, 20, 7, 1, 0);
    for end in whole..file.bytes.len() {
        let facts = Facts::read(|| Ok(Cursor::new(&file.bytes[..end]))).unwrap();
        assert_eq!((facts.all_recorded(), facts.is_whole), (1, false), "{end}");
    }
}

#[test]
fn damage_is_told_with_its_place() {
    let mut file = File::new();
    let at = file.bytes.len() as u64;
    file.frame(Kind::Data, 7, &[]);
    let place = |error: Error| match error {
        Error::Damaged { at, what } => (at, what),
        other => panic!("{other}"),
    };
    let tables = file.tables();
    let error = decode(Cursor::new(&file.bytes), &tables, |_| {}).unwrap_err();
    assert_eq!(place(error), (at, "number of the CPU in the frame"));

    let mut file = File::new();
    file.frame(Kind::Data, 0, &[9, 0, 0, 0, 0, 0, 4, 0]);
    let error = decode(Cursor::new(&file.bytes), &file.tables(), |_| {}).unwrap_err();
    assert_eq!(place(error), (at, "size of a record in the frame"));

    let mut file = File::new();
    file.bytes.extend([200; 8]);
    assert_eq!(place(Tables::read(Cursor::new(&file.bytes)).unwrap_err()), (at, "kind of a frame"));
    assert!(matches!(Tables::read(Cursor::new(b"PAR1PAR1")).unwrap_err(), Error::Foreign));
}

#[test]
fn a_record_of_no_declared_tracepoint_is_counted_as_unread() {
    let mut file = File::new();
    let mut record = file.record(10, "power/cpu_idle", &[]);
    record[20] ^= 0x80;
    file.frame(Kind::Data, 0, &record);
    let facts = file.facts();
    assert_eq!((facts.all_recorded(), facts.unread), (0, 1));
}

/// A recording with something of everything.
fn whole() -> File {
    let mut file = File::new();
    file.task(7, events::Owner::Workload, "fio");
    file.switch(0, 10, 0, 0, 7);
    file.block(20, "block/block_bio_queue", 0x70_0000, 8, 8, 'R');
    file.block(30, "block/block_rq_issue", 0x70_0000, 8, 8, 'R');
    file.round(35);
    file.switch(0, 40, 7, 2, 0);
    file.block(50, "block/block_rq_complete", 0x70_0000, 8, 8, 'R');
    file.lost(1, 60, 5);
    file.event(0, 70, "sched/sched_waking", &[("pid", 7)]);
    file.event(0, 75, "workqueue/workqueue_execute_start", &[("common_pid", 9), ("function", 0xff)]);
    file.round(80);
    file.end(100);
    file
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>) {
        let bytes = [&events::MAGIC[..], &bytes].concat();
        let _ = Facts::read(|| Ok(Cursor::new(&bytes)));
    }

    #[test]
    fn no_damage_makes_it_panic(at: prop::sample::Index, with: Vec<u8>, cut: prop::sample::Index) {
        let mut bytes = whole().bytes;
        let at = at.index(bytes.len());
        let end = bytes.len().min(at + with.len());
        bytes[at..end].copy_from_slice(&with[..end - at]);
        bytes.truncate(bytes.len() - cut.index(bytes.len()) / 4);
        let _ = Facts::read(|| Ok(Cursor::new(&bytes)));
    }

    #[test]
    fn events_come_in_the_order_of_time(times in prop::collection::vec((0..1000_u64, 0..2_u16), 0..50)) {
        let mut file = File::new();
        for (time, cpu) in &times {
            file.event(*cpu, *time, "power/cpu_idle", &[]);
        }
        let all = decoded(&file);
        prop_assert_eq!(all.len(), times.len());
        prop_assert!(all.is_sorted_by_key(|event| event.time));
    }
}
