//! The PCIe link of a disk is slower or narrower than the disk's own, and the disk is near what it can carry.
//!
//! Sources: `Documentation/ABI/testing/sysfs-bus-pci` (`current_link_speed`, `current_link_width`); PCI
//! Express Base Specification 3.0, 4.2 (line codes).

use super::Rule;
use crate::facts::case::{Case, CaseCell, evidence};
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::{BlockDevice, Link};
use domain::trial::Provenance;
use domain::units::Unit;

pub(super) const RULE: Rule = Rule {
    name: "link-speed",
    doc: "A disk's PCIe link runs below its ability, and the disk moved nearly as much as it can carry.",
    needs: "the disk's link in the inventory; what the disk read and wrote in trials",
    source: "Documentation/ABI/testing/sysfs-bus-pci (`current_link_speed`); PCI Express Base Specification 3.0, 4.2",
    yields_to: &[],
    run,
};

/// Of what the line code leaves. Assumed: heads of packets and acknowledgements take less than the rest.
const MIN_CARRIED: f64 = 0.7;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let devices = case.inventory.map_or(&[][..], |inventory| inventory.devices.as_slice());
    let narrow = devices.iter().filter_map(|device| Some((device, device.link.as_ref().filter(is_below)?)));
    let narrow: Vec<(&BlockDevice, &Link)> = narrow.collect();
    let cells = case.cells();
    let full = cells.iter().flat_map(|cell| {
        let carried = narrow.iter().filter_map(|(device, link)| {
            let did = cell.did(&device.name)?;
            // Each way has the whole of it.
            let moved = did.read.max(did.written);
            Some((cell, *device, *link, moved)).filter(|_| moved >= link.bytes_a_second() * MIN_CARRIED)
        });
        carried.collect::<Vec<_>>()
    });
    let most = full.max_by(|(.., a), (.., b)| a.total_cmp(b));
    most.map(|(cell, device, link, moved)| finding(case, cell, device, link, moved)).into_iter().collect()
}

fn is_below(link: &&Link) -> bool {
    link.speed < link.most_speed || link.width < link.most_width
}

fn words(speed_mt: u32, width: u32) -> String {
    format!("{} GT/s on {width} lanes", f64::from(speed_mt) / 1e3)
}

fn finding(case: &Case<'_>, cell: &CaseCell<'_>, device: &BlockDevice, link: &Link, moved: f64) -> Finding {
    let name = &device.name;
    let bytes = |value| Unit::BytesPerSecond.show(value);
    let path = format!("/sys/block/{name}/device/device");
    Finding {
        rule: RULE.name,
        title: format!(
            "{name} moved {} over a link of {}; the disk can use {}",
            bytes(moved),
            bytes(link.bytes_a_second()),
            bytes(link.most_bytes_a_second())
        ),
        reason: "The link between disk and processor has fewer lanes, or a lower speed, than the disk has. The slot, a riser, a shared \
switch, the firmware's settings or a bad contact decide that when the machine starts."
            .into(),
        evidence: vec![
            evidence(format!("moved in one direction by {name}"), bytes(moved), format!("/proc/diskstats in {}", cell.source())),
            evidence("link", words(link.speed, link.width), format!("{path}/current_link_speed, current_link_width")),
            evidence("the disk's own", words(link.most_speed, link.most_width), format!("{path}/max_link_speed, max_link_width")),
            evidence("share of the link that was used", percent(moved / link.bytes_a_second()), "the quotient of these"),
        ],
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(Remedy {
            what: "look at the slot, the riser and the firmware's settings of it; another slot may have more lanes".into(),
            settings: vec![],
            undo: "nothing was changed".into(),
        }),
        next: match case.data.run.provenance {
            Provenance::Host => "sudo lspci -vv | grep -E 'LnkCap:|LnkSta:'".into(),
            _ => case.next_look(),
        },
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::summary::RunData;
    use domain::inventory::Inventory;

    fn machine(width: u32) -> Inventory {
        let mut machine = bare_machine();
        machine.devices[0].link = Some(Link { speed: 8000, most_speed: 8000, width, most_width: 4 });
        machine
    }

    fn reads(bytes: u64) -> RunData {
        let mut data =
            fio_run(&["rw=read bs=1m"], |cell, block| vec![("throughput", about(1e9, cell, block))]);
        with_work(&mut data, &[("vda", bytes >> 20, bytes, 0, 0, 990)]);
        data
    }

    #[test]
    fn a_link_with_half_of_its_lanes_that_is_nearly_full_is_found() {
        let found = findings(RULE, &reads(1_700_000_000), Some(&machine(2)), None).swap_remove(0);
        assert_eq!(found.title, "vda moved 1.70 GB/s over a link of 1.97 GB/s; the disk can use 3.94 GB/s");
        assert_eq!(found.evidence[1].figure, "8 GT/s on 2 lanes");
    }

    #[test]
    fn a_full_link_and_one_with_room_are_no_finding() {
        assert!(findings(RULE, &reads(3_500_000_000), Some(&machine(4)), None).is_empty());
        assert!(findings(RULE, &reads(200_000_000), Some(&machine(2)), None).is_empty());
    }

    #[test]
    fn an_unknown_link_or_disk_is_no_evidence() {
        assert!(findings(RULE, &reads(1_700_000_000), Some(&bare_machine()), None).is_empty());
        assert!(findings(RULE, &reads(1_700_000_000), None, None).is_empty());
        let data = fio_run(&["rw=read"], |_, _| vec![("throughput", 1e9)]);
        assert!(findings(RULE, &data, Some(&machine(2)), None).is_empty());
    }
}
