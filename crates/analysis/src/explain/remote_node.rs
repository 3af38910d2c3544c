//! The CPUs that worked belong to another memory node than the disk.
//!
//! Sources: `Documentation/ABI/stable/sysfs-devices-node`; `Documentation/ABI/testing/sysfs-bus-pci`
//! (`numa_node`); numactl(8).

use super::Rule;
use crate::facts::case::{Case, evidence};
use crate::facts::usage::{DiskUsage, Usage};
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::{Inventory, Node};
use domain::units::Unit;

pub(super) const RULE: Rule = Rule {
    name: "remote-node",
    doc: "The CPUs that worked are on another memory node than the disk that was busy.",
    needs: "a recording's trace: each CPU and disks; the disk's node in the inventory",
    source: "Documentation/ABI/testing/sysfs-bus-pci (`numa_node`); numactl(8)",
    yields_to: &[],
    run,
};

/// Of all CPU time.
const MIN_REMOTE: f64 = 0.8;

/// Fewer requests a second cross between nodes too rarely to count.
const MIN_RATE: f64 = 10_000.0;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let Some(inventory) = case.inventory.filter(|inventory| inventory.cpus.nodes.len() > 1) else {
        return Vec::new();
    };
    let worst = case.worst_usage(|usage| Some(Remote::of(inventory, usage)?.share));
    let found = worst.and_then(|(source, usage, _)| Some(finding(&source, &Remote::of(inventory, usage)?)));
    found.into_iter().collect()
}

struct Remote<'a> {
    disk: &'a DiskUsage,
    node: &'a Node,
    /// Of the time of all busy CPUs, that on other nodes.
    share: f64,
}

impl<'a> Remote<'a> {
    /// Of the disk that serves most requests, where most of the work is elsewhere.
    fn of(inventory: &'a Inventory, usage: &'a Usage) -> Option<Self> {
        let rate = |disk: &DiskUsage| disk.read.rate + disk.write.rate;
        let known = usage.disks.iter().filter_map(|disk| Some((disk, inventory.device(&disk.device)?.node?)));
        let (disk, id) = known.max_by(|(a, _), (b, _)| rate(a).total_cmp(&rate(b)))?;
        let node = inventory.cpus.nodes.iter().find(|node| node.id == id && !node.cpus.is_empty())?;
        let all = usage.cpus.iter().map(|(_, cpu)| cpu.busy()).sum::<f64>();
        let elsewhere = usage.cpus.iter().filter(|(cpu, _)| !node.cpus.contains(*cpu));
        let share = elsewhere.map(|(_, cpu)| cpu.busy()).sum::<f64>() / all;
        (all > 0.0 && share >= MIN_REMOTE && rate(disk) >= MIN_RATE).then_some(Self { disk, node, share })
    }
}

fn finding(source: &str, remote: &Remote<'_>) -> Finding {
    let Remote { disk, node, share } = remote;
    let (name, id) = (&disk.device, node.id);
    let rate = Unit::PerSecond.show(disk.read.rate + disk.write.rate);
    Finding {
        rule: RULE.name,
        title: format!(
            "{} of the CPU time was on other memory nodes than that of {name}; what that costs was not measured",
            percent(*share)
        ),
        reason: "A disk is attached to one processor. Its data and its interrupts cross the link between processors where the work \
runs on another one, at each request."
            .into(),
        evidence: vec![
            evidence(format!("memory node of {name}"), id.to_string(), format!("/sys/block/{name}/device/device/numa_node")),
            evidence(format!("CPU time on other CPUs than {}", node.cpus), percent(*share), source),
            evidence(format!("requests of {name}"), rate, source),
        ],
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(Remedy {
            what: format!("run it on the disk's node (`numactl --cpunodebind={id} --membind={id} COMMAND`), and measure"),
            settings: vec![],
            undo: "start it without numactl".into(),
        }),
        next: format!("flyball record -- numactl --cpunodebind={id} --membind={id} COMMAND"),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::facts::usage::{CpuUsage, Transfers};
    use domain::inventory::CpuList;

    fn machine(node: Option<u32>) -> Inventory {
        let mut machine = bare_machine();
        machine.devices[0].node = node;
        let nodes = [(0, "0"), (1, "1")].map(|(id, cpus)| Node { id, cpus: CpuList::parse(cpus).unwrap() });
        machine.cpus.nodes = nodes.to_vec();
        machine
    }

    fn usage(busy: [f64; 2], rate: f64) -> Usage {
        let cpu = |user| CpuUsage { user, ..CpuUsage::default() };
        let read = Transfers { rate, ..Transfers::default() };
        Usage {
            cpus: vec![(0, cpu(busy[0])), (1, cpu(busy[1]))],
            disks: vec![DiskUsage { device: "vda".into(), read, ..DiskUsage::default() }],
            ..Usage::default()
        }
    }

    #[test]
    fn work_on_another_node_than_the_busy_disks_is_found() {
        let found =
            findings_of_usage(RULE, &usage([0.9, 0.02], 90e3), Some(&machine(Some(1)))).swap_remove(0);
        assert!(found.title.starts_with("97.8% of the CPU time was on other memory nodes than that of vda"));
        assert!(found.next.contains("--cpunodebind=1"), "{}", found.next);
    }

    #[test]
    fn local_work_and_few_requests_are_no_finding() {
        assert!(findings_of_usage(RULE, &usage([0.02, 0.9], 90e3), Some(&machine(Some(1)))).is_empty());
        assert!(findings_of_usage(RULE, &usage([0.9, 0.02], 90.0), Some(&machine(Some(1)))).is_empty());
    }

    #[test]
    fn one_node_or_an_unknown_one_is_no_evidence() {
        assert!(findings_of_usage(RULE, &usage([0.9, 0.02], 90e3), Some(&machine(None))).is_empty());
        let mut one = machine(Some(0));
        one.cpus.nodes.truncate(1);
        assert!(findings_of_usage(RULE, &usage([0.02, 0.9], 90e3), Some(&one)).is_empty());
        assert!(findings_of_usage(RULE, &usage([0.9, 0.02], 90e3), None).is_empty());
    }
}
