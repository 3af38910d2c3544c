//! A partition does not begin at a multiple of what its device writes at once: a physical sector, or a stripe
//! of an array with parity.
//!
//! Source: `Documentation/ABI/stable/sysfs-block` (`physical_block_size`, `optimal_io_size`, `start`);
//! block/blk-settings.c (`queue_limit_alignment_offset`).

use super::Rule;
use crate::facts::case::{Case, CaseCell, evidence};
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::{BlockDevice, BlockKind};
use domain::units::Bytes;

pub(super) const RULE: Rule = Rule {
    name: "misaligned-partition",
    doc: "A partition that was written to does not begin at a multiple of its device's sectors or stripes.",
    needs: "where the partition begins and its device's sizes in the inventory; what the partition did in trials",
    source: "Documentation/ABI/stable/sysfs-block (`physical_block_size`, `optimal_io_size`)",
    yields_to: &[],
    run,
};

/// A device that is less busy has time for more.
const MIN_BUSY: f64 = 0.1;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let Some(inventory) = case.inventory else { return Vec::new() };
    let askew: Vec<Askew<'_>> = inventory
        .devices
        .iter()
        .filter_map(|partition| Askew::of(partition, inventory.device(partition.built_of.first()?)?))
        .collect();
    let cells = case.cells();
    let written = cells.iter().flat_map(|cell| {
        let busy = askew.iter().filter_map(|it| {
            let did = cell.did(&it.partition.name).filter(|did| did.writes > 0.0 && did.busy >= MIN_BUSY)?;
            Some((cell, it, did.busy))
        });
        busy.collect::<Vec<_>>()
    });
    let busiest = written.max_by(|(.., a), (.., b)| a.total_cmp(b));
    busiest.map(|(cell, it, busy)| finding(case, cell, it, busy)).into_iter().collect()
}

/// A partition that begins between two units of its device.
struct Askew<'a> {
    partition: &'a BlockDevice,
    start: Bytes,
    device: &'a BlockDevice,
    unit: Bytes,
    /// The file that has the unit.
    file: &'static str,
}

impl<'a> Askew<'a> {
    fn of(partition: &'a BlockDevice, device: &'a BlockDevice) -> Option<Self> {
        let start = partition.start?;
        let queue = device.queue.as_ref()?;
        let of = |unit: Option<Bytes>, file| {
            let unit = unit.filter(|unit| unit.get() > 0 && !start.get().is_multiple_of(unit.get()))?;
            Some(Self { partition, start, device, unit, file })
        };
        // Only an array with parity reads where it writes a part of what is optimal.
        let has_parity = match &device.kind {
            BlockKind::Md(md) => matches!(md.level.as_deref(), Some("raid4" | "raid5" | "raid6")),
            _ => false,
        };
        of(queue.physical_block, "physical_block_size")
            .or_else(|| of(queue.optimal_io.filter(|_| has_parity), "optimal_io_size"))
    }
}

fn finding(case: &Case<'_>, cell: &CaseCell<'_>, it: &Askew<'_>, busy: f64) -> Finding {
    let (name, device) = (&it.partition.name, &it.device.name);
    let (start, unit) = (it.start, it.unit);
    Finding {
        rule: RULE.name,
        title: format!(
            "{name} begins {} B behind a multiple of the {unit} that {device} writes at once; what that costs was not measured",
            start.get() % unit.get()
        ),
        reason: "A write that looks aligned in the partition begins between two units of the device. The device, or the array, reads \
both of them, and writes both back."
            .into(),
        evidence: vec![
            evidence(format!("where {name} begins"), format!("{} B", start.get()), format!("/sys/block/{device}/{name}/start")),
            evidence(format!("unit of {device}"), unit.to_string(), format!("/sys/block/{device}/queue/{}", it.file)),
            evidence(format!("time in which {name} was busy"), percent(busy), format!("/proc/diskstats in {}", cell.source())),
        ],
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(Remedy {
            what: format!(
                "a partition that is made anew loses what it holds: make a backup first; then let it begin at a multiple of \
{unit} (parted(8) does so with `--align optimal`), and put the data back"
            ),
            settings: vec![],
            undo: "the old partition table (`sfdisk --dump` before), and the backup".into(),
        }),
        next: case.show_again(),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::summary::RunData;
    use domain::inventory::{Inventory, Md, Queue};

    /// A partition `sda1` that begins at this sector of 512 bytes.
    fn machine(start: Option<u64>, physical: u64) -> Inventory {
        let mut machine = on_disk(true);
        let sda = &mut machine.devices[1];
        sda.queue = Some(Queue { physical_block: Some(Bytes::new(physical)), ..Queue::default() });
        machine.devices[0] = BlockDevice {
            name: "sda1".into(),
            kind: BlockKind::Partition,
            built_of: vec!["sda".into()],
            start: start.map(Bytes::from_sectors),
            queue: None,
            ..machine.devices[1].clone()
        };
        machine
    }

    fn writes(writes: u64, busy_ms: u64) -> RunData {
        let mut data =
            fio_run(&["rw=randwrite bs=4k"], |cell, block| vec![("throughput", about(4e5, cell, block))]);
        with_work(&mut data, &[("sda1", 9, 36_864, writes, writes * 4096, busy_ms)]);
        data
    }

    #[test]
    fn a_partition_at_sector_63_of_a_disk_of_4_kib_is_found() {
        let found = findings(RULE, &writes(90, 900), Some(&machine(Some(63), 4096)), None).swap_remove(0);
        assert!(
            found
                .title
                .starts_with("sda1 begins 3584 B behind a multiple of the 4 KiB that sda writes at once"),
            "{}",
            found.title
        );
        assert!(found.remedy.unwrap().what.contains("make a backup first"));
    }

    #[test]
    fn aligned_small_sectors_reads_alone_and_idle_partitions_are_no_finding() {
        assert!(findings(RULE, &writes(90, 900), Some(&machine(Some(2048), 4096)), None).is_empty());
        assert!(findings(RULE, &writes(90, 900), Some(&machine(Some(63), 512)), None).is_empty());
        assert!(findings(RULE, &writes(0, 900), Some(&machine(Some(63), 4096)), None).is_empty());
        assert!(findings(RULE, &writes(90, 9), Some(&machine(Some(63), 4096)), None).is_empty());
    }

    #[test]
    fn a_stripe_counts_on_an_array_with_parity_alone() {
        let of = |level: &str| {
            let mut machine = machine(Some(2048), 512);
            let md = Md { level: Some(level.into()), ..Md::default() };
            machine.devices[1].kind = BlockKind::Md(Box::new(md));
            machine.devices[1].queue.as_mut().unwrap().optimal_io = Some(Bytes::from_kib(1536));
            findings(RULE, &writes(90, 900), Some(&machine), None).len()
        };
        assert_eq!((of("raid5"), of("raid10")), (1, 0));
    }

    #[test]
    fn an_unknown_start_or_machine_is_no_evidence() {
        assert!(findings(RULE, &writes(90, 900), Some(&machine(None, 4096)), None).is_empty());
        assert!(findings(RULE, &writes(90, 900), None, None).is_empty());
    }
}
