//! dm-crypt lets no TRIM through to flash: the device does not learn which blocks are free.
//!
//! Source: `Documentation/admin-guide/device-mapper/dm-crypt.rst` (`allow_discards`); drivers/md/dm-crypt.c.

use super::Rule;
use crate::facts::arrays::{Encrypted, encrypted};
use crate::facts::case::{Case, CaseCell, evidence};
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::BlockDevice;
use domain::units::Unit;

pub(super) const RULE: Rule = Rule {
    name: "trim-blocked",
    doc: "Encryption lets no TRIM through to flash that was busy with writes.",
    needs: "dm-crypt's table in the inventory; what the device and its disks did in trials",
    source: "Documentation/admin-guide/device-mapper/dm-crypt.rst (`allow_discards`)",
    yields_to: &[],
    run,
};

/// Flash that is less busy has time to make room by itself.
const MIN_BUSY: f64 = 0.5;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let cells = case.cells();
    let found = cells.iter().find_map(|cell| {
        let blocked = encrypted(case, cell).into_iter().find(|it| is_blocked(it) && is_busy(cell, it))?;
        Some(finding(case, cell, &blocked))
    });
    found.into_iter().collect()
}

fn is_blocked(it: &Encrypted<'_>) -> bool {
    let is_flash = |disk: &&BlockDevice| {
        let rotational = disk.queue.as_ref().and_then(|queue| queue.rotational);
        // What a virtual disk says of itself tells nothing of what is below.
        rotational == Some(false) && matches!(disk.transport.as_deref(), Some("nvme" | "sata"))
    };
    let all_flash = !it.disks.is_empty() && it.disks.iter().all(is_flash);
    all_flash && it.did.written > 0.0 && !it.crypt.flags.iter().any(|flag| flag == "allow_discards")
}

fn is_busy(cell: &CaseCell<'_>, it: &Encrypted<'_>) -> bool {
    it.disks.iter().filter_map(|disk| cell.did(&disk.name)).any(|did| did.busy >= MIN_BUSY)
}

fn finding(case: &Case<'_>, cell: &CaseCell<'_>, it: &Encrypted<'_>) -> Finding {
    let device = &it.device.name;
    let name = it.name;
    let busy =
        it.disks.iter().filter_map(|disk| cell.did(&disk.name)).map(|did| did.busy).fold(0.0, f64::max);
    Finding {
        rule: RULE.name,
        title: format!("{device} lets no TRIM through to flash that was busy {} of the time with writes", percent(busy)),
        reason: "Flash erases large blocks before it writes. A device that is not told which blocks are free keeps copies of deleted \
data, copies them around, and has less room for what is written. What that costs depends on the device and was not \
measured here."
            .into(),
        evidence: vec![
            evidence(format!("flags of {device} without allow_discards"), it.crypt.flags.join(" "), "dmsetup table"),
            evidence(format!("written to {device}"), Unit::BytesPerSecond.show(it.did.written), cell.source()),
            evidence("time in which its disk was busy", percent(busy), "/proc/diskstats"),
        ],
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(Remedy {
            what: format!(
                "TRIM shows whoever has the disk which blocks are unused; where that is acceptable, `cryptsetup refresh \
--allow-discards {name}`, then `fstrim -v MOUNTPOINT`"
            ),
            settings: vec![],
            undo: format!("`cryptsetup refresh {name}`; blocks that were trimmed stay so"),
        }),
        next: case.show_again(),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn of(flags: &[&str], rotational: bool, busy_ms: u64, written: u64) -> Vec<Finding> {
        let mut data =
            fio_run(&["rw=randwrite bs=4k"], |cell, block| vec![("throughput", about(4e6, cell, block))]);
        with_work(&mut data, &[("dm-0", 9, 36_864, 900, written, 900), ("sda", 0, 0, 900, written, busy_ms)]);
        with_thread(&mut data, "kworker/u8:1-kcryptd", domain::trace::Role::Crypt, 100);
        findings(RULE, &data, Some(&with_crypt(rotational, "aes-xts-plain64", 4096, flags)), Some("dm-0"))
    }

    #[test]
    fn busy_flash_below_encryption_without_discards_is_found_and_the_risk_is_said_first() {
        let found = of(&["no_read_workqueue"], false, 900, 4 << 20).swap_remove(0);
        assert!(
            found.title.starts_with("dm-0 lets no TRIM through to flash that was busy 90%"),
            "{}",
            found.title
        );
        assert!(found.remedy.unwrap().what.starts_with("TRIM shows whoever has the disk"));
        assert_eq!(found.confidence, Confidence::Possible);
    }

    #[test]
    fn allowed_discards_a_spinning_disk_idle_flash_and_reads_are_no_finding() {
        assert!(of(&["allow_discards"], false, 900, 4 << 20).is_empty());
        assert!(of(&[], true, 900, 4 << 20).is_empty());
        assert!(of(&[], false, 90, 4 << 20).is_empty());
        assert!(of(&[], false, 900, 0).is_empty());
    }

    #[test]
    fn without_the_table_nothing_is_said() {
        let mut data =
            fio_run(&["rw=randwrite bs=4k"], |cell, block| vec![("throughput", about(4e6, cell, block))]);
        with_work(&mut data, &[("dm-0", 0, 0, 900, 4 << 20, 900), ("sda", 0, 0, 900, 4 << 20, 900)]);
        assert!(findings(RULE, &data, None, Some("dm-0")).is_empty());
        let mut machine = with_crypt(false, "aes", 512, &[]);
        let domain::inventory::BlockKind::DeviceMapper(mapping) = &mut machine.devices[0].kind else {
            panic!()
        };
        mapping.crypt = None;
        assert!(findings(RULE, &data, Some(&machine), Some("dm-0")).is_empty());
    }
}
