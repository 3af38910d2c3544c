//! Made-up machines for tests: traces whose counters grow by known amounts.

use crate::State;
use domain::bench::Sink;
use domain::inventory::{
    BlockDevice, BlockKind, CpuList, CpuModel, Cpufreq, Cpuidle, Cpus, IdleState, Inventory, Kernel, Memory,
    Policy, Power, SCHEMA, Virtualisation,
};
use domain::time::{Nanos, Timestamp};
use domain::trace::{FrequencySource, Role, Series, SeriesKind, SeriesUnit, Trace, TraceHead};
use domain::units::Hertz;
use std::collections::BTreeMap;

/// A column, and how much it grows a second; a gauge's value.
pub type Column = (Series, f64);

pub fn counter(name: impl Into<String>, a_second: f64) -> Column {
    let kind = SeriesKind::Counter { wraps_at: None };
    (Series { name: name.into(), unit: SeriesUnit::Count, kind }, a_second)
}

pub fn gauge(name: impl Into<String>, value: f64) -> Column {
    (Series { name: name.into(), unit: SeriesUnit::Count, kind: SeriesKind::Gauge }, value)
}

/// A CPU that is busy for this share.
pub fn cpu(name: &str, busy: f64) -> Vec<Column> {
    vec![
        counter(format!("{name}.user"), 100.0 * busy * 0.75),
        counter(format!("{name}.system"), 100.0 * busy * 0.25),
        counter(format!("{name}.idle"), 100.0 * (1.0 - busy)),
    ]
}

/// A disk with so many writes of 4096 bytes and half a millisecond each.
pub fn disk(device: &str, writes: f64) -> Vec<Column> {
    let column = |quantity: &str, a_second: f64| counter(format!("disk.{device}.{quantity}"), a_second);
    vec![
        column("read_ios", 0.0),
        column("read_sectors", 0.0),
        column("read_ms", 0.0),
        column("write_ios", writes),
        column("write_sectors", 8.0 * writes),
        column("write_ms", 0.5 * writes),
        column("io_ms", 400.0),
        column("weighted_ms", 0.5 * writes),
    ]
}

/// A machine of so many CPUs, each a little busier than the one before it.
pub fn machine(cpus: u32) -> Vec<Column> {
    let mut all = cpu("cpu", 0.5);
    for number in 0..cpus {
        all.extend(cpu(&format!("cpu{number}"), f64::from(number + 1) / f64::from(cpus + 1)));
    }
    all.extend(disk("md0", 1000.0));
    all.extend(disk("vda", 1000.0));
    all.extend(disk("vdb", 1000.0));
    all.push(counter("psi.io.some_us", 250_000.0));
    all.push(counter("psi.cpu.some_us", 10_000.0));
    all.push(counter("psi.memory.some_us", 0.0));
    for (role, share) in [(Role::Workload, 1.2), (Role::Array, 0.2), (Role::Flyball, 0.004)] {
        all.push(counter(format!("role.{role}.ns"), share * 1e9));
    }
    all
}

/// The trace of these columns over some seconds, ten rows a second.
pub fn trace(columns: &[Column], seconds: u64) -> Trace {
    let head = TraceHead {
        series: columns.iter().map(|(series, _)| series.clone()).collect(),
        interval: Nanos::from_millis(100),
        start: Timestamp::from_unix_nanos(0),
        frequency: FrequencySource::None,
    };
    let mut trace = Trace::new(head);
    for row in 0..=seconds * 10 {
        let time = Nanos::from_millis(row * 100);
        trace.times.push(time);
        for (column, (series, amount)) in trace.columns.iter_mut().zip(columns) {
            let value = match series.kind {
                SeriesKind::Counter { .. } => 1e6 + amount * time.secs(),
                SeriesKind::Gauge => *amount,
            };
            column.push(Some(value.round() as u64));
        }
    }
    trace
}

/// The state after a trace.
pub fn state(trace: &Trace, inventory: Option<Inventory>) -> State {
    let mut state = State::of(inventory);
    feed(&mut state, trace);
    state
}

/// Pushes a trace.
pub fn feed(sink: &mut dyn Sink, trace: &Trace) {
    sink.begin(&trace.head).unwrap();
    for (row, time) in trace.times.iter().enumerate() {
        let values: Vec<Option<u64>> = trace.columns.iter().map(|column| column[row]).collect();
        sink.row(*time, &values).unwrap();
    }
}

fn device(name: &str, built_of: &[&str]) -> BlockDevice {
    BlockDevice {
        name: name.into(),
        kind: BlockKind::Disk,
        built_of: built_of.iter().map(|below| (*below).to_owned()).collect(),
        number: None,
        size: None,
        read_only: None,
        removable: None,
        transport: None,
        model: None,
        serial: None,
        wwn: None,
        queue: None,
        start: None,
        link: None,
        node: None,
    }
}

/// A machine with an array `md0` of `vda` and `vdb`, and neither frequency policy nor idle states.
pub fn bare() -> Inventory {
    Inventory {
        schema: SCHEMA,
        host: None,
        os: None,
        cpus: Cpus {
            online: CpuList::default(),
            present: None,
            cores: None,
            packages: None,
            threads_per_core: None,
            smt_control: None,
            model: CpuModel::default(),
            core_types: vec![],
            nodes: vec![],
            base: None,
            max: None,
        },
        cpufreq: None,
        frequency_sources: vec![],
        cpuidle: None,
        kernel: Kernel::default(),
        memory: Memory::default(),
        devices: vec![device("vda", &[]), device("vdb", &[]), device("md0", &["vda", "vdb"])],
        mounts: vec![],
        power: Power::default(),
        virtualisation: Virtualisation::default(),
        rivals: vec![],
        absent: vec![],
    }
}

/// The same with a frequency policy of all CPUs and one idle state.
pub fn scaled(governor: &str) -> Inventory {
    let cpus = CpuList::parse("0-63").unwrap();
    let policy = Policy {
        governor: Some(governor.into()),
        cpus: cpus.clone(),
        hardware_max: Some(Hertz::from_mhz(4000)),
        ..Policy::default()
    };
    let cpufreq = Cpufreq {
        policies: vec![policy],
        intel_pstate: None,
        amd_pstate: None,
        boost: None,
        frequency_invariant: None,
        tunables: BTreeMap::new(),
    };
    let state = IdleState {
        index: 2,
        name: "C6".into(),
        description: None,
        latency: None,
        residency: None,
        cpus,
        disabled: CpuList::default(),
    };
    let cpuidle = Cpuidle { driver: None, governor: None, available_governors: vec![], states: vec![state] };
    Inventory { cpufreq: Some(cpufreq), cpuidle: Some(cpuidle), ..bare() }
}
