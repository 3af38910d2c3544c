//! Fits unknown figures of a machine, within their ranges, so that a model gives what was measured.
//!
//! A seeded search: points spread over the ranges (a Latin hypercube in logarithms), then Hooke and Jeeves's
//! pattern search (J. ACM 8(2), 1961) from the best of them. It finds a good point, not surely the best. How
//! far each figure is known is told by what happens when it alone is moved ([`Fitted::known`]): a figure that
//! can be anything within its range without a worse fit is not identified by what it was fitted to.

use domain::rng::{Rng, Seed};

/// A figure to fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Unknown {
    /// Its name.
    pub name: String,
    /// Where it is now.
    pub is: f64,
    /// The least it may be; above 0.
    pub least: f64,
    /// The most.
    pub most: f64,
}

/// A fitted figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// Which, with where it was before.
    pub unknown: Unknown,
    /// Its value.
    pub is: f64,
    /// Moved alone between these, the fit stays as good as [`TOLERANCE`] says.
    pub known: (f64, f64),
}

impl Fitted {
    /// Whether what it was fitted to says anything about it: less than four fifths of its range fit as well.
    pub fn is_identified(&self) -> bool {
        let span = |low: f64, high: f64| (high / low).ln();
        span(self.known.0, self.known.1) < 0.8 * span(self.unknown.least, self.unknown.most)
    }
}

/// A root of a mean squared error that is larger by this share of a value is still as good a fit: 1%.
pub const TOLERANCE: f64 = 0.01;

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The figures.
    pub figures: Vec<Fitted>,
    /// The objective at the beginning and there.
    pub before: f64,
    /// As above.
    pub after: f64,
    /// How often the objective was asked for.
    pub evaluations: u32,
}

/// Points of the first look, for each unknown.
const SPREAD: u32 = 12;
/// Points at which each figure alone is tried for [`Fitted::known`].
const PROFILE: u32 = 16;
/// The pattern's smallest step, as a factor.
const MIN_STEP: f64 = 1.005;

/// Fits. The objective gets the figures in the order of `unknowns` and gives the root of the mean squared
/// relative error; it must give the same for the same. It is asked at most `budget` times for the search, and
/// then for the profiles.
pub fn fit(unknowns: &[Unknown], seed: Seed, budget: u32, objective: &mut dyn FnMut(&[f64]) -> f64) -> Fit {
    let mut search = Search { unknowns, objective, evaluations: 0, budget };
    let start: Vec<f64> = unknowns.iter().map(|u| u.is.clamp(u.least, u.most)).collect();
    let before = search.ask(&start);
    let mut best = (before, start);
    for point in spread(unknowns, SPREAD * unknowns.len() as u32, &mut seed.stream("calibrate")) {
        search.better(&mut best, point);
    }
    search.descend(&mut best);
    let (after, values) = best;
    let known: Vec<(f64, f64)> =
        (0..unknowns.len()).map(|which| search.profile(&values, after, which)).collect();
    let figures = unknowns.iter().zip(&values).zip(known);
    Fit {
        figures: figures
            .map(|((unknown, is), known)| Fitted { unknown: unknown.clone(), is: *is, known })
            .collect(),
        before,
        after,
        evaluations: search.evaluations,
    }
}

struct Search<'a> {
    unknowns: &'a [Unknown],
    objective: &'a mut dyn FnMut(&[f64]) -> f64,
    evaluations: u32,
    budget: u32,
}

impl Search<'_> {
    fn ask(&mut self, point: &[f64]) -> f64 {
        self.evaluations += 1;
        let value = (self.objective)(point);
        if value.is_nan() { f64::INFINITY } else { value }
    }

    /// Takes the point where it is better, while there is budget.
    fn better(&mut self, best: &mut (f64, Vec<f64>), point: Vec<f64>) -> bool {
        if self.evaluations >= self.budget {
            return false;
        }
        let value = self.ask(&point);
        let is_better = value < best.0;
        if is_better {
            *best = (value, point);
        }
        is_better
    }

    fn descend(&mut self, best: &mut (f64, Vec<f64>)) {
        let mut step = 2.0_f64;
        while step > MIN_STEP && self.evaluations < self.budget {
            let before = best.1.clone();
            let mut moved = false;
            for (which, unknown) in self.unknowns.iter().enumerate() {
                for factor in [step, 1.0 / step] {
                    let mut point = best.1.clone();
                    point[which] = (point[which] * factor).clamp(unknown.least, unknown.most);
                    if point[which] != best.1[which] && self.better(best, point) {
                        moved = true;
                        break;
                    }
                }
            }
            if !moved {
                step = step.sqrt();
                continue;
            }
            // On in the direction of all moves together.
            let bounds = self.unknowns.iter().map(|u| (u.least, u.most));
            let onward = best.1.iter().zip(&before).zip(bounds);
            let point = onward
                .map(|((now, before), (least, most))| (now * now / before).clamp(least, most))
                .collect();
            self.better(best, point);
        }
    }

    /// Between which values a figure alone may lie.
    fn profile(&mut self, values: &[f64], best: f64, which: usize) -> (f64, f64) {
        let unknown = &self.unknowns[which];
        let (least, most) = (unknown.least, unknown.most);
        let mut known = (values[which], values[which]);
        for step in 0..PROFILE {
            let share = f64::from(step) / f64::from(PROFILE - 1);
            let mut point = values.to_vec();
            point[which] = least * (most / least).powf(share);
            if self.ask(&point) <= best + TOLERANCE {
                known = (known.0.min(point[which]), known.1.max(point[which]));
            }
        }
        known
    }
}

/// A Latin hypercube: in each dimension one point in each of as many equal parts.
fn spread(unknowns: &[Unknown], points: u32, rng: &mut Rng) -> Vec<Vec<f64>> {
    let columns: Vec<Vec<f64>> = unknowns
        .iter()
        .map(|unknown| {
            let mut parts: Vec<u32> = (0..points).collect();
            rng.shuffle(&mut parts);
            let place = |part: u32, rng: &mut Rng| (f64::from(part) + rng.unit()) / f64::from(points);
            let value = |share: f64| unknown.least * (unknown.most / unknown.least).powf(share);
            parts.into_iter().map(|part| value(place(part, rng))).collect()
        })
        .collect();
    (0..points as usize).map(|row| columns.iter().map(|column| column[row]).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(name: &str, is: f64, least: f64, most: f64) -> Unknown {
        Unknown { name: name.into(), is, least, most }
    }

    #[test]
    fn what_the_data_were_made_of_is_found_again() {
        let unknowns = [unknown("a", 1.0, 0.1, 100.0), unknown("b", 1.0, 0.1, 100.0)];
        // t = a / f + b at three frequencies, with a = 7 and b = 3.
        let truth = [1.0, 2.0, 8.0].map(|f| (f, 7.0 / f + 3.0));
        let mut objective = |p: &[f64]| {
            let errors = truth.iter().map(|(f, t)| ((p[0] / f + p[1]) / t).ln().powi(2));
            (errors.sum::<f64>() / 3.0).sqrt()
        };
        let fit = fit(&unknowns, Seed(3), 2000, &mut objective);
        assert!((fit.figures[0].is / 7.0 - 1.0).abs() < 0.02, "{fit:?}");
        assert!((fit.figures[1].is / 3.0 - 1.0).abs() < 0.02, "{fit:?}");
        assert!(fit.figures.iter().all(Fitted::is_identified) && fit.after < fit.before);
    }

    #[test]
    fn a_figure_that_decides_nothing_is_said_not_to_be_identified() {
        let unknowns = [unknown("decides", 1.0, 0.1, 100.0), unknown("nothing", 1.0, 0.1, 100.0)];
        let fit = fit(&unknowns, Seed(1), 500, &mut |p| (p[0] / 5.0).ln().abs());
        assert!(fit.figures[0].is_identified() && !fit.figures[1].is_identified(), "{fit:?}");
        assert_eq!(fit.figures[1].known, (0.1, 100.0));
    }

    #[test]
    fn the_same_seed_finds_the_same_within_its_ranges() {
        let unknowns = [unknown("a", 50.0, 10.0, 100.0)];
        let run = |seed| fit(&unknowns, Seed(seed), 200, &mut |p| (p[0] / 5.0).ln().abs());
        assert_eq!(run(4), run(4));
        assert!((run(4).figures[0].is - 10.0).abs() < 0.1, "the best lies at the end of the range");
    }
}
