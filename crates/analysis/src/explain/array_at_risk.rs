//! An array lacks a disk: whether that costs speed or not, the next failure may lose the data.
//!
//! Sources: `Documentation/admin-guide/md.rst` (`degraded`); md(4).

use super::Rule;
use crate::facts::arrays::{Array, of_machine};
use crate::facts::case::{Case, evidence};
use crate::words::counted;
use domain::finding::{Confidence, Finding, Remedy};
use std::collections::BTreeSet;

pub(super) const RULE: Rule = Rule {
    name: "array-at-risk",
    doc: "An array lacks a disk, so that the next failure may lose its data.",
    needs: "the array in the inventory, and that it did something in a trial",
    source: "Documentation/admin-guide/md.rst (`degraded`); md(4)",
    yields_to: &["degraded-array"],
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let (cells, mut told) = (case.cells(), BTreeSet::new());
    // An array that a study builds without a disk lacks it on purpose.
    let all = cells.iter().flat_map(|cell| of_machine(case, cell));
    let lacking = all.filter(|array| array.missing > 0 && told.insert(array.name.clone()));
    lacking.map(|array| finding(case, &array)).collect()
}

fn finding(case: &Case<'_>, array: &Array) -> Finding {
    let (name, missing) = (&array.name, array.missing);
    let all = array.members.len() + missing as usize;
    Finding {
        rule: RULE.name,
        title: format!("{name} lacks {missing} of {}: the next failure may lose its data", counted(all, "disk")),
        reason: "The array survives fewer failures than it is made for. That it costs speed was not seen in these trials.".into(),
        evidence: vec![evidence("missing members", format!("{missing} of {all}"), array.source.clone())],
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(Remedy {
            what: format!(
                "replace the disk soon: `mdadm --manage /dev/{name} --add /dev/DISK`; the array is slower until it is rebuilt"
            ),
            settings: vec![],
            undo: format!(
                "`mdadm --manage /dev/{name} --fail /dev/DISK --remove /dev/DISK`, which leaves the array as it is now"
            ),
        }),
        next: case.next_look(),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::summary::RunData;
    use domain::inventory::{Inventory, Md};

    fn machine(degraded: u32) -> Inventory {
        let md = Md { level: Some("raid10".into()), degraded: Some(degraded), ..Md::default() };
        with_array(md, true, &["sda", "sdb", "sdc"])
    }

    fn reads(of: &str) -> RunData {
        let mut data = fio_run(&["rw=randread bs=4k", "rw=read bs=1m"], |cell, block| {
            vec![("throughput", about(4e5, cell, block))]
        });
        with_work(&mut data, &[(of, 100, 409_600, 0, 0, 10)]);
        data
    }

    #[test]
    fn an_array_that_lacks_a_disk_is_told_once_however_little_it_has_to_do() {
        let found = findings(RULE, &reads("md0"), Some(&machine(1)), None);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].title, "md0 lacks 1 of 4 disks: the next failure may lose its data");
        assert!(found[0].remedy.as_ref().unwrap().what.contains("--manage /dev/md0 --add"));
    }

    #[test]
    fn a_whole_array_another_one_and_an_unknown_machine_are_no_finding() {
        assert!(findings(RULE, &reads("md0"), Some(&machine(0)), None).is_empty());
        assert!(findings(RULE, &reads("sdz"), Some(&machine(1)), None).is_empty(), "it did nothing");
        assert!(findings(RULE, &reads("md0"), None, None).is_empty());
    }

    #[test]
    fn a_study_that_builds_an_array_without_a_disk_wants_it_so() {
        let without = ("array", &[("kind", "md"), ("on", "disks"), ("level", "5"), ("missing", "1")][..]);
        let levels = [("64KiB", 1e6), ("512KiB", 1e6)];
        let mut data = storage_run(&[FOUR_DISKS, without], "array.chunk", &levels);
        with_environment(&mut data, &[("devices", "md0 > sda > sdb > sdc")]);
        with_work(&mut data, &[("md0", 100, 409_600, 0, 0, 10)]);
        assert!(findings(RULE, &data, None, None).is_empty());
    }
}
