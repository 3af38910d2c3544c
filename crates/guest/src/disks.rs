//! The disks of a lab machine get their names: `sda` is the study's first, `sdb` the next.
//!
//! The kernel gives names in the order in which its probes happen to run, which is not always that of the
//! disks (`PROBE_PREFER_ASYNCHRONOUS` of `drivers/scsi/sd.c`). So they are found while nothing is probed, and
//! probed one after the other.

use crate::error::{Doing, Result};
use std::fs;
use std::path::Path;

const AUTOMATIC: &str = "/sys/bus/scsi/drivers_autoprobe";
const PROBE: &str = "/sys/bus/scsi/drivers_probe";
const DEVICES: &str = "/sys/bus/scsi/devices";
const SCAN: &str = "/sys/module/scsi_mod/parameters/scan";
const HOSTS: &str = "/sys/class/scsi_host";

/// Has the controllers' modules loaded, and gives the disks their names in the order of the controllers. What
/// comes later is found and probed when it comes.
pub(super) fn name_in_order(load_modules: impl FnOnce()) -> Result<()> {
    let knows_scsi = Path::new(AUTOMATIC).exists() && Path::new(SCAN).exists();
    if !knows_scsi {
        load_modules();
        return Ok(());
    }
    let as_usual = fs::read_to_string(SCAN).doing(|| format!("read `{SCAN}`"))?;
    write(SCAN, "manual")?;
    write(AUTOMATIC, "0")?;
    load_modules();
    for host in names(HOSTS)? {
        // A controller has one disk. To ask for 255 others would take a second on a busy host, for each.
        write(&format!("{HOSTS}/{host}/scan"), "0 0 0")?;
    }
    let mut disks: Vec<([u32; 4], String)> =
        names(DEVICES)?.into_iter().filter_map(|name| Some((address(&name)?, name))).collect();
    disks.sort_unstable();
    for (_, disk) in disks {
        write(PROBE, &disk)?;
    }
    write(AUTOMATIC, "1")?;
    write(SCAN, as_usual.trim())
}

fn names(folder: &str) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).doing(|| format!("list `{folder}`"))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
}

fn write(file: &str, value: &str) -> Result<()> {
    fs::write(file, value).doing(|| format!("write `{value}` to `{file}`"))
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
