//! What batteries deliver while the machine runs on them, where neither RAPL nor hwmon shows its energy
//! (kernel `Documentation/ABI/testing/sysfs-class-power`).
//!
//! All files of all supplies are one source, read at one sample: the power of a battery means what its state
//! and that of the mains say. A reading asks the firmware, and its answer is often a second old, or more.
//! What a battery holds (`energy_now`, `charge_now`) is not read: it is told in steps of some joules to some
//! ten.

use super::{Format, Group, Take, Tree, gauge, rest};
use crate::recorder::Roots;
use crate::texts::{Sources, every};
use domain::Nanos;
use domain::energy::{BatteryShows, DISCHARGING, EnergySource, ON_BATTERY, SupplyKind, discharging};
use domain::trace::{Series, SeriesUnit};
use parse::kernel::power::{self, SUPPLIES};
use parse::proc::{Error, signed};
use std::path::PathBuf;

pub const GROUP: Group = Group { formats: &[&Supplies], open };

/// What is behind its name in a spool are the batteries. In its text each line is a supply, a file's name and
/// what the file holds.
struct Supplies;

/// They are read no more often than this: ACPI keeps an answer for a second (`cache_time` of
/// drivers/acpi/battery.c).
const PERIOD: Nanos = Nanos::from_secs(1);

fn open(sources: &mut Sources, roots: &Roots, interval: Nanos) -> crate::Result<()> {
    let all = power::supplies(&Tree(&roots.sys));
    let is_battery = |kind: &SupplyKind| matches!(kind, SupplyKind::Battery { .. });
    let batteries: Vec<&str> =
        all.iter().filter(|supply| is_battery(&supply.kind)).map(|supply| supply.name.as_str()).collect();
    if batteries.is_empty() {
        return Ok(());
    }
    if let Some(source) = sources.energy {
        let (named, source) = (batteries.join("`, `"), source.title());
        sources.absent.push(format!("no power of the battery `{named}`: {source} shows the energy"));
        return Ok(());
    }
    if let Err(why) = discharging(&all) {
        sources.absent.push(format!("no power of a battery: {why}"));
        return Ok(());
    }
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    for supply in &all {
        let named: &[&str] = match &supply.kind {
            SupplyKind::Outside { .. } => &["online"],
            SupplyKind::Battery { shows: Some(BatteryShows::Power), .. } => &["status", "power_now"],
            SupplyKind::Battery { .. } => &["status", "current_now", "voltage_now"],
        };
        let path = |file: &str| roots.sys.join(SUPPLIES).join(&supply.name).join(file);
        files.extend(named.iter().map(|file| (format!("{} {file} ", supply.name), path(file))));
    }
    let paths: Vec<_> = files.iter().map(|(_, path)| path.as_path()).collect();
    let turn = every(files.len(), interval, rest(&paths, PERIOD));
    match sources.add_together(&Supplies, batteries.join(" "), &files, turn) {
        Ok(()) => sources.energy = Some(EnergySource::Battery),
        Err((path, error)) => {
            sources.absent.push(format!("no power of a battery: `{}`: {error}", path.display()))
        }
    }
    Ok(())
}

impl Format for Supplies {
    fn name(&self) -> &'static str {
        "battery"
    }

    fn takes(&self, argument: &str) -> bool {
        !argument.is_empty()
    }

    fn series(&self, argument: &str, _: &str) -> Vec<Series> {
        let of_battery = |name| gauge(format!("battery.{name}.uw"), SeriesUnit::Microwatts);
        let state = gauge(ON_BATTERY.to_owned(), SeriesUnit::Count);
        std::iter::once(state).chain(argument.split(' ').map(of_battery)).collect()
    }

    /// Whether the machine runs on its batteries alone, and what each delivers then: one that does not
    /// discharge has to deliver nothing.
    fn values(&self, argument: &str, bytes: &[u8], take: &mut Take<'_>) -> Result<(), Error> {
        let text = String::from_utf8_lossy(bytes);
        let of = |supply: &str, file: &str| {
            let line = |line: &str| {
                let (name, rest) = line.split_once(' ')?;
                let (of, value) = rest.split_once(' ')?;
                (name == supply && of == file).then(|| value.trim().to_owned())
            };
            text.lines().find_map(line)
        };
        let number = |supply: &str, file: &'static str| match of(supply, file) {
            // The sign says whether it charges, with some drivers.
            Some(value) => signed(file, &value).map(|number| Some(number.unsigned_abs())),
            None => Ok(None),
        };
        let mut watts = Vec::new();
        let (mut delivers, mut is_alone) = (false, true);
        for line in text.lines() {
            let mut words = line.splitn(3, ' ').skip(1);
            is_alone &= words.next() != Some("online") || words.next().map(str::trim) == Some("0");
        }
        for battery in argument.split(' ') {
            let power = match (number(battery, "power_now")?, number(battery, "current_now")?) {
                (Some(power), _) => Some(power),
                // Microamperes by microvolts are picowatts.
                (None, Some(current)) => number(battery, "voltage_now")?.and_then(|voltage| {
                    u64::try_from(u128::from(current) * u128::from(voltage) / 1_000_000).ok()
                }),
                (None, None) => None,
            };
            let discharges = of(battery, "status").as_deref() == Some(DISCHARGING);
            delivers |= discharges;
            is_alone &= discharges || power == Some(0);
            watts.push(power);
        }
        let is_on_battery = delivers && is_alone;
        take("", 0, is_on_battery.into());
        for (field, power) in watts.into_iter().enumerate().filter(|_| is_on_battery) {
            power.into_iter().for_each(|power| take("", field + 1, power));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::values;
    use super::*;

    fn read(argument: &str, text: &str) -> Vec<(usize, u64)> {
        values(&Supplies, argument, text.as_bytes())
            .into_iter()
            .map(|(_, field, value)| (field, value))
            .collect()
    }

    #[test]
    fn power_is_told_or_follows_from_current_and_voltage_whatever_its_sign() {
        let told = "AC online 0\nBAT0 status Discharging\nBAT0 power_now 11543000\n";
        assert_eq!(read("BAT0", told), [(0, 1), (1, 11_543_000)]);
        let follows = "BAT0 status Discharging\nBAT0 current_now -1500000\nBAT0 voltage_now 12000000\n";
        assert_eq!(read("BAT0", follows), [(0, 1), (1, 18_000_000)]);
    }

    #[test]
    fn nothing_is_told_of_a_battery_that_does_not_supply_the_machine_alone() {
        let of = |status: &str, online: u8| {
            read("BAT0", &format!("AC online {online}\nBAT0 status {status}\nBAT0 power_now 5\n"))
        };
        assert_eq!(of(DISCHARGING, 0), [(0, 1), (1, 5)]);
        for (status, online) in
            [(DISCHARGING, 1), ("Charging", 1), ("Charging", 0), ("Full", 0), ("Unknown", 0)]
        {
            assert_eq!(of(status, online), [(0, 0)], "{status} {online}");
        }
    }

    #[test]
    fn a_second_battery_delivers_nothing_while_the_first_does() {
        let of = |power: u32| {
            let second = format!("BAT1 status Unknown\nBAT1 power_now {power}\n");
            read("BAT0 BAT1", &format!("BAT0 status Discharging\nBAT0 power_now 9\n{second}"))
        };
        assert_eq!(of(0), [(0, 1), (1, 9), (2, 0)]);
        assert_eq!(of(3), [(0, 0)], "nobody knows which of the two this is");
    }

    #[test]
    fn what_is_no_number_is_an_error() {
        let text = b"BAT0 status Discharging\nBAT0 power_now much\n";
        assert!(Supplies.values("BAT0", text, &mut |_, _, _| {}).is_err());
    }
}
