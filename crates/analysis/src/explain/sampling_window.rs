//! A governor's sampling window holds many short requests with waits between, so that its load never reaches
//! the threshold.
//!
//! Sources: drivers/cpufreq/cpufreq_governor.c (`dbs_update`: the load of a window), cpufreq_ondemand.c and
//! cpufreq_conservative.c (`load > up_threshold`).

use super::Rule;
use super::next_step::{UNTUNE, tune_command};
use crate::facts::case::{Case, evidence};
use crate::facts::cpu_share;
use crate::facts::waits::{Single, governor, singles, tunable, unvaried};
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::Cpufreq;
use domain::setting::{SettingName, SettingRequest};
use domain::time::Nanos;

pub(super) const RULE: Rule = Rule {
    name: "sampling-window",
    doc: "A governor's sampling window averages many short requests, so that the load stays below its threshold.",
    needs: "the governor's `sampling_rate` and `up_threshold` in the inventory; latency and CPU time of cells with one request in flight",
    source: "drivers/cpufreq/cpufreq_governor.c (`dbs_update`), cpufreq_ondemand.c, cpufreq_conservative.c",
    // CPUs that have no time left, or are known to be slow, are what decides.
    yields_to: &["governor-stays-low", "io-is-busy", "cpu-at-limit", "low-frequency"],
    run,
};

/// Less CPU time than this is no part of a request that counts.
const MIN_CORES: f64 = 0.2;

/// A window of fewer requests may hold a burst alone.
const MIN_REQUESTS: f64 = 10.0;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let Some(cpufreq) = unvaried(case) else { return Vec::new() };
    let cells = case.cells();
    let found =
        singles(case, &cells).into_iter().filter_map(|single| Some((Window::of(cpufreq, &single)?, single)));
    let busiest = found.max_by(|(_, a), (_, b)| a.cores.total_cmp(&b.cores));
    let busiest = busiest.filter(|_| !cpu_share::waits_for_disks_alone(case));
    busiest.map(|(window, single)| finding(&single, &window)).into_iter().collect()
}

/// What a governor goes by.
struct Window {
    governor: &'static str,
    length: Nanos,
    length_path: String,
    threshold: u32,
    threshold_path: String,
}

impl Window {
    /// Of a cell whose load stays below the threshold in each window.
    fn of(cpufreq: &Cpufreq, single: &Single<'_, '_>) -> Option<Self> {
        let name = governor(single.cell, cpufreq)?;
        let governor = ["ondemand", "conservative"].into_iter().find(|known| *known == name)?;
        // ondemand may count a wait in the call as load; libaio waits in none that the kernel counts so.
        if governor == "ondemand" && single.cell.option(&["ioengine"]) != Some("libaio") {
            return None;
        }
        let (length, length_path) = tunable(cpufreq, governor, "sampling_rate")?;
        let (threshold, threshold_path) = tunable(cpufreq, governor, "up_threshold")?;
        let length = Nanos::from_micros(length.parse().ok()?);
        let threshold: u32 = threshold.parse().ok()?;
        let holds_many = length.secs() >= MIN_REQUESTS * single.latency;
        let is_below = (MIN_CORES..f64::from(threshold) / 100.0).contains(&single.cores);
        let can_go_lower = governor == "ondemand" || lower_threshold(single.cores) >= LOWEST_OF_CONSERVATIVE;
        (holds_many && is_below && can_go_lower).then_some(Self {
            governor,
            length,
            length_path,
            threshold,
            threshold_path,
        })
    }
}

/// conservative goes down below 20 (`down_threshold`), and refuses an upper threshold at or below that.
const LOWEST_OF_CONSERVATIVE: u32 = 25;

/// A fifth below the load that was measured, so that each window is above it.
fn lower_threshold(cores: f64) -> u32 {
    (cores * 80.0) as u32
}

fn finding(single: &Single<'_, '_>, window: &Window) -> Finding {
    let Window { governor, length, length_path, threshold, threshold_path } = window;
    let setting = SettingRequest {
        setting: SettingName::parse(&format!("{governor}.up_threshold")),
        value: lower_threshold(single.cores).to_string(),
    };
    let mut figures = single.figures();
    figures.push(evidence("sampling window", length.to_string(), length_path.clone()));
    figures.push(evidence("up_threshold, percent of it", threshold.to_string(), threshold_path.clone()));
    Finding {
        rule: RULE.name,
        title: format!(
            "{governor} sees a load of {} at most in windows of {length}, and goes up above {threshold}%; what that costs was not measured",
            percent(single.cores)
        ),
        reason: "The CPU works for each request and waits for the device after it. A window holds many of both, and its load is \
their average. It stays below the threshold, although each request waits for the CPU's part of it."
            .into(),
        evidence: figures,
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(Remedy {
            what: "let the governor go up at the load that it sees, and measure what it gains and costs in energy".into(),
            settings: vec![setting.clone()],
            undo: UNTUNE.into(),
        }),
        next: tune_command(&setting),
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

    fn machine(governor: &str, window_us: &str) -> Inventory {
        with_tunables(governor, &[("sampling_rate", window_us), ("up_threshold", "95")])
    }

    fn reads(options: &str, latency: f64, used_ms: u64) -> RunData {
        let mut data = fio_run(&[options], move |_, _| vec![("throughput", 2e7), ("latency_mean", latency)]);
        with_thread(&mut data, "fio", Role::Workload, used_ms);
        data
    }

    #[test]
    fn a_load_that_no_window_can_exceed_is_found() {
        let machine = machine("ondemand", "10000");
        let found = findings(RULE, &reads(&with_depth("1"), 2e-4, 410), Some(&machine), None).swap_remove(0);
        assert!(
            found.title.starts_with(
                "ondemand sees a load of 41% at most in windows of 10 ms, and goes up above 95%"
            ),
            "{}",
            found.title
        );
        assert_eq!(found.confidence, Confidence::Likely);
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "ondemand.up_threshold = 32");
    }

    #[test]
    fn conservative_is_judged_whatever_the_engine_is() {
        let data = reads("rw=randread bs=4k direct=1 iodepth=1", 2e-4, 410);
        assert_eq!(findings(RULE, &data, Some(&machine("conservative", "10000")), None).len(), 1);
        assert!(findings(RULE, &data, Some(&machine("ondemand", "10000")), None).is_empty());
    }

    #[test]
    fn short_windows_full_load_and_next_to_none_are_no_finding() {
        let one = with_depth("1");
        let of = |latency, used_ms, window| {
            findings(RULE, &reads(&one, latency, used_ms), Some(&machine("ondemand", window)), None).len()
        };
        assert_eq!(of(2e-4, 410, "1000"), 0);
        assert_eq!(of(2e-4, 970, "10000"), 0);
        assert_eq!(of(8e-3, 410, "10000"), 0);
        assert_eq!(of(2e-4, 30, "10000"), 0);
        // Below its lower threshold conservative cannot be told to go up.
        let little = reads(&one, 2e-4, 250);
        assert!(findings(RULE, &little, Some(&machine("conservative", "10000")), None).is_empty());
    }

    #[test]
    fn without_the_window_or_cpu_time_nothing_is_said() {
        let data = reads(&with_depth("1"), 2e-4, 410);
        assert!(
            findings(RULE, &data, Some(&with_tunables("ondemand", &[("up_threshold", "95")])), None)
                .is_empty()
        );
        let unknown = fio_run(&[&with_depth("1")], |_, _| vec![("throughput", 2e7), ("latency_mean", 2e-4)]);
        assert!(findings(RULE, &unknown, Some(&machine("ondemand", "10000")), None).is_empty());
    }
}
