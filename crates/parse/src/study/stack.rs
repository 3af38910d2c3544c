//! `[stack.NAME]`: how storage is built below the target, and what levels change in it.
//!
//! What a stack means and what is wrong with one, [`domain::stack`] says. Here it is read, each cell's stack
//! is tried, and what is wrong is said where its cause stands: at a key of a layer, or at the level that
//! changed it.

use super::check::{below, factor_node, placeholders, workload_node};
use super::key_name;
use super::node::{Node, Section, listed, nearest};
use domain::Study;
use domain::plan::Cell;
use domain::stack::{self, Changes, LayerSpec, Stack, StackError, StackSpec};
use domain::study::{Factor, Level, Target};
use std::collections::{BTreeMap, BTreeSet};
use workloads::Needs;

/// What `journal` means by itself, which no layer can be named.
const TAKEN: [&str; 2] = ["internal", "none"];

/// Reads one layer.
pub(super) fn layer(node: &Node) -> Option<LayerSpec> {
    let name = key_name(node).filter(|name| {
        let taken = TAKEN.contains(&name.as_str());
        if taken {
            node.refuse_key(format!("`{name}` has a meaning already for `journal`; choose another name"));
        }
        !taken
    });
    let section = node.section()?;
    let kind = section.get("kind").filter(Node::is_text).and_then(|kind| kind.text());
    if let Some(keys) = kind.and_then(stack::keys) {
        section.only(keys);
    }
    // Each is read before any is given up, so that all their problems are seen.
    let values: Vec<Option<(String, String)>> =
        section.entries().iter().map(|entry| Some((entry.key.to_owned(), value(entry)?))).collect();
    Some(LayerSpec { name: name?, values: values.into_iter().collect::<Option<_>>()? })
}

/// A string, a whole number, a boolean, or a list of strings, which is its entries with a space between.
pub(super) fn value(node: &Node) -> Option<String> {
    let items = node.items_if_any();
    if !items.is_empty() {
        let texts: Vec<Option<&str>> = items.iter().map(Node::text).collect();
        return Some(texts.into_iter().collect::<Option<Vec<_>>>()?.join(" "));
    }
    let shown = node.scalar()?.shown;
    if !node.is_text() && !node.is_integer() && shown.contains(|c: char| c.is_ascii_digit()) {
        node.refuse("is no whole number; write one, or a string");
        return None;
    }
    Some(shown)
}

/// Reads what a bundle changes: `{ "array.level" = 5 }`, and the same without quotes, although TOML makes
/// tables of it.
pub(super) fn changes(node: &Node) -> Option<Changes> {
    let mut found = Changes::new();
    let mut complete = true;
    for entry in node.section()?.entries() {
        let inner = entry.section_if_any().map(|section| section.entries());
        let path = |key: &str| if inner.is_some() { format!("{}.{key}", entry.key) } else { key.to_owned() };
        for change in inner.as_deref().unwrap_or(std::slice::from_ref(&entry)) {
            match value(change) {
                Some(_) if found.contains_key(&path(change.key)) => {
                    change.refuse_key("stands here twice; take one out");
                    complete = false;
                }
                Some(value) => drop(found.insert(path(change.key), value)),
                None => complete = false,
            }
        }
    }
    complete.then_some(found)
}

/// The place of a change in a bundle's table.
fn change_node<'a>(table: Node<'a>, path: &str) -> Node<'a> {
    let whole = table.section_if_any().and_then(|section| section.get(path));
    let parts = || path.split_once('.').map(|(layer, key)| below(table.clone(), &[layer, key]));
    whole.or_else(parts).unwrap_or(table)
}

/// The place of a level, or of one change of it.
fn level_node<'a>(root: &Section<'a>, factor: &Factor, index: usize, path: Option<&str>) -> Node<'a> {
    let node = factor_node(root, &factor.name);
    if let Some(bundle) = below(node.clone(), &["level"]).items_if_any().get(index) {
        let table = below(bundle.clone(), &["stack"]);
        return path.map_or(table.clone(), |path| change_node(table, path));
    }
    let levels = below(node, &["levels"]);
    levels.items_if_any().get(index).cloned().unwrap_or(levels)
}

/// Notes each change of a level that names nothing in the stack.
pub(super) fn changes_exist(study: &Study, root: &Section) {
    for factor in &study.factors {
        let node = factor_node(root, &factor.name);
        let of_all = below(node.clone(), &["stack"]);
        // All levels of `stack = "…"` share one place, and one sentence there is enough.
        let mut said = BTreeSet::new();
        for (index, level) in factor.levels.iter().enumerate() {
            for path in level.stack.keys() {
                let Some(problem) = unknown(study.stack.as_ref(), path) else { continue };
                let place = if of_all.is_text() {
                    of_all.clone()
                } else {
                    level_node(root, factor, index, Some(path))
                };
                if said.insert((place.path.clone(), path)) {
                    place.refuse(problem);
                }
            }
        }
    }
}

/// Why a level cannot change this; `None` where it can.
fn unknown(spec: Option<&StackSpec>, path: &str) -> Option<String> {
    let Some(spec) = spec else {
        return Some("changes the stack, and this study has none; add `[stack.NAME]`".into());
    };
    let names: Vec<&str> = spec.layers.iter().map(|layer| layer.name.as_str()).collect();
    let Some((name, key)) = path.split_once('.') else {
        return Some(format!(
            "`{path}` is nothing that a level can change; write `LAYER.KEY`, where the layers are {}",
            listed(&names)
        ));
    };
    let Some(layer) = spec.layers.iter().find(|layer| layer.name == name) else {
        return Some(match nearest(name, names.iter().copied()) {
            Some(near) => format!("there is no layer `{name}`; did you mean `{near}`?"),
            None => format!("there is no layer `{name}`; there are {}", listed(&names)),
        });
    };
    if key == "kind" {
        return Some(
            "`kind` cannot be changed; write a layer of each kind, and leave one out with `use = false`"
                .into(),
        );
    }
    let keys = keys_of(layer).filter(|keys| !keys.contains(&key))?;
    Some(match nearest(key, keys.iter().copied()) {
        Some(near) => format!("the layer `{name}` has no key `{key}`; did you mean `{near}`?"),
        None => format!("the layer `{name}` has no key `{key}`; it has {}", listed(keys)),
    })
}

fn keys_of(layer: &LayerSpec) -> Option<&'static [&'static str]> {
    stack::keys(layer.values.get("kind")?)
}

/// Notes what is wrong with the stacks of the cells, each thing once.
pub(super) fn check(study: &Study, spec: &StackSpec, cells: &[Cell], root: &Section) {
    let mut spec = spec.clone();
    for layer in &mut spec.layers {
        // What is no key has been said to be none.
        if let Some(keys) = keys_of(layer) {
            layer.values.retain(|key, _| keys.contains(&key.as_str()));
        }
    }
    let check = Check { study, spec, root };
    let mut tried: BTreeMap<Changes, Result<Stack, Vec<StackError>>> = BTreeMap::new();
    let mut said = BTreeSet::new();
    for cell in cells {
        match tried.entry(check.changes(cell)).or_insert_with_key(|changes| check.stack(changes)) {
            Ok(stack) => check.folder_is_there(cell, stack, &mut said),
            Err(errors) => errors.iter().for_each(|error| check.note(cell, error, &mut said)),
        }
    }
    if tried.values().all(Result::is_ok) {
        check.each_layer_is_needed(tried.values().flatten());
    }
}

struct Check<'s, 'a> {
    study: &'s Study,
    spec: StackSpec,
    root: &'s Section<'a>,
}

impl<'a> Check<'_, 'a> {
    /// The levels of a cell: each with its factor, and its place among the levels.
    fn picks(&self, cell: &Cell) -> Vec<(&Factor, usize, &Level)> {
        let pick = |factor: &'_ Factor| {
            let name = cell.levels.get(&factor.name)?;
            factor.levels.iter().position(|level| level.name == *name)
        };
        let factors = self.study.factors.iter();
        factors.filter_map(|factor| pick(factor).map(|at| (factor, at, &factor.levels[at]))).collect()
    }

    /// What the levels of a cell change, as far as there is such a thing.
    fn changes(&self, cell: &Cell) -> Changes {
        let all = self.picks(cell).into_iter().flat_map(|(_, _, level)| self.known(&level.stack));
        all.collect()
    }

    fn known(&self, changes: &Changes) -> Changes {
        let known = |path: &String| unknown(Some(&self.spec), path).is_none();
        changes.iter().filter(|(path, _)| known(path)).map(|(p, v)| (p.clone(), v.clone())).collect()
    }

    fn stack(&self, changes: &Changes) -> Result<Stack, Vec<StackError>> {
        let spec = self.spec.with(changes).map_err(|error| vec![error])?;
        let problems = spec.problems();
        if !problems.is_empty() {
            return Err(problems);
        }
        let stack = spec.build().map_err(|error| vec![error])?;
        let mut problems = self.unknown_disks(&stack);
        problems.extend(self.missing_file(&stack));
        if problems.is_empty() { Ok(stack) } else { Err(problems) }
    }

    /// Disks that the lab machine has not. A study without any may be given them later.
    fn unknown_disks(&self, stack: &Stack) -> Vec<StackError> {
        let disks: Vec<&str> = self.study.lab.disks.iter().map(|disk| disk.name.as_str()).collect();
        let mut problems = Vec::new();
        for layer in &stack.layers {
            let Some(devices) = layer.devices() else { continue };
            let odd = devices.lab.iter().find(|name| !disks.contains(&name.as_str()));
            let Some(odd) = odd.filter(|_| !disks.is_empty()) else { continue };
            problems.push(StackError {
                layer: layer.name.clone(),
                key: Some("lab".into()),
                reason: format!("names `{odd}`, and the disks of `[[lab.disk]]` are {}", listed(&disks)),
            });
        }
        problems
    }

    fn missing_file(&self, stack: &Stack) -> Option<StackError> {
        (stack.ends_in_a_filesystem() && self.study.target == Target::None).then(|| StackError {
            layer: stack.top().name.clone(),
            key: None,
            reason:
                "is a filesystem, and workloads need a file in it; add `[target]` with `file = \"64MiB\"`"
                    .into(),
        })
    }

    /// Says what is wrong with a cell's stack, where its cause is.
    fn note(&self, cell: &Cell, error: &StackError, said: &mut BTreeSet<(String, String)>) {
        let path = error.key.as_ref().map(|key| format!("{}.{key}", error.layer));
        let setter = path.as_ref().and_then(|path| {
            self.picks(cell).into_iter().rfind(|(_, _, level)| level.stack.contains_key(path))
        });
        let level = setter.map(|(factor, index, _)| level_node(self.root, factor, index, path.as_deref()));
        let by = level.as_ref().map_or(String::new(), |node| node.path.clone());
        if !said.insert((by, error.to_string())) {
            return;
        }
        match level.or_else(|| self.cause(cell, error)) {
            Some(level) => level.refuse(format!("in the cell `{}`, {error}", cell.id)),
            None => self.refuse_in_the_stack(error),
        }
    }

    /// The level without which nothing would be wrong; `None` where it is wrong without any.
    fn cause(&self, cell: &Cell, error: &StackError) -> Option<Node<'a>> {
        let wrong_with = |changes: &Changes| self.stack(changes).is_err_and(|errors| errors.contains(error));
        if wrong_with(&Changes::new()) {
            return None;
        }
        let changing: Vec<_> =
            self.picks(cell).into_iter().filter(|(_, _, level)| !level.stack.is_empty()).collect();
        let alone = changing.iter().find(|(_, _, level)| wrong_with(&self.known(&level.stack)));
        // Where it takes several together, the last of them.
        let (factor, index, _) = alone.or(changing.last())?;
        Some(level_node(self.root, factor, *index, None))
    }

    fn refuse_in_the_stack(&self, error: &StackError) {
        let Some(stack) = self.root.get("stack") else { return };
        let layer = below(stack, &[&error.layer]);
        let value = error.key.as_ref().and_then(|key| layer.section_if_any()?.get(key));
        match value {
            Some(value) => value.refuse(error.reason.as_str()),
            None if error.key.is_none() => layer.refuse_key(error.reason.as_str()),
            None => layer.refuse_key(error.to_string()),
        }
    }

    /// The folder is that of a file, which a block device has not.
    fn folder_is_there(&self, cell: &Cell, stack: &Stack, said: &mut BTreeSet<(String, String)>) {
        if stack.ends_in_a_filesystem() {
            return;
        }
        let workload = workload_node(self.root, &cell.workload.name);
        let needs_folder = workloads::of(&cell.workload.tool).needs() == Needs::Folder;
        if needs_folder && said.insert((workload.path.clone(), String::new())) {
            workload.refuse_key(format!(
                "makes files of its own, and in the cell `{}` the stack ends in a block device; end it in a filesystem, or name \
                 the workloads of the factor that changes it",
                cell.id
            ));
        }
        let Some((argv, _)) = cell.workload.tool.command() else { return };
        let node = below(workload, &["argv"]);
        for (item, argument) in node.items_if_any().iter().zip(argv) {
            if placeholders(argument).contains(&"folder") && said.insert((item.path.clone(), String::new())) {
                item.refuse(format!(
                    "`{{folder}}` stands for the folder that the target's file is in, and in the cell `{}` the stack ends in a block device; name the workloads of the factor that changes it, or use `{{target}}`",
                    cell.id
                ));
            }
        }
    }

    /// A layer that nothing stands on and no workload works on would be left out, and look measured all the
    /// same.
    fn each_layer_is_needed<'t>(&self, stacks: impl Iterator<Item = &'t Stack>) {
        let built: BTreeSet<&str> =
            stacks.flat_map(|stack| stack.layers.iter().map(|layer| layer.name.as_str())).collect();
        let values = |key| self.spec.layers.iter().filter_map(move |layer| layer.values.get(key));
        let named: BTreeSet<&str> =
            values("on").chain(values("journal")).flat_map(|names| names.split_whitespace()).collect();
        let left_out = |name: &str| !built.contains(name) && !named.contains(name);
        let Some(stack) = self.root.get("stack") else { return };
        let is_off = |layer: &&LayerSpec| layer.values.get("use").is_some_and(|value| value == "false");
        for layer in self.spec.layers.iter().filter(|layer| left_out(&layer.name) && !is_off(layer)) {
            below(stack.clone(), &[&layer.name]).refuse_key(
                "is built in no cell: the last layer that no other names is what workloads work on; name this one with `on` or `journal`, or take it out",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::study::parse;
    use domain::Study;
    use domain::plan::Plan;
    use domain::rng::Seed;
    use expect_test::{Expect, expect};

    /// A stack that ends in a block device; the first line of a test's own text is line 16.
    const HEAD: &str = "flyball = 1
name = \"s\"
question = \"q\"
[workload.w]
tool = \"fio\"
[stack.disks]
kind = \"devices\"
count = 4
loop = \"64MiB\"
lab = \"disk\"
[stack.array]
kind = \"md\"
on = \"disks\"
level = 5
chunk = \"64KiB\"
";
    const FILES: &str = "[stack.files]\nkind = \"filesystem\"\non = \"array\"\ntype = \"ext3\"\n";
    const FILE: &str = "[target]\nfile = \"16MiB\"\n";
    const COMMAND: &str =
        "[workload.c]\ntool = \"command\"\nargv = [\"x\", \"{folder}\"]\n[measure]\nmetric = \"elapsed\"\n";

    fn check(text: &str, expected: Expect) {
        let errors = parse(&format!("{HEAD}{text}")).expect_err("this study is wrong");
        let kinds = super::listed(&super::stack::kinds().collect::<Vec<&str>>());
        expected.assert_eq(&format!("{errors}\n").replace(&kinds, "KINDS"));
    }

    fn study(text: &str) -> Study {
        parse(&format!("{HEAD}{text}")).unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// Each cell and its stack.
    fn stacks(text: &str) -> Vec<String> {
        let plan = Plan::new(study(text), Seed(1)).unwrap();
        plan.cells.iter().map(|cell| format!("{}: {}", cell.id, cell.stack.as_ref().unwrap())).collect()
    }

    #[test]
    fn a_stack_is_read_in_the_order_of_the_file_and_its_values_are_text() {
        let text = format!("{FILE}{FILES}mkfs = [\"-m\", \"0\"]\nuse = true\n");
        let spec = study(&text).stack.unwrap();
        let names: Vec<&str> = spec.layers.iter().map(|layer| layer.name.as_str()).collect();
        assert_eq!(names, ["disks", "array", "files"]);
        let values = &spec.layers[2].values;
        assert_eq!((values["mkfs"].as_str(), values["use"].as_str()), ("-m 0", "true"));
        assert_eq!(
            (spec.layers[1].values["level"].as_str(), study("").stack.unwrap().layers.len()),
            ("5", 2)
        );
    }

    #[test]
    fn a_factor_over_one_key_has_its_values_as_levels() {
        let factor = "[factor.level]\nstack = \"array.level\"\nlevels = [0, 1, \"10\"]\n";
        assert_eq!(
            stacks(factor),
            ["w_0: 4 devices > raid0 64 KiB", "w_1: 4 devices > raid1", "w_10: 4 devices > raid10 64 KiB"]
        );
    }

    #[test]
    fn a_bundle_changes_several_keys_with_and_without_quotes() {
        let factor = "[factor.layout]\n[[factor.layout.level]]\nname = \"one-disk\"\nstack = { \"array.use\" = false, disks.count = 1 }\n[[factor.layout.level]]\nname = \"raid6\"\nstack.array.level = 6\n";
        assert_eq!(stacks(factor), ["w_one-disk: 1 device", "w_raid6: 4 devices > raid6 64 KiB"]);
    }

    #[test]
    fn a_key_of_a_layer_names_the_nearest() {
        check(
            &format!(
                "chunks = \"4KiB\"\n{FILE}{FILES}colour = \"red\"\ndta = \"ordered\"\n[stack.none]\nkind = \"crypt\"\n[stack.\"a b\"]\n"
            ),
            expect![[r#"
                line 16, column 1: `stack.array.chunks`: unknown key; did you mean `chunk`?
                line 23, column 1: `stack.files.colour`: unknown key; known here: `kind`, `use`, `on`, `type`, `features`, `data`, `journal`, `mkfs`, `mount`
                line 24, column 1: `stack.files.dta`: unknown key; did you mean `data`?
                line 25, column 8: `stack.none`: `none` has a meaning already for `journal`; choose another name
                line 27, column 8: `stack."a b"`: `a b` is not a name; use 1 to 64 letters, digits, `-` and `_`
            "#]],
        );
    }

    #[test]
    fn a_value_has_one_of_four_types() {
        check(
            "spares = 1.5\nmissing = []\nbitmap = { a = 1 }\nlayout = [\"n2\", 3]\nresync = 2020-01-01\n[stack.x]\n[stack]\ny = 3\n",
            expect![[r#"
                line 16, column 10: `stack.array.spares`: is no whole number; write one, or a string
                line 17, column 11: `stack.array.missing`: has to be a string, a number, `true` or `false`; this is an array
                line 18, column 10: `stack.array.bitmap`: has to be a string, a number, `true` or `false`; this is a table
                line 19, column 17: `stack.array.layout[2]`: has to be a string, `"…"`; this is an integer
                line 20, column 10: `stack.array.resync`: has to be a string, a number, `true` or `false`; this is a datetime
                line 23, column 5: `stack.y`: has to be a table, `[stack.y]`; this is an integer
            "#]],
        );
    }

    #[test]
    fn each_layer_says_at_its_key_what_is_wrong_and_none_hides_another() {
        check(
            "[stack.vault]\nkind = \"crypt\"\non = \"array\"\nkey_size = 3\n[stack.files]\nkind = \"filesystm\"\n[stack.more]\non = \"files\"\n[workload.v]\ntool = \"fio\"\noptions = { bs = \"4k\", iodeph = 1 }\n",
            expect![[r#"
                line 19, column 12: `stack.vault.key_size`: is `3`, and has to be a number from 64 to 1024
                line 21, column 8: `stack.files.kind`: is `filesystm`, and has to be one of KINDS
                line 22, column 8: `stack.more`: has no `kind`; write one of KINDS
                line 26, column 24: `workload.v.options.iodeph`: is no option of fio that a study can set; did you mean `iodepth`?
            "#]],
        );
        check(
            "spares = 2\n",
            expect![[r#"
            line 14, column 9: `stack.array.level`: is 5, which needs 3 members; there are 2
        "#]],
        );
    }

    #[test]
    fn what_a_level_breaks_is_said_at_the_level_once() {
        check(
            "spares = 1\n[factor.level]\nstack = \"array.level\"\nlevels = [5, 6, 7]\n[factor.block]\noption = \"bs\"\nlevels = [\"4k\", \"8k\"]\n",
            expect![[r#"
                line 19, column 14: `factor.level.levels[2]`: in the cell `w_6_4k`, `stack.array.level` is 6, which needs 4 members; there are 3
                line 19, column 17: `factor.level.levels[3]`: in the cell `w_7_4k`, `stack.array.level` is `7`, and has to be one of `linear`, `0`, `1`, `4`, `5`, `6`, `10`
            "#]],
        );
        check(
            "[factor.disks]\n[[factor.disks.level]]\nname = \"many\"\n[[factor.disks.level]]\nname = \"two\"\nstack = { \"disks.count\" = 2 }\n[[factor.disks.level]]\nname = \"odd\"\nstack.array.chunk = \"3KiB\"\n[factor.members]\nstack = \"disks.lab\"\nlevels = [\"disk\", \"disk0 disk0\"]\n",
            expect![[r#"
                line 21, column 9: `factor.disks.level[2].stack`: in the cell `w_two_disk`, `stack.array.level` is 5, which needs 3 members; there are 2
                line 24, column 21: `factor.disks.level[3].stack.array.chunk`: in the cell `w_odd_disk`, `stack.array.chunk` is `3KiB`, and has to be a size from 4 KiB to 64 MiB, such as `64KiB`
                line 27, column 19: `factor.members.levels[2]`: in the cell `w_many_disk0-disk0`, `stack.disks.lab` names a device twice
            "#]],
        );
    }

    #[test]
    fn what_several_levels_break_together_is_said_at_the_last_of_them() {
        check(
            "[factor.count]\nstack = \"disks.count\"\nlevels = [4, 3]\n[factor.spares]\nstack = \"array.spares\"\nlevels = [0, 1]\n",
            expect![[r#"
                line 21, column 14: `factor.spares.levels[2]`: in the cell `w_3_1`, `stack.array.level` is 5, which needs 3 members; there are 2
            "#]],
        );
    }

    #[test]
    fn a_change_names_a_layer_and_a_key_of_it() {
        check(
            "[factor.a]\nstack = \"aray.level\"\nlevels = [5, 6]\n[factor.b]\nstack = \"array\"\nlevels = [5, 6]\n[factor.c]\n[[factor.c.level]]\nname = \"x\"\nstack = { \"array.levl\" = 5, disks.colour = \"red\", \"array.kind\" = \"lvm\" }\n[[factor.c.level]]\nname = \"y\"\nstack = { \"array.level\" = 5, array.level = 6, level = 3 }\n",
            expect![[r#"
                line 17, column 9: `factor.a.stack`: there is no layer `aray`; did you mean `array`?
                line 20, column 9: `factor.b.stack`: `array` is nothing that a level can change; write `LAYER.KEY`, where the layers are `disks`, `array`
                line 28, column 36: `factor.c.level[2].stack.array.level`: stands here twice; take one out
            "#]],
        );
        check(
            "[factor.a]\nstack = \"aray.level\"\nlevels = [5, 6]\n[factor.b]\nstack = \"array\"\nlevels = [5, 6]\n[factor.c]\n[[factor.c.level]]\nname = \"x\"\nstack = { \"array.levl\" = 5, disks.colour = \"red\", \"array.kind\" = \"lvm\" }\n[[factor.c.level]]\nname = \"y\"\nstack.level = 3\n",
            expect![[r#"
                line 17, column 9: `factor.a.stack`: there is no layer `aray`; did you mean `array`?
                line 20, column 9: `factor.b.stack`: `array` is nothing that a level can change; write `LAYER.KEY`, where the layers are `disks`, `array`
                line 25, column 26: `factor.c.level[1].stack."array.levl"`: the layer `array` has no key `levl`; did you mean `level`?
                line 25, column 44: `factor.c.level[1].stack.disks.colour`: the layer `disks` has no key `colour`; it has `kind`, `use`, `on`, `count`, `claimed`, `lab`, `loop`, `null_blk`, `scsi_debug`, `attributes`
                line 25, column 66: `factor.c.level[1].stack."array.kind"`: `kind` cannot be changed; write a layer of each kind, and leave one out with `use = false`
                line 28, column 15: `factor.c.level[2].stack.level`: `level` is nothing that a level can change; write `LAYER.KEY`, where the layers are `disks`, `array`
            "#]],
        );
        let without = "flyball = 1\nname = \"s\"\nquestion = \"q\"\n[target]\nfile = \"1M\"\n[workload.w]\ntool = \"fio\"\n[factor.a]\nstack = \"array.level\"\nlevels = [5, 6]\n";
        expect!["line 9, column 9: `factor.a.stack`: changes the stack, and this study has none; add `[stack.NAME]`"].assert_eq(&parse(without).unwrap_err().to_string());
    }

    #[test]
    fn a_factor_sets_one_kind_of_thing_and_no_other_sets_it_too() {
        check(
            "[factor.a]\nstack = \"array.level\"\nlevels = [5, 6]\n[factor.b]\n[[factor.b.level]]\nname = \"x\"\nstack = { \"array.level\" = 5 }\n[[factor.b.level]]\nname = \"y\"\n",
            expect![[r#"
                line 19, column 9: `factor.b`: sets the stack's `array.level` of the workload `w`, as the factor `a` does; only one of them can
            "#]],
        );
        check(
            "[factor.a]\nstack = \"array.level\"\noption = \"bs\"\nlevels = [5, 6]\n[factor.folder]\nstack = \"array.level\"\nlevels = [5, [\"a\"], 1.5]\n",
            expect![[r#"
                line 17, column 1: `factor.a.stack`: cannot stand beside `option`: a factor sets one of `option`, `setting`, `stack`, `beside`, `lab`, `sim`; write `[[factor.NAME.level]]` tables for levels that change several
                line 20, column 9: `factor.folder`: `folder` has a meaning already; choose another name
                line 22, column 21: `factor.folder.levels[3]`: is no whole number; write one, or a string
            "#]],
        );
    }

    #[test]
    fn the_lab_has_the_disks_that_are_named() {
        let disks = |count: u32| format!("[[lab.disk]]\nname = \"disk\"\ncount = {count}\nmodel = \"m\"\n");
        assert!(study(&disks(4)).lab.disks.len() == 4);
        check(
            &disks(3),
            expect![[r#"
            line 10, column 7: `stack.disks.lab`: names `disk3`, and the disks of `[[lab.disk]]` are `disk0`, `disk1`, `disk2`
        "#]],
        );
        check(
            &format!("[factor.count]\nstack = \"disks.count\"\nlevels = [4, 5]\n{}", disks(4)),
            expect![[r#"
                line 18, column 14: `factor.count.levels[2]`: in the cell `w_5`, `stack.disks.lab` names `disk4`, and the disks of `[[lab.disk]]` are `disk0`, `disk1`, `disk2`, `disk3`
            "#]],
        );
    }

    #[test]
    fn a_filesystem_needs_a_file_and_nothing_else_is_a_target_beside_a_stack() {
        check(
            FILES,
            expect![[r#"
            line 16, column 8: `stack.files`: is a filesystem, and workloads need a file in it; add `[target]` with `file = "64MiB"`
        "#]],
        );
        check(
            "[target]\nloop = \"16MiB\"\n",
            expect![[r#"
            line 17, column 1: `target.loop`: cannot stand beside `[stack]`, whose last layer is the target; take it out, or write `file = "64MiB"` for a file of that size in its filesystem
        "#]],
        );
        check(
            "[target]\ndevice = \"/dev/sda\"\n",
            expect![[r#"
            line 17, column 1: `target.device`: cannot stand beside `[stack]`, whose last layer is the target; take it out, or write `file = "64MiB"` for a file of that size in its filesystem
        "#]],
        );
        assert!(study(FILE).stack.is_some());
        // Where a level takes the filesystem away, the file is the first bytes of what is below.
        let both = "[factor.files]\nstack = \"files.use\"\nlevels = [true, false]\n";
        assert_eq!(stacks(&format!("{FILE}{FILES}{both}")).len(), 2);
        check(
            &format!("{FILES}use = false\n{}", both.replace("[true, false]", "[false, true]")),
            expect![[r#"
                line 23, column 18: `factor.files.levels[2]`: in the cell `w_true`, `stack.files` is a filesystem, and workloads need a file in it; add `[target]` with `file = "64MiB"`
            "#]],
        );
    }

    #[test]
    fn a_folder_is_there_where_every_stack_ends_in_a_filesystem() {
        assert_eq!(stacks(&format!("{FILE}{FILES}{COMMAND}")).len(), 2);
        check(
            &format!("{FILE}{COMMAND}"),
            expect![[r#"
            line 20, column 14: `workload.c.argv[2]`: `{folder}` stands for the folder that the target's file is in, and in the cell `c` the stack ends in a block device; name the workloads of the factor that changes it, or use `{target}`
        "#]],
        );
        let both = "[factor.files]\nstack = \"files.use\"\nlevels = [true, false]\n";
        check(
            &format!("{FILE}{FILES}{COMMAND}{both}"),
            expect![[r#"
            line 24, column 14: `workload.c.argv[2]`: `{folder}` stands for the folder that the target's file is in, and in the cell `c_false` the stack ends in a block device; name the workloads of the factor that changes it, or use `{target}`
        "#]],
        );
        assert_eq!(stacks(&format!("{FILE}{FILES}{COMMAND}{both}workloads = [\"w\"]\n")).len(), 3);
        let without = "flyball = 1\nname = \"s\"\nquestion = \"q\"\n[target]\nfile = \"1M\"\n";
        expect!["line 8, column 14: `workload.c.argv[2]`: `{folder}` stands for the folder of a stack's filesystem that the target's file is in, and this study has no stack; add `[stack.NAME]`, or put a space after the brace if it is meant as it stands"].assert_eq(&parse(&format!("{without}{COMMAND}")).unwrap_err().to_string());
    }

    #[test]
    fn a_layer_that_is_never_built_is_refused() {
        check(
            "[stack.logs]\nkind = \"devices\"\nloop = \"64MiB\"\n",
            expect![[r#"
            line 11, column 8: `stack.array`: is built in no cell: the last layer that no other names is what workloads work on; name this one with `on` or `journal`, or take it out
        "#]],
        );
    }

    #[test]
    fn work_is_where_the_files_of_loop_devices_are() {
        assert!(study("[lab]\nwork = \"/mnt/test\"\n").lab.work.is_some());
        let text = HEAD.replace("loop = \"64MiB\"", "null_blk = \"64MiB\"");
        let errors = parse(&format!("{text}[lab]\nwork = \"/mnt/test\"\n")).unwrap_err();
        expect!["line 17, column 1: `lab.work`: nothing is made there, for no layer of the stack has `loop`; take `work` out"].assert_eq(&errors.to_string());
    }
}
