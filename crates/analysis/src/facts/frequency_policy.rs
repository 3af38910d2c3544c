//! Which settings and drivers decide the frequency.

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
