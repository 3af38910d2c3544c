//! Call stacks that the interrupts of devices held off.
//!
//! The clock of the profile is a timer whose interrupt is like any other: while a handler of a device runs,
//! interrupts are off, and a sample that was due meanwhile is taken when they are on again. It then shows
//! what was interrupted, or what is first to run behind the handler (a softirq), and never the handler.
//!
//! # Which samples are these
//! The *gap* of a sample is the time since the last handler before it ended. Of one that was held off it is
//! the way from the handler's end to the next instruction that can be interrupted, and from there to perf's
//! look at the clock: the same each time, but for some scatter. Of any other sample it is that and however
//! long the CPU has gone on. So those that were held off are a peak at the least gaps, on a ground of the
//! others that is flat so close to it. With *g*, a gap within the peak, the estimate of their number is
//!
//! ```text
//! D = K(gap ≤ 5/4 g) − K(5/4 g < gap ≤ 3/2 g)
//! ```
//!
//! and the `D` samples of the least gaps are counted to interrupts (`Subsystem::Interrupt`).
//!
//! # Why that is right
//! Let a sample be due each period `P`, at a phase that has nothing to do with the load, and let `X(t)` be
//! what runs at `t`. Counting each sample to `X(due)` is unbiased: the mean number for `x` is `T(x) / P`,
//! where `T(x)` is the time in `x`. What is counted is `X(taken)`, which differs only where the sample was
//! held off. With the peak below `5/4 g`, the first count has all that were held off and the others of a
//! quarter of `g`, and the second has the others of the next quarter, which in the mean are as many. So the
//! mean of `D` is the mean number of samples that were held off. One that is moved by mistake is of the same
//! code, just behind a handler, as one that should have been moved instead: what errors of `D` do to any
//! share has the mean zero. Its standard deviation is that of counting two numbers (of Poisson's
//! distribution, at the most), as that of the profile is.
//!
//! The place of `g` needs no knowledge of the machine: the handlers' own time between their entry and their
//! end, `L`, is measured. In the mean `L / P` samples are due in it, so that the half of that, counted from
//! the least gap on, is within the peak. `D` is never less than `L / P`, and where that is less than
//! [`LEAST_TO_COUNT`] it is what is taken: a peak of a few is none. It is more where entering and leaving an
//! interrupt takes long: of 45,252 interrupts of a disk of a virtual machine (Linux 6.18) the handlers took
//! 99 ms, and 209 samples of 1 ms were held off; 207 of them stood where interrupts are on again
//! behind that handler (`handle_softirqs`).
//!
//! # What was considered instead
//! - When a sample was due, by the grid of its timer (`hrtimer_forward_now` keeps the phase;
//!   kernel/events/core.c, `perf_swevent_hrtimer`): one that was due within a handler was held off. But a
//!   virtual machine gets its timers late by itself: there by 1 to 16 µs (10% and 90%), where a handler took
//!   2 µs, and what was due within one is no sign of what held the sample off. And any other event of perf
//!   may move the phase.
//! - `L / P` samples and no more: right where to enter and to leave an interrupt takes no time.
//!
//! # What it does not see
//! Interrupts of no device: the timer's own, and those by which CPUs call each other. What else runs with
//! interrupts off: its samples are where these are on again, which mostly is the same part of the kernel.

use crate::event::{Comm, Event, What};
use domain::Nanos;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::RangeInclusive;

/// The thread number of an idle CPU, of which no sample is taken.
const IDLE: u32 = 0;

/// So many samples have to be expected at the least before a peak is looked for: of Poisson's distribution
/// with this mean 96% are half of it or more.
const LEAST_TO_COUNT: f64 = 8.0;

/// Most numbers of interrupts that a hostile file can make of one CPU.
const MAX_INTERRUPTS: usize = 1024;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Samples that were held off, by their CPU and time.
    pub samples: HashSet<(u16, u64)>,
    /// So many periods in handlers have no sample: the CPU was idle, or was held for longer than a period.
    pub unsampled: u64,
    /// The time in each handler, by its number and name.
    pub handlers: BTreeMap<String, Nanos>,
}

/// Takes the events of a recording, beside the times of its samples.
#[derive(Debug)]
pub struct HeldOff {
    period: u64,
    /// From the first sample of all to the last: what handlers took before and behind has none.
    sampled: RangeInclusive<u64>,
    cpus: BTreeMap<u16, OnCpu>,
}

impl HeldOff {
    /// Of samples that were due each `period`, and taken at these times of each CPU, in their order.
    pub fn new(period: Nanos, taken: BTreeMap<u16, Vec<u64>>) -> Self {
        let first = taken.values().filter_map(|of_cpu| of_cpu.first()).min();
        let last = taken.values().filter_map(|of_cpu| of_cpu.last()).max();
        let sampled = first.copied().unwrap_or(u64::MAX)..=last.copied().unwrap_or(0);
        let of = |taken| OnCpu { taken, ..OnCpu::default() };
        let cpus = taken.into_iter().map(|(cpu, taken)| (cpu, of(taken))).collect();
        Self { period: period.get().max(1), sampled, cpus }
    }

    /// The next event of all, in the order of time.
    pub fn take(&mut self, event: &Event) {
        let now = event.time.get();
        match event.what {
            What::IrqBegin { irq, name } if self.sampled.contains(&now) => {
                let cpu = self.cpus.entry(event.cpu).or_default();
                cpu.pass(now);
                cpu.within = Some(Handler { irq, name, since: now, is_idle: event.tid == IDLE });
            }
            What::IrqEnd => {
                let period = self.period;
                self.cpus.entry(event.cpu).or_default().ends(now, period);
            }
            What::Lost { .. } => {
                if let Some(cpu) = self.cpus.get_mut(&event.cpu) {
                    cpu.pass(now);
                    (cpu.within, cpu.last) = (None, None);
                }
            }
            _ => {}
        }
    }

    /// At the recording's end.
    pub fn finish(self) -> Found {
        let Self { period, mut cpus, .. } = self;
        cpus.values_mut().for_each(|cpu| cpu.pass(u64::MAX));
        let seen = seen(&cpus, period);
        let period = period as f64;
        let (mut found, mut unsampled_ns, mut names) = (Found::default(), 0_u64, BTreeMap::new());
        // What rounding leaves goes on to the next CPU: on many of them it would be much.
        let mut carried = 0.0;
        for (number, mut cpu) in cpus {
            cpu.spent.retain(|irq, _| !seen.contains(irq));
            let least = cpu.thread_ns() as f64 / period;
            let gaps = cpu.candidates(&seen);
            let wanted = peak(&gaps, least).unwrap_or(least) + carried;
            let count = wanted.round().clamp(0.0, gaps.len() as f64);
            carried = (wanted - count).clamp(-0.5, 0.5);
            unsampled_ns = unsampled_ns.saturating_add(((wanted - count - carried) * period) as u64);
            found.samples.extend(gaps[..count as usize].iter().map(|(_, time)| (number, *time)));
            for (irq, (name, spent)) in cpu.spent {
                unsampled_ns = unsampled_ns.saturating_add(spent.idle_ns).saturating_add(spent.over_ns);
                let of = names.entry(irq).or_insert((name, 0_u64));
                of.1 = of.1.saturating_add(spent.all_ns());
            }
        }
        found.unsampled = (unsampled_ns as f64 / period).round() as u64;
        let named = |(irq, (name, ns)): (u32, (Comm, u64))| {
            (format!("{irq} {}", name.text()).trim_end().to_owned(), Nanos::new(ns))
        };
        found.handlers = names.into_iter().map(named).collect();
        found
    }
}

/// The number of samples in the peak, of gaps in their order, where `least` are expected of handlers alone;
/// `None` where these are too few to have one.
fn peak(gaps: &[(u64, u64)], least: f64) -> Option<f64> {
    let (middle, _) = gaps.get((least / 2.0) as usize).filter(|_| least >= LEAST_TO_COUNT)?;
    let below = |edge: u64| gaps.partition_point(|(gap, _)| *gap <= edge) as f64;
    let (inner, outer) = (middle.saturating_add(middle / 4), middle.saturating_add(middle / 2));
    Some((2.0 * below(inner) - below(outer)).max(least))
}

/// A handler that runs.
#[derive(Clone, Copy, Debug)]
struct Handler {
    irq: u32,
    name: Comm,
    since: u64,
    is_idle: bool,
}

/// A sample behind a handler that had interrupted a thread.
#[derive(Clone, Copy, Debug)]
struct Behind {
    gap: u64,
    time: u64,
    irq: u32,
    /// The handler that it was taken within, where there was one.
    within: Option<u32>,
}

/// Time in the handlers of an interrupt.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    /// That interrupted a thread: of each at most a period.
    thread_ns: u64,
    /// What was longer than a period.
    over_ns: u64,
    idle_ns: u64,
    /// Samples that were taken within.
    samples: u64,
}

impl Spent {
    fn all_ns(self) -> u64 {
        self.thread_ns.saturating_add(self.over_ns).saturating_add(self.idle_ns)
    }
}

/// The interrupts that the clock sees. It is the clock's own, which has a number on arm64; or the clock is
/// none that an interrupt holds off (an NMI, in what perf recorded).
fn seen(cpus: &BTreeMap<u16, OnCpu>, period: u64) -> BTreeSet<u32> {
    let mut all: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for (irq, (_, spent)) in cpus.values().flat_map(|cpu| &cpu.spent) {
        let (samples, ns) = all.entry(*irq).or_default();
        *samples = samples.saturating_add(spent.samples);
        *ns = ns.saturating_add(spent.thread_ns);
    }
    // Half of those that are due in it.
    let is_seen = |(samples, ns): (u64, u64)| samples > 0 && samples.saturating_mul(2 * period) >= ns;
    all.into_iter().filter(|(_, of)| is_seen(*of)).map(|(irq, _)| irq).collect()
}

/// A CPU while its events are read.
#[derive(Debug, Default)]
struct OnCpu {
    taken: Vec<u64>,
    /// The first sample that no event has passed yet.
    next: usize,
    within: Option<Handler>,
    /// When the last handler ended, which, and whether it had interrupted a thread.
    last: Option<(u64, Handler)>,
    spent: BTreeMap<u32, (Comm, Spent)>,
    behind: Vec<Behind>,
}

impl OnCpu {
    /// Takes up the samples from before this time.
    fn pass(&mut self, until: u64) {
        while let Some(time) = self.taken.get(self.next).copied().filter(|time| *time < until) {
            self.next += 1;
            let within = self.within.filter(|handler| time >= handler.since).map(|handler| handler.irq);
            if let Some((_, spent)) = within.and_then(|irq| self.spent.get_mut(&irq)) {
                spent.samples += 1;
            }
            if let Some((end, handler)) = self.last.filter(|(_, handler)| !handler.is_idle) {
                let gap = time.saturating_sub(end);
                self.behind.push(Behind { gap, time, irq: handler.irq, within });
            }
        }
    }

    fn ends(&mut self, now: u64, period: u64) {
        if let Some(handler) = self.within {
            let has_room = self.spent.len() < MAX_INTERRUPTS;
            if has_room || self.spent.contains_key(&handler.irq) {
                let (_, spent) = self.spent.entry(handler.irq).or_insert((handler.name, Spent::default()));
                let ns = now.saturating_sub(handler.since);
                let (once, over) = (ns.min(period), ns.saturating_sub(period));
                let sum = if handler.is_idle { &mut spent.idle_ns } else { &mut spent.thread_ns };
                *sum = sum.saturating_add(once);
                let rest = if handler.is_idle { &mut spent.idle_ns } else { &mut spent.over_ns };
                *rest = rest.saturating_add(over);
            }
        }
        self.pass(now);
        self.last = self.within.take().map(|handler| (now, handler));
    }

    /// The time in handlers that had interrupted a thread.
    fn thread_ns(&self) -> u64 {
        self.spent.values().fold(0, |all: u64, (_, spent)| all.saturating_add(spent.thread_ns))
    }

    /// Gap and time of the samples that may have been held off, those of the least gaps first.
    fn candidates(&self, seen: &BTreeSet<u32>) -> Vec<(u64, u64)> {
        let may_be = |behind: &&Behind| {
            !seen.contains(&behind.irq) && behind.within.is_none_or(|irq| seen.contains(&irq))
        };
        let mut gaps: Vec<(u64, u64)> =
            self.behind.iter().filter(may_be).map(|behind| (behind.gap, behind.time)).collect();
        gaps.sort_unstable();
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Context;
    use domain::rng::{Rng, Seed};

    const PERIOD: u64 = 1_003_021;

    /// A thread that submits, then works on its own, where the completions of what it has submitted find it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Ran {
        Submits,
        Own,
        Handler,
    }

    /// How interrupts go on a machine, in ns.
    #[derive(Clone, Copy, Debug)]
    struct Machine {
        /// The mean of a handler.
        handler: f64,
        /// To enter and to leave an interrupt.
        around: f64,
        /// From an instruction that can be interrupted to the time in the sample, and its scatter.
        path: f64,
        scatter: f64,
        /// The most by which the timer is late by itself.
        late: f64,
    }

    /// One CPU for so many periods.
    struct Simulated {
        events: Vec<Event>,
        samples: Vec<(u64, Ran)>,
        /// The grid of the timer, which the recording does not have.
        phase: u64,
        handler_share: f64,
        own_share: f64,
    }

    fn about(rng: &mut Rng, mean: f64) -> f64 {
        -mean * (1.0 - rng.unit()).ln()
    }

    fn simulated(machine: Machine, periods: u64, seed: u64) -> Simulated {
        let mut rng = Seed(seed).stream("held off");
        let phase = rng.below(PERIOD as usize) as u64;
        let (mut now, mut due, mut ran) = (0.0, phase as f64, Ran::Submits);
        let mut fires = due + machine.late * rng.unit();
        let (mut changes, mut completes) = (60_000.0, f64::MAX);
        let mut spent = [0.0; 3];
        let (mut events, mut samples) = (Vec::new(), Vec::new());
        let event = |time: f64, what| {
            let time = Nanos::new(time as u64);
            Event { time, cpu: 0, tid: 7, context: Context::of_flags(8), what }
        };
        while due < (periods * PERIOD) as f64 {
            let next = fires.min(completes).min(changes).max(now);
            spent[ran as usize] += next - now;
            now = next;
            // The timer's interrupt comes before any other.
            if fires <= now {
                let path = machine.path * (1.0 + machine.scatter * (2.0 * rng.unit() - 1.0));
                samples.push(((now + path) as u64, ran));
                // Several that were due are one; the phase is kept.
                while due <= now {
                    due += PERIOD as f64;
                }
                fires = due + machine.late * rng.unit();
                // Of what ends later, only what the thread does itself is put off.
                changes += path;
                now += path;
            } else if completes <= now {
                let length = machine.handler * (0.5 + rng.unit());
                let all = length + machine.around;
                events.push(event(
                    now + machine.around / 2.0,
                    What::IrqBegin { irq: 36, name: Comm::default() },
                ));
                events.push(event(now + machine.around / 2.0 + length, What::IrqEnd));
                spent[Ran::Handler as usize] += all;
                changes += all;
                now += all;
                completes = f64::MAX;
            } else {
                ran = if ran == Ran::Submits { Ran::Own } else { Ran::Submits };
                let mean = if ran == Ran::Own { 15_000.0 } else { 60_000.0 };
                changes = now + 10_000.0 + about(&mut rng, mean - 10_000.0);
                if ran == Ran::Own {
                    completes = now + about(&mut rng, 4_000.0);
                }
            }
        }
        let all: f64 = spent.iter().sum();
        let [_, own, handler] = spent.map(|spent| spent / all);
        Simulated { events, samples, phase, handler_share: handler, own_share: own }
    }

    impl Simulated {
        fn found(&self) -> Found {
            let taken = self.samples.iter().map(|(time, _)| *time).collect();
            let mut held_off = HeldOff::new(Nanos::new(PERIOD), [(0, taken)].into());
            self.events.iter().for_each(|event| held_off.take(event));
            held_off.finish()
        }

        /// By how much the share of what the thread does itself is off, in points, without the samples that
        /// were not its own.
        fn off(&self, is_moved: impl Fn(u64) -> bool) -> f64 {
            let own = self.samples.iter().filter(|(time, ran)| *ran == Ran::Own && !is_moved(*time)).count();
            100.0 * (own as f64 / self.samples.len() as f64 - self.own_share)
        }

        /// Whether a sample was due within a handler, by the phase of the timer, which is known here.
        fn was_due_within(&self, time: u64) -> bool {
            let due = time - (time - self.phase) % PERIOD;
            let begun = self.events.partition_point(|event| event.time.get() <= due);
            begun % 2 == 1
        }
    }

    /// A machine of its own, one that is virtual, and a very slow one.
    const MACHINES: [Machine; 3] = [
        Machine { handler: 8_000.0, around: 300.0, path: 1_000.0, scatter: 0.15, late: 500.0 },
        Machine { handler: 6_000.0, around: 4_000.0, path: 6_500.0, scatter: 0.1, late: 16_000.0 },
        Machine { handler: 10_000.0, around: 2_000.0, path: 9_000.0, scatter: 0.1, late: 60_000.0 },
    ];

    /// The means of errors in points, of several recordings: of what was sampled, of what is made of it, by
    /// the timer's phase; and of the share of handlers.
    fn errors(machine: Machine) -> [f64; 4] {
        const TIMES: u64 = 12;
        let mut sums = [0.0; 4];
        for seed in 0..TIMES {
            let simulated = simulated(machine, 10_000, seed);
            let found = simulated.found();
            let is_found = |time| found.samples.contains(&(0, time));
            let all = simulated.samples.len() as f64;
            let of = [
                simulated.off(|_| false),
                simulated.off(is_found),
                simulated.off(|time| simulated.was_due_within(time)),
                100.0 * (found.samples.len() as f64 / all - simulated.handler_share),
            ];
            sums.iter_mut().zip(of).for_each(|(sum, off)| *sum += off / TIMES as f64);
        }
        sums
    }

    #[test]
    fn what_handlers_held_off_is_told_from_what_they_interrupted() {
        for machine in MACHINES {
            let [sampled, found, by_phase, handlers] = errors(machine);
            assert!(sampled > 8.0, "{machine:?}: the clock was off by {sampled:.2} points");
            assert!(found.abs() < 0.5, "{machine:?}: off by {found:.2} points");
            assert!(handlers.abs() < 0.5, "{machine:?}: handlers are off by {handlers:.2} points");
            // Where the timer is late by itself, when a sample was due says nothing of what held it off.
            let is_late = machine.late > machine.handler;
            assert_eq!(by_phase > 3.0, is_late, "{machine:?}: by the timer's phase {by_phase:.2} points");
        }
    }

    fn handler(from: u64, to: u64, irq: u32, tid: u32) -> [Event; 2] {
        let event =
            |time, what| Event { time: Nanos::new(time), cpu: 0, tid, context: Context::of_flags(0), what };
        [event(from, What::IrqBegin { irq, name: Comm(*b"virtio1-req.0\0\0\0") }), event(to, What::IrqEnd)]
    }

    fn found(period: u64, taken: &[u64], events: &[Event]) -> Found {
        let mut held_off = HeldOff::new(Nanos::new(period), [(0, taken.to_vec())].into());
        events.iter().for_each(|event| held_off.take(event));
        held_off.finish()
    }

    #[test]
    fn too_few_for_a_peak_are_as_many_as_the_handlers_time_says() {
        // A handler of 400 in each period of 1000: two samples are due in five of them.
        let events: Vec<Event> =
            (0..5).flat_map(|at| handler(1000 * at + 100, 1000 * at + 500, 36, 7)).collect();
        let found = found(1000, &[0, 503, 1510, 2900, 3502, 4550, 6000], &events);
        assert_eq!(found.samples, [(0, 503), (0, 3502)].into());
        assert_eq!(found.unsampled, 0);
        assert_eq!(found.handlers, [("36 virtio1-req.0".to_owned(), Nanos::new(2000))].into());
    }

    #[test]
    fn handlers_that_no_sample_can_show_are_counted_by_their_time() {
        // On an idle CPU; and one of three and a half periods, of which one sample is left.
        let events = [handler(100, 3100, 36, IDLE), handler(5000, 8500, 36, 7)].concat();
        let found = found(1000, &[0, 8505, 9505], &events);
        assert_eq!(found.samples, [(0, 8505)].into());
        assert_eq!(found.unsampled, 3 + 2 + 1, "the last by rounding up");
    }

    #[test]
    fn a_clock_that_sees_handlers_is_left_alone() {
        // Two of three samples within the handlers, as many as are due in them.
        let events: Vec<Event> = (0..30).flat_map(|at| handler(1000 * at, 1000 * at + 667, 36, 7)).collect();
        let taken: Vec<u64> = (0..30).map(|at| 1000 * at + (at % 3) * 333 + 2).collect();
        let found = found(1000, &taken, &events);
        assert_eq!((found.samples.len(), found.unsampled, found.handlers.len()), (0, 0, 0));
    }

    #[test]
    fn samples_in_the_clocks_own_interrupt_may_have_been_held_off_by_another() {
        // On arm64 the timer's interrupt has a number.
        let mut events = Vec::new();
        let mut taken = vec![0];
        for at in (0..40).map(|at| 1000 * at) {
            events.extend(handler(at, at + 500, 36, 7));
            let timer = if at % 2000 == 0 { at + 510 } else { at + 800 };
            events.extend(handler(timer, timer + 20, 27, 7));
            taken.push(timer + 10);
        }
        let found = found(1000, &taken, &events);
        let held_off = (0..40).step_by(2).map(|at| (0, 1000 * at + 520)).collect();
        assert_eq!(found.samples, held_off);
        assert_eq!(found.handlers.len(), 1);
    }

    #[test]
    fn behind_a_loss_no_handler_is_the_last() {
        let lost = Event { what: What::Lost { count: 3 }, ..handler(4600, 0, 36, 7)[0] };
        let begun = handler(1100, 1600, 36, 7);
        let events = [&begun[..], &handler(2100, 2600, 36, 7), &[lost]].concat();
        assert_eq!(found(1000, &[1000, 2605, 4605], &events).samples, [(0, 2605)].into());
        let events = [begun[0], lost, begun[1]];
        assert_eq!(found(1000, &[1000, 1605, 4605], &events), Found::default());
    }

    #[test]
    fn what_handlers_took_before_the_first_sample_and_behind_the_last_is_left_out() {
        let events = [handler(0, 900, 36, IDLE), handler(9000, 9900, 36, IDLE)].concat();
        assert_eq!(found(1000, &[1000, 2000], &events), Found::default());
        assert_eq!(found(1000, &[], &events), Found::default());
    }
}
