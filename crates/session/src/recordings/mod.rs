//! Recordings: what a machine, a process or a command did, without a study, as a run of one trial.

mod marking;
mod onlooker;
mod so_far;
mod stored;
mod watch_over;

pub use marking::mark;
pub use onlooker::{Onlooker, Underway};
pub use so_far::Judged;
pub use stored::{short_command, watched_in_words};
pub use watch_over::{watch_over, watcher};

use crate::error::{Error, Result};
use analysis::recorded::{Ends, SIGNAL};
use domain::database::{ExistingServer, Kind};
use domain::energy::EnergyAccount;
use domain::event_set::Sets;
use domain::ids::RunId;
use domain::inventory::Inventory;
use domain::outcome::Metric;
use domain::per_work;
use domain::phase::{Mark, Phase};
use domain::trace::Role;
use domain::trial::{PROCESS, Provenance};
use domain::{Nanos, Sink, Timestamp};
use events::Facts;
use machine::supervise::Supervisor;
use machine::{LocalMachine, Machine};
use notebook::{Notebook, Recording, RecordingFolder, WholeRun};
use recorder::{Events, Interval, Paced, Recorder, RecorderConfig, Writing};
use runner::event_facts::{self, Sums};
use runner::following::{Ending, Streams, Until, Watched};
use runner::marks::Marks;
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
pub struct RecordRequest<'a> {
    /// Whom to follow.
    pub watched: Watched<'a>,
    /// The server whose counters are read; `None` for none.
    pub server: Option<Arc<WatchedServer>>,
    /// Between two samples; `None` for [`INTERVAL`], or as much longer as keeps sampling cheap.
    pub interval: Option<Nanos>,
    /// Which of the kernel's events are recorded beside the samples; `None` for none but the profile, of
    /// which the sums are kept alone.
    pub events: Option<Sets>,
    /// After this long recording ends; `None` for no bound.
    pub duration: Option<Nanos>,
    /// Where it goes.
    pub place: Place<'a>,
    /// What was typed, which the notebook keeps.
    pub typed: Vec<String>,
    /// Set by somebody else when recording is to end.
    pub interrupt: &'a AtomicBool,
    /// Who looks on; `None` for nobody.
    pub onlooker: Option<&'a dyn Onlooker>,
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
    /// What its events say, where they were recorded.
    pub events: Option<Facts>,
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
    let begun = Begun { request, inventory: &inventory, environment, started: LocalMachine.now() };
    let interval = request.interval.map_or(Interval::AtLeast(INTERVAL), Interval::Exactly);
    let writing = if request.onlooker.is_some() { Writing::EachSample } else { Writing::WhenFull };
    let events = match &request.events {
        Some(sets) => Events::of(sets.clone(), destination.events_file()),
        None => Events::in_passing(destination.raw_dir().join("passing.bin")),
    };
    let events_file = events.file.clone();
    let config =
        RecorderConfig { writing, events: Some(events), ..RecorderConfig::new(interval, spool.clone()) };
    // What a sample costs decides how often the recorder takes one: on these CPUs.
    let paced = Paced::hold()?;
    let recorder = Recorder::start(config)?;
    let children_before = recorder::children_cpu();
    let counters = destination.raw_dir().join("server-counters.tsv");
    let watching = request.server.as_ref().map(|server| server.watch(&counters)).transpose()?;
    let start = Instant::now();
    let until = Until::new(request.interrupt, request.duration.map(Duration::from));
    let marks = Marks::listen(&destination.raw_dir(), &recorder);
    let follow =
        |streams: Streams<'_>| request.watched.follow(&until, &recorder, marks.as_ref().ok(), streams);
    let (ending, looked) = match request.onlooker {
        None => (follow(Streams::Ours), Ok(())),
        Some(onlooker) => onlooker::beside(onlooker, &begun, &spool, follow),
    };
    let end = Instant::now();
    let duration = Nanos::new((end - start).as_nanos() as u64);
    let mut recorded = recorder.stop()?;
    let marked = marks.map(Marks::stop);
    drop(paced);
    let by_itself = ending.as_ref().is_ok_and(|ending| ending.by_itself);
    let counted = watching.map(|watching| watching.stop(by_itself.then_some(end)));
    let ending = ending?;
    recorded.set_cpu(Role::Workload, recorder::children_cpu() - children_before);
    let marks = marked.as_ref().map(|marked| marked.marks.clone()).unwrap_or_default();
    let Decoded { metrics, phases, energy, lack } = decoded(&recorded, destination.sink(), marks)?;
    let removed = std::fs::remove_file(&spool);
    removed.map_err(Error::during(format!("cannot remove `{}`", spool.display())))?;
    let mut recording = begun.recording(&recorded, metrics, duration, Some(&ending));
    recording.phases = phases;
    recording.recorder.energy = energy;
    recording.recorder.absent.extend(lack);
    match marked {
        Err(error) => recording.recorder.absent.push(format!("no marks: {error}")),
        Ok(marked) => recording.recorder.absent.extend(marked.is_cut()),
    }
    let facts = event_facts::read(&events_file);
    let events = match (facts, &request.events) {
        (Ok(mut facts), asked) => {
            let sums = Sums::taken_from(&mut facts, &mut recording.disks, inventory.cpufreq.as_ref());
            recording.profile = sums.profile;
            recording.windows = sums.windows;
            recording.spent = sums.spent;
            recording.calls = sums.calls;
            recording.environment.extend(event_facts::times_from(&facts));
            recording.recorder.absent.extend(event_facts::unseen(&facts, &recording.disks));
            asked.as_ref().map(|_| facts)
        }
        (Err(error), Some(_)) => return Err(error.into()),
        // What was not asked for costs no recording.
        (Err(error), None) => {
            recording.recorder.absent.push(format!("no profile and no access patterns: {error}"));
            None
        }
    };
    recording.warnings = events.iter().filter_map(event_facts::loss).collect();
    if request.events.is_none() {
        let removed = std::fs::remove_file(&events_file);
        removed.map_err(Error::during(format!("cannot remove `{}`", events_file.display())))?;
    }
    if let (Some(server), Some(counted)) = (&request.server, counted) {
        let told = runner::server_rates::told(server, &counted, ending.by_itself);
        recording.metrics.extend(told.metrics);
        per_work::add(&mut recording.metrics);
        recording.environment.extend(told.environment);
        recording.warnings.extend(told.warnings);
    }
    let as_json =
        serde_json::to_string_pretty(&inventory).map_err(Error::during("cannot store the inventory"))?;
    let kept = destination.commit(&recording, &as_json, &request.typed)?;
    watcher.done()?;
    looked.map_err(Error::during("cannot draw on the terminal any more; what was recorded is kept"))?;
    Ok(Done { recording, events, inventory, kept, ending })
}

/// What is known of a recording from its beginning on.
struct Begun<'a> {
    request: &'a RecordRequest<'a>,
    inventory: &'a Inventory,
    environment: BTreeMap<String, String>,
    started: Timestamp,
}

impl Begun<'_> {
    /// All that is known of it, once it has ended, or so far.
    fn recording(
        &self,
        recorded: &recorder::Recording,
        metrics: BTreeMap<String, Metric>,
        duration: Nanos,
        ending: Option<&Ending>,
    ) -> Recording {
        let mut environment = self.environment.clone();
        environment.extend(about(&self.request.watched, ending));
        Recording {
            name: name(self.started),
            machine: machine::inventory::identity(self.inventory),
            started: self.started,
            command: self.command().map(<[String]>::to_vec),
            exit_code: ending.and_then(|ending| ending.status?.code()),
            environment,
            metrics,
            warnings: Vec::new(),
            duration,
            roles: recorded.roles().clone(),
            threads: recorded.threads().to_vec(),
            disks: recorded.disks().to_vec(),
            profile: None,
            windows: None,
            phases: Vec::new(),
            spent: BTreeMap::new(),
            calls: None,
            recorder: recorded.report().clone(),
        }
    }

    fn command(&self) -> Option<&[String]> {
        match self.request.watched {
            Watched::Command(argv) => Some(argv),
            Watched::Machine | Watched::Process(_) | Watched::Server(_) => None,
        }
    }
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

    fn events_file(&self) -> PathBuf {
        match self {
            Self::Run(run) => run.events_file(),
            Self::Folder(folder) => folder.events_file(),
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

/// What a trace says.
struct Decoded {
    /// As a whole.
    metrics: BTreeMap<String, Metric>,
    /// From mark to mark.
    phases: Vec<Phase>,
    /// By what energy was measured.
    energy: Option<EnergyAccount>,
    /// Why it was not.
    lack: Option<String>,
}

/// Writes the trace, and gives what it says.
fn decoded(recorded: &recorder::Recording, to: &mut dyn Sink, marks: Vec<Mark>) -> Result<Decoded> {
    let mut ends = Ends::with_marks(to, marks);
    recorded.decode(&mut ends)?;
    Ok(Decoded {
        metrics: ends.metrics(),
        phases: ends.phases(),
        energy: ends.energy(),
        lack: ends.lack_of_energy(),
    })
}

/// What a trial's environment says of what was recorded, which goes on where there is no ending.
fn about(watched: &Watched<'_>, ending: Option<&Ending>) -> BTreeMap<String, String> {
    let process = match watched {
        Watched::Process(process) | Watched::Server(process) => {
            Some(process_in_words(process.pid, &process.name))
        }
        Watched::Machine | Watched::Command(_) => None,
    };
    let by_itself = ending.filter(|ending| ending.by_itself);
    let ended = by_itself.map(|_| BY_ITSELF.to_owned());
    let signal = by_itself.and_then(|ending| ending.status?.signal());
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
