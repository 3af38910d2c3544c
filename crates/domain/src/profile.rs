//! What CPU time was spent in, by sampled call stacks.

use crate::order;
use crate::time::Nanos;
use crate::trace::Role;
use std::collections::BTreeMap;
use std::fmt;

/// Where sampled CPU time went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// How much CPU time a sample stands for.
    pub period: Nanos,
    /// Samples, by whom the CPU worked for and what it was in.
    pub samples: BTreeMap<(Role, Subsystem), u64>,
    /// Samples by what was on the call stack at all: what ran, and all that it worked for. One sample counts
    /// to each of them.
    pub inclusive: BTreeMap<Subsystem, u64>,
    /// Samples by the function of the kernel that ran; of the busiest alone.
    pub functions: BTreeMap<String, u64>,
    /// Samples that found no room and are missing.
    pub lost: u64,
    /// What is known of the interrupts of devices; `None` where they were not recorded, so that what these
    /// executed is counted to what they interrupted.
    pub interrupts: Option<Interrupts>,
}

/// The interrupts of devices, from the begin of each handler to its end. No clock that is an interrupt itself
/// sees them; they were measured, and their time is in the samples of [`Subsystem::Interrupt`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interrupts {
    /// Samples that they held off, by what these would have counted to: they count to
    /// [`Subsystem::Interrupt`].
    pub held_off: BTreeMap<Subsystem, u64>,
    /// So many periods of their time have no sample, and were added under [`Role::Interrupt`]: no thread was
    /// interrupted, or one for longer than a period.
    pub unsampled: u64,
    /// The time of the busiest, by number and name: `36 virtio1-req.0`.
    pub handlers: BTreeMap<String, Nanos>,
}

impl Interrupts {
    /// How many handlers are named.
    pub const MAX_HANDLERS: usize = 8;

    /// All samples that they held off.
    pub fn all_held_off(&self) -> u64 {
        self.held_off.values().fold(0, |all: u64, count| all.saturating_add(*count))
    }

    fn add(&mut self, other: &Self) {
        sum(&mut self.held_off, &other.held_off);
        self.unsampled = self.unsampled.saturating_add(other.unsampled);
        for (name, time) in &other.handlers {
            let of = self.handlers.entry(name.clone()).or_default();
            *of = Nanos::new(of.get().saturating_add(time.get()));
        }
        busiest(&mut self.handlers, Self::MAX_HANDLERS);
    }
}

/// Adds counts to those of the same keys.
fn sum<K: Ord + Clone>(all: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (key, count) in more {
        let of = all.entry(key.clone()).or_default();
        *of = of.saturating_add(*count);
    }
}

/// Keeps so many, those of the most; of equal ones the first by name.
fn busiest<T: Ord>(of: &mut BTreeMap<String, T>, most: usize) {
    let mut all: Vec<(String, T)> = std::mem::take(of).into_iter().collect();
    order::by(&mut all, |(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
    all.truncate(most);
    *of = all.into_iter().collect();
}

impl Profile {
    /// How many functions are named.
    pub const MAX_FUNCTIONS: usize = 32;

    /// All samples.
    pub fn all(&self) -> u64 {
        self.count(|_, _| true)
    }

    /// Those of some roles and subsystems.
    pub fn count(&self, is_wanted: impl Fn(Role, Subsystem) -> bool) -> u64 {
        let samples = self.samples.iter();
        let wanted = samples.filter(|((role, subsystem), _)| is_wanted(*role, *subsystem));
        wanted.fold(0, |all: u64, (_, count)| all.saturating_add(*count))
    }

    /// The CPU time that so many samples stand for.
    pub fn time(&self, samples: u64) -> Nanos {
        Nanos::new(self.period.get().saturating_mul(samples))
    }

    /// Half the width of the 95% interval of a share, in percentage points: that of one half, which is the
    /// widest (the normal approximation of the binomial distribution).
    pub fn margin(&self) -> f64 {
        196.0 * (0.25 / self.all().max(1) as f64).sqrt()
    }

    /// Adds another of the same period. Of interrupts nothing is known where one of the two has none.
    pub fn add(&mut self, other: &Self) {
        sum(&mut self.samples, &other.samples);
        sum(&mut self.inclusive, &other.inclusive);
        sum(&mut self.functions, &other.functions);
        self.lost = self.lost.saturating_add(other.lost);
        self.interrupts = self.interrupts.take().zip(other.interrupts.as_ref()).map(|(mut all, more)| {
            all.add(more);
            all
        });
    }

    /// Keeps the busiest functions and handlers alone.
    pub fn trim(&mut self) {
        busiest(&mut self.functions, Self::MAX_FUNCTIONS);
        if let Some(interrupts) = &mut self.interrupts {
            busiest(&mut interrupts.handlers, Interrupts::MAX_HANDLERS);
        }
    }
}

/// What CPU time is spent in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subsystem {
    /// Programs themselves.
    User,
    /// System calls of files, the page cache, writeback, asynchronous I/O.
    Vfs,
    /// ext4 and jbd2, XFS, Btrfs, …
    Filesystem,
    /// dm-crypt, and the ciphers that it calls.
    Crypt,
    /// md and its levels, and the parity that they compute.
    Md,
    /// The device mapper and its targets, but dm-crypt.
    Dm,
    /// Bios, requests, I/O schedulers.
    Block,
    /// Drivers of disks.
    Driver,
    /// Ciphers that somebody else calls, or that run in a worker of their own.
    Crypto,
    /// Sockets and protocols.
    Network,
    /// Page faults, mappings, reclaim.
    Memory,
    /// Switches from thread to thread, and wake-ups.
    Scheduler,
    /// Interrupts that serve none of these; of devices, where they were recorded, all that their handlers
    /// execute.
    Interrupt,
    /// What is left of the kernel.
    Other,
    /// The kernel hides its functions' names.
    Unnamed,
}

impl Subsystem {
    /// All of them.
    pub const ALL: [Subsystem; 15] = [
        Subsystem::User,
        Subsystem::Vfs,
        Subsystem::Filesystem,
        Subsystem::Crypt,
        Subsystem::Md,
        Subsystem::Dm,
        Subsystem::Block,
        Subsystem::Driver,
        Subsystem::Crypto,
        Subsystem::Network,
        Subsystem::Memory,
        Subsystem::Scheduler,
        Subsystem::Interrupt,
        Subsystem::Other,
        Subsystem::Unnamed,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Subsystem::User => "user space",
            Subsystem::Vfs => "VFS, page cache",
            Subsystem::Filesystem => "filesystem",
            Subsystem::Crypt => "dm-crypt",
            Subsystem::Md => "md",
            Subsystem::Dm => "device mapper",
            Subsystem::Block => "block layer",
            Subsystem::Driver => "driver",
            Subsystem::Crypto => "crypto",
            Subsystem::Network => "network",
            Subsystem::Memory => "memory",
            Subsystem::Scheduler => "scheduler",
            Subsystem::Interrupt => "interrupt",
            Subsystem::Other => "other kernel",
            Subsystem::Unnamed => "unnamed kernel",
        }
    }

    /// From its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|subsystem| subsystem.name() == name)
    }
}

impl fmt::Display for Subsystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
