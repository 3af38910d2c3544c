//! Killing real processes that change this real machine: loop devices of the test's own and their queues, vm
//! sysctls, files, and filesystems that stacks make and mount.
//!
//! Needs root and loop devices; without them it says so and counts as skipped. It starts itself again as
//! `worker`, as `overwriter`, as `supervise` and as `recover`. When a process is killed is drawn from a seed
//! over how long such a process lives, which is measured first. How many are killed, and the seed, are those
//! of `testing::Extent`.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

use domain::rng::{Rng, Seed};
use domain::setting::{SettingName, SettingRequest};
use domain::stack::{LayerSpec, Stack, StackSpec};
use domain::units::Bytes;
use machine::claims::{Claims, open_claimed};
use machine::ledger::{Ledger, RestoreReport, UndoOutcome, status};
use machine::settings::Error;
use machine::stack::{self, BuildContext, Builder, Top};
use machine::supervise::{Ending, Supervisor, supervise_main};
use machine::{LocalMachine, LoopIo, workload};
use rustix::ioctl::{IntegerSetter, ioctl};
use rustix::process::{Pid, Signal};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use testing::Extent;

/// Ones that no other test writes.
const SYSCTLS: [&str; 5] = [
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirtytime_expire_seconds",
    "stat_interval",
    "vfs_cache_pressure",
];

/// What a worker may ask for, beside its own loop device's settings.
const SETS: [&[(&str, &str)]; 5] = [
    &[("scheduler", "mq-deadline"), ("nr_requests", "64"), ("read_ahead_kb", "512")],
    &[("vm.dirtytime_expire_seconds", "43100"), ("read_ahead_kb", "4096")],
    &[("vm.dirty_background_bytes", "536870912"), ("scheduler", "bfq")],
    &[("vm.stat_interval", "2"), ("vm.vfs_cache_pressure", "90"), ("nomerges", "2")],
    // The kernel rounds this to whole pages, so that it is refused and taken back.
    &[("scheduler", "kyber"), ("read_ahead_kb", "333")],
];

/// What a worker may build, one layer a line.
const STACKS: [&str; 5] = [
    "disks: kind=devices; loop=16MiB
     files: kind=filesystem; on=disks; type=ext2",
    "disks: kind=devices; loop=16MiB
     files: kind=filesystem; on=disks; type=ext4",
    "disks: kind=devices; loop=16MiB
     logs: kind=devices; loop=8MiB
     files: kind=filesystem; on=disks; type=ext4; journal=logs; data=journal",
    "disks: kind=devices; loop=16MiB
     logs: kind=devices; loop=8MiB
     files: kind=filesystem; on=disks; type=ext3; journal=logs",
    "disks: kind=devices; loop=16MiB
     image: kind=loop; on=disks; direct_io=true; sector_size=4096
     inner: kind=loop; on=image
     files: kind=filesystem; on=inner; type=ext2",
];

/// Every process of a test carries it, with the test's folder as its value.
const PLACE: &str = "KILLED_IN";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["worker", state, work, seed, watch, passes] => {
            let watch = Watch::named(watch);
            worker(Path::new(state), Path::new(work), seed, watch, passes.parse().unwrap());
        }
        ["overwriter", state, device] => overwriter(Path::new(state), Path::new(device)),
        ["supervise", state] => supervise(Path::new(state)),
        ["recover", state] => recover(Path::new(state)),
        _ => tests(&words.into_iter().filter(|word| !word.starts_with('-')).collect::<Vec<_>>()),
    }
}

/// As libtest names them, and in its form.
const TESTS: [(&str, fn()); 5] = [
    (
        "what_is_killed_at_any_moment_and_again_while_it_recovers_leaves_nothing",
        what_is_killed_at_any_moment_and_again_while_it_recovers_leaves_nothing,
    ),
    ("the_supervisor_outlives_the_signals_of_a_terminal", the_supervisor_outlives_the_signals_of_a_terminal),
    ("a_foreign_write_is_left_and_reported", a_foreign_write_is_left_and_reported),
    (
        "a_loop_device_that_is_bound_to_another_part_of_our_file_is_left",
        a_loop_device_that_is_bound_to_another_part_of_our_file_is_left,
    ),
    (
        "the_supervisor_of_a_killed_run_keeps_the_claim_of_its_disk_good",
        the_supervisor_of_a_killed_run_keeps_the_claim_of_its_disk_good,
    ),
];

/// Runs the tests whose names hold one of these words; all without one.
fn tests(words: &[&str]) {
    let is_possible = rustix::process::geteuid().is_root() && Path::new("/dev/loop-control").exists();
    let _alone = is_possible.then(alone);
    let mut failed = false;
    let is_wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    for (name, test) in TESTS.into_iter().filter(|(name, _)| is_wanted(name)) {
        let begun = Instant::now();
        let outcome = if is_possible {
            catch_unwind(test)
        } else {
            testing::skip("killing real workers needs root and loop devices");
            Ok(())
        };
        failed |= outcome.is_err();
        let told = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("test {name} ... {told} ({:.1} s)", begun.elapsed().as_secs_f64());
    }
    if failed {
        std::process::exit(101);
    }
}

/// Sysctls are the whole machine's: two of these at once would see each other's.
fn alone() -> fs::File {
    let path = std::env::temp_dir().join("flyball-kill-test.lock");
    let file = fs::File::create(path).unwrap();
    file.lock().unwrap();
    file
}

/// The machine as it was, which the test itself puts back should it fail.
struct Before {
    sysctls: BTreeMap<&'static str, String>,
    loops: BTreeSet<String>,
}

impl Before {
    fn look() -> Self {
        Self { sysctls: SYSCTLS.map(|name| (name, sysctl(name))).into(), loops: loops() }
    }

    /// `made` are the loop devices of this round. Others may make and remove theirs meanwhile, under the very
    /// numbers that ours gave back, so that a device counts as left only while it stays and is nobody's.
    fn assert_same(&self, work: &Path, made: &BTreeSet<String>, case: &str) {
        assert_eq!(Self::look().sysctls, self.sysctls, "{case}");
        assert_eq!(mounts_below(work), Vec::<String>::new(), "{case}");
        assert_eq!(bound_to(work), BTreeSet::new(), "{case}");
        let files: Vec<_> = fs::read_dir(work).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(files.is_empty(), "{case}: {files:?}");
        let deadline = Instant::now() + Duration::from_secs(3);
        let left = |name: &&String| !self.loops.contains(*name) && loops().contains(*name) && !is_bound(name);
        while let Some(name) = made.iter().find(left) {
            assert!(Instant::now() < deadline, "{case}: {name} is left");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        for (name, value) in &self.sysctls {
            if sysctl(name) != *value && value != "0" {
                let _ = fs::write(format!("/proc/sys/vm/{name}"), value);
            }
        }
    }
}

fn sysctl(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/vm/{name}")).unwrap().trim().to_owned()
}

fn loops() -> BTreeSet<String> {
    let names = fs::read_dir("/sys/block").unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("loop")).collect()
}

fn is_bound(name: &str) -> bool {
    Path::new(&format!("/sys/block/{name}/loop/backing_file")).exists()
}

/// Loop devices over files of this folder.
fn bound_to(work: &Path) -> BTreeSet<String> {
    let file = |name: &String| fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
    loops().into_iter().filter(|n| file(n).is_ok_and(|f| f.starts_with(work.to_str().unwrap()))).collect()
}

fn mounts_below(work: &Path) -> Vec<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
    text.lines().filter(|line| line.contains(work.to_str().unwrap())).map(str::to_owned).collect()
}

struct Folders {
    root: tempfile::TempDir,
    state: PathBuf,
    work: PathBuf,
}

/// In memory where there is such a place: each round syncs its ledger dozens of times.
fn folders() -> Folders {
    let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let (state, work) = (root.path().join("state"), root.path().join("work"));
    fs::create_dir(&work).unwrap();
    Folders { root, state, work }
}

impl Folders {
    fn myself(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(PLACE, self.root.path());
        command
    }

    fn worker(&self, seed: u64, watch: Watch, passes: u32) -> Child {
        let mut command = self.myself();
        command.arg("worker").args([&self.state, &self.work]).args([
            &seed.to_string(),
            watch.name(),
            &passes.to_string(),
        ]);
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn recoverer(&self) -> Child {
        self.myself().arg("recover").arg(&self.state).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The processes of this test, but for itself.
    fn processes(&self) -> Vec<u32> {
        let wanted = format!("{PLACE}={}", self.root.path().display());
        let carries = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) && runs(*pid)
        };
        pids().filter(carries).collect()
    }
}

fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok())
}

fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// The processes that a process started, with their arguments.
fn children(parent: u32) -> Vec<(u32, String)> {
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').nth(1).unwrap_or("").to_owned());
        fields.is_some_and(|field| field == parent.to_string())
    };
    let arguments = |pid: u32| {
        let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        (pid, String::from_utf8_lossy(&bytes).replace('\0', " "))
    };
    pids().filter(is_child).map(arguments).collect()
}

fn kill(pid: u32) -> bool {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).is_ok()
}

/// What a worker said before it was killed.
#[derive(Default)]
struct Said {
    loops: BTreeSet<String>,
    workload: Option<u32>,
    tools_killed: usize,
}

/// A worker that ended by itself has found something wrong.
fn last_words(mut worker: Child, case: &str) -> Said {
    let mut said = Said::default();
    for line in BufReader::new(worker.stdout.take().unwrap()).lines().map_while(Result::ok) {
        match line.split_once(' ') {
            Some(("loop", name)) => drop(said.loops.insert(name.to_owned())),
            Some(("workload", pid)) => said.workload = pid.parse().ok(),
            Some(("killed", _)) => said.tools_killed += 1,
            _ => {}
        }
    }
    let status = worker.wait().unwrap();
    if status.signal() != Some(9) {
        let mut errors = String::new();
        let _ = worker.stderr.take().unwrap().take(4096).read_to_string(&mut errors);
        panic!("{case}: the worker ended by itself, {status}: {errors}");
    }
    said
}

/// Who is killed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// A worker that nobody watches over.
    Alone,
    /// A worker, and not its supervisor.
    Watched,
    /// All that a terminal or a shell could reach of a watched worker.
    Group,
    /// A worker and its supervisor.
    Both,
}

const VICTIMS: [Victim; 4] = [Victim::Alone, Victim::Watched, Victim::Group, Victim::Both];

/// Who watches over a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    Nobody,
    /// A supervisor that outlives it.
    Supervisor,
    /// A supervisor that may be killed a moment before it. In that moment the worker may speak to a dead
    /// supervisor, or still wait for its first word.
    Mortal,
}

impl Watch {
    fn over(victim: Victim) -> Self {
        match victim {
            Victim::Alone => Self::Nobody,
            Victim::Watched => Self::Supervisor,
            // A supervisor that has not left the group yet is killed with it, and maybe first.
            Victim::Group | Victim::Both => Self::Mortal,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Supervisor => "supervisor",
            Self::Mortal => "mortal",
        }
    }

    fn named(name: &str) -> Self {
        [Self::Nobody, Self::Supervisor, Self::Mortal].into_iter().find(|w| w.name() == name).unwrap()
    }

    fn start(self, state: &Path) -> Option<Supervisor> {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("supervise").arg(state);
        match self {
            Self::Nobody => None,
            Self::Supervisor => Some(Supervisor::start(command).unwrap()),
            // Without a supervisor Flyball changes nothing.
            Self::Mortal => Some(Supervisor::start(command).unwrap_or_else(|error| until_killed(&error))),
        }
    }

    /// What was said to a supervisor. Flyball itself warns and goes on where it is gone.
    fn heard(self, said: Result<(), Error>) {
        match said {
            Err(error) if self == Self::Mortal => eprintln!("warning: {error}"),
            said => said.unwrap(),
        }
    }
}

/// Its parent is about to kill it.
fn until_killed(error: &Error) -> ! {
    eprintln!("warning: {error}");
    loop {
        std::thread::park();
    }
}

/// What many kills came to.
#[derive(Debug, Default)]
struct Figures {
    kills: u32,
    again: u32,
    tools: usize,
    workloads: u32,
    latecomers: u32,
    /// What recoveries did that lived to tell it: settings, mounts, loop devices, files and folders.
    undone: [usize; 4],
}

struct Killing {
    before: Before,
    folders: Folders,
    points: Rng,
    figures: Figures,
    /// How long a worker lives by itself, and how long a recovery takes.
    life: Duration,
    recovery: Duration,
}

fn what_is_killed_at_any_moment_and_again_while_it_recovers_leaves_nothing() {
    let extent = Extent::of(120, 1000);
    let folders = folders();
    let mut killing = Killing {
        before: Before::look(),
        life: life(&folders),
        folders,
        points: Seed(extent.seed).stream("kill points"),
        figures: Figures::default(),
        recovery: Duration::from_millis(50),
    };
    println!("a worker lives {:?}", killing.life);
    for round in 0..extent.count {
        killing.round(extent.seed.wrapping_add(round), round);
    }
    killing.figures.tell(killing.recovery);
}

impl Figures {
    /// Prints them, and wants that the kills have met with all that can be met.
    fn tell(&self, recovery: Duration) {
        let Self { kills, again, tools, workloads, latecomers, undone: [settings, mounts, loops, files] } =
            self;
        println!(
            "{kills} kills ({again} again during recovery, {tools} tools besides, {workloads} workloads, {latecomers} of them ended by a second recovery): {settings} settings put back, {mounts} mounts, {loops} loop devices, {files} files removed; 0 left; a recovery took {recovery:?}"
        );
        // Few rounds, or many on a busy machine, meet with little in particular.
        if *kills >= 100 {
            assert!(*again >= kills * 2 / 5, "only {again} of {kills} were killed again");
            assert!(mounts + loops + files > *kills as usize / 4, "too little undone: {self:?}");
            assert!(*workloads > kills / 10, "too little killed: {self:?}");
        }
        let all = [settings, mounts, loops, files, tools];
        // Where all are killed; a tenth of them may meet with few of a kind.
        assert!(*kills < 1000 || all.iter().all(|n| **n > 50), "too little undone: {self:?}");
        assert!(*latecomers <= kills / 100, "{latecomers} workloads outlived a recovery");
        testing::promise("real-kills", kills, "workers, their supervisors or their process groups");
        testing::promise(
            "real-kills-in-recovery",
            again,
            "supervisors and recoveries, on the same occasions",
        );
    }
}

/// The mean of workers that do their work once.
fn life(folders: &Folders) -> Duration {
    const WORKERS: u32 = 4;
    let begun = Instant::now();
    for seed in 0..WORKERS {
        let worker = folders.worker(u64::from(seed), Watch::Supervisor, 1).wait_with_output().unwrap();
        assert!(worker.status.success(), "{}", String::from_utf8_lossy(&worker.stderr));
    }
    begun.elapsed() / WORKERS
}

impl Killing {
    fn round(&mut self, seed: u64, round: u64) {
        let victim = VICTIMS[round as usize % VICTIMS.len()];
        let case = format!("round {round} of seed {seed}, {victim:?}");
        let worker = self.folders.worker(seed, Watch::over(victim), u32::MAX);
        if round % 5 == 4 {
            self.kill_a_tool(worker.id());
        }
        std::thread::sleep(self.life.mul_f64(self.points.unit()));
        let supervisor = supervisor_of(worker.id());
        match victim {
            Victim::Alone | Victim::Watched => assert!(kill(worker.id())),
            Victim::Group => {
                rustix::process::kill_process_group(Pid::from_child(&worker), Signal::KILL).unwrap();
            }
            Victim::Both => {
                supervisor.map(kill);
                assert!(kill(worker.id()));
            }
        }
        self.figures.kills += 1;
        let said = last_words(worker, &case);
        self.figures.tools += said.tools_killed;
        let pending = status(&self.folders.state, &LocalMachine).map(|s| s.changes).unwrap_or_default();
        let of_loops = pending.iter().filter_map(|c| c.path.strip_prefix("/dev/").map(str::to_owned));
        let made: BTreeSet<String> = said.loops.iter().cloned().chain(of_loops).collect();
        match supervisor.filter(|_| matches!(victim, Victim::Watched | Victim::Group)) {
            Some(supervisor) => self.watched_recovery(supervisor, &case),
            None => self.recovery(&case),
        }
        self.assert_nothing_is_left(&made, &case);
        if let Some(workload) = said.workload {
            // Its id cannot have become another one's within this round.
            assert!(!runs(workload), "{case}: the workload still runs");
            self.figures.workloads += 1;
        }
    }

    /// The next one that it starts, but for its supervisor and its workload.
    fn kill_a_tool(&mut self, worker: u32) {
        let tries = Instant::now() + self.life.mul_f64(self.points.unit());
        let from = Instant::now() + self.life.mul_f64(0.7 * self.points.unit());
        while Instant::now() < tries.max(from + Duration::from_millis(20)) {
            let is_tool = |(_, arguments): &&(u32, String)| {
                ["mke2fs", "mount", "wipefs", "umount"].iter().any(|tool| arguments.starts_with(tool))
            };
            if Instant::now() > from
                && let Some((pid, _)) = children(worker).iter().find(is_tool)
            {
                kill(*pid);
                return;
            }
        }
    }

    /// Seven of ten; and whenever fewer than half were, for on a busy machine a kill often comes too late for
    /// a recovery.
    fn is_killed_again(&mut self) -> bool {
        let is_drawn = self.points.unit() < 0.7;
        is_drawn || self.figures.again * 2 < self.figures.kills
    }

    fn watched_recovery(&mut self, supervisor: u32, case: &str) {
        if self.is_killed_again() {
            std::thread::sleep(self.recovery.mul_f64(self.points.unit()));
            if runs(supervisor) && kill(supervisor) {
                self.figures.again += 1;
            }
            wait_until(&format!("{case}: the supervisor is dead"), || !runs(supervisor));
            return self.recovery(case);
        }
        let begun = Instant::now();
        wait_until(&format!("{case}: the supervisor has ended"), || !runs(supervisor));
        self.took(begun.elapsed());
    }

    fn recovery(&mut self, case: &str) {
        if self.is_killed_again() {
            let mut recoverer = self.folders.recoverer();
            std::thread::sleep(self.recovery.mul_f64(self.points.unit()));
            recoverer.kill().unwrap();
            let status = recoverer.wait().unwrap();
            assert!(status.success() || status.signal() == Some(9), "{case}: {status}");
            self.figures.again += u32::from(status.signal() == Some(9));
        }
        let begun = Instant::now();
        let recovered = self.folders.recoverer().wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&recovered.stderr);
        assert!(recovered.status.success(), "{case}: {}: {errors}", recovered.status);
        self.took(begun.elapsed());
    }

    /// Slowly, for what one recovery finds to do differs from what another one does.
    fn took(&mut self, recovery: Duration) {
        self.recovery = self.recovery.mul_f64(0.9) + recovery.mul_f64(0.1);
    }

    /// What was being started when worker and supervisor died carries no mark until it runs: a recovery that
    /// looks too early does not see it, and the next one ends it.
    fn end_latecomers(&mut self, case: &str) {
        let soon = Instant::now() + Duration::from_secs(2);
        while !self.folders.processes().is_empty() && Instant::now() < soon {
            std::thread::sleep(Duration::from_millis(2));
        }
        if !self.folders.processes().is_empty() {
            self.figures.latecomers += 1;
            assert!(self.folders.recoverer().wait().unwrap().success(), "{case}");
        }
        wait_until(&format!("{case}: no process is left"), || self.folders.processes().is_empty());
    }

    fn assert_nothing_is_left(&mut self, made: &BTreeSet<String>, case: &str) {
        let seen = status(&self.folders.state, &LocalMachine).unwrap();
        assert!(seen.changes.is_empty() && seen.problems.is_empty(), "{case}: {seen:?}");
        self.before.assert_same(&self.folders.work, made, case);
        self.end_latecomers(case);
        // One line for each recovery that lived to write it.
        let counts = self.folders.root.path().join("undone");
        for line in fs::read_to_string(&counts).unwrap_or_default().lines() {
            for (sum, count) in self.figures.undone.iter_mut().zip(line.split(' ')) {
                *sum += count.parse::<usize>().unwrap();
            }
        }
        let _ = fs::remove_file(counts);
    }
}

fn supervisor_of(worker: u32) -> Option<u32> {
    let all = children(worker);
    all.iter().find(|(_, arguments)| arguments.contains(" supervise ")).map(|(pid, _)| *pid)
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn the_supervisor_outlives_the_signals_of_a_terminal() {
    let folders = folders();
    let mut command = folders.myself();
    command.arg("supervise").arg(&folders.state);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        rustix::process::kill_process(Pid::from_child(&child), signal).unwrap();
    }
    child.stdin.take().unwrap().write_all(b"done\n").unwrap();
    assert!(child.wait().unwrap().success());
}

/// Somebody detaches ours and binds its number to the very file, from an offset on.
fn a_loop_device_that_is_bound_to_another_part_of_our_file_is_left() {
    let folders = folders();
    let (mut ledger, _) = Ledger::open(&folders.state, &LocalMachine).unwrap();
    let file = ledger.create_file(&folders.work.join("data"), Bytes::from_mib(4)).unwrap();
    let device = ledger.attach_loop(&file, LoopIo::Buffered).unwrap();
    let losetup = |words: &[&str]| {
        let status = Command::new("losetup").args(words).arg(&device.path).status();
        assert!(status.unwrap().success(), "losetup {words:?}");
    };
    losetup(&["--detach"]);
    let shown = format!("/sys/block/{}/loop/offset", device.name);
    let bound = Command::new("losetup").args(["--offset", "4096"]).args([&device.path, &file.path]).status();
    assert!(bound.unwrap().success());
    let report = ledger.finish();
    assert_eq!(fs::read_to_string(shown).unwrap().trim(), "4096", "theirs is still there");
    losetup(&["--detach"]);
    let foreign: Vec<String> = report.foreign().map(ToString::to_string).collect();
    assert_eq!(foreign.len(), 1, "{report:?}");
    assert!(foreign[0].contains("bound to another part of our file"), "{foreign:?}");
    let number: usize = device.name.trim_start_matches("loop").parse().unwrap();
    wait_until("its number is free", || {
        let control = fs::File::options().read(true).write(true).open("/dev/loop-control").unwrap();
        // SAFETY: LOOP_CTL_REMOVE of loop(4) takes a number.
        unsafe { ioctl(&control, IntegerSetter::<0x4C81>::new_usize(number)).is_ok() }
    });
}

fn a_foreign_write_is_left_and_reported() {
    let extent = Extent::of(100, 1000);
    let (before, folders) = (Before::look(), folders());
    let mut choice = Seed(extent.seed).stream("foreign writes");
    for round in 0..extent.count {
        foreign_write(&folders, &before, &mut choice, &format!("write {round} of seed {}", extent.seed));
    }
    before.assert_same(&folders.work, &BTreeSet::new(), "after the foreign writes");
    testing::promise("foreign-writes", extent.count, "sysctls of this machine, all left and reported");
}

/// Sysctls with a weightless value of ours and the values that somebody else may write: no two of them are
/// coupled.
const FREE: [(&str, &str, usize); 3] = [
    ("dirtytime_expire_seconds", "43100", 40_000),
    ("stat_interval", "2", 100),
    ("vfs_cache_pressure", "90", 200),
];

/// Somebody else writes to one of three sysctls that Flyball has changed; then it restores, or is recovered
/// from.
fn foreign_write(folders: &Folders, before: &Before, choice: &mut Rng, case: &str) {
    // What has our value already is not changed.
    let free = FREE.map(
        |(name, ours, most)| {
            if before.sysctls[name] == ours { (name, "3", most) } else { (name, ours, most) }
        },
    );
    let set = free.map(|(name, ours, _)| (format!("vm.{name}"), ours));
    let set: Vec<(&str, &str)> = set.iter().map(|(name, ours)| (name.as_str(), *ours)).collect();
    let (mut ledger, _) = Ledger::open(&folders.state, &LocalMachine).unwrap();
    ledger.apply(&requests(&set), None).unwrap();
    let (name, ours, most) = free[choice.below(free.len())];
    let was = &before.sysctls[name];
    let theirs = (1..).map(|_| (1 + choice.below(most)).to_string()).find(|v| v != ours && v != was).unwrap();
    let path = format!("/proc/sys/vm/{name}");
    fs::write(&path, &theirs).unwrap();
    let report = if choice.below(2) == 0 {
        ledger.finish()
    } else {
        // As a killed process leaves it.
        drop(ledger);
        Ledger::open(&folders.state, &LocalMachine).unwrap().1
    };
    assert_eq!(report.foreign().map(|u| &u.path).collect::<Vec<_>>(), [&path], "{case}: {report:?}");
    assert_eq!(report.restored().count(), FREE.len() - 1, "{case}: {report:?}");
    assert_eq!(sysctl(name), theirs, "{case}");
    fs::write(path, was).unwrap();
    assert_eq!(Before::look().sysctls, before.sysctls, "{case}");
}

fn the_supervisor_of_a_killed_run_keeps_the_claim_of_its_disk_good() {
    let folders = folders();
    let file = folders.work.join("disk");
    fs::File::create(&file).unwrap().set_len(32 << 20).unwrap();
    let output = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().unwrap();
    let device = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    let rules = (folders.root.path().join("rules.d"), folders.root.path().join("no-udev"));
    Claims::at(&folders.state).with_rules_in(&rules.0, &rules.1).claim(&device, &BTreeSet::new()).unwrap();
    let mut command = folders.myself();
    command.arg("overwriter").args([&folders.state, &device]).stdout(Stdio::piped());
    let mut run = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "written\n");
    run.kill().unwrap();
    run.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !folders.processes().is_empty() {
        assert!(Instant::now() < deadline, "the supervisor does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    let opened = open_claimed(&folders.state, &device).map(drop);
    let left = fs::read(&device).unwrap();
    let _ = Command::new("losetup").arg("--detach").arg(&device).status();
    opened.unwrap();
    assert!(left[..8 << 20].iter().all(|byte| *byte == 0) && left[12 << 20] == 7);
    assert_eq!(status(&folders.state, &LocalMachine).unwrap().changes, []);
}

/// Writes to a claimed disk, says so, and waits until it is killed.
fn overwriter(state: &Path, device: &Path) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("supervise").arg(state);
    let _supervisor = Supervisor::start(command).unwrap();
    let (mut ledger, _) = Ledger::open(state, &LocalMachine).unwrap();
    let claimed = ledger.overwrite(open_claimed(state, device).unwrap()).unwrap();
    fs::OpenOptions::new().write(true).open(claimed.pinned()).unwrap().write_all(&vec![7; 20 << 20]).unwrap();
    println!("written");
    std::thread::sleep(Duration::from_secs(600));
}

fn requests(set: &[(&str, &str)]) -> Vec<SettingRequest> {
    let request = |(name, value): &(&str, &str)| SettingRequest {
        setting: SettingName::parse(name),
        value: (*value).to_owned(),
    };
    set.iter().map(request).collect()
}

/// Changes this machine, over and over, until it is killed or has done so often enough.
fn worker(state: &Path, work: &Path, seed: &str, watch: Watch, passes: u32) {
    let mut choice = Seed(seed.parse().unwrap()).stream("worker");
    let mut supervisor = watch.start(state);
    let mut started = None;
    for pass in 0..passes {
        let (mut ledger, report) = Ledger::open(state, &LocalMachine).unwrap();
        assert!(report.is_clean() && report.undone.is_empty(), "{report:?}");
        if let Some(supervisor) = supervisor.as_mut().filter(|_| pass == 0) {
            let mut command = Command::new("sleep");
            command.env(workload::VARIABLE, workload::Mark::new().as_str());
            command.arg("60").process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
            let id = started.insert(command.spawn().unwrap()).id();
            watch.heard(supervisor.group(id));
            println!("workload {id}");
        }
        let ground = BuildContext { work: work.to_owned(), lab_disks: false, state: state.to_owned() };
        let mut builder = Builder::new(ground).unwrap();
        for _ in 0..=choice.below(2) {
            one_footing(&mut ledger, &mut builder, state, work, pass, &mut choice);
        }
        let report = ledger.finish();
        assert!(report.is_clean(), "{report:?}");
    }
    started.into_iter().for_each(|mut workload: Child| workload.kill().unwrap());
    if let Some(supervisor) = supervisor {
        watch.heard(supervisor.done());
    }
}

/// A file with a loop device, or a stack; settings over it, there and back.
fn one_footing(
    ledger: &mut Ledger<'_>,
    builder: &mut Builder,
    state: &Path,
    work: &Path,
    pass: u32,
    choice: &mut Rng,
) {
    let device = if choice.below(4) == 0 && !work.join(format!("data{pass}")).exists() {
        let file = ledger.create_file(&work.join(format!("data{pass}")), Bytes::from_mib(4)).unwrap();
        let device = ledger.attach_loop(&file, LoopIo::Buffered).unwrap();
        let shown = fs::read_to_string(format!("/sys/block/{}/loop/backing_file", device.name)).unwrap();
        assert_eq!(Path::new(shown.trim()), file.path, "what `losetup -l` shows");
        Some(device.name)
    } else {
        stand(ledger, builder, &parsed(STACKS[choice.below(STACKS.len())]))
    };
    for change in status(state, &LocalMachine).unwrap().changes {
        change.path.strip_prefix("/dev/").into_iter().for_each(|name| println!("loop {name}"));
    }
    // Without one, a tool was killed.
    let Some(device) = device else { return };
    for _ in 0..=choice.below(2) {
        let set = SETS[choice.below(SETS.len())];
        let applied = ledger.apply(&requests(set), Some(&device));
        assert_eq!(applied.is_err(), set == SETS[4], "{applied:?}");
    }
    let report = ledger.restore();
    assert!(report.is_clean(), "{report:?}");
}

/// Builds a stack and writes to it; `None` where one of its tools was killed, and everything was taken back.
fn stand(ledger: &mut Ledger<'_>, builder: &mut Builder, stack: &Stack) -> Option<String> {
    match builder.stand(ledger, stack, &AtomicBool::new(false)) {
        Ok(standing) => {
            let Top::Folder(folder, device) = standing.top else { panic!("{:?}", standing.top) };
            fs::write(folder.join("target"), vec![7; 1 << 20]).unwrap();
            Some(device.name)
        }
        Err(stack::Error::Command { said, .. }) if said.starts_with("it was killed") => {
            println!("killed {said}");
            builder.clear(ledger).unwrap();
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn parsed(text: &str) -> Stack {
    let layer = |line: &str| {
        let (name, rest) = line.trim().split_once(": ").unwrap();
        let values = rest.split("; ").map(|pair| pair.split_once('=').unwrap());
        LayerSpec { name: name.into(), values: values.map(|(k, v)| (k.into(), v.into())).collect() }
    };
    StackSpec { layers: text.lines().map(layer).collect() }.build().unwrap()
}

fn supervise(state: &Path) {
    let ending = supervise_main(std::io::stdin().lock(), std::io::stdout(), state, &LocalMachine).unwrap();
    if let Ending::Recovered { report, .. } = &ending {
        tell(report);
    }
}

/// What `flyball restore` does.
fn recover(state: &Path) {
    let patience = Duration::from_secs(10);
    let (_ledger, report) = machine::recovery::open_within(patience, state, &LocalMachine).unwrap();
    tell(&report);
}

/// Wants everything undone, and adds a line with what was.
fn tell(report: &RestoreReport) {
    // Somebody else may have been given the number of a loop device that we had not made yet.
    let is_foreign = report.foreign().any(|undone| !undone.what.starts_with("/dev/loop"));
    assert!(report.failed().next().is_none() && !is_foreign, "{report:?}");
    assert!(!report.undone.iter().any(|u| matches!(u.outcome, UndoOutcome::Gone(_))), "{report:?}");
    let mut counts = [0; 4];
    for undone in report.restored() {
        let kind = match (&undone.outcome, undone.what.as_str()) {
            (UndoOutcome::Restored { .. }, _) => 0,
            (_, what) if what.starts_with("mount on ") => 1,
            (_, what) if what.starts_with("/dev/loop") => 2,
            _ => 3,
        };
        counts[kind] += 1;
    }
    let line = counts.map(|count: u32| count.to_string()).join(" ");
    let path = Path::new(&std::env::var_os(PLACE).unwrap()).join("undone");
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    writeln!(file, "{line}").unwrap();
}
