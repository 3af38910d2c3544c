//! What a running study says, in words on standard error.

use super::{Progress, note, say, warning};
use domain::trial::{Disturbance, Trial, Validity};
use machine::ledger::RestoreReport;
use notebook::Problem;
use session::{Event, Observer, unavailable_in_words};

/// Prints what a session says.
#[derive(Default)]
pub struct Watching {
    /// While trials are made.
    progress: Option<Progress>,
    /// How many trials nothing but the load of others has disturbed.
    loaded: u32,
}

/// After so many of them the way out is named.
const DISTURBED_BY_LOAD: u32 = 2;

impl Observer for Watching {
    fn on(&mut self, event: &Event<'_>) {
        match event {
            Event::Begun { run, seed, cells, trials } => {
                say(format_args!("run {run}, seed {seed}, {cells} cells"));
                if *trials > 0 {
                    say(format_args!("{trials} trials are there already; measuring what is missing"));
                }
            }
            Event::Damaged(problems) => damaged(problems),
            Event::Edited { run, copy } => note(format_args!(
                "the study file was changed since `{run}` was begun, which is unfinished: a new run begins, with the file as it \
                 is now; `{run}` keeps its trials (`flyball show {run}`), and goes on where its own copy of the file is run: `{}`",
                copy.display()
            )),
            Event::Unavailable { cells, of } => unavailable_in_words(*of, cells).iter().for_each(say),
            Event::TrialBegins { key, made, likely, left } => {
                let progress = self.progress.get_or_insert_with(Progress::new);
                progress.show(&key.folder(), *made, *likely, *left);
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
            Event::LoopEnded => {
                if let Some(progress) = self.progress.take() {
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
    fn trial(&mut self, trial: &Trial) {
        let name = trial.key.folder();
        match &trial.validity {
            Validity::Valid => {}
            Validity::Disturbed(all) => {
                let reasons: Vec<&str> = all.iter().map(|d| d.detail.as_str()).collect();
                self.say(&format!("disturbed: {name}: {}", reasons.join("; ")));
                self.offer_load(all);
            }
            Validity::Failed(reason) => self.say(&format!("failed: {name}: {reason}")),
        }
    }

    /// Names the way out, once, where the load of others does not end.
    fn offer_load(&mut self, disturbances: &[Disturbance]) {
        if disturbances.iter().all(Disturbance::is_load) {
            self.loaded += 1;
            if self.loaded == DISTURBED_BY_LOAD {
                self.say(
                    "this machine has other work; Ctrl-C, then the same with `--under-load`, counts such trials and says so",
                );
            }
        }
    }

    fn say(&self, line: &str) {
        match &self.progress {
            Some(progress) => progress.say(line),
            None => say(line),
        }
    }
}

/// Says what was put back, and what could not be.
pub fn restored(report: &RestoreReport) {
    report.foreign().chain(report.failed()).for_each(warning);
    report.notes.iter().for_each(note);
}

/// Names what a notebook holds that cannot be read.
pub fn damaged(problems: &[Problem]) {
    for problem in problems {
        warning(format_args!("passed over `{}`: {}", problem.path.display(), problem.reason));
    }
}
