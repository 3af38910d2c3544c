//! What the ledger writes down. How a line says it is [`super::line`]'s.

use super::built::Built;
use crate::claims::{DiskIdentity, Signature};
use crate::settings::Identity;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// One line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(super) enum Record {
    /// A setting is about to be written.
    Change(Change),
    /// It was written, and read back as this.
    Got(Got),
    /// It is about to be put back, and with it all that it keeps, except these paths, which somebody else
    /// changed.
    Returning { id: u64, foreign: Vec<String> },
    /// A file of our own is about to appear.
    File(FileRecord),
    /// A loop device of our own is about to be made.
    Loop(LoopRecord),
    /// A part of a storage stack is about to be built.
    Built(BuiltRecord),
    /// A claimed disk is about to be overwritten.
    Disk(DiskRecord),
    /// There is nothing more to undo.
    Done { id: u64 },
}

/// A setting's old and new value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Change {
    pub id: u64,
    pub boot: String,
    pub setting: String,
    pub path: String,
    pub identity: Identity,
    pub old: String,
    pub new: String,
    /// Where the old value cannot be written back itself: what to write instead, and where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<Value>,
    /// What the kernel may drop with this change, in the order of putting it back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keeps: Vec<Value>,
}

/// A file and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Value {
    pub path: String,
    pub value: String,
}

/// What a change read back as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Got {
    pub id: u64,
    pub value: String,
    /// The same for what it keeps; `None` where the file is gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Option<String>>,
}

/// A file of our own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileRecord {
    pub id: u64,
    pub boot: String,
    pub path: String,
    /// Which file it is. `None` until it is made, on file systems that cannot make it before it has a name.
    pub inode: Option<Inode>,
}

/// What tells a file from another of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Inode {
    pub device: u64,
    pub number: u64,
    /// When it was made, in nanoseconds since 1970, where the file system keeps that.
    pub born: Option<i64>,
}

/// A loop device of our own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LoopRecord {
    pub id: u64,
    pub boot: String,
    /// `3` for `/dev/loop3`; there was no such device before.
    pub number: u32,
    pub file: String,
    pub inode: Inode,
}

/// A part of a storage stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BuiltRecord {
    pub id: u64,
    pub boot: String,
    pub part: Built,
}

/// A claimed disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DiskRecord {
    pub id: u64,
    pub boot: String,
    /// By which it was opened, for people: undoing goes by the identity.
    pub path: String,
    /// The id of its claim.
    pub claim: String,
    pub disk: DiskIdentity,
    /// What was on it.
    pub before: Vec<Signature>,
    /// SHA-256 of its head and tail; `None` where they were zero.
    pub digest: Option<String>,
}

impl Record {
    /// Which change it is about.
    pub fn id(&self) -> u64 {
        match self {
            Record::Change(change) => change.id,
            Record::Got(got) => got.id,
            Record::File(file) => file.id,
            Record::Loop(device) => device.id,
            Record::Built(built) => built.id,
            Record::Disk(disk) => disk.id,
            Record::Returning { id, .. } | Record::Done { id } => *id,
        }
    }
}

/// A change that is not undone yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    pub act: Act,
    pub got: Option<Got>,
    pub returning: Option<Vec<String>>,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Setting(Change),
    File(FileRecord),
    Loop(LoopRecord),
    Built(BuiltRecord),
    Disk(DiskRecord),
}

impl Pending {
    pub fn new(act: Act) -> Self {
        Self { act, got: None, returning: None }
    }

    pub fn id(&self) -> u64 {
        match &self.act {
            Act::Setting(change) => change.id,
            Act::File(file) => file.id,
            Act::Loop(device) => device.id,
            Act::Built(built) => built.id,
            Act::Disk(disk) => disk.id,
        }
    }

    pub fn boot(&self) -> &str {
        match &self.act {
            Act::Setting(change) => &change.boot,
            Act::File(file) => &file.boot,
            Act::Loop(device) => &device.boot,
            Act::Built(built) => &built.boot,
            Act::Disk(disk) => &disk.boot,
        }
    }

    /// The lines that say it.
    pub fn records(&self) -> Vec<Record> {
        let mut records = vec![match &self.act {
            Act::Setting(change) => Record::Change(change.clone()),
            Act::File(file) => Record::File(file.clone()),
            Act::Loop(device) => Record::Loop(device.clone()),
            Act::Built(built) => Record::Built(built.clone()),
            Act::Disk(disk) => Record::Disk(disk.clone()),
        }];
        records.extend(self.got.clone().map(Record::Got));
        let id = self.id();
        records.extend(self.returning.clone().map(|foreign| Record::Returning { id, foreign }));
        records
    }
}

/// What is left to undo after some records, which are told one by one: a ledger may be larger than memory
/// should be.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// What is left to undo, by when it was done.
    entries: BTreeMap<u64, Pending>,
    /// When the changes of an id were done, the last one last.
    places: HashMap<u64, Vec<u64>>,
    changes: u64,
    last_id: u64,
}

impl Tally {
    pub fn add(&mut self, record: Record) {
        self.last_id = self.last_id.max(record.id());
        match record {
            Record::Change(change) => self.push(Act::Setting(change)),
            Record::Loop(device) => self.push(Act::Loop(device)),
            Record::Built(built) => self.push(Act::Built(built)),
            Record::Disk(disk) => self.push(Act::Disk(disk)),
            // A second record of a file adds its inode.
            Record::File(file) => match self.find(file.id) {
                Some(known) => known.act = Act::File(file),
                None => self.push(Act::File(file)),
            },
            Record::Got(got) => {
                if let Some(known) = self.find(got.id) {
                    known.got = Some(got);
                }
            }
            Record::Returning { id, foreign } => {
                if let Some(known) = self.find(id) {
                    known.returning = Some(foreign);
                }
            }
            Record::Done { id } => {
                for place in self.places.remove(&id).unwrap_or_default() {
                    self.entries.remove(&place);
                }
            }
        }
    }

    fn push(&mut self, act: Act) {
        let entry = Pending::new(act);
        self.changes += 1;
        self.places.entry(entry.id()).or_default().push(self.changes);
        self.entries.insert(self.changes, entry);
    }

    fn find(&mut self, id: u64) -> Option<&mut Pending> {
        let place = *self.places.get(&id)?.last()?;
        self.entries.get_mut(&place)
    }

    /// The highest id that there was.
    pub const fn last_id(&self) -> u64 {
        self.last_id
    }

    /// What is left to undo, in the order in which it was done.
    pub fn pending(self) -> Vec<Pending> {
        self.entries.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(id: u64, inode: Option<Inode>) -> Record {
        Record::File(FileRecord { id, boot: "b".into(), path: "/work/target".into(), inode })
    }

    fn pending(records: Vec<Record>) -> Vec<Pending> {
        let mut tally = Tally::default();
        records.into_iter().for_each(|record| tally.add(record));
        tally.pending()
    }

    #[test]
    fn what_is_done_is_no_longer_pending() {
        let change = |id| {
            Record::Change(Change {
                id,
                boot: "b".into(),
                setting: "governor@policy0".into(),
                path: "/sys/x".into(),
                identity: Identity::default(),
                old: "powersave".into(),
                new: "performance".into(),
                instead: None,
                keeps: vec![],
            })
        };
        let got = Record::Got(Got { id: 2, value: "performance".into(), kept: vec![] });
        let left = pending(vec![change(1), change(2), got.clone(), Record::Done { id: 1 }]);
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].records(), [change(2), got]);
        assert_eq!(pending(vec![change(1), Record::Done { id: 1 }]), []);
    }

    #[test]
    fn a_second_record_of_a_file_says_which_one_it_is() {
        let inode = Some(Inode { device: 1, number: 2, born: Some(3) });
        let left = pending(vec![file(1, None), file(2, None), file(1, inode.clone())]);
        assert_eq!(
            left.iter().flat_map(Pending::records).collect::<Vec<_>>(),
            [file(1, inode), file(2, None)]
        );
    }
}
