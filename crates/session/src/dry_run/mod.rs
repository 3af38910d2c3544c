//! The plan of a run before anything happens: every command and every write, on this host and in a lab
//! machine, and what would be simulated. Nothing is made, written, locked or started.

mod in_lab;
mod in_simulation;
mod stacks;
mod text;

pub use in_lab::in_lab;
pub use in_simulation::in_simulation;

use crate::availability::Availability;
use crate::begin::fresh_seed;
use crate::error::Result;
use crate::preflight;
use domain::Nanos;
use domain::ids::TrialKey;
use domain::plan::{Cell, Plan};
use domain::rng::Seed;
use domain::setting::SettingRequest;
use domain::study::{self, Study, Target};
use domain::units::Bytes;
use machine::ledger::{PlannedWrite, preview};
use machine::settings::Error as SettingError;
use machine::{LocalMachine, Machine};
use runner::beside::{self, BesideCommand};
use runner::tools::{self, Job};
use runner::{ExistingFolder, ExistingServer, Readable, environment};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use workloads::running::RunningLoad;
use workloads::server::Connection;
use workloads::{Needs, TargetAccess};

/// Stands for the top of a stack, or the file in it.
const TOP: &str = "TARGET";

/// Stands for the folder that will be made: its name is drawn only then.
const OWN_FOLDER: &str = "flyball-…-target";

/// Stands for the loop device that will be made: its number is known only then.
const LOOP: &str = "loopN";

/// What a run on this host would do.
pub struct DryRun {
    plan: Plan,
    cells: Vec<CellPlan>,
    target: Planned,
}

impl DryRun {
    /// Plans a run on this host, with its files in `work`. It is refused as the run would be.
    ///
    /// # Errors
    /// Where the run would be refused before its first trial.
    pub fn on_a_host(study: Study, seed: Option<u64>, work: &Path) -> Result<Self> {
        preflight::on_a_host(&study)?;
        let seed = Seed(seed.unwrap_or_else(|| fresh_seed(LocalMachine.now())));
        let plan = Plan::new(study, seed)?;
        preflight::for_tools(&plan)?;
        let target = Planned::of(&plan, work)?;
        let mut availability = Availability::default();
        let cells = plan.cells.iter().map(|cell| {
            let first = plan.in_trial(cell, &TrialKey::first(cell.id.clone()));
            CellPlan::of(&first, &target, availability.against(cell))
        });
        let cells: Vec<CellPlan> = cells.collect();
        Ok(Self { plan, cells, target })
    }

    /// Whether every cell can be run here.
    pub fn is_possible(&self) -> bool {
        self.cells.iter().all(|cell| cell.against().is_empty())
    }
}

/// What one cell would do.
struct CellPlan {
    /// What stands against it on this machine, besides its writes and its command.
    not_here: Vec<String>,
    /// Its command, or why there is none.
    command: Result<Vec<String>, String>,
    /// The commands of the loads beside its workload, or why there are none.
    beside: Result<Vec<BesideCommand>, String>,
    /// Its writes, or why they are not possible here.
    writes: Vec<Result<SettingWrite, String>>,
    /// How long its workload says that it takes.
    takes: Option<Nanos>,
}

/// One write to a setting.
struct SettingWrite {
    setting: String,
    path: String,
    now: Option<String>,
    new: String,
}

impl CellPlan {
    fn of(cell: &Cell, target: &Planned, not_here: Vec<String>) -> Self {
        let place = target.place.as_ref().map(|(path, size)| (path.as_path(), *size));
        let planned = Job::planned(&cell.workload, place, Path::new("RAW"));
        let server = target.server.as_ref();
        let job = Job { host: tools::host(), access: target.access, server, ..planned };
        Self {
            not_here,
            beside: beside::commands(&job, &cell.beside).map_err(|e| e.to_string()),
            command: tools::invocation(&job).map(|i| i.argv).map_err(|e| e.to_string()),
            writes: writes(&cell.settings, target),
            takes: takes(cell).map(|span| span + lead(cell)),
        }
    }

    /// Everything that stands against it, each once.
    fn against(&self) -> Vec<&str> {
        let writes = self.writes.iter().filter_map(|write| write.as_ref().err());
        let mut all: Vec<&str> = Vec::new();
        let commands = self.command.as_ref().err().into_iter().chain(self.beside.as_ref().err());
        for why in self.not_here.iter().chain(writes).chain(commands) {
            if !all.contains(&why.as_str()) {
                all.push(why);
            }
        }
        all
    }
}

/// The target as it would be.
struct Planned {
    /// Where, and how large.
    place: Option<(PathBuf, Bytes)>,
    access: TargetAccess,
    /// The disk that it is or lies on, where that is there already.
    device: Option<String>,
    /// What stands for the device that is made for it; none where none is.
    to_come: Option<&'static str>,
    /// What becomes of it, in a sentence; none for what a stack is the target of.
    told: Option<String>,
    /// What is known of it besides: who uses it now, where it lies.
    uses: Vec<String>,
    /// How the database will be reached that is made in a server that is there.
    server: Option<Connection>,
}

impl Planned {
    /// What is there already is opened for reading, and looked at.
    fn of(plan: &Plan, work: &Path) -> Result<Self> {
        let study = &plan.study;
        if let (Target::Server(named), Some(server)) = (&study.target, preflight::existing_server(plan)?) {
            return Ok(Self::in_server(plan, named, &server));
        }
        if let Some(readable) = preflight::readable(study)? {
            return Ok(Self::to_read(&readable)?);
        }
        if let Some(folder) = preflight::existing_folder(study)? {
            return Ok(Self::in_folder(folder, preflight::size_of(&study.target)));
        }
        let place = match &study.target {
            kind if study.stack.is_some() => Some((PathBuf::from(TOP), preflight::size_of(kind))),
            Target::None
            | Target::LabDevice(_)
            | Target::ReadOnly(_)
            | Target::Folder { .. }
            | Target::Server(_) => None,
            Target::File(size) => Some((work.join("target"), *size)),
            Target::Loop(size) => Some((Path::new("/dev").join(LOOP), *size)),
        };
        let made = place.as_ref().filter(|_| study.stack.is_none());
        let made =
            made.map(|(path, size)| format!("makes {} of {size}, and removes it at the end", path.display()));
        let watched: Vec<String> =
            preflight::running_loads(plan)?.iter().map(|load| format!("watches {}", load.name())).collect();
        let watches = (!watched.is_empty()).then(|| format!("{}; nothing is done to it", watched.join(", ")));
        let told = made.or(watches);
        let (device, to_come) = match &study.target {
            _ if study.stack.is_some() => (None, Some(TOP)),
            Target::Loop(_) => (None, Some(LOOP)),
            Target::File(_) => (disk_below(work), None),
            _ => (None, None),
        };
        Ok(Self {
            place,
            access: TargetAccess::ReadWrite,
            device,
            to_come,
            told,
            uses: Vec::new(),
            server: None,
        })
    }

    /// The largest of the data sets is told, for one is there at a time.
    fn in_server(plan: &Plan, named: &study::ExistingServer, server: &ExistingServer) -> Self {
        let size = |cell: &Cell| {
            let load = workloads::of(&cell.workload.tool).server(&cell.workload.options)?.ok()?;
            Some(load.data.size())
        };
        let largest = Bytes::new(plan.cells.iter().filter_map(size).max().unwrap_or_default());
        let told = format!(
            "makes a database of its own in {}, with tables of some {largest}, and drops it at the end",
            server.client().login()
        );
        let connection = Connection::planned_in(named, server.user());
        Self {
            place: None,
            access: TargetAccess::ReadWrite,
            device: server.device().map(str::to_owned),
            to_come: None,
            told: Some(told),
            uses: server.in_words(),
            server: Some(connection),
        }
    }

    fn in_folder(folder: ExistingFolder, size: Bytes) -> Self {
        let told = format!(
            "makes a folder of its own in {}, with a file of {size}, and removes it at the end",
            folder.in_words()
        );
        let place = Some((folder.path.join(OWN_FOLDER).join("target"), size));
        let device = folder.device;
        let access = TargetAccess::ReadWrite;
        Self { place, access, device, to_come: None, told: Some(told), uses: Vec::new(), server: None }
    }

    fn to_read(readable: &Readable) -> Result<Self, runner::Error> {
        let uses: Vec<String> = readable.uses()?.iter().map(ToString::to_string).collect();
        let path = readable.path().display();
        let told = format!("reads {path}, {}, and writes nothing to it", readable.in_words());
        Ok(Self {
            place: Some((readable.path().to_owned(), readable.size())),
            access: TargetAccess::ReadOnly,
            device: readable.device().map(str::to_owned),
            to_come: None,
            told: Some(told),
            uses,
            server: None,
        })
    }

    fn as_json(&self) -> Option<Value> {
        let told = self.told.as_ref()?;
        if let Some(server) = &self.server {
            let (address, user) = (server.address.to_string(), &server.user);
            return Some(
                json!({ "server": { "address": address, "user": user, "told": told, "about": self.uses } }),
            );
        }
        let (path, size) = self.place.as_ref()?;
        let is_read_only = self.access == TargetAccess::ReadOnly;
        let mut value = json!({ "path": path, "bytes": size.get() });
        if is_read_only {
            value["read_only"] = json!({ "device": self.device, "uses": self.uses });
        }
        Some(value)
    }
}

/// What the settings of a cell would write. They are looked at together, for a governor brings its tunables;
/// those of the target's own device apart, where it does not exist yet.
fn writes(requests: &[SettingRequest], target: &Planned) -> Vec<Result<SettingWrite, String>> {
    let device = target.device.as_deref();
    let needs_device = |request: &&SettingRequest| {
        let alone = preview(&LocalMachine, std::slice::from_ref(request), device);
        matches!(alone, Err(SettingError::NeedsDevice { .. }))
    };
    let (of_target, others): (Vec<&SettingRequest>, Vec<&SettingRequest>) =
        requests.iter().partition(needs_device);
    let others: Vec<SettingRequest> = others.into_iter().cloned().collect();
    let mut writes: Vec<Result<SettingWrite, String>> = match preview(&LocalMachine, &others, device) {
        Ok(planned) => planned.into_iter().map(|p| Ok(SettingWrite::from(p))).collect(),
        Err(error) => vec![Err(error.to_string())],
    };
    writes.extend(of_target.into_iter().map(|request| match target.to_come {
        Some(to_come) => Ok(SettingWrite {
            setting: format!("{}@{to_come}", request.setting),
            path: format!("/sys/block/{to_come}/queue/{}", request.setting.name),
            now: None,
            new: request.value.clone(),
        }),
        // As the run would refuse it: there is no disk below the file.
        None => match preview(&LocalMachine, std::slice::from_ref(request), None) {
            Ok(_) => Err(format!("{request}: it is of no device here")),
            Err(error) => Err(error.to_string()),
        },
    }));
    writes
}

/// The disk below the folder that the target will be in, which may have to be made.
fn disk_below(work: &Path) -> Option<String> {
    let there = work.ancestors().find(|folder| folder.is_dir())?;
    environment::devices_below(&LocalMachine, there).into_iter().next()
}

impl From<PlannedWrite> for SettingWrite {
    fn from(planned: PlannedWrite) -> Self {
        let PlannedWrite { setting, path, now, new } = planned;
        Self { setting, path, now, new }
    }
}

/// How long loads beside the workload run before it.
fn lead(cell: &Cell) -> Nanos {
    cell.beside.iter().map(|companion| companion.lead).max().unwrap_or_default()
}

/// The time that fio, sysbench or pgbench is told to take; what has no such option takes as long as it takes.
fn takes(cell: &Cell) -> Option<Nanos> {
    if let Ok(load) = RunningLoad::parse(&cell.workload.options)
        && workloads::of(&cell.workload.tool).needs() == Needs::RunningLoad
    {
        return Some(load.wash_out + load.span);
    }
    let option = |name: &str| {
        let text = cell.workload.options.get(name)?;
        Nanos::parse(text).or_else(|| text.parse().ok().map(Nanos::from_secs))
    };
    let extra = option("ramp_time").unwrap_or_default() + option("startdelay").unwrap_or_default();
    option("runtime").or_else(|| option("time")).map(|runtime| runtime + extra)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_against_a_load_beside_the_workload_stands_against_the_cell() {
        let cell = CellPlan {
            not_here: Vec::new(),
            command: Ok(Vec::new()),
            beside: Err("no such load".into()),
            writes: Vec::new(),
            takes: None,
        };
        assert_eq!(cell.against(), ["no such load"]);
    }
}
