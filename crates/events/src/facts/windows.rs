//! How busy a CPU was between two executions of a function by kworkers: of a governor's, that is what it
//! decides by. Where CPUs share a frequency policy, a sample is taken on any of them, and the busiest counts.
//! And how busy it was between two decisions of intel_pstate, and between two requests for a frequency.

use domain::Nanos;
use domain::windows::Windows;
use std::collections::BTreeMap;

/// What a kworker executes when ondemand or conservative take a sample and decide
/// (drivers/cpufreq/cpufreq_governor.c).
pub const SAMPLES_LOAD: &str = "dbs_work_handler";

/// Most functions that are followed, so that a hostile file takes no memory.
const MAX_FUNCTIONS: usize = 1024;

/// Most pieces of work of one function that are told apart: a governor has one a policy.
const MAX_WORKS: usize = 8192;

/// Most pieces of work of all functions.
const MAX_ALL_WORKS: usize = 1 << 17;

/// What a CPU has done until now, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub at: u64,
    pub busy: u64,
    pub unknown: u64,
}

/// Windows of which each begins where the one before ends.
#[derive(Debug, Default)]
struct Successive {
    /// Of each CPU of the policy, in their order.
    last: Vec<Now>,
    windows: Windows,
}

impl Successive {
    /// A window ends, and the next begins; `now` is of all CPUs of the policy, which had been told to run at
    /// `khz`. Gives how long it was and the busy time of the busiest CPU, where all of that is known: a
    /// governor takes the highest load of a CPU (drivers/cpufreq/cpufreq_governor.c, `dbs_update`;
    /// kernel/sched/cpufreq_schedutil.c, `sugov_next_freq_shared`).
    fn ends(&mut self, khz: Option<u32>, now: &[Now]) -> Option<(Nanos, Nanos)> {
        let last = std::mem::replace(&mut self.last, now.to_vec());
        let time = Nanos::new(now.first()?.at.saturating_sub(last.first()?.at));
        let each = || last.iter().zip(now);
        if last.len() != now.len() || each().any(|(a, b)| a.unknown != b.unknown) || time == Nanos::ZERO {
            return None;
        }
        let busy = each().map(|(last, now)| now.busy.saturating_sub(last.busy)).max()?;
        let busy = Nanos::new(busy);
        self.windows.add(khz, time, busy);
        Some((time, busy))
    }
}

/// What kworkers execute, one piece after another: which function is the governor's is known at the end.
#[derive(Debug, Default)]
pub struct Executions {
    /// By function; `None` of one that has more pieces of work than a governor.
    of: BTreeMap<u64, Option<BTreeMap<Piece, Execution>>>,
    /// How many pieces there are.
    pieces: usize,
    /// By kworker: the function and the piece that it executes.
    running: BTreeMap<u32, (u64, Piece)>,
}

/// What is executed again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Piece {
    /// The work at this address (`struct work_struct`), on a machine whose policies are declared.
    Work(u64),
    /// Whatever is executed on the CPUs of a policy, or on a CPU.
    On(u16),
}

#[derive(Debug)]
struct Execution {
    whose: Whose,
    between: Successive,
}

/// The policy that a piece of work is executed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// It was executed on CPUs of this policy alone.
    OnlyOn(u16),
    /// It was executed on CPUs of several, and nothing tells which it is for.
    Unknown,
    /// It changed the frequency of this one.
    Changed(u16),
}

impl Executions {
    /// A kworker begins to execute a piece of a function's work on a CPU of the policy `here`. Gives the
    /// policy that it is for, where that is known. Drivers that let any CPU change a frequency
    /// (`dvfs_possible_from_any_cpu`: acpi-cpufreq, cpufreq-dt) have a governor's work executed on CPUs of
    /// other policies too; whose it is shows where it changes a frequency.
    pub fn executes(&mut self, kworker: u32, function: u64, piece: Piece, here: u16) -> Option<u16> {
        if self.running.len() < MAX_WORKS || self.running.contains_key(&kworker) {
            self.running.insert(kworker, (function, piece));
        }
        let execution = self.execution(function, piece, here)?;
        match execution.whose {
            Whose::Changed(policy) => Some(policy),
            Whose::OnlyOn(policy) if policy == here => Some(policy),
            Whose::OnlyOn(_) => {
                *execution = Execution { whose: Whose::Unknown, between: Successive::default() };
                None
            }
            Whose::Unknown => None,
        }
    }

    fn execution(&mut self, function: u64, piece: Piece, here: u16) -> Option<&mut Execution> {
        if !self.of.contains_key(&function) && self.of.len() >= MAX_FUNCTIONS {
            return None;
        }
        let works = self.of.entry(function).or_insert_with(|| Some(BTreeMap::new()));
        let all = works.as_mut()?;
        if !all.contains_key(&piece) && (all.len() >= MAX_WORKS || self.pieces >= MAX_ALL_WORKS) {
            self.pieces -= all.len();
            *works = None;
            return None;
        }
        let execution = works.as_mut()?.entry(piece).or_insert_with(|| {
            self.pieces += 1;
            Execution { whose: Whose::OnlyOn(here), between: Successive::default() }
        });
        Some(execution)
    }

    /// A window ends with what [`Executions::executes`] was told of; as [`Successive::ends`].
    pub fn begins(
        &mut self,
        function: u64,
        piece: Piece,
        khz: Option<u32>,
        now: &[Now],
    ) -> Option<(Nanos, Nanos)> {
        self.of.get_mut(&function)?.as_mut()?.get_mut(&piece)?.between.ends(khz, now)
    }

    /// A kworker has executed its piece.
    pub fn ends(&mut self, kworker: u32) {
        self.running.remove(&kworker);
    }

    /// A thread changes the frequency of a policy: where it executes a piece of work, that is the policy's.
    pub fn changes(&mut self, thread: u32, policy: u16) {
        let Some((function, piece @ Piece::Work(_))) = self.running.get(&thread) else { return };
        let works = self.of.get_mut(function).and_then(Option::as_mut);
        let Some(execution) = works.and_then(|works| works.get_mut(piece)) else { return };
        if !matches!(execution.whose, Whose::OnlyOn(other) | Whose::Changed(other) if other == policy) {
            execution.between = Successive::default();
        }
        execution.whose = Whose::Changed(policy);
    }

    /// Events were lost: who executes what is not known.
    pub fn lost(&mut self) {
        self.running.clear();
    }

    /// The windows of one function, by policy or CPU, where it is known whose they are.
    pub fn of(&self, function: u64) -> BTreeMap<u16, Windows> {
        let mut all: BTreeMap<u16, Windows> = BTreeMap::new();
        let works = self.of.get(&function).and_then(Option::as_ref);
        for Execution { whose, between } in works.into_iter().flat_map(BTreeMap::values) {
            let (Whose::OnlyOn(policy) | Whose::Changed(policy)) = *whose else { continue };
            if between.windows.all() > 0 {
                all.entry(policy).or_default().add_all(&between.windows);
            }
        }
        all
    }
}

/// Requests for frequencies. A driver that is asked for another frequency emits `cpu_frequency` for all CPUs
/// of the policy (drivers/cpufreq/cpufreq.c, `cpufreq_driver_fast_switch`, `cpufreq_notify_transition`).
#[derive(Debug, Default)]
pub struct FrequencyRequests {
    of: BTreeMap<u16, Successive>,
}

impl FrequencyRequests {
    /// A policy's CPUs are told to run at another frequency than `khz`; as [`Successive::ends`].
    pub fn asks(&mut self, policy: u16, khz: Option<u32>, now: &[Now]) -> Option<(Nanos, Nanos)> {
        self.of.entry(policy).or_default().ends(khz, now)
    }

    /// By policy or CPU.
    pub fn windows(self) -> BTreeMap<u16, Windows> {
        let all = self.of.into_iter().map(|(policy, of)| (policy, of.windows));
        all.filter(|(_, windows)| windows.all() > 0).collect()
    }
}

/// The decisions of intel_pstate (drivers/cpufreq/intel_pstate.c, `get_target_pstate`: `busy_frac` is MPERF
/// over TSC; what a wait for I/O adds to it is not in it here). The event comes behind that of the frequency
/// which was decided (`intel_pstate_adjust_pstate`).
#[derive(Debug, Default)]
pub struct Decisions {
    cpus: BTreeMap<u16, Decided>,
}

#[derive(Debug, Default)]
struct Decided {
    at: u64,
    /// The frequency until the next decision.
    khz: Option<u32>,
    windows: Windows,
}

impl Decisions {
    /// A decision for a frequency, with the counters since the one before. Gives the time and the busy time
    /// since that.
    pub fn decides(
        &mut self,
        cpu: u16,
        khz: Option<u32>,
        now: u64,
        mperf: u64,
        tsc: u64,
    ) -> Option<(Nanos, Nanos)> {
        let Some(of) = self.cpus.get_mut(&cpu) else {
            self.cpus.insert(cpu, Decided { at: now, khz, windows: Windows::default() });
            return None;
        };
        let span = now.saturating_sub(of.at);
        of.at = now;
        let khz = std::mem::replace(&mut of.khz, khz);
        if span == 0 || tsc == 0 {
            return None;
        }
        let share = mperf.min(tsc) as f64 / tsc as f64;
        let (time, busy) = (Nanos::new(span), Nanos::new((span as f64 * share) as u64));
        of.windows.add(khz, time, busy);
        Some((time, busy))
    }

    /// By CPU.
    pub fn windows(self) -> BTreeMap<u16, Windows> {
        let all = self.cpus.into_iter().map(|(cpu, decided)| (cpu, decided.windows));
        all.filter(|(_, windows)| windows.all() > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A kworker of the number of the work executes it on a CPU that has a policy of its own.
    fn executes(all: &mut Executions, function: u64, work: u64, cpu: u16) -> Option<u16> {
        all.executes(work as u32, function, Piece::Work(work), cpu)
    }

    #[test]
    fn what_lies_between_two_executions_is_a_window_where_all_of_it_is_known() {
        let mut all = Executions::default();
        let mut begins = |cpu, function, at, busy, unknown| {
            let (now, on) = (Now { at: at * MS, busy: busy * MS, unknown }, Piece::On(cpu));
            assert_eq!(all.executes(9, function, on, cpu), Some(cpu));
            let found = all.begins(function, on, Some(800), &[now]);
            found.map(|(time, busy)| (time.get() / MS, busy.get() / MS))
        };
        assert_eq!(begins(0, 7, 10, 3, 0), None, "before it nothing was seen");
        assert_eq!(begins(0, 7, 20, 11, 0), Some((10, 8)));
        assert_eq!(begins(0, 9, 22, 12, 0), None, "another function");
        assert_eq!(begins(1, 7, 25, 1, 0), None, "another CPU");
        assert_eq!(begins(0, 7, 30, 13, 5), None, "events were lost");
        assert_eq!(begins(0, 7, 40, 14, 5), Some((10, 1)));
        let of = all.of(7);
        assert_eq!(of.len(), 1);
        assert_eq!(of[&0].counts, [((Some(800), 10), 1), ((Some(800), 80), 1)].into());
    }

    #[test]
    fn of_several_cpus_the_busiest_counts_and_all_have_to_be_known() {
        let mut all = Successive::default();
        let mut ends = |at, busy: [u64; 2], unknown: [u64; 2]| {
            let now = |cpu: usize| Now { at: at * MS, busy: busy[cpu] * MS, unknown: unknown[cpu] };
            let found = all.ends(Some(800), &[now(0), now(1)]);
            found.map(|(time, busy)| (time.get() / MS, busy.get() / MS))
        };
        assert_eq!(ends(10, [0, 5], [0, 0]), None, "before it nothing was seen");
        assert_eq!(ends(20, [1, 14], [0, 0]), Some((10, 9)));
        assert_eq!(ends(30, [9, 15], [0, 0]), Some((10, 8)));
        assert_eq!(ends(40, [9, 15], [0, 1]), None, "the other may have been busier");
        assert_eq!(ends(50, [9, 15], [0, 1]), Some((10, 0)));
    }

    #[test]
    fn whose_a_work_is_that_two_policies_execute_is_known_where_it_changes_a_frequency() {
        let mut all = Executions::default();
        let begins = |all: &mut Executions, at| {
            all.begins(7, Piece::Work(0xa), None, &[Now { at: at * MS, busy: 0, unknown: 0 }]).is_some()
        };
        assert_eq!(executes(&mut all, 7, 0xa, 0), Some(0), "all of it was on policy 0");
        assert!(!begins(&mut all, 10));
        assert_eq!(executes(&mut all, 7, 0xa, 0), Some(0));
        assert!(begins(&mut all, 20));
        assert_eq!(executes(&mut all, 7, 0xb, 2), Some(2), "another work");
        assert_eq!(all.of(7).into_keys().collect::<Vec<_>>(), [0]);
        // From here on nobody knows whether it ever was policy 0's.
        assert_eq!(executes(&mut all, 7, 0xa, 2), None);
        assert_eq!(executes(&mut all, 7, 0xa, 0), None);
        assert!(all.of(7).is_empty());
        // A thread that executes something else says nothing.
        all.changes(0xb, 2);
        assert_eq!(executes(&mut all, 7, 0xa, 0), None);
        all.changes(0xa, 3);
        assert_eq!(executes(&mut all, 7, 0xa, 0), Some(3));
        assert!(!begins(&mut all, 30) && begins(&mut all, 40));
        assert_eq!(all.of(7).into_keys().collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn a_frequency_that_is_changed_outside_of_a_work_or_after_a_loss_is_nobodys() {
        let mut all = Executions::default();
        for forgets in [|all: &mut Executions| all.ends(0xa), Executions::lost] {
            executes(&mut all, 7, 0xa, 0);
            forgets(&mut all);
            all.changes(0xa, 3);
            assert_eq!(executes(&mut all, 7, 0xa, 0), Some(0));
        }
    }

    #[test]
    fn a_function_that_has_more_work_than_a_governor_is_not_followed() {
        let mut all = Executions::default();
        for work in 0..=MAX_WORKS as u64 {
            executes(&mut all, 7, work, 0);
        }
        assert_eq!((all.pieces, executes(&mut all, 7, 1, 0)), (0, None));
        assert_eq!(executes(&mut all, 8, 1, 0), Some(0));
    }

    #[test]
    fn what_lies_between_two_requests_for_a_frequency_is_a_window() {
        let mut all = FrequencyRequests::default();
        let mut asks = |policy, khz, at, busy| {
            let found = all.asks(policy, khz, &[Now { at: at * MS, busy: busy * MS, unknown: 0 }]);
            found.map(|(time, busy)| (time.get() / MS, busy.get() / MS))
        };
        assert_eq!(asks(0, None, 10, 3), None);
        assert_eq!(asks(4, None, 11, 3), None);
        assert_eq!(asks(0, Some(2_000_000), 18, 9), Some((8, 6)));
        let windows = all.windows();
        assert_eq!(windows.len(), 1, "of policy 4 there is none yet");
        assert_eq!(windows[&0].counts, [((Some(2_000_000), 75), 1)].into());
    }

    #[test]
    fn a_decision_of_intel_pstate_goes_by_mperf_over_tsc() {
        let mut all = Decisions::default();
        assert_eq!(all.decides(3, Some(2_000_000), 10 * MS, 1, 2), None);
        let (time, busy) = all.decides(3, Some(800_000), 20 * MS, 300, 1200).unwrap();
        assert_eq!((time.get(), busy.get()), (10 * MS, 5 * MS / 2));
        assert_eq!(all.decides(3, None, 30 * MS, 1, 0), None, "no ticks");
        assert_eq!(all.windows()[&3].counts, [((Some(2_000_000), 25), 1)].into());
    }
}
