//! What the scheduler believes of a CPU and of its threads: utilisation by PELT (`kernel/sched/pelt.c`).

use domain::time::Nanos;
use governors::KernelVersion;
use governors::pelt::{Activity, Effective, NICE_0_WEIGHT, PeltClock, Runqueue, SCALE, Task, effective};

/// A CPU's signals.
#[derive(Clone, Debug)]
pub(super) struct Tracking {
    runqueue: Runqueue,
    clock: PeltClock,
}

/// Who had a CPU for a while.
#[derive(Debug)]
pub(super) enum Had<'a> {
    /// Nobody.
    Idle,
    /// An interrupt.
    Interrupt,
    /// A thread, with so many that waited, itself among them.
    Thread(&'a mut Task, u64),
}

impl Tracking {
    pub(super) fn new() -> Self {
        Self { runqueue: Runqueue::default(), clock: PeltClock::new(Nanos::ZERO) }
    }

    /// A thread that has not run yet.
    pub(super) fn task() -> Task {
        Task::new(NICE_0_WEIGHT, &Runqueue::default(), 0)
    }

    /// So long until `now` the CPU was had by this, at this share of its highest frequency, in 1024ths.
    pub(super) fn pass(&mut self, now: u64, span: u64, had: Had<'_>, frequency: u64) {
        let span = Nanos::new(span);
        match had {
            Had::Idle => {
                self.clock.idle(span);
                self.runqueue.fair.update(self.clock.now(), Activity::IDLE, 1);
            }
            Had::Interrupt => {
                self.runqueue.interrupted(Nanos::new(now), span);
            }
            Had::Thread(task, runnable) => {
                self.clock.run(span, SCALE, frequency);
                let activity = Activity { load: runnable * NICE_0_WEIGHT, runnable, running: true };
                self.runqueue.fair.update(self.clock.now(), activity, 1);
                task.update(self.clock.now(), Activity::RUNNING);
            }
        }
    }

    /// A thread that waited for the CPU since its last update gets it.
    pub(super) fn waited(&self, task: &mut Task) {
        task.update(self.clock.now(), Activity::WAITING);
    }

    /// A thread wakes up on this CPU, where it slept.
    pub(super) fn wakes(&mut self, task: &mut Task, kernel: KernelVersion) {
        task.update(self.clock.now(), Activity::IDLE);
        self.runqueue.estimate_enqueue(task, kernel);
    }

    /// A thread that slept on another CPU, or never ran, comes to this one.
    pub(super) fn comes(&mut self, task: &mut Task) {
        self.runqueue.attach(task);
    }

    /// A thread that sleeps leaves for another CPU.
    pub(super) fn leaves(&mut self, task: &mut Task) {
        task.update(self.clock.now(), Activity::IDLE);
        self.runqueue.detach(task);
    }

    /// A thread goes to sleep.
    pub(super) fn sleeps(&mut self, task: &mut Task, kernel: KernelVersion) {
        self.runqueue.estimate_dequeue(task, kernel);
        task.estimate_at_sleep(kernel, SCALE);
    }

    /// Nobody is left.
    pub(super) fn goes_idle(&mut self) {
        self.clock.goes_idle(&self.runqueue);
    }

    pub(super) fn effective(&self, kernel: KernelVersion) -> Effective {
        effective(kernel, &self.runqueue, SCALE, 0, false)
    }
}
