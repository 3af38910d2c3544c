//! What the lab has otherwise: `[lab.workload.NAME]`, `[lab.factor.NAME]` and `[lab.measure]` stand below
//! `[lab]` under the names of what they change, for a virtual machine is smaller and slower than what a study
//! was written for.
//!
//! They are put into the table of the file before it is read, so that all that is checked of a study is
//! checked of the lab's too, and what is wrong with it is shown where it stands.

use super::error::Problems;
use super::factor::VARIED;
use super::node::{Section, listed, nearest};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// The parts of a study that `[lab]` may change.
pub(super) const PARTS: [&str; 3] = ["workload", "factor", "measure"];

/// What a factor may have instead: other levels, or other bundles.
const LEVELS: [&str; 2] = ["levels", "level"];

/// Takes what the lab has otherwise out of a study's table, and gives the table that the lab has; `None`
/// where it has the same.
///
/// Notes what cannot be put together; the table is none then either.
pub(super) fn split<'t>(study: &mut DeTable<'t>, problems: &Problems<'_>) -> Option<DeTable<'t>> {
    let changes = PARTS.iter().any(|part| table_of(study, "lab").is_some_and(|lab| lab.contains_key(*part)));
    if !changes {
        return None;
    }
    check(&Section::root(study, problems));
    if !problems.is_empty() {
        return None;
    }
    let lab = mutable(study, "lab")?;
    let changes: Vec<_> = PARTS.iter().filter_map(|part| lab.remove_entry(*part)).collect();
    let mut own = study.clone();
    for (part, change) in changes {
        let DeValue::Table(change) = change.into_inner() else { continue };
        match part.get_ref().as_ref() {
            "workload" => put_options(&mut own, change),
            "factor" => put_levels(&mut own, change),
            // A study without the table has its defaults.
            _ => put_all(
                own.entry(part).or_insert_with(|| Spanned::new(0..0, DeValue::Table(DeTable::new()))),
                change,
            ),
        }
    }
    drop_published(&mut own);
    // A page is about all of the study, of which the lab has a part.
    own.remove("page");
    Some(own)
}

/// Notes what names nothing, or cannot be changed.
fn check(root: &Section) {
    let below = |part| root.get("lab")?.section()?.get(part)?.section();
    for (part, allowed) in [("workload", &["options"][..]), ("factor", &LEVELS)] {
        let known = root.get(part).and_then(|node| node.section_if_any()).map(|section| section.entries());
        let known: Vec<&str> = known.iter().flatten().map(|node| node.key).collect();
        for node in below(part).map(|section| section.entries()).unwrap_or_default() {
            if !known.contains(&node.key) {
                let help = match nearest(node.key, known.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("there are {}", listed(&known)),
                };
                node.refuse_key(format!("changes a {part} that the study does not have; {help}"));
            }
            let Some(section) = node.section() else { continue };
            section.only(allowed);
            match (part, section.get("levels"), section.get("level")) {
                ("workload", ..) => section.get("options").map_or((), |node| drop(node.section())),
                (_, Some(_), Some(both)) => {
                    both.refuse_key("cannot stand beside `levels`; take one out");
                }
                (_, Some(levels), None) => {
                    let bundles = child(root, "factor", node.key).and_then(|factor| factor.get("level"));
                    if bundles.is_some() {
                        levels.refuse_key(format!(
                            "means nothing in the lab alone: the study has bundles here; write `[[lab.factor.{}.level]]`",
                            node.key
                        ));
                    }
                }
                (_, None, Some(_)) => {}
                (_, None, None) => section.refuse("changes nothing; write `levels = […]`, or take it out"),
            }
        }
    }
    // That it is a table, and nothing more.
    let _ = below("measure");
}

fn child<'a>(root: &Section<'a>, part: &str, name: &str) -> Option<Section<'a>> {
    root.get(part)?.section_if_any()?.get(name)?.section_if_any()
}

fn put_options<'t>(study: &mut DeTable<'t>, change: DeTable<'t>) {
    for (name, value) in change {
        let DeValue::Table(mut value) = value.into_inner() else { continue };
        let workload = mutable(study, "workload").and_then(|all| mutable(all, name.get_ref()));
        let (Some(workload), Some((key, options))) = (workload, value.remove_entry("options")) else {
            continue;
        };
        let DeValue::Table(options) = options.into_inner() else { continue };
        put_all(
            workload.entry(key).or_insert_with(|| Spanned::new(0..0, DeValue::Table(DeTable::new()))),
            options,
        );
    }
}

/// Other levels take the place of all that there are.
fn put_levels<'t>(study: &mut DeTable<'t>, change: DeTable<'t>) {
    for (name, value) in change {
        let DeValue::Table(value) = value.into_inner() else { continue };
        let Some(factor) = mutable(study, "factor").and_then(|all| mutable(all, name.get_ref())) else {
            continue;
        };
        let bundles = value.contains_key("level");
        let gone = LEVELS.iter().chain(VARIED.iter().filter(|_| bundles));
        gone.for_each(|key| drop(factor.remove(*key)));
        put(factor, value);
    }
}

fn put_all<'t>(to: &mut Spanned<DeValue<'t>>, change: DeTable<'t>) {
    if let DeValue::Table(table) = to.get_mut() {
        put(table, change);
    }
}

/// With the keys of the change too, for they know where they stand.
fn put<'t>(to: &mut DeTable<'t>, change: DeTable<'t>) {
    for (key, value) in change {
        to.remove(key.get_ref().as_ref());
        to.insert(key, value);
    }
}

/// A row about a level that the lab does not have says nothing of the lab.
fn drop_published(study: &mut DeTable) {
    let factors = table_of(study, "factor").map(|factors| {
        let names = |(name, factor): (&Spanned<_>, &Spanned<DeValue>)| {
            let name: &str = AsRef::<std::borrow::Cow<str>>::as_ref(name);
            Some((name.to_owned(), level_names(factor.get_ref().as_table()?)))
        };
        factors.iter().filter_map(names).collect::<Vec<_>>()
    });
    let has = |factor: &str, level: &str| {
        let found = factors.iter().flatten().find(|(name, _)| name == factor);
        // What is no factor at all is told when the row is read.
        found.is_none_or(|(_, levels)| levels.iter().any(|name| name == level))
    };
    let is_of_the_lab = |row: &Spanned<DeValue>| {
        let row = row.get_ref().as_table();
        let over = row.and_then(|row| table_of(row, "over"));
        let levels = row.into_iter().chain(over).filter_map(|table| table_of(table, "levels"));
        levels.flatten().all(|(factor, level)| {
            let factor: &str = factor.get_ref();
            shown(level.get_ref()).is_none_or(|level| has(factor, level))
        })
    };
    let Some(DeValue::Array(rows)) = study.get_mut("published").map(Spanned::get_mut) else { return };
    let mut kept = DeArray::new();
    rows.iter().filter(|row| is_of_the_lab(row)).for_each(|row| kept.push(row.clone()));
    *rows = kept;
}

fn level_names(factor: &DeTable) -> Vec<String> {
    let items = |key| factor.get(key).and_then(|node| node.get_ref().as_array()).into_iter().flatten();
    let bundles = items("level").filter_map(|level| level.get_ref().as_table()?.get("name"));
    let names = items("levels").chain(bundles).filter_map(|name| shown(name.get_ref()));
    names.map(str::to_owned).collect()
}

/// A scalar as it was written.
fn shown<'v>(value: &'v DeValue) -> Option<&'v str> {
    match value {
        DeValue::String(text) => Some(text),
        DeValue::Integer(number) => Some(number.as_str()),
        DeValue::Float(number) => Some(number.as_str()),
        DeValue::Boolean(true) => Some("true"),
        DeValue::Boolean(false) => Some("false"),
        _ => None,
    }
}

fn table_of<'a, 't>(table: &'a DeTable<'t>, key: &str) -> Option<&'a DeTable<'t>> {
    table.get(key)?.get_ref().as_table()
}

fn mutable<'a, 't>(table: &'a mut DeTable<'t>, key: &str) -> Option<&'a mut DeTable<'t>> {
    match table.get_mut(key)?.get_mut() {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::study::{parse, parse_for_lab};
    use domain::time::Nanos;
    use expect_test::{Expect, expect};

    /// The first line of a test's own text is line 23.
    const HEAD: &str = r#"flyball = 1
name = "s"
question = "q"
[workload.w]
tool = "sysbench"
options = { test = "oltp_read_only", tables = 20, table_size = 1000000, time = 3 }
[factor.threads]
option = "threads"
levels = [1, 64]
[factor.policy]
[[factor.policy.level]]
name = "slow"
settings = { governor = "powersave" }
[[factor.policy.level]]
name = "fast"
settings = { governor = "performance" }
[measure]
metric = "transactions"
repeats = 6
[lab]
vcpus = 4
# What comes is of the lab.
"#;

    fn check(text: &str, expected: Expect) {
        let errors = parse(&format!("{HEAD}{text}")).expect_err("this study is wrong");
        expected.assert_eq(&format!("{errors}\n"));
    }

    #[test]
    fn the_lab_has_what_it_says_and_the_rest_of_the_study() {
        let text = format!(
            "{HEAD}[lab.measure]\nrepeats = 2\ninterval = \"1s\"\n[lab.workload.w]\noptions = {{ tables = 2, table_size = 5000 }}\n\
             [lab.factor.threads]\nlevels = [1, 4, 8]\n[[lab.factor.policy.level]]\nname = \"fast\"\n\
             settings = {{ governor = \"performance\" }}\n[[lab.factor.policy.level]]\nname = \"on demand\"\n\
             settings = {{ governor = \"ondemand\" }}\n"
        );
        let (host, lab) = (parse(&text).unwrap(), parse_for_lab(&text).unwrap());
        assert_eq!(host, parse(HEAD).unwrap());
        assert_eq!((lab.measure.repeats_max, lab.measure.interval), (2, Nanos::from_secs(1)));
        assert_eq!(lab.measure.metric, "transactions");
        let options = &lab.workloads[0].options;
        assert_eq!((options["tables"].as_str(), options["time"].as_str()), ("2", "3"));
        let levels =
            |index: usize| lab.factors[index].levels.iter().map(|l| l.name.as_str()).collect::<Vec<_>>();
        assert_eq!((levels(0), levels(1)), (vec!["1", "4", "8"], vec!["fast", "on demand"]));
        assert_eq!(lab.factors[0].levels[2].options["threads"], "8");
        assert_eq!(lab.lab, host.lab);
    }

    #[test]
    fn the_lab_may_have_one_level_of_a_factor() {
        let lab = parse_for_lab(&format!("{HEAD}[lab.factor.threads]\nlevels = [4]\n")).unwrap();
        assert_eq!(lab.factors[0].levels.len(), 1);
    }

    #[test]
    fn the_study_of_governors_has_a_labs_own() {
        let text = include_str!("../../../../studies/oltp-governors.toml");
        let cells = |study| domain::plan::Plan::new(study, domain::rng::Seed(1)).unwrap().cells;
        assert_eq!(cells(parse(text).unwrap()).len(), 2 * 7 * 4);
        let lab = parse_for_lab(text).unwrap();
        // All that was published can be asked of the lab's drivers.
        assert_eq!(lab.published.len(), parse(text).unwrap().published.len());
        let cells = cells(lab);
        assert_eq!(cells.len(), 2 * 7 * 4);
        assert!(cells.iter().all(|cell| cell.machine.is_none() && cell.pstates.is_some()));
        assert!(cells.iter().all(|cell| cell.workload.options["tables"] == "1"));
    }

    #[test]
    fn without_anything_of_its_own_the_lab_has_the_study() {
        assert_eq!(parse_for_lab(HEAD).unwrap(), parse(HEAD).unwrap());
    }

    #[test]
    fn a_study_without_a_measure_may_have_one_in_the_lab() {
        let text = HEAD.replace("[measure]\nmetric = \"transactions\"\nrepeats = 6\n", "").replace(
            "tool = \"sysbench\"\noptions = { test = \"oltp_read_only\", tables = 20, table_size = 1000000, time = 3 }\n\
             [factor.threads]\noption = \"threads\"\nlevels = [1, 64]\n",
            "tool = \"command\"\nargv = [\"true\"]\n[[workload.w.metric]]\nname = \"throughput\"\npattern = '(\\d)'\nunit = \"B/s\"\nbetter = \"higher\"\n",
        );
        let text = format!("{text}[lab.measure]\nrepeats = 2\n");
        assert_eq!(parse_for_lab(&text).unwrap().measure.repeats_min, 2);
    }

    #[test]
    fn rows_about_levels_that_the_lab_lacks_are_not_its() {
        let text = format!(
            "{HEAD}[lab.factor.threads]\nlevels = [1, 4]\n\
             [[published]]\nsource = \"a\"\nvalue = \"1 /s\"\nlevels = {{ threads = 64 }}\n\
             [[published]]\nsource = \"b\"\nvalue = 2\nlevels = {{ threads = 1 }}\nover = {{ levels = {{ threads = 64 }} }}\n\
             [[published]]\nsource = \"c\"\nvalue = \"1 /s\"\nlevels = {{ threads = 1 }}\n"
        );
        assert_eq!(parse(&text).unwrap().published.len(), 3);
        let lab = parse_for_lab(&text).unwrap().published;
        assert_eq!(lab.iter().map(|row| row.source.as_str()).collect::<Vec<_>>(), ["c"]);
    }

    #[test]
    fn what_it_changes_has_to_be_there() {
        check(
            "[lab.workload.v]\noptions = { time = 1 }\n[lab.workload.w]\ntool = \"fio\"\n[lab.factor.thread]\nlevels = [1, 2]\n[lab.factor.policy]\nlevels = [1, 2]\n[lab.factor.threads]\n",
            expect![[r#"
                line 23, column 15: `lab.workload.v`: changes a workload that the study does not have; did you mean `w`?
                line 26, column 1: `lab.workload.w.tool`: unknown key; known here: `options`
                line 27, column 13: `lab.factor.thread`: changes a factor that the study does not have; did you mean `threads`?
                line 30, column 1: `lab.factor.policy.levels`: means nothing in the lab alone: the study has bundles here; write `[[lab.factor.policy.level]]`
                line 31, column 13: `lab.factor.threads`: changes nothing; write `levels = […]`, or take it out
            "#]],
        );
    }

    #[test]
    fn what_it_has_is_checked_as_the_studys() {
        check(
            "[lab.workload.w]\noptions = { threads = 2, tables = 0 }\n",
            expect![[r#"
            line 24, column 26: `workload.w.options.tables`: is `0`; write a whole number from 1 to 1000
        "#]],
        );
        check(
            "[lab.measure]\nrepeats = 0\nmetrik = 1\n",
            expect![[r#"
            line 24, column 11: `measure.repeats`: has to be from 1 to 1000
            line 25, column 1: `measure.metrik`: unknown key; did you mean `metric`?
        "#]],
        );
        check(
            "measure = 1\nworkload = 2\n",
            expect![[r#"
            line 23, column 11: `lab.measure`: has to be a table, `[lab.measure]`; this is an integer
            line 24, column 12: `lab.workload`: has to be a table, `[lab.workload]`; this is an integer
        "#]],
        );
    }
}
