//! Recordings of this machine.

#![allow(clippy::unwrap_used, reason = "it is a test")]

mod memory;

use domain::Nanos;
use domain::trace::Role;
use memory::{Memory, trace};
use recorder::{Interval, Live, Recorder, RecorderConfig, Recording, Writing};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const INTERVAL: Nanos = Nanos::from_millis(5);

/// By how much the clock of a thread that runs on another CPU may be stale: a scheduler tick at HZ=100.
const TICK: Nanos = Nanos::from_millis(10);

fn start() -> (Recorder, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let config = RecorderConfig::new(INTERVAL, folder.path().join("spool"));
    (Recorder::start(config).unwrap(), folder)
}

/// Runs a shell script in a process group of its own, to its end; what `wait4` accounts to it.
fn run(recorder: &Recorder, script: &str) -> Nanos {
    let mut shell = Command::new("sh");
    let child = shell.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    let child = child.spawn().unwrap();
    recorder.follow(child.id());
    wait(child)
}

fn wait(child: Child) -> Nanos {
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: rusage is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let mut status = 0;
    // SAFETY: both are valid and writable; the child is ours and has not been waited for.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    assert_eq!(waited, pid);
    let micros = |time: libc::timeval| (time.tv_sec * 1_000_000 + time.tv_usec).unsigned_abs();
    Nanos::from_micros(micros(usage.ru_utime) + micros(usage.ru_stime))
}

const BUSY: &str = "i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done";

/// The workload's sampled time is its own account, but for what its processes' ends hide: the time since the
/// last sample, which is long where this machine is busy, and a tick.
fn check_workload(recording: &Recording, rusage: Nanos, ends: u64) {
    let seen = recording.roles().get(&Role::Workload).copied().unwrap_or_default();
    let times = trace(recording).times;
    let gap = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    let unseen = Nanos::new((gap + TICK).get() * ends);
    assert!(seen + unseen >= rusage, "seen {seen} of {rusage}, samples at most {gap} apart");
    assert!(seen <= rusage + TICK, "seen {seen} of {rusage}");
    assert!(seen.get() > rusage.get() / 2, "seen {seen} of {rusage}");
}

#[test]
fn a_workloads_cpu_time_is_its_own_account() {
    let (recorder, _folder) = start();
    let rusage = run(&recorder, BUSY);
    let recording = recorder.stop().unwrap();
    check_workload(&recording, rusage, 1);
    assert_eq!(recording.threads().iter().find(|t| t.role == Role::Workload).unwrap().name, "sh");
}

#[test]
fn children_of_the_workload_are_the_workload() {
    let (recorder, _folder) = start();
    let rusage = run(&recorder, &format!("({BUSY}) & ({BUSY}); wait"));
    check_workload(&recorder.stop().unwrap(), rusage, 3);
}

#[test]
fn an_orphan_stays_in_the_workload_by_its_group() {
    let (recorder, _folder) = start();
    // The outer subshell ends at once, so that the busy one has no parent of the workload any more.
    let rusage = run(&recorder, &format!("( ({BUSY}; echo) & ) | cat"));
    let recording = recorder.stop().unwrap();
    let seen = recording.roles()[&Role::Workload];
    assert!(seen > rusage, "nobody waited for the orphan ({rusage}), but it was seen: {seen}");
    assert!(seen.get() > 3 * TICK.get(), "{seen}");
}

/// No role's time ever falls, and each ends at its total.
fn check_roles(recording: &Recording) {
    let trace = trace(recording);
    for role in Role::columns(false) {
        let column = trace.column(&format!("role.{role}.ns")).unwrap();
        assert!(column.windows(2).all(|pair| pair[0] <= pair[1]), "{role}");
        let total = recording.roles().get(&role).copied().unwrap_or_default();
        assert_eq!(column.last().copied().flatten(), Some(total.get()), "{role}");
    }
}

#[test]
fn roles_never_fall_when_processes_end_and_end_at_their_totals() {
    let (recorder, _folder) = start();
    run(&recorder, &format!("for n in 1 2 3; do ({BUSY}); done"));
    let recording = recorder.stop().unwrap();
    check_roles(&recording);
    assert!(recording.roles()[&Role::Workload] > Nanos::ZERO);
}

#[test]
fn what_a_workload_did_before_it_was_named_counts() {
    let (recorder, _folder) = start();
    let child = Command::new("sh").args(["-c", BUSY]).process_group(0).spawn().unwrap();
    // Long after it began, and while it still runs.
    std::thread::sleep(std::time::Duration::from_millis(60));
    recorder.follow(child.id());
    let rusage = wait(child);
    let recording = recorder.stop().unwrap();
    check_workload(&recording, rusage, 1);
    check_roles(&recording);
}

#[test]
fn threads_that_ended_count_and_those_that_live_are_named() {
    let (recorder, _folder) = start();
    std::thread::spawn(|| work(Nanos::from_millis(60))).join().unwrap();
    let (stop, is_stopped) = std::sync::mpsc::channel::<()>();
    let (done, is_done) = std::sync::mpsc::channel();
    let living = std::thread::spawn(move || {
        work(Nanos::from_millis(20));
        // Most threads are named after they began.
        std::fs::write("/proc/thread-self/comm", "still-here").unwrap();
        work(Nanos::from_millis(40));
        done.send(()).unwrap();
        let _ = is_stopped.recv();
    });
    is_done.recv().unwrap();
    let recording = recorder.stop().unwrap();
    drop(stop);
    living.join().unwrap();
    let flyball = recording.roles()[&Role::Flyball];
    assert!(flyball >= Nanos::from_millis(110), "this process is Flyball's: {flyball}");
    let thread = recording.threads().iter().find(|t| t.name == "still-here").unwrap();
    assert!(thread.cpu >= Nanos::from_millis(50), "{thread:?}");
    assert_eq!(thread.role, Role::Flyball);
}

#[test]
fn what_wait4_accounts_fills_what_sampling_missed_and_never_takes_away() {
    let (recorder, _folder) = start();
    run(&recorder, BUSY);
    let mut recording = recorder.stop().unwrap();
    let seen = recording.roles()[&Role::Workload];
    recording.set_cpu(Role::Workload, Nanos::new(1));
    assert_eq!(recording.roles()[&Role::Workload], seen);
    recording.set_cpu(Role::Workload, seen + seen);
    assert_eq!(recording.roles()[&Role::Workload], seen + seen);
}

#[test]
fn the_recorder_accounts_for_its_own_cost() {
    let (recorder, _folder) = start();
    std::thread::sleep(std::time::Duration::from_millis(100));
    let recording = recorder.stop().unwrap();
    let trace = trace(&recording);
    let report = recording.report();
    assert_eq!(report.samples, trace.times.len() as u64);
    assert_eq!(report.span, *trace.times.last().unwrap());
    let own = trace.column("recorder.ns").unwrap();
    assert!(own.windows(2).all(|pair| pair[0] < pair[1]), "each sample costs something");
    assert!(own.last().unwrap().unwrap() <= report.cpu.get());
    assert!(trace.times.windows(2).all(|pair| pair[0] < pair[1]));
}

/// Uses so much CPU time.
fn work(cpu: Nanos) {
    let begin = thread_cpu();
    while thread_cpu() - begin < cpu {}
}

fn thread_cpu() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the timespec is valid and writable.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    Nanos::new(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

#[test]
fn an_interval_that_costs_too_much_is_lengthened_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    // No machine takes a sample of every source in ten microseconds.
    let shortest = recorder::MIN_INTERVAL;
    let recorder = Recorder::start(RecorderConfig::new(Interval::AtLeast(shortest), spool)).unwrap();
    let recording = recorder.stop().unwrap();
    let interval = recording.head().interval;
    assert!(interval > shortest && interval <= Nanos::from_secs(1), "{interval}");
    let told = format!("what happens within {interval}: ");
    let absent = &recording.report().absent;
    assert!(absent.iter().any(|note| note.starts_with(&told)), "{absent:?}");
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let recorder = Recorder::start(RecorderConfig::new(Interval::Exactly(shortest), spool)).unwrap();
    assert_eq!(recorder.stop().unwrap().head().interval, shortest);
}

#[test]
fn what_is_read_while_it_is_recorded_is_what_is_read_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let config =
        RecorderConfig { writing: Writing::EachSample, ..RecorderConfig::new(INTERVAL, path.clone()) };
    let recorder = Recorder::start(config).unwrap();
    let (mut live, mut memory) = (Live::of(path), Memory::default());
    while memory.0.as_ref().is_none_or(|trace| trace.times.len() < 40) {
        std::thread::sleep(std::time::Duration::from_millis(3));
        live.advance(&mut memory).unwrap();
    }
    let recording = recorder.stop().unwrap();
    live.advance(&mut memory).unwrap();
    let (during, after) = (memory.0.unwrap(), trace(&recording));
    assert_eq!(during.head, after.head);
    assert_eq!(during.times, after.times);
    for (index, series) in after.head.series.iter().enumerate() {
        // Of a process that turns out to be somebody else's the earlier time moves only afterwards.
        if !series.name.starts_with("role.") {
            assert_eq!(during.columns[index], after.columns[index], "{}", series.name);
        }
    }
}
