//! How crowded the host's CPUs are while a lab machine measures something. The kernel's own measure
//! ([`with_load`](crate::with_load)) does not tell: the lab's threads that keep CPUs from sleeping wait for
//! one whenever anybody else runs, and count as waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A thread that computes for a short while, ten times a second: as much of a CPU as it gets then, others get
/// too.
#[derive(Debug)]
pub struct Crowd {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<(u64, u64)>>>,
}

const COMPUTES: Duration = Duration::from_millis(5);
const RESTS: Duration = Duration::from_millis(95);

impl Crowd {
    /// Begins.
    pub fn watch() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let before = schedstat()?;
            while !seen.load(Ordering::Relaxed) {
                let begun = Instant::now();
                while begun.elapsed() < COMPUTES {}
                std::thread::sleep(RESTS);
            }
            let after = schedstat()?;
            Some((after.0 - before.0, after.1 - before.1))
        });
        Self { stop, thread: Some(thread) }
    }

    /// Ends: the share of the time that it wanted a CPU in which it had one. All of it where the kernel does
    /// not tell (`CONFIG_SCHED_INFO`).
    pub fn share(mut self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        let times = self.thread.take().and_then(|thread| thread.join().ok()).flatten();
        times.filter(|(ran, _)| *ran > 0).map_or(1.0, |(ran, waited)| ran as f64 / (ran + waited) as f64)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Nanoseconds for which this thread ran, and could have run and did not
/// (Documentation/scheduler/sched-stats.rst).
fn schedstat() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut numbers = text.split_whitespace().map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn among_many_that_compute_a_thread_gets_a_part() {
        if schedstat().is_none() {
            return crate::skip("this kernel does not count how long a thread waits for a CPU");
        }
        let stop = Arc::new(AtomicBool::new(false));
        let count = 4 * std::thread::available_parallelism().unwrap().get();
        let load: Vec<_> = (0..count)
            .map(|_| Arc::clone(&stop))
            .map(|stop| std::thread::spawn(move || while !stop.load(Ordering::Relaxed) {}))
            .collect();
        let crowd = Crowd::watch();
        std::thread::sleep(Duration::from_millis(600));
        let share = crowd.share();
        stop.store(true, Ordering::Relaxed);
        load.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(share < 0.8, "{share}");
    }
}
