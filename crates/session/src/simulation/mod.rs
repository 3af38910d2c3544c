//! Trials of a model: the same study, plan, schedule and notebook.
//!
//! Cells are simulated on all cores, as far ahead as a few for each: what is kept is in the order of the
//! schedule, and the same whatever the number of cores.

mod ahead;
mod calibration;
mod fitting;
mod lab_machine;
mod machines;

pub use calibration::{Calibration, calibrate};
pub use fitting::{Fit, disk_count, fitting};
pub use machines::{FileModels, Machines, Named, SHIPPED, load, unlike_the_lab};

use crate::backend::{Backend, Closed, MachineRecord, OpenRun, TrialError, TrialMade};
use crate::error::{Error, Result};
use crate::observer::Observer;
use ahead::Ahead;
use domain::Nanos;
use domain::bench::{BenchError, Sink, SinkError};
use domain::ids::TrialKey;
use domain::plan::{Cell, Plan};
use domain::rng::Seed;
use domain::trace::TraceHead;
use domain::trial::{Provenance, Trial, Validity};
use machine::ledger::RestoreReport;
use machine::{LocalMachine, Machine};
use notebook::Staging;
use sim::bench::Simulated;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Simulated machines.
pub struct Simulation {
    machines: Arc<Machines>,
    record: MachineRecord,
    ahead: Option<Ahead>,
}

impl Simulation {
    /// On these machines.
    ///
    /// # Errors
    /// Where a machine cannot be written as JSON.
    pub fn on(machines: Machines) -> Result<Self> {
        let inventory = serde_json::to_string_pretty(&machines.first().spec.inventory())
            .map_err(Error::during("cannot write the inventory as JSON"))?;
        let record = MachineRecord { inventory, identity: machines.identity() };
        Ok(Self { machines: Arc::new(machines), record, ahead: None })
    }
}

impl Backend for Simulation {
    fn provenance(&self) -> Provenance {
        Provenance::Simulation
    }

    fn machine(&self) -> &MachineRecord {
        &self.record
    }

    fn open(&mut self, run: &OpenRun<'_>, _: &mut dyn Observer) -> Result<()> {
        let there: Vec<TrialKey> = run.folder.trials()?.0.into_iter().map(|trial| trial.key).collect();
        self.ahead = Some(Ahead::begin(run.plan, &self.machines, &there));
        Ok(())
    }

    fn run_trial(
        &mut self,
        run: &OpenRun<'_>,
        cell: &Cell,
        key: &TrialKey,
        staging: &mut Staging,
        _: &mut dyn Observer,
    ) -> std::result::Result<TrialMade, TrialError> {
        let ahead = self.ahead.as_ref().expect("it is opened before its first trial");
        made(ahead.outcome(cell, key), cell, key, run, &self.machines, staging)
    }

    fn close(&mut self) -> Result<Closed> {
        self.ahead = None;
        Ok(Closed::default())
    }
}

/// The seed of one trial: of its run and its name, so that the order does not matter in which trials are
/// made.
fn seed_of(plan: &Plan, key: &TrialKey) -> Seed {
    Seed(plan.seed.stream(&key.folder()).bits())
}

/// A trial, its trace poured out.
fn made(
    outcome: Outcome,
    cell: &Cell,
    key: &TrialKey,
    run: &OpenRun<'_>,
    machines: &Machines,
    staging: &mut Staging,
) -> std::result::Result<TrialMade, TrialError> {
    let (plan, machine) = (run.plan, machines.for_cell(cell));
    let mut trial = Trial {
        run: run.folder.run().id.clone(),
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
    let mut storage = None;
    match outcome {
        Ok((simulated, rows)) => {
            storage = cell.stack.is_some().then(|| simulated.inventory.storage());
            rows.pour(staging.sink())
                .map_err(|error| TrialError::Broken(Error::Refused(error.to_string())))?;
            trial.settings = simulated.settings;
            trial.environment = simulated.environment;
            trial.environment.insert("simulated events".into(), simulated.events.to_string());
            let disturbances = &simulated.measurement.disturbances;
            if !disturbances.is_empty() {
                trial.validity = Validity::Disturbed(disturbances.clone());
            }
            trial.measurement = Some(simulated.measurement);
        }
        Err(BenchError::Unsupported(reason)) => return Err(TrialError::Unsupported(reason)),
        Err(BenchError::Failed(reason)) => trial.validity = Validity::Failed(reason),
        Err(BenchError::Interrupted) => return Err(TrialError::Interrupted),
        Err(BenchError::Sink(error)) => return Err(TrialError::Broken(Error::Refused(error.to_string()))),
    }
    let script = format!(
        "#!/bin/sh\n# A trial of a model: nothing of a machine was measured. The study and the machine `{}` again:\nset -eu\n\
         flyball run \"${{1:?the study file}}\" --on sim --seed {}\n",
        machine.spec.name, plan.seed
    );
    Ok(TrialMade { trial, script, restored: RestoreReport::default(), storage })
}

type Outcome = std::result::Result<(Simulated, Rows), BenchError>;

/// A trace in memory, until its trial is kept.
#[derive(Default)]
struct Rows {
    head: Option<TraceHead>,
    rows: Vec<(Nanos, Vec<Option<u64>>)>,
}

impl Sink for Rows {
    fn begin(&mut self, head: &TraceHead) -> std::result::Result<(), SinkError> {
        self.head = Some(head.clone());
        Ok(())
    }

    fn row(&mut self, time: Nanos, values: &[Option<u64>]) -> std::result::Result<(), SinkError> {
        self.rows.push((time, values.to_vec()));
        Ok(())
    }
}

impl Rows {
    fn pour(&self, sink: &mut dyn Sink) -> std::result::Result<(), SinkError> {
        let Some(head) = &self.head else { return Ok(()) };
        sink.begin(head)?;
        self.rows.iter().try_for_each(|(time, values)| sink.row(*time, values))
    }
}
