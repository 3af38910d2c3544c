//! A block device had requests in flight nearly all of the time that was watched.
//!
//! Sources: iostat(1), `%util`: no measure of the limit of a device that serves requests in parallel;
//! `Documentation/admin-guide/iostats.rst`.

use super::Rule;
use crate::facts::case::{Case, evidence};
use crate::facts::usage::{AT_LIMIT, DiskUsage, Transfers, Usage};
use crate::words::{listed, percent};
use domain::finding::{Confidence, Evidence, Finding};
use domain::inventory::BlockDevice;
use domain::units::Unit;

pub(super) const RULE: Rule = Rule {
    name: "device-at-limit",
    doc: "A block device had requests in flight nearly all of the time.",
    needs: "a recording's trace: disks",
    source: "iostat(1), `%util`; Documentation/admin-guide/iostats.rst",
    yields_to: &["device-cache"],
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let busiest = case.worst_usage(|usage| busiest(case, usage).map(|disk| disk.busy));
    let found = busiest.filter(|(.., busy)| *busy >= AT_LIMIT);
    found.and_then(|(source, usage, _)| finding(case, &source, usage)).into_iter().collect()
}

/// The busiest of the devices that are built on no other: an array is as busy as its busiest member.
fn busiest<'a>(case: &Case<'_>, usage: &'a Usage) -> Option<&'a DiskUsage> {
    usage.disks.iter().find(|disk| inventoried(case, disk).is_none_or(|device| device.built_of.is_empty()))
}

fn inventoried<'a>(case: &Case<'a>, disk: &DiskUsage) -> Option<&'a BlockDevice> {
    case.inventory?.device(&disk.device)
}

fn finding(case: &Case<'_>, source: &str, usage: &Usage) -> Option<Finding> {
    let disk = busiest(case, usage)?;
    let rotates = inventoried(case, disk).and_then(|device| device.queue.as_ref()?.rotational) == Some(true);
    let busy = percent(disk.busy);
    let device = &disk.device;
    let mut figures =
        vec![evidence(format!("time in which {device} had requests in flight"), busy.clone(), source)];
    let depth = disk.depth.map(|depth| evidence("requests in flight, mean", format!("{depth:.1}"), source));
    figures.extend(depth);
    figures.extend(transfers("reads", &disk.read, source));
    figures.extend(transfers("writes", &disk.write, source));
    Some(Finding {
        rule: RULE.name,
        title: match rotates {
            true => format!("the disk {device} was busy {busy} of the time: it is at its limit"),
            false => format!("{device} had requests in flight {busy} of the time: it may be at its limit"),
        },
        reason: match rotates {
            true => {
                "A rotating disk serves one request at a time. Requests wait for those before them, so the latency of each \
grows with the number in flight. Fewer or more sequential requests, a cache, or more disks help; the CPU does not."
            }
            false => {
                "A solid-state disk, an array or a virtual disk serves many requests at a time, so that being always busy need \
not be its limit. It is where more requests in flight raise the latency and not the rate."
            }
        }
        .into(),
        evidence: figures,
        confidence: if rotates { Confidence::Likely } else { Confidence::Possible },
        gain: None,
        remedy: None,
        next: case.next_look(),
        compared: vec![],
    })
}

fn transfers(what: &str, transfers: &Transfers, source: &str) -> Option<Evidence> {
    let latency = transfers.latency?;
    let parts = [
        Unit::PerSecond.show(transfers.rate),
        Unit::BytesPerSecond.show(transfers.bytes),
        format!("{} each", Unit::Seconds.show(latency)),
    ];
    Some(evidence(what, listed(&parts), source))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings_of_usage, on_disk};
    use super::*;

    fn usage(devices: &[(&str, f64)]) -> Usage {
        let disk = |(device, busy): &(&str, f64)| DiskUsage {
            device: (*device).into(),
            busy: *busy,
            depth: Some(3.25),
            read: Transfers { rate: 120.0, bytes: 491_520.0, latency: Some(0.027) },
            write: Transfers::default(),
            course: None,
        };
        Usage { disks: devices.iter().map(disk).collect(), ..Usage::default() }
    }

    #[test]
    fn a_busy_disk_is_found_with_its_figures() {
        let found = findings_of_usage(RULE, &usage(&[("sda", 0.98)]), None).swap_remove(0);
        assert_eq!(found.title, "sda had requests in flight 98% of the time: it may be at its limit");
        let figures: Vec<&str> = found.evidence.iter().map(|e| e.figure.as_str()).collect();
        assert_eq!(figures, ["98%", "3.2", "120 /s, 492 kB/s and 27.0 ms each"]);
        assert_eq!(found.confidence, Confidence::Possible);
    }

    #[test]
    fn a_rotating_disk_is_at_its_limit_and_an_array_is_not_named_for_its_members() {
        let inventory = on_disk(true);
        let found =
            findings_of_usage(RULE, &usage(&[("md0", 0.99), ("sda", 0.98)]), Some(&inventory)).swap_remove(0);
        assert_eq!(found.title, "the disk sda was busy 98% of the time: it is at its limit");
        assert_eq!(found.confidence, Confidence::Likely);
    }

    #[test]
    fn a_half_busy_disk_is_no_finding() {
        assert!(findings_of_usage(RULE, &usage(&[("sda", 0.5)]), None).is_empty());
    }
}
