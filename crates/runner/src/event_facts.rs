//! The events that were just recorded.

use crate::Error;
use domain::Nanos;
use domain::calls::Calls;
use domain::event_set::Sets;
use domain::inventory::Cpufreq;
use domain::profile::Profile;
use domain::request::{Op, TIMES_FROM};
use domain::spent::Spent;
use domain::trace::Role;
use domain::trial::{DiskTotals, Measurement};
use domain::windows::GovernorWindows;
use events::Facts;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Of fewer requests it is not said that some were not seen: a few begin before, or end behind.
const LEAST_COMPARED: u64 = 1000;

/// The size of reads from the file.
const READ_BYTES: usize = 1 << 20;

/// The events of a trial: which are recorded, and where.
#[derive(Clone, Debug)]
pub struct TrialEvents {
    /// Which.
    pub sets: Sets,
    /// Their file.
    pub file: PathBuf,
    /// Whether the file stays, or what follows from it alone.
    pub is_kept: bool,
}

impl TrialEvents {
    /// Adds what the events say to what was measured while they were recorded, and removes their file where
    /// it does not stay. `cpufreq` is what the frequency policies were meanwhile.
    pub(crate) fn add_to(&self, measurement: &mut Measurement, cpufreq: Option<&Cpufreq>) {
        let warnings = &mut measurement.outcome.warnings;
        match read(&self.file) {
            Ok(mut facts) => {
                warnings.extend(loss(&facts));
                let sums = Sums::taken_from(&mut facts, &mut measurement.disks, cpufreq);
                measurement.profile = sums.profile;
                measurement.windows = sums.windows;
                measurement.spent = sums.spent;
                measurement.calls = sums.calls;
            }
            Err(error) => warnings.push(format!("nothing is known of events: {error}")),
        }
        if !self.is_kept {
            // It goes with the trial's other files where it cannot be removed.
            let _ = std::fs::remove_file(&self.file);
        }
    }
}

/// What is kept of events with a trial, besides what each disk gets.
#[derive(Debug)]
pub struct Sums {
    /// What CPU time was spent in.
    pub profile: Option<Profile>,
    /// How busy CPUs were between two samples of their governors.
    pub windows: Option<GovernorWindows>,
    /// What threads spent their time on, by role.
    pub spent: BTreeMap<Role, Spent>,
    /// System calls, and what filesystems made of them.
    pub calls: Option<Calls>,
}

impl Sums {
    /// Takes them from the facts; each disk gets how it was used, and how long what it was asked for took.
    /// `cpufreq` is what the frequency policies were meanwhile.
    pub fn taken_from(facts: &mut Facts, disks: &mut [DiskTotals], cpufreq: Option<&Cpufreq>) -> Self {
        for disk in disks {
            disk.accesses = facts.accesses.get(&disk.device).copied();
            let own =
                facts.devices.iter().filter(|((device, _), done)| *device == disk.device && done.count > 0);
            disk.passage = facts.passages.get(&disk.device).cloned();
            disk.served = own.map(|((_, op), done)| (*op, done.served())).collect();
            let summed = facts.served.iter().filter(|((device, _), _)| *device == disk.device);
            disk.served.extend(summed.map(|((_, op), served)| (*op, served.clone())));
        }
        let windows = std::mem::take(&mut facts.windows);
        let spent = facts.roles.iter().filter(|(_, spent)| spent.all() > Nanos::ZERO);
        Self {
            profile: facts.profile.take(),
            calls: facts.calls.clone(),
            windows: cpufreq.and_then(|cpufreq| GovernorWindows::of(windows, &facts.policies, cpufreq)),
            spent: spent.map(|(role, spent)| (*role, *spent)).collect(),
        }
    }
}

/// What says, as [`TIMES_FROM`], by what was summed up how long devices took.
pub fn times_from(facts: &Facts) -> Option<(String, String)> {
    (!facts.served.is_empty()).then(|| (TIMES_FROM.to_owned(), "BPF, summed up in the kernel".to_owned()))
}

/// Of which disks the programs that sum up did not see all requests that the disk counted, of which there are
/// some. An interrupt that completes one just when another program runs on its CPU is not seen.
pub fn unseen(facts: &Facts, disks: &[DiskTotals]) -> Vec<String> {
    let of_disk = |disk: &DiskTotals| {
        let own = [Op::Read, Op::Write].map(|op| facts.served.get(&(disk.device.clone(), op)));
        let of_requests = own.into_iter().flatten().filter(|served| served.whole.count == 0);
        let seen: u64 = of_requests.map(|served| served.count).sum();
        let all = disk.read_ios.saturating_add(disk.write_ios);
        let lacks = seen > 0 && all >= LEAST_COMPARED && seen.saturating_mul(100) < all.saturating_mul(99);
        lacks.then(|| format!("{} of the {all} requests of {}: their times", all - seen, disk.device))
    };
    disks.iter().filter_map(of_disk).collect()
}

/// Reads the events, names the functions that kworkers executed, and adds the names to the file: by then it
/// needs no kernel to be read. It is on the disk when this returns.
///
/// # Errors
/// Where the file cannot be read or written.
pub fn read(path: &Path) -> Result<Facts, Error> {
    let failed =
        |source: Box<dyn std::error::Error + Send + Sync>| Error::Events { path: path.to_owned(), source };
    let mut names = BTreeMap::new();
    let open = || Ok(BufReader::with_capacity(READ_BYTES, File::open(path)?));
    let facts = Facts::read_naming(open, |addresses| {
        names = recorder::functions_at(Path::new("/proc"), addresses);
        names.clone()
    });
    let facts = facts.map_err(|error| failed(error.into()))?;
    // Behind a frame that is torn nothing can be read.
    if facts.is_whole {
        recorder::name_functions(path, &names).map_err(|error| failed(error.into()))?;
    }
    File::open(path).and_then(|file| file.sync_all()).map_err(|error| failed(error.into()))?;
    Ok(facts)
}

/// What is to be said of a recording that lacks events.
pub fn loss(facts: &Facts) -> Option<String> {
    let mut lacks = Vec::new();
    if facts.announced > 0 {
        lacks.push(format!(
            "{} events were lost, for their ring was full: a shorter interval drains it more often",
            facts.announced
        ));
    }
    if facts.unannounced() > 0 {
        lacks.push(format!(
            "{} events fired of which the kernel wrote no record and announced no loss (`perf record` does not see them either)",
            facts.unannounced()
        ));
    }
    for (cpu, unseen) in facts.unseen_switches() {
        lacks.push(format!("at least {unseen} switches of CPU {cpu} were not even counted by the kernel"));
    }
    if !facts.is_whole {
        lacks.push(format!("the events end after {}: what came then is not known", facts.span));
    }
    let follows = "what follows a loss is unknown until it is seen again";
    (!lacks.is_empty()).then(|| format!("{}; {follows}", lacks.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::request::Served;

    #[test]
    fn a_disk_whose_requests_were_not_all_seen_is_named() {
        let disk = |device: &str, read_ios| DiskTotals {
            device: device.to_owned(),
            read_ios,
            read_sectors: 0,
            write_ios: 0,
            write_sectors: 0,
            busy: Nanos::ZERO,
            accesses: None,
            served: BTreeMap::new(),
            passage: None,
        };
        let served = |count| Served { count, ..Served::default() };
        let mut layer = served(1);
        layer.whole.add(1);
        let facts = Facts {
            served: [("a", served(9_899)), ("b", served(9_950)), ("c", served(90)), ("md0", layer)]
                .map(|(device, served)| ((device.to_owned(), Op::Read), served))
                .into(),
            ..Facts::default()
        };
        let disks =
            [disk("a", 10_000), disk("b", 10_000), disk("c", 100), disk("md0", 10_000), disk("d", 10_000)];
        assert_eq!(unseen(&facts, &disks), ["101 of the 10000 requests of a: their times"]);
        assert_eq!(times_from(&facts).unwrap().0, TIMES_FROM);
        assert_eq!(times_from(&Facts::default()), None);
    }

    #[test]
    fn events_that_end_early_are_told_among_the_warnings() {
        let whole = Facts { is_whole: true, ..Facts::default() };
        assert_eq!(loss(&whole), None);
        let cut = Facts { span: Nanos::from_millis(1500), ..Facts::default() };
        let said = loss(&cut).expect("it is said");
        assert!(said.starts_with("the events end after 1.5 s"), "{said}");
    }
}
