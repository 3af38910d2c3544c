//! A compressed `trace.dat` as the same file without compression (trace-cmd.dat.v7(5)).
//!
//! ```text
//! section: number u16, flags u16, text u32, size u64, then where it is compressed: packed u32, unpacked u32,
//! data data of a CPU: number of chunks u32, then of each: packed u32, unpacked u32, data
//! ```
//! Only sections that options name are taken, in their order; what an option says of a place in the file is
//! written anew.

use super::sections::{COMPRESSED, option};
use crate::foreign::{Bytes, Error};
use flate2::read::ZlibDecoder;
use ruzstd::decoding::StreamingDecoder;
use std::borrow::Cow;
use std::io::Read;

/// A bound on a file, unpacked: packed zeros would otherwise be read for ever.
const MAX_BYTES: usize = 512 << 20;

/// Bounds on what a hostile file may ask for.
const MAX_OPTION_SECTIONS: usize = 256;
const MAX_CHUNKS: u32 = 1 << 20;

/// Options that begin with the place of a section.
const NAMES_SECTION: [u16; 7] = [
    option::HEADER_INFO,
    option::FTRACE_EVENTS,
    option::EVENT_FORMATS,
    option::KALLSYMS,
    option::PRINTK,
    option::CMDLINES,
    option::BUFFER_TEXT,
];

/// How sections are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    Zstd,
    Zlib,
}

impl Packing {
    /// By the name in the head of the file.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "zstd" => Some(Self::Zstd),
            "zlib" => Some(Self::Zlib),
            _ => None,
        }
    }

    /// Appends what these bytes are, which has so many.
    fn unpack(self, packed: &[u8], size: usize, to: &mut Vec<u8>) -> Option<()> {
        let end = to.len().checked_add(size).filter(|end| *end <= MAX_BYTES)?;
        // One more than there should be shows that there is more.
        let most = size as u64 + 1;
        let read = match self {
            Self::Zstd => StreamingDecoder::new(packed).ok()?.take(most).read_to_end(to),
            Self::Zlib => ZlibDecoder::new(packed).take(most).read_to_end(to),
        };
        read.ok().filter(|_| to.len() == end).map(drop)
    }
}

/// A file of version 7 without compression: itself, where it has none.
///
/// # Errors
/// Where it is compressed in a way that is not known, or is damaged: with the offset.
pub fn unpacked(file: &[u8]) -> Result<Cow<'_, [u8]>, Error> {
    let mut bytes = Bytes::new(file);
    let what = "begin of the file";
    let Ok(head) = bytes.slice(HEAD.len() as u64, what) else { return Ok(Cow::Borrowed(file)) };
    // What else can be wrong with it is told by who reads it.
    if head != HEAD {
        return Ok(Cow::Borrowed(file));
    }
    bytes.take::<2>(what)?;
    bytes.u32(what)?;
    let begin = &file[..bytes.at as usize];
    let name = bytes.ended_by_zero(what)?;
    bytes.ended_by_zero(what)?;
    if name == "none" {
        return Ok(Cow::Borrowed(file));
    }
    let packing = Packing::of(&name).ok_or_else(|| unknown(&name))?;
    let mut plain = Plain { file: bytes, packing, to: [begin, b"none\0\0"].concat() };
    plain.options()?;
    Ok(Cow::Owned(plain.to))
}

/// What a file of version 7 begins with.
const HEAD: &[u8] = b"\x17\x08\x44tracing7\0";

fn unknown(name: &str) -> Error {
    let name: String = name.chars().take(20).collect();
    Error::otherwise(format!(
        "its sections are compressed with `{name}`, and zstd and zlib are read; `trace-cmd convert -i FILE -o OTHER \
         --compression none` writes a file that is read"
    ))
}

/// A section of the file: what stands in front, and its bytes, unpacked.
struct Section {
    number: u16,
    text: u32,
    body: Vec<u8>,
}

struct Plain<'f> {
    file: Bytes<'f>,
    packing: Packing,
    to: Vec<u8>,
}

impl Plain<'_> {
    /// All options, and what they name. Behind the head stands the place of the first ones.
    fn options(&mut self) -> Result<(), Error> {
        let mut next = self.file.u64("place of the options")?;
        let mut place = self.to.len();
        self.to.extend([0; 8]);
        for _ in 0..MAX_OPTION_SECTIONS {
            if next == 0 {
                return Ok(());
            }
            let section = self.section(next)?;
            let mut rewritten = Vec::new();
            let mut bytes = Bytes::new(&section.body);
            next = 0;
            let mut done = None;
            while bytes.at < section.body.len() as u64 {
                let what = "option";
                let (number, size) = (bytes.u16(what)?, bytes.u32(what)?);
                let body = bytes.slice(size.into(), what)?;
                rewritten.extend(number.to_ne_bytes());
                rewritten.extend(size.to_ne_bytes());
                if number == option::DONE {
                    next = Bytes::new(body).u64("place of the next options")?;
                    done = Some(rewritten.len());
                    rewritten.extend([0; 8]);
                    break;
                }
                rewritten.extend(self.option(number, body)?);
                if rewritten.len() > MAX_BYTES {
                    return Err(Error::Damaged { at: 0, what: "size of the options" });
                }
            }
            let at = self.append(&Section { body: rewritten, ..section })?;
            self.to[place..place + 8].copy_from_slice(&at.to_ne_bytes());
            let Some(done) = done else { return Ok(()) };
            place = at as usize + SECTION_HEAD + done;
        }
        Err(Error::Damaged { at: next, what: "number of sections of options" })
    }

    /// What an option says, with places in the file that is written.
    fn option(&mut self, number: u16, body: &[u8]) -> Result<Vec<u8>, Error> {
        if number == option::BUFFER {
            return self.buffer(body);
        }
        let mut said = body.to_vec();
        if NAMES_SECTION.contains(&number) {
            let section = self.section(Bytes::new(body).u64("place of a section")?)?;
            let at = self.append(&section)?;
            said[..8].copy_from_slice(&at.to_ne_bytes());
        }
        Ok(said)
    }

    /// An instance of tracing: its section is empty, and the data of each CPU stand behind it.
    fn buffer(&mut self, body: &[u8]) -> Result<Vec<u8>, Error> {
        let what = "instance";
        let mut bytes = Bytes::new(body);
        let (number, text, flags, _) = self.head(bytes.u64(what)?)?;
        bytes.ended_by_zero(what)?;
        bytes.ended_by_zero(what)?;
        bytes.u32(what)?;
        let count = bytes.u32(what)?;
        let mut said = body[..bytes.at as usize].to_vec();
        let at = self.append(&Section { number, text, body: Vec::new() })?;
        said[..8].copy_from_slice(&at.to_ne_bytes());
        for _ in 0..count {
            let (cpu, from, size) = (bytes.u32(what)?, bytes.u64(what)?, bytes.u64(what)?);
            let at = self.to.len() as u64;
            if size > 0 {
                self.cpu(from, size, flags)?;
            }
            said.extend(cpu.to_ne_bytes());
            said.extend(at.to_ne_bytes());
            said.extend((self.to.len() as u64 - at).to_ne_bytes());
        }
        Ok(said)
    }

    fn cpu(&mut self, from: u64, size: u64, flags: u16) -> Result<(), Error> {
        let what = "data of a CPU";
        let mut bytes = self.file;
        bytes.seek(from);
        if flags & COMPRESSED == 0 {
            let data = bytes.slice(size, what)?;
            return self.room(data.len(), from).map(|()| self.to.extend(data));
        }
        let chunks = bytes.u32(what)?;
        if chunks > MAX_CHUNKS {
            return Err(Error::Damaged { at: from, what });
        }
        for _ in 0..chunks {
            let to = std::mem::take(&mut self.to);
            self.to = self.chunk(&mut bytes, to, what)?;
        }
        Ok(())
    }

    /// Appends a chunk, unpacked.
    fn chunk(&self, bytes: &mut Bytes<'_>, mut to: Vec<u8>, what: &'static str) -> Result<Vec<u8>, Error> {
        let at = bytes.at;
        let (packed, size) = (bytes.u32(what)?, bytes.u32(what)?);
        let packed = bytes.slice(packed.into(), what)?;
        let unpacked = self.packing.unpack(packed, size as usize, &mut to);
        unpacked.map(|()| to).ok_or(Error::Damaged { at, what })
    }

    /// Number, text, flags and size of a section, and where it is.
    fn head(&self, at: u64) -> Result<(u16, u32, u16, u64), Error> {
        let mut bytes = self.file;
        bytes.seek(at);
        let what = "section";
        let (number, flags) = (bytes.u16(what)?, bytes.u16(what)?);
        Ok((number, bytes.u32(what)?, flags, bytes.u64(what)?))
    }

    fn section(&self, at: u64) -> Result<Section, Error> {
        let what = "section";
        let (number, text, flags, size) = self.head(at)?;
        let mut bytes = self.file;
        bytes.seek(at.saturating_add(SECTION_HEAD as u64));
        let body = if flags & COMPRESSED == 0 {
            bytes.slice(size, what)?.to_vec()
        } else {
            self.chunk(&mut bytes, Vec::new(), what)?
        };
        Ok(Section { number, text, body })
    }

    /// Writes a section; where it is comes back.
    fn append(&mut self, section: &Section) -> Result<u64, Error> {
        let at = self.to.len() as u64;
        self.room(section.body.len() + SECTION_HEAD, at)?;
        self.to.extend(section.number.to_ne_bytes());
        self.to.extend(0_u16.to_ne_bytes());
        self.to.extend(section.text.to_ne_bytes());
        self.to.extend((section.body.len() as u64).to_ne_bytes());
        self.to.extend(&section.body);
        Ok(at)
    }

    fn room(&self, more: usize, at: u64) -> Result<(), Error> {
        let fits = self.to.len().saturating_add(more) <= MAX_BYTES;
        fits.then_some(()).ok_or(Error::Damaged { at, what: "size of what is unpacked" })
    }
}

/// Bytes of a section in front of its own.
const SECTION_HEAD: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn no_more_and_no_less_than_was_said_is_unpacked() {
        let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(&[7; 1000]).unwrap();
        let packed = packer.finish().unwrap();
        let unpack = |size| {
            let mut to = vec![1];
            Packing::Zlib.unpack(&packed, size, &mut to).map(|()| to.len())
        };
        assert_eq!(unpack(1000), Some(1001));
        assert_eq!((unpack(999), unpack(1001), unpack(MAX_BYTES)), (None, None, None));
        assert_eq!(Packing::Zstd.unpack(&packed, 1000, &mut Vec::new()), None);
    }
}
