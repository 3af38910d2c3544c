//! `[[published]]`: what others published of the study's cells.
//!
//! A row is read once the workloads are known, whose metrics say in which unit its figures are.

use super::check::{named_metrics, reported};
use super::node::{Node, Section, listed, nearest};
use super::words;
use domain::Study;
use domain::lab::ENERGY_MODELLED;
use domain::plan::Cell;
use domain::published::{DEFAULT_WITHIN, Figure, Published, Selection};
use domain::study::{Factor, Workload};
use domain::units::Unit;
use std::collections::BTreeMap;
use workloads::report::shared_metric;

/// A bound on rows: more than a report can show beside its own figures.
const MAX_ROWS: usize = 256;

const KEYS: [&str; 12] = [
    "source", "workload", "levels", "metric", "value", "within", "low", "high", "at_least", "at_most",
    "over", "note",
];

/// Reads the rows. `metric` is the study's own.
pub(super) fn read(node: &Node, workloads: &[Workload], metric: &str) -> Option<Vec<Published>> {
    let items = node.items()?;
    if items.len() > MAX_ROWS {
        node.refuse(format!("has {} rows, and {MAX_ROWS} at most make sense", items.len()));
        return None;
    }
    let rows: Vec<Option<Published>> = items.iter().map(|item| row(item, workloads, metric)).collect();
    rows.into_iter().collect()
}

fn row(node: &Node, workloads: &[Workload], default: &str) -> Option<Published> {
    let section = node.section()?;
    section.only(&KEYS);
    // Every value is read before any is given up, so that all their problems are seen.
    let get = |key| section.get(key);
    let source = section.require("source", "source = \"https://…\"").and_then(|node| words(&node));
    let of = selection(&section);
    let over = get("over").map_or(Some(None), |node| over(&node).map(Some));
    let metric = get("metric").map_or_else(|| Some(default.to_owned()), |node| super::name(&node));
    let note = get("note").map_or(Some(None), |node| words(&node).map(Some));
    let unit = metric.as_deref().and_then(|metric| unit(metric, workloads, &section));
    let scale = match (&unit, get("over").is_some()) {
        (_, true) => Some(Scale::Ratio),
        (Some(unit), false) => Some(Scale::Metric(unit)),
        (None, false) => None,
    };
    let figure = scale.and_then(|scale| figure(&section, &scale));
    Some(Published {
        source: source?,
        of: of?,
        over: over?,
        metric: metric?,
        unit: unit?,
        figure: figure?,
        note: note?,
    })
}

/// `workload` and `levels`, which stand in a row and in its `over`.
pub(super) fn selection(section: &Section) -> Option<Selection> {
    let workload = section.get("workload").map_or(Some(None), |node| super::name(&node).map(Some));
    let levels = section.get("levels").map_or_else(|| Some(BTreeMap::new()), |node| levels(&node));
    Some(Selection { workload: workload?, levels: levels? })
}

pub(super) fn levels(node: &Node) -> Option<BTreeMap<String, String>> {
    let entries = node.section()?.entries();
    let pair = |entry: &Node| Some((entry.key.to_owned(), entry.scalar()?.shown));
    let pairs: Vec<Option<(String, String)>> = entries.iter().map(pair).collect();
    pairs.into_iter().collect()
}

pub(super) fn over(node: &Node) -> Option<Selection> {
    let section = node.section()?;
    section.only(&["workload", "levels"]);
    if section.entries().is_empty() {
        node.refuse("is empty; say what differs in the cell that this one is divided by: `over = { levels = { governor = \"performance\" } }`");
        return None;
    }
    selection(&section)
}

/// What the metric is counted in; that each workload reports it is checked once the row's cells are known.
fn unit(metric: &str, workloads: &[Workload], row: &Section) -> Option<Unit> {
    let of_commands = workloads.iter().filter_map(|workload| {
        let (_, metrics) = workload.tool.command()?;
        metrics.iter().find(|m| m.name == metric)
    });
    let shared = shared_metric(metric).map(|(unit, _)| unit);
    let modelled = (metric == ENERGY_MODELLED).then_some(Unit::Joules);
    let unit = shared.or(modelled).or_else(|| of_commands.map(|m| m.unit.clone()).next());
    if unit.is_none() {
        let problem = format!(
            "`{metric}` is reported by no workload; see docs/STUDY-FORMAT.md for the metrics of each tool"
        );
        match row.get("metric") {
            Some(node) => node.refuse(problem),
            None => row.refuse(format!("its metric is the study's, and {problem}")),
        }
    }
    unit
}

/// What the figures of a row are.
enum Scale<'u> {
    /// Values of a metric in this unit.
    Metric(&'u Unit),
    /// One cell over another.
    Ratio,
}

/// What was printed, by which keys there are.
fn figure(section: &Section, scale: &Scale) -> Option<Figure> {
    let get = |key| section.get(key);
    let amount = |key| section.get(key).map(|node| amount(&node, scale));
    if let Some(value) = amount("value") {
        for bound in ["at_least", "at_most"].into_iter().filter_map(get) {
            bound.refuse_key("cannot stand beside `value`; write one or the other");
        }
        let accepted = accepted(section, scale);
        return around(section, value?, accepted?);
    }
    for node in ["within", "low", "high"].into_iter().filter_map(get) {
        node.refuse_key("says which figures agree with a `value`, and there is none; add it, or write `at_least` and `at_most`");
    }
    match (amount("at_least"), amount("at_most")) {
        (None, None) => {
            section.refuse(format!(
                "says no figure; write `value = {}`, or a bound, `at_least` or `at_most`",
                scale.example()
            ));
            None
        }
        (Some(least), None) => least.map(Figure::AtLeast),
        (None, Some(most)) => most.map(Figure::AtMost),
        (Some(low), Some(high)) => {
            let (low, high) = (low?, high?);
            if low >= high {
                get("at_most")?.refuse("has to be above `at_least`; exchange the two, or write a `value`");
                return None;
            }
            Some(Figure::Between { low, high })
        }
    }
}

/// How far a value may be missed.
enum Accepted {
    /// By a share of it.
    Within(f64),
    /// From here to there.
    Range(f64, f64),
}

fn accepted(section: &Section, scale: &Scale) -> Option<Accepted> {
    let get = |key| section.get(key);
    match (get("within"), get("low"), get("high")) {
        (None, None, None) => Some(Accepted::Within(DEFAULT_WITHIN)),
        (Some(within), None, None) => within.share().map(Accepted::Within),
        (None, Some(low), Some(high)) => {
            let (low, high) = (amount(&low, scale), amount(&high, scale));
            Some(Accepted::Range(low?, high?))
        }
        (Some(within), ..) => {
            within.refuse_key(
                "cannot stand beside `low` and `high`, which say the same; take one or the other out",
            );
            None
        }
        (None, Some(one), None) | (None, None, Some(one)) => {
            let other = if one.key == "low" { "high" } else { "low" };
            one.refuse_key(format!("needs `{other}` beside it; add it, or write `within = \"10%\"`"));
            None
        }
    }
}

fn around(section: &Section, value: f64, accepted: Accepted) -> Option<Figure> {
    match accepted {
        Accepted::Within(share) => Some(Figure::within(value, share)),
        Accepted::Range(low, high) if (low..=high).contains(&value) => {
            Some(Figure::Value { value, low, high })
        }
        Accepted::Range(..) => {
            section.get("low")?.refuse("`value` has to lie between `low` and `high`");
            None
        }
    }
}

impl Scale<'_> {
    fn example(&self) -> String {
        match self {
            Self::Metric(Unit::Count) => Unit::Count.example(),
            Self::Metric(unit) => format!("{:?}", unit.example()),
            Self::Ratio => "0.6".to_owned(),
        }
    }
}

/// A value with its unit, a bare count or share, or a ratio; above zero.
fn amount(node: &Node, scale: &Scale) -> Option<f64> {
    let read = match scale {
        Scale::Metric(unit) if node.is_text() => unit.parse(node.text()?),
        Scale::Metric(Unit::Count | Unit::Share) | Scale::Ratio => node.number(),
        Scale::Metric(_) => None,
    };
    let amount = read.filter(|amount| *amount > 0.0);
    if amount.is_none() {
        let what = match scale {
            Scale::Metric(Unit::Count) => "a number above zero",
            Scale::Metric(Unit::Share) => "a share above zero",
            Scale::Metric(_) => "a value above zero with the metric's unit",
            Scale::Ratio => "a bare number above zero, for it is one cell over another",
        };
        node.refuse(format!("has to be {what}; write it as in `{}`", scale.example()));
    }
    amount
}

/// Notes what rows name that the study does not have.
pub(super) fn check(study: &Study, cells: Option<&[Cell]>, root: &Section) {
    let items = root.get("published").map(|node| node.items_if_any()).unwrap_or_default();
    for (item, row) in items.iter().zip(&study.published) {
        let Some(section) = item.section_if_any() else { continue };
        names_exist(study, &row.of, &section);
        if let (Some(over), Some(node)) =
            (&row.over, section.get("over").and_then(|node| node.section_if_any()))
        {
            names_exist(study, over, &node);
        }
        is_reported(study, row, &section);
    }
    let Some(cells) = cells.filter(|_| root.is_sound()) else { return };
    for (item, row) in items.iter().zip(&study.published) {
        if let Err(error) = row.subjects(cells) {
            item.refuse(error.to_string());
        }
    }
}

/// Workload, factors and levels are the study's.
pub(super) fn names_exist(study: &Study, selection: &Selection, section: &Section) {
    let workloads: Vec<&str> = study.workloads.iter().map(|w| w.name.as_str()).collect();
    let workload = selection.workload.as_deref();
    if let (Some(name), Some(node)) = (workload, section.get("workload"))
        && !workloads.contains(&name)
    {
        node.refuse(format!("there is no workload `{name}`; {}", meant(name, &workloads)));
    }
    let factors: Vec<&str> = study.factors.iter().map(|factor| factor.name.as_str()).collect();
    let levels = section.get("levels").and_then(|node| node.section_if_any());
    let workload = workload.filter(|name| workloads.contains(name));
    for node in levels.iter().flat_map(Section::entries) {
        let Some(level) = selection.levels.get(node.key) else { continue };
        match study.factors.iter().find(|factor| factor.name == node.key) {
            None => {
                node.refuse_key(format!("there is no factor `{}`; {}", node.key, meant(node.key, &factors)))
            }
            Some(factor) => level_exists(factor, level, workload, &node),
        }
    }
}

fn level_exists(factor: &Factor, level: &str, workload: Option<&str>, node: &Node) {
    let levels: Vec<&str> = factor.levels.iter().map(|level| level.name.as_str()).collect();
    if !levels.contains(&level) {
        node.refuse(format!("`{}` has no level `{level}`; {}", factor.name, meant(level, &levels)));
    }
    if let Some(workload) = workload
        && !factor.workloads.is_empty()
        && !factor.workloads.iter().any(|name| name == workload)
    {
        node.refuse_key(format!(
            "the factor `{}` does not apply to the workload `{workload}`; take it out",
            factor.name
        ));
    }
}

fn meant(name: &str, known: &[&str]) -> String {
    match (nearest(name, known.iter().copied()), known) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, []) => "there is none at all".to_owned(),
        (None, known) => format!("there are {}", listed(known)),
    }
}

/// Each workload that a row may be about reports its metric.
fn is_reported(study: &Study, row: &Published, section: &Section) {
    let named = [row.of.workload.as_ref(), row.over.as_ref().and_then(|over| over.workload.as_ref())];
    let meant = |workload: &&Workload| match row.of.workload {
        None => true,
        Some(_) => named.contains(&Some(&workload.name)),
    };
    for workload in study.workloads.iter().filter(meant) {
        let reported = reported(study, workload);
        if reported.contains(&row.metric.as_str()) {
            continue;
        }
        let problem = format!(
            "`{}` is not reported by the workload `{}`, which has {}; name another metric, or a workload that reports it",
            row.metric,
            workload.name,
            named_metrics(&reported)
        );
        match section.get("metric") {
            Some(node) => node.refuse(problem),
            None => section.refuse(problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::study::parse;
    use domain::Study;
    use domain::plan::Plan;
    use domain::published::Figure;
    use domain::rng::Seed;
    use expect_test::{Expect, expect};

    /// The first line of a test's own text is line 20.
    const HEAD: &str = r#"flyball = 1
name = "s"
question = "q"
target.file = "1MiB"
[workload.small]
tool = "fio"
[workload.large]
tool = "dd"
[factor.governor]
setting = "governor"
levels = ["performance", "ondemand"]
[factor.depth]
option = "iodepth"
levels = [1, 32]
workloads = ["small"]
[factor.machine]
sim = "machine"
levels = ["laptop-2007", "machines/own.toml"]
[[published]]
"#;

    fn check(text: &str, expected: Expect) {
        let errors = parse(&format!("{HEAD}{text}")).expect_err("this study is wrong");
        expected.assert_eq(&format!("{errors}\n"));
    }

    fn study(text: &str) -> Study {
        parse(&format!("{HEAD}{text}")).unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn figure(keys: &str) -> Figure {
        study(&format!("source = \"a\"\n{keys}\n")).published[0].figure
    }

    #[test]
    fn a_row_says_where_it_stands_which_cells_it_is_about_and_what_was_printed() {
        let study = study(
            "source = \"https://example.org/1\"\nworkload = \"small\"\nlevels = { governor = \"ondemand\", depth = 32 }\nvalue = \"7.6 MB/s\"\nnote = \"by dd\"\n",
        );
        let [row] = &study.published[..] else { panic!("one row") };
        assert_eq!((row.source.as_str(), row.note.as_deref()), ("https://example.org/1", Some("by dd")));
        assert_eq!((row.metric.as_str(), row.of.levels["depth"].as_str()), ("throughput", "32"));
        let Figure::Value { value, low, high } = row.figure else { panic!("a value") };
        assert!((value - 7.6e6).abs() < 1.0 && (low - 6.84e6).abs() < 1.0 && (high - 8.36e6).abs() < 1.0);
        let plan = Plan::new(study.clone(), Seed(1)).unwrap();
        let cells: Vec<&str> =
            row.subjects(&plan.cells).unwrap().iter().map(|s| s.cell.id.as_str()).collect();
        assert_eq!(cells, ["small_ondemand_32_laptop-2007", "small_ondemand_32_machines-own.toml"]);
    }

    #[test]
    fn a_figure_is_a_value_with_its_tolerance_or_bounds() {
        assert_eq!(
            figure("value = \"50 MB/s\"\nwithin = \"50%\""),
            Figure::Value { value: 50e6, low: 25e6, high: 75e6 }
        );
        assert_eq!(
            figure("value = \"50 MB/s\"\nlow = \"40 MB/s\"\nhigh = \"80 MB/s\""),
            Figure::Value { value: 50e6, low: 40e6, high: 80e6 }
        );
        assert_eq!(figure("at_least = \"1 GB/s\""), Figure::AtLeast(1e9));
        assert_eq!(
            figure("workload = \"small\"\nmetric = \"latency_mean\"\nat_most = \"20 ms\""),
            Figure::AtMost(0.02)
        );
        let between = figure("at_least = \"1 GB/s\"\nat_most = \"1.5 GB/s\"");
        assert_eq!(between, Figure::Between { low: 1e9, high: 1.5e9 });
        let share = figure("workload = \"small\"\nmetric = \"cpu_system\"\nvalue = 0.5\nwithin = 0");
        assert_eq!(share, Figure::Value { value: 0.5, low: 0.5, high: 0.5 });
    }

    #[test]
    fn a_relation_is_a_bare_number() {
        let over = "over = { levels = { governor = \"performance\" } }\n";
        let row = study(&format!(
            "source = \"a\"\nlevels = {{ governor = \"ondemand\" }}\n{over}value = 0.6\nwithin = \"50%\"\n"
        ));
        assert_eq!(row.published[0].figure, Figure::Value { value: 0.6, low: 0.3, high: 0.6 * 1.5 });
        assert_eq!(row.published[0].over.as_ref().unwrap().levels["governor"], "performance");
        assert_eq!(figure(&format!("{over}at_least = 0.9")), Figure::AtLeast(0.9));
        check(
            &format!("source = \"a\"\nvalue = \"0.6\"\n{over}"),
            expect![[r#"
                line 21, column 9: `published[1].value`: has to be a bare number above zero, for it is one cell over another; write it as in `0.6`
            "#]],
        );
    }

    #[test]
    fn units_fit_the_metric() {
        for (keys, expected) in [
            (
                "value = 7.6",
                expect![[r#"
                line 21, column 9: `published[1].value`: has to be a value above zero with the metric's unit; write it as in `"7.6 MB/s"`
            "#]],
            ),
            (
                "at_most = \"20 ms\"",
                expect![[r#"
                line 21, column 11: `published[1].at_most`: has to be a value above zero with the metric's unit; write it as in `"7.6 MB/s"`
            "#]],
            ),
            (
                "value = \"0 MB/s\"\nlow = \"1 Mb/s\"\nhigh = true",
                expect![[r#"
                line 21, column 9: `published[1].value`: has to be a value above zero with the metric's unit; write it as in `"7.6 MB/s"`
                line 22, column 7: `published[1].low`: has to be a value above zero with the metric's unit; write it as in `"7.6 MB/s"`
                line 23, column 8: `published[1].high`: has to be a value above zero with the metric's unit; write it as in `"7.6 MB/s"`
            "#]],
            ),
        ] {
            check(&format!("source = \"a\"\n{keys}\n"), expected);
        }
    }

    #[test]
    fn keys_that_mean_nothing_together_are_refused() {
        check(
            "soruce = \"a\"\n[[published]]\nsource = \" \"\nat_least = \"1 MB/s\"\nlow = \"1 MB/s\"\n[[published]]\nsource = \"a\"\nvalue = \"1 MB/s\"\nat_most = \"2 MB/s\"\nwithin = \"5%\"\nhigh = \"3 MB/s\"\n[[published]]\nsource = \"a\"\nvalue = \"1 MB/s\"\nlow = \"0.9 MB/s\"\n[[published]]\nsource = \"a\"\nvalue = \"3 MB/s\"\nlow = \"1 MB/s\"\nhigh = \"2 MB/s\"\n[[published]]\nsource = \"a\"\nat_least = \"2 MB/s\"\nat_most = \"1 MB/s\"\nover = {}\n",
            expect![[r#"
                line 19, column 1: `published[1].source`: missing; write `source = "https://…"`
                line 19, column 1: `published[1]`: says no figure; write `value = "7.6 MB/s"`, or a bound, `at_least` or `at_most`
                line 20, column 1: `published[1].soruce`: unknown key; did you mean `source`?
                line 22, column 10: `published[2].source`: is empty; take it out, or say what is meant
                line 24, column 1: `published[2].low`: says which figures agree with a `value`, and there is none; add it, or write `at_least` and `at_most`
                line 28, column 1: `published[3].at_most`: cannot stand beside `value`; write one or the other
                line 29, column 1: `published[3].within`: cannot stand beside `low` and `high`, which say the same; take one or the other out
                line 34, column 1: `published[4].low`: needs `high` beside it; add it, or write `within = "10%"`
                line 38, column 7: `published[5].low`: `value` has to lie between `low` and `high`
                line 42, column 12: `published[6].at_least`: has to be a bare number above zero, for it is one cell over another; write it as in `0.6`
                line 43, column 11: `published[6].at_most`: has to be a bare number above zero, for it is one cell over another; write it as in `0.6`
                line 44, column 8: `published[6].over`: is empty; say what differs in the cell that this one is divided by: `over = { levels = { governor = "performance" } }`
            "#]],
        );
    }

    #[test]
    fn what_a_row_names_is_in_the_study() {
        check(
            "source = \"a\"\nvalue = \"1 MB/s\"\nworkload = \"smal\"\nlevels = { govrnor = \"x\", depth = 2, governor = \"ondemnad\" }\n[[published]]\nsource = \"a\"\nvalue = 2\nworkload = \"large\"\nlevels = { depth = 1 }\nover = { workload = \"medium\", levels = { depht = 1 } }\n",
            expect![[r#"
                line 22, column 12: `published[1].workload`: there is no workload `smal`; did you mean `small`?
                line 23, column 12: `published[1].levels.govrnor`: there is no factor `govrnor`; did you mean `governor`?
                line 23, column 35: `published[1].levels.depth`: `depth` has no level `2`; did you mean `1`?
                line 23, column 49: `published[1].levels.governor`: `governor` has no level `ondemnad`; did you mean `ondemand`?
                line 28, column 12: `published[2].levels.depth`: the factor `depth` does not apply to the workload `large`; take it out
                line 29, column 21: `published[2].over.workload`: there is no workload `medium`; there are `small`, `large`
                line 29, column 42: `published[2].over.levels.depht`: there is no factor `depht`; did you mean `depth`?
            "#]],
        );
        check(
            "source = \"a\"\nvalue = \"1 ms\"\nmetric = \"latency_mean\"\n[[published]]\nsource = \"a\"\nvalue = \"1 ms\"\nmetric = \"latency\"\n",
            expect![[r#"
                line 26, column 10: `published[2].metric`: `latency` is reported by no workload; see docs/STUDY-FORMAT.md for the metrics of each tool
            "#]],
        );
        check(
            "source = \"a\"\nvalue = \"1 ms\"\nmetric = \"latency_mean\"\n",
            expect![[r#"
                line 22, column 10: `published[1].metric`: `latency_mean` is not reported by the workload `large`, which has `throughput`, `iops`, `elapsed`, `cpu_busy`; name another metric, or a workload that reports it
            "#]],
        );
    }

    #[test]
    fn a_row_has_cells_and_the_other_side_of_a_relation_is_one() {
        check(
            "source = \"a\"\nvalue = 0.5\nworkload = \"large\"\nover = { workload = \"small\" }\n[[published]]\nsource = \"a\"\nvalue = 0.5\nlevels = { governor = \"ondemand\" }\nover = { levels = { governor = \"ondemand\" } }\n",
            expect![[r#"
                line 19, column 1: `published[1]`: `over` does not say which level of `depth` the cell `large_performance_laptop-2007` is held against; add it to its `levels`
                line 24, column 1: `published[2]`: `over` names nothing that differs from the cell `small_ondemand_1_laptop-2007` itself; name another level or workload
            "#]],
        );
        check(
            "source = \"a\"\nvalue = 0.5\nworkload = \"large\"\nover = { levels = { depth = 1 } }\n",
            expect![[r#"
                line 19, column 1: `published[1]`: there is no cell that `large_performance_laptop-2007` would be held against; name the workload and the levels of one in `over`
            "#]],
        );
    }

    #[test]
    fn the_machine_of_the_simulation_is_the_levels_or_the_studys() {
        let text = HEAD.replace("[[published]]\n", "[sim]\nmachine = \"laptop-2007\"\n").replace(
            "[factor.machine]\nsim = \"machine\"\nlevels = [\"laptop-2007\", \"machines/own.toml\"]\n",
            "[factor.machine]\n[[factor.machine.level]]\nname = \"old\"\nmachine = \"laptop-1999\"\n[[factor.machine.level]]\nname = \"now\"\n",
        );
        let study = parse(&text).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(study.sim.machine.as_deref(), Some("laptop-2007"));
        let plan = Plan::new(study, Seed(1)).unwrap();
        let machine = |level: &str| {
            plan.cells.iter().find(|cell| cell.levels["machine"] == level).unwrap().machine.as_deref()
        };
        assert_eq!((machine("old"), machine("now")), (Some("laptop-1999"), Some("laptop-2007")));
    }

    #[test]
    fn a_level_names_the_table_of_p_states_of_a_lab_machine() {
        let text = HEAD.replace("[[published]]\n", "[lab]\npstates = \"laptop-5\"\n").replace(
            "[factor.machine]\nsim = \"machine\"\nlevels = [\"laptop-2007\", \"machines/own.toml\"]\n",
            "[factor.machine]\n[[factor.machine.level]]\nname = \"hwp\"\nmachine = \"laptop-1999\"\npstates = \"i7-6700k-hwp\"\n[[factor.machine.level]]\nname = \"now\"\n",
        );
        let tables = |text: &str| {
            let plan = Plan::new(parse(text).unwrap_or_else(|errors| panic!("{errors}")), Seed(1)).unwrap();
            plan.cells
                .iter()
                .filter_map(|cell| cell.pstates.clone())
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(Vec::from_iter(tables(&text)), ["i7-6700k-hwp", "laptop-5"]);
        let by_list = HEAD.replace("sim = \"machine\"", "lab = \"pstates\"");
        let listed = by_list.replace("[[published]]\n", "[lab]\npstates = \"laptop-5\"\n");
        assert_eq!(Vec::from_iter(tables(&listed)), ["laptop-2007", "machines/own.toml"]);
        let error = parse(&by_list.replace("[[published]]\n", "")).unwrap_err().to_string();
        assert!(error.contains("`factor.machine`: names tables of P-states, and `[lab]` none"), "{error}");
    }

    #[test]
    fn a_machine_is_named_by_a_text() {
        check(
            "source = \"a\"\nvalue = \"1 MB/s\"\n[sim]\nmachin = \"x\"\nmachine = \"\"\n[factor.m]\nsim = \"cpu\"\nlevels = [\"a\", \"b\"]\n[factor.n]\nsim = \"machine\"\nlevels = [1, \"b\"]\n",
            expect![[r#"
                line 23, column 1: `sim.machin`: unknown key; did you mean `machine`?
                line 24, column 11: `sim.machine`: is empty; take it out, or say what is meant
                line 26, column 7: `factor.m.sim`: has to be `"machine"`: a level of the simulation is a machine file
                line 30, column 11: `factor.n.levels[1]`: has to be a string, `"…"`; this is an integer
            "#]],
        );
        check(
            "source = \"a\"\nvalue = \"1 MB/s\"\n[factor.again]\nsim = \"machine\"\nlevels = [\"a\", \"b\"]\n",
            expect![[r#"
                line 22, column 9: `factor.again`: sets the simulated machine of the workload `small`, as the factor `machine` does; only one of them can
            "#]],
        );
    }
}
