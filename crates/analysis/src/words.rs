//! Numbers as sentences say them.

use crate::stats::interval::Interval;
use crate::summary::Comparison;

/// Things that one reason stands against, together: reasons in the order in which they come, each once, the
/// first `most` of its things by name and how many there are.
pub fn by_reason<'a>(
    things: impl IntoIterator<Item = (String, &'a str)>,
    most: usize,
) -> Vec<(&'a str, Vec<String>, usize)> {
    let mut reasons: Vec<(&str, Vec<String>, usize)> = Vec::new();
    for (thing, why) in things {
        let index = reasons.iter().position(|(known, ..)| *known == why).unwrap_or_else(|| {
            reasons.push((why, Vec::new(), 0));
            reasons.len() - 1
        });
        let (_, named, count) = &mut reasons[index];
        *count += 1;
        if named.len() < most {
            named.push(thing);
        }
    }
    reasons
}

/// A metric's name in words: `latency_p99` is the 99th percentile latency.
pub fn metric_words(metric: &str) -> String {
    match metric {
        "latency_mean" => "mean latency".into(),
        "latency_p50" => "median latency".into(),
        "latency_p95" => "95th percentile latency".into(),
        "latency_p99" => "99th percentile latency".into(),
        "latency_p999" => "99.9th percentile latency".into(),
        "elapsed" => "elapsed time".into(),
        "iops" => "IOPS".into(),
        "read_iops" => "read IOPS".into(),
        "write_iops" => "write IOPS".into(),
        other => other.replace('_', " "),
    }
}

/// A ratio with as many digits as tell it from 1.
pub fn ratio_words(ratio: f64) -> String {
    format!("{ratio:.*}", digits(ratio))
}

fn digits(ratio: f64) -> usize {
    match (ratio - 1.0).abs() {
        d if d < 0.1 => 3,
        d if d < 9.0 => 2,
        _ => 1,
    }
}

/// A share in percent: `2%`, `3.5%`.
pub fn percent(share: f64) -> String {
    // A sum of nothing is -0.0.
    let tenths = (share * 1000.0).round() / 10.0 + 0.0;
    if tenths.fract() == 0.0 { format!("{tenths:.0}%") } else { format!("{tenths:.1}%") }
}

/// `95% interval 1.19 to 1.29`.
pub fn interval_words(interval: &Interval) -> String {
    let mut digits = digits(interval.low).max(digits(interval.high));
    let Interval { low, high, confidence } = interval;
    // Two ends that read alike say nothing of how far they are apart.
    if interval.has_width() && format!("{low:.digits$}") == format!("{high:.digits$}") {
        digits += 1;
    }
    format!("{} interval {low:.digits$} to {high:.digits$}", percent(*confidence))
}

/// What a ratio of a model rests on: `model, 6 seeds`, with the interval where the seeds differ.
pub fn of_model(interval: Option<&Interval>, seeds: usize) -> String {
    let interval = interval.filter(|interval| interval.has_width()).map(interval_words);
    let parts: Vec<String> =
        interval.into_iter().chain([format!("model, {}", counted(seeds, "seed"))]).collect();
    parts.join(", ")
}

/// How sure a ratio is: its interval; of a model how many seeds it has. Empty where neither is known.
pub fn certainty(comparison: &Comparison) -> String {
    match comparison.seeds {
        Some(seeds) => of_model(comparison.interval.as_ref(), seeds),
        None => comparison.interval.as_ref().map(interval_words).unwrap_or_default(),
    }
}

/// The same in brackets after a blank; empty where nothing is known.
pub fn bracketed_certainty(comparison: &Comparison) -> String {
    let certainty = certainty(comparison);
    if certainty.is_empty() { certainty } else { format!(" ({certainty})") }
}

/// `p = 0.002`, `p < 0.001`.
pub fn p_words(p: f64) -> String {
    if p < 0.001 { "p < 0.001".into() } else { format!("p = {p:.3}") }
}

/// What a comparison found, without its verdict: `B gives 1.24 times the throughput of A`; where there is no
/// ratio, the medians.
pub fn gives(verb: &str, comparison: &Comparison) -> String {
    let Comparison { a, b, .. } = comparison;
    match comparison.ratio {
        Some(ratio) => format!("{b} {verb} {} of {a}", times(ratio, comparison)),
        None => medians(comparison),
    }
}

/// The same where both sides were named: `1.24 times the throughput`.
pub fn difference(comparison: &Comparison) -> String {
    comparison.ratio.map_or_else(|| medians(comparison), |ratio| times(ratio, comparison))
}

fn times(ratio: f64, comparison: &Comparison) -> String {
    format!("{} times the {}", ratio_words(ratio), metric_words(&comparison.metric))
}

/// `median throughput was 0 with A and is 5 MB/s with B`.
fn medians(comparison: &Comparison) -> String {
    let Comparison { a, b, medians, .. } = comparison;
    let metric = metric_words(&comparison.metric);
    let shown = |value: f64| if value == 0.0 { "0".to_owned() } else { comparison.unit.show(value) };
    if medians.0 == medians.1 {
        return format!("median {metric} is {} with both {a} and {b}", shown(medians.0));
    }
    format!("median {metric} was {} with {a} and is {} with {b}", shown(medians.0), shown(medians.1))
}

/// How far a comparison is from "no difference", as a logarithm, whichever way: nothing where both are 0,
/// more than anything where one alone is.
pub fn distance(comparison: &Comparison) -> f64 {
    match comparison.ratio {
        Some(ratio) => ratio.ln().abs(),
        None if comparison.medians.0 == comparison.medians.1 => 0.0,
        None => f64::INFINITY,
    }
}

/// Parts of a list as a sentence joins them: `a, b and c`.
pub fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `1 cell`, `3 cells`.
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_as_long_as_they_need_to_be() {
        let shown: Vec<_> = [1.004, 0.95, 1.24, 3.9, 0.02, 12.34].map(ratio_words).into();
        assert_eq!(shown, ["1.004", "0.950", "1.24", "3.90", "0.02", "12.3"]);
        assert_eq!([0.02, 0.035, 0.95, 0.1234].map(percent), ["2%", "3.5%", "95%", "12.3%"]);
        assert_eq!([-0.0, -0.0001].map(percent), ["0%", "0%"]);
        assert_eq!([0.0004, 0.0024, 1.0].map(p_words), ["p < 0.001", "p = 0.002", "p = 1.000"]);
    }

    #[test]
    fn lists_end_in_and() {
        let parts = ["a", "b", "c"].map(String::from);
        assert_eq!([listed(&parts[..0]), listed(&parts[..1]), listed(&parts)], ["", "a", "a, b and c"]);
    }
}
