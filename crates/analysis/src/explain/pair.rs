//! Two cells that a rule may compare: they differ in what the rule is about, and in nothing else.
//!
//! A rule gets its partners here alone. What cells are is taken from the plan (tool, options, settings,
//! storage, kernel, machine) and not from the names of levels, since one level may change several of these.

use crate::compare::{Blocks, Conditions, Group, Yardstick, compare};
use crate::costs;
use crate::facts::case::{Case, CaseCell, evidence};
use crate::published::withdraw_far_off;
use crate::summarise::{contexts, metric_kind};
use crate::summary::{Comparison, Verdict};
use crate::words::metric_words;
use domain::finding::Evidence;
use domain::ids::CellId;
use domain::outcome::Better;
use domain::plan::Cell;
use domain::setting::{SettingName, SettingRequest};
use domain::trial::Provenance;
use domain::units::significant;
use std::collections::{BTreeMap, BTreeSet};

/// A part of a cell that may decide how fast it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Tool,
    Option(String),
    Setting(SettingName),
    Storage,
    Beside,
    Kernel,
    Machine,
}

impl Part {
    /// Whether it is one of these options of a workload.
    pub(super) fn is_option(&self, names: &[&str]) -> bool {
        matches!(self, Self::Option(name) if names.contains(&name.as_str()))
    }

    /// Whether it is a setting whose short name satisfies this.
    pub(super) fn is_setting(&self, is_meant: impl Fn(&str) -> bool) -> bool {
        matches!(self, Self::Setting(setting) if is_meant(&setting.name))
    }
}

/// All parts in which two cells differ.
fn differences(a: &Cell, b: &Cell) -> BTreeSet<Part> {
    let options = different(&a.workload.options, &b.workload.options).map(Part::Option);
    let by_name = |requests: &[SettingRequest]| -> BTreeMap<SettingName, String> {
        requests.iter().map(|request| (request.setting.clone(), request.value.clone())).collect()
    };
    let (of_a, of_b) = (by_name(&a.settings), by_name(&b.settings));
    let settings = different(&of_a, &of_b).map(Part::Setting);
    let whole = [
        (a.workload.tool != b.workload.tool, Part::Tool),
        (a.stack != b.stack, Part::Storage),
        (a.beside != b.beside, Part::Beside),
        (a.kernel != b.kernel, Part::Kernel),
        ((&a.machine, &a.pstates) != (&b.machine, &b.pstates), Part::Machine),
    ];
    let whole = whole.into_iter().filter_map(|(is_different, part)| is_different.then_some(part));
    options.chain(settings).chain(whole).collect()
}

/// The keys whose values differ, or that only one has.
fn different<'m, K: Ord + Clone>(
    a: &'m BTreeMap<K, String>,
    b: &'m BTreeMap<K, String>,
) -> impl Iterator<Item = K> + 'm {
    let keys: BTreeSet<&K> = a.keys().chain(b.keys()).collect();
    keys.into_iter().filter(|key| a.get(key) != b.get(key)).cloned()
}

/// Two cells that differ in one thing alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'c, 'a> {
    a: &'c CaseCell<'a>,
    b: &'c CaseCell<'a>,
}

/// Of cells that are compared with `from`, the one to choose: the best, or that which changes least among
/// those that the trials do not tell from the best; `from` itself changes nothing. Of equals the first of the
/// plan, so that each repetition says the same.
pub(super) fn modest<'c, 'a>(
    case: &Case<'_>,
    from: &'c CaseCell<'a>,
    among: &[&'c CaseCell<'a>],
) -> Option<&'c CaseCell<'a>> {
    let rank = |cell: &&&'c CaseCell<'a>| {
        let median = cell.summary.and_then(|summary| summary.median).unwrap_or(f64::NAN);
        if case.summary.better == Better::Higher { median } else { -median }
    };
    let is_known = |cell: &&&'c CaseCell<'a>| {
        let may_be_chosen = cell.cell.id == from.cell.id || !Pair { a: from, b: cell }.is_far_off(case);
        may_be_chosen && !rank(cell).is_nan()
    };
    let among: Vec<&'c CaseCell<'a>> = among.iter().filter(is_known).copied().collect();
    let best = among.iter().max_by(|a, b| rank(a).total_cmp(&rank(b)))?;
    let is_as_good = |cell: &&&'c CaseCell<'a>| {
        let pair = Pair { a: cell, b: best };
        let is_best = cell.cell.id == best.cell.id;
        let verdict = pair.as_measured(case, ("", "")).map(|comparison| comparison.verdict);
        is_best || matches!(verdict, Some(Verdict::Same | Verdict::Undecided))
    };
    let changes = |cell: &&&'c CaseCell<'a>| Pair { a: from, b: cell }.changes();
    among.iter().filter(is_as_good).min_by_key(changes).copied()
}

impl<'c, 'a> Pair<'c, 'a> {
    /// A pair, where the cells differ in parts of which each is `varied`.
    pub(super) fn of(
        a: &'c CaseCell<'a>,
        b: &'c CaseCell<'a>,
        varied: impl Fn(&Part) -> bool,
    ) -> Option<Self> {
        let parts = differences(&a.cell, &b.cell);
        (!parts.is_empty() && parts.iter().all(varied)).then_some(Self { a, b })
    }

    pub(super) const fn a(&self) -> &'c CaseCell<'a> {
        self.a
    }

    pub(super) const fn b(&self) -> &'c CaseCell<'a> {
        self.b
    }

    /// The names of its cells, as a finding has them.
    pub(super) fn cells(&self) -> (CellId, CellId) {
        (self.a.cell.id.clone(), self.b.cell.id.clone())
    }

    /// B against A by the summary's metric, under these names.
    pub(super) fn compare(&self, case: &Case<'_>, names: (&str, &str)) -> Option<Comparison> {
        let mut compared = self.as_measured(case, names)?;
        let cells = (&self.a.cell.id, &self.b.cell.id);
        withdraw_far_off(&case.summary.published, cells, &mut compared);
        Some(compared)
    }

    /// The same, however far a model is from what was published.
    fn as_measured(&self, case: &Case<'_>, names: (&str, &str)) -> Option<Comparison> {
        let kind = metric_kind(case.data, &case.summary.metric);
        let measure = &case.data.study.measure;
        let by = Yardstick {
            metric: &kind.name,
            unit: kind.unit.clone(),
            better: kind.better,
            confidence: measure.confidence,
            threshold: measure.threshold,
            blocks: Blocks::Shared,
            under: Conditions::of(case.data),
        };
        let group = |name, cell: &'c CaseCell<'a>| Group { name, points: cell.points() };
        compare(group(names.0, self.a), group(names.1, self.b), &by)
    }

    /// Whether a model is so far from what was published of these cells that nothing is concluded from them.
    fn is_far_off(&self, case: &Case<'_>) -> bool {
        is_far_off(case, (&self.a.cell.id, &self.b.cell.id))
    }

    /// What B changes of A: parts that differ, another governor besides, since its tunables go with it.
    fn changes(&self) -> usize {
        let parts = differences(&self.a.cell, &self.b.cell);
        parts.len() + usize::from(parts.iter().any(|part| part.is_setting(|name| name == "governor")))
    }

    /// A instead of B.
    pub(super) const fn reversed(&self) -> Self {
        Self { a: self.b, b: self.a }
    }

    /// What B, called so, costs or saves beside the metric that was compared: medians of latency, energy and
    /// CPU time.
    pub(super) fn costs(&self, case: &Case<'_>, name: &str) -> Vec<Evidence> {
        let of = |metric: &&str| {
            let kind = metric_kind(case.data, metric);
            let (a, b) = (self.a.metric(metric)?, self.b.metric(metric)?);
            let ratio = if a > 0.0 { format!(" (×{})", significant(b / a)) } else { String::new() };
            let figure = format!("{} instead of {}{ratio}", kind.unit.show(b), kind.unit.show(a));
            Some(evidence(
                format!("{} with {name}", metric_words(metric)),
                figure,
                "medians of the same trials",
            ))
        };
        costs::METRICS.iter().filter(|name| **name != case.summary.metric).filter_map(of).collect()
    }
}

/// Whether the run is one of a model that is so far from what was published of these cells that nothing is
/// concluded from them.
pub(super) fn is_far_off(case: &Case<'_>, cells: (&CellId, &CellId)) -> bool {
    let is_model = case.data.run.provenance == Provenance::Simulation;
    is_model && case.summary.published.iter().any(|row| row.is_far_off() && row.is_about(cells))
}

/// What a level does in a context, against an earlier level of its factor, and the two cells.
pub(super) type Effect<'c, 'a> = (&'a str, Comparison, Pair<'c, 'a>);

impl<'a> Case<'a> {
    /// What a factor's levels do, of those comparisons alone whose cells differ in parts that are `varied`.
    /// A level is compared with the factor's first, as the summary has it. Two levels that differ in more (of
    /// two machines), or of which one is modelled far from what was published, are not compared: the level is
    /// compared with the earliest other one that it can be compared with.
    pub(super) fn effects<'c>(
        &self,
        cells: &'c [CaseCell<'a>],
        factor: &str,
        varied: impl Fn(&Part) -> bool,
    ) -> Vec<Effect<'c, 'a>> {
        let contexts = contexts(&self.summary.cells, factor);
        let mut found = Vec::new();
        for effect in self.summary.effects.iter().filter(|effect| effect.factor == factor) {
            let Some((_, members)) = contexts.iter().find(|(name, _)| *name == effect.context) else {
                continue;
            };
            let at = |level: &str| {
                let member = members.iter().find(|cell| cell.levels[factor] == level)?;
                cells.iter().find(|cell| cell.cell.id == member.cell)
            };
            let mut earlier: Vec<(&'a str, &'c CaseCell<'a>)> = Vec::new();
            for comparison in &effect.comparisons {
                let (Some(first), Some(own)) = (at(&comparison.a), at(&comparison.b)) else { continue };
                let with_first = Pair::of(first, own, &varied).map(|pair| (comparison.clone(), pair));
                let with_other = || {
                    let mut of = earlier.iter().filter_map(|(name, cell)| {
                        let pair = Pair::of(cell, own, &varied)?;
                        (!pair.is_far_off(self)).then_some((*name, pair))
                    });
                    let (name, pair) = of.next()?;
                    Some((pair.compare(self, (name, &comparison.b))?, pair))
                };
                let known = match with_first {
                    Some(first) if first.1.is_far_off(self) => with_other().or(Some(first)),
                    Some(first) => Some(first),
                    None => with_other(),
                };
                found.extend(known.map(|(compared, pair)| (effect.context.as_str(), compared, pair)));
                earlier.push((&comparison.b, own));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{about, account, bare_machine, fio_run, with_depth};
    use super::super::{RULES, explain};
    use super::*;
    use crate::summarise::summarise;
    use crate::summary::RunData;
    use crate::testing::{run, study};
    use domain::finding::{Confidence, Finding};
    use domain::plan::Plan;
    use domain::rng::{Rng, Seed};
    use domain::stack::{LayerSpec, StackSpec};
    use domain::study::{Level, Study, Workload};

    /// What a rule may vary, as options and as settings: written down here once more, so that a rule that
    /// lets more differ is found. What rules may vary of the storage is in [`storage`].
    fn may_vary(rule: &str) -> (&'static [&'static str], &'static [&'static str]) {
        match rule {
            "queue-depth" => (&["iodepth", "numjobs", "ioengine"], &[]),
            "governor" | "governor-stays-low" => (&[], &["governor", "epp", "ondemand.up_threshold"]),
            "parity-writes" => (&[], &[]),
            "read-ahead" => (&["direct", "bs", "iodepth", "ioengine"], &["read_ahead_kb"]),
            "scheduler" => (&[], &["scheduler"]),
            "request-slots" => (&[], &["nr_requests"]),
            "writeback-throttling" => (&[], &["wbt_lat_usec"]),
            "dirty-limit" => (&[], &["vm.dirty_ratio"]),
            "idle-policy" => (&[], &["cpu_dma_latency"]),
            "frequency-limit" => (&[], &["turbo"]),
            "stripe-cache" => (&[], &["stripe_cache_size"]),
            "group-threads" => (&[], &["group_thread_cnt"]),
            _ => (&[], &[]),
        }
    }

    fn one<'t>(of: &[&'t str], rng: &mut Rng) -> &'t str {
        of[rng.below(of.len())]
    }

    fn some_options(rng: &mut Rng) -> BTreeMap<String, String> {
        let all: &[(&str, &[&str])] = &[
            ("iodepth", &["1", "32"]),
            ("ioengine", &["libaio"]),
            ("rw", &["randread", "read", "randwrite"]),
            ("bs", &["4k", "1m"]),
            ("direct", &["0", "1"]),
            ("numjobs", &["1", "4"]),
        ];
        let chosen: Vec<_> = all.iter().filter(|_| rng.below(3) == 0).collect();
        chosen.into_iter().map(|(name, values)| ((*name).to_owned(), one(values, rng).to_owned())).collect()
    }

    fn some_settings(rng: &mut Rng) -> Vec<SettingRequest> {
        let all: &[(&str, &[&str])] = &[
            ("governor", &["ondemand", "powersave", "performance"]),
            ("ondemand.up_threshold", &["40", "95"]),
            ("read_ahead_kb", &["0", "4096"]),
            ("scheduler", &["none", "bfq"]),
            ("nr_requests", &["32", "256"]),
            ("wbt_lat_usec", &["0", "75000"]),
            ("vm.dirty_ratio", &["5", "20"]),
            ("cpu_dma_latency", &["none", "20us"]),
            ("turbo", &["on", "off"]),
            ("stripe_cache_size", &["256", "4096"]),
            ("group_thread_cnt", &["0", "4"]),
        ];
        let chosen: Vec<_> = all.iter().filter(|_| rng.below(9) == 0).collect();
        let request = |(name, values): &(&str, &[&str]), rng: &mut Rng| SettingRequest {
            setting: SettingName::parse(name),
            value: one(values, rng).to_owned(),
        };
        chosen.into_iter().map(|of| request(of, rng)).collect()
    }

    fn some_storage(rng: &mut Rng) -> domain::stack::Changes {
        let all: &[(&str, &[&str])] = &[
            ("array.level", &["0", "5", "10"]),
            ("array.chunk", &["64KiB", "512KiB"]),
            ("array.bitmap", &["none", "internal"]),
            ("disks.count", &["4", "6"]),
        ];
        let chosen: Vec<_> = all.iter().filter(|_| rng.below(4) == 0).collect();
        chosen.into_iter().map(|(name, values)| ((*name).to_owned(), one(values, rng).to_owned())).collect()
    }

    /// Four disks, and an array over them.
    fn array() -> StackSpec {
        let layer = |name: &str, values: &[(&str, &str)]| LayerSpec {
            name: name.into(),
            values: values.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        };
        let disks = layer("disks", &[("kind", "devices"), ("count", "4"), ("loop", "256MiB")]);
        let array = [("kind", "md"), ("on", "disks"), ("level", "5"), ("bitmap", "none"), ("resync", "skip")];
        StackSpec { layers: vec![disks, layer("array", &array)] }
    }

    /// A cell's storage without what a rule may vary of it.
    fn storage(cell: &Cell, rule: &str) -> String {
        let text = format!("{:?}", cell.stack);
        let values: &[&str] = match rule {
            "parity-writes" => &["level: Raid0,", "level: Raid5,", "level: Raid10,"],
            "bitmap" => &["bitmap: None,", "bitmap: Internal,"],
            "chunk-size" => &["chunk: None,", "chunk: Some(Bytes(65536)),", "chunk: Some(Bytes(524288)),"],
            _ => &[],
        };
        values.iter().fold(text, |text, value| text.replace(value, "_,"))
    }

    /// A study of two workloads and two factors, whose levels change anything.
    fn some_study(rng: &mut Rng) -> Study {
        let mut study = study(&[("f", &["a", "b"]), ("g", &["c", "d", "e"])]);
        let workload = |name: &str, rng: &mut Rng| Workload {
            name: name.to_owned(),
            options: some_options(rng),
            ..study.workloads[0].clone()
        };
        study.workloads = vec![workload("w", rng), workload("v", rng)];
        let stands_on_an_array = rng.below(2) == 0;
        study.stack = stands_on_an_array.then(array);
        // A third of the studies changes nothing but storage or settings: cells that may be compared are rare
        // among those that change anything.
        let changes_all = rng.below(3) > 0;
        if !changes_all {
            let writes = [("rw", "randwrite"), ("bs", "4k"), ("direct", "1")];
            let options = writes.map(|(name, value)| (name.to_owned(), value.to_owned()));
            study.workloads.iter_mut().for_each(|workload| workload.options = options.clone().into());
        }
        let change = |level: &mut Level, rng: &mut Rng| {
            level.stack = if stands_on_an_array { some_storage(rng) } else { level.stack.clone() };
            level.options = if changes_all { some_options(rng) } else { BTreeMap::new() };
            let has_settings = changes_all || !stands_on_an_array;
            level.settings = if has_settings { some_settings(rng) } else { vec![] };
            if changes_all {
                level.kernel = (rng.below(4) == 0).then(|| one(&["6.1", "6.12"], rng).to_owned());
                level.machine = (rng.below(4) == 0).then(|| one(&["lab", "server-nvme"], rng).to_owned());
            }
        };
        study.factors.iter_mut().flat_map(|factor| &mut factor.levels).for_each(|level| change(level, rng));
        study
    }

    /// A run of it in which every cell has a rate of its own, so that each comparison is claimed.
    fn some_run(rng: &mut Rng) -> RunData {
        let study = some_study(rng);
        let rates: Vec<f64> = (0..12).map(|_| 1e7 * (1.0 + 20.0 * rng.unit())).collect();
        let mut data = run(study, 6, |_, _| vec![]);
        let cells = plan(&data).cells;
        let below: Vec<f64> = (0..12).map(|_| 0.9 * rng.unit()).collect();
        let is_lab = rng.below(2) == 0;
        for trial in &mut data.trials {
            let index = cells.iter().position(|cell| cell.id == trial.key.cell).unwrap();
            let outcome = [("throughput", about(rates[index], index, trial.key.block))];
            trial.measurement = crate::testing::valid(trial.key.clone(), &outcome).measurement;
            trial.lab = is_lab.then(|| account(below[index]));
        }
        data
    }

    fn plan(data: &RunData) -> Plan {
        Plan::new(data.study.clone(), data.run.seed).unwrap()
    }

    fn assert_alike(finding: &Finding, a: &Cell, b: &Cell) {
        let (options, settings) = may_vary(finding.rule);
        let rest = |cell: &Cell| {
            let mut rest = (cell.workload.options.clone(), cell.settings.clone());
            rest.0.retain(|name, _| !options.contains(&name.as_str()));
            rest.1.retain(|request| !settings.contains(&request.setting.name.as_str()));
            rest.1.sort_by(|x, y| x.setting.cmp(&y.setting));
            let tool = cell.workload.tool.clone();
            let storage = storage(cell, finding.rule);
            format!("{rest:?} {tool:?} {storage} {:?} {:?} {:?}", cell.beside, cell.kernel, cell.machine)
        };
        assert_eq!(rest(a), rest(b), "{}: {}", finding.rule, finding.title);
        assert_ne!(a, b);
    }

    #[test]
    fn no_finding_compares_cells_that_differ_in_anything_else() {
        let extent = ::testing::Extent::of(150, 3000);
        let mut rng = Seed(extent.seed).stream("studies");
        let mut by_rule: BTreeMap<&str, usize> = BTreeMap::new();
        let machine = bare_machine();
        for _ in 0..extent.count {
            let data = some_run(&mut rng);
            let cells = plan(&data).cells;
            let of = |id: &CellId| cells.iter().find(|cell| cell.id == *id).unwrap();
            let summary = summarise(&data, None);
            let inventory = Some(&machine);
            let case = Case { inventory, target_device: Some("vda"), ..Case::new(&data, &summary) };
            for finding in explain(&case) {
                let compares = finding.gain.is_some() || finding.confidence == Confidence::Shown;
                assert!(!compares || !finding.compared.is_empty(), "{}: {}", finding.rule, finding.title);
                finding.compared.iter().for_each(|(a, b)| assert_alike(&finding, of(a), of(b)));
                *by_rule.entry(finding.rule).or_default() += finding.compared.len();
            }
        }
        println!("pairs that findings compared: {by_rule:?}");
        // Each rule whose findings compare cells at all; a part of the studies need not have them all.
        let enough = if ::testing::is_whole() { 10 } else { 0 };
        for rule in
            ["queue-depth", "governor", "governor-stays-low", "scheduler", "read-ahead", "parity-writes"]
                .into_iter()
                .chain(["bitmap", "chunk-size", "stripe-cache", "group-threads"])
        {
            assert!(
                by_rule.get(rule).copied().unwrap_or(0) >= enough,
                "{rule} was hardly tried: {by_rule:?}"
            );
            assert!(RULES.iter().any(|known| known.name == rule));
        }
    }

    #[test]
    fn what_a_gain_costs_stands_beside_it() {
        let data = fio_run(&[&with_depth("1"), &with_depth("32")], |cell, block| {
            let rate = about([1e7, 9e7][cell], cell, block);
            vec![("throughput", rate), ("latency_p99", [1e-3, 8e-3][cell])]
        });
        let found = explain(&Case::new(&data, &summarise(&data, None)));
        let cost = found[0].evidence.iter().find(|e| e.what == "99th percentile latency with it").unwrap();
        assert_eq!(cost.figure, "8.00 ms instead of 1.00 ms (×8.00)");
    }
}
