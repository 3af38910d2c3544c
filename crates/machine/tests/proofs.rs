//! Values that the kernel rounds, ignores, refuses, takes late, does not keep, or takes away with their
//! object: all are noticed. On this machine's own kernel where it does so, on one in memory for the rest.
//! Each test prints its figure.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod tree;

use domain::Timestamp;
use domain::rng::Seed;
use domain::setting::{SettingName, SettingRequest};
use machine::ledger::{Ledger, UndoOutcome, status};
use machine::settings::{Error, same};
use machine::{CommandOutput, LocalMachine, Machine};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tree::{QUEUE, Tree, Tunables};

fn requests(pairs: &[(&str, &str)]) -> Vec<SettingRequest> {
    let request = |(name, value): &(&str, &str)| SettingRequest {
        setting: SettingName::parse(name),
        value: (*value).to_owned(),
    };
    pairs.iter().map(request).collect()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A block device of the test's own: a loop device, or one of compressed memory, which can be taken away.
struct Device {
    name: String,
    _file: tempfile::NamedTempFile,
}

impl Device {
    fn attach() -> Option<Self> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(16 << 20).unwrap();
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file.path()).output().ok()?;
        let name = String::from_utf8(output.stdout).unwrap().trim().strip_prefix("/dev/")?.to_owned();
        Some(Self { name, _file: file })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &format!("/dev/{}", self.name)]).status();
    }
}

/// What the kernel does with a value that it does not take as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Rounds,
    Ignores,
    Refuses,
}

#[test]
fn what_this_kernel_rounds_ignores_or_refuses_is_noticed() {
    // block/blk-sysfs.c, block/elevator.c, kernel/sysctl.c, mm/page-writeback.c
    const CASES: &[(&str, &str, Does)] = &[
        ("read_ahead_kb", "333", Does::Rounds),
        ("read_ahead_kb", "1", Does::Rounds),
        ("nr_requests", "1", Does::Rounds),
        ("nomerges", "7", Does::Rounds),
        ("rq_affinity", "7", Does::Ignores),
        ("scheduler", "cfq", Does::Refuses),
        ("nr_requests", "1000000", Does::Refuses),
        ("max_sectors_kb", "100000000", Does::Refuses),
        ("max_sectors_kb", "0", Does::Refuses),
        ("write_cache", "write sideways", Does::Refuses),
        ("wbt_lat_usec", "-5", Does::Refuses),
        ("read_ahead_kb", "many", Does::Refuses),
        ("vm.extfrag_threshold", "1001", Does::Refuses),
        ("vm.dirty_ratio", "101", Does::Refuses),
        ("vm.dirty_bytes", "1", Does::Refuses),
        ("vm.swappiness", "1000", Does::Refuses),
        ("vm.watermark_scale_factor", "0", Does::Refuses),
    ];
    let device = if is_root() { Device::attach() } else { None };
    let Some(device) = device else {
        println!("skipped: {} cases need root and a loop device", CASES.len());
        return;
    };
    let state = tempfile::tempdir().unwrap();
    let (mut ledger, _) = Ledger::open(state.path(), &LocalMachine).unwrap();
    let mut noticed: BTreeMap<String, u32> = BTreeMap::new();
    for &(name, value, does) in CASES {
        let path = match name.strip_prefix("vm.") {
            Some(file) => format!("/proc/sys/vm/{file}"),
            None => format!("/sys/block/{}/queue/{name}", device.name),
        };
        let Ok(before) = fs::read_to_string(&path) else {
            *noticed.entry("not here".into()).or_default() += 1;
            continue;
        };
        let case = format!("{name} = {value}");
        match (does, ledger.apply(&requests(&[(name, value)]), Some(&device.name))) {
            (Does::Refuses, Err(Error::Write { .. } | Error::NotTaken { .. })) => {}
            (Does::Rounds | Does::Ignores, Err(Error::NotTaken { got, .. })) => {
                assert!(!same(&got, value), "{case}: {got}");
            }
            // Other versions of the kernel refuse what this one rounds.
            (Does::Rounds | Does::Ignores, Err(Error::Write { .. })) => {}
            (_, other) => panic!("{case}: {other:?}"),
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), before, "{case}");
        *noticed.entry(format!("{does:?}")).or_default() += 1;
    }
    assert!(ledger.restore().is_clean());
    println!(
        "{} values that this kernel does not take: all noticed, all as before: {noticed:?}",
        CASES.len()
    );
}

#[test]
fn a_device_that_is_taken_away_while_its_setting_is_held_is_noticed() {
    const CONTROL: &str = "/sys/class/zram-control";
    let made = if is_root() { fs::read_to_string(format!("{CONTROL}/hot_add")).ok() } else { None };
    let Some(number) = made.map(|text| text.trim().to_owned()) else {
        println!("skipped: 1 test, taking a device away needs root and the kernel's module zram");
        return;
    };
    let name = format!("zram{number}");
    let state = tempfile::tempdir().unwrap();
    let (mut ledger, _) = Ledger::open(state.path(), &LocalMachine).unwrap();
    let applied = ledger.apply(&requests(&[("read_ahead_kb", "512")]), Some(&name));
    fs::write(format!("{CONTROL}/hot_remove"), &number).unwrap();
    let mut records = applied.unwrap();
    let changed = ledger.reread(&mut records);
    assert_eq!(changed.len(), 1);
    assert_eq!(records[0].after, None);
    let report = ledger.restore();
    assert!(matches!(report.undone[..], [ref u] if matches!(u.outcome, UndoOutcome::Gone(_))), "{report:?}");
    println!(
        "1 device taken away while its setting was held: noticed after the workload, and nothing to put back"
    );
}

/// What a slow or stubborn kernel does with a file.
#[derive(Clone, Copy, Debug)]
enum Habit {
    /// It takes a value when it was read so often since.
    Late(u32),
    /// It goes back to the value before when it was read so often since.
    FallsBack(u32),
    /// It takes another value when it was read so often since.
    Wanders(u32),
    /// The file is gone when it was read so often since.
    Vanishes(u32),
}

/// A machine with such a file.
struct Stubborn<'a> {
    tree: &'a Tree,
    path: &'a str,
    habit: Habit,
    /// What is still to come, and after how many reads.
    to_come: RefCell<Option<(u32, Option<String>)>>,
    /// Whether its habit has shown already: it has it once.
    shown: RefCell<bool>,
}

impl<'a> Stubborn<'a> {
    fn new(tree: &'a Tree, path: &'a str, habit: Habit) -> Self {
        Self { tree, path, habit, to_come: RefCell::new(None), shown: RefCell::new(false) }
    }

    /// A moment passes.
    fn tick(&self) {
        let mut to_come = self.to_come.borrow_mut();
        match to_come.take() {
            Some((0, Some(value))) => self.tree.set(self.path, &value),
            Some((0, None)) => self.tree.remove(self.path),
            Some((left, value)) => *to_come = Some((left - 1, value)),
            None => {}
        }
    }
}

impl Machine for Stubborn<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let found = (&self.tree).read(path);
        if path == Path::new(self.path) {
            self.tick();
        }
        found
    }

    fn write(&self, path: &Path, value: &[u8]) -> io::Result<()> {
        let before = self.tree.get(self.path);
        (&self.tree).write(path, value)?;
        if path != Path::new(self.path) {
            return Ok(());
        }
        let new = self.tree.get(self.path);
        let to_come = match self.habit {
            // Each time, and the last write counts.
            Habit::Late(reads) => {
                self.tree.set(self.path, before.as_deref().unwrap());
                Some((reads, new))
            }
            _ if self.shown.replace(true) => None,
            Habit::FallsBack(reads) => Some((reads, before)),
            Habit::Wanders(reads) => Some((reads, Some("77".into()))),
            Habit::Vanishes(reads) => Some((reads, None)),
        };
        // What is on its way is not stopped by another write, but for one that is late itself.
        if to_come.is_some() {
            *self.to_come.borrow_mut() = to_come;
        }
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        (&self.tree).list(folder)
    }

    fn link(&self, path: &Path) -> io::Result<PathBuf> {
        (&self.tree).link(path)
    }

    fn run(&self, argv: &[&str], limit: Duration) -> io::Result<CommandOutput> {
        (&self.tree).run(argv, limit)
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_unix_nanos(0)
    }
}

#[test]
fn a_value_that_comes_late_or_does_not_stay_is_noticed() {
    const TRIALS: u64 = 400;
    let path = format!("{QUEUE}/nr_requests");
    let mut ends: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 0..TRIALS {
        let mut choice = Seed(seed).stream("habits");
        let reads = choice.below(14) as u32;
        let habit =
            [Habit::Late(reads), Habit::FallsBack(reads), Habit::Wanders(reads), Habit::Vanishes(reads)]
                [choice.below(4)];
        // How many moments the workload takes.
        let span = choice.below(20);
        let tree = Tree::new(Tunables::Global, "powersave");
        let machine = Stubborn::new(&tree, &path, habit);
        let state = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
        let case = format!("seed {seed}: {habit:?}, {span} moments");
        let end = match ledger.apply(&requests(&[("nr_requests", "64")]), Some("sda")) {
            Err(error) => {
                let fits = matches!(
                    error,
                    Error::NotTaken { .. } | Error::Unsupported { .. } | Error::NotUndone { .. }
                );
                assert!(fits, "{case}: {error}");
                "refused"
            }
            Ok(mut records) => {
                let mut held = tree.get(&path).as_deref() == Some("64");
                for _ in 0..span {
                    machine.tick();
                    held &= tree.get(&path).as_deref() == Some("64");
                }
                let changed = ledger.reread(&mut records);
                assert!(held || changed.len() == 1, "{case}: not noticed, {records:?}");
                if held { "valid" } else { "disturbed" }
            }
        };
        let report = ledger.restore();
        // All that is still to come.
        (0..20).for_each(|_| machine.tick());
        let last = tree.get(&path);
        let told = report.foreign().chain(report.failed()).count() > 0;
        assert!(
            last.is_none() || last.as_deref() == Some("100") || told || end == "valid",
            "{case}: {last:?} {report:?}"
        );
        *ends.entry(end).or_default() += 1;
    }
    println!(
        "{TRIALS} trials with values that come late, fall back, wander or vanish: none unnoticed: {ends:?}"
    );
    assert_eq!(ends.len(), 3, "{ends:?}");
}

#[test]
fn a_value_that_is_late_for_a_moment_is_waited_for_in_both_directions() {
    let path = format!("{QUEUE}/nr_requests");
    for reads in 0..4 {
        let tree = Tree::new(Tunables::Global, "powersave");
        let machine = Stubborn::new(&tree, &path, Habit::Late(reads));
        let state = tempfile::tempdir().unwrap();
        let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
        let records = ledger.apply(&requests(&[("nr_requests", "64")]), Some("sda")).unwrap();
        assert_eq!(records[0].got, "64");
        assert!(ledger.restore().is_clean());
        assert_eq!(tree.get(&path).as_deref(), Some("100"));
    }
}

#[test]
fn a_value_that_would_come_after_it_was_given_up_does_not_come() {
    let path = format!("{QUEUE}/nr_requests");
    let tree = Tree::new(Tunables::Global, "powersave");
    let machine = Stubborn::new(&tree, &path, Habit::Late(1000));
    let state = tempfile::tempdir().unwrap();
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    let error = ledger.apply(&requests(&[("nr_requests", "64")]), Some("sda")).unwrap_err();
    assert!(matches!(error, Error::NotTaken { .. }), "{error}");
    (0..3000).for_each(|_| machine.tick());
    assert_eq!(tree.get(&path).as_deref(), Some("100"));
    assert!(
        status(state.path(), &machine).unwrap().changes.iter().all(|c| c.outcome == UndoOutcome::Untouched)
    );
}
