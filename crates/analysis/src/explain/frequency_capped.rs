//! The highest frequency is not allowed: a policy limit, turbo switched off, a cap in percent, or the
//! firmware.
//!
//! Sources: `Documentation/admin-guide/pm/cpufreq.rst` (`scaling_max_freq`, `bios_limit`, `boost`) and
//! `intel_pstate.rst` (`no_turbo`, `max_perf_pct`).

use super::Rule;
use super::next_step::{UNTUNE, tune_command};
use super::{frequency_limit, varied_setting};
use crate::facts::case::{Case, evidence};
use crate::facts::cpu_share::{self, Bound};
use crate::facts::residency::PStates;
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::{Cpufreq, Policy};
use domain::setting::{SettingName, SettingRequest};
use domain::units::{Hertz, Ratio, significant};

pub(super) const RULE: Rule = Rule {
    name: "frequency-capped",
    doc: "The CPUs are not allowed to run at their highest frequency.",
    needs: "cpufreq in the inventory; where they were recorded, time at each frequency, the CPU time of a load, and its requests in flight",
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
    /// The share of the time in which a watched CPU ran at the limit; `None` where that was not recorded.
    at_limit: Option<f64>,
}

fn run(case: &Case<'_>) -> Vec<Finding> {
    // Where a study varied such a limit, what it costs was measured.
    let is_measured = varied_setting::is_varied(case, &frequency_limit::WORDS);
    let cpufreq = case.inventory.and_then(|inventory| inventory.cpufreq.as_ref());
    let Some(cpufreq) = cpufreq.filter(|_| !is_measured) else { return Vec::new() };
    caps(case, cpufreq).into_iter().filter_map(|cap| finding(case, cap)).collect()
}

/// From this share of the time on a CPU is at its limit most of the time.
const MOSTLY_AT_LIMIT: f64 = 0.5;

/// A gain below this is no reason to be named first.
const WORTH_NAMING: f64 = 1.1;

fn caps(case: &Case<'_>, cpufreq: &Cpufreq) -> Vec<Cap> {
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
        at_limit: at_limit(case, policy, limit),
    }));
    caps.extend(turbo_off.then(|| Cap {
        title: "turbo frequencies are switched off".into(),
        figure: "no_turbo = 1".into(),
        path: format!("{pstate}/no_turbo"),
        lift: Some(request("turbo", "on")),
        faster: turbo,
        at_limit: None,
    }));
    caps.extend((boost_off && !turbo_off).then(|| Cap {
        title: "frequencies above the base are switched off".into(),
        figure: "boost = 0".into(),
        path: "/sys/devices/system/cpu/cpufreq/boost".into(),
        lift: Some(request("turbo", "on")),
        faster: turbo,
        at_limit: None,
    }));
    caps.extend(percent.map(|share| Cap {
        title: format!("the CPUs may use {:.0}% of their performance at most", share * 100.0),
        figure: format!("max_perf_pct = {:.0}", share * 100.0),
        path: format!("{pstate}/max_perf_pct"),
        lift: Some(request("max_perf_pct", "100")),
        faster: Some(1.0 / share),
        at_limit: None,
    }));
    caps.extend(by_firmware.map(|(limit, policy)| Cap {
        title: format!("the firmware allows {limit} at most"),
        figure: of_hardware(limit, policy),
        path: format!("/sys/devices/system/cpu/cpufreq/policy{}/bios_limit", policy.id),
        lift: None,
        faster: policy.base.or(policy.hardware_max).map(|full| times(full, limit)),
        at_limit: at_limit(case, policy, limit),
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

/// The share of the time that the policy spent at its limit, of several traces the largest.
fn at_limit(case: &Case<'_>, policy: &Policy, limit: Hertz) -> Option<f64> {
    let name = format!("policy{}", policy.id);
    let least = limit.hz() as f64 * ROUNDING;
    let states =
        case.usages.iter().filter_map(|(_, usage)| usage.pstates.iter().find(|of| of.policy == name));
    let at = |states: &PStates| -> f64 {
        states.shares.iter().filter(|(at, _)| at.hz() as f64 >= least).map(|(_, share)| share).sum()
    };
    states.map(at).max_by(f64::total_cmp)
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
    let Cap { title, figure, path, lift, faster, at_limit } = cap;
    let (bound, further) = match faster.map_or(Bound::Unknown, |faster| cpu_share::bound(case, faster)) {
        Bound::Nothing => return None,
        Bound::AtMost { times, figures } => (Some(times), figures),
        Bound::Unknown => (None, Vec::new()),
    };
    // That the CPUs are at it, and that requests wait for them, was watched.
    let is_worth = bound.is_some_and(|times| times >= WORTH_NAMING);
    let was_at_limit = at_limit.filter(|share| is_worth && *share >= MOSTLY_AT_LIMIT);
    let remedy = lift.as_ref().map(|request| Remedy {
        what: "lift the cap, and measure whether the workload gains".into(),
        settings: vec![request.clone()],
        undo: UNTUNE.into(),
    });
    Some(Finding {
        rule: RULE.name,
        title: match (was_at_limit, bound) {
            (Some(share), Some(times)) => format!(
                "{title}, and ran there for {} of the time: without that limit {} times as fast at most",
                percent(share),
                significant(times)
            ),
            _ => format!("{title}; what that costs was not measured here"),
        },
        reason: "Work of the CPU on the path of each request (submission, checksums, encryption, parity, completion) takes \
longer in proportion; a workload that waits for the device alone does not notice."
            .into(),
        evidence: [evidence("limit in force", figure, path.clone())].into_iter().chain(further).collect(),
        confidence: if was_at_limit.is_some() { Confidence::Likely } else { Confidence::Possible },
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
    use super::super::testing::{about, bare_machine, findings, findings_of_usage, fio_run, machine_with};
    use super::*;
    use crate::facts::usage::{CpuUsage, Usage};
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

    /// A CPU under a limit of 1400 of 2800 MHz, busy for so much of the time, at its limit for so much.
    fn watched_at_limit(busy: f64, at_limit: f64) -> Vec<Finding> {
        let mhz = |mhz| Some(Hertz::from_mhz(mhz));
        let limited = Policy { max: mhz(1400), hardware_max: mhz(2800), ..Policy::default() };
        let shares = vec![(Hertz::from_mhz(1400), at_limit), (Hertz::from_mhz(800), 1.0 - at_limit)];
        let cpu = CpuUsage { user: busy, ..CpuUsage::default() };
        let usage = Usage {
            machine: Some(cpu),
            cpus: vec![(0, cpu)],
            pstates: vec![PStates { policy: "policy0".into(), shares }],
            ..Usage::default()
        };
        findings_of_usage(RULE, &usage, Some(&machine_with(limited)))
    }

    #[test]
    fn a_cpu_that_is_watched_at_its_limit_while_requests_wait_for_it_is_likely_and_bounded() {
        let found = watched_at_limit(0.8, 0.97);
        assert_eq!(
            found[0].title,
            "the CPUs may run at 1.40 GHz at most, and ran there for 97% of the time: without that limit 1.67 times as fast at most"
        );
        assert_eq!(found[0].confidence, Confidence::Likely);
        let gain = found[0].gain.as_ref().unwrap();
        assert!(gain.low == 1.0 && (gain.ratio - 1.0 / 0.6).abs() < 1e-9, "{gain:?}");
    }

    #[test]
    fn a_cpu_that_is_rarely_at_its_limit_or_hardly_used_is_no_likely_cause() {
        let possible = |found: Vec<Finding>| found.iter().all(|one| one.confidence == Confidence::Possible);
        assert!(possible(watched_at_limit(0.8, 0.2)));
        assert!(possible(watched_at_limit(0.15, 0.97)));
        assert!(watched_at_limit(0.02, 0.97).is_empty(), "it would gain nothing");
    }

    #[test]
    fn full_speed_or_an_unknown_machine_is_no_finding() {
        assert!(titles(Some(&machine_with(policy(3490)))).is_empty());
        assert!(titles(Some(&machine_with(Policy::default()))).is_empty());
        assert!(titles(Some(&bare_machine())).is_empty());
        assert!(titles(None).is_empty());
    }
}
