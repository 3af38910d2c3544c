//! Frequency policy and idle states.

use super::cpu::CpuList;
use crate::time::Nanos;
use crate::units::{Hertz, Ratio};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The cpufreq subsystem: `Documentation/admin-guide/pm/cpufreq.rst`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpufreq {
    /// The policies, by number.
    pub policies: Vec<Policy>,
    /// Global files of intel_pstate, where it is loaded.
    pub intel_pstate: Option<IntelPstate>,
    /// Global files of amd-pstate, where it is loaded.
    pub amd_pstate: Option<AmdPstate>,
    /// `cpufreq/boost`: whether frequencies above the base are allowed; only acpi-cpufreq and a few others
    /// have it.
    pub boost: Option<bool>,
    /// Whether the scheduler scales a task's utilisation by the frequency at which it ran
    /// (`arch_scale_freq_invariant`), which schedutil builds on; `None` where nothing tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_invariant: Option<bool>,
    /// Tunables of governors that are shared by all policies: governor to name to value.
    pub tunables: BTreeMap<String, BTreeMap<String, String>>,
}

impl Cpufreq {
    /// The governor of all policies; `None` where they differ or are not known.
    pub fn governor_of_all(&self) -> Option<&str> {
        let first = self.policies.first()?.governor.as_deref()?;
        self.policies.iter().all(|policy| policy.governor.as_deref() == Some(first)).then_some(first)
    }

    /// Whether intel_pstate's own powersave decides, which is no governor of the kernel's.
    pub fn is_intel_powersave(&self) -> bool {
        let is_own = |policy: &Policy| policy.driver.as_deref() == Some("intel_pstate");
        self.governor_of_all() == Some("powersave") && self.policies.iter().all(is_own)
    }

    /// The value of a tunable of the governor of all policies, where it is the same for all.
    pub fn tunable_of_all(&self, name: &str) -> Option<&str> {
        let shared = self.tunables.get(self.governor_of_all()?).and_then(|all| all.get(name));
        let own = || {
            let first = self.policies.first()?.tunables.get(name)?;
            self.policies.iter().all(|policy| policy.tunables.get(name) == Some(first)).then_some(first)
        };
        shared.or_else(own).map(String::as_str)
    }
}

/// CPUs whose frequency is decided together: `/sys/devices/system/cpu/cpufreq/policyN`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// The N of `policyN`.
    pub id: u32,
    /// The CPUs that it drives and that run: `affected_cpus`.
    pub cpus: CpuList,
    /// `scaling_driver`: `intel_pstate`, `intel_cpufreq`, `acpi-cpufreq`, `amd-pstate-epp`.
    pub driver: Option<String>,
    /// `scaling_governor`. With intel_pstate in active mode `powersave` is not the governor of that name, but
    /// the driver's own algorithm.
    pub governor: Option<String>,
    /// `scaling_available_governors`.
    pub available_governors: Vec<String>,
    /// The limits in force: `scaling_min_freq`.
    #[serde(rename = "min_hz")]
    pub min: Option<Hertz>,
    /// `scaling_max_freq`.
    #[serde(rename = "max_hz")]
    pub max: Option<Hertz>,
    /// What the hardware can: `cpuinfo_min_freq`.
    #[serde(rename = "hardware_min_hz")]
    pub hardware_min: Option<Hertz>,
    /// `cpuinfo_max_freq`, turbo included.
    #[serde(rename = "hardware_max_hz")]
    pub hardware_max: Option<Hertz>,
    /// `bios_limit`: what the firmware allows.
    #[serde(rename = "bios_limit_hz")]
    pub bios_limit: Option<Hertz>,
    /// `base_frequency`, the guaranteed one (intel_pstate).
    #[serde(rename = "base_hz")]
    pub base: Option<Hertz>,
    /// `scaling_cur_freq` at the moment of looking: what was asked for last, which need not be what runs.
    #[serde(rename = "current_hz")]
    pub current: Option<Hertz>,
    /// `scaling_available_frequencies`, ascending; empty where the driver knows a range only.
    #[serde(rename = "available_hz")]
    pub available: Vec<Hertz>,
    /// `boost` (or `cpb`) of this policy.
    pub boost: Option<bool>,
    /// `energy_performance_preference`: a word, or a number from 0 (fast) to 255 (frugal).
    pub epp: Option<String>,
    /// `energy_performance_available_preferences`.
    pub available_epp: Vec<String>,
    /// Energy performance bias of its CPUs, 0 (fast) to 15 (frugal), ascending: one value, or several where
    /// the CPUs differ; empty where they have none.
    pub epb: Vec<u8>,
    /// `cpuinfo_transition_latency`; `None` where the driver does not know it, or says zero because the
    /// hardware switches by itself.
    #[serde(rename = "transition_latency_ns")]
    pub transition_latency: Option<Nanos>,
    /// Tunables of its governor that are its own: name to value.
    pub tunables: BTreeMap<String, String>,
    /// `stats/time_in_state`, ascending by frequency; empty where the driver does not count it.
    pub time_in_state: Vec<TimeInState>,
    /// `stats/total_trans`: frequency changes since the statistics were reset.
    pub transitions: Option<u64>,
}

impl Policy {
    /// The highest frequency that can be asked for. A driver with a table of steps (acpi-cpufreq) reaches its
    /// boost frequencies from the highest step, though they lie above it.
    pub fn highest_request(&self) -> Option<Hertz> {
        let most = self.hardware_max?;
        Some(self.available.last().map_or(most, |step| most.min(*step)))
    }

    /// Whether a limit in force keeps the CPUs below what they can.
    pub fn is_capped(&self) -> Option<bool> {
        let most = self.highest_request()?;
        Some(self.max? < most || self.bios_limit.is_some_and(|limit| limit < most))
    }
}

/// Time spent at one frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeInState {
    /// The frequency.
    #[serde(rename = "frequency_hz")]
    pub frequency: Hertz,
    /// Since boot or the last reset, in steps of 10 ms.
    #[serde(rename = "time_ns")]
    pub time: Nanos,
}

/// `/sys/devices/system/cpu/intel_pstate`: `Documentation/admin-guide/pm/intel_pstate.rst`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IntelPstate {
    /// `active`, `passive` or `off`.
    pub status: Option<String>,
    /// Whether turbo frequencies are forbidden.
    pub no_turbo: Option<bool>,
    /// Whether the minimum is raised for a while after I/O. The file exists with hardware-managed P-states
    /// (HWP) alone.
    pub hwp_dynamic_boost: Option<bool>,
    /// `min_perf_pct` as a share of the highest performance.
    pub min_perf: Option<Ratio>,
    /// `max_perf_pct` as a share of the highest performance.
    pub max_perf: Option<Ratio>,
    /// Whether the processor chooses P-states itself (HWP): from the CPU flags.
    pub hwp: Option<bool>,
}

/// `/sys/devices/system/cpu/amd_pstate`: `Documentation/admin-guide/pm/amd-pstate.rst`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AmdPstate {
    /// `active`, `passive`, `guided` or `disable`.
    pub status: Option<String>,
    /// Whether the scheduler prefers faster cores: `enabled`, `disabled`.
    pub prefcore: Option<String>,
}

/// The cpuidle subsystem: `Documentation/admin-guide/pm/cpuidle.rst`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpuidle {
    /// `intel_idle`, `acpi_idle`; `None` where no driver is registered.
    pub driver: Option<String>,
    /// `menu`, `teo`, `ladder`, `haltpoll`.
    pub governor: Option<String>,
    /// What could be chosen instead.
    pub available_governors: Vec<String>,
    /// The states, shallowest first; two of one index where kinds of cores differ.
    pub states: Vec<IdleState>,
}

/// An idle state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleState {
    /// The N of `stateN`.
    pub index: u32,
    /// `C6`.
    pub name: String,
    /// `MWAIT 0x20`.
    pub description: Option<String>,
    /// Time to leave it at worst.
    #[serde(rename = "latency_ns")]
    pub latency: Option<Nanos>,
    /// How long one must stay for it to pay.
    #[serde(rename = "residency_ns")]
    pub residency: Option<Nanos>,
    /// The CPUs that have it.
    pub cpus: CpuList,
    /// Those of them on which it is switched off.
    pub disabled: CpuList,
}
