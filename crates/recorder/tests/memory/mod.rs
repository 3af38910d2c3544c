//! A trace in memory.

use domain::bench::{Sink, SinkError};
use domain::time::Nanos;
use domain::trace::{Trace, TraceHead};
use recorder::Recording;

/// The whole trace of a recording.
pub fn trace(recording: &Recording) -> Trace {
    let mut memory = Memory::default();
    recording.decode(&mut memory).unwrap();
    memory.0.unwrap()
}

/// A sink that keeps what it takes.
#[derive(Default)]
pub struct Memory(pub Option<Trace>);

impl Sink for Memory {
    fn begin(&mut self, head: &TraceHead) -> Result<(), SinkError> {
        self.0 = Some(Trace::new(head.clone()));
        Ok(())
    }
    fn row(&mut self, time: Nanos, values: &[Option<u64>]) -> Result<(), SinkError> {
        let trace = self.0.as_mut().unwrap();
        trace.times.push(time);
        trace.columns.iter_mut().zip(values).for_each(|(column, value)| column.push(*value));
        Ok(())
    }
}
