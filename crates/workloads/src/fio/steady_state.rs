//! Steady state, as SNIA's Solid State Storage Performance Test Specification defines it (PTS 2.0.2, 2.1.24):
//! over the last five rounds of a workload the values differ by at most 20% of their average, and the line of
//! best fit through them rises or falls by at most 10% of it.

use crate::options::{OptionError, truth};
use domain::time::Nanos;
use std::collections::BTreeMap;

/// How many rounds make the window.
pub const WINDOW: usize = 5;
/// After so many rounds PTS gives up: it reports the last five, and that they are not steady.
pub const MAX_ROUNDS: usize = 25;
const MAX_EXCURSION: f64 = 0.20;
const MAX_SLOPE: f64 = 0.10;

/// The options of a workload of fio by which it asks for this.
pub const OPTIONS: [&str; 3] = ["precondition", "steady_state", "round"];

/// PTS has rounds of a minute.
const DEFAULT_ROUND: Nanos = Nanos::from_secs(60);
const LONGEST_ROUND: Nanos = Nanos::from_secs(3600);

/// What is tracked.
const TRACKED: [&str; 3] = ["iops", "throughput", "latency_mean"];

/// What is done to a target before a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditioning {
    /// Whether all of it is written twice from end to end, 128 KiB at a time (PTS: workload independent
    /// preconditioning).
    pub precondition: bool,
    /// Which metric of the workload has to be steady (PTS: workload dependent preconditioning), and how long
    /// a round takes.
    pub steady_state: Option<(String, Nanos)>,
}

/// Looks at one of these options; `None` where it is another one.
pub fn check(option: &str, value: &str) -> Option<Result<(), String>> {
    match option {
        "precondition" => Some(truth(value).map(drop)),
        "steady_state" if TRACKED.contains(&value) => Some(Ok(())),
        "steady_state" => Some(Err(format!("is `{value}`; write one of `{}`", TRACKED.join("`, `")))),
        "round" => Some(
            match Nanos::parse(value).filter(|span| (Nanos::from_secs(1)..=LONGEST_ROUND).contains(span)) {
                Some(_) => Ok(()),
                None => {
                    Err(format!("is `{value}`; write a span from 1 s to {LONGEST_ROUND}, such as `\"60s\"`"))
                }
            },
        ),
        _ => None,
    }
}

impl Conditioning {
    /// What a workload's options ask for.
    ///
    /// # Errors
    /// Where a value is not of its kind, or `round` stands alone.
    pub fn parse(options: &BTreeMap<String, String>) -> Result<Option<Self>, OptionError> {
        for (option, value) in options {
            if let Some(Err(problem)) = check(option, value) {
                return Err(OptionError::wrong(option, problem));
            }
        }
        let given = |option: &str| options.get(option).map(String::as_str);
        let precondition = given("precondition").is_some_and(|text| truth(text) == Ok(true));
        let round = given("round").and_then(Nanos::parse);
        let steady_state =
            given("steady_state").map(|metric| (metric.to_owned(), round.unwrap_or(DEFAULT_ROUND)));
        if round.is_some() && steady_state.is_none() {
            return Err(OptionError::wrong(
                "round",
                "is that of `steady_state`; add `steady_state = \"iops\"`, or take it out",
            ));
        }
        Ok((precondition || steady_state.is_some()).then_some(Self { precondition, steady_state }))
    }
}

/// The last five rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Their average.
    pub average: f64,
    /// The largest less the smallest, as a share of the average.
    pub excursion: f64,
    /// By how much the line of best fit (least squares) changes from the first to the last, likewise.
    pub slope: f64,
}

impl Window {
    /// Of the rounds so far; `None` where they are too few, or did nothing.
    pub fn of(rounds: &[f64]) -> Option<Self> {
        let window = rounds.last_chunk::<WINDOW>()?;
        let average = window.iter().sum::<f64>() / WINDOW as f64;
        if !average.is_finite() || average <= 0.0 {
            return None;
        }
        let largest = window.iter().copied().fold(f64::MIN, f64::max);
        let smallest = window.iter().copied().fold(f64::MAX, f64::min);
        // Against -2, -1, 0, 1, 2, whose squares make 10.
        let moment: f64 = window.iter().zip(-2..=2_i32).map(|(value, x)| value * f64::from(x)).sum();
        let rise = moment / 10.0 * (WINDOW - 1) as f64;
        Some(Self { average, excursion: (largest - smallest) / average, slope: rise.abs() / average })
    }

    /// Whether that is steady state.
    pub fn is_steady(&self) -> bool {
        self.excursion <= MAX_EXCURSION && self.slope <= MAX_SLOPE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_equal_rounds_are_steady_and_four_are_too_few() {
        assert_eq!(Window::of(&[9.0; 4]), None);
        let window = Window::of(&[1.0, 9.0, 9.0, 9.0, 9.0, 9.0]).unwrap();
        assert_eq!((window.average, window.excursion, window.slope), (9.0, 0.0, 0.0));
        assert!(window.is_steady());
        assert_eq!(Window::of(&[0.0; 5]), None);
    }

    #[test]
    fn a_fall_of_a_tenth_is_the_bound() {
        // A line: it falls by 10% of its average from first to last.
        let line = |fall: f64| [2.0, 1.0, 0.0, -1.0, -2.0].map(|x| 100.0 + x * fall / 4.0);
        let window = Window::of(&line(10.0)).unwrap();
        assert!((window.slope - 0.10).abs() < 1e-12 && (window.excursion - 0.10).abs() < 1e-12);
        assert!(Window::of(&line(9.9)).unwrap().is_steady());
        assert!(!Window::of(&line(10.1)).unwrap().is_steady());
    }

    #[test]
    fn an_excursion_of_a_fifth_is_the_bound() {
        assert!(Window::of(&[100.0, 109.0, 91.0, 100.0, 100.0]).unwrap().is_steady());
        assert!(!Window::of(&[100.0, 111.0, 89.0, 100.0, 100.0]).unwrap().is_steady());
    }

    #[test]
    fn options_say_what_is_done() {
        let parsed = |options: &[(&str, &str)]| {
            let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            Conditioning::parse(&options)
        };
        assert_eq!(parsed(&[("rw", "read")]), Ok(None));
        let all = parsed(&[("precondition", "1"), ("steady_state", "iops")]).unwrap().unwrap();
        assert_eq!(all.steady_state, Some(("iops".to_owned(), Nanos::from_secs(60))));
        assert!(parsed(&[("round", "10s")]).unwrap_err().to_string().contains("is that of `steady_state`"));
        for (option, value) in [("steady_state", "yes"), ("round", "10"), ("precondition", "twice")] {
            assert!(parsed(&[(option, value)]).is_err(), "{option}");
        }
    }
}
