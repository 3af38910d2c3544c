//! A plan: the cells of a study, and the order of each block.

use crate::ids::{CellId, TrialKey};
use crate::order;
use crate::rng::Seed;
use crate::setting::SettingRequest;
use crate::stack::{Changes, Stack, StackError};
use crate::study::{Companion, Study, Target, Tool, Workload};
use std::collections::BTreeMap;

/// One combination of levels with a workload, its options and settings resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its name.
    pub id: CellId,
    /// The workload, with the levels' options merged into its own.
    pub workload: Workload,
    /// The loads that run beside it, in the order of the file.
    pub beside: Vec<Companion>,
    /// Factor name to level name, of the factors that apply.
    pub levels: BTreeMap<String, String>,
    /// The study's settings and then the levels', later ones winning.
    pub settings: Vec<SettingRequest>,
    /// The storage that is built for it, where the study has a stack.
    pub stack: Option<Stack>,
    /// The kernel of a lab machine, where the study or a level names one.
    pub kernel: Option<String>,
    /// The machine file of the simulation, where the study or a level names one.
    pub machine: Option<String>,
    /// The table of P-states of a lab machine, where the study or a level names one.
    pub pstates: Option<String>,
}

/// The cells of a study and the seed that orders them.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What is measured.
    pub study: Study,
    /// In the order of the file: workloads outermost, the last factor varying fastest.
    pub cells: Vec<Cell>,
    /// Decides the order of each block.
    pub seed: Seed,
}

/// Why a study has no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Two cells would carry one name.
    #[error("two cells are both named `{0}`; give the levels names that differ in letters, digits or `-`")]
    SameName(CellId),
    /// More cells than anybody can mean.
    #[error("the factors multiply to more than {limit} cells; take levels out, or split the study", limit = MAX_CELLS)]
    TooMany,
    /// The stack of a cell means nothing.
    #[error("in the cell `{cell}`, {error}")]
    Stack {
        /// The first cell that has it.
        cell: CellId,
        /// What is wrong.
        error: StackError,
    },
}

/// A bound on the cells of one study: at a second each this is already three hours a block.
pub const MAX_CELLS: usize = 10_000;

impl Plan {
    /// Expands a study into its cells.
    ///
    /// # Errors
    /// Where two cells would have one name, or there would be more than [`MAX_CELLS`].
    pub fn new(study: Study, seed: Seed) -> Result<Self, PlanError> {
        let mut cells = Vec::new();
        for workload in &study.workloads {
            expand(&study, workload, &mut cells)?;
        }
        let mut names: Vec<&CellId> = cells.iter().map(|c| &c.id).collect();
        names.sort();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(PlanError::SameName(pair[0].clone()));
        }
        Ok(Self { study, cells, seed })
    }

    /// The cell as one trial has it. Where a fio job wants other random numbers in each trial
    /// (`randrepeat=0`), they grow from the run's seed, the cell and the block (`randseed`): the same trial
    /// of another run with this seed, and its simulation, ask for the same requests.
    pub fn in_trial(&self, cell: &Cell, key: &TrialKey) -> Cell {
        let mut cell = cell.clone();
        let of_workload = format!("fio of {}, block {}", cell.id, key.block);
        let beside = cell.beside.iter_mut().map(|companion| {
            let purpose = format!("{of_workload}, beside it {}", companion.load.name);
            (&mut companion.load, purpose)
        });
        for (load, purpose) in std::iter::once((&mut cell.workload, of_workload.clone())).chain(beside) {
            if load.varies() {
                let own = || (self.seed.stream(&purpose).bits() >> 32).to_string();
                load.options.entry("randseed".into()).or_insert_with(own);
            }
        }
        cell
    }

    /// The order of one block: every cell once, all orders equally likely, the same for the same seed. Where
    /// cells are of several lab machines (by kernel or P-states), those of one machine come together, for
    /// between two a machine starts anew, and within them those of one stack, which is built once: machines
    /// and stacks are in random order, and the cells within each (a split plot).
    pub fn block_order(&self, block: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.cells.len()).collect();
        self.seed.stream(&format!("block {block}")).shuffle(&mut order);
        let cell = |index: &usize| &self.cells[*index];
        // Where the first of a machine, or of a stack on a machine, stands in this order, there stand all of
        // it.
        let (mut machines, mut stacks) = (BTreeMap::new(), BTreeMap::new());
        let mut ranks = Vec::with_capacity(order.len());
        for (at, index) in order.iter().enumerate() {
            let Cell { kernel, pstates, stack, .. } = cell(index);
            let machine = (kernel, pstates);
            let first = *machines.entry(machine).or_insert(at);
            ranks.push((first, *stacks.entry((machine, stack)).or_insert(at)));
        }
        let mut grouped: Vec<usize> = (0..order.len()).collect();
        order::by_key(&mut grouped, |at| ranks[*at]);
        grouped.into_iter().map(|at| order[at]).collect()
    }

    /// The study with this cell alone, which keeps its name, and without what was published; `None` where
    /// there is no such cell.
    pub fn study_of(&self, id: &CellId) -> Option<Study> {
        let cell = self.cells.iter().find(|cell| cell.id == *id)?;
        let mut study = Study { published: Vec::new(), page: None, ..self.study.clone() };
        study.workloads.retain(|workload| workload.name == cell.workload.name);
        study.factors.retain(|factor| cell.levels.contains_key(&factor.name));
        for factor in &mut study.factors {
            factor.levels.retain(|level| cell.levels.get(&factor.name) == Some(&level.name));
        }
        Some(study)
    }

    /// Whether any trial of this plan writes a setting.
    pub fn writes_settings(&self) -> bool {
        self.cells.iter().any(|c| !c.settings.is_empty())
    }

    /// Whether the target or a setting needs root.
    pub fn needs_root(&self) -> bool {
        let target = matches!(self.study.target, Target::Loop(_) | Target::LabDevice(_));
        target || self.study.stack.is_some() || self.writes_settings()
    }
}

fn expand(study: &Study, workload: &Workload, cells: &mut Vec<Cell>) -> Result<(), PlanError> {
    let applies = |names: &[String]| names.is_empty() || names.contains(&workload.name);
    let factors: Vec<_> = study.factors.iter().filter(|f| applies(&f.workloads)).collect();
    let count = factors.iter().try_fold(1_usize, |n, f| n.checked_mul(f.levels.len())).unwrap_or(usize::MAX);
    if count.saturating_add(cells.len()) > MAX_CELLS {
        return Err(PlanError::TooMany);
    }
    for index in 0..count {
        let mut rest = index;
        let mut picks = Vec::with_capacity(factors.len());
        for factor in factors.iter().rev() {
            picks.push((*factor, &factor.levels[rest % factor.levels.len()]));
            rest /= factor.levels.len();
        }
        picks.reverse();
        let names = std::iter::once(workload.name.as_str()).chain(picks.iter().map(|(_, l)| l.name.as_str()));
        let mut cell = Cell {
            id: CellId::new(names),
            workload: workload.clone(),
            beside: study.beside.clone(),
            levels: BTreeMap::new(),
            settings: study.settings.clone(),
            stack: None,
            kernel: study.lab.kernel.clone(),
            machine: study.sim.machine.clone(),
            pstates: study.lab.pstates.clone(),
        };
        let mut changes = Changes::new();
        for (factor, level) in picks {
            cell.levels.insert(factor.name.clone(), level.name.clone());
            cell.workload.options.extend(level.options.clone());
            changes.extend(level.stack.clone());
            cell.beside.retain(|companion| level.beside.get(&companion.load.name) != Some(&false));
            if level.kernel.is_some() {
                cell.kernel.clone_from(&level.kernel);
            }
            if level.machine.is_some() {
                cell.machine.clone_from(&level.machine);
            }
            if level.pstates.is_some() {
                cell.pstates.clone_from(&level.pstates);
            }
            for request in &level.settings {
                cell.settings.retain(|s| s.setting != request.setting);
                cell.settings.push(request.clone());
            }
        }
        fill_placeholders(&mut cell);
        let beside = cell.beside.iter_mut().map(|companion| &mut companion.load);
        for load in std::iter::once(&mut cell.workload).chain(beside).filter(|load| load.tool == Tool::Fio) {
            crate::iometer::expand(&mut load.options);
        }
        cell.stack =
            stack(study, &changes).map_err(|error| PlanError::Stack { cell: cell.id.clone(), error })?;
        cells.push(cell);
    }
    Ok(())
}

fn stack(study: &Study, changes: &Changes) -> Result<Option<Stack>, StackError> {
    study.stack.as_ref().map(|draft| draft.with(changes)?.build()).transpose()
}

/// Puts the levels into the `{factor}` placeholders of commands.
fn fill_placeholders(cell: &mut Cell) {
    let beside = cell.beside.iter_mut().map(|companion| &mut companion.load.tool);
    for tool in std::iter::once(&mut cell.workload.tool).chain(beside) {
        let Tool::Command { argv, .. } = tool else { continue };
        for argument in argv {
            for (factor, level) in &cell.levels {
                *argument = argument.replace(&format!("{{{factor}}}"), level);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::{Factor, Level, Measure};

    fn factor(name: &str, levels: &[&str], workloads: &[&str]) -> Factor {
        let level = |l: &&str| Level {
            name: (*l).into(),
            options: BTreeMap::from([(name.to_owned(), (*l).to_owned())]),
            settings: vec![],
            stack: Changes::new(),
            beside: BTreeMap::new(),
            kernel: None,
            machine: None,
            pstates: None,
        };
        Factor {
            name: name.into(),
            levels: levels.iter().map(level).collect(),
            workloads: workloads.iter().map(|w| (*w).into()).collect(),
        }
    }

    fn study(factors: Vec<Factor>) -> Study {
        let workload = |name: &str| Workload { name: name.into(), tool: Tool::Fio, options: BTreeMap::new() };
        Study {
            name: "s".into(),
            question: String::new(),
            primary: vec![],
            target: Target::None,
            stack: None,
            workloads: vec![workload("a"), workload("b")],
            beside: vec![],
            factors,
            settings: vec![],
            measure: Measure::default(),
            lab: crate::lab::Lab::default(),
            sim: crate::study::Sim::default(),
            published: vec![],
            page: None,
        }
    }

    #[test]
    fn a_study_of_one_cell_has_that_cell_as_it_was() {
        let factors = vec![factor("depth", &["1", "8"], &["a"]), factor("block", &["4k", "8k"], &[])];
        let plan = Plan::new(study(factors), Seed(1)).unwrap();
        for cell in &plan.cells {
            let alone = Plan::new(plan.study_of(&cell.id).unwrap(), Seed(1)).unwrap();
            assert_eq!(alone.cells, std::slice::from_ref(cell));
        }
        assert_eq!(plan.study_of(&CellId::from_stored("a_9")), None);
    }

    #[test]
    fn cells_are_the_product_of_the_factors_that_apply() {
        let plan = Plan::new(
            study(vec![factor("bs", &["4k", "64k"], &[]), factor("depth", &["1", "8"], &["b"])]),
            Seed(1),
        )
        .unwrap();
        let names: Vec<_> = plan.cells.iter().map(|c| c.id.as_str()).collect();
        assert_eq!(names, ["a_4k", "a_64k", "b_4k_1", "b_4k_8", "b_64k_1", "b_64k_8"]);
        assert_eq!(plan.cells[5].workload.options["bs"], "64k");
    }

    #[test]
    fn an_access_pattern_of_iometer_is_options_of_fio_also_beside_the_workload() {
        let mut study = study(vec![]);
        let options: BTreeMap<_, _> = [("pattern".to_owned(), "Web server".to_owned())].into();
        study.workloads[0].options = options.clone();
        let load = Workload { name: "neighbour".into(), tool: Tool::Fio, options };
        study.beside = vec![crate::study::Companion { load, lead: crate::Nanos::ZERO }];
        let cell = &Plan::new(study, Seed(1)).unwrap().cells[0];
        for load in [&cell.workload, &cell.beside[0].load] {
            assert!(load.options["bssplit"].starts_with("512/22:"), "{:?}", load.options);
            assert!(!load.options.contains_key("pattern"));
        }
    }

    #[test]
    fn random_numbers_that_are_to_differ_come_from_the_runs_seed() {
        let off = Factor {
            levels: vec![Level {
                options: BTreeMap::from([("randrepeat".into(), "0".into())]),
                ..factor("off", &["off"], &[]).levels.remove(0)
            }],
            ..factor("off", &["off"], &["a"])
        };
        let plan = |seed| Plan::new(study(vec![off.clone()]), Seed(seed)).unwrap();
        let randseed = |plan: &Plan, cell: usize, block, attempt| {
            let cell = &plan.cells[cell];
            let key = TrialKey { block, cell: cell.id.clone(), attempt };
            plan.in_trial(cell, &key).workload.options.get("randseed").cloned()
        };
        let one = plan(1);
        assert!(randseed(&one, 0, 0, 0).is_some_and(|seed| seed.parse::<u32>().is_ok()));
        assert_eq!(
            randseed(&one, 0, 0, 0),
            randseed(&plan(1), 0, 0, 1),
            "a trial made again is the same one"
        );
        assert_ne!(randseed(&one, 0, 0, 0), randseed(&one, 0, 1, 0));
        assert_ne!(randseed(&one, 0, 0, 0), randseed(&plan(2), 0, 0, 0));
        assert_eq!(randseed(&one, 1, 0, 0), None, "this workload did not ask for it");
    }

    #[test]
    fn each_block_holds_each_cell_once_and_the_orders_differ() {
        let plan = Plan::new(study(vec![factor("bs", &["1", "2", "3", "4", "5"], &[])]), Seed(3)).unwrap();
        let orders: Vec<_> = (0..4).map(|b| plan.block_order(b)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..10).collect::<Vec<_>>());
        }
        assert!(orders.windows(2).any(|w| w[0] != w[1]));
        assert_eq!(orders[2], plan.block_order(2));
    }

    #[test]
    fn cells_of_one_kernel_come_together_in_each_block() {
        let mut kernels = factor("kernel", &["6.1", "6.12"], &[]);
        for level in &mut kernels.levels {
            level.kernel = Some(level.name.clone());
            level.options.clear();
        }
        let plan = Plan::new(study(vec![factor("bs", &["1", "2", "3"], &[]), kernels]), Seed(5)).unwrap();
        let mut firsts = Vec::new();
        for block in 0..8 {
            let order = plan.block_order(block);
            let kernels: Vec<&str> = order.iter().filter_map(|c| plan.cells[*c].kernel.as_deref()).collect();
            assert_eq!(kernels.windows(2).filter(|w| w[0] != w[1]).count(), 1, "{kernels:?}");
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..12).collect::<Vec<_>>());
            firsts.push(kernels[0].to_owned());
        }
        assert!(firsts.contains(&"6.1".to_owned()) && firsts.contains(&"6.12".to_owned()), "{firsts:?}");
    }

    #[test]
    fn cells_with_one_table_of_p_states_come_together_and_the_studys_is_that_of_levels_without() {
        let mut tables = factor("driver", &["acpi", "hwp", "own"], &[]);
        for level in &mut tables.levels[..2] {
            level.pstates = Some(level.name.clone());
            level.options.clear();
        }
        let mut study = study(vec![factor("bs", &["1", "2", "3"], &[]), tables]);
        study.lab.pstates = Some("laptop-5".into());
        let plan = Plan::new(study, Seed(5)).unwrap();
        for block in 0..8 {
            let order = plan.block_order(block);
            let tables: Vec<&str> =
                order.iter().map(|c| plan.cells[*c].pstates.as_deref().unwrap()).collect();
            assert_eq!(tables.windows(2).filter(|w| w[0] != w[1]).count(), 2, "{tables:?}");
            assert_eq!(tables.iter().filter(|table| **table == "laptop-5").count(), 6);
        }
    }

    #[test]
    fn a_level_names_the_simulated_machine_and_the_study_names_it_where_no_level_does() {
        let mut machines = factor("machine", &["old", "own"], &[]);
        machines.levels[0].machine = Some("pentium-4".into());
        let mut study = study(vec![machines]);
        study.sim.machine = Some("laptop".into());
        let plan = Plan::new(study, Seed(1)).unwrap();
        let names: Vec<_> = plan.cells.iter().map(|c| c.machine.as_deref().unwrap()).collect();
        assert_eq!(names, ["pentium-4", "laptop", "pentium-4", "laptop"]);
    }

    #[test]
    fn levels_that_would_share_a_file_name_are_refused() {
        let error = Plan::new(study(vec![factor("bs", &["4/k", "4 k"], &[])]), Seed(1)).unwrap_err();
        assert_eq!(error, PlanError::SameName(CellId::from_stored("a_4-k")));
    }

    #[test]
    fn a_study_that_explodes_is_refused_without_being_built() {
        let many: Vec<String> = (0..100).map(|i| i.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let factors = (0..20).map(|i| factor(&format!("f{i}"), &many, &[])).collect();
        assert_eq!(Plan::new(study(factors), Seed(1)).unwrap_err(), PlanError::TooMany);
    }
}
