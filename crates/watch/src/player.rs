//! A stored trace, played as it was recorded.

use crate::Key;
use crate::state::{HISTORY, State};
use crate::window::SPAN;
use domain::bench::Sink;
use domain::inventory::Inventory;
use domain::time::Nanos;
use domain::trace::Trace;

/// Paces, slowest first.
const PACES: [f64; 9] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0];

/// As fast as it was.
const AS_IT_WAS: usize = 3;

/// How many values of a trace are held in memory: 16 bytes each.
const MAX_VALUES: usize = 8 << 20;

/// The most rows that are useful: ten a second of an hour.
const MAX_ROWS: usize = 36_000;

/// How many rows of a trace with so many columns are held; a longer one is thinned to that.
pub fn most_rows(columns: usize) -> usize {
    (MAX_VALUES / columns.max(1)).clamp(2, MAX_ROWS)
}

/// Plays a trace. Time passes as it is told ([`Player::pass`]).
#[derive(Clone, Debug)]
pub struct Player {
    trace: Trace,
    state: State,
    /// The rows that the state has.
    taken: usize,
    /// Where it is, from the first row.
    at: Nanos,
    pace: usize,
    is_held: bool,
    row: Vec<Option<u64>>,
}

impl Player {
    /// At the start of a trace.
    pub fn new(trace: Trace, inventory: Option<Inventory>) -> Self {
        let row = vec![None; trace.columns.len()];
        let state = State::of(inventory);
        let mut player =
            Self { trace, state, taken: 0, at: Nanos::ZERO, pace: AS_IT_WAS, is_held: false, row };
        player.seek(Nanos::ZERO);
        player
    }

    /// What is known at the moment that is shown.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// How long the trace is.
    pub fn length(&self) -> Nanos {
        self.trace.times.last().copied().unwrap_or_default()
    }

    /// How many times as fast as it was.
    pub fn pace(&self) -> f64 {
        PACES[self.pace]
    }

    /// Whether it stands still: by a key, or at the end.
    pub fn is_held(&self) -> bool {
        self.is_held || self.at >= self.length()
    }

    /// Lets time pass.
    pub fn pass(&mut self, span: Nanos) {
        if !self.is_held() {
            let to = self.at + Nanos::new((span.get() as f64 * self.pace()) as u64);
            self.go_to(to.min(self.length()));
        }
    }

    /// Does what a key asks for.
    pub fn press(&mut self, key: Key) {
        let by = |seconds| Nanos::from_secs(seconds);
        match key {
            Key::Char(' ') if self.at >= self.length() => {
                self.is_held = false;
                self.seek(Nanos::ZERO);
            }
            Key::Char(' ') => self.is_held = !self.is_held,
            Key::Char('+' | '=') => self.pace = (self.pace + 1).min(PACES.len() - 1),
            Key::Char('-') => self.pace = self.pace.saturating_sub(1),
            Key::Left | Key::Char('h') => self.seek(self.at.saturating_sub(by(1))),
            Key::Right | Key::Char('l') => self.seek(self.at + by(1)),
            Key::PageUp => self.seek(self.at.saturating_sub(by(10))),
            Key::PageDown => self.seek(self.at + by(10)),
            Key::Home => self.seek(Nanos::ZERO),
            Key::End => self.seek(self.length()),
            _ => {}
        }
    }

    /// Goes to a time: backwards by beginning again as far before it as is drawn.
    pub fn seek(&mut self, to: Nanos) {
        let to = to.min(self.length());
        let drawn = Nanos::new(SPAN.get() * (HISTORY as u64 + 2));
        if to < self.at || self.taken == 0 || to.saturating_sub(self.at) > drawn {
            let inventory = self.state.inventory().cloned();
            self.state = State::of(inventory);
            let from = to.saturating_sub(drawn);
            self.taken = self.trace.times.partition_point(|time| *time < from);
            // A state in memory takes any head.
            let _ = self.state.begin(&self.trace.head);
        }
        self.go_to(to);
    }

    fn go_to(&mut self, to: Nanos) {
        self.at = to;
        while let Some(time) = self.trace.times.get(self.taken).copied().filter(|time| *time <= to) {
            for (value, column) in self.row.iter_mut().zip(&self.trace.columns) {
                *value = column[self.taken];
            }
            // And any row.
            let _ = self.state.row(time, &self.row);
            self.taken += 1;
        }
    }
}
