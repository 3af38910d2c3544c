//! `flyball record`: what this machine, a process or a command did, without a study.

mod following;

use crate::args::{Global, Record};
use crate::exit::End;
use crate::interrupt::Interrupt;
use crate::recording::{BY_ITSELF, ENDED, PROCESS, Recorded, key, process_in_words};
use crate::{places, terminal, typed};
use analysis::recorded::{Ends, SIGNAL};
use anyhow::{Context, Result};
use domain::ids::RunId;
use domain::inert::Lines;
use domain::inventory::Inventory;
use domain::outcome::Metric;
use domain::trace::Role;
use domain::trial::Provenance;
use domain::units::Bytes;
use domain::{Nanos, Sink, Timestamp};
use following::{Ending, Until, Watched};
use machine::supervise::{Supervisor, watch_main};
use machine::{LocalMachine, Machine};
use notebook::{Notebook, Recording, RecordingFolder, WholeRun};
use recorder::{Recorder, RecorderConfig};
use rustix::process::{Pid, getppid};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// The version of the JSON form of a recording.
const SCHEMA: u32 = 1;

/// How many threads the summary names; `show RUN TRIAL` has them all.
const MAX_THREADS: usize = 5;

/// How long a killed process may take to close its files, and how often that is looked at.
const MAX_DYING: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);

/// Where a recording goes.
enum Destination {
    /// A run of the notebook.
    Run(WholeRun),
    /// A folder outside any notebook.
    Folder(RecordingFolder),
}

/// Where it went.
struct Kept {
    folder: PathBuf,
    /// `None` outside any notebook.
    run: Option<RunId>,
}

/// What was recorded, and how it ended.
pub struct Done {
    pub recording: Recording,
    pub inventory: Inventory,
    kept: Kept,
    ending: Ending,
}

impl Done {
    /// The run of the notebook; `None` where it went into a folder.
    pub fn run(&self) -> Option<&RunId> {
        self.kept.run.as_ref()
    }

    /// How this program ends after it: as the command did, where that failed.
    pub fn end(&self) -> End {
        match self.ending.status {
            Some(status) if !status.success() => End::Child(code_of(status)),
            _ => End::Done,
        }
    }
}

/// Records, and shows what was recorded.
pub fn record(global: &Global, arguments: &Record) -> Result<End> {
    let done = recorded(global, arguments, &|| {})?;
    show(global, &done.recording, &done.kept)?;
    Ok(done.end())
}

/// Records until what is recorded ends, the time is over, or somebody asks us to stop. `announce` is called
/// before the recording begins, once nothing that was asked for is known to be impossible.
pub fn recorded(global: &Global, arguments: &Record, announce: &dyn Fn()) -> Result<Done> {
    let interrupt = Interrupt::catch()?;
    let watched = Watched::of(arguments)?;
    let mut destination = Destination::begin(global, arguments)?;
    let watcher = watcher(global, arguments)?;
    let inventory = machine::inventory::take(&LocalMachine)?;
    let mut environment = runner::environment::fixed(&LocalMachine);
    environment.extend(runner::environment::now(&LocalMachine));
    let spool = destination.raw_dir().join("samples.spool");
    let started = LocalMachine.now();
    announce();
    let recorder = Recorder::start(RecorderConfig::new(arguments.interval, spool.clone()))?;
    let children_before = recorder::children_cpu();
    let begun = Instant::now();
    let ending = watched.follow(&Until::new(&interrupt, arguments.duration.map(Duration::from)), &recorder);
    let duration = Nanos::new(begun.elapsed().as_nanos() as u64);
    let mut recorded = recorder.stop()?;
    let ending = ending?;
    recorded.set_workload_cpu(recorder::children_cpu() - children_before);
    let metrics = decoded(&recorded, &mut destination)?;
    std::fs::remove_file(&spool).with_context(|| format!("cannot remove `{}`", spool.display()))?;
    environment.extend(about(&watched, &ending));
    let recording = Recording {
        name: name(started),
        machine: machine::inventory::identity(&inventory),
        started,
        command: (!arguments.command.is_empty()).then(|| arguments.command.clone()),
        exit_code: ending.status.and_then(|s| s.code()),
        environment,
        duration,
        roles: recorded.roles().clone(),
        threads: recorded.threads().to_vec(),
        disks: recorded.disks().to_vec(),
        recorder: recorded.report().clone(),
    };
    let as_json = serde_json::to_string_pretty(&inventory).context("cannot store the inventory")?;
    let kept = destination.commit(&recording, metrics, &as_json)?;
    watcher.done()?;
    Ok(Done { recording, inventory, kept, ending })
}

impl Destination {
    fn begin(global: &Global, arguments: &Record) -> Result<Self> {
        Ok(match &arguments.out {
            Some(folder) => Self::Folder(RecordingFolder::at(folder)?),
            None => Self::Run(Notebook::create(&places::notebook(global)?)?.begin_whole_run(&key())?),
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

    fn commit(
        self,
        recording: &Recording,
        metrics: BTreeMap<String, Metric>,
        inventory: &str,
    ) -> Result<Kept> {
        match self {
            Self::Folder(folder) => Ok(Kept { folder: folder.commit(recording)?, run: None }),
            Self::Run(whole) => {
                let provenance = Provenance::Host;
                let begun = recording.started;
                let recorded =
                    Recorded { recording, metrics, provenance, begun, origin: None, typed: typed() };
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
        Watched::Process(process) => Some(process_in_words(process.pid, &process.name)),
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

fn show(global: &Global, recording: &Recording, kept: &Kept) -> Result<()> {
    if global.json {
        terminal::json(&as_json(recording, kept))?;
    } else {
        terminal::lines(&as_text(recording, kept))?;
    }
    if let Some(run) = &kept.run {
        let program = places::this_program(global);
        terminal::say(format_args!(
            "`{program} show {run}` shows it, `{program} report {run}` writes the page"
        ));
    }
    Ok(())
}

/// The code that a shell gives to it: 128 and the number of the signal where one ended it.
fn code_of(status: ExitStatus) -> i32 {
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1)
}

/// This program once more, to end what is recorded should this process be killed, and to remove what was half
/// written. Dropped before it was told that all is done, it takes us for dead: what an error leaves running
/// is ended too.
fn watcher(global: &Global, arguments: &Record) -> Result<Supervisor> {
    let program = std::env::current_exe()
        .context("cannot find this program's own file, to watch over the recording")?;
    let mut command = Command::new(program);
    match &arguments.out {
        Some(folder) => command.arg("watch-recording").arg("--out").arg(places::absolute(folder)?),
        None => command
            .arg("--notebook")
            .arg(places::absolute(&places::notebook(global)?)?)
            .arg("watch-recording"),
    };
    Ok(Supervisor::start(command)?)
}

/// The watcher's own half.
pub fn watch(global: &Global, out: Option<&Path>) -> Result<End> {
    let recording = getppid();
    let Some(ended) = watch_main(BufReader::new(io::stdin()), terminal::verbatim())? else {
        return Ok(End::Done);
    };
    if ended > 0 {
        // Standard error is still the terminal of the one that died.
        terminal::note(format_args!(
            "flyball was killed while it recorded; ended what it recorded: {ended} processes"
        ));
    }
    wait_for_the_end_of(recording);
    match out {
        Some(folder) => RecordingFolder::sweep(folder)?,
        // Opening a notebook sweeps it.
        None => drop(Notebook::open(&places::notebook(global)?)?),
    }
    Ok(End::Done)
}

/// Waits until a parent that is dying has closed its files.
///
/// The kernel closes one after the other, so the pipe may tell of its end while the parent still holds the
/// lock of what it has half written. Its children are given to another parent after that (kernel/exit.c).
fn wait_for_the_end_of(parent: Option<Pid>) {
    let deadline = Instant::now() + MAX_DYING;
    while getppid() == parent && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
}

/// `20261120-140502-7f3a`.
fn name(now: Timestamp) -> String {
    let digits: String = now.iso().chars().filter(char::is_ascii_digit).collect();
    format!("{}-{}-{:04x}", &digits[..8], &digits[8..], now.unix_nanos() & 0xffff)
}

fn as_text(recording: &Recording, kept: &Kept) -> Lines {
    let mut text = Lines::default();
    let Recording { duration, recorder, .. } = recording;
    text.line(format_args!("recorded {duration}: {} samples, {} missed", recorder.samples, recorder.missed));
    let each = recorder.cpu.get() as f64 / recorder.samples.max(1) as f64 / 1e3;
    text.line(format_args!("the recorder itself used {} of CPU time, {each:.0} µs a sample", recorder.cpu));
    text.line(format_args!("frequency from: {}", recorder.frequency.name()));
    for reason in &recorder.absent {
        text.line(format_args!("not recorded: {reason}"));
    }
    text.blank();
    text.line("CPU time by role");
    for role in Role::ALL {
        if let Some(cpu) = recording.roles.get(&role) {
            let share = cpu.get() as f64 / duration.get().max(1) as f64;
            text.line(format_args!("  {:10} {:>9}  {share:.2} CPUs", role.name(), cpu.to_string()));
        }
    }
    text.blank();
    text.line("busiest threads");
    for thread in recording.threads.iter().take(MAX_THREADS) {
        text.line(format_args!(
            "  {:20} {:>9}  {} ({})",
            thread.name,
            thread.cpu.to_string(),
            thread.role,
            thread.tid
        ));
    }
    if !recording.disks.is_empty() {
        text.blank();
        text.line("disks");
    }
    for disk in &recording.disks {
        let (read, written) =
            (Bytes::from_sectors(disk.read_sectors), Bytes::from_sectors(disk.write_sectors));
        text.line(format_args!(
            "  {:10} read {read} in {}, wrote {written} in {}, busy {}",
            disk.device, disk.read_ios, disk.write_ios, disk.busy
        ));
    }
    text.blank();
    match &kept.run {
        Some(run) => text.line(run),
        None => text.line(kept.folder.display()),
    }
    text
}

fn as_json(recording: &Recording, kept: &Kept) -> String {
    let roles: serde_json::Map<_, _> =
        recording.roles.iter().map(|(role, cpu)| (role.name().to_owned(), json!(cpu.get()))).collect();
    let value = json!({
        "schema": SCHEMA,
        "run": kept.run.as_ref().map(|run| &run.0),
        "folder": kept.folder,
        "started": recording.started.iso(),
        "duration_ns": recording.duration.get(),
        "command": recording.command,
        "exit_code": recording.exit_code,
        "samples": recording.recorder.samples,
        "missed": recording.recorder.missed,
        "recorder_cpu_ns": recording.recorder.cpu.get(),
        "frequency_source": recording.recorder.frequency.name(),
        "absent": recording.recorder.absent,
        "role_cpu_ns": roles,
    });
    format!("{value:#}")
}
