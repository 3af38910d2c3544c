//! A simulated machine as `flyball inspect` would see it.

use super::{Driver, MachineSpec};
use domain::inventory::{
    CpuList, CpuModel, Cpufreq, Cpuidle, Cpus, IdleState, IntelPstate, Inventory, Kernel, Memory, Policy,
    Power, SCHEMA, Tickless, Virtualisation,
};
use domain::time::Nanos;
use domain::trace::FrequencySource;
use std::collections::BTreeMap;

impl MachineSpec {
    /// As `flyball inspect` would see it, its storage left out, which belongs to a cell.
    pub fn inventory(&self) -> Inventory {
        let cpu = &self.cpu;
        let all: CpuList = list(0..cpu.count);
        let count = cpu.count as u32;
        let has_policies = cpu.driver != Driver::None;
        Inventory {
            schema: SCHEMA,
            host: Some(format!("{} (simulated)", self.name)),
            os: None,
            cpus: Cpus {
                model: CpuModel { name: Some(cpu.model.clone()), ..CpuModel::default() },
                online: all.clone(),
                present: Some(all.clone()),
                packages: None,
                cores: Some(count),
                threads_per_core: None,
                smt_control: None,
                core_types: Vec::new(),
                nodes: Vec::new(),
                base: Some(cpu.base),
                max: cpu.states.last().map(|state| state.frequency),
            },
            cpufreq: has_policies.then(|| self.cpufreq()),
            frequency_sources: vec![FrequencySource::TimeInState],
            cpuidle: (!cpu.idle.is_empty()).then(|| self.cpuidle(&all)),
            kernel: Kernel {
                release: Some(self.kernel.to_string()),
                hz: u32::try_from(self.hz).ok(),
                tickless: Some(Tickless::Idle),
                ..Kernel::default()
            },
            memory: Memory { total: Some(self.memory), ..Memory::default() },
            devices: Vec::new(),
            mounts: Vec::new(),
            power: Power::default(),
            virtualisation: Virtualisation::default(),
            rivals: Vec::new(),
            absent: Vec::new(),
        }
    }

    fn cpufreq(&self) -> Cpufreq {
        let cpu = &self.cpu;
        let policies = if cpu.shared { 1 } else { cpu.count };
        let lowest = cpu.states.first().map(|state| state.frequency);
        let highest = cpu.states.last().map(|state| state.frequency);
        let is_table = cpu.driver.has_table();
        let policy = |id: usize| Policy {
            id: id as u32,
            cpus: if cpu.shared { list(0..cpu.count) } else { list(id..id + 1) },
            driver: Some(cpu.driver.scaling_driver().to_owned()),
            governor: Some(cpu.governor.clone()),
            min: lowest,
            max: highest,
            hardware_min: lowest,
            hardware_max: highest,
            base: (!is_table).then_some(cpu.base),
            available: match is_table {
                true => cpu.states.iter().map(|state| state.frequency).collect(),
                false => Vec::new(),
            },
            epp: cpu.driver.leaves_it_to_hardware().then(|| cpu.epp.clone()),
            transition_latency: Some(cpu.transition_latency),
            ..Policy::default()
        };
        Cpufreq {
            policies: (0..policies).map(policy).collect(),
            intel_pstate: cpu.driver.is_intel().then(|| IntelPstate {
                status: Some(cpu.driver.mode().to_owned()),
                no_turbo: Some(false),
                hwp_dynamic_boost: None,
                min_perf: None,
                max_perf: None,
                hwp: Some(cpu.driver.has_hwp()),
            }),
            amd_pstate: None,
            boost: None,
            frequency_invariant: Some(cpu.frequency_invariant),
            tunables: BTreeMap::new(),
        }
    }

    fn cpuidle(&self, all: &CpuList) -> Cpuidle {
        let state = |(index, state): (usize, &crate::cpu::IdleState)| IdleState {
            index: index as u32,
            name: state.name.clone(),
            description: None,
            latency: Some(Nanos::new(state.exit_latency_ns)),
            residency: Some(Nanos::new(state.target_residency_ns)),
            cpus: all.clone(),
            disabled: CpuList::default(),
        };
        Cpuidle {
            driver: None,
            governor: Some("menu".into()),
            available_governors: vec!["menu".into(), "teo".into()],
            states: self.cpu.idle.iter().enumerate().map(state).collect(),
        }
    }
}

fn list(cpus: std::ops::Range<usize>) -> CpuList {
    let mut list = CpuList::default();
    cpus.for_each(|cpu| list.insert(cpu as u32));
    list
}
