//! What the parts of a study have to do with each other.

use super::node::{Node, Section, listed, nearest};
use super::{beside, is_name, options, page, published, server, stack};
use domain::Study;
use domain::lab::ENERGY_MODELLED;
use domain::outcome::Better;
use domain::outcome::CPU_BUSY;
use domain::per_work;
use domain::plan::{Cell, Plan, PlanError};
use domain::rng::Seed;
use domain::study::{Factor, Target, Until, Workload};
use domain::units::Unit;
use std::collections::{BTreeMap, BTreeSet};
use workloads::report::shared_metric;
use workloads::{Metrics, Needs};

/// Which parts of a study were read; the others have stand-ins.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// The target and the stack.
    pub(super) place: bool,
    /// How it is measured, and the lab, which has a metric of its own.
    pub(super) metric: bool,
    /// Each workload.
    pub(super) workloads: bool,
    /// Each load beside them.
    pub(super) beside: bool,
    /// Each factor.
    pub(super) factors: bool,
    /// Everything else.
    pub(super) rest: bool,
}

impl Known {
    /// Whether all of the study was read.
    pub(super) fn all(self) -> bool {
        self.cells() && self.metric && self.rest
    }

    /// Whether all that cells are made of was read.
    fn cells(self) -> bool {
        self.place && self.workloads && self.beside && self.factors
    }
}

/// Notes every problem that no part of the study has alone. What needs a part that was not read is left out,
/// so that nothing is said that follows from another problem.
pub(super) fn check(study: &Study, known: Known, root: &Section) {
    for workload in &study.workloads {
        let node = workload_node(root, &workload.name);
        if known.place {
            has_its_target(study, workload, &node);
        }
        if known.place && known.factors {
            let factors = study.factors.iter().filter(|factor| applies(factor, workload));
            has_its_placeholders(study, workload, factors, &node);
        }
        if known.metric {
            reports_the_metric(study, workload, root);
            counts_beside_other_load(study, workload, root);
        }
    }
    beside::check(study, known.place, known.factors, root);
    metrics_mean_the_same(study, root);
    if known.place && known.metric {
        work_has_a_file(study, root);
    }
    if known.place {
        target_suits_the_stack(study, root);
    }
    for factor in &study.factors {
        names_known_workloads(factor, root);
        changes_its_workloads(study, factor, root);
        cells_have_p_states(study, factor, root);
        factor_options_exist(study, factor, root);
    }
    primary_factors_exist(study, root);
    factors_do_not_collide(study, root);
    if known.place {
        stack::changes_exist(study, root);
    }
    // Stacks are tried here one by one, so that each problem has its place.
    let plan = || Plan::new(Study { stack: None, ..study.clone() }, Seed(0));
    let plan = known.factors.then(plan);
    if let (Some(draft), Some(Ok(plan)), true) = (&study.stack, &plan, known.cells()) {
        stack::check(study, draft, &plan.cells, root);
    }
    if known.all() {
        what_is_decided_has_two_sides(study, root);
        let cells = plan.as_ref().and_then(|plan| Some(&plan.as_ref().ok()?.cells[..]));
        published::check(study, cells, root);
        server::check(study, cells, root);
        page::check(study, cells, root);
    }
    if let Some(plan) = plan {
        cells_are_possible(study, known, plan, root);
    }
}

pub(super) fn workload_node<'a>(root: &Section<'a>, name: &str) -> Node<'a> {
    child(root, "workload", name).expect("a workload that was read stands in the file")
}

pub(super) fn factor_node<'a>(root: &Section<'a>, name: &str) -> Node<'a> {
    child(root, "factor", name).expect("a factor that was read stands in the file")
}

fn child<'a>(root: &Section<'a>, table: &str, name: &str) -> Option<Node<'a>> {
    root.get(table)?.section()?.get(name)
}

/// The node below, or the node itself where it is not there.
pub(super) fn below<'a>(node: Node<'a>, path: &[&str]) -> Node<'a> {
    path.iter().fold(node, |node, key| {
        let child = node.section_if_any().and_then(|section| section.get(key));
        child.unwrap_or(node)
    })
}

pub(super) fn applies(factor: &Factor, workload: &Workload) -> bool {
    factor.workloads.is_empty() || factor.workloads.contains(&workload.name)
}

/// A stack that ends in a block device is a target by itself; where it ends in a filesystem, `stack` asks for
/// the file.
fn has_no_target(study: &Study) -> bool {
    matches!(study.target, Target::None | Target::Server(_)) && study.stack.is_none()
}

/// Whether the study has what a load works on; `node` is the load's table.
pub(super) fn has_its_target(study: &Study, workload: &Workload, node: &Node) {
    let tool = workload.tool.name();
    match workloads::of(&workload.tool).needs() {
        Needs::Target if matches!(study.target, Target::Server(_)) => node.refuse_key(format!(
            "{tool} reads or writes a file or a device, and a `server` has tables; write a study of its own with `file`, `folder` or `read_only` under `[target]`"
        )),
        Needs::Target if has_no_target(study) => node.refuse_key(format!(
            "{tool} needs something to read or write; add `[target]` with `file = \"256MiB\"`"
        )),
        Needs::Device if !has_a_device(study) => node.refuse_key(format!(
            "{tool} reads a block device; add `[target]` with `loop = \"256MiB\"`, or end the stack in a block device"
        )),
        // How large they grow is not bounded by the study.
        Needs::Folder | Needs::Server if matches!(study.target, Target::Folder { .. }) => node.refuse_key(format!(
            "{tool} makes files of a size of its own, and in a `folder` of yours there is one of the size that the study says; write `file` instead of `folder`, and say where with `--work`"
        )),
        Needs::RunningLoad if study.target != Target::None || study.stack.is_some() => node.refuse_key(
            "runs already, on whatever it runs on; take `[target]` and `[stack]` out, or measure another tool",
        ),
        Needs::Folder if !matches!(study.target, Target::File(_)) => node.refuse_key(
            "makes files beside that of the target, whose folder says where; add `[target]` with `file = \"1MiB\"`",
        ),
        _ => {}
    }
}

/// Whether the target is a block device. A stack is one where the study asks for no file on it.
fn has_a_device(study: &Study) -> bool {
    match study.target {
        // Whether it is a file shows when it is opened.
        Target::Loop(_) | Target::LabDevice(_) | Target::ReadOnly(_) => true,
        Target::None => study.stack.is_some(),
        Target::File(_) | Target::Folder { .. } | Target::Server(_) => false,
    }
}

/// Whether each placeholder of a command means something: the target, or one of these factors.
pub(super) fn has_its_placeholders<'s>(
    study: &Study,
    workload: &Workload,
    factors: impl Iterator<Item = &'s Factor>,
    node: &Node,
) {
    let Some((argv, _)) = workload.tool.command() else { return };
    let factors: Vec<&str> = factors.map(|factor| factor.name.as_str()).collect();
    let items = below(node.clone(), &["argv"]).items().unwrap_or_default();
    for (item, argument) in items.iter().zip(argv) {
        for name in placeholders(argument) {
            if name == "target" && has_no_target(study) {
                item.refuse("`{target}` stands for the target, and this study has none; add `[target]`");
            } else if name == "folder" && study.stack.is_none() {
                item.refuse("`{folder}` stands for the folder of a stack's filesystem that the target's file is in, and this study has no stack; add `[stack.NAME]`, or put a space after the brace if it is meant as it stands");
            } else if !["target", "folder"].contains(&name) && !factors.contains(&name) {
                let folder = study.stack.as_ref().map(|_| "folder");
                let help = match nearest(name, factors.iter().copied().chain(["target"]).chain(folder)) {
                    Some(near) => format!("did you mean `{{{near}}}`?"),
                    None => format!(
                        "add `[factor.{name}]`, or put a space after the brace if it is meant as it stands"
                    ),
                };
                item.refuse(format!("`{{{name}}}` names no factor of this workload; {help}"));
            }
        }
    }
}

/// The names in braces, as in `-j{jobs}`; other braces belong to the command.
pub(super) fn placeholders(argument: &str) -> Vec<&str> {
    let names = argument.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    names.map(|(name, _)| name).filter(|name| is_name(name)).collect()
}

/// Names of metrics for a message. Those of the machine, which every workload has, are not repeated in each.
pub(super) fn named_metrics(metrics: &[&str]) -> String {
    let of_machine = |name: &str| per_work::metric(name, 0.0).is_some();
    listed(&metrics.iter().copied().filter(|name| !of_machine(name)).collect::<Vec<_>>())
}

/// The metrics that a workload of this study reports.
pub(super) fn reported<'s>(study: &Study, workload: &'s Workload) -> Vec<&'s str> {
    workloads::report::reported(study, workload).into_iter().map(|(name, _)| name).collect()
}

fn reports_the_metric(study: &Study, workload: &Workload, root: &Section) {
    if workloads::of(&workload.tool).metrics() == Metrics::Any {
        return;
    }
    let metric = study.measure.metric.as_str();
    let reported = reported(study, workload);
    if reported.contains(&metric) {
        return;
    }
    let problem = match metric {
        ENERGY_MODELLED => format!(
            "`{metric}` is known where virtual P-states have watts; name their table with `pstates = \"…\"` under `[lab]`"
        ),
        _ => format!(
            "`{metric}` is not reported by the workload `{}`, which has {}",
            workload.name,
            named_metrics(&reported)
        ),
    };
    match root.get("measure").and_then(|node| node.section()?.get("metric")) {
        Some(node) => node.refuse(problem),
        None => workload_node(root, &workload.name).refuse_key(format!(
            "the metric that decides, {problem}; choose one with `metric = \"…\"` under `[measure]`"
        )),
    }
}

/// A load that runs already is beside others, and is itself one that nothing waits for.
fn counts_beside_other_load(study: &Study, workload: &Workload, root: &Section) {
    if workloads::of(&workload.tool).needs() == Needs::RunningLoad && !study.measure.under_load {
        workload_node(root, &workload.name).refuse_key(
            "runs already, beside whatever else runs; write `under_load = true` under `[measure]`",
        );
    }
}

fn metrics_mean_the_same(study: &Study, root: &Section) {
    let mut meanings: BTreeMap<&str, (Unit, Better)> = BTreeMap::new();
    for workload in &study.workloads {
        let Some((_, metrics)) = workload.tool.command() else { continue };
        for metric in metrics {
            let meaning = (metric.unit.clone(), metric.better);
            let name = metric.name.as_str();
            if [ENERGY_MODELLED, CPU_BUSY].contains(&name) || per_work::metric(name, 0.0).is_some() {
                below(workload_node(root, &workload.name), &["metric"])
                    .refuse(format!("`{name}` is a metric of Flyball's own; rename this one"));
            }
            let first = shared_metric(name).or_else(|| meanings.get(name).cloned());
            if first.is_some_and(|first| first != meaning) {
                below(workload_node(root, &workload.name), &["metric"]).refuse(format!(
                    "`{name}` has another unit or direction here than elsewhere, so that the two cannot stand in one table; rename it"
                ));
            }
            meanings.entry(name).or_insert(meaning);
        }
    }
}

/// The folder is where Flyball makes the target, or the files below a stack; what a command names itself
/// needs no word here.
fn work_has_a_file(study: &Study, root: &Section) {
    let problem = match &study.stack {
        Some(draft) if draft.layers.iter().any(|layer| layer.values.contains_key("loop")) => return,
        Some(_) => "nothing is made there, for no layer of the stack has `loop`; take `work` out",
        None if matches!(study.target, Target::File(_) | Target::Loop(_)) => return,
        None => {
            "nothing is made there, for this study has no target of `file` or `loop`; add one, or take `work` out"
        }
    };
    if let Some(node) = root.get("lab").and_then(|node| node.section()?.get("work")) {
        node.refuse_key(problem);
    }
}

/// A stack is what the target is on, and no other device can be that too.
fn target_suits_the_stack(study: &Study, root: &Section) {
    let key = match study.target {
        Target::Loop(_) => "loop",
        Target::LabDevice(_) => "device",
        Target::ReadOnly(_) => "read_only",
        Target::Folder { .. } => "folder",
        Target::Server(_) => "server",
        Target::None | Target::File(_) => return,
    };
    if let Some(node) = child(root, "target", key).filter(|_| study.stack.is_some()) {
        node.refuse_key("cannot stand beside `[stack]`, whose last layer is the target; take it out, or write `file = \"64MiB\"` for a file of that size in its filesystem");
    }
}

/// The names of the tables below a key, also of those that could not be read.
fn names<'a>(root: &Section<'a>, table: &str) -> Vec<&'a str> {
    let section = root.get(table).and_then(|node| node.section_if_any());
    section.iter().flat_map(Section::entries).map(|node| node.key).collect()
}

fn names_known_workloads(factor: &Factor, root: &Section) {
    let known = names(root, "workload");
    let items = below(factor_node(root, &factor.name), &["workloads"]).items_if_any();
    for (item, name) in items.iter().zip(&factor.workloads) {
        if !known.contains(&name.as_str()) {
            let help = match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", listed(&known)),
            };
            item.refuse(format!("there is no workload `{name}`; {help}"));
        }
    }
}

fn primary_factors_exist(study: &Study, root: &Section) {
    let known = names(root, "factor");
    let Some(node) = root.get("primary") else { return };
    let items = node.items_if_any();
    for (index, name) in study.primary.iter().enumerate() {
        if known.contains(&name.as_str()) {
            continue;
        }
        let help = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "this study varies nothing".to_owned(),
            None => format!("there are {}", listed(&known)),
        };
        items.get(index).unwrap_or(&node).refuse(format!("there is no factor `{name}`; {help}"));
    }
}

/// Cells of a factor that names tables of P-states for some levels have one in any case: whether its CPUs are
/// paced does not change within a run.
fn cells_have_p_states(study: &Study, factor: &Factor, root: &Section) {
    if study.lab.pstates.is_none() && factor.levels.iter().any(|level| level.pstates.is_some()) {
        factor_node(root, &factor.name).refuse_key(
            "names tables of P-states, and `[lab]` none for cells that name none; add `[lab]` and `pstates = \"…\"`, such as \
             one of the factor's",
        );
    }
}

fn changes_its_workloads(study: &Study, factor: &Factor, root: &Section) {
    let changes_the_machine = factor.levels.iter().any(|level| {
        let names_one = level.kernel.is_some() || level.machine.is_some() || level.pstates.is_some();
        // A load runs beside the workload in any case, unless a level leaves it out.
        let leaves_one_out = level.beside.values().any(|runs| !runs);
        names_one || leaves_one_out || !level.settings.is_empty() || !level.stack.is_empty()
    });
    let fills = |workload: &Workload| {
        let argv = workload.tool.command().map(|(argv, _)| argv);
        argv.is_some_and(|argv| argv.iter().any(|word| placeholders(word).contains(&factor.name.as_str())))
    };
    let changes_a_companion = study.beside.iter().any(|companion| fills(&companion.load));
    let sets_options = factor.levels.iter().any(|level| !level.options.is_empty());
    for workload in study.workloads.iter().filter(|w| applies(factor, w)) {
        let command = workload.tool.command();
        let changes = command.map_or(sets_options, |_| fills(workload));
        if changes_the_machine || changes_a_companion || changes {
            continue;
        }
        let help = match command {
            Some(_) => format!("put `{{{}}}` into its `argv`", factor.name),
            None => "give the factor an `option`, a `setting` or a part of the `stack`".to_owned(),
        };
        factor_node(root, &factor.name).refuse_key(format!(
            "changes nothing in the workload `{}`; {help}, or name the workloads that it applies to with `workloads = […]`",
            workload.name
        ));
    }
}

fn factor_options_exist(study: &Study, factor: &Factor, root: &Section) {
    let node = factor_node(root, &factor.name);
    let bundles = below(node.clone(), &["level"]).items_if_any();
    // All levels of `option = "…"` share one place, and one sentence there is enough.
    let mut said = BTreeSet::new();
    for workload in study.workloads.iter().filter(|w| applies(factor, w)) {
        for (index, level) in factor.levels.iter().enumerate() {
            for (option, value) in &level.options {
                let Some(problem) = options::refusal(&workload.tool, option, value) else { continue };
                let problem = format!("for the workload `{}`, `{option}` {problem}", workload.name);
                let place = match bundles.get(index) {
                    Some(bundle) => below(bundle.clone(), &["options", option]),
                    None => below(node.clone(), &["option"]),
                };
                if said.insert((place.path.clone(), problem.clone())) {
                    place.refuse(problem);
                }
            }
        }
    }
}

/// What is to be decided is which of two cells is better; of many, all have to do the same work.
fn what_is_decided_has_two_sides(study: &Study, root: &Section) {
    let is_alone = study.workloads.len() == 1;
    let has_two = matches!(study.factors.as_slice(), [factor] if factor.levels.len() == 2);
    let refused = match study.measure.until {
        Until::Decided if !(is_alone && has_two) => {
            "`decided` takes one workload and one factor of two levels, of which the second is held against the first; \
             with more, write `precise`, or `best`"
        }
        Until::Best if !is_alone || study.factors.is_empty() => {
            "`best` takes one workload and at least one factor: cells of two workloads are no better or worse than one another"
        }
        Until::Front if !is_alone || study.factors.is_empty() => {
            "`front` takes one workload and at least one factor: cells of two workloads are no choice between speed and watts"
        }
        _ => return,
    };
    let measure = root.get("measure").expect("what is not the default stands in the file");
    below(measure, &["until"]).refuse(refused);
}

/// Two factors that set one thing would leave one of them without effect, and look measured all the same.
fn factors_do_not_collide(study: &Study, root: &Section) {
    for workload in &study.workloads {
        let mut setters: BTreeMap<String, &str> = BTreeMap::new();
        for factor in study.factors.iter().filter(|f| applies(f, workload)) {
            let options =
                factor.levels.iter().flat_map(|level| level.options.keys().map(|o| format!("option `{o}`")));
            let settings = factor
                .levels
                .iter()
                .flat_map(|level| level.settings.iter().map(|s| format!("setting `{}`", s.setting)));
            let kernel =
                factor.levels.iter().filter_map(|level| level.kernel.as_ref().map(|_| "kernel".to_owned()));
            let machine = factor
                .levels
                .iter()
                .filter_map(|level| level.machine.as_ref().map(|_| "simulated machine".to_owned()));
            let pstates = factor
                .levels
                .iter()
                .filter_map(|level| level.pstates.as_ref().map(|_| "table of P-states".to_owned()));
            let stack = factor
                .levels
                .iter()
                .flat_map(|level| level.stack.keys().map(|path| format!("stack's `{path}`")));
            let beside = factor
                .levels
                .iter()
                .flat_map(|level| level.beside.keys().map(|name| format!("load `{name}` beside")));
            let options = options.chain(beside);
            for what in options.chain(settings).chain(stack).chain(kernel).chain(machine).chain(pstates) {
                let first = *setters.entry(what.clone()).or_insert(&factor.name);
                if first != factor.name {
                    factor_node(root, &factor.name).refuse_key(format!(
                        "sets the {what} of the workload `{}`, as the factor `{first}` does; only one of them can",
                        workload.name
                    ));
                    return;
                }
            }
        }
    }
}

/// Tries each cell whose parts were read and are right by themselves.
fn cells_are_possible(study: &Study, known: Known, plan: Result<Plan, PlanError>, root: &Section) {
    let plan = match plan {
        Ok(plan) => plan,
        Err(_) if !root.is_sound() => return,
        Err(error) => {
            return root
                .get("factor")
                .unwrap_or_else(|| root.entries()[0].clone())
                .refuse_key(error.to_string());
        }
    };
    for workload in study.workloads.iter().filter(|workload| is_right(study, workload, root)) {
        let cells: Vec<&Cell> =
            plan.cells.iter().filter(|cell| cell.workload.name == workload.name).collect();
        let of_target = || load_is_not_of_the_target(&cells, &study.target);
        let problems = [load_is_no_whole(&cells), known.place.then(of_target).flatten()];
        for problem in problems.into_iter().flatten() {
            below(workload_node(root, &workload.name), &["options"]).refuse_key(problem);
        }
    }
}

/// Whether nothing wrong was found in a workload and in the factors that apply to it.
fn is_right(study: &Study, workload: &Workload, root: &Section) -> bool {
    let factors = study.factors.iter().filter(|factor| applies(factor, workload));
    let nodes = factors.map(|factor| factor_node(root, &factor.name));
    nodes.chain([workload_node(root, &workload.name)]).all(|node| node.is_sound())
}

/// Options have to make a load in each cell: an option may need another, which a factor may set.
fn load_is_no_whole(cells: &[&Cell]) -> Option<String> {
    cells.iter().find_map(|cell| {
        let of_load = |load: &Workload| {
            workloads::of(&load.tool).check_all(&load.options).err().map(|error| error.to_string())
        };
        Some(format!("in the cell `{}`, {}", cell.id, first_of(cell, of_load)?))
    })
}

/// No load reaches beyond its target, and what is there already is only read, in each cell.
fn load_is_not_of_the_target(cells: &[&Cell], target: &Target) -> Option<String> {
    let of_load = |load: &Workload| {
        let (tool, options) = (workloads::of(&load.tool), &load.options);
        if matches!(target, Target::ReadOnly(_)) {
            let problem = tool.only_reads(options).err()?;
            return Some(format!("on a `read_only` target: {problem}"));
        }
        tool.reaches_beyond(options, target.size()?)
    };
    cells.iter().find_map(|cell| Some(format!("in the cell `{}`, {}", cell.id, first_of(cell, of_load)?)))
}

/// The first problem of the loads of a cell: its workload, and what beside it is given the target.
fn first_of(cell: &Cell, problem: impl Fn(&Workload) -> Option<String>) -> Option<String> {
    let beside = cell.beside.iter().map(|companion| &companion.load);
    let on_the_target = |load: &&Workload| !workloads::of(&load.tool).is_of_the_cpu(&load.options);
    let of_beside =
        |load: &Workload| Some(format!("in the load `{}` beside it, {}", load.name, problem(load)?));
    problem(&cell.workload).or_else(|| beside.filter(on_the_target).find_map(of_beside))
}
