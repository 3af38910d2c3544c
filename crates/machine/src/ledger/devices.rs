//! Claimed disks: written down before they are overwritten, and found again by what identifies them, in this
//! boot or a later one. Undoing erases our own superblocks, so that nobody assembles or mounts them; what a
//! claim has backed up goes back only when a person gives the disk back.

use super::Ledger;
use super::record::{Act, DiskRecord, Pending};
use super::report::UndoOutcome;
use crate::claims::{self, Binding, Claimed, Erased, Left};
use crate::settings::Error;
use crate::workload::Mark;
use std::io;
use std::path::{Path, PathBuf};

impl Ledger<'_> {
    /// Announces that a claimed disk will be overwritten. Call it before the first destructive act on that
    /// disk, and drop what it gives back before the ledger is finished.
    ///
    /// # Errors
    /// [`Error::Claim`] where the disk cannot be read; [`Error::State`]. Nothing is to be written then.
    pub fn overwrite(&mut self, mut claimed: Claimed) -> Result<Claimed, Error> {
        claimed.begin(&self.boot)?;
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

/// Who undoes, and where the claims are.
#[derive(Debug)]
pub(super) struct Eraser {
    state: PathBuf,
    witnesses: Vec<Mark>,
}

impl Eraser {
    /// This process; and one that has died just now, where this is its supervisor.
    pub fn new(state: &Path, worker: Option<Mark>) -> Self {
        let witnesses = worker.into_iter().chain([Mark::of_this_process()]).collect();
        Self { state: state.to_owned(), witnesses }
    }

    /// Erases what we left on the disk, and says what is to be said besides. `boot` is `None` where it is not
    /// known which boot this is.
    pub fn erase(&self, record: &DiskRecord, boot: Option<&str>) -> (UndoOutcome, Option<String>) {
        if is_void(record, boot) {
            return (UndoOutcome::Rebooted, None);
        }
        self.erase_by_steps(record, boot, &mut || Ok(()))
    }

    /// `step` is called before each write.
    fn erase_by_steps(
        &self,
        record: &DiskRecord,
        boot: Option<&str>,
        step: &mut dyn FnMut() -> io::Result<()>,
    ) -> (UndoOutcome, Option<String>) {
        let left = Left {
            state: &self.state,
            claim: &record.claim,
            disk: &record.disk,
            before: &record.before,
            digest: record.digest.as_deref(),
            boot,
            witnesses: &self.witnesses,
        };
        let lost = |binding| (binding == Binding::Lost).then(|| lost(record));
        match claims::erase(&left, step) {
            Ok(Erased::Removed(binding)) => (UndoOutcome::Removed, lost(binding)),
            Ok(Erased::Untouched(binding)) => (UndoOutcome::Untouched, lost(binding)),
            Ok(Erased::Gone(reason)) => (UndoOutcome::Gone(reason), None),
            Ok(Erased::Foreign(now)) => (UndoOutcome::Foreign { now, before: held_before(record) }, None),
            Err(error) => (UndoOutcome::Failed(error.to_string()), None),
        }
    }
}

fn lost(record: &DiskRecord) -> String {
    format!(
        "`{0}` is not overwritten any more: Flyball was killed with its supervisor while it did, and nobody can tell what \
         on it is not Flyball's; look at it, and claim it anew: `flyball claim {0} --forget`, then `flyball claim {0}`",
        record.path
    )
}

/// What undoing would do, for people. The disk is not looked at: that takes opening it, and a run may be on.
pub(super) fn foresee(record: &DiskRecord, boot: &str) -> UndoOutcome {
    if is_void(record, Some(boot)) { UndoOutcome::Rebooted } else { UndoOutcome::Removed }
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
    use crate::LocalMachine;
    use crate::claims::{Claims, HEAD, Secret, TAIL, examine, open_claimed};
    use std::collections::BTreeSet;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::process::{Command, Output};
    use std::time::{Duration, Instant};

    struct Loop(PathBuf);

    impl Drop for Loop {
        fn drop(&mut self) {
            let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
        }
    }

    /// Runs a program, and again while the device is busy: a process that another test is just starting holds
    /// every descriptor of this one until it becomes another program.
    fn run(program: &str, arguments: &[&str]) -> String {
        let is_busy = |output: &Output| String::from_utf8_lossy(&output.stderr).contains("resource busy");
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut output = Command::new(program).args(arguments).output().unwrap();
        while is_busy(&output) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
            output = Command::new(program).args(arguments).output().unwrap();
        }
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// A claimed loop device, on which a run makes a btrfs with a second superblock at 64 MiB.
    struct Bench {
        device: Loop,
        state: PathBuf,
        _folder: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Option<Self> {
            if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
                eprintln!("skipped: erasing a real device needs root and loop devices");
                return None;
            }
            let folder = tempfile::tempdir().unwrap();
            let (file, state) = (folder.path().join("disk"), folder.path().join("state"));
            File::create(&file).unwrap().set_len(200 << 20).unwrap();
            let device = Loop(run("losetup", &["--find", "--show", file.to_str().unwrap()]).into());
            Claims::at(&state)
                .with_rules_in(&folder.path().join("rules.d"), &folder.path().join("no-udev"))
                .claim(&device.0, &BTreeSet::new())
                .unwrap();
            Some(Self { device, state, _folder: folder })
        }

        fn overwritten(&self) -> DiskRecord {
            let (mut ledger, _) = Ledger::open(&self.state, &LocalMachine).unwrap();
            drop(ledger.overwrite(open_claimed(&self.state, &self.device.0).unwrap()).unwrap());
            let Some(Pending { act: Act::Disk(record), .. }) = ledger.pending.pop() else {
                panic!("no disk")
            };
            ledger.journal.retire(&[]).unwrap();
            let uuid = Secret::of(&self.state).unwrap().uuid().unwrap();
            run("mkfs.btrfs", &["-q", "-f", "-U", &uuid, self.device.0.to_str().unwrap()]);
            assert_eq!(self.second(), b"_BHRfS_M");
            record
        }

        /// Writes what a run's files are: so many blocks between head and tail that no draw of samples misses
        /// all of them, as it may miss the few that mkfs wrote.
        fn write_files(&self, byte: u64) {
            let blocks = vec![u8::try_from(byte).unwrap(); 32 << 20];
            let device = File::options().write(true).open(&self.device.0).unwrap();
            device.write_all_at(&blocks, 100 << 20).unwrap();
            device.sync_all().unwrap();
        }

        fn second(&self) -> Vec<u8> {
            let mut magic = vec![0; 8];
            File::open(&self.device.0).unwrap().read_exact_at(&mut magic, (64 << 20) + 0x40).unwrap();
            magic
        }

        fn erase(&self, eraser: &Eraser, record: &DiskRecord, cut: u64) -> (UndoOutcome, Option<String>) {
            let mut left = cut;
            eraser.erase_by_steps(record, Some(&record.boot), &mut || {
                left = left.wrapping_sub(1);
                if left == 0 { Err(io::Error::other("killed")) } else { Ok(()) }
            })
        }
    }

    /// The second superblock, head and tail, and the claim.
    const WRITES: u64 = 1 + (HEAD + TAIL) / (1 << 20) + 1;
    const NEVER: u64 = 0;

    #[test]
    fn erasing_may_be_cut_short_at_any_write_and_begun_again() {
        let Some(bench) = Bench::new() else { return };
        let eraser = Eraser::new(&bench.state, None);
        for cut in 1..=WRITES + 1 {
            let record = bench.overwritten();
            let (died, _) = bench.erase(&eraser, &record, cut);
            if cut > WRITES {
                assert_eq!(died, UndoOutcome::Removed, "there are no more writes than {WRITES}");
            } else {
                assert!(
                    matches!(&died, UndoOutcome::Failed(why) if why.contains("killed")),
                    "{cut}: {died:?}"
                );
                // Where only the claim was left to be written, nothing was left to be removed.
                let outcome = if cut == WRITES { UndoOutcome::Untouched } else { UndoOutcome::Removed };
                assert_eq!(bench.erase(&eraser, &record, NEVER), (outcome, None), "{cut}");
            }
            assert!(examine(&bench.device.0).unwrap().blank && bench.second() == [0; 8], "{cut}");
            open_claimed(&bench.state, &bench.device.0).unwrap();
            assert_eq!(bench.erase(&eraser, &record, NEVER), (UndoOutcome::Untouched, None), "{cut}");
        }
    }

    #[test]
    fn who_comes_later_removes_our_superblocks_and_never_renews_a_claim_by_guessing() {
        let Some(bench) = Bench::new() else { return };
        let stranger = Eraser { witnesses: Vec::new(), ..Eraser::new(&bench.state, None) };
        let eraser = Eraser::new(&bench.state, None);
        for cut in [1, 2, 5, WRITES - 1, WRITES] {
            let record = bench.overwritten();
            bench.write_files(cut);
            bench.erase(&eraser, &record, cut);
            // A death here too changes nothing.
            bench.erase(&stranger, &record, 1);
            let (outcome, note) = bench.erase(&stranger, &record, NEVER);
            let is_erased = cut == WRITES;
            assert_eq!(
                outcome,
                if is_erased { UndoOutcome::Untouched } else { UndoOutcome::Removed },
                "{cut}"
            );
            assert!(note.is_some_and(|note| note.contains("--forget")), "{cut}");
            assert_eq!(
                (examine(&bench.device.0).unwrap().signatures, bench.second()),
                (vec![], vec![0; 8]),
                "{cut}"
            );
            let refused = open_claimed(&bench.state, &bench.device.0).unwrap_err().to_string();
            assert!(refused.contains("did not come to write down"), "{cut}: {refused}");
            // The one who saw it all would know better.
            assert!(
                matches!(
                    bench.erase(&eraser, &record, NEVER),
                    (UndoOutcome::Removed | UndoOutcome::Untouched, None)
                ),
                "{cut}"
            );
            open_claimed(&bench.state, &bench.device.0).unwrap();
        }
    }

    #[test]
    fn who_comes_later_finds_the_claim_good_where_nothing_was_written() {
        let Some(bench) = Bench::new() else { return };
        let (mut ledger, _) = Ledger::open(&bench.state, &LocalMachine).unwrap();
        drop(ledger.overwrite(open_claimed(&bench.state, &bench.device.0).unwrap()).unwrap());
        drop(ledger);
        // The gate finds it so too.
        open_claimed(&bench.state, &bench.device.0).unwrap();
        let (mut ledger, _) =
            Ledger::take_over(std::time::Duration::ZERO, &bench.state, &LocalMachine, None).unwrap();
        assert!(ledger.pending.is_empty());
        assert_eq!(ledger.undo(0, &super::super::Scope::Everything).undone, []);
        let claim = Claims::at(&bench.state).list().unwrap().remove(0);
        assert_eq!(claim.overwriting, None);
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
