//! The md and dm of recorded lab machines, held against what the `setup.sh` of each asked mdadm, cryptsetup
//! and mkfs for.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use domain::inventory::{BlockKind, DeviceMapper, Inventory, JournalMode, Md};
use domain::units::{Bytes, Hertz};
use machine::RecordedMachine;
use std::path::Path;

fn inventory(name: &str) -> Inventory {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/machines").join(name);
    machine::inventory::take(&RecordedMachine::open(folder).unwrap()).unwrap()
}

fn kind<'a>(inventory: &'a Inventory, device: &str) -> &'a BlockKind {
    &inventory.devices.iter().find(|d| d.name == device).unwrap().kind
}

fn array<'a>(inventory: &'a Inventory, name: &str) -> &'a Md {
    let BlockKind::Md(md) = kind(inventory, name) else { panic!("{name} is no array") };
    md
}

fn mapping<'a>(inventory: &'a Inventory, name: &str) -> &'a DeviceMapper {
    let BlockKind::DeviceMapper(mapping) = kind(inventory, name) else { panic!("{name} is no mapping") };
    mapping
}

fn built_of<'a>(inventory: &'a Inventory, name: &str) -> &'a [String] {
    &inventory.devices.iter().find(|d| d.name == name).unwrap().built_of
}

/// Each member's name, place and state.
fn members(md: &Md) -> Vec<(&str, Option<u32>, String)> {
    md.members.iter().map(|m| (m.device.as_str(), m.slot, m.state.join(","))).collect()
}

fn in_sync(names: &[&'static str]) -> Vec<(&'static str, Option<u32>, String)> {
    names.iter().zip(0..).map(|(name, slot)| (*name, Some(slot), "in_sync".to_owned())).collect()
}

#[test]
fn a_raid_5_with_a_bitmap_and_its_own_settings() {
    let machine = inventory("lab-raid5-raid10");
    let md = array(&machine, "md5");
    assert_eq!((md.level.as_deref(), md.layout.as_deref()), (Some("raid5"), Some("left-symmetric")));
    assert_eq!((md.chunk, md.metadata.as_deref()), (Some(Bytes::from_kib(64)), Some("1.2")));
    assert_eq!((md.raid_disks, md.degraded), (Some(4), Some(0)));
    assert_eq!((md.bitmap.as_deref(), md.bitmap_chunk), (Some("+8"), Some(Bytes::from_mib(64))));
    assert_eq!((md.stripe_cache_size, md.group_thread_count), (Some(1024), Some(2)));
    assert_eq!((md.consistency_policy.as_deref(), md.sync_action.as_deref()), (Some("bitmap"), Some("idle")));
    assert_eq!(members(md), in_sync(&["ram0", "ram1", "ram2", "ram3"]));
}

#[test]
fn a_raid_10_with_far_copies_has_no_bitmap_and_no_stripe_cache() {
    let machine = inventory("lab-raid5-raid10");
    let md = array(&machine, "md10");
    assert_eq!((md.level.as_deref(), md.layout.as_deref()), (Some("raid10"), Some("far=2")));
    assert_eq!((md.chunk, md.bitmap.as_deref()), (Some(Bytes::from_kib(128)), Some("none")));
    assert_eq!((md.bitmap_chunk, md.stripe_cache_size, md.group_thread_count), (None, None, None));
    assert_eq!(members(md), in_sync(&["ram4", "ram5", "ram6", "ram7"]));
}

#[test]
fn encryption_on_an_array_with_a_filesystem_on_it_is_seen_down_to_the_members() {
    let machine = inventory("lab-raid5-raid10");
    let mapping = mapping(&machine, "dm-0");
    assert_eq!((mapping.name.as_deref(), mapping.owner.as_deref()), (Some("vault"), Some("CRYPT-PLAIN")));
    let crypt = mapping.crypt.as_ref().unwrap();
    assert_eq!((crypt.cipher.as_str(), crypt.key), ("aes-xts-plain64", Some(Bytes::new(64))));
    assert_eq!((crypt.sector, &crypt.flags[..]), (Bytes::new(4096), &["same_cpu_crypt".to_owned()][..]));
    assert_eq!(built_of(&machine, "dm-0"), ["md5"]);
    assert_eq!(built_of(&machine, "md5"), ["ram0", "ram1", "ram2", "ram3"]);
    let mount = machine.mounts_of("dm-0").next().unwrap();
    assert_eq!((mount.mountpoint.as_str(), mount.journal), ("/mnt/vault", Some(JournalMode::Journal)));
    let mount = machine.mounts_of("md10").next().unwrap();
    assert_eq!((mount.mountpoint.as_str(), mount.journal), ("/mnt/md10", Some(JournalMode::Writeback)));
}

#[test]
fn virtual_p_states_are_those_of_their_table() {
    let machine = inventory("lab-raid5-raid10");
    let policies = &machine.cpufreq.as_ref().unwrap().policies;
    assert_eq!(policies.iter().map(|p| p.driver.as_deref()).collect::<Vec<_>>(), [Some("acpi-cpufreq"); 2]);
    let mhz = [350, 700, 1400, 2100, 2800].map(Hertz::from_mhz);
    assert!(policies.iter().all(|p| p.available == mhz && p.time_in_state.len() == 5));
    assert_eq!(policies[0].available_governors.len(), 6);
}

#[test]
fn a_raid_6_has_a_spare_in_no_place() {
    let machine = inventory("lab-raid6-luks2");
    let md = array(&machine, "md6");
    assert_eq!((md.level.as_deref(), md.layout.as_deref()), (Some("raid6"), Some("left-symmetric")));
    assert_eq!((md.chunk, md.raid_disks, md.degraded), (Some(Bytes::from_kib(32)), Some(5), Some(0)));
    let (spare, others): (Vec<_>, Vec<_>) = md.members.iter().partition(|m| m.is_spare());
    assert_eq!((spare.len(), spare[0].device.as_str(), others.len()), (1, "ram5", 5));
}

#[test]
fn a_mirror_that_lost_a_member_is_degraded_and_names_it() {
    let machine = inventory("lab-raid6-luks2");
    let md = array(&machine, "md1");
    assert_eq!((md.level.as_deref(), md.layout.as_deref(), md.chunk), (Some("raid1"), None, None));
    assert_eq!((md.raid_disks, md.degraded), (Some(3), Some(1)));
    let wanted = [("ram6", Some(0), "in_sync"), ("ram8", Some(2), "in_sync"), ("ram7", None, "faulty")];
    assert_eq!(members(md), wanted.map(|(name, slot, state)| (name, slot, state.to_owned())));
}

#[test]
fn luks2_has_the_flags_that_it_was_opened_with_and_a_filesystem_without_a_journal() {
    let machine = inventory("lab-raid6-luks2");
    let mapping = mapping(&machine, "dm-0");
    assert_eq!((mapping.owner.as_deref(), mapping.suspended), (Some("CRYPT-LUKS2"), Some(false)));
    let crypt = mapping.crypt.as_ref().unwrap();
    assert_eq!((crypt.key, crypt.sector), (Some(Bytes::new(64)), Bytes::new(4096)));
    assert_eq!(crypt.flags, ["allow_discards", "no_read_workqueue", "no_write_workqueue"]);
    assert_eq!(machine.mounts_of("dm-0").next().unwrap().journal, Some(JournalMode::Off));
}

#[test]
fn a_raid_0_of_equal_disks_has_the_layout_minus_one_which_is_none() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/machines/lab-raid5-raid10");
    let machine = RecordedMachine::open(folder).unwrap();
    let md = Path::new("/sys/block/md10/md");
    for (file, text) in [("level", "raid0"), ("layout", "-1")] {
        machine::Machine::write(&machine, &md.join(file), text.as_bytes()).unwrap();
    }
    assert_eq!(array(&machine::inventory::take(&machine).unwrap(), "md10").layout, None);
}
