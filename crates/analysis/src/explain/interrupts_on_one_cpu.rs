//! One CPU serves nearly all interrupts.
//!
//! Sources: proc(5), `/proc/stat`; `Documentation/core-api/irq/irq-affinity.rst`;
//! `Documentation/ABI/stable/sysfs-block` (`rq_affinity`).

use super::Rule;
use crate::facts::case::{Case, evidence};
use crate::facts::usage::{AT_LIMIT, CpuUsage, Usage};
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::trial::Provenance;

pub(super) const RULE: Rule = Rule {
    name: "interrupts-on-one-cpu",
    doc: "One CPU serves nearly all interrupts, and spends a good part of its time in them.",
    needs: "a recording's trace: each CPU",
    source: "proc(5), /proc/stat; Documentation/core-api/irq/irq-affinity.rst",
    yields_to: &["one-cpu-at-limit"],
    run,
};

/// Of all time in interrupts.
const MIN_OF_ALL: f64 = 0.8;

/// Of the CPU's own time; below that what runs there is hardly held up.
const MIN_OF_CPU: f64 = 0.3;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let most = case.worst_usage(|usage| Some(busiest(usage)?.1.interrupts));
    let found = most.filter(|(_, usage, share)| *share >= MIN_OF_CPU && of_all(usage) >= Some(MIN_OF_ALL));
    found.and_then(|(source, usage, _)| finding(case, &source, usage)).into_iter().collect()
}

/// The CPU that is in interrupts most, where there are others.
fn busiest(usage: &Usage) -> Option<(u32, &CpuUsage)> {
    let cpus = usage.cpus.iter().filter(|_| usage.cpus.len() > 1).map(|(number, cpu)| (*number, cpu));
    cpus.max_by(|(_, a), (_, b)| a.interrupts.total_cmp(&b.interrupts))
}

/// Its share of all time in interrupts.
fn of_all(usage: &Usage) -> Option<f64> {
    let all = usage.cpus.iter().map(|(_, cpu)| cpu.interrupts).sum::<f64>();
    Some(busiest(usage)?.1.interrupts / all).filter(|_| all > 0.0)
}

fn finding(case: &Case<'_>, source: &str, usage: &Usage) -> Option<Finding> {
    let (number, cpu) = busiest(usage)?;
    let (own, share) = (percent(cpu.interrupts), percent(of_all(usage)?));
    let has_room = cpu.busy() < AT_LIMIT;
    has_room.then(|| Finding {
        rule: RULE.name,
        title: format!("CPU {number} serves {share} of all interrupts, which take {own} of its time"),
        reason: "A device with one queue interrupts one CPU, and so do several devices whose interrupts were all put there. What runs \
on that CPU waits for them, and completions wait for one another."
            .into(),
        evidence: vec![
            evidence(format!("time of CPU {number} in interrupts"), own, source),
            evidence("its share of the time of all CPUs in interrupts", share, source),
            evidence(format!("time in which CPU {number} was busy"), percent(cpu.busy()), source),
        ],
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(Remedy {
            what: "see in `/proc/interrupts` which device it is, and let irqbalance(1) spread interrupts over CPUs, or set \
`/proc/irq/N/smp_affinity_list` by hand; a device with one queue cannot be spread"
                .into(),
            settings: vec![],
            undo: "the CPUs that `/proc/irq/N/smp_affinity_list` named before".into(),
        }),
        next: match case.data.run.provenance {
            Provenance::Host => "cat /proc/interrupts".into(),
            _ => case.next_look(),
        },
        compared: vec![],
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn usage(interrupts: &[f64]) -> Usage {
        let cpu = |share: &f64| CpuUsage { interrupts: *share, user: 0.1, ..CpuUsage::default() };
        Usage { cpus: (0..).zip(interrupts.iter().map(cpu)).collect(), ..Usage::default() }
    }

    #[test]
    fn a_cpu_that_serves_nearly_all_interrupts_is_found() {
        let found = findings_of_usage(RULE, &usage(&[0.02, 0.02, 0.45, 0.01]), None).swap_remove(0);
        assert_eq!(found.title, "CPU 2 serves 90% of all interrupts, which take 45% of its time");
        assert!(found.remedy.unwrap().settings.is_empty());
    }

    #[test]
    fn spread_interrupts_few_of_them_and_a_single_cpu_are_no_finding() {
        assert!(findings_of_usage(RULE, &usage(&[0.4, 0.41, 0.39, 0.4]), None).is_empty());
        assert!(findings_of_usage(RULE, &usage(&[0.0, 0.0, 0.04, 0.0]), None).is_empty());
        assert!(findings_of_usage(RULE, &usage(&[0.6]), None).is_empty());
    }

    #[test]
    fn cpus_that_were_not_sampled_are_no_evidence() {
        assert!(findings_of_usage(RULE, &Usage::default(), None).is_empty());
    }
}
