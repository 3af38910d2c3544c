//! Limits of the CPU's frequency, turbo, and what else the processor is told, where a study varied them.
//!
//! Sources: `Documentation/admin-guide/pm/cpufreq.rst`, `intel_pstate.rst`, `intel_epb.rst`,
//! `amd-pstate.rst`.

use super::Rule;
use super::varied_setting::{self, NO_KEYS, NOTHING_BY_HAND, Words};
use crate::facts::case::Case;
use domain::finding::Finding;

pub(super) const RULE: Rule = Rule {
    name: "frequency-limit",
    doc: "A limit of the CPU's frequency, turbo or the processor's own bias makes a measured difference.",
    needs: "cells that differ in such a setting alone",
    source: "Documentation/admin-guide/pm/cpufreq.rst, intel_pstate.rst, intel_epb.rst, amd-pstate.rst",
    yields_to: &[],
    run,
};

pub(super) const WORDS: Words = Words {
    rule: "frequency-limit",
    is_about: |name| LIMITS.contains(&name),
    keys: NO_KEYS,
    what: "what the processor may choose",
    reason: |_, _| REASON.to_owned(),
    by_hand: NOTHING_BY_HAND,
};

const LIMITS: &[&str] = &[
    "turbo",
    "max_freq",
    "min_freq",
    "setspeed",
    "max_perf_pct",
    "min_perf_pct",
    "energy_efficiency",
    "hwp_dynamic_boost",
    "epb",
];

const REASON: &str = "Work of the CPU on the path of each request (submission, checksums, encryption, parity, completion) takes \
longer at a lower frequency. A lower limit saves energy and heat; a higher one costs both.";

fn run(case: &Case<'_>) -> Vec<Finding> {
    varied_setting::findings(case, &WORDS)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn turbo_that_was_varied_and_decides_is_shown() {
        let data =
            setting_run("turbo", &["off", "on"], |level, block| about([1e8, 1.3e8][level], level, block));
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert!(found.title.contains("on gives 1.30 times the throughput of off"), "{}", found.title);
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "turbo = on");
    }

    #[test]
    fn equal_levels_and_the_governor_are_no_finding_of_this_rule() {
        let same = setting_run("turbo", &["off", "on"], |level, block| about(1e8, level, block));
        assert!(findings(RULE, &same, None, None).is_empty());
        let other = setting_run("governor", &["ondemand", "performance"], |l, b| about([1e8, 2e8][l], l, b));
        assert!(findings(RULE, &other, None, None).is_empty());
    }

    #[test]
    fn a_limit_that_was_not_varied_is_no_evidence() {
        let data = fio_run(&["rw=read"], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        assert!(findings(RULE, &data, Some(&watched("ondemand")), None).is_empty());
    }

    #[test]
    fn a_cap_whose_cost_was_measured_is_not_called_unmeasured() {
        use domain::inventory::Policy;
        use domain::units::Hertz;
        let data = setting_run("max_freq", &["2000000", "3500000"], |level, block| about(1e8, level, block));
        let mhz = |mhz| Some(Hertz::from_mhz(mhz));
        let machine = machine_with(Policy { max: mhz(2000), hardware_max: mhz(3500), ..Policy::default() });
        assert!(findings(super::super::frequency_capped::RULE, &data, Some(&machine), None).is_empty());
    }
}
