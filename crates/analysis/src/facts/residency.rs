//! How fast CPUs ran while they ran, and how long they were in each P-state and idle state, by a trace's
//! counters.
//!
//! Sources: Intel SDM volume 3, "Determining the processor frequency" (APERF, MPERF); kernel
//! `Documentation/cpu-freq/cpufreq-stats.rst` (`time_in_state`); `Documentation/admin-guide/pm/cpuidle.rst`
//! (`time`, `usage`).

use crate::facts::rates::{known_pairs, names_between};
use domain::order;
use domain::trace::{FrequencySource, SeriesKind, Trace, growth};
use domain::units::Hertz;
use std::collections::BTreeMap;

/// Frequencies and states of a trace's time. What was not sampled from its beginning to its end is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Residency {
    /// Each CPU's or policy's mean frequency, in the trace's order.
    pub frequencies: Vec<MeanFrequency>,
    /// Each policy's P-states.
    pub pstates: Vec<PStates>,
    /// Each CPU's idle states.
    pub idle: Vec<IdleStates>,
}

/// A mean frequency, and over which time.
#[derive(Clone, Debug, PartialEq)]
pub struct MeanFrequency {
    /// `cpu0`, `policy0`.
    pub object: String,
    /// The mean.
    pub frequency: Hertz,
    /// What it is a mean over.
    pub over: Over,
}

/// The time that a mean frequency is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The time in which the CPU was not idle: APERF over MPERF.
    BusyTime,
    /// All time, also that in which a CPU was idle in that state: `time_in_state`.
    AllTime,
    /// The moments at which it was sampled: `scaling_cur_freq`, or what another tool showed.
    Samples,
}

impl Over {
    /// As it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BusyTime => "while not idle",
            Self::AllTime => "idle time included",
            Self::Samples => "of samples",
        }
    }
}

/// The P-states of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PStates {
    /// `policy0`.
    pub policy: String,
    /// Each frequency and the share of the policy's time at it, the fastest first. Idle time counts to the
    /// state in which it was spent.
    pub shares: Vec<(Hertz, f64)>,
}

/// The idle states of a CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct IdleStates {
    /// The CPU's number.
    pub cpu: u32,
    /// Each state, the shallowest first.
    pub states: Vec<IdleState>,
}

/// One idle state of a CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IdleState {
    /// Its number: N of `stateN`.
    pub state: u32,
    /// The share of the trace's time.
    pub share: f64,
    /// How often it was entered; `None` where that was not counted.
    pub entries: Option<u64>,
}

impl Residency {
    /// What a trace shows.
    pub fn of(trace: &Trace) -> Self {
        let pstates = pstates(trace);
        Self { frequencies: frequencies(trace, &pstates), pstates, idle: idle(trace) }
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.frequencies.is_empty() && self.pstates.is_empty() && self.idle.is_empty()
    }
}

/// By how much a counter grew from the first row to the last; `None` where it is not in both, or began anew.
fn grown(trace: &Trace, column: &str) -> Option<u64> {
    let index = trace.head.series.iter().position(|series| series.name == column)?;
    let SeriesKind::Counter { wraps_at } = trace.head.series[index].kind else { return None };
    let values = &trace.columns[index];
    let is_whole = values.len() > 1 && values.first()?.is_some() && values.last()?.is_some();
    let steps = known_pairs(values).map(|(before, after)| growth(values[before]?, values[after]?, wraps_at));
    steps.sum::<Option<u64>>().filter(|_| is_whole)
}

fn span_secs(trace: &Trace) -> f64 {
    let ends = trace.times.first().zip(trace.times.last());
    ends.map_or(0.0, |(first, last)| last.saturating_sub(*first).secs())
}

fn frequencies(trace: &Trace, pstates: &[PStates]) -> Vec<MeanFrequency> {
    let of = |objects: Vec<&str>, over: Over, mean: &dyn Fn(&str) -> Option<f64>| {
        let one = |object: &str| {
            let hz = mean(object).filter(|hz| hz.is_finite() && *hz > 0.0)?;
            let frequency = Hertz::from_hz(hz.round() as u64);
            Some(MeanFrequency { object: object.to_owned(), frequency, over })
        };
        objects.into_iter().filter_map(one).collect()
    };
    match trace.head.frequency {
        FrequencySource::AperfMperf => {
            of(names_between(trace, "freq.", ".aperf"), Over::BusyTime, &|cpu| busy(trace, cpu))
        }
        FrequencySource::TimeInState => {
            let policies = pstates.iter().map(|states| states.policy.as_str()).collect();
            let mean = |policy: &str| {
                let states = pstates.iter().find(|states| states.policy == policy)?;
                Some(states.shares.iter().map(|(at, share)| at.hz() as f64 * share).sum())
            };
            of(policies, Over::AllTime, &mean)
        }
        FrequencySource::ScalingCurFreq | FrequencySource::Tool => {
            let mean = |object: &str| {
                let values = trace.column(&format!("freq.{object}.khz"))?.iter().flatten();
                let (sum, count) = values.fold((0.0, 0.0), |(sum, n), khz| (sum + *khz as f64, n + 1.0));
                Some(sum * 1e3 / count)
            };
            of(names_between(trace, "freq.", ".khz"), Over::Samples, &mean)
        }
        FrequencySource::None => Vec::new(),
    }
}

/// APERF counts at the frequency that a CPU runs at, MPERF at the TSC's, both only while it runs.
fn busy(trace: &Trace, cpu: &str) -> Option<f64> {
    let counted = |quantity: &str| grown(trace, &format!("freq.{cpu}.{quantity}"));
    let (aperf, mperf, tsc) = (counted("aperf")?, counted("mperf")?, counted("tsc")?);
    (mperf > 0).then(|| tsc as f64 / span_secs(trace) * aperf as f64 / mperf as f64)
}

/// Of each policy whose driver counts them, in the trace's order.
pub(crate) fn pstates(trace: &Trace) -> Vec<PStates> {
    let mut order: Vec<&str> = Vec::new();
    let mut ticks: BTreeMap<&str, Vec<(u64, Option<u64>)>> = BTreeMap::new();
    for name in names_between(trace, "freq.", "") {
        let Some((policy, khz)) = name.split_once(".time.") else { continue };
        let Ok(khz) = khz.parse() else { continue };
        if !order.contains(&policy) {
            order.push(policy);
        }
        ticks.entry(policy).or_default().push((khz, grown(trace, &format!("freq.{name}"))));
    }
    let mut of = |policy: &str| {
        let mut states = ticks.remove(policy)?;
        order::by_key(&mut states, |(khz, _)| std::cmp::Reverse(*khz));
        let whole = states.iter().map(|(_, ticks)| *ticks).sum::<Option<u64>>().filter(|whole| *whole > 0)?;
        let share =
            |(khz, ticks): (u64, Option<u64>)| Some((Hertz::from_khz(khz), ticks? as f64 / whole as f64));
        Some(PStates { policy: policy.to_owned(), shares: states.into_iter().filter_map(share).collect() })
    };
    order.into_iter().filter_map(&mut of).collect()
}

fn idle(trace: &Trace) -> Vec<IdleStates> {
    let span = span_secs(trace);
    let mut cpus: BTreeMap<u32, Vec<IdleState>> = BTreeMap::new();
    for name in names_between(trace, "idle.cpu", ".us").into_iter().filter(|_| span > 0.0) {
        let parsed =
            name.split_once(".state").and_then(|(cpu, state)| Some((cpu.parse().ok()?, state.parse().ok()?)));
        let Some((cpu, state)) = parsed else { continue };
        let Some(us) = grown(trace, &format!("idle.cpu{name}.us")) else { continue };
        // The kernel adds a stay when it ends, so that one that began before the trace may make it longer.
        let share = (us as f64 / (span * 1e6)).min(1.0);
        let entries = grown(trace, &format!("idle.cpu{name}.entries"));
        cpus.entry(cpu).or_default().push(IdleState { state, share, entries });
    }
    cpus.into_iter().map(|(cpu, states)| IdleStates { cpu, states }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::Nanos;
    use domain::time::Timestamp;
    use domain::trace::{Series, SeriesUnit, TraceHead};

    /// Three rows in two seconds.
    fn residency(source: FrequencySource, columns: &[(&str, [Option<u64>; 3])]) -> Residency {
        let series = |(name, _): &(&str, [Option<u64>; 3])| Series {
            name: (*name).to_owned(),
            unit: SeriesUnit::Count,
            kind: SeriesKind::Counter { wraps_at: None },
        };
        let head = TraceHead {
            series: columns.iter().map(series).collect(),
            interval: Nanos::from_secs(1),
            start: Timestamp::default(),
            frequency: source,
        };
        let times = (0..3).map(Nanos::from_secs).collect();
        Residency::of(&Trace { head, times, columns: columns.iter().map(|(_, c)| c.to_vec()).collect() })
    }

    fn upto(grown: u64) -> [Option<u64>; 3] {
        [Some(7), None, Some(7 + grown)]
    }

    #[test]
    fn a_cpu_runs_as_fast_as_aperf_says_over_mperf_and_the_tsc() {
        let ghz = 1_000_000_000;
        let counted = residency(
            FrequencySource::AperfMperf,
            &[
                ("freq.cpu0.aperf", upto(3 * ghz)),
                ("freq.cpu0.mperf", upto(2 * ghz)),
                ("freq.cpu0.tsc", upto(4 * ghz)),
                ("freq.cpu1.aperf", upto(0)),
                ("freq.cpu1.mperf", upto(0)),
                ("freq.cpu1.tsc", upto(4 * ghz)),
                ("freq.cpu2.aperf", [Some(1), Some(2), None]),
                ("freq.cpu2.mperf", [Some(1), Some(2), None]),
                ("freq.cpu2.tsc", [Some(1), Some(2), None]),
            ],
        );
        let [mean] = counted.frequencies.as_slice() else {
            panic!("one that was idle, and one that went offline, have none: {counted:?}")
        };
        assert_eq!(
            (mean.object.as_str(), mean.frequency, mean.over),
            ("cpu0", Hertz::from_mhz(3000), Over::BusyTime)
        );
    }

    #[test]
    fn a_policys_time_is_shared_by_its_states_the_fastest_first() {
        let counted = residency(
            FrequencySource::TimeInState,
            &[
                ("freq.policy0.time.800000", upto(150)),
                ("freq.policy0.time.2400000", upto(50)),
                ("freq.policy4.time.800000", upto(0)),
            ],
        );
        let at = Hertz::from_mhz;
        let states = PStates { policy: "policy0".into(), shares: vec![(at(2400), 0.25), (at(800), 0.75)] };
        assert_eq!(counted.pstates, [states], "no tick has passed in policy4");
        assert_eq!(counted.frequencies[0].frequency, at(1200));
        assert_eq!(counted.frequencies[0].over, Over::AllTime);
    }

    #[test]
    fn a_frequency_that_was_only_looked_at_is_a_mean_of_samples() {
        let khz = [Some(800_000), None, Some(1_000_000)];
        let counted = residency(FrequencySource::ScalingCurFreq, &[("freq.cpu0.khz", khz)]);
        assert_eq!(counted.frequencies[0].frequency, Hertz::from_mhz(900));
        assert_eq!(counted.frequencies[0].over, Over::Samples);
    }

    #[test]
    fn idle_states_have_their_share_of_the_time_and_how_often_they_were_entered() {
        let counted = residency(
            FrequencySource::None,
            &[
                ("idle.cpu1.state0.us", upto(200_000)),
                ("idle.cpu1.state0.entries", upto(40)),
                ("idle.cpu1.state1.us", upto(1_000_000)),
                ("idle.cpu0.state0.us", [None, Some(1), Some(2)]),
            ],
        );
        let state = |state, share, entries| IdleState { state, share, entries };
        let expected = IdleStates { cpu: 1, states: vec![state(0, 0.1, Some(40)), state(1, 0.5, None)] };
        assert_eq!(counted.idle, [expected], "cpu0 was not sampled at first");
        assert!(counted.frequencies.is_empty() && !counted.is_empty());
        assert!(residency(FrequencySource::None, &[]).is_empty());
    }
}
