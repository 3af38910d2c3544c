//! `/sys/devices/system/cpu/cpufreq/policy*`: `scaling_cur_freq` and `stats/time_in_state` (kernel
//! `Documentation/admin-guide/pm/cpufreq.rst`, `Documentation/cpu-freq/cpufreq-stats.rst`).

use super::{Error, number};

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
        state(line).ok_or_else(|| Error::new("time_in_state", index + 1, "a frequency and its time", line))
    })
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
    fn an_unknown_frequency_is_none_and_not_zero() {
        assert_eq!(current("<unknown>\n"), Ok(None));
        assert_eq!(current("800000\n"), Ok(Some(800_000)));
        assert!(current("").is_err());
    }
}
