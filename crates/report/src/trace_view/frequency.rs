//! Frequency over time, from whichever source the trace has.

use super::grid::Grid;
use super::{Line, Lines, MAX_LINES};
use analysis::facts::rates::{Step, known_pairs, names_between, neighbours, usual_distance};
use domain::time::Nanos;
use domain::trace::{FrequencySource, Trace, growth};

/// One line a CPU or policy; where there are more than can be told apart, one line with the mean of all of
/// them, whose band reaches from the slowest to the fastest.
pub(super) fn lines(trace: &Trace, grid: &Grid) -> Lines {
    let lines = each(trace, grid);
    if lines.len() <= MAX_LINES {
        return Lines { lines, left_out: 0 };
    }
    Lines { lines: vec![envelope(&lines)], left_out: 0 }
}

/// One line a CPU or policy that has a frequency, however many there are.
pub fn each(trace: &Trace, grid: &Grid) -> Vec<Line> {
    let lines = steps(trace).into_iter().map(|(name, steps)| grid.line(name, steps.into_iter()));
    lines.filter(Line::is_ever_above_zero).collect()
}

/// Each CPU or policy, and its frequency in hertz over time.
pub fn steps(trace: &Trace) -> Vec<(String, Vec<Step>)> {
    match trace.head.frequency {
        FrequencySource::AperfMperf => by_object(trace, ".aperf", running_frequency),
        FrequencySource::TimeInState => policies(trace),
        FrequencySource::ScalingCurFreq | FrequencySource::Tool => {
            by_object(trace, ".khz", current_frequency)
        }
        FrequencySource::None => Vec::new(),
    }
}

fn by_object(trace: &Trace, suffix: &str, steps: fn(&Trace, &str) -> Vec<Step>) -> Vec<(String, Vec<Step>)> {
    let names = names_between(trace, "freq.", suffix);
    names.into_iter().map(|name| (name.to_owned(), steps(trace, name))).collect()
}

/// The mean frequency while the CPU was not idle: APERF counts at the frequency that it runs at, MPERF at
/// the TSC's, both only while it runs (Intel SDM volume 3, "Determining the processor frequency"). A step in
/// which it did not run has no frequency.
fn running_frequency(trace: &Trace, cpu: &str) -> Vec<Step> {
    let column = |quantity: &str| trace.column(&format!("freq.{cpu}.{quantity}")).unwrap_or(&[]);
    let (aperf, mperf, tsc) = (column("aperf"), column("mperf"), column("tsc"));
    let step = |(before, after): (usize, usize)| {
        let grown = |values: &[Option<u64>]| growth((*values.get(before)?)?, (*values.get(after)?)?, None);
        let (ran, at_tsc, all) = (grown(aperf)?, grown(mperf)?, grown(tsc)?);
        let (from, to) = (trace.times[before], trace.times[after]);
        let span = to.saturating_sub(from);
        let value = all as f64 / span.secs() * ran as f64 / at_tsc as f64;
        (at_tsc > 0 && span > Nanos::ZERO).then_some(Step { from, to, value })
    };
    neighbours(aperf).filter_map(step).collect()
}

/// What `scaling_cur_freq` said at a sample is shown until the next one, or until that should have come.
fn current_frequency(trace: &Trace, object: &str) -> Vec<Step> {
    let values = trace.column(&format!("freq.{object}.khz")).unwrap_or(&[]);
    let usual = usual_distance(values);
    let step = |(row, next): (usize, usize)| {
        let until = next.min(row + usual);
        Some(Step { from: trace.times[row], to: trace.times[until], value: values[row]? as f64 * 1e3 })
    };
    known_pairs(values).filter_map(step).collect()
}

/// The mean over the time that a policy spent in each state. A tick is 10 ms, so a step grows until at least
/// one has passed.
fn policies(trace: &Trace) -> Vec<(String, Vec<Step>)> {
    let mut names: Vec<&str> = Vec::new();
    for rest in names_between(trace, "freq.", "") {
        if let Some((policy, _)) = rest.split_once(".time.")
            && !names.contains(&policy)
        {
            names.push(policy);
        }
    }
    names.into_iter().map(|name| (name.to_owned(), time_in_state(trace, name))).collect()
}

fn time_in_state(trace: &Trace, policy: &str) -> Vec<Step> {
    let prefix = format!("freq.{policy}.time.");
    let states: Vec<(f64, &[Option<u64>])> = (trace.head.series.iter().zip(&trace.columns))
        .filter_map(|(s, c)| Some((s.name.strip_prefix(&prefix)?.parse::<f64>().ok()? * 1e3, c.as_slice())))
        .collect();
    let mut steps = Vec::new();
    let (mut since, mut last) = (0, 0);
    for (before, after) in states.first().into_iter().flat_map(|(_, column)| neighbours(column)) {
        if before != last {
            since = before;
        }
        last = after;
        match mean_of_states(&states, since, after) {
            Passed::Unknown => since = after,
            Passed::Nothing => {}
            Passed::Mean(value) => {
                steps.push(Step { from: trace.times[since], to: trace.times[after], value });
                since = after;
            }
        }
    }
    steps
}

enum Passed {
    Unknown,
    Nothing,
    Mean(f64),
}

fn mean_of_states(states: &[(f64, &[Option<u64>])], from: usize, to: usize) -> Passed {
    let (mut ticks, mut weighted) = (0_u64, 0.0);
    for (hz, column) in states {
        let grown = column[from].zip(column[to]).and_then(|(before, after)| growth(before, after, None));
        let Some(grown) = grown else { return Passed::Unknown };
        ticks += grown;
        weighted += grown as f64 * hz;
    }
    if ticks == 0 { Passed::Nothing } else { Passed::Mean(weighted / ticks as f64) }
}

fn envelope(lines: &[Line]) -> Line {
    let bucket = |i: usize| {
        let here: Vec<_> = lines.iter().filter_map(|l| l.buckets[i]).collect();
        let first = *here.first()?;
        let mut all = here.iter().fold(first, |mut all, b| {
            all.low = all.low.min(b.low);
            all.high = all.high.max(b.high);
            all
        });
        all.mean = here.iter().map(|b| b.mean).sum::<f64>() / here.len() as f64;
        Some(all)
    };
    let count = lines.first().map_or(0, |l| l.buckets.len());
    Line {
        name: format!("mean of {}, band from the slowest to the fastest", lines.len()),
        buckets: (0..count).map(bucket).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceView;
    use domain::time::Timestamp;
    use domain::trace::{Series, SeriesKind, SeriesUnit, TraceHead};

    fn frequencies(source: FrequencySource, columns: &[(&str, &[Option<u64>])]) -> Vec<Option<f64>> {
        let series = |name: &str| Series {
            name: name.into(),
            unit: SeriesUnit::Count,
            kind: SeriesKind::Counter { wraps_at: None },
        };
        let head = TraceHead {
            series: columns.iter().map(|(n, _)| series(n)).collect(),
            interval: Nanos::from_millis(10),
            start: Timestamp::default(),
            frequency: source,
        };
        let times = (0..columns[0].1.len() as u64).map(|i| Nanos::from_millis(10 * i)).collect();
        let trace = Trace { head, times, columns: columns.iter().map(|(_, c)| c.to_vec()).collect() };
        let view = TraceView::from_trace(&trace);
        view.frequency.lines.first().map_or(vec![], |l| l.buckets.iter().map(|b| b.map(|b| b.mean)).collect())
    }

    #[test]
    fn aperf_over_mperf_scales_the_tsc_and_an_idle_cpu_has_no_frequency() {
        let mhz = 1_000_000;
        let got = frequencies(
            FrequencySource::AperfMperf,
            &[
                ("freq.cpu0.aperf", &[Some(0), Some(8 * mhz), Some(8 * mhz)]),
                ("freq.cpu0.mperf", &[Some(0), Some(20 * mhz), Some(20 * mhz)]),
                ("freq.cpu0.tsc", &[Some(0), Some(25 * mhz), Some(50 * mhz)]),
            ],
        );
        assert_eq!(got, [Some(1e9), None]);
    }

    #[test]
    fn time_in_state_waits_for_a_tick() {
        let got = frequencies(
            FrequencySource::TimeInState,
            &[
                ("freq.policy0.time.800000", &[Some(5), Some(5), Some(6), Some(6)]),
                ("freq.policy0.time.2400000", &[Some(9), Some(9), Some(10), Some(11)]),
            ],
        );
        assert_eq!(got, [Some(1.6e9), Some(1.6e9), Some(2.4e9)]);
    }

    #[test]
    fn scaling_cur_freq_holds_until_the_next_sample() {
        let got = frequencies(
            FrequencySource::ScalingCurFreq,
            &[("freq.cpu0.khz", &[Some(800_000), None, Some(1_000_000), Some(9)])],
        );
        assert_eq!(got, [Some(8e8), None, Some(1e9)]);
    }
}
