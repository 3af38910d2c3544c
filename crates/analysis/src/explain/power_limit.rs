//! A busy CPU ran below its base frequency although its policy asks for all that there is: power, current or
//! heat limit it.
//!
//! Sources: Intel SDM volume 3, "Power and thermal management" (`IA32_THERM_STATUS`,
//! `MSR_PKG_POWER_LIMIT`); `Documentation/power/powercap/powercap.rst`.

use super::Rule;
use super::low_frequency::{Slow, is_held_high, slowest};
use crate::facts::case::Case;
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::trial::Provenance;

pub(super) const RULE: Rule = Rule {
    name: "power-limit",
    doc: "A busy CPU ran below its base frequency although the policy asks for the highest: power or heat limit it.",
    needs: "a recording's trace: APERF and MPERF (root, and not in most virtual machines); policies and base frequency in the inventory",
    source: "Intel SDM volume 3 (power and thermal management); Documentation/power/powercap/powercap.rst",
    // A cap that somebody set is lifted first.
    yields_to: &["frequency-capped"],
    run,
};

/// A CPU that wakes up often changes its frequency often, and may be on its way up.
const MIN_AWAKE: f64 = 0.8;

/// The base is what a processor keeps up within its power, so that a little below it is a limit already.
const MAX_SHARE: f64 = 0.9;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let found = slowest(case, MIN_AWAKE, MAX_SHARE, is_held_high);
    found.map(|slow| finding(case, &slow)).into_iter().collect()
}

fn finding(case: &Case<'_>, slow: &Slow<'_>) -> Finding {
    Finding {
        rule: RULE.name,
        title: format!(
            "CPU {} ran at {} while it was busy {} of the time, though its policy asks for more than {}",
            slow.cpu,
            slow.frequency(),
            percent(slow.awake.share),
            slow.allowed
        ),
        reason: "No policy of the kernel holds this CPU back. The processor lowers the frequency by itself where the package \
reaches a limit of power, current or temperature, or runs wide vector instructions. The firmware or a service processor \
may set such limits."
            .into(),
        evidence: slow.figures(),
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(Remedy {
            what: "look at cooling, at power limits of the firmware and at those of `/sys/class/powercap`; a higher one costs energy \
and heat"
                .into(),
            settings: vec![],
            undo: "nothing was changed".into(),
        }),
        next: match case.data.run.provenance {
            Provenance::Host => "sudo turbostat --quiet --num_iterations 3".into(),
            _ => case.next_look(),
        },
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::facts::usage::{Awake, Usage};
    use domain::inventory::{CpuList, Inventory, Policy};
    use domain::units::Hertz;

    fn machine(governor: &str, max_mhz: Option<u64>) -> Inventory {
        machine_with(Policy {
            governor: Some(governor.into()),
            base: Some(Hertz::from_mhz(2400)),
            max: max_mhz.map(Hertz::from_mhz),
            cpus: CpuList::parse("0-1").unwrap(),
            ..Policy::default()
        })
    }

    fn ran(share: f64, mhz: f64) -> Usage {
        Usage { awake: vec![(0, Awake { share, hertz: mhz * 1e6 })], ..Usage::default() }
    }

    #[test]
    fn a_busy_cpu_that_is_slower_than_its_policy_asks_is_found() {
        let found =
            findings_of_usage(RULE, &ran(0.97, 1900.0), Some(&machine("performance", None))).swap_remove(0);
        assert!(found.title.starts_with("CPU 0 ran at 1.90 GHz while it was busy 97%"), "{}", found.title);
        assert!(found.remedy.unwrap().settings.is_empty());
    }

    #[test]
    fn an_idle_cpu_the_base_a_limit_in_force_and_a_saving_policy_are_no_finding() {
        assert!(findings_of_usage(RULE, &ran(0.3, 1900.0), Some(&machine("performance", None))).is_empty());
        assert!(findings_of_usage(RULE, &ran(0.97, 2390.0), Some(&machine("performance", None))).is_empty());
        assert!(
            findings_of_usage(RULE, &ran(0.97, 1890.0), Some(&machine("performance", Some(1900)))).is_empty()
        );
        assert!(findings_of_usage(RULE, &ran(0.97, 1900.0), Some(&machine("schedutil", None))).is_empty());
    }

    #[test]
    fn without_counters_nothing_is_said() {
        assert!(findings_of_usage(RULE, &Usage::default(), Some(&machine("performance", None))).is_empty());
        assert!(findings_of_usage(RULE, &ran(0.97, 1900.0), None).is_empty());
    }
}
