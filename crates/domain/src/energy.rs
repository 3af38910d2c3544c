//! Where the joules and watts of a trial come from: which sources there are, in which order they are taken,
//! and which sensors may stand for the machine.
//!
//! One source is taken, the first that there is; two are never summed, for they measure the same joules. The
//! sensors of hwmon are of anything: the machine, a processor, a graphics card, a rail of a board. So one is
//! taken where it is known to be of the machine or of its processors, or where there is no other; where that
//! cannot be told, none is.
//!
//! Source: kernel `Documentation/hwmon/sysfs-interface.rst`, `Documentation/ABI/testing/sysfs-class-power`,
//! and the drivers that [`CHIPS`] names.

use serde::{Deserialize, Serialize};

/// Where energy comes from, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EnergySource {
    /// Counters of RAPL domains (`/sys/class/powercap`).
    Rapl,
    /// Sensors of hwmon that count energy (`energyN_input`).
    HwmonEnergy,
    /// A sensor of hwmon that shows power (`powerN_average`, else `powerN_input`): sampled, and integrated.
    HwmonPower,
    /// What batteries deliver while the machine runs on them: sampled, and integrated.
    Battery,
}

impl EnergySource {
    /// All of them, in the order in which they are taken.
    pub const ALL: [Self; 4] = [Self::Rapl, Self::HwmonEnergy, Self::HwmonPower, Self::Battery];

    /// As it is stored.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rapl => "rapl",
            Self::HwmonEnergy => "hwmon_energy",
            Self::HwmonPower => "hwmon_power",
            Self::Battery => "battery",
        }
    }

    /// The source of such a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }

    /// As it is shown.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Rapl => "RAPL",
            Self::HwmonEnergy | Self::HwmonPower => "hwmon",
            Self::Battery => "battery",
        }
    }

    /// Whether it shows power, which is sampled, and not energy, which is counted.
    pub const fn is_sampled(self) -> bool {
        matches!(self, Self::HwmonPower | Self::Battery)
    }
}

/// What the energy of a trial was measured by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnergyAccount {
    /// The source.
    pub source: EnergySource,
    /// What of it was summed: `package-0`, `power_meter-0 power1`, `BAT0`.
    pub of: Vec<String>,
    /// How many readings of power the sum is of; `None` where energy was counted.
    pub readings: Option<u64>,
}

impl EnergyAccount {
    /// `RAPL, package-0`; `battery, BAT0: sampled power, 61 readings`.
    pub fn in_words(&self) -> String {
        let what = self.what();
        match self.readings {
            None => what,
            Some(1) => format!("{what}: sampled power, 1 reading"),
            Some(readings) => format!("{what}: sampled power, {readings} readings"),
        }
    }

    /// The same without the number of readings.
    pub fn what(&self) -> String {
        format!("{}, {}", self.source.title(), self.of.join(", "))
    }
}

/// What a column counts the energy of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A whole processor, or a die of it; with other sources than RAPL what its sensor is of: the machine.
    Whole,
    /// The cores of a processor.
    Cores,
    /// The memory at one.
    Memory,
}

/// The columns of a trace by which its energy is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnergyColumns {
    /// The source that they are of.
    pub source: EnergySource,
    /// The number of each, what it is of, and what that is called.
    pub columns: Vec<(usize, Part, String)>,
}

impl EnergyColumns {
    /// Those of the first source that has a column of the whole; `None` where none has. Of columns of hwmon
    /// that are of several sensors for one whole, none are: their sum is nobody's energy.
    pub fn of<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Option<Self> {
        EnergySource::ALL.into_iter().find_map(|source| {
            let part = |(column, name): (usize, &str)| {
                part(source, name).map(|(part, of)| (column, part, of.to_owned()))
            };
            let columns: Vec<(usize, Part, String)> = names.clone().enumerate().filter_map(part).collect();
            let whole = columns.iter().filter(|(_, part, _)| *part == Part::Whole);
            let is_one = match source {
                EnergySource::Rapl | EnergySource::Battery => whole.count() > 0,
                EnergySource::HwmonEnergy => {
                    let mut whole = whole.map(|(.., of)| is_socket(of)).peekable();
                    let first = whole.peek().copied();
                    first == Some(true) && whole.clone().all(|socket| socket) || whole.count() == 1
                }
                EnergySource::HwmonPower => whole.count() == 1,
            };
            is_one.then_some(Self { source, columns })
        })
    }
}

/// The whole machine runs on its batteries: the column of a trace that says so.
pub const ON_BATTERY: &str = "supply.on_battery";

/// What a column of this source is of, and what that is called. A part of a package that is neither cores nor
/// memory, and the platform as a whole (`psys`), which contains packages, are not summed.
fn part(source: EnergySource, column: &str) -> Option<(Part, &str)> {
    match source {
        EnergySource::Rapl => {
            let zone = column.strip_prefix("rapl.")?.strip_suffix(".uj")?;
            match zone.rsplit_once('.') {
                None => zone.starts_with("package").then_some((Part::Whole, zone)),
                Some((_, "core")) => Some((Part::Cores, zone)),
                Some((_, "dram")) => Some((Part::Memory, zone)),
                Some(_) => None,
            }
        }
        EnergySource::HwmonEnergy => {
            let sensor = column.strip_prefix("hwmon.")?.strip_suffix(".uj")?;
            Some((if is_core(sensor) { Part::Cores } else { Part::Whole }, sensor))
        }
        EnergySource::HwmonPower => {
            let sensor = column.strip_prefix("hwmon.")?;
            let sensor = sensor.strip_suffix(".average_uw").or_else(|| sensor.strip_suffix(".uw"))?;
            Some((Part::Whole, sensor))
        }
        EnergySource::Battery => Some((Part::Whole, column.strip_prefix("battery.")?.strip_suffix(".uw")?)),
    }
}

/// `amd_energy-0.Ecore003` (`Documentation/hwmon/amd_energy.rst` of 5.8 to 5.12).
fn is_core(sensor: &str) -> bool {
    sensor.strip_prefix("amd_energy-").and_then(|rest| rest.split_once(".Ecore")).is_some()
}

/// `amd_energy-0.Esocket1`.
fn is_socket(sensor: &str) -> bool {
    sensor.strip_prefix("amd_energy-").and_then(|rest| rest.split_once(".Esocket")).is_some()
}

/// Which attribute of hwmon a sensor is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SensorKind {
    /// `energyN_input`: microjoules since its driver was loaded.
    Energy,
    /// `powerN_average`: microwatts, mean over an interval of the sensor's.
    PowerAverage,
    /// `powerN_input`: microwatts now.
    PowerInput,
}

/// A sensor of energy or power.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerSensor {
    /// The chip's name, and which of those of this name it is: `power_meter-0`.
    pub chip: String,
    /// Its label, else what its files begin with: `Esocket0`, `power1`.
    pub name: String,
    /// What it shows.
    pub kind: SensorKind,
    /// Its file below `/sys`.
    pub file: String,
}

/// What a sensor is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// The machine or its processors, as is known of its chip or said by its label.
    Whole,
    /// A part of the machine that is none of its processors.
    Device,
    /// Nothing says what.
    Unknown,
}

/// Chips of which is known what they measure, by their names or the beginnings of these.
///
/// | chip | kernel file |
/// |---|---|
/// | `power_meter` | drivers/hwmon/acpi_power_meter.c |
/// | `fam15h_power` | drivers/hwmon/fam15h_power.c: the processor |
/// | `amdgpu`, `radeon`, `nouveau`, `i915`, `xe` | graphics cards: drivers/gpu/drm/…; a reading can wake one |
/// | `sfp` | drivers/net/phy/sfp.c: light of a network's transceiver |
const CHIPS: [(&str, Scope); 8] = [
    ("power_meter", Scope::Whole),
    ("fam15h_power", Scope::Whole),
    ("amdgpu", Scope::Device),
    ("radeon", Scope::Device),
    ("nouveau", Scope::Device),
    ("i915", Scope::Device),
    ("xe", Scope::Device),
    ("sfp", Scope::Device),
];

/// Words of a label that say that the sensor is of the whole machine: `System` (ibmpowernv), `Total System
/// Power` (macsmc-hwmon), `power total` (corsair-psu).
const WHOLE: [&str; 2] = ["system", "total"];

impl PowerSensor {
    /// As it is named in a column and in text: `power_meter-0.power1`.
    pub fn in_column(&self) -> String {
        format!("{}.{}", self.chip, self.name)
    }

    /// As people read it: `power_meter-0 power1`.
    pub fn in_words(&self) -> String {
        format!("{} {}", self.chip, self.name)
    }

    fn scope(&self) -> Scope {
        let chip = self.chip.rsplit_once('-').map_or(self.chip.as_str(), |(chip, _)| chip);
        let is_it = |known: &str| chip == known || (known == "sfp" && chip.starts_with("sfp"));
        if let Some((_, scope)) = CHIPS.into_iter().find(|(known, _)| is_it(known)) {
            return scope;
        }
        let says_whole = |word: &str| WHOLE.iter().any(|whole| word.eq_ignore_ascii_case(whole));
        if self.name.split([' ', '_']).any(says_whole) { Scope::Whole } else { Scope::Unknown }
    }

    fn source(&self) -> EnergySource {
        match self.kind {
            SensorKind::Energy => EnergySource::HwmonEnergy,
            SensorKind::PowerAverage | SensorKind::PowerInput => EnergySource::HwmonPower,
        }
    }
}

/// The sensors that stand for the machine, all of one source: counters of energy before power.
///
/// # Errors
/// Why there are none, where there are sensors; empty where there is none at all.
pub fn chosen(sensors: &[PowerSensor]) -> Result<(EnergySource, Vec<&PowerSensor>), String> {
    let of = |source| sensors.iter().filter(move |sensor| sensor.source() == source);
    for source in [EnergySource::HwmonEnergy, EnergySource::HwmonPower] {
        let sockets: Vec<&PowerSensor> = of(source).filter(|s| is_socket(&s.in_column())).collect();
        if !sockets.is_empty() {
            let cores = of(source).filter(|sensor| is_core(&sensor.in_column()));
            return Ok((source, sockets.into_iter().chain(cores).collect()));
        }
        let with = |scope| of(source).filter(move |sensor| sensor.scope() == scope).collect::<Vec<_>>();
        let (whole, unknown) = (with(Scope::Whole), with(Scope::Unknown));
        match (&whole[..], &unknown[..]) {
            ([one], _) | ([], [one]) => return Ok((source, vec![one])),
            _ => {}
        }
    }
    let named = |scope| {
        let all = sensors.iter().filter(move |sensor| sensor.scope() == scope);
        all.map(|sensor| format!("`{}`", sensor.in_words())).collect::<Vec<_>>()
    };
    let several: Vec<String> = [named(Scope::Whole), named(Scope::Unknown)].concat();
    let of_devices = named(Scope::Device);
    Err(match (several.is_empty(), of_devices.is_empty()) {
        (false, _) => format!("nothing says which sensor of hwmon is of the machine: {}", several.join(", ")),
        (true, false) => format!("the sensors of hwmon are of devices: {}", of_devices.join(", ")),
        (true, true) => String::new(),
    })
}

/// A power supply (`/sys/class/power_supply`) of the machine; one of a device at it, as of a mouse, is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supply {
    /// `BAT0`, `AC`.
    pub name: String,
    /// What it is: `battery` or what supplies the machine from outside.
    #[serde(flatten)]
    pub kind: SupplyKind,
}

/// What kind of supply it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum SupplyKind {
    /// A battery.
    Battery {
        /// `Charging`, `Discharging`, `Not charging`, `Full`, `Unknown`.
        status: String,
        /// What its power follows from; `None` where it shows neither.
        shows: Option<BatteryShows>,
    },
    /// Mains, USB, or a pad.
    Outside {
        /// Whether it supplies the machine now.
        online: bool,
    },
}

/// What a battery's power follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatteryShows {
    /// `power_now`.
    Power,
    /// `current_now` and `voltage_now`.
    CurrentAndVoltage,
}

/// What a battery says while it delivers.
pub const DISCHARGING: &str = "Discharging";

/// Whether the machine runs on its batteries, and each shows what it delivers.
///
/// # Errors
/// Why not; empty where there is no battery.
pub fn discharging(supplies: &[Supply]) -> Result<(), String> {
    let batteries = || {
        supplies.iter().filter_map(|supply| match &supply.kind {
            SupplyKind::Battery { status, shows } => Some((supply.name.as_str(), status.as_str(), *shows)),
            SupplyKind::Outside { .. } => None,
        })
    };
    let states: Vec<String> =
        batteries().map(|(name, status, _)| format!("`{name}` is `{status}`")).collect();
    if states.is_empty() {
        return Err(String::new());
    }
    if !batteries().any(|(_, status, _)| status == DISCHARGING) {
        return Err(format!("the machine does not run on battery: {}", states.join(", ")));
    }
    if let Some(supply) = supplies.iter().find(|supply| supply.kind == SupplyKind::Outside { online: true }) {
        return Err(format!("the machine does not run on battery alone: `{}` supplies it", supply.name));
    }
    match batteries().find(|(.., shows)| shows.is_none()) {
        Some((name, ..)) => {
            Err(format!("`{name}` shows neither `power_now` nor `current_now` with `voltage_now`"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sensor(chip: &str, name: &str, kind: SensorKind) -> PowerSensor {
        PowerSensor { chip: chip.into(), name: name.into(), kind, file: String::new() }
    }

    fn taken(sensors: &[PowerSensor]) -> Result<(EnergySource, Vec<String>), String> {
        chosen(sensors).map(|(source, all)| (source, all.into_iter().map(PowerSensor::in_words).collect()))
    }

    #[test]
    fn counters_of_energy_go_before_power_and_sockets_are_summed_like_packages() {
        use SensorKind::{Energy, PowerAverage};
        let amd = [
            sensor("power_meter-0", "power1", PowerAverage),
            sensor("amd_energy-0", "Ecore000", Energy),
            sensor("amd_energy-0", "Esocket0", Energy),
            sensor("amd_energy-0", "Esocket1", Energy),
        ];
        let of = ["amd_energy-0 Esocket0", "amd_energy-0 Esocket1", "amd_energy-0 Ecore000"];
        assert_eq!(taken(&amd), Ok((EnergySource::HwmonEnergy, of.map(String::from).to_vec())));
        assert_eq!(taken(&amd[..1]), Ok((EnergySource::HwmonPower, vec!["power_meter-0 power1".into()])));
    }

    #[test]
    fn a_sensor_is_taken_that_is_of_the_machine_or_alone() {
        use SensorKind::{Energy, PowerInput};
        let apple = [
            sensor("macsmc_hwmon-0", "AC Input Power", PowerInput),
            sensor("macsmc_hwmon-0", "Total System Power", PowerInput),
        ];
        let of = |name: &str| Ok((EnergySource::HwmonPower, vec![name.to_owned()]));
        assert_eq!(taken(&apple), of("macsmc_hwmon-0 Total System Power"));
        // A graphics card that counts its energy is no reason to leave out the machine's power.
        let with_card = [sensor("i915-0", "energy1", Energy), sensor("ina226-0", "power1", PowerInput)];
        assert_eq!(taken(&with_card), of("ina226-0 power1"));
    }

    #[test]
    fn no_sensor_is_taken_where_nothing_says_which_is_of_the_machine() {
        use SensorKind::{PowerAverage, PowerInput};
        let rails = [sensor("ina3221-0", "CPU", PowerInput), sensor("ina3221-0", "GPU", PowerInput)];
        let why = taken(&rails).unwrap_err();
        assert!(why.contains("`ina3221-0 CPU`, `ina3221-0 GPU`"), "{why}");
        let cards = [sensor("amdgpu-0", "PPT", PowerAverage), sensor("sfp0-0", "RX_power", PowerInput)];
        assert!(taken(&cards).unwrap_err().contains("are of devices: `amdgpu-0 PPT`"));
        assert_eq!(taken(&[]), Err(String::new()));
    }

    fn battery(name: &str, status: &str, shows: Option<BatteryShows>) -> Supply {
        Supply { name: name.into(), kind: SupplyKind::Battery { status: status.into(), shows } }
    }

    #[test]
    fn a_battery_counts_only_while_the_machine_runs_on_it() {
        let power = Some(BatteryShows::Power);
        let mains = |online| Supply { name: "AC".into(), kind: SupplyKind::Outside { online } };
        let why = |supplies: &[Supply]| discharging(supplies).unwrap_err();
        let on = battery("BAT0", DISCHARGING, power);
        assert_eq!(discharging(&[on.clone(), battery("BAT1", "Unknown", power), mains(false)]), Ok(()));
        assert!(why(&[on.clone(), mains(true)]).contains("`AC` supplies it"));
        assert!(why(&[battery("BAT0", "Full", power), mains(false)]).ends_with("`BAT0` is `Full`"));
        assert!(why(&[battery("BAT0", "Charging", power)]).ends_with("`BAT0` is `Charging`"));
        assert!(why(&[battery("BAT0", DISCHARGING, None)]).contains("neither `power_now`"));
        assert_eq!(why(&[mains(true)]), "", "there is none");
    }

    fn columns(names: &[&str]) -> Option<(EnergySource, Vec<(Part, String)>)> {
        let found = EnergyColumns::of(names.iter().copied())?;
        Some((found.source, found.columns.into_iter().map(|(_, part, of)| (part, of)).collect()))
    }

    #[test]
    fn one_source_is_taken_and_two_are_never_summed() {
        let all = [
            "cpu.user",
            "battery.BAT0.uw",
            "hwmon.power_meter-0.power1.average_uw",
            "hwmon.amd_energy-0.Esocket0.uj",
            "hwmon.amd_energy-0.Ecore001.uj",
            "rapl.package-0.uj",
            "rapl.package-0.dram.uj",
            "rapl.package-0.uncore.uj",
            "rapl.psys.uj",
        ];
        let whole = |of: &str| (Part::Whole, of.to_owned());
        let rapl = vec![whole("package-0"), (Part::Memory, "package-0.dram".into())];
        assert_eq!(columns(&all), Some((EnergySource::Rapl, rapl)));
        let counted = vec![whole("amd_energy-0.Esocket0"), (Part::Cores, "amd_energy-0.Ecore001".into())];
        assert_eq!(columns(&all[..5]), Some((EnergySource::HwmonEnergy, counted)));
        let power = vec![whole("power_meter-0.power1")];
        assert_eq!(columns(&all[..3]), Some((EnergySource::HwmonPower, power)));
        assert_eq!(columns(&all[..2]), Some((EnergySource::Battery, vec![whole("BAT0")])));
        assert_eq!(columns(&all[..1]), None);
        assert_eq!(columns(&["rapl.psys.uj", "battery.BAT0.uw"]).unwrap().0, EnergySource::Battery);
    }

    #[test]
    fn sensors_of_one_whole_are_not_summed() {
        assert_eq!(columns(&["hwmon.a-0.power1.uw", "hwmon.b-0.power1.uw"]), None);
        assert_eq!(columns(&["hwmon.a-0.energy1.uj", "hwmon.amd_energy-0.Esocket0.uj"]), None);
        let sockets = ["hwmon.amd_energy-0.Esocket0.uj", "hwmon.amd_energy-0.Esocket1.uj"];
        assert_eq!(columns(&sockets).unwrap().1.len(), 2);
        assert_eq!(columns(&["hwmon.a-0.energy1.uj"]).unwrap().1.len(), 1);
    }

    #[test]
    fn an_account_says_what_was_measured_and_whether_it_was_sampled() {
        let account = |source, of: &[&str], readings| {
            let of = of.iter().map(|of| (*of).to_owned()).collect();
            EnergyAccount { source, of, readings }.in_words()
        };
        let rapl = account(EnergySource::Rapl, &["package-0", "package-1"], None);
        assert_eq!(rapl, "RAPL, package-0, package-1");
        let battery = account(EnergySource::Battery, &["BAT0"], Some(61));
        assert_eq!(battery, "battery, BAT0: sampled power, 61 readings");
        for source in EnergySource::ALL {
            assert_eq!(EnergySource::from_name(source.name()), Some(source));
        }
    }
}
