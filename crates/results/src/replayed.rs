//! Trials of a notebook made ready to be replayed.

use crate::{Error, Result, Warn, data, inventory, trial_trace};
use analysis::facts::rates::names_between;
use analysis::summary::RunData;
use analysis::words::counted;
use domain::bench::BenchError;
use domain::ids::{CellId, RunId, TrialKey};
use domain::inventory::Inventory;
use domain::order;
use domain::plan::{Cell, Plan};
use domain::setting::{SettingRecord, SettingRequest, is_driver_mode};
use domain::trace::Trace;
use domain::trial::{DiskTotals, Measurement, Trial, Validity};
use notebook::Notebook;
use replay::{Load, Machine, Replay, WhatIf, what_matters};
use report::replayed::{Pair, Predicted};
use std::collections::BTreeSet;
use std::fmt::Display;
use workloads::Cache;

/// Of how many changes that a replay predicts to be faster it is tried whether they are.
const MOST_PROMISING: usize = 24;

/// What is told of the machine that a run was recorded on, beside what the run holds.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The machine, with what is in force there.
    pub machine: Option<Inventory>,
    /// What was in force instead while it was recorded.
    pub in_force: Vec<SettingRequest>,
}

/// A run whose trials can be replayed.
pub struct Replayable<'n> {
    notebook: &'n Notebook,
    data: RunData,
    machine: Inventory,
    /// Whether the machine was told, and is not the run's own.
    is_told: bool,
    in_force: Vec<SettingRequest>,
    cells: Vec<Cell>,
    warn: Warn,
}

/// Trials of a cell that a replay predicts: the policy alone differs from that of what is replayed.
pub struct Measured<'r> {
    /// The cell.
    pub cell: &'r Cell,
    /// Its valid trials.
    pub trials: Vec<&'r Trial>,
}

impl<'n> Replayable<'n> {
    /// Reads a run.
    ///
    /// # Errors
    /// Those of [`data`]; [`Error::Replay`] where its machine is not known.
    pub fn open(notebook: &'n Notebook, id: &RunId, warn: Warn) -> Result<Self> {
        Self::on(notebook, id, Told::default(), warn)
    }

    /// Reads a run. What is told of its machine wins over what the run holds.
    ///
    /// # Errors
    /// As [`Replayable::open`], and where what was in force is nothing that a replay knows.
    pub fn on(notebook: &'n Notebook, id: &RunId, told: Told, warn: Warn) -> Result<Self> {
        if let Some(other) = told.in_force.iter().find(|one| !replay::is_of_cpus(&one.setting.name)) {
            let why = "is no setting of frequency policy or idle states, which are what a replay knows";
            return Err(Error::Replay { trial: id.to_string(), why: format!("`{}` {why}", other.setting) });
        }
        let data = data(notebook, id, warn)?;
        let is_told = told.machine.is_some();
        let Some(machine) = told.machine.or_else(|| inventory(notebook, id, warn)) else {
            return Err(Error::Replay { trial: id.to_string(), why: unknown_machine(id) });
        };
        let cells = Plan::new(data.study.clone(), data.run.seed).map(|plan| plan.cells).unwrap_or_default();
        Ok(Self { notebook, data, machine, is_told, in_force: told.in_force, cells, warn })
    }

    /// The arguments that began the run.
    pub fn command(&self) -> &[String] {
        &self.data.run.command
    }

    /// The trials that count, in their order.
    pub fn trials(&self) -> impl Iterator<Item = &Trial> {
        self.data.trials.iter().filter(|trial| trial.validity.is_valid() && trial.measurement.is_some())
    }

    /// The trial of this name, or without one the first that counts.
    ///
    /// # Errors
    /// [`Error::Replay`] where there is none.
    pub fn trial(&self, key: Option<&TrialKey>) -> Result<&Trial> {
        let found = match key {
            Some(key) => self.data.trials.iter().find(|trial| trial.key == *key),
            None => self.trials().next(),
        };
        found.ok_or_else(|| Error::Replay {
            trial: key.map_or_else(|| self.data.run.id.to_string(), TrialKey::to_string),
            why: "there is no such trial that counts".to_owned(),
        })
    }

    /// A trial's load, fitted to its machine.
    ///
    /// # Errors
    /// [`Error::Replay`] where the load or the machine has no model; those of reading its trace.
    pub fn replay(&self, trial: &Trial) -> Result<Replay> {
        let why = |why: &dyn Display| Error::Replay { trial: trial.key.to_string(), why: why.to_string() };
        let settings = [&trial.settings[..], &self.in_force.iter().map(was_in_force).collect::<Vec<_>>()];
        let machine = Machine::of(&self.machine, &settings.concat()).map_err(|error| why(&error))?;
        let trace = trial_trace(self.notebook, &self.data.run.id, &trial.key)?
            .ok_or_else(|| why(&"it has figures alone, and no samples or events of what the machine did"))?;
        if self.is_told {
            self.is_of(&machine, trial, &trace).map_err(|beyond| why(&beyond))?;
        }
        let cell = self.cell(&trial.key.cell);
        let profile = cell.map(|cell| workloads::of(&cell.workload.tool).profile(&cell.workload));
        // Past the page cache a tool's own requests are all that there are.
        let depth =
            profile.filter(|profile| profile.cache != Cache::Buffered).and_then(|profile| profile.depth);
        let own = |cell: &Cell| (cell.machine.clone(), cell.kernel.clone(), cell.pstates.clone());
        if self.cells.iter().any(|one| Some(own(one)) != self.cells.first().map(own)) {
            return Err(why(&"its run is of several machines, of one of which alone the inventory is known"));
        }
        let mut told = trial.clone();
        if let Some((own, traced)) = told.measurement.as_mut().zip(self.traced(trial)) {
            own.disks = with_service(&own.disks, &traced.disks).to_vec();
        }
        let load = Load::of(&told, &trace, depth).map_err(|error| why(&error))?;
        Replay::new(machine, load).map_err(|error| why(&error))
    }

    /// What the trial of the same cell measured that recorded events, where the study has such trials apart.
    fn traced(&self, trial: &Trial) -> Option<&Measurement> {
        let mut all = self.data.trials.iter();
        let traced =
            all.find(|other| other.validity == Validity::Traced && other.key.cell == trial.key.cell)?;
        traced.measurement.as_ref()
    }

    /// Whether a trial can be of the machine that was told; tells where that has another kernel.
    fn is_of(&self, machine: &Machine, trial: &Trial, trace: &Trace) -> std::result::Result<(), String> {
        let count = self.machine.cpus.online.len();
        let of = |quantity| names_between(trace, "cpu", quantity);
        let cpus = [of(".ran_ns"), of(".idle")].concat();
        let seen = cpus.iter().filter_map(|cpu| cpu.parse::<u32>().ok()).count();
        if seen > count {
            let seen = counted(seen, "CPU");
            return Err(format!(
                "it is of {seen}, and the machine that is given has {count}; give the inventory of the machine that it was \
                 recorded on"
            ));
        }
        let recorded = trial.environment.get("kernel");
        if let Some(release) = recorded.filter(|of| machine.has_kernel(of) == Some(false)) {
            let given = self.machine.kernel.release.as_deref().unwrap_or("of another release");
            let warn = self.warn;
            warn(&format_args!(
                "`{}` was recorded with Linux {release}; the machine that is given has Linux {given}, whose governors are replayed",
                trial.key
            ));
        }
        Ok(())
    }

    /// The cells that differ from that of a trial in settings of frequency policy or idle states alone, and
    /// were measured.
    pub fn others(&self, trial: &Trial) -> Vec<Measured<'_>> {
        let Some(own) = self.cell(&trial.key.cell) else { return Vec::new() };
        let others = self.cells.iter().filter(|cell| cell.id != own.id && is_same_but_for_policy(own, cell));
        let measured = others.map(|cell| Measured {
            cell,
            trials: self.trials().filter(|trial| trial.key.cell == cell.id).collect(),
        });
        measured.filter(|measured| !measured.trials.is_empty()).collect()
    }

    /// What is predicted of a trial: what was asked for, else what matters. The second is left out where the
    /// machine has no such setting.
    ///
    /// # Errors
    /// A sentence, where what was asked for is no setting of the machine.
    pub fn predicted(replay: &Replay, asked: Vec<WhatIf>) -> std::result::Result<Vec<Predicted>, String> {
        let is_asked = !asked.is_empty();
        let what_ifs = if is_asked { asked } else { what_matters(replay) };
        let predicted = what_ifs.into_iter().map(|WhatIf { settings }| match replay.predict(&settings) {
            Ok(prediction) => Ok(Some(Predicted { settings, prediction })),
            Err(error) if is_asked => Err(error.to_string()),
            Err(_) => Ok(None),
        });
        Ok(predicted.collect::<std::result::Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// The settings of which the first trial's replay predicts more than what is in force gives: as many as
    /// are worth trying, the best first.
    ///
    /// # Errors
    /// Those of [`Self::replay`].
    pub fn promising(&self) -> Result<Vec<Vec<SettingRequest>>> {
        let replay = self.replay(self.trial(None)?)?;
        let mut all = Self::predicted(&replay, vec![]).unwrap_or_default();
        // A driver's mode is changed by whoever asks for it: the kernel makes all its policies anew.
        let keeps_its_driver =
            |settings: &[SettingRequest]| settings.iter().all(|one| !is_driver_mode(&one.setting.name));
        all.retain(|one| one.prediction.rate.value > 1.0 && keeps_its_driver(&one.settings));
        order::by(&mut all, |a, b| b.prediction.rate.value.total_cmp(&a.prediction.rate.value));
        Ok(all.into_iter().take(MOST_PROMISING).map(|one| one.settings).collect())
    }

    /// Predicts each cell that was measured under another policy: from the trial named, else from the first
    /// that counts of each cell. What cannot be predicted is told.
    ///
    /// # Errors
    /// [`Error::Replay`] where there is no such trial, or no two cells can be set side by side.
    pub fn checked(&self, key: Option<&TrialKey>, warn: Warn) -> Result<Vec<Pair>> {
        let mut cells = BTreeSet::new();
        let from: Vec<&Trial> = match key {
            Some(key) => vec![self.trial(Some(key))?],
            None => self.trials().filter(|trial| cells.insert(trial.key.cell.clone())).collect(),
        };
        let mut checked = Vec::new();
        for trial in from {
            let others = self.others(trial);
            if others.is_empty() {
                continue;
            }
            match self.replay(trial) {
                Ok(replay) => {
                    checked.extend(others.iter().filter_map(|other| one(&replay, trial, other, warn)));
                }
                Err(error) => warn(&error),
            }
        }
        if checked.is_empty() {
            let why = "no two cells of the run differ in settings of frequency policy or idle states alone and can be \
replayed, so that nothing can be checked";
            return Err(Error::Replay { trial: self.data.run.id.to_string(), why: why.to_owned() });
        }
        Ok(checked)
    }

    fn cell(&self, id: &CellId) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.id == *id)
    }
}

/// An imported file holds no inventory.
fn unknown_machine(id: &RunId) -> String {
    format!(
        "its file does not say what the machine was: P-states, driver, governor and its tunables, idle states, HZ; on that machine \
         `flyball inspect --json > machine.json`, here `flyball replay {id} --machine machine.json`; where it cannot be \
         asked any more, a simulated machine (`flyball sim machines`) whose CPUs are like it"
    )
}

/// The disks of a trial, or where these do not tell how long they took by themselves, those of the trial of
/// its cell that recorded it. Recording each request costs CPU time, which changes how long requests wait for
/// a CPU, and not how long a disk takes.
fn with_service<'d>(own: &'d [DiskTotals], traced: &'d [DiskTotals]) -> &'d [DiskTotals] {
    if own.iter().all(|disk| disk.served.is_empty()) { traced } else { own }
}

/// As a trial that sets it has it.
fn was_in_force(request: &SettingRequest) -> SettingRecord {
    SettingRecord {
        setting: request.setting.clone(),
        path: String::new(),
        before: String::new(),
        asked: request.value.clone(),
        got: request.value.clone(),
        after: None,
    }
}

/// One cell predicted, beside what was measured of it.
fn one(replay: &Replay, trial: &Trial, other: &Measured<'_>, warn: Warn) -> Option<Pair> {
    let measured = replay.load().measured_ratio(trial, &other.trials)?;
    let predicted = replay.predict_from_rest(&other.cell.settings);
    let told = |error: &BenchError| warn(&format_args!("`{}` is not predicted: {error}", other.cell.id));
    Some(Pair {
        from: trial.key.cell.to_string(),
        to: other.cell.id.to_string(),
        prediction: predicted.inspect_err(told).ok()?,
        fit: replay.fit(),
        measured,
    })
}

fn is_same_but_for_policy(a: &Cell, b: &Cell) -> bool {
    let rest = |cell: &Cell| {
        let settings = cell.settings.iter().filter(|one| !replay::is_of_cpus(&one.setting.name));
        let settings: Vec<_> = settings.cloned().collect();
        let Cell { workload, beside, stack, kernel, machine, pstates, .. } = cell.clone();
        (settings, workload, beside, stack, kernel, machine, pstates)
    };
    rest(a) == rest(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::Nanos;
    use domain::request::{Op, Served};
    use domain::setting::{SettingName, SettingRequest};
    use domain::study::{Companion, Tool, Workload};

    #[test]
    fn cells_are_alike_but_for_policy_only_with_the_same_loads_beside() {
        let load = |name: &str| Workload { name: name.into(), tool: Tool::Fio, options: Default::default() };
        let cell = Cell {
            id: CellId::new(["a"]),
            workload: load("w"),
            levels: Default::default(),
            settings: Vec::new(),
            beside: Vec::new(),
            stack: None,
            kernel: None,
            machine: None,
            pstates: None,
        };
        let governor =
            SettingRequest { setting: SettingName::parse("governor"), value: "performance".into() };
        assert!(is_same_but_for_policy(&cell, &Cell { settings: vec![governor], ..cell.clone() }));
        let beside = vec![Companion { load: load("neighbour"), lead: Nanos::ZERO }];
        assert!(!is_same_but_for_policy(&cell, &Cell { beside, ..cell.clone() }));
    }

    #[test]
    fn how_long_disks_took_is_told_by_the_trial_that_recorded_events_where_the_other_does_not() {
        let disk = |busy: u64, served: Option<u64>| DiskTotals {
            device: "sda".into(),
            read_ios: 1,
            read_sectors: 8,
            write_ios: 0,
            write_sectors: 0,
            busy: Nanos::from_millis(busy),
            accesses: None,
            served: served
                .map(|count| (Op::Read, Served { count, ..Served::default() }))
                .into_iter()
                .collect(),
            passage: None,
        };
        let traced = [disk(9, Some(3))];
        assert_eq!(with_service(&[disk(7, None)], &traced), traced);
        let own = [disk(7, None), disk(7, Some(5))];
        assert_eq!(with_service(&own, &traced), own);
    }
}
