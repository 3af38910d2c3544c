//! Block devices and filesystems.

use crate::units::{Bytes, Ratio};
use serde::{Deserialize, Serialize};

/// A block device: `/sys/class/block/NAME`, `Documentation/ABI/stable/sysfs-block`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockDevice {
    /// `nvme0n1`, `md127`, `dm-0`.
    pub name: String,
    /// What it is, with what is known of that kind alone.
    pub kind: BlockKind,
    /// The devices directly below it: a partition's disk, an array's members, a mapping's devices.
    pub built_of: Vec<String>,
    /// `major:minor`.
    pub number: Option<String>,
    /// Its size.
    #[serde(rename = "size_bytes")]
    pub size: Option<Bytes>,
    /// Whether it refuses writes.
    pub read_only: Option<bool>,
    /// Whether its medium can be taken out.
    pub removable: Option<bool>,
    /// What carries it: `nvme`, `sata`, `scsi`, `usb`, `virtio`, `mmc`, `nbd`.
    pub transport: Option<String>,
    /// The vendor's name of the model.
    pub model: Option<String>,
    /// Its serial number, where it can be read.
    pub serial: Option<String>,
    /// Its world-wide name.
    pub wwn: Option<String>,
    /// Its request queue; `None` for a partition, whose disk has it.
    pub queue: Option<Queue>,
    /// Where a partition begins on its disk.
    #[serde(rename = "start_bytes")]
    pub start: Option<Bytes>,
    /// What an NVMe, SATA or USB disk is connected by.
    pub link: Option<Link>,
    /// The memory node that an NVMe disk is attached to; `None` also where the kernel knows none.
    pub node: Option<u32>,
}

/// A kind of link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// `Documentation/ABI/testing/sysfs-bus-pci` (`current_link_speed` and its neighbours).
    #[default]
    Pcie,
    /// `Documentation/ABI/testing/sysfs-ata`.
    Sata,
    /// `Documentation/ABI/stable/sysfs-bus-usb`.
    Usb,
}

/// The link that a disk is connected by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Of which kind; files of earlier versions have PCIe alone.
    #[serde(default)]
    pub kind: LinkKind,
    /// In transfers a second of each lane, in millions: `8000` of `8.0 GT/s PCIe`, `6000` of `6.0 Gbps`.
    #[serde(rename = "speed_mt")]
    pub speed: u32,
    /// The most that both ends can; of SATA and USB the disk's end.
    #[serde(rename = "most_speed_mt")]
    pub most_speed: u32,
    /// Lanes.
    pub width: u32,
    /// The most lanes that the device has.
    pub most_width: u32,
}

impl Link {
    /// Bytes a second that the line code leaves, one way; packets take some of them.
    pub fn bytes_a_second(&self) -> f64 {
        self.rate(self.speed, self.width)
    }

    /// The same of the device's full speed and width.
    pub fn most_bytes_a_second(&self) -> f64 {
        self.rate(self.most_speed, self.most_width)
    }

    /// PCIe: 8b/10b up to 5 GT/s, 128b/130b from 8 GT/s on (PCI Express Base Specification 3.0, 4.2). SATA:
    /// 8b/10b (Serial ATA 3.0, 9.2). USB: 13 packets of 512 bytes in each of 8,000 microframes (USB 2.0,
    /// table 5-10); 8b/10b at 5 Gbit/s, 128b/132b above (USB 3.1, 6.3.1).
    fn rate(&self, speed_mt: u32, width: u32) -> f64 {
        let code = match (self.kind, speed_mt) {
            (LinkKind::Usb, ..=480) => return f64::from(speed_mt) / 480.0 * 13.0 * 512.0 * 8000.0,
            (LinkKind::Sata, _) | (_, ..=5000) => 0.8,
            (LinkKind::Pcie, _) => 128.0 / 130.0,
            (LinkKind::Usb, _) => 128.0 / 132.0,
        };
        f64::from(speed_mt) * 1e6 * code / 8.0 * f64::from(width)
    }
}

/// A kind of block device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// A whole disk, real or virtual.
    Disk,
    /// A partition.
    Partition,
    /// An md array.
    Md(Box<Md>),
    /// A device-mapper device.
    DeviceMapper(Box<DeviceMapper>),
    /// A loop device.
    Loop(Box<Loop>),
    /// Compressed memory (zram) or a RAM disk.
    Memory,
    /// A CD or DVD drive.
    Optical,
}

/// A request queue: `/sys/block/NAME/queue`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Whether it says it has spinning platters.
    pub rotational: Option<bool>,
    /// The scheduler in force.
    pub scheduler: Option<String>,
    /// All that could be chosen.
    pub available_schedulers: Vec<String>,
    /// `read_ahead_kb`.
    #[serde(rename = "read_ahead_bytes")]
    pub read_ahead: Option<Bytes>,
    /// `nr_requests`.
    pub nr_requests: Option<u32>,
    /// `max_sectors_kb`: the largest request the kernel will make.
    #[serde(rename = "max_request_bytes")]
    pub max_request: Option<Bytes>,
    /// What the kernel believes of the device's cache.
    pub write_cache: Option<WriteCache>,
    /// `logical_block_size`.
    #[serde(rename = "logical_block_bytes")]
    pub logical_block: Option<Bytes>,
    /// `physical_block_size`.
    #[serde(rename = "physical_block_bytes")]
    pub physical_block: Option<Bytes>,
    /// `optimal_io_size`: a stripe, where the device knows one.
    #[serde(rename = "optimal_io_bytes")]
    pub optimal_io: Option<Bytes>,
    /// `zoned`: `host-aware` or `host-managed`; `None` for a device without zones.
    pub zoned: Option<String>,
    /// Hardware queues: folders of `mq`.
    pub hardware_queues: Option<u32>,
    /// `device/queue_depth`: how many requests a SCSI device takes at once; `None` of every other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_depth: Option<u32>,
}

/// `queue/write_cache`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteCache {
    /// Volatile: the kernel sends flushes.
    WriteBack,
    /// None, or one that survives: the kernel sends no flush.
    WriteThrough,
}

/// An md array: `Documentation/admin-guide/md.rst`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Md {
    /// `raid10`.
    pub level: Option<String>,
    /// `near=2`, `left-symmetric`: the layout word in words.
    pub layout: Option<String>,
    /// Size of a chunk.
    #[serde(rename = "chunk_bytes")]
    pub chunk: Option<Bytes>,
    /// Metadata version: `1.2`.
    pub metadata: Option<String>,
    /// `array_state`: `clean`, `active`, `readonly`, …
    pub state: Option<String>,
    /// `sync_action`: `idle`, `resync`, `recover`, `check`, …; `None` for a level without redundancy.
    pub sync_action: Option<String>,
    /// How far that is.
    pub sync_done: Option<Ratio>,
    /// Devices that are missing.
    pub degraded: Option<u32>,
    /// Devices that it should have.
    pub raid_disks: Option<u32>,
    /// `bitmap/location`: `none`, `file`, or an offset in sectors such as `+8`.
    pub bitmap: Option<String>,
    /// What one bit of the bitmap stands for.
    #[serde(rename = "bitmap_chunk_bytes")]
    pub bitmap_chunk: Option<Bytes>,
    /// Stripe heads in the cache (RAID 4, 5, 6).
    pub stripe_cache_size: Option<u32>,
    /// Worker threads for stripes; 0: the array's one thread does it all (RAID 4, 5, 6).
    pub group_thread_count: Option<u32>,
    /// `consistency_policy`: `resync`, `bitmap`, `journal`, `ppl`, `none`.
    pub consistency_policy: Option<String>,
    /// Its devices, by slot, spares last.
    pub members: Vec<MdMember>,
}

/// A device of an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MdMember {
    /// `sdb1`.
    pub device: String,
    /// Its place; `None` for a spare or a journal.
    pub slot: Option<u32>,
    /// `in_sync`, `spare`, `faulty`, `journal`, `write_mostly`, `blocked`, …
    pub state: Vec<String>,
}

impl MdMember {
    /// Whether it is a spare: in the array, without a place.
    pub fn is_spare(&self) -> bool {
        self.slot.is_none() && self.state.iter().any(|s| s == "spare")
    }
}

/// A device-mapper device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceMapper {
    /// The name under `/dev/mapper`.
    pub name: Option<String>,
    /// Who made it, from its UUID: `CRYPT-LUKS2`, `LVM`, `mpath`, …; `None` where it has no UUID.
    pub owner: Option<String>,
    /// Its targets in order, each once: `crypt`, `linear`, `striped`; empty where the table could not be
    /// read.
    pub targets: Vec<String>,
    /// What the crypt target does, where there is one.
    pub crypt: Option<Crypt>,
    /// Whether it is suspended.
    pub suspended: Option<bool>,
}

/// A dm-crypt target: `Documentation/admin-guide/device-mapper/dm-crypt.rst`. The key is never read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crypt {
    /// `aes-xts-plain64`.
    pub cipher: String,
    /// Length of the key; `None` where the table does not tell it.
    #[serde(rename = "key_bytes")]
    pub key: Option<Bytes>,
    /// Size of an encryption sector.
    #[serde(rename = "sector_bytes")]
    pub sector: Bytes,
    /// `allow_discards`, `no_read_workqueue`, `same_cpu_crypt`, …
    pub flags: Vec<String>,
}

/// A loop device: losetup(8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loop {
    /// The file behind it.
    pub backing_file: Option<String>,
    /// Where it begins in that file.
    #[serde(rename = "offset_bytes")]
    pub offset: Option<Bytes>,
    /// Whether it goes around the page cache of the file below.
    pub direct_io: Option<bool>,
}

/// A mounted filesystem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// What is mounted: `/dev/nvme0n1p3`, `server:/export`.
    pub source: String,
    /// Where.
    pub mountpoint: String,
    /// `ext4`.
    pub filesystem: String,
    /// In the kernel's order.
    pub options: Vec<String>,
    /// The block device, where it is on one that was found.
    pub device: Option<String>,
    /// How ext3 and ext4 treat data; `None` for other filesystems, and where nothing tells the default in
    /// force.
    pub journal: Option<JournalMode>,
}

/// `data=` of ext4(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalMode {
    /// Data goes to its place before the metadata is committed: the kernel's default.
    Ordered,
    /// Data is written twice: into the journal and then to its place.
    Journal,
    /// Data is not ordered against metadata.
    Writeback,
    /// The filesystem has no journal.
    Off,
}

impl JournalMode {
    /// As in the mount option.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::Journal => "journal",
            Self::Writeback => "writeback",
            Self::Off => "off",
        }
    }
    /// The mode of such a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Ordered, Self::Journal, Self::Writeback, Self::Off].into_iter().find(|m| m.name() == name)
    }
}
