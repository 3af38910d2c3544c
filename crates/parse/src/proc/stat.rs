//! `/proc/stat`: the CPU lines and the context switches (proc_stat(5), kernel `fs/proc/stat.c`).
//!
//! Ticks of 10 ms, whatever the kernel's HZ. On kernels that account by tick, bursts between two ticks are
//! invisible here. `guest` and `guest_nice` are not read: they are contained in `user` and `nice`.

use super::Error;

/// The names of the columns, in their order.
pub const FIELDS: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];

/// One CPU line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuLine<'a> {
    /// `cpu0`, or `cpu` for the sum.
    pub name: &'a str,
    /// Ticks, in the order of [`FIELDS`]; `None` where an old kernel has fewer columns.
    pub ticks: [Option<u64>; FIELDS.len()],
}

/// The CPU lines, which come first; an offline CPU has none.
///
/// The items are errors where a column is not a number.
pub fn cpu_lines(text: &str) -> impl Iterator<Item = Result<CpuLine<'_>, Error>> {
    let cpus = text.lines().take_while(|line| line.starts_with("cpu"));
    cpus.enumerate().map(|(index, line)| cpu_line(index + 1, line))
}

/// Time that other guests took from all CPUs since boot, in ticks; `None` before Linux 2.6.11.
///
/// # Errors
/// Where a column of the sum is not a number.
pub fn steal_ticks(text: &str) -> Result<Option<u64>, Error> {
    let sum = cpu_lines(text).next().transpose()?;
    let [.., steal] = sum.map_or([None; FIELDS.len()], |sum| sum.ticks);
    Ok(steal)
}

/// How often any CPU has switched to another task since boot; `None` where the text has no line `ctxt`.
///
/// # Errors
/// Where it is not a number.
pub fn context_switches(text: &str) -> Result<Option<u64>, Error> {
    let mut lines = text.lines().enumerate();
    let found = lines.find_map(|(index, line)| Some((index, line, line.strip_prefix("ctxt ")?)));
    let Some((index, line, count)) = found else { return Ok(None) };
    let count = count.trim().parse().map_err(|_| Error::new("/proc/stat", index + 1, "ctxt", line))?;
    Ok(Some(count))
}

fn cpu_line(number: usize, line: &str) -> Result<CpuLine<'_>, Error> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next().unwrap_or_default();
    let mut ticks = [None; FIELDS.len()];
    for (tick, word) in ticks.iter_mut().zip(words) {
        let value = word.parse().map_err(|_| Error::new("/proc/stat", number, "ticks", line))?;
        *tick = Some(value);
    }
    Ok(CpuLine { name, ticks })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../../fixtures/proc/vm-2cpu.stat");

    #[test]
    fn only_the_cpu_lines_are_read() {
        let lines: Vec<_> = cpu_lines(TEXT).map(|line| line.unwrap()).collect();
        assert_eq!(lines.iter().map(|l| l.name).collect::<Vec<_>>(), ["cpu", "cpu0", "cpu1"]);
        assert_eq!(
            lines[1].ticks,
            [3241, 971, 1149, 204904, 180, 0, 117, 1].map(Some),
            "in the order of the columns"
        );
    }

    #[test]
    fn columns_that_an_old_kernel_lacks_are_none() {
        let line = cpu_lines("cpu  1 2 3 4\n").next().unwrap().unwrap();
        assert_eq!(line.ticks, [Some(1), Some(2), Some(3), Some(4), None, None, None, None]);
    }

    #[test]
    fn steal_is_the_eighth_column_of_the_sum() {
        assert_eq!(
            steal_ticks("cpu  7391 1 2806 350177 1089 0 203 42 0 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n"),
            Ok(Some(42))
        );
        assert_eq!(steal_ticks("cpu  1 2 3 4\n"), Ok(None));
        assert_eq!(steal_ticks(""), Ok(None));
        assert!(steal_ticks("cpu  1 2 3 4 5 6 7 x\n").is_err());
    }

    #[test]
    fn context_switches_are_those_of_all_cpus() {
        assert_eq!(context_switches("cpu  1\nintr 5 6\nctxt 1990473\nbtime 1\n"), Ok(Some(1_990_473)));
        assert_eq!(context_switches("cpu  1\nintr 5 6\n"), Ok(None));
        assert_eq!(context_switches("cpu  1\nctxt x\n").unwrap_err().line, 2);
    }

    #[test]
    fn a_column_that_is_no_number_names_its_line() {
        let error = cpu_lines("cpu 1\ncpu0 1 x\n").nth(1).unwrap().unwrap_err();
        assert_eq!((error.line, error.text.as_str()), (2, "cpu0 1 x"));
    }
}
