//! The device reads much more than the tool asks for: read-ahead fetches what nobody needs.
//!
//! Sources: mm/readahead.c (`page_cache_sync_ra`), mm/filemap.c (`do_sync_mmap_readahead`);
//! `Documentation/ABI/stable/sysfs-block` (`read_ahead_kb`).

use super::Rule;
use super::next_step::{UNTUNE, tune_command};
use super::page_cache::{read_by_device, read_by_tool};
use crate::facts::case::{Case, CaseCell, evidence};
use domain::finding::{Confidence, Finding, Remedy};
use domain::setting::{SettingName, SettingRequest};
use domain::units::{Bytes, Unit, significant};

pub(super) const RULE: Rule = Rule {
    name: "read-ahead-too-large",
    doc: "Read-ahead reads much more from the device than the workload asks for.",
    needs: "what the tool read, and what the device read in its trials; the device's window in the inventory",
    source: "mm/readahead.c (`page_cache_sync_ra`), mm/filemap.c (`do_sync_mmap_readahead`)",
    yields_to: &["read-ahead"],
    run,
};

/// Metadata, a filesystem's blocks and a window's end stay below it.
const MIN_TIMES: f64 = 1.5;

/// A window that the kernel chose itself is left alone: it may be what makes reads in order fast.
const DEFAULT_WINDOW: Bytes = Bytes::from_kib(128);

fn run(case: &Case<'_>) -> Vec<Finding> {
    let cells = case.cells();
    let found = cells.iter().filter_map(|cell| Some((cell, wasted(case, cell)?)));
    let most = found.max_by(|(_, a), (_, b)| a.times.total_cmp(&b.times));
    most.map(|(cell, wasted)| finding(cell, &wasted)).into_iter().collect()
}

struct Wasted<'c> {
    device: &'c str,
    window: Bytes,
    tool: f64,
    read: f64,
    times: f64,
}

fn wasted<'c>(case: &Case<'_>, cell: &'c CaseCell<'_>) -> Option<Wasted<'c>> {
    let profile = cell.profile();
    // Reads beside writes may be those of an array or a filesystem; reads in order want a window.
    let is_meant = !profile.is_direct() && !profile.writes() && !profile.reads_in_order();
    let device = cell.device().filter(|_| is_meant && cell.is_fio())?;
    let window = case.inventory?.device(device)?.queue.as_ref()?.read_ahead;
    let window = window.filter(|window| *window > DEFAULT_WINDOW)?;
    let tool = cell.median_of(|m| read_by_tool(m, cell)).filter(|bytes| *bytes > 0.0)?;
    let read = cell.median_of(|m| read_by_device(m, Some(device)))?;
    let times = read / tool;
    (times >= MIN_TIMES).then_some(Wasted { device, window, tool, read, times })
}

fn finding(cell: &CaseCell<'_>, wasted: &Wasted<'_>) -> Finding {
    let Wasted { device, window, tool, read, times } = wasted;
    let bytes = |value: &f64| Bytes::new(*value as u64).to_string();
    let smaller = SettingRequest {
        setting: SettingName { name: "read_ahead_kb".into(), object: Some((*device).into()) },
        value: (DEFAULT_WINDOW.get() >> 10).to_string(),
    };
    Finding {
        rule: RULE.name,
        title: format!("{device} reads {} times what {} asks for: read-ahead fetches the rest", significant(*times), cell.named()),
        reason: "The kernel reads up to a window ahead where reads look as if they were in order, and around each page of a mapped \
file. Random reads use little of it. The device is busy with the rest, and the rest takes room in the page cache."
            .into(),
        evidence: vec![
            evidence("read by the tool in a trial, median", bytes(tool), cell.source()),
            evidence(format!("read from {device} meanwhile"), bytes(read), "/proc/diskstats"),
            evidence("read-ahead window", window.to_string(), format!("/sys/block/{device}/queue/read_ahead_kb")),
            evidence(
                "read from the device a second",
                Unit::BytesPerSecond.show(cell.did(device).map_or(0.0, |did| did.read)),
                "/proc/diskstats",
            ),
        ],
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(Remedy {
            what: "try the kernel's own window, or `posix_fadvise(POSIX_FADV_RANDOM)` in the application; reads in order become \
slower with it"
                .into(),
            settings: vec![smaller.clone()],
            undo: UNTUNE.into(),
        }),
        next: tune_command(&smaller),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::summary::RunData;
    use domain::Nanos;
    use domain::inventory::Inventory;

    fn machine(window: Bytes) -> Inventory {
        let mut machine = bare_machine();
        machine.devices[0].queue.as_mut().unwrap().read_ahead = Some(window);
        machine
    }

    /// Trials of a second that ask for 10 MB, for which the device reads so much.
    fn reads(options: &str, read: u64) -> RunData {
        let mut data = fio_run(&[options], |_, _| vec![("throughput", 1e7), ("read_throughput", 1e7)]);
        with_device_reads(&mut data, "vda", read, Nanos::from_millis(900));
        data
    }

    const RANDOM: &str = "rw=randread bs=4k";

    #[test]
    fn a_device_that_reads_what_nobody_asks_for_is_found() {
        let machine = machine(Bytes::from_mib(4));
        let found = findings(RULE, &reads(RANDOM, 40_000_000), Some(&machine), Some("vda")).swap_remove(0);
        assert_eq!(found.title, "vda reads 4.00 times what w0 asks for: read-ahead fetches the rest");
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "read_ahead_kb@vda = 128");
    }

    #[test]
    fn reads_that_are_used_in_order_direct_or_with_the_kernels_window_are_no_finding() {
        let large = machine(Bytes::from_mib(4));
        let of =
            |options, read, machine| findings(RULE, &reads(options, read), Some(machine), Some("vda")).len();
        assert_eq!(of(RANDOM, 11_000_000, &large), 0);
        assert_eq!(of("rw=read bs=4k", 40_000_000, &large), 0);
        assert_eq!(of("rw=randread bs=4k direct=1", 40_000_000, &large), 0);
        assert_eq!(of(RANDOM, 40_000_000, &machine(Bytes::from_kib(128))), 0);
    }

    #[test]
    fn without_the_window_or_the_disks_nothing_is_said() {
        assert!(findings(RULE, &reads(RANDOM, 40_000_000), None, Some("vda")).is_empty());
        let data = fio_run(&[RANDOM], |_, _| vec![("read_throughput", 1e7)]);
        assert!(findings(RULE, &data, Some(&machine(Bytes::from_mib(4))), Some("vda")).is_empty());
    }
}
