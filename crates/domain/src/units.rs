//! Units live in types: no bare number crosses a public boundary.
//!
//! Each type is a thin wrapper whose constructors and getters name the unit. Percentages exist only in text
//! for people; inside the program a share is a [`Ratio`].

use serde::{Deserialize, Serialize};
use std::fmt;

/// A frequency, in hertz.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hertz(u64);

impl Hertz {
    /// From hertz.
    pub const fn from_hz(hz: u64) -> Self {
        Self(hz)
    }
    /// From kilohertz, the unit of `/sys/devices/system/cpu/cpufreq`.
    pub const fn from_khz(khz: u64) -> Self {
        Self(khz * 1_000)
    }
    /// From megahertz.
    pub const fn from_mhz(mhz: u64) -> Self {
        Self(mhz * 1_000_000)
    }
    /// In hertz.
    pub const fn hz(self) -> u64 {
        self.0
    }
    /// In kilohertz, rounded down.
    pub const fn khz(self) -> u64 {
        self.0 / 1_000
    }
    /// In megahertz.
    pub fn mhz(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl fmt::Display for Hertz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000_000 => write!(f, "{} kHz", self.khz()),
            1_000_000..1_000_000_000 => write!(f, "{:.0} MHz", self.mhz()),
            _ => write!(f, "{:.2} GHz", self.0 as f64 / 1e9),
        }
    }
}

/// An amount of data, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(u64);

impl Bytes {
    /// From bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }
    /// From KiB (1024 bytes).
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib << 10)
    }
    /// From MiB.
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }
    /// From sectors of 512 bytes, the unit of `/proc/diskstats` and `/sys/block/*/size`, whatever the
    /// device's own block size is.
    pub const fn from_sectors(sectors: u64) -> Self {
        Self(sectors << 9)
    }
    /// In bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Reads `4096`, `4k`, `4KiB`, `1g`, `1.5 MiB` (powers of 1024) and `4kB`, `1GB` (powers of 1000).
    /// A lone letter means a power of 1024, as in fio and dd.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits);
        let suffix = suffix.trim().to_ascii_lowercase();
        let (base, letter) = match suffix.as_str() {
            "" | "b" => (1024_u64, ""),
            s if s.ends_with("ib") => (1024, &s[..s.len() - 2]),
            s if s.ends_with('b') => (1000, &s[..s.len() - 1]),
            s => (1024, s),
        };
        let power = ["", "k", "m", "g", "t", "p"].iter().position(|p| *p == letter)?;
        let factor = base.checked_pow(power as u32)?;
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(factor).map(Self);
        }
        let value = number.parse::<f64>().ok()? * factor as f64;
        (value.is_finite() && value >= 0.0 && value < u64::MAX as f64).then(|| Self(value.round() as u64))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEPS: [(u64, &str); 5] =
            [(1 << 50, "PiB"), (1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match STEPS.iter().find(|(size, _)| self.0 >= *size) {
            Some((size, unit)) if self.0.is_multiple_of(*size) => write!(f, "{} {unit}", self.0 / size),
            Some((size, unit)) => write!(f, "{:.1} {unit}", self.0 as f64 / *size as f64),
            None => write!(f, "{} B", self.0),
        }
    }
}

/// An energy, in microjoules, the unit of `/sys/class/powercap/*/energy_uj`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Microjoules(u64);

impl Microjoules {
    /// From microjoules.
    pub const fn new(microjoules: u64) -> Self {
        Self(microjoules)
    }
    /// In microjoules.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// In joules.
    pub fn joules(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// A share, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ratio(f64);

impl Ratio {
    /// `None` outside 0..=1 and for NaN.
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then_some(Self(value))
    }
    /// `part / whole`; `None` where `whole` is zero or the part exceeds it.
    pub fn of(part: u64, whole: u64) -> Option<Self> {
        (whole > 0).then(|| part as f64 / whole as f64).and_then(Self::new)
    }
    /// From 0 to 1.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}%", self.0 * 100.0)
    }
}

/// What a metric is counted in. Values are always in the base unit named here; scaling to MB or ms happens
/// only in text for people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes a second; shown as MB/s (10^6).
    BytesPerSecond,
    /// Events a second: I/O operations, transactions.
    PerSecond,
    /// Seconds; shown as µs, ms or s.
    Seconds,
    /// Joules.
    Joules,
    /// Watts.
    Watts,
    /// Cycles a second; shown as GHz, MHz or kHz.
    Hertz,
    /// A share of 1; shown in percent.
    Share,
    /// A plain count.
    Count,
    /// A unit that a study names itself, shown as it stands.
    #[serde(untagged)]
    Other(String),
}

impl Unit {
    /// The scales that it is shown in, largest first; none where it is shown as it stands.
    const fn steps(&self) -> &'static [(f64, &'static str)] {
        match self {
            Unit::BytesPerSecond => &[(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")],
            Unit::PerSecond => &[(1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")],
            Unit::Seconds => &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")],
            Unit::Joules => &[(1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ")],
            Unit::Watts => &[(1.0, "W"), (1e-3, "mW")],
            Unit::Hertz => &[(1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")],
            Unit::Share | Unit::Count | Unit::Other(_) => &[],
        }
    }

    /// A value with its unit as people read it: three significant figures, a scaled unit.
    pub fn show(&self, value: f64) -> String {
        match self {
            Unit::Share => format!("{}%", significant(value * 100.0)),
            Unit::Count => {
                scaled(value, &[(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")]).trim_end().to_owned()
            }
            Unit::Other(name) => format!("{} {name}", significant(value)),
            _ => scaled(value, self.steps()),
        }
    }

    /// Reads a value as people write it, with its unit: `7.6 MB/s`, `80 MiB/s`, `20 ms`, `1.2 k/s`, `33%`,
    /// and a count without one. Large and small letters differ: `Mb/s` is not `MB/s`. `None` for anything
    /// else, and for what is not a number of at least 0.
    pub fn parse(&self, text: &str) -> Option<f64> {
        const FURTHER: [(Unit, f64, &str); 7] = [
            (Unit::BytesPerSecond, 1024.0, "KiB/s"),
            (Unit::BytesPerSecond, 1_048_576.0, "MiB/s"),
            (Unit::BytesPerSecond, 1_073_741_824.0, "GiB/s"),
            (Unit::Seconds, 1e-6, "us"),
            (Unit::Seconds, 60.0, "min"),
            (Unit::Seconds, 3600.0, "h"),
            (Unit::Share, 0.01, "%"),
        ];
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, name) = text.split_at(digits);
        let name = name.trim();
        let further =
            FURTHER.iter().filter(|(unit, ..)| unit == self).map(|(_, scale, name)| (*scale, *name));
        let scale = match self {
            Unit::Other(own) => (name == own).then_some(1.0),
            Unit::Count | Unit::Share if name.is_empty() => Some(1.0),
            _ => {
                let mut known = self.steps().iter().copied().chain(further);
                known.find(|(_, known)| *known == name).map(|(scale, _)| scale)
            }
        }?;
        number.parse::<f64>().ok().map(|number| number * scale).filter(|value| value.is_finite())
    }

    /// A value as [`Unit::parse`] reads it, to show how one is written.
    pub fn example(&self) -> String {
        match self {
            Unit::BytesPerSecond => "7.6 MB/s".to_owned(),
            Unit::PerSecond => "120 /s".to_owned(),
            Unit::Seconds => "20 ms".to_owned(),
            Unit::Joules => "12 J".to_owned(),
            Unit::Watts => "5 W".to_owned(),
            Unit::Hertz => "2.4 GHz".to_owned(),
            Unit::Share => "33%".to_owned(),
            Unit::Count => "12".to_owned(),
            Unit::Other(name) => format!("12 {name}"),
        }
    }

    /// The scale and name that suit values of this size, for a plot's axis: `shown = value / scale`.
    pub fn axis(&self, largest: f64) -> (f64, String) {
        let steps = self.steps();
        let fits = steps.iter().find(|(scale, _)| largest.abs() >= *scale);
        match (self, fits.or(steps.last())) {
            (Unit::Share, _) => (0.01, "%".to_owned()),
            (Unit::Other(name), _) => (1.0, name.clone()),
            (_, Some((scale, name))) => (*scale, (*name).to_owned()),
            (_, None) => (1.0, String::new()),
        }
    }
}

fn scaled(value: f64, steps: &[(f64, &str)]) -> String {
    let last = steps[steps.len() - 1];
    let (scale, unit) = steps.iter().copied().find(|(s, _)| value.abs() >= *s).unwrap_or(last);
    format!("{} {unit}", significant(value / scale))
}

/// What is larger has an exponent: nobody counts its digits.
const LARGEST_PLAIN: f64 = 1e15;

/// What is smaller would be shown as zero, which it is not.
const SMALLEST_PLAIN: f64 = 1e-9;

/// Three significant figures; without an exponent, unless it is absurdly large or small. A dash for what is
/// no number.
pub fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return "–".to_owned();
    }
    if !(SMALLEST_PLAIN..LARGEST_PLAIN).contains(&value.abs()) {
        return format!("{value:.2e}");
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    format!("{value:.*}", digits.clamp(0, 9) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_fio_and_dd_write_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("4k", 4096),
            ("4KiB", 4096),
            ("4kB", 4000),
            ("1.5M", 1_572_864),
            ("2 GiB", 2 << 30),
        ] {
            assert_eq!(Bytes::parse(text), Some(Bytes(bytes)), "{text}");
        }
        for text in ["", "k", "4x", "-1", "4 4", "1e400", "99999999999P"] {
            assert_eq!(Bytes::parse(text), None, "{text}");
        }
    }

    #[test]
    fn values_are_shown_with_three_significant_figures() {
        assert_eq!(Unit::BytesPerSecond.show(57_123_456.0), "57.1 MB/s");
        assert_eq!(Unit::Seconds.show(0.000_123_4), "123 µs");
        assert_eq!(Unit::Share.show(0.0371), "3.71%");
        assert_eq!(Unit::PerSecond.show(0.0), "0 /s");
        assert_eq!(Unit::Count.show(7.0), "7.00");
    }

    #[test]
    fn what_is_shown_is_read_and_a_unit_of_another_kind_is_not() {
        for (unit, value) in [
            (Unit::BytesPerSecond, 7.6e6),
            (Unit::PerSecond, 1230.0),
            (Unit::Seconds, 0.02),
            (Unit::Seconds, 1.5e-5),
            (Unit::Joules, 12.0),
            (Unit::Watts, 0.5),
            (Unit::Hertz, 3.8e9),
            (Unit::Share, 0.33),
            (Unit::Count, 7.0),
            (Unit::Other("frames".into()), 24.0),
        ] {
            for text in [unit.show(value), unit.show(value).replace(' ', "")] {
                let read = unit.parse(&text).unwrap_or_else(|| panic!("{text}"));
                assert!((read / value - 1.0).abs() < 1e-9, "{text}: {read}");
            }
            let example = unit.example();
            assert!(unit.parse(&example).is_some(), "{example}");
        }
        assert_eq!(Unit::BytesPerSecond.parse("26438 KiB/s"), Some(27_072_512.0));
        for text in
            ["7.6", "7.6 Mb/s", "7.6 KB/s", "7.6 MB", "-7 MB/s", "MB/s", "", "1e3 MB/s", "7.6.1 MB/s", "inf"]
        {
            assert_eq!(Unit::BytesPerSecond.parse(text), None, "{text}");
        }
        assert_eq!(Unit::Seconds.parse("20"), None);
        assert_eq!(Unit::Other("ms".into()).parse("20 s"), None);
    }

    #[test]
    fn a_ratio_is_never_outside_zero_to_one() {
        assert_eq!(Ratio::new(1.01), None);
        assert_eq!(Ratio::new(f64::NAN), None);
        assert_eq!(Ratio::of(1, 0), None);
        assert_eq!(Ratio::of(1, 4).map(Ratio::get), Some(0.25));
    }
}
