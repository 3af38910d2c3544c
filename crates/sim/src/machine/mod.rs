//! Machine files: what a simulated machine is made of, with where each figure comes from.
//!
//! TOML, strict: an unknown key, a value out of range or a figure without its origin is an error that names
//! line and value. `docs/MACHINE-FORMAT.md` is the reference.

mod cost;
mod file;
mod inventory;
mod variation;

pub use cost::{COSTS, CostName, Costs, STALLS};
pub use variation::{Background, Variation};

use crate::block::Interrupts;
use crate::cpu::{Begins, IdleState, IdleTime};
use domain::lab::ProcessorModel;
use domain::rng::Seed;
use domain::setting::{AMD_MODE, INTEL_MODE};
use domain::time::Nanos;
use domain::units::{Bytes, Hertz};
use governors::KernelVersion;
use governors::autonomous::AutonomousSpec;
use std::collections::BTreeMap;

/// Where a figure comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// A data sheet, a measurement, a paper: which.
    Source(String),
    /// Nobody knows it; why this value.
    Assumed(String),
    /// Chosen so that the model gives what was measured: what. It lies in this range.
    Fitted {
        /// To what, and by whom.
        to: String,
        /// What it may be.
        range: (f64, f64),
    },
}

/// A number with its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// In the unit of its key.
    pub is: f64,
    /// Where it comes from.
    pub origin: Origin,
}

/// Who chooses frequencies, and how requests reach the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// A table of P-states; governors of the kernel.
    AcpiCpufreq,
    /// Intel's own, active, P-states requested by the kernel.
    IntelPstate,
    /// Intel's own, active, P-states chosen by the hardware.
    IntelPstateHwp,
    /// AMD's own, active.
    AmdPstateEpp,
    /// Intel's own in passive mode: governors of the kernel, which ask for P-states.
    IntelCpufreq,
    /// The same with HWP: governors of the kernel, which ask for a level.
    IntelCpufreqHwp,
    /// AMD's own in passive mode: governors of the kernel, which ask for a level.
    AmdPstate,
    /// None: one frequency for ever.
    None,
}

impl Driver {
    /// As a machine file has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AcpiCpufreq => "acpi-cpufreq",
            Self::IntelPstate => "intel_pstate",
            Self::IntelPstateHwp => "intel_pstate-hwp",
            Self::AmdPstateEpp => "amd-pstate-epp",
            Self::IntelCpufreq => "intel_cpufreq",
            Self::IntelCpufreqHwp => "intel_cpufreq-hwp",
            Self::AmdPstate => "amd-pstate",
            Self::None => "none",
        }
    }

    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::AcpiCpufreq,
        Self::IntelPstate,
        Self::IntelPstateHwp,
        Self::AmdPstateEpp,
        Self::IntelCpufreq,
        Self::IntelCpufreqHwp,
        Self::AmdPstate,
        Self::None,
    ];

    /// As `scaling_driver` has it, which does not tell HWP.
    pub fn scaling_driver(self) -> &'static str {
        self.name().trim_end_matches("-hwp")
    }

    /// Whether governors of the kernel choose, and not the driver or the processor.
    pub const fn has_governors(self) -> bool {
        matches!(self, Self::AcpiCpufreq) || self.is_passive()
    }

    /// Whether a processor's own driver leaves the choice to governors of the kernel.
    pub const fn is_passive(self) -> bool {
        matches!(self, Self::IntelCpufreq | Self::IntelCpufreqHwp | Self::AmdPstate)
    }

    /// Whether the processor chooses by itself, between limits and by a preference.
    pub const fn leaves_it_to_hardware(self) -> bool {
        matches!(self, Self::IntelPstateHwp | Self::AmdPstateEpp)
    }

    /// Whether it has a table of the frequencies that there are.
    pub const fn has_table(self) -> bool {
        matches!(self, Self::AcpiCpufreq | Self::None)
    }

    /// Whether it is Intel's own, in either mode.
    pub const fn is_intel(self) -> bool {
        matches!(self, Self::IntelPstate | Self::IntelPstateHwp | Self::IntelCpufreq | Self::IntelCpufreqHwp)
    }

    /// Whether the processor has HWP, and Intel's driver uses it.
    pub const fn has_hwp(self) -> bool {
        matches!(self, Self::IntelPstateHwp | Self::IntelCpufreqHwp)
    }

    /// The setting that chooses its mode; `None` where it has one mode alone.
    pub const fn mode_setting(self) -> Option<&'static str> {
        match self {
            Self::AmdPstate | Self::AmdPstateEpp => Some(AMD_MODE),
            _ if self.is_intel() => Some(INTEL_MODE),
            _ => None,
        }
    }

    /// Its mode as that setting has it.
    pub const fn mode(self) -> &'static str {
        if self.is_passive() { "passive" } else { "active" }
    }

    /// The governor of a policy that is made anew, of a kernel whose default is schedutil, as distributions
    /// have it: a driver without governors falls back on powersave (`intel_pstate_cpu_init`).
    pub const fn first_governor(self) -> &'static str {
        if self.has_governors() { "schedutil" } else { "powersave" }
    }

    /// The same processor's driver in another mode; `None` for a mode, or a driver, that has no model, or
    /// that this kernel cannot change to: `status` came with 4.11, HWP in passive mode with 5.9, and
    /// `amd_pstate`'s active mode with 6.3.
    pub fn in_mode(self, mode: &str, kernel: KernelVersion) -> Option<Self> {
        let first = match self {
            Self::IntelPstateHwp | Self::IntelCpufreqHwp => KernelVersion::new(5, 9, 0),
            Self::AmdPstate | Self::AmdPstateEpp => KernelVersion::new(6, 3, 0),
            _ => KernelVersion::new(4, 11, 0),
        };
        if mode != self.mode() && kernel < first {
            return None;
        }
        match (self, mode) {
            (Self::IntelPstate | Self::IntelCpufreq, "active") => Some(Self::IntelPstate),
            (Self::IntelPstate | Self::IntelCpufreq, "passive") => Some(Self::IntelCpufreq),
            (Self::IntelPstateHwp | Self::IntelCpufreqHwp, "active") => Some(Self::IntelPstateHwp),
            (Self::IntelPstateHwp | Self::IntelCpufreqHwp, "passive") => Some(Self::IntelCpufreqHwp),
            (Self::AmdPstateEpp | Self::AmdPstate, "active") => Some(Self::AmdPstateEpp),
            (Self::AmdPstateEpp | Self::AmdPstate, "passive") => Some(Self::AmdPstate),
            _ => None,
        }
    }
}

/// A frequency that a CPU can have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PState {
    /// The frequency.
    pub frequency: Hertz,
    /// Power of one CPU while it executes, in watts.
    pub busy_watts: Option<f64>,
    /// And while it idles, in the shallowest idle state.
    pub idle_watts: Option<f64>,
}

/// A machine's CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuSpec {
    /// What it calls itself.
    pub model: String,
    /// By what the kernel knows it, where that is told: ondemand's `io_is_busy` begins with 1 on Intel's.
    pub processor: Option<ProcessorModel>,
    /// How many.
    pub count: usize,
    /// Who chooses frequencies.
    pub driver: Driver,
    /// The governor that the machine starts with.
    pub governor: String,
    /// Whether all share one frequency.
    pub shared: bool,
    /// The frequency at which TSC and MPERF count; the highest without turbo.
    pub base: Hertz,
    /// `energy_performance_preference` that the machine starts with, where the hardware chooses.
    pub epp: String,
    /// How it chooses there.
    pub hardware: AutonomousSpec,
    /// Slowest first.
    pub states: Vec<PState>,
    /// What a busy CPU is at most, by how many are: the first is for one. Empty: no such limit.
    pub turbo: Vec<Hertz>,
    /// From a request to its effect.
    pub transition: Nanos,
    /// What the kernel believes of it (`cpuinfo_transition_latency`): firmware's word under acpi-cpufreq.
    /// Governors derive from it how often they look.
    pub transition_latency: Nanos,
    /// Whether the scheduler knows at which frequency a CPU runs (`arch_scale_freq_invariant`).
    pub frequency_invariant: bool,
    /// What a clock cycle executes, in the unit in which costs are given; 1 where these are cycles.
    pub work_per_cycle: f64,
    /// Who handles disks' interrupts.
    pub interrupts: Interrupts,
    /// What governors have seen when a trial begins.
    pub begins: Begins,
    /// How the idle time is counted that governors read.
    pub idle_time: IdleTime,
    /// Shallowest first.
    pub idle: Vec<IdleState>,
}

/// One kind of disk of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskEntry {
    /// Its name; several are told apart by a number.
    pub name: String,
    /// The model's name.
    pub model: String,
    /// How many.
    pub count: u32,
    /// Smaller than the model's own.
    pub size: Option<Bytes>,
    /// The link that it shares.
    pub link: Option<String>,
    /// The I/O scheduler that it starts with.
    pub scheduler: crate::block::Scheduler,
    /// Requests that the driver takes.
    pub tags: u32,
    /// `max_sectors_kb`.
    pub most_bytes: Bytes,
    /// `max_segments`.
    pub most_segments: u32,
    /// At most so many requests at a time come through to it; none: as many as it takes.
    pub window: Option<u32>,
    /// What lies between the driver and the disk adds so much to each request.
    pub delay: Nanos,
    /// Trials before this one have written all of it: a flash disk that is fresh by its model is filled.
    pub written: bool,
}

impl DiskEntry {
    /// A disk as a lab's guest sees it, without its name and model: virtio-scsi by vhost-user. The delay is
    /// what a request takes longer than the disk and the CPU need (the costs of `lab-unpaced`): the disk's
    /// thread wakes up, QEMU's, and the virtual CPU. It is fitted to the training half of sequential-grid: of
    /// reads one at a time, 315 to 430 us are not the disk's, and some 245 of them the CPU's.
    pub const fn of_lab() -> Self {
        Self {
            name: String::new(),
            model: String::new(),
            count: 1,
            size: None,
            link: None,
            scheduler: crate::block::Scheduler::MqDeadline,
            tags: 128,
            most_bytes: Bytes::from_kib(1280),
            // QEMU's vhost-user-scsi says 126 (`seg_max`).
            most_segments: 126,
            window: None,
            delay: Nanos::from_micros(150),
            written: true,
        }
    }
}

/// A link of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEntry {
    /// The model's name.
    pub model: String,
    /// The link that its bytes pass next, by its name.
    pub on: Option<String>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineSpec {
    /// Its name: letters, digits, `-`.
    pub name: String,
    /// What it is, for people.
    pub about: String,
    /// The kernel whose behaviour is meant.
    pub kernel: KernelVersion,
    /// `CONFIG_HZ`.
    pub hz: u64,
    /// By how much a lab machine is slower than the one that it stands for: periods that nothing stretches,
    /// the tick and fio's looks at its jobs, come so much more often in the time of that machine. 1 for any
    /// other.
    pub dilation: f64,
    /// By how much shorter the scheduler's slices are in the time of that machine. That of an unpaced lab
    /// machine is its dilation. 1 for a paced one, although its slices are the kernel's too: RCU's thread,
    /// which takes twice as much of the CPU in the model as in such a guest, would take it from a program at
    /// each tick (docs/FIDELITY.md, "What does not fit").
    pub slice_dilation: f64,
    /// How long fio waits before it makes its jobs, where its options do not say: the lab begins to pace a
    /// guest meanwhile. Zero for any other machine.
    pub start_delay: Nanos,
    /// Memory.
    pub memory: Bytes,
    /// CPUs.
    pub cpu: CpuSpec,
    /// Disks, in order.
    pub disks: Vec<DiskEntry>,
    /// Links by name.
    pub links: BTreeMap<String, LinkEntry>,
    /// What work costs.
    pub costs: Costs,
    /// What differs between trials.
    pub variation: Variation,
}

impl MachineSpec {
    /// Reads a machine file.
    ///
    /// # Errors
    /// [`strict_toml::Error`], with line and column where it is a matter of the text.
    pub fn parse(text: &str) -> Result<Self, strict_toml::Error> {
        file::parse(text)
    }

    /// The machine as it is in the trial of this seed: what its work costs then. Its disks vary as they are
    /// put together.
    pub fn in_trial(&self, trial: Seed) -> Self {
        let costs = Costs { factor: self.variation.cost_factor(trial), ..self.costs.clone() };
        Self { costs, ..self.clone() }
    }
}
