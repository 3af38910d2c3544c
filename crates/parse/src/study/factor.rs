//! `[factor.NAME]`: what is varied.

use super::node::{Node, Scalar, Section, listed};
use super::options::{self, Options};
use super::{MAX_NAME_CHARS, key_name, settings, stack, words};
use domain::ids::CellId;
use domain::setting::SettingRequest;
use domain::stack::Changes;
use domain::study::{Factor, Level};
use std::collections::BTreeMap;

/// Names that have a meaning already: the placeholders `{target}` and `{folder}`, and the column that names
/// the workload.
const TAKEN: [&str; 3] = ["target", "folder", "workload"];

/// A bound on the levels of one factor; a plan of several is bounded by its cells.
const MAX_LEVELS: usize = 100;

/// With one level nothing varies.
pub(super) const FEWEST_LEVELS: usize = 2;

/// The lab may have one of a study's levels.
pub(super) const FEWEST_LEVELS_IN_LAB: usize = 1;

pub(super) fn read(node: &Node, fewest_levels: usize) -> Option<Factor> {
    let name = key_name(node).filter(|name| {
        let taken = TAKEN.contains(&name.as_str());
        if taken {
            node.refuse_key(format!("`{name}` has a meaning already; choose another name"));
        }
        !taken
    });
    let section = node.section()?;
    section.only(&[&VARIED[..], &["levels", "level", "workloads"]].concat());
    let levels = levels(&section, fewest_levels);
    let workloads = section.get("workloads").map_or(Some(vec![]), |node| workloads(&node));
    Some(Factor { name: name?, levels: levels?, workloads: workloads? })
}

/// What a factor with `levels` varies; at most one of them stands there.
pub(super) const VARIED: [&str; 6] = ["option", "setting", "stack", "beside", "lab", "sim"];

fn levels(section: &Section, fewest: usize) -> Option<Vec<Level>> {
    let varied: Vec<Node> = VARIED.iter().filter_map(|key| section.get(key)).collect();
    if let Some(bundles) = section.get("level") {
        for other in varied.iter().chain(&section.get("levels")) {
            other.refuse_key("cannot stand beside `level`, whose entries say themselves what they change");
        }
        return distinct(counted(&bundles, fewest)?, bundle);
    }
    let list = section.require("levels", "levels = [\"4k\", \"64k\"]")?;
    let items = counted(&list, fewest)?;
    match &varied[..] {
        // For the placeholders of commands; whether one uses it is checked once all workloads are known.
        [] => distinct(items, |item| Some(named(item.scalar()?.shown))),
        [one] => match one.key {
            "option" => options_of(one, items),
            "setting" => settings_of(one, items),
            "stack" => stacks_of(one, items),
            "beside" => companions_of(one, items),
            "lab" => of_the_lab(one, items),
            _ => machines(one, items),
        },
        [first, others @ ..] => {
            for other in others {
                other.refuse_key(format!(
                    "cannot stand beside `{}`: a factor sets one of {}; write `[[factor.NAME.level]]` tables for levels that change several",
                    first.key, listed(&VARIED)
                ));
            }
            None
        }
    }
}

/// A level that changes nothing yet.
fn named(name: String) -> Level {
    Level {
        name,
        options: Options::new(),
        settings: vec![],
        stack: Changes::new(),
        beside: BTreeMap::new(),
        kernel: None,
        machine: None,
        pstates: None,
    }
}

fn options_of<'a>(option: &Node<'a>, items: Vec<Node<'a>>) -> Option<Vec<Level>> {
    let option = option.text()?;
    distinct(items, |item| {
        let Scalar { shown, value } = item.scalar()?;
        Some(Level { options: Options::from([(option.to_owned(), value)]), ..named(shown) })
    })
}

fn settings_of<'a>(setting: &Node<'a>, items: Vec<Node<'a>>) -> Option<Vec<Level>> {
    let setting = settings::name(setting.text()?, setting)?;
    distinct(items, |item| {
        let Scalar { shown, value } = item.scalar()?;
        item.note_setting(&setting, Some(&value));
        Some(Level { settings: vec![SettingRequest { setting: setting.clone(), value }], ..named(shown) })
    })
}

/// `stack = "array.level"`; whether there is such a layer is checked once the stack is known.
fn stacks_of<'a>(path: &Node<'a>, items: Vec<Node<'a>>) -> Option<Vec<Level>> {
    let path = path.text()?;
    distinct(items, |item| {
        let value = stack::value(item)?;
        Some(Level { stack: Changes::from([(path.to_owned(), value.clone())]), ..named(value) })
    })
}

/// `beside = "burner"`; whether there is such a load is checked once all are known.
fn companions_of<'a>(companion: &Node<'a>, items: Vec<Node<'a>>) -> Option<Vec<Level>> {
    let companion = companion.text()?;
    distinct(items, |item| {
        let runs = item.flag()?;
        Some(Level { beside: BTreeMap::from([(companion.to_owned(), runs)]), ..named(runs.to_string()) })
    })
}

/// Which companions run, by their names.
fn companions(node: &Node) -> Option<BTreeMap<String, bool>> {
    let runs = node.section()?.entries().into_iter().map(|node| Some((node.key.to_owned(), node.flag()?)));
    runs.collect::<Vec<_>>().into_iter().collect()
}

/// The levels of a factor that varies the lab's machine: its kernel, or its table of P-states.
fn of_the_lab<'a>(part: &Node<'a>, items: Vec<Node<'a>>) -> Option<Vec<Level>> {
    match part.text()? {
        "kernel" => distinct(items, |item| {
            let Scalar { shown, value } = item.scalar()?;
            Some(Level { kernel: Some(value), ..named(shown) })
        }),
        "pstates" => distinct(items, |item| {
            let table = words(item)?;
            Some(Level { pstates: Some(table.clone()), ..named(table) })
        }),
        _ => {
            part.refuse(
                "has to be `\"kernel\"` or `\"pstates\"`: nothing else of a lab machine can be a factor yet",
            );
            None
        }
    }
}

/// The levels of a factor that varies the simulated machine: machine files, by name or path.
fn machines<'a>(part: &Node<'a>, items: Vec<Node<'a>>) -> Option<Vec<Level>> {
    if part.text()? != "machine" {
        part.refuse("has to be `\"machine\"`: a level of the simulation is a machine file");
        return None;
    }
    distinct(items, |item| {
        let machine = words(item)?;
        Some(Level { machine: Some(machine.clone()), ..named(machine) })
    })
}

fn bundle(node: &Node) -> Option<Level> {
    let section = node.section()?;
    section.only(&["name", "options", "settings", "stack", "beside", "machine", "pstates"]);
    let name = section.require("name", "name = \"fast\"").and_then(|node| Some(node.scalar()?.shown));
    let options = section.get("options").map_or_else(|| Some(Options::new()), |node| options::read(&node));
    let settings = section.get("settings").map_or(Some(vec![]), |node| settings::read(&node));
    let stack = section.get("stack").map_or_else(|| Some(Changes::new()), |node| stack::changes(&node));
    let beside = section.get("beside").map_or_else(|| Some(BTreeMap::new()), |node| companions(&node));
    let word = |key| section.get(key).map_or(Some(None), |node| words(&node).map(Some));
    let (machine, pstates) = (word("machine"), word("pstates"));
    Some(Level {
        options: options?,
        settings: settings?,
        stack: stack?,
        beside: beside?,
        machine: machine?,
        pstates: pstates?,
        ..named(name?)
    })
}

/// The entries of the levels, where there are at least so many and not too many.
fn counted<'a>(node: &Node<'a>, fewest: usize) -> Option<Vec<Node<'a>>> {
    let items = node.items()?;
    if !(fewest..=MAX_LEVELS).contains(&items.len()) {
        node.refuse(format!(
            "a factor has from {fewest} to {MAX_LEVELS} levels, this one has {}; what does not vary goes to the workload's options or to `[settings]`",
            items.len()
        ));
        return None;
    }
    Some(items)
}

/// Reads the levels, and sees to it that their names differ, in file names too.
fn distinct<'a>(items: Vec<Node<'a>>, read: impl Fn(&Node<'a>) -> Option<Level>) -> Option<Vec<Level>> {
    let mut levels: Vec<Level> = Vec::new();
    let mut complete = true;
    for item in items {
        let Some(level) = read(&item) else {
            complete = false;
            continue;
        };
        if let Some(problem) = name_problem(&level, &levels) {
            item.refuse(problem);
            complete = false;
        }
        levels.push(level);
    }
    complete.then_some(levels)
}

fn name_problem(level: &Level, earlier: &[Level]) -> Option<String> {
    let name = &level.name;
    if name.trim().is_empty() || name.chars().count() > MAX_NAME_CHARS {
        return Some(format!(
            "a level's name has from 1 to {MAX_NAME_CHARS} characters; name it in a `[[factor.NAME.level]]` table"
        ));
    }
    let in_file_names = |level: &Level| CellId::new([level.name.as_str()]);
    let same = earlier.iter().find(|other| in_file_names(other) == in_file_names(level))?;
    Some(if same.name == *name {
        format!("the level `{name}` is there twice; take one out")
    } else {
        format!(
            "the levels `{}` and `{name}` would share a file name; let them differ in letters, digits or `-`",
            same.name
        )
    })
}

fn workloads(node: &Node) -> Option<Vec<String>> {
    let items = node.items()?;
    if items.is_empty() {
        node.refuse("is empty; name the workloads that this factor applies to, or take the key out for all");
        return None;
    }
    let names: Vec<Option<String>> = items.iter().map(|item| item.text().map(str::to_owned)).collect();
    names.into_iter().collect()
}
