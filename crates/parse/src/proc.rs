//! Files of `/proc` and counters of `/sys`: one file a format.
//!
//! Everything takes text and allocates nothing but what it returns, for a recording holds these texts a
//! hundred times a second. Numbers are raw counters, as the kernel counts them.

pub mod cpufreq;
pub mod diskstats;
pub mod loadavg;
pub mod pid_io;
pub mod pid_stat;
pub mod pressure;
pub mod role;
pub mod schedstat;
pub mod stat;

use domain::inventory::CpuList;

/// A file of the kernel does not read as its format says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {what} in line {line} of {file}: `{text}`; this kernel may be newer than this program")]
pub struct Error {
    /// The file, by its usual path.
    pub file: &'static str,
    /// From one.
    pub line: usize,
    /// What was expected there.
    pub what: &'static str,
    /// The text that was found, at most [`MAX_QUOTED`] characters of it.
    pub text: String,
}

/// How much of a foreign text an error quotes: enough to recognise the line, too little to flood a terminal.
pub const MAX_QUOTED: usize = 80;

impl Error {
    fn new(file: &'static str, line: usize, what: &'static str, text: &str) -> Self {
        Self { file, line, what, text: text.chars().take(MAX_QUOTED).collect() }
    }
}

impl From<Error> for crate::kernel::Error {
    /// For readers that name the file themselves.
    fn from(error: Error) -> Self {
        Self::Value { line: error.line, value: error.text, expected: error.what }
    }
}

/// One counter alone in its file: `energy_uj`, cpuidle's `time` and `usage`, `scaling_cur_freq`.
///
/// # Errors
/// Where it is not a number of 64 bits.
pub fn number(file: &'static str, text: &str) -> Result<u64, Error> {
    text.trim().parse().map_err(|_| Error::new(file, 1, "a number", text))
}

/// A list of CPUs alone in its file: `/sys/devices/system/cpu/online`.
///
/// # Errors
/// Where it is none.
pub fn cpu_list(file: &'static str, text: &str) -> Result<CpuList, Error> {
    CpuList::parse(text.trim()).ok_or_else(|| Error::new(file, 1, "a list of CPUs", text))
}

/// The same with a sign: `current_now` and `power_now` of a battery.
///
/// # Errors
/// Where it is not a number of 64 bits.
pub fn signed(file: &'static str, text: &str) -> Result<i64, Error> {
    text.trim().parse().map_err(|_| Error::new(file, 1, "a number", text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_unparsable_number_is_an_error_that_quotes_it_and_not_a_zero() {
        assert_eq!(number("energy_uj", "  42\n"), Ok(42));
        let error = number("energy_uj", "-1").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot read a number in line 1 of energy_uj: `-1`; this kernel may be newer than this program"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "\\PC*|([a-z]{0,6} ?[0-9]{0,22}[ =\n().:]){0,40}") {
            let _ = number("x", &text);
            for line in stat::cpu_lines(&text) { let _ = line; }
            let _ = stat::steal_ticks(&text);
            for disk in diskstats::disks(&text) { let _ = disk; }
            for state in cpufreq::time_in_state(&text) { let _ = state; }
            let _ = cpufreq::times(&text);
            let _ = cpufreq::current(&text);
            let _ = pressure::pressure(&text);
            let _ = schedstat::cpu_time(&text);
            let _ = loadavg::loadavg(&text);
            let _ = pid_stat::pid_stat(&text);
            let _ = role::kernel_role(&text);
        }
    }
}
