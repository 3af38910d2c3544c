//! The disks of a lab machine get their names: `sda` is the study's first, `sdb` the next.
//!
//! The kernel gives names in the order in which its probes happen to run, which is not always that of the disks
//! (`PROBE_PREFER_ASYNCHRONOUS` of `drivers/scsi/sd.c`). So they are found while nothing is probed, and probed one after
//! the other.

use anyhow::{Context, Result};
use std::fs;

const AUTOMATIC: &str = "/sys/bus/scsi/drivers_autoprobe";
const PROBE: &str = "/sys/bus/scsi/drivers_probe";
const DEVICES: &str = "/sys/bus/scsi/devices";

/// Until [`name`], the kernel probes no disk that it finds.
pub(super) fn hold() -> Result<()> {
    fs::write(AUTOMATIC, "0").with_context(|| format!("cannot write `{AUTOMATIC}`"))
}

/// Has the disks that were found probed, in the order of their addresses; what comes later is probed when it comes.
pub(super) fn name() -> Result<()> {
    let entries = fs::read_dir(DEVICES).with_context(|| format!("cannot list `{DEVICES}`"))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut disks: Vec<([u32; 4], String)> = names.filter_map(|name| Some((address(&name)?, name))).collect();
    disks.sort_unstable();
    for (_, disk) in disks {
        fs::write(PROBE, &disk).with_context(|| format!("cannot have the disk {disk} probed"))?;
    }
    fs::write(AUTOMATIC, "1").with_context(|| format!("cannot write `{AUTOMATIC}`"))
}

/// Host, channel, target and unit of `0:0:0:0`; none for a host's or a target's own entry.
fn address(name: &str) -> Option<[u32; 4]> {
    let numbers: Option<Vec<u32>> = name.split(':').map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_told_from_hosts_and_targets_and_ordered_by_number() {
        assert_eq!(address("10:0:2:1"), Some([10, 0, 2, 1]));
        assert_eq!((address("host0"), address("target0:0:0")), (None, None));
        assert!(address("10:0:0:0") > address("9:0:0:0"));
    }
}
