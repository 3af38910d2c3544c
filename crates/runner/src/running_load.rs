//! A load that runs already, watched for one trial: its process, its server's counters, or what a command
//! tells of it. Nothing is done to it; what changes are the settings of the machine below it.
//!
//! After a change of settings the load is left alone for a while (`wash_out`), so that what a trial measures
//! is not what the one before it has left: queues, averages of governors, dirty pages. Comparisons whose
//! periods alternate in random order, with such a pause, are switchback experiments: Bojinov, Simchi-Levi and
//! Zhao, "Design and analysis of switchback experiments", Management Science 69, 2023.

use crate::beside::Beside;
use crate::child::{self, How, Task};
use crate::event_facts::TrialEvents;
use crate::following::{self, Process};
use crate::host::TrialRecording;
use crate::watched_server::WatchedServer;
use crate::{Error, server_rates};
use domain::bench::{Bench, BenchError, Sink};
use domain::outcome::{Metric, Outcome};
use domain::plan::Cell;
use domain::time::Nanos;
use domain::trial::Measurement;
use machine::{LocalMachine, Machine};
use parse::proc::pid_io::{PidIo, pid_io};
use parse::proc::pid_stat::pid_stat;
use recorder::Interval;
use rustix::process::Rlimit;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use workloads::running::options::{MetricCommand, Number};
use workloads::running::{CALL_THROUGHPUT, DEVICE_THROUGHPUT, IO_CALLS};

/// How often a level is asked for while a load is watched.
const ASK: Duration = Duration::from_secs(1);

/// How often the end of a span, or of the load, is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// How long a command may take to print its number: it is part of what is measured.
const COMMAND_LIMIT: Nanos = Nanos::from_secs(10);

/// How much of what a command printed is read: a number has some twenty digits.
const MAX_NUMBER: u64 = 4096;

/// A running load, found once and watched in each trial. The process stays the one that was found: where its
/// number is given to another, nobody follows that one.
#[derive(Debug)]
pub struct WatchedLoad {
    load: workloads::running::RunningLoad,
    process: Option<Process>,
    server: Option<Arc<WatchedServer>>,
}

impl WatchedLoad {
    /// Finds the load that a workload's options name.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where there is no such process, or what it reads and writes is hidden;
    /// [`Error::Database`] where the server does not answer.
    pub fn find(options: &workloads::Options) -> Result<Self, Error> {
        let load = workloads::running::RunningLoad::parse(options)
            .map_err(|error| Error::Unsupported(format!("cannot watch the running load: {error}")))?;
        let process = load.pid.map(Process::open).transpose().map_err(not_followed)?;
        let server = load.server.as_ref().map(|(kind, server)| WatchedServer::open(*kind, server));
        let tells_otherwise = load.server.is_some() || load.metric_command.is_some();
        if let (Some(process), false) = (&process, tells_otherwise) {
            io_of_tree(&LocalMachine, process.pid).map_err(Error::Unsupported)?;
        }
        Ok(Self { process, server: server.transpose()?, load })
    }

    /// The first of these metrics that it can give; `None` where it gives none of them.
    pub fn first_of(&self, metrics: &[&'static str]) -> Option<&'static str> {
        let lacks = |metric: &str| {
            self.server.as_ref().is_none_or(|server| server.missing().iter().any(|one| one.metric == metric))
        };
        metrics.iter().copied().find(|metric| !lacks(metric))
    }

    /// Which one: `process 77 (postgres)`, `MariaDB at /run/mysqld/mysqld.sock`, `the number of cat count`.
    pub fn name(&self) -> String {
        let process = self.process.as_ref().map(|one| format!("process {} ({})", one.pid, one.name));
        let server = self.server.as_ref().map(|server| server.name());
        let command =
            self.load.metric_command.as_ref().map(|command| format!("the number of {}", command.line));
        process.or(server).or(command).unwrap_or_default()
    }

    /// The process whose CPU time is the load's.
    fn pid(&self) -> Option<u32> {
        let own = self.process.as_ref().map(|process| process.pid);
        own.or_else(|| self.server.as_ref()?.pid())
    }

    fn has_ended(&self) -> Result<bool, Error> {
        self.process.as_ref().map_or(Ok(false), Process::has_ended).map_err(not_followed)
    }
}

fn not_followed(error: following::Error) -> Error {
    Error::Unsupported(error.to_string())
}

/// Watches a running load on this machine.
pub(crate) struct RunningLoadBench<'a> {
    pub load: &'a WatchedLoad,
    /// Read before and after.
    pub machine: &'a dyn Machine,
    /// The trial's folder for raw output.
    pub raw: &'a Path,
    /// How often the recorder samples at the most: seldomer where that would take more than its share of a
    /// CPU, which a load that runs at a governor's mercy would feel.
    pub interval: Nanos,
    /// The events that are recorded besides.
    pub events: Option<&'a TrialEvents>,
    /// The limit on open files of the command that prints a number.
    pub descriptors: Rlimit,
    /// Set by somebody else when the trial is to be ended.
    pub interrupt: &'a AtomicBool,
    /// What is known of the load once it was watched, for the trial's environment.
    pub shown: &'a mut BTreeMap<String, String>,
}

impl Bench for RunningLoadBench<'_> {
    fn run(&mut self, _: &Cell, sink: &mut dyn Sink) -> Result<Measurement, BenchError> {
        self.watch(sink).map_err(BenchError::from)
    }
}

impl RunningLoadBench<'_> {
    fn watch(&mut self, sink: &mut dyn Sink) -> Result<Measurement, Error> {
        let load = &self.load.load;
        self.wait(Instant::now() + Duration::from(load.wash_out), &mut || Ok(()))?;
        let recording = TrialRecording::begin(
            self.machine,
            self.raw,
            Interval::AtLeast(self.interval),
            self.events,
            vec![],
        );
        if let Some(pid) = self.load.pid() {
            recording.follow(pid);
        }
        let counters = self.raw.join("server-counters.tsv");
        let watching = self.load.server.as_ref().map(|server| server.watch(&counters)).transpose()?;
        let mut figures = Figures::begin(self)?;
        let begun = Instant::now();
        self.wait(begun + Duration::from(load.span), &mut || figures.level(self))?;
        let duration = Nanos::new(begun.elapsed().as_nanos() as u64);
        figures.end(self)?;
        let counted = watching.map(|watching| watching.stop(None));
        let recorded = recording.end(self.machine);
        let mut outcome = Outcome { metrics: figures.metrics, ..Outcome::default() };
        outcome.warnings.extend(figures.warning);
        if let (Some(server), Some(counted)) = (&self.load.server, counted) {
            let told = server_rates::told(server, &counted, false);
            outcome.metrics.extend(told.metrics);
            outcome.warnings.extend(told.warnings);
            self.shown.extend(told.environment);
        }
        self.shown.insert("running load".to_owned(), self.load.name());
        let measurement = Measurement {
            outcome,
            commands: Vec::new(),
            duration,
            roles: BTreeMap::new(),
            threads: Vec::new(),
            disks: Vec::new(),
            recorder: None,
            profile: None,
            windows: None,
            phases: Vec::new(),
            spent: Default::default(),
            calls: None,
            disturbances: Vec::new(),
        };
        recorded.complete(measurement, BTreeMap::new(), false, sink)
    }

    /// Waits until a time, and asks for a level once a second meanwhile.
    fn wait(&self, until: Instant, ask: &mut dyn FnMut() -> Result<(), Error>) -> Result<(), Error> {
        let mut next = Instant::now() + ASK;
        loop {
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            if self.load.has_ended()? {
                return Err(Error::Unsupported(format!(
                    "{} ended while it was measured; start the load again, and measure it by its new number",
                    self.load.name()
                )));
            }
            let now = Instant::now();
            if now >= until {
                return Ok(());
            }
            if now >= next {
                ask()?;
                next = Instant::now() + ASK;
            }
            std::thread::sleep(LOOK.min(until.saturating_duration_since(now)));
        }
    }

    /// The number that a command prints, and when: in the middle of the time that it took.
    fn number(&self, command: &MetricCommand) -> Result<(f64, Instant), Error> {
        let argv = command.argv();
        let (stdout, stderr) =
            (self.raw.join("metric-command.txt"), self.raw.join("metric-command-errors.txt"));
        let task = Task {
            argv: &argv,
            folder: None,
            stdout: stdout.clone(),
            stderr: stderr.clone(),
            descriptors: self.descriptors,
            environment: &[],
            interval: self.interval,
            timeout: COMMAND_LIMIT,
            interrupt: self.interrupt,
            beside: &Beside::default(),
            only_reads: None,
            marks: None,
        };
        let asked = Instant::now();
        let ended = child::run(&task, &mut |_| ())?;
        let when = asked + asked.elapsed() / 2;
        let wrong = |why: String| Error::Tool(format!("the metric command `{}` {why}", command.line));
        match ended.how {
            How::Exited(0) => {}
            How::Interrupted => return Err(Error::Interrupted),
            How::TimedOut => return Err(wrong(format!("was still running after {COMMAND_LIMIT}"))),
            How::Exited(code) => {
                let said = crate::tools::complaint(&stderr).map(|said| format!("; it said: {said}"));
                return Err(wrong(format!("failed with exit code {code}{}", said.unwrap_or_default())));
            }
            How::Killed(_) | How::PrintedTooMuch | How::Abandoned => {
                return Err(wrong("was killed, or printed too much".into()));
            }
        }
        let size = stdout.metadata().map_or(0, |file| file.len());
        let text = if size <= MAX_NUMBER { std::fs::read_to_string(&stdout) } else { Ok(String::new()) };
        let text = text.map_err(|error| Error::file("read", &stdout, error))?;
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        let printed: String = text.trim().chars().take(80).collect();
        let number = number.ok_or_else(|| {
            wrong(format!("printed `{}`, and not one number alone", domain::inert::one_line(&printed)))
        })?;
        Ok((number, when))
    }
}

/// The counters of one metric: of reads and of writes.
type Pair = fn(&PidIo) -> [u64; 2];

/// What tells how fast the load goes, from its begin to its end.
struct Figures {
    /// What the process had read and written, and when that was read.
    io: Option<(PidIo, Instant)>,
    /// The number of a counter, and when it was asked for.
    count: Option<(f64, Instant)>,
    levels: Vec<f64>,
    metrics: BTreeMap<String, Metric>,
    warning: Option<String>,
}

impl Figures {
    fn begin(bench: &RunningLoadBench<'_>) -> Result<Self, Error> {
        let count = match &bench.load.load.metric_command {
            Some(command) if command.number == Number::Counter => Some(bench.number(command)?),
            _ => None,
        };
        let mut figures =
            Self { io: None, count, levels: Vec::new(), metrics: BTreeMap::new(), warning: None };
        figures.io = figures.io_now(bench);
        figures.level(bench)?;
        Ok(figures)
    }

    /// What the process has read and written by now; what hides it is said.
    fn io_now(&mut self, bench: &RunningLoadBench<'_>) -> Option<(PidIo, Instant)> {
        let process = bench.load.process.as_ref()?;
        match io_of_tree(bench.machine, process.pid) {
            Ok(io) => Some((io, Instant::now())),
            Err(why) => {
                self.warning = Some(why);
                None
            }
        }
    }

    /// Asks for a level, where the command tells one.
    fn level(&mut self, bench: &RunningLoadBench<'_>) -> Result<(), Error> {
        if let Some(command) =
            bench.load.load.metric_command.as_ref().filter(|command| command.number != Number::Counter)
        {
            self.levels.push(bench.number(command)?.0);
        }
        Ok(())
    }

    fn end(&mut self, bench: &RunningLoadBench<'_>) -> Result<(), Error> {
        if let (Some((before, from)), Some((after, to))) = (self.io, self.io_now(bench)) {
            self.process(before, after, (to - from).as_secs_f64());
        }
        let Some(command) = &bench.load.load.metric_command else { return Ok(()) };
        let value = match self.count {
            Some((before, from)) => {
                let (after, to) = bench.number(command)?;
                if after < before {
                    return Err(Error::Tool(format!(
                        "the number of `{}` shrank from {before} to {after}, so that it is no count; say what it is with --metric-is level or latency",
                        command.line
                    )));
                }
                (after - before) / (to - from).as_secs_f64()
            }
            None => {
                self.level(bench)?;
                self.levels.iter().sum::<f64>() / self.levels.len() as f64
            }
        };
        self.put(command.number.metric(), value);
        Ok(())
    }

    fn process(&mut self, before: PidIo, after: PidIo, seconds: f64) {
        let grown = |of: Pair| -> Option<u64> {
            let pairs = of(&before).into_iter().zip(of(&after));
            pairs.map(|(before, after)| after.checked_sub(before)).sum()
        };
        let counters: [(&str, Pair); 3] = [
            (DEVICE_THROUGHPUT, |io| [io.read_bytes, io.written_bytes]),
            (CALL_THROUGHPUT, |io| [io.read_chars, io.written_chars]),
            (IO_CALLS, |io| [io.read_calls, io.write_calls]),
        ];
        for (name, of) in counters {
            match grown(of) {
                Some(grown) => self.put(name, grown as f64 / seconds),
                None => {
                    self.warning = Some(
                        "a child of the process was not waited for when it ended; what it did is lost".into(),
                    );
                }
            }
        }
    }

    fn put(&mut self, name: &str, value: f64) {
        let rows = workloads::report::shared_metric(name);
        let (unit, better) = rows.expect("it is a metric of the tool");
        self.metrics.insert(name.to_owned(), Metric { value, unit, better });
    }
}

/// What a process and all that it started have read and written. A child that ends is counted by the one
/// that waits for it (`wait_task_zombie` of the kernel's `exit.c`), so that the sum does not shrink.
fn io_of_tree(machine: &dyn Machine, root: u32) -> Result<PidIo, String> {
    let mut sum = PidIo::default();
    for pid in tree(machine, root) {
        let text = machine.text(&format!("/proc/{pid}/io"));
        let Some(io) = text.and_then(|text| pid_io(&text).ok()) else {
            if pid == root {
                return Err(format!(
                    "what process {pid} reads and writes is hidden (/proc/{pid}/io); run as root, or as its user"
                ));
            }
            continue;
        };
        sum.read_chars += io.read_chars;
        sum.written_chars += io.written_chars;
        sum.read_calls += io.read_calls;
        sum.write_calls += io.write_calls;
        sum.read_bytes += io.read_bytes;
        sum.written_bytes += io.written_bytes;
    }
    Ok(sum)
}

/// A process and its descendants.
fn tree(machine: &dyn Machine, root: u32) -> BTreeSet<u32> {
    let pids = machine.list(Path::new("/proc")).unwrap_or_default().into_iter();
    let parents: Vec<(u32, u32)> = pids
        .filter_map(|name| {
            let pid: u32 = name.parse().ok()?;
            let text = machine.text(&format!("/proc/{pid}/stat"))?;
            Some((pid, pid_stat(&text).ok()?.parent))
        })
        .collect();
    let mut tree = BTreeSet::from([root]);
    loop {
        let before = tree.len();
        tree.extend(
            parents
                .iter()
                .filter(|(_, parent)| tree.contains(parent))
                .map(|(pid, _)| *pid)
                .collect::<Vec<_>>(),
        );
        if tree.len() == before {
            return tree;
        }
    }
}
