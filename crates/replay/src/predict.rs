//! What a load would do under other settings.

use crate::fit::{FittedEnd, Replay};
use crate::flows::run;
use crate::machine::{Machine, is_of_cpus, with};
use domain::bench::BenchError;
use domain::setting::SettingRequest;

/// A figure with its interval: what the ends of what is not known span, widened by what the model was off by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The least.
    pub low: f64,
    /// The most likely.
    pub value: f64,
    /// The most.
    pub high: f64,
}

/// Which way a figure changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It grows.
    Gain,
    /// It falls.
    Loss,
}

impl Direction {
    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gain => "gain",
            Self::Loss => "loss",
        }
    }
}

impl Estimate {
    /// Which way a ratio changes; `None` where both are in its interval, so that the recording cannot tell.
    pub fn direction(&self) -> Option<Direction> {
        if self.low > 1.0 {
            Some(Direction::Gain)
        } else if self.high < 1.0 {
            Some(Direction::Loss)
        } else {
            None
        }
    }
}

/// What settings would give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Requests a second, of those recorded: 1.2 is a fifth more.
    pub rate: Estimate,
    /// Seconds from a request's beginning to its end, mean: by Little's law.
    pub latency: f64,
    /// Mean frequency in Hz of the policy whose CPU is busiest, idle time included.
    pub frequency: f64,
    /// The share of all CPUs' time in which they are busy.
    pub busy: f64,
}

/// What the model is off by beside what the ends span, as logarithms: by so much always, and by so much of
/// the predicted change. Chosen on trials of dm-crypt in the lab; arrays were held out (docs/REPLAY.md).
const MODEL_WITHIN: (f64, f64) = (0.10, 0.3);

impl Replay {
    /// Under settings that win over those in force.
    ///
    /// # Errors
    /// [`BenchError`] where the machine has no such setting, or not with this value.
    pub fn predict(&self, settings: &[SettingRequest]) -> Result<Prediction, BenchError> {
        self.predicted(&self.machine, &with(&self.machine.in_force, settings))
    }

    /// By the policy of another machine with the same CPUs: its driver, its governor and its limits, as they
    /// are in force there.
    ///
    /// # Errors
    /// As [`Replay::predict`].
    pub fn predict_on(&self, machine: &Machine) -> Result<Prediction, BenchError> {
        self.predicted(machine, &machine.in_force)
    }

    /// Under settings that win over those that the machine had of its own: as another trial of the same study
    /// would make them.
    ///
    /// # Errors
    /// As [`Replay::predict`].
    pub fn predict_from_rest(&self, settings: &[SettingRequest]) -> Result<Prediction, BenchError> {
        let of_cpus: Vec<SettingRequest> =
            settings.iter().filter(|one| is_of_cpus(&one.setting.name)).cloned().collect();
        self.predicted(&self.machine, &with(&self.machine.at_rest, &of_cpus))
    }

    fn predicted(&self, machine: &Machine, settings: &[SettingRequest]) -> Result<Prediction, BenchError> {
        let runs = self
            .ends
            .iter()
            .enumerate()
            .filter(|(at, end)| *at == 0 || end.fits(&self.load))
            .map(|(_, end)| end);
        let runs = runs.map(|FittedEnd { unseen, ran: fitted, .. }| {
            let ran = run(machine, &self.load, settings, *unseen)?;
            Ok((ran, if fitted.rate > 0.0 { ran.rate / fitted.rate } else { 0.0 }))
        });
        let runs = runs.collect::<Result<Vec<_>, BenchError>>()?;
        let (ran, value) = runs.first().copied().unwrap_or_default();
        let least = runs.iter().map(|(_, ratio)| *ratio).fold(value, f64::min);
        let most = runs.iter().map(|(_, ratio)| *ratio).fold(value, f64::max);
        let change = if value > 0.0 { value.ln().abs() } else { 0.0 };
        let margin = (MODEL_WITHIN.0 + MODEL_WITHIN.1 * change).exp() * (1.0 + self.fit().error());
        let rate = value * self.load.rate;
        Ok(Prediction {
            rate: Estimate { low: least / margin, value, high: most * margin },
            latency: if rate > 0.0 { f64::from(self.load.in_flight) / rate } else { 0.0 },
            frequency: ran.frequency,
            busy: ran.busy,
        })
    }
}
