//! Frequency policy: `/sys/devices/system/cpu/cpufreq`.

use super::Error;
use super::reader::{Reader, parsed};
use domain::inventory::{AmdPstate, CpuList, Cpufreq, IntelPstate, Policy};
use domain::trace::FrequencySource;
use domain::units::{Hertz, Ratio};
use parse::kernel;
use parse::kernel::cpuinfo::Processor;
use std::collections::{BTreeMap, BTreeSet};

const CPUS: &str = "/sys/devices/system/cpu";
const CPUFREQ: &str = "/sys/devices/system/cpu/cpufreq";

/// What drivers write for a transition latency that they do not know: `CPUFREQ_ETERNAL`.
const ETERNAL_NS: u64 = u32::MAX as u64;

pub(super) fn take(
    reader: &Reader,
    processors: &[Processor<'_>],
    online: &CpuList,
) -> Result<Option<Cpufreq>, Error> {
    let ids = reader.numbered(CPUFREQ, "policy");
    if ids.is_empty() {
        return Ok(None);
    }
    let policies = ids.into_iter().map(|id| policy(reader, id, online)).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(Cpufreq {
        intel_pstate: intel_pstate(reader, &policies)?,
        amd_pstate: amd_pstate(reader),
        boost: reader.flag(&format!("{CPUFREQ}/boost"))?,
        // arch/x86/kernel/cpu/aperfmperf.c; the kernel leaves it out where it does not know turbo ratios.
        frequency_invariant: processors.first().and_then(|cpu| cpu.has_flag("aperfmperf")),
        tunables: shared_tunables(reader, &policies),
        policies,
    }))
}

/// What shows frequencies here, best first.
pub(super) fn sources(reader: &Reader, cpufreq: Option<&Cpufreq>) -> Vec<FrequencySource> {
    let event = |name| reader.exists(&format!("/sys/bus/event_source/devices/msr/events/{name}"));
    let policies = cpufreq.map(|c| &c.policies[..]).unwrap_or_default();
    let found = [
        (FrequencySource::AperfMperf, event("aperf") && event("mperf")),
        (FrequencySource::TimeInState, policies.iter().any(|p| !p.time_in_state.is_empty())),
        (FrequencySource::ScalingCurFreq, policies.iter().any(|p| p.current.is_some())),
    ];
    found.into_iter().filter(|(_, there)| *there).map(|(source, _)| source).collect()
}

fn policy(reader: &Reader, id: u32, online: &CpuList) -> Result<Policy, Error> {
    let at = |file: &str| format!("{CPUFREQ}/policy{id}/{file}");
    let cpus = match reader.cpus(&at("affected_cpus"))? {
        Some(cpus) => cpus,
        // A policy whose CPUs are all offline has no affected ones.
        None => reader.cpus(&at("related_cpus"))?.unwrap_or_default(),
    };
    let governor = reader.text(&at("scaling_governor"));
    let latency: Option<u64> = reader.number(&at("cpuinfo_transition_latency"))?;
    let boost = match reader.flag(&at("boost"))? {
        Some(boost) => Some(boost),
        None => reader.flag(&at("cpb"))?,
    };
    Ok(Policy {
        id,
        driver: reader.text(&at("scaling_driver")),
        available_governors: reader.words(&at("scaling_available_governors")),
        min: reader.khz(&at("scaling_min_freq"))?,
        max: reader.khz(&at("scaling_max_freq"))?,
        hardware_min: reader.khz(&at("cpuinfo_min_freq"))?,
        hardware_max: reader.khz(&at("cpuinfo_max_freq"))?,
        bios_limit: reader.khz(&at("bios_limit"))?,
        base: reader.khz(&at("base_frequency"))?,
        current: reader.khz(&at("scaling_cur_freq"))?.filter(|f| f.hz() > 0),
        available: available(reader, &at("scaling_available_frequencies"))?,
        boost,
        epp: reader.text(&at("energy_performance_preference")),
        available_epp: reader.words(&at("energy_performance_available_preferences")),
        epb: epb(reader, &cpus, online)?,
        transition_latency: latency.filter(|ns| *ns > 0 && *ns < ETERNAL_NS).map(domain::Nanos::new),
        tunables: governor.as_ref().map(|g| tunables(reader, &at(g))).unwrap_or_default(),
        time_in_state: reader
            .parsed(&at("stats/time_in_state"), parse::proc::cpufreq::times)?
            .unwrap_or_default(),
        transitions: reader.number(&at("stats/total_trans"))?,
        governor,
        cpus,
    })
}

fn available(reader: &Reader, path: &str) -> Result<Vec<Hertz>, Error> {
    let words = reader.words(path);
    let frequencies: Result<BTreeSet<Hertz>, Error> =
        words.iter().map(|word| parsed(path, word, kernel::khz)).collect();
    Ok(frequencies?.into_iter().collect())
}

fn epb(reader: &Reader, cpus: &CpuList, online: &CpuList) -> Result<Vec<u8>, Error> {
    let mut values = BTreeSet::new();
    for cpu in cpus.iter().filter(|cpu| online.contains(*cpu)) {
        values.extend(reader.number::<u8>(&format!("{CPUS}/cpu{cpu}/power/energy_perf_bias"))?);
    }
    Ok(values.into_iter().collect())
}

fn tunables(reader: &Reader, folder: &str) -> BTreeMap<String, String> {
    let names = reader.names(folder).into_iter();
    names.filter_map(|name| Some((name.clone(), reader.text(&format!("{folder}/{name}"))?))).collect()
}

/// Folders of governors beside the policies: they are there where the driver has one set of tunables for all.
fn shared_tunables(reader: &Reader, policies: &[Policy]) -> BTreeMap<String, BTreeMap<String, String>> {
    let governors: BTreeSet<&String> = policies.iter().flat_map(|p| &p.available_governors).collect();
    let with = |g: &String| (g.clone(), tunables(reader, &format!("{CPUFREQ}/{g}")));
    governors.into_iter().map(with).filter(|(_, tunables)| !tunables.is_empty()).collect()
}

fn intel_pstate(reader: &Reader, policies: &[Policy]) -> Result<Option<IntelPstate>, Error> {
    let at = |file: &str| format!("{CPUS}/intel_pstate/{file}");
    let Some(status) = reader.text(&at("status")) else { return Ok(None) };
    let share = |file: &str| -> Result<Option<Ratio>, Error> {
        Ok(reader.number::<u8>(&at(file))?.and_then(|percent| Ratio::of(percent.into(), 100)))
    };
    let ours = |p: &Policy| matches!(p.driver.as_deref(), Some("intel_pstate" | "intel_cpufreq"));
    let mine: Vec<&Policy> = policies.iter().filter(|p| ours(p)).collect();
    Ok(Some(IntelPstate {
        status: Some(status),
        no_turbo: reader.flag(&at("no_turbo"))?,
        hwp_dynamic_boost: reader.flag(&at("hwp_dynamic_boost"))?,
        min_perf: share("min_perf_pct")?,
        max_perf: share("max_perf_pct")?,
        hwp: (!mine.is_empty()).then(|| mine.iter().any(|p| p.epp.is_some())),
    }))
}

fn amd_pstate(reader: &Reader) -> Option<AmdPstate> {
    let status = reader.text(&format!("{CPUS}/amd_pstate/status"))?;
    Some(AmdPstate { status: Some(status), prefcore: reader.text(&format!("{CPUS}/amd_pstate/prefcore")) })
}
