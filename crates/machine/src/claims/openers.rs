//! Who has a disk open without having it for itself alone: a virtual machine on a raw disk, a database on a
//! raw device, a loop device over it.
//!
//! The kernel keeps no list of these. Processes show their descriptors in `/proc/PID/fd` (proc(5)), loop
//! devices what they stand on in sysfs. Whoever merely looks at a disk (udev, blkid, smartd) has it open for
//! milliseconds, and is waited for.
//!
//! Not seen: a process that this user may not look into; a thread with descriptors of its own; a descriptor
//! that was closed and lives on in a mapping, an io_uring or a message on its way; what else in the kernel
//! opens a disk without taking it exclusively, such as an NVMe target.

use super::error::ClaimError;
use super::in_use::{Process, processes};
use super::node;
use super::reason::Use;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, StatxFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long one may have it open who only looks at it, or tries it, as losetup does that wants a free loop
/// device.
const PATIENCE: Duration = Duration::from_millis(300);
const POLL: Duration = Duration::from_millis(10);
/// A database has hundreds of processes, and the first ones tell whose they are.
const MAX_TOLD: usize = 8;
/// open(2), as `/proc/PID/fdinfo` shows it: a descriptor that names the node only, and has not opened the
/// disk.
const O_PATH: u32 = 0o10_000_000;

/// The processes other than this one that have one of these devices open, and keep it open. `numbers` has
/// `MAJOR:MINOR` to the kernel's name.
///
/// # Errors
/// [`ClaimError::Device`] where the processes cannot be listed.
pub(super) fn openers(numbers: &BTreeMap<String, String>) -> Result<Vec<Use>, ClaimError> {
    let own = std::process::id();
    let mut all = Vec::new();
    for process in processes()?.into_iter().filter(|process| process.id != own) {
        let devices = opened_by(&process, numbers);
        all.extend(devices.into_iter().map(|device| (process.clone(), device)));
    }
    let all = those_who_stay(all, |(process, device)| opened_by(process, numbers).contains(device));
    let told = all.into_iter().filter_map(|(Process { id, folder }, device)| {
        // A process without a name has ended.
        Some(Use::Open { device, pid: id, command: node::text(&folder.join("comm"))? })
    });
    Ok(told.take(MAX_TOLD).collect())
}

/// Those of whom it still holds after a while.
fn those_who_stay<T>(mut all: Vec<T>, mut still: impl FnMut(&T) -> bool) -> Vec<T> {
    let deadline = Instant::now() + PATIENCE;
    while !all.is_empty() && Instant::now() < deadline {
        std::thread::sleep(POLL);
        all.retain(&mut still);
    }
    all
}

/// The loop devices over these. Such a one holds what it stands on open, but not exclusively, and no process
/// does.
///
/// # Errors
/// [`ClaimError::Device`] where the devices cannot be listed.
pub(super) fn loops(numbers: &BTreeMap<String, String>) -> Result<Vec<Use>, ClaimError> {
    let all = Path::new("/sys/block");
    let over = |holder: String| {
        let file = node::text(&all.join(&holder).join("loop/backing_file"))?;
        // Looking at a file elsewhere may wait for a server; disks have their nodes here.
        let number = fs::metadata(file.starts_with("/dev/").then_some(file)?).ok()?.rdev();
        let number = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        Some(Use::Holder { device: numbers.get(&number)?.clone(), holder })
    };
    Ok(node::names(all)?.into_iter().filter(|name| name.starts_with("loop")).filter_map(over).collect())
}

/// Which of these devices a process has open; none where it has ended.
fn opened_by(process: &Process, numbers: &BTreeMap<String, String>) -> BTreeSet<String> {
    let folder = process.folder.join("fd");
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(folder) = rustix::fs::open(folder, flags, Mode::empty()) else { return BTreeSet::new() };
    let Ok(entries) = Dir::read_from(&folder) else { return BTreeSet::new() };
    let device = |entry: rustix::io::Result<rustix::fs::DirEntry>| {
        let entry = entry.ok()?;
        // What is known of it without asking a server, which may not answer.
        let (at, what) = (AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE);
        let found = rustix::fs::statx(&folder, entry.file_name(), at, what).ok()?;
        if FileType::from_raw_mode(found.stx_mode.into()) != FileType::BlockDevice {
            return None;
        }
        let device = numbers.get(&format!("{}:{}", found.stx_rdev_major, found.stx_rdev_minor))?;
        let descriptor = entry.file_name().to_string_lossy().into_owned();
        (!names_only(&process.folder.join("fdinfo").join(descriptor))).then(|| device.clone())
    };
    entries.filter_map(device).collect()
}

fn names_only(fdinfo: &Path) -> bool {
    let text = fs::read_to_string(fdinfo).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).is_some_and(|flags| flags & O_PATH != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn process(child: &Child) -> Process {
        Process { id: child.id(), folder: format!("/proc/{}", child.id()).into() }
    }

    #[test]
    fn character_devices_files_and_pipes_are_no_disks() {
        let mut child =
            Command::new("sleep").arg("100").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        // `/dev/null` has the number of a disk of memory, and is none.
        let numbers = [("1:3".to_owned(), "ram3".to_owned())].into();
        let found = opened_by(&process(&child), &numbers);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, BTreeSet::new());
        assert_eq!(opened_by(&process(&child), &numbers), BTreeSet::new(), "it has ended");
    }

    #[test]
    fn who_looks_for_a_moment_is_waited_for() {
        let mut looks = 0;
        let stay = those_who_stay(vec!["udevd", "qemu"], |who| {
            looks += 1;
            *who == "qemu" || looks < 3
        });
        assert_eq!(stay, ["qemu"]);
        assert!(those_who_stay(Vec::<u8>::new(), |_| unreachable!("nobody is looked at")).is_empty());
    }

    #[test]
    fn a_descriptor_that_names_a_node_only_has_not_opened_it() {
        let folder = tempfile::tempdir().unwrap();
        for (text, expected) in [
            ("pos:\t0\nflags:\t012000000\nmnt_id:\t30\n", true),
            ("pos:\t0\nflags:\t02100002\nmnt_id:\t30\n", false),
            ("", false),
        ] {
            let file = folder.path().join("0");
            fs::write(&file, text).unwrap();
            assert_eq!(names_only(&file), expected, "{text:?}");
        }
    }
}
