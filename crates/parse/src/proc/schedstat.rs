//! `/proc/PID/task/TID/schedstat` (kernel `Documentation/scheduler/sched-stats.rst`): time on a CPU, time
//! waiting to run, number of slices.

use super::Error;

/// Time on a CPU, in nanoseconds. The value of a thread that is running is stale by up to one tick.
///
/// # Errors
/// Where the first word is not a number.
pub fn cpu_time(text: &str) -> Result<u64, Error> {
    let first = text.split_ascii_whitespace().next().unwrap_or_default();
    first.parse().map_err(|_| Error::new("schedstat", 1, "the time on a CPU", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_is_the_time_on_a_cpu() {
        assert_eq!(cpu_time("78195446 13777730 423\n"), Ok(78_195_446));
        assert!(cpu_time("").is_err());
    }
}
