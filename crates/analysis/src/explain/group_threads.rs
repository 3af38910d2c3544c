//! Threads that work on the stripes of RAID 4, 5 and 6, where a study varied their number.
//!
//! Source: `Documentation/admin-guide/md.rst`; drivers/md/raid5.c (`raid5_store_group_thread_cnt`,
//! `raid5_do_work`).

use super::Rule;
use super::varied_setting::{self, Words};
use crate::facts::case::Case;
use domain::finding::Finding;

pub(super) const RULE: Rule = Rule {
    name: "group-threads",
    doc: "The number of threads that work on an array's stripes makes a measured difference.",
    needs: "cells that differ in `group_thread_cnt` alone",
    source: "drivers/md/raid5.c (`raid5_store_group_thread_cnt`, `raid5_do_work`)",
    yields_to: &[],
    run,
};

pub(super) const WORDS: Words = Words {
    rule: "group-threads",
    is_about: |name| name == "group_thread_cnt",
    keys: &["group_thread_cnt"],
    what: "the number of an array's worker threads",
    reason: |_, _| REASON.to_owned(),
    by_hand: ("set `group_thread_cnt` where the array is assembled", "set it to its value before"),
};

const REASON: &str = "Without worker threads one thread of the array computes all parity, on one core at a time. Workers spread \
the stripes over cores. They also pass stripes from core to core, and take the array's lock in turns, which costs where one \
core is enough.";

fn run(case: &Case<'_>) -> Vec<Finding> {
    varied_setting::findings(case, &WORDS)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn threads_that_were_varied_and_help_are_shown() {
        let levels = [("0", 1e8), ("4", 1.8e8)];
        let data = storage_run(&[FOUR_DISKS, RAID5], "array.group_thread_cnt", &levels);
        let found = findings(RULE, &data, None, None);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].title.contains("4 gives 1.80 times"), "{}", found[0].title);
        let remedy = found[0].remedy.as_ref().unwrap();
        assert!(remedy.what.starts_with("choose `4`") && remedy.settings.is_empty(), "{remedy:?}");
        assert!(found[0].gain.is_some());
    }

    #[test]
    fn equal_numbers_or_another_key_are_no_finding() {
        let same = [("0", 1e8), ("4", 1e8)];
        assert!(
            findings(RULE, &storage_run(&[FOUR_DISKS, RAID5], "array.group_thread_cnt", &same), None, None)
                .is_empty()
        );
        let chunks = [("64KiB", 1e8), ("512KiB", 2e8)];
        assert!(
            findings(RULE, &storage_run(&[FOUR_DISKS, RAID5], "array.chunk", &chunks), None, None).is_empty()
        );
    }

    #[test]
    fn a_level_that_changes_more_than_that_is_not_compared() {
        let mut data =
            storage_run(&[FOUR_DISKS, RAID5], "array.group_thread_cnt", &[("0", 1e8), ("4", 1.8e8)]);
        data.study.factors[0].levels[1].stack.insert("array.chunk".into(), "64KiB".into());
        assert!(findings(RULE, &data, None, None).is_empty());
    }
}
