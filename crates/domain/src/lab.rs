//! The lab: what a study asks of its virtual machine, and what is known of a trial from outside the guest.
//!
//! A lab machine has virtual P-states (a table; a QEMU plugin paces each virtual CPU by it), modelled disks
//! (a block server delays each request by a disk model) and a *time dilation* D: it is D times slower than
//! the machine that it stands for, and so are its devices. Either its clock is too
//! ([`GuestClock::Slowed`]), or every timer that can be set is stretched by D, and rates are multiplied by
//! D again before they are kept. Inside the guest, and in [`LabAccount`], time is the guest's own.

use crate::order;
use crate::outcome::{Better, Metric};
use crate::time::Nanos;
use crate::units::{Bytes, Hertz, Microjoules, Unit};
use std::ops::RangeInclusive;

/// What a study's `[lab]` table asks for; [`Default`] is the machine of a study without one.
#[derive(Clone, Debug, PartialEq)]
pub struct Lab {
    /// The kernel: a series (`6.1`), a release, or a file; `None` for the newest that can be had.
    pub kernel: Option<String>,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// The guest's memory.
    pub memory: Bytes,
    /// How many times slower than the machine it stands for.
    pub dilation: Dilation,
    /// What becomes of the guest's time by it, where the study says so: see [`Lab::clock`].
    pub clock: Option<GuestClock>,
    /// The table of virtual P-states: the name of a shipped one, or a path from the study's folder. `None`:
    /// the guest has no cpufreq, and its CPUs run as fast as they can.
    pub pstates: Option<String>,
    /// Instructions a second that a virtual CPU runs at its fastest P-state, in place of the table's
    /// [`PStateTable::pace`]: a host keeps a low one where there are more virtual CPUs.
    pub pace: Option<f64>,
    /// Modelled disks, in the order of the file; the guest sees them as `sda`, `sdb`, …
    pub disks: Vec<LabDisk>,
    /// Links that several disks share, by name.
    pub links: Vec<LabLink>,
    /// Kernel modules to load beside those that every guest has, with their parameters:
    /// `null_blk nr_devices=1 memory_backed=1`.
    pub modules: Vec<String>,
    /// Shell lines that the guest runs once, in this order, before the target is opened. A guest has nothing
    /// that could be lost: its disks are made anew for each start.
    pub prepare: Vec<String>,
    /// The folder of the guest in which a file target is made, by its absolute path; `None`: in the guest's
    /// memory.
    pub work: Option<String>,
}

impl Default for Lab {
    fn default() -> Self {
        Self {
            kernel: None,
            vcpus: 1,
            memory: Bytes::from_mib(768),
            dilation: Dilation::Fixed(1.0),
            clock: None,
            pstates: None,
            pace: None,
            disks: Vec::new(),
            links: Vec::new(),
            modules: Vec::new(),
            prepare: Vec::new(),
            work: None,
        }
    }
}

impl Lab {
    /// What becomes of the guest's time by the dilation. A clock can be slowed where virtual CPUs are
    /// paced, and is unless the study says otherwise: then nothing of the kernel's is too short.
    pub fn clock(&self) -> GuestClock {
        let usual = if self.pstates.is_some() { GuestClock::Slowed } else { GuestClock::Host };
        self.clock.unwrap_or(usual)
    }
}

/// The variable of the environment by which the lab's agent tells the commands that it runs through which I/O
/// port (a decimal number) the virtual CPUs are paced. It is set in machines with virtual P-states alone.
pub const CONTROL_PORT_VARIABLE: &str = "FLYBALL_LAB_CONTROL_PORT";

/// Instructions a second that a virtual CPU can be paced at. Below, one timer tick of the kernel (some 20,000
/// instructions) takes longer than the time until the next; above, no emulator is.
pub const PACES: RangeInclusive<f64> = 1e6..=1e9;

/// How much memory a guest may have. Below, the kernel and its tools do not start; above, a host has hardly
/// room.
pub const MEMORY: RangeInclusive<Bytes> = Bytes::from_mib(128)..=Bytes::from_mib(64 << 10);

/// The name of the metric that the lab adds where its P-states have watts; no other machine has it.
pub const ENERGY_MODELLED: &str = "energy_modelled";

/// That metric: what the table of P-states says that the CPUs took while they were paced, in the time of the
/// machine that is stood for: the guest ran for longer by its dilation, at the same watts.
pub fn energy_metric(account: &LabAccount) -> Option<Metric> {
    let energy = account.pacing.as_ref()?.energy?;
    Some(Metric { value: energy.joules() / account.dilation, unit: Unit::Joules, better: Better::Lower })
}

/// Something of the guest that no dilation stretches: it is as long as ever, and so shorter by the dilation
/// in the time of the machine that is stood for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unscaled {
    /// What it is, and how long.
    pub what: &'static str,
    /// Which trials it matters to.
    pub matters: Matters,
}

/// Which trials something matters to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matters {
    /// All.
    Always,
    /// Those under this governor.
    Governor(&'static str),
    /// Those under this driver of the kernel's that samples by itself.
    Driver(&'static str),
    /// Those with the work of a journal or of writeback, by the CPU time of its threads or by the filesystem.
    Journal,
    /// Those on an md array.
    Array,
    /// Those whose reads and writes go through the page cache.
    Writeback,
    /// Those on disks that are slow, in the guest, by seconds.
    SlowDisks,
}

/// What a time dilation above 1 leaves as it is, with Linux 6.1 and 6.12.
pub const UNSCALED: &[Unscaled] = &[
    Unscaled {
        what: "the scheduler's tick and its time slices (4 ms at 250 Hz), and the CPU time that is counted by ticks",
        matters: Matters::Always,
    },
    Unscaled {
        what: "the half-life of utilisation, 32 ms (PELT), from which schedutil chooses",
        matters: Matters::Governor("schedutil"),
    },
    Unscaled {
        what: "the 10 ms by which `intel_pstate` samples each CPU where the processor has no HWP",
        matters: Matters::Driver("intel_pstate"),
    },
    Unscaled {
        what: "the journal's commit interval, 5 s unless it is mounted with `commit=`",
        matters: Matters::Journal,
    },
    Unscaled {
        what: "the delay of an array's write-intent bitmap, 5 s unless it is set; of arrays that no stack of the study made, that before one is called clean, 0.2 s",
        matters: Matters::Array,
    },
    Unscaled {
        what: "the estimates by which writeback throttles a writer, every 200 ms",
        matters: Matters::Writeback,
    },
    Unscaled {
        what: "the block layer's timeout of a request, 30 s unless `io_timeout` is set",
        matters: Matters::SlowDisks,
    },
];

/// How a lab machine's time dilation is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dilation {
    /// This factor, at least 1.
    Fixed(f64),
    /// From how fast this host can pace, with headroom, and the instructions a second of the machine it
    /// stands for.
    Auto,
}

/// What becomes of a guest's time by its dilation D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestClock {
    /// It is the host's. Workloads and settings are stretched by D, and what cannot be stretched
    /// ([`UNSCALED`]) is D times too short.
    Host,
    /// It runs D times slower than the host's while the virtual CPUs are paced: nothing is stretched, and all
    /// periods of the kernel are as long, beside the work, as on the machine that is stood for.
    Slowed,
}

impl GuestClock {
    /// This dilation, divided: by how much the guest stretches what lasts, and by how much its clock is
    /// slower. One of the two is 1.
    pub const fn divide(self, dilation: f64) -> Dilated {
        match self {
            Self::Host => Dilated { stretched: dilation, slowed: 1.0 },
            Self::Slowed => Dilated { stretched: 1.0, slowed: dilation },
        }
    }
}

/// A time dilation as a machine has it; the product is the dilation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dilated {
    /// How many times longer in the guest's time everything is made to last.
    pub stretched: f64,
    /// How many times slower than the host's the guest's clock runs while its CPUs are paced.
    pub slowed: f64,
}

/// One modelled disk of a lab machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabDisk {
    /// Its name in the study, which is its serial number in the guest.
    pub name: String,
    /// The disk model: the name of a shipped one, or a path from the study's folder.
    pub model: String,
    /// Its size, where it is to be smaller than the model's own.
    pub size: Option<Bytes>,
    /// The link that it shares, by name.
    pub link: Option<String>,
}

/// A link that several disks share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabLink {
    /// Its name in the study.
    pub name: String,
    /// The model: the name of a shipped one, or a path from the study's folder.
    pub model: String,
}

/// A table of virtual P-states.
#[derive(Clone, Debug, PartialEq)]
pub struct PStateTable {
    /// Its name.
    pub name: String,
    /// Which driver of the kernel is to bind, and by what.
    pub driver: PStateDriver,
    /// Which processor the guest takes its CPUs for; `None`: one of no vendor that it knows.
    pub processor: Option<ProcessorModel>,
    /// Fastest first, as ACPI's `_PSS` has them; at least one.
    pub states: Vec<PState>,
    /// How long a change takes, as `_PSS` tells the kernel; ondemand derives its sampling period from it.
    /// Zero where another driver than acpi-cpufreq binds, for nothing is told.
    pub latency: Nanos,
    /// Which CPUs change together.
    pub domains: PStateDomains,
    /// The idle states, least first; none: an idle CPU halts, and nothing is told to the kernel.
    pub idle: Vec<IdleState>,
    /// Instructions a second that a virtual CPU runs at [`PState::speed`] 1.
    pub pace: f64,
    /// Instructions a second of the machine that it stands for, at speed 1; needed for [`Dilation::Auto`]
    /// alone.
    pub stands_for: Option<f64>,
}

impl PStateTable {
    /// The frequency at which a CPU executes in one of the states, by its number: its own, but for the state
    /// by which `_PSS` names turbo, 1 MHz above the base. That state's follows from how much faster it is
    /// than the base.
    pub fn clock(&self, state: usize) -> Hertz {
        match &self.states[state..] {
            [turbo, base, ..] if turbo.is_turbo_above(base) => {
                Hertz::from_khz((base.frequency.khz() as f64 * turbo.speed / base.speed).round() as u64)
            }
            [other, ..] => other.frequency,
            [] => unreachable!("a state that is in the table"),
        }
    }

    /// Whether the highest state is the one by which `_PSS` names turbo.
    pub fn names_turbo(&self) -> bool {
        matches!(&self.states[..], [turbo, base, ..] if turbo.is_turbo_above(base))
    }
}

/// Which driver of the kernel chooses P-states.
#[derive(Clone, Debug, PartialEq)]
pub enum PStateDriver {
    /// `acpi-cpufreq`, by ACPI's tables and a port.
    Acpi,
    /// `intel_pstate`, by the registers of an Intel processor.
    Intel(Ratios),
    /// `amd_pstate`, by ACPI's `_CPC` and the registers of an AMD processor with CPPC.
    Amd(Ratios),
}

impl PStateDriver {
    /// The ratios of a processor with registers.
    pub const fn ratios(&self) -> Option<&Ratios> {
        match self {
            Self::Acpi => None,
            Self::Intel(ratios) | Self::Amd(ratios) => Some(ratios),
        }
    }
}

/// Who makes a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// `GenuineIntel`.
    Intel,
    /// `AuthenticAMD`.
    Amd,
}

impl Vendor {
    /// What `cpuid` says, and `/proc/cpuinfo` as `vendor_id`.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Intel => "GenuineIntel",
            Self::Amd => "AuthenticAMD",
        }
    }
}

/// Vendor, family, model and stepping of a processor, as `cpuid` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorModel {
    /// Who makes it.
    pub vendor: Vendor,
    /// With its extension: 6 of Intel's since the Pentium Pro, 25 of Zen 3.
    pub family: u8,
    /// With its extension: 94 of a Skylake desktop.
    pub model: u8,
    /// Its revision.
    pub stepping: u8,
}

/// The ratios of a processor with registers, in units of 100 MHz: each from the highest down to `least` is a
/// P-state.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratios {
    /// The lowest.
    pub least: u8,
    /// The highest without turbo, which is also the rate of its TSC.
    pub base: u8,
    /// The highest while one, two, … CPUs are busy; the last holds for more. At least one, and they do not
    /// rise.
    pub turbo: Vec<u8>,
    /// How it chooses ratios itself; `None`: it has no HWP.
    pub hwp: Option<HwpModel>,
}

/// How a processor with HWP, or with CPPC, chooses its ratio. Modelled: neither vendor publishes an
/// algorithm. Each `period` it takes the work of the last `window` (ratio × time not idle), divided by the
/// window and by a setpoint between the two given here, as far along as EPP is between 0 and 255.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HwpModel {
    /// Over which time work is averaged, in the time of the machine that is stood for.
    pub window: Nanos,
    /// How often it decides, in the same time.
    pub period: Nanos,
    /// The utilisation that is aimed at, at an EPP of 0 and of 255.
    pub setpoint: (f64, f64),
}

/// An idle state, as `_CST` tells it to the kernel (ACPI 6.5, 8.4.1). The kernel takes twice the latency as
/// the time for which a state has to be worth it (`acpi_processor_setup_cstates`).
#[derive(Clone, Debug, PartialEq)]
pub struct IdleState {
    /// Its name: `C6`.
    pub name: String,
    /// How long a CPU takes to leave it, in the time of the machine that is stood for.
    pub latency: Nanos,
    /// Power of one CPU in it, in watts; `None`: that of an idle CPU at its P-state.
    pub watts: Option<f64>,
}

/// Which CPUs share one frequency (`_PSD`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PStateDomains {
    /// Each CPU has a policy of its own.
    PerCpu,
    /// All CPUs share one policy.
    Shared,
}

/// One virtual P-state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PState {
    /// As the kernel sees it.
    pub frequency: Hertz,
    /// Relative to the fastest, which is 1; above 0.
    pub speed: f64,
    /// Power of one CPU while it executes, in watts; `None` where the table gives none.
    pub busy_watts: Option<f64>,
    /// Power of one CPU while it is idle in this state, in watts.
    pub idle_watts: Option<f64>,
}

impl PState {
    fn is_turbo_above(&self, base: &Self) -> bool {
        self.frequency.khz() == base.frequency.khz() + 1_000
    }
}

/// What is known of a trial from outside its guest: the ground truth that the recording inside is held
/// against.
#[derive(Clone, Debug, PartialEq)]
pub struct LabAccount {
    /// How many times longer in the guest's time everything lasted than on the machine that is stood for; 1
    /// where the slow machine is the machine, and where its clock was slowed.
    pub dilation: f64,
    /// How many times slower than the host's the guest's clock ran while its CPUs were paced.
    pub slowed: f64,
    /// The CPUs, where they were paced.
    pub pacing: Option<Pacing>,
    /// The modelled disks that had requests, in the order of the study.
    pub disks: Vec<DiskService>,
}

/// The plugin's record of the paced part of a trial, in the guest's time.
#[derive(Clone, Debug, PartialEq)]
pub struct Pacing {
    /// Instructions a second at speed 1.
    pub pace: f64,
    /// When pacing began, from the start of the trial's trace; `None` where nothing was recorded.
    pub began: Option<Nanos>,
    /// How long it lasted.
    pub span: Nanos,
    /// The virtual CPUs, in order.
    pub vcpus: Vec<VcpuRecord>,
    /// The table's watts integrated over this record: modelled, not measured. `None` where the table has
    /// none.
    pub energy: Option<Microjoules>,
}

impl Pacing {
    /// Time and work in each state, all virtual CPUs together, fastest first.
    pub fn states(&self) -> Vec<StateRecord> {
        let mut all: Vec<StateRecord> = Vec::new();
        for state in self.vcpus.iter().flat_map(|cpu| &cpu.states) {
            match all.iter_mut().find(|one| one.frequency == state.frequency) {
                Some(sum) => {
                    sum.time = sum.time + state.time;
                    sum.busy = sum.busy + state.busy;
                    sum.instructions += state.instructions;
                }
                None => all.push(*state),
            }
        }
        order::by_key(&mut all, |state| std::cmp::Reverse(state.frequency));
        all
    }

    /// The mean frequency of the virtual CPUs while they executed; `None` where none did, or one did in a
    /// state whose clock is not known.
    pub fn busy_frequency(&self) -> Option<Hertz> {
        let states =
            || self.vcpus.iter().flat_map(|cpu| &cpu.states).filter(|state| state.busy > Nanos::ZERO);
        let busy: f64 = states().map(|state| state.busy.secs()).sum();
        let cycles: Option<f64> =
            states().map(|state| Some(state.busy.secs() * state.clock?.hz() as f64)).sum();
        let cycles = cycles?;
        (busy > 0.0).then(|| Hertz::from_khz((cycles / busy / 1e3).round() as u64))
    }

    /// By how much the virtual CPU that kept its pace worst fell behind, over the time that was paced; `None`
    /// where nothing was.
    pub fn lateness(&self) -> Option<f64> {
        let worst = self.vcpus.iter().map(|cpu| cpu.late).max()?;
        (self.span > Nanos::ZERO).then(|| worst.secs() / self.span.secs())
    }
}

/// What one virtual CPU did while it was paced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VcpuRecord {
    /// Its number in the guest.
    pub cpu: u32,
    /// Time and work in each state that it was in, fastest first.
    pub states: Vec<StateRecord>,
    /// When it changed to which frequency, from the beginning of pacing; the first is at zero. At most
    /// [`MAX_TRANSITIONS`].
    pub transitions: Vec<(Nanos, Hertz)>,
    /// How many transitions there were in all.
    pub transitions_total: u64,
    /// By how much it fell behind its pace: time for which instructions that were due had not run.
    pub late: Nanos,
    /// The idle states of the table, least first; none where it has none.
    pub idle: Vec<IdleRecord>,
    /// What its guest asked the processor for; at most [`MAX_TRANSITIONS`]. None where P-states are written
    /// to a port.
    pub requests: Vec<RegisterRequest>,
}

/// What one virtual CPU did in one idle state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleRecord {
    /// The state's name.
    pub name: String,
    /// How often it was entered.
    pub entries: u64,
    /// Time in it, without the time that leaving took.
    pub time: Nanos,
}

/// One write of a register by which a guest asks for a frequency: IA32_PERF_CTL (0x199), IA32_HWP_REQUEST
/// (0x774), or CPPC_REQUEST (0xc00102b3). The first of a CPU is what stood there when pacing began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterRequest {
    /// From the beginning of pacing.
    pub at: Nanos,
    /// Which register.
    pub register: u32,
    /// What was written.
    pub value: u64,
}

/// A bound on the transitions that a trial keeps for one virtual CPU: more than a timeline can show.
pub const MAX_TRANSITIONS: usize = 4_096;

/// What one virtual CPU did in one P-state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateRecord {
    /// The state's frequency, as the kernel sees it.
    pub frequency: Hertz,
    /// That at which the CPU executed in it ([`PStateTable::clock`]); `None` where an earlier version did not
    /// keep it.
    pub clock: Option<Hertz>,
    /// Time in it, idle time included: what `cpufreq/stats/time_in_state` counts.
    pub time: Nanos,
    /// Time in it while not idle.
    pub busy: Nanos,
    /// Instructions executed in it.
    pub instructions: u64,
}

/// What one modelled disk did during a trial, as its server counted it, in the guest's time.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskService {
    /// Its name in the study.
    pub disk: String,
    /// Requests answered.
    pub requests: u64,
    /// Time that the model gave them, summed.
    pub modelled: Nanos,
    /// By how much answers came after their deadlines, summed.
    pub late: Nanos,
    /// The latest answer.
    pub latest: Nanos,
}
