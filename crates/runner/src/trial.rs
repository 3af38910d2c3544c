//! One whole trial: settings written, machine quiet, workload run, settings read again and put back.

use crate::beside::{self, BesideCommand, Started};
use crate::event_facts::TrialEvents;
use crate::running_load::RunningLoadBench;
use crate::server::{self, Access, Databases, Servers};
use crate::settle::{self, Cause, Settled};
use crate::tools::{self, Job};
use crate::{Error, HostBench, StorageSetup, Target, WatchedLoad, environment, guards};
use domain::bench::{Bench, BenchError, Sink, SinkError};
use domain::ids::{RunId, TrialKey};
use domain::inventory::Storage;
use domain::plan::Cell;
use domain::setting::SettingRecord;
use domain::stack::Stack;
use domain::study::{Measure, Tool};
use domain::time::Timestamp;
use domain::trial::{Disturbance, Measurement, Provenance, Trial, Validity};
use environment::Environment;
use machine::ledger::RestoreReport;
use machine::serving::ChangeSet;
use machine::{Ledger, Machine};
use recorder::Paced;
use rustix::process::{Resource, Rlimit, getrlimit};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use workloads::{Needs, Options, Program, TargetAccess};

/// The value of `caches` in a trial's environment where the whole page cache was dropped.
pub const DROPPED_ALL: &str = "dropped all";
/// The same where only the target's pages were, for want of root.
pub const DROPPED_TARGET: &str = "dropped the target's";

/// Why there is no trial. Settings are put back all the same.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// Somebody asked us to stop; what was measured of this trial is dropped.
    #[error("interrupted")]
    Interrupted,
    /// Not possible on this machine; every trial of this cell would be so.
    #[error("not possible here: {0}")]
    Unsupported(String),
    /// The trace could not be stored; the next one could not either.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The ledger does not work, or a setting could not be put back: nothing more may be changed.
    #[error("{0}")]
    Ledger(String),
}

/// A trial that took place.
#[derive(Debug)]
pub struct Done {
    /// What is kept of it.
    pub trial: Trial,
    /// What putting the settings back came to. Where anything failed or was left to somebody else, the run
    /// has to end after this trial was stored.
    pub restored: RestoreReport,
    /// Every command that was run, also where the workload failed.
    pub commands: Vec<Vec<String>>,
    /// Those of the loads beside it.
    pub beside: Vec<BesideCommand>,
    /// The machine's storage as it was, where the study built what the trial stood on.
    pub storage: Option<Storage>,
}

/// What a bench measured, and what was read of the machine just before.
struct Measured {
    measurement: Measurement,
    environment: Environment,
    storage: Option<Storage>,
}

/// Where the files of a trial go.
#[derive(Clone, Copy, Debug)]
pub struct TrialFiles<'a> {
    /// The folder for raw output; it exists.
    pub raw: &'a Path,
    /// The file of events, where they are recorded.
    pub events: &'a Path,
}

/// Where trials take place, whichever bench runs them.
pub struct TrialContext<'a, 'm> {
    /// The machine.
    pub machine: &'a dyn Machine,
    /// Writes the settings, and puts them back.
    pub ledger: &'a mut Ledger<'m>,
    /// What workloads run on, where the study has it.
    pub target: Option<Target>,
    /// How the study is measured.
    pub measure: &'a Measure,
    /// What does not change while the machine runs: [`environment::fixed`].
    pub fixed: &'a Environment,
    /// Set by somebody else when everything is to end.
    pub interrupt: &'a AtomicBool,
    /// Which run it is.
    pub run: &'a RunId,
    /// The study's name.
    pub study: &'a str,
    /// Which kind of machine this is.
    pub provenance: Provenance,
    /// Which machine this is.
    pub identity: &'a str,
}

/// Runs trials on this machine. A workload dies with the thread that runs it (see [`crate::child`]), so that
/// has to be one that lasts as long as the program.
pub struct Host<'a, 'm> {
    context: TrialContext<'a, 'm>,
    kept: &'a mut BetweenTrials,
    announce: &'a mut dyn FnMut(Started<'_>),
}

/// What stays from one trial to the next: what workloads run on, the server that they ask, the tools that
/// were found.
#[derive(Debug)]
pub struct BetweenTrials {
    storage: StorageSetup,
    servers: Servers,
    databases: Databases,
    versions: BTreeMap<&'static str, String>,
    running: Option<(Options, WatchedLoad)>,
    descriptors: Rlimit,
}

impl BetweenTrials {
    /// Made once a run, before anything is recorded: workloads get the limit on open files of then.
    pub fn new(storage: StorageSetup) -> Self {
        let descriptors = getrlimit(Resource::Nofile);
        Self {
            storage,
            servers: Servers::default(),
            databases: Databases::default(),
            versions: BTreeMap::new(),
            running: None,
            descriptors,
        }
    }

    /// What made the server that the last trial asked, or its data in one that was there.
    pub fn server_commands(&self) -> &[Vec<String>] {
        match self.databases.commands() {
            [] => self.servers.commands(),
            commands => commands,
        }
    }

    /// The running load that these options name: the one of the trials before, if they named it too.
    fn running(&mut self, options: &Options) -> Result<&WatchedLoad, Error> {
        if self.running.as_ref().is_none_or(|(known, _)| known != options) {
            self.running = Some((options.clone(), WatchedLoad::find(options)?));
        }
        let (_, load) = self.running.as_ref().expect("it was found");
        Ok(load)
    }

    /// What the last trial ran on.
    pub fn target(&self) -> Option<&Target> {
        self.storage.target()
    }

    /// Whether that is still what was made.
    ///
    /// # Errors
    /// [`Error::TargetChanged`].
    pub fn verify(&self) -> Result<(), Error> {
        self.storage.verify()
    }
}

impl<'a, 'm> Host<'a, 'm> {
    /// `announce` is told the process groups of each workload and of loads beside it as soon as they run.
    pub fn new(
        context: TrialContext<'a, 'm>,
        kept: &'a mut BetweenTrials,
        announce: &'a mut dyn FnMut(Started<'_>),
    ) -> Self {
        Self { context, kept, announce }
    }

    /// What stays from one trial to the next.
    pub fn kept(&self) -> &BetweenTrials {
        self.kept
    }

    /// Makes one trial. What is kept of it goes to `files`, the trace to `sink`. Of events the file is kept
    /// of a cell's first trial that records any, and of the others what follows from it.
    ///
    /// # Errors
    /// [`Stop`]. A workload that fails is no error, but a trial that says so.
    pub fn trial(
        &mut self,
        cell: &Cell,
        key: &TrialKey,
        files: &TrialFiles<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Done, Stop> {
        let absolute = |path: &Path| {
            std::path::absolute(path).map_err(|error| failed_early(Error::file("find", path, error)))
        };
        let raw = absolute(files.raw)?;
        let (file, measure) = (absolute(files.events)?, self.context.measure);
        let is_kept = measure.keeps_events_of(key.block);
        let events = measure.events_in(key.block).cloned().map(|sets| TrialEvents { sets, file, is_kept });
        let version = self.version(&cell.workload.tool).map_err(failed_early)?;
        for companion in &cell.beside {
            self.version(&companion.load.tool).map_err(failed_early)?;
        }
        if is_running_load(cell) {
            return self.watched(cell, key, &raw, events.as_ref(), version, sink);
        }
        let started = self.context.machine.now();
        let context = match self.ready(cell, &raw) {
            Ok(context) => context,
            Err(error) => return self.context.without_storage(error, cell, key, started),
        };
        let ExecutionContext { target, server, folder } = &context;
        self.context.target = target.clone();
        let job = Job {
            workload: &cell.workload,
            target: target.as_ref().map(|t| (t.path(), t.size())),
            raw: &raw,
            server: server.as_ref().map(|server| &server.connection),
            folder: folder.as_ref().map(|(path, _)| path.as_path()),
            access: target.as_ref().map_or(TargetAccess::ReadWrite, Target::access),
            host: tools::host(),
        };
        // What is refused is refused before any setting is changed.
        let commands = vec![tools::invocation(&job).map_err(failed_early)?.argv];
        let beside = beside::commands(&job, &cell.beside).map_err(failed_early)?;
        let mut bench = HostBench {
            machine: self.context.machine,
            target: target.as_ref(),
            server: server.as_ref(),
            folder: job.folder,
            version: &version,
            raw: &raw,
            interval: self.context.measure.interval,
            events: events.as_ref(),
            descriptors: self.kept.descriptors,
            timeout: self.context.measure.timeout,
            interrupt: self.context.interrupt,
            announce: self.announce,
        };
        let done = self.context.trial(&mut bench, cell, key, sink);
        if let Some((_, made)) = folder {
            self.context.ledger.clear(made).map_err(|error| Stop::Ledger(error.to_string()))?;
        }
        let mut done = done?;
        done.trial.environment.insert("tool".into(), version);
        done.trial.environment.extend(what_is_recorded(events.as_ref()));
        done.trial.environment.extend(server.iter().flat_map(|server| server.about.clone()));
        if let (Some(measurement), Some(server)) =
            (&mut done.trial.measurement, target.as_ref().and_then(Target::server))
        {
            measurement.outcome.warnings.extend(server.warning());
        }
        done.commands = commands;
        done.beside = beside;
        Ok(done)
    }

    /// Makes one trial of a load that runs already.
    fn watched(
        &mut self,
        cell: &Cell,
        key: &TrialKey,
        raw: &Path,
        events: Option<&TrialEvents>,
        version: String,
        sink: &mut dyn Sink,
    ) -> Result<Done, Stop> {
        let commands = workloads::invocation(&Job::planned(&cell.workload, None, raw));
        let commands = vec![commands.map_err(|error| failed_early(error.into()))?.argv];
        let descriptors = self.kept.descriptors;
        let load = self.kept.running(&cell.workload.options).map_err(failed_early)?;
        let mut shown = Environment::new();
        let mut bench = RunningLoadBench {
            load,
            machine: self.context.machine,
            raw,
            interval: self.context.measure.interval,
            events,
            descriptors,
            interrupt: self.context.interrupt,
            shown: &mut shown,
        };
        let mut done = self.context.trial(&mut bench, cell, key, sink)?;
        done.trial.environment.insert("tool".into(), version);
        done.trial.environment.extend(what_is_recorded(events));
        done.trial.environment.extend(shown);
        done.commands = commands;
        Ok(done)
    }

    /// Sees to it that a cell has all that it stands on.
    fn ready(&mut self, cell: &Cell, raw: &Path) -> Result<ExecutionContext, Error> {
        let (ledger, interrupt) = (&mut *self.context.ledger, self.context.interrupt);
        if !self.kept.storage.stands_for(cell) {
            // A server's data are on what will be taken down.
            self.kept.servers.clear(ledger)?;
        }
        let target = self.kept.storage.ready(ledger, cell, interrupt)?.cloned();
        let place = self.kept.storage.folder()?;
        if !needs_folder(&cell.workload.tool) {
            self.kept.servers.stop(ledger)?;
            return Ok(ExecutionContext { target, server: None, folder: None });
        }
        let place = place.ok_or_else(|| {
            Error::Unsupported(format!(
                "{} makes files of its own, and here is only a block device; let the stack end in a filesystem",
                cell.workload.tool.name()
            ))
        })?;
        let trial = server::Trial { raw, interrupt, descriptors: self.kept.descriptors };
        if let (Some(server), Needs::Server) =
            (target.as_ref().and_then(Target::server), workloads::of(&cell.workload.tool).needs())
        {
            let access = self.kept.databases.ready(ledger, &cell.workload, server, &place, &trial)?;
            return Ok(ExecutionContext { target, server: Some(access), folder: None });
        }
        let server = self.kept.servers.ready(ledger, &cell.workload, &place, &trial)?;
        let folder = match server {
            Some(_) => None,
            None => {
                let (folder, made) =
                    ledger.making(|ledger| ledger.make_tree(&place, cell.workload.tool.name()));
                Some((folder?, made))
            }
        };
        Ok(ExecutionContext { target, server, folder })
    }

    fn version(&mut self, tool: &Tool) -> Result<String, Error> {
        // All commands share the tool's name, so that each one's program is looked for.
        if matches!(workloads::of(tool).program(tool), Ok(Program::Named(_))) {
            return tools::detect(self.context.machine, tool);
        }
        if let Some(known) = self.kept.versions.get(tool.name()) {
            return Ok(known.clone());
        }
        let version = tools::detect(self.context.machine, tool)?;
        self.kept.versions.insert(tool.name(), version.clone());
        Ok(version)
    }
}

/// Which events are recorded: their cost is in the trial's figures.
fn what_is_recorded(events: Option<&TrialEvents>) -> Option<(String, String)> {
    events.map(|events| ("events".to_owned(), events.sets.to_string()))
}

/// What a cell stands on.
struct ExecutionContext {
    target: Option<Target>,
    server: Option<Access>,
    /// A folder for its own files, and what is to be undone of it.
    folder: Option<(PathBuf, ChangeSet)>,
}

/// Whether a tool works on files of its own, or its server does.
fn needs_folder(tool: &Tool) -> bool {
    matches!(workloads::of(tool).needs(), Needs::Folder | Needs::Server)
}

/// Whether a cell's load runs already, whatever Flyball does.
fn is_running_load(cell: &Cell) -> bool {
    workloads::of(&cell.workload.tool).needs() == Needs::RunningLoad
}

impl TrialContext<'_, '_> {
    /// Makes one trial with any bench.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn trial(
        &mut self,
        bench: &mut dyn Bench,
        cell: &Cell,
        key: &TrialKey,
        sink: &mut dyn Sink,
    ) -> Result<Done, Stop> {
        let started = self.machine.now();
        let device = self.target.as_ref().and_then(Target::device);
        let (settings, measured) = match self.ledger.apply(&cell.settings, device) {
            Ok(mut settings) => {
                let measured = self.measure(bench, cell, sink, &mut settings);
                (settings, measured)
            }
            Err(error) => (Vec::new(), Err(setting_error(error)?)),
        };
        let restored = self.ledger.restore();
        let (measured, environment, storage) = match measured {
            Ok(Measured { measurement, environment, storage }) => (Ok(measurement), environment, storage),
            Err(Failure::Workload(text, environment)) => (Err(text), environment, None),
            Err(Failure::Stop(stop)) => return Err(worst(stop, &restored)),
        };
        let trial = self.described(cell, key, started, settings, environment, measured);
        Ok(Done { trial, restored, commands: Vec::new(), beside: Vec::new(), storage })
    }

    /// What becomes of a trial whose target could not be made.
    fn without_storage(
        &self,
        error: Error,
        cell: &Cell,
        key: &TrialKey,
        started: Timestamp,
    ) -> Result<Done, Stop> {
        use machine::stack::Error as Stack;
        if let Error::Stack(Stack::NotDown(_) | Stack::Ledger(_) | Stack::Claim(_))
        | Error::Database(machine::database::Error::Ledger(_))
        | Error::Ledger(_) = &error
        {
            return Err(Stop::Ledger(error.to_string()));
        }
        match Failure::from_bench(error.into(), self.fixed.clone()) {
            Failure::Stop(stop) => Err(stop),
            Failure::Workload(text, environment) => {
                let trial = self.described(cell, key, started, Vec::new(), environment, Err(text));
                Ok(Done {
                    trial,
                    restored: RestoreReport::default(),
                    commands: Vec::new(),
                    beside: Vec::new(),
                    storage: None,
                })
            }
        }
    }

    /// What a trial of the cell is not kept waiting for.
    fn measured_beside(&self, cell: &Cell) -> Vec<Cause> {
        let resync = cell.stack.as_ref().is_some_and(Stack::resyncs_in_background).then_some(Cause::Resync);
        let load: &[Cause] =
            if self.measure.under_load { &[Cause::OtherLoad, Cause::Writeback] } else { &[] };
        resync.into_iter().chain(load.iter().copied()).collect()
    }

    /// Everything between the writing of the settings and their return.
    fn measure(
        &self,
        bench: &mut dyn Bench,
        cell: &Cell,
        sink: &mut dyn Sink,
        settings: &mut [SettingRecord],
    ) -> Result<Measured, Failure> {
        let mut disturbances = Vec::new();
        let early = |error: Error| Failure::from_bench(error.into(), Environment::new());
        let caches = if is_running_load(cell) {
            // What is dirty and what is cached is that load's.
            "kept, as a running load has them".to_owned()
        } else {
            self.empty_caches(&mut disturbances).map_err(early)?
        };
        // Before the machine is to come to rest, for it reads a file of each device.
        let storage = self.built_storage();
        let beside = self.measured_beside(cell);
        let paced = Paced::hold().map_err(|error| early(error.into()))?;
        let settled =
            settle::settle(self.machine, self.measure.settle, &beside, self.interrupt).map_err(early)?;
        let environment = self.environment(caches, &settled);
        disturbances.extend(settled.remaining);
        let mut measurement =
            bench.run(cell, sink).map_err(|e| Failure::from_bench(e, environment.clone()))?;
        drop(paced);
        let changed = self.ledger.reread(settings);
        disturbances.append(&mut measurement.disturbances);
        disturbances.extend(guards::judge_settings(settings, &changed));
        measurement.disturbances = disturbances;
        Ok(Measured { measurement, environment, storage })
    }

    /// The machine's storage as it is, where the study built what the trial stands on.
    fn built_storage(&self) -> Option<Storage> {
        self.target.as_ref().filter(|target| !target.built_by().is_empty())?;
        // A file that holds what nobody expects is told where the inventory is taken.
        machine::inventory::storage(self.machine).ok()
    }

    /// Writes out what is dirty, disks' own caches too, and drops cached pages where the study asks for it;
    /// says which.
    fn empty_caches(&self, disturbances: &mut Vec<Disturbance>) -> Result<String, Error> {
        let mut tell = |kind: &str, detail| disturbances.push(Disturbance { kind: kind.into(), detail });
        let to_flush = self.target.as_ref().and_then(Target::to_flush);
        let limit = self.measure.settle.max(settle::WRITE_OUT);
        match settle::write_out(to_flush, limit, self.interrupt) {
            Ok(true) => {}
            Ok(false) => tell("unsettled", format!("writing out dirty data took longer than {limit}")),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => tell("caches-kept", error.to_string()),
        }
        if let Err(error) = self.forget_grown_stripes() {
            tell("caches-kept", format!("an array's stripe cache stays as it has grown: {error}"));
        }
        if !self.measure.drop_caches {
            return Ok("kept, as the study asks".into());
        }
        if machine::settings::drop_caches(self.machine).is_ok() {
            return Ok(DROPPED_ALL.into());
        }
        // A server's files are its own business.
        let target = self.target.as_ref().filter(|target| target.server().is_none());
        match target.map(|target| settle::forget_cached(target.path())) {
            Some(Ok(())) => Ok(DROPPED_TARGET.into()),
            None => Ok("kept: dropping all needs root, and there is no target".into()),
            Some(Err(error)) => {
                tell("caches-kept", error.to_string());
                Ok("kept".into())
            }
        }
    }

    /// Arrays that the study has built begin each trial as they were built: what an earlier trial made of
    /// their stripe caches would make this one faster.
    fn forget_grown_stripes(&self) -> std::io::Result<()> {
        let built = self.target.as_ref().filter(|target| !target.built_by().is_empty());
        let devices = built.map(|target| environment::devices_below(self.machine, target.path()));
        for device in devices.unwrap_or_default() {
            machine::settings::forget_grown_stripes(self.machine, &device)?;
        }
        Ok(())
    }

    fn environment(&self, caches: String, settled: &Settled) -> Environment {
        let mut all = self.fixed.clone();
        all.extend(environment::now(self.machine));
        if let Some(target) = &self.target {
            all.extend(target.shown());
            all.extend(target.file().map_or_else(Environment::new, |file| {
                environment::below(self.machine, file, target.device())
            }));
        }
        all.insert("caches".into(), caches);
        all.insert("settled".into(), settled.summary());
        all
    }

    fn described(
        &self,
        cell: &Cell,
        key: &TrialKey,
        started: Timestamp,
        settings: Vec<SettingRecord>,
        environment: Environment,
        measured: Result<Measurement, String>,
    ) -> Trial {
        let (validity, measurement) = match measured {
            Err(text) => (Validity::Failed(text), None),
            Ok(m) if m.disturbances.iter().all(|d| self.measure.under_load && d.is_load()) => {
                let is_traced = self.measure.traced_block() == Some(key.block);
                (if is_traced { Validity::Traced } else { Validity::Valid }, Some(m))
            }
            Ok(m) => (Validity::Disturbed(m.disturbances.clone()), Some(m)),
        };
        Trial {
            run: self.run.clone(),
            key: key.clone(),
            study: self.study.to_owned(),
            workload: cell.workload.name.clone(),
            levels: cell.levels.clone(),
            provenance: self.provenance,
            machine: self.identity.to_owned(),
            started,
            settings,
            environment,
            validity,
            measurement,
            lab: None,
            origin: None,
        }
    }
}

/// Why there is no measurement.
enum Failure {
    /// A failed trial: how, and what the machine was like.
    Workload(String, Environment),
    /// No trial at all.
    Stop(Stop),
}

impl Failure {
    fn from_bench(error: BenchError, environment: Environment) -> Self {
        match error {
            BenchError::Failed(text) => Self::Workload(text, environment),
            BenchError::Unsupported(text) => Self::Stop(Stop::Unsupported(text)),
            BenchError::Interrupted => Self::Stop(Stop::Interrupted),
            BenchError::Sink(error) => Self::Stop(Stop::Sink(error)),
        }
    }
}

/// What a setting that could not be written means for the trial. The ledger has put back what it wrote
/// before.
fn setting_error(error: machine::settings::Error) -> Result<Failure, Stop> {
    use machine::settings::Error as E;
    match error {
        E::NotUndone { .. } | E::State { .. } | E::Busy { .. } => Err(Stop::Ledger(error.to_string())),
        _ => Ok(Failure::from_bench(Error::from(error).into(), Environment::new())),
    }
}

/// A setting that could not be put back matters more than why the trial stopped.
fn worst(stop: Stop, restored: &RestoreReport) -> Stop {
    let failed: Vec<String> = restored.failed().map(ToString::to_string).collect();
    if failed.is_empty() { stop } else { Stop::Ledger(failed.join("; ")) }
}

/// An error before anything was changed.
fn failed_early(error: Error) -> Stop {
    match BenchError::from(error) {
        BenchError::Interrupted => Stop::Interrupted,
        BenchError::Sink(error) => Stop::Sink(error),
        BenchError::Unsupported(text) | BenchError::Failed(text) => Stop::Unsupported(text),
    }
}
