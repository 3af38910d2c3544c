//! The kernel reads the time from a device outside the CPU, at each request.
//!
//! Sources: arch/x86/kernel/tsc.c (`mark_tsc_unstable`), hpet.c; block/blk-core.c (a request's times are read
//! at its start and its end); `Documentation/admin-guide/kernel-parameters.txt` (`clocksource=`).

use super::Rule;
use crate::facts::case::{Case, CaseCell, evidence};
use domain::finding::{Confidence, Finding, Remedy};
use domain::trial::Provenance;
use domain::units::Unit;

pub(super) const RULE: Rule = Rule {
    name: "slow-clock",
    doc: "The kernel reads the time from a device outside the CPU, several times for each request.",
    needs: "the clock source in the inventory; requests a second of cells",
    source: "arch/x86/kernel/tsc.c (`mark_tsc_unstable`); Documentation/admin-guide/kernel-parameters.txt (`clocksource=`)",
    yields_to: &[],
    run,
};

/// Clocks that are read over a bus, or have the resolution of the tick.
const SLOW: &[&str] = &["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

/// Fewer requests a second read it too rarely for that to count.
const MIN_RATE: f64 = 10_000.0;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let clock = case.inventory.and_then(|inventory| inventory.kernel.clocksource.as_deref());
    let Some(clock) = clock.filter(|clock| SLOW.contains(clock)) else { return Vec::new() };
    let cells = case.cells();
    let rates = cells.iter().filter_map(|cell| Some((cell, cell.metric("iops")?)));
    let most = rates.filter(|(_, rate)| *rate >= MIN_RATE).max_by(|(_, a), (_, b)| a.total_cmp(b));
    most.map(|(cell, rate)| finding(case, clock, cell, rate)).into_iter().collect()
}

fn finding(case: &Case<'_>, clock: &str, cell: &CaseCell<'_>, rate: f64) -> Finding {
    let rate = Unit::PerSecond.show(rate);
    Finding {
        rule: RULE.name,
        title: format!("the kernel reads the time from {clock}, and {} makes {rate} requests; what that costs was not measured", cell.named()),
        reason: "The time is read when a request begins and ends, and by the workload besides. The CPU reads its own \
counter (tsc) by itself. This clock is read over a bus, or has the resolution of the tick. The kernel leaves tsc where it finds it unstable, or where \
it is told to."
            .into(),
        evidence: vec![
            evidence("clock source", clock, "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            evidence("requests", rate, cell.source()),
        ],
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(Remedy {
            what: "find out why the kernel does not use tsc (its log, the command line's `clocksource=`, the firmware), and correct \
that; a tsc that is unstable in fact gives wrong times"
                .into(),
            settings: vec![],
            undo: "nothing was changed".into(),
        }),
        next: match case.data.run.provenance {
            Provenance::Host => "sudo dmesg | grep -i -E 'tsc|clocksource'".into(),
            _ => case.next_look(),
        },
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn of(clock: Option<&str>, rate: f64) -> Vec<Finding> {
        let data =
            fio_run(&[&with_depth("32")], move |_, _| vec![("throughput", rate * 4096.0), ("iops", rate)]);
        let mut machine = bare_machine();
        machine.kernel.clocksource = clock.map(str::to_owned);
        findings(RULE, &data, Some(&machine), None)
    }

    #[test]
    fn many_requests_with_a_slow_clock_are_found() {
        let found = of(Some("hpet"), 250e3).swap_remove(0);
        assert!(
            found.title.starts_with("the kernel reads the time from hpet, and w0 makes 250 k/s requests")
        );
        assert!(found.remedy.unwrap().settings.is_empty());
    }

    #[test]
    fn fast_clocks_and_few_requests_are_no_finding() {
        assert!(of(Some("tsc"), 250e3).is_empty());
        assert!(of(Some("kvm-clock"), 250e3).is_empty());
        assert!(of(Some("hpet"), 200.0).is_empty());
    }

    #[test]
    fn an_unknown_clock_or_rate_is_no_evidence() {
        assert!(of(None, 250e3).is_empty());
        let data = fio_run(&[&with_depth("32")], |_, _| vec![("throughput", 1e9)]);
        let mut machine = bare_machine();
        machine.kernel.clocksource = Some("hpet".into());
        assert!(findings(RULE, &data, Some(&machine), None).is_empty());
    }
}
