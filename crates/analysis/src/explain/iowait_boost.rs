//! schedutil, or Intel's driver without hardware P-states, raises the frequency after each wait for I/O, and
//! the load gains nothing by it.
//!
//! A CPU whose task wakes up from a wait for I/O is given a higher frequency than its utilisation asks for,
//! twice as high with each such wake-up, up to the highest. A load whose requests need little of the CPU is
//! none the faster, and what the CPU does takes the energy of the higher voltage.
//!
//! Sources: kernel/sched/cpufreq_schedutil.c (`sugov_iowait_boost`), drivers/cpufreq/intel_pstate.c
//! (`get_target_pstate`).

use super::Rule;
use super::next_step::UNTUNE;
use crate::facts::case::{Case, evidence};
use crate::facts::cpu_share;
use crate::facts::residency::PStates;
use crate::facts::usage::Usage;
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::{Cpufreq, Policy};
use domain::setting::{SettingName, SettingRequest};
use domain::units::{Hertz, significant};

pub(super) const RULE: Rule = Rule {
    name: "iowait-boost",
    doc: "The governor raises the frequency after each wait for I/O, of which the load has nothing: it costs energy only.",
    needs: "a recording's trace: each CPU, time at each frequency, and pressure or CPUs; the governor in the inventory; CPU time of the load or its requests in flight",
    source: "kernel/sched/cpufreq_schedutil.c (`sugov_iowait_boost`); drivers/cpufreq/intel_pstate.c (`get_target_pstate`)",
    yields_to: &[],
    run,
};

/// The busiest CPU of a policy, of its time: utilisation alone asks for less than half of the frequency.
const MOST_BUSY: f64 = 0.35;

/// Of the time, near the highest frequency.
const MIN_RAISED: f64 = 0.5;

/// Of the highest frequency: near it.
const NEAR: f64 = 0.9;

/// Of the time, in which tasks wait for I/O.
const MIN_WAITING: f64 = 0.2;

/// What a limit may cost, as a share of a request's time.
const MOST_LOST: f64 = 0.03;

/// What is raised for nothing.
struct Raised<'a> {
    source: String,
    policy: &'a Policy,
    busiest: (u32, f64),
    /// Of the policy's time, near the highest frequency.
    share: f64,
    most: Hertz,
}

fn run(case: &Case<'_>) -> Vec<Finding> {
    let Some(cpufreq) = case.inventory.and_then(|inventory| inventory.cpufreq.as_ref()) else {
        return vec![];
    };
    let of = |policy: &Policy| boosts(cpufreq, policy);
    let raised = cpufreq.policies.iter().filter(|policy| of(policy)).filter_map(|policy| {
        let (source, usage, share) = case.worst_usage(|usage| share_raised(usage, policy))?;
        let busiest = busiest(usage, policy)?;
        Some(Raised { source, policy, busiest, share, most: policy.max.or(policy.hardware_max)? })
    });
    let most = raised.max_by(|a, b| a.share.total_cmp(&b.share));
    most.and_then(|raised| finding(case, &raised)).into_iter().collect()
}

/// Whether what decides raises the frequency after waits for I/O.
fn boosts(cpufreq: &Cpufreq, policy: &Policy) -> bool {
    policy.governor.as_deref() == Some("schedutil")
        || cpufreq.is_intel_powersave()
            && cpufreq.intel_pstate.as_ref().is_some_and(|intel| intel.hwp == Some(false))
}

/// The CPU of a policy that is busy most.
fn busiest(usage: &Usage, policy: &Policy) -> Option<(u32, f64)> {
    let own = usage.cpus.iter().filter(|(cpu, _)| policy.cpus.contains(*cpu));
    own.map(|(cpu, used)| (*cpu, used.busy())).max_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// How long the policy was near its highest frequency, where its CPUs were idle for most of the time and
/// tasks waited.
fn share_raised(usage: &Usage, policy: &Policy) -> Option<f64> {
    let waiting = usage.pressure.io.or_else(|| Some(usage.machine?.iowait))?;
    let (_, busy) = busiest(usage, policy)?;
    let most = policy.max.or(policy.hardware_max)?.hz() as f64;
    let name = format!("policy{}", policy.id);
    let states: &PStates = usage.pstates.iter().find(|states| states.policy == name)?;
    let near = states.shares.iter().filter(|(at, _)| at.hz() as f64 >= most * NEAR);
    let share: f64 = near.map(|(_, share)| share).sum();
    (waiting >= MIN_WAITING && busy <= MOST_BUSY && share >= MIN_RAISED).then_some(share)
}

/// The grain of limits where the driver has no table: that of Intel's and AMD's ratios.
const RATIO: u64 = 100_000_000;

/// The lowest frequency, half of the highest at least, that costs the load next to nothing: at a CPU's share
/// `s` of a request's time, what takes `k` times as long makes a request longer by `s (k - 1)`.
fn enough(policy: &Policy, most: Hertz, share: f64) -> Option<(Hertz, f64)> {
    let lost = |at: Hertz| share * (most.hz() as f64 / at.hz() as f64 - 1.0);
    let half = most.hz().div_ceil(2);
    let by_ratio = || (half.div_ceil(RATIO)..=most.hz() / RATIO).map(|ratio| Hertz::from_hz(ratio * RATIO));
    // A limit between two states of a table would be another than the one that was asked for.
    let states: Vec<Hertz> =
        if policy.available.is_empty() { by_ratio().collect() } else { policy.available.clone() };
    let states = states.into_iter().filter(|at| at.hz() >= half && *at < most);
    states.map(|at| (at, lost(at))).filter(|(_, lost)| *lost <= MOST_LOST).min_by_key(|(at, _)| *at)
}

fn finding(case: &Case<'_>, raised: &Raised<'_>) -> Option<Finding> {
    let (share, measured) = cpu_share::largest(case)?;
    let Raised { source, policy, busiest: (cpu, busy), share: at_most, most } = raised;
    let (limit, lost) = enough(policy, *most, share)?;
    let request = SettingRequest {
        setting: SettingName::parse("max_freq"),
        value: format!("{}MHz", limit.hz() / 1_000_000),
    };
    let governor = policy.governor.as_deref().unwrap_or_default();
    let figures = vec![
        evidence(format!("time of policy {} near {most}", policy.id), percent(*at_most), source),
        evidence(format!("time in which CPU {cpu}, its busiest, was busy"), percent(*busy), source),
        evidence(
            format!("what a limit of {limit} costs the load, at most"),
            percent(lost),
            format!("{} of a request's time is the CPUs' at most, {measured}", percent(share)),
        ),
    ];
    Some(Finding {
        rule: RULE.name,
        title: format!(
            "{governor} kept CPU {cpu} near {most} for {} of the time, busy for {} of it; at {limit} the load loses {}% at most",
            percent(*at_most),
            percent(*busy),
            significant(lost * 100.0)
        ),
        reason: "After a wait for I/O the governor asks for more than the utilisation, twice as much with each wake-up. The requests of \
this load take little of a CPU, so that it gains nothing; what the CPU does takes the energy of the higher voltage."
            .into(),
        evidence: figures,
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(Remedy {
            what: format!("measure what a limit of {limit} saves; it costs other loads of the machine speed"),
            settings: vec![request.clone()],
            undo: UNTUNE.into(),
        }),
        next: case.replay_with(&request),
        compared: vec![],
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::facts::usage::{CpuUsage, Pressure};
    use domain::inventory::{CpuList, Inventory};

    fn machine(governor: &str) -> Inventory {
        let mut machine = watched(governor);
        let policy = &mut machine.cpufreq.as_mut().unwrap().policies[0];
        policy.cpus = CpuList::parse("0-1").unwrap();
        policy.max = Some(Hertz::from_mhz(2800));
        policy.available = [800, 1400, 2100, 2800].map(Hertz::from_mhz).to_vec();
        machine
    }

    fn usage(busy: f64, raised: f64, waiting: f64) -> Usage {
        let cpu = |busy: f64| CpuUsage { system: busy, iowait: 0.5, ..CpuUsage::default() };
        let shares = vec![(Hertz::from_mhz(2800), raised), (Hertz::from_mhz(800), 1.0 - raised)];
        Usage {
            cpus: vec![(0, cpu(busy)), (1, cpu(0.0))],
            pstates: vec![PStates { policy: "policy0".into(), shares }],
            pressure: Pressure { io: Some(waiting), ..Pressure::default() },
            ..Usage::default()
        }
    }

    /// Of a load with one request in flight that has the CPU for this share of its time.
    fn of_load(machine: &Inventory, usage: &Usage, share: f64) -> Vec<Finding> {
        let mut data = fio_run(&["rw=randread bs=4k iodepth=1 direct=1"], |_, _| {
            vec![("iops", 1000.0), ("latency_mean", 1e-3), ("latency_p50", 1e-3)]
        });
        for trial in &mut data.trials {
            let measured = trial.measurement.as_mut().unwrap();
            let used = domain::Nanos::new((measured.duration.get() as f64 * share) as u64);
            measured.roles = [(domain::trace::Role::Workload, used)].into();
        }
        let usages = [(data.trials[0].key.clone(), usage.clone())];
        let summary = crate::summarise::summarise(&data, None);
        (RULE.run)(&Case { inventory: Some(machine), usages: &usages, ..Case::new(&data, &summary) })
    }

    #[test]
    fn a_frequency_that_is_raised_for_nothing_is_found_with_a_limit_that_costs_nothing() {
        let found = of_load(&machine("schedutil"), &usage(0.02, 0.8, 0.9), 0.05).swap_remove(0);
        assert_eq!(found.remedy.as_ref().unwrap().settings[0].to_string(), "max_freq = 2100MHz");
        // A twentieth of each request is the CPU's: a third more of that is 1.67%, as much again is 5%.
        assert_eq!(
            found.title,
            "schedutil kept CPU 0 near 2.80 GHz for 80% of the time, busy for 2% of it; at 2.10 GHz the load loses 1.67% at most"
        );
        assert!(found.next.starts_with("flyball replay ") && found.next.ends_with(" --set max_freq=2100MHz"));
    }

    #[test]
    fn a_limit_is_a_state_of_the_table_or_a_ratio_of_100_mhz() {
        let mut machine = machine("schedutil");
        let policy = &mut machine.cpufreq.as_mut().unwrap().policies[0];
        policy.available = [800, 2100, 2800].map(Hertz::from_mhz).to_vec();
        let limit = |machine: &Inventory, share: f64| {
            let found = of_load(machine, &usage(0.02, 0.8, 0.9), share);
            found.first().map(|found| found.remedy.as_ref().unwrap().settings[0].value.clone())
        };
        assert_eq!(limit(&machine, 0.02).as_deref(), Some("2100MHz"));
        let policy = &mut machine.cpufreq.as_mut().unwrap().policies[0];
        (policy.available, policy.max) = (vec![], Some(Hertz::from_mhz(2750)));
        assert_eq!(limit(&machine, 0.02).as_deref(), Some("1400MHz"));
        // Of 9% a limit of 2.1 GHz costs 2.8%, of 2.0 GHz more than 3%.
        assert_eq!(limit(&machine, 0.09).as_deref(), Some("2100MHz"));
    }

    #[test]
    fn other_governors_busy_cpus_and_loads_that_gain_by_it_are_no_finding() {
        let idle = usage(0.02, 0.8, 0.9);
        assert!(of_load(&machine("ondemand"), &idle, 0.02).is_empty());
        assert!(of_load(&machine("schedutil"), &usage(0.6, 0.8, 0.9), 0.02).is_empty());
        assert!(of_load(&machine("schedutil"), &usage(0.02, 0.3, 0.9), 0.02).is_empty());
        assert!(of_load(&machine("schedutil"), &usage(0.02, 0.8, 0.1), 0.02).is_empty());
        // A third of each request is the CPU's.
        assert!(of_load(&machine("schedutil"), &usage(0.3, 0.8, 0.9), 0.3).is_empty());
    }
}
