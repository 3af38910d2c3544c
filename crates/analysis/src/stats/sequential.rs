//! By what factor pairs differ, with an interval that holds whenever one looks: a confidence sequence.
//!
//! A pair is a value before and a value after a change, measured one after the other in random order. Where
//! the change does nothing, the logarithm `d` of their ratio is as likely positive as negative, whatever the
//! noise: skewed, with outliers, with two modes, drifting from pair to pair. For each odd function `ψ` the
//! product of `exp(ψ(d)) / cosh(ψ(d))` over the pairs is then a martingale that begins at 1, and so is an
//! average of such products over several `ψ`. By Ville's inequality it ever reaches `1/α` with a probability
//! of at most `α`: one may look after each pair and stop at will. The interval holds all factors that are not
//! refuted so.
//!
//! Here `ψ` rises like `d/scale` and levels off at [`LEVEL`]: one pair with an outlier then takes back what
//! two or three others said and not all of it. As `ψ` rises everywhere, what is not refuted is one interval.
//!
//! de la Peña, "A general class of exponential inequalities for martingales and ratios", Annals of
//! Probability 27, 1999 (symmetric differences); Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform,
//! nonparametric, nonasymptotic confidence sequences", Annals of Statistics 49, 2021 (what such intervals
//! promise); Ville, "Étude critique de la notion de collectif", 1939.
//!
//! No factor of the product is above 2, so that a claim at `α` takes more than `log2(1/α)` pairs whatever
//! they say: five at 0.05, six at 0.025 (with the level, 4.4 and 5.5). That is the price of assuming nothing
//! of the noise. For the same
//! reason a product that is far behind cannot catch up in the pairs that are left: to end there changes no
//! answer (curtailment: Alling, "Early decision in the Wilcoxon two-sample test", Journal of the American
//! Statistical Association 58, 1963).

use super::interval::Interval;

/// The differences, as logarithms, at which the functions that are averaged tell most: from a quarter of a
/// per cent to a third.
const SCALES: [f64; 8] = [0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32];

/// Where `ψ` levels off. Chosen by the simulation of benches/deciding: below it, clear gains take more pairs;
/// without it, fewer gains are found in noise with outliers, with a long tail and with two modes.
const LEVEL: f64 = 2.0;

/// Beyond all differences by so much, each factor of each product is the greatest within a float's precision.
const FAR: f64 = 20.0;

/// Halvings of the range in which an end lies: to some hundred-thousandth of a per cent.
const HALVINGS: usize = 30;

/// Which way is refuted.
#[derive(Clone, Copy)]
enum Side {
    /// That the ratio is at most this.
    AtMost,
    /// That it is at least this.
    AtLeast,
}

/// The interval of the ratio of pairs, from the logarithms of each pair's own; `None` where there are too few
/// for the confidence. It covers the ratio with that probability however often one looks while pairs come in.
pub fn interval(logs: &[f64], confidence: f64) -> Option<Interval> {
    let alpha = (1.0 - confidence) / 2.0;
    let needed = (1.0 / alpha).ln();
    let lowest = logs.iter().copied().reduce(f64::min)? - FAR;
    let highest = logs.iter().copied().reduce(f64::max)? + FAR;
    if log_wealth(logs, lowest, Side::AtMost) < needed {
        return None;
    }
    let low = last(lowest, highest, |shift| log_wealth(logs, shift, Side::AtMost) >= needed);
    let high = last(highest, lowest, |shift| log_wealth(logs, shift, Side::AtLeast) >= needed);
    Some(Interval { low: low.exp(), high: high.exp(), confidence })
}

/// Whether so many more pairs could yet say that the ratio is above this one or below it, whatever they are.
pub fn can_yet_tell(logs: &[f64], ratio: f64, confidence: f64, more: usize) -> bool {
    let needed = (2.0 / (1.0 - confidence)).ln();
    let most = |side| log_wealth(logs, ratio.ln(), side) + more as f64 * log_factor(LEVEL);
    most(Side::AtMost) >= needed || most(Side::AtLeast) >= needed
}

/// The probability, at most, that pairs which do not differ ever say as much as these; two-sided.
pub fn p_value(logs: &[f64]) -> Option<f64> {
    let most = log_wealth(logs, 0.0, Side::AtMost).max(log_wealth(logs, 0.0, Side::AtLeast));
    (!logs.is_empty()).then(|| (2.0 * (-most).exp()).min(1.0))
}

/// The logarithm of the martingale that grows where the ratio is not what the side says.
fn log_wealth(logs: &[f64], shift: f64, side: Side) -> f64 {
    let sign = match side {
        Side::AtMost => 1.0,
        Side::AtLeast => -1.0,
    };
    let product = |scale: f64| -> f64 {
        let psi = |log: f64| LEVEL * (sign * (log - shift) / scale / LEVEL).tanh();
        logs.iter().map(|log| log_factor(psi(*log))).sum()
    };
    let products = SCALES.map(product);
    let most = products.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = products.into_iter().map(|product| (product - most).exp()).sum();
    most + (sum / SCALES.len() as f64).ln()
}

/// `ln(exp(psi) / cosh(psi))`: what one pair adds.
fn log_factor(psi: f64) -> f64 {
    std::f64::consts::LN_2 - (-2.0 * psi).exp().ln_1p()
}

/// Of what holds from `from` on, up to somewhere before `to`, the last place.
fn last(from: f64, to: f64, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut yes, mut no) = (from, to);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(yes, no);
        if holds(middle) { yes = middle } else { no = middle }
    }
    yes
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn five_pairs_are_the_fewest_at_one_in_twenty_a_side_and_more_narrow_it() {
        let same = |n: usize| interval(&vec![0.1; n], 0.9);
        assert!(same(4).is_none());
        let (few, many) = (same(5).unwrap(), same(20).unwrap());
        assert!(few.low < 1.1 && 1.1 < few.high, "{few:?}");
        assert!(many.low > few.low && many.high < few.high, "{few:?} {many:?}");
        assert!(interval(&[], 0.9).is_none() && p_value(&[]).is_none());
    }

    #[test]
    fn what_is_turned_around_gives_the_reciprocal() {
        let logs = [0.1, 0.12, 0.08, 0.11, 0.02, 0.14, -0.01];
        let turned: Vec<f64> = logs.iter().map(|log| -log).collect();
        let (there, back) = (interval(&logs, 0.9).unwrap(), interval(&turned, 0.9).unwrap());
        assert!((there.low * back.high - 1.0).abs() < 1e-6 && (there.high * back.low - 1.0).abs() < 1e-6);
        assert!((p_value(&logs).unwrap() - p_value(&turned).unwrap()).abs() < 1e-12);
    }

    #[test]
    fn an_interval_excludes_no_difference_just_where_a_side_is_refuted() {
        for logs in [[0.05; 6], [0.001; 6], [-0.2; 6]] {
            let interval = interval(&logs, 0.9).unwrap();
            let excludes = interval.low > 1.0 || interval.high < 1.0;
            assert_eq!(excludes, p_value(&logs).unwrap() <= 0.1, "{logs:?} {interval:?}");
        }
    }

    #[test]
    fn one_pair_that_says_the_opposite_takes_back_what_a_few_said_and_no_more() {
        let with = |outlier: f64| interval(&[&[0.1; 12][..], &[outlier]].concat(), 0.9).unwrap();
        assert!(with(-5.0).low > 1.02, "{:?}", with(-5.0));
        assert!((with(-5.0).low - with(-50.0).low).abs() < 1e-6, "how far it lies says nothing more");
        assert!(interval(&[0.1, 0.1, 0.1, 0.1, 0.1, 0.1, -5.0], 0.9).is_none_or(|within| within.low < 1.0));
    }

    #[test]
    fn what_could_yet_be_told_is_what_the_clearest_pairs_would_tell() {
        let logs = [0.1, -0.1, 0.05, -0.12, 0.02];
        for more in 0..20 {
            let tells = |next: f64| {
                let all = [&logs[..], &vec![next; more]].concat();
                interval(&all, 0.9).is_some_and(|interval| interval.low > 1.02 || interval.high < 1.02)
            };
            assert_eq!(can_yet_tell(&logs, 1.02, 0.9, more), tells(9.0) || tells(-9.0), "{more}");
        }
        assert!(!can_yet_tell(&logs, 1.02, 0.9, 5) && can_yet_tell(&logs, 1.02, 0.9, 10));
        assert!(!can_yet_tell(&[], 1.0, 0.9, 4) && can_yet_tell(&[], 1.0, 0.9, 5));
    }

    #[test]
    fn values_far_apart_are_no_overflow() {
        let interval = interval(&[700.0, 690.0, 710.0, 705.0, 701.0, 699.0], 0.9).unwrap();
        assert!(interval.low > 1.0 && interval.low.is_finite(), "{interval:?}");
    }
}
