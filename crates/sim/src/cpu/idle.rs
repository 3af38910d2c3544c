//! Idle CPUs: the state that the idle governor chooses, and what it costs to come back.
//!
//! Left out: the tick that goes on where a governor keeps it, and the timers of a CPU, which a governor here
//! does not know: it takes the next one to be a second away, so that its experience with earlier stays
//! decides.

use super::Cpus;
use crate::engine::Event;
use domain::time::Nanos;
use event_queue::{Queue, Time};
use governors::KernelVersion;
use governors::idle::{IdleEntry, IdleGovernor, IdleState as Known, UnknownIdleGovernor, Wake};

/// A CPU that is idle in a state for so long at least saves what entering and leaving it costs.
#[derive(Clone, Debug, PartialEq)]
pub struct IdleState {
    /// `C1`, `C6`.
    pub name: String,
    /// From an interrupt to the first instruction.
    pub exit_latency_ns: u64,
    /// The shortest stay that is worth it.
    pub target_residency_ns: u64,
    /// Power of one CPU in it.
    pub watts: f64,
}

/// The idle states of a machine, and who chooses.
#[derive(Clone, Debug)]
pub struct IdleSpec {
    /// Shallowest first.
    pub states: Vec<IdleState>,
    /// `menu` or `teo`, not yet used.
    pub governor: IdleGovernor,
    /// By state: it may not be chosen.
    pub disabled: Vec<bool>,
    /// The longest exit latency that a state may have, where anyone holds a limit (PM QoS).
    pub latency_limit: Option<Nanos>,
}

impl IdleSpec {
    /// States with a governor by its name.
    ///
    /// # Errors
    /// Where no governor has this name.
    pub fn new(
        states: Vec<IdleState>,
        governor: &str,
        kernel: KernelVersion,
        tick: Nanos,
    ) -> Result<Self, UnknownIdleGovernor> {
        let governor = IdleGovernor::new(governor, kernel, tick)?;
        let disabled = vec![false; states.len()];
        Ok(Self { states, governor, disabled, latency_limit: None })
    }
}

/// What is worth it sooner is no reason to give up looping (`CPUIDLE_POLL_MIN`), in nanoseconds.
const POLL_LEAST: u64 = 10_000;

/// Further away than any stay that a governor tells apart.
const NO_TIMER: Nanos = Nanos::from_secs(1);

/// One CPU's idleness.
#[derive(Clone, Debug)]
pub(super) struct Idleness {
    spec: IdleSpec,
    known: Vec<Known>,
    /// Which state, and since when.
    now_in: Option<(usize, Time)>,
    /// By state: how long, and how often.
    stays: Vec<(u64, u64)>,
}

impl Idleness {
    pub(super) fn new(spec: &IdleSpec) -> Self {
        let known = spec.states.iter().zip(&spec.disabled).map(|(state, disabled)| Known {
            exit_latency: Nanos::new(state.exit_latency_ns),
            target_residency: Nanos::new(state.target_residency_ns),
            polling: state.name == "POLL",
            disabled: *disabled,
        });
        Self {
            known: known.collect(),
            now_in: None,
            stays: vec![(0, 0); spec.states.len()],
            spec: spec.clone(),
        }
    }

    /// The CPU has nothing to do.
    pub(super) fn enter(&mut self, now: Time, next_tick: Time, iowaiters: u32) {
        let entry = IdleEntry {
            now: Nanos::new(now),
            latency_limit: self.spec.latency_limit,
            sleep_length: NO_TIMER,
            next_tick: Nanos::new(next_tick),
            tick_stopped: false,
            iowaiters,
        };
        let choice = self.spec.governor.select(&self.known, &entry);
        self.now_in = Some((choice.state, now));
    }

    /// Whether the CPU loops until it has something to do.
    pub(super) fn polls(&self) -> bool {
        self.now_in.is_some_and(|(state, _)| self.known[state].polling)
    }

    /// When it gives up looping, which it does then or does not loop (`cpuidle_poll_time`,
    /// drivers/cpuidle/cpuidle.c).
    fn polls_until(&self, tick_ns: u64) -> Option<Time> {
        let (state, since) = self.now_in.filter(|(state, _)| self.known[*state].polling)?;
        let deeper = self.known[state + 1..].iter().filter(|known| !known.disabled);
        let mut residencies = deeper.map(|known| known.target_residency.get());
        Some(since + residencies.find(|residency| *residency >= POLL_LEAST).unwrap_or(tick_ns))
    }

    /// The CPU has something to do: how long it takes until it can.
    pub(super) fn leave(&mut self, now: Time) -> u64 {
        self.left(now, false)
    }

    fn left(&mut self, now: Time, poll_expired: bool) -> u64 {
        let Some((state, since)) = self.now_in.take() else { return 0 };
        let latency = self.spec.states[state].exit_latency_ns;
        let stay = now - since;
        self.stays[state].0 += stay;
        self.stays[state].1 += 1;
        self.spec.governor.woke(&Wake {
            now: Nanos::new(now + latency),
            state,
            residency: Nanos::new(stay + latency),
            tick: false,
            poll_expired,
        });
        latency
    }

    /// Power in the state that the CPU is in, where it does not loop.
    pub(super) fn watts(&self) -> Option<f64> {
        self.now_in
            .filter(|(state, _)| !self.known[*state].polling)
            .map(|(state, _)| self.spec.states[state].watts)
    }

    /// Each state: its name, time in it and entries, up to now.
    pub(super) fn stays(&self, now: Time) -> impl Iterator<Item = (&str, u64, u64)> {
        self.spec.states.iter().zip(&self.stays).enumerate().map(move |(index, (state, (time, entries)))| {
            let present = self.now_in.filter(|(in_now, _)| *in_now == index);
            let more = present.map_or(0, |(_, since)| now - since);
            (state.name.as_str(), time + more, entries + u64::from(present.is_some()))
        })
    }
}

impl Cpus {
    pub(super) fn idle(&mut self, now: Time, queue: &mut Queue<Event>, cpu: usize) {
        let entry = &mut self.cpus[cpu];
        entry.busy = false;
        entry.idle_calls += 1;
        if self.tracks {
            entry.tracking.goes_idle();
        }
        self.choose_idle_state(now, queue, cpu);
        self.count_busy(now, queue, self.busy - 1);
    }

    fn choose_idle_state(&mut self, now: Time, queue: &mut Queue<Event>, cpu: usize) {
        let entry = &mut self.cpus[cpu];
        let Some(idleness) = &mut entry.idleness else { return };
        idleness.enter(now, self.tick_ns - now % self.tick_ns, entry.sleepers_on_disk);
        if let Some(until) = idleness.polls_until(self.tick_ns) {
            queue.plan(until, Event::PollOver(cpu as u32));
        }
    }

    /// A CPU that still loops chooses again.
    pub(crate) fn poll_over(&mut self, now: Time, queue: &mut Queue<Event>, cpu: usize) {
        let tick_ns = self.tick_ns;
        let is_over = |idleness: &Idleness| idleness.polls_until(tick_ns).is_some_and(|until| until <= now);
        if !self.cpus[cpu].idleness.as_ref().is_some_and(is_over) {
            return;
        }
        self.account(now, cpu);
        if let Some(idleness) = &mut self.cpus[cpu].idleness {
            idleness.left(now, true);
        }
        self.choose_idle_state(now, queue, cpu);
    }

    /// Each idle state of a CPU: its name, the nanoseconds in it and how often it was entered, up to now.
    pub fn idle_states(&self, now: Time, cpu: usize) -> impl Iterator<Item = (&str, u64, u64)> {
        self.cpus[cpu].idleness.iter().flat_map(move |idleness| idleness.stays(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The states that a CPU is in which is idle for 100 ms, ten times.
    fn chosen(governor: &str, latency_limit: Option<Nanos>) -> Vec<String> {
        const SECOND: u64 = 1_000_000_000;
        let state = |name: &str, exit_us: u64, residency_us: u64| IdleState {
            name: name.to_owned(),
            exit_latency_ns: exit_us * 1_000,
            target_residency_ns: residency_us * 1_000,
            watts: 1.0,
        };
        let states = vec![state("POLL", 0, 0), state("C1", 2, 4), state("C6", 133, 600)];
        let kernel = KernelVersion { major: 6, minor: 12, patch: 0 };
        let spec = IdleSpec::new(states, governor, kernel, Nanos::from_millis(4)).unwrap();
        let mut idleness = Idleness::new(&IdleSpec { latency_limit, ..spec });
        for round in 0..10 {
            idleness.enter(round * SECOND, 4_000_000, 0);
            idleness.leave(round * SECOND + SECOND / 10);
        }
        let stays = idleness.stays(20 * SECOND).filter(|(_, _, entries)| *entries > 0);
        stays.map(|(name, _, _)| name.to_owned()).collect()
    }

    #[test]
    fn a_cpu_loops_until_the_first_state_that_takes_10_us_to_be_worth_it() {
        let state = |name: &str, us: u64| IdleState {
            name: name.to_owned(),
            exit_latency_ns: us * 500,
            target_residency_ns: us * 1_000,
            watts: 1.0,
        };
        let states = vec![state("POLL", 0), state("C1", 4), state("C3", 140)];
        let kernel = KernelVersion { major: 6, minor: 12, patch: 0 };
        let mut spec = IdleSpec::new(states, "menu", kernel, Nanos::from_millis(4)).unwrap();
        spec.latency_limit = Some(Nanos::ZERO);
        let mut idleness = Idleness::new(&spec);
        idleness.enter(1_000, 4_000_000, 0);
        assert!(idleness.polls());
        assert_eq!((idleness.polls_until(4_000_000), idleness.watts()), (Some(141_000), None));
        assert_eq!(idleness.leave(2_000), 0);
        assert_eq!((idleness.polls(), idleness.polls_until(4_000_000)), (false, None));

        spec.disabled = vec![false, false, true];
        let mut idleness = Idleness::new(&spec);
        idleness.enter(1_000, 4_000_000, 0);
        assert_eq!(idleness.polls_until(4_000_000), Some(4_001_000), "a tick");
    }

    #[test]
    fn no_state_takes_longer_to_leave_than_the_limit() {
        for governor in ["menu", "teo"] {
            assert!(chosen(governor, None).contains(&"C6".to_owned()), "{governor}");
            assert!(chosen(governor, Some(Nanos::from_micros(133))).contains(&"C6".to_owned()), "{governor}");
            assert_eq!(chosen(governor, Some(Nanos::from_micros(20))), ["C1"], "{governor}");
            assert_eq!(chosen(governor, Some(Nanos::ZERO)), ["POLL"], "{governor}");
        }
    }
}
