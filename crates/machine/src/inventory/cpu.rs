//! Processors: `/sys/devices/system/cpu`, `/proc/cpuinfo`.

use super::Error;
use super::reader::Reader;
use domain::inventory::{CoreKind, CoreType, CpuList, CpuModel, Cpufreq, Cpus, Node};
use domain::units::Hertz;
use parse::kernel::cpuinfo::Processor;
use std::collections::{BTreeMap, BTreeSet};

const CPUS: &str = "/sys/devices/system/cpu";

/// Hybrid processors have a counter unit for each kind of core, and it knows its CPUs
/// (`arch/x86/events/intel/core.c`).
const CORE_TYPES: [(&str, CoreKind); 3] = [
    ("cpu_core", CoreKind::Performance),
    ("cpu_atom", CoreKind::Efficient),
    ("cpu_lowpower", CoreKind::LowPower),
];

/// The CPUs that run.
pub(super) fn online(reader: &Reader, processors: &[Processor]) -> Result<CpuList, Error> {
    match reader.cpus(&format!("{CPUS}/online"))? {
        Some(online) => Ok(online),
        None if processors.is_empty() => Err(Error::NoCpus),
        None => Ok(processors.iter().map(|p| p.number).collect()),
    }
}

pub(super) fn take(
    reader: &Reader,
    online: CpuList,
    processors: &[Processor],
    cpufreq: Option<&Cpufreq>,
) -> Result<Cpus, Error> {
    let places = places(reader, &online, processors)?;
    let (base, max) = frequencies(reader, &online, cpufreq)?;
    Ok(Cpus {
        present: reader.cpus(&format!("{CPUS}/present"))?,
        cores: places.cores(&online),
        packages: places.packages(),
        threads_per_core: places.threads_per_core(),
        smt_control: reader.text(&format!("{CPUS}/smt/control")),
        model: processors.first().map(model).unwrap_or_default(),
        core_types: core_types(reader, &places, cpufreq)?,
        nodes: nodes(reader)?,
        base,
        max,
        online,
    })
}

fn model(processor: &Processor) -> CpuModel {
    CpuModel {
        vendor: processor.vendor.map(str::to_owned),
        name: processor.name.map(str::to_owned),
        family: processor.family,
        model: processor.model,
        stepping: processor.stepping,
        microcode: processor.microcode.map(str::to_owned),
    }
}

/// Where each CPU is. A core is named by text that is the same for all its threads and for no other core.
#[derive(Default)]
struct Places {
    core: BTreeMap<u32, String>,
    package: BTreeMap<u32, i64>,
}

impl Places {
    fn cores(&self, cpus: &CpuList) -> Option<u32> {
        let cores: BTreeSet<&String> = cpus.iter().filter_map(|cpu| self.core.get(&cpu)).collect();
        (!cores.is_empty()).then_some(cores.len() as u32)
    }

    fn packages(&self) -> Option<u32> {
        let packages: BTreeSet<&i64> = self.package.values().collect();
        (!packages.is_empty()).then_some(packages.len() as u32)
    }

    fn threads_per_core(&self) -> Option<u32> {
        let mut threads: BTreeMap<&String, u32> = BTreeMap::new();
        self.core.values().for_each(|core| *threads.entry(core).or_default() += 1);
        threads.into_values().max()
    }
}

/// From sysfs; what it does not have, from cpuinfo.
fn places(reader: &Reader, online: &CpuList, processors: &[Processor]) -> Result<Places, Error> {
    let mut places = Places::default();
    for processor in processors.iter().filter(|p| online.contains(p.number)) {
        if let (Some(package), Some(core)) = (processor.package, processor.core) {
            places.package.insert(processor.number, package.into());
            places.core.insert(processor.number, format!("{package}:{core}"));
        }
    }
    for cpu in online.iter() {
        let topology = format!("{CPUS}/cpu{cpu}/topology");
        if let Some(siblings) = reader.text(&format!("{topology}/thread_siblings_list")) {
            places.core.insert(cpu, siblings);
        }
        // The kernel says -1 where the firmware does not tell.
        let package: Option<i64> = reader.number(&format!("{topology}/physical_package_id"))?;
        if let Some(package) = package.filter(|p| *p >= 0) {
            places.package.insert(cpu, package);
        }
    }
    Ok(places)
}

fn core_types(reader: &Reader, places: &Places, cpufreq: Option<&Cpufreq>) -> Result<Vec<CoreType>, Error> {
    let mut types = Vec::new();
    for (unit, kind) in CORE_TYPES {
        let Some(cpus) = reader.cpus(&format!("/sys/devices/{unit}/cpus"))? else { continue };
        let (base, max) = frequencies(reader, &cpus, cpufreq)?;
        types.push(CoreType { kind, cores: places.cores(&cpus), cpus, base, max });
    }
    Ok(types)
}

/// The highest base and the highest maximum of some CPUs. The base comes from the policy, or else from what
/// the firmware calls nominal (ACPI CPPC).
fn frequencies(
    reader: &Reader,
    cpus: &CpuList,
    cpufreq: Option<&Cpufreq>,
) -> Result<(Option<Hertz>, Option<Hertz>), Error> {
    let policies = cpufreq.map(|c| &c.policies[..]).unwrap_or_default();
    let mine = || policies.iter().filter(|p| p.cpus.iter().any(|cpu| cpus.contains(cpu)));
    let max = mine().filter_map(|p| p.hardware_max).max();
    let base = match mine().filter_map(|p| p.base).max() {
        Some(base) => Some(base),
        None => nominal(reader, cpus)?,
    };
    Ok((base, max))
}

fn nominal(reader: &Reader, cpus: &CpuList) -> Result<Option<Hertz>, Error> {
    let mut highest = None;
    for cpu in cpus.iter() {
        let mhz: Option<u32> = reader.number(&format!("{CPUS}/cpu{cpu}/acpi_cppc/nominal_freq"))?;
        highest = highest.max(mhz.filter(|mhz| *mhz > 0));
    }
    Ok(highest.map(|mhz| Hertz::from_mhz(mhz.into())))
}

fn nodes(reader: &Reader) -> Result<Vec<Node>, Error> {
    const NODES: &str = "/sys/devices/system/node";
    let mut nodes = Vec::new();
    for id in reader.numbered(NODES, "node") {
        let cpus = reader.cpus(&format!("{NODES}/node{id}/cpulist"))?.unwrap_or_default();
        nodes.push(Node { id, cpus });
    }
    Ok(nodes)
}
