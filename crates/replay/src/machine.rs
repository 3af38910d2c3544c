//! The CPUs of a recording's machine, and the frequency policy in force while it was recorded.

use domain::inventory::{Cpufreq, Inventory, Policy};
use domain::setting::{
    AMD_MODE, CPU_DMA_LATENCY, SettingName, SettingRecord, SettingRequest, is_driver_mode,
};
use domain::time::Nanos;
use domain::units::{Bytes, Hertz};
use governors::KernelVersion;
use governors::autonomous::{AutonomousSpec, Permille};
use sim::block::Interrupts;
use sim::cpu::{Begins, IdleState, IdleTime};
use sim::machine::{Costs, CpuSpec, Driver, Figure, MachineSpec, Origin, PState, Variation};
use std::collections::BTreeMap;
use thiserror::Error;

/// Why a machine's policies cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnknownMachine {
    /// It has none.
    #[error(
        "its kernel had no cpufreq driver for these CPUs, so that no governor decided anything; `flyball explain` says what else held it back"
    )]
    NoCpufreq,
    /// No model knows its driver.
    #[error(
        "no model knows its driver `{0}`; there are models of acpi-cpufreq, intel_pstate, intel_cpufreq, amd-pstate and amd-pstate-epp"
    )]
    Driver(String),
    /// Frequencies are not known.
    #[error("its inventory has no frequencies of its CPUs")]
    Frequencies,
    /// Some CPUs share a policy.
    #[error(
        "policies that some of its CPUs share have no model; there are models of one policy for all CPUs, and of one for each"
    )]
    Shared,
    /// The mode of the driver, as the machine had it or the trial set it.
    #[error("`{0}`: in that mode the driver has no model; there are models of active and passive")]
    Mode(String),
    /// Its kernel is not known.
    #[error("its inventory has no kernel release")]
    Kernel,
    /// Its governor is not known.
    #[error(
        "its inventory has no governor; say which was in force while it was recorded, `--in-force governor=NAME`"
    )]
    Governor,
}

/// The CPUs of a machine and its policy in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// CPUs alone: no disks, no costs.
    pub spec: MachineSpec,
    /// What the machine had of its own.
    pub at_rest: Vec<SettingRequest>,
    /// What was in force: the same with what a trial set.
    pub in_force: Vec<SettingRequest>,
    /// Governors that it has.
    pub governors: Vec<String>,
    /// Values that `energy_performance_preference` takes.
    pub preferences: Vec<String>,
}

/// The simulator has no more; a load hardly uses more of a larger machine.
const MOST_CPUS: usize = 64;
/// What `CONFIG_HZ` may be. An inventory may come from anywhere.
const TICKS: std::ops::RangeInclusive<u32> = 24..=10_000;

/// Whether a CPU may run at it.
fn is_frequency(at: &Hertz) -> bool {
    (1..=100_000).contains(&(at.khz() / 1000))
}

/// Where the inventory has none.
const USUAL_HZ: u32 = 250;
/// Where the driver states none.
const USUAL_TRANSITION: Nanos = Nanos::from_micros(10);

impl Machine {
    /// The machine of an inventory, with the settings that a trial made.
    ///
    /// # Errors
    /// [`UnknownMachine`].
    pub fn of(inventory: &Inventory, made: &[SettingRecord]) -> Result<Self, UnknownMachine> {
        let cpufreq = inventory.cpufreq.as_ref().ok_or(UnknownMachine::NoCpufreq)?;
        let policy = cpufreq.policies.first().ok_or(UnknownMachine::NoCpufreq)?;
        let count = inventory.cpus.online.len().max(1);
        let shared = match cpufreq.policies.len() {
            1 => count > 1,
            policies if policies == count => false,
            _ => return Err(UnknownMachine::Shared),
        };
        let is_set = made.iter().any(|record| record.setting.name == "governor");
        if policy.governor.is_none() && !is_set {
            return Err(UnknownMachine::Governor);
        }
        let driver = driver(cpufreq, policy)?;
        let release = inventory.kernel.release.as_deref().and_then(KernelVersion::parse);
        let kernel = release.ok_or(UnknownMachine::Kernel)?;
        let unknown = |record: &&SettingRecord| {
            is_driver_mode(&record.setting.name) && driver.in_mode(record.asked.trim(), kernel).is_none()
        };
        if let Some(record) = made.iter().find(unknown) {
            return Err(UnknownMachine::Mode(format!("{} = {}", record.setting, record.asked)));
        }
        let states = states(policy, driver, inventory.cpus.base)?;
        let highest = states.last().map_or(Hertz::from_mhz(1000), |state| state.frequency);
        let base = policy.base.or(inventory.cpus.base).filter(is_frequency).unwrap_or(highest);
        let spec = MachineSpec {
            name: inventory.host.clone().unwrap_or_else(|| "recorded".to_owned()),
            about: String::new(),
            kernel,
            dilation: 1.0,
            slice_dilation: 1.0,
            start_delay: Nanos::ZERO,
            hz: inventory.kernel.hz.filter(|hz| TICKS.contains(hz)).unwrap_or(USUAL_HZ).into(),
            memory: inventory.memory.total.unwrap_or(Bytes::new(0)),
            cpu: CpuSpec {
                model: inventory.cpus.model.name.clone().unwrap_or_default(),
                // What tunables begin with is in the inventory.
                processor: None,
                count: count.min(MOST_CPUS),
                driver,
                governor: policy.governor.clone().unwrap_or_else(|| "performance".to_owned()),
                shared,
                base,
                epp: policy.epp.clone().unwrap_or_else(|| "balance_performance".to_owned()),
                hardware: hardware(),
                states,
                turbo: Vec::new(),
                transition: policy.transition_latency.unwrap_or(USUAL_TRANSITION),
                transition_latency: policy.transition_latency.unwrap_or(USUAL_TRANSITION),
                frequency_invariant: cpufreq
                    .frequency_invariant
                    .unwrap_or(inventory.is_virtual() != Some(true)),
                work_per_cycle: 1.0,
                interrupts: Interrupts::Submitter,
                begins: Begins::New,
                idle_time: IdleTime::Exact,
                idle: idle_states(inventory),
            },
            disks: Vec::new(),
            links: BTreeMap::new(),
            costs: no_costs(),
            variation: Variation::NONE,
        };
        let at_rest = at_rest(cpufreq, policy, driver);
        let mut machine = Self {
            spec,
            in_force: at_rest.clone(),
            at_rest,
            governors: policy.available_governors.clone(),
            preferences: policy.available_epp.clone(),
        };
        machine.apply(made);
        if machine.driver() != driver {
            // What its own mode has.
            machine.governors.clear();
        }
        Ok(machine)
    }

    /// Whether its kernel is of the series of this release, `6.12.41-amd64`; `None` where that is no release.
    pub fn has_kernel(&self, release: &str) -> Option<bool> {
        let KernelVersion { major, minor, .. } = KernelVersion::parse(release)?;
        Some((major, minor) == (self.spec.kernel.major, self.spec.kernel.minor))
    }

    /// Its driver in the mode that is in force.
    pub fn driver(&self) -> Driver {
        let own = self.spec.cpu.driver;
        let mode = own.mode_setting().and_then(|setting| value(&self.in_force, setting));
        mode.and_then(|mode| own.in_mode(mode, self.spec.kernel)).unwrap_or(own)
    }

    /// Settings that a trial made are in force instead of those that its machine had.
    fn apply(&mut self, made: &[SettingRecord]) {
        let (modes, others): (Vec<_>, Vec<_>) =
            made.iter().partition(|record| is_driver_mode(&record.setting.name));
        for record in modes.into_iter().chain(others) {
            let mut request =
                SettingRequest { setting: record.setting.clone(), value: record.got.trim().to_owned() };
            if !is_of_cpus(request.setting.name.as_str()) {
                continue;
            }
            if request.value.is_empty() {
                request.value.clone_from(&record.asked);
            }
            self.in_force = with(&self.in_force, std::slice::from_ref(&request));
        }
    }
}

/// The value that settings give a name.
pub(crate) fn value<'s>(settings: &'s [SettingRequest], name: &str) -> Option<&'s str> {
    let setting = settings.iter().rev().find(|request| request.setting.name.as_str() == name)?;
    Some(setting.value.as_str())
}

/// Settings with others, which win. A driver in another mode begins anew, without what was set of the mode
/// before.
pub(crate) fn with(settings: &[SettingRequest], others: &[SettingRequest]) -> Vec<SettingRequest> {
    let is_other_mode = |other: &SettingRequest| {
        let name = other.setting.name.as_str();
        is_driver_mode(name) && value(settings, name) != Some(other.value.as_str())
    };
    let begins_anew = others.iter().any(is_other_mode);
    let kept = settings.iter().filter(|one| !(begins_anew && is_of_mode(&one.setting.name)));
    let kept = kept.filter(|one| others.iter().all(|other| other.setting.name != one.setting.name));
    kept.chain(others).cloned().collect()
}

/// Whether a setting is one of frequency policy or idle states, which are what a replay knows.
pub fn is_of_cpus(name: &str) -> bool {
    const NAMES: [&str; 2] = ["idle_governor", CPU_DMA_LATENCY];
    NAMES.contains(&name) || name.starts_with("idle.") || is_driver_mode(name) || is_of_mode(name)
}

/// Whether a setting is one of a policy or of a driver's mode, which both begin anew in another mode.
fn is_of_mode(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "governor",
        "min_freq",
        "max_freq",
        "setspeed",
        "epp",
        "turbo",
        "min_perf_pct",
        "max_perf_pct",
        "hwp_dynamic_boost",
    ];
    let is_tunable =
        || name.split_once('.').is_some_and(|(governor, _)| domain::cpufreq::has_tunables(governor));
    NAMES.contains(&name) || is_tunable()
}

fn driver(cpufreq: &Cpufreq, policy: &Policy) -> Result<Driver, UnknownMachine> {
    let name = policy.driver.as_deref().unwrap_or_default();
    let hwp = cpufreq.intel_pstate.as_ref().and_then(|intel| intel.hwp) == Some(true);
    match name {
        "acpi-cpufreq" => Ok(Driver::AcpiCpufreq),
        "intel_pstate" if hwp => Ok(Driver::IntelPstateHwp),
        "intel_pstate" => Ok(Driver::IntelPstate),
        "intel_cpufreq" if hwp => Ok(Driver::IntelCpufreqHwp),
        "intel_cpufreq" => Ok(Driver::IntelCpufreq),
        "amd-pstate" | "amd_pstate" => {
            match cpufreq.amd_pstate.as_ref().and_then(|amd| amd.status.as_deref()) {
                Some("guided") => Err(UnknownMachine::Mode(format!("{AMD_MODE} = guided"))),
                _ => Ok(Driver::AmdPstate),
            }
        }
        "amd-pstate-epp" | "amd_pstate_epp" => Ok(Driver::AmdPstateEpp),
        // A driver with a table behaves as acpi-cpufreq does: governors of the kernel choose from it.
        _ if !policy.available.is_empty() => Ok(Driver::AcpiCpufreq),
        other => Err(UnknownMachine::Driver(other.to_owned())),
    }
}

/// How a processor chooses between its limits: no vendor publishes it. As the lab's tables of processors that
/// do have it (docs/LAB.md): the work of the last 4 ms, each ms, at 30% of the time at an EPP of 0 to 95% at
/// 255. The other assumption, [`AutonomousSpec::default`], is an end of the interval.
fn hardware() -> AutonomousSpec {
    const fn permille(thousandths: u16) -> Permille {
        Permille::new(thousandths).expect("at most 1000")
    }
    AutonomousSpec::averaging(Nanos::from_millis(4), Nanos::from_millis(1), (permille(300), permille(950)))
}

fn states(policy: &Policy, driver: Driver, base: Option<Hertz>) -> Result<Vec<PState>, UnknownMachine> {
    let frequencies: Vec<Hertz> = if driver.has_table() && !policy.available.is_empty() {
        policy.available.clone()
    } else {
        let ends = [policy.hardware_min, policy.base.or(base), policy.hardware_max];
        let mut ends: Vec<Hertz> = ends.into_iter().flatten().collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    };
    let frequencies: Vec<Hertz> = frequencies.into_iter().filter(is_frequency).collect();
    if frequencies.is_empty() {
        return Err(UnknownMachine::Frequencies);
    }
    let state = |frequency| PState { frequency, busy_watts: None, idle_watts: None };
    Ok(frequencies.into_iter().map(state).collect())
}

fn idle_states(inventory: &Inventory) -> Vec<IdleState> {
    let states = inventory.cpuidle.iter().flat_map(|cpuidle| &cpuidle.states);
    let known = states.filter_map(|state| {
        Some(IdleState {
            name: state.name.clone(),
            exit_latency_ns: state.latency?.get(),
            target_residency_ns: state.residency?.get(),
            watts: 0.0,
        })
    });
    known.collect()
}

/// What a switch or an interrupt costs is in the CPU time that was recorded.
fn no_costs() -> Costs {
    let nothing =
        || Figure { is: 0.0, origin: Origin::Source("part of the CPU time that was recorded".into()) };
    Costs { given: [("switch", nothing())].into(), work_per_cycle: 1.0, factor: 1.0 }
}

fn at_rest(cpufreq: &Cpufreq, policy: &Policy, driver: Driver) -> Vec<SettingRequest> {
    let setting = |name: &str, value: &str| SettingRequest {
        setting: SettingName::parse(name),
        value: value.to_owned(),
    };
    let mut all = Vec::new();
    let limits = [("min_freq", policy.min), ("max_freq", policy.max)];
    all.extend(limits.into_iter().filter_map(|(name, at)| Some(setting(name, &at?.khz().to_string()))));
    all.extend(driver.mode_setting().map(|name| setting(name, driver.mode())));
    if driver.has_governors() {
        for (governor, tunables) in &cpufreq.tunables {
            let known = tunables.iter().filter(|(name, _)| is_modelled(governor, name));
            all.extend(known.map(|(name, value)| setting(&format!("{governor}.{name}"), value)));
        }
        let governor = policy.governor.as_deref().unwrap_or_default();
        let own = policy.tunables.iter().filter(|(name, _)| is_modelled(governor, name));
        all.extend(own.map(|(name, value)| setting(&format!("{governor}.{name}"), value)));
    }
    all.extend(policy.governor.as_deref().map(|governor| setting("governor", governor)));
    all.extend(
        policy.epp.as_deref().filter(|_| driver.leaves_it_to_hardware()).map(|epp| setting("epp", epp)),
    );
    if let Some(intel) = &cpufreq.intel_pstate {
        all.extend(intel.no_turbo.filter(|none| *none).map(|_| setting("turbo", "0")));
        let boosts = intel.hwp_dynamic_boost == Some(true) && driver == Driver::IntelPstateHwp;
        all.extend(boosts.then(|| setting("hwp_dynamic_boost", "1")));
    }
    all
}

/// Files of a governor's folder that decide what it does, and not what it may be set to.
fn is_modelled(governor: &str, tunable: &str) -> bool {
    match governor {
        "schedutil" => tunable == "rate_limit_us",
        "ondemand" | "conservative" => tunable != "sampling_rate_min",
        _ => false,
    }
}
