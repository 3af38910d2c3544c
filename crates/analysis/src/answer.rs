//! The answer to a study's question, in one sentence, as far as its data allow.

use crate::published::{Beside, FAR_OFF};
use crate::recorded;
use crate::summarise::contexts;
use crate::summary::{CellSummary, Comparison, FactorEffect, RunData, RunSummary, Verdict};
use crate::trade_off::{self, Place};
use crate::words::{bracketed_certainty, counted, distance, gives, listed, metric_words, percent};
use domain::order;
use domain::outcome::Better;
use domain::study::Until;
use domain::trial::{Provenance, Trial};
use domain::units::Unit;

/// The verdict of a whole run.
pub fn of_run(data: &RunData, summary: &RunSummary) -> String {
    let answer = unqualified(data, summary);
    let is_under_load = data.trials.iter().any(Trial::is_under_load);
    if is_under_load && !answer.is_empty() { format!("under load: {answer}") } else { answer }
}

/// What an answer rests on: the comparison that tells most, and the cells that it was drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct About<'a> {
    /// The factor that is held against itself.
    pub factor: &'a str,
    /// Two of its levels.
    pub comparison: &'a Comparison,
    /// All its levels where the comparison was made: nothing differs between them but the factor. In the
    /// order of the plan; empty where the summary has none of that context.
    pub cells: Vec<&'a CellSummary>,
}

impl<'a> About<'a> {
    /// The cell of a level; `None` where it is not among the cells.
    pub fn cell_of(&self, level: &str) -> Option<&'a CellSummary> {
        self.cells.iter().copied().find(|cell| cell.levels.get(self.factor).is_some_and(|l| l == level))
    }
}

/// What the verdict of a run is about; `None` where nothing was compared, and of a search, which compares no
/// two of its cells.
pub fn about<'a>(data: &'a RunData, summary: &'a RunSummary) -> Option<About<'a>> {
    if data.study.measure.until.is_search() {
        return None;
    }
    let rank = |standing: &Standing<'_>| match standing.state {
        State::Decides => 2,
        State::Undecided => 1,
        State::Same => 0,
    };
    let far = |standing: &Standing<'_>| distance(standing.comparison);
    // Of equals the first, as in the sentence.
    let first = standings(data, summary)
        .into_iter()
        .rev()
        .max_by(|a, b| rank(a).cmp(&rank(b)).then(far(a).total_cmp(&far(b))))?;
    let contexts = contexts(&summary.cells, first.factor).into_iter();
    let cells = contexts.filter(|(context, _)| context == first.context).flat_map(|(_, cells)| cells);
    Some(About { factor: first.factor, comparison: first.comparison, cells: cells.collect() })
}

/// The cells as a search for the best ranks them: what it measured most often is first, and of that what has
/// the best median. What was not measured is left out.
pub fn ranked(summary: &RunSummary) -> Vec<&CellSummary> {
    let good = |cell: &CellSummary| match summary.better {
        Better::Higher => cell.median.unwrap_or_default(),
        Better::Lower => -cell.median.unwrap_or_default(),
    };
    let mut cells: Vec<&CellSummary> = summary.cells.iter().filter(|cell| cell.median.is_some()).collect();
    // Of equals the first stays the first.
    order::by(&mut cells, |a, b| {
        b.points.len().cmp(&a.points.len()).then_with(|| good(b).total_cmp(&good(a)))
    });
    cells
}

/// The cells in the order in which they are shown: that of the plan, and of a search what it found first.
pub fn in_order<'a>(data: &RunData, summary: &'a RunSummary) -> Vec<&'a CellSummary> {
    if !data.study.measure.until.is_search() {
        return summary.cells.iter().collect();
    }
    let unmeasured = summary.cells.iter().filter(|cell| cell.median.is_none());
    ranked(summary).into_iter().chain(unmeasured).collect()
}

/// The factors that the question is about; where none of them was compared, all.
fn standings<'a>(data: &'a RunData, summary: &'a RunSummary) -> Vec<Standing<'a>> {
    // A factor that the question is not about is its context: a curve of the report, and no answer.
    let asked = data.study.factors.iter().filter(|factor| data.study.asks_about(&factor.name));
    let factors: Vec<Standing<'_>> =
        asked.filter_map(|factor| standing(&factor.name, &summary.effects)).collect();
    if !factors.is_empty() {
        return factors;
    }
    let all = data.study.factors.iter();
    all.filter_map(|factor| standing(&factor.name, &summary.effects)).collect()
}

/// The same, whatever ran beside its trials.
fn unqualified(data: &RunData, summary: &RunSummary) -> String {
    if summary.cells.iter().all(|cell| cell.points.is_empty()) {
        return nothing_measured(data, &summary.metric);
    }
    if let Some(happened) = data.study.is_recording().then(|| happened(data)).flatten() {
        return happened;
    }
    if data.study.measure.until == Until::Front {
        return found_front(data, summary);
    }
    if data.study.measure.until == Until::Best {
        return found_best(summary, &ranked(summary));
    }
    let factors = standings(data, summary);
    if factors.is_empty() {
        return medians(summary);
    }
    let is_decided = factors.iter().any(|factor| factor.state == State::Decides);
    let mut sentence = of_factors(factors, data.study.measure.threshold);
    if let Some(unanswered) = unanswered(data, summary) {
        sentence = format!(
            "nothing can be said of {unanswered}, of which two levels were not measured; of the rest, {sentence}"
        );
    }
    if let Some(far_off) = far_off(data, summary) {
        sentence = match is_decided {
            true => format!("{sentence}; no conclusion from the rest: {far_off}"),
            false => format!("no conclusion: {far_off}"),
        };
    }
    let empty = summary.cells.iter().filter(|cell| cell.points.is_empty()).count();
    if empty > 0 {
        sentence += &format!("; {} without a valid trial", counted(empty, "cell"));
    }
    sentence
}

/// The factors that the study says its question is about, where no two levels of any of them were measured.
fn unanswered(data: &RunData, summary: &RunSummary) -> Option<String> {
    let primary = &data.study.primary;
    let is_compared = |name: &String| {
        summary.effects.iter().any(|effect| effect.factor == *name && !effect.comparisons.is_empty())
    };
    (!primary.is_empty() && !primary.iter().any(is_compared)).then(|| listed(primary))
}

/// What a model is so far off with that nothing is concluded from it.
fn far_off(data: &RunData, summary: &RunSummary) -> Option<String> {
    let is_model = data.run.provenance == Provenance::Simulation;
    let rows: Vec<&Beside> = summary.published.iter().filter(|row| is_model && row.is_far_off()).collect();
    let (first, others) = rows.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        1 => ", and is as far off with another figure".to_owned(),
        more => format!(", and is as far off with {more} others"),
    };
    Some(format!("{}, more than {FAR_OFF} times apart{others}", first.how_far_off()))
}

/// Of a recording: its one trial in words.
fn happened(data: &RunData) -> Option<String> {
    recorded::sentence(data.trials.first()?)
}

/// What one factor does, by its effects.
pub fn of_factor(factor: &str, effects: &[FactorEffect], threshold: f64) -> String {
    match standing(factor, effects) {
        Some(standing) => of_factors(vec![standing], threshold),
        None => format!("{factor}: no two of its levels were measured"),
    }
}

/// A factor by its most telling comparison.
struct Standing<'a> {
    factor: &'a str,
    context: &'a str,
    /// The largest difference that is claimed, else the largest there is.
    comparison: &'a Comparison,
    /// The worst that is known of any of its comparisons.
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// A difference is claimed.
    Decides,
    /// Every comparison is the same within the threshold.
    Same,
    /// Neither.
    Undecided,
}

fn standing<'a>(factor: &'a str, effects: &'a [FactorEffect]) -> Option<Standing<'a>> {
    let comparisons: Vec<(&str, &Comparison)> = effects
        .iter()
        .filter(|effect| effect.factor == factor)
        .flat_map(|effect| effect.comparisons.iter().map(|c| (effect.context.as_str(), c)))
        .collect();
    let claimed = |c: &Comparison| matches!(c.verdict, Verdict::Better | Verdict::Worse);
    let state = if comparisons.iter().any(|(_, c)| claimed(c)) {
        State::Decides
    } else if comparisons.iter().all(|(_, c)| c.verdict == Verdict::Same) {
        State::Same
    } else {
        State::Undecided
    };
    let telling = comparisons.into_iter().filter(|(_, c)| state != State::Decides || claimed(c));
    let (context, comparison) = telling.max_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)))?;
    Some(Standing { factor, context, comparison, state })
}

fn of_factors(mut factors: Vec<Standing<'_>>, threshold: f64) -> String {
    order::by(&mut factors, |a, b| distance(b.comparison).total_cmp(&distance(a.comparison)));
    let (deciding, rest): (Vec<_>, Vec<_>) = factors.into_iter().partition(|f| f.state == State::Decides);
    let (same, open): (Vec<_>, Vec<_>) = rest.into_iter().partition(|f| f.state == State::Same);
    let threshold = percent(threshold);
    let mut parts = Vec::new();
    if let Some((first, others)) = deciding.split_first() {
        parts.push(decides(first));
        parts.extend(others.iter().map(|f| format!("{} matters too: {}", f.factor, found(f.comparison))));
    }
    let names =
        |factors: &[Standing<'_>]| listed(&factors.iter().map(|f| f.factor.to_owned()).collect::<Vec<_>>());
    if let Some(first) = same.first() {
        parts.push(if deciding.is_empty() && open.is_empty() {
            format!("no factor makes a difference above {threshold}: {}", largest(first))
        } else {
            let verb = if same.len() == 1 { "makes" } else { "make" };
            format!("{} {verb} no difference above {threshold}", names(&same))
        });
    }
    if let Some(first) = open.first() {
        parts.push(format!(
            "whether {} {} cannot be told yet: {}",
            names(&open),
            if open.len() == 1 { "matters" } else { "matter" },
            first.comparison.sentence.trim_start_matches("cannot tell yet: ")
        ));
    }
    parts.join("; ")
}

fn decides(standing: &Standing<'_>) -> String {
    format!("{} decides: {} in {}", standing.factor, found(standing.comparison), standing.context)
}

/// `64k gives 3.90 times the throughput of 4k (95% interval 3.85 to 3.95)`.
fn found(comparison: &Comparison) -> String {
    format!("{}{}", gives("gives", comparison), bracketed_certainty(comparison))
}

fn largest(standing: &Standing<'_>) -> String {
    format!("at most, {} in {}", gives("gives", standing.comparison), standing.context)
}

fn nothing_measured(data: &RunData, metric: &str) -> String {
    let valid = data.trials.iter().find(|t| t.validity.is_valid()).and_then(|t| t.measurement.as_ref());
    match valid {
        Some(measurement) => {
            let names: Vec<String> =
                measurement.outcome.metrics.keys().map(|name| format!("`{name}`")).collect();
            format!("no trial reports `{metric}`; what they report is {}", listed(&names))
        }
        None if data.trials.is_empty() && !data.skipped.is_empty() => match data.skipped.len() {
            1 => "nothing was measured: this machine cannot run the one cell".to_owned(),
            all => format!("nothing was measured: this machine cannot run any of the {all} cells"),
        },
        None if data.trials.is_empty() => "nothing has been measured yet".to_owned(),
        None => format!("nothing can be said: of {} none is valid", counted(data.trials.len(), "trial")),
    }
}

/// What a search for the trade-off of speed and watts found.
fn found_front(data: &RunData, summary: &RunSummary) -> String {
    let front = trade_off::front(data, summary);
    let measured = ranked(summary);
    let (Some(first), Some(last)) = (front.first(), front.last()) else {
        let why = "no trade-off: too few cells have watts, or all take as many";
        let best = found_best(summary, &measured);
        return if best.is_empty() { why.to_owned() } else { format!("{why}; {best}") };
    };
    let at =
        |place: &Place<'_>| format!("{}, {}", summary.unit.show(place.figure), Unit::Watts.show(place.watts));
    let ends = match front.len() {
        1 => format!("`{}` alone ({})", name_of(first.cell), at(first)),
        count => format!(
            "{count}, from `{}` ({}) to `{}` ({})",
            name_of(first.cell),
            at(first),
            name_of(last.cell),
            at(last)
        ),
    };
    format!(
        "of {} no other beats in {} and watts together: {ends}; these trials chose them, so that what one gains has to be measured anew",
        counted(measured.len(), "cell"),
        metric_words(&summary.metric)
    )
}

/// What a cell of a search is called.
fn name_of(cell: &CellSummary) -> String {
    let levels: Vec<String> = match cell.levels.len() {
        1 => cell.levels.values().cloned().collect(),
        _ => cell.levels.iter().map(|(factor, level)| format!("{factor} {level}")).collect(),
    };
    levels.join(", ")
}

/// Of a search: what it found, and that this proves nothing yet.
fn found_best(summary: &RunSummary, ranked: &[&CellSummary]) -> String {
    let [best, ..] = ranked else { return String::new() };
    let name = name_of(best);
    let figure = format!(
        "{} {} ({})",
        metric_words(&summary.metric),
        summary.unit.show(best.median.unwrap_or_default()),
        counted(best.points.len(), "trial")
    );
    let (measured, all) = (ranked.len(), summary.cells.len());
    if measured < 2 {
        return format!("of {} only `{name}` was measured: {figure}", counted(all, "cell"));
    }
    format!(
        "`{name}` is the best of {measured} cells: {figure}; these trials chose it, so that what it gains has to be measured anew"
    )
}

/// Of a study that varies nothing: what each workload reached.
fn medians(summary: &RunSummary) -> String {
    let one = |cell: &CellSummary| {
        let median = summary.unit.show(cell.median?);
        let interval = cell.interval.map(|i| {
            format!(
                "{} interval {} to {}, ",
                percent(i.confidence),
                summary.unit.show(i.low),
                summary.unit.show(i.high)
            )
        });
        let interval = interval.unwrap_or_default();
        Some(format!("{} {median} ({interval}{})", cell.workload, counted(cell.points.len(), "trial")))
    };
    let cells: Vec<String> = summary.cells.iter().filter_map(one).collect();
    format!("median {}: {}", metric_words(&summary.metric), listed(&cells))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarise::summarise;
    use crate::testing::{run, study};

    #[test]
    fn an_answer_is_about_the_comparison_that_it_names_and_its_cells() {
        let study = study(&[("governor", &["performance", "powersave"]), ("threads", &["1", "8"])]);
        let data = run(study, 8, |cell, block| {
            let loss = match (cell["governor"].as_str(), cell["threads"].as_str()) {
                ("powersave", "8") => 0.4,
                ("powersave", _) => 0.9,
                _ => 1.0,
            };
            vec![("throughput", 100.0 * loss * (1.0 + f64::from(block % 3) / 1000.0))]
        });
        let mut data = data;
        data.study.primary = vec!["governor".into()];
        let summary = summarise(&data, None);
        let about = about(&data, &summary).unwrap();
        let levels = (about.comparison.a.as_str(), about.comparison.b.as_str());
        assert_eq!((about.factor, levels), ("governor", ("performance", "powersave")));
        assert!(summary.verdict.contains(&about.comparison.b), "{}", summary.verdict);
        assert_eq!(about.cells.len(), 2);
        assert!(about.cells.iter().all(|cell| cell.levels["threads"] == "8"));
        assert_eq!(
            about.cell_of("powersave").map(|cell| cell.levels["governor"].as_str()),
            Some("powersave")
        );
        assert_eq!(about.cell_of("ondemand"), None);
    }

    #[test]
    fn a_search_names_what_it_found_and_claims_nothing() {
        let levels = ["before", "a", "b", "c", "d"];
        let mut data = run(study(&[("change", &levels)]), 3, |cell, _| {
            let good = levels.iter().position(|level| *level == cell["change"]).unwrap();
            vec![("throughput", 1e6 * (1.0 + good as f64))]
        });
        data.study.measure.until = Until::Best;
        // The last was left behind after the first round.
        data.trials.retain(|trial| trial.key.block == 0 || trial.levels["change"] != "d");
        let summary = summarise(&data, None);
        assert_eq!(
            summary.verdict,
            "`c` is the best of 5 cells: throughput 4.00 MB/s (3 trials); these trials chose it, so that what it gains has to be measured anew"
        );
        let order: Vec<&str> =
            ranked(&summary).into_iter().map(|cell| cell.levels["change"].as_str()).collect();
        assert_eq!(order, ["c", "b", "a", "before", "d"]);
        assert_eq!(about(&data, &summary), None);
        let mut alone = data.clone();
        alone.trials.retain(|trial| trial.levels["change"] == "before");
        let said = summarise(&alone, None).verdict;
        assert_eq!(said, "of 5 cells only `before` was measured: throughput 1.00 MB/s (3 trials)");
        let comparisons: Vec<&Comparison> =
            summary.effects.iter().flat_map(|effect| &effect.comparisons).collect();
        assert!(comparisons.len() >= 4);
        assert!(comparisons.iter().all(|one| one.verdict == Verdict::Undecided && one.interval.is_none()));
        assert!(comparisons[0].sentence.contains("what trials choose they do not prove"), "{comparisons:#?}");
    }

    #[test]
    fn an_answer_that_compares_nothing_is_about_nothing() {
        let data = run(study(&[("f", &["a"])]), 8, |_, _| vec![("throughput", 100.0)]);
        assert_eq!(about(&data, &summarise(&data, None)), None);
    }
}
