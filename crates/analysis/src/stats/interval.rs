//! An interval of an estimate, whichever estimator gave it.

/// An interval with the confidence that was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Such as 0.95.
    pub confidence: f64,
}

impl Interval {
    /// Whether this holds at both ends. What holds from some bound on, or up to it, then holds for all
    /// between.
    pub fn wholly(&self, holds: impl FnMut(f64) -> bool) -> bool {
        [self.low, self.high].into_iter().all(holds)
    }

    /// Whether its ends are further apart than a thousandth: a deterministic model's are not.
    pub fn has_width(&self) -> bool {
        self.high - self.low > self.high.abs() * NO_WIDTH
    }
}

/// Below this share of a value the figures of a table do not tell two values apart.
const NO_WIDTH: f64 = 0.001;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_that_no_table_tells_apart_have_no_width() {
        let interval = |low, high| Interval { low, high, confidence: 0.95 };
        assert!(interval(0.138, 0.144).has_width() && interval(-2.0, 1.0).has_width());
        assert!(!interval(7.12e8, 7.1201e8).has_width() && !interval(0.0, 0.0).has_width());
    }

    #[test]
    fn both_ends_decide() {
        let interval = Interval { low: 1.0, high: 2.0, confidence: 0.95 };
        assert!(interval.wholly(|end| end > 0.5));
        assert!(!interval.wholly(|end| end > 1.5) && !interval.wholly(|end| end < 1.5));
    }
}
