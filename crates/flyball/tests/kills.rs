//! The whole program, killed at any moment of a study over stacks of storage, half of the time again while it
//! recovers: nothing of it is left on this machine, and no trial is lost, changed or there twice.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support::{Place, child_of, is_root, pids, wait_until};
use domain::rng::{Rng, Seed};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};
use testing::Extent;

/// Filesystems with and without a journal, and with one on a device of its own; sysctls; a queue's settings;
/// fio, whose jobs live in sessions of their own.
const STUDY: &str = r#"
flyball = 1
name = "kills"
question = "Is anything left?"

[target]
file = "256KiB"

[stack.disks]
kind = "devices"
loop = "16MiB"

[stack.logs]
kind = "devices"
loop = "8MiB"

[stack.files]
kind = "filesystem"
on = "disks"
type = "ext4"

[workload.jobs]
tool = "fio"
options = { rw = "randwrite", bs = "4k", numjobs = 2, number_ios = 20, end_fsync = 1 }

[[factor.on.level]]
name = "ext2"
stack = { "files.type" = "ext2" }
settings = { "vm.extfrag_threshold" = 510, read_ahead_kb = 512 }

[[factor.on.level]]
name = "ext4"
settings = { scheduler = "mq-deadline", "vm.page_lock_unfairness" = 4 }

[[factor.on.level]]
name = "journal"
stack = { "files.journal" = "logs", "files.data" = "journal" }
settings = { "vm.watermark_scale_factor" = 11 }

[measure]
repeats = [2, 2]
settle = "0s"
drop_caches = false
under_load = true
"#;

/// Three levels, twice.
const TRIALS: usize = 6;

/// Ones that no other test writes.
const SYSCTLS: [&str; 3] = ["extfrag_threshold", "page_lock_unfairness", "watermark_scale_factor"];

fn sysctls() -> Vec<String> {
    SYSCTLS.map(|name| fs::read_to_string(format!("/proc/sys/vm/{name}")).unwrap()).into()
}

/// Sysctls are the whole machine's: two of these at once would see each other's.
fn alone() -> fs::File {
    let file = fs::File::create(std::env::temp_dir().join("flyball-kills-test.lock")).unwrap();
    file.lock().unwrap();
    file
}

/// Who is killed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Worker,
    Group,
    /// And the next run recovers, or `flyball restore`.
    WorkerAndSupervisor,
}

#[derive(Debug, Default)]
struct Figures {
    kills: u32,
    again: u32,
    trials: usize,
    runs: u32,
}

/// For so long a run looks at a busy machine before it begins.
const LOOK: Duration = Duration::from_secs(1);

/// In so many rounds the moment of the kill counts from the first thing that the run makes, in the others
/// from its start.
const FROM_ITS_WORK: f64 = 0.85;

/// A run that has made nothing by then is killed all the same.
const MAX_START: Duration = Duration::from_secs(20);

struct Killing {
    place: Place,
    study: String,
    points: Rng,
    sysctls: Vec<String>,
    /// What was found in the notebook's trials so far: folder to record.
    kept: BTreeMap<String, Vec<u8>>,
    figures: Figures,
    life: Duration,
    recovery: Duration,
}

#[test]
fn killed_at_any_moment_and_again_while_it_recovers_it_leaves_nothing_and_loses_and_doubles_no_trial() {
    if !is_root() || !Path::new("/dev/loop-control").exists() {
        eprintln!("skipped: needs root and loop devices");
        return;
    }
    let extent = Extent::of(24, 160);
    let (_alone, mut place) = (alone(), Place::new());
    // In memory where there is such a place: each start syncs its ledger and its trials dozens of times.
    if let Ok(folder) = tempfile::tempdir_in("/dev/shm") {
        place.folder = folder;
    }
    let mut killing = Killing {
        study: place.study("kills", STUDY),
        place,
        points: Seed(extent.seed).stream("kill points"),
        sysctls: sysctls(),
        kept: BTreeMap::new(),
        figures: Figures::default(),
        life: Duration::ZERO,
        recovery: Duration::from_millis(100),
    };
    let begun = Instant::now();
    killing.run_to_the_end();
    // From its start into its second trial: now and then one is kept, and at last all are there.
    killing.life = begun.elapsed().saturating_sub(LOOK) * 3 / 2 / TRIALS as u32;
    eprintln!("a run takes {:?}", begun.elapsed());
    while u64::from(killing.figures.kills) < extent.count {
        killing.round();
    }
    killing.run_to_the_end();
    let Figures { kills, again, trials, runs } = killing.figures;
    let figure =
        format!("{again} killed again during recovery; {trials} trials in {runs} runs, 0 lost, 0 doubled");
    testing::promise("killed-runs", kills, figure);
    assert!(kills < 20 || again >= kills * 2 / 5, "only {again} of {kills} were killed again");
}

impl Killing {
    fn start(&self) -> Child {
        let mut command = self.place.flyball(&["run", &self.study, "--seed", "3"]);
        let said = fs::File::create(self.place.path("said")).unwrap();
        command.process_group(0).stdout(Stdio::null()).stderr(said).spawn().unwrap()
    }

    /// Whether a run ended because its supervisor was gone. One that is killed a moment before it, alone or
    /// as a process of its group, may be missed by the run in that moment: before its first word, or at its
    /// last.
    fn has_missed_its_supervisor(&self, status: ExitStatus) -> bool {
        let said = fs::read_to_string(self.place.path("said")).unwrap();
        status.code() == Some(1) && said.contains("cannot start the supervisor")
    }

    fn round(&mut self) {
        let victim = [Victim::Worker, Victim::Group, Victim::WorkerAndSupervisor][self.points.below(3)];
        let case = format!("kill {}, {victim:?}", self.figures.kills);
        let mut run = self.start();
        if self.points.unit() < FROM_ITS_WORK {
            self.wait_for_its_work(&mut run);
        }
        std::thread::sleep(self.life.mul_f64(self.points.unit()));
        let supervisor = child_of(run.id(), "supervise");
        match (victim, supervisor) {
            (Victim::Group, _) => kill_process_group(Pid::from_child(&run), Signal::KILL).unwrap(),
            (Victim::WorkerAndSupervisor, Some(supervisor)) => {
                kill(supervisor);
                run.kill().unwrap();
            }
            _ => run.kill().unwrap(),
        }
        let status = run.wait().unwrap();
        let is_alone = victim != Victim::Worker && self.has_missed_its_supervisor(status);
        if status.signal() != Some(9) && !is_alone {
            assert!(matches!(status.code(), Some(0 | 3)), "{case}: it ended by itself, {status}");
            return self.all_are_there(&case);
        }
        self.figures.kills += 1;
        self.assert_no_trial_is_lost(&case);
        let left_to = supervisor.filter(|_| victim != Victim::WorkerAndSupervisor);
        let is_recovered = left_to.is_some_and(|supervisor| self.watched_recovery(supervisor, &case));
        // Killed in its last moments it had them all, and the next start would begin a second run.
        let is_whole = self.kept.keys().filter(|folder| folder.ends_with(".a0")).count() == TRIALS;
        if !is_recovered {
            // The next start finds everything as the dead left it.
            if left_to.is_none() && !is_whole && self.points.unit() < 0.3 {
                return;
            }
            self.restore(&case);
        }
        self.assert_nothing_is_left(&case);
        if is_whole {
            self.all_are_there(&case);
        }
    }

    /// Until it has made something, or has ended: while it looks at the machine there is nothing to recover
    /// from.
    fn wait_for_its_work(&self, run: &mut Child) {
        let begun = Instant::now();
        while self.place.work_files().is_empty()
            && run.try_wait().unwrap().is_none()
            && begun.elapsed() < MAX_START
        {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Eight of ten; and whenever fewer than half were, for on a busy machine a kill often comes too late for
    /// a recovery.
    fn is_killed_again(&mut self) -> bool {
        let is_drawn = self.points.unit() < 0.8;
        is_drawn || self.figures.again * 2 < self.figures.kills
    }

    /// Whether the supervisor lived to the end of it.
    fn watched_recovery(&mut self, supervisor: u32, case: &str) -> bool {
        let mut lives = true;
        if self.is_killed_again() {
            std::thread::sleep(self.recovery.mul_f64(self.points.unit()));
            lives = !(runs(supervisor) && kill(supervisor));
            self.figures.again += u32::from(!lives);
        }
        wait_until(&format!("{case}: the supervisor has ended"), || !runs(supervisor));
        lives
    }

    fn restore(&mut self, case: &str) {
        if self.is_killed_again() {
            let mut restore =
                self.place.flyball(&["restore"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(self.recovery.mul_f64(self.points.unit()));
            restore.kill().unwrap();
            let status = restore.wait().unwrap();
            // Or kept out by a supervisor, as below.
            let is_expected = matches!(status.code(), Some(0 | 4 | 5)) || status.signal() == Some(9);
            assert!(is_expected, "{case}: {status}");
            self.figures.again += u32::from(status.signal() == Some(9));
        }
        // A supervisor that was started after we had looked for one is at it: the lock keeps us out until it
        // has ended.
        let mut begun = Instant::now();
        let mut output = self.place.output(&["restore"]);
        wait_until(&format!("{case}: another Flyball has ended"), || {
            let is_kept_out = output.status.code() == Some(4);
            if is_kept_out {
                begun = Instant::now();
                output = self.place.output(&["restore"]);
            }
            !is_kept_out
        });
        let Output { status, stderr, .. } = output;
        let told = String::from_utf8_lossy(&stderr);
        // Somebody else may have been given the number of a loop device that was not made yet.
        let is_of_others =
            status.code() == Some(5) && told.lines().all(|l| l.starts_with("warning: /dev/loop"));
        assert!(status.success() || is_of_others, "{case}: {status}: {told}");
        self.recovery = self.recovery.mul_f64(0.9) + begun.elapsed().mul_f64(0.1);
    }

    fn assert_nothing_is_left(&self, case: &str) {
        let folder = self.place.folder.path().to_str().unwrap();
        let status: serde_json::Value = serde_json::from_str(&self.place.ok(&["status", "--json"])).unwrap();
        assert_eq!(status["changed"].as_array().map(Vec::len), Some(0), "{case}: {status}");
        assert_eq!(sysctls(), self.sysctls, "{case}");
        assert_eq!(lines_with("/proc/self/mountinfo", folder), Vec::<String>::new(), "{case}");
        assert_eq!(self.place.loops(), BTreeSet::new(), "{case}");
        assert_eq!(self.place.work_files(), Vec::<std::path::PathBuf>::new(), "{case}");
        wait_until(&format!("{case}: no process is left"), || processes_of(folder).is_empty());
    }

    fn trials(&self) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        for run in fs::read_dir(self.place.path("notebook/runs")).into_iter().flatten().flatten() {
            for trial in fs::read_dir(run.path().join("trials")).into_iter().flatten().flatten() {
                let path = trial.path();
                let record = fs::read(path.join("trial.json")).unwrap();
                found.insert(path.to_str().unwrap().to_owned(), record);
            }
        }
        found
    }

    /// What was kept once is kept as it was.
    fn assert_no_trial_is_lost(&mut self, case: &str) {
        let now = self.trials();
        for (folder, record) in &self.kept {
            assert!(now.get(folder) == Some(record), "{case}: `{folder}` is lost or changed");
        }
        self.kept = now;
    }

    /// Ends the run that is begun; each planned trial is there once, and no second run was begun.
    fn run_to_the_end(&mut self) {
        let status = self.start().wait().unwrap();
        assert!(matches!(status.code(), Some(0 | 3)), "the last start: {status}");
        self.all_are_there("the last start");
    }

    fn all_are_there(&mut self, case: &str) {
        self.assert_no_trial_is_lost(case);
        self.assert_nothing_is_left(case);
        let mut names = self.place.trials();
        names.retain(|name| name.ends_with(".a0"));
        let distinct: BTreeSet<&String> = names.iter().collect();
        assert_eq!((names.len(), distinct.len()), (TRIALS, TRIALS), "{case}: {names:?}");
        assert_eq!(fs::read_dir(self.place.path("notebook/runs")).unwrap().count(), 1, "{case}");
        let rows = self.place.ok(&["export", "kills", "--format", "csv"]);
        let told: BTreeSet<&str> = rows.lines().skip(1).collect();
        assert_eq!(told.len(), rows.lines().skip(1).count(), "{case}: a trial is told twice: {rows}");
        self.figures.trials += names.len();
        self.figures.runs += 1;
        self.kept.clear();
        fs::remove_dir_all(self.place.path("notebook")).unwrap();
    }
}

fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn kill(pid: u32) -> bool {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).is_ok()
}

/// Every process whose environment or arguments name a folder, but for the dead.
fn processes_of(folder: &str) -> Vec<u32> {
    let names = |pid: u32, file: &str| {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(folder)
    };
    pids().filter(|pid| runs(*pid) && (names(*pid, "environ") || names(*pid, "cmdline"))).collect()
}

fn lines_with(path: &str, word: &str) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().filter(|l| l.contains(word)).map(str::to_owned).collect()
}
