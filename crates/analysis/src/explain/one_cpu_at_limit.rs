//! One CPU is at its limit while others are idle: one thread has all of the work.
//!
//! Source: proc(5), `/proc/stat`.

use super::Rule;
use crate::facts::case::{Case, evidence};
use crate::facts::usage::{AT_LIMIT, Usage};
use crate::words::percent;
use domain::finding::{Confidence, Finding};

pub(super) const RULE: Rule = Rule {
    name: "one-cpu-at-limit",
    doc: "One CPU was busy nearly all of the time while others were idle.",
    needs: "a recording's trace: each CPU",
    source: "proc(5), /proc/stat",
    yields_to: &[],
    run,
};

/// Above this share of all CPUs the machine as a whole is what is busy.
const MAX_MEAN: f64 = 0.75;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let busiest = case.worst_usage(|usage| Some(busiest(usage)?.1));
    let found = busiest.filter(|(_, usage, busy)| *busy >= AT_LIMIT && mean(usage) <= MAX_MEAN);
    found.and_then(|(source, usage, _)| finding(case, &source, usage)).into_iter().collect()
}

/// The CPU with the largest share, with it.
fn busiest(usage: &Usage) -> Option<(u32, f64)> {
    let shares = usage.cpus.iter().map(|(number, cpu)| (*number, cpu.busy()));
    shares.max_by(|(_, a), (_, b)| a.total_cmp(b))
}

fn mean(usage: &Usage) -> f64 {
    usage.machine.map_or(1.0, |cpu| cpu.busy())
}

fn finding(case: &Case<'_>, source: &str, usage: &Usage) -> Option<Finding> {
    let (number, busy) = busiest(usage)?;
    let cpu = usage.cpus.iter().find(|(n, _)| *n == number)?.1;
    let mostly_interrupts = cpu.interrupts > cpu.busy() / 2.0;
    Some(Finding {
        rule: RULE.name,
        title: format!(
            "CPU {number} was busy {} of the time, all {} CPUs together {}: {}",
            percent(busy),
            usage.cpus.len(),
            percent(mean(usage)),
            if mostly_interrupts { "one CPU serves the interrupts" } else { "one thread has the work" }
        ),
        reason: match mostly_interrupts {
            true => {
                "A device or queue interrupts one CPU. More CPUs do not help until its queues are spread over them \
(`/proc/interrupts`, `/proc/irq/*/smp_affinity`)."
            }
            false => {
                "A thread runs on one CPU at a time. More CPUs do not help; a higher frequency of that CPU does, in \
proportion, and so does work in several threads."
            }
        }
        .into(),
        evidence: vec![
            evidence(format!("time in which CPU {number} was busy"), percent(busy), source),
            evidence("the same of all CPUs, mean", percent(mean(usage)), source),
            evidence(format!("time of CPU {number} in interrupts"), percent(cpu.interrupts), source),
        ],
        confidence: Confidence::Likely,
        gain: None,
        remedy: None,
        next: case.next_look(),
        compared: vec![],
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::findings_of_usage;
    use super::*;
    use crate::facts::usage::CpuUsage;

    fn usage(shares: &[(f64, f64)]) -> Usage {
        let cpu = |(user, interrupts): &(f64, f64)| CpuUsage {
            user: *user,
            interrupts: *interrupts,
            ..CpuUsage::default()
        };
        let cpus: Vec<(u32, CpuUsage)> = (0..).zip(shares.iter().map(cpu)).collect();
        let mean = cpus.iter().map(|(_, cpu)| cpu.busy()).sum::<f64>() / cpus.len() as f64;
        Usage { machine: Some(CpuUsage { user: mean, ..CpuUsage::default() }), cpus, ..Usage::default() }
    }

    #[test]
    fn one_busy_cpu_among_idle_ones_is_found() {
        let found = findings_of_usage(RULE, &usage(&[(0.1, 0.0), (0.97, 0.0)]), None).swap_remove(0);
        assert_eq!(
            found.title,
            "CPU 1 was busy 97% of the time, all 2 CPUs together 53.5%: one thread has the work"
        );
    }

    #[test]
    fn interrupts_are_told_from_a_thread() {
        let found = findings_of_usage(RULE, &usage(&[(0.1, 0.85), (0.0, 0.0)]), None).swap_remove(0);
        assert!(found.title.ends_with("one CPU serves the interrupts"), "{}", found.title);
    }

    #[test]
    fn a_machine_that_is_busy_as_a_whole_or_has_one_cpu_is_no_finding() {
        assert!(findings_of_usage(RULE, &usage(&[(0.95, 0.0), (0.9, 0.0)]), None).is_empty());
        assert!(findings_of_usage(RULE, &usage(&[(0.97, 0.0)]), None).is_empty());
        assert!(findings_of_usage(RULE, &usage(&[(0.5, 0.0), (0.1, 0.0)]), None).is_empty());
    }
}
