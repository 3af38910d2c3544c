//! Loads that run beside a workload: started before it, ended after it, each with all that it started.
//!
//! What one of them prints or reports is kept in a folder of its own within the trial's, as it wrote it. A
//! load that ends before the workload has ended makes no measurement of the trial.

use crate::child::{self, Ended, How, Running, Task};
use crate::{Error, Target, busy::TICK, host::HostBench, tools};
use domain::study::Companion;
use domain::time::Nanos;
use parse::proc::pid_stat::{PidStat, pid_stat};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use workloads::{Job, STDERR, STDOUT};

/// How often it is looked whether a load still runs that runs alone.
const POLL: Duration = Duration::from_millis(20);

/// The literal command of a load beside a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BesideCommand {
    /// The load's name in the study.
    pub name: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Where it runs; `None` for the folder of Flyball.
    pub(crate) working_folder: Option<PathBuf>,
    /// Its own folder within the trial's; it need not exist.
    pub folder: PathBuf,
    /// How long it runs before the workload is started.
    pub lead: Nanos,
}

/// The commands of loads beside the workload of this job.
///
/// # Errors
/// Those of [`tools::invocation`], for an option or a target that a load is refused.
pub fn commands(job: &Job<'_>, companions: &[Companion]) -> Result<Vec<BesideCommand>, Error> {
    let command = |companion: &Companion| {
        let name = companion.load.name.clone();
        let folder = job.raw.join(format!("beside-{name}"));
        let invocation = tools::invocation(&job.beside(&companion.load, &folder))?;
        let (argv, working_folder) = (invocation.argv, invocation.folder);
        Ok(BesideCommand { name, argv, working_folder, folder, lead: companion.lead })
    };
    companions.iter().map(command).collect()
}

/// The loads that run beside a workload. They are killed with this value.
#[derive(Debug, Default)]
pub struct Beside {
    loads: Vec<Load>,
}

#[derive(Debug)]
struct Load {
    name: String,
    running: Running,
    /// The files in which it says why it failed.
    complaints: Vec<PathBuf>,
}

impl Beside {
    /// Starts all of them, and returns once each has had its lead, or one has ended.
    ///
    /// # Errors
    /// [`Error::MissingTool`] and the like where one cannot be started, [`Error::Interrupted`].
    pub(crate) fn start(
        bench: &mut HostBench<'_>,
        job: &Job<'_>,
        companions: &[Companion],
    ) -> Result<Self, Error> {
        let begin = Instant::now();
        let mut beside = Self::default();
        for (command, companion) in commands(job, companions)?.iter().zip(companions) {
            let load = Load::start(bench, command, companion)?;
            (bench.announce)(Started::Beside(load.running.pid()));
            beside.loads.push(load);
        }
        let lead = companions.iter().map(|companion| companion.lead).max().unwrap_or_default();
        while begin.elapsed() < Duration::from(lead) && beside.all_run() {
            if bench.interrupt.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            std::thread::sleep(POLL.min(Duration::from(lead).saturating_sub(begin.elapsed())));
        }
        if beside.all_run() {
            return Ok(beside);
        }
        // Whoever asks to stop is heard before a load that has ended.
        if bench.interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        // Why it does not is known once it has been waited for.
        beside.end().and(Err(Error::Tool("a load beside the workload does not run".into())))
    }

    /// Whether each of them still runs, and has printed no more than a child may.
    pub(crate) fn all_run(&self) -> bool {
        let runs = |load: &Load| {
            matches!(load.running.ended_within(Duration::ZERO), Ok(false))
                && !load.running.has_printed_too_much()
        };
        self.loads.iter().all(runs)
    }

    /// Their first processes.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.loads.iter().map(|load| load.running.pid()).collect()
    }

    /// The CPU time so far of their processes that live, with that of the descendants that these have waited
    /// for. A process that ends takes its time to whoever waits for it, so that what is used between two
    /// looks is their difference at most.
    pub(crate) fn used(&self) -> Nanos {
        if self.loads.is_empty() {
            return Nanos::ZERO;
        }
        let mut family = self.processes();
        let texts = stat_texts();
        let all = texts.iter().filter_map(|(pid, text)| Some((*pid, pid_stat(text).ok()?)));
        let mut rest: Vec<(u32, PidStat<'_>)> = all.collect();
        let mut ticks = 0;
        loop {
            let belongs = |(pid, stat): &(u32, PidStat<'_>)| {
                [*pid, stat.group, stat.session, stat.parent].iter().any(|id| family.contains(id))
            };
            let (found, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(belongs);
            if found.is_empty() {
                return Nanos::new(ticks * TICK.get());
            }
            let used = |stat: &PidStat<'_>| stat.user_ticks + stat.system_ticks + stat.waited_ticks;
            ticks += found.iter().map(|(_, stat)| used(stat)).sum::<u64>();
            family.extend(found.iter().map(|(pid, _)| *pid));
            rest = others;
        }
    }

    /// Ends all of them.
    ///
    /// # Errors
    /// [`Error::Tool`] where one had ended before, [`Error::Child`] where one does not end.
    pub(crate) fn end(self) -> Result<(), Error> {
        let ended: Vec<Result<(), Error>> = self.loads.into_iter().map(Load::end).collect();
        ended.into_iter().collect()
    }
}

impl Load {
    fn start(bench: &HostBench<'_>, command: &BesideCommand, companion: &Companion) -> Result<Self, Error> {
        let at = |name: &str| command.folder.join(name);
        std::fs::create_dir_all(&command.folder).map_err(|e| Error::file("make", &command.folder, e))?;
        let is_of_the_cpu = workloads::of(&companion.load.tool).is_of_the_cpu(&companion.load.options);
        let task = Task {
            argv: &command.argv,
            folder: command.working_folder.as_deref(),
            stdout: at(STDOUT),
            stderr: at(STDERR),
            descriptors: bench.descriptors,
            environment: &[],
            interval: bench.interval,
            timeout: bench.timeout,
            interrupt: bench.interrupt,
            beside: &Beside::default(),
            only_reads: bench.target.filter(|_| !is_of_the_cpu).and_then(Target::to_be_read),
            marks: None,
        };
        let running = child::start(&task)?;
        let complaints = workloads::of(&companion.load.tool).complaints();
        Ok(Self {
            name: command.name.clone(),
            running,
            complaints: complaints.iter().map(|name| at(name)).collect(),
        })
    }

    fn end(self) -> Result<(), Error> {
        let Self { name, running, complaints } = self;
        let program = running.program().to_owned();
        let Ended { how, elapsed, .. } = running.stop()?;
        let what = match how {
            How::Interrupted => return Ok(()),
            How::Exited(code) => format!("ended by itself after {elapsed}, with exit code {code}"),
            How::Killed(signal) => {
                format!("was killed by {}, and not by flyball, after {elapsed}", tools::signal_name(signal))
            }
            other => format!("did not run as it should ({other:?})"),
        };
        let said = complaints.iter().find_map(|path| tools::complaint(path));
        let said = said.map_or_else(String::new, |text| format!("; it said: {text}"));
        Err(Error::Tool(format!(
            "the load `{name}` beside the workload did not run until the workload had ended: `{program}` {what}{said}; \
             let it go on until it is ended, or take it out"
        )))
    }
}

/// What `/proc/PID/stat` says of each process.
fn stat_texts() -> Vec<(u32, String)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))).collect()
}

/// A process group that was started, for whoever ends it should Flyball be killed.
#[derive(Clone, Copy, Debug)]
pub enum Started<'a> {
    /// That of a load beside the workload.
    Beside(u32),
    /// The workload's, and what it works on.
    Workload(u32, Option<&'a Target>),
}

impl Started<'_> {
    /// The number of the group, which is its first process's.
    pub const fn group(&self) -> u32 {
        match self {
            Self::Beside(group) | Self::Workload(group, _) => *group,
        }
    }
}
