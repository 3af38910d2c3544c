//! The tree of block devices. No machine with md and dm was at hand to record: the trees here are written by
//! hand after `Documentation/admin-guide/md.rst`, `Documentation/ABI/stable/sysfs-block` and dmsetup(8).
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use domain::inventory::{BlockKind, DeviceMapper, Inventory, JournalMode, LinkKind, Loop, Md};
use domain::units::Bytes;
use machine::RecordedMachine;
use std::fs;

const FILES: &str = "\
ro|/sys/devices/system/cpu/online|0-3
ro|/sys/devices/pci0/ata1/host0/block/sda/size|1000
ro|/sys/devices/pci0/ata1/host0/block/sda/dev|8:0
ro|/sys/devices/pci0/ata1/host0/block/sda/removable|0
ro|/sys/devices/pci0/ata1/host0/block/sda/device/vendor|ATA
ro|/sys/devices/pci0/ata1/host0/block/sda/device/model|SAMSUNG SSD
rw|/sys/devices/pci0/ata1/host0/block/sda/queue/scheduler|none [mq-deadline]
rw|/sys/devices/pci0/ata1/host0/block/sda/queue/read_ahead_kb|128
rw|/sys/devices/pci0/ata1/host0/block/sda/queue/rotational|0
rw|/sys/devices/pci0/ata1/host0/block/sda/queue/write_cache|write back
ro|/sys/devices/pci0/ata1/host0/block/sda/queue/zoned|none
ro|/sys/devices/pci0/ata1/host0/block/sda/sda1/partition|1
ro|/sys/devices/pci0/ata1/host0/block/sda/sda1/size|900
ro|/sys/devices/pci0/ata1/host0/block/sda/sda1/dev|8:1
ro|/sys/devices/pci0/ata1/host0/block/sda/sda1/start|63
ro|/sys/class/ata_link/link1/sata_spd|3.0 Gbps
ro|/sys/class/ata_device/dev1.0/id|@ID
ro|/sys/devices/pci0/usb1/1-4/1-4.2/1-4.2:1.0/host1/block/sdb/size|1000
ro|/sys/devices/pci0/usb1/1-4/1-4.2/1-4.2:1.0/host1/block/sdb/removable|1
ro|/sys/bus/usb/devices/1-4/speed|480
ro|/sys/bus/usb/devices/1-4/version|2.00
ro|/sys/bus/usb/devices/1-4.2/speed|480
ro|/sys/bus/usb/devices/1-4.2/version| 2.10
ro|/sys/devices/pci0/nvme/nvme0/nvme0n1/size|2000
ro|/sys/devices/pci0/current_link_speed|8.0 GT/s PCIe
ro|/sys/devices/pci0/max_link_speed|16.0 GT/s PCIe
ro|/sys/devices/pci0/current_link_width|2
ro|/sys/devices/pci0/max_link_width|4
ro|/sys/devices/pci0/numa_node|1
ro|/sys/devices/virtual/block/md127/size|1800
ro|/sys/devices/virtual/block/md127/dev|9:127
rw|/sys/devices/virtual/block/md127/md/level|raid5
rw|/sys/devices/virtual/block/md127/md/layout|2
rw|/sys/devices/virtual/block/md127/md/chunk_size|65536
rw|/sys/devices/virtual/block/md127/md/raid_disks|4 (3)
rw|/sys/devices/virtual/block/md127/md/array_state|clean
rw|/sys/devices/virtual/block/md127/md/sync_action|recover
ro|/sys/devices/virtual/block/md127/md/sync_completed|250 / 1000
ro|/sys/devices/virtual/block/md127/md/degraded|1
rw|/sys/devices/virtual/block/md127/md/stripe_cache_size|256
rw|/sys/devices/virtual/block/md127/md/group_thread_cnt|0
rw|/sys/devices/virtual/block/md127/md/bitmap/location|+8
rw|/sys/devices/virtual/block/md127/md/bitmap/chunksize|67108864
rw|/sys/devices/virtual/block/md127/md/dev-sda1/state|in_sync
rw|/sys/devices/virtual/block/md127/md/dev-sda1/slot|0
rw|/sys/devices/virtual/block/md127/md/dev-sdb/state|spare
rw|/sys/devices/virtual/block/md127/md/dev-sdb/slot|none
ro|/sys/devices/virtual/block/dm-0/size|1700
ro|/sys/devices/virtual/block/dm-0/dev|253:0
ro|/sys/devices/virtual/block/dm-0/dm/name|luks-data
ro|/sys/devices/virtual/block/dm-0/dm/uuid|CRYPT-LUKS2-2f144a9d9f4f4e0e8b0c-data
ro|/sys/devices/virtual/block/dm-0/dm/suspended|0
ro|/sys/devices/virtual/block/loop0/size|100
ro|/sys/devices/virtual/block/loop0/loop/backing_file|/srv/image
ro|/sys/devices/virtual/block/loop0/loop/offset|0
ro|/sys/devices/virtual/block/loop0/loop/dio|1
ro|/sys/devices/virtual/block/loop1/size|0
";

const LINKS: &str = "\
/sys/block/sda|../devices/pci0/ata1/host0/block/sda
/sys/block/sdb|../devices/pci0/usb1/1-4/1-4.2/1-4.2:1.0/host1/block/sdb
/sys/block/nvme0n1|../devices/pci0/nvme/nvme0/nvme0n1
/sys/devices/pci0/nvme/nvme0/nvme0n1/device|../../nvme0
/sys/devices/pci0/nvme/nvme0/device|../..
/sys/block/md127|../devices/virtual/block/md127
/sys/block/dm-0|../devices/virtual/block/dm-0
/sys/block/loop0|../devices/virtual/block/loop0
/sys/block/loop1|../devices/virtual/block/loop1
/sys/devices/virtual/block/md127/slaves/sda1|../../../../pci0/ata1/host0/block/sda/sda1
/sys/devices/virtual/block/md127/slaves/sdb|../../../../pci0/usb1/1-4/1-4.2/1-4.2:1.0/host1/block/sdb
/sys/devices/virtual/block/dm-0/slaves/md127|../../md127
";

const TABLE: &str = "$ dmsetup table\nexit 0\nluks-data: 0 1700 crypt aes-xts-plain64 \
    :64:logon:cryptsetup:2f144a9d-d0 0 9:127 32768 2 sector_size:4096 no_read_workqueue\n";

fn inventory() -> Inventory {
    let folder = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    // Words 0 to 75 of IDENTIFY DEVICE, and that of the speeds.
    put("sys/inlinefiles.txt", &FILES.replace("@ID", &format!("{}850e", "0040 ".repeat(76))));
    put("sys/links.txt", LINKS);
    put("commands/0.txt", TABLE);
    put("proc/mounts", "/dev/mapper/luks-data /srv ext4 rw,data=journal 0 0\n/dev/root / ext4 rw 0 0\n");
    put(
        "proc/self/mountinfo",
        "1 0 8:1 / / rw - ext4 /dev/root rw\n2 1 253:0 / /srv rw - ext4 /dev/dm-0 rw\n",
    );
    put("proc/fs/ext4/sda1/options", "rw\ndata=ordered\n");
    machine::inventory::take(&RecordedMachine::open(folder.path()).unwrap()).unwrap()
}

fn md(inventory: &Inventory) -> Md {
    match &inventory.device("md127").unwrap().kind {
        BlockKind::Md(md) => (**md).clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn devices_stand_on_what_they_are_built_of() {
    let inventory = inventory();
    let tree: Vec<(&str, String)> =
        inventory.devices.iter().map(|d| (d.name.as_str(), d.built_of.join(" "))).collect();
    assert_eq!(
        tree,
        [
            ("dm-0", "md127".into()),
            ("loop0", "dm-0".into()),
            ("md127", "sda1 sdb".into()),
            ("nvme0n1", String::new()),
            ("sda", String::new()),
            ("sda1", "sda".into()),
            ("sdb", String::new()),
        ]
    );
    assert_eq!(inventory.roots().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["nvme0n1", "sda", "sdb"]);
    assert_eq!(inventory.built_on("md127").map(|d| d.name.as_str()).collect::<Vec<_>>(), ["dm-0"]);
}

#[test]
fn a_disk_has_its_queue_and_what_carries_it() {
    let inventory = inventory();
    let disk = inventory.device("sda").unwrap();
    assert_eq!((disk.model.as_deref(), disk.transport.as_deref()), (Some("SAMSUNG SSD"), Some("sata")));
    assert_eq!(inventory.device("sdb").unwrap().transport.as_deref(), Some("usb"));
    let queue = disk.queue.as_ref().unwrap();
    assert_eq!((queue.rotational, queue.read_ahead), (Some(false), Some(Bytes::from_kib(128))));
    assert_eq!((queue.nr_requests, queue.zoned.as_deref()), (None, None));
}

#[test]
fn a_partition_has_its_start_and_an_nvme_disk_its_link_and_node() {
    let inventory = inventory();
    assert_eq!(inventory.device("sda1").unwrap().start, Some(Bytes::from_sectors(63)));
    let disk = inventory.device("nvme0n1").unwrap();
    assert_eq!((disk.start, disk.node), (None, Some(1)));
    let link = disk.link.as_ref().unwrap();
    assert_eq!((link.speed, link.width, link.most_speed, link.most_width), (8000, 2, 16_000, 4));
    assert!(
        (link.bytes_a_second() - 1.969e9).abs() < 1e6 && (link.most_bytes_a_second() - 7.877e9).abs() < 1e6
    );
    assert_eq!(inventory.device("sda").unwrap().node, None);
}

#[test]
fn disks_on_sata_and_usb_have_the_speed_of_their_link_and_their_own() {
    let inventory = inventory();
    let link = |name: &str| {
        let link = inventory.device(name).unwrap().link.clone().unwrap();
        let rates = [link.bytes_a_second(), link.most_bytes_a_second()].map(|rate| (rate / 1e6).round());
        (link.kind, link.speed, link.most_speed, rates)
    };
    assert_eq!(link("sda"), (LinkKind::Sata, 3000, 6000, [300.0, 600.0]));
    // Its own, not that of the hub above it.
    assert_eq!(link("sdb"), (LinkKind::Usb, 480, 5000, [53.0, 500.0]));
    assert_eq!(inventory.device("md127").unwrap().link, None);
}

#[test]
fn an_array_has_its_shape_state_and_members() {
    let md = md(&inventory());
    assert_eq!((md.level.as_deref(), md.layout.as_deref()), (Some("raid5"), Some("left-symmetric")));
    assert_eq!((md.chunk, md.raid_disks, md.degraded), (Some(Bytes::from_kib(64)), Some(4), Some(1)));
    assert_eq!((md.sync_action.as_deref(), md.sync_done.map(|r| r.get())), (Some("recover"), Some(0.25)));
    assert_eq!((md.bitmap.as_deref(), md.bitmap_chunk), (Some("+8"), Some(Bytes::from_mib(64))));
    assert_eq!((md.stripe_cache_size, md.group_thread_count), (Some(256), Some(0)));
    let members: Vec<_> = md.members.iter().map(|m| (m.device.as_str(), m.slot, m.is_spare())).collect();
    assert_eq!(members, [("sda1", Some(0), false), ("sdb", None, true)]);
}

#[test]
fn a_crypt_mapping_tells_its_cipher_and_never_its_key() {
    let inventory = inventory();
    let BlockKind::DeviceMapper(dm) = &inventory.device("dm-0").unwrap().kind else { panic!() };
    let DeviceMapper { name, owner, targets, crypt, suspended } = &**dm;
    assert_eq!((name.as_deref(), owner.as_deref()), (Some("luks-data"), Some("CRYPT-LUKS2")));
    assert_eq!((targets.join(" "), *suspended), ("crypt".to_owned(), Some(false)));
    let crypt = crypt.as_ref().unwrap();
    assert_eq!(
        (crypt.cipher.as_str(), crypt.key, crypt.sector),
        ("aes-xts-plain64", Some(Bytes::new(64)), Bytes::new(4096))
    );
    assert_eq!(crypt.flags, ["no_read_workqueue"]);
    assert!(!serde_json::to_string(&inventory).unwrap().contains("2f144a9d"));
}

#[test]
fn a_loop_device_stands_on_the_filesystem_of_its_file() {
    let inventory = inventory();
    let BlockKind::Loop(details) = &inventory.device("loop0").unwrap().kind else { panic!() };
    let Loop { backing_file, direct_io, .. } = &**details;
    assert_eq!((backing_file.as_deref(), *direct_io), (Some("/srv/image"), Some(true)));
}

#[test]
fn mounts_are_found_by_device_number_and_know_their_journal() {
    let inventory = inventory();
    let mounts: Vec<_> = inventory.mounts.iter().map(|m| (m.device.as_deref(), m.journal)).collect();
    assert_eq!(
        mounts,
        [(Some("dm-0"), Some(JournalMode::Journal)), (Some("sda1"), Some(JournalMode::Ordered))]
    );
}
