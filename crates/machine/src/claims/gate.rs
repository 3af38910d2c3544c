//! The gate that every destructive act passes.
//!
//! The disk is opened, pinned, locked and taken exclusively first, and only then looked at, all through
//! descriptors: what a path or a link leads to, and what a name means, may change between a plan and its run.
//! Whole-disk locks follow systemd's convention (<https://systemd.io/BLOCK_DEVICE_LOCKING>): udev does not
//! probe a locked disk.

use super::error::{ClaimError, Doing, overwriting};
use super::examine::{Examined, What, look};
use super::identity::{self, DiskIdentity};
use super::in_use::Held;
use super::node::{self, Node};
use super::reason::{Reason, Use};
use super::signatures::{Signature, UNKNOWN_DATA};
use super::store::{Claim, Overwriting, Store, lock_patiently, read_ends, sha256};
use crate::workload::Mark;
use domain::units::Bytes;
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long one may have a disk exclusively who only looks at it.
const PATIENCE: Duration = Duration::from_millis(300);
const POLL: Duration = Duration::from_millis(5);

/// A claimed disk, checked and held: nobody else has it open exclusively, and nobody else has locked it.
///
/// Drop it before the ledger is finished: undoing takes the disk exclusively again.
#[derive(Debug)]
pub struct Claimed {
    node: Node,
    exclusive: Option<File>,
    store: Store,
    claim: Claim,
    examined: Examined,
    _lock: File,
}

impl Claimed {
    /// The kernel's name: `sda`.
    pub fn name(&self) -> &str {
        &self.node.name
    }

    /// How long it is.
    pub fn size(&self) -> Bytes {
        self.node.size
    }

    /// The path that was given, made absolute. For messages: give tools [`Claimed::pinned`].
    pub fn path(&self) -> &Path {
        &self.node.path
    }

    /// Its claim.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Which disk it is, as it was read when it was opened.
    pub fn identity(&self) -> &DiskIdentity {
        &self.examined.identity
    }

    /// The path for tools: this process's own descriptor, so that a link put elsewhere or a node renamed
    /// since does not matter. It is good as long as this lives.
    pub fn pinned(&self) -> PathBuf {
        node::descriptor_path(&self.node.file)
    }

    /// The disk open for reading and writing; `None` while it is released.
    pub fn device(&self) -> Option<&File> {
        self.exclusive.as_ref()
    }

    /// Lets a tool take it exclusively (mdadm, cryptsetup and mount do). The lock stays, and a plain
    /// descriptor, so that its number cannot pass to another disk.
    pub fn release_exclusive(&mut self) {
        self.exclusive = None;
    }

    /// Takes it exclusively again, when the tool is done with it.
    ///
    /// # Errors
    /// [`ClaimError::Refused`] where something still has it; [`ClaimError::AnotherDevice`];
    /// [`ClaimError::Device`].
    pub fn retake_exclusive(&mut self) -> Result<(), ClaimError> {
        if self.exclusive.is_some() {
            return Ok(());
        }
        let exclusive = match open_exclusively(&self.node, OFlags::RDWR) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                let examined = look(&self.node, Held::NotByUs)?;
                let uses = examined.uses.iter().cloned().map(Reason::InUse).collect();
                return refuse(Doing::Overwrite, &examined, uses);
            }
            Err(source) => return Err(node::device_error("open", &self.node.path, source)),
        };
        let now = DiskIdentity::read(&self.node)?;
        if let Some(differences) = now.difference_from(&self.claim.identity) {
            return Err(another(Doing::Overwrite, &self.node.path, differences));
        }
        self.exclusive = Some(exclusive);
        Ok(())
    }

    /// What was found when it was opened.
    pub fn examined(&self) -> &Examined {
        &self.examined
    }

    /// Writes into the claim that it is being overwritten. Until what is left is written down too, the disk
    /// can be overwritten again only where it is as it was seen.
    ///
    /// # Errors
    /// [`ClaimError::State`] where the claim cannot be written, or is another one meanwhile.
    pub(crate) fn begin(&mut self, boot: &str) -> Result<(), ClaimError> {
        let overwriting =
            Overwriting { boot: boot.to_owned(), by: Mark::of_this_process().as_str().to_owned() };
        self.claim = self.store.change(&self.claim, |claim| claim.overwriting = Some(overwriting))?;
        Ok(())
    }

    /// The digest of head and tail, by which it can be told later whether anything has become of them; `None`
    /// where they are zero.
    ///
    /// # Errors
    /// [`ClaimError::Device`].
    pub(crate) fn digest(&self) -> Result<Option<String>, ClaimError> {
        if self.examined.blank {
            return Ok(None);
        }
        let ends = read_ends(&self.node.file, self.node.size.get())
            .map_err(|source| node::device_error("read", &self.node.path, source))?;
        Ok(Some(sha256(&ends)))
    }
}

/// Opens a claimed disk for overwriting. Whatever it says no for, nothing was written.
///
/// # Errors
/// [`ClaimError::NotClaimed`], [`ClaimError::AnotherDevice`], [`ClaimError::Outdated`],
/// [`ClaimError::Refused`] with what stands against it: all uses, and what on it is not as it was seen when
/// it was claimed, or when Flyball last left it; and those of [`super::examine`].
pub fn open_claimed(state: &Path, path: &Path) -> Result<Claimed, ClaimError> {
    let doing = Doing::Overwrite;
    let node = Node::open(doing, path)?;
    let store = Store::at(state);
    let claim = claim_of(doing, &store, &node)?;
    Taken::take(node, OFlags::RDWR)?.require_unchanged(&claim)?.hold(store, claim)
}

/// A disk that was tried to be taken.
#[derive(Debug)]
pub(crate) struct Taken {
    pub node: Node,
    pub examined: Examined,
    lock: Option<File>,
    exclusive: Option<File>,
}

impl Taken {
    /// Locks it, opens it exclusively, and looks at it, in this order. Where somebody else has it, it is
    /// looked at all the same, so that everything that stands against it can be told.
    pub fn take(node: Node, access: OFlags) -> Result<Self, ClaimError> {
        let lock = lock(&node)?;
        let exclusive = match open_exclusively(&node, access) {
            Ok(file) => Some(file),
            Err(error) if is_no(&error) => None,
            Err(source) => return Err(node::device_error("open", &node.path, source)),
        };
        let held = if exclusive.is_some() { Held::ByUs } else { Held::NotByUs };
        let mut examined = look(&node, held)?;
        if lock.is_none() {
            examined.uses.push(Use::Locked);
        }
        if exclusive.is_none() && examined.uses.is_empty() {
            // Who had it a moment ago has let go of it; that is not the time to write to it.
            examined.uses.push(Use::Exclusive);
        }
        Ok(Self { node, examined, lock, exclusive })
    }

    /// # Errors
    /// [`ClaimError::AnotherDevice`].
    pub fn require_identity(self, doing: Doing, claim: &Claim) -> Result<Self, ClaimError> {
        match self.examined.identity.difference_from(&claim.identity) {
            Some(differences) => Err(another(doing, &self.node.path, differences)),
            None => Ok(self),
        }
    }

    /// # Errors
    /// [`ClaimError::AnotherDevice`]; [`ClaimError::Outdated`]; [`ClaimError::Refused`] where it is in use,
    /// or not as it was seen.
    pub fn require_unchanged(self, claim: &Claim) -> Result<Self, ClaimError> {
        let doing = Doing::Overwrite;
        let mut taken = self.require_identity(doing, claim)?;
        let Some(seen) = &claim.seen else {
            let taken = taken.refuse_unless(doing, |_| true)?;
            return Err(ClaimError::Outdated { doing, path: taken.node.path, kinds: taken.examined.kinds() });
        };
        let changes = seen.changes(&mut taken)?;
        let mut reasons = taken.examined.reasons(|_| true);
        if reasons.is_empty() && !changes.is_empty() {
            reasons.extend(claim.overwriting.is_some().then_some(Reason::Unfinished));
            // What a new claim has to name.
            taken.examined.sample(&taken.node)?;
        }
        reasons.extend(changes);
        if reasons.is_empty() { Ok(taken) } else { refuse(doing, &taken.examined, reasons) }
    }

    /// # Errors
    /// [`ClaimError::Refused`].
    pub fn refuse_unless(self, doing: Doing, may: impl Fn(What<'_>) -> bool) -> Result<Self, ClaimError> {
        let reasons = self.examined.reasons(may);
        if reasons.is_empty() { Ok(self) } else { refuse(doing, &self.examined, reasons) }
    }

    /// The disk, open as it was asked for.
    pub fn device(&self) -> &File {
        self.exclusive.as_ref().expect("what is not taken has a reason, and is refused")
    }

    fn hold(self, store: Store, claim: Claim) -> Result<Claimed, ClaimError> {
        let Self { node, examined, lock, exclusive } = self;
        match (lock, exclusive) {
            (Some(lock), Some(exclusive)) => {
                Ok(Claimed { node, exclusive: Some(exclusive), store, claim, examined, _lock: lock })
            }
            _ => refuse(Doing::Overwrite, &examined, vec![Reason::InUse(Use::Exclusive)]),
        }
    }
}

/// The claim of this very disk.
///
/// # Errors
/// [`ClaimError::AnotherDevice`] where the path, or the name, was another one's when it was claimed, and
/// where after a restart two disks answer to the claim; [`ClaimError::NotClaimed`].
pub(crate) fn claim_of(doing: Doing, store: &Store, node: &Node) -> Result<Claim, ClaimError> {
    let identity = DiskIdentity::read(node)?;
    let claims = store.load()?;
    let by_path = claims.iter().find(|claim| claim.path == node.path);
    let by_identity = || claims.iter().find(|claim| identity.difference_from(&claim.identity).is_none());
    let by_name = || claims.iter().find(|claim| claim.name == node.name);
    let Some(claim) = by_path.or_else(by_identity).or_else(by_name) else {
        return Err(ClaimError::NotClaimed { doing, path: node.path.clone() });
    };
    if let Some(differences) = identity.difference_from(&claim.identity) {
        return Err(another(doing, &node.path, differences));
    }
    if claim.identity.boot != identity.boot {
        let found = identity::find(&claim.identity)?;
        if found.len() > 1 {
            let names: Vec<&str> = found.iter().map(|node| node.name.as_str()).collect();
            let differences = format!("{} all answer to the claim", names.join(" and "));
            return Err(another(doing, &node.path, differences));
        }
    }
    Ok(claim.clone())
}

/// Everything that stands against it, and what to do next.
pub(crate) fn refuse<T>(doing: Doing, examined: &Examined, reasons: Vec<Reason>) -> Result<T, ClaimError> {
    let hint = hint(doing, examined, &reasons);
    Err(ClaimError::Refused { doing, path: examined.path.clone(), reasons, hint })
}

fn hint(doing: Doing, examined: &Examined, reasons: &[Reason]) -> String {
    let path = examined.path.display();
    if reasons.iter().any(|reason| matches!(reason, Reason::InUse(_))) {
        return "end what uses it, or name another disk".to_owned();
    }
    let words = named(reasons);
    match doing {
        Doing::Claim => {
            format!("name another disk; or if that may be lost: `flyball claim {path} --overwrite {words}`")
        }
        Doing::GiveBack => {
            format!("if that may be lost: `flyball claim {path} --give-back --overwrite {words}`")
        }
        Doing::Examine | Doing::Overwrite | Doing::Erase => {
            let first =
                if reasons.contains(&Reason::Unfinished) { "run `flyball restore`; then, " } else { "" };
            format!(
                "a claim is no leave to overwrite what was not there; {first}if it may be lost: \
                 `flyball claim {path} --forget`, then `flyball claim {path}{}`",
                overwriting(&examined.kinds())
            )
        }
    }
}

/// The words for `--overwrite`.
fn named(reasons: &[Reason]) -> String {
    let holds: Vec<&Signature> =
        reasons.iter().filter_map(|r| if let Reason::Holds(s) = r { Some(s) } else { None }).collect();
    let gpt = holds.iter().any(|s| s.kind == "gpt");
    let mut words: Vec<&str> =
        holds.iter().map(|s| s.kind.as_str()).filter(|kind| !(gpt && *kind == "PMBR")).collect();
    if reasons.contains(&Reason::Data) {
        words.push(UNKNOWN_DATA);
    }
    words.sort_unstable();
    words.dedup();
    words.join(",")
}

pub(crate) fn another(doing: Doing, path: &Path, differences: String) -> ClaimError {
    let hint = format!(
        "name the disk that is meant; or give up the claim, look at the disk and claim it again: \
         `flyball claim {} --forget`",
        path.display()
    );
    ClaimError::AnotherDevice { doing, path: path.to_owned(), differences, hint }
}

/// On the node that udev and the others know: a node made elsewhere is another file, with locks of its own.
/// `None` where another program has it locked.
fn lock(node: &Node) -> Result<Option<File>, ClaimError> {
    let path = node::node_path(&node.name);
    let failed = |source| node::device_error("lock", &path, source);
    let file = File::open(&path).map_err(failed)?;
    let number = file.metadata().map_err(failed)?.rdev();
    if (rustix::fs::major(number), rustix::fs::minor(number)) != node.number {
        return Err(failed(io::Error::other("it is the node of another device")));
    }
    Ok(lock_patiently(&file).map_err(failed)?.then_some(file))
}

/// Waits a moment for one who has it for a moment: a tool that ends, or a child of ours between its fork and
/// its exec, which has a copy of our own descriptor.
fn open_exclusively(node: &Node, access: OFlags) -> io::Result<File> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match node.reopen(access | OFlags::EXCL) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline => {
                std::thread::sleep(POLL);
            }
            result => return result,
        }
    }
}

/// Somebody has it, or it cannot be written.
fn is_no(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(error.kind(), ResourceBusy | PermissionDenied | ReadOnlyFilesystem)
}
