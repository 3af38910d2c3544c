//! Claims: which disks Flyball may overwrite.
//!
//! A disk is claimed by a person, while nothing that is to be kept is on it and nobody uses it. The claim says which
//! disk it is, and what was on it that may be lost; beside it lies a copy of the first 8 MiB and the last MiB.
//! Everything that overwrites a disk goes through [`open_claimed`], which looks at the disk again, through a
//! descriptor that it holds exclusively: a claim is no leave to overwrite what has come to the disk since.
//!
//! Not a goal: files and loop devices of Flyball's own, which need no claim; partitions, for the tables, superblocks
//! and locks that have to be looked at are the whole disk's.

mod erase;
mod error;
mod examine;
mod gate;
mod identity;
mod in_use;
mod node;
mod openers;
mod own;
mod reason;
mod signatures;
mod store;
mod udev;

pub use error::{ClaimError, Doing};
pub use examine::{Examined, examine};
pub use gate::{Claimed, open_claimed};
pub use identity::DiskIdentity;
pub use own::{is_own_uuid, own_pv_uuid, own_uuid};
pub use reason::{Reason, Use};
pub use signatures::{HEAD, Signature, TAIL, UNKNOWN_DATA};
pub use store::{Claim, SCHEMA};
pub use udev::{Guard, UdevMatch};

pub(crate) use erase::{Erased, erase};

use examine::What;
use gate::{Taken, claim_of};
use node::Node;
use rustix::fs::OFlags;
use signatures::ends;
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use store::{Store, read_ends};
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

    /// Claims a disk: that nobody uses, and on which there is nothing but what `overwrites` names. Nothing is written
    /// to it. Claiming a claimed disk again is fine as long as nothing else has come to it.
    ///
    /// # Errors
    /// [`ClaimError::Refused`] with everything that stands against it; [`ClaimError::AlreadyClaimed`] where a claim
    /// says something else; and those of [`examine`].
    pub fn claim(&self, path: &Path, overwrites: &BTreeSet<String>) -> Result<Claim, ClaimError> {
        let turn = self.store.turn()?;
        let (taken, known) = self.claimable(path, overwrites)?;
        if let Some(claim) = known {
            // Should the last one have died before it could write the rule.
            self.rules.write(&self.store.load()?)?;
            return Ok(claim);
        }
        let Examined { name, identity, signatures, blank, .. } = taken.examined.clone();
        let id = store::id_of(&identity);
        let backup_sha256 = match blank {
            true => None,
            false => Some(self.store.back_up(&id, taken.device(), identity.size.get(), &turn)?),
        };
        let (path, udev) = (taken.node.path.clone(), udev::known_by(&taken.node));
        let overwrites = overwrites.clone();
        let claim = Claim {
            schema: SCHEMA,
            id,
            path,
            name,
            identity,
            overwrites,
            found: signatures,
            blank,
            backup_sha256,
            udev,
        };
        self.store.write(&claim, &turn)?;
        if let Err(error) = self.rules.write(&self.store.load()?) {
            // A disk that others might assemble or mount is not ours.
            self.store.remove(&claim.id, &turn)?;
            return Err(error);
        }
        Ok(claim)
    }

    /// What [`Claims::claim`] would look at. Nothing is written, and nobody has to wait.
    ///
    /// # Errors
    /// As [`Claims::claim`], as far as they can be known without writing.
    pub fn would_claim(&self, path: &Path, overwrites: &BTreeSet<String>) -> Result<Examined, ClaimError> {
        Ok(self.claimable(path, overwrites)?.0.examined)
    }

    /// Writes back what was there when the disk was claimed, and removes the claim. What lies between head and tail
    /// stays as it is, overwritten or not. `overwrites` names what has come to it since and may be lost.
    ///
    /// # Errors
    /// [`ClaimError::NotClaimed`], [`ClaimError::AnotherDevice`], [`ClaimError::Refused`], [`ClaimError::Damaged`]
    /// where the backup is; and those of [`examine`].
    pub fn give_back(&self, path: &Path, overwrites: &BTreeSet<String>) -> Result<GivenBack, ClaimError> {
        let turn = self.store.turn()?;
        let (taken, claim) = self.returnable(path, overwrites)?;
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

    /// Removes a claim with its backup, and leaves the disk as it is, be it there or not. It is named by the path of
    /// the claim, by its id, or by any path of its disk.
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
    fn drop_claim(&self, claim: &Claim, turn: &store::Turn) -> Result<(), ClaimError> {
        let mut left = self.store.load()?;
        left.retain(|other| other.id != claim.id);
        self.rules.write(&left)?;
        self.store.remove(&claim.id, turn)
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
        let taken = Taken::take(node, OFlags::RDONLY)?;
        let Some(claim) = known else {
            let may = |what: What<'_>| match what {
                What::Signature(signature) => signature.is_named_in(overwrites),
                What::Data => overwrites.contains(UNKNOWN_DATA),
            };
            return Ok((taken.refuse_unless(doing, may)?, None));
        };
        let may = |what: What<'_>| match what {
            What::Signature(signature) => signature.is_own() || signature.is_named_in(&claim.overwrites),
            What::Data => claim.overwrites.contains(UNKNOWN_DATA),
        };
        let taken = taken.check(Doing::Overwrite, &claim, may)?;
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

    /// The disk, taken and free of all that is neither ours nor was there when it was claimed, nor is named.
    fn returnable(&self, path: &Path, overwrites: &BTreeSet<String>) -> Result<(Taken, Claim), ClaimError> {
        let doing = Doing::GiveBack;
        let node = Node::open(doing, path)?;
        let claim = claim_of(doing, &self.store, &node)?;
        let may = |what: What<'_>| match what {
            What::Signature(signature) => {
                signature.is_own() || claim.found.contains(signature) || signature.is_named_in(overwrites)
            }
            What::Data => claim.overwrites.contains(UNKNOWN_DATA) || overwrites.contains(UNKNOWN_DATA),
        };
        let taken = Taken::take(node, OFlags::RDWR)?.check(doing, &claim, may)?;
        Ok((taken, claim))
    }
}
