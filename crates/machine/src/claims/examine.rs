//! All that can be told of a disk without touching it.

use super::error::{ClaimError, Doing};
use super::identity::DiskIdentity;
use super::in_use::{self, Held};
use super::node::{self, Node};
use super::reason::{Reason, Use};
use super::samples::Samples;
use super::signatures::{self, Signature, UNKNOWN_DATA};
use rustix::fs::Advice;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What a disk is, what is on it, and who uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Examined {
    /// As it was typed, made absolute.
    pub path: PathBuf,
    /// The kernel's name.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    /// Which disk it is.
    pub identity: DiskIdentity,
    /// Whether it can be read only.
    pub read_only: bool,
    /// Every signature on it.
    pub signatures: Vec<Signature>,
    /// Whether its first 8 MiB and its last MiB are zero.
    pub blank: bool,
    /// What lies between, where that was looked at: signatures tell enough where there are some.
    pub samples: Option<Samples>,
    /// Its partitions, by the kernel's names.
    pub partitions: Vec<String>,
    /// Who uses it.
    pub uses: Vec<Use>,
}

impl Examined {
    /// What stands against overwriting it, where what `allows` says may be overwritten.
    pub(crate) fn reasons(&self, allows: impl Fn(What<'_>) -> bool) -> Vec<Reason> {
        let mut reasons: Vec<Reason> = self.uses.iter().cloned().map(Reason::InUse).collect();
        let foreign = self.signatures.iter().filter(|signature| !allows(What::Signature(signature)));
        reasons.extend(foreign.cloned().map(Reason::Holds));
        if self.holds_unknown_data() && !allows(What::Data) {
            reasons.push(Reason::Data);
        }
        reasons
    }

    /// What stands against overwriting it at all.
    pub fn all_reasons(&self) -> Vec<Reason> {
        self.reasons(|_| false)
    }

    /// Whether it is not blank, and no signature says what it is. A signature stands for all that lies on the
    /// disk.
    pub fn holds_unknown_data(&self) -> bool {
        let between = self.samples.as_ref().is_some_and(|samples| samples.nonzero > 0);
        (!self.blank || between) && self.signatures.is_empty()
    }

    /// Reads what lies between head and tail, where no signature tells what it is.
    pub(crate) fn sample(&mut self, node: &Node) -> Result<(), ClaimError> {
        if self.signatures.is_empty() && self.samples.is_none() {
            self.samples = Some(Samples::draw(node)?);
        }
        Ok(())
    }

    /// The words that name what is on it, as `--overwrite` takes them.
    pub fn kinds(&self) -> BTreeSet<String> {
        let mut kinds: BTreeSet<String> = self.signatures.iter().map(|s| s.kind.clone()).collect();
        if self.holds_unknown_data() {
            kinds.insert(UNKNOWN_DATA.to_owned());
        }
        if kinds.contains("gpt") {
            kinds.remove("PMBR");
        }
        kinds
    }
}

/// Something on a disk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What<'a> {
    Signature(&'a Signature),
    Data,
}

/// Looks at a disk: opens it for reading, and reads. A disk that others use is examined all the same.
///
/// # Errors
/// [`ClaimError::NoDisk`], [`ClaimError::Device`], [`ClaimError::Wipefs`].
pub fn examine(path: &Path) -> Result<Examined, ClaimError> {
    let node = Node::open(Doing::Examine, path)?;
    let mut examined = look(&node, Held::NotByUs)?;
    examined.sample(&node)?;
    Ok(examined)
}

/// Without samples.
pub(crate) fn look(node: &Node, held: Held) -> Result<Examined, ClaimError> {
    let uses = in_use::uses(node, held)?;
    let identity = DiskIdentity::read(node)?;
    // What md or a mapping wrote went past this device's own cache, which may hold what was there before.
    rustix::fs::fadvise(&node.file, 0, None, Advice::DontNeed)
        .map_err(|error| node::device_error("drop the cache of", &node.path, error.into()))?;
    let signatures = signatures::signatures(&node.file)
        .map_err(|reason| ClaimError::Wipefs { path: node.path.clone(), reason })?;
    let blank = signatures::is_blank(&node.file, node.size.get())
        .map_err(|source| node::device_error("read", &node.path, source))?;
    Ok(Examined {
        path: node.path.clone(),
        name: node.name.clone(),
        number: node.number,
        identity,
        read_only: uses.contains(&Use::ReadOnly),
        signatures,
        blank,
        samples: None,
        partitions: node.parts()?.into_iter().skip(1).map(|(name, _)| name).collect(),
        uses,
    })
}
