//! The I/O scheduler of the device, where a study varied it.
//!
//! Source: `Documentation/block/switching-sched.rst`, `bfq-iosched.rst`.

use super::Rule;
use super::varied_setting::{self, NO_KEYS, NOTHING_BY_HAND, Words};
use crate::facts::case::Case;
use domain::finding::Finding;

pub(super) const RULE: Rule = Rule {
    name: "scheduler",
    doc: "The device's I/O scheduler makes a measured difference.",
    needs: "cells that differ in the scheduler alone",
    source: "Documentation/block/switching-sched.rst, bfq-iosched.rst",
    yields_to: &[],
    run,
};

const WORDS: Words = Words {
    rule: "scheduler",
    is_about: |name| name == "scheduler",
    keys: NO_KEYS,
    what: "the I/O scheduler",
    reason: |_, _| REASON.to_owned(),
    by_hand: NOTHING_BY_HAND,
};

const REASON: &str = "A scheduler sorts and holds back requests. On spinning disks that saves seeks; on devices that serve many \
requests at once it costs CPU time and a lock on the path of each request, and fairness costs idle waits.";

fn run(case: &Case<'_>) -> Vec<Finding> {
    varied_setting::findings(case, &WORDS)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{about, findings, fio_run, setting_run};
    use super::*;

    #[test]
    fn a_scheduler_that_costs_throughput_is_shown_and_the_better_one_kept() {
        let data = setting_run("scheduler", &["none", "bfq"], |level, block| {
            about([1e8, 0.7e8][level], level, block)
        });
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "scheduler = none");
        assert_eq!(found.gain, None);
    }

    #[test]
    fn equal_schedulers_are_no_finding() {
        let data = setting_run("scheduler", &["none", "bfq"], |level, block| about(1e8, level, block));
        assert!(findings(RULE, &data, None, None).is_empty());
    }

    #[test]
    fn a_scheduler_that_was_not_varied_is_no_finding() {
        let data = fio_run(&["rw=read"], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        assert!(findings(RULE, &data, None, None).is_empty());
    }
}
