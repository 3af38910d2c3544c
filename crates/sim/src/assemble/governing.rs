//! Which policies a machine has, and who chooses their frequency, once a cell's settings are made.

use super::{number, refused};
use crate::cpu::{Chooser, IdleSpec, PolicySpec};
use crate::machine::{Driver, MachineSpec};
use domain::bench::BenchError;
use domain::inventory::Inventory;
use domain::lab::ProcessorModel;
use domain::setting::{
    CPU_DMA_LATENCY, NO_LATENCY_LIMIT_US, SettingRequest, is_driver_mode, latency_limit_us,
};
use domain::time::Nanos;
use domain::units::{Hertz, Ratio};
use governors::amd_pstate::{AMD_PREFERENCES, AmdLevels, AmdPstate};
use governors::autonomous::Epp;
use governors::driver::{AmdMode, AmdPassive, Control, Driver as GovernedDriver, IntelCpufreq};
use governors::hwp::{DynamicBoost, HWP_PREFERENCES, Hwp};
use governors::intel_pstate::{Algorithm, GlobalLimits, IntelPolicy, IntelPstate, PmProfile, Ratios, Turbo};
use governors::{FrequencyTable, Governor, Policy as View, default_io_is_busy};
use std::collections::{BTreeMap, BTreeSet};

/// The settings of cpufreq that a cell may make, at what the machine starts with.
pub(super) struct Governing<'a> {
    machine: &'a MachineSpec,
    /// The machine's, in the mode that is set.
    driver: Driver,
    governor: String,
    /// By governor: tunable to value.
    tunables: BTreeMap<String, BTreeMap<String, String>>,
    min: Hertz,
    max: Hertz,
    epp: String,
    turbo: Turbo,
    percent: [Option<u32>; 2],
    boost: DynamicBoost,
    idle_governor: String,
    /// Idle states that are switched off, by name.
    disabled: BTreeSet<String>,
    latency_limit_us: u32,
}

/// What drivers in passive mode say of the time from a request to its effect
/// (`INTEL_CPUFREQ_TRANSITION_LATENCY`, `AMD_PSTATE_TRANSITION_LATENCY`).
const PASSIVE_LATENCY: Nanos = Nanos::from_micros(20);

/// The bus clock of Intel's parts since Nehalem's successors.
const RATIO: Hertz = Hertz::from_mhz(100);

impl<'a> Governing<'a> {
    pub(super) fn of(machine: &'a MachineSpec) -> Self {
        let states = &machine.cpu.states;
        Self {
            machine,
            driver: machine.cpu.driver,
            governor: machine.cpu.governor.clone(),
            tunables: BTreeMap::new(),
            min: states[0].frequency,
            max: states[states.len() - 1].frequency,
            epp: machine.cpu.epp.clone(),
            turbo: Turbo::On,
            percent: [None; 2],
            boost: DynamicBoost::Off,
            idle_governor: "menu".to_owned(),
            disabled: BTreeSet::new(),
            latency_limit_us: NO_LATENCY_LIMIT_US,
        }
    }

    /// Makes a setting: what it was before, and what it is now.
    pub(super) fn set(&mut self, request: &SettingRequest) -> Result<(String, String), BenchError> {
        let driver = self.driver;
        let missing =
            || refused(request, &format!("the machine `{}` has {}", self.machine.name, about(driver)));
        let value = request.value.trim();
        let name = request.setting.name.as_str();
        if let Some(before) = self.set_idle(request)? {
            return Ok((before, request.value.clone()));
        }
        if driver == Driver::None {
            return Err(missing());
        }
        let before = match name {
            "governor" => {
                if !driver.has_governors() && !["performance", "powersave"].contains(&value) {
                    return Err(missing());
                }
                std::mem::replace(&mut self.governor, value.to_owned())
            }
            "min_freq" => show(std::mem::replace(&mut self.min, frequency(request)?)),
            "max_freq" => show(std::mem::replace(&mut self.max, frequency(request)?)),
            "setspeed" => {
                let khz = frequency(request)?.khz().to_string();
                self.tunable("userspace", "scaling_setspeed", &khz)
            }
            "epp" if driver.leaves_it_to_hardware() => std::mem::replace(&mut self.epp, value.to_owned()),
            "turbo" if driver.is_intel() || driver == Driver::AmdPstateEpp => {
                let on = match value {
                    "1" => Turbo::On,
                    "0" => Turbo::Off,
                    _ => return Err(refused(request, "it is 0 or 1")),
                };
                let before = std::mem::replace(&mut self.turbo, on);
                if before == Turbo::On { "1".to_owned() } else { "0".to_owned() }
            }
            "min_perf_pct" if driver.is_intel() => self.share(0, request)?,
            "max_perf_pct" if driver.is_intel() => self.share(1, request)?,
            "hwp_dynamic_boost" if driver == Driver::IntelPstateHwp => {
                let on = if value == "1" { DynamicBoost::On } else { DynamicBoost::Off };
                let before = std::mem::replace(&mut self.boost, on);
                if before == DynamicBoost::On { "1".to_owned() } else { "0".to_owned() }
            }
            _ if driver.mode_setting() == Some(name) => self.set_mode(request, value)?,
            _ => match name.split_once('.') {
                Some((governor, tunable))
                    if driver.has_governors() && domain::cpufreq::has_tunables(governor) =>
                {
                    self.tunable(governor, tunable, value)
                }
                _ => return Err(refused(request, "no model knows it")),
            },
        };
        Ok((before, request.value.clone()))
    }

    /// Registers the driver in another mode: its policies are made anew, with the governor that a kernel
    /// begins with and without limits (`intel_pstate_update_status`, `amd_pstate_update_status`).
    fn set_mode(&mut self, request: &SettingRequest, mode: &str) -> Result<String, BenchError> {
        let before = self.driver.mode();
        let driver = self.driver.in_mode(mode, self.machine.kernel).ok_or_else(|| {
            let (driver, kernel) = (about(self.driver), self.machine.kernel);
            refused(
                request,
                &format!("there are models of active and passive of {driver}, where Linux {kernel} has both"),
            )
        })?;
        if driver != self.driver {
            let begun = Self::of(self.machine);
            self.driver = driver;
            self.governor = driver.first_governor().to_owned();
            self.tunables.clear();
            (self.min, self.max, self.epp) = (begun.min, begun.max, begun.epp);
            (self.turbo, self.percent) = (begun.turbo, begun.percent);
        }
        Ok(before.to_owned())
    }

    /// A setting of cpuidle: what it was before; `None` where it is none.
    fn set_idle(&mut self, request: &SettingRequest) -> Result<Option<String>, BenchError> {
        let name = request.setting.name.as_str();
        if name == "idle_governor" {
            return Ok(Some(std::mem::replace(&mut self.idle_governor, request.value.trim().to_owned())));
        }
        if name == CPU_DMA_LATENCY {
            return self.limit_latency(request).map(Some);
        }
        let Some(state) = name.strip_prefix("idle.").and_then(|rest| rest.strip_suffix(".disable")) else {
            return Ok(None);
        };
        if !self.machine.cpu.idle.iter().any(|known| known.name == state) {
            return Err(refused(
                request,
                &format!("the machine `{}` has no idle state of this name", self.machine.name),
            ));
        }
        let before = match request.value.trim() {
            "1" => !self.disabled.insert(state.to_owned()),
            "0" => self.disabled.remove(state),
            _ => return Err(refused(request, "it is 0 or 1")),
        };
        Ok(Some(u8::from(before).to_string()))
    }

    /// Holds a limit on the exit latency of idle states, and says what it was before.
    fn limit_latency(&mut self, request: &SettingRequest) -> Result<String, BenchError> {
        if self.machine.cpu.idle.is_empty() {
            let why = format!(
                "the machine `{}` has no idle states, which it would choose among",
                self.machine.name
            );
            return Err(refused(request, &why));
        }
        let limit_us = latency_limit_us(&request.value).ok_or_else(|| {
            refused(request, "it takes whole microseconds up to 2000s, as `20us`, or `none`")
        })?;
        Ok(std::mem::replace(&mut self.latency_limit_us, limit_us).to_string())
    }

    /// The machine's idle states.
    pub(super) fn idle(&self) -> Result<Option<IdleSpec>, BenchError> {
        let states = self.machine.cpu.idle.clone();
        if states.is_empty() {
            return Ok(None);
        }
        let tick = Nanos::new(1_000_000_000 / self.machine.hz);
        let mut spec = IdleSpec::new(states, &self.idle_governor, self.machine.kernel, tick)
            .map_err(|error| unsupported(&error.to_string()))?;
        let is_limited = self.latency_limit_us < NO_LATENCY_LIMIT_US;
        spec.latency_limit = is_limited.then(|| Nanos::from_micros(self.latency_limit_us.into()));
        spec.disabled = spec.states.iter().map(|state| self.disabled.contains(&state.name)).collect();
        Ok(Some(spec))
    }

    fn share(&mut self, which: usize, request: &SettingRequest) -> Result<String, BenchError> {
        let before = self.percent[which].replace(number(request)?);
        Ok(before.map_or_else(String::new, |percent| percent.to_string()))
    }

    fn tunable(&mut self, governor: &str, name: &str, value: &str) -> String {
        let all = self.tunables.entry(governor.to_owned()).or_default();
        all.insert(name.to_owned(), value.to_owned()).unwrap_or_default()
    }

    /// What its settings changed of the machine as it starts.
    pub(super) fn show_in(&self, inventory: &mut Inventory, policies: &[PolicySpec]) {
        if let Some(cpuidle) = &mut inventory.cpuidle {
            cpuidle.governor = Some(self.idle_governor.clone());
            let off = cpuidle.states.iter_mut().filter(|state| self.disabled.contains(&state.name));
            off.for_each(|state| state.disabled = state.cpus.clone());
        }
        let Some(cpufreq) = &mut inventory.cpufreq else { return };
        for policy in &mut cpufreq.policies {
            policy.governor = Some(self.governor.clone());
            policy.min = policy.min.max(Some(self.min));
            policy.max = policy.max.min(Some(self.max));
            policy.driver = Some(self.driver.scaling_driver().to_owned());
            policy.epp = self.driver.leaves_it_to_hardware().then(|| self.epp.clone());
        }
        let share = |percent: Option<u32>| percent.and_then(|percent| Ratio::new(f64::from(percent) / 100.0));
        if let Some(intel) = &mut cpufreq.intel_pstate {
            intel.status = Some(self.driver.mode().to_owned());
            intel.no_turbo = Some(self.turbo == Turbo::Off);
            let boosts = self.driver == Driver::IntelPstateHwp;
            intel.hwp_dynamic_boost = boosts.then_some(self.boost == DynamicBoost::On);
            [intel.min_perf, intel.max_perf] = self.percent.map(share);
        }
        if self.driver == Driver::AmdPstateEpp {
            cpufreq.boost = Some(self.turbo == Turbo::On);
        }
        if let Some(Chooser::Kernel(governor)) = policies.first().map(|policy| &policy.chooser) {
            let tunables = governor.tunables().into_iter().map(|(name, value)| (name.to_owned(), value));
            let tunables: BTreeMap<String, String> = tunables.collect();
            if !tunables.is_empty() {
                cpufreq.tunables.insert(governor.name().to_owned(), tunables);
            }
        }
    }

    /// The machine's policies.
    pub(super) fn policies(&self) -> Result<Vec<PolicySpec>, BenchError> {
        let cpu = &self.machine.cpu;
        let groups: Vec<Vec<usize>> = match cpu.shared {
            true => vec![(0..cpu.count).collect()],
            false => (0..cpu.count).map(|cpu| vec![cpu]).collect(),
        };
        groups.into_iter().map(|cpus| self.policy(cpus)).collect()
    }

    fn policy(&self, cpus: Vec<usize>) -> Result<PolicySpec, BenchError> {
        let cpu = &self.machine.cpu;
        let lowest = cpu.states[0].frequency;
        let highest = cpu.states[cpu.states.len() - 1].frequency;
        if self.min > self.max {
            return Err(unsupported(&format!(
                "min_freq {} is above max_freq {}",
                show(self.min),
                show(self.max)
            )));
        }
        let frequencies = cpu.states.iter().map(|state| state.frequency).collect();
        let table = FrequencyTable::new(frequencies).map_err(|error| unsupported(&error.to_string()))?;
        let mut view = View {
            cpus: cpus.len(),
            table: self.driver.has_table().then_some(table),
            hardware_min: lowest,
            hardware_max: highest,
            min: self.min.max(lowest),
            max: self.max.min(highest),
            current: highest,
            transition_latency_ns: match self.driver.is_passive() {
                true => PASSIVE_LATENCY.get(),
                false => cpu.transition_latency.get(),
            },
            fast_switch: cpus.len() == 1,
            frequency_invariant: cpu.frequency_invariant,
            driver: GovernedDriver::Frequencies,
        };
        let chooser = self.chooser(&mut view)?;
        Ok(PolicySpec {
            cpus,
            view,
            chooser,
            capacity_khz: self.whole_of_capacity().khz(),
            transition_ns: cpu.transition.get(),
            turbo: cpu.turbo.iter().map(|f| f.khz()).collect(),
            idle_time: cpu.idle_time,
            begins: cpu.begins,
        })
    }

    /// The frequency that is a whole of capacity where utilisation is frequency invariant: of Intel's what
    /// four busy cores run at (`core_set_max_freq_ratio`, arch/x86/kernel/cpu/aperfmperf.c), of AMD's the
    /// middle between nominal and boost (`amd_set_max_freq_ratio`, arch/x86/kernel/acpi/cppc.c).
    fn whole_of_capacity(&self) -> Hertz {
        const BUSY: usize = 4;
        let cpu = &self.machine.cpu;
        let highest = cpu.states[cpu.states.len() - 1].frequency;
        match self.driver {
            Driver::AmdPstate | Driver::AmdPstateEpp => Hertz::from_khz((cpu.base.khz() + highest.khz()) / 2),
            _ => cpu.turbo.get(BUSY - 1).or(cpu.turbo.last()).copied().unwrap_or(highest),
        }
    }

    fn chooser(&self, view: &mut View) -> Result<Chooser, BenchError> {
        let machine = self.machine;
        let tick = Nanos::new(1_000_000_000 / machine.hz);
        Ok(match self.driver {
            Driver::None => Chooser::Kernel(self.kernel("performance", view)?),
            Driver::AcpiCpufreq => Chooser::Kernel(self.kernel(&self.governor, view)?),
            Driver::IntelCpufreq | Driver::IntelCpufreqHwp => {
                let ratios = self.ratios()?;
                let mut global = GlobalLimits::new(&ratios);
                self.limit(&mut global);
                let control = if self.driver.has_hwp() { Control::Hwp } else { Control::PState };
                view.driver = GovernedDriver::Intel(IntelCpufreq { ratios, global, control });
                Chooser::Kernel(self.kernel(&self.governor, view)?)
            }
            Driver::AmdPstate => {
                let (levels, kernel) = (self.amd_levels(), machine.kernel);
                view.driver = GovernedDriver::Amd(AmdPassive { levels, kernel, mode: AmdMode::Passive });
                Chooser::Kernel(self.kernel(&self.governor, view)?)
            }
            Driver::IntelPstate => {
                let algorithm = Algorithm::of(machine.kernel, PmProfile::Desktop);
                let ratios = self.ratios()?;
                let mut driver =
                    IntelPstate::new(ratios, self.intel_policy()?, algorithm, machine.kernel, tick);
                self.limit(driver.global_mut());
                view.current = view.min;
                Chooser::IntelPstate(Box::new(driver))
            }
            Driver::IntelPstateHwp => {
                let policy = self.intel_policy()?;
                let epp = self.epp(&HWP_PREFERENCES)?;
                let mut driver =
                    Hwp::new(self.ratios()?, policy, epp, self.boost, tick, machine.cpu.hardware);
                self.limit(driver.global_mut());
                view.current = view.min;
                Chooser::Hwp(Box::new(driver))
            }
            Driver::AmdPstateEpp => {
                let policy = self.intel_policy()?;
                let epp = self.epp(&AMD_PREFERENCES)?;
                let hardware = machine.cpu.hardware;
                let mut driver = AmdPstate::new(self.amd_levels(), policy, epp, machine.kernel, hardware)
                    .map_err(|error| unsupported(&error.to_string()))?;
                driver.set_boost(self.turbo);
                view.current = view.min;
                Chooser::Amd(Box::new(driver))
            }
        })
    }

    fn kernel(&self, name: &str, view: &View) -> Result<Governor, BenchError> {
        let mut tunables = self.tunables.get(name).cloned().unwrap_or_default();
        if name == "ondemand" && self.takes_waiting_as_work() {
            tunables.entry("io_is_busy".to_owned()).or_insert_with(|| "1".to_owned());
        }
        Governor::new(name, &tunables, self.machine.kernel, self.machine.hz as u32, view)
            .map_err(|error| unsupported(&error.to_string()))
    }

    /// Whether ondemand begins with an `io_is_busy` of 1.
    fn takes_waiting_as_work(&self) -> bool {
        let of = |known: ProcessorModel| {
            let (family, model) = (known.family.into(), known.model.into());
            default_io_is_busy(self.machine.kernel, known.vendor.id(), family, model)
        };
        self.machine.cpu.processor.is_some_and(of)
    }

    fn intel_policy(&self) -> Result<IntelPolicy, BenchError> {
        match self.governor.as_str() {
            "performance" => Ok(IntelPolicy::Performance),
            "powersave" => Ok(IntelPolicy::Powersave),
            other => Err(unsupported(&format!(
                "the driver {} has no governor `{other}`; it has performance and powersave",
                self.driver.name()
            ))),
        }
    }

    fn epp(&self, names: &[(&str, Epp)]) -> Result<Epp, BenchError> {
        let named = names.iter().find(|(name, _)| *name == self.epp).map(|(_, epp)| *epp);
        named.or_else(|| self.epp.parse().ok().map(Epp)).ok_or_else(|| {
            let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            unsupported(&format!(
                "no energy preference is named `{}`; there are {}, and 0 to 255",
                self.epp,
                all.join(", ")
            ))
        })
    }

    fn ratios(&self) -> Result<Ratios, BenchError> {
        let cpu = &self.machine.cpu;
        let ratio = |frequency: Hertz| (frequency.khz() / RATIO.khz()) as u32;
        let lowest = ratio(cpu.states[0].frequency);
        let (base, turbo) = (ratio(cpu.base), ratio(cpu.states[cpu.states.len() - 1].frequency));
        if lowest == 0 || turbo > 255 {
            return Err(unsupported("P-states of Intel's driver are 100 MHz to 25500 MHz"));
        }
        Ok(Ratios::core(lowest, base.max(lowest), turbo.max(base)))
    }

    fn amd_levels(&self) -> AmdLevels {
        let cpu = &self.machine.cpu;
        let lowest = cpu.states[0].frequency;
        let highest = cpu.states[cpu.states.len() - 1].frequency;
        let level = |f: Hertz| (f.khz() * 166 / highest.khz()).clamp(1, 255) as u8;
        let nonlinear = lowest.khz() + (cpu.base.khz() - lowest.khz()) / 3;
        AmdLevels {
            highest: 166,
            nominal: level(cpu.base),
            lowest_nonlinear: level(Hertz::from_khz(nonlinear)),
            lowest: level(lowest),
            nominal_frequency: cpu.base,
            lowest_frequency: lowest,
        }
    }

    fn limit(&self, global: &mut GlobalLimits) {
        global.set_turbo(self.turbo);
        if let Some(percent) = self.percent[1] {
            global.set_max_percent(percent);
        }
        if let Some(percent) = self.percent[0] {
            global.set_min_percent(percent);
        }
    }
}

/// Settings as they are made: a driver's mode before what it makes anew, the rest in their own order.
pub(super) fn in_order(settings: &[SettingRequest]) -> impl Iterator<Item = &SettingRequest> {
    let is_mode = |request: &&SettingRequest| is_driver_mode(&request.setting.name);
    settings.iter().filter(is_mode).chain(settings.iter().filter(move |request| !is_mode(request)))
}

fn unsupported(why: &str) -> BenchError {
    BenchError::Unsupported(why.to_owned())
}

fn show(frequency: Hertz) -> String {
    frequency.khz().to_string()
}

fn about(driver: Driver) -> String {
    match driver {
        Driver::None => "no cpufreq".to_owned(),
        other => format!("the driver {}", other.name()),
    }
}

/// A frequency in kHz as the kernel's files have it, or with its unit.
fn frequency(request: &SettingRequest) -> Result<Hertz, BenchError> {
    let text = request.value.trim();
    let with_unit = |unit: &str, factor: f64| {
        let number = text.strip_suffix(unit)?.trim().parse::<f64>().ok()?;
        (0.0..=1e9).contains(&number).then(|| Hertz::from_khz((number * factor).round() as u64))
    };
    let bare = || text.parse::<u64>().ok().map(Hertz::from_khz);
    with_unit("GHz", 1e6)
        .or_else(|| with_unit("MHz", 1e3))
        .or_else(|| with_unit("kHz", 1.0))
        .or_else(bare)
        .ok_or_else(|| refused(request, "write it in kHz, or as `2100MHz`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io_is_busy(text: &str, asked: Option<&str>) -> String {
        let machine = MachineSpec::parse(text).unwrap();
        let mut governing = Governing::of(&machine);
        if let Some(asked) = asked {
            governing.tunable("ondemand", "io_is_busy", asked);
        }
        match &governing.policies().unwrap()[0].chooser {
            Chooser::Kernel(governor) => governor.tunables()["io_is_busy"].clone(),
            other => panic!("{other:?}"),
        }
    }

    fn set(machine: &MachineSpec, settings: &[(&str, &str)]) -> Result<(String, Inventory), BenchError> {
        let request = |(name, value): &(&str, &str)| SettingRequest {
            setting: domain::setting::SettingName::parse(name),
            value: (*value).to_owned(),
        };
        let requests: Vec<SettingRequest> = settings.iter().map(request).collect();
        let mut governing = Governing::of(machine);
        for request in in_order(&requests) {
            governing.set(request)?;
        }
        let policies = governing.policies()?;
        let mut inventory = machine.inventory();
        governing.show_in(&mut inventory, &policies);
        let chooser = match &policies[0].chooser {
            Chooser::Kernel(governor) => format!("{} {:?}", governor.name(), policies[0].view.driver),
            Chooser::IntelPstate(_) => "intel_pstate".to_owned(),
            Chooser::Hwp(_) => "hwp".to_owned(),
            Chooser::Amd(_) => "amd".to_owned(),
        };
        Ok((chooser, inventory))
    }

    /// A machine of this driver.
    fn of_driver(driver: Driver) -> MachineSpec {
        let mut machine =
            MachineSpec::parse(include_str!("../../../../studies/machines/skylake-leap422-no-hwp.toml"))
                .unwrap();
        machine.cpu.driver = driver;
        machine.cpu.governor = "powersave".to_owned();
        machine.kernel = governors::KernelVersion::new(6, 12, 0);
        machine
    }

    #[test]
    fn in_passive_mode_a_governor_of_the_kernel_asks_the_processors_own_driver() {
        let passive = [("governor", "ondemand"), ("intel_pstate.status", "passive")];
        for (active, control) in [(Driver::IntelPstate, "PState"), (Driver::IntelPstateHwp, "Hwp")] {
            let (chooser, inventory) = set(&of_driver(active), &passive).unwrap();
            assert!(chooser.starts_with("ondemand Intel") && chooser.contains(control), "{chooser}");
            let cpufreq = inventory.cpufreq.unwrap();
            let policy = &cpufreq.policies[0];
            assert_eq!(policy.driver.as_deref(), Some("intel_cpufreq"));
            assert_eq!((policy.governor.as_deref(), &policy.epp), (Some("ondemand"), &None));
            assert_eq!(cpufreq.intel_pstate.unwrap().status.as_deref(), Some("passive"));
            assert!(cpufreq.tunables.contains_key("ondemand"));
        }
        let (chooser, inventory) =
            set(&of_driver(Driver::AmdPstateEpp), &[("amd_pstate.status", "passive")]).unwrap();
        assert!(chooser.starts_with("schedutil Amd"), "the kernel's default governor: {chooser}");
        assert_eq!(inventory.cpufreq.unwrap().policies[0].driver.as_deref(), Some("amd-pstate"));
    }

    #[test]
    fn a_driver_in_another_mode_begins_without_what_was_set_and_one_mode_has_no_settings_of_the_other() {
        let active = of_driver(Driver::IntelCpufreqHwp);
        let (chooser, inventory) = set(&active, &[("intel_pstate.status", "active")]).unwrap();
        assert_eq!(chooser, "hwp");
        let policy = &inventory.cpufreq.unwrap().policies[0];
        assert_eq!((policy.governor.as_deref(), policy.epp.is_some()), (Some("powersave"), true));
        let refused =
            |driver, settings: &[(&str, &str)]| set(&of_driver(driver), settings).unwrap_err().to_string();
        let off = refused(Driver::IntelPstate, &[("intel_pstate.status", "off")]);
        assert!(off.contains("active and passive"), "{off}");
        let mut old = of_driver(Driver::IntelPstate);
        old.kernel = governors::KernelVersion::new(4, 4, 0);
        let passive = set(&old, &[("intel_pstate.status", "passive")]).unwrap_err().to_string();
        assert!(passive.contains("where Linux 4.4"), "{passive}");
        let other = refused(Driver::AcpiCpufreq, &[("intel_pstate.status", "passive")]);
        assert!(other.contains("no model knows it"), "{other}");
        let governor = refused(Driver::IntelPstate, &[("governor", "schedutil")]);
        assert!(governor.contains("the driver intel_pstate"), "{governor}");
    }

    #[test]
    fn utilisation_is_relative_to_what_four_busy_cores_run_at() {
        let mut machine = of_driver(Driver::IntelCpufreq);
        let of = |machine: &MachineSpec| Governing::of(machine).whole_of_capacity();
        machine.cpu.turbo = [4200, 4100, 4050, 4000, 3900].map(Hertz::from_mhz).to_vec();
        assert_eq!(of(&machine), Hertz::from_mhz(4000));
        machine.cpu.turbo.truncate(2);
        assert_eq!(of(&machine), Hertz::from_mhz(4100));
        machine.cpu.turbo.clear();
        let highest = machine.cpu.states[machine.cpu.states.len() - 1].frequency;
        assert_eq!(of(&machine), highest);
        machine.cpu.driver = Driver::AmdPstate;
        assert_eq!(of(&machine).khz(), (highest.khz() + machine.cpu.base.khz()) / 2);
    }

    #[test]
    fn ondemand_counts_waiting_as_work_on_intels_processors_alone() {
        let intel = include_str!("../../../../studies/machines/skylake-leap421.toml");
        assert_eq!((io_is_busy(intel, None), io_is_busy(intel, Some("0"))), ("1".into(), "0".into()));
        let pentium4 = include_str!("../../../../studies/machines/pentium4-2800.toml");
        assert_eq!(io_is_busy(pentium4, None), "0");
        assert_eq!(io_is_busy(&intel.replace("processor = {", "# {"), None), "0", "of an unknown processor");
    }
}
