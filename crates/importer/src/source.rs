//! A file that is to be imported: opened once, told apart by how it is packed, and handed to a process that
//! reads it and can do nothing else ([`crate::foreign`]). gzip is unpacked by that process, xz and zstd by
//! their own programs, and sysstat's binary form is read through `sadf`, each confined as well.

use crate::error::{Doing, Error, Importing, Result, refused};
use crate::foreign::{Failure, Imported, MAX_UNPACKED, Reader, Unpacking};
use domain::bench::Sink;
use parse::import::{HEAD, Kind, Pace, recognise};
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// What is read at once.
const CHUNK: usize = 64 << 10;

/// How many readers wait for the moment when samples are stored, each with what it has understood; others
/// understand anew.
const MAX_WAITING: u32 = 16;

/// What an import needs of the process that it runs in.
#[derive(Clone)]
pub struct Environment {
    /// Where a program is.
    pub program: fn(&str) -> Option<PathBuf>,
    /// The time zone that programs are to print in, where it is not the machine's.
    pub time_zone: Option<OsString>,
    /// A copy of `/proc/kallsyms` of the machine that made a `perf.data`.
    pub kallsyms: Option<PathBuf>,
    /// Warns whoever imports.
    pub warn: fn(&str),
}

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Plain,
    Gzip,
    /// The program that unpacks it, and Debian's package that has it.
    By(&'static str, &'static str),
    /// sysstat's binary file: `sadf -j FILE -- -A` is what is read.
    Sadf,
}

/// A file.
pub struct Source {
    /// As it was given.
    pub name: String,
    /// The SHA-256 of its bytes as given.
    pub sha256: String,
    /// Its size as given.
    pub size: u64,
    /// Its bytes: the file itself, or a copy of what can be read once, whose name is gone already.
    file: File,
    packing: Packing,
    /// What it is, where that was told.
    told: Option<Kind>,
    pace: Pace,
    environment: Environment,
    reader: RefCell<Option<Waiting>>,
}

/// A reader, counted.
struct Waiting(Reader);

static WAITING: AtomicU32 = AtomicU32::new(0);

impl Waiting {
    fn start(environment: &Environment) -> Result<Self> {
        let reader = Reader::start(environment.warn)?;
        WAITING.fetch_add(1, Ordering::Relaxed);
        Ok(Self(reader))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Source {
    /// Looks at a file; `-` is standard input.
    ///
    /// # Errors
    /// Where it cannot be opened or is no file, or no process could be started that reads it.
    pub fn open(file: &Path, kind: Option<Kind>, pace: Pace, environment: &Environment) -> Result<Self> {
        let is_input = file == Path::new("-");
        let name = if is_input { "standard input".to_owned() } else { file.display().to_string() };
        let this = || format!("`{name}`");
        let mut reader = Waiting::start(environment).importing(this)?;
        let file = if is_input {
            copy_of(&mut io::stdin().lock(), kind.is_some(), &mut reader.0).importing(this)?
        } else {
            let opened = opened(file).importing(this)?;
            match opened {
                Opened::Whole(file) => bounded(file).importing(this)?,
                Opened::Once(mut pipe) => {
                    copy_of(&mut pipe, kind.is_some(), &mut reader.0).importing(this)?
                }
            }
        };
        let (sha256, size) = digest(&file).importing(this)?;
        let packing = packing(&start_of(&file).importing(this)?);
        let reader = RefCell::new(Some(reader));
        let environment = environment.clone();
        Ok(Self { sha256, size, file, packing, told: kind, pace, environment, reader, name })
    }

    /// Its name without the folder.
    pub fn file_name(&self) -> &str {
        Path::new(&self.name).file_name().and_then(|name| name.to_str()).unwrap_or(&self.name)
    }

    /// Reads it, but for its samples.
    ///
    /// # Errors
    /// Where it is not understood, or reading fails.
    pub fn understand(&self) -> Result<Imported> {
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => Waiting::start(&self.environment)?,
        };
        let imported = self.understood_by(&mut reader.0)?;
        let has_samples = imported.parts.iter().any(|part| part.samples.is_some());
        if has_samples && WAITING.load(Ordering::Relaxed) <= MAX_WAITING {
            self.reader.replace(Some(reader));
        }
        Ok(imported)
    }

    fn understood_by(&self, reader: &mut Reader) -> Result<Imported> {
        let kind = if self.packing == Packing::Sadf { self.told.or(Some(Kind::Sysstat)) } else { self.told };
        let is_gzip = self.packing == Packing::Gzip;
        if let Some(path) = &self.environment.kallsyms {
            let this = || format!("`{}`", path.display());
            let file = File::open(path).or_else(|error| refused(cannot_open(path, &error)));
            file.and_then(|file| reader.kallsyms(file.as_fd()).map_err(|failure| failure.why))
                .importing(this)?;
        }
        self.unpacked(|file| reader.understand(file.as_fd(), is_gzip, kind, self.pace))
    }

    /// Hands on the samples of the result of this number. The kinds that may be of any size are read a second
    /// time for that.
    ///
    /// # Errors
    /// Where it has changed since it was understood, a row cannot be stored, or reading fails.
    pub fn stream(&self, kind: Kind, part: u32, sink: &mut dyn Sink) -> Result<()> {
        if self.reader.borrow().is_none() {
            let mut reader = Waiting::start(&self.environment)?;
            self.understood_by(&mut reader.0)?;
            self.reader.replace(Some(reader));
        }
        let mut reader = self.reader.borrow_mut();
        let none = || Error::Refused("no process reads it".into());
        let reader = &mut reader.as_mut().ok_or_else(none)?.0;
        let is_gzip = self.packing == Packing::Gzip;
        if kind.is_streamed() {
            return self.unpacked(|file| Ok(((), reader.stream(Some(file.as_fd()), is_gzip, part, sink)?)));
        }
        reader.stream(None, is_gzip, part, sink).map(drop).map_err(|failure| failure.why)
    }

    /// Writes the events of a file that has some, right after its samples were handed on.
    ///
    /// # Errors
    /// Where they cannot be written, or the reader fails.
    pub fn events(&self, to: &mut dyn Write) -> Result<()> {
        let mut reader = self.reader.borrow_mut();
        let none = || Error::Refused("no process reads it".into());
        reader.as_mut().ok_or_else(none)?.0.events(to).map_err(|failure| failure.why)
    }

    /// Its bytes as given, from the beginning.
    ///
    /// # Errors
    /// Where they cannot be read, or written.
    pub fn copy_to(&self, to: &Path) -> io::Result<()> {
        let mut copy = File::options().write(true).create(true).truncate(true).mode(0o600).open(to)?;
        each_chunk(&self.file, |chunk| copy.write_all(chunk))?;
        copy.set_permissions(std::fs::Permissions::from_mode(
            self.file.metadata()?.permissions().mode() & 0o777,
        ))?;
        Ok(())
    }

    /// Lets somebody read its bytes, unpacked, from a descriptor of his own. Whoever has read to the end has
    /// read what the unpacking program's end makes good or not.
    fn unpacked<T>(&self, read: impl FnOnce(OwnedFd) -> Result<(T, bool), Failure>) -> Result<T> {
        let (read, unpacking) = match self.packing {
            Packing::Plain | Packing::Gzip => (read(self.again()?.into()), None),
            Packing::By(program, package) => {
                // One thread of xz, whose memory does not depend on the number of CPUs.
                let arguments: &[&str] = if program == "xz" { &["-dc", "-T1"] } else { &["-dc"] };
                let (unpacking, output) = self.unpacking(program, package, arguments, self.again()?)?;
                (read(output), Some(unpacking))
            }
            Packing::Sadf => {
                let arguments = ["-j", "/proc/self/fd/0", "--", "-A"];
                let (unpacking, output) =
                    self.unpacking("sadf", "sysstat", &arguments, self.open_to_all()?)?;
                (read(output), Some(unpacking))
            }
        };
        let at_end = match &read {
            Ok((_, at_end)) => *at_end,
            Err(failure) => failure.at_end,
        };
        if let Some(unpacking) = unpacking.filter(|_| at_end) {
            unpacking.verdict().map_err(|error| Error::Refused(format!("cannot read it: {error}")))?;
        }
        read.map(|(value, _)| value).map_err(|failure| failure.why)
    }

    fn unpacking(
        &self,
        program: &'static str,
        package: &str,
        arguments: &[&str],
        input: File,
    ) -> Result<(Unpacking, OwnedFd)> {
        let Some(path) = (self.environment.program)(program) else {
            return refused(format!(
                "`{program}` is needed to read this file, and is not installed; on Debian, `apt install {package}`"
            ));
        };
        Unpacking::start(program, &path, self.environment.time_zone.as_deref(), arguments, input)
    }

    /// The same file with a place of its own in it, for reading alone: whoever has it cannot move ours.
    fn again(&self) -> io::Result<File> {
        File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// A copy without a name that nobody, too, may open by its descriptor's path: sadf wants a path.
    fn open_to_all(&self) -> Result<File> {
        let mut copy = nameless()?;
        each_chunk(&self.file, |chunk| copy.write_all(chunk))?;
        copy.set_permissions(std::fs::Permissions::from_mode(0o444))?;
        Ok(File::open(format!("/proc/self/fd/{}", copy.as_raw_fd()))?)
    }
}

/// What a path leads to.
enum Opened {
    Whole(File),
    /// A pipe by name, which gives its bytes once.
    Once(File),
}

/// Opens a file, or a pipe by name.
///
/// # Errors
/// Where it is a device, which may have no end, a socket or a folder.
fn opened(path: &Path) -> Result<Opened> {
    // What cannot be looked at is told when it is opened. Opening a device may do something to it.
    let named = std::fs::metadata(path).map(|metadata| metadata.file_type());
    if let Ok(kind) = &named {
        check_kind(*kind)?;
    }
    let is_pipe = named.is_ok_and(|kind| kind.is_fifo());
    // Of a pipe the writer is waited for, of nothing else anything.
    let flags = if is_pipe { OFlags::NOCTTY } else { OFlags::NOCTTY | OFlags::NONBLOCK };
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = file.or_else(|error| refused(cannot_open(path, &error)))?;
    let kind = file.metadata()?.file_type();
    check_kind(kind)?;
    match (kind.is_fifo(), is_pipe) {
        (false, _) => Ok(Opened::Whole(file)),
        (true, true) => Ok(Opened::Once(file)),
        (true, false) => refused("it has just become a pipe; import it again"),
    }
}

/// Why a file cannot be opened, and what to do.
fn cannot_open(path: &Path, error: &io::Error) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let what_to_do = match error.kind() {
        io::ErrorKind::NotFound if !folder.exists() => {
            format!(
                "the folder `{}` is not there either; give the path of a file that a tool wrote",
                folder.display()
            )
        }
        io::ErrorKind::NotFound => {
            format!("look at what there is with `ls {}`, or write `-` for standard input", folder.display())
        }
        io::ErrorKind::NotADirectory => {
            format!(
                "`{}` is a file and no folder; give the path of a file that a tool wrote",
                folder.display()
            )
        }
        io::ErrorKind::PermissionDenied => {
            "run it as a user who may read the file, or copy it to where you may".to_owned()
        }
        _ => "try it with `head`, which says the same of a file that cannot be read".to_owned(),
    };
    format!("{error}; {what_to_do}")
}

fn check_kind(kind: std::fs::FileType) -> Result<()> {
    if kind.is_char_device() || kind.is_block_device() {
        return refused(
            "it is a device, and no file that a tool wrote; name the file that its output went to",
        );
    }
    if kind.is_socket() {
        return refused("it is a socket; name a file, or write `-` for standard input");
    }
    if kind.is_dir() {
        return refused("it is a folder; name the files in it");
    }
    Ok(())
}

/// What a file can be, for whoever gave another.
pub fn looked_for() -> String {
    Kind::names().join(", ")
}

/// As many bytes as a packing's mark has.
fn start_of(file: &File) -> io::Result<Vec<u8>> {
    let mut start = vec![0; 8];
    let count = file.read_at(&mut start, 0)?;
    start.truncate(count);
    Ok(start)
}

fn packing(start: &[u8]) -> Packing {
    match start {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Packing::By("xz", "xz-utils"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::By("zstd", "zstd"),
        [first, second, ..] if recognise(&[*first, *second]) == Some(Kind::Sa) => Packing::Sadf,
        _ => Packing::Plain,
    }
}

fn digest(file: &File) -> io::Result<(String, u64)> {
    let (mut hash, mut size) = (Sha256::new(), 0_u64);
    each_chunk(file, |chunk| {
        hash.update(chunk);
        size += chunk.len() as u64;
        Ok(())
    })?;
    let mut text = String::new();
    for byte in hash.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    Ok((text, size))
}

/// Reads a file from its beginning, wherever its place is.
fn each_chunk(file: &File, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let (mut buffer, mut at) = (vec![0; CHUNK], 0);
    loop {
        let count = match file.read_at(&mut buffer, at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if count == 0 {
            return Ok(());
        }
        take(&buffer[..count])?;
        at += count as u64;
    }
}

/// Keeps what can be read once in a file. What is nothing that is known is not read to its end, unless its
/// kind was told.
fn copy_of(input: &mut dyn Read, kind_is_told: bool, reader: &mut Reader) -> Result<File> {
    let mut file = nameless()?;
    let mut head = Vec::new();
    (&mut *input).take(HEAD as u64).read_to_end(&mut head)?;
    file.write_all(&head)?;
    let is_packed = packing(&head) != Packing::Plain;
    let mut is_known = || {
        let written = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        reader.recognises(written.as_fd()).map_err(|failure| failure.why)
    };
    if kind_is_told || is_packed || is_known()? {
        let copied = io::copy(&mut input.take(MAX_UNPACKED), &mut file)?;
        if copied == MAX_UNPACKED {
            return refused(TOO_LARGE);
        }
    }
    Ok(file)
}

const TOO_LARGE: &str = "it has more than 64 GiB; import a part of it";
const _: () = assert!(MAX_UNPACKED == 64 << 30);

/// A file with holes may claim any size.
fn bounded(file: File) -> Result<File> {
    if file.metadata()?.len() > MAX_UNPACKED {
        return refused(TOO_LARGE);
    }
    Ok(file)
}

/// A new file for reading and writing, whose name is gone: nobody else finds it, and it goes with this
/// process.
fn nameless() -> Result<File> {
    static COPIES: AtomicU32 = AtomicU32::new(0);
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("flyball-import-{}-{number}", std::process::id()));
    let keep = || format!("keep what is read in `{}`", path.display());
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path).doing(keep)?;
    std::fs::remove_file(&path).doing(keep)?;
    Ok(file)
}
