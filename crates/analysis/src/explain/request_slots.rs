//! `nr_requests`: how many requests may wait in a device's queue. Shown where a study varied it; possible
//! where a workload keeps more in flight than there are places.
//!
//! Sources: `Documentation/ABI/stable/sysfs-block` (`nr_requests`); block/blk-mq-tag.c (`blk_mq_get_tag`: a
//! task sleeps until a place is free).

use super::Rule;
use super::case::{Case, CaseCell, UNTUNE, evidence, tune_command};
use super::varied_setting::{self, NO_KEYS, NOTHING_BY_HAND, Words};
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::{BlockDevice, BlockKind, Queue};
use domain::setting::{SettingName, SettingRequest};

pub(super) const RULE: Rule = Rule {
    name: "request-slots",
    doc: "The device's queue has fewer places than the workload keeps requests in flight.",
    needs: "cells that differ in `nr_requests` alone; else the depth in the study and the device in the inventory",
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
    let more = SettingRequest {
        setting: SettingName { name: "nr_requests".into(), object: Some(name.clone()) },
        value: asked.next_power_of_two().to_string(),
    };
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
            what: "let as many wait as are asked for, and measure latency as well: a longer queue makes each request wait longer"
                .into(),
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
