//! Processes and threads as the spool declares them.

use crate::spool::Fields;
pub use events::Owner;
use std::fs;
use std::path::Path;

/// The longest name: a kworker's with its work queue (`TASK_COMM_LEN` of 64 in `fs/proc/array.c`).
pub const NAME_BYTES: usize = 64;

/// A process, when it is first seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number in the spool; never used twice.
    pub id: u32,
    /// Its process id.
    pub pid: u32,
    /// Whose it is.
    pub owner: Owner,
    /// Its clock when the recording began, ns: zero for those that were born later.
    pub base_ns: u64,
    /// Its name.
    pub name: String,
}

/// A thread of a process that has several, when it is first seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its number in the spool; never used twice.
    pub id: u32,
    /// The number of its process.
    pub process: u32,
    /// Its thread id.
    pub tid: u32,
    /// Its time on a CPU when the recording began, ns.
    pub base_ns: u64,
    /// Its name.
    pub name: String,
}

impl Process {
    /// Its frame's bytes in front of the name.
    pub fn fields(&self) -> [u8; 17] {
        let mut bytes = [0; 17];
        bytes[..4].copy_from_slice(&self.id.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.pid.to_le_bytes());
        bytes[8] = self.owner as u8;
        bytes[9..].copy_from_slice(&self.base_ns.to_le_bytes());
        bytes
    }

    /// From a frame; `None` where it is too short.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            id: fields.u32()?,
            pid: fields.u32()?,
            owner: Owner::from_byte(fields.u8()?)?,
            base_ns: fields.u64()?,
            name: fields.text(),
        })
    }
}

impl Thread {
    /// Its frame's bytes in front of the name.
    pub fn fields(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&self.id.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.process.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.tid.to_le_bytes());
        bytes[12..].copy_from_slice(&self.base_ns.to_le_bytes());
        bytes
    }

    /// From a frame; `None` where it is too short.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            id: fields.u32()?,
            process: fields.u32()?,
            tid: fields.u32()?,
            base_ns: fields.u64()?,
            name: fields.text(),
        })
    }
}

/// Whether a name is worth reading again after so many moves of its clock: after 1, 8, 64, … A process may
/// become another program and a thread is mostly named after it began, both early in their lives; reading a
/// name costs ten times as much as reading a clock. Those that still live at the end are read once more.
pub fn is_renaming_time(moves: u32) -> bool {
    moves.is_power_of_two() && moves.trailing_zeros().is_multiple_of(3)
}

/// A name in place, so that comparing it allocates nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; NAME_BYTES],
    length: usize,
}

impl Name {
    /// From the kernel's bytes, without the line's end.
    pub fn new(bytes: &[u8]) -> Self {
        let length = bytes.len().min(NAME_BYTES);
        let mut name = Self { bytes: [0; NAME_BYTES], length };
        name.bytes[..length].copy_from_slice(&bytes[..length]);
        name
    }

    /// As the kernel has it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// As text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.as_bytes()).into_owned()
    }

    /// The name of a process or thread as it is now; `/proc/TID` is there for threads too, though not listed.
    pub fn read(proc: &Path, tid: u32) -> Option<Self> {
        let name = fs::read(proc.join(tid.to_string()).join("comm")).ok()?;
        Some(Self::new(name.trim_ascii_end()))
    }
}
