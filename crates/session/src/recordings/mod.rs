//! Recordings: what a machine, a process or a command did, without a study, as a run of one trial.

mod stored;
mod watch_over;

pub use stored::{short_command, watched_in_words};
pub use watch_over::watch_over;

use crate::error::{Error, Result};
use analysis::recorded::{Ends, SIGNAL};
use domain::database::{ExistingServer, Kind};
use domain::ids::RunId;
use domain::inventory::Inventory;
use domain::outcome::Metric;
use domain::per_work;
use domain::trial::{PROCESS, Provenance};
use domain::{Nanos, Sink, Timestamp};
use machine::supervise::Supervisor;
use machine::{LocalMachine, Machine};
use notebook::{Notebook, Recording, RecordingFolder, WholeRun};
use recorder::{Interval, Recorder, RecorderConfig};
use runner::following::{Ending, Until, Watched};
use runner::watched_server::WatchedServer;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use stored::{BY_ITSELF, ENDED, Recorded, key, process_in_words};

/// From one sample to the next where nobody says.
const INTERVAL: Nanos = Nanos::from_millis(10);

/// What is to be recorded, and where it is kept.
#[derive(Debug)]
pub struct RecordRequest<'a> {
    /// Whom to follow.
    pub watched: Watched<'a>,
    /// The server whose counters are read; `None` for none.
    pub server: Option<Arc<WatchedServer>>,
    /// Between two samples; `None` for [`INTERVAL`], or as much longer as keeps sampling cheap.
    pub interval: Option<Nanos>,
    /// After this long recording ends; `None` for no bound.
    pub duration: Option<Nanos>,
    /// Where it goes.
    pub place: Place<'a>,
    /// What was typed, which the notebook keeps.
    pub typed: Vec<String>,
    /// Set by somebody else when recording is to end.
    pub interrupt: &'a AtomicBool,
}

/// Where a recording goes.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// A notebook's folder; it is made where there is none.
    Notebook(&'a Path),
    /// A new folder outside any notebook.
    Folder(&'a Path),
}

/// Where it went.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The folder of the trial, or of the recording.
    pub folder: PathBuf,
    /// `None` outside any notebook.
    pub run: Option<RunId>,
}

/// What was recorded, and how it ended.
#[derive(Debug)]
pub struct Done {
    /// What is known of it as a whole.
    pub recording: Recording,
    /// The machine.
    pub inventory: Inventory,
    /// Where it went.
    pub kept: Kept,
    /// How it ended.
    pub ending: Ending,
}

/// Finds whom to follow, and the server whose counters are to be read: a process where there is one, else a
/// command where it has a word, else the server's process where it is known, else the machine.
///
/// # Errors
/// Where the process cannot be followed, or the server cannot be asked.
pub fn find(
    pid: Option<u32>,
    command: &[String],
    server: Option<(Kind, ExistingServer)>,
) -> Result<(Watched<'_>, Option<Arc<WatchedServer>>)> {
    let server = server.map(|(kind, server)| WatchedServer::open(kind, &server)).transpose()?;
    let of_server = server.as_ref().and_then(|server| server.pid());
    Ok((Watched::of(pid, command, of_server)?, server))
}

/// Records until what is recorded ends, the time is over, or somebody asks us to stop. `watcher` starts who
/// ends what is recorded should this process be killed; it is started before anything is.
///
/// # Errors
/// Where a command cannot be run, the recorder cannot sample, or nothing can be kept.
pub fn record(request: &RecordRequest<'_>, watcher: impl FnOnce() -> Result<Supervisor>) -> Result<Done> {
    let mut destination = Destination::begin(request.place)?;
    let watcher = watcher()?;
    let inventory = machine::inventory::take(&LocalMachine)?;
    let mut environment = runner::environment::fixed(&LocalMachine);
    environment.extend(runner::environment::now(&LocalMachine));
    let spool = destination.raw_dir().join("samples.spool");
    let started = LocalMachine.now();
    let interval = request.interval.map_or(Interval::AtLeast(INTERVAL), Interval::Exactly);
    let recorder = Recorder::start(RecorderConfig::new(interval, spool.clone()))?;
    let children_before = recorder::children_cpu();
    let counters = destination.raw_dir().join("server-counters.tsv");
    let watching = request.server.as_ref().map(|server| server.watch(&counters)).transpose()?;
    let begun = Instant::now();
    let until = Until::new(request.interrupt, request.duration.map(Duration::from));
    let ending = request.watched.follow(&until, &recorder);
    let ended = Instant::now();
    let duration = Nanos::new((ended - begun).as_nanos() as u64);
    let mut recorded = recorder.stop()?;
    let by_itself = ending.as_ref().is_ok_and(|ending| ending.by_itself);
    let counted = watching.map(|watching| watching.stop(by_itself.then_some(ended)));
    let ending = ending?;
    recorded.set_workload_cpu(recorder::children_cpu() - children_before);
    let mut metrics = decoded(&recorded, &mut destination)?;
    let removed = std::fs::remove_file(&spool);
    removed.map_err(Error::during(format!("cannot remove `{}`", spool.display())))?;
    environment.extend(about(&request.watched, &ending));
    let mut warnings = Vec::new();
    if let (Some(server), Some(counted)) = (&request.server, counted) {
        let told = runner::server_rates::told(server, &counted, ending.by_itself);
        metrics.extend(told.metrics);
        per_work::add(&mut metrics);
        environment.extend(told.environment);
        warnings = told.warnings;
    }
    let command = match &request.watched {
        Watched::Command(argv) => Some(argv.to_vec()),
        Watched::Machine | Watched::Process(_) | Watched::Server(_) => None,
    };
    let recording = Recording {
        name: name(started),
        machine: machine::inventory::identity(&inventory),
        started,
        command,
        exit_code: ending.status.and_then(|s| s.code()),
        environment,
        metrics,
        warnings,
        duration,
        roles: recorded.roles().clone(),
        threads: recorded.threads().to_vec(),
        disks: recorded.disks().to_vec(),
        recorder: recorded.report().clone(),
    };
    let as_json =
        serde_json::to_string_pretty(&inventory).map_err(Error::during("cannot store the inventory"))?;
    let kept = destination.commit(&recording, &as_json, &request.typed)?;
    watcher.done()?;
    Ok(Done { recording, inventory, kept, ending })
}

/// A recording that is not kept yet.
enum Destination {
    /// A run of the notebook.
    Run(WholeRun),
    /// A folder outside any notebook.
    Folder(RecordingFolder),
}

impl Destination {
    fn begin(place: Place<'_>) -> Result<Self> {
        Ok(match place {
            Place::Folder(folder) => Self::Folder(RecordingFolder::at(folder)?),
            Place::Notebook(folder) => Self::Run(Notebook::create(folder)?.begin_whole_run(&key())?),
        })
    }

    fn raw_dir(&self) -> PathBuf {
        match self {
            Self::Run(run) => run.raw_dir(),
            Self::Folder(folder) => folder.raw_dir(),
        }
    }

    fn sink(&mut self) -> &mut dyn Sink {
        match self {
            Self::Run(run) => run.sink(),
            Self::Folder(folder) => folder.sink(),
        }
    }

    fn commit(self, recording: &Recording, inventory: &str, typed: &[String]) -> Result<Kept> {
        match self {
            Self::Folder(folder) => Ok(Kept { folder: folder.commit(recording)?, run: None }),
            Self::Run(whole) => {
                let provenance = Provenance::Host;
                let begun = recording.started;
                let typed = typed.to_vec();
                let recorded = Recorded { recording, provenance, begun, origin: None, typed };
                let (run, trial) = recorded.run();
                let folder = whole.commit(&run, inventory, &trial, &script(&trial.run))?;
                let folder = folder.join("trials").join(trial.key.folder());
                Ok(Kept { folder, run: Some(run.id) })
            }
        }
    }
}

/// Writes the trace, and gives what it says as a whole.
fn decoded(recorded: &recorder::Recording, to: &mut Destination) -> Result<BTreeMap<String, Metric>> {
    let mut ends = Ends::before(to.sink());
    recorded.decode(&mut ends)?;
    Ok(ends.metrics())
}

/// What a trial's environment says of what was recorded.
fn about(watched: &Watched<'_>, ending: &Ending) -> BTreeMap<String, String> {
    let process = match watched {
        Watched::Process(process) | Watched::Server(process) => {
            Some(process_in_words(process.pid, &process.name))
        }
        Watched::Machine | Watched::Command(_) => None,
    };
    let ended = ending.by_itself.then(|| BY_ITSELF.to_owned());
    let signal = ending.status.filter(|_| ending.by_itself).and_then(|status| status.signal());
    let all = [(PROCESS, process), (ENDED, ended), (SIGNAL, signal.map(|signal| signal.to_string()))];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// A recording is no measurement that somebody could repeat: the machine did what it did.
fn script(run: &RunId) -> String {
    format!(
        "#!/bin/sh\n# Nothing was measured here: what this machine did was recorded. `flyball report {run}` says how.\nset -eu\n\
         flyball show {run}\n"
    )
}

/// `20261120-140502-7f3a`.
fn name(now: Timestamp) -> String {
    let digits: String = now.iso().chars().filter(char::is_ascii_digit).collect();
    format!("{}-{}-{:04x}", &digits[..8], &digits[8..], now.unix_nanos() & 0xffff)
}
