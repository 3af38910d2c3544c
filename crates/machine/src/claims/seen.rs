//! What was seen on a disk when it was claimed, or when Flyball last left it: what the gate holds the disk
//! against.
//!
//! A claim is leave to overwrite that and nothing else. It is looked for the cheapest kind of difference
//! first, and no further once one is found: signatures, then head and tail, then samples of what lies
//! between.

use super::error::ClaimError;
use super::gate::Taken;
use super::node::device_error;
use super::reason::{Part, Reason};
use super::samples::Samples;
use super::signatures::{Signature, ends};
use super::store::{read_part, sha256};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What was seen on a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// When.
    pub moment: Moment,
    /// Every signature.
    pub signatures: Vec<Signature>,
    /// SHA-256 of the first 8 MiB; `None` where they were zero.
    pub head_sha256: Option<String>,
    /// SHA-256 of the last MiB; `None` where it was zero.
    pub tail_sha256: Option<String>,
    /// What lies between.
    pub samples: Samples,
}

/// When a disk was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// When it was claimed.
    Claimed,
    /// When Flyball had erased what it had left there.
    Left,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Moment::Claimed => "since it was claimed",
            Moment::Left => "since Flyball last left it",
        })
    }
}

impl Seen {
    /// Looks at all of it, with samples at new places, or those that were read already.
    pub(super) fn of(taken: &Taken, moment: Moment) -> Result<Self, ClaimError> {
        let (head_sha256, tail_sha256) = digests(taken)?;
        let samples = match &taken.examined.samples {
            Some(samples) => samples.clone(),
            None => Samples::draw(&taken.node)?,
        };
        let signatures = taken.examined.signatures.clone();
        Ok(Self { moment, signatures, head_sha256, tail_sha256, samples })
    }

    /// What has become of the disk since; nothing where it is as it was seen. Of a disk in use, signatures
    /// are looked at alone.
    pub(super) fn changes(&self, taken: &mut Taken) -> Result<Vec<Reason>, ClaimError> {
        let mut changes = self.changes_of_signatures(&taken.examined.signatures);
        let held_data =
            self.signatures.is_empty() && (self.head_sha256.is_some() || self.tail_sha256.is_some());
        if taken.examined.holds_unknown_data() && !held_data {
            changes.push(Reason::Data);
        }
        if changes.is_empty() && taken.examined.uses.is_empty() {
            changes = self.changes_of_ends(taken)?;
            if changes.is_empty() {
                changes.extend(self.change_of_samples(taken)?);
            }
        }
        Ok(changes)
    }

    /// Whether signatures, head and tail are as they were seen.
    pub(super) fn has_ends_of(&self, taken: &Taken) -> Result<bool, ClaimError> {
        let are_same = self.changes_of_signatures(&taken.examined.signatures).is_empty();
        Ok(are_same && self.changes_of_ends(taken)?.is_empty())
    }

    fn changes_of_signatures(&self, now: &[Signature]) -> Vec<Reason> {
        let since = self.moment;
        let same_place =
            |one: &Signature, other: &Signature| one.kind == other.kind && one.offset == other.offset;
        let come = now.iter().filter(|is| !self.signatures.contains(is)).map(|is| {
            match self.signatures.iter().find(|was| same_place(was, is) && !now.contains(was)) {
                Some(was) => Reason::Another { was: was.clone(), is: is.clone(), since },
                None => Reason::Came { signature: is.clone(), since },
            }
        });
        let is_gone = |was: &&Signature| !now.contains(was) && !now.iter().any(|is| same_place(was, is));
        let gone = self.signatures.iter().filter(is_gone);
        come.chain(gone.map(|was| Reason::Gone { signature: was.clone(), since })).collect()
    }

    fn changes_of_ends(&self, taken: &Taken) -> Result<Vec<Reason>, ClaimError> {
        let (head, tail) = digests(taken)?;
        let both = [(Part::Head, &self.head_sha256, head), (Part::Tail, &self.tail_sha256, tail)];
        let changed = both.into_iter().filter(|(_, was, is)| *was != is);
        Ok(changed.map(|(part, ..)| Reason::Changed { part, since: self.moment }).collect())
    }

    fn change_of_samples(&self, taken: &mut Taken) -> Result<Option<Reason>, ClaimError> {
        let now = self.samples.again(&taken.node)?;
        let (differ, of) = (self.samples.differing_from(&now), now.count);
        taken.examined.samples = Some(now);
        Ok((differ > 0).then_some(Reason::Samples { differ, of, since: self.moment }))
    }
}

/// SHA-256 of head and tail; `None` where they are zero.
fn digests(taken: &Taken) -> Result<(Option<String>, Option<String>), ClaimError> {
    let [head, tail] = ends(taken.node.size.get()).map(|part| {
        let bytes = read_part(&taken.node.file, part)?;
        Ok(bytes.iter().any(|byte| *byte != 0).then(|| sha256(&bytes)))
    });
    let failed = |source| device_error("read", &taken.node.path, source);
    Ok((head.map_err(failed)?, tail.map_err(failed)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(kind: &str, uuid: &str) -> Signature {
        Signature { kind: kind.into(), offset: 1080, uuid: Some(uuid.into()), label: None }
    }

    #[test]
    fn each_signature_that_came_changed_or_went_is_named() {
        let seen = |signatures| Seen {
            moment: Moment::Claimed,
            signatures,
            head_sha256: None,
            tail_sha256: None,
            samples: serde_json::from_str(
                r#"{"seed":1,"count":0,"blocks":0,"size":4096,"nonzero":0,"sha256":"","marks":""}"#,
            )
            .unwrap(),
        };
        let told = |was: &[Signature], is: &[Signature]| {
            let reasons = seen(was.to_vec()).changes_of_signatures(is);
            reasons.iter().map(ToString::to_string).collect::<Vec<String>>().join("; ")
        };
        let [one, other, xfs] = [signature("ext4", "a"), signature("ext4", "b"), signature("xfs", "c")];
        assert_eq!(told(std::slice::from_ref(&one), std::slice::from_ref(&one)), "");
        assert_eq!(
            told(std::slice::from_ref(&one), std::slice::from_ref(&other)),
            "`ext4` at byte 1080 (UUID a) has become `ext4` at byte 1080 (UUID b) since it was claimed"
        );
        let labelled = Signature { label: Some("home".into()), ..one.clone() };
        assert!(told(std::slice::from_ref(&one), &[labelled]).contains("label \"home\""));
        assert_eq!(
            told(&[], std::slice::from_ref(&xfs)),
            "`xfs` at byte 1080 (UUID c) has come since it was claimed"
        );
        assert_eq!(told(&[xfs], &[]), "`xfs` at byte 1080 (UUID c) has gone since it was claimed");
    }
}
