//! Which idle state a CPU enters, and whether its tick goes on meanwhile.
//!
//! An idle governor is asked each time that a CPU has nothing to do ([`IdleGovernor::select`]), and told what
//! came of it ([`IdleGovernor::woke`]). It follows `drivers/cpuidle/governors/{menu,teo}.c`; what calls it is
//! `kernel/sched/idle.c` and `drivers/cpuidle/cpuidle.c` (`cpuidle_enter_state`, `cpuidle_poll_time`).
//!
//! Neither governor has tunables that can be set while it runs; the constants of their sources are named in
//! their modules. What can be set from outside is in the states (`disable` of each) and in
//! [`IdleEntry::latency_limit`].
//!
//! Left out: `ladder` and `haltpoll`, states that the driver demotes or rejects for reasons of its own (tell
//! [`IdleGovernor::refused`]), and timers that a broadcast takes over.

mod menu;
mod teo;

pub use menu::Menu;
pub use teo::Teo;

use crate::KernelVersion;
use domain::time::Nanos;
use thiserror::Error;

/// The most idle states that a driver may have (`CPUIDLE_STATE_MAX`).
pub const MAX_IDLE_STATES: usize = 10;

/// The target residency below which a state is cheap enough to be taken without asking when the next timer is
/// due (`RESIDENCY_THRESHOLD_NS`).
const CHEAP: u64 = 15_000;

/// Later than any timer (`KTIME_MAX`), in nanoseconds.
const NEVER: u64 = i64::MAX as u64;

/// An idle state, as the driver's table has it; shallow ones come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleState {
    /// How long the CPU takes to run again, at worst (`latency`).
    pub exit_latency: Nanos,
    /// How long it has to stay for the state to be worth entering (`residency`).
    pub target_residency: Nanos,
    /// It does not stop the CPU but loops (`CPUIDLE_FLAG_POLLING`).
    pub polling: bool,
    /// It is switched off for this CPU (`disable`).
    pub disabled: bool,
}

/// What the kernel knows when a CPU becomes idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleEntry {
    /// The CPU's clock.
    pub now: Nanos,
    /// The longest exit latency that anyone accepts (`/dev/cpu_dma_latency` and `pm_qos_resume_latency_us`);
    /// `None` where nobody has set one.
    pub latency_limit: Option<Nanos>,
    /// Time until the next timer were the tick stopped (`tick_nohz_get_sleep_length`); zero where it is
    /// overdue.
    pub sleep_length: Nanos,
    /// Time until the next timer with the tick going on; zero where it is overdue.
    pub next_tick: Nanos,
    /// Whether the tick is stopped already.
    pub tick_stopped: bool,
    /// Tasks that last ran here and wait for disks (`nr_iowait_cpu`).
    pub iowaiters: u32,
}

impl IdleEntry {
    fn latency_limit_ns(&self) -> u64 {
        self.latency_limit.map_or(u64::MAX, Nanos::get)
    }
}

/// What becomes of the tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tick {
    /// It goes on.
    Keep,
    /// It is stopped until something else wakes the CPU.
    Stop,
}

/// What a governor chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleChoice {
    /// Index of the state.
    pub state: usize,
    /// What becomes of the tick. One that is stopped stays so whatever stands here.
    pub tick: Tick,
}

/// What came of an idle state that was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// The CPU's clock.
    pub now: Nanos,
    /// Index of the state that was entered.
    pub state: usize,
    /// How long it was in it, exit latency included.
    pub residency: Nanos,
    /// Whether the tick woke it (`tick_nohz_idle_got_tick`).
    pub tick: bool,
    /// Whether a polling state ended because of [`poll_time`].
    pub poll_expired: bool,
}

/// How long a polling state loops at most before the governor is asked again (`cpuidle_poll_time`): as long
/// as the first enabled state behind it takes to be worth it, but at least 10 µs and at most a sixteenth of a
/// tick. The kernel computes it once, when the state is first entered.
pub fn poll_time(states: &[IdleState], tick: Nanos) -> Nanos {
    const SHORTEST: Nanos = Nanos::from_micros(10);
    let longest = Nanos::new(tick.get() / 16);
    let worth = states.iter().skip(1).filter(|state| !state.disabled).map(|state| state.target_residency);
    worth.into_iter().find(|residency| *residency >= SHORTEST).map_or(longest, |found| found.min(longest))
}

/// A name that is no governor's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no idle governor `{0}` is modelled; there are menu and teo")]
pub struct UnknownIdleGovernor(pub String);

/// An idle governor, for one CPU.
#[derive(Clone, Debug)]
pub enum IdleGovernor {
    /// By the next timer, corrected by experience, and by recurring intervals.
    Menu(Menu),
    /// By the next timer, unless wake-ups before it are the rule.
    Teo(Teo),
}

impl IdleGovernor {
    /// By its name in `/sys/devices/system/cpu/cpuidle/current_governor`; `tick` is the kernel's (4 ms with
    /// `HZ=250`).
    ///
    /// # Errors
    /// Where no governor that is modelled has this name.
    pub fn new(name: &str, version: KernelVersion, tick: Nanos) -> Result<Self, UnknownIdleGovernor> {
        match name {
            "menu" => Ok(Self::Menu(Menu::new(version, tick))),
            "teo" => Ok(Self::Teo(Teo::new(version, tick))),
            _ => Err(UnknownIdleGovernor(name.to_owned())),
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Menu(_) => "menu",
            Self::Teo(_) => "teo",
        }
    }

    /// In what it is known to differ from this version's kernel, for people; `None` where nothing is known.
    pub fn caveat(&self) -> Option<&'static str> {
        match self {
            Self::Menu(menu) => menu.caveat(),
            Self::Teo(teo) => teo.caveat(),
        }
    }

    /// Chooses a state for a CPU that becomes idle.
    ///
    /// # Panics
    /// Where there is no state, or more than [`MAX_IDLE_STATES`].
    pub fn select(&mut self, states: &[IdleState], entry: &IdleEntry) -> IdleChoice {
        assert!((1..=MAX_IDLE_STATES).contains(&states.len()), "{} idle states", states.len());
        match self {
            Self::Menu(menu) => menu.select(states, entry),
            Self::Teo(teo) => teo.select(states, entry),
        }
    }

    /// Tells that it takes over from another governor (a write to `current_governor`), under which the CPU
    /// was last in this state for so long. A new governor is one since the kernel's start.
    pub fn take_over(&mut self, state: usize, residency: Nanos) {
        match self {
            Self::Menu(menu) => menu.take_over(residency),
            Self::Teo(teo) => teo.take_over(state, residency),
        }
    }

    /// Tells what came of the state that was entered.
    pub fn woke(&mut self, wake: &Wake) {
        match self {
            Self::Menu(menu) => menu.woke(wake),
            Self::Teo(teo) => teo.woke(wake),
        }
    }

    /// Tells that the chosen state was not entered: a task came in between, or the driver refused.
    pub fn refused(&mut self) {
        match self {
            Self::Menu(menu) => menu.refused(),
            Self::Teo(teo) => teo.refused(),
        }
    }
}

/// The first enabled state below one whose target residency is no longer than a time; else the shallowest
/// enabled one, or the state itself where none below is enabled.
fn shallower(states: &[IdleState], from: usize, time_ns: u64) -> usize {
    let mut found = from;
    for (index, state) in states.iter().enumerate().take(from).rev().filter(|(_, state)| !state.disabled) {
        found = index;
        if state.target_residency.get() <= time_ns {
            break;
        }
    }
    found
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// The kernel's tick with `HZ=250`.
    pub(crate) const TICK: Nanos = Nanos::from_millis(4);

    fn state(exit_us: u64, residency_us: u64, polling: bool) -> IdleState {
        IdleState {
            exit_latency: Nanos::from_micros(exit_us),
            target_residency: Nanos::from_micros(residency_us),
            polling,
            disabled: false,
        }
    }

    /// POLL, C1, C1E and C6 of a Skylake server (`drivers/idle/intel_idle.c`, `skx_cstates`).
    pub(crate) fn skylake() -> Vec<IdleState> {
        vec![state(0, 0, true), state(2, 2, false), state(10, 20, false), state(133, 600, false)]
    }

    /// Two states without polling, as on ARM: WFI, and one that powers the core down.
    pub(crate) fn arm() -> Vec<IdleState> {
        vec![state(1, 1, false), state(370, 900, false)]
    }

    /// Idle with the next timer so far away, the tick 2 ms away.
    pub(crate) fn until(sleep: Nanos) -> IdleEntry {
        IdleEntry {
            now: Nanos::ZERO,
            latency_limit: None,
            sleep_length: sleep,
            next_tick: Nanos::from_millis(2).min(sleep),
            tick_stopped: false,
            iowaiters: 0,
        }
    }

    /// Enters what is chosen, and wakes after a time that is no timer's.
    pub(crate) fn sleep(
        governor: &mut IdleGovernor,
        states: &[IdleState],
        entry: &IdleEntry,
        residency: Nanos,
    ) -> IdleChoice {
        let choice = governor.select(states, entry);
        let wake = Wake {
            now: entry.now + residency,
            state: choice.state,
            residency,
            tick: false,
            poll_expired: false,
        };
        governor.woke(&wake);
        choice
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{TICK, arm, skylake, sleep, until};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_polling_state_loops_as_long_as_the_first_worthwhile_state_takes() {
        assert_eq!(poll_time(&skylake(), TICK), Nanos::from_micros(20), "C1's 2 µs are too short");
        let mut states = skylake();
        states[2].disabled = true;
        assert_eq!(poll_time(&states, TICK), Nanos::from_micros(250), "600 µs exceed a sixteenth of a tick");
        assert_eq!(poll_time(&states[..1], TICK), Nanos::from_micros(250));
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        let error = IdleGovernor::new("ladder", KernelVersion::new(6, 12, 0), TICK).unwrap_err();
        assert_eq!(error.to_string(), "no idle governor `ladder` is modelled; there are menu and teo");
    }

    /// The kernels between which something changed.
    const VERSIONS: [(u16, u16, u16); 8] =
        [(5, 10, 0), (6, 1, 192), (6, 6, 0), (6, 12, 43), (6, 12, 48), (6, 12, 117), (6, 13, 0), (6, 18, 0)];

    fn all() -> impl Iterator<Item = IdleGovernor> {
        ["menu", "teo"].into_iter().flat_map(|name| {
            VERSIONS
                .into_iter()
                .map(move |(a, b, c)| IdleGovernor::new(name, KernelVersion::new(a, b, c), TICK).unwrap())
        })
    }

    #[test]
    fn with_no_latency_accepted_the_cpu_polls_and_the_tick_goes_on() {
        for mut governor in all() {
            let entry = IdleEntry { latency_limit: Some(Nanos::ZERO), ..until(Nanos::from_millis(100)) };
            for _ in 0..20 {
                let choice = sleep(&mut governor, &skylake(), &entry, Nanos::from_millis(1));
                assert_eq!((choice.state, choice.tick), (0, Tick::Keep), "{governor:?}");
            }
        }
    }

    #[test]
    fn where_only_timers_wake_all_choose_the_deepest_state_and_stop_the_tick() {
        for states in [skylake(), arm()] {
            for mut governor in all() {
                let entry = until(Nanos::from_millis(100));
                let mut last = None;
                for _ in 0..20 {
                    last = Some(sleep(&mut governor, &states, &entry, entry.sleep_length));
                }
                let expected = IdleChoice { state: states.len() - 1, tick: Tick::Stop };
                assert_eq!(last, Some(expected), "{governor:?}");
            }
        }
    }

    #[test]
    fn where_wake_ups_come_after_60_us_all_learn_it_and_leave_the_deep_state() {
        for mut governor in all() {
            let entry = until(Nanos::from_millis(100));
            let mut last = None;
            for _ in 0..40 {
                last = Some(sleep(&mut governor, &skylake(), &entry, Nanos::from_micros(60)));
            }
            let choice = last.unwrap();
            assert_eq!((choice.state, choice.tick), (2, Tick::Keep), "{governor:?}");
        }
    }

    #[test]
    fn a_disabled_state_is_never_chosen_while_another_is_enabled() {
        let mut states = skylake();
        states[3].disabled = true;
        for mut governor in all() {
            let choice =
                sleep(&mut governor, &states, &until(Nanos::from_millis(100)), Nanos::from_millis(100));
            assert!(choice.state < 3, "{governor:?}");
        }
    }

    proptest! {
        #[test]
        fn any_history_chooses_an_enabled_state_within_the_latency_limit(
            which in 0_usize..16,
            steps in proptest::collection::vec(
                (1_u64..200_000_000, 0_u64..300_000_000, any::<bool>(), any::<bool>(), 0_u32..4), 1..60),
            disabled in any::<[bool; 4]>(),
            limit_us in proptest::option::of(0_u64..300),
        ) {
            let mut governor = all().nth(which).unwrap();
            let mut states = skylake();
            for (state, disabled) in states.iter_mut().zip(disabled) {
                state.disabled = disabled;
            }
            let mut now = Nanos::from_secs(1);
            for (sleep, residency, tick_stopped, tick, iowaiters) in steps {
                let entry = IdleEntry {
                    now, tick_stopped, iowaiters,
                    latency_limit: limit_us.map(Nanos::from_micros),
                    ..until(Nanos::new(sleep))
                };
                let choice = governor.select(&states, &entry);
                let chosen = states[choice.state];
                let first_enabled = states.iter().position(|state| !state.disabled).unwrap_or(0);
                // State 0 is what is left where nothing suits; a latency of zero goes there before all else.
                prop_assert!(!chosen.disabled || choice.state == 0);
                if let Some(limit) = limit_us {
                    prop_assert!(
                        choice.state <= first_enabled || chosen.exit_latency <= Nanos::from_micros(limit),
                        "{:?} {:?}", governor, choice
                    );
                }
                if chosen.polling {
                    prop_assert!(choice.tick == Tick::Keep || tick_stopped);
                }
                let residency = Nanos::new(residency);
                now = now + residency + Nanos::new(1);
                governor.woke(&Wake { now, state: choice.state, residency, tick, poll_expired: false });
            }
        }
    }
}
