//! What CPUs take: watts by frequency, busy and idle, integrated over time.

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
    joules: f64,
}

impl PowerModel {
    /// From a table in any order; an empty one takes nothing.
    pub fn new(mut states: Vec<PowerState>) -> Self {
        states.sort_by_key(|state| state.khz);
        Self { states, joules: 0.0 }
    }

    /// Whether there is a table.
    pub fn is_known(&self) -> bool {
        !self.states.is_empty()
    }

    pub(super) fn joules(&self) -> f64 {
        self.joules
    }

    /// A CPU was at this frequency for so long, or in an idle state of so many watts. Between two states of the table the power
    /// lies on a line.
    pub(super) fn spend(&mut self, khz: u64, busy: bool, idle_watts: Option<f64>, ns: u64) {
        if let Some(watts) = idle_watts.filter(|_| !busy && self.is_known()) {
            self.joules += watts * ns as f64 / 1e9;
            return;
        }
        let watts = |s: &PowerState| if busy { s.busy_watts } else { s.idle_watts };
        let above = self.states.iter().position(|s| s.khz >= khz);
        let power = match above {
            None => self.states.last().map_or(0.0, watts),
            Some(0) => watts(&self.states[0]),
            Some(at) => {
                let (low, high) = (&self.states[at - 1], &self.states[at]);
                let share = (khz - low.khz) as f64 / (high.khz - low.khz) as f64;
                watts(low) + share * (watts(high) - watts(low))
            }
        };
        self.joules += power * ns as f64 / 1e9;
    }
}
