//! How often call stacks are sampled, and how much room they need.

use domain::Nanos;
use std::fs;
use std::path::Path;

/// So many within an interval of the sampler: where an interval costs too much, so do they.
const AN_INTERVAL: u64 = 10;

/// Bounds on the time between two of a CPU.
const LEAST_PERIOD: Nanos = Nanos::from_millis(1);
const MOST_PERIOD: Nanos = Nanos::from_millis(20);

/// What the record of a deep call stack takes, in bytes: 127 functions are the most
/// (`kernel.perf_event_max_stack`).
const RECORD_BYTES: u64 = 1 << 10;

/// No ring is smaller, and all together are no larger, but of very many CPUs.
const LEAST_RING: u64 = 64 << 10;
const MOST_RINGS: u64 = 128 << 20;

/// All call stacks of a recording are no larger: a million of them or more, and an hour of a few busy CPUs.
pub const MOST_BYTES: u64 = 256 << 20;

/// The samples a second of one event beyond which perf stops it until the next tick
/// (`kernel.perf_event_max_sample_rate`; kernel/events/core.c, `__perf_event_account_interrupt`). The kernel
/// lowers it by itself where interrupts take long.
pub fn most_samples(proc: &Path) -> u64 {
    let text = fs::read_to_string(proc.join("sys/kernel/perf_event_max_sample_rate")).unwrap_or_default();
    text.trim().parse().unwrap_or(u64::MAX)
}

/// The time between two call stacks of a busy CPU: half as often as perf allows at most. A little more than a
/// round number, so that they do not keep step with timers.
pub fn period(interval: Nanos, most_samples: u64) -> Nanos {
    let allowed = Nanos::new(2_000_000_000 / most_samples.max(1));
    let round = Nanos::new(interval.get() / AN_INTERVAL).clamp(LEAST_PERIOD, MOST_PERIOD).max(allowed);
    Nanos::new(round.get() + round.get() / 331)
}

/// How large the ring of one of so many CPUs has to be: what comes within two intervals, as a power of two.
/// What finds no room is counted.
pub fn ring_bytes(interval: Nanos, period: Nanos, cpus: usize) -> u64 {
    let stacks = 2 * interval.get() / period.get() + 1;
    let wanted = (stacks * RECORD_BYTES).max(LEAST_RING).next_power_of_two();
    let most = (MOST_RINGS / cpus.max(1) as u64).max(LEAST_RING);
    wanted.min(1 << most.ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_stacks_follow_the_interval_and_find_room_for_two_of_them() {
        let of = |ms| period(Nanos::from_millis(ms), u64::MAX);
        assert_eq!([1, 10, 100, 1000].map(|ms| of(ms).get() / 10_000), [100, 100, 1003, 2006]);
        let kib = |ms, cpus| ring_bytes(Nanos::from_millis(ms), of(ms), cpus) >> 10;
        assert_eq!([1, 10, 100, 1000, 60_000].map(|ms| kib(ms, 2)), [64, 64, 64, 128, 8192]);
        assert_eq!([1, 64, 512, 4096].map(|cpus| kib(3_600_000, cpus)), [131_072, 2048, 256, 64]);
    }

    #[test]
    fn they_are_fewer_than_perf_stops() {
        let ms = |most| period(Nanos::from_millis(10), most).get() / 1_000_000;
        assert_eq!([100_000, 2_000, 1_000, 0].map(ms), [1, 1, 2, 2006]);
    }
}
