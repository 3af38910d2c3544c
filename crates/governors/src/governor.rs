//! One type for all governors: by name, with static dispatch.
//!
//! Goals: the simulation and the replay of recordings drive every governor in the same way. A further
//! governor is a variant here, its name in [`Governor::new`], and a file of its own.

use crate::conservative::{self, Conservative};
use crate::driver::Performance;
use crate::fixed::{self, Userspace};
use crate::ondemand::{self, Ondemand};
use crate::schedutil::{self, Schedutil};
use crate::{KernelVersion, Policy, Readings, TunableError, Update};
use domain::time::Nanos;
use domain::units::Hertz;
use std::collections::BTreeMap;

/// A frequency governor of one policy.
///
/// The caller keeps [`Policy::current`]: it is what was requested last. Where the driver is not asked, as for
/// the frequency that is set already, a request is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Governor(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Ondemand(Ondemand),
    Conservative(Conservative),
    Schedutil(Schedutil),
    Performance,
    Powersave,
    Userspace(Userspace),
}

/// The governors that have a model, as [`Governor::new`] takes them.
pub(crate) const NAMES: [&str; 6] =
    ["ondemand", "conservative", "schedutil", "performance", "powersave", "userspace"];

/// Steps of conservative from the highest frequency to any: `freq_step` is a whole per cent of it.
const MOST_STEPS: usize = 100;

/// What the scheduler's hook brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Nothing.
    Nothing,
    /// The governor's worker was queued; it decides when it runs ([`Governor::work`]).
    Work,
    /// A request, at once.
    Request(Hertz),
    /// A request for performance, at once ([`crate::driver::Driver::perform`]).
    Perform(Performance),
}

impl Hook {
    /// The frequency that the driver is asked for at once; `None` where the worker has to run first.
    pub fn request(self, policy: &Policy) -> Option<Hertz> {
        match self {
            Self::Nothing | Self::Work => None,
            Self::Request(request) => Some(request),
            Self::Perform(asked) => policy.driver.perform(policy, asked).map(|(frequency, _)| frequency),
        }
    }
}

impl Governor {
    /// A governor by its name in `scaling_governor`, with the tunables that differ from the kernel's
    /// defaults, by the names of their files; values are the text that one would write there. `hz` is the
    /// kernel's tick (`CONFIG_HZ`).
    ///
    /// # Errors
    /// Where there is no such governor or tunable, or the kernel would refuse a value.
    pub fn new(
        name: &str,
        tunables: &BTreeMap<String, String>,
        kernel: KernelVersion,
        hz: u32,
        policy: &Policy,
    ) -> Result<Self, TunableError> {
        let kind = match name {
            "ondemand" => Kind::Ondemand(Ondemand::new(kernel, hz, policy)),
            "conservative" => Kind::Conservative(Conservative::new(kernel, hz, policy)),
            "schedutil" => Kind::Schedutil(Schedutil::new(kernel, hz, policy)),
            "performance" => Kind::Performance,
            "powersave" => Kind::Powersave,
            "userspace" => Kind::Userspace(Userspace::default()),
            _ => return Err(TunableError::Governor { name: name.to_owned() }),
        };
        let mut governor = Self(kind);
        governor.set_all(tunables)?;
        Ok(governor)
    }

    /// Sets all. Two thresholds bound each other, so that one of both orders may be refused.
    fn set_all(&mut self, tunables: &BTreeMap<String, String>) -> Result<(), TunableError> {
        let mut in_order = self.clone();
        let forwards = tunables.iter().try_for_each(|(n, v)| in_order.set(n, v, Nanos::ZERO, &Nothing));
        if forwards.is_ok() {
            *self = in_order;
            return Ok(());
        }
        tunables.iter().rev().try_for_each(|(n, v)| self.set(n, v, Nanos::ZERO, &Nothing))
    }

    /// Writes a tunable of a governor that runs, as through its file. The frequency follows with the next
    /// update; for userspace, with the next call of [`Governor::limits_changed`].
    ///
    /// # Errors
    /// Where there is no such tunable, or the kernel would refuse the value.
    pub fn set(
        &mut self,
        name: &str,
        value: &str,
        now: Nanos,
        readings: &impl Readings,
    ) -> Result<(), TunableError> {
        match &mut self.0 {
            Kind::Ondemand(ondemand) => ondemand.set(name, value, now, readings),
            Kind::Conservative(conservative) => conservative.set(name, value, now, readings),
            Kind::Schedutil(schedutil) => schedutil.set(name, value),
            Kind::Performance => fixed::PERFORMANCE.find(name).map(drop),
            Kind::Powersave => fixed::POWERSAVE.find(name).map(drop),
            Kind::Userspace(userspace) => userspace.set(name, value),
        }
    }

    /// Its tunables by the names of their files, as these read now.
    pub fn tunables(&self) -> BTreeMap<&'static str, String> {
        match &self.0 {
            Kind::Ondemand(ondemand) => ondemand.tunables(),
            Kind::Conservative(conservative) => conservative.tunables(),
            Kind::Schedutil(schedutil) => schedutil.tunables(),
            Kind::Performance | Kind::Powersave | Kind::Userspace(_) => BTreeMap::new(),
        }
    }

    /// The governor takes over the policy. `now` is the clock of [`Readings`] (`ktime_get`).
    pub fn start(&mut self, now: Nanos, policy: &Policy, readings: &impl Readings) -> Option<Hertz> {
        match &mut self.0 {
            Kind::Ondemand(ondemand) => ondemand.start(now, policy, readings),
            Kind::Conservative(conservative) => conservative.start(now, policy, readings),
            Kind::Schedutil(schedutil) => schedutil.start(policy),
            Kind::Performance => fixed::performance(policy),
            Kind::Powersave => fixed::powersave(policy),
            Kind::Userspace(userspace) => userspace.start(policy),
        }
    }

    /// The scheduler's hook is called, and the governor's worker, where one is queued, runs at once.
    pub fn update(&mut self, update: Update, policy: &Policy, readings: &impl Readings) -> Option<Hertz> {
        match self.hook(update, policy, readings) {
            Hook::Work => self.work(update.now, policy, readings),
            other => other.request(policy),
        }
    }

    /// Its CPUs have been idle for so long that one more sample of them changes nothing, and the last one is
    /// of `now`: conservative has come down step by step. The last request.
    pub fn has_rested(&mut self, now: Nanos, policy: &Policy, readings: &impl Readings) -> Option<Hertz> {
        let mut policy = policy.clone();
        let mut last = None;
        for _ in 0..MOST_STEPS {
            match &mut self.0 {
                Kind::Ondemand(ondemand) => ondemand.sampling.sample_at_once(),
                Kind::Conservative(conservative) => conservative.sampling.sample_at_once(),
                _ => return None,
            }
            if let Some(request) = self.update(Update { now, cpu: 0, iowait: false }, &policy, readings) {
                policy.current = request;
                last = Some(request);
            }
        }
        last
    }

    /// The scheduler's hook alone. After [`Hook::Work`] the caller decides when [`Governor::work`] runs;
    /// until then no further work is queued.
    pub fn hook(&mut self, update: Update, policy: &Policy, readings: &impl Readings) -> Hook {
        match &mut self.0 {
            Kind::Ondemand(ondemand) => queued(ondemand.sampling.hook(update)),
            Kind::Conservative(conservative) => queued(conservative.sampling.hook(update)),
            Kind::Schedutil(schedutil) => schedutil.hook(update, policy, readings),
            Kind::Performance | Kind::Powersave | Kind::Userspace(_) => Hook::Nothing,
        }
    }

    /// The governor's worker runs: ondemand and conservative look at the load now, schedutil hands on what
    /// its hook decided. `now` is the clock of [`Readings`] (`ktime_get`), and need not be that of updates.
    pub fn work(&mut self, now: Nanos, policy: &Policy, readings: &impl Readings) -> Option<Hertz> {
        match &mut self.0 {
            Kind::Ondemand(ondemand) => ondemand.work(now, policy, readings),
            Kind::Conservative(conservative) => conservative.work(now, policy, readings),
            Kind::Schedutil(schedutil) => schedutil.work(policy),
            Kind::Performance | Kind::Powersave | Kind::Userspace(_) => None,
        }
    }

    /// The policy's limits are others now (`scaling_min_freq`, `scaling_max_freq`).
    pub fn limits_changed(
        &mut self,
        _now: Nanos,
        policy: &Policy,
        _readings: &impl Readings,
    ) -> Option<Hertz> {
        match &mut self.0 {
            Kind::Ondemand(ondemand) => ondemand.limits_changed(policy),
            Kind::Conservative(conservative) => conservative.limits_changed(policy),
            Kind::Schedutil(schedutil) => schedutil.limits_changed(policy),
            Kind::Performance => fixed::performance(policy),
            Kind::Powersave => fixed::powersave(policy),
            Kind::Userspace(userspace) => userspace.limits_changed(policy),
        }
    }

    /// The earliest time at which an update can matter; `None` where none ever does, or where queued work has
    /// to run first.
    ///
    /// For schedutil two kinds of updates matter before: those with [`Update::iowait`], and the first after a
    /// CPU's [`Readings::deadline_bandwidth`] grew.
    pub fn due(&self) -> Option<Nanos> {
        match &self.0 {
            Kind::Ondemand(ondemand) => ondemand.sampling.due(),
            Kind::Conservative(conservative) => conservative.sampling.due(),
            Kind::Schedutil(schedutil) => Some(schedutil.due()),
            Kind::Performance | Kind::Powersave | Kind::Userspace(_) => None,
        }
    }

    /// What it wants before limits and table make a request of it, where it remembers that: schedutil's raw
    /// frequency, conservative's sum of steps. It may be zero, or above the highest.
    pub fn wanted(&self) -> Option<Hertz> {
        match &self.0 {
            Kind::Conservative(conservative) => Some(conservative.wanted()),
            Kind::Schedutil(schedutil) => Some(schedutil.wanted()),
            Kind::Ondemand(_) | Kind::Performance | Kind::Powersave | Kind::Userspace(_) => None,
        }
    }

    /// Its name in `scaling_governor`.
    pub fn name(&self) -> &'static str {
        match &self.0 {
            Kind::Ondemand(_) => ondemand::TUNABLES.governor,
            Kind::Conservative(_) => conservative::TUNABLES.governor,
            Kind::Schedutil(_) => schedutil::TUNABLES.governor,
            Kind::Performance => fixed::PERFORMANCE.governor,
            Kind::Powersave => fixed::POWERSAVE.governor,
            Kind::Userspace(_) => fixed::USERSPACE.governor,
        }
    }
}

fn queued(work: bool) -> Hook {
    if work { Hook::Work } else { Hook::Nothing }
}

/// Before the start there is nothing to read, and what is read is read again at the start.
struct Nothing;

impl Readings for Nothing {
    fn idle(&self, _: usize) -> Nanos {
        Nanos::ZERO
    }
    fn iowait(&self, _: usize) -> Nanos {
        Nanos::ZERO
    }
    fn nice(&self, _: usize) -> Nanos {
        Nanos::ZERO
    }
    fn utilisation(&self, _: usize) -> u64 {
        0
    }
    fn idle_calls(&self, _: usize) -> u64 {
        0
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dbs::tests::{Told, at_ms, laptop};

    fn new(name: &str, tunables: &[(&str, &str)]) -> Result<Governor, TunableError> {
        let tunables = tunables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Governor::new(name, &tunables, KernelVersion::new(6, 1, 192), 250, &laptop())
    }

    fn refused(name: &str, tunables: &[(&str, &str)]) -> String {
        new(name, tunables).unwrap_err().to_string()
    }

    #[test]
    fn tunables_read_as_they_were_written_and_else_as_the_kernel_begins() {
        for name in ["ondemand", "conservative", "schedutil"] {
            let begun = new(name, &[]).unwrap().tunables();
            let mut names: Vec<&str> = begun.keys().copied().collect();
            let mut known = match name {
                "ondemand" => crate::ondemand::TUNABLES.names,
                "conservative" => crate::conservative::TUNABLES.names,
                _ => crate::schedutil::TUNABLES.names,
            }
            .to_vec();
            names.sort_unstable();
            known.sort_unstable();
            assert_eq!(names, known);
            // What was read can be written, and changes nothing.
            let all: Vec<(&str, &str)> = begun.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(new(name, &all).unwrap().tunables(), begun);
        }
        assert_eq!(new("ondemand", &[]).unwrap().tunables()["up_threshold"], "95");
        assert_eq!(new("ondemand", &[("up_threshold", "40")]).unwrap().tunables()["up_threshold"], "40");
        assert_eq!(new("conservative", &[("freq_step", "9")]).unwrap().tunables()["freq_step"], "9");
        assert!(new("performance", &[]).unwrap().tunables().is_empty());
    }

    #[test]
    fn every_name_of_sysfs_makes_its_governor() {
        for name in NAMES {
            assert!(domain::cpufreq::GOVERNORS.iter().any(|known| known.name == name), "{name}");
            assert_eq!(new(name, &[]).unwrap().name(), name);
        }
        assert!(refused("interactive", &[]).starts_with("no governor `interactive` has a model"));
    }

    #[test]
    fn what_the_kernel_would_refuse_is_refused_by_name() {
        let cases = [
            (
                "ondemand",
                "up_threshold",
                "0",
                "`ondemand/up_threshold` cannot be `0`: it must be a whole number from 1 to 100",
            ),
            (
                "ondemand",
                "sampling_rate",
                "7999",
                "`ondemand/sampling_rate` cannot be `7999`: it must be a whole number of at least 8000",
            ),
            ("ondemand", "freq_step", "5", "governor `ondemand` has no tunable `freq_step`"),
            (
                "conservative",
                "sampling_down_factor",
                "11",
                "`conservative/sampling_down_factor` cannot be `11`",
            ),
            (
                "conservative",
                "down_threshold",
                "80",
                "`conservative/down_threshold` cannot be `80`: `down_threshold` (80) must be below `up_threshold` (80)",
            ),
            ("conservative", "up_threshold", "-1", "`conservative/up_threshold` cannot be `-1`"),
            (
                "schedutil",
                "rate_limit_us",
                "fast",
                "`schedutil/rate_limit_us` cannot be `fast`: it must be a whole number",
            ),
            (
                "performance",
                "up_threshold",
                "1",
                "governor `performance` has no tunable `up_threshold`; it has none",
            ),
        ];
        for (governor, name, value, expected) in cases {
            let error = refused(governor, &[(name, value)]);
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn what_the_kernel_lowers_is_lowered() {
        assert_eq!(
            new("ondemand", &[("powersave_bias", "5000")]),
            new("ondemand", &[("powersave_bias", "1000")])
        );
        assert_eq!(
            new("conservative", &[("freq_step", "101")]),
            new("conservative", &[("freq_step", "100")])
        );
        assert_eq!(new("ondemand", &[("io_is_busy", "7")]), new("ondemand", &[("io_is_busy", "1\n")]));
    }

    #[test]
    fn thresholds_that_bound_each_other_are_set_in_the_order_that_works() {
        new("conservative", &[("down_threshold", "85"), ("up_threshold", "95")]).unwrap();
        new("conservative", &[("down_threshold", "5"), ("up_threshold", "10")]).unwrap();
        assert!(new("conservative", &[("down_threshold", "95"), ("up_threshold", "85")]).is_err());
    }

    #[test]
    fn governors_that_decide_nothing_are_never_due() {
        let policy = laptop();
        for name in ["performance", "powersave", "userspace"] {
            let mut governor = new(name, &[]).unwrap();
            governor.start(Nanos::ZERO, &policy, &Told::idle_ms(0));
            assert_eq!(governor.due(), None);
            assert_eq!(governor.update(at_ms(5), &policy, &Told::idle_ms(0)), None);
        }
    }

    #[test]
    fn a_tunable_of_a_running_governor_is_set_and_samples_at_once() {
        let (mut governor, policy) = (new("ondemand", &[]).unwrap(), laptop());
        governor.start(Nanos::ZERO, &policy, &Told::idle_ms(0));
        governor.update(at_ms(10), &policy, &Told::idle_ms(0));
        assert_eq!(governor.due(), Some(Nanos::from_millis(20)));
        governor.set("sampling_rate", "40000", Nanos::from_millis(11), &Told::idle_ms(0)).unwrap();
        assert_eq!(governor.due(), Some(Nanos::from_millis(10)));
        governor.update(at_ms(12), &policy, &Told::idle_ms(0));
        assert_eq!(governor.due(), Some(Nanos::from_millis(52)));
    }
}
