//! The CPU that serves the interrupts of devices runs slower than the CPU of those who wait for them.
//!
//! Each CPU, or each group of CPUs, has a P-state of its own, and the one that serves interrupts between long
//! times of nothing looks idle to its governor. What it does of a completion is on the path of each request.
//!
//! Sources: `Documentation/admin-guide/pm/cpufreq.rst` (policies); block/blk-mq.c
//! (`blk_mq_complete_need_ipi`); `Documentation/ABI/stable/sysfs-block` (`rq_affinity`).

use super::Rule;
use super::next_step::{UNTUNE, tune_command};
use crate::facts::case::{Case, evidence};
use crate::facts::usage::Usage;
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::{BlockKind, Cpufreq, Inventory, Policy};
use domain::setting::{SettingName, SettingRequest};
use domain::units::Hertz;

pub(super) const RULE: Rule = Rule {
    name: "slow-interrupt-cpu",
    doc: "The CPU that serves the devices' interrupts runs at a lower frequency than the CPU that waits for them.",
    needs: "a recording's trace: each CPU, and APERF and MPERF or time at each frequency; policies in the inventory",
    source: "Documentation/admin-guide/pm/cpufreq.rst; block/blk-mq.c (`blk_mq_complete_need_ipi`); Documentation/ABI/stable/sysfs-block (`rq_affinity`)",
    // A CPU that is held up by interrupts is the larger cause of the two.
    yields_to: &["interrupts-on-one-cpu"],
    run,
};

/// Of all time in interrupts, on one CPU.
const MIN_OF_ALL: f64 = 0.5;

/// Of that CPU's time; what is less can be the tick's.
const MIN_INTERRUPTS: f64 = 0.02;

/// Of the frequency of the CPU that waits.
const SLOWER: f64 = 0.75;

/// Of the time, in which tasks wait for I/O.
const MIN_WAITING: f64 = 0.1;

/// A CPU, what it did, and at which frequency.
struct Ran {
    cpu: u32,
    share: f64,
    mean: MeanFrequency,
}

/// A mean frequency in Hz, and of what it is one.
struct MeanFrequency {
    hertz: f64,
    of: &'static str,
}

fn run(case: &Case<'_>) -> Vec<Finding> {
    let Some((inventory, cpufreq)) = case.inventory.and_then(|all| Some((all, all.cpufreq.as_ref()?))) else {
        return vec![];
    };
    let slowest = case.worst_usage(|usage| {
        let (serves, waits) = pair(usage, cpufreq)?;
        Some(waits.mean.hertz / serves.mean.hertz)
    });
    slowest.and_then(|(source, usage, _)| finding(&source, usage, inventory, cpufreq)).into_iter().collect()
}

/// The CPU that serves interrupts, where it is slow, and the one that works most for programs.
fn pair(usage: &Usage, cpufreq: &Cpufreq) -> Option<(Ran, Ran)> {
    let waiting = usage.pressure.io.or_else(|| Some(usage.machine?.iowait)).filter(|it| *it >= MIN_WAITING);
    waiting?;
    let all: f64 = usage.cpus.iter().map(|(_, cpu)| cpu.interrupts).sum();
    let (serving, used) = usage.cpus.iter().max_by(|(_, a), (_, b)| a.interrupts.total_cmp(&b.interrupts))?;
    let is_one = used.interrupts >= MIN_INTERRUPTS && used.interrupts >= all * MIN_OF_ALL;
    let own = policy_of(cpufreq, *serving)?;
    let others = usage.cpus.iter().filter(|(cpu, _)| !own.cpus.contains(*cpu));
    let (waiter, busy) =
        others.max_by(|(_, a), (_, b)| (a.user + a.system).total_cmp(&(b.user + b.system)))?;
    let serves = Ran { cpu: *serving, share: used.interrupts / all, mean: ran_at(usage, cpufreq, *serving)? };
    let waits = Ran { cpu: *waiter, share: busy.user + busy.system, mean: ran_at(usage, cpufreq, *waiter)? };
    // What works more than it serves is no CPU that only completes for others.
    let completes_for_others = used.user + used.system < waits.share;
    (is_one && completes_for_others && serves.mean.hertz <= waits.mean.hertz * SLOWER)
        .then_some((serves, waits))
}

fn policy_of(cpufreq: &Cpufreq, cpu: u32) -> Option<&Policy> {
    cpufreq.policies.iter().find(|policy| policy.cpus.contains(cpu))
}

/// The mean frequency of a CPU: while it was awake, where its counters were read, else of its policy.
fn ran_at(usage: &Usage, cpufreq: &Cpufreq, cpu: u32) -> Option<MeanFrequency> {
    let known = |hertz: f64, of| (hertz > 0.0).then_some(MeanFrequency { hertz, of });
    if let Some((_, awake)) = usage.awake.iter().find(|(number, _)| *number == cpu) {
        return known(awake.hertz, "while it was awake");
    }
    let name = format!("policy{}", policy_of(cpufreq, cpu)?.id);
    let states = &usage.pstates.iter().find(|states| states.policy == name)?.shares;
    known(states.iter().map(|(at, share)| at.hz() as f64 * share).sum(), "of its policy, idle time included")
}

/// The disk that did most, as settings know it: `rq_affinity` belongs to what interrupts, and to no array or
/// mapping above it.
fn busiest_disk<'a>(usage: &'a Usage, inventory: &Inventory) -> Option<&'a str> {
    let is_disk = |name: &str| {
        inventory
            .devices
            .iter()
            .any(|device| device.name == name && device.kind == BlockKind::Disk && device.built_of.is_empty())
    };
    usage.disks.iter().map(|disk| disk.device.as_str()).find(|name| is_disk(name))
}

fn finding(source: &str, usage: &Usage, inventory: &Inventory, cpufreq: &Cpufreq) -> Option<Finding> {
    let (serves, waits) = pair(usage, cpufreq)?;
    let device = busiest_disk(usage, inventory)?;
    let setting = SettingName { name: "rq_affinity".into(), object: Some(device.to_owned()) };
    let request = SettingRequest { setting, value: "2".into() };
    let [slow, fast] = [&serves, &waits].map(|ran| Hertz::from_hz(ran.mean.hertz as u64).to_string());
    Some(Finding {
        rule: RULE.name,
        title: format!(
            "CPU {} serves {} of the interrupts at {slow}; CPU {}, which waits for them, runs at {fast}",
            serves.cpu,
            percent(serves.share),
            waits.cpu
        ),
        reason: "A completion takes time of the CPU that is interrupted, and its frequency is chosen by what that CPU alone does: it \
looks idle. A request is completed on the CPU that submitted it where the block layer is told to."
            .into(),
        evidence: vec![
            evidence(format!("mean frequency of CPU {}, {}", serves.cpu, serves.mean.of), slow, source),
            evidence(format!("mean frequency of CPU {}, {}", waits.cpu, waits.mean.of), fast, source),
            evidence(
                format!("share of CPU {} of the time of all CPUs in interrupts", serves.cpu),
                percent(serves.share),
                source,
            ),
        ],
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(Remedy {
            what: format!("measure with completions of {device} on the CPU that submitted them"),
            settings: vec![request.clone()],
            undo: UNTUNE.into(),
        }),
        next: tune_command(&request),
        compared: vec![],
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::facts::residency::PStates;
    use crate::facts::usage::{Awake, CpuUsage, DiskUsage, Pressure};
    use domain::inventory::CpuList;

    fn machine(policies: &[&str]) -> Inventory {
        let mut machine = Inventory { devices: on_disk(false).devices, ..watched("ondemand") };
        let policy = |(id, cpus): (u32, &&str)| Policy {
            id,
            cpus: CpuList::parse(cpus).unwrap(),
            governor: Some("ondemand".into()),
            ..Policy::default()
        };
        machine.cpufreq.as_mut().unwrap().policies = (0..).zip(policies).map(policy).collect();
        machine
    }

    /// CPU 0 works for programs and CPU 1 is interrupted, at these frequencies in MHz.
    fn usage(mhz: [u64; 2]) -> Usage {
        let works = CpuUsage { user: 0.1, system: 0.3, interrupts: 0.01, ..CpuUsage::default() };
        let serves = CpuUsage { interrupts: 0.06, ..CpuUsage::default() };
        let states = |(id, mhz): (u32, u64)| PStates {
            policy: format!("policy{id}"),
            shares: vec![(Hertz::from_mhz(mhz), 1.0)],
        };
        Usage {
            cpus: vec![(0, works), (1, serves)],
            pstates: (0..).zip(mhz).map(states).collect(),
            disks: ["md0", "sda"]
                .map(|name| DiskUsage { device: name.into(), ..DiskUsage::default() })
                .to_vec(),
            pressure: Pressure { io: Some(0.6), ..Pressure::default() },
            ..Usage::default()
        }
    }

    #[test]
    fn a_cpu_that_serves_interrupts_slowly_is_found_with_its_setting() {
        let found = findings_of_usage(RULE, &usage([2800, 1200]), Some(&machine(&["0", "1"]))).swap_remove(0);
        assert_eq!(
            found.title,
            "CPU 1 serves 85.7% of the interrupts at 1.20 GHz; CPU 0, which waits for them, runs at 2.80 GHz"
        );
        // The array above the disk is interrupted by nothing.
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "rq_affinity@sda = 2");
        assert_eq!(found.evidence[0].what, "mean frequency of CPU 1, of its policy, idle time included");
    }

    #[test]
    fn counters_of_the_cpu_itself_count_before_its_policys_time() {
        let awake = vec![(0, Awake { share: 0.4, hertz: 2e9 }), (1, Awake { share: 0.1, hertz: 2e9 })];
        let usage = Usage { awake, ..usage([2800, 1200]) };
        assert!(findings_of_usage(RULE, &usage, Some(&machine(&["0", "1"]))).is_empty());
    }

    #[test]
    fn one_frequency_few_interrupts_and_nobody_who_waits_are_no_finding() {
        let silent = |usage: &Usage, policies: &[&str]| {
            assert!(findings_of_usage(RULE, usage, Some(&machine(policies))).is_empty(), "{usage:?}");
        };
        silent(&usage([2800, 2400]), &["0", "1"]);
        silent(&usage([2800, 1200]), &["0-1"]);
        let slow = || usage([2800, 1200]);
        silent(&Usage { pressure: Pressure::default(), ..slow() }, &["0", "1"]);
        let mut few = slow();
        few.cpus[1].1.interrupts = 0.015;
        silent(&few, &["0", "1"]);
        // It works for programs itself.
        let mut works = slow();
        works.cpus[1].1.user = 0.6;
        silent(&works, &["0", "1"]);
        silent(&Usage { pstates: vec![], ..slow() }, &["0", "1"]);
        assert!(findings_of_usage(RULE, &slow(), None).is_empty());
    }
}
