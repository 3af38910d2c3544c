//! The CPUs are at their limit: all of them were busy nearly all of the time that was watched.
//!
//! Sources: proc(5), `/proc/stat`; `Documentation/accounting/psi.rst`.

use super::Rule;
use super::next_step::{UNTUNE, tune_command};
use crate::facts::case::{Case, evidence};
use crate::facts::cpu_share;
use crate::facts::usage::{AT_LIMIT, CpuUsage, Usage};
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::setting::{SettingName, SettingRequest};
use domain::units::Hertz;

pub(super) const RULE: Rule = Rule {
    name: "cpu-at-limit",
    doc: "All CPUs were busy nearly all of the time: the machine is CPU-bound.",
    needs: "a recording's trace: CPUs; where it was recorded, time at each frequency",
    source: "proc(5), /proc/stat; Documentation/accounting/psi.rst; Documentation/cpu-freq/cpufreq-stats.rst",
    yields_to: &[],
    run,
};

const LIMIT: &str = "With next to no idle time a further task waits for a CPU. A faster disk changes nothing then. A higher \
frequency, fewer instructions for the same work, or more CPUs do.";

const OTHERS: &str = "With next to no idle time a task that becomes ready waits until another one gives up its CPU: what was \
watched is slower than on an idle machine, by how much is not measured. Other programs used the rest of the CPU time.";

fn run(case: &Case<'_>) -> Vec<Finding> {
    let busiest = case.worst_usage(|usage| usage.machine.as_ref().map(CpuUsage::busy));
    let found = busiest.filter(|(.., busy)| *busy >= AT_LIMIT);
    found.map(|(source, usage, busy)| finding(case, source, usage, busy)).into_iter().collect()
}

fn finding(case: &Case<'_>, source: String, usage: &Usage, busy: f64) -> Finding {
    let cpu = usage.machine.unwrap_or_default();
    let parts = format!(
        "{}: programs {}, kernel {}, interrupts {}",
        percent(busy),
        percent(cpu.user),
        percent(cpu.system),
        percent(cpu.interrupts)
    );
    let mut figures = vec![evidence("time in which the CPUs were busy, mean", parts, source.clone())];
    if let Some(waited) = usage.pressure.cpu {
        figures.push(evidence("time in which a task waited for a CPU (PSI)", percent(waited), source));
    }
    let slow = ran_slowly(case);
    if let Some((ran_at, highest)) = slow {
        let all = "time at each frequency";
        figures.push(evidence("frequency of the busiest CPU, mean", format!("{ran_at} of {highest}"), all));
    }
    let faster = faster_governor(case);
    let others = case.own_share(usage).filter(|(_, with_kernel)| *with_kernel < busy / 2.0);
    let others = others.map(|(own, _)| own);
    Finding {
        rule: RULE.name,
        title: match others {
            Some(own) => format!(
                "the CPUs were busy {} of the time, {} with what was watched: other programs have them",
                percent(busy),
                percent(own)
            ),
            None => {
                let at = slow.map_or(String::new(), |(at, of)| format!(", at {at} of {of}"));
                format!("the CPUs were busy {} of the time{at}: the load is CPU-bound", percent(busy))
            }
        },
        reason: match others {
            Some(_) => OTHERS.into(),
            None => LIMIT.into(),
        },
        evidence: figures,
        confidence: Confidence::Likely,
        gain: faster.as_ref().and(slow).filter(|_| others.is_none()).and_then(|(ran_at, highest)| {
            cpu_share::expected(case, highest.hz() as f64 / (ran_at.hz() as f64).max(1.0))
        }),
        next: match (&faster, others) {
            (_, Some(_)) => case.who_is_busy(),
            (Some(setting), None) => tune_command(setting) + " --dry-run",
            (None, None) => case.next_look(),
        },
        remedy: faster.map(|setting| Remedy {
            what: "run at the highest frequency, and measure what it gains and costs in energy".into(),
            settings: vec![setting],
            undo: UNTUNE.into(),
        }),
        compared: vec![],
    }
}

/// CPUs that ran above this share of their highest frequency were not slowed down.
const NEARLY_HIGHEST: f64 = 0.9;

/// The mean frequency of the busiest CPU and the highest that its policy allows, where it ran well below.
fn ran_slowly(case: &Case<'_>) -> Option<(Hertz, Hertz)> {
    let (ran_at, policy) = cpu_share::ran_at(case)?;
    let highest = policy.max?;
    (ran_at < highest.hz() as f64 * NEARLY_HIGHEST).then(|| (Hertz::from_hz(ran_at as u64), highest))
}

/// The governor `performance`, where another one rules on this host and this one is available.
fn faster_governor(case: &Case<'_>) -> Option<SettingRequest> {
    let policies = &case.inventory?.cpufreq.as_ref()?.policies;
    let is_other = |governor: &str| governor != "performance";
    let slower = policies.iter().any(|policy| {
        policy.governor.as_deref().is_some_and(is_other)
            && policy.available_governors.iter().any(|name| name == "performance")
    });
    slower.then(|| SettingRequest { setting: SettingName::parse("governor"), value: "performance".into() })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings_of_command, findings_of_usage, findings_with_roles, watched};
    use super::*;
    use crate::facts::residency::PStates;
    use domain::inventory::CpuList;
    use domain::trace::Role;

    fn busy(user: f64) -> Usage {
        Usage { machine: Some(CpuUsage { user, system: 0.1, ..CpuUsage::default() }), ..Usage::default() }
    }

    #[test]
    fn busy_cpus_are_found_with_what_they_did() {
        let found = findings_of_usage(RULE, &busy(0.85), None).swap_remove(0);
        assert_eq!(found.title, "the CPUs were busy 95% of the time: the load is CPU-bound");
        assert_eq!(found.evidence[0].figure, "95%: programs 85%, kernel 10%, interrupts 0%");
        assert!(found.remedy.is_none(), "a machine without cpufreq has no faster governor");
    }

    #[test]
    fn a_command_that_used_little_is_not_called_cpu_bound() {
        let usage = Usage { cpus: vec![(0, CpuUsage::default()); 2], ..busy(0.85) };
        let title = |own: f64| findings_of_command(RULE, &usage, own).swap_remove(0).title;
        assert_eq!(
            title(0.1),
            "the CPUs were busy 95% of the time, 5% with what was watched: other programs have them"
        );
        let next = findings_of_command(RULE, &usage, 0.1).swap_remove(0).next;
        assert_eq!(next, "flyball diagnose", "it names the busiest threads");
        assert_eq!(title(1.8), "the CPUs were busy 95% of the time: the load is CPU-bound");
        // Threads of the kernel write back what it wrote, and encrypt it.
        let by_kernel = findings_with_roles(RULE, &usage, &[(Role::Workload, 0.1), (Role::Writeback, 1.2)]);
        assert_eq!(by_kernel[0].title, "the CPUs were busy 95% of the time: the load is CPU-bound");
    }

    #[test]
    fn cpus_that_are_full_at_a_low_frequency_say_so_with_what_the_highest_may_give() {
        let mhz = |mhz| Some(Hertz::from_mhz(mhz));
        let mut machine = watched("powersave");
        let policy = &mut machine.cpufreq.as_mut().unwrap().policies[0];
        (policy.max, policy.cpus) = (mhz(2800), CpuList::parse("0").unwrap());
        let shares = vec![(Hertz::from_mhz(2800), 0.0), (Hertz::from_mhz(350), 1.0)];
        let cpu = CpuUsage { user: 0.9, system: 0.1, ..CpuUsage::default() };
        let usage = Usage {
            cpus: vec![(0, cpu)],
            pstates: vec![PStates { policy: "policy0".into(), shares }],
            ..busy(0.9)
        };
        let found = findings_of_usage(RULE, &usage, Some(&machine)).swap_remove(0);
        assert_eq!(
            found.title,
            "the CPUs were busy 100% of the time, at 350 MHz of 2.80 GHz: the load is CPU-bound"
        );
        let gain = found.gain.unwrap();
        assert!((gain.ratio - 8.0).abs() < 1e-9 && gain.low == 1.0, "{gain:?}");
    }

    #[test]
    fn idle_time_is_no_finding() {
        assert!(findings_of_usage(RULE, &busy(0.7), None).is_empty());
        assert!(findings_of_usage(RULE, &Usage::default(), None).is_empty());
    }

    #[test]
    fn a_slower_governor_is_named_and_performance_is_not() {
        let remedy = |governor: &str| {
            let inventory = watched(governor);
            findings_of_usage(RULE, &busy(0.85), Some(&inventory)).swap_remove(0).remedy
        };
        assert_eq!(remedy("powersave").unwrap().settings[0].to_string(), "governor = performance");
        assert_eq!(remedy("performance"), None);
    }
}
