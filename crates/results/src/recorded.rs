//! What was recorded, in figures: the end of `flyball record`.

use analysis::server::{WatchedServer, not_measured};
use analysis::words::counted;
use domain::Nanos;
use domain::access::Accesses;
use domain::energy::EnergyAccount;
use domain::finding::NotMeasured;
use domain::ids::RunId;
use domain::inert::Lines;
use domain::outcome::Metric;
use domain::phase::Phase;
use domain::profile::{Interrupts, Profile};
use domain::request::{Op, Served, TIMES_FROM};
use domain::took::Took;
use domain::trace::Role;
use domain::trial::{CpuChange, DiskTotals};
use domain::units::Bytes;
use events::Facts;
use notebook::Recording;
use report::{Wide, use_in_words};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

/// The version of the JSON form of a recording.
const SCHEMA: u32 = 1;

/// How many threads the summary names; `show RUN TRIAL` has them all.
const MAX_THREADS: usize = 5;

/// The width of the table of what CPU time was spent in.
pub(crate) const COLUMNS: usize = 80;

/// As lines; `place` is where it is kept: its run, else its folder.
pub fn recording_text(recording: &Recording, events: Option<&Facts>, place: impl Display) -> Lines {
    let mut text = Lines::default();
    let Recording { duration, recorder, .. } = recording;
    text.line(format_args!(
        "recorded {duration}: {}, {} missed",
        counted(recorder.samples as usize, "sample"),
        recorder.missed
    ));
    let each = recorder.cpu.get() as f64 / recorder.samples.max(1) as f64 / 1e3;
    text.line(format_args!("the recorder itself used {} of CPU time, {each:.0} µs a sample", recorder.cpu));
    text.line(format_args!("frequency from: {}", recorder.frequency.name()));
    if let Some(energy) = &recorder.energy {
        text.line(format_args!("energy from: {}", energy.in_words()));
    }
    if let Some(summed) = recording.environment.get(TIMES_FROM) {
        text.line(format_args!("times of devices from: {summed}"));
    }
    for change in &recorder.cpu_changes {
        text.line(change.in_words());
    }
    for reason in &recorder.absent {
        text.line(format_args!("not recorded: {reason}"));
    }
    text.blank();
    text.line("CPU time by role");
    for role in Role::ALL {
        if let Some(cpu) = recording.roles.get(&role) {
            let share = cpu.get() as f64 / duration.get().max(1) as f64;
            text.line(format_args!("  {:10} {:>9}  {share:.2} CPUs", role.name(), cpu.to_string()));
        }
    }
    text.blank();
    text.line("busiest threads");
    for thread in recording.threads.iter().take(MAX_THREADS) {
        text.line(format_args!(
            "  {:20} {:>9}  {} ({})",
            thread.name,
            thread.cpu.to_string(),
            thread.role,
            thread.tid
        ));
    }
    server(recording, &mut text);
    if !recording.disks.is_empty() {
        text.blank();
        text.line("disks");
    }
    for disk in &recording.disks {
        let (read, written) =
            (Bytes::from_sectors(disk.read_sectors), Bytes::from_sectors(disk.write_sectors));
        text.line(format_args!(
            "  {:10} read {read} in {}, wrote {written} in {}, busy {}",
            disk.device, disk.read_ios, disk.write_ios, disk.busy
        ));
        for given in disk.accesses.iter().flat_map(use_in_words) {
            text.line(format_args!("  {:10} given {given}", ""));
        }
        // With events it stands among what these say.
        for took in disk.served.iter().filter(|_| events.is_none()).filter_map(took_in_words) {
            text.line(format_args!("  {:10} {took}", ""));
        }
    }
    if !recording.phases.is_empty() {
        text.blank();
        text.line("from mark to mark");
        Wide(COLUMNS).phases_text(&recording.phases).lines().for_each(|line| text.line(line));
    }
    if let Some(profile) = recording.profile.as_ref().filter(|profile| profile.all() > 0) {
        text.blank();
        text.line("what it was spent in");
        Wide(COLUMNS).profile_text(profile).lines().for_each(|line| text.line(line));
    }
    if let Some(facts) = events.filter(|facts| !facts.kinds.is_empty()) {
        text.blank();
        text.append(&crate::events::events_text(facts));
    }
    for warning in &recording.warnings {
        text.blank();
        text.line(format_args!("warning: {warning}"));
    }
    text.blank();
    text.line(place);
    text
}

/// `read: queue 3 µs, 99% within 5 µs; service 21 µs, 99% within 60 µs`; `None` where no times are known.
fn took_in_words((op, served): (&Op, &Served)) -> Option<String> {
    let times = [("queue", &served.queue), ("service", &served.service), ("whole", &served.whole)];
    let times: Vec<String> =
        times.into_iter().filter_map(|(name, took)| crate::events::in_words(name, took)).collect();
    (!times.is_empty()).then(|| format!("{}: {}", op.name(), times.join("; ")))
}

/// What the server did that was watched, and what of it could not be measured.
fn server(recording: &Recording, text: &mut Lines) {
    let Some(server) = WatchedServer::of(&recording.environment, &recording.metrics) else { return };
    text.blank();
    text.line(format_args!("server: {}", server.in_words()));
    for (name, metric) in &server.metrics {
        text.line(format_args!("  {name:24} {:>9}", metric.unit.show(metric.value)));
    }
    for NotMeasured { what, why } in not_measured(&recording.environment) {
        text.line(format_args!("  not measured: {what}: {why}"));
    }
}

/// The same as JSON, with a schema version.
pub fn recording_json(
    recording: &Recording,
    events: Option<&Facts>,
    run: Option<&RunId>,
    folder: &Path,
) -> String {
    let roles: serde_json::Map<_, _> =
        recording.roles.iter().map(|(role, cpu)| (role.name().to_owned(), json!(cpu.get()))).collect();
    let metrics = metrics_json(&recording.metrics);
    let value = json!({
        "schema": SCHEMA,
        "run": run.map(|run| &run.0),
        "folder": folder,
        "started": recording.started.iso(),
        "duration_ns": recording.duration.get(),
        "command": recording.command,
        "exit_code": recording.exit_code,
        "metrics": metrics,
        "environment": recording.environment,
        "warnings": recording.warnings,
        "samples": recording.recorder.samples,
        "missed": recording.recorder.missed,
        "recorder_cpu_ns": recording.recorder.cpu.get(),
        "frequency_source": recording.recorder.frequency.name(),
        "energy_source": recording.recorder.energy.as_ref().map(energy_json),
        "cpu_changes": recording.recorder.cpu_changes.iter().map(cpu_change_json).collect::<Vec<_>>(),
        "absent": recording.recorder.absent,
        "role_cpu_ns": roles,
        "disks": recording.disks.iter().map(disk_json).collect::<Vec<_>>(),
        "phases": recording.phases.iter().map(phase_json).collect::<Vec<_>>(),
        "profile": recording.profile.as_ref().map(profile_json),
        "events": events.map(crate::events::events_json),
    });
    format!("{value:#}")
}

fn metrics_json(metrics: &BTreeMap<String, Metric>) -> Value {
    let metric = |metric: &Metric| json!({ "value": metric.value, "unit": metric.unit });
    let all = metrics.iter().map(|(name, found)| (name.clone(), metric(found)));
    all.collect::<serde_json::Map<_, _>>().into()
}

fn energy_json(energy: &EnergyAccount) -> Value {
    json!({ "source": energy.source.name(), "of": energy.of, "readings": energy.readings })
}

fn cpu_change_json(change: &CpuChange) -> Value {
    json!({ "at_ns": change.at.get(), "cpu": change.cpu, "online": change.online })
}

fn phase_json(phase: &Phase) -> Value {
    json!({
        "name": phase.name,
        "begin_ns": phase.begin.get(),
        "end_ns": phase.end.get(),
        "metrics": metrics_json(&phase.metrics),
    })
}

fn disk_json(disk: &DiskTotals) -> Value {
    let accesses = |some: &Accesses| {
        json!({
            "bios": some.bios,
            "sectors": some.sectors,
            "in_order_sectors": some.in_order,
            "ahead": some.ahead,
            "synchronous": some.synchronous,
        })
    };
    let pattern = disk.accesses.as_ref();
    json!({
        "device": disk.device,
        "read_ios": disk.read_ios,
        "read_sectors": disk.read_sectors,
        "write_ios": disk.write_ios,
        "write_sectors": disk.write_sectors,
        "busy_ns": disk.busy.get(),
        "reads": pattern.map(|pattern| accesses(&pattern.reads)),
        "writes": pattern.map(|pattern| accesses(&pattern.writes)),
        "served": disk.served.iter().map(served_json).collect::<Vec<_>>(),
    })
}

fn served_json((op, served): (&Op, &Served)) -> Value {
    let took = |took: &Took| {
        let ns = |time: Option<Nanos>| time.map(Nanos::get);
        json!({
            "count": took.count,
            "mean_ns": ns(took.mean()),
            "p50_ns": ns(took.quantile(0.5)),
            "p99_ns": ns(took.quantile(0.99)),
            "max_ns": (took.count > 0).then_some(took.max.get()),
        })
    };
    json!({
        "op": op.name(),
        "count": served.count,
        "sectors": served.sectors,
        "queue": took(&served.queue),
        "service": took(&served.service),
        "whole": took(&served.whole),
    })
}

fn profile_json(profile: &Profile) -> Value {
    let samples = profile.samples.iter().map(|((role, subsystem), count)| {
        json!({ "role": role.name(), "subsystem": subsystem.name(), "samples": count })
    });
    let inclusive =
        profile.inclusive.iter().map(|(subsystem, count)| (subsystem.name().to_owned(), json!(count)));
    let functions = profile.functions.iter().map(|(name, count)| (name.clone(), json!(count)));
    json!({
        "period_ns": profile.period.get(),
        "lost": profile.lost,
        "samples": samples.collect::<Vec<_>>(),
        "inclusive": inclusive.collect::<serde_json::Map<_, _>>(),
        "functions": functions.collect::<serde_json::Map<_, _>>(),
        "interrupts": profile.interrupts.as_ref().map(interrupts_json),
    })
}

fn interrupts_json(interrupts: &Interrupts) -> Value {
    let held_off =
        interrupts.held_off.iter().map(|(subsystem, count)| (subsystem.name().to_owned(), json!(count)));
    let handlers = interrupts.handlers.iter().map(|(name, time)| (name.clone(), json!(time.get())));
    json!({
        "held_off": held_off.collect::<serde_json::Map<_, _>>(),
        "unsampled": interrupts.unsampled,
        "handlers_ns": handlers.collect::<serde_json::Map<_, _>>(),
    })
}
