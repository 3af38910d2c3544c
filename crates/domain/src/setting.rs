//! A *setting*: one value of a machine that can be read and written, by a short name.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The name of a setting: `governor`, `read_ahead_kb`, `vm.dirty_ratio`, with the object it belongs to after
/// an `@` where one is meant: `governor@policy0`, `read_ahead_kb@loop3`. Without an object it means all
/// objects of its kind (every cpufreq policy, every CPU) or, for a block device's settings, the study's target.
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
