//! The ledger's file: lines are only ever added at its end, until nothing is left to undo.
//!
//! It forgets nothing that a power cut could bring back. A setting is gone with the boot; a file of our own
//! that was removed is gone once its folder is flushed, and that may be on another filesystem than the
//! ledger.
//!
//! A line that is cut off at the end of the file was being written when its writer died, so that what it
//! announces never happened. Any other line that cannot be read is damage, and what it said may have
//! happened.

use super::line::{self, Line, MAX_LINE, NotUnderstood};
use super::record::{Act, Pending, Record, Tally};
use super::whereabouts;
use crate::settings::Error;
use files::durable::{self, Permissions};
use files::own::{self, Access};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

const NAME: &str = "ledger";

/// Where the ledger of this state folder is.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// What was read from the file.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// What is not undone yet.
    pub pending: Vec<Pending>,
    /// The highest id that was given.
    pub last_id: u64,
    /// The end of the last line is missing; what that line announces never happened.
    pub torn: bool,
    /// Lines that fail length or checksum.
    pub damaged: Lines,
    /// Whole lines that this program does not understand.
    pub foreign: Lines,
    /// The first of them.
    pub first_foreign: Option<NotUnderstood>,
    /// Where the last line ends that is not torn.
    end: u64,
}

/// Some lines of the file, by their numbers from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    first: Vec<usize>,
    count: usize,
}

impl Lines {
    /// How many are named: a file of nothing but line ends has millions.
    const NAMED: usize = 8;

    fn add(&mut self, number: usize) {
        if self.first.len() < Self::NAMED {
            self.first.push(number);
        }
        self.count += 1;
    }

    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.first.iter().map(ToString::to_string).collect();
        let word = if self.count == 1 { "line" } else { "lines" };
        write!(f, "{word} {}", numbers.join(", "))?;
        match self.count - self.first.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The file, open for adding to it.
#[derive(Debug)]
pub(super) struct Journal {
    folder: PathBuf,
    file: File,
    /// Where the next line begins.
    end: u64,
    /// The files of our own that are announced, by the number of their change.
    files: BTreeMap<u64, PathBuf>,
}

/// What the ledger in this folder holds; nothing where there is none.
pub(super) fn load(folder: &Path) -> Result<Loaded, Error> {
    let path = path(folder);
    let file = match own::open(&path, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Loaded::default()),
        Err(source) => return Err(Error::State { what: "open the ledger", path, source }),
    };
    read(file, MAX_LINE).map_err(|source| Error::State { what: "read the ledger", path, source })
}

/// Reads line by line: the file may be of any size, and a line of `longest` bytes.
fn read(file: impl Read, longest: usize) -> io::Result<Loaded> {
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let (mut loaded, mut tally, mut bytes) = (Loaded::default(), Tally::default(), Vec::new());
    let mut read = 0;
    for number in 1.. {
        let ended = next_line(&mut reader, longest, &mut bytes, &mut read)?;
        match ended {
            Ended::NoLine => break,
            Ended::Cut => {
                loaded.torn = true;
                break;
            }
            Ended::TooLong => loaded.damaged.add(number),
            Ended::Whole => match line::parse(&bytes) {
                Line::Record(record) => tally.add(*record),
                Line::Broken => loaded.damaged.add(number),
                Line::NotUnderstood(not) => {
                    loaded.foreign.add(number);
                    loaded.first_foreign.get_or_insert(not);
                }
            },
        }
        loaded.end = read;
    }
    loaded.last_id = tally.last_id();
    loaded.pending = tally.pending();
    Ok(loaded)
}

/// How a line ended.
enum Ended {
    /// By its line end, which was taken off.
    Whole,
    /// By the end of the file.
    Cut,
    /// It is longer than any of ours, and was skipped.
    TooLong,
    /// There was none.
    NoLine,
}

/// Reads the next line, and adds to `read` how long it was with its end.
fn next_line(
    reader: &mut impl BufRead,
    longest: usize,
    bytes: &mut Vec<u8>,
    read: &mut u64,
) -> io::Result<Ended> {
    bytes.clear();
    let taken = reader.take(longest as u64 + 1).read_until(b'\n', bytes)?;
    *read += taken as u64;
    if taken == 0 {
        return Ok(Ended::NoLine);
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        return Ok(Ended::Whole);
    }
    if taken <= longest {
        return Ok(Ended::Cut);
    }
    *read += reader.skip_until(b'\n')? as u64;
    Ok(Ended::TooLong)
}

impl Journal {
    /// Opens the file for adding to it, and makes it where there is none. What was torn off is written over.
    pub fn open(folder: &Path, loaded: &Loaded) -> Result<Self, Error> {
        let path = path(folder);
        let open = || {
            let file = own::open_or_make(&path, Access::Append, 0o600)?;
            sync_folder(folder)?;
            Ok(file)
        };
        let file = open().map_err(|source| Error::State { what: "open the ledger", path, source })?;
        let files = loaded.pending.iter().filter_map(own_file).collect();
        Ok(Self { folder: folder.to_owned(), file, end: loaded.end, files })
    }

    /// Adds records that announce what is about to be done, and returns when they are on the disk.
    pub fn announce(&mut self, records: &[Record]) -> Result<(), Error> {
        self.append(records).and_then(|()| self.file.sync_data()).map_err(|source| self.failed(source))?;
        self.files.extend(records.iter().filter_map(announced_file));
        Ok(())
    }

    /// Adds a record of what was done. It need not reach the disk: it matters only to this boot, and the page
    /// cache outlives a killed process. That a file of our own is gone matters after it too, and is made
    /// durable first.
    pub fn note(&mut self, record: &Record) -> Result<(), Error> {
        if let Record::Done { id } = record {
            self.make_removal_durable(*id)?;
        }
        self.append(std::slice::from_ref(record)).map_err(|source| self.failed(source))
    }

    fn append(&mut self, records: &[Record]) -> io::Result<()> {
        let lines = lines_of(records)?;
        self.cut_off()?;
        let written = self.file.write_all(lines.as_bytes());
        match written {
            Ok(()) => self.end += lines.len() as u64,
            // A line cut off by a full disk must not spoil the next one: where this fails, the next one does
            // it.
            Err(_) => _ = self.cut_off(),
        }
        written
    }

    /// Takes away what was begun behind the last line.
    fn cut_off(&self) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        if length < self.end {
            return Err(io::Error::other("somebody else has cut it off"));
        }
        if length > self.end { self.file.set_len(self.end) } else { Ok(()) }
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::State { what: "write to the ledger", path: path(&self.folder), source }
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
            self.end = 0;
            self.file.sync_data()?;
        }
        Ok(())
    }

    fn replace(&mut self, left: &[Pending]) -> io::Result<()> {
        let path = path(&self.folder);
        let lines = lines_of(&left.iter().flat_map(Pending::records).collect::<Vec<Record>>())?;
        durable::replace(&path, lines.as_bytes(), Permissions::Private).map_err(io::Error::other)?;
        self.file = own::open(&path, Access::Append)?;
        self.end = lines.len() as u64;
        Ok(())
    }

    /// Keeps a copy of a damaged file for a person to look at, and returns when it is on the disk.
    pub fn set_aside(&self, stamp: i64) -> io::Result<PathBuf> {
        let copy = self.folder.join(format!("ledger.damaged-{stamp}"));
        let mut to = durable::create_new(&copy, Permissions::Private)?;
        io::copy(&mut own::open(&path(&self.folder), Access::Read)?, &mut to)?;
        to.sync_all()?;
        sync_folder(&self.folder)?;
        Ok(copy)
    }
}

/// The lines of these records: only such as this program will understand, for what is not understood stops
/// it.
fn lines_of(records: &[Record]) -> io::Result<String> {
    let mut lines = String::new();
    for record in records {
        whereabouts::check(record).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        let line = line::of(record);
        if line.len() > MAX_LINE {
            return Err(io::Error::other(format!("a change of {} bytes is too long for it", line.len())));
        }
        lines.push_str(&line);
    }
    Ok(lines)
}

/// The number and the path of a file of our own.
fn own_file(entry: &Pending) -> Option<(u64, PathBuf)> {
    match &entry.act {
        Act::File(file) => Some((file.id, file.path.clone().into())),
        _ => None,
    }
}

fn announced_file(record: &Record) -> Option<(u64, PathBuf)> {
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
    use std::fs;

    const LONGEST: usize = 200;

    fn parse(bytes: &[u8]) -> Loaded {
        read(bytes, LONGEST).unwrap()
    }

    /// Three changes, a line each.
    fn three() -> String {
        (1..=3).map(|id| line::of(&file(id))).collect()
    }

    fn file(id: u64) -> Record {
        Record::File(FileRecord { id, boot: "b".into(), path: format!("/work/{id}"), inode: None })
    }

    fn ids(loaded: &Loaded) -> Vec<u64> {
        loaded.pending.iter().map(Pending::id).collect()
    }

    #[test]
    fn torn_last_record_is_dropped() {
        let lines = three();
        let last = lines.trim_end().rfind('\n').unwrap() + 1;
        for cut in last + 1..lines.len() {
            let loaded = parse(&lines.as_bytes()[..cut]);
            assert_eq!(ids(&loaded), [1, 2], "cut at {cut}");
            assert!(loaded.torn && loaded.damaged.is_empty(), "cut at {cut}");
            assert_eq!(loaded.end, last as u64, "cut at {cut}");
        }
        let whole = parse(lines.as_bytes());
        assert_eq!((ids(&whole), whole.torn, whole.end), (vec![1, 2, 3], false, lines.len() as u64));
    }

    #[test]
    fn a_damaged_line_is_named_wherever_it_is_and_the_others_are_read() {
        for number in 1..=3 {
            let mut bytes = three().into_bytes();
            let start =
                bytes.split_inclusive(|b| *b == b'\n').take(number - 1).map(<[u8]>::len).sum::<usize>();
            bytes[start + 20] ^= 0x10;
            let loaded = parse(&bytes);
            assert_eq!((ids(&loaded).len(), loaded.damaged.to_string()), (2, format!("line {number}")));
            assert!(!loaded.torn);
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_damage_and_the_next_one_is_read() {
        for length in [LONGEST + 1, LONGEST + 2, 10 * LONGEST] {
            let text = format!("{}\n{}", "x".repeat(length), three());
            let loaded = parse(text.as_bytes());
            assert_eq!((ids(&loaded), loaded.damaged.to_string()), (vec![1, 2, 3], "line 1".to_owned()));
            assert_eq!(loaded.end, text.len() as u64);
            let without_end = parse(&text.as_bytes()[..length]);
            assert!(!without_end.torn && !without_end.damaged.is_empty(), "{length}");
        }
        let longest = format!("{}\n", "x".repeat(LONGEST));
        assert_eq!(parse(longest.as_bytes()).end, longest.len() as u64);
    }

    #[test]
    fn many_damaged_lines_are_counted() {
        let loaded = parse(&vec![b'\n'; 1000]);
        assert_eq!(loaded.damaged.to_string(), "lines 1, 2, 3, 4, 5, 6, 7, 8 and 992 more");
    }

    #[test]
    fn a_line_of_a_newer_version_is_neither_torn_nor_damaged() {
        let json = r#"{"v":9,"by":"9.0.0","record":"done","id":1}"#;
        let newer = format!("{} {:08x} {json}\n", json.len(), crc32fast::hash(json.as_bytes()));
        for text in [format!("{}{newer}", three()), format!("{newer}{}", three())] {
            let loaded = parse(text.as_bytes());
            assert!(!loaded.torn && loaded.damaged.is_empty() && !loaded.foreign.is_empty());
            assert_eq!(loaded.first_foreign.unwrap().by.as_deref(), Some("9.0.0"));
        }
    }

    fn open(folder: &Path) -> Journal {
        Journal::open(folder, &load(folder).unwrap()).unwrap()
    }

    #[test]
    fn what_was_torn_off_does_not_spoil_the_next_line() {
        let state = tempfile::tempdir().unwrap();
        let lines = three();
        fs::write(path(state.path()), &lines[..lines.len() - 5]).unwrap();
        open(state.path()).note(&Record::Done { id: 1 }).unwrap();
        let loaded = load(state.path()).unwrap();
        assert!(!loaded.torn && loaded.damaged.is_empty());
        assert_eq!(ids(&loaded), [2]);
    }

    #[test]
    fn a_ledger_that_somebody_has_cut_off_is_not_added_to() {
        let state = tempfile::tempdir().unwrap();
        let mut journal = open(state.path());
        journal.announce(&[file(1)]).unwrap();
        File::options().write(true).open(path(state.path())).unwrap().set_len(3).unwrap();
        let text = journal.announce(&[file(2)]).unwrap_err().to_string();
        assert!(text.contains("somebody else has cut it off"), "{text}");
        assert_eq!(fs::read(path(state.path())).unwrap().len(), 3);
    }

    #[test]
    fn what_would_not_be_understood_is_not_written() {
        let state = tempfile::tempdir().unwrap();
        let mut journal = open(state.path());
        let relative =
            Record::File(FileRecord { id: 2, boot: "b".into(), path: "target".into(), inode: None });
        assert!(journal.announce(&[file(1), relative]).is_err());
        assert_eq!(fs::read(path(state.path())).unwrap(), b"");
    }

    fn file_in(folder: &Path) -> Record {
        let path = folder.join("target").to_str().unwrap().to_owned();
        Record::File(FileRecord { id: 1, boot: "boot".into(), path, inode: None })
    }

    fn loaded_records(folder: &Path) -> Vec<Record> {
        load(folder).unwrap().pending.iter().flat_map(Pending::records).collect()
    }

    #[test]
    fn a_removal_that_cannot_be_made_durable_is_not_forgotten() {
        let (state, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // A folder that cannot be opened, whoever asks: it leads to itself.
        let unusable = work.path().join("loop");
        std::os::unix::fs::symlink(&unusable, &unusable).unwrap();
        let mut journal = open(state.path());
        journal.announce(&[file_in(&unusable)]).unwrap();
        for error in [journal.note(&Record::Done { id: 1 }), journal.retire(&[])] {
            let text = error.unwrap_err().to_string();
            assert!(text.contains("make durable the removal of"), "{text}");
        }
        assert_eq!(loaded_records(state.path()), [file_in(&unusable)]);
        // The next one to open it knows of it too.
        assert!(open(state.path()).retire(&[]).is_err());
    }

    #[test]
    fn a_file_whose_folder_is_gone_is_forgotten() {
        let state = tempfile::tempdir().unwrap();
        let mut journal = open(state.path());
        journal.announce(&[file_in(&state.path().join("gone"))]).unwrap();
        journal.retire(&[]).unwrap();
        assert_eq!(loaded_records(state.path()), []);
    }
}
