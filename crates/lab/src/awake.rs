//! A host that is itself a virtual machine, kept awake while it paces another.
//!
//! A virtual CPU that idles is given away by its hypervisor, and comes back late: each time that a guest's
//! CPU or disk of ours wakes up, it waits for ours first. A thread on each CPU that works only where nobody
//! else wants to (`SCHED_IDLE`, sched(7)) keeps them; who wants such a CPU has it at once, for such threads
//! are preempted by every other.

use crate::turns;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Between two looks whether to end: well below a millisecond.
const PAUSES: usize = 4096;

/// This host's CPUs are kept awake until this is dropped. On a host that is no virtual machine nothing is
/// done.
#[derive(Debug, Default)]
pub struct Awake {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Begins, where this host is a virtual machine by its processor's own word.
    pub fn keep() -> Self {
        match fs::read_to_string("/proc/cpuinfo") {
            Ok(text) if is_virtual(&text) => {
                Self::spin(thread::available_parallelism().map_or(1, usize::from))
            }
            _ => Self::default(),
        }
    }

    fn spin(count: usize) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let one = || {
            let ended = Arc::clone(&ended);
            thread::Builder::new().name("awake".into()).spawn(move || pause_until(&ended)).ok()
        };
        Self { threads: (0..count).filter_map(|_| one()).collect(), ended }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It has nothing to panic about.
            let _ = thread.join();
        }
    }
}

/// The flag that hypervisors set for their guests (CPUID leaf 1, ECX bit 31).
fn is_virtual(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'));
    flags.is_some_and(|(_, flags)| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
}

fn pause_until(ended: &AtomicBool) {
    // A thread that cannot be made idle would take from what is measured.
    if turns::last().is_err() {
        return;
    }
    while !ended.load(Ordering::Relaxed) {
        // A pause leaves the core to its other hardware thread.
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_known_by_its_processors_flags() {
        assert!(is_virtual("processor\t: 0\nflags\t\t: fpu hypervisor lahf_lm\n"));
        assert!(!is_virtual("processor\t: 0\nmodel name\t: hypervisor\nflags\t\t: fpu sse2\n"));
        assert!(!is_virtual(""));
    }

    #[test]
    fn its_threads_are_of_the_idle_class_and_end_with_it() {
        let policies = || -> Vec<String> {
            fs::read_dir("/proc/self/task")
                .unwrap()
                .flatten()
                .filter_map(|task| fs::read_to_string(task.path().join("stat")).ok())
                .filter(|stat| stat.contains("(awake)"))
                // The 41st field (proc(5)); the second has no blank here.
                .map(|stat| stat.split_ascii_whitespace().nth(40).unwrap().to_owned())
                .collect()
        };
        let awake = Awake::spin(2);
        let begun = std::time::Instant::now();
        while policies() != ["5", "5"] {
            assert!(begun.elapsed().as_secs() < 60, "{:?}", policies());
            thread::yield_now();
        }
        drop(awake);
        assert!(policies().is_empty());
    }
}
