//! What all forms say of a simulated run: that its figures are a model's, and which machine it is a model of.

use crate::Report;
use domain::study::Study;
use domain::trial::{Provenance, Run};
use std::collections::BTreeSet;

/// What stands above every figure of a model.
const NOTE: &str = "Simulation: every figure here is a model's. Nothing was measured on a machine.";

/// That the figures of a run are a model's; `None` for a run of anything else.
pub(crate) fn note(report: &Report) -> Option<&'static str> {
    of(report.data.run.provenance)
}

/// The same for one trial.
pub(crate) fn of(provenance: Provenance) -> Option<&'static str> {
    (provenance == Provenance::Simulation).then_some(NOTE)
}

/// That a run of a comparison is a model's; `None` for a run of anything else.
pub fn simulation_note(run: &Run) -> Option<String> {
    let is_model = run.provenance == Provenance::Simulation;
    is_model.then(|| {
        format!("{} is a simulation: its figures are a model's, and nothing of it was measured", run.id)
    })
}

/// The simulated machine in one line; `None` for a run of any other.
pub(crate) fn machine(report: &Report) -> Option<String> {
    note(report)?;
    let run = &report.data.run;
    let names: Vec<&str> = machines(&report.data.study).into_iter().collect();
    let is_typed = run.command.iter().any(|word| word == "--machine" || word.starts_with("--machine="));
    match (&names[..], run.simulated()) {
        ([], Some(name)) => Some(format!("simulation of {name}")),
        // What was typed takes the place of the study's.
        (_, Some(name)) if is_typed => Some(format!("simulation of {name}")),
        ([], None) => Some("simulation of a machine that the study does not name".to_owned()),
        _ => Some(format!("simulation of {}", names.join(", "))),
    }
}

/// The machine files that a study names.
fn machines(study: &Study) -> BTreeSet<&str> {
    let of_levels = study.factors.iter().flat_map(|factor| &factor.levels).map(|level| &level.machine);
    std::iter::once(&study.sim.machine).chain(of_levels).filter_map(Option::as_deref).collect()
}
