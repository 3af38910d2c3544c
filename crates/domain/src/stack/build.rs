//! From a spec to a stack: what each layer is, what it stands on, and which layers are needed at all.

use super::values::Values;
use super::{
    Bitmap, Devices, Features, Filesystem, FilesystemKind, Journal, JournalMode, KINDS, Layer, LayerSpec,
    Lvm, MAX_DEVICES, MAX_LAYERS, Md, MdLevel, Part, Resync, Stack, StackError, StackSpec, VirtualDevice,
    kinds,
};
use crate::time::Nanos;
use crate::units::Bytes;
use std::collections::{BTreeMap, BTreeSet};

type Result<T> = std::result::Result<T, StackError>;

/// From what the smallest filesystem and an array's superblock need, to what no test fills.
const DEVICE_SIZES: std::ops::RangeInclusive<Bytes> = Bytes::from_mib(8)..=Bytes::from_mib(1 << 20);

/// mdadm(8): a power of two, and a page at least.
const CHUNKS: std::ops::RangeInclusive<Bytes> = Bytes::from_kib(4)..=Bytes::from_mib(64);

/// mdadm(8), `--bitmap-chunk`; the superblock of a bitmap has 32 bits for it.
const BITMAP_CHUNKS: std::ops::RangeInclusive<Bytes> = Bytes::from_kib(4)..=Bytes::from_mib(1024);

/// A loop device drops what does not fill its last page.
const DEVICE_MULTIPLE: Bytes = Bytes::from_kib(4);

pub(super) fn build(spec: &StackSpec) -> Result<Stack> {
    if spec.layers.len() > MAX_LAYERS {
        let layer = &spec.layers[MAX_LAYERS];
        return refuse(layer, None, format!("is one layer too many: a stack has {MAX_LAYERS} at most"));
    }
    let read: Vec<Read> = spec.layers.iter().map(read).collect::<Result<_>>()?;
    let top = top(spec, &read)?;
    let mut build = Build { spec, read: &read, layers: Vec::new(), entered: BTreeSet::new() };
    let stands_on = build.enter(top)?;
    let stack = Stack { layers: build.layers };
    if stands_on.last() != stack.layers.last().map(|layer| &layer.name) || stands_on.len() != 1 {
        return refuse(
            &spec.layers[top],
            Some("use"),
            "is `false`, and what is below is not one layer: a stack needs one top",
        );
    }
    check(spec, &stack)?;
    Ok(stack)
}

/// The first thing that is wrong with each layer; where nothing is, what is wrong with how they fit.
pub(super) fn problems(spec: &StackSpec) -> Vec<StackError> {
    let each: Vec<StackError> = spec.layers.iter().filter_map(|layer| read(layer).err()).collect();
    if each.is_empty() { build(spec).err().into_iter().collect() } else { each }
}

fn refuse<T>(layer: &LayerSpec, key: Option<&str>, reason: impl Into<String>) -> Result<T> {
    Err(StackError { layer: layer.name.clone(), key: key.map(str::to_owned), reason: reason.into() })
}

/// A layer as it was read.
struct Read {
    on: Vec<String>,
    /// Whether it is there at all; what stands on one that is not, stands on what is below.
    used: bool,
    part: Part,
}

impl Read {
    /// Every layer that it names.
    fn names(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let journal = match &self.part {
            Part::Filesystem(Filesystem { journal: Journal::External(layer), .. }) => Some(layer),
            _ => None,
        };
        self.on.iter().map(|name| ("on", name)).chain(journal.map(|name| ("journal", name)))
    }
}

fn read(layer: &LayerSpec) -> Result<Read> {
    let values = Values::of(layer);
    let Some(kind) = values.text("kind") else {
        return refuse(layer, None, format!("has no `kind`; write one of {}", in_words()));
    };
    let used = values.switch("use", true)?;
    let on = values.words("on");
    let Some(known) = KINDS.iter().find(|known| known.name == kind) else {
        return values.refuse("kind", format!("is `{kind}`, and has to be one of {}", in_words()));
    };
    let part = (known.read)(&values)?;
    values.all_read(kind)?;
    match (&part, on.is_empty()) {
        (Part::Devices(_), false) => values.refuse("on", "cannot be: devices stand on nothing"),
        (Part::Devices(_), true) if !used => values.refuse("use", "cannot be `false` for devices"),
        (Part::Devices(_), true) | (_, false) => Ok(Read { on, used, part }),
        (_, true) => refuse(layer, None, "stands on nothing; name a layer with `on = \"…\"`"),
    }
}

fn in_words() -> String {
    kinds().map(|kind| format!("`{kind}`")).collect::<Vec<String>>().join(", ")
}

pub(super) fn devices(values: &Values<'_>) -> Result<Devices> {
    let count = values.count("count", 1..=MAX_DEVICES)?.unwrap_or(1);
    let claimed = values.words("claimed");
    if let Some(odd) = claimed.iter().find(|path| !path.starts_with("/dev/") || path.contains("/../")) {
        return values.refuse("claimed", format!("names `{odd}`, and a device's path begins with `/dev/`"));
    }
    let lab = lab_disks(values.words("lab"), count);
    for (key, given) in [("claimed", &claimed), ("lab", &lab)] {
        let distinct: BTreeSet<&String> = given.iter().collect();
        if distinct.len() < given.len() {
            return values.refuse(key, "names a device twice");
        }
        if !given.is_empty() && given.len() < count as usize {
            return values.refuse(key, format!("names {} devices, and `count` is {count}", given.len()));
        }
    }
    let attributes = attributes(values)?;
    let mut made = None;
    for key in ["loop", "null_blk", "scsi_debug"] {
        let Some(size) = size(values, key)? else { continue };
        let kind = match key {
            "loop" => VirtualDevice::Loop,
            "null_blk" => VirtualDevice::NullBlk(attributes.clone()),
            _ => VirtualDevice::ScsiDebug(attributes.clone()),
        };
        if let Some((first, _)) = made.replace((kind, size)) {
            let first = first.name();
            return values.refuse(key, format!("cannot stand beside `{first}`: devices are made in one way"));
        }
    }
    if !attributes.is_empty()
        && !matches!(made, Some((VirtualDevice::NullBlk(_) | VirtualDevice::ScsiDebug(_), _)))
    {
        return values.refuse("attributes", "belong to `null_blk` and `scsi_debug`, and neither is there");
    }
    if claimed.is_empty() && lab.is_empty() && made.is_none() {
        return values.refuse(
            "kind",
            "is `devices`, and it says of none where they come from; write `loop = \"256MiB\"`, `null_blk`, `scsi_debug`, `lab` or `claimed`",
        );
    }
    Ok(Devices { count, claimed, lab, made })
}

/// One name that ends in no digit stands for as many disks as are wanted: `disk` for `disk0`, `disk1` and so
/// on.
fn lab_disks(given: Vec<String>, count: u32) -> Vec<String> {
    match &given[..] {
        [one] if !one.ends_with(|c: char| c.is_ascii_digit()) => {
            (0..count).map(|n| format!("{one}{n}")).collect()
        }
        _ => given,
    }
}

fn size(values: &Values<'_>, key: &'static str) -> Result<Option<Bytes>> {
    let size = values.size(key, DEVICE_SIZES)?;
    // null_blk and scsi_debug are made in whole MiB.
    let multiple = if key == "loop" { DEVICE_MULTIPLE } else { Bytes::from_mib(1) };
    if size.is_some_and(|size| !size.get().is_multiple_of(multiple.get())) {
        return values.refuse(key, format!("has to be a multiple of {multiple}"));
    }
    Ok(size)
}

/// `irqmode=2 completion_nsec=10000000`.
fn attributes(values: &Values<'_>) -> Result<BTreeMap<String, String>> {
    /// What is decided by other keys, or would take the device out of our hands.
    const OURS: [&str; 8] =
        ["size", "memory_backed", "power", "index", "dev_size_mb", "num_tgts", "max_luns", "add_host"];
    let mut all = BTreeMap::new();
    for word in values.words("attributes") {
        let (name, value) = word.split_once('=').unwrap_or((&word, ""));
        let plain =
            |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !plain(name) || !plain(value) {
            return values.refuse(
                "attributes",
                format!("holds `{word}`, and each is `NAME=VALUE` of letters and digits"),
            );
        }
        if OURS.contains(&name) {
            return values.refuse("attributes", format!("sets `{name}`, which Flyball sets itself"));
        }
        all.insert(name.to_owned(), value.to_owned());
    }
    Ok(all)
}

/// Longer than anybody waits for a clean array.
const LONGEST_SAFE_MODE_DELAY: Nanos = Nanos::from_secs(60);

/// `resync`. Its older word `beside` is understood until version 0.2.
fn resync(values: &Values<'_>) -> Result<Resync> {
    if values.text("resync") == Some("beside") {
        return Ok(Resync::Background);
    }
    let choices = [("wait", Resync::Wait), ("skip", Resync::Skip), ("background", Resync::Background)];
    values.one_of("resync", &choices, Resync::Wait)
}

pub(super) fn md(values: &Values<'_>) -> Result<Md> {
    if values.text("level").is_none() {
        return values.refuse("level", "is missing; write `level = 5`");
    }
    let levels = MdLevel::ALL.map(|level| (level.name(), level));
    let level = values.one_of("level", &levels, MdLevel::Raid0)?;
    let layout = values.word("layout", "-")?;
    let chunk = values.size("chunk", CHUNKS)?;
    let bitmap = values.one_of("bitmap", &Bitmap::ALL.map(|bitmap| (bitmap.name(), bitmap)), Bitmap::None)?;
    let bitmap_chunk = values.size("bitmap_chunk", BITMAP_CHUNKS)?;
    let write_mostly = values.count("write_mostly", 0..=MAX_DEVICES)?.unwrap_or(0);
    let spares = values.count("spares", 0..=MAX_DEVICES)?.unwrap_or(0);
    let missing = values.count("missing", 0..=2)?.unwrap_or(0);
    let resync = resync(values)?;
    // The kernel's own bounds: drivers/md/raid5.c, raid5_set_cache_size and raid5_store_group_thread_cnt.
    let stripe_cache_size = values.count("stripe_cache_size", 17..=32768)?;
    let group_thread_cnt = values.count("group_thread_cnt", 0..=8192)?;
    let safe_mode_delay = values.time("safe_mode_delay", Nanos::ZERO..=LONGEST_SAFE_MODE_DELAY)?;
    if chunk.is_some_and(|chunk| !chunk.get().is_power_of_two()) {
        return values.refuse("chunk", "has to be a power of two");
    }
    if bitmap_chunk.is_some_and(|chunk| !chunk.get().is_power_of_two()) {
        return values.refuse("bitmap_chunk", "has to be a power of two");
    }
    let bitmap = if level.is_redundant() { bitmap } else { Bitmap::None };
    // A factor over levels sets these for all of them. Where a level has no such thing, it is left out.
    Ok(Md {
        level,
        layout: layout.filter(|layout| suits(level, layout)),
        chunk: chunk.filter(|_| level.has_chunks()),
        bitmap,
        bitmap_chunk: bitmap_chunk.filter(|_| bitmap == Bitmap::Internal),
        write_mostly: if level == MdLevel::Raid1 { write_mostly } else { 0 },
        spares: if level.is_redundant() { spares } else { 0 },
        missing,
        resync: if level.is_redundant() { resync } else { Resync::Skip },
        stripe_cache_size: stripe_cache_size.filter(|_| level.has_parity()),
        group_thread_cnt: group_thread_cnt.filter(|_| level.has_parity()),
        safe_mode_delay: safe_mode_delay.filter(|_| level.is_redundant()),
    })
}

/// Whether a layout's name is one of this level: `n2` is RAID10's, `left-symmetric` RAID5's and RAID6's.
fn suits(level: MdLevel, layout: &str) -> bool {
    let near_far_offset = layout.starts_with(['n', 'f', 'o']) && layout[1..].parse::<u8>().is_ok();
    match level {
        MdLevel::Raid10 => near_far_offset,
        MdLevel::Raid5 | MdLevel::Raid6 => !near_far_offset,
        MdLevel::Linear | MdLevel::Raid0 | MdLevel::Raid1 | MdLevel::Raid4 => false,
    }
}

pub(super) fn lvm(values: &Values<'_>) -> Result<Lvm> {
    let stripes = values.count("stripes", 1..=MAX_DEVICES)?;
    let stripe_size = values.size("stripe_size", CHUNKS)?.unwrap_or(Bytes::from_kib(64));
    if !stripe_size.get().is_power_of_two() {
        return values.refuse("stripe_size", "has to be a power of two");
    }
    Ok(Lvm { stripes, stripe_size })
}

pub(super) fn filesystem(values: &Values<'_>) -> Result<Filesystem> {
    let kinds = FilesystemKind::ALL.map(|kind| (kind.name(), kind));
    let modes = JournalMode::ALL.map(|mode| (mode.name(), Some(mode)));
    let kind = values.one_of("type", &kinds, FilesystemKind::Ext4)?;
    let features =
        values.one_of("features", &[("own", Features::Own), ("ext3", Features::Ext3)], Features::Own)?;
    let data = values.one_of("data", &modes, None)?;
    let journal = match values.text("journal") {
        None | Some("internal") => Journal::Internal,
        Some("none") => Journal::None,
        Some(layer) => Journal::External(layer.to_owned()),
    };
    let has_modes = matches!(kind, FilesystemKind::Ext3 | FilesystemKind::Ext4) && journal != Journal::None;
    let has_external = matches!(kind, FilesystemKind::Ext3 | FilesystemKind::Ext4 | FilesystemKind::Xfs);
    // A factor over filesystems sets these for all of them. Where one has no such thing, it is left out.
    Ok(Filesystem {
        kind,
        features: if kind == FilesystemKind::Ext4 { features } else { Features::Own },
        data: data.filter(|_| has_modes),
        journal: match journal {
            Journal::External(layer) if has_external => Journal::External(layer),
            Journal::None if kind == FilesystemKind::Ext4 => Journal::None,
            _ => Journal::Internal,
        },
        mkfs: mkfs_words(values)?,
        mount: mount_options(values)?,
    })
}

/// Words for mkfs, none of which can name another device or file: it is root who runs this.
fn mkfs_words(values: &Values<'_>) -> Result<Vec<String>> {
    let words = values.words("mkfs");
    let mut after_option = false;
    for word in &words {
        let names_a_place = word.contains('/')
            || ["device=", "logdev=", "rtdev=", "name=", "file="].iter().any(|name| word.contains(name));
        if names_a_place {
            return values.refuse(
                "mkfs",
                format!("holds `{word}`, which names a file or a device; that is for Flyball to do"),
            );
        }
        let is_option = word.starts_with('-');
        if !is_option && !after_option {
            return values.refuse("mkfs", format!("holds `{word}`, which belongs to no option"));
        }
        // An option takes one word at the most.
        after_option = is_option;
    }
    Ok(words)
}

fn mount_options(values: &Values<'_>) -> Result<Vec<String>> {
    const REFUSED: [&str; 12] = [
        "data",
        "journal_dev",
        "journal_path",
        "logdev",
        "rtdev",
        "device",
        "loop",
        "remount",
        "bind",
        "rbind",
        "move",
        "ro",
    ];
    let text = values.text("mount").unwrap_or_default();
    let options: Vec<String> = text.split([',', ' ']).filter(|o| !o.is_empty()).map(str::to_owned).collect();
    for option in &options {
        let name = option.split('=').next().unwrap_or_default();
        if REFUSED.contains(&name) || option.contains('/') {
            let hint = if name == "data" { "; it is a key of its own: `data = \"ordered\"`" } else { "" };
            return values
                .refuse("mount", format!("holds `{option}`, which Flyball cannot let through{hint}"));
        }
    }
    Ok(options)
}

/// The only layer that nothing else names.
fn top(spec: &StackSpec, read: &[Read]) -> Result<usize> {
    let named: BTreeSet<&String> =
        read.iter().flat_map(|layer| layer.names().map(|(_, name)| name)).collect();
    // A journal's layers are a top of their own where this cell's filesystem has its journal inside.
    let is_top = |at: &usize| !named.contains(&spec.layers[*at].name);
    let tops: Vec<usize> = (0..spec.layers.len()).filter(is_top).collect();
    match tops[..] {
        [] => match spec.layers.first() {
            Some(first) => refuse(first, None, "is part of a circle: no layer is the top one"),
            None => Err(StackError { layer: "*".into(), key: None, reason: "is empty".into() }),
        },
        // The last one in the file, where there are several: what it does not need is not built.
        [.., last] => Ok(last),
    }
}

struct Build<'a> {
    spec: &'a StackSpec,
    read: &'a [Read],
    layers: Vec<Layer>,
    entered: BTreeSet<usize>,
}

impl Build<'_> {
    /// Puts a layer after what it stands on. Gives the layers that stand for it: itself, or what is below.
    fn enter(&mut self, at: usize) -> Result<Vec<String>> {
        let (spec, read) = (&self.spec.layers[at], &self.read[at]);
        if read.used && self.layers.iter().any(|layer| layer.name == spec.name) {
            return Ok(vec![spec.name.clone()]);
        }
        if !self.entered.insert(at) {
            return refuse(spec, Some("on"), "leads back to itself");
        }
        let mut on = Vec::new();
        for below in &read.on {
            on.extend(self.enter(self.find(spec, "on", below)?)?);
        }
        let mut part = read.part.clone();
        if let Part::Filesystem(Filesystem { journal: Journal::External(layer), .. }) = &mut part {
            let found = self.find(spec, "journal", layer)?;
            let stands_for = self.enter(found)?;
            let [one] = &stands_for[..] else {
                return refuse(
                    spec,
                    Some("journal"),
                    format!("is `{layer}`, which stands for more than one layer"),
                );
            };
            layer.clone_from(one);
        }
        self.entered.remove(&at);
        if !read.used {
            return Ok(on);
        }
        self.layers.push(Layer { name: spec.name.clone(), on, part });
        Ok(vec![spec.name.clone()])
    }

    fn find(&self, from: &LayerSpec, key: &str, name: &str) -> Result<usize> {
        let found = self.spec.layers.iter().position(|layer| layer.name == name);
        let Some(at) = found else {
            let names: Vec<String> = self.spec.layers.iter().map(|l| format!("`{}`", l.name)).collect();
            return refuse(
                from,
                Some(key),
                format!("names `{name}`, and the layers are {}", names.join(", ")),
            );
        };
        Ok(at)
    }
}

/// Two layers would write to one device.
fn devices_differ(stack: &Stack) -> Result<()> {
    let mut owners: BTreeMap<(&str, &String), &str> = BTreeMap::new();
    for layer in &stack.layers {
        let Part::Devices(devices) = &layer.part else { continue };
        for (key, names) in [("claimed", &devices.claimed), ("lab", &devices.lab)] {
            for name in names {
                let Some(owner) = owners.insert((key, name), &layer.name) else { continue };
                return Err(StackError {
                    layer: layer.name.clone(),
                    key: Some(key.into()),
                    reason: format!("names `{name}`, which is one of `{owner}` already"),
                });
            }
        }
    }
    Ok(())
}

/// What can be known of how the layers fit.
fn check(spec: &StackSpec, stack: &Stack) -> Result<()> {
    devices_differ(stack)?;
    let mut users: BTreeMap<&str, &str> = BTreeMap::new();
    for layer in &stack.layers {
        let of = |key: &str, reason: String| {
            Err(StackError { layer: layer.name.clone(), key: Some(key.into()), reason })
        };
        let journal = match &layer.part {
            Part::Filesystem(Filesystem { journal: Journal::External(journal), .. }) => Some(journal),
            _ => None,
        };
        for below in layer.on.iter().chain(journal) {
            if let Some(other) = users.insert(below, &layer.name) {
                return of("on", format!("names `{below}`, which `{other}` stands on already"));
            }
            if matches!(stack.layer(below).map(|l| &l.part), Some(Part::Filesystem(_))) {
                return of("on", format!("names `{below}`, which is a filesystem: nothing stands on one"));
            }
        }
        let below: u32 = layer.on.iter().map(|name| stack.width(name)).sum();
        match &layer.part {
            Part::Md(md) => {
                let members = below.saturating_sub(md.spares);
                let least = md.level.least_members();
                if members < least {
                    return of(
                        "level",
                        format!("is {}, which needs {least} members; there are {members}", md.level.name()),
                    );
                }
                let bearable = match md.level {
                    MdLevel::Linear | MdLevel::Raid0 => 0,
                    MdLevel::Raid1 => members - 1,
                    MdLevel::Raid4 | MdLevel::Raid5 => 1,
                    MdLevel::Raid6 => 2,
                    MdLevel::Raid10 => members / 2,
                };
                if md.missing > bearable {
                    return of(
                        "missing",
                        format!("is {}, and this array runs without {bearable} at the most", md.missing),
                    );
                }
                let there = members - md.missing;
                if md.write_mostly >= there {
                    let (marked, most) = (md.write_mostly, there - 1);
                    return of(
                        "write_mostly",
                        format!(
                            "is {marked}, and one member has to be left to read from: {most} at the most"
                        ),
                    );
                }
                // `mdadm --create` marks all devices that follow the option, and spares come last.
                if md.write_mostly > 0 && md.spares > 0 {
                    return of(
                        "write_mostly",
                        "cannot stand beside `spares`, which mdadm would mark too".into(),
                    );
                }
                // What is missing can only be rebuilt on a spare, and one at a time.
                if md.resync == Resync::Background && md.missing > md.spares.min(1) {
                    let (missing, spares) = (md.missing, md.spares);
                    return of(
                        "resync",
                        format!(
                            "is `background`, which rebuilds one missing member on a spare; {missing} are missing, and there are \
{spares} spares; write `missing = 1` and `spares = 1`"
                        ),
                    );
                }
            }
            Part::Lvm(lvm) if lvm.stripes.is_some_and(|stripes| stripes > below) => {
                return of("stripes", format!("is more than the {below} devices below"));
            }
            Part::Filesystem(_) if below != 1 => {
                return of("on", format!("gives {below} devices, and a filesystem stands on one"));
            }
            Part::Filesystem(_) if journal.is_some_and(|name| stack.width(name) != 1) => {
                return of("journal", "has to give one device".into());
            }
            _ => {}
        }
    }
    let top = stack.top();
    if !stack.ends_in_a_filesystem() && stack.width(&top.name) != 1 {
        let layer = spec.layers.iter().find(|layer| layer.name == top.name).unwrap_or(&spec.layers[0]);
        let count = stack.width(&top.name);
        return refuse(layer, None, format!("is the top, and gives {count} devices: workloads work on one"));
    }
    Ok(())
}
