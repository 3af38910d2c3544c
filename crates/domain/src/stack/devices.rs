//! Block devices that hold nothing: claimed ones, the lab's disks, or ones that Flyball makes.

use super::layer::{Described, Kind};
use super::values::Values;
use super::{MAX_DEVICES, Part, StackError};
use crate::units::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

type Result<T> = std::result::Result<T, StackError>;

pub(super) const KIND: Kind = Kind {
    name: "devices",
    keys: &["kind", "use", "on", "count", "claimed", "lab", "loop", "null_blk", "scsi_debug", "attributes"],
    read: |values| read(values).map(Part::Devices),
};

/// Where devices come from. A machine takes the first source that it has: claimed devices, the lab's disks,
/// then what can be made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Devices {
    /// How many.
    pub count: u32,
    /// Paths of claimed devices of this machine; at least `count` of them.
    pub claimed: Vec<String>,
    /// Disks of the lab machine, by their names in `[[lab.disk]]`; at least `count` of them.
    pub lab: Vec<String>,
    /// What is made otherwise, and how large each is.
    pub made: Option<(VirtualDevice, Bytes)>,
}

/// Devices that Flyball makes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VirtualDevice {
    /// A file in the work folder, and a loop device over it.
    Loop,
    /// Memory, through the kernel's `null_blk`, with further attributes of its configfs folder: name to
    /// value.
    NullBlk(BTreeMap<String, String>),
    /// Memory, through the kernel's `scsi_debug`, with further module parameters.
    ScsiDebug(BTreeMap<String, String>),
}

impl VirtualDevice {
    /// Its key in a study.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::NullBlk(_) => "null_blk",
            Self::ScsiDebug(_) => "scsi_debug",
        }
    }
}

impl Described for Devices {
    fn gives(&self, _below: u32) -> u32 {
        self.count
    }

    fn stands_on_nothing(&self) -> bool {
        true
    }
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => f.write_str("1 device"),
            count => write!(f, "{count} devices"),
        }
    }
}

/// From what the smallest filesystem and an array's superblock need, to what no test fills.
const DEVICE_SIZES: std::ops::RangeInclusive<Bytes> = Bytes::from_mib(8)..=Bytes::from_mib(1 << 20);

/// A loop device drops what does not fill its last page.
const DEVICE_MULTIPLE: Bytes = Bytes::from_kib(4);

fn read(values: &Values<'_>) -> Result<Devices> {
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
