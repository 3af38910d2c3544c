//! The second reading of a spool: its rows.

use crate::columns::Row;
use crate::replay::Replay;
use crate::survey::Survey;
use crate::{Error, Result};
use domain::Sink;
use std::path::Path;

/// Pushes the whole trace, row by row.
///
/// # Errors
/// Where the spool cannot be read, a text is not as its format says, or the sink refuses.
pub fn decode(path: &Path, survey: &Survey, sink: &mut dyn Sink) -> Result<()> {
    sink.begin(&survey.trace_head())?;
    let mut replay = Replay::open(path, survey.owners.clone())?;
    let mut row = Row::of(&survey.columns);
    while let Some(tick) = replay.next()? {
        let error = |error| Error::Text { path: path.to_owned(), time: tick.time, error };
        // The survey has seen all items.
        if let Some(values) = row.take(&survey.columns, &replay, &tick).map_err(error)? {
            sink.row(tick.time, values)?;
        }
    }
    Ok(())
}
