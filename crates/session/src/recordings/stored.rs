//! What a recording becomes in a notebook: a run of one cell and one trial, whose study says that it was
//! recorded.

use crate::study_text::{plain, plain_text};
use analysis::recorded::{CPU_TIME, EXIT_CODE};
use domain::database::counters::{QUERIES, TRANSACTIONS, WATCHED, WRITE_TRANSACTIONS};
use domain::ids::{CellId, RunId, TrialKey};
use domain::inert::one_line;
use domain::outcome::{Better, CPU_BUSY, Metric, Outcome};
use domain::rng::Seed;
use domain::time::{Nanos, Timestamp};
use domain::trace::Role;
use domain::trial::{Measurement, Origin, PROCESS, Provenance, Run, Trial, Validity};
use domain::units::Unit;
use notebook::Recording;
use std::collections::BTreeMap;

/// The cell and workload of every recording: so any two can be compared.
const CELL: &str = "recorded";

/// By this name a recording's environment says whether what was recorded ended by itself. One of an earlier
/// version does not say it.
pub(super) const ENDED: &str = "ended";
/// It did.
pub(super) const BY_ITSELF: &str = "by itself";

/// The longest command that a question quotes whole.
const MAX_QUOTED: usize = 120;

/// The key of a recording's trial.
pub(super) fn key() -> TrialKey {
    TrialKey::first(CellId::new([CELL]))
}

/// A recording as a run.
pub(super) struct Recorded<'a> {
    /// What was recorded.
    pub recording: &'a Recording,
    pub provenance: Provenance,
    /// When the run began: when it was recorded, or imported.
    pub begun: Timestamp,
    /// The file that it was imported from.
    pub origin: Option<Origin>,
    /// What was typed.
    pub typed: Vec<String>,
}

impl Recorded<'_> {
    /// The run and its trial.
    pub fn run(self) -> (Run, Trial) {
        let recording = self.recording;
        let study = study_name(recording);
        let id = RunId::begun(&study, self.begun);
        let metrics = self.all_metrics();
        let run = Run {
            id: id.clone(),
            study: study.clone(),
            study_text: study_text(recording, &study, &metrics),
            // Nothing was planned.
            seed: Seed(0),
            started: self.begun,
            finished: Some(after(self.begun, recording.duration)),
            provenance: self.provenance,
            machine: recording.machine.clone(),
            flyball: env!("CARGO_PKG_VERSION").to_owned(),
            revision: None,
            command: self.typed,
        };
        let mut environment = recording.environment.clone();
        let failed = recording.exit_code.filter(|code| *code != 0);
        environment.extend(failed.map(|code| (EXIT_CODE.to_owned(), code.to_string())));
        let trial = Trial {
            run: id,
            key: key(),
            study,
            workload: CELL.to_owned(),
            levels: BTreeMap::new(),
            provenance: self.provenance,
            machine: recording.machine.clone(),
            started: recording.started,
            settings: Vec::new(),
            environment,
            validity: Validity::Valid,
            measurement: Some(measurement(recording, metrics)),
            lab: None,
            origin: self.origin,
        };
        (run, trial)
    }

    /// With what is known of the command or process alone. A command that was stopped has no time of its own.
    fn all_metrics(&self) -> BTreeMap<String, Metric> {
        let seconds = |value| Metric { value, unit: Unit::Seconds, better: Better::Lower };
        let recording = self.recording;
        let mut all = recording.metrics.clone();
        if recording.command.is_some() && recording.environment.get(ENDED).is_some_and(|how| how == BY_ITSELF)
        {
            all.insert("elapsed".to_owned(), seconds(recording.duration.secs()));
        }
        if let Some(cpu) = recording.roles.get(&Role::Workload) {
            all.insert(CPU_TIME.to_owned(), seconds(cpu.secs()));
        }
        all
    }
}

fn after(begun: Timestamp, span: Nanos) -> Timestamp {
    let span = i64::try_from(span.get()).unwrap_or(i64::MAX);
    Timestamp::from_unix_nanos(begun.unix_nanos().saturating_add(span))
}

fn measurement(recording: &Recording, metrics: BTreeMap<String, Metric>) -> Measurement {
    Measurement {
        outcome: Outcome { metrics, tool: String::new(), warnings: recording.warnings.clone() },
        commands: recording.command.iter().cloned().collect(),
        duration: recording.duration,
        roles: recording.roles.clone(),
        threads: recording.threads.clone(),
        disks: recording.disks.clone(),
        profile: recording.profile.clone(),
        windows: recording.windows.clone(),
        phases: recording.phases.clone(),
        spent: recording.spent.clone(),
        calls: recording.calls.clone(),
        recorder: Some(recording.recorder.clone()),
        disturbances: Vec::new(),
    }
}

/// `recording`, `recording-dd`, `recording-mysqld`.
fn study_name(recording: &Recording) -> String {
    let program = recording.command.as_ref().and_then(|argv| argv.first());
    let program = program.map(|program| program.rsplit('/').next().unwrap_or(program).to_owned());
    let process = || recording.environment.get(PROCESS).map(|process| name_of(process).to_owned());
    match program.or_else(process) {
        Some(name) => format!("recording-{}", plain(&name)),
        None => "recording".to_owned(),
    }
}

/// How a recording's environment names a process: `4711 mysqld`.
pub(super) fn process_in_words(pid: u32, name: &str) -> String {
    format!("{pid} {name}")
}

fn name_of(process: &str) -> &str {
    process.split_once(' ').map_or(process, |(_, name)| name)
}

/// A study that describes the recording: nothing is varied, and it cannot be run.
fn study_text(recording: &Recording, name: &str, metrics: &BTreeMap<String, Metric>) -> String {
    let quoted = |text: &str| serde_json::Value::from(plain_text(text)).to_string();
    let of_server = [TRANSACTIONS, WRITE_TRANSACTIONS, QUERIES];
    let deciding = ["elapsed"].into_iter().chain(of_server).find(|name| metrics.contains_key(*name));
    let deciding = deciding.unwrap_or(CPU_BUSY);
    format!(
        "flyball = 1\nname = {}\nquestion = {}\n\n[measure]\nmetric = {}\n\n[workload.{CELL}]\ntool = \"recorded\"\n",
        quoted(name),
        quoted(&question(recording)),
        quoted(deciding)
    )
}

/// A command on one line, cut where it is long.
pub fn short_command(argv: &[String]) -> String {
    let line = argv.join(" ");
    let short: String = line.chars().take(MAX_QUOTED).collect();
    let rest = if short.len() < line.len() { "…" } else { "" };
    format!("{}{rest}", one_line(&short))
}

/// What was watched: `what was running`, a command, a process.
pub fn watched_in_words(recording: &Recording) -> String {
    match (&recording.command, recording.environment.get(PROCESS)) {
        (Some(argv), _) => format!("`{}`", short_command(argv)),
        (None, Some(process)) => format!("process {}", one_line(process)),
        (None, None) => "what was running".to_owned(),
    }
}

fn question(recording: &Recording) -> String {
    if let Some(argv) = &recording.command {
        return format!("What happened while `{}` ran?", short_command(argv));
    }
    if let Some(server) = recording.environment.get(WATCHED) {
        return format!("What did {} and this machine do?", one_line(server));
    }
    match recording.environment.get(PROCESS) {
        Some(process) => format!("What did process {} and this machine do?", one_line(process)),
        None => "What did this machine do? It was watched, and nothing was started.".to_owned(),
    }
}
