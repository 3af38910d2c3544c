//! Claims on the disk: a file of JSON for each, and beside it the bytes that were there when it was claimed,
//! unless these were zeros.
//!
//! What was seen on the disk is in the claim, and is renewed when Flyball has overwritten the disk and erased
//! what it left. Before it overwrites, it writes down that it will: a claim that still says so, of a disk
//! that is not as it was seen, is that of one who died in between.
//!
//! Each is written aside, flushed and renamed, the bytes first: a claim that can be read has its backup. What
//! a death in between leaves is a backup without a claim, which the next claim of that disk replaces.

use super::error::ClaimError;
use super::identity::DiskIdentity;
use super::seen::Seen;
use super::signatures::{Signature, ends};
use super::udev::UdevMatch;
use files::durable::{Permissions, flush_folder, replace};
use files::own::{self, Access};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The version of a claim's JSON.
pub const SCHEMA: u32 = 2;
/// The oldest one that can be read: it says nothing of what was seen, and so is no leave to overwrite
/// anything.
const OLDEST: u32 = 1;
/// This program, for claims.
pub(crate) const PROGRAM: &str = concat!("flyball ", env!("CARGO_PKG_VERSION"));

/// How long another Flyball may take to write its claim, or udev to look at a disk that it has locked.
const PATIENCE: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(5);

/// A claim is two KiB; one over a disk of many signatures and data, fifty.
const MAX_BYTES: u64 = 1 << 20;

/// What may be overwritten: one disk, and what was on it when it was claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The version of this form.
    pub schema: u32,
    /// The program that wrote it; empty in the first form.
    #[serde(default)]
    pub written_by: String,
    /// Its name: a digest of what identifies the disk.
    pub id: String,
    /// The path under which it was claimed.
    pub path: PathBuf,
    /// The kernel's name then.
    pub name: String,
    /// Which disk it is.
    pub identity: DiskIdentity,
    /// What may be overwritten although it was there: libblkid's words, and `data`.
    pub overwrites: BTreeSet<String>,
    /// Every signature that was there.
    pub found: Vec<Signature>,
    /// Whether head and tail were zero.
    pub blank: bool,
    /// SHA-256 of head and tail, one after the other; `None` where they were zero, and no backup is needed.
    pub backup_sha256: Option<String>,
    /// What udev knows the disk by; `None` where it has nothing that a rule could name.
    pub udev: Option<UdevMatch>,
    /// What may be overwritten: what was seen last. `None` in the first form.
    #[serde(default)]
    pub seen: Option<Seen>,
    /// Who overwrites it; `None` once he has written down what he left.
    #[serde(default)]
    pub overwriting: Option<Overwriting>,
}

/// Who overwrites a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overwriting {
    /// In which start of the machine.
    pub boot: String,
    /// The process: its id and its start, each with a full stop.
    pub by: String,
}

/// The folder of claims.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    state: PathBuf,
    folder: PathBuf,
}

/// One Flyball at a time changes the claims.
#[derive(Debug)]
pub(crate) struct Turn {
    // Dropping it closes the descriptor, and so gives the lock up.
    _lock: File,
}

impl Store {
    pub fn at(state: &Path) -> Self {
        Self { state: state.to_owned(), folder: state.join("claims") }
    }

    /// The state folder.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Waits for its turn to change the claims; makes the folder where it is missing.
    pub fn turn(&self) -> Result<Turn, ClaimError> {
        let folder = &self.folder;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(state_error("make the folder", folder))?;
        let path = folder.join("lock");
        let lock = own::open_or_make(&path, Access::Write, 0o600).map_err(state_error("open", &path))?;
        match lock_patiently(&lock).map_err(state_error("lock", &path))? {
            true => Ok(Turn { _lock: lock }),
            false => Err(state_error("lock", &path)(io::ErrorKind::WouldBlock.into())),
        }
    }

    /// All claims, by their ids.
    pub fn load(&self) -> Result<Vec<Claim>, ClaimError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(state_error("list", &self.folder)(source)),
        };
        let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>();
        let mut paths = paths.map_err(state_error("list", &self.folder))?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        paths.iter().map(|path| read_claim(path)).collect()
    }

    /// A claim; `None` where it was given up.
    pub fn find(&self, id: &str) -> Result<Option<Claim>, ClaimError> {
        match read_claim(&self.claim_path(id)) {
            Ok(claim) => Ok(Some(claim)),
            Err(ClaimError::State { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Changes a claim that is still the one that is known, and returns what it is now.
    pub fn change(&self, known: &Claim, change: impl FnOnce(&mut Claim)) -> Result<Claim, ClaimError> {
        let turn = self.turn()?;
        let path = self.claim_path(&known.id);
        if self.find(&known.id)?.as_ref() != Some(known) {
            let another = io::Error::other("it was given up or made anew meanwhile");
            return Err(state_error("write the claim", &path)(another));
        }
        let mut claim = known.clone();
        change(&mut claim);
        self.write(&claim, &turn)?;
        Ok(claim)
    }

    /// Writes a claim. Its backup is there already.
    pub fn write(&self, claim: &Claim, _turn: &Turn) -> Result<(), ClaimError> {
        let path = self.claim_path(&claim.id);
        let failed = state_error("write the claim", &path);
        let json = serde_json::to_vec_pretty(claim).map_err(|error| failed(error.into()))?;
        replace(&path, &json, Permissions::Private).map_err(|error| failed(error.into()))
    }

    /// Copies head and tail of a disk beside the claim that is to be, and returns their SHA-256.
    pub fn back_up(&self, id: &str, device: &File, size: u64, _turn: &Turn) -> Result<String, ClaimError> {
        let path = self.backup_path(id);
        let failed = state_error("write the backup", &path);
        let bytes = read_ends(device, size).map_err(&failed)?;
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        let packed = packed.write_all(&bytes).and_then(|()| packed.finish()).map_err(&failed)?;
        replace(&path, &packed, Permissions::Private).map_err(|error| failed(error.into()))?;
        // What is to be trusted later is read back now.
        let back = unpack(&path, bytes.len()).map_err(&failed)?;
        if back != bytes {
            return Err(failed(io::Error::other("it reads back differently")));
        }
        Ok(sha256(&bytes))
    }

    /// The bytes that were there when it was claimed, head and tail one after the other.
    pub fn backup(&self, claim: &Claim) -> Result<Vec<u8>, ClaimError> {
        let path = self.backup_path(&claim.id);
        let length: u64 = ends(claim.identity.size.get()).iter().map(|(_, length)| length).sum();
        let length = usize::try_from(length).expect("head and tail are nine MiB");
        let Some(digest) = &claim.backup_sha256 else { return Ok(vec![0; length]) };
        let bytes = unpack(&path, length).map_err(state_error("read the backup", &path))?;
        if bytes.len() != length || sha256(&bytes) != *digest {
            let reason = "its bytes are not those that were written".to_owned();
            return Err(ClaimError::Damaged { path, reason });
        }
        Ok(bytes)
    }

    /// Removes a claim, and then its backup.
    pub fn remove(&self, id: &str, _turn: &Turn) -> Result<(), ClaimError> {
        for path in [self.claim_path(id), self.backup_path(id)] {
            match fs::remove_file(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(state_error("remove", &path)(source)),
            }
        }
        flush_folder(&self.folder).map_err(|error| state_error("flush", &self.folder)(error.into()))
    }

    pub fn claim_path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }

    fn backup_path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.backup.gz"))
    }
}

/// The name of a claim: a digest of what identifies the disk, as long as that lasts.
pub(crate) fn id_of(identity: &DiskIdentity) -> String {
    let DiskIdentity { serial, wwn, uuid, model, size, diskseq, boot, backing } = identity;
    let mut text = format!("{serial:?} {wwn:?} {uuid:?} {model:?} {}", size.get());
    if !identity.outlives_a_restart() {
        text.push_str(&format!(" {diskseq:?} {boot} {backing:?}"));
    }
    sha256(text.as_bytes())[..16].to_owned()
}

/// Head and tail of a device, one after the other.
pub(crate) fn read_ends(device: &File, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for part in ends(size) {
        bytes.extend(read_part(device, part)?);
    }
    Ok(bytes)
}

pub(crate) fn read_part(device: &File, (start, length): (u64, u64)) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).expect("eight MiB at the most")];
    device.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Takes a lock that nobody else has; `false` where somebody keeps it.
pub(crate) fn lock_patiently(file: &File) -> io::Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(POLL),
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

pub(crate) fn state_error(what: &'static str, path: &Path) -> impl Fn(io::Error) -> ClaimError {
    let path = path.to_owned();
    move |source| ClaimError::State { what, path: path.clone(), source }
}

fn read_claim(path: &Path) -> Result<Claim, ClaimError> {
    let bytes = own::read(path, MAX_BYTES).map_err(state_error("read the claim", path))?;
    let damaged = |reason: String| ClaimError::Damaged { path: path.to_owned(), reason };
    let value: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    match value["schema"].as_u64() {
        Some(schema) if schema > u64::from(SCHEMA) => {
            let written_by =
                value["written_by"].as_str().unwrap_or("a later Flyball").escape_debug().to_string();
            return Err(ClaimError::Newer { path: path.to_owned(), schema, written_by });
        }
        Some(schema) if schema >= u64::from(OLDEST) => {}
        other => return Err(damaged(format!("its version is {other:?}, and this Flyball knows {SCHEMA}"))),
    }
    let mut claim: Claim = serde_json::from_value(value).map_err(|error| damaged(error.to_string()))?;
    match claim.schema {
        OLDEST => claim.seen = None,
        _ if claim.seen.is_none() => return Err(damaged("it does not say what was seen".to_owned())),
        _ => {}
    }
    claim.seen.iter().try_for_each(|seen| seen.samples.check()).map_err(damaged)?;
    let named = path.file_stem().is_some_and(|stem| *stem == *claim.id);
    if named { Ok(claim) } else { Err(damaged("it has the name of another one".to_owned())) }
}

/// One byte more than there should be shows as well.
fn unpack(path: &Path, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    GzDecoder::new(own::open(path, Access::Read)?).take(length as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
