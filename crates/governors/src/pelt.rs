//! How the scheduler estimates utilisation: per-entity load tracking, in the kernel's integers.
//!
//! A millisecond of 1024 µs that lies n periods back weighs y^n, y^32 = 1/2. A [`Signal`] holds such sums for
//! a task or a runqueue; [`PeltClock`] is the clock they run by, slower on a slower CPU where utilisation is
//! frequency invariant; [`Runqueue`] adds the tasks' up, and [`effective`] makes of all that what schedutil
//! reads.
//!
//! Follows `kernel/sched/pelt.{c,h}`, `sched-pelt.h`, and of `fair.c` `attach_entity_load_avg`,
//! `detach_entity_load_avg`, `post_init_entity_util_avg`, `util_est_*`, `cpu_util`, `effective_cpu_util`
//! (`core.c` in 6.1), 6.1 and 6.12. Left out: task groups, bandwidth control, hardware pressure, sched_ext,
//! utilisation clamps, and tasks that are taken away while their runqueue's lock is not held (`removed`;
//! [`Runqueue::detach`] does so at once).
//!
//! Held against the kernel by `tests/pelt.rs`: the steps of a signal, where utilisation is not frequency
//! invariant. Not held against it, but by worked examples: [`PeltClock`], attaching and detaching, estimates,
//! [`effective`]. Debian's kernels count no interrupts (`CONFIG_IRQ_TIME_ACCOUNTING` is off), and then
//! [`Runqueue::interrupts`] stays nothing.

use crate::KernelVersion;
use domain::time::Nanos;

/// y^n · 2^32 for n below 32: `floor((2^32 − 1) · 2^(−n/32))` but for the last bit of some
/// (`runnable_avg_yN_inv`).
const Y_INVERSE: [u32; 32] = [
    0xffff_ffff,
    0xfa83_b2da,
    0xf525_7d14,
    0xefe4_b99a,
    0xeac0_c6e6,
    0xe5b9_06e6,
    0xe0cc_deeb,
    0xdbfb_b796,
    0xd744_fcc9,
    0xd2a8_1d91,
    0xce24_8c14,
    0xc9b9_bd85,
    0xc567_2a10,
    0xc12c_4cc9,
    0xbd08_a39e,
    0xb8fb_af46,
    0xb504_f333,
    0xb123_f581,
    0xad58_3ee9,
    0xa9a1_5ab4,
    0xa5fe_d6a9,
    0xa270_4302,
    0x9ef5_325f,
    0x9b8d_39b9,
    0x9837_f050,
    0x94f4_efa8,
    0x91c3_d373,
    0x8ea4_398a,
    0x8b95_c1e3,
    0x8898_0e80,
    0x85aa_c367,
    0x82cd_8698,
];
/// The sum of a signal that was always on.
const LOAD_AVG_MAX: u32 = 47_742;
const MIN_DIVIDER: u32 = LOAD_AVG_MAX - 1024;
const PERIOD: u64 = 1024;
const HALF_LIFE: u64 = 32;
/// All of a CPU.
pub const SCALE: u64 = 1024;
const SHIFT: u32 = 10;
/// A task of nice 0.
pub const NICE_0_WEIGHT: u64 = 1024;

/// `value · y^periods`.
fn decay(value: u64, periods: u64) -> u64 {
    if periods > HALF_LIFE * 63 {
        return 0;
    }
    let halved = value >> (periods / HALF_LIFE);
    let inverse = Y_INVERSE[(periods % HALF_LIFE) as usize];
    ((u128::from(halved) * u128::from(inverse)) >> 32) as u64
}

/// The contribution of a span that ended `first` µs into the period `periods` ago and lasts `last` µs into
/// this one.
fn segments(periods: u64, first: u32, last: u32) -> u32 {
    let oldest = decay(u64::from(first), periods) as u32;
    let whole = LOAD_AVG_MAX - decay(u64::from(LOAD_AVG_MAX), periods) as u32 - 1024;
    oldest + whole + last
}

/// What a span of time is for a signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Weight of what is runnable: 1 for a task on the runqueue; a runqueue's is the sum of its tasks'
    /// weights, 1024 for one of nice 0 (`scale_load_down`). Zero: idle.
    pub load: u64,
    /// How many are runnable.
    pub runnable: u64,
    /// Whether one of them runs.
    pub running: bool,
}

impl Activity {
    /// Nothing is there.
    pub const IDLE: Self = Self { load: 0, runnable: 0, running: false };
    /// A task that runs.
    pub const RUNNING: Self = Self { load: 1, runnable: 1, running: true };
    /// A task that waits for the CPU.
    pub const WAITING: Self = Self { load: 1, runnable: 1, running: false };
}

/// Sums and averages of one entity (`struct sched_avg`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    /// Until when, by the entity's clock, in ns; whole units of 1024 ns since it was set.
    pub last_update_ns: u64,
    /// µs of the period that has begun.
    pub period_contrib: u32,
    /// Sums.
    pub load_sum: u64,
    /// As above.
    pub runnable_sum: u64,
    /// As above, in the kernel's 32 bits.
    pub util_sum: u32,
    /// Averages: by weight.
    pub load_avg: u64,
    /// Of being runnable, 1024 each.
    pub runnable_avg: u64,
    /// Of running, 0 to 1024.
    pub util_avg: u64,
}

impl Signal {
    /// Accounts the time until `now` (of the entity's clock), during which it was this. Whether a period
    /// ended, so that the averages are new; `weight` is the factor of the load average: a task's own, 1 for a
    /// runqueue.
    pub fn update(&mut self, now: Nanos, activity: Activity, weight: u64) -> bool {
        let delta_ns = now.get().wrapping_sub(self.last_update_ns);
        if (delta_ns as i64) < 0 {
            self.last_update_ns = now.get();
            return false;
        }
        let delta_us = delta_ns >> 10;
        if delta_us == 0 {
            return false;
        }
        self.last_update_ns += delta_us << 10;
        let activity = if activity.load == 0 { Activity::IDLE } else { activity };
        if self.accumulate(delta_us, activity) == 0 {
            return false;
        }
        self.average(weight);
        true
    }

    fn accumulate(&mut self, delta_us: u64, activity: Activity) -> u64 {
        let mut contribution = delta_us as u32;
        let delta_us = delta_us + u64::from(self.period_contrib);
        let periods = delta_us / PERIOD;
        let rest = (delta_us % PERIOD) as u32;
        if periods != 0 {
            self.load_sum = decay(self.load_sum, periods);
            self.runnable_sum = decay(self.runnable_sum, periods);
            self.util_sum = decay(u64::from(self.util_sum), periods) as u32;
            if activity.load != 0 {
                contribution = segments(periods, 1024 - self.period_contrib, rest);
            }
        }
        self.period_contrib = rest;
        let contribution_wide = u64::from(contribution);
        self.load_sum += activity.load * contribution_wide;
        self.runnable_sum += (activity.runnable * contribution_wide) << SHIFT;
        if activity.running {
            self.util_sum = self.util_sum.wrapping_add(contribution << SHIFT);
        }
        periods
    }

    fn average(&mut self, weight: u64) {
        let divider = u64::from(self.divider());
        self.load_avg = weight * self.load_sum / divider;
        self.runnable_avg = self.runnable_sum / divider;
        self.util_avg = u64::from(self.util_sum) / divider;
    }

    /// What a sum would be now of a signal that was always on (`get_pelt_divider`).
    fn divider(&self) -> u32 {
        MIN_DIVIDER + self.period_contrib
    }

    /// The signal at a later time without any activity.
    pub fn decayed(mut self, now: Nanos) -> Self {
        self.update(now, Activity::IDLE, 1);
        self
    }
}

/// The clock of a runqueue's signals (`rq->clock_pelt`).
///
/// It advances by the work that was done: at half the capacity by half the time. While idle it catches up
/// with the time of tasks, unless there was no idle time to lose (`lost_idle_time`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeltClock {
    task_ns: u64,
    pelt_ns: u64,
    lost_idle_ns: u64,
}

impl PeltClock {
    /// From the time at which the runqueue's clocks were equal.
    pub const fn new(now: Nanos) -> Self {
        Self { task_ns: now.get(), pelt_ns: now.get(), lost_idle_ns: 0 }
    }

    /// Time goes on while a task runs. `cpu_capacity` and `frequency_capacity` are of 1024
    /// (`arch_scale_cpu_capacity`, `arch_scale_freq_capacity`); the latter is 1024 where utilisation is not
    /// frequency invariant.
    pub fn run(&mut self, span: Nanos, cpu_capacity: u64, frequency_capacity: u64) {
        self.task_ns += span.get();
        let scaled_ns = (span.get() * cpu_capacity) >> SHIFT;
        self.pelt_ns += (scaled_ns * frequency_capacity) >> SHIFT;
    }

    /// Time goes on while the CPU is idle (`_update_idle_rq_clock_pelt`).
    pub fn idle(&mut self, span: Nanos) {
        self.task_ns += span.get();
        self.pelt_ns = self.task_ns;
    }

    /// The CPU goes idle (`update_idle_rq_clock_pelt`): what it is behind is forgotten for ever where it had
    /// no idle time.
    pub fn goes_idle(&mut self, runqueue: &Runqueue) {
        let full = (MIN_DIVIDER << SHIFT) - LOAD_AVG_MAX;
        let sums = [runqueue.fair.util_sum, runqueue.real_time.util_sum, runqueue.deadline.util_sum];
        if sums.into_iter().fold(0, u32::wrapping_add) >= full {
            self.lost_idle_ns = self.lost_idle_ns.wrapping_add(self.task_ns - self.pelt_ns);
        }
        self.pelt_ns = self.task_ns;
    }

    /// What it shows (`rq_clock_pelt`).
    pub const fn now(&self) -> Nanos {
        Nanos::new(self.pelt_ns.wrapping_sub(self.lost_idle_ns))
    }
}

/// A fair task: its signal and the estimate of what it will use when it wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its signal.
    pub signal: Signal,
    /// Its weight: 1024 for nice 0.
    pub weight: u64,
    /// What it used when it last slept (`util_est.enqueued`, up to 6.7).
    enqueued: u64,
    /// The average of that; rises at once (`util_est.ewma`, `util_est`).
    average: u64,
    /// The signal has not changed since it was enqueued (`UTIL_AVG_UNCHANGED`).
    unchanged: bool,
}

/// 1% of a CPU: closer to its estimate a task's utilisation changes nothing.
const MARGIN: u64 = SCALE / 100;

impl Task {
    /// A task that was forked just now onto this runqueue, whose signals have to be up to date
    /// (`post_init_entity_util_avg`): it gets the runqueue's utilisation by its weight, half of what is left
    /// at the most.
    pub fn new(weight: u64, runqueue: &Runqueue, capacity: u64) -> Self {
        let fair = &runqueue.fair;
        let cap = capacity.saturating_sub(fair.util_avg) / 2;
        let share = fair.util_avg * weight / (fair.load_avg + 1);
        let util_avg = if fair.util_avg == 0 { cap } else { share.min(cap) };
        let signal = Signal { load_avg: weight, util_avg, runnable_avg: util_avg, ..Signal::default() };
        let signal = if cap == 0 { Signal { util_avg: 0, runnable_avg: 0, ..signal } } else { signal };
        Self { signal, weight, enqueued: 0, average: 0, unchanged: false }
    }

    /// Accounts the time until `now` of the runqueue's clock.
    pub fn update(&mut self, now: Nanos, activity: Activity) -> bool {
        let ended = self.signal.update(now, activity, self.weight);
        if ended {
            self.unchanged = false;
        }
        ended
    }

    /// What it is expected to use (`_task_util_est`).
    pub fn estimate(&self, kernel: KernelVersion) -> u64 {
        if kernel >= FLAT_ESTIMATE { self.average } else { self.average.max(self.enqueued) }
    }

    /// It goes to sleep: the estimate follows its utilisation (`util_est_update`).
    pub fn estimate_at_sleep(&mut self, kernel: KernelVersion, capacity: u64) {
        if self.unchanged {
            return;
        }
        let now = self.signal.util_avg;
        if kernel >= FLAT_ESTIMATE {
            self.estimate_flat(now, capacity)
        } else {
            self.estimate_pair(now, capacity)
        }
    }

    fn estimate_flat(&mut self, now: u64, capacity: u64) {
        if self.average <= now {
            self.average = now;
        } else if self.average - now >= MARGIN {
            if now > capacity {
                return;
            }
            if now + MARGIN >= self.signal.runnable_avg {
                self.average = ((self.average << 2) - (self.average - now)) >> 2;
            }
        }
        self.unchanged = true;
    }

    fn estimate_pair(&mut self, now: u64, capacity: u64) {
        let before = std::mem::replace(&mut self.enqueued, now);
        if self.average < now {
            self.average = now;
        } else if self.average - now < MARGIN {
            if before.abs_diff(now) < MARGIN {
                self.enqueued = before;
                return;
            }
        } else if now > capacity {
            self.enqueued = before;
            return;
        } else {
            self.average = ((self.average << 2) - (self.average - now)) >> 2;
        }
        self.unchanged = true;
    }
}

/// From here on a task has one estimate, not two.
const FLAT_ESTIMATE: KernelVersion = KernelVersion::new(6, 8, 0);

/// The signals of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runqueue {
    /// Fair tasks (`cfs_rq->avg`): those that sleep too, until they decay.
    pub fair: Signal,
    /// The sum of the estimates of tasks that are runnable (`util_est` of the runqueue).
    pub estimate: u64,
    /// Real-time tasks (`avg_rt`).
    pub real_time: Signal,
    /// Deadline tasks (`avg_dl`).
    pub deadline: Signal,
    /// Interrupts and time stolen by a host (`avg_irq`).
    pub interrupts: Signal,
}

impl Runqueue {
    /// A task comes, from another CPU or new: its signal takes the runqueue's place in the period and is
    /// added to it (`attach_entity_load_avg`). The runqueue's signal has to be up to date.
    pub fn attach(&mut self, task: &mut Task) {
        let fair = &mut self.fair;
        let divider = u64::from(fair.divider());
        let signal = &mut task.signal;
        signal.last_update_ns = fair.last_update_ns;
        signal.period_contrib = fair.period_contrib;
        signal.util_sum = (signal.util_avg * divider) as u32;
        signal.runnable_sum = signal.runnable_avg * divider;
        let load_sum = signal.load_avg * divider;
        signal.load_sum = if task.weight < load_sum { load_sum / task.weight } else { 1 };
        fair.load_avg += signal.load_avg;
        fair.load_sum += task.weight * signal.load_sum;
        fair.util_avg += signal.util_avg;
        fair.util_sum = fair.util_sum.wrapping_add(signal.util_sum);
        fair.runnable_avg += signal.runnable_avg;
        fair.runnable_sum += signal.runnable_sum;
    }

    /// A task leaves for another CPU or ends (`detach_entity_load_avg`). Both signals have to be up to date.
    pub fn detach(&mut self, task: &Task) {
        let (fair, signal) = (&mut self.fair, &task.signal);
        let least = |average: u64| average * u64::from(MIN_DIVIDER);
        fair.load_avg = fair.load_avg.saturating_sub(signal.load_avg);
        fair.load_sum = fair.load_sum.saturating_sub(task.weight * signal.load_sum).max(least(fair.load_avg));
        fair.util_avg = fair.util_avg.saturating_sub(signal.util_avg);
        fair.util_sum = fair.util_sum.saturating_sub(signal.util_sum).max(least(fair.util_avg) as u32);
        fair.runnable_avg = fair.runnable_avg.saturating_sub(signal.runnable_avg);
        fair.runnable_sum =
            fair.runnable_sum.saturating_sub(signal.runnable_sum).max(least(fair.runnable_avg));
    }

    /// A task becomes runnable (`util_est_enqueue`).
    pub fn estimate_enqueue(&mut self, task: &Task, kernel: KernelVersion) {
        self.estimate += task.estimate(kernel);
    }

    /// A task is runnable no more (`util_est_dequeue`).
    pub fn estimate_dequeue(&mut self, task: &Task, kernel: KernelVersion) {
        self.estimate = self.estimate.saturating_sub(task.estimate(kernel));
    }

    /// Interrupts took `span` of the time until `now`, by the runqueue's own clock (`update_irq_load_avg`).
    pub fn interrupted(&mut self, now: Nanos, span: Nanos) -> bool {
        let idle = self.interrupts.update(now.saturating_sub(span), Activity::IDLE, 1);
        let busy = self.interrupts.update(now, Activity::RUNNING, 1);
        if idle && !busy {
            self.interrupts.average(1);
        }
        idle || busy
    }

    /// What fair tasks use (`cpu_util_cfs`; from 6.5, where it is asked for a frequency,
    /// `cpu_util_cfs_boost`: not less than they are runnable).
    pub fn fair_utilisation(&self, kernel: KernelVersion, capacity: u64) -> u64 {
        let boosted = kernel >= KernelVersion::new(6, 5, 0);
        let runnable = if boosted { self.fair.runnable_avg } else { 0 };
        self.fair.util_avg.max(runnable).max(self.estimate).min(capacity)
    }
}

/// What schedutil reads of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effective {
    /// For [`crate::Readings::utilisation`].
    pub utilisation: u64,
    /// For [`crate::Readings::least_utilisation`].
    pub least: u64,
}

/// Utilisation as schedutil asks for it (`effective_cpu_util`), of a CPU of this capacity.
/// `deadline_bandwidth` is that of [`crate::Readings::deadline_bandwidth`]; with a runnable real-time task a
/// CPU is wanted at its highest frequency.
pub fn effective(
    kernel: KernelVersion,
    runqueue: &Runqueue,
    capacity: u64,
    deadline_bandwidth: u64,
    real_time_runnable: bool,
) -> Effective {
    let interrupts = runqueue.interrupts.util_avg;
    let tasks = runqueue.fair_utilisation(kernel, capacity) + runqueue.real_time.util_avg;
    let with_deadline = tasks + runqueue.deadline.util_avg;
    let after = |tasks: u64| tasks * (capacity - interrupts) / capacity + interrupts;
    if kernel >= KernelVersion::new(6, 8, 0) {
        if interrupts >= capacity {
            return Effective { utilisation: capacity, least: capacity };
        }
        let promised = interrupts + deadline_bandwidth;
        let least = if real_time_runnable { promised.max(capacity) } else { promised };
        let utilisation =
            if with_deadline >= capacity { capacity } else { after(with_deadline).min(capacity) };
        return Effective { utilisation, least };
    }
    let full = real_time_runnable || interrupts >= capacity || with_deadline >= capacity;
    let utilisation = if full { capacity } else { (after(tasks) + deadline_bandwidth).min(capacity) };
    Effective { utilisation, least: deadline_bandwidth }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OLD: KernelVersion = KernelVersion::new(6, 1, 192);
    const NEW: KernelVersion = KernelVersion::new(6, 12, 117);

    fn us(us: u64) -> Nanos {
        Nanos::new(us << 10)
    }

    /// A signal after these spans, in units of 1024 ns.
    fn after(spans: &[(u64, Activity)]) -> Signal {
        let (mut signal, mut now) = (Signal::default(), 0);
        for (span, activity) in spans {
            now += span;
            signal.update(us(now), *activity, 1);
        }
        signal
    }

    #[test]
    fn thirty_two_periods_halve() {
        assert_eq!(decay(1 << 20, 32), (1 << 19) - 1, "y^0 is 2^32 - 1 over 2^32");
        assert_eq!(decay(1 << 20, 0), (1 << 20) - 1);
        assert_eq!(decay(u64::MAX, 63 * 32), 0);
        assert_eq!(decay(u64::MAX, 63 * 32 + 1), 0);
    }

    #[test]
    fn the_table_is_powers_of_the_halving() {
        for (n, inverse) in Y_INVERSE.into_iter().enumerate() {
            let exact = f64::from(u32::MAX) * 2f64.powf(-(n as f64) / 32.0);
            assert!((f64::from(inverse) - exact).abs() < 1.0, "{n}: {inverse:#x}, {exact}");
        }
    }

    #[test]
    fn a_signal_that_is_always_on_becomes_all_of_a_cpu() {
        let signal = after(&[(10_000 * 1024, Activity::RUNNING)]);
        assert_eq!((signal.util_avg, signal.runnable_avg), (1024, 1024));
        let stepwise = after(&vec![(1000, Activity::RUNNING); 10_000]);
        assert_eq!(stepwise.util_avg, 1024);
    }

    #[test]
    fn half_a_life_of_running_makes_half() {
        let signal = after(&[(32 * 1024, Activity::RUNNING)]);
        // Steady state 1024, 1 - 1/2 of it.
        assert!((510..=513).contains(&signal.util_avg), "{}", signal.util_avg);
        let later = signal.decayed(us(64 * 1024));
        assert!((255..=257).contains(&later.util_avg), "{}", later.util_avg);
    }

    #[test]
    fn within_a_period_sums_grow_and_averages_wait() {
        let mut signal = Signal::default();
        assert!(!signal.update(us(1000), Activity::RUNNING, 1));
        assert_eq!((signal.util_sum, signal.util_avg, signal.period_contrib), (1000 << 10, 0, 1000));
        assert!(signal.update(us(1024), Activity::RUNNING, 1));
        // 1000 decays by y; 24 of the ended period too: decay(1000<<10, 1) + decay(24, 1) + 0.
        let expected = (decay(1000 << 10, 1) + ((decay(24, 1)) << 10)) as u32;
        assert_eq!(signal.util_sum, expected);
        assert_eq!(signal.util_avg, u64::from(expected) / 46_718);
    }

    #[test]
    fn less_than_a_unit_is_kept_for_later_and_time_that_goes_back_is_not_counted() {
        let mut signal = Signal::default();
        assert!(!signal.update(Nanos::new(1023), Activity::RUNNING, 1));
        assert_eq!(signal.last_update_ns, 0);
        signal.update(Nanos::new(5000), Activity::RUNNING, 1);
        assert_eq!(signal.last_update_ns, 4096);
        signal.update(Nanos::new(100), Activity::RUNNING, 1);
        assert_eq!((signal.last_update_ns, signal.util_sum), (100, 4 << 10));
    }

    #[test]
    fn two_waiting_tasks_are_runnable_twice_and_one_runs() {
        let two = Activity { load: 2048, runnable: 2, running: true };
        let signal = after(&vec![(1000, two); 1000]);
        assert_eq!((signal.util_avg, signal.runnable_avg), (1024, 2048));
        assert!((2046..=2048).contains(&signal.load_avg), "{}", signal.load_avg);
    }

    #[test]
    fn at_half_the_frequency_a_task_that_idles_shows_half_and_one_that_does_not_shows_all() {
        let run = |busy_ms: u64, idle_ms: u64| {
            let (mut clock, mut runqueue) = (PeltClock::new(Nanos::ZERO), Runqueue::default());
            let mut highest = 0;
            for _ in 0..200 {
                clock.run(Nanos::from_millis(busy_ms), 1024, 512);
                runqueue.fair.update(clock.now(), Activity::RUNNING, 1);
                highest = runqueue.fair.util_avg;
                clock.goes_idle(&runqueue);
                clock.idle(Nanos::from_millis(idle_ms));
                runqueue.fair.update(clock.now(), Activity::IDLE, 1);
            }
            highest
        };
        // 4 of 16 ms at half speed are the work of 2 ms at full speed: 1/8 of 1024, and a ripple above it.
        let light = run(4, 12);
        assert!((128..190).contains(&light), "{light}");
        assert!(run(1000, 0) >= 1022);
    }

    #[test]
    fn a_new_task_gets_half_of_what_is_left() {
        let mut runqueue = Runqueue::default();
        let mut task = Task::new(NICE_0_WEIGHT, &runqueue, SCALE);
        assert_eq!((task.signal.util_avg, task.signal.load_avg), (512, 1024));
        runqueue.attach(&mut task);
        assert_eq!((runqueue.fair.util_avg, runqueue.fair.load_avg), (512, 1024));
        let second = Task::new(NICE_0_WEIGHT, &runqueue, SCALE);
        assert_eq!(second.signal.util_avg, 256, "512 * 1024 / 1025 is capped to (1024 - 512) / 2");
    }

    #[test]
    fn what_is_attached_and_detached_leaves_nothing() {
        let mut runqueue = Runqueue::default();
        runqueue.fair.update(us(5000), Activity::IDLE, 1);
        let mut task = Task::new(NICE_0_WEIGHT, &runqueue, SCALE);
        runqueue.attach(&mut task);
        runqueue.detach(&task);
        let fair = runqueue.fair;
        assert_eq!((fair.util_avg, fair.util_sum, fair.runnable_sum, fair.load_avg), (0, 0, 0, 0));
    }

    #[test]
    fn an_estimate_rises_at_once_and_falls_by_a_quarter() {
        for kernel in [OLD, NEW] {
            let mut task = Task::new(NICE_0_WEIGHT, &Runqueue::default(), SCALE);
            let mut sleep = |util_avg| {
                task.signal.util_avg = util_avg;
                task.signal.runnable_avg = util_avg;
                task.unchanged = false;
                task.estimate_at_sleep(kernel, SCALE);
                task.average
            };
            assert_eq!([sleep(400), sleep(200), sleep(200), sleep(170)], [400, 350, 312, 276], "{kernel}");
            assert_eq!(sleep(267), 276, "9 of 1024 are within the margin");
            assert_eq!(sleep(266), 273, "10 are not");
        }
    }

    #[test]
    fn a_task_that_had_to_wait_keeps_its_estimate_from_6_8() {
        let slept = |kernel| {
            let mut task = Task::new(NICE_0_WEIGHT, &Runqueue::default(), SCALE);
            (task.average, task.enqueued) = (400, 400);
            (task.signal.util_avg, task.signal.runnable_avg) = (100, 300);
            task.estimate_at_sleep(kernel, SCALE);
            task.average
        };
        assert_eq!([slept(OLD), slept(NEW)], [325, 400]);
    }

    #[test]
    fn effective_utilisation_by_version() {
        let with = |util_avg, runnable_avg, interrupts| Runqueue {
            fair: Signal { util_avg, runnable_avg, ..Signal::default() },
            interrupts: Signal { util_avg: interrupts, ..Signal::default() },
            ..Runqueue::default()
        };
        let of = |kernel, runqueue: &Runqueue, bandwidth, real_time| {
            let seen = effective(kernel, runqueue, SCALE, bandwidth, real_time);
            (seen.utilisation, seen.least)
        };
        let plain = with(500, 700, 0);
        assert_eq!([of(OLD, &plain, 0, false), of(NEW, &plain, 51, false)], [(500, 0), (700, 51)]);
        let interrupted = with(500, 500, 100);
        // 500 * 924 / 1024 = 451.
        assert_eq!(
            [of(OLD, &interrupted, 0, false), of(NEW, &interrupted, 51, false)],
            [(551, 0), (551, 151)]
        );
        assert_eq!([of(OLD, &plain, 0, true), of(NEW, &plain, 0, true)], [(1024, 0), (700, 1024)]);
        assert_eq!(of(OLD, &plain, 100, false), (600, 100));
        assert_eq!(
            [of(OLD, &with(0, 0, 1024), 0, false).0, of(NEW, &with(0, 0, 1024), 0, false).0],
            [1024; 2]
        );
    }

    proptest! {
        #[test]
        fn how_time_is_cut_into_updates_changes_little(
            spans in proptest::collection::vec((1u64..5000, any::<bool>()), 1..200), pieces in 1u64..20,
        ) {
            let activity = |on: bool| if on { Activity::RUNNING } else { Activity::IDLE };
            let whole: Vec<_> = spans.iter().map(|(us, on)| (*us, activity(*on))).collect();
            let cut: Vec<_> = spans
                .iter()
                .flat_map(|(us, on)| {
                    let each = us / pieces;
                    let rest = us - each * (pieces - 1);
                    (0..pieces).map(move |n| (if n == 0 { rest } else { each }, activity(*on)))
                })
                .collect();
            let (a, b) = (after(&whole), after(&cut));
            // Sums, for averages wait for the end of a period; in 1024ths of a CPU.
            let apart = a.util_sum.abs_diff(b.util_sum) / MIN_DIVIDER;
            prop_assert!(apart <= 4, "{apart}");
        }

        #[test]
        fn utilisation_is_never_more_than_a_cpu(spans in proptest::collection::vec((1u64..100_000, any::<bool>()), 1..100)) {
            let (mut signal, mut now) = (Signal::default(), 0);
            for (span, on) in spans {
                now += span;
                signal.update(us(now), if on { Activity::RUNNING } else { Activity::IDLE }, 1);
                prop_assert!(signal.util_avg <= 1024);
            }
        }

        #[test]
        fn idle_time_only_lowers(start in 0u32..47_000_000, first in 1u64..100_000, more in 0u64..100_000) {
            let signal = Signal { util_sum: start, ..Signal::default() };
            let less = signal.decayed(us(first));
            prop_assert!(signal.decayed(us(first + more)).util_sum <= less.util_sum);
        }
    }
}
