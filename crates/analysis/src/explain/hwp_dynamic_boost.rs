//! The processor chooses its frequency by itself, and is not told that somebody waits for I/O.
//!
//! Sources: `Documentation/admin-guide/pm/intel_pstate.rst` (`hwp_dynamic_boost`);
//! drivers/cpufreq/intel_pstate.c (`intel_pstate_update_util_hwp`).

use super::Rule;
use super::frequency_limit;
use super::io_is_busy::MIN_CORES;
use super::next_step::{UNTUNE, tune_command};
use super::varied_setting;
use crate::facts::case::{Case, evidence};
use crate::facts::waits::{Single, singles, unvaried, waits_in_the_call};
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::{Cpufreq, Policy};
use domain::setting::{SettingName, SettingRequest};

pub(super) const RULE: Rule = Rule {
    name: "hwp-dynamic-boost",
    doc: "The processor chooses its frequency itself, and the kernel does not raise it after waits for I/O.",
    needs: "`hwp_dynamic_boost` and the policies in the inventory; latency and CPU time of cells with one request in flight",
    source: "Documentation/admin-guide/pm/intel_pstate.rst (`hwp_dynamic_boost`); drivers/cpufreq/intel_pstate.c (`intel_pstate_update_util_hwp`)",
    yields_to: &[],
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let is_varied = varied_setting::is_varied(case, &frequency_limit::WORDS);
    let Some(cpufreq) = unvaried(case).filter(|cpufreq| !is_varied && is_untold(cpufreq)) else {
        return Vec::new();
    };
    let cells = case.cells();
    let waiting = singles(case, &cells).into_iter();
    let waiting = waiting.filter(|single| waits_in_the_call(single.cell) && single.cores >= MIN_CORES);
    let busiest = waiting.max_by(|a, b| a.cores.total_cmp(&b.cores));
    busiest.map(|single| finding(&single, cpufreq)).into_iter().collect()
}

/// Whether the hardware chooses between frequencies, and nothing raises its least one for I/O.
fn is_untold(cpufreq: &Cpufreq) -> bool {
    let Some(intel) = &cpufreq.intel_pstate else { return false };
    let is_held_high = |policy: &Policy| {
        policy.governor.as_deref() == Some("performance") || policy.epp.as_deref() == Some("performance")
    };
    let chooses = intel.status.as_deref() == Some("active") && intel.hwp == Some(true);
    chooses && intel.hwp_dynamic_boost == Some(false) && !cpufreq.policies.iter().all(is_held_high)
}

fn finding(single: &Single<'_, '_>, cpufreq: &Cpufreq) -> Finding {
    let boost = SettingRequest { setting: SettingName::parse("hwp_dynamic_boost"), value: "1".into() };
    let mut figures = single.figures();
    let path = "/sys/devices/system/cpu/intel_pstate/hwp_dynamic_boost";
    figures.push(evidence("hwp_dynamic_boost", "0", path));
    let epp = cpufreq.policies.first().and_then(|policy| policy.epp.clone());
    figures.extend(epp.map(|epp| evidence("energy preference", epp, "/sys/devices/system/cpu/cpufreq")));
    Finding {
        rule: RULE.name,
        title: format!(
            "the processor is not told that {} waits for I/O (hwp_dynamic_boost is off); what that costs was not measured",
            single.cell.named()
        ),
        reason: "With hardware-managed P-states the processor goes by how busy a CPU was, and a CPU between two requests looks \
idle. With the boost the kernel raises the least frequency of a CPU for a while where a task on it comes back from waiting \
for I/O."
            .into(),
        evidence: figures,
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(Remedy {
            what: "switch the boost on, and measure what it gains and costs in energy".into(),
            settings: vec![boost.clone()],
            undo: UNTUNE.into(),
        }),
        next: tune_command(&boost),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::summary::RunData;
    use domain::inventory::{IntelPstate, Inventory};
    use domain::trace::Role;

    fn machine(boost: Option<bool>, epp: &str, status: &str) -> Inventory {
        let policy =
            Policy { governor: Some("powersave".into()), epp: Some(epp.into()), ..Policy::default() };
        let mut machine = machine_with(policy);
        machine.cpufreq.as_mut().unwrap().intel_pstate = Some(IntelPstate {
            status: Some(status.into()),
            no_turbo: Some(false),
            hwp_dynamic_boost: boost,
            min_perf: None,
            max_perf: None,
            hwp: Some(true),
        });
        machine
    }

    fn reads(used_ms: u64) -> RunData {
        let options = "rw=randread bs=4k direct=1 iodepth=1";
        let mut data = fio_run(&[options], |_, _| vec![("throughput", 2e7), ("latency_p50", 2e-4)]);
        with_thread(&mut data, "fio", Role::Workload, used_ms);
        data
    }

    #[test]
    fn a_boost_that_is_off_while_single_requests_wait_is_found() {
        let machine = machine(Some(false), "balance_performance", "active");
        let found = findings(RULE, &reads(350), Some(&machine), None).swap_remove(0);
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "hwp_dynamic_boost = 1");
        assert_eq!(found.confidence, Confidence::Possible);
    }

    #[test]
    fn a_boost_that_is_on_a_high_preference_passive_mode_and_no_cpu_work_are_no_finding() {
        let of = |boost, epp, status, used| {
            findings(RULE, &reads(used), Some(&machine(boost, epp, status)), None).len()
        };
        assert_eq!(of(Some(true), "balance_performance", "active", 350), 0);
        assert_eq!(of(Some(false), "performance", "active", 350), 0);
        assert_eq!(of(Some(false), "balance_performance", "passive", 350), 0);
        assert_eq!(of(Some(false), "balance_performance", "active", 10), 0);
    }

    #[test]
    fn a_processor_without_the_switch_is_no_evidence() {
        assert!(findings(RULE, &reads(350), Some(&machine(None, "power", "active")), None).is_empty());
        assert!(findings(RULE, &reads(350), None, None).is_empty());
    }

    #[test]
    fn writes_that_wait_for_room_in_flash_wait_for_no_frequency() {
        let of = |mean: f64| {
            let options = "rw=randwrite bs=128k direct=1 iodepth=1";
            let mut data = fio_run(&[options], |_, _| vec![("latency_p50", 55e-6), ("latency_mean", mean)]);
            with_thread(&mut data, "fio", Role::Workload, 350);
            with_work(&mut data, &[("sda", 0, 0, 7000, 900 << 20, 810)]);
            let mut machine = machine(Some(false), "balance_performance", "active");
            machine.devices = on_disk(false).devices;
            findings(RULE, &data, Some(&machine), Some("sda")).len()
        };
        assert_eq!([of(60e-6), of(127e-6)], [1, 0]);
    }
}
