//! Our own time: the pure crates never ask a clock, they are told.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};

/// A span of time, or a point on a monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(u64);

impl Nanos {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// From nanoseconds.
    pub const fn new(ns: u64) -> Self {
        Self(ns)
    }
    /// From microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }
    /// From milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }
    /// From seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s * 1_000_000_000)
    }
    /// In nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// In seconds.
    pub fn secs(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// The difference, or zero where `other` is later.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The sum, or the longest span that there is.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Reads `10ms`, `2s`, `1m`, `500us`, `100ns`, `1.5 s`, `1h`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit) = text.split_at(digits);
        let scale_ns = match unit.trim() {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" | "min" => 60e9,
            "h" => 3600e9,
            _ => return None,
        };
        let ns = number.parse::<f64>().ok()? * scale_ns;
        (ns.is_finite() && ns < u64::MAX as f64).then(|| Self(ns.round() as u64))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl From<Nanos> for std::time::Duration {
    fn from(span: Nanos) -> Self {
        Self::from_nanos(span.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{} ns", self.0),
            1_000..1_000_000 => write!(f, "{} µs", self.0 / 1_000),
            1_000_000..1_000_000_000 => write!(f, "{} ms", self.0 / 1_000_000),
            1_000_000_000..120_000_000_000 => write!(f, "{:.1} s", self.secs()),
            120_000_000_000..7_200_000_000_000 => write!(f, "{:.0} min", self.secs() / 60.0),
            _ => write!(f, "{:.1} h", self.secs() / 3600.0),
        }
    }
}

/// A point of civil time: nanoseconds since 1970-01-01 00:00 UTC. It may step; spans are never computed
/// from two of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From nanoseconds since the epoch.
    pub const fn from_unix_nanos(ns: i64) -> Self {
        Self(ns)
    }
    /// Nanoseconds since the epoch.
    pub const fn unix_nanos(self) -> i64 {
        self.0
    }

    /// From a day of the Gregorian calendar and seconds since its midnight, UTC; `None` where there is no
    /// such day, or it is before 1970 or after 2199. By the algorithm that [`Timestamp::iso`] names.
    pub fn from_civil(year: i64, month: i64, day: i64, seconds: i64) -> Option<Self> {
        let plausible = (1970..2200).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
        if !plausible || !(0..=86_400).contains(&seconds) {
            return None;
        }
        let y = if month <= 2 { year - 1 } else { year };
        let era = y.div_euclid(400);
        let yoe = y.rem_euclid(400);
        let doy = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
        let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
        Some(Self(((era * 146_097 + doe - 719_468) * 86_400 + seconds) * 1_000_000_000))
    }

    /// `2026-11-20T14:05:02Z`, by the days-from-civil algorithm of Howard Hinnant
    /// (<https://howardhinnant.github.io/date_algorithms.html>).
    pub fn iso(self) -> String {
        let secs = self.0.div_euclid(1_000_000_000);
        let (days, rest) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
        let z = days + 719_468;
        let era = z.div_euclid(146_097);
        let doe = z.rem_euclid(146_097);
        let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
        let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
        let mp = (5 * doy + 2) / 153;
        let day = doy - (153 * mp + 2) / 5 + 1;
        let month = if mp < 10 { mp + 3 } else { mp - 9 };
        let year = yoe + era * 400 + i64::from(month <= 2);
        format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_with_their_unit_and_never_without() {
        assert_eq!(Nanos::parse("10ms"), Some(Nanos::from_millis(10)));
        assert_eq!(Nanos::parse("1.5 s"), Some(Nanos::from_millis(1500)));
        for text in ["10", "", "ms", "-1s", "1 fortnight"] {
            assert_eq!(Nanos::parse(text), None, "{text}");
        }
    }

    #[test]
    fn civil_time_is_written_in_utc() {
        assert_eq!(Timestamp::from_unix_nanos(0).iso(), "1970-01-01T00:00:00Z");
        assert_eq!(Timestamp::from_unix_nanos(951_827_696_000_000_000).iso(), "2000-02-29T12:34:56Z");
        assert_eq!(Timestamp::from_unix_nanos(-1).iso(), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn a_civil_day_is_read_as_it_is_written() {
        for (year, month, day, seconds) in [(1970, 1, 1, 0), (2000, 2, 29, 45_296), (2026, 12, 31, 86_399)] {
            let text = Timestamp::from_civil(year, month, day, seconds).unwrap().iso();
            assert!(text.starts_with(&format!("{year}-{month:02}-{day:02}T")), "{text}");
        }
        assert_eq!(Timestamp::from_civil(2000, 2, 29, 45_296).unwrap().iso(), "2000-02-29T12:34:56Z");
        assert_eq!(Timestamp::from_civil(2026, 13, 1, 0), None);
        assert_eq!(Timestamp::from_civil(1969, 1, 1, 0), None);
    }
}
