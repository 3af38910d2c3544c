//! A guest gives its CPU back to the host at each wait for a request, and is woken up through the host.
//!
//! Sources: `Documentation/virt/guest-halt-polling.rst`; drivers/cpuidle/cpuidle-haltpoll.c.

use super::Rule;
use crate::facts::case::{Case, evidence};
use crate::facts::waits::{Single, singles};
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::Inventory;
use domain::trial::Provenance;

pub(super) const RULE: Rule = Rule {
    name: "guest-halts",
    doc: "A guest may give its CPU back to the host at each wait for a request.",
    needs: "hypervisor and idle driver in the inventory; latency of cells with one request in flight",
    source: "Documentation/virt/guest-halt-polling.rst; drivers/cpuidle/cpuidle-haltpoll.c",
    yields_to: &[],
    run,
};

/// Where a request takes longer, the way through the host is lost in it.
const MAX_LATENCY_S: f64 = 500e-6;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let Some(inventory) = case.inventory.filter(|inventory| halts(inventory)) else { return Vec::new() };
    // A guest of the lab is this program's own, and a model has no host.
    if case.data.run.provenance != Provenance::Host {
        return Vec::new();
    }
    let cells = case.cells();
    let short = singles(case, &cells).into_iter().filter(|single| single.latency <= MAX_LATENCY_S);
    let shortest = short.min_by(|a, b| a.latency.total_cmp(&b.latency));
    shortest.map(|single| finding(case, inventory, &single)).into_iter().collect()
}

/// A guest of KVM without a driver that polls before it halts.
fn halts(inventory: &Inventory) -> bool {
    let driver = inventory.cpuidle.as_ref().and_then(|idle| idle.driver.as_deref());
    inventory.virtualisation.hypervisor.as_deref() == Some("kvm") && matches!(driver, None | Some("none"))
}

fn finding(case: &Case<'_>, inventory: &Inventory, single: &Single<'_, '_>) -> Finding {
    let hypervisor = inventory.virtualisation.hypervisor.clone().unwrap_or_default();
    let mut figures = single.figures();
    figures.push(evidence("hypervisor", hypervisor, "the inventory"));
    figures.push(evidence("idle driver", "none", "/sys/devices/system/cpu/cpuidle/current_driver"));
    Finding {
        rule: RULE.name,
        title: format!(
            "this guest may halt its CPU at each wait of {}, and wait for the host to wake it up; what that costs was not measured",
            single.cell.named()
        ),
        reason: "Without an idle driver a guest that has nothing to do halts, unless `idle=poll` is on its command line, and its \
CPU may go to the host's scheduler. The completion of a request then has to bring it back. The idle driver haltpoll polls in \
the guest for a while before it halts."
            .into(),
        evidence: figures,
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(Remedy {
            what: "polling takes CPU time of the host, which other guests then lack; try `sudo modprobe cpuidle_haltpoll force=1`, \
and measure"
                .into(),
            settings: vec![],
            undo: "`sudo modprobe -r cpuidle_haltpoll`".into(),
        }),
        next: case.show_again(),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::summary::RunData;
    use domain::inventory::{Cpuidle, Virtualisation};
    use domain::trace::Role;

    fn machine(hypervisor: Option<&str>, driver: Option<&str>) -> Inventory {
        let virtualisation =
            Virtualisation { hypervisor: hypervisor.map(str::to_owned), ..Virtualisation::default() };
        let idle = |driver: &str| Cpuidle {
            driver: Some(driver.into()),
            governor: None,
            available_governors: vec![],
            states: vec![],
        };
        Inventory { virtualisation, cpuidle: driver.map(idle), ..bare_machine() }
    }

    fn reads(latency: f64) -> RunData {
        let mut data =
            fio_run(&[&with_depth("1")], move |_, _| vec![("throughput", 2e7), ("latency_p50", latency)]);
        with_thread(&mut data, "fio", Role::Workload, 300);
        data
    }

    #[test]
    fn a_guest_without_an_idle_driver_that_waits_for_short_requests_is_found() {
        let found = findings(RULE, &reads(1.2e-4), Some(&machine(Some("kvm"), None)), None).swap_remove(0);
        assert_eq!(found.confidence, Confidence::Possible);
        assert!(found.remedy.unwrap().what.starts_with("polling takes CPU time of the host"));
    }

    #[test]
    fn haltpoll_long_requests_bare_metal_and_the_lab_are_no_finding() {
        assert!(
            findings(RULE, &reads(1.2e-4), Some(&machine(Some("kvm"), Some("haltpoll"))), None).is_empty()
        );
        assert!(findings(RULE, &reads(5e-3), Some(&machine(Some("kvm"), None)), None).is_empty());
        assert!(findings(RULE, &reads(1.2e-4), Some(&machine(None, None)), None).is_empty());
        let mut lab = reads(1.2e-4);
        lab.run.provenance = Provenance::Lab;
        assert!(findings(RULE, &lab, Some(&machine(Some("kvm"), None)), None).is_empty());
    }

    #[test]
    fn an_unknown_machine_or_latency_is_no_evidence() {
        assert!(findings(RULE, &reads(1.2e-4), None, None).is_empty());
        let data = fio_run(&[&with_depth("1")], |_, _| vec![("throughput", 2e7)]);
        assert!(findings(RULE, &data, Some(&machine(Some("kvm"), None)), None).is_empty());
    }
}
