//! Keeping the system's hands off claimed disks: a udev rule, so that what Flyball puts on them for a trial,
//! or has left after a death, is not assembled, activated or mounted by anybody else.
//!
//! udev(7) reads rules by file name across all folders. Ours comes after those that find out what is on a
//! device (`60-persistent-storage.rules`, and `63-md-raid-arrays.rules` for arrays) and before those that act
//! on that: `64-md-raid-assembly.rules`, `64-btrfs.rules`, `69-lvm.rules`, `69-bcache.rules`,
//! `80-udisks2.rules`, `99-systemd.rules`. All of these go by `ID_FS_TYPE`, which it empties, or by
//! `SYSTEMD_READY`, which it sets to 0. Links in `/dev/disk` are made before, and stay.
//!
//! A disk is known by what sysfs tells of it, not by `ID_SERIAL`: that is put together differently from
//! version to version. A second line goes by the UUIDs of this machine's Flyball, which also finds arrays and
//! mappings above claimed disks; it goes by the part that is the machine's, for udev cannot check the rest.
//!
//! It does not reach the assembly in an initramfs, which has rules of its own, nor one who calls
//! `mdadm --assemble --scan` by hand.

use super::error::ClaimError;
use super::node::{Node, text};
use super::own::Secret;
use super::store::{Claim, Turn, state_error};
use files::durable::{Permissions, flush_folder, replace};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const NAME: &str = "63-zz-flyball-claims.rules";

const BEGIN: &str = "\
# Written by Flyball, and removed with its last claim (`flyball claim` lists them): keeps disks that are claimed for
# measuring from being assembled, activated or mounted by others.
ACTION==\"remove\", GOTO=\"flyball_claims_end\"
SUBSYSTEM!=\"block\", GOTO=\"flyball_claims_end\"
";

const END: &str = "\
GOTO=\"flyball_claims_end\"
LABEL=\"flyball_claims_keep\"
ENV{ID_FS_TYPE}=\"\", ENV{ID_FS_USAGE}=\"\", ENV{SYSTEMD_READY}=\"0\", ENV{UDISKS_IGNORE}=\"1\"
LABEL=\"flyball_claims_end\"
";

/// What a rule knows a disk by: an attribute of it or of a device above it in sysfs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdevMatch {
    /// Its name.
    pub attribute: String,
    /// Its value.
    pub value: String,
}

/// What became of a claim's rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// It is in this file.
    Rule(PathBuf),
    /// The disk has nothing that a rule could name; the file knows Flyball's own superblocks only.
    OwnMarksOnly(PathBuf),
    /// This system has no udev: nobody would assemble or mount by a rule, and none was written.
    NoUdev,
}

/// Where rules are kept.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    folder: PathBuf,
    /// The folder that udev has while it runs.
    running: PathBuf,
}

impl Rules {
    pub fn of_system() -> Self {
        Self { folder: "/etc/udev/rules.d".into(), running: "/run/udev".into() }
    }

    /// The same elsewhere.
    pub fn below(folder: &Path, running: &Path) -> Self {
        Self { folder: folder.to_owned(), running: running.to_owned() }
    }

    /// Makes the file say what the claims of this state folder say. udev sees by itself that it changed.
    pub fn write(&self, claims: &[Claim], state: &Path, turn: &Turn) -> Result<(), ClaimError> {
        let path = self.folder.join(NAME);
        if claims.is_empty() {
            return match fs::remove_file(&path) {
                Ok(()) => flush_folder(&self.folder)
                    .map_err(|error| state_error("flush", &self.folder)(error.into())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(source) => Err(state_error("remove the rule", &path)(source)),
            };
        }
        if !self.running.exists() {
            return Ok(());
        }
        let text = rule(claims, &Secret::made_in_turn(state, turn)?);
        if fs::read(&path).is_ok_and(|now| now == text.as_bytes()) {
            return Ok(());
        }
        fs::create_dir_all(&self.folder).map_err(state_error("make the folder", &self.folder))?;
        replace(&path, text.as_bytes(), Permissions::Plain)
            .map_err(|error| state_error("write the rule", &path)(error.into()))
    }

    pub fn guard(&self, claim: &Claim) -> Guard {
        let path = self.folder.join(NAME);
        match claim.udev {
            _ if !self.running.exists() => Guard::NoUdev,
            Some(_) => Guard::Rule(path),
            None => Guard::OwnMarksOnly(path),
        }
    }
}

/// What a rule can know this disk by: only what is the disk's own. The serial number of an NVMe controller,
/// or of a USB bridge, is that of all disks behind it.
pub(crate) fn known_by(node: &Node) -> Option<UdevMatch> {
    for file in ["wwid", "device/wwid", "serial"] {
        let path = node.sys.join(file);
        if text(&path).is_none() {
            continue;
        }
        // udev takes the space at the end away, and that at the beginning not.
        let value = fs::read_to_string(&path).ok()?.trim_end().to_owned();
        if value.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
            let attribute = file.rsplit('/').next().unwrap_or(file).to_owned();
            return Some(UdevMatch { attribute, value });
        }
    }
    None
}

fn rule(claims: &[Claim], secret: &Secret) -> String {
    let own = format!("ENV{{ID_FS_UUID}}==\"{}\", GOTO=\"flyball_claims_keep\"\n", secret.pattern());
    let matches = claims.iter().filter_map(|claim| claim.udev.as_ref());
    let lines = matches.map(|UdevMatch { attribute, value }| {
        format!("ATTRS{{{attribute}}}==\"{}\", GOTO=\"flyball_claims_keep\"\n", pattern(value))
    });
    [BEGIN.to_owned(), own, lines.collect(), END.to_owned()].concat()
}

/// Values are patterns: what means something in one, or in the quotes around it, is left to match any
/// character.
fn pattern(value: &str) -> String {
    let special = |c: char| "*?[]|\"\\$%".contains(c);
    value.chars().map(|c| if special(c) { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_in_a_rule_matches_any_character() {
        assert_eq!(pattern(r#"t10.ATA  A*B[1]"$x"#), "t10.ATA  A?B?1???x");
    }
}
