//! perf's records, as they stand one behind the other in a ring (`include/uapi/linux/perf_event.h`).

use crate::{Error, Result};
use std::collections::BTreeMap;

/// Its header: type u32, misc u16, size u16 (`struct perf_event_header`).
const HEADER: usize = 8;

/// Types of records.
pub const LOST: u32 = 2;
pub const COMM: u32 = 3;
pub const FORK: u32 = 7;
pub const SAMPLE: u32 = 9;
pub const LOST_SAMPLES: u32 = 13;

/// One of them, without its header.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its type.
    pub kind: u32,
    /// What ran: `PERF_RECORD_MISC_*`.
    pub misc: u16,
    /// What it says.
    pub bytes: &'a [u8],
}

/// Takes numbers of the recording machine off the front of a record.
pub struct Fields<'r>(pub &'r [u8]);

impl Fields<'_> {
    pub fn u32(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*first))
    }

    pub fn u64(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*first))
    }

    pub fn pass(&mut self, count: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(count).ok()?..)?;
        Some(())
    }
}

/// Splits the bytes of rings into records.
#[derive(Debug, Default)]
pub struct Records {
    /// The begin of a record whose end is in the next frame, by CPU.
    cut: BTreeMap<u16, Vec<u8>>,
}

impl Records {
    /// Gives each record of a frame to `take`. `at` is where the frame begins.
    ///
    /// # Errors
    /// Where a record says that it is shorter than its own header.
    pub fn split(&mut self, cpu: u16, bytes: &[u8], at: u64, take: impl FnMut(Record<'_>)) -> Result<()> {
        match self.cut.get_mut(&cpu).map(std::mem::take).filter(|cut| !cut.is_empty()) {
            Some(mut begun) => {
                begun.extend_from_slice(bytes);
                self.split_whole(cpu, &begun, at, take)
            }
            None => self.split_whole(cpu, bytes, at, take),
        }
    }

    fn split_whole(
        &mut self,
        cpu: u16,
        mut bytes: &[u8],
        at: u64,
        mut take: impl FnMut(Record<'_>),
    ) -> Result<()> {
        while let Some(header) = bytes.first_chunk::<HEADER>() {
            let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let misc = u16::from_ne_bytes([header[4], header[5]]);
            let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            if size < HEADER {
                return Err(Error::Damaged { at, what: "size of a record in the frame" });
            }
            let Some(record) = bytes.get(HEADER..size) else { break };
            take(Record { kind, misc, bytes: record });
            bytes = &bytes[size..];
        }
        if !bytes.is_empty() {
            self.cut.insert(cpu, bytes.to_vec());
        }
        Ok(())
    }
}
