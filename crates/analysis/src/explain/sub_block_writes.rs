//! Writes that are no multiple of a disk's physical sector: the disk reads the sector, changes a part of it,
//! and writes it back.
//!
//! Source: `Documentation/ABI/stable/sysfs-block` (`physical_block_size`: the smallest unit that is written
//! without reading).

use super::Rule;
use crate::facts::arrays::disks_below;
use crate::facts::case::{Case, CaseCell, evidence};
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::BlockDevice;
use domain::units::Bytes;

pub(super) const RULE: Rule = Rule {
    name: "sub-block-writes",
    doc: "Direct writes are smaller than the disk's physical sector, or no multiple of it.",
    needs: "the size of requests in the study; the disk's sectors in the inventory",
    source: "Documentation/ABI/stable/sysfs-block (`physical_block_size`)",
    yields_to: &[],
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let cells = case.cells();
    let found = cells.iter().find_map(|cell| {
        let size = cell.block_size().filter(|_| cell.profile().is_direct() && cell.profile().writes())?;
        let disks = disks_below(case.inventory?, cell.device()?);
        let (disk, sector) = disks.into_iter().find_map(|disk| Some((disk, torn(disk, size)?)))?;
        Some(finding(case, cell, size, disk, sector))
    });
    found.into_iter().collect()
}

/// The physical sector that a request of this size does not fill.
fn torn(disk: &BlockDevice, size: Bytes) -> Option<Bytes> {
    let sector = disk.queue.as_ref()?.physical_block?;
    (sector.get() > 0 && !size.get().is_multiple_of(sector.get())).then_some(sector)
}

fn finding(case: &Case<'_>, cell: &CaseCell<'_>, size: Bytes, disk: &BlockDevice, sector: Bytes) -> Finding {
    let name = &disk.name;
    Finding {
        rule: RULE.name,
        title: format!("{} writes {size} at a time to {name}, whose sectors are {sector}; what that costs was not measured", cell.named()),
        reason: "A disk writes whole physical sectors. For a part of one it reads the sector first. A spinning disk then waits for \
the sector to come round again; flash writes the whole page anew."
            .into(),
        evidence: vec![
            evidence("size of a write", size.to_string(), "the study"),
            evidence("physical sector", sector.to_string(), format!("/sys/block/{name}/queue/physical_block_size")),
        ],
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(Remedy {
            what: format!("let the application write multiples of {sector}, at multiples of {sector}, and measure"),
            settings: vec![],
            undo: "put the application's own option back".into(),
        }),
        next: case.show_again(),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use domain::inventory::Inventory;

    fn machine(physical: Option<u64>) -> Inventory {
        let mut machine = bare_machine();
        machine.devices[0].queue.as_mut().unwrap().physical_block = physical.map(Bytes::new);
        machine
    }

    fn of(options: &str, machine: Option<&Inventory>) -> Vec<Finding> {
        let data = fio_run(&[options], |cell, block| vec![("throughput", about(1e6, cell, block))]);
        findings(RULE, &data, machine, Some("vda"))
    }

    #[test]
    fn a_write_of_less_than_a_sector_is_found() {
        let found = of("rw=randwrite bs=512 direct=1", Some(&machine(Some(4096)))).swap_remove(0);
        assert!(
            found.title.starts_with("w0 writes 512 B at a time to vda, whose sectors are 4 KiB"),
            "{}",
            found.title
        );
        assert_eq!(of("rw=write bs=6k direct=1", Some(&machine(Some(4096)))).len(), 1);
    }

    #[test]
    fn whole_sectors_reads_and_the_page_cache_are_no_finding() {
        let machine = machine(Some(4096));
        assert!(of("rw=randwrite bs=4k direct=1", Some(&machine)).is_empty());
        assert!(of("rw=randread bs=512 direct=1", Some(&machine)).is_empty());
        assert!(of("rw=randwrite bs=512", Some(&machine)).is_empty());
    }

    #[test]
    fn an_unknown_sector_is_no_evidence() {
        assert!(of("rw=randwrite bs=512 direct=1", Some(&machine(None))).is_empty());
        assert!(of("rw=randwrite bs=512 direct=1", None).is_empty());
    }
}
