//! What the rules say of a recording that is going on: what they would say of it if it ended now.
//!
//! All that was recorded is read as it is at the end, and judged by the same rules. So nothing is found that
//! `diagnose` would not find in the same samples.

use super::stored::Recorded;
use super::{Begun, decoded};
use crate::error::{Error, Result};
use analysis::explain::{Case, explain};
use analysis::facts::usage::Usage;
use analysis::summarise::summarise;
use analysis::summary::RunData;
use domain::bench::{Sink, SinkError};
use domain::finding::Finding;
use domain::ids::RunId;
use domain::time::Nanos;
use domain::trace::{Trace, TraceHead};
use domain::trial::Provenance;
use std::collections::BTreeMap;
use std::path::Path;

/// How many rows of a trace the rules are shown, as of one that is stored (`results`).
const ROWS: usize = 4_000;

/// What the rules found.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The run that this recording becomes.
    pub run: RunId,
    /// From the first sample to the last that they were shown.
    pub span: Nanos,
    /// The surest first.
    pub findings: Vec<Finding>,
}

/// Asks them.
///
/// # Errors
/// Where the spool cannot be read, or the recording is no run.
pub(super) fn judge(begun: &Begun<'_>, spool: &Path) -> Result<Judged> {
    let recorded = recorder::Recording::open(spool.to_owned())?;
    let mut rows = Thinned::of(recorded.report().samples);
    let metrics = decoded(&recorded, &mut rows, Vec::new())?.metrics;
    let span = recorded.report().span;
    let recording = begun.recording(&recorded, metrics, span, None);
    let typed = begun.request.typed.clone();
    let stored = Recorded {
        recording: &recording,
        provenance: Provenance::Host,
        begun: begun.started,
        origin: None,
        typed,
    };
    let (run, trial) = stored.run();
    let study = parse::study::parse(&run.study_text).map_err(Error::during("cannot judge the recording"))?;
    let id = run.id.clone();
    let usages: Vec<_> = rows.trace.iter().map(|trace| (trial.key.clone(), Usage::of(trace))).collect();
    let device = trial.environment.get("device").cloned();
    let data = RunData { run, study, trials: vec![trial], skipped: BTreeMap::new() };
    let summary = summarise(&data, None);
    let case = Case {
        data: &data,
        summary: &summary,
        inventory: Some(begun.inventory),
        target_device: device.as_deref(),
        usages: &usages,
    };
    Ok(Judged { run: id, span, findings: explain(&case) })
}

/// A trace in memory, thinned as one is that is read from its file.
struct Thinned {
    trace: Option<Trace>,
    step: u64,
    last: u64,
    row: u64,
}

impl Thinned {
    fn of(rows: u64) -> Self {
        let last = rows.saturating_sub(1);
        Self { trace: None, step: last.div_ceil(ROWS as u64 - 1).max(1), last, row: 0 }
    }
}

impl Sink for Thinned {
    fn begin(&mut self, head: &TraceHead) -> std::result::Result<(), SinkError> {
        self.trace = Some(Trace::new(head.clone()));
        Ok(())
    }

    fn row(&mut self, time: Nanos, values: &[Option<u64>]) -> std::result::Result<(), SinkError> {
        let row = self.row;
        self.row += 1;
        if let Some(trace) = self.trace.as_mut().filter(|_| row.is_multiple_of(self.step) || row == self.last)
        {
            trace.times.push(time);
            trace.columns.iter_mut().zip(values).for_each(|(column, value)| column.push(*value));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::Timestamp;
    use domain::trace::FrequencySource;

    fn kept(rows: u64) -> Vec<u64> {
        let head = TraceHead {
            series: Vec::new(),
            interval: Nanos::from_millis(100),
            start: Timestamp::from_unix_nanos(0),
            frequency: FrequencySource::None,
        };
        let mut thinned = Thinned::of(rows);
        thinned.begin(&head).unwrap();
        (0..rows).for_each(|row| thinned.row(Nanos::new(row), &[]).unwrap());
        thinned.trace.unwrap().times.into_iter().map(Nanos::get).collect()
    }

    #[test]
    fn a_long_trace_is_thinned_and_keeps_its_ends() {
        assert_eq!(kept(0), [0; 0]);
        assert_eq!(kept(3), [0, 1, 2]);
        let long = kept(10 * ROWS as u64 + 7);
        assert!(long.len() <= ROWS + 1, "{}", long.len());
        assert_eq!((long[0], long[1], long.last().copied()), (0, 11, Some(10 * ROWS as u64 + 6)));
    }
}
