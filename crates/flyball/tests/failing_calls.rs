//! The kernel fails one system call of a run, whichever it is: a write, a flush, a rename or a truncation.
//! Nothing is left changed, no trial is torn, and the run can be gone on with.
//!
//! strace(1) fails the calls, by `inject=CALL:error=ERROR:when=N`, of the process that measures; its
//! supervisor and its workload are not touched.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it skips and what it found"
)]

use crate::support;
use crate::support::bounded::{self, Ended};
use crate::support::{Place, is_root};
use domain::rng::{Rng, Seed};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use testing::Extent;

/// What a filesystem can fail when it is full or its disk is.
const CALLS: [&str; 9] =
    ["write", "pwrite64", "writev", "fsync", "fdatasync", "rename", "renameat", "renameat2", "ftruncate"];

const ERRORS: [&str; 4] = ["EIO", "ENOSPC", "EDQUOT", "EROFS"];

/// A loop device with a setting of its queue, and a sysctl of no weight.
const STUDY: &str = r#"
flyball = 1
name = "calls"
question = "Is anything left, whatever fails?"

[target]
loop = "1MiB"

[workload.read]
tool = "command"
argv = ["dd", "if={target}", "of=/dev/null", "bs=64k", "status=none"]

[settings]
"vm.page_lock_unfairness" = 4
read_ahead_kb = 512

[measure]
metric = "elapsed"
repeats = [2, 2]
settle = "0s"
interval = "20ms"
retries = 0
drop_caches = false
"#;

const SYSCTL: &str = "/proc/sys/vm/page_lock_unfairness";

/// Of its one cell.
const TRIALS: usize = 2;

/// One call that fails: the so manieth of its name.
#[derive(Clone, Debug)]
struct Fault {
    call: String,
    number: u32,
    error: &'static str,
}

#[test]
fn whichever_call_fails_nothing_is_left_and_no_trial_is_torn() {
    if !is_root() || Command::new("strace").arg("-V").output().is_err() {
        return testing::skip("needs root, and strace to fail system calls");
    }
    let extent = Extent::of(16, 400);
    let place = Place::new();
    let study = place.study("calls", STUDY);
    let before = fs::read_to_string(SYSCTL).unwrap();
    let (mut met, mut missed, mut gave_up) = (BTreeMap::new(), 0, 0);
    for fault in drawn(&place, &study, extent) {
        let ended = place.run_with(&fault, &study);
        let case = format!("{fault:?} of seed {}: {}", extent.seed, ended.err);
        assert!(ended.fault().is_none(), "{case}: {:?}", ended.fault());
        // Runs differ by a few calls: of those that are near the end some are never made.
        let is_met = fs::read_to_string(place.path("calls")).unwrap().contains("(INJECTED)");
        missed += u32::from(!is_met);
        gave_up += u32::from(is_met && ended.status.is_some_and(|status| !status.success()));
        if is_met {
            *met.entry(fault.call.clone()).or_insert(0) += 1;
        }
        place.is_as_before(&before, &case);
        place.goes_on(&study, &case);
    }
    let count: u32 = met.values().sum();
    assert!(extent.count < 20 || count > missed, "{count} calls failed, {missed} were not made");
    testing::promise("failing-calls", count, format!("{met:?}; {gave_up} of the runs gave up"));
}

/// The faults of this extent: all where there are no more, else drawn without drawing one twice.
fn drawn(place: &Place, study: &str, extent: Extent) -> Vec<Fault> {
    let log = place.path("calls");
    let mut command = traced(&log, &["-e", &format!("trace={}", CALLS.join(","))]);
    let ended = bounded::run(with_program(&mut command, place, &["run", study]), place.folder.path());
    assert!(ended.fault().is_none(), "{}", ended.err);
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for line in fs::read_to_string(&log).unwrap().lines() {
        if let Some((call, _)) = line.split_once('(') {
            *counts.entry(call.to_owned()).or_default() += 1;
        }
    }
    place.forget();
    println!("a run makes {counts:?}");
    assert!(counts["write"] > 20 && counts["fsync"] > 5 && counts["rename"] > 2, "{counts:?}");
    let mut rng = Seed(extent.seed).stream("faults");
    // Flushes and renames are rare among writes: of each call one, then of each another, and so on.
    let mut all: Vec<(usize, String, u32)> = Vec::new();
    for (call, count) in counts {
        let mut numbers: Vec<u32> = (1..=count).collect();
        shuffle(&mut numbers, &mut rng);
        all.extend(numbers.into_iter().enumerate().map(|(turn, number)| (turn, call.clone(), number)));
    }
    all.sort();
    all.truncate(extent.count as usize);
    let fault = |(_, call, number)| Fault { call, number, error: ERRORS[rng.below(ERRORS.len())] };
    all.into_iter().map(fault).collect()
}

fn shuffle<T>(all: &mut [T], rng: &mut Rng) {
    for index in (1..all.len()).rev() {
        all.swap(index, rng.below(index + 1));
    }
}

fn traced(log: &Path, options: &[&str]) -> Command {
    let mut command = Command::new("strace");
    command.args(["-qq", "-o"]).arg(log).args(options);
    command
}

/// Adds the program with its arguments and its place.
fn with_program<'a>(command: &'a mut Command, place: &Place, arguments: &[&str]) -> &'a mut Command {
    let program = place.flyball(arguments);
    command.arg(program.get_program()).args(program.get_args()).current_dir(place.folder.path());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))))
}

impl Place {
    fn run_with(&self, fault: &Fault, study: &str) -> Ended {
        let Fault { call, number, error } = fault;
        let inject = format!("inject={call}:error={error}:when={number}");
        let mut command = traced(&self.path("calls"), &["-e", &format!("trace={call}"), "-e", &inject]);
        bounded::run(with_program(&mut command, self, &["run", study]), self.folder.path())
    }

    /// Nothing is left, at once or once it is restored.
    fn is_as_before(&self, before: &str, case: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let output = self.output(&["restore"]);
            // Its supervisor may be at it.
            if output.status.code() != Some(4) {
                assert!(output.status.success(), "{case}: restore: {}", support::stderr(&output));
                break;
            }
            assert!(Instant::now() < deadline, "{case}: the supervisor does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        let status: serde_json::Value = serde_json::from_str(&self.ok(&["status", "--json"])).unwrap();
        assert_eq!(status["changed"].as_array().map(Vec::len), Some(0), "{case}: {status}");
        assert_eq!(fs::read_to_string(SYSCTL).unwrap(), before, "{case}");
        assert_eq!(self.loops(), BTreeSet::new(), "{case}");
        assert_eq!(self.work_files(), Vec::<std::path::PathBuf>::new(), "{case}");
    }

    /// Every trial that is there is whole, and the next start measures the others.
    fn goes_on(&self, study: &str, case: &str) {
        let kept: BTreeSet<String> = self.trial_files().into_iter().collect();
        for record in &kept {
            assert!(
                serde_json::from_str::<serde_json::Value>(record).is_ok(),
                "{case}: a torn trial: {record}"
            );
        }
        let output = self.output(&["run", study]);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{case}: again: {}", support::stderr(&output));
        let now: BTreeSet<String> = self.trial_files().into_iter().collect();
        assert!(kept.is_subset(&now), "{case}: a trial is lost or changed");
        // One that was whole before began a second run.
        let expected = if kept.len() == TRIALS && now.len() > TRIALS { 2 * TRIALS } else { TRIALS };
        assert_eq!(now.len(), expected, "{case}: {:?}", self.trials());
        self.ok(&["export", "calls", "--format", "csv"]);
        self.forget();
    }

    fn forget(&self) {
        fs::remove_dir_all(self.path("notebook")).unwrap();
    }
}
