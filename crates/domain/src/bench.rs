//! The seam between an experiment and a machine: something that can run one cell.

use crate::plan::Cell;
use crate::time::Nanos;
use crate::trace::TraceHead;
use crate::trial::Measurement;

/// Takes a trace row by row, so that nobody has to hold a whole one.
pub trait Sink {
    /// Called once, before the first row.
    ///
    /// # Errors
    /// Where the head cannot be stored.
    fn begin(&mut self, head: &TraceHead) -> Result<(), SinkError>;

    /// One row: its time since the trace's start, and a value for each of the head's series.
    ///
    /// # Errors
    /// Where the row cannot be stored.
    fn row(&mut self, time: Nanos, values: &[Option<u64>]) -> Result<(), SinkError>;
}

/// Takes a trace that nobody keeps.
#[derive(Clone, Copy, Debug)]
pub struct DiscardTrace;

impl Sink for DiscardTrace {
    fn begin(&mut self, _: &TraceHead) -> Result<(), SinkError> {
        Ok(())
    }

    fn row(&mut self, _: Nanos, _: &[Option<u64>]) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Why a sink could not store a trace.
#[derive(Debug, thiserror::Error)]
#[error("cannot store the trace: {0}")]
pub struct SinkError(pub String);

/// Runs one cell of a plan: on this host, in a simulation, or from a script in tests.
pub trait Bench {
    /// Runs the cell's workload once, pushes what was sampled into `sink`, and returns what was measured.
    ///
    /// # Errors
    /// See [`BenchError`].
    fn run(&mut self, cell: &Cell, sink: &mut dyn Sink) -> Result<Measurement, BenchError>;
}

/// Why a cell gave no measurement.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Not possible here; the cell is skipped, and the reason shown.
    #[error("not possible here: {0}")]
    Unsupported(String),
    /// The workload failed, hung or reported garbage; the trial is kept as failed.
    #[error("{0}")]
    Failed(String),
    /// Somebody asked us to stop; what was measured of this trial is dropped.
    #[error("interrupted")]
    Interrupted,
    /// The trace could not be stored.
    #[error(transparent)]
    Sink(#[from] SinkError),
}
