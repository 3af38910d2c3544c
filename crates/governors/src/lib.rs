//! What Linux's governors decide, given what the kernel gives them.
//!
//! A governor is a small machine of integers: it is told what happened to a CPU ([`Governor::update`], where
//! the scheduler calls its utilisation hook), reads clocks and counters through [`Readings`], and answers
//! with the frequency that it requests of the driver. What happens to the request (latency, turbo,
//! coordination) is the machine's matter, not the governor's.
//!
//! Goals: the kernel's own integer arithmetic, so that equal readings give equal requests; every tunable; the
//! differences between kernel versions. Not goals: when hooks are called, which the caller knows, and the
//! time that the kernel's worker takes to come.
//!
//! Each module names the kernel file that it follows, the versions, and what it leaves out.

pub mod acpi;
pub mod amd_pstate;
pub mod autonomous;
mod conservative;
#[cfg(test)]
mod counted;
mod dbs;
pub mod driver;
mod fixed;
mod governor;
pub mod hwp;
pub mod idle;
pub mod intel_pstate;
mod kernel;
mod ondemand;
pub mod pelt;
mod policy;
mod schedutil;
mod tunable;

pub use dbs::default_sampling_rate_us;
pub use governor::{Governor, Hook};
pub use kernel::KernelVersion;
pub use ondemand::default_io_is_busy;
pub use policy::{FrequencyTable, Policy, Relation, TableError};
pub use schedutil::default_rate_limit_us;
pub use tunable::TunableError;

use domain::time::Nanos;

/// What the kernel lets a governor read about the CPUs of its policy, by their index in the policy, at the
/// moment of an update. All counters are totals since some fixed moment.
pub trait Readings {
    /// Time for which the CPU was idle, waiting for disks included (`get_cpu_idle_time` with `io_busy`:
    /// without it).
    fn idle(&self, cpu: usize) -> Nanos;
    /// The part of [`Readings::idle`] during which a task that had run on this CPU waited for a disk.
    fn iowait(&self, cpu: usize) -> Nanos;
    /// CPU time of tasks with a positive nice value.
    fn nice(&self, cpu: usize) -> Nanos;
    /// The clock (`ktime_get`) at which this CPU's times were read, where they are read one after the other;
    /// `None`: at the time of the call.
    fn read_at(&self, _cpu: usize) -> Option<Nanos> {
        None
    }
    /// The scheduler's estimate of the CPU's utilisation, 0 to [`Readings::capacity`] (`effective_cpu_util`
    /// as schedutil asks for it: CFS, RT, interrupts; deadline and runnable as the kernel's version has it;
    /// see [`pelt::effective`]).
    fn utilisation(&self, cpu: usize) -> u64;
    /// The utilisation below which schedutil does not go: from 6.8 the `min` that `effective_cpu_util` tells
    /// (deadline bandwidth, interrupts, everything where a real-time task is runnable).
    fn least_utilisation(&self, cpu: usize) -> u64 {
        self.deadline_bandwidth(cpu)
    }
    /// What is promised to deadline tasks that are there now, of 1024 (`cpu_bw_dl`). From 6.8 a CPU that has
    /// fair tasks has the fair server's 50 ms a second in it: 51.
    fn deadline_bandwidth(&self, _cpu: usize) -> u64 {
        0
    }
    /// The CPU's capacity at its highest frequency (`arch_scale_cpu_capacity`): 1024 but for the small cores
    /// of hybrids.
    fn capacity(&self, _cpu: usize) -> u64 {
        1024
    }
    /// How often the CPU has gone idle (`tick_nohz_get_idle_calls_cpu`: times that the idle loop considered
    /// stopping the tick). schedutil holds its frequency while the count stays.
    fn idle_calls(&self, cpu: usize) -> u64;
    /// APERF: cycles at the frequency that it ran at, while not idle.
    fn aperf(&self, cpu: usize) -> u64;
    /// MPERF: cycles at the base frequency, while not idle.
    fn mperf(&self, cpu: usize) -> u64;
    /// TSC: cycles at the base frequency, idle or not.
    fn tsc(&self, cpu: usize) -> u64;
}

/// A call of the scheduler's utilisation hook (`cpufreq_update_util`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// The runqueue's clock.
    pub now: Nanos,
    /// Which CPU of the policy, by index.
    pub cpu: usize,
    /// A task that waited for a disk was woken (`SCHED_CPUFREQ_IOWAIT`).
    pub iowait: bool,
}
