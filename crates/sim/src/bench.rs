//! Runs a cell on a simulated machine: the same trial as a measured one.

mod loads;

use crate::assemble::{Assembled, Models, Order, assemble};
use crate::jobs::{Given, Jobs};
use crate::machine::MachineSpec;
use crate::record::{self, Recorder};
use crate::world::Stopped;
use domain::Study;
use domain::bench::{Bench, BenchError, Sink};
use domain::lab::ENERGY_MODELLED;
use domain::outcome::{Better, Metric, Outcome};
use domain::plan::Cell;
use domain::rng::Seed;
use domain::setting::SettingRecord;
use domain::time::Nanos;
use domain::trial::Measurement;
use domain::units::Unit;
use loads::{Load, Reports};
use std::collections::BTreeMap;

/// A cell that was simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// What a tool would have reported, and what was seen.
    pub measurement: Measurement,
    /// What was set.
    pub settings: Vec<SettingRecord>,
    /// What the machine is.
    pub environment: BTreeMap<String, String>,
    /// How many events it took.
    pub events: u64,
}

/// Simulates a cell once, and pushes what is sampled into `sink`.
///
/// # Errors
/// [`BenchError`]: `Unsupported` where the machine or the models lack something, `Failed` where the load would fail, takes
/// longer than the study allows, or the model is stuck.
pub fn simulate(order: &Order<'_>, sink: &mut dyn Sink) -> Result<Simulated, BenchError> {
    let Assembled { mut world, ground, settings } = assemble(order, loads::caching(order))?;
    let Load { jobs: specs, reports } = loads::of(order, ground)?;
    let me = world.next_part();
    let mut jobs = Jobs::new(me, ground.part);
    let given = jobs.given();
    for (spec, source) in specs {
        let thread = world.core.cpus.thread(&spec.name, domain::trace::Role::Workload, 0);
        jobs.add(&mut world.core, thread, spec, source);
    }
    world.add(Box::new(jobs));
    let measure = &order.study.measure;
    let mut recorder = Recorder::new(sink, measure.interval);
    let stopped = world.run(measure.timeout.get(), Some(measure.interval.get().max(1)), &mut recorder);
    let report = recorder.finish()?;
    match stopped {
        Stopped::Done => {}
        Stopped::TimeOver => {
            return Err(BenchError::Failed(format!(
                "the load was not done after {} of simulated time, which is the study's `timeout`",
                measure.timeout
            )));
        }
        Stopped::Stuck => {
            return Err(BenchError::Failed(
                "nothing happens any more on the simulated machine, and the load is not done: a mistake of the model".into(),
            ));
        }
    }
    let given = given.borrow();
    let core = &mut world.core;
    let duration = Nanos::new(core.now);
    let mut metrics = metrics(&given, reports)?;
    let joules = core.cpus.joules(core.now);
    if joules > 0.0 {
        metrics.insert(
            ENERGY_MODELLED.to_owned(),
            Metric { value: joules, unit: Unit::Joules, better: Better::Lower },
        );
    }
    let outcome = Outcome {
        metrics,
        tool: format!("{}, simulated", order.cell.workload.tool.name()),
        warnings: Vec::new(),
    };
    let disks = record::disks(core);
    let measurement = Measurement {
        outcome,
        commands: Vec::new(),
        duration,
        roles: record::roles(core),
        threads: record::threads(core),
        disks,
        recorder: Some(report),
        disturbances: Vec::new(),
    };
    let events = world.events();
    Ok(Simulated { measurement, settings, environment: environment(order.machine), events })
}

/// Whether a cell can be simulated: machine, storage, settings and load are put together, and nothing is run.
///
/// # Errors
/// As [`simulate`].
pub fn check(order: &Order<'_>) -> Result<(), BenchError> {
    let assembled = assemble(order, loads::caching(order))?;
    loads::of(order, assembled.ground).map(drop)
}

/// What a report shows of the machine.
fn environment(machine: &MachineSpec) -> BTreeMap<String, String> {
    let entries = [
        ("simulated machine", format!("{}: {}", machine.name, machine.about)),
        ("kernel", machine.kernel.to_string()),
        ("hz", machine.hz.to_string()),
        ("cpu", format!("{} x {}", machine.cpu.count, machine.cpu.model)),
        ("driver", machine.cpu.driver.name().to_owned()),
        ("memory", machine.memory.to_string()),
    ];
    entries.map(|(name, value)| (name.to_owned(), value)).into()
}

/// What the load's own tool would report.
fn metrics(given: &Given, reports: Reports) -> Result<BTreeMap<String, Metric>, BenchError> {
    let mut metrics = BTreeMap::new();
    let mut put = |name: &str, value: f64, unit: Unit, better: Better| {
        metrics.insert(name.to_owned(), Metric { value, unit, better });
    };
    let span = given.ended.saturating_sub(given.begun);
    if given.read_bytes + given.write_bytes == 0 || span == 0 {
        return Err(BenchError::Failed("the load did nothing in the time that counts".into()));
    }
    let seconds = span as f64 / 1e9;
    put("elapsed", seconds, Unit::Seconds, Better::Lower);
    if reports == Reports::Elapsed {
        return Ok(metrics);
    }
    let rates = [
        ("", given.read_bytes + given.write_bytes, given.reads + given.writes),
        ("read_", given.read_bytes, given.reads),
        ("write_", given.write_bytes, given.writes),
    ];
    for (prefix, bytes, ios) in rates {
        if ios > 0 && (prefix.is_empty() || reports == Reports::Fio) {
            let (bytes, ios) = (bytes as f64 / seconds, ios as f64 / seconds);
            put(&format!("{prefix}throughput"), bytes, Unit::BytesPerSecond, Better::Higher);
            put(&format!("{prefix}iops"), ios, Unit::PerSecond, Better::Higher);
        }
    }
    if reports == Reports::Fio {
        let latencies = &given.latencies;
        let shares = [("latency_p50", 0.5), ("latency_p99", 0.99), ("latency_p999", 0.999)];
        let quantiles = shares.map(|(name, share)| (name, latencies.quantile(share)));
        let all = [("latency_mean", latencies.mean())].into_iter().chain(quantiles);
        for (name, ns) in all {
            if let Some(ns) = ns {
                put(name, ns / 1e9, Unit::Seconds, Better::Lower);
            }
        }
    }
    Ok(metrics)
}

/// A simulated machine as a bench: each run has a seed of its own, from the bench's.
pub struct SimBench<'a> {
    machine: &'a MachineSpec,
    models: &'a dyn Models,
    study: &'a Study,
    seed: Seed,
    runs: u64,
}

impl<'a> SimBench<'a> {
    /// Cells of a study on a machine.
    pub fn new(machine: &'a MachineSpec, models: &'a dyn Models, study: &'a Study, seed: Seed) -> Self {
        Self { machine, models, study, seed, runs: 0 }
    }
}

impl Bench for SimBench<'_> {
    fn run(&mut self, cell: &Cell, sink: &mut dyn Sink) -> Result<Measurement, BenchError> {
        let seed = Seed(self.seed.stream(&format!("{} {}", cell.id, self.runs)).bits());
        self.runs += 1;
        let order = Order { machine: self.machine, models: self.models, study: self.study, cell, seed };
        Ok(simulate(&order, sink)?.measurement)
    }
}
