//! Mounted filesystems.

use super::Error;
use super::reader::Reader;
use domain::inventory::{BlockDevice, BlockKind, JournalMode, Mount};
use parse::kernel::ext4;
use parse::kernel::mounts::{self, MountLine};
use std::collections::BTreeMap;

/// Filesystems that hold nothing of the user's: views of the kernel.
const VIEWS: [&str; 25] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fuse.lxcfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nfsd",
    "nsfs",
    "proc",
    "pstore",
    "ramfs",
    "resctrl",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
];

/// Where a tmpfs belongs to the system rather than to the user.
const SYSTEM_FOLDERS: [&str; 4] = ["/dev", "/proc", "/run", "/sys"];

pub(super) fn take(reader: &Reader, devices: &[BlockDevice]) -> Result<Vec<Mount>, Error> {
    let lines = reader.parsed("/proc/mounts", mounts::parse)?.unwrap_or_default();
    let by_mountpoint =
        |text: &str| mounts::mountinfo(text).map(|m| m.map(|m| (m.mountpoint, m.number))).collect();
    let numbers: BTreeMap<_, _> = reader.parsed("/proc/self/mountinfo", by_mountpoint)?.unwrap_or_default();
    let mut found: Vec<Mount> = Vec::new();
    for line in lines.into_iter().filter(holds_data) {
        // A later mount covers an earlier one of the same place.
        found.retain(|m| m.mountpoint != line.mountpoint);
        found.push(mount(reader, line, &numbers, devices));
    }
    Ok(found)
}

fn holds_data(line: &MountLine) -> bool {
    let of_system = SYSTEM_FOLDERS.iter().any(|folder| line.mountpoint.starts_with(folder));
    let empty = line.options.iter().any(|o| o == "ro");
    !VIEWS.contains(&line.filesystem.as_str()) && (line.filesystem != "tmpfs" || !(of_system || empty))
}

fn mount(
    reader: &Reader,
    line: MountLine,
    numbers: &BTreeMap<String, String>,
    devices: &[BlockDevice],
) -> Mount {
    let number = numbers.get(&line.mountpoint);
    let by_number = devices.iter().find(|d| d.number.is_some() && d.number.as_ref() == number);
    let device = by_number.or_else(|| devices.iter().find(|d| is_named(d, &line.source)));
    let device = device.map(|d| d.name.clone());
    Mount {
        journal: journal(reader, &line, device.as_deref()),
        source: line.source,
        mountpoint: line.mountpoint,
        filesystem: line.filesystem,
        options: line.options,
        device,
    }
}

fn is_named(device: &BlockDevice, source: &str) -> bool {
    let Some(name) = source.strip_prefix("/dev/") else { return false };
    match (&device.kind, name.strip_prefix("mapper/")) {
        (BlockKind::DeviceMapper(dm), Some(mapped)) => dm.name.as_deref() == Some(mapped),
        _ => device.name == name,
    }
}

/// The kernel shows the mode among all options of the filesystem. `/proc/mounts` shows it only where it is
/// not the default that the filesystem itself carries, so its silence says nothing.
fn journal(reader: &Reader, line: &MountLine, device: Option<&str>) -> Option<JournalMode> {
    if !["ext3", "ext4"].contains(&line.filesystem.as_str()) {
        return None;
    }
    let option = line.options.iter().find_map(|o| JournalMode::from_name(o.strip_prefix("data=")?));
    let name = device.or(line.source.strip_prefix("/dev/"));
    option
        .or_else(|| reader.text(&format!("/proc/fs/ext4/{}/options", name?)).map(|text| ext4::journal(&text)))
}
