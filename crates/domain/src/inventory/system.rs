//! The kernel, memory, power, virtualisation, and programs that change the same settings.

use super::cpu::CpuList;
use crate::energy::{self, PowerSensor, Supply};
use crate::units::{Bytes, Microjoules};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// `6.12.9-amd64`.
    pub release: Option<String>,
    /// The whole of `/proc/version`.
    pub version: Option<String>,
    /// Ticks a second: `CONFIG_HZ`.
    pub hz: Option<u32>,
    /// When the tick stops.
    pub tickless: Option<Tickless>,
    /// CPUs without a tick while one task runs: `nohz_full`.
    pub nohz_full: CpuList,
    /// CPUs kept out of the scheduler's balancing: `isolcpus`.
    pub isolated: CpuList,
    /// Preemption.
    pub preemption: Option<Preemption>,
    /// `/sys/devices/system/cpu/vulnerabilities`: name to state.
    pub mitigations: BTreeMap<String, String>,
    /// Where the clock is read from: `tsc`, `kvm-clock`.
    pub clocksource: Option<String>,
    /// The words of the kernel's command line.
    pub command_line: Vec<String>,
    /// `vm.dirty_*` and `vm.swappiness`: name to value.
    pub sysctls: BTreeMap<String, String>,
    /// The file that the build's options were read from; `None` where there is none to read.
    pub config: Option<String>,
}

/// When the scheduler's tick stops: `Documentation/timers/no_hz.rst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tickless {
    /// Never.
    Periodic,
    /// While a CPU is idle.
    Idle,
    /// Also while one task runs, on the CPUs of `nohz_full`.
    Full,
}

/// How the kernel itself can be preempted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preemption {
    /// `none`, `voluntary`, `full`, `lazy`, `rt`; `None` where it is dynamic and cannot be read.
    pub mode: Option<String>,
    /// Whether it was chosen at boot rather than built in.
    pub dynamic: bool,
}

/// Memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// All that the kernel manages.
    #[serde(rename = "total_bytes")]
    pub total: Option<Bytes>,
    /// What could be had without swapping, at the moment of looking.
    #[serde(rename = "available_bytes")]
    pub available: Option<Bytes>,
    /// Swap.
    #[serde(rename = "swap_bytes")]
    pub swap: Option<Bytes>,
    /// Transparent huge pages: `always`, `madvise`, `never`.
    pub transparent_huge_pages: Option<String>,
}

/// Energy counters, and what else shows power.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Power {
    /// Domains under `/sys/class/powercap`.
    pub rapl: Vec<RaplDomain>,
    /// Events of the perf `power` source: `energy-pkg`, `energy-ram`.
    pub perf_events: Vec<String>,
    /// Sensors of hwmon that count energy or show power; empty in inventories of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hwmon: Vec<PowerSensor>,
    /// Batteries, and what supplies the machine from outside; empty in inventories of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supplies: Vec<Supply>,
}

impl Power {
    /// Whether any energy can be measured here.
    pub fn is_measurable(&self) -> bool {
        let by_rapl = !self.perf_events.is_empty() || self.rapl.iter().any(|domain| domain.readable);
        by_rapl || self.is_measurable_otherwise()
    }

    /// Whether it can by a sensor of hwmon or by batteries, as things are now.
    pub fn is_measurable_otherwise(&self) -> bool {
        energy::chosen(&self.hwmon).is_ok() || energy::discharging(&self.supplies).is_ok()
    }

    /// Why neither a sensor of hwmon nor a battery is taken, where there are such.
    pub fn why_no_other(&self) -> Vec<String> {
        let hwmon = energy::chosen(&self.hwmon).err();
        let battery = energy::discharging(&self.supplies).err();
        [hwmon, battery].into_iter().flatten().filter(|why| !why.is_empty()).collect()
    }
}

/// A RAPL domain: `Documentation/power/powercap/powercap.rst`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaplDomain {
    /// `package-0`; for a part of a package with that before it: `package-0/dram`.
    pub name: String,
    /// Its folder: `intel-rapl:0`.
    pub zone: String,
    /// Where its counter wraps.
    #[serde(rename = "max_energy_uj")]
    pub max_energy: Option<Microjoules>,
    /// Whether its counter can be read; since Linux 5.10 by root alone.
    pub readable: bool,
}

/// What stands between this kernel and the hardware.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Virtualisation {
    /// Whether the CPUs carry the `hypervisor` flag; `None` where they list no flags.
    pub hypervisor_flag: Option<bool>,
    /// `kvm`, `vmware`, `microsoft`, `xen`, …, where it can be told.
    pub hypervisor: Option<String>,
    /// Whether other guests have taken time from these CPUs since boot (steal in `/proc/stat`).
    pub steal_seen: Option<bool>,
    /// `docker`, `podman`, `lxc`, …, where this program runs in a container.
    pub container: Option<String>,
    /// What the firmware says the machine is.
    pub dmi: Option<Dmi>,
    /// A digest of `/etc/machine-id`, which itself is confidential: machine-id(5).
    pub machine_id_digest: Option<String>,
}

/// What the firmware says: `/sys/class/dmi/id`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dmi {
    /// `Dell Inc.`
    pub vendor: Option<String>,
    /// `PowerEdge R7525`.
    pub product: Option<String>,
    /// The mainboard.
    pub board: Option<String>,
    /// Version of the firmware.
    pub firmware: Option<String>,
}

/// A program that changes the same settings as Flyball would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rival {
    /// `tuned`.
    pub name: String,
    /// Whether it runs now.
    pub running: bool,
    /// Whether it starts at boot; `None` where no unit of it is installed.
    pub enabled: Option<bool>,
    /// Its active profile, where it has such.
    pub profile: Option<String>,
    /// What it changes.
    pub changes: String,
}

/// Something that this machine lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absent {
    /// What: `cpufreq`.
    pub what: String,
    /// What that means for the user, in a sentence.
    pub means: String,
}
