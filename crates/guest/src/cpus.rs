//! The CPUs beside the first, which a lab's kernel does not start itself (`maxcpus=1`).

use crate::error::{Doing, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Of the kernel's Documentation/ABI/testing/sysfs-devices-system-cpu: `cpuN/online` of each CPU that can be
/// switched.
const CPUS: &str = "/sys/devices/system/cpu";

/// Starts all that are there, in their order.
pub(super) fn start_all() -> Result<()> {
    start_below(Path::new(CPUS))
}

fn start_below(folder: &Path) -> Result<()> {
    let entries = fs::read_dir(folder).doing(|| format!("list `{}`", folder.display()))?;
    let mut cpus: Vec<(u32, PathBuf)> = entries.filter_map(|entry| switch(&entry.ok()?.path())).collect();
    cpus.sort_unstable();
    for (cpu, online) in cpus {
        fs::write(online, "1").doing(|| format!("start CPU {cpu}"))?;
    }
    Ok(())
}

/// The number of a CPU and its switch, where it has one.
fn switch(folder: &Path) -> Option<(u32, PathBuf)> {
    let number = folder.file_name()?.to_str()?.strip_prefix("cpu")?.parse().ok()?;
    let online = folder.join("online");
    online.exists().then_some((number, online))
}
