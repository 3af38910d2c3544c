//! CPUs were throttled for heat while trials ran.
//!
//! Source: `Documentation/ABI/testing/sysfs-devices-system-cpu` (`thermal_throttle/core_throttle_count`);
//! drivers/thermal/intel/therm_throt.c.

use super::Rule;
use crate::facts::case::{Case, evidence};
use crate::words::counted;
use domain::finding::{Confidence, Finding, Remedy};
use domain::trial::Validity;

pub(super) const RULE: Rule = Rule {
    name: "thermal-throttling",
    doc: "The processor throttled its CPUs for heat while trials ran.",
    needs: "the processor's count of throttling before and after each trial",
    source: "drivers/thermal/intel/therm_throt.c (`core_throttle_count`)",
    yields_to: &[],
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let told = |validity: &Validity| match validity {
        Validity::Disturbed(all) => all.iter().find(|d| d.kind == "throttled").map(|d| d.detail.clone()),
        _ => None,
    };
    let trials = &case.data.trials;
    let found: Vec<(String, String)> =
        trials.iter().filter_map(|trial| Some((trial.key.folder(), told(&trial.validity)?))).collect();
    let Some((key, detail)) = found.first() else { return Vec::new() };
    vec![Finding {
        rule: RULE.name,
        title: format!("the CPUs were throttled for heat in {} of {}", found.len(), counted(trials.len(), "trial")),
        reason: "A processor that reaches its temperature limit lowers its frequency, whatever the policy asks for. Such trials do \
not count: how fast they are depends on how hot the machine was."
            .into(),
        evidence: vec![evidence("the first of them", detail.clone(), key.clone())],
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(Remedy {
            what: "look at fans, dust and the temperature of the room; measure again when the machine stays cool, or limit its \
frequency for all levels alike"
                .into(),
            settings: vec![],
            undo: "nothing was changed".into(),
        }),
        next: case.show_again(),
        compared: vec![],
    }]
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use domain::trial::Disturbance;

    fn with(kind: &str, detail: &str) -> crate::summary::RunData {
        let mut data = fio_run(&["rw=read"], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        let disturbance = Disturbance { kind: kind.into(), detail: detail.into() };
        data.trials[2].validity = Validity::Disturbed(vec![disturbance]);
        data
    }

    #[test]
    fn trials_that_heat_slowed_down_are_counted() {
        let data = with("throttled", "CPUs were throttled for heat 2 times; the bound is none");
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert_eq!(found.title, "the CPUs were throttled for heat in 1 of 8 trials");
        assert!(found.evidence[0].figure.contains("2 times"));
    }

    #[test]
    fn other_disturbances_are_no_finding() {
        assert!(findings(RULE, &with("steal", "4%"), None, None).is_empty());
    }

    #[test]
    fn trials_that_count_are_no_evidence() {
        let data = fio_run(&["rw=read"], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        assert!(findings(RULE, &data, None, None).is_empty());
    }
}
