//! A bench that follows a script, for tests of whatever drives one.

use domain::bench::{Bench, BenchError, Sink};
use domain::plan::Cell;
use domain::trial::Measurement;
use std::collections::VecDeque;

/// Gives what it was told to give, in order.
///
/// # Panics
/// Where it is run more often than its script is long.
#[derive(Debug, Default)]
pub struct ScriptedBench {
    /// What is given next.
    pub script: VecDeque<Result<Measurement, BenchError>>,
    /// The cells that were run, in order.
    pub ran: Vec<Cell>,
}

impl ScriptedBench {
    /// A bench that gives these, one a run.
    pub fn new(script: impl IntoIterator<Item = Result<Measurement, BenchError>>) -> Self {
        Self { script: script.into_iter().collect(), ran: Vec::new() }
    }
}

impl Bench for ScriptedBench {
    fn run(&mut self, cell: &Cell, _: &mut dyn Sink) -> Result<Measurement, BenchError> {
        self.ran.push(cell.clone());
        self.script
            .pop_front()
            .unwrap_or_else(|| panic!("the script ends before run {} of {}", self.ran.len(), cell.id))
    }
}
