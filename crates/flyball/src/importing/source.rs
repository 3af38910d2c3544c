//! A file that is to be imported, as bytes: plain, gzip (by ourselves), xz or zstd (by their own programs), standard input, or
//! sysstat's binary form through `sadf`.

use anyhow::{Context, Result, bail};
use flate2::read::MultiGzDecoder;
use parse::import::{HEAD, Kind, recognise};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A bound on what a file unpacks to: a day of `sadf -j` of a large machine at one sample a second is some 10 GB. Packed zeros
/// would otherwise be read for ever.
const MOST_UNPACKED: u64 = 64 << 30;

/// What is read at once.
const CHUNK: usize = 64 << 10;

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
    /// Where its bytes are.
    pub path: PathBuf,
    /// The SHA-256 of its bytes as given.
    pub sha256: String,
    /// Its size as given.
    pub size: u64,
    /// What it is.
    pub kind: Kind,
    packing: Packing,
    /// A copy of standard input, gone with this.
    _copy: Option<Copy>,
}

struct Copy(PathBuf);

impl Drop for Copy {
    fn drop(&mut self) {
        // A copy in the folder for temporary files that cannot be removed harms nobody.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Source {
    /// Looks at a file; `-` is standard input.
    ///
    /// # Errors
    /// Where it cannot be read, or nothing that is known.
    pub fn open(file: &Path, kind: Option<Kind>) -> Result<Self> {
        let is_input = file == Path::new("-");
        let copy = match passing(file).with_context(|| format!("cannot import `{}`", file.display()))? {
            Some(mut passing) => Some(copy_of(&mut passing, kind.is_some())?),
            None if is_input => Some(copy_of(&mut io::stdin().lock(), kind.is_some())?),
            None => None,
        };
        let path = copy.as_ref().map_or_else(|| file.to_owned(), |copy| copy.0.clone());
        let name = if is_input { "standard input".to_owned() } else { file.display().to_string() };
        let cannot = || format!("cannot import `{name}`");
        if path.is_dir() {
            bail!("cannot import `{name}`: it is a folder; name the files in it");
        }
        let (sha256, size) = digest(&path).with_context(cannot)?;
        let mut source = Self {
            name: name.clone(),
            path,
            sha256,
            size,
            kind: Kind::Text(None),
            packing: Packing::Plain,
            _copy: copy,
        };
        source.packing = packing(&source.head().with_context(cannot)?);
        let head =
            if source.packing == Packing::Sadf { Vec::new() } else { source.head().with_context(cannot)? };
        source.kind = match (kind, source.packing) {
            (Some(kind), _) => kind,
            (None, Packing::Sadf) => Kind::Sysstat,
            (None, _) if head.trim_ascii().is_empty() => bail!("cannot import `{name}`: it is empty"),
            (None, _) => {
                if let Some(told) = in_another_way(&head) {
                    bail!("cannot import `{name}`: {told}");
                }
                recognise(&head).with_context(|| {
                    format!(
                        "cannot import `{name}`: it is neither text nor anything that is known; looked for {}",
                        looked_for()
                    )
                })?
            }
        };
        Ok(source)
    }

    /// Its bytes, unpacked, from the beginning.
    ///
    /// # Errors
    /// Where it cannot be opened, or the program that unpacks it is missing.
    pub fn read(&self) -> Result<Box<dyn BufRead>> {
        let file = || File::open(&self.path).with_context(|| format!("cannot import `{}`", self.name));
        let input: Box<dyn Read> = match self.packing {
            Packing::Plain => Box::new(file()?),
            Packing::Gzip => Box::new(Gunzip::new(file()?)),
            Packing::By(program, package) => {
                let mut command = Command::new(program);
                command.arg("-dc").stdin(file()?);
                Box::new(Unpacked::start(command, program, package)?)
            }
            Packing::Sadf => {
                let mut command = Command::new("sadf");
                command.arg("-j").arg(&self.path).args(["--", "-A"]).stdin(Stdio::null());
                Box::new(Unpacked::start(command, "sadf", "sysstat")?)
            }
        };
        Ok(Box::new(BufReader::with_capacity(CHUNK, Bounded { input, left: MOST_UNPACKED })))
    }

    /// The first bytes, unpacked.
    fn head(&self) -> Result<Vec<u8>> {
        let mut head = Vec::new();
        self.read()?.take(HEAD as u64).read_to_end(&mut head)?;
        Ok(head)
    }
}

/// A pipe by name, which gives its bytes once; `None` where it is not one.
///
/// # Errors
/// Where it is a device, which may have no end, or a socket.
fn passing(file: &Path) -> Result<Option<File>> {
    // What cannot be looked at is told when it is opened.
    let Ok(kind) = std::fs::metadata(file).map(|metadata| metadata.file_type()) else { return Ok(None) };
    if kind.is_char_device() || kind.is_block_device() {
        bail!("it is a device, and no file that a tool wrote");
    }
    if kind.is_socket() {
        bail!("it is a socket; name a file, or write `-` for standard input");
    }
    Ok(if kind.is_fifo() { Some(File::open(file)?) } else { None })
}

/// What a file is that could be read, were it written in another way.
fn in_another_way(head: &[u8]) -> Option<&'static str> {
    match head {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            Some("it is in UTF-16; `iconv -f UTF-16 -t UTF-8 FILE` writes it in UTF-8, which is read")
        }
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', b'Y', ..] => {
            Some("bzip2 packed it; unpack it first (gzip, xz and zstd are read as they are)")
        }
        [b'P', b'K', 3, 4, ..] => Some("it is a ZIP archive; unpack it, and name the files in it"),
        [0x1f, 0x8b, ..] => Some("it is packed twice; unpack it once"),
        _ => None,
    }
}

/// What a file can be, for whoever gave another.
pub fn looked_for() -> String {
    Kind::names().join(", ")
}

fn packing(head: &[u8]) -> Packing {
    match head {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Packing::By("xz", "xz-utils"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::By("zstd", "zstd"),
        _ if recognise(head) == Some(Kind::Sa) => Packing::Sadf,
        _ => Packing::Plain,
    }
}

fn digest(path: &Path) -> Result<(String, u64)> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let (mut buffer, mut size) = (vec![0; CHUNK], 0_u64);
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hash.update(&buffer[..count]);
        size += count as u64;
    }
    let mut text = String::new();
    for byte in hash.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    Ok((text, size))
}

/// Keeps what can be read once in a file. What is nothing that is known is not read to its end, unless its kind was told.
fn copy_of(input: &mut dyn Read, kind_is_told: bool) -> Result<Copy> {
    static COPIES: AtomicU32 = AtomicU32::new(0);
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("flyball-import-{}-{number}", std::process::id()));
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("cannot keep what is read in `{}`", path.display()))?;
    let copy = Copy(path);
    let mut head = Vec::new();
    (&mut *input).take(HEAD as u64).read_to_end(&mut head)?;
    file.write_all(&head)?;
    if kind_is_told || packing(&head) != Packing::Plain || recognise(&head).is_some() {
        let copied = io::copy(&mut input.take(MOST_UNPACKED), &mut file)?;
        if copied == MOST_UNPACKED {
            bail!("cannot import what is read: it has more than {} GiB", MOST_UNPACKED >> 30);
        }
    }
    file.flush()?;
    Ok(copy)
}

/// Ends with an error where more comes than was allowed.
struct Bounded<R> {
    input: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(to)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            io::Error::other(format!(
                "it unpacks to more than {} GiB; is it what it seems to be?",
                MOST_UNPACKED >> 30
            ))
        })?;
        Ok(count)
    }
}

/// What gzip packed. An error says how far it could be read.
struct Gunzip {
    decoder: MultiGzDecoder<BufReader<File>>,
    unpacked: u64,
}

impl Gunzip {
    fn new(file: File) -> Self {
        Self { decoder: MultiGzDecoder::new(BufReader::new(file)), unpacked: 0 }
    }

    /// How much of the file was taken in.
    fn position(&self) -> io::Result<u64> {
        let input = self.decoder.get_ref();
        let mut file = input.get_ref();
        Ok(file.stream_position()? - input.buffer().len() as u64)
    }
}

impl Read for Gunzip {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.decoder.read(to).map_err(|error| {
            let Ok(at) = self.position() else { return error };
            let unpacked = self.unpacked;
            io::Error::new(
                error.kind(),
                format!(
                    "{error}, at byte {at} of the packed file, of which {unpacked} bytes could be unpacked"
                ),
            )
        })?;
        self.unpacked += count as u64;
        Ok(count)
    }
}

/// What a program prints. That it failed is an error at its end, so nothing cut short is taken for the whole.
struct Unpacked {
    child: Child,
    program: &'static str,
}

impl Unpacked {
    fn start(mut command: Command, program: &'static str, package: &str) -> Result<Self> {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => anyhow::anyhow!(
                "`{program}` is needed to read this file, and is not installed; on Debian, `apt install {package}`"
            ),
            _ => anyhow::anyhow!("cannot start `{program}`: {error}"),
        })?;
        Ok(Self { child, program })
    }
}

impl Read for Unpacked {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let Some(out) = &mut self.child.stdout else { return Ok(0) };
        let count = out.read(to)?;
        if count > 0 || to.is_empty() {
            return Ok(count);
        }
        self.child.stdout = None;
        let mut said = String::new();
        if let Some(errors) = self.child.stderr.take() {
            errors.take(4096).read_to_string(&mut said)?;
        }
        let status = self.child.wait()?;
        if status.success() {
            return Ok(0);
        }
        let said = domain::inert::prose(said.trim());
        Err(io::Error::other(format!("`{}` could not read it ({status}): {said}", self.program)))
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        // Whoever reads only the head of a file leaves the program behind; it ends here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
