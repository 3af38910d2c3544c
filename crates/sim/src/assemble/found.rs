//! A cell's storage as `flyball inspect` would see it: block devices and mounts, with the names that the
//! machine's traces have.
//!
//! Sources: `Documentation/ABI/stable/sysfs-block`; `Documentation/admin-guide/md.rst`;
//! `Documentation/admin-guide/device-mapper/dm-crypt.rst`.

use crate::block::{QueueSpec, Scheduler};
use crate::md::{ArraySpec, BitmapSpec, ParitySpec};
use disks::DiskSpec;
use disks::spec::MediumSpec;
use domain::inventory::{
    BlockDevice, BlockKind, Crypt, DeviceMapper, JournalMode, Md, MdMember, Mount, Queue, WriteCache,
};
use domain::stack::{self, Bitmap, Filesystem, FilesystemKind, MdLevel};
use domain::units::Bytes;

/// A sector of the kernel's, and the smallest block of a device.
const SECTOR: Bytes = Bytes::new(512);

fn device(name: &str, kind: BlockKind, built_of: Vec<String>, size: Bytes, queue: Queue) -> BlockDevice {
    BlockDevice {
        name: name.to_owned(),
        kind,
        built_of,
        number: None,
        size: Some(size),
        read_only: Some(false),
        removable: Some(false),
        transport: None,
        model: None,
        serial: None,
        wwn: None,
        queue: Some(queue),
        start: None,
        link: None,
        node: None,
    }
}

/// A disk of the bank.
pub(super) fn disk(name: &str, spec: &DiskSpec, queue: &QueueSpec, read_ahead: Bytes) -> BlockDevice {
    let (rotates, is_volatile) = match &spec.medium {
        MediumSpec::Hdd(hdd) => (true, hdd.write_buffer.get() > 0),
        MediumSpec::Ssd(ssd) => (false, !ssd.power_loss_protection),
    };
    let scheduler = match queue.scheduler {
        Scheduler::None => "none",
        Scheduler::MqDeadline => "mq-deadline",
    };
    let found = Queue {
        rotational: Some(rotates),
        scheduler: Some(scheduler.to_owned()),
        available_schedulers: vec!["none".to_owned(), "mq-deadline".to_owned()],
        read_ahead: Some(read_ahead),
        max_request: Some(Bytes::new(queue.most_bytes)),
        write_cache: Some(if is_volatile { WriteCache::WriteBack } else { WriteCache::WriteThrough }),
        logical_block: Some(spec.logical_block),
        physical_block: Some(spec.physical_block),
        ..Queue::default()
    };
    let disk = device(name, BlockKind::Disk, Vec::new(), spec.capacity, found);
    BlockDevice { model: Some(spec.model.clone()), ..disk }
}

/// A null_blk device.
pub(super) fn memory(name: &str, size: Bytes, read_ahead: Bytes) -> BlockDevice {
    let queue = Queue {
        rotational: Some(false),
        scheduler: Some("none".to_owned()),
        read_ahead: Some(read_ahead),
        write_cache: Some(WriteCache::WriteThrough),
        logical_block: Some(SECTOR),
        physical_block: Some(SECTOR),
        ..Queue::default()
    };
    device(name, BlockKind::Disk, Vec::new(), size, queue)
}

/// An encrypted volume.
pub(super) fn crypt(
    name: &str,
    layer: &str,
    options: &stack::Crypt,
    built_of: Vec<String>,
    size: Bytes,
    read_ahead: Bytes,
) -> BlockDevice {
    let flags = [
        ("no_read_workqueue", options.no_read_workqueue),
        ("no_write_workqueue", options.no_write_workqueue),
        ("same_cpu_crypt", options.same_cpu),
        ("submit_from_crypt_cpus", options.submit_from_crypt),
    ];
    let sector = Bytes::new(options.sector_size.into());
    let crypt = Crypt {
        cipher: options.cipher.clone(),
        key: Some(Bytes::new(u64::from(options.key_size) / 8)),
        sector,
        flags: flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name.to_owned()).collect(),
    };
    let mapping = DeviceMapper {
        name: Some(layer.to_owned()),
        owner: Some(format!("CRYPT-{}", options.kind.name().to_uppercase())),
        targets: vec!["crypt".to_owned()],
        crypt: Some(crypt),
        suspended: Some(false),
    };
    let queue = Queue { logical_block: Some(sector), read_ahead: Some(read_ahead), ..Queue::default() };
    device(name, BlockKind::DeviceMapper(Box::new(mapping)), built_of, size, queue)
}

/// A logical volume.
pub(super) fn volume(name: &str, layer: &str, built_of: Vec<String>, size: Bytes) -> BlockDevice {
    let mapping = DeviceMapper {
        name: Some(layer.to_owned()),
        owner: Some("LVM".to_owned()),
        targets: Vec::new(),
        crypt: None,
        suspended: Some(false),
    };
    device(name, BlockKind::DeviceMapper(Box::new(mapping)), built_of, size, Queue::default())
}

/// An array over these devices; those that are missing are the last.
pub(super) fn array(
    spec: &ArraySpec,
    options: &stack::Md,
    below: Vec<String>,
    parity: Option<&ParitySpec>,
    read_ahead: Bytes,
) -> BlockDevice {
    let geometry = &spec.geometry;
    let there = spec.members.iter().filter(|member| member.is_some()).count();
    let rebuilt = options.missing > 0 && there == spec.members.len();
    let is_synchronised = options.resync == stack::Resync::Background;
    let action = match (is_synchronised, rebuilt) {
        (true, true) => "recover",
        (true, false) => "resync",
        (false, _) => "idle",
    };
    let missing = spec.members.len() - there;
    let has_redundancy = !matches!(options.level, MdLevel::Linear | MdLevel::Raid0);
    let member = |(slot, device): (usize, &String)| MdMember {
        device: device.clone(),
        slot: Some(slot as u32),
        state: vec!["in_sync".to_owned()],
    };
    let md = Md {
        level: Some(match options.level {
            MdLevel::Linear => "linear".to_owned(),
            level => format!("raid{}", level.name()),
        }),
        layout: layout(options),
        chunk: geometry.chunk(),
        state: Some("active".to_owned()),
        sync_action: has_redundancy.then(|| action.to_owned()),
        degraded: Some(missing as u32),
        raid_disks: Some(geometry.members()),
        bitmap: Some(if options.bitmap == Bitmap::None { "none" } else { "+8" }.to_owned()),
        bitmap_chunk: BitmapSpec::of(options).map(|bitmap| bitmap.chunk),
        stripe_cache_size: parity.map(|parity| parity.stripe_cache_size),
        group_thread_count: parity.map(|parity| parity.group_threads),
        members: below.iter().take(there).enumerate().map(member).collect(),
        ..Md::default()
    };
    let queue = Queue {
        read_ahead: Some(read_ahead),
        optimal_io: geometry
            .chunk()
            .map(|chunk| Bytes::new(chunk.get() * u64::from(geometry.data_members()))),
        ..Queue::default()
    };
    device(&spec.name, BlockKind::Md(Box::new(md)), below, geometry.size(), queue)
}

/// In the inventory's words.
fn layout(options: &stack::Md) -> Option<String> {
    let given = options.layout.as_deref();
    match options.level {
        MdLevel::Raid10 => {
            let given = given.unwrap_or("n2");
            let kind = match given.as_bytes().first()? {
                b'f' => "far",
                b'o' => "offset",
                _ => "near",
            };
            Some(format!("{kind}={}", given.get(1..)?))
        }
        level if level.has_parity() => Some(given.unwrap_or("left-symmetric").to_owned()),
        _ => None,
    }
}

/// A mounted filesystem.
pub(super) fn mount(device: &str, options: &Filesystem) -> Mount {
    let journals = matches!(options.kind, FilesystemKind::Ext3 | FilesystemKind::Ext4);
    let given = options.data.and_then(|data| JournalMode::from_name(data.name()));
    let mode = journals.then(|| given.unwrap_or(JournalMode::Ordered));
    let data = mode.map(|mode| format!("data={}", mode.name()));
    Mount {
        source: format!("/dev/{device}"),
        mountpoint: "/mnt".to_owned(),
        filesystem: options.kind.name().to_owned(),
        options: ["rw".to_owned()].into_iter().chain(options.mount.iter().cloned()).chain(data).collect(),
        device: Some(device.to_owned()),
        journal: mode,
    }
}
