//! What a running study says, in words on standard error.

use super::progress::Step;
use super::{Progress, note, say, warning};
use analysis::stats::quantile::median;
use domain::Nanos;
use domain::ids::CellId;
use domain::trial::{Trial, Validity};
use domain::units::Unit;
use machine::ledger::RestoreReport;
use notebook::Problem;
use session::{Event, Observer, unavailable_in_words};
use std::collections::{BTreeMap, BTreeSet};

/// Prints what a session says.
#[derive(Default)]
pub struct Watching {
    /// While trials are made.
    progress: Option<Progress>,
    /// The command that counts trials beside other work; `None` where there is none.
    under_load: Option<String>,
    /// The cells of trials that nothing but the load of others has disturbed.
    loaded: Vec<CellId>,
    /// Whether the way out was named.
    offered: bool,
    /// The metric that decides, and its values by cell.
    metric: String,
    values: BTreeMap<CellId, Vec<f64>>,
    unit: Option<Unit>,
    /// How many trials were planned, and how many of those that were made are repeated.
    planned: u64,
    repeated: u64,
}

/// After so many disturbed trials, or cells, the way out is named.
const DISTURBED_TRIALS: usize = 4;
const DISTURBED_CELLS: usize = 2;

impl Observer for Watching {
    fn on(&mut self, event: &Event<'_>) {
        match event {
            Event::Begun { run, seed, cells, metric, trials } => {
                (*metric).clone_into(&mut self.metric);
                say(format_args!("run {run}, seed {seed}, {cells} cells"));
                if *trials > 0 {
                    say(format_args!("{trials} trials are there already; measuring what is missing"));
                }
            }
            Event::Busy(by) => {
                note(format_args!("this machine has other work: {by}"));
            }
            Event::Damaged(problems) => damaged(problems),
            Event::Edited { run, copy } => note(format_args!(
                "the study file was changed since `{run}` was begun, which is unfinished: a new run begins, with the file as it \
                 is now; `{run}` keeps its trials (`flyball show {run}`), and goes on where its own copy of the file is run: `{}`",
                copy.display()
            )),
            Event::Unavailable { cells, of } => unavailable_in_words(*of, cells).iter().for_each(say),
            Event::TrialBegins { key, made, likely, left } => {
                let step = self.step(&key.cell, *made, *likely, *left);
                self.progress.get_or_insert_with(Progress::on_stderr).show(&step);
            }
            Event::TrialKept(trial) => self.trial(trial),
            Event::Skipped { cell, reason, first } => match first {
                // A reason is said once.
                Some(first) => self.say(&format!("skipped: {cell}: as {first}")),
                None => self.say(&format!("skipped: {cell}: {reason}")),
            },
            Event::GivenUp(cell) => self.say(&format!("given up: {cell}: every attempt failed")),
            Event::TimeOver(left) => {
                self.say(&format!("the time is over; {left} planned trials were not made"))
            }
            Event::Overloaded(trials) => self.overloaded(*trials),
            Event::LoopEnded => {
                if let Some(mut progress) = self.progress.take() {
                    progress.clear();
                }
            }
            Event::Restored(report) => restored(report),
            Event::Talk(text) => say(text),
            Event::Warning(text) => warning(text),
        }
    }
}

impl Watching {
    /// One that names this command where the load of others does not end.
    pub fn offering(under_load: String) -> Self {
        Self { under_load: Some(under_load), ..Self::default() }
    }

    /// What is done from now on.
    fn step(&mut self, cell: &CellId, made: u64, total: u64, left: Option<Nanos>) -> Step {
        if self.planned == 0 {
            self.planned = total;
        }
        let values = self.values.get(cell).map_or(&[][..], Vec::as_slice);
        let so_far = median(values).zip(self.unit.as_ref());
        Step {
            cell: cell.to_string(),
            so_far: so_far.map(|(median, unit)| format!("median {} of {}", unit.show(median), values.len())),
            made,
            total,
            grown: (total > self.planned).then(|| why_more(total - self.planned, self.repeated)),
            left,
        }
    }

    fn trial(&mut self, trial: &Trial) {
        let name = trial.key.folder();
        match &trial.validity {
            Validity::Valid => self.keep(trial),
            Validity::Traced => {}
            Validity::Disturbed(all) => {
                self.repeated += 1;
                let reasons: Vec<&str> = all.iter().map(|d| d.detail.as_str()).collect();
                self.say(&format!("disturbed: {name}: {}", reasons.join("; ")));
                self.offer_load(trial);
            }
            Validity::Failed(reason) => {
                self.repeated += 1;
                self.say(&format!("failed: {name}: {reason}"));
            }
        }
    }

    fn keep(&mut self, trial: &Trial) {
        let reported =
            trial.measurement.as_ref().and_then(|measured| measured.outcome.metrics.get(&self.metric));
        if let Some(metric) = reported {
            self.unit = Some(metric.unit.clone());
            self.values.entry(trial.key.cell.clone()).or_default().push(metric.value);
        }
    }

    /// Names the way out, once, where the load of others does not end.
    fn offer_load(&mut self, trial: &Trial) {
        let Some(command) = self.under_load.clone().filter(|_| trial.validity.is_disturbed_by_load()) else {
            return;
        };
        self.loaded.push(trial.key.cell.clone());
        let cells: BTreeSet<&CellId> = self.loaded.iter().collect();
        let is_lasting = cells.len() >= DISTURBED_CELLS || self.loaded.len() >= DISTURBED_TRIALS;
        if is_lasting && !self.offered {
            self.offered = true;
            self.say("this machine has other work, and trials beside it do not count");
            self.say(&format!("to count them, and have the results say so: Ctrl-C, then `{command}`"));
        }
    }

    fn overloaded(&self, trials: usize) {
        self.say(&format!("ended: other work disturbed all {trials} trials, and no figure would count"));
        if let Some(command) = &self.under_load {
            self.say(&format!("measure when the machine is quiet, or beside its load: `{command}`"));
        }
    }

    fn say(&self, line: &str) {
        match &self.progress {
            Some(progress) => progress.say(line),
            None => say(line),
        }
    }
}

/// Why there are `more` trials than at the beginning, of which `repeated` did not count.
fn why_more(more: u64, repeated: u64) -> String {
    let disturbed = more.min(repeated);
    let parts = [
        (disturbed > 0, format!("{disturbed} to repeat disturbed or failed ones")),
        (more > disturbed, format!("{} for what is not clear yet", more - disturbed)),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|(is_so, _)| *is_so).map(|(_, text)| text).collect();
    format!("{more} more: {}", parts.join(", "))
}

/// Says what was put back, and what could not be.
pub fn restored(report: &RestoreReport) {
    report.foreign().chain(report.failed()).for_each(warning);
    report.notes.iter().for_each(note);
}

/// Names what a notebook holds that cannot be read.
pub fn damaged(problems: &[Problem]) {
    results::tell(problems, super::warn);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_grows_says_why() {
        assert_eq!(why_more(2, 5), "2 more: 2 to repeat disturbed or failed ones");
        assert_eq!(
            why_more(5, 1),
            "5 more: 1 to repeat disturbed or failed ones, 4 for what is not clear yet"
        );
    }
}
