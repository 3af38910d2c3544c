//! Files and loop devices of our own: written down before they appear, and removed only where they are ours.

use super::record::{Act, FileRecord, Inode, LoopRecord, Pending, Record};
use super::report::UndoOutcome;
use super::{Ledger, boot_id};
use crate::loopdev::{self, Backing, Form, LoopIo};
use crate::settings::Error;
use domain::units::Bytes;
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, fallocate, linkat, open};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// A file that the ledger made, open for reading and writing. It is removed when the ledger is finished.
#[derive(Debug)]
pub struct OwnFile {
    /// Where it is.
    pub path: PathBuf,
    /// The file itself.
    pub file: File,
}

/// A loop device that the ledger made. It is detached and removed when the ledger is finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopDevice {
    /// `loop8`.
    pub name: String,
    /// `/dev/loop8`.
    pub path: PathBuf,
}

/// The files of our own that this process has made, by the numbers of their changes: where the folder of one
/// is moved away, it is found through its descriptor.
pub(super) type Held = BTreeMap<u64, File>;

/// How many loop devices there may be before ours: each number that is taken is tried once.
const MAX_LOOPS: u32 = 1024;

impl Ledger<'_> {
    /// Makes a file of this size, readable by nobody else, with its space reserved where the file system can.
    /// Nothing that exists is touched.
    ///
    /// # Errors
    /// [`Error::Own`]: the path exists, its folder does not, or there is no room; [`Error::State`].
    pub fn create_file(&mut self, path: &Path, size: Bytes) -> Result<OwnFile, Error> {
        let failed = |what: &'static str, hint: &'static str| {
            let path = path.to_owned();
            move |source: io::Error| Error::Own { what, path, source, hint }
        };
        let path = plain_path(path).map_err(failed("find the folder of", "; make it first"))?;
        let text = path.to_str().ok_or(io::ErrorKind::InvalidFilename.into());
        let text = text.map_err(failed("name the file", "; use a path in UTF-8"))?.to_owned();
        if fs::symlink_metadata(&path).is_ok() {
            let exists = io::ErrorKind::AlreadyExists.into();
            return Err(failed("make the file", "; name one that does not exist")(exists));
        }
        let mark = self.pending.len();
        let made = self.make_file(&path, text, size);
        if made.is_err() && self.pending.len() > mark {
            self.undo_last();
        }
        let file = made?;
        if let (Some(entry), Ok(held)) = (self.pending.last(), file.try_clone()) {
            self.held.insert(entry.id(), held);
        }
        Ok(OwnFile { file, path })
    }

    fn make_file(&mut self, path: &Path, text: String, size: Bytes) -> Result<File, Error> {
        let failed = |what: &'static str, hint: &'static str| {
            let path = path.to_owned();
            move |source: io::Error| Error::Own { what, path, source, hint }
        };
        let no_room = || failed("reserve the space of", "; free some, or use a smaller file");
        let record = FileRecord { id: self.next_id(), boot: self.boot.clone(), path: text, inode: None };
        if let Some(file) = nameless(path).map_err(failed("make the file", ""))? {
            // The identity is on the disk before the file can be seen.
            reserve(&file, size).map_err(no_room())?;
            let inode = inode_of(&file.metadata().map_err(failed("look at", ""))?);
            self.announce(Pending::new(Act::File(FileRecord { inode: Some(inode.clone()), ..record })))?;
            give_name(&file, path).map_err(failed("name the file", "; name one that does not exist"))?;
            return reopened(path, &inode).map_err(failed("open the file just made", ""));
        }
        self.announce(Pending::new(Act::File(record.clone())))?;
        let file = empty_file(path).map_err(failed("make the file", ""))?;
        let inode = inode_of(&file.metadata().map_err(failed("look at", ""))?);
        self.identify_file(FileRecord { inode: Some(inode), ..record })?;
        reserve(&file, size).map_err(no_room())?;
        Ok(file)
    }

    /// Makes a loop device over a file of our own, under a number that was free.
    ///
    /// # Errors
    /// [`Error::Own`]: no root, no loop devices in this kernel, or all of their numbers are taken;
    /// [`Error::State`].
    pub fn attach_loop(&mut self, file: &OwnFile, way: LoopIo) -> Result<LoopDevice, Error> {
        self.attach_loop_over(&file.file, &file.path, Form { io: way, sector_size: None })
    }

    /// The same over any open file or block device that is ours; `path` is its name for people.
    ///
    /// # Errors
    /// As [`Ledger::attach_loop`]; the kernel refuses sectors that it has not.
    pub(crate) fn attach_loop_over(
        &mut self,
        file: &File,
        path: &Path,
        form: Form,
    ) -> Result<LoopDevice, Error> {
        let failed = |what, path: PathBuf, hint| move |source| Error::Own { what, path, source, hint };
        let metadata = file.metadata().map_err(failed("look at", path.to_owned(), ""))?;
        let text = path.to_str().ok_or(io::ErrorKind::InvalidFilename.into());
        let text =
            text.map_err(failed("name the file", path.to_owned(), "; use a path in UTF-8"))?.to_owned();
        for number in 0..MAX_LOOPS {
            if loopdev::exists(number) {
                continue;
            }
            let (id, boot) = (self.next_id(), self.boot.clone());
            let record = LoopRecord { id, boot, number, file: text.clone(), inode: inode_of(&metadata) };
            self.announce(Pending::new(Act::Loop(record)))?;
            let made = loopdev::add(number).and_then(|()| loopdev::bind(number, file, &text, form));
            match made {
                Ok(()) => {
                    let path = loopdev::node(number);
                    return Ok(LoopDevice { name: format!("loop{number}"), path });
                }
                // Somebody was faster: the device is theirs, bound or not, and not ours to remove.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.forget_last()?,
                Err(error) => {
                    let taken = error.kind() == io::ErrorKind::ResourceBusy;
                    self.undo_last();
                    if !taken {
                        let hint = "; making loop devices needs root and the kernel's module `loop`";
                        return Err(failed("make the loop device", loopdev::node(number), hint)(error));
                    }
                }
            }
        }
        let none = io::Error::other("every number is taken");
        Err(failed("make a loop device over", path.to_owned(), "; detach some: `losetup -l`")(none))
    }

    /// A second record of a file adds which one it is.
    fn identify_file(&mut self, record: FileRecord) -> Result<(), Error> {
        self.journal.announce(&[Record::File(record.clone())])?;
        let last = self.pending.last_mut().expect("the file was announced just now");
        last.act = Act::File(record);
        Ok(())
    }
}

/// The path with its folder's links resolved, so that it means the same from every folder and to the end.
fn plain_path(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidFilename.into());
    };
    Ok(fs::canonicalize(folder)?.join(name))
}

/// A file without a name (`O_TMPFILE`, open(2)); `None` where the file system has none such.
fn nameless(path: &Path) -> io::Result<Option<File>> {
    let folder = path.parent().expect("plain_path gave one");
    match open(folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(Some(file.into())),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Fails where the name exists.
fn give_name(file: &File, path: &Path) -> io::Result<()> {
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// The same file through its name. A descriptor from before the name shows as `/#123 (deleted)` for ever, and
/// so would a loop device over it in `losetup -l`.
fn reopened(path: &Path, inode: &Inode) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
    let file: File = open(path, flags, Mode::empty())?.into();
    if inode_of(&file.metadata()?) != *inode {
        return Err(io::Error::other("somebody has put another file in its place"));
    }
    Ok(file)
}

fn empty_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

fn reserve(file: &File, size: Bytes) -> io::Result<()> {
    if size.get() == 0 {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::empty(), 0, size.get()) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(size.get()),
        result => Ok(result?),
    }
}

fn inode_of(metadata: &fs::Metadata) -> Inode {
    let born = metadata.created().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    let born = born.and_then(|since| i64::try_from(since.as_nanos()).ok());
    Inode { device: metadata.dev(), number: metadata.ino(), born }
}

/// Removes a file of ours: only the very one that was made, also where its folder has another name by now and
/// this process still has it open.
pub(super) fn remove_file(record: &FileRecord, held: Option<&File>, same_boot: bool) -> UndoOutcome {
    let metadata = match fs::symlink_metadata(&record.path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return held.map_or_else(|| missing(record), remove_moved);
        }
        Err(error) => return UndoOutcome::Failed(format!("cannot look at it: {error}")),
    };
    if !is_ours(record, &metadata, same_boot) {
        let now = "a file that is not ours".to_owned();
        return UndoOutcome::Foreign { now, before: "no file".to_owned() };
    }
    match fs::remove_file(&record.path) {
        Ok(()) => UndoOutcome::Removed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => UndoOutcome::Untouched,
        Err(error) => UndoOutcome::Failed(format!("cannot remove it: {error}; remove it by hand")),
    }
}

/// A file that is gone is what is wanted, unless its folder went with it: then it may have been moved with
/// all that is in it.
fn missing(record: &FileRecord) -> UndoOutcome {
    let folder = Path::new(&record.path).parent();
    match folder.map(fs::symlink_metadata) {
        Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            let name = Path::new(&record.path).file_name().unwrap_or_default().to_string_lossy();
            UndoOutcome::Gone(format!(
                "its folder is gone; where that was moved, the file `{name}` in it is Flyball's, and can be removed"
            ))
        }
        _ => UndoOutcome::Untouched,
    }
}

/// Removes the file behind a descriptor under the name that it has now.
fn remove_moved(held: &File) -> UndoOutcome {
    let is_held = |path: &Path| {
        let same = |now: fs::Metadata, then: fs::Metadata| (now.dev(), now.ino()) == (then.dev(), then.ino());
        fs::symlink_metadata(path).is_ok_and(|now| held.metadata().is_ok_and(|then| same(now, then)))
    };
    if held.metadata().is_ok_and(|metadata| metadata.nlink() == 0) {
        return UndoOutcome::Untouched;
    }
    let path = match fs::read_link(format!("/proc/self/fd/{}", held.as_raw_fd())) {
        Ok(path) if is_held(&path) => path,
        _ => {
            return UndoOutcome::Failed(
                "its folder was moved, and it is not found any more; remove it by hand".into(),
            );
        }
    };
    match fs::remove_file(&path) {
        Ok(()) => UndoOutcome::Removed,
        Err(error) => {
            UndoOutcome::Failed(format!("cannot remove `{}`: {error}; remove it by hand", path.display()))
        }
    }
}

fn is_ours(record: &FileRecord, metadata: &fs::Metadata, same_boot: bool) -> bool {
    let now = inode_of(metadata);
    match &record.inode {
        // We died between making it and looking at it; nobody has put anything into it.
        None => metadata.is_file() && metadata.len() == 0,
        Some(inode) if same_boot => *inode == now,
        // Device numbers may be dealt out anew at each start, so that the birth time has to stand for them.
        Some(inode) => {
            inode.number == now.number
                && inode.born == now.born
                && (inode.born.is_some() || inode.device == now.device)
        }
    }
}

/// Detaches and removes a loop device of ours: only while it is bound to all of our file, or to none.
pub(super) fn remove_loop(record: &LoopRecord) -> UndoOutcome {
    if !loopdev::exists(record.number) {
        return UndoOutcome::Untouched;
    }
    let ours = Backing::all_of((record.inode.device, record.inode.number));
    let detached = match loopdev::bound_to(record.number) {
        Ok(Some(now)) if now == ours => loopdev::detach(record.number, ours),
        Ok(Some(now)) => {
            let what =
                if now.file == ours.file { "another part of our file" } else { "a file that is not ours" };
            let now = format!("bound to {what}");
            return UndoOutcome::Foreign { now, before: "no device".to_owned() };
        }
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    match detached.and_then(|()| loopdev::remove(record.number)) {
        Ok(()) => UndoOutcome::Removed,
        Err(error) => UndoOutcome::Failed(format!("cannot detach it: {error}; end what uses it")),
    }
}

/// What removing would do, for people.
pub(super) fn foresee(entry: &Pending, machine: &dyn crate::Machine) -> UndoOutcome {
    let same_boot = boot_id(machine).is_ok_and(|boot| boot == entry.boot());
    match &entry.act {
        Act::File(file) => match fs::symlink_metadata(&file.path) {
            Ok(metadata) if is_ours(file, &metadata, same_boot) => UndoOutcome::Removed,
            Ok(_) => UndoOutcome::Foreign { now: "a file that is not ours".into(), before: "no file".into() },
            Err(_) => UndoOutcome::Untouched,
        },
        Act::Loop(_) if !same_boot => UndoOutcome::Rebooted,
        Act::Loop(device) if loopdev::exists(device.number) => UndoOutcome::Removed,
        Act::Built(built) => super::built::foresee(machine, built, same_boot),
        Act::Loop(_) | Act::Setting(_) | Act::Disk(_) => UndoOutcome::Untouched,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalMachine;

    #[test]
    fn a_file_that_was_removed_is_open_no_more_and_its_space_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let (mut ledger, _) = Ledger::open(&folder.path().join("state"), &LocalMachine).unwrap();
        let make = |ledger: &mut Ledger<'_>, name| {
            drop(ledger.create_file(&folder.path().join(name), Bytes::from_kib(4)).unwrap());
        };
        make(&mut ledger, "stays");
        let last = ledger.last();
        make(&mut ledger, "goes");
        let report = ledger.undo_these(&ledger.since(last));
        assert_eq!((report.undone.len(), report.failed().count()), (1, 0), "{report:?}");
        assert_eq!(ledger.held.keys().copied().collect::<Vec<_>>(), [last]);
        assert_eq!(ledger.finish().failed().count(), 0);
    }
}
