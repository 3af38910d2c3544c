//! Claims on real devices: loop devices of the test's own, and the real wipefs and mkfs.
//!
//! Needs root and loop devices; without them each test says so and counts as skipped.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use machine::claims::{
    Claim, ClaimError, Claimed, Claims, Guard, HEAD, Moment, Reason, Secret, TAIL, Use, examine, open_claimed,
};
use machine::ledger::{Ledger, RestoreReport, UndoOutcome, status};
use machine::{LocalMachine, failing};
use rustix::fs::{Mode, OFlags};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const SIZE: u64 = 32 << 20;

/// A loop device over a file of its own, and a state folder. Tests that have one run one after the other: a
/// child of one has the descriptors of all until it becomes another program, and on a busy machine that takes
/// longer than the gate waits.
struct Bench {
    folder: tempfile::TempDir,
    device: PathBuf,
    _alone: Option<MutexGuard<'static, ()>>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl Bench {
    /// `None` where this host has no such devices; the reason is printed.
    fn new() -> Option<Self> {
        Self::of(SIZE)
    }

    fn of(size: u64) -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
            eprintln!("skipped: claiming real devices needs root and loop devices");
            return None;
        }
        // A test that failed leaves nothing that another would see.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bench = Self::beside(size);
        bench._alone = Some(alone);
        Some(bench)
    }

    /// One more in the same test.
    fn beside(size: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk");
        File::create(&file).unwrap().set_len(size).unwrap();
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let device = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        Self { folder, device, _alone: None }
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

    fn claim(&self) -> Claim {
        self.claim_over(&[]).unwrap()
    }

    fn claim_over(&self, overwrites: &[&str]) -> Result<Claim, ClaimError> {
        self.claims().claim(&self.device, &words(overwrites)).map(|(claim, _)| claim)
    }

    /// Everything that the gate says, which is no.
    fn refused(&self) -> String {
        let before = self.bytes();
        let refused = self.opened().unwrap_err();
        assert!(matches!(refused, ClaimError::Refused { .. }), "{refused}");
        assert!(self.bytes() == before, "the gate writes nothing");
        refused.to_string()
    }

    fn own_uuid(&self) -> String {
        Secret::of(&self.state()).unwrap().uuid().unwrap()
    }

    fn claim_file(&self) -> PathBuf {
        self.claims().file(&self.claims().list().unwrap()[0])
    }

    /// As if the process that overwrites the disk were another one, and dead with its supervisor.
    fn lose_the_witness(&self) {
        let file = self.claim_file();
        let mut claim: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        claim["overwriting"]["by"] = "1.1.".into();
        fs::write(&file, claim.to_string()).unwrap();
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

    fn run(&self, program: &str, arguments: &[&str]) {
        let output = Command::new(program).args(arguments).arg(&self.device).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// As one who mounts it would, on a kernel that may not be able to.
    fn put_file(&self, name: &str) {
        let file = self.folder.path().join(name);
        fs::write(&file, vec![b'x'; 1 << 20]).unwrap();
        self.run("debugfs", &["-w", "-R", &format!("write {} {name}", file.display())]);
    }

    fn wipe(&self) {
        let size = self.bytes().len();
        self.write(0, &vec![0; size]);
    }

    /// What a killed process has begun may end after it.
    fn wait_until_free(&self) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !examine(&self.device).unwrap().uses.is_empty() {
            assert!(Instant::now() < deadline, "{:?}", examine(&self.device).unwrap().uses);
        }
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

fn outcomes(report: &RestoreReport) -> Vec<UndoOutcome> {
    report.undone.iter().map(|undone| undone.outcome.clone()).collect()
}

#[test]
fn a_disk_that_is_given_back_has_its_bytes_again() {
    let Some(bench) = Bench::new() else { return };
    bench.mkfs(FOREIGN);
    bench.write(SIZE - 4096, &[7; 4096]);
    let before = bench.bytes();
    let claims = bench.claims();
    let claim = bench.claim_over(&["ext4"]).unwrap();
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
    for (field, value) in [("schema", Value::from(0)), ("schema", "2".into()), ("seen", Value::Null)] {
        let mut claim: Value = serde_json::from_slice(&whole).unwrap();
        claim[field] = value;
        fs::write(&file, claim.to_string()).unwrap();
        assert!(matches!(bench.opened(), Err(ClaimError::Damaged { .. })), "{field}");
    }
    fs::write(&file, &whole).unwrap();
    bench.opened().unwrap();
}

#[test]
fn what_a_death_while_claiming_leaves_is_no_claim_and_in_nobodys_way() {
    let Some(bench) = Bench::new() else { return };
    bench.write(0, b"something");
    let claim = bench.claim_over(&["data"]).unwrap();
    let again = || Claim { seen: claim.seen.clone(), ..bench.claim_over(&["data"]).unwrap() };
    let file = bench.claims().file(&claim);
    let (json, aside) = (fs::read(&file).unwrap(), file.with_extension("json.part"));
    // After the backup, and in the middle of writing the claim aside.
    fs::remove_file(&file).unwrap();
    fs::write(&aside, &json[..json.len() / 2]).unwrap();
    assert_eq!(bench.claims().list().unwrap(), []);
    assert!(matches!(bench.opened(), Err(ClaimError::NotClaimed { .. })));
    assert_eq!(again(), claim, "but for the places of its samples");
    assert!(!aside.exists());
    // While it is removed, between the claim and its backup.
    fs::remove_file(&file).unwrap();
    assert!(bench.claims().forget(&bench.device).is_err());
    assert_eq!(again(), claim, "but for the places of its samples");
    bench.claims().forget(Path::new(&claim.id)).unwrap();
    assert_eq!(fs::read_dir(bench.state().join("claims")).unwrap().count(), 1, "the lock alone is left");
}

#[test]
fn a_backup_that_was_damaged_is_not_written_back() {
    let Some(bench) = Bench::new() else { return };
    let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    bench.write(0, &bytes);
    let claim = bench.claim_over(&["data"]).unwrap();
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
    // What is ours is given back over; but it came without the ledger's knowing, and so is not overwritten.
    bench.mkfs(&bench.own_uuid());
    assert!(bench.refused().contains("has come since it was claimed"));
    bench.claims().give_back(&bench.device, &BTreeSet::new()).unwrap();
    assert!(examine(&bench.device).unwrap().blank);
}

#[test]
fn the_gate_goes_by_the_disk_and_not_by_the_link() {
    let Some(bench) = Bench::new() else { return };
    let other = Bench::beside(SIZE);
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
    let deadline = Instant::now() + Duration::from_secs(60);
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
    bench.dies_after(|| bench.mkfs(&bench.own_uuid()));
    let secret = Secret::of(&bench.state()).unwrap();
    assert!(secret.gave(examine(&bench.device).unwrap().signatures[0].uuid.as_deref().unwrap()));
    let told = status(&bench.state(), &LocalMachine).unwrap();
    assert_eq!((told.changes.len(), &told.changes[0].outcome), (1, &UndoOutcome::Removed));
    assert_eq!(outcomes(&bench.recover()), [UndoOutcome::Removed]);
    let left = examine(&bench.device).unwrap();
    assert!(left.blank && left.signatures.is_empty() && left.uses.is_empty(), "{left:?}");
    assert_eq!(outcomes(&bench.recover()), []);
    bench.opened().unwrap();
}

#[test]
fn a_disk_that_was_announced_and_not_touched_is_left_as_it_is() {
    let Some(bench) = Bench::new() else { return };
    bench.mkfs(FOREIGN);
    let before = bench.bytes();
    bench.claims().claim(&bench.device, &words(&["ext4"])).unwrap();
    bench.dies_after(|| ());
    assert_eq!(outcomes(&bench.recover()), [UndoOutcome::Untouched]);
    assert_eq!(bench.bytes(), before);
    // Of a filesystem that a claim gives up, what is left beside ours goes too.
    bench.dies_after(|| bench.write(SIZE - 100, b"ours"));
    assert_eq!(outcomes(&bench.recover()), [UndoOutcome::Removed]);
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
        matches!(&outcomes(&report)[..], [UndoOutcome::Foreign { now, .. }] if now.contains(FOREIGN)),
        "{report:?}"
    );
    assert_eq!(bench.bytes(), before);
    assert_eq!(outcomes(&bench.recover()), [], "it is told once");
}

#[test]
fn a_disk_in_use_is_erased_later() {
    let Some(bench) = Bench::new() else { return };
    bench.claim();
    bench.dies_after(|| bench.mkfs(&bench.own_uuid()));
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let other = rustix::fs::open(&bench.device, flags, Mode::empty()).unwrap();
    assert!(
        matches!(&outcomes(&bench.recover())[..], [UndoOutcome::Failed(why)] if why.contains("exclusively"))
    );
    drop(other);
    assert_eq!(outcomes(&bench.recover()), [UndoOutcome::Removed]);
}

#[test]
fn a_death_of_the_machine_at_any_operation_of_the_ledger_changes_nothing_of_that() {
    use failing::{Counted, Death, FailingMachine, Manner, Moment};
    let Some(bench) = Bench::new() else { return };
    bench.claim();
    bench.dies_after(|| bench.mkfs(&bench.own_uuid()));
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
    let (claim, _) = without.claim(&bench.device, &BTreeSet::new()).unwrap();
    assert_eq!((without.guard(&claim), bench.rules().exists()), (Guard::NoUdev, false));
    let running = bench.folder.path().join("run-udev");
    fs::create_dir(&running).unwrap();
    let with = bench.claims().with_rules_in(&bench.rules(), &running);
    // A claim that is there already gets its rule now.
    with.claim(&bench.device, &BTreeSet::new()).unwrap();
    let file = bench.rules().join("63-zz-flyball-claims.rules");
    assert_eq!(with.guard(&claim), Guard::OwnMarksOnly(file.clone()));
    let text = fs::read_to_string(&file).unwrap();
    // Not every Flyball's, but this machine's.
    let own = format!("ENV{{ID_FS_UUID}}==\"{}*|FLYBAL-", &bench.own_uuid()[..14]);
    assert!(text.contains(&own) && !text.contains("ATTRS"), "{text}");
    with.forget(&bench.device).unwrap();
    assert!(!file.exists());
}

#[test]
fn another_filesystem_of_the_type_that_the_claim_names_is_refused_and_untouched() {
    let Some(bench) = Bench::new() else { return };
    bench.mkfs(FOREIGN);
    bench.claim_over(&["ext4"]).unwrap();
    drop(bench.opened().unwrap());
    const OTHER: &str = "99999999-2222-4333-8444-555555555555";
    bench.mkfs(OTHER);
    bench.put_file("precious");
    let refused = bench.refused();
    assert!(refused.contains(OTHER) && refused.contains(FOREIGN), "{refused}");
    assert!(refused.contains("--forget") && refused.contains("--overwrite ext4"), "{refused}");
    // Nor is the old one's beginning written over it, without a word for it.
    let before = bench.bytes();
    assert!(bench.claims().give_back(&bench.device, &BTreeSet::new()).is_err());
    assert_eq!(bench.claim_over(&["ext4"]).unwrap_err().to_string(), refused);
    assert!(bench.bytes() == before);
}

#[test]
fn a_file_that_is_put_onto_the_claimed_filesystem_is_seen() {
    let Some(bench) = Bench::new() else { return };
    bench.mkfs(FOREIGN);
    bench.claim_over(&["ext4"]).unwrap();
    bench.put_file("precious");
    let refused = bench.refused();
    assert!(refused.contains("its first 8 MiB have changed since it was claimed"), "{refused}");
    let before = bench.bytes();
    assert!(bench.claims().give_back(&bench.device, &BTreeSet::new()).is_err());
    assert!(bench.bytes() == before);
    bench.claims().give_back(&bench.device, &words(&["ext4"])).unwrap();
}

#[test]
fn a_label_that_changed_and_a_filesystem_that_went_are_told() {
    let Some(bench) = Bench::new() else { return };
    bench.mkfs(FOREIGN);
    bench.claim_over(&["ext4"]).unwrap();
    bench.run("tune2fs", &["-L", "home"]);
    assert!(bench.refused().contains("label \"home\""));
    bench.run("wipefs", &["--all", "--quiet"]);
    let refused = bench.refused();
    assert!(refused.contains("has gone since it was claimed"), "{refused}");
}

#[test]
fn a_uuid_that_begins_like_ours_is_a_strangers() {
    let Some(bench) = Bench::new() else { return };
    let made_up = "f17ba110-abab-4bab-abab-abababababab".to_owned();
    let elsewhere = tempfile::tempdir().unwrap();
    let another_machines = Secret::of(elsewhere.path()).unwrap().uuid().unwrap();
    assert!(bench.own_uuid().starts_with("f17ba110-"), "this machine has a secret, too");
    for uuid in [made_up, another_machines] {
        bench.claim();
        bench.dies_after(|| bench.mkfs(&uuid));
        let before = bench.bytes();
        let report = bench.recover();
        assert!(
            matches!(&outcomes(&report)[..], [UndoOutcome::Foreign { now, .. }] if now.contains(&uuid)),
            "{report:?}"
        );
        let refused = bench.refused();
        assert!(refused.contains(&uuid), "{refused}");
        assert!(bench.claims().give_back(&bench.device, &BTreeSet::new()).is_err());
        assert!(bench.bytes() == before);
        bench.claims().forget(&bench.device).unwrap();
        bench.wipe();
    }
}

#[test]
fn data_in_the_middle_is_seen_when_a_disk_is_claimed() {
    let Some(bench) = Bench::of(64 << 20) else { return };
    bench.write(32 << 20, &vec![7; 1 << 20]);
    let refused = bench.claim_over(&[]).unwrap_err();
    assert!(
        matches!(&refused, ClaimError::Refused { reasons, .. } if *reasons == [Reason::Data]),
        "{refused}"
    );
    assert!(refused.to_string().contains("--overwrite data"), "{refused}");
    let claim = bench.claim_over(&["data"]).unwrap();
    let samples = claim.seen.unwrap().samples;
    assert!(samples.count == 4096 && (50..150).contains(&samples.nonzero), "{samples:?}");
    assert!(claim.blank && claim.backup_sha256.is_none());
    bench.opened().unwrap();
}

#[test]
fn data_that_came_into_the_middle_is_refused_whatever_the_claim_names() {
    let Some(bench) = Bench::of(64 << 20) else { return };
    for overwrites in [&[][..], &["data"], &["ext4"]] {
        if overwrites == ["ext4"] {
            bench.mkfs(FOREIGN);
        }
        bench.claim_over(overwrites).unwrap();
        drop(bench.opened().unwrap());
        let before = bench.bytes();
        bench.write(40 << 20, &vec![7; 1 << 20]);
        let refused = bench.refused();
        assert!(
            refused.contains("its contents have changed since it was claimed: ")
                && refused.contains(" of 4096 samples differ"),
            "{refused}"
        );
        bench.write(40 << 20, &before[40 << 20..41 << 20]);
        drop(bench.opened().unwrap());
        bench.claims().forget(&bench.device).unwrap();
    }
}

#[test]
fn a_claim_lasts_from_run_to_run_whatever_these_leave() {
    let Some(bench) = Bench::of(64 << 20) else { return };
    bench.mkfs(FOREIGN);
    bench.claim_over(&["ext4"]).unwrap();
    let mut seeds = BTreeSet::new();
    for run in 0..4_u8 {
        let (mut ledger, report) = Ledger::open(&bench.state(), &LocalMachine).unwrap();
        assert!(report.is_clean() && report.undone.is_empty(), "{run}: {report:?}");
        drop(ledger.overwrite(bench.opened().unwrap()).unwrap());
        match run {
            // Nothing at all; a filesystem; a raw disk; one whose beginning and end are not reached.
            0 => {}
            1 => bench.mkfs(&bench.own_uuid()),
            2 => bench.write(0, &vec![run; 40 << 20]),
            _ => bench.write(20 << 20, &vec![run; 20 << 20]),
        }
        let report = ledger.finish();
        assert!(report.is_clean(), "{run}: {report:?}");
        let claim = bench.claims().list().unwrap().remove(0);
        let seen = claim.seen.unwrap();
        assert_eq!((claim.overwriting, seen.moment), (None, Moment::Left));
        assert!(seeds.insert(seen.samples.seed.0), "each time other places are looked at");
        assert_eq!(seen.head_sha256.is_none(), run > 0);
    }
    // What comes after all that is a stranger's again.
    bench.write(30 << 20, &vec![9; 1 << 20]);
    let refused = bench.refused();
    assert!(refused.contains("its contents have changed since Flyball last left it"), "{refused}");
}

#[test]
fn who_comes_after_a_death_without_a_witness_never_takes_a_strangers_data_for_ours() {
    let Some(bench) = Bench::of(64 << 20) else { return };
    type Stranger = fn(&Bench);
    let strangers: [(&str, Stranger); 5] = [
        ("nothing", |_| ()),
        ("data at the beginning", |bench| bench.write(0, &[8; 4096])),
        ("data in the middle", |bench| bench.write(30 << 20, &vec![8; 1 << 20])),
        ("data at the end", |bench| bench.write((64 << 20) - 4096, &[8; 4096])),
        ("a filesystem", |bench| bench.mkfs(FOREIGN)),
    ];
    for (run, writes) in [("a filesystem", true), ("a raw disk", false)] {
        for (stranger, comes) in strangers {
            bench.claim();
            bench.dies_after(|| match writes {
                true => bench.mkfs(&bench.own_uuid()),
                false => bench.write(1 << 20, &vec![7; 30 << 20]),
            });
            bench.lose_the_witness();
            comes(&bench);
            let before = bench.bytes();
            let report = bench.recover();
            let after = bench.bytes();
            let case = format!("{run}, then {stranger}: {report:?}");
            // Where our own superblock is, it goes, with its block; everything else stays.
            assert!(report.failed().next().is_none() && after[4096..] == before[4096..], "{case}");
            assert!(writes && stranger != "a filesystem" || after == before, "{case}");
            assert_eq!(outcomes(&bench.recover()), [], "{case}");
            let refused = bench.refused();
            assert!(
                refused.contains("--forget") && refused.contains("did not come to write down"),
                "{case}: {refused}"
            );
            bench.claims().forget(&bench.device).unwrap();
            bench.wipe();
        }
    }
}

#[test]
fn what_comes_after_the_claim_was_renewed_is_not_erased_by_a_record_that_was_not_crossed_out() {
    let Some(bench) = Bench::new() else { return };
    bench.claim();
    bench.dies_after(|| bench.mkfs(&bench.own_uuid()));
    let ledger = fs::read(bench.state().join("ledger")).unwrap();
    assert_eq!(outcomes(&bench.recover()), [UndoOutcome::Removed]);
    // The death came between the claim and the ledger.
    fs::write(bench.state().join("ledger"), ledger).unwrap();
    bench.write(0, b"a stranger's");
    let before = bench.bytes();
    assert_eq!(outcomes(&bench.recover()), [UndoOutcome::Untouched]);
    assert!(bench.bytes() == before);
    assert!(bench.refused().contains("`data`"));
}

/// What the process does that is killed: runs, one after the other, until it is. Started by the test below.
#[test]
fn runs_until_it_is_killed() {
    let Some(folder) = std::env::var_os("FLYBALL_CLAIM_KILLED").map(PathBuf::from) else { return };
    let device = PathBuf::from(std::env::var_os("FLYBALL_CLAIM_DEVICE").unwrap());
    let state = folder.join("state");
    for run in 0.. {
        let (mut ledger, _) = Ledger::open(&state, &LocalMachine).unwrap();
        drop(ledger.overwrite(open_claimed(&state, &device).unwrap()).unwrap());
        let file = File::options().write(true).open(&device).unwrap();
        match run % 3 {
            0 => {
                let uuid = Secret::of(&state).unwrap().uuid().unwrap();
                let made = Command::new("mkfs.ext4").args(["-q", "-F", "-U", &uuid]).arg(&device).status();
                assert!(made.unwrap().success());
            }
            1 => file.write_all_at(&vec![run; 3 << 20], 0).unwrap(),
            _ => file.write_all_at(&vec![run; 3 << 20], 12 << 20).unwrap(),
        }
        drop(file);
        assert!(ledger.finish().is_clean());
        println!("a run");
    }
}

#[test]
fn a_kill_at_any_time_leaves_a_good_claim_or_a_refusal_and_strangers_their_data() {
    let Some(bench) = Bench::new() else { return };
    const KILLS: u64 = 24;
    let (mut good, mut refused) = (0, 0);
    let mut choice = domain::rng::Seed(1).stream("kills");
    for kill in 0..KILLS {
        bench.claim();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "runs_until_it_is_killed", "--nocapture", "--test-threads=1"])
            .env("FLYBALL_CLAIM_KILLED", bench.folder.path())
            .env("FLYBALL_CLAIM_DEVICE", &bench.device)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // After its first run, so that each kind of run and of moment is met.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.ends_with("a run")), "it ended by itself");
        std::thread::sleep(Duration::from_micros(choice.below(400_000) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        drop(lines);
        bench.wait_until_free();
        let stranger = choice.below(2) == 0;
        if stranger {
            bench.write(20 << 20, &vec![0xee; 1 << 20]);
        }
        let report = bench.recover();
        assert!(report.failed().next().is_none(), "{kill}: {report:?}");
        if stranger {
            assert!(bench.bytes()[20 << 20..21 << 20].iter().all(|byte| *byte == 0xee), "{kill}");
        }
        match bench.opened() {
            Ok(_) => {
                assert!(!stranger, "{kill}: a stranger's data would be overwritten");
                good += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("--forget"), "{kill}: {error}");
                refused += 1;
            }
        }
        bench.claims().forget(&bench.device).unwrap();
        bench.wipe();
    }
    eprintln!("{KILLS} kills: {good} good claims, {refused} refusals, no stranger's data overwritten");
    assert!(refused > 0, "{good} and {refused}");
}

/// A claim as Flyball wrote it before it wrote down what was on the disk, of the disk that this one is.
fn first_form(claim: &Path) -> String {
    let now: Value = serde_json::from_slice(&fs::read(claim).unwrap()).unwrap();
    let mut stored: Value = serde_json::from_str(include_str!("stored/claim-1.json")).unwrap();
    for field in ["id", "path", "name", "identity", "backup_sha256"] {
        stored[field] = now[field].clone();
    }
    stored.to_string()
}

#[test]
fn a_claim_of_the_first_form_is_listed_and_given_back_and_is_no_leave_to_overwrite() {
    let Some(bench) = Bench::new() else { return };
    bench.mkfs(FOREIGN);
    let before = bench.bytes();
    bench.claim_over(&["ext4"]).unwrap();
    let file = bench.claim_file();
    let stored = first_form(&file);
    fs::write(&file, &stored).unwrap();
    assert_eq!(bench.claims().list().unwrap()[0].schema, 1);
    for refused in [bench.opened().map(drop), bench.claim_over(&["ext4"]).map(drop)] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, ClaimError::Outdated { .. }), "{refused}");
        let (text, device) = (refused.to_string(), bench.device.display());
        let anew =
            format!("`flyball claim {device} --forget`, then `flyball claim {device} --overwrite ext4`");
        assert!(text.ends_with(&anew), "{text}");
    }
    assert_eq!((bench.bytes() == before, fs::read_to_string(&file).unwrap()), (true, stored.clone()));
    // As its text says.
    bench.claims().forget(&bench.device).unwrap();
    bench.claim_over(&["ext4"]).unwrap();
    drop(bench.opened().unwrap());
    // What it has backed up is good still.
    fs::write(&file, &stored).unwrap();
    bench.write(0, &vec![0; HEAD as usize]);
    bench.claims().give_back(&bench.device, &BTreeSet::new()).unwrap();
    assert!(bench.bytes() == before);
}

#[test]
fn what_an_older_version_left_is_not_erased_for_its_prefix_and_is_told() {
    let Some(bench) = Bench::new() else { return };
    bench.claim();
    bench.own_uuid();
    bench.dies_after(|| bench.mkfs("f17ba110-abab-4bab-abab-abababababab"));
    let file = bench.claim_file();
    fs::write(&file, first_form(&file)).unwrap();
    let before = bench.bytes();
    assert!(
        matches!(&outcomes(&bench.recover())[..], [UndoOutcome::Foreign { now, .. }] if now.contains("f17ba110-abab"))
    );
    assert!(bench.bytes() == before);
    // Where it has left nothing, nothing is to be told.
    bench.wipe();
    bench.claims().forget(&bench.device).unwrap();
    bench.claim();
    bench.dies_after(|| ());
    fs::write(&file, first_form(&file)).unwrap();
    assert_eq!(outcomes(&bench.recover()), [UndoOutcome::Untouched]);
}

#[test]
fn a_claim_that_a_newer_version_wrote_stops_everything_and_is_touched_by_nothing() {
    let Some(bench) = Bench::new() else { return };
    bench.mkfs(FOREIGN);
    bench.claim_over(&["ext4"]).unwrap();
    bench.dies_after(|| ());
    let file = bench.claim_file();
    let mut newer: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert!(newer["written_by"].as_str().unwrap().starts_with("flyball "));
    newer["schema"] = 3.into();
    newer["written_by"] = "flyball 9.1.0".into();
    newer["seen"] = Value::Null;
    newer["seen_by_witness"] = true.into();
    fs::write(&file, newer.to_string()).unwrap();
    let before = bench.bytes();
    let errors = [
        bench.opened().map(drop).unwrap_err(),
        bench.claim_over(&["ext4"]).map(drop).unwrap_err(),
        bench.claims().list().map(drop).unwrap_err(),
        bench.claims().forget(&bench.device).map(drop).unwrap_err(),
        bench.claims().give_back(&bench.device, &BTreeSet::new()).map(drop).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, ClaimError::Newer { schema: 3, .. }), "{error}");
        assert!(error.to_string().contains("flyball 9.1.0 wrote it"), "{error}");
    }
    // What it has announced is not undone by one who does not know what it saw, and stays in the ledger.
    for _ in 0..2 {
        assert!(
            matches!(&outcomes(&bench.recover())[..], [UndoOutcome::Failed(why)] if why.contains("flyball 9.1.0"))
        );
    }
    assert!(bench.bytes() == before);
    assert_eq!(fs::read_to_string(&file).unwrap(), newer.to_string());
}
