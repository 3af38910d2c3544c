//! Clocks of CPU time, and the monotonic deadlines of the sampler.

use domain::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// CPU time of the calling thread, user and system.
pub fn own_thread() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    nanos(time.tv_sec, time.tv_nsec)
}

/// CPU time of a process with all its threads, also those that have ended; `None` where `pid` is not that of
/// a process, or no longer. A zombie still has it.
///
/// The clock's number is built as `pid_clockid` of the kernel's `include/linux/posix-timers_types.h` reads it:
/// the complement of the process id, shifted by three, with the scheduler's clock in the low bits; the C
/// library's `clock_getcpuclockid` does the same, with one system call more to check the id.
pub fn process(pid: u32) -> Option<u64> {
    const SCHEDULER_CLOCK: libc::clockid_t = 2;
    let clock = (!libc::pid_t::try_from(pid).ok()? << 3) | SCHEDULER_CLOCK;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec; the kernel checks the clock's number.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0).then(|| nanos(time.tv_sec, time.tv_nsec).get())
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
    fn what_is_no_process_has_no_clock() {
        assert_eq!(process(u32::MAX), None);
        assert_eq!(process(0x3fff_fff0), None);
    }
}
