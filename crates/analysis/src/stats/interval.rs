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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_decide() {
        let interval = Interval { low: 1.0, high: 2.0, confidence: 0.95 };
        assert!(interval.wholly(|end| end > 0.5));
        assert!(!interval.wholly(|end| end > 1.5) && !interval.wholly(|end| end < 1.5));
    }
}
