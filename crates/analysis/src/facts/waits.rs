//! Work that waits for each of its requests, and what the frequency policy is told of it: the common part of
//! rules about single requests.

use super::case::{Case, CaseCell, evidence};
use super::cpu_share;
use super::frequency_policy::is_frequency_policy;
use domain::finding::Evidence;
use domain::inventory::{Cpufreq, Policy};
use domain::trace::Role;
use domain::units::{Unit, significant};

/// A cell that keeps one request in flight, always, and waits for it.
pub(crate) struct Single<'c, 'a> {
    pub cell: &'c CaseCell<'a>,
    /// Seconds that a request takes, median or mean.
    pub latency: f64,
    /// CPU time of all that serves it, in cores, median: no CPU is busier than this on average.
    pub cores: f64,
}

impl Single<'_, '_> {
    pub(crate) fn figures(&self) -> Vec<Evidence> {
        vec![
            evidence("latency of a request at depth 1", Unit::Seconds.show(self.latency), self.cell.source()),
            evidence(
                "CPU time of the workload and of the kernel for it, in cores, median",
                significant(self.cores),
                self.cell.source(),
            ),
        ]
    }
}

/// Whose CPU time a request takes.
const SERVING: [Role; 9] = [
    Role::Workload,
    Role::Array,
    Role::Crypt,
    Role::Journal,
    Role::Loop,
    Role::Block,
    Role::Kworker,
    Role::Interrupt,
    Role::Kernel,
];

/// The cells of a run that are so, with what was measured of them; but those that disks decide.
pub(crate) fn singles<'c, 'a>(case: &Case<'_>, cells: &'c [CaseCell<'a>]) -> Vec<Single<'c, 'a>> {
    let steady = |cell: &&CaseCell<'_>| {
        // Behind the page cache nobody waits for a single request.
        let is_behind =
            cell.writes_behind() || cell.profile().reads_in_order() && !cell.profile().is_direct();
        cell.profile().depth == Some(1)
            && !cell.pauses()
            && !is_behind
            && !cpu_share::disks_decide(case, cell)
    };
    let single = |cell: &'c CaseCell<'a>| {
        let latency = cell.metric("latency_p50").or_else(|| cell.metric("latency_mean"))?;
        let cores = cell.cores(&SERVING)?;
        (latency > 0.0).then_some(Single { cell, latency, cores })
    };
    cells.iter().filter(steady).filter_map(single).collect()
}

/// Engines that sleep in the call itself, which the kernel counts as waiting for I/O.
pub(crate) fn waits_in_the_call(cell: &CaseCell<'_>) -> bool {
    let engine = cell.option(&["ioengine"]).unwrap_or("psync");
    cell.is_fio() && matches!(engine, "sync" | "psync" | "vsync" | "pvsync" | "pvsync2")
}

/// The policies of a machine of which the run varied nothing.
pub(crate) fn unvaried<'a>(case: &Case<'a>) -> Option<&'a Cpufreq> {
    let settings = case.data.study.factors.iter().flat_map(|f| &f.levels).flat_map(|level| &level.settings);
    let varied = settings.into_iter().any(|setting| is_frequency_policy(&setting.setting.name));
    case.inventory?.cpufreq.as_ref().filter(|_| !varied)
}

/// The governor that all trials of a cell ran under, or else that of the machine's first policy.
pub(crate) fn governor<'c>(cell: &'c CaseCell<'_>, cpufreq: &'c Cpufreq) -> Option<&'c str> {
    let read = cell.trials.iter().find_map(|trial| trial.environment.get("governor")).map(String::as_str);
    read.or_else(|| cpufreq.policies.first()?.governor.as_deref())
}

/// A tunable of a governor as the machine had it, with its file.
pub(crate) fn tunable(cpufreq: &Cpufreq, governor: &str, name: &str) -> Option<(String, String)> {
    let folder = "/sys/devices/system/cpu/cpufreq";
    let shared = cpufreq.tunables.get(governor).and_then(|all| all.get(name));
    if let Some(value) = shared {
        return Some((value.clone(), format!("{folder}/{governor}/{name}")));
    }
    let of_policy = |policy: &Policy| {
        let value = policy.tunables.get(name).filter(|_| policy.governor.as_deref() == Some(governor))?;
        Some((value.clone(), format!("{folder}/policy{}/{governor}/{name}", policy.id)))
    };
    cpufreq.policies.iter().find_map(of_policy)
}
