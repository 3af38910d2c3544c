//! What the energy counters of a trace counted from its first row to its last, wraps included.
//!
//! Source: kernel `Documentation/power/powercap/powercap.rst`. RAPL counts in steps of about 1 ms, so that a
//! figure over less than a tenth of a second is rough. On servers a package does not include its memory; on
//! other machines it may.

use domain::per_work::{ENERGY, ENERGY_CORE, ENERGY_DRAM, POWER, POWER_CORE, POWER_DRAM};
use domain::trace::{SeriesKind, TraceHead, growth};
use domain::units::Microjoules;

/// What a RAPL domain is of. A part of a package that is neither cores nor memory, and the platform as a
/// whole (`psys`), which contains packages, are not summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    /// A whole processor, or a die of it.
    Package,
    /// The cores of one.
    Core,
    /// The memory at one.
    Dram,
}

impl Domain {
    pub(crate) const ALL: [Self; 3] = [Self::Package, Self::Core, Self::Dram];

    /// The names of its energy and of its power.
    pub(crate) const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Package => (ENERGY, POWER),
            Self::Core => (ENERGY_CORE, POWER_CORE),
            Self::Dram => (ENERGY_DRAM, POWER_DRAM),
        }
    }

    /// By the column's name: `rapl.package-0.uj`, `rapl.package-0.dram.uj`.
    fn of(column: &str) -> Option<Self> {
        let zone = column.strip_prefix("rapl.")?.strip_suffix(".uj")?;
        match zone.rsplit_once('.') {
            None => zone.starts_with("package").then_some(Self::Package),
            Some((_, "core")) => Some(Self::Core),
            Some((_, "dram")) => Some(Self::Dram),
            Some(_) => None,
        }
    }
}

/// All counters of a trace.
#[derive(Debug, Default)]
pub(crate) struct Meters(Vec<Meter>);

#[derive(Debug)]
struct Meter {
    domain: Domain,
    column: usize,
    wraps_at: Option<u64>,
    /// What it showed when it was read last.
    shown: Option<u64>,
    /// Since the first row; `None` once it is not known, because the counter was not there at first, or began
    /// anew.
    counted: Option<u64>,
    is_in_last_row: bool,
    is_begun: bool,
}

impl Meters {
    /// Those that a trace has.
    pub(crate) fn of(head: &TraceHead) -> Self {
        let meter = |(column, series): (usize, &domain::trace::Series)| {
            let wraps_at = match series.kind {
                SeriesKind::Counter { wraps_at } => wraps_at,
                SeriesKind::Gauge => return None,
            };
            let domain = Domain::of(&series.name)?;
            let (shown, counted) = (None, None);
            Some(Meter { domain, column, wraps_at, shown, counted, is_in_last_row: false, is_begun: false })
        };
        Self(head.series.iter().enumerate().filter_map(meter).collect())
    }

    /// Takes in the next row.
    pub(crate) fn row(&mut self, values: &[Option<u64>]) {
        for meter in &mut self.0 {
            meter.take(values.get(meter.column).copied().flatten());
        }
    }

    /// What all counters of such a domain counted together; `None` where there is none, or where one of them
    /// was not read at the beginning or at the end, as that of a package whose CPUs went offline.
    pub(crate) fn counted(&self, domain: Domain) -> Option<Microjoules> {
        let mut of_domain = self.0.iter().filter(|meter| meter.domain == domain).peekable();
        of_domain.peek()?;
        let sum: Option<u64> = of_domain.map(|meter| meter.counted.filter(|_| meter.is_in_last_row)).sum();
        sum.map(Microjoules::new)
    }
}

impl Meter {
    fn take(&mut self, value: Option<u64>) {
        if !self.is_begun {
            self.is_begun = true;
            self.counted = value.map(|_| 0);
        }
        self.is_in_last_row = value.is_some();
        let Some(value) = value else { return };
        if let (Some(before), Some(counted)) = (self.shown, self.counted) {
            // A range is hours of work, so that a sample that is missing hides no wrap.
            self.counted = growth(before, value, self.wraps_at).map(|grown| counted.saturating_add(grown));
        }
        self.shown = Some(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::trace::{FrequencySource, Series, SeriesUnit};
    use domain::{Nanos, Timestamp};

    /// The range of a Xeon's counter.
    const RANGE: u64 = 262_143_328_850;

    fn counted(columns: &[(&str, &[Option<u64>])], domain: Domain) -> Option<u64> {
        let series = |(name, _): &(&str, &[Option<u64>])| Series {
            name: format!("rapl.{name}.uj"),
            unit: SeriesUnit::Microjoules,
            kind: SeriesKind::Counter { wraps_at: Some(RANGE) },
        };
        let mut meters = Meters::of(&TraceHead {
            series: columns.iter().map(series).collect(),
            interval: Nanos::from_millis(10),
            start: Timestamp::default(),
            frequency: FrequencySource::None,
        });
        for row in 0..columns[0].1.len() {
            meters.row(&columns.iter().map(|(_, column)| column[row]).collect::<Vec<_>>());
        }
        meters.counted(domain).map(Microjoules::get)
    }

    #[test]
    fn a_counter_that_wraps_goes_on_as_often_as_it_does() {
        let near = Some(RANGE - 100);
        let middle = Some(RANGE / 2);
        let column = [near, Some(50), middle, near, Some(200)];
        assert_eq!(counted(&[("package-0", &column)], Domain::Package), Some(RANGE + 300));
    }

    #[test]
    fn a_sample_that_is_missing_takes_nothing_away() {
        let column = [Some(RANGE - 7), None, None, Some(3), None, Some(13)];
        assert_eq!(counted(&[("package-0", &column)], Domain::Package), Some(20));
    }

    #[test]
    fn what_is_not_known_from_beginning_to_end_is_not_known() {
        let whole = [Some(0), Some(5), Some(10)];
        for part in [
            [None, Some(5), Some(10)],
            // The last CPU of the package went offline.
            [Some(0), Some(5), None],
            [Some(90), Some(95), Some(3)],
        ] {
            let columns: [(&str, &[Option<u64>]); 2] = [("package-0", &whole), ("package-1", &part)];
            assert_eq!(counted(&columns, Domain::Package), None, "{part:?}");
        }
        assert_eq!(counted(&[("package-0", &[])], Domain::Package), None);
    }

    #[test]
    fn packages_cores_and_memory_are_summed_apart() {
        let columns: [(&str, &[Option<u64>]); 7] = [
            ("package-0", &[Some(0), Some(100)]),
            ("package-1-die-0", &[Some(0), Some(10)]),
            ("package-0.core", &[Some(0), Some(60)]),
            ("package-1-die-0.core", &[Some(0), Some(6)]),
            ("package-0.uncore", &[Some(0), Some(5)]),
            ("package-0.dram", &[Some(0), Some(30)]),
            ("psys", &[Some(0), Some(900)]),
        ];
        assert_eq!(counted(&columns, Domain::Package), Some(110));
        assert_eq!(counted(&columns, Domain::Core), Some(66));
        assert_eq!(counted(&columns, Domain::Dram), Some(30));
        assert_eq!(counted(&columns[..1], Domain::Dram), None, "none, which is not zero");
    }
}
