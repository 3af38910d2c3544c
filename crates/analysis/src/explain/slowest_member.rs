//! One disk of an array is slower than the others: it is busy while they wait for it.
//!
//! All members of a stripe have to answer before a request of the array is done, so that the array is as
//! fast as its slowest disk. A read of a mirror is answered by one: where the slow disk is not spinning, or
//! another is not, it is given few, and those take many times as long.
//!
//! Sources: `Documentation/admin-guide/iostats.rst` (`io_ticks`); drivers/md/raid5.c (`handle_stripe`),
//! raid10.c.

use super::Rule;
use crate::facts::arrays::{Array, Did, MIN_WAITED, arrays};
use crate::facts::case::{Case, CaseCell, evidence};
use crate::stats::quantile::median;
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::units::{Unit, significant};

pub(super) const RULE: Rule = Rule {
    name: "slowest-member",
    doc: "One disk of an array takes longer for its requests than the others, which wait for it.",
    needs: "what the members of an array did in trials; the array in the inventory or in the study",
    source: "Documentation/admin-guide/iostats.rst; drivers/md/raid5.c (`handle_stripe`), raid10.c",
    yields_to: &[],
    run,
};

/// The time that a request takes it, against the slowest of the others: disks of one model, then those of
/// which another is known. Zones, caches and the phase of their rotation make disks of one model differ by
/// less, over some seconds.
const MIN_TIMES: [f64; 2] = [4.0, 1.3];

/// Others with a very different number of requests, and of bytes, do other work.
const ALIKE: std::ops::RangeInclusive<f64> = 0.67..=1.5;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let cells = case.cells();
    let found = cells.iter().flat_map(|cell| {
        let arrays = arrays(case, cell).into_iter();
        let slowest =
            |array: &Array| Slowest::of(case, array, cell).or_else(|| Slowest::of_reads(array, cell));
        arrays.filter_map(|array| Some((cell, slowest(&array)?, array))).collect::<Vec<_>>()
    });
    let worst = found.max_by(|(_, a, _), (_, b, _)| a.times.total_cmp(&b.times));
    worst.map(|(cell, slowest, array)| finding(case, cell, &slowest, &array)).into_iter().collect()
}

/// A disk of which so much more of the requests are reads than of the others', or so much less, does other
/// work: a resync reads one disk of a mirror and writes the others, and an array with parity reads the disk
/// at the edge of a write.
const OF_THE_OTHER_KIND: f64 = 0.2;

/// So many disks that do the same tell how long it takes.
const MIN_ALIKE: usize = 2;

struct Slowest {
    name: String,
    did: Did,
    /// The others' median share of the time in which they were busy.
    others_busy: f64,
    /// How many times as long a request of it takes.
    times: f64,
    /// Why the array waits for it.
    reason: &'static str,
}

const ALL_ANSWER: &str = "A request of the array is done when the last of its disks has answered. This disk takes longer for about as many \
requests: it may be another model, repeat reads that fail, sit on a slower link, or serve somebody else.";

const ONE_ANSWERS: &str = "A read of a mirror is given to one disk. This one is given few, for it has requests in flight for nearly all of the \
time; whoever gets it waits many times as long. It may be another model, repeat reads that fail, or sit on a slower link.";

/// A disk that is given few of the reads is slow where it is busy for so much of the time, and takes so many
/// times as long for one.
const ALWAYS_BUSY: f64 = 0.9;
const MANY_TIMES: f64 = 10.0;

impl Slowest {
    fn of(case: &Case<'_>, array: &Array, cell: &CaseCell<'_>) -> Option<Self> {
        // A mirror may prefer one disk for reads.
        let members = array.members_did(cell).filter(|all| all.len() > 2 || array.level.name() == "0")?;
        let (name, did) = members.iter().max_by(|(_, a), (_, b)| a.busy.total_cmp(&b.busy))?;
        let reads = |did: &Did| did.reads / did.requests().max(f64::MIN_POSITIVE);
        let mixes_alike = |other: &Did| (reads(did) - reads(other)).abs() <= OF_THE_OTHER_KIND;
        let others: Vec<&Did> =
            members.iter().filter(|(other, _)| other != name).map(|(_, did)| did).collect();
        // Of an array with parity each disk has its own share of reads: those are compared whose is alike.
        let alike: Vec<&Did> = others.iter().copied().filter(|other| mixes_alike(other)).collect();
        let others = if array.level.has_parity() && alike.len() >= MIN_ALIKE { alike } else { others };
        let of_others =
            |figure: fn(&Did) -> f64| median(&others.iter().map(|d| figure(d)).collect::<Vec<_>>());
        let (requests, busy) = (of_others(Did::requests)?, of_others(|did| did.busy)?);
        let known = requests > 0.0 && busy > 0.0 && did.requests() > 0.0;
        let moved = |did: &Did| did.read + did.written;
        let has_as_many = ALIKE.contains(&(did.requests() / requests));
        // Disks whose limits split what they are given in other pieces do the same work in other requests.
        let has_as_much = ALIKE.contains(&(moved(did) / of_others(moved)?.max(f64::MIN_POSITIVE)));
        let work = |did: &Did| if has_as_many { did.requests() } else { moved(did) };
        let of_work = |did: &Did| did.busy / work(did).max(f64::MIN_POSITIVE);
        let times = of_work(did) / others.iter().map(|did| of_work(did)).fold(0.0, f64::max);
        let does_the_same = (reads(did) - of_others(reads)?).abs() <= OF_THE_OTHER_KIND;
        let alike = (has_as_many || has_as_much) && does_the_same;
        let least = MIN_TIMES[usize::from(is_another_model(case, array, name))];
        let slow = known && array.waited_for(cell)? >= MIN_WAITED && times >= least && alike;
        slow.then(|| Self {
            name: (*name).to_owned(),
            did: *did,
            others_busy: busy,
            times,
            reason: ALL_ANSWER,
        })
    }

    /// Of a mirror that is read: the kernel chooses the disk with the fewest requests in flight where any is
    /// no spinning one (raid1-10.c, `read_balance`), so that a slow one is given few.
    fn of_reads(array: &Array, cell: &CaseCell<'_>) -> Option<Self> {
        let own = cell.did(&array.name).filter(|own| own.reads > 0.0 && own.writes == 0.0)?;
        let members = array.members_did(cell).filter(|_| array.copies > Some(1) && own.requests() > 0.0)?;
        let of_read = |did: &Did| did.busy / did.reads.max(f64::MIN_POSITIVE);
        let read = members.iter().filter(|(_, did)| did.reads > 0.0 && did.writes == 0.0);
        let (name, did) = read.clone().max_by(|(_, a), (_, b)| of_read(a).total_cmp(&of_read(b)))?;
        let others: Vec<&Did> = read.filter(|(other, _)| other != name).map(|(_, did)| did).collect();
        let times = of_read(did) / others.iter().map(|did| of_read(did)).fold(0.0, f64::max);
        let others_busy = median(&others.iter().map(|did| did.busy).collect::<Vec<_>>())?;
        let slow = array.waited_for(cell)? >= MIN_WAITED && did.busy >= ALWAYS_BUSY && times >= MANY_TIMES;
        slow.then(|| Self { name: (*name).to_owned(), did: *did, others_busy, times, reason: ONE_ANSWERS })
    }
}

/// Whether a member is known to be of another model than all others.
fn is_another_model(case: &Case<'_>, array: &Array, name: &str) -> bool {
    let model = |name: &str| case.inventory?.device(name)?.model.as_deref();
    let mut others = array.members.iter().filter(|other| *other != name);
    model(name).is_some() && others.all(|other| model(other).is_some_and(|other| Some(other) != model(name)))
}

fn finding(case: &Case<'_>, cell: &CaseCell<'_>, slowest: &Slowest, array: &Array) -> Finding {
    let Slowest { name, did, others_busy, times, reason } = slowest;
    let source = format!("/proc/diskstats in {}", cell.source());
    Finding {
        rule: RULE.name,
        title: format!(
            "{} waits for {name}: it was busy {} of the time, the other disks {}",
            array.name,
            percent(did.busy),
            percent(*others_busy)
        ),
        reason: (*reason).into(),
        evidence: vec![
            evidence(format!("time in which {name} was busy"), percent(did.busy), source.clone()),
            evidence("the same of the other members, median", percent(*others_busy), source.clone()),
            evidence(format!("requests of {name}"), Unit::PerSecond.show(did.requests()), source.clone()),
            evidence(
                "busy time for the same work, against the slowest of the others",
                format!("{} times", significant(*times)),
                source,
            ),
        ],
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(Remedy {
            what: format!(
                "look at its errors, its link and its model (`smartctl -a /dev/{name}`), and replace it where it fails; \
what that gains was not measured"
            ),
            settings: vec![],
            undo: "nothing was changed".into(),
        }),
        next: case.next_look(),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::summary::RunData;
    use domain::inventory::{Inventory, Md};

    fn machine() -> Inventory {
        let md = Md { level: Some("raid5".into()), ..Md::default() };
        with_array(md, true, &["sda", "sdb", "sdc"])
    }

    /// The requests of three disks, and how many milliseconds of a second each was busy.
    fn disks(work: [(u64, u64); 3]) -> RunData {
        let mut data = fio_run(&["rw=randread bs=4k direct=1"], |cell, block| {
            vec![("throughput", about(4e5, cell, block))]
        });
        let member = |name, (ios, ms): (u64, u64)| (name, ios, ios * 4096, 0, 0, ms);
        let busiest = work.iter().map(|(_, ms)| *ms).max().unwrap();
        let array = ("md0", 300, 1_228_800, 0, 0, (busiest + 20).min(1000));
        with_work(
            &mut data,
            &[array, member("sda", work[0]), member("sdb", work[1]), member("sdc", work[2])],
        );
        data
    }

    #[test]
    fn a_disk_that_takes_longer_for_as_many_requests_is_named() {
        let found = findings(RULE, &disks([(100, 150), (98, 970), (101, 140)]), Some(&machine()), None);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].title, "md0 waits for sdb: it was busy 97% of the time, the other disks 14.5%");
    }

    #[test]
    fn a_disk_of_a_mirror_that_takes_many_times_as_long_for_the_few_reads_it_is_given_is_named() {
        let of = |level: &str, [few, busy_ms]: [u64; 2]| {
            let md = Md { level: Some(level.into()), raid_disks: Some(2), ..Md::default() };
            let machine = with_array(md, false, &["sda", "sdb"]);
            let mut data = fio_run(&["rw=randread bs=4k direct=1"], |_, _| vec![("throughput", 4e6)]);
            let member = |name, ios: u64, ms| (name, ios, ios * 4096, 0, 0, ms);
            let array = member("md0", 8000 + few, 1000);
            with_work(&mut data, &[array, member("sda", 8000, 930), member("sdb", few, busy_ms)]);
            findings(RULE, &data, Some(&machine), None).pop()
        };
        let found = of("raid1", [80, 990]).unwrap();
        assert_eq!(found.title, "md0 waits for sdb: it was busy 99% of the time, the other disks 93%");
        assert!(found.reason.starts_with("A read of a mirror"), "{}", found.reason);
        assert_eq!(of("raid1", [80, 500]), None, "it waits for the next read itself");
        assert_eq!(of("raid1", [4000, 990]), None, "twice as long is what happens");
        assert_eq!(of("raid0", [80, 990]).map(|found| found.reason), None, "it holds no copy");
    }

    #[test]
    fn disks_that_get_as_much_in_other_pieces_are_compared_by_what_they_move() {
        let mut data =
            fio_run(&["rw=read bs=1m direct=1"], |cell, block| vec![("throughput", about(2e8, cell, block))]);
        let half = |name| (name, 128, 32 << 20, 0, 0, 90);
        let slow = ("sdc", 64, 32 << 20, 0, 0, 760);
        with_work(&mut data, &[("md0", 96, 96 << 20, 0, 0, 920), half("sda"), half("sdb"), slow]);
        let found = findings(RULE, &data, Some(&machine()), None).swap_remove(0);
        assert!(found.title.starts_with("md0 waits for sdc"), "{}", found.title);
    }

    #[test]
    fn a_disk_of_another_model_is_named_for_less() {
        let twice = disks([(100, 450), (98, 970), (101, 440)]);
        let mut models = machine();
        models.devices.iter_mut().for_each(|device| device.model = Some("A".into()));
        assert!(findings(RULE, &twice, Some(&models), None).is_empty(), "caches make such differences");
        models.devices.iter_mut().find(|device| device.name == "sdb").unwrap().model = Some("B".into());
        assert_eq!(findings(RULE, &twice, Some(&models), None).len(), 1);
    }

    #[test]
    fn disks_that_are_all_busy_one_with_more_work_and_idle_ones_are_no_finding() {
        assert!(
            findings(RULE, &disks([(100, 950), (98, 970), (101, 940)]), Some(&machine()), None).is_empty()
        );
        assert!(
            findings(RULE, &disks([(100, 450), (300, 970), (101, 440)]), Some(&machine()), None).is_empty()
        );
        assert!(findings(RULE, &disks([(100, 4), (98, 20), (101, 4)]), Some(&machine()), None).is_empty());
    }

    #[test]
    fn a_disk_that_reads_what_others_write_is_none_that_is_slow() {
        let of = |reads: u64| {
            let mut data = disks([(100, 150), (98, 970), (101, 140)]);
            let member = |name| (name, 0, 0, 100, 409_600, 140);
            let source = ("sdb", reads, reads * 4096, 100 - reads, (100 - reads) * 4096, 970);
            with_work(&mut data, &[("md0", 0, 0, 300, 1_228_800, 990), member("sda"), source, member("sdc")]);
            findings(RULE, &data, Some(&machine()), None).len()
        };
        assert_eq!([of(0), of(10), of(50), of(100)], [1, 1, 0, 0]);
    }

    #[test]
    fn without_the_array_or_its_disks_nothing_is_said() {
        assert!(findings(RULE, &disks([(100, 450), (98, 970), (101, 440)]), None, None).is_empty());
        let data = fio_run(&["rw=randread"], |cell, block| vec![("throughput", about(4e5, cell, block))]);
        assert!(findings(RULE, &data, Some(&machine()), None).is_empty());
    }

    #[test]
    fn disks_with_parity_are_compared_with_those_that_read_as_much() {
        use domain::inventory::Md;
        let of = |level: &str| {
            let md = Md { level: Some(level.into()), ..Md::default() };
            let machine = with_array(md, false, &["sda", "sdb", "sdc", "sdd", "sde", "sdf"]);
            let mut data = fio_run(&["rw=randwrite bs=4k direct=1"], |_, _| vec![("throughput", 4e5)]);
            let member = |name, reads, writes, busy| (name, reads, reads * 4096, writes, writes * 4096, busy);
            with_work(
                &mut data,
                &[
                    ("md0", 0, 0, 106, 106 * 4096, 990),
                    member("sda", 14, 65, 80),
                    member("sdb", 14, 64, 70),
                    member("sdc", 56, 13, 60),
                    member("sdd", 58, 11, 50),
                    member("sde", 58, 11, 40),
                    member("sdf", 14, 65, 990),
                ],
            );
            findings(RULE, &data, Some(&machine), None).len()
        };
        assert_eq!([of("raid6"), of("raid10")], [1, 0]);
    }
}
