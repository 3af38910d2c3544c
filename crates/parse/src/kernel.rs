//! Files of the kernel and of the tools next to it, one file a format: text to values.
//!
//! Everything here takes text that somebody else read, and never panics, whatever the text is.

pub mod ata;
pub mod cmdline;
pub mod config;
pub mod cpu_list;
pub mod cpuinfo;
pub mod dm;
pub mod ext4;
pub mod kallsyms;
pub mod md;
pub mod meminfo;
pub mod mounts;
pub mod os_release;
pub mod pci;
pub mod power;
pub mod selection;
pub mod tracepoint;
pub mod usb;

use domain::units::Hertz;
use std::str::FromStr;

/// Text that is not what its format says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A value that cannot be read.
    #[error("line {line}: `{value}` is not {expected}")]
    Value {
        /// From one.
        line: usize,
        /// What stands there, shortened.
        value: String,
        /// What should: `a number`.
        expected: &'static str,
    },
}

impl Error {
    /// How much of a wrong value an error repeats.
    const SHOWN: usize = 60;

    fn value(line: usize, value: &str, expected: &'static str) -> Self {
        Self::Value { line, value: value.chars().take(Self::SHOWN).collect(), expected }
    }
}

/// A file that holds one decimal number.
///
/// # Errors
/// Where it is none, or does not fit.
pub fn number<N: FromStr>(text: &str) -> Result<N, Error> {
    number_at(1, text)
}

/// A file that holds a frequency in kHz.
///
/// # Errors
/// Where it is no number, or none that a frequency can have.
pub fn khz(text: &str) -> Result<Hertz, Error> {
    let khz: u32 = number(text)?;
    Ok(Hertz::from_khz(khz.into()))
}

/// A file that holds a switch: `0` or `1`, `N` or `Y`.
///
/// # Errors
/// Where it is anything else.
pub fn flag(text: &str) -> Result<bool, Error> {
    match text.trim() {
        "1" | "Y" => Ok(true),
        "0" | "N" => Ok(false),
        other => Err(Error::value(1, other, "0 or 1")),
    }
}

fn number_at<N: FromStr>(line: usize, text: &str) -> Result<N, Error> {
    text.trim().parse().map_err(|_| Error::value(line, text, "a number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feed_all(text: &str) {
        let _ = (number::<u64>(text), khz(text), flag(text), cpu_list::parse(text));
        let _ = (ata::megatransfers(text), ata::most_megatransfers(text));
        let _ = (usb::megabits(text), usb::version(text));
        let _ = cpuinfo::parse(text);
        let _ = cmdline::value(&cmdline::parse(text), text);
        let config = config::Config::parse(text);
        let _ = (config.hz(), config.tickless(), config.preemption());
        let _ = dm::parse(text);
        let _ = dm::owner(text);
        let _ = ext4::journal(text);
        let _ = md::layout_name(text, i64::from_str_radix(text.trim(), 16).unwrap_or(7));
        let _ = md::sync_done(text);
        let _ = meminfo::parse(text);
        let _ = mounts::parse(text);
        for mount in mounts::mountinfo(text) {
            let _ = mount;
        }
        let _ = os_release::pretty_name(text);
        let _ = pci::megatransfers(text);
        let _ = selection::parse(text);
    }

    proptest! {
        #[test]
        fn no_parser_panics_on_arbitrary_bytes(bytes: Vec<u8>) {
            feed_all(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn no_parser_panics_on_what_looks_like_its_format(
            text in "(processor\t: |physical id : |cpu  |CONFIG_HZ=|MemTotal: |data=|PRETTY_NAME=|x: 0 8 crypt |\\[|\\]|\\\\0|\"|/|-|:|=|,|[0-9]{1,22}|[a-z]{1,4}| |\n){0,60}"
        ) {
            feed_all(&text);
        }
    }
}
