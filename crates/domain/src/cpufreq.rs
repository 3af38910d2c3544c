//! The governors of cpufreq, as far as more than their models has to know them: one row a governor.
//!
//! Source: the kernel's `drivers/cpufreq/Kconfig`, `drivers/cpufreq/cpufreq_ondemand.c` and its neighbours,
//! `kernel/sched/cpufreq_schedutil.c`.

/// What is known of a governor without running it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GovernorFacts {
    /// Its name in `scaling_governor`.
    pub name: &'static str,
    /// The kernel module that has it where it is not built in; `None` where it always is.
    pub module: Option<&'static str>,
    /// The tunables that a kernel may show in a folder of its name (`ondemand/up_threshold`), in any version
    /// and also where Android's kernels alone do; empty where it has no such folder.
    pub tunables: &'static [&'static str],
    /// The tunable that is a span of time, in µs.
    pub timer: Option<&'static str>,
}

/// What ondemand and conservative share (`cpufreq_governor.h`), and what kernels before 4.7 had besides.
macro_rules! with_dbs {
    ($($own:literal),*) => {
        &["sampling_rate", "sampling_rate_min", "up_threshold", "sampling_down_factor", "ignore_nice_load", $($own),*]
    };
}

const ONDEMAND: &[&str] = with_dbs!["io_is_busy", "powersave_bias"];
const CONSERVATIVE: &[&str] = with_dbs!["down_threshold", "freq_step"];
const SCHEDUTIL: &[&str] = &[
    "rate_limit_us",
    // Of Android's kernels.
    "down_rate_limit_us",
    "hispeed_freq",
    "hispeed_load",
    "iowait_boost_enable",
    "pl",
    "up_rate_limit_us",
];
const INTERACTIVE: &[&str] = &[
    "above_hispeed_delay",
    "align_windows",
    "boost",
    "boostpulse",
    "boostpulse_duration",
    "go_hispeed_load",
    "hispeed_freq",
    "io_is_busy",
    "max_freq_hysteresis",
    "min_sample_time",
    "target_loads",
    "timer_rate",
    "timer_slack",
    "use_migration_notif",
    "use_sched_load",
];

/// All of them.
pub const GOVERNORS: &[GovernorFacts] = &[
    governor("ondemand", Some("cpufreq_ondemand"), ONDEMAND, Some("sampling_rate")),
    governor("conservative", Some("cpufreq_conservative"), CONSERVATIVE, Some("sampling_rate")),
    governor("schedutil", None, SCHEDUTIL, Some("rate_limit_us")),
    governor("performance", None, &[], None),
    governor("powersave", Some("cpufreq_powersave"), &[], None),
    governor("userspace", Some("cpufreq_userspace"), &[], None),
    // Of Android's kernels.
    governor("interactive", None, INTERACTIVE, None),
];

const fn governor(
    name: &'static str,
    module: Option<&'static str>,
    tunables: &'static [&'static str],
    timer: Option<&'static str>,
) -> GovernorFacts {
    GovernorFacts { name, module, tunables, timer }
}

/// The tunables that a governor of this name may have; none where it has none, or is not known.
pub fn tunables(name: &str) -> &'static [&'static str] {
    GOVERNORS.iter().find(|governor| governor.name == name).map_or(&[], |governor| governor.tunables)
}

/// Whether a governor of this name has tunables.
pub fn has_tunables(name: &str) -> bool {
    !tunables(name).is_empty()
}

/// Whether a governor has a tunable of this name that is a span of time.
pub fn is_timer(tunable: &str) -> bool {
    GOVERNORS.iter().any(|governor| governor.timer == Some(tunable))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_governor_is_there_once_and_a_timer_is_a_tunable() {
        let names: BTreeSet<&str> = GOVERNORS.iter().map(|governor| governor.name).collect();
        assert_eq!(names.len(), GOVERNORS.len());
        let has_its_timer =
            |governor: &GovernorFacts| governor.timer.is_none_or(|timer| governor.tunables.contains(&timer));
        assert!(GOVERNORS.iter().all(has_its_timer));
    }
}
