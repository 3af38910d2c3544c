//! APERF, MPERF and TSC of each CPU through perf's `msr` events (kernel `arch/x86/events/msr.c`).

use super::{Format, Take, counter, is_number};
use domain::trace::{Series, SeriesUnit};
use parse::proc::Error;
use perf::bindings::{PERF_FORMAT_GROUP, perf_event_attr};
use perf_event_open_sys as perf;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;

const NAMES: [&str; 3] = ["aperf", "mperf", "tsc"];

/// The three counters of a CPU, as the kernel gives them (count, then values).
pub struct Counters;

impl Format for Counters {
    fn name(&self) -> &'static str {
        "aperf"
    }

    fn takes(&self, cpu: &str) -> bool {
        is_number(cpu)
    }

    fn series(&self, cpu: &str, _: &str) -> Vec<Series> {
        let column = |name| counter(format!("freq.cpu{cpu}.{name}"), SeriesUnit::Count, None);
        NAMES.iter().map(column).collect()
    }

    /// The values behind the count of a perf group (`PERF_FORMAT_GROUP` of perf_event_open(2)), in the byte
    /// order of the machine that recorded them.
    fn values(&self, _: &str, bytes: &[u8], take: &mut Take<'_>) -> Result<(), Error> {
        let (words, _) = bytes.as_chunks::<8>();
        // A CPU that goes offline takes its events out of their group, for good: the leader stands still
        // then, alone (kernel/events/core.c, `perf_event_exit_cpu`), and counts nothing of what follows.
        if words.first().map(|count| u64::from_ne_bytes(*count)) != Some(NAMES.len() as u64) {
            return Ok(());
        }
        for (field, word) in words.iter().skip(1).take(NAMES.len()).enumerate() {
            take("", field, u64::from_ne_bytes(*word));
        }
        Ok(())
    }
}

/// The counters of one CPU; they live as long as this does.
#[derive(Debug)]
pub struct AperfGroup {
    /// Reads the count and the three values, as u64 each.
    pub leader: File,
    _members: [File; 2],
}

/// What identifies the three events to perf_event_open(2).
#[derive(Debug)]
pub struct AperfEvents {
    pmu: u32,
    configs: [u64; 3],
}

impl AperfEvents {
    /// The events of this machine; the text says why there are none. The PMU lists only what the CPU has, and
    /// in most virtual machines that is `tsc` alone.
    pub fn find(sys: &Path) -> Result<Self, String> {
        let pmu = sys.join("bus/event_source/devices/msr");
        let read =
            |path: &str| fs::read_to_string(pmu.join(path)).map_err(|_| format!("no msr event `{path}`"));
        let mut configs = [0; 3];
        for (config, name) in configs.iter_mut().zip(NAMES) {
            let text = read(&format!("events/{name}"))?;
            let number =
                text.trim().strip_prefix("event=0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
            *config = number.ok_or_else(|| format!("msr event `{name}` is `{}`", text.trim()))?;
        }
        let pmu = read("type")?.trim().parse().map_err(|_| "the msr PMU has no number".to_owned())?;
        Ok(Self { pmu, configs })
    }

    /// Opens the group on one CPU.
    ///
    /// # Errors
    /// As perf_event_open(2): `EACCES` without root where `perf_event_paranoid` is above 0.
    pub fn open(&self, cpu: u32) -> io::Result<AperfGroup> {
        let [aperf, mperf, tsc] = self.configs;
        let leader = self.event(aperf, cpu, None)?;
        let members = [self.event(mperf, cpu, Some(&leader))?, self.event(tsc, cpu, Some(&leader))?];
        Ok(AperfGroup { leader, _members: members })
    }

    fn event(&self, config: u64, cpu: u32, leader: Option<&File>) -> io::Result<File> {
        let mut attributes = perf_event_attr {
            type_: self.pmu,
            size: size_of::<perf_event_attr>() as u32,
            config,
            read_format: PERF_FORMAT_GROUP.into(),
            ..Default::default()
        };
        let cpu = i32::try_from(cpu).map_err(io::Error::other)?;
        let leader = leader.map_or(-1, AsRawFd::as_raw_fd);
        let flags = perf::bindings::PERF_FLAG_FD_CLOEXEC.into();
        // SAFETY: the attributes are valid for the length that they name; all processes (-1) on one CPU.
        let descriptor = unsafe { perf::perf_event_open(&raw mut attributes, -1, cpu, leader, flags) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it for us, and nobody else owns it.
        Ok(unsafe { File::from_raw_fd(descriptor) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::values;
    use super::*;

    #[test]
    fn a_perf_group_is_read_behind_its_count() {
        let bytes: Vec<u8> = [3_u64, 10, 20, 30].into_iter().flat_map(u64::to_ne_bytes).collect();
        let read: Vec<u64> = values(&Counters, "0", &bytes).into_iter().map(|(.., value)| value).collect();
        assert_eq!(read, [10, 20, 30]);
    }

    #[test]
    fn a_leader_that_is_left_alone_when_its_cpu_went_offline_has_no_value() {
        let bytes: Vec<u8> = [1_u64, 10].into_iter().flat_map(u64::to_ne_bytes).collect();
        assert!(values(&Counters, "0", &bytes).is_empty());
    }

    #[test]
    fn a_pmu_without_aperf_says_which_event_is_missing() {
        let sys = tempfile::tempdir().unwrap();
        let events = sys.path().join("bus/event_source/devices/msr/events");
        fs::create_dir_all(&events).unwrap();
        fs::write(events.join("tsc"), "event=0x00\n").unwrap();
        assert_eq!(AperfEvents::find(sys.path()).unwrap_err(), "no msr event `events/aperf`");
    }
}
