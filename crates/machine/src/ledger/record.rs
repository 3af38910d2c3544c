//! What the ledger writes down, and how a line of it is told from a torn one.
//!
//! A line is `LENGTH CHECKSUM JSON`: the length of the JSON in bytes, its CRC-32 in hexadecimal.

use super::built::Built;
use crate::claims::{DiskIdentity, Signature};
use crate::settings::Identity;
use serde::{Deserialize, Serialize};

/// One line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(super) enum Record {
    /// A setting is about to be written.
    Change(Change),
    /// It was written, and read back as this.
    Got(Got),
    /// It is about to be put back, and with it all that it keeps, except these paths, which somebody else changed.
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

    /// The line, with its newline.
    pub fn line(&self) -> String {
        let json = serde_json::to_string(self).expect("these types hold nothing that JSON cannot");
        format!("{} {:08x} {json}\n", json.len(), crc32fast::hash(json.as_bytes()))
    }

    /// The record of a line without its newline; `None` where the line is torn or damaged.
    pub fn from_line(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let (length, rest) = line.split_once(' ')?;
        let (checksum, json) = rest.split_once(' ')?;
        let whole = length.parse() == Ok(json.len())
            && u32::from_str_radix(checksum, 16) == Ok(crc32fast::hash(json.as_bytes()));
        if whole { serde_json::from_str(json).ok() } else { None }
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

/// What is left to undo after these records, in the order in which it was done.
pub(super) fn pending(records: Vec<Record>) -> Vec<Pending> {
    let mut pending: Vec<Pending> = Vec::new();
    for record in records {
        match record {
            Record::Change(change) => pending.push(Pending::new(Act::Setting(change))),
            Record::Loop(device) => pending.push(Pending::new(Act::Loop(device))),
            Record::Built(built) => pending.push(Pending::new(Act::Built(built))),
            Record::Disk(disk) => pending.push(Pending::new(Act::Disk(disk))),
            // A second record of a file adds its inode.
            Record::File(file) => match find(&mut pending, file.id) {
                Some(known) => known.act = Act::File(file),
                None => pending.push(Pending::new(Act::File(file))),
            },
            Record::Got(got) => {
                if let Some(known) = find(&mut pending, got.id) {
                    known.got = Some(got);
                }
            }
            Record::Returning { id, foreign } => {
                if let Some(known) = find(&mut pending, id) {
                    known.returning = Some(foreign);
                }
            }
            Record::Done { id } => pending.retain(|p| p.id() != id),
        }
    }
    pending
}

fn find(pending: &mut [Pending], id: u64) -> Option<&mut Pending> {
    pending.iter_mut().rev().find(|p| p.id() == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn change() -> Record {
        Record::Change(Change {
            id: 1,
            boot: "b".into(),
            setting: "governor@policy0".into(),
            path: "/sys/x".into(),
            identity: Identity::default(),
            old: "powersave".into(),
            new: "performance".into(),
            instead: None,
            keeps: vec![],
        })
    }

    #[test]
    fn a_line_is_length_checksum_and_json() {
        expect![[r#"
            134 e77476b5 {"record":"change","id":1,"boot":"b","setting":"governor@policy0","path":"/sys/x","identity":{},"old":"powersave","new":"performance"}
        "#]]
        .assert_eq(&change().line());
    }

    #[test]
    fn a_line_that_is_cut_or_changed_anywhere_is_no_record() {
        let line = change().line();
        let line = line.trim_end().as_bytes();
        assert_eq!(Record::from_line(line), Some(change()));
        for at in 0..line.len() {
            assert_eq!(Record::from_line(&line[..at]), None, "cut at {at}");
            let mut changed = line.to_vec();
            changed[at] ^= 1;
            assert_eq!(Record::from_line(&changed), None, "changed at {at}");
        }
    }

    #[test]
    fn what_is_done_is_no_longer_pending() {
        let got = Record::Got(Got { id: 1, value: "performance".into(), kept: vec![] });
        let left = pending(vec![change(), got.clone()]);
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].records(), [change(), got]);
        assert_eq!(pending(vec![change(), Record::Done { id: 1 }]), []);
    }
}
