//! The idle governor `teo` (timer events oriented).
//!
//! Follows `drivers/cpuidle/governors/teo.c` of 6.1.192 (it asks for the next timer first, and
//! counts the early wake-ups among the last nine) and of 6.12.117 (it asks only where that can
//! matter, and keeps the tick where most wake-ups come before it).
//!
//! Not read in source, and approximated: 6.3 to 6.10 chose a shallower state while the CPU's utilisation was
//! above a 64th of its capacity (taken out again in 6.11), and 6.6 to 6.10 asked late but still counted the
//! last nine; the generation changes here with 6.6. Kernels before 5.15 had another governor of this name.
//! 6.14 and later have more rules about early wake-ups near the tick.

use super::{CHEAP, IdleChoice, IdleEntry, IdleState, MAX_IDLE_STATES, NEVER, Tick, Wake, shallower};
use crate::KernelVersion;
use domain::time::Nanos;

/// What an event adds to a bin (`PULSE`).
const PULSE: u32 = 1024;
/// An eighth of a bin is forgotten at each event (`DECAY_SHIFT`).
const DECAY_SHIFT: u32 = 3;
/// Idle times that count as recent (`NR_RECENT`).
const RECENT: usize = 9;

/// Which of the governors of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Generation {
    /// As in 6.1.
    Eager,
    /// As in 6.12.
    Lazy,
}

/// What happened in a range of idle times: from a state's target residency to the next one's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bin {
    /// Wake-ups before the timer, where the timer lay in a later bin.
    intercepts: u32,
    /// Idle times that ended in the bin of the timer.
    hits: u32,
    /// Intercepts among the last nine.
    recent: u32,
}

/// Sums over the bins of all states shallower than one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    intercepts: u32,
    hits: u32,
    recent: u32,
}

/// Where the search for a state begins.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// The deepest state that is enabled, and in the older generation worth it until the next timer.
    state: usize,
    /// The first enabled state.
    first: usize,
    /// The deepest state within the latency limit; 0 where none is.
    within_limit: usize,
    /// Sums over the states shallower than it.
    shallower: Sums,
    /// Sum of the intercepts of all states.
    all_intercepts: u32,
}

/// The governor `teo`, for one CPU.
#[derive(Clone, Debug)]
pub struct Teo {
    version: KernelVersion,
    generation: Generation,
    tick_ns: u64,
    bins: [Bin; MAX_IDLE_STATES],
    /// Hits beyond a tick, where the deepest state is worth it earlier.
    tick_hits: u32,
    total: u32,
    recent: [Option<usize>; RECENT],
    next_recent: usize,
    asked_at_ns: u64,
    /// How long from being asked until the wake-up.
    time_span_ns: u64,
    sleep_length_ns: u64,
    last_residency_ns: u64,
    /// The state that was entered last, until something has been learnt from it.
    last_state: Option<usize>,
}

impl Teo {
    /// The governor as it begins; `tick` is the kernel's.
    pub fn new(version: KernelVersion, tick: Nanos) -> Self {
        let lazy = version >= KernelVersion::new(6, 6, 0);
        Self {
            version,
            generation: if lazy { Generation::Lazy } else { Generation::Eager },
            tick_ns: tick.get(),
            bins: [Bin::default(); MAX_IDLE_STATES],
            tick_hits: 0,
            total: 0,
            recent: [None; RECENT],
            next_recent: 0,
            asked_at_ns: 0,
            time_span_ns: 0,
            sleep_length_ns: 0,
            last_residency_ns: 0,
            // The kernel's device begins with state 0 as the last one, so one hit is counted that never was.
            last_state: Some(0),
        }
    }

    /// In what it is known to differ from this version's kernel.
    pub fn caveat(&self) -> Option<&'static str> {
        match (self.version.major, self.version.minor) {
            version if version < (5, 15) => Some("teo before 5.15 was another governor; this is 6.1's"),
            (6, 3..=5) => Some("teo of 6.3 to 6.10 looked at utilisation too; the model does not"),
            (6, 6..=10) => {
                Some("teo of 6.6 to 6.10 looked at utilisation and recent wake-ups too; this is 6.12's")
            }
            version if version >= (6, 14) => Some("teo of 6.14 and later has further rules; this is 6.12's"),
            _ => None,
        }
    }

    /// Tells what came of the state that was entered (`teo_reflect`).
    pub fn woke(&mut self, wake: &Wake) {
        self.last_state = Some(wake.state);
        self.last_residency_ns = wake.residency.get();
        let by_safety_net = wake.poll_expired || (wake.tick && self.sleep_length_ns > self.tick_ns);
        self.time_span_ns = if by_safety_net {
            self.sleep_length_ns
        } else {
            wake.now.get().saturating_sub(self.asked_at_ns)
        };
    }

    /// Tells in which state the CPU was last, and for how long, under another governor.
    pub fn take_over(&mut self, state: usize, residency: Nanos) {
        (self.last_state, self.last_residency_ns) = (Some(state), residency.get());
    }

    /// Tells that the chosen state was not entered: nothing is learnt from it.
    pub fn refused(&mut self) {
        self.last_residency_ns = 0;
    }

    /// Chooses a state (`teo_select`).
    pub fn select(&mut self, states: &[IdleState], entry: &IdleEntry) -> IdleChoice {
        if let Some(last) = self.last_state.take() {
            self.learn(states, last);
        }
        self.asked_at_ns = entry.now.get();
        match self.generation {
            Generation::Eager => self.select_eagerly(states, entry),
            Generation::Lazy => self.select_lazily(states, entry),
        }
    }

    /// What the last idle time teaches (`teo_update`).
    fn learn(&mut self, states: &[IdleState], last: usize) {
        let measured = self.measured(&states[last]);
        self.total = 0;
        let (mut timer_bin, mut idle_bin) = (0, 0);
        for (index, (state, bin)) in states.iter().zip(&mut self.bins).enumerate() {
            bin.hits -= bin.hits >> DECAY_SHIFT;
            bin.intercepts -= bin.intercepts >> DECAY_SHIFT;
            self.total += bin.hits + bin.intercepts;
            let residency = state.target_residency.get();
            if residency <= self.sleep_length_ns {
                timer_bin = index;
                if residency <= measured {
                    idle_bin = index;
                }
            }
        }
        let counted =
            self.generation == Generation::Lazy && self.count_beyond_tick(states, measured, &mut timer_bin);
        if !counted {
            self.count(timer_bin, idle_bin);
        }
        self.total += PULSE;
    }

    /// The idle time, less half of the exit latency; no less than any timer where the timer was near.
    fn measured(&self, last: &IdleState) -> u64 {
        if self.time_span_ns >= self.sleep_length_ns {
            return u64::MAX;
        }
        let latency = last.exit_latency.get();
        let residency = self.last_residency_ns;
        if residency >= latency { residency - latency / 2 } else { residency / 2 }
    }

    /// Where the deepest state is worth it within a tick, timers beyond a tick have a bin of their own, for
    /// hits only; whether it was one.
    fn count_beyond_tick(&mut self, states: &[IdleState], measured: u64, timer_bin: &mut usize) -> bool {
        if states[states.len() - 1].target_residency.get() >= self.tick_ns {
            return false;
        }
        self.tick_hits -= self.tick_hits >> DECAY_SHIFT;
        self.total += self.tick_hits;
        if self.tick_ns > self.sleep_length_ns {
            return false;
        }
        *timer_bin = states.len();
        let hit = self.tick_ns <= measured;
        if hit {
            self.tick_hits += PULSE;
        }
        hit
    }

    fn count(&mut self, timer_bin: usize, idle_bin: usize) {
        let hit = timer_bin == idle_bin;
        if hit {
            self.bins[idle_bin].hits += PULSE;
        } else {
            self.bins[idle_bin].intercepts += PULSE;
        }
        let recent = (!hit).then_some(idle_bin);
        if let Some(bin) = std::mem::replace(&mut self.recent[self.next_recent], recent) {
            self.bins[bin].recent -= 1;
        }
        if let Some(bin) = recent {
            self.bins[bin].recent += 1;
        }
        self.next_recent = (self.next_recent + 1) % RECENT;
    }

    /// The deepest state worth it in a time, and the sums over the bins below it; `None` where no state is
    /// enabled.
    fn candidate(&self, states: &[IdleState], entry: &IdleEntry, time_ns: u64) -> Option<Candidate> {
        let limit = entry.latency_limit_ns();
        let mut sums = Sums::default();
        let mut found = (!states[0].disabled).then_some(Candidate {
            state: 0,
            first: 0,
            within_limit: 0,
            shallower: sums,
            all_intercepts: 0,
        });
        for (index, state) in states.iter().enumerate().skip(1) {
            let before = self.bins[index - 1];
            sums.intercepts += before.intercepts;
            sums.hits += before.hits;
            sums.recent += before.recent;
            if state.disabled {
                continue;
            }
            let candidate = found.get_or_insert(Candidate {
                state: index,
                first: index,
                within_limit: 0,
                shallower: Sums::default(),
                all_intercepts: 0,
            });
            if state.target_residency.get() > time_ns {
                break;
            }
            candidate.state = index;
            candidate.shallower = sums;
            if state.exit_latency.get() <= limit {
                candidate.within_limit = index;
            }
        }
        let last = self.bins[states.len() - 1].intercepts;
        found.map(|candidate| Candidate { all_intercepts: sums.intercepts + last, ..candidate })
    }

    fn select_eagerly(&mut self, states: &[IdleState], entry: &IdleEntry) -> IdleChoice {
        self.sleep_length_ns = entry.sleep_length.get();
        let time = self.sleep_length_ns;
        let next_tick = entry.next_tick.get();
        let choice = |state, first, time| self.with_tick(states, entry, state, first, time, next_tick);
        let timer_is_soon = || !states[0].disabled && states[1].target_residency.get() > time;
        if states.len() < 2 || timer_is_soon() {
            return choice(0, 0, time);
        }
        let Some(candidate) = self.candidate(states, entry, time) else { return choice(0, 0, time) };
        if candidate.state == candidate.first {
            return choice(candidate.state, candidate.first, time);
        }
        let (state, time) = self.shallower_by_recent(states, entry, &candidate, time);
        choice(state.min(candidate.within_limit), candidate.first, time)
    }

    /// A shallower state where wake-ups before the candidate was worth it are the rule, or were recently, and
    /// how long the CPU will then sleep.
    fn shallower_by_recent(
        &self,
        states: &[IdleState],
        entry: &IdleEntry,
        candidate: &Candidate,
        time: u64,
    ) -> (usize, u64) {
        let below = candidate.shallower;
        let by_intercepts = 2 * below.intercepts > self.total - below.hits;
        let by_recent = below.recent as usize > RECENT / 2;
        if !by_intercepts && !by_recent {
            return (candidate.state, time);
        }
        let mut suitable = (candidate.state, time);
        let (mut intercepts, mut recent) = (0, 0);
        for index in (0..candidate.state).rev() {
            intercepts += self.bins[index].intercepts;
            recent += self.bins[index].recent;
            let middle =
                (states[index].target_residency.get() + states[index + 1].target_residency.get()) / 2;
            let long_enough = !entry.tick_stopped || middle >= self.tick_ns;
            let most_recent = !by_recent || 2 * recent > below.recent;
            let most = !by_intercepts || 2 * intercepts > below.intercepts;
            if most_recent && most {
                return if long_enough && !states[index].disabled { (index, middle) } else { suitable };
            }
            if states[index].disabled {
                continue;
            }
            if long_enough {
                suitable = (index, middle);
            } else if suitable.0 == candidate.state {
                break;
            }
        }
        (candidate.state, time)
    }

    fn select_lazily(&mut self, states: &[IdleState], entry: &IdleEntry) -> IdleChoice {
        const KEEP: Tick = Tick::Keep;
        self.sleep_length_ns = NEVER;
        let half_tick = self.tick_ns / 2;
        if states.len() < 2 {
            return IdleChoice { state: 0, tick: KEEP };
        }
        let Some(candidate) = self.candidate(states, entry, u64::MAX) else {
            return IdleChoice { state: 0, tick: KEEP };
        };
        let (first, deepest) = (candidate.first, candidate.state);
        if deepest == first {
            let time = states[deepest].target_residency.get();
            return self.with_tick(states, entry, deepest, first, time, half_tick);
        }
        let state = self.shallower_by_all(states, entry, &candidate);
        if state == 0 && deepest > 0 {
            // Only with the timer known, it can be told afterwards whether that was right.
            self.sleep_length_ns = entry.sleep_length.get();
            return IdleChoice { state, tick: KEEP };
        }
        let state = state.min(candidate.within_limit);
        let cheap = states[0].polling && states[state].target_residency.get() < CHEAP;
        if state == 0 || cheap {
            return IdleChoice { state, tick: KEEP };
        }
        self.sleep_length_ns = entry.sleep_length.get();
        let mut time = self.sleep_length_ns;
        let too_deep = states[state].target_residency.get() > time;
        let state = if too_deep { shallower(states, state, time) } else { state };
        let within_tick = states[state].target_residency.get() < self.tick_ns;
        if within_tick && candidate.all_intercepts > self.total / 2 + self.total / 8 {
            time = half_tick;
        }
        self.with_tick(states, entry, state, first, time, entry.next_tick.get())
    }

    /// A shallower state where wake-ups before the candidate was worth it are the rule.
    fn shallower_by_all(&self, states: &[IdleState], entry: &IdleEntry, candidate: &Candidate) -> usize {
        let below = candidate.shallower;
        if 2 * below.intercepts <= self.total - below.hits {
            return candidate.state;
        }
        let mut suitable = candidate.state;
        let mut intercepts = 0;
        for index in (0..candidate.state).rev() {
            intercepts += self.bins[index].intercepts;
            let deep_enough = !entry.tick_stopped || states[index].target_residency.get() >= self.tick_ns;
            if 2 * intercepts > below.intercepts {
                return if deep_enough && !states[index].disabled { index } else { suitable };
            }
            if states[index].disabled {
                continue;
            }
            if deep_enough {
                suitable = index;
            } else if suitable == candidate.state {
                break;
            }
        }
        candidate.state
    }

    /// The tick goes on with a polling state, and where the CPU will not sleep for a tick; then no state may
    /// be worth it only after the next event.
    fn with_tick(
        &self,
        states: &[IdleState],
        entry: &IdleEntry,
        state: usize,
        first: usize,
        time_ns: u64,
        next_tick_ns: u64,
    ) -> IdleChoice {
        if entry.tick_stopped || (!states[state].polling && time_ns >= self.tick_ns) {
            return IdleChoice { state, tick: Tick::Stop };
        }
        let too_deep = state > first && states[state].target_residency.get() > next_tick_ns;
        let state = if too_deep { shallower(states, state, next_tick_ns) } else { state };
        IdleChoice { state, tick: Tick::Keep }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{TICK, arm, skylake, until};
    use super::*;

    const OLD: KernelVersion = KernelVersion::new(6, 1, 192);
    const NEW: KernelVersion = KernelVersion::new(6, 12, 117);

    /// A governor with these hits and intercepts by state, that has nothing left to learn.
    fn teo(version: KernelVersion, bins: [(u32, u32); 4]) -> Teo {
        let mut teo = Teo { last_state: None, ..Teo::new(version, TICK) };
        for (bin, (hits, intercepts)) in teo.bins.iter_mut().zip(bins) {
            (bin.hits, bin.intercepts) = (hits, intercepts);
            teo.total += hits + intercepts;
        }
        teo
    }

    fn woken_after(us: u64, state: usize) -> Wake {
        let residency = Nanos::from_micros(us);
        Wake { now: residency, state, residency, tick: false, poll_expired: false }
    }

    #[test]
    fn bins_forget_an_eighth_and_gain_a_pulse() {
        let mut teo = teo(OLD, [(0, 0), (0, 0), (800, 1600), (0, 0)]);
        teo.select(&skylake(), &until(Nanos::from_millis(10)));
        // 400 µs in C6, less half of 133 µs: 333.5 µs, C1E's bin; the timer's is C6's. An intercept.
        teo.woke(&woken_after(400, 3));
        teo.select(&skylake(), &until(Nanos::from_millis(10)));
        assert_eq!(teo.bins[2], Bin { hits: 700, intercepts: 1400 + 1024, recent: 1 });
        assert_eq!(teo.total, 700 + 1400 + 1024);
    }

    #[test]
    fn a_wake_up_at_the_timer_is_a_hit() {
        for version in [OLD, NEW] {
            let mut teo = teo(version, [(0, 0); 4]);
            teo.select(&skylake(), &until(Nanos::from_micros(700)));
            teo.woke(&woken_after(700, 3));
            teo.select(&skylake(), &until(Nanos::from_micros(700)));
            assert_eq!(teo.bins[3].hits, 1024, "{version}");
        }
    }

    #[test]
    fn hits_beyond_a_tick_have_a_bin_of_their_own_since_6_6() {
        let mut teo = teo(NEW, [(0, 0); 4]);
        teo.select(&skylake(), &until(Nanos::from_millis(10)));
        teo.woke(&woken_after(10_000, 3));
        teo.select(&skylake(), &until(Nanos::from_millis(10)));
        assert_eq!((teo.tick_hits, teo.bins[3].hits, teo.total), (1024, 0, 1024));
    }

    #[test]
    fn a_tick_that_need_not_have_run_counts_as_the_timer() {
        let mut teo = teo(OLD, [(0, 0); 4]);
        teo.select(&skylake(), &until(Nanos::from_millis(50)));
        teo.woke(&Wake { tick: true, ..woken_after(2000, 2) });
        teo.select(&skylake(), &until(Nanos::from_millis(50)));
        assert_eq!(teo.bins[3].hits, 1024);
    }

    #[test]
    fn early_wake_ups_choose_the_state_that_half_of_them_outlast() {
        for version in [OLD, NEW] {
            // 1000 and 3000 intercepts below C6, 1000 hits: 2·4000 > 5000 − 0. C1E alone has most of them.
            let mut most_in_c1e = teo(version, [(0, 0), (0, 1000), (0, 3000), (1000, 0)]);
            let choice = most_in_c1e.select(&skylake(), &until(Nanos::from_millis(10)));
            assert_eq!((choice.state, choice.tick), (2, Tick::Keep), "{version}");
            let mut most_in_c1 = teo(version, [(0, 0), (0, 3000), (0, 1000), (1000, 0)]);
            assert_eq!(most_in_c1.select(&skylake(), &until(Nanos::from_millis(10))).state, 1, "{version}");
        }
    }

    #[test]
    fn as_many_early_wake_ups_as_not_change_nothing() {
        for version in [OLD, NEW] {
            let mut even = teo(version, [(0, 0), (0, 0), (0, 1000), (1000, 0)]);
            assert_eq!(even.select(&skylake(), &until(Nanos::from_millis(10))).state, 3, "{version}");
            let mut one_more = teo(version, [(0, 0), (0, 0), (0, 1001), (1000, 0)]);
            assert_eq!(one_more.select(&skylake(), &until(Nanos::from_millis(10))).state, 2, "{version}");
        }
    }

    #[test]
    fn five_recent_early_wake_ups_of_nine_suffice_in_6_1() {
        for (recent, state) in [(4, 3), (5, 2)] {
            let mut teo = teo(OLD, [(0, 0), (0, 0), (0, 0), (90_000, 0)]);
            teo.bins[2].recent = recent;
            assert_eq!(teo.select(&skylake(), &until(Nanos::from_millis(10))).state, state);
        }
    }

    #[test]
    fn a_timer_before_the_deepest_state_is_worth_it_chooses_a_shallower_one() {
        for version in [OLD, NEW] {
            let mut teo = teo(version, [(0, 0); 4]);
            let choice = teo.select(&skylake(), &until(Nanos::from_micros(500)));
            assert_eq!(choice, IdleChoice { state: 2, tick: Tick::Keep }, "{version}");
        }
    }

    #[test]
    fn the_latency_limit_chooses_a_shallower_state() {
        for version in [OLD, NEW] {
            let entry =
                IdleEntry { latency_limit: Some(Nanos::from_micros(10)), ..until(Nanos::from_millis(10)) };
            let choice = teo(version, [(0, 0); 4]).select(&skylake(), &entry);
            assert_eq!(choice.state, 2, "{version}");
        }
    }

    #[test]
    fn with_the_tick_stopped_no_shallow_state_is_taken_for_early_wake_ups() {
        for version in [OLD, NEW] {
            let entry = IdleEntry { tick_stopped: true, ..until(Nanos::from_millis(10)) };
            let choice = teo(version, [(0, 0), (0, 1000), (0, 3000), (1000, 0)]).select(&skylake(), &entry);
            assert_eq!(choice, IdleChoice { state: 3, tick: Tick::Stop }, "{version}");
        }
    }

    #[test]
    fn the_timer_is_not_asked_for_before_looping_or_a_cheap_state_since_6_6() {
        let mut teo = teo(NEW, [(0, 0), (0, 3000), (0, 0), (0, 0)]);
        let choice = teo.select(&skylake(), &until(Nanos::from_millis(10)));
        assert_eq!((choice.state, teo.sleep_length_ns), (1, NEVER));
    }

    #[test]
    fn where_only_one_state_is_enabled_it_is_taken() {
        let mut states = arm();
        states[0].disabled = true;
        for version in [OLD, NEW] {
            let choice = teo(version, [(0, 0); 4]).select(&states, &until(Nanos::from_millis(10)));
            assert_eq!(choice.state, 1, "{version}");
        }
        states[1].disabled = true;
        for version in [OLD, NEW] {
            assert_eq!(teo(version, [(0, 0); 4]).select(&states, &until(Nanos::from_millis(10))).state, 0);
        }
    }
}
