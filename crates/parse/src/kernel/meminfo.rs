//! `/proc/meminfo`: proc_meminfo(5).

use super::{Error, number_at as number};
use domain::units::Bytes;

/// The lines that Flyball uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemInfo {
    /// `MemTotal`.
    pub total: Option<Bytes>,
    /// `MemAvailable`.
    pub available: Option<Bytes>,
    /// `SwapTotal`.
    pub swap: Option<Bytes>,
    /// `Dirty`: waits to be written.
    pub dirty: Option<Bytes>,
    /// `Writeback`: is being written.
    pub writeback: Option<Bytes>,
}

/// Reads it. What it calls kB is KiB.
///
/// # Errors
/// Where one of the lines holds no number.
pub fn parse(text: &str) -> Result<MemInfo, Error> {
    let mut info = MemInfo::default();
    for (index, line) in text.lines().enumerate() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let slot = match key {
            "MemTotal" => &mut info.total,
            "MemAvailable" => &mut info.available,
            "SwapTotal" => &mut info.swap,
            "Dirty" => &mut info.dirty,
            "Writeback" => &mut info.writeback,
            _ => continue,
        };
        let kib: u64 = number(index + 1, value.trim().trim_end_matches("kB"))?;
        let bytes =
            kib.checked_mul(1024).ok_or_else(|| Error::value(index + 1, value, "an amount of memory"))?;
        *slot = Some(Bytes::new(bytes));
    }
    Ok(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_in_kib() {
        let info = parse("MemTotal:       24684096 kB\nSwapTotal: 0 kB\nHugePages_Total: 0\n").unwrap();
        assert_eq!(info.total, Some(Bytes::from_kib(24_684_096)));
        assert_eq!((info.swap, info.available), (Some(Bytes::new(0)), None));
        assert!(parse("MemTotal: many kB\n").is_err());
        assert!(parse("MemTotal: 18446744073709551615 kB\n").is_err());
    }
}
