//! Frequencies: APERF/MPERF first, cpufreq's `time_in_state` next, `scaling_cur_freq` last, which may wake a
//! CPU and shows no more than what it ran at when it was read.

use super::aperf::{AperfEvents, Counters};
use super::{Format, Group, Source, Take, counter, each, gauge, is_number};
use crate::recorder::Roots;
use crate::texts::{Input, Sources, every, numbered};
use domain::Nanos;
use domain::trace::{FrequencySource, Series, SeriesUnit};
use parse::proc::{Error, cpufreq};
use std::path::Path;

pub const GROUP: Group = Group { formats: &[&Counters, &TimeInState, &Current], open };

/// `cpufreq/stats/time_in_state` of a policy.
struct TimeInState;

/// `cpufreq/scaling_cur_freq` of a CPU.
struct Current;

/// What a group of counters takes: a count and three values.
const COUNTERS_BYTES: usize = 32;

fn open(sources: &mut Sources, roots: &Roots, interval: Nanos) -> crate::Result<()> {
    match open_counters(sources, &roots.sys, interval) {
        Ok(()) => sources.frequency = FrequencySource::AperfMperf,
        Err(reason) => {
            sources.frequency = open_cpufreq(sources, &roots.sys, interval);
            let instead = match sources.frequency {
                FrequencySource::None => "no cpufreq either".to_owned(),
                other => format!("{} instead", other.name()),
            };
            sources.absent.push(format!("no aperf/mperf counters: {reason}; {instead}"));
        }
    }
    Ok(())
}

fn open_counters(sources: &mut Sources, sys: &Path, interval: Nanos) -> Result<(), String> {
    let events = AperfEvents::find(sys)?;
    let cpus = numbered(&sys.join("devices/system/cpu"), "cpu");
    let mut groups = Vec::new();
    for cpu in cpus {
        match events.open(cpu) {
            Ok(group) => groups.push((cpu, group)),
            // An offline CPU is listed too.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
            Err(error) => return Err(format!("perf_event_open on cpu{cpu}: {error}")),
        }
    }
    let every = every(groups.len(), interval, Nanos::ZERO);
    for (cpu, group) in groups {
        let source = Source::new(&Counters, cpu.to_string());
        sources.keep(source, Input::Counters(group), COUNTERS_BYTES, every);
    }
    Ok(())
}

fn open_cpufreq(sources: &mut Sources, sys: &Path, interval: Nanos) -> FrequencySource {
    let cpus = sys.join("devices/system/cpu");
    let policies = numbered(&cpus.join("cpufreq"), "policy");
    let turn = every(policies.len(), interval, Nanos::ZERO);
    let times = |policy: &u32| cpus.join(format!("cpufreq/policy{policy}/stats/time_in_state"));
    let opened = |policy: &u32| sources.add(&TimeInState, policy.to_string(), &times(policy), turn).is_ok();
    if policies.iter().map(opened).filter(|opened| *opened).count() > 0 {
        return FrequencySource::TimeInState;
    }
    let all = numbered(&cpus, "cpu");
    let turn = every(all.len(), interval, Nanos::ZERO);
    let current = |cpu: &u32| cpus.join(format!("cpu{cpu}/cpufreq/scaling_cur_freq"));
    let opened = |cpu: &u32| sources.add(&Current, cpu.to_string(), &current(cpu), turn).is_ok();
    match all.iter().map(opened).filter(|opened| *opened).count() {
        0 => FrequencySource::None,
        _ => FrequencySource::ScalingCurFreq,
    }
}

impl Format for TimeInState {
    fn name(&self) -> &'static str {
        "time-in-state"
    }

    fn takes(&self, policy: &str) -> bool {
        is_number(policy)
    }

    fn names_items(&self) -> bool {
        true
    }

    fn series(&self, policy: &str, khz: &str) -> Vec<Series> {
        vec![counter(format!("freq.policy{policy}.time.{khz}"), SeriesUnit::Ticks, None)]
    }

    fn values(&self, _: &str, bytes: &[u8], take: &mut Take<'_>) -> Result<(), Error> {
        for state in cpufreq::time_in_state(&String::from_utf8_lossy(bytes)) {
            let state = state?;
            take(state.khz, 0, state.ticks);
        }
        Ok(())
    }
}

impl Format for Current {
    fn name(&self) -> &'static str {
        "current-frequency"
    }

    fn takes(&self, cpu: &str) -> bool {
        is_number(cpu)
    }

    fn series(&self, cpu: &str, _: &str) -> Vec<Series> {
        vec![gauge(format!("freq.cpu{cpu}.khz"), SeriesUnit::Kilohertz)]
    }

    fn values(&self, _: &str, bytes: &[u8], take: &mut Take<'_>) -> Result<(), Error> {
        each("", [cpufreq::current(&String::from_utf8_lossy(bytes))?], take);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::values;
    use super::*;

    #[test]
    fn an_unknown_frequency_gives_no_value() {
        assert!(values(&Current, "0", b"<unknown>\n").is_empty());
        assert_eq!(values(&Current, "0", b"800000\n"), [(String::new(), 0, 800_000)]);
    }
}
