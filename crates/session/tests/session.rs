//! The trial loop with a scripted backend: what is kept, what is said, and that the backend is closed however
//! it ends.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use domain::ids::TrialKey;
use domain::outcome::{Better, Metric, Outcome};
use domain::plan::Cell;
use domain::study::Study;
use domain::time::Nanos;
use domain::trial::{Disturbance, Measurement};
use domain::units::Unit;
use machine::ledger::{RestoreReport, UndoOutcome, Undone};
use session::scripted::{Scripted, ScriptedBackend};
use session::{Begin, Error, Event, Measured, Observer, Request, TrialError};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

const STUDY: &str = r#"
flyball = 1
name = "small"
question = "Does the answer depend on the question?"
[workload.echo]
tool = "command"
argv = ["echo", "answer 1"]
[[workload.echo.metric]]
name = "answer"
pattern = '^answer (?<value>[0-9]+)$'
unit = "count"
better = "higher"
[factor.block]
setting = "read_ahead_kb"
levels = [0, 128]
[measure]
metric = "answer"
repeats = [2, 3]
"#;

struct Place {
    folder: tempfile::TempDir,
    study: Study,
    interrupt: AtomicBool,
}

/// Remembers the names of what it is told.
#[derive(Default)]
struct Heard(Vec<String>);

impl Observer for Heard {
    fn on(&mut self, event: &Event<'_>) {
        self.0.push(match event {
            Event::Begun { trials, .. } => format!("begun with {trials}"),
            Event::TrialKept(trial) => format!("kept {}", trial.key.folder()),
            Event::Skipped { cell, reason, first } => {
                format!("skipped {cell}: {reason}{}", if first.is_some() { ", as before" } else { "" })
            }
            Event::Unavailable { cells, of } => format!("{} of {of} not here", cells.len()),
            Event::GivenUp(cell) => format!("given up {cell}"),
            Event::Overloaded(trials) => format!("overloaded after {trials}"),
            Event::LoopEnded => "ended".into(),
            _ => return,
        });
    }
}

impl Place {
    fn new() -> Self {
        let study = parse::study::parse(STUDY).unwrap_or_else(|errors| panic!("{errors}"));
        Self { folder: tempfile::tempdir().unwrap(), study, interrupt: AtomicBool::new(false) }
    }

    fn run(&self, backend: &mut ScriptedBackend<'_>) -> (session::Result<Measured>, Vec<String>) {
        let notebook = self.folder.path().join("notebook");
        let request = Request {
            study: &self.study,
            text: STUDY,
            home: None,
            notebook: &notebook,
            seed: Some(7),
            begin: Begin::Resume,
            limit: None,
            command: Vec::new(),
            interrupt: &self.interrupt,
        };
        let mut heard = Heard::default();
        let measured = session::run(&request, backend, &mut heard);
        (measured, heard.0)
    }

    fn trials(&self, measured: &Measured) -> Vec<String> {
        let (trials, problems) = measured.notebook.trials(&measured.run).unwrap();
        assert!(problems.is_empty());
        trials.iter().map(|trial| trial.key.folder()).collect()
    }
}

fn answer(value: f64) -> Scripted {
    let metric = Metric { value, unit: Unit::Count, better: Better::Higher };
    Scripted::Measured(Box::new(Measurement {
        outcome: Outcome {
            metrics: [("answer".to_owned(), metric)].into(),
            tool: "echo".into(),
            warnings: Vec::new(),
        },
        commands: Vec::new(),
        duration: Nanos::from_millis(1),
        roles: BTreeMap::new(),
        threads: Vec::new(),
        disks: Vec::new(),
        recorder: None,
        profile: None,
        windows: None,
        phases: vec![],
        spent: Default::default(),
        calls: None,
        disturbances: Vec::new(),
    }))
}

fn steady(_: &Cell, _: &TrialKey) -> Scripted {
    answer(1.0)
}

#[test]
fn every_trial_that_the_schedule_wants_is_kept_and_the_run_is_finished() {
    let place = Place::new();
    let mut backend = ScriptedBackend::new(steady);
    let (measured, heard) = place.run(&mut backend);
    let measured = measured.unwrap();
    assert!(!measured.interrupted && !measured.left_alone);
    assert!(place.trials(&measured).len() >= 4);
    assert_eq!(place.trials(&measured).len(), backend.asked.len());
    assert!(measured.notebook.run(&measured.run).unwrap().finished.is_some());
    assert_eq!((backend.opened, backend.closed), (1, 1));
    assert_eq!((heard.first().unwrap().as_str(), heard.last().unwrap().as_str()), ("begun with 0", "ended"));
}

#[test]
fn an_interrupted_run_is_gone_on_with_and_makes_no_trial_twice() {
    let place = Place::new();
    let mut count = 0;
    let mut backend = ScriptedBackend::new(|_, _| {
        count += 1;
        if count == 2 {
            place.interrupt.store(true, Ordering::Relaxed);
        }
        answer(1.0)
    });
    let (measured, _) = place.run(&mut backend);
    assert_eq!((backend.opened, backend.closed), (1, 1));
    drop(backend);
    let first = measured.unwrap();
    assert!(first.interrupted && first.notebook.run(&first.run).unwrap().finished.is_none());
    place.interrupt.store(false, Ordering::Relaxed);
    let mut backend = ScriptedBackend::new(steady);
    let (measured, heard) = place.run(&mut backend);
    let second = measured.unwrap();
    assert_eq!(second.run, first.run);
    assert_eq!(heard[0], "begun with 2");
    let trials = place.trials(&second);
    assert_eq!(trials.len(), 2 + backend.asked.len());
}

#[test]
fn a_run_whose_trials_are_all_there_opens_nothing() {
    let place = Place::new();
    let mut backend = ScriptedBackend::new(|_, _| Scripted::NotMade(TrialError::Interrupted));
    backend.unavailable = (0..2).map(|index| (index, "there is no such device".to_owned())).collect();
    let (measured, heard) = place.run(&mut backend);
    assert_eq!((backend.opened, backend.closed, backend.asked.len()), (0, 1, 0));
    assert_eq!(heard, ["begun with 0", "2 of 2 not here"]);
    let measured = measured.unwrap();
    assert_eq!(measured.notebook.skipped(&measured.run).unwrap().len(), 2);
}

#[test]
fn what_is_not_possible_is_skipped_once_and_noted() {
    let place = Place::new();
    let mut backend =
        ScriptedBackend::new(|_, _| Scripted::NotMade(TrialError::Unsupported("no such setting".into())));
    let (measured, heard) = place.run(&mut backend);
    assert_eq!(backend.asked.len(), 2, "each cell is asked for once");
    assert!(heard[1].ends_with("no such setting") && heard[2].ends_with("as before"), "{heard:?}");
    let measured = measured.unwrap();
    assert_eq!(measured.notebook.skipped(&measured.run).unwrap().len(), 2);
}

#[test]
fn a_cell_of_which_every_attempt_fails_is_given_up_and_the_others_are_measured() {
    let place = Place::new();
    let mut backend = ScriptedBackend::new(|cell, _| match cell.levels["block"].as_str() {
        "0" => Scripted::Failed("no luck".into()),
        _ => answer(1.0),
    });
    let (measured, heard) = place.run(&mut backend);
    measured.unwrap();
    assert_eq!(heard.iter().filter(|line| line.starts_with("given up")).count(), 1, "{heard:?}");
}

#[test]
fn a_backend_that_cannot_go_on_is_closed_and_what_was_measured_stays() {
    let place = Place::new();
    let mut count = 0;
    let mut backend = ScriptedBackend::new(|_, _| {
        count += 1;
        if count < 3 {
            answer(1.0)
        } else {
            Scripted::NotMade(TrialError::Broken(Error::Refused("gone".into())))
        }
    });
    let (measured, heard) = place.run(&mut backend);
    assert_eq!(measured.unwrap_err().to_string(), "gone");
    assert_eq!((backend.opened, backend.closed), (1, 1));
    assert_eq!(heard.iter().filter(|line| line.starts_with("kept")).count(), 2);
    assert_eq!(heard.last().unwrap(), "ended");
}

#[test]
fn what_could_not_be_put_back_is_an_error_and_the_run_is_not_finished() {
    let place = Place::new();
    let mut backend = ScriptedBackend::new(steady);
    let left = Undone {
        what: "read_ahead_kb".into(),
        path: "/sys/x".into(),
        outcome: UndoOutcome::Failed("busy".into()),
    };
    backend.restored = RestoreReport { undone: vec![left], ..RestoreReport::default() };
    let (measured, _) = place.run(&mut backend);
    let error = measured.unwrap_err().to_string();
    assert!(
        error.contains("not everything could be put back") && error.contains("flyball restore"),
        "{error}"
    );
    // It is there, unfinished, with all its trials.
    let (measured, heard) = place.run(&mut ScriptedBackend::new(steady));
    assert!(!heard[0].ends_with(" 0"), "{heard:?}");
    assert!(measured.unwrap().notebook.runs().unwrap().0.len() == 1);
}

/// A trial beside something of this kind.
fn beside(kind: &str) -> Scripted {
    let Scripted::Measured(measurement) = answer(1.0) else { panic!("it is measured") };
    Scripted::Disturbed(measurement, vec![Disturbance { kind: kind.into(), detail: String::new() }])
}

#[test]
fn a_machine_that_is_too_busy_for_any_trial_is_not_tried_for_ever() {
    let mut place = Place::new();
    place.study.measure.retries = 9;
    let mut backend = ScriptedBackend::new(|_, _| beside("other-load"));
    let (measured, heard) = place.run(&mut backend);
    assert!(heard.contains(&"overloaded after 8".to_owned()), "{heard:?}");
    assert_eq!(place.trials(&measured.unwrap()).len(), 8);
}

#[test]
fn one_trial_that_counts_or_another_disturbance_is_no_overload() {
    for kind in ["throttled", "other-load"] {
        let mut place = Place::new();
        place.study.measure.retries = 9;
        let mut made = 0;
        let mut backend = ScriptedBackend::new(|_, _| {
            made += 1;
            if made == 1 && kind == "other-load" { answer(1.0) } else { beside(kind) }
        });
        let (measured, heard) = place.run(&mut backend);
        assert!(!heard.iter().any(|said| said.starts_with("overloaded")), "{heard:?}");
        assert!(place.trials(&measured.unwrap()).len() > 8, "{kind}");
    }
}
