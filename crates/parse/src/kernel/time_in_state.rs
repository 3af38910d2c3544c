//! `cpufreq/policyN/stats/time_in_state`: `Documentation/cpu-freq/cpufreq-stats.rst`.

use super::{Error, number_at as number};
use domain::inventory::TimeInState;
use domain::time::Nanos;
use domain::units::Hertz;

/// Nanoseconds in a tick of user space: `USER_HZ` is 100 on every architecture Linux runs on today.
const TICK_NS: u64 = 10_000_000;

/// Reads lines of kilohertz and ticks, and sorts them by frequency: some drivers list the highest first.
///
/// # Errors
/// Where a line is not two numbers.
pub fn parse(text: &str) -> Result<Vec<TimeInState>, Error> {
    let mut states = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let wrong = || Error::value(index + 1, line, "a frequency in kHz and a time in ticks");
        let (khz, ticks) = line.trim().split_once(' ').ok_or_else(wrong)?;
        let khz = number::<u64>(index + 1, khz)?.checked_mul(1000).ok_or_else(wrong)?;
        let time = number::<u64>(index + 1, ticks)?.checked_mul(TICK_NS).ok_or_else(wrong)?;
        states.push(TimeInState { frequency: Hertz::from_hz(khz), time: Nanos::new(time) });
    }
    states.sort_by_key(|state| state.frequency);
    Ok(states)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_ascending_and_ticks_become_time() {
        // Policy 0 of the recorded machine milan0.
        let states = parse("2800000 247\n2100000 354\n1500000 192543\n").unwrap();
        assert_eq!(states[0].frequency, Hertz::from_khz(1_500_000));
        assert_eq!(states[2].time, Nanos::from_millis(2470));
        assert!(parse("2800000\n").is_err());
    }
}
