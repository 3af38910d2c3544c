//! What is usual for a kind of device, to put beside what `flyball check` measured: a table by device class.
//!
//! The figures are orders of magnitude for a reader who has none in mind. They are no verdict on a device: a
//! filesystem, an array, a hypervisor and other work stand between a device and what is measured here. Each
//! row names its source, or says `assumed`.
//!
//! Not a goal: models of devices. Those are in the crate `disks`.

use domain::inventory::{BlockDevice, BlockKind, Inventory, WriteCache};
use std::collections::BTreeSet;

/// A kind of device, as far as the kernel shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceClass {
    /// Spinning platters.
    Disk,
    /// Flash behind SATA or SAS.
    SataSsd,
    /// Flash behind NVMe, with a volatile write cache.
    NvmeConsumer,
    /// Flash behind NVMe that needs no flush: its cache survives a power loss.
    NvmeProtected,
    /// A disk of a virtual machine, a loop device, a network block device.
    Virtual,
}

impl DeviceClass {
    /// In words, after `for`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disk => "a disk of 7200 rpm",
            Self::SataSsd => "a SATA SSD",
            Self::NvmeConsumer => "a consumer NVMe SSD",
            Self::NvmeProtected => "an NVMe SSD with power-loss protection",
            Self::Virtual => "a virtual disk",
        }
    }
}

/// A bound on the layers between a target and its disks.
const MAX_LAYERS: usize = 16;

/// The class of the disks below a device, where all are of one; `None` where they are not, or nothing tells.
pub fn class_of(inventory: &Inventory, device: &str) -> Option<DeviceClass> {
    let mut level = vec![inventory.device(device)?];
    for _ in 0..MAX_LAYERS {
        if level.iter().all(|device| device.built_of.is_empty()) {
            break;
        }
        level = level.into_iter().flat_map(|device| below(inventory, device)).collect();
    }
    let is_guest = inventory.is_virtual() == Some(true);
    let classes: Option<BTreeSet<DeviceClass>> =
        level.into_iter().map(|disk| of_disk(disk, is_guest)).collect();
    let classes = classes?;
    classes.first().copied().filter(|_| classes.len() == 1)
}

fn below<'a>(inventory: &'a Inventory, device: &'a BlockDevice) -> Vec<&'a BlockDevice> {
    if device.built_of.is_empty() {
        return vec![device];
    }
    device.built_of.iter().filter_map(|name| inventory.device(name)).collect()
}

fn of_disk(disk: &BlockDevice, is_guest: bool) -> Option<DeviceClass> {
    match disk.kind {
        BlockKind::Loop(_) => return Some(DeviceClass::Virtual),
        BlockKind::Disk => {}
        _ => return None,
    }
    let queue = disk.queue.as_ref()?;
    match disk.transport.as_deref() {
        _ if is_guest => Some(DeviceClass::Virtual),
        Some("virtio" | "nbd") => Some(DeviceClass::Virtual),
        _ if queue.rotational == Some(true) => Some(DeviceClass::Disk),
        Some("nvme") => Some(match queue.write_cache? {
            WriteCache::WriteThrough => DeviceClass::NvmeProtected,
            WriteCache::WriteBack => DeviceClass::NvmeConsumer,
        }),
        Some("sata" | "sas" | "scsi") if queue.rotational == Some(false) => Some(DeviceClass::SataSsd),
        _ => None,
    }
}

/// A range that is usual.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usual {
    /// In the unit of the access: requests or bytes a second.
    pub low: f64,
    /// Likewise.
    pub high: f64,
    /// Where it is from.
    pub source: &'static str,
}

/// What `flyball check` does: which of its cells, how it is called, and what of it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The workload of `studies/check.toml`.
    pub workload: &'static str,
    /// The level of its factor `depth`, where it has one.
    pub depth: Option<&'static str>,
    /// A name of at most twenty characters.
    pub name: &'static str,
    /// The metric that counts.
    pub rate: &'static str,
    /// The metrics of its latency: median, 99th and 99.9th percentile.
    pub latency: [&'static str; 3],
}

const OF_REQUESTS: [&str; 3] = ["latency_p50", "latency_p99", "latency_p999"];
const OF_SYNCS: [&str; 3] = ["sync_latency_p50", "sync_latency_p99", "sync_latency_p999"];

/// All of them, in the order in which they are shown.
pub const ACCESSES: [Access; 10] = [
    access("randread", Some("1"), "4k read, depth 1", "iops", OF_REQUESTS),
    access("randread", Some("32"), "4k read, depth 32", "iops", OF_REQUESTS),
    access("randwrite", Some("1"), "4k write, depth 1", "iops", OF_REQUESTS),
    access("randwrite", Some("32"), "4k write, depth 32", "iops", OF_REQUESTS),
    access("mixed", None, "70/30 mix, depth 16", "iops", OF_REQUESTS),
    access("commit", None, "4k write + fsync", "syncs", OF_SYNCS),
    access("groupcommit", None, "the same, 8 jobs", "syncs", OF_SYNCS),
    access("seqread", None, "1 MiB seq. read", "throughput", OF_REQUESTS),
    access("seqwrite", None, "1 MiB seq. write", "throughput", OF_REQUESTS),
    access("buffered", None, "4k buffered read", "throughput", OF_REQUESTS),
];

const fn access(
    workload: &'static str,
    depth: Option<&'static str>,
    name: &'static str,
    rate: &'static str,
    latency: [&'static str; 3],
) -> Access {
    Access { workload, depth, name, rate, latency }
}

const EXOS: &str = "Seagate, data sheet of the Exos X18: 4.16 ms of rotational latency, 270 MB/s; seeks of 4 to 9 ms assumed";
const EVO: &str = "Samsung, data sheet of the 870 EVO: 13,000 and 36,000 IOPS at depth 1, 98,000 and 88,000 at 32, 560 and 530 MB/s; the lower end assumed";
const FSYNC: &str = "M. Callaghan, SSDs, power loss protection and fsync latency (2026): about 1 to 10 ms without, 12 to 58 µs with protection";
const GP3: &str = "Amazon EBS, gp3: 3,000 to 16,000 IOPS, 125 to 1,000 MiB/s, single-digit milliseconds; faster where a host's own disk is behind";
const EVO_PLUS: &str = "Samsung, data sheet of the 970 EVO Plus: 60,000 IOPS of writes at depth 1, 3,500 and 3,300 MB/s; the rest assumed";
const ASSUMED: &str = "assumed";

/// What is usual for an access on a device of that class; `None` where it says nothing about the device.
pub fn usual(class: DeviceClass, access: &Access) -> Option<Usual> {
    use DeviceClass::{Disk, NvmeConsumer, NvmeProtected, SataSsd, Virtual};
    let (low, high, source) = match (access.workload, access.depth, class) {
        ("randread", Some("1"), Disk) => (60.0, 120.0, EXOS),
        ("randread", Some("1"), SataSsd) => (5e3, 13e3, EVO),
        ("randread", Some("1"), NvmeConsumer) => (10e3, 22e3, ASSUMED),
        ("randread", Some("1"), NvmeProtected) => (9e3, 16e3, ASSUMED),
        ("randread", Some("1"), Virtual) => (500.0, 10e3, GP3),
        ("randread", Some("32"), Disk) => (120.0, 300.0, ASSUMED),
        ("randread", Some("32"), SataSsd) => (50e3, 98e3, EVO),
        ("randread", Some("32"), NvmeConsumer) => (150e3, 450e3, ASSUMED),
        ("randread", Some("32"), NvmeProtected) => (200e3, 400e3, ASSUMED),
        ("randread", Some("32"), Virtual) => (3e3, 100e3, GP3),
        ("randwrite", Some("1"), Disk) => (100.0, 600.0, ASSUMED),
        ("randwrite", Some("1"), SataSsd) => (10e3, 36e3, EVO),
        ("randwrite", Some("1"), NvmeConsumer) => (20e3, 60e3, EVO_PLUS),
        ("randwrite", Some("1"), NvmeProtected) => (30e3, 80e3, ASSUMED),
        ("randwrite", Some("1"), Virtual) => (500.0, 10e3, GP3),
        ("randwrite", Some("32"), Disk) => (100.0, 600.0, ASSUMED),
        ("randwrite", Some("32"), SataSsd) => (30e3, 88e3, EVO),
        ("randwrite", Some("32"), NvmeConsumer) => (100e3, 400e3, ASSUMED),
        ("randwrite", Some("32"), NvmeProtected) => (80e3, 250e3, ASSUMED),
        ("randwrite", Some("32"), Virtual) => (3e3, 100e3, GP3),
        ("commit", _, Disk) => (20.0, 120.0, ASSUMED),
        ("commit", _, SataSsd) => (200.0, 2e3, ASSUMED),
        ("commit", _, NvmeConsumer) => (100.0, 1e3, FSYNC),
        ("commit", _, NvmeProtected) => (10e3, 50e3, FSYNC),
        ("commit", _, Virtual) => (200.0, 3e3, ASSUMED),
        ("seqread" | "seqwrite", _, Disk) => (130e6, 270e6, EXOS),
        ("seqread" | "seqwrite", _, SataSsd) => (400e6, 560e6, EVO),
        ("seqread" | "seqwrite", _, NvmeConsumer) => (1.5e9, 7e9, EVO_PLUS),
        ("seqread" | "seqwrite", _, NvmeProtected) => (1.5e9, 7e9, ASSUMED),
        ("seqread" | "seqwrite", _, Virtual) => (125e6, 3e9, GP3),
        _ => return None,
    };
    Some(Usual { low, high, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES: [DeviceClass; 5] = [
        DeviceClass::Disk,
        DeviceClass::SataSsd,
        DeviceClass::NvmeConsumer,
        DeviceClass::NvmeProtected,
        DeviceClass::Virtual,
    ];

    #[test]
    fn each_range_rises_and_names_where_it_is_from() {
        for class in CLASSES {
            let all: Vec<Usual> = ACCESSES.iter().filter_map(|access| usual(class, access)).collect();
            assert!(all.len() >= 6, "{class:?}");
            assert!(all.iter().all(|usual| usual.low < usual.high && !usual.source.is_empty()), "{class:?}");
        }
    }

    #[test]
    fn names_fit_their_column() {
        assert!(ACCESSES.iter().all(|access| access.name.chars().count() <= 20));
    }
}
