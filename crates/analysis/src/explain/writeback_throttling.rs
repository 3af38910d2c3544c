//! Writeback throttling of the block layer, where a study varied its latency.
//!
//! Source: `Documentation/ABI/stable/sysfs-block` (`wbt_lat_usec`); block/blk-wbt.c.

use super::Rule;
use super::varied_setting::{self, NO_KEYS, NOTHING_BY_HAND, Words};
use crate::facts::case::Case;
use domain::finding::Finding;

pub(super) const RULE: Rule = Rule {
    name: "writeback-throttling",
    doc: "The block layer's throttling of writeback makes a measured difference.",
    needs: "cells that differ in `wbt_lat_usec` alone",
    source: "Documentation/ABI/stable/sysfs-block (`wbt_lat_usec`); block/blk-wbt.c",
    yields_to: &[],
    run,
};

const WORDS: Words = Words {
    rule: "writeback-throttling",
    is_about: |name| name == "wbt_lat_usec",
    keys: NO_KEYS,
    what: "throttling of writeback",
    reason: |_, _| REASON.to_owned(),
    by_hand: NOTHING_BY_HAND,
};

const REASON: &str = "The kernel lets fewer writes of its writeback into a device's queue where reads take longer than \
`wbt_lat_usec`. That keeps reads fast beside large writes, and makes the writes slower.";

fn run(case: &Case<'_>) -> Vec<Finding> {
    varied_setting::findings(case, &WORDS)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn throttling_that_was_varied_and_costs_is_shown() {
        let data = setting_run("wbt_lat_usec", &["75000", "0"], |level, block| {
            about([1e8, 1.4e8][level], level, block)
        });
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert!(found.title.contains("0 gives 1.40 times the throughput of 75000"), "{}", found.title);
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "wbt_lat_usec = 0");
    }

    #[test]
    fn equal_levels_and_other_settings_are_no_finding() {
        let same = setting_run("wbt_lat_usec", &["75000", "0"], |level, block| about(1e8, level, block));
        assert!(findings(RULE, &same, None, None).is_empty());
        let other =
            setting_run("nr_requests", &["32", "256"], |level, block| about([1e8, 2e8][level], level, block));
        assert!(findings(RULE, &other, None, None).is_empty());
    }

    #[test]
    fn throttling_that_was_not_varied_is_no_evidence() {
        let data = fio_run(&["rw=write"], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        assert!(findings(RULE, &data, Some(&bare_machine()), Some("vda")).is_empty());
    }
}
