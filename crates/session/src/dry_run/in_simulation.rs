//! The plan of a simulated run: the machines, and which cells a model can do.

use crate::begin::fresh_seed;
use crate::simulation::Machines;
use domain::inert::Lines;
use domain::plan::Plan;
use domain::rng::Seed;
use machine::{LocalMachine, Machine};

/// What would be simulated, and what cannot be; whether all can be.
pub fn in_simulation(plan: &Plan, machines: &Machines, seed: Option<u64>) -> (Lines, bool) {
    let seed = Seed(seed.unwrap_or_else(|| fresh_seed(LocalMachine.now())));
    let mut text = Lines::default();
    text.line(format_args!(
        "study {}, seed {seed}, simulated: nothing of this machine is read or written",
        plan.study.name
    ));
    for named in machines.named.values() {
        text.line(format_args!("machine {}: {}", named.spec.name, named.spec.about));
    }
    let mut complete = true;
    for cell in &plan.cells {
        match machines.check(&plan.study, cell, seed) {
            Ok(()) => text.line(format_args!("  {}", cell.id)),
            Err(error) => {
                text.line(format_args!("  {}: {error}", cell.id));
                complete = false;
            }
        }
    }
    (text, complete)
}
