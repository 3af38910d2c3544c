//! The ledger's file: lines are only ever added at its end, until nothing is left to undo.
//!
//! It forgets nothing that a power cut could bring back. A setting is gone with the boot; a file of our own that was
//! removed is gone once its folder is flushed, and that may be on another filesystem than the ledger.

use super::record::{Act, Pending, Record};
use crate::settings::Error;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// A change is a few hundred bytes; a machine of a thousand CPUs with every idle state switched off is 2 MiB.
const MOST_BYTES: u64 = 64 << 20;

const NAME: &str = "ledger";

/// What was read from the file.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub records: Vec<Record>,
    /// The last line was being written when its writer died; what it announces never happened.
    pub torn: bool,
    /// Lines before the last that cannot be read, from 1.
    pub damaged: Vec<usize>,
}

/// The file, open for adding to it.
#[derive(Debug)]
pub(super) struct Journal {
    folder: PathBuf,
    file: File,
    /// The files of our own that are announced, by the number of their change.
    files: BTreeMap<u64, PathBuf>,
}

/// What the ledger in this folder holds; nothing where there is none.
pub(super) fn load(folder: &Path) -> Result<Loaded, Error> {
    let path = folder.join(NAME);
    let mut bytes = Vec::new();
    match File::open(&path) {
        Ok(file) => file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(|source| Error::State {
            what: "read the ledger",
            path,
            source,
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Loaded::default()),
        Err(source) => return Err(Error::State { what: "open the ledger", path, source }),
    };
    Ok(parse(&bytes))
}

fn parse(bytes: &[u8]) -> Loaded {
    let mut loaded = Loaded::default();
    let lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
    for (index, line) in lines.iter().enumerate() {
        match line.strip_suffix(b"\n").and_then(Record::from_line) {
            Some(record) => loaded.records.push(record),
            None if index + 1 == lines.len() => loaded.torn = true,
            None => loaded.damaged.push(index + 1),
        }
    }
    loaded
}

impl Journal {
    /// Opens the file for adding to it, and makes it where there is none.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(NAME);
        let open = || {
            let file = OpenOptions::new().append(true).create(true).open(&path)?;
            sync_folder(folder)?;
            Ok(file)
        };
        let file = open().map_err(|source| Error::State { what: "open the ledger", path, source })?;
        let files = load(folder)?.records.iter().filter_map(own_file).collect();
        Ok(Self { folder: folder.to_owned(), file, files })
    }

    /// Adds records that announce what is about to be done, and returns when they are on the disk.
    pub fn announce(&mut self, records: &[Record]) -> Result<(), Error> {
        self.append(records).and_then(|()| self.file.sync_data()).map_err(|source| self.failed(source))?;
        self.files.extend(records.iter().filter_map(own_file));
        Ok(())
    }

    /// Adds a record of what was done. It need not reach the disk: it matters only to this boot, and the page
    /// cache outlives a killed process. That a file of our own is gone matters after it too, and is made durable first.
    pub fn note(&mut self, record: &Record) -> Result<(), Error> {
        if let Record::Done { id } = record {
            self.make_removal_durable(*id)?;
        }
        self.append(std::slice::from_ref(record)).map_err(|source| self.failed(source))
    }

    fn append(&mut self, records: &[Record]) -> io::Result<()> {
        let lines: String = records.iter().map(Record::line).collect();
        let before = self.file.metadata()?.len();
        let written = self.file.write_all(lines.as_bytes());
        if written.is_err() {
            // A line cut off by a full disk must not spoil the next one.
            let _ = self.file.set_len(before);
        }
        written
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::State { what: "write to the ledger", path: self.folder.join(NAME), source }
    }

    /// Makes durable that a file of our own has no name any more.
    fn make_removal_durable(&mut self, id: u64) -> Result<(), Error> {
        let Some(path) = self.files.get(&id) else { return Ok(()) };
        match path.parent().map_or(Ok(()), sync_folder) {
            Ok(()) => {}
            // A folder that is gone holds no name, and some network filesystems have no way to flush one.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => {}
            Err(source) => {
                return Err(Error::State { what: "make durable the removal of", path: path.clone(), source });
            }
        }
        self.files.remove(&id);
        Ok(())
    }

    /// Leaves only these in the file. At any moment the file is the old one or the new one.
    pub fn retire(&mut self, left: &[Pending]) -> Result<(), Error> {
        let is_left =
            |id: &u64| left.iter().any(|entry| matches!(&entry.act, Act::File(file) if file.id == *id));
        let gone: Vec<u64> = self.files.keys().copied().filter(|id| !is_left(id)).collect();
        gone.into_iter().try_for_each(|id| self.make_removal_durable(id))?;
        let emptied = if left.is_empty() { self.empty() } else { self.replace(left) };
        emptied.map_err(|source| self.failed(source))
    }

    /// Needs no room, so that it works on a full disk.
    fn empty(&mut self) -> io::Result<()> {
        if self.file.metadata()?.len() > 0 {
            self.file.set_len(0)?;
            self.file.sync_data()?;
        }
        Ok(())
    }

    fn replace(&mut self, left: &[Pending]) -> io::Result<()> {
        let (path, aside) = (self.folder.join(NAME), self.folder.join("ledger.new"));
        let lines: String = left.iter().flat_map(Pending::records).map(|r| r.line()).collect();
        let mut file = File::create(&aside)?;
        file.write_all(lines.as_bytes())?;
        file.sync_data()?;
        fs::rename(&aside, &path)?;
        self.file = OpenOptions::new().append(true).open(&path)?;
        sync_folder(&self.folder)
    }

    /// Keeps a copy of a damaged file for a person to look at.
    pub fn set_aside(&self, stamp: i64) -> io::Result<PathBuf> {
        let copy = self.folder.join(format!("ledger.damaged-{stamp}"));
        fs::copy(self.folder.join(NAME), &copy)?;
        Ok(copy)
    }
}

/// The number and the path of a file of our own.
fn own_file(record: &Record) -> Option<(u64, PathBuf)> {
    match record {
        Record::File(file) => Some((file.id, file.path.clone().into())),
        _ => None,
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::super::record::FileRecord;
    use super::*;

    #[test]
    fn torn_last_record_is_dropped() {
        let lines: String = (1..=3).map(|id| Record::Done { id }.line()).collect();
        let last = lines.trim_end().rfind('\n').unwrap() + 1;
        for cut in last + 1..lines.len() {
            let loaded = parse(&lines.as_bytes()[..cut]);
            assert_eq!(loaded.records.len(), 2, "cut at {cut}");
            assert!(loaded.torn && loaded.damaged.is_empty(), "cut at {cut}");
        }
        assert!(!parse(lines.as_bytes()).torn);
    }

    #[test]
    fn a_damaged_line_in_the_middle_is_named_and_the_others_are_read() {
        let mut bytes: Vec<u8> = (1..=3).flat_map(|id| Record::Done { id }.line().into_bytes()).collect();
        let second = bytes.iter().position(|b| *b == b'\n').unwrap() + 4;
        bytes[second] ^= 0x10;
        let loaded = parse(&bytes);
        assert_eq!((loaded.records.len(), loaded.damaged), (2, vec![2]));
        assert!(!loaded.torn);
    }

    fn file_in(folder: &Path) -> Record {
        let path = folder.join("target").to_str().unwrap().to_owned();
        Record::File(FileRecord { id: 1, boot: "boot".into(), path, inode: None })
    }

    #[test]
    fn a_removal_that_cannot_be_made_durable_is_not_forgotten() {
        let (state, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // A folder that cannot be opened, whoever asks: it leads to itself.
        let unusable = work.path().join("loop");
        std::os::unix::fs::symlink(&unusable, &unusable).unwrap();
        let mut journal = Journal::open(state.path()).unwrap();
        journal.announce(&[file_in(&unusable)]).unwrap();
        for error in [journal.note(&Record::Done { id: 1 }), journal.retire(&[])] {
            let text = error.unwrap_err().to_string();
            assert!(text.contains("make durable the removal of"), "{text}");
        }
        assert_eq!(load(state.path()).unwrap().records, [file_in(&unusable)]);
        // The next one to open it knows of it too.
        assert!(Journal::open(state.path()).unwrap().retire(&[]).is_err());
    }

    #[test]
    fn a_file_whose_folder_is_gone_is_forgotten() {
        let state = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(state.path()).unwrap();
        journal.announce(&[file_in(&state.path().join("gone"))]).unwrap();
        journal.retire(&[]).unwrap();
        assert_eq!(load(state.path()).unwrap().records, []);
    }
}
