//! `/sys/devices/system/cpu/cpufreq/policy*`: `scaling_cur_freq` and `stats/time_in_state` (kernel
//! `Documentation/admin-guide/pm/cpufreq.rst`, `Documentation/cpu-freq/cpufreq-stats.rst`).

use super::{Error, number};
use domain::inventory::TimeInState;
use domain::order;
use domain::time::Nanos;
use domain::units::Hertz;

/// Nanoseconds in a tick of user space: `USER_HZ` is 100 on every architecture Linux runs on today.
const TICK_NS: u64 = 10_000_000;

const EXPECTED: &str = "a frequency in kHz and its time in ticks";

/// Time spent at one frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateTime<'a> {
    /// The frequency in kHz, as the file writes it.
    pub khz: &'a str,
    /// Ticks of 10 ms.
    pub ticks: u64,
}

/// The lines of `time_in_state`: a frequency and its time each.
///
/// The items are errors where a line is not two numbers.
pub fn time_in_state(text: &str) -> impl Iterator<Item = Result<StateTime<'_>, Error>> {
    text.lines().enumerate().map(|(index, line)| {
        state(line).ok_or_else(|| Error::new("time_in_state", index + 1, EXPECTED, line))
    })
}

/// The same as frequencies and times, by ascending frequency: some drivers list the highest first.
///
/// # Errors
/// Where a line is not two numbers, or they are larger than a frequency and a time can be.
pub fn times(text: &str) -> Result<Vec<TimeInState>, Error> {
    let mut states = Vec::new();
    for (index, state) in time_in_state(text).enumerate() {
        let state = state?;
        let too_large = || Error::new("time_in_state", index + 1, EXPECTED, state.khz);
        let hz = state.khz.parse::<u64>().ok().and_then(|khz| khz.checked_mul(1000)).ok_or_else(too_large)?;
        let ns = state.ticks.checked_mul(TICK_NS).ok_or_else(too_large)?;
        states.push(TimeInState { frequency: Hertz::from_hz(hz), time: Nanos::new(ns) });
    }
    order::by_key(&mut states, |state| state.frequency);
    Ok(states)
}

fn state(line: &str) -> Option<StateTime<'_>> {
    let (khz, ticks) = line.trim().split_once(' ')?;
    khz.parse::<u64>().ok()?;
    Some(StateTime { khz, ticks: ticks.trim().parse().ok()? })
}

/// The frequency in `scaling_cur_freq`, in kHz; `None` for `<unknown>`, as drivers without a `get` write.
///
/// # Errors
/// Where it is neither.
pub fn current(text: &str) -> Result<Option<u64>, Error> {
    if text.trim() == "<unknown>" { Ok(None) } else { number("scaling_cur_freq", text).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frequency_has_its_time() {
        let states: Vec<_> = time_in_state("2800000 51\n350000 7100\n").map(|s| s.unwrap()).collect();
        assert_eq!(states[1], StateTime { khz: "350000", ticks: 7100 });
        assert!(time_in_state("2800000\n").next().unwrap().is_err());
    }

    #[test]
    fn times_are_ascending_and_ticks_become_nanoseconds() {
        // Policy 0 of the recorded machine milan0.
        let states = times("2800000 247\n2100000 354\n1500000 192543\n").unwrap();
        assert_eq!(states[0].frequency, Hertz::from_khz(1_500_000));
        assert_eq!(states[2].time, Nanos::from_millis(2470));
        assert!(times("2800000\n").is_err());
        assert!(times("2800000 18446744073709551615\n").is_err());
    }

    #[test]
    fn an_unknown_frequency_is_none_and_not_zero() {
        assert_eq!(current("<unknown>\n"), Ok(None));
        assert_eq!(current("800000\n"), Ok(Some(800_000)));
        assert!(current("").is_err());
    }
}
