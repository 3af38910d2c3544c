//! Reading a spool while it is written.

use crate::columns::{Columns, Row};
use crate::replay::{Replay, Tick};
use crate::{Error, Result};
use domain::Sink;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A recording that is going on, as far as it was written: its recorder has [`crate::Writing::EachSample`].
///
/// A sample is whole when the next one begins, so what is known is one interval old. Roles are those that
/// processes have at the moment: one that turns out to be the workload's later changes its earlier time too,
/// from then on.
#[derive(Debug)]
pub struct Live {
    path: PathBuf,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    replay: Replay,
    columns: Columns,
    row: Row,
    has_begun: bool,
}

impl Live {
    /// Of the spool at `path`, which need not have anything in it yet.
    pub fn of(path: PathBuf) -> Self {
        Self { path, open: None }
    }

    /// Pushes the rows that came since the last time. The sink is begun before the first of them, and anew
    /// whenever there are more columns, as with a device that was added.
    ///
    /// # Errors
    /// Where the spool cannot be read, a text in it is not as its format says, or the sink refuses.
    pub fn advance(&mut self, sink: &mut dyn Sink) -> Result<()> {
        if self.open.is_none() {
            self.open = match Replay::open(&self.path, BTreeMap::new()) {
                // Its head is not written yet.
                Err(Error::Foreign(_)) => return Ok(()),
                replay => Some(Open::of(replay?)),
            };
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        while let Some(tick) = open.replay.next()? {
            open.push(&tick, &self.path, sink)?;
        }
        Ok(())
    }

    /// What is not sampled, and why.
    pub fn absent(&self) -> &[String] {
        self.open.as_ref().map_or(&[], |open| &open.replay.absent)
    }
}

impl Open {
    fn of(replay: Replay) -> Self {
        Self { replay, columns: Columns::default(), row: Row::default(), has_begun: false }
    }

    fn push(&mut self, tick: &Tick, path: &Path, sink: &mut dyn Sink) -> Result<()> {
        let Self { replay, columns, row, has_begun } = self;
        let error = |error| Error::Text { path: path.to_owned(), time: tick.time, error };
        if *has_begun && row.take(columns, replay, tick).map_err(error)?.is_none() {
            *has_begun = false;
        } else if *has_begun {
            return Ok(sink.row(tick.time, row.values())?);
        }
        if columns.blocks.is_empty() {
            *columns = Columns::of(replay);
        }
        columns.grow(replay).map_err(error)?;
        *row = Row::of(columns);
        *has_begun = true;
        sink.begin(&columns.head(&replay.head))?;
        match row.take(columns, replay, tick).map_err(error)? {
            Some(values) => Ok(sink.row(tick.time, values)?),
            None => Ok(()),
        }
    }
}
