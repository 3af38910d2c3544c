//! Which sensors of energy and power, and which power supplies, a tree of sysfs shows.
//!
//! No sensor's value is read: that can wake a device. Source: kernel
//! `Documentation/hwmon/sysfs-interface.rst`, `Documentation/ABI/testing/sysfs-class-power`.

use domain::energy::{BatteryShows, PowerSensor, SensorKind, Supply, SupplyKind};
use std::collections::{BTreeMap, BTreeSet};

/// A tree of sysfs, by paths below `/sys`.
pub trait Tree {
    /// The names in a folder; none where there is no such folder.
    fn names(&self, folder: &str) -> Vec<String>;
    /// A file's text; `None` where it cannot be read.
    fn text(&self, path: &str) -> Option<String>;
}

/// Where sensors are.
const HWMON: &str = "class/hwmon";

/// Where power supplies are.
pub const SUPPLIES: &str = "class/power_supply";

/// The sensors of energy and power, by chip. Those that hwmon shows of power supplies are left out:
/// [`supplies`] has these.
pub fn sensors(tree: &impl Tree) -> Vec<PowerSensor> {
    let mut numbers: Vec<u32> =
        tree.names(HWMON).iter().filter_map(|name| name.strip_prefix("hwmon")?.parse().ok()).collect();
    numbers.sort_unstable();
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut sensors = Vec::new();
    for number in numbers {
        let folder = format!("{HWMON}/hwmon{number}");
        let Some(chip) = tree.text(&format!("{folder}/name")) else { continue };
        let is_supply =
            tree.text(&format!("{folder}/device/type")).is_some_and(|text| kind_of(&text).is_some());
        let chip = in_name(&chip);
        let count = seen.entry(chip.clone()).or_default();
        let named = format!("{chip}-{count}");
        *count += 1;
        if !is_supply {
            sensors.extend(of_chip(tree, &folder, &named));
        }
    }
    sensors
}

fn of_chip(tree: &impl Tree, folder: &str, chip: &str) -> Vec<PowerSensor> {
    let files: BTreeSet<String> = tree.names(folder).into_iter().collect();
    let numbered = |prefix: &str, suffix: &str| {
        let number = |name: &String| name.strip_prefix(prefix)?.strip_suffix(suffix)?.parse::<u32>().ok();
        files.iter().filter_map(number).collect::<BTreeSet<u32>>()
    };
    let (average, input) = (numbered("power", "_average"), numbered("power", "_input"));
    let energy = numbered("energy", "_input");
    let of_energy = energy.iter().map(|n| (format!("energy{n}"), "input", SensorKind::Energy));
    let of_power = average.union(&input).map(|n| match average.contains(n) {
        true => (format!("power{n}"), "average", SensorKind::PowerAverage),
        false => (format!("power{n}"), "input", SensorKind::PowerInput),
    });
    let mut names = BTreeSet::new();
    let sensor = |(stem, attribute, kind): (String, &str, SensorKind)| {
        let label = tree.text(&format!("{folder}/{stem}_label")).map(|label| in_name(&label));
        let label = label.filter(|label| !label.is_empty()).unwrap_or_else(|| stem.clone());
        // Two of a chip may have one label.
        let is_new = names.insert((kind, label.clone()));
        let name = if is_new { label } else { format!("{label} {stem}") };
        PowerSensor { chip: chip.to_owned(), name, kind, file: format!("{folder}/{stem}_{attribute}") }
    };
    of_energy.chain(of_power).map(sensor).collect()
}

/// As a part of a column's name, whose parts have dots between them.
fn in_name(text: &str) -> String {
    let plain = |c: char| if c == '.' || c.is_control() { '_' } else { c };
    text.trim().chars().map(plain).collect()
}

/// The machine's power supplies, by name. What belongs to a device at it (`scope`), and a UPS, are none of
/// them.
pub fn supplies(tree: &impl Tree) -> Vec<Supply> {
    let mut names = tree.names(SUPPLIES);
    names.sort();
    let supply = |name: String| {
        let text =
            |file: &str| tree.text(&format!("{SUPPLIES}/{name}/{file}")).map(|text| text.trim().to_owned());
        if text("scope").as_deref() == Some("Device") || name.contains(char::is_whitespace) {
            return None;
        }
        let files = tree.names(&format!("{SUPPLIES}/{name}"));
        let has = |file: &str| files.iter().any(|known| known == file);
        let shows = match (has("power_now"), has("current_now") && has("voltage_now")) {
            (true, _) => Some(BatteryShows::Power),
            (false, true) => Some(BatteryShows::CurrentAndVoltage),
            (false, false) => None,
        };
        let kind = match kind_of(&text("type")?)? {
            Kind::Battery => SupplyKind::Battery { status: text("status")?, shows },
            // 1 is fixed, 2 is programmable; what has no such file supplies nothing.
            Kind::Outside => SupplyKind::Outside { online: text("online")? != "0" },
        };
        Some(Supply { name, kind })
    };
    names.into_iter().filter_map(supply).collect()
}

enum Kind {
    Battery,
    Outside,
}

/// By `type`.
fn kind_of(text: &str) -> Option<Kind> {
    match text.trim() {
        "Battery" => Some(Kind::Battery),
        "Mains" | "Wireless" => Some(Kind::Outside),
        usb if usb.starts_with("USB") => Some(Kind::Outside),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files by their paths.
    struct Files(BTreeMap<&'static str, &'static str>);

    impl Tree for Files {
        fn names(&self, folder: &str) -> Vec<String> {
            let below = |path: &&'static str| {
                let rest = path.strip_prefix(folder)?.strip_prefix('/')?;
                rest.split('/').next().map(str::to_owned)
            };
            self.0.keys().filter_map(below).collect::<BTreeSet<_>>().into_iter().collect()
        }

        fn text(&self, path: &str) -> Option<String> {
            self.0.get(path).map(|text| (*text).to_owned())
        }
    }

    #[test]
    fn sensors_are_named_by_chip_and_label_and_averages_go_before_single_readings() {
        let tree = Files(
            [
                ("class/hwmon/hwmon10/name", "power_meter\n"),
                ("class/hwmon/hwmon10/power1_average", "1\n"),
                ("class/hwmon/hwmon10/power1_average_interval", "1000\n"),
                ("class/hwmon/hwmon2/name", "ina226\n"),
                ("class/hwmon/hwmon2/power1_input", "1\n"),
                ("class/hwmon/hwmon2/power1_label", "3.3 V\n"),
                ("class/hwmon/hwmon2/power2_input", "1\n"),
                ("class/hwmon/hwmon2/power2_label", "3.3 V\n"),
                ("class/hwmon/hwmon3/name", "power_meter\n"),
                ("class/hwmon/hwmon3/power1_average", "1\n"),
                ("class/hwmon/hwmon3/power1_input", "1\n"),
                ("class/hwmon/hwmon4/name", "amd_energy\n"),
                ("class/hwmon/hwmon4/energy1_input", "1\n"),
                ("class/hwmon/hwmon4/energy1_label", "Esocket0\n"),
                ("class/hwmon/hwmon5/name", "BAT0\n"),
                ("class/hwmon/hwmon5/device/type", "Battery\n"),
                ("class/hwmon/hwmon5/power1_input", "1\n"),
                ("class/hwmon/hwmon6/name", "coretemp\n"),
                ("class/hwmon/hwmon6/temp1_input", "1\n"),
            ]
            .into(),
        );
        let found: Vec<String> = sensors(&tree)
            .iter()
            .map(|sensor| {
                format!("{} from {}", sensor.in_column(), sensor.file.trim_start_matches("class/hwmon/"))
            })
            .collect();
        let expected = [
            "ina226-0.3_3 V from hwmon2/power1_input",
            "ina226-0.3_3 V power2 from hwmon2/power2_input",
            "power_meter-0.power1 from hwmon3/power1_average",
            "amd_energy-0.Esocket0 from hwmon4/energy1_input",
            "power_meter-1.power1 from hwmon10/power1_average",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn supplies_are_those_of_the_machine() {
        let tree = Files(
            [
                ("class/power_supply/AC/type", "Mains\n"),
                ("class/power_supply/AC/online", "0\n"),
                ("class/power_supply/BAT0/type", "Battery\n"),
                ("class/power_supply/BAT0/status", "Discharging\n"),
                ("class/power_supply/BAT0/current_now", "1\n"),
                ("class/power_supply/BAT0/voltage_now", "1\n"),
                ("class/power_supply/BAT1/type", "Battery\n"),
                ("class/power_supply/BAT1/status", "Not charging\n"),
                ("class/power_supply/BAT1/power_now", "1\n"),
                ("class/power_supply/hidpp_battery_0/type", "Battery\n"),
                ("class/power_supply/hidpp_battery_0/status", "Discharging\n"),
                ("class/power_supply/hidpp_battery_0/scope", "Device\n"),
                ("class/power_supply/ucsi-source-psy-USBC000:001/type", "USB\n"),
                ("class/power_supply/ucsi-source-psy-USBC000:001/online", "1\n"),
                ("class/power_supply/ups/type", "UPS\n"),
            ]
            .into(),
        );
        let battery = |name: &str, status: &str, shows| Supply {
            name: name.into(),
            kind: SupplyKind::Battery { status: status.into(), shows: Some(shows) },
        };
        let outside = |name: &str, online| Supply { name: name.into(), kind: SupplyKind::Outside { online } };
        let expected = [
            outside("AC", false),
            battery("BAT0", "Discharging", BatteryShows::CurrentAndVoltage),
            battery("BAT1", "Not charging", BatteryShows::Power),
            outside("ucsi-source-psy-USBC000:001", true),
        ];
        assert_eq!(supplies(&tree), expected);
    }
}
