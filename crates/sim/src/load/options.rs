//! Options' values as fio reads them (fio(1), "Parameter types"; checked against fio 3.33).

use super::LoadError;
use domain::time::Nanos;
use std::collections::BTreeMap;
use std::str::FromStr;

/// A workload's options, each of which has to be taken.
pub(super) struct Options<'a> {
    tool: &'static str,
    all: &'a BTreeMap<String, String>,
    taken: Vec<&'static str>,
}

impl<'a> Options<'a> {
    pub(super) fn new(tool: &'static str, all: &'a BTreeMap<String, String>) -> Self {
        Self { tool, all, taken: Vec::new() }
    }

    /// The value of an option, under the first of its names that is given.
    ///
    /// # Errors
    /// Where it is given under two names.
    pub(super) fn take(&mut self, names: &[&'static str]) -> Result<Option<Value<'a>>, LoadError> {
        self.taken.extend(names);
        let mut given = names.iter().filter_map(|name| self.all.get_key_value(*name));
        let first = given.next();
        if let Some((option, value)) = given.next() {
            let other = first.map_or("", |(name, _)| name);
            return Err(self.refuse(option, value, &format!("`{other}` is the same option")));
        }
        Ok(first.map(|(option, text)| Value { tool: self.tool, option, text: text.trim() }))
    }

    /// An option's value read by `read`, or what holds where it is not given.
    pub(super) fn or<T>(
        &mut self,
        names: &[&'static str],
        default: T,
        read: impl FnOnce(&Value<'a>) -> Result<T, LoadError>,
    ) -> Result<T, LoadError> {
        self.take(names)?.map_or(Ok(default), |value| read(&value))
    }

    /// Fails where an option is given that nobody took.
    pub(super) fn finish(
        self,
        without_effect: &[&str],
        why: impl Fn(&str) -> String,
    ) -> Result<(), LoadError> {
        let left = self.all.iter().find(|(name, _)| {
            !self.taken.contains(&name.as_str()) && !without_effect.contains(&name.as_str())
        });
        left.map_or(Ok(()), |(option, value)| Err(self.refuse(option, value, &why(option))))
    }

    fn refuse(&self, option: &str, value: &str, why: &str) -> LoadError {
        LoadError { tool: self.tool, option: option.to_owned(), value: value.to_owned(), why: why.to_owned() }
    }
}

/// One option's value.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    tool: &'static str,
    option: &'a str,
    pub(super) text: &'a str,
}

impl<'a> Value<'a> {
    pub(super) fn refuse(&self, why: impl Into<String>) -> LoadError {
        LoadError {
            tool: self.tool,
            option: self.option.to_owned(),
            value: self.text.to_owned(),
            why: why.into(),
        }
    }

    /// The same option with a part of its value.
    pub(super) fn part(&self, text: &'a str) -> Self {
        Self { text: text.trim(), ..*self }
    }

    /// A whole number without a unit.
    pub(super) fn whole<T: FromStr>(&self) -> Result<T, LoadError> {
        self.text.parse().map_err(|_| self.refuse("a whole number is wanted"))
    }

    /// A number that may have a point.
    pub(super) fn real(&self) -> Result<f64, LoadError> {
        let number = self.text.parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| self.refuse("a number is wanted"))
    }

    /// A percentage, 0 to 100.
    pub(super) fn percent(&self) -> Result<u8, LoadError> {
        let percent = self.text.trim_end_matches('%').parse::<u8>().ok().filter(|percent| *percent <= 100);
        percent.ok_or_else(|| self.refuse("a percentage from 0 to 100 is wanted"))
    }

    /// An option that is on or off; without a value it is on.
    pub(super) fn flag(&self) -> Result<bool, LoadError> {
        match self.text {
            "" | "1" | "true" => Ok(true),
            "0" | "false" => Ok(false),
            _ => Err(self.refuse("1 or 0 is wanted")),
        }
    }

    /// An amount of data in bytes.
    pub(super) fn bytes(&self, units: Units) -> Result<u64, LoadError> {
        let text = self.text.to_ascii_lowercase();
        if let Some(hex) = text.strip_prefix("0x") {
            return u64::from_str_radix(hex, 16).map_err(|_| self.refuse("no hexadecimal number"));
        }
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor = units.factor(unit).map_err(|why| self.refuse(why))?;
        let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        bytes.ok_or_else(|| self.refuse("an amount of data such as 4096, 4k or 1g is wanted"))
    }

    /// A span of time; a number alone is in `unit_ns`.
    pub(super) fn time(&self, unit_ns: u64) -> Result<Nanos, LoadError> {
        let text = self.text.to_ascii_lowercase();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor = match unit {
            "" => unit_ns,
            "us" | "usec" => 1_000,
            "ms" | "msec" => 1_000_000,
            "s" | "sec" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3_600 * SECOND,
            "d" => 86_400 * SECOND,
            _ => return Err(self.refuse("the unit of a time is us, ms, s, m, h or d")),
        };
        let ns = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        ns.map(Nanos::new).ok_or_else(|| self.refuse("a time such as 10 or 500ms is wanted"))
    }

    /// Up to one value for reads and one for writes (and one for trims, which is passed over), separated by
    /// commas: a value that no comma ends holds for those that follow.
    pub(super) fn by_direction<T: Clone>(
        &self,
        default: T,
        read: impl Fn(&Self) -> Result<T, LoadError>,
    ) -> Result<[T; 2], LoadError> {
        let parts: Vec<&str> = self.text.split(',').collect();
        if parts.len() > 3 {
            return Err(self.refuse("at most three values are wanted, for reads, writes and trims"));
        }
        let one = |text: &'a str, otherwise: T| match text.trim() {
            "" => Ok(otherwise),
            text => read(&self.part(text)),
        };
        let for_reads = one(parts[0], default.clone())?;
        let for_writes = match parts.get(1) {
            None => for_reads.clone(),
            Some(text) => one(text, default)?,
        };
        Ok([for_reads, for_writes])
    }
}

const SECOND: u64 = 1_000_000_000;

/// A second, as the unit of a time without one.
pub(super) const SECONDS: u64 = SECOND;
/// A microsecond, likewise.
pub(super) const MICROSECONDS: u64 = 1_000;

/// How fio reads prefixes of bytes (`kb_base`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Units {
    /// 1024: `k` and `kb` are 1024, and `kib` is 1000.
    Compatible,
    /// 1000: `k` and `kb` are 1000, and `kib` is 1024.
    International,
}

impl Units {
    fn factor(self, unit: &str) -> Result<u64, &'static str> {
        let (plain, binary) = match self {
            Self::Compatible => (1024_u64, 1000_u64),
            Self::International => (1000, 1024),
        };
        let (letter, base) = match unit.strip_suffix("ib") {
            Some(letter) if !letter.is_empty() => (letter, binary),
            _ if unit.len() > 1 && unit.ends_with('i') => {
                return Err("fio's versions read a prefix that ends in `i` differently; write k, m or g");
            }
            _ => (unit.strip_suffix('b').unwrap_or(unit), plain),
        };
        let power = ["", "k", "m", "g", "t", "p"].iter().position(|known| *known == letter);
        let power = power.ok_or("the unit of an amount of data is k, m, g, t or p")?;
        Ok(base.pow(power as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value<'_> {
        Value { tool: "fio", option: "x", text }
    }

    #[test]
    fn amounts_are_read_as_fio_3_33_reads_them() {
        // Each was tried: `fio --bs=… --write_iolog=…`.
        for (text, bytes) in [
            ("4096", 4096),
            ("4k", 4096),
            ("4kb", 4096),
            ("4K", 4096),
            ("4kib", 4000),
            ("4KiB", 4000),
            ("2b", 2),
            ("0x1000", 4096),
        ] {
            assert_eq!(value(text).bytes(Units::Compatible), Ok(bytes), "{text}");
        }
        assert_eq!(value("4k").bytes(Units::International), Ok(4000));
        // fio makes 1 byte of 1.5k, and reads 4ki as 4k.
        for text in ["1.5k", "4ki", "", "k", "-1", "4x", "99999999999p"] {
            assert!(value(text).bytes(Units::Compatible).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_the_unit_that_the_option_has() {
        assert_eq!(value("10").time(SECONDS), Ok(Nanos::from_secs(10)));
        assert_eq!(value("10").time(MICROSECONDS), Ok(Nanos::from_micros(10)));
        assert_eq!(value("500ms").time(SECONDS), Ok(Nanos::from_millis(500)));
        assert_eq!(value("2m").time(MICROSECONDS), Ok(Nanos::from_secs(120)));
        assert!(value("1.5s").time(SECONDS).is_err());
    }

    #[test]
    fn a_value_without_a_comma_holds_for_what_follows() {
        let read = |text| value(text).by_direction(4096, |part| part.bytes(Units::Compatible));
        assert_eq!(read("8k"), Ok([8192, 8192]));
        assert_eq!(read("8k,32k"), Ok([8192, 32768]));
        assert_eq!(read("8k,"), Ok([8192, 4096]));
        assert_eq!(read(",8k"), Ok([4096, 8192]));
        assert_eq!(read("1k,2k,3k"), Ok([1024, 2048]));
        assert!(read("1k,2k,3k,4k").is_err());
    }
}
