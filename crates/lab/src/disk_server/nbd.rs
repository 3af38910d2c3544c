//! The NBD protocol as a server speaks it: fixed newstyle handshake, simple replies.
//!
//! Source: the NBD project's doc/proto.md. Bytes in, meaning out: nothing here touches a socket. Structured
//! replies, TLS and metadata contexts are declined; a client that goes on without them is served.

use super::model::{Act, DiskRequest, MAX_BYTES, Refusal};
use disks::DiskSpec;
use disks::spec::MediumSpec;

/// The most bytes of an option's data. A name has at most 4096; requests for information come on top.
const MAX_OPTION: u32 = 16 << 10;

/// The most options of one handshake: a client needs five.
pub(super) const MAX_OPTIONS: u32 = 64;

const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const ANSWER_MAGIC: u32 = 0x6744_6698;

const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;

/// What is told of one disk.
#[derive(Clone, Debug)]
pub(super) struct Export {
    pub(super) name: String,
    pub(super) size: u64,
    logical_block: u32,
    physical_block: u32,
    flags: u16,
    can_trim: bool,
}

impl Export {
    pub(super) fn new(name: &str, spec: &DiskSpec) -> Self {
        const HAS_FLAGS: u16 = 1;
        const SEND_FLUSH: u16 = 1 << 2;
        const SEND_FUA: u16 = 1 << 3;
        const ROTATIONAL: u16 = 1 << 4;
        const SEND_TRIM: u16 = 1 << 5;
        const SEND_WRITE_ZEROES: u16 = 1 << 6;
        let kind = match spec.medium {
            MediumSpec::Hdd(_) => ROTATIONAL,
            MediumSpec::Ssd(_) => SEND_TRIM,
        };
        Self {
            name: name.to_owned(),
            size: spec.capacity.get(),
            logical_block: spec.logical_block.get() as u32,
            physical_block: spec.physical_block.get().max(4096) as u32,
            flags: HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_WRITE_ZEROES | kind,
            can_trim: kind == SEND_TRIM,
        }
    }
}

/// What the server says first.
pub(super) fn greeting() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(18);
    bytes.extend(MAGIC.to_be_bytes());
    bytes.extend(OPTION_MAGIC.to_be_bytes());
    bytes.extend((FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    bytes
}

/// Where a handshake stands after some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shaken {
    /// More bytes are needed.
    More,
    /// So many bytes were understood; this is the answer.
    Go { used: usize, reply: Vec<u8>, then: Then },
}

/// What follows an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// A further option.
    Options { no_zeroes: bool },
    /// Requests.
    Transmission,
    /// The client leaves.
    Close,
}

/// The client's answer to the greeting.
///
/// # Errors
/// Flags that the protocol does not know: the connection must be closed.
pub(super) fn client_flags(bytes: &[u8]) -> Result<Shaken, String> {
    let Some(flags) = take_u32(bytes, 0) else { return Ok(Shaken::More) };
    let known = u32::from(FIXED_NEWSTYLE | NO_ZEROES);
    if flags & !known != 0 || flags & u32::from(FIXED_NEWSTYLE) == 0 {
        return Err(format!("client flags {flags:#x} are not those of a fixed newstyle handshake"));
    }
    let no_zeroes = flags & u32::from(NO_ZEROES) != 0;
    Ok(Shaken::Go { used: 4, reply: Vec::new(), then: Then::Options { no_zeroes } })
}

/// One option of a handshake.
///
/// # Errors
/// What is no option, or wants an export that is not here in the one way that has no answer for that.
pub(super) fn option(bytes: &[u8], export: &Export, no_zeroes: bool) -> Result<Shaken, String> {
    let (Some(magic), Some(option), Some(len)) =
        (take_u64(bytes, 0), take_u32(bytes, 8), take_u32(bytes, 12))
    else {
        return Ok(Shaken::More);
    };
    if magic != OPTION_MAGIC {
        return Err(format!("an option begins with {magic:#018x}, which is not its magic number"));
    }
    if len > MAX_OPTION {
        return Err(format!("option {option} has {len} bytes of data; at most {MAX_OPTION} are taken"));
    }
    let used = 16 + len as usize;
    let Some(data) = bytes.get(16..used) else { return Ok(Shaken::More) };
    let (reply, then) = answer_option(option, data, export, no_zeroes)?;
    Ok(Shaken::Go { used, reply, then })
}

const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const LIST: u32 = 3;
const INFO: u32 = 6;
const GO: u32 = 7;

const ACK: u32 = 1;
const SERVER: u32 = 2;
const INFORMATION: u32 = 3;
const UNSUPPORTED: u32 = (1 << 31) + 1;
const INVALID: u32 = (1 << 31) + 3;
const UNKNOWN: u32 = (1 << 31) + 6;

fn answer_option(
    number: u32,
    data: &[u8],
    export: &Export,
    no_zeroes: bool,
) -> Result<(Vec<u8>, Then), String> {
    let options = Then::Options { no_zeroes };
    match number {
        EXPORT_NAME => match is_name(data, export) {
            true => Ok((old_export(export, no_zeroes), Then::Transmission)),
            false => Err(format!("there is no export `{}`", String::from_utf8_lossy(data))),
        },
        ABORT => Ok((reply(number, ACK, &[]), Then::Close)),
        LIST if data.is_empty() => {
            let name = export.name.as_bytes();
            let mut entry = (name.len() as u32).to_be_bytes().to_vec();
            entry.extend(name);
            let mut bytes = reply(number, SERVER, &entry);
            bytes.extend(reply(number, ACK, &[]));
            Ok((bytes, options))
        }
        LIST => Ok((reply(number, INVALID, b"a list takes no data"), options)),
        INFO | GO => {
            let Some(name) = name_of(data) else {
                return Ok((reply(number, INVALID, b"name and requests do not fill the data"), options));
            };
            if !is_name(name, export) {
                return Ok((reply(number, UNKNOWN, b"there is no such export"), options));
            }
            Ok((information(number, export), if number == GO { Then::Transmission } else { options }))
        }
        _ => Ok((reply(number, UNSUPPORTED, &[]), options)),
    }
}

/// A client that names no export means the only one.
fn is_name(name: &[u8], export: &Export) -> bool {
    name.is_empty() || name == export.name.as_bytes()
}

/// The name in the data of INFO and GO; none where the data is not of its form.
fn name_of(data: &[u8]) -> Option<&[u8]> {
    let len = take_u32(data, 0)? as usize;
    let name = data.get(4..4_usize.checked_add(len)?)?;
    let rest = &data[4 + len..];
    let requests = usize::from(u16::from_be_bytes(rest.get(..2)?.try_into().ok()?));
    (rest.len() == 2 + 2 * requests).then_some(name)
}

fn information(option: u32, export: &Export) -> Vec<u8> {
    let mut about = 0_u16.to_be_bytes().to_vec();
    about.extend(export.size.to_be_bytes());
    about.extend(export.flags.to_be_bytes());
    let mut blocks = 3_u16.to_be_bytes().to_vec();
    blocks.extend(export.logical_block.to_be_bytes());
    blocks.extend(export.physical_block.to_be_bytes());
    blocks.extend(MAX_BYTES.to_be_bytes());
    let mut bytes = reply(option, INFORMATION, &about);
    bytes.extend(reply(option, INFORMATION, &blocks));
    bytes.extend(reply(option, ACK, &[]));
    bytes
}

fn old_export(export: &Export, no_zeroes: bool) -> Vec<u8> {
    let mut bytes = export.size.to_be_bytes().to_vec();
    bytes.extend(export.flags.to_be_bytes());
    if !no_zeroes {
        bytes.extend([0; 124]);
    }
    bytes
}

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(20 + data.len());
    bytes.extend(REPLY_MAGIC.to_be_bytes());
    bytes.extend(option.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// How long a request's header is.
pub(super) const HEADER: usize = 28;

/// How long an answer's header is.
pub(super) const ANSWER: usize = 16;

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    WriteZeroes,
    /// A command that is not known here, or is not offered.
    Unknown(u16),
}

/// A request's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) command: Command,
    pub(super) fua: bool,
    /// Flags that are not known here.
    pub(super) odd_flags: u16,
    pub(super) cookie: u64,
    pub(super) offset: u64,
    pub(super) len: u32,
}

impl Header {
    /// How many bytes of data follow.
    pub(super) fn payload(&self) -> usize {
        if self.command == Command::Write { self.len as usize } else { 0 }
    }

    /// What it asks of the disk; none for what is not known here.
    pub(super) fn meaning(&self) -> Option<DiskRequest> {
        let act = match self.command {
            Command::Flush => Act::Flush,
            _ if self.odd_flags != 0 => return None,
            Command::Read => Act::Read,
            Command::Write => Act::Write,
            Command::Trim => Act::Discard,
            Command::WriteZeroes => Act::Zero,
            Command::Disconnect | Command::Unknown(_) => return None,
        };
        Some(DiskRequest { act, fua: self.fua, offset: self.offset, len: u64::from(self.len) })
    }

    /// The answer to a request that is refused.
    pub(super) fn refused(&self, refusal: Refusal) -> [u8; ANSWER] {
        let writes = matches!(self.command, Command::Write | Command::WriteZeroes | Command::Trim);
        let refusal = if refusal == Refusal::BeyondEnd && writes { Refusal::NoSpace } else { refusal };
        answer(self.cookie, error_number(refusal))
    }
}

/// Reads a header; `None` where bytes are missing.
///
/// # Errors
/// What is no request, or a write of more than [`MAX_BYTES`]: where the next request begins is not known
/// then, and the connection must be closed.
pub(super) fn header(bytes: &[u8], export: &Export) -> Result<Option<Header>, String> {
    let Some(bytes) = bytes.get(..HEADER) else { return Ok(None) };
    let word = |at| take_u64(bytes, at).unwrap_or(0);
    let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let magic = take_u32(bytes, 0).unwrap_or(0);
    if magic != REQUEST_MAGIC {
        return Err(format!("a request begins with {magic:#010x}, which is not its magic number"));
    }
    let (flags, len) = (half(4), take_u32(bytes, 24).unwrap_or(0));
    let command = match half(6) {
        0 => Command::Read,
        1 => Command::Write,
        2 => Command::Disconnect,
        3 => Command::Flush,
        4 if export.can_trim => Command::Trim,
        6 => Command::WriteZeroes,
        other => Command::Unknown(other),
    };
    if command == Command::Write && len > MAX_BYTES {
        return Err(format!("a write of {len} bytes; at most {MAX_BYTES} are taken"));
    }
    const FUA: u16 = 1;
    const NO_HOLE: u16 = 2;
    let known = if command == Command::WriteZeroes { FUA | NO_HOLE } else { FUA };
    Ok(Some(Header {
        command,
        fua: flags & FUA != 0,
        odd_flags: flags & !known,
        cookie: word(8),
        offset: word(16),
        len,
    }))
}

/// Why a request is refused, as NBD numbers it.
const fn error_number(refusal: Refusal) -> u32 {
    match refusal {
        Refusal::Io => 5,
        Refusal::Invalid | Refusal::BeyondEnd => 22,
        Refusal::NoSpace => 28,
    }
}

/// The header of an answer to a request that is done.
pub(super) fn done(cookie: u64) -> [u8; ANSWER] {
    answer(cookie, 0)
}

fn answer(cookie: u64, error: u32) -> [u8; ANSWER] {
    let mut bytes = [0; ANSWER];
    bytes[..4].copy_from_slice(&ANSWER_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// The refusal of a request that was to be answered so.
pub(super) fn refused(answer_so_far: &[u8], refusal: Refusal) -> [u8; ANSWER] {
    answer(take_u64(answer_so_far, 8).unwrap_or(0), error_number(refusal))
}

fn take_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn take_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
