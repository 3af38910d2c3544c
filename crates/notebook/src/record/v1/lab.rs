//! Schema 1: what is known of a trial from outside its guest. Trials of other machines have none of it.

use domain::lab::{DiskService, IdleRecord, LabAccount, Pacing, RegisterRequest, StateRecord, VcpuRecord};
use domain::time::Nanos;
use domain::units::{Hertz, Microjoules};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LabRecord {
    dilation: f64,
    #[serde(default = "as_fast", skip_serializing_if = "is_as_fast")]
    slowed: f64,
    pacing: Option<PacingRecord>,
    disks: Vec<ServiceRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PacingRecord {
    instructions_per_second: f64,
    began_ns: Option<u64>,
    span_ns: u64,
    vcpus: Vec<CpuRecord>,
    energy_uj: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CpuRecord {
    cpu: u32,
    states: Vec<TimeRecord>,
    /// Pairs: nanoseconds from the beginning of pacing, and hertz.
    transitions: Vec<(u64, u64)>,
    transitions_total: u64,
    late_ns: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    idle: Vec<IdleTimeRecord>,
    /// Nanoseconds from the beginning of pacing, register, value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    requests: Vec<(u64, u32, u64)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IdleTimeRecord {
    name: String,
    entries: u64,
    time_ns: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TimeRecord {
    hz: u64,
    /// Where it is another. Earlier versions kept none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    clock_hz: Option<u64>,
    time_ns: u64,
    busy_ns: u64,
    instructions: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceRecord {
    disk: String,
    requests: u64,
    modelled_ns: u64,
    late_ns: u64,
    latest_ns: u64,
}

/// A guest whose clock is the host's, as all were that say nothing of it.
const fn as_fast() -> f64 {
    1.0
}

fn is_as_fast(slowed: &f64) -> bool {
    *slowed == as_fast()
}

impl From<&LabAccount> for LabRecord {
    fn from(account: &LabAccount) -> Self {
        Self {
            dilation: account.dilation,
            slowed: account.slowed,
            pacing: account.pacing.as_ref().map(PacingRecord::from),
            disks: account.disks.iter().map(ServiceRecord::from).collect(),
        }
    }
}

impl From<LabRecord> for LabAccount {
    fn from(record: LabRecord) -> Self {
        Self {
            dilation: record.dilation,
            slowed: record.slowed,
            pacing: record.pacing.map(Pacing::from),
            disks: record.disks.into_iter().map(DiskService::from).collect(),
        }
    }
}

impl From<&Pacing> for PacingRecord {
    fn from(pacing: &Pacing) -> Self {
        Self {
            instructions_per_second: pacing.pace,
            began_ns: pacing.began.map(Nanos::get),
            span_ns: pacing.span.get(),
            vcpus: pacing.vcpus.iter().map(CpuRecord::from).collect(),
            energy_uj: pacing.energy.map(Microjoules::get),
        }
    }
}

impl From<PacingRecord> for Pacing {
    fn from(record: PacingRecord) -> Self {
        Self {
            pace: record.instructions_per_second,
            began: record.began_ns.map(Nanos::new),
            span: Nanos::new(record.span_ns),
            vcpus: record.vcpus.into_iter().map(VcpuRecord::from).collect(),
            energy: record.energy_uj.map(Microjoules::new),
        }
    }
}

impl From<&VcpuRecord> for CpuRecord {
    fn from(cpu: &VcpuRecord) -> Self {
        Self {
            cpu: cpu.cpu,
            states: cpu.states.iter().map(TimeRecord::from).collect(),
            transitions: cpu.transitions.iter().map(|(at, to)| (at.get(), to.hz())).collect(),
            transitions_total: cpu.transitions_total,
            late_ns: cpu.late.get(),
            idle: cpu.idle.iter().map(IdleTimeRecord::from).collect(),
            requests: cpu
                .requests
                .iter()
                .map(|asked| (asked.at.get(), asked.register, asked.value))
                .collect(),
        }
    }
}

impl From<CpuRecord> for VcpuRecord {
    fn from(record: CpuRecord) -> Self {
        let pair = |(at, to)| (Nanos::new(at), Hertz::from_hz(to));
        let asked = |(at, register, value)| RegisterRequest { at: Nanos::new(at), register, value };
        Self {
            cpu: record.cpu,
            states: record.states.into_iter().map(StateRecord::from).collect(),
            transitions: record.transitions.into_iter().map(pair).collect(),
            transitions_total: record.transitions_total,
            late: Nanos::new(record.late_ns),
            idle: record.idle.into_iter().map(IdleRecord::from).collect(),
            requests: record.requests.into_iter().map(asked).collect(),
        }
    }
}

impl From<&IdleRecord> for IdleTimeRecord {
    fn from(state: &IdleRecord) -> Self {
        Self { name: state.name.clone(), entries: state.entries, time_ns: state.time.get() }
    }
}

impl From<IdleTimeRecord> for IdleRecord {
    fn from(record: IdleTimeRecord) -> Self {
        Self { name: record.name, entries: record.entries, time: Nanos::new(record.time_ns) }
    }
}

impl From<&StateRecord> for TimeRecord {
    fn from(state: &StateRecord) -> Self {
        Self {
            hz: state.frequency.hz(),
            clock_hz: state.clock.filter(|clock| *clock != state.frequency).map(Hertz::hz),
            time_ns: state.time.get(),
            busy_ns: state.busy.get(),
            instructions: state.instructions,
        }
    }
}

impl From<TimeRecord> for StateRecord {
    fn from(record: TimeRecord) -> Self {
        let frequency = Hertz::from_hz(record.hz);
        Self {
            frequency,
            clock: record.clock_hz.map(Hertz::from_hz).or((!is_named_turbo(frequency)).then_some(frequency)),
            time: Nanos::new(record.time_ns),
            busy: Nanos::new(record.busy_ns),
            instructions: record.instructions,
        }
    }
}

/// Whether it may be the state by which ACPI names turbo, 1 MHz above a base of whole ten: what a CPU
/// executes at in it, no record of an earlier version says.
fn is_named_turbo(frequency: Hertz) -> bool {
    frequency.khz() % 10_000 == 1_000
}

impl From<&DiskService> for ServiceRecord {
    fn from(disk: &DiskService) -> Self {
        Self {
            disk: disk.disk.clone(),
            requests: disk.requests,
            modelled_ns: disk.modelled.get(),
            late_ns: disk.late.get(),
            latest_ns: disk.latest.get(),
        }
    }
}

impl From<ServiceRecord> for DiskService {
    fn from(record: ServiceRecord) -> Self {
        Self {
            disk: record.disk,
            requests: record.requests,
            modelled: Nanos::new(record.modelled_ns),
            late: Nanos::new(record.late_ns),
            latest: Nanos::new(record.latest_ns),
        }
    }
}
