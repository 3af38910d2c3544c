//! `/proc/stat`: proc_stat(5). Only what an inventory asks of it.

use super::{Error, number_at as number};

/// Time that other guests took from all CPUs since boot, in ticks of 10 ms; `None` before Linux 2.6.11.
///
/// # Errors
/// Where the field is no number.
pub fn steal_ticks(text: &str) -> Result<Option<u64>, Error> {
    let line = text.lines().enumerate().find(|(_, line)| line.starts_with("cpu "));
    let Some((index, line)) = line else { return Ok(None) };
    line.split_whitespace().nth(8).map(|field| number(index + 1, field)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_figure_of_the_sum() {
        let text = "cpu  7391 1 2806 350177 1089 0 203 42 0 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";
        assert_eq!(steal_ticks(text), Ok(Some(42)));
        assert_eq!(steal_ticks("cpu  1 2 3 4\n"), Ok(None));
        assert!(steal_ticks("cpu  1 2 3 4 5 6 7 x\n").is_err());
    }
}
