//! The second reading of a spool: its rows.

use crate::replay::{Replay, Sampled};
use crate::survey::{Block, Survey};
use crate::{Error, Result};
use domain::Sink;
use std::path::Path;

/// Pushes the whole trace, row by row.
///
/// A row's value is `None` where the source was gone, had no such item, or was not read at this sample, for
/// sources that are read less often than others.
///
/// # Errors
/// Where the spool cannot be read, a text is not as its format says, or the sink refuses.
pub fn decode(path: &Path, survey: &Survey, sink: &mut dyn Sink) -> Result<()> {
    let head = survey.trace_head();
    sink.begin(&head)?;
    let mut replay = Replay::open(path, survey.owners.clone())?;
    let mut known: Vec<Option<u64>> = vec![None; head.series.len()];
    let mut row = known.clone();
    while let Some(tick) = replay.next()? {
        for (sampled, block) in replay.sources.iter().zip(&survey.blocks).filter(|(s, _)| s.changed) {
            take_in(sampled, block, &mut known).map_err(|error| Error::Text {
                path: path.to_owned(),
                time: tick.time,
                error,
            })?;
        }
        let mut after = survey.source_columns();
        if let Some(tasks) = replay.tasks.as_ref().filter(|_| survey.has_roles) {
            for ns in tasks.roles() {
                known[after] = Some(ns);
                after += 1;
            }
        }
        if let Some(own) = known.last_mut() {
            *own = Some(tick.own.get());
        }
        row.copy_from_slice(&known);
        for (sampled, block) in replay.sources.iter().zip(&survey.blocks) {
            if !sampled.is_due(&tick) {
                row[block.columns()].fill(None);
            }
        }
        sink.row(tick.time, &row)?;
    }
    Ok(())
}

fn take_in(
    sampled: &Sampled,
    block: &Block,
    known: &mut [Option<u64>],
) -> std::result::Result<(), parse::proc::Error> {
    known[block.columns()].fill(None);
    let Some(text) = &sampled.text else { return Ok(()) };
    sampled.source.values(text, &mut |item, field, value| {
        if let Some(column) = block.column(item, field) {
            known[column] = Some(value);
        }
    })
}
