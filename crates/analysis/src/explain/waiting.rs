//! Tasks waited for I/O, for memory, or for a CPU that the hypervisor gave to others.
//!
//! Sources: `Documentation/accounting/psi.rst`; proc(5), `/proc/stat` (`iowait`, `steal`).

use super::Rule;
use crate::facts::case::{Case, evidence};
use crate::facts::usage::Usage;
use crate::words::percent;
use domain::finding::{Confidence, Finding};

pub(super) const RULE: Rule = Rule {
    name: "waiting",
    doc: "Tasks waited for I/O, for memory or for the hypervisor for a good part of the time.",
    needs: "a recording's trace: pressure, or CPUs",
    source: "Documentation/accounting/psi.rst; proc(5), /proc/stat (`iowait`, `steal`)",
    yields_to: &[],
    run,
};

/// What tasks wait for.
struct Cause {
    /// The share of the time, and what counted it.
    share: fn(&Usage) -> Option<(f64, &'static str)>,
    /// From which share on it is said.
    from: f64,
    /// What tasks did, for a sentence.
    what: &'static str,
    reason: &'static str,
}

const CAUSES: [Cause; 3] = [
    Cause {
        share: |usage| {
            let pressure =
                usage.pressure.io.map(|share| (share, "time in which a task waited for I/O (PSI)"));
            let idle = usage
                .machine
                .map(|cpu| (cpu.iowait, "time in which CPUs were idle while a task waited for I/O"));
            pressure.or(idle)
        },
        from: 0.2,
        what: "tasks waited for I/O",
        reason: "The storage decides how long a request takes: its device, the layers above it, and the CPU time that these \
layers need for each request. The CPU's frequency and idle states decide the last part alone.",
    },
    Cause {
        share: |usage| Some((usage.pressure.memory?, "time in which a task waited for memory (PSI)")),
        from: 0.1,
        what: "tasks waited for memory",
        reason: "The kernel reclaimed memory, swapped, or read again what it had just dropped from the page cache. What then \
looks like slow storage is too little memory for this load.",
    },
    Cause {
        share: |usage| Some((usage.machine?.steal, "time that the hypervisor gave to others (steal)")),
        from: 0.05,
        what: "CPUs that had something to do waited for the hypervisor",
        reason: "Other guests, or a limit on this one, took CPU time that this machine would have used. Nothing that is set \
inside this machine changes that.",
    },
];

fn run(case: &Case<'_>) -> Vec<Finding> {
    CAUSES.iter().filter_map(|cause| finding(case, cause)).collect()
}

fn finding(case: &Case<'_>, cause: &Cause) -> Option<Finding> {
    let (source, usage, share) = case.worst_usage(|usage| (cause.share)(usage).map(|(share, _)| share))?;
    let (_, counted) = (cause.share)(usage).filter(|_| share >= cause.from)?;
    Some(Finding {
        rule: RULE.name,
        title: format!("{} in {} of the time", cause.what, percent(share)),
        reason: cause.reason.into(),
        evidence: vec![evidence(counted, percent(share), source)],
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
    use crate::facts::usage::{CpuUsage, Pressure};

    fn titles(usage: &Usage) -> Vec<String> {
        findings_of_usage(RULE, usage, None).into_iter().map(|finding| finding.title).collect()
    }

    #[test]
    fn each_cause_is_a_finding_of_its_own() {
        let usage = Usage {
            machine: Some(CpuUsage { iowait: 0.6, steal: 0.12, ..CpuUsage::default() }),
            pressure: Pressure { cpu: None, io: Some(0.43), memory: Some(0.31) },
            ..Usage::default()
        };
        assert_eq!(
            titles(&usage),
            [
                "tasks waited for I/O in 43% of the time",
                "tasks waited for memory in 31% of the time",
                "CPUs that had something to do waited for the hypervisor in 12% of the time",
            ]
        );
    }

    #[test]
    fn without_psi_iowait_tells_of_io() {
        let machine = Some(CpuUsage { iowait: 0.6, ..CpuUsage::default() });
        let found = findings_of_usage(RULE, &Usage { machine, ..Usage::default() }, None);
        assert_eq!(found[0].evidence[0].what, "time in which CPUs were idle while a task waited for I/O");
    }

    #[test]
    fn a_little_waiting_is_no_finding() {
        let pressure = Pressure { cpu: Some(1.0), io: Some(0.1), memory: Some(0.01) };
        assert!(titles(&Usage { pressure, ..Usage::default() }).is_empty());
    }
}
