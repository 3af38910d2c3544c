//! Processors.

use crate::units::Hertz;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// CPU numbers, written as the kernel writes them: `0-55,112-167`.
///
/// Format: `Documentation/admin-guide/cputopology.rst`, `bitmap_parselist(3)` without its strides.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CpuList(BTreeSet<u32>);

/// A bound on CPU numbers, so that a damaged list costs no memory: the kernel's largest `NR_CPUS` is 8192.
pub const MAX_CPUS: u32 = 1 << 16;

impl CpuList {
    /// Reads `0-3,8`; commas or spaces separate, nothing at all is the empty list. `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut cpus = BTreeSet::new();
        for part in text.split([',', ' ', '\n']).filter(|p| !p.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return None;
            }
            cpus.extend(first..=last);
        }
        Some(Self(cpus))
    }
    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The smallest.
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }
    /// Whether it is one of them.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }
    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }
    /// Adds one.
    pub fn insert(&mut self, cpu: u32) {
        self.0.insert(cpu);
    }
}

fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|cpu| digits && *cpu < MAX_CPUS)
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl Extend<u32> for CpuList {
    fn extend<I: IntoIterator<Item = u32>>(&mut self, cpus: I) {
        self.0.extend(cpus);
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for cpu in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        for (index, (first, last)) in ranges.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl From<CpuList> for String {
    fn from(list: CpuList) -> Self {
        list.to_string()
    }
}

impl TryFrom<String> for CpuList {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is not a list of CPUs such as `0-3,8`"))
    }
}

/// All processors of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpus {
    /// Logical CPUs that run.
    pub online: CpuList,
    /// Logical CPUs that are there.
    pub present: Option<CpuList>,
    /// Physical cores that run; `None` where the kernel shows no topology.
    pub cores: Option<u32>,
    /// Packages (sockets).
    pub packages: Option<u32>,
    /// The most threads that one core runs: 2 with SMT, 1 without.
    pub threads_per_core: Option<u32>,
    /// `/sys/devices/system/cpu/smt/control`: `on`, `off`, `forceoff`, `notsupported`, `notimplemented`.
    pub smt_control: Option<String>,
    /// What the first CPU says it is.
    pub model: CpuModel,
    /// Kinds of cores on a hybrid processor, fastest first; empty where all cores are of one kind.
    pub core_types: Vec<CoreType>,
    /// Memory nodes with their CPUs.
    pub nodes: Vec<Node>,
    /// The guaranteed frequency of the fastest kind of core.
    #[serde(rename = "base_hz")]
    pub base: Option<Hertz>,
    /// The highest frequency of any core.
    #[serde(rename = "max_hz")]
    pub max: Option<Hertz>,
}

/// What a CPU says it is: `/proc/cpuinfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuModel {
    /// `GenuineIntel`, `AuthenticAMD`.
    pub vendor: Option<String>,
    /// `AMD EPYC 7543 32-Core Processor`.
    pub name: Option<String>,
    /// Family, decimal.
    pub family: Option<u32>,
    /// Model, decimal.
    pub model: Option<u32>,
    /// Stepping.
    pub stepping: Option<u32>,
    /// Microcode revision as the kernel writes it: `0x437`.
    pub microcode: Option<String>,
}

/// A kind of core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreKind {
    /// P-cores.
    Performance,
    /// E-cores.
    Efficient,
    /// Low-power E-cores, outside the cores' common cache.
    LowPower,
}

impl CoreKind {
    /// As people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Performance => "P-cores",
            Self::Efficient => "E-cores",
            Self::LowPower => "low-power E-cores",
        }
    }
}

/// The cores of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreType {
    /// Which kind.
    pub kind: CoreKind,
    /// Their logical CPUs.
    pub cpus: CpuList,
    /// How many cores these are.
    pub cores: Option<u32>,
    /// Their guaranteed frequency.
    #[serde(rename = "base_hz")]
    pub base: Option<Hertz>,
    /// Their highest frequency; of the fastest, where they differ.
    #[serde(rename = "max_hz")]
    pub max: Option<Hertz>,
}

/// A memory node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its number.
    pub id: u32,
    /// Its CPUs; none for a node of memory alone.
    pub cpus: CpuList,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_fold_into_ranges_and_unfold_again() {
        for text in ["", "0", "0-55,112-167", "0,2,4-5"] {
            assert_eq!(CpuList::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(CpuList::parse("3 1 2\n").unwrap().to_string(), "1-3");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["x", "3-1", "-1", "1-", "+1", "0-4294967295", "1:2"] {
            assert_eq!(CpuList::parse(text), None, "{text}");
        }
    }
}
