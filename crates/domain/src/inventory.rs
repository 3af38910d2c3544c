//! What a machine is, as far as it decides how fast storage and databases run on it.
//!
//! Plain values that a reader of `/proc` and `/sys` fills in, and that rules, reports and the JSON of
//! `flyball inspect` share. What a machine does not have is `None` or an empty list, never a zero; what that
//! means for the user stands in [`Inventory::absent`]. In JSON each quantity carries its unit in its name.
//!
//! Not a goal: counters that change while one looks. Those belong to a trace.

mod block;
mod cpu;
mod cpufreq;
mod system;

pub use block::{
    BlockDevice, BlockKind, Crypt, DeviceMapper, JournalMode, Link, LinkKind, Loop, Md, MdMember, Mount,
    Queue, WriteCache,
};
pub use cpu::{CoreKind, CoreType, CpuList, CpuModel, Cpus, Node};
pub use cpufreq::{AmdPstate, Cpufreq, Cpuidle, IdleState, IntelPstate, Policy, TimeInState};
pub use system::{
    Absent, Dmi, Kernel, Memory, Power, Preemption, RaplDomain, Rival, Tickless, Virtualisation,
};

use crate::trace::FrequencySource;
use serde::{Deserialize, Serialize};

/// The version of the JSON form. It grows when a field changes its meaning or goes; new fields do not count.
pub const SCHEMA: u32 = 1;

/// One machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// Always [`SCHEMA`] where this program wrote it.
    pub schema: u32,
    /// Its host name, `/proc/sys/kernel/hostname`.
    pub host: Option<String>,
    /// The distribution as it names itself: `PRETTY_NAME` of os-release(5).
    pub os: Option<String>,
    /// Processors.
    pub cpus: Cpus,
    /// Frequency policy; `None` where the kernel has no cpufreq driver for these CPUs.
    pub cpufreq: Option<Cpufreq>,
    /// Where frequencies can be read from here, best first; empty where nothing shows them.
    pub frequency_sources: Vec<FrequencySource>,
    /// Idle states; `None` where the kernel has no cpuidle driver for these CPUs.
    pub cpuidle: Option<Cpuidle>,
    /// The kernel and its settings.
    pub kernel: Kernel,
    /// Memory.
    pub memory: Memory,
    /// Block devices, each once, in the order of their names; see [`Inventory::roots`] and
    /// [`Inventory::built_on`] for the tree.
    pub devices: Vec<BlockDevice>,
    /// Mounted filesystems that hold data: no `proc`, `sysfs`, `cgroup` and the like.
    pub mounts: Vec<Mount>,
    /// Energy counters.
    pub power: Power,
    /// What stands between this kernel and the hardware.
    pub virtualisation: Virtualisation,
    /// Programs that change the same settings.
    pub rivals: Vec<Rival>,
    /// What this machine lacks, and what that means.
    pub absent: Vec<Absent>,
}

/// What of a machine's storage was there during a trial, with the settings of then: that of a study which
/// builds its own is not in the inventory, which was taken before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Storage {
    /// [`SCHEMA`].
    pub schema: u32,
    /// As [`Inventory::devices`].
    pub devices: Vec<BlockDevice>,
    /// As [`Inventory::mounts`].
    pub mounts: Vec<Mount>,
}

impl Inventory {
    /// What of it is storage.
    pub fn storage(&self) -> Storage {
        Storage { schema: SCHEMA, devices: self.devices.clone(), mounts: self.mounts.clone() }
    }

    /// The same machine with other storage.
    #[must_use]
    pub fn with_storage(self, storage: Storage) -> Self {
        Self { devices: storage.devices, mounts: storage.mounts, ..self }
    }

    /// The device of that name.
    pub fn device(&self, name: &str) -> Option<&BlockDevice> {
        self.devices.iter().find(|d| d.name == name)
    }

    /// Devices that are built on no other: where the tree begins.
    pub fn roots(&self) -> impl Iterator<Item = &BlockDevice> {
        self.devices.iter().filter(|d| d.built_of.is_empty())
    }

    /// Devices that are built on this one: its partitions, arrays, mappings.
    pub fn built_on<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a BlockDevice> {
        self.devices.iter().filter(move |d| d.built_of.iter().any(|below| below == name))
    }

    /// Filesystems mounted from this device.
    pub fn mounts_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Mount> {
        self.mounts.iter().filter(move |m| m.device.as_deref() == Some(name))
    }

    /// Whether this kernel runs under a hypervisor; `None` where nothing says.
    pub fn is_virtual(&self) -> Option<bool> {
        self.virtualisation.hypervisor_flag.or(self.virtualisation.hypervisor.as_ref().map(|_| true))
    }
}
