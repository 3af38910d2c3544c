//! Trials ran on battery, where firmware and daemons save energy.
//!
//! Source: `Documentation/ABI/testing/sysfs-class-power` (`online` of a mains supply).

use super::Rule;
use crate::facts::case::{Case, evidence};
use crate::words::counted;
use domain::finding::{Confidence, Finding, Remedy};

pub(super) const RULE: Rule = Rule {
    name: "on-battery",
    doc: "Trials ran on battery, where firmware and daemons lower frequencies and power.",
    needs: "the power supply that trials read at their start",
    source: "Documentation/ABI/testing/sysfs-class-power",
    yields_to: &[],
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let valid: Vec<_> = case.data.trials.iter().filter(|trial| trial.validity.is_valid()).collect();
    let on = |supply: &str| {
        valid
            .iter()
            .filter(|trial| trial.environment.get("power_source").is_some_and(|it| it == supply))
            .count()
    };
    let (battery, mains) = (on("battery"), on("mains"));
    if battery == 0 {
        return Vec::new();
    }
    let policy = case.show_again();
    vec![Finding {
        rule: RULE.name,
        title: match mains {
            0 => format!("{} ran on battery", counted(battery, "trial")),
            _ => format!("{} ran on battery and {mains} on mains: they are not alike", counted(battery, "trial")),
        },
        reason: "On battery the firmware may lower the limits of power and turbo, and daemons such as TLP, tuned or \
power-profiles-daemon may choose a saving policy. What is measured there holds there. What that costs was not measured."
            .into(),
        evidence: vec![
            evidence("trials on battery", battery.to_string(), "/sys/class/power_supply at each trial's start"),
            evidence("trials on mains", mains.to_string(), "/sys/class/power_supply at each trial's start"),
        ],
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(Remedy {
            what: "connect the machine to mains, and measure again".into(),
            settings: vec![],
            undo: "nothing was changed".into(),
        }),
        next: policy,
        compared: vec![],
    }]
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn quiet() -> crate::summary::RunData {
        fio_run(&["rw=read"], |cell, block| vec![("throughput", about(1e8, cell, block))])
    }

    #[test]
    fn trials_on_battery_are_counted_and_a_mixture_is_told() {
        let mut data = quiet();
        with_environment(&mut data, &[("power_source", "battery")]);
        assert_eq!(findings(RULE, &data, None, None)[0].title, "8 trials ran on battery");
        for trial in &mut data.trials[..3] {
            trial.environment.insert("power_source".into(), "mains".into());
        }
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert_eq!(found.title, "5 trials ran on battery and 3 on mains: they are not alike");
    }

    #[test]
    fn mains_is_no_finding() {
        let mut data = quiet();
        with_environment(&mut data, &[("power_source", "mains")]);
        assert!(findings(RULE, &data, None, None).is_empty());
    }

    #[test]
    fn a_machine_without_a_choice_is_no_evidence() {
        assert!(findings(RULE, &quiet(), None, None).is_empty());
    }
}
