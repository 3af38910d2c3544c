//! When a thread gets its turn on a CPU of this host (sched(7)).

use std::io;

/// The slice of a thread that may not come first: short, so that it is preferred when it wakes up (since
/// Linux 6.12).
const SLICE_NS: u64 = 100_000;

/// `struct sched_attr` in its first size (sched_setattr(2)).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// Of an ordinary thread: its slice, in nanoseconds.
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// The calling thread runs whenever it is awake, before all that is not of real time; its children do not.
/// Without the right to that (`CAP_SYS_NICE`) it is preferred as far as the kernel allows.
///
/// It is for threads that sleep nearly always: what keeps on running would keep everything else from this
/// CPU, but for the twentieth of its time that the kernel keeps back.
pub fn first() {
    if policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1).is_err() {
        let attributes = Attributes {
            size: size_of::<Attributes>() as u32,
            policy: libc::SCHED_OTHER as u32,
            runtime_ns: SLICE_NS,
            ..Attributes::default()
        };
        // SAFETY: a plain system call on the calling thread (0), with a structure of the size that it names.
        // Where it is refused, the thread comes when it comes: who waits for it measures how late that was.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

/// The calling thread runs only where nobody else wants to.
///
/// # Errors
/// Where the kernel refuses it.
pub fn last() -> io::Result<()> {
    policy(libc::SCHED_IDLE, 0)
}

fn policy(policy: i32, priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: a plain system call on the calling thread (0), with a structure that outlives it.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    /// Policy and real-time priority: the 41st and 40th field of its `stat` (proc(5)).
    fn mine() -> (String, String) {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split_ascii_whitespace().collect();
        (fields[38].to_owned(), fields[37].to_owned())
    }

    #[test]
    fn a_thread_comes_last_or_first_where_it_may() {
        let last = thread::spawn(|| super::last().map(|()| mine())).join().unwrap().unwrap();
        assert_eq!(last.0, "5");
        let first = thread::spawn(|| {
            super::first();
            (mine(), thread::spawn(mine).join().unwrap())
        });
        let (own, child) = first.join().unwrap();
        let may = rustix::process::geteuid().is_root();
        assert_eq!(own, if may { ("1".into(), "1".into()) } else { ("0".into(), "0".into()) });
        assert_eq!(child.0, "0", "what it starts is ordinary");
    }
}
