//! Of a recording, what its one trial has.

use super::calls::calls_of;
use super::layers::{BECAME, BECAME_NOTE, BECAME_TITLE, TIMES, TIMES_NOTE, TIMES_TITLE, layers_of};
use super::phases::{PHASES_TITLE, phases};
use super::profile::profile;
use super::waits::{SERVED_NOTE, SERVED_TITLE, served_of};
use super::windows::{WINDOWS_TITLE, windows};
use super::{heading, item, paragraph, table};
use crate::Report;
use crate::cpu_share::{notable, shown};
use crate::document::{Block, Table};
use crate::wording::percent;
use domain::Nanos;
use domain::access::{AccessPattern, Accesses};
use domain::outcome::Metric;
use domain::trace::Role;
use domain::trial::{DiskTotals, Measurement, ThreadTime};
use domain::units::Bytes;

/// Of a recording, what its one trial has: figures, CPU time by role, the busiest threads and the disks.
pub(super) fn recorded(report: &Report) -> Vec<Block> {
    let warnings = report.data.trials.iter().filter_map(|trial| trial.measurement.as_ref());
    let warnings = warnings.flat_map(|measured| &measured.outcome.warnings);
    let warnings: Vec<Block> = warnings.map(|warning| item(format!("warning: {warning}"))).collect();
    let titled = |(title, blocks): (&'static str, Vec<Block>)| [vec![heading(title)], blocks].concat();
    warnings.into_iter().chain(recorded_parts(report).into_iter().flat_map(titled)).collect()
}

/// The same, each part with its title.
pub(crate) fn recorded_parts(report: &Report) -> Vec<(&'static str, Vec<Block>)> {
    let measured = report.data.trials.iter().find_map(|trial| trial.measurement.as_ref());
    let Some(measurement) = measured else { return Vec::new() };
    let of = |table: Option<Table>| table.map(Block::Table).into_iter().collect();
    let layers = |columns, note| {
        let table = layers_of(measurement, columns);
        table.map(|table| vec![Block::Table(table), paragraph(note)]).unwrap_or_default()
    };
    let served = served_of(measurement).map(|table| vec![Block::Table(table), paragraph(SERVED_NOTE)]);
    let parts: [(&str, Vec<Block>); 10] = [
        ("Figures", of(figures(measurement))),
        (PHASES_TITLE, of(phases(&measurement.phases))),
        ("Whose CPU time it was", of(roles(measurement))),
        ("What it was spent in", measurement.profile.as_ref().map(profile).unwrap_or_default()),
        (WINDOWS_TITLE, measurement.windows.as_ref().map(windows).unwrap_or_default()),
        ("The busiest threads", of(threads(measurement))),
        (
            "What each block device did, layers above disks included",
            [of(disks(measurement)), uses(measurement)].concat(),
        ),
        (SERVED_TITLE, served.unwrap_or_default()),
        (BECAME_TITLE, layers(&BECAME, BECAME_NOTE)),
        (TIMES_TITLE, layers(&TIMES, TIMES_NOTE)),
    ];
    let calls = measurement.calls.as_ref().map(|calls| calls_of(calls, measurement.duration));
    let parts = parts.into_iter().filter(|(_, blocks)| !blocks.is_empty());
    parts.chain(calls.into_iter().flatten()).collect()
}

/// How many threads a recording's report names; its trial has more.
const MAX_THREADS: usize = 8;

fn figures(measurement: &Measurement) -> Option<Table> {
    let row = |(name, metric): (&String, &Metric)| vec![name.clone(), metric.unit.show(metric.value)];
    let rows: Vec<_> = measurement.outcome.metrics.iter().map(row).collect();
    (!rows.is_empty()).then(|| table(&["metric", "value"], &[1], rows))
}

fn roles(measurement: &Measurement) -> Option<Table> {
    let cores = |cpu: &Nanos| cpu.secs() / measurement.duration.secs();
    let all: Vec<(Role, f64)> = measurement.roles.iter().map(|(role, cpu)| (*role, cores(cpu))).collect();
    let row = |(role, cores): &(Role, f64)| {
        vec![role.to_string(), measurement.roles[role].to_string(), shown(*cores)]
    };
    let rows: Vec<_> = notable(&all).map(row).collect();
    (!rows.is_empty()).then(|| table(&["role", "CPU time", "CPUs"], &[1, 2], rows))
}

fn threads(measurement: &Measurement) -> Option<Table> {
    let row = |thread: &ThreadTime| {
        vec![thread.name.clone(), thread.cpu.to_string(), thread.role.to_string(), thread.tid.to_string()]
    };
    let rows: Vec<_> = measurement.threads.iter().take(MAX_THREADS).map(row).collect();
    (!rows.is_empty()).then(|| table(&["thread", "CPU time", "role", "id"], &[1, 3], rows))
}

/// `reads of 16 KiB, 98% in order, for the page cache`: what a device was given, before requests are
/// merged; one for each direction that it was used in.
pub fn use_in_words(pattern: &AccessPattern) -> Vec<String> {
    let AccessPattern { reads, writes } = pattern;
    let of = |accesses: &Accesses, what: &str, cached: &str, is_cached: bool| {
        let size = accesses.mean().filter(|_| accesses.bios > 0)?;
        let order = percent(accesses.share_in_order());
        let by = if is_cached { cached } else { "direct or waited for" };
        Some(format!("{what} of {size}, {order} in order, {by}"))
    };
    let reads = of(reads, "reads", "for the page cache", reads.share_ahead() >= Some(0.5));
    let writes = of(writes, "writes", "by writing back", writes.share_synchronous() < Some(0.5));
    reads.into_iter().chain(writes).collect()
}

fn disks(measurement: &Measurement) -> Option<Table> {
    let row = |disk: &DiskTotals| {
        let share = disk.busy.secs() / measurement.duration.secs();
        vec![
            disk.device.clone(),
            Bytes::from_sectors(disk.read_sectors).to_string(),
            disk.read_ios.to_string(),
            Bytes::from_sectors(disk.write_sectors).to_string(),
            disk.write_ios.to_string(),
            percent(Some(share.min(1.0)).filter(|share| share.is_finite())),
        ]
    };
    let rows: Vec<_> = measurement.disks.iter().map(row).collect();
    let head = ["device", "read", "reads", "written", "writes", "busy"];
    (!rows.is_empty()).then(|| table(&head, &[1, 2, 3, 4, 5], rows))
}

/// How each device was used, where that was recorded.
fn uses(measurement: &Measurement) -> Vec<Block> {
    let used = |disk: &DiskTotals| {
        let words = disk.accesses.as_ref().map(use_in_words).unwrap_or_default();
        (!words.is_empty()).then(|| item(format!("{} was given {}", disk.device, words.join("; "))))
    };
    measurement.disks.iter().filter_map(used).collect()
}
