//! What was built, read back from the kernel and held against what was asked for.

use super::{Device, Error};
use crate::{Machine, inventory};
use domain::inventory::{BlockKind, Md as MdSeen};
use domain::stack::{Bitmap, Filesystem, JournalMode, Lvm, Md, MdLevel, Resync};
use parse::kernel::{ext4, mounts};
use std::time::Duration;

/// What a layer is, as the kernel shows it; for the trial's environment.
pub(super) type Shown = String;

/// Holds one value against another.
pub(super) struct Check<'a> {
    pub layer: &'a str,
}

impl Check<'_> {
    pub fn same(&self, what: &str, asked: &str, got: Option<&str>) -> Result<(), Error> {
        if got == Some(asked) {
            return Ok(());
        }
        Err(Error::NotTaken {
            layer: self.layer.to_owned(),
            what: what.to_owned(),
            asked: asked.to_owned(),
            got: got.unwrap_or("nothing").to_owned(),
        })
    }
}

pub(super) fn array(
    machine: &dyn Machine,
    layer: &str,
    md: &Md,
    device: &Device,
    members: u32,
) -> Result<Shown, Error> {
    let check = Check { layer };
    let seen = match kind_of(machine, &device.name)? {
        Some(BlockKind::Md(seen)) => *seen,
        _ => MdSeen::default(),
    };
    let level =
        if md.level == MdLevel::Linear { "linear".to_owned() } else { format!("raid{}", md.level.name()) };
    check.same("level", &level, seen.level.as_deref())?;
    if let Some(layout) = &md.layout {
        check.same("layout", &layout_in_words(layout), seen.layout.as_deref())?;
    }
    if let Some(chunk) = md.chunk {
        check.same("chunk", &chunk.to_string(), seen.chunk.map(|c| c.to_string()).as_deref())?;
    }
    let number = |n: Option<u32>| n.map(|n| n.to_string());
    check.same(
        "number of members",
        &(members - md.spares).to_string(),
        number(seen.raid_disks).as_deref(),
    )?;
    if md.level.is_redundant() {
        // While a member is rebuilt it is missing still, and a spare: the last one of a new RAID5, for mdadm
        // makes it so.
        if md.resync != Resync::Background {
            check.same(
                "number of missing members",
                &md.missing.to_string(),
                number(seen.degraded).as_deref(),
            )?;
            let spares = seen.members.iter().filter(|member| member.is_spare()).count();
            check.same("number of spares", &md.spares.to_string(), Some(&spares.to_string()))?;
        }
        check.same("bitmap", md.bitmap.name(), Some(bitmap_of(machine, device, &seen).name()))?;
    }
    if let Some(chunk) = md.bitmap_chunk {
        check.same(
            "bitmap_chunk",
            &chunk.to_string(),
            seen.bitmap_chunk.map(|c| c.to_string()).as_deref(),
        )?;
    }
    check.same("write_mostly", &write_mostly_asked(md, members), Some(&write_mostly_seen(&seen)))?;
    if let Some(size) = md.stripe_cache_size {
        check.same("stripe_cache_size", &size.to_string(), number(seen.stripe_cache_size).as_deref())?;
    }
    if let Some(count) = md.group_thread_cnt {
        check.same("group_thread_cnt", &count.to_string(), number(seen.group_thread_count).as_deref())?;
    }
    let words = [
        seen.level.clone(),
        seen.layout.clone(),
        seen.chunk.map(|chunk| format!("chunk {chunk}")),
        seen.raid_disks.map(|count| format!("{count} members")),
        seen.degraded.filter(|count| *count > 0).map(|count| format!("{count} missing")),
        seen.bitmap.clone().filter(|place| place != "none").map(|place| format!("bitmap {place}")),
        (md.bitmap == Bitmap::Lockless).then(|| md.bitmap.name().to_owned()),
        seen.bitmap_chunk.filter(|_| md.bitmap_chunk.is_some()).map(|chunk| format!("bitmap_chunk {chunk}")),
        Some(write_mostly_seen(&seen))
            .filter(|slots| !slots.is_empty())
            .map(|slots| format!("write_mostly {slots}")),
        seen.sync_action.clone().filter(|action| action != "idle"),
        seen.stripe_cache_size.map(|size| format!("stripe_cache_size {size}")),
        seen.group_thread_count.filter(|count| *count > 0).map(|count| format!("group_thread_cnt {count}")),
    ];
    Ok(words.into_iter().flatten().collect::<Vec<String>>().join(", "))
}

/// A bitmap without a lock has no place in `bitmap/location`: the array names its kind in brackets.
fn bitmap_of(machine: &dyn Machine, device: &Device, seen: &MdSeen) -> Bitmap {
    let kinds = machine.text(&format!("/sys/block/{}/md/bitmap_type", device.name)).unwrap_or_default();
    match seen.bitmap.as_deref() {
        _ if kinds.contains("[llbitmap]") => Bitmap::Lockless,
        None | Some("none" | "") => Bitmap::None,
        Some(_) => Bitmap::Internal,
    }
}

/// The slots that are to be write-mostly: the last ones of those that are not missing.
fn write_mostly_asked(md: &Md, members: u32) -> String {
    let there = members - md.spares - md.missing;
    slots(there - md.write_mostly..there)
}

fn write_mostly_seen(seen: &MdSeen) -> String {
    let marked =
        seen.members.iter().filter(|member| member.state.iter().any(|state| state == "write_mostly"));
    slots(marked.filter_map(|member| member.slot))
}

fn slots(all: impl Iterator<Item = u32>) -> String {
    all.map(|slot| format!("slot {slot}")).collect::<Vec<String>>().join(" and ")
}

/// `n2` as sysfs' layout word says it: `near=2`.
fn layout_in_words(layout: &str) -> String {
    let long = [("n", "near"), ("f", "far"), ("o", "offset")];
    let found = long.iter().find_map(|(short, long)| Some((long, layout.strip_prefix(short)?)));
    match found.filter(|(_, copies)| copies.parse::<u8>().is_ok()) {
        Some((long, copies)) => format!("{long}={copies}"),
        None => layout.to_owned(),
    }
}

pub(super) fn volume(
    machine: &dyn Machine,
    layer: &str,
    lvm: &Lvm,
    name: &str,
    below: usize,
) -> Result<Shown, Error> {
    let stripes = lvm.stripes.map_or(below, |stripes| stripes as usize);
    let output = machine
        .run(&["dmsetup", "table", name], Duration::from_secs(30))
        .map_err(|source| Error::File { what: "read back", path: name.to_owned(), source })?;
    let table = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let words: Vec<&str> = table.split_whitespace().collect();
    let asked = if stripes > 1 {
        format!("striped {stripes} {}", lvm.stripe_size.get() >> 9)
    } else {
        "linear".to_owned()
    };
    let count = asked.split(' ').count();
    let got = words.get(2..2 + count).map(|words| words.join(" "));
    Check { layer }.same("table", &asked, got.as_deref())?;
    Ok(asked)
}

/// Mount options that the kernel shows under another name, or not at all, are told and not refused: which
/// those are is each filesystem's own affair.
pub(super) fn mounted(
    machine: &dyn Machine,
    layer: &str,
    fs: &Filesystem,
    folder: &str,
    device: &Device,
) -> Result<Shown, Error> {
    let check = Check { layer };
    let text = machine.text("/proc/self/mountinfo").unwrap_or_default();
    let seen = mounts::mountinfo(&text).flatten().filter(|mount| mount.mountpoint == folder).last();
    check.same("type", fs.kind.name(), seen.as_ref().map(|seen| seen.filesystem.as_str()))?;
    let options = seen.map(|seen| seen.options).unwrap_or_default();
    if let Some(mode) = fs.data {
        check.same("data", mode.name(), data_mode(machine, device, &options).as_deref())?;
    }
    let unseen: Vec<&str> =
        fs.mount.iter().map(String::as_str).filter(|asked| !options.iter().any(|o| o == asked)).collect();
    let unseen = match unseen[..] {
        [] => String::new(),
        _ => format!(" (asked for, and not shown by the kernel: {})", unseen.join(",")),
    };
    Ok(format!("{} {}{unseen}", fs.kind.name(), options.join(",")))
}

/// Among the mount's options only where it is not the filesystem's own default.
fn data_mode(machine: &dyn Machine, device: &Device, options: &[String]) -> Option<String> {
    let own = options.iter().find_map(|option| option.strip_prefix("data="));
    own.map(str::to_owned).or_else(|| {
        let all = machine.text(&format!("/proc/fs/ext4/{}/options", device.name))?;
        let mode = ext4::journal(&all).name().to_owned();
        JournalMode::ALL.iter().any(|known| known.name() == mode).then_some(mode)
    })
}

pub(super) fn kind_of(machine: &dyn Machine, name: &str) -> Result<Option<BlockKind>, Error> {
    let devices = inventory::block_devices(machine).map_err(|e| Error::Inventory(e.to_string()))?;
    Ok(devices.into_iter().find(|device| device.name == name).map(|device| device.kind))
}
