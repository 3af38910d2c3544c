//! Mount options, among them the commit interval, where a study varied them.
//!
//! Sources: ext4(5) (`commit`, `barrier`), xfs(5); fs/jbd2/journal.c (`kjournald2`: a commit at the latest
//! after the interval).

use super::Rule;
use super::varied_setting::{self, NO_SETTING, Words};
use crate::facts::case::Case;
use domain::finding::Finding;

pub(super) const RULE: Rule = Rule {
    name: "mount-options",
    doc: "A mount option, such as the commit interval, makes a measured difference.",
    needs: "cells that differ in the mount options alone",
    source: "ext4(5) (`commit`, `barrier`), xfs(5); fs/jbd2/journal.c (`kjournald2`)",
    yields_to: &[],
    run,
};

const WORDS: Words = Words {
    rule: "mount-options",
    is_about: NO_SETTING,
    keys: &["mount"],
    what: "how the filesystem is mounted",
    reason: |_, _| REASON.to_owned(),
    by_hand: (
        "a longer commit interval loses more of what was not synced at a power cut, and without barriers what was synced may be \
lost too; where that is acceptable, mount with its options (mount(8), fstab(5))",
        "mount with the options that were in force before",
    ),
};

const REASON: &str = "The journal commits at the latest after its interval, and each commit writes and flushes. Options decide as \
well which times of files are written, and whether free blocks are told to the device at once.";

fn run(case: &Case<'_>) -> Vec<Finding> {
    varied_setting::findings(case, &WORDS)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::summary::RunData;

    fn mounted(path: &str, levels: &[(&str, f64)]) -> RunData {
        let disk: Table<'_> = ("disk", &[("kind", "devices"), ("count", "1"), ("loop", "256MiB")]);
        let files: Table<'_> = ("files", &[("kind", "filesystem"), ("on", "disk"), ("type", "ext4")]);
        storage_run(&[disk, files], path, levels)
    }

    #[test]
    fn a_commit_interval_that_was_varied_is_shown_and_the_risk_is_said_first() {
        let data = mounted("files.mount", &[("commit=1", 1e8), ("commit=30", 1.3e8)]);
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert!(
            found.title.contains("commit=30 gives 1.30 times the throughput of commit=1"),
            "{}",
            found.title
        );
        let remedy = found.remedy.unwrap();
        assert!(remedy.settings.is_empty());
        assert!(
            remedy.what.starts_with("choose `commit=30`: a longer commit interval loses more"),
            "{}",
            remedy.what
        );
    }

    #[test]
    fn equal_options_and_another_key_are_no_finding() {
        let same = mounted("files.mount", &[("commit=1", 1e8), ("commit=30", 1e8)]);
        assert!(findings(RULE, &same, None, None).is_empty());
        let other = mounted("files.data", &[("journal", 1e8), ("ordered", 1.8e8)]);
        assert!(findings(RULE, &other, None, None).is_empty());
    }

    #[test]
    fn options_that_were_not_varied_are_no_evidence() {
        let data = fio_run(&["rw=write"], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        assert!(findings(RULE, &data, Some(&bare_machine()), None).is_empty());
    }
}
