//! `flyball run STUDY --dry-run`: every command and every write, before anything happens.

use super::stacks;
use crate::args::Global;
use crate::exit::End;
use crate::{places, terminal};
use anyhow::Result;
use domain::Nanos;
use domain::ids::{CellId, TrialKey};
use domain::inert::{Lines, prose};
use domain::plan::{Cell, Plan};
use domain::rng::Seed;
use domain::setting::SettingRequest;
use domain::study::{Study, Target};
use domain::units::Bytes;
use machine::ledger::{PlannedWrite, preview};
use machine::settings::Error as SettingError;
use machine::{LocalMachine, Machine};
use runner::tools::{self, Job};
use runner::{Devices, ExistingFolder, Readable, environment};
use serde_json::{Value, json};
use session::Availability;
use session::{fresh_seed, preflight, unavailable_in_words};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use workloads::{Needs, TargetAccess};

/// The version of the JSON form of a plan.
const SCHEMA: u32 = 1;

/// What a trial takes besides its workload's own time: settling, starting, writing. As seen on a small
/// server.
const OVERHEAD: Nanos = Nanos::from_millis(500);

/// Stands for the top of a stack, or the file in it.
const TOP: &str = "TARGET";

/// Stands for the folder that will be made: its name is drawn only then.
const OWN_FOLDER: &str = "flyball-…-target";

/// Stands for the loop device that will be made: its number is known only then.
const LOOP: &str = "loopN";

/// Prints the plan. Nothing is made, written or locked. It ends as the run would: refused where that would
/// be, incomplete where cells cannot run here.
pub fn show(global: &Global, study: Study, seed: Option<u64>, work: &Path) -> Result<End> {
    preflight::on_a_host(&study)?;
    let seed = Seed(seed.unwrap_or_else(|| fresh_seed(LocalMachine.now())));
    let plan = Plan::new(study, seed)?;
    preflight::for_tools(&plan)?;
    let target = Planned::of(&plan.study, work)?;
    let mut availability = Availability::default();
    let cells = plan.cells.iter().map(|cell| {
        let first = plan.in_trial(cell, &TrialKey::first(cell.id.clone()));
        CellPlan::of(&first, &target, availability.against(cell))
    });
    let cells: Vec<CellPlan> = cells.collect();
    if global.json {
        terminal::json(&as_json(&plan, &cells, &target))?;
    } else {
        terminal::lines(&as_text(&plan, &cells, &target))?;
    }
    let is_possible = cells.iter().all(|cell| cell.against().is_empty());
    Ok(if is_possible { End::Done } else { End::Incomplete })
}

/// What one cell would do.
struct CellPlan {
    /// What stands against it on this machine, besides its writes and its command.
    not_here: Vec<String>,
    /// Its command, or why there is none.
    command: Result<Vec<String>, String>,
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
        let job = Job { host: tools::host(), access: target.access, ..planned };
        Self {
            not_here,
            command: tools::invocation(&job).map(|i| i.argv).map_err(|e| e.to_string()),
            writes: writes(&cell.settings, target),
            takes: takes(cell),
        }
    }

    /// Everything that stands against it, each once.
    fn against(&self) -> Vec<&str> {
        let writes = self.writes.iter().filter_map(|write| write.as_ref().err());
        let mut all: Vec<&str> = Vec::new();
        for why in self.not_here.iter().chain(writes).chain(self.command.as_ref().err()) {
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
    /// Who uses it now.
    uses: Vec<String>,
}

impl Planned {
    /// What is there already is opened for reading, and looked at.
    fn of(study: &Study, work: &Path) -> Result<Self> {
        if let Some(readable) = preflight::readable(study)? {
            return Ok(Self::to_read(&readable)?);
        }
        if let Some(folder) = preflight::existing_folder(study)? {
            return Ok(Self::in_folder(folder, preflight::size_of(&study.target)));
        }
        let place = match &study.target {
            kind if study.stack.is_some() => Some((PathBuf::from(TOP), preflight::size_of(kind))),
            Target::None | Target::LabDevice(_) | Target::ReadOnly(_) | Target::Folder { .. } => None,
            Target::File(size) => Some((work.join("target"), *size)),
            Target::Loop(size) => Some((Path::new("/dev").join(LOOP), *size)),
        };
        let made = place.as_ref().filter(|_| study.stack.is_none());
        let told =
            made.map(|(path, size)| format!("makes {} of {size}, and removes it at the end", path.display()));
        let (device, to_come) = match &study.target {
            _ if study.stack.is_some() => (None, Some(TOP)),
            Target::Loop(_) => (None, Some(LOOP)),
            Target::File(_) => (disk_below(work), None),
            _ => (None, None),
        };
        Ok(Self { place, access: TargetAccess::ReadWrite, device, to_come, told, uses: Vec::new() })
    }

    fn in_folder(folder: ExistingFolder, size: Bytes) -> Self {
        let told = format!(
            "makes a folder of its own in {}, with a file of {size}, and removes it at the end",
            folder.in_words()
        );
        let place = Some((folder.path.join(OWN_FOLDER).join("target"), size));
        let device = folder.device;
        let access = TargetAccess::ReadWrite;
        Self { place, access, device, to_come: None, told: Some(told), uses: Vec::new() }
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
        })
    }

    fn as_json(&self) -> Option<Value> {
        self.told.as_ref()?;
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

/// The time that fio, sysbench or pgbench is told to take; what has no such option takes as long as it takes.
fn takes(cell: &Cell) -> Option<Nanos> {
    let option = |name: &str| {
        let text = cell.workload.options.get(name)?;
        Nanos::parse(text).or_else(|| text.parse().ok().map(Nanos::from_secs))
    };
    let extra = option("ramp_time").unwrap_or_default() + option("startdelay").unwrap_or_default();
    option("runtime").or_else(|| option("time")).map(|runtime| runtime + extra)
}

/// The least and the most time, of the cells that can be run here and of the trials whose time is known, and
/// how many cells' is not.
fn expected(plan: &Plan, cells: &[CellPlan]) -> (Nanos, Nanos, usize) {
    let run = || cells.iter().filter(|cell| cell.against().is_empty());
    let known: u64 = run().map(|c| c.takes.unwrap_or_default().get() + OVERHEAD.get()).sum();
    let measure = &plan.study.measure;
    let times = |repeats: u32| Nanos::new(known.saturating_mul(u64::from(repeats)));
    let unknown = run().filter(|c| c.takes.is_none()).count();
    (times(measure.repeats_min), times(measure.repeats_max), unknown)
}

fn as_text(plan: &Plan, cells: &[CellPlan], target: &Planned) -> Lines {
    let mut text = Lines::default();
    let measure = &plan.study.measure;
    let (least, most, unknown) = expected(plan, cells);
    text.line(prose(&plan.study.question));
    text.blank();
    text.line(format_args!("seed {}", plan.seed));
    let times = range(measure.repeats_min, measure.repeats_max);
    text.line(format_args!("{} cells, each {times} times", cells.len()));
    if cells.iter().any(|cell| cell.against().is_empty()) {
        let unknown = match unknown {
            0 => String::new(),
            n => format!(", and what the workloads of {n} cells take, which state no time"),
        };
        text.line(format_args!("expected time {}{unknown}", range(least, most)));
    }
    let why: Vec<String> = cells.iter().map(|does| does.against().join("; and ")).collect();
    let cannot: Vec<(&CellId, &str)> =
        plan.cells.iter().map(|cell| &cell.id).zip(why.iter().map(String::as_str)).collect();
    let cannot: Vec<(&CellId, &str)> = cannot.into_iter().filter(|(_, why)| !why.is_empty()).collect();
    text.extend(unavailable_in_words(cells.len(), &cannot));
    if let Some(told) = &target.told {
        text.line(told);
    }
    for used in &target.uses {
        text.line(format_args!("  {used}"));
    }
    let asks = |cell: &Cell| workloads::of(&cell.workload.tool).needs() == Needs::Server;
    if plan.cells.iter().zip(cells).any(|(cell, does)| asks(cell) && does.against().is_empty()) {
        text.line("makes a database server of its own, fills it, and removes it at the end");
    }
    if plan.needs_root() && !places::is_root() {
        text.line("needs root, which you are not");
    }
    stacks::describe(&mut text, &stacks::of(plan, Devices::Refused));
    for (cell, does) in plan.cells.iter().zip(cells) {
        text.blank();
        text.line(&cell.id);
        for reason in does.against() {
            text.line(format_args!("  not possible: {reason}"));
        }
        for w in does.writes.iter().flatten() {
            text.line(format_args!("  {}  {} = {}{}  {}", act(w), w.setting, w.new, was(w), w.path));
        }
        if let Ok(argv) = &does.command {
            text.line(format_args!("  run    {}", argv.join(" ")));
        }
    }
    text.blank();
    text.line("the first block runs in this order:");
    for index in plan.block_order(0) {
        text.line(format_args!("  {}", plan.cells[index].id));
    }
    text
}

/// `6 to 12`, or just `6`.
fn range<T: PartialEq + Display>(least: T, most: T) -> String {
    if least == most { least.to_string() } else { format!("{least} to {most}") }
}

/// What becomes of a setting, in as many letters.
fn act(write: &SettingWrite) -> &'static str {
    if machine::settings::is_held(&write.path) { "hold " } else { "write" }
}

fn was(write: &SettingWrite) -> String {
    write.now.as_ref().map_or(String::new(), |now| format!(" (now {now})"))
}

fn as_json(plan: &Plan, cells: &[CellPlan], target: &Planned) -> String {
    let (least, most, unknown) = expected(plan, cells);
    let write = |write: &Result<SettingWrite, String>| match write {
        Ok(w) => json!({ "setting": w.setting, "path": w.path, "now": w.now, "new": w.new }),
        Err(reason) => json!({ "error": reason }),
    };
    let cell = |(cell, does): (&Cell, &CellPlan)| {
        json!({
            "cell": cell.id.as_str(),
            "levels": cell.levels,
            "not_possible": does.against(),
            "writes": does.writes.iter().map(write).collect::<Vec<Value>>(),
            "command": does.command.as_ref().ok(),
            "error": does.command.as_ref().err(),
        })
    };
    let order =
        |block: u32| plan.block_order(block).into_iter().map(|i| plan.cells[i].id.as_str().to_owned());
    let value = json!({
        "schema": SCHEMA,
        "study": plan.study.name,
        "question": plan.study.question,
        "seed": plan.seed.0,
        "repeats": [plan.study.measure.repeats_min, plan.study.measure.repeats_max],
        "expected_seconds": [least.secs(), most.secs()],
        "cells_of_unknown_time": unknown,
        "target": target.as_json(),
        "stacks": stacks::as_json(&stacks::of(plan, Devices::Refused)),
        "cells": plan.cells.iter().zip(cells).map(cell).collect::<Vec<Value>>(),
        "first_block": order(0).collect::<Vec<String>>(),
    });
    format!("{value:#}")
}
