//! What is sampled of the system: one file a source, which says where it is found, how often it is read,
//! which columns of a trace it becomes and how its text is read.
//!
//! A new source is a file here, a line of [`GROUPS`], and a row of the table in `domain::trace`.

mod aperf;
mod battery;
mod cpus;
pub mod disks;
mod energy;
mod frequency;
mod hwmon;
mod idle;
mod memory;
pub mod online;
mod pressure;

pub use aperf::AperfGroup;

use crate::recorder::Roots;
use crate::texts::{Sources, names};
use domain::Nanos;
use domain::trace::{Series, SeriesKind, SeriesUnit};
use parse::kernel::power;
use parse::proc::Error;
use std::fmt;
use std::path::Path;
use std::time::Instant;

/// Takes each value of a sample: its item, which of the item's columns it belongs to, the value.
pub type Take<'a> = dyn FnMut(&str, usize, u64) + 'a;

/// How one kind of file, or group of counters, is named in a spool and read.
pub trait Format: Sync {
    /// Its name in a spool.
    fn name(&self) -> &'static str;

    /// Whether this is what a spool may say behind the name: the CPU, the resource. Most are one file.
    fn takes(&self, argument: &str) -> bool {
        argument.is_empty()
    }

    /// Whether its items (CPUs, disks, frequencies) are named by its text. The other sources have one item,
    /// which is called "" and has its columns even where no sample could be read.
    fn names_items(&self) -> bool {
        false
    }

    /// The columns that one item becomes.
    fn series(&self, argument: &str, item: &str) -> Vec<Series>;

    /// Reads one sample and hands over each value.
    ///
    /// # Errors
    /// Where the text does not read as its format says.
    fn values(&self, argument: &str, bytes: &[u8], take: &mut Take<'_>) -> Result<(), Error>;

    /// How much of a text is stored, from its start; `None` for all of it. It may move what it wants there.
    /// It is asked at each sample.
    fn end(&self, _text: &mut [u8]) -> Option<usize> {
        None
    }
}

/// The sources of one file here.
pub struct Group {
    /// How they are read.
    pub formats: &'static [&'static dyn Format],
    /// Opens what this machine has of them, and notes what it lacks.
    pub open: fn(&mut Sources, &Roots, Nanos) -> crate::Result<()>,
}

/// All of them, in the order of a trace's columns. Those of energy are in the order in which one is taken.
pub const GROUPS: &[Group] = &[
    cpus::GROUP,
    online::GROUP,
    disks::GROUP,
    pressure::GROUP,
    memory::GROUP,
    frequency::GROUP,
    idle::GROUP,
    energy::GROUP,
    hwmon::GROUP,
    battery::GROUP,
];

/// One file or group of counters.
#[derive(Clone)]
pub struct Source {
    format: &'static dyn Format,
    argument: String,
}

impl Source {
    /// The source of this format that the argument names: the CPU, the resource.
    pub fn new(format: &'static dyn Format, argument: impl Into<String>) -> Self {
        Self { format, argument: argument.into() }
    }

    /// Its name in a spool, with what is behind it.
    pub fn label(&self) -> String {
        match self.argument.as_str() {
            "" => self.format.name().to_owned(),
            argument => format!("{} {argument}", self.format.name()),
        }
    }

    /// The source of such a name.
    pub fn from_label(label: &str) -> Option<Self> {
        let (name, argument) = label.split_once(' ').unwrap_or((label, ""));
        let mut formats = GROUPS.iter().flat_map(|group| group.formats);
        let format = formats.find(|format| format.name() == name)?;
        format.takes(argument).then(|| Self::new(*format, argument))
    }

    /// Whether its format has this name.
    pub fn is(&self, name: &str) -> bool {
        self.format.name() == name
    }

    /// As [`Format::names_items`].
    pub fn names_items(&self) -> bool {
        self.format.names_items()
    }

    /// As [`Format::series`].
    pub fn series(&self, item: &str) -> Vec<Series> {
        self.format.series(&self.argument, item)
    }

    /// As [`Format::values`].
    ///
    /// # Errors
    /// Where the text does not read as its format says.
    pub fn values(&self, bytes: &[u8], take: &mut Take<'_>) -> Result<(), Error> {
        self.format.values(&self.argument, bytes, take)
    }

    /// As [`Format::end`].
    pub fn end(&self, text: &mut [u8]) -> Option<usize> {
        self.format.end(text)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({})", self.label())
    }
}

/// Whether it is a number, as of a CPU.
fn is_number(argument: &str) -> bool {
    argument.parse::<u32>().is_ok()
}

fn each<const N: usize>(item: &str, values: [Option<u64>; N], take: &mut Take<'_>) {
    for (field, value) in values.into_iter().enumerate() {
        if let Some(value) = value {
            take(item, field, value);
        }
    }
}

fn counter(name: String, unit: SeriesUnit, wraps_at: Option<u64>) -> Series {
    Series { name, unit, kind: SeriesKind::Counter { wraps_at } }
}

fn gauge(name: String, unit: SeriesUnit) -> Series {
    Series { name, unit, kind: SeriesKind::Gauge }
}

/// sysfs, as it is searched for sensors and supplies.
struct Tree<'a>(&'a Path);

impl power::Tree for Tree<'_> {
    fn names(&self, folder: &str) -> Vec<String> {
        names(&self.0.join(folder))
    }

    fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.0.join(path)).ok()
    }
}

/// A reading that blocks takes at most one in so many of the time, for samples are late meanwhile: a chip
/// behind a slow bus, the firmware of a battery.
const BLOCKED: u64 = 20;

/// However slow a reading is, there is one this often.
const MAX_PERIOD: Nanos = Nanos::from_secs(2);

/// How long lies between two readings of these files together: `period` at least, longer where a reading
/// takes long today.
fn rest(files: &[&Path], period: Nanos) -> Nanos {
    let begin = Instant::now();
    for file in files {
        // What cannot be read is told by whoever opens it.
        let _ = std::fs::read(file);
    }
    period_of(Nanos::new(begin.elapsed().as_nanos() as u64), period)
}

fn period_of(reading: Nanos, period: Nanos) -> Nanos {
    Nanos::new(reading.get().saturating_mul(BLOCKED)).min(MAX_PERIOD).max(period)
}

#[cfg(test)]
mod testing {
    use super::Format;

    /// What a format reads out of a text.
    pub fn values(format: &dyn Format, argument: &str, bytes: &[u8]) -> Vec<(String, usize, u64)> {
        let mut seen = Vec::new();
        let mut take = |item: &str, field: usize, value: u64| seen.push((item.to_owned(), field, value));
        format.values(argument, bytes, &mut take).unwrap();
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_source_is_known_again_by_its_label() {
        // Spools of every version so far have these.
        for label in [
            "stat",
            "cpus-online",
            "disks",
            "pressure io",
            "memory",
            "current-frequency 3",
            "time-in-state 0",
            "aperf 127",
            "idle-time 1 2",
            "idle-usage 1 2",
            "energy 262143328850 package-0-die 1",
            "hwmon-energy amd_energy-0 Esocket0",
            "hwmon-power macsmc_hwmon-0 Total System Power",
            "hwmon-power-average power_meter-0 power1",
            "battery BAT0 BAT1",
        ] {
            assert_eq!(Source::from_label(label).map(|source| source.label()).as_deref(), Some(label));
        }
        for label in
            ["idle-time 1", "aperf x", "stat 1", "teapot", "energy package-0", "battery", "hwmon-power a"]
        {
            assert!(Source::from_label(label).is_none(), "{label}");
        }
    }

    #[test]
    fn no_two_formats_have_one_name() {
        let formats = || GROUPS.iter().flat_map(|group| group.formats);
        let names: BTreeSet<&str> = formats().map(|format| format.name()).collect();
        assert_eq!(names.len(), formats().count());
    }

    #[test]
    fn what_blocks_for_long_is_read_less_often_and_still_read() {
        let (tenth, second) = (Nanos::from_millis(100), Nanos::from_secs(1));
        assert_eq!(period_of(Nanos::from_micros(9), tenth), tenth);
        assert_eq!(period_of(Nanos::from_millis(30), tenth), Nanos::from_millis(600));
        assert_eq!(period_of(Nanos::from_millis(30), second), second);
        assert_eq!(period_of(Nanos::from_secs(9), second), Nanos::from_secs(2));
    }
}
