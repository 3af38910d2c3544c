//! Linux software arrays: md(4), mdadm(8).

use super::commands::{self, Argv, argv};
use super::kernel::{self, Modules};
use super::layer::{Construction, Made, Plan, Program, Site};
use super::verify::{Check, Shown, kind_of};
use super::{Builder, Device, Error, POLL, WHOLE, paths, planned};
use crate::ledger::Built;
use crate::settings::numbered;
use crate::{LocalMachine, Machine};
use domain::inventory::{BlockKind, Md as MdSeen};
use domain::stack::{Bitmap, Layer, Md, MdLevel, Resync};
use domain::time::Nanos;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub(super) const PROGRAMS: &[Program] = &[Program::of("mdadm", "mdadm")];

impl Construction for Md {
    fn needs(&self, layer: &Layer, modules: Modules) -> Result<(), Error> {
        let (name, module) = personality(self.level);
        let what = format!("arrays of the kind `{name}`");
        kernel::needs(layer, &what, module, modules, &|| {
            kernel::shows("/proc/mdstat", &format!("[{name}]"))
        })?;
        if self.bitmap == Bitmap::Lockless { has_llbitmap(layer) } else { Ok(()) }
    }

    fn plan(&self, plan: &Plan<'_>, all: &mut Vec<Argv>) -> Vec<String> {
        let node = format!("/dev/md/{}", plan.layer.name);
        all.push(commands::wipe(plan.below));
        all.push(create(self, &node, planned::UUID, plan.below));
        all.extend(files(self).into_iter().map(|(file, value)| written("mdN", file, &value).1));
        vec![node]
    }

    fn build(&self, builder: &mut Builder, site: &mut Site<'_, '_>) -> Result<Made, Error> {
        let number = free_number().ok_or_else(|| Error::Unsupported("no array's number is free".into()))?;
        let uuid = builder.uuid()?;
        let members = site.below.iter().map(|device| device.number.clone()).collect();
        site.ledger.announce_built(Built::Array { number, uuid: uuid.clone(), members })?;
        builder.run("clear the array's members", &commands::wipe(&paths(site.below)))?;
        let node = format!("/dev/md{number}");
        builder.run("make the array", &create(self, &node, &uuid, &paths(site.below)))?;
        let device = Device::at(&node)?;
        for (file, value) in files(self) {
            // It goes with the array, which is ours: there is nothing to put back.
            let (path, command) = written(&device.name, file, &value);
            let written = LocalMachine.write(Path::new(&path), value.as_bytes());
            written.map_err(|source| Error::File { what: "write", path: path.clone(), source })?;
            builder.ran.push(command);
        }
        if self.level.is_redundant() && self.resync == Resync::Wait {
            wait_for_resync(&device, site.interrupt)?;
        }
        let members = site.below.len() as u32;
        let shown = verify(&LocalMachine, &site.layer.name, self, &device, members)?;
        Ok(Made::devices(vec![device], shown))
    }
}

/// The highest number below [`crate::stack`]'s own of no array.
fn free_number() -> Option<u32> {
    /// mdadm itself deals out numbers from 127 downwards; 9:0 to 9:511 are md's.
    const NUMBERS: std::ops::RangeInclusive<u32> = 200..=400;
    let taken = numbered(&LocalMachine, "/sys/block", "md");
    NUMBERS.into_iter().find(|number| !taken.contains(&format!("md{number}")))
}

fn wait_for_resync(device: &Device, interrupt: &AtomicBool) -> Result<(), Error> {
    let deadline = Instant::now() + WHOLE;
    let at = |file: &str| LocalMachine.text(&format!("/sys/block/{}/md/{file}", device.name));
    // A resync begins a moment after the array runs; until then nothing is said of it but its start.
    while at("sync_action").is_some_and(|action| action != "idle")
        || at("resync_start").is_some_and(|start| start != "none")
    {
        if interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        if Instant::now() >= deadline {
            return Err(Error::Resync(device.path.clone()));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// What is written to an array's files in `/sys/block/DEVICE/md` once it is made: file and value.
fn files(md: &Md) -> Vec<(&'static str, String)> {
    let count = |count: Option<u32>| count.map(|count| count.to_string());
    // In seconds, to the millisecond (`md.c`: `safe_delay_store`).
    let seconds = |time: Nanos| format!("{:.3}", time.secs());
    let all = [
        ("stripe_cache_size", count(md.stripe_cache_size)),
        ("group_thread_cnt", count(md.group_thread_cnt)),
        ("safe_mode_delay", md.safe_mode_delay.map(seconds)),
    ];
    all.into_iter().filter_map(|(file, value)| Some((file, value?))).collect()
}

/// As a command, the path of a file of an array that is called so in `/sys/block`, and what is written to it.
fn written(device: &str, file: &str, value: &str) -> (String, Argv) {
    let path = format!("/sys/block/{device}/md/{file}");
    let command = argv(["sh", "-c"], [format!("echo {value} > {path}")]);
    (path, command)
}

/// `node` is the array's, `members` those of its devices that are there.
fn create(md: &Md, node: &str, uuid: &str, members: &[String]) -> Argv {
    let spares = md.spares as usize;
    let (active, spare) = members.split_at(members.len() - spares);
    let (there, missing) = active.split_at(active.len() - md.missing as usize);
    // `--homehost=any` and a name of ours: no host takes the array for its own at its next start.
    let mut all = argv(
        ["mdadm", "--create", node, "--run", "--quiet", "--metadata=1.2", "--homehost=any", "--name=flyball"],
        [format!("--uuid={}", mdadm_uuid(uuid)), format!("--level={}", md.level.name())],
    );
    all.extend(md.layout.iter().map(|layout| format!("--layout={layout}")));
    all.extend(md.chunk.iter().map(|chunk| format!("--chunk={}K", chunk.get() >> 10)));
    if md.level.is_redundant() {
        let bitmap = match md.bitmap {
            Bitmap::None => "none",
            Bitmap::Internal => "internal",
            Bitmap::Lockless => "lockless",
        };
        all.push(format!("--bitmap={bitmap}"));
    }
    all.extend(md.bitmap_chunk.map(|chunk| format!("--bitmap-chunk={}K", chunk.get() >> 10)));
    if md.resync == Resync::Skip && md.level.is_redundant() {
        all.push("--assume-clean".into());
    }
    all.push(format!("--raid-devices={}", active.len()));
    if spares > 0 {
        all.push(format!("--spare-devices={spares}"));
    }
    let (read, write_mostly) = there.split_at(there.len() - md.write_mostly as usize);
    all.extend(read.iter().cloned());
    if !write_mostly.is_empty() {
        all.push("--write-mostly".into());
        all.extend(write_mostly.iter().cloned());
    }
    all.extend(missing.iter().map(|_| "missing".to_owned()));
    all.extend(spare.iter().cloned());
    all
}

/// `f17ba110:…` in four groups of eight, as mdadm takes it.
fn mdadm_uuid(uuid: &str) -> String {
    let digits: Vec<char> = uuid.chars().filter(char::is_ascii_hexdigit).collect();
    digits.chunks(8).map(String::from_iter).collect::<Vec<String>>().join(":")
}

fn verify(
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

/// A bitmap without a lock shows nowhere before an array has one, so that versions have to stand for it: of
/// the kernel, and of mdadm, which takes another word for the name of a file.
fn has_llbitmap(layer: &Layer) -> Result<(), Error> {
    let kernel = LocalMachine.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mdadm = LocalMachine.run(&["mdadm", "--version"], kernel::LIMIT).map(|output| output.last_words());
    let mdadm = mdadm.unwrap_or_else(|error| error.to_string());
    for (what, least, said) in [("Linux", (6, 18), kernel), ("mdadm", (4, 5), mdadm)] {
        if version(&said).is_none_or(|version| version < least) {
            let (major, minor) = least;
            return Err(Error::Unsupported(format!(
                "the layer `{}` has `bitmap = \"llbitmap\"`, which needs {what} {major}.{minor} or newer; this one says `{said}`; write \
                 `bitmap = \"internal\"`, or use a machine that has it",
                layer.name
            )));
        }
    }
    Ok(())
}

/// `6.12.9-amd64`, or `mdadm - v4.2 - 2021-12-30`.
fn version(text: &str) -> Option<(u32, u32)> {
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let number = text.split_whitespace().map(|word| word.trim_start_matches('v')).find(is_number)?;
    let mut parts = number.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// As `/proc/mdstat` names it, and the module that has it.
fn personality(level: MdLevel) -> (&'static str, &'static str) {
    match level {
        MdLevel::Linear => ("linear", "md-linear"),
        MdLevel::Raid0 => ("raid0", "raid0"),
        MdLevel::Raid1 => ("raid1", "raid1"),
        MdLevel::Raid4 => ("raid4", "raid456"),
        MdLevel::Raid5 => ("raid5", "raid456"),
        MdLevel::Raid6 => ("raid6", "raid456"),
        MdLevel::Raid10 => ("raid10", "raid10"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_kernel_and_mdadm_say_them() {
        assert_eq!(version("6.1.0-37-amd64"), Some((6, 1)));
        assert_eq!(version("6.18-rc3"), Some((6, 18)));
        assert_eq!(version("mdadm - v4.2 - 2021-12-30 - Debian 4.2-5"), Some((4, 2)));
        assert_eq!(version("mdadm - v4.5 - 2025-11-14"), Some((4, 5)));
        assert_eq!((version("mdadm"), version("")), (None, None));
    }
}
