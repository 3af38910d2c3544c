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
    /// Whether it has a folder of tunables of its name: `ondemand/up_threshold`.
    pub has_tunables: bool,
    /// The tunable that is a span of time, in µs.
    pub timer: Option<&'static str>,
}

/// All of them.
pub const GOVERNORS: &[GovernorFacts] = &[
    governor("ondemand", Some("cpufreq_ondemand"), true, Some("sampling_rate")),
    governor("conservative", Some("cpufreq_conservative"), true, Some("sampling_rate")),
    governor("schedutil", None, true, Some("rate_limit_us")),
    governor("performance", None, false, None),
    governor("powersave", Some("cpufreq_powersave"), false, None),
    governor("userspace", Some("cpufreq_userspace"), false, None),
    // Of Android's kernels.
    governor("interactive", None, true, None),
];

const fn governor(
    name: &'static str,
    module: Option<&'static str>,
    has_tunables: bool,
    timer: Option<&'static str>,
) -> GovernorFacts {
    GovernorFacts { name, module, has_tunables, timer }
}

/// Whether a governor of this name has tunables.
pub fn has_tunables(name: &str) -> bool {
    GOVERNORS.iter().any(|governor| governor.name == name && governor.has_tunables)
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
        assert!(GOVERNORS.iter().all(|governor| governor.timer.is_none() || governor.has_tunables));
    }
}
