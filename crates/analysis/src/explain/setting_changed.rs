//! Another program changed settings while trials ran.
//!
//! Sources: `Documentation/admin-guide/pm/cpufreq.rst`; tuned(8), tlp(8), thermald(8).

use super::Rule;
use crate::facts::case::{Case, evidence};
use crate::words::{counted, listed};
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::trial::Validity;

pub(super) const RULE: Rule = Rule {
    name: "setting-changed",
    doc: "Another program changed a setting while trials ran.",
    needs: "settings that trials read again after their workload; programs that change settings, in the inventory",
    source: "Documentation/admin-guide/pm/cpufreq.rst; tuned(8), tlp(8), thermald(8)",
    yields_to: &[],
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let told = |validity: &Validity| match validity {
        Validity::Disturbed(all) => {
            all.iter().find(|d| d.kind == "setting-changed").map(|d| d.detail.clone())
        }
        _ => None,
    };
    let trials = &case.data.trials;
    let found: Vec<(String, String)> =
        trials.iter().filter_map(|trial| Some((trial.key.folder(), told(&trial.validity)?))).collect();
    let Some((key, detail)) = found.first() else { return Vec::new() };
    let running: Vec<&str> = case
        .inventory
        .map_or(&[][..], |inventory| inventory.rivals.as_slice())
        .iter()
        // It moves interrupts, and writes no setting that a trial has.
        .filter(|rival| rival.running && rival.name != "irqbalance")
        .map(|rival| rival.name.as_str())
        .collect();
    let figures = [evidence("the first of them", detail.clone(), key.clone())];
    let rivals = running
        .iter()
        .map(|name| evidence("a program that runs and changes settings", *name, "the inventory"));
    vec![finding(case, found.len(), &running, figures.into_iter().chain(rivals).collect())]
}

fn finding(case: &Case<'_>, count: usize, running: &[&str], figures: Vec<Evidence>) -> Finding {
    let all = counted(case.data.trials.len(), "trial");
    let names: Vec<String> = running.iter().map(|name| (*name).to_owned()).collect();
    let units = names.join(" ");
    Finding {
        rule: RULE.name,
        title: match names.is_empty() {
            true => format!("another program changed a setting in {count} of {all}"),
            false => format!("a setting changed in {count} of {all}, and {} runs here", listed(&names)),
        },
        reason: "A trial reads its settings again after its workload. One that has another value then was written by somebody \
else, or was not kept by the kernel. Such trials do not count."
            .into(),
        evidence: figures,
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(match names.is_empty() {
            true => Remedy {
                what: "find out who writes it".into(),
                settings: vec![],
                undo: "nothing was changed".into(),
            },
            false => Remedy {
                what: format!("stop it while you measure: `sudo systemctl stop {units}`"),
                settings: vec![],
                undo: format!("`sudo systemctl start {units}`"),
            },
        }),
        next: case.show_again(),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use domain::inventory::{Inventory, Rival};
    use domain::trial::Disturbance;

    fn with(kind: &str) -> crate::summary::RunData {
        let mut data = fio_run(&["rw=read"], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        let detail = "`governor` was `performance` before the workload and is `powersave` after it".into();
        data.trials[1].validity = Validity::Disturbed(vec![Disturbance { kind: kind.into(), detail }]);
        data
    }

    fn machine(running: bool) -> Inventory {
        let rival = Rival {
            name: "tuned".into(),
            running,
            enabled: Some(true),
            profile: None,
            changes: "governors".into(),
        };
        Inventory { rivals: vec![rival], ..bare_machine() }
    }

    #[test]
    fn a_setting_that_changed_is_told_with_who_may_have_changed_it() {
        let found = findings(RULE, &with("setting-changed"), Some(&machine(true)), None).swap_remove(0);
        assert_eq!(found.title, "a setting changed in 1 of 8 trials, and tuned runs here");
        assert_eq!(found.remedy.unwrap().undo, "`sudo systemctl start tuned`");
        let unknown = findings(RULE, &with("setting-changed"), None, None).swap_remove(0);
        assert_eq!(unknown.title, "another program changed a setting in 1 of 8 trials");
    }

    #[test]
    fn a_rival_that_changed_nothing_and_other_disturbances_are_no_finding() {
        assert!(findings(RULE, &with("steal"), Some(&machine(true)), None).is_empty());
        let stopped = findings(RULE, &with("setting-changed"), Some(&machine(false)), None).swap_remove(0);
        assert!(!stopped.title.contains("tuned"));
    }

    #[test]
    fn trials_that_count_are_no_evidence() {
        let data = fio_run(&["rw=read"], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        assert!(findings(RULE, &data, Some(&machine(true)), None).is_empty());
    }
}
