//! How busy CPUs were between two samples of their governor, which ondemand and conservative decide by; or
//! between two requests of schedutil, which decides by what no event has.

use crate::inventory::{CpuList, Cpufreq, Policy};
use crate::order;
use crate::time::Nanos;
use std::collections::BTreeMap;

/// The load at which intel_pstate's own powersave asks for the highest P-state: it asks for 1.25 times the
/// load times the highest (drivers/cpufreq/intel_pstate.c, `get_target_pstate`).
const INTEL_POWERSAVE: f64 = 80.0;

/// What ends a window, and begins the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Boundary {
    /// ondemand or conservative take a sample.
    #[default]
    Sample,
    /// intel_pstate's own powersave decides, without HWP.
    Decision,
    /// schedutil asks the driver for a frequency. It looks more often, and asks where another one follows
    /// (kernel/sched/cpufreq_schedutil.c, `sugov_update_next_freq`).
    Request,
}

impl Boundary {
    /// All of them.
    pub const ALL: [Boundary; 3] = [Boundary::Sample, Boundary::Decision, Boundary::Request];

    /// As it is stored.
    pub const fn name(self) -> &'static str {
        match self {
            Boundary::Sample => "sample",
            Boundary::Decision => "decision",
            Boundary::Request => "request",
        }
    }

    /// What windows lie between.
    pub const fn plural(self) -> &'static str {
        match self {
            Boundary::Sample => "samples",
            Boundary::Decision => "decisions",
            Boundary::Request => "requests",
        }
    }
}

/// Why there are no windows of a governor, though events were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untold {
    /// It decides for several CPUs at once, and the recording does not say for which: any of them may have
    /// taken a sample.
    PoliciesUnknown,
    /// schedutil asks the driver for performance, and for no frequency: no event tells that.
    AsksForPerformance,
}

/// Windows by what bounds them, and by CPU, or by the number of a declared policy.
pub type Bounded = BTreeMap<Boundary, BTreeMap<u16, Windows>>;

/// The windows of a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GovernorWindows {
    /// What bounds them.
    pub boundary: Boundary,
    /// The load above which the governor goes up, in percent: `up_threshold`, or where intel_pstate asks
    /// for the highest P-state; `None` where it is not known.
    pub threshold: Option<f64>,
    /// Whether a CPU that waits for I/O counts as busy for the governor (`io_is_busy`), or raises what it
    /// goes by (intel_pstate's boost): it then sees more load than is counted here.
    pub counts_waiting: bool,
    /// schedutil asks no sooner than so long after it did (`rate_limit_us`); `None` of other governors, and
    /// where it is not known.
    pub rate_limit: Option<Nanos>,
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

    /// The windows of CPUs whose governors are these, of those that were seen; `None` where there is none, or
    /// where it cannot be told which they are ([`Untold`]).
    pub fn of(mut seen: Bounded, recorded: &BTreeMap<u16, Vec<u16>>, cpufreq: &Cpufreq) -> Option<Self> {
        let governor = Self::governor(recorded, cpufreq).ok()?;
        let cpus = seen.remove(&governor.boundary).filter(|cpus| !cpus.is_empty())?;
        let mut cpus: Vec<(u16, Windows)> = cpus.into_iter().collect();
        order::by_key(&mut cpus, |(_, windows)| std::cmp::Reverse(windows.busy));
        cpus.truncate(Self::MAX_CPUS);
        Some(Self {
            shared: shared(cpufreq)
                .filter_map(|policy| Some((u16::try_from(policy.id).ok()?, policy.cpus.clone())))
                .filter(|(number, _)| cpus.iter().any(|(kept, _)| kept == number))
                .collect(),
            cpus: cpus.into_iter().collect(),
            ..governor
        })
    }

    /// What bounds the windows of these governors, and what they decide by, without any window; `recorded`
    /// are the CPUs of each policy, as the recording declares them.
    ///
    /// # Errors
    /// Where no event bounds them, or nobody knows whose they are.
    pub fn governor(recorded: &BTreeMap<u16, Vec<u16>>, cpufreq: &Cpufreq) -> Result<Self, Untold> {
        let of_policy = |policy: &Policy| {
            let cpus = recorded.get(&u16::try_from(policy.id).ok()?)?;
            policy.cpus.iter().eq(cpus.iter().map(|cpu| u32::from(*cpu))).then_some(())
        };
        if shared(cpufreq).any(|policy| of_policy(policy).is_none()) {
            return Err(Untold::PoliciesUnknown);
        }
        let tunable = |name| cpufreq.tunable_of_all(name);
        let is_intel = cpufreq.is_intel_powersave();
        let governor = match cpufreq.governor_of_all() {
            Some("schedutil") if asks_for_performance(cpufreq) => return Err(Untold::AsksForPerformance),
            Some("schedutil") => Self {
                boundary: Boundary::Request,
                rate_limit: tunable("rate_limit_us")
                    .and_then(|us| us.parse::<u64>().ok()?.checked_mul(1000))
                    .map(Nanos::new),
                ..Self::default()
            },
            // The governor of the name is the driver's own.
            _ if cpufreq.policies.iter().any(|policy| policy.driver.as_deref() == Some("intel_pstate")) => {
                Self {
                    boundary: Boundary::Decision,
                    threshold: is_intel.then_some(INTEL_POWERSAVE),
                    counts_waiting: is_intel,
                    ..Self::default()
                }
            }
            _ => Self {
                threshold: tunable("up_threshold").and_then(|value| value.parse().ok()),
                counts_waiting: tunable("io_is_busy") == Some("1"),
                ..Self::default()
            },
        };
        Ok(governor)
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

/// The policies of several CPUs.
fn shared(cpufreq: &Cpufreq) -> impl Iterator<Item = &Policy> {
    cpufreq.policies.iter().filter(|policy| policy.cpus.len() > 1)
}

/// Whether schedutil may ask the driver for a performance level instead of a frequency (`adjust_perf` of
/// struct cpufreq_driver; kernel/sched/cpufreq_schedutil.c, `sugov_update_single_perf`): `cpu_frequency` is
/// not emitted then. amd-pstate has it, and intel_cpufreq with HWP, which alone has a preference. Where
/// utilisation does not follow the frequency, schedutil asks for frequencies all the same.
fn asks_for_performance(cpufreq: &Cpufreq) -> bool {
    let takes_it = |policy: &Policy| match policy.driver.as_deref() {
        Some("amd-pstate") => true,
        Some("intel_cpufreq") => policy.epp.is_some(),
        _ => false,
    };
    cpufreq.frequency_invariant != Some(false) && cpufreq.policies.iter().any(takes_it)
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
        let windows: Bounded = [(Boundary::Sample, [(0, window.clone()), (2, window)].into())].into();
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

    /// Policies of one CPU each, under one driver and governor.
    fn governed(driver: &str, governor: &str, tunables: &[(&str, &str)]) -> Cpufreq {
        let policy = |id: u32| Policy {
            id,
            cpus: CpuList::parse(&id.to_string()).unwrap(),
            driver: Some(driver.into()),
            governor: Some(governor.into()),
            ..Policy::default()
        };
        let tunables = tunables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Cpufreq {
            policies: vec![policy(0), policy(1)],
            intel_pstate: None,
            amd_pstate: None,
            boost: None,
            frequency_invariant: None,
            tunables: [(governor.to_owned(), tunables.collect())].into(),
        }
    }

    /// One window of each kind, which are told apart by their loads.
    fn of_all_kinds() -> Bounded {
        let one = |percent| {
            let mut windows = Windows::default();
            windows.add(None, Nanos::from_millis(100), Nanos::from_millis(percent));
            BTreeMap::from([(0, windows)])
        };
        [(Boundary::Sample, one(10)), (Boundary::Decision, one(20)), (Boundary::Request, one(30))].into()
    }

    #[test]
    fn windows_are_those_of_the_governor_that_decides() {
        let of = |driver, governor, tunables: &[(&str, &str)]| {
            let cpufreq = governed(driver, governor, tunables);
            let all = GovernorWindows::of(of_all_kinds(), &BTreeMap::new(), &cpufreq)?;
            let load = all.cpus[&0].counts.keys().next()?.1;
            Some((all.boundary, load, all.threshold, all.counts_waiting, all.rate_limit))
        };
        let ondemand = [("up_threshold", "80"), ("io_is_busy", "1")];
        // In passive mode intel_pstate emits `pstate_sample` for each request of a governor.
        for driver in ["acpi-cpufreq", "intel_cpufreq", "amd-pstate"] {
            let found = of(driver, "ondemand", &ondemand);
            assert_eq!(found, Some((Boundary::Sample, 10, Some(80.0), true, None)), "{driver}");
            let found = of(driver, "conservative", &ondemand[..1]);
            assert_eq!(found, Some((Boundary::Sample, 10, Some(80.0), false, None)), "{driver}");
        }
        let found = of("intel_pstate", "powersave", &[]);
        assert_eq!(found, Some((Boundary::Decision, 20, Some(80.0), true, None)));
        let limit = [("rate_limit_us", "2000")];
        let asks = Some((Boundary::Request, 30, None, false, Some(Nanos::from_millis(2))));
        assert_eq!(of("acpi-cpufreq", "schedutil", &limit), asks);
        assert_eq!(of("intel_cpufreq", "schedutil", &limit), asks);
        assert_eq!(of("amd-pstate", "schedutil", &limit), None, "it asks for performance");
    }

    #[test]
    fn of_a_governor_that_takes_no_samples_there_are_no_windows() {
        let mut seen = of_all_kinds();
        seen.remove(&Boundary::Sample);
        for governor in ["performance", "powersave", "userspace"] {
            let cpufreq = governed("intel_cpufreq", governor, &[]);
            assert_eq!(GovernorWindows::of(seen.clone(), &BTreeMap::new(), &cpufreq), None, "{governor}");
        }
    }

    #[test]
    fn schedutil_asks_for_performance_where_the_driver_takes_that_and_utilisation_follows_the_frequency() {
        let with = |driver, epp: Option<&str>, frequency_invariant| {
            let mut cpufreq = governed(driver, "schedutil", &[]);
            cpufreq.frequency_invariant = frequency_invariant;
            cpufreq.policies.iter_mut().for_each(|policy| policy.epp = epp.map(str::to_owned));
            GovernorWindows::governor(&BTreeMap::new(), &cpufreq) == Err(Untold::AsksForPerformance)
        };
        assert!(with("intel_cpufreq", Some("balance_performance"), Some(true)), "with HWP");
        assert!(with("amd-pstate", None, None));
        assert!(!with("amd-pstate", None, Some(false)));
        assert!(!with("intel_cpufreq", None, Some(true)));
        assert!(!with("cppc_cpufreq", None, Some(true)));
    }

    #[test]
    fn of_no_window_nothing_is_said() {
        let none = Windows::default();
        assert_eq!((none.load(), none.mean_length(), none.above(0.0)), (None, None, 0));
        assert_eq!(GovernorWindows::default().busiest(), None);
    }
}
