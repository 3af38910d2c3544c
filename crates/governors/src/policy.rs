//! What a policy is: the CPUs that share a frequency, the frequencies there are, and the limits that hold.
//!
//! Follows `include/linux/cpufreq.h` (`cpufreq_frequency_table_target` and its helpers), 6.1 and 6.12.

use domain::units::Hertz;
use thiserror::Error;

/// How a wanted frequency becomes one of the table's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The lowest at or above it (`CPUFREQ_RELATION_L`).
    AtLeast,
    /// The highest at or below it (`CPUFREQ_RELATION_H`).
    AtMost,
    /// The closest; of two equally close ones the lower (`CPUFREQ_RELATION_C`).
    Closest,
}

/// The frequencies that a driver offers, lowest first; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrequencyTable(Vec<Hertz>);

/// Why frequencies make no table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    /// There is none.
    #[error("a frequency table without a frequency")]
    Empty,
    /// One is zero.
    #[error("a frequency of zero in a frequency table")]
    Zero,
}

impl FrequencyTable {
    /// From frequencies in any order; doubles are one.
    ///
    /// # Errors
    /// Where there is none, or one is zero.
    pub fn new(mut frequencies: Vec<Hertz>) -> Result<Self, TableError> {
        frequencies.sort_unstable();
        frequencies.dedup();
        match frequencies.first() {
            None => Err(TableError::Empty),
            Some(lowest) if lowest.khz() == 0 => Err(TableError::Zero),
            Some(_) => Ok(Self(frequencies)),
        }
    }

    /// All, lowest first.
    pub fn all(&self) -> &[Hertz] {
        &self.0
    }

    /// The lowest.
    pub fn lowest(&self) -> Hertz {
        self.0[0]
    }

    /// The highest.
    pub fn highest(&self) -> Hertz {
        self.0[self.0.len() - 1]
    }

    /// The frequency of the table that a wanted one becomes between limits: the wanted one is clamped to them first, and
    /// what lies outside them is not chosen while anything lies inside.
    pub fn resolve(&self, wanted: Hertz, relation: Relation, min: Hertz, max: Hertz) -> Hertz {
        let wanted = wanted.min(max).max(min);
        let above = self.0.iter().copied().find(|f| *f >= wanted);
        let below = self.0.iter().copied().rev().find(|f| *f <= wanted);
        let chosen = match (relation, below, above) {
            (Relation::AtLeast, _, Some(above)) | (_, None, Some(above)) => above,
            (Relation::AtMost, Some(below), _) | (_, Some(below), None) => below,
            (Relation::Closest, Some(below), Some(above)) => {
                if wanted.khz() - below.khz() <= above.khz() - wanted.khz() { below } else { above }
            }
            (_, None, None) => unreachable!("a table has a frequency"),
        };
        let inside = |f: &Hertz| (min..=max).contains(f);
        if inside(&chosen) {
            return chosen;
        }
        let closest = |f: &&Hertz| f.khz().abs_diff(wanted.khz());
        self.0.iter().filter(|f| inside(f)).min_by_key(closest).copied().unwrap_or(chosen)
    }
}

/// What a governor knows of its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// CPUs that share the frequency; at least 1.
    pub cpus: usize,
    /// The frequencies, where the driver has a table.
    pub table: Option<FrequencyTable>,
    /// `cpuinfo_min_freq`.
    pub hardware_min: Hertz,
    /// `cpuinfo_max_freq`.
    pub hardware_max: Hertz,
    /// `scaling_min_freq`.
    pub min: Hertz,
    /// `scaling_max_freq`.
    pub max: Hertz,
    /// The frequency that was last requested, or what the policy began with.
    pub current: Hertz,
    /// `cpuinfo_transition_latency`, in nanoseconds.
    pub transition_latency_ns: u64,
    /// Whether a request can be carried out in the scheduler's own context (`fast_switch_possible`).
    pub fast_switch: bool,
}

impl Policy {
    /// What a wanted frequency becomes within the policy's limits.
    pub fn resolve(&self, wanted: Hertz, relation: Relation) -> Hertz {
        match &self.table {
            Some(table) => table.resolve(wanted, relation, self.min, self.max),
            None => wanted.min(self.max).max(self.min),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> FrequencyTable {
        FrequencyTable::new([2800, 350, 700, 1400, 2100].map(Hertz::from_mhz).to_vec()).unwrap()
    }

    #[test]
    fn a_wanted_frequency_becomes_one_of_the_table() {
        let (min, max) = (Hertz::from_mhz(350), Hertz::from_mhz(2800));
        let cases = [
            (1000, Relation::AtLeast, 1400),
            (1000, Relation::AtMost, 700),
            (1050, Relation::Closest, 700),
            (1051, Relation::Closest, 1400),
            (9000, Relation::AtLeast, 2800),
            (1, Relation::AtMost, 350),
        ];
        for (wanted, relation, expected) in cases {
            let got = table().resolve(Hertz::from_mhz(wanted), relation, min, max);
            assert_eq!(got, Hertz::from_mhz(expected), "{wanted} {relation:?}");
        }
    }

    #[test]
    fn limits_hold_and_a_limit_between_two_states_allows_the_one_inside() {
        let limits = (Hertz::from_mhz(600), Hertz::from_mhz(2000));
        let got = |wanted, relation| table().resolve(Hertz::from_mhz(wanted), relation, limits.0, limits.1);
        assert_eq!(got(9000, Relation::AtLeast), Hertz::from_mhz(1400));
        assert_eq!(got(100, Relation::AtMost), Hertz::from_mhz(700));
    }

    #[test]
    fn no_table_is_made_of_nothing() {
        assert_eq!(FrequencyTable::new(vec![]), Err(TableError::Empty));
        assert_eq!(FrequencyTable::new(vec![Hertz::from_khz(0)]), Err(TableError::Zero));
    }
}
