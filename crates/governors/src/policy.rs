//! What a policy is: the CPUs that share a frequency, the frequencies there are, and the limits that hold.
//!
//! Follows `include/linux/cpufreq.h` (`cpufreq_frequency_table_target` and its helpers), 6.1 and 6.12.

use crate::driver::Driver;
use domain::units::Hertz;
use thiserror::Error;

/// How a wanted frequency becomes one of the table's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The lowest at or above it (`CPUFREQ_RELATION_L`).
    AtLeast,
    /// The highest at or below it (`CPUFREQ_RELATION_H`).
    AtMost,
    /// The closest; of two equally close ones that which comes later in the driver's table
    /// (`CPUFREQ_RELATION_C`): the higher one of a table that begins with the highest, as acpi-cpufreq's
    /// does, else the lower.
    Closest,
}

/// The frequencies that a driver offers; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrequencyTable {
    /// Lowest first.
    all: Vec<Hertz>,
    /// Whether the driver's own table begins with the highest (`CPUFREQ_TABLE_SORTED_DESCENDING`).
    highest_first: bool,
}

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
    /// From frequencies in the driver's order (as in `scaling_available_frequencies`), which decides between
    /// two that are equally close to a wanted one; doubles are one.
    ///
    /// # Errors
    /// Where there is none, or one is zero.
    pub fn new(mut frequencies: Vec<Hertz>) -> Result<Self, TableError> {
        let highest_first = frequencies.len() > 1 && frequencies.is_sorted_by(|a, b| a >= b);
        frequencies.sort_unstable();
        frequencies.dedup();
        match frequencies.first() {
            None => Err(TableError::Empty),
            Some(lowest) if lowest.khz() == 0 => Err(TableError::Zero),
            Some(_) => Ok(Self { all: frequencies, highest_first }),
        }
    }

    /// All, lowest first.
    pub fn all(&self) -> &[Hertz] {
        &self.all
    }

    /// The lowest.
    pub fn lowest(&self) -> Hertz {
        self.all[0]
    }

    /// The highest.
    pub fn highest(&self) -> Hertz {
        self.all[self.all.len() - 1]
    }

    /// The frequency of the table that a wanted one becomes between limits: the wanted one is clamped to them
    /// first, and what lies outside them is not chosen while anything lies inside.
    pub fn resolve(&self, wanted: Hertz, relation: Relation, min: Hertz, max: Hertz) -> Hertz {
        let wanted = wanted.min(max).max(min);
        let above = self.all.iter().copied().find(|f| *f >= wanted);
        let below = self.all.iter().copied().rev().find(|f| *f <= wanted);
        let chosen = match (relation, below, above) {
            (Relation::AtLeast, _, Some(above)) | (_, None, Some(above)) => above,
            (Relation::AtMost, Some(below), _) | (_, Some(below), None) => below,
            (Relation::Closest, Some(below), Some(above)) => {
                let (down, up) = (wanted.khz() - below.khz(), above.khz() - wanted.khz());
                let nearer_below = if self.highest_first { down < up } else { down <= up };
                if nearer_below { below } else { above }
            }
            (_, None, None) => unreachable!("a table has a frequency"),
        };
        let inside = |f: &Hertz| (min..=max).contains(f);
        if inside(&chosen) {
            return chosen;
        }
        let closest = |f: &&Hertz| f.khz().abs_diff(wanted.khz());
        self.all.iter().filter(|f| inside(f)).min_by_key(closest).copied().unwrap_or(chosen)
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
    /// Whether a request can be carried out in the scheduler's own context (`fast_switch_enabled`).
    pub fast_switch: bool,
    /// Whether the scheduler's utilisation is scaled by the frequency that a CPU ran at
    /// (`arch_scale_freq_invariant`): on x86 where there are APERF and MPERF, and in no virtual machine.
    pub frequency_invariant: bool,
    /// The driver, and what it makes of a request.
    pub driver: Driver,
}

impl Policy {
    /// What a wanted frequency becomes within the policy's limits.
    pub fn resolve(&self, wanted: Hertz, relation: Relation) -> Hertz {
        match &self.table {
            Some(table) => table.resolve(wanted, relation, self.min, self.max),
            None => wanted.min(self.max).max(self.min),
        }
    }

    /// What the driver makes of a wanted frequency: `None` where it is not asked, for the frequency is set
    /// already (`__cpufreq_driver_target`).
    pub(crate) fn request(&self, wanted: Hertz, relation: Relation) -> Option<Hertz> {
        let resolved = self.resolve(wanted, relation);
        let is_asked = resolved != self.current || self.driver.needs_update_limits();
        is_asked.then(|| self.driver.set(self, resolved, relation))
    }

    /// What the driver makes of a frequency in the scheduler's own context (`cpufreq_driver_fast_switch`).
    pub(crate) fn switch(&self, wanted: Hertz) -> Hertz {
        self.driver.set(self, wanted.min(self.max).max(self.min), Relation::AtLeast)
    }

    /// The request that brings the frequency back between changed limits (`cpufreq_policy_apply_limits`).
    pub(crate) fn apply_limits(&self) -> Option<Hertz> {
        if self.max < self.current {
            self.request(self.max, Relation::AtMost)
        } else if self.min > self.current {
            self.request(self.min, Relation::AtLeast)
        } else {
            None
        }
    }

    /// Whether CPUs share it (`policy_is_shared`).
    pub(crate) fn is_shared(&self) -> bool {
        self.cpus > 1
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
    fn of_two_equally_close_the_drivers_order_decides() {
        let (min, max) = (Hertz::from_mhz(350), Hertz::from_mhz(2800));
        let orders = [
            ([2800, 2100, 1400, 700, 350], 1400),
            ([350, 700, 1400, 2100, 2800], 700),
            ([2800, 350, 700, 1400, 2100], 700),
        ];
        for (order, expected) in orders {
            let table = FrequencyTable::new(order.map(Hertz::from_mhz).to_vec()).unwrap();
            let got = table.resolve(Hertz::from_mhz(1050), Relation::Closest, min, max);
            assert_eq!(got, Hertz::from_mhz(expected), "{order:?}");
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
