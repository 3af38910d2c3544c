//! A run's verdict in a few words, for a line of a list. The sentence is [`crate::answer`]'s.

use crate::summary::{Comparison, RunData, RunSummary, Verdict};
use crate::words::{counted, distance, metric_words, percent, ratio_words};

/// What a run found, in at most some ten words: the factor that makes the largest difference that is claimed,
/// else what is known instead.
pub fn in_short(data: &RunData, summary: &RunSummary) -> String {
    let measured = summary.cells.iter().filter(|cell| !cell.points.is_empty()).count();
    if measured == 0 {
        return nothing(data);
    }
    // As in the sentence: a factor that the question is not about is its context.
    let asked: Vec<_> =
        summary.effects.iter().filter(|effect| data.study.asks_about(&effect.factor)).collect();
    let effects = if asked.is_empty() { summary.effects.iter().collect() } else { asked };
    let all: Vec<(&str, &Comparison)> = effects
        .iter()
        .flat_map(|effect| effect.comparisons.iter().map(|c| (effect.factor.as_str(), c)))
        .collect();
    let claimed = all.iter().filter(|(_, c)| matches!(c.verdict, Verdict::Better | Verdict::Worse));
    if let Some((factor, largest)) = claimed.max_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b))) {
        return difference(factor, largest);
    }
    if all.is_empty() {
        return median(summary, measured);
    }
    if all.iter().all(|(_, c)| c.verdict == Verdict::Same) {
        return format!("no difference above {}", percent(data.study.measure.threshold));
    }
    "cannot be told yet".to_owned()
}

fn nothing(data: &RunData) -> String {
    match (data.trials.len(), data.skipped.len()) {
        (0, 0) => "nothing measured yet".to_owned(),
        (0, _) => "not possible on its machine".to_owned(),
        (trials, _) => format!("nothing: of {} none counts", counted(trials, "trial")),
    }
}

fn difference(factor: &str, comparison: &Comparison) -> String {
    let Comparison { a, b, metric, .. } = comparison;
    match comparison.ratio {
        Some(ratio) => {
            format!("{factor}: {b} has {} times the {} of {a}", ratio_words(ratio), metric_words(metric))
        }
        None => format!("{factor}: {b} differs from {a}"),
    }
}

fn median(summary: &RunSummary, measured: usize) -> String {
    let only = summary.cells.iter().find(|_| measured == 1).and_then(|cell| cell.median);
    match only {
        Some(median) => format!("median {} {}", metric_words(&summary.metric), summary.unit.show(median)),
        None => format!("{} measured", counted(measured, "cell")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarise::summarise;
    use crate::testing::{run, study};
    use expect_test::{Expect, expect};

    /// A run over the levels of `f`, each with its throughput, in so many blocks.
    fn check(levels: &[(&str, f64)], blocks: u32, expected: Expect) {
        let names: Vec<&str> = levels.iter().map(|(name, _)| *name).collect();
        let data = run(study(&[("f", &names)]), blocks, |cell, block| {
            let middle = levels.iter().find(|(name, _)| cell["f"] == *name).map_or(0.0, |(_, value)| *value);
            vec![("throughput", middle * (1.0 + f64::from(block % 3) / 1000.0))]
        });
        expected.assert_eq(&in_short(&data, &summarise(&data, None)));
    }

    #[test]
    fn the_largest_difference_that_is_claimed_is_the_verdict() {
        let levels = [("a", 100.0), ("b", 120.0), ("c", 400.0)];
        check(&levels, 8, expect!["f: c has 4.00 times the throughput of a"]);
        check(&[("a", 100.0), ("b", 100.0)], 8, expect!["no difference above 2%"]);
    }

    #[test]
    fn a_factor_that_the_question_is_not_about_is_no_verdict() {
        let mut data = run(study(&[("f", &["a", "b"]), ("depth", &["1", "32"])]), 8, |cell, block| {
            let deep = if cell["depth"] == "32" { 9.0 } else { 1.0 };
            vec![("throughput", deep * (1.0 + f64::from(block % 3) / 1000.0))]
        });
        data.study.primary = vec!["f".into()];
        expect!["no difference above 2%"].assert_eq(&in_short(&data, &summarise(&data, None)));
        data.study.primary = vec!["depth".into()];
        expect!["depth: 32 has 9.00 times the throughput of 1"]
            .assert_eq(&in_short(&data, &summarise(&data, None)));
    }

    #[test]
    fn what_was_not_measured_is_no_verdict() {
        check(&[("a", 1.0), ("b", 9.0)], 0, expect!["nothing measured yet"]);
        check(&[("a", 1.0), ("b", 9.0)], 1, expect!["cannot be told yet"]);
    }
}
