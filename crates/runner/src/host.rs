//! [`HostBench`]: one run of a workload on this machine, recorded and guarded.

use crate::beside::{Beside, Started};
use crate::child::{self, Ended, How, Task};
use crate::event_facts::TrialEvents;
use crate::guards;
use crate::marks::{Marked, Marks};
use crate::server::Access;
use crate::snapshot::Snapshot;
use crate::steady;
use crate::tools::{self, Invocation, Job};
use crate::{Error, Target, beside};
use analysis::recorded::Ends;
use domain::bench::{Bench, BenchError, Sink};
use domain::inventory::Cpufreq;
use domain::outcome::{Better, CPU_BUSY, Metric, Outcome};
use domain::per_work;
use domain::plan::Cell;
use domain::stack::Stack;
use domain::study::Tool;
use domain::time::Nanos;
use domain::trace::Role;
use domain::trial::{Disturbance, MAX_THREADS, Measurement};
use domain::units::Unit;
use machine::Machine;
use recorder::{Events, Interval, Recorder, RecorderConfig, Recording};
use rustix::process::Rlimit;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use workloads::{Elapsed, TargetAccess};

/// The recorder's raw samples, in the trial's folder until they are decoded.
const SPOOL: &str = "samples.spool";

/// Runs a cell's workload on this machine. It changes no setting and waits for nothing: see
/// [`crate::Host::trial`].
pub struct HostBench<'a> {
    /// Read before and after the workload.
    pub machine: &'a dyn Machine,
    /// What the workload runs on.
    pub target: Option<&'a Target>,
    /// The server that it asks, which runs.
    pub server: Option<&'a Access>,
    /// An empty folder for files of its own.
    pub folder: Option<&'a Path>,
    /// The tool and its version, as [`tools::detect`] gave it.
    pub version: &'a str,
    /// The trial's folder for raw output; it exists, and its path is absolute.
    pub raw: &'a Path,
    /// How often the recorder samples.
    pub interval: Nanos,
    /// The events that are recorded besides.
    pub events: Option<&'a TrialEvents>,
    /// The workload's limit on open files: that of Flyball before its first recording.
    pub descriptors: Rlimit,
    /// How long the workload may take.
    pub timeout: Nanos,
    /// Set by somebody else when the workload is to be ended.
    pub interrupt: &'a AtomicBool,
    /// Is told each process group as soon as it runs, for whoever ends it should Flyball be killed.
    pub announce: &'a mut dyn FnMut(Started<'_>),
}

impl Bench for HostBench<'_> {
    fn run(&mut self, cell: &Cell, sink: &mut dyn Sink) -> Result<Measurement, BenchError> {
        let resyncs = cell.stack.as_ref().is_some_and(Stack::resyncs_in_background);
        self.measure(cell, resyncs, sink).map_err(BenchError::from)
    }
}

impl HostBench<'_> {
    fn measure(&mut self, cell: &Cell, resyncs: bool, sink: &mut dyn Sink) -> Result<Measurement, Error> {
        let workload = &cell.workload;
        if let Some(target) = self.target {
            target.verify()?;
        }
        let job = Job {
            workload,
            target: self.target.map(|t| (t.path(), t.size())),
            raw: self.raw,
            server: self.server.map(|server| &server.connection),
            folder: self.folder,
            access: self.target.map_or(TargetAccess::ReadWrite, Target::access),
            host: tools::host(),
        };
        let invocation = tools::invocation(&job)?;
        let beside = Beside::start(self, &job, &cell.beside)?;
        let ran = self.run_beside(&job, &invocation, &beside);
        let ended = beside.end();
        // Whoever asks to stop is heard before a load that has ended.
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let ran = match (ran, ended) {
            (Err(Error::Interrupted), _) => return Err(Error::Interrupted),
            // Why a load beside it ended says more than that the workload was ended with it.
            (_, Err(error)) => return Err(error),
            (ran, Ok(())) => ran?,
        };
        let ended = ran.ended;
        if ended.how == How::Interrupted {
            return Err(Error::Interrupted);
        }
        if let Some(text) = tools::failure(&job, &invocation.argv[0], &ended) {
            return Err(Error::Tool(text));
        }
        if let Some(target) = self.target {
            target.verify()?;
        }
        let mut outcome = tools::outcome(&job, self.version)?;
        add_elapsed(&mut outcome, &workload.tool, &ended);
        let mut measurement = bare(outcome, invocation.argv, &ended);
        measurement.commands.extend(beside::commands(&job, &cell.beside)?.into_iter().map(|one| one.argv));
        let child = [(Role::Workload, ended.user + ended.system), (Role::Beside, ran.beside)].into();
        let mut measurement = ran.recorded.complete(measurement, child, resyncs, sink)?;
        measurement.disturbances.extend(ran.unsteady);
        Ok(measurement)
    }

    /// Conditions what the workload works on, and runs it, recorded.
    fn run_beside(&mut self, job: &Job<'_>, invocation: &Invocation, beside: &Beside) -> Result<Ran, Error> {
        let task = Task {
            argv: &invocation.argv,
            folder: invocation.folder.as_deref(),
            stdout: self.raw.join(tools::STDOUT),
            stderr: self.raw.join(tools::STDERR),
            descriptors: self.descriptors,
            environment: self.server.map_or(&[], |server| server.connection.environment.as_slice()),
            interval: self.interval,
            timeout: self.timeout,
            interrupt: self.interrupt,
            beside,
            only_reads: self.target.and_then(Target::to_be_read),
            marks: None,
        };
        let unsteady = match workloads::of(&job.workload.tool).conditioning(job).map_err(Error::from)? {
            Some(asked) => steady::reach(self, job, beside, &asked)?,
            None => None,
        };
        let loads = beside.processes();
        let mut recording = TrialRecording::begin(self.machine, self.raw, self.interval, self.events, loads);
        recording.listen(self.raw);
        if let Some(pid) = self.server.and_then(|server| server.pid) {
            recording.follow_server(pid);
        }
        let before = beside.used();
        let task = Task { marks: recording.marks(), ..task };
        let ended = child::run(&task, &mut |pid| {
            (self.announce)(Started::Workload(pid, self.target));
            recording.follow(pid);
        });
        let used = beside.used().saturating_sub(before);
        // The recording is ended first, whatever became of the workload.
        let recorded = recording.end(self.machine);
        Ok(Ran { unsteady, recorded, ended: ended?, beside: used })
    }
}

/// A workload that was run.
struct Ran {
    /// Where what it works on was not brought to a steady state.
    unsteady: Option<Disturbance>,
    recorded: RecordedTrial,
    ended: Ended,
    /// The CPU time of the loads beside it while it ran.
    beside: Nanos,
}

/// A trial that is being recorded, and what the machine was like before it. Where the recorder could not
/// start, the trial goes on without.
pub(crate) struct TrialRecording {
    before: Snapshot,
    recorder: recorder::Result<Recorder>,
    spool: Spool,
    events: Option<TrialEvents>,
    /// What the workload marks; none of one that is not told where.
    marks: Option<io::Result<Marks>>,
}

/// A trial that was recorded.
pub(crate) struct RecordedTrial {
    before: Snapshot,
    after: Snapshot,
    recording: recorder::Result<Recording>,
    events: Option<TrialEvents>,
    marked: Option<io::Result<Marked>>,
    /// Of a trial with events: what the frequency policies were at its end.
    cpufreq: Option<Cpufreq>,
    /// Its file goes once it is decoded.
    _spool: Spool,
}

impl TrialRecording {
    /// `beside`: the first processes of loads that run beside the workload.
    pub(crate) fn begin(
        machine: &dyn Machine,
        raw: &Path,
        interval: impl Into<Interval>,
        events: Option<&TrialEvents>,
        beside: Vec<u32>,
    ) -> Self {
        let before = Snapshot::read(machine);
        let spool = Spool::new(raw);
        let recorder = spool.start(interval, events, beside);
        Self { before, recorder, spool, events: events.cloned(), marks: None }
    }

    /// Reads what the workload marks, by a pipe in this folder.
    fn listen(&mut self, raw: &Path) {
        self.marks = self.recorder.as_ref().ok().map(|recorder| Marks::listen(raw, recorder));
    }

    /// Where the workload marks.
    fn marks(&self) -> Option<&Marks> {
        self.marks.as_ref()?.as_ref().ok()
    }

    /// Names the workload's first process.
    pub(crate) fn follow(&self, pid: u32) {
        if let Ok(recorder) = &self.recorder {
            recorder.follow(pid);
        }
    }

    /// Names the first process of the server that the workload asks.
    pub(crate) fn follow_server(&self, pid: u32) {
        if let Ok(recorder) = &self.recorder {
            recorder.follow_server(pid);
        }
    }

    pub(crate) fn end(self, machine: &dyn Machine) -> RecordedTrial {
        let after = Snapshot::read(machine);
        let recording = self.recorder.and_then(Recorder::stop);
        let marked = self.marks.map(|marks| marks.map(Marks::stop));
        let events = self.events;
        // A machine that cannot be looked at has no windows to show.
        let cpufreq = events.as_ref().and_then(|_| machine::inventory::cpufreq(machine).ok().flatten());
        RecordedTrial { before: self.before, after, recording, events, marked, cpufreq, _spool: self.spool }
    }
}

impl RecordedTrial {
    /// Adds to a measurement what was recorded, and what went on besides. `waited_for` is the CPU time of the
    /// workload's process as the kernel gave it when it ended, and of loads beside it while that ran.
    pub(crate) fn complete(
        self,
        mut measurement: Measurement,
        waited_for: BTreeMap<Role, Nanos>,
        resyncs: bool,
        sink: &mut dyn Sink,
    ) -> Result<Measurement, Error> {
        match self.recording {
            Ok(recording) => {
                add_recording(&mut measurement, recording, &waited_for, self.marked, sink)?;
                if let Some(events) = &self.events {
                    events.add_to(&mut measurement, self.cpufreq.as_ref());
                }
            }
            Err(error) => measurement.outcome.warnings.push(format!("nothing was recorded: {error}")),
        }
        let busy = guards::busy(&self.before, &self.after).map(|busy| (CPU_BUSY.to_owned(), busy));
        measurement.outcome.metrics.extend(busy);
        per_work::add(&mut measurement.outcome.metrics);
        let used = |times: &BTreeMap<Role, Nanos>, role| times.get(&role).copied().unwrap_or_default();
        let of_role = |role| used(&measurement.roles, role).max(used(&waited_for, role));
        let study = of_role(Role::Workload) + of_role(Role::Beside);
        measurement.disturbances = guards::judge(&self.before, &self.after, study, resyncs);
        let changes = measurement.recorder.as_ref().map(|recorder| recorder.cpu_changes.as_slice());
        guards::judge_cpus(&mut measurement.disturbances, changes.unwrap_or_default());
        guards::name_culprits(&mut measurement.disturbances, &measurement.threads);
        Ok(measurement)
    }
}

/// The spool file, removed once it goes out of scope: its content is in the trace by then.
struct Spool(std::path::PathBuf);

impl Spool {
    fn new(raw: &Path) -> Self {
        Self(raw.join(SPOOL))
    }

    fn start(
        &self,
        interval: impl Into<Interval>,
        events: Option<&TrialEvents>,
        beside: Vec<u32>,
    ) -> recorder::Result<Recorder> {
        let events = events.map(|events| Events::of(events.sets.clone(), events.file.clone()));
        Recorder::start(RecorderConfig { events, beside, ..RecorderConfig::new(interval, self.0.clone()) })
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // It was never made where the recorder could not start.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A tool that takes no time of its own is timed by us.
fn add_elapsed(outcome: &mut Outcome, tool: &Tool, ended: &Ended) {
    if workloads::of(tool).elapsed() == Elapsed::OfFlyball {
        let elapsed = Metric { value: ended.elapsed.secs(), unit: Unit::Seconds, better: Better::Lower };
        outcome.metrics.entry("elapsed".into()).or_insert(elapsed);
    }
}

fn bare(outcome: Outcome, argv: Vec<String>, ended: &Ended) -> Measurement {
    Measurement {
        outcome,
        commands: vec![argv],
        duration: ended.elapsed,
        roles: [(Role::Workload, ended.user + ended.system)].into(),
        threads: Vec::new(),
        disks: Vec::new(),
        profile: None,
        windows: None,
        phases: Vec::new(),
        spent: Default::default(),
        calls: None,
        recorder: None,
        disturbances: Vec::new(),
    }
}

fn add_recording(
    measurement: &mut Measurement,
    mut recording: Recording,
    waited_for: &BTreeMap<Role, Nanos>,
    marked: Option<io::Result<Marked>>,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    waited_for.iter().for_each(|(role, cpu)| recording.set_cpu(*role, *cpu));
    let mut report = recording.report().clone();
    let marks = match marked {
        None => Vec::new(),
        Some(Ok(marked)) => {
            report.absent.extend(marked.is_cut());
            marked.marks
        }
        Some(Err(error)) => {
            report.absent.push(format!("no marks: {error}"));
            Vec::new()
        }
    };
    let mut ends = Ends::with_marks(sink, marks);
    match recording.decode(&mut ends) {
        Ok(()) => {
            measurement.outcome.metrics.extend(ends.of_machine());
            report.energy = ends.energy();
            report.absent.extend(ends.lack_of_energy());
        }
        Err(recorder::Error::Sink(error)) => return Err(error.into()),
        Err(error) => measurement.outcome.warnings.push(format!("the trace is incomplete: {error}")),
    }
    measurement.roles.extend(recording.roles());
    measurement.roles.retain(|_, time| *time > Nanos::ZERO);
    measurement.threads = recording.threads().iter().take(MAX_THREADS).cloned().collect();
    measurement.disks = recording.disks().to_vec();
    measurement.phases = ends.phases();
    measurement.recorder = Some(report);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::bench::SinkError;
    use domain::ids::CellId;
    use domain::rng::Seed;
    use domain::study::{Companion, MetricPattern, Workload};
    use domain::trace::TraceHead;
    use domain::trial::ThreadTime;
    use domain::units::Bytes;
    use machine::LocalMachine;
    use std::fs::File;
    use std::path::PathBuf;
    use std::sync::{Mutex, PoisonError};

    /// Counts rows, or refuses them.
    #[derive(Default)]
    struct Rows {
        columns: usize,
        rows: usize,
        full: bool,
    }

    impl Sink for Rows {
        fn begin(&mut self, head: &TraceHead) -> Result<(), SinkError> {
            self.columns = head.series.len();
            Ok(())
        }
        fn row(&mut self, _: Nanos, values: &[Option<u64>]) -> Result<(), SinkError> {
            assert_eq!(values.len(), self.columns);
            self.rows += 1;
            if self.full { Err(SinkError("no space left on device".into())) } else { Ok(()) }
        }
    }

    /// A recorder takes nearly all descriptors that its process may have, and there is one a process in real
    /// runs.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    struct Fixture {
        folder: tempfile::TempDir,
        target: Target,
        rows: Rows,
        timeout: Nanos,
        groups: Vec<u32>,
        events: Option<TrialEvents>,
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("target");
            let size = Bytes::from_mib(8);
            let mut file = File::create(&path).unwrap();
            crate::fill::fill(&mut file, &path, size, Seed(1), &AtomicBool::new(false)).unwrap();
            let target = Target::over(&file, path, size, None).unwrap();
            let (rows, timeout) = (Rows::default(), Nanos::from_secs(60));
            Self { folder, target, rows, timeout, groups: Vec::new(), events: None }
        }

        fn raw(&self) -> PathBuf {
            self.folder.path().join("raw")
        }

        fn run(&mut self, workload: Workload) -> Result<Measurement, BenchError> {
            self.run_beside(workload, Vec::new(), &AtomicBool::new(false))
        }

        fn run_beside(
            &mut self,
            workload: Workload,
            beside: Vec<Companion>,
            interrupt: &AtomicBool,
        ) -> Result<Measurement, BenchError> {
            let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
            std::fs::create_dir_all(self.raw()).unwrap();
            let version = tools::detect(&LocalMachine, &workload.tool).unwrap();
            let cell = Cell {
                id: CellId::new(["x"]),
                workload,
                levels: Default::default(),
                settings: Vec::new(),
                beside,
                stack: None,
                kernel: None,
                machine: None,
                pstates: None,
            };
            let raw = self.raw();
            let mut bench = HostBench {
                machine: &LocalMachine,
                target: Some(&self.target),
                server: None,
                folder: None,
                version: &version,
                raw: &raw,
                interval: Nanos::from_millis(10),
                events: self.events.as_ref(),
                descriptors: rustix::process::getrlimit(rustix::process::Resource::Nofile),
                timeout: self.timeout,
                interrupt,
                announce: &mut |started| self.groups.push(started.group()),
            };
            let result = bench.run(&cell, &mut self.rows);
            assert!(!raw.join(SPOOL).exists());
            result
        }
    }

    fn workload(tool: Tool, options: &[(&str, &str)]) -> Workload {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Workload { name: "w".into(), tool, options }
    }

    fn command(argv: &[&str]) -> Workload {
        let metric = MetricPattern {
            name: "answer".into(),
            pattern: "answer (.*)".into(),
            unit: Unit::Count,
            better: Better::Higher,
        };
        let argv = argv.iter().map(|a| (*a).to_owned()).collect();
        workload(Tool::Command { argv, metrics: vec![metric] }, &[])
    }

    #[test]
    fn fio_is_measured_and_recorded() {
        let mut fixture = Fixture::new();
        let options = [("rw", "randread"), ("bs", "4k"), ("runtime", "300ms"), ("time_based", "1")];
        let measurement = fixture.run(workload(Tool::Fio, &options)).unwrap();
        assert!(measurement.outcome.metrics["throughput"].value > 0.0);
        // Each read is waited for, which a thread does by switching away.
        let switches = measurement.outcome.metrics["switches_per_io"].value;
        assert!(switches > 0.01, "{switches} context switches for each read");
        assert!(measurement.outcome.tool.starts_with("fio-"), "{}", measurement.outcome.tool);
        assert!(measurement.roles[&Role::Workload] > Nanos::ZERO);
        assert_eq!(measurement.outcome.warnings, [""; 0]);
        // Another fio may be running on this machine besides.
        let is_ours = |thread: &ThreadTime| thread.name == "fio" && thread.role == Role::Workload;
        assert!(measurement.threads.iter().any(is_ours), "{:?}", measurement.threads);
        assert!(measurement.recorder.unwrap().samples > 10);
        assert!(fixture.rows.rows > 10 && fixture.groups.len() == 1);
        assert!(fixture.raw().join("fio.json").exists());
    }

    #[test]
    fn the_rates_of_bursts_are_over_the_bursts() {
        // One request at a time takes what it takes: as many a second as there were, times how long each
        // took, is at most one. Were pauses counted as bursts, or a first burst that lasts for a period as a
        // short one, this would be far off.
        let timed = [("runtime", "2s"), ("time_based", "1")];
        for times in [&timed[..], &[]] {
            let options = [("rw", "randread"), ("bs", "4k"), ("ioengine", "psync"), ("direct", "1")];
            let bursts = [("duty_cycle", "20%"), ("period", "500ms"), ("number_ios", "3000")];
            let all = [&options[..], &bursts[..if times.is_empty() { 3 } else { 2 }], times].concat();
            testing::on_a_quiet_host(|| {
                let outcome = Fixture::new().run(workload(Tool::Fio, &all)).unwrap().outcome;
                let of = |name: &str| outcome.metrics[name].value;
                let at_once = of("iops") * of("latency_mean");
                if at_once < 1.3 { Ok(()) } else { Err(format!("{at_once:.2} at once: {outcome:?}")) }
            });
        }
    }

    #[test]
    fn dd_writes_in_place() {
        let mut fixture = Fixture::new();
        let measurement = fixture.run(workload(Tool::Dd, &[("direction", "write"), ("bs", "1M")])).unwrap();
        assert!(measurement.outcome.metrics["throughput"].value > 0.0);
        assert!(measurement.outcome.tool.starts_with("dd (coreutils)"));
        fixture.target.verify().unwrap();
    }

    #[test]
    fn a_commands_metric_and_its_elapsed_time_are_taken() {
        let measurement = Fixture::new().run(command(&["echo", "answer 42"])).unwrap();
        assert_eq!(measurement.outcome.metrics["answer"].value, 42.0);
        assert!(measurement.outcome.metrics["elapsed"].value > 0.0);
    }

    fn failure(fixture: &mut Fixture, workload: Workload) -> String {
        match fixture.run(workload) {
            Err(BenchError::Failed(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn failures_quote_the_tool() {
        let mut fixture = Fixture::new();
        let text = failure(&mut fixture, workload(Tool::Fio, &[("buffer_pattern", "sideways")]));
        assert_eq!(
            text,
            "workload `w`: `fio` failed with exit code 1; it said: fio: failed parsing buffer_pattern=sideways"
        );
        let text = failure(&mut fixture, command(&["sh", "-c", "echo no luck >&2; exit 7"]));
        assert_eq!(text, "workload `w`: `sh` failed with exit code 7; it said: no luck");
    }

    #[test]
    fn an_interrupt_is_heard_before_a_load_that_has_ended() {
        for lead in [Nanos::ZERO, Nanos::from_millis(500)] {
            let load = Companion { load: command(&["sh", "-c", "exit 7"]), lead };
            let interrupt = AtomicBool::new(true);
            let ran = Fixture::new().run_beside(command(&["sleep", "30"]), vec![load], &interrupt);
            assert!(matches!(ran, Err(BenchError::Interrupted)), "{ran:?}");
        }
    }

    #[test]
    fn garbage_a_kill_and_a_hang_are_told_apart() {
        let mut fixture = Fixture::new();
        let text = failure(&mut fixture, command(&["head", "-c", "10000", "/dev/urandom"]));
        assert!(text.starts_with("workload `w`: ") && text.contains("answer"), "{text}");
        let text = failure(&mut fixture, command(&["sh", "-c", "kill -9 $$"]));
        assert_eq!(text, "workload `w`: `sh` was killed by SIGKILL (signal 9), and not by flyball");
        fixture.timeout = Nanos::from_millis(300);
        let text = failure(&mut fixture, command(&["sleep", "1000"]));
        assert!(text.contains("was still running after") && text.contains("raise `timeout`"), "{text}");
    }

    #[test]
    fn a_target_that_vanishes_under_the_workload_is_told() {
        let mut fixture = Fixture::new();
        let text = failure(&mut fixture, command(&["sh", "-c", "rm {target}; echo answer 1"]));
        assert!(text.contains("is not the one that was made: it cannot be looked at"), "{text}");
        let text = failure(&mut fixture, workload(Tool::Fio, &[("rw", "read")]));
        assert!(text.contains("is not the one that was made"), "{text}");
    }

    #[test]
    fn a_target_that_became_a_link_is_not_written() {
        let mut fixture = Fixture::new();
        let victim = fixture.folder.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        std::fs::remove_file(fixture.target.path()).unwrap();
        std::os::unix::fs::symlink(&victim, fixture.target.path()).unwrap();
        let text = failure(&mut fixture, workload(Tool::Dd, &[("direction", "write")]));
        assert!(text.contains("it is no plain file any more"), "{text}");
        assert_eq!(std::fs::read_to_string(victim).unwrap(), "precious");
    }

    #[test]
    fn events_of_a_trial_become_its_profile_and_their_file_stays_where_it_is_wanted() {
        let mut fixture = Fixture::new();
        let file = fixture.folder.path().join("events.bin");
        let options = [("rw", "randread"), ("bs", "4k"), ("runtime", "300ms"), ("time_based", "1")];
        for is_kept in [false, true] {
            let sets = "sched,profile".parse().unwrap();
            fixture.events = Some(TrialEvents { sets, file: file.clone(), is_kept });
            let measurement = fixture.run(workload(Tool::Fio, &options)).unwrap();
            let absent = measurement.recorder.unwrap().absent;
            if absent.iter().any(|why| why.starts_with("no events") || why.starts_with("no profile")) {
                return testing::skip(absent.join("; "));
            }
            let profile = measurement.profile.unwrap();
            let of_fio = profile.count(|role, _| role == Role::Workload);
            assert!(of_fio > 0, "{profile:?}");
            assert_eq!(file.exists(), is_kept);
            assert_eq!(measurement.windows, None, "no governor of this machine takes samples");
        }
    }

    #[test]
    fn a_busy_loop_beside_the_workload_is_told_by_name() {
        let mut hog = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let measurement = Fixture::new().run(command(&["sh", "-c", "sleep 1; echo answer 1"]));
        hog.kill().unwrap();
        hog.wait().unwrap();
        let told = measurement.unwrap().disturbances;
        let load = told.iter().find(|d| d.kind == "other-load").unwrap_or_else(|| panic!("{told:?}"));
        assert!(load.detail.contains("; most by `"), "{}", load.detail);
    }

    #[test]
    fn a_trace_that_cannot_be_stored_is_no_measurement() {
        let mut fixture = Fixture::new();
        fixture.rows.full = true;
        let result = fixture.run(command(&["echo", "answer 42"]));
        assert!(matches!(result, Err(BenchError::Sink(_))), "{result:?}");
    }

    #[test]
    fn what_a_study_must_not_ask_for_is_unsupported() {
        let result = Fixture::new().run(workload(Tool::Fio, &[("filename", "/dev/sda")]));
        assert!(matches!(result, Err(BenchError::Unsupported(_))), "{result:?}");
    }
}
