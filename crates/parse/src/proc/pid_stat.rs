//! `/proc/PID/stat`: which process a thread is (proc_pid_stat(5)).

use super::Error;

/// `PF_KTHREAD` of `include/linux/sched.h`.
const KERNEL_THREAD: u32 = 0x0020_0000;

/// What is read of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PidStat<'a> {
    /// The name, without its brackets; it may hold spaces and brackets itself.
    pub name: &'a str,
    /// The parent's process id; 1 or a subreaper's once the parent is gone.
    pub parent: u32,
    /// The process group.
    pub group: u32,
    /// The session.
    pub session: u32,
    /// `PF_*`.
    pub flags: u32,
    /// CPU time in user mode, of all its threads, in ticks.
    pub user_ticks: u64,
    /// CPU time in the kernel, likewise.
    pub system_ticks: u64,
    /// CPU time of its descendants that ended and were waited for, in ticks.
    pub waited_ticks: u64,
    /// Threads of the process.
    pub threads: u32,
}

impl PidStat<'_> {
    /// Whether it is a thread of the kernel.
    pub const fn is_kernel(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }
}

/// Reads the file. A process that is seen from another PID namespace has a group and session of 0.
///
/// # Errors
/// Where a field is missing or not a number.
pub fn pid_stat(text: &str) -> Result<PidStat<'_>, Error> {
    let read = || {
        let (head, rest) = text.rsplit_once(") ")?;
        let (_, name) = head.split_once(" (")?;
        let mut words = rest.split_ascii_whitespace().skip(1);
        let parent = words.next()?.parse().ok()?;
        let group = words.next()?.parse().ok()?;
        let session = words.next()?.parse().ok()?;
        let flags = words.nth(2)?.parse().ok()?;
        let user_ticks = words.nth(4)?.parse().ok()?;
        let system_ticks = words.next()?.parse().ok()?;
        let mut waited = || words.next()?.parse::<u64>().ok();
        let waited_ticks = waited()?.saturating_add(waited()?);
        let threads = words.nth(2)?.parse().ok()?;
        Some(PidStat { name, parent, group, session, flags, user_ticks, system_ticks, waited_ticks, threads })
    };
    read().ok_or_else(|| Error::new("/proc/PID/stat", 1, "the fields of a process", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_spaces_and_brackets() {
        let text =
            "8762 (a) R (x) R 8750 8751 6169 0 -1 4194304 100 0 0 0 5 6 0 0 20 0 3 0 153997 3133440 409";
        let stat = pid_stat(text).unwrap();
        assert_eq!((stat.name, stat.parent, stat.group, stat.session), ("a) R (x", 8750, 8751, 6169));
        assert_eq!((stat.threads, stat.is_kernel()), (3, false));
        assert_eq!((stat.user_ticks, stat.system_ticks), (5, 6));
    }

    #[test]
    fn a_kernel_thread_is_told_by_its_flag() {
        let text = include_str!("../../fixtures/proc/vm-2cpu.ksoftirqd.pid-stat");
        let stat = pid_stat(text).unwrap();
        assert_eq!((stat.name, stat.parent, stat.is_kernel()), ("ksoftirqd/0", 2, true));
    }

    #[test]
    fn a_cut_file_is_an_error() {
        assert!(pid_stat("8762 (cat) R 8750 8750").is_err());
    }
}
