//! What can be known to fail before anything is made: options that a tool's driver refuses, settings that no
//! machine has, rights that are missing.
//!
//! Non-goal: what only this machine lacks, a tool or a governor. Cells that need it are skipped, and say so.

use crate::availability;
use crate::error::{Error, Result};
use domain::lab::ENERGY_MODELLED;
use domain::per_work;
use domain::plan::{Cell, Plan};
use domain::setting::{SettingName, SettingRequest};
use domain::stack::{Layer, LayerSpec};
use domain::study::{Level, Study, Target, Until, Workload};
use domain::units::Bytes;
use machine::claims::{ClaimError, open_claimed};
use machine::settings::{Error as SettingError, misspelt, misspelt_value, resolve};
use machine::{LocalMachine, Machine, inventory};
use runner::tools::{self, Job};
use runner::{ExistingFolder, ExistingServer, Readable, WatchedLoad};
use std::collections::BTreeSet;
use std::path::Path;
use workloads::Needs;
use workloads::server::{Kind, Load};

/// Looks a plan over.
///
/// # Errors
/// [`Error::Usage`] with everything that is wrong in the study; else that it needs root, where this is not
/// root.
pub fn check(plan: &Plan) -> Result<()> {
    on_a_host(&plan.study)?;
    for_tools(plan)?;
    readable(&plan.study)?;
    existing_folder(&plan.study)?;
    existing_server(plan)?;
    running_loads(plan)?;
    energy_counters(&LocalMachine, &plan.study)?;
    if plan.needs_root() && !rustix::process::geteuid().is_root() {
        return Err(Error::Refused(format!(
            "the study `{}` needs root: it {}; run it with sudo, or see the plan with --dry-run",
            plan.study.name,
            why_root(plan)
        )));
    }
    Ok(())
}

/// What a study reads that is there already, opened and looked at; none where it makes its target.
///
/// # Errors
/// [`Error::Refused`] where it cannot be read.
pub fn readable(study: &Study) -> Result<Option<Readable>> {
    let Target::ReadOnly(path) = &study.target else { return Ok(None) };
    let opened = Readable::open(Path::new(path));
    opened
        .map(Some)
        .map_err(|error| Error::Refused(format!("the study `{}` was not begun: {error}", study.name)))
}

/// The folder that is there already in which a study has its target made; none where it has it elsewhere.
///
/// # Errors
/// [`Error::Refused`] where it cannot be used, or would leave too little space.
pub fn existing_folder(study: &Study) -> Result<Option<ExistingFolder>> {
    let Target::Folder { path, size } = &study.target else { return Ok(None) };
    let checked = ExistingFolder::check(Path::new(path), *size);
    checked
        .map(Some)
        .map_err(|error| Error::Refused(format!("the study `{}` was not begun: {error}", study.name)))
}

/// The server that is there already in which a study's data are made, asked about itself; none where its
/// workloads ask one of Flyball's own.
///
/// # Errors
/// [`Error::Refused`] where it cannot be used, or would leave too little space.
pub fn existing_server(plan: &Plan) -> Result<Option<ExistingServer>> {
    let Target::Server(server) = &plan.study.target else { return Ok(None) };
    let loads: Vec<Load> = plan.cells.iter().filter_map(load).collect();
    let Some(kind) = loads.first().map(|load| load.server.kind) else { return Ok(None) };
    let largest = loads.iter().map(|load| load.data.size()).max().unwrap_or_default();
    let found = ExistingServer::find(kind, server).and_then(|found| {
        found.check_room(Bytes::new(largest))?;
        Ok(found)
    });
    found
        .map(Some)
        .map_err(|error| Error::Refused(format!("the study `{}` was not begun: {error}", plan.study.name)))
}

/// The loads that run already on which cells are measured, each once: found, and asked what they tell.
///
/// # Errors
/// [`Error::Refused`] where one is not there.
pub fn running_loads(plan: &Plan) -> Result<Vec<WatchedLoad>> {
    let options: BTreeSet<_> =
        plan.cells.iter().filter(|cell| runs_already(cell)).map(|cell| &cell.workload.options).collect();
    let found = options.into_iter().map(WatchedLoad::find).collect::<std::result::Result<_, _>>();
    found.map_err(|error| Error::Refused(format!("the study `{}` was not begun: {error}", plan.study.name)))
}

fn runs_already(cell: &Cell) -> bool {
    workloads::of(&cell.workload.tool).needs() == Needs::RunningLoad
}

/// Looks a plan over for what is wrong with it wherever it is run: what real tools cannot do, a model may.
///
/// # Errors
/// [`Error::Usage`] with everything that is wrong in the study.
pub fn in_itself(plan: &Plan) -> Result<()> {
    told(plan, &mistakes(plan, |error| !matches!(error, runner::Error::Unsupported(_))))
}

/// Looks a plan over for what is wrong with it, and for what the real tools cannot do.
///
/// # Errors
/// [`Error::Usage`] with all of it.
pub fn for_tools(plan: &Plan) -> Result<()> {
    told(plan, &mistakes(plan, |_| true))
}

/// Whether this machine counts the energy that a study is about.
fn energy_counters(machine: &dyn Machine, study: &Study) -> Result<()> {
    let metric = &study.measure.metric;
    let folder = Path::new("/sys/class/powercap");
    let is_readable =
        |zone: &String| machine.text(&format!("{}/{zone}/energy_uj", folder.display())).is_some();
    let zones = machine.list(folder).unwrap_or_default();
    let is_of_energy = per_work::is_of_energy(metric) || study.measure.until == Until::Front;
    if !is_of_energy || zones.iter().any(is_readable) {
        return Ok(());
    }
    let power = inventory::power(machine).map_err(|error| Error::Refused(error.to_string()))?;
    if power.is_measurable_otherwise() {
        return Ok(());
    }
    let others: String = power.why_no_other().into_iter().map(|why| format!("; {why}")).collect();
    let why = match zones.iter().any(|zone| zone.contains("rapl")) {
        true => "root alone reads its energy counters (RAPL); run it with sudo".to_owned(),
        false => format!(
            "it shows no energy counters (RAPL){others}; name another metric, or see the lab's models with \
             `flyball lab run`"
        ),
    };
    let name = &study.name;
    let metric = if study.measure.until == Until::Front { per_work::POWER } else { metric };
    Err(Error::Refused(format!("cannot measure `{metric}` of the study `{name}` on this machine: {why}")))
}

fn told(plan: &Plan, wrong: &BTreeSet<String>) -> Result<()> {
    if wrong.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = wrong.iter().map(|line| format!("\n{line}")).collect();
    let name = &plan.study.name;
    Err(Error::Usage(format!("the study `{name}` is wrong; nothing was run{}", lines.concat())))
}

/// Lets each claimed disk that a plan overwrites pass the gate once, so that a run that would be refused is
/// not begun. It passes again when it is built on: something may come to it until then. `state` is where
/// claims are.
///
/// # Errors
/// Everything that stands against any of them; [`Error::Usage`] where a path leads to no disk.
pub fn claimed_disks(plan: &Plan, state: &Path) -> Result<()> {
    let refused: Vec<ClaimError> =
        claimed(plan).into_iter().filter_map(|path| open_claimed(state, Path::new(path)).err()).collect();
    if refused.is_empty() {
        return Ok(());
    }
    let words: Vec<String> = refused.iter().map(ToString::to_string).collect();
    let text = format!("the study `{}` was not begun: {}", plan.study.name, words.join("\n"));
    if refused.iter().any(|error| matches!(error, ClaimError::NoDisk { .. })) {
        return Err(Error::Usage(text));
    }
    Err(Error::Refused(text))
}

/// The paths of the claimed disks that any cell stands on.
fn claimed(plan: &Plan) -> BTreeSet<&String> {
    let layers = plan.cells.iter().flat_map(|cell| &cell.stack).flat_map(|stack| &stack.layers);
    let devices = layers.filter_map(Layer::devices);
    devices.flat_map(|devices| devices.claimed.iter().take(devices.count as usize)).collect()
}

/// Whether a study can be run on a host at all.
///
/// # Errors
/// [`Error::Usage`] where it asks for what only a lab machine has.
pub fn on_a_host(study: &Study) -> Result<()> {
    replays_nothing(study)?;
    let lab_alone = needs_lab_disks(study);
    let why = match (&study.target, &lab_alone) {
        (Target::LabDevice(path), _) => format!(
            "its target is the device `{path}`, which may hold something here, and only a lab machine's devices never do"
        ),
        (_, Some(layer)) => format!(
            "its layer `{layer}` stands on the lab's disks alone, and names nothing that a host has or can make (`claimed`, `loop`, `null_blk`, `scsi_debug`)"
        ),
        _ if varies_kernels(study) => {
            "it varies the kernel, which this host has only one of at a time".to_owned()
        }
        _ if varies_nothing_but_pstates(study) => {
            "it varies the table of P-states, which a lab machine alone has".to_owned()
        }
        _ if study.measure.metric == ENERGY_MODELLED => format!(
            "its metric `{ENERGY_MODELLED}` comes from the table of P-states of a lab machine, and no other machine has one"
        ),
        _ => return Ok(()),
    };
    let name = &study.name;
    Err(Error::Usage(format!(
        "cannot run the study `{name}` on this host: {why}; run it with `flyball lab run`"
    )))
}

/// Whether a lab machine has all that a plan needs.
///
/// # Errors
/// [`Error::Usage`] where a tool is asked for what the lab's slower time would change; else the programs that
/// a guest would be given for a database, where this host lacks them.
pub fn in_the_lab(plan: &Plan) -> Result<()> {
    replays_nothing(&plan.study)?;
    let of_a_host = |load: &Workload| workloads::of(&load.tool).not_stretched(&load.options);
    let beside = plan.study.beside.iter().map(|companion| ("load beside", &companion.load));
    let mut loads = plan.cells.iter().map(|cell| ("workload", &cell.workload)).chain(beside);
    let refused = loads.find_map(|(what, load)| Some((what, &load.name, of_a_host(load)?)));
    let name = &plan.study.name;
    if let Some((what, load, option)) = refused {
        return Err(Error::Usage(format!(
            "cannot run the study `{name}` in the lab: its {what} `{load}` has `{option}`, which does not know the lab's \
             slower time; run it with `flyball run STUDY`, on this host"
        )));
    }
    let unpaced = availability::not_in_the_lab(plan);
    if let Some(why) = unpaced.values().next().filter(|_| unpaced.len() == plan.cells.len()) {
        return Err(Error::Usage(format!("cannot run the study `{name}` in the lab: {why}")));
    }
    if plan.study.measure.metric == per_work::ENERGY {
        return Err(Error::Usage(format!(
            "cannot run the study `{name}` in the lab: its metric `{}` is by counters, and the lab's energy is modelled; name \
             `{ENERGY_MODELLED}`, or `power`, which both have",
            per_work::ENERGY
        )));
    }
    if let Target::ReadOnly(path) | Target::Folder { path, .. } = &plan.study.target {
        return Err(Error::Usage(format!(
            "cannot run the study `{name}` in the lab: it works on `{path}`, which is this host's, and a lab machine has disks of its own; \
             run it with `flyball run STUDY`, on this host, or write `file` or `device` under `[target]`"
        )));
    }
    if let Target::Server(server) = &plan.study.target {
        return Err(Error::Usage(format!(
            "cannot run the study `{name}` in the lab: it asks the server at `{}`, which is this host's, and a lab machine has one of its own; \
             run it with `flyball run STUDY`, on this host, or take `[target]` out",
            server.address
        )));
    }
    if plan.cells.iter().any(runs_already) {
        return Err(Error::Usage(format!(
            "cannot run the study `{name}` in the lab: its load runs already on this host, and a lab machine runs nothing but what it is \
             told; run it with `flyball run STUDY`, on this host"
        )));
    }
    let missing: BTreeSet<String> = plan.cells.iter().filter_map(asked).flat_map(missing_for).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.into_iter().collect::<Vec<String>>().join(", ");
    Err(Error::Refused(format!(
        "cannot run the study `{name}` in the lab: it asks a database, for which a guest is given this host's own programs, and \
         here is no {missing}; install what is missing, and run it again"
    )))
}

/// The server that a cell asks, and whether over a network. What is wrong with its options is told by its
/// driver.
fn asked(cell: &Cell) -> Option<(Kind, bool)> {
    let load = load(cell)?;
    Some((load.server.kind, load.network.is_some()))
}

/// What a cell asks of a server.
fn load(cell: &Cell) -> Option<Load> {
    workloads::of(&cell.workload.tool).server(&cell.workload.options)?.ok()
}

fn missing_for((kind, has_network): (Kind, bool)) -> Vec<String> {
    lab::image::databases::missing(kind, has_network)
}

/// Whether a study can be run with a real kernel: no driver replays a recorded trace.
///
/// # Errors
/// [`Error::Usage`] where a workload has `read_iolog`.
fn replays_nothing(study: &Study) -> Result<()> {
    let found = study.workloads.iter().find_map(|workload| Some((&workload.name, replayed(workload)?)));
    let Some((workload, option)) = found else { return Ok(()) };
    Err(Error::Usage(format!(
        "cannot run the study `{}` here: its workload `{workload}` replays a trace (`{option}`), which only the simulation knows so \
         far; run it with `flyball run STUDY --on sim`",
        study.name,
    )))
}

/// The option by which a recorded trace is replayed.
fn replayed(workload: &Workload) -> Option<&'static str> {
    workloads::of(&workload.tool).simulated_only(&workload.options)
}

/// A layer whose devices only a lab machine has.
fn needs_lab_disks(study: &Study) -> Option<String> {
    let of_the_lab = |layer: &&LayerSpec| {
        let has = |key: &str| layer.values.contains_key(key);
        has("lab") && !["claimed", "loop", "null_blk", "scsi_debug"].into_iter().any(has)
    };
    study.stack.iter().flat_map(|draft| &draft.layers).find(of_the_lab).map(|layer| layer.name.clone())
}

/// Whether a study has a factor over kernels.
pub fn varies_kernels(study: &Study) -> bool {
    study.factors.iter().flat_map(|factor| &factor.levels).any(|level| level.kernel.is_some())
}

/// Whether a study has levels that name a table of P-states.
pub fn varies_pstates(study: &Study) -> bool {
    study.factors.iter().flat_map(|factor| &factor.levels).any(|level| level.pstates.is_some())
}

/// Whether a study has a factor whose levels are alike on every machine but the lab's.
fn varies_nothing_but_pstates(study: &Study) -> bool {
    let is_of_the_lab = |level: &Level| {
        let plain = Level { name: level.name.clone(), pstates: level.pstates.clone(), ..Level::default() };
        level.pstates.is_some() && *level == plain
    };
    study.factors.iter().any(|factor| factor.levels.iter().all(is_of_the_lab))
}

/// Each mistake once, however many cells have it.
fn mistakes(plan: &Plan, counts: impl Fn(&runner::Error) -> bool + Copy) -> BTreeSet<String> {
    let target = target(&plan.study);
    let mut found = BTreeSet::new();
    for cell in &plan.cells {
        let access = (&plan.study.target).into();
        let job = Job { host: tools::host(), access, ..Job::planned(&cell.workload, target, Path::new("/")) };
        let made = tools::invocation(&job);
        if let Some(error) = made.err().filter(|error| replayed(&cell.workload).is_none() && counts(error)) {
            found.insert(format!("workload `{}`: {error}", cell.workload.name));
        }
        let beside = runner::beside::commands(&job, &cell.beside);
        found
            .extend(beside.err().filter(&counts).map(|error| format!("a load beside the workload: {error}")));
        found.extend(cell.settings.iter().filter_map(no_setting));
    }
    found
}

/// Stands for the target that will be made: no driver looks at the file itself. How large a device of a lab's
/// guest is, the guest will know.
fn target(study: &Study) -> Option<(&'static Path, Bytes)> {
    let is_there = study.stack.is_some() || !matches!(study.target, Target::None | Target::Server(_));
    is_there.then(|| (Path::new("/target"), size_of(&study.target)))
}

/// How large a target is, as far as a study says; what the device alone knows is taken for larger than
/// anything.
pub fn size_of(kind: &Target) -> Bytes {
    const LARGEST: Bytes = Bytes::from_mib(1 << 40);
    kind.size().unwrap_or(LARGEST)
}

/// Why no machine has a setting, or none takes its value. What is written almost as something that is here or
/// that some kernel is known to have is wrong; everything else may be another kernel's, as a guest's.
fn no_setting(request: &SettingRequest) -> Option<String> {
    let SettingRequest { setting, value } = request;
    no_such_setting(setting, None).or_else(|| no_such_setting(setting, Some(value)))
}

/// The same of the name alone, or of one value of it.
pub fn no_such_setting(setting: &SettingName, value: Option<&str>) -> Option<String> {
    let error = match value {
        None => misspelt(&LocalMachine, setting)
            .or_else(|| resolve(&LocalMachine, setting, None).err().filter(is_of_no_machine)),
        Some(value) => {
            let request = SettingRequest { setting: setting.clone(), value: value.to_owned() };
            misspelt_value(&LocalMachine, &request)
        }
    };
    error.map(|error| error.to_string())
}

fn is_of_no_machine(error: &SettingError) -> bool {
    matches!(error, SettingError::UnknownSetting { .. } | SettingError::NotASetting { .. })
}

fn why_root(plan: &Plan) -> String {
    let requests = plan.cells.iter().flat_map(|cell| &cell.settings);
    let settings: BTreeSet<String> = requests.map(|r| format!("`{}`", r.setting)).collect();
    let settings = settings.into_iter().collect::<Vec<String>>().join(", ");
    if plan.study.stack.is_some() {
        return "builds a stack of storage".to_owned();
    }
    match (&plan.study.target, settings.is_empty()) {
        (Target::Loop(_), true) => "makes a loop device".to_owned(),
        (Target::Loop(_), false) => format!("makes a loop device and sets {settings}"),
        _ => format!("sets {settings}"),
    }
}
