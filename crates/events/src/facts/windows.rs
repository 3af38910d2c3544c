//! How busy a CPU was between two executions of a function by its kworkers: of a governor's, that is what it
//! decides by.

use domain::Nanos;
use domain::windows::Windows;
use std::collections::BTreeMap;

/// What a kworker executes when ondemand or conservative take a sample and decide
/// (drivers/cpufreq/cpufreq_governor.c).
pub const SAMPLES_LOAD: &str = "dbs_work_handler";

/// Most functions that are followed on a CPU, so that a hostile file takes no memory.
const MAX_FUNCTIONS: usize = 1024;

/// The windows of all functions: which of them is the governor's is known at the end.
#[derive(Debug, Default)]
pub struct Executions {
    of: BTreeMap<(u16, u64), Execution>,
}

#[derive(Debug, Default)]
struct Execution {
    last: Option<Now>,
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
    /// A function begins on a CPU, which has been told to run at `khz`. Gives the time and the busy time
    /// since it began there last, where all of that is known.
    pub fn begins(&mut self, cpu: u16, function: u64, khz: Option<u32>, now: Now) -> Option<(Nanos, Nanos)> {
        let is_known = self.of.contains_key(&(cpu, function));
        if !is_known && self.of.range((cpu, 0)..=(cpu, u64::MAX)).count() >= MAX_FUNCTIONS {
            return None;
        }
        let of = self.of.entry((cpu, function)).or_default();
        let last = of.last.replace(now)?;
        let time = Nanos::new(now.at.saturating_sub(last.at));
        if now.unknown != last.unknown || time == Nanos::ZERO {
            return None;
        }
        let busy = Nanos::new(now.busy.saturating_sub(last.busy));
        of.windows.add(khz, time, busy);
        Some((time, busy))
    }

    /// The windows of one function, by CPU.
    pub fn of(&self, function: u64) -> impl Iterator<Item = (u16, Windows)> + '_ {
        let of_it = self.of.iter().filter(move |((_, other), _)| *other == function);
        let windows = of_it.map(|((cpu, _), execution)| (*cpu, execution.windows.clone()));
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
            all.begins(cpu, function, Some(800), now).map(|(time, busy)| (time.get() / MS, busy.get() / MS))
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
    fn a_decision_of_intel_pstate_goes_by_mperf_over_tsc() {
        let mut all = Decisions::default();
        assert_eq!(all.decides(3, Some(2_000_000), 10 * MS, 1, 2), None);
        let (time, busy) = all.decides(3, Some(800_000), 20 * MS, 300, 1200).unwrap();
        assert_eq!((time.get(), busy.get()), (10 * MS, 5 * MS / 2));
        assert_eq!(all.decides(3, None, 30 * MS, 1, 0), None, "no ticks");
        assert_eq!(all.windows()[&3].counts, [((Some(2_000_000), 25), 1)].into());
    }
}
