//! What the energy counters of a trace counted from its first row to its last, wraps included; where power
//! was sampled, its integral. Which columns these are, `domain::energy` says.
//!
//! Source: kernel `Documentation/power/powercap/powercap.rst`. RAPL counts in steps of about 1 ms, so that a
//! figure over less than a tenth of a second is rough. On servers a package does not include its memory; on
//! other machines it may.

use domain::energy::{EnergyAccount, EnergyColumns, EnergySource, ON_BATTERY, Part};
use domain::per_work::{ENERGY, ENERGY_CORE, ENERGY_DRAM, POWER, POWER_CORE, POWER_DRAM};
use domain::time::Nanos;
use domain::trace::{SeriesKind, TraceHead, growth};
use domain::units::Microjoules;

/// The parts whose energy is told, each with the names of its energy and of its power.
pub(crate) const PARTS: [(Part, &str, &str); 3] = [
    (Part::Whole, ENERGY, POWER),
    (Part::Cores, ENERGY_CORE, POWER_CORE),
    (Part::Memory, ENERGY_DRAM, POWER_DRAM),
];

/// Between two readings of power no more than this may lie, or two intervals and a half where that is longer:
/// nobody knows what was taken meanwhile. Power is read every two seconds at the least often.
const MAX_GAP: Nanos = Nanos::from_secs(5);

/// The columns of a trace's one source of energy.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    source: Option<EnergySource>,
    meters: Vec<Meter>,
    /// Where it is said whether the machine runs on battery.
    on_battery: Option<usize>,
    /// Why nothing is known any more, although no reading is missing.
    lost: Option<String>,
}

#[derive(Debug)]
struct Meter {
    part: Part,
    of: String,
    column: usize,
    register: Register,
}

#[derive(Debug)]
enum Register {
    Counter(Counter),
    Power(Power),
}

/// Energy that the machine counts.
#[derive(Debug, Default)]
struct Counter {
    wraps_at: Option<u64>,
    /// What it showed when it was read last.
    shown: Option<u64>,
    /// Since the first row; `None` once it is not known, because the counter was not there at first, or began
    /// anew.
    counted: Option<u64>,
    is_in_last_row: bool,
    is_begun: bool,
}

/// Power that is sampled: its integral by the trapezoidal rule, which takes it to change evenly from one
/// reading to the next.
#[derive(Debug, Default)]
struct Power {
    max_gap: Nanos,
    /// The last reading, in microwatts, and when it was.
    last: Option<(Nanos, u64)>,
    /// Twice the energy, in microwatts times nanoseconds.
    doubled: u128,
    readings: u64,
    /// Whether it was there at first, and no gap was too long since.
    is_known: bool,
    is_in_last_row: bool,
    is_begun: bool,
}

/// A row of a trace, of which some values are read, and others as they were known last.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) time: Nanos,
    /// What was known then.
    pub(crate) known: &'a [Option<u64>],
    /// What was read then.
    pub(crate) read: &'a [Option<u64>],
}

impl Meters {
    /// Those that a trace has.
    pub(crate) fn of(head: &TraceHead) -> Self {
        let names = head.series.iter().map(|series| series.name.as_str());
        let Some(EnergyColumns { source, columns }) = EnergyColumns::of(names.clone()) else {
            return Self::default();
        };
        let max_gap = MAX_GAP.max(Nanos::new(head.interval.get().saturating_mul(5) / 2));
        let meter = |(column, part, of): (usize, Part, String)| {
            let register = match head.series[column].kind {
                SeriesKind::Counter { wraps_at } => {
                    Register::Counter(Counter { wraps_at, ..Counter::default() })
                }
                SeriesKind::Gauge => Register::Power(Power { max_gap, ..Power::default() }),
            };
            Meter { part, of, column, register }
        };
        let meters = columns.into_iter().map(meter).collect();
        let on_battery = (source == EnergySource::Battery)
            .then(|| names.clone().position(|name| name == ON_BATTERY))
            .flatten();
        Self { source: Some(source), meters, on_battery, lost: None }
    }

    /// Takes in the next row.
    pub(crate) fn row(&mut self, row: Reading<'_>) {
        let value = |values: &[Option<u64>], column: usize| values.get(column).copied().flatten();
        if self.on_battery.is_some_and(|column| value(row.read, column) == Some(0)) && self.lost.is_none() {
            self.lost = Some(format!(
                "after {:.2} s the machine did not run on its batteries alone",
                row.time.secs()
            ));
        }
        for meter in &mut self.meters {
            match &mut meter.register {
                Register::Counter(counter) => counter.take(value(row.known, meter.column)),
                Register::Power(power) => power.take(row.time, value(row.read, meter.column)),
            }
        }
    }

    /// What all meters of such a part counted together; `None` where there is none, or where one of them was
    /// not read at the beginning or at the end, as that of a package whose CPUs went offline.
    pub(crate) fn counted(&self, part: Part) -> Option<Microjoules> {
        let mut of_part = self.meters.iter().filter(|meter| meter.part == part).peekable();
        of_part.peek()?;
        if self.lost.is_some() {
            return None;
        }
        let sum = of_part.try_fold(0_u64, |sum, meter| Some(sum.saturating_add(meter.counted()?)));
        sum.map(Microjoules::new)
    }

    /// By what the energy of the whole was measured; `None` where it is not known.
    pub(crate) fn account(&self) -> Option<EnergyAccount> {
        self.counted(Part::Whole)?;
        let whole = || self.meters.iter().filter(|meter| meter.part == Part::Whole);
        let readings = |meter: &Meter| match &meter.register {
            Register::Counter(_) => None,
            Register::Power(power) => Some(power.readings),
        };
        let of = whole().map(|meter| meter.of.clone()).collect();
        Some(EnergyAccount { source: self.source?, of, readings: whole().filter_map(readings).min() })
    }

    /// Why the energy of the whole is not known although there is a source of it, as the recorder says what
    /// it lacks.
    pub(crate) fn lack(&self) -> Option<String> {
        let source = self.source.filter(|_| self.counted(Part::Whole).is_none())?;
        let why = self.lost.clone().or_else(|| {
            let whole = self.meters.iter().filter(|meter| meter.part == Part::Whole);
            let lost = whole.into_iter().find(|meter| meter.counted().is_none())?;
            Some(format!("`{}` was not read from the beginning to the end, or began anew", lost.of))
        })?;
        Some(format!("no power and energy ({}): {why}", source.title()))
    }
}

impl Meter {
    /// In microjoules.
    fn counted(&self) -> Option<u64> {
        match &self.register {
            Register::Counter(counter) => counter.counted.filter(|_| counter.is_in_last_row),
            Register::Power(power) => power.counted(),
        }
    }
}

impl Counter {
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

impl Power {
    fn take(&mut self, now: Nanos, value: Option<u64>) {
        if !self.is_begun {
            self.is_begun = true;
            self.is_known = value.is_some();
        }
        self.is_in_last_row = value.is_some();
        let Some(value) = value else { return };
        if let Some((then, before)) = self.last {
            let span = now.saturating_sub(then);
            self.is_known &= span <= self.max_gap;
            let doubled = (u128::from(before) + u128::from(value)).saturating_mul(span.get().into());
            self.doubled = self.doubled.saturating_add(doubled);
        }
        self.last = Some((now, value));
        self.readings += 1;
    }

    fn counted(&self) -> Option<u64> {
        let microjoules = self.doubled / 2 / 1_000_000_000;
        u64::try_from(microjoules).ok().filter(|_| self.is_known && self.is_in_last_row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::Timestamp;
    use domain::trace::{FrequencySource, Series, SeriesUnit};

    /// The range of a Xeon's counter.
    const RANGE: u64 = 262_143_328_850;

    fn head(columns: &[(&str, SeriesKind)]) -> TraceHead {
        let series = |(name, kind): &(&str, SeriesKind)| Series {
            name: (*name).to_owned(),
            unit: SeriesUnit::Microjoules,
            kind: *kind,
        };
        TraceHead {
            series: columns.iter().map(series).collect(),
            interval: Nanos::from_millis(10),
            start: Timestamp::default(),
            frequency: FrequencySource::None,
        }
    }

    fn row(meters: &mut Meters, time: Nanos, values: &[Option<u64>]) {
        meters.row(Reading { time, known: values, read: values });
    }

    fn counted(columns: &[(&str, &[Option<u64>])], part: Part) -> Option<u64> {
        let names: Vec<String> = columns.iter().map(|(name, _)| format!("rapl.{name}.uj")).collect();
        let kind = SeriesKind::Counter { wraps_at: Some(RANGE) };
        let mut meters =
            Meters::of(&head(&names.iter().map(|name| (name.as_str(), kind)).collect::<Vec<_>>()));
        for at in 0..columns[0].1.len() {
            let values: Vec<Option<u64>> = columns.iter().map(|(_, column)| column[at]).collect();
            row(&mut meters, Nanos::from_secs(at as u64), &values);
        }
        meters.counted(part).map(Microjoules::get)
    }

    /// Rows of a power in microwatts, each with its second.
    fn sampled(rows: &[(f64, Option<u64>)]) -> Meters {
        let mut meters = Meters::of(&head(&[("hwmon.power_meter-0.power1.average_uw", SeriesKind::Gauge)]));
        for (second, value) in rows {
            row(&mut meters, Nanos::new((second * 1e9) as u64), &[*value]);
        }
        meters
    }

    #[test]
    fn sampled_power_is_integrated_between_its_readings_by_the_trapezoidal_rule() {
        // 10 W rising to 30 W within 2 s, and 30 W for 1 s: 40 J and 30 J.
        let watts = |watts: u64| Some(watts * 1_000_000);
        let meters = sampled(&[(0.0, watts(10)), (0.5, None), (2.0, watts(30)), (3.0, watts(30))]);
        assert_eq!(meters.counted(Part::Whole).map(Microjoules::get), Some(70_000_000));
        let account = meters.account().unwrap();
        assert_eq!(account.in_words(), "hwmon, power_meter-0.power1: sampled power, 3 readings");
        assert_eq!(meters.lack(), None);
        assert_eq!(sampled(&[(0.0, watts(10))]).counted(Part::Whole).map(Microjoules::get), Some(0));
    }

    #[test]
    fn power_that_was_not_read_for_long_or_at_an_end_is_no_energy() {
        let some = Some(1_000_000);
        for rows in [
            &[(0.0, None), (1.0, some), (2.0, some)][..],
            &[(0.0, some), (1.0, some), (2.0, None)],
            &[(0.0, some), (5.1, some)],
        ] {
            let meters = sampled(rows);
            assert_eq!((meters.counted(Part::Whole), meters.account()), (None, None), "{rows:?}");
            assert!(meters.lack().unwrap().contains("`power_meter-0.power1` was not read"), "{rows:?}");
        }
        assert!(sampled(&[(0.0, some), (5.0, some)]).counted(Part::Whole).is_some());
    }

    #[test]
    fn what_a_battery_delivers_counts_only_while_the_machine_runs_on_it_throughout() {
        let columns = [(ON_BATTERY, SeriesKind::Gauge), ("battery.BAT0.uw", SeriesKind::Gauge)];
        let of = |rows: &[[Option<u64>; 2]]| {
            let mut meters = Meters::of(&head(&columns));
            for (second, values) in rows.iter().enumerate() {
                row(&mut meters, Nanos::from_secs(second as u64), values);
            }
            (meters.counted(Part::Whole).map(Microjoules::get), meters.lack())
        };
        let on = [Some(1), Some(8_000_000)];
        assert_eq!(of(&[on, on, on]), (Some(16_000_000), None));
        let why =
            "no power and energy (battery): after 1.00 s the machine did not run on its batteries alone";
        assert_eq!(of(&[on, [Some(0), None], on]), (None, Some(why.to_owned())));
    }

    #[test]
    fn a_counter_that_wraps_goes_on_as_often_as_it_does() {
        let near = Some(RANGE - 100);
        let middle = Some(RANGE / 2);
        let column = [near, Some(50), middle, near, Some(200)];
        assert_eq!(counted(&[("package-0", &column)], Part::Whole), Some(RANGE + 300));
    }

    #[test]
    fn a_sample_that_is_missing_takes_nothing_away() {
        let column = [Some(RANGE - 7), None, None, Some(3), None, Some(13)];
        assert_eq!(counted(&[("package-0", &column)], Part::Whole), Some(20));
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
            assert_eq!(counted(&columns, Part::Whole), None, "{part:?}");
        }
        assert_eq!(counted(&[("package-0", &[])], Part::Whole), None);
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
        assert_eq!(counted(&columns, Part::Whole), Some(110));
        assert_eq!(counted(&columns, Part::Cores), Some(66));
        assert_eq!(counted(&columns, Part::Memory), Some(30));
        assert_eq!(counted(&columns[..1], Part::Memory), None, "none, which is not zero");
    }
}
