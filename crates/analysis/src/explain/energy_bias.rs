//! The energy performance bias leans to saving, on a processor that has no energy preference of its own.
//!
//! Sources: `Documentation/admin-guide/pm/intel_epb.rst`; arch/x86/kernel/cpu/intel_epb.c
//! (`ENERGY_PERF_BIAS_BALANCE_POWERSAVE` is 8).

use super::Rule;
use super::frequency_limit;
use super::next_step::{UNTUNE, tune_command};
use super::varied_setting;
use crate::facts::case::{Case, evidence};
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::inventory::Policy;
use domain::outcome::CPU_BUSY;
use domain::setting::{SettingName, SettingRequest};
use domain::units::Unit;

pub(super) const RULE: Rule = Rule {
    name: "energy-bias",
    doc: "The processor's energy performance bias leans to saving energy while CPUs are busy.",
    needs: "the bias of the CPUs in the inventory; how busy the CPUs were in trials",
    source: "Documentation/admin-guide/pm/intel_epb.rst; arch/x86/kernel/cpu/intel_epb.c",
    yields_to: &["frequency-limit"],
    run,
};

/// From this bias on the kernel's own words are `balance-power` and `power`.
const SAVING: u8 = 8;

/// CPUs that are less busy have nothing to lose by it.
const MIN_BUSY: f64 = 0.2;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let policies = case.inventory.and_then(|inventory| inventory.cpufreq.as_ref()).map(|all| &all.policies);
    let is_varied = varied_setting::is_varied(case, &frequency_limit::WORDS);
    let saving = policies.into_iter().flatten().find(|policy| !is_varied && is_saving(policy));
    saving.and_then(|policy| Some(finding(policy, busiest(case)?))).into_iter().collect()
}

/// Where there is an energy preference (EPP), the processor goes by that.
fn is_saving(policy: &Policy) -> bool {
    policy.epp.is_none() && !policy.epb.is_empty() && policy.epb.iter().all(|bias| *bias >= SAVING)
}

/// The cell, or the recording, in which the CPUs were busiest.
fn busiest(case: &Case<'_>) -> Option<Evidence> {
    let cells = case.cells();
    let shares = cells.iter().filter_map(|cell| Some((cell.metric(CPU_BUSY)?, cell.source())));
    let recorded = case.worst_usage(|usage| usage.machine.map(|cpu| cpu.busy()));
    let all = shares.chain(recorded.map(|(source, _, share)| (share, source)));
    let (share, source) =
        all.max_by(|(a, _), (b, _)| a.total_cmp(b)).filter(|(share, _)| *share >= MIN_BUSY)?;
    Some(evidence("time in which the CPUs were busy, mean", Unit::Share.show(share), source))
}

fn finding(policy: &Policy, busy: Evidence) -> Finding {
    let bias = policy.epb.iter().max().copied().unwrap_or(SAVING);
    let cpu = policy.cpus.first().unwrap_or(policy.id);
    let fast = SettingRequest { setting: SettingName::parse("epb"), value: "0".into() };
    Finding {
        rule: RULE.name,
        title: format!("the processor's energy performance bias is {bias} of 15, which leans to saving; what that costs was not measured"),
        reason: "The bias tells the processor's own power management how to weigh speed against energy: 0 is for speed, 15 for \
saving. A processor without an energy preference goes by it when it chooses turbo frequencies and idle states."
            .into(),
        evidence: vec![
            evidence("energy_perf_bias", bias.to_string(), format!("/sys/devices/system/cpu/cpu{cpu}/power/energy_perf_bias")),
            busy,
        ],
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(Remedy {
            what: "set it to 0, and measure what it gains and costs in energy".into(),
            settings: vec![fast.clone()],
            undo: UNTUNE.into(),
        }),
        next: tune_command(&fast),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::facts::usage::{CpuUsage, Usage};
    use domain::inventory::Inventory;

    fn machine(epb: &[u8], epp: Option<&str>) -> Inventory {
        machine_with(Policy { epb: epb.to_vec(), epp: epp.map(str::to_owned), ..Policy::default() })
    }

    fn busy(share: f64, machine: Option<&Inventory>) -> Vec<Finding> {
        let usage =
            Usage { machine: Some(CpuUsage { user: share, ..CpuUsage::default() }), ..Usage::default() };
        findings_of_usage(RULE, &usage, machine)
    }

    #[test]
    fn a_saving_bias_of_busy_cpus_is_found() {
        let found = busy(0.6, Some(&machine(&[15], None))).swap_remove(0);
        assert!(found.title.contains("bias is 15 of 15"), "{}", found.title);
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "epb = 0");
    }

    #[test]
    fn the_usual_bias_an_energy_preference_and_idle_cpus_are_no_finding() {
        assert!(busy(0.6, Some(&machine(&[6], None))).is_empty());
        assert!(busy(0.6, Some(&machine(&[0, 15], None))).is_empty());
        assert!(busy(0.6, Some(&machine(&[15], Some("balance_performance")))).is_empty());
        assert!(busy(0.01, Some(&machine(&[15], None))).is_empty());
    }

    #[test]
    fn without_the_bias_or_the_cpus_nothing_is_said() {
        assert!(busy(0.6, Some(&machine(&[], None))).is_empty());
        assert!(busy(0.6, None).is_empty());
        assert!(findings_of_usage(RULE, &Usage::default(), Some(&machine(&[15], None))).is_empty());
    }
}
