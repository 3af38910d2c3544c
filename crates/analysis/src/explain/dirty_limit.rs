//! Writers were slowed down since too much data waited to be written: shown where a study varied the limits;
//! likely where a recording's trace had the pages above the point from which the kernel makes writers wait.
//!
//! Sources: mm/page-writeback.c (`balance_dirty_pages`, `dirty_freerun_ceiling`: half way between the
//! background threshold and the threshold); `Documentation/admin-guide/sysctl/vm.rst`.

use super::Rule;
use super::next_step::{UNTUNE, tune_command};
use super::varied_setting::{self, NO_KEYS, NOTHING_BY_HAND, Words};
use crate::facts::case::{Case, evidence};
use crate::facts::usage::Usage;
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::setting::{SettingName, SettingRequest};
use domain::units::Unit;

pub(super) const RULE: Rule = Rule {
    name: "dirty-limit",
    doc: "So much data waits to be written that the kernel slows writers down to the device's rate.",
    needs: "cells that differ in `vm.dirty_*` alone; else a recording's trace: dirty pages and disks",
    source: "mm/page-writeback.c (`balance_dirty_pages`, `dirty_freerun_ceiling`); Documentation/admin-guide/sysctl/vm.rst",
    yields_to: &[],
    run,
};

const REASON: &str = "A write to a file ends when the page cache has it. Where more than half way from the background threshold to \
the threshold waits to be written, the kernel makes each writer sleep, so that it is as fast as the device. A higher limit \
only moves that point: what is written goes to the device all the same.";

/// Said first.
const RISK: &str =
    "data that waits to be written is lost at a power cut, and a higher limit means more of it";

const WORDS: Words = Words {
    rule: "dirty-limit",
    is_about: |name| name.starts_with("vm.dirty_"),
    keys: NO_KEYS,
    what: "the limit of data that waits to be written",
    reason: |_, _| REASON.to_owned(),
    by_hand: NOTHING_BY_HAND,
};

/// A share of the time below this is a burst.
const MIN_SLOWED: f64 = 0.2;

/// The disks have to be what is waited for.
const MIN_BUSY: f64 = 0.7;

fn run(case: &Case<'_>) -> Vec<Finding> {
    if varied_setting::is_varied(case, &WORDS) {
        return varied_setting::findings(case, &WORDS).into_iter().map(left_to_a_person).collect();
    }
    let worst = case.worst_usage(|usage| usage.unwritten.map(|unwritten| unwritten.slowed));
    let found = worst.filter(|(_, usage, slowed)| *slowed >= MIN_SLOWED && busiest(usage) >= MIN_BUSY);
    found.map(|(source, usage, slowed)| finding(case, &source, usage, slowed)).into_iter().collect()
}

/// What may lose data is never written by this program.
fn left_to_a_person(mut finding: Finding) -> Finding {
    if let Some(remedy) = finding.remedy.as_mut().filter(|remedy| !remedy.settings.is_empty()) {
        let values: Vec<String> = remedy.settings.drain(..).map(|setting| format!("`{setting}`")).collect();
        remedy.what = format!("{RISK}; {}: {}", remedy.what, values.join(", "));
        "the value before, with sysctl(8)".clone_into(&mut remedy.undo);
    }
    finding
}

fn busiest(usage: &Usage) -> f64 {
    usage.disks.iter().map(|disk| disk.busy).fold(0.0, f64::max)
}

fn finding(case: &Case<'_>, source: &str, usage: &Usage, slowed: f64) -> Finding {
    let most = usage.unwritten.map_or(0.0, |unwritten| unwritten.most);
    let mut figures = vec![
        evidence("samples in which writers were slowed down", percent(slowed), source),
        evidence("the most that waited, as a share of the limit", percent(most), source),
    ];
    figures.extend(usage.disks.first().map(|disk| {
        let figure = format!("{}, busy {}", Unit::BytesPerSecond.show(disk.write.bytes), percent(disk.busy));
        evidence(format!("written to {}", disk.device), figure, source)
    }));
    let earlier = begin_earlier(case);
    Finding {
        rule: RULE.name,
        title: format!(
            "writers were slowed down in {} of the time: too much data waits to be written",
            percent(slowed)
        ),
        reason: REASON.into(),
        evidence: figures,
        confidence: Confidence::Likely,
        gain: None,
        next: earlier.as_ref().map_or_else(|| case.next_look(), tune_command),
        remedy: Some(Remedy {
            what: format!(
                "{RISK}, so none is proposed; write less, or to a faster device{}",
                if earlier.is_some() {
                    "; a lower background limit begins to write earlier, which helps bursts"
                } else {
                    ""
                }
            ),
            undo: if earlier.is_some() { UNTUNE } else { "nothing was changed" }.into(),
            settings: earlier.into_iter().collect(),
        }),
        compared: vec![],
    }
}

/// Half of the background limit in force: the kernel then begins to write earlier, and nothing is less safe.
fn begin_earlier(case: &Case<'_>) -> Option<SettingRequest> {
    let name = "vm.dirty_background_ratio";
    // Zero stands for a limit in bytes.
    let percent: u32 =
        case.inventory?.kernel.sysctls.get(name)?.parse().ok().filter(|percent| *percent >= 2)?;
    Some(SettingRequest { setting: SettingName::parse(name), value: (percent / 2).to_string() })
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::facts::usage::{DiskUsage, Unwritten};

    fn usage(slowed: f64, busy: f64) -> Usage {
        let disk = DiskUsage { device: "sda".into(), busy, ..DiskUsage::default() };
        Usage { unwritten: Some(Unwritten { slowed, most: 0.97 }), disks: vec![disk], ..Usage::default() }
    }

    #[test]
    fn writers_that_wait_for_a_busy_disk_are_found_and_the_safe_change_is_named() {
        let mut machine = bare_machine();
        machine.kernel.sysctls.insert("vm.dirty_background_ratio".into(), "10".into());
        let found = findings_of_usage(RULE, &usage(0.6, 0.98), Some(&machine)).swap_remove(0);
        assert!(found.title.starts_with("writers were slowed down in 60% of the time"), "{}", found.title);
        let remedy = found.remedy.unwrap();
        assert!(remedy.what.starts_with("data that waits to be written is lost at a power cut"));
        assert_eq!(remedy.settings[0].to_string(), "vm.dirty_background_ratio = 5");
    }

    #[test]
    fn a_burst_or_an_idle_disk_is_no_finding() {
        assert!(findings_of_usage(RULE, &usage(0.05, 0.98), None).is_empty());
        assert!(findings_of_usage(RULE, &usage(0.6, 0.2), None).is_empty());
    }

    #[test]
    fn pages_that_were_not_sampled_are_no_evidence() {
        let unknown = Usage { unwritten: None, ..usage(0.6, 0.98) };
        assert!(findings_of_usage(RULE, &unknown, None).is_empty());
    }

    #[test]
    fn limits_that_were_varied_are_shown_and_left_to_a_person() {
        let data = setting_run("vm.dirty_ratio", &["5", "40"], |level, block| {
            about([1e8, 1.5e8][level], level, block)
        });
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert_eq!(found.confidence, Confidence::Shown);
        let remedy = found.remedy.unwrap();
        assert!(remedy.settings.is_empty() && remedy.what.contains("`vm.dirty_ratio = 40`"), "{remedy:?}");
    }
}
