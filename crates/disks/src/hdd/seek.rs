//! How long a seek takes: a square root of the distance while the arm accelerates, a line once it coasts.
//!
//! Source: C. Ruemmler and J. Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994,
//! whose measured curve of the HP 97560 has this form. Data sheets give three points and no curve: the four
//! constants here are those of the one curve of that form that is continuous, has the given time for one
//! cylinder and for the full stroke, and whose mean over random pairs of cylinders (distances with density `2
//! (1 - x)`) is the given average.

use super::geometry::Geometry;
use crate::spec::HddSpec;
use domain::time::Nanos;
use domain::units::Bytes;

/// A seek curve over distances in cylinders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeekCurve {
    /// Below this distance the root, from here on the line.
    bend: f64,
    root: (f64, f64),
    line: (f64, f64),
}

impl SeekCurve {
    /// The curve through a disk's three times.
    ///
    /// # Errors
    /// Where no rising curve goes through them.
    pub(crate) fn through(spec: &HddSpec, capacity: Bytes) -> Result<Self, String> {
        Self::over(spec, Geometry::new(spec, capacity).cylinders())
    }

    fn over(spec: &HddSpec, cylinders: f64) -> Result<Self, String> {
        let [first, mean, full] = [spec.seek_track_to_track, spec.seek_average, spec.seek_full_stroke]
            .map(|span| span.get() as f64);
        let (bend, one) = (spec.seek_short_share.get(), 1.0 / cylinders.max(4.0));
        if !(one * 2.0..1.0).contains(&bend) {
            return Err(format!("the seek curve's bend at {bend:.4} of the stroke is not inside it"));
        }
        let (slope, rise) = solve(first, mean, full, bend, one);
        if slope < 0.0 || rise < 0.0 || first > mean {
            return Err(format!(
                "no rising seek curve goes through {}, {} on average and {}; change one of them or `seek_short_share`",
                spec.seek_track_to_track, spec.seek_average, spec.seek_full_stroke
            ));
        }
        // From shares of the stroke to cylinders.
        let root = (first - rise * one.sqrt(), rise * one.sqrt());
        Ok(Self { bend: bend / one, root, line: (full - slope, slope * one) })
    }

    /// The same time for every distance: for a disk cut so small that it has no cylinders to speak of.
    pub(crate) const fn flat(span: Nanos) -> Self {
        Self { bend: 0.0, root: (0.0, 0.0), line: (span.get() as f64, 0.0) }
    }

    /// In nanoseconds; nothing for no distance.
    pub(crate) fn time(&self, cylinders: f64) -> u64 {
        if cylinders < 1.0 {
            return 0;
        }
        let (base, factor, distance) = match cylinders < self.bend {
            true => (self.root.0, self.root.1, cylinders.sqrt()),
            false => (self.line.0, self.line.1, cylinders),
        };
        (base + factor * distance) as u64
    }
}

/// The line's slope and the root's factor, for distances as shares of the stroke.
///
/// With root `a + b √x` below the bend `s` and line `c + e x` above: `a + b √x₁ = first`, `c + e = full`,
/// both equal at `s`, and the mean over the density `2 (1 - x)` is `mean`. Eliminating `a`, `b` and `c`
/// leaves one equation in `e`.
fn solve(first: f64, mean: f64, full: f64, s: f64, one: f64) -> (f64, f64) {
    let weight_root = 2.0 * s - s * s;
    let weight_root_x = 2.0 * (2.0 / 3.0 * s.powf(1.5) - 2.0 / 5.0 * s.powf(2.5));
    let weight_line = (1.0 - s) * (1.0 - s);
    let weight_line_x = 1.0 / 3.0 - s * s + 2.0 / 3.0 * s.powi(3);
    let reach = s.sqrt() - one.sqrt();
    let m = weight_root_x - weight_root * one.sqrt();
    let left = (weight_line_x - weight_line) - (1.0 - s) * m / reach;
    let right = mean - weight_root * first - weight_line * full - m * (full - first) / reach;
    let slope = right / left;
    (slope, (full - first - slope * (1.0 - s)) / reach)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hdd::tests::spec;

    fn curve() -> SeekCurve {
        SeekCurve::over(&spec(), 100_000.0).unwrap()
    }

    #[test]
    fn the_curve_goes_through_the_data_sheet_s_three_times() {
        let curve = curve();
        let near = |got: u64, want: Nanos| (got as f64 / want.get() as f64 - 1.0).abs() < 0.001;
        assert!(near(curve.time(1.0), spec().seek_track_to_track), "{}", curve.time(1.0));
        assert!(near(curve.time(100_000.0), spec().seek_full_stroke), "{}", curve.time(100_000.0));
        let steps = 20_000;
        let weighed = |i: u32| {
            let x = (f64::from(i) + 0.5) / f64::from(steps);
            2.0 * (1.0 - x) * curve.time(x * 100_000.0) as f64 / f64::from(steps)
        };
        let mean: f64 = (0..steps).map(weighed).sum();
        assert!(near(mean as u64, spec().seek_average), "{mean}");
    }

    #[test]
    fn a_longer_seek_is_never_shorter_in_time() {
        let curve = curve();
        let times: Vec<u64> = (0..1_000).map(|i| curve.time(f64::from(i) * 100.0)).collect();
        assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(curve.time(0.0), 0);
    }

    #[test]
    fn times_that_no_curve_joins_are_refused() {
        let spec = HddSpec { seek_average: Nanos::from_millis(60), ..spec() };
        assert!(SeekCurve::over(&spec, 100_000.0).is_err());
    }
}
