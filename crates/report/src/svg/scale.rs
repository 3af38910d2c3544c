//! Scales: where a value lies on an axis, and which round values label it.
//!
//! Tick steps follow Heckbert, "Nice numbers for graph labels", Graphics Gems (1990): 1, 2 or 5 times a power
//! of ten.

/// An axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// Equal distances are equal differences.
    Linear {
        /// At the left or lower end.
        low: f64,
        /// At the other end.
        high: f64,
        /// Between two ticks; both ends are ticks.
        step: f64,
    },
    /// Equal distances are equal ratios; both ends are above zero.
    Log {
        /// At the left or lower end.
        low: f64,
        /// At the other end.
        high: f64,
    },
}

/// From this ratio of largest to smallest value on, a linear axis would push the small ones into one dot.
const LOG_FROM: f64 = 40.0;

/// Where all values are above this share of the largest, an axis from zero would waste most of its length.
const CUT_ABOVE: f64 = 0.6;

/// About as many ticks as an axis carries on a phone without its labels touching.
const TICKS: f64 = 4.0;

/// No axis is narrower, so that a step is never too small to be added to its ends.
const NARROWEST: f64 = 1e-100;

/// No value beyond this is drawn: its axis would end in infinity.
const LARGEST: f64 = 1e100;

impl Scale {
    /// An axis that shows all values that are finite, if not absurd. It begins at zero where they do not lie
    /// close together, and is logarithmic where they differ by more than [`LOG_FROM`]. `None` without any
    /// finite value.
    pub(crate) fn covering(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (least, most) = extent(values)?;
        if least > 0.0 && most / least > LOG_FROM {
            return Some(Self::log(least, most));
        }
        let cut = least > 0.0 && least > CUT_ABOVE * most;
        let room = if cut { (most - least).max(most * 0.02) * 0.08 } else { 0.0 };
        let low = if cut { least - room } else { least.min(0.0) };
        Some(Self::linear(low, most + room))
    }

    /// An axis from zero to at least `most`.
    pub(crate) fn from_zero(most: f64) -> Self {
        Self::linear(0.0, if most <= LARGEST { most } else { 1.0 })
    }

    /// An axis for ratios that always shows 1, and is logarithmic where they leave 0.5 to 2.
    pub(crate) fn of_ratios(values: impl IntoIterator<Item = f64>) -> Self {
        let positive = values.into_iter().filter(|v| *v > 0.0);
        let (least, most) = extent(positive).unwrap_or((1.0, 1.0));
        let (least, most) = (least.min(0.98), most.max(1.02));
        if least < 0.5 || most > 2.0 {
            return Self::log(least, most);
        }
        let room = (most - least) * 0.04;
        Self::linear(least - room, most + room)
    }

    fn linear(low: f64, high: f64) -> Self {
        let width = if high > low { (high - low).max(NARROWEST) } else { high.abs().max(1.0) };
        let step = nice_step(width / TICKS);
        let high = ((low + width) / step - 1e-9).ceil() * step;
        Self::Linear { low: (low / step + 1e-9).floor() * step, high, step }
    }

    fn log(least: f64, most: f64) -> Self {
        // By logarithms: the quotient of two doubles may be more than a double holds.
        let room = ((most.ln() - least.ln()) * 0.04).exp();
        Self::Log { low: (least / room).max(f64::MIN_POSITIVE), high: (most * room).min(f64::MAX) }
    }

    /// Where a value lies, from 0 to 1; values beyond the ends are put there.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let share = match *self {
            Self::Linear { low, high, .. } => (value - low) / (high - low),
            Self::Log { low, high } => {
                (value.max(f64::MIN_POSITIVE).ln() - low.ln()) / (high.ln() - low.ln())
            }
        };
        share.clamp(0.0, 1.0)
    }

    /// The value at its upper end.
    pub(crate) const fn end(&self) -> f64 {
        match *self {
            Self::Linear { high, .. } | Self::Log { high, .. } => high,
        }
    }

    /// Round values along the axis, from its lower end on.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        match *self {
            Self::Linear { low, high, step } => {
                let first = (low / step - 1e-9).ceil();
                let count = ((high - low) / step + 1e-9).floor() as u32;
                (0..=count).map(|i| (first + f64::from(i)) * step).collect()
            }
            Self::Log { low, high } => log_ticks(low, high),
        }
    }

    /// What a reader has to know to read lengths rightly.
    pub(crate) fn note(&self) -> Option<&'static str> {
        match self {
            Self::Log { .. } => Some("logarithmic axis"),
            Self::Linear { low, .. } if *low > 0.0 => Some("axis does not begin at zero"),
            Self::Linear { .. } => None,
        }
    }
}

fn extent(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = values.into_iter().filter(|v| v.abs() <= LARGEST);
    finite.fold(None, |so_far, v| match so_far {
        None => Some((v, v)),
        Some((least, most)) => Some((v.min(least), v.max(most))),
    })
}

/// The next round number from a wished step on.
fn nice_step(wished: f64) -> f64 {
    if !wished.is_normal() {
        return 1.0;
    }
    let power = 10_f64.powf(wished.log10().floor());
    let round = match wished / power {
        f if f <= 1.0 + 1e-9 => 1.0,
        f if f <= 2.0 + 1e-9 => 2.0,
        f if f <= 5.0 + 1e-9 => 5.0,
        _ => 10.0,
    };
    round * power
}

const LOG_STEPS: [f64; 3] = [1.0, 2.0, 5.0];

fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let steps: &[f64] = if last - first <= 2 { &LOG_STEPS } else { &LOG_STEPS[..1] };
    let stride = ((last - first) / 6 + 1) as usize;
    let powers = (first..=last).step_by(stride).map(|p| 10_f64.powi(p));
    let all = powers.flat_map(|p| steps.iter().map(move |s| s * p));
    all.filter(|v| *v >= low * (1.0 - 1e-9) && *v <= high * (1.0 + 1e-9)).collect()
}

/// A tick's label: as few digits as tell it apart.
pub(crate) fn tick_label(value: f64) -> String {
    let text = format!("{:.*}", if value.abs() >= 1e-4 { 6 } else { 12 }, value);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.replace('-', "−") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale) -> Vec<String> {
        scale.ticks().into_iter().map(tick_label).collect()
    }

    #[test]
    fn ticks_are_round_and_span_the_axis() {
        assert_eq!(labels(Scale::covering([0.0, 57.3]).unwrap()), ["0", "20", "40", "60"]);
        assert_eq!(labels(Scale::covering([101.0, 99.0]).unwrap()), ["98", "99", "100", "101", "102"]);
        assert_eq!(
            labels(Scale::covering([0.000_02, 0.000_17]).unwrap()),
            ["0", "0.00005", "0.0001", "0.00015", "0.0002"]
        );
    }

    #[test]
    fn values_far_apart_get_a_logarithmic_axis_and_it_says_so() {
        let scale = Scale::covering([3.0, 900.0]).unwrap();
        assert_eq!(labels(scale), ["10", "100", "1000"]);
        assert_eq!(scale.note(), Some("logarithmic axis"));
        assert!((scale.place(2700.0_f64.sqrt()) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn one_value_no_value_and_nothing_but_zeros_have_axes_too() {
        for values in [vec![5.0], vec![0.0, 0.0], vec![-3.0], vec![1e99], vec![f64::MIN_POSITIVE]] {
            let scale = Scale::covering(values.clone()).unwrap();
            assert!(scale.ticks().len() >= 2, "{values:?}: {scale:?}");
            assert!(scale.place(values[0]).is_finite(), "{values:?}: {scale:?}");
        }
        assert_eq!(Scale::covering([f64::NAN, f64::INFINITY, f64::MAX]), None);
    }

    #[test]
    fn an_axis_of_ratios_always_shows_no_difference() {
        for ratios in [vec![], vec![1.3, 1.4], vec![0.7], vec![9.0], vec![0.0, f64::NAN]] {
            let place = Scale::of_ratios(ratios.clone()).place(1.0);
            assert!(place > 0.0 && place < 1.0, "{ratios:?}");
        }
    }
}
