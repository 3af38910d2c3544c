//! A *setting*: one value of a machine that can be read and written, by a short name.

use crate::time::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The setting that limits how long a CPU may take to leave an idle state, for as long as a process holds it.
pub const CPU_DMA_LATENCY: &str = "cpu_dma_latency";

/// What it reads as where nobody holds a limit, in microseconds (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`,
/// `include/linux/pm_qos.h`).
pub const NO_LATENCY_LIMIT_US: u32 = 2_000_000_000;

/// The settings that choose the mode of a processor's own driver, active or passive. The kernel makes its
/// policies anew with each.
pub const INTEL_MODE: &str = "intel_pstate.status";
/// The same of AMD's.
pub const AMD_MODE: &str = "amd_pstate.status";

/// Whether a setting of this name chooses a driver's mode.
pub fn is_driver_mode(name: &str) -> bool {
    [INTEL_MODE, AMD_MODE].contains(&name)
}

/// Reads a value of [`CPU_DMA_LATENCY`], in microseconds: `20us`, `1ms`, `20`; `none` for no limit. `None`
/// where it is no whole number of microseconds, or more than the kernel's own word for no limit.
pub fn latency_limit_us(text: &str) -> Option<u32> {
    let text = text.trim();
    if text == "none" {
        return Some(NO_LATENCY_LIMIT_US);
    }
    let bare = || text.parse::<u64>().ok();
    let spelled = || Nanos::parse(text).filter(|span| span.get() % 1_000 == 0).map(|span| span.get() / 1_000);
    let limit_us = u32::try_from(bare().or_else(spelled)?).ok()?;
    (limit_us <= NO_LATENCY_LIMIT_US).then_some(limit_us)
}

/// The name of a setting: `governor`, `read_ahead_kb`, `vm.dirty_ratio`, with the object it belongs to after
/// an `@` where one is meant: `governor@policy0`, `read_ahead_kb@loop3`. Without an object it means all
/// objects of its kind (every cpufreq policy, every CPU) or, for a block device's settings, the study's
/// target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SettingName {
    /// The short name, as `machine::settings` lists them.
    pub name: String,
    /// Which object, where one was named.
    pub object: Option<String>,
}

impl SettingName {
    /// Splits at the last `@`.
    pub fn parse(text: &str) -> Self {
        match text.rsplit_once('@') {
            Some((name, object)) => Self { name: name.into(), object: Some(object.into()) },
            None => Self { name: text.into(), object: None },
        }
    }

    /// Whether the kernel copies its value when a file is opened, so that a process that runs notices no
    /// change in what it has open: read-ahead (kernel mm/readahead.c, `file_ra_state_init`).
    pub fn is_taken_at_open(&self) -> bool {
        self.name == "read_ahead_kb"
    }
}

impl fmt::Display for SettingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.object {
            Some(object) => write!(f, "{}@{object}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

/// A value that is wanted for a setting, as the kernel's file takes it, without the newline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SettingRequest {
    /// Which setting.
    pub setting: SettingName,
    /// The text to write.
    pub value: String,
}

impl fmt::Display for SettingRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.setting, self.value)
    }
}

/// What became of one write: asked, and read back. A trial stores all of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingRecord {
    /// The setting, with its object.
    pub setting: SettingName,
    /// The file that was written.
    pub path: String,
    /// What it held before.
    pub before: String,
    /// What was asked for.
    pub asked: String,
    /// What it read back as, right after the write.
    pub got: String,
    /// What it read back as after the workload had run; differs from `got` where somebody else wrote.
    pub after: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_limit_is_a_whole_number_of_microseconds_or_none() {
        for (text, limit_us) in
            [("0us", 0), ("20us", 20), (" 20 µs ", 20), ("20", 20), ("1ms", 1_000), ("none", 2_000_000_000)]
        {
            assert_eq!(latency_limit_us(text), Some(limit_us), "{text}");
        }
        for text in ["", "-1", "20ns", "1.5us", "2001s", "4294967296", "fast", "20us 30us", "0x14"] {
            assert_eq!(latency_limit_us(text), None, "{text}");
        }
    }
}
