//! Claims: which disks Flyball may overwrite.
//!
//! A disk is claimed by a person, while nothing that is to be kept is on it and nobody uses it. The claim
//! says which disk it is, and what was on it that may be lost; beside it lies a copy of the first 8 MiB and
//! the last MiB. Everything that overwrites a disk goes through [`open_claimed`], which looks at the disk
//! again, through a descriptor that it holds exclusively: a claim is leave to overwrite what was seen, and
//! not what has come since.
//!
//! Not a goal: files and loop devices of Flyball's own, which need no claim; partitions, for the tables,
//! superblocks and locks that have to be looked at are the whole disk's.

mod erase;
mod error;
mod examine;
mod gate;
mod identity;
mod in_use;
mod integrity;
mod node;
mod openers;
mod own;
mod reason;
mod samples;
mod seen;
pub mod shown;
mod signatures;
mod store;
mod udev;

pub use error::{ClaimError, Doing};
pub use examine::{Examined, examine};
pub use gate::{Claimed, open_claimed};
pub use identity::DiskIdentity;
pub use in_use::named_uses;
pub use integrity::mark as mark_integrity;
pub use own::Secret;
pub use reason::{Part, Reason, Use};
pub use samples::Samples;
pub use seen::{Moment, Seen};
pub use signatures::{HEAD, Signature, TAIL, UNKNOWN_DATA};
pub use store::{Claim, Overwriting, SCHEMA};
pub use udev::{Guard, UdevMatch};

pub(crate) use erase::{Binding, Erased, Left, erase};
pub(crate) use own::random;

use examine::What;
use gate::{Taken, claim_of};
use node::Node;
use rustix::fs::OFlags;
use signatures::ends;
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use store::{PROGRAM, Store, Turn, read_ends};
use udev::Rules;

/// The claims in a state folder.
#[derive(Clone, Debug)]
pub struct Claims {
    store: Store,
    rules: Rules,
}

/// What giving a disk back came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenBack {
    /// The claim that is no more.
    pub claim: Claim,
    /// Whether head or tail differed from what was there when it was claimed, and were written.
    pub written: bool,
}

impl Claims {
    /// The claims in this state folder.
    pub fn at(state: &Path) -> Self {
        Self { store: Store::at(state), rules: Rules::of_system() }
    }

    /// The same with udev's rules elsewhere: `running` is the folder that exists where udev runs.
    #[must_use]
    pub fn with_rules_in(self, folder: &Path, running: &Path) -> Self {
        Self { rules: Rules::below(folder, running), ..self }
    }

    /// All claims, by their ids. None of their disks is looked at.
    ///
    /// # Errors
    /// [`ClaimError::Damaged`]; [`ClaimError::State`].
    pub fn list(&self) -> Result<Vec<Claim>, ClaimError> {
        self.store.load()
    }

    /// Claims a disk: that nobody uses, and on which there is nothing but what `overwrites` names. Nothing is
    /// written to it. Claiming a claimed disk again is fine as long as it is as it was seen. What was found
    /// is returned too.
    ///
    /// # Errors
    /// [`ClaimError::Refused`] with everything that stands against it; [`ClaimError::AlreadyClaimed`] where a
    /// claim says something else; and those of [`examine`].
    pub fn claim(&self, path: &Path, overwrites: &BTreeSet<String>) -> Result<(Claim, Examined), ClaimError> {
        let (taken, known) = self.claimable(path, overwrites)?;
        if let Some(claim) = known {
            // Should the last one have died before it could write the rule.
            self.write_rules(&self.store.turn()?)?;
            return Ok((claim, taken.examined));
        }
        // Before the turn, for it takes its time; the disk is locked meanwhile.
        let seen = Seen::of(&taken, Moment::Claimed)?;
        let turn = self.store.turn()?;
        let claim = self.claim_in_turn(&taken, overwrites.clone(), seen, &turn)?;
        if let Err(error) = self.write_rules(&turn) {
            // A disk that others might assemble or mount is not ours.
            self.store.remove(&claim.id, &turn)?;
            return Err(error);
        }
        Ok((claim, taken.examined))
    }

    fn claim_in_turn(
        &self,
        taken: &Taken,
        overwrites: BTreeSet<String>,
        seen: Seen,
        turn: &Turn,
    ) -> Result<Claim, ClaimError> {
        let Examined { name, identity, signatures, blank, .. } = taken.examined.clone();
        let id = store::id_of(&identity);
        let backup_sha256 = match blank {
            true => None,
            false => Some(self.store.back_up(&id, taken.device(), identity.size.get(), turn)?),
        };
        let claim = Claim {
            schema: SCHEMA,
            written_by: PROGRAM.to_owned(),
            id,
            path: taken.node.path.clone(),
            name,
            identity,
            overwrites,
            found: signatures,
            blank,
            backup_sha256,
            udev: udev::known_by(&taken.node),
            seen: Some(seen),
            overwriting: None,
        };
        self.store.write(&claim, turn)?;
        Ok(claim)
    }

    /// What [`Claims::claim`] would look at. Nothing is written, and nobody has to wait.
    ///
    /// # Errors
    /// As [`Claims::claim`], as far as they can be known without writing.
    pub fn would_claim(&self, path: &Path, overwrites: &BTreeSet<String>) -> Result<Examined, ClaimError> {
        Ok(self.claimable(path, overwrites)?.0.examined)
    }

    /// Writes back what was there when the disk was claimed, and removes the claim. What lies between head
    /// and tail stays as it is, overwritten or not. `overwrites` names what has come to it since and may be
    /// lost.
    ///
    /// # Errors
    /// [`ClaimError::NotClaimed`], [`ClaimError::AnotherDevice`], [`ClaimError::Refused`],
    /// [`ClaimError::Damaged`] where the backup is; and those of [`examine`].
    pub fn give_back(&self, path: &Path, overwrites: &BTreeSet<String>) -> Result<GivenBack, ClaimError> {
        let (taken, claim) = self.returnable(path, overwrites)?;
        let turn = self.store.turn()?;
        let bytes = self.store.backup(&claim)?;
        let (device, size) = (taken.device(), taken.node.size.get());
        let failed = |source| node::device_error("write the backup to", &taken.node.path, source);
        let written = read_ends(device, size).map_err(failed)? != bytes;
        if written {
            let mut from = 0;
            for (start, length) in ends(size) {
                let to = from + usize::try_from(length).expect("nine MiB at the most");
                device.write_all_at(&bytes[from..to], start).map_err(failed)?;
                from = to;
            }
            device.sync_all().map_err(failed)?;
        }
        self.drop_claim(&claim, &turn)?;
        Ok(GivenBack { claim, written })
    }

    /// What [`Claims::give_back`] would look at, and the claim. Nothing is written, and nobody has to wait.
    ///
    /// # Errors
    /// As [`Claims::give_back`], as far as they can be known without writing.
    pub fn would_give_back(
        &self,
        path: &Path,
        overwrites: &BTreeSet<String>,
    ) -> Result<(Examined, Claim), ClaimError> {
        let (taken, claim) = self.returnable(path, overwrites)?;
        Ok((taken.examined, claim))
    }

    /// Removes a claim with its backup, and leaves the disk as it is, be it there or not. It is named by the
    /// path of the claim, by its id, or by any path of its disk.
    ///
    /// # Errors
    /// [`ClaimError::NotClaimed`]; [`ClaimError::State`].
    pub fn forget(&self, path: &Path) -> Result<Claim, ClaimError> {
        let turn = self.store.turn()?;
        let claim = self.named(path)?;
        self.drop_claim(&claim, &turn)?;
        Ok(claim)
    }

    /// The claim that [`Claims::forget`] would remove.
    ///
    /// # Errors
    /// As [`Claims::forget`].
    pub fn named(&self, path: &Path) -> Result<Claim, ClaimError> {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let claims = self.store.load()?;
        let is_named = |claim: &&Claim| claim.path == absolute || Path::new(&claim.id) == path;
        if let Some(claim) = claims.iter().find(is_named) {
            return Ok(claim.clone());
        }
        let node = Node::open(Doing::Examine, path)
            .map_err(|_| ClaimError::NotClaimed { doing: Doing::GiveBack, path: path.to_owned() })?;
        claim_of(Doing::GiveBack, &self.store, &node)
    }

    /// What keeps the system from assembling or mounting what is on a claimed disk.
    pub fn guard(&self, claim: &Claim) -> Guard {
        self.rules.guard(claim)
    }

    /// The file of a claim, for messages.
    pub fn file(&self, claim: &Claim) -> PathBuf {
        self.store.claim_path(&claim.id)
    }

    /// The rule goes first: a disk that is kept from others without a claim would be missed by them.
    fn drop_claim(&self, claim: &Claim, turn: &Turn) -> Result<(), ClaimError> {
        let mut left = self.store.load()?;
        left.retain(|other| other.id != claim.id);
        self.rules.write(&left, self.store.state(), turn)?;
        self.store.remove(&claim.id, turn)
    }

    fn write_rules(&self, turn: &Turn) -> Result<(), ClaimError> {
        self.rules.write(&self.store.load()?, self.store.state(), turn)
    }

    /// The disk, taken and free of all that is not named; and its claim, where it has one.
    fn claimable(
        &self,
        path: &Path,
        overwrites: &BTreeSet<String>,
    ) -> Result<(Taken, Option<Claim>), ClaimError> {
        let doing = Doing::Claim;
        let node = Node::open(doing, path)?;
        let known = match claim_of(doing, &self.store, &node) {
            Ok(claim) => Some(claim),
            Err(ClaimError::NotClaimed { .. }) => None,
            Err(error) => return Err(error),
        };
        let mut taken = Taken::take(node, OFlags::RDONLY)?;
        let Some(claim) = known else {
            taken.examined.sample(&taken.node)?;
            let may = |what: What<'_>| match what {
                What::Signature(signature) => signature.is_named_in(overwrites),
                What::Data => overwrites.contains(UNKNOWN_DATA),
            };
            return Ok((taken.refuse_unless(doing, may)?, None));
        };
        let taken = taken.require_unchanged(&claim)?;
        if !overwrites.is_subset(&claim.overwrites) {
            let allowed: Vec<&str> = claim.overwrites.iter().map(String::as_str).collect();
            let reason = match allowed.is_empty() {
                true => "it is claimed, with nothing to be overwritten".to_owned(),
                false => format!("it is claimed, with `{}` to be overwritten", allowed.join(",")),
            };
            return Err(ClaimError::AlreadyClaimed { path: taken.node.path, reason });
        }
        Ok((taken, Some(claim)))
    }

    /// The disk, taken and as it was seen, or free of all that is neither ours nor named.
    fn returnable(&self, path: &Path, overwrites: &BTreeSet<String>) -> Result<(Taken, Claim), ClaimError> {
        let doing = Doing::GiveBack;
        let node = Node::open(doing, path)?;
        let claim = claim_of(doing, &self.store, &node)?;
        let taken = Taken::take(node, OFlags::RDWR)?
            .require_identity(doing, &claim)?
            .refuse_unless(doing, |_| true)?;
        // Only head and tail are written.
        let is_as_seen = claim.seen.as_ref().map_or(Ok(false), |seen| seen.has_ends_of(&taken))?;
        if is_as_seen || self.is_as_backed_up(&taken, &claim)? {
            return Ok((taken, claim));
        }
        let secret = Secret::load(self.store.state())?;
        let may = |what: What<'_>| match what {
            What::Signature(signature) => {
                secret.as_ref().is_some_and(|secret| secret.made(signature))
                    || signature.is_named_in(overwrites)
            }
            What::Data => overwrites.contains(UNKNOWN_DATA),
        };
        Ok((taken.refuse_unless(doing, may)?, claim))
    }

    fn is_as_backed_up(&self, taken: &Taken, claim: &Claim) -> Result<bool, ClaimError> {
        let failed = |source| node::device_error("read", &taken.node.path, source);
        let bytes = read_ends(taken.device(), taken.node.size.get()).map_err(failed)?;
        let backup = claim.backup_sha256.as_ref();
        Ok(if taken.examined.blank { backup.is_none() } else { backup == Some(&store::sha256(&bytes)) })
    }
}
