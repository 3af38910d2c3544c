//! Work that the kernel does for itself, which a slow CPU feels: the scheduler's tick, a governor's sample,
//! and RCU's grace periods.

use super::{Cost, Cpus, ThreadId};
use crate::engine::{Event, PartId};
use domain::trace::Role;
use event_queue::{Queue, Time};

/// What it costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// A tick of a CPU that is not idle (`tick_sched_timer`, `scheduler_tick`). It is executed within the
    /// thread that it interrupts, and counts as that thread's time, as where the kernel does not account
    /// interrupts.
    pub tick: Cost,
    /// A sample of a governor that decides in a kworker (`dbs_work_handler`, `sugov_work`), the call of the
    /// driver included. It looks at the load, and asks the driver, when the kworker is done, which waits for
    /// the CPU as other threads do; where this is nothing, when the scheduler's hook is called.
    pub sample: Cost,
    /// A wake-up of RCU's thread (`rcu_gp_kthread`), the interrupt that wakes it included.
    pub rcu: Cost,
    /// A CPU leaves the idle loop and will enter it again: the tick is started and stopped, and the clock
    /// caught up (`tick_nohz_idle_exit`, `tick_nohz_idle_enter`).
    pub idle_exit: Cost,
}

/// RCU's thread, once something was to be freed after a grace period (`call_rcu`, kernel/rcu/tree.c of 6.12).
///
/// The next tick finds that a period is wanted, and wakes the thread, which begins it (`rcu_gp_init`). The
/// tick after that reports that the CPU has switched threads since, and wakes it again to end the period
/// (`rcu_gp_cleanup`); where more was freed meanwhile, the next one begins at once.
///
/// Approximate: every CPU has switched threads, or is idle, by that tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rcu {
    thread: ThreadId,
    period: Period,
    /// Something was freed since the period began, and needs the next one.
    needs_another: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Period {
    /// None is wanted.
    None,
    /// One begins when the thread has been woken.
    Wanted,
    /// It ends when the thread has been woken again.
    UnderWay,
}

impl Cpus {
    /// A tick is executed within what the CPU runs.
    pub(super) fn execute_tick(&mut self, now: Time, queue: &mut Queue<Event>, cpu: usize) {
        self.lengthen(now, queue, cpu, self.upkeep.tick);
    }

    /// What a CPU executes takes so much longer, if it executes anything.
    pub(crate) fn lengthen(&mut self, now: Time, queue: &mut Queue<Event>, cpu: usize, cost: Cost) {
        if cost.is_nothing() || self.cpus[cpu].ends.is_none() {
            return;
        }
        self.account(now, cpu);
        self.interrupt_work(now, cpu);
        let running = self.cpus[cpu].running.expect("a CPU with work runs a thread");
        if let Some(work) = self.threads[running.0 as usize].work.front_mut() {
            work.cost = work.cost.and(cost);
        }
        self.begin(now, queue, cpu);
    }

    /// Something is freed that waits for a grace period.
    pub(crate) fn call_rcu(&mut self, now: Time, queue: &mut Queue<Event>) {
        if self.upkeep.rcu.is_nothing() {
            return;
        }
        let rcu = match self.rcu {
            Some(rcu) => rcu,
            None => {
                let thread = self.thread("rcu_preempt", Role::Kernel, 0);
                Rcu { thread, period: Period::None, needs_another: false }
            }
        };
        self.rcu = Some(match rcu.period {
            Period::None => {
                self.wake_rcu_at_the_next_tick(now, queue);
                Rcu { period: Period::Wanted, ..rcu }
            }
            Period::Wanted => rcu,
            Period::UnderWay => Rcu { needs_another: true, ..rcu },
        });
    }

    fn wake_rcu_at_the_next_tick(&self, now: Time, queue: &mut Queue<Event>) {
        queue.plan((now / self.tick_ns + 1) * self.tick_ns, Event::GracePeriod);
    }

    /// RCU's thread has something to do.
    pub(crate) fn grace_period(&mut self, now: Time, queue: &mut Queue<Event>) {
        let Some(rcu) = self.rcu else { return };
        self.give(now, queue, rcu.thread, None, self.upkeep.rcu, PartId::NOBODY, 0);
    }

    /// A thread goes to sleep: RCU's has begun a grace period, or ended one.
    pub(super) fn wait_for_grace(&mut self, now: Time, queue: &mut Queue<Event>, thread: ThreadId) {
        let Some(rcu) = self.rcu.as_mut().filter(|rcu| rcu.thread == thread) else { return };
        let begins = rcu.period == Period::Wanted || std::mem::take(&mut rcu.needs_another);
        rcu.period = if begins { Period::UnderWay } else { Period::None };
        if begins {
            self.wake_rcu_at_the_next_tick(now, queue);
        }
    }

    /// The kworker of a governor's sample has something to do.
    pub(crate) fn governor_work(&mut self, now: Time, queue: &mut Queue<Event>, cpu: usize) {
        let worker = self.governor_worker(cpu);
        self.give(now, queue, worker, None, self.upkeep.sample, PartId::NOBODY, 0);
    }

    fn governor_worker(&mut self, cpu: usize) -> ThreadId {
        if let Some(worker) = self.cpus[cpu].governor_worker {
            return worker;
        }
        let worker = self.thread(&format!("kworker/{cpu}:1-events"), Role::Kworker, 1 << cpu);
        self.cpus[cpu].governor_worker = Some(worker);
        worker
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{Begins, Chooser, CpusSpec, PolicySpec};
    use crate::engine::{Core, Part, Stopped, World};
    use disks::DiskSet;
    use domain::rng::Seed;
    use domain::units::Hertz;
    use governors::{FrequencyTable, Governor, KernelVersion};
    use std::collections::BTreeMap;

    /// A thread that has so many cycles to execute, and then stops the machine.
    struct Busy(PartId, u64);

    impl Part for Busy {
        fn timer(&mut self, core: &mut Core, _: u64) {
            let thread = core.cpus.thread("busy", Role::Workload, 0);
            core.run(thread, Cost::cycles(self.1), self.0, 0);
        }

        fn worked(&mut self, core: &mut Core, _: u64) {
            core.stop();
        }
    }

    /// When a CPU of 1 GHz has executed 100 ms of work, and what threads of a role took.
    fn ends(upkeep: Upkeep, governor: &str, role: Role) -> (Time, u64) {
        let kernel = KernelVersion::new(6, 1, 0);
        let mut policy = PolicySpec::fixed(vec![0], 1_000_000);
        let tunables = BTreeMap::new();
        policy.chooser =
            Chooser::Kernel(Governor::new(governor, &tunables, kernel, 250, &policy.view).unwrap());
        let cpus = Cpus::new(CpusSpec { upkeep, ..CpusSpec::bare(kernel, vec![policy]) });
        let mut world = World::new(Core::new(cpus, DiskSet::new(Seed(1)), Seed(1)));
        let me = world.next_part();
        world.add(Box::new(Busy(me, 100_000_000)));
        world.core.at(0, me, 0);
        assert_eq!(world.run(1_000_000_000, None, &mut ()), Stopped::Done);
        let threads = world.core.cpus.thread_times().filter(|(_, its, _)| *its == role);
        (world.core.now, threads.map(|(_, _, ns)| ns).sum())
    }

    #[test]
    fn a_tick_takes_its_time_from_the_thread_that_it_interrupts() {
        let tick = Upkeep { tick: Cost::cycles(1_000_000), ..Upkeep::default() };
        assert_eq!(ends(Upkeep::default(), "performance", Role::Kworker), (100_000_000, 0));
        // 100 ms of work and a quarter of all time for ticks: 33 ticks in 133 ms.
        assert_eq!(ends(tick, "performance", Role::Kworker), (133_000_000, 0));
    }

    #[test]
    fn a_governor_that_decides_in_a_kworker_takes_its_time_at_each_sample() {
        let sample = Upkeep { sample: Cost::cycles(500_000), ..Upkeep::default() };
        assert_eq!(ends(sample, "performance", Role::Kworker), (100_000_000, 0));
        let (end, workers) = ends(sample, "ondemand", Role::Kworker);
        assert!(workers >= 500_000 && workers.is_multiple_of(500_000), "{workers}");
        assert_eq!(end, 100_000_000 + workers);
    }

    /// The frequency in MHz, after so many ms, of a CPU that has been idle at 500 MHz and is busy since,
    /// under ondemand, which samples each 10 ms.
    fn mhz_after(sample: Cost, ms: u64) -> u64 {
        let kernel = KernelVersion::new(6, 1, 0);
        let mut policy = PolicySpec::fixed(vec![0], 1_000_000);
        let frequencies = [1000, 500].map(Hertz::from_mhz).to_vec();
        policy.view.table = Some(FrequencyTable::new(frequencies).unwrap());
        policy.view.hardware_min = Hertz::from_mhz(500);
        policy.view.min = policy.view.hardware_min;
        policy.view.transition_latency_ns = 10_000;
        let tunables = BTreeMap::new();
        policy.chooser =
            Chooser::Kernel(Governor::new("ondemand", &tunables, kernel, 250, &policy.view).unwrap());
        policy.begins = Begins::Idle;
        let upkeep = Upkeep { sample, ..Upkeep::default() };
        let cpus = Cpus::new(CpusSpec { upkeep, ..CpusSpec::bare(kernel, vec![policy]) });
        let mut world = World::new(Core::new(cpus, DiskSet::new(Seed(1)), Seed(1)));
        let me = world.next_part();
        world.add(Box::new(Busy(me, 1_000_000_000)));
        world.core.at(0, me, 0);
        world.run(ms * 1_000_000, None, &mut ());
        world.core.cpus.khz(0) / 1000
    }

    #[test]
    fn a_governor_that_decides_in_a_kworker_decides_when_that_has_run() {
        // The tick at 12 ms finds that a sample is due.
        assert_eq!([11, 13].map(|ms| mhz_after(Cost::default(), ms)), [500, 1000]);
        // The kworker takes 2 ms of a CPU of 500 MHz.
        let sample = Cost::cycles(1_000_000);
        assert_eq!([11, 13, 15].map(|ms| mhz_after(sample, ms)), [500, 500, 1000]);
    }

    /// Frees something every so often, while a CPU of 1 GHz executes 100 ms of work.
    struct Frees(PartId, Time);

    impl Part for Frees {
        fn timer(&mut self, core: &mut Core, _: u64) {
            core.call_rcu();
            core.at(core.now + self.1, self.0, 0);
        }
    }

    /// How often RCU's thread wakes up meanwhile.
    fn wake_ups(every: Option<Time>) -> u64 {
        const EACH: u64 = 10_000;
        // Until 6.6 a thread that wakes up takes the CPU from one that has run for long.
        let kernel = KernelVersion::new(6, 1, 0);
        let upkeep = Upkeep { rcu: Cost::cycles(EACH), ..Upkeep::default() };
        let policy = PolicySpec::fixed(vec![0], 1_000_000);
        let cpus = Cpus::new(CpusSpec { upkeep, ..CpusSpec::bare(kernel, vec![policy]) });
        let mut world = World::new(Core::new(cpus, DiskSet::new(Seed(1)), Seed(1)));
        let busy = world.next_part();
        world.add(Box::new(Busy(busy, 100_000_000)));
        world.core.at(0, busy, 0);
        if let Some(every) = every {
            let me = world.next_part();
            world.add(Box::new(Frees(me, every)));
            world.core.at(1_000_000, me, 0);
        }
        assert_eq!(world.run(1_000_000_000, None, &mut ()), Stopped::Done);
        let times = world.core.cpus.thread_times().filter(|(_, its, _)| *its == Role::Kernel);
        times.map(|(_, _, ns)| ns).sum::<u64>() / EACH
    }

    #[test]
    fn a_grace_period_wakes_rcus_thread_twice_and_the_next_one_begins_as_it_ends() {
        assert_eq!(wake_ups(None), 0);
        // At 1 ms: begun at 4 and ended at 8. At 51 ms: 52 and 56.
        assert_eq!(wake_ups(Some(50_000_000)), 4);
        // At 1, 11, 21 … 91 ms, each of which finds none under way.
        assert_eq!(wake_ups(Some(10_000_000)), 20);
        // At 1, 6, 11 … ms: that at 6 ms waits for the one that is under way, and begins the next at 8 ms.
        assert_eq!(wake_ups(Some(5_000_000)), 25);
    }

    #[test]
    fn a_cpu_leaves_the_idle_loop_once_and_stays_busy() {
        let exit = Upkeep { idle_exit: Cost::cycles(700_000), ..Upkeep::default() };
        assert_eq!(ends(exit, "performance", Role::Workload), (100_700_000, 100_700_000));
    }
}
