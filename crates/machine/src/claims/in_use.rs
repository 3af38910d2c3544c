//! Who uses a disk: mounts in every mount namespace, swap, arrays, mappings, btrfs, whoever has it open for
//! itself alone, and whoever has it open otherwise ([`super::openers`]).
//!
//! What names the user is for the message. What decides is that the kernel gives a device to one exclusive
//! opener only: filesystems, swap, md and device mapper are such, and so an unknown or hidden user shows as
//! well (a filesystem that was unmounted lazily, or lies in a mount namespace that no process is in). Who has
//! it open, but not exclusively, shows only where its process can be looked into.

use super::error::ClaimError;
use super::node::{self, Node};
use super::openers;
use super::reason::Use;
use domain::order;
use rustix::fs::OFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Whether we have it open exclusively ourselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    ByUs,
    NotByUs,
}

/// Everything that uses the disk or a partition of it.
///
/// # Errors
/// [`ClaimError::Device`] where what has to be known cannot be read.
pub(crate) fn uses(node: &Node, held: Held) -> Result<Vec<Use>, ClaimError> {
    let parts = node.parts()?;
    let numbers = numbers(&parts);
    let mut found = named(&parts, &numbers)?;
    found.extend(openers::loops(&numbers)?);
    if node.text("ro").as_deref() != Some("0") {
        found.insert(Use::ReadOnly);
    }
    let is_named = found.iter().any(|how| *how != Use::ReadOnly);
    if held == Held::NotByUs && !is_named && is_held(node)? {
        found.insert(Use::Exclusive);
    }
    found.extend(openers::openers(&numbers)?);
    Ok(found.into_iter().collect())
}

/// What names itself as a user of a block device or of its partitions: mounts, swap, arrays, mappings, btrfs.
/// The device is not opened for that, and who has it open is not asked.
///
/// # Errors
/// [`ClaimError::Device`] where what has to be known cannot be read.
pub fn named_uses(number: (u32, u32)) -> Result<Vec<Use>, ClaimError> {
    let by_number = PathBuf::from(format!("/sys/dev/block/{}:{}", number.0, number.1));
    let sys =
        fs::canonicalize(&by_number).map_err(|source| node::device_error("find", &by_number, source))?;
    let parts = node::parts_of(&sys)?;
    Ok(named(&parts, &numbers(&parts))?.into_iter().collect())
}

/// What names itself as a user of these devices, a disk and its partitions.
fn named(
    parts: &[(String, PathBuf)],
    numbers: &BTreeMap<String, String>,
) -> Result<BTreeSet<Use>, ClaimError> {
    let mut found = BTreeSet::new();
    for (device, sys) in parts {
        for holder in node::names(&sys.join("holders"))? {
            found.insert(holding(device, holder));
        }
    }
    found.extend(mounts(numbers)?);
    found.extend(swaps(numbers)?);
    found.extend(btrfs(parts)?);
    Ok(found)
}

/// Names by numbers.
fn numbers(parts: &[(String, PathBuf)]) -> BTreeMap<String, String> {
    parts.iter().filter_map(|(name, sys)| Some((node::text(&sys.join("dev"))?, name.clone()))).collect()
}

fn is_held(node: &Node) -> Result<bool, ClaimError> {
    match node.reopen(OFlags::RDONLY | OFlags::EXCL) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(true),
        Err(source) => Err(node::device_error("open", &node.path, source)),
    }
}

fn holding(device: &str, holder: String) -> Use {
    let device = device.to_owned();
    let mapper = Path::new("/sys/block").join(&holder).join("dm");
    if mapper.exists() {
        let name = node::text(&mapper.join("name")).unwrap_or_else(|| holder.clone());
        let uuid = node::text(&mapper.join("uuid")).unwrap_or_default();
        let owner = uuid.split('-').next().unwrap_or_default().to_owned();
        return Use::Mapping { device, mapping: holder, name, owner };
    }
    if Path::new("/sys/block").join(&holder).join("md").exists() {
        return Use::Array { device, array: holder };
    }
    Use::Holder { device, holder }
}

/// In every mount namespace that some process is in, and below every root that a process has there: one that
/// is confined to a folder is shown only what lies below it.
fn mounts(numbers: &BTreeMap<String, String>) -> Result<Vec<Use>, ClaimError> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut told = BTreeSet::new();
    let ours = view(Path::new("/proc/self"));
    for process in processes()? {
        let Some(view) = view(&process.folder) else { continue };
        if !seen.insert(view.clone()) {
            continue;
        }
        let file = process.folder.join("mountinfo");
        let text = match fs::read(&file) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            // It has ended meanwhile; what it alone has mounted shows as exclusively open.
            Err(_) => continue,
        };
        let seen_by = if Some(&view) == ours.as_ref() { None } else { Some(process.id) };
        for mount in parse::kernel::mounts::mountinfo(&text).flatten() {
            let Some(device) = numbers.get(&mount.number) else { continue };
            let (device, mountpoint) = (device.clone(), mount.mountpoint);
            if told.insert((device.clone(), mountpoint.clone())) {
                found.push(Use::Mounted { device, mountpoint, seen_by });
            }
        }
    }
    Ok(found)
}

#[derive(Clone, Debug)]
pub(super) struct Process {
    pub id: u32,
    /// Its folder in /proc.
    pub folder: PathBuf,
}

/// We ourselves come first, so that what we see is told as ours.
pub(super) fn processes() -> Result<Vec<Process>, ClaimError> {
    let proc = Path::new("/proc");
    let mut ids: Vec<u32> = node::names(proc)?.iter().filter_map(|name| name.parse().ok()).collect();
    let own = std::process::id();
    order::by_key(&mut ids, |id| (*id != own, *id));
    Ok(ids.into_iter().map(|id| Process { id, folder: proc.join(id.to_string()) }).collect())
}

/// The mount namespace of a process and its root; `None` where it has ended.
fn view(process: &Path) -> Option<(PathBuf, PathBuf)> {
    Some((fs::read_link(process.join("ns/mnt")).ok()?, fs::read_link(process.join("root")).ok()?))
}

fn swaps(numbers: &BTreeMap<String, String>) -> Result<Vec<Use>, ClaimError> {
    let path = Path::new("/proc/swaps");
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        // A kernel without swap.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(node::device_error("read", path, source)),
    };
    let device = |line: &str| {
        let metadata = fs::metadata(line.split_whitespace().next()?).ok()?;
        let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
        numbers.get(&format!("{major}:{minor}")).cloned()
    };
    Ok(text.lines().skip(1).filter_map(device).map(|device| Use::Swap { device }).collect())
}

/// A btrfs shows one of its devices as mounted; the others show here.
fn btrfs(parts: &[(String, PathBuf)]) -> Result<Vec<Use>, ClaimError> {
    let all = Path::new("/sys/fs/btrfs");
    let mut found = Vec::new();
    for uuid in node::names(all)? {
        let devices = node::names(&all.join(&uuid).join("devices"))?;
        for (device, _) in parts.iter().filter(|(name, _)| devices.contains(name)) {
            found.push(Use::Btrfs { device: device.clone(), uuid: uuid.clone() });
        }
    }
    Ok(found)
}
