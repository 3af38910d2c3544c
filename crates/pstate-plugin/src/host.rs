//! The host's clock, its sleep, and how long a thread waited for a CPU.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The host's `CLOCK_MONOTONIC`, in nanoseconds.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing, and this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until that point of `CLOCK_MONOTONIC`; a signal ends it early, and the next check makes up for it.
pub fn sleep_until(ns: u64) {
    let time = libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    // SAFETY: `time` is valid for reading; the remaining time is not asked for.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &time, std::ptr::null_mut()) };
}

/// Lets the calling thread's sleeps end when they were asked to, and not up to 50 µs later (the default slack).
pub fn sleep_precisely() {
    // SAFETY: this option takes one integer and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// The calling thread's `schedstat`; `None` where the host's kernel keeps none.
pub fn open_schedstat() -> Option<File> {
    File::open("/proc/thread-self/schedstat").ok()
}

/// Nanoseconds for which that thread was ready to run and waited for a CPU: the second field of its `schedstat`
/// (`Documentation/scheduler/sched-stats.rst`).
pub fn queued_ns(schedstat: &File) -> Option<u64> {
    let mut bytes = [0_u8; 96];
    let len = schedstat.read_at(&mut bytes, 0).ok()?;
    std::str::from_utf8(&bytes[..len]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}
