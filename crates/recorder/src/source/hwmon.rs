//! Sensors of hwmon that count energy or show power, where no package is counted by RAPL (kernel
//! `Documentation/hwmon/sysfs-interface.rst`). Which of them stands for the machine, `domain::energy` says;
//! the others are not read, for a reading costs time on a bus and can wake a device.

use super::{Format, Group, Take, Tree, counter, gauge, rest};
use crate::recorder::Roots;
use crate::texts::{Sources, every};
use domain::Nanos;
use domain::energy::{PowerSensor, SensorKind, chosen};
use domain::trace::{Series, SeriesUnit};
use parse::kernel::power;
use parse::proc::{Error, number};

pub const GROUP: Group = Group { formats: &[&ENERGY, &AVERAGE, &INPUT], open };

/// A kind of attribute; what is behind its name in a spool are the chip and the sensor.
struct Attribute {
    name: &'static str,
    kind: SensorKind,
}

const ENERGY: Attribute = Attribute { name: "hwmon-energy", kind: SensorKind::Energy };
const AVERAGE: Attribute = Attribute { name: "hwmon-power-average", kind: SensorKind::PowerAverage };
const INPUT: Attribute = Attribute { name: "hwmon-power", kind: SensorKind::PowerInput };

/// They are read no more often than this: chips measure some ten times a second, many once.
const PERIOD: Nanos = Nanos::from_millis(100);

fn open(sources: &mut Sources, roots: &Roots, interval: Nanos) -> crate::Result<()> {
    let sensors = power::sensors(&Tree(&roots.sys));
    if sensors.is_empty() {
        return Ok(());
    }
    if let Some(source) = sources.energy {
        let named: Vec<String> = sensors.iter().map(|sensor| format!("`{}`", sensor.in_words())).collect();
        let (named, source) = (named.join(", "), source.title());
        sources.absent.push(format!("no readings of hwmon's {named}: {source} shows the energy"));
        return Ok(());
    }
    match chosen(&sensors) {
        Ok((source, taken)) => {
            let added =
                taken.iter().filter(|sensor| add(sources, roots, interval, taken.len(), sensor)).count();
            // A sum without one of its sockets would be another machine's.
            if added == taken.len() {
                sources.energy = Some(source);
            }
        }
        Err(why) => sources.absent.push(format!("no power by hwmon: {why}")),
    }
    Ok(())
}

/// Whether it can be read.
fn add(sources: &mut Sources, roots: &Roots, interval: Nanos, files: usize, sensor: &PowerSensor) -> bool {
    let format = match sensor.kind {
        SensorKind::Energy => &ENERGY,
        SensorKind::PowerAverage => &AVERAGE,
        SensorKind::PowerInput => &INPUT,
    };
    let path = roots.sys.join(&sensor.file);
    let argument = format!("{} {}", sensor.chip, sensor.name);
    let turn = every(files, interval, rest(&[&path], PERIOD));
    match sources.add(format, argument, &path, turn) {
        Ok(()) => true,
        Err(error) => {
            sources.absent.push(format!(
                "no power of `{}`: `{}`: {error}",
                sensor.in_words(),
                path.display()
            ));
            false
        }
    }
}

impl Format for Attribute {
    fn name(&self) -> &'static str {
        self.name
    }

    fn takes(&self, argument: &str) -> bool {
        argument.split_once(' ').is_some_and(|(chip, sensor)| !chip.is_empty() && !sensor.is_empty())
    }

    fn series(&self, argument: &str, _: &str) -> Vec<Series> {
        let (chip, sensor) = argument.split_once(' ').unwrap_or((argument, ""));
        let of = |quantity: &str| format!("hwmon.{chip}.{sensor}.{quantity}");
        vec![match self.kind {
            SensorKind::Energy => counter(of("uj"), SeriesUnit::Microjoules, None),
            SensorKind::PowerAverage => gauge(of("average_uw"), SeriesUnit::Microwatts),
            SensorKind::PowerInput => gauge(of("uw"), SeriesUnit::Microwatts),
        }]
    }

    fn values(&self, _: &str, bytes: &[u8], take: &mut Take<'_>) -> Result<(), Error> {
        take("", 0, number(self.name, &String::from_utf8_lossy(bytes))?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::values;
    use super::*;

    #[test]
    fn a_column_is_named_by_chip_and_sensor_and_says_whether_it_is_an_average() {
        let names = [&ENERGY, &AVERAGE, &INPUT].map(|format| {
            let series = format.series("macsmc_hwmon-0 Total System Power", "").swap_remove(0);
            (series.name, series.unit)
        });
        let of = |quantity: &str, unit| (format!("hwmon.macsmc_hwmon-0.Total System Power.{quantity}"), unit);
        let watts = SeriesUnit::Microwatts;
        assert_eq!(names, [of("uj", SeriesUnit::Microjoules), of("average_uw", watts), of("uw", watts)]);
        assert_eq!(values(&INPUT, "a-0 power1", b"12500000\n"), [(String::new(), 0, 12_500_000)]);
    }

    #[test]
    fn what_is_no_number_is_an_error() {
        assert!(INPUT.values("a-0 power1", b"-5\n", &mut |_, _, _| {}).is_err());
    }
}
