//! The frequency of a lab's virtual CPUs as its plugin recorded it: every change, at its time, and no sample.

use super::{MAX_LINES, undilated};
use domain::lab::{Pacing, VcpuRecord};
use domain::time::Nanos;
use domain::units::Hertz;

/// What the lab knows of the frequency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truth {
    /// The first virtual CPUs, at most [`MAX_LINES`].
    pub cpus: Vec<VirtualCpu>,
    /// How many more there were.
    pub left_out: usize,
    /// Whether it is known when pacing began on the trace's clock; else it is shown from the trace's start.
    pub aligned: bool,
}

/// The frequencies of one virtual CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualCpu {
    /// Its number in the guest.
    pub cpu: u32,
    /// One after the other, within the trace's time.
    pub held: Vec<Held>,
    /// How many changes there were, and how many of them, the first, were kept.
    pub changes: (u64, usize),
}

/// A frequency and when it was held, from the trace's first sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// From when.
    pub from: Nanos,
    /// To when.
    pub to: Nanos,
    /// The frequency.
    pub frequency: Hertz,
}

impl Truth {
    /// From a record in the guest's time, whose trace began at `start` and lasted `span`; `None` where there
    /// is nothing.
    pub(super) fn of(pacing: &Pacing, start: Nanos, span: Nanos, d: f64) -> Option<Self> {
        let begin = pacing.began.unwrap_or(start);
        let place = |at: Nanos| undilated((begin + at).saturating_sub(start).min(span), d);
        let cpu = |record: &VcpuRecord| VirtualCpu {
            cpu: record.cpu,
            held: held(record, pacing.span)
                .map(|h| Held { from: place(h.from), to: place(h.to), ..h })
                .collect(),
            changes: (record.transitions_total, record.transitions.len()),
        };
        let cpus: Vec<VirtualCpu> = pacing.vcpus.iter().take(MAX_LINES).map(cpu).collect();
        let left_out = pacing.vcpus.len() - cpus.len();
        let any = cpus.iter().any(|cpu| !cpu.held.is_empty());
        any.then_some(Self { cpus, left_out, aligned: pacing.began.is_some() })
    }
}

/// From each change to the next; the last lasts to the end, unless later ones were not kept.
fn held(record: &VcpuRecord, span: Nanos) -> impl Iterator<Item = Held> + '_ {
    let whole = record.transitions.len() as u64 >= record.transitions_total;
    let ends = record.transitions.iter().skip(1).map(|(at, _)| *at).chain(whole.then_some(span));
    record.transitions.iter().zip(ends).map(|((from, frequency), to)| Held {
        from: *from,
        to: to.max(*from),
        frequency: *frequency,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pacing(began: Option<u64>, total: u64) -> Pacing {
        let at = |ms, mhz| (Nanos::from_millis(ms), Hertz::from_mhz(mhz));
        let record = VcpuRecord {
            cpu: 0,
            states: vec![],
            transitions: vec![at(0, 2800), at(100, 350)],
            transitions_total: total,
            idle: Vec::new(),
            requests: Vec::new(),
            late: Nanos::ZERO,
        };
        Pacing {
            pace: 2e7,
            began: began.map(Nanos::from_millis),
            span: Nanos::from_millis(400),
            vcpus: vec![record],
            energy: None,
        }
    }

    fn shown(began: Option<u64>, total: u64) -> Vec<(u64, u64, u64)> {
        let of = |ms| Nanos::from_millis(ms);
        let truth = Truth::of(&pacing(began, total), of(20), of(400), 10.0).unwrap();
        let held = &truth.cpus[0].held;
        held.iter()
            .map(|h| (h.from.get() / 100_000, h.to.get() / 100_000, h.frequency.hz() / 1_000_000))
            .collect()
    }

    #[test]
    fn changes_stand_where_they_were_on_the_traces_clock_in_the_machines_own_time() {
        // Tenths of a millisecond; pacing began 40 ms after the first sample, and went on after the last one.
        assert_eq!(shown(Some(60), 2), [(40, 140, 2800), (140, 400, 350)]);
        assert_eq!(shown(None, 2), [(0, 100, 2800), (100, 400, 350)]);
    }

    #[test]
    fn what_follows_the_last_change_that_was_kept_is_not_known() {
        assert_eq!(shown(Some(60), 3), [(40, 140, 2800)]);
    }

    #[test]
    fn a_record_without_changes_shows_nothing() {
        let mut empty = pacing(None, 0);
        empty.vcpus[0].transitions.clear();
        assert_eq!(Truth::of(&empty, Nanos::ZERO, Nanos::from_secs(1), 1.0), None);
    }
}
