//! The study of a run whose file this version does not read, as its trials describe it.
//!
//! A notebook is kept for longer than a study's format. What was measured is in the trials: which workload,
//! which levels, which figures. What only the file says is not made up: the options, the target and the
//! precision stay empty or at their defaults, the question says what is missing, and the levels of a factor
//! are in the order of their names, for the file alone says which is the baseline.

use domain::ids::CellId;
use domain::lab::Lab;
use domain::stack::Changes;
use domain::study::{Factor, Level, Measure, Sim, Study, Target, Workload};
use domain::trial::{Run, Trial};
use std::collections::{BTreeMap, BTreeSet};

/// With more factors the order of them in the names of cells is not looked for.
const MAX_FACTORS: usize = 6;

/// The study whose plan has exactly the names of the cells that these trials are of; `None` where they do
/// not tell it.
pub(crate) fn study_of(run: &Run, trials: &[Trial]) -> Option<Study> {
    let cells: BTreeMap<&CellId, &Trial> = trials.iter().map(|trial| (&trial.key.cell, trial)).collect();
    if cells.is_empty() {
        return None;
    }
    let names: BTreeSet<&str> =
        trials.iter().flat_map(|trial| trial.levels.keys().map(String::as_str)).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let order = (names.len() <= MAX_FACTORS).then(|| orders(&names)).into_iter().flatten();
    let order =
        order.into_iter().find(|order| cells.iter().all(|(cell, trial)| is_named(cell, trial, order)))?;
    let workloads: BTreeSet<&str> = trials.iter().map(|trial| trial.workload.as_str()).collect();
    Some(Study {
        name: run.study.clone(),
        question: format!("What did the run {} measure? This version cannot read its study's file", run.id),
        primary: Vec::new(),
        target: Target::None,
        stack: None,
        factors: order.iter().map(|name| factor(name, trials, &workloads)).collect(),
        workloads: workloads.into_iter().map(workload).collect::<Option<_>>()?,
        beside: Vec::new(),
        settings: Vec::new(),
        measure: Measure { metric: deciding(trials), ..Measure::default() },
        lab: Lab::default(),
        sim: Sim::default(),
        published: Vec::new(),
        page: None,
    })
}

/// Whether a cell is named by its workload and its levels, the factors in this order.
fn is_named(cell: &CellId, trial: &Trial, order: &[&str]) -> bool {
    let levels = order.iter().filter_map(|factor| trial.levels.get(*factor).map(String::as_str));
    CellId::new(std::iter::once(trial.workload.as_str()).chain(levels)) == *cell
}

/// All orders of some names.
fn orders<'n>(names: &[&'n str]) -> Vec<Vec<&'n str>> {
    let Some((first, rest)) = names.split_first() else { return vec![Vec::new()] };
    let with_first = |order: Vec<&'n str>| {
        (0..=order.len()).map(move |at| [&order[..at], &[*first], &order[at..]].concat()).collect::<Vec<_>>()
    };
    orders(rest).into_iter().flat_map(with_first).collect()
}

fn factor(name: &str, trials: &[Trial], workloads: &BTreeSet<&str>) -> Factor {
    let having = || trials.iter().filter(|trial| trial.levels.contains_key(name));
    let levels: BTreeSet<&str> = having().map(|trial| trial.levels[name].as_str()).collect();
    let of: BTreeSet<&str> = having().map(|trial| trial.workload.as_str()).collect();
    let level = |level: &str| Level {
        name: level.to_owned(),
        options: BTreeMap::new(),
        settings: Vec::new(),
        stack: Changes::new(),
        beside: Default::default(),
        kernel: None,
        machine: None,
        pstates: None,
    };
    Factor {
        name: name.to_owned(),
        levels: levels.into_iter().map(level).collect(),
        workloads: if of == *workloads { Vec::new() } else { of.into_iter().map(str::to_owned).collect() },
    }
}

/// As one that was imported: its results are shown and compared, and it is not run again.
fn workload(name: &str) -> Option<Workload> {
    let tool = workloads::named("imported")?.in_study()?;
    Some(Workload { name: name.to_owned(), tool, options: BTreeMap::new() })
}

/// The usual metric where any trial reports it, else the one that most do.
fn deciding(trials: &[Trial]) -> String {
    let usual = Measure::default().metric;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for measured in trials.iter().filter_map(|trial| trial.measurement.as_ref()) {
        for name in measured.outcome.metrics.keys() {
            *counts.entry(name).or_default() += 1;
        }
    }
    if counts.contains_key(usual.as_str()) {
        return usual;
    }
    // Of equals the first by name.
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map_or(usual, |(name, _)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::{RunId, TrialKey};
    use domain::plan::Plan;
    use domain::rng::Seed;
    use domain::time::Timestamp;
    use domain::trial::{Provenance, Validity};

    fn run() -> Run {
        Run {
            id: RunId("s-1".into()),
            study: "s".into(),
            study_text: "of another version".into(),
            seed: Seed(1),
            started: Timestamp::default(),
            finished: None,
            provenance: Provenance::Host,
            machine: "m".into(),
            flyball: "0.1.0".into(),
            revision: None,
            command: Vec::new(),
        }
    }

    fn trial(cell: &str, workload: &str, levels: &[(&str, &str)]) -> Trial {
        Trial {
            run: run().id,
            key: TrialKey::first(CellId::from_stored(cell)),
            study: "s".into(),
            workload: workload.into(),
            levels: levels.iter().map(|(factor, level)| ((*factor).into(), (*level).into())).collect(),
            provenance: Provenance::Host,
            machine: "m".into(),
            started: Timestamp::default(),
            settings: Vec::new(),
            environment: BTreeMap::new(),
            validity: Validity::Valid,
            measurement: None,
            lab: None,
            origin: None,
        }
    }

    #[test]
    fn the_plan_of_a_described_study_has_the_cells_of_the_trials() {
        let cells = ["read_4k_on", "read_4k_off", "read_64k_on", "read_64k_off", "idle_on", "idle_off"];
        let of = |cell: &&str| match cell.split('_').collect::<Vec<_>>()[..] {
            [workload, size, on] => trial(cell, workload, &[("size", size), ("ahead", on)]),
            [workload, on] => trial(cell, workload, &[("ahead", on)]),
            _ => unreachable!("cells have two parts or three"),
        };
        let trials: Vec<Trial> = cells.iter().map(of).collect();
        let plan = Plan::new(study_of(&run(), &trials).unwrap(), Seed(1)).unwrap();
        let mut planned: Vec<&str> = plan.cells.iter().map(|cell| cell.id.as_str()).collect();
        let mut measured = cells;
        planned.sort_unstable();
        measured.sort_unstable();
        assert_eq!(planned, measured);
        for cell in &plan.cells {
            let trial = trials.iter().find(|trial| trial.key.cell == cell.id).unwrap();
            assert_eq!((&cell.levels, &cell.workload.name), (&trial.levels, &trial.workload));
        }
    }

    #[test]
    fn trials_that_do_not_name_their_cells_by_their_levels_describe_nothing() {
        assert_eq!(study_of(&run(), &[]), None);
        assert_eq!(study_of(&run(), &[trial("read_4k_on", "read", &[("size", "4k")])]), None);
        let many: Vec<String> = (0..=MAX_FACTORS).map(|n| format!("f{n}")).collect();
        let levels: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "x")).collect();
        assert_eq!(study_of(&run(), &[trial("read_x_x_x_x_x_x_x", "read", &levels)]), None);
    }
}
