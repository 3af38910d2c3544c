//! Clocks of CPU time, and the monotonic deadlines of the sampler.

use domain::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// CPU time of the calling thread, user and system.
pub fn own_thread() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    nanos(time.tv_sec, time.tv_nsec)
}

/// The monotonic clock, on which perf's events have their times too.
pub fn monotonic() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    nanos(time.tv_sec, time.tv_nsec)
}

/// CPU time of a process with all its threads, also those that have ended; `None` where `pid` is not that of
/// a process, or no longer. A zombie still has it.
///
/// The clock's number is built as `pid_clockid` of the kernel's `include/linux/posix-timers_types.h` reads
/// it: the complement of the process id, shifted by three, with the scheduler's clock in the low bits; the C
/// library's `clock_getcpuclockid` does the same, with one system call more to check the id.
pub fn process(pid: u32) -> Option<u64> {
    const SCHEDULER_CLOCK: libc::clockid_t = 2;
    let clock = (!libc::pid_t::try_from(pid).ok()? << 3) | SCHEDULER_CLOCK;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec; the kernel checks the clock's number.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0).then(|| nanos(time.tv_sec, time.tv_nsec).get())
}

/// CPU time of the calling process's children that have ended and were waited for, and of theirs
/// (`getrusage(2)`, `RUSAGE_CHILDREN`).
pub fn children() -> Nanos {
    // SAFETY: an all-zero rusage is a valid one, and the kernel fills it; the call fails for bad arguments
    // alone.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let time = |t: libc::timeval| nanos(t.tv_sec, t.tv_usec * 1_000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn nanos(secs: i64, nanos: i64) -> Nanos {
    Nanos::new(secs.unsigned_abs() * 1_000_000_000 + nanos.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_clock_counts_the_work_of_all_its_threads() {
        let before = process(std::process::id()).unwrap();
        let busy = std::thread::spawn(|| {
            let start = own_thread();
            while own_thread() - start < Nanos::from_millis(20) {}
        });
        busy.join().unwrap();
        let spent = process(std::process::id()).unwrap() - before;
        assert!(spent >= 20_000_000, "{spent} ns");
    }

    #[test]
    fn children_count_once_they_were_waited_for() {
        let before = children();
        let busy = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        std::process::Command::new("sh").args(["-c", busy]).status().unwrap();
        assert!(children() > before);
    }

    #[test]
    fn what_is_no_process_has_no_clock() {
        assert_eq!(process(u32::MAX), None);
        assert_eq!(process(0x3fff_fff0), None);
    }
}
