//! What all forms say of a run in the lab: the machine, what its CPUs did, whether the lab kept its pace, and
//! what its time dilation leaves as it is.

use crate::Report;
use crate::wording::{counted, levels, percent};
use analysis::stats::quantile::median;
use analysis::summary::CellSummary;
use domain::lab::{ENERGY_MODELLED, LabAccount, Matters, Pacing, StateRecord, UNSCALED};
use domain::time::Nanos;
use domain::trace::Role;
use domain::trial::{Provenance, Trial};
use domain::units::Hertz;
use std::collections::BTreeSet;

/// The title of the table of times in states.
pub(crate) const STATES_TITLE: &str = "Time in each P-state, all virtual CPUs together";

/// The title of what is said of the lab's pace.
pub(crate) const PACE_TITLE: &str = "How well the lab kept its pace";

/// The register by which a guest leaves the choice of the frequency to an Intel processor.
const IA32_HWP_REQUEST: u32 = 0x774;

/// A disk whose mean request takes this long, in the guest, comes near to timeouts of the kernel.
const SLOW_REQUEST: Nanos = Nanos::from_secs(1);

fn accounts<'a>(report: &Report<'a>) -> impl Iterator<Item = &'a LabAccount> {
    report.data.trials.iter().filter_map(|trial| trial.lab.as_ref())
}

fn pacings<'a>(report: &Report<'a>) -> impl Iterator<Item = &'a Pacing> {
    accounts(report).filter_map(|account| account.pacing.as_ref())
}

/// The lab machine in one line; `None` for a run of any other.
pub(crate) fn machine(report: &Report) -> Option<String> {
    if report.data.run.provenance != Provenance::Lab {
        return None;
    }
    let mut cpus = counted(report.data.study.lab.vcpus as usize, "virtual CPU");
    let seen = frequencies(report);
    match (seen.first(), seen.last()) {
        (Some(high), Some(low)) if high != low => {
            cpus += &format!(" seen in {} P-states from {low} to {high}", seen.len());
        }
        (Some(only), _) => cpus += &format!(" at {only}"),
        (None, _) => cpus += " without a pace of its own",
    }
    let kernels: BTreeSet<&str> =
        report.data.trials.iter().filter_map(|t| t.environment.get("kernel")).map(String::as_str).collect();
    let mut parts = vec![cpus];
    parts.extend(kernels.into_iter().map(|kernel| format!("Linux {kernel}")));
    parts.extend(
        dilation(report).map(|d| format!("time dilation {d}: times and rates are in the machine's own time")),
    );
    let slowed = accounts(report).map(|account| account.slowed).fold(1.0, f64::max);
    if slowed > 1.0 {
        parts.push(format!(
            "a clock {slowed} times slower than the host's: all times are in the machine's own time"
        ));
    }
    Some(format!("lab: {}", parts.join(", ")))
}

/// The largest time dilation of the run; `None` where it is 1.
pub(crate) fn dilation(report: &Report) -> Option<f64> {
    let most = accounts(report).map(|account| account.dilation).fold(1.0, f64::max);
    (most > 1.0).then_some(most)
}

/// The frequencies that the virtual CPUs were at, fastest first.
fn frequencies(report: &Report) -> Vec<Hertz> {
    let all: BTreeSet<Hertz> = pacings(report)
        .flat_map(Pacing::states)
        .filter(|s| s.time > Nanos::ZERO)
        .map(|s| s.frequency)
        .collect();
    all.into_iter().rev().collect()
}

/// The times in states of the cells.
pub(crate) struct States<'a> {
    /// Fastest first.
    pub frequencies: Vec<Hertz>,
    /// Cell, share of the time in each of the frequencies, share of the time not idle; over its valid trials.
    pub rows: Vec<(&'a CellSummary, Vec<f64>, f64)>,
}

/// The times in states of the cells that were paced; `None` where none was.
pub(crate) fn states<'a>(report: &Report<'a>) -> Option<States<'a>> {
    let frequencies = frequencies(report);
    let row = |cell: &'a CellSummary| {
        let valid = |trial: &&Trial| trial.key.cell == cell.cell && trial.validity.is_valid();
        let trials = report.data.trials.iter().filter(valid);
        let all: Vec<StateRecord> =
            trials.filter_map(|trial| trial.lab.as_ref()?.pacing.as_ref()).flat_map(Pacing::states).collect();
        let seconds = |of: fn(&StateRecord) -> Nanos, at: Option<Hertz>| -> f64 {
            let there = all.iter().filter(|s| at.is_none_or(|at| s.frequency == at));
            there.fold(0.0, |sum, s| sum + of(s).secs())
        };
        let whole = seconds(|s| s.time, None);
        let shares = frequencies.iter().map(|f| seconds(|s| s.time, Some(*f)) / whole).collect();
        (whole > 0.0).then(|| (cell, shares, seconds(|s| s.busy, None) / whole))
    };
    let rows: Vec<_> = report.summary.cells.iter().filter_map(row).collect();
    (!rows.is_empty()).then_some(States { frequencies, rows })
}

impl States<'_> {
    /// The head of the table.
    pub fn head(&self) -> Vec<String> {
        let name = |f: &Hertz| {
            let short = f.to_string();
            let is_alone = self.frequencies.iter().filter(|other| other.to_string() == short).count() == 1;
            // ACPI's turbo is a state of 1 MHz more than the base frequency.
            if is_alone { short } else { format!("{:.0} MHz", f.mhz()) }
        };
        let frequencies = self.frequencies.iter().map(name);
        std::iter::once("cell".to_owned()).chain(frequencies).chain(["not idle".to_owned()]).collect()
    }

    /// Its rows, in words; nothing for a frequency at which a cell never was, such as one of another driver.
    pub fn table(&self, report: &Report) -> Vec<Vec<String>> {
        let share = |share: &f64| if *share == 0.0 { String::new() } else { percent(Some(*share)) };
        let row = |(cell, shares, busy): &(&CellSummary, Vec<f64>, f64)| {
            let name = match cell.levels.is_empty() {
                true => cell.workload.clone(),
                false => format!("{} · {}", cell.workload, levels(report, cell)),
            };
            std::iter::once(name).chain(shares.iter().map(share)).chain([share(busy)]).collect()
        };
        self.rows.iter().map(row).collect()
    }
}

/// How far CPUs and disks fell behind, over all trials, also those that are not counted for it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Lateness {
    /// Share of the paced time by which the worst virtual CPU of a trial was late: median and most.
    pub cpus: Option<(f64, f64)>,
    /// Mean lateness of a disk's answer and the latest, in the guest's time.
    pub disks: Option<(Nanos, Nanos)>,
}

pub(crate) fn lateness(report: &Report) -> Lateness {
    let cpus: Vec<f64> = pacings(report).filter_map(Pacing::lateness).collect();
    let disks: Vec<_> = accounts(report).flat_map(|account| &account.disks).collect();
    let requests: u64 = disks.iter().map(|disk| disk.requests).sum();
    let late: u64 = disks.iter().map(|disk| disk.late.get()).sum();
    let latest = disks.iter().map(|disk| disk.latest).max();
    Lateness {
        cpus: median(&cpus).map(|middle| (middle, cpus.iter().copied().fold(0.0, f64::max))),
        disks: late.checked_div(requests).zip(latest).map(|(mean, latest)| (Nanos::new(mean), latest)),
    }
}

/// The same in sentences.
pub(crate) fn pace(report: &Report) -> Vec<String> {
    let Lateness { cpus, disks } = lateness(report);
    let cpus = cpus.map(|(median, most)| {
        format!(
            "Virtual CPUs fell behind their pace by {} of a trial's time in the median, by {} at the most.",
            percent(Some(median)),
            percent(Some(most))
        )
    });
    let disks = disks.map(|(mean, latest)| {
        format!("Modelled disks answered {mean} late in the mean, {latest} at the most, in the guest's time.")
    });
    cpus.into_iter().chain(disks).collect()
}

/// That an energy is modelled, where one is shown.
pub(crate) fn energy_note(report: &Report) -> Option<&'static str> {
    let metrics = report.data.trials.iter().filter_map(|trial| trial.measurement.as_ref());
    let mut names = metrics.flat_map(|m| m.outcome.metrics.keys());
    names.any(|name| name == ENERGY_MODELLED).then_some(
        "The energy is modelled, not measured: the watts of the table of P-states over the time that the virtual CPUs spent in them.",
    )
}

/// What the time dilation leaves as it is, of what matters to this run; the dilation is said in the title.
pub(crate) fn unscaled(report: &Report) -> Option<(String, Vec<&'static str>)> {
    let d = dilation(report)?;
    let matter = UNSCALED.iter().filter(|one| report.data.trials.iter().any(|t| matters(one.matters, t)));
    let title = format!("What the time dilation of {d} does not stretch: it is {d} times too short here");
    Some((title, matter.map(|one| one.what).collect()))
}

/// Whether the trial's processor chose its frequency by itself.
fn has_hwp(trial: &Trial) -> bool {
    let cpus =
        trial.lab.iter().filter_map(|account| account.pacing.as_ref()).flat_map(|pacing| &pacing.vcpus);
    cpus.into_iter().flat_map(|cpu| &cpu.requests).any(|request| request.register == IA32_HWP_REQUEST)
}

fn matters(to: Matters, trial: &Trial) -> bool {
    let worked = |role: Role| {
        let roles = trial.measurement.as_ref().map(|m| &m.roles);
        roles.and_then(|roles| roles.get(&role)).is_some_and(|cpu| *cpu > Nanos::ZERO)
    };
    let environment = |name: &str| trial.environment.get(name).map_or("", String::as_str);
    match to {
        Matters::Always => true,
        Matters::Governor(name) => {
            let set = trial.settings.iter().any(|s| s.setting.name == "governor" && s.got == name);
            set || environment("governor").contains(name)
        }
        // With HWP the processor decides, and the kernel samples nothing.
        Matters::Driver(name) => environment("cpufreq_driver") == name && !has_hwp(trial),
        Matters::Journal => worked(Role::Journal) || ["ext3", "ext4"].contains(&environment("filesystem")),
        Matters::Array => {
            let is_array = |device: &str| {
                device.strip_prefix("md").is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()))
            };
            worked(Role::Array) || environment("devices").split(" > ").any(is_array)
        }
        Matters::Writeback => worked(Role::Writeback),
        Matters::SlowDisks => {
            let disks = trial.lab.iter().flat_map(|account| &account.disks);
            disks
                .into_iter()
                .any(|d| d.modelled.get().checked_div(d.requests).is_some_and(|ns| ns >= SLOW_REQUEST.get()))
        }
    }
}
