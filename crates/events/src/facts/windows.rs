//! How busy a CPU was between two executions of a function by its kworkers: of a governor's, that is what it
//! decides by. Where CPUs share a frequency policy, a sample is taken on any of them, and the busiest counts.

use domain::Nanos;
use domain::windows::Windows;
use std::collections::BTreeMap;

/// What a kworker executes when ondemand or conservative take a sample and decide
/// (drivers/cpufreq/cpufreq_governor.c).
pub const SAMPLES_LOAD: &str = "dbs_work_handler";

/// Most functions that are followed on a CPU, so that a hostile file takes no memory.
const MAX_FUNCTIONS: usize = 1024;

/// Most pieces of work of one function that are told apart: a governor has one a policy.
const MAX_WORKS: usize = 8192;

/// The windows of all functions: which of them is the governor's is known at the end.
#[derive(Debug, Default)]
pub struct Executions {
    /// By policy, or CPU where no policy is declared, and function.
    of: BTreeMap<(u16, u64), Execution>,
    /// By function: the policy in which each piece of its work was executed; `None` once one was executed in
    /// two.
    works: BTreeMap<u64, Option<BTreeMap<u64, u16>>>,
}

#[derive(Debug, Default)]
struct Execution {
    /// Of each CPU, in their order.
    last: Vec<Now>,
    windows: Windows,
}

/// What a CPU has done until now, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub at: u64,
    pub busy: u64,
    pub unknown: u64,
}

impl Executions {
    /// A function begins on a CPU of a policy, which has been told to run at `khz`; `now` is of all CPUs of
    /// the policy. Gives the time since it began there last and the busy time of the busiest CPU meanwhile,
    /// where all of that is known: the governor takes the highest load of a CPU
    /// (drivers/cpufreq/cpufreq_governor.c, `dbs_update`).
    pub fn begins(
        &mut self,
        policy: u16,
        function: u64,
        khz: Option<u32>,
        now: &[Now],
    ) -> Option<(Nanos, Nanos)> {
        let is_known = self.of.contains_key(&(policy, function));
        if !is_known && self.of.range((policy, 0)..=(policy, u64::MAX)).count() >= MAX_FUNCTIONS {
            return None;
        }
        let of = self.of.entry((policy, function)).or_default();
        let last = std::mem::replace(&mut of.last, now.to_vec());
        let time = Nanos::new(now.first()?.at.saturating_sub(last.first()?.at));
        let each = || last.iter().zip(now);
        if last.len() != now.len() || each().any(|(a, b)| a.unknown != b.unknown) || time == Nanos::ZERO {
            return None;
        }
        let busy = each().map(|(last, now)| now.busy.saturating_sub(last.busy)).max()?;
        let busy = Nanos::new(busy);
        of.windows.add(khz, time, busy);
        Some((time, busy))
    }

    /// A piece of a function's work was executed on a CPU of a policy. Drivers that let any CPU change a
    /// frequency (`dvfs_possible_from_any_cpu`) have a governor's work executed on CPUs of other policies
    /// too: then nobody knows here whose sample it is.
    pub fn executed(&mut self, function: u64, work: u64, policy: u16) {
        if !self.works.contains_key(&function) && self.works.len() >= MAX_FUNCTIONS {
            return;
        }
        let of = self.works.entry(function).or_insert_with(|| Some(BTreeMap::new()));
        let Some(works) = of else { return };
        let is_one = works.len() < MAX_WORKS || works.contains_key(&work);
        if !is_one || *works.entry(work).or_insert(policy) != policy {
            *of = None;
        }
    }

    /// The windows of one function, by policy or CPU; none where it cannot be told whose they are.
    pub fn of(&self, function: u64) -> impl Iterator<Item = (u16, Windows)> + '_ {
        let is_told = self.works.get(&function).is_none_or(Option::is_some);
        let of_it = self.of.iter().filter(move |((_, other), _)| is_told && *other == function);
        let windows = of_it.map(|((policy, _), execution)| (*policy, execution.windows.clone()));
        windows.filter(|(_, windows)| windows.all() > 0)
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

    #[test]
    fn what_lies_between_two_executions_is_a_window_where_all_of_it_is_known() {
        let mut all = Executions::default();
        let mut begins = |cpu, function, at, busy, unknown| {
            let now = Now { at: at * MS, busy: busy * MS, unknown };
            all.begins(cpu, function, Some(800), &[now])
                .map(|(time, busy)| (time.get() / MS, busy.get() / MS))
        };
        assert_eq!(begins(0, 7, 10, 3, 0), None, "before it nothing was seen");
        assert_eq!(begins(0, 7, 20, 11, 0), Some((10, 8)));
        assert_eq!(begins(0, 9, 22, 12, 0), None, "another function");
        assert_eq!(begins(1, 7, 25, 1, 0), None, "another CPU");
        assert_eq!(begins(0, 7, 30, 13, 5), None, "events were lost");
        assert_eq!(begins(0, 7, 40, 14, 5), Some((10, 1)));
        let of: Vec<(u16, Windows)> = all.of(7).collect();
        assert_eq!(of.len(), 1);
        assert_eq!(of[0].1.counts, [((Some(800), 10), 1), ((Some(800), 80), 1)].into());
    }

    #[test]
    fn of_several_cpus_the_busiest_counts_and_all_have_to_be_known() {
        let mut all = Executions::default();
        let mut begins = |at, busy: [u64; 2], unknown: [u64; 2]| {
            let now = |cpu: usize| Now { at: at * MS, busy: busy[cpu] * MS, unknown: unknown[cpu] };
            let found = all.begins(0, 7, Some(800), &[now(0), now(1)]);
            found.map(|(time, busy)| (time.get() / MS, busy.get() / MS))
        };
        assert_eq!(begins(10, [0, 5], [0, 0]), None, "before it nothing was seen");
        assert_eq!(begins(20, [1, 14], [0, 0]), Some((10, 9)));
        assert_eq!(begins(30, [9, 15], [0, 0]), Some((10, 8)));
        assert_eq!(begins(40, [9, 15], [0, 1]), None, "the other may have been busier");
        assert_eq!(begins(50, [9, 15], [0, 1]), Some((10, 0)));
    }

    #[test]
    fn whose_windows_they_are_is_not_told_once_one_work_was_executed_in_two_policies() {
        let mut all = Executions::default();
        for at in [10, 20] {
            all.begins(0, 7, None, &[Now { at, busy: 0, unknown: 0 }]);
        }
        all.executed(7, 0xa, 0);
        all.executed(7, 0xb, 2);
        all.executed(8, 0xa, 2);
        assert_eq!(all.of(7).count(), 1, "two pieces of work, each in its policy");
        all.executed(7, 0xa, 2);
        assert_eq!(all.of(7).count(), 0);
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
