//! The clock of a slow machine: the host's until its CPUs are paced, and so many times slower while they are.
//!
//! All that happens in QEMU happens in this time (`interpose.rs`): timers of the guest's devices, its
//! clocks, its time-stamp counter, the pace of its CPUs. A guest whose CPUs, disks and clocks are slower by
//! one factor cannot tell that it is: each of its kernel's fixed periods (the tick, the half-life of PELT,
//! the 10 ms of
//! `intel_pstate`) is as long beside its work as on the machine that it stands for.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A clock that runs evenly from some moment on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// That moment on the host's `CLOCK_MONOTONIC`, in nanoseconds.
    since_host_ns: u64,
    /// The same on this clock.
    since_own_ns: u64,
    /// How many times slower it runs than the host's.
    slow: f64,
}

impl Clock {
    /// The host's own.
    pub const HOST: Self = Self { since_host_ns: 0, since_own_ns: 0, slow: 1.0 };

    /// What this clock shows when the host's shows `host_ns`.
    pub fn own(&self, host_ns: u64) -> u64 {
        self.since_own_ns + self.shorten(host_ns.saturating_sub(self.since_host_ns))
    }

    /// What the host's clock shows when this one shows `own_ns`, if it runs on as it does.
    pub fn host(&self, own_ns: u64) -> u64 {
        self.since_host_ns.saturating_add(self.stretch(own_ns.saturating_sub(self.since_own_ns)))
    }

    /// By how much this clock is behind the host's, which shows `host_ns`.
    pub fn lag_ns(&self, host_ns: u64) -> u64 {
        host_ns - self.own(host_ns).min(host_ns)
    }

    /// The host's time that passes in a time of this clock.
    pub fn stretch(&self, own_ns: u64) -> u64 {
        if self.slow == 1.0 { own_ns } else { (own_ns as f64 * self.slow) as u64 }
    }

    fn shorten(&self, host_ns: u64) -> u64 {
        if self.slow == 1.0 { host_ns } else { (host_ns as f64 / self.slow) as u64 }
    }

    /// The clock that goes on from here at another rate.
    #[must_use]
    pub fn at_rate(&self, host_ns: u64, slow: f64) -> Self {
        Self { since_host_ns: host_ns, since_own_ns: self.own(host_ns), slow }
    }

    /// Whether it runs slower than the host's.
    pub fn is_slow(&self) -> bool {
        self.slow > 1.0
    }
}

/// A clock that one thread sets and many read, without a lock: a number that is odd while it is being set,
/// and the clock's three.
pub struct Shared {
    turn: AtomicU64,
    since_host_ns: AtomicU64,
    since_own_ns: AtomicU64,
    slow: AtomicU64,
}

impl Shared {
    /// Of the host's own clock.
    pub const fn new() -> Self {
        Self {
            turn: AtomicU64::new(0),
            since_host_ns: AtomicU64::new(Clock::HOST.since_host_ns),
            since_own_ns: AtomicU64::new(Clock::HOST.since_own_ns),
            slow: AtomicU64::new(Clock::HOST.slow.to_bits()),
        }
    }

    /// The present clock.
    pub fn get(&self) -> Clock {
        loop {
            let turn = self.turn.load(Ordering::Acquire);
            let clock = Clock {
                since_host_ns: self.since_host_ns.load(Ordering::Relaxed),
                since_own_ns: self.since_own_ns.load(Ordering::Relaxed),
                slow: f64::from_bits(self.slow.load(Ordering::Relaxed)),
            };
            fence(Ordering::Acquire);
            if turn.is_multiple_of(2) && self.turn.load(Ordering::Relaxed) == turn {
                return clock;
            }
            std::hint::spin_loop();
        }
    }

    /// Another clock from now on. Only one thread at a time may do so.
    pub fn set(&self, clock: Clock) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.since_host_ns.store(clock.since_host_ns, Ordering::Relaxed);
        self.since_own_ns.store(clock.since_own_ns, Ordering::Relaxed);
        self.slow.store(clock.slow.to_bits(), Ordering::Relaxed);
        self.turn.store(turn + 2, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_goes_on_from_where_its_rate_changed() {
        let slow = Clock::HOST.at_rate(1_000, 10.0);
        assert_eq!([1_000, 1_010, 2_000].map(|host| slow.own(host)), [1_000, 1_001, 1_100]);
        assert_eq!(slow.host(1_100), 2_000);
        assert_eq!((slow.lag_ns(2_000), Clock::HOST.lag_ns(2_000)), (900, 0));
        let after = slow.at_rate(2_000, 1.0);
        assert_eq!((after.own(2_500), after.lag_ns(2_500)), (1_600, 900), "it never catches up");
        assert_eq!((slow.is_slow(), after.is_slow()), (true, false));
    }

    #[test]
    fn a_moment_before_its_beginning_is_its_beginning() {
        let slow = Clock::HOST.at_rate(1_000, 10.0);
        assert_eq!((slow.own(10), slow.host(10)), (1_000, 1_000));
        assert_eq!(slow.host(u64::MAX), u64::MAX, "as far as there are numbers");
    }

    #[test]
    fn readers_see_one_clock_or_the_other() {
        let shared = Shared::new();
        let clocks =
            [1.0, 2.0].map(|slow| Clock { since_host_ns: slow as u64, since_own_ns: slow as u64, slow });
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| (0..200_000).map(|_| shared.get()).collect::<Vec<_>>());
            for turn in 0..200_000 {
                shared.set(clocks[turn % 2]);
            }
            let seen = reader.join().unwrap();
            assert!(seen.iter().all(|clock| *clock == Clock::HOST || clocks.contains(clock)));
        });
    }
}
