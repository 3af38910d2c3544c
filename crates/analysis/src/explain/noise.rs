//! Noise: trials of one cell differ by more than the study's threshold, so that small differences cannot be
//! seen.
//!
//! Maricq et al., "Taming performance variability", OSDI 2018, for how much that is on real machines.

use super::Rule;
use crate::facts::case::{Case, evidence};
use crate::stats::drift::drift;
use crate::stats::outlier::outliers;
use crate::summarise::{keys, values};
use crate::summary::CellSummary;
use crate::words::{counted, p_words, percent};
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::trial::{Provenance, Validity};
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    name: "noise",
    doc: "Identical trials differ by more than the study's threshold.",
    needs: "trials of one cell that are repeated",
    source: "Maricq et al., OSDI 2018",
    yields_to: &[],
    run,
};

/// A drift is named where chance alone would show it less often than this.
const DRIFT_ALPHA: f64 = 0.01;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let threshold = case.data.study.measure.threshold;
    let Some(floor) = case.summary.aa_floor.filter(|floor| *floor > threshold) else { return Vec::new() };
    let mut figures = vec![evidence(
        "identical trials differ by up to",
        format!("{} (95% of random halves), threshold {}", percent(floor), percent(threshold)),
        format!("{} trials of this run", case.summary.cells.iter().map(|c| c.points.len()).sum::<usize>()),
    )];
    figures.extend(widest(case));
    figures.extend(drifting(case, threshold));
    figures.extend(outlying(case));
    figures.extend(disturbed(case));
    let is_model = case.data.run.provenance == Provenance::Simulation;
    let steal = disturbances(case).contains_key("steal");
    let is_virtual = case.inventory.and_then(|i| i.is_virtual()) == Some(true);
    vec![Finding {
        rule: RULE.name,
        title: match is_model {
            true => format!("seeds alone make differences of up to {}", percent(floor)),
            false => format!("this machine is too noisy to see differences below {}", percent(floor)),
        },
        reason: if is_model { OF_SEEDS } else { reason(steal, is_virtual) }.into(),
        evidence: figures,
        confidence: Confidence::Shown,
        gain: None,
        remedy: Some(Remedy {
            what: match is_model {
                true => "simulate more often (`repeats`) or for longer (`runtime`)",
                false => "measure more often (`repeats`), longer (`runtime`), or when nothing else runs",
            }
            .into(),
            settings: vec![],
            undo: "nothing to undo: this is about the measurement, not the machine".into(),
        }),
        next: if is_model { format!("flyball show {}", case.data.run.id) } else { "flyball diagnose".into() },
        compared: vec![],
    }]
}

/// Why a model's trials differ.
const OF_SEEDS: &str = "Trials of a model differ in what is drawn at random: offsets, the angles of platters, which CPU is interrupted, and the \
sources of variation that the machine's file has.";

fn reason(steal: bool, is_virtual: bool) -> &'static str {
    if steal {
        "Other guests took CPU time from this virtual machine while trials ran (steal)."
    } else if is_virtual {
        "This is a virtual machine: other guests share its CPUs, caches and storage, and the hypervisor shows little of it."
    } else {
        "Other work, caches, the state of the device and the placement of threads differ from trial to trial."
    }
}

/// The cell whose values spread most.
fn widest(case: &Case<'_>) -> Option<Evidence> {
    let spread = |cell: &&CellSummary| cell.spread;
    let cell = case
        .summary
        .cells
        .iter()
        .filter(|c| spread(c).is_some())
        .max_by(|a, b| a.spread.partial_cmp(&b.spread).unwrap_or(std::cmp::Ordering::Equal))?;
    Some(evidence(
        format!("widest cell, {}", cell.cell),
        format!("half of its trials within {} of each other", percent(cell.spread?)),
        keys(cell),
    ))
}

fn drifting(case: &Case<'_>, threshold: f64) -> Option<Evidence> {
    let placed = |cell: &CellSummary| cell.points.iter().map(|p| (p.key.block, p.value)).collect();
    let cells: Vec<Vec<(u32, f64)>> = case.summary.cells.iter().map(placed).collect();
    let found = drift(&cells)
        .filter(|d| d.p < DRIFT_ALPHA && (d.ratio - 1.0).abs() > threshold && d.ratio.is_finite())?;
    let way = if found.ratio > 1.0 { "rose" } else { "fell" };
    let figure = format!(
        "all cells {way} by {} from the first block to the last ({})",
        percent((found.ratio - 1.0).abs()),
        p_words(found.p)
    );
    Some(evidence("drift", figure, "seasonal Kendall test over the blocks"))
}

fn outlying(case: &Case<'_>) -> Option<Evidence> {
    let of_cell = |cell: &CellSummary| {
        outliers(&values(cell)).into_iter().map(|index| cell.points[index].key.folder()).collect::<Vec<_>>()
    };
    let keys: Vec<String> = case.summary.cells.iter().flat_map(of_cell).collect();
    let first = keys.first()?;
    Some(evidence(
        "outliers",
        format!("{}, the first {first}", counted(keys.len(), "trial")),
        "modified z-score above 3.5",
    ))
}

fn disturbed(case: &Case<'_>) -> Option<Evidence> {
    let counts = disturbances(case);
    let kinds: Vec<String> =
        counts.iter().map(|(kind, count)| format!("{kind} in {}", counted(*count, "trial"))).collect();
    (!kinds.is_empty())
        .then(|| evidence("disturbed trials, not counted", kinds.join(", "), "guards during the trials"))
}

fn disturbances<'a>(case: &Case<'a>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for trial in &case.data.trials {
        let Validity::Disturbed(all) = &trial.validity else { continue };
        let mut kinds: Vec<&str> = all.iter().map(|d| d.kind.as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds.into_iter().for_each(|kind| *counts.entry(kind).or_insert(0) += 1);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bare_machine, findings, fio_run};
    use super::*;
    use domain::inventory::{Inventory, Virtualisation};
    use domain::trial::Disturbance;

    fn with_noise(share: f64) -> crate::summary::RunData {
        fio_run(&["rw=read", "rw=randread"], move |cell, block| {
            vec![("throughput", 1e8 * (1.0 + share * f64::from((block * 7 + cell as u32 * 5) % 11) / 10.0))]
        })
    }

    #[test]
    fn a_noisy_machine_is_found_with_its_floor_and_its_widest_cell() {
        let found = findings(RULE, &with_noise(0.3), None, None).swap_remove(0);
        assert_eq!(found.confidence, Confidence::Shown);
        let what: Vec<_> = found.evidence.iter().map(|e| e.what.as_str()).collect();
        assert!(what[0].starts_with("identical trials") && what[1].starts_with("widest cell"), "{what:?}");
    }

    #[test]
    fn a_models_seeds_are_no_noisy_machine() {
        let mut data = with_noise(0.3);
        data.run.provenance = Provenance::Simulation;
        let found = findings(RULE, &data, None, None).swap_remove(0);
        let told = format!("{} {} {} {}", found.title, found.reason, found.remedy.unwrap().what, found.next);
        assert!(told.starts_with("seeds alone"), "{told}");
        assert!(
            !["machine is", "Other work", "nothing else", "record"].iter().any(|word| told.contains(word)),
            "{told}"
        );
    }

    #[test]
    fn a_quiet_machine_or_too_few_trials_are_no_finding() {
        assert!(findings(RULE, &with_noise(0.01), None, None).is_empty());
        let mut few = with_noise(0.3);
        few.trials.retain(|t| t.key.block < 3);
        assert!(findings(RULE, &few, None, None).is_empty());
    }

    #[test]
    fn a_drift_is_told_apart_from_noise() {
        let data = fio_run(&["rw=read", "rw=randread"], |_, block| {
            vec![("throughput", 1e8 * 0.97_f64.powi(block as i32))]
        });
        let found = findings(RULE, &data, None, None).swap_remove(0);
        let drift = found.evidence.iter().find(|e| e.what == "drift").unwrap();
        assert!(drift.figure.starts_with("all cells fell by 19"), "{}", drift.figure);
        let steady = findings(RULE, &with_noise(0.3), None, None).swap_remove(0);
        assert!(steady.evidence.iter().all(|e| e.what != "drift"));
    }

    #[test]
    fn steal_is_named_as_the_cause_where_it_was_seen() {
        let mut data = with_noise(0.3);
        let steal = Disturbance { kind: "steal".into(), detail: "4% of CPU time".into() };
        data.trials[0].validity = Validity::Disturbed(vec![steal]);
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert!(found.reason.contains("(steal)"));
        assert!(found.evidence.iter().any(|e| e.figure == "steal in 1 trial"));
    }

    #[test]
    fn a_virtual_machine_is_named_as_one() {
        let virtualisation = Virtualisation { hypervisor_flag: Some(true), ..Virtualisation::default() };
        let machine = Inventory { virtualisation, ..bare_machine() };
        let found = findings(RULE, &with_noise(0.3), Some(&machine), None).swap_remove(0);
        assert!(found.reason.starts_with("This is a virtual machine"));
    }
}
