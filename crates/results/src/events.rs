//! What the events of a recording say, in a few lines.

use crate::error::{Error, Result};
use domain::Nanos;
use domain::calls::{Call, Called, Queued};
use domain::ids::{RunId, TrialKey};
use domain::inert::Lines;
use domain::order;
use domain::passage::{Given, Passage, Passed};
use domain::request::Op;
use domain::took::Took;
use domain::trace::Role;
use domain::units::Bytes;
use events::Facts;
use events::facts::{Counted, Done, Spent, Wait};
use notebook::Notebook;
use report::Wide;
use serde_json::{Value, json};
use std::io::{self, BufReader};

/// How many threads, functions of kworkers and devices are named.
const MAX_THREADS: usize = 5;
const MAX_WORK: usize = 4;
const MAX_DEVICES: usize = 12;

/// Of how many CPUs it is told how busy each was.
const MAX_CPUS: usize = 16;

/// The size of reads from the file.
const READ_BYTES: usize = 1 << 20;

/// Reads the events of a trial; `None` where none were recorded.
///
/// # Errors
/// Where they cannot be read.
pub fn events_of(notebook: &Notebook, run: &RunId, key: &TrialKey) -> Result<Option<Facts>> {
    if notebook.events_file(run, key)?.is_none() {
        return Ok(None);
    }
    let open = || {
        let file = notebook.events_file(run, key).map_err(io::Error::other)?;
        let file = file.ok_or_else(|| io::Error::other("the file is gone"))?;
        Ok(BufReader::with_capacity(READ_BYTES, file))
    };
    let facts = Facts::read(open);
    Ok(Some(facts.map_err(|error| Error::Events { run: run.clone(), error })?))
}

/// As lines.
pub fn events_text(facts: &Facts) -> Lines {
    let mut text = Lines::default();
    text.line(format_args!("events in {}: {} recorded, {}", facts.span, facts.all_recorded(), lost(facts)));
    if !facts.is_whole {
        text.line("  the recording of events was not ended properly: what it lost is not known");
    }
    for kinds in kinds(facts).chunks(5) {
        text.line(format_args!("  {}", kinds.join(", ")));
    }
    cpus(facts, &mut text);
    tasks(facts, &mut text);
    work(facts, &mut text);
    devices(facts, &mut text);
    if let Some(calls) = &facts.calls {
        text.blank();
        Wide(crate::recorded::COLUMNS).calls_text(calls, facts.span).lines().for_each(|line| text.line(line));
    }
    text
}

fn lost(facts: &Facts) -> String {
    let all = facts.all_lost();
    if all == 0 {
        return "0 lost".to_owned();
    }
    let by_cpu: Vec<String> = facts.lost.iter().map(|(cpu, lost)| format!("{lost} on CPU {cpu}")).collect();
    format!("{all} lost: {}", by_cpu.join(", "))
}

/// Each kind that there were events of, the most first: `sched_switch 4711`.
fn kinds(facts: &Facts) -> Vec<String> {
    let mut kinds: Vec<(&String, &Counted)> =
        facts.kinds.iter().filter(|(_, counted)| counted.recorded + counted.lost > 0).collect();
    order::by_key(&mut kinds, |(_, counted)| std::cmp::Reverse(counted.recorded));
    let short = |name: &str| name.split_once('/').map_or(name, |(_, name)| name).to_owned();
    let told = |(name, counted): (&String, &Counted)| match counted.lost {
        0 => format!("{} {}", short(name), counted.recorded),
        lost => format!("{} {} ({lost} lost)", short(name), counted.recorded),
    };
    kinds.into_iter().map(told).collect()
}

fn cpus(facts: &Facts, text: &mut Lines) {
    let share = |ns: u64| 100.0 * ns as f64 / facts.span.get().max(1) as f64;
    let seen = facts.cpus.iter().filter(|(_, cpu)| cpu.busy_ns + cpu.idle_ns > 0);
    let busy: Vec<String> =
        seen.take(MAX_CPUS).map(|(number, cpu)| format!("CPU {number} {:.0}%", share(cpu.busy_ns))).collect();
    if !busy.is_empty() {
        text.line(format_args!("  busy: {}", busy.join(", ")));
    }
}

/// A table of roles, each with those of the busiest threads that worked for it; 80 columns wide.
fn tasks(facts: &Facts, text: &mut Lines) {
    if facts.roles.is_empty() {
        return;
    }
    let waits = Wait::ALL.map(|wait| if wait == Wait::Interrupt { "irq" } else { wait.name() });
    text.blank();
    text.line(row("by events", ["CPU", "ready"].into_iter().chain(waits).map(str::to_owned)));
    let busiest = &facts.threads[..facts.threads.len().min(MAX_THREADS)];
    for role in Role::ALL {
        let Some(spent) = facts.roles.get(&role) else { continue };
        text.line(row(role.name(), times(spent)));
        for thread in busiest.iter().filter(|thread| thread.role == role) {
            text.line(row(&format!("  {}", thread.name), times(&thread.spent)));
        }
    }
}

/// The label is cut where the first figure begins.
fn row(label: &str, figures: impl Iterator<Item = String>) -> String {
    let figures: String = figures.map(|figure| format!(" {figure:>7}")).collect();
    format!("{label:16.16}{figures}")
}

fn times(spent: &Spent) -> impl Iterator<Item = String> {
    let time = |ns: u64| if ns == 0 { "-".to_owned() } else { Nanos::new(ns).to_string() };
    [spent.cpu_ns, spent.ready_ns].into_iter().chain(spent.wait_ns).map(time)
}

fn work(facts: &Facts, text: &mut Lines) {
    let mut work: Vec<_> = facts.work.iter().collect();
    order::by_key(&mut work, |(_, (_, time))| std::cmp::Reverse(*time));
    let told = work.iter().take(MAX_WORK);
    let told: Vec<String> = told.map(|(name, (count, time))| format!("{name} {time} in {count}")).collect();
    if !told.is_empty() {
        text.line(format_args!("  kworkers executed {}", told.join(", ")));
    }
}

fn devices(facts: &Facts, text: &mut Lines) {
    let mut devices: Vec<_> = facts.devices.iter().filter(|(_, done)| done.count > 0).collect();
    if devices.is_empty() {
        return;
    }
    order::by_key(&mut devices, |(_, done)| std::cmp::Reverse(done.count));
    text.blank();
    text.line("devices by events");
    for ((device, op), done) in devices.iter().take(MAX_DEVICES) {
        let size = Bytes::from_sectors(done.sectors);
        let times = [("queue", &done.queue), ("service", &done.service), ("whole", &done.whole)];
        let times: Vec<String> =
            times.into_iter().filter_map(|(name, times)| in_words(name, times)).collect();
        let failed = if done.failed > 0 { format!(", {} failed", done.failed) } else { String::new() };
        text.line(format_args!(
            "  {device:10} {:7} {} in {}{failed}: {}",
            op.name(),
            size,
            done.count,
            if times.is_empty() { "no times".to_owned() } else { times.join("; ") }
        ));
    }
    for (device, passage) in &facts.passages {
        layer(device, passage, text);
    }
}

/// What a device that stands on others made of what it was given.
fn layer(device: &str, passage: &Passage, text: &mut Lines) {
    for to in passage.onto() {
        let mut all = Passed::default();
        passage.passed.iter().filter(|((below, _), _)| below == to).for_each(|(_, passed)| all.add(*passed));
        let size = Bytes::from_sectors(all.bios.sectors);
        text.line(format_args!("  {device} passed {size} in {} to {to}", all.bios.count));
    }
    if let Some((requests, bytes)) = passage.amplification().zip(passage.amplification_of_bytes()) {
        let linked = 100.0 * passage.share_linked().unwrap_or(0.0);
        text.line(format_args!(
            "  {device}: 1 request became {requests:.2}, 1 byte {bytes:.2}; {linked:.0}% of those below linked"
        ));
    }
    for (op, given) in &passage.given {
        let Some(means) = given.means() else { continue };
        let followed = 100.0 * given.share_followed().unwrap_or(0.0);
        let times = means.iter().zip(["before", "below", "between", "after"]);
        let times: Vec<String> = times.map(|(time, name)| format!("{time} {name}")).collect();
        text.line(format_args!("    {:7} {}; {followed:.0}% followed", op.name(), times.join(", ")));
    }
}

/// `service 21µs, 99% within 60µs`.
pub(crate) fn in_words(name: &str, times: &Took) -> Option<String> {
    Some(format!("{name} {}, 99% within {}", times.mean()?, times.quantile(0.99)?))
}

/// The counts and sums as JSON.
pub(crate) fn events_json(facts: &Facts) -> Value {
    let spent = |spent: &Spent| {
        let waits: serde_json::Map<_, _> =
            Wait::ALL.iter().map(|wait| (wait.name().to_owned(), json!(spent.waited(*wait).get()))).collect();
        json!({ "cpu_ns": spent.cpu_ns, "ready_ns": spent.ready_ns, "wait_ns": waits, "switches": spent.switches })
    };
    let device = |((device, op), done): (&(String, events::Op), &Done)| {
        let times = |times: &Took| {
            let ns = |time: Option<Nanos>| time.map(Nanos::get);
            json!({ "count": times.count, "mean_ns": ns(times.mean()), "p99_ns": ns(times.quantile(0.99)) })
        };
        json!({
            "device": device,
            "op": op.name(),
            "count": done.count,
            "sectors": done.sectors,
            "failed": done.failed,
            "queue": times(&done.queue),
            "service": times(&done.service),
            "whole": times(&done.whole),
        })
    };
    let given = |(op, given): (&Op, &Given)| {
        let [before, below, between, after] = given.times().map(Nanos::get);
        json!({
            "op": op.name(),
            "count": given.bios.count,
            "sectors": given.bios.sectors,
            "followed": given.followed,
            "linked": given.made.count,
            "before_ns": before,
            "below_ns": below,
            "between_ns": between,
            "after_ns": after,
        })
    };
    let passed = |((to, op), passed): (&(String, Op), &Passed)| {
        let Passed { bios, requests } = passed;
        json!({ "to": to, "op": op.name(), "count": bios.count, "sectors": bios.sectors, "requests": requests })
    };
    let layer = |(device, passage): (&String, &Passage)| {
        json!({
            "device": device,
            "given": passage.given.iter().map(given).collect::<Vec<_>>(),
            "passed": passage.passed.iter().map(passed).collect::<Vec<_>>(),
        })
    };
    let called = |((role, call), of): (&(Role, Call), &Called)| {
        let woken_by = of.woken_by.iter().map(|(role, time)| (role.name().to_owned(), json!(time.get())));
        let [before, below, between, after] = of.with_bios.times().map(Nanos::get);
        json!({
            "role": role.name(),
            "call": call.name(),
            "count": of.count,
            "failed": of.failed,
            "bytes": of.bytes.get(),
            "followed": of.took.count,
            "whole_ns": of.took.sum.get(),
            "p99_ns": of.took.quantile(0.99).map(Nanos::get),
            "spent": spent(&of.spent),
            "woken_by_ns": woken_by.collect::<serde_json::Map<_, _>>(),
            "with_bios": {
                "count": of.with_bios.count,
                "bios": of.with_bios.bios.count,
                "sectors": of.with_bios.bios.sectors,
                "followed": of.with_bios.followed,
                "before_ns": before,
                "below_ns": below,
                "between_ns": between,
                "after_ns": after,
            },
        })
    };
    let queued = |queued: &Queued| {
        let one = queued.iter().map(|((device, role, op), bios)| {
            json!({
                "device": device,
                "role": role.name(),
                "op": op.name(),
                "count": bios.count,
                "sectors": bios.sectors,
            })
        });
        one.collect::<Vec<_>>()
    };
    json!({
        "span_ns": facts.span.get(),
        "is_whole": facts.is_whole,
        "recorded": facts.kinds.iter().map(|(name, kind)| (name.clone(), json!(kind.recorded))).collect::<serde_json::Map<_, _>>(),
        "lost_by_cpu": facts.lost.iter().map(|(cpu, lost)| (cpu.to_string(), json!(lost))).collect::<serde_json::Map<_, _>>(),
        "absent": facts.absent,
        "roles": facts.roles.iter().map(|(role, sums)| (role.name().to_owned(), spent(sums))).collect::<serde_json::Map<_, _>>(),
        "devices": facts.devices.iter().map(device).collect::<Vec<_>>(),
        "layers": facts.passages.iter().map(layer).collect::<Vec<_>>(),
        "calls": facts.calls.as_ref().map(|calls| calls.of.iter().map(called).collect::<Vec<_>>()),
        "queued": facts.calls.as_ref().and_then(|calls| calls.queued.as_ref().map(queued)),
    })
}
