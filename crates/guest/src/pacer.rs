//! When the virtual CPUs are paced: from the moment at which a workload has prepared itself to the end of its
//! work.
//!
//! What a program does before and after (fio links eighty libraries, and prints pages of JSON) would take
//! minutes on a CPU of a few million instructions a second, and is not what is measured. fio is told to wait
//! before it begins (`startdelay`), and is paced once it sleeps; it is done when its job processes are.
//! sysbench's clients are told to wait once they have connected (`start_delay`), and are paced once all of
//! them sleep. Any other program is paced from its start to its end.
//!
//! Where the guest's clock is slow while the CPUs are paced, what is left of a wait would last many times
//! longer. So a workload that waits is stopped (SIGSTOP) until its wait is over, and goes on when the CPUs
//! are paced: its sleep ends at once then.

use crate::error::{Doing, Error, Result};
use domain::Timestamp;
use domain::lab::CONTROL_PORT_VARIABLE;
use domain::study::Workload;
use domain::trial::Disturbance;
use lab::acpi::CONTROL_PORT;
use machine::{LocalMachine, Machine};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::fs::{self, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use workloads::Readiness;

/// How often a workload is looked at until it sleeps. Nothing is measured then, and the CPUs are not paced
/// yet.
const LOOK: Duration = Duration::from_millis(10);

/// How often its jobs are looked for once the CPUs are paced, when a look costs them something; in the host's
/// time.
const PACED_LOOK: Duration = Duration::from_millis(100);

/// What has not begun to wait after so long never will; it is paced all the same.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long fio may take to make its jobs on the slowest CPU.
const JOB_PATIENCE: Duration = Duration::from_secs(60);

/// After how long fio looks whether all its jobs have been made.
const JOBS_LOOK: Duration = Duration::from_millis(100);

/// futex(2) on x86-64, by which a job waits for its beginning.
const FUTEX: &str = "202";

/// nanosleep(2) and clock_nanosleep(2) on x86-64.
const SLEEPS: [&str; 2] = ["35", "230"];

/// Makes a workload wait between its preparation and its work, where it can, and says what to look for.
pub(super) fn make_wait(workload: &mut Workload) -> Readiness {
    workloads::of(&workload.tool).make_wait(&mut workload.options)
}

/// Watches one workload.
pub(super) struct Pacer(JoinHandle<Result<Paced>>);

/// What it did.
pub(super) struct Paced {
    /// When the CPUs were first paced.
    pub from: Timestamp,
    /// Work that was done before.
    pub unpaced: Option<Disturbance>,
}

impl Pacer {
    /// Begins to watch a workload that has just been started. `device` is the target's block device.
    ///
    /// While the CPUs are paced the guest's clock is slower than the host's by `slowed`.
    pub(super) fn watch(kind: Readiness, pid: u32, device: Option<&str>, slowed: f64) -> Self {
        let device = device.map(str::to_owned);
        Self(std::thread::spawn(move || {
            let before = requests(device.as_deref());
            let missed = match kind {
                Readiness::JobsSleep | Readiness::JobThreadsSleep(_) => {
                    wait_until(|| sleepers(&format!("/proc/{pid}/syscall")).map(|asleep| asleep == 1));
                    None
                }
                Readiness::ThreadsSleep(threads, _) => {
                    let seen = wait_until(|| sleeping_threads(pid).map(|asleep| asleep >= threads));
                    (!seen).then(|| unpaced_start("the clients were never seen to wait all at once".into()))
                }
                Readiness::Unknown => None,
            };
            let stopped = if slowed > 1.0 { Stopped::until_it_has_waited(kind, pid) } else { None };
            let unpaced = missed.or_else(|| unpaced(before, requests(device.as_deref())));
            let from = LocalMachine.now();
            write(1)?;
            drop(stopped);
            match kind {
                Readiness::JobsSleep | Readiness::JobThreadsSleep(_) => {
                    wait_for_jobs(pid, PACED_LOOK.div_f64(slowed))
                }
                Readiness::ThreadsSleep(..) | Readiness::Unknown => wait_for(pid, None),
            }
            write(0)?;
            Ok(Paced { from, unpaced })
        }))
    }

    /// Waits until the workload has ended and the CPUs run freely again.
    pub(super) fn finish(self) -> Result<Paced> {
        let paced = self.0.join().map_err(|_| Error::Refused("the pacer of the workload panicked".into()))?;
        // Whatever it did, what comes next is not paced.
        write(0)?;
        paced
    }
}

/// Tells the plugin: 1 to pace from now on, 0 to let the CPUs run; anything else is a mark.
pub(super) fn write(value: u8) -> Result<()> {
    let port = OpenOptions::new().write(true).open("/dev/port").doing(|| "open `/dev/port`".into())?;
    port.write_all_at(&[value], u64::from(CONTROL_PORT)).doing(|| "write to the plugin's port".into())
}

/// Requests that a block device has completed.
fn requests(device: Option<&str>) -> Option<u64> {
    let text = fs::read_to_string(format!("/sys/block/{}/stat", device?)).ok()?;
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    Some(numbers.first()? + numbers.get(4)?)
}

fn unpaced(before: Option<u64>, after: Option<u64>) -> Option<Disturbance> {
    let count = after?.checked_sub(before?).filter(|count| *count > 0)?;
    Some(unpaced_start(format!("{count} requests were made before the CPUs were paced, and none may be")))
}

fn unpaced_start(detail: String) -> Disturbance {
    Disturbance { kind: "unpaced-start".into(), detail }
}

/// Looks until it is so twice running, and gives whether it was. Whoever is looked at is gone where there is
/// no answer.
fn wait_until(is_so: impl Fn() -> Option<bool>) -> bool {
    let deadline = Instant::now() + PATIENCE;
    let mut seen = 0;
    while seen < 2 && Instant::now() < deadline {
        std::thread::sleep(LOOK);
        let Some(is_so) = is_so() else { return false };
        seen = if is_so { seen + 1 } else { 0 };
    }
    seen == 2
}

/// 1 where the thread of this `syscall` file sleeps, else 0.
fn sleepers(file: &str) -> Option<usize> {
    let call = fs::read_to_string(file).ok()?;
    Some(call.split(' ').next().is_some_and(|number| SLEEPS.contains(&number)).into())
}

/// Whether fio has made its jobs, sleeps before it looks at them, and all of them wait for it.
fn jobs_wait(pid: u32) -> Option<bool> {
    let call = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
        text.split(' ').next().map(str::to_owned)
    };
    let jobs = children(pid);
    let sleeps = SLEEPS.contains(&call(pid)?.as_str());
    Some(sleeps && !jobs.is_empty() && jobs.iter().all(|job| call(*job).as_deref() == Some(FUTEX)))
}

fn sleeping_threads(pid: u32) -> Option<usize> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    Some(tasks.filter_map(|task| sleepers(task.path().join("syscall").to_str()?)).sum())
}

/// A process that is stopped; it goes on when this is dropped.
struct Stopped(Pid);

impl Stopped {
    /// Stops a workload that waits until its wait is over; `None` where it does not wait, or is gone. fio,
    /// which has made its jobs and looks 100 ms later whether all are there (`run_threads` of its
    /// `backend.c`), is stopped then, and they wait for it.
    fn until_it_has_waited(kind: Readiness, pid: u32) -> Option<Self> {
        let wait = match kind {
            Readiness::Unknown => return None,
            Readiness::JobsSleep => {
                wait_until(|| jobs_wait(pid));
                JOBS_LOOK
            }
            Readiness::JobThreadsSleep(wait) | Readiness::ThreadsSleep(_, wait) => wait.into(),
        };
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        kill_process(pid, Signal::STOP).ok()?;
        let stopped = Self(pid);
        std::thread::sleep(wait);
        Some(stopped)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // One that is gone need not go on.
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// Waits for the processes that fio makes for its jobs, looking so often; where it makes none (`thread`), for
/// fio itself.
fn wait_for_jobs(pid: u32, look: Duration) {
    let deadline = Instant::now() + JOB_PATIENCE;
    let Some(main) = open(pid) else { return };
    let mut jobs = children(pid);
    while jobs.is_empty() && Instant::now() < deadline {
        if has_ended(&main, look) {
            return;
        }
        jobs = children(pid);
    }
    if jobs.is_empty() {
        return wait_for(pid, Some(main));
    }
    // All of a group are made before the first one begins; a look once the first has ended finds later
    // groups.
    while let Some(job) = jobs.first() {
        wait_for(*job, None);
        jobs = children(pid);
    }
}

fn wait_for(pid: u32, opened: Option<OwnedFd>) {
    let Some(pidfd) = opened.or_else(|| open(pid)) else { return };
    while !has_ended(&pidfd, Duration::from_secs(3600)) {}
}

fn open(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()
}

fn has_ended(pidfd: &OwnedFd, within: Duration) -> bool {
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    let timeout = Timespec::try_from(within).ok();
    !matches!(poll(&mut fds, timeout.as_ref()), Ok(0) | Err(rustix::io::Errno::INTR))
}

/// The children of all threads of a process that still run: a zombie has done its work.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let pids: Vec<u32> =
        lists.flat_map(|l| l.split_whitespace().filter_map(|w| w.parse().ok()).collect::<Vec<_>>()).collect();
    pids.into_iter().filter(|pid| !is_zombie(*pid)).collect()
}

fn is_zombie(pid: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
}

/// Keeps all CPUs busy for a while between two marks, with what an emulator is slowest at: processes that are
/// started, and touch fresh pages. Two workers for each CPU: while one starts a process on another CPU, its
/// own would be idle.
pub(super) fn calibrate(span: Duration) -> Result<()> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    // What the first process waits for is not the CPU's work.
    work(Duration::from_millis(1))?;
    write(2)?;
    let worked: Result<Vec<()>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2 * cpus).map(|_| scope.spawn(|| work(span))).collect();
        let joined = workers.into_iter().map(|w| w.join());
        joined
            .map(|done| done.map_err(|_| Error::Refused("a worker of the calibration panicked".into()))?)
            .collect()
    });
    write(3)?;
    worked.map(drop)
}

fn work(span: Duration) -> Result<()> {
    let deadline = Instant::now() + span;
    while Instant::now() < deadline {
        let status = Command::new("/usr/bin/busybox").arg("true").status();
        status.doing(|| "run busybox in the guest".into())?;
    }
    Ok(())
}

/// Whether this machine has virtual P-states.
static IS_PACED: AtomicBool = AtomicBool::new(false);

/// What tells a command how to pace the CPUs while it measures, where they can be paced.
pub(super) fn variable() -> Option<(&'static str, String)> {
    IS_PACED.load(Ordering::Relaxed).then(|| (CONTROL_PORT_VARIABLE, CONTROL_PORT.to_string()))
}

/// Makes the kernel write each policy's P-state once: it writes none that it believes to be there already,
/// and the plugin knows only what was written.
pub(super) fn tell_states() -> Result<()> {
    IS_PACED.store(true, Ordering::Relaxed);
    let policies = fs::read_dir("/sys/devices/system/cpu/cpufreq")
        .doing(|| "list the guest's cpufreq policies".into())?;
    for policy in policies.flatten() {
        let file = policy.path().join("scaling_governor");
        let Ok(governor) = fs::read_to_string(&file) else { continue };
        for each in ["powersave", "performance", governor.trim()] {
            let written = fs::write(&file, each);
            written.doing(|| format!("write `{each}` to `{}`", file.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::Nanos;
    use domain::study::Tool;
    use workloads::sysbench::options::{Oltp, START_DELAY};

    fn told(tool: Tool, options: &[(&str, &str)]) -> (Readiness, Workload) {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut workload = Workload { name: "w".into(), tool, options };
        (make_wait(&mut workload), workload)
    }

    #[test]
    fn what_can_wait_is_told_to() {
        let (kind, workload) = told(Tool::Fio, &[("rw", "read")]);
        assert_eq!((kind, workload.options["startdelay"].as_str()), (Readiness::JobsSleep, "1s"));
        for (threads, delay) in
            [(1, Nanos::from_millis(1050)), (8, Nanos::from_millis(1400)), (4096, Nanos::from_secs(60))]
        {
            let (kind, workload) =
                told(Tool::Sysbench, &[("test", "oltp_read_only"), ("threads", &threads.to_string())]);
            assert_eq!(kind, Readiness::ThreadsSleep(threads, delay));
            assert_eq!(Oltp::parse(&workload.options).unwrap().start_delay, delay);
        }
        assert_eq!(told(Tool::Pgbench, &[]).0, Readiness::Unknown);
    }

    #[test]
    fn a_delay_that_a_study_has_stays() {
        let (kind, workload) = told(Tool::Sysbench, &[("test", "oltp_read_only"), ("start_delay", "5s")]);
        assert_eq!(workload.options[START_DELAY], "5s");
        assert_eq!(kind, Readiness::ThreadsSleep(1, Nanos::from_secs(5)));
        let of_threads = [("rw", "read"), ("thread", "1"), ("startdelay", "250ms")];
        assert_eq!(told(Tool::Fio, &of_threads).0, Readiness::JobThreadsSleep(Nanos::from_millis(250)));
        assert_eq!(told(Tool::Fio, &[("thread", "0")]).0, Readiness::JobsSleep);
    }

    #[test]
    fn fio_waits_where_it_sleeps_and_all_its_jobs_wait_for_it() {
        assert_eq!(jobs_wait(std::process::id()), Some(false), "this one does not sleep");
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let waits = jobs_wait(sleeper.id());
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert_eq!(waits, Some(false), "it sleeps, and has no jobs");
    }

    #[test]
    fn a_workload_that_waits_is_stopped_until_its_wait_is_over_and_goes_on() {
        let mut sleeper = Command::new("sleep").arg("0.2").spawn().unwrap();
        let state = || {
            let text = fs::read_to_string(format!("/proc/{}/stat", sleeper.id())).unwrap();
            text.rsplit_once(") ").unwrap().1.chars().next().unwrap()
        };
        let kind = Readiness::JobThreadsSleep(Nanos::from_millis(300));
        let stopped = Stopped::until_it_has_waited(kind, sleeper.id());
        assert_eq!(state(), 'T', "its sleep is over, and it has not ended");
        drop(stopped);
        assert!(sleeper.wait().unwrap().success());
        assert!(
            Stopped::until_it_has_waited(Readiness::Unknown, 1).is_none(),
            "nothing is known of its wait"
        );
    }
}
