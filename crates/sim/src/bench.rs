//! Runs a cell on a simulated machine: the same trial as a measured one.

use crate::assemble::{Assembled, LoadTarget, Models, SimRequest, assemble};
use crate::engine::{Core, Stopped, World};
use crate::load::background::BackgroundWork;
use crate::load::bonnie::{BonnieLoad, Done};
use crate::load::burner::Burner;
use crate::load::jobs::{Given, Jobs, Watcher};
use crate::load::of_cell::{self as loads, Load, Reports};
use crate::load::oltp::{Oltp, Served};
use crate::machine::MachineSpec;
use crate::md::resync::LEFT;
use crate::record::{self, Before, Recorder, SamplingThread};
use domain::Study;
use domain::bench::{Bench, BenchError, Sink};
use domain::inventory::Inventory;
use domain::lab::ENERGY_MODELLED;
use domain::outcome::{Better, CPU_BUSY, Metric, Outcome, cpu_busy};
use domain::per_work::{self, BUSY_FREQUENCY, POWER, WAKEUPS};
use domain::plan::Cell;
use domain::rng::Seed;
use domain::setting::SettingRecord;
use domain::time::Nanos;
use domain::trace::Role;
use domain::trial::{Disturbance, Measurement};
use domain::units::Unit;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use workloads::bonnie::options as bonnie;
use workloads::sysbench::options as oltp;

/// A cell that was simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// What a tool would have reported, and what was seen.
    pub measurement: Measurement,
    /// What was set.
    pub settings: Vec<SettingRecord>,
    /// What the machine is.
    pub environment: BTreeMap<String, String>,
    /// The same as `flyball inspect` would see it, with its storage and these settings.
    pub inventory: Inventory,
    /// How many events it took.
    pub events: u64,
}

/// Simulates a cell once, and pushes what is sampled into `sink`.
///
/// # Errors
/// [`BenchError`]: `Unsupported` where the machine or the models lack something, `Failed` where the load
/// would fail, takes longer than the study allows, or the model is stuck.
pub fn simulate(order: &SimRequest<'_>, sink: &mut dyn Sink) -> Result<Simulated, BenchError> {
    has_its_metric(order)?;
    let machine = order.machine.in_trial(order.seed);
    let order = &SimRequest { machine: &machine, ..*order };
    let Assembled { mut world, target, settings, inventory, device } =
        assemble(order, loads::caching(order))?;
    let (load, beside) = (loads::of(order, target)?, loads::beside(order, target)?);
    work_in_background(&mut world, order);
    let before = lead(&mut world, beside, target, order);
    let account = put_in(&mut world, load, target, order);
    let measure = &order.study.measure;
    take_samples(&mut world, order);
    let mut recorder = Recorder::new(sink, measure.interval, before.now);
    let stopped =
        world.run(before.now + measure.timeout.get(), Some(measure.interval.get().max(1)), &mut recorder);
    let roles = record::roles(&world.core, &before);
    let report = recorder.finish(&mut world, roles.get(&Role::Flyball).copied().unwrap_or_default())?;
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
    let disturbances = resync_ended(&world).into_iter().collect();
    let core = &mut world.core;
    let duration = Nanos::new(core.now - before.now);
    let mut metrics = match &account {
        Account::Jobs(given, reports) => metrics(&given.borrow(), *reports)?,
        Account::Oltp(served) => oltp_metrics(&served.borrow(), before.now)?,
        Account::Bonnie(done) => bonnie_metrics(&done.borrow(), duration),
    };
    let joules = core.cpus.joules(core.now) - before.joules;
    if joules > 0.0 {
        metrics.insert(
            ENERGY_MODELLED.to_owned(),
            Metric { value: joules, unit: Unit::Joules, better: Better::Lower },
        );
    }
    add_rates(core, &before, joules, &mut metrics);
    let used = roles.values().fold(Nanos::ZERO, |sum, used| sum + *used);
    metrics.extend(cpu_busy(used, duration, core.cpus.count()).map(|busy| (CPU_BUSY.to_owned(), busy)));
    let outcome = Outcome {
        metrics,
        tool: format!("{}, simulated", order.cell.workload.tool.name()),
        warnings: Vec::new(),
    };
    let disks = record::disks(core, &before);
    let measurement = Measurement {
        outcome,
        commands: Vec::new(),
        duration,
        roles,
        threads: record::threads(core, &before),
        disks,
        recorder: Some(report),
        profile: None,
        windows: None,
        phases: vec![],
        spent: Default::default(),
        calls: None,
        disturbances,
    };
    let events = world.events();
    let environment = environment(order.machine, &inventory, device.as_deref());
    Ok(Simulated { measurement, settings, environment, inventory, events })
}

/// Watts and wake-ups, and what a unit of work took of them. Context switches are not counted.
fn add_rates(core: &mut Core, before: &Before, joules: f64, metrics: &mut BTreeMap<String, Metric>) {
    let seconds = Nanos::new(core.now - before.now).secs();
    let power = (joules > 0.0).then_some((POWER, joules));
    let wakeups = record::wakeups(core).map(|entries| (WAKEUPS, (entries - before.wakeups) as f64));
    let rate = |(name, value): (&str, f64)| {
        Some((name.to_owned(), per_work::metric(name, value / seconds).filter(|_| seconds > 0.0)?))
    };
    metrics.extend(power.into_iter().chain(wakeups).filter_map(rate));
    let hertz = busy_frequency(core, before).and_then(|hertz| per_work::metric(BUSY_FREQUENCY, hertz));
    metrics.extend(hertz.map(|hertz| (BUSY_FREQUENCY.to_owned(), hertz)));
    per_work::add(metrics);
}

/// The mean frequency of CPUs while they executed since then, in Hz: their cycles over that time. `None`
/// where they have one frequency, or executed nothing.
fn busy_frequency(core: &mut Core, before: &Before) -> Option<f64> {
    let now = core.now;
    let has_one = (0..core.cpus.policies()).all(|policy| core.cpus.residency(now, policy).len() < 2);
    let (busy_ns, cycles) = record::executed(core);
    let busy = Nanos::new(busy_ns - before.executed.0).secs();
    (busy > 0.0 && !has_one).then(|| (cycles - before.executed.1) as f64 / busy)
}

/// Where a trial is one of an array that is synchronised, all of it has to be.
fn resync_ended(world: &World) -> Option<Disturbance> {
    let mut ended = false;
    for part in world.parts() {
        part.counters(&mut |name, left| ended |= name == LEFT && left == 0);
    }
    ended.then(|| Disturbance {
        kind: "resync-ended".into(),
        detail: "an array was synchronised before the workload ended; larger devices make that last longer"
            .into(),
    })
}

/// Where a load counts what it was given.
enum Account {
    Jobs(Rc<RefCell<Given>>, Reports),
    Oltp(Rc<RefCell<Served>>),
    Bonnie(Rc<RefCell<Vec<Done>>>),
}

/// How long fio's main thread sleeps between two looks at its jobs (fio's `backend.c`, `run_threads`).
const FIO_LOOKS_NS: f64 = 10e6;

/// The same of both while a job is still to begin (`run_threads`: `todo`).
const FIO_LOOKS_BEFORE_NS: f64 = 100e6;

/// How long its helper thread sleeps (fio's `helper_thread.c`; a guest had 8 to 11 wake-ups of it a second).
const FIO_HELPS_NS: f64 = 100e6;

/// Puts a load on a machine.
fn put_in(world: &mut World, load: Load, target: LoadTarget, order: &SimRequest<'_>) -> Account {
    let me = world.next_part();
    match load {
        Load::Jobs(specs, reports) => {
            let mut jobs = Jobs::new(me, target.part);
            let given = jobs.given();
            let watch = [("fio", "fio_look", FIO_LOOKS_NS), ("fio/helper", "fio_helper", FIO_HELPS_NS)];
            for (name, cost, every) in watch.into_iter().filter(|_| reports == Reports::Fio) {
                let cost = order.machine.costs.once(cost);
                if !cost.is_nothing() {
                    let thread = world.core.cpus.thread(name, Role::Workload, 0);
                    let of_guest = |ns: f64| (ns / order.machine.dilation) as u64;
                    let watcher = Watcher {
                        thread,
                        every: of_guest(every),
                        every_before: of_guest(FIO_LOOKS_BEFORE_NS),
                        cost,
                        is_main: name == "fio",
                    };
                    jobs.watched_by(&mut world.core, watcher);
                }
            }
            add_jobs(world, jobs, specs, Role::Workload);
            Account::Jobs(given, reports)
        }
        Load::Oltp(spec) => {
            let load = Oltp::new(&mut world.core, me, spec, order.seed);
            let served = load.served();
            world.add(Box::new(load));
            Account::Oltp(served)
        }
        Load::Bonnie(spec) => {
            let load = BonnieLoad::new(&mut world.core, me, target.part, spec, order.seed);
            let done = load.told();
            world.add(Box::new(load));
            Account::Bonnie(done)
        }
    }
}

fn add_jobs(world: &mut World, mut jobs: Jobs, specs: Vec<loads::Job>, role: Role) {
    for (spec, source) in specs {
        let thread = world.core.cpus.thread(&spec.name, role, 0);
        jobs.add(&mut world.core, thread, spec, source);
    }
    world.add(Box::new(jobs));
}

/// Puts on a machine what it does for itself.
fn work_in_background(world: &mut World, order: &SimRequest<'_>) {
    for work in &order.machine.variation.background {
        let me = world.next_part();
        let background = BackgroundWork::new(&mut world.core, me, work, order.machine, order.seed);
        world.add(Box::new(background));
    }
}

/// Has Flyball's recorder take its samples, where that costs something.
fn take_samples(world: &mut World, order: &SimRequest<'_>) {
    let (cost, interval) = (order.machine.costs.once("recorder_sample"), order.study.measure.interval);
    if !cost.is_nothing() {
        let me = world.next_part();
        let thread = SamplingThread::new(&mut world.core, me, interval, cost);
        world.add(Box::new(thread));
    }
}

/// Lets the loads beside a cell's workload run alone for as long as the longest of their leads, and until the
/// moment at which this trial's load begins, and says what the machine has done then.
fn lead(
    world: &mut World,
    beside: Vec<(String, loads::Beside)>,
    target: LoadTarget,
    order: &SimRequest<'_>,
) -> Before {
    let longest = order.cell.beside.iter().map(|companion| companion.lead.get()).max().unwrap_or(0);
    let start = order.machine.variation.start(order.seed).get() as f64 / order.machine.dilation;
    let lead = longest + start as u64;
    if lead == 0 {
        return Before::default();
    }
    beside.into_iter().for_each(|(name, load)| put_beside(world, &name, load, target));
    // They neither stop the machine nor end: it runs until the time is over. Where there are none, nothing
    // is planned on it.
    if world.run(lead, None, &mut ()) == Stopped::Stuck {
        world.core.now = lead;
    }
    Before::of(&mut world.core)
}

/// Puts a load on a machine that runs beside the workload.
fn put_beside(world: &mut World, name: &str, load: loads::Beside, target: LoadTarget) {
    let me = world.next_part();
    match load {
        loads::Beside::Jobs(specs) => {
            add_jobs(world, Jobs::beside(me, target.part), specs, Role::Beside);
        }
        loads::Beside::Burner(spec) => {
            let threads = (0..spec.threads).map(|_| world.core.cpus.thread(name, Role::Beside, 0)).collect();
            let burner = Burner::new(&mut world.core, me, spec, threads);
            world.add(Box::new(burner));
        }
    }
}

/// Whether a cell can be simulated: machine, storage, settings and load are put together, and nothing is run.
///
/// # Errors
/// As [`simulate`].
pub fn check(order: &SimRequest<'_>) -> Result<(), BenchError> {
    has_its_metric(order)?;
    let assembled = assemble(order, loads::caching(order))?;
    loads::beside(order, assembled.target)?;
    loads::of(order, assembled.target).map(drop)
}

/// Counters of a processor and of a kernel that are no part of the model are no metric of it.
fn has_its_metric(order: &SimRequest<'_>) -> Result<(), BenchError> {
    let metric = order.study.measure.metric.as_str();
    if per_work::metric(metric, 0.0).is_none() || per_work::is_modelled(metric) {
        return Ok(());
    }
    Err(BenchError::Unsupported(format!(
        "the model does not count `{metric}`; its energy is `{ENERGY_MODELLED}`, its watts are `{POWER}`"
    )))
}

/// What a report shows of the machine, and what rules ask of a trial: the device below the load's target, and
/// its filesystem.
fn environment(
    machine: &MachineSpec,
    inventory: &Inventory,
    device: Option<&str>,
) -> BTreeMap<String, String> {
    let mounted = inventory.mounts.first();
    let storage = [
        ("device", device.map(str::to_owned)),
        ("devices", device.map(|device| below(inventory, device))),
        ("filesystem", mounted.map(|mount| mount.filesystem.clone())),
        ("mount_options", mounted.map(|mount| mount.options.join(","))),
    ];
    let storage = storage.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let entries = [
        ("simulated machine", format!("{}: {}", machine.name, machine.about)),
        ("kernel", machine.kernel.to_string()),
        ("hz", machine.hz.to_string()),
        ("cpu", format!("{} x {}", machine.cpu.count, machine.cpu.model)),
        ("driver", machine.cpu.driver.name().to_owned()),
        ("memory", machine.memory.to_string()),
    ];
    entries.into_iter().chain(storage).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A device and all that carries it, from the top down, as trials of a host name them.
fn below(inventory: &Inventory, top: &str) -> String {
    let mut names = vec![top];
    let mut next = 0;
    while let Some(name) = names.get(next) {
        let built_of = inventory.device(name).into_iter().flat_map(|device| &device.built_of);
        let new: Vec<&str> = built_of.map(String::as_str).filter(|below| !names.contains(below)).collect();
        names.extend(new);
        next += 1;
    }
    names.join(" > ")
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
        let [requests, syncs] = [("", &given.latencies), ("sync_", &given.sync_latencies)];
        for (prefix, latencies) in [requests, syncs] {
            let shares = [("latency_p50", 0.5), ("latency_p99", 0.99), ("latency_p999", 0.999)];
            let quantiles = shares.map(|(name, share)| (name, latencies.quantile(share)));
            let all = [("latency_mean", latencies.mean())].into_iter().chain(quantiles);
            for (name, ns) in all {
                if let Some(ns) = ns {
                    put(&format!("{prefix}{name}"), ns / 1e9, Unit::Seconds, Better::Lower);
                }
            }
        }
        if given.flushes > 0 {
            put("syncs", given.flushes as f64 / seconds, Unit::PerSecond, Better::Higher);
        }
    }
    Ok(metrics)
}

/// What sysbench would report.
fn oltp_metrics(served: &Served, begun: u64) -> Result<BTreeMap<String, Metric>, BenchError> {
    if served.overrun {
        return Err(BenchError::Failed(
            "more transactions waited than sysbench's queue holds: the machine is too slow for this `rate`"
                .into(),
        ));
    }
    if served.transactions == 0 || served.measured == 0 {
        return Err(BenchError::Failed("no transaction was done in the time that counts".into()));
    }
    let seconds = served.measured as f64 / 1e9;
    let latencies = &served.latencies;
    let known = [
        ("transactions", Some(served.transactions as f64 / seconds)),
        ("queries", Some(served.queries as f64 / seconds)),
        ("latency_mean", latencies.mean().map(|ns| ns / 1e9)),
        ("latency_p95", latencies.quantile(0.95).map(|ns| ns / 1e9)),
        ("latency_p99", latencies.quantile(0.99).map(|ns| ns / 1e9)),
        ("elapsed", Some((served.ended - begun) as f64 / 1e9)),
        // Without locks nothing fails.
        ("errors", Some(0.0)),
    ];
    let metric = |(name, unit, better): (&str, Unit, Better)| {
        let (_, value) = known.iter().find(|(known, _)| *known == name)?;
        Some((name.to_owned(), Metric { value: (*value)?, unit, better }))
    };
    Ok(oltp::METRICS.into_iter().filter_map(metric).collect())
}

/// What bonnie would report: each phase's rate, and its own threads' share of a CPU.
fn bonnie_metrics(done: &[Done], duration: Nanos) -> BTreeMap<String, Metric> {
    let value = |name: &str| {
        if name == "elapsed" {
            return Some(duration.get() as f64 / 1e9);
        }
        let (of_cpu, phase) = name.strip_prefix("cpu_").map_or((false, name), |phase| (true, phase));
        let done = done.iter().find(|done| done.phase.metric() == phase && done.elapsed > 0)?;
        let amount = if of_cpu { done.cpu as f64 } else { done.amount as f64 * 1e9 };
        Some(amount / done.elapsed as f64)
    };
    let metric = |(name, unit, better): (&str, Unit, Better)| {
        Some((name.to_owned(), Metric { value: value(name)?, unit, better }))
    };
    bonnie::METRICS.into_iter().filter_map(metric).collect()
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
        let order = SimRequest { machine: self.machine, models: self.models, study: self.study, cell, seed };
        Ok(simulate(&order, sink)?.measurement)
    }
}
