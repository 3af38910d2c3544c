//! What this machine's kernel sums up of requests.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and a child prints")]

mod disk;

use disk::Loop;
use domain::Nanos;
use domain::request::{Op, Served};
use domain::took::Took;
use events::Facts;
use recorder::{Events, Recorder, RecorderConfig, Recording};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

const INTERVAL: Nanos = Nanos::from_millis(5);

/// In whose environment this is, records into that folder and does nothing else.
const CHILD: &str = "FLYBALL_TEST_RECORDS_INTO";

/// One recording at a time, but for those of one test.
static ALONE: Mutex<()> = Mutex::new(());

fn start(folder: &Path, events: fn(PathBuf) -> Events) -> Recorder {
    let file = folder.join("events");
    let config =
        RecorderConfig { events: Some(events(file)), ..RecorderConfig::new(INTERVAL, folder.join("spool")) };
    Recorder::start(config).unwrap()
}

fn stop(recorder: Recorder, folder: &Path) -> (Recording, Facts) {
    let recording = recorder.stop().unwrap();
    let facts = Facts::read(|| Ok(BufReader::new(File::open(folder.join("events"))?))).unwrap();
    (recording, facts)
}

/// What is recorded in passing of a load.
fn record(load: impl FnOnce()) -> (Recording, Facts) {
    let folder = tempfile::tempdir().unwrap();
    let recorder = start(folder.path(), Events::in_passing);
    load();
    stop(recorder, folder.path())
}

/// Why nothing was summed up, where that is said.
fn refused(recording: &Recording) -> Option<&String> {
    recording.report().absent.iter().find(|note| note.contains("BPF cannot sum it up"))
}

/// Whether this machine lets us sum up; says why not.
fn can_sum_up() -> Option<MutexGuard<'static, ()>> {
    let alone = ALONE.lock().unwrap_or_else(|broken| broken.into_inner());
    match refused(&record(|| {}).0) {
        Some(why) => {
            testing::skip(why);
            None
        }
        None => Some(alone),
    }
}

/// A loop device over memory.
fn disk() -> Option<(tempfile::TempDir, Loop)> {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let Some(disk) = Loop::new(memory.path()) else {
        testing::skip("no loop device can be made");
        return None;
    };
    Some((memory, disk))
}

/// Reads and writes of 4 and 16 KiB past the page cache.
fn read_and_write(device: &str) {
    let dd =
        |arguments: &[&str]| assert!(Command::new("dd").args(arguments).output().unwrap().status.success());
    let (input, output) = (format!("if={device}"), format!("of={device}"));
    dd(&[&input, "of=/dev/null", "bs=4k", "count=4000", "iflag=direct"]);
    dd(&["if=/dev/zero", &output, "bs=16k", "count=1000", "oflag=direct"]);
}

fn served(facts: &Facts, device: &str, op: Op) -> Served {
    facts.served.get(&(device.to_owned(), op)).cloned().unwrap_or_default()
}

fn is_within(share: f64, some: u64, others: u64) -> bool {
    some.abs_diff(others) as f64 <= share * others as f64
}

/// Each took some time, and the distribution is that of the sums.
fn is_plausible(took: &Took) -> bool {
    let (half, most) = (took.quantile(0.5), took.quantile(0.99));
    took.mean() <= Some(took.max) && Some(Nanos::ZERO) < half && half <= most && most <= Some(took.max)
}

#[test]
fn what_the_kernel_sums_up_is_what_diskstats_counts() {
    let Some(_alone) = can_sum_up() else { return };
    let Some((_memory, disk)) = disk() else { return };
    let mut grown = [0; 4];
    let (_, facts) = record(|| {
        let before = disk.counters();
        read_and_write(&disk.0);
        let after = disk.counters();
        grown = std::array::from_fn(|at| after[at] - before[at]);
    });
    let (read, written) = (served(&facts, disk.name(), Op::Read), served(&facts, disk.name(), Op::Write));
    let summed = [read.count, read.sectors, written.count, written.sectors];
    assert!(read.count >= 4000 && written.count >= 1000, "{summed:?}");
    let all = summed.into_iter().zip(grown);
    assert!(
        all.clone().all(|(summed, kernel)| is_within(0.01, summed, kernel)),
        "{summed:?}, {grown:?} by diskstats"
    );
    for served in [read, written] {
        // Those that began before are few.
        assert!(is_within(0.01, served.service.count, served.count), "{served:?}");
        assert!(is_within(0.01, served.queue.count, served.count), "{served:?}");
        assert!(is_plausible(&served.service) && is_plausible(&served.queue), "{served:?}");
        assert_eq!(served.whole, Took::default(), "it is no layer");
    }
}

#[test]
fn sums_are_those_of_events_of_the_same_requests() {
    let Some(_alone) = can_sum_up() else { return };
    let Some((_memory, disk)) = disk() else { return };
    testing::on_a_quiet_host(|| {
        let (summing, recording) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let sums = start(summing.path(), Events::in_passing);
        let events = start(recording.path(), |file| Events::of("block".parse().unwrap(), file));
        read_and_write(&disk.0);
        let (_, by_events) = stop(events, recording.path());
        let (_, by_sums) = stop(sums, summing.path());
        for op in [Op::Read, Op::Write] {
            let events = by_events.devices[&(disk.name().to_owned(), op)].served();
            let sums = served(&by_sums, disk.name(), op);
            let of = |served: &Served| {
                let [queue, service] =
                    [&served.queue, &served.service].map(|took| (took.count, took.sum.get()));
                [served.count, served.sectors, queue.0, service.0, service.1]
            };
            // A program and perf read the clock one after the other, and some kernels' perf drops events.
            let is_same = |(at, (sums, events)): (usize, (u64, u64))| {
                is_within(if at < 4 { 0.01 } else { 0.05 }, sums, events)
            };
            if !of(&sums).into_iter().zip(of(&events)).enumerate().all(is_same) {
                return Err(format!("{:?} by sums, {:?} by events", of(&sums), of(&events)));
            }
            for share in [0.5, 0.99] {
                let [sums, events] = [&sums, &events].map(|of| of.service.quantile(share).unwrap().get());
                if !is_within(0.15, sums, events) {
                    return Err(format!("{share} within {sums} ns by sums, {events} by events"));
                }
            }
        }
        Ok(())
    });
}

/// A device of the kernel's that has no requests, taken away when dropped.
struct Zram(u32);

impl Zram {
    fn new() -> Option<Self> {
        let number = fs::read_to_string("/sys/class/zram-control/hot_add").ok()?.trim().parse().ok()?;
        let zram = Self(number);
        fs::write(format!("/sys/block/zram{number}/disksize"), "64M").ok()?;
        Some(zram)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let _ = fs::write("/sys/class/zram-control/hot_remove", self.0.to_string());
    }
}

#[test]
fn of_a_layer_without_requests_the_whole_is_summed_up() {
    let Some(_alone) = can_sum_up() else { return };
    let Some(zram) = Zram::new() else { return testing::skip("no device without requests can be made") };
    let name = format!("zram{}", zram.0);
    let (_, facts) = record(|| read_and_write(&format!("/dev/{name}")));
    for (op, count, sectors) in [(Op::Read, 4000, 8), (Op::Write, 1000, 32)] {
        let served = served(&facts, &name, op);
        assert!(served.count >= count && served.sectors == served.count * sectors, "{served:?}");
        assert_eq!(served.whole.count, served.count, "{served:?}");
        assert!(is_plausible(&served.whole) && served.service.count == 0, "{served:?}");
    }
}

#[test]
fn perf_has_the_events_of_a_tracepoint_that_is_summed_up() {
    let Some(_alone) = can_sum_up() else { return };
    let Some((_memory, disk)) = disk() else { return };
    let (_, facts) = record(|| read_and_write(&disk.0));
    // A program that answers 0 would take them away; a part of each second is recorded.
    let accesses = facts.accesses.get(disk.name()).copied().unwrap_or_default();
    assert!(accesses.reads.bios > 1000, "{accesses:?}");
}

#[test]
#[ignore = "others start it as a process of its own"]
fn child() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    let folder = PathBuf::from(folder);
    let recorder = start(&folder, Events::in_passing);
    println!("\nrecording");
    // Until nobody is there any more.
    let _ = std::io::stdin().read(&mut [0]);
    let (recording, facts) = stop(recorder, &folder);
    println!("{:?}\nevents {}", recording.report().absent, facts.kinds["block/block_bio_queue"].recorded);
}

fn as_child(folder: &Path, mut command: Command) -> Command {
    command.args(["--exact", "child", "--ignored", "--nocapture"]).env(CHILD, folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// The numbers of the BPF programs that a process holds.
fn programs(pid: u32) -> Vec<u32> {
    let folder = fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap();
    let texts = folder.filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok());
    let number =
        |text: String| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
    texts.filter_map(number).collect()
}

/// Whether there is a BPF program of this number.
fn is_there(program: u32) -> bool {
    const PROGRAM_BY_NUMBER: libc::c_long = 13;
    let attributes = [program, 0, 0];
    // SAFETY: three numbers, of which the first is asked for.
    let found = unsafe { libc::syscall(libc::SYS_bpf, PROGRAM_BY_NUMBER, attributes.as_ptr(), 12) };
    if let Ok(found @ 0..) = i32::try_from(found) {
        // SAFETY: it was just opened, and nobody else has it.
        unsafe { libc::close(found) };
    }
    found >= 0
}

#[test]
fn nothing_is_left_attached_when_the_recorder_is_killed() {
    let Some(_alone) = can_sum_up() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut child = as_child(folder.path(), Command::new(std::env::current_exe().unwrap())).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "recording"));
    let programs = programs(child.id());
    assert!(programs.len() == 4 && programs.iter().all(|program| is_there(*program)), "{programs:?}");
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    // The kernel frees them once nobody can be in one any more.
    let begun = Instant::now();
    while programs.iter().any(|program| is_there(*program)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{programs:?} are still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn where_bpf_is_refused_the_rest_is_recorded_and_it_is_said_why() {
    let Some(_alone) = can_sum_up() else { return };
    if Command::new("strace").arg("-V").output().is_err() {
        return testing::skip("needs strace to fail system calls");
    }
    for (error, why) in
        [("EPERM", "CAP_BPF"), ("ENOSYS", "CONFIG_BPF_SYSCALL"), ("EINVAL", "Invalid argument")]
    {
        // The first map, and the first program.
        for when in ["1+", "8+"] {
            let folder = tempfile::tempdir().unwrap();
            let mut strace = Command::new("strace");
            strace.args(["-f", "-qq", "-o"]).arg(folder.path().join("calls"));
            strace.args(["-e", "trace=bpf", "-e", &format!("inject=bpf:error={error}:when={when}")]);
            strace.arg(std::env::current_exe().unwrap());
            let child = as_child(folder.path(), strace).spawn().unwrap();
            let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
            assert!(
                fs::read_to_string(folder.path().join("calls")).unwrap().contains("(INJECTED)"),
                "{said}"
            );
            assert!(said.contains("BPF cannot sum it up") && said.contains(why), "{error} of {when}: {said}");
            assert!(said.contains("--events=block") && !said.contains("no access patterns"), "{said}");
            assert!(said.contains("\nevents "), "{said}");
        }
    }
}

#[test]
fn a_program_that_sums_up_ends_with_the_recording() {
    let Some(_alone) = can_sum_up() else { return };
    let folder = tempfile::tempdir().unwrap();
    let before = programs(std::process::id());
    let recorder = start(folder.path(), Events::in_passing);
    let during = programs(std::process::id());
    drop(recorder);
    let after = programs(std::process::id());
    assert_eq!((before.len(), during.len(), after.len()), (0, 4, 0));
}
