//! Schema 1: what was measured while a workload ran.

use super::Meaning;
use super::calls::CallsRecord;
use domain::access::{AccessPattern, Accesses};
use domain::calls::Calls;
use domain::energy::{EnergyAccount, EnergySource};
use domain::inventory::CpuList;
use domain::outcome::{Better, Metric, Outcome};
use domain::passage::{Bios, Given, Passage, Passed};
use domain::phase::Phase;
use domain::profile::{Interrupts, Profile, Subsystem};
use domain::request::{Op, Served};
use domain::spent::{Spent, Wait};
use domain::time::Nanos;
use domain::took::Took;
use domain::trace::{FrequencySource, Role};
use domain::trial::{CpuChange, DiskTotals, Disturbance, Measurement, RecorderReport, ThreadTime};
use domain::units::Unit;
use domain::windows::{Boundary, GovernorWindows, Windows};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DisturbanceRecord {
    kind: String,
    detail: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeasurementRecord {
    tool: String,
    metrics: BTreeMap<String, MetricRecord>,
    warnings: Vec<String>,
    commands: Vec<Vec<String>>,
    duration_ns: u64,
    roles_ns: BTreeMap<String, u64>,
    threads: Vec<ThreadRecord>,
    disks: Vec<DiskRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    profile: Option<ProfileRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    windows: Option<WindowsRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    phases: Vec<PhaseRecord>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    spent: BTreeMap<String, SpentRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calls: Option<CallsRecord>,
    recorder: Option<RecorderRecord>,
    disturbances: Vec<DisturbanceRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MetricRecord {
    value: f64,
    unit: UnitRecord,
    better: BetterRecord,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum UnitRecord {
    BytesPerSecond,
    PerSecond,
    Seconds,
    Joules,
    Watts,
    Hertz,
    Share,
    Count,
    Other(String),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BetterRecord {
    Higher,
    Lower,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ThreadRecord {
    name: String,
    tid: u32,
    role: String,
    cpu_ns: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DiskRecord {
    device: String,
    read_ios: u64,
    read_sectors: u64,
    write_ios: u64,
    write_sectors: u64,
    busy_ns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accesses: Option<PatternRecord>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    served: BTreeMap<String, ServedRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    passage: Option<PassageRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PassageRecord {
    /// By operation.
    given: BTreeMap<String, GivenRecord>,
    passed: Vec<PassedRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenRecord {
    bios: BiosRecord,
    followed: u64,
    made: BiosRecord,
    before_ns: u64,
    below_ns: u64,
    between_ns: u64,
    after_ns: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PassedRecord {
    to: String,
    operation: String,
    bios: BiosRecord,
    requests: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BiosRecord {
    count: u64,
    sectors: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServedRecord {
    count: u64,
    sectors: u64,
    queue: TookRecord,
    service: TookRecord,
    whole: TookRecord,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TookRecord {
    count: u64,
    sum_ns: u64,
    max_ns: u64,
    /// Bucket and count ([`domain::took::bucket`]); earlier versions kept sums alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    buckets: Vec<(u16, u64)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpentRecord {
    cpu_ns: u64,
    ready_ns: u64,
    wait_ns: BTreeMap<String, u64>,
    switches: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PatternRecord {
    reads: AccessesRecord,
    writes: AccessesRecord,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessesRecord {
    bios: u64,
    sectors: u64,
    in_order: u64,
    ahead: u64,
    synchronous: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecorderRecord {
    samples: u64,
    missed: u64,
    cpu_ns: u64,
    span_ns: u64,
    frequency: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    energy: Option<EnergyRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cpu_changes: Vec<CpuChangeRecord>,
    absent: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CpuChangeRecord {
    at_ns: u64,
    cpu: u32,
    online: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnergyRecord {
    source: String,
    of: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    readings: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProfileRecord {
    period_ns: u64,
    lost: u64,
    samples: Vec<SamplesRecord>,
    inclusive: BTreeMap<String, u64>,
    functions: BTreeMap<String, u64>,
    /// Absent where they were not recorded, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interrupts: Option<InterruptsRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct InterruptsRecord {
    held_off: BTreeMap<String, u64>,
    unsampled: u64,
    handlers_ns: BTreeMap<String, u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SamplesRecord {
    role: String,
    subsystem: String,
    samples: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WindowsRecord {
    /// Absent of samples, and in records of earlier versions, which had no requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boundary: Option<String>,
    threshold: Option<f64>,
    counts_waiting: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate_limit_ns: Option<u64>,
    cpus: BTreeMap<u16, CpuWindowsRecord>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    shared: BTreeMap<u16, CpuList>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CpuWindowsRecord {
    time_ns: u64,
    busy_ns: u64,
    /// Frequency in kHz, load in percent, how many.
    counts: Vec<(Option<u32>, u8, u64)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PhaseRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    begin_ns: u64,
    end_ns: u64,
    metrics: BTreeMap<String, MetricRecord>,
}

impl From<&Spent> for SpentRecord {
    fn from(spent: &Spent) -> Self {
        let waits = Wait::ALL.iter().map(|wait| (wait.name().to_owned(), spent.waited(*wait).get()));
        Self {
            cpu_ns: spent.cpu_ns,
            ready_ns: spent.ready_ns,
            wait_ns: waits.filter(|(_, ns)| *ns > 0).collect(),
            switches: spent.switches,
        }
    }
}

impl TryFrom<SpentRecord> for Spent {
    type Error = String;
    fn try_from(record: SpentRecord) -> Meaning<Self> {
        let SpentRecord { cpu_ns, ready_ns, wait_ns: waits, switches } = record;
        let mut spent = Self { cpu_ns, ready_ns, switches, ..Self::default() };
        for (name, ns) in waits {
            let wait = Wait::from_name(&name).ok_or_else(|| format!("`{name}` is no kind of wait"))?;
            spent.wait_ns[wait as usize] = ns;
        }
        Ok(spent)
    }
}

/// What threads spent their time on, by role.
pub(super) fn spent_records(all: &BTreeMap<Role, Spent>) -> BTreeMap<String, SpentRecord> {
    all.iter().map(|(role, spent)| (role.name().to_owned(), spent.into())).collect()
}

/// The meaning of [`spent_records`].
pub(super) fn spent_of(records: BTreeMap<String, SpentRecord>) -> Meaning<BTreeMap<Role, Spent>> {
    records.into_iter().map(|(name, record)| Ok((role(&name)?, record.try_into()?))).collect()
}

impl From<&Took> for TookRecord {
    fn from(took: &Took) -> Self {
        let Took { count, sum, max, .. } = took;
        Self { count: *count, sum_ns: sum.get(), max_ns: max.get(), buckets: took.buckets().collect() }
    }
}

impl TryFrom<TookRecord> for Took {
    type Error = String;
    fn try_from(record: TookRecord) -> Meaning<Self> {
        let TookRecord { count, sum_ns, max_ns, buckets } = record;
        let took = Self::sums(count, Nanos::new(sum_ns), Nanos::new(max_ns)).with_buckets(buckets);
        took.ok_or_else(|| "a distribution of times has a bucket that there is none of".to_owned())
    }
}

impl From<&Served> for ServedRecord {
    fn from(served: &Served) -> Self {
        let Served { count, sectors, queue, service, whole } = served;
        let [queue, service, whole] = [queue, service, whole].map(TookRecord::from);
        Self { count: *count, sectors: *sectors, queue, service, whole }
    }
}

impl TryFrom<ServedRecord> for Served {
    type Error = String;
    fn try_from(record: ServedRecord) -> Meaning<Self> {
        let ServedRecord { count, sectors, queue, service, whole } = record;
        let (queue, service, whole) = (queue.try_into()?, service.try_into()?, whole.try_into()?);
        Ok(Self { count, sectors, queue, service, whole })
    }
}

pub(super) fn op(name: &str) -> Meaning<Op> {
    Op::from_name(name).ok_or_else(|| format!("`{name}` is no operation"))
}

impl From<Bios> for BiosRecord {
    fn from(Bios { count, sectors }: Bios) -> Self {
        Self { count, sectors }
    }
}

impl From<BiosRecord> for Bios {
    fn from(BiosRecord { count, sectors }: BiosRecord) -> Self {
        Self { count, sectors }
    }
}

impl From<&Given> for GivenRecord {
    fn from(given: &Given) -> Self {
        let [before_ns, below_ns, between_ns, after_ns] = given.times().map(Nanos::get);
        let (bios, made) = (given.bios.into(), given.made.into());
        Self { bios, followed: given.followed, made, before_ns, below_ns, between_ns, after_ns }
    }
}

impl From<GivenRecord> for Given {
    fn from(record: GivenRecord) -> Self {
        Self {
            bios: record.bios.into(),
            followed: record.followed,
            made: record.made.into(),
            before: Nanos::new(record.before_ns),
            below: Nanos::new(record.below_ns),
            between: Nanos::new(record.between_ns),
            after: Nanos::new(record.after_ns),
        }
    }
}

impl From<&Passage> for PassageRecord {
    fn from(passage: &Passage) -> Self {
        let given = passage.given.iter().map(|(op, given)| (op.name().to_owned(), given.into()));
        let passed = passage.passed.iter().map(|((to, op), passed)| PassedRecord {
            to: to.clone(),
            operation: op.name().to_owned(),
            bios: passed.bios.into(),
            requests: passed.requests,
        });
        Self { given: given.collect(), passed: passed.collect() }
    }
}

impl TryFrom<PassageRecord> for Passage {
    type Error = String;
    fn try_from(record: PassageRecord) -> Meaning<Self> {
        let given = record.given.into_iter().map(|(name, given)| Ok((op(&name)?, given.into())));
        let passed = |passed: PassedRecord| {
            let PassedRecord { to, operation, bios, requests } = passed;
            Ok(((to, op(&operation)?), Passed { bios: bios.into(), requests }))
        };
        let passed = record.passed.into_iter().map(passed);
        Ok(Self { given: given.collect::<Meaning<_>>()?, passed: passed.collect::<Meaning<_>>()? })
    }
}

impl From<&Phase> for PhaseRecord {
    fn from(phase: &Phase) -> Self {
        Self {
            name: phase.name.clone(),
            begin_ns: phase.begin.get(),
            end_ns: phase.end.get(),
            metrics: phase.metrics.iter().map(|(name, metric)| (name.clone(), metric.into())).collect(),
        }
    }
}

impl From<PhaseRecord> for Phase {
    fn from(record: PhaseRecord) -> Self {
        Self {
            name: record.name,
            begin: Nanos::new(record.begin_ns),
            end: Nanos::new(record.end_ns),
            metrics: record.metrics.into_iter().map(|(name, metric)| (name, metric.into())).collect(),
        }
    }
}

impl From<&GovernorWindows> for WindowsRecord {
    fn from(all: &GovernorWindows) -> Self {
        let of_cpu = |windows: &Windows| CpuWindowsRecord {
            time_ns: windows.time.get(),
            busy_ns: windows.busy.get(),
            counts: windows.counts.iter().map(|((khz, load), count)| (*khz, *load, *count)).collect(),
        };
        let cpus = all.cpus.iter().map(|(cpu, windows)| (*cpu, of_cpu(windows)));
        let is_usual = all.boundary == Boundary::default();
        Self {
            boundary: (!is_usual).then(|| all.boundary.name().to_owned()),
            threshold: all.threshold,
            counts_waiting: all.counts_waiting,
            rate_limit_ns: all.rate_limit.map(Nanos::get),
            cpus: cpus.collect(),
            shared: all.shared.clone(),
        }
    }
}

impl TryFrom<WindowsRecord> for GovernorWindows {
    type Error = String;
    fn try_from(record: WindowsRecord) -> Meaning<Self> {
        let loads = |(khz, load, count)| match load {
            0..=Windows::FULL => Ok(((khz, load), count)),
            more => Err(format!("a window has a load of {more}%")),
        };
        let of_cpu = |cpu: CpuWindowsRecord| -> Meaning<Windows> {
            let counts = cpu.counts.into_iter().map(loads).collect::<Meaning<_>>()?;
            Ok(Windows { time: Nanos::new(cpu.time_ns), busy: Nanos::new(cpu.busy_ns), counts })
        };
        let cpus = record.cpus.into_iter().map(|(number, cpu)| Ok((number, of_cpu(cpu)?)));
        let named = |name: String| {
            let boundary = Boundary::ALL.into_iter().find(|boundary| boundary.name() == name);
            boundary.ok_or_else(|| format!("windows lie between two of `{name}`"))
        };
        Ok(Self {
            boundary: record.boundary.map(named).transpose()?.unwrap_or_default(),
            threshold: record.threshold,
            counts_waiting: record.counts_waiting,
            rate_limit: record.rate_limit_ns.map(Nanos::new),
            cpus: cpus.collect::<Meaning<_>>()?,
            shared: record.shared,
        })
    }
}

impl From<&Profile> for ProfileRecord {
    fn from(profile: &Profile) -> Self {
        let samples = profile.samples.iter().map(|((role, subsystem), samples)| SamplesRecord {
            role: role.name().to_owned(),
            subsystem: subsystem.name().to_owned(),
            samples: *samples,
        });
        let inclusive = profile.inclusive.iter();
        Self {
            period_ns: profile.period.get(),
            lost: profile.lost,
            samples: samples.collect(),
            inclusive: inclusive.map(|(subsystem, count)| (subsystem.name().to_owned(), *count)).collect(),
            functions: profile.functions.clone(),
            interrupts: profile.interrupts.as_ref().map(InterruptsRecord::from),
        }
    }
}

impl From<&Interrupts> for InterruptsRecord {
    fn from(interrupts: &Interrupts) -> Self {
        let held_off = interrupts.held_off.iter();
        let handlers = interrupts.handlers.iter();
        Self {
            held_off: held_off.map(|(subsystem, count)| (subsystem.name().to_owned(), *count)).collect(),
            unsampled: interrupts.unsampled,
            handlers_ns: handlers.map(|(name, time)| (name.clone(), time.get())).collect(),
        }
    }
}

fn subsystem(name: &str) -> Meaning<Subsystem> {
    Subsystem::from_name(name).ok_or_else(|| format!("there is no part of the kernel `{name}`"))
}

impl TryFrom<InterruptsRecord> for Interrupts {
    type Error = String;
    fn try_from(record: InterruptsRecord) -> Meaning<Self> {
        let held_off = record.held_off.iter().map(|(name, count)| Ok((subsystem(name)?, *count)));
        let handlers = record.handlers_ns.into_iter().map(|(name, ns)| (name, Nanos::new(ns)));
        Ok(Self {
            held_off: held_off.collect::<Meaning<_>>()?,
            unsampled: record.unsampled,
            handlers: handlers.collect(),
        })
    }
}

impl TryFrom<ProfileRecord> for Profile {
    type Error = String;
    fn try_from(record: ProfileRecord) -> Meaning<Self> {
        let samples = record.samples.iter();
        let samples = samples.map(|one| Ok(((role(&one.role)?, subsystem(&one.subsystem)?), one.samples)));
        let inclusive = record.inclusive.iter().map(|(name, count)| Ok((subsystem(name)?, *count)));
        Ok(Self {
            period: Nanos::new(record.period_ns),
            lost: record.lost,
            samples: samples.collect::<Meaning<_>>()?,
            inclusive: inclusive.collect::<Meaning<_>>()?,
            functions: record.functions,
            interrupts: record.interrupts.map(Interrupts::try_from).transpose()?,
        })
    }
}

impl From<&Measurement> for MeasurementRecord {
    fn from(m: &Measurement) -> Self {
        Self {
            tool: m.outcome.tool.clone(),
            metrics: m.outcome.metrics.iter().map(|(name, metric)| (name.clone(), metric.into())).collect(),
            warnings: m.outcome.warnings.clone(),
            commands: m.commands.clone(),
            duration_ns: m.duration.get(),
            roles_ns: names_of(&m.roles),
            threads: m.threads.iter().map(ThreadRecord::from).collect(),
            disks: m.disks.iter().map(DiskRecord::from).collect(),
            profile: m.profile.as_ref().map(ProfileRecord::from),
            windows: m.windows.as_ref().map(WindowsRecord::from),
            phases: m.phases.iter().map(PhaseRecord::from).collect(),
            spent: spent_records(&m.spent),
            calls: m.calls.as_ref().map(CallsRecord::from),
            recorder: m.recorder.as_ref().map(RecorderRecord::from),
            disturbances: m.disturbances.iter().map(DisturbanceRecord::from).collect(),
        }
    }
}

impl TryFrom<MeasurementRecord> for Measurement {
    type Error = String;
    fn try_from(record: MeasurementRecord) -> Meaning<Self> {
        let metrics = record.metrics.into_iter().map(|(name, metric)| (name, metric.into())).collect();
        Ok(Self {
            outcome: Outcome { metrics, tool: record.tool, warnings: record.warnings },
            commands: record.commands,
            duration: Nanos::new(record.duration_ns),
            roles: roles_of(record.roles_ns)?,
            threads: record.threads.into_iter().map(ThreadTime::try_from).collect::<Meaning<_>>()?,
            disks: record.disks.into_iter().map(DiskTotals::try_from).collect::<Meaning<_>>()?,
            profile: record.profile.map(Profile::try_from).transpose()?,
            windows: record.windows.map(GovernorWindows::try_from).transpose()?,
            phases: record.phases.into_iter().map(Phase::from).collect(),
            spent: spent_of(record.spent)?,
            calls: record.calls.map(Calls::try_from).transpose()?,
            recorder: record.recorder.map(RecorderReport::try_from).transpose()?,
            disturbances: record.disturbances.into_iter().map(Disturbance::from).collect(),
        })
    }
}

impl From<&Disturbance> for DisturbanceRecord {
    fn from(d: &Disturbance) -> Self {
        Self { kind: d.kind.clone(), detail: d.detail.clone() }
    }
}

impl From<DisturbanceRecord> for Disturbance {
    fn from(record: DisturbanceRecord) -> Self {
        Self { kind: record.kind, detail: record.detail }
    }
}

impl From<&Metric> for MetricRecord {
    fn from(metric: &Metric) -> Self {
        let unit = match &metric.unit {
            Unit::BytesPerSecond => UnitRecord::BytesPerSecond,
            Unit::PerSecond => UnitRecord::PerSecond,
            Unit::Seconds => UnitRecord::Seconds,
            Unit::Joules => UnitRecord::Joules,
            Unit::Watts => UnitRecord::Watts,
            Unit::Hertz => UnitRecord::Hertz,
            Unit::Share => UnitRecord::Share,
            Unit::Count => UnitRecord::Count,
            Unit::Other(name) => UnitRecord::Other(name.clone()),
        };
        let better = match metric.better {
            Better::Higher => BetterRecord::Higher,
            Better::Lower => BetterRecord::Lower,
        };
        Self { value: metric.value, unit, better }
    }
}

impl From<MetricRecord> for Metric {
    fn from(record: MetricRecord) -> Self {
        let unit = match record.unit {
            UnitRecord::BytesPerSecond => Unit::BytesPerSecond,
            UnitRecord::PerSecond => Unit::PerSecond,
            UnitRecord::Seconds => Unit::Seconds,
            UnitRecord::Joules => Unit::Joules,
            UnitRecord::Watts => Unit::Watts,
            UnitRecord::Hertz => Unit::Hertz,
            UnitRecord::Share => Unit::Share,
            UnitRecord::Count => Unit::Count,
            UnitRecord::Other(name) => Unit::Other(name),
        };
        let better = match record.better {
            BetterRecord::Higher => Better::Higher,
            BetterRecord::Lower => Better::Lower,
        };
        Self { value: record.value, unit, better }
    }
}

impl From<&ThreadTime> for ThreadRecord {
    fn from(t: &ThreadTime) -> Self {
        Self { name: t.name.clone(), tid: t.tid, role: t.role.name().to_owned(), cpu_ns: t.cpu.get() }
    }
}

impl TryFrom<ThreadRecord> for ThreadTime {
    type Error = String;
    fn try_from(record: ThreadRecord) -> Meaning<Self> {
        Ok(Self {
            name: record.name,
            tid: record.tid,
            role: role(&record.role)?,
            cpu: Nanos::new(record.cpu_ns),
        })
    }
}

impl From<&DiskTotals> for DiskRecord {
    fn from(d: &DiskTotals) -> Self {
        Self {
            device: d.device.clone(),
            read_ios: d.read_ios,
            read_sectors: d.read_sectors,
            write_ios: d.write_ios,
            write_sectors: d.write_sectors,
            busy_ns: d.busy.get(),
            accesses: d.accesses.as_ref().map(PatternRecord::from),
            served: d.served.iter().map(|(op, served)| (op.name().to_owned(), served.into())).collect(),
            passage: d.passage.as_ref().map(PassageRecord::from),
        }
    }
}

impl From<&AccessPattern> for PatternRecord {
    fn from(pattern: &AccessPattern) -> Self {
        let of = |some: &Accesses| AccessesRecord {
            bios: some.bios,
            sectors: some.sectors,
            in_order: some.in_order,
            ahead: some.ahead,
            synchronous: some.synchronous,
        };
        Self { reads: of(&pattern.reads), writes: of(&pattern.writes) }
    }
}

impl From<PatternRecord> for AccessPattern {
    fn from(record: PatternRecord) -> Self {
        let of = |some: AccessesRecord| Accesses {
            bios: some.bios,
            sectors: some.sectors,
            in_order: some.in_order,
            ahead: some.ahead,
            synchronous: some.synchronous,
        };
        Self { reads: of(record.reads), writes: of(record.writes) }
    }
}

impl TryFrom<DiskRecord> for DiskTotals {
    type Error = String;
    fn try_from(record: DiskRecord) -> Meaning<Self> {
        let served = record.served.into_iter().map(|(name, served)| Ok((op(&name)?, served.try_into()?)));
        Ok(Self {
            device: record.device,
            read_ios: record.read_ios,
            read_sectors: record.read_sectors,
            write_ios: record.write_ios,
            write_sectors: record.write_sectors,
            busy: Nanos::new(record.busy_ns),
            accesses: record.accesses.map(AccessPattern::from),
            served: served.collect::<Meaning<_>>()?,
            passage: record.passage.map(Passage::try_from).transpose()?,
        })
    }
}

impl From<&RecorderReport> for RecorderRecord {
    fn from(r: &RecorderReport) -> Self {
        Self {
            samples: r.samples,
            missed: r.missed,
            cpu_ns: r.cpu.get(),
            span_ns: r.span.get(),
            frequency: r.frequency.name().to_owned(),
            energy: r.energy.as_ref().map(|energy| EnergyRecord {
                source: energy.source.name().to_owned(),
                of: energy.of.clone(),
                readings: energy.readings,
            }),
            cpu_changes: (r.cpu_changes.iter())
                .map(|change| CpuChangeRecord {
                    at_ns: change.at.get(),
                    cpu: change.cpu,
                    online: change.online,
                })
                .collect(),
            absent: r.absent.clone(),
        }
    }
}

impl TryFrom<RecorderRecord> for RecorderReport {
    type Error = String;
    fn try_from(record: RecorderRecord) -> Meaning<Self> {
        let frequency = FrequencySource::from_name(&record.frequency)
            .ok_or_else(|| format!("`{}` is no source of frequencies", record.frequency))?;
        let energy = |record: EnergyRecord| {
            let source = EnergySource::from_name(&record.source)
                .ok_or_else(|| format!("`{}` is no source of energy", record.source))?;
            Ok::<_, String>(EnergyAccount { source, of: record.of, readings: record.readings })
        };
        Ok(Self {
            samples: record.samples,
            missed: record.missed,
            cpu: Nanos::new(record.cpu_ns),
            span: Nanos::new(record.span_ns),
            frequency,
            energy: record.energy.map(energy).transpose()?,
            cpu_changes: (record.cpu_changes.into_iter())
                .map(|change| CpuChange {
                    at: Nanos::new(change.at_ns),
                    cpu: change.cpu,
                    online: change.online,
                })
                .collect(),
            absent: record.absent,
        })
    }
}

pub(super) fn role(name: &str) -> Meaning<Role> {
    Role::from_name(name).ok_or_else(|| format!("`{name}` is no role"))
}

pub(super) fn names_of(roles: &BTreeMap<Role, Nanos>) -> BTreeMap<String, u64> {
    roles.iter().map(|(role, cpu)| (role.name().to_owned(), cpu.get())).collect()
}

pub(super) fn roles_of(names: BTreeMap<String, u64>) -> Meaning<BTreeMap<Role, Nanos>> {
    names.into_iter().map(|(name, cpu_ns)| Ok((role(&name)?, Nanos::new(cpu_ns)))).collect()
}
