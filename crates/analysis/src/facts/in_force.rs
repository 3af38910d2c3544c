//! The machine as it was while trials ran: its inventory, taken before, with the settings that a study made.
//!
//! Sources: `Documentation/admin-guide/pm/{cpufreq,intel_pstate,cpuidle}.rst`;
//! `Documentation/power/pm_qos_interface.rst`; `Documentation/ABI/stable/sysfs-block`;
//! `Documentation/admin-guide/md.rst`.

use domain::inventory::{BlockDevice, BlockKind, Cpufreq, IdleState, Inventory, Md, Policy, Queue};
use domain::setting::{SettingName, SettingRecord, latency_limit_us};
use domain::time::Nanos;
use domain::trial::Trial;
use domain::units::{Bytes, Hertz};

/// The inventory with the settings that all valid trials had in force alike, as they were read back. What
/// differs between them is for the comparison of cells; what an inventory has no field for is as it was.
pub fn in_force(inventory: &Inventory, trials: &[Trial]) -> Inventory {
    let mut machine = inventory.clone();
    for record in alike(trials) {
        apply(&mut machine, &record.setting, &record.path, record.got.trim());
    }
    machine
}

/// The settings that every valid trial made and read back alike, in the order in which they were made: a
/// governor comes before its tunables.
fn alike(trials: &[Trial]) -> Vec<&SettingRecord> {
    let mut valid = trials.iter().filter(|trial| trial.validity.is_valid());
    let first = valid.next().map_or(&[][..], |trial| trial.settings.as_slice());
    let others: Vec<&Trial> = valid.collect();
    let stayed = |record: &SettingRecord| record.after.as_ref().is_none_or(|after| *after == record.got);
    let is_same = |record: &SettingRecord, other: &SettingRecord| {
        other.setting == record.setting && other.got.trim() == record.got.trim() && stayed(other)
    };
    let has =
        |trial: &Trial, record: &SettingRecord| trial.settings.iter().any(|other| is_same(record, other));
    let of_all = |record: &&SettingRecord| others.iter().all(|trial| has(trial, record));
    first.iter().filter(|record| stayed(record)).filter(of_all).collect()
}

fn apply(machine: &mut Inventory, setting: &SettingName, path: &str, value: &str) {
    let object = setting.object.as_deref();
    if let Some(cpufreq) = &mut machine.cpufreq {
        of_frequency(cpufreq, &setting.name, object, path, value);
    }
    if setting.name == "cpu_dma_latency"
        && let Some(limit) = latency_limit_us(value)
    {
        // The kernel enters no state that takes longer to leave.
        let limit = Nanos::from_micros(limit.into());
        let states = machine.cpuidle.iter_mut().flat_map(|idle| &mut idle.states);
        let too_deep = |state: &&mut IdleState| state.latency.is_some_and(|latency| latency > limit);
        states.filter(too_deep).for_each(|state| state.disabled = state.cpus.clone());
    }
    if let Some(state) = setting.name.strip_prefix("idle.").and_then(|rest| rest.strip_suffix(".disable")) {
        let states = machine.cpuidle.iter_mut().flat_map(|idle| &mut idle.states);
        let named = states.filter(|known| is_called(known, state));
        named.for_each(|state| of_idle_state(state, object, value == "1"));
    }
    if machine.kernel.sysctls.contains_key(&setting.name) {
        machine.kernel.sysctls.insert(setting.name.clone(), value.to_owned());
    }
    let named = machine.devices.iter_mut().find(|device| Some(device.name.as_str()) == object);
    if let Some(device) = named {
        of_device(device, &setting.name, value);
    }
}

fn of_frequency(cpufreq: &mut Cpufreq, name: &str, object: Option<&str>, path: &str, value: &str) {
    let is_set = value != "0";
    match (name, &mut cpufreq.intel_pstate) {
        // This file says the contrary of what a host's others say, and a simulation's.
        ("turbo", Some(intel)) => intel.no_turbo = Some(is_set == path.ends_with("no_turbo")),
        ("turbo", None) => cpufreq.boost = Some(is_set),
        ("hwp_dynamic_boost", Some(intel)) => intel.hwp_dynamic_boost = Some(is_set),
        _ => {}
    }
    let policies =
        cpufreq.policies.iter_mut().filter(|policy| object.is_none_or(|object| is_of(policy, object)));
    for policy in policies {
        match name {
            "governor" => policy.governor = Some(value.to_owned()),
            "epp" => policy.epp = Some(value.to_owned()),
            "min_freq" => policy.min = hertz(value).or(policy.min),
            "max_freq" => policy.max = hertz(value).or(policy.max),
            _ => {}
        }
        if let Some((governor, tunable)) = name.split_once('.')
            && policy.governor.as_deref() == Some(governor)
            && let Some(known) = policy.tunables.get_mut(tunable)
        {
            value.clone_into(known);
        }
    }
    if let Some((governor, tunable)) = name.split_once('.')
        && cpufreq.policies.iter().any(|policy| policy.governor.as_deref() == Some(governor))
    {
        let shared = cpufreq.tunables.entry(governor.to_owned()).or_default();
        shared.insert(tunable.to_owned(), value.to_owned());
    }
}

/// Whether `C6` or `state3` is this idle state.
fn is_called(state: &IdleState, name: &str) -> bool {
    state.name.eq_ignore_ascii_case(name) || name == format!("state{}", state.index)
}

/// Of one CPU, or of all that have the state.
fn of_idle_state(state: &mut IdleState, cpu: Option<&str>, is_disabled: bool) {
    let cpu = cpu.map(|name| name.strip_prefix("cpu").and_then(|number| number.parse::<u32>().ok()));
    let is_meant = |number: u32| cpu.is_none_or(|cpu| cpu == Some(number));
    let after = |number: &u32| {
        if is_meant(*number) { is_disabled } else { state.disabled.contains(*number) }
    };
    state.disabled = state.cpus.iter().filter(after).collect();
}

fn is_of(policy: &Policy, object: &str) -> bool {
    object.strip_prefix("policy").and_then(|number| number.parse().ok()) == Some(policy.id)
}

/// What `scaling_max_freq` holds, in kHz.
fn hertz(value: &str) -> Option<Hertz> {
    value.parse().ok().map(Hertz::from_khz)
}

fn of_device(device: &mut BlockDevice, name: &str, value: &str) {
    let number = value.parse().ok();
    if let Some(queue) = &mut device.queue {
        of_queue(queue, name, value, number);
    }
    if let BlockKind::Md(md) = &mut device.kind {
        of_array(md, name, number);
    }
}

fn of_queue(queue: &mut Queue, name: &str, value: &str, number: Option<u32>) {
    match name {
        "read_ahead_kb" => {
            queue.read_ahead = number.map(|kib| Bytes::from_kib(kib.into())).or(queue.read_ahead)
        }
        "nr_requests" => queue.nr_requests = number.or(queue.nr_requests),
        "scheduler" => queue.scheduler = Some(value.to_owned()),
        _ => {}
    }
}

fn of_array(md: &mut Md, name: &str, number: Option<u32>) {
    match name {
        "stripe_cache_size" => md.stripe_cache_size = number.or(md.stripe_cache_size),
        "group_thread_cnt" => md.group_thread_count = number.or(md.group_thread_count),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::testing::{bare_machine, machine_with, setting_run, with_array};
    use domain::inventory::{CpuList, Cpuidle, IntelPstate};
    use domain::trial::Validity;
    use std::collections::BTreeMap;

    /// Trials that all made these settings: name, file, and what it read back as.
    fn made(settings: &[(&str, &str, &str)]) -> Vec<Trial> {
        let mut data = setting_run("other", &["a", "b"], |_, _| 1.0);
        let record = |(name, path, got): &(&str, &str, &str)| SettingRecord {
            setting: SettingName::parse(name),
            path: (*path).into(),
            before: String::new(),
            asked: String::new(),
            got: (*got).into(),
            after: Some((*got).into()),
        };
        data.trials.iter_mut().for_each(|trial| trial.settings = settings.iter().map(record).collect());
        data.trials
    }

    /// A machine under `powersave` at 3 GHz at most.
    fn saving() -> Inventory {
        let policy = Policy {
            governor: Some("powersave".into()),
            max: Some(Hertz::from_mhz(3000)),
            tunables: BTreeMap::from([("rate_limit_us".into(), "1000".into())]),
            ..Policy::default()
        };
        machine_with(policy)
    }

    #[test]
    fn what_all_trials_had_in_force_replaces_what_was_inspected_before() {
        let settings = [
            ("governor@policy0", "policy0/scaling_governor", "schedutil"),
            ("max_freq@policy0", "policy0/scaling_max_freq", "1800000"),
            ("schedutil.rate_limit_us@policy0", "policy0/schedutil/rate_limit_us", "500"),
            ("ondemand.up_threshold", "cpufreq/ondemand/up_threshold", "40"),
        ];
        let machine = in_force(&saving(), &made(&settings));
        let cpufreq = machine.cpufreq.unwrap();
        let [policy] = &cpufreq.policies[..] else { panic!("{cpufreq:?}") };
        assert_eq!(policy.governor.as_deref(), Some("schedutil"));
        assert_eq!(policy.max, Some(Hertz::from_mhz(1800)));
        assert_eq!(policy.tunables["rate_limit_us"], "500");
        // Tunables of a governor that is not in force decide nothing.
        assert!(!cpufreq.tunables.contains_key("ondemand"));
        let other = in_force(&saving(), &made(&[("governor@policy7", "", "schedutil")]));
        assert_eq!(other, saving());
    }

    #[test]
    fn what_trials_differ_in_or_somebody_changed_is_left_as_it_was() {
        let mut trials = made(&[("governor@policy0", "", "performance")]);
        let governor = |trials: &[Trial]| {
            in_force(&saving(), trials).cpufreq.and_then(|all| all.policies[0].governor.clone()).unwrap()
        };
        assert_eq!(governor(&trials), "performance");
        "ondemand".clone_into(&mut trials[1].settings[0].got);
        trials[1].settings[0].after = None;
        assert_eq!(governor(&trials), "powersave");
        trials[1].validity = Validity::Failed("it ended".into());
        assert_eq!(governor(&trials), "performance");
        trials[0].settings[0].after = Some("ondemand".into());
        assert_eq!(governor(&trials), "powersave");
        assert_eq!(governor(&[]), "powersave");
    }

    #[test]
    fn turbo_is_what_the_file_means() {
        let intel = IntelPstate {
            status: None,
            no_turbo: None,
            hwp_dynamic_boost: None,
            min_perf: None,
            max_perf: None,
            hwp: None,
        };
        let mut machine = saving();
        let boost = |machine: &Inventory, path: &str, value: &str| {
            let cpufreq = in_force(machine, &made(&[("turbo", path, value)])).cpufreq.unwrap();
            (cpufreq.intel_pstate.and_then(|intel| intel.no_turbo), cpufreq.boost)
        };
        assert_eq!(boost(&machine, "cpufreq/boost", "0"), (None, Some(false)));
        machine.cpufreq.as_mut().unwrap().intel_pstate = Some(intel);
        assert_eq!(boost(&machine, "intel_pstate/no_turbo", "1"), (Some(true), None));
        assert_eq!(boost(&machine, "intel_pstate/no_turbo", "0"), (Some(false), None));
        assert_eq!(boost(&machine, "simulation/machine/turbo", "0"), (Some(true), None));
    }

    #[test]
    fn idle_states_are_disabled_by_their_names_and_by_a_limit_of_latency() {
        let cpus = CpuList::parse("0-1").unwrap();
        let state = |index, us| IdleState {
            index,
            name: format!("C{index}"),
            description: None,
            latency: Some(Nanos::from_micros(us)),
            residency: None,
            cpus: cpus.clone(),
            disabled: CpuList::default(),
        };
        let cpuidle = Cpuidle {
            driver: None,
            governor: None,
            available_governors: vec![],
            states: vec![state(1, 2), state(2, 90)],
        };
        let machine = Inventory { cpuidle: Some(cpuidle), ..bare_machine() };
        let by_name = |settings: &[(&str, &str, &str)]| -> Vec<CpuList> {
            let states = in_force(&machine, &made(settings)).cpuidle.unwrap().states;
            states.into_iter().map(|state| state.disabled).collect()
        };
        let one = CpuList::parse("1").unwrap();
        assert_eq!(by_name(&[("idle.c2.disable@cpu1", "", "1")]), [CpuList::default(), one]);
        assert_eq!(by_name(&[("idle.state1.disable", "", "1")]), [cpus.clone(), CpuList::default()]);
        let both = [("idle.C2.disable", "", "1"), ("idle.C2.disable@cpu0", "", "0")];
        assert_eq!(by_name(&both)[1], CpuList::parse("1").unwrap());
        let limited = in_force(&machine, &made(&[("cpu_dma_latency", "", "20")])).cpuidle.unwrap();
        let disabled: Vec<bool> = limited.states.iter().map(|state| state.disabled == cpus).collect();
        assert_eq!(disabled, [false, true]);
    }

    #[test]
    fn devices_and_sysctls_have_what_was_written() {
        let mut machine = with_array(Md::default(), false, &["sda", "sdb"]);
        machine.kernel.sysctls.insert("vm.dirty_ratio".into(), "20".into());
        let of = |machine: &Inventory| {
            let queue = machine.device("sda").unwrap().queue.clone().unwrap();
            let md = machine.devices.iter().find_map(|device| match &device.kind {
                BlockKind::Md(md) => Some((device.name.clone(), md.clone())),
                _ => None,
            });
            (queue, md.unwrap())
        };
        let (_, (array, _)) = of(&machine);
        let settings = [
            ("read_ahead_kb@sda", "", "16"),
            ("scheduler@sda", "", "none"),
            ("nr_requests@sda", "", "4"),
            (&*format!("stripe_cache_size@{array}"), "", "4096"),
            (&*format!("group_thread_cnt@{array}"), "", "2"),
            ("vm.dirty_ratio", "", "5"),
        ];
        let changed = in_force(&machine, &made(&settings));
        let (queue, (_, md)) = of(&changed);
        assert_eq!(queue.read_ahead, Some(Bytes::from_kib(16)));
        assert_eq!((queue.scheduler.as_deref(), queue.nr_requests), (Some("none"), Some(4)));
        assert_eq!((md.stripe_cache_size, md.group_thread_count), (Some(4096), Some(2)));
        assert_eq!(changed.kernel.sysctls["vm.dirty_ratio"], "5");
        assert_eq!(changed.device("sdb"), machine.device("sdb"));
    }
}
