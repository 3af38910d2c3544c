//! The highest frequency is not allowed: a policy limit, turbo switched off, a cap in percent, or the
//! firmware.
//!
//! Sources: `Documentation/admin-guide/pm/cpufreq.rst` (`scaling_max_freq`, `bios_limit`, `boost`) and
//! `intel_pstate.rst` (`no_turbo`, `max_perf_pct`).

use super::Rule;
use super::case::{Case, UNTUNE, evidence, tune_command};
use super::cpu_share::{self, Bound};
use super::{frequency_limit, varied_setting};
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::{Cpufreq, Policy};
use domain::setting::{SettingName, SettingRequest};
use domain::units::{Hertz, Ratio};

pub(super) const RULE: Rule = Rule {
    name: "frequency-capped",
    doc: "The CPUs are not allowed to run at their highest frequency.",
    needs: "cpufreq in the inventory; where they were recorded, the CPU time of a load and its requests in flight",
    source: "Documentation/admin-guide/pm/cpufreq.rst (`scaling_max_freq`, `bios_limit`, `boost`), intel_pstate.rst (`no_turbo`, `max_perf_pct`)",
    yields_to: &[],
    run,
};

/// A limit within a hundredth of the highest frequency is rounding, not a cap.
const ROUNDING: f64 = 0.99;

/// A cap that is in force.
struct Cap {
    title: String,
    figure: String,
    path: String,
    /// What lifts it; `None` for what only the firmware can change.
    lift: Option<SettingRequest>,
    /// How many times as high the highest frequency is without it; `None` where that is not known.
    faster: Option<f64>,
}

fn run(case: &Case<'_>) -> Vec<Finding> {
    // Where a study varied such a limit, what it costs was measured.
    let is_measured = varied_setting::is_varied(case, &frequency_limit::WORDS);
    let cpufreq = case.inventory.and_then(|inventory| inventory.cpufreq.as_ref());
    let Some(cpufreq) = cpufreq.filter(|_| !is_measured) else { return Vec::new() };
    caps(cpufreq).into_iter().filter_map(|cap| finding(case, cap)).collect()
}

fn caps(cpufreq: &Cpufreq) -> Vec<Cap> {
    let pstate = "/sys/devices/system/cpu/intel_pstate";
    let intel = cpufreq.intel_pstate.as_ref();
    let limited = cpufreq.policies.iter().filter_map(policy_limit).min_by_key(|(limit, _)| *limit);
    let by_firmware = cpufreq.policies.iter().filter_map(firmware_limit).min_by_key(|(limit, _)| *limit);
    let turbo_off = intel.and_then(|i| i.no_turbo) == Some(true);
    let boost_off = cpufreq.boost == Some(false) || cpufreq.policies.iter().any(|p| p.boost == Some(false));
    let percent = intel.and_then(|i| i.max_perf).map(Ratio::get).filter(|share| *share < ROUNDING);
    let turbo = cpufreq.policies.iter().find_map(|p| Some(times(p.hardware_max?, p.base?)));
    let mut caps = Vec::new();
    caps.extend(limited.map(|(limit, policy)| Cap {
        title: format!("the CPUs may run at {limit} at most"),
        figure: of_hardware(limit, policy),
        path: format!("/sys/devices/system/cpu/cpufreq/policy{}/scaling_max_freq", policy.id),
        lift: Some(request("max_freq", "max")),
        faster: policy.highest_request().map(|most| times(most, limit)),
    }));
    caps.extend(turbo_off.then(|| Cap {
        title: "turbo frequencies are switched off".into(),
        figure: "no_turbo = 1".into(),
        path: format!("{pstate}/no_turbo"),
        lift: Some(request("turbo", "on")),
        faster: turbo,
    }));
    caps.extend((boost_off && !turbo_off).then(|| Cap {
        title: "frequencies above the base are switched off".into(),
        figure: "boost = 0".into(),
        path: "/sys/devices/system/cpu/cpufreq/boost".into(),
        lift: Some(request("turbo", "on")),
        faster: turbo,
    }));
    caps.extend(percent.map(|share| Cap {
        title: format!("the CPUs may use {:.0}% of their performance at most", share * 100.0),
        figure: format!("max_perf_pct = {:.0}", share * 100.0),
        path: format!("{pstate}/max_perf_pct"),
        lift: Some(request("max_perf_pct", "100")),
        faster: Some(1.0 / share),
    }));
    caps.extend(by_firmware.map(|(limit, policy)| Cap {
        title: format!("the firmware allows {limit} at most"),
        figure: of_hardware(limit, policy),
        path: format!("/sys/devices/system/cpu/cpufreq/policy{}/bios_limit", policy.id),
        lift: None,
        faster: policy.base.or(policy.hardware_max).map(|full| times(full, limit)),
    }));
    caps
}

fn policy_limit(policy: &Policy) -> Option<(Hertz, &Policy)> {
    let capped = (policy.max?.hz() as f64) < policy.highest_request()?.hz() as f64 * ROUNDING;
    // With boost off, a limit at the base frequency is the consequence of that, and said there.
    let of_boost = policy.boost == Some(false) && policy.max == policy.base;
    Some((policy.max?, policy)).filter(|_| capped && !of_boost)
}

fn firmware_limit(policy: &Policy) -> Option<(Hertz, &Policy)> {
    let limit = policy.bios_limit?;
    // The frequency tables of ACPI name no turbo frequency: a limit at the base is none.
    let full = policy.base.or(policy.hardware_max)?;
    ((limit.hz() as f64) < full.hz() as f64 * ROUNDING).then_some((limit, policy))
}

fn request(name: &str, value: &str) -> SettingRequest {
    SettingRequest { setting: SettingName::parse(name), value: value.into() }
}

fn of_hardware(limit: Hertz, policy: &Policy) -> String {
    policy.hardware_max.map_or(limit.to_string(), |most| format!("{limit} of {most}"))
}

fn times(full: Hertz, limit: Hertz) -> f64 {
    full.hz() as f64 / (limit.hz() as f64).max(1.0)
}

/// `None` where the load would gain nothing by it.
fn finding(case: &Case<'_>, cap: Cap) -> Option<Finding> {
    let Cap { title, figure, path, lift, faster } = cap;
    let (bound, further) = match faster.map_or(Bound::Unknown, |faster| cpu_share::bound(case, faster)) {
        Bound::Nothing => return None,
        Bound::AtMost { times, figures } => (Some(times), figures),
        Bound::Unknown => (None, Vec::new()),
    };
    let remedy = lift.as_ref().map(|request| Remedy {
        what: "lift the cap, and measure whether the workload gains".into(),
        settings: vec![request.clone()],
        undo: UNTUNE.into(),
    });
    Some(Finding {
        rule: RULE.name,
        title: format!("{title}; what that costs was not measured here"),
        reason: "Work of the CPU on the path of each request (submission, checksums, encryption, parity, completion) takes \
longer in proportion; a workload that waits for the device alone does not notice."
            .into(),
        evidence: [evidence("limit in force", figure, path.clone())].into_iter().chain(further).collect(),
        confidence: Confidence::Possible,
        gain: bound.and_then(|times| cpu_share::expected(case, times)),
        next: match &lift {
            Some(request) => tune_command(request),
            None => "sudo dmidecode -t bios".into(),
        },
        remedy,
        compared: vec![],
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{about, bare_machine, findings, fio_run, machine_with};
    use super::*;
    use domain::inventory::{IntelPstate, Inventory};

    fn titles(machine: Option<&Inventory>) -> Vec<String> {
        let data = fio_run(&["rw=read"], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        findings(RULE, &data, machine, None).into_iter().map(|f| f.title).collect()
    }

    fn policy(max_mhz: u64) -> Policy {
        let mhz = |mhz| Some(Hertz::from_mhz(mhz));
        Policy { max: mhz(max_mhz), hardware_max: mhz(3500), ..Policy::default() }
    }

    #[test]
    fn a_policy_limit_is_found_with_its_figure() {
        assert_eq!(
            titles(Some(&machine_with(policy(2000)))),
            ["the CPUs may run at 2.00 GHz at most; what that costs was not measured here"]
        );
    }

    #[test]
    fn no_turbo_and_a_percentage_are_each_found() {
        let mut machine = machine_with(policy(3500));
        machine.cpufreq.as_mut().unwrap().intel_pstate = Some(IntelPstate {
            status: Some("active".into()),
            no_turbo: Some(true),
            hwp_dynamic_boost: None,
            min_perf: None,
            max_perf: Ratio::new(0.6),
            hwp: Some(true),
        });
        let titles = titles(Some(&machine));
        assert_eq!(titles.len(), 2);
        assert!(titles[1].starts_with("the CPUs may use 60%"), "{titles:?}");
    }

    #[test]
    fn a_firmware_limit_has_no_remedy_among_the_settings() {
        let limited = Policy { bios_limit: Some(Hertz::from_mhz(1200)), ..policy(3500) };
        let data = fio_run(&["rw=read"], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        let found = findings(RULE, &data, Some(&machine_with(limited)), None);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].remedy, None);
    }

    #[test]
    fn full_speed_or_an_unknown_machine_is_no_finding() {
        assert!(titles(Some(&machine_with(policy(3490)))).is_empty());
        assert!(titles(Some(&machine_with(Policy::default()))).is_empty());
        assert!(titles(Some(&bare_machine())).is_empty());
        assert!(titles(None).is_empty());
    }
}
