//! Claimed disks: written down before they are overwritten, and found again by what identifies them, in this boot or a
//! later one. Undoing erases our own superblocks, so that nobody assembles or mounts them; what a claim has backed up
//! goes back only when a person gives the disk back.

use super::Ledger;
use super::record::{Act, DiskRecord, Pending};
use super::report::Fate;
use crate::claims::{self, Claimed, Erased};
use crate::settings::Error;
use std::io;

impl Ledger<'_> {
    /// Announces that a claimed disk will be overwritten. Call it before the first destructive act on that disk, and
    /// drop what it gives back before the ledger is finished.
    ///
    /// # Errors
    /// [`Error::Claim`] where the disk cannot be read; [`Error::State`]. Nothing is to be written then.
    pub fn overwrite(&mut self, claimed: Claimed) -> Result<Claimed, Error> {
        let record = DiskRecord {
            id: self.next_id(),
            boot: self.boot.clone(),
            path: claimed.path().display().to_string(),
            claim: claimed.claim().id.clone(),
            disk: claimed.identity().clone(),
            before: claimed.examined().signatures.clone(),
            digest: claimed.digest()?,
        };
        self.announce(Pending::new(Act::Disk(record)))?;
        Ok(claimed)
    }
}

/// The disk, for people.
pub(super) fn in_words(record: &DiskRecord) -> String {
    format!("what Flyball wrote to `{}` ({})", record.path, record.disk.in_words())
}

/// Erases what we left on the disk. `boot` is `None` where it is not known which boot this is.
pub(super) fn erase(record: &DiskRecord, boot: Option<&str>) -> Fate {
    if is_void(record, boot) {
        return Fate::Rebooted;
    }
    erase_by_steps(record, &mut || Ok(()))
}

/// `step` is called before each write to the disk.
fn erase_by_steps(record: &DiskRecord, step: &mut dyn FnMut() -> io::Result<()>) -> Fate {
    match claims::erase(&record.disk, &record.before, record.digest.as_deref(), step) {
        Ok(Erased::Zeroed) => Fate::Removed,
        Ok(Erased::Untouched) => Fate::Untouched,
        Ok(Erased::Gone(reason)) => Fate::Gone(reason),
        Ok(Erased::Foreign(now)) => Fate::Foreign { now, before: held_before(record) },
        Err(error) => Fate::Failed(error.to_string()),
    }
}

/// What undoing would do, for people. The disk is not looked at: that takes opening it, and a run may be on.
pub(super) fn foresee(record: &DiskRecord, boot: &str) -> Fate {
    if is_void(record, Some(boot)) { Fate::Rebooted } else { Fate::Removed }
}

/// A disk without a name that lasts is not to be found again after a restart.
fn is_void(record: &DiskRecord, boot: Option<&str>) -> bool {
    !record.disk.outlives_a_restart() && boot.is_some_and(|boot| boot != record.boot)
}

fn held_before(record: &DiskRecord) -> String {
    let words: Vec<String> = record.before.iter().map(ToString::to_string).collect();
    if words.is_empty() { "without signatures".to_owned() } else { words.join(", ") }
}

#[cfg(test)]
#[allow(clippy::print_stderr, reason = "a test says why it skips")]
mod tests {
    use super::*;
    use crate::claims::{HEAD, TAIL, examine, own_uuid};
    use std::fs::{self, File};
    use std::path::{Path, PathBuf};
    use std::process::Command;

    struct Loop(PathBuf);

    impl Drop for Loop {
        fn drop(&mut self) {
            let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
        }
    }

    fn run(program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn erasing_may_be_cut_short_at_any_write_and_begun_again() {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
            eprintln!("skipped: erasing a real device needs root and loop devices");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk");
        File::create(&file).unwrap().set_len(200 << 20).unwrap();
        let device = Loop(run("losetup", &["--find", "--show", file.to_str().unwrap()]).into());
        let path = device.0.to_str().unwrap();
        let blank = examine(&device.0).unwrap();
        let record = DiskRecord {
            id: 1,
            boot: blank.identity.boot.clone(),
            path: path.to_owned(),
            claim: "c".to_owned(),
            disk: blank.identity,
            before: Vec::new(),
            digest: None,
        };
        // With a second superblock at 64 MiB.
        let make = || run("mkfs.btrfs", &["-q", "-f", "-U", &own_uuid([5; 16]), path]);
        let second = || fs::read(&device.0).unwrap()[(64 << 20) + 0x40..][..8].to_owned();
        make();
        assert_eq!(second(), b"_BHRfS_M");
        let mut writes = 0;
        let all = erase_by_steps(&record, &mut || {
            writes += 1;
            Ok(())
        });
        assert_eq!((all, writes), (Fate::Removed, 1 + (HEAD + TAIL) / (1 << 20)));
        for cut in 1..=writes {
            make();
            let mut left = cut;
            let died = erase_by_steps(&record, &mut || {
                left -= 1;
                if left == 0 { Err(io::Error::other("killed")) } else { Ok(()) }
            });
            assert!(matches!(&died, Fate::Failed(why) if why.contains("killed")), "{cut}: {died:?}");
            assert_eq!(erase_by_steps(&record, &mut || Ok(())), Fate::Removed, "{cut}");
            assert!(examine(&device.0).unwrap().blank && second() == [0; 8], "{cut}");
            assert_eq!(erase_by_steps(&record, &mut || Ok(())), Fate::Untouched, "{cut}");
        }
    }

    #[test]
    fn a_disk_without_a_lasting_name_is_void_after_a_restart() {
        let nameless = crate::claims::DiskIdentity {
            serial: None,
            wwn: None,
            uuid: None,
            model: None,
            size: domain::units::Bytes::from_mib(1),
            diskseq: Some(1),
            boot: "b1".into(),
            backing: None,
        };
        let record = |disk| DiskRecord {
            id: 1,
            boot: "b1".into(),
            path: "/dev/x".into(),
            claim: "c".into(),
            disk,
            before: Vec::new(),
            digest: None,
        };
        assert!(is_void(&record(nameless.clone()), Some("b2")));
        assert!(!is_void(&record(nameless.clone()), Some("b1")) && !is_void(&record(nameless.clone()), None));
        let named = crate::claims::DiskIdentity { serial: Some("s".into()), ..nameless };
        assert!(!is_void(&record(named), Some("b2")));
    }
}
