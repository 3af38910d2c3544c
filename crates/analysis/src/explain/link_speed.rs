//! The link of a disk, PCIe, SATA or USB, is slower or narrower than the disk's own, and the disk is near
//! what it can carry.
//!
//! Sources: `Documentation/ABI/testing/sysfs-bus-pci` (`current_link_speed`, `current_link_width`); PCI
//! Express Base Specification 3.0, 4.2 (line codes); `Documentation/ABI/testing/sysfs-ata` (`sata_spd`,
//! `id`); `Documentation/ABI/stable/sysfs-bus-usb` (`speed`, `version`).

use super::Rule;
use crate::facts::case::{Case, CaseCell, evidence};
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::{BlockDevice, Link, LinkKind};
use domain::trial::Provenance;
use domain::units::Unit;

pub(super) const RULE: Rule = Rule {
    name: "link-speed",
    doc: "A disk's PCIe, SATA or USB link runs below its ability, and the disk moved nearly as much as it can carry.",
    needs: "the disk's link in the inventory; what the disk read and wrote in trials",
    source: "Documentation/ABI/testing/sysfs-bus-pci (`current_link_speed`); PCI Express Base Specification 3.0, 4.2; Documentation/ABI/testing/sysfs-ata; Documentation/ABI/stable/sysfs-bus-usb",
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
            let moved = match link.kind {
                // Each way has the whole of it.
                LinkKind::Pcie => did.read.max(did.written),
                // One command's data are moved at a time.
                LinkKind::Sata | LinkKind::Usb => did.read + did.written,
            };
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

fn words(kind: LinkKind, speed_mt: u32, width: u32) -> String {
    let giga = f64::from(speed_mt) / 1e3;
    match kind {
        LinkKind::Pcie => format!("{giga} GT/s on {width} lanes"),
        LinkKind::Sata => format!("SATA, {giga} Gbit/s"),
        LinkKind::Usb => format!("USB, {giga} Gbit/s"),
    }
}

/// Why the link of a disk is slower than the disk, what to look at, and the command that shows it.
fn advice(kind: LinkKind) -> (&'static str, &'static str, &'static str) {
    match kind {
        LinkKind::Pcie => (
            "The link between disk and processor has fewer lanes, or a lower speed, than the disk has. The slot, a riser, a shared \
switch, the firmware's settings or a bad contact decide that when the machine starts.",
            "look at the slot, the riser and the firmware's settings of it; another slot may have more lanes",
            "sudo lspci -vv | grep -E 'LnkCap:|LnkSta:'",
        ),
        LinkKind::Sata => (
            "Port and disk agree on a speed when the machine starts. An older port or backplane has no higher one; after errors, of a \
bad cable too, the kernel lowers it by itself.",
            "look in the kernel's log for errors of the link; try another cable, and a port of the full speed",
            "sudo dmesg | grep -E 'SATA link up|limiting SATA link speed'",
        ),
        LinkKind::Usb => (
            "The device is connected by USB 2, and says that it is made for USB 2.1, as devices for USB 3 do there. The port, the cable or a \
hub between them may have no more.",
            "connect it to a port of USB 3, by a cable with all wires, without a hub between",
            "lsusb -t",
        ),
    }
}

fn finding(case: &Case<'_>, cell: &CaseCell<'_>, device: &BlockDevice, link: &Link, moved: f64) -> Finding {
    let name = &device.name;
    let bytes = |value| Unit::BytesPerSecond.show(value);
    let [current, own] = match link.kind {
        LinkKind::Pcie => {
            let path = format!("/sys/block/{name}/device/device");
            ["current", "max"].map(|which| format!("{path}/{which}_link_speed, {which}_link_width"))
        }
        LinkKind::Sata => ["/sys/class/ata_link, sata_spd", "/sys/class/ata_device, id"].map(str::to_owned),
        LinkKind::Usb => ["speed", "version"].map(|file| format!("/sys/bus/usb/devices, {file}")),
    };
    let (reason, what, next) = advice(link.kind);
    Finding {
        rule: RULE.name,
        title: format!(
            "{name} moved {} over a link of {}; the disk {} use {}",
            bytes(moved),
            bytes(link.bytes_a_second()),
            if link.kind == LinkKind::Usb { "may" } else { "can" },
            bytes(link.most_bytes_a_second())
        ),
        reason: reason.into(),
        evidence: vec![
            evidence(
                format!("moved by {name} over its link"),
                bytes(moved),
                format!("/proc/diskstats in {}", cell.source()),
            ),
            evidence("link", words(link.kind, link.speed, link.width), current),
            evidence("the disk's own", words(link.kind, link.most_speed, link.most_width), own),
            evidence(
                "share of the link that was used",
                percent(moved / link.bytes_a_second()),
                "the quotient of these",
            ),
        ],
        // A device for USB 2 may say so too.
        confidence: if link.kind == LinkKind::Usb { Confidence::Possible } else { Confidence::Likely },
        gain: None,
        remedy: Some(Remedy { what: what.into(), settings: vec![], undo: "nothing was changed".into() }),
        next: match case.data.run.provenance {
            Provenance::Host => next.into(),
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
        let kind = LinkKind::Pcie;
        machine.devices[0].link = Some(Link { kind, speed: 8000, most_speed: 8000, width, most_width: 4 });
        machine
    }

    fn on_one_lane(kind: LinkKind, speed: u32, most_speed: u32) -> Inventory {
        let mut machine = bare_machine();
        machine.devices[0].link = Some(Link { kind, speed, most_speed, width: 1, most_width: 1 });
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
    fn links_of_sata_and_usb_that_are_nearly_full_are_found_with_what_to_look_at() {
        let of = |machine: Inventory, bytes| findings(RULE, &reads(bytes), Some(&machine), None).pop();
        let sata = of(on_one_lane(LinkKind::Sata, 3000, 6000), 270_000_000).unwrap();
        assert_eq!(sata.title, "vda moved 270 MB/s over a link of 300 MB/s; the disk can use 600 MB/s");
        assert_eq!(sata.evidence[1].figure, "SATA, 3 Gbit/s");
        assert!(sata.next.contains("limiting SATA link speed"), "{}", sata.next);
        let usb = of(on_one_lane(LinkKind::Usb, 480, 5000), 40_000_000).unwrap();
        assert_eq!(usb.title, "vda moved 40.0 MB/s over a link of 53.2 MB/s; the disk may use 500 MB/s");
        assert_eq!([sata.confidence, usb.confidence], [Confidence::Likely, Confidence::Possible]);
        assert_eq!((usb.evidence[1].figure.as_str(), usb.next.as_str()), ("USB, 0.48 Gbit/s", "lsusb -t"));
        assert_eq!(of(on_one_lane(LinkKind::Sata, 6000, 6000), 550_000_000), None);
        assert_eq!(of(on_one_lane(LinkKind::Sata, 3000, 6000), 120_000_000), None);
        assert_eq!(of(on_one_lane(LinkKind::Usb, 480, 480), 40_000_000), None);
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
