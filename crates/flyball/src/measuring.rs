//! One start of a run: from a study to trials in the notebook. `run` and `check` are this with different studies.

use crate::exit::Busy;
use crate::interrupt::Interrupt;
use crate::preflight;
use crate::progress::Progress;
use analysis::schedule::Schedule;
use anyhow::{Context, Result, bail};
use domain::plan::Plan;
use domain::rng::Seed;
use domain::study::Study;
use domain::trial::{Provenance, Run, RunId, Trial, TrialKey, Validity};
use domain::{Nanos, Timestamp};
use machine::ledger::RestoreReport;
use machine::supervise::Supervisor;
use machine::{Ledger, LocalMachine, Machine};
use notebook::{Notebook, Problem, RunFolder, Staging};
use runner::reproduce::{Places, script};
use runner::{Devices, Done, Host, Site, Stop, Target};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is to be measured, and where it goes.
pub struct Order<'a> {
    pub study: Study,
    pub text: String,
    /// The folder of the study file, whose git revision is noted; `None` for a study of Flyball's own.
    pub home: Option<&'a Path>,
    pub notebook: PathBuf,
    pub state: PathBuf,
    pub work: PathBuf,
    pub seed: Option<u64>,
    pub begin: Begin,
    /// After this long no further trial is begun; `None` for no bound.
    pub limit: Option<Duration>,
}

/// What to do where the last run of this study is unfinished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Go on with it: only what is missing is measured.
    Resume,
    /// Begin a new one.
    Anew,
}

/// How a start of a run ended.
pub struct Measured {
    pub notebook: Notebook,
    pub run: RunId,
    pub interrupted: bool,
    /// Whether somebody else changed a setting that was ours, so that it was left alone.
    pub left_alone: bool,
}

/// A bound on a look at the study's git repository; a huge one on a cold disk takes longer, and is not waited for.
const GIT_PATIENCE: Duration = Duration::from_secs(5);

const CANNOT_GO_ON: &str =
    "the run cannot go on (what was measured is kept, and running it again measures what is missing)";

/// Measures what is missing of a study. Whatever happens, settings are as before when this returns.
pub fn measure(order: Order<'_>) -> Result<Measured> {
    let machine = LocalMachine;
    // The seed decides the order alone: what can fail is the same for every seed.
    preflight::check(&Plan::new(order.study.clone(), Seed(0))?)?;
    let interrupt = Interrupt::catch()?;
    let inventory = machine::inventory::take(&machine)?;
    let identity = machine::inventory::identity(&inventory);
    let mut supervisor = supervisor(&order.state)?;
    // What still runs of a Flyball that was killed with its supervisor may hold the very device that is to be undone.
    machine::workload::end_orphans();
    let (ledger, recovered) = Ledger::open(&order.state, &machine).map_err(busy)?;
    tell(&recovered);

    let notebook = Notebook::create(&order.notebook)?;
    let inventory_json =
        serde_json::to_string_pretty(&inventory).context("cannot write the inventory as JSON")?;
    let folder = run_folder(&order, &notebook, &machine, &identity, &inventory_json)?;
    let plan = Plan::new(order.study.clone(), folder.run().seed)?;
    let mut start = Start { machine: &machine, order: &order, plan, ledger, folder, interrupt, identity };
    let ended = start.run(&mut supervisor);

    let Start { ledger, mut folder, .. } = start;
    let restored = ledger.finish();
    // What is left of the work folder is nothing of ours; an empty one is.
    let _ = std::fs::remove_dir(&order.work);
    tell(&restored);
    supervisor.done()?;
    let ended = ended?;
    refuse_leftovers(&restored)?;
    if ended == Ended::AllMeasured {
        folder.finish(machine.now())?;
    }
    Ok(Measured {
        run: folder.run().id.clone(),
        notebook,
        interrupted: ended == Ended::Interrupted,
        left_alone: ended == Ended::LeftAlone || restored.foreign().next().is_some(),
    })
}

/// Why no further trial is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// All is measured, or all that there was time for.
    AllMeasured,
    Interrupted,
    LeftAlone,
}

/// Everything that one start of a run holds.
struct Start<'a> {
    machine: &'a LocalMachine,
    order: &'a Order<'a>,
    plan: Plan,
    ledger: Ledger<'a>,
    folder: RunFolder,
    interrupt: Interrupt,
    identity: String,
}

impl Start<'_> {
    /// Makes the target, and measures what is missing on it.
    fn run(&mut self, supervisor: &mut Supervisor) -> Result<Ended> {
        let (mut schedule, before) = self.schedule()?;
        if schedule.next().is_none() {
            return Ok(Ended::AllMeasured);
        }
        let made = Target::make(
            &mut self.ledger,
            &self.order.work,
            &self.plan.study.target,
            Devices::Refused,
            self.plan.seed,
            self.interrupt.flag(),
        );
        let target = match made {
            Err(runner::Error::Interrupted) => return Ok(Ended::Interrupted),
            other => other?,
        };
        let fixed = runner::environment::fixed(self.machine);
        let supervisor = RefCell::new(supervisor);
        let group = Cell::new(None);
        let mut announce = |pid: u32| {
            group.set(Some(pid));
            warn(supervisor.borrow_mut().group(pid));
        };
        let site = Site {
            machine: self.machine,
            ledger: &mut self.ledger,
            target: target.as_ref(),
            measure: &self.plan.study.measure,
            fixed: &fixed,
            interrupt: self.interrupt.flag(),
            run: &self.folder.run().id,
            study: &self.plan.study.name,
            provenance: Provenance::Host,
            identity: &self.identity,
        };
        let mut host = Host::new(site, &mut announce);
        let course = Course {
            plan: &self.plan,
            folder: &self.folder,
            target: target.as_ref(),
            interrupt: &self.interrupt,
            limit: self.order.limit,
        };
        let mut pace = Pace::new(before);
        let ended = course.measure_all(&mut schedule, &mut pace, &mut |cell, key, staging| {
            let raw = staging.raw_dir();
            let done = host.trial(cell, key, &raw, staging.sink());
            if let Some(pid) = group.take() {
                warn(supervisor.borrow_mut().gone(pid));
            }
            done
        });
        pace.progress.clear();
        ended
    }

    /// What is to be measured, and how many trials are there already.
    fn schedule(&self) -> Result<(Schedule, usize)> {
        let (trials, problems) = self.folder.trials()?;
        crate::results::tell(&problems);
        let mut schedule = Schedule::new(&self.plan, &trials)?;
        problems.iter().filter_map(damaged).for_each(|key| schedule.pass_over(&key));
        let run = &self.folder.run().id;
        eprintln!("run {run}, seed {}, {} cells", self.plan.seed, self.plan.cells.len());
        if !trials.is_empty() {
            eprintln!("{} trials are there already; measuring what is missing", trials.len());
        }
        Ok((schedule, trials.len()))
    }
}

/// What the loop over trials looks at.
struct Course<'a> {
    plan: &'a Plan,
    folder: &'a RunFolder,
    target: Option<&'a Target>,
    interrupt: &'a Interrupt,
    limit: Option<Duration>,
}

/// Makes one trial, aside.
type MakeTrial<'a> = dyn FnMut(&domain::plan::Cell, &TrialKey, &mut Staging) -> Result<Done, Stop> + 'a;

impl Course<'_> {
    /// One trial after the other, each kept before the next begins.
    fn measure_all(
        &self,
        schedule: &mut Schedule,
        pace: &mut Pace,
        make: &mut MakeTrial<'_>,
    ) -> Result<Ended> {
        while let Some(next) = schedule.next() {
            if self.interrupt.came() {
                return Ok(Ended::Interrupted);
            }
            if self.limit.is_some_and(|limit| pace.begun.elapsed() >= limit) {
                let left = schedule.remaining().at_least;
                pace.progress.say(&format!("the time is over; {left} planned trials were not made"));
                return Ok(Ended::AllMeasured);
            }
            let cell = &self.plan.cells[next.cell];
            let key = schedule.key(next);
            pace.show(&key.folder(), schedule);
            let mut staging = self.folder.begin(&key)?;
            let done = match make(cell, &key, &mut staging) {
                Ok(done) => done,
                Err(Stop::Interrupted) => return Ok(Ended::Interrupted),
                Err(Stop::Unsupported(reason)) => {
                    pace.progress.say(&format!("skipped: {}: {reason}", cell.id));
                    schedule.skip(next.cell);
                    continue;
                }
                Err(other) => return Err(other.into()),
            };
            self.keep(staging, &done)?;
            pace.told(&done.trial);
            schedule.record(&done.trial)?;
            if done.restored.foreign().next().is_some() {
                return Ok(Ended::LeftAlone);
            }
        }
        for cell in schedule.given_up() {
            pace.progress.say(&format!("given up: {}: every attempt failed", self.plan.cells[cell].id));
        }
        Ok(Ended::AllMeasured)
    }

    /// Stores a trial, and sees to it that the next one finds the machine as this one did.
    fn keep(&self, staging: Staging, done: &Done) -> Result<()> {
        let places = Places {
            target: self.target.map(Target::path),
            device: self.target.and_then(Target::device),
            raw: &staging.raw_dir(),
        };
        let script = script(&done.trial, &self.plan.study.target, &done.commands, &places);
        staging.commit(&done.trial, &script)?;
        tell(&done.restored);
        refuse_leftovers(&done.restored)?;
        self.target.map_or(Ok(()), Target::verify).context(CANNOT_GO_ON)
    }
}

/// The trial that a damaged folder was.
fn damaged(problem: &Problem) -> Option<TrialKey> {
    TrialKey::from_folder(problem.path.file_name()?.to_str()?)
}

/// Progress, and how long trials take here.
struct Pace {
    progress: Progress,
    begun: Instant,
    before: usize,
    done: usize,
}

impl Pace {
    fn new(before: usize) -> Self {
        Self { progress: Progress::new(), begun: Instant::now(), before, done: 0 }
    }

    fn show(&self, what: &str, schedule: &Schedule) {
        let remaining = schedule.remaining().likely as u64;
        let so_far = (self.before + self.done) as u64;
        let spent = self.begun.elapsed().as_nanos() as u64;
        let each = spent.checked_div(self.done as u64);
        self.progress.show(what, so_far, so_far + remaining, each.map(|ns| Nanos::new(ns * remaining)));
    }

    fn told(&mut self, trial: &Trial) {
        self.done += 1;
        let name = trial.key.folder();
        match &trial.validity {
            Validity::Valid => {}
            Validity::Disturbed(all) => {
                let reasons: Vec<&str> = all.iter().map(|d| d.detail.as_str()).collect();
                self.progress.say(&format!("disturbed: {name}: {}", reasons.join("; ")));
            }
            Validity::Failed(reason) => self.progress.say(&format!("failed: {name}: {reason}")),
        }
    }
}

/// This program once more, to put things back should this process be killed.
pub fn supervisor(state: &Path) -> Result<Supervisor> {
    let program =
        std::env::current_exe().context("cannot find this program's own file, to start the supervisor")?;
    let mut command = std::process::Command::new(program);
    command.arg("supervise").arg(state);
    Ok(Supervisor::start(command)?)
}

/// An error of the ledger, with its exit code where another Flyball has it.
pub fn busy(error: machine::settings::Error) -> anyhow::Error {
    match error {
        machine::settings::Error::Busy { .. } => Busy(error.to_string()).into(),
        other => other.into(),
    }
}

/// A supervisor that is gone is no reason to end: what it would undo, the next start of Flyball undoes.
fn warn(said: Result<(), machine::settings::Error>) {
    if let Err(error) = said {
        eprintln!("warning: {error}");
    }
}

/// Says what was put back, and what could not be.
pub fn tell(report: &RestoreReport) {
    for undone in report.foreign().chain(report.failed()) {
        eprintln!("warning: {undone}");
    }
    for note in &report.notes {
        eprintln!("note: {note}");
    }
}

fn refuse_leftovers(report: &RestoreReport) -> Result<()> {
    let left: Vec<String> = report.failed().map(ToString::to_string).collect();
    if left.is_empty() {
        return Ok(());
    }
    bail!(
        "not everything could be put back: {}; see `flyball status`, then run `flyball restore`",
        left.join("; ")
    )
}

fn run_folder(
    order: &Order<'_>,
    notebook: &Notebook,
    machine: &LocalMachine,
    identity: &str,
    inventory: &str,
) -> Result<RunFolder> {
    if order.begin == Begin::Resume
        && let Some(id) = notebook.unfinished(&order.study.name, &order.text, identity)?
    {
        let same_seed = |run: &Run| order.seed.is_none_or(|seed| run.seed == Seed(seed));
        if same_seed(&notebook.run(&id)?) {
            return notebook.open_run(&id).map_err(run_busy);
        }
    }
    let now = machine.now();
    let run = Run {
        id: run_id(&order.study.name, now),
        study: order.study.name.clone(),
        study_text: order.text.clone(),
        seed: Seed(order.seed.unwrap_or_else(|| fresh_seed(now))),
        started: now,
        finished: None,
        provenance: Provenance::Host,
        machine: identity.to_owned(),
        flyball: env!("CARGO_PKG_VERSION").to_owned(),
        revision: order.home.and_then(|folder| revision(machine, folder)),
    };
    notebook.create_run(&run, inventory).map_err(run_busy)
}

fn run_busy(error: notebook::Error) -> anyhow::Error {
    match error {
        notebook::Error::RunBusy { .. } => Busy(error.to_string()).into(),
        other => other.into(),
    }
}

/// `quick-20261120-140502-7f3a`: sorted by time, and different where two begin within one second.
fn run_id(study: &str, now: Timestamp) -> RunId {
    let digits: String = now.iso().chars().filter(char::is_ascii_digit).collect();
    let (day, time) = digits.split_at(8);
    RunId(format!(
        "{study}-{day}-{time}-{:04x}",
        Seed(now.unix_nanos() as u64).stream("run id").bits() & 0xffff
    ))
}

/// A seed short enough to be typed again.
pub fn fresh_seed(now: Timestamp) -> u64 {
    Seed(now.unix_nanos() as u64).stream("seed").bits() & 0xffff_ffff
}

/// The git commit of a folder, with `+` where its tree is not clean; `None` where there is none.
fn revision(machine: &dyn Machine, folder: &Path) -> Option<String> {
    let folder = folder.to_str()?;
    let git = |arguments: &[&str]| {
        let argv = [&["git", "-C", folder], arguments].concat();
        let output = machine.run(&argv, GIT_PATIENCE).ok()?;
        (output.code == Some(0)).then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit}+") })
}
