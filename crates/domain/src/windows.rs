//! How busy CPUs were between two samples of their governor: what ondemand and conservative decide by.

use crate::inventory::{CpuList, Cpufreq, Policy};
use crate::order;
use crate::time::Nanos;
use std::collections::BTreeMap;

/// The load at which intel_pstate's own powersave asks for the highest P-state: it asks for 1.25 times the
/// load times the highest (drivers/cpufreq/intel_pstate.c, `get_target_pstate`).
const INTEL_POWERSAVE: f64 = 80.0;

/// The windows of a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GovernorWindows {
    /// The load above which the governor goes up, in percent: `up_threshold`, or where intel_pstate asks
    /// for the highest P-state; `None` where it is not known.
    pub threshold: Option<f64>,
    /// Whether a CPU that waits for I/O counts as busy for the governor (`io_is_busy`), or raises what it
    /// goes by (intel_pstate's boost): it then sees more load than is counted here.
    pub counts_waiting: bool,
    /// By CPU, or by the number of the policy of several CPUs; at most [`GovernorWindows::MAX_CPUS`], the
    /// busiest.
    pub cpus: BTreeMap<u16, Windows>,
    /// The CPUs of those policies of several, by their numbers: their windows are of the busiest CPU of each
    /// window.
    pub shared: BTreeMap<u16, CpuList>,
}

/// The windows of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// How long all of them were.
    pub time: Nanos,
    /// For how long of that a thread ran.
    pub busy: Nanos,
    /// How many there were, by the frequency that the CPU had been told to run at, in kHz (`None` where that
    /// was not seen), and by load in whole percent, rounded down as the kernel does, at most
    /// [`Windows::FULL`].
    pub counts: BTreeMap<(Option<u32>, u8), u64>,
}

impl GovernorWindows {
    /// How many CPUs are kept.
    pub const MAX_CPUS: usize = 8;

    /// The windows of CPUs whose governors are these; `None` where there is none, or where a governor decides
    /// for several CPUs at once that were not recorded as one policy's: any of them may have taken a sample.
    pub fn of(
        cpus: BTreeMap<u16, Windows>,
        recorded: &BTreeMap<u16, Vec<u16>>,
        cpufreq: &Cpufreq,
    ) -> Option<Self> {
        let of_policy = |policy: &Policy| {
            let cpus = recorded.get(&u16::try_from(policy.id).ok()?)?;
            policy.cpus.iter().eq(cpus.iter().map(|cpu| u32::from(*cpu))).then_some(())
        };
        let shared = || cpufreq.policies.iter().filter(|policy| policy.cpus.len() > 1);
        if cpus.is_empty() || shared().any(|policy| of_policy(policy).is_none()) {
            return None;
        }
        let mut cpus: Vec<(u16, Windows)> = cpus.into_iter().collect();
        order::by_key(&mut cpus, |(_, windows)| std::cmp::Reverse(windows.busy));
        cpus.truncate(Self::MAX_CPUS);
        let tunable = |name| cpufreq.tunable_of_all(name);
        let threshold = tunable("up_threshold").and_then(|value| value.parse().ok());
        let is_intel = cpufreq.is_intel_powersave();
        Some(Self {
            threshold: threshold.or_else(|| is_intel.then_some(INTEL_POWERSAVE)),
            counts_waiting: is_intel || tunable("io_is_busy") == Some("1"),
            shared: shared()
                .filter_map(|policy| Some((u16::try_from(policy.id).ok()?, policy.cpus.clone())))
                .filter(|(number, _)| cpus.iter().any(|(kept, _)| kept == number))
                .collect(),
            cpus: cpus.into_iter().collect(),
        })
    }

    /// How many of these windows were above the threshold; where waiting counts too, at least. `None` where
    /// the threshold is not known.
    pub fn above(&self, windows: &Windows) -> Option<u64> {
        Some(windows.above(self.threshold?))
    }

    /// How one of them is called: `CPU 3`, `policy 0 (CPUs 0-3)`.
    pub fn named(&self, cpu: u16) -> String {
        match self.shared.get(&cpu) {
            Some(cpus) => format!("policy {cpu} (CPUs {cpus})"),
            None => format!("CPU {cpu}"),
        }
    }

    /// The CPU that was busiest within its windows, or policy.
    pub fn busiest(&self) -> Option<(u16, &Windows)> {
        let share = |windows: &Windows| windows.load().unwrap_or(0.0);
        let cpus = self.cpus.iter().map(|(cpu, windows)| (*cpu, windows));
        cpus.max_by(|(_, a), (_, b)| share(a).total_cmp(&share(b)))
    }
}

impl Windows {
    /// The load of a window that was busy all the time, in percent.
    pub const FULL: u8 = 100;

    /// Adds a window of which a thread ran for `busy`.
    pub fn add(&mut self, khz: Option<u32>, time: Nanos, busy: Nanos) {
        let percent = busy.get().saturating_mul(100) / time.get().max(1);
        let load = percent.min(u64::from(Self::FULL)) as u8;
        self.time = Nanos::new(self.time.get().saturating_add(time.get()));
        self.busy = Nanos::new(self.busy.get().saturating_add(busy.get()));
        *self.counts.entry((khz, load)).or_default() += 1;
    }

    /// Adds all of another.
    pub fn add_all(&mut self, other: &Self) {
        self.time = Nanos::new(self.time.get().saturating_add(other.time.get()));
        self.busy = Nanos::new(self.busy.get().saturating_add(other.busy.get()));
        for (key, count) in &other.counts {
            let of = self.counts.entry(*key).or_default();
            *of = of.saturating_add(*count);
        }
    }

    /// The frequencies at which there were any, the lowest first.
    pub fn frequencies(&self) -> Vec<Option<u32>> {
        let mut all: Vec<Option<u32>> = self.counts.keys().map(|(khz, _)| *khz).collect();
        all.dedup();
        all
    }

    /// How many there were by load in percent, at the frequencies that are wanted.
    pub fn by_load(&self, is_wanted: impl Fn(Option<u32>) -> bool) -> BTreeMap<u8, u64> {
        let mut all: BTreeMap<u8, u64> = BTreeMap::new();
        for ((_, load), count) in self.counts.iter().filter(|((khz, _), _)| is_wanted(*khz)) {
            let of = all.entry(*load).or_default();
            *of = of.saturating_add(*count);
        }
        all
    }

    /// How many there were.
    pub fn all(&self) -> u64 {
        self.counts.values().fold(0, |all, count| all.saturating_add(*count))
    }

    /// How many had a load above this, in percent.
    pub fn above(&self, percent: f64) -> u64 {
        let counts = self.counts.iter().filter(|((_, load), _)| f64::from(*load) > percent);
        counts.fold(0, |all, (_, count)| all.saturating_add(*count))
    }

    /// The share of their time for which a thread ran; `None` where there was none.
    pub fn load(&self) -> Option<f64> {
        (self.time > Nanos::ZERO).then(|| self.busy.get() as f64 / self.time.get() as f64)
    }

    /// How long they were in the mean.
    pub fn mean_length(&self) -> Option<Nanos> {
        Some(Nanos::new(self.time.get().checked_div(self.all())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_counted_by_frequency_and_load() {
        let mut windows = Windows::default();
        let ms = Nanos::from_millis;
        windows.add(Some(800_000), ms(10), ms(10));
        windows.add(Some(800_000), ms(10), ms(4));
        windows.add(None, ms(10), ms(0));
        assert_eq!(
            windows.counts,
            [((None, 0), 1), ((Some(800_000), 40), 1), ((Some(800_000), 100), 1)].into()
        );
        assert_eq!(
            (windows.all(), windows.above(40.0), windows.above(39.5), windows.above(100.0)),
            (3, 1, 2, 0)
        );
        assert_eq!((windows.load(), windows.mean_length()), (Some(14.0 / 30.0), Some(ms(10))));
        assert_eq!(windows.frequencies(), [None, Some(800_000)]);
        let slow = windows.by_load(|khz| khz.is_some());
        assert_eq!(slow, [(40, 1), (100, 1)].into());
        let mut twice = windows.clone();
        twice.add_all(&windows);
        assert_eq!((twice.all(), twice.load()), (6, windows.load()));
    }

    #[test]
    fn a_policy_of_several_cpus_has_windows_where_it_was_recorded_as_one() {
        let policy = |id, cpus: &str| Policy { id, cpus: CpuList::parse(cpus).unwrap(), ..Policy::default() };
        let with = |policies| Cpufreq {
            policies,
            intel_pstate: None,
            amd_pstate: None,
            boost: None,
            frequency_invariant: None,
            tunables: BTreeMap::new(),
        };
        let cpufreq = with(vec![policy(0, "0-1"), policy(2, "2")]);
        let mut window = Windows::default();
        window.add(None, Nanos::from_millis(10), Nanos::from_millis(4));
        let windows: BTreeMap<u16, Windows> = [(0, window.clone()), (2, window)].into();
        let all = GovernorWindows::of(windows.clone(), &[(0, vec![0, 1]), (2, vec![2])].into(), &cpufreq);
        let all = all.unwrap();
        assert_eq!((all.named(0), all.named(2)), ("policy 0 (CPUs 0-1)".into(), "CPU 2".into()));
        for recorded in [vec![], vec![(0, vec![0])], vec![(0, vec![0, 1, 3])]] {
            let recorded = recorded.into_iter().collect();
            assert_eq!(GovernorWindows::of(windows.clone(), &recorded, &cpufreq), None, "{recorded:?}");
        }
        let alone = with(vec![policy(0, "0"), policy(2, "2")]);
        let all = GovernorWindows::of(windows, &BTreeMap::new(), &alone).unwrap();
        assert!(all.shared.is_empty(), "as in recordings of earlier versions");
    }

    #[test]
    fn of_no_window_nothing_is_said() {
        let none = Windows::default();
        assert_eq!((none.load(), none.mean_length(), none.above(0.0)), (None, None, 0));
        assert_eq!(GovernorWindows::default().busiest(), None);
    }
}
