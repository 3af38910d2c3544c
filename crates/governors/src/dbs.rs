//! What ondemand and conservative share: when a sample is due, and the load that it sees.
//!
//! Follows `drivers/cpufreq/cpufreq_governor.c` (`dbs_update_util_handler`, `dbs_update`,
//! `cpufreq_dbs_governor_start`, `…_limits`, `gov_update_cpu_data`) and `cpufreq_policy_transition_delay_us`
//! of `cpufreq.c`, 6.1 and 6.12. Times are microseconds in 32 bits where the kernel's are, and wrap as those
//! do.
//!
//! Left out: the jiffies that stand in for idle times where the tick never stops (`get_cpu_idle_time_jiffy`),
//! tunables that several policies share, and locks. Held against the kernel by `tests/replay.rs`.

use crate::tunable::{TunableError, Tunables};
use crate::{KernelVersion, Policy, Readings, Update};
use domain::time::Nanos;

/// Length of a tick in nanoseconds (`TICK_NSEC`).
pub(crate) fn tick_ns(hz: u32) -> u64 {
    let hz = u64::from(hz);
    (1_000_000_000 + hz / 2) / hz
}

/// The delay between two requests: the driver's own, or what the kernel derives from its latency, in
/// microseconds (`cpufreq_policy_transition_delay_us`).
pub(crate) fn transition_delay_us(kernel: KernelVersion, policy: &Policy) -> u32 {
    policy.driver.transition_delay_us().unwrap_or_else(|| of_latency_us(kernel, policy.transition_latency_ns))
}

fn of_latency_us(kernel: KernelVersion, transition_latency_ns: u64) -> u32 {
    let latency_us = (transition_latency_ns as u32) / 1000;
    if kernel >= KernelVersion::new(6, 12, 0) {
        return if latency_us == 0 { 1_000 } else { latency_us.wrapping_add(latency_us >> 1) };
    }
    if latency_us == 0 {
        return 1_000;
    }
    // Bounded since 4.14 (from memory): before, a slow driver's governor looked as seldom as a thousand times
    // its latency said.
    if kernel < KernelVersion::new(4, 14, 0) {
        return latency_us.wrapping_mul(1_000);
    }
    let cap_us = if kernel >= KernelVersion::new(6, 9, 0) { 2_000 } else { 10_000 };
    latency_us.wrapping_mul(1_000).min(cap_us)
}

/// The shortest sampling period that the kernel allows: two ticks.
pub(crate) fn min_sampling_rate_us(hz: u32) -> u32 {
    (2 * tick_ns(hz) / 1000) as u32
}

/// The sampling period of ondemand and conservative where none is set, in microseconds (their
/// `sampling_rate`).
///
/// The delay that the driver wants; else a thousand times its latency, from 4.14 to 6.8 10 ms at the most, up
/// to 6.11 the same with 2 ms, then one and a half times the latency. Never less than two ticks.
pub fn default_sampling_rate_us(kernel: KernelVersion, hz: u32, policy: &Policy) -> u32 {
    min_sampling_rate_us(hz).max(transition_delay_us(kernel, policy))
}

/// What both governors let one set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuning {
    pub(crate) sampling_rate_us: u32,
    pub(crate) min_sampling_rate_us: u32,
    pub(crate) up_threshold: u32,
    pub(crate) sampling_down_factor: u32,
    pub(crate) ignore_nice_load: bool,
    pub(crate) io_is_busy: bool,
}

impl Tuning {
    /// What both governors have files of, as these read.
    pub(crate) fn shown(&self) -> [(&'static str, String); 4] {
        [
            ("sampling_rate", self.sampling_rate_us.to_string()),
            ("up_threshold", self.up_threshold.to_string()),
            ("sampling_down_factor", self.sampling_down_factor.to_string()),
            ("ignore_nice_load", u8::from(self.ignore_nice_load).to_string()),
        ]
    }

    pub(crate) fn set_sampling_rate(&mut self, of: &Tunables, value: &str) -> Result<(), TunableError> {
        self.sampling_rate_us = of.number("sampling_rate", value, self.min_sampling_rate_us, u32::MAX)?;
        Ok(())
    }
}

/// What is remembered of a CPU (`struct cpu_dbs_info`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cpu {
    prev_idle_us: u64,
    prev_update_us: u64,
    prev_nice_ns: u64,
    prev_load: u32,
}

/// What a sample saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// Percent, of the busiest CPU; after a long idle time its last load, once.
    pub(crate) load: u32,
    /// Percent, of the busiest CPU, in this sample alone.
    pub(crate) sample_load: u32,
    /// Sampling periods for which each CPU was idle, where all were for more than two.
    pub(crate) idle_periods: Option<u32>,
}

/// When samples are taken, and what is remembered between them (`struct policy_dbs_info`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sampling {
    cpus: Vec<Cpu>,
    last_sample_ns: u64,
    sample_delay_ns: i64,
    work_in_progress: bool,
    /// Periods until the next sample.
    pub(crate) rate_mult: u32,
}

impl Sampling {
    pub(crate) fn new(policy: &Policy) -> Self {
        Self {
            cpus: vec![Cpu::default(); policy.cpus],
            last_sample_ns: 0,
            sample_delay_ns: 0,
            work_in_progress: false,
            rate_mult: 1,
        }
    }

    /// The governor begins (`cpufreq_dbs_governor_start`, and the limits that follow it).
    pub(crate) fn start(&mut self, now: Nanos, tuning: &Tuning, readings: &impl Readings) {
        self.work_in_progress = false;
        self.rate_mult = 1;
        self.last_sample_ns = 0;
        for (index, cpu) in self.cpus.iter_mut().enumerate() {
            *cpu = Cpu::default();
            cpu.read(index, now, tuning, readings);
        }
        self.sample_at_once();
    }

    /// A tunable changed what idle means (`gov_update_cpu_data`).
    pub(crate) fn forget(&mut self, now: Nanos, tuning: &Tuning, readings: &impl Readings) {
        for (index, cpu) in self.cpus.iter_mut().enumerate() {
            cpu.read(index, now, tuning, readings);
        }
    }

    /// The next update brings a sample.
    pub(crate) fn sample_at_once(&mut self) {
        self.sample_delay_ns = 0;
    }

    pub(crate) fn set_delay_us(&mut self, delay_us: u32) {
        self.sample_delay_ns = i64::from(delay_us) * 1000;
        self.work_in_progress = false;
    }

    /// Whether samples follow each other at once for now (`sample_delay_ns` is zero).
    pub(crate) fn is_at_once(&self) -> bool {
        self.sample_delay_ns == 0
    }

    /// The scheduler's hook: whether the work that takes a sample is queued (`dbs_update_util_handler`).
    pub(crate) fn hook(&mut self, update: Update) -> bool {
        if self.work_in_progress {
            return false;
        }
        let now_ns = update.now.get();
        let since_ns = now_ns.wrapping_sub(self.last_sample_ns) as i64;
        if since_ns < self.sample_delay_ns {
            return false;
        }
        self.last_sample_ns = now_ns;
        self.work_in_progress = true;
        true
    }

    /// The earliest update that can bring a sample; none before the work that is queued is done.
    pub(crate) fn due(&self) -> Option<Nanos> {
        let at_ns = self.last_sample_ns.wrapping_add_signed(self.sample_delay_ns);
        (!self.work_in_progress).then_some(Nanos::new(at_ns))
    }

    /// Takes a sample (`dbs_update`).
    pub(crate) fn load(&mut self, now: Nanos, tuning: &Tuning, readings: &impl Readings) -> Load {
        let period_us = tuning.sampling_rate_us.wrapping_mul(self.rate_mult);
        let mut seen = Load { load: 0, sample_load: 0, idle_periods: None };
        for (index, cpu) in self.cpus.iter_mut().enumerate() {
            let sample = cpu.sample(index, now, period_us, tuning, readings);
            seen.load = seen.load.max(sample.load);
            seen.sample_load = seen.sample_load.max(sample.sample_load);
            let periods = [seen.idle_periods, sample.idle_periods];
            seen.idle_periods = periods.into_iter().flatten().min();
        }
        seen
    }
}

/// A CPU's idle time in microseconds as `get_cpu_idle_time` adds it up: each part is cut to microseconds by
/// itself.
fn idle_us(cpu: usize, tuning: &Tuning, readings: &impl Readings) -> u64 {
    let iowait = readings.iowait(cpu);
    let idle_us = readings.idle(cpu).saturating_sub(iowait).get() / 1000;
    if tuning.io_is_busy { idle_us } else { idle_us + iowait.get() / 1000 }
}

fn read_at_us(cpu: usize, now: Nanos, readings: &impl Readings) -> u64 {
    readings.read_at(cpu).unwrap_or(now).get() / 1000
}

impl Cpu {
    fn read(&mut self, index: usize, now: Nanos, tuning: &Tuning, readings: &impl Readings) {
        self.prev_update_us = read_at_us(index, now, readings);
        self.prev_idle_us = idle_us(index, tuning, readings);
        if tuning.ignore_nice_load {
            self.prev_nice_ns = readings.nice(index).get();
        }
    }

    fn sample(
        &mut self,
        index: usize,
        now: Nanos,
        period_us: u32,
        tuning: &Tuning,
        readings: &impl Readings,
    ) -> Load {
        let before = *self;
        self.read(index, now, tuning, readings);
        let elapsed_us = self.prev_update_us.wrapping_sub(before.prev_update_us) as u32;
        let mut idle_us = self.prev_idle_us.saturating_sub(before.prev_idle_us) as u32;
        if tuning.ignore_nice_load {
            let nice_ns = self.prev_nice_ns.wrapping_sub(before.prev_nice_ns);
            idle_us = idle_us.wrapping_add((nice_ns / 1000) as u32);
        }

        let long_idle = idle_us > period_us.wrapping_mul(2);
        let sample_load = if elapsed_us == 0 {
            before.prev_load
        } else if elapsed_us > idle_us {
            // Wraps after 42.9 s without an idle moment between two samples, as in the kernel.
            (elapsed_us - idle_us).wrapping_mul(100) / elapsed_us
        } else {
            0
        };
        // A CPU that slept and was woken is given its last load, once.
        let reuse = elapsed_us != 0 && long_idle && before.prev_load != 0;
        let load = if reuse { before.prev_load } else { sample_load };
        self.prev_load = if reuse { 0 } else { load };
        let idle_periods = (long_idle && period_us != 0).then(|| idle_us / period_us);
        Load { load, sample_load, idle_periods }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::FrequencyTable;
    use crate::driver::Driver;
    use domain::units::Hertz;
    use proptest::prelude::*;

    /// Counters that a test sets.
    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct Counters {
        pub(crate) idle: Nanos,
        pub(crate) iowait: Nanos,
        pub(crate) nice: Nanos,
        pub(crate) utilisation: u64,
        pub(crate) least: u64,
        pub(crate) bandwidth: u64,
        pub(crate) idle_calls: u64,
    }

    /// One CPU after the other.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Told(pub(crate) Vec<Counters>);

    impl Told {
        pub(crate) fn one(counters: Counters) -> Self {
            Self(vec![counters])
        }
        pub(crate) fn idle_ms(ms: u64) -> Self {
            Self::one(Counters { idle: Nanos::from_millis(ms), ..Counters::default() })
        }
    }

    impl Readings for Told {
        fn idle(&self, cpu: usize) -> Nanos {
            self.0[cpu].idle
        }
        fn iowait(&self, cpu: usize) -> Nanos {
            self.0[cpu].iowait
        }
        fn nice(&self, cpu: usize) -> Nanos {
            self.0[cpu].nice
        }
        fn utilisation(&self, cpu: usize) -> u64 {
            self.0[cpu].utilisation
        }
        fn least_utilisation(&self, cpu: usize) -> u64 {
            self.0[cpu].least
        }
        fn deadline_bandwidth(&self, cpu: usize) -> u64 {
            self.0[cpu].bandwidth
        }
        fn idle_calls(&self, cpu: usize) -> u64 {
            self.0[cpu].idle_calls
        }
        fn aperf(&self, _: usize) -> u64 {
            0
        }
        fn mperf(&self, _: usize) -> u64 {
            0
        }
        fn tsc(&self, _: usize) -> u64 {
            0
        }
    }

    /// One CPU with the five states of the report on dm-crypt, at the lowest.
    pub(crate) fn laptop() -> Policy {
        let table = FrequencyTable::new([2800, 2100, 1400, 700, 350].map(Hertz::from_mhz).to_vec()).unwrap();
        let (min, max) = (table.lowest(), table.highest());
        Policy {
            cpus: 1,
            table: Some(table),
            hardware_min: min,
            hardware_max: max,
            min,
            max,
            current: min,
            transition_latency_ns: 10_000,
            fast_switch: false,
            frequency_invariant: false,
            driver: Driver::Frequencies,
        }
    }

    pub(crate) fn at_ms(ms: u64) -> Update {
        Update { now: Nanos::from_millis(ms), cpu: 0, iowait: false }
    }

    fn tuning() -> Tuning {
        Tuning {
            sampling_rate_us: 10_000,
            min_sampling_rate_us: 8_000,
            up_threshold: 95,
            sampling_down_factor: 1,
            ignore_nice_load: false,
            io_is_busy: false,
        }
    }

    /// Loads at these times (ms), with this idle time in all (ms).
    fn loads(tuning: &Tuning, samples: &[(u64, u64)]) -> Vec<Load> {
        let mut sampling = Sampling::new(&laptop());
        sampling.start(Nanos::ZERO, tuning, &Told::idle_ms(0));
        let one =
            |(at, idle): &(u64, u64)| sampling.load(Nanos::from_millis(*at), tuning, &Told::idle_ms(*idle));
        samples.iter().map(one).collect()
    }

    #[test]
    fn load_is_the_share_that_was_not_idle_cut_to_percent() {
        let seen = loads(&tuning(), &[(10, 0), (20, 5), (30, 15), (43, 16)]);
        assert_eq!(seen.iter().map(|l| l.load).collect::<Vec<_>>(), [100, 50, 0, 92]);
    }

    #[test]
    fn after_more_than_two_idle_periods_the_last_load_counts_once() {
        // Exactly two periods are not more than two.
        let seen = loads(&tuning(), &[(10, 1), (31, 21), (41, 22), (100, 76), (160, 131), (220, 186)]);
        let loads: Vec<u32> = seen.iter().map(|l| l.load).collect();
        assert_eq!(loads, [90, 4, 90, 90, 8, 8]);
        let samples: Vec<u32> = seen.iter().map(|l| l.sample_load).collect();
        assert_eq!(samples, [90, 4, 90, 8, 8, 8]);
        let periods: Vec<Option<u32>> = seen.iter().map(|l| l.idle_periods).collect();
        assert_eq!(periods, [None, None, None, Some(5), Some(5), Some(5)]);
    }

    #[test]
    fn a_sample_at_the_same_microsecond_repeats_the_last_load() {
        let seen = loads(&tuning(), &[(10, 3), (10, 3)]);
        assert_eq!(seen[1].load, 70);
    }

    #[test]
    fn idle_time_that_goes_back_is_none() {
        let seen = loads(&tuning(), &[(10, 5), (20, 4)]);
        assert_eq!(seen[1].load, 100);
    }

    #[test]
    fn waiting_for_disks_is_work_only_where_io_is_busy() {
        let told = Told::one(Counters {
            idle: Nanos::from_millis(8),
            iowait: Nanos::from_millis(6),
            ..Counters::default()
        });
        for (io_is_busy, expected) in [(false, 20), (true, 80)] {
            let tuning = Tuning { io_is_busy, ..tuning() };
            let mut sampling = Sampling::new(&laptop());
            sampling.start(Nanos::ZERO, &tuning, &Told::idle_ms(0));
            assert_eq!(sampling.load(Nanos::from_millis(10), &tuning, &told).load, expected);
        }
    }

    #[test]
    fn nice_work_is_idle_where_it_is_ignored() {
        let tuning = Tuning { ignore_nice_load: true, ..tuning() };
        let told = Told::one(Counters {
            idle: Nanos::from_millis(1),
            nice: Nanos::from_millis(6),
            ..Counters::default()
        });
        let mut sampling = Sampling::new(&laptop());
        sampling.start(Nanos::ZERO, &tuning, &Told::idle_ms(0));
        assert_eq!(sampling.load(Nanos::from_millis(10), &tuning, &told).load, 30);
    }

    #[test]
    fn the_busiest_cpu_counts_and_periods_are_those_of_the_least_idle() {
        let policy = Policy { cpus: 3, ..laptop() };
        let idle = |ms| Counters { idle: Nanos::from_millis(ms), ..Counters::default() };
        let mut sampling = Sampling::new(&policy);
        sampling.start(Nanos::ZERO, &tuning(), &Told(vec![idle(0); 3]));
        let seen =
            sampling.load(Nanos::from_millis(100), &tuning(), &Told(vec![idle(90), idle(40), idle(70)]));
        // A CPU that was idle for less does not forbid the steps of the others, in the kernel either.
        assert_eq!(seen, Load { load: 60, sample_load: 60, idle_periods: Some(4) });
    }

    #[test]
    fn a_hook_queues_work_once_a_period() {
        let mut sampling = Sampling::new(&laptop());
        sampling.start(Nanos::ZERO, &tuning(), &Told::idle_ms(0));
        assert!(sampling.hook(at_ms(1)), "the first update after the start samples at once");
        assert!(!sampling.hook(at_ms(500)), "work is queued already");
        assert_eq!(sampling.due(), None);
        sampling.set_delay_us(10_000);
        assert_eq!(sampling.due(), Some(Nanos::from_millis(11)));
        assert!(!sampling.hook(Update { now: Nanos::new(10_999_999), cpu: 0, iowait: false }));
        assert!(sampling.hook(at_ms(11)));
        sampling.set_delay_us(10_000);
        assert!(!sampling.hook(at_ms(10)), "another CPU's clock may be behind");
    }

    #[test]
    fn the_default_period_follows_version_latency_and_tick() {
        let rate = |version: &str, hz, transition_latency_ns| {
            let policy = Policy { transition_latency_ns, ..laptop() };
            default_sampling_rate_us(KernelVersion::parse(version).unwrap(), hz, &policy)
        };
        assert_eq!(rate("2.6.18", 250, 1_000_000), 1_000_000, "no bound");
        assert_eq!(rate("6.1", 250, 1_000_000), 10_000);
        assert_eq!(rate("6.1", 250, 10_000), 10_000);
        assert_eq!(rate("6.1", 250, 4_000), 8_000, "two ticks");
        assert_eq!(rate("6.1", 1000, 4_000), 4_000);
        assert_eq!(rate("6.1", 1000, 0), 2_000, "1 ms, but two ticks");
        assert_eq!(rate("6.9", 1000, 10_000), 2_000);
        assert_eq!(rate("6.9", 100, 10_000), 20_000);
        assert_eq!(rate("6.12", 250, 10_000), 8_000);
        assert_eq!(rate("6.12", 1000, 5_000_000), 7_500);
    }

    proptest! {
        #[test]
        fn load_is_a_percentage_and_more_idle_is_never_more_load(
            elapsed_us in 1u64..40_000_000, idle_us in 0u64..40_000_000, more_us in 0u64..1_000_000
        ) {
            let load = |idle_us| {
                let mut sampling = Sampling::new(&laptop());
                sampling.start(Nanos::ZERO, &tuning(), &Told::idle_ms(0));
                let told = Told::one(Counters { idle: Nanos::from_micros(idle_us), ..Counters::default() });
                sampling.load(Nanos::from_micros(elapsed_us), &tuning(), &told).load
            };
            prop_assert!(load(idle_us) <= 100);
            prop_assert!(load(idle_us + more_us) <= load(idle_us));
        }
    }
}
