//! `nr_requests`: how many requests may wait in a device's queue. Shown where a study varied it; likely where
//! a device with few places was watched with nearly all of them taken; possible where a workload keeps more
//! in flight than there are places.
//!
//! Sources: `Documentation/ABI/stable/sysfs-block` (`nr_requests`); block/blk-mq-tag.c (`blk_mq_get_tag`: a
//! task sleeps until a place is free), block/blk-mq-sched.c (`blk_mq_init_sched`: a scheduler has twice what
//! the device takes at once, 256 at the most).

use super::Rule;
use super::next_step::{UNTUNE, tune_command};
use super::varied_setting::{self, NO_KEYS, NOTHING_BY_HAND, Words};
use crate::facts::case::{Case, CaseCell, evidence};
use crate::facts::usage::{DiskUsage, Usage};
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::{BlockDevice, BlockKind, Queue};
use domain::setting::{SettingName, SettingRequest};
use domain::units::significant;

pub(super) const RULE: Rule = Rule {
    name: "request-slots",
    doc: "The device's queue has fewer places than the workload keeps requests in flight.",
    needs: "cells that differ in `nr_requests` alone; else the device in the inventory, and a recording's requests in flight or the depth in the study",
    source: "Documentation/ABI/stable/sysfs-block (`nr_requests`); block/blk-mq-tag.c (`blk_mq_get_tag`)",
    yields_to: &[],
    run,
};

const REASON: &str = "A request needs a place in the device's queue. Where all are taken, the task that submits sleeps until one is \
free, so that it keeps fewer requests in flight than it asked for, and a scheduler sees fewer to sort.";

const WORDS: Words = Words {
    rule: "request-slots",
    is_about: |name| name == "nr_requests",
    keys: NO_KEYS,
    what: "the number of requests that may wait",
    reason: |_, _| REASON.to_owned(),
    by_hand: NOTHING_BY_HAND,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    if varied_setting::is_varied(case, &WORDS) {
        return varied_setting::findings(case, &WORDS);
    }
    if let Some(found) = taken(case) {
        return vec![found];
    }
    let cells = case.cells();
    let deepest = cells.iter().filter_map(|cell| {
        let device = case.inventory?.device(cell.device()?)?;
        let asked = asked(cell)?;
        let (places, scheduler) = places(device)?;
        (u64::from(asked) > places).then_some((asked, places, scheduler, device, cell))
    });
    let deepest = deepest.max_by_key(|(asked, ..)| *asked);
    deepest
        .map(|(asked, places, scheduler, device, cell)| finding(cell, asked, places, scheduler, device))
        .into_iter()
        .collect()
}

/// With as many places it is the device that does no more, where it does not say how many it takes at once:
/// the kernel's own number for one that takes 32.
const USUAL: u64 = 64;

/// How many places the kernel gives a device; `None` of a SCSI disk whose depth was not recorded, which may
/// be one that takes a single request at a time.
fn usual(device: &BlockDevice) -> Option<u64> {
    match device.queue.as_ref()?.device_depth {
        Some(depth) => Some(u64::from(depth) * 2),
        None => (!device.name.starts_with("sd")).then_some(USUAL),
    }
}

/// Of the places, so many are taken in the mean where there is always somebody who waits for one.
const MIN_TAKEN: f64 = 0.8;

/// A count of what is in flight is off by this at the most.
const ALL_TAKEN: f64 = 1.05;

/// A device with requests in flight less often has places for all.
const MIN_BUSY: f64 = 0.7;

/// A device whose few places were taken.
struct Taken<'u> {
    disk: &'u DiskUsage,
    /// While it is busy, mean.
    in_flight: f64,
    places: u64,
    /// How many the kernel gives such a device.
    usual: u64,
}

impl Taken<'_> {
    fn share(&self) -> f64 {
        self.in_flight / self.places as f64
    }
}

/// The device with fewer places than the kernel gives it, of which most were taken.
fn most_taken<'u>(case: &Case<'_>, usage: &'u Usage) -> Option<Taken<'u>> {
    let disks = usage.disks.iter().filter(|disk| disk.busy >= MIN_BUSY);
    let all = disks.filter_map(|disk| {
        let device = case.inventory?.device(&disk.device)?;
        let ((all, _), usual) = (places(device)?, usual(device)?);
        let of_one = u64::from(device.queue.as_ref()?.nr_requests?);
        let in_flight = disk.depth? / disk.busy;
        // What submits on one CPU has the places of one of the queues.
        let is_one = in_flight <= of_one as f64 * ALL_TAKEN;
        let taken = Taken { disk, in_flight, places: if is_one { of_one } else { all }, usual };
        (of_one < usual && taken.share() >= MIN_TAKEN).then_some(taken)
    });
    all.max_by(|a, b| a.share().total_cmp(&b.share()))
}

/// A device that was watched with nearly all of its few places taken.
fn taken(case: &Case<'_>) -> Option<Finding> {
    let (source, usage, _) = case.worst_usage(|usage| Some(most_taken(case, usage)?.share()))?;
    let Taken { disk, in_flight, places, usual } = most_taken(case, usage)?;
    let name = &disk.device;
    let more = request(name, usual);
    Some(Finding {
        rule: RULE.name,
        title: format!(
            "{name} has places for {places} requests, and {} are taken while it is busy: whoever asks for more waits for a place",
            significant(in_flight)
        ),
        reason: REASON.into(),
        evidence: vec![
            evidence(
                format!("requests in flight while {name} is busy, mean"),
                significant(in_flight),
                source.clone(),
            ),
            evidence(format!("time in which {name} had requests in flight"), percent(disk.busy), source),
            evidence(
                "places in its queues (nr_requests)",
                places.to_string(),
                format!("/sys/block/{name}/queue/nr_requests"),
            ),
        ],
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(Remedy {
            what: format!(
                "as many places as the kernel gives such a device, and measure latency as well: {LONGER}"
            ),
            settings: vec![more.clone()],
            undo: UNTUNE.into(),
        }),
        next: tune_command(&more),
        compared: vec![],
    })
}

/// What more places cost.
const LONGER: &str = "a longer queue makes each request wait longer";

fn request(device: &str, places: u64) -> SettingRequest {
    SettingRequest {
        setting: SettingName { name: "nr_requests".into(), object: Some(device.to_owned()) },
        value: places.to_string(),
    }
}

/// How many requests the jobs keep in flight together; through the page cache nothing tells.
fn asked(cell: &CaseCell<'_>) -> Option<u32> {
    if !cell.is_fio() || !cell.profile().is_direct() {
        return None;
    }
    cell.profile().depth
}

/// The places of a disk with a scheduler, which decides who gets them: `nr_requests` in each of its queues.
fn places(device: &BlockDevice) -> Option<(u64, &str)> {
    let is_disk = matches!(device.kind, BlockKind::Disk);
    let Queue { scheduler, nr_requests, hardware_queues, .. } = device.queue.as_ref().filter(|_| is_disk)?;
    let scheduler = scheduler.as_deref().filter(|name| *name != "none")?;
    Some((u64::from((*nr_requests)?) * u64::from(hardware_queues.unwrap_or(1)), scheduler))
}

fn finding(cell: &CaseCell<'_>, asked: u32, places: u64, scheduler: &str, device: &BlockDevice) -> Finding {
    let name = &device.name;
    let path = format!("/sys/block/{name}/queue");
    let more = request(name, u64::from(asked.next_power_of_two()));
    Finding {
        rule: RULE.name,
        title: format!(
            "{} keeps {asked} requests in flight, and {name} has places for {places}; what that costs was not measured",
            cell.named()
        ),
        reason: REASON.into(),
        evidence: vec![
            evidence("requests in flight, all jobs together", asked.to_string(), "the study"),
            evidence("places in its queues (nr_requests)", places.to_string(), format!("{path}/nr_requests")),
            evidence("scheduler", scheduler, format!("{path}/scheduler")),
        ],
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(Remedy {
            what: format!("let as many wait as are asked for, and measure latency as well: {LONGER}"),
            settings: vec![more.clone()],
            undo: UNTUNE.into(),
        }),
        next: tune_command(&more),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use domain::inventory::Inventory;

    fn machine(scheduler: &str, places: Option<u32>) -> Inventory {
        let mut machine = bare_machine();
        let queue = machine.devices[0].queue.as_mut().unwrap();
        queue.scheduler = Some(scheduler.into());
        queue.nr_requests = places;
        machine
    }

    fn at_depth(depth: &str) -> crate::summary::RunData {
        fio_run(&[&with_depth(depth)], |cell, block| vec![("throughput", about(1e7, cell, block))])
    }

    #[test]
    fn a_depth_beyond_the_places_is_found() {
        let machine = machine("mq-deadline", Some(64));
        let found = findings(RULE, &at_depth("200"), Some(&machine), Some("vda")).swap_remove(0);
        assert!(found.title.starts_with("w0 keeps 200 requests in flight, and vda has places for 64"));
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "nr_requests@vda = 256");
        assert_eq!(found.confidence, Confidence::Possible);
    }

    #[test]
    fn a_depth_that_fits_or_a_queue_without_a_scheduler_is_no_finding() {
        let of = |depth, scheduler| {
            findings(RULE, &at_depth(depth), Some(&machine(scheduler, Some(64))), Some("vda")).len()
        };
        assert_eq!(of("32", "mq-deadline"), 0);
        assert_eq!(of("200", "none"), 0);
    }

    fn watched(depth: f64, busy: f64) -> Usage {
        let disk = DiskUsage { device: "vda".into(), busy, depth: Some(depth), ..DiskUsage::default() };
        Usage { disks: vec![disk], ..Usage::default() }
    }

    #[test]
    fn few_places_that_are_all_taken_are_found_in_a_recording() {
        let machine = machine("mq-deadline", Some(4));
        let found = findings_of_usage(RULE, &watched(3.5, 0.9), Some(&machine)).swap_remove(0);
        let begin = "vda has places for 4 requests, and 3.89 are taken while it is busy";
        assert!(found.title.starts_with(begin), "{}", found.title);
        assert_eq!(found.confidence, Confidence::Likely);
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "nr_requests@vda = 64");
        // Of two queues one is used, or both are.
        let mut two = machine.clone();
        two.devices[0].queue.as_mut().unwrap().hardware_queues = Some(2);
        let title = |depth| {
            let found = findings_of_usage(RULE, &watched(depth, 1.0), Some(&two));
            found.first().map(|one| one.title.split(',').next().unwrap_or_default().to_owned())
        };
        assert_eq!(title(3.9).as_deref(), Some("vda has places for 4 requests"));
        assert_eq!(title(7.5).as_deref(), Some("vda has places for 8 requests"));
        assert_eq!([title(2.0), title(5.0)], [None, None]);
    }

    #[test]
    fn free_places_many_of_them_and_an_idle_device_are_no_finding() {
        let of = |places, depth, busy| {
            let machine = machine("mq-deadline", Some(places));
            findings_of_usage(RULE, &watched(depth, busy), Some(&machine)).len()
        };
        assert_eq!([of(4, 2.0, 1.0), of(64, 64.0, 1.0), of(4, 1.0, 0.3)], [0, 0, 0]);
    }

    #[test]
    fn a_scsi_disk_has_places_enough_where_they_are_twice_what_it_takes_at_once() {
        let of = |places, depth| {
            let mut machine = machine("mq-deadline", Some(places));
            machine.devices[0].name = "sda".into();
            machine.devices[0].queue.as_mut().unwrap().device_depth = depth;
            let disk = DiskUsage {
                device: "sda".into(),
                busy: 1.0,
                depth: Some(f64::from(places)),
                ..DiskUsage::default()
            };
            let usage = Usage { disks: vec![disk], ..Usage::default() };
            let found = findings_of_usage(RULE, &usage, Some(&machine)).pop()?;
            Some(found.remedy?.settings[0].to_string())
        };
        // A stick takes one request at a time, and the kernel gives it two places.
        assert_eq!(of(2, Some(1)), None);
        assert_eq!(of(4, Some(32)).as_deref(), Some("nr_requests@sda = 64"));
        assert_eq!(of(4, None), None, "what it takes is not known");
    }

    #[test]
    fn an_unknown_queue_is_no_evidence() {
        assert!(findings(RULE, &at_depth("200"), Some(&machine("bfq", None)), Some("vda")).is_empty());
        assert!(findings(RULE, &at_depth("200"), None, Some("vda")).is_empty());
    }

    #[test]
    fn places_that_were_varied_are_shown() {
        let data = setting_run("nr_requests", &["32", "256"], |level, block| {
            about([1e8, 1.3e8][level], level, block)
        });
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "nr_requests = 256");
    }
}
