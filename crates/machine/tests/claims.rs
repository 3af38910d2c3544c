//! Claims on real devices: loop devices of the test's own, and the real wipefs and mkfs.
//!
//! Needs root and loop devices; without them each test says so and counts as skipped.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use machine::claims::{
    ClaimError, Claimed, Claims, Guard, HEAD, Reason, TAIL, Use, examine, is_own_uuid, open_claimed, own_uuid,
};
use machine::ledger::{Fate, Ledger, RestoreReport, status};
use machine::{LocalMachine, failing};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const SIZE: u64 = 32 << 20;

/// A loop device over a file of its own, and a state folder.
struct Bench {
    folder: tempfile::TempDir,
    device: PathBuf,
}

impl Bench {
    /// `None` where this host has no such devices; the reason is printed.
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
            eprintln!("skipped: claiming real devices needs root and loop devices");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk");
        File::create(&file).unwrap().set_len(SIZE).unwrap();
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let device = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        Some(Self { folder, device })
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn claims(&self) -> Claims {
        Claims::at(&self.state()).with_rules_in(&self.rules(), &self.folder.path().join("no-udev"))
    }

    fn rules(&self) -> PathBuf {
        self.folder.path().join("rules.d")
    }

    fn claim(&self) {
        self.claims().claim(&self.device, &BTreeSet::new()).unwrap();
    }

    fn opened(&self) -> Result<Claimed, ClaimError> {
        open_claimed(&self.state(), &self.device)
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.device).unwrap()
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        let file = File::options().write(true).open(&self.device).unwrap();
        file.write_all_at(bytes, at).unwrap();
        file.sync_all().unwrap();
    }

    fn mkfs(&self, uuid: &str) {
        let mut command = Command::new("mkfs.ext4");
        command.args(["-q", "-F", "-U", uuid]).arg(&self.device);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Opens the ledger, as the next start does, and says what became of the disk.
    fn recover(&self) -> RestoreReport {
        Ledger::open(&self.state(), &LocalMachine).unwrap().1
    }

    /// A run that dies after it has done this to the disk.
    fn dies_after(&self, act: impl FnOnce()) {
        let (mut ledger, _) = Ledger::open(&self.state(), &LocalMachine).unwrap();
        let claimed = ledger.overwrite(self.opened().unwrap()).unwrap();
        drop(claimed);
        act();
        // A ledger that is dropped undoes nothing.
        drop(ledger);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

const FOREIGN: &str = "11111111-2222-4333-8444-555555555555";

fn words(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

fn fates(report: &RestoreReport) -> Vec<Fate> {
    report.undone.iter().map(|undone| undone.fate.clone()).collect()
}

#[test]
fn a_disk_that_is_given_back_has_its_bytes_again() {
    let Some(bench) = Bench::new() else { return };
    bench.mkfs(FOREIGN);
    bench.write(SIZE - 4096, &[7; 4096]);
    let before = bench.bytes();
    let claims = bench.claims();
    let claim = claims.claim(&bench.device, &words(&["ext4"])).unwrap();
    assert_eq!(claims.list().unwrap(), std::slice::from_ref(&claim));
    assert_eq!(claim.found[0].uuid.as_deref(), Some(FOREIGN));
    assert_eq!(bench.bytes(), before, "claiming writes nothing");
    for file in fs::read_dir(bench.state().join("claims")).unwrap() {
        assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    bench.write(0, &vec![0; HEAD as usize]);
    bench.write(SIZE - TAIL, &vec![0; TAIL as usize]);
    let back = claims.give_back(&bench.device, &BTreeSet::new()).unwrap();
    assert!(back.written && back.claim == claim);
    assert_eq!(bench.bytes(), before);
    assert_eq!(claims.list().unwrap(), []);
    assert!(matches!(bench.opened(), Err(ClaimError::NotClaimed { .. })));
}

#[test]
fn everything_that_stands_against_a_claim_is_told_at_once() {
    let Some(bench) = Bench::new() else { return };
    bench.mkfs(FOREIGN);
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let _other = rustix::fs::open(&bench.device, flags, Mode::empty()).unwrap();
    let Err(ClaimError::Refused { reasons, .. }) = bench.claims().claim(&bench.device, &BTreeSet::new())
    else {
        panic!("it was claimed");
    };
    assert!(reasons.contains(&Reason::InUse(Use::Exclusive)), "{reasons:?}");
    assert!(reasons.iter().any(|r| matches!(r, Reason::Holds(s) if s.kind == "ext4")), "{reasons:?}");
    assert_eq!(examine(&bench.device).unwrap().all_reasons(), reasons);
    // No word on the command line makes up for a use.
    let refused = bench.claims().claim(&bench.device, &words(&["ext4", "data"]));
    assert!(
        matches!(refused, Err(ClaimError::Refused { reasons, .. }) if reasons == [Reason::InUse(Use::Exclusive)])
    );
}

#[test]
fn a_claim_that_cannot_be_read_stops_everything() {
    let Some(bench) = Bench::new() else { return };
    bench.claim();
    let file = bench.claims().file(&bench.claims().list().unwrap()[0]);
    let whole = fs::read(&file).unwrap();
    for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
        fs::write(&file, &whole[..cut]).unwrap();
        assert!(
            matches!(bench.opened(), Err(ClaimError::Damaged { path, .. }) if path == file),
            "cut at {cut}"
        );
        assert!(bench.claims().claim(&bench.device, &BTreeSet::new()).is_err(), "cut at {cut}");
        assert!(bench.claims().list().is_err(), "cut at {cut}");
    }
    fs::write(&file, String::from_utf8(whole.clone()).unwrap().replace("\"schema\": 1", "\"schema\": 2"))
        .unwrap();
    assert!(matches!(bench.opened(), Err(ClaimError::Damaged { .. })));
    fs::write(&file, &whole).unwrap();
    bench.opened().unwrap();
}

#[test]
fn what_a_death_while_claiming_leaves_is_no_claim_and_in_nobodys_way() {
    let Some(bench) = Bench::new() else { return };
    bench.write(0, b"something");
    let claim = bench.claims().claim(&bench.device, &words(&["data"])).unwrap();
    let file = bench.claims().file(&claim);
    let (json, aside) = (fs::read(&file).unwrap(), file.with_extension("json.new"));
    // After the backup, and in the middle of writing the claim aside.
    fs::remove_file(&file).unwrap();
    fs::write(&aside, &json[..json.len() / 2]).unwrap();
    assert_eq!(bench.claims().list().unwrap(), []);
    assert!(matches!(bench.opened(), Err(ClaimError::NotClaimed { .. })));
    assert_eq!(bench.claims().claim(&bench.device, &words(&["data"])).unwrap(), claim);
    assert!(!aside.exists());
    // While it is removed, between the claim and its backup.
    fs::remove_file(&file).unwrap();
    assert!(bench.claims().forget(&bench.device).is_err());
    assert_eq!(bench.claims().claim(&bench.device, &words(&["data"])).unwrap(), claim);
    bench.claims().forget(Path::new(&claim.id)).unwrap();
    assert_eq!(fs::read_dir(bench.state().join("claims")).unwrap().count(), 1, "the lock alone is left");
}

#[test]
fn a_backup_that_was_damaged_is_not_written_back() {
    let Some(bench) = Bench::new() else { return };
    let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    bench.write(0, &bytes);
    let claim = bench.claims().claim(&bench.device, &words(&["data"])).unwrap();
    let backup = bench.state().join("claims").join(format!("{}.backup.gz", claim.id));
    let mut bytes = fs::read(&backup).unwrap();
    bytes[1000] ^= 1;
    fs::write(&backup, &bytes).unwrap();
    let before = bench.bytes();
    assert!(bench.claims().give_back(&bench.device, &BTreeSet::new()).is_err());
    assert_eq!((bench.bytes(), bench.claims().list().unwrap().len()), (before, 1));
}

#[test]
fn what_has_come_to_a_claimed_disk_is_neither_overwritten_nor_given_back_over() {
    let Some(bench) = Bench::new() else { return };
    bench.claim();
    bench.opened().unwrap();
    bench.mkfs(FOREIGN);
    let before = bench.bytes();
    assert!(matches!(bench.opened(), Err(ClaimError::Refused { .. })));
    assert!(matches!(
        bench.claims().give_back(&bench.device, &BTreeSet::new()),
        Err(ClaimError::Refused { .. })
    ));
    assert!(matches!(
        bench.claims().claim(&bench.device, &words(&["ext4"])),
        Err(ClaimError::Refused { .. })
    ));
    assert_eq!(bench.bytes(), before);
    // Ours is no stranger.
    bench.mkfs(&own_uuid([1; 16]));
    bench.opened().unwrap();
    bench.claims().give_back(&bench.device, &BTreeSet::new()).unwrap();
    assert!(examine(&bench.device).unwrap().blank);
}

#[test]
fn the_gate_goes_by_the_disk_and_not_by_the_link() {
    let (Some(bench), Some(other)) = (Bench::new(), Bench::new()) else { return };
    let link = bench.folder.path().join("link");
    symlink(&bench.device, &link).unwrap();
    bench.claims().claim(&link, &BTreeSet::new()).unwrap();
    // Under any path it is the same disk.
    bench.opened().unwrap();
    let claimed = open_claimed(&bench.state(), &link).unwrap();
    fs::remove_file(&link).unwrap();
    symlink(&other.device, &link).unwrap();
    // A tool that is given the pinned path writes to the disk that was checked.
    fs::write(claimed.pinned(), b"pinned").unwrap();
    assert_eq!((&bench.bytes()[..6], &other.bytes()[..6]), (&b"pinned"[..], &[0; 6][..]));
    drop(claimed);
    assert!(matches!(open_claimed(&bench.state(), &link), Err(ClaimError::AnotherDevice { .. })));
    assert!(matches!(open_claimed(&bench.state(), &other.device), Err(ClaimError::NotClaimed { .. })));
}

#[test]
fn a_released_disk_stays_locked_and_is_taken_again_only_when_it_is_free() {
    let Some(bench) = Bench::new() else { return };
    bench.claim();
    let mut claimed = bench.opened().unwrap();
    let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
    let exclusive = || rustix::fs::open(&bench.device, flags, Mode::empty());
    assert!(exclusive().is_err());
    claimed.release_exclusive();
    // Another test's child has a copy of each descriptor until it becomes another program.
    let deadline = Instant::now() + Duration::from_secs(5);
    let tool = loop {
        match exclusive() {
            Ok(tool) => break tool,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    };
    assert!(claimed.device().is_none());
    assert!(matches!(bench.opened(), Err(ClaimError::Refused { reasons, .. })
        if reasons.contains(&Reason::InUse(Use::Locked)) && reasons.contains(&Reason::InUse(Use::Exclusive))));
    assert!(matches!(claimed.retake_exclusive(), Err(ClaimError::Refused { .. })));
    drop(tool);
    claimed.retake_exclusive().unwrap();
    assert!(claimed.device().is_some() && exclusive().is_err());
}

#[test]
fn what_a_killed_run_left_is_erased() {
    let Some(bench) = Bench::new() else { return };
    bench.claim();
    bench.dies_after(|| bench.mkfs(&own_uuid([2; 16])));
    assert!(is_own_uuid(examine(&bench.device).unwrap().signatures[0].uuid.as_deref().unwrap()));
    let told = status(&bench.state(), &LocalMachine).unwrap();
    assert_eq!((told.changes.len(), &told.changes[0].fate), (1, &Fate::Removed));
    assert_eq!(fates(&bench.recover()), [Fate::Removed]);
    assert!(examine(&bench.device).unwrap().all_reasons().is_empty());
    assert_eq!(fates(&bench.recover()), []);
    bench.opened().unwrap();
}

#[test]
fn a_disk_that_was_announced_and_not_touched_is_left_as_it_is() {
    let Some(bench) = Bench::new() else { return };
    bench.mkfs(FOREIGN);
    let before = bench.bytes();
    bench.claims().claim(&bench.device, &words(&["ext4"])).unwrap();
    bench.dies_after(|| ());
    assert_eq!(fates(&bench.recover()), [Fate::Untouched]);
    assert_eq!(bench.bytes(), before);
    // Of a filesystem that a claim gives up, what is left beside ours goes too.
    bench.dies_after(|| bench.write(SIZE - 100, b"ours"));
    assert_eq!(fates(&bench.recover()), [Fate::Removed]);
    bench.claims().give_back(&bench.device, &BTreeSet::new()).unwrap();
    assert_eq!(bench.bytes()[..HEAD as usize], before[..HEAD as usize]);
}

#[test]
fn a_stranger_on_a_claimed_disk_is_left_and_reported() {
    let Some(bench) = Bench::new() else { return };
    bench.claim();
    bench.dies_after(|| bench.mkfs(FOREIGN));
    let before = bench.bytes();
    let report = bench.recover();
    assert!(
        matches!(&fates(&report)[..], [Fate::Foreign { now, .. }] if now.contains(FOREIGN)),
        "{report:?}"
    );
    assert_eq!(bench.bytes(), before);
    assert_eq!(fates(&bench.recover()), [], "it is told once");
}

#[test]
fn a_disk_in_use_is_erased_later() {
    let Some(bench) = Bench::new() else { return };
    bench.claim();
    bench.dies_after(|| bench.mkfs(&own_uuid([3; 16])));
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let other = rustix::fs::open(&bench.device, flags, Mode::empty()).unwrap();
    assert!(matches!(&fates(&bench.recover())[..], [Fate::Failed(why)] if why.contains("exclusively")));
    drop(other);
    assert_eq!(fates(&bench.recover()), [Fate::Removed]);
}

#[test]
fn a_death_of_the_machine_at_any_operation_of_the_ledger_changes_nothing_of_that() {
    use failing::{Counted, Death, FailingMachine, Manner, Moment};
    let Some(bench) = Bench::new() else { return };
    bench.claim();
    bench.dies_after(|| bench.mkfs(&own_uuid([4; 16])));
    let mut deaths = 0;
    for after in 0.. {
        let death = Death { after, counted: Counted::All, moment: Moment::Before, manner: Manner::Unwind };
        let machine = FailingMachine::new(LocalMachine, death);
        let state = bench.state();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            drop(Ledger::open(&state, &machine).unwrap());
        }));
        deaths += u64::from(ended.is_err());
        if !machine.is_dead() {
            break;
        }
    }
    assert!(deaths > 1, "{deaths}");
    bench.recover();
    assert!(examine(&bench.device).unwrap().blank);
}

#[test]
fn the_rule_of_udev_comes_and_goes_with_the_claims() {
    let Some(bench) = Bench::new() else { return };
    let without = bench.claims();
    let claim = without.claim(&bench.device, &BTreeSet::new()).unwrap();
    assert_eq!((without.guard(&claim), bench.rules().exists()), (Guard::NoUdev, false));
    let running = bench.folder.path().join("run-udev");
    fs::create_dir(&running).unwrap();
    let with = bench.claims().with_rules_in(&bench.rules(), &running);
    // A claim that is there already gets its rule now.
    with.claim(&bench.device, &BTreeSet::new()).unwrap();
    let file = bench.rules().join("63-zz-flyball-claims.rules");
    assert_eq!(with.guard(&claim), Guard::OwnMarksOnly(file.clone()));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("f17ba110-*|FLYBAL-*") && !text.contains("ATTRS"), "{text}");
    with.forget(&bench.device).unwrap();
    assert!(!file.exists());
}
