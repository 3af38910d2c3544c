//! `/proc/pressure/{cpu,io,memory}` (kernel `Documentation/accounting/psi.rst`).

use super::Error;

/// Time during which some or all tasks waited for a resource, in microseconds since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// At least one task waited.
    pub some_us: Option<u64>,
    /// All tasks that had something to do waited; absent for the CPU before Linux 5.13.
    pub full_us: Option<u64>,
}

/// Reads one file.
///
/// # Errors
/// Where a line of `some` or `full` has no readable total.
pub fn pressure(text: &str) -> Result<Pressure, Error> {
    let mut pressure = Pressure::default();
    for (index, line) in text.lines().enumerate() {
        let slot = match line.split_once(' ') {
            Some(("some", _)) => &mut pressure.some_us,
            Some(("full", _)) => &mut pressure.full_us,
            _ => continue,
        };
        let total = line.rsplit_once("total=").and_then(|(_, total)| total.trim_end().parse().ok());
        let error = || Error::new("/proc/pressure", index + 1, "total=", line);
        *slot = Some(total.ok_or_else(error)?);
    }
    Ok(pressure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_totals_are_read_and_the_averages_left() {
        let text = include_str!("../../fixtures/proc/vm-2cpu.pressure-io");
        let expected = Pressure { some_us: Some(7_067_111), full_us: Some(6_888_683) };
        assert_eq!(pressure(text), Ok(expected));
    }

    #[test]
    fn a_line_that_the_kernel_does_not_write_is_absent() {
        let expected = Pressure { some_us: Some(7), full_us: None };
        assert_eq!(pressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"), Ok(expected));
        assert!(pressure("some avg10=0.00\n").is_err());
    }
}
