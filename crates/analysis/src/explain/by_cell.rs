//! What the cells of a study show each by its own trials and storage: causes that a comparison of cells does
//! not see, for all cells have them or no level is about them.

use super::pair::is_far_off;
use super::{Case, RULES, applied, noise, waiting};
use crate::facts::case::evidence;
use domain::finding::Finding;
use domain::ids::CellId;
use std::collections::BTreeSet;

/// So many cells are named in the evidence of a finding.
const MAX_NAMED: usize = 3;

/// Rules that have nothing to add of a cell: how much trials of the whole run differ, and that something was
/// waited for.
const OF_THE_RUN: [&str; 2] = [noise::RULE.name, waiting::RULE.name];

/// A cause with all cells that show it.
struct Cause {
    /// As the cell has it that shows it best.
    finding: Finding,
    /// That cell first.
    cells: Vec<CellId>,
}

/// The findings of single cells, each cause once. What the run's own findings say, `told`, is not said again,
/// nor what the study varies: the comparison is the better evidence, where it finds nothing as well. Nothing
/// is said of cells of which a model is far from what was published.
///
/// `cells` are cases of one cell each ([`Plan::study_of`](domain::plan::Plan::study_of)).
pub(super) fn found(case: &Case<'_>, told: &[Finding], cells: &[Case<'_>]) -> Vec<Finding> {
    let varied = varied(case);
    let named = cells.iter().filter_map(|cell| Some((&cell.summary.cells.first()?.cell, cell)));
    let judged: Vec<(&CellId, &Case<'_>)> = named.filter(|(id, _)| !is_far_off(case, (id, id))).collect();
    let mut causes: Vec<Cause> = Vec::new();
    for (id, cell) in &judged {
        let all = applied(cell).into_iter();
        let new = all.filter(|finding| !is_told(finding, told) && settings(finding).is_disjoint(&varied));
        new.for_each(|finding| count(&mut causes, id, finding));
    }
    causes.into_iter().map(|cause| as_one(cause, case, judged.len())).collect()
}

/// Counts a cell to its cause; once, where it has the cause of two devices.
fn count(causes: &mut Vec<Cause>, cell: &CellId, finding: Finding) {
    let is_same = |cause: &&mut Cause| {
        cause.finding.rule == finding.rule && settings(&cause.finding) == settings(&finding)
    };
    let Some(cause) = causes.iter_mut().find(is_same) else {
        causes.push(Cause { finding, cells: vec![cell.clone()] });
        return;
    };
    if is_clearer(&finding, &cause.finding) {
        cause.finding = finding;
        cause.cells.retain(|known| known != cell);
        cause.cells.insert(0, cell.clone());
    } else if !cause.cells.contains(cell) {
        cause.cells.push(cell.clone());
    }
}

/// The settings that levels of the study differ in.
fn varied<'a>(case: &Case<'a>) -> BTreeSet<&'a str> {
    let levels = case.data.study.factors.iter().flat_map(|factor| &factor.levels);
    levels.flat_map(|level| &level.settings).map(|request| request.setting.name.as_str()).collect()
}

/// The names of the settings that a finding's remedy writes.
fn settings(finding: &Finding) -> BTreeSet<&str> {
    let all = finding.remedy.iter().flat_map(|remedy| &remedy.settings);
    all.map(|request| request.setting.name.as_str()).collect()
}

fn is_told(finding: &Finding, told: &[Finding]) -> bool {
    let better = RULES.iter().find(|rule| rule.name == finding.rule).map_or(&[][..], |rule| rule.yields_to);
    let says = |rule: &str| finding.rule == rule || better.contains(&rule);
    OF_THE_RUN.contains(&finding.rule) || told.iter().any(|other| says(other.rule))
}

/// Whether it is the surer one, or as sure and of a larger gain.
fn is_clearer(finding: &Finding, other: &Finding) -> bool {
    let rank = |finding: &Finding| (finding.confidence, super::size(finding));
    let (new, old) = (rank(finding), rank(other));
    new.0 > old.0 || new.0 == old.0 && new.1 > old.1
}

/// The finding of the cell that shows it best, which says how many of those that were looked at show it.
fn as_one(cause: Cause, case: &Case<'_>, looked_at: usize) -> Finding {
    let Cause { mut finding, cells } = cause;
    let measured = case.summary.cells.iter().filter(|cell| !cell.points.is_empty()).count();
    let place = match cells.len() {
        1 => format!("cell {}", cells[0]),
        2 if measured == 2 => "both cells".to_owned(),
        all if all == measured => format!("all {all} cells"),
        some if looked_at == measured => format!("{some} of {measured} cells"),
        some => format!("{some} of the {looked_at} cells looked at"),
    };
    finding.title = format!("{} (in {place})", finding.title);
    let named: Vec<&str> = cells.iter().take(MAX_NAMED).map(CellId::as_str).collect();
    let more = match cells.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names = format!("{}{more}", named.join(", "));
    let source = "their trials";
    finding.evidence.insert(0, evidence("cells that show it, the clearest first", names, source));
    finding.next = format!("flyball explain {} --cell {}", case.data.run.id, cells[0]);
    finding
}

#[cfg(test)]
mod tests {
    use super::super::testing::{about, bare_machine, fio_run, setting_run, with_depth};
    use super::super::{explain_with, request_slots};
    use super::*;
    use crate::facts::usage::{DiskUsage, Usage};
    use crate::summarise::summarise;
    use crate::summary::{RunData, RunSummary};
    use domain::finding::Gain;
    use domain::ids::TrialKey;
    use domain::inventory::Inventory;
    use domain::plan::Plan;

    /// A cell by itself, in which so many requests were in flight.
    struct Alone {
        data: RunData,
        summary: RunSummary,
        usages: Vec<(TrialKey, Usage)>,
    }

    fn alone(data: &RunData, cell: usize, in_flight: f64) -> Alone {
        let plan = Plan::new(data.study.clone(), data.run.seed).unwrap();
        let id = &plan.cells[cell].id;
        let trials: Vec<_> = data.trials.iter().filter(|trial| trial.key.cell == *id).cloned().collect();
        let data = RunData { study: plan.study_of(id).unwrap(), trials, ..data.clone() };
        let disk =
            DiskUsage { device: "vda".into(), busy: 1.0, depth: Some(in_flight), ..DiskUsage::default() };
        let usage = Usage { disks: vec![disk], ..Usage::default() };
        Alone { summary: summarise(&data, None), usages: vec![(data.trials[0].key.clone(), usage)], data }
    }

    /// What is found of a run whose cells had so many requests in flight, on a disk that has places for four.
    fn found_of(data: &RunData, in_flight: &[f64]) -> Vec<Finding> {
        let mut machine = bare_machine();
        let queue = machine.devices[0].queue.as_mut().unwrap();
        (queue.nr_requests, queue.scheduler) = (Some(4), Some("mq-deadline".into()));
        let cells: Vec<Alone> =
            in_flight.iter().enumerate().map(|(cell, depth)| alone(data, cell, *depth)).collect();
        let case = |cell| of(cell, &machine);
        let cases: Vec<Case<'_>> = cells.iter().map(case).collect();
        let summary = summarise(data, None);
        let run = Case { inventory: Some(&machine), target_device: Some("vda"), ..Case::new(data, &summary) };
        explain_with(&run, &cases)
    }

    fn of<'a>(cell: &'a Alone, machine: &'a Inventory) -> Case<'a> {
        Case { inventory: Some(machine), usages: &cell.usages, ..Case::new(&cell.data, &cell.summary) }
    }

    fn three() -> RunData {
        fio_run(&["rw=randread", "rw=randread", "rw=randread"], |cell, block| {
            vec![("throughput", about(1e8, cell, block))]
        })
    }

    #[test]
    fn a_cause_of_several_cells_is_one_finding_that_names_them() {
        let slots = |in_flight: &[f64]| -> Vec<Finding> {
            let all = found_of(&three(), in_flight);
            all.into_iter().filter(|finding| finding.rule == request_slots::RULE.name).collect()
        };
        let [one] = &slots(&[3.9, 1.0, 4.0])[..] else { panic!() };
        assert!(one.title.starts_with("vda has places for 4 requests"), "{}", one.title);
        assert!(one.title.ends_with("(in 2 of 3 cells)"), "{}", one.title);
        assert_eq!(one.evidence[0].figure, "w0, w2");
        assert_eq!(one.next, "flyball explain s-1 --cell w0");
        assert!(slots(&[4.0, 1.0, 1.0])[0].title.ends_with("(in cell w0)"));
        assert!(slots(&[4.0, 4.0, 4.0])[0].title.ends_with("(in all 3 cells)"));
        assert!(slots(&[1.0, 4.0])[0].title.ends_with("(in cell w1)"));
        assert!(slots(&[4.0, 4.0])[0].title.ends_with("(in 2 of the 2 cells looked at)"));
        assert_eq!(slots(&[1.0, 1.0, 1.0]), []);
    }

    #[test]
    fn a_cell_that_has_it_of_two_devices_is_counted_once() {
        let data = three();
        let rule = request_slots::RULE;
        let of = |title: &str, ratio| {
            let gain = Gain { metric: "throughput".into(), low: 1.0, ratio, high: ratio };
            let found =
                found_of(&data, &[4.0]).into_iter().find(|finding| finding.rule == rule.name).unwrap();
            Finding { title: title.into(), gain: Some(gain), ..found }
        };
        let mut causes = Vec::new();
        let id = |cell: &str| CellId::from_stored(cell);
        for (cell, finding) in [("w0", of("a", 1.1)), ("w1", of("b", 1.2)), ("w0", of("c", 1.3))] {
            count(&mut causes, &id(cell), finding);
        }
        let [one] = &causes[..] else { panic!() };
        assert_eq!((one.finding.title.as_str(), &one.cells), ("c", &vec![id("w0"), id("w1")]));
    }

    #[test]
    fn what_the_study_varies_is_judged_by_its_comparison_alone() {
        let varied = |setting: &str| -> Vec<&'static str> {
            let data = setting_run(setting, &["4", "64"], |level, block| about(1e8, level, block));
            found_of(&data, &[4.0, 4.0]).into_iter().map(|finding| finding.rule).collect()
        };
        assert!(!varied("nr_requests@vda").contains(&request_slots::RULE.name));
        assert!(varied("read_ahead_kb@vda").contains(&request_slots::RULE.name));
    }

    #[test]
    fn what_the_run_shows_is_not_said_again_of_its_cells() {
        let deep = with_depth("200");
        let data = fio_run(&[&deep, &deep], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        let of_cells = |data: &RunData, in_flight: &[f64]| -> Vec<String> {
            let all = found_of(data, in_flight).into_iter();
            let slots = all.filter(|finding| finding.rule == request_slots::RULE.name);
            slots.map(|finding| finding.title).collect()
        };
        let [one] = &of_cells(&data, &[4.0, 4.0])[..] else { panic!() };
        assert!(one.contains(" keeps 200 requests in flight") && !one.contains("(in "), "{one}");
    }
}
