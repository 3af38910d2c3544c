//! What is sampled: each source with the name that the spool knows it by, and the columns it becomes.

use domain::trace::{Series, SeriesKind, SeriesUnit};
use parse::proc::{Error, cpufreq, diskstats, number, pressure, stat};

/// A file or a group of counters, read as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `/proc/stat`, its CPU lines.
    Stat,
    /// `/proc/diskstats`.
    Disks,
    /// `/proc/pressure/` this resource.
    Pressure(String),
    /// `cpufreq/scaling_cur_freq` of this CPU.
    CurrentFrequency(u32),
    /// `cpufreq/stats/time_in_state` of this policy.
    TimeInState(u32),
    /// APERF, MPERF and TSC of this CPU: a perf group of three, as the kernel gives it (count, then values).
    Aperf(u32),
    /// cpuidle's `time` of this CPU's state, µs.
    IdleTime(u32, u32),
    /// cpuidle's `usage` of this CPU's state.
    IdleUsage(u32, u32),
    /// `energy_uj` of the RAPL domain of this name, and where it wraps.
    Energy(String, u64),
}

const APERF: [&str; 3] = ["aperf", "mperf", "tsc"];

impl Source {
    /// Its name in a spool.
    pub fn label(&self) -> String {
        match self {
            Source::Stat => "stat".to_owned(),
            Source::Disks => "disks".to_owned(),
            Source::Pressure(resource) => format!("pressure {resource}"),
            Source::CurrentFrequency(cpu) => format!("current-frequency {cpu}"),
            Source::TimeInState(policy) => format!("time-in-state {policy}"),
            Source::Aperf(cpu) => format!("aperf {cpu}"),
            Source::IdleTime(cpu, state) => format!("idle-time {cpu} {state}"),
            Source::IdleUsage(cpu, state) => format!("idle-usage {cpu} {state}"),
            Source::Energy(domain, range) => format!("energy {range} {domain}"),
        }
    }

    /// The source of such a name.
    pub fn from_label(label: &str) -> Option<Self> {
        let (kind, rest) = label.split_once(' ').unwrap_or((label, ""));
        let pair = || {
            let (cpu, state) = rest.split_once(' ')?;
            Some((cpu.parse().ok()?, state.parse().ok()?))
        };
        Some(match kind {
            "stat" => Source::Stat,
            "disks" => Source::Disks,
            "pressure" => Source::Pressure(rest.to_owned()),
            "current-frequency" => Source::CurrentFrequency(rest.parse().ok()?),
            "time-in-state" => Source::TimeInState(rest.parse().ok()?),
            "aperf" => Source::Aperf(rest.parse().ok()?),
            "idle-time" => pair().map(|(cpu, state)| Source::IdleTime(cpu, state))?,
            "idle-usage" => pair().map(|(cpu, state)| Source::IdleUsage(cpu, state))?,
            "energy" => {
                let (range, domain) = rest.split_once(' ')?;
                Source::Energy(domain.to_owned(), range.parse().ok()?)
            }
            _ => return None,
        })
    }

    /// The columns that one item of this source becomes: a CPU of `/proc/stat`, a disk, a frequency; for the
    /// other sources the only item is called "".
    pub fn series(&self, item: &str) -> Vec<Series> {
        use SeriesUnit::*;
        let one = |name: String, unit| vec![counter(name, unit, None)];
        match self {
            Source::Stat => {
                stat::FIELDS.iter().map(|field| counter(format!("{item}.{field}"), Ticks, None)).collect()
            }
            Source::Disks => diskstats::FIELDS.iter().map(|field| disk_series(item, field)).collect(),
            Source::Pressure(resource) => {
                // The whole system never waits for the CPU, so the kernel's line for it is always zero.
                let kinds: &[&str] = if resource == "cpu" { &["some"] } else { &["some", "full"] };
                kinds.iter().map(|kind| counter(format!("psi.{resource}.{kind}_us"), Micros, None)).collect()
            }
            Source::CurrentFrequency(cpu) => {
                let name = format!("freq.cpu{cpu}.khz");
                vec![Series { name, unit: Kilohertz, kind: SeriesKind::Gauge }]
            }
            Source::TimeInState(policy) => one(format!("freq.policy{policy}.time.{item}"), Ticks),
            Source::Aperf(cpu) => {
                APERF.iter().map(|name| counter(format!("freq.cpu{cpu}.{name}"), Count, None)).collect()
            }
            Source::IdleTime(cpu, state) => one(format!("idle.cpu{cpu}.state{state}.us"), Micros),
            Source::IdleUsage(cpu, state) => one(format!("idle.cpu{cpu}.state{state}.entries"), Count),
            Source::Energy(domain, range) => {
                vec![counter(format!("rapl.{domain}.uj"), Microjoules, Some(*range))]
            }
        }
    }

    /// Reads one sample and hands over each value: its item, and which of the item's columns it belongs to.
    ///
    /// # Errors
    /// Where the text does not read as its format says.
    pub fn values(&self, bytes: &[u8], take: &mut dyn FnMut(&str, usize, u64)) -> Result<(), Error> {
        if let Source::Aperf(_) = self {
            counters(bytes, take);
            return Ok(());
        }
        let text = String::from_utf8_lossy(bytes);
        match self {
            Source::Stat => {
                for line in stat::cpu_lines(&text) {
                    let line = line?;
                    each(line.name, line.ticks, take);
                }
            }
            Source::Disks => {
                for disk in diskstats::disks(&text) {
                    let disk = disk?;
                    each(disk.name, disk.values.map(Some), take);
                }
            }
            Source::Pressure(resource) => {
                let pressure = pressure::pressure(&text)?;
                let full = pressure.full_us.filter(|_| resource != "cpu");
                each("", [pressure.some_us, full], take);
            }
            Source::TimeInState(_) => {
                for state in cpufreq::time_in_state(&text) {
                    let state = state?;
                    take(state.khz, 0, state.ticks);
                }
            }
            Source::CurrentFrequency(_) => each("", [cpufreq::current(&text)?], take),
            Source::Aperf(_) => {}
            Source::IdleTime(..) => take("", 0, number("cpuidle/state*/time", &text)?),
            Source::IdleUsage(..) => take("", 0, number("cpuidle/state*/usage", &text)?),
            Source::Energy(..) => take("", 0, number("energy_uj", &text)?),
        }
        Ok(())
    }
}

fn each<const N: usize>(item: &str, values: [Option<u64>; N], take: &mut dyn FnMut(&str, usize, u64)) {
    for (field, value) in values.into_iter().enumerate() {
        if let Some(value) = value {
            take(item, field, value);
        }
    }
}

/// The values behind the count of a perf group (`PERF_FORMAT_GROUP` of perf_event_open(2)), in the byte order
/// of the machine that recorded them.
fn counters(bytes: &[u8], take: &mut dyn FnMut(&str, usize, u64)) {
    let (words, _) = bytes.as_chunks::<8>();
    for (field, word) in words.iter().skip(1).take(APERF.len()).enumerate() {
        take("", field, u64::from_ne_bytes(*word));
    }
}

fn counter(name: String, unit: SeriesUnit, wraps_at: Option<u64>) -> Series {
    Series { name, unit, kind: SeriesKind::Counter { wraps_at } }
}

fn disk_series(device: &str, field: &str) -> Series {
    let name = format!("disk.{device}.{field}");
    match field {
        "in_flight" => Series { name, unit: SeriesUnit::Count, kind: SeriesKind::Gauge },
        _ if field.ends_with("_ms") => counter(name, SeriesUnit::Millis, Some(diskstats::MILLIS_WRAP_AT)),
        _ if field.ends_with("_sectors") => counter(name, SeriesUnit::Sectors, None),
        _ => counter(name, SeriesUnit::Count, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_known_again_by_its_label() {
        for source in [
            Source::Stat,
            Source::Disks,
            Source::Pressure("io".into()),
            Source::CurrentFrequency(3),
            Source::TimeInState(0),
            Source::Aperf(127),
            Source::IdleTime(1, 2),
            Source::IdleUsage(1, 2),
            Source::Energy("package-0-die 1".into(), 262_143_328_850),
        ] {
            assert_eq!(Source::from_label(&source.label()), Some(source));
        }
        assert_eq!(Source::from_label("idle-time 1"), None);
        assert_eq!(Source::from_label("teapot"), None);
    }

    #[test]
    fn an_unknown_frequency_gives_no_value() {
        let mut seen = Vec::new();
        let source = Source::CurrentFrequency(0);
        source
            .values(b"<unknown>\n", &mut |item, field, value| seen.push((item.to_owned(), field, value)))
            .unwrap();
        assert!(seen.is_empty());
        source
            .values(b"800000\n", &mut |item, field, value| seen.push((item.to_owned(), field, value)))
            .unwrap();
        assert_eq!(seen, [(String::new(), 0, 800_000)]);
    }

    #[test]
    fn a_perf_group_is_read_behind_its_count() {
        let bytes: Vec<u8> = [3_u64, 10, 20, 30].into_iter().flat_map(u64::to_ne_bytes).collect();
        let mut seen = Vec::new();
        Source::Aperf(0).values(&bytes, &mut |_, field, value| seen.push((field, value))).unwrap();
        assert_eq!(seen, [(0, 10), (1, 20), (2, 30)]);
    }
}
