//! Runs of a notebook in a list, each with what it found.

use analysis::in_short::in_short;
use analysis::summarise::summarise;
use domain::trial::{Provenance, Run};
use notebook::{Notebook, Recording, RunEntry, TrialCounts};
use report::Columns;
use serde_json::json;

/// The version of the JSON form of a list.
const SCHEMA: u32 = 1;

/// How many runs are judged, the newest first. Each takes a second at worst: all of its trials are read, and
/// its factors compared. Nothing of it is kept, for a verdict may differ in the next version.
pub const MAX_JUDGED: usize = 20;

/// A run with its verdict, where it is among those that are judged.
pub type Judged = (RunEntry, Option<String>);

/// Runs, newest first, with the verdicts of the first [`MAX_JUDGED`].
pub fn judged(notebook: &Notebook, runs: Vec<RunEntry>) -> Vec<Judged> {
    let judge = |(at, entry): (usize, RunEntry)| {
        let verdict = (at < MAX_JUDGED).then(|| verdict(notebook, &entry.run));
        (entry, verdict)
    };
    runs.into_iter().enumerate().map(judge).collect()
}

/// What a run found, in a few words; why that cannot be told, where it cannot.
fn verdict(notebook: &Notebook, run: &Run) -> String {
    // What is damaged in the notebook has been told once already.
    match crate::read(notebook, &run.id) {
        Ok(stored) => in_short(&stored.data, &summarise(&stored.data, None)),
        Err(_) => "this version cannot read its study".to_owned(),
    }
}

/// A row a run, for a terminal.
pub fn as_table(runs: &[Judged]) -> Columns {
    let mut table = Columns::new(&["RUN", "ON", "TRIALS", "VERDICT"]);
    for (entry, verdict) in runs {
        // Those that recorded events alone are no trials that could have counted.
        let all = all(&entry.trials) - entry.trials.traced;
        let trials = match entry.trials.valid {
            valid if valid == all => all.to_string(),
            valid => format!("{valid} of {all}"),
        };
        let unfinished = if entry.run.finished.is_none() { "unfinished; " } else { "" };
        let verdict = verdict.as_deref().unwrap_or("-");
        table.row([
            entry.run.id.0.clone(),
            on(entry.run.provenance).to_owned(),
            trials,
            format!("{unfinished}{verdict}"),
        ]);
    }
    table
}

/// As `--on` has it: one column in a narrow table.
fn on(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Simulation => "sim",
        Provenance::Imported => "import",
        other => other.name(),
    }
}

/// What is said of recordings of versions before 0.2, which are no runs; `None` of none.
pub fn of_earlier_versions(notebook: &Notebook, recordings: &[Recording]) -> Option<String> {
    let names: Vec<&str> = recordings.iter().map(|recording| recording.name.as_str()).collect();
    let folder = notebook.folder().join("recordings");
    let (folder, names) = (folder.display(), names.join(", "));
    let said = || format!("recordings of an earlier version, which are no runs, are in `{folder}`: {names}");
    (!recordings.is_empty()).then(said)
}

/// A list for other programs.
pub fn as_json(runs: &[Judged]) -> String {
    let run = |(entry, verdict): &Judged| {
        let run = &entry.run;
        json!({
            "run": run.id.0,
            "study": run.study,
            "started": run.started.iso(),
            "finished": run.finished.map(domain::Timestamp::iso),
            "provenance": run.provenance.name(),
            "machine": run.machine,
            "seed": run.seed.0,
            "revision": run.revision,
            "trials": all(&entry.trials),
            "valid": entry.trials.valid,
            "verdict": verdict,
        })
    };
    format!("{:#}", json!({ "schema": SCHEMA, "runs": runs.iter().map(run).collect::<Vec<_>>() }))
}

fn all(counts: &TrialCounts) -> u64 {
    counts.valid + counts.traced + counts.disturbed + counts.failed
}
