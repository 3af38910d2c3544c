//! One start of a run: from a study to trials in the notebook. `run` and `check` are this with different studies.

use crate::course::{self, Course, Ended, Made};
use crate::exit::Busy;
use crate::interrupt::Interrupt;
use crate::{here, places, preflight, terminal};
use analysis::schedule::Schedule;
use anyhow::{Context, Result, bail};
use domain::Timestamp;
use domain::plan::Plan;
use domain::rng::Seed;
use domain::study::Study;
use domain::trial::{Provenance, Run, RunId};
use machine::ledger::RestoreReport;
use machine::supervise::Supervisor;
use machine::{Ledger, LocalMachine, Machine, MachineLock};
use notebook::{Notebook, RunFolder};
use runner::reproduce::{Places, script};
use runner::{Devices, Done, Footing, Host, Site, Target};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// How long another Flyball is waited for: long enough for a supervisor to end its work, short enough to be told at once that
/// another run is on.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bound on a look at the study's git repository; a huge one on a cold disk takes longer, and is not waited for.
const GIT_PATIENCE: Duration = Duration::from_secs(5);

/// Measures what is missing of a study. Whatever happens, settings are as before when this returns.
pub fn measure(order: Order<'_>) -> Result<Measured> {
    let machine = LocalMachine;
    // The seed decides the order alone: what can fail is the same for every seed.
    let plan = Plan::new(order.study.clone(), Seed(0))?;
    preflight::check(&plan)?;
    files::trust::check(&order.work).context("cannot use the work folder")?;
    let interrupt = Interrupt::catch()?;
    // A second Flyball is refused before anything is started that would outlive it.
    let lock = lock_machine()?;
    let mut supervisor = supervisor(&order.state, lock.as_ref())?;
    let opened = open_ledger(&order.state, &machine);
    let (ledger, recovered) = match opened {
        Ok(opened) => opened,
        Err(refused) => {
            supervisor.done()?;
            return Err(refused);
        }
    };
    tell(&recovered);
    // Only now is what a killed run has left on them erased.
    if let Err(refused) = preflight::claimed_disks(&plan, &order.state) {
        drop(ledger);
        supervisor.done()?;
        return Err(refused);
    }
    // Devices that a killed run has left would make it another machine, and its run could not go on.
    let inventory = machine::inventory::take(&machine)?;
    let identity = machine::inventory::identity(&inventory);

    let notebook = Notebook::create(&order.notebook)?;
    let inventory_json =
        serde_json::to_string_pretty(&inventory).context("cannot write the inventory as JSON")?;
    let run_order = RunOrder {
        study: &order.study.name,
        text: &order.text,
        home: order.home,
        seed: order.seed,
        begin: order.begin,
        provenance: Provenance::Host,
        identity: &identity,
    };
    let folder = run_folder(&run_order, &notebook, &inventory_json)?;
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
        let (mut schedule, before) = course::schedule(&self.plan, &self.folder)?;
        if schedule.next().is_none() {
            return Ok(Ended::AllMeasured);
        }
        self.leave_out(&mut schedule)?;
        if schedule.next().is_none() {
            return Ok(Ended::AllMeasured);
        }
        let made = Footing::make(
            &mut self.ledger,
            &self.order.work,
            &self.plan.study,
            Devices::Refused,
            self.plan.seed,
            &self.order.state,
            self.interrupt.flag(),
        );
        let footing = match made {
            Err(runner::Error::Interrupted) => return Ok(Ended::Interrupted),
            other => other?,
        };
        let fixed = runner::environment::fixed(self.machine);
        let supervisor = RefCell::new(supervisor);
        let group = Cell::new(None);
        let mut announce = |pid: u32, _: Option<&Target>| {
            group.set(Some(pid));
            warn(supervisor.borrow_mut().group(pid));
        };
        let site = Site {
            machine: self.machine,
            ledger: &mut self.ledger,
            target: None,
            measure: &self.plan.study.measure,
            fixed: &fixed,
            interrupt: self.interrupt.flag(),
            run: &self.folder.run().id,
            study: &self.plan.study.name,
            provenance: Provenance::Host,
            identity: &self.identity,
        };
        let host = RefCell::new(Host::new(site, footing, &mut announce));
        let course = Course {
            plan: &self.plan,
            folder: &self.folder,
            interrupt: &self.interrupt,
            limit: self.order.limit,
            ground: &|| Ok(host.borrow().verify()?),
        };
        course.measure_all(&mut schedule, before, &mut |cell, key, staging| {
            let raw = staging.raw_dir();
            let mut host = host.borrow_mut();
            let done = host.trial(&self.plan.in_trial(cell, key), key, &raw, staging.sink());
            if let Some(pid) = group.take() {
                warn(supervisor.borrow_mut().gone(pid));
            }
            let Done { trial, restored, commands } = done?;
            let places = Places::of(host.target(), &raw).with_server(host.server_commands());
            let script = script(&trial, &self.plan.study.target, &commands, &places);
            Ok(Made { trial, script, restored })
        })
    }
}

impl Start<'_> {
    /// Cells that cannot be run here are said before the first trial, and nothing is made for them.
    fn leave_out(&self, schedule: &mut Schedule) -> Result<()> {
        let cannot = here::cannot(&self.plan);
        let cells = |index: &usize| &self.plan.cells[*index].id;
        let told: Vec<_> = cannot.iter().map(|(index, why)| (cells(index), why.as_str())).collect();
        for line in here::in_words(self.plan.cells.len(), &told) {
            terminal::say(line);
        }
        cannot.keys().for_each(|index| schedule.skip(*index));
        if !cannot.is_empty() {
            let noted = cannot.iter().map(|(index, why)| (cells(index).clone(), why.clone())).collect();
            self.folder.note_skipped(&noted)?;
        }
        Ok(())
    }
}

/// This program once more, to put things back should this process be killed.
pub fn supervisor(state: &Path, lock: Option<&MachineLock>) -> Result<Supervisor> {
    let program =
        std::env::current_exe().context("cannot find this program's own file, to start the supervisor")?;
    let mut command = std::process::Command::new(program);
    command.arg("supervise").arg(state);
    Ok(match lock {
        Some(lock) => Supervisor::start_with(lock, command)?,
        None => Supervisor::start(command)?,
    })
}

/// The machine's lock, which whoever measures or changes anything here holds until it is done.
///
/// # Errors
/// Where another Flyball has it, whatever its state folder is.
pub fn lock_machine() -> Result<Option<MachineLock>> {
    let Some(path) = places::machine_lock() else { return Ok(None) };
    MachineLock::take(&path, &LocalMachine, PATIENCE).map(Some).map_err(busy)
}

/// Opens the ledger, and undoes what an earlier Flyball left. What still runs of one that was killed with its supervisor may
/// hold the very device that is to be undone, so it is ended before; and once more when the lock is ours, for a process that
/// was just being started carried no mark before, and held the lock. Then what it used is tried again.
///
/// # Errors
/// Those of [`Ledger::open`].
pub fn open_ledger<'m>(state: &Path, machine: &'m LocalMachine) -> Result<(Ledger<'m>, RestoreReport)> {
    machine::recovery::open(state, machine).map_err(busy)
}

/// The same for `flyball restore`, which sets a damaged ledger aside and says so.
///
/// # Errors
/// Those of [`Ledger::recover`].
pub fn recover_ledger<'m>(state: &Path, machine: &'m LocalMachine) -> Result<(Ledger<'m>, RestoreReport)> {
    machine::recovery::recover(state, machine).map_err(busy)
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
        terminal::warning(error);
    }
}

/// Says what was put back, and what could not be.
pub fn tell(report: &RestoreReport) {
    for undone in report.foreign().chain(report.failed()) {
        terminal::warning(undone);
    }
    for note in &report.notes {
        terminal::note(note);
    }
}

/// An error where a setting could not be put back: nothing more may be changed.
pub fn refuse_leftovers(report: &RestoreReport) -> Result<()> {
    let left: Vec<String> = report.failed().map(ToString::to_string).collect();
    if left.is_empty() {
        return Ok(());
    }
    bail!(
        "not everything could be put back: {}; see `flyball status`, then run `flyball restore`",
        left.join("; ")
    )
}

/// The run that a study's trials belong to, before it is known whether it is a new one.
pub struct RunOrder<'a> {
    /// The study's name.
    pub study: &'a str,
    /// The study file.
    pub text: &'a str,
    /// The folder of the study file, where it has one.
    pub home: Option<&'a Path>,
    /// The seed that was asked for.
    pub seed: Option<u64>,
    pub begin: Begin,
    pub provenance: Provenance,
    /// What identifies the machine.
    pub identity: &'a str,
}

/// Opens the run that is unfinished, or begins one.
pub fn run_folder(order: &RunOrder<'_>, notebook: &Notebook, inventory: &str) -> Result<RunFolder> {
    if order.begin == Begin::Resume
        && let Some(id) = notebook.unfinished(order.study, order.text, order.identity)?
    {
        let same_seed = |run: &Run| order.seed.is_none_or(|seed| run.seed == Seed(seed));
        if same_seed(&notebook.run(&id)?) {
            return notebook.open_run(&id).map_err(run_busy);
        }
    } else if order.begin == Begin::Resume {
        tell_of_edit(order, notebook)?;
    }
    let now = LocalMachine.now();
    let run = Run {
        id: run_id(order.study, now),
        study: order.study.to_owned(),
        study_text: order.text.to_owned(),
        seed: Seed(order.seed.unwrap_or_else(|| fresh_seed(now))),
        started: now,
        finished: None,
        provenance: order.provenance,
        machine: order.identity.to_owned(),
        flyball: env!("CARGO_PKG_VERSION").to_owned(),
        revision: order.home.and_then(|folder| revision(&LocalMachine, folder)),
        command: std::env::args().skip(1).collect(),
    };
    notebook.create_run(&run, inventory).map_err(run_busy)
}

/// Says that the study was edited since its last run was cut short: which text is measured now, and what becomes of the old one.
fn tell_of_edit(order: &RunOrder<'_>, notebook: &Notebook) -> Result<()> {
    let other = notebook.unfinished_of_another_text(order.study, order.text, order.identity)?;
    if let Some((id, copy)) = other {
        terminal::note(format_args!(
            "the study file was changed since `{id}` was begun, which is unfinished: a new run begins, with the file as it is now; \
             `{id}` keeps its trials (`flyball show {id}`), and goes on where its own copy of the file is run: `{}`",
            copy.display()
        ));
    }
    Ok(())
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
