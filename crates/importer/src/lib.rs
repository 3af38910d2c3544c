//! From another tool's file to a run in the notebook.
//!
//! A file is first understood as a whole, and only then is anything stored: a bad file leaves nothing behind.
//! Samples of the large formats are read a second time, row by row into the trace. No byte of a file is
//! understood by this process ([`foreign`]).

mod error;
mod figures;
pub mod foreign;
mod source;
mod told;

pub use error::{Error, Result};
pub use source::{Environment, Source, looked_for};
pub use told::as_json;

use crate::error::{Doing, Importing};
use crate::foreign::{Imported, Part};
use domain::ids::{CellId, RunId, TrialKey};
use domain::outcome::CPU_BUSY;
use domain::time::Nanos;
use domain::trial::{Measurement, Origin, Provenance, Trial, Validity};
use machine::{LocalMachine, Machine};
use notebook::{Notebook, RunFolder, Staging};
use parse::import::Kind;
use session::study_text::{MAX_NAME, plain, plain_text};
use session::{Begin, Observer, RunRequest, begin_run};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A larger file is not kept beside its trials; its name and SHA-256 are.
pub const MAX_KEPT: u64 = 1 << 30;

/// How many workloads a study lists; a run may have more cells than its study names.
const MAX_WORKLOADS: usize = 64;

/// A file, understood.
pub struct Read {
    /// The file.
    pub source: Source,
    /// What it holds.
    pub imported: Imported,
}

/// What becomes one trial.
pub struct Item {
    /// The result.
    pub part: Part,
    /// Which of the run's files its figures are from.
    file: usize,
    /// Which of them its samples are from.
    series_file: usize,
    /// The trial that it becomes.
    pub key: TrialKey,
}

/// What becomes one run.
pub struct Import {
    /// The study's name.
    pub name: String,
    /// What it is read from.
    pub files: Vec<Read>,
    /// Its trials.
    pub items: Vec<Item>,
    /// The metric that decides.
    pub metric: String,
}

/// Reads a file.
///
/// # Errors
/// Where it cannot be read or understood.
pub fn read(source: Source) -> Result<Read> {
    let imported = source.understand().importing(|| format!("`{}`", source.name))?;
    let mut read = Read { source, imported };
    if is_recording(&read) {
        figures::compute(&mut read)?;
    }
    Ok(read)
}

impl Import {
    /// Of files that are one run.
    pub fn of(name: Option<&str>, mut files: Vec<Read>) -> Self {
        let mut parts = Vec::new();
        for (file, read) in files.iter_mut().enumerate() {
            for part in std::mem::take(&mut read.imported.parts) {
                parts.push((file, file, part));
            }
        }
        if files.len() > 1 {
            join_trace(&mut parts);
        }
        let parts_alone = || parts.iter().map(|(.., part)| part);
        let has_busy = parts_alone().all(|part| part.outcome.metrics.contains_key(CPU_BUSY));
        let is_recording = are_recordings(&files) && has_busy;
        let metric = if is_recording { CPU_BUSY.to_owned() } else { deciding(parts_alone()) };
        let mut cells = Cells::default();
        let items = parts.into_iter().map(|(file, series_file, part)| {
            let key = cells.key(&part.name);
            Item { part, file, series_file, key }
        });
        let items = items.collect();
        let given = files.first().map_or("", |read| read.source.name.as_str());
        let stem = Path::new(given).file_name().map_or(String::new(), |n| n.to_string_lossy().into_owned());
        let name = plain(name.unwrap_or(stem.split('.').next().unwrap_or("")));
        Self { name, files, items, metric }
    }

    /// Stores it as a run; `command` is what was typed.
    ///
    /// # Errors
    /// Where the notebook cannot be written, or a file has changed since it was read.
    pub fn store(
        &self,
        notebook: &Notebook,
        command: Vec<String>,
        observer: &mut dyn Observer,
    ) -> Result<RunId> {
        let host = self.files.iter().find_map(|read| read.imported.facts.get("host"));
        let identity = host.map_or_else(|| "unknown".to_owned(), |host| format!("imported-{}", plain(host)));
        let seed =
            self.files.first().and_then(|read| u32::from_str_radix(read.source.sha256.get(..8)?, 16).ok());
        let text = self.study_text();
        let request = RunRequest {
            study: &self.name,
            text: &text,
            home: None,
            seed: seed.map(u64::from),
            begin: Begin::Anew,
            provenance: Provenance::Imported,
            identity: &identity,
            command,
        };
        // What is not known of the machine is not made up: there is no inventory.
        let mut folder = begin_run(&request, notebook, "null\n", observer)?;
        let mut kept = BTreeSet::new();
        for item in &self.items {
            self.trial(&mut folder, item, &identity, &mut kept)?;
        }
        folder.finish(LocalMachine.now())?;
        Ok(folder.run().id.clone())
    }

    fn trial(
        &self,
        folder: &mut RunFolder,
        item: &Item,
        identity: &str,
        kept: &mut BTreeSet<usize>,
    ) -> Result<()> {
        let mut staging = folder.begin(&item.key)?;
        let file = &self.files[item.file];
        let mut outcome = item.part.outcome.clone();
        outcome.warnings.extend(file.imported.notes.iter().cloned());
        for index in [item.file, item.series_file] {
            if kept.insert(index) {
                outcome.warnings.extend(keep(&self.files[index].source, &staging)?);
            }
        }
        if let Some(samples) = &item.part.samples {
            let Read { source, imported } = &self.files[item.series_file];
            source
                .stream(imported.kind, samples.part, staging.sink())
                .importing(|| format!("the samples of `{}`", source.name))?;
            if imported.kind.has_events() {
                let events = || format!("the events of `{}`", source.name);
                source.events(&mut staging.events()?).importing(events)?;
            }
        }
        let mut environment = self.files[item.series_file].imported.facts.clone();
        environment.extend(file.imported.facts.clone());
        environment.extend(item.part.facts.clone());
        if item.part.started.is_none() {
            environment.insert("when".to_owned(), "not stated; shown is when it was imported".to_owned());
        }
        let now = LocalMachine.now();
        let trial = Trial {
            run: folder.run().id.clone(),
            key: item.key.clone(),
            study: self.name.clone(),
            workload: item.key.cell.as_str().to_owned(),
            levels: BTreeMap::new(),
            provenance: Provenance::Imported,
            machine: identity.to_owned(),
            started: item.part.started.unwrap_or(now),
            settings: Vec::new(),
            environment,
            validity: Validity::Valid,
            origin: Some(origin(&outcome.tool, &file.source)),
            measurement: Some(Measurement {
                outcome,
                commands: item.part.command.iter().cloned().collect(),
                duration: item.part.elapsed().unwrap_or(Nanos::ZERO),
                roles: item.part.roles.clone(),
                threads: item.part.threads.clone(),
                disks: Vec::new(),
                recorder: None,
                profile: item.part.profile.clone(),
                windows: None,
                phases: Vec::new(),
                spent: Default::default(),
                calls: None,
                disturbances: Vec::new(),
            }),
            lab: None,
        };
        staging.commit(&trial, &script(&file.source))?;
        Ok(())
    }

    /// A study that describes the run: what cannot be run again.
    fn study_text(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(plain_text(text)).to_string();
        let names: Vec<&str> = self.files.iter().map(|read| read.source.file_name()).collect();
        let question = format!("What is in {}?", domain::inert::one_line(&names.join(", ")));
        let tool = if are_recordings(&self.files) { "recorded" } else { "imported" };
        let mut text = format!(
            "flyball = 1\nname = {}\nquestion = {}\n\n[measure]\nmetric = {}\n",
            quoted(&self.name),
            quoted(&question),
            quoted(&self.metric)
        );
        let cells: BTreeSet<&str> = self.items.iter().map(|item| item.key.cell.as_str()).collect();
        for cell in cells.into_iter().take(MAX_WORKLOADS) {
            text += &format!("\n[workload.{}]\ntool = \"{tool}\"\n", quoted(cell));
        }
        text
    }
}

/// Whether there is nothing but what says what happened, and answers no other question.
fn are_recordings(files: &[Read]) -> bool {
    files.iter().all(is_recording)
}

fn is_recording(read: &Read) -> bool {
    read.imported.kind == Kind::Trace || read.imported.kind.has_events()
}

/// The one set of samples becomes the trace of the one result: files of one measurement.
fn join_trace(parts: &mut Vec<(usize, usize, Part)>) {
    let of = |has: bool, parts: &[(usize, usize, Part)]| -> Vec<usize> {
        let wanted = parts.iter().enumerate().filter(|(_, (.., part))| part.samples.is_some() == has);
        wanted.map(|(index, _)| index).collect()
    };
    let (results, samples) = (of(false, parts), of(true, parts));
    let ([result], [samples]) = (results.as_slice(), samples.as_slice()) else { return };
    let result = if result < samples { *result } else { result - 1 };
    let (_, samples_file, samples) = parts.remove(*samples);
    let (_, series_file, part) = &mut parts[result];
    for (name, metric) in samples.outcome.metrics {
        part.outcome.metrics.entry(name).or_insert(metric);
    }
    part.started = part.started.or(samples.started);
    part.samples = samples.samples;
    if part.roles.is_empty() {
        part.roles = samples.roles;
    }
    part.threads = samples.threads;
    *series_file = samples_file;
}

/// Which metric a run is about: what all storage and database tools report, before everything else; of
/// samples the one that the most of them have.
fn deciding<'a>(parts: impl Iterator<Item = &'a Part> + Clone) -> String {
    const FIRST: [&str; 11] = [
        "throughput",
        "iops",
        "transactions",
        "block_read",
        "block_write",
        "read_throughput",
        "write_throughput",
        "events",
        "operations",
        "elapsed",
        "value",
    ];
    const OF_SAMPLES: [&str; 3] = ["power", "freq.all", "cpu.user"];
    let how_many = |name: &str| parts.clone().filter(|part| part.outcome.metrics.contains_key(name)).count();
    // Of equals the last is the largest.
    let sampled =
        || OF_SAMPLES.into_iter().rev().max_by_key(|name| how_many(name)).filter(|name| how_many(name) > 0);
    let first = FIRST.into_iter().find(|name| how_many(name) > 0).or_else(sampled).map(str::to_owned);
    let any = || parts.clone().find_map(|part| part.outcome.metrics.keys().next().cloned());
    first.or_else(any).unwrap_or_else(|| "throughput".to_owned())
}

/// Names of cells, and how often each was given: results of one name are repeats.
#[derive(Default)]
struct Cells {
    by_name: BTreeMap<String, (CellId, u32)>,
    taken: BTreeSet<String>,
}

impl Cells {
    fn key(&mut self, name: &str) -> TrialKey {
        if !self.by_name.contains_key(name) {
            let base = plain(name);
            let numbered =
                (2..).map(|n| format!("{}-{n}", base.chars().take(MAX_NAME - 8).collect::<String>()));
            let free = std::iter::once(base.clone()).chain(numbered).find(|name| !self.taken.contains(name));
            let free = free.unwrap_or(base);
            self.taken.insert(free.clone());
            self.by_name.insert(name.to_owned(), (CellId::new([free.as_str()]), 0));
        }
        let (cell, count) = self.by_name.get_mut(name).expect("it was put in above, where it was missing");
        let key = TrialKey { block: *count, cell: cell.clone(), attempt: 0 };
        *count += 1;
        key
    }
}

fn origin(tool: &str, source: &Source) -> Origin {
    let (name, version) = match tool.rsplit_once('-') {
        Some((name, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => {
            (name, Some(version.to_owned()))
        }
        _ => (tool, None),
    };
    Origin { tool: name.to_owned(), version, file: source.name.clone(), sha256: source.sha256.clone() }
}

/// Puts the file as it was given beside the trial; a warning where it is too large for that.
fn keep(source: &Source, staging: &Staging) -> Result<Option<String>> {
    if source.size > MAX_KEPT {
        let (size, most) = (source.size >> 20, MAX_KEPT >> 20);
        return Ok(Some(format!(
            "the file is not kept here, for it has {size} MiB, and {most} MiB are kept at most"
        )));
    }
    let to = staging.raw_dir().join(kept_name(source));
    source.copy_to(&to).doing(|| format!("keep `{}` as `{}`", source.name, to.display()))?;
    Ok(None)
}

fn kept_name(source: &Source) -> String {
    let name = Path::new(&source.name).file_name().map(|n| n.to_string_lossy().into_owned());
    let clean = |c: char| if c.is_ascii_alphanumeric() || "-_.+".contains(c) { c } else { '_' };
    let name: String = name.unwrap_or_default().chars().map(clean).take(200).collect();
    if name.trim_matches('.').is_empty() { "imported".to_owned() } else { name }
}

fn script(source: &Source) -> String {
    format!(
        "#!/bin/sh\n# Nothing was run here: another tool's result was imported. SHA-256 of the file: {}\nset -eu\n\
         flyball import --again \"$(dirname \"$0\")/raw/{}\"\n",
        source.sha256,
        kept_name(source)
    )
}

/// The run that a file was imported as before.
///
/// # Errors
/// Where the notebook cannot be listed.
pub fn imported_before(notebook: &Notebook, sha256: &str) -> Result<Option<RunId>> {
    let (runs, _) = notebook.runs()?;
    for entry in runs.into_iter().filter(|entry| entry.run.provenance == Provenance::Imported) {
        let (trials, _) = notebook.trials(&entry.run.id)?;
        if trials.iter().filter_map(|trial| trial.origin.as_ref()).any(|origin| origin.sha256 == sha256) {
            return Ok(Some(entry.run.id));
        }
    }
    Ok(None)
}
