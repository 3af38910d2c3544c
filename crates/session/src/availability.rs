//! What this machine cannot run of a plan, as far as it is known before anything is made or changed: a tool
//! that is not installed, storage that the kernel cannot build, a frequency policy that there is none of, a
//! limit on latency that the kernel knows nothing of.
//!
//! Non-goal: what shows only when it is tried, such as a network's queueing discipline. Such a cell is
//! skipped when its turn comes.

use analysis::words::by_reason;
use domain::ids::CellId;
use domain::plan::{Cell, Plan};
use domain::stack::Stack;
use domain::study::{Tool, Workload};
use machine::LocalMachine;
use machine::settings::{without_latency_device, without_policy};
use runner::tools;
use std::collections::{BTreeMap, BTreeSet};

/// So many cells are named of those that have one reason in common.
const MAX_NAMED: usize = 6;

/// Looks for what cells need, once for all cells that need the same.
#[derive(Debug, Default)]
pub struct Availability<'a> {
    tools: Vec<(&'a Tool, Option<String>)>,
    stacks: Vec<(&'a Stack, Option<String>)>,
}

impl<'a> Availability<'a> {
    /// Everything that stands against a cell on this machine.
    pub fn against(&mut self, cell: &'a Cell) -> Vec<String> {
        let stack = cell.stack.as_ref().and_then(|stack| self.stack(stack));
        let settings = cell.settings.iter().map(|request| &request.setting);
        let policy = settings.clone().find_map(|setting| without_policy(&LocalMachine, setting));
        let latency = settings.clone().find_map(|setting| without_latency_device(&LocalMachine, setting));
        let missing = policy.into_iter().chain(latency).map(|error| error.to_string());
        let beside = cell.beside.iter().map(|companion| &companion.load.tool);
        let tools = std::iter::once(&cell.workload.tool).chain(beside);
        let tools: BTreeSet<String> = tools.filter_map(|tool| self.tool(tool)).collect();
        tools.into_iter().chain(stack).chain(missing).collect()
    }

    fn tool(&mut self, tool: &'a Tool) -> Option<String> {
        if let Some((_, known)) = self.tools.iter().find(|(other, _)| *other == tool) {
            return known.clone();
        }
        // What does not start for another reason may start later.
        let missing = match tools::detect(&LocalMachine, tool) {
            Err(error @ (runner::Error::MissingTool { .. } | runner::Error::Unsupported(_))) => {
                Some(error.to_string())
            }
            _ => None,
        };
        self.tools.push((tool, missing.clone()));
        missing
    }

    fn stack(&mut self, stack: &'a Stack) -> Option<String> {
        if let Some((_, known)) = self.stacks.iter().find(|(other, _)| *other == stack) {
            return known.clone();
        }
        let lacking = machine::stack::lacking(stack);
        self.stacks.push((stack, lacking.clone()));
        lacking
    }
}

/// The cells of a plan that cannot be run here, by their place in it, and why.
pub(crate) fn unavailable(plan: &Plan) -> BTreeMap<usize, String> {
    let mut availability = Availability::default();
    let reasons = plan.cells.iter().enumerate().map(|(index, cell)| (index, availability.against(cell)));
    reasons.filter(|(_, all)| !all.is_empty()).map(|(index, all)| (index, all.join("; and "))).collect()
}

/// The cells of a plan that no lab machine can run, by their place in it, and why.
pub(crate) fn not_in_the_lab(plan: &Plan) -> BTreeMap<usize, String> {
    let reasons = plan.cells.iter().enumerate().map(|(index, cell)| Some((index, disturbs_pacing(cell)?)));
    reasons.flatten().collect()
}

/// A workload is watched for requests before its CPUs are paced, and those of a load beside it are none of
/// its own.
pub(crate) fn disturbs_pacing(cell: &Cell) -> Option<String> {
    cell.pstates.as_ref()?;
    let mut loads = cell.beside.iter().map(|companion| &companion.load);
    let load = loads.find(|load| works_on_the_target(load))?;
    Some(format!(
        "the load `{}` works on the target before the CPUs are paced, and with virtual P-states nothing may; \
         have it keep CPUs busy (`ioengine = \"cpuio\"`), or leave `pstates` out",
        load.name
    ))
}

fn works_on_the_target(load: &Workload) -> bool {
    match load.tool.command() {
        Some((argv, _)) => argv.iter().any(|word| word.contains("{target}")),
        None => !workloads::of(&load.tool).is_of_the_cpu(&load.options),
    }
}

/// Which cells cannot be run here, in words, each reason once; nothing where all can.
pub fn unavailable_in_words(all: usize, cannot: &[(&CellId, &str)]) -> Vec<String> {
    let mut lines = Vec::new();
    match (cannot.len(), all) {
        (0, _) => return lines,
        (some, all) if some == all => lines.push(format!("none of the {all} cells can be run here:")),
        (some, all) => lines.push(format!("{} of {all} cells can be run here; {some} cannot:", all - some)),
    }
    let cells = cannot.iter().map(|(cell, why)| (cell.to_string(), *why));
    for (why, named, count) in by_reason(cells, MAX_NAMED) {
        let left = count - named.len();
        let named = named.join(", ");
        let more = if left > 0 { format!(" and {left} more") } else { String::new() };
        lines.push(format!("  {why}"));
        lines.push(format!("    {named}{more}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::Nanos;
    use domain::study::Companion;

    fn cell(load: Workload, pstates: Option<&str>) -> Cell {
        Cell {
            id: CellId::new(["read"]),
            workload: load.clone(),
            levels: BTreeMap::new(),
            settings: Vec::new(),
            beside: vec![Companion { load, lead: Nanos::ZERO }],
            stack: None,
            kernel: None,
            machine: None,
            pstates: pstates.map(str::to_owned),
        }
    }

    fn load(tool: Tool, options: &[(&str, &str)]) -> Workload {
        let options = options.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Workload { name: "neighbour".into(), tool, options }
    }

    fn command(word: &str) -> Workload {
        load(Tool::Command { argv: vec!["no-such-program".into(), word.into()], metrics: vec![] }, &[])
    }

    #[test]
    fn what_a_load_beside_lacks_as_its_workload_does_is_told_once() {
        let cell = cell(command("x"), None);
        assert_eq!(Availability::default().against(&cell).len(), 1);
    }

    #[test]
    fn where_cpus_are_paced_no_load_beside_works_on_the_target() {
        let reads = load(Tool::Fio, &[("rw", "randread")]);
        let why = disturbs_pacing(&cell(reads.clone(), Some("laptop-5"))).unwrap();
        assert!(why.starts_with("the load `neighbour` works on the target"), "{why}");
        assert!(disturbs_pacing(&cell(command("{target}"), Some("laptop-5"))).is_some());
        let computes = load(Tool::Fio, &[("ioengine", "cpuio")]);
        for (load, pstates) in [(reads, None), (computes, Some("laptop-5")), (command("x"), Some("laptop-5"))]
        {
            assert_eq!(disturbs_pacing(&cell(load, pstates)), None);
        }
    }

    #[test]
    fn cells_with_one_reason_are_told_together() {
        let ids: Vec<CellId> = (0..9).map(|n| CellId::new(["read", &n.to_string()])).collect();
        let why = |n: usize| if n == 3 { "no tool" } else { "no array" };
        let all: Vec<(&CellId, &str)> = ids.iter().enumerate().map(|(n, id)| (id, why(n))).collect();
        assert!(unavailable_in_words(9, &[]).is_empty());
        assert_eq!(unavailable_in_words(9, &all)[0], "none of the 9 cells can be run here:");
        let lines = [
            "3 of 12 cells can be run here; 9 cannot:",
            "  no array",
            "    read_0, read_1, read_2, read_4, read_5, read_6 and 2 more",
            "  no tool",
            "    read_3",
        ];
        assert_eq!(unavailable_in_words(12, &all), lines);
    }
}
