//! Trials on this machine: settings by the ledger, workloads by the runner, and a supervisor that puts things
//! back should this process be killed.

use crate::availability;
use crate::backend::{Backend, Closed, MachineRecord, OpenRun, TrialError, TrialMade};
use crate::error::{Error, Result};
use crate::observer::{Event, Observer};
use crate::preflight;
use domain::ids::TrialKey;
use domain::plan::{Cell, Plan};
use domain::rng::Seed;
use domain::study::Study;
use domain::trial::Provenance;
use machine::ledger::RestoreReport;
use machine::supervise::Supervisor;
use machine::{Ledger, LocalMachine, MachineLock, recovery};
use notebook::Staging;
use runner::beside::Started;
use runner::environment::Environment;
use runner::reproduce::{Places, script};
use runner::{BetweenTrials, Devices, Done, StorageSetup, TrialContext, TrialFiles};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long another Flyball is waited for: long enough for a supervisor to end its work, short enough to be
/// told at once that another run is on.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where a host's session keeps its things.
#[derive(Debug)]
pub struct HostPlaces {
    /// The state folder: ledger and claims.
    pub state: PathBuf,
    /// Where targets are made.
    pub work: PathBuf,
    /// The file whose lock is the machine's; `None` where there is none.
    pub lock: Option<PathBuf>,
    /// This program with the arguments that make it the supervisor of that state folder.
    pub supervisor: Command,
}

/// This machine.
#[derive(Debug)]
pub struct Host<'m> {
    local: &'m LocalMachine,
    interrupt: &'m AtomicBool,
    state: PathBuf,
    work: PathBuf,
    record: MachineRecord,
    supervisor: Option<Supervisor>,
    ledger: Option<Ledger<'m>>,
    opened: Option<Opened>,
    // Given up last.
    _lock: Option<MachineLock>,
}

/// What the trials of a run have in common.
#[derive(Debug)]
struct Opened {
    kept: BetweenTrials,
    fixed: Environment,
}

impl<'m> Host<'m> {
    /// Takes hold of this machine for a study: looks the study over, takes the machine's lock, starts the
    /// supervisor, and undoes what an earlier Flyball has left.
    ///
    /// # Errors
    /// [`Error::Usage`], [`Error::Refused`] where the study cannot be run here; [`Error::Busy`] where another
    /// Flyball has the machine.
    pub fn acquire(
        study: &Study,
        places: HostPlaces,
        local: &'m LocalMachine,
        interrupt: &'m AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        // The seed decides the order alone: what can fail is the same for every seed.
        let plan = Plan::new(study.clone(), Seed(0))?;
        preflight::check(&plan)?;
        files::trust::check(&places.work).map_err(Error::during("cannot use the work folder"))?;
        // A second Flyball is refused before anything is started that would outlive it.
        let lock = lock_machine(places.lock.as_deref())?;
        let supervisor = supervise(places.supervisor, lock.as_ref())?;
        let mut host = Self {
            local,
            interrupt,
            state: places.state,
            work: places.work,
            record: MachineRecord { inventory: String::new(), identity: String::new() },
            supervisor: Some(supervisor),
            ledger: None,
            opened: None,
            _lock: lock,
        };
        match host.recover(&plan, observer) {
            Ok(()) => Ok(host),
            Err(refused) => {
                drop(host.ledger.take());
                host.dismiss()?;
                Err(refused)
            }
        }
    }

    fn recover(&mut self, plan: &Plan, observer: &mut dyn Observer) -> Result<()> {
        let (ledger, recovered) = recovery::open(&self.state, self.local).map_err(Error::of_machine)?;
        observer.on(&Event::Restored(&recovered));
        self.ledger = Some(ledger);
        // Only now is what a killed run has left on them erased.
        preflight::claimed_disks(plan, &self.state)?;
        // Devices that a killed run has left would make it another machine, and its run could not go on.
        let inventory = machine::inventory::take(self.local)?;
        let identity = machine::inventory::identity(&inventory);
        let inventory = serde_json::to_string_pretty(&inventory)
            .map_err(Error::during("cannot write the inventory as JSON"))?;
        self.record = MachineRecord { inventory, identity };
        Ok(())
    }

    fn dismiss(&mut self) -> Result<()> {
        self.supervisor.take().map_or(Ok(()), Supervisor::done)?;
        Ok(())
    }
}

impl Backend for Host<'_> {
    fn provenance(&self) -> Provenance {
        Provenance::Host
    }

    fn machine(&self) -> &MachineRecord {
        &self.record
    }

    fn unavailable(&self, plan: &Plan) -> BTreeMap<usize, String> {
        availability::unavailable(plan)
    }

    fn open(&mut self, run: &OpenRun<'_>, observer: &mut dyn Observer) -> Result<()> {
        if let Some(busy) = runner::busy::look(self.local) {
            observer.on(&Event::Busy(&busy));
        }
        let ledger = self.ledger.as_mut().expect("it is closed after its last run");
        let (study, seed) = (&run.plan.study, run.plan.seed);
        let made = StorageSetup::make(
            ledger,
            &self.work,
            study,
            Devices::Refused,
            seed,
            &self.state,
            self.interrupt,
        );
        let storage = match made {
            Err(runner::Error::Interrupted) => return Err(Error::Interrupted),
            other => other?,
        };
        let fixed = runner::environment::fixed(self.local);
        self.opened = Some(Opened { kept: BetweenTrials::new(storage), fixed });
        Ok(())
    }

    fn run_trial(
        &mut self,
        run: &OpenRun<'_>,
        cell: &Cell,
        key: &TrialKey,
        staging: &mut Staging,
        observer: &mut dyn Observer,
    ) -> std::result::Result<TrialMade, TrialError> {
        let ledger = self.ledger.as_mut().expect("it is closed after its last run");
        let Opened { kept, fixed } = self.opened.as_mut().expect("it is opened before its first trial");
        let study = &run.plan.study;
        let context = TrialContext {
            machine: self.local,
            ledger,
            target: None,
            measure: &study.measure,
            fixed,
            interrupt: self.interrupt,
            run: &run.folder.run().id,
            study: &study.name,
            provenance: Provenance::Host,
            identity: &self.record.identity,
        };
        let supervisor = self.supervisor.as_mut().expect("it is dismissed when the host is closed");
        let mut groups = Vec::new();
        let mut unheard = Vec::new();
        let mut announce = |started: Started<'_>| {
            groups.push(started.group());
            unheard.extend(supervisor.group(started.group()).err());
        };
        let raw = staging.raw_dir();
        let mut host = runner::Host::new(context, kept, &mut announce);
        let files = TrialFiles { raw: &raw, events: &staging.events_file() };
        let done = host.trial(&run.plan.in_trial(cell, key), key, &files, staging.sink());
        unheard.extend(groups.into_iter().filter_map(|group| supervisor.gone(group).err()));
        // A supervisor that is gone is no reason to end: what it would undo, the next start of Flyball
        // undoes.
        unheard.iter().for_each(|error| observer.on(&Event::Warning(&error.to_string())));
        let Done { trial, restored, commands, beside, storage } = done?;
        let places = Places::of(kept.target(), &raw).with_server(kept.server_commands()).with_beside(&beside);
        let script = script(&trial, &study.target, &commands, &places);
        Ok(TrialMade { trial, script, restored, storage })
    }

    fn verify(&self) -> Result<()> {
        Ok(self.opened.as_ref().map_or(Ok(()), |opened| opened.kept.verify())?)
    }

    fn close(&mut self) -> Result<Closed> {
        self.opened = None;
        let restored = self.ledger.take().map_or_else(RestoreReport::default, Ledger::finish);
        // What is left of the work folder is nothing of ours; an empty one is.
        let _ = std::fs::remove_dir(&self.work);
        self.dismiss()?;
        Ok(Closed { restored, logs: Vec::new() })
    }
}

/// A supervisor that puts things back should this process be killed.
///
/// # Errors
/// Where it could not be started.
pub fn supervise(command: Command, lock: Option<&MachineLock>) -> Result<Supervisor> {
    Ok(match lock {
        Some(lock) => Supervisor::start_with(lock, command)?,
        None => Supervisor::start(command)?,
    })
}

/// The machine's lock, which whoever measures or changes anything here holds until it is done.
///
/// # Errors
/// [`Error::Busy`] where another Flyball has it, whatever its state folder is.
pub fn lock_machine(path: Option<&Path>) -> Result<Option<MachineLock>> {
    let Some(path) = path else { return Ok(None) };
    MachineLock::take(path, &LocalMachine, PATIENCE).map(Some).map_err(Error::of_machine)
}
