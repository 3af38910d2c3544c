//! A backend for tests: its trials are what the test says.

use crate::backend::{Backend, Closed, MachineRecord, OpenRun, TrialError, TrialMade};
use crate::error::Result;
use crate::observer::Observer;
use domain::ids::TrialKey;
use domain::plan::{Cell, Plan};
use domain::trial::{Disturbance, Measurement, Provenance, Trial, Validity};
use machine::ledger::RestoreReport;
use machine::{LocalMachine, Machine};
use notebook::Staging;
use std::collections::BTreeMap;

/// What becomes of a trial.
pub enum Scripted {
    /// It is kept with this measurement.
    Measured(Box<Measurement>),
    /// It is kept with this measurement, and does not count.
    Disturbed(Box<Measurement>, Vec<Disturbance>),
    /// It is kept as failed.
    Failed(String),
    /// There is none.
    NotMade(TrialError),
}

type Script<'a> = Box<dyn FnMut(&Cell, &TrialKey) -> Scripted + 'a>;

/// Answers each request for a trial from a script, and counts what it is asked.
pub struct ScriptedBackend<'a> {
    record: MachineRecord,
    script: Script<'a>,
    /// Cells that are not possible, by their place.
    pub unavailable: BTreeMap<usize, String>,
    /// What closing it comes to.
    pub restored: RestoreReport,
    /// How often it was opened.
    pub opened: usize,
    /// How often it was closed.
    pub closed: usize,
    /// The trials that were asked for.
    pub asked: Vec<TrialKey>,
}

impl<'a> ScriptedBackend<'a> {
    /// One that answers so.
    pub fn new(script: impl FnMut(&Cell, &TrialKey) -> Scripted + 'a) -> Self {
        Self {
            record: MachineRecord { inventory: "{}".into(), identity: "scripted".into() },
            script: Box::new(script),
            unavailable: BTreeMap::new(),
            restored: RestoreReport::default(),
            opened: 0,
            closed: 0,
            asked: Vec::new(),
        }
    }
}

impl Backend for ScriptedBackend<'_> {
    fn provenance(&self) -> Provenance {
        Provenance::Simulation
    }

    fn machine(&self) -> &MachineRecord {
        &self.record
    }

    fn unavailable(&self, _: &Plan) -> BTreeMap<usize, String> {
        self.unavailable.clone()
    }

    fn open(&mut self, _: &OpenRun<'_>, _: &mut dyn Observer) -> Result<()> {
        self.opened += 1;
        Ok(())
    }

    fn run_trial(
        &mut self,
        run: &OpenRun<'_>,
        cell: &Cell,
        key: &TrialKey,
        _: &mut Staging,
        _: &mut dyn Observer,
    ) -> std::result::Result<TrialMade, TrialError> {
        self.asked.push(key.clone());
        let (measurement, validity) = match (self.script)(cell, key) {
            Scripted::Measured(measurement) => (Some(*measurement), Validity::Valid),
            Scripted::Disturbed(measurement, by) => (Some(*measurement), Validity::Disturbed(by)),
            Scripted::Failed(why) => (None, Validity::Failed(why)),
            Scripted::NotMade(error) => return Err(error),
        };
        let trial = Trial {
            run: run.folder.run().id.clone(),
            key: key.clone(),
            study: run.plan.study.name.clone(),
            workload: cell.workload.name.clone(),
            levels: cell.levels.clone(),
            provenance: Provenance::Simulation,
            machine: self.record.identity.clone(),
            started: LocalMachine.now(),
            settings: Vec::new(),
            environment: BTreeMap::new(),
            validity,
            measurement,
            lab: None,
            origin: None,
        };
        Ok(TrialMade {
            trial,
            script: "#!/bin/sh\n".into(),
            restored: RestoreReport::default(),
            storage: None,
        })
    }

    fn close(&mut self) -> Result<Closed> {
        self.closed += 1;
        Ok(Closed { restored: std::mem::take(&mut self.restored), logs: Vec::new() })
    }
}
