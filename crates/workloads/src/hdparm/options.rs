//! hdparm's timings as a study asks for them.

use crate::options::{OptionError, Options, truth};

/// The options that a study may set, by hdparm's own names.
pub const NAMES: [&str; 4] = ["t", "T", "direct", "offset"];

/// A bound on `offset`: no device is larger than 1 EiB.
const MAX_OFFSET_GIB: u64 = 1 << 30;

/// Which timings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// `-t`: the device is read for three seconds.
    pub device: bool,
    /// `-T`: what is in the page cache is read for two seconds.
    pub cache: bool,
    /// `--direct`: past the page cache.
    pub direct: bool,
    /// `--offset`: where the device is read from, in GiB.
    pub offset_gib: Option<u64>,
}

/// Says what is wrong with one option alone.
///
/// # Errors
/// [`OptionError`], whose problem reads on from the option's name.
pub fn check(option: &str, value: &str) -> Result<(), OptionError> {
    let checked = match option {
        "t" | "T" | "direct" => truth(value).map(drop),
        "offset" => offset(value).map(drop),
        _ => return Err(OptionError::unknown(option, "hdparm")),
    };
    checked.map_err(|problem| OptionError::wrong(option, problem))
}

impl Timings {
    /// Reads a workload's options. Without `t` the device is timed.
    ///
    /// # Errors
    /// As [`check`]; and where nothing is timed, or an offset is given and the device is not timed.
    pub fn parse(options: &Options) -> Result<Self, OptionError> {
        for (option, value) in options {
            check(option, value)?;
        }
        let is_on = |option: &str| options.get(option).and_then(|value| truth(value).ok());
        let timings = Self {
            device: is_on("t").unwrap_or(true),
            cache: is_on("T").unwrap_or(false),
            direct: is_on("direct").unwrap_or(false),
            offset_gib: options.get("offset").and_then(|value| offset(value).ok()),
        };
        if !timings.device && !timings.cache {
            return Err(OptionError::wrong(
                "t",
                "is off, and `T` is not on; nothing would be timed: turn one on",
            ));
        }
        if !timings.device && timings.offset_gib.is_some() {
            return Err(OptionError::wrong("offset", "is that of `t`, which is off; take one of them out"));
        }
        Ok(timings)
    }
}

fn offset(value: &str) -> Result<u64, String> {
    let number = value.parse::<u64>().ok().filter(|gib| *gib <= MAX_OFFSET_GIB);
    number.ok_or_else(|| format!("is `{value}`; write a whole number of GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &[(&str, &str)]) -> Result<Timings, String> {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Timings::parse(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn the_device_is_timed_where_nothing_is_said() {
        let timings = Timings { device: true, cache: false, direct: false, offset_gib: None };
        assert_eq!(parsed(&[]), Ok(timings));
        let both = Timings { cache: true, direct: true, offset_gib: Some(10), ..timings };
        assert_eq!(parsed(&[("T", "1"), ("direct", "true"), ("offset", "10")]), Ok(both));
    }

    #[test]
    fn what_times_nothing_is_told() {
        assert!(parsed(&[("t", "0")]).unwrap_err().starts_with("`t` is off"));
        assert!(parsed(&[("t", "0"), ("T", "1"), ("offset", "1")]).unwrap_err().starts_with("`offset`"));
    }

    #[test]
    fn what_would_change_the_device_is_no_option() {
        for option in ["W", "security-erase", "write-sector", "y", "z", "B", "a", "-W", "Tt"] {
            assert!(check(option, "1").unwrap_err().unknown, "{option}");
        }
        for value in ["-1", "1.5", "1G", "", "99999999999", "1 --security-erase"] {
            assert!(!check("offset", value).unwrap_err().unknown, "{value}");
        }
    }
}
