//! What devices that stand on others made of what they were given.

#![allow(clippy::unwrap_used, reason = "it is a test")]

mod made;

use domain::Nanos;
use domain::passage::{Bios, Given, Passage, Passed};
use events::{Kind, Op};
use made::File;
use proptest::prelude::*;

const MD: u64 = 9 << 20;
const DM: u64 = 253 << 20;
/// Members of an array.
const A: u64 = 8 << 20;
const B: u64 = (8 << 20) + 16;
const C: u64 = (8 << 20) + 32;

/// Where the data of a member begins.
const OFFSET: u64 = 4096;

/// A recording that grows.
struct Way(File);

impl Way {
    fn new() -> Self {
        let mut file = File::new();
        for (number, name) in [(MD, "md0"), (DM, "dm-0"), (A, "sda"), (B, "sdb"), (C, "sdc")] {
            file.device(number as u32, name);
        }
        Self(file)
    }

    /// A bio is given to a device.
    fn queue(&mut self, time: u64, device: u64, sector: u64, sectors: u64, rwbs: char) {
        self.0.block(time, "block/block_bio_queue", device, sector, sectors, rwbs);
    }

    /// A bio of a layer without requests ends.
    fn end(&mut self, time: u64, device: u64, sector: u64, sectors: u64, rwbs: char) {
        self.0.block(time, "block/block_bio_complete", device, sector, sectors, rwbs);
    }

    /// A request is given to the driver.
    fn issue(&mut self, time: u64, device: u64, sector: u64, sectors: u64, rwbs: char) {
        self.0.block(time, "block/block_rq_issue", device, sector, sectors, rwbs);
    }

    /// A request ends.
    fn done(&mut self, time: u64, device: u64, sector: u64, sectors: u64, rwbs: char) {
        self.0.block(time, "block/block_rq_complete", device, sector, sectors, rwbs);
    }

    /// A layer announces what becomes of sectors of its own.
    fn remap(&mut self, time: u64, from: (u64, u64), to: (u64, u64), sectors: u64, rwbs: char) {
        let fields = [
            ("dev", to.0),
            ("sector", to.1),
            ("nr_sector", sectors),
            ("old_dev", from.0),
            ("old_sector", from.1),
            ("rwbs", rwbs as u64),
        ];
        self.0.event(0, time, "block/block_bio_remap", &fields);
    }

    /// The same, and queues it.
    fn pass(&mut self, time: u64, from: (u64, u64), to: (u64, u64), sectors: u64, rwbs: char) {
        self.remap(time, from, to, sectors, rwbs);
        self.queue(time, to.0, to.1, sectors, rwbs);
    }

    fn passages(mut self) -> std::collections::BTreeMap<String, Passage> {
        self.0.end(1_000_000);
        self.0.facts().passages
    }

    fn of(self, device: &str) -> Passage {
        self.passages().remove(device).unwrap()
    }
}

fn times(given: Given) -> [u64; 4] {
    given.times().map(Nanos::get)
}

fn bios(count: u64, sectors: u64) -> Bios {
    Bios { count, sectors }
}

#[test]
fn a_write_of_raid10_waits_for_its_plug_and_for_the_slower_of_two_members() {
    let mut way = Way::new();
    way.queue(100, MD, 1000, 8, 'W');
    // Announced, and held until the plug is flushed.
    way.remap(105, (MD, 1000), (A, OFFSET + 500), 8, 'W');
    way.remap(106, (MD, 1000), (B, OFFSET + 500), 8, 'W');
    way.queue(130, A, OFFSET + 500, 8, 'W');
    way.queue(132, B, OFFSET + 500, 8, 'W');
    way.done(200, B, OFFSET + 500, 8, 'W');
    way.done(250, A, OFFSET + 500, 8, 'W');
    way.end(260, MD, 1000, 8, 'W');
    let passage = way.of("md0");
    let given = passage.given(Op::Write);
    assert_eq!((given.bios, given.followed, given.made), (bios(1, 8), 1, bios(2, 16)));
    assert_eq!(times(given), [30, 120, 0, 10]);
    assert_eq!((passage.amplification(), passage.share_linked()), (Some(2.0), Some(1.0)));
    assert_eq!(passage.onto().into_iter().collect::<Vec<_>>(), ["sda", "sdb"]);
}

#[test]
fn dm_crypt_holds_a_write_before_and_a_read_after_the_device() {
    let mut way = Way::new();
    way.queue(100, DM, 64, 16, 'W');
    way.pass(180, (DM, 64), (A, 64 + OFFSET), 16, 'W');
    way.queue(200, DM, 800, 8, 'R');
    way.pass(205, (DM, 800), (A, 800 + OFFSET), 8, 'R');
    way.done(280, A, 64 + OFFSET, 16, 'W');
    way.end(281, DM, 64, 16, 'W');
    way.done(300, A, 800 + OFFSET, 8, 'R');
    way.end(390, DM, 800, 8, 'R');
    let passage = way.of("dm-0");
    assert_eq!(times(passage.given(Op::Write)), [80, 100, 0, 1]);
    assert_eq!(times(passage.given(Op::Read)), [5, 95, 0, 90]);
    assert_eq!((passage.amplification(), passage.share_linked()), (Some(1.0), Some(1.0)));
}

#[test]
fn raid5_reads_and_writes_data_and_parity_and_names_no_sector_for_parity() {
    let mut way = Way::new();
    // Sector 0 of the array is not what parity is for.
    way.queue(90, MD, 0, 8, 'W');
    way.queue(100, MD, 2048, 8, 'W');
    for (time, rwbs) in [(120, 'R'), (300, 'W')] {
        way.pass(time, (MD, 2048), (A, OFFSET + 512), 8, rwbs);
        way.pass(time, (MD, 0), (C, OFFSET + 512), 8, rwbs);
        way.done(time + 100, A, OFFSET + 512, 8, rwbs);
        way.done(time + 110, C, OFFSET + 512, 8, rwbs);
    }
    way.end(450, MD, 2048, 8, 'W');
    way.end(455, MD, 0, 8, 'W');
    let passage = way.of("md0");
    let given = passage.given(Op::Write);
    assert_eq!((given.bios, given.followed, given.made), (bios(2, 16), 1, bios(2, 16)));
    // Between is what parity was computed in; after is where parity was still written.
    assert_eq!(times(given), [20, 200, 80, 50]);
    assert_eq!((passage.passed(Op::Read).bios, passage.passed(Op::Write).bios), (bios(2, 16), bios(2, 16)));
    assert_eq!((passage.amplification(), passage.share_linked()), (Some(2.0), Some(0.5)));
}

#[test]
fn a_stripe_that_two_writes_share_is_neithers_and_one_that_is_read_for_parity_is_nobodys() {
    let mut way = Way::new();
    // Two parts of one block of 4 KiB.
    way.queue(100, MD, 2048, 2, 'W');
    way.queue(101, MD, 2050, 2, 'W');
    way.pass(120, (MD, 2048), (A, OFFSET), 8, 'W');
    way.done(140, A, OFFSET, 8, 'W');
    way.end(150, MD, 2048, 2, 'W');
    way.end(151, MD, 2050, 2, 'W');
    // To compute parity, a block is read that somebody reads for himself meanwhile.
    way.queue(200, MD, 4096, 8, 'R');
    way.pass(201, (MD, 4096), (B, OFFSET), 8, 'R');
    way.done(240, B, OFFSET, 8, 'R');
    way.pass(245, (MD, 4096), (B, OFFSET), 8, 'R');
    way.end(250, MD, 4096, 8, 'R');
    let passage = way.of("md0");
    assert_eq!((passage.given(Op::Write).bios.count, passage.given(Op::Write).followed), (2, 0));
    assert_eq!((passage.given(Op::Read).bios.count, passage.given(Op::Read).followed), (1, 0));
    assert_eq!((passage.passed(Op::Write).bios.count, passage.passed(Op::Read).bios.count), (1, 2));
    assert_eq!(passage.share_linked(), Some(0.0));
}

#[test]
fn a_volume_on_an_array_is_two_layers_each_with_its_own_time() {
    let mut way = Way::new();
    way.queue(100, DM, 10_240, 256, 'R');
    way.remap(101, (DM, 10_240), (MD, 12_288), 256, 'R');
    way.queue(102, MD, 12_288, 256, 'R');
    // The array splits it at its chunk: it ends with the last part.
    way.pass(110, (MD, 12_288), (A, OFFSET), 128, 'R');
    way.pass(112, (MD, 12_416), (B, OFFSET), 128, 'R');
    way.done(200, B, OFFSET, 128, 'R');
    way.done(300, A, OFFSET, 64, 'R');
    way.done(310, A, OFFSET + 64, 64, 'R');
    way.end(311, MD, 12_288, 128, 'R');
    way.end(315, MD, 12_416, 128, 'R');
    way.end(320, DM, 10_240, 256, 'R');
    let mut all = way.passages();
    let (dm, md) = (all.remove("dm-0").unwrap(), all.remove("md0").unwrap());
    assert_eq!((times(dm.given(Op::Read)), dm.amplification()), ([2, 213, 0, 5], Some(1.0)));
    assert_eq!((times(md.given(Op::Read)), md.amplification()), ([8, 200, 0, 5], Some(2.0)));
    assert_eq!((md.amplification_of_bytes(), md.share_linked()), (Some(1.0), Some(1.0)));
}

#[test]
fn a_request_of_several_bios_and_a_bio_of_several_requests_end_as_the_requests_do() {
    let mut way = Way::new();
    for part in 0..4 {
        way.queue(100 + part, DM, 64 + 8 * part, 8, 'W');
        way.pass(110 + part, (DM, 64 + 8 * part), (A, OFFSET + 8 * part), 8, 'W');
    }
    way.issue(150, A, OFFSET, 32, 'W');
    way.done(200, A, OFFSET, 32, 'W');
    for part in 0..4 {
        way.end(210 + part, DM, 64 + 8 * part, 8, 'W');
    }
    let passage = way.of("dm-0");
    let given = passage.given(Op::Write);
    assert_eq!((passage.passed(Op::Write), passage.amplification()), {
        (Passed { bios: bios(4, 32), requests: 1 }, Some(0.25))
    });
    assert_eq!((given.followed, times(given)), (4, [40, 400 - 46, 0, 46]));
}

#[test]
fn members_may_be_partitions() {
    let mut way = Way::new();
    let device = |number: u64, name: &str| {
        [&(number as u32).to_le_bytes()[..], &(A as u32).to_le_bytes(), name.as_bytes()].concat()
    };
    way.0.frame(Kind::Device, 0, &device(A + 1, "sda1"));
    way.queue(100, MD, 800, 8, 'R');
    way.remap(101, (MD, 800), (A + 1, 900), 8, 'R');
    // Since 5.12 both are the partition.
    way.remap(102, (A + 1, 900), (A + 1, 900 + 2048), 8, 'R');
    way.queue(103, A + 1, 900 + 2048, 8, 'R');
    way.done(150, A, 900 + 2048, 8, 'R');
    way.end(155, MD, 800, 8, 'R');
    let passage = way.of("md0");
    assert_eq!(times(passage.given(Op::Read)), [3, 47, 0, 5]);
    assert_eq!(
        passage.passed,
        [(("sda".to_owned(), Op::Read), Passed { bios: bios(1, 8), requests: 0 })].into()
    );
}

#[test]
fn a_bio_that_is_passed_on_itself_ends_with_the_request() {
    let mut way = Way::new();
    way.queue(100, MD, 800, 16, 'R');
    way.remap(104, (MD, 800), (A, 900), 8, 'R');
    way.remap(105, (MD, 808), (B, 900), 8, 'R');
    way.done(150, A, 900, 8, 'R');
    way.done(170, B, 900, 8, 'R');
    let given = way.of("md0").given(Op::Read);
    assert_eq!((given.followed, times(given)), (1, [4, 66, 0, 0]));
}

#[test]
fn a_clone_whose_queueing_was_not_seen_is_not_its_parents_end() {
    let mut way = Way::new();
    for time in [100, 200] {
        way.queue(time, MD, 800, 8, 'R');
        way.remap(time + 4, (MD, 800), (A, 900), 8, 'R');
        if time == 100 {
            way.queue(time + 4, A, 900, 8, 'R');
        }
        way.done(time + 50, A, 900, 8, 'R');
        way.end(time + 60, MD, 800, 8, 'R');
    }
    let given = way.of("md0").given(Op::Read);
    assert_eq!((given.bios.count, given.followed, times(given)), (2, 1, [4, 46, 0, 10]));
}

#[test]
fn after_a_loss_nothing_of_what_was_on_its_way_is_claimed() {
    let mut way = Way::new();
    way.queue(100, DM, 64, 8, 'R');
    way.pass(105, (DM, 64), (A, 64), 8, 'R');
    way.0.lost(0, 120, 3);
    way.done(150, A, 64, 8, 'R');
    way.end(160, DM, 64, 8, 'R');
    let passage = way.of("dm-0");
    let given = passage.given(Op::Read);
    assert_eq!((given.bios.count, given.followed, given.share_followed()), (1, 0, Some(0.0)));
    assert_eq!((passage.passed(Op::Read).bios, passage.share_linked()), (bios(1, 8), Some(0.0)));
}

#[test]
fn what_no_layer_passed_on_and_what_has_no_data_is_not_linked() {
    let mut way = Way::new();
    way.queue(100, MD, 64, 8, 'W');
    way.pass(105, (MD, 64), (A, OFFSET + 64), 8, 'W');
    way.issue(105, A, OFFSET + 64, 8, 'W');
    // A bitmap, and an empty flush.
    way.queue(106, A, 16, 8, 'W');
    way.issue(106, A, 16, 8, 'W');
    way.remap(107, (MD, 64), (A, OFFSET + 64), 0, 'W');
    way.issue(107, A, OFFSET + 64, 0, 'W');
    way.done(150, A, OFFSET + 64, 8, 'W');
    way.done(151, A, 16, 8, 'W');
    way.end(160, MD, 64, 8, 'W');
    let passage = way.of("md0");
    assert_eq!((passage.passed(Op::Write).bios, passage.passed(Op::Flush).bios), (bios(1, 8), bios(1, 0)));
    assert_eq!((passage.given(Op::Write).followed, passage.passed(Op::Write).requests), (1, 1));
}

#[test]
fn a_write_of_which_a_part_was_not_seen_below_is_not_followed() {
    let mut way = Way::new();
    way.queue(100, MD, 64, 16, 'W');
    way.pass(105, (MD, 64), (A, OFFSET + 64), 8, 'W');
    way.done(150, A, OFFSET + 64, 8, 'W');
    way.end(160, MD, 64, 16, 'W');
    assert_eq!(way.of("md0").given(Op::Write).followed, 0);
}

proptest! {
    /// Whatever happens in whatever order: what is followed is no more than what was given, what is linked
    /// no more than what was passed on, and no time is longer than the recording.
    #[test]
    fn nothing_is_claimed_that_was_not_there(
        all in prop::collection::vec((0..8_u8, 0..4_u64, 0..3_u64, 1..3_u64, any::<bool>(), 0..40_u64), 0..200),
    ) {
        let mut way = Way::new();
        let (mut time, mut passed) = (0, 0);
        for (what, sector, device, blocks, reads, gap) in all {
            time += gap;
            let (rwbs, member) = (if reads { 'R' } else { 'W' }, [A, B, C][device as usize]);
            let (sector, sectors) = (8 * sector, 8 * blocks);
            match what {
                0 | 1 => way.queue(time, MD, sector, sectors, rwbs),
                2 => way.end(time, MD, sector, sectors, rwbs),
                3 | 4 => {
                    way.pass(time, (MD, sector), (member, OFFSET + sector), sectors, rwbs);
                    passed += 1;
                }
                5 => {
                    way.remap(time, (MD, sector), (member, OFFSET + sector), sectors, rwbs);
                    passed += 1;
                }
                6 => way.done(time, member, OFFSET + sector, sectors, rwbs),
                _ => way.queue(time, member, OFFSET + sector, sectors, rwbs),
            }
        }
        let passage = way.passages().remove("md0").unwrap_or_default();
        prop_assert_eq!(passage.passed(Op::Read).bios.count + passage.passed(Op::Write).bios.count, passed);
        prop_assert!(passage.share_linked().unwrap_or(0.0) <= 1.0);
        for (op, given) in &passage.given {
            prop_assert!(given.followed <= given.bios.count, "{op:?}: {given:?}");
            let all = given.times().iter().map(|time| time.get()).sum::<u64>();
            prop_assert!(all <= given.followed * time, "{op:?}: {given:?}");
        }
    }

    /// A mirror under load, with distinct places: all of it is followed, and each time is what was made up.
    #[test]
    fn all_of_a_mirror_is_followed(
        all in prop::collection::vec((any::<bool>(), 0..50_u64, 1..90_u64, 1..90_u64, 0..9_u64), 1..60),
    ) {
        let mut way = Way::new();
        let mut events: Vec<(u64, u64, u8)> = Vec::new();
        let mut expected = [[0_u64; 4]; 2];
        for (index, (reads, before, a, b, after)) in all.iter().enumerate() {
            let begin = 10 * index as u64;
            let queued = begin + before;
            let below = if *reads { *a } else { *a.max(b) };
            let end = queued + below + after;
            let moments = [(begin, 0), (queued, 1), (queued + a, 2), (queued + b, 3), (end, 4)];
            events.extend(moments.map(|(time, what)| (time, index as u64, what)));
            let sums = &mut expected[usize::from(*reads)];
            for (sum, part) in sums.iter_mut().zip([*before, below, 0, *after]) {
                *sum += part;
            }
        }
        // At one time, what belongs to a bio is in the order of its way.
        events.sort_by_key(|(time, index, what)| (*time, *index, *what));
        for (time, index, what) in events {
            let (reads, sector) = (all[index as usize].0, 64 + 8 * index);
            let rwbs = if reads { 'R' } else { 'W' };
            match what {
                0 => way.queue(time, MD, sector, 8, rwbs),
                1 => {
                    way.pass(time, (MD, sector), (A, OFFSET + sector), 8, rwbs);
                    if !reads {
                        way.pass(time, (MD, sector), (B, OFFSET + sector), 8, rwbs);
                    }
                }
                2 => way.done(time, A, OFFSET + sector, 8, rwbs),
                3 if !reads => way.done(time, B, OFFSET + sector, 8, rwbs),
                4 => way.end(time, MD, sector, 8, rwbs),
                _ => {}
            }
        }
        let passage = way.of("md0");
        let count = |is: bool| all.iter().filter(|one| one.0 == is).count() as u64;
        for (op, is) in [(Op::Read, true), (Op::Write, false)] {
            let given = passage.given(op);
            prop_assert_eq!((given.bios.count, given.followed), (count(is), count(is)));
            prop_assert_eq!(times(given), expected[usize::from(is)]);
        }
        prop_assert_eq!(passage.share_linked(), Some(1.0));
    }
}
