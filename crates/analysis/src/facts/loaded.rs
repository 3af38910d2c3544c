//! When the load of a trial ran. A trial lasts from its tool's start to its tool's end, and a tool reads its
//! options, makes its processes and writes its report too: fio takes tenths of a second for it, and seconds
//! on a slow CPU. What the load did is a rate over the time in which it ran.
//!
//! fio says how long that was (`runtime` of its report, the longest of its jobs), and so do others that take
//! their own time. Its first thread prepares all and then waits for the threads that do the I/O.
//!
//! Sources: fio(1) (`ramp_time`, `startdelay`, `end_fsync`); fio's backend.c (`run_threads`).

use super::case::CaseCell;
use super::rates::names_between;
use domain::lab::LabAccount;
use domain::time::Nanos;
use domain::trace::{Role, Trace};
use domain::trial::{Measurement, ThreadTime};
use std::collections::BTreeMap;
use std::ops::Range;

/// Options with which fio does I/O, for nobody knows how long, that is not in the time it tells.
const BEFORE_AND_AFTER: [&str; 3] = ["startdelay", "end_fsync", "fsync_on_close"];

/// The time in which fio does I/O before the time that it tells begins.
const RAMP: &str = "ramp_time";

/// Fewer intervals of a trace tell less than all of them.
pub const LEAST_INTERVALS: usize = 3;

/// A load that ran for so much of a trial ran for all of it, as far as samples tell.
const NEARLY_ALL: f64 = 0.95;

/// For how long the load of a trial ran, with these options of its workload: what its tool says, else the
/// whole trial.
pub fn loaded(measured: &Measurement, options: &BTreeMap<String, String>) -> Nanos {
    let says = measured.outcome.metrics.get("elapsed").map(|metric| Nanos::new((metric.value * 1e9) as u64));
    let is_all = BEFORE_AND_AFTER.iter().any(|name| options.contains_key(*name));
    // A number without a unit is of seconds (fio(1)).
    let span = |text: &String| Nanos::parse(text).or_else(|| text.parse().ok().map(Nanos::from_secs));
    let ramp = options.get(RAMP).map_or(Some(Nanos::ZERO), span).filter(|_| !is_all);
    let loaded = says.zip(ramp).map(|(own, ramp)| Nanos::new(own.get().saturating_add(ramp.get())));
    loaded.map_or(measured.duration, |loaded| loaded.min(measured.duration))
}

/// The rows of the time in which a lab machine's CPUs were paced: before and after it they are not those of
/// the machine that it stands for. All of them where too few lie within, or nobody knows which.
pub fn paced(trace: Trace, lab: Option<&LabAccount>) -> Trace {
    let pacing = lab.and_then(|lab| lab.pacing.as_ref());
    let Some((pacing, began)) = pacing.and_then(|pacing| Some((pacing, pacing.began?))) else { return trace };
    let first = trace.times.partition_point(|time| *time < began);
    let end = trace.times.partition_point(|time| *time <= began + pacing.span);
    if end.saturating_sub(first) > LEAST_INTERVALS { part(&trace, first..end) } else { trace }
}

/// The rows of a trace in which its load ran for so long: those in which devices completed most. The whole
/// trace where it ran for nearly all of it, or no device was sampled.
pub fn while_loaded(trace: Trace, loaded: Nanos) -> Trace {
    let (Some(first), Some(last)) = (trace.times.first(), trace.times.last()) else { return trace };
    if loaded.secs() >= NEARLY_ALL * last.saturating_sub(*first).secs() {
        return trace;
    }
    let done = completed(&trace);
    let mut best: Option<(u64, Range<usize>)> = None;
    let mut to = 0;
    for from in 0..trace.times.len() {
        while trace.times.get(to + 1).is_some_and(|time| time.saturating_sub(trace.times[from]) <= loaded) {
            to += 1;
        }
        let to = to.max(from);
        let within = done[to].saturating_sub(done[from]);
        if best.as_ref().is_none_or(|(most, _)| within > *most) {
            best = Some((within, from..to + 1));
        }
    }
    match best {
        Some((within, rows)) if within > 0 && rows.len() > 1 => part(&trace, rows),
        _ => trace,
    }
}

/// How many requests all devices had completed at each row.
fn completed(trace: &Trace) -> Vec<u64> {
    let mut all = vec![0; trace.times.len()];
    for way in ["read", "write"] {
        for device in names_between(trace, "disk.", &format!(".{way}_ios")) {
            let column = trace.column(&format!("disk.{device}.{way}_ios")).unwrap_or_default();
            let first = column.iter().flatten().next().copied().unwrap_or(0);
            let mut known = first;
            for (sum, value) in all.iter_mut().zip(column) {
                known = value.unwrap_or(known);
                *sum += known.saturating_sub(first);
            }
        }
    }
    all
}

/// Some of a trace's rows.
pub fn part(trace: &Trace, rows: Range<usize>) -> Trace {
    let columns = trace.columns.iter().map(|column| column[rows.clone()].to_vec()).collect();
    Trace { times: trace.times[rows].to_vec(), columns, head: trace.head.clone() }
}

impl CaseCell<'_> {
    /// Seconds for which the load of a trial of this cell ran; `None` where it ran for no time.
    pub(crate) fn loaded(&self, measured: &Measurement) -> Option<f64> {
        Some(loaded(measured, &self.cell.workload.options).secs()).filter(|seconds| *seconds > 0.0)
    }

    /// CPU seconds that a thread took while the load of a trial ran: all of its own, but for the tool's first
    /// thread, which had prepared the load before.
    pub(crate) fn thread_while_loaded(&self, measured: &Measurement, thread: &ThreadTime) -> f64 {
        let prepared = first_thread(measured).filter(|first| first.tid == thread.tid);
        thread.cpu.secs() - prepared.map_or(0.0, |_| self.prepared(measured))
    }

    /// The same of a role. Threads that serve I/O worked for the load; others, as the recorder's, did what
    /// they do all the time.
    pub(crate) fn role_while_loaded(&self, measured: &Measurement, role: Role) -> f64 {
        let used = measured.roles.get(&role).map_or(0.0, |cpu| cpu.secs());
        match role {
            Role::Workload => (used - self.prepared(measured)).max(0.0),
            Role::Array
            | Role::Crypt
            | Role::Journal
            | Role::Writeback
            | Role::Loop
            | Role::Block
            | Role::Kworker
            | Role::Interrupt => used,
            Role::Kernel | Role::Flyball | Role::Other | Role::Beside => {
                let whole = measured.duration.secs();
                used * self.loaded(measured).unwrap_or(whole) / whole.max(f64::MIN_POSITIVE)
            }
        }
    }

    /// CPU seconds that the tool's first thread took before the load, at most; 0 where it is the only one.
    fn prepared(&self, measured: &Measurement) -> f64 {
        let whole = measured.duration.secs();
        let before = whole - self.loaded(measured).unwrap_or(whole);
        first_thread(measured).map_or(0.0, |first| first.cpu.secs().min(before))
    }
}

/// The thread of a tool that made the others: that of the lowest number.
fn first_thread(measured: &Measurement) -> Option<&ThreadTime> {
    let own = || measured.threads.iter().filter(|thread| thread.role == Role::Workload);
    own().min_by_key(|thread| thread.tid).filter(|_| own().count() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::testing::fio_run;
    use crate::facts::case::Case;
    use crate::facts::usage::{Usage, tests::growing};
    use crate::summarise::summarise;
    use crate::summary::RunData;
    use domain::lab::Pacing;
    use domain::outcome::{Better, Metric};
    use domain::units::Unit;

    /// Trials of two seconds whose tool says that its load took one, of this job and two threads.
    fn one_of_two(options: &str) -> RunData {
        let mut data = fio_run(&[options], |_, _| vec![("iops", 1000.0)]);
        for trial in &mut data.trials {
            let measured = trial.measurement.as_mut().unwrap();
            measured.duration = Nanos::from_secs(2);
            let elapsed = Metric { value: 1.0, unit: Unit::Seconds, better: Better::Lower };
            measured.outcome.metrics.insert("elapsed".into(), elapsed);
            let thread = |tid, name: &str, role, ms| ThreadTime {
                tid,
                name: name.to_owned(),
                role,
                cpu: Nanos::from_millis(ms),
            };
            measured.threads = vec![
                thread(9, "md0_raid5", Role::Array, 800),
                thread(70, "fio", Role::Workload, 700),
                thread(60, "fio", Role::Workload, 900),
            ];
            measured.roles = [(Role::Workload, 1600), (Role::Array, 800), (Role::Flyball, 600)]
                .map(|(role, ms)| (role, Nanos::from_millis(ms)))
                .into();
        }
        data
    }

    fn with_cell<T>(data: &RunData, look: impl Fn(&CaseCell<'_>, &Measurement) -> T) -> T {
        let summary = summarise(data, None);
        let cells = Case::new(data, &summary).cells();
        look(&cells[0], data.trials[0].measurement.as_ref().unwrap())
    }

    #[test]
    fn what_the_tool_did_before_its_load_is_no_part_of_it() {
        let data = one_of_two("rw=randwrite bs=4k");
        let of_role = |role| with_cell(&data, |cell, measured| cell.role_while_loaded(measured, role));
        let is =
            |role, seconds: f64| assert!((of_role(role) - seconds).abs() < 1e-9, "{role}: {}", of_role(role));
        assert_eq!(with_cell(&data, |cell, measured| cell.loaded(measured)), Some(1.0));
        // The first thread's 0.9 s were before.
        is(Role::Workload, 0.7);
        is(Role::Array, 0.8);
        // The recorder samples all the time.
        is(Role::Flyball, 0.3);
        let busiest = with_cell(&data, |cell, _| cell.busiest_of_load());
        assert!((busiest - 0.7).abs() < 1e-9, "{busiest}");
        let cores = with_cell(&data, |cell, _| cell.cores(&[Role::Workload, Role::Array])).unwrap();
        assert!((cores - 1.5).abs() < 1e-9, "{cores}");
    }

    #[test]
    fn a_load_with_io_before_or_after_it_is_the_whole_trial() {
        for option in ["ramp_time=1", "ramp_time=soon", "startdelay=1", "end_fsync=1"] {
            let data = one_of_two(&format!("rw=randwrite bs=4k {option}"));
            assert_eq!(with_cell(&data, |cell, measured| cell.loaded(measured)), Some(2.0), "{option}");
            let workload =
                with_cell(&data, |cell, measured| cell.role_while_loaded(measured, Role::Workload));
            assert!((workload - 1.6).abs() < 1e-9, "{option}: {workload}");
        }
    }

    #[test]
    fn a_ramp_is_a_part_of_the_load_that_the_tool_does_not_tell() {
        let data = one_of_two("rw=randwrite bs=4k ramp_time=500ms");
        assert_eq!(with_cell(&data, |cell, measured| cell.loaded(measured)), Some(1.5));
    }

    #[test]
    fn of_a_lab_machine_the_paced_part_of_a_trace_is_what_it_stands_for() {
        let whole = trace("sda");
        let lab = |began: Option<u64>, ms| {
            let (began, span) = (began.map(Nanos::from_millis), Nanos::from_millis(ms));
            let pacing = Pacing { pace: 1e8, began, span, vcpus: vec![], energy: None };
            LabAccount { dilation: 1.0, slowed: 10.0, pacing: Some(pacing), disks: vec![] }
        };
        let cut = paced(whole.clone(), Some(&lab(Some(1000), 500)));
        assert_eq!((cut.times.first(), cut.times.last()), (whole.times.get(10), whole.times.get(15)));
        let others = [lab(None, 500), lab(Some(1000), 100)];
        for nothing in others.iter().map(Some).chain([None]) {
            assert_eq!(paced(whole.clone(), nothing), whole);
        }
    }

    /// A device and a CPU, sampled each tenth of a second for three seconds: the device works from 1 s to 2
    /// s.
    fn trace(device: &str) -> Trace {
        let named = [format!("disk.{device}.read_ios"), format!("disk.{device}.io_ms")];
        let mut head = growing(1, &[(&named[0], 0), (&named[1], 0)]).head;
        head.interval = Nanos::from_millis(100);
        let mut trace = Trace::new(head);
        for tenth in 0..=30_u64 {
            trace.times.push(Nanos::from_millis(tenth * 100));
            let working = tenth.clamp(10, 20) - 10;
            trace.columns[0].push(Some(5000 + working * 10));
            trace.columns[1].push(Some(working * 50));
        }
        trace
    }

    #[test]
    fn a_trace_is_looked_at_where_its_devices_work() {
        let loaded = while_loaded(trace("sda"), Nanos::from_secs(1));
        assert_eq!(
            (loaded.times[0], *loaded.times.last().unwrap()),
            (Nanos::from_secs(1), Nanos::from_secs(2))
        );
        let busy = |trace: &Trace| Usage::of(trace).disks[0].busy;
        assert!((busy(&loaded) - 0.5).abs() < 1e-9, "{}", busy(&loaded));
        assert!((busy(&trace("sda")) - 0.5 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_trace_of_a_load_alone_or_without_devices_stays_whole() {
        let whole = trace("sda");
        assert_eq!(while_loaded(whole.clone(), Nanos::from_millis(2900)), whole);
        let mut idle = whole.clone();
        idle.columns[0].iter_mut().for_each(|value| *value = Some(1));
        assert_eq!(while_loaded(idle.clone(), Nanos::from_secs(1)), idle);
        let empty = Trace::new(whole.head.clone());
        assert_eq!(while_loaded(empty.clone(), Nanos::from_secs(1)), empty);
    }
}
