//! A study's trials, measured in the guest as on any host, and handed over one by one.

use super::agent::{beat, beating, reply};
use super::files;
use super::pacer::{self, Pacer};
use super::timers::Governors;
use crate::error::{Doing, Error, Result};
use domain::ids::{CellId, RunId, TrialKey};
use domain::plan::{Cell as PlanCell, Plan};
use domain::rng::Seed;
use domain::trial::{Provenance, Run};
use lab::guest::{Opening, Reply, Request, receive, send};
use machine::{Ledger, LocalMachine, Machine};
use notebook::{Notebook, RunFolder};
use runner::beside::Started;
use runner::reproduce::{Places, script};
use runner::{BetweenTrials, Devices, Done, Host, Stop, StorageSetup, Target, TrialContext, TrialFiles};
use std::cell::RefCell;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use workloads::Readiness;

/// Where trials are until the host has them; in memory.
const NOTEBOOK: &str = "/run/flyball/notebook";

/// The ledger of changes. Nobody needs it when the machine is gone, but settings are put back between trials
/// by it.
const STATE: &str = "/run/flyball/state";

/// Opens a study, and measures its cells as they are asked for.
pub(super) fn serve(port: &mut File, opening: &Opening) -> Result<()> {
    let machine = LocalMachine;
    let mut study = parse::study::parse_for_lab(&opening.study)?;
    if let Some(sets) = &opening.events {
        study.measure.events = Some(sets.parse().map_err(Error::Refused)?);
        study.measure.events_apart = opening.events_apart;
    }
    let mut plan = Plan::new(study, Seed(opening.seed))?;
    // The measure is the same for all cells.
    if let Some(mut any) = plan.cells.first().cloned() {
        lab::dilation::stretch(&mut any, &mut plan.study.measure, opening.stretched);
    }
    let (mut ledger, _) = Ledger::open(Path::new(STATE), &machine)?;
    let never = AtomicBool::new(false);
    let work = Path::new(&opening.work);
    let make = || {
        StorageSetup::make(
            &mut ledger,
            work,
            &plan.study,
            Devices::OfTheGuest,
            plan.seed,
            Path::new(STATE),
            &never,
        )
    };
    let mut kept = BetweenTrials::new(beating(port, make)?);
    let folder = run_folder(opening, &plan)?;
    let governors = Governors::read(opening.stretched)?;
    let fixed = runner::environment::fixed(&machine);
    let watch = Watch { now: RefCell::default(), unmeasured: RefCell::default(), slowed: opening.slowed };
    let mut announce = |started: Started<'_>| {
        // CPUs are paced from the workload's first work on.
        if let Started::Workload(pid, target) = started {
            watch.begin(pid, target);
        }
    };
    let context = TrialContext {
        machine: &machine,
        ledger: &mut ledger,
        target: None,
        measure: &plan.study.measure,
        fixed: &fixed,
        interrupt: &never,
        run: &folder.run().id,
        study: &plan.study.name,
        provenance: Provenance::Lab,
        identity: &opening.machine,
    };
    let mut host = Host::new(context, &mut kept, &mut announce);
    reply(port, &Reply::Done, &[])?;
    loop {
        let (request, _) = receive::<Request>(port).map_err(Error::HostGone)?;
        let Request::Trial { block, cell, attempt } = request else {
            // Nothing but trials can follow; the host only ends the machine, and that needs no answer.
            std::process::exit(0);
        };
        let key = TrialKey { block, cell: CellId::from_stored(&cell), attempt };
        let bench = Bench { plan: &plan, opening, folder: &folder, watch: &watch, governors: &governors };
        if let Err(error) = bench.trial(port, &mut host, &key) {
            reply(port, &Reply::Failed { why: error.to_string() }, &[])?;
        }
    }
}

/// What the trials of a study have in common.
struct Bench<'a> {
    plan: &'a Plan,
    opening: &'a Opening,
    folder: &'a RunFolder,
    watch: &'a Watch,
    governors: &'a Governors,
}

impl Bench<'_> {
    fn trial(&self, port: &mut File, host: &mut Host<'_, '_>, key: &TrialKey) -> Result<()> {
        let (cell, kind) = self.cell(key)?;
        let (unmeasured, is_measured) = mpsc::channel();
        self.watch.expect(kind, unmeasured);
        let mut staging = self.folder.begin(key)?;
        let (raw, events) = (staging.raw_dir(), staging.events_file());
        let files = &TrialFiles { raw: &raw, events: &events };
        let done = {
            let port = &Mutex::new(&mut *port);
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    beat(port, &is_measured);
                    let mut port = port.lock().unwrap_or_else(PoisonError::into_inner);
                    // A host that is gone is noticed by whoever sends next.
                    let _ = send(&mut **port, &Reply::Begun, &[]);
                });
                let done = host.trial(&cell, key, files, staging.sink());
                self.watch.stop_beating();
                done
            })
        };
        let paced = self.watch.end()?;
        let mut done = match done {
            Ok(done) => done,
            Err(Stop::Unsupported(why)) => return reply(port, &Reply::Unsupported { why }, &[]),
            Err(other) => return Err(other.into()),
        };
        if let Some(disturbance) = paced.as_ref().and_then(|p| p.unpaced.clone()) {
            done.trial.disturb(disturbance);
        }
        let places = Places::of(host.kept().target(), &raw);
        let Done { mut trial, commands, beside, storage, .. } = done;
        let places = places.with_beside(&beside);
        // What it ran, and not what that stands for.
        let script = script(&trial, &self.plan.study.target, &commands, &places);
        lab::dilation::shrink(&mut trial, self.opening.stretched);
        if let Some(storage) = &storage {
            staging.keep_storage(storage)?;
        }
        let stored = staging.commit(&trial, &script)?;
        let start = self.trace_start(key)?;
        let since = |from: domain::Timestamp| {
            let nanos = from.unix_nanos().checked_sub(start?.unix_nanos())?;
            u64::try_from(nanos).ok()
        };
        let paced_from_ns = paced.and_then(|p| since(p.from));
        files::send_folder(port, &stored)?;
        std::fs::remove_dir_all(&stored).doing(|| "remove a trial that was handed over".into())?;
        reply(port, &Reply::Measured { paced_from_ns }, &[])
    }

    /// A cell as this machine has to run it, and how it is paced, where it is.
    fn cell(&self, key: &TrialKey) -> Result<(PlanCell, Option<Readiness>)> {
        let Some(cell) = self.plan.cells.iter().find(|cell| cell.id == key.cell) else {
            return Err(Error::Refused(format!("the study has no cell `{}`", key.cell)));
        };
        let mut cell = self.plan.in_trial(cell, key);
        lab::dilation::stretch(&mut cell, &mut self.plan.study.measure.clone(), self.opening.stretched);
        self.governors.complete(&mut cell);
        let kind = self.opening.paced.then(|| pacer::make_wait(&mut cell.workload));
        Ok((cell, kind))
    }

    fn trace_start(&self, key: &TrialKey) -> Result<Option<domain::Timestamp>> {
        let notebook = Notebook::open(Path::new(NOTEBOOK))?;
        let trace = notebook.trace(&self.folder.run().id, key)?;
        Ok(trace.map(|trace| trace.head().start))
    }
}

/// The pacer of the workload that runs, if any.
struct Watch {
    now: RefCell<(Option<Readiness>, Option<Pacer>)>,
    /// Dropped when the workload begins. Until then the guest says that it is alive: what an earlier trial
    /// has written may take minutes to reach a slow disk.
    unmeasured: RefCell<Option<Sender<()>>>,
    /// How many times slower the guest's clock is while it is paced.
    slowed: f64,
}

impl Watch {
    /// The next workload is of this kind, and to be paced.
    fn expect(&self, kind: Option<Readiness>, unmeasured: Sender<()>) {
        self.now.borrow_mut().0 = kind;
        self.unmeasured.replace(Some(unmeasured));
    }

    fn stop_beating(&self) {
        self.unmeasured.take();
    }

    fn begin(&self, pid: u32, target: Option<&Target>) {
        self.stop_beating();
        let mut now = self.now.borrow_mut();
        let device = target.and_then(Target::device);
        now.1 = now.0.take().map(|kind| Pacer::watch(kind, pid, device, self.slowed));
    }

    fn end(&self) -> Result<Option<pacer::Paced>> {
        let pacer = self.now.borrow_mut().1.take();
        pacer.map(Pacer::finish).transpose()
    }
}

fn run_folder(opening: &Opening, plan: &Plan) -> Result<RunFolder> {
    let notebook = Notebook::create(Path::new(NOTEBOOK))?;
    let run = Run {
        id: RunId(opening.run.clone()),
        study: plan.study.name.clone(),
        study_text: opening.study.clone(),
        seed: plan.seed,
        started: LocalMachine.now(),
        finished: None,
        provenance: Provenance::Lab,
        machine: opening.machine.clone(),
        flyball: env!("CARGO_PKG_VERSION").to_owned(),
        revision: None,
        command: Vec::new(),
    };
    Ok(notebook.create_run(&run, "{}")?)
}
