//! The fragments of text that all forms share, so that a thing is called the same everywhere.

use crate::Report;
use crate::next::lead;
use analysis::stats::interval::Interval;
use analysis::summary::{CellSummary, Comparison, FactorEffect, Lack, Verdict};
pub(crate) use analysis::words::counted;
use domain::finding::Gain;
use domain::ids::TrialKey;
use domain::inert;
use domain::order;
use domain::outcome::Better;
use domain::rng::Seed;
use domain::trial::{Provenance, Run, Trial, Validity};
use domain::units::{Unit, significant};
use std::collections::{BTreeMap, BTreeSet};

/// The question; the study's name where it asks none.
pub(crate) fn question<'a>(report: &Report<'a>) -> &'a str {
    let question = report.data.study.question.trim();
    if question.is_empty() { &report.data.study.name } else { question }
}

/// The verdict; what its absence means where there is none.
pub(crate) fn verdict<'a>(report: &Report<'a>) -> &'a str {
    let measured = report.summary.cells.iter().any(|c| !c.points.is_empty());
    match (report.summary.verdict.trim(), measured) {
        ("", true) => "No verdict was drawn from these trials.",
        ("", false) => "No verdict: no trial was measured that counts.",
        (verdict, _) => verdict,
    }
}

/// The verdict as a sentence of its own.
pub(crate) fn headline(report: &Report) -> String {
    capitalised(verdict(report), &names(report))
}

/// What the study itself names: workloads, factors, their levels, cells.
pub(crate) fn names<'a>(report: &Report<'a>) -> BTreeSet<&'a str> {
    let study = &report.data.study;
    let of_factors = study.factors.iter().flat_map(|f| {
        std::iter::once(f.name.as_str()).chain(f.levels.iter().map(|level| level.name.as_str()))
    });
    let of_cells = report.summary.cells.iter().map(|c| c.cell.as_str());
    study.workloads.iter().map(|w| w.name.as_str()).chain(of_factors).chain(of_cells).collect()
}

/// Programs and drivers that write themselves small.
const SMALL_NAMES: [&str; 15] = [
    "bfq",
    "bonnie",
    "cpufreq",
    "cpuidle",
    "dd",
    "fio",
    "fsync",
    "io-uring",
    "kyber",
    "libaio",
    "md",
    "mq-deadline",
    "pgbench",
    "schedutil",
    "sysbench",
];

/// The text with a large first letter, where it begins with an ordinary word: not with one of `names`, nor
/// with anything that holds a digit, a dot or an underscore, as `md127` and `vm.dirty_ratio` do.
pub(crate) fn capitalised(text: &str, names: &BTreeSet<&str>) -> String {
    let word = text.split(|c: char| c.is_whitespace() || ",:;".contains(c)).next().unwrap_or_default();
    let is_plain = word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    match text.chars().next() {
        Some(first) if is_plain && !names.contains(word) && !SMALL_NAMES.contains(&word) => {
            format!("{}{}", first.to_ascii_uppercase(), &text[first.len_utf8()..])
        }
        _ => text.to_owned(),
    }
}

/// `higher is better`.
pub(crate) fn direction(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher is better",
        Better::Lower => "lower is better",
    }
}

/// `24 trials of 6 cells, 2 of them not counted`.
pub(crate) fn trial_count(report: &Report) -> String {
    let trials = &report.data.trials;
    let cells = report.summary.cells.len();
    let left_out = trials.iter().filter(|t| t.validity.is_spoilt()).count();
    let traced = traced(report);
    let under_load: Vec<&Trial> = trials.iter().filter(|trial| trial.is_under_load()).collect();
    let mut count = format!("{} of {}", counted(trials.len(), "trial"), counted(cells, "cell"));
    if left_out > 0 {
        count += &format!(", {left_out} of them not counted");
    }
    if traced > 0 {
        count += &format!(", {traced} of them for events alone");
    }
    if !under_load.is_empty() {
        count += &format!(", {} of them under load ({})", under_load.len(), kinds(&under_load));
    }
    count
}

/// The levels of a cell without the names of their factors: `4k · 128`; its name where it has none.
pub(crate) fn levels(report: &Report, cell: &CellSummary) -> String {
    let levels: Vec<&str> = factor_levels(report, cell).into_iter().map(|(_, level)| level).collect();
    if levels.is_empty() { cell.cell.to_string() } else { levels.join(" · ") }
}

/// Factor and level of a cell, in the order in which the study lists its factors.
pub(crate) fn factor_levels<'a>(report: &Report<'a>, cell: &'a CellSummary) -> Vec<(&'a str, &'a str)> {
    let known = report.data.study.factors.iter().map(|f| f.name.as_str());
    let mut pairs: Vec<(&str, &str)> = known
        .filter_map(|name| cell.levels.get_key_value(name))
        .map(|(factor, level)| (factor.as_str(), level.as_str()))
        .collect();
    for (factor, level) in &cell.levels {
        if !pairs.iter().any(|(f, _)| f == factor) {
            pairs.push((factor, level));
        }
    }
    pairs
}

/// The workloads that the summary has cells of, in the order of the plan.
pub(crate) fn workloads(cells: &[CellSummary]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    cells.iter().map(|c| c.workload.as_str()).filter(|w| seen.insert(*w)).collect()
}

/// The factors that the cells of a workload have, in the order of the study.
pub(crate) fn factors<'a>(report: &Report<'a>, cells: &[&'a CellSummary]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for cell in cells {
        for (factor, _) in factor_levels(report, cell) {
            if !names.contains(&factor) {
                names.push(factor);
            }
        }
    }
    names
}

/// The parts that say something, with commas between.
pub(crate) fn joined<const N: usize>(parts: [&str; N]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// A value with its unit, or a dash that means "not measured".
pub(crate) fn value(unit: &Unit, value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |v| unit.show(v))
}

/// `55.0 to 58.9 MB/s`, both ends in one unit.
pub(crate) fn range(unit: &Unit, low: f64, high: f64) -> String {
    let (scale, name) = unit.axis(high.abs().max(low.abs()));
    format!("{} to {} {name}", significant(low / scale), significant(high / scale)).trim_end().to_owned()
}

/// The interval of a median, or why there is none.
pub(crate) fn interval(unit: &Unit, cell: &CellSummary) -> String {
    match (&cell.interval, cell.points.len()) {
        (Some(i), _) => range(unit, i.low, i.high),
        (None, 0) => cell.lack.as_ref().map_or("no valid trial", Lack::short).to_owned(),
        (None, _) => "n too small".to_owned(),
    }
}

/// The same of a run's cell: a model whose seeds all give the same has no interval.
pub(crate) fn cell_interval(report: &Report, cell: &CellSummary) -> String {
    if is_of_seeds(report, cell) {
        return format!("model, {}", counted(cell.points.len(), "seed"));
    }
    interval(&report.summary.unit, cell)
}

/// Whether a cell is a model's whose seeds all give the same, or are too few to differ.
pub(crate) fn is_of_seeds(report: &Report, cell: &CellSummary) -> bool {
    let is_model = report.data.run.provenance == Provenance::Simulation;
    let has_width = cell.interval.as_ref().is_some_and(Interval::has_width);
    is_model && !has_width && !cell.points.is_empty()
}

/// The median of a run's cell, marked where trials ran beside other work.
pub(crate) fn cell_median(report: &Report, cell: &CellSummary) -> String {
    let median = value(&report.summary.unit, cell.median);
    if is_under_load(report, cell) { format!("{median} *") } else { median }
}

/// Whether trials of a cell ran beside other work.
pub(crate) fn is_under_load(report: &Report, cell: &CellSummary) -> bool {
    analysis::costs::under_load(report.data, &cell.cell) > 0
}

/// What the mark of a median under load means; `None` where there is none.
pub(crate) fn load_note(report: &Report) -> Option<String> {
    let cells = &report.summary.cells;
    let loaded = cells.iter().filter(|cell| is_under_load(report, cell)).count();
    (loaded > 0).then(|| {
        format!(
            "* under load in {loaded} of {}: other work ran beside trials. Median and interval are of the machine under \
             that load; the interval holds for chance from trial to trial, and not for other load. Cells are compared \
             within blocks, where load hits both alike.",
            counted(cells.len(), "cell")
        )
    })
}

/// Effects of the factors that the question is about, and of those that are its context.
pub(crate) fn asked_and_context<'a>(report: &Report<'a>) -> (Vec<&'a FactorEffect>, Vec<&'a FactorEffect>) {
    let asks = |effect: &&FactorEffect| report.data.study.asks_about(&effect.factor);
    report.summary.effects.iter().partition(asks)
}

/// The title of the effects of factors that are context.
pub(crate) const CONTEXT_TITLE: &str = "Its context: a curve, and no verdict";

/// A table of comparisons, its columns by name, without the columns that say nothing.
pub(crate) fn comparison_table(
    head: [&'static str; 6],
    rows: Vec<Vec<String>>,
    left_out: &[&str],
) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let p = head.iter().position(|name| *name == "p");
    let has_p = rows.iter().any(|row| p.is_none_or(|p| row[p] != NO_FIGURE));
    let is_kept = |name: &str| !left_out.contains(&name) && (has_p || name != "p");
    let kept: Vec<usize> = (0..head.len()).filter(|column| is_kept(head[*column])).collect();
    let of = |row: &Vec<String>| kept.iter().map(|column| row[*column].clone()).collect();
    (kept.iter().map(|column| head[*column]).collect(), rows.iter().map(of).collect())
}

/// What stands where there is no figure.
const NO_FIGURE: &str = "–";

/// What a remedy gains: `throughput +12.4% (+10.0% to +14.0%)`.
pub(crate) fn expected(gain: &Gain) -> String {
    format!("{} {}{}", gain.metric, change(gain.ratio), certain(gain))
}

/// What stands behind a gain: its interval, or that nothing but a bound is known.
pub(crate) fn certain(gain: &Gain) -> String {
    // No interval that was measured ends at exactly its estimate and at exactly nothing.
    let is = |one: f64, other: f64| one.total_cmp(&other).is_eq();
    let Gain { low, ratio, high, .. } = *gain;
    let is_bound = is(ratio, low) && is(high, 1.0) || is(ratio, high) && is(low, 1.0);
    match (change(low), change(high)) {
        (low, high) if low == high => String::new(),
        _ if is_bound => " at best, nothing at worst".to_owned(),
        (low, high) => format!(" ({low} to {high})"),
    }
}

/// A share in percent, as tables show it; a dash where it is unknown.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |s| format!("{}%", tidy(s * 100.0)))
}

/// The median relative to the best cell; two significant figures where two decimals would show none.
pub(crate) fn relative(share: Option<f64>) -> String {
    match share {
        None => "–".to_owned(),
        Some(s) if s > 0.0 && s < 0.01 => format!("{s:.4}"),
        Some(s) if s > 0.0 && s < 0.1 => format!("{s:.3}"),
        Some(s) => format!("{s:.2}"),
    }
}

/// One decimal below ten, none above.
fn tidy(value: f64) -> String {
    if value.abs() < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// A ratio as a change: `+12.4%`, `×3.10` from twice on, `0%`.
pub(crate) fn change(ratio: f64) -> String {
    if !(0.5..2.0).contains(&ratio) {
        return format!("×{}", significant(ratio));
    }
    let percent = (ratio - 1.0) * 100.0;
    match format!("{percent:+.1}").as_str() {
        "+0.0" | "-0.0" => "±0.0%".to_owned(),
        text => format!("{}%", text.replace('-', "−")),
    }
}

/// What else decides the result, by name: each value that any trial had.
pub(crate) fn environment<'a>(report: &Report<'a>) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, value) in report.data.trials.iter().flat_map(|trial| &trial.environment) {
        values.entry(name).or_default().insert(value);
    }
    values
}

/// A comparison's ratio in these words; a dash where there is none.
pub(crate) fn ratio(comparison: &Comparison) -> String {
    comparison.ratio.map_or_else(|| "–".to_owned(), change)
}

/// A ratio's interval, or why there is none.
pub(crate) fn ratio_interval(comparison: &Comparison) -> String {
    match &comparison.interval {
        Some(interval) => change_interval(interval),
        None if comparison.ratio.is_none() => "no ratio".to_owned(),
        None if comparison.seeds.is_some() => {
            format!("model, {}", counted(comparison.seeds.unwrap_or_default(), "seed"))
        }
        None => "too few trials".to_owned(),
    }
}

fn change_interval(interval: &Interval) -> String {
    format!("{} to {}", change(interval.low), change(interval.high))
}

/// The second line of evidence on a ratio; empty where there is none.
pub(crate) fn bootstrap(comparison: &Comparison) -> String {
    let interval = comparison.bootstrap.as_ref();
    interval
        .map_or_else(String::new, |i| format!("Ratio of the medians by bootstrap: {}.", change_interval(i)))
}

/// A verdict as a word.
pub(crate) const fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Same => "no difference",
        Verdict::Undecided => "undecided",
    }
}

/// A verdict as a sign that needs no colour.
pub(crate) const fn verdict_sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "▲",
        Verdict::Worse => "▼",
        Verdict::Same => "=",
        Verdict::Undecided => "?",
    }
}

/// `p = 0.012`, `p < 0.001`.
pub(crate) fn p_value(comparison: &Comparison) -> String {
    match comparison.p {
        None => "–".to_owned(),
        Some(p) if p < 0.001 => "< 0.001".to_owned(),
        Some(p) => format!("{p:.3}"),
    }
}

/// A comparison as a row of a table: context, against, ratio, interval, p, verdict.
pub(crate) fn comparison_row(context: &str, c: &Comparison) -> Vec<String> {
    vec![
        context.to_owned(),
        format!("{} against {}", c.b, c.a),
        ratio(c),
        ratio_interval(c),
        p_value(c),
        format!("{} {}", verdict_sign(c.verdict), verdict_word(c.verdict)),
    ]
}

/// Why a trial is not counted; empty for one that is.
pub(crate) fn why_not_counted(validity: &Validity) -> String {
    match validity {
        Validity::Valid => String::new(),
        Validity::Traced => "events were recorded, which costs CPU time: its figures do not count".to_owned(),
        Validity::Disturbed(list) if list.is_empty() => "disturbed".to_owned(),
        Validity::Disturbed(list) => {
            list.iter().map(|d| format!("{}: {}", d.kind, d.detail)).collect::<Vec<_>>().join("; ")
        }
        Validity::Failed(how) => how.clone(),
    }
}

/// How many trials that are not counted a report for reading in one go tells in full: with all of forty it
/// would be about them, and not about what was measured.
pub(crate) const MAX_LEFT_OUT: usize = 5;

/// The trials that are not counted, for something went wrong.
pub(crate) fn left_out<'a>(report: &Report<'a>) -> Vec<&'a Trial> {
    report.data.trials.iter().filter(|t| t.validity.is_spoilt()).collect()
}

/// How many trials recorded events and are counted for nothing else.
pub(crate) fn traced(report: &Report) -> usize {
    report.data.trials.iter().filter(|trial| trial.validity == Validity::Traced).count()
}

/// What disturbed trials and how many of them, most first: `other-load 30, unsettled 12, failed 1`. A trial
/// that was disturbed in two ways is in both.
pub(crate) fn left_out_kinds(trials: &[&Trial]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for trial in trials {
        let kinds: BTreeSet<&str> = match &trial.validity {
            Validity::Disturbed(list) if !list.is_empty() => list.iter().map(|d| d.kind.as_str()).collect(),
            other => [standing(other)].into(),
        };
        kinds.into_iter().for_each(|kind| *counts.entry(kind).or_default() += 1);
    }
    most_first(counts)
}

/// What ran beside trials, and beside how many of them, most first.
fn kinds(trials: &[&Trial]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for measured in trials.iter().filter_map(|trial| trial.measurement.as_ref()) {
        let kinds: BTreeSet<&str> = measured.disturbances.iter().map(|d| d.kind.as_str()).collect();
        kinds.into_iter().for_each(|kind| *counts.entry(kind).or_default() += 1);
    }
    most_first(counts)
}

fn most_first(counts: BTreeMap<&str, usize>) -> String {
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    order::by_key(&mut counts, |(_, count)| std::cmp::Reverse(*count));
    counts.iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>().join(", ")
}

/// How to see those that are not told in full; `None` where all are.
pub(crate) fn how_to_see_more(report: &Report, left_out: &[&Trial]) -> Option<(String, String)> {
    let more = left_out.get(MAX_LEFT_OUT)?;
    let rest = left_out.len() - MAX_LEFT_OUT;
    let command = format!("flyball show {} {}", report.data.run.id, more.key.folder());
    Some((format!("{rest} more; the HTML page has all of them, and this shows one:"), command))
}

/// A trial's standing as one word.
pub(crate) const fn standing(validity: &Validity) -> &'static str {
    match validity {
        Validity::Valid => "valid",
        Validity::Traced => "traced",
        Validity::Disturbed(_) => "disturbed",
        Validity::Failed(_) => "failed",
    }
}

/// `block 3`, `block 3, attempt 1`. Blocks and attempts count from zero, as the names of their folders do.
pub(crate) fn trial_name(key: &TrialKey) -> String {
    match key.attempt {
        0 => format!("block {}", key.block),
        n => format!("block {}, attempt {n}", key.block),
    }
}

/// The sentence about the A/A floor.
pub(crate) fn aa_floor(report: &Report) -> String {
    let is_model = report.data.run.provenance == Provenance::Simulation;
    match report.summary.aa_floor {
        Some(floor) if is_model && floor < 0.0005 => "All seeds of this model give the same.".to_owned(),
        Some(floor) if is_model => format!(
            "Seeds alone make differences of up to {} (95th percentile over random halves).",
            percent(Some(floor))
        ),
        None if is_model => "There are too few seeds to tell what they alone make.".to_owned(),
        Some(floor) => format!(
            "Identical trials of this run differ by up to {} among themselves (95th percentile over random halves); \
             a smaller difference is noise.",
            percent(Some(floor))
        ),
        None => {
            "There are too few trials to tell how much identical ones differ among themselves.".to_owned()
        }
    }
}

/// The machine in one line.
pub fn machine(report: &Report) -> String {
    if let Some(model) = crate::simulation::machine(report) {
        return model;
    }
    match (crate::lab::machine(report), report.machine) {
        (Some(lab), Some(guest)) => format!("{lab}; in the guest: {guest}"),
        (Some(lab), None) => lab,
        (None, Some(line)) => line.to_owned(),
        (None, None) => format!("machine {}", report.data.run.machine),
    }
}

/// Every tool that reported, with its version as it states it.
pub(crate) fn tools(report: &Report) -> Vec<String> {
    let outcomes = report.data.trials.iter().filter_map(|t| t.measurement.as_ref()).map(|m| &m.outcome.tool);
    outcomes.filter(|t| !t.is_empty()).cloned().collect::<BTreeSet<_>>().into_iter().collect()
}

/// The command to type next, and why: what leads on from the run, else the run again.
pub(crate) fn next_command(report: &Report) -> (String, String) {
    match lead(report) {
        Some(lead) => (lead.why, lead.step.command),
        None if report.data.study.is_recording() => (found(report), run_again(report)),
        // The same seed gives the same figures again.
        None if report.data.run.provenance == Provenance::Simulation => (
            format!("{} Another seed shows what the seed alone decides.", found(report)),
            run_with(report, Seed(report.data.run.seed.0.wrapping_add(1))),
        ),
        None => (format!("{} The same plan again settles more.", found(report)), run_again(report)),
    }
}

/// The first finding in a sentence, where none leads on by a command.
fn found(report: &Report) -> String {
    let first = report.findings.first().map(|finding| capitalised(&finding.title, &names(report)));
    first.map_or_else(|| "No cause was found.".to_owned(), |title| format!("{title}."))
}

/// The command that measures the same plan again.
pub(crate) fn run_again(report: &Report) -> String {
    run_with(report, report.data.run.seed)
}

/// The command that measures the same plan with this seed.
fn run_with(report: &Report, seed: Seed) -> String {
    let run = &report.data.run;
    if !run.command.is_empty() && run.provenance != Provenance::Imported {
        return if report.data.study.is_recording() { as_typed(run) } else { as_begun(run, seed) };
    }
    // The study of `flyball check` is its own.
    if run.study == "check" {
        return format!("flyball check --seed {seed}");
    }
    if run.provenance == Provenance::Imported {
        let files: BTreeSet<&str> =
            report.data.trials.iter().filter_map(|t| t.origin.as_ref()).map(|o| o.file.as_str()).collect();
        let files: Vec<String> = files.into_iter().map(quoted).collect();
        let at = run.command.iter().position(|word| word == "--kallsyms").map(|at| at + 1);
        let names = at.and_then(|at| run.command.get(at)).map(|file| format!(" --kallsyms {}", quoted(file)));
        let names = names.unwrap_or_default();
        return format!("flyball import --again --name {}{names} {}", quoted(&run.study), files.join(" "));
    }
    let (command, on) = match run.provenance {
        Provenance::Lab => ("lab run", ""),
        Provenance::Simulation => ("run", " --on sim"),
        Provenance::Host | Provenance::Imported => ("run", ""),
    };
    format!("flyball {command} {}{on} --seed {seed}", quoted(&format!("{}.toml", run.study)))
}

/// The command that began a run, as it was typed.
fn as_typed(run: &Run) -> String {
    command_line(&words(run))
}

fn words(run: &Run) -> Vec<String> {
    std::iter::once("flyball".to_owned()).chain(run.command.iter().cloned()).collect()
}

/// The command that began a run, with this seed.
fn as_begun(run: &Run, seed: Seed) -> String {
    const OPTION: &str = "--seed";
    let mut words = words(run);
    let at = words.iter().position(|word| word == OPTION || word.starts_with("--seed="));
    let value = at.filter(|at| words[*at] == OPTION).map(|at| at + 1);
    match (at, value) {
        (_, Some(value)) if value < words.len() => words[value] = seed.to_string(),
        (Some(at), None) => words[at] = format!("{OPTION}={seed}"),
        _ => words.extend([OPTION.to_owned(), seed.to_string()]),
    }
    command_line(&words)
}

pub use domain::shell::quoted;

/// A command as a shell would read it.
pub(crate) fn command_line(argv: &[String]) -> String {
    argv.iter().map(|a| quoted(a)).collect::<Vec<_>>().join(" ")
}

/// Sentences on one line, inert: a hostile name cannot steer a terminal or break a table.
pub(crate) fn one_line(text: &str) -> String {
    inert::prose(text.trim()).into_owned()
}

/// A cell by its workload, where there are several, and its levels.
pub(crate) fn cell_label(report: &Report, cell: &CellSummary) -> String {
    let levels: Vec<&str> = factor_levels(report, cell).into_iter().map(|(_, level)| level).collect();
    let is_only = workloads(&report.summary.cells).len() == 1 && !levels.is_empty();
    let workload = (!is_only).then_some(cell.workload.as_str());
    workload.into_iter().chain(levels).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_in_percent_near_one_and_as_a_factor_far_from_it() {
        for (ratio, text) in
            [(1.0, "±0.0%"), (1.124, "+12.4%"), (0.8, "−20.0%"), (3.1, "×3.10"), (0.1, "×0.100")]
        {
            assert_eq!(change(ratio), text);
        }
    }

    #[test]
    fn a_gain_of_which_a_bound_alone_is_known_is_no_estimate() {
        let of = |low, ratio, high| expected(&Gain { metric: "throughput".into(), low, ratio, high });
        assert_eq!(of(1.1, 1.124, 1.14), "throughput +12.4% (+10.0% to +14.0%)");
        assert_eq!(of(1.0, 3.1, 3.1), "throughput ×3.10 at best, nothing at worst");
        assert_eq!(of(0.1, 0.1, 1.0), "throughput ×0.100 at best, nothing at worst");
        assert_eq!(of(1.2, 1.2, 1.2), "throughput +20.0%");
    }

    #[test]
    fn a_sentence_begins_large_unless_it_begins_with_a_name() {
        let names = BTreeSet::from(["performance", "seqread"]);
        for (text, shown) in [
            ("no difference: all the same", "No difference: all the same"),
            ("read-ahead is small", "Read-ahead is small"),
            ("nothing", "Nothing"),
            ("performance is better than ondemand", "performance is better than ondemand"),
            ("seqread: median 3 MB/s", "seqread: median 3 MB/s"),
            ("md127 waits for one thread", "md127 waits for one thread"),
            ("vm.dirty_ratio is large", "vm.dirty_ratio is large"),
            ("fio warns", "fio warns"),
            ("read_ahead_kb decides", "read_ahead_kb decides"),
            ("128 gives more", "128 gives more"),
            ("Élan stays", "Élan stays"),
            ("", ""),
        ] {
            assert_eq!(capitalised(text, &names), shown);
        }
    }

    #[test]
    fn control_and_reordering_characters_do_not_reach_a_terminal() {
        assert_eq!(one_line("a\x1b[31m\nb\u{202e}c"), "a\\x1b[31m b\\u{202e}c");
    }
}
