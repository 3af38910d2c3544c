//! dm-crypt encrypts in sectors of 512 bytes on disks of 4 KiB: shown where a study varied it; possible where
//! encryption takes CPU time.
//!
//! Source: `Documentation/admin-guide/device-mapper/dm-crypt.rst` (`sector_size`); drivers/md/dm-crypt.c
//! (`crypt_convert`: one request to the cipher for each sector).

use super::Rule;
use super::varied_setting::{self, NO_SETTING, Words};
use crate::facts::arrays::{Encrypted, encrypted};
use crate::facts::case::{Case, CaseCell, evidence};
use crate::facts::cpu_share;
use domain::finding::{Confidence, Finding, Remedy};
use domain::trace::Role;
use domain::units::{Bytes, significant};

pub(super) const RULE: Rule = Rule {
    name: "crypt-sector",
    doc: "dm-crypt encrypts in sectors of 512 bytes on disks whose sectors are larger.",
    needs: "cells that differ in the sector alone; else dm-crypt's table and disks in the inventory, and CPU time of encryption in trials",
    source: "Documentation/admin-guide/device-mapper/dm-crypt.rst (`sector_size`); drivers/md/dm-crypt.c (`crypt_convert`)",
    // A cipher in C takes so long for each byte that the calls are lost in it.
    yields_to: &["cipher-without-hardware"],
    run,
};

const REASON: &str = "The cipher is called once for each sector, with an initial vector of its own. Sectors of 4 KiB need an eighth \
of the calls of sectors of 512 bytes.";

/// Said first: all data are written anew.
const BY_HAND: (&str, &str) = (
    "the sector is chosen when the volume is made, and changing it writes all data anew: make a backup first, then \
`cryptsetup reencrypt --sector-size 4096 /dev/DEVICE`",
    "`cryptsetup reencrypt --sector-size 512 /dev/DEVICE`, after a backup",
);

const WORDS: Words = Words {
    rule: "crypt-sector",
    is_about: NO_SETTING,
    keys: &["sector_size"],
    what: "the sector of encryption",
    reason: |_, _| REASON.to_owned(),
    by_hand: BY_HAND,
};

/// Encryption that takes less of one core decides nothing.
const MIN_CORES: f64 = 0.2;

const SMALL: Bytes = Bytes::new(512);

fn run(case: &Case<'_>) -> Vec<Finding> {
    if varied_setting::is_varied(case, &WORDS) {
        return varied_setting::findings(case, &WORDS);
    }
    let cells = case.cells();
    let found = cells.iter().find_map(|cell| {
        let all = encrypted(case, cell).into_iter();
        let small = all.filter(|it| it.crypt.sector == SMALL).find(|it| takes_time(case, cell, it))?;
        let larger = small.disks.iter().find_map(|disk| {
            let sector = disk.queue.as_ref()?.physical_block.filter(|sector| *sector > SMALL)?;
            Some((disk.name.clone(), sector))
        });
        larger.map(|disk| finding(case, cell, &small, disk))
    });
    found.into_iter().collect()
}

/// Reads that pass dm-crypt's queues by are decrypted where the disk's interrupt is handled. Its core has to
/// be so busy with that before a third of it, which is what larger sectors save of a cipher with
/// instructions, is a tenth of the time.
const MIN_OF_INTERRUPTS: f64 = 0.3;

/// Whether encryption takes time that counts: that of its own threads, or past dm-crypt's queues that of a
/// writer whose core has none left, or of interrupts whose reads somebody waits for.
fn takes_time(case: &Case<'_>, cell: &CaseCell<'_>, it: &Encrypted<'_>) -> bool {
    let passes_by = |queue: &str| it.crypt.flags.iter().any(|flag| flag.starts_with(queue));
    if it.cores >= MIN_CORES {
        return saves_a_part(case, cell, it);
    }
    if it.did.written > it.did.read {
        return passes_by("no_write_workqueue") && cell.is_at_its_limit();
    }
    let waits = !cell.keeps_its_pace() && !cpu_share::disks_decide(case, cell);
    passes_by("no_read_workqueue") && waits && of_interrupts(cell) >= MIN_OF_INTERRUPTS
}

/// What larger sectors save of the time of encryption, at most, where the cipher has instructions.
const SAVED: f64 = 1.0 / 3.0;

/// A gain below this is no reason to write all data anew.
const MIN_GAIN: f64 = 1.1;

/// Whether what is saved of encryption is a part of a request's time that counts. Where CPUs have no time
/// left, it is what all wait for.
fn saves_a_part(case: &Case<'_>, cell: &CaseCell<'_>, it: &Encrypted<'_>) -> bool {
    let depth = cell.profile().depth.filter(|_| cell.profile().is_direct());
    let Some(depth) = depth.filter(|_| !cpu_share::is_a_cpu_busy(case)) else { return true };
    let each = cpu_share::share(it.cores, f64::from(depth.max(1)), 0.0);
    cpu_share::gain(each, 1.0 / (1.0 - SAVED)) >= MIN_GAIN
}

/// CPU time of interrupts, in cores, median.
fn of_interrupts(cell: &CaseCell<'_>) -> f64 {
    cell.cores(&[Role::Interrupt]).unwrap_or(0.0)
}

fn finding(
    case: &Case<'_>,
    cell: &CaseCell<'_>,
    it: &Encrypted<'_>,
    (disk, sector): (String, Bytes),
) -> Finding {
    let device = &it.device.name;
    let (whose, cores) = match it.cores >= MIN_CORES {
        true => ("encryption", it.cores),
        false if it.did.read > it.did.written => {
            ("interrupts, which decrypt what is read", of_interrupts(cell))
        }
        false => ("all threads, one of which encrypts what it writes", it.all_cores),
    };
    let cores = significant(cores);
    let (what, undo) = BY_HAND;
    Finding {
        rule: RULE.name,
        title: format!(
            "{device} encrypts in sectors of {SMALL} on a disk of {sector}, and {whose} kept {cores} cores busy in {}",
            cell.named()
        ),
        reason: REASON.into(),
        evidence: vec![
            evidence("sector of encryption", SMALL.to_string(), "dmsetup table"),
            evidence(
                format!("physical sector of {disk}"),
                sector.to_string(),
                format!("/sys/block/{disk}/queue/physical_block_size"),
            ),
            evidence(format!("CPU time of {whose}, in cores, median"), cores, cell.source()),
        ],
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(Remedy { what: what.into(), settings: vec![], undo: undo.into() }),
        next: case.show_again(),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn of(sector: u64, physical: u64, used_ms: u64) -> Vec<Finding> {
        let mut data =
            fio_run(&["rw=read bs=1m"], |cell, block| vec![("throughput", about(4e8, cell, block))]);
        with_work(&mut data, &[("dm-0", 400, 400 << 20, 0, 0, 900), ("sda", 400, 400 << 20, 0, 0, 900)]);
        with_thread(&mut data, "kworker/u8:1-kcryptd", Role::Crypt, used_ms);
        let mut machine = with_crypt(false, "aes-xts-plain64", sector, &[]);
        machine.devices[1].queue.as_mut().unwrap().physical_block = Some(Bytes::new(physical));
        findings(RULE, &data, Some(&machine), Some("dm-0"))
    }

    #[test]
    fn small_sectors_on_a_disk_of_larger_ones_are_found_where_encryption_costs() {
        let found = of(512, 4096, 600).swap_remove(0);
        assert_eq!(
            found.title,
            "dm-0 encrypts in sectors of 512 B on a disk of 4 KiB, and encryption kept 0.600 cores busy in w0"
        );
        assert!(found.remedy.unwrap().what.contains("make a backup first"));
    }

    #[test]
    fn past_the_queues_a_writer_whose_core_is_full_is_found() {
        let of = |own_ms: u64, flags: &[&str]| {
            let mut data = fio_run(&["rw=randwrite bs=1m direct=1"], |cell, block| {
                vec![("throughput", about(4e8, cell, block))]
            });
            with_work(&mut data, &[("dm-0", 0, 0, 400, 400 << 20, 900), ("sda", 0, 0, 400, 400 << 20, 900)]);
            with_thread(&mut data, "fio", Role::Workload, own_ms);
            let mut machine = with_crypt(false, "aes-xts-plain64", 512, flags);
            machine.devices[1].queue.as_mut().unwrap().physical_block = Some(Bytes::new(4096));
            findings(RULE, &data, Some(&machine), Some("dm-0")).len()
        };
        let passed_by = &["no_read_workqueue", "no_write_workqueue"];
        assert_eq!([of(980, passed_by), of(500, passed_by), of(980, &[])], [1, 0, 0]);
    }

    #[test]
    fn past_the_queues_reads_that_interrupts_decrypt_are_found() {
        let of = |used_ms: u64, flags: &[&str]| {
            let mut data =
                fio_run(&["rw=read bs=128k"], |cell, block| vec![("throughput", about(8e8, cell, block))]);
            with_work(
                &mut data,
                &[("dm-0", 6000, 800 << 20, 0, 0, 870), ("sda", 6000, 800 << 20, 0, 0, 600)],
            );
            with_thread(&mut data, "irq/0", Role::Interrupt, used_ms);
            with_thread(&mut data, "kcryptd", Role::Crypt, 0);
            let mut machine = with_crypt(false, "aes-xts-plain64", 512, flags);
            machine.devices[1].queue.as_mut().unwrap().physical_block = Some(Bytes::new(4096));
            findings(RULE, &data, Some(&machine), Some("dm-0")).len()
        };
        let passed_by = &["no_read_workqueue", "no_write_workqueue"];
        assert_eq!([of(500, passed_by), of(200, passed_by), of(500, &[])], [1, 0, 0]);
    }

    #[test]
    fn large_sectors_a_disk_of_small_ones_and_cheap_encryption_are_no_finding() {
        assert!(of(4096, 4096, 600).is_empty());
        assert!(of(512, 512, 600).is_empty());
        assert!(of(512, 4096, 50).is_empty());
    }

    #[test]
    fn without_cpu_time_or_the_machine_nothing_is_said() {
        let mut data =
            fio_run(&["rw=read bs=1m"], |cell, block| vec![("throughput", about(4e8, cell, block))]);
        with_work(&mut data, &[("dm-0", 400, 400 << 20, 0, 0, 900)]);
        assert!(findings(RULE, &data, Some(&with_crypt(false, "aes", 512, &[])), None).is_empty());
        assert!(findings(RULE, &data, None, None).is_empty());
    }

    #[test]
    fn a_sector_that_was_varied_is_shown() {
        let disk: Table<'_> = ("disk", &[("kind", "devices"), ("count", "1"), ("loop", "256MiB")]);
        let crypt: Table<'_> = ("crypt", &[("kind", "crypt"), ("on", "disk")]);
        let data = storage_run(&[disk, crypt], "crypt.sector_size", &[("512", 1e8), ("4096", 1.3e8)]);
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert_eq!(found.confidence, Confidence::Shown);
        assert!(found.title.contains("4096 gives 1.30 times"), "{}", found.title);
    }

    #[test]
    fn what_is_saved_of_encryption_is_a_part_of_a_request_that_waits_for_it() {
        use crate::facts::usage::{CpuUsage, Usage};
        use crate::summarise::summarise;
        let of = |depth: u32, used_ms: u64, busy: f64| {
            let options = format!("rw=randwrite bs=4k direct=1 ioengine=libaio iodepth={depth}");
            let mut data = fio_run(&[&options], |_, _| vec![("throughput", 4e8)]);
            with_work(&mut data, &[("dm-0", 0, 0, 9000, 36 << 20, 900), ("sda", 0, 0, 9000, 36 << 20, 900)]);
            with_thread(&mut data, "kworker/u8:1-kcryptd", Role::Crypt, used_ms);
            let mut machine = with_crypt(false, "aes-xts-plain64", 512, &[]);
            machine.devices[1].queue.as_mut().unwrap().physical_block = Some(Bytes::new(4096));
            let cpus = vec![(0, CpuUsage { system: busy, ..CpuUsage::default() })];
            let usages = [(data.trials[0].key.clone(), Usage { cpus, ..Usage::default() })];
            let summary = summarise(&data, None);
            let case = Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) };
            (RULE.run)(&case).len()
        };
        assert_eq!([of(1, 310, 0.4), of(4, 310, 0.4), of(4, 310, 0.95)], [1, 0, 1]);
    }
}
