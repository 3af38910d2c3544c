//! What Linux's governors decide, given what the kernel gives them.
//!
//! A governor is a small machine of integers: it is told what happened to a CPU ([`Governor::update`], where the
//! scheduler calls its utilisation hook), reads clocks and counters through [`Readings`], and answers with the frequency
//! that it requests of the driver. What happens to the request (latency, turbo, coordination) is the machine's matter,
//! not the governor's.
//!
//! Goals: the kernel's own integer arithmetic, so that equal readings give equal requests; every tunable; the differences
//! between kernel versions. Not goals: when hooks are called, which the caller knows, and the time that the kernel's
//! worker takes to come.
//!
//! Each module names the kernel file that it follows, the versions, and what it leaves out.

pub mod acpi;
pub mod amd_pstate;
pub mod autonomous;
#[cfg(test)]
mod fixed;
pub mod hwp;
pub mod idle;
pub mod intel_pstate;
mod kernel;
mod policy;

pub use kernel::KernelVersion;
pub use policy::{FrequencyTable, Policy, Relation, TableError};

use domain::time::Nanos;

/// What the kernel lets a governor read about the CPUs of its policy, by their index in the policy, at the moment of an
/// update. All counters are totals since some fixed moment.
pub trait Readings {
    /// Time for which the CPU was idle, waiting for disks included (`get_cpu_idle_time` with `io_busy`: without it).
    fn idle(&self, cpu: usize) -> Nanos;
    /// The part of [`Readings::idle`] during which a task that had run on this CPU waited for a disk.
    fn iowait(&self, cpu: usize) -> Nanos;
    /// CPU time of tasks with a positive nice value.
    fn nice(&self, cpu: usize) -> Nanos;
    /// The scheduler's estimate of the CPU's utilisation, 0 to 1024 of the CPU's capacity at its highest frequency
    /// (`sched_cpu_util`/`effective_cpu_util`: CFS, RT, deadline, interrupts).
    fn utilisation(&self, cpu: usize) -> u64;
    /// Whether the CPU has not been idle since the last update (`tick_nohz_get_idle_calls_cpu` did not change).
    fn stayed_busy(&self, cpu: usize) -> bool;
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
