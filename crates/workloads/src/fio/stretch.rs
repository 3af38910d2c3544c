//! fio's times and rates (fio(1) 3.33, and how it reads numbers).

use crate::options::Options;
use crate::stretch::whole;

/// fio's options of time, with the nanoseconds of a bare number.
const TIMES: &[(&str, u64)] = &[
    ("runtime", 1_000_000_000),
    ("timeout", 1_000_000_000),
    ("ramp_time", 1_000_000_000),
    ("startdelay", 1_000_000_000),
    ("start_delay", 1_000_000_000),
    ("steadystate_duration", 1_000_000_000),
    ("steadystate_ramp_time", 1_000_000_000),
    ("thinktime_iotime", 1_000_000_000),
    ("thinktime", 1_000),
    ("thinktime_spin", 1_000),
    ("latency_target", 1_000),
    ("latency_window", 1_000),
    ("max_latency", 1_000),
];

/// fio's options that are numbers of milliseconds or microseconds and take no unit.
const NUMBERS_OF_TIME: &[&str] =
    &["rate_cycle", "bwavgtime", "iopsavgtime", "log_avg_msec", "log_hist_msec", "cpuchunks"];

/// fio's options of rates.
const RATES: &[&str] = &["rate", "rate_min", "rate_iops", "rate_iops_min"];

/// Stretches what a job says of time. What fio does not read as a number stays as it is.
pub(super) fn stretch(options: &mut Options, d: f64) {
    for (name, value) in options {
        let name = name.as_str();
        let stretched = if let Some((_, unit_ns)) = TIMES.iter().find(|(time, _)| *time == name) {
            each(value, &[',', '-'], |part| fio_time(part, *unit_ns, d))
        } else if NUMBERS_OF_TIME.contains(&name) {
            each(value, &[','], |part| whole(part.parse::<u64>().ok()? as f64 * d))
        } else if RATES.contains(&name) {
            // A rate of 0 is none at all.
            each(value, &[','], |part| whole((fio_bytes(part)? as f64 / d).max(1.0)))
        } else {
            None
        };
        if let Some(stretched) = stretched {
            *value = stretched;
        }
    }
}

/// Changes each part of a list such as `1m,500k`; empty and zero ones stay. `None` where a part is no number.
fn each(value: &str, separators: &[char], change: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut text = String::new();
    for piece in value.split_inclusive(separators) {
        let part = piece.trim_end_matches(separators);
        match part.trim() {
            "" | "0" => text.push_str(part),
            number => text.push_str(&change(number)?),
        }
        text.push_str(&piece[part.len()..]);
    }
    Some(text)
}

/// A time as fio reads it, stretched, in microseconds.
fn fio_time(text: &str, bare_ns: u64, d: f64) -> Option<String> {
    let (number, unit) = fio_number(text)?;
    let unit_ns = match unit.to_ascii_lowercase().as_str() {
        "" => bare_ns,
        "d" => 86_400_000_000_000,
        "h" => 3_600_000_000_000,
        "m" => 60_000_000_000,
        "s" => 1_000_000_000,
        "ms" | "msec" => 1_000_000,
        "us" | "usec" => 1_000,
        _ => return None,
    };
    let stretched_us = number as f64 * unit_ns as f64 / 1e3 * d;
    Some(format!("{}us", whole(stretched_us)?))
}

/// A number of bytes as fio reads it: in its default `kb_base`, `k` and `kB` are 1024 and `KiB` is 1000.
fn fio_bytes(text: &str) -> Option<u64> {
    let (number, unit) = fio_number(text)?;
    let unit = unit.to_ascii_lowercase();
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (letter, base) = unit.strip_suffix('i').map_or((unit, 1024_u64), |letter| (letter, 1000));
    let power = ["", "k", "m", "g", "t", "p"].iter().position(|p| *p == letter)?;
    number.checked_mul(base.checked_pow(u32::try_from(power).ok()?)?)
}

/// A whole number and its unit. fio reads nothing after a point, not even the unit: `1.5m` is 1.
fn fio_number(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = if unit.starts_with('.') { "" } else { unit };
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fio(option: &str, value: &str) -> String {
        let mut options: Options = [(option.to_owned(), value.to_owned())].into();
        stretch(&mut options, 20.0);
        options[option].clone()
    }

    #[test]
    fn times_of_fio_are_stretched_as_fio_reads_them() {
        for (option, value, stretched) in [
            ("runtime", "5", "100000000us"),
            ("runtime", "5s", "100000000us"),
            ("runtime", "1m", "1200000000us"),
            ("runtime", "0", "0"),
            ("ramp_time", "200ms", "4000000us"),
            ("startdelay", "1-2", "20000000us-40000000us"),
            ("thinktime", "150", "3000us"),
            ("thinktime", "10ms", "200000us"),
            ("thinktime_iotime", "9", "180000000us"),
            ("max_latency", "10ms,,1", "200000us,,20us"),
            ("latency_target", "500", "10000us"),
            ("log_avg_msec", "100", "2000"),
            ("cpuchunks", "50000", "1000000"),
            // fio 3.33 reads 1.5s as 1 and its default unit.
            ("runtime", "1.5s", "20000000us"),
            ("thinktime_blocks", "4", "4"),
            ("runtime", "soon", "soon"),
        ] {
            assert_eq!(fio(option, value), stretched, "{option} = {value}");
        }
    }

    #[test]
    fn rates_of_fio_fall_and_never_to_none() {
        for (option, value, stretched) in [
            ("rate", "1m", "52429"),
            ("rate", "20MiB,,40k", "1000000,,2048"),
            ("rate", ",500k", ",25600"),
            ("rate_iops", "1000,2000", "50,100"),
            ("rate_iops", "10", "1"),
            ("rate_min", "0", "0"),
            ("rate_process", "poisson", "poisson"),
        ] {
            assert_eq!(fio(option, value), stretched, "{option} = {value}");
        }
    }

    proptest! {
        #[test]
        fn no_option_makes_it_panic(value in "\\PC{0,12}", d in 1.0..1e6_f64) {
            for option in TIMES.iter().map(|(name, _)| name).chain(RATES).chain(NUMBERS_OF_TIME) {
                stretch(&mut [((*option).to_owned(), value.clone())].into(), d);
            }
        }
    }
}
