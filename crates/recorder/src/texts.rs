//! The system's sources on this machine: which there are, how often each is read, and their kept descriptors.

use crate::frequency::{AperfEvents, AperfGroup};
use crate::patch;
use crate::recorder::Roots;
use crate::source::Source;
use crate::spool::{Kind, Writer};
use domain::Nanos;
use domain::trace::FrequencySource;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Most reads a second of a group of files that grows with the CPUs. One costs about 1 µs, through an
/// interrupt on another CPU about 3 µs: so a group costs at most 1% of a core, however large the machine.
const MAX_READS_PER_SECOND: u64 = 3_000;

/// Idle states are read no more often than this: their files are many, and residencies are looked at over
/// longer spans than frequencies.
const IDLE_PERIOD: Nanos = Nanos::from_millis(100);

/// Energy is read no more often than this: RAPL counts in steps of about 1 ms, and a short difference of two
/// readings is mostly the steps' noise.
const ENERGY_PERIOD: Nanos = Nanos::from_millis(20);

/// What a file is given to grow beyond its first reading: counters gain digits, devices are added.
const GROWTH: usize = 4096;

/// Everything that is sampled of the system.
#[derive(Debug)]
pub struct Sources {
    list: Vec<KeptSource>,
    fresh: Vec<u8>,
    patch: Vec<u8>,
    /// Where frequencies come from.
    pub frequency: FrequencySource,
    /// What is not sampled, and why.
    pub absent: Vec<String>,
}

#[derive(Debug)]
struct KeptSource {
    source: Source,
    input: Input,
    every: u64,
    phase: u64,
    previous: Vec<u8>,
    state: State,
}

#[derive(Debug)]
enum Input {
    File(File),
    Counters(AperfGroup),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is in the spool yet.
    New,
    /// The spool holds the previous text.
    Known,
    /// The spool says that it is gone.
    Gone,
}

impl Sources {
    /// Opens what this machine has.
    ///
    /// # Errors
    /// Where there is no `/proc/stat`.
    pub fn open(roots: &Roots, interval: Nanos) -> crate::Result<Self> {
        let mut sources = Self {
            list: Vec::new(),
            fresh: Vec::new(),
            patch: Vec::new(),
            frequency: FrequencySource::None,
            absent: Vec::new(),
        };
        let stat = roots.proc.join("stat");
        sources.add(Source::Stat, &stat, 1).map_err(|error| crate::Error::NoProc { path: stat, error })?;
        sources.add_or_note(Source::Disks, &roots.proc.join("diskstats"), "disks");
        for resource in ["cpu", "io", "memory"] {
            let path = roots.proc.join("pressure").join(resource);
            sources.add_or_note(Source::Pressure(resource.to_owned()), &path, "pressure");
        }
        sources.add_frequency(&roots.sys, interval);
        sources.add_idle(&roots.sys, interval);
        sources.add_energy(&roots.sys, interval);
        let longest = sources.list.iter().map(|kept| kept.previous.capacity()).max().unwrap_or_default();
        sources.fresh.resize(longest, 0);
        sources.patch.reserve(2 * longest);
        Ok(sources)
    }

    /// The most that one sample of all of them takes in a spool.
    pub fn sample_bytes(&self) -> usize {
        self.list.iter().map(|kept| kept.previous.capacity() + 16).sum()
    }

    /// Declares them in the spool.
    pub fn declare(&self, spool: &mut Writer) {
        for (id, kept) in self.list.iter().enumerate() {
            let every = (kept.every as u16).to_le_bytes();
            let phase = (kept.phase as u16).to_le_bytes();
            spool.frame(Kind::Source, id as u16, &[&every, &phase, kept.source.label().as_bytes()]);
        }
    }

    /// Reads those whose turn it is.
    pub fn sample(&mut self, tick: u64, spool: &mut Writer) {
        for (id, kept) in self.list.iter_mut().enumerate() {
            if tick % kept.every == kept.phase {
                kept.sample(id as u16, &mut self.fresh, &mut self.patch, spool);
            }
        }
    }

    /// Reads all of them, whoever's turn it is.
    pub fn sample_all(&mut self, spool: &mut Writer) {
        for (id, kept) in self.list.iter_mut().enumerate() {
            kept.sample(id as u16, &mut self.fresh, &mut self.patch, spool);
        }
    }

    fn add(&mut self, source: Source, path: &Path, every: u64) -> io::Result<()> {
        let file = File::open(path)?;
        let length = first_length(&source, &file)?;
        self.keep(source, Input::File(file), length, every);
        Ok(())
    }

    fn keep(&mut self, source: Source, input: Input, length: usize, every: u64) {
        // Neighbours take turns, so that no sample carries a whole group.
        let phase = self.list.len() as u64 % every;
        let growth = if length < 64 { 64 } else { length + GROWTH };
        let previous = Vec::with_capacity(length + growth);
        self.list.push(KeptSource { source, input, every, phase, previous, state: State::New });
    }

    fn add_or_note(&mut self, source: Source, path: &Path, what: &str) {
        if let Err(error) = self.add(source, path, 1) {
            self.absent.push(format!("no {what}: `{}`: {error}", path.display()));
        }
    }

    fn add_frequency(&mut self, sys: &Path, interval: Nanos) {
        match self.add_aperf(sys, interval) {
            Ok(()) => self.frequency = FrequencySource::AperfMperf,
            Err(reason) => {
                self.add_cpufreq(sys, interval);
                let instead = match self.frequency {
                    FrequencySource::None => "no cpufreq either".to_owned(),
                    other => format!("{} instead", other.name()),
                };
                self.absent.push(format!("no aperf/mperf counters: {reason}; {instead}"));
            }
        }
    }

    fn add_aperf(&mut self, sys: &Path, interval: Nanos) -> Result<(), String> {
        let events = AperfEvents::find(sys)?;
        let cpus = numbered(&sys.join("devices/system/cpu"), "cpu");
        let mut groups = Vec::new();
        for cpu in cpus {
            match events.open(cpu) {
                Ok(group) => groups.push((cpu, group)),
                // An offline CPU is listed too.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(format!("perf_event_open on cpu{cpu}: {error}")),
            }
        }
        let every = every(groups.len(), interval, Nanos::ZERO);
        for (cpu, group) in groups {
            self.keep(Source::Aperf(cpu), Input::Counters(group), 32, every);
        }
        Ok(())
    }

    fn add_cpufreq(&mut self, sys: &Path, interval: Nanos) {
        let cpus = sys.join("devices/system/cpu");
        let policies = numbered(&cpus.join("cpufreq"), "policy");
        let turn = every(policies.len(), interval, Nanos::ZERO);
        for policy in policies {
            let path = cpus.join(format!("cpufreq/policy{policy}/stats/time_in_state"));
            if self.add(Source::TimeInState(policy), &path, turn).is_ok() {
                self.frequency = FrequencySource::TimeInState;
            }
        }
        if self.frequency == FrequencySource::TimeInState {
            return;
        }
        let all = numbered(&cpus, "cpu");
        let turn = every(all.len(), interval, Nanos::ZERO);
        for cpu in all {
            let path = cpus.join(format!("cpu{cpu}/cpufreq/scaling_cur_freq"));
            if self.add(Source::CurrentFrequency(cpu), &path, turn).is_ok() {
                self.frequency = FrequencySource::ScalingCurFreq;
            }
        }
    }

    fn add_idle(&mut self, sys: &Path, interval: Nanos) {
        let cpus = sys.join("devices/system/cpu");
        let states: Vec<(u32, u32)> = numbered(&cpus, "cpu")
            .into_iter()
            .flat_map(|cpu| {
                let states = numbered(&cpus.join(format!("cpu{cpu}/cpuidle")), "state");
                states.into_iter().map(move |state| (cpu, state))
            })
            .collect();
        if states.is_empty() {
            self.absent.push("no idle states: no cpuidle driver".to_owned());
        }
        let turn = every(2 * states.len(), interval, IDLE_PERIOD);
        for (cpu, state) in states {
            let folder = cpus.join(format!("cpu{cpu}/cpuidle/state{state}"));
            for (source, file) in
                [(Source::IdleTime(cpu, state), "time"), (Source::IdleUsage(cpu, state), "usage")]
            {
                if let Err(error) = self.add(source, &folder.join(file), turn) {
                    self.absent.push(format!("no cpu{cpu} idle state{state} {file}: {error}"));
                }
            }
        }
    }

    fn add_energy(&mut self, sys: &Path, interval: Nanos) {
        let zones = energy_zones(&sys.join("class/powercap"));
        if zones.is_empty() {
            self.absent.push("no RAPL domain: power is not measured".to_owned());
        }
        let turn = every(zones.len(), interval, ENERGY_PERIOD);
        for zone in zones {
            let path = sys.join("class/powercap").join(&zone.folder).join("energy_uj");
            if let Err(error) = self.add(Source::Energy(zone.name.clone(), zone.range_uj), &path, turn) {
                self.absent.push(format!("no energy of {}: `{}`: {error}", zone.name, path.display()));
            }
        }
    }
}

impl KeptSource {
    fn sample(&mut self, id: u16, fresh: &mut [u8], patch: &mut Vec<u8>, spool: &mut Writer) {
        let room = self.previous.capacity();
        let Ok(length) = self.input.read(&mut fresh[..room]) else {
            if self.state != State::Gone {
                spool.frame(Kind::Gone, id, &[]);
                self.state = State::Gone;
            }
            return;
        };
        let fresh = self.source.keep_of(&fresh[..length], room);
        if self.state == State::Known && fresh == self.previous {
            return;
        }
        self.write(id, fresh, patch, spool);
        self.previous.clear();
        self.previous.extend_from_slice(fresh);
        self.state = State::Known;
    }

    fn write(&self, id: u16, fresh: &[u8], patch: &mut Vec<u8>, spool: &mut Writer) {
        if self.state == State::Known && fresh.len() <= patch::LONGEST {
            patch::diff(&self.previous, fresh, patch);
            if patch.len() < fresh.len() {
                return spool.frame(Kind::Patch, id, &[patch]);
            }
        }
        spool.frame(Kind::Whole, id, &[fresh]);
    }
}

impl Source {
    /// What is stored of a reading: the CPU lines of `/proc/stat`, and only whole lines of what outgrew its
    /// buffer.
    fn keep_of<'a>(&self, text: &'a [u8], room: usize) -> &'a [u8] {
        if let (Source::Stat, Some(end)) = (self, cpu_lines_end(text)) {
            return &text[..end];
        }
        if text.len() < room {
            return text;
        }
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        &text[..end]
    }
}

impl Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Input::File(file) => file.read_at(into, 0),
            Input::Counters(group) => match group.leader.read(into)? {
                // A counter of a CPU that went offline reads as the end of the file.
                0 => Err(io::ErrorKind::NotConnected.into()),
                length => Ok(length),
            },
        }
    }
}

/// Where the CPU lines end: every other line begins with another letter, and `intr`, which follows them, is
/// as long as all the rest. Looks at one byte a line.
fn cpu_lines_end(text: &[u8]) -> Option<usize> {
    let mut start = 0;
    while text.get(start)? == &b'c' && text.get(start + 1)? == &b'p' {
        start += text[start..].iter().position(|byte| *byte == b'\n')? + 1;
    }
    Some(start)
}

/// How long the first reading is; the file is read to its end, whatever its length.
fn first_length(source: &Source, file: &File) -> io::Result<usize> {
    let mut text = Vec::new();
    let mut file = file;
    file.read_to_end(&mut text)?;
    Ok(match source {
        Source::Stat => cpu_lines_end(&text).unwrap_or(text.len()),
        _ => text.len(),
    })
}

/// Every how many samples a group of so many files is read: within [`MAX_READS_PER_SECOND`], and no more
/// often than `period`.
fn every(files: usize, interval: Nanos, period: Nanos) -> u64 {
    let bound_ns = files as u64 * 1_000_000_000 / MAX_READS_PER_SECOND;
    bound_ns.max(period.get()).div_ceil(interval.get()).clamp(1, u16::MAX.into())
}

/// The numbers behind a prefix in a folder: 0 and 1 of `cpu0`, `cpu1`, `cpuidle`; sorted.
fn numbered(folder: &Path, prefix: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        names(folder).iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The names in a folder, sorted; none where there is no such folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[derive(Debug)]
struct Zone {
    folder: String,
    name: String,
    range_uj: u64,
}

/// The RAPL domains: `intel-rapl:0` is called `package-0`, `intel-rapl:0:0` within it `package-0.core`. The
/// MMIO interface shows the same package again, and is left out.
fn energy_zones(powercap: &Path) -> Vec<Zone> {
    let zone = |folder: String| {
        let text = |file: &str| fs::read_to_string(powercap.join(&folder).join(file)).ok();
        let own = text("name")?.trim().to_owned();
        let range_uj = text("max_energy_range_uj")?.trim().parse().ok()?;
        let parent = folder.rsplit_once(':').map(|(parent, _)| parent.to_owned())?;
        let name = match fs::read_to_string(powercap.join(parent).join("name")) {
            Ok(parent) => format!("{}.{own}", parent.trim()),
            Err(_) => own,
        };
        Some(Zone { folder, name, range_uj })
    };
    names(powercap).into_iter().filter(|name| !name.contains("mmio")).filter_map(zone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_cpu_lines_are_kept() {
        let text = b"cpu  1 2\ncpu0 1 2\nintr 5 6 7\n";
        assert_eq!(cpu_lines_end(text), Some(18));
        assert_eq!(cpu_lines_end(b"cpu  1 2\ncpu0 1"), None);
    }

    #[test]
    fn large_machines_are_read_less_often_and_never_faster_than_the_sampler() {
        let interval = Nanos::from_millis(10);
        assert_eq!(every(2, interval, Nanos::ZERO), 1);
        assert_eq!(every(256, interval, Nanos::ZERO), 9);
        assert_eq!(every(8, interval, IDLE_PERIOD), 10);
        assert_eq!(every(8, Nanos::from_secs(1), IDLE_PERIOD), 1);
        assert_eq!(every(0, interval, Nanos::ZERO), 1);
    }

    #[test]
    fn domains_are_named_with_their_package() {
        let folder = tempfile::tempdir().unwrap();
        for (zone, name) in [
            ("intel-rapl:0", "package-0"),
            ("intel-rapl:0:0", "core"),
            ("intel-rapl:1", "package-1"),
            ("intel-rapl-mmio:0", "package-0"),
        ] {
            fs::create_dir(folder.path().join(zone)).unwrap();
            fs::write(folder.path().join(zone).join("name"), format!("{name}\n")).unwrap();
            fs::write(folder.path().join(zone).join("max_energy_range_uj"), "262143328850\n").unwrap();
        }
        let names: Vec<_> = energy_zones(folder.path()).into_iter().map(|z| z.name).collect();
        assert_eq!(names, ["package-0", "package-0.core", "package-1"]);
    }
}
