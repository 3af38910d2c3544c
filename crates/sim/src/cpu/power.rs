//! What CPUs take: watts by frequency, busy and idle, integrated over time.

use domain::order;

/// A CPU's power in one P-state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerState {
    /// The state's frequency.
    pub khz: u64,
    /// While it executes.
    pub busy_watts: f64,
    /// While it idles.
    pub idle_watts: f64,
}

/// The table, and what was taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PowerModel {
    states: Vec<PowerState>,
    /// What [`PowerModel::at`] last said: a CPU's frequency changes seldom.
    last: Option<PowerState>,
    /// In nanojoules.
    taken: f64,
}

impl PowerModel {
    /// From a table in any order; an empty one takes nothing.
    pub fn new(mut states: Vec<PowerState>) -> Self {
        order::by_key(&mut states, |state| state.khz);
        Self { states, last: None, taken: 0.0 }
    }

    /// Whether there is a table.
    pub fn is_known(&self) -> bool {
        !self.states.is_empty()
    }

    pub(super) fn joules(&self) -> f64 {
        self.taken / 1e9
    }

    /// A CPU was at this frequency for so long, or in an idle state of so many watts.
    pub(super) fn spend(&mut self, khz: u64, busy: bool, idle_watts: Option<f64>, ns: u64) {
        if !self.is_known() {
            return;
        }
        let state = match self.last {
            Some(last) if last.khz == khz => last,
            _ => self.at(khz),
        };
        self.last = Some(state);
        let watts = if busy { state.busy_watts } else { idle_watts.unwrap_or(state.idle_watts) };
        self.taken += watts * ns as f64;
    }

    /// The power at a frequency: between two states of the table it lies on a line.
    fn at(&self, khz: u64) -> PowerState {
        let above = self.states.partition_point(|state| state.khz < khz);
        let high = self.states[above.min(self.states.len() - 1)];
        let low = self.states[above.saturating_sub(1)];
        if high.khz <= low.khz {
            return PowerState { khz, ..high };
        }
        let share = (khz.clamp(low.khz, high.khz) - low.khz) as f64 / (high.khz - low.khz) as f64;
        let between = |low: f64, high: f64| low + share * (high - low);
        PowerState {
            khz,
            busy_watts: between(low.busy_watts, high.busy_watts),
            idle_watts: between(low.idle_watts, high.idle_watts),
        }
    }
}
