//! Sources of variation: what differs between trials of one cell on a machine, and by how much.
//!
//! All of it is drawn from the trial's seed, so that a trial can be repeated to the nanosecond. A machine
//! without a table `[variation]` differs by the requests of its loads alone.

use super::Figure;
use domain::rng::Seed;
use domain::time::Nanos;

/// What differs between trials of one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Variation {
    /// Relative standard deviation of what all work of a trial costs: where its memory lies, and so what of
    /// it meets in the caches.
    pub costs: Option<Figure>,
    /// Relative standard deviation of the times of each flash disk in a trial: how its pages lie over the
    /// dies, and what it collects.
    pub media: Option<Figure>,
    /// The load begins at a random moment of the first so many milliseconds: ticks, background work, and
    /// windows of governors that have begun before it, lie elsewhere in each trial.
    pub start_ms: Option<Figure>,
    /// Work that the machine does for itself.
    pub background: Vec<Background>,
}

/// Work that a machine does for itself at random moments: daemons, and what a distribution plans by timers.
#[derive(Clone, Debug, PartialEq)]
pub struct Background {
    /// The thread's name.
    pub name: String,
    /// The mean time from its going to sleep to its next wake-up, exponentially distributed.
    pub every: Nanos,
    /// The mean work of a wake-up in the unit of costs, exponentially distributed.
    pub work: Figure,
}

impl Variation {
    /// No source at all: the machine of which figures are fitted.
    pub const NONE: Self = Self { costs: None, media: None, start_ms: None, background: Vec::new() };

    /// By what the costs of a trial are multiplied.
    pub fn cost_factor(&self, trial: Seed) -> f64 {
        factor(self.costs.as_ref(), trial, "variation: costs")
    }

    /// By what the times of a trial's flash disk are multiplied; disks are told apart by number.
    pub fn media_factor(&self, trial: Seed, disk: usize) -> f64 {
        factor(self.media.as_ref(), trial, &format!("variation: media {disk}"))
    }

    /// How long after the machine a trial's load begins.
    pub fn start(&self, trial: Seed) -> Nanos {
        let most = self.start_ms.as_ref().map_or(0.0, |figure| figure.is);
        Nanos::new((most * 1e6 * trial.stream("variation: start").unit()) as u64)
    }
}

/// Log-normal with the median 1, so that no factor is below nothing and figures are fitted to the median.
fn factor(deviation: Option<&Figure>, trial: Seed, purpose: &str) -> f64 {
    deviation.map_or(1.0, |figure| (figure.is * trial.stream(purpose).normal()).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Origin;

    #[test]
    fn the_manual_has_every_source_of_variation() {
        let manual = include_str!("../../../../docs/MACHINE-FORMAT.md");
        for name in ["costs", "media", "start_ms"] {
            assert!(manual.contains(&format!("\n| `{name}` |")), "no row has `{name}`");
        }
    }

    #[test]
    fn factors_have_the_deviation_of_the_file_and_the_median_one() {
        let figure = Figure { is: 0.02, origin: Origin::Source("a test".into()) };
        let variation = Variation { costs: Some(figure.clone()), media: Some(figure), ..Variation::NONE };
        let logs: Vec<f64> = (0..4000).map(|trial| variation.cost_factor(Seed(trial)).ln()).collect();
        let mean = logs.iter().sum::<f64>() / 4000.0;
        let deviation = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 3999.0).sqrt();
        assert!(mean.abs() < 0.0015 && (deviation / 0.02 - 1.0).abs() < 0.05, "{mean} {deviation}");
        assert_eq!(variation.cost_factor(Seed(7)), variation.cost_factor(Seed(7)));
        assert_ne!(variation.media_factor(Seed(7), 0), variation.media_factor(Seed(7), 1));
        assert_eq!(Variation::NONE.cost_factor(Seed(7)), 1.0);
        assert_eq!(Variation::NONE.start(Seed(7)), Nanos::ZERO);
    }
}
