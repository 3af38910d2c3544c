//! Sub-buffers of the kernel's ring for tracing, as they are read from `trace_pipe_raw`.
//!
//! ```text
//! timestamp u64, commit (long), data: entries, one behind the other, `commit` bytes of them
//! ```
//! An entry begins with 5 bits of type or length and 27 of time since the one before (kernel
//! `include/linux/ring_buffer.h`, `struct ring_buffer_event`). A flag in `commit` says that events were lost
//! before this sub-buffer, and another that their number stands behind the last entry
//! (`kernel/trace/ring_buffer.c`, `ring_buffer_read_page`; Linux 6.18).

use crate::foreign::{Error, Section};
use parse::kernel::tracepoint::Format;

/// Flags of `commit`: `RB_MISSED_EVENTS` and `RB_MISSED_STORED`.
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// The rest of it is the length of the entries (`RB_MISSED_MASK`).
const LENGTH: u64 = (1 << 27) - 1;

/// Types of entries; shorter ones are lengths, in words.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// The bits of a time that a time stamp does not have (`TS_MSB`).
const HIGH_BITS: u64 = 0xf8 << 56;

/// A bound on sub-buffers: `buffer_subbuf_size_kb` takes as many pages as `MAX_PAGE_ORDER` allows.
const MAX_SUB_BUFFER: usize = 8 << 20;

/// Where the parts of a sub-buffer lie.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    commit: usize,
    commit_size: usize,
    data: usize,
    size: usize,
}

impl Page {
    /// By `events/header_page` of tracefs, which has the fields of a format without its number.
    pub fn of_header(text: &str) -> Result<Self, Error> {
        let other = || Error::otherwise("the kernel's ring has a form that is not known");
        let format = Format::parse(&format!("ID: 0\n{text}")).map_err(|_| other())?;
        let place = |name: &str| {
            let field = format.field(name)?;
            Some((field.offset as usize, field.size as usize))
        };
        let (Some((0, 8)), Some((commit, commit_size)), Some((data, data_size))) =
            (place("timestamp"), place("commit"), place("data"))
        else {
            return Err(other());
        };
        let is_known = matches!(commit_size, 4 | 8) && data >= commit + commit_size && data_size > 0;
        let size = data + data_size;
        if !is_known || size > MAX_SUB_BUFFER {
            return Err(other());
        }
        Ok(Self { commit, commit_size, data, size })
    }
}

/// What is in a sub-buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'f> {
    Event {
        time: u64,
        raw: &'f [u8],
    },
    /// Events were lost before this time: so many, where that is known.
    Loss {
        time: u64,
        count: Option<u64>,
    },
}

/// The sub-buffers of one CPU.
#[derive(Clone, Debug)]
pub struct SubBuffers<'f> {
    rest: &'f [u8],
    page: Page,
    cpu: u16,
    /// Where the next one begins in the file.
    at: u64,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct SubBuffer<'f> {
    bytes: &'f [u8],
    page: Page,
    pub cpu: u16,
    at: u64,
}

impl<'f> SubBuffers<'f> {
    pub fn of(file: &'f [u8], page: Page, cpu: u16, section: Section) -> Result<Self, Error> {
        let rest = crate::foreign::Bytes::new(file).within(section, "data of a CPU")?;
        Ok(Self { rest, page, cpu, at: section.offset })
    }

    /// When the next one begins.
    pub fn next_begins(&self) -> Option<u64> {
        (self.rest.len() > self.page.data).then(|| first_number(self.rest, 8))?
    }
}

impl<'f> Iterator for SubBuffers<'f> {
    type Item = SubBuffer<'f>;

    fn next(&mut self) -> Option<SubBuffer<'f>> {
        self.next_begins()?;
        let (bytes, rest) = self.rest.split_at(self.page.size.min(self.rest.len()));
        let sub_buffer = SubBuffer { bytes, page: self.page, cpu: self.cpu, at: self.at };
        self.rest = rest;
        self.at += bytes.len() as u64;
        Some(sub_buffer)
    }
}

/// A number of the recording machine of 4 or 8 bytes.
fn first_number(bytes: &[u8], size: usize) -> Option<u64> {
    match size {
        4 => bytes.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes).into()),
        _ => bytes.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes)),
    }
}

/// Type or length, and time, of an entry's first word. C lays bit fields out by the byte order.
fn split(word: u32) -> (u32, u64) {
    if cfg!(target_endian = "big") {
        (word >> 27, u64::from(word & ((1 << 27) - 1)))
    } else {
        (word & 31, u64::from(word >> 5))
    }
}

impl<'f> SubBuffer<'f> {
    fn damaged(&self) -> Error {
        Error::Damaged { at: self.at, what: "sub-buffer" }
    }

    /// Gives its entries.
    pub fn each(&self, mut take: impl FnMut(Entry<'f>)) -> Result<(), Error> {
        let begin = first_number(self.bytes, 8).ok_or_else(|| self.damaged())?;
        let commit = self.bytes.get(self.page.commit..).unwrap_or_default();
        let commit = first_number(commit, self.page.commit_size).ok_or_else(|| self.damaged())?;
        let length = (commit & LENGTH) as usize;
        let data = self.bytes.get(self.page.data..).unwrap_or_default();
        let (entries, behind) = data.split_at_checked(length).ok_or_else(|| self.damaged())?;
        if commit & MISSED != 0 {
            let stored = commit & MISSED_STORED != 0;
            let count = stored.then(|| first_number(behind, self.page.commit_size)).flatten();
            take(Entry::Loss { time: begin, count });
        }
        self.entries(begin, entries, take).ok_or_else(|| self.damaged())
    }

    /// `None` where one ends behind the others.
    fn entries(&self, begin: u64, entries: &'f [u8], mut take: impl FnMut(Entry<'f>)) -> Option<()> {
        let (mut time, mut rest) = (begin, Words(entries));
        while !rest.0.is_empty() {
            let (kind, delta) = split(rest.word()?);
            match kind {
                // Nothing follows on this sub-buffer.
                PADDING if delta == 0 => return Some(()),
                // An event that was taken back; the next one counts from before it (`rb_update_read_stamp`).
                PADDING => {
                    let length = rest.word()?;
                    rest.bytes((length as usize).checked_sub(4)?)?;
                }
                TIME_EXTEND => time = time.wrapping_add(u64::from(rest.word()?) << 27).wrapping_add(delta),
                TIME_STAMP => {
                    time = (time & HIGH_BITS) | ((u64::from(rest.word()?) << 27).wrapping_add(delta))
                }
                0 => {
                    let length = (rest.word()? as usize).checked_sub(4)?;
                    time = time.wrapping_add(delta);
                    take(Entry::Event { time, raw: rest.bytes(length)? });
                }
                words => {
                    time = time.wrapping_add(delta);
                    take(Entry::Event { time, raw: rest.bytes(words as usize * 4)? });
                }
            }
        }
        Some(())
    }
}

/// What is left of the entries.
struct Words<'f>(&'f [u8]);

impl<'f> Words<'f> {
    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*word))
    }

    /// Entries begin at multiples of four.
    fn bytes(&mut self, length: usize) -> Option<&'f [u8]> {
        let taken = self.0.get(..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..)?;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                          \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                          \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                          \tfield: char data;\toffset:16;\tsize:112;\tsigned:0;\n";

    /// The first word of an entry.
    fn word(kind: u32, delta: u32) -> u32 {
        if cfg!(target_endian = "big") { kind << 27 | delta } else { kind | delta << 5 }
    }

    /// What a sub-buffer of 128 bytes has that begins at this time and holds these words.
    fn entries(begin: u64, words: &[u32]) -> Option<Vec<(u64, usize)>> {
        let mut bytes = begin.to_ne_bytes().to_vec();
        bytes.extend((words.len() as u64 * 4).to_ne_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes.resize(128, 0);
        let section = Section { offset: 0, size: bytes.len() as u64 };
        let page = Page::of_header(HEADER).unwrap();
        let mut found = Vec::new();
        let sub_buffer = SubBuffers::of(&bytes, page, 0, section).unwrap().next().unwrap();
        let read = sub_buffer.each(|entry| match entry {
            Entry::Event { time, raw } => found.push((time, raw.len())),
            Entry::Loss { .. } => unreachable!("nothing is lost"),
        });
        read.ok().map(|()| found)
    }

    #[test]
    fn times_add_up_over_extensions_and_stamps_are_times_of_their_own() {
        // Two words of an event, a time of 2^27 + 5 more, one that was taken back, a time by itself, and one
        // whose length has a word of its own: five bytes, and three to the next multiple of four.
        let words = [
            vec![word(2, 10), 7, 7],
            vec![word(TIME_EXTEND, 5), 1],
            vec![word(1, 1), 7],
            vec![word(PADDING, 3), 8, 0],
            vec![word(TIME_STAMP, 9), 2],
            vec![word(0, 4), 4 + 5, 7, 7],
        ];
        let high = 1 << 63;
        let extended = high + 1000 + 10 + (1 << 27) + 5 + 1;
        let stamped = high + (2 << 27) + 9 + 4;
        assert_eq!(
            entries(high + 1000, &words.concat()),
            Some(vec![(high + 1010, 8), (extended, 4), (stamped, 5)])
        );
        // Nothing counts behind the end.
        assert_eq!(entries(0, &[word(1, 1), 7, word(PADDING, 0), word(1, 1), 7]), Some(vec![(1, 4)]));
    }

    #[test]
    fn an_entry_that_ends_behind_the_others_is_damage() {
        let bad = [
            vec![word(3, 1), 7],
            vec![word(0, 1), 3],
            vec![word(0, 1), u32::MAX],
            vec![word(TIME_EXTEND, 1)],
            vec![word(PADDING, 1), 2],
        ];
        for words in bad {
            assert_eq!(entries(0, &words), None, "{words:?}");
        }
    }

    #[test]
    fn a_ring_of_another_form_is_refused() {
        for (from, to) in
            [("timestamp", "time"), ("offset:8;\tsize:8", "offset:8;\tsize:2"), ("size:112", "size:0")]
        {
            assert!(Page::of_header(&HEADER.replacen(from, to, 1)).is_err(), "{from}");
        }
        assert!(Page::of_header("").is_err() && Page::of_header(HEADER).is_ok());
    }
}
