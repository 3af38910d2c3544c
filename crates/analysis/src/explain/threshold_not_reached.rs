//! A watched machine whose governor goes up at a threshold that the load of its windows hardly ever reaches,
//! while tasks wait for I/O: the CPU's part of each request takes longer than it could.
//!
//! Whether the load would be faster is not measured by watching: the remedy is to be measured. Runs that
//! compare levels have `governor-stays-low`.
//!
//! Sources: drivers/cpufreq/cpufreq_ondemand.c (`od_update`: `load > up_threshold`) and
//! cpufreq_conservative.c (`cs_dbs_update`) of Linux 6.1; `Documentation/cpu-freq/cpufreq-stats.rst`.

use super::Rule;
use super::governor::windows_seen;
use super::next_step::{UNTUNE, tune_command};
use crate::facts::case::{Case, evidence};
use crate::facts::cpu_share;
use crate::facts::residency::PStates;
use crate::facts::usage::Usage;
use crate::facts::window_loads::WindowLoads;
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::{Cpufreq, Policy};
use domain::setting::{SettingName, SettingRequest};
use domain::units::Hertz;

pub(super) const RULE: Rule = Rule {
    name: "threshold-not-reached",
    doc: "The load that a governor sees stays below its threshold, so that CPUs stay slow while tasks wait for I/O.",
    needs: "a recording's trace: time at each frequency, CPUs, and pressure; `up_threshold` in the inventory",
    source: "drivers/cpufreq/cpufreq_ondemand.c (`od_update`), cpufreq_conservative.c (`cs_dbs_update`); \
Documentation/cpu-freq/cpufreq-stats.rst",
    yields_to: &["governor-stays-low", "frequency-capped", "cpu-at-limit"],
    run,
};

/// Governors that go up where the load of a window exceeds `up_threshold`, and the lowest threshold that is
/// proposed of each: ondemand takes any from 1 on (`MIN_FREQUENCY_UP_THRESHOLD`), conservative's has to be
/// above its `down_threshold`, which is 20.
const BY_THRESHOLD: [(&str, u32); 2] = [("ondemand", 1), ("conservative", 25)];

/// A CPU that is busy for less has little to do for I/O.
const MIN_LOAD: f64 = 0.1;

/// CPUs that are at their highest frequency for more of the time lose little by the rest.
const MAX_AT_HIGHEST: f64 = 0.5;

/// Where tasks wait for I/O in less of the time, nobody waits for the CPU's part of a request either.
const MIN_WAITING: f64 = 0.1;

/// The highest threshold that is proposed: that of the published remedy for encrypted volumes.
const HIGHEST_PROPOSED: u32 = 40;

/// What was seen of one policy.
struct Seen<'u> {
    governor: &'static str,
    least: u32,
    threshold: f64,
    pstates: &'u PStates,
    highest: (Hertz, f64),
    load: WindowLoads,
    waiting: (f64, &'static str),
}

fn run(case: &Case<'_>) -> Vec<Finding> {
    let Some(cpufreq) = case.inventory.and_then(|inventory| inventory.cpufreq.as_ref()) else {
        return Vec::new();
    };
    // Whoever waits for disks alone gains nothing by a CPU that is faster.
    if cpu_share::waits_for_disks_alone(case) {
        return Vec::new();
    }
    let seen = case.usages.iter().filter_map(|(key, usage)| {
        // Of several policies, the one whose CPU has most to do.
        let all = cpufreq.policies.iter().filter_map(|policy| seen(cpufreq, policy, usage));
        let busiest = all.max_by(|a, b| a.load.median.total_cmp(&b.load.median))?;
        Some((key, busiest))
    });
    let worst = seen.max_by(|(_, a), (_, b)| a.load.median.total_cmp(&b.load.median));
    let found = worst.map(|(key, seen)| {
        let trial = case.data.trials.iter().find(|trial| trial.key == *key);
        let windows = trial.and_then(|trial| trial.measurement.as_ref()?.windows.as_ref());
        let mut found = finding(&seen, &format!("trace of {}", key.folder()));
        found.evidence.extend(windows.and_then(|all| windows_seen(all, "recorded events")));
        found
    });
    found.into_iter().collect()
}

fn seen<'u>(cpufreq: &Cpufreq, policy: &Policy, usage: &'u Usage) -> Option<Seen<'u>> {
    let named = policy.governor.as_deref()?;
    let (governor, least) = BY_THRESHOLD.into_iter().find(|(name, _)| *name == named)?;
    let shared = || cpufreq.tunables.get(governor)?.get("up_threshold");
    let threshold = policy.tunables.get("up_threshold").or_else(shared)?;
    let threshold = threshold.parse::<f64>().ok()? / 100.0;
    let name = format!("policy{}", policy.id);
    let pstates = usage.pstates.iter().find(|states| states.policy == name)?;
    let highest = *pstates.shares.first().filter(|(_, share)| *share <= MAX_AT_HIGHEST)?;
    let loads = usage.loads.iter().filter(|load| policy.cpus.contains(load.cpu));
    let load = *loads.max_by(|a, b| a.median.total_cmp(&b.median))?;
    let is_below = load.median >= MIN_LOAD && load.median <= threshold;
    let by_pressure = usage.pressure.io.map(|share| (share, "time in which a task waited for I/O (PSI)"));
    let by_idle =
        || Some((usage.machine?.iowait, "time in which CPUs were idle while a task waited for I/O"));
    let waiting = by_pressure.or_else(by_idle).filter(|(share, _)| *share >= MIN_WAITING)?;
    is_below.then_some(Seen { governor, least, threshold, pstates, highest, load, waiting })
}

/// A threshold that the load exceeds at the highest frequency as well: four fifths of what it is there, where
/// the part that a CPU works becomes shorter, and what it waits for does not. Above a higher one the governor
/// goes up, finds less than that, and goes down again, to a frequency by that lower load.
fn proposed(seen: &Seen<'_>) -> u32 {
    let mean = seen.pstates.shares.iter().map(|(at, share)| at.hz() as f64 * share).sum::<f64>();
    let works = seen.load.median * (mean / seen.highest.0.hz() as f64).min(1.0);
    let load = works / (works + 1.0 - seen.load.median).max(f64::MIN_POSITIVE);
    ((load * 100.0 * 0.8).floor() as u32).clamp(seen.least, HIGHEST_PROPOSED)
}

fn finding(seen: &Seen<'_>, source: &str) -> Finding {
    let Seen { governor, load, waiting, .. } = seen;
    let (highest, at_highest) = seen.highest;
    let name = format!("{governor}.up_threshold");
    let request = SettingRequest { setting: SettingName::parse(&name), value: proposed(seen).to_string() };
    let below = seen.pstates.shares.iter().map(|(at, share)| at.hz() as f64 * share).sum::<f64>();
    Finding {
        rule: RULE.name,
        title: format!(
            "{governor} kept CPU {} below its highest frequency for {} of the time: it was busy for {} of a window, and {governor} goes up above {}",
            load.cpu,
            percent(1.0 - at_highest),
            percent(load.median),
            percent(seen.threshold),
        ),
        reason: format!(
            "{governor} looks at how busy a CPU was in a window of time, and goes to the highest frequency only above \
`up_threshold`. A task that works and waits in turn never fills a window, although each of its requests waits for the \
CPU's part: submission, checksums, encryption, parity, completion. That part takes as much longer as the CPU is slower."
        ),
        evidence: vec![
            evidence(format!("time of {} at {highest}", seen.pstates.policy), percent(at_highest), source),
            evidence(
                format!("mean frequency of {}, idle time included", seen.pstates.policy),
                Hertz::from_hz(below as u64).to_string(),
                source,
            ),
            evidence(
                format!("load of CPU {} in windows of 100 ms, median; one in twenty is above", load.cpu),
                format!("{}; {}", percent(load.median), percent(load.high)),
                source,
            ),
            evidence(
                format!("`{name}`"),
                percent(seen.threshold),
                format!("/sys/devices/system/cpu/cpufreq/{governor}"),
            ),
            evidence(waiting.1, percent(waiting.0), source),
        ],
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(Remedy {
            what: format!(
                "lower the threshold to below the load that {governor} would see at the highest frequency, and measure what that gains"
            ),
            settings: vec![request.clone()],
            undo: UNTUNE.into(),
        }),
        next: tune_command(&request),
        compared: vec![],
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::testing::{findings_of_usage, machine_with};
    use super::*;
    use crate::facts::usage::Pressure;
    use domain::inventory::{CpuList, Inventory};

    fn machine(governor: &str) -> Inventory {
        let policy = Policy {
            governor: Some(governor.into()),
            cpus: CpuList::parse("0-1").unwrap(),
            ..Policy::default()
        };
        let mut machine = machine_with(policy);
        let tunables = [("up_threshold".to_owned(), "95".to_owned())].into();
        machine.cpufreq.as_mut().unwrap().tunables.insert(governor.into(), tunables);
        machine
    }

    /// With what its highest frequency is.
    fn machine_of(governor: &str) -> Inventory {
        let mut machine = machine(governor);
        machine.cpufreq.as_mut().unwrap().policies[0].hardware_max = Some(Hertz::from_mhz(2800));
        machine
    }

    /// At the highest frequency for so much of the time, with this load of CPU 1, while tasks wait for so
    /// much of it.
    fn usage(at_highest: f64, median: f64, waiting: f64) -> Usage {
        let shares = vec![(Hertz::from_mhz(2800), at_highest), (Hertz::from_mhz(800), 1.0 - at_highest)];
        let load = |cpu, median: f64| WindowLoads { cpu, median, high: (median + 0.1).min(1.0) };
        Usage {
            pressure: Pressure { io: Some(waiting), ..Pressure::default() },
            pstates: vec![PStates { policy: "policy0".into(), shares }],
            loads: vec![load(0, 0.02), load(1, median)],
            ..Usage::default()
        }
    }

    #[test]
    fn a_load_below_the_threshold_while_tasks_wait_is_found_with_a_threshold_that_it_reaches() {
        let found = findings_of_usage(RULE, &usage(0.04, 0.45, 0.7), Some(&machine("ondemand")));
        let [found] = &found[..] else { panic!("{found:#?}") };
        assert_eq!(
            found.title,
            "ondemand kept CPU 1 below its highest frequency for 96% of the time: it was busy for 45% of a window, and ondemand goes up above 95%"
        );
        assert_eq!(found.confidence, Confidence::Likely);
        let settings = &found.remedy.as_ref().unwrap().settings;
        // 45% of the time at 880 MHz is 14% at 2800 MHz, beside 55% of waiting: a load of 20%.
        assert_eq!(settings[0].to_string(), "ondemand.up_threshold = 16");
        let figures: Vec<&str> = found.evidence.iter().map(|one| one.figure.as_str()).collect();
        assert_eq!(figures, ["4%", "880 MHz", "45%; 55%", "95%", "70%"]);
    }

    #[test]
    fn a_threshold_stays_within_what_the_governor_takes() {
        for (governor, load, expected) in
            [("ondemand", 0.11, "3"), ("ondemand", 0.9, "40"), ("conservative", 0.2, "25")]
        {
            let found = findings_of_usage(RULE, &usage(0.1, load, 0.5), Some(&machine(governor)));
            assert_eq!(found[0].remedy.as_ref().unwrap().settings[0].value, expected);
        }
    }

    #[test]
    fn a_fast_cpu_an_idle_one_a_full_one_and_one_that_nothing_waits_for_are_no_finding() {
        let silent = |usage: Usage| findings_of_usage(RULE, &usage, Some(&machine("ondemand"))).is_empty();
        assert!(silent(usage(0.9, 0.45, 0.7)), "it is at its highest frequency");
        assert!(silent(usage(0.0, 0.04, 0.7)), "it has nothing to do");
        assert!(silent(usage(0.0, 0.99, 0.7)), "the governor sees more than its threshold");
        assert!(silent(usage(0.0, 0.45, 0.01)), "nothing waits");
    }

    #[test]
    fn a_load_that_waits_for_its_disks_alone_gains_nothing_by_a_faster_cpu() {
        use crate::facts::usage::{CpuUsage, DiskUsage};
        let of = |depth: f64| {
            let cpu = |user| CpuUsage { user, ..CpuUsage::default() };
            let disk =
                DiskUsage { device: "sda".into(), busy: 1.0, depth: Some(depth), ..DiskUsage::default() };
            let busy = Usage {
                machine: Some(cpu(0.25)),
                cpus: vec![(0, cpu(0.05)), (1, cpu(0.45))],
                disks: vec![disk],
                ..usage(0.04, 0.45, 0.7)
            };
            findings_of_usage(RULE, &busy, Some(&machine_of("ondemand"))).len()
        };
        assert_eq!([of(1.0), of(32.0)], [1, 0]);
    }

    #[test]
    fn without_time_at_frequencies_a_threshold_or_such_a_governor_nothing_is_said() {
        let seen = usage(0.04, 0.45, 0.7);
        let not_counted = Usage { pstates: vec![], ..seen.clone() };
        assert!(findings_of_usage(RULE, &not_counted, Some(&machine("ondemand"))).is_empty());
        assert!(findings_of_usage(RULE, &seen, Some(&machine("schedutil"))).is_empty());
        assert!(findings_of_usage(RULE, &seen, None).is_empty());
        let mut hidden = machine("ondemand");
        hidden.cpufreq.as_mut().unwrap().tunables.clear();
        assert!(findings_of_usage(RULE, &seen, Some(&hidden)).is_empty());
    }
}
