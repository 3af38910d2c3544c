//! The idle governor `menu`.
//!
//! Follows `drivers/cpuidle/governors/menu.c` of 6.1.192 and 6.12.117. What lies between was not read as a
//! whole; it is known from the changes themselves:
//! - 6.6: the next timer is not asked for where the recurring interval is at most 15 µs;
//! - 6.13, and stable 6.12.44 and 6.6.103: tasks that wait for disks no longer count. Until then each made an
//!   exit latency count tenfold and had its own correction factors. In 6.13 to 6.16 no state may have a
//!   longer exit latency than the predicted time; in the stable kernels, and from 6.17 on, only the latency
//!   limit counts;
//! - 6.15: the recurring interval leaves out what is too short, too, not only what is too long;
//! - 6.17, and stable 6.12.43, 6.6.103, 6.1.149: an entry that was refused is no interval;
//! - 6.18, and stable 6.12.58, 6.6.117: a polling state gives way only to one worth it within 15 µs;
//! - 7.0, and stable 6.12.75: with the tick stopped, the next timer is always asked for.
//!
//! The patch levels 6.12.44 and 6.12.58 are those of the review announcements that carry the changes; 6.6.103
//! carries the ones beside it; 6.1.149, 6.6.117 and 6.12.75 are taken from their dates.
//!
//! Left out: what 6.15 to 6.17 made of intervals without a pattern ("avoid discarding useful information",
//! undone in 6.18 and stable kernels); kernels before 5.5, which counted in microseconds and by load average.

use super::{CHEAP, IdleChoice, IdleEntry, IdleState, NEVER, Tick, Wake, shallower};
use crate::KernelVersion;
use domain::time::Nanos;

/// Factors by magnitude of the expected time: below 10 µs, 100 µs, … 100 ms, and above.
const BUCKETS: usize = 6;
/// Intervals that are remembered.
const INTERVALS: usize = 8;
/// One, in the correction factors' unit; they are sums of [`DECAY`] such.
const RESOLUTION: u64 = 1024;
/// How slowly a correction factor forgets.
const DECAY: u64 = 8;
/// Idle times from here on count as predicted perfectly, in nanoseconds.
const MAX_INTERESTING: u64 = 50_000_000;

/// How exit latencies are limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Latency {
    /// By the predicted time, divided by ten times the tasks that wait for disks, and one.
    Waiters,
    /// By the predicted time.
    Prediction,
    /// By the latency limit alone.
    Limit,
}

/// What differs between kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Differences {
    asks_timer_late: bool,
    asks_timer_when_stopped: bool,
    latency: Latency,
    both_outliers: bool,
    refusals_are_no_intervals: bool,
    polls_rather: bool,
}

impl Differences {
    fn of(version: KernelVersion) -> Self {
        let from = |major, minor| version >= KernelVersion::new(major, minor, 0);
        let patched =
            |major, minor, patch| (version.major, version.minor) == (major, minor) && version.patch >= patch;
        let stable_without_waiters = patched(6, 12, 44) || patched(6, 6, 103);
        Self {
            asks_timer_late: from(6, 6),
            asks_timer_when_stopped: from(7, 0) || patched(6, 12, 75),
            latency: if from(6, 17) || stable_without_waiters {
                Latency::Limit
            } else if from(6, 13) {
                Latency::Prediction
            } else {
                Latency::Waiters
            },
            both_outliers: from(6, 15),
            refusals_are_no_intervals: from(6, 17)
                || patched(6, 12, 43)
                || patched(6, 6, 103)
                || patched(6, 1, 149),
            polls_rather: from(6, 18) || patched(6, 12, 58) || patched(6, 6, 117),
        }
    }
}

/// The governor `menu`, for one CPU.
#[derive(Clone, Debug)]
pub struct Menu {
    version: KernelVersion,
    differences: Differences,
    tick_ns: u64,
    /// The second six are for when tasks wait for disks.
    factors: [u32; 2 * BUCKETS],
    bucket: usize,
    intervals_us: [u32; INTERVALS],
    next_interval: usize,
    next_timer_ns: u64,
    last_residency_ns: u64,
    woken: Option<Wake>,
}

impl Menu {
    /// The governor as it begins; `tick` is the kernel's.
    pub fn new(version: KernelVersion, tick: Nanos) -> Self {
        Self {
            version,
            differences: Differences::of(version),
            tick_ns: tick.get(),
            factors: [(RESOLUTION * DECAY) as u32; 2 * BUCKETS],
            bucket: 0,
            intervals_us: [0; INTERVALS],
            next_interval: 0,
            next_timer_ns: 0,
            last_residency_ns: 0,
            woken: None,
        }
    }

    /// In what it is known to differ from this version's kernel.
    pub fn caveat(&self) -> Option<&'static str> {
        let version = (self.version.major, self.version.minor);
        match version {
            _ if version < (5, 5) => Some("menu before 5.5 counted in microseconds and by load average"),
            (6, 15..=17) => Some(
                "menu of 6.15 to 6.17 predicts a time where intervals have no pattern; the model does not",
            ),
            _ => None,
        }
    }

    /// Tells what came of the state that was entered (`menu_reflect`).
    pub fn woke(&mut self, wake: &Wake) {
        self.last_residency_ns = wake.residency.get();
        self.woken = Some(*wake);
    }

    /// Tells how long the CPU was in its last state, under another governor.
    pub fn take_over(&mut self, residency: Nanos) {
        self.last_residency_ns = residency.get();
    }

    /// Tells that the chosen state was not entered.
    pub fn refused(&mut self) {
        self.last_residency_ns = 0;
    }

    /// Chooses a state (`menu_select`).
    pub fn select(&mut self, states: &[IdleState], entry: &IdleEntry) -> IdleChoice {
        if let Some(wake) = self.woken.take() {
            self.learn(states, &wake);
        } else if self.last_residency_ns == 0 && self.differences.refusals_are_no_intervals {
            self.remember(u32::MAX);
        }
        let mut predicted = if self.differences.asks_timer_late {
            self.predict_interval_first(entry)
        } else {
            self.ask_timer(entry);
            None
        };
        let limit = entry.latency_limit_ns();
        let state_0_anyway = states.len() <= 1
            || limit == 0
            || (!states[0].disabled
                && (self.next_timer_ns < states[1].target_residency.get()
                    || limit < states[1].exit_latency.get()));
        if state_0_anyway {
            let tick = if states[0].polling { Tick::Keep } else { Tick::Stop };
            return IdleChoice { state: 0, tick };
        }
        let predicted_ns = predicted.take().unwrap_or_else(|| self.predict_timer_first());
        let (predicted_ns, limit) = self.constrain(predicted_ns, limit, entry);
        self.choose(states, entry, predicted_ns, limit)
    }

    /// Asks for the next timer.
    fn ask_timer(&mut self, entry: &IdleEntry) {
        self.next_timer_ns = entry.sleep_length.get();
        self.bucket = self.bucket_of(self.next_timer_ns, entry.iowaiters);
    }

    /// The prediction since 6.6: the recurring interval, and the next timer only where that is long.
    fn predict_interval_first(&mut self, entry: &IdleEntry) -> Option<u64> {
        let typical = u64::from(self.typical_interval(u32::MAX)) * 1000;
        let stopped = entry.tick_stopped && self.differences.asks_timer_when_stopped;
        if typical <= CHEAP && !stopped {
            self.next_timer_ns = NEVER;
            self.bucket = self.bucket_of(NEVER, entry.iowaiters);
            return Some(typical);
        }
        self.ask_timer(entry);
        Some(typical.min(u64::from(self.corrected_timer_us()) * 1000))
    }

    /// The prediction before 6.6.
    fn predict_timer_first(&self) -> u64 {
        let timer_us = self.corrected_timer_us();
        u64::from(timer_us.min(self.typical_interval(timer_us))) * 1000
    }

    /// The time until the next timer, corrected by what such times turned out to be; 32 bits, as in the
    /// kernel.
    fn corrected_timer_us(&self) -> u32 {
        let unit = u128::from(RESOLUTION * DECAY * 1000);
        let corrected = u128::from(self.next_timer_ns) * u128::from(self.factors[self.bucket]);
        ((corrected + unit / 2) / unit) as u32
    }

    /// The prediction and the longest exit latency, after what the tick and waiting tasks make of them.
    fn constrain(&self, predicted_ns: u64, limit: u64, entry: &IdleEntry) -> (u64, u64) {
        if entry.tick_stopped {
            // Where the prediction is wrong, no tick would end a state that is too shallow.
            let known = predicted_ns < self.tick_ns;
            return (if known { self.next_timer_ns } else { predicted_ns }, limit);
        }
        match self.differences.latency {
            Latency::Waiters => {
                (predicted_ns, limit.min(predicted_ns / (1 + 10 * u64::from(entry.iowaiters))))
            }
            Latency::Prediction => (predicted_ns, limit.min(predicted_ns)),
            Latency::Limit => (predicted_ns, limit),
        }
    }

    fn choose(&self, states: &[IdleState], entry: &IdleEntry, predicted_ns: u64, limit: u64) -> IdleChoice {
        let next_tick = self.next_tick(entry);
        let limit_first = self.differences.latency == Latency::Limit;
        let mut predicted_ns = predicted_ns;
        let mut chosen = None;
        for (index, state) in states.iter().enumerate().filter(|(_, state)| !state.disabled) {
            let so_far = *chosen.get_or_insert(index);
            let (residency, latency) = (state.target_residency.get(), state.exit_latency.get());
            if limit_first && latency > limit {
                break;
            }
            if residency <= predicted_ns {
                if latency > limit {
                    break;
                }
                chosen = Some(index);
                continue;
            }
            if states[so_far].polling && self.replaces_polling(state, predicted_ns, limit) {
                predicted_ns = residency;
                chosen = Some(index);
                break;
            }
            if predicted_ns < self.tick_ns {
                break;
            }
            if !entry.tick_stopped {
                // A state too shallow does no harm while the tick goes on: it will be asked again.
                predicted_ns = states[so_far].target_residency.get();
                break;
            }
            let deeper = states[so_far].target_residency.get() < self.tick_ns && residency <= next_tick;
            return IdleChoice { state: if deeper { index } else { so_far }, tick: Tick::Stop };
        }
        let chosen = chosen.unwrap_or(0);
        let short = states[chosen].polling || predicted_ns < self.tick_ns;
        if !short || entry.tick_stopped {
            return IdleChoice { state: chosen, tick: Tick::Stop };
        }
        let too_deep = chosen > 0 && states[chosen].target_residency.get() > next_tick;
        let state = if too_deep { shallower(states, chosen, next_tick) } else { chosen };
        IdleChoice { state, tick: Tick::Keep }
    }

    /// Whether a state that is not worth it by the prediction is still better than looping.
    fn replaces_polling(&self, state: &IdleState, predicted_ns: u64, limit: u64) -> bool {
        let (residency, latency) = (state.target_residency.get(), state.exit_latency.get());
        if self.differences.polls_rather {
            return residency < CHEAP && residency <= self.next_timer_ns && latency <= predicted_ns;
        }
        latency <= limit && residency <= self.next_timer_ns
    }

    /// The time until the next event with the tick; half a tick where the kernel has not asked.
    fn next_tick(&self, entry: &IdleEntry) -> u64 {
        if self.next_timer_ns == NEVER { self.tick_ns / 2 } else { entry.next_tick.get() }
    }

    fn bucket_of(&self, time_ns: u64, iowaiters: u32) -> usize {
        const BOUNDS: [u64; BUCKETS - 1] = [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
        let waiting = self.differences.latency == Latency::Waiters && iowaiters > 0;
        let bucket = BOUNDS.iter().take_while(|bound| time_ns >= **bound).count();
        if waiting { BUCKETS + bucket } else { bucket }
    }

    /// What the last idle time teaches (`menu_update`).
    fn learn(&mut self, states: &[IdleState], wake: &Wake) {
        let state = &states[wake.state];
        let measured = if wake.tick && self.next_timer_ns > self.tick_ns {
            // The tick woke it, which need not have run: it could have slept long.
            9 * MAX_INTERESTING / 10
        } else if state.polling && wake.poll_expired {
            self.next_timer_ns
        } else {
            let (residency, latency) = (wake.residency.get(), state.exit_latency.get());
            if residency > 2 * latency { residency - latency } else { residency / 2 }
        };
        let measured = measured.min(self.next_timer_ns);
        let factor = &mut self.factors[self.bucket];
        *factor -= *factor / DECAY as u32;
        *factor += if self.next_timer_ns > 0 && measured < MAX_INTERESTING {
            (RESOLUTION * measured / self.next_timer_ns) as u32
        } else {
            RESOLUTION as u32
        };
        self.remember((measured / 1000) as u32);
    }

    fn remember(&mut self, interval_us: u32) {
        self.intervals_us[self.next_interval] = interval_us;
        self.next_interval = (self.next_interval + 1) % INTERVALS;
    }

    /// The interval that recurs, in microseconds, or `u32::MAX` where none does (`get_typical_interval`);
    /// none either where no interval lies below `below_us` (before 6.6).
    fn typical_interval(&self, below_us: u32) -> u32 {
        // Exclusive bounds of what counts; what was refused lies above all.
        let mut bounds =
            (-1_i64, if self.differences.both_outliers { i64::from(u32::MAX) } else { 1_i64 << 31 });
        loop {
            let counted = || {
                self.intervals_us
                    .iter()
                    .map(|us| i64::from(*us))
                    .filter(|us| bounds.0 < *us && *us < bounds.1)
            };
            let (Some(min), Some(max)) = (counted().min(), counted().max()) else { return u32::MAX };
            let pointless =
                if self.differences.asks_timer_late { max == 0 } else { min >= i64::from(below_us) };
            if pointless {
                return u32::MAX;
            }
            let count = counted().count() as i64;
            let average = counted().sum::<i64>() / count;
            let variance = self.variance(counted(), average, count);
            let steady = i128::from(average) * i128::from(average) > variance * 36 && count * 4 >= 24;
            if variance <= i128::from(u64::MAX / 36) && (steady || variance <= 400) {
                return average as u32;
            }
            if count * 4 <= 24 {
                return u32::MAX;
            }
            if self.differences.both_outliers && average - min > max - average {
                bounds.0 = min;
            } else {
                bounds.1 = max;
            }
        }
    }

    /// The variance of the intervals, as each kernel rounds it.
    fn variance(&self, counted: impl Iterator<Item = i64>, average: i64, count: i64) -> i128 {
        let (average, count) = (i128::from(average), i128::from(count));
        let counted = counted.map(i128::from);
        if self.differences.both_outliers {
            counted.map(|us| us * us).sum::<i128>() / count - average * average
        } else {
            counted.map(|us| (us - average) * (us - average)).sum::<i128>() / count
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{TICK, arm, skylake, until};
    use super::*;

    const OLD: KernelVersion = KernelVersion::new(6, 1, 192);
    const WAITERS: KernelVersion = KernelVersion::new(6, 12, 43);
    const NEW: KernelVersion = KernelVersion::new(6, 12, 117);

    fn menu(version: KernelVersion, intervals_us: [u32; 8]) -> Menu {
        // As after an idle time, so that no refusal is remembered.
        Menu { intervals_us, last_residency_ns: 1, ..Menu::new(version, TICK) }
    }

    fn us(us: u64) -> Nanos {
        Nanos::from_micros(us)
    }

    #[test]
    fn the_typical_interval_is_an_average_without_what_is_too_long() {
        let cases = [
            ([100; 8], 100),
            // Variance at most 400 µs² whatever the average: 0 and 40 alternate, variance 400.
            ([0, 40, 0, 40, 0, 40, 0, 40], 20),
            // Two long ones are left out.
            ([100, 100, 5000, 100, 100, 9000, 100, 100], 100),
            // A third cannot be: six have to remain.
            ([100, 100, 5000, 100, 7000, 9000, 100, 100], u32::MAX),
            // 36 times the variance has to stay below the square of the average: 1000 ± 166 does, ± 167 does
            // not. Then the long half is left out at once, and the short half does not vary.
            ([834, 1166, 834, 1166, 834, 1166, 834, 1166], 1000),
            ([833, 1167, 833, 1167, 833, 1167, 833, 1167], 833),
            ([0; 8], u32::MAX),
            ([u32::MAX; 8], u32::MAX),
        ];
        for (intervals, expected) in cases {
            assert_eq!(menu(NEW, intervals).typical_interval(u32::MAX), expected, "{intervals:?}");
        }
        // Refused entries do not count, but six others are needed unless they vary little.
        let some = [u32::MAX, u32::MAX, u32::MAX, 100, 100, 100, 100, 100];
        assert_eq!(menu(NEW, some).typical_interval(u32::MAX), 100);
    }

    #[test]
    fn zeros_recur_before_6_6_and_afterwards_they_do_not() {
        assert_eq!(menu(OLD, [0; 8]).typical_interval(50), 0);
        assert_eq!(menu(OLD, [0; 8]).typical_interval(0), u32::MAX, "nothing lies below nothing");
        assert_eq!(menu(OLD, [100; 8]).typical_interval(100), u32::MAX);
        assert_eq!(menu(OLD, [100; 8]).typical_interval(101), 100);
    }

    #[test]
    fn since_6_15_what_is_too_short_is_left_out_too() {
        let intervals = [5, 1000, 1000, 1000, 1000, 1000, 1000, 1000];
        // Average 875; it lies farther from 5 than from 1000.
        assert_eq!(menu(KernelVersion::new(6, 15, 0), intervals).typical_interval(u32::MAX), 1000);
        // Before, all that is as long as the longest goes first, and the short one is left.
        assert_eq!(menu(NEW, intervals).typical_interval(u32::MAX), 5);
    }

    #[test]
    fn the_next_timer_is_corrected_by_experience() {
        let mut menu = menu(NEW, [u32::MAX; 8]);
        // 1 ms until the timer, but woken after 510 µs in C1E (exit latency 10 µs): half.
        menu.select(&skylake(), &until(us(1000)));
        menu.woke(&Wake { now: us(510), state: 2, residency: us(510), tick: false, poll_expired: false });
        menu.learn(&skylake(), &menu.woken.unwrap());
        // 8192 − 1024 + 1024·500/1000 = 7680 for times of 1 to 10 ms.
        assert_eq!(menu.factors[3], 7680);
        menu.ask_timer(&until(us(1000)));
        // 1000 µs · 7680 / 8192 = 937.5, rounded up.
        assert_eq!(menu.corrected_timer_us(), 938);
    }

    #[test]
    fn times_from_50_ms_on_count_as_predicted() {
        let mut menu = menu(NEW, [u32::MAX; 8]);
        menu.factors[5] = 4096;
        menu.select(&skylake(), &until(Nanos::from_millis(200)));
        let wake =
            Wake { now: us(60_000), state: 3, residency: us(60_000), tick: false, poll_expired: false };
        menu.learn(&skylake(), &wake);
        assert_eq!(menu.factors[5], 4096 - 512 + 1024);
    }

    #[test]
    fn a_tick_that_need_not_have_run_counts_as_45_ms() {
        let mut menu = menu(NEW, [u32::MAX; 8]);
        menu.select(&skylake(), &until(Nanos::from_millis(100)));
        menu.learn(
            &skylake(),
            &Wake { now: us(2000), state: 2, residency: us(2000), tick: true, poll_expired: false },
        );
        assert_eq!(menu.intervals_us[0], 45_000);
    }

    #[test]
    fn tasks_that_wait_for_disks_kept_the_cpu_out_of_deep_states_until_6_12_44() {
        let entry = |iowaiters| IdleEntry { iowaiters, ..until(us(1000)) };
        let chosen =
            |version, waiters| menu(version, [1_000_000; 8]).select(&skylake(), &entry(waiters)).state;
        // 1000 µs / (1 + 10) = 90 µs: not C6's 133 µs.
        for version in [OLD, KernelVersion::new(6, 6, 102), WAITERS] {
            assert_eq!((chosen(version, 0), chosen(version, 1)), (3, 2), "{version}");
        }
        // 1000 / 101 = 9 µs: not even C1E's 10 µs.
        assert_eq!(chosen(OLD, 10), 1);
        for version in [
            KernelVersion::new(6, 6, 103),
            KernelVersion::new(6, 12, 44),
            NEW,
            KernelVersion::new(6, 13, 0),
            KernelVersion::new(6, 18, 0),
        ] {
            assert_eq!((chosen(version, 0), chosen(version, 1)), (3, 3), "{version}");
        }
    }

    #[test]
    fn waiting_for_disks_had_factors_of_its_own() {
        for (version, bucket) in [(WAITERS, 9), (NEW, 3)] {
            let mut menu = menu(version, [1_000_000; 8]);
            menu.select(&skylake(), &IdleEntry { iowaiters: 2, ..until(us(1000)) });
            assert_eq!(menu.bucket, bucket, "{version}");
        }
    }

    #[test]
    fn the_tick_is_kept_for_times_below_it_and_stopped_otherwise() {
        // Recurring 700 µs: C6 is worth it, and the tick lies 2 ms away.
        let choice = menu(NEW, [700; 8]).select(&skylake(), &until(Nanos::from_millis(50)));
        assert_eq!(choice, IdleChoice { state: 3, tick: Tick::Keep });
        let choice = menu(NEW, [4000; 8]).select(&skylake(), &until(Nanos::from_millis(50)));
        assert_eq!(choice, IdleChoice { state: 3, tick: Tick::Stop });
        // The next tick comes before C6 is worth it, and the tick goes on: C1E.
        let soon = IdleEntry { next_tick: us(300), ..until(Nanos::from_millis(50)) };
        let choice = menu(NEW, [700; 8]).select(&skylake(), &soon);
        assert_eq!(choice, IdleChoice { state: 2, tick: Tick::Keep });
    }

    #[test]
    fn with_the_tick_stopped_the_timer_decides_and_not_the_prediction() {
        let stopped = IdleEntry { tick_stopped: true, ..until(Nanos::from_millis(50)) };
        let choice = menu(NEW, [100; 8]).select(&skylake(), &stopped);
        assert_eq!(choice, IdleChoice { state: 3, tick: Tick::Stop });
    }

    #[test]
    fn looping_gives_way_to_a_state_that_is_cheap() {
        // Recurring 1 µs: C1 needs 2 µs. It is preferred to looping until 6.12.57; later it is, where its
        // exit latency of 2 µs is no longer than what is predicted.
        let choose =
            |version, intervals| menu(version, [intervals; 8]).select(&skylake(), &until(us(1000))).state;
        assert_eq!(choose(KernelVersion::new(6, 12, 57), 1), 1);
        assert_eq!(choose(NEW, 1), 0);
        assert_eq!(choose(NEW, 2), 1);
    }

    #[test]
    fn without_a_polling_state_the_tick_stops_where_a_timer_leaves_no_choice() {
        let choice = menu(NEW, [u32::MAX; 8]).select(&arm(), &until(us(500)));
        assert_eq!(choice, IdleChoice { state: 0, tick: Tick::Stop });
        let choice = menu(NEW, [u32::MAX; 8]).select(&skylake(), &until(us(1)));
        assert_eq!(choice, IdleChoice { state: 0, tick: Tick::Keep });
    }

    #[test]
    fn a_refused_entry_is_no_interval_in_kernels_that_know_it() {
        for (version, remembered) in [(NEW, u32::MAX), (KernelVersion::new(6, 12, 42), 7)] {
            let mut menu = menu(version, [7; 8]);
            menu.refused();
            menu.select(&skylake(), &until(us(1000)));
            assert_eq!(menu.intervals_us[0], remembered, "{version}");
        }
    }
}
