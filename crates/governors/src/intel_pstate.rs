//! The `intel_pstate` driver in active mode without HWP: its own `powersave` and `performance`.
//!
//! Follows `drivers/cpufreq/intel_pstate.c` of 6.12 and 6.1 (`intel_pstate_update_util`, `get_target_pstate`,
//! `intel_pstate_update_perf_limits`, `store_no_turbo`), whose arithmetic is the same in both.
//!
//! **The PID of older drivers is from their source, and not held against a kernel:** none of that age boots
//! here. It follows `pid_calc` and `get_target_pstate_use_performance` of 4.6 to 4.13, and
//! `intel_pstate_get_scaled_busy` and the timer of the driver before. Which profile uses it was read in
//! copies of the driver (mobile machines by load, later desktops too, all others by the PID); in which
//! version each came is known from the descriptions of the changes (4.6, 4.7, 4.10, 4.12, 4.14). The
//! selection by load of 4.10 to 4.13 (`get_target_pstate_use_cpu_load`) is that of 6.x.
//!
//! Left out: Atom's own P-state tables and voltages, hybrid scaling (only with HWP), what the turbo table
//! allows with many active cores, the PID for Atom (setpoint 60; until 4.9 by the load,
//! `get_target_pstate_use_cpu_load`), 4.x's limits in parts of the maximum, which round otherwise by at most
//! one P-state, and that the timer before 4.6 runs at ticks: it is the hook's first call after it is due.

use crate::{KernelVersion, Policy, Readings, Update};
use domain::time::Nanos;
use domain::units::Hertz;

/// Bits after the point in the driver's fractions (`FRAC_BITS`).
const FRAC_BITS: u32 = 8;
/// One, in those fractions.
const ONE: i64 = 1 << FRAC_BITS;
/// Bits after the point in the average performance (`EXT_FRAC_BITS`).
const EXT_FRAC_BITS: u32 = 14;
/// Time between samples (`INTEL_PSTATE_SAMPLING_INTERVAL`).
const SAMPLING_INTERVAL: Nanos = Nanos::from_millis(10);

/// What a CPU can do, as ratios of the bus clock: what the driver reads from the CPU's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratios {
    /// The lowest P-state ("maximum efficiency"); at least 1.
    pub lowest: u32,
    /// The highest without turbo, after a configured thermal limit (`max_pstate`; with HWP: guaranteed
    /// performance).
    pub base: u32,
    /// The highest without turbo as built (`max_pstate_physical`): that at which MPERF and TSC count.
    pub base_physical: u32,
    /// The highest turbo P-state of a single core (with HWP: highest performance).
    pub turbo: u32,
    /// The frequency of ratio 1: 100 MHz on all Core and Xeon parts that the driver knows.
    pub scaling: Hertz,
    /// How far MPERF is shifted: 10 on Knights Landing, else 0.
    pub mperf_shift: u32,
}

impl Ratios {
    /// A Core or Xeon part without a configured thermal limit, on a bus clock of 100 MHz.
    ///
    /// # Panics
    /// Where not 0 < lowest ≤ base ≤ turbo.
    pub fn core(lowest: u32, base: u32, turbo: u32) -> Self {
        assert!(0 < lowest && lowest <= base && base <= turbo, "no ratios: {lowest}, {base}, {turbo}");
        Self { lowest, base, base_physical: base, turbo, scaling: Hertz::from_mhz(100), mperf_shift: 0 }
    }

    /// The frequency of a ratio.
    pub fn frequency(&self, ratio: u32) -> Hertz {
        Hertz::from_khz(self.scaling.khz() * u64::from(ratio))
    }

    /// `cpuinfo_max_freq`: the turbo frequency, or without turbo the base frequency.
    pub fn highest_frequency(&self, turbo: Turbo) -> Hertz {
        self.frequency(if turbo == Turbo::Off { self.base } else { self.turbo })
    }
}

/// Whether turbo is permitted (`no_turbo` of `/sys/devices/system/cpu/intel_pstate`, the other way round).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turbo {
    /// `no_turbo` is 0.
    On,
    /// `no_turbo` is 1.
    Off,
}

/// The limits for all CPUs, below `/sys/devices/system/cpu/intel_pstate`, in percent of the turbo P-state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalLimits {
    min_perf_pct: u32,
    max_perf_pct: u32,
    turbo: Turbo,
    lowest_pct: u32,
    base_pct: u32,
}

impl GlobalLimits {
    /// As the driver begins: from the lowest P-state to turbo.
    pub fn new(ratios: &Ratios) -> Self {
        let percent = |ratio: u32| ratio * 100 / ratios.turbo;
        let lowest_pct = percent(ratios.lowest);
        Self {
            min_perf_pct: lowest_pct,
            max_perf_pct: 100,
            turbo: Turbo::On,
            lowest_pct,
            base_pct: percent(ratios.base),
        }
    }

    /// Writes `no_turbo`; without turbo the minimum falls to the base P-state where it was higher.
    pub fn set_turbo(&mut self, turbo: Turbo) {
        if turbo == self.turbo {
            return;
        }
        self.turbo = turbo;
        if turbo == Turbo::Off {
            self.min_perf_pct = self.min_perf_pct.min(self.base_pct);
        }
    }

    /// Writes `max_perf_pct`, which is clamped to at least the minimum and at most 100.
    pub fn set_max_percent(&mut self, percent: u32) {
        self.max_perf_pct = percent.clamp(self.min_perf_pct, 100);
    }

    /// Writes `min_perf_pct`, which is clamped to at least the lowest P-state and at most the maximum.
    pub fn set_min_percent(&mut self, percent: u32) {
        self.min_perf_pct = percent.min(self.max_perf_pct).max(self.lowest_pct.min(self.max_perf_pct));
    }

    /// `min_perf_pct`.
    pub fn min_percent(&self) -> u32 {
        self.min_perf_pct
    }

    /// `max_perf_pct`.
    pub fn max_percent(&self) -> u32 {
        self.max_perf_pct
    }

    /// Whether turbo is permitted.
    pub fn turbo(&self) -> Turbo {
        self.turbo
    }
}

/// The ratios between which requests lie (`min_perf_ratio`, `max_perf_ratio`), from a policy's limits and
/// those for all CPUs (`intel_pstate_verify_cpu_policy`, `intel_pstate_update_perf_limits`).
pub(crate) fn ratio_limits(ratios: &Ratios, global: &GlobalLimits, policy: &Policy) -> (u32, u32) {
    let scaling_khz = ratios.scaling.khz();
    let lowest_khz = ratios.frequency(ratios.lowest).khz();
    let highest_khz = ratios.highest_frequency(global.turbo).khz();
    let max_khz = policy.max.khz().clamp(lowest_khz, highest_khz);
    let min_khz = policy.min.khz().clamp(lowest_khz, max_khz);
    let max_khz = raised_above_base(ratios, max_khz, highest_khz);
    let max_policy = (max_khz / scaling_khz) as u32;
    let min_policy = if max_khz == min_khz { max_policy } else { (min_khz / scaling_khz) as u32 };

    let percent_of_turbo = |percent: u32| (ratios.turbo * percent).div_ceil(100);
    let global_max = percent_of_turbo(global.max_perf_pct);
    let global_min = percent_of_turbo(global.min_perf_pct).min(global_max);
    let min = min_policy.max(global_min).min(max_policy);
    let max = max_policy.min(global_max).max(min_policy);
    (min.min(max), max)
}

/// Where a thermal limit is configured below the base frequency as built, a maximum between base and turbo
/// means turbo (`intel_pstate_adjust_policy_max`).
fn raised_above_base(ratios: &Ratios, max_khz: u64, highest_khz: u64) -> u64 {
    let configured = ratios.base_physical > ratios.base;
    if configured && max_khz > ratios.frequency(ratios.base).khz() { highest_khz } else { max_khz }
}

/// The driver's own policies; they have generic governors' names and are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntelPolicy {
    /// By load, between the limits.
    Powersave,
    /// Always the upper limit.
    Performance,
}

/// What the firmware says that the machine is for (`Preferred_PM_Profile` of the ACPI table FADT): until 4.13
/// it chose the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmProfile {
    /// Mobile or tablet.
    Mobile,
    /// Desktop, workstation, appliance, home server.
    Desktop,
    /// Enterprise or performance server, or nothing said.
    Server,
}

/// How `powersave` comes from counters to a P-state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// By the share of time in which the CPU was not idle.
    Load,
    /// By a PID controller on the performance delivered, as part of that requested.
    Pid(PidTunables),
}

impl Algorithm {
    /// What a kernel uses: the PID until 4.13 for servers, until 4.11 for desktops, until 4.9 for mobile
    /// machines (from the changes' descriptions, not from source).
    pub fn of(version: KernelVersion, profile: PmProfile) -> Self {
        let load_since = match profile {
            PmProfile::Mobile => KernelVersion::new(4, 10, 0),
            PmProfile::Desktop => KernelVersion::new(4, 12, 0),
            PmProfile::Server => KernelVersion::new(4, 14, 0),
        };
        if version < load_since { Self::Pid(PidTunables::default()) } else { Self::Load }
    }
}

/// The PID's tunables, below `/sys/kernel/debug/pstate_snb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PidTunables {
    /// Time between samples (`sample_rate_ms`).
    pub sample_rate: Nanos,
    /// The performance aimed at, in percent of that requested.
    pub setpoint: i32,
    /// Errors up to this, in percent, are none.
    pub deadband: i32,
    /// Proportional gain, in percent (`p_gain_pct`).
    pub p_gain_pct: i32,
    /// Integral gain, in percent (`i_gain_pct`).
    pub i_gain_pct: i32,
    /// Differential gain, in percent (`d_gain_pct`).
    pub d_gain_pct: i32,
}

impl Default for PidTunables {
    /// Those of Core and Xeon parts.
    fn default() -> Self {
        Self {
            sample_rate: SAMPLING_INTERVAL,
            setpoint: 97,
            deadband: 0,
            p_gain_pct: 20,
            i_gain_pct: 0,
            d_gain_pct: 0,
        }
    }
}

/// In what a driver with a PID differs by version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    /// Before 4.6: a timer that does not wake an idle CPU, due after whole ticks; performance in percent.
    Timer,
    /// 4.6: the scheduler's hook, and no work seen below 1%.
    Percent,
    /// Since 4.7: performance as a fraction.
    Fraction,
}

impl Era {
    fn of(version: KernelVersion) -> Self {
        match version {
            version if version < KernelVersion::new(4, 6, 0) => Self::Timer,
            version if version < KernelVersion::new(4, 7, 0) => Self::Percent,
            _ => Self::Fraction,
        }
    }
}

/// The controller's memory (`struct _pid`), in fractions of 1/256.
#[derive(Clone, Debug)]
struct Pid {
    tunables: PidTunables,
    era: Era,
    /// Time between samples, as the driver waits for it.
    interval: Nanos,
    integral: i64,
    last_error: i64,
}

impl Pid {
    /// The integral is kept within ±30, lest it grow over a long time of one-sided errors.
    const INTEGRAL_LIMIT: i64 = 30 * ONE;

    fn new(tunables: PidTunables, version: KernelVersion, tick: Nanos) -> Self {
        let last_error = i64::from(tunables.setpoint - 100) * ONE;
        let era = Era::of(version);
        let interval = match era {
            // `msecs_to_jiffies` rounds up.
            Era::Timer => Nanos::new(tunables.sample_rate.get().next_multiple_of(tick.get())),
            Era::Percent | Era::Fraction => tunables.sample_rate,
        };
        Self { tunables, era, interval, integral: 0, last_error }
    }

    /// By how many P-states to go down (`pid_calc`).
    fn steps_down(&mut self, busy: i64) -> i64 {
        let tunables = &self.tunables;
        let gain = |percent: i32| div_fp(i64::from(percent), 100);
        let error = i64::from(tunables.setpoint) * ONE - busy;
        if error.abs() <= i64::from(tunables.deadband) * ONE {
            return 0;
        }
        let proportional = mul_fp(gain(tunables.p_gain_pct), error);
        self.integral = (self.integral + error).clamp(-Self::INTEGRAL_LIMIT, Self::INTEGRAL_LIMIT);
        let differential = mul_fp(gain(tunables.d_gain_pct), error - self.last_error);
        self.last_error = error;
        let result = proportional + mul_fp(self.integral, gain(tunables.i_gain_pct)) + differential;
        (result + ONE / 2) >> FRAC_BITS
    }
}

fn mul_fp(x: i64, y: i64) -> i64 {
    (x * y) >> FRAC_BITS
}

fn div_fp(x: i64, y: i64) -> i64 {
    (x << FRAC_BITS) / y
}

/// The counters of a sample: totals, or differences to the sample before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) aperf: u64,
    pub(crate) mperf: u64,
    pub(crate) tsc: u64,
}

impl Counters {
    pub(crate) fn read(cpu: usize, readings: &impl Readings) -> Self {
        Self { aperf: readings.aperf(cpu), mperf: readings.mperf(cpu), tsc: readings.tsc(cpu) }
    }

    /// The differences to an earlier reading; counters of 64 bits may wrap.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            aperf: self.aperf.wrapping_sub(earlier.aperf),
            mperf: self.mperf.wrapping_sub(earlier.mperf),
            tsc: self.tsc.wrapping_sub(earlier.tsc),
        }
    }
}

/// `intel_pstate` in active mode without HWP, for one CPU: the driver has a policy a CPU.
#[derive(Clone, Debug)]
pub struct IntelPstate {
    ratios: Ratios,
    global: GlobalLimits,
    policy: IntelPolicy,
    pid: Option<Pid>,
    gradual_boost: bool,
    tick: Nanos,
    current: u32,
    limits: (u32, u32),
    iowait_boost: i64,
    last_update: Nanos,
    sample_time: Nanos,
    last_sample_time: Nanos,
    counters: Counters,
    sample: Counters,
    average_performance: u64,
}

impl IntelPstate {
    /// A driver that has not started; `tick` is the kernel's (4 ms with `HZ=250`).
    pub fn new(
        ratios: Ratios,
        policy: IntelPolicy,
        algorithm: Algorithm,
        version: KernelVersion,
        tick: Nanos,
    ) -> Self {
        let pid = match algorithm {
            Algorithm::Load => None,
            Algorithm::Pid(tunables) => Some(Pid::new(tunables, version, tick)),
        };
        Self {
            ratios,
            global: GlobalLimits::new(&ratios),
            policy,
            pid,
            // Until 5.0 a wake-up after waiting for a disk meant full load at once (not read in source).
            gradual_boost: version >= KernelVersion::new(5, 1, 0),
            tick,
            current: ratios.lowest,
            limits: (0, 0xff),
            iowait_boost: 0,
            last_update: Nanos::ZERO,
            sample_time: Nanos::ZERO,
            last_sample_time: Nanos::ZERO,
            counters: Counters::default(),
            sample: Counters::default(),
            average_performance: 0,
        }
    }

    /// The limits for all CPUs; what is changed here holds from [`IntelPstate::limits_changed`] on.
    pub fn global_mut(&mut self) -> &mut GlobalLimits {
        &mut self.global
    }

    /// Begins at the policy's current frequency; the first request comes with the second sample.
    pub fn start(&mut self, _now: Nanos, policy: &Policy, _readings: &impl Readings) -> Option<Hertz> {
        let ratio = (policy.current.khz() / self.ratios.scaling.khz()) as u32;
        self.current = ratio.clamp(self.ratios.lowest, self.ratios.turbo);
        self.sample_time = Nanos::ZERO;
        self.limits_changed(policy)
    }

    /// The limits of the policy, or those for all CPUs, have changed. `performance` requests its new maximum
    /// at once, `powersave` with its next sample.
    pub fn limits_changed(&mut self, policy: &Policy) -> Option<Hertz> {
        self.limits = ratio_limits(&self.ratios, &self.global, policy);
        match self.policy {
            IntelPolicy::Powersave => None,
            IntelPolicy::Performance => self.request(self.limits.1.max(self.ratios.lowest)),
        }
    }

    /// The scheduler's hook; `performance` has none.
    pub fn update(&mut self, update: Update, _policy: &Policy, readings: &impl Readings) -> Option<Hertz> {
        if self.policy == IntelPolicy::Performance {
            return None;
        }
        if self.pid.is_none() {
            self.update_boost(update);
        }
        self.last_update = update.now;
        let interval = self.pid.as_ref().map_or(SAMPLING_INTERVAL, |pid| pid.interval);
        if update.now.saturating_sub(self.sample_time) < interval || !self.take_sample(update, readings) {
            return None;
        }
        let target = self.target();
        let min = self.limits.0.max(self.ratios.lowest);
        let max = self.limits.1.max(min);
        self.request(target.clamp(i64::from(min), i64::from(max)) as u32)
    }

    /// When it acts without being called: never.
    pub fn due(&self) -> Option<Nanos> {
        None
    }

    /// When the counters were read last (`sample.time`); zero before the first time.
    pub fn sampled_at(&self) -> Nanos {
        self.sample_time
    }

    /// The boost for tasks that waited for disks, in percent of the largest and rounded down, as
    /// `power:pstate_sample` has it (`io_boost`).
    pub fn boost_percent(&self) -> i64 {
        (100 * self.iowait_boost) >> FRAC_BITS
    }

    fn request(&mut self, ratio: u32) -> Option<Hertz> {
        if ratio == self.current {
            return None;
        }
        self.current = ratio;
        Some(self.ratios.frequency(ratio))
    }

    fn update_boost(&mut self, update: Update) {
        let maybe_idle = update.now.saturating_sub(self.last_update) > self.tick;
        if !self.gradual_boost {
            if update.iowait {
                self.iowait_boost = ONE;
            } else if maybe_idle {
                self.iowait_boost = 0;
            }
            return;
        }
        let eighth = ONE / 8;
        self.iowait_boost = match (update.iowait, maybe_idle) {
            (true, false) if self.iowait_boost >= eighth => (self.iowait_boost * 2).min(ONE),
            (true, _) => eighth,
            (false, true) => 0,
            (false, false) => self.iowait_boost / 2,
        };
    }

    /// Reads the counters; whether they make a sample, which the first reading does not.
    fn take_sample(&mut self, update: Update, readings: &impl Readings) -> bool {
        let now = Counters::read(update.cpu, readings);
        if now.mperf == self.counters.mperf || now.tsc == self.counters.tsc {
            return false;
        }
        self.last_sample_time = self.sample_time;
        self.sample_time = update.now;
        self.sample = now.since(self.counters);
        self.counters = now;
        if self.last_sample_time == Nanos::ZERO {
            return false;
        }
        let performance = (u128::from(self.sample.aperf) << EXT_FRAC_BITS) / u128::from(self.sample.mperf);
        self.average_performance = performance as u64;
        true
    }

    fn target(&mut self) -> i64 {
        match self.pid.take() {
            None => self.target_by_load(),
            Some(mut pid) => {
                let busy = self.scaled_performance(&pid);
                let down = pid.steps_down(busy);
                self.pid = Some(pid);
                i64::from(self.current) - down
            }
        }
    }

    /// `get_target_pstate`: 1.25 times the busy share of the highest P-state, and half of what the CPU in
    /// fact ran above that.
    fn target_by_load(&mut self) -> i64 {
        let mperf = u128::from(self.sample.mperf) << self.ratios.mperf_shift;
        let busy = ((mperf << FRAC_BITS) / u128::from(self.sample.tsc)) as i64;
        let busy = busy.max(self.iowait_boost);
        if !self.gradual_boost {
            self.iowait_boost /= 2;
        }
        let highest = match self.global.turbo {
            Turbo::On => self.ratios.turbo,
            Turbo::Off => self.ratios.base,
        };
        let target = mul_fp(i64::from(highest + highest / 4), busy).max(i64::from(self.ratios.lowest));
        let average = self.scaled(u64::from(self.ratios.base_physical)) as i64;
        if average > target { target + (average - target) / 2 } else { target }
    }

    /// What was delivered in percent of what was requested, as a fraction of 1/256
    /// (`get_target_pstate_use_performance`); from 4.6 on none where the CPU was busy for less than 1% of the
    /// time.
    fn scaled_performance(&self, pid: &Pid) -> i64 {
        let performance = self.performance(pid.era);
        let rate = pid.tunables.sample_rate;
        let duration = self.sample_time.saturating_sub(self.last_sample_time).get();
        if duration > rate.get() * 3 {
            return mul_fp(performance, div_fp(rate.get() as i64, duration as i64));
        }
        let busy = ((100 * u128::from(self.sample.mperf)) << FRAC_BITS) / u128::from(self.sample.tsc);
        if pid.era != Era::Timer && busy < ONE as u128 { 0 } else { performance }
    }

    fn performance(&self, era: Era) -> i64 {
        let (base, current) = (i64::from(self.ratios.base_physical), i64::from(self.current));
        if era == Era::Fraction {
            return self.scaled(div_fp(100 * base, current) as u64) as i64;
        }
        let percent = ((100 * u128::from(self.sample.aperf)) << FRAC_BITS) / u128::from(self.sample.mperf);
        mul_fp(percent as i64, div_fp(base, current))
    }

    /// A number times the average performance (`mul_ext_fp`).
    fn scaled(&self, number: u64) -> u64 {
        ((u128::from(number) * u128::from(self.average_performance)) >> EXT_FRAC_BITS) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counted::{Fixed, policy};
    use proptest::prelude::*;

    const TICK: Nanos = Nanos::from_millis(4);
    const NEW: KernelVersion = KernelVersion::new(6, 12, 0);

    /// 2.4 GHz, turbo 3.5 GHz, lowest 800 MHz.
    fn ratios() -> Ratios {
        Ratios::core(8, 24, 35)
    }

    fn powersave(algorithm: Algorithm) -> IntelPstate {
        let mut driver = IntelPstate::new(ratios(), IntelPolicy::Powersave, algorithm, NEW, TICK);
        driver.start(Nanos::ZERO, &policy(800, 3500), &Fixed::default());
        driver
    }

    fn at(ms: u64) -> Update {
        Update { now: Nanos::from_millis(ms), cpu: 0, iowait: false }
    }

    /// Megacycles a 10 ms: at a TSC of 2.4 GHz there are 24.
    fn counters(aperf: u64, mperf: u64, tsc: u64) -> Fixed {
        Fixed { aperf: aperf * 1_000_000, mperf: mperf * 1_000_000, tsc: tsc * 1_000_000 }
    }

    #[test]
    fn half_busy_at_the_lowest_frequency_asks_for_five_eighths_of_turbo() {
        let mut driver = powersave(Algorithm::Load);
        let policy = policy(800, 3500);
        assert_eq!(driver.update(at(10), &policy, &counters(4, 12, 24)), None, "the first is no sample");
        // busy 12/24 = 128/256; 35 + 35/4 = 43; 43·128/256 = 21. It ran at a third of base, P-state 7:
        // nothing is added.
        assert_eq!(driver.update(at(20), &policy, &counters(8, 24, 48)), Some(Hertz::from_mhz(2100)));
    }

    #[test]
    fn half_of_what_it_ran_above_the_target_is_added() {
        let mut driver = powersave(Algorithm::Load);
        let policy = policy(800, 3500);
        driver.update(at(10), &policy, &counters(1, 1, 24));
        // busy 3/24 = 32/256; 43·32/256 = 5, raised to 8; average 24·(4/3) = 31 (of 31.99); 8 + 23/2 = 19.
        assert_eq!(driver.update(at(20), &policy, &counters(5, 4, 48)), Some(Hertz::from_mhz(1900)));
    }

    #[test]
    fn waiting_for_disks_doubles_the_boost_from_an_eighth_to_one() {
        let mut driver = powersave(Algorithm::Load);
        let policy = policy(800, 3500);
        let mut boosts = Vec::new();
        for step in 0..5 {
            driver.update(Update { iowait: true, ..at(step) }, &policy, &Fixed::default());
            boosts.push(driver.iowait_boost);
        }
        assert_eq!(boosts, [32, 64, 128, 256, 256]);
        driver.update(at(5), &policy, &Fixed::default());
        assert_eq!(driver.iowait_boost, 128, "another update halves it");
        driver.update(Update { iowait: true, ..at(10) }, &policy, &Fixed::default());
        assert_eq!(driver.iowait_boost, 32, "after more than a tick it begins anew");
        driver.update(at(15), &policy, &Fixed::default());
        assert_eq!(driver.iowait_boost, 0);
    }

    #[test]
    fn a_full_boost_asks_for_turbo_though_the_cpu_is_nearly_idle() {
        let mut driver = powersave(Algorithm::Load);
        let policy = policy(800, 3500);
        driver.update(at(10), &policy, &counters(1, 1, 24));
        for ms in 16..=19 {
            driver.update(Update { iowait: true, ..at(ms) }, &policy, &counters(1, 1, 24));
        }
        let asked = driver.update(Update { iowait: true, ..at(20) }, &policy, &counters(2, 2, 48));
        assert_eq!(asked, Some(Hertz::from_mhz(3500)));
    }

    #[test]
    fn a_cpu_that_never_ran_gives_no_sample() {
        let mut driver = powersave(Algorithm::Load);
        let policy = policy(800, 3500);
        driver.update(at(10), &policy, &counters(1, 1, 24));
        assert_eq!(driver.update(at(20), &policy, &counters(1, 1, 48)), None);
        assert_eq!(driver.sample_time, Nanos::from_millis(10), "and the next call tries again");
    }

    #[test]
    fn without_turbo_the_target_is_a_part_of_base() {
        let mut driver = powersave(Algorithm::Load);
        driver.global_mut().set_turbo(Turbo::Off);
        let policy = policy(800, 3500);
        assert_eq!(driver.limits_changed(&policy), None);
        assert_eq!(driver.limits, (8, 24));
        driver.update(at(10), &policy, &counters(1, 1, 24));
        // busy 1: 24 + 6 = 30, held to 24.
        assert_eq!(driver.update(at(20), &policy, &counters(25, 25, 48)), Some(Hertz::from_mhz(2400)));
    }

    #[test]
    fn performance_follows_its_limits_and_nothing_else() {
        let mut driver = IntelPstate::new(ratios(), IntelPolicy::Performance, Algorithm::Load, NEW, TICK);
        let wide = policy(800, 3500);
        assert_eq!(driver.start(Nanos::ZERO, &wide, &Fixed::default()), Some(Hertz::from_mhz(3500)));
        assert_eq!(driver.limits_changed(&wide), None, "the same is not asked for twice");
        assert_eq!(driver.limits_changed(&policy(800, 2050)), Some(Hertz::from_mhz(2000)));
        driver.global_mut().set_max_percent(50);
        // 35·50/100 = 17.5, rounded up.
        assert_eq!(driver.limits_changed(&wide), Some(Hertz::from_mhz(1800)));
        assert_eq!(driver.update(at(50), &wide, &counters(9, 9, 9)), None);
    }

    #[test]
    fn limits_for_all_cpus_are_clamped_as_the_files_are() {
        let mut limits = GlobalLimits::new(&ratios());
        assert_eq!((limits.min_percent(), limits.max_percent()), (22, 100), "8/35 is 22%");
        limits.set_min_percent(5);
        assert_eq!(limits.min_percent(), 22);
        limits.set_min_percent(90);
        limits.set_max_percent(10);
        assert_eq!(limits.max_percent(), 90, "not below the minimum");
        limits.set_turbo(Turbo::Off);
        assert_eq!(limits.min_percent(), 68, "24/35");
    }

    #[test]
    fn equal_policy_limits_win_over_the_minimum_for_all() {
        let mut global = GlobalLimits::new(&ratios());
        global.set_min_percent(80);
        assert_eq!(ratio_limits(&ratios(), &global, &policy(1200, 1200)), (12, 12));
        assert_eq!(ratio_limits(&ratios(), &global, &policy(800, 3500)), (28, 35));
    }

    #[test]
    fn with_a_configured_thermal_limit_a_maximum_above_it_means_turbo() {
        let limited = Ratios { base: 20, ..ratios() };
        let global = GlobalLimits::new(&limited);
        assert_eq!(ratio_limits(&limited, &global, &policy(800, 2100)).1, 35);
        assert_eq!(ratio_limits(&ratios(), &global, &policy(800, 2500)).1, 25);
    }

    #[test]
    fn the_pid_steps_by_a_fifth_of_the_error() {
        let mut driver = powersave(Algorithm::Pid(PidTunables::default()));
        let policy = policy(800, 3500);
        driver.update(at(10), &policy, &counters(1, 1, 24));
        // It ran at base though the lowest was requested.
        // 100·24/8 = 300%; (97 − 300)·51/256 = −40.4: up by 40.
        assert_eq!(driver.update(at(20), &policy, &counters(13, 13, 48)), Some(Hertz::from_mhz(3500)));
        // Then at base again with turbo requested: 100·24/35 = 68.57%; (97 − 68.57)·51/256 = 5.66: down by 6.
        assert_eq!(driver.update(at(30), &policy, &counters(25, 25, 72)), Some(Hertz::from_mhz(2900)));
    }

    #[test]
    fn the_pid_sees_no_work_below_one_percent_and_less_after_a_long_pause() {
        let policy = policy(800, 3500);
        let mut driver = powersave(Algorithm::Pid(PidTunables::default()));
        driver.current = 35;
        driver.update(at(10), &policy, &Fixed { aperf: 1, mperf: 1, tsc: 1 });
        let hardly = Fixed { aperf: 200_001, mperf: 200_001, tsc: 24_000_001 };
        // Busy 0.83%: the error is all 97, 97·51/256 = 19.3: down by 19.
        assert_eq!(driver.update(at(20), &policy, &hardly), Some(Hertz::from_mhz(1600)));

        let mut driver = powersave(Algorithm::Pid(PidTunables::default()));
        driver.current = 24;
        driver.update(at(10), &policy, &counters(1, 1, 24));
        // After 40 ms, 100% count a quarter (64/256): (97 − 25)·51/256 = 14.3: down by 14.
        assert_eq!(driver.update(at(50), &policy, &counters(2, 2, 48)), Some(Hertz::from_mhz(1000)));
    }

    /// Of a kernel before 4.6, whose tick is 4 ms.
    fn by_timer() -> IntelPstate {
        let (pid, old) = (Algorithm::Pid(PidTunables::default()), KernelVersion::new(4, 4, 0));
        let mut driver = IntelPstate::new(ratios(), IntelPolicy::Powersave, pid, old, TICK);
        driver.start(Nanos::ZERO, &policy(800, 3500), &Fixed::default());
        driver
    }

    #[test]
    fn before_4_6_the_pid_samples_after_whole_ticks() {
        let (mut old, mut new) = (by_timer(), powersave(Algorithm::Pid(PidTunables::default())));
        let policy = policy(800, 3500);
        for driver in [&mut old, &mut new] {
            driver.update(at(12), &policy, &counters(1, 1, 24));
        }
        // 10 ms are three ticks of 4 ms.
        let asked = |driver: &mut IntelPstate, ms| driver.update(at(ms), &policy, &counters(13, 13, 48));
        assert_eq!([asked(&mut old, 22), asked(&mut new, 22)], [None, Some(Hertz::from_mhz(3500))]);
        assert_eq!(asked(&mut old, 24), Some(Hertz::from_mhz(3500)));
    }

    #[test]
    fn before_4_6_a_cpu_that_hardly_works_is_asked_for_no_less() {
        let policy = policy(800, 3500);
        let hardly = Fixed { aperf: 200_001, mperf: 200_001, tsc: 28_800_001 };
        for (mut driver, expected) in [
            // It did as it was told while it worked: the error is −3, −3·51/256 = −0.6: up by one.
            (by_timer(), Some(Hertz::from_mhz(2500))),
            // Busy 0.7%: the error is all 97, 97·51/256 = 19.3: down by 19.
            (powersave(Algorithm::Pid(PidTunables::default())), Some(Hertz::from_mhz(800))),
        ] {
            driver.current = 24;
            driver.update(at(12), &policy, &Fixed { aperf: 1, mperf: 1, tsc: 1 });
            assert_eq!(driver.update(at(24), &policy, &hardly), expected);
        }
    }

    #[test]
    fn until_4_6_performance_is_rounded_in_percent() {
        let mut driver = by_timer();
        driver.current = 35;
        driver.sample = Counters { aperf: 1000, mperf: 1000, tsc: 3000 };
        driver.average_performance = 1 << EXT_FRAC_BITS;
        // 24/35 is 175/256, rounded down, and 100·175/256 = 68.36; as a fraction 100·24/35 = 68.57.
        let all = [Era::Timer, Era::Percent, Era::Fraction].map(|era| driver.performance(era));
        assert_eq!(all, [17_500, 17_500, 17_554]);
    }

    #[test]
    fn kernel_and_profile_choose_the_algorithm() {
        let pid = Algorithm::Pid(PidTunables::default());
        let cases = [
            ((4, 4), PmProfile::Mobile, pid),
            ((4, 10), PmProfile::Mobile, Algorithm::Load),
            ((4, 11), PmProfile::Desktop, pid),
            ((4, 13), PmProfile::Server, pid),
            ((4, 14), PmProfile::Server, Algorithm::Load),
            ((6, 12), PmProfile::Server, Algorithm::Load),
        ];
        for ((major, minor), profile, expected) in cases {
            let version = KernelVersion::new(major, minor, 0);
            assert_eq!(Algorithm::of(version, profile), expected, "{version} {profile:?}");
        }
    }

    proptest! {
        #[test]
        fn requests_lie_within_the_limits(
            steps in proptest::collection::vec((1_u64..30, 0_u64..60_000_000, 0_u64..60_000_000, any::<bool>()), 1..60),
            (a, b) in (0_u64..5000, 0_u64..5000),
            pid in any::<bool>(),
        ) {
            let policy = policy(a.min(b), a.max(b));
            let algorithm = if pid { Algorithm::Pid(PidTunables::default()) } else { Algorithm::Load };
            let mut driver = IntelPstate::new(ratios(), IntelPolicy::Powersave, algorithm, NEW, TICK);
            driver.start(Nanos::ZERO, &policy, &Fixed::default());
            let (mut ms, mut readings) = (0, Fixed::default());
            for (wait, aperf, mperf, iowait) in steps {
                ms += wait;
                readings.aperf += aperf;
                readings.mperf += mperf;
                readings.tsc += wait * 2_400_000;
                if let Some(asked) = driver.update(Update { iowait, ..at(ms) }, &policy, &readings) {
                    let (min, max) = driver.limits;
                    prop_assert!(asked >= ratios().frequency(min.max(8)) && asked <= ratios().frequency(max.max(8)));
                }
            }
        }
    }
}
