//! schedutil: a frequency in proportion to the scheduler's utilisation, with a boost for tasks that wait for
//! disks.
//!
//! Follows `kernel/sched/cpufreq_schedutil.c`, 6.1 and 6.12. What 6.8 changed: the boost is no longer added
//! to what interrupts and deadlines leave, a quarter is added to the utilisation before it is capped, and
//! where utilisation is not frequency invariant the current frequency is raised by a quarter too.
//!
//! Left out: utilisation clamps, sched_ext. Held against the kernel by `tests/replay.rs`.

use crate::dbs::{tick_ns, transition_delay_us};
use crate::driver::Performance;
use crate::governor::Hook;
use crate::tunable::{TunableError, Tunables};
use crate::{KernelVersion, Policy, Readings, Relation, Update};
use domain::time::Nanos;
use domain::units::Hertz;
use std::collections::BTreeMap;

pub(crate) const TUNABLES: Tunables = Tunables { governor: "schedutil", names: &["rate_limit_us"] };

/// All of a CPU (`SCHED_CAPACITY_SCALE`).
const SCALE: u64 = 1024;
const BOOST_MIN: u64 = SCALE / 8;

/// The least time between two requests where none is set, in microseconds (`rate_limit_us`): as
/// [`crate::default_sampling_rate_us`], but not bounded by ticks.
pub fn default_rate_limit_us(kernel: KernelVersion, policy: &Policy) -> u32 {
    transition_delay_us(kernel, policy)
}

/// What is remembered of a CPU (`struct sugov_cpu`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cpu {
    boost: u64,
    boost_pending: bool,
    last_update_ns: u64,
    utilisation: u64,
    /// 6.1: the deadline bandwidth; from 6.8 the least utilisation.
    least: u64,
    idle_calls: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedutil {
    /// The arithmetic of 6.8 and later.
    headroom_first: bool,
    tick_ns: u64,
    rate_limit_us: u32,
    cpus: Vec<Cpu>,
    last_request_ns: u64,
    next_khz: u32,
    raw_khz: u32,
    work_in_progress: bool,
    limits_changed: bool,
    need_request: bool,
}

impl Schedutil {
    pub(crate) fn new(kernel: KernelVersion, hz: u32, policy: &Policy) -> Self {
        Self {
            headroom_first: kernel >= KernelVersion::new(6, 8, 0),
            tick_ns: tick_ns(hz),
            rate_limit_us: default_rate_limit_us(kernel, policy),
            cpus: vec![Cpu::default(); policy.cpus],
            last_request_ns: 0,
            next_khz: 0,
            raw_khz: 0,
            work_in_progress: false,
            limits_changed: false,
            need_request: false,
        }
    }

    pub(crate) fn tunables(&self) -> BTreeMap<&'static str, String> {
        [("rate_limit_us", self.rate_limit_us.to_string())].into()
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), TunableError> {
        TUNABLES.find(name)?;
        self.rate_limit_us = TUNABLES.number("rate_limit_us", value, 0, u32::MAX)?;
        Ok(())
    }

    pub(crate) fn start(&mut self, policy: &Policy) -> Option<Hertz> {
        self.cpus.fill(Cpu::default());
        (self.last_request_ns, self.next_khz, self.raw_khz) = (0, 0, 0);
        (self.work_in_progress, self.limits_changed) = (false, false);
        self.need_request = policy.driver.needs_update_limits();
        self.limits_changed(policy)
    }

    /// Where the scheduler itself switches frequencies, new limits wait for the next update (`sugov_limits`).
    pub(crate) fn limits_changed(&mut self, policy: &Policy) -> Option<Hertz> {
        self.limits_changed = true;
        if policy.fast_switch { None } else { policy.apply_limits() }
    }

    /// The earliest update that can bring a request. While a boost lasts every update changes it.
    pub(crate) fn due(&self) -> Nanos {
        if self.limits_changed || self.cpus.iter().any(|cpu| cpu.boost != 0) {
            return Nanos::ZERO;
        }
        Nanos::new(self.last_request_ns.saturating_add(u64::from(self.rate_limit_us) * 1000))
    }

    pub(crate) fn wanted(&self) -> Hertz {
        khz(self.raw_khz)
    }

    /// The scheduler's hook (`sugov_update_single_freq`, `sugov_update_single_perf`, `sugov_update_shared`).
    pub(crate) fn hook(&mut self, update: Update, policy: &Policy, readings: &impl Readings) -> Hook {
        let now_ns = update.now.get();
        let cpu = &mut self.cpus[update.cpu];
        cpu.boost_on(update.iowait, now_ns, self.tick_ns);
        cpu.last_update_ns = now_ns;
        if readings.deadline_bandwidth(update.cpu) > cpu.least {
            self.limits_changed = true;
        }
        if !self.is_due(now_ns) {
            return Hook::Nothing;
        }
        let next_khz = if policy.is_shared() {
            self.shared(now_ns, policy, readings)
        } else if policy.fast_switch && policy.frequency_invariant && policy.driver.takes_performance() {
            return Hook::Perform(self.performance(update, readings));
        } else {
            self.single(update, policy, readings)
        };
        if !self.commit(now_ns, next_khz, policy) {
            return Hook::Nothing;
        }
        if policy.fast_switch {
            return Hook::Request(policy.switch(khz(next_khz)));
        }
        if std::mem::replace(&mut self.work_in_progress, true) { Hook::Nothing } else { Hook::Work }
    }

    /// The thread that brings requests to a slow driver (`sugov_work`).
    pub(crate) fn work(&mut self, policy: &Policy) -> Option<Hertz> {
        self.work_in_progress = false;
        policy.request(khz(self.next_khz), Relation::AtLeast)
    }

    /// `sugov_should_update_freq`.
    fn is_due(&mut self, now_ns: u64) -> bool {
        if std::mem::take(&mut self.limits_changed) {
            self.need_request = true;
            return true;
        }
        let since_ns = now_ns.wrapping_sub(self.last_request_ns) as i64;
        since_ns >= i64::from(self.rate_limit_us) * 1000
    }

    fn performance(&mut self, update: Update, readings: &impl Readings) -> Performance {
        let before = self.cpus[update.cpu].utilisation;
        self.read(update.cpu, update.now.get(), readings);
        let cpu = &mut self.cpus[update.cpu];
        if cpu.stayed_busy(readings.idle_calls(update.cpu)) {
            cpu.utilisation = cpu.utilisation.max(before);
        }
        self.last_request_ns = update.now.get();
        let capacity = readings.capacity(update.cpu);
        if self.headroom_first {
            return Performance { least: cpu.least, target: cpu.utilisation, capacity };
        }
        Performance { least: with_headroom(cpu.least), target: with_headroom(cpu.utilisation), capacity }
    }

    fn single(&mut self, update: Update, policy: &Policy, readings: &impl Readings) -> u32 {
        let raw_khz = self.raw_khz;
        self.read(update.cpu, update.now.get(), readings);
        let cpu = &mut self.cpus[update.cpu];
        let utilisation = cpu.utilisation;
        let stayed_busy = cpu.stayed_busy(readings.idle_calls(update.cpu));
        let next_khz = self.next_frequency(utilisation, readings.capacity(update.cpu), policy);
        if stayed_busy && next_khz < self.next_khz && !self.need_request {
            self.raw_khz = raw_khz;
            return self.next_khz;
        }
        next_khz
    }

    fn shared(&mut self, now_ns: u64, policy: &Policy, readings: &impl Readings) -> u32 {
        let (mut utilisation, mut capacity) = (0, readings.capacity(0));
        for index in 0..self.cpus.len() {
            self.read(index, now_ns, readings);
            let (its, of) = (self.cpus[index].utilisation, readings.capacity(index));
            if its * capacity > of * utilisation {
                (utilisation, capacity) = (its, of);
            }
        }
        self.next_frequency(utilisation, capacity, policy)
    }

    /// A CPU's utilisation with its boost (`sugov_get_util`, `sugov_iowait_apply`).
    fn read(&mut self, index: usize, now_ns: u64, readings: &impl Readings) {
        let (tick_ns, capacity) = (self.tick_ns, readings.capacity(index));
        let cpu = &mut self.cpus[index];
        let boost = cpu.apply_boost(now_ns, tick_ns, capacity);
        let utilisation = readings.utilisation(index).max(boost);
        if self.headroom_first {
            cpu.least = readings.least_utilisation(index);
            cpu.utilisation = with_headroom(utilisation).min(capacity).max(cpu.least);
        } else {
            cpu.least = readings.deadline_bandwidth(index);
            cpu.utilisation = utilisation;
        }
    }

    /// `get_next_freq`.
    fn next_frequency(&mut self, utilisation: u64, capacity: u64, policy: &Policy) -> u32 {
        let (current_khz, max_khz) = (policy.current.khz(), policy.hardware_max.khz());
        let (of_khz, utilisation) = match (self.headroom_first, policy.frequency_invariant) {
            (false, true) => (max_khz, with_headroom(utilisation)),
            (false, false) => (current_khz, with_headroom(utilisation)),
            (true, true) => (max_khz, utilisation),
            (true, false) => (current_khz + (current_khz >> 2), utilisation),
        };
        let raw_khz = (of_khz * utilisation / capacity) as u32;
        if raw_khz == self.raw_khz && !self.need_request {
            return self.next_khz;
        }
        self.raw_khz = raw_khz;
        policy.resolve(khz(raw_khz), Relation::AtLeast).khz() as u32
    }

    /// `sugov_update_next_freq`.
    fn commit(&mut self, now_ns: u64, next_khz: u32, policy: &Policy) -> bool {
        let is_needed = std::mem::take(&mut self.need_request) && policy.driver.needs_update_limits();
        if next_khz == self.next_khz && !is_needed {
            return false;
        }
        self.next_khz = next_khz;
        self.last_request_ns = now_ns;
        true
    }
}

impl Cpu {
    /// Whether it has not gone idle since this was asked (`sugov_cpu_is_busy`, `sugov_hold_freq`).
    fn stayed_busy(&mut self, idle_calls: u64) -> bool {
        std::mem::replace(&mut self.idle_calls, idle_calls) == idle_calls
    }

    /// `sugov_iowait_boost`.
    fn boost_on(&mut self, iowait: bool, now_ns: u64, tick_ns: u64) {
        if self.boost != 0 && self.reset_boost(now_ns, tick_ns, iowait) {
            return;
        }
        if !iowait || self.boost_pending {
            return;
        }
        self.boost_pending = true;
        self.boost = if self.boost == 0 { BOOST_MIN } else { (self.boost << 1).min(SCALE) };
    }

    /// `sugov_iowait_reset`.
    fn reset_boost(&mut self, now_ns: u64, tick_ns: u64, iowait: bool) -> bool {
        if now_ns.wrapping_sub(self.last_update_ns) as i64 <= tick_ns as i64 {
            return false;
        }
        self.boost = if iowait { BOOST_MIN } else { 0 };
        self.boost_pending = iowait;
        true
    }

    /// `sugov_iowait_apply`.
    fn apply_boost(&mut self, now_ns: u64, tick_ns: u64, capacity: u64) -> u64 {
        if self.boost == 0 || self.reset_boost(now_ns, tick_ns, false) {
            return 0;
        }
        if !self.boost_pending {
            self.boost >>= 1;
            if self.boost < BOOST_MIN {
                self.boost = 0;
                return 0;
            }
        }
        self.boost_pending = false;
        (self.boost * capacity) >> 10
    }
}

/// A quarter more (`map_util_perf`).
fn with_headroom(utilisation: u64) -> u64 {
    utilisation + (utilisation >> 2)
}

fn khz(khz: u32) -> Hertz {
    Hertz::from_khz(u64::from(khz))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Governor;
    use crate::counted;
    use crate::dbs::tests::{Counters, Told, at_ms, laptop};
    use crate::driver::{Control, Driver, IntelCpufreq};
    use crate::intel_pstate::{GlobalLimits, Ratios};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const OLD: KernelVersion = KernelVersion::new(6, 1, 192);
    const NEW: KernelVersion = KernelVersion::new(6, 12, 117);

    fn governor(kernel: KernelVersion, rate_limit_us: u32, policy: &Policy) -> Governor {
        let tunables = BTreeMap::from([("rate_limit_us".to_owned(), rate_limit_us.to_string())]);
        let mut governor = Governor::new("schedutil", &tunables, kernel, 250, policy).unwrap();
        assert_eq!(governor.start(Nanos::ZERO, policy, &told(0, 0)), None);
        governor
    }

    fn told(utilisation: u64, idle_calls: u64) -> Told {
        Told::one(Counters { utilisation, idle_calls, ..Counters::default() })
    }

    fn invariant() -> Policy {
        Policy { frequency_invariant: true, fast_switch: true, ..laptop() }
    }

    /// The raw frequency of a utilisation (MHz) and what it becomes, from this current frequency.
    fn asked(kernel: KernelVersion, policy: &Policy, utilisation: u64) -> u64 {
        let mut governor = governor(kernel, 1000, policy);
        let request = governor.update(at_ms(100), policy, &told(utilisation, 1));
        request.map_or(policy.current.khz(), Hertz::khz) / 1000
    }

    #[test]
    fn an_invariant_utilisation_asks_for_its_share_and_a_quarter() {
        // 2800 * (u + u/4) / 1024: 410 is 1400 exactly, for its quarter is cut to 102; 411 is 1402.7.
        for kernel in [OLD, NEW] {
            let seen = [0, 102, 410, 411, 820, 1024].map(|u| asked(kernel, &invariant(), u));
            assert_eq!(seen, [350, 350, 1400, 2100, 2800, 2800], "{kernel}");
        }
    }

    #[test]
    fn without_invariance_the_current_frequency_counts_and_twice_a_quarter_from_6_8() {
        let policy = Policy { current: Hertz::from_mhz(1400), ..laptop() };
        // 1400 * 1.25 * 700 / 1024 = 1196; with the second quarter 1495.
        assert_eq!(asked(OLD, &policy, 700), 1400);
        assert_eq!(asked(NEW, &policy, 700), 2100);
        // At the cap both ask for a quarter more than now.
        assert_eq!([asked(OLD, &policy, 1024), asked(NEW, &policy, 1024)], [2100, 2100]);
    }

    #[test]
    fn requests_keep_the_rate_limit_but_for_new_limits() {
        let mut policy = invariant();
        let mut schedutil = governor(OLD, 2000, &policy);
        let mut ask = |at, utilisation, idle_calls, policy: &Policy| {
            schedutil.update(at_ms(at), policy, &told(utilisation, idle_calls)).map(|f| f.khz() / 1000)
        };
        assert_eq!(ask(10, 1000, 1, &policy), Some(2800));
        assert_eq!(ask(11, 100, 2, &policy), None, "1 ms of 2");
        assert_eq!(ask(12, 100, 3, &policy), Some(350));
        assert_eq!(ask(13, 1000, 4, &policy), None);
        policy.current = Hertz::from_mhz(350);
        policy.min = Hertz::from_mhz(700);
        assert_eq!(schedutil.limits_changed(Nanos::from_millis(13), &policy, &told(0, 4)), None);
        assert_eq!(schedutil.due(), Some(Nanos::ZERO));
        let request = schedutil.update(at_ms(13), &policy, &told(0, 5));
        assert_eq!(request, Some(Hertz::from_mhz(700)));
        assert_eq!(schedutil.due(), Some(Nanos::from_millis(15)));
    }

    #[test]
    fn a_driver_with_limits_in_its_register_is_asked_again_after_they_change() {
        let ratios = Ratios::core(8, 40, 42);
        let driver = IntelCpufreq { ratios, global: GlobalLimits::new(&ratios), control: Control::Hwp };
        let frequencies = Policy { frequency_invariant: false, ..counted::policy(800, 4200) };
        let ask_thrice = |driver: Driver| {
            let mut policy = Policy { driver, ..frequencies.clone() };
            let mut schedutil = governor(NEW, 1000, &policy);
            policy.current = Hertz::from_mhz(4200);
            let mut ask = |at, policy: &Policy| {
                if at == 30 {
                    schedutil.limits_changed(Nanos::from_millis(at), policy, &told(0, at));
                }
                schedutil.update(at_ms(at), policy, &told(1024, at)).map(|f| f.khz() / 1000)
            };
            [10, 20, 30].map(|at| ask(at, &policy))
        };
        assert_eq!(ask_thrice(Driver::Intel(driver)), [Some(4200), None, Some(4200)]);
        assert_eq!(ask_thrice(Driver::Frequencies), [Some(4200), None, None]);
    }

    #[test]
    fn a_cpu_that_stayed_busy_holds_its_frequency() {
        let policy = invariant();
        let mut schedutil = governor(OLD, 1000, &policy);
        let mut ask = |at, utilisation, idle_calls| {
            schedutil.update(at_ms(at), &policy, &told(utilisation, idle_calls)).map(|f| f.khz() / 1000)
        };
        assert_eq!(ask(10, 1000, 1), Some(2800));
        assert_eq!(ask(20, 300, 1), None);
        assert_eq!(ask(30, 300, 2), Some(1400));
        assert_eq!(ask(40, 600, 2), Some(2100), "more is given to a busy one too");
    }

    #[test]
    fn a_shared_policy_takes_the_busiest_cpu_and_holds_nothing() {
        let policy = Policy { cpus: 2, ..invariant() };
        let tunables = BTreeMap::from([("rate_limit_us".to_owned(), "0".to_owned())]);
        let mut schedutil = Governor::new("schedutil", &tunables, OLD, 250, &policy).unwrap();
        let both = |a, b| {
            let one = |utilisation| Counters { utilisation, idle_calls: 1, ..Counters::default() };
            Told(vec![one(a), one(b)])
        };
        schedutil.start(Nanos::ZERO, &policy, &both(0, 0));
        assert_eq!(schedutil.update(at_ms(1), &policy, &both(100, 1000)), Some(Hertz::from_mhz(2800)));
        assert_eq!(schedutil.update(at_ms(2), &policy, &both(100, 100)), Some(Hertz::from_mhz(350)));
    }

    #[test]
    fn the_boost_doubles_with_each_wait_halves_without_and_ends_after_a_tick() {
        let mut cpu = Cpu::default();
        let tick_ns = 4_000_000;
        let mut seen = Vec::new();
        let mut now_ns = 1_000_000_000;
        for iowait in [true, true, true, true, true, false, false, false, false, true] {
            now_ns += 1_000_000;
            cpu.boost_on(iowait, now_ns, tick_ns);
            cpu.last_update_ns = now_ns;
            seen.push(cpu.apply_boost(now_ns, tick_ns, 1024));
        }
        assert_eq!(seen, [128, 256, 512, 1024, 1024, 512, 256, 128, 0, 128]);
        // A tick exactly is not yet too long.
        cpu.boost_on(true, now_ns + tick_ns, tick_ns);
        assert_eq!(cpu.boost, 256);
        cpu.last_update_ns = now_ns + tick_ns;
        cpu.boost_on(true, now_ns + 2 * tick_ns + 1, tick_ns);
        assert_eq!(cpu.boost, 128);
        cpu.last_update_ns = now_ns + 2 * tick_ns + 1;
        cpu.boost_on(false, now_ns + 4 * tick_ns, tick_ns);
        assert_eq!((cpu.boost, cpu.boost_pending), (0, false));
    }

    #[test]
    fn two_waits_between_two_requests_double_once() {
        let mut cpu = Cpu::default();
        cpu.boost_on(true, 10, 4_000_000);
        cpu.boost_on(true, 20, 4_000_000);
        assert_eq!(cpu.boost, 128);
    }

    #[test]
    fn the_boost_gets_the_quarter_too() {
        // Boost 512 of 1024: 2800 * 1.25 / 2 = 1750.
        let policy = invariant();
        for kernel in [OLD, NEW] {
            let mut schedutil = governor(kernel, 0, &policy);
            let mut last = None;
            for ms in 1..=3 {
                let update = Update { iowait: true, ..at_ms(ms) };
                last = schedutil.update(update, &policy, &told(10, ms)).or(last);
            }
            assert_eq!(last, Some(Hertz::from_mhz(2100)), "{kernel}");
        }
    }

    #[test]
    fn more_deadline_bandwidth_overrides_the_rate_limit() {
        let policy = invariant();
        let with = |bandwidth, utilisation| {
            Told::one(Counters {
                bandwidth,
                least: bandwidth,
                utilisation,
                idle_calls: 9,
                ..Counters::default()
            })
        };
        let mut schedutil = governor(NEW, 10_000, &policy);
        assert_eq!(schedutil.update(at_ms(20), &policy, &with(0, 100)), Some(Hertz::from_mhz(350)));
        assert_eq!(schedutil.update(at_ms(21), &policy, &with(0, 900)), None);
        assert_eq!(schedutil.update(at_ms(22), &policy, &with(51, 900)), Some(Hertz::from_mhz(2800)));
        assert_eq!(schedutil.update(at_ms(23), &policy, &with(51, 10)), None);
    }

    #[test]
    fn a_slow_driver_is_asked_by_work_that_is_queued_once() {
        let policy = laptop();
        let mut schedutil = governor(OLD, 0, &policy);
        assert_eq!(schedutil.hook(at_ms(1), &policy, &told(1024, 1)), Hook::Work);
        assert_eq!(schedutil.hook(at_ms(2), &policy, &told(10, 2)), Hook::Nothing, "350 already wanted less");
        assert_eq!(schedutil.work(Nanos::from_millis(3), &policy, &told(10, 2)), None);
    }

    #[test]
    fn the_default_limit_follows_version_and_latency() {
        let limit = |kernel, transition_latency_ns| {
            default_rate_limit_us(kernel, &Policy { transition_latency_ns, ..laptop() })
        };
        assert_eq!(limit(OLD, 10_000), 10_000);
        assert_eq!(limit(OLD, 0), 1_000);
        assert_eq!(limit(KernelVersion::new(6, 9, 0), 10_000), 2_000);
        assert_eq!(limit(NEW, 10_000), 15);
    }

    proptest! {
        #[test]
        fn requests_are_within_limits_and_grow_with_utilisation(
            one in 0u64..1025, other in 0u64..1025, low in 0usize..5, high in 0usize..5,
            invariant in any::<bool>(), new in any::<bool>(),
        ) {
            let all = laptop().table.unwrap().all().to_vec();
            let policy = Policy {
                min: all[low.min(high)],
                max: all[low.max(high)],
                current: all[low.min(high)],
                frequency_invariant: invariant,
                fast_switch: true,
                ..laptop()
            };
            let kernel = if new { NEW } else { OLD };
            let asked = |utilisation| {
                let mut schedutil = governor(kernel, 0, &policy);
                schedutil.update(at_ms(5), &policy, &told(utilisation, 1)).unwrap()
            };
            let (less, more) = (asked(one.min(other)), asked(one.max(other)));
            prop_assert!(less <= more);
            prop_assert!(policy.min <= less && more <= policy.max);
        }
    }
}
