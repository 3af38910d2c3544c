//! A policy: CPUs that share a frequency, their governor, and what becomes of its requests.

use super::tracking::Tracking;
use domain::time::Nanos;
use domain::units::Hertz;
use event_queue::Time;
use governors::amd_pstate::AmdPstate;
use governors::driver::Driver;
use governors::hwp::Hwp;
use governors::intel_pstate::IntelPstate;
use governors::{FrequencyTable, Governor, Hook, KernelVersion, Policy as View, Readings, Update};
use std::collections::BTreeMap;

/// Who chooses a policy's frequency.
#[derive(Clone, Debug)]
pub enum Chooser {
    /// A governor of the kernel.
    Kernel(Governor),
    /// Intel's driver.
    IntelPstate(Box<IntelPstate>),
    /// Intel's hardware, within what its driver writes.
    Hwp(Box<Hwp>),
    /// AMD's likewise.
    Amd(Box<AmdPstate>),
}

impl Chooser {
    fn due(&self) -> Option<Nanos> {
        match self {
            Self::Kernel(governor) => governor.due(),
            // It counts its 10 ms itself.
            Self::IntelPstate(_) => Some(Nanos::ZERO),
            // The driver's own part is called with every update that waited for a disk.
            Self::Hwp(_) | Self::Amd(_) => None,
        }
    }

    /// When the hardware itself looks next.
    fn hardware_due(&self) -> Option<Nanos> {
        match self {
            Self::Kernel(_) | Self::IntelPstate(_) => None,
            Self::Hwp(driver) => driver.due(),
            Self::Amd(driver) => driver.due(),
        }
    }

    fn start(&mut self, view: &View, seen: &Seen<'_>) -> Option<Hertz> {
        match self {
            Self::Kernel(governor) => governor.start(Nanos::ZERO, view, seen),
            Self::IntelPstate(driver) => {
                driver.start(Nanos::ZERO, view, seen).or(driver.limits_changed(view))
            }
            Self::Hwp(driver) => driver.start(Nanos::ZERO, view, seen),
            Self::Amd(driver) => driver.start(Nanos::ZERO, view, seen),
        }
    }

    fn has_rested(&mut self, view: &View, seen: &Seen<'_>) -> Option<Hertz> {
        match self {
            Self::Kernel(governor) => governor.has_rested(Nanos::ZERO, view, seen),
            _ => self.update(Update { now: Nanos::ZERO, cpu: 0, iowait: false }, view, seen),
        }
    }

    fn update(&mut self, update: Update, view: &View, seen: &Seen<'_>) -> Option<Hertz> {
        match self {
            Self::Kernel(governor) => governor.update(update, view, seen),
            Self::IntelPstate(driver) => driver.update(update, view, seen),
            Self::Hwp(driver) => driver.update(update, view, seen),
            Self::Amd(driver) => driver.update(update, view, seen),
        }
    }

    fn act(&mut self, now: Nanos, view: &View, seen: &Seen<'_>) -> Option<Hertz> {
        match self {
            Self::Kernel(_) | Self::IntelPstate(_) => None,
            Self::Hwp(driver) => driver.act(now, view, seen),
            Self::Amd(driver) => driver.act(now, view, seen),
        }
    }

    fn asks_for_utilisation(&self) -> bool {
        matches!(self, Self::Kernel(governor) if governor.name() == "schedutil")
    }
}

/// CPUs that share a frequency.
#[derive(Clone, Debug)]
pub struct PolicySpec {
    /// Their numbers.
    pub cpus: Vec<usize>,
    /// What the governor knows of it.
    pub view: View,
    /// Who chooses.
    pub chooser: Chooser,
    /// The frequency that is a whole of capacity to the scheduler, where utilisation is frequency invariant.
    pub capacity_khz: u64,
    /// From a request to its effect.
    pub transition_ns: u64,
    /// What a busy CPU gets at most, in kHz, by how many of the machine's are busy: the first is for one.
    /// Empty: no such limit. Where it is above the highest state, that state stands for it, as 2001 MHz does
    /// in a table of `_PSS`.
    pub turbo: Vec<u64>,
    /// How the idle time is counted that its governor reads.
    pub idle_time: IdleTime,
    /// What its governor has seen when a trial begins.
    pub begins: Begins,
}

/// What the governors of the kernel have seen when a trial begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begins {
    /// Nothing: each takes over its CPUs at the highest frequency, and its first sample comes with the first
    /// work.
    #[default]
    New,
    /// Idle CPUs: each has sampled them until it came down, and its first window begins with the trial.
    Idle,
}

/// How the idle time of a CPU is counted that governors read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleTime {
    /// To the nanosecond, as kernels count that stop an idle CPU's tick (`get_cpu_idle_time_us`).
    #[default]
    Exact,
    /// By whole ticks that found the CPU idle, as older ones do (`kstat_cpu(cpu).cpustat.idle`, Linux
    /// 2.6.18).
    Ticks,
}

impl PolicySpec {
    /// CPUs that have one frequency for ever.
    pub fn fixed(cpus: Vec<usize>, khz: u64) -> Self {
        let frequency = Hertz::from_khz(khz);
        let view = View {
            cpus: cpus.len(),
            table: FrequencyTable::new(vec![frequency]).ok(),
            hardware_min: frequency,
            hardware_max: frequency,
            min: frequency,
            max: frequency,
            current: frequency,
            transition_latency_ns: 0,
            fast_switch: true,
            frequency_invariant: true,
            driver: Driver::Frequencies,
        };
        let kernel = KernelVersion::new(6, 1, 0);
        let governor = Governor::new("performance", &BTreeMap::new(), kernel, 250, &view)
            .expect("performance has no tunables");
        let chooser = Chooser::Kernel(governor);
        Self {
            cpus,
            view,
            chooser,
            capacity_khz: khz,
            transition_ns: 0,
            turbo: Vec::new(),
            idle_time: IdleTime::Exact,
            begins: Begins::New,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) spec: PolicySpec,
    /// What its CPUs run at now.
    pub(super) khz: u64,
    /// What was granted of the last request, turbo aside.
    granted_khz: u64,
    wanted_khz: u64,
    /// The hardware's next look is planned.
    pub(super) watched: bool,
    pub(super) generation: u32,
    pub(super) transitions: u64,
    /// Frequency to time, lowest first. All are there from the beginning, for a trace has the same columns in
    /// each row.
    residency: Vec<(u64, u64)>,
    since: Time,
}

impl Policy {
    pub(super) fn new(spec: PolicySpec) -> Self {
        let khz = spec.view.current.khz();
        let residency = frequencies(&spec).into_iter().map(|khz| (khz, 0)).collect();
        Self {
            spec,
            khz,
            granted_khz: khz,
            wanted_khz: khz,
            watched: false,
            generation: 0,
            transitions: 0,
            residency,
            since: 0,
        }
    }

    pub(super) fn catch_up(&mut self, now: Time) {
        let span = now - self.since;
        self.since = now;
        let at = self.residency.partition_point(|(khz, _)| *khz < self.khz);
        let is_known = self.residency.get(at).is_some_and(|(khz, _)| *khz == self.khz);
        let at = if is_known { at } else { at.saturating_sub(1) };
        if let Some((_, time)) = self.residency.get_mut(at) {
            *time += span;
        }
    }

    /// Each frequency and its time so far.
    pub(super) fn residency(&self) -> &[(u64, u64)] {
        &self.residency
    }

    /// A request is on its way; its generation, where it is another one than the last.
    pub(super) fn want(&mut self, frequency: Hertz) -> Option<u32> {
        self.spec.view.current = frequency;
        if self.wanted_khz == frequency.khz() {
            return None;
        }
        self.wanted_khz = frequency.khz();
        self.generation = self.generation.wrapping_add(1);
        Some(self.generation)
    }

    /// The last request has come through.
    pub(super) fn grant(&mut self) {
        self.granted_khz = self.wanted_khz;
    }

    /// What the CPUs should run at while so many of the machine are busy.
    pub(super) fn allowed_khz(&self, busy: usize) -> u64 {
        let turbo = &self.spec.turbo;
        let cap = turbo.get(busy.max(1) - 1).or(turbo.last()).copied().unwrap_or(u64::MAX);
        let highest = self.spec.view.hardware_max.khz();
        match turbo.first() {
            // The highest state of a table stands for turbo, whatever that is worth at the moment.
            Some(most) if *most > highest && self.granted_khz == highest => cap,
            _ => self.granted_khz.min(cap),
        }
    }

    pub(super) fn run_at(&mut self, now: Time, khz: u64) {
        self.catch_up(now);
        self.transitions += 1;
        self.khz = khz;
    }

    /// Whether the governor could want to know of an update now.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.spec.chooser.due().is_some_and(|due| due.get() <= now)
    }

    /// When the hardware itself looks next.
    pub(super) fn hardware_due(&self) -> Option<Time> {
        self.spec.chooser.hardware_due().map(Nanos::get)
    }

    /// The governor is told of an update: what it asks for at once, and whether it has queued its worker.
    pub(super) fn hook(&mut self, update: Update, seen: &Seen<'_>) -> (Option<Hertz>, bool) {
        let view = &self.spec.view;
        match &mut self.spec.chooser {
            Chooser::Kernel(governor) => {
                let hook = governor.hook(update, view, seen);
                (hook.request(view), hook == Hook::Work)
            }
            driver => (driver.update(update, view, seen), false),
        }
    }

    /// The governor's worker runs.
    pub(super) fn work(&mut self, now: Time, seen: &Seen<'_>) -> Option<Hertz> {
        match &mut self.spec.chooser {
            Chooser::Kernel(governor) => governor.work(Nanos::new(now), &self.spec.view, seen),
            Chooser::IntelPstate(_) | Chooser::Hwp(_) | Chooser::Amd(_) => None,
        }
    }

    /// The hardware looks.
    pub(super) fn act(&mut self, now: Time, seen: &Seen<'_>) -> Option<Hertz> {
        self.spec.chooser.act(Nanos::new(now), &self.spec.view, seen)
    }

    pub(super) fn start(&mut self, seen: &Seen<'_>) -> Option<Hertz> {
        self.spec.chooser.start(&self.spec.view, seen)
    }

    /// The governor has seen idle CPUs for long.
    pub(super) fn has_rested(&mut self, seen: &Seen<'_>) -> Option<Hertz> {
        self.spec.chooser.has_rested(&self.spec.view, seen)
    }

    /// Whether updates that waited for a disk matter before the governor is due.
    pub(super) fn minds_disks(&self) -> bool {
        match &self.spec.chooser {
            Chooser::Kernel(governor) => governor.name() == "schedutil",
            Chooser::IntelPstate(_) | Chooser::Hwp(_) => true,
            Chooser::Amd(_) => false,
        }
    }
}

/// Between two frequencies whose time is counted apart, where there is no table: the step of Intel's
/// P-states.
const STEP_KHZ: u64 = 100_000;

/// The frequencies whose time is counted, lowest first: the table's, or each step from the lowest to the
/// highest, and those of turbo. The time at any other, which AMD's and Intel's hardware may choose, counts
/// for the next one below.
fn frequencies(spec: &PolicySpec) -> Vec<u64> {
    let view = &spec.view;
    let (lowest, highest) = (view.hardware_min.khz(), view.hardware_max.khz());
    let mut all: Vec<u64> = match &view.table {
        Some(table) => table.all().iter().map(|frequency| frequency.khz()).collect(),
        None => (lowest..highest).step_by(STEP_KHZ as usize).chain([highest]).collect(),
    };
    all.extend(&spec.turbo);
    all.sort_unstable();
    all.dedup();
    all
}

/// What a governor reads of one CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen1 {
    pub(super) idle_ns: u64,
    pub(super) iowait_ns: u64,
    pub(super) utilisation: u64,
    pub(super) least: u64,
    pub(super) idle_calls: u64,
    pub(super) aperf: u64,
    pub(super) mperf: u64,
    pub(super) tsc: u64,
}

/// What a governor reads of the CPUs of its policy.
pub(super) struct Seen<'a>(pub(super) &'a [Seen1]);

impl Readings for Seen<'_> {
    fn idle(&self, cpu: usize) -> Nanos {
        Nanos::new(self.0[cpu].idle_ns)
    }
    fn iowait(&self, cpu: usize) -> Nanos {
        Nanos::new(self.0[cpu].iowait_ns)
    }
    fn nice(&self, _: usize) -> Nanos {
        Nanos::ZERO
    }
    fn utilisation(&self, cpu: usize) -> u64 {
        self.0[cpu].utilisation
    }
    fn least_utilisation(&self, cpu: usize) -> u64 {
        self.0[cpu].least
    }
    fn idle_calls(&self, cpu: usize) -> u64 {
        self.0[cpu].idle_calls
    }
    fn aperf(&self, cpu: usize) -> u64 {
        self.0[cpu].aperf
    }
    fn mperf(&self, cpu: usize) -> u64 {
        self.0[cpu].mperf
    }
    fn tsc(&self, cpu: usize) -> u64 {
        self.0[cpu].tsc
    }
}

/// Whether a governor asks for utilisation, which costs time to track.
pub(super) fn asks_for_utilisation(policies: &[PolicySpec]) -> bool {
    policies.iter().any(|policy| policy.chooser.asks_for_utilisation())
}

/// The utilisation of a CPU as its governor sees it.
pub(super) fn utilisation(tracking: &Tracking, kernel: KernelVersion) -> (u64, u64) {
    let effective = tracking.effective(kernel);
    (effective.utilisation, effective.least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frequency_is_counted_from_the_beginning_and_others_for_the_next_below() {
        let mut spec = PolicySpec::fixed(vec![0], 1_200_000);
        spec.view.table = None;
        spec.view.hardware_max = Hertz::from_khz(1_450_000);
        spec.turbo = vec![1_450_000, 1_350_000];
        let mut policy = Policy::new(spec);
        for (now, khz) in [(10, 1_300_000), (30, 1_345_000), (60, 1_450_000)] {
            policy.run_at(now, khz);
        }
        policy.catch_up(100);
        let expected = [(1_200_000, 10), (1_300_000, 50), (1_350_000, 0), (1_400_000, 0), (1_450_000, 40)];
        assert_eq!(policy.residency(), expected);
    }

    #[test]
    fn the_highest_state_of_a_table_may_stand_for_turbo() {
        let spec = PolicySpec { turbo: vec![3_000_000, 2_500_000], ..PolicySpec::fixed(vec![0], 2_001_000) };
        let mut policy = Policy::new(spec);
        assert_eq!([1, 2, 14].map(|busy| policy.allowed_khz(busy)), [3_000_000, 2_500_000, 2_500_000]);
        policy.granted_khz = 2_000_000;
        assert_eq!(policy.allowed_khz(1), 2_000_000);
        policy.spec.turbo = vec![2_000_000];
        policy.granted_khz = 2_001_000;
        assert_eq!(policy.allowed_khz(1), 2_000_000, "a limit within the table is one");
    }
}
