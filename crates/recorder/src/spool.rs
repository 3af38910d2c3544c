//! The spool file: frames of raw samples.
//!
//! ```text
//! magic, then frames: kind u8, 0 u8, source u16, length u32, then so many bytes
//! ```
//! Little-endian. A frame that is cut ends the file: what stands before it is used. Texts come whole once and
//! then as patches ([`crate::patch`]); a source that did not change has no frame.

use crate::Result;
use crate::buffers::{Buffers, Written};
use std::io::{self, Read};
use std::path::Path;

/// What every spool begins with; the last two bytes are the version.
pub const MAGIC: &[u8; 8] = b"FLYSPL01";

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Interval u64 ns, start i64 ns since the epoch, frequency source as text.
    Head = 1,
    /// A source: read every so many samples u16, at this one of them u16, then its label.
    Source = 2,
    /// A sample begins: its time u64 ns, the sampler's CPU time u64 ns, rows missed so far u64, whether
    /// everything is read u8.
    Tick = 3,
    /// The whole text of a source.
    Whole = 4,
    /// What changed in the text of a source.
    Patch = 5,
    /// A source cannot be read any more.
    Gone = 6,
    /// A process: see [`crate::task::Process`].
    Process = 7,
    /// A thread of a process that has several: see [`crate::task::Thread`].
    Thread = 8,
    /// A task has a new name: id u32, text.
    Name = 9,
    /// A process turned out to be somebody else's: id u32, owner u8.
    Owner = 10,
    /// Clocks of processes: id u32 and ns u64 each; `u64::MAX` where it has ended.
    Clocks = 11,
    /// Times of threads: id u32 and twenty bytes of `schedstat` each; spaces where it has ended.
    ThreadTimes = 12,
    /// Something that is not sampled, and why.
    Absent = 13,
    /// The recording was ended properly.
    End = 14,
}

impl Kind {
    const ALL: [Kind; 14] = [
        Kind::Head,
        Kind::Source,
        Kind::Tick,
        Kind::Whole,
        Kind::Patch,
        Kind::Gone,
        Kind::Process,
        Kind::Thread,
        Kind::Name,
        Kind::Owner,
        Kind::Clocks,
        Kind::ThreadTimes,
        Kind::Absent,
        Kind::End,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

const HEADER: usize = 8;

/// How many buffers there are: one is filled, the others wait to be written, so that the sampler survives a
/// disk that stalls for three buffers' time (ten seconds and more at 100 Hz).
const BUFFERS: usize = 4;

/// The size of one: a hundred samples and more of a usual server.
const BUFFER_BYTES: usize = 256 << 10;

/// The longest frame that is believed: a sample of a very large machine is under 4 MiB.
const LONGEST_FRAME: usize = 16 << 20;

/// When what was sampled is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writing {
    /// When a buffer is full: rarely, for what is read afterwards.
    #[default]
    WhenFull,
    /// After each sample, for somebody who reads on meanwhile ([`crate::Live`]).
    EachSample,
}

/// Collects frames in memory; a thread writes them.
#[derive(Debug)]
pub struct Writer(Buffers);

impl Writer {
    /// Creates the file, and buffers that hold at least one sample of `sample_bytes`.
    ///
    /// # Errors
    /// Where the file or the thread cannot be made.
    pub fn create(path: &Path, sample_bytes: usize) -> Result<Self> {
        let capacity = BUFFER_BYTES.max(2 * sample_bytes);
        Ok(Self(Buffers::create(path, MAGIC, capacity, BUFFERS)?))
    }

    /// Whether a sample of this size can be taken without waiting for the disk.
    pub fn has_room(&mut self, sample_bytes: usize) -> bool {
        self.0.has_room(sample_bytes)
    }

    /// Appends one frame, made of parts.
    pub fn frame(&mut self, kind: Kind, source: u16, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.0.reserve(HEADER + length);
        self.0.put(&[kind as u8, 0]);
        self.0.put(&source.to_le_bytes());
        self.0.put(&(length as u32).to_le_bytes());
        for part in parts {
            self.0.put(part);
        }
    }

    /// A sample is whole: it is written now where somebody waits for it, and as long as the disk keeps up.
    pub fn end_sample(&mut self, writing: Writing) {
        if writing == Writing::EachSample {
            self.0.hand_over_if_free();
        }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// Where the thread panicked.
    pub fn finish(self) -> Result<Written> {
        self.0.finish()
    }
}

/// One frame, as it was read.
#[derive(Debug)]
pub struct Frame<'a> {
    /// What it holds.
    pub kind: Kind,
    /// Of which source, where it is one's.
    pub source: u16,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// Reads frames, one at a time. One whose end is not written yet is read on from where it was cut.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    /// The frame that is being read, its header included.
    bytes: Vec<u8>,
    /// How much of it is there.
    have: usize,
}

impl<R: Read> Reader<R> {
    /// From the first byte of a spool; `None` where it is not one.
    ///
    /// # Errors
    /// As the input gives them.
    pub fn new(input: R) -> io::Result<Option<Self>> {
        let mut reader = Self { input, bytes: Vec::new(), have: 0 };
        let is_spool = reader.fill(MAGIC.len())? && reader.bytes == MAGIC;
        reader.have = 0;
        Ok(is_spool.then_some(reader))
    }

    /// The next whole frame; `None` at the end, where the rest is torn, and for good where it is no frame.
    ///
    /// # Errors
    /// As the input gives them.
    pub fn next(&mut self) -> io::Result<Option<Frame<'_>>> {
        if !self.fill(HEADER)? {
            return Ok(None);
        }
        let header = &self.bytes[..HEADER];
        let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        let source = u16::from_le_bytes([header[2], header[3]]);
        let Some(kind) = Kind::from_byte(header[0]) else { return Ok(None) };
        if length > LONGEST_FRAME || !self.fill(HEADER + length)? {
            return Ok(None);
        }
        self.have = 0;
        Ok(Some(Frame { kind, source, bytes: &self.bytes[HEADER..HEADER + length] }))
    }

    /// Whether so many bytes are there now.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted, 0);
        }
        while self.have < wanted {
            match self.input.read(&mut self.bytes[self.have..wanted]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.have += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Takes numbers off the front of a frame.
#[derive(Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next bytes.
    pub fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }
    /// The next byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.bytes::<1>().map(|[byte]| byte)
    }
    /// The next two.
    pub fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_le_bytes)
    }
    /// The next four.
    pub fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }
    /// The next eight.
    pub fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }
    /// The rest, as text.
    pub fn text(self) -> String {
        String::from_utf8_lossy(self.0).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn frames(bytes: &[u8]) -> Vec<(Kind, u16, Vec<u8>)> {
        let mut reader = Reader::new(bytes).unwrap().unwrap();
        let mut all = Vec::new();
        while let Some(frame) = reader.next().unwrap() {
            all.push((frame.kind, frame.source, frame.bytes.to_vec()));
        }
        all
    }

    #[test]
    fn more_than_all_buffers_hold_arrives_whole_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let mut writer = Writer::create(&path, 0).unwrap();
        let body = [7_u8; 1000];
        for number in 0..3000 {
            writer.frame(Kind::Whole, number, &[&body, b"!"]);
        }
        assert!(writer.finish().unwrap().result.is_ok());
        let all = frames(&fs::read(&path).unwrap());
        assert_eq!(all.iter().map(|f| f.1).collect::<Vec<_>>(), (0..3000).collect::<Vec<u16>>());
        assert!(all.iter().all(|f| f.2.len() == 1001));
    }

    #[test]
    fn a_torn_last_frame_is_dropped_wherever_it_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let mut writer = Writer::create(&path, 0).unwrap();
        writer.frame(Kind::Whole, 1, &[b"first"]);
        writer.frame(Kind::Whole, 2, &[b"second"]);
        writer.finish().unwrap().result.unwrap();
        let bytes = fs::read(&path).unwrap();
        for cut in MAGIC.len() + HEADER + 5..bytes.len() {
            assert_eq!(frames(&bytes[..cut]).len(), 1, "cut at {cut}");
        }
        assert_eq!(frames(&bytes).len(), 2);
    }

    /// A file that grows by a byte whenever its end was read.
    struct Growing<'a>(&'a [u8], usize);

    impl Read for Growing<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let at = self.1 / 2;
            self.1 += 1;
            if self.1 % 2 == 1 || at >= self.0.len() || into.is_empty() {
                return Ok(0);
            }
            into[0] = self.0[at];
            Ok(1)
        }
    }

    #[test]
    fn a_file_that_is_still_written_is_read_on_from_any_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let mut writer = Writer::create(&path, 0).unwrap();
        for (number, text) in [(1, "first"), (2, ""), (3, "third")] {
            writer.frame(Kind::Whole, number, &[text.as_bytes()]);
        }
        writer.finish().unwrap().result.unwrap();
        let bytes = fs::read(&path).unwrap();
        let input = Growing(&bytes[MAGIC.len()..], 0);
        let mut reader = Reader { input, bytes: Vec::new(), have: 0 };
        let (mut all, mut nothing) = (Vec::new(), 0);
        while reader.input.1 <= 2 * bytes.len() {
            match reader.next().unwrap() {
                Some(frame) => all.push((frame.source, frame.bytes.to_vec())),
                None => nothing += 1,
            }
        }
        assert_eq!(all, [(1, b"first".to_vec()), (2, Vec::new()), (3, b"third".to_vec())]);
        assert!(nothing > bytes.len() / 2, "{nothing}");
    }

    #[test]
    fn what_somebody_waits_for_is_written_after_each_sample() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let mut writer = Writer::create(&path, 0).unwrap();
        writer.frame(Kind::Whole, 1, &[b"first"]);
        writer.end_sample(Writing::WhenFull);
        assert!(!writer.0.is_empty());
        writer.end_sample(Writing::EachSample);
        assert!(writer.0.is_empty());
        // It comes back once it is written, and only then is there a frame in the file.
        writer.0.wait_until_written();
        assert_eq!(frames(&fs::read(&path).unwrap()).len(), 1);
        writer.finish().unwrap().result.unwrap();
    }

    #[test]
    fn a_foreign_file_is_no_spool() {
        assert!(Reader::new(&b"PAR1PAR1PAR1"[..]).unwrap().is_none());
        assert!(Reader::new(&b""[..]).unwrap().is_none());
    }
}
