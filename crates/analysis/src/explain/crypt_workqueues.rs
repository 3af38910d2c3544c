//! dm-crypt's work queues: each request passes to another thread and back. Shown where a study varied them;
//! possible where single requests to flash pass them.
//!
//! Source: `Documentation/admin-guide/device-mapper/dm-crypt.rst` (`no_read_workqueue`,
//! `no_write_workqueue`); drivers/md/dm-crypt.c (`kcryptd_queue_crypt`, `dmcrypt_write`).

use super::Rule;
use super::varied_setting::{self, NO_SETTING, Words};
use crate::facts::arrays::{Encrypted, encrypted};
use crate::facts::case::{Case, CaseCell, evidence};
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::BlockDevice;
use domain::outcome::Better;
use domain::units::Unit;

pub(super) const RULE: Rule = Rule {
    name: "crypt-workqueues",
    doc: "Single requests wait for dm-crypt's work queues on their way to flash.",
    needs: "cells that differ in dm-crypt's queues alone; else dm-crypt's table and disks in the inventory, and the latency of single requests",
    source: "Documentation/admin-guide/device-mapper/dm-crypt.rst (`no_read_workqueue`); drivers/md/dm-crypt.c (`kcryptd_queue_crypt`)",
    yields_to: &["one-thread-at-limit"],
    run,
};

const REASON: &str = "dm-crypt hands each request to a worker, and each write from there to a thread that sorts. That spreads large \
work over cores and helps spinning disks. A single request to flash waits for one or two more threads to wake up.";

const BY_HAND: (&str, &str) = (
    "`cryptsetup refresh --perf-no_read_workqueue --perf-no_write_workqueue NAME`, and measure with large requests as well, \
which may become slower",
    "`cryptsetup refresh NAME` without these flags",
);

pub(super) const WORDS: Words = Words {
    rule: "crypt-workqueues",
    is_about: NO_SETTING,
    keys: &["no_read_workqueue", "no_write_workqueue", "same_cpu", "submit_from_crypt"],
    what: "dm-crypt's work queues",
    reason: |_, _| REASON.to_owned(),
    by_hand: BY_HAND,
};

/// To wake up a thread on another CPU takes some ten microseconds; a request that takes longer than this
/// loses less than a tenth by one or two of them.
const MAX_LATENCY_S: f64 = 200e-6;

fn run(case: &Case<'_>) -> Vec<Finding> {
    if varied_setting::is_varied(case, &WORDS) {
        return varied_setting::findings(case, &WORDS);
    }
    let cells = case.cells();
    let found = cells.iter().find_map(|cell| {
        let latency = cell.metric("latency_p50").or_else(|| cell.metric("latency_mean"))?;
        let is_single = cell.profile().depth == Some(1) && cell.profile().is_direct();
        let queued = encrypted(case, cell).into_iter().find(is_queued_to_flash)?;
        let is_paced = cell.keeps_its_pace() && case.summary.better == Better::Higher;
        (is_single && !is_paced && latency > 0.0 && latency <= MAX_LATENCY_S)
            .then(|| finding(case, cell, &queued, latency))
    });
    found.into_iter().collect()
}

fn is_queued_to_flash(it: &Encrypted<'_>) -> bool {
    let is_flash =
        |disk: &&BlockDevice| disk.queue.as_ref().and_then(|queue| queue.rotational) == Some(false);
    let passes_by =
        |flag: &String| flag.starts_with("no_read_workqueue") || flag.starts_with("no_write_workqueue");
    !it.disks.is_empty() && it.disks.iter().all(is_flash) && !it.crypt.flags.iter().any(passes_by)
}

fn finding(case: &Case<'_>, cell: &CaseCell<'_>, it: &Encrypted<'_>, latency: f64) -> Finding {
    let device = &it.device.name;
    let latency = Unit::Seconds.show(latency);
    let (what, undo) = BY_HAND;
    Finding {
        rule: RULE.name,
        title: format!(
            "each request of {} passes the work queues of {device}, and takes {latency}; the part of the queues was not measured",
            cell.named()
        ),
        reason: REASON.into(),
        evidence: vec![
            evidence("flags of dm-crypt, none against its queues", it.crypt.flags.join(" "), "dmsetup table"),
            evidence("latency of a request at depth 1", latency, cell.source()),
        ],
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(Remedy {
            what: what.replace("NAME", it.name),
            settings: vec![],
            undo: undo.replace("NAME", it.name),
        }),
        next: case.show_again(),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use domain::trace::Role;

    fn of(depth: &str, latency: f64, rotational: bool, flags: &[&str]) -> Vec<Finding> {
        let mut data =
            fio_run(&[&with_depth(depth)], move |_, _| vec![("throughput", 4e7), ("latency_p50", latency)]);
        with_work(&mut data, &[("dm-0", 9000, 36_864_000, 0, 0, 900), ("sda", 9000, 36_864_000, 0, 0, 900)]);
        with_thread(&mut data, "kworker/u8:1-kcryptd", Role::Crypt, 100);
        findings(RULE, &data, Some(&with_crypt(rotational, "aes-xts-plain64", 4096, flags)), Some("dm-0"))
    }

    #[test]
    fn single_requests_that_pass_the_queues_to_flash_are_found() {
        let found = of("1", 110e-6, false, &["allow_discards"]).swap_remove(0);
        assert!(
            found.title.starts_with("each request of w0 passes the work queues of dm-0, and takes 110 µs")
        );
        assert!(found.remedy.unwrap().what.contains("no_write_workqueue secret`"));
    }

    #[test]
    fn deep_queues_slow_disks_and_queues_that_are_off_are_no_finding() {
        assert!(of("32", 110e-6, false, &[]).is_empty());
        assert!(of("1", 450e-6, false, &[]).is_empty(), "two threads are a twentieth of it");
        assert!(of("1", 8e-3, false, &[]).is_empty());
        assert!(of("1", 110e-6, true, &[]).is_empty());
        assert!(of("1", 110e-6, false, &["no_read_workqueue", "no_write_workqueue"]).is_empty());
    }

    #[test]
    fn a_load_that_has_the_rate_it_asks_for_is_none_the_faster_past_the_queues() {
        let of = |rate: u32| {
            let options = format!("{} rate_iops={rate}", with_depth("1"));
            let mut data = fio_run(&[&options], |_, _| {
                vec![("throughput", 8e4), ("iops", 20.0), ("latency_p50", 110e-6)]
            });
            with_work(&mut data, &[("dm-0", 20, 81_920, 0, 0, 3), ("sda", 20, 81_920, 0, 0, 3)]);
            with_thread(&mut data, "kworker/u8:1-kcryptd", Role::Crypt, 1);
            let machine = with_crypt(false, "aes-xts-plain64", 4096, &[]);
            findings(RULE, &data, Some(&machine), Some("dm-0")).len()
        };
        assert_eq!([of(20), of(40)], [0, 1]);
    }

    #[test]
    fn an_unknown_mapping_is_no_evidence() {
        let data = fio_run(&[&with_depth("1")], |_, _| vec![("throughput", 4e7), ("latency_p50", 1e-4)]);
        assert!(findings(RULE, &data, None, Some("dm-0")).is_empty());
        assert!(findings(RULE, &data, Some(&with_crypt(false, "aes", 512, &[])), Some("dm-0")).is_empty());
    }

    #[test]
    fn queues_that_were_varied_are_shown() {
        let disk: Table<'_> = ("disk", &[("kind", "devices"), ("count", "1"), ("loop", "256MiB")]);
        let crypt: Table<'_> = ("crypt", &[("kind", "crypt"), ("on", "disk")]);
        let data = storage_run(&[disk, crypt], "crypt.no_read_workqueue", &[("false", 1e8), ("true", 1.2e8)]);
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert_eq!(found.confidence, Confidence::Shown);
        assert!(found.title.contains("true gives 1.20 times"), "{}", found.title);
    }
}
