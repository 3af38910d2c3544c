//! Idle states, their governor, and the limit of how long a CPU may take to wake up, where a study varied
//! them.
//!
//! Sources: `Documentation/admin-guide/pm/cpuidle.rst`; `Documentation/power/pm_qos_interface.rst`
//! (`/dev/cpu_dma_latency`).

use super::Rule;
use super::varied_setting::{self, NO_KEYS, NOTHING_BY_HAND, Words};
use crate::facts::case::Case;
use domain::finding::Finding;
use domain::setting::CPU_DMA_LATENCY;

pub(super) const RULE: Rule = Rule {
    name: "idle-policy",
    doc: "Which idle states CPUs may enter makes a measured difference.",
    needs: "cells that differ in idle states, their governor or `cpu_dma_latency` alone",
    source: "Documentation/admin-guide/pm/cpuidle.rst; Documentation/power/pm_qos_interface.rst",
    yields_to: &[],
    run,
};

pub(super) const WORDS: Words = Words {
    rule: "idle-policy",
    is_about: is_idle_policy,
    keys: NO_KEYS,
    what: "which idle states CPUs enter",
    reason: |_, _| REASON.to_owned(),
    by_hand: NOTHING_BY_HAND,
};

fn is_idle_policy(name: &str) -> bool {
    name == CPU_DMA_LATENCY
        || name == "idle_governor"
        || (name.starts_with("idle.") && name.ends_with(".disable"))
}

const REASON: &str = "A CPU that waits for a request enters an idle state, and has to leave it before the completion is handled. \
Deeper states save more energy and take longer to leave. Shallower ones cost energy for as long as a CPU waits, and leave \
less of the power budget to CPUs that work.";

fn run(case: &Case<'_>) -> Vec<Finding> {
    varied_setting::findings(case, &WORDS)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn a_limit_that_was_varied_and_helps_is_shown() {
        for (setting, values) in [
            ("cpu_dma_latency", ["none", "20us"]),
            ("idle.C6.disable", ["0", "1"]),
            ("idle_governor", ["menu", "teo"]),
        ] {
            let data = setting_run(setting, &values, |level, block| about([1e8, 1.5e8][level], level, block));
            let found = findings(RULE, &data, None, None).swap_remove(0);
            assert_eq!(found.remedy.unwrap().settings[0].to_string(), format!("{setting} = {}", values[1]));
        }
    }

    #[test]
    fn equal_levels_and_other_settings_are_no_finding() {
        let same = setting_run("idle.C6.disable", &["0", "1"], |level, block| about(1e8, level, block));
        assert!(findings(RULE, &same, None, None).is_empty());
        let other =
            setting_run("turbo", &["off", "on"], |level, block| about([1e8, 2e8][level], level, block));
        assert!(findings(RULE, &other, None, None).is_empty());
    }

    #[test]
    fn states_that_were_not_varied_are_no_evidence() {
        let data = fio_run(&["rw=read"], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        assert!(findings(RULE, &data, Some(&bare_machine()), None).is_empty());
    }
}
