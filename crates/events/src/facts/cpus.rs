//! CPUs: who ran, how long each was busy, its idle states, frequencies, interrupts.

use domain::Nanos;
use std::collections::BTreeMap;

/// The thread number of an idle CPU.
pub const IDLE: u32 = 0;

/// What a CPU did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSpent {
    /// A thread ran.
    pub busy_ns: u64,
    /// None did.
    pub idle_ns: u64,
    /// Not known: events were lost, or none came.
    pub unknown_ns: u64,
    /// By idle state: how often, how long.
    pub idle_states: BTreeMap<u32, (u64, u64)>,
    /// By frequency in kHz, since the first was seen.
    pub frequencies: BTreeMap<u32, u64>,
    /// By number: how often, how long.
    pub irqs: BTreeMap<u32, (u64, u64)>,
    /// By vector: how often, how long.
    pub softirqs: BTreeMap<u32, (u64, u64)>,
    /// Another thread ran than the last switch had gone to, and no loss was announced between: so many
    /// switches, at least, have no record.
    pub unseen_switches: u64,
}

impl CpuSpent {
    /// A thread ran.
    pub fn busy(&self) -> Nanos {
        Nanos::new(self.busy_ns)
    }

    /// What is not known.
    pub fn unknown(&self) -> Nanos {
        Nanos::new(self.unknown_ns)
    }
}

/// Most values that a hostile file can make of one CPU.
const MAX_VALUES: usize = 1024;

/// A CPU while a recording is read.
#[derive(Debug)]
pub struct Cpu {
    pub spent: CpuSpent,
    /// Who runs, where it is known; before the first switch nobody knows.
    running: Option<u32>,
    /// Until when all is accounted.
    accounted: u64,
    idle: Option<(u32, u64)>,
    frequency: Option<(u32, u64)>,
    irq: Option<(u32, u64)>,
    softirq: Option<(u32, u64)>,
    /// Whether events were lost since the last switch.
    is_lost: bool,
    /// Whether any switch was seen: who recorded none knows who runs by other events alone.
    pub has_switched: bool,
}

impl Cpu {
    pub fn new(begin: u64) -> Self {
        Self {
            spent: CpuSpent::default(),
            running: None,
            accounted: begin,
            idle: None,
            frequency: None,
            irq: None,
            softirq: None,
            is_lost: false,
            has_switched: false,
        }
    }

    /// Accounts the time until now to who ran, as the switch or the event says who that is; gives the thread
    /// and its time. What was not known before the first event is, for a thread runs until it is switched
    /// from; after a loss it is not.
    pub fn until(&mut self, now: u64, tid: u32) -> Option<(u32, u64)> {
        let ns = now.saturating_sub(self.accounted);
        self.accounted = now.max(self.accounted);
        let follows = self.running.is_none_or(|running| running == tid);
        let known = !self.is_lost && follows;
        self.spent.unseen_switches += u64::from(!self.is_lost && !follows);
        self.running = Some(tid);
        self.is_lost = false;
        if !known {
            self.spent.unknown_ns = self.spent.unknown_ns.saturating_add(ns);
            return None;
        }
        if tid == IDLE {
            self.spent.idle_ns = self.spent.idle_ns.saturating_add(ns);
            return None;
        }
        self.spent.busy_ns = self.spent.busy_ns.saturating_add(ns);
        Some((tid, ns))
    }

    /// Whether it is known to run this thread.
    pub fn is_running(&self, tid: u32) -> bool {
        !self.is_lost && self.running == Some(tid)
    }

    /// Until when all is accounted: its last event that says who ran.
    pub fn accounted(&self) -> u64 {
        self.accounted
    }

    /// For how long it was busy until now, and how long is not known, whoever still runs included. Without
    /// switches nothing is known.
    pub fn until_now(&self, now: u64) -> (u64, u64) {
        let (busy, unknown) = (self.spent.busy_ns, self.spent.unknown_ns);
        let open = now.saturating_sub(self.accounted);
        match self.running {
            _ if !self.has_switched => (0, now),
            Some(IDLE) if !self.is_lost => (busy, unknown),
            Some(_) if !self.is_lost => (busy.saturating_add(open), unknown),
            _ => (busy, unknown.saturating_add(open)),
        }
    }

    /// Another thread runs from here on.
    pub fn switched_to(&mut self, tid: u32) {
        self.running = Some(tid);
        self.has_switched = true;
    }

    /// Events were lost.
    pub fn lost(&mut self) {
        self.is_lost = true;
        self.idle = None;
        self.irq = None;
        self.softirq = None;
    }

    /// It goes into an idle state, or leaves it; gives that which it was in, and since when.
    pub fn idles(&mut self, now: u64, state: Option<u32>) -> Option<(u32, u64)> {
        let before = self.idle.take();
        if let Some((state, since)) = before {
            add(&mut self.spent.idle_states, state, now.saturating_sub(since));
        }
        self.idle = state.map(|state| (state, now));
        before
    }

    /// It is told to run at a frequency; gives that of before, and since when.
    pub fn runs_at(&mut self, now: u64, khz: u32) -> Option<(u32, u64)> {
        let before = self.end_frequency(now);
        self.frequency = Some((khz, now));
        before
    }

    fn end_frequency(&mut self, now: u64) -> Option<(u32, u64)> {
        let before = self.frequency.take();
        let (khz, since) = before?;
        let has_room = self.spent.frequencies.len() < MAX_VALUES;
        if has_room || self.spent.frequencies.contains_key(&khz) {
            let sum = self.spent.frequencies.entry(khz).or_default();
            *sum = sum.saturating_add(now.saturating_sub(since));
        }
        before
    }

    /// What it was told last to run at, in kHz, where that was seen.
    pub fn khz(&self) -> Option<u32> {
        self.frequency.map(|(khz, _)| khz)
    }

    /// A handler of an interrupt begins, or ends; gives the one that ended, and since when it ran.
    pub fn irq(&mut self, now: u64, irq: Option<u32>) -> Option<(u32, u64)> {
        let before = self.irq.take();
        if let Some((irq, since)) = before {
            add(&mut self.spent.irqs, irq, now.saturating_sub(since));
        }
        self.irq = irq.map(|irq| (irq, now));
        before
    }

    /// The same of a softirq.
    pub fn softirq(&mut self, now: u64, vector: Option<u32>) -> Option<(u32, u64)> {
        let before = self.softirq.take();
        if let Some((vector, since)) = before {
            add(&mut self.spent.softirqs, vector, now.saturating_sub(since));
        }
        self.softirq = vector.map(|vector| (vector, now));
        before
    }

    /// At the recording's end: its last frequency.
    pub fn ends_at(&mut self, now: u64) -> Option<(u32, u64)> {
        self.end_frequency(now)
    }

    /// At the recording's end: who runs still runs.
    pub fn finish(&mut self, now: u64) -> Option<(u32, u64)> {
        match self.running {
            Some(tid) => self.until(now, tid),
            None => {
                self.spent.unknown_ns = now.saturating_sub(self.accounted);
                None
            }
        }
    }
}

fn add(sums: &mut BTreeMap<u32, (u64, u64)>, key: u32, ns: u64) {
    if sums.len() < MAX_VALUES || sums.contains_key(&key) {
        let (count, sum) = sums.entry(key).or_default();
        *count += 1;
        *sum = sum.saturating_add(ns);
    }
}
