//! One trial: what it was, its figures, its commands, the settings during it and the machine's state.

use super::phases::{PHASES_TITLE, phases};
use super::profile::profile;
use super::windows::{WINDOWS_TITLE, windows};
use super::{command, heading, item, lines, paragraph, table, titled_table};
use crate::cpu_share::{notable, shown};
use crate::document::Block;
use crate::wording::{command_line, counted, standing, why_not_counted};
use crate::{simulation, states};
use analysis::facts::residency::Residency;
use domain::Nanos;
use domain::lab::{LabAccount, StateRecord};
use domain::setting::SettingRecord;
use domain::trace::Role;
use domain::trial::{CpuChange, Measurement, Origin, Trial};
use domain::units::Unit;

/// A trial as a document, with what its trace says of frequencies and states.
pub(crate) fn trial(trial: &Trial, residency: &Residency) -> Vec<Block> {
    let environment = trial.environment.iter().map(|(name, value)| format!("{name}: {value}"));
    [
        which(trial),
        trial.measurement.as_ref().map_or_else(Vec::new, |measurement| measured(trial, measurement)),
        in_states(residency),
        trial.lab.as_ref().map_or_else(Vec::new, from_outside),
        settings(&trial.settings),
        vec![heading("Environment"), lines(environment)],
    ]
    .concat()
}

fn which(trial: &Trial) -> Vec<Block> {
    let mut blocks =
        vec![paragraph(format!("{} of {}: {}", trial.key.folder(), trial.run, standing(&trial.validity)))];
    if !trial.validity.is_valid() {
        blocks.push(item(why_not_counted(&trial.validity)));
    }
    if trial.is_under_load() {
        let beside = trial.measurement.iter().flat_map(|measured| &measured.disturbances);
        blocks.extend(beside.map(|load| item(format!("under load: {}", load.detail))));
    }
    let (when, provenance) = (trial.started.iso(), trial.provenance);
    blocks.push(paragraph(match simulation::of(provenance) {
        Some(note) => format!("computed {when}. {note}"),
        None => format!("measured {when} on {}", provenance.name()),
    }));
    blocks.extend(trial.origin.as_ref().map(|origin| paragraph(imported(origin))));
    if !trial.levels.is_empty() {
        let levels: Vec<String> =
            trial.levels.iter().map(|(factor, level)| format!("{factor} {level}")).collect();
        blocks.push(paragraph(levels.join(", ")));
    }
    blocks
}

fn imported(Origin { tool, version, file, sha256 }: &Origin) -> String {
    let version = version.as_ref().map_or(String::new(), |version| format!(" {version}"));
    format!("imported from {file}, written by {tool}{version}; SHA-256 {sha256}")
}

fn measured(trial: &Trial, measurement: &Measurement) -> Vec<Block> {
    [
        outcome(measurement),
        marked(measurement),
        roles(measurement),
        spent_in(measurement),
        governor(measurement),
        recorder(measurement),
        commands(trial, measurement),
    ]
    .concat()
}

fn outcome(measurement: &Measurement) -> Vec<Block> {
    let metrics = measurement.outcome.metrics.iter();
    let rows = metrics.map(|(name, metric)| vec![name.clone(), metric.unit.show(metric.value)]).collect();
    let mut blocks = vec![heading("Outcome"), Block::Table(table(&["metric", "value"], &[1], rows))];
    let warnings = measurement.outcome.warnings.iter();
    blocks.extend(warnings.map(|warning| item(format!("warning: {warning}"))));
    blocks
}

fn marked(measurement: &Measurement) -> Vec<Block> {
    let table = phases(&measurement.phases);
    table.map(|table| vec![heading(PHASES_TITLE), Block::Table(table)]).unwrap_or_default()
}

fn roles(measurement: &Measurement) -> Vec<Block> {
    let cores = |cpu: Nanos| cpu.secs() / measurement.duration.secs();
    let roles: Vec<(Role, f64)> = measurement.roles.iter().map(|(role, cpu)| (*role, cores(*cpu))).collect();
    let row = |(role, cores): &(Role, f64)| {
        vec![role.to_string(), measurement.roles[role].to_string(), shown(*cores)]
    };
    let rows = notable(&roles).map(row).collect();
    titled_table("CPU time by role", &["role", "CPU time", "cores"], &[1, 2], rows)
}

fn spent_in(measurement: &Measurement) -> Vec<Block> {
    let blocks = measurement.profile.as_ref().map(profile).unwrap_or_default();
    if blocks.is_empty() { blocks } else { [vec![heading("What it was spent in")], blocks].concat() }
}

fn governor(measurement: &Measurement) -> Vec<Block> {
    let blocks = measurement.windows.as_ref().map(windows).unwrap_or_default();
    if blocks.is_empty() { blocks } else { [vec![heading(WINDOWS_TITLE)], blocks].concat() }
}

fn in_states(residency: &Residency) -> Vec<Block> {
    let titled = |(title, table)| [heading(format!("{title}, by the trace")), Block::Table(table)];
    states::tables(residency).into_iter().flat_map(titled).collect()
}

fn recorder(measurement: &Measurement) -> Vec<Block> {
    let Some(recorder) = &measurement.recorder else { return Vec::new() };
    let recorded = paragraph(format!(
        "recorded {} ({} missed) for {} of CPU time; frequency from: {}",
        counted(recorder.samples as usize, "sample"),
        recorder.missed,
        recorder.cpu,
        recorder.frequency.name()
    ));
    let energy = recorder.energy.as_ref().map(|energy| item(format!("energy from: {}", energy.in_words())));
    let changes = recorder.cpu_changes.iter().map(|change| item(change_in_words(change)));
    let absent = recorder.absent.iter().map(|reason| item(format!("not recorded: {reason}")));
    [Block::Gap, recorded].into_iter().chain(energy).chain(changes).chain(absent).collect()
}

/// `CPU 3 went offline at 1.20 s; what is summed of it ends there`.
fn change_in_words(change: &CpuChange) -> String {
    let what = if change.online { "begins" } else { "ends" };
    format!("{}; what is summed of it {what} there", change.in_words())
}

fn commands(trial: &Trial, measurement: &Measurement) -> Vec<Block> {
    let title = match &trial.lab {
        Some(account) if account.dilation != 1.0 => "Commands, in the guest's time",
        _ => "Commands",
    };
    let commands = measurement.commands.iter().map(|argv| command(command_line(argv)));
    match measurement.commands.is_empty() {
        true => Vec::new(),
        false => std::iter::once(heading(title)).chain(commands).collect(),
    }
}

/// What the lab knows of a trial, in the guest's time.
fn from_outside(account: &LabAccount) -> Vec<Block> {
    let title = format!("From outside the guest, in its time; time dilation {}", account.dilation);
    let mut blocks = vec![heading(title)];
    for cpu in account.pacing.iter().flat_map(|pacing| &pacing.vcpus) {
        let row = |s: &StateRecord| vec![s.frequency.to_string(), s.time.to_string(), s.busy.to_string()];
        let (changes, late) = (counted(cpu.transitions_total as usize, "change"), cpu.late);
        let rows = cpu.states.iter().map(row).collect();
        blocks.extend([
            item(format!("virtual CPU {}: {changes} of frequency, {late} late", cpu.cpu)),
            Block::Table(table(&["P-state", "time", "not idle"], &[0, 1, 2], rows)),
        ]);
    }
    let energy = account.pacing.as_ref().and_then(|pacing| pacing.energy);
    blocks.extend(energy.map(|e| item(format!("energy, modelled: {}", Unit::Joules.show(e.joules())))));
    blocks.extend(account.disks.iter().map(|disk| {
        let requests = counted(disk.requests as usize, "request");
        let (modelled, late, latest) = (disk.modelled, disk.late, disk.latest);
        item(format!(
            "disk {}: {requests} of {modelled} together, {late} late together, {latest} at the most",
            disk.disk
        ))
    }));
    blocks
}

fn settings(settings: &[SettingRecord]) -> Vec<Block> {
    let after = |s: &SettingRecord| s.after.clone().unwrap_or_else(|| "–".into());
    let row = |s: &SettingRecord| {
        vec![s.setting.to_string(), s.before.clone(), s.asked.clone(), s.got.clone(), after(s)]
    };
    let rows = settings.iter().map(row).collect();
    titled_table("Settings", &["setting", "before", "asked", "got", "after"], &[], rows)
}
