//! The columns of a trace: which there are, and what stands in them at a sample.

use crate::replay::{Head, Replay, Sampled, Tick};
use crate::source::Source;
use domain::trace::{Role, Series, SeriesKind, SeriesUnit, TraceHead};
use parse::proc;
use std::collections::HashMap;

/// The columns of a trace: those of the sources, one after the other, then the roles', then the recorder's.
#[derive(Debug, Default)]
pub struct Columns {
    /// Those of each source.
    pub blocks: Vec<Block>,
    roles: Vec<Role>,
}

impl Columns {
    /// Those of the sources that were declared, without items that have not been seen yet.
    pub fn of(replay: &Replay) -> Self {
        let blocks = replay.sources.iter().map(|sampled| Block::new(sampled.source.clone())).collect();
        let mut columns = Self { blocks, roles: Vec::new() };
        columns.place(replay);
        columns
    }

    /// Numbers the columns, now that their blocks have grown.
    pub fn place(&mut self, replay: &Replay) {
        self.roles = roles(replay);
        let mut first = 0;
        for block in &mut self.blocks {
            block.first = first;
            first = block.columns().end;
        }
    }

    /// Takes up items that have come since the last time: a device that was added.
    ///
    /// # Errors
    /// Where a text is not as its format says.
    pub fn grow(&mut self, replay: &Replay) -> Result<(), proc::Error> {
        for (sampled, block) in replay.sources.iter().zip(&mut self.blocks) {
            if let Some(text) = sampled.text.as_ref().filter(|_| sampled.source.names_items()) {
                sampled.source.values(text, &mut |item, _, _| {
                    block.add(item);
                })?;
            }
        }
        self.place(replay);
        Ok(())
    }

    /// The head of a trace that has them.
    pub fn head(&self, head: &Head) -> TraceHead {
        let items = |block: &Block| -> Vec<Series> {
            block.items.iter().flat_map(|item| block.source.series(item)).collect()
        };
        let mut series: Vec<Series> = self.blocks.iter().flat_map(items).collect();
        let nanos =
            |name| Series { name, unit: SeriesUnit::Nanos, kind: SeriesKind::Counter { wraps_at: None } };
        series.extend(self.roles.iter().map(|role| nanos(format!("role.{role}.ns"))));
        series.push(nanos("recorder.ns".to_owned()));
        TraceHead { series, interval: head.interval, start: head.start, frequency: head.frequency }
    }

    /// How many the sources have together.
    fn of_sources(&self) -> usize {
        self.blocks.last().map_or(0, |block| block.columns().end)
    }

    fn count(&self) -> usize {
        self.of_sources() + self.roles.len() + 1
    }
}

/// The roles that have columns.
fn roles(replay: &Replay) -> Vec<Role> {
    let tasks = replay.tasks.as_ref();
    tasks.map_or_else(Vec::new, |tasks| Role::columns(tasks.has_beside()).collect())
}

/// The columns of one source: its items one after the other.
#[derive(Debug)]
pub struct Block {
    /// The number of its first column.
    first: usize,
    source: Source,
    items: Vec<String>,
    numbers: HashMap<String, usize>,
    /// The place within the block at which each item's columns begin, and the end of the last.
    places: Vec<usize>,
}

impl Block {
    fn new(source: Source) -> Self {
        let (items, numbers) = (Vec::new(), HashMap::new());
        let mut block = Self { first: 0, source, items, numbers, places: vec![0] };
        // Sources of one item have it even where no sample could be read: the column is there, and empty.
        if !block.source.names_items() {
            block.add("");
        }
        block
    }

    /// The number of an item, which is a new one where it has none yet.
    pub fn add(&mut self, item: &str) -> usize {
        if let Some(number) = self.numbers.get(item) {
            return *number;
        }
        let number = self.items.len();
        self.places.push(self.end() + self.source.series(item).len());
        self.items.push(item.to_owned());
        self.numbers.insert(item.to_owned(), number);
        number
    }

    /// The column of an item's value.
    pub fn column(&self, item: &str, field: usize) -> Option<usize> {
        self.numbers.get(item).map(|number| self.first + self.places[*number] + field)
    }

    /// All columns of this source.
    pub fn columns(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.end()
    }

    /// How many columns there are so far.
    fn end(&self) -> usize {
        self.places.last().copied().unwrap_or_default()
    }
}

/// The row of a sample. A value is `None` where the source was gone, had no such item, or was not read at
/// this sample, for sources that are read less often than others.
#[derive(Debug, Default)]
pub struct Row {
    /// What was read last.
    known: Vec<Option<u64>>,
    values: Vec<Option<u64>>,
    is_fresh: bool,
}

impl Row {
    /// One of these columns, in which nothing stands yet.
    pub fn of(columns: &Columns) -> Self {
        let known = vec![None; columns.count()];
        Self { values: known.clone(), known, is_fresh: true }
    }

    /// What stands in it at the sample that the replay has reached; `None` where a source has an item without
    /// columns, or roles have none: then the columns have to grow first.
    ///
    /// # Errors
    /// Where a text is not as its format says.
    pub fn take(
        &mut self,
        columns: &Columns,
        replay: &Replay,
        tick: &Tick,
    ) -> Result<Option<&[Option<u64>]>, proc::Error> {
        let is_fresh = std::mem::take(&mut self.is_fresh);
        let mut has_grown = roles(replay).len() > columns.roles.len();
        for (sampled, block) in replay.sources.iter().zip(&columns.blocks) {
            if sampled.changed || is_fresh {
                has_grown |= !take_in(sampled, block, &mut self.known)?;
            }
        }
        if has_grown {
            return Ok(None);
        }
        if let Some(tasks) = &replay.tasks {
            let used = tasks.roles();
            for (value, role) in self.known[columns.of_sources()..].iter_mut().zip(&columns.roles) {
                *value = Some(used[*role as usize]);
            }
        }
        if let Some(own) = self.known.last_mut() {
            *own = Some(tick.own.get());
        }
        self.values.copy_from_slice(&self.known);
        for (sampled, block) in replay.sources.iter().zip(&columns.blocks) {
            if !sampled.is_due(tick) {
                self.values[block.columns()].fill(None);
            }
        }
        Ok(Some(&self.values))
    }

    /// What was taken last.
    pub fn values(&self) -> &[Option<u64>] {
        &self.values
    }
}

/// Whether each item had its columns.
fn take_in(sampled: &Sampled, block: &Block, known: &mut [Option<u64>]) -> Result<bool, proc::Error> {
    known[block.columns()].fill(None);
    let Some(text) = &sampled.text else { return Ok(true) };
    let mut all_known = true;
    sampled.source.values(text, &mut |item, field, value| match block.column(item, field) {
        Some(column) => known[column] = Some(value),
        None => all_known = false,
    })?;
    Ok(all_known)
}
