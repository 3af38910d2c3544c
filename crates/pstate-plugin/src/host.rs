//! The host's sleep, how long a thread waited for a CPU, and whether it has to.

#[cfg(not(test))]
use crate::interpose;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// How long before its end a sleep becomes looking at the clock: a thread that is woken runs some 20 to 60 µs
/// later.
const SPIN_NS: u64 = 40_000;

/// Waits until that point of the machine's clock, to the microsecond of the host's where that has a CPU free;
/// a signal ends the sleep early, and the rest is waited off awake.
#[cfg(not(test))]
pub fn sleep_until(ns: u64) {
    let host_ns = interpose::host_ns_of(ns);
    let early_ns = host_ns.saturating_sub(SPIN_NS);
    if interpose::host_ns() < early_ns {
        interpose::sleep_until_host(early_ns);
    }
    while interpose::host_ns() < host_ns {
        std::hint::spin_loop();
    }
}

/// Lets the calling thread's sleeps end when they were asked to, and not up to 50 µs later (the default
/// slack).
pub fn sleep_precisely() {
    // SAFETY: this option takes one integer and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// The calling thread's `schedstat`; `None` where the host's kernel keeps none.
pub fn open_schedstat() -> Option<File> {
    File::open("/proc/thread-self/schedstat").ok()
}

/// Nanoseconds for which that thread was ready to run and waited for a CPU: the second field of its
/// `schedstat` (`Documentation/scheduler/sched-stats.rst`).
pub fn queued_ns(schedstat: &File) -> Option<u64> {
    let mut bytes = [0_u8; 96];
    let len = schedstat.read_at(&mut bytes, 0).ok()?;
    std::str::from_utf8(&bytes[..len]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The calling thread's number.
pub fn thread() -> i32 {
    // SAFETY: it takes nothing and never fails.
    unsafe { libc::gettid() }
}

/// How many CPUs this process may run on.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A thread of this process comes before all that is not of real time, or as others do again (sched(7)).
/// Without the right to the first (`CAP_SYS_NICE`) nothing changes, and the record tells how late it was.
pub fn come_first(thread: i32, first: bool) {
    let (policy, priority) = if first { (libc::SCHED_RR, 1) } else { (libc::SCHED_OTHER, 0) };
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: a plain system call with a structure that outlives it.
    unsafe { libc::sched_setscheduler(thread, policy | libc::SCHED_RESET_ON_FORK, &raw const parameters) };
}
