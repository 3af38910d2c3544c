//! Which settings and drivers decide the frequency.

use super::case::Case;
use domain::inventory::Policy;
use domain::units::Hertz;

/// The highest frequency that a policy can choose: the highest that its driver has within the limit in force,
/// and without turbo no more than the guaranteed one. A limit may lie between two frequencies of a table.
///
/// Sources: drivers/cpufreq/freq_table.c (`cpufreq_frequency_table_target`);
/// `Documentation/admin-guide/pm/intel_pstate.rst` (`no_turbo`, `base_frequency`).
pub(crate) fn highest(case: &Case<'_>, policy: &Policy) -> Option<Hertz> {
    let limit = policy.max.or(policy.hardware_max)?;
    let intel = case.inventory.and_then(|inventory| inventory.cpufreq.as_ref()?.intel_pstate.as_ref());
    let has_turbo = intel.and_then(|intel| intel.no_turbo) != Some(true);
    let limit = policy.base.filter(|_| !has_turbo).map_or(limit, |base| base.min(limit));
    Some(policy.available.iter().copied().filter(|at| *at <= limit).max().unwrap_or(limit))
}

/// Governors that sample load and choose by it, with their tunables below their own name.
const SAMPLING: &[&str] = &["ondemand", "conservative", "schedutil", "interactive"];

/// Settings that choose the frequency: the governor with its tunables, and the energy preference.
pub(crate) fn is_frequency_policy(name: &str) -> bool {
    let is_tunable = |governor: &&str| name.strip_prefix(*governor).is_some_and(|rest| rest.starts_with('.'));
    name == "governor" || name == "epp" || SAMPLING.iter().any(is_tunable)
}

/// Drivers whose `powersave` is an algorithm and no frequency: `intel_pstate.rst` (active mode),
/// `amd-pstate.rst`.
pub(crate) const CHOOSING_DRIVERS: &[&str] = &["intel_pstate", "amd-pstate-epp"];
