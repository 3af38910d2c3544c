//! How the kernel shows values: which of several texts mean the same.

use super::LATENCY;
use crate::Machine;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// The errors by which the kernel says that a file, or the object behind it, is not there.
pub(crate) fn means_absent(error: &io::Error) -> bool {
    const ENXIO: i32 = 6;
    const ENODEV: i32 = 19;
    error.kind() == io::ErrorKind::NotFound || matches!(error.raw_os_error(), Some(ENXIO | ENODEV))
}

/// The value that a file holds, or `None` where it is not there.
///
/// # Errors
/// As the kernel gives them; `InvalidData` where the file holds no single line of text and so is no setting.
pub(crate) fn read(machine: &dyn Machine, path: &str) -> io::Result<Option<String>> {
    let bytes = match machine.read(Path::new(path)) {
        Ok(bytes) => bytes,
        Err(error) if means_absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    if path == LATENCY {
        return latency_us(&bytes).map(Some);
    }
    let text = String::from_utf8(bytes).map_err(|_| invalid("it does not hold text"))?;
    let text = text.trim();
    if text.contains(['\n', '\0']) {
        return Err(invalid("it holds more than one line"));
    }
    Ok(Some(chosen(text).to_owned()))
}

/// The strictest limit on the CPUs' latency that anyone holds: a number in the machine's own byte order, as
/// the device gives it.
fn latency_us(bytes: &[u8]) -> io::Result<String> {
    let number = bytes.try_into().map_err(|_| invalid("it does not hold a number of four bytes"))?;
    Ok(i32::from_ne_bytes(number).to_string())
}

/// How long a value is waited for that the kernel or a firmware takes late: an order of magnitude more than a
/// frequency driver needs for its mailbox, and little beside a trial.
const PATIENCE: Duration = Duration::from_millis(50);

/// How often it is looked at meanwhile.
const POLL: Duration = Duration::from_millis(5);

/// Reads a value as [`read`] does, again and again for as long as `waits` says of it that it may be still to
/// come.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_late(
    machine: &dyn Machine,
    path: &str,
    waits: impl Fn(&str) -> bool,
) -> io::Result<Option<String>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let value = read(machine, path)?;
        if !value.as_deref().is_some_and(&waits) || Instant::now() >= deadline {
            return Ok(value);
        }
        std::thread::sleep(POLL);
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// What a value is once the kernel's decoration is taken off: `none [mq-deadline] kyber` is `mq-deadline`;
/// md's `1000 (system)` is `system`, the word that has to be written to get it back, and `500 (local)` is
/// `500`.
pub(crate) fn chosen(text: &str) -> &str {
    if text.ends_with(" (system)") {
        return "system";
    }
    if let Some(number) = text.strip_suffix(" (local)") {
        return number;
    }
    let mut picks = text.split_whitespace().filter_map(|w| w.strip_prefix('[')?.strip_suffix(']'));
    match (picks.next(), picks.next()) {
        (Some(pick), None) => pick,
        _ => text,
    }
}

/// Whether two texts are one value to the kernel: numbers by their worth, white space by its presence, and
/// the `Y` and `N` of module parameters as 1 and 0.
pub fn same(a: &str, b: &str) -> bool {
    a == b || a.split_whitespace().map(canonical).eq(b.split_whitespace().map(canonical))
}

fn canonical(word: &str) -> String {
    match word {
        "Y" | "y" => return "1".into(),
        "N" | "n" => return "0".into(),
        _ => {}
    }
    let hex = word.strip_prefix("0x").and_then(|digits| i128::from_str_radix(digits, 16).ok());
    match hex.or_else(|| word.parse::<i128>().ok()) {
        Some(number) => number.to_string(),
        None => word.to_owned(),
    }
}

/// Whether `now` may be what the kernel made of `asked`: a number clamped between `old` and `asked`, or
/// rounded to one that lies within a tenth of `asked`.
///
/// Only of use where a writer died between its write and the reading back, so that nobody knows what the
/// kernel took. Words are never rounded.
pub(crate) fn is_rounding(old: &str, asked: &str, now: &str) -> bool {
    let (Ok(old), Ok(asked), Ok(now)) = (old.parse::<i128>(), asked.parse::<i128>(), now.parse::<i128>())
    else {
        return false;
    };
    let between = (old.min(asked)..=old.max(asked)).contains(&now);
    between || (now - asked).abs() <= asked.abs() / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_word_is_taken_out_of_its_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("[always] madvise [never]"), "[always] madvise [never]");
        assert_eq!(chosen("write back"), "write back");
        assert_eq!(chosen("1000 (system)"), "system");
        assert_eq!(chosen("500 (local)"), "500");
    }

    #[test]
    fn values_are_compared_by_worth() {
        for (a, b) in [("0128", "128"), ("4\t4 1 7", "4 4 1 7"), ("0x10", "16"), ("Y", "1"), ("+5", "5")] {
            assert!(same(a, b), "{a} {b}");
        }
        for (a, b) in [("128", "129"), ("none", "non"), ("", "0"), ("1 2", "12")] {
            assert!(!same(a, b), "{a} {b}");
        }
    }

    #[test]
    fn only_numbers_on_the_way_or_near_are_roundings() {
        assert!(is_rounding("2800000", "5000000", "3500000"));
        assert!(is_rounding("1200000", "1777000", "1800000"));
        assert!(!is_rounding("128", "4096", "64"));
        assert!(!is_rounding("128", "4096", "8192"));
        assert!(!is_rounding("none", "kyber", "bfq"));
    }
}
