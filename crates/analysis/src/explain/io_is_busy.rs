//! ondemand does not count waiting for I/O as load, and the workload waits for each of its requests.
//!
//! Sources: drivers/cpufreq/cpufreq_governor.c (`dbs_update`: `io_busy`), cpufreq_ondemand.c
//! (`should_io_be_busy`); `Documentation/admin-guide/pm/cpufreq.rst` (`io_is_busy`).

use super::Rule;
use super::next_step::{UNTUNE, tune_command};
use crate::facts::case::{Case, evidence};
use crate::facts::cpu_share;
use crate::facts::waits::{Single, governor, singles, tunable, unvaried, waits_in_the_call};
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::setting::{SettingName, SettingRequest};

pub(super) const RULE: Rule = Rule {
    name: "io-is-busy",
    doc: "ondemand does not count waiting for I/O as load, although the workload waits for each request.",
    needs: "ondemand's `io_is_busy` in the inventory; latency and CPU time of cells with one request in flight",
    source: "drivers/cpufreq/cpufreq_governor.c (`dbs_update`), cpufreq_ondemand.c (`should_io_be_busy`)",
    // CPUs that have no time left, or are known to be slow, are what decides.
    yields_to: &["governor-stays-low", "cpu-at-limit", "low-frequency"],
    run,
};

/// Less CPU time than this is no part of a request that counts.
pub(super) const MIN_CORES: f64 = 0.1;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let Some(cpufreq) = unvaried(case) else { return Vec::new() };
    let Some((value, path)) = tunable(cpufreq, "ondemand", "io_is_busy") else { return Vec::new() };
    let (threshold, threshold_path) = tunable(cpufreq, "ondemand", "up_threshold").unwrap_or_default();
    // Without the threshold in force nothing says what load would be enough.
    let Ok(percent) = threshold.parse::<f64>() else { return Vec::new() };
    let cells = case.cells();
    let below = singles(case, &cells).into_iter().filter(|single| {
        let is_ruled = governor(single.cell, cpufreq) == Some("ondemand") && waits_in_the_call(single.cell);
        is_ruled && single.cores >= MIN_CORES && single.cores <= percent / 100.0
    });
    let busiest = below.max_by(|a, b| a.cores.total_cmp(&b.cores)).filter(|_| value == "0");
    let busiest = busiest.filter(|_| !cpu_share::waits_for_disks_alone(case));
    busiest.map(|single| finding(&single, (percent, threshold_path), path)).into_iter().collect()
}

fn finding(single: &Single<'_, '_>, (threshold, threshold_path): (f64, String), path: String) -> Finding {
    let counted = SettingRequest { setting: SettingName::parse("ondemand.io_is_busy"), value: "1".into() };
    let mut figures = single.figures();
    figures.push(evidence("io_is_busy", "0", path));
    figures.push(evidence(
        "up_threshold, percent of a sampling window",
        threshold.to_string(),
        threshold_path,
    ));
    Finding {
        rule: RULE.name,
        title: format!(
            "ondemand sees a load of {} at most in {}: waiting for I/O does not count; what that costs was not measured",
            percent(single.cores),
            single.cell.named()
        ),
        reason: "A CPU that waits for a request is idle for ondemand while `io_is_busy` is 0. The load stays below the threshold, \
and the CPU's part of each request runs at a lower frequency. With 1 the wait counts as load, and the frequency goes up \
for as long as somebody waits."
            .into(),
        evidence: figures,
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(Remedy {
            what: "count waiting for I/O as load, and measure what it gains and costs in energy".into(),
            settings: vec![counted.clone()],
            undo: UNTUNE.into(),
        }),
        next: tune_command(&counted),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::summary::RunData;
    use domain::inventory::Inventory;
    use domain::trace::Role;

    pub fn machine(io_is_busy: &str) -> Inventory {
        with_tunables("ondemand", &[("io_is_busy", io_is_busy), ("up_threshold", "95")])
    }

    fn reads(options: &str, used_ms: u64) -> RunData {
        let mut data = fio_run(&[options], |_, _| vec![("throughput", 2e7), ("latency_p50", 2e-4)]);
        with_thread(&mut data, "fio", Role::Workload, used_ms);
        data
    }

    const SINGLE: &str = "rw=randread bs=4k direct=1 iodepth=1";

    #[test]
    fn waits_that_do_not_count_are_found_with_the_load_that_is_seen() {
        let found = findings(RULE, &reads(SINGLE, 350), Some(&machine("0")), None).swap_remove(0);
        assert!(found.title.starts_with("ondemand sees a load of 35% at most in w0"), "{}", found.title);
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "ondemand.io_is_busy = 1");
    }

    #[test]
    fn counted_waits_deep_queues_full_load_and_next_to_none_are_no_finding() {
        assert!(findings(RULE, &reads(SINGLE, 350), Some(&machine("1")), None).is_empty());
        assert!(findings(RULE, &reads(&with_depth("32"), 350), Some(&machine("0")), None).is_empty());
        assert!(findings(RULE, &reads(SINGLE, 980), Some(&machine("0")), None).is_empty());
        assert!(findings(RULE, &reads(SINGLE, 20), Some(&machine("0")), None).is_empty());
        let rests = format!("{SINGLE} thinktime=1000");
        assert!(findings(RULE, &reads(&rests, 350), Some(&machine("0")), None).is_empty());
    }

    #[test]
    fn another_governor_in_the_trials_is_no_evidence() {
        let mut data = reads(SINGLE, 350);
        with_environment(&mut data, &[("governor", "performance")]);
        assert!(findings(RULE, &data, Some(&machine("0")), None).is_empty());
        assert!(findings(RULE, &reads(SINGLE, 350), None, None).is_empty());
        let unknown = with_tunables("ondemand", &[("up_threshold", "95")]);
        assert!(findings(RULE, &reads(SINGLE, 350), Some(&unknown), None).is_empty());
    }
}
