//! Takes numbers and texts off a file; no length that it states is believed.

use super::Error;

/// A bound on one text but for the names of all functions.
const MAX_TEXT: u64 = 1 << 20;

/// A bound on a name that ends with a zero.
const MAX_NAME: usize = 256;

/// A part of a file, which lies within it.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    pub offset: u64,
    pub size: u64,
}

/// A place in a file. Numbers are in the byte order of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'f> {
    file: &'f [u8],
    pub at: u64,
}

impl<'f> Bytes<'f> {
    pub fn new(file: &'f [u8]) -> Self {
        Self { file, at: 0 }
    }

    /// Goes to another place, also one behind the end, where nothing can be taken.
    pub fn seek(&mut self, at: u64) {
        self.at = at;
    }

    /// Takes so many bytes.
    pub fn slice(&mut self, count: u64, what: &'static str) -> Result<&'f [u8], Error> {
        let damaged = Error::Damaged { at: self.at, what };
        let begin = usize::try_from(self.at).ok();
        let rest = begin.and_then(|begin| self.file.get(begin..));
        let taken = rest.and_then(|rest| rest.get(..usize::try_from(count).ok()?)).ok_or(damaged)?;
        self.at += count;
        Ok(taken)
    }

    /// The next so many bytes as a part that ends with them.
    pub fn part(&mut self, count: u64, what: &'static str) -> Result<Self, Error> {
        let at = self.at;
        self.slice(count, what)?;
        // It lies within the file, so that it fits.
        Ok(Self { file: &self.file[..self.at as usize], at })
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'f [u8] {
        let begin = usize::try_from(self.at).ok();
        let rest = begin.and_then(|begin| self.file.get(begin..)).unwrap_or_default();
        self.at += rest.len() as u64;
        rest
    }

    pub fn take<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Error> {
        let at = self.at;
        let taken = self.slice(N as u64, what)?;
        taken.first_chunk().copied().ok_or(Error::Damaged { at, what })
    }

    pub fn u16(&mut self, what: &'static str) -> Result<u16, Error> {
        self.take(what).map(u16::from_ne_bytes)
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, Error> {
        self.take(what).map(u32::from_ne_bytes)
    }

    pub fn u64(&mut self, what: &'static str) -> Result<u64, Error> {
        self.take(what).map(u64::from_ne_bytes)
    }

    /// An offset and a size.
    pub fn section(&mut self, what: &'static str) -> Result<Section, Error> {
        let at = self.at;
        let section = Section { offset: self.u64(what)?, size: self.u64(what)? };
        let end = section.offset.checked_add(section.size);
        let lies_within = end.is_some_and(|end| end <= self.file.len() as u64);
        lies_within.then_some(section).ok_or(Error::Damaged { at, what })
    }

    /// The bytes of a section.
    pub fn within(&self, section: Section, what: &'static str) -> Result<&'f [u8], Error> {
        Bytes { file: self.file, at: section.offset }.slice(section.size, what)
    }

    pub fn text(&mut self, size: u64, what: &'static str) -> Result<String, Error> {
        if size > MAX_TEXT {
            return Err(Error::Damaged { at: self.at, what });
        }
        self.slice(size, what).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// A text that ends with a zero.
    pub fn ended_by_zero(&mut self, what: &'static str) -> Result<String, Error> {
        let damaged = Error::Damaged { at: self.at, what };
        let rest = usize::try_from(self.at).ok().and_then(|at| self.file.get(at..)).unwrap_or_default();
        let length = rest.iter().take(MAX_NAME).position(|byte| *byte == 0).ok_or(damaged)?;
        self.at += length as u64 + 1;
        Ok(String::from_utf8_lossy(&rest[..length]).into_owned())
    }
}
