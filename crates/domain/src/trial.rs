//! A trial: one run of one cell, with everything that is needed to judge and to repeat it.

use crate::access::AccessPattern;
use crate::calls::Calls;
use crate::energy::EnergyAccount;
use crate::ids::{RunId, TrialKey};
use crate::lab::LabAccount;
use crate::outcome::Outcome;
use crate::passage::Passage;
use crate::phase::Phase;
use crate::profile::Profile;
use crate::request::{Op, Served};
use crate::setting::SettingRecord;
use crate::spent::Spent;
use crate::time::{Nanos, Timestamp};
use crate::trace::{FrequencySource, Role};
use crate::windows::GovernorWindows;
use std::collections::BTreeMap;

/// On what kind of machine a trial was measured. Nothing compares across provenances unless asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provenance {
    /// This machine.
    Host,
    /// A virtual machine of the lab.
    Lab,
    /// A model.
    Simulation,
    /// Another tool's result.
    Imported,
}

impl Provenance {
    /// The kinds of machine that a study runs on: a question is answered on each, or is not, and a study may
    /// say why it is not run there. Results are imported, and need no reason.
    pub const MACHINES: [Self; 3] = [Self::Host, Self::Lab, Self::Simulation];

    /// As it is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Provenance::Host => "host",
            Provenance::Lab => "lab",
            Provenance::Simulation => "simulation",
            Provenance::Imported => "imported",
        }
    }
    /// The provenance of such a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Host, Self::Lab, Self::Simulation, Self::Imported].into_iter().find(|p| p.name() == name)
    }
}

/// Where an imported trial comes from. What is not known of it, nobody guesses: its settings are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The tool that wrote the file: `bonnie++`, `sar`.
    pub tool: String,
    /// Its version, where the file states it.
    pub version: Option<String>,
    /// The file's name as it was given.
    pub file: String,
    /// The SHA-256 of its bytes as they were given, in hexadecimal.
    pub sha256: String,
}

/// Something that happened during a trial and may have changed its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disturbance {
    /// A short stable name: `steal`, `other-load`, `resync`, `throttled`, `setting-changed`, `clock-step`.
    pub kind: String,
    /// The sentence for people, with the figure that led to it and its bound.
    pub detail: String,
}

impl Disturbance {
    /// Whether it is the load of others: CPU time of other processes or guests, or data that waited to be
    /// written. A study may be measured beside it; what changes the machine itself it cannot be measured
    /// beside.
    pub fn is_load(&self) -> bool {
        matches!(self.kind.as_str(), "other-load" | "steal" | "unsettled")
    }
}

/// How far a trial can be believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Nothing is known against it; or nothing but load that the study is measured beside, which the
    /// measurement tells.
    Valid,
    /// Measured with the kernel's events recorded, in a trial of its own. Recording costs CPU time, so that
    /// its figures are not counted; what its events say of the cell is.
    Traced,
    /// Measured, but something else was going on. It is kept, shown and repeated, and not counted.
    Disturbed(Vec<Disturbance>),
    /// The workload failed; the text says how.
    Failed(String),
}

impl Trial {
    /// Whether it counts although other work ran beside it.
    pub fn is_under_load(&self) -> bool {
        let disturbed = self.measurement.as_ref().is_some_and(|measured| !measured.disturbances.is_empty());
        self.validity.is_valid() && disturbed
    }
}

impl Validity {
    /// Whether it counts.
    pub const fn is_valid(&self) -> bool {
        matches!(self, Self::Valid)
    }

    /// Whether something is known against it.
    pub const fn is_spoilt(&self) -> bool {
        matches!(self, Self::Disturbed(_) | Self::Failed(_))
    }

    /// Whether it does not count for the load of others alone: beside that load it would.
    pub fn is_disturbed_by_load(&self) -> bool {
        matches!(self, Self::Disturbed(all) if !all.is_empty() && all.iter().all(Disturbance::is_load))
    }
}

/// CPU time of one thread during a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadTime {
    /// Its name, as `/proc/PID/comm` has it.
    pub name: String,
    /// Its thread id.
    pub tid: u32,
    /// Whose work it did.
    pub role: Role,
    /// CPU time during the trial.
    pub cpu: Nanos,
}

/// What one block device did during a trial, by `/proc/diskstats`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskTotals {
    /// `vda`, `md127`, `loop0`.
    pub device: String,
    /// Completed reads.
    pub read_ios: u64,
    /// Sectors of 512 B read.
    pub read_sectors: u64,
    /// Completed writes.
    pub write_ios: u64,
    /// Sectors of 512 B written.
    pub write_sectors: u64,
    /// Time during which it had requests in flight.
    pub busy: Nanos,
    /// How it was used during a part of the trial; `None` where that was not recorded.
    pub accesses: Option<AccessPattern>,
    /// How long what it was asked for took; empty where that was not recorded.
    pub served: BTreeMap<Op, Served>,
    /// Of one that stands on others, what it made of what it was given; `None` where that was not recorded.
    pub passage: Option<Passage>,
}

/// What the recorder did, and what it cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecorderReport {
    /// Rows taken.
    pub samples: u64,
    /// Wake-ups that came so late that a row is missing.
    pub missed: u64,
    /// The recorder's own CPU time, user and system.
    pub cpu: Nanos,
    /// From its first sample to its last.
    pub span: Nanos,
    /// Where frequencies came from.
    pub frequency: FrequencySource,
    /// What the energy was measured by; `None` where it was not, or where an earlier version recorded.
    pub energy: Option<EnergyAccount>,
    /// CPUs that went offline or came online meanwhile, in order, at most [`MAX_CPU_CHANGES`].
    pub cpu_changes: Vec<CpuChange>,
    /// What it could not sample, and why: `no cpufreq`, `no RAPL domain`.
    pub absent: Vec<String>,
}

/// How many changes of CPUs a trial names.
pub const MAX_CPU_CHANGES: usize = 256;

/// A CPU that went offline or came online while it was recorded (kernel
/// `Documentation/core-api/cpu_hotplug.rst`). What is summed of one ends where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuChange {
    /// When that was seen first, since the recording's start: at the sample after it.
    pub at: Nanos,
    /// Which.
    pub cpu: u32,
    /// Whether it is online from then on.
    pub online: bool,
}

impl CpuChange {
    /// `CPU 3 went offline at 1.20 s`.
    pub fn in_words(&self) -> String {
        let did = if self.online { "came online" } else { "went offline" };
        format!("CPU {} {did} at {:.2} s", self.cpu, self.at.secs())
    }
}

/// What was measured while a workload ran: what a [`crate::Bench`] returns.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// What the tool reported.
    pub outcome: Outcome,
    /// Every command that was run, literally, in order.
    pub commands: Vec<Vec<String>>,
    /// How long the workload ran, on a monotonic clock.
    pub duration: Nanos,
    /// CPU time by role, all roles, zeros left out.
    pub roles: BTreeMap<Role, Nanos>,
    /// The threads that used most CPU time, most first; at most [`MAX_THREADS`].
    pub threads: Vec<ThreadTime>,
    /// Block devices that did anything, in the order of `/proc/diskstats`.
    pub disks: Vec<DiskTotals>,
    /// What CPU time was spent in, where call stacks were sampled.
    pub profile: Option<Profile>,
    /// How busy CPUs were between two samples of their governor, where events were recorded and each CPU has
    /// a governor of its own that decides by that.
    pub windows: Option<GovernorWindows>,
    /// What threads spent their time on, by role; empty where no switches were recorded.
    pub spent: BTreeMap<Role, Spent>,
    /// System calls and what filesystems made of them; `None` where they were not recorded.
    pub calls: Option<Calls>,
    /// What was done from one mark to the next, in order; empty where nobody marked anything.
    pub phases: Vec<Phase>,
    /// The recorder's own account; `None` where nothing was recorded.
    pub recorder: Option<RecorderReport>,
    /// What went on besides.
    pub disturbances: Vec<Disturbance>,
}

/// What a recording's environment calls the process that was followed: its number, a space, its name.
pub const PROCESS: &str = "process";

/// How many threads a trial names.
pub const MAX_THREADS: usize = 32;

/// One run of one cell, as the notebook keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Which run it belongs to.
    pub run: RunId,
    /// Which trial of it.
    pub key: TrialKey,
    /// The study's name.
    pub study: String,
    /// The workload's name.
    pub workload: String,
    /// Factor name to level name.
    pub levels: BTreeMap<String, String>,
    /// Where it was measured.
    pub provenance: Provenance,
    /// Which machine: a digest of what identifies it (see `machine::identity`).
    pub machine: String,
    /// When it began.
    pub started: Timestamp,
    /// The settings: asked, got, before and after.
    pub settings: Vec<SettingRecord>,
    /// What else decides the result, read at the trial's start: kernel, microcode, mitigations, HZ, mount
    /// options, scheduler, read-ahead, … by short names.
    pub environment: BTreeMap<String, String>,
    /// How far it can be believed.
    pub validity: Validity,
    /// What was measured; `None` where the workload failed before it reported.
    pub measurement: Option<Measurement>,
    /// What is known of it from outside its guest; `None` everywhere but in the lab.
    pub lab: Option<LabAccount>,
    /// Where it was imported from; `None` for what was measured or simulated here.
    pub origin: Option<Origin>,
}

impl Trial {
    /// The value of a metric, where the tool reported it.
    pub fn metric(&self, name: &str) -> Option<f64> {
        Some(self.measurement.as_ref()?.outcome.metrics.get(name)?.value)
    }

    /// Takes note of something that may have changed its result: it is kept, and counts no more.
    pub fn disturb(&mut self, disturbance: Disturbance) {
        if let Some(measurement) = &mut self.measurement {
            measurement.disturbances.push(disturbance.clone());
        }
        match &mut self.validity {
            Validity::Valid | Validity::Traced => self.validity = Validity::Disturbed(vec![disturbance]),
            Validity::Disturbed(all) => all.push(disturbance),
            Validity::Failed(_) => {}
        }
    }
}

/// One run of a study: what was planned and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its name.
    pub id: RunId,
    /// The study's name.
    pub study: String,
    /// The study file, verbatim.
    pub study_text: String,
    /// The seed of its plan.
    pub seed: crate::rng::Seed,
    /// When it was begun.
    pub started: Timestamp,
    /// When it was finished; `None` while trials are missing.
    pub finished: Option<Timestamp>,
    /// Where it is measured.
    pub provenance: Provenance,
    /// Which machine.
    pub machine: String,
    /// The version of this program.
    pub flyball: String,
    /// The git commit of the folder that holds the study file, with `+` where the tree was not clean.
    pub revision: Option<String>,
    /// The arguments of the command that began it, as they were given; empty where that is not known.
    pub command: Vec<String>,
}

/// What [`Run::machine`] is of a simulation: the names of its machines, and a number that another text of
/// theirs would not have.
pub fn simulated_machine(names: &[&str], digest: u32) -> String {
    format!("{SIMULATED}{}-{digest:08x}", names.join("-"))
}

const SIMULATED: &str = "sim-";

impl Run {
    /// The name of the machine that was simulated, or the names of several with hyphens between them; `None`
    /// where nothing was.
    pub fn simulated(&self) -> Option<&str> {
        self.machine.strip_prefix(SIMULATED)?.rsplit_once('-').map(|(names, _)| names)
    }

    /// Whether it is a simulation of the lab's own machine and of no other.
    pub fn simulates_the_lab(&self) -> bool {
        self.simulated().is_some_and(is_of_the_lab)
    }
}

/// Whether this names the lab's own simulated machine, which is `lab` or `lab-unpaced`, or several of these.
pub fn is_of_the_lab(names: &str) -> bool {
    names.split('-').all(|word| matches!(word, "lab" | "unpaced"))
}
