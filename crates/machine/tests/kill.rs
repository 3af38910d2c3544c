//! Killing real processes that change this real machine: loop devices of the test's own, vm sysctls, files.
//!
//! Needs root and loop devices; without them it says so and counts as skipped. It starts itself again as
//! `worker` and as `supervise`.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use domain::rng::Seed;
use domain::setting::{SettingName, SettingRequest};
use domain::units::Bytes;
use machine::ledger::{Fate, Ledger, RestoreReport, status};
use machine::supervise::{Ending, Supervisor, supervise_main};
use machine::{LocalMachine, LoopIo};
use rustix::process::{Pid, Signal};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SYSCTLS: [&str; 5] =
    ["dirty_expire_centisecs", "dirty_writeback_centisecs", "dirty_bytes", "dirty_ratio", "page-cluster"];

/// What a worker may ask for, beside its own loop device's settings.
const SETS: [&[(&str, &str)]; 5] = [
    &[("scheduler", "mq-deadline"), ("nr_requests", "64"), ("read_ahead_kb", "512")],
    &[("vm.dirty_expire_centisecs", "2900"), ("read_ahead_kb", "4096")],
    &[("vm.dirty_bytes", "1073741824"), ("scheduler", "bfq")],
    &[("vm.page-cluster", "2"), ("vm.dirty_writeback_centisecs", "600"), ("nomerges", "2")],
    // The kernel rounds this to whole pages, so that it is refused and taken back.
    &[("scheduler", "kyber"), ("read_ahead_kb", "333")],
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["worker", state, work, seed, watched] => worker(Path::new(state), Path::new(work), seed, watched),
        ["supervise", state] => supervise(Path::new(state)),
        _ => tests(),
    }
}

fn tests() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
        println!("skipped: 4 tests, killing real workers needs root and loop devices");
        return;
    }
    let tests: [(&str, fn()); 4] = [
        ("killed_workers_leave_nothing_behind", killed_workers_leave_nothing_behind),
        ("the_supervisor_cleans_up_after_a_killed_worker", the_supervisor_cleans_up_after_a_killed_worker),
        (
            "the_supervisor_outlives_the_signals_of_a_terminal",
            the_supervisor_outlives_the_signals_of_a_terminal,
        ),
        ("a_foreign_write_is_left_and_reported", a_foreign_write_is_left_and_reported),
    ];
    for (name, test) in tests {
        let begun = Instant::now();
        test();
        println!("test {name} ... ok ({:.1} s)", begun.elapsed().as_secs_f64());
    }
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

struct Folders {
    _root: tempfile::TempDir,
    state: PathBuf,
    work: PathBuf,
}

fn folders() -> Folders {
    let root = tempfile::tempdir().unwrap();
    let (state, work) = (root.path().join("state"), root.path().join("work"));
    fs::create_dir(&work).unwrap();
    Folders { _root: root, state, work }
}

fn myself() -> Command {
    Command::new(std::env::current_exe().unwrap())
}

fn start_worker(folders: &Folders, seed: u64, watched: &str) -> Child {
    let mut command = myself();
    command.arg("worker").args([&folders.state, &folders.work]).args([&seed.to_string(), watched]);
    command.process_group(0).stdout(Stdio::piped()).spawn().unwrap()
}

/// What a worker said before it was killed.
#[derive(Default)]
struct Said {
    loops: BTreeSet<String>,
    child: Option<u32>,
}

fn last_words(worker: &mut Child) -> Said {
    let mut said = Said::default();
    for line in BufReader::new(worker.stdout.take().unwrap()).lines().map_while(Result::ok) {
        match line.split_once(' ') {
            Some(("loop", name)) => drop(said.loops.insert(name.to_owned())),
            Some(("child", pid)) => said.child = pid.parse().ok(),
            _ => {}
        }
    }
    worker.wait().unwrap();
    said
}

fn killed_workers_leave_nothing_behind() {
    const ROUNDS: u64 = 200;
    let (before, folders) = (Before::look(), folders());
    let mut points = Seed(7).stream("kill points");
    let (mut restored, mut removed) = (0, 0);
    for round in 0..ROUNDS {
        let mut worker = start_worker(&folders, round, "alone");
        std::thread::sleep(Duration::from_secs_f64(0.120 * points.unit()));
        worker.kill().unwrap();
        let said = last_words(&mut worker);
        let (_ledger, report) =
            Ledger::open_within(Duration::from_secs(10), &folders.state, &LocalMachine).unwrap();
        let case = format!("round {round}: {report:?}");
        assert!(report.failed().next().is_none() && report.foreign().next().is_none(), "{case}");
        assert!(!report.undone.iter().any(|u| matches!(u.fate, Fate::Gone(_))), "{case}");
        let pending = report.undone.iter().filter_map(|u| u.path.strip_prefix("/dev/"));
        let made = said.loops.iter().map(String::as_str).chain(pending).map(str::to_owned).collect();
        before.assert_same(&folders.work, &made, &case);
        restored += count(&report, |fate| matches!(fate, Fate::Restored { .. }));
        removed += count(&report, |fate| *fate == Fate::Removed);
    }
    println!(
        "{ROUNDS} workers killed: {restored} settings put back, {removed} files and loop devices removed"
    );
    assert!(restored > 0 && removed > 0, "no worker was killed in the middle of its work");
}

fn count(report: &RestoreReport, is: impl Fn(&Fate) -> bool) -> usize {
    report.undone.iter().filter(|u| is(&u.fate)).count()
}

fn the_supervisor_cleans_up_after_a_killed_worker() {
    const ROUNDS: u64 = 40;
    let (before, folders) = (Before::look(), folders());
    let mut points = Seed(8).stream("kill points");
    let mut killed_children = 0;
    for round in 0..ROUNDS {
        let mut worker = start_worker(&folders, round, "watched");
        std::thread::sleep(Duration::from_secs_f64(0.150 * points.unit()));
        // All that a terminal or a shell could reach, not the worker alone.
        rustix::process::kill_process_group(Pid::from_child(&worker), Signal::KILL).unwrap();
        let said = last_words(&mut worker);
        wait_until_clean(&folders.state);
        before.assert_same(&folders.work, &said.loops, &format!("round {round}"));
        if let Some(child) = said.child {
            // A worker that was killed between two passes had an empty ledger: nothing else to wait for.
            let deadline = Instant::now() + Duration::from_secs(30);
            while runs(child) {
                assert!(Instant::now() < deadline, "round {round}: the workload still runs");
                std::thread::sleep(Duration::from_millis(2));
            }
            killed_children += 1;
        }
    }
    println!("{ROUNDS} watched workers killed, {killed_children} of them with a workload");
    assert!(killed_children > 0, "no worker was killed with its workload");
}

fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Until the ledger is empty and nobody holds it, with nobody but the supervisor to bring that about.
fn wait_until_clean(state: &Path) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let seen = status(state, &LocalMachine).unwrap();
        if seen.changes.is_empty() && !seen.holder.is_some_and(|h| h.alive) {
            return;
        }
        assert!(Instant::now() < deadline, "the supervisor did not clean up: {seen:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn the_supervisor_outlives_the_signals_of_a_terminal() {
    let folders = folders();
    let mut command = myself();
    command.arg("supervise").arg(&folders.state).env("ENDING", "done");
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

fn a_foreign_write_is_left_and_reported() {
    let (before, folders) = (Before::look(), folders());
    let path = "/proc/sys/vm/dirty_expire_centisecs";
    let (mut ledger, _) = Ledger::open(&folders.state, &LocalMachine).unwrap();
    ledger.apply(&requests(SETS[1])[..1], None).unwrap();
    // As a killed process leaves it.
    drop(ledger);
    fs::write(path, "12345").unwrap();
    let (_ledger, report) = Ledger::open(&folders.state, &LocalMachine).unwrap();
    assert_eq!(report.foreign().map(|u| u.path.as_str()).collect::<Vec<_>>(), [path]);
    assert_eq!(sysctl("dirty_expire_centisecs"), "12345");
    fs::write(path, &before.sysctls["dirty_expire_centisecs"]).unwrap();
    before.assert_same(&folders.work, &BTreeSet::new(), "after the foreign write");
}

fn requests(set: &[(&str, &str)]) -> Vec<SettingRequest> {
    let request = |(name, value): &(&str, &str)| SettingRequest {
        setting: SettingName::parse(name),
        value: (*value).to_owned(),
    };
    set.iter().map(request).collect()
}

/// Changes this machine, over and over, until it is killed.
fn worker(state: &Path, work: &Path, seed: &str, watched: &str) {
    let mut choice = Seed(seed.parse().unwrap()).stream("worker");
    let mut supervisor = (watched == "watched").then(|| {
        let mut command = myself();
        command.arg("supervise").arg(state);
        Supervisor::start(command).unwrap()
    });
    for pass in 0.. {
        let (mut ledger, report) = Ledger::open(state, &LocalMachine).unwrap();
        assert!(report.is_clean() && report.undone.is_empty(), "{report:?}");
        let file = ledger.create_file(&work.join(format!("data{pass}")), Bytes::from_mib(4)).unwrap();
        let device = ledger.attach_loop(&file, LoopIo::Buffered).unwrap();
        println!("loop {}", device.name);
        let shown = fs::read_to_string(format!("/sys/block/{}/loop/backing_file", device.name)).unwrap();
        assert_eq!(Path::new(shown.trim()), file.path, "what `losetup -l` shows");
        if let Some(supervisor) = supervisor.as_mut().filter(|_| pass == 0) {
            let workload = Command::new("sleep").arg("30").process_group(0).stdout(Stdio::null()).spawn();
            let id = workload.unwrap().id();
            supervisor.group(id).unwrap();
            println!("child {id}");
        }
        for _ in 0..3 {
            for _ in 0..=choice.below(2) {
                let set = SETS[choice.below(SETS.len())];
                let applied = ledger.apply(&requests(set), Some(&device.name));
                assert_eq!(applied.is_err(), set == SETS[4], "{applied:?}");
            }
            assert!(ledger.restore().is_clean());
        }
        assert!(ledger.finish().is_clean());
    }
}

fn supervise(state: &Path) {
    let ending = supervise_main(std::io::stdin().lock(), std::io::stdout(), state, &LocalMachine).unwrap();
    let done_is_meant = std::env::var_os("ENDING").is_some();
    match &ending {
        Ending::Done => assert!(done_is_meant),
        Ending::Recovered { report, .. } => assert!(report.failed().next().is_none(), "{report:?}"),
    }
}
