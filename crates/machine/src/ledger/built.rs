//! Parts of a storage stack that we built: written down before they appear, and taken down only where they
//! are ours.
//!
//! What is ours is told by a name or number that nobody had before, by what it stands on, and for arrays by
//! the UUID that was written down. A part that was begun and not finished is taken down like a whole one.

use super::databases::{self, OwnDatabase};
use super::record::{Act, BuiltRecord, Pending};
use super::report::UndoOutcome;
use super::whereabouts::{in_own_folder, own_folder, own_name, plain, word};
use super::{Ledger, RestoreReport, served};
use crate::Machine;
use crate::settings::{Error, means_absent};
use parse::kernel::mounts::{self, MountInfo};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// A part of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum Built {
    /// A folder to mount on.
    Folder {
        /// Its path.
        path: String,
    },
    /// An md array.
    Array {
        /// `100` for `/dev/md100`; there was none before.
        number: u32,
        /// Its UUID, which nobody else's array has.
        uuid: String,
        /// `major:minor` of its members, which are ours.
        members: Vec<String>,
    },
    /// A device-mapper device of cryptsetup.
    Mapping {
        /// Its name, which has a random part.
        name: String,
        /// `major:minor` of the device below.
        below: String,
    },
    /// A volume group with one volume.
    Volume {
        /// The group's name, which has a random part.
        group: String,
        /// The volume's device-mapper name.
        mapping: String,
        /// The devices below, by their paths.
        below: Vec<String>,
    },
    /// A mounted filesystem.
    Mount {
        /// Where: a folder of ours.
        folder: String,
        /// What: the device's path.
        source: String,
        /// Its `major:minor`.
        number: String,
    },
    /// A device of null_blk.
    NullBlk {
        /// Its folder's name in configfs, which has a random part.
        name: String,
    },
    /// A kernel module that was not loaded before.
    Module {
        /// Its name.
        name: String,
    },
    /// A folder, and all that programs of ours put into it.
    Tree {
        /// Its path, which has a random part.
        path: String,
    },
    /// A server and its processes.
    Server {
        /// The file that they execute.
        program: String,
        /// Where they work: in a folder of ours.
        folder: String,
    },
    /// A database in a server that is somebody's.
    Database(OwnDatabase),
}

/// Where null_blk's devices are made.
pub(crate) const NULL_BLK: &str = "/sys/kernel/config/nullb";

/// How long a program may take to take something down: mdadm and umount wait until what was written is on the
/// disk.
pub(super) const LIMIT: Duration = Duration::from_secs(300);

/// How long to wait for a part to become free: udev opens new and changed block devices for some
/// milliseconds.
const PATIENCE: Duration = Duration::from_secs(4);
const POLL: Duration = Duration::from_millis(20);

/// How long the kernel may take to remove a part that a program has taken down.
const SETTLE: Duration = Duration::from_secs(2);

/// How long to wait for a module that is being loaded or unloaded: `modprobe -r` says nothing of it and does
/// nothing.
const MODULE_PATIENCE: Duration = Duration::from_secs(60);

impl Built {
    /// What it is, for people.
    pub fn what(&self) -> String {
        match self {
            Self::Folder { path } => path.clone(),
            Self::Array { number, .. } => format!("/dev/md{number}"),
            Self::Mapping { name, .. } => format!("/dev/mapper/{name}"),
            Self::Volume { mapping, .. } => format!("/dev/mapper/{mapping}"),
            Self::Mount { folder, .. } => format!("mount on {folder}"),
            Self::NullBlk { name } => format!("{NULL_BLK}/{name}"),
            Self::Module { name } => format!("module {name}"),
            Self::Tree { path } => path.clone(),
            Self::Server { program, folder } => format!("{program} in {folder}"),
            Self::Database(database) => database.what(),
        }
    }

    /// `Err` says what is wrong: where it is, or how it is called, is nothing that Flyball chooses.
    pub(super) fn is_where_it_may_be(&self) -> Result<(), String> {
        match self {
            Self::Folder { path } | Self::Mount { folder: path, .. } | Self::Tree { path } => {
                own_folder(path)
            }
            Self::Server { program, folder } => plain(program).and_then(|()| in_own_folder(folder)),
            Self::Mapping { name, .. } | Self::NullBlk { name } => own_name(name),
            Self::Volume { group, mapping, .. } => own_name(group).and_then(|()| own_name(mapping)),
            Self::Module { name } => word(name),
            Self::Database(database) => {
                let file = database.password_file.as_deref();
                file.map_or(Ok(()), plain).and_then(|()| database.login().map(drop))
            }
            Self::Array { .. } => Ok(()),
        }
    }
}

impl Ledger<'_> {
    /// Writes down that a part of a stack is about to appear.
    ///
    /// # Errors
    /// [`Error::State`].
    pub(crate) fn announce_built(&mut self, part: Built) -> Result<(), Error> {
        let (id, boot) = (self.next_id(), self.boot.clone());
        self.announce(Pending::new(Act::Built(BuiltRecord { id, boot, part })))
    }

    /// The last change so far, for [`Ledger::since`].
    pub(crate) fn last(&self) -> u64 {
        self.last_id
    }

    /// What was done after that and is not undone.
    pub(crate) fn since(&self, last: u64) -> BTreeSet<u64> {
        self.pending.iter().map(Pending::id).filter(|id| *id > last).collect()
    }

    /// Undoes these, the last one first.
    pub(crate) fn undo_these(&mut self, ids: &BTreeSet<u64>) -> RestoreReport {
        self.undo_and_retire(0, &super::undo::Scope::These(ids))
    }
}

/// Takes a part down: only what is ours. `Failed` where it is still there afterwards, or where the machine
/// does not say whether it is.
pub(super) fn take_down(machine: &dyn Machine, record: &BuiltRecord, same_boot: bool) -> UndoOutcome {
    let down = match &record.part {
        Built::Folder { path } => folder(machine, path),
        Built::Array { number, uuid, members } => {
            let members = if same_boot { members.as_slice() } else { &[] };
            array(machine, same_boot.then_some(*number), uuid, members)
        }
        Built::Mapping { name, below } => mapping(machine, name, same_boot.then_some(below)),
        Built::Volume { group, mapping, below } => volume(machine, group, mapping, below),
        Built::Mount { folder, source, number } => unmount(machine, folder, source, number),
        Built::NullBlk { name } => null_blk(machine, name),
        Built::Module { .. } | Built::Server { .. } if !same_boot => Ok(UndoOutcome::Rebooted),
        Built::Tree { path } => served::remove_tree(machine, path),
        Built::Server { program, folder } => served::stop(machine, program, folder),
        Built::Database(database) => databases::remove(machine, database),
        Built::Module { name } => module(machine, name),
    };
    match down {
        // It cannot have outlived the restart, and nothing of its kind was found.
        Ok(UndoOutcome::Untouched) if !same_boot => UndoOutcome::Rebooted,
        Ok(outcome) => outcome,
        Err(why) => UndoOutcome::Failed(why),
    }
}

/// What taking it down would do, for people.
pub(super) fn foresee(machine: &dyn Machine, record: &BuiltRecord, same_boot: bool) -> UndoOutcome {
    let there = match &record.part {
        Built::Folder { path } | Built::Tree { path } => is_folder(machine, path),
        Built::Database(database) => databases::is_there(machine, database),
        Built::Server { program, folder } => Ok(same_boot && crate::workload::works_in(program, folder)),
        Built::Array { number, .. } => {
            is_folder(machine, &format!("/sys/block/md{number}")).map(|is| is && same_boot)
        }
        Built::Mapping { name, .. } | Built::Volume { mapping: name, .. } => is_mapped(machine, name),
        Built::Mount { folder, .. } => mounted_on(machine, folder).map(|mounts| !mounts.is_empty()),
        Built::NullBlk { name } => is_folder(machine, &format!("{NULL_BLK}/{name}")),
        Built::Module { name } => {
            is_folder(machine, &format!("/sys/module/{name}")).map(|is| is && same_boot)
        }
    };
    match (there, same_boot) {
        (Ok(true), _) => UndoOutcome::Removed,
        (Ok(false), true) => UndoOutcome::Untouched,
        (Ok(false), false) => UndoOutcome::Rebooted,
        (Err(why), _) => UndoOutcome::Failed(why),
    }
}

/// Nothing that is there may be taken for absent because it could not be looked at: it would be forgotten.
pub(super) fn names(machine: &dyn Machine, folder: &str) -> Result<Option<Vec<String>>, String> {
    match machine.list(Path::new(folder)) {
        Ok(names) => Ok(Some(names)),
        Err(error) if means_absent(&error) => Ok(None),
        Err(error) => Err(format!("cannot look at `{folder}`: {error}")),
    }
}

pub(super) fn is_folder(machine: &dyn Machine, path: &str) -> Result<bool, String> {
    names(machine, path).map(|names| names.is_some())
}

/// A file's text; `None` where it is not there, or has no value: what is being taken down answers `EBUSY`.
pub(super) fn text(machine: &dyn Machine, path: &str) -> Result<Option<String>, String> {
    const EIO: i32 = 5;
    const EBUSY: i32 = 16;
    const EINVAL: i32 = 22;
    let has_no_value =
        |error: &io::Error| matches!(error.raw_os_error(), Some(EIO | EBUSY | EINVAL)) || means_absent(error);
    match machine.read(Path::new(path)) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
        Err(error) if has_no_value(&error) => Ok(None),
        Err(error) => Err(format!("cannot read `{path}`: {error}")),
    }
}

/// The block devices of a kind, by their kernel names.
fn devices(machine: &dyn Machine, prefix: &str) -> Result<Vec<String>, String> {
    let mut all = names(machine, "/sys/block")?.unwrap_or_default();
    all.retain(|name| name.strip_prefix(prefix).is_some_and(|rest| rest.parse::<u32>().is_ok()));
    Ok(all)
}

/// Runs a program until the part is gone, for a while at the most. After it has succeeded the kernel may
/// take a moment: md removes an array's device in a work queue (drivers/md/md.c, `mddev_delayed_delete`),
/// and to ask once more, which opens its node, would make it anew.
pub(super) fn until_gone(
    machine: &dyn Machine,
    argv: &[&str],
    mut is_there: impl FnMut() -> Result<bool, String>,
) -> Result<UndoOutcome, String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let output = machine.run(argv, LIMIT);
        let has_succeeded = output.as_ref().is_ok_and(|output| output.code == Some(0));
        let settled = Instant::now() + if has_succeeded { SETTLE } else { Duration::ZERO };
        while is_there()? {
            if Instant::now() >= settled {
                break;
            }
            std::thread::sleep(POLL);
        }
        if !is_there()? {
            return Ok(UndoOutcome::Removed);
        }
        let why = match output {
            // The program is missing, or no process can be made: asking again changes nothing.
            Err(error) => return Err(format!("cannot run `{}`: {error}", argv.join(" "))),
            Ok(output) => match (output.last_words(), output.code) {
                (words, _) if words != "nothing" => format!("`{}` said: {words}", argv.join(" ")),
                (_, Some(code)) => format!("`{}` ended with {code} and said nothing", argv.join(" ")),
                (_, None) => format!("`{}` was ended by a signal", argv.join(" ")),
            },
        };
        if Instant::now() >= deadline {
            return Err(format!("{why}; end what uses it, then run `flyball restore`"));
        }
        std::thread::sleep(POLL);
    }
}

fn folder(machine: &dyn Machine, path: &str) -> Result<UndoOutcome, String> {
    if let Some(top) = mounted_on(machine, path)?.pop() {
        return Err(format!("`{}` is mounted on it; unmount that, then run `flyball restore`", top.source));
    }
    match names(machine, path)? {
        None => Ok(UndoOutcome::Untouched),
        Some(names) if !names.is_empty() => Err("it is not empty; take out what is in it".into()),
        Some(_) => until_gone(machine, &["rmdir", path], || is_folder(machine, path)),
    }
}

/// The arrays that have a member of ours, or are the number that was free; where `number` is `None`, after a
/// restart that is, those that carry our UUID.
fn array(
    machine: &dyn Machine,
    number: Option<u32>,
    uuid: &str,
    members: &[String],
) -> Result<UndoOutcome, String> {
    let mut outcome = UndoOutcome::Untouched;
    let own = number.map(|number| format!("md{number}"));
    for name in devices(machine, "md")? {
        let is_own = Some(&name) == own.as_ref();
        let shown = text(machine, &format!("/sys/block/{name}/md/uuid"))?.unwrap_or_default();
        let has = slaves(machine, &name)?;
        let (ours, others): (Vec<&String>, Vec<&String>) = has.iter().partition(|n| members.contains(n));
        let is_meant = if number.is_some() { !ours.is_empty() || is_own } else { same_uuid(&shown, uuid) };
        if !is_meant {
            continue;
        }
        let is_another = shown.chars().any(|c| c.is_ascii_hexdigit() && c != '0') && !same_uuid(&shown, uuid);
        if is_another || (number.is_some() && !others.is_empty()) {
            let now = format!("an array that is not ours ({name}, {shown})");
            return Ok(UndoOutcome::Foreign { now, before: "no array".into() });
        }
        let node = format!("/dev/{name}");
        let is_there = || {
            // What mdadm leaves when it is killed before it adds a member: the kernel keeps a node that
            // nobody has asked anything, and the number would stay taken.
            if is_own {
                return is_folder(machine, &format!("/sys/block/{name}"));
            }
            let state = text(machine, &format!("/sys/block/{name}/md/array_state"))?;
            Ok(!slaves(machine, &name)?.is_empty() || state.is_some_and(|state| state != "clear"))
        };
        if is_there()? {
            outcome = until_gone(machine, &["mdadm", "--stop", &node], is_there)?;
        }
    }
    Ok(outcome)
}

fn same_uuid(one: &str, other: &str) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_hexdigit).collect::<String>().to_lowercase();
    !digits(one).is_empty() && digits(one) == digits(other)
}

/// `major:minor` of what a device stands on.
fn slaves(machine: &dyn Machine, name: &str) -> Result<Vec<String>, String> {
    let folder = format!("/sys/block/{name}/slaves");
    let mut numbers = Vec::new();
    for slave in names(machine, &folder)?.unwrap_or_default() {
        numbers.extend(text(machine, &format!("{folder}/{slave}/dev"))?);
    }
    Ok(numbers)
}

/// A device-mapper device.
struct DmDevice {
    name: String,
    slaves: Vec<String>,
}

fn mappings(machine: &dyn Machine) -> Result<Vec<DmDevice>, String> {
    let mut all = Vec::new();
    for kernel in devices(machine, "dm-")? {
        // One that went away meanwhile has no name any more.
        if let Some(name) = text(machine, &format!("/sys/block/{kernel}/dm/name"))? {
            all.push(DmDevice { name, slaves: slaves(machine, &kernel)? });
        }
    }
    Ok(all)
}

fn is_mapped(machine: &dyn Machine, name: &str) -> Result<bool, String> {
    Ok(mappings(machine)?.iter().any(|device| device.name == name))
}

/// cryptsetup works through a device of its own while it writes a LUKS header (`temporary-cryptsetup-PID`, in
/// its `lib/utils_storage_wrappers.c`); killed in the middle, it leaves that one.
fn mapping(machine: &dyn Machine, name: &str, below: Option<&String>) -> Result<UndoOutcome, String> {
    const TEMPORARY: &str = "temporary-cryptsetup-";
    let is_ours = |device: &DmDevice| {
        let is_temporary = device.name.starts_with(TEMPORARY);
        device.name == name || (is_temporary && below.is_some_and(|below| device.slaves == [below.clone()]))
    };
    let mut outcome = UndoOutcome::Untouched;
    for DmDevice { name, .. } in mappings(machine)?.into_iter().filter(is_ours) {
        let argv = ["dmsetup", "remove", "--retry", &name];
        outcome = until_gone(machine, &argv, || is_mapped(machine, &name))?;
    }
    without_node(machine, name, outcome)
}

/// Where there is no udev, programs make and remove the nodes in /dev/mapper themselves, and one that is
/// killed between the device and its node leaves the node.
fn without_node(machine: &dyn Machine, name: &str, outcome: UndoOutcome) -> Result<UndoOutcome, String> {
    let is_there = || Ok(names(machine, "/dev/mapper")?.unwrap_or_default().iter().any(|node| node == name));
    if !is_there()? {
        return Ok(outcome);
    }
    until_gone(machine, &["dmsetup", "mknodes", name], is_there)
}

fn volume(machine: &dyn Machine, group: &str, name: &str, below: &[String]) -> Result<UndoOutcome, String> {
    let mut outcome = UndoOutcome::Untouched;
    if is_mapped(machine, name)? {
        // LVM removes its links in /dev as well. Where it cannot find the group any more, the device goes all
        // the same.
        let argv = crate::stack::deactivate(group, below);
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        let _ = machine.run(&argv, LIMIT);
        outcome = UndoOutcome::Removed;
        if is_mapped(machine, name)? {
            let argv = ["dmsetup", "remove", "--retry", name];
            outcome = until_gone(machine, &argv, || is_mapped(machine, name))?;
        }
    }
    let outcome = without_node(machine, name, outcome)?;
    without_links(machine, group, outcome)
}

/// Where there is no udev, LVM makes a folder of links for each group in /dev, and one that is killed leaves
/// it.
fn without_links(machine: &dyn Machine, group: &str, outcome: UndoOutcome) -> Result<UndoOutcome, String> {
    let folder = format!("/dev/{group}");
    for link in names(machine, &folder)?.unwrap_or_default() {
        let _ = machine.run(&["rm", "-f", &format!("{folder}/{link}")], LIMIT);
    }
    if !is_folder(machine, &folder)? {
        return Ok(outcome);
    }
    until_gone(machine, &["rmdir", &folder], || is_folder(machine, &folder))
}

/// What is mounted on a folder, the topmost last.
fn mounted_on(machine: &dyn Machine, folder: &str) -> Result<Vec<MountInfo>, String> {
    let mut mounted = mounted_below(machine, folder)?;
    mounted.retain(|mount| mount.mountpoint == folder);
    Ok(mounted)
}

/// What is mounted on a folder or on one in it.
pub(super) fn mounted_below(machine: &dyn Machine, folder: &str) -> Result<Vec<MountInfo>, String> {
    let text =
        text(machine, "/proc/self/mountinfo")?.ok_or("there is no `/proc/self/mountinfo`; mount /proc")?;
    let is_there = |mount: &MountInfo| Path::new(&mount.mountpoint).starts_with(folder);
    Ok(mounts::mountinfo(&text).flatten().filter(is_there).collect())
}

/// btrfs shows a number of its own, and a path may be written in another way.
fn unmount(machine: &dyn Machine, folder: &str, source: &str, number: &str) -> Result<UndoOutcome, String> {
    let is_ours = |mount: &MountInfo| mount.source == source || mount.number == number;
    let mounted = mounted_on(machine, folder)?;
    let Some(top) = mounted.last() else { return Ok(UndoOutcome::Untouched) };
    if is_ours(top) {
        return until_gone(machine, &["umount", folder], || {
            Ok(mounted_on(machine, folder)?.iter().any(is_ours))
        });
    }
    let now = format!("`{}` mounted there", top.source);
    if mounted.iter().any(is_ours) {
        // Ours is still there, and everything below it in use.
        return Err(format!("somebody else has {now} over it; unmount that, then run `flyball restore`"));
    }
    Ok(UndoOutcome::Foreign { now, before: "nothing mounted there".into() })
}

fn null_blk(machine: &dyn Machine, name: &str) -> Result<UndoOutcome, String> {
    let folder = format!("{NULL_BLK}/{name}");
    if !is_folder(machine, &folder)? {
        return Ok(UndoOutcome::Untouched);
    }
    match machine.write(Path::new(&format!("{folder}/power")), b"0") {
        // Somebody was faster.
        Err(error) if means_absent(&error) => {}
        Err(error) => return Err(format!("cannot switch it off: {error}")),
        Ok(()) => {}
    }
    until_gone(machine, &["rmdir", &folder], || is_folder(machine, &folder))
}

fn module(machine: &dyn Machine, name: &str) -> Result<UndoOutcome, String> {
    let is_there = || is_folder(machine, &format!("/sys/module/{name}"));
    let state = |file: &str| text(machine, &format!("/sys/module/{name}/{file}"));
    // `initstate` is "coming" while the module's init runs and "going" while its exit runs; then the kernel
    // removes the file, and the folder last (kernel/module/sysfs.c).
    let deadline = Instant::now() + MODULE_PATIENCE;
    while is_there()? && state("initstate")?.as_deref() != Some("live") && Instant::now() < deadline {
        std::thread::sleep(POLL);
    }
    if !is_there()? {
        return Ok(UndoOutcome::Untouched);
    }
    // null_blk may have been given a device by somebody else meanwhile.
    let in_use = state("refcnt")?.is_some_and(|count| count != "0");
    match until_gone(machine, &["modprobe", "-r", name], is_there) {
        Err(_) if in_use => Ok(UndoOutcome::Foreign { now: "in use".into(), before: "not loaded".into() }),
        Err(why) => {
            let (initstate, refcnt) = (state("initstate")?, state("refcnt")?);
            let shown = |value: Option<String>| value.unwrap_or_else(|| "absent".into());
            Err(format!("{why} (initstate {}, refcnt {})", shown(initstate), shown(refcnt)))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::LocalMachine;

    /// As md's devices: each command makes it anew, and it goes a moment after that.
    #[test]
    fn a_part_that_goes_a_moment_after_the_command_is_not_asked_for_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("asked");
        let path = file.to_str().unwrap();
        let is_there = || {
            let asked = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
            let since =
                file.metadata().and_then(|file| file.modified()).map_err(|error| error.to_string())?;
            assert_eq!(asked.lines().count(), 1, "asked once");
            Ok(since.elapsed().unwrap_or_default() < Duration::from_millis(200))
        };
        let command = format!("echo asked >> {path}");
        let outcome = until_gone(&LocalMachine, &["sh", "-c", &command], is_there);
        assert_eq!(outcome, Ok(UndoOutcome::Removed));
    }
}
