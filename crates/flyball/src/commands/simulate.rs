//! `flyball run STUDY --on sim`: the same study, plan, schedule and notebook; trials come from a model.
//!
//! Cells are simulated on all cores, as far ahead as a few for each: what is kept is in the order of the schedule, and the same
//! whatever the number of cores.

use super::gate;
use super::run::{conclude, read_study};
use crate::args::{Global, Run};
use crate::course::{self, Course, Ended, Made, NotMade};
use crate::exit::{End, Usage};
use crate::interrupt::Interrupt;
use crate::machines::{self, Named, Shelf};
use crate::measuring::{Begin, Measured, RunOrder, fresh_seed, run_folder};
use crate::{places, preflight, terminal};
use anyhow::{Context, Result};
use domain::Nanos;
use domain::bench::{BenchError, Sink, SinkError};
use domain::inert::Lines;
use domain::plan::{Cell, Plan};
use domain::rng::Seed;
use domain::study::Study;
use domain::trace::TraceHead;
use domain::trial::{Provenance, RunId, Trial, TrialKey, Validity};
use machine::ledger::RestoreReport;
use machine::{LocalMachine, Machine};
use notebook::{Notebook, RunFolder};
use sim::assemble::Order;
use sim::bench::{Simulated, simulate};
use sim::machine::MachineSpec;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How far each core may be ahead of what is kept, in trials: their traces are in memory.
const AHEAD: usize = 2;

/// Simulates a study, or shows what would be.
pub fn run(global: &Global, arguments: &Run) -> Result<End> {
    let (study, text) = read_study(&arguments.study)?;
    let file = places::absolute(&arguments.study)?;
    let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
    let plan = Plan::new(study.clone(), Seed(0))?;
    preflight::in_itself(&plan)?;
    let machines = Machines::of(&plan, arguments.machine.as_deref(), &folder)?;
    if arguments.dry_run {
        return show(&plan, &machines, arguments.seed);
    }
    let notebook = places::absolute(&places::notebook(global)?)?;
    let conditions = gate::prepare_for(&plan, &arguments.gate.fail_if, &notebook)?;
    let notebook = Notebook::create(&notebook)?;
    let interrupt = Interrupt::catch()?;
    let identity = machines.identity();
    let inventory = serde_json::to_string_pretty(&machines.first().spec.inventory())
        .context("cannot write the inventory as JSON")?;
    let order = RunOrder {
        study: &study.name,
        text: &text,
        home: file.parent(),
        seed: arguments.seed,
        begin: if arguments.new { Begin::Anew } else { Begin::Resume },
        provenance: Provenance::Simulation,
        identity: &identity,
    };
    let mut run = run_folder(&order, &notebook, &inventory)?;
    let ended = make_all(study, &machines, &run, &interrupt)?;
    if ended == Ended::AllMeasured {
        run.finish(LocalMachine.now())?;
    }
    let id = run.run().id.clone();
    let measured = Measured { notebook, run: id, interrupted: interrupt.came(), left_alone: false };
    conclude(global, &measured, &conditions, arguments.gate.junit.as_deref())
}

/// The machines that a plan's cells are simulated on.
pub struct Machines {
    /// By the name that the study or the command line has for it.
    pub named: BTreeMap<String, Named>,
    fallback: String,
    folder: PathBuf,
}

impl Machines {
    pub fn of(plan: &Plan, asked: Option<&str>, folder: &Path) -> Result<Self> {
        let mut named = BTreeMap::new();
        let mut fallback = None;
        let asked = asked.map(machines::named_here);
        for cell in &plan.cells {
            let Some(name) = asked.as_deref().or(cell.machine.as_deref()) else {
                let names: Vec<&str> = machines::SHIPPED.iter().map(|(name, _)| *name).collect();
                return Err(Usage(format!(
                    "the study `{}` does not say which machine is to be simulated; give --machine NAME or a file ({} are \
                     shipped), or write `[sim]` and `machine = \"NAME\"` in the study",
                    plan.study.name,
                    names.join(", ")
                ))
                .into());
            };
            fallback.get_or_insert_with(|| name.to_owned());
            if !named.contains_key(name) {
                let machine = match name {
                    machines::LAB => machines::of_lab(&plan.study, cell.kernel.as_deref(), folder)?,
                    _ => machines::load(name, folder)?,
                };
                named.insert(name.to_owned(), machine);
            }
        }
        let fallback = fallback.context("a study has cells")?;
        Ok(Self { named, fallback, folder: folder.to_owned() })
    }

    fn first(&self) -> &Named {
        &self.named[&self.fallback]
    }

    pub fn for_cell(&self, cell: &Cell) -> &Named {
        cell.machine.as_ref().and_then(|name| self.named.get(name)).unwrap_or_else(|| self.first())
    }

    /// Which machines these are: their names, and a number that another text would not have.
    fn identity(&self) -> String {
        let names: Vec<&str> = self.named.values().map(|named| named.spec.name.as_str()).collect();
        let texts: Vec<&str> = self.named.values().map(|named| named.text.as_str()).collect();
        let text = format!("{} {}", env!("CARGO_PKG_VERSION"), texts.concat());
        format!("sim-{}-{:08x}", names.join("-"), Seed(0).stream(&text).bits() as u32)
    }

    fn simulate(&self, study: &Study, cell: &Cell, seed: Seed) -> Outcome {
        let mut rows = Rows::default();
        let simulated = self.simulate_on(&self.for_cell(cell).spec, study, cell, seed, &mut rows)?;
        Ok((simulated, rows))
    }

    /// Simulates a cell on a machine whose disks are found where these machines' are.
    pub fn simulate_on(
        &self,
        machine: &MachineSpec,
        study: &Study,
        cell: &Cell,
        seed: Seed,
        sink: &mut dyn Sink,
    ) -> Result<Simulated, BenchError> {
        let models = Shelf(&self.folder);
        simulate(&Order { machine, models: &models, study, cell, seed }, sink)
    }
}

type Outcome = Result<(Simulated, Rows), BenchError>;

/// A trace in memory, until its trial is kept.
#[derive(Default)]
struct Rows {
    head: Option<TraceHead>,
    rows: Vec<(Nanos, Vec<Option<u64>>)>,
}

impl Sink for Rows {
    fn begin(&mut self, head: &TraceHead) -> Result<(), SinkError> {
        self.head = Some(head.clone());
        Ok(())
    }

    fn row(&mut self, time: Nanos, values: &[Option<u64>]) -> Result<(), SinkError> {
        self.rows.push((time, values.to_vec()));
        Ok(())
    }
}

impl Rows {
    fn pour(&self, sink: &mut dyn Sink) -> Result<(), SinkError> {
        let Some(head) = &self.head else { return Ok(()) };
        sink.begin(head)?;
        self.rows.iter().try_for_each(|(time, values)| sink.row(*time, values))
    }
}

/// The seed of one trial: of its run and its name, so that the order does not matter in which trials are made.
fn seed_of(plan: &Plan, key: &TrialKey) -> Seed {
    Seed(plan.seed.stream(&key.folder()).bits())
}

fn make_all(study: Study, machines: &Machines, folder: &RunFolder, interrupt: &Interrupt) -> Result<Ended> {
    let plan = Plan::new(study, folder.run().seed)?;
    let (mut schedule, before) = course::schedule(&plan, folder)?;
    if schedule.next().is_none() {
        return Ok(Ended::AllMeasured);
    }
    let there: Vec<TrialKey> = folder.trials()?.0.into_iter().map(|trial| trial.key).collect();
    let ahead = Ahead::of(&plan, &there);
    let course = Course { plan: &plan, folder, interrupt, limit: None, ground: &|| Ok(()) };
    let run = &folder.run().id;
    let simulate = |key: &TrialKey, cell: &Cell| {
        machines.simulate(&plan.study, &plan.in_trial(cell, key), seed_of(&plan, key))
    };
    std::thread::scope(|scope| {
        for _ in 0..ahead.workers {
            scope.spawn(|| ahead.work(simulate));
        }
        let ended = course.measure_all(&mut schedule, before, &mut |cell, key, staging| {
            let outcome = ahead.wait_for(key).unwrap_or_else(|| simulate(key, cell));
            kept(outcome, cell, key, &plan, machines, run, staging)
        });
        ahead.end();
        ended
    })
}

/// A trial, its trace poured out.
fn kept(
    outcome: Outcome,
    cell: &Cell,
    key: &TrialKey,
    plan: &Plan,
    machines: &Machines,
    run: &RunId,
    staging: &mut notebook::Staging,
) -> Result<Made, NotMade> {
    let machine = machines.for_cell(cell);
    let mut trial = Trial {
        run: run.clone(),
        key: key.clone(),
        study: plan.study.name.clone(),
        workload: cell.workload.name.clone(),
        levels: cell.levels.clone(),
        provenance: Provenance::Simulation,
        machine: machines.identity(),
        started: LocalMachine.now(),
        settings: Vec::new(),
        environment: BTreeMap::new(),
        validity: Validity::Valid,
        measurement: None,
        lab: None,
        origin: None,
    };
    match outcome {
        Ok((simulated, rows)) => {
            rows.pour(staging.sink()).map_err(|error| NotMade::Broken(error.into()))?;
            trial.settings = simulated.settings;
            trial.environment = simulated.environment;
            trial.environment.insert("simulated events".into(), simulated.events.to_string());
            let disturbances = &simulated.measurement.disturbances;
            if !disturbances.is_empty() {
                trial.validity = Validity::Disturbed(disturbances.clone());
            }
            trial.measurement = Some(simulated.measurement);
        }
        Err(BenchError::Unsupported(reason)) => return Err(NotMade::Unsupported(reason)),
        Err(BenchError::Failed(reason)) => trial.validity = Validity::Failed(reason),
        Err(BenchError::Interrupted) => return Err(NotMade::Interrupted),
        Err(BenchError::Sink(error)) => return Err(NotMade::Broken(error.into())),
    }
    let script = format!(
        "#!/bin/sh\n# A trial of a model: nothing of a machine was measured. The study and the machine `{}` again:\nset -eu\n\
         flyball run \"${{1:?the study file}}\" --on sim --seed {}\n",
        machine.spec.name, plan.seed
    );
    Ok(Made { trial, script, restored: RestoreReport::default() })
}

/// What is simulated before it is asked for.
struct Ahead<'a> {
    /// In the order in which the schedule will ask, as far as that is known.
    wanted: Vec<(TrialKey, &'a Cell)>,
    workers: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The next of `wanted` to be begun.
    next: usize,
    /// How many of `wanted` were asked for.
    asked: usize,
    done: BTreeMap<TrialKey, Outcome>,
    ended: bool,
}

impl<'a> Ahead<'a> {
    /// Every cell as often as it is measured at least.
    fn of(plan: &'a Plan, there: &[TrialKey]) -> Self {
        let mut wanted = Vec::new();
        for block in 0..plan.study.measure.repeats_min {
            for index in plan.block_order(block) {
                let cell = &plan.cells[index];
                let key = TrialKey { block, cell: cell.id.clone(), attempt: 0 };
                if !there.contains(&key) {
                    wanted.push((key, cell));
                }
            }
        }
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        Self { wanted, workers, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Simulates one after the other, not further ahead than there is room for.
    fn work(&self, simulate: impl Fn(&TrialKey, &Cell) -> Outcome) {
        let _ending = EndsWhenPanicking(self);
        loop {
            let room = |state: &mut State| !state.ended && state.next >= state.asked + self.workers * AHEAD;
            let waiting = self.changed.wait_while(self.state(), room);
            let mut state = waiting.unwrap_or_else(PoisonError::into_inner);
            let Some((key, cell)) = self.wanted.get(state.next).filter(|_| !state.ended) else { return };
            state.next += 1;
            drop(state);
            let outcome = simulate(key, cell);
            self.state().done.insert(key.clone(), outcome);
            self.changed.notify_all();
        }
    }

    /// What was simulated of this; `None` where nobody will.
    fn wait_for(&self, key: &TrialKey) -> Option<Outcome> {
        let place = self.wanted.iter().position(|(wanted, _)| wanted == key)?;
        let mut state = self.state();
        // Cells that are skipped are asked for no more.
        state.asked = state.asked.max(place + 1);
        state.done.retain(|done, _| self.wanted[place..].iter().any(|(wanted, _)| wanted == done));
        self.changed.notify_all();
        let missing = |state: &mut State| !state.ended && !state.done.contains_key(key);
        let mut state = self.changed.wait_while(state, missing).unwrap_or_else(PoisonError::into_inner);
        state.done.remove(key)
    }

    fn end(&self) {
        self.state().ended = true;
        self.changed.notify_all();
    }
}

/// Whoever waits for a worker that panics simulates the trial itself, and says what is wrong.
struct EndsWhenPanicking<'a, 'b>(&'a Ahead<'b>);

impl Drop for EndsWhenPanicking<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}

/// What would be simulated, and what cannot be.
fn show(plan: &Plan, machines: &Machines, seed: Option<u64>) -> Result<End> {
    let seed = Seed(seed.unwrap_or_else(|| fresh_seed(LocalMachine.now())));
    let mut text = Lines::default();
    text.line(format_args!(
        "study {}, seed {seed}, simulated: nothing of this machine is read or written",
        plan.study.name
    ));
    for named in machines.named.values() {
        text.line(format_args!("machine {}: {}", named.spec.name, named.spec.about));
    }
    for cell in &plan.cells {
        let models = Shelf(&machines.folder);
        let order =
            Order { machine: &machines.for_cell(cell).spec, models: &models, study: &plan.study, cell, seed };
        match sim::bench::check(&order) {
            Ok(()) => text.line(format_args!("  {}", cell.id)),
            Err(error) => text.line(format_args!("  {}: {error}", cell.id)),
        }
    }
    terminal::lines(&text)?;
    Ok(End::Done)
}
