//! An array lacks a disk: whether that costs speed or not, the next failure may lose the data.
//!
//! Sources: `Documentation/admin-guide/md.rst` (`degraded`); md(4).

use super::Rule;
use super::arrays::{Array, arrays};
use super::case::{Case, evidence};
use crate::words::counted;
use domain::finding::{Confidence, Finding, Remedy};
use std::collections::BTreeSet;

pub(super) const RULE: Rule = Rule {
    name: "array-at-risk",
    doc: "An array lacks a disk, so that the next failure may lose its data.",
    needs: "the array in the inventory or in the study",
    source: "Documentation/admin-guide/md.rst (`degraded`); md(4)",
    yields_to: &["degraded-array"],
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let (cells, mut told) = (case.cells(), BTreeSet::new());
    let all = cells.iter().flat_map(|cell| arrays(case, cell));
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
