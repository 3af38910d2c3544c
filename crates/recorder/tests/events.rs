//! Events of this machine's kernel.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test says why it skips")]

mod disk;
mod memory;

use disk::Loop;
use domain::Nanos;
use domain::calls::{Call, Called, Calls};
use domain::event_set::Sets;
use domain::profile::Subsystem;
use domain::trace::Role;
use events::facts::{Did, Done, Wait, intervals};
use events::{Facts, Op, Tables};
use recorder::{Events, Recorder, RecorderConfig, Recording, Roots, ThreadScope};
use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use tempfile::TempDir;

const INTERVAL: Nanos = Nanos::from_millis(5);

/// One recording at a time: what one test does would be in the events of another.
static ALONE: Mutex<()> = Mutex::new(());

/// Whether this machine lets us record events; says why not.
fn can_record() -> Option<MutexGuard<'static, ()>> {
    let alone = ALONE.lock().unwrap_or_else(|broken| broken.into_inner());
    let (recording, facts, _folder) = record("sched", None, || {});
    let why = recording.report().absent.iter().find(|note| note.starts_with("no events"));
    match why {
        Some(why) => {
            eprintln!("skipped: {why}");
            None
        }
        None => {
            assert!(facts.is_whole);
            Some(alone)
        }
    }
}

/// Whether the kernel recorded all that happened but what it announced as lost; says why not. Some kernels'
/// perf drops events of a CPU's idle task and of what interrupts it: some fired without a record, and others
/// were not even counted, so that switches do not follow from one another. `perf record` loses the same.
fn is_complete(facts: &Facts) -> bool {
    let dropped = facts.unannounced();
    // One that was being written when its event was disabled may be late by more than is waited for it.
    if facts.unseen_switches().next().is_none() && dropped * 1000 <= facts.all_recorded() {
        return true;
    }
    eprintln!("skipped: this kernel's perf dropped events without announcing it, {dropped} that it counted");
    false
}

fn record_in(
    roots: Roots,
    sets: &str,
    ring: Option<u64>,
    load: impl FnOnce(&Recorder),
) -> (Recording, Facts, TempDir) {
    let sets: Sets = sets.parse().unwrap();
    record_events(roots, |file| Events { ring_bytes: ring, ..Events::of(sets, file) }, load)
}

fn record_events(
    roots: Roots,
    events: impl FnOnce(PathBuf) -> Events,
    load: impl FnOnce(&Recorder),
) -> (Recording, Facts, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events");
    let config = RecorderConfig {
        roots,
        events: Some(events(file.clone())),
        ..RecorderConfig::new(INTERVAL, folder.path().join("spool"))
    };
    let recorder = Recorder::start(config).unwrap();
    load(&recorder);
    let recording = recorder.stop().unwrap();
    let facts = Facts::read(|| Ok(BufReader::new(File::open(&file)?))).unwrap();
    (recording, facts, folder)
}

fn record(sets: &str, ring: Option<u64>, load: impl FnOnce()) -> (Recording, Facts, TempDir) {
    record_in(Roots::default(), sets, ring, |_| load())
}

/// The CPU time of a child that has ended, by the scheduler's own account: `schedstat` of the zombie.
fn schedstat(pid: u32) -> Nanos {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    Nanos::new(text.split_whitespace().next().unwrap().parse().unwrap())
}

/// Waits until a child is a zombie, and leaves it one.
fn wait_for_its_end(pid: u32) {
    // SAFETY: siginfo is plain numbers, for which zeros are valid; the kernel fills it.
    let ended = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_PID, pid, &raw mut info, libc::WEXITED | libc::WNOWAIT)
    };
    assert_eq!(ended, 0);
}

/// What the hypervisor and interrupts took of all CPUs, by /proc/stat: the scheduler's account of a thread
/// may leave it out, and the time between two switches does not.
fn taken() -> Nanos {
    let text = fs::read_to_string("/proc/stat").unwrap();
    let line = text.lines().next().unwrap();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).map(|word| word.parse().unwrap()).collect();
    Nanos::from_millis(10 * (ticks[5] + ticks[6] + ticks[7]))
}

const BUSY: &str = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; sleep 0.05";

#[test]
fn a_threads_cpu_time_is_that_of_schedstat() {
    let Some(_alone) = can_record() else { return };
    let (mut pid, mut by_kernel) = (0, Nanos::ZERO);
    let before = taken();
    let (recording, facts, _folder) = record_in(Roots::default(), "default", None, |recorder| {
        let mut child = Command::new("sh").args(["-c", BUSY]).process_group(0).spawn().unwrap();
        pid = child.id();
        recorder.follow(pid);
        wait_for_its_end(pid);
        by_kernel = schedstat(pid);
        child.wait().unwrap();
    });
    if !is_complete(&facts) {
        return;
    }
    let allowed = by_kernel.get() / 100 + (taken() - before).get() + 1_000_000;
    let thread = facts.threads.iter().find(|thread| thread.tid == pid).unwrap();
    assert!(
        thread.spent.cpu_ns.abs_diff(by_kernel.get()) <= allowed,
        "{} by events, {by_kernel} by schedstat",
        Nanos::new(thread.spent.cpu_ns)
    );
    assert_eq!((thread.role, thread.name.as_str()), (Role::Workload, "sh"));
    // It waited for its child, which waited for a timer.
    assert!(thread.spent.waited(Wait::Thread) >= Nanos::from_millis(40), "{:?}", thread.spent);
    let workload = facts.roles[&Role::Workload];
    assert!(workload.waited(Wait::Timer) >= Nanos::from_millis(40), "{workload:?}");
    assert_eq!(facts.announced, 0, "{:?}", facts.lost);
    assert!(recording.report().absent.iter().all(|note| !note.contains("lost")));
}

/// A child that is in the kernel nearly all the time, then a loop of the shell.
const COPIES: &str = "dd if=/dev/zero of=/dev/null bs=1M count=4000 2> /dev/null; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";

#[test]
fn a_profile_adds_up_to_the_cpu_time_and_tells_programs_from_the_kernel() {
    let alone = ALONE.lock().unwrap_or_else(|broken| broken.into_inner());
    let (mut spent, before) = (0, taken());
    let (recording, facts, _folder) = record_in(Roots::default(), "profile", None, |recorder| {
        let mut child = Command::new("sh").args(["-c", COPIES]).process_group(0).spawn().unwrap();
        recorder.follow(child.id());
        wait_for_its_end(child.id());
        spent = schedstat(child.id()).get();
        child.wait().unwrap();
    });
    drop(alone);
    let Some(profile) = &facts.profile else {
        return eprintln!("skipped: {:?}", recording.report().absent);
    };
    let of = |wanted: Subsystem| {
        let workload = profile
            .samples
            .iter()
            .filter(|((role, subsystem), _)| *role == Role::Workload && *subsystem == wanted);
        profile.time(workload.map(|(_, count)| count).sum())
    };
    // The shell counts in user space; dd, a child that began within the recording, is in the kernel.
    let (user, all) = (of(Subsystem::User).get(), profile.time(profile.all() + profile.lost).get());
    // The clock does not fire while the hypervisor has the CPU, and its ring is full where nobody drains it.
    let allowed = (taken() - before).get() + profile.time(profile.lost).get();
    assert!(user + allowed > spent / 4, "{user} of {spent} ns: {profile:?}");
    assert!(all + allowed >= spent - spent / 5, "{all} of at least {spent} ns: {profile:?}");
    if !profile.samples.keys().any(|(_, subsystem)| *subsystem == Subsystem::Unnamed) {
        let kernel: u64 = profile.functions.values().sum();
        assert!(kernel > 0 && profile.samples.keys().any(|(_, s)| *s == Subsystem::Vfs), "{profile:?}");
    }
}

#[test]
fn the_last_sample_is_from_before_events_end() {
    let Some(_alone) = can_record() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events");
    let events = Events::of("default".parse().unwrap(), file.clone());
    let config =
        RecorderConfig { events: Some(events), ..RecorderConfig::new(INTERVAL, folder.path().join("spool")) };
    let recorder = Recorder::start(config).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(50));
    let recording = recorder.stop().unwrap();
    let last = memory::trace(&recording).times.last().copied().unwrap();
    let tables = Tables::read(BufReader::new(File::open(&file).unwrap())).unwrap();
    let end = tables.end.unwrap().saturating_sub(tables.head.origin);
    assert!(last <= end, "the last sample is {} later", last.saturating_sub(end));
}

#[test]
fn the_time_of_each_cpu_is_all_accounted() {
    let Some(_alone) = can_record() else { return };
    let (_, facts, _folder) = record("default", None, || {
        Command::new("sh").args(["-c", BUSY]).status().unwrap();
    });
    let by_threads: u64 = facts.roles.values().map(|spent| spent.cpu_ns).sum();
    let mut busy = 0;
    for (number, cpu) in &facts.cpus {
        let all = cpu.busy_ns + cpu.idle_ns + cpu.unknown_ns;
        assert_eq!(all, facts.span.get(), "CPU {number}: {cpu:?}");
        busy += cpu.busy_ns;
    }
    assert_eq!(by_threads, busy, "threads are busy for as long as CPUs");
}

/// What a disk did by events.
fn done(disk: &Loop, facts: &Facts, op: Op) -> Done {
    facts.devices.get(&(disk.name().to_owned(), op)).cloned().unwrap_or_default()
}

#[test]
fn a_devices_requests_are_those_of_diskstats() {
    let Some(_alone) = can_record() else { return };
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let Some(disk) = Loop::new(memory.path()) else {
        return eprintln!("skipped: no loop device can be made");
    };
    let mut complete = None;
    // What a kernel's perf drops without counting it cannot be told from what we lose, but that it goes with
    // other load.
    testing::on_a_quiet_host(|| {
        let mut grown = [0; 4];
        let (_, facts, _folder) = record("default", None, || {
            let before = disk.counters();
            let dd = |arguments: &[&str]| Command::new("dd").args(arguments).output().unwrap();
            let (input, output) = (format!("if={}", disk.0), format!("of={}", disk.0));
            assert!(dd(&[&input, "of=/dev/null", "bs=4k", "count=2000", "iflag=direct"]).status.success());
            assert!(dd(&["if=/dev/zero", &output, "bs=16k", "count=500", "oflag=direct"]).status.success());
            let after = disk.counters();
            grown = std::array::from_fn(|at| after[at] - before[at]);
        });
        if !is_complete(&facts) {
            return Ok(());
        }
        let (read, written) = (done(&disk, &facts, Op::Read), done(&disk, &facts, Op::Write));
        let by_events = [read.count, read.sectors, written.count, written.sectors];
        let is_same = |(events, kernel): (u64, u64)| events.abs_diff(kernel) * 100 <= kernel;
        let all_are_there = read.count >= 2000 && written.count >= 500;
        if !all_are_there || !by_events.into_iter().zip(grown).all(is_same) {
            return Err(format!("{by_events:?} by events, {grown:?} by diskstats"));
        }
        complete = Some(facts);
        Ok(())
    });
    let Some(facts) = complete else { return };
    let read = done(&disk, &facts, Op::Read);
    // Each had a queue and a service time, and the reader waited for them.
    assert_eq!((read.service.count, read.queue.count), (read.count, read.count));
    assert!(facts.roles.values().any(|spent| spent.waited(Wait::Io) > Nanos::ZERO));
    assert!(!facts.work.is_empty(), "loop devices work in kworkers");
}

#[test]
fn how_a_device_is_used_is_seen_in_what_it_is_given_in_passing() {
    let Some(_alone) = can_record() else { return };
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let Some(disk) = Loop::new(memory.path()) else {
        return eprintln!("skipped: no loop device can be made");
    };
    let (input, output) = (format!("if={}", disk.0), format!("of={}", disk.0));
    let used = |arguments: &[&str]| {
        let (_, facts, _folder) = record_events(Roots::default(), Events::in_passing, |_| {
            assert!(Command::new("dd").args(arguments).output().unwrap().status.success());
        });
        facts.accesses.get(disk.name()).copied().unwrap_or_default()
    };
    // A part of each second is taken: of these few all, but for what a busy host delays.
    let direct = used(&[&input, "of=/dev/null", "bs=4k", "count=1000", "iflag=direct"]).reads;
    assert!(direct.bios >= 900 && direct.mean().unwrap().get() == 4096, "{direct:?}");
    assert!(direct.share_in_order() > Some(0.9) && direct.share_synchronous() > Some(0.9), "{direct:?}");
    assert_eq!(direct.ahead, 0);
    let buffered = used(&[&input, "of=/dev/null", "bs=64k", "count=200"]).reads;
    assert!(buffered.share_ahead() > Some(0.9) && buffered.share_in_order() > Some(0.9), "{buffered:?}");
    let waited_for = used(&["if=/dev/zero", &output, "bs=16k", "count=200", "oflag=direct"]).writes;
    assert!(waited_for.bios >= 180 && waited_for.share_synchronous() > Some(0.9), "{waited_for:?}");
    assert!(waited_for.share_in_order() > Some(0.9), "{waited_for:?}");
}

/// ext4 on a disk, unmounted when dropped; before its disk is released.
struct Ext4<'a> {
    place: PathBuf,
    disk: &'a Loop,
}

impl<'a> Ext4<'a> {
    /// Says why there is none.
    fn on(disk: &'a Loop, folder: &Path) -> Option<Self> {
        let place = folder.join("mounted");
        fs::create_dir(&place).unwrap();
        let run = |program: &str, arguments: &[&std::ffi::OsStr]| {
            let ended = Command::new(program).args(arguments).output();
            let is_done = ended.as_ref().is_ok_and(|output| output.status.success());
            if !is_done {
                eprintln!("skipped: {program}: {ended:?}");
            }
            is_done
        };
        let device = disk.0.as_ref();
        let is_there =
            run("mkfs.ext4", &["-q".as_ref(), device]) && run("mount", &[device, place.as_os_str()]);
        is_there.then_some(Self { place, disk })
    }

    /// What fio says of its own writes and syncs of a file here: writes, their bytes, calls of fdatasync.
    fn written_by_fio(&self, follow: impl FnOnce(u32)) -> Option<[u64; 3]> {
        let mut fio = Command::new("fio");
        fio.args(["--name=w", "--rw=randwrite", "--bs=4k", "--size=8m", "--ioengine=psync", "--fdatasync=1"]);
        fio.arg(format!("--directory={}", self.place.display())).arg("--output-format=json");
        let Ok(child) = fio.stdout(std::process::Stdio::piped()).process_group(0).spawn() else {
            eprintln!("skipped: no fio can be started");
            return None;
        };
        follow(child.id());
        let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        let number = |section: &str, name: &str| {
            let of = text.split_once(&format!("\"{section}\" : {{")).unwrap().1;
            let value = of.split_once(&format!("\"{name}\" : ")).unwrap().1;
            value.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse::<u64>().unwrap()
        };
        Some([number("write", "total_ios"), number("write", "io_bytes"), number("sync", "N")])
    }
}

impl Drop for Ext4<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.place).status();
    }
}

/// One kind of the workload's calls; the sums of its parts are checked.
fn of_workload(calls: &Calls, call: Call) -> Called {
    let of = calls.of.get(&(Role::Workload, call)).cloned().unwrap_or_default();
    assert_eq!(of.spent.all(), of.took.sum, "{call:?}: {of:?}");
    let around = of.with_bios.times().into_iter().fold(Nanos::ZERO, Nanos::saturating_add);
    assert!(around <= of.took.sum, "{call:?}: {of:?}");
    of
}

#[test]
fn what_ext4_makes_of_writes_and_syncs_is_what_fio_and_diskstats_counted() {
    let Some(_alone) = can_record() else { return };
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let Some(disk) = Loop::new(memory.path()) else {
        return eprintln!("skipped: no loop device can be made");
    };
    let Some(ext4) = Ext4::on(&disk, memory.path()) else { return };
    let mut complete = None;
    testing::on_a_quiet_host(|| {
        let (mut by_fio, mut grown) = (None, [0; 4]);
        let (recording, facts, _folder) = record_in(Roots::default(), "default,calls", None, |recorder| {
            let before = ext4.disk.counters();
            by_fio = ext4.written_by_fio(|pid| recorder.follow(pid));
            // What still waits to be written back is of this load too.
            Command::new("sync").arg("-f").arg(&ext4.place).status().unwrap();
            let after = ext4.disk.counters();
            grown = std::array::from_fn(|at| after[at] - before[at]);
        });
        let Some(by_fio) = by_fio else { return Ok(()) };
        let Some(calls) = facts.calls.clone() else {
            eprintln!("skipped: {:?}", recording.report().absent);
            return Ok(());
        };
        // What this kernel's perf drops is of idle CPUs and their interrupts, mostly: these are of threads.
        let of_threads = |name: &str| name.starts_with("syscalls/") || name == "block/block_bio_queue";
        let dropped = facts.kinds.iter().filter(|(name, _)| of_threads(name)).map(|(_, kind)| kind.lost);
        let dropped = dropped.sum::<u64>();
        if dropped > 0 {
            eprintln!("skipped: {dropped} events of calls and bios were dropped or lost");
            return Ok(());
        }
        let (write, sync) = (of_workload(&calls, Call::Pwrite), of_workload(&calls, Call::Fdatasync));
        let by_events = [write.count, write.bytes.get(), sync.count];
        let own = calls.queued.iter().flatten().filter(|((device, ..), _)| device == disk.name());
        let written = own.filter(|((.., op), _)| *op == Op::Write).map(|(_, bios)| bios.sectors).sum::<u64>();
        let lacks = written.abs_diff(grown[3]) * 100 > grown[3];
        if by_events != by_fio || lacks {
            return Err(format!("{by_events:?} by events, {by_fio:?} by fio; {written} sectors, {grown:?}"));
        }
        complete = Some((facts, calls, write, sync));
        Ok(())
    });
    let Some((facts, calls, write, sync)) = complete else { return };
    let used = facts.roles[&Role::Workload].cpu_ns;
    assert!(write.spent.cpu_ns + sync.spent.cpu_ns <= used, "{write:?} {sync:?} {used}");
    // A write goes into the page cache. Who syncs writes the data, and waits for the device and the journal.
    assert!(write.share_without_bios() > Some(0.9), "{write:?}");
    assert!(sync.with_bios.count * 10 > sync.count * 9 && sync.share_without_bios() < Some(0.1), "{sync:?}");
    assert!(sync.with_bios.followed * 10 > sync.with_bios.count * 9, "{sync:?}");
    assert!(sync.waited_for(Role::Journal) > Nanos::ZERO && sync.with_bios.below > Nanos::ZERO, "{sync:?}");
    let blocked = sync.spent.wait_ns.iter().sum::<u64>();
    assert!(blocked > sync.spent.cpu_ns, "it waits for more than it computes: {sync:?}");
    let of = |role| calls.queued.as_ref().unwrap()[&(disk.name().to_owned(), role, Op::Write)];
    let times = |role| calls.amplification(Op::Write, of(role)).unwrap();
    assert!((0.9..1.1).contains(&times(Role::Workload)), "each block is written once: {calls:?}");
    assert!(times(Role::Journal) > 0.01, "{calls:?}");
}

/// Between two threads, each of which waits for the other: so many times two wake-ups and switches.
fn pass_a_byte_to_and_fro(times: usize) {
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    let pass = |stream: &mut UnixStream| {
        let mut byte = [0];
        stream.write_all(&byte).and_then(|()| stream.read_exact(&mut byte)).unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(move || (0..times).for_each(|_| pass(&mut theirs)));
        (0..times).for_each(|_| pass(&mut ours));
    });
}

#[test]
fn what_a_tiny_ring_loses_is_counted() {
    let Some(_alone) = can_record() else { return };
    let (_, facts, _folder) = record("sched", Some(4096), || pass_a_byte_to_and_fro(20_000));
    let lost = facts.all_lost();
    assert!(lost > 0, "a ring of a page holds a few dozen events");
    let by_kind: u64 = facts.kinds.values().map(|kind| kind.lost).sum();
    assert_eq!(by_kind, lost, "{:?}", facts.kinds);
    // What is not known is not idle, nor anybody's.
    assert!(facts.cpus.values().any(|cpu| cpu.unknown_ns > 0));
    for cpu in facts.cpus.values() {
        assert_eq!(cpu.busy_ns + cpu.idle_ns + cpu.unknown_ns, facts.span.get(), "{cpu:?}");
    }
}

/// Folders that say which CPUs are online, and have the kernel's tracepoints; `None` where these are nowhere.
fn machine_with_tracepoints() -> Option<TempDir> {
    let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(Path::new);
    let tracing = places.into_iter().find(|place| place.join("events/sched").exists())?;
    let sys = tempfile::tempdir().unwrap();
    fs::create_dir_all(sys.path().join("devices/system/cpu")).unwrap();
    fs::create_dir(sys.path().join("kernel")).unwrap();
    std::os::unix::fs::symlink(tracing, sys.path().join("kernel/tracing")).unwrap();
    Some(sys)
}

/// The kernel's CPU 1 stays where it is: its rings are closed and opened as if it had been away.
#[test]
fn events_of_a_cpu_that_came_back_are_recorded_again_and_what_it_did_meanwhile_is_unknown() {
    const SPAN: Duration = Duration::from_secs(2);
    let Some(_alone) = can_record() else { return };
    let Some(sys) = machine_with_tracepoints() else { return eprintln!("skipped: no tracefs is mounted") };
    let path = sys.path().join("devices/system/cpu/online");
    fs::write(&path, "0-1\n").unwrap();
    let list = File::options().write(true).open(path).unwrap();
    let roots = Roots { sys: sys.path().to_owned(), ..Roots::default() };
    let (_, facts, folder) = record_in(roots, "sched", None, |_| {
        // Of one length, so that nobody reads a part of them.
        for text in ["0-1\n", "0  \n", "0-1\n"] {
            list.write_all_at(text.as_bytes(), 0).unwrap();
            std::thread::sleep(SPAN);
        }
    });
    if !facts.cpus.contains_key(&1) {
        return eprintln!("skipped: this machine has one CPU");
    }
    let open = || BufReader::new(File::open(folder.path().join("events")).unwrap());
    let tables = Tables::read(open()).unwrap();
    let (begin, end) = (tables.begin.unwrap(), tables.end.unwrap());
    let [(gone, 1, false), (back, 1, true)] = tables.cpu_changes[..] else {
        return eprintln!("skipped: the sampler came too late to see it: {:?}", tables.cpu_changes);
    };
    let mut ran = Vec::new();
    let losses = intervals(open(), &tables, |interval| {
        if matches!(interval.what, Did::Ran { cpu: 1, .. }) {
            ran.push((interval.begin, interval.end));
        }
    })
    .unwrap();
    let within = |from: Nanos, to: Nanos| ran.iter().any(|(begin, end)| *begin > from && *end < to);
    assert!(within(begin, gone) && !within(gone, back), "{gone} to {back}: {ran:?}");
    assert!(within(back, end), "nothing of CPU 1 from {back} to {end}: {:?}", facts.absent);
    let unknown = facts.cpus[&1].unknown_ns;
    assert!(unknown >= (back - gone).get(), "{unknown} ns");
    // What fired is that of both rings.
    for ((id, _), recorded) in losses.recorded.iter().filter(|((_, cpu), _)| *cpu == 1) {
        let fired = tables.fired[&(1, *id)];
        assert!(fired >= *recorded, "{fired} fired, {recorded} recorded");
    }
}

#[test]
fn without_tracefs_samples_are_recorded_and_it_is_said() {
    let sys = tempfile::tempdir().unwrap();
    let roots = Roots { sys: sys.path().to_owned(), ..Roots::default() };
    let (recording, facts, _folder) = record_in(roots, "default", None, |_| {});
    let said =
        |notes: &[String]| notes.iter().any(|note| note.contains("no tracefs") && note.contains("mount"));
    assert!(said(&recording.report().absent), "{:?}", recording.report().absent);
    assert!(said(&facts.absent));
    assert!(recording.report().samples > 1);
    assert_eq!(facts.all_recorded(), 0);
}

#[test]
fn without_processes_events_are_recorded_and_nobody_is_the_workload() {
    let Some(_alone) = can_record() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events");
    let events = Some(Events::of("sched".parse().unwrap(), file.clone()));
    let spool = folder.path().join("spool");
    let config =
        RecorderConfig { threads: ThreadScope::None, events, ..RecorderConfig::new(INTERVAL, spool) };
    let recorder = Recorder::start(config).unwrap();
    Command::new("sleep").arg("0.05").status().unwrap();
    recorder.stop().unwrap();
    let facts = Facts::read(|| Ok(BufReader::new(File::open(&file)?))).unwrap();
    assert!(facts.all_recorded() > 0 && !facts.roles.contains_key(&Role::Workload));
}

/// A small filesystem that is gone with this value; `None` where none can be mounted.
struct Small(PathBuf);

impl Small {
    fn mount(path: PathBuf, size: &str) -> Option<Self> {
        fs::create_dir(&path).unwrap();
        let size = format!("size={size}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&path).output();
        match mount {
            Ok(output) if output.status.success() => Some(Self(path)),
            _ => {
                eprintln!("skipped: no tmpfs can be mounted");
                None
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Where the disk has no room for the events any more, they end there, which is said; samples go on.
#[test]
fn events_on_a_full_disk_end_early_and_say_so_and_samples_go_on() {
    let Some(_alone) = can_record() else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(folder.path().join("small"), "1280k") else { return };
    let file = small.0.join("events");
    let config = RecorderConfig {
        events: Some(Events::of("sched".parse().unwrap(), file.clone())),
        ..RecorderConfig::new(INTERVAL, folder.path().join("spool"))
    };
    let recorder = Recorder::start(config).unwrap();
    let (mut here, mut there) = UnixStream::pair().unwrap();
    let answers = std::thread::spawn(move || {
        let mut byte = [0];
        while there.read(&mut byte).unwrap() > 0 {
            there.write_all(&byte).unwrap();
        }
    });
    // Some 100,000 switches and wake-ups: several times what there is room for.
    for _ in 0..25_000 {
        here.write_all(&[7]).unwrap();
        here.read_exact(&mut [0]).unwrap();
    }
    drop(here);
    answers.join().unwrap();
    let recording = recorder.stop().unwrap();
    let report = recording.report();
    let early =
        report.absent.iter().find(|note| note.starts_with("the events end early")).expect("it is said");
    assert!(early.contains("No space left on device"), "{early}");
    assert!(report.samples > 10, "{report:?}");
    // What the disk took is read, to where it ends, and says that it is not all.
    let facts = Facts::read(|| Ok(BufReader::new(File::open(&file)?))).unwrap();
    assert!(!facts.is_whole && facts.all_recorded() > 1000, "{}", facts.all_recorded());
    let whole = fs::metadata(&file).unwrap().len();
    assert!(whole <= 1280 << 10, "{whole}");
}
